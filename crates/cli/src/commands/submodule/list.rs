//! The superproject and its selected submodules.

use bstr::{BStr, BString, ByteSlice as _};
use engine::pathspec::Seen;
use repo::{Repository, keys::Key};
use sapwood::{
    Mode, ObjectId,
    index::{Index, Stage},
};

use super::options::Strategy;
use crate::{
    commands::paths,
    session::{Session, index, invocation::Invocation, settings::Settings, submodules::Submodules},
    term::{
        console::{self, text},
        failure::Failure,
        text::{os_str, relative},
    },
};

/// A submodule in the index.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) path: BString,
    pub(super) commit: ObjectId,
    pub(super) stage: Stage,
}

/// The superproject.
pub(super) struct Superproject<'a> {
    pub(super) run: &'a Invocation,
    pub(super) repo: &'a Repository,
    pub(super) settings: &'a Settings,
    pub(super) submodules: Submodules<'a>,
    /// Like [`super::options::Request::super_prefix`].
    pub(super) super_prefix: Option<BString>,
}

impl<'a> Superproject<'a> {
    pub(super) fn new(
        run: &'a Invocation,
        repo: &'a Repository,
        settings: &'a Settings,
        index: &Index,
        super_prefix: Option<BString>,
    ) -> Result<Superproject<'a>, Failure> {
        let session = Session { invocation: run, repository: repo, settings };
        let submodules = Submodules::new(session.context(run), index, "".into())?;
        for module in submodules.modules() {
            if let Some(update) = &module.update {
                recorded(module.name.as_bstr(), update)?;
            }
        }
        Ok(Superproject { run, repo, settings, submodules, super_prefix })
    }

    /// Returns the path of a submodule for messages.
    pub(super) fn shown(&self, path: &BStr) -> BString {
        match &self.super_prefix {
            Some(prefix) => text!(prefix, path),
            None if self.repo.prefix().is_empty() => path.to_owned(),
            None => relative::relative(path, self.repo.prefix()),
        }
    }

    /// Returns the directory of a submodule.
    pub(super) fn dir(&self, path: &BStr) -> std::path::PathBuf {
        let top = self.repo.work_tree().unwrap_or_else(|| self.repo.git_dir());
        top.join(os_str(path))
    }

    /// Returns the submodules that `specs` select, each once; `None` if one of `specs` matches
    /// nothing.
    pub(super) fn links(&self, index: &Index, specs: &[BString]) -> Result<Option<Vec<Link>>, Failure> {
        let pathspecs = paths::parse(self.run, self.repo, specs)?;
        let (mut seen, mut links) = (Seen::default(), Vec::<Link>::new());
        for at in 0..index.len() {
            let entry = index.entry(at);
            let path = index.path(&entry);
            // In Git, a slash at the end of a pathspec matches any entry here.
            if !pathspecs.is_empty() && !pathspecs.matches_entry(path, Mode::GITLINK, &mut seen)
                || !entry.mode.is_gitlink()
                || links.last().is_some_and(|last| last.path == path)
            {
                continue;
            }
            links.push(Link { path: path.to_owned(), commit: entry.oid, stage: index.stage_at(at) });
        }
        let mut is_complete = true;
        for spec in pathspecs.unseen(&seen) {
            console::error(text!("pathspec '", spec, "' did not match any file(s) known to git"));
            is_complete = false;
        }
        Ok(is_complete.then_some(links))
    }
}

/// Reads the index and makes it full.
pub(super) fn index(repo: &Repository, settings: &Settings) -> Result<Index, Failure> {
    index::load_index(repo, settings)
}

/// Returns a setting of one submodule, from the configuration alone.
pub(super) fn setting(repo: &Repository, name: &BStr, key: Key<Option<BString>>) -> Option<BString> {
    repo.config_str(&key.of(name.to_str_lossy()))
}

/// Returns the update mode that `.gitmodules` records. A command there is refused: the author of
/// the repository would control it.
pub(super) fn recorded(name: &BStr, update: &[u8]) -> Result<Strategy, Failure> {
    match Strategy::parse(update) {
        Some(Strategy::Command(_)) | None => {
            Err(Failure::Fatal(text!("invalid value for 'submodule.", name, ".update'")))
        }
        Some(strategy) => Ok(strategy),
    }
}
