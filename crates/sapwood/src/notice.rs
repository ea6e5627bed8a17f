//! Notices: things that the user should know and that stop nothing.

use std::{
    ffi::OsString,
    fmt,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use bstr::BString;
use engine::midx::Notice as ObjectFile;
use repo::{fsck::Line, keys};

use crate::{text, upstream::Installed};

/// How urgent a notice is, and so how a program words it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Text that has its own prefixes and newlines.
    Verbatim,
    /// A line without a prefix.
    Plain,
    /// A line of the result, for the standard output.
    Result,
    /// Advice.
    Hint,
    /// A warning.
    Warning,
    /// An error that stops nothing.
    Error,
    /// An error that ended a program of the operation, and not the operation.
    Fatal,
}

/// A notice. Its text is the one that Git prints, without a prefix and a newline.
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice {
    /// The configured version of new index files is unknown. The text names its source.
    UnknownIndexVersion(&'static str),
    /// A setting of `core.fsync*` that is deprecated or unknown.
    Fsync(String),
    /// A warning about the sparse patterns.
    SparsePatterns(BString),
    /// A sparse index is expanded.
    SparseIndexExpanded,
    /// How to turn off [`Notice::SparseIndexExpanded`].
    SparseIndexAdvice,
    /// An unmerged path of an index that is expanded, and its object.
    Unmerged(BString, String),
    /// More unmerged paths than are listed.
    MoreUnmerged,
    /// A monitor is configured that cannot watch this repository.
    UnfitMonitor(BString),
    /// The monitor did not answer, so each file is examined.
    MonitorFailed(String),
    /// The monitor program gave no token.
    EmptyToken,
    /// The configured version of the monitor program is unknown.
    UnknownMonitorVersion(i32),
    /// Git's daemon could not be asked. The text names its socket.
    DaemonUnreachable(BString),
    /// Git's daemon gave no answer.
    DaemonSilent,
    /// The objects of a sealed workspace had to be copied.
    ObjectsCopied(BString),
    /// A hook is not executable.
    IgnoredHook(String),
    /// A program cannot be executed.
    CannotExecute(BString, String),
    /// A command is not found or cannot be run.
    CannotRun(BString, String),
    /// A signal ended a program.
    DiedOfSignal(BString, i32),
    /// A file or directory of the worktree cannot be examined.
    Unreadable(BString, String),
    /// A warning about `.gitmodules` or a submodule.
    Submodule(BString),
    /// An error of a submodule, which stops nothing else.
    SubmoduleError(BString),
    /// An error that ends the move of a submodule.
    SubmoduleFatal(BString),
    /// A submodule could not be moved, and is left as it is. The error is a [`crate::Error`].
    SubmoduleFailed(Box<dyn std::error::Error + Send + Sync>),
    /// How to keep the repositories of nested submodules apart.
    SubmodulePathConfig,
    /// Warnings of a plan, with their own prefixes and newlines.
    Plan(BString),
    /// A message of a converter or filter, with its own prefix.
    Converter(String),
    /// A file could not be written or removed.
    StepFailed(BString),
    /// A path without an entry, or with a file in its place, is left out.
    Skipped(BString),
    /// A file could not be removed, and stays; nothing else depends on it.
    Undeleted(String),
    /// A file was changed by another program after it was examined, and stays.
    ChangedMeanwhile(BString),
    /// A file cannot be put into the index.
    NotStaged(BString),
    /// A content has no object name, for this reason.
    NotHashed(BString),
    /// A path that no index may have is left out.
    IgnoredPath(BString),
    /// A setting will undo a change of the index as a whole.
    Contradicted(String),
    /// A repository inside of the worktree was added as a submodule without a URL.
    EmbeddedRepository(BString),
    /// Paths that were named are ignored.
    IgnoredPaths(Vec<BString>),
    /// Paths or pathspecs match only entries outside of the sparse checkout.
    OutsideSparseCheckout(Vec<BString>),
    /// A file that should be removed cannot be examined, or was changed meanwhile.
    NotRemoved(BString),
    /// A file that a move replaces.
    Overwriting(BString),
    /// A name that several refs have.
    AmbiguousName(BString),
    /// The name of a ref has the form of an object name.
    ObjectNameWarning,
    /// A commit message is not UTF-8, though it should be.
    NotUtf8,
    /// A warning about signing.
    Signature(BString),
    /// Why there is no signature.
    SignatureError(BString),
    /// The state of the operation that a commit concludes could not be removed.
    NotConcluded(String),
    /// The output of a program.
    Program(BString),
    /// Git's advice.
    Advice {
        /// Its setting, `advice.<name>`.
        name: &'static str,
        /// The advice.
        text: BString,
        /// True if the configuration does not ask for it, so that the text says how to turn it off.
        is_default: bool,
    },
    /// A warning about the search for local changes.
    LocalChanges(BString),
    /// A warning about the search for untracked files.
    Untracked(BString),
    /// The untracked cache was made elsewhere.
    UntrackedCacheDisabled,
    /// An error about alternates of the object store.
    ObjectStore(BString),
    /// A file of the object directory does not belong there.
    Garbage(BString),
    /// A file of packs or commits cannot be used as it is.
    ObjectFile(ObjectFile),
    /// A flaw of an object in a pack.
    ObjectFlaw(Line),
    /// A warning about a new commit-graph.
    CommitGraph(String),
    /// A pack or a directory of loose objects cannot be read.
    UnreadableObjects(String),
    /// A file with alternates cannot be read.
    UnreadableAlternates(PathBuf, String),
    /// A warning of the repository that appears with the first object.
    Repository(BString),
    /// A selected path of a tree is not valid in an index, and is left out.
    InvalidPath(BString),
    /// HEAD moves during a bisection.
    Bisecting,
    /// The lock of a killed process was removed.
    LockRemoved(PathBuf),
    /// The claims in this directory cannot be examined, and why.
    LocksStay(PathBuf, String),
    /// A checkpoint cannot be read, so an older one counts as the newest. The text names its ref.
    CheckpointLeftOut(String),
    /// A watched worktree cannot be stored at present, and why.
    WatchPauses(String),
    /// Expired checkpoints could not be removed, and why.
    CheckpointsStay(String),
    /// The upstream of a new branch.
    Upstream(Box<Installed>),
    /// A new branch gets no upstream; the text says why.
    NoUpstream(BString),
    /// There are branches, but HEAD names none of them.
    InvalidHead,
    /// A new worktree gets a branch without a commit.
    InferringOrphan,
    /// How to get a worktree whose branch has no commit.
    OrphanAdvice {
        /// The branch that was asked for.
        branch: Option<BString>,
        /// The directory of the worktree.
        path: BString,
    },
    /// A worktree is prepared; the text names its branch or commit.
    PreparingWorktree(BString),
    /// A file of this worktree was not copied to the new one.
    NotCopied(BString),
    /// A worktree, or its record, could not be deleted.
    NotDeleted {
        /// The path.
        path: BString,
        /// The reason.
        reason: String,
    },
    /// The lock of a worktree could not be removed.
    NotUnlinked {
        /// Its path.
        path: BString,
        /// The reason.
        reason: String,
    },
    /// The commit of HEAD, and its subject.
    HeadIsNowAt(BString),
    /// `ORIG_HEAD` could not be written.
    OrigHead(String),
    /// A message about a base that was built.
    Base(String),
    /// A base that was lost is built again; the text says why.
    BaseAgain(BString),
    /// Somebody changed this directory after the base was built.
    ChangedBase(PathBuf),
    /// The base directory of a remote is not trusted, and gets no base; the text says why.
    NoBaseAdded(String),
    /// The base directory of a remote is not trusted, so its contents are copied; the text says
    /// why.
    ContentsCopied(String),
    /// Git cannot get the contents of bases; the text says why.
    ContentsRemote(String),
    /// The record of a workspace cannot be read.
    DamagedRecord(String),
    /// The layer with the changes of a workspace cannot be read.
    UnreadableLayer(String),
    /// The directory of a submodule in a workspace is gone.
    LostSubmodule(BString),
    /// An unmount waits for this process, which ends by itself.
    Waiting(String),
    /// The machine stopped while this workspace was mounted.
    Crashed(BString),
    /// A path that the crash damaged, and how.
    CrashFinding(BString),
    /// The file that names the damaged paths.
    CrashFile(PathBuf),
    /// A line that a server sent for the user.
    Remote(BString),
    /// Information about a transfer.
    Transfer(BString),
    /// A warning of a fetch or a clone.
    Fetch(BString),
    /// An error of a fetch or a clone that did not stop it.
    FetchError(BString),
    /// The workspace of another landing's check could not be removed; the text says why.
    CheckNotRemoved(BString),
    /// A rebase of this workspace that was killed is complete.
    RebaseCompleted(OsString),
    /// A stash entry changes no tracked file.
    UpToDate,
    /// Untracked files of a stash entry could not be restored.
    UntrackedNotRestored,
}

impl Notice {
    /// Returns its level.
    pub fn level(&self) -> Level {
        match self {
            Notice::Plan(_) | Notice::Program(_) => Level::Verbatim,
            Notice::Unmerged(..)
            | Notice::MoreUnmerged
            | Notice::Unreadable(..)
            | Notice::Converter(_)
            | Notice::IgnoredPaths(_)
            | Notice::IgnoredPath(_)
            | Notice::Skipped(_)
            | Notice::NotUtf8
            | Notice::ObjectNameWarning
            | Notice::OutsideSparseCheckout(_)
            | Notice::LockRemoved(_)
            | Notice::InferringOrphan
            | Notice::PreparingWorktree(_)
            | Notice::Base(_)
            | Notice::BaseAgain(_)
            | Notice::RebaseCompleted(_)
            | Notice::Remote(_)
            | Notice::Transfer(_)
            | Notice::Waiting(_)
            | Notice::CrashFinding(_) => Level::Plain,
            Notice::Upstream(_) | Notice::HeadIsNowAt(_) | Notice::UpToDate => Level::Result,
            Notice::SparseIndexExpanded
            | Notice::SparseIndexAdvice
            | Notice::SubmodulePathConfig
            | Notice::Advice { .. }
            | Notice::OrphanAdvice { .. }
            | Notice::CrashFile(_)
            | Notice::IgnoredHook(_) => Level::Hint,
            Notice::CannotExecute(..) | Notice::SubmoduleFatal(_) | Notice::SubmoduleFailed(_) => {
                Level::Fatal
            }
            Notice::SignatureError(_)
            | Notice::NotConcluded(_)
            | Notice::SubmoduleError(_)
            | Notice::NotStaged(_)
            | Notice::NotHashed(_)
            | Notice::StepFailed(_)
            | Notice::ChangedMeanwhile(_) => Level::Error,
            Notice::CannotRun(..)
            | Notice::DiedOfSignal(..)
            | Notice::DaemonUnreachable(_)
            | Notice::DaemonSilent
            | Notice::InvalidPath(_)
            | Notice::NotCopied(_)
            | Notice::NotDeleted { .. }
            | Notice::OrigHead(_)
            | Notice::DamagedRecord(_)
            | Notice::UnreadableLayer(_)
            | Notice::UntrackedNotRestored
            | Notice::FetchError(_)
            | Notice::UnreadableObjects(_)
            | Notice::ObjectFile(ObjectFile::Error(_))
            | Notice::ObjectFlaw(Line::Error(_))
            | Notice::ObjectStore(_) => Level::Error,
            _ => Level::Warning,
        }
    }
}

/// Git's hint.
const EXPANDED: &str = "\
The sparse index is expanding to a full index, a slow operation.
Your working directory likely has contents that are outside of
your sparse-checkout patterns. Use 'git sparse-checkout list' to
see your sparse-checkout definition and compare it to your working
directory contents. Cleaning up any merge conflicts or staged
changes before running 'git sparse-checkout clean' or 'git
sparse-checkout reapply' may assist in this cleanup.";

/// Git's warning about a ref whose name has the form of an object name.
const OBJECT_NAME: &str = "\
Git normally never creates a ref that ends with 40 hex characters
because it will be ignored when you just specify 40-hex. These refs
may be created by mistake. For example,

  git switch -c $br $(git rev-parse ...)

where \"$br\" is somehow empty and a 40-hex ref is created. Please
examine these refs and maybe delete them. Turn this message off by
running \"git config set advice.objectNameWarning false\"";

/// The text of [`Notice::NotUtf8`].
const NOT_UTF8: &str = "\
Warning: commit message did not conform to UTF-8.
You may want to amend it after fixing the message, or set the config
variable i18n.commitEncoding to the encoding your project uses.";

/// The heading of [`Notice::OutsideSparseCheckout`].
const OUTSIDE: &str = "\
The following paths and/or pathspecs matched paths that exist
outside of your sparse-checkout definition, so will not be
updated in the index:";

/// The heading of [`Notice::IgnoredPaths`].
const IGNORED: &str = "The following paths are ignored by one of your .gitignore files:";

/// The text of [`Notice::SubmodulePathConfig`].
const SUBMODULE_PATHS: &str = "\
enabling extensions.submodulePathConfig might fix the following error, if it's not already enabled.";

// The end of a text, after a name or path.
const INDEX_VERSION: &str = " set, but the value is invalid.\nUsing version 3";
const CHANGED_BASE: &str = "' after the base was built: each status examines every file. Make the base \
                            again, or restore it and mount the workspace again";
const COPIED: &str = "' are copies: the repository lies on another disk, or belongs to another user";
const CRASH_FILE: &str = "' names them until you commit in the workspace, or remove that file";
const IGNORED_HOOK: &str = "' hook was ignored because it's not set as executable.\n\
                            You can disable this warning with `git config set advice.ignoredHook false`.";

// The begin of a text, before a path.
const LOCKS_STAY: &str = "cannot remove the locks of killed commands in '";
const UNREACHABLE: &str = "fsmonitor_ipc__send_query: unspecified error on '";

/// Returns the line that says how to turn off an advice.
fn disable(setting: &str) -> String {
    format!("\nDisable this message with \"git config set {setting} false\"")
}

fn orphan_advice(branch: Option<&BString>, path: &BString) -> BString {
    let with = branch.map_or_else(BString::default, |branch| text!("-b ", branch, " "));
    text!(
        "If you meant to create a worktree containing a new unborn branch\n\
         (branch with no commits) for this repository, you can do so\n\
         using the --orphan flag:\n\n    git worktree add --orphan ",
        with,
        path,
        "\n",
        disable(keys::advice::WORKTREE_ADD_ORPHAN.name())
    )
}

fn unknown_monitor_version(version: i32) -> BString {
    format!("Invalid hook version '{version}' in core.fsmonitorhookversion. Must be 1 or 2.").into()
}

fn bytes_of(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

impl Notice {
    /// Returns the text as bytes: names need not be UTF-8.
    pub fn text(&self) -> BString {
        match self {
            Notice::UnknownIndexVersion(source) => text!(source, INDEX_VERSION),
            Notice::Fsync(text)
            | Notice::MonitorFailed(text)
            | Notice::Converter(text)
            | Notice::NotConcluded(text)
            | Notice::Undeleted(text)
            | Notice::Contradicted(text)
            | Notice::CommitGraph(text)
            | Notice::ObjectFile(ObjectFile::Error(text) | ObjectFile::Warning(text))
            | Notice::UnreadableObjects(text)
            | Notice::Base(text)
            | Notice::ContentsRemote(text)
            | Notice::DamagedRecord(text)
            | Notice::UnreadableLayer(text) => text.as_str().into(),
            Notice::NoBaseAdded(why) => format!("{why}\nUntil then no base is added there").into(),
            Notice::ContentsCopied(why) => format!("{why}\nUntil then contents are copied from there").into(),
            Notice::NotUtf8 => NOT_UTF8.into(),
            Notice::AmbiguousName(name) => text!("refname '", name, "' is ambiguous."),
            Notice::ObjectNameWarning => OBJECT_NAME.into(),
            Notice::Overwriting(path) => text!("overwriting '", path, "'"),
            Notice::EmbeddedRepository(path) => text!("adding embedded git repository: ", path),
            Notice::IgnoredPaths(paths) => text!(IGNORED, "\n", bstr::join("\n", paths)),
            Notice::OutsideSparseCheckout(paths) => text!(OUTSIDE, "\n", bstr::join("\n", paths)),
            Notice::Advice { text, is_default: false, .. } => text.clone(),
            Notice::Advice { name, text, .. } => {
                text!(text.strip_suffix(b"\n").unwrap_or(text), disable(name))
            }
            Notice::InvalidPath(path) => text!("invalid path '", path, "'"),
            Notice::SubmoduleFailed(error) => error.to_string().into(),
            Notice::SubmodulePathConfig => SUBMODULE_PATHS.into(),
            Notice::ChangedMeanwhile(path) => text!("'", path, "' was changed meanwhile: left as it is"),
            Notice::SparsePatterns(text)
            | Notice::Submodule(text)
            | Notice::Garbage(text)
            | Notice::SubmoduleError(text)
            | Notice::SubmoduleFatal(text)
            | Notice::Plan(text)
            | Notice::NotStaged(text)
            | Notice::NotHashed(text)
            | Notice::StepFailed(text)
            | Notice::Skipped(text)
            | Notice::Signature(text)
            | Notice::NotRemoved(text)
            | Notice::SignatureError(text)
            | Notice::CheckNotRemoved(text)
            | Notice::Program(text)
            | Notice::LocalChanges(text)
            | Notice::Untracked(text)
            | Notice::ObjectStore(text)
            | Notice::UnfitMonitor(text)
            | Notice::NoUpstream(text)
            | Notice::NotCopied(text)
            | Notice::BaseAgain(text)
            | Notice::LostSubmodule(text)
            | Notice::CrashFinding(text)
            | Notice::Fetch(text)
            | Notice::FetchError(text)
            | Notice::ObjectFlaw(Line::Error(text) | Line::Warning(text))
            | Notice::Repository(text) => text.clone(),
            Notice::Upstream(installed) => installed.text(),
            Notice::RebaseCompleted(name) => {
                text!("Completed the rebase of workspace '", name.as_bytes(), "'")
            }
            Notice::Remote(text) => text!("remote: ", text),
            Notice::IgnoredPath(path) => text!("Ignoring path ", path),
            Notice::Transfer(text) => text!("info: ", text),
            Notice::UpToDate => "Already up to date.".into(),
            Notice::UntrackedNotRestored => "could not restore untracked files from stash".into(),
            Notice::Bisecting => "you are switching branch while bisecting".into(),
            Notice::InvalidHead => "HEAD points to an invalid (or orphaned) reference.\n".into(),
            Notice::InferringOrphan => "No possible source branch, inferring '--orphan'".into(),
            Notice::OrphanAdvice { branch, path } => orphan_advice(branch.as_ref(), path),
            Notice::PreparingWorktree(text) => text!("Preparing worktree (", text, ")"),
            Notice::NotDeleted { path, reason } => text!("failed to delete '", path, "': ", reason),
            Notice::NotUnlinked { path, reason } => text!("unable to unlink '", path, "': ", reason),
            Notice::HeadIsNowAt(text) => text!("HEAD is now at ", text),
            Notice::ChangedBase(dir) => text!("somebody changed '", bytes_of(dir), CHANGED_BASE),
            Notice::LockRemoved(lock) => {
                text!("Removed '", bytes_of(lock), "', the lock of a killed command")
            }
            Notice::LocksStay(place, reason) => text!(LOCKS_STAY, bytes_of(place), "': ", reason),
            Notice::ObjectsCopied(name) => text!("the objects of '", name, COPIED),
            Notice::CheckpointLeftOut(error) => error.as_str().into(),
            Notice::WatchPauses(error) => format!("no checkpoint until this is mended: {error}").into(),
            Notice::CheckpointsStay(reason) => format!("cannot remove expired checkpoints: {reason}").into(),
            Notice::Waiting(process) => format!("Waiting for work in the background, {process}").into(),
            Notice::Crashed(name) => {
                text!("the machine stopped while the workspace '", name, "' was mounted")
            }
            Notice::CrashFile(file) => text!("'", bytes_of(file), CRASH_FILE),
            Notice::OrigHead(error) => format!("update_ref failed for ref 'ORIG_HEAD': {error}").into(),
            Notice::SparseIndexExpanded => EXPANDED.into(),
            Notice::SparseIndexAdvice => {
                disable(keys::advice::SPARSE_INDEX_EXPANDED.name()).trim_start().into()
            }
            Notice::Unmerged(path, object) => text!(path, ": unmerged (", object, ")"),
            Notice::MoreUnmerged => "...".into(),
            Notice::EmptyToken => "Empty last update token.".into(),
            Notice::UnknownMonitorVersion(version) => unknown_monitor_version(*version),
            Notice::DaemonUnreachable(socket) => text!(UNREACHABLE, socket, "'"),
            Notice::DaemonSilent => "could not read IPC response".into(),
            Notice::IgnoredHook(path) => text!("The '", path, IGNORED_HOOK),
            Notice::CannotExecute(program, reason) => text!("cannot exec '", program, "': ", reason),
            Notice::CannotRun(program, reason) => text!("cannot run ", program, ": ", reason),
            Notice::DiedOfSignal(program, signal) => text!(program, " died of signal ", signal.to_string()),
            Notice::Unreadable(path, reason) => text!(path, ": ", reason),
            Notice::UntrackedCacheDisabled => "untracked cache is disabled on this system or location".into(),
            Notice::UnreadableAlternates(file, reason) => {
                text!("unable to access '", bytes_of(file), "': ", reason)
            }
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.text(), formatter)
    }
}
