//! `.gitmodules` and `.gitattributes`. Source: Git's `fsck_blob`.

use bstr::{BStr, ByteSlice as _};
use format::config;

use super::{Id, Report, Roles, url};

/// Git's limits for attribute files.
const LONGEST_LINE: usize = 2048;
const LARGEST_ATTRIBUTES: usize = 100 << 20;

/// Returns true if the blob is refused. `content` is `None` if it is too large to keep in memory.
pub(super) fn check(report: &mut Report<'_>, content: Option<&[u8]>, roles: Roles) -> bool {
    let mut is_refused = false;
    if roles.modules {
        let Some(content) = content else {
            return report.flaw(Id::GitmodulesLarge, ".gitmodules too large to parse").is_err();
        };
        is_refused |= modules(report, content);
    }
    if roles.attributes {
        let Some(content) = content.filter(|content| content.len() <= LARGEST_ATTRIBUTES) else {
            return report.flaw(Id::GitattributesLarge, ".gitattributes too large to parse").is_err();
        };
        // Git stops at a NUL.
        let text = content.split(|byte| *byte == 0).next().unwrap_or_default();
        if text.split(|byte| *byte == b'\n').any(|line| line.len() >= LONGEST_LINE) {
            let message = ".gitattributes has too long lines to parse";
            is_refused |= report.flaw(Id::GitattributesLineLength, message).is_err();
        }
    }
    is_refused
}

fn modules(report: &mut Report<'_>, content: &[u8]) -> bool {
    let mut is_refused = false;
    let is_whole = config::parse_leading(content, &mut |config::Pair { key, value, .. }| {
        let Some(rest) = key.strip_prefix(b"submodule.") else { return };
        let Some((name, key)) = rest.rsplit_once_str(".") else { return };
        let mut flaw = |id, what: &str, text: &[u8]| {
            let message = [b"disallowed submodule ", what.as_bytes(), b": ", text].concat();
            is_refused |= report.flaw(id, message).is_err();
        };
        if !is_name(name.as_bstr()) {
            flaw(Id::GitmodulesName, "name", name);
        }
        let Some(value) = value else { return };
        match key {
            b"url" if !url::is_safe(value.as_bstr()) => flaw(Id::GitmodulesUrl, "url", &value),
            b"path" if value.starts_with(b"-") => flaw(Id::GitmodulesPath, "path", &value),
            b"update" if value.starts_with(b"!") => {
                flaw(Id::GitmodulesUpdate, "update setting", &value);
            }
            _ => {}
        }
    });
    if !is_whole {
        is_refused |= report.flaw(Id::GitmodulesParse, "could not parse gitmodules blob").is_err();
    }
    is_refused
}

/// Returns true if this is a valid submodule name: it becomes a path below `modules`.
fn is_name(name: &BStr) -> bool {
    !name.is_empty() && !name.split(|byte| matches!(byte, b'/' | b'\\')).any(|part| part == b"..")
}
