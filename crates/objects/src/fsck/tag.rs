//! Tags. Source: Git's `fsck_tag`.

use bstr::ByteSlice as _;
use format::{
    ObjectId,
    refname::{self, Levels},
};

use super::{Id, Refusal, Report, commit::person, header, headers, line};

pub(super) fn check(report: &mut Report<'_>, content: &[u8]) -> Result<(), Refusal> {
    headers(report, content)?;
    let mut rest = content;
    let Some(object) = header(&mut rest, b"object") else {
        return report.flaw(Id::MissingObject, "invalid format - expected 'object' line");
    };
    if ObjectId::from_hex(report.rules.hash, object).is_none() {
        report.flaw(Id::BadObjectSha1, "invalid 'object' line format - bad sha1")?;
    }
    if !rest.starts_with(b"type ") {
        return report.flaw(Id::MissingTypeEntry, "invalid format - expected 'type' line");
    }
    let Some(kind) = header(&mut rest, b"type") else {
        return report.flaw(Id::MissingType, "invalid format - unexpected end after 'type' line");
    };
    if ![&b"commit"[..], b"tree", b"blob", b"tag"].contains(&kind) {
        report.flaw(Id::BadType, "invalid 'type' value")?;
    }
    if !rest.starts_with(b"tag ") {
        return report.flaw(Id::MissingTagEntry, "invalid format - expected 'tag' line");
    }
    let Some(name) = header(&mut rest, b"tag") else {
        return report.flaw(Id::MissingTag, "invalid format - unexpected end after 'type' line");
    };
    let full = [b"refs/tags/", name].concat();
    if refname::check(full.as_bstr(), Levels::Two).is_err() {
        report.flaw(Id::BadTagName, [b"invalid 'tag' name: ", name].concat())?;
    }
    // As in Git, the result of an ignored later flaw replaces that of the tagger.
    let mut answer = match header(&mut rest, b"tagger") {
        None => report.flaw(Id::MissingTaggerEntry, "invalid format - expected 'tagger' line"),
        Some(tagger) => person(report, tagger),
    };
    if answer.is_err() && !content_has_tagger(content) {
        return answer;
    }
    if rest.starts_with(b"gpgsig ") || rest.starts_with(b"gpgsig-sha256 ") {
        if line(&mut rest).is_none() {
            let message = "invalid format - unexpected end after 'gpgsig' or 'gpgsig-sha256' line";
            return report.flaw(Id::BadGpgsig, message);
        }
        while rest.starts_with(b" ") {
            if line(&mut rest).is_none() {
                let message =
                    "invalid format - unexpected end in 'gpgsig' or 'gpgsig-sha256' continuation line";
                return report.flaw(Id::BadHeaderContinuation, message);
            }
        }
    }
    if !rest.is_empty() && !rest.starts_with(b"\n") {
        answer = report.flaw(Id::ExtraHeaderEntry, "invalid format - extra header(s) after 'tagger'");
    }
    answer
}

fn content_has_tagger(content: &[u8]) -> bool {
    content.lines().take_while(|line| !line.is_empty()).any(|line| line.starts_with(b"tagger "))
}
