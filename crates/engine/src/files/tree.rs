//! Visits directory trees through handles, so that no link is followed.

use std::io;

/// The deepest level that is visited. A deeper path exceeds the system's limit for path lengths.
const MAX_DEPTH: usize = 2048;

/// Receives an entry: its directory, its name and its stat.
type Visitor<'v> = dyn FnMut(&sys::Dir, &[u8], &sys::Stat) -> io::Result<()> + 'v;

/// Visits the entries below `dir`, children before their directory. Ends at the first error.
pub(crate) fn visit(dir: &sys::Dir, visitor: &mut Visitor<'_>) -> io::Result<()> {
    descend(dir, 0, visitor)
}

fn descend(dir: &sys::Dir, depth: usize, visitor: &mut Visitor<'_>) -> io::Result<()> {
    if depth == MAX_DEPTH {
        return Err(io::ErrorKind::InvalidFilename.into());
    }
    for (name, _) in dir.list()? {
        let Some(stat) = dir.stat(&name)? else { continue };
        if stat.file_type == sys::FileType::Directory {
            descend(&dir.open_dir(&name)?, depth + 1, visitor)?;
        }
        visitor(dir, &name, &stat)?;
    }
    Ok(())
}
