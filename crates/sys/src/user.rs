//! The user who runs the process, and the host, as Git reads them from the user database.
//!
//! Every lookup is best effort: an unknown name is `None`. musl reads only `/etc/passwd` and the
//! socket of `nscd`. A program with musl then asks the system's program `getent`, which also finds
//! the users of LDAP, sssd and systemd.

use std::{
    ffi::{CStr, CString, OsStr},
    io,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    process::{Command, Stdio},
};

/// Returns the major and minor version of the kernel; zeros if it has an unusual form.
pub fn kernel_version() -> (u32, u32) {
    let name = rustix::system::uname();
    let text = name.release().to_string_lossy();
    let mut numbers = text.split(|letter: char| !letter.is_ascii_digit()).map_while(|text| text.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// An entry of the user database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The login name.
    pub name: Vec<u8>,
    /// The "GECOS" field: the full name and, after commas, other data.
    pub gecos: Vec<u8>,
    /// The home directory.
    pub home: PathBuf,
}

/// Returns the effective user id.
pub fn effective_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns the effective group id.
pub fn effective_gid() -> u32 {
    rustix::process::getegid().as_raw()
}

/// Sets the user and group whose files this thread may use (`setfsuid`, `setfsgid`). The real,
/// effective and saved ids stay, so this user may neither signal nor trace the thread.
pub fn set_file_ids(uid: u32, gid: u32) -> io::Result<()> {
    // SAFETY: these calls take and return numbers.
    unsafe {
        libc::setfsgid(gid);
        libc::setfsuid(uid);
        // The calls report no error. With an invalid id they only return the current one.
        if libc::setfsgid(u32::MAX) as u32 == gid && libc::setfsuid(u32::MAX) as u32 == uid {
            return Ok(());
        }
    }
    Err(io::ErrorKind::PermissionDenied.into())
}

/// Returns the groups of the process: the effective one and the supplementary ones.
pub fn groups() -> Vec<u32> {
    let others = rustix::process::getgroups().unwrap_or_default();
    std::iter::once(effective_gid()).chain(others.into_iter().map(rustix::process::Gid::as_raw)).collect()
}

/// Returns the id that the kernel reports for the owners that the user namespace of this process
/// does not map. Returns `None` if the namespace maps all ids.
pub fn unmapped_id() -> Option<u32> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let map = read("/proc/self/uid_map");
    let counts = map.lines().filter_map(|line| line.split_whitespace().nth(2)?.parse::<u64>().ok());
    if map.is_empty() || counts.sum::<u64>() >= u64::from(u32::MAX) {
        return None;
    }
    Some(read("/proc/sys/kernel/overflowuid").trim_end().parse().unwrap_or(OVERFLOW_ID))
}

/// The default of `/proc/sys/kernel/overflowuid`.
const OVERFLOW_ID: u32 = 65534;

/// Returns the entry of the real user. Commits and reflogs contain its name.
pub fn current() -> Option<User> {
    let uid = rustix::process::getuid().as_raw();
    let found = lookup(|passwd, buffer, result| {
        // SAFETY: `lookup` passes pointers that are valid for writes, and the length of the buffer.
        unsafe { libc::getpwuid_r(uid, passwd, buffer.as_mut_ptr().cast(), buffer.len(), result) }
    });
    found.or_else(|| ask_system(uid.to_string().as_bytes()))
}

/// Returns the entry of a login name.
pub fn by_name(name: &[u8]) -> Option<User> {
    let string = CString::new(name).ok()?;
    let found = lookup(|passwd, buffer, result| {
        // SAFETY: as in `current`; `string` outlives the call and ends in NUL.
        unsafe { libc::getpwnam_r(string.as_ptr(), passwd, buffer.as_mut_ptr().cast(), buffer.len(), result) }
    });
    // `getent` takes a number for a user id.
    let is_number = name.iter().all(u8::is_ascii_digit);
    found.or_else(|| if is_number { None } else { ask_system(name) })
}

/// Asks `getent` for the entry of a login name or user id, if the C library is musl.
fn ask_system(key: &[u8]) -> Option<User> {
    if cfg!(target_env = "musl") { getent(key) } else { None }
}

fn getent(key: &[u8]) -> Option<User> {
    let mut command = Command::new("getent");
    command.args(["passwd", "--"]).arg(OsStr::from_bytes(key)).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    let mut fields = output.stdout.trim_ascii_end().split(|&byte| byte == b':').map(<[u8]>::to_vec);
    let name = fields.next()?;
    // Password, user id and group id.
    let gecos = fields.nth(3)?;
    let home = OsStr::from_bytes(&fields.next()?).into();
    Some(User { name, gecos, home })
}

/// Returns the host's name as set in the kernel.
pub fn host_name() -> Vec<u8> {
    rustix::system::uname().nodename().to_bytes().to_vec()
}

/// Returns the operating system's name as the kernel reports it.
pub fn system_name() -> Vec<u8> {
    rustix::system::uname().sysname().to_bytes().to_vec()
}

fn lookup(
    mut call: impl FnMut(*mut libc::passwd, &mut [u8], *mut *mut libc::passwd) -> libc::c_int,
) -> Option<User> {
    let mut buffer = vec![0u8; 4096];
    loop {
        let mut passwd = std::mem::MaybeUninit::<libc::passwd>::uninit();
        let mut result = std::ptr::null_mut();
        match call(passwd.as_mut_ptr(), &mut buffer, &mut result) {
            libc::ERANGE if buffer.len() < 1 << 20 => {
                let len = buffer.len() * 2;
                buffer.resize(len, 0);
            }
            0 if !result.is_null() => {
                // SAFETY: success and a non-null result mean that the entry is filled in.
                let passwd = unsafe { passwd.assume_init() };
                let bytes = |text: *const libc::c_char| {
                    if text.is_null() {
                        return Vec::new();
                    }
                    // SAFETY: the fields of a filled-in entry are C strings inside `buffer`, which
                    // is still alive.
                    unsafe { CStr::from_ptr(text) }.to_bytes().to_vec()
                };
                return Some(User {
                    name: bytes(passwd.pw_name),
                    gecos: bytes(passwd.pw_gecos),
                    home: OsStr::from_bytes(&bytes(passwd.pw_dir)).into(),
                });
            }
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_root_and_no_unknown_user() {
        assert_eq!(by_name(b"root").map(|user| user.name), Some(b"root".to_vec()));
        assert_eq!(by_name(b"no-such-user-here"), None);
        assert_eq!(by_name(b"nul\0inside"), None);
    }

    #[test]
    fn the_system_finds_the_entry_that_the_library_finds() {
        assert_eq!(getent(b"root"), by_name(b"root"));
        assert_eq!(getent(rustix::process::getuid().as_raw().to_string().as_bytes()), current());
        assert_eq!(getent(b"no-such-user-here"), None);
        assert_eq!(getent(b"--help"), None);
    }

    #[test]
    fn the_host_has_a_name() {
        assert!(!host_name().is_empty());
    }
}
