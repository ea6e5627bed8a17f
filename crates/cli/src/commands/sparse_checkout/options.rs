//! The actions and their options, as data.

use crate::term::args::{Grammar, Native, Opt, Table};

/// The word after the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    List,
    Init,
    Set,
    Add,
    Reapply,
    Clean,
    Disable,
    CheckRules,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Cone,
    SparseIndex,
    SkipChecks,
    Stdin,
    Nul,
    RulesFile,
    DryRun,
    Force,
    Verbose,
}

pub(super) const USAGE: Table<Key> = Table {
    usage: &[
        "sapwood sparse-checkout (init | list | set | add | reapply | disable | check-rules | clean) [<options>]",
    ],
    options: &[],
    grammar: Grammar::Mixed,
};

const CONE: Opt<Key> =
    Opt::new(Key::Cone, "--cone", "initialize the sparse-checkout in cone mode").native(Native::Both);
const SPARSE_INDEX: Opt<Key> =
    Opt::new(Key::SparseIndex, "--sparse-index", "toggle the use of a sparse index").native(Native::Both);
const SKIP_CHECKS: Opt<Key> = Opt::new(
    Key::SkipChecks,
    "--skip-checks",
    "skip some sanity checks on the given paths that might give false positives",
)
.only()
.native(Native::On);
const STDIN: Opt<Key> = Opt::new(Key::Stdin, "--stdin", "read patterns from standard in");

pub(super) const LIST: Table<Key> =
    Table { usage: &["sapwood sparse-checkout list"], options: &[], grammar: Grammar::Mixed };

pub(super) const INIT: Table<Key> = Table {
    usage: &["sapwood sparse-checkout init [--cone] [--[no-]sparse-index]"],
    options: &[CONE, SPARSE_INDEX],
    grammar: Grammar::Mixed,
};

pub(super) const SET: Table<Key> = Table {
    usage: &[
        "sapwood sparse-checkout set [--[no-]cone] [--[no-]sparse-index] [--skip-checks] (--stdin | <patterns>)",
    ],
    options: &[CONE, SPARSE_INDEX, SKIP_CHECKS, STDIN.only().native(Native::On)],
    grammar: Grammar::Mixed,
};

pub(super) const ADD: Table<Key> = Table {
    usage: &["sapwood sparse-checkout add [--skip-checks] (--stdin | <patterns>)"],
    options: &[SKIP_CHECKS, STDIN.native(Native::Both)],
    grammar: Grammar::Mixed,
};

pub(super) const REAPPLY: Table<Key> = Table {
    usage: &["sapwood sparse-checkout reapply [--[no-]cone] [--[no-]sparse-index]"],
    options: &[CONE, SPARSE_INDEX],
    grammar: Grammar::Mixed,
};

pub(super) const CLEAN: Table<Key> = Table {
    usage: &["sapwood sparse-checkout clean [-n|--dry-run]"],
    options: &[
        Opt::new(Key::DryRun, "-n, --dry-run", "dry run").native(Native::Both),
        Opt::new(Key::Force, "-f, --force", "force").native(Native::Both),
        Opt::new(Key::Verbose, "-v, --verbose", "report each affected file, not just directories")
            .native(Native::Both),
    ],
    grammar: Grammar::Mixed,
};

pub(super) const DISABLE: Table<Key> =
    Table { usage: &["sapwood sparse-checkout disable"], options: &[], grammar: Grammar::Mixed };

pub(super) const CHECK_RULES: Table<Key> = Table {
    usage: &["sapwood sparse-checkout check-rules [-z] [--skip-checks][--[no-]cone] [--rules-file <file>]"],
    options: &[
        Opt::new(Key::Nul, "-z", "terminate input and output files by a NUL character").native(Native::Both),
        Opt::new(Key::Cone, "--cone", "when used with --rules-file interpret patterns as cone mode patterns")
            .native(Native::Both),
        Opt::new(
            Key::RulesFile,
            "--rules-file <file>",
            "use patterns in <file> instead of the current ones.",
        )
        .native(Native::Both),
    ],
    grammar: Grammar::Mixed,
};

impl Action {
    pub(super) fn table(self) -> &'static Table<Key> {
        match self {
            Action::List => &LIST,
            Action::Init => &INIT,
            Action::Set => &SET,
            Action::Add => &ADD,
            Action::Reapply => &REAPPLY,
            Action::Clean => &CLEAN,
            Action::Disable => &DISABLE,
            Action::CheckRules => &CHECK_RULES,
        }
    }
}
