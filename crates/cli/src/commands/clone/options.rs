//! The command line of `clone`: the options, and what they ask for.

use bstr::BString;
use engine::clone::{self, FilterError, Options, Reference};
use repo::wire::AddressFamily;
use sapwood::clone::{BaseRemote, Need};

use crate::term::{
    args::{Both, Grammar, On, Opt, Parsed, Set, Table, Value},
    console::text,
    failure::Failure,
    progress,
};

pub(super) const TABLE: Table<Set<Request>> = Table {
    usage: &["sapwood clone [<options>] [--] <repo> [<dir>]"],
    options: &[
        Opt::verbose(field!(verbosity)).native(Both),
        Opt::quiet(field!(verbosity)).native(Both),
        Opt::choice("--progress", "force progress reporting", field!(progress)).native(Both),
        Opt::choice("--reject-shallow", "don't clone shallow repository", field!(options.reject_shallow))
            .native(Both),
        Opt::flag("-n, --no-checkout", "don't create a checkout", field!(options.no_checkout)).native(Both),
        Opt::flag("--bare", "create a bare repository", field!(options.bare)).native(Both),
        Opt::flag("--naked", "create a bare repository", field!(options.bare)).hidden(),
        Opt::flag("--mirror", "create a mirror repository (implies --bare)", field!(options.mirror))
            .native(Both),
        Opt::choice("-l, --local", "to clone from a local repository", field!(options.local)).native(Both),
        Opt::flag("--no-hardlinks", "don't use local hardlinks, always copy", field!(options.no_hardlinks))
            .native(Both),
        Opt::flag("-s, --shared", "setup as shared repository", field!(options.shared)).native(Both),
        Opt::new(
            "--recurse-submodules[=<pathspec>]",
            "initialize submodules in the clone",
            recurse_submodules,
        )
        .native(Both),
        Opt::new("--recursive[=<pathspec>]", "alias of --recurse-submodules", recurse_submodules)
            .native(Both),
        Opt::text("-j, --jobs <n>", "number of submodules cloned in parallel", field!(submodules.jobs))
            .native(Both),
        Opt::text(
            "--template <template-directory>",
            "directory from which templates will be used",
            field!(options.template),
        )
        .native(Both),
        Opt::new("--reference <repo>", "reference repository", |request: &mut Request, value| {
            request.reference(value, Need::Required)
        })
        .native(Both),
        Opt::new("--reference-if-able <repo>", "reference repository", |request: &mut Request, value| {
            request.reference(value, Need::IfAble)
        })
        .native(Both),
        Opt::flag("--dissociate", "use --reference only while cloning", field!(options.dissociate))
            .native(Both),
        Opt::text(
            "-o, --origin <name>",
            "use <name> instead of 'origin' to track upstream",
            field!(options.origin),
        )
        .native(Both),
        Opt::text(
            "-b, --branch <branch>",
            "checkout <branch> instead of the remote's HEAD",
            field!(options.branch),
        )
        .native(Both),
        Opt::text("--revision <rev>", "clone single revision <rev> and check out", field!(options.revision))
            .native(Both),
        Opt::text(
            "-u, --upload-pack <path>",
            "path to git-upload-pack on the remote",
            field!(options.upload_pack),
        )
        .native(Both),
        Opt::text("--depth <depth>", "create a shallow clone of that depth", field!(options.depth))
            .native(Both),
        Opt::text(
            "--shallow-since <time>",
            "create a shallow clone since a specific time",
            field!(shallow_since),
        )
        .native(Both),
        Opt::list(
            "--shallow-exclude <ref>",
            "deepen history of shallow clone, excluding ref",
            field!(options.shallow_exclude),
        )
        .native(Both),
        Opt::choice("--single-branch", "clone only one branch, HEAD or --branch", field!(single_branch))
            .native(Both),
        Opt::new(
            "--tags",
            "clone tags, and make later fetches not to follow them",
            |request: &mut Request, value| {
                request.options.no_tags = !value.on;
                Ok(())
            },
        )
        .native(Both),
        Opt::flag(
            "--shallow-submodules",
            "any cloned submodules will be shallow",
            field!(submodules.shallow),
        )
        .native(Both),
        Opt::new(
            "--separate-git-dir <gitdir>",
            "separate git dir from working tree",
            |request: &mut Request, value| {
                request.separate_git_dir = value.on;
                request.options.separate_git_dir = value.text;
                Ok(())
            },
        )
        .native(Both),
        Opt::new(
            "--ref-format <format>",
            "specify the reference format to use",
            |request: &mut Request, value| request.ref_format(value),
        )
        .native(Both),
        Opt::list("-c, --config <key=value>", "set config inside the new repository", field!(options.config))
            .native(Both),
        Opt::list("--server-option <server-specific>", "option to transmit", field!(options.server_options))
            .native(Both),
        Opt::new("-4, --ipv4", "use IPv4 addresses only", |request: &mut Request, _| {
            request.options.family = AddressFamily::V4;
            Ok(())
        })
        .only()
        .native(On),
        Opt::new("-6, --ipv6", "use IPv6 addresses only", |request: &mut Request, _| {
            request.options.family = AddressFamily::V6;
            Ok(())
        })
        .only()
        .native(On),
        Opt::new("--filter <args>", "object filtering", |request: &mut Request, value| request.filter(value))
            .native(Both),
        Opt::choice(
            "--also-filter-submodules",
            "apply partial clone filters to submodules",
            field!(options.filter_submodules),
        )
        .native(Both),
        Opt::flag(
            "--remote-submodules",
            "any cloned submodules will use their remote-tracking branch",
            field!(submodules.remote),
        )
        .native(Both),
        Opt::flag(
            "--sparse",
            "initialize sparse-checkout file to include only files at root",
            field!(options.sparse),
        )
        .native(Both),
        Opt::text(
            "--bundle-uri <uri>",
            "a URI for downloading bundles before fetching from origin remote",
            field!(options.bundle_uri),
        )
        .native(Both),
        Opt::new(
            "--base <remote>",
            "begin with the base of a commit, from a remote for bases (repeatable)",
            |request: &mut Request, value| request.base(value, Need::Required),
        ),
        Opt::new(
            "--base-if-able <remote>",
            "as --base, and clone without a base if the remote fails",
            |request: &mut Request, value| request.base(value, Need::IfAble),
        ),
        Opt::choice(
            "--workspace",
            "make <dir> a workspace of the bare repository <dir>.git",
            field!(workspace),
        ),
        Opt::flag("--dry-run", "print what would be done, and do nothing", field!(dry_run)),
    ],
    grammar: Grammar::Mixed,
};

/// The request, beside the engine's options.
#[derive(Default)]
pub(super) struct Request {
    pub(super) options: Options,
    /// How often `-v` came, or, negative, `-q`.
    pub(super) verbosity: i32,
    pub(super) progress: Option<bool>,
    pub(super) single_branch: Option<bool>,
    /// `--shallow-since`, as it was given.
    pub(super) shallow_since: Option<BString>,
    pub(super) separate_git_dir: bool,
    pub(super) dry_run: bool,
    /// The remotes for bases, in the order in which they are asked.
    pub(super) bases: Vec<BaseRemote>,
    /// `None` leaves it to `sapwood.worktree`, if there is a base.
    pub(super) workspace: Option<bool>,
    pub(super) submodules: Submodules,
}

/// How submodules are cloned.
#[derive(Clone, Default)]
pub(super) struct Submodules {
    /// `--recurse-submodules`, whichever.
    pub(super) wanted: bool,
    pub(super) jobs: Option<BString>,
    pub(super) shallow: bool,
    pub(super) remote: bool,
    pub(super) ref_format: Option<&'static str>,
    pub(super) filter: Option<BString>,
    pub(super) single_branch: bool,
    pub(super) progress: bool,
    pub(super) quiet: bool,
}

/// `--recurse-submodules` without a pathspec means every submodule.
fn recurse_submodules(request: &mut Request, value: Value) -> Result<(), Failure> {
    match value.text_or(".") {
        Some(pathspec) => request.options.submodules.push(pathspec),
        None => request.options.submodules.clear(),
    }
    Ok(())
}

impl Request {
    pub(super) fn of(parsed: Parsed<Set<Request>>) -> Result<Request, Failure> {
        let mut request = Request::default();
        let mut rest = parsed.store(&mut request)?.into_iter();
        if let Some(since) = &request.shallow_since {
            request.options.shallow_since = Some(repo::parse_moment(since.as_ref()));
        }
        request.options.source = rest.next().unwrap_or_default();
        request.options.directory = rest.next();
        Ok(request)
    }

    fn base(&mut self, value: Value, need: Need) -> Result<(), Failure> {
        match value.text {
            Some(address) => self.bases.push(BaseRemote { address, need }),
            None => self.bases.retain(|other| other.need != need),
        }
        Ok(())
    }

    fn reference(&mut self, value: Value, need: Need) -> Result<(), Failure> {
        let (references, required) = (&mut self.options.references, need == Need::Required);
        match value.text {
            Some(repository) => references.push(Reference { repository, required }),
            None => references.retain(|reference| reference.required != required),
        }
        Ok(())
    }

    fn filter(&mut self, value: Value) -> Result<(), Failure> {
        let filter = match (value.text, self.options.filter.take()) {
            (None, _) => return Ok(()),
            (Some(text), None) => clone::Filter::parse(text.as_ref()),
            (Some(text), Some(before)) => before.and(text.as_ref()),
        };
        self.options.filter = Some(filter.map_err(|error| match error {
            FilterError::Auto => Failure::unsupported("the filter 'auto'"),
            error => Failure::fatal(error.to_string()),
        })?);
        Ok(())
    }

    fn ref_format(&mut self, value: Value) -> Result<(), Failure> {
        let files = match value.text.as_deref().map(Vec::as_slice) {
            None => false,
            Some(b"files") => true,
            Some(b"reftable") => return Err(Failure::unsupported("ref format 'reftable'")),
            Some(other) => {
                return Err(Failure::Fatal(text!("unknown ref storage format '", other, "'")));
            }
        };
        self.submodules.ref_format = files.then_some("files");
        self.options.ref_files = files;
        Ok(())
    }

    /// Returns an option that asks for another worktree than a workspace, or for none.
    pub(super) fn needs_worktree(&self) -> Option<&'static str> {
        let options = &self.options;
        let others = [
            ("--bare", options.bare),
            ("--mirror", options.mirror),
            ("--no-checkout", options.no_checkout),
            ("--separate-git-dir", self.separate_git_dir),
            ("--recurse-submodules", !options.submodules.is_empty()),
            ("--sparse", options.sparse),
        ];
        others.into_iter().find(|(_, is_given)| *is_given).map(|(other, _)| other)
    }

    /// Returns two options that cannot be used together.
    pub(super) fn contradiction(&self) -> Option<(&'static str, &'static str)> {
        if (self.options.bare || self.options.mirror) && self.separate_git_dir {
            return Some(("--bare", "--separate-git-dir"));
        }
        if self.workspace == Some(true)
            && let Some(other) = self.needs_worktree()
        {
            return Some(("--workspace", other));
        }
        if !self.bases.is_empty() && self.options.bundle_uri.is_some() {
            return Some(("--base", "--bundle-uri"));
        }
        let both = self.options.bundle_uri.is_some() && self.deepens();
        both.then_some(("--bundle-uri", "--depth/--shallow-since/--shallow-exclude"))
    }

    pub(super) fn deepens(&self) -> bool {
        let options = &self.options;
        options.depth.is_some() || self.shallow_since.is_some() || !options.shallow_exclude.is_empty()
    }

    pub(super) fn shows_progress(&self) -> bool {
        self.progress.unwrap_or(self.verbosity >= 0 && progress::has_terminal())
    }
}
