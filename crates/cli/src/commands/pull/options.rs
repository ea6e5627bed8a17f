//! The options of `pull`. Most are passed on, as given, to `fetch`, `merge` or `rebase`.

use bstr::BString;
use sapwood::{fast_forward::FastForward, fetch::submodules::Recurse, pull::Rebase};

use crate::{
    commands::fetch::recurse,
    term::{
        args::{Both, Grammar, On, Opt, Set, Table, Value},
        console::text,
        failure::{Failure, Preface},
    },
};

/// The command line. Fields of the type `Passed` contain the option in the form to pass on.
#[derive(Default)]
pub(super) struct Request {
    pub(super) verbosity: i32,
    pub(super) progress: Passed,
    pub(super) recurse: Recurse,
    pub(super) rebase: Option<Rebase>,
    pub(super) diffstat: Passed,
    pub(super) log: Passed,
    pub(super) signoff: Passed,
    pub(super) squash: Passed,
    pub(super) commit: Passed,
    pub(super) edit: Passed,
    pub(super) cleanup: Option<BString>,
    pub(super) ff: Option<FastForward>,
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
        Opt::verbose(field!(verbosity)).native(Both),
        Opt::quiet(field!(verbosity)).native(Both),
        passed!("--progress", "progress", "force progress reporting", progress),
        Opt::new(
            "--recurse-submodules[=<on-demand>]",
            "control for recursive fetching of submodules",
            |request: &mut Request, value| {
                request.recurse = recurse(value)?;
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
                    Some(text) => Rebase::parse("--rebase", &text).map_err(|refused| {
                        let failure = Failure::Error(refused.message, 129);
                        match refused.detail {
                            Some(detail) => failure.after(Preface::Error(detail.into())),
                            None => failure,
                        }
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
        Opt::text("--cleanup <mode>", "how to strip spaces and #comments from message", field!(cleanup))
            .native(Both),
        Opt::new("--ff", "allow fast-forward", |request: &mut Request, value| {
            request.ff = Some(if value.on { FastForward::Allowed } else { FastForward::Never });
            Ok(())
        })
        .native(Both),
        Opt::new("--ff-only", "abort if fast-forward is not possible", |request: &mut Request, _| {
            request.ff = Some(FastForward::Only);
            Ok(())
        })
        .native(Both)
        .only(),
        passed!("--verify", "verify", "control use of pre-merge-commit and commit-msg hooks", verify),
        passed!(
            "--verify-signatures",
            "verify-signatures",
            "verify that the named commit has a valid GPG signature",
            verify_signatures
        ),
        Opt::choice("--autostash", "automatically stash/stash pop before and after", field!(autostash))
            .native(Both),
        passed_each!("-s, --strategy <strategy>", "strategy", "merge strategy to use", strategies),
        passed_each!(
            "-X, --strategy-option <option=value>",
            "strategy-option",
            "option for selected merge strategy",
            strategy_options
        ),
        passed!("-S, --gpg-sign[=<key-id>]", "gpg-sign", "GPG sign commit", gpg_sign),
        Opt::flag("--allow-unrelated-histories", "allow merging unrelated histories", field!(unrelated))
            .native(Both),
        passed!("--all", "all", "fetch from all remotes", all),
        passed!("-a, --append", "append", "append to .git/FETCH_HEAD instead of overwriting", append),
        passed!("--upload-pack <path>", "upload-pack", "path to upload pack on remote end", upload_pack),
        Opt::count("-f, --force", "force overwrite of local branch", field!(force)).native(Both),
        passed!("-t, --tags", "tags", "fetch all tags and associated objects", tags),
        passed!("-p, --prune", "prune", "prune remote-tracking branches no longer on remote", prune),
        passed!("-j, --jobs[=<n>]", "jobs", "number of submodules pulled in parallel", jobs),
        Opt::flag("--dry-run", "dry run", field!(dry_run)).native(Both),
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
            field!(forced_updates),
        )
        .native(Both),
        passed!("--set-upstream", "set-upstream", "set upstream for git pull/fetch", set_upstream),
    ],
    grammar: Grammar::Mixed,
};

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
        let recurse = match self.recurse {
            Recurse::Default => None,
            Recurse::On => Some("--recurse-submodules=on"),
            Recurse::Off => Some("--recurse-submodules=no"),
            Recurse::OnDemand => Some("--recurse-submodules=on-demand"),
        };
        args.extend(recurse.map(BString::from));
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
        args.extend(self.ff.map(|ff| match ff {
            FastForward::Allowed => "--ff".into(),
            FastForward::Only => "--ff-only".into(),
            FastForward::Never => "--no-ff".into(),
        }));
        args.extend([&self.verify, &self.verify_signatures].into_iter().flatten().cloned());
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

    /// Returns true if `--verify-signatures` was given.
    pub(super) fn verifies(&self) -> bool {
        self.verify_signatures.as_ref().is_some_and(|given| given == "--verify-signatures")
    }
}
