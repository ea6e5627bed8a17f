//! The notices after a crash of the machine.

use std::os::unix::ffi::OsStrExt as _;

use bstr::ByteSlice as _;
use engine::workspace::{
    crash::{self, Damage},
    record::Workspace,
};

use crate::{Error, Events, Notice, text};

/// More paths than this are counted, not reported. The notice names all of them.
const SHOWN: usize = 20;

/// Reports what a mount found after a crash. The first `known` entries of the notice are
/// old.
pub fn tell(workspace: &Workspace, known: usize, events: &dyn Events) -> Result<(), Error> {
    let found = crash::Notice::read(&workspace.state)?;
    let new = found.findings.get(known..).unwrap_or_default();
    if new.is_empty() {
        return Ok(());
    }
    let name = workspace.name.as_bytes();
    events.notice(Notice::Crashed(name.into()));
    for finding in new.iter().take(SHOWN) {
        let text = text!("  '", finding.path.as_bstr(), "' ", meaning(finding.damage));
        events.notice(Notice::CrashFinding(text));
    }
    if new.len() > SHOWN {
        events.notice(Notice::CrashFinding(format!("  and {} more", new.len() - SHOWN).into()));
    }
    events.notice(Notice::CrashFile(crash::Notice::place(&workspace.state)));
    Ok(())
}

fn meaning(damage: Damage) -> &'static str {
    match damage {
        Damage::Restored => "was incomplete and held nothing of yours: it is as in the base",
        Damage::Completed => "lacked bytes of the base: they are there again",
        Damage::Incomplete => "was changed before the crash, and a part of it is missing",
        Damage::Shorter => "is shorter than in the base: look whether you shortened it",
        Damage::Misplaced => "is a renamed directory whose content is missing",
    }
}
