//! The index and the ignore rules, before anything is listed.

use std::{os::unix::ffi::OsStrExt as _, path::Path};

use bstr::ByteSlice as _;
use engine::{
    ignore::{
        Rules,
        check::{self, Sources},
    },
    untracked::Directories,
};
use format::index::Index;
use repo::Repository;
use sys::{Dir, UserPath, by_path};

use super::{Lists, Options, Rule};
use crate::{
    Context, Error,
    index::read_index,
    monitor,
    sparse_index::{self, Expansion, ExpansionHint},
    text,
};

/// The index and the rules of one list.
pub struct Prepared {
    pub(super) root: Dir,
    pub(super) index: Index,
    pub(super) sources: Sources,
}

/// Reads the index and the rules, and asks the monitor.
pub fn prepare(context: Context<'_>, options: &Options) -> Result<Prepared, Error> {
    let repo = context.repo;
    if options.needs_worktree() && repo.work_tree().is_none() {
        return Err(Error::NoWorktree);
    }
    options.check_recursion()?;
    let top = repo.work_tree().unwrap_or(repo.git_dir());
    let root = Dir::open(top).map_err(Error::cannot_open(top))?;
    let mut index = read_index(context, &root, ExpansionHint::Print, Expansion::IndexOnly)?.index;
    // Without monitor data in the index, a query has no use.
    if options.asks_monitor() && index.fsmonitor.is_some() {
        monitor::refresh(context, &mut index)?;
    }
    let sources = options.sources(repo, top)?;
    Ok(Prepared { root, index, sources })
}

impl Prepared {
    /// Adds the entries of [`Options::with_tree`].
    pub fn add_tree(&mut self, context: Context<'_>, options: &Options) -> Result<(), Error> {
        let Some(name) = &options.with_tree else { return Ok(()) };
        let repo = context.repo;
        let missing = || Error::Failed(text!("tree-ish ", name, " not found."));
        let oid = repo.rev_parse(name.as_bstr()).map_err(|error| Error::of_name(error, missing()))?;
        let bad = || Error::Failed(text!("bad tree-ish ", name));
        let tree = repo.tree_of(oid).map_err(|error| Error::of_name(error, bad()))?;
        expand(context, &mut self.index)?;
        Ok(engine::diff::overlay(repo, &mut self.index, tree)?)
    }
}

/// Expands a sparse index, where Git's is expanded.
pub(super) fn expand(context: Context<'_>, index: &mut Index) -> Result<(), Error> {
    if index.sparse {
        sparse_index::report_expansion(context, index, ExpansionHint::Print)?;
        sparse_index::expand(context.repo, index)?;
    }
    Ok(())
}

impl Options {
    fn needs_worktree(&self) -> bool {
        let Lists { deleted, modified, others, killed, .. } = self.lists;
        deleted || modified || others || killed || self.ignored
    }

    /// Refuses combinations that Git does not support with submodules.
    fn check_recursion(&self) -> Result<(), Error> {
        let lists = Lists { cached: false, ..self.lists };
        if self.recurse && (lists != Lists::NONE || self.with_tree.is_some()) {
            return Err(Error::failed("ls-files --recurse-submodules unsupported mode"));
        }
        if self.recurse && self.finds_unmatched {
            return Err(Error::failed("ls-files --recurse-submodules does not support --error-unmatch"));
        }
        Ok(())
    }

    /// Returns true if data of the file system monitor affect the lists, or are shown.
    pub(super) fn asks_monitor(&self) -> bool {
        self.lists.modified || self.shows_monitor
    }

    /// Returns the ignore rules. File names are relative to `top`, where Git is by then.
    fn sources(&self, repo: &Repository, top: &Path) -> Result<Sources, Error> {
        let icase = check::folds_case(repo)?;
        let mut sources = Sources {
            first: Rules::of_patterns(self.patterns.iter().map(|pattern| pattern.as_bstr()), icase),
            ..Sources::default()
        };
        for rule in &self.rules {
            match rule {
                Rule::File(name) => match UserPath::new(name).resolve(top).map(|path| by_path::read(&path)) {
                    Ok(Ok(Some(content))) => sources.add(name.clone(), &content, icase),
                    _ => return Err(Error::Failed(text!("cannot use ", name, " as an exclude file"))),
                },
                Rule::PerDirectory(name) => sources.per_directory = name.clone(),
                Rule::Standard => {
                    let info = repo.display_common_file("info/exclude");
                    sources.add_standard(repo, info.as_os_str().as_bytes().into())?;
                }
            }
        }
        Ok(sources)
    }

    pub(super) fn directories(&self) -> Directories {
        match (self.directories, self.hides_empty) {
            (false, _) => Directories::Files,
            (true, false) => Directories::Whole,
            (true, true) => Directories::WholeUnlessEmpty,
        }
    }
}
