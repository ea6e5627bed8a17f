//! Mounting and unmounting.
//!
//! A file system is created first and attached to the tree second (`fsopen`, `fsmount`,
//! `move_mount`). In between it is not visible, and it disappears when its descriptor is closed. So
//! a failure leaves no mount. Every mount is `nosuid,nodev`.

use std::{
    ffi::{CString, OsStr},
    io::{self, Read as _},
    os::{
        fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{CWD, Mode, OFlags},
    io::Errno,
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
        OpenTreeFlags, UnmountFlags, fsconfig_create, fsconfig_set_fd, fsconfig_set_flag,
        fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
    },
};

use crate::{
    file::Closing,
    profile::{Phase, call, retried},
};

/// The maximum length of a string value for `fsconfig`, without its NUL.
const LONGEST_VALUE: usize = 255;
/// The maximum length of the options for `mount(2)`, without the NUL.
const LONGEST_OPTIONS: usize = 4095;

/// A failed mount: the error number, and the kernel's messages if there are any.
#[derive(Debug)]
pub struct MountError {
    /// The error.
    pub source: io::Error,
    /// The kernel's messages about this mount, such as `overlay: Unknown parameter 'x'`. Often
    /// empty.
    pub messages: Vec<String>,
}

impl From<Errno> for MountError {
    fn from(errno: Errno) -> MountError {
        MountError { source: errno.into(), messages: Vec::new() }
    }
}

impl From<io::Error> for MountError {
    fn from(source: io::Error) -> MountError {
        MountError { source, messages: Vec::new() }
    }
}

impl From<MountError> for io::Error {
    fn from(error: MountError) -> io::Error {
        error.source
    }
}

/// Checks that this process may mount a file system of this type (`fsopen`). The kernel loads its
/// module. Returns `EPERM` if the process may not mount, `ENODEV` if the kernel does not support
/// the type.
pub fn may_mount(file_system: &str) -> io::Result<()> {
    Context::open(&CString::new(file_system)?).map(drop).map_err(|error| error.source)
}

/// A file system that is not attached yet. It disappears when the value is dropped.
#[derive(Debug)]
pub struct Detached(OwnedFd);

impl Detached {
    /// Attaches it to the directory `at`.
    pub fn attach(self, at: &Path) -> io::Result<()> {
        let target = open_dir(at)?;
        let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        Ok(retried(Phase::Other, || move_mount(&self.0, c"", target.get(), c"", flags))?)
    }
}

/// Creates a read-only file system from the EROFS image in the file `image`, without a loop device
/// (Linux 6.12 and newer). `devices` are the files of its extra devices, in their order.
pub fn erofs(image: &Path, devices: &[PathBuf]) -> Result<Detached, MountError> {
    let context = Context::open(c"erofs")?;
    // The descriptors must stay open until the kernel has opened the files.
    let mut open = Vec::new();
    context.set_path(c"source", image, &mut open)?;
    for device in devices {
        context.set_path(c"device", device, &mut open)?;
    }
    context.set_flag(c"ro")?;
    context.create(MountAttrFlags::MOUNT_ATTR_RDONLY)
}

/// The extended attributes with which the upper layer of an overlay marks deletions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attributes {
    /// Extended attributes `trusted.overlay.*`. Directories can be renamed. Needs `CAP_SYS_ADMIN`
    /// in the initial user namespace.
    Trusted,
    /// Extended attributes `user.overlay.*`. Renaming a directory of a lower layer is `EXDEV`.
    User,
}

/// The effect of `fsync` in an overlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// As in any file system. A file copied up from a lower layer is synced before it replaces the
    /// original.
    Synced,
    /// None (`volatile`).
    Volatile,
}

/// The layers of an overlay.
#[derive(Clone, Debug)]
pub struct Overlay<'a> {
    /// The read-only layers, the topmost first. At least one.
    pub lower: Vec<&'a Path>,
    /// A layer of data only, below the others: files of the lower layers name it by attributes.
    /// Takes Linux 6.16.
    pub data: Option<&'a Path>,
    /// The writable layer.
    pub upper: &'a Path,
    /// An empty directory for the kernel's use, on the file system of `upper`.
    pub work: &'a Path,
    /// The kind of extended attributes.
    pub attributes: Attributes,
    /// The effect of `fsync`.
    pub durability: Durability,
}

impl Overlay<'_> {
    /// Returns the options that do not name a directory. The defaults of most of them depend on the
    /// kernel's build configuration, so every relevant option is given.
    fn options(&self) -> impl Iterator<Item = (&'static std::ffi::CStr, Option<&'static std::ffi::CStr>)> {
        let redirect = match self.attributes {
            Attributes::Trusted => (c"redirect_dir", Some(c"on")),
            Attributes::User => (c"userxattr", None),
        };
        let volatile = (self.durability == Durability::Volatile).then_some((c"volatile", None));
        let always = [
            redirect,
            (c"xino", Some(c"on")),
            // With metacopy, the data of a file stay in a lower layer, and a change of that layer
            // breaks the file.
            (c"metacopy", Some(c"off")),
            // An index ties the upper layer to one lower layer, which a rebase of a workspace
            // replaces.
            (c"index", Some(c"off")),
        ];
        always.into_iter().chain(volatile)
    }
}

/// Creates an overlay.
///
/// The directories are opened once and passed as descriptors (Linux 6.13 and newer). Older kernels
/// take paths: see [`overlay_by_names`].
pub fn overlay(layers: &Overlay<'_>) -> Result<Detached, MountError> {
    let context = Context::open(c"overlay")?;
    context.set_string(c"source", c"sapwood")?;
    for lower in &layers.lower {
        context.set_dir(c"lowerdir+", lower)?;
    }
    if let Some(data) = layers.data {
        context.set_dir(c"datadir+", data)?;
    }
    context.set_dir(c"upperdir", layers.upper)?;
    context.set_dir(c"workdir", layers.work)?;
    for (name, value) in layers.options() {
        match value {
            Some(value) => context.set_string(name, value)?,
            None => context.set_flag(name)?,
        }
    }
    context.create(MountAttrFlags::empty())
}

/// Mounts an overlay at `at` with `mount(2)`, for kernels that do not accept descriptors. Returns
/// `ENAMETOOLONG` if the paths together exceed a page.
pub fn overlay_by_names(layers: &Overlay<'_>, at: &Path) -> Result<(), MountError> {
    let mut options = b"lowerdir=".to_vec();
    for (place, lower) in layers.lower.iter().enumerate() {
        if place > 0 {
            options.push(b':');
        }
        push_escaped(&mut options, lower);
    }
    if let Some(data) = layers.data {
        options.extend_from_slice(b"::");
        push_escaped(&mut options, data);
    }
    for (name, dir) in [(",upperdir=", layers.upper), (",workdir=", layers.work)] {
        options.extend_from_slice(name.as_bytes());
        push_escaped(&mut options, dir);
    }
    for (name, value) in layers.options() {
        options.push(b',');
        options.extend_from_slice(name.to_bytes());
        if let Some(value) = value {
            options.push(b'=');
            options.extend_from_slice(value.to_bytes());
        }
    }
    if options.len() > LONGEST_OPTIONS {
        return Err(Errno::NAMETOOLONG.into());
    }
    let options = CString::new(options).map_err(io::Error::from)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    Ok(call(Phase::Other, || rustix::mount::mount("sapwood", at, "overlay", flags, &*options))?)
}

/// Appends the path of a directory. Commas and colons are separators for the kernel, and a
/// backslash escapes the next byte.
fn push_escaped(options: &mut Vec<u8>, dir: &Path) {
    for &byte in dir.as_os_str().as_bytes() {
        if matches!(byte, b'\\' | b',' | b':') {
            options.push(b'\\');
        }
        options.push(byte);
    }
}

/// Returns true if the error of [`overlay`] means that this kernel does not accept descriptors.
pub fn takes_no_descriptors(error: &MountError) -> bool {
    let refused = [Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP].map(|errno| Some(errno.raw_os_error()));
    refused.contains(&error.source.raw_os_error())
}

/// The cause of a refused mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// This user may not mount here (`EPERM`, `EACCES`).
    NotAllowed,
    /// The kernel does not support the file system (`ENODEV`).
    UnknownFileSystem,
    /// The kernel mounts only block devices, not files (`ENOTBLK`).
    NoBlockDevice,
}

/// Returns the cause of a refused mount, if the error number determines it.
pub fn refusal(error: &io::Error) -> Option<Refusal> {
    match Errno::from_io_error(error)? {
        Errno::PERM | Errno::ACCESS => Some(Refusal::NotAllowed),
        Errno::NODEV => Some(Refusal::UnknownFileSystem),
        Errno::NOTBLK => Some(Refusal::NoBlockDevice),
        _ => None,
    }
}

/// The unmount mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmount {
    /// Fails with `EBUSY` while a process uses the mount.
    Plain,
    /// Detaches the mount at once. Processes that use it keep it until they end.
    Lazy,
}

/// Unmounts the uppermost mount at `path`. Does not follow `path` if it is a symbolic link.
pub fn unmount(path: &Path, how: Unmount) -> io::Result<()> {
    let flags = match how {
        Unmount::Plain => UnmountFlags::NOFOLLOW,
        Unmount::Lazy => UnmountFlags::NOFOLLOW | UnmountFlags::DETACH,
    };
    Ok(retried(Phase::Other, || rustix::mount::unmount(path, flags))?)
}

/// A second, detached mount of a file system. While it exists, an unmount of the first mount is not
/// the last one, so it does not wait for the disk.
#[derive(Debug)]
pub struct Kept(OwnedFd);

/// Creates a second mount of the file system that is mounted at `path`.
pub fn keep(path: &Path) -> io::Result<Kept> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    Ok(Kept(retried(Phase::Other, || open_tree(CWD, path, flags))?))
}

impl Kept {
    /// Ends the second mount in a separate process, which waits for the disk, so that this process
    /// does not wait. If no process can be started, this process waits.
    pub fn end_behind_us(self) {
        use std::process::{Command, Stdio};
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "read line"]).current_dir("/");
        // The shell waits for the end of its input. By then only the shell has the mount.
        command.stdin(Stdio::piped()).stdout(self.0).stderr(Stdio::null());
        let started = command.spawn();
        drop(command);
        drop(started);
    }
}

/// Makes all mounts of this mount namespace private: none appears in another namespace.
pub fn make_private() -> io::Result<()> {
    let flags = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    Ok(retried(Phase::Other, || rustix::mount::mount_change(c"/", flags))?)
}

/// Shows the directory or file `from` at `at`, with the mounts below it.
pub fn bind(from: &Path, at: &Path) -> io::Result<()> {
    Ok(retried(Phase::Other, || rustix::mount::mount_bind_recursive(from, at))?)
}

/// Like [`bind`], for an open directory, which another mount may hide.
pub fn bind_open(from: &crate::File, at: &Path) -> io::Result<()> {
    bind(Path::new(&format!("/proc/self/fd/{}", from.as_fd().as_raw_fd())), at)
}

/// `struct mount_attr` of `linux/mount.h`.
#[repr(C)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// `MS_PRIVATE` of `linux/mount.h`.
const PRIVATE: u64 = 1 << 18;
/// `MOUNT_ATTR_IDMAP` of `linux/mount.h`.
const MAPPED: u64 = 0x0010_0000;

/// Restricts a detached mount (`mount_setattr`): it is `nosuid,nodev`, and no mount in it appears
/// elsewhere. With a user namespace, only the ids that it maps have rights in the mount, and files
/// of other owners belong to nobody there.
pub fn restrict(mount: impl AsFd, ids: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let attributes = MountAttributes {
        set: u64::from(flags.bits()) | ids.map_or(0, |_| MAPPED),
        clear: 0,
        propagation: PRIVATE,
        user_namespace: ids.map_or(0, |ids| ids.as_raw_fd() as u64),
    };
    set_attributes(mount, libc::AT_EMPTY_PATH, &attributes)
}

/// Copies the mount that `path` is on from there, with all mounts below it. The copy is `nosuid`
/// and `nodev`. It is private: no later mount or unmount in it reaches the original, or comes from
/// there. Nobody can write through a copy that is `read_only`.
pub fn copy_tree(path: &Path, read_only: bool) -> io::Result<Detached> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    let copy = Detached(retried(Phase::Other, || open_tree(CWD, path, flags))?);
    let mut set = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    if read_only {
        set |= MountAttrFlags::MOUNT_ATTR_RDONLY;
    }
    let attributes =
        MountAttributes { set: set.bits().into(), clear: 0, propagation: PRIVATE, user_namespace: 0 };
    set_attributes(&copy.0, libc::AT_EMPTY_PATH | libc::AT_RECURSIVE, &attributes)?;
    Ok(copy)
}

/// Runs `mount_setattr` on an open mount.
fn set_attributes(mount: impl AsFd, flags: i32, attributes: &MountAttributes) -> io::Result<()> {
    let mount = mount.as_fd().as_raw_fd();
    let result = call(Phase::Other, || {
        // SAFETY: the path is an empty string, and the structure has the kernel's layout. Both live
        // during the call, and the kernel only reads them.
        unsafe {
            libc::syscall(
                libc::SYS_mount_setattr,
                mount,
                c"".as_ptr(),
                flags,
                std::ptr::from_ref(attributes),
                size_of::<MountAttributes>(),
            )
        }
    });
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Mounts an empty file system in memory, which only this user may enter.
pub fn tmpfs(at: &Path) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    Ok(retried(Phase::Other, || {
        rustix::mount::mount(c"sapwood", at, c"tmpfs", flags, Some(c"mode=700,size=1m"))
    })?)
}

/// Writes all pending data to the file system of `path` (`syncfs`).
pub fn sync_file_system(path: &Path) -> io::Result<()> {
    let file = call(Phase::Open, || std::fs::File::open(path))?;
    Ok(retried(Phase::Sync, || rustix::fs::syncfs(&file))?)
}

/// The configuration context of a file system before its creation (`fsopen`).
struct Context(OwnedFd);

impl Context {
    fn open(file_system: &std::ffi::CStr) -> Result<Context, MountError> {
        Ok(Context(retried(Phase::Other, || fsopen(file_system, FsOpenFlags::FSOPEN_CLOEXEC))?))
    }

    fn set_flag(&self, name: &std::ffi::CStr) -> Result<(), MountError> {
        self.told(fsconfig_set_flag(&self.0, name))
    }

    fn set_string(&self, name: &std::ffi::CStr, value: &std::ffi::CStr) -> Result<(), MountError> {
        self.told(fsconfig_set_string(&self.0, name, value))
    }

    /// Sets an option to the path of a file. A path that is too long is replaced by
    /// `/proc/self/fd/<n>`.
    fn set_path(
        &self,
        name: &std::ffi::CStr,
        path: &Path,
        open: &mut Vec<Closing<OwnedFd>>,
    ) -> Result<(), MountError> {
        if path.as_os_str().len() <= LONGEST_VALUE {
            return self.told(fsconfig_set_string(&self.0, name, path));
        }
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let file = Closing::new(retried(Phase::Open, || rustix::fs::open(path, flags, Mode::empty()))?);
        let short = format!("/proc/self/fd/{}", file.get().as_raw_fd());
        open.push(file);
        self.told(fsconfig_set_string(&self.0, name, OsStr::new(&short)))
    }

    fn set_dir(&self, name: &std::ffi::CStr, dir: &Path) -> Result<(), MountError> {
        let dir = open_dir(dir)?;
        self.told(fsconfig_set_fd(&self.0, name, dir.get()))
    }

    fn create(&self, attributes: MountAttrFlags) -> Result<Detached, MountError> {
        self.told(call(Phase::Other, || fsconfig_create(&self.0)))?;
        let attributes = attributes | MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        let mount = call(Phase::Other, || fsmount(&self.0, FsMountFlags::FSMOUNT_CLOEXEC, attributes));
        self.told(mount).map(Detached)
    }

    /// Adds the kernel's messages to an error.
    fn told<T>(&self, answer: Result<T, Errno>) -> Result<T, MountError> {
        answer.map_err(|errno| MountError { source: errno.into(), messages: messages(self.0.as_fd()) })
    }
}

/// Returns the pending messages of the context. Each read returns one message, after a letter for
/// its severity and a blank.
fn messages(context: BorrowedFd<'_>) -> Vec<String> {
    let Ok(copy) = context.try_clone_to_owned() else { return Vec::new() };
    let mut context = std::fs::File::from(copy);
    let mut all = Vec::new();
    let mut buffer = [0; 1024];
    while let Ok(length @ 1..) = context.read(&mut buffer) {
        let text = String::from_utf8_lossy(&buffer[..length]);
        let text = text.trim_end();
        all.push(text.get(2..).unwrap_or(text).to_owned());
    }
    all
}

fn open_dir(path: &Path) -> Result<Closing<OwnedFd>, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    retried(Phase::Open, || rustix::fs::openat(CWD, path, flags, Mode::empty())).map(Closing::new)
}
