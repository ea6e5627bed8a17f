//! Writes the index of an existing pack, in the directory of the pack or elsewhere.

use std::path::{Path, PathBuf};

use format::{
    ObjectId,
    idx_writer::{self, Form, Members},
};
use sys::by_path;

use crate::{
    Components, Error, Fsync, HashWriter, Hashing, SharedRepository, aside, lock::sync_parent,
    temp_file::TempFile,
};

/// The paths of the files.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// The index.
    pub index: PathBuf,
    /// The reverse index; `None` to write none.
    pub reverse: Option<PathBuf>,
    /// Files such as `.keep`, with their content. Existing files are left unchanged.
    pub marks: Vec<(PathBuf, Vec<u8>)>,
}

/// Writes the companion files of a pack whose trailer is `checksum`. An existing index is replaced.
/// The index is written last.
pub fn write_beside(
    beside: &Beside,
    members: &dyn Members,
    checksum: &ObjectId,
    form: &Form,
    fsync: &Fsync,
) -> Result<(), Error> {
    let mut marks = Marks(Vec::new());
    for (path, content) in &beside.marks {
        marks.make(path, content)?;
    }
    let write = |writer: &mut HashWriter<&sys::File>| {
        let emit = &mut |piece: &[u8]| writer.write(piece);
        idx_writer::write_index(members, checksum.as_bytes(), form, emit)
    };
    let mut files = vec![(made("tmp_idx_", &beside.index, checksum, &write)?, &beside.index)];
    if let Some(path) = &beside.reverse {
        let write = |writer: &mut HashWriter<&sys::File>| {
            let emit = &mut |piece: &[u8]| writer.write(piece);
            idx_writer::write_reverse(members, checksum.as_bytes(), checksum.kind(), emit)
        };
        files.push((made("tmp_rev_", path, checksum, &write)?, path));
    }
    for (file, _) in &files {
        file.sync(fsync, Components::PACK_METADATA)?;
    }
    for (file, path) in files.iter_mut().rev() {
        file.rename(path)?;
    }
    marks.0.clear();
    files.iter().try_for_each(|(_, path)| sync_parent(fsync, Components::PACK_METADATA, path))
}

/// Writes a temporary file that will be renamed to `path`. Errors refer to `path`.
fn made(
    prefix: &str,
    path: &Path,
    checksum: &ObjectId,
    write: &dyn Fn(&mut HashWriter<&sys::File>) -> std::io::Result<()>,
) -> Result<TempFile, Error> {
    let failed = |what| move |source| Error::Io { what, path: path.to_owned(), source };
    let dir = path.parent().filter(|dir| *dir != Path::new("")).unwrap_or(Path::new("."));
    let file =
        TempFile::create(dir, prefix, 0o444, SharedRepository::Umask).map_err(|error| match error {
            Error::Io { what, source, .. } => failed(what)(source),
            other => other,
        })?;
    // As in Git, independent of the umask.
    aside(|| sys::set_mode(file.file(), 0o444)).map_err(failed("set the mode of"))?;
    let mut writer = HashWriter::new(file.file(), checksum.kind(), Hashing::Inline);
    write(&mut writer).and_then(|()| writer.finish().map(drop)).map_err(failed("write"))?;
    Ok(file)
}

/// Created files. Dropping the value removes the files that are still in the list.
struct Marks(Vec<PathBuf>);

impl Marks {
    fn make(&mut self, path: &Path, content: &[u8]) -> Result<(), Error> {
        let failed = |what| move |source| Error::Io { what, path: path.to_owned(), source };
        let mut file = match by_path::create_new(path, 0o600) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Ok(()),
            file => file.map_err(failed("create"))?,
        };
        self.0.push(path.to_owned());
        std::io::Write::write_all(&mut file, content).map_err(failed("write"))?;
        sys::close(file).map_err(failed("close"))
    }
}

impl Drop for Marks {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = by_path::remove_file(path);
        }
    }
}
