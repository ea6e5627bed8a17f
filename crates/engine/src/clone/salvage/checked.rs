//! Checks the objects of a resumed transfer (`transfer.fsckObjects`).
//!
//! A tree may be in one pack and the `.gitmodules` that it names in another one. So the packs are
//! read once more, by one checker, when all of them are there.

use std::path::Path;

use repo::{
    fsck::{Absent, Checker},
    objects::Objects,
    pack_indexing,
};
use sys::by_path;

use super::{Error, Fetch, Program, incoming, io_error, packs_in};

/// Returns an error if the rules refuse an object in the packs.
pub(super) fn check(transfer: &Path, fetch: &Fetch<'_>) -> Result<(), Error> {
    let packs = fetch.packs;
    let Some(rules) = packs.rules else { return Ok(()) };
    let checker = Checker::new(rules.clone(), packs.settings.big_file_threshold);
    let meter = pack_indexing::Meter::default();
    let store_options = &packs.options(transfer, fetch.promisor_content());
    let options =
        pack_indexing::Options { observer: Some(&checker), meter: &meter, ..store_options.options() };
    let refused = |program| move |cause| incoming::refused(store_options, program, cause);
    let directory = transfer.join("pack");
    for path in packs_in(&directory).map_err(io_error("opendir", &directory))? {
        let file = by_path::open(&path).map_err(io_error("open", &path))?;
        let read = crate::pack_indexing::index(&file, &path, &options);
        read.map_err(refused(Program::IndexPack))?;
        let verdict = checker.verdict(&mut |line| packs.say(line));
        verdict.map_err(|cause| refused(Program::IndexPack)(cause.into()))?;
    }
    let objects = Objects::new(transfer, packs.hash);
    let finished = checker.finish(&objects, Absent::Ignored, &mut |line| packs.say(line));
    finished.map_err(|cause| refused(Program::NamedPack)(cause.into()))?;
    Ok(())
}
