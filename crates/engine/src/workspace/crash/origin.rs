//! The file of a lower layer from which overlayfs copied a file up.
//!
//! overlayfs notes the handle of that file in an attribute of the copy. The handle is compared with
//! that of the file at the same path; a file that was renamed is searched in all lower layers. In a
//! user namespace the attribute is empty, so a copy is known as one, but its origin only by its
//! path.
//!
//! Source: `struct ovl_fb` in `fs/overlayfs/overlayfs.h` of Linux.

use std::{
    collections::{HashMap, HashSet},
    io,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice as _};
use sys::{Dir, File, FileHandle, FileType, Stat, xattr};

use super::super::{
    backend::{Error, Layers, image},
    base::Kind,
    upper::Form,
};

/// The mark of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// The handle of the origin.
    Handle(Handle),
    /// The kernel did not note the origin.
    Unnamed,
}

/// A file of a lower layer. Two images number their files alike, so the handle alone does not name
/// one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Handle {
    /// The UUID of the file system; zeros if the kernel did not note it.
    uuid: Uuid,
    file: FileHandle,
}

type Uuid = [u8; 16];

/// Returns the mark of a file of the upper layer. Returns `None` if the file was not copied up.
pub(super) fn mark_of(upper: &Dir, path: &BStr, form: Form) -> io::Result<Option<Mark>> {
    let name = match form {
        Form::User => c"user.overlay.origin",
        Form::Trusted | Form::Fuse | Form::UnionFs => c"trusted.overlay.origin",
    };
    Ok(xattr::get_in(upper, path, name)?.map(|value| parse(&value).map_or(Mark::Unnamed, Mark::Handle)))
}

/// The first byte after the version.
const MAGIC: u8 = 0xfb;
/// The bytes before the handle: version, magic, length, flags, kind, and the UUID of the file
/// system.
const HEAD: usize = 5 + 16;

fn parse(value: &[u8]) -> Option<Handle> {
    let (head, bytes) = value.split_at_checked(HEAD)?;
    let is_known = head[0] == 0 && head[1] == MAGIC && usize::from(head[2]) == value.len();
    let uuid = head[5..].try_into().ok()?;
    is_known.then(|| Handle { uuid, file: FileHandle { kind: head[4].into(), bytes: bytes.to_vec() } })
}

/// A file of a lower layer.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    /// The number of the layer, from the top.
    layer: usize,
    pub(super) path: BString,
    pub(super) stat: Stat,
}

/// The layers below the upper one.
pub(super) struct Lower {
    paths: Vec<PathBuf>,
    layers: Vec<Dir>,
    /// The UUIDs of the images among them.
    uuids: Vec<Option<Uuid>>,
    /// The layer that holds the contents of the last one.
    data: Option<Dir>,
}

impl Lower {
    pub(super) fn open(layers: &Layers) -> Result<Lower, Error> {
        let open = |path: &Path| Dir::open(path).map_err(Error::io("open", path));
        let paths: Vec<PathBuf> = layers.frozen.iter().cloned().chain(layers.base.layers()).collect();
        let of_image = |path: &PathBuf| image::uuid_of(&path.with_file_name("image"));
        let uuids = paths.iter().enumerate().map(|(number, path)| {
            let is_image = number >= layers.frozen.len() && layers.base.kind == Kind::Image;
            if is_image { of_image(path) } else { None }
        });
        Ok(Lower {
            uuids: uuids.collect(),
            layers: paths.iter().map(|path| open(path)).collect::<Result<_, _>>()?,
            data: layers.base.data_layer().map(open).transpose()?,
            paths,
        })
    }

    fn failed(&self, layer: usize, path: &BStr) -> impl FnOnce(io::Error) -> Error {
        Error::io("read", &self.paths[layer].join(sys::os_str(path)))
    }

    /// Returns true if a layer has something at this path.
    pub(super) fn has(&self, path: &BStr) -> bool {
        self.layers.iter().any(|dir| matches!(dir.stat(path), Ok(Some(_))))
    }

    /// Returns the file that is visible at a path without the upper layer.
    pub(super) fn at(&self, path: &BStr) -> Result<Option<Origin>, Error> {
        for (layer, dir) in self.layers.iter().enumerate() {
            if let Some(stat) = dir.stat(path).map_err(self.failed(layer, path))? {
                let is_file = stat.file_type == FileType::File;
                return Ok(is_file.then(|| Origin { layer, path: path.to_owned(), stat }));
            }
            for above in path.find_iter("/").map(|end| path[..end].as_bstr()) {
                let found = dir.stat(above).map_err(self.failed(layer, above))?;
                if found.is_some_and(|stat| stat.file_type != FileType::Directory) {
                    return Ok(None);
                }
            }
        }
        Ok(None)
    }

    /// Returns true if a layer can be on the file system with this UUID.
    fn may_be(&self, layer: usize, uuid: &Uuid) -> bool {
        *uuid == Uuid::default() || self.uuids[layer].is_none_or(|known| known == *uuid)
    }

    /// Returns true if a mark can be that of a copy of `origin`.
    pub(super) fn agrees(&self, mark: &Mark, origin: &Origin) -> Result<bool, Error> {
        let Mark::Handle(wanted) = mark else { return Ok(true) };
        let path = origin.path.as_bstr();
        let found = self.layers[origin.layer].handle(path).map_err(self.failed(origin.layer, path))?;
        Ok(found.as_ref() == Some(&wanted.file) && self.may_be(origin.layer, &wanted.uuid))
    }

    /// Searches files by their handles.
    pub(super) fn find(&self, wanted: HashSet<Handle>) -> Result<HashMap<Handle, Origin>, Error> {
        let mut found = HashMap::new();
        let mut left_of: HashMap<FileHandle, Vec<Handle>> = HashMap::new();
        for handle in wanted {
            left_of.entry(handle.file.clone()).or_default().push(handle);
        }
        for (layer, root) in self.layers.iter().enumerate() {
            let mut left = vec![BString::default()];
            while let Some(path) = left.pop()
                && !left_of.is_empty()
            {
                let failed = |source| self.failed(layer, path.as_bstr())(source);
                let list = if path.is_empty() {
                    root.list()
                } else {
                    root.open_dir(&path).and_then(|dir| dir.list())
                };
                for (name, kind) in list.map_err(failed)? {
                    let mut path = path.clone();
                    if !path.is_empty() {
                        path.push(b'/');
                    }
                    path.extend_from_slice(&name);
                    match kind {
                        FileType::Directory => left.push(path),
                        FileType::File => {
                            let file = root.handle(&path).map_err(failed)?;
                            let Some(file) = file else { continue };
                            let Some(handle) = self.take(layer, &file, &mut left_of) else { continue };
                            if let Some(stat) = root.stat(&path).map_err(failed)? {
                                found.insert(handle, Origin { layer, path, stat });
                            }
                        }
                        _ => {}
                    }
                }
            }
        }
        Ok(found)
    }

    /// Takes the handle of a file of this layer.
    fn take(
        &self,
        layer: usize,
        file: &FileHandle,
        left_of: &mut HashMap<FileHandle, Vec<Handle>>,
    ) -> Option<Handle> {
        let same = left_of.get_mut(file)?;
        let at = same.iter().position(|handle| self.may_be(layer, &handle.uuid))?;
        let handle = same.swap_remove(at);
        if same.is_empty() {
            left_of.remove(file);
        }
        Some(handle)
    }

    /// Opens the content of a file.
    pub(super) fn content(&self, origin: &Origin) -> Result<File, Error> {
        let is_in_base = origin.layer + 1 == self.layers.len();
        let dir = self.data.as_ref().filter(|_| is_in_base).unwrap_or(&self.layers[origin.layer]);
        dir.open_file(&origin.path).map_err(self.failed(origin.layer, origin.path.as_bstr()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_the_mark_of_a_copy() {
        let value =
            |length: u8| [&[0, MAGIC, length, 0, 1][..], &[7; 16], &[1, 2, 3, 4, 5, 6, 7, 8]].concat();
        let file = FileHandle { kind: 1, bytes: vec![1, 2, 3, 4, 5, 6, 7, 8] };
        let handle = Handle { uuid: [7; 16], file };
        assert_eq!(parse(&value(29)), Some(handle));
        assert_eq!(parse(&value(28)), None);
        assert_eq!(parse(b""), None);
    }
}
