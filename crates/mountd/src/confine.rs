//! The rights of a worker.

use std::io;

use rustix::thread::{
    CapabilitySet, CapabilitySets, Gid, capabilities, set_capabilities, set_no_new_privs, set_thread_groups,
};
use seccompiler::{SeccompAction, SeccompFilter};

use crate::peer::Caller;

/// To mount. Needed for the kernel's list of mounts too.
pub(crate) const MOUNT: CapabilitySet = CapabilitySet::SYS_ADMIN;
/// To use the directories of the service, which only root may enter, and to make an overlay: the
/// kernel makes its inner work directory without permissions. The worker has no right to change an
/// owner. So the kernel cannot copy a file of another user to an upper layer.
pub(crate) const ENTER: CapabilitySet = CapabilitySet::DAC_OVERRIDE;
/// To join a mount namespace.
pub(crate) const JOIN: CapabilitySet = CapabilitySet::SYS_CHROOT;

/// The processor time of a worker in seconds.
const SECONDS: u64 = 120;

/// Makes this process one with the files of the caller and no effective capability. It allows the
/// system calls of a worker only. The process has one thread.
///
/// Its real, effective and saved user stays root: the caller may neither stop, end nor trace it,
/// nor change its limits, while it holds a lock.
pub(crate) fn become_caller(caller: &Caller, memory: u64) -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let bound = |bytes| Rlimit { current: Some(bytes), maximum: Some(bytes) };
    setrlimit(Resource::As, bound(memory))?;
    setrlimit(Resource::Core, bound(0))?;
    setrlimit(Resource::Nproc, bound(0))?;
    // An image may be made to be checked slowly.
    setrlimit(Resource::Cpu, bound(SECONDS))?;
    let groups: Vec<Gid> = caller.groups.iter().map(|&gid| Gid::from_raw(gid)).collect();
    set_thread_groups(&groups)?;
    sys::user::set_file_ids(caller.uid, caller.groups[0])?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: MOUNT | ENTER | JOIN, inheritable: none };
    set_capabilities(None, sets)?;
    set_no_new_privs(true)?;
    let broken = |error: seccompiler::Error| io::Error::other(error.to_string());
    seccompiler::apply_filter(&filter().map_err(broken)?).map_err(broken)
}

/// Runs `act` with these capabilities, as far as the process may have them, and without others.
pub(crate) fn with<T, E: From<io::Error>>(
    rights: CapabilitySet,
    act: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let sets = capabilities(None).map_err(io::Error::from)?;
    let limit_to =
        |effective| set_capabilities(None, CapabilitySets { effective, ..sets }).map_err(io::Error::from);
    limit_to(rights & sets.permitted)?;
    let done = act();
    limit_to(CapabilitySet::empty())?;
    done
}

macro_rules! calls {
    ($($name:ident)*) => { &[$(libc::$name),*] };
}

/// The system calls of a worker after its start, by purpose: messages and what comes along; the
/// user's image, its copy and the table; mounts; memory and the end. Any other one ends the
/// process. No arguments are checked: the capabilities bound these calls.
const ALLOWED: &[&[libc::c_long]] = &[
    calls![SYS_recvmsg SYS_sendmsg SYS_recvfrom SYS_shutdown SYS_close SYS_fcntl SYS_ppoll],
    calls![SYS_openat SYS_read SYS_pread64 SYS_write SYS_pwrite64 SYS_lseek SYS_getdents64 SYS_unlinkat],
    calls![SYS_fstat SYS_newfstatat SYS_statx SYS_fstatfs SYS_readlinkat SYS_flock],
    calls![SYS_fsopen SYS_fsconfig SYS_fsmount SYS_move_mount SYS_open_tree SYS_mount_setattr],
    calls![SYS_umount2 SYS_chdir SYS_fchdir SYS_setns SYS_capget SYS_capset],
    // `statmount(2)` has one number on all architectures.
    &[457],
    calls![SYS_brk SYS_mmap SYS_mremap SYS_munmap SYS_mprotect SYS_madvise SYS_futex SYS_getrandom],
    calls![SYS_sigaltstack SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_restart_syscall],
    calls![SYS_getpid SYS_gettid SYS_exit SYS_exit_group],
    #[cfg(target_arch = "x86_64")]
    calls![SYS_open SYS_stat SYS_lstat SYS_poll SYS_readlink],
];

fn filter() -> Result<seccompiler::BpfProgram, seccompiler::Error> {
    let rules = ALLOWED.iter().copied().flatten().map(|&number| (number, Vec::new())).collect();
    let arch = std::env::consts::ARCH.try_into()?;
    let filter = SeccompFilter::new(rules, SeccompAction::KillProcess, SeccompAction::Allow, arch)?;
    Ok(filter.try_into()?)
}
