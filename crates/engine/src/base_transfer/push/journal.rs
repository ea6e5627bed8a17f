//! The tables of pushes that have no manifest yet: a list in the base directory for each remote.
//!
//! A push that was killed has sent segments that nothing names. The next one from here finds them.

use std::{collections::HashSet, io::Write as _, path::PathBuf};

use format::{
    ObjectId,
    base_files::{DataFile, Digest, manifest, table},
};
use sys::by_path;

use super::super::{
    Context, Error,
    records::address,
    scratch::Scratch,
    stock::{Counter, Stock},
};

/// The file that names the tables of pushes to this remote which have no manifest yet.
fn path(context: &Context<'_>) -> PathBuf {
    let name = Digest::of(address(context.remote).as_bytes()).to_string();
    context.bases.dir().join(format!(".sent-{}", &name[..16]))
}

/// Notes a table. A line that is lost costs the next push time.
pub(super) fn note(context: &Context<'_>, table: &manifest::Table) {
    let line = format!(
        "{} {} {} {}\n",
        table.file.digest, table.file.size, table.segment.digest, table.segment.size
    );
    if let Ok(mut file) = by_path::lock_file(&path(context), 0o600) {
        let _ = file.write_all(line.as_bytes());
    }
}

/// Removes the notes: a manifest names the tables now.
pub(super) fn forget(context: &Context<'_>) {
    let _ = by_path::remove_file(&path(context));
}

/// Returns the tables of a push that was killed and whose files are still there, beside `names`.
pub(super) fn read(
    context: &Context<'_>,
    scratch: &Scratch,
    names: &HashSet<Digest>,
) -> Result<Vec<(manifest::Table, table::Table)>, Error> {
    let text = by_path::read(&path(context)).ok().flatten().unwrap_or_default();
    let text = String::from_utf8(text).unwrap_or_default();
    let parse = |line: &str| {
        let mut words = line.split(' ');
        let mut file = || {
            let digest = words.next()?.parse().ok()?;
            Some(DataFile { digest, size: words.next()?.parse().ok()? })
        };
        // The time is unknown, so the files are renewed.
        Some(manifest::Table { file: file()?, segment: file()?, renewed: 0 })
    };
    let mut found = Vec::new();
    let mut seen = names.clone();
    for named in text.lines().filter_map(parse) {
        if !seen.insert(named.file.digest) {
            continue;
        }
        let is_there =
            context.remote.has(&named.segment.digest)? && context.remote.has(&named.file.digest)?;
        if !is_there {
            continue;
        }
        let commit = ObjectId::null(context.repo.hash());
        let stock = Stock { context, scratch, commit, requests: Counter::default() };
        if let Ok(table) = stock.table(&named) {
            found.push((named, table));
        }
    }
    Ok(found)
}
