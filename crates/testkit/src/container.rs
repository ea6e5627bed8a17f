//! Commands under the rules of a container engine's default profile.

use std::{
    collections::BTreeMap,
    io,
    process::{Command, Output},
    thread,
};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

/// The capabilities that a container engine leaves to root, as options of `setpriv`.
pub const CAPABILITIES: &str = "-all,+chown,+dac_override,+fsetid,+fowner,+mknod,+net_raw,+setgid,+setuid,\
                                +setfcap,+setpcap,+net_bind_service,+sys_chroot,+kill,+audit_write";

/// System calls that the profile refuses to a process without `CAP_SYS_ADMIN`.
const REFUSED: &[libc::c_long] = &[
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pivot_root,
    libc::SYS_quotactl,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
];

/// The flags of `clone` that make a namespace.
const NAMESPACES: u64 = 0x7E02_0000;

/// Runs a command that may make the system calls of a container, and no others.
pub fn output(command: &mut Command) -> io::Result<Output> {
    let broken = |error: seccompiler::Error| io::Error::other(error.to_string());
    thread::scope(|scope| {
        let run = scope.spawn(|| {
            // A thread keeps its filters, and its children inherit them.
            for filter in filters().map_err(broken)? {
                seccompiler::apply_filter(&filter).map_err(broken)?;
            }
            command.output()
        });
        run.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn filters() -> Result<[BpfProgram; 2], seccompiler::Error> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let one_flag = |bit| {
        let condition = SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(bit), bit)?;
        SeccompRule::new(vec![condition])
    };
    let flags = (0..64).map(|bit| 1 << bit).filter(|bit| NAMESPACES & bit != 0);
    let mut refused: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.iter().map(|&call| (call, Vec::new())).collect();
    refused.insert(libc::SYS_clone, flags.map(one_flag).collect::<Result<_, _>>()?);
    // The arguments of `clone3` lie in memory, so a filter cannot read them. Libraries use `clone`
    // where it does not exist.
    let unknown = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let errors = [(refused, libc::EPERM), (unknown, libc::ENOSYS)];
    let [refused, unknown] = errors.map(|(calls, error)| {
        let action = SeccompAction::Errno(error.unsigned_abs());
        SeccompFilter::new(calls, SeccompAction::Allow, action, arch)?.try_into()
    });
    Ok([refused?, unknown?])
}
