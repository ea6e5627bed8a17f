//! The system calls that change a file system or the table of mounts.

use std::{
    ffi::OsStr,
    fs::{self, File},
    os::unix::{ffi::OsStrExt as _, fs::FileExt as _},
};

use nix::{libc, sys::ptrace, unistd::Pid};

/// The longest path that is read from a program.
const LONGEST: usize = 4096;

/// The conditions under which a call is a change. The numbers are those of the arguments.
#[derive(Clone, Copy)]
enum Change {
    /// Always; the argument is the path.
    Path(usize),
    /// If the descriptor is that of a file.
    File(usize),
    /// If the flags create or truncate.
    Open { path: usize, flags: usize },
    /// Like `Open`; the argument is the address of the flags.
    OpenHow { path: usize, how: usize },
    /// If the request is one of `REQUESTS`.
    Request,
}

/// Requests of `ioctl(2)` that change a file: `FICLONE`, `FICLONERANGE`, `FS_IOC_SETFLAGS`.
const REQUESTS: [u64; 3] = [0x4004_9409, 0x4020_940d, 0x4008_6602];

type Call = (libc::c_long, &'static str, Change);

macro_rules! calls {
    ($($name:ident: $change:expr,)*) => {
        &[$((libc::$name, stringify!($name), $change),)*]
    };
}

const CALLS: &[Call] = {
    use Change::{File, Open, OpenHow, Path, Request};
    calls! {
        SYS_openat: Open { path: 1, flags: 2 },
        SYS_openat2: OpenHow { path: 1, how: 2 },
        SYS_write: File(0),
        SYS_pwrite64: File(0),
        SYS_writev: File(0),
        SYS_pwritev: File(0),
        SYS_pwritev2: File(0),
        SYS_sendfile: File(0),
        SYS_copy_file_range: File(2),
        SYS_splice: File(2),
        SYS_ftruncate: File(0),
        SYS_truncate: Path(0),
        SYS_fallocate: File(0),
        SYS_ioctl: Request,
        SYS_mkdirat: Path(1),
        SYS_mknodat: Path(1),
        SYS_symlinkat: Path(2),
        SYS_linkat: Path(3),
        SYS_renameat: Path(1),
        SYS_renameat2: Path(1),
        SYS_unlinkat: Path(1),
        SYS_fchmod: File(0),
        SYS_fchmodat: Path(1),
        SYS_fchmodat2: Path(1),
        SYS_fchown: File(0),
        SYS_fchownat: Path(1),
        SYS_utimensat: Path(1),
        SYS_setxattr: Path(0),
        SYS_lsetxattr: Path(0),
        SYS_fsetxattr: File(0),
        SYS_removexattr: Path(0),
        SYS_lremovexattr: Path(0),
        SYS_fremovexattr: File(0),
        SYS_mount: Path(1),
        SYS_umount2: Path(0),
        SYS_move_mount: Path(3),
        SYS_mount_setattr: Path(1),
        SYS_pivot_root: Path(0),
    }
};

/// Calls that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLD_CALLS: &[Call] = {
    use Change::{Open, Path};
    calls! {
        SYS_open: Open { path: 0, flags: 1 },
        SYS_creat: Path(0),
        SYS_mkdir: Path(0),
        SYS_mknod: Path(0),
        SYS_symlink: Path(1),
        SYS_link: Path(1),
        SYS_rename: Path(0),
        SYS_unlink: Path(0),
        SYS_rmdir: Path(0),
        SYS_chmod: Path(0),
        SYS_chown: Path(0),
        SYS_lchown: Path(0),
        SYS_utime: Path(0),
        SYS_utimes: Path(0),
        SYS_futimesat: Path(1),
    }
};

#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: &[Call] = &[];

/// A call that a stopped thread is about to make.
pub(super) struct Changing {
    thread: Pid,
    pub(super) name: &'static str,
    change: Change,
    args: [u64; 6],
}

impl Changing {
    /// Returns the call at whose entry the thread stands, if it changes something.
    pub(super) fn at_entry_of(thread: Pid) -> Option<Changing> {
        let (number, args) = registers(thread)?;
        let known = CALLS.iter().chain(OLD_CALLS).find(|call| call.0 == number)?;
        let call = Changing { thread, name: known.1.trim_start_matches("SYS_"), change: known.2, args };
        call.is_change().then_some(call)
    }

    fn is_change(&self) -> bool {
        let creates = |flags: u64| {
            let creating = (libc::O_CREAT | libc::O_TRUNC | (libc::O_TMPFILE & !libc::O_DIRECTORY)) as u64;
            flags & creating != 0
        };
        match self.change {
            Change::Path(_) => true,
            Change::File(argument) => self.file(argument).is_some(),
            Change::Open { flags, .. } => creates(self.args[flags]),
            Change::OpenHow { how, .. } => {
                let bytes = self.memory(self.args[how], 8);
                bytes.try_into().is_ok_and(|flags| creates(u64::from_ne_bytes(flags)))
            }
            Change::Request => REQUESTS.contains(&self.args[1]),
        }
    }

    /// Returns the name of a file that is open. Reading the link asks no file system: the thread
    /// that would answer may be stopped too.
    fn file(&self, argument: usize) -> Option<String> {
        let link = format!("/proc/{}/fd/{}", self.thread, self.args[argument] as i32);
        let path = fs::read_link(link).ok()?.to_string_lossy().into_owned();
        let is_device = path.starts_with("/dev/") && !path.starts_with("/dev/shm/");
        let is_none = ["/proc/", "/sys/", "/memfd:"].iter().any(|place| path.starts_with(place));
        (path.starts_with('/') && !is_device && !is_none).then_some(path)
    }

    fn path(&self, argument: usize) -> String {
        let bytes = self.memory(self.args[argument], LONGEST);
        let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        OsStr::from_bytes(name).to_string_lossy().into_owned()
    }

    /// Reads up to `length` bytes of the program's memory.
    fn memory(&self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let read = File::open(format!("/proc/{}/mem", self.thread))
            .and_then(|memory| memory.read_at(&mut bytes, address))
            .unwrap_or_default();
        bytes.truncate(read);
        bytes
    }

    /// Returns the name of the call, and the path that it changes.
    pub(super) fn describe(&self) -> String {
        let path = match self.change {
            Change::Path(path) | Change::Open { path, .. } | Change::OpenHow { path, .. } => self.path(path),
            Change::File(argument) => self.file(argument).unwrap_or_default(),
            Change::Request => self.file(0).unwrap_or_default(),
        };
        format!("{} '{path}'", self.name)
    }
}

#[cfg(target_arch = "x86_64")]
fn registers(thread: Pid) -> Option<(libc::c_long, [u64; 6])> {
    let all = ptrace::getregs(thread).ok()?;
    Some((all.orig_rax as libc::c_long, [all.rdi, all.rsi, all.rdx, all.r10, all.r8, all.r9]))
}

#[cfg(target_arch = "aarch64")]
fn registers(thread: Pid) -> Option<(libc::c_long, [u64; 6])> {
    let all = ptrace::getregs(thread).ok()?.regs;
    Some((all[8] as libc::c_long, [all[0], all[1], all[2], all[3], all[4], all[5]]))
}
