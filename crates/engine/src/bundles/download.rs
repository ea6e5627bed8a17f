//! Downloads the file at a bundle URI.
//!
//! An interrupted download over HTTP keeps its bytes and the server's validator of the file in
//! `objects/bundles`, under a name derived from the URI. The next attempt requests only the rest.
//! If the file has changed since, the server sends all of it.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use bstr::BStr;
use format::{HashKind, hash::Hasher};
use repo::wire::{self, Beginning, Client, Resume};
use sys::{File, by_path};

use super::{Bundles, Error, Held};

/// A partial download, which a later attempt can resume.
struct Part {
    path: PathBuf,
    /// The file that holds the validator.
    mark: PathBuf,
}

impl Bundles<'_> {
    /// Downloads a file, or finds a local one. Returns `None` if it does not exist or the download
    /// failed.
    pub(super) fn download(&self, uri: &BStr) -> Result<Option<Held>, Error> {
        if uri.starts_with(b"http:") || uri.starts_with(b"https:") {
            return self.over_http(uri);
        }
        let path = uri.strip_prefix(b"file://").unwrap_or(uri);
        let path = self.dir.join(sys::os_str(path));
        let is_file = |stat: &sys::Stat| stat.file_type == sys::FileType::File;
        let is_there = by_path::stat_followed(&path).ok().flatten().as_ref().is_some_and(is_file);
        let is_readable = is_there && by_path::open(&path).is_ok();
        Ok(is_readable.then_some(Held { path, is_temporary: false }))
    }

    fn over_http(&self, uri: &BStr) -> Result<Option<Held>, Error> {
        let repo = self.context.repo;
        let dir = repo.objects_dir().join("bundles");
        if self.context.locks.shared.create_dir_all(&dir).is_err() {
            self.warn("failed to create temporary file");
            return Ok(None);
        }
        let part = Part::of(&dir, uri);
        let resume = part.resume();
        let mut writer = Writer { part: &part, file: None };
        let writer = std::cell::RefCell::new(&mut writer);
        let client = Client::of(repo);
        let received = client.download(
            uri,
            self.connect,
            &resume,
            &mut |beginning| writer.borrow_mut().begin(beginning),
            &mut Shared(&writer),
        );
        match received {
            Ok(_) => {
                // The validator is useless without a partial file. A failure to remove it is
                // harmless.
                let _ = by_path::remove_file(&part.mark);
                Ok(Some(Held { path: part.path, is_temporary: true }))
            }
            Err(wire::Error::Interrupted) => Err(Error::Interrupted),
            Err(_) => {
                part.discard_unless_resumable();
                Ok(None)
            }
        }
    }
}

impl Part {
    fn of(dir: &Path, uri: &BStr) -> Part {
        let mut hasher = Hasher::checksum(HashKind::Sha1);
        hasher.update(uri);
        let name = hasher.finish().expect("a checksum looks for no collision");
        Part { path: dir.join(format!("tmp_uri_{name}")), mark: dir.join(format!("tmp_uri_{name}.mark")) }
    }

    /// Returns the offset and the validator to resume from.
    fn resume(&self) -> Resume {
        let size = by_path::stat(&self.path).ok().flatten().map_or(0, |stat| stat.size);
        let mark = by_path::read(&self.mark).ok().flatten();
        match mark.filter(|mark| size > 0 && !mark.is_empty()) {
            Some(mark) => Resume { offset: size, validator: Some(mark.into()) },
            None => Resume::default(),
        }
    }

    fn discard_unless_resumable(&self) {
        if self.resume() == Resume::default() {
            for path in [&self.path, &self.mark] {
                // A file that stays is harmless: the next download replaces it.
                let _ = by_path::remove_file(path);
            }
        }
    }
}

/// Writes the received bytes to the partial file.
struct Writer<'a> {
    part: &'a Part,
    file: Option<File>,
}

impl Writer<'_> {
    /// Opens the partial file at the offset that the server chose. The validator is written before
    /// any byte of the file.
    fn begin(&mut self, beginning: &Beginning) -> io::Result<()> {
        if beginning.offset == 0 {
            for path in [&self.part.path, &self.part.mark] {
                match by_path::remove_file(path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            if let Some(validator) = &beginning.validator {
                by_path::create_new(&self.part.mark, 0o666)?.write_all(validator)?;
            }
        }
        self.file = Some(by_path::append(&self.part.path, true, 0o666)?);
        Ok(())
    }
}

/// Shares the writer with the callback that receives the response's beginning.
struct Shared<'s, 'w, 'a>(&'s std::cell::RefCell<&'w mut Writer<'a>>);

impl Write for Shared<'_, '_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0.borrow_mut().file {
            Some(file) => file.write(bytes),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
