//! The upper layer of a workspace: all its differences from the base.
//!
//! - [`scan()`] lists it;
//! - `changed_paths` returns the whole list, for `list` and `rebase`;
//! - `respond` responds to a query of `core.fsmonitor`: the differences between the token's
//!   snapshot and the current list.
//!
//! Promise: a response never omits a change. A layer that cannot be read is an error. For a token
//! without a snapshot, the response is "everything".
//!
//! Design: docs/design/workspace-monitor.md.

mod compare;
mod ignored;
mod list;
mod mounted;
mod scan;
mod snapshot;
mod unionfs;

use std::{io, path::PathBuf};

use bstr::{BStr, BString, ByteSlice as _};
use sys::{Dir, FileType, by_path};

use super::{
    backend::{Backend, changed, fuse},
    base::parent_of,
    inner::Inner,
    record::Workspace,
    session,
};
use crate::look::{
    monitor::{Changes, Response},
    stat::StatRules,
};

pub use ignored::IgnoredDirectories;
pub use list::{Below, Kind, Line, List, Time};
pub use scan::{Everything, Prune, scan};

/// The value of `core.fsmonitor` in a workspace, without the program in front.
pub const MONITOR_COMMAND: &str = "workspace changes";

/// The reason why an upper layer cannot be listed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("cannot read '{}' in the upper layer of the workspace: {}", .path.display(), sys::reason(.source))]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("another file system is mounted at '{}', in the upper layer of the workspace", .path.display())]
    ForeignMount { path: PathBuf },
    #[error("'{}' may be metadata of unionfs-fuse or a directory of yours: rename yours", .path.display())]
    UnionFs { path: PathBuf },
    #[error("the base '{}' of the workspace is gone: mount its disk again, or remove the workspace", .path.display())]
    BaseGone { path: PathBuf },
    #[error(
        "somebody changed '{}' after the base was built: make the base again ('sapwood workspace base remove' \
         and 'add'), or restore it and mount the workspace again",
        .dir.display()
    )]
    BaseChanged { dir: PathBuf },
    #[error(
        "'{}' is not the recorded workspace but {what}: unmount it and run 'sapwood workspace mount'",
        .dir.display()
    )]
    OtherMount { dir: PathBuf, what: String },
    #[error("cannot find out what is mounted at '{}': {}", .dir.display(), sys::reason(.source))]
    UnknownMount { dir: PathBuf, source: io::Error },
}

/// The attributes and names by which an overlay marks its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// overlayfs: attributes `trusted.overlay.*`.
    Trusted,
    /// overlayfs with `userxattr`: attributes `user.overlay.*`.
    User,
    /// fuse-overlayfs: its own attributes, and `.wh.` names.
    Fuse,
    /// unionfs-fuse: a directory with the names of deleted paths.
    UnionFs,
}

/// The upper layer of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// The path of the upper layer.
    pub upper: PathBuf,
    /// The state directory of the workspace, which contains the snapshots.
    pub state: PathBuf,
    /// The name of the base.
    pub base: String,
    /// The directories that show the files of the base, from top to bottom.
    pub base_files: Vec<PathBuf>,
    /// The record of the base, which exists as long as the base does.
    pub base_record: Option<PathBuf>,
    /// The file that exists if the last mount found the base changed.
    pub base_changed: Option<PathBuf>,
    /// All lower layers, from top to bottom: the frozen ones and the base.
    pub lower: Vec<PathBuf>,
    /// The worktree.
    pub dir: PathBuf,
    /// The way in which the overlay marks its entries.
    pub form: Form,
    /// The settings by which the client compares files, in the form of tokens.
    pub rules: String,
}

impl Layer {
    /// Returns the upper layer of a workspace, if its backend has one.
    pub fn of(workspace: &Workspace) -> Option<Layer> {
        let form = match workspace.record.backend {
            Backend::Image => workspace.record.door.form(),
            Backend::Overlay => Form::Trusted,
            Backend::OverlayUser => Form::User,
            Backend::Fuse => match fuse::program_of(&workspace.state) {
                Some(fuse::Program::UnionfsFuse) => Form::UnionFs,
                _ => Form::Fuse,
            },
            Backend::Btrfs | Backend::Reflink | Backend::Copy => return None,
        };
        let record = &workspace.record;
        let base = record.base.as_ref();
        let base_dir = base.map(|base| base.dir.join(&base.name));
        // A link that cannot be read shows as a mount of other layers.
        let parent = base_dir.as_ref().and_then(|dir| parent_of(dir).ok().flatten());
        let base_files: Vec<PathBuf> = base_dir.iter().chain(&parent).map(|dir| dir.join("files")).collect();
        // The lower layers are compared with the mount table, which has the path outside of a
        // session.
        let lower = record.layers.iter().chain(&base_files).cloned().collect();
        let seen = |dir: PathBuf| session::inside(&workspace.state, &dir);
        Some(Layer {
            upper: workspace.upper(),
            state: workspace.state.clone(),
            base: base.map(|base| base.name.clone()).unwrap_or_default(),
            base_record: base_dir.map(|dir| seen(dir).join("record")),
            // The mount of an image is compared with its UUID.
            base_changed: (record.backend != Backend::Image).then(|| changed::place(&workspace.state)),
            lower,
            dir: record.dir.clone(),
            base_files: base_files.into_iter().map(seen).collect(),
            form,
            rules: String::new(),
        })
    }

    /// Returns the upper layer of a submodule that is mounted inside a workspace, without its lower
    /// layers: it can be listed, and compared with an earlier list.
    pub fn of_submodule(workspace: &Workspace, inner: &Inner) -> Option<Layer> {
        let outer = Layer::of(workspace)?;
        Some(Layer {
            upper: inner.dir.join("upper"),
            state: inner.dir.clone(),
            dir: inner.top(workspace),
            base_files: Vec::new(),
            lower: Vec::new(),
            ..outer
        })
    }

    /// Sets the settings by which the client compares files. A token is only valid under the
    /// settings under which the client has compared the files, because a file that is unchanged
    /// under one setting may be changed under another. Files of the base are equal to their entries
    /// under all settings.
    #[must_use]
    pub fn under(self, rules: StatRules) -> Layer {
        let StatRules { trust_ctime, check_stat, file_mode, symlinks } = rules;
        let letters = [(trust_ctime, 't'), (check_stat, 's'), (file_mode, 'f'), (symlinks, 'l')];
        let mut text: String =
            letters.iter().filter(|(is_set, _)| !is_set).map(|(_, letter)| *letter).collect();
        if !text.is_empty() {
            text.insert(0, RULES);
        }
        Layer { rules: text, ..self }
    }
}

/// Returns the token of the current upper layer. An index may store it if all its entries were
/// verified ([`Fsmonitor`](format::index::Fsmonitor)).
pub fn current_token(layer: &Layer, prune: &mut dyn Prune) -> Result<BString, Error> {
    Ok(layer.store(&scan(layer, prune)?, None, Listed::Yes))
}

/// Returns all differences from the base, sorted by path: created and copied-up files, whiteouts,
/// and their parent directories. Ignored paths are included.
pub fn changed_paths(layer: &Layer) -> Result<List, Error> {
    scan(layer, &mut Everything)
}

/// Returns the lists of the upper layer that answered earlier queries.
pub(super) fn stored_lists(state: &std::path::Path) -> Vec<List> {
    snapshot::all(state)
}

/// The program that receives a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MonitorClient {
    /// Git. After the response "everything", it keeps its list of untracked files, and trusts the
    /// list again from the next response on, even if it has not read the directories in between. So
    /// the next response contains every directory.
    Git,
    /// sapwood, which discards the list.
    Sapwood,
    /// sapwood, which writes no index: no later query has the token, so no list is stored for it.
    Reader,
}

/// Responds to a query with `token`. `worktree` is the mounted workspace.
pub fn respond(
    layer: &Layer,
    worktree: &Dir,
    token: &BStr,
    client: MonitorClient,
    prune: &mut dyn Prune,
) -> Result<Response, Error> {
    let inside = mounted::check(layer, worktree)?;
    let mut now = scan(layer, prune)?;
    now.mounts = inside;
    now.mounts.retain(|point| !is_pruned(layer, worktree, point.as_ref(), prune));
    let previous = MonitorToken::parse(token, &layer.base);
    // Adding or removing a frozen layer changes files that the upper layer does not list. An empty
    // list is an exception, because the index of a base is written before its workspace gets frozen
    // layers.
    let has_same_layers = |before: &List| before.layers == now.layers || *before == List::default();
    let previous = previous.filter(|previous| previous.snapshot == EMPTY || previous.rules == layer.rules);
    let before = previous.as_ref().and_then(|previous| previous.list(layer)).filter(has_same_layers);
    let store = |previous, listed| match client {
        MonitorClient::Reader => unknown_token(),
        MonitorClient::Git | MonitorClient::Sapwood => layer.store(&now, previous, listed),
    };
    let (Some(previous), Some(before)) = (&previous, before) else {
        return Ok(Response { token: store(None, Listed::not_by(client)), changes: Changes::Unknown });
    };
    let lower = layer.frozen().iter().chain(&layer.base_files);
    let lower: Vec<Dir> = lower.filter_map(|dir| Dir::open(dir).ok()).collect();
    let shown = compare::Shown { worktree, lower: &lower };
    let mut changes = compare::changed(&before, &now, shown);
    if let (Ok(paths), Listed::No) = (&mut changes, previous.listed) {
        match compare::all_directories(shown) {
            Ok(directories) => paths.extend(directories),
            Err(error) => changes = Err(error),
        }
    }
    Ok(match changes {
        Ok(paths) => {
            let previous = Some((previous, &before));
            Response { token: store(previous, Listed::Yes), changes: Changes::To(paths) }
        }
        Err(_) => Response { token: store(None, Listed::not_by(client)), changes: Changes::Unknown },
    })
}

/// Returns true if no status reports a file below a mount point.
fn is_pruned(layer: &Layer, worktree: &Dir, point: &BStr, prune: &mut dyn Prune) -> bool {
    let is_directory = || {
        worktree.stat(point).is_ok_and(|stat| stat.is_some_and(|stat| stat.file_type == FileType::Directory))
    };
    !layer.is_in_base(point) && is_directory() && prune.is_left_out(point)
}

/// The agreement of the client's lists of untracked files with the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listed {
    Yes,
    No,
}

impl Listed {
    /// Returns the state after the response "everything".
    fn not_by(client: MonitorClient) -> Listed {
        match client {
            MonitorClient::Git => Listed::No,
            MonitorClient::Sapwood | MonitorClient::Reader => Listed::Yes,
        }
    }
}

/// A parsed token: `sapwood-1.<base>.<snapshot>`, with [`Layer::rules`], and with `.unlisted` if
/// the client's lists of untracked files are not trustworthy.
#[derive(Debug, PartialEq, Eq)]
struct MonitorToken {
    token: BString,
    /// The name of the snapshot, or [`EMPTY`].
    snapshot: String,
    /// See [`Layer::rules`].
    rules: String,
    listed: Listed,
}

const PREFIX: &str = "sapwood-1.";
const EMPTY: &str = "empty";
const UNLISTED: &str = ".unlisted";
/// Begins [`Layer::rules`] that differ from Git's defaults.
const RULES: char = '~';

/// Returns the token of an upper layer that contains only `.git`, on the base with this name. It
/// needs no snapshot.
pub fn token_of_empty(base_name: &str) -> BString {
    token_of(base_name, EMPTY, Listed::Yes)
}

fn token_of(base: &str, snapshot: &str, listed: Listed) -> BString {
    let end = if listed == Listed::Yes { "" } else { UNLISTED };
    format!("{PREFIX}{base}.{snapshot}{end}").into()
}

impl MonitorToken {
    /// Parses a token. Returns `None` for a token of another base or another program.
    fn parse(token: &BStr, base: &str) -> Option<MonitorToken> {
        let text = token.to_str().ok()?;
        let rest = text.strip_prefix(PREFIX)?.strip_prefix(base)?.strip_prefix('.')?;
        let (snapshot, listed) = match rest.strip_suffix(UNLISTED) {
            Some(snapshot) => (snapshot, Listed::No),
            None => (rest, Listed::Yes),
        };
        let (snapshot, rules) = snapshot.split_at(snapshot.find(RULES).unwrap_or(snapshot.len()));
        let (snapshot, rules) = (snapshot.to_owned(), rules.to_owned());
        Some(MonitorToken { token: token.to_owned(), snapshot, rules, listed })
    }

    fn list(&self, layer: &Layer) -> Option<List> {
        if self.snapshot == EMPTY {
            Some(List::default())
        } else {
            snapshot::load(&layer.state, &self.snapshot)
        }
    }
}

impl Layer {
    /// Returns the frozen layers, from top to bottom.
    fn frozen(&self) -> &[PathBuf] {
        &self.lower[..self.lower.len().saturating_sub(self.base_files.len())]
    }

    /// Returns true if the base contains a path. A path that a difference hides may count as
    /// contained.
    fn is_in_base(&self, path: &BStr) -> bool {
        let has = |files: &PathBuf| matches!(by_path::stat(&files.join(sys::os_str(path))), Ok(Some(_)));
        self.base_files.iter().any(has)
    }

    /// Stores a list and returns its token. If storing fails, the old token is returned, so that
    /// the next response repeats this one. Without an old token, the returned token has no
    /// snapshot. The old token is useless too if its list has other mounts: their files were
    /// examined now, and the next response must report them even if the mounts are gone by then.
    fn store(&self, list: &List, previous: Option<(&MonitorToken, &List)>, listed: Listed) -> BString {
        if *list == List::default() {
            return token_of(&self.base, EMPTY, listed);
        }
        let bytes = list.to_bytes();
        let name = list::name_of(&bytes);
        let before = previous.map(|(token, _)| &*token.snapshot);
        let is_stored = before == Some(&*name) || snapshot::store(&self.state, &name, &bytes, before).is_ok();
        match (is_stored, previous) {
            (true, _) => token_of(&self.base, &(name + &self.rules), listed),
            (false, Some((token, before))) if before.mounts == list.mounts => token.token.clone(),
            (false, _) => token_of(&self.base, "none", listed),
        }
    }
}

/// Returns the token to use when no response is possible. The response to the next query is
/// "everything" too.
pub fn unknown_token() -> BString {
    token_of("", "none", Listed::No)
}

#[cfg(test)]
mod tests;
