//! The command line.

use bstr::BString;

use crate::{
    commands::{
        pathspec_file::{PathspecFile, file_nul, from_file},
        status::preview::{Format, Wanted},
    },
    term::{
        args::{Both, Grammar, On, Opt, Set, Table, Value},
        failure::Failure,
    },
};

/// The options as they were given.
#[derive(Default)]
pub(super) struct Request {
    pub(super) quiet: bool,
    /// `None`: `commit.verbose` applies.
    pub(super) verbose: Option<usize>,
    pub(super) file: Option<BString>,
    pub(super) author: Option<BString>,
    pub(super) date: Option<BString>,
    /// The texts of `-m`, as paragraphs.
    pub(super) message: Option<BString>,
    pub(super) reedit: Option<BString>,
    pub(super) reuse: Option<BString>,
    pub(super) fixup: Option<BString>,
    pub(super) squash: Option<BString>,
    pub(super) reset_author: bool,
    pub(super) trailers: Vec<BString>,
    pub(super) signoff: bool,
    pub(super) template: Option<BString>,
    pub(super) edit: Option<bool>,
    pub(super) cleanup: Option<BString>,
    pub(super) status: Option<bool>,
    /// The key, which may be empty; the inner `None` disables signing.
    pub(super) sign: Option<Option<BString>>,
    pub(super) all: bool,
    pub(super) include: bool,
    pub(super) only: bool,
    pub(super) no_verify: bool,
    pub(super) dry_run: bool,
    pub(super) wanted: Wanted,
    pub(super) amend: bool,
    pub(super) no_post_rewrite: bool,
    pub(super) pathspec_file: PathspecFile,
    pub(super) allow_empty: bool,
    pub(super) allow_empty_message: bool,
}

type R = Request;

fn message(request: &mut R, value: Value) -> Result<(), Failure> {
    let Some(text) = value.text else {
        request.message = None;
        return Ok(());
    };
    let message = request.message.get_or_insert_default();
    if !message.is_empty() {
        message.push(b'\n');
    }
    message.extend_from_slice(&text);
    if message.last().is_some_and(|last| *last != b'\n') {
        message.push(b'\n');
    }
    Ok(())
}

fn verbose(request: &mut R, value: Value) -> Result<(), Failure> {
    request.verbose = Some(if value.on { request.verbose.unwrap_or(0) + 1 } else { 0 });
    Ok(())
}

fn format(request: &mut R, on: bool, format: Format) -> Result<(), Failure> {
    request.wanted.format = on.then_some(format);
    Ok(())
}

pub(super) const TABLE: Table<Set<R>> = Table {
    usage: &["sapwood commit [<options>] [--] [<pathspec>...]"],
    options: &[
        Opt::flag("-q, --quiet", "suppress summary after successful commit", |r: &mut R| &mut r.quiet)
            .native(Both),
        Opt::new("-v, --verbose", "show diff in commit message template", verbose).native(Both),
        Opt::new("-F, --file <file>", "read message from file", |r: &mut R, value| {
            r.file = value.text.or(r.file.take());
            Ok(())
        })
        .native(Both),
        Opt::text("--author <author>", "override author for commit", |r: &mut R| &mut r.author).native(Both),
        Opt::text("--date <date>", "override date for commit", |r: &mut R| &mut r.date).native(Both),
        Opt::new("-m, --message <message>", "commit message", message).native(Both),
        Opt::text(
            "-c, --reedit-message <commit>",
            "reuse and edit message from specified commit",
            |r: &mut R| &mut r.reedit,
        )
        .native(Both),
        Opt::text("-C, --reuse-message <commit>", "reuse message from specified commit", |r: &mut R| {
            &mut r.reuse
        })
        .native(Both),
        Opt::text(
            "--fixup <[(amend|reword):]commit>",
            "use autosquash formatted message to fixup or amend/reword specified commit",
            |r: &mut R| &mut r.fixup,
        )
        .native(Both),
        Opt::text(
            "--squash <commit>",
            "use autosquash formatted message to squash specified commit",
            |r: &mut R| &mut r.squash,
        )
        .native(Both),
        Opt::flag(
            "--reset-author",
            "the commit is authored by me now (used with -C/-c/--amend)",
            |r: &mut R| &mut r.reset_author,
        )
        .native(Both),
        Opt::list("--trailer <trailer>", "add custom trailer(s)", |r: &mut R| &mut r.trailers).native(Both),
        Opt::flag("-s, --signoff", "add a Signed-off-by trailer", |r: &mut R| &mut r.signoff).native(Both),
        Opt::new("-t, --template <file>", "use specified template file", |r: &mut R, value| {
            // As in Git, `--no-template` has no effect.
            r.template = value.text.or(r.template.take());
            Ok(())
        })
        .native(Both),
        Opt::choice("-e, --edit", "force edit of commit", |r: &mut R| &mut r.edit).native(Both),
        Opt::text("--cleanup <mode>", "how to strip spaces and #comments from message", |r: &mut R| {
            &mut r.cleanup
        })
        .native(Both),
        Opt::choice("--status", "include status in commit message template", |r: &mut R| &mut r.status)
            .native(Both),
        Opt::new("-S, --gpg-sign[=<key-id>]", "GPG sign commit", |r: &mut R, value| {
            r.sign = Some(value.text_or(""));
            Ok(())
        })
        .native(Both),
        Opt::flag("-a, --all", "commit all changed files", |r: &mut R| &mut r.all).native(Both),
        Opt::flag("-i, --include", "add specified files to index for commit", |r: &mut R| &mut r.include)
            .native(Both),
        Opt::new("--interactive", "interactively add files", |_: &mut R, _| {
            Err(Failure::unsupported("--interactive"))
        }),
        Opt::new("-p, --patch", "interactively add changes", |_: &mut R, _| {
            Err(Failure::unsupported("--patch"))
        }),
        Opt::new("-U, --unified <n>", "generate diffs with <n> lines context", |_: &mut R, _| {
            Err(Failure::unsupported("--unified"))
        })
        .only(),
        Opt::new(
            "--inter-hunk-context <n>",
            "show context between diff hunks up to the specified number of lines",
            |_: &mut R, _| Err(Failure::unsupported("--inter-hunk-context")),
        )
        .only(),
        Opt::flag("-o, --only", "commit only specified files", |r: &mut R| &mut r.only).native(Both),
        Opt::flag("-n, --no-verify", "bypass pre-commit and commit-msg hooks", |r: &mut R| &mut r.no_verify)
            .native(Both),
        Opt::flag("--dry-run", "show what would be committed", |r: &mut R| &mut r.dry_run).native(Both),
        Opt::new("--short", "show status concisely", |r: &mut R, value| format(r, value.on, Format::Short))
            .native(Both),
        Opt::choice("--branch", "show branch information", |r: &mut R| &mut r.wanted.branch).native(Both),
        Opt::choice("--ahead-behind", "compute full ahead/behind values", |r: &mut R| {
            &mut r.wanted.ahead_behind
        })
        .native(Both),
        Opt::new("--porcelain", "machine-readable output", |r: &mut R, value| {
            format(r, value.on, Format::Porcelain)
        })
        .native(Both),
        Opt::new("--long", "show status in long format (default)", |r: &mut R, value| {
            format(r, value.on, Format::Long)
        })
        .native(Both),
        Opt::flag("-z, --null", "terminate entries with NUL", |r: &mut R| &mut r.wanted.nul).native(Both),
        Opt::flag("--amend", "amend previous commit", |r: &mut R| &mut r.amend).native(Both),
        Opt::flag("--no-post-rewrite", "bypass post-rewrite hook", |r: &mut R| &mut r.no_post_rewrite)
            .native(Both),
        Opt::new(
            "-u, --untracked-files[=<mode>]",
            "show untracked files, optional modes: all, normal, no. (Default: all)",
            |r: &mut R, value| {
                r.wanted.untracked = value.text_or("all");
                Ok(())
            },
        )
        .native(Both),
        from_file(|r: &mut R| &mut r.pathspec_file.files).native(On),
        file_nul(|r: &mut R| &mut r.pathspec_file.nul),
        Opt::flag("--allow-empty", "ok to record an empty change", |r: &mut R| &mut r.allow_empty)
            .hidden()
            .native(Both),
        Opt::flag("--allow-empty-message", "ok to record a change with an empty message", |r: &mut R| {
            &mut r.allow_empty_message
        })
        .hidden()
        .native(Both),
    ],
    grammar: Grammar::Mixed,
};
