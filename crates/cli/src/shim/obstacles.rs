//! What in the configuration, the environment that stands for it, and the repository keeps a command
//! from being native: the lines of SHORTCOMINGS.md as data.
//!
//! Everything is found, not only the first, for `sapwood doctor` shows it. Variables that trace or test
//! are no reason, ever.

use std::{ffi::OsStr, path::Path};

use bstr::{BStr, BString, ByteSlice as _};
use format::{ObjectId, index::Glance};
use repo::Repository;
use sys::by_path;

use super::{Reason, submodules};
use crate::git::Env;
use crate::{
    session::{
        monitor::{self, Monitor},
        settings::shared_index_expire,
    },
    term::console::text,
};

/// When a setting is an obstacle.
#[derive(Clone, Copy, Debug)]
enum When {
    Set,
    /// Set to anything but false.
    True,
    /// Set to what is no boolean.
    NoBoolean,
    /// Set to anything but these.
    Not(&'static [&'static str]),
}

impl When {
    /// Whether a setting of this value (lower case) is an obstacle.
    fn stands(self, value: &[u8]) -> bool {
        let is = |known: &[&str]| known.iter().any(|known| known.as_bytes() == value);
        match self {
            When::Set => true,
            When::True => !is(&["false", "no", "off", "0"]),
            When::NoBoolean => false,
            When::Not(values) => !is(values),
        }
    }
}

/// A setting (lower case; `*` stands for anything, once), and when it is an obstacle.
type Setting = (&'static str, When);

/// What may be ignored of submodules.
const IGNORE: &[&str] = &["all", "dirty", "none", "untracked"];

/// To every command.
const SETTINGS: &[Setting] = &[
    ("attr.tree", When::Set),
    ("color.advice*", When::Set),
    ("core.prefersymlinkrefs", When::True),
    ("diff.ignoresubmodules", When::Not(IGNORE)),
    ("merge.conflictstyle", When::Not(&["merge", "diff3", "zdiff3"])),
    ("submodule.*.ignore", When::Not(IGNORE)),
    ("submodule.recurse", When::NoBoolean),
    ("trace2.*", When::Set),
];

/// To a clone.
const CLONE_SETTINGS: &[Setting] = &[
    ("clone.filtersubmodules", When::True),
    ("color.remote*", When::Set),
    ("color.ui", When::Not(&["auto", "never", "false", "no", "off", "0", "true", "yes", "on", "1"])),
    ("core.hookspath", When::Set),
    ("feature.experimental", When::True),
    ("init.defaultobjectformat", When::Not(&["sha1"])),
    ("init.defaultrefformat", When::Not(&["files"])),
    ("init.defaultsubmodulepathconfig", When::True),
    ("sideband.*", When::Set),
    ("transfer.bundleuri", When::True),
    ("url.*", When::Set),
];

/// To making or removing a worktree.
const WORKTREE_SETTINGS: &[Setting] =
    &[("core.ignorecase", When::True), ("core.splitindex", When::True), ("hook.*", When::Set)];

/// To what only changes what is known of worktrees: nothing of the general table is looked at by it.
const RECORD_SETTINGS: &[Setting] = &[
    ("color.advice*", When::Set),
    ("core.fsyncobjectfiles", When::Set),
    ("core.ignorecase", When::True),
    ("trace2.*", When::Set),
];

/// Commands that change or show only what is known of worktrees.
const RECORDS: &[&str] = &[
    "worktree list",
    "worktree lock",
    "worktree move",
    "worktree prune",
    "worktree repair",
    "worktree unlock",
];

/// To `checkout-index`, which lets no filter put a file off.
const CHECKOUT_INDEX_SETTINGS: &[Setting] = &[("filter.*.process", When::Not(&[""]))];

/// To commands that neither ask filters and hooks nor write the index.
const LOOKING_SETTINGS: &[Setting] = &[("trace2.*", When::Set)];

/// To `ls-files`, of these.
const LISTING_SETTINGS: &[Setting] = &[("attr.tree", When::Set)];

/// These commands: hooks, locks and what is in the index is not their business.
pub(super) const LOOKING: &[&str] = &["check-attr", "check-ignore", "clean", "ls-files"];

/// To lists of differences: what Git takes a file for, and what it may find a mistake in.
const DIFF_SETTINGS: &[Setting] = &[
    ("diff.*.binary", When::Set),
    ("diff.color.*", When::Set),
    ("diff.dirstat", When::Set),
    ("diff.wserrorhighlight", When::Set),
];

/// Whether there are colours.
const COLOR: When =
    When::Not(&["always", "never", "auto", "true", "false", "yes", "no", "on", "off", "1", "0"]);

/// Whether there are renames.
const RENAMES: When = When::Not(&["copies", "copy", "true", "false", "yes", "no", "on", "off", "1", "0"]);

/// To `status`.
const STATUS_SETTINGS: &[Setting] = &[
    ("advice.statusaheadbehindwarning", When::NoBoolean),
    ("advice.statushints", When::NoBoolean),
    ("advice.statusuoption", When::NoBoolean),
    ("color.pager", When::NoBoolean),
    ("color.status", COLOR),
    ("color.ui", COLOR),
    ("diff.orderfile", When::Set),
    ("diff.renames", RENAMES),
    ("status.aheadbehind", When::NoBoolean),
    ("status.branch", When::NoBoolean),
    ("status.color", COLOR),
    ("status.displaycommentprefix", When::NoBoolean),
    ("status.relativepaths", When::NoBoolean),
    ("status.renames", RENAMES),
    ("status.short", When::NoBoolean),
    ("status.showstash", When::NoBoolean),
    (
        "status.showuntrackedfiles",
        When::Not(&["normal", "all", "true", "false", "yes", "no", "on", "off", "1", "0"]),
    ),
    ("status.submodulesummary", When::NoBoolean),
];

/// Conditions of `includeIf` that are understood.
const CONDITIONS: &[&str] = &["gitdir:", "gitdir/i:", "onbranch:", "hasconfig:remote.*.url:"];

/// Variables that stand for settings.
const VARIABLES: &[&str] = &[
    "GIT_ALLOW_NULL_SHA1",
    "GIT_ATTR_SOURCE",
    "GIT_GRAFT_FILE",
    "GIT_NO_LAZY_FETCH",
    "GIT_REFERENCE_BACKEND",
    "GIT_SHALLOW_FILE",
];

const CLONE_VARIABLES: &[&str] = &["GIT_NAMESPACE"];

/// Variables that stand for settings, and the values that are native.
const CLONE_VALUES: &[(&str, &[&str])] =
    &[("GIT_DEFAULT_HASH", &["sha1"]), ("GIT_DEFAULT_REF_FORMAT", &["files"])];

/// Hooks that are not run.
const HOOKS: &[&str] = &["reference-transaction"];

/// Nor these when a worktree is made, which is Git's own sub-process's work.
pub(super) const HOOKS_OF_WORKTREES: &[&str] = &["reference-transaction", "post-index-change"];

/// Hooks that are, and can be configured.
const NATIVE_HOOKS: &[&str] = &["post-checkout", "post-index-change"];

/// Every event that Git has a hook for: no configured hook may be called so.
const EVENTS: &[&str] = &[
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "p4-changelist",
    "p4-post-changelist",
    "p4-pre-submit",
    "p4-prepare-changelist",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-receive",
    "post-rewrite",
    "post-update",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "pre-receive",
    "prepare-commit-msg",
    "proc-receive",
    "push-to-checkout",
    "reference-transaction",
    "sendemail-validate",
    "update",
];

/// Configuration to be asked, a repository's or that outside of any.
pub(super) trait Config {
    fn names(&self) -> Vec<BString>;
    fn value(&self, name: &str) -> Option<BString>;
    fn all(&self, name: &str) -> Vec<BString>;
    fn flag(&self, name: &str) -> Result<Option<bool>, repo::Error>;
}

impl Config for Repository {
    fn names(&self) -> Vec<BString> {
        self.config_names().map(BStr::to_owned).collect()
    }

    fn value(&self, name: &str) -> Option<BString> {
        self.config_str(name)
    }

    fn all(&self, name: &str) -> Vec<BString> {
        self.config_all(name)
    }

    fn flag(&self, name: &str) -> Result<Option<bool>, repo::Error> {
        self.config_bool(name)
    }
}

impl Config for repo::Outside {
    fn names(&self) -> Vec<BString> {
        self.config_names().map(BStr::to_owned).collect()
    }

    fn value(&self, name: &str) -> Option<BString> {
        self.config_str(name)
    }

    fn all(&self, name: &str) -> Vec<BString> {
        self.config_all(name)
    }

    fn flag(&self, name: &str) -> Result<Option<bool>, repo::Error> {
        self.config_bool(name)
    }
}

/// What is configured against the native `command`.
pub(super) fn settings(command: &str, config: &impl Config, env: &Env) -> Vec<Reason> {
    let clones = command == "clone";
    let tables = match command {
        "ls-files" => [LOOKING_SETTINGS, LISTING_SETTINGS],
        _ if LOOKING.contains(&command) => [LOOKING_SETTINGS, &[]],
        "checkout-index" => [SETTINGS, CHECKOUT_INDEX_SETTINGS],
        "clone" => [SETTINGS, CLONE_SETTINGS],
        "diff-files" | "diff-index" => [SETTINGS, DIFF_SETTINGS],
        "status" => [SETTINGS, STATUS_SETTINGS],
        "worktree add" | "worktree remove" => [SETTINGS, WORKTREE_SETTINGS],
        _ if RECORDS.contains(&command) => [RECORD_SETTINGS, &[]],
        _ => [SETTINGS, &[]],
    };
    let name_of_command = command.split(' ').next().unwrap_or(command);
    let mut found = Vec::new();
    for name in config.names() {
        let name_text = name.to_str_lossy();
        let setting =
            tables.iter().flat_map(|table| table.iter()).find(|(pattern, _)| matches(pattern, &name));
        let stands = match setting {
            Some((_, When::Set)) => true,
            Some((_, When::True)) => !matches!(config.flag(&name_text), Ok(Some(false))),
            Some((_, When::NoBoolean)) => config.flag(&name_text).is_err(),
            Some((_, When::Not(values))) => {
                let value = config.value(&name_text).unwrap_or_default().to_ascii_lowercase();
                !values.iter().any(|known| known.as_bytes() == value)
            }
            None => {
                is_unknown(&name)
                    || name_text == format!("pager.{name_of_command}")
                    || !LOOKING.contains(&command)
                        && !RECORDS.contains(&command)
                        && is_a_hook_of_gits(config, &name_text)
            }
        };
        if stands {
            found.push(Reason::Setting(name_text.into_owned()));
        }
    }
    // Git dies of an index that is to be both.
    let is_on = |name: &str| matches!(config.flag(name), Ok(Some(true)));
    if is_on("index.sparse") && is_on("core.splitindex") {
        found.push(Reason::Setting("core.splitindex".to_owned()));
    }
    if shared_index_expire(config.value("splitindex.sharedindexexpire")).is_none() {
        found.push(Reason::Setting("splitindex.sharedindexexpire".to_owned()));
    }
    let value = |name: &str| env.get(OsStr::new(name)).filter(|value| !value.is_empty());
    let variables = [VARIABLES, if clones { CLONE_VARIABLES } else { &[] }].into_iter().flatten();
    let is_obstacle = |name: &&&'static str| {
        value(name).is_some() && !(command == "check-attr" && **name == "GIT_ATTR_SOURCE")
    };
    found.extend(variables.filter(is_obstacle).map(|name| Reason::Variable(name)));
    let differs = |(name, native): &&(&'static str, &[&str])| {
        value(name).is_some_and(|value| !native.iter().any(|native| value == *native))
    };
    let values = if clones { CLONE_VALUES } else { &[] };
    found.extend(values.iter().filter(differs).map(|(name, _)| Reason::Variable(name)));
    found
}

/// Whether the setting `name` is about hooks in a way that is left to Git: one at most for each event that the commands
/// have is run natively, and only if nothing about it is worth a word or an error.
fn is_a_hook_of_gits(config: &impl Config, name: &str) -> bool {
    let Some(rest) = name.strip_prefix("hook.") else { return false };
    let Some((hook, key)) = rest.rsplit_once('.') else { return true };
    let is_set =
        |key: &str| config.value(&format!("hook.{hook}.{key}")).is_some_and(|value| !value.is_empty());
    match key {
        "event" => {
            let events = config.all(name);
            let ours = |event: &BString| NATIVE_HOOKS.iter().any(|ours| *event == *ours);
            let shared = |event: &BString| {
                let others = config.names().into_iter().filter(|other| {
                    other != name && other.starts_with(b"hook.") && other.ends_with(b".event")
                });
                others.into_iter().any(|other| config.all(&other.to_str_lossy()).contains(event))
            };
            EVENTS.contains(&hook)
                || events.contains(&BString::from(hook))
                || HOOKS.iter().any(|event| events.contains(&BString::from(*event)))
                || !is_set("command")
                || events.iter().any(|event| event.is_empty() || ours(event) && shared(event))
        }
        "command" => config.value(name).is_none_or(|value| value.is_empty()),
        "enabled" => config.flag(name).is_err(),
        _ => true,
    }
}

/// Whether a setting given to `clone -c` is one that counts above.
pub(super) fn counts(setting: &BStr) -> bool {
    let (name, value) = setting.split_once_str("=").unwrap_or((setting, b"true"));
    let name = name.trim_ascii().to_ascii_lowercase();
    let value = value.to_ascii_lowercase();
    let mut known = [SETTINGS, CLONE_SETTINGS].into_iter().flatten();
    known.any(|(pattern, when)| matches(pattern, &name) && when.stands(&value))
        || is_unknown(&name)
        || name.starts_with(b"extensions.")
        || name.starts_with(b"include")
}

/// What is configured for the remote that a clone will have, outside and by `--config`: only which refs
/// it fetches is understood.
pub(super) fn remote(remote: &BString, outside: &repo::Outside, parameters: &[&BString]) -> Vec<Reason> {
    let prefix = [b"remote.", remote.as_slice(), b"."].concat();
    let mut pairs: Vec<(BString, Vec<BString>)> = Vec::new();
    for name in outside.config_names().filter(|name| name.starts_with(b"remote.")) {
        pairs.push((name.to_owned(), outside.config_all(&name.to_str_lossy())));
    }
    for parameter in parameters {
        let (name, value) = parameter.split_once_str("=").unwrap_or((parameter, b"true"));
        pairs.push((name.trim_ascii().into(), vec![value.into()]));
    }
    let understood = |key: &[u8], values: &[BString]| {
        let refspec = |value: &BString| engine::clone::supports_refspec(value.as_bstr());
        key.eq_ignore_ascii_case(b"fetch") && values.iter().all(refspec)
    };
    let begins =
        |name: &BString| name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(&prefix));
    let of_it = pairs.iter().filter(|(name, _)| begins(name));
    let counted = of_it.filter(|(name, values)| !understood(&name[prefix.len()..], values));
    counted.map(|(name, _)| Reason::Setting(name.to_string())).collect()
}

/// To a clone whose objects come as a pack.
const TRANSPORT_SETTINGS: &[Setting] = &[
    ("fetch.fsckobjects", When::True),
    ("protocol.version", When::Not(&["2"])),
    ("transfer.fsckobjects", When::True),
];

/// What is configured against receiving a pack, outside and by `--config`.
pub(super) fn transport(outside: &repo::Outside, parameters: &[&BString]) -> Vec<Reason> {
    let of = |name: &[u8], value: &[u8]| {
        let (name, value) = (name.trim_ascii().to_ascii_lowercase(), value.to_ascii_lowercase());
        let setting = TRANSPORT_SETTINGS.iter().find(|(known, _)| known.as_bytes() == name);
        setting.filter(|(_, when)| when.stands(&value)).map(|(known, _)| Reason::Setting((*known).to_owned()))
    };
    let is_known = |name: &&BStr| TRANSPORT_SETTINGS.iter().any(|(known, _)| **name == *known);
    let outside = outside.config_names().filter(is_known).filter_map(|name| {
        let text = name.to_str_lossy();
        of(
            name,
            outside
                .config_str(&text)
                .filter(|value| !value.is_empty())
                .as_deref()
                .map_or(b"true", |value| value),
        )
    });
    let given = parameters.iter().filter_map(|parameter| {
        let (name, value) = parameter.split_once_str("=").unwrap_or((parameter, b"true"));
        of(name, value)
    });
    outside.chain(given).collect()
}

/// Conditions that are not understood. Extensions need no look: what the repository's own file says of them was judged when
/// it was opened, and what stands elsewhere means nothing.
fn is_unknown(name: &[u8]) -> bool {
    let is_known = |condition: &[u8]| CONDITIONS.iter().any(|known| condition.starts_with(known.as_bytes()));
    name.strip_prefix(b"includeif.").is_some_and(|condition| !is_known(condition))
}

fn matches(pattern: &str, name: &[u8]) -> bool {
    match pattern.split_once('*') {
        Some((start, end)) => {
            name.len() >= start.len() + end.len()
                && name.starts_with(start.as_bytes())
                && name.ends_with(end.as_bytes())
        }
        None => pattern.as_bytes() == name,
    }
}

/// Warnings that Git prints whenever it looks for the repository.
pub(super) fn warnings(repo: &Repository) -> Vec<Reason> {
    repo.warnings_while_found().iter().map(|warning| Reason::repository(warning.to_str_lossy())).collect()
}

/// What lies in the repository against it: files, hooks, locks.
pub(super) fn files(repo: &Repository) -> Vec<Reason> {
    let mut found = Vec::new();
    let mut look = |path: &Path, what: &str| {
        if !matches!(by_path::stat(path), Ok(None)) {
            found.push(Reason::repository(what));
        }
    };
    look(&repo.git_dir().join("MERGE_AUTOSTASH"), "a merge has an autostash");
    let mut lock = repo.index_path().into_os_string();
    lock.push(".lock");
    look(Path::new(&lock), "the index is locked");
    look(&repo.git_dir().join("HEAD.lock"), "HEAD is locked");
    let branch = repo.head().ok().and_then(|head| head.branch().map(BStr::to_owned));
    if let Some(mut branch) = branch {
        branch.extend_from_slice(b".lock");
        look(&repo.refs_dir().join(sys::os_str(&branch)), "the branch is locked");
    }
    found.extend(hooks(repo, HOOKS));
    found.extend(files_of_readers(repo));
    found
}

/// The same against a command that only looks, or writes nothing but the index if it can: locks are not in its way.
pub(super) fn files_of_readers(repo: &Repository) -> Vec<Reason> {
    let mut found = Vec::new();
    if !matches!(by_path::stat(&repo.common_dir().join("info/grafts")), Ok(None)) {
        found.push(Reason::repository("info/grafts exists"));
    }
    let is_directory = |path| {
        let stat = by_path::stat_followed(path).ok().flatten();
        stat.is_some_and(|stat| stat.file_type == sys::FileType::Directory)
    };
    if repo.work_tree().is_some_and(|top| !is_directory(top)) {
        found.push(Reason::repository("the work tree is not there"));
    }
    if some_head_is_a_link(repo) {
        found.push(Reason::repository("some HEAD is a symbolic link"));
    }
    found
}

/// Hooks that are not run, and are there.
pub(super) fn hooks(repo: &Repository, hooks: &[&str]) -> Vec<Reason> {
    let Ok(dir) = repo.config_path("core.hooksPath") else {
        return vec![Reason::Setting("core.hookspath".into())];
    };
    let dir = match dir.map(|dir| dir.resolve(repo.place())) {
        None => repo.common_dir().join("hooks"),
        Some(Ok(dir)) => dir,
        Some(Err(_)) => return vec![Reason::Setting("core.hookspath".into())],
    };
    let there = hooks.iter().filter(|hook| !matches!(by_path::stat(&dir.join(hook)), Ok(None)));
    there.map(|hook| Reason::repository(format!("there is a hook '{hook}'"))).collect()
}

/// The oldest way to name the branch a worktree is on, this one or another.
pub(super) fn some_head_is_a_link(repo: &Repository) -> bool {
    let linked = repo.common_dir().join("worktrees");
    let names = by_path::list(&linked).unwrap_or_default().into_iter().map(|(name, _)| name);
    let dirs = names.map(|name| linked.join(name)).chain([repo.common_dir().to_owned()]);
    dirs.map(|dir| by_path::stat(&dir.join("HEAD")))
        .any(|head| matches!(head, Ok(Some(head)) if head.file_type == sys::FileType::Symlink))
}

/// What a clone would bring along from its template against the commands after it, and against itself.
pub(super) fn template(dir: &Path) -> Vec<Reason> {
    let hooks = HOOKS.iter().map(|hook| format!("hooks/{hook}"));
    let there = hooks.filter(|file| !matches!(by_path::stat(&dir.join(file)), Ok(None)));
    let mut found: Vec<_> =
        there.map(|file| Reason::repository(format!("the template has '{file}'"))).collect();
    // Git writes through links, and has its own words for what it cannot write to.
    let kinds = [
        ("HEAD", sys::FileType::File),
        ("config", sys::FileType::File),
        ("objects", sys::FileType::Directory),
        ("refs", sys::FileType::Directory),
    ];
    let odd = kinds.into_iter().filter(|(name, kind)| match by_path::stat(&dir.join(name)) {
        Ok(None) => false,
        Ok(Some(stat)) => stat.file_type != *kind,
        Err(_) => true,
    });
    found.extend(odd.map(|(name, _)| Reason::repository(format!("what the template has as '{name}'"))));
    match repo::config_file(&dir.join("config")) {
        Ok(settings) => {
            let counted = settings.into_iter().filter(|(name, value)| {
                let value = value.as_ref().map_or(b"true".as_slice(), |value| value);
                counts(text!(name, "=", value).as_bstr()) || name.starts_with(b"remote.")
            });
            found.extend(counted.map(|(name, _)| Reason::Setting(name.to_string())));
        }
        Err(_) => found.push(Reason::repository("the template has 'config'")),
    }
    found
}

/// That a repository lacks objects which a remote promised.
pub(super) fn partial(repo: &Repository) -> Vec<Reason> {
    let promises = |name: &&BStr| {
        let of_remote = name.ends_with(b".promisor") || name.ends_with(b".partialclonefilter");
        name.starts_with(b"remote.") && of_remote
    };
    let remotes = repo.config_names().filter(promises).map(|name| name.to_string());
    let extension = repo.extensions().partial_clone.iter().map(|_| "extensions.partialclone".to_owned());
    remotes.chain(extension).map(Reason::Setting).collect()
}

/// What in the repository that is cloned sapwood does not understand, or does not say as Git does.
pub(super) fn source(source: &Repository) -> Vec<Reason> {
    let unknown = source.config_names().filter(|name| is_unknown(name));
    let mut found: Vec<_> = unknown.map(|name| Reason::Setting(name.to_string())).collect();
    if !matches!(by_path::stat(&source.common_dir().join("info/grafts")), Ok(None)) {
        found.push(Reason::repository("the source has grafts"));
    }
    let is_broken = |refs: Vec<(BString, ObjectId)>| refs.iter().any(|(_, oid)| oid.is_null());
    if source.head().is_err() || source.refs("refs/").map_or(true, is_broken) {
        found.push(Reason::repository("the source has refs that cannot be read"));
    }
    if !source.objects().errors().is_empty() || !source.warnings().is_empty() {
        found.push(Reason::repository("the source has alternates or replacements that are wrong"));
    }
    found
}

/// What is against a command that only looks in where the repository is, and how it was found.
pub(super) fn place(command: &str, repo: &Repository) -> Vec<Reason> {
    match command {
        "check-attr" if repo.is_found_bare() => Vec::new(),
        "check-attr" | "ls-files" if repo.work_tree().is_none() => {
            vec![Reason::repository("there is no worktree")]
        }
        _ => Vec::new(),
    }
}

/// What is in the index against the native `command`, and in the submodules that it names.
pub(super) fn index(command: &str, repo: &Repository, env: &Env) -> Vec<Reason> {
    if !matches!(monitor::configured(repo), Ok(Monitor::None | Monitor::Program(_) | Monitor::Daemon(_))) {
        // Git warns of it whenever it reads an index.
        return vec![Reason::repository("it is not one that the configured file system monitor can watch")];
    }
    match glance(&repo.index_path(), repo) {
        Ok(_) if LOOKING.contains(&command) => Vec::new(),
        Ok(Some(found)) if found.gitlinks => submodules::within(repo, env),
        Ok(_) => Vec::new(),
        Err(reason) => vec![reason],
    }
}

/// What is in the index at `path` against it; submodules do not matter.
pub(super) fn index_at(path: &Path, repo: &Repository) -> Vec<Reason> {
    glance(path, repo).err().into_iter().collect()
}

/// `None` if there is no index.
fn glance(path: &Path, repo: &Repository) -> Result<Option<Glance>, Reason> {
    let opened = match by_path::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened,
    };
    let look = |file: sys::File| {
        let unreadable = sys::unreadable_pages();
        let found = format::index::glance(&sys::Map::of(&file).ok()?, repo.hash())?;
        // A page that cannot be read is zeros, of which anything may have been made.
        (sys::unreadable_pages() == unreadable).then_some(found)
    };
    let unreadable = || Reason::repository("the index cannot be read");
    let mut found = opened.ok().and_then(look).ok_or_else(unreadable)?;
    if let Some(shared) = found.shared {
        let base = by_path::open(&path.with_file_name(format!("sharedindex.{shared}")));
        let base = base.ok().and_then(look).ok_or_else(unreadable)?;
        found.gitlinks |= base.gitlinks;
    }
    Ok(Some(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        assert!(matches("hook.*", b"hook.x.command"));
        assert!(matches("filter.*.process", b"filter.lfs.process"));
        assert!(!matches("filter.*.process", b"filter.process"));
        assert!(matches("color.advice*", b"color.advice"));
        assert!(!matches("attr.tree", b"attr.tree2"));
    }

    #[test]
    fn settings_of_a_clone_that_count() {
        for counted in
            ["core.hooksPath=x", "Core.HooksPath", "extensions.x=1", "include.path=a", "url.a.insteadOf=b"]
        {
            assert!(counts(counted.into()), "{counted}");
        }
        for plain in ["user.name=me", "core.fsmonitor=true", "branch.main.remote=x", "protocol.allow=never"] {
            assert!(!counts(plain.into()), "{plain}");
        }
    }

    #[test]
    fn what_is_unknown() {
        assert!(is_unknown(b"includeif.worktree:x.path"));
        assert!(!is_unknown(b"includeif.gitdir/i:x.path"));
    }
}
