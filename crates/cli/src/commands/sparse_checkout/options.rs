//! The actions, their options, and the request.

use bstr::BString;

use crate::term::args::{Both, Grammar, On, Opt, Set, Table};

/// The subcommand.
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

/// The options of all subcommands.
#[derive(Default)]
pub(super) struct Request {
    pub(super) cone: Option<bool>,
    pub(super) sparse_index: Option<bool>,
    pub(super) skip_checks: bool,
    pub(super) stdin: bool,
    pub(super) nul: bool,
    pub(super) rules_file: Option<BString>,
    pub(super) dry_run: bool,
    pub(super) force: bool,
    pub(super) verbose: bool,
}

pub(super) const USAGE: Table<Set<Request>> = Table {
    usage: &[
        "sapwood sparse-checkout (init | list | set | add | reapply | disable | check-rules | clean) [<options>]",
    ],
    options: &[],
    grammar: Grammar::Mixed,
};

const CONE: Opt<Set<Request>> =
    Opt::choice("--cone", "initialize the sparse-checkout in cone mode", field!(cone)).native(Both);
const SPARSE_INDEX: Opt<Set<Request>> =
    Opt::choice("--sparse-index", "toggle the use of a sparse index", field!(sparse_index)).native(Both);
const SKIP_CHECKS: Opt<Set<Request>> = Opt::flag(
    "--skip-checks",
    "skip some sanity checks on the given paths that might give false positives",
    field!(skip_checks),
)
.only()
.native(On);
const STDIN: Opt<Set<Request>> = Opt::flag("--stdin", "read patterns from standard in", field!(stdin));

pub(super) const LIST: Table<Set<Request>> =
    Table { usage: &["sapwood sparse-checkout list"], options: &[], grammar: Grammar::Mixed };

pub(super) const INIT: Table<Set<Request>> = Table {
    usage: &["sapwood sparse-checkout init [--cone] [--[no-]sparse-index]"],
    options: &[CONE, SPARSE_INDEX],
    grammar: Grammar::Mixed,
};

pub(super) const SET: Table<Set<Request>> = Table {
    usage: &[
        "sapwood sparse-checkout set [--[no-]cone] [--[no-]sparse-index] [--skip-checks] (--stdin | <patterns>)",
    ],
    options: &[CONE, SPARSE_INDEX, SKIP_CHECKS, STDIN.only().native(On)],
    grammar: Grammar::Mixed,
};

pub(super) const ADD: Table<Set<Request>> = Table {
    usage: &["sapwood sparse-checkout add [--skip-checks] (--stdin | <patterns>)"],
    options: &[SKIP_CHECKS, STDIN.native(Both)],
    grammar: Grammar::Mixed,
};

pub(super) const REAPPLY: Table<Set<Request>> = Table {
    usage: &["sapwood sparse-checkout reapply [--[no-]cone] [--[no-]sparse-index]"],
    options: &[CONE, SPARSE_INDEX],
    grammar: Grammar::Mixed,
};

pub(super) const CLEAN: Table<Set<Request>> = Table {
    usage: &["sapwood sparse-checkout clean [-n|--dry-run]"],
    options: &[
        Opt::flag("-n, --dry-run", "dry run", field!(dry_run)).native(Both),
        Opt::flag("-f, --force", "force", field!(force)).native(Both),
        Opt::flag("-v, --verbose", "report each affected file, not just directories", field!(verbose))
            .native(Both),
    ],
    grammar: Grammar::Mixed,
};

pub(super) const DISABLE: Table<Set<Request>> =
    Table { usage: &["sapwood sparse-checkout disable"], options: &[], grammar: Grammar::Mixed };

pub(super) const CHECK_RULES: Table<Set<Request>> = Table {
    usage: &["sapwood sparse-checkout check-rules [-z] [--skip-checks][--[no-]cone] [--rules-file <file>]"],
    options: &[
        Opt::flag("-z", "terminate input and output files by a NUL character", field!(nul)).native(Both),
        Opt::choice(
            "--cone",
            "when used with --rules-file interpret patterns as cone mode patterns",
            field!(cone),
        )
        .native(Both),
        Opt::new(
            "--rules-file <file>",
            "use patterns in <file> instead of the current ones.",
            |request: &mut Request, value| {
                request.rules_file = value.text.filter(|file| !file.is_empty());
                Ok(())
            },
        )
        .native(Both),
    ],
    grammar: Grammar::Mixed,
};

impl Action {
    pub(super) fn table(self) -> &'static Table<Set<Request>> {
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
