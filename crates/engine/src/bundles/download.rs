//! Brings the file at an address.
//!
//! A download over HTTP that breaks off leaves its bytes and the server's mark of the file in
//! `objects/bundles`, under a name that the address gives. The next attempt asks only for the rest.
//! If the file has changed since, the server sends it whole.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use bstr::BStr;
use format::{HashKind, hash::Hasher};
use repo::wire::{self, Beginning, Client, Resume};
use sys::{File, by_path};

use super::{Bundles, Error, Held};

/// A download that may go on later.
struct Part {
    path: PathBuf,
    /// The file that holds the validator.
    mark: PathBuf,
}

impl Bundles<'_> {
    /// Brings a file. Returns `None` if there is none, or it did not come.
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
                // The mark alone says nothing.
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

    /// Returns what is there already.
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
                // Nobody reads it.
                let _ = by_path::remove_file(path);
            }
        }
    }
}

/// Writes the bytes that come.
struct Writer<'a> {
    part: &'a Part,
    file: Option<File>,
}

impl Writer<'_> {
    /// Begins at the place that the server chose. The mark is written before any byte.
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

/// A writer that the callback of the beginning uses too.
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
