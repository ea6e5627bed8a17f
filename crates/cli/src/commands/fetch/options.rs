//! The options of `fetch`.

use bstr::{BString, ByteSlice as _};

use engine::clone::{Filter, FilterError};
use sapwood::fetch::submodules::Recurse;

use crate::term::{
    args::{Both, Grammar, On, Opt, Set, Table, Value},
    failure::Failure,
};

/// The command line.
#[derive(Clone, Default)]
pub(crate) struct Request {
    pub(super) verbosity: i32,
    pub(super) all: Option<bool>,
    pub(super) set_upstream: bool,
    pub(super) append: bool,
    pub(super) atomic: bool,
    pub(super) upload_pack: Option<BString>,
    pub(super) force: bool,
    pub(super) multiple: bool,
    pub(super) tags: Option<bool>,
    pub(super) jobs: Option<i32>,
    pub(super) prefetch: bool,
    pub(super) prune: Option<bool>,
    pub(super) prune_tags: Option<bool>,
    pub(super) recurse: Recurse,
    pub(super) dry_run: bool,
    pub(super) porcelain: bool,
    pub(super) leaves_fetch_head: bool,
    pub(super) keep: bool,
    pub(super) update_head_ok: bool,
    pub(super) progress: Option<bool>,
    pub(super) depth: Option<BString>,
    pub(super) shallow_since: Option<BString>,
    pub(super) shallow_exclude: Vec<BString>,
    pub(super) deepen: Option<i32>,
    pub(super) unshallow: bool,
    pub(super) refetch: bool,
    pub(super) update_shallow: bool,
    pub(super) refmap: Option<Vec<BString>>,
    pub(super) server_options: Vec<BString>,
    pub(super) ipv4: bool,
    pub(super) ipv6: bool,
    pub(super) negotiation_tips: Vec<BString>,
    pub(super) negotiation_include: Vec<BString>,
    pub(super) negotiate_only: bool,
    pub(super) filter: Option<Filter>,
    /// `--no-filter`
    pub(super) no_filter: bool,
    pub(super) maintenance: Option<bool>,
    pub(super) forced_updates: Option<bool>,
    pub(super) commit_graph: Option<bool>,
    pub(super) stdin: bool,
    /// Internal: the submodule's path, for messages.
    pub(super) submodule_prefix: Option<BString>,
    pub(super) recurse_default: Option<BString>,
}

pub(super) const TABLE: Table<Set<Request>> = Table {
    usage: &[
        "sapwood fetch [<options>] [<repository> [<refspec>...]]",
        "sapwood fetch [<options>] <group>",
        "sapwood fetch --multiple [<options>] [(<repository>|<group>)...]",
        "sapwood fetch --all [<options>]",
    ],
    options: &[
        Opt::verbose(field!(verbosity)).native(Both),
        Opt::quiet(field!(verbosity)).native(Both),
        Opt::choice("--all", "fetch from all remotes", field!(all)).native(Both),
        Opt::flag("--set-upstream", "set upstream for git pull/fetch", field!(set_upstream)).native(Both),
        Opt::flag("-a, --append", "append to .git/FETCH_HEAD instead of overwriting", field!(append))
            .native(Both),
        Opt::flag("--atomic", "use atomic transaction to update references", field!(atomic)).native(Both),
        Opt::text("--upload-pack <path>", "path to upload pack on remote end", field!(upload_pack))
            .native(Both),
        Opt::flag("-f, --force", "force overwrite of local reference", field!(force)).native(Both),
        Opt::flag("-m, --multiple", "fetch from multiple remotes", field!(multiple)).native(Both),
        Opt::choice("-t, --tags", "fetch all tags and associated objects", field!(tags)).native(Both),
        Opt::new("-n", "do not fetch all tags (--no-tags)", |request: &mut Request, _| {
            request.tags = Some(false);
            Ok(())
        })
        .native(On),
        Opt::new(
            "-j, --jobs <n>",
            "number of remotes and submodules fetched in parallel",
            |request: &mut Request, value| {
                request.jobs = number("jobs", value)?;
                Ok(())
            },
        )
        .native(Both),
        Opt::flag(
            "--prefetch",
            "modify the refspec to place all refs within refs/prefetch/",
            field!(prefetch),
        )
        .native(Both),
        Opt::choice("-p, --prune", "prune remote-tracking branches no longer on remote", field!(prune))
            .native(Both),
        Opt::choice(
            "-P, --prune-tags",
            "prune local tags no longer on remote and clobber changed tags",
            field!(prune_tags),
        )
        .native(Both),
        Opt::new(
            "--recurse-submodules[=<on-demand>]",
            "control recursive fetching of submodules",
            |request: &mut Request, value| {
                request.recurse = recurse(value)?;
                Ok(())
            },
        )
        .native(Both),
        Opt::flag("--dry-run", "print what would be fetched, and change no ref", field!(dry_run))
            .native(Both),
        Opt::flag("--porcelain", "machine-readable output", field!(porcelain)).native(Both),
        Opt::new(
            "--write-fetch-head",
            "write fetched references to the FETCH_HEAD file",
            |request: &mut Request, value| {
                request.leaves_fetch_head = !value.on;
                Ok(())
            },
        )
        .native(Both),
        Opt::flag("-k, --keep", "keep downloaded pack", field!(keep)).native(Both),
        Opt::flag("-u, --update-head-ok", "allow updating of HEAD ref", field!(update_head_ok)).native(Both),
        Opt::choice("--progress", "force progress reporting", field!(progress)).native(Both),
        Opt::text("--depth <depth>", "deepen history of shallow clone", field!(depth)).native(Both),
        Opt::text(
            "--shallow-since <time>",
            "deepen history of shallow repository based on time",
            field!(shallow_since),
        )
        .native(Both),
        Opt::list(
            "--shallow-exclude <ref>",
            "deepen history of shallow clone, excluding ref",
            field!(shallow_exclude),
        )
        .native(Both),
        Opt::new("--deepen <n>", "deepen history of shallow clone", |request: &mut Request, value| {
            request.deepen = number("deepen", value)?;
            Ok(())
        })
        .native(Both),
        Opt::flag("--unshallow", "convert to a complete repository", field!(unshallow)).only().native(On),
        Opt::flag("--refetch", "re-fetch without negotiating common commits", field!(refetch))
            .only()
            .native(On),
        Opt::flag("--update-shallow", "accept refs that update .git/shallow", field!(update_shallow))
            .native(Both),
        Opt::new("--refmap <refmap>", "specify fetch refmap", |request: &mut Request, value| {
            let all = request.refmap.get_or_insert_default();
            all.extend(value.text.filter(|text| !text.is_empty()));
            Ok(())
        })
        .only()
        .native(On),
        Opt::list("-o, --server-option <server-specific>", "option to transmit", field!(server_options))
            .native(Both),
        Opt::flag("-4, --ipv4", "use IPv4 addresses only", field!(ipv4)).only().native(On),
        Opt::flag("-6, --ipv6", "use IPv6 addresses only", field!(ipv6)).only().native(On),
        Opt::list(
            "--negotiation-restrict <revision>",
            "report that we have only objects reachable from this object",
            field!(negotiation_tips),
        )
        .native(Both),
        Opt::list(
            "--negotiation-tip <revision>",
            "alias of --negotiation-restrict",
            field!(negotiation_tips),
        )
        .native(Both),
        Opt::list(
            "--negotiation-include <revision>",
            "ensure this ref is always sent as a negotiation have",
            field!(negotiation_include),
        )
        .native(Both),
        Opt::flag(
            "--negotiate-only",
            "do not fetch a packfile; instead, print ancestors of negotiation tips",
            field!(negotiate_only),
        )
        .native(Both),
        Opt::new("--filter <args>", "object filtering", |request: &mut Request, value| request.filter(value))
            .native(Both),
        Opt::choice("--auto-maintenance", "run 'maintenance --auto' after fetching", field!(maintenance))
            .native(Both),
        Opt::choice("--auto-gc", "run 'maintenance --auto' after fetching", field!(maintenance)).native(Both),
        Opt::choice(
            "--show-forced-updates",
            "check for forced-updates on all updated branches",
            field!(forced_updates),
        )
        .native(Both),
        Opt::choice("--write-commit-graph", "write the commit-graph after fetching", field!(commit_graph))
            .native(Both),
        Opt::flag("--stdin", "accept refspecs from stdin", field!(stdin)).native(Both),
        Opt::text(
            "--submodule-prefix <dir>",
            "prepend this to submodule path output",
            field!(submodule_prefix),
        )
        .hidden()
        .native(On),
        Opt::text(
            "--recurse-submodules-default <how>",
            "default for recursive fetching",
            field!(recurse_default),
        )
        .hidden()
        .native(On),
    ],
    grammar: Grammar::Mixed,
};

impl Request {
    fn filter(&mut self, value: Value) -> Result<(), Failure> {
        let filter = match (value.text, self.filter.take()) {
            (None, _) => {
                self.no_filter = true;
                return Ok(());
            }
            (Some(text), None) => Filter::parse(text.as_ref()),
            (Some(text), Some(before)) => before.and(text.as_ref()),
        };
        self.filter = Some(filter.map_err(|error| match error {
            FilterError::Auto => Failure::Unserved("filters that the server chooses"),
            error => Failure::fatal(error.to_string()),
        })?);
        Ok(())
    }
}

/// Parses the value of `--recurse-submodules`.
pub(crate) fn recurse(value: Value) -> Result<Recurse, Failure> {
    match (value.on, value.text) {
        (false, _) => Ok(Recurse::Off),
        (true, None) => Ok(Recurse::On),
        (true, Some(text)) => Ok(Recurse::parse("recurse-submodules", text.as_bstr())?),
    }
}

/// Parses a number as Git's integer options do.
fn number(name: &str, value: Value) -> Result<Option<i32>, Failure> {
    let Some(text) = value.text.filter(|_| value.on) else { return Ok(None) };
    let wrong = || {
        let message = format!("option `{name}' expects an integer value with an optional k/m/g suffix");
        Failure::Error(message.into(), 129)
    };
    let (digits, factor) = match text.last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1 << 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1 << 20),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 1 << 30),
        _ => (&text[..], 1),
    };
    let number = digits.to_str().ok().and_then(|digits| digits.parse::<i32>().ok()).ok_or_else(wrong)?;
    number.checked_mul(factor).map(Some).ok_or_else(wrong)
}

impl Request {
    /// Returns Git's error for options that contradict each other.
    pub(super) fn check(&self, repo: &repo::Repository) -> Result<(), Failure> {
        let together = |one: &str, other: &str| {
            Failure::fatal(format!("options '{one}' and '{other}' cannot be used together"))
        };
        if self.negotiate_only && matches!(self.recurse, Recurse::On | Recurse::OnDemand) {
            return Err(together("--negotiate-only", "--recurse-submodules"));
        }
        if let Some(deepen) = self.deepen {
            if deepen < 0 {
                return Err(Failure::fatal("negative depth in --deepen is not supported"));
            }
            if self.depth.is_some() {
                return Err(together("--deepen", "--depth"));
            }
        }
        if self.unshallow {
            if self.depth.is_some() || self.deepen.is_some() {
                return Err(together("--depth", "--unshallow"));
            }
            if !repo.is_shallow_clone() {
                return Err(Failure::fatal("--unshallow on a complete repository does not make sense"));
            }
        }
        if let Some(depth) = &self.depth
            && leading_number(depth) < 1
        {
            return Err(Failure::fatal(format!("depth {depth} is not a positive number")));
        }
        if self.porcelain && matches!(self.recurse, Recurse::On | Recurse::OnDemand) {
            return Err(together("--porcelain", "--recurse-submodules"));
        }
        Ok(())
    }

    /// Returns the options that Git passes on to the process of another remote or a submodule.
    pub(super) fn passed_on(&self, recurse: Recurse) -> Vec<&'static str> {
        let choice = |choice: Option<bool>, on: &'static str, off: &'static str| {
            choice.map(|is_on| if is_on { on } else { off })
        };
        let flag = |is_on: bool, option: &'static str| is_on.then_some(option);
        let options = [
            flag(self.dry_run, "--dry-run"),
            choice(self.prune, "--prune", "--no-prune"),
            choice(self.prune_tags, "--prune-tags", "--no-prune-tags"),
            flag(self.update_head_ok, "--update-head-ok"),
            flag(self.force, "--force"),
            flag(self.keep, "--keep"),
            match recurse {
                Recurse::On => Some("--recurse-submodules"),
                Recurse::OnDemand => Some("--recurse-submodules=on-demand"),
                Recurse::Off => Some("--no-recurse-submodules"),
                Recurse::Default => None,
            },
            choice(self.tags, "--tags", "--no-tags"),
            flag(self.verbosity >= 2, "-v"),
            flag(self.verbosity >= 1, "-v"),
            flag(self.verbosity < 0, "-q"),
            if self.ipv6 { Some("--ipv6") } else { flag(self.ipv4, "--ipv4") },
            flag(self.leaves_fetch_head || self.dry_run, "--no-write-fetch-head"),
        ];
        options.into_iter().flatten().collect()
    }
}

/// Returns the number at the beginning of a text, as C's `atoi` does.
pub(super) fn leading_number(text: &BString) -> i64 {
    let text = text.trim_ascii_start();
    let (sign, digits) = match text.first() {
        Some(b'-') => (-1, &text[1..]),
        Some(b'+') => (1, &text[1..]),
        _ => (1, text),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    sign * digits
        .fold(0_i64, |number, digit| number.saturating_mul(10).saturating_add(i64::from(digit - b'0')))
}
