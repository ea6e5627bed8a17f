//! `sapwood workspace changes <version> <token>`: the program in `core.fsmonitor` of a workspace.
//!
//! Git starts it at the root of the worktree for nearly every command, so it reads as little as
//! possible: `.git`, the workspace's record, the configuration, the upper layer and one snapshot.
//! The index is read only to check directories that the base lacks. A failure is reported as
//! "everything changed".
//!
//! Source: githooks(5), fsmonitor-watchman.

use std::{
    cell::OnceCell,
    path::{Path, PathBuf},
};

use bstr::{BStr, BString, ByteSlice as _};
use engine::workspace::{
    record,
    union::{self, Union},
    upper::{Layer, MonitorClient},
};
use repo::Repository;
use sapwood::index::{Access, Index, has_entry_below, load_as_is};

use crate::{
    session::{invocation::Invocation, monitor},
    term::{console, failure::Failure, files, text::os_str},
};

/// The version of the protocol.
const VERSION: &str = "2";

pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let [version, token] = args else {
        return Err(Failure::fatal("usage: sapwood workspace changes 2 <token>"));
    };
    if version != VERSION {
        return Err(Failure::fatal(format!(
            "'sapwood workspace changes' answers version 2 only; set core.fsmonitorHookVersion to 2, not {version}"
        )));
    }
    let layer = match layer_at(run, &run.cwd)? {
        Ok(layer) => layer,
        Err(error) => {
            console::out_raw(&monitor::printed(&monitor::unknown(&error)));
            return Ok(0);
        }
    };
    if monitor::asking_git_has_defect(&layer.state) {
        console::out_raw(&monitor::printed(&monitor::everything()));
        return Ok(0);
    }
    let opened = run.open().ok();
    let repository = opened.as_ref();
    let mut tracked = Tracked::default();
    let has_tracked = |path: &BStr| repository.is_none_or(|repo| tracked.is_above_any(repo, path));
    let response = monitor::query_workspace(
        layer,
        &run.cwd,
        token.as_bstr(),
        MonitorClient::Git,
        repository,
        has_tracked,
    );
    let response = response.unwrap_or_else(|error| monitor::unknown(&error));
    console::out_raw(&monitor::printed(&response));
    Ok(0)
}

/// Finds the workspace or union from `.git` in its root directory, and returns its upper layer.
fn layer_at(run: &Invocation, top: &Path) -> Result<Result<Layer, union::Error>, Failure> {
    let failed = |error: &dyn std::error::Error| Failure::fatal(error.to_string());
    let other = || Failure::fatal(format!("'{}' is not the top of a workspace", top.display()));
    let gitfile = top.join(".git");
    let named = path_in(&gitfile, b"gitdir: ", top);
    let git_dir = named.clone().unwrap_or_else(|| gitfile.clone());
    if !files::are_own(&[&gitfile, top, &git_dir]) {
        repo::check_worktree_owner(&run.outside(), top, Some(&gitfile), &git_dir)?;
    }
    if named.is_some()
        && let Some(common) = common_of(&git_dir)
        && let Some(workspace) = record::of_git_dir(&common, &git_dir).map_err(|error| failed(&error))?
    {
        return Ok(Ok(Layer::of(&workspace).ok_or_else(other)?));
    }
    let union = Union::of_git_dir(&git_dir).map_err(|error| failed(&error))?.ok_or_else(other)?;
    Ok(union.layer(&git_dir))
}

/// Returns the common directory of a linked worktree's Git directory.
fn common_of(git_dir: &Path) -> Option<PathBuf> {
    Some(match path_in(&git_dir.join("commondir"), b"", git_dir)? {
        usual if usual == git_dir.join("../..") => git_dir.ancestors().nth(2).unwrap_or(&usual).to_owned(),
        unusual => unusual,
    })
}

/// Returns the path after `lead` in a file, relative to `base`.
fn path_in(file: &Path, lead: &[u8], base: &Path) -> Option<PathBuf> {
    let content = files::read(file).ok()??;
    let path = content.strip_prefix(lead)?.trim_end_with(|letter| letter == '\n');
    Some(base.join(os_str(path)))
}

/// Looks up paths in the index.
#[derive(Default)]
struct Tracked {
    /// The number of directories that were looked up without decoding the index.
    scans: usize,
    index: OnceCell<Option<Index>>,
}

impl Tracked {
    /// For more lookups than this, the index is decoded.
    const SCANS: usize = 4;

    /// Returns true if the index may have an entry below a directory. If the index cannot be read,
    /// every directory may have one.
    fn is_above_any(&mut self, repo: &Repository, path: &BStr) -> bool {
        self.scans += 1;
        if self.scans <= Self::SCANS && has_entry_below(repo, path) == Some(false) {
            return false;
        }
        let index = self.index.get_or_init(|| load_as_is(repo, Access::Lookups).ok());
        index.as_ref().is_none_or(|index| !index.range_below(path).is_empty())
    }
}
