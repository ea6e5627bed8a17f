//! Operations that fail, or write less than requested.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use bstr::{BString, ByteSlice as _};
use rustix::io::Errno;

use super::Operation;

/// A rule that changes the outcome of some operations.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The kind of operation; `None` for all kinds.
    pub operation: Option<Operation>,
    /// The paths.
    pub at: At,
    /// The selection among these operations.
    pub nth: Nth,
    /// The outcome.
    pub what: What,
}

/// The paths of a rule, from the mount's root without a leading slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    /// All paths.
    Anywhere,
    /// One path.
    Path(BString),
    /// A directory and everything below it.
    Below(BString),
    /// Paths that end with this.
    Suffix(BString),
}

/// The selection among the operations that a rule matches, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nth {
    /// All operations.
    Every,
    /// Only this operation.
    Only(u64),
    /// This operation and all later ones: a full disk stays full.
    From(u64),
}

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It fails without any effect.
    Fail(Errno),
    /// A write writes at most this many bytes. Other operations are unchanged.
    Short(usize),
    /// The power is cut before it: it fails, and so do all later operations.
    Cut,
}

/// An operation whose outcome a rule changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Struck {
    /// The kind of operation.
    pub operation: Operation,
    /// The paths of the operation: for a rename, source and destination; for a file with several
    /// names, all of them.
    pub paths: Vec<BString>,
    /// The outcome.
    pub what: What,
}

impl Fault {
    /// Makes all operations of a kind fail.
    pub fn fail(operation: Operation, errno: Errno) -> Fault {
        let what = What::Fail(errno);
        Fault { operation: Some(operation), at: At::Anywhere, nth: Nth::Every, what }
    }

    /// Limits each write to `most` bytes.
    pub fn short(most: usize) -> Fault {
        let (operation, what) = (Some(Operation::Write), What::Short(most));
        Fault { operation, at: At::Anywhere, nth: Nth::Every, what }
    }

    /// Cuts the power before an operation of a kind.
    pub fn cut(operation: Operation) -> Fault {
        Fault { operation: Some(operation), at: At::Anywhere, nth: Nth::Every, what: What::Cut }
    }

    /// Limits the rule to these paths.
    pub fn at(self, at: At) -> Fault {
        Fault { at, ..self }
    }

    /// Limits the rule to these operations.
    pub fn nth(self, nth: Nth) -> Fault {
        Fault { nth, ..self }
    }
}

impl At {
    fn holds(&self, path: &[u8]) -> bool {
        match self {
            At::Anywhere => true,
            At::Path(this) => *this == path,
            At::Below(dir) => match path.strip_prefix(dir.as_slice()) {
                Some(rest) => dir.is_empty() || rest.is_empty() || rest.starts_with(b"/"),
                None => false,
            },
            At::Suffix(end) => path.ends_with_str(end),
        }
    }
}

/// The active rules, each with the number of operations that it has matched.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// True if there are rules: paths are only computed then.
    any: AtomicBool,
    rules: Mutex<Vec<(Fault, u64)>>,
    struck: Mutex<Vec<Struck>>,
}

impl Faults {
    /// Replaces all rules, and clears the list of changed operations.
    pub(super) fn set(&self, faults: Vec<Fault>) {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        self.any.store(!faults.is_empty(), Ordering::Release);
        *rules = faults.into_iter().map(|fault| (fault, 0)).collect();
        self.struck.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Returns the operations that rules have changed.
    pub(super) fn struck(&self) -> Vec<Struck> {
        self.struck.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Decides the outcome of one operation on `paths`: the first rule that applies wins.
    pub(super) fn strike(&self, operation: Operation, paths: impl FnOnce() -> Vec<BString>) -> Option<What> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let paths = paths();
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let mut struck = None;
        for (fault, seen) in rules.iter_mut() {
            let is_meant = fault.operation.is_none_or(|kind| kind == operation)
                && paths.iter().any(|path| fault.at.holds(path));
            if !is_meant {
                continue;
            }
            *seen += 1;
            let strikes = match fault.nth {
                Nth::Every => true,
                Nth::Only(nth) => *seen == nth,
                Nth::From(nth) => *seen >= nth,
            };
            if strikes {
                struck = struck.or(Some(fault.what));
            }
        }
        drop(rules);
        if let Some(what) = struck {
            let mut all = self.struck.lock().unwrap_or_else(PoisonError::into_inner);
            all.push(Struck { operation, paths, what });
        }
        struck
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_count_what_they_are_about() {
        let faults = Faults::default();
        let strike = |operation, path: &str| faults.strike(operation, || vec![path.into()]);
        assert_eq!(strike(Operation::Write, "a"), None);
        let disk_full = Fault::fail(Operation::Write, Errno::NOSPC).nth(Nth::From(2));
        let one_file = Fault::fail(Operation::Create, Errno::IO).at(At::Path("d/a".into())).nth(Nth::Only(2));
        let below = Fault::fail(Operation::Unlink, Errno::ACCESS).at(At::Below("d".into()));
        faults.set(vec![disk_full, one_file, below]);
        assert_eq!(strike(Operation::Write, "a"), None);
        assert_eq!(strike(Operation::Read, "a"), None);
        assert_eq!(strike(Operation::Write, "b"), Some(What::Fail(Errno::NOSPC)));
        assert_eq!(strike(Operation::Write, "b"), Some(What::Fail(Errno::NOSPC)));
        assert_eq!(strike(Operation::Create, "d/a"), None);
        assert_eq!(strike(Operation::Create, "d/b"), None);
        assert_eq!(strike(Operation::Create, "d/a"), Some(What::Fail(Errno::IO)));
        assert_eq!(strike(Operation::Create, "d/a"), None);
        assert_eq!(strike(Operation::Unlink, "dd"), None);
        assert_eq!(strike(Operation::Unlink, "d/x"), Some(What::Fail(Errno::ACCESS)));
        faults.set(Vec::new());
        assert_eq!(strike(Operation::Write, "b"), None);
    }
}
