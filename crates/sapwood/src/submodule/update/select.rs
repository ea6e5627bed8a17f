//! The submodules that an update touches.

use bstr::{BStr, BString, ByteSlice as _};
use format::{ObjectId, index::Stage};
use repo::keys;

use super::{Request, repository::Wanted};
use crate::{
    Error,
    submodule::{
        Link, Superproject, init,
        remote::{self, Missing},
        setting,
    },
    text,
};

/// A submodule that is selected, and what an update does to it.
#[derive(Clone, Debug)]
pub enum Selected {
    /// Nothing.
    Skipped(Skipped),
    /// It gets its commit.
    Update(Update),
    /// Its repository is missing, and comes first.
    New(Update, Wanted),
}

/// A submodule that is left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its path, as messages show it.
    pub path: BString,
    /// The reason.
    pub why: Why,
}

/// Why a submodule is left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its entry in the index is unmerged.
    Unmerged,
    /// It is not registered, or not active.
    NotInitialized,
    /// Its update mode is `none`.
    ModeIsNone,
}

/// A submodule that gets its commit.
#[derive(Clone, Debug)]
pub struct Update {
    /// Its path.
    pub path: BString,
    pub(super) name: BString,
    pub(super) commit: ObjectId,
    pub(super) is_new: bool,
}

/// Decides about one submodule. `pending` are settings that will be written before the update.
pub fn select(
    superproject: &Superproject<'_>,
    request: &Request,
    link: &Link,
    pending: &init::Changes,
) -> Result<Selected, Error> {
    let (repo, path) = (superproject.repo, link.path.as_bstr());
    let skipped = |why| Ok(Selected::Skipped(Skipped { path: superproject.shown(path), why }));
    if link.stage != Stage::Normal {
        return skipped(Why::Unmerged);
    }
    let Some(module) = superproject.submodules.module(path) else { return skipped(Why::NotInitialized) };
    let name = module.name.as_bstr();
    let of = |key: repo::keys::Key<Option<BString>>| {
        let written = pending.value(key.with(name).as_bstr()).map(BStr::to_owned);
        written.or_else(|| setting(repo, name, key))
    };
    let configured = of(keys::submodule::ONE_UPDATE);
    let mode = configured.as_ref().or(module.update.as_ref());
    if request.strategy.is_none() && mode.is_some_and(|mode| mode == "none") {
        return skipped(Why::ModeIsNone);
    }
    let becomes_active = pending.value(keys::submodule::ONE_ACTIVE.with(name).as_bstr()).is_some();
    if !becomes_active && !superproject.submodules.is_active(path)? {
        return skipped(Why::NotInitialized);
    }
    let url = match (of(keys::submodule::ONE_URL), &module.url) {
        (Some(url), _) => url,
        (None, Some(url)) if repo::wire::url::is_relative(url.as_bstr()) => {
            remote::resolve(superproject, url.as_bstr(), Missing::Warn)?
        }
        (None, Some(url)) => url.clone(),
        (None, None) => {
            return Err(Error::Failed(text!("cannot clone submodule '", name, "' without a URL")));
        }
    };
    let is_new = matches!(sys::by_path::stat(&superproject.dir(path).join(".git")), Ok(None) | Err(_));
    let update = Update { path: path.to_owned(), name: name.to_owned(), commit: link.commit, is_new };
    if !is_new {
        return Ok(Selected::Update(update));
    }
    let recommended = request.recommend_shallow != Some(false)
        && module
            .shallow
            .as_ref()
            .is_some_and(|shallow| repo::parse_bool(Some(shallow.as_bstr())) == Some(true));
    let depth = if recommended { Some(1) } else { request.depth };
    let wanted = Wanted { name: name.to_owned(), path: path.to_owned(), url, depth };
    Ok(Selected::New(update, wanted))
}

impl Skipped {
    /// Returns Git's lines. `named` is true if the request selects submodules by name.
    pub fn text(&self, named: bool) -> BString {
        let Skipped { path, why } = self;
        match why {
            Why::Unmerged => text!("Skipping unmerged submodule ", path, "\n"),
            Why::ModeIsNone => text!("Skipping submodule '", path, "'\n"),
            Why::NotInitialized if named => {
                text!("Submodule path '", path, "' not initialized\nMaybe you want to use 'update --init'?\n")
            }
            Why::NotInitialized => BString::default(),
        }
    }
}
