//! Registering submodules: the URL and the update mode are copied from `.gitmodules` to the
//! configuration. Existing settings stay. All changes are one write.

use std::fmt;

use bstr::{BStr, BString, ByteSlice as _};
use engine::pathspec::Pathspecs;
use format::config::Edit;
use repo::keys;

use super::{
    Link, Superproject, links, recorded,
    remote::{self, Missing},
    setting,
};
use crate::{
    Context, Error, Events, Notice, PlanError, Repository, RunError, events::Notices, index::load_index, text,
};

/// The submodules to register.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Their paths; all of them if empty, or all active ones if `submodule.active` is set.
    pub pathspecs: Pathspecs,
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The submodules that got a URL.
    pub registered: Vec<Registered>,
}

/// A submodule that gets a URL.
#[derive(Clone, Debug)]
pub struct Registered {
    /// Its name.
    pub name: BString,
    /// Its path, as messages show it.
    pub path: BString,
    /// Its URL.
    pub url: BString,
}

/// New settings.
pub struct Plan<'r> {
    repository: &'r Repository,
    changes: Changes,
    notices: Vec<Notice>,
}

/// Finds the new settings. Changes nothing.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let notices = Notices::default();
    let context = repository.context(&notices);
    let index = load_index(context)?;
    let superproject = Superproject::new(context, &index, None)?;
    let links = links(&index, &request.pathspecs)?;
    let (changes, done) = changes(&superproject, links, !request.pathspecs.is_empty(), &|_| {});
    done?;
    drop(superproject);
    Ok(Plan { repository, changes, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Reports the notices, and writes the settings.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let Plan { repository, changes, notices } = self;
        notices.into_iter().for_each(|notice| events.notice(notice));
        let again = repository.again()?;
        let changes = changes.without_present(&again.inner);
        changes.write(again.context(events))?;
        Ok(Report { registered: changes.registered })
    }
}

/// The submodules, each in a line.
impl fmt::Display for Plan<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.changes.registered.iter().try_for_each(|one| writeln!(formatter, "{}", one.text()))
    }
}

/// Changes of the configuration.
#[derive(Debug, Default)]
pub struct Changes {
    edits: Vec<Edit>,
    /// The submodules that get a URL.
    pub registered: Vec<Registered>,
}

impl Changes {
    /// Drops the settings that got a value after planning: they stay as they are.
    pub(super) fn without_present(mut self, repo: &repo::Repository) -> Changes {
        let has = |key: &BStr| repo.config_str(key.to_str_lossy().as_ref()).is_some();
        self.registered.retain(|one| !has(keys::submodule::ONE_URL.with(one.name.as_bstr()).as_bstr()));
        // Registering turns a submodule on, also one that is turned off.
        self.edits.retain(|edit| match edit {
            Edit::Set { key, .. } => key.ends_with(b".active") || !has(key.as_bstr()),
            _ => true,
        });
        self
    }

    /// Returns true if no setting changes.
    pub(super) fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// Returns the new value of a setting.
    pub(super) fn value(&self, wanted: &BStr) -> Option<&BStr> {
        self.edits.iter().find_map(|edit| match edit {
            Edit::Set { key, value } if key == wanted => Some(value.as_bstr()),
            _ => None,
        })
    }

    /// Writes them, all or none.
    pub fn write(&self, context: Context<'_>) -> Result<(), Error> {
        if self.edits.is_empty() {
            return Ok(());
        }
        let (config, settings) = (context.repo.common_dir().join("config"), context.settings);
        Ok(store::config::edit(&config, &self.edits, &settings.config_locks, &settings.fsync)?)
    }
}

/// Returns the changes that register the submodules, up to an error. Unless they are `named`, and
/// if `submodule.active` is set, they concern only active ones. `heard` gets each submodule that
/// gets a URL, in the order of the warnings.
pub fn changes(
    superproject: &Superproject<'_>,
    links: Vec<Link>,
    named: bool,
    heard: &dyn Fn(&Registered),
) -> (Changes, Result<(), Error>) {
    let mut changes = Changes::default();
    let active = !named && superproject.repo.config_value(&keys::submodule::ACTIVE).is_some();
    let is_chosen = |link: &Link| match superproject.submodules.is_active(link.path.as_bstr()) {
        Ok(is_active) => (!active || is_active).then_some(Ok(link.clone())),
        Err(error) => Some(Err(error)),
    };
    // Git registers none if it cannot say which ones are active.
    let done = match links.iter().filter_map(is_chosen).collect::<Result<Vec<_>, Error>>() {
        Ok(links) => links.iter().try_for_each(|link| changes.add(superproject, link, heard)),
        Err(error) => Err(error),
    };
    (changes, done)
}

impl Changes {
    fn add(
        &mut self,
        superproject: &Superproject<'_>,
        link: &Link,
        heard: &dyn Fn(&Registered),
    ) -> Result<(), Error> {
        let (path, repo) = (link.path.as_bstr(), superproject.repo);
        let shown = superproject.shown(path);
        let no_url = || Error::Failed(text!("No url found for submodule path '", shown, "' in .gitmodules"));
        let module = superproject.submodules.module(path).ok_or_else(no_url)?;
        let name = module.name.as_bstr();
        if !superproject.submodules.is_active(path)? {
            let key = keys::submodule::ONE_ACTIVE.with(name);
            self.edits.push(Edit::Set { key, value: "true".into() });
        }
        if setting(repo, name, keys::submodule::ONE_URL).is_none() {
            let url = module.url.clone().ok_or_else(no_url)?;
            let url = if repo::wire::url::is_relative(url.as_bstr()) {
                remote::resolve(superproject, url.as_bstr(), Missing::Warn)?
            } else {
                url
            };
            self.edits.push(Edit::Set { key: keys::submodule::ONE_URL.with(name), value: url.clone() });
            let registered = Registered { name: name.to_owned(), path: shown.clone(), url };
            heard(&registered);
            self.registered.push(registered);
        }
        if let Some(update) = &module.update
            && setting(repo, name, keys::submodule::ONE_UPDATE).is_none()
        {
            let value = recorded(name, update)?.name();
            self.edits.push(Edit::Set { key: keys::submodule::ONE_UPDATE.with(name), value });
        }
        Ok(())
    }
}

impl Registered {
    /// Returns Git's message.
    pub fn text(&self) -> BString {
        let Registered { name, path, url } = self;
        text!("Submodule '", name, "' (", url, ") registered for path '", path, "'")
    }
}
