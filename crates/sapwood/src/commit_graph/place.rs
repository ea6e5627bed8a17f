//! The object directory with the graph, and the commits to start from.

use std::path::PathBuf;

use engine::commit_graph::Sources;
use format::{Kind, ObjectId, commit_graph::Use};
use repo::{Repository, keys, objects::Objects};

use crate::object_files::ObjectDir;

/// The object directory that contains the graph, and all that may contain graphs.
pub struct Place {
    pub(super) dir: ObjectDir,
    pub(super) sources: Sources,
    pub(super) shown: Vec<PathBuf>,
    /// The index of `dir` in the sources.
    pub(super) target: usize,
}

impl Place {
    /// Reads the settings for a graph in `dir`, a directory of the repository.
    pub fn of(repo: &Repository, dir: ObjectDir) -> Result<Place, repo::Error> {
        let dirs: Vec<_> = repo.objects().directories().cloned().collect();
        let mut shown = dirs.clone();
        if let Some(own) = shown.first_mut() {
            *own = repo.display_objects_dir();
        }
        let target = dirs.iter().position(|other| *other == dir.path).unwrap_or(0);
        let used = Use { generations: generation_version(repo)? >= 2, filters: filter_version(repo)? != 0 };
        Ok(Place { dir, sources: Sources { dirs, hash: repo.hash(), used }, shown, target })
    }
}

/// `commitGraph.generationVersion`
pub(super) fn generation_version(repo: &Repository) -> Result<i32, repo::Error> {
    repo.config(&keys::commit_graph::GENERATION_VERSION)
}

/// `commitGraph.changedPathsVersion`; 0: filters are not read, -1: any version is read.
pub(super) fn filter_version(repo: &Repository) -> Result<i32, repo::Error> {
    let reads = repo.config(&keys::commit_graph::READ_CHANGED_PATHS)?;
    let version = repo.config(&keys::commit_graph::CHANGED_PATHS_VERSION)?;
    Ok(version.unwrap_or(if reads { -1 } else { 0 }))
}

/// Follows tags. Returns the object and its type, or `None` if it is missing.
pub fn peel(repo: &Repository, objects: &Objects, id: ObjectId) -> Option<(ObjectId, Kind)> {
    let mut reader = objects.reader();
    match reader.header(&id).ok()? {
        (Kind::Tag, _) => {
            let target = repo.peel_tag_with(&mut reader, id).ok()??;
            let (kind, _) = reader.header(&target.id).ok()?;
            Some((target.id, kind))
        }
        (kind, _) => Some((id, kind)),
    }
}

/// Returns the commits that refs name. `found` receives their number after each ref.
pub fn referenced(
    repo: &Repository,
    objects: &Objects,
    found: &mut dyn FnMut(usize),
) -> Result<Vec<ObjectId>, repo::Error> {
    let mut commits = Vec::new();
    for (_, id) in repo.refs("refs/")? {
        if let Some((id, Kind::Commit)) = peel(repo, objects, id) {
            commits.push(id);
        }
        found(commits.len());
    }
    Ok(commits)
}
