//! What in the configuration, the environment that stands for it, and the repository keeps a command
//! from being native: the lines of SHORTCOMINGS.md as data.
//!
//! Everything is found, not only the first, for `sapwood doctor` shows it. Variables that trace or test
//! are no reason, ever.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, path::Path};

use bstr::{BStr, BString, ByteSlice as _};
use format::index::Glance;
use repo::Repository;
use sys::by_path;

use super::{Env, Reason};

/// When a setting is an obstacle.
#[derive(Clone, Copy, Debug)]
enum When {
    Set,
    /// Set to anything but false.
    True,
    /// Set to anything but these.
    Not(&'static [&'static str]),
}

/// A setting (lower case; `*` stands for anything, once), and when it is an obstacle.
type Setting = (&'static str, When);

/// What may be ignored of submodules.
const IGNORE: &[&str] = &["all", "dirty", "none", "untracked"];

/// To every command.
const SETTINGS: &[Setting] = &[
    ("attr.tree", When::Set),
    ("color.advice*", When::Set),
    ("core.fsmonitor", When::Not(&["", "false", "no", "off", "0"])),
    ("core.prefersymlinkrefs", When::True),
    ("core.sparsecheckout", When::True),
    ("core.splitindex", When::True),
    ("diff.ignoresubmodules", When::Not(IGNORE)),
    ("filter.*.process", When::Not(&[""])),
    ("hook.*", When::Set),
    ("merge.conflictstyle", When::Not(&["merge", "diff3", "zdiff3"])),
    ("remote.*.partialclonefilter", When::Set),
    ("remote.*.promisor", When::Set),
    ("submodule.*.ignore", When::Not(IGNORE)),
    ("submodule.recurse", When::True),
    ("trace2.*", When::Set),
];

/// To a clone.
const CLONE_SETTINGS: &[Setting] = &[
    ("core.sharedrepository", When::Set),
    ("feature.experimental", When::True),
    ("fetch.*", When::Set),
    ("init.defaultobjectformat", When::Not(&["sha1"])),
    ("init.defaultrefformat", When::Not(&["files"])),
    ("protocol.*", When::Set),
    ("remote.*", When::Set),
    ("transfer.*", When::Set),
    ("uploadpack.*", When::Set),
    ("url.*", When::Set),
];

/// To making or removing a worktree.
const WORKTREE_SETTINGS: &[Setting] =
    &[("core.ignorecase", When::True), ("core.sharedrepository", When::Set)];

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

/// What a repository may be extended by.
const EXTENSIONS: &[&str] = &[
    "noop",
    "noop-v1",
    "objectformat",
    "preciousobjects",
    "refstorage",
    "relativeworktrees",
    "worktreeconfig",
];

/// Conditions of `includeIf` that are understood.
const CONDITIONS: &[&str] = &["gitdir:", "gitdir/i:", "onbranch:", "hasconfig:remote.*.url:"];

/// Variables that stand for settings.
const VARIABLES: &[&str] =
    &["GIT_ATTR_SOURCE", "GIT_GRAFT_FILE", "GIT_INDEX_VERSION", "GIT_REFERENCE_BACKEND", "GIT_SHALLOW_FILE"];

const CLONE_VARIABLES: &[&str] =
    &["GIT_ALLOW_PROTOCOL", "GIT_NAMESPACE", "GIT_PROTOCOL_FROM_USER", "GIT_WORK_TREE"];

/// Variables that stand for settings, and the value that is none.
const CLONE_VALUES: &[(&str, &str)] = &[("GIT_DEFAULT_HASH", "sha1"), ("GIT_DEFAULT_REF_FORMAT", "files")];

/// Commands that are native where there are submodules, too.
const WITH_SUBMODULES: &[&str] = &["checkout", "switch", "restore", "reset"];

/// Hooks that are not run.
const HOOKS: &[&str] = &["reference-transaction", "post-index-change"];

/// Configuration to be asked, a repository's or that outside of any.
pub(super) trait Config {
    fn names(&self) -> Vec<BString>;
    fn value(&self, name: &str) -> Option<BString>;
    fn flag(&self, name: &str) -> Result<Option<bool>, repo::Error>;
}

impl Config for Repository {
    fn names(&self) -> Vec<BString> {
        self.config_names().map(BStr::to_owned).collect()
    }

    fn value(&self, name: &str) -> Option<BString> {
        self.config_str(name)
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

    fn flag(&self, name: &str) -> Result<Option<bool>, repo::Error> {
        self.config_bool(name)
    }
}

/// What is configured against the native `command`.
pub(super) fn settings(command: &str, config: &impl Config, env: &Env) -> Vec<Reason> {
    let clones = command == "clone";
    let tables = match command {
        "clone" => [SETTINGS, CLONE_SETTINGS],
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
            Some((_, When::Not(values))) => {
                let value = config.value(&name_text).unwrap_or_default().to_ascii_lowercase();
                !values.iter().any(|known| known.as_bytes() == value)
            }
            None => is_unknown(&name) || name_text == format!("pager.{name_of_command}"),
        };
        if stands {
            found.push(Reason::Setting(name_text.into_owned()));
        }
    }
    let value = |name: &str| env.get(OsStr::new(name)).filter(|value| !value.is_empty());
    let variables = [VARIABLES, if clones { CLONE_VARIABLES } else { &[] }].into_iter().flatten();
    found.extend(variables.filter(|name| value(name).is_some()).map(|name| Reason::Variable(name)));
    if clones {
        let differs =
            |(name, plain): &&(&'static str, &str)| value(name).is_some_and(|value| value != *plain);
        found.extend(CLONE_VALUES.iter().filter(differs).map(|(name, _)| Reason::Variable(name)));
    }
    found
}

/// Whether a setting given to `clone -c` is one that counts above, whatever its value.
pub(super) fn counts(setting: &BStr) -> bool {
    let name = setting.split_once_str("=").map_or(setting.as_bytes(), |(name, _)| name).to_ascii_lowercase();
    let known = [SETTINGS, CLONE_SETTINGS].into_iter().flatten().any(|(pattern, _)| matches(pattern, &name));
    known || is_unknown(&name) || name.starts_with(b"extensions.") || name.starts_with(b"include")
}

/// Extensions and conditions that are not understood.
fn is_unknown(name: &[u8]) -> bool {
    let begins = |name: &[u8], known: &[&str]| known.iter().any(|known| name.starts_with(known.as_bytes()));
    if let Some(extension) = name.strip_prefix(b"extensions.") {
        return !EXTENSIONS.iter().any(|known| known.as_bytes() == extension);
    }
    name.strip_prefix(b"includeif.").is_some_and(|condition| !begins(condition, CONDITIONS))
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

/// What lies in the repository against it: files, hooks, locks.
pub(super) fn files(repo: &Repository) -> Vec<Reason> {
    let mut found = Vec::new();
    let mut look = |path: &Path, what: &str| {
        if !matches!(by_path::stat(path), Ok(None)) {
            found.push(Reason::repository(what));
        }
    };
    look(&repo.common_dir().join("info/grafts"), "info/grafts exists");
    look(&repo.git_dir().join("MERGE_AUTOSTASH"), "a merge has an autostash");
    let mut lock = repo.index_path().into_os_string();
    lock.push(".lock");
    look(Path::new(&lock), "the index is locked");
    look(&repo.git_dir().join("HEAD.lock"), "HEAD is locked");
    let branch = repo.head().ok().and_then(|head| head.branch().map(BStr::to_owned));
    if let Some(mut branch) = branch {
        branch.extend_from_slice(b".lock");
        look(&repo.common_dir().join(OsStr::from_bytes(&branch)), "the branch is locked");
    }
    found.extend(hooks(repo));
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

/// Hooks that are not run.
pub(super) fn hooks(repo: &Repository) -> Vec<Reason> {
    let Ok(dir) = repo.config_path("core.hooksPath") else {
        return vec![Reason::Setting("core.hookspath".into())];
    };
    let dir = match (dir, repo.work_tree()) {
        (None, _) => repo.common_dir().join("hooks"),
        (Some(dir), Some(work_tree)) => work_tree.join(dir),
        (Some(dir), None) => repo.git_dir().join(dir),
    };
    let there = HOOKS.iter().filter(|hook| !matches!(by_path::stat(&dir.join(hook)), Ok(None)));
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
    let files = hooks.chain(["config".to_owned()]);
    let there = files.filter(|file| !matches!(by_path::stat(&dir.join(file)), Ok(None)));
    there.map(|file| Reason::repository(format!("the template has '{file}'"))).collect()
}

/// What is in the index against the native `command`, and in the submodules that it names.
pub(super) fn index(command: &str, repo: &Repository, env: &Env) -> Vec<Reason> {
    match glance(&repo.index_path(), repo) {
        Ok(Some(found)) if found.gitlinks && !WITH_SUBMODULES.contains(&command) => {
            vec![Reason::repository("there are submodules")]
        }
        Ok(Some(found)) if found.gitlinks && kinds(&found).is_empty() => submodules(repo, env),
        Ok(found) => found.as_ref().map_or_else(Vec::new, kinds),
        Err(reason) => vec![reason],
    }
}

/// What is in the index at `path` against it; submodules do not matter.
pub(super) fn index_at(path: &Path, repo: &Repository) -> Vec<Reason> {
    glance(path, repo).map_or_else(|reason| vec![reason], |found| found.as_ref().map_or_else(Vec::new, kinds))
}

/// `None` if there is no index.
fn glance(path: &Path, repo: &Repository) -> Result<Option<Glance>, Reason> {
    let opened = match by_path::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened,
    };
    let map = opened.and_then(|file| sys::Map::populated(&file)).ok();
    let found = map.and_then(|map| format::index::glance(&map, repo.hash()));
    found.map(Some).ok_or_else(|| Reason::repository("the index cannot be read"))
}

/// The kinds of index that are not native.
fn kinds(glance: &Glance) -> Vec<Reason> {
    let kinds = [
        (glance.sparse, "the index is sparse"),
        (glance.split, "the index is split"),
        (glance.fsmonitor, "the index belongs to a file system monitor"),
    ];
    kinds.into_iter().filter(|(is, _)| *is).map(|(_, what)| Reason::repository(what)).collect()
}

/// What is in submodules against looking into them: whatever would be against a command there.
fn submodules(repo: &Repository, env: &Env) -> Vec<Reason> {
    let Ok(index) = store::index::load(&repo.index_path(), repo.hash(), &Default::default()) else {
        return vec![Reason::repository("the index cannot be read")];
    };
    let mut found = Vec::new();
    for entry in index.entries().iter().filter(|entry| entry.mode.is_gitlink()) {
        let path = index.path(entry);
        let reasons = match repo.submodule(path) {
            Ok(None) => continue,
            Ok(Some(submodule)) if submodule.hash() != repo.hash() => {
                vec![Reason::repository("another kind of hash")]
            }
            Ok(Some(submodule)) => {
                let mut reasons = settings("checkout", &submodule, env);
                reasons.extend(self::index("checkout", &submodule, env));
                reasons
            }
            Err(_) => vec![Reason::repository("it cannot be opened")],
        };
        found.extend(
            reasons.into_iter().map(|reason| Reason::repository(format!("submodule '{path}': {reason}"))),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        assert!(matches("hook.*", b"hook.x.command"));
        assert!(matches("remote.*.promisor", b"remote.origin.promisor"));
        assert!(!matches("remote.*.promisor", b"remote.promisor"));
        assert!(matches("color.advice*", b"color.advice"));
        assert!(!matches("attr.tree", b"attr.tree2"));
    }

    #[test]
    fn settings_of_a_clone_that_count() {
        for counted in
            ["core.fsmonitor=true", "Core.FSMonitor", "extensions.x=1", "include.path=a", "url.a.insteadOf=b"]
        {
            assert!(counts(counted.into()), "{counted}");
        }
        for plain in ["user.name=me", "core.autocrlf=input", "branch.main.remote=x"] {
            assert!(!counts(plain.into()), "{plain}");
        }
    }

    #[test]
    fn what_is_unknown() {
        assert!(is_unknown(b"extensions.partialclone"));
        assert!(is_unknown(b"extensions.compatobjectformat"));
        assert!(!is_unknown(b"extensions.objectformat"));
        assert!(is_unknown(b"includeif.worktree:x.path"));
        assert!(!is_unknown(b"includeif.gitdir/i:x.path"));
    }
}
