//! The rights of a worker.

use std::io;

use rustix::thread::{
    CapabilitySet, CapabilitySets, Gid, Uid, set_capabilities, set_keep_capabilities, set_no_new_privs,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};
use seccompiler::{SeccompAction, SeccompFilter};

use crate::checks::Caller;

/// The capabilities of a worker, and so of the mounts that it makes: to mount, and to enter the
/// work directory of an overlay, which the kernel makes without permissions. It has no right to
/// change an owner. So the kernel cannot copy a file of another user to an upper layer.
const KEPT: CapabilitySet = CapabilitySet::SYS_ADMIN.union(CapabilitySet::DAC_OVERRIDE);
/// To join a mount namespace. Not effective otherwise.
const JOINING: CapabilitySet = CapabilitySet::SYS_CHROOT;

fn limit_to(effective: CapabilitySet) -> io::Result<()> {
    let sets = CapabilitySets { effective, permitted: KEPT | JOINING, inheritable: CapabilitySet::empty() };
    Ok(set_capabilities(None, sets)?)
}

/// Makes this process the caller, with [`KEPT`] and the system calls of a worker. The process has
/// one thread.
pub(crate) fn become_caller(caller: &Caller, memory: u64) -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let bound = |bytes| Rlimit { current: Some(bytes), maximum: Some(bytes) };
    setrlimit(Resource::As, bound(memory))?;
    setrlimit(Resource::Core, bound(0))?;
    setrlimit(Resource::Nproc, bound(0))?;
    set_keep_capabilities(true)?;
    let groups: Vec<Gid> = caller.groups.iter().map(|&gid| Gid::from_raw(gid)).collect();
    set_thread_groups(&groups)?;
    let (uid, gid) = (Uid::from_raw(caller.uid), Gid::from_raw(caller.gid));
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    limit_to(KEPT)?;
    set_no_new_privs(true)?;
    let broken = |error: seccompiler::Error| io::Error::other(error.to_string());
    seccompiler::apply_filter(&filter().map_err(broken)?).map_err(broken)
}

/// Runs `join` with the right to join a mount namespace.
pub(crate) fn joining(join: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    limit_to(KEPT | JOINING)?;
    let joined = join();
    limit_to(KEPT)?;
    joined
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
    calls![SYS_fstat SYS_newfstatat SYS_statx SYS_fstatfs SYS_flock],
    calls![SYS_fsopen SYS_fsconfig SYS_fsmount SYS_move_mount SYS_open_tree SYS_mount_setattr],
    calls![SYS_umount2 SYS_fchdir SYS_setns SYS_capset],
    // `statmount(2)` has one number on all architectures.
    &[457],
    calls![SYS_brk SYS_mmap SYS_mremap SYS_munmap SYS_mprotect SYS_madvise SYS_futex SYS_getrandom],
    calls![SYS_sigaltstack SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_restart_syscall],
    calls![SYS_getpid SYS_gettid SYS_tgkill SYS_exit SYS_exit_group],
    #[cfg(target_arch = "x86_64")]
    calls![SYS_open SYS_stat SYS_lstat SYS_poll],
];

fn filter() -> Result<seccompiler::BpfProgram, seccompiler::Error> {
    let rules = ALLOWED.iter().copied().flatten().map(|&number| (number, Vec::new())).collect();
    let arch = std::env::consts::ARCH.try_into()?;
    let filter = SeccompFilter::new(rules, SeccompAction::KillProcess, SeccompAction::Allow, arch)?;
    Ok(filter.try_into()?)
}
