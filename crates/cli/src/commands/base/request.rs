//! The options of the subcommands of `base`.

use bstr::{BStr, BString, ByteSlice as _};

use crate::term::args::{Grammar, Opt, Set, Table};

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
    /// `--dir` as the user wrote it, for messages.
    pub(super) fn dir(&self) -> &BStr {
        self.dir.as_ref().map_or(BStr::new(""), |dir| dir.as_bstr())
    }
}

const JSON: Opt<Set<Request>> =
    Opt::flag("--json", "print one JSON document", |request: &mut Request| &mut request.json);
const QUIET: Opt<Set<Request>> =
    Opt::flag("-q, --quiet", "print only errors", |request: &mut Request| &mut request.quiet);
const PROGRESS: Opt<Set<Request>> =
    Opt::choice("--progress", "show progress without a terminal too", |request: &mut Request| {
        &mut request.progress
    });
const BASE_DIR: Opt<Set<Request>> =
    Opt::text("--base-dir <dir>", "the directory of the bases (sapwood.baseDir)", |request: &mut Request| {
        &mut request.base_dir
    });
const DEPTH: Opt<Set<Request>> =
    Opt::text("--depth <n>", "this many commits of history (default: 1)", |request: &mut Request| {
        &mut request.depth
    });
const SIGN: Opt<Set<Request>> =
    Opt::choice("--sign", "sign with user.signingKey (sapwood.baseSign)", |request: &mut Request| {
        &mut request.sign
    });
const BUNDLE: Opt<Set<Request>> =
    Opt::choice("--bundle", "write bundles for git clone --bundle-uri", |request: &mut Request| {
        &mut request.bundle
    });
const MOUNT: Opt<Set<Request>> = Opt::choice(
    "--mount",
    "add the base to the base directory of a file:// remote (default)",
    |request: &mut Request| &mut request.mount,
);
const COMPRESSION: Opt<Set<Request>> = Opt::text(
    "--compression <level>",
    "the level of zstd (sapwood.baseCompression)",
    |request: &mut Request| &mut request.compression,
);

pub(super) const PUSH: Table<Set<Request>> = Table {
    usage: &["sapwood base push [<options>] <remote> [<commit>]"],
    options: &[
        Opt::list("--branch <branch>", "record the commit as the newest of this branch", |request| {
            &mut request.branches
        }),
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
        Opt::list("--branch <branch>", "pull the newest base of this branch", |request| {
            &mut request.branches
        }),
        DEPTH,
        Opt::text(
            "--lease <time>[=<holder>]",
            "keep the base on the remote so long: 12h, 2d",
            |request: &mut Request| &mut request.lease,
        ),
        Opt::flag(
            "--copy",
            "copy and check contents, also those of a shared directory",
            |request: &mut Request| &mut request.copy,
        ),
        Opt::text("--backend <backend>", "the backend that will use the base", |request: &mut Request| {
            &mut request.backend
        }),
        BASE_DIR,
        PROGRESS,
        JSON,
        QUIET,
    ],
    grammar: Grammar::Mixed,
};

pub(super) const MIRROR: Table<Set<Request>> = Table {
    usage: &["sapwood base mirror [<options>] --dir <directory> <remote> [<url>]"],
    options: &[
        Opt::text("--dir <directory>", "the bare repository to keep", |request: &mut Request| {
            &mut request.dir
        }),
        Opt::list("--branch <branch>", "follow this branch (repeatable; default: HEAD's)", |request| {
            &mut request.branches
        }),
        Opt::flag("--once", "stop after one round (default)", |request: &mut Request| &mut request.once),
        Opt::text("--interval <time>", "begin a round this often: 5m", |request: &mut Request| {
            &mut request.interval
        }),
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
        Opt::text("--keep <n>", "keep the newest bases of each branch", |request: &mut Request| {
            &mut request.keep
        }),
        Opt::text(
            "--grace <time>",
            "keep what is younger than this (default: 1d)",
            |request: &mut Request| &mut request.grace,
        ),
        Opt::flag("-n, --dry-run", "only say what would be done", |request: &mut Request| {
            &mut request.dry_run
        }),
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
        Opt::text(
            "--holder <name>",
            "the name of the lease (default: this host)",
            |request: &mut Request| &mut request.holder,
        ),
        Opt::flag("--release", "end the lease now", |request: &mut Request| &mut request.release),
        JSON,
        QUIET,
    ],
    grammar: Grammar::Mixed,
};
