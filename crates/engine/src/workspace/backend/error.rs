//! Errors of mounting and unmounting.

use std::{
    fmt, io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString};
use mountd::{
    client,
    wire::{Answer, Code},
};
use sys::FileSystem;

use super::{super::base, Backend};

/// The reason why a workspace was not mounted or unmounted.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("cannot {action} '{}': {}", .path.display(), sys::reason(.source))]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// A layer or a device of the base is missing.
    #[error("cannot mount '{}': '{}' does not exist", .top.display(), .missing.display())]
    Missing { top: PathBuf, missing: PathBuf },
    #[error("cannot mount the workspace: its directory '{}' does not exist", .path.display())]
    NoDirectory { path: PathBuf },
    /// The upper layer is missing.
    #[error("cannot mount '{}': '{}', which holds its changes, does not exist", .top.display(), .upper.display())]
    NoUpper { top: PathBuf, upper: PathBuf },
    #[error("cannot mount '{}': {}{}", .path.display(), sys::reason(.source), joined(.messages))]
    Mount { path: PathBuf, source: io::Error, messages: Vec<String> },
    #[error("cannot mount '{}': this user may not mount", .path.display())]
    NotAllowed { path: PathBuf },
    #[error("cannot mount '{}': this kernel has no file system '{file_system}'", .path.display())]
    NoFileSystem { path: PathBuf, file_system: &'static str },
    #[error(
        "cannot mount '{}': this kernel mounts no image files that are on a file system '{file_system}'",
        .image.display()
    )]
    NoImageFiles { image: PathBuf, file_system: String },
    #[error("the file system '{file_system}' of '{}' cannot hold an upper layer", .upper.display())]
    UnfitUpper { upper: PathBuf, file_system: String },
    /// Another file system is mounted at the path of the workspace.
    #[error("cannot mount '{}': a file system of type '{file_system}' is mounted there", .path.display())]
    Covered { path: PathBuf, file_system: String },
    /// The mount point of a base shows another image.
    #[error("'{}' is not a mount of the base '{}'", .path.display(), .image.display())]
    OtherBase { path: PathBuf, image: PathBuf },
    #[error("'{}' is no EROFS image", .image.display())]
    NotAnImage { image: PathBuf },
    /// The newer layer cannot be read after a crash.
    #[error(transparent)]
    Newer(Box<crate::workspace::newer::Error>),
    #[error("'{}' is in use by {}", .path.display(), list(.processes))]
    Busy { path: PathBuf, processes: Vec<Process> },
    /// Something is mounted inside the workspace.
    #[error("'{}' contains a mount: '{}'", .path.display(), .inner.display())]
    Inside { path: PathBuf, inner: PathBuf },
    /// A bind mount shows the workspace, or a part of it, at another place.
    #[error("'{}' is mounted at '{}', too", .path.display(), .copy.display())]
    Copied { path: PathBuf, copy: PathBuf },
    #[error("'{}' cannot show the workspace at '{}': one contains the other", .at.display(), .top.display())]
    Nested { top: PathBuf, at: PathBuf },
    /// The workspace is mounted in a mount namespace other than this process's.
    #[error("'{}' is mounted in another mount namespace: {}", .path.display(), list(.processes))]
    Elsewhere { path: PathBuf, processes: Vec<Process> },
    /// The last mount was made on another host, which shares the file system.
    #[error("'{}' was mounted by the host '{host}', and may be in use there", .path.display())]
    OtherHost { path: PathBuf, host: String, marker: PathBuf },
    /// Another process is mounting the upper layer, or has it mounted.
    #[error("the upper layer '{}' is in use by another process", .upper.display())]
    Locked { upper: PathBuf },
    /// The process that should hold the mount failed, with this message.
    #[error("{message}")]
    Holder { message: String, advice: Option<String> },
    #[error("cannot make a user namespace: {}", sys::reason(.source))]
    NoNamespaces { source: io::Error },
    /// The process that holds the mount does not respond.
    #[error("'{}' is held by {process}, which does not react", .path.display())]
    Stuck { path: PathBuf, process: Process },
    /// A program that a backend needs is not installed.
    #[error("the program '{name}' is not installed")]
    NoProgram { name: &'static str },
    #[error("'{program}' takes no path with a colon, a comma or a backslash: '{}'", .layer.display())]
    UnfitName { layer: PathBuf, program: &'static str },
    #[error("'{}' failed for '{}': {message}", .program.display(), .top.display())]
    Program { program: PathBuf, top: PathBuf, message: String },
    #[error("cannot start '{}': {}", .program.display(), sys::reason(.source))]
    Start { program: PathBuf, source: io::Error },
    /// The wanted backend does not work here.
    #[error("the backend '{}' does not work here: {reason}", .backend.name())]
    Unfit { backend: Backend, reason: String },
    /// The mount service refused, or did not answer.
    #[error("cannot mount '{}' by the mount service at '{}': {what}", .path.display(), .socket.display())]
    Service { path: PathBuf, socket: PathBuf, what: String },
    #[error(transparent)]
    Base(#[from] crate::workspace::base::Error),
    #[error(transparent)]
    Upper(#[from] crate::workspace::upper::Error),
    #[error("'{}' is not mounted", .path.display())]
    NotMounted { path: PathBuf },
}

impl Error {
    pub(in crate::workspace) fn io(
        action: &'static str,
        path: &Path,
    ) -> impl FnOnce(io::Error) -> Error + use<> {
        let path = path.to_owned();
        move |source| Error::Io { action, path, source }
    }

    /// Returns a line of advice for the user.
    pub fn advice(&self) -> Option<String> {
        let advice = match self {
            Error::Missing { missing, .. } => {
                format!("mount the disk that holds '{}', or bring it back from a backup", missing.display())
            }
            Error::NoDirectory { path } => {
                format!("mount the disk that holds it, or make it again: mkdir -p {}", quoted(path))
            }
            Error::NoUpper { upper, .. } => {
                let name = upper.parent().and_then(Path::file_name).unwrap_or_default();
                format!(
                    "mount the disk that holds it; if the changes are lost: sapwood workspace remove --force {}",
                    format::shell::quote_pretty(BStr::new(name.as_bytes()))
                )
            }
            Error::Inside { inner, .. } => format!("unmount that first: umount '{}'", inner.display()),
            Error::Copied { copy, .. } => format!("unmount that first: umount '{}'", copy.display()),
            Error::NotAllowed { .. } => {
                format!("run as root, or use '--backend {}'", Backend::OverlayUser.name())
            }
            Error::NoFileSystem { .. } | Error::Unfit { .. } => {
                "'sapwood workspace doctor' names the backends that work here".to_owned()
            }
            Error::NoImageFiles { .. } => {
                "put the bases on ext4, xfs or btrfs with '--base-dir DIR'; this needs \
                 Linux 6.12"
                    .to_owned()
            }
            Error::UnfitUpper { .. } => {
                "put the upper layer on ext4, xfs, btrfs or tmpfs with '--upper-dir DIR'".to_owned()
            }
            Error::Covered { path, .. } | Error::OtherBase { path, .. } => {
                format!("unmount it first: umount '{}'", path.display())
            }
            Error::NotAnImage { image } => {
                format!("remove it, and the next mount builds it again: rm -f {}", quoted(image))
            }
            Error::Busy { .. } => "end these processes, or change their directory".to_owned(),
            Error::Elsewhere { .. } => {
                "run this command in the same namespace, or end these processes".to_owned()
            }
            Error::OtherHost { marker, host, .. } => format!(
                "unmount it on '{host}', or remove '{}' if it is not mounted there any more",
                marker.display()
            ),
            Error::Locked { .. } => "try again".to_owned(),
            Error::NotMounted { .. } => "mount it: 'sapwood workspace mount'".to_owned(),
            Error::Holder { advice, .. } => return advice.clone(),
            Error::NoNamespaces { .. } => {
                "this system forbids them to this user, or there are too many: see the \
                 settings 'user.max_user_namespaces' and 'kernel.apparmor_restrict_unprivileged_userns' of \
                 sysctl"
                    .to_owned()
            }
            Error::Stuck { process, .. } => format!("end it: kill {}", process.pid),
            Error::UnfitName { .. } => {
                "move the repository or the base directory, or use another backend".to_owned()
            }
            Error::NoProgram { name } => format!("install '{name}', or use another backend"),
            Error::Program { message, .. } if message.contains("/dev/fuse") => {
                "'sapwood workspace doctor' names the backends that work here".to_owned()
            }
            Error::Program { .. }
            | Error::Nested { .. }
            | Error::Io { .. }
            | Error::Mount { .. }
            | Error::Service { .. }
            | Error::Start { .. }
            | Error::Newer(_)
            | Error::Upper(_)
            | Error::Base(_) => {
                return None;
            }
        };
        Some(advice)
    }
}

/// A process that uses a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// The process id.
    pub pid: u32,
    /// The process name, if the process still runs.
    pub name: Option<String>,
}

impl Process {
    pub(super) fn of(pid: u32) -> Process {
        Process { pid, name: sys::namespace::name_of(pid) }
    }

    /// Returns true if this is Git's maintenance or garbage collection, a program that it runs, or
    /// the process that makes a base durable. Also returns true for a process that has ended since
    /// it was found.
    pub fn ends_by_itself(&self) -> bool {
        let lines = sys::namespace::command_lines_up_from(self.pid);
        let has_ended = lines.first().is_none_or(|words| words.iter().all(Vec::is_empty));
        has_ended || lines.iter().any(|words| is_maintenance(words) || is_hardening(words))
    }
}

/// Returns true for the command line of sapwood's process that makes a base durable. It runs at the
/// lowest priority, and in the namespace of a workspace that only the processes there see.
fn is_hardening(words: &[Vec<u8>]) -> bool {
    matches!(words, [_, group, command, ..] if group == b"workspace" && command == base::HARDEN.as_bytes())
}

/// Returns true for a command line of `git maintenance` or `git gc`.
fn is_maintenance(words: &[Vec<u8>]) -> bool {
    let Some((program, args)) = words.split_first() else { return false };
    let name = program.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let mut args = args.iter();
    let command = match name {
        b"git" => loop {
            match args.next().map(Vec::as_slice) {
                // These options take the next word.
                Some(b"-c" | b"-C" | b"--git-dir" | b"--work-tree" | b"--namespace") => drop(args.next()),
                Some(option) if option.starts_with(b"-") => {}
                command => break command,
            }
        },
        _ => name.strip_prefix(b"git-"),
    };
    matches!(command, Some(b"maintenance" | b"gc"))
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "process {} ({name})", self.pid),
            None => write!(f, "process {}", self.pid),
        }
    }
}

fn list(processes: &[Process]) -> String {
    const SHOWN: usize = 5;
    match processes {
        [] => "a process that this user may not see".to_owned(),
        _ => {
            let mut all: Vec<_> = processes.iter().take(SHOWN).map(Process::to_string).collect();
            if let Some(more @ 1..) = processes.len().checked_sub(SHOWN) {
                all.push(format!("{more} more"));
            }
            all.join(", ")
        }
    }
}

/// Quotes a path for the shell.
fn quoted(path: &Path) -> BString {
    format::shell::quote(BStr::new(path.as_os_str().as_bytes()))
}

fn joined(messages: &[String]) -> String {
    messages.iter().map(|message| format!("; {message}")).collect()
}

/// Returns the error of a request that the mount service did not serve.
pub(super) fn refused(error: client::Error, at: &Path, socket: &Path) -> Error {
    let what = match error {
        client::Error::Refused(answer) => words(&answer),
        other => other.to_string(),
    };
    Error::Service { path: at.to_owned(), socket: socket.to_owned(), what }
}

/// Returns the reason of a refusal, in words.
pub(super) fn words(answer: &Answer) -> String {
    let what = match answer.code {
        Code::Done => "it is done",
        Code::Malformed => "it is of another version",
        Code::Root => "it does not serve root",
        Code::Busy => "it is busy",
        Code::Namespace => "it serves no process in a user namespace",
        Code::Sandbox => "it serves no process in a sandbox, with a filter of system calls or 'no_new_privs'",
        Code::Descriptor => "a file or directory is of another type, or cannot be read",
        Code::Owner => "a directory belongs to another user",
        Code::FileSystem => "a directory or file lies on a file system that it does not take",
        Code::MountPoint => "the mount point is not empty, or something is mounted there",
        Code::Image => "it does not take the image",
        Code::Limit => "this user has too many mounts",
        Code::InUse => "the upper layer is mounted elsewhere",
        Code::NoMount => "nothing of this user is mounted there",
        Code::Kernel => return kernel_words(answer),
    };
    format!("{what}{}", joined(&answer.messages))
}

fn kernel_words(answer: &Answer) -> String {
    let source = io::Error::from_raw_os_error(answer.errno);
    format!("{}{}", sys::reason(&source), joined(&answer.messages))
}

/// Returns the error of a mount that the kernel rejected, with its cause. The kernel itself mostly
/// reports only `EINVAL`.
pub(super) fn explained(
    error: sys::mount::MountError,
    at: &Path,
    file_system: &'static str,
    upper: Option<&Path>,
    needed: &[&Path],
) -> Error {
    let path = at.to_owned();
    if let Some(missing) = needed.iter().find(|path| matches!(sys::by_path::stat_followed(path), Ok(None))) {
        return Error::Missing { top: path, missing: missing.to_path_buf() };
    }
    let sys::mount::MountError { source, messages } = error;
    match sys::mount::refusal(&source) {
        Some(sys::mount::Refusal::NotAllowed) => return Error::NotAllowed { path },
        Some(sys::mount::Refusal::UnknownFileSystem) => return Error::NoFileSystem { path, file_system },
        Some(sys::mount::Refusal::NoBlockDevice) => {
            let image = needed[0].to_owned();
            let file_system = FileSystem::of(&image).ok().and_then(|found| found.name);
            return Error::NoImageFiles { image, file_system: file_system.unwrap_or_default() };
        }
        None => {}
    }
    if let Some(upper) = upper
        && let Ok(FileSystem { name: Some(name), is_local }) = FileSystem::of(upper)
        && (!is_local || UNFIT.contains(&name.as_str()))
    {
        return Error::UnfitUpper { upper: upper.to_owned(), file_system: name };
    }
    Error::Mount { path, source, messages }
}

/// File systems that overlayfs rejects for an upper layer, because they lack whiteouts, `d_type`,
/// or extended attributes.
const UNFIT: &[&str] =
    &["overlay", "vfat", "exfat", "msdos", "ramfs", "erofs", "squashfs", "iso9660", "ecryptfs"];

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<Vec<u8>> {
        line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn recognises_the_process_that_makes_a_base_durable() {
        assert!(is_hardening(&words("sapwood workspace harden-base /bases 12ab /state")));
        for line in ["sapwood workspace hold /repo one auto", "sh -c harden-base", "sapwood", ""] {
            assert!(!is_hardening(&words(line)), "{line}");
        }
    }

    #[test]
    fn proposes_commands_for_a_shell() {
        let error = Error::NoDirectory { path: "/it's".into() };
        assert!(error.advice().expect("a remedy").ends_with(r": mkdir -p '/it'\''s'"));
    }

    #[test]
    fn recognises_maintenance() {
        let is = |line: &str| is_maintenance(&words(line));
        for line in [
            "git maintenance run --auto --quiet --detach",
            "/usr/lib/git-core/git -c a.b=c --no-pager gc --auto",
            "git -C /repo maintenance run",
            "/usr/lib/git-core/git-gc",
        ] {
            assert!(is(line), "{line}");
        }
        for line in ["git commit -m gc", "git -c gc status", "sh -c gc", "gc", "git", "vim maintenance", ""] {
            assert!(!is(line), "{line}");
        }
    }
}
