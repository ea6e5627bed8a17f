//! The settings of an earlier job's repository that the next job may use.

use std::path::{Path, PathBuf};

use bstr::{BStr, BString, ByteSlice as _};
use format::config::Edit;
use repo::keys;
use store::{Fsync, LockOptions};
use sys::{FileType, by_path};

use super::{directory::cannot, inherited, refs};
use crate::Error;

/// A larger configuration is not read.
const LIMIT: u64 = 1 << 20;

/// A setting, and its values that stay.
type Kept = (&'static str, &'static [&'static str]);

const BOOLEAN: &[&str] = &["true", "false"];

/// The format of the repository. A storage of refs can name a directory elsewhere.
const FORMAT: &[Kept] = &[
    (keys::core::BARE.name(), &["false"]),
    (keys::core::LOG_ALL_REF_UPDATES.name(), &["true"]),
    (keys::core::REPOSITORY_FORMAT_VERSION.name(), &["0", "1"]),
    (keys::core::SPARSE_CHECKOUT.name(), BOOLEAN),
    (keys::core::SPARSE_CHECKOUT_CONE.name(), BOOLEAN),
    (keys::extensions::OBJECT_FORMAT.name(), &["sha1", "sha256"]),
    (keys::extensions::REF_STORAGE.name(), &["files", "reftable"]),
    (keys::extensions::WORKTREE_CONFIG.name(), BOOLEAN),
];

/// The settings that stay in the file of a worktree.
const OF_WORKTREE: &[Kept] =
    &[(keys::core::SPARSE_CHECKOUT.name(), BOOLEAN), (keys::core::SPARSE_CHECKOUT_CONE.name(), BOOLEAN)];

/// The owner of a Git directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The repository of the job, whose `origin` is compared with the one of the request.
    Job,
    /// A submodule. Its `origin` is set before it is used.
    Submodule,
}

/// Removes the other settings from a Git directory. One value of each setting stays.
pub(super) fn keep(git_dir: &Path, owner: Owner) -> Result<(), Error> {
    let packs = inherited::entries(&git_dir.join("objects/pack"))?;
    let is_partial = packs.iter().any(|(name, _)| Path::new(name).extension() == Some("promisor".as_ref()));
    keep_in(&git_dir.join("config"), |key, value| {
        is_in(FORMAT, key, value)
            || describes_file_system(git_dir, key, value)
            || is_of_origin(owner, key, value)
            || is_partial && is_of_partial_clone(key, value)
            || owner == Owner::Submodule && is(keys::core::WORKTREE.name(), key)
    })?;
    keep_in(&git_dir.join("config.worktree"), |key, value| is_in(OF_WORKTREE, key, value))
}

/// Rewrites a file with the settings for which `stays` is true. It is not changed if all stay.
fn keep_in(config: &Path, stays: impl Fn(&BStr, &BStr) -> bool) -> Result<(), Error> {
    let pairs = read(config)?;
    let mut edits = Vec::<Edit>::new();
    // The last value counts.
    for (key, value) in pairs.iter().rev() {
        let value = value.clone().unwrap_or_else(|| "true".into());
        let is_known = edits.iter().any(|edit| matches!(edit, Edit::Add { key: known, .. } if known == key));
        if !is_known && stays(key.as_bstr(), value.as_bstr()) {
            edits.push(Edit::Add { key: key.clone(), value });
        }
    }
    if edits.len() == pairs.len() {
        return Ok(());
    }
    edits.reverse();
    let rewrite = |_| format::config::edit(b"", &edits).map_err(store::config::Error::Key);
    Ok(store::config::rewrite(config, &LockOptions::default(), &Fsync::default(), rewrite)?)
}

/// Returns the settings of a file, without those of files that it includes. A missing file has
/// none. A link, a FIFO and a large file are errors: they lead elsewhere, or reading does not end.
pub(super) fn read(config: &Path) -> Result<Vec<(BString, Option<BString>)>, Error> {
    match by_path::stat(config).map_err(cannot("examine", config))? {
        None => Ok(Vec::new()),
        Some(stat) if stat.file_type == FileType::File && stat.size <= LIMIT => {
            Ok(repo::config_file(config)?)
        }
        Some(_) => {
            let shown = config.display();
            Err(Error::failed(format!("'{shown}' is no file of settings: it is a link, a FIFO or too large")))
        }
    }
}

/// Returns the last value of a setting in a file that [`read()`] accepts.
pub(super) fn value(config: &Path, name: &str) -> Result<Option<BString>, Error> {
    let last = read(config)?.into_iter().rev().find(|(key, _)| is(name, key.as_bstr()));
    Ok(last.and_then(|(_, value)| value))
}

/// Returns the worktree that the configuration of a submodule names.
pub(super) fn worktree_of(git_dir: &Path) -> Option<PathBuf> {
    let worktree = value(&git_dir.join("config"), keys::core::WORKTREE.name()).ok()??;
    Some(by_path::realpath_forgiving(&git_dir.join(sys::os_str(worktree.as_bstr()))))
}

/// Compares with a key as it was read: only the name of a subsection has upper case.
fn is(name: &str, key: &BStr) -> bool {
    name.to_ascii_lowercase().as_bytes() == key.as_bytes()
}

fn is_in(list: &[Kept], key: &BStr, value: &BStr) -> bool {
    list.iter().any(|(name, values)| is(name, key) && values.iter().any(|known| value == known))
}

/// Returns true for a setting by which `git init` describes the file system, if it is true: Git
/// takes a link for a file, or another name for the one it knows, where a wrong one says so.
fn describes_file_system(git_dir: &Path, key: &BStr, value: &BStr) -> bool {
    let probe = git_dir.join("sapwood-ci-probe");
    let has_links = || by_path::symlink(&probe, &probe).and_then(|()| by_path::remove_file(&probe)).is_ok();
    let has_modes = || {
        let made = by_path::create_new(&probe, 0o600).and_then(|_| by_path::set_mode(&probe, 0o700));
        let mode = made.and_then(|()| by_path::stat(&probe)).ok().flatten();
        let removed = by_path::remove_file(&probe);
        removed.is_ok() && mode.is_some_and(|stat| stat.is_executable())
    };
    let ignores_case = || matches!(by_path::stat(&git_dir.join("hEAD")), Ok(Some(_)));
    let settings: [(&str, bool, &dyn Fn() -> bool); 3] = [
        (keys::core::FILE_MODE.name(), true, &has_modes),
        (keys::core::SYMLINKS.name(), true, &has_links),
        (keys::core::IGNORE_CASE.name(), false, &ignores_case),
    ];
    let Some((_, usual, probe)) = settings.into_iter().find(|(name, ..)| is(name, key)) else {
        return false;
    };
    match value.as_bytes() {
        b"true" => usual || probe(),
        b"false" => !usual || !probe(),
        _ => false,
    }
}

/// Returns true for a setting that says where `origin` is.
fn is_of_origin(owner: Owner, key: &BStr, value: &BStr) -> bool {
    let is_key = |name: String| is(&name, key);
    // Another refspec could write any ref.
    if is_key(keys::remote::FETCH.of("origin").into()) {
        return refs::follows_origin(value);
    }
    is_key(keys::remote::URL.of("origin").into()) && owner == Owner::Job
}

/// Returns true for a setting of a partial clone with a filter that Git knows. Another clone would
/// become partial by it.
fn is_of_partial_clone(key: &BStr, value: &BStr) -> bool {
    const FILTERS: [&str; 5] = ["blob:", "tree:", "sparse:oid=", "object:type=", "combine:"];
    if is(keys::remote::PARTIAL_CLONE_FILTER.of("origin").name(), key) {
        return FILTERS.iter().any(|filter| value.starts_with(filter.as_bytes()));
    }
    is(keys::extensions::PARTIAL_CLONE.name(), key) && value == "origin"
        || is(keys::remote::PROMISOR.of("origin").name(), key) && value == "true"
}
