//! The actions and their options, as data.

use bstr::{BString, ByteSlice as _};

use crate::term::args::{Opt, Stop, Table};

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

const ACTIONS: &[(&str, Action)] = &[
    ("list", Action::List),
    ("init", Action::Init),
    ("set", Action::Set),
    ("add", Action::Add),
    ("reapply", Action::Reapply),
    ("clean", Action::Clean),
    ("disable", Action::Disable),
    ("check-rules", Action::CheckRules),
];

const USAGE: Table<Key> = Table {
    usage: &[
        "sapwood sparse-checkout (init | list | set | add | reapply | disable | check-rules | clean) [<options>]",
    ],
    options: &[],
};

/// The action, and the arguments after it.
pub(super) fn action(args: &[BString]) -> Result<(Action, &[BString]), Stop> {
    let mistake = |message: String| Stop::Mistake { message: message.into(), usage: Some(USAGE.help()) };
    let Some((word, rest)) = args.split_first() else { return Err(mistake("need a subcommand".to_owned())) };
    if word.starts_with(b"-") {
        USAGE.parse(args, crate::term::args::DashDash::Drop)?;
        return Err(mistake("need a subcommand".to_owned()));
    }
    match ACTIONS.iter().find(|(name, _)| name.as_bytes() == word.as_bytes()) {
        Some((_, action)) => Ok((*action, rest)),
        None => Err(mistake(format!("unknown subcommand: `{word}'"))),
    }
}

const CONE: Opt<Key> = Opt::new(Key::Cone, "--cone", "initialize the sparse-checkout in cone mode");
const SPARSE_INDEX: Opt<Key> =
    Opt::new(Key::SparseIndex, "--sparse-index", "toggle the use of a sparse index");
const SKIP_CHECKS: Opt<Key> = Opt::new(
    Key::SkipChecks,
    "--skip-checks",
    "skip some sanity checks on the given paths that might give false positives",
)
.only();
const STDIN: Opt<Key> = Opt::new(Key::Stdin, "--stdin", "read patterns from standard in");

const LIST: Table<Key> = Table { usage: &["sapwood sparse-checkout list"], options: &[] };

const INIT: Table<Key> = Table {
    usage: &["sapwood sparse-checkout init [--cone] [--[no-]sparse-index]"],
    options: &[CONE, SPARSE_INDEX],
};

const SET: Table<Key> = Table {
    usage: &[
        "sapwood sparse-checkout set [--[no-]cone] [--[no-]sparse-index] [--skip-checks] (--stdin | <patterns>)",
    ],
    options: &[CONE, SPARSE_INDEX, SKIP_CHECKS, STDIN.only()],
};

const ADD: Table<Key> = Table {
    usage: &["sapwood sparse-checkout add [--skip-checks] (--stdin | <patterns>)"],
    options: &[SKIP_CHECKS, STDIN],
};

const REAPPLY: Table<Key> = Table {
    usage: &["sapwood sparse-checkout reapply [--[no-]cone] [--[no-]sparse-index]"],
    options: &[CONE, SPARSE_INDEX],
};

const CLEAN: Table<Key> = Table {
    usage: &["sapwood sparse-checkout clean [-n|--dry-run]"],
    options: &[
        Opt::new(Key::DryRun, "-n, --dry-run", "dry run"),
        Opt::new(Key::Force, "-f, --force", "force"),
        Opt::new(Key::Verbose, "-v, --verbose", "report each affected file, not just directories"),
    ],
};

const DISABLE: Table<Key> = Table { usage: &["sapwood sparse-checkout disable"], options: &[] };

const CHECK_RULES: Table<Key> = Table {
    usage: &["sapwood sparse-checkout check-rules [-z] [--skip-checks][--[no-]cone] [--rules-file <file>]"],
    options: &[
        Opt::new(Key::Nul, "-z", "terminate input and output files by a NUL character"),
        Opt::new(Key::Cone, "--cone", "when used with --rules-file interpret patterns as cone mode patterns"),
        Opt::new(
            Key::RulesFile,
            "--rules-file <file>",
            "use patterns in <file> instead of the current ones.",
        ),
    ],
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
