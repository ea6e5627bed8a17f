//! The options of the subcommands, and the reasons to leave a command line to Git.

use std::io::IsTerminal as _;

use bstr::BString;
pub(super) use sapwood::stash::push::Untracked;

use repo::keys;

use crate::{
    commands::{
        obstacles::{GENERAL, hooks::present},
        pathspec_file::{PathspecFile, file_nul, from_file},
        reason::Reason,
        record::{Candidate, Check, LineCheck},
        rules::{Setting, When},
    },
    term::{
        args::{Both, Grammar, On, Opt, Parsed, Set, Stop, Survey, Table},
        failure::{requires_patch_if, unserved_if},
    },
};

/// The command line of `push` and `save`.
#[derive(Default)]
pub(super) struct Request {
    pub(super) keep_index: bool,
    pub(super) staged: bool,
    pub(super) quiet: bool,
    pub(super) untracked: Untracked,
    pub(super) message: Option<BString>,
    pub(super) pathspec_file: PathspecFile,
}

/// The command line of `apply`, `pop`, `drop` and `store`.
#[derive(Default)]
pub(super) struct EntryRequest {
    /// `--index`; with `None`, `stash.index` applies.
    pub(super) index: Option<bool>,
    pub(super) quiet: bool,
    pub(super) message: Option<BString>,
}

const KEEP: Opt<Set<Request>> = Opt::flag("-k, --keep-index", "keep index", field!(keep_index)).native(Both);
const STAGED: Opt<Set<Request>> =
    Opt::flag("-S, --staged", "stash staged changes only", field!(staged)).native(Both);
const PATCH: Opt<Set<Request>> = Opt::new("-p, --patch", "stash in patch mode", |_: &mut Request, value| {
    unserved_if(value.on, "option '--patch'")
});
const ADVANCE: Opt<Set<Request>> = Opt::new(
    "--auto-advance",
    "auto advance to the next file when selecting hunks interactively",
    |_: &mut Request, value| requires_patch_if(!value.on, "--no-auto-advance"),
);
const UNIFIED: Opt<Set<Request>> =
    Opt::new("-U, --unified <n>", "generate diffs with <n> lines context", |_: &mut Request, _| {
        requires_patch_if(true, "--unified")
    })
    .only();
const INTER: Opt<Set<Request>> = Opt::new(
    "--inter-hunk-context <n>",
    "show context between diff hunks up to the specified number of lines",
    |_: &mut Request, _| requires_patch_if(true, "--inter-hunk-context"),
)
.only();
const QUIET: Opt<Set<Request>> = Opt::flag("-q, --quiet", "quiet mode", field!(quiet)).native(Both);
const INCLUDE: Opt<Set<Request>> = Opt::new(
    "-u, --include-untracked",
    "include untracked files in stash",
    |request: &mut Request, value| {
        request.untracked = if value.on { Untracked::Stashed } else { Untracked::Stay };
        Ok(())
    },
)
.native(Both);
const ALL: Opt<Set<Request>> =
    Opt::new("-a, --all", "include ignore files", |request: &mut Request, value| {
        request.untracked = if value.on { Untracked::All } else { Untracked::Stay };
        Ok(())
    })
    .native(Both);
const MESSAGE: Opt<Set<Request>> =
    Opt::text("-m, --message <message>", "stash message", field!(message)).native(Both);
const FILE: Opt<Set<Request>> = from_file(field!(pathspec_file.files)).native(On);
const NUL: Opt<Set<Request>> = file_nul(field!(pathspec_file.nul));

const PUSH_USAGE: &[&str] =
    &["sapwood stash [push] [-S | --staged] [-k | --[no-]keep-index] [-q | --quiet] \
     [-u | --include-untracked] [-a | --all] [(-m | --message) <message>] \
     [--pathspec-from-file=<file> [--pathspec-file-nul]] [--] [<pathspec>...]"];

const PUSH_OPTIONS: &[Opt<Set<Request>>] =
    &[KEEP, STAGED, PATCH, ADVANCE, UNIFIED, INTER, QUIET, INCLUDE, ALL, MESSAGE, FILE, NUL];

pub(super) const PUSH: Table<Set<Request>> =
    Table { usage: PUSH_USAGE, options: PUSH_OPTIONS, grammar: Grammar::MixedWithDashes };

pub(super) const ASSUMED: Table<Set<Request>> =
    Table { usage: PUSH_USAGE, options: PUSH_OPTIONS, grammar: Grammar::OptionsFirst };

pub(super) const SAVE: Table<Set<Request>> = Table {
    usage: &["sapwood stash save [-S | --staged] [-k | --[no-]keep-index] [-q | --quiet] \
         [-u | --include-untracked] [-a | --all] [<message>]"],
    options: &[KEEP, STAGED, PATCH, ADVANCE, UNIFIED, INTER, QUIET, INCLUDE, ALL, MESSAGE],
    grammar: Grammar::MixedWithDashes,
};

const SILENT: Opt<Set<EntryRequest>> =
    Opt::flag("-q, --quiet", "be quiet, only report errors", |request: &mut EntryRequest| &mut request.quiet)
        .native(Both);
const INDEX: Opt<Set<EntryRequest>> =
    Opt::choice("--index", "attempt to recreate the index", |request: &mut EntryRequest| &mut request.index)
        .native(Both);

pub(super) const POP: Table<Set<EntryRequest>> = Table {
    usage: &["sapwood stash pop [--index] [-q | --quiet] [<stash>]"],
    options: &[SILENT, INDEX],
    grammar: Grammar::Mixed,
};

pub(super) const APPLY: Table<Set<EntryRequest>> = Table {
    usage: &["sapwood stash apply [--index] [-q | --quiet] [<stash>]"],
    options: &[SILENT, INDEX],
    grammar: Grammar::Mixed,
};

pub(super) const DROP: Table<Set<EntryRequest>> = Table {
    usage: &["sapwood stash drop [-q | --quiet] [<stash>]"],
    options: &[SILENT],
    grammar: Grammar::Mixed,
};

pub(super) const STORE: Table<Set<EntryRequest>> = Table {
    usage: &["sapwood stash store [(-m | --message) <message>] [-q | --quiet] <commit>"],
    options: &[
        SILENT,
        Opt::text("-m, --message <message>", "stash message", |request: &mut EntryRequest| {
            &mut request.message
        })
        .native(On),
    ],
    grammar: Grammar::Mixed,
};

/// The table of subcommands without options.
pub(super) const BARE: Table<Set<EntryRequest>> = Table {
    usage: &["sapwood stash (list | clear)", "sapwood stash branch <branchname> [<stash>]"],
    options: &[],
    grammar: Grammar::Mixed,
};

/// The table of subcommands whose words are the message or options of `diff`.
pub(super) const WORDS: Table<Set<EntryRequest>> = Table {
    usage: &["sapwood stash create [<message>]", "sapwood stash show [<diff-options>] [<stash>]"],
    options: &[],
    grammar: Grammar::Words,
};

const OWN: &[Setting] = &[
    (keys::core::IGNORE_CASE.name(), When::True),
    (keys::i18n::COMMIT_ENCODING.name(), When::Set),
    (keys::i18n::LOG_OUTPUT_ENCODING.name(), When::Set),
    (keys::stash::INDEX.name(), When::NotBoolean),
    (keys::stash::SHOW_INCLUDE_UNTRACKED.name(), When::NotBoolean),
    (keys::stash::SHOW_PATCH.name(), When::NotBoolean),
    (keys::stash::SHOW_STAT.name(), When::NotBoolean),
];

pub(super) const SETTINGS: &[&[Setting]] = &[GENERAL, OWN];

/// Settings of `log`, which Git uses to list the entries.
pub(super) const LIST_SETTINGS: &[&[Setting]] = &[
    GENERAL,
    OWN,
    &[
        (keys::format::ALL_SETTINGS.name(), When::Set),
        (keys::log::ALL_SETTINGS.name(), When::Set),
        (keys::notes::ALL_SETTINGS.name(), When::Set),
    ],
];

/// Parses the command line of a `push` without the word `push`. Like [`PUSH`], keeps `--`.
pub(super) fn assumed(args: &[BString]) -> Result<Parsed<Set<Request>>, Stop> {
    let mut parsed: Parsed<Set<Request>> = ASSUMED.parse(args)?;
    if !parsed.rest.is_empty() {
        parsed.rest.insert(0, "--".into());
    }
    Ok(parsed)
}

/// Detects arguments without `--`, for a `push` without the word `push`.
fn only_after_dashes(survey: &Survey, args: &[BString]) -> Option<Reason> {
    let before = args.len().checked_sub(survey.rest.len() + 1).and_then(|at| args.get(at));
    let is_clear = survey.rest.is_empty() || before.is_some_and(|word| word == "--");
    (!is_clear).then(|| Reason::command_line("arguments without a subcommand"))
}

pub(super) const ONLY_AFTER_DASHES: LineCheck =
    LineCheck::new("paths without `--` before them", only_after_dashes);

pub(super) const PATHS_OF_PUSH: LineCheck = LineCheck::new("`--` among the paths", paths_of_push);

pub(super) const COMBINATIONS: LineCheck = LineCheck::new(
    "`--staged` with paths or `--keep-index`; `--pathspec-from-file` with standard input or a path from the root",
    combinations,
);

pub(super) const NO_ARGUMENTS: LineCheck = LineCheck::new("any argument (an option of `log`)", no_arguments);

pub(super) const NO_OPTIONS: LineCheck = LineCheck::new("a message that begins with `-`", no_options);

pub(super) const NO_TERMINAL: LineCheck =
    LineCheck::new("standard output that is a terminal, on which Git starts a pager", no_terminal);

pub(super) const SPARSE: Check = Check::new("a sparse worktree", sparse);

pub(super) const HOOKS: Check = Check::new("a hook `post-checkout` or `post-index-change`", hooks);

/// Detects `--` among the paths.
fn paths_of_push(survey: &Survey, _: &[BString]) -> Option<Reason> {
    let has = survey.rest.iter().skip(1).any(|word| word == "--");
    has.then(|| Reason::command_line("'--' among the paths"))
}

/// Detects conflicting options, and paths from standard input, which can be read only once.
fn combinations(survey: &Survey, _: &[BString]) -> Option<Reason> {
    let is_on = |name: &str| survey.options.iter().rev().find(|it| it.name == name).is_some_and(|it| it.on);
    if is_on("--staged") && (is_on("--keep-index") || !survey.rest.is_empty()) {
        return Some(Reason::command_line("'--staged' with paths, or with '--keep-index'"));
    }
    let file = survey.options.iter().filter(|it| it.name == "--pathspec-from-file");
    let is_stream = |value: &BString| value == "-" || value.starts_with(b"/") || value.starts_with(b":");
    let streams = file.filter_map(|it| it.value.as_ref()).any(is_stream);
    streams.then(|| Reason::command_line("paths from standard input"))
}

/// Detects arguments: they are options of `log`, or other words.
fn no_arguments(survey: &Survey, args: &[BString]) -> Option<Reason> {
    let has = !args.is_empty() || !survey.rest.is_empty();
    has.then(|| Reason::command_line("options of 'log'"))
}

/// Detects options of `create`: Git may read them as options instead of as the message.
fn no_options(_: &Survey, args: &[BString]) -> Option<Reason> {
    let has = args.iter().any(|word| word.starts_with(b"-"));
    has.then(|| Reason::command_line("a message with dashes"))
}

/// Detects a sparse worktree: Git has its own rules for paths outside of it.
fn sparse(candidate: &Candidate<'_>) -> Vec<Reason> {
    match engine::sparse::is_on(candidate.repo()) {
        Ok(false) => Vec::new(),
        Ok(true) | Err(_) => vec![Reason::repository("the worktree is sparse")],
    }
}

/// Detects a terminal, on which Git shows the list in a pager.
fn no_terminal(_: &Survey, _: &[BString]) -> Option<Reason> {
    std::io::stdout().is_terminal().then(|| Reason::command_line("a list on a terminal"))
}

/// Detects hooks that Git runs once per step.
fn hooks(candidate: &Candidate<'_>) -> Vec<Reason> {
    present(candidate.repo(), &["post-checkout", "post-index-change"])
}
