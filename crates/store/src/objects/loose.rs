//! Loose objects in temporary files: `tmp_obj_*` in the directory of their final name, as in Git.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use format::{Kind, ObjectId};
use sys::{File, by_path};
use zlib_rs::DeflateFlush;

use super::{
    LARGE, Options, PIECE,
    deflate::{Deflater, deflate},
    make_directory,
};
use crate::{Components, Error, aside, temp_file::TempFile};

/// The number of attempts to create a directory that other processes remove.
const ATTEMPTS: usize = 10;

/// An object that is written and not yet renamed to its final name.
#[derive(Debug)]
pub(super) struct StagedLoose {
    file: TempFile,
    oid: ObjectId,
    /// True if its directory was created for it.
    pub(super) is_first_in_directory: bool,
}

impl StagedLoose {
    /// Writes an object below `root`, which is the object directory or a temporary one, and syncs
    /// it by the policy.
    pub(super) fn write(
        root: &Path,
        oid: &ObjectId,
        kind: Kind,
        content: &[u8],
        options: &Options<'_>,
    ) -> Result<StagedLoose, Error> {
        let header = format!("{kind} {}\0", content.len()).into_bytes();
        let dir = root.join(&oid.to_string()[..2]);
        let not_written = |source| Error::NotWritten { what: "unable to write loose object file", source };
        let (mut file, is_first_in_directory);
        if content.len() > LARGE {
            (file, is_first_in_directory) = create(&dir, options)?;
            write_in_pieces(&header, content, options.level, file.file(), not_written)?;
        } else {
            let deflated = deflate(&[&header, content].concat(), options.level);
            (file, is_first_in_directory) = create(&dir, options)?;
            file.file().write_all(&deflated).map_err(not_written)?;
        }
        // In a batch, only the pages are written to the disk, whose cache is flushed once at the
        // end.
        let is_in_batch = root != options.objects;
        let not_synced = |source| Error::NotSynced { path: file.path().to_owned(), source };
        if !is_in_batch || !is_handed_over(file.file(), options).map_err(not_synced)? {
            options.fsync.file(Components::LOOSE_OBJECT, file.file()).map_err(not_synced)?;
        }
        file.close().map_err(|error| match error {
            Error::Io { source, .. } => {
                Error::NotWritten { what: "error when closing loose object file", source }
            }
            other => other,
        })?;
        Ok(StagedLoose { file, oid: *oid, is_first_in_directory })
    }

    /// Returns the directory of the object's final name.
    pub(super) fn directory(&self, objects: &Path) -> PathBuf {
        objects.join(&self.oid.to_string()[..2])
    }

    /// Renames the object to its final name. Returns the directory.
    pub(super) fn publish(mut self, objects: &Path) -> Result<PathBuf, Error> {
        let name = self.oid.to_string();
        let dir = self.directory(objects);
        self.file.rename(&dir.join(&name[2..])).map_err(|error| match error {
            Error::Io { source, .. } => Error::NotRenamed { path: dir.join(&name[2..]), source },
            other => other,
        })?;
        Ok(dir)
    }
}

/// Passes the content of an object in a batch to the disk. Returns false if that is not possible;
/// warns if the system does not have the call.
fn is_handed_over(file: &File, options: &Options<'_>) -> io::Result<bool> {
    match sys::request_writeback(file) {
        Ok(()) => Ok(true),
        Err(error) if sys::is_writeback_refused(&error) => {
            if error.kind() == io::ErrorKind::Unsupported {
                (options.warn)("core.fsyncMethod = batch is unsupported on this platform");
            }
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Deflates a large object into `file`. The memory does not depend on its size, and a signal stops
/// it.
fn write_in_pieces(
    header: &[u8],
    content: &[u8],
    level: i32,
    mut file: &File,
    failed: impl Fn(io::Error) -> Error + Copy,
) -> Result<(), Error> {
    let mut deflater = Deflater::new(level);
    let mut write = |made: &[u8]| file.write_all(made).map_err(failed);
    let reason = |reason| failed(io::Error::other(reason));
    let mut push = |piece: &[u8], flush| deflater.push(piece, flush, &mut write, reason);
    push(header, DeflateFlush::NoFlush)?;
    for piece in content.chunks(PIECE) {
        sys::interrupt::check().map_err(failed)?;
        push(piece, DeflateFlush::NoFlush)?;
    }
    push(&[], DeflateFlush::Finish)
}

/// Creates a temporary file with Git's prefix: `gc` removes such files when they are left behind.
/// Creates a missing directory, and then returns true.
fn create(dir: &Path, options: &Options<'_>) -> Result<(TempFile, bool), Error> {
    let create = || TempFile::create(dir, "tmp_obj_", 0o444, options.shared);
    let is_missing = |error: &Error| match error {
        Error::Io { source, .. } => source.kind() == io::ErrorKind::NotFound,
        _ => false,
    };
    let (mut answer, mut is_new) = (create(), false);
    // A concurrent `gc` removes empty directories, so a new directory may disappear at once.
    for _ in 0..ATTEMPTS {
        if !answer.as_ref().is_err_and(is_missing) {
            break;
        }
        answer = make_directory(dir, options.shared).and_then(|made| {
            is_new |= made;
            create()
        });
    }
    answer.map(|file| (file, is_new)).map_err(|error| options.refusal(error))
}

/// A temporary object directory, as Git uses for `core.fsyncMethod=batch`. `gc` removes directories
/// with such a name. Dropping the value removes the directory with its content.
#[derive(Debug)]
pub(super) struct TempDirectory {
    pub(super) path: PathBuf,
}

impl TempDirectory {
    pub(super) fn create(options: &Options<'_>) -> Result<TempDirectory, Error> {
        let mut number = std::process::id();
        loop {
            let path = options.objects.join(format!("tmp_objdir-bulk-fsync-{number:06x}"));
            match make_directory(&path, options.shared) {
                Ok(true) => return Ok(TempDirectory { path }),
                Ok(false) => number = number.wrapping_add(1),
                Err(error) => return Err(options.refusal(error)),
            }
        }
    }

    /// Syncs one small file, which makes the disk flush its cache with all data that were written
    /// before.
    pub(super) fn flush(&self, options: &Options<'_>) -> Result<(), Error> {
        let file = TempFile::create(&self.path, "bulk_fsync_", 0o600, options.shared)?;
        let synced = sys::sync_file(file.file());
        synced.map_err(|source| Error::NotSynced { path: file.path().to_owned(), source })
    }
}

impl Drop for TempDirectory {
    fn drop(&mut self) {
        let _ = aside(|| by_path::remove_dir_all(&self.path));
    }
}

impl Options<'_> {
    /// Returns Git's error for a temporary file that cannot be created.
    pub(super) fn refusal(&self, error: Error) -> Error {
        match error {
            Error::Io { what: "create", source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Error::NoPermission { objects: self.shown() }
            }
            Error::Io { what: "create", source, .. } => Error::NoTemporaryFile { source },
            other => other,
        }
    }

    fn shown(&self) -> PathBuf {
        self.shown_common_dir.map_or_else(|| self.objects.to_owned(), |common| common.join("objects"))
    }

    /// Returns the error that writing the first object would return, before anything is written.
    /// Objects are written late, but a command reports this error with the path of the first file.
    pub(super) fn check_access(&self, oid: &ObjectId) -> Result<(), Error> {
        let dir = self.objects.join(&oid.to_string()[..2]);
        let access = match by_path::may_be_written(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => by_path::may_be_written(self.objects),
            access => access,
        };
        match access {
            Err(source)
                if matches!(
                    source.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                Err(self.refusal(Error::Io { what: "create", path: dir, source }))
            }
            // The calls that write the object will report this error.
            _ => Ok(()),
        }
    }
}
