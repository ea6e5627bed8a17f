//! The options of the subcommands of `base`.

use bstr::BString;

use crate::term::{
    args::{Grammar, Opt, Set, Table},
    failure::Failure,
    progress,
};

/// The options of all subcommands.
#[derive(Default)]
pub(super) struct Request {
    pub(super) branches: Vec<BString>,
    pub(super) depth: Option<BString>,
    pub(super) sign: Option<bool>,
    pub(super) bundle: Option<bool>,
    pub(super) mount: Option<bool>,
    pub(super) copy: bool,
    pub(super) compression: Option<BString>,
    pub(super) lease: Option<BString>,
    pub(super) holder: Option<BString>,
    pub(super) release: bool,
    pub(super) backend: Option<BString>,
    pub(super) base_dir: Option<BString>,
    pub(super) dir: Option<BString>,
    pub(super) interval: Option<BString>,
    pub(super) once: bool,
    pub(super) keep: Option<BString>,
    pub(super) grace: Option<BString>,
    pub(super) dry_run: bool,
    pub(super) json: bool,
    pub(super) quiet: bool,
    pub(super) progress: Option<bool>,
}

impl Request {
    /// Returns true if progress is shown: as asked for, else on a terminal.
    pub(super) fn shows_progress(&self) -> bool {
        self.progress.unwrap_or_else(|| !self.quiet && !self.json && progress::has_terminal())
    }

    /// Returns the only `--branch`; refuses several by this message.
    pub(super) fn only_branch(&self, refusal: &str) -> Result<Option<BString>, Failure> {
        if self.branches.len() > 1 {
            return Err(Failure::fatal(refusal));
        }
        Ok(self.branches.first().cloned())
    }
}

type Row = Opt<Set<Request>>;

const JSON: Row = Row::flag("--json", "print one JSON document", |request| &mut request.json);
const QUIET: Row = Row::flag("-q, --quiet", "print only errors", |request| &mut request.quiet);
const DRY_RUN: Row =
    Row::flag("-n, --dry-run", "only say what would be done", |request| &mut request.dry_run);
const PROGRESS: Row =
    Row::choice("--progress", "show progress without a terminal too", |request| &mut request.progress);
const DEPTH: Row =
    Row::text("--depth <n>", "this many commits of history (default: 1)", |request| &mut request.depth);
const SIGN: Row =
    Row::choice("--sign", "sign with user.signingKey (sapwood.baseSign)", |request| &mut request.sign);
const BUNDLE: Row =
    Row::choice("--bundle", "write bundles for git clone --bundle-uri", |request| &mut request.bundle);
const MOUNT: Row =
    Row::choice("--mount", "add the base to the base directory of a file:// remote (default)", |request| {
        &mut request.mount
    });
const COMPRESSION: Row =
    Row::text("--compression <level>", "the level of zstd (sapwood.baseCompression)", |request| {
        &mut request.compression
    });

/// `--branch`, which each command uses in its own way.
const fn branch(help: &'static str) -> Row {
    Row::list("--branch <branch>", help, |request| &mut request.branches)
}

pub(super) const PUSH: Table<Set<Request>> = Table {
    usage: &["sapwood base push [<options>] <remote> [<commit>]"],
    options: &[
        branch("record the commit as the newest of this branch"),
        DEPTH,
        SIGN,
        BUNDLE,
        MOUNT,
        COMPRESSION,
        PROGRESS,
        JSON,
        QUIET,
    ],
    grammar: Grammar::Mixed,
};

pub(super) const PULL: Table<Set<Request>> = Table {
    usage: &["sapwood base pull [<options>] <remote> [<commit>]"],
    options: &[
        branch("pull the newest base of this branch"),
        Row::text("--lease <time>[=<holder>]", "keep the base on the remote so long: 12h, 2d", |request| {
            &mut request.lease
        }),
        Row::flag("--copy", "copy and check contents, also those of a shared directory", |request| {
            &mut request.copy
        }),
        Row::text("--backend <backend>", "the backend that will use the base", |request| {
            &mut request.backend
        }),
        Row::text("--base-dir <dir>", "the directory of the bases (sapwood.baseDir)", |request| {
            &mut request.base_dir
        }),
        PROGRESS,
        JSON,
        QUIET,
    ],
    grammar: Grammar::Mixed,
};

pub(super) const VERIFY: Table<Set<Request>> = Table {
    usage: &["sapwood base verify [<options>] <remote> [<commit>]"],
    options: &[branch("verify the newest base of this branch"), PROGRESS, JSON, QUIET],
    grammar: Grammar::Mixed,
};

pub(super) const MIRROR: Table<Set<Request>> = Table {
    usage: &["sapwood base mirror [<options>] --dir <directory> <remote> [<url>]"],
    options: &[
        Row::text("--dir <directory>", "the bare repository to keep", |request| &mut request.dir),
        branch("follow this branch (repeatable; default: HEAD's)"),
        Row::flag("--once", "stop after one round (default)", |request| &mut request.once),
        Row::text("--interval <time>", "begin a round this often: 5m", |request| &mut request.interval),
        DEPTH,
        SIGN,
        BUNDLE,
        MOUNT,
        COMPRESSION,
        PROGRESS,
        JSON,
        QUIET,
    ],
    grammar: Grammar::Mixed,
};

pub(super) const PRUNE: Table<Set<Request>> = Table {
    usage: &["sapwood base prune [<options>] --keep <n> <remote>"],
    options: &[
        Row::text("--keep <n>", "keep the newest bases of each branch", |request| &mut request.keep),
        Row::text("--grace <time>", "keep what is younger than this (default: 1d)", |request| {
            &mut request.grace
        }),
        DRY_RUN,
        JSON,
        QUIET,
    ],
    grammar: Grammar::Mixed,
};

pub(super) const LIST: Table<Set<Request>> =
    Table { usage: &["sapwood base list [--json] <remote>"], options: &[JSON], grammar: Grammar::Mixed };

pub(super) const LEASE: Table<Set<Request>> = Table {
    usage: &[
        "sapwood base lease [--holder <name>] [--json] <remote> <commit> <time>",
        "sapwood base lease --release [--holder <name>] <remote> <commit>",
    ],
    options: &[
        Row::text("--holder <name>", "the name of the lease (default: this host)", |request| {
            &mut request.holder
        }),
        Row::flag("--release", "end the lease now", |request| &mut request.release),
        JSON,
        QUIET,
    ],
    grammar: Grammar::Mixed,
};
