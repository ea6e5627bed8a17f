//! The submodules of a superproject: which there are, where they come from, how they are registered
//! ([`init`]), and how they get their commits ([`update`]); a [`mod@clone`] with its submodules.
//! Moving them along with their superproject is [`crate::submodules`].
//!
//! ```no_run
//! use sapwood::{Repository, Silent, submodule::init};
//!
//! let repository = Repository::open("repo".as_ref(), std::env::vars_os().collect())?;
//! let plan = init::plan(&repository, init::Request::default())?;
//! for registered in plan.run(&Silent)?.registered {
//!     println!("{}: {}", registered.path, registered.url);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Design: docs/design/submodules.md.

pub mod clone;
pub mod init;
pub mod remote;
pub mod update;

use std::path::PathBuf;

use bstr::{BStr, BString, ByteSlice as _};
use engine::pathspec::{Pathspecs, Seen};
use format::{
    Mode, ObjectId,
    index::{Index, Stage},
};
use repo::{Repository, keys::Key};

use crate::{Context, Error, relative::relative, settings::Settings, submodules::Submodules, text};

/// A submodule in the index.
#[derive(Clone, Debug)]
pub struct Link {
    /// Its path.
    pub path: BString,
    /// Its commit.
    pub commit: ObjectId,
    /// The stage of the entry.
    pub stage: Stage,
}

/// A superproject.
pub struct Superproject<'a> {
    /// The repository.
    pub repo: &'a Repository,
    /// Its settings.
    pub settings: &'a Settings,
    /// Its submodules.
    pub submodules: Submodules<'a>,
    /// The path of the worktree in its own superproject, with a slash; `None` for a superproject of
    /// its own right. Messages name paths with it.
    pub super_prefix: Option<BString>,
    context: Context<'a>,
}

impl<'a> Superproject<'a> {
    /// Reads `.gitmodules`, and refuses update modes that only the user may set.
    pub fn new(
        context: Context<'a>,
        index: &Index,
        super_prefix: Option<BString>,
    ) -> Result<Superproject<'a>, Error> {
        let Context { repo, settings, .. } = context;
        let submodules = Submodules::new(context, index, "".into())?;
        for module in submodules.modules() {
            if let Some(update) = &module.update {
                recorded(module.name.as_bstr(), update)?;
            }
        }
        Ok(Superproject { repo, settings, submodules, super_prefix, context })
    }

    /// Returns the context of its steps.
    pub fn context(&self) -> Context<'a> {
        self.context
    }

    /// Returns the path of a submodule for messages.
    pub fn shown(&self, path: &BStr) -> BString {
        match &self.super_prefix {
            Some(prefix) => text!(prefix, path),
            None if self.repo.prefix().is_empty() => path.to_owned(),
            None => relative(path, self.repo.prefix()),
        }
    }

    /// Returns the directory of a submodule.
    pub fn dir(&self, path: &BStr) -> PathBuf {
        let top = self.repo.work_tree().unwrap_or_else(|| self.repo.git_dir());
        top.join(sys::os_str(path))
    }
}

/// Returns the submodules that the pathspecs select, each once. A pathspec that matches nothing is
/// an error.
pub fn links(index: &Index, pathspecs: &Pathspecs) -> Result<Vec<Link>, Error> {
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
    let unseen: Vec<BString> = pathspecs.unseen(&seen).map(BStr::to_owned).collect();
    if unseen.is_empty() { Ok(links) } else { Err(Error::Unmatched(unseen)) }
}

/// Returns a setting of one submodule, from the configuration alone.
pub fn setting(repo: &Repository, name: &BStr, key: Key<Option<BString>>) -> Option<BString> {
    repo.config_str(&key.of(name.to_str_lossy()))
}

/// How a submodule is updated to its commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The commit is checked out.
    Checkout,
    /// It is merged.
    Merge,
    /// Local commits are rebased on it.
    Rebase,
    /// Nothing is done.
    None,
    /// `!<command>`
    Command(BString),
}

impl Strategy {
    /// Parses the value of `submodule.<name>.update`.
    pub fn parse(value: &[u8]) -> Option<Strategy> {
        match value {
            b"checkout" => Some(Strategy::Checkout),
            b"merge" => Some(Strategy::Merge),
            b"rebase" => Some(Strategy::Rebase),
            b"none" => Some(Strategy::None),
            _ => value.strip_prefix(b"!").map(|command| Strategy::Command(command.into())),
        }
    }

    /// Returns the value of the setting.
    pub fn name(&self) -> BString {
        match self {
            Strategy::Checkout => "checkout".into(),
            Strategy::Merge => "merge".into(),
            Strategy::Rebase => "rebase".into(),
            Strategy::None => "none".into(),
            Strategy::Command(command) => [b"!", command.as_slice()].concat().into(),
        }
    }
}

/// Returns the update mode that `.gitmodules` records. A command there is refused: the author of
/// the repository would control it.
pub fn recorded(name: &BStr, update: &[u8]) -> Result<Strategy, Error> {
    match Strategy::parse(update) {
        Some(Strategy::Command(_)) | None => {
            Err(Error::Failed(text!("invalid value for 'submodule.", name, ".update'")))
        }
        Some(strategy) => Ok(strategy),
    }
}
