//! File systems as a whole: their UUID, and the subvolumes of btrfs.

use std::{
    ffi::OsStr,
    fs, io,
    os::{
        fd::{AsFd, AsRawFd as _},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

use rustix::{
    io::Errno,
    ioctl::{Getter, Opcode, Setter, ioctl, opcode},
};

use crate::profile::{Phase, call};

/// `struct fsuuid2` of `linux/fs.h`.
#[repr(C)]
struct FsUuid {
    length: u8,
    uuid: [u8; 16],
}

const FS_IOC_GETFSUUID: Opcode = opcode::read::<FsUuid>(0x15, 0);

/// Returns the UUID of the file system of `path` (`FS_IOC_GETFSUUID`, Linux 6.9 and newer). Returns
/// `None` if it has no UUID, or if the kernel does not report it.
pub fn uuid(path: &Path) -> io::Result<Option<[u8; 16]>> {
    let dir = call(Phase::Open, || fs::File::open(path))?;
    // SAFETY: the opcode is that of `linux/fs.h`, and `FsUuid` is the structure it fills in.
    let request = unsafe { Getter::<FS_IOC_GETFSUUID, FsUuid>::new() };
    // SAFETY: as above. Any bytes are a valid `FsUuid`.
    match call(Phase::Stat, || unsafe { ioctl(&dir, request) }) {
        Ok(found) if found.length == 16 => Ok(Some(found.uuid)),
        Ok(_) | Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::INVAL) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// The inode number of the root of every subvolume.
const SUBVOLUME_ROOT: u64 = 256;
/// The maximum length of a name in the arguments of btrfs, without its NUL.
const LONGEST_NAME: usize = 255;
const READ_ONLY: u64 = 1 << 1;
const BTRFS: u8 = 0x94;

/// `struct btrfs_ioctl_vol_args` of `linux/btrfs.h`.
#[repr(C)]
struct Name {
    fd: i64,
    name: [u8; 4088],
}

/// `struct btrfs_ioctl_vol_args_v2` of `linux/btrfs.h`, reduced to the name and to the unused parts
/// of its unions.
#[repr(C)]
struct Snapshot {
    fd: i64,
    transaction: u64,
    flags: u64,
    unused: [u64; 4],
    name: [u8; 4040],
}

const SUBVOL_CREATE: Opcode = opcode::write::<Name>(BTRFS, 14);
const SNAP_DESTROY: Opcode = opcode::write::<Name>(BTRFS, 15);
const SNAP_CREATE_V2: Opcode = opcode::write::<Snapshot>(BTRFS, 23);
const SUBVOL_GETFLAGS: Opcode = opcode::read::<u64>(BTRFS, 25);
const SUBVOL_SETFLAGS: Opcode = opcode::write::<u64>(BTRFS, 26);

/// Returns true if `path` is on btrfs.
pub fn is_btrfs(path: &Path) -> io::Result<bool> {
    const BTRFS_SUPER_MAGIC: u32 = 0x9123_683e;
    Ok(call(Phase::Stat, || rustix::fs::statfs(path))?.f_type as u32 == BTRFS_SUPER_MAGIC)
}

/// Returns true if `path` is the root of a subvolume of btrfs.
pub fn is_subvolume(path: &Path) -> io::Result<bool> {
    let stat = crate::by_path::stat(path)?;
    Ok(is_btrfs(path)? && stat.is_some_and(|stat| stat.ino == SUBVOLUME_ROOT))
}

/// Creates an empty subvolume. Returns `ENOTTY` if the file system is not btrfs.
pub fn create_subvolume(path: &Path) -> io::Result<()> {
    let (parent, name) = split(path)?;
    let request = Name { fd: 0, name: padded(name)? };
    // SAFETY: the opcode belongs to the structure `Name`, whose name ends in NUL.
    Ok(call(Phase::MakeDir, || unsafe { ioctl(&parent, Setter::<SUBVOL_CREATE, Name>::new(request)) })?)
}

/// Creates the writable snapshot `path` of the subvolume `source`. Returns `EXDEV` if they are on
/// different file systems.
pub fn create_snapshot(source: &Path, path: &Path) -> io::Result<()> {
    let source = call(Phase::Open, || fs::File::open(source))?;
    let (parent, name) = split(path)?;
    let request = Snapshot {
        fd: source.as_fd().as_raw_fd().into(),
        transaction: 0,
        flags: 0,
        unused: [0; 4],
        name: padded(name)?,
    };
    // SAFETY: the opcode belongs to the structure `Snapshot`, whose name ends in NUL and whose
    // descriptor is open until the call returns.
    Ok(call(Phase::MakeDir, || unsafe { ioctl(&parent, Setter::<SNAP_CREATE_V2, Snapshot>::new(request)) })?)
}

/// Removes a subvolume with its content. The kernel frees the blocks later. An ordinary user may do
/// so only if the file system is mounted with `user_subvol_rm_allowed`.
pub fn remove_subvolume(path: &Path) -> io::Result<()> {
    let (parent, name) = split(path)?;
    let request = Name { fd: 0, name: padded(name)? };
    // SAFETY: the opcode belongs to the structure `Name`, whose name ends in NUL.
    Ok(call(Phase::Remove, || unsafe { ioctl(&parent, Setter::<SNAP_DESTROY, Name>::new(request)) })?)
}

/// Makes a subvolume read-only, or writable.
pub fn set_read_only(path: &Path, read_only: bool) -> io::Result<()> {
    let dir = call(Phase::Open, || fs::File::open(path))?;
    // SAFETY: the opcode fills in the 64 bits of the flags.
    let flags = call(Phase::Stat, || unsafe { ioctl(&dir, Getter::<SUBVOL_GETFLAGS, u64>::new()) })?;
    let wanted = if read_only { flags | READ_ONLY } else { flags & !READ_ONLY };
    crate::changes::before_change();
    // SAFETY: the opcode reads the 64 bits of the flags.
    Ok(call(Phase::Write, || unsafe { ioctl(&dir, Setter::<SUBVOL_SETFLAGS, u64>::new(wanted)) })?)
}

/// Opens the parent directory of `path`. Also returns the last component.
fn split(path: &Path) -> io::Result<(fs::File, &OsStr)> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    Ok((call(Phase::Open, || fs::File::open(parent))?, name))
}

fn padded<const LENGTH: usize>(name: &OsStr) -> io::Result<[u8; LENGTH]> {
    let name = name.as_bytes();
    if name.len() > LONGEST_NAME {
        return Err(Errno::NAMETOOLONG.into());
    }
    let mut padded = [0; LENGTH];
    padded[..name.len()].copy_from_slice(name);
    Ok(padded)
}
