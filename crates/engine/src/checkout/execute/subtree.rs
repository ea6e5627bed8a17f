//! Directories with all they hold, reached through handles: no link is followed on the way down.

use std::io;

/// A path longer than this could not have been made through a path; what is deeper is left alone.
const DEEPEST: usize = 2048;

/// Is told of an entry: its directory, its name and its stat.
type Visitor<'v> = dyn FnMut(&sys::Dir, &[u8], &sys::Stat) -> io::Result<()> + 'v;

/// Visits what is beneath `dir`, children before their directory. Ends at the first error.
pub(in crate::checkout) fn visit(dir: &sys::Dir, visitor: &mut Visitor<'_>) -> io::Result<()> {
    descend(dir, 0, visitor)
}

fn descend(dir: &sys::Dir, depth: usize, visitor: &mut Visitor<'_>) -> io::Result<()> {
    if depth == DEEPEST {
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

/// Removes what `visit` shows, as a visitor.
pub(in crate::checkout) fn remove(dir: &sys::Dir, name: &[u8], stat: &sys::Stat) -> io::Result<()> {
    match stat.file_type {
        sys::FileType::Directory => dir.remove_dir(name),
        _ => dir.remove_file(name),
    }
}
