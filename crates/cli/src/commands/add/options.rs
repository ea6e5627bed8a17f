//! The command line of `add`, and the plan it results in.

use bstr::{BString, ByteSlice as _};
use repo::{Repository, keys};
use sapwood::{
    Pathspecs,
    add::{self, Executable, Options, Task},
};

use crate::{
    commands::pathspec_file::{PathspecFile, file_nul, from_file},
    term::{
        args::{Both, Grammar, Off, Opt, Set, Table},
        failure::{Failure, requires_patch_if, unserved_if},
    },
};

pub(super) const TABLE: Table<Set<Request>> = Table {
    usage: &["sapwood add [<options>] [--] <pathspec>..."],
    options: &[
        Opt::flag("-n, --dry-run", "dry run", field!(dry_run)).native(Both),
        Opt::flag("-v, --verbose", "be verbose", field!(verbose)).native(Both),
        Opt::flag("-i, --interactive", "interactive picking", field!(interactive)).native(Off),
        Opt::flag("-p, --patch", "select hunks interactively", field!(patch)).native(Off),
        Opt::flag(
            "--auto-advance",
            "auto advance to the next file when selecting hunks interactively",
            field!(auto_advance),
        ),
        Opt::text("-U, --unified <n>", "generate diffs with <n> lines context", field!(context)).only(),
        Opt::text(
            "--inter-hunk-context <n>",
            "show context between diff hunks up to the specified number of lines",
            field!(between),
        )
        .only(),
        Opt::flag("-e, --edit", "edit current diff and apply", field!(edit)).native(Off),
        Opt::flag("-f, --force", "allow adding otherwise ignored files", field!(force)).native(Both),
        Opt::flag("-u, --update", "update tracked files", field!(update)).native(Both),
        Opt::flag("--renormalize", "renormalize EOL of tracked files (implies -u)", field!(renormalize))
            .native(Both),
        Opt::flag(
            "-N, --intent-to-add",
            "record only the fact that the path will be added later",
            field!(intent_to_add),
        )
        .native(Both),
        Opt::choice("-A, --all", "add changes from all tracked and untracked files", field!(all))
            .native(Both),
        Opt::new(
            "--ignore-removal",
            "ignore paths removed in the working tree (same as --no-all)",
            |request: &mut Request, value| {
                request.all = Some(!value.on);
                Ok(())
            },
        )
        .native(Both),
        Opt::flag("--refresh", "don't add, only refresh the index", field!(refresh)).native(Both),
        Opt::choice(
            "--ignore-errors",
            "just skip files which cannot be added because of errors",
            field!(ignore_errors),
        )
        .native(Both),
        Opt::flag(
            "--ignore-missing",
            "check if - even missing - files are ignored in dry run",
            field!(ignore_missing),
        )
        .native(Both),
        Opt::flag("--sparse", "allow updating entries outside of the sparse-checkout cone", field!(sparse))
            .native(Both),
        Opt::text("--chmod <(+|-)x>", "override the executable bit of the listed files", field!(chmod))
            .native(Both),
        Opt::choice("--warn-embedded-repo", "warn when adding an embedded repository", field!(warn_embedded))
            .hidden()
            .native(Both),
        from_file(field!(pathspec_file.files)).native(Both),
        file_nul(field!(pathspec_file.nul)),
    ],
    grammar: Grammar::Mixed,
};

#[derive(Default)]
pub(super) struct Request {
    dry_run: bool,
    verbose: bool,
    interactive: bool,
    patch: bool,
    auto_advance: bool,
    context: Option<BString>,
    between: Option<BString>,
    edit: bool,
    force: bool,
    update: bool,
    renormalize: bool,
    intent_to_add: bool,
    /// `-A`, or `--no-ignore-removal`.
    all: Option<bool>,
    refresh: bool,
    ignore_errors: Option<bool>,
    ignore_missing: bool,
    sparse: bool,
    chmod: Option<BString>,
    warn_embedded: Option<bool>,
    pub(super) pathspec_file: PathspecFile,
}

/// A valid request.
pub(super) struct Plan {
    /// The request of the library, without pathspecs.
    pub(super) request: add::Request,
    /// Without a pathspec there is nothing to do.
    pub(super) needs_pathspecs: bool,
}

impl Request {
    /// Checks the request in Git's order.
    pub(super) fn plan(&self, repo: &Repository) -> Result<Plan, Failure> {
        unserved_if(self.patch, "option '--patch'")?;
        unserved_if(self.interactive, "option '--interactive'")?;
        requires_patch_if(self.context.is_some(), "--unified")?;
        requires_patch_if(self.between.is_some(), "--inter-hunk-context")?;
        unserved_if(self.edit, "option '--edit'")?;
        if self.update && self.all == Some(true) {
            return Err(Failure::fatal("options '-A' and '-u' cannot be used together"));
        }
        if self.ignore_missing && !self.dry_run {
            return Err(Failure::requires("--ignore-missing", "--dry-run"));
        }
        let chmod = match self.chmod.as_ref().map(|chmod| chmod.as_bytes()) {
            None => None,
            Some(b"+x") => Some(Executable::Set),
            Some(b"-x") => Some(Executable::Cleared),
            Some(other) => {
                let other = other.as_bstr();
                return Err(Failure::fatal(format!("--chmod param '{other}' must be either -x or +x")));
            }
        };
        // The option overrides the setting, whose last value counts.
        let configured = ignore_errors(repo)?;
        let options = Options {
            dry_run: self.dry_run,
            verbose: self.verbose,
            intent_to_add: self.intent_to_add,
            ignore_errors: self.ignore_errors.unwrap_or(configured),
            // Pathspecs imply `-A`, but not `--no-all`.
            ignore_removal: self.all == Some(false) && !self.update,
            renormalize: self.renormalize,
            sparse: self.sparse,
            force: self.force,
        };
        let request = add::Request {
            pathspecs: Pathspecs::default(),
            task: match (self.refresh, self.renormalize, self.update) {
                (true, _, _) => Task::Refresh,
                (false, true, _) => Task::Renormalize,
                (false, false, true) => Task::Update,
                (false, false, false) => Task::Add,
            },
            options,
            must_be_tracked: self.update && !self.renormalize && !options.ignore_errors,
            chmod,
            allows_embedded: self.warn_embedded == Some(false),
            ignore_missing: self.ignore_missing,
        };
        Ok(Plan { request, needs_pathspecs: !(self.update || self.all == Some(true)) })
    }
}

fn ignore_errors(repo: &Repository) -> Result<bool, Failure> {
    let old = repo.config(&keys::add::IGNORE_ERRORS_OLD)?;
    let new = repo.config(&keys::add::IGNORE_ERRORS)?;
    Ok(new.or(old).unwrap_or(false))
}
