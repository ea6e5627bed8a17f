//! The data of the fault matrix: which operations fail, with which error, and at which call.

use std::fmt;

use testkit::weather::{At, Counts, Errno, Fault, Nth, Operation, What};

use super::rig::{Command, Program};
use crate::random::Random;

/// An error number, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum InjectedError {
    Io,
    NoSpace,
    Quota,
    Access,
    ReadOnly,
    TooManyOpen,
    Stale,
    Interrupted,
    /// A write of only a few bytes.
    Short,
}

use InjectedError::{Access, Interrupted, Io, NoSpace, Quota, ReadOnly, Short, Stale, TooManyOpen};

impl InjectedError {
    pub(super) fn errno(self) -> Option<i32> {
        Some(match self {
            Io => 5,
            NoSpace => 28,
            Quota => 122,
            Access => 13,
            ReadOnly => 30,
            TooManyOpen => 24,
            Stale => 116,
            Interrupted => 4,
            Short => return None,
        })
    }

    pub(super) fn what(self) -> What {
        match self.errno() {
            Some(errno) => What::Fail(Errno::from_raw_os_error(errno)),
            None => What::Short(7),
        }
    }

    /// Returns the system's message.
    pub(super) fn reason(self) -> String {
        let errno = self.errno().expect("what has none is absorbed");
        let reason = std::io::Error::from_raw_os_error(errno).to_string();
        reason.split(" (os error").next().unwrap_or_default().to_owned()
    }

    /// Returns true if the program recovers from the failure and reports nothing.
    pub(super) fn is_absorbed(self) -> bool {
        matches!(self, Interrupted | Short)
    }
}

/// The failures of each operation. A full disk stays full.
const TROUBLES: &[(Operation, &[InjectedError])] = &[
    (Operation::Lookup, &[Io, Access, Stale, Interrupted]),
    (Operation::Getattr, &[Io, Stale, Interrupted]),
    (Operation::Setattr, &[Io, Access, Interrupted]),
    (Operation::Readlink, &[Io, Stale, Interrupted]),
    (Operation::Mkdir, &[Io, NoSpace, Quota, Access, Interrupted]),
    (Operation::Unlink, &[Io, Access, Stale, Interrupted]),
    (Operation::Rmdir, &[Io, Access, Interrupted]),
    (Operation::Symlink, &[Io, NoSpace, Quota, Access, Interrupted]),
    (Operation::Rename, &[Io, NoSpace, Quota, Access, Stale, Interrupted]),
    (Operation::Link, &[Io, NoSpace, Quota, Access, Interrupted]),
    (Operation::Open, &[Io, Access, TooManyOpen, Stale, Interrupted]),
    (Operation::Read, &[Io, Stale, Interrupted]),
    (Operation::Write, &[Io, NoSpace, Quota, Stale, Interrupted, Short]),
    (Operation::Create, &[Io, NoSpace, Quota, Access, TooManyOpen, Stale, Interrupted]),
    (Operation::Flush, &[Io, NoSpace, Quota, Stale, Interrupted]),
    (Operation::Fsync, &[Io, NoSpace, Quota, Interrupted]),
    (Operation::Opendir, &[Io, Access, TooManyOpen, Stale, Interrupted]),
    (Operation::Readdir, &[Io, Stale, Interrupted]),
    (Operation::Fsyncdir, &[Io, Interrupted]),
    (Operation::Statfs, &[Io]),
    (Operation::Access, &[Io, Access]),
    (Operation::Fallocate, &[Io, NoSpace, Quota, Interrupted]),
];

/// One run of one command with one fault.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) number: usize,
    pub(super) command: Command,
    pub(super) workers: usize,
    pub(super) operation: Operation,
    pub(super) injected: InjectedError,
    pub(super) nth: Nth,
}

impl Case {
    pub(super) fn program(&self) -> Program {
        Program::Sapwood(self.workers)
    }

    pub(super) fn faults(&self) -> Vec<Fault> {
        let Case { operation, nth, .. } = *self;
        vec![Fault { operation: Some(operation), at: At::Anywhere, nth, what: self.injected.what() }]
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { number, command, workers, operation, injected, nth } = self;
        write!(f, "{number}: {command:?}, {workers} workers, {}: {injected:?}, {nth:?}", operation.name())
    }
}

/// Returns the cases of a command that needs `counts` of each operation: the first, the middle and
/// the last call of each kind, and `more` calls at random.
pub(super) fn of(
    command: Command,
    workers: usize,
    counts: &Counts,
    more: usize,
    random: &mut Random,
) -> Vec<Case> {
    let mut cases = Vec::new();
    for &(operation, troubles) in TROUBLES {
        let count = counts.of(operation);
        if count == 0 {
            continue;
        }
        let mut places = vec![1, count.div_ceil(2), count];
        places.extend((0..more).map(|_| 1 + random.below(count as usize) as u64));
        places.sort_unstable();
        places.dedup();
        for &injected in troubles {
            for &place in &places {
                // The kernel repeats a read by itself after a failed read-ahead.
                let lasts = matches!(injected, NoSpace | Quota | Short)
                    || (operation == Operation::Read && injected != Interrupted);
                let nth = if lasts { Nth::From(place) } else { Nth::Only(place) };
                cases.push(Case { number: 0, command, workers, operation, injected, nth });
            }
        }
    }
    cases
}

/// A kind of ref read that fails; each call of the kind fails in turn.
pub(super) struct RefRead {
    pub(super) number: usize,
    pub(super) command: Command,
    operation: Operation,
    /// packed-refs, or all loose refs.
    at: At,
}

impl RefRead {
    pub(super) const ERROR: InjectedError = Io;

    pub(super) fn faults(&self, nth: u64) -> Vec<Fault> {
        let operation = Some(self.operation);
        vec![Fault { operation, at: self.at.clone(), nth: Nth::Only(nth), what: Self::ERROR.what() }]
    }

    /// Returns all kinds of ref reads.
    pub(super) fn all() -> Vec<RefRead> {
        use Operation::{Getattr, Lookup, Open, Opendir, Read, Readdir};
        let places = [At::Below("repo/.git/refs".into()), At::Path("repo/.git/packed-refs".into())];
        let mut all = Vec::new();
        for command in [Command::Clone, Command::Checkout, Command::Switch, Command::Reset] {
            for at in &places {
                for operation in [Lookup, Getattr, Open, Read, Opendir, Readdir] {
                    all.push(RefRead { number: all.len(), command, operation, at: at.clone() });
                }
            }
        }
        all
    }
}

impl fmt::Display for RefRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RefRead { number, command, operation, at } = self;
        write!(f, "{number}: {command:?}, {} of {at:?}", operation.name())
    }
}

/// An operation that always fails at one path. The path is the same for Git, so its run can be
/// compared.
pub(super) struct FailingPath {
    pub(super) number: usize,
    pub(super) command: Command,
    pub(super) operation: Operation,
    pub(super) injected: InjectedError,
    pub(super) path: String,
}

impl FailingPath {
    pub(super) fn faults(&self) -> Vec<Fault> {
        let at = At::Path(self.path.as_str().into());
        vec![Fault { operation: Some(self.operation), at, nth: Nth::Every, what: self.injected.what() }]
    }
}

impl fmt::Display for FailingPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FailingPath { number, command, operation, injected, path } = self;
        write!(f, "{number}: {command:?}, {} of {path}: {injected:?}", operation.name())
    }
}

/// A path, the operation on it, and its errors.
type Struck = (&'static str, Operation, &'static [InjectedError]);

/// Paths in the repository that a command works on. `BLOB`, `PACK` and `PACK_INDEX` stand for the
/// source of a file's content.
const PLACES: &[Struck] = &[
    ("both/1", Operation::Create, &[Io, NoSpace, Quota, Access]),
    ("both/1", Operation::Write, &[Io, NoSpace, Quota, Stale]),
    ("both/1", Operation::Unlink, &[Io, Access]),
    ("old/1", Operation::Unlink, &[Io, Access]),
    ("old/1", Operation::Create, &[Quota]),
    ("new", Operation::Mkdir, &[Io, NoSpace, Access]),
    ("old", Operation::Mkdir, &[NoSpace]),
    ("link", Operation::Symlink, &[Io, Quota, Access]),
    (".git/index", Operation::Open, &[Io, Access, Stale, TooManyOpen]),
    (".git/index.lock", Operation::Create, &[Io, NoSpace, Access]),
    (".git/index.lock", Operation::Write, &[Io, NoSpace, Quota]),
    (".git/index.lock", Operation::Flush, &[Quota]),
    (".git/index.lock", Operation::Rename, &[Io, Access]),
    (".git/HEAD", Operation::Open, &[Access]),
    (".git/HEAD.lock", Operation::Create, &[Io, NoSpace, Access]),
    (".git/HEAD.lock", Operation::Write, &[Io, NoSpace]),
    (".git/HEAD.lock", Operation::Rename, &[Io, Access]),
    (".git/logs/HEAD", Operation::Open, &[Io, Access]),
    (".git/logs/HEAD", Operation::Write, &[NoSpace]),
    (".git/refs/heads/main.lock", Operation::Create, &[NoSpace]),
    (".git/refs/heads/main.lock", Operation::Rename, &[Io]),
    (".git/refs/heads/topic", Operation::Open, &[Io, Access, Stale]),
    (".git/packed-refs", Operation::Open, &[Io, Access]),
    (".git/config", Operation::Open, &[Io, Access]),
    ("BLOB", Operation::Open, &[Io, Access, Stale]),
    ("BLOB", Operation::Read, &[Io, Stale]),
    ("PACK", Operation::Open, &[Io, Access]),
    ("PACK", Operation::Read, &[Io, Stale]),
    ("PACK_INDEX", Operation::Open, &[Io, Access]),
    ("PACK_INDEX", Operation::Read, &[Io]),
];

/// Paths of a clone: in the source, and in the copy.
const CLONE_PLACES: &[Struck] = &[
    ("copy", Operation::Mkdir, &[Io, NoSpace, Access]),
    ("copy/both/1", Operation::Create, &[Io, NoSpace, Access]),
    ("copy/both/1", Operation::Write, &[Io, NoSpace, Quota]),
    ("copy/both", Operation::Mkdir, &[NoSpace]),
    ("copy/link", Operation::Symlink, &[Access]),
    ("copy/.git/index.lock", Operation::Create, &[NoSpace]),
    ("copy/.git/index.lock", Operation::Write, &[Io, NoSpace]),
    ("copy/.git/packed-refs.lock", Operation::Create, &[NoSpace]),
    ("copy/.git/refs/heads/main.lock", Operation::Create, &[NoSpace]),
    ("repo/.git/HEAD", Operation::Open, &[Io, Access]),
    ("repo/.git/objects", Operation::Opendir, &[Io, Access]),
    ("repo/.git/refs/heads/topic", Operation::Open, &[Io]),
    ("repo.bundle", Operation::Open, &[Io, Access]),
    ("repo.bundle", Operation::Read, &[Io]),
];

/// Returns all cases. `of_content` returns the path of a blob, a pack and its index.
pub(super) fn places(of_content: impl Fn(&str) -> String) -> Vec<FailingPath> {
    let mut all = Vec::new();
    let commands = [Command::Paths, Command::Switch, Command::Reset, Command::Clone, Command::CloneBundle];
    for command in commands {
        for &(path, operation, troubles) in if command.is_clone() { CLONE_PLACES } else { PLACES } {
            let path = match path {
                "BLOB" | "PACK" | "PACK_INDEX" => of_content(path),
                path if command.is_clone() => path.to_owned(),
                path => format!("repo/{path}"),
            };
            for &injected in troubles {
                let number = all.len();
                all.push(FailingPath { number, command, operation, injected, path: path.clone() });
            }
        }
    }
    all
}
