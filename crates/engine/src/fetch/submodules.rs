//! Finds submodules whose commits change in the fetched history.
//!
//! Source: Git's `collect_changed_submodules`. Only trees that differ from those of the parents are
//! read. As in Git, a root commit changes no submodule, and a merge changes those that differ from
//! all parents.

use std::collections::{BTreeMap, HashMap};

use bstr::{BStr, BString};
use format::{ObjectId, tree::TreeEntries};
use repo::{Repository, submodule::Modules};

use crate::{diff, look::LookError};

/// A submodule with new commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The name in `.gitmodules`, or the path if `.gitmodules` does not list it.
    pub name: BString,
    /// The path in `commit`.
    pub path: BString,
    /// The youngest commit of the superproject that changes the submodule.
    pub commit: ObjectId,
    /// The new commits of the submodule.
    pub wanted: Vec<ObjectId>,
}

/// Returns the submodules that change in commits reachable from `tips` and not from `before`,
/// sorted by name. Both lists may contain tags.
pub fn changed(repo: &Repository, tips: &[ObjectId], before: &[ObjectId]) -> Result<Vec<Changed>, LookError> {
    let mut search = Search { repo, files: HashMap::new() };
    let mut found: BTreeMap<BString, Changed> = BTreeMap::new();
    for commit in repo.commits_only_in(tips, before)? {
        for (path, oid) in search.links(commit)? {
            let name = match search.modules(commit)?.at(BStr::new(&path)) {
                Some(module) => module.name.clone(),
                None if repo.has_submodule(BStr::new(&path)).unwrap_or(false) => path.clone(),
                None => continue,
            };
            let entry = found.entry(name.clone());
            let changed = entry.or_insert(Changed { name, path, commit, wanted: Vec::new() });
            if !changed.wanted.contains(&oid) {
                changed.wanted.push(oid);
            }
        }
    }
    Ok(found.into_values().collect())
}

/// Returns the parsed `.gitmodules` of a commit.
pub fn modules_of(repo: &Repository, commit: ObjectId) -> Result<Modules, LookError> {
    let Some(oid) = gitmodules(repo, commit)? else { return Ok(Modules::default()) };
    parse(repo, oid)
}

struct Search<'a> {
    repo: &'a Repository,
    /// Parsed `.gitmodules` files by object name.
    files: HashMap<Option<ObjectId>, Modules>,
}

impl Search<'_> {
    /// Returns the submodules that a commit changes, with their new commits.
    fn links(&self, commit: ObjectId) -> Result<Vec<(BString, ObjectId)>, LookError> {
        let tree = self.repo.tree_of(commit)?;
        let mut found: Option<Vec<(BString, ObjectId)>> = None;
        for parent in self.repo.parents_if_commit(&commit)? {
            let pairs = diff::trees(self.repo, Some(self.repo.tree_of(parent)?), Some(tree))?;
            let link = |pair: diff::Pair| {
                let new = pair.new.filter(|side| side.mode.is_gitlink())?;
                Some((pair.path, new.oid?))
            };
            let links: Vec<_> = pairs.into_iter().filter_map(link).collect();
            found = Some(match found {
                None => links,
                Some(before) => before.into_iter().filter(|link| links.contains(link)).collect(),
            });
        }
        Ok(found.unwrap_or_default())
    }

    fn modules(&mut self, commit: ObjectId) -> Result<&Modules, LookError> {
        let oid = gitmodules(self.repo, commit)?;
        if !self.files.contains_key(&oid) {
            let modules = match oid {
                Some(oid) => parse(self.repo, oid)?,
                None => Modules::default(),
            };
            self.files.insert(oid, modules);
        }
        Ok(&self.files[&oid])
    }
}

fn gitmodules(repo: &Repository, commit: ObjectId) -> Result<Option<ObjectId>, LookError> {
    let tree = repo.tree_of(commit)?;
    let mut reader = repo.objects().reader();
    let (_, content) = reader.read(&tree)?;
    for entry in TreeEntries::new(repo.hash(), content) {
        let entry = entry.map_err(|_| LookError::MalformedTree(tree))?;
        if entry.name == ".gitmodules" && !entry.mode.is_tree() {
            return Ok(Some(entry.oid));
        }
    }
    Ok(None)
}

fn parse(repo: &Repository, oid: ObjectId) -> Result<Modules, LookError> {
    let mut reader = repo.objects().reader();
    let (_, content) = reader.read(&oid)?;
    Ok(Modules::parse(content, &oid.to_string())?)
}
