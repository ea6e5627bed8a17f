//! The mounts in the namespace of a process. Source: `proc_pid_mountinfo(5)`.

use std::{
    cell::OnceCell,
    collections::{HashMap, HashSet},
    ffi::{OsStr, OsString},
    fs, io,
    os::{
        fd::AsFd,
        unix::ffi::{OsStrExt as _, OsStringExt as _},
    },
    path::{Path, PathBuf},
};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags};

use crate::profile::{Phase, retried};

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The kernel's id of the mount. The kernel reuses ids after an unmount.
    pub id: u64,
    /// The id of the mount that contains the mount point.
    pub parent: u64,
    /// The mount point.
    pub point: PathBuf,
    /// The kernel's name for the file system's type: `overlay`, `erofs`, `fuse.sshfs`.
    pub file_system: String,
    /// The source string that was given to the mount: a device, an image, or any word.
    pub source: OsString,
    /// The options of the file system, separated by commas, as the kernel prints them.
    options: Vec<u8>,
}

impl Mount {
    /// Returns true if the file system has this option without a value.
    pub fn has_option(&self, name: &str) -> bool {
        self.options.split(|&byte| byte == b',').any(|option| option == name.as_bytes())
    }

    /// Returns true if this is an overlay whose upper layer was at `path`, an absolute path without
    /// links, when it was mounted.
    pub fn has_upper(&self, path: &Path) -> bool {
        // The kernel prints a path as it was passed, with backslashes before separators, and a
        // descriptor as a plain path.
        let is_path = |given: OsString| Path::new(&given) == path || split_layers(given.as_bytes()) == [path];
        self.file_system == "overlay"
            && self
                .upper_in_source()
                .map_or_else(|| self.values("upperdir").any(is_path), |upper| upper == path)
    }

    /// Returns the upper layer that the source names ([`Mount::SERVED`]).
    fn upper_in_source(&self) -> Option<&Path> {
        let path = self.source.as_bytes().strip_prefix(Mount::SERVED.as_bytes());
        path.filter(|_| self.file_system == "overlay").map(|path| Path::new(OsStr::from_bytes(path)))
    }

    /// The begin of the source of an overlay that the mount service made. The path of the upper
    /// layer follows. The kernel prints `upperdir` relative to a mount that only the service has.
    pub const SERVED: &str = "sapwood:";

    /// Returns the upper layer of an overlay.
    pub fn upper_layer(&self) -> Option<PathBuf> {
        if let Some(upper) = self.upper_in_source() {
            return Some(upper.to_owned());
        }
        let given = self.values("upperdir").next()?;
        split_layers(given.as_bytes()).pop()
    }

    /// Returns the lower layers of an overlay, the topmost first. A path that contains a backslash
    /// before a colon is returned as it was passed.
    pub fn lower_layers(&self) -> Vec<PathBuf> {
        // The kernel prints `lowerdir=a:b`, or one `lowerdir+=` for each layer.
        let joined = self.values("lowerdir").flat_map(|layers| split_layers(layers.as_bytes()));
        joined.chain(self.values("lowerdir+").map(PathBuf::from)).collect()
    }

    fn values(&self, name: &str) -> impl Iterator<Item = OsString> {
        let options = self.options.split(|&byte| byte == b',');
        let value =
            move |option: &[u8]| option.strip_prefix(name.as_bytes())?.strip_prefix(b"=").map(unescaped);
        options.filter_map(value).map(OsString::from_vec)
    }
}

/// Splits a list of layers at colons that are not escaped by a backslash.
fn split_layers(layers: &[u8]) -> Vec<PathBuf> {
    let (mut all, mut layer, mut is_escaped) = (Vec::new(), Vec::new(), false);
    for &byte in layers {
        match byte {
            _ if is_escaped => {
                layer.push(byte);
                is_escaped = false;
            }
            b'\\' => is_escaped = true,
            b':' => all.push(std::mem::take(&mut layer)),
            _ => layer.push(byte),
        }
    }
    all.push(layer);
    all.into_iter().map(|layer| OsString::from_vec(layer).into()).collect()
}

/// Returns the mounts in the namespace of this process, in the order in which they were mounted.
pub fn mounts() -> io::Result<Vec<Mount>> {
    read(Path::new("/proc/self/mountinfo"))
}

/// Returns the mounts in the namespace of the process `pid`.
pub fn mounts_of(pid: u32) -> io::Result<Vec<Mount>> {
    read(&PathBuf::from(format!("/proc/{pid}/mountinfo")))
}

fn read(table: &Path) -> io::Result<Vec<Mount>> {
    Ok(all_in(&fs::read(table)?))
}

/// Returns the mount whose mount point is `path`, the uppermost if there are several. `path` may
/// contain links.
pub fn mount_at(path: &Path) -> io::Result<Option<Mount>> {
    match mount_id(path)? {
        Some((id, true)) => Ok(mounts()?.into_iter().find(|mount| mount.id == id)),
        _ => Ok(None),
    }
}

/// The mounts of this namespace, read once, for many questions.
#[derive(Debug, Default)]
pub struct MountTable(OnceCell<HashMap<u64, Mount>>);

impl MountTable {
    /// Like [`mount_at`]. A mount that is newer than the table is looked up again.
    pub fn mount_at(&self, path: &Path) -> io::Result<Option<Mount>> {
        let Some((id, true)) = mount_id(path)? else { return Ok(None) };
        if self.0.get().is_none() {
            let _first = self.0.set(mounts()?.into_iter().map(|mount| (mount.id, mount)).collect());
        }
        match self.0.get().and_then(|known| known.get(&id)) {
            Some(mount) => Ok(Some(mount.clone())),
            None => mount_at(path),
        }
    }
}

/// Returns the id of the mount that `path` is on, and true if `path` is its mount point. Returns
/// `None` if `path` does not exist.
pub fn mount_id(path: &Path) -> io::Result<Option<(u64, bool)>> {
    match id_at(CWD, path, AtFlags::empty()) {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Returns the id of the mount of an open file.
pub fn mount_id_of(file: impl AsFd) -> io::Result<u64> {
    Ok(id_at(file.as_fd(), Path::new(""), AtFlags::EMPTY_PATH)?.0)
}

/// Returns the mounts that lie on the mount with this id, and those that lie on them, in the order
/// of the table.
pub fn mounts_on(mounts: &[Mount], id: u64) -> Vec<&Mount> {
    let (mut on, mut size) = (HashSet::from([id]), 0);
    // A mount that was moved precedes its parent in the table.
    while size < on.len() {
        size = on.len();
        on.extend(
            mounts
                .iter()
                .filter(|mount| on.contains(&mount.parent))
                .map(|mount| mount.id)
                .collect::<Vec<_>>(),
        );
    }
    mounts.iter().filter(|mount| mount.id != id && on.contains(&mount.id)).collect()
}

fn id_at(dir: rustix::fd::BorrowedFd<'_>, path: &Path, flags: AtFlags) -> io::Result<(u64, bool)> {
    let wanted = StatxFlags::MNT_ID;
    let found = retried(Phase::Stat, || crate::stat::statx(dir, path, flags, wanted))?;
    if found.stx_mask & StatxFlags::MNT_ID.bits() == 0 {
        // Linux before 5.8 does not report it.
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok((found.stx_mnt_id, found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)))
}

pub(crate) fn all_in(table: &[u8]) -> Vec<Mount> {
    table.split(|&byte| byte == b'\n').filter_map(parse).collect()
}

fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ');
    let mut number = || std::str::from_utf8(fields.next()?).ok()?.parse().ok();
    let (id, parent) = (number()?, number()?);
    let point = unescaped(fields.nth(2)?);
    let mut after = fields.skip_while(|field| *field != b"-").skip(1);
    let name = after.next()?;
    let source = after.next().unwrap_or_default();
    let options = after.next().unwrap_or_default();
    Some(Mount {
        id,
        parent,
        point: OsString::from_vec(point).into(),
        file_system: String::from_utf8_lossy(name).into_owned(),
        source: OsString::from_vec(unescaped(source)),
        options: options.to_vec(),
    })
}

/// Decodes a field in which the kernel wrote blanks and similar bytes as three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let (mut plain, mut at) = (Vec::with_capacity(field.len()), 0);
    while let Some(&byte) = field.get(at) {
        let digits = field.get(at + 1..at + 4).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.filter(|_| byte == b'\\').and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(code) => {
                plain.push(code);
                at += 4;
            }
            None => {
                plain.push(byte);
                at += 1;
            }
        }
    }
    plain
}

/// Returns true if `name` is the kernel's name of a FUSE file system.
pub fn is_fuse(name: &str) -> bool {
    name == "fuse" || name.starts_with("fuse.") || name == "fuseblk"
}

/// Returns the type of the mount of `path`: among the mounts with the longest mount point above it,
/// the last one, because a later mount covers an earlier one.
pub(crate) fn type_of(mounts: &[Mount], path: &Path) -> Option<String> {
    let above = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    above.max_by_key(|mount| mount.point.as_os_str().len()).map(|mount| mount.file_system.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_names_the_upper_layer_of_a_served_overlay() {
        let table =
            b"30 22 0:25 / /top rw - overlay sapwood:/a\\040b/upper rw,upperdir=/upper,workdir=/work\n\
            31 22 0:26 / /own rw - overlay sapwood rw,upperdir=/up,workdir=/work\n\
            32 22 0:27 / /other rw - fuse.x sapwood:/a rw\n";
        let found = all_in(table);
        let uppers: Vec<_> = found.iter().map(Mount::upper_layer).collect();
        assert_eq!(uppers, [Some("/a b/upper".into()), Some("/up".into()), None]);
        assert!(found[0].has_upper(Path::new("/a b/upper")) && !found[0].has_upper(Path::new("/upper")));
        assert!(found[1].has_upper(Path::new("/up")) && !found[2].has_upper(Path::new("/a")));
    }
}
