//! Checks the objects of a resumed transfer (`transfer.fsckObjects`).
//!
//! A tree may be in one pack and the `.gitmodules` that it names in another one. So the packs are
//! read once more, by one checker, when all of them are there.

use std::{path::Path, sync::atomic::AtomicBool};

use repo::{
    fsck::{Absent, Checker},
    indexing,
    objects::Objects,
};
use sys::by_path;

use super::{Error, Event, Program, Wanted, incoming, io_error, packs_in, store_options};
use crate::clone::objects::say;

/// Returns an error if the rules refuse an object in the packs.
pub(super) fn check(
    transfer: &Path,
    wanted: &Wanted<'_>,
    events: &(dyn Fn(Event<'_>) + Sync),
    interrupt: &AtomicBool,
) -> Result<(), Error> {
    let Some(rules) = wanted.rules else { return Ok(()) };
    let checker = Checker::new(rules.clone(), wanted.pack_settings.big_file_threshold);
    let meter = indexing::Meter::default();
    let store_options = &store_options(transfer, wanted, interrupt);
    let options = indexing::Options { observer: Some(&checker), meter: &meter, ..store_options.options() };
    let refused = |program| move |cause| incoming::refused(store_options, program, cause);
    let packs = transfer.join("pack");
    for path in packs_in(&packs).map_err(io_error("opendir", &packs))? {
        let file = by_path::open(&path).map_err(io_error("open", &path))?;
        let read = crate::indexing::index(&file, &path, &options);
        read.map_err(refused(Program::IndexPack))?;
        let verdict = checker.verdict(&mut |line| say(line, events));
        verdict.map_err(|cause| refused(Program::IndexPack)(cause.into()))?;
    }
    let objects = Objects::new(transfer, wanted.hash);
    let finished = checker.finish(&objects, Absent::Ignored, &mut |line| say(line, events));
    finished.map_err(|cause| refused(Program::NamedPack)(cause.into()))?;
    Ok(())
}
