//! The newer layer after a crash. Nobody wrote its files in the workspace, so each of them has the
//! bytes of the base again.
//!
//! The files are repaired in place: copies in the upper layer name their inodes. A repair that is
//! killed leaves the mark of the crash, and the next mount repeats it. Symbolic links are not
//! examined: the file systems that hold an upper layer write their targets with the journal.

use std::{
    path::Path,
    time::{Duration, UNIX_EPOCH},
};

use bstr::ByteSlice as _;

use super::{
    super::{
        backend::{Error, Layers},
        newer::Plan,
    },
    compare::{Comparison, Sized, compare, fill},
    examine::edit,
    origin::Lower,
};
use crate::files::own;

/// Gives the files of the newer layer at `dir` the bytes of the base, which is visible at its
/// place. Their times stay.
pub(super) fn restore(layers: &Layers, dir: &Path) -> Result<(), Error> {
    let plan = Plan::read(dir).map_err(|source| Error::Newer(Box::new(source)))?;
    let base = Lower::open(&Layers { frozen: Vec::new(), ..layers.clone() })?;
    let root = own::open(dir).map_err(Error::io("open", dir))?;
    for path in plan.files.keys().map(|path| path.as_bstr()) {
        let failed = || Error::io("restore", &dir.join(sys::os_str(path)));
        let Some(origin) = base.at(path)? else { continue };
        let content = base.content(&origin)?;
        let file = root.open_file(path).map_err(failed())?;
        let stat = sys::stat_of(&file).map_err(failed())?;
        let data = sys::data_ranges(&file, stat.size).map_err(failed())?;
        let size = origin.stat.size;
        let (copy, whole) = (Sized { file: &file, size: stat.size }, Sized { file: &content, size });
        if compare(copy, &data, whole).map_err(failed())? == Comparison::default() {
            continue;
        }
        let modified = UNIX_EPOCH + Duration::new(stat.mtime.0.try_into().unwrap_or(0), stat.mtime.1);
        let everything = 0..size;
        let repaired = edit(&root, path, |file| {
            fill(file, &content, &[everything])?;
            file.set_len(size)?;
            file.set_modified(modified)
        });
        repaired.map_err(failed())?;
    }
    Ok(())
}
