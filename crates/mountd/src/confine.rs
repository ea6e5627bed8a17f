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

/// The system calls of a worker after its start. Any other one ends the process. The kernel checks
/// no arguments of these: the capabilities bound them.
const ALLOWED: &[libc::c_long] = &[
    // Messages, and the descriptors that come along.
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_getsockopt,
    libc::SYS_close,
    libc::SYS_fcntl,
    libc::SYS_ppoll,
    // Files: the user's image, its copy, the table.
    libc::SYS_openat,
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_fstatfs,
    libc::SYS_getdents64,
    libc::SYS_unlinkat,
    libc::SYS_flock,
    // Mounts.
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    libc::SYS_umount2,
    libc::SYS_fchdir,
    libc::SYS_setns,
    libc::SYS_capset,
    SYS_STATMOUNT,
    // Memory, and the end.
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_getrandom,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_tgkill,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// One number on all architectures.
const SYS_STATMOUNT: libc::c_long = 457;
/// `poll(2)`, which some architectures do not have.
#[cfg(target_arch = "x86_64")]
const POLL: &[libc::c_long] = &[libc::SYS_poll];
#[cfg(not(target_arch = "x86_64"))]
const POLL: &[libc::c_long] = &[];

fn filter() -> Result<seccompiler::BpfProgram, seccompiler::Error> {
    let rules = ALLOWED.iter().chain(POLL).map(|&number| (number, Vec::new())).collect();
    let arch = std::env::consts::ARCH.try_into()?;
    let filter = SeccompFilter::new(rules, SeccompAction::KillProcess, SeccompAction::Allow, arch)?;
    Ok(filter.try_into()?)
}
