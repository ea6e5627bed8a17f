//! Decisions that follow from options, configuration and source together.

use std::path::Path;

use bstr::{BStr, BString, ByteSlice};
use format::refname::{self, Levels};
use repo::{keys, wire::url::Url};
use sys::by_path;

use super::{
    Error, Event, Kind, ObjectsError, Prepared, Source,
    channel::Route,
    marker::Extent,
    salvage::{self, Keeping},
    select::{self, LaterTags},
};

impl Prepared {
    /// Returns an error if the environment or the user's settings ask for a repository with a
    /// reftable, which sapwood cannot create. The hash needs no check: it is the source's. The new
    /// repository does not exist yet, so only outer settings count.
    pub(super) fn check_formats(&self, events: &dyn Fn(Event<'_>)) -> Result<(), Error> {
        let outside = repo::StandaloneConfig::load(&self.options.open)?;
        let variable = |name: &str| {
            let value = self.options.open.env.get(std::ffi::OsStr::new(name))?;
            Some(BString::from(value.as_encoded_bytes()))
        };
        let is_hash = |name: &BString| name == "sha1" || name == "sha256";
        let mut is_reftable = None;
        if let Some(name) =
            outside.config_str(&keys::init::DEFAULT_OBJECT_FORMAT).filter(|name| !is_hash(name))
        {
            events(Event::Warning(&format!("unknown hash algorithm '{name}'")));
        }
        match outside.config_str(&keys::init::DEFAULT_REF_FORMAT).as_deref().map(Vec::as_slice) {
            Some(b"files") => is_reftable = Some(false),
            Some(b"reftable") => is_reftable = Some(true),
            Some(name) => {
                events(Event::Warning(&format!("unknown ref storage format '{}'", name.as_bstr())));
            }
            None => {}
        }
        if is_reftable.is_none() {
            is_reftable = Some(outside.config(&keys::feature::EXPERIMENTAL)?);
        }
        if let Some(name) = variable("GIT_DEFAULT_HASH").filter(|name| !is_hash(name)) {
            return Err(Error::Hash(name));
        }
        if self.options.ref_files {
            is_reftable = Some(false);
        } else if let Some(name) = variable("GIT_DEFAULT_REF_FORMAT") {
            is_reftable = Some(match name.as_slice() {
                b"files" => false,
                b"reftable" => true,
                _ => return Err(Error::RefFormat(format!(" '{name}'"))),
            });
        }
        if let Some(uri) = variable("GIT_REFERENCE_BACKEND") {
            let (name, place) = uri.split_once_str("://").unwrap_or((uri.as_slice(), b""));
            is_reftable = Some(match name {
                b"files" if place.is_empty() => false,
                b"files" | b"reftable" => true,
                _ => return Err(Error::RefFormat(format!(": '{}'", name.as_bstr()))),
            });
        }
        if is_reftable == Some(true) { Err(Error::Reftable) } else { Ok(()) }
    }

    /// Returns the part of the source that the options ask for.
    pub(super) fn extent(&self) -> Extent {
        let options = &self.options;
        Extent {
            is_shallow: options.depth.is_some()
                || options.shallow_since.is_some()
                || !options.shallow_exclude.is_empty(),
            is_filtered: options.filter.is_some(),
        }
    }

    /// Returns which transfers are kept if they break off (`sapwood.resumableClone`). None of a
    /// clone whose filter cannot be applied here, that borrows, or could not be found again.
    pub(super) fn keeping(&self) -> Result<Keeping, Error> {
        let options = &self.options;
        let is_known = options.filter.as_ref().is_none_or(|filter| filter.expanded() == salvage::FILTER);
        let borrows = options.shared || !options.references.is_empty();
        let is_transfer = !self.copies_files() && !matches!(self.source.kind, Kind::Bundle { .. });
        let is_found = options.resumable && self.destination.is_resumable();
        if !is_known || borrows || !is_transfer || !is_found {
            return Ok(Keeping::Nothing);
        }
        let outside = repo::StandaloneConfig::load(&options.open)?;
        let boolean = |name: &'static str| {
            let value = options.parameter(name).or_else(|| outside.config_str(name))?;
            repo::parse_bool(Some(value.as_bstr()))
        };
        // The pack of a transfer after bundles is thin.
        let is_thin =
            options.bundle_uri.is_some() || boolean(keys::transfer::BUNDLE_URI.name()) == Some(true);
        if is_thin {
            return Ok(Keeping::Nothing);
        }
        Ok(match boolean(keys::sapwood::RESUMABLE_CLONE.name()) {
            Some(true) => Keeping::All,
            Some(false) => Keeping::Nothing,
            None => Keeping::Large,
        })
    }

    pub(super) fn ref_options(&self, repo: &repo::Repository) -> Result<select::RefOptions, Error> {
        let options = &self.options;
        let configured = || repo.config_text(&keys::clone::DEFAULT_REMOTE_NAME);
        let remote = options.origin.clone().unwrap_or_else(configured);
        let tracking = format!("refs/remotes/{remote}/test");
        if refname::check(tracking.as_bytes().as_bstr(), Levels::Two).is_err() {
            return Err(Error::RemoteName(remote));
        }
        let mut refspecs = Vec::new();
        for value in repo.config_all(&keys::remote::FETCH.of(&remote)) {
            refspecs.push(select::Refspec::parse(value.as_bstr())?);
        }
        if options.filter_submodules == Some(true) {
            let needed = [
                ("filter", options.filter.is_some()),
                ("recurse-submodules", !options.submodules.is_empty()),
            ];
            if let Some((name, _)) = needed.iter().find(|(_, given)| !given) {
                return Err(Error::Requires(name));
            }
        }
        let is_revision = options.revision.is_some();
        for (name, given) in [("branch", options.branch.is_some()), ("mirror", options.mirror)] {
            if is_revision && given {
                return Err(Error::Revision(name));
            }
        }
        Ok(select::RefOptions {
            refspecs,
            branch: options.branch.clone(),
            revision: options.revision.clone(),
            single_branch: options.single_branch && !is_revision,
            tags: !options.no_tags && !is_revision,
            later_tags: if options.no_tags { LaterTags::None } else { LaterTags::Followed },
            bare: options.bare && !options.tracking,
            mirror: options.mirror,
            remote,
            default_branch: default_branch(repo).unwrap_or_else(|| "master".into()),
        })
    }

    pub(super) fn rejects_shallow(&self, repo: &repo::Repository) -> Result<bool, Error> {
        let configured = repo.config(&keys::clone::REJECT_SHALLOW)?;
        Ok(self.options.reject_shallow.unwrap_or(configured))
    }

    /// Returns true if the clone takes the objects as files. Otherwise they come from a server or a
    /// bundle.
    pub fn copies_files(&self) -> bool {
        self.takes_files(&self.source)
    }

    fn takes_files(&self, source: &Source) -> bool {
        match &source.kind {
            Kind::Repository { git_dir } => self.options.local != Some(false) && !is_shallow(git_dir),
            Kind::Server | Kind::Bundle { .. } => false,
        }
    }

    /// Returns the way by which refs and objects come, and reports Git's warnings about it.
    pub(super) fn route(
        &self,
        repo: &repo::Repository,
        source: &Source,
        events: &dyn Fn(Event<'_>),
    ) -> Result<Route, Error> {
        let options = &self.options;
        if let (true, Kind::Repository { git_dir }) = (options.local != Some(false), &source.kind) {
            let limits = [
                ("--depth", options.depth.is_some()),
                ("--shallow-since", options.shallow_since.is_some()),
                ("--shallow-exclude", !options.shallow_exclude.is_empty()),
                ("--filter", options.filter.is_some()),
            ];
            for (limit, _) in limits.iter().filter(|(_, given)| *given) {
                let message = format!("{limit} is ignored in local clones; use file:// instead.");
                events(Event::Warning(&message));
            }
            if is_shallow(git_dir) {
                if self.rejects_shallow(repo)? {
                    return Err(ObjectsError::Shallow.into());
                }
                if options.local == Some(true) {
                    events(Event::Warning("source repository is shallow, ignoring --local"));
                }
            }
        }
        let route = match &source.kind {
            Kind::Repository { git_dir } if self.takes_files(source) => Route::Files(git_dir.clone()),
            Kind::Repository { git_dir } => {
                Route::Server(Url::of_path(git_dir.as_os_str().as_encoded_bytes().as_bstr()))
            }
            // `url.<base>.insteadOf` was applied once, when the source was located.
            Kind::Server => Route::Server(Url::parse(source.url.as_bstr())),
            Kind::Bundle { path } => Route::Bundle(path.clone()),
        };
        if options.local == Some(true) && !matches!(route, Route::Files(_)) {
            events(Event::Warning("--local is ignored"));
        }
        Ok(route)
    }

    /// Returns the limits to request from the server. A bundle and local files are always taken
    /// whole.
    pub(super) fn limits(&self, route: &Route) -> Result<repo::wire::Limits, Error> {
        let options = &self.options;
        if !matches!(route, Route::Server(_)) {
            return Ok(repo::wire::Limits::default());
        }
        let parse = |depth: &BString| {
            let number = depth.to_str().ok().and_then(|depth| depth.parse().ok());
            number.ok_or_else(|| Error::DepthOption(depth.clone()))
        };
        Ok(repo::wire::Limits {
            depth: options.depth.as_ref().map(parse).transpose()?,
            since: options.shallow_since,
            exclude: options.shallow_exclude.clone(),
            filter: options.filter.as_ref().map(|filter| filter.expanded().to_owned()),
            ..repo::wire::Limits::default()
        })
    }

    /// Returns the configuration parameters, with the additions of `--recurse-submodules`.
    pub(super) fn parameters(&self) -> Result<Vec<BString>, Error> {
        let options = &self.options;
        let mut parameters = options.config.clone();
        if options.submodules.is_empty() {
            return Ok(parameters);
        }
        let mut active = options.submodules.clone();
        active.sort();
        active.dedup();
        parameters
            .extend(active.iter().map(|path| parameter(keys::submodule::ACTIVE.name(), path.as_bstr())));
        if repo::StandaloneConfig::load(&options.open)?.config(&keys::submodule::STICKY_RECURSIVE_CLONE)? {
            parameters.push(parameter(keys::submodule::RECURSE.name(), "true".into()));
        }
        let has_reference =
            |required| options.references.iter().any(|reference| reference.required == required);
        let strategy = match (has_reference(true), has_reference(false)) {
            (true, true) => return Err(Error::BothReferences),
            (true, false) => "die",
            (false, true) => "info",
            (false, false) => return Ok(parameters),
        };
        parameters.push(parameter(keys::submodule::ALTERNATE_LOCATION.name(), "superproject".into()));
        parameters.push(parameter(keys::submodule::ALTERNATE_ERROR_STRATEGY.name(), strategy.into()));
        Ok(parameters)
    }
}

/// Returns the parameter of `--config` that sets a key.
fn parameter(key: &str, value: &BStr) -> BString {
    [key.as_bytes(), b"=", value].concat().into()
}

fn is_shallow(git_dir: &Path) -> bool {
    matches!(by_path::stat_followed(&git_dir.join("shallow")), Ok(Some(_)))
}

/// Returns the configured name of a new repository's first branch.
pub(super) fn default_branch(repo: &repo::Repository) -> Option<BString> {
    let variable = repo.env().bytes("GIT_TEST_DEFAULT_INITIAL_BRANCH_NAME");
    let variable = variable.filter(|name| !name.is_empty()).map(BStr::to_owned);
    variable.or_else(|| repo.config_str(&keys::init::DEFAULT_BRANCH))
}
