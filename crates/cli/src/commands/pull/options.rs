//! The options of `pull`. Most are passed on, as given, to `fetch`, `merge` or `rebase`.

use bstr::{BString, ByteSlice as _};

use crate::term::{
    args::{Grammar, Native::Both, Native::On, Opt, Set, Table, Value},
    console::text,
    failure::Failure,
};

/// How the fetched commits are integrated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rebase {
    /// By a merge.
    No,
    Yes,
    Merges,
    Interactive,
}

impl Rebase {
    /// Parses a value. `None` for an invalid one.
    pub(super) fn parse(value: &[u8]) -> Option<Rebase> {
        match (repo::parse_bool(Some(value.as_bstr())), value) {
            (Some(false), _) => Some(Rebase::No),
            (Some(true), _) => Some(Rebase::Yes),
            (None, b"merges" | b"m") => Some(Rebase::Merges),
            (None, b"interactive" | b"i") => Some(Rebase::Interactive),
            (None, b"preserve" | b"p") => {
                crate::term::console::error(text!(value, ": 'preserve' superseded by 'merges'"));
                None
            }
            _ => None,
        }
    }
}

/// When submodules are fetched and updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recurse {
    Off,
    OnDemand,
    On,
}

/// The command line. Fields of the type `Passed` contain the option in the form to pass on.
#[derive(Default)]
pub(super) struct Request {
    pub(super) verbosity: i32,
    pub(super) progress: Passed,
    pub(super) recurse: Option<Recurse>,
    pub(super) rebase: Option<Rebase>,
    pub(super) diffstat: Passed,
    pub(super) log: Passed,
    pub(super) signoff: Passed,
    pub(super) squash: Passed,
    pub(super) commit: Passed,
    pub(super) edit: Passed,
    pub(super) cleanup: Option<BString>,
    pub(super) ff: Passed,
    pub(super) verify: Passed,
    pub(super) verify_signatures: Passed,
    pub(super) autostash: Option<bool>,
    pub(super) strategies: Vec<BString>,
    pub(super) strategy_options: Vec<BString>,
    pub(super) gpg_sign: Passed,
    pub(super) unrelated: bool,
    pub(super) all: Passed,
    pub(super) append: Passed,
    pub(super) upload_pack: Passed,
    pub(super) force: usize,
    pub(super) tags: Passed,
    pub(super) prune: Passed,
    pub(super) jobs: Passed,
    pub(super) dry_run: bool,
    pub(super) keep: Passed,
    pub(super) depth: Passed,
    pub(super) unshallow: Passed,
    pub(super) update_shallow: Passed,
    pub(super) refmap: Passed,
    pub(super) ipv4: Passed,
    pub(super) ipv6: Passed,
    pub(super) forced_updates: Option<bool>,
    pub(super) set_upstream: Passed,
    /// Other options of `fetch`, in order; none overrides another.
    pub(super) fetch: Vec<BString>,
}

type Passed = Option<BString>;

/// Returns an option in the form to pass on.
fn spelled(name: &str, value: Value) -> BString {
    match (value.on, value.text) {
        (false, _) => text!("--no-", name),
        (true, None) => text!("--", name),
        (true, Some(value)) => text!("--", name, "=", value),
    }
}

/// An option to pass on; the last occurrence counts.
macro_rules! passed {
    ($spelling:literal, $name:literal, $help:literal, $field:ident) => {
        Opt::new($spelling, $help, |request: &mut Request, value| {
            request.$field = Some(spelled($name, value));
            Ok(())
        })
        .native(Both)
    };
}

/// An option to pass on; every occurrence counts.
macro_rules! passed_each {
    ($spelling:literal, $name:literal, $help:literal, $field:ident) => {
        Opt::new($spelling, $help, |request: &mut Request, value| {
            request.$field.push(spelled($name, value));
            Ok(())
        })
        .native(Both)
    };
}

pub(super) const TABLE: Table<Set<Request>> = Table {
    usage: &["sapwood pull [<options>] [<repository> [<refspec>...]]"],
    options: &[
        Opt::verbose(|request: &mut Request| &mut request.verbosity).native(Both),
        Opt::quiet(|request: &mut Request| &mut request.verbosity).native(Both),
        passed!("--progress", "progress", "force progress reporting", progress),
        Opt::new(
            "--recurse-submodules[=<on-demand>]",
            "control for recursive fetching of submodules",
            |request: &mut Request, value| {
                request.recurse = Some(recurse(value)?);
                Ok(())
            },
        )
        .native(Both),
        Opt::new(
            "-r, --rebase[=(false|true|merges|interactive)]",
            "incorporate changes by rebasing rather than merging",
            |request: &mut Request, value| {
                request.rebase = Some(match value.text {
                    None if value.on => Rebase::Yes,
                    None => Rebase::No,
                    Some(text) => Rebase::parse(&text).ok_or_else(|| {
                        Failure::Error(text!("invalid value for '--rebase': '", text, "'"), 129)
                    })?,
                });
                Ok(())
            },
        )
        .native(Both),
        Opt::new("-n", "do not show a diffstat at the end of the merge", |request: &mut Request, _| {
            request.diffstat = Some("-n".into());
            Ok(())
        })
        .native(On),
        passed!("--stat", "stat", "show a diffstat at the end of the merge", diffstat),
        passed!("--summary", "summary", "(synonym to --stat)", diffstat).hidden(),
        passed!(
            "--compact-summary",
            "compact-summary",
            "show a compact-summary at the end of the merge",
            diffstat
        ),
        passed!("--log[=<n>]", "log", "add (at most <n>) entries from shortlog to merge commit message", log),
        passed!("--signoff[=...]", "signoff", "add a Signed-off-by trailer", signoff),
        passed!("--squash", "squash", "create a single commit instead of doing a merge", squash),
        passed!("--commit", "commit", "perform a commit if the merge succeeds (default)", commit),
        passed!("--edit", "edit", "edit message before committing", edit),
        Opt::text(
            "--cleanup <mode>",
            "how to strip spaces and #comments from message",
            |request: &mut Request| &mut request.cleanup,
        )
        .native(Both),
        passed!("--ff", "ff", "allow fast-forward", ff),
        passed!("--ff-only", "ff-only", "abort if fast-forward is not possible", ff).only(),
        passed!("--verify", "verify", "control use of pre-merge-commit and commit-msg hooks", verify),
        passed!(
            "--verify-signatures",
            "verify-signatures",
            "verify that the named commit has a valid GPG signature",
            verify_signatures
        ),
        Opt::choice(
            "--autostash",
            "automatically stash/stash pop before and after",
            |request: &mut Request| &mut request.autostash,
        )
        .native(Both),
        passed_each!("-s, --strategy <strategy>", "strategy", "merge strategy to use", strategies),
        passed_each!(
            "-X, --strategy-option <option=value>",
            "strategy-option",
            "option for selected merge strategy",
            strategy_options
        ),
        passed!("-S, --gpg-sign[=<key-id>]", "gpg-sign", "GPG sign commit", gpg_sign),
        Opt::flag(
            "--allow-unrelated-histories",
            "allow merging unrelated histories",
            |request: &mut Request| &mut request.unrelated,
        )
        .native(Both),
        passed!("--all", "all", "fetch from all remotes", all),
        passed!("-a, --append", "append", "append to .git/FETCH_HEAD instead of overwriting", append),
        passed!("--upload-pack <path>", "upload-pack", "path to upload pack on remote end", upload_pack),
        Opt::count("-f, --force", "force overwrite of local branch", |request: &mut Request| {
            &mut request.force
        })
        .native(Both),
        passed!("-t, --tags", "tags", "fetch all tags and associated objects", tags),
        passed!("-p, --prune", "prune", "prune remote-tracking branches no longer on remote", prune),
        passed!("-j, --jobs[=<n>]", "jobs", "number of submodules pulled in parallel", jobs),
        Opt::flag("--dry-run", "dry run", |request: &mut Request| &mut request.dry_run).native(Both),
        passed!("-k, --keep", "keep", "keep downloaded pack", keep),
        passed!("--depth <depth>", "depth", "deepen history of shallow clone", depth),
        passed_each!(
            "--shallow-since <time>",
            "shallow-since",
            "deepen history of shallow repository based on time",
            fetch
        ),
        passed_each!(
            "--shallow-exclude <ref>",
            "shallow-exclude",
            "deepen history of shallow clone, excluding ref",
            fetch
        ),
        passed_each!("--deepen <n>", "deepen", "deepen history of shallow clone", fetch),
        passed!("--unshallow", "unshallow", "convert to a complete repository", unshallow).only(),
        passed!("--update-shallow", "update-shallow", "accept refs that update .git/shallow", update_shallow),
        passed!("--refmap <refmap>", "refmap", "specify fetch refmap", refmap).only(),
        passed_each!("-o, --server-option <server-specific>", "server-option", "option to transmit", fetch),
        passed!("-4, --ipv4", "ipv4", "use IPv4 addresses only", ipv4),
        passed!("-6, --ipv6", "ipv6", "use IPv6 addresses only", ipv6),
        passed_each!(
            "--negotiation-restrict <revision>",
            "negotiation-restrict",
            "report that we have only objects reachable from this object",
            fetch
        ),
        passed_each!(
            "--negotiation-tip <revision>",
            "negotiation-restrict",
            "alias of --negotiation-restrict",
            fetch
        ),
        passed_each!(
            "--negotiation-include <revision>",
            "negotiation-include",
            "ensure this ref is always sent as a negotiation have",
            fetch
        ),
        Opt::choice(
            "--show-forced-updates",
            "check for forced-updates on all updated branches",
            |request: &mut Request| &mut request.forced_updates,
        )
        .native(Both),
        passed!("--set-upstream", "set-upstream", "set upstream for git pull/fetch", set_upstream),
    ],
    grammar: Grammar::Mixed,
};

fn recurse(value: Value) -> Result<Recurse, Failure> {
    Ok(match (value.on, value.text) {
        (false, _) => Recurse::Off,
        (true, None) => Recurse::On,
        (true, Some(text)) if text == "on-demand" => Recurse::OnDemand,
        (true, Some(text)) => match repo::parse_bool(Some(text.as_bstr())) {
            Some(true) => Recurse::On,
            Some(false) => Recurse::Off,
            None => return Err(Failure::Fatal(text!("bad recurse-submodules argument: ", text))),
        },
    })
}

impl Request {
    /// Returns `-v` or `-q`, repeated according to the verbosity.
    pub(super) fn verbosity(&self) -> Vec<BString> {
        let option = if self.verbosity > 0 { "-v" } else { "-q" };
        vec![option.into(); self.verbosity.unsigned_abs() as usize]
    }

    /// Returns the arguments for `fetch`, up to the repository.
    pub(super) fn for_fetch(&self) -> Vec<BString> {
        let mut args: Vec<BString> = vec!["--update-head-ok".into()];
        args.extend(self.verbosity());
        let passed = [&self.progress, &self.all, &self.append, &self.upload_pack];
        args.extend(passed.into_iter().flatten().cloned());
        args.extend(std::iter::repeat_n("-f".into(), self.force));
        args.extend([&self.tags, &self.prune].into_iter().flatten().cloned());
        args.extend(self.recurse.map(|recurse| match recurse {
            Recurse::On => "--recurse-submodules=on".into(),
            Recurse::Off => "--recurse-submodules=no".into(),
            Recurse::OnDemand => "--recurse-submodules=on-demand".into(),
        }));
        args.extend(self.jobs.clone());
        args.extend(self.dry_run.then(|| "--dry-run".into()));
        let passed = [
            &self.keep,
            &self.depth,
            &self.unshallow,
            &self.update_shallow,
            &self.refmap,
            &self.ipv4,
            &self.ipv6,
        ];
        args.extend(passed.into_iter().flatten().cloned());
        args.extend(self.forced_updates.map(|shows| {
            if shows { "--show-forced-updates".into() } else { "--no-show-forced-updates".into() }
        }));
        args.extend(self.set_upstream.clone());
        args.extend(self.fetch.iter().cloned());
        args
    }

    /// Returns the arguments for `merge`.
    pub(super) fn for_merge(&self) -> Vec<BString> {
        let mut args = self.verbosity();
        let passed = [
            &self.progress,
            &self.diffstat,
            &self.log,
            &self.signoff,
            &self.squash,
            &self.commit,
            &self.edit,
        ];
        args.extend(passed.into_iter().flatten().cloned());
        args.extend(self.cleanup.as_ref().map(|mode| text!("--cleanup=", mode)));
        args.extend([&self.ff, &self.verify, &self.verify_signatures].into_iter().flatten().cloned());
        args.extend(self.strategies.iter().chain(&self.strategy_options).cloned());
        args.extend(self.gpg_sign.clone());
        args.extend(self.autostash());
        args.extend(self.unrelated.then(|| "--allow-unrelated-histories".into()));
        args.push("FETCH_HEAD".into());
        args
    }

    /// Returns the arguments for `rebase`, up to the commits.
    pub(super) fn for_rebase(&self, how: Rebase) -> Vec<BString> {
        let mut args = self.verbosity();
        args.extend(match how {
            Rebase::Merges => Some("--rebase-merges".into()),
            Rebase::Interactive => Some("--interactive".into()),
            Rebase::Yes | Rebase::No => None,
        });
        args.extend(self.diffstat.clone());
        args.extend(self.strategies.iter().chain(&self.strategy_options).cloned());
        args.extend([&self.gpg_sign, &self.signoff].into_iter().flatten().cloned());
        args.extend(self.autostash());
        args
    }

    fn autostash(&self) -> Option<BString> {
        self.autostash.map(|is_on| if is_on { "--autostash".into() } else { "--no-autostash".into() })
    }

    /// Returns true if the option was given in this form.
    pub(super) fn is(field: &Passed, option: &str) -> bool {
        field.as_ref().is_some_and(|given| given == option)
    }
}
