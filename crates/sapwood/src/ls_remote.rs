//! The refs of a server.
//!
//! Nothing is changed. The plan makes one connection, so a remote helper that only Git supports is
//! noticed there. Without a repository, [`Remote`] does the same.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, ls_remote::{self, Request}};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let request = Request { repository: Some("origin".into()), tags: true, ..Request::default() };
//! for found in ls_remote::plan(&repository, request)?.run(&Silent)?.refs {
//!     println!("{} {}", found.id, found.name);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::{io::Read as _, path::Path};

use bstr::{BStr, BString, ByteSlice as _};
use engine::fetch::{
    self,
    refspec::Refspec,
    remote::{self, in_effect, is_remote_name},
};
use format::{
    HashKind, ObjectId,
    refname::{self, Levels},
    wildmatch::{Mode, wildmatch},
};
use repo::{
    keys::{self, Key},
    wire::{
        self, Client, ConnectOptions, RemoteRef,
        url::{Scheme, Url},
    },
};
use sys::{FileType, UserPath, by_path};

use crate::{
    Error, Events, Notice, PlanError, Repository, RunError, config::Place, settings::config::Config, text,
};

/// The refs to list.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// A remote or a URL; `None` for the remote of a fetch.
    pub repository: Option<BString>,
    /// Patterns for the last components of the names; all refs if empty.
    pub patterns: Vec<BString>,
    /// List branches only; with [`Request::tags`] both.
    pub branches: bool,
    /// List tags only.
    pub tags: bool,
    /// Leave out HEAD, and the objects of tags.
    pub refs: bool,
    /// The order.
    pub order: Order,
    /// The program `git-upload-pack` of the other side.
    pub upload_pack: Option<BString>,
    /// Options for the server.
    pub server_options: Vec<BString>,
}

/// An order of refs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// That of the server.
    #[default]
    Server,
    /// By name.
    Name,
    /// By name, the last one first.
    NameReversed,
}

/// A ref of the server, or the object of a tag, whose name ends in `^{}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ref {
    /// The object.
    pub id: ObjectId,
    /// The full name.
    pub name: BString,
    /// The target, if the ref is symbolic.
    pub symref: Option<BString>,
}

/// The result.
#[derive(Clone, Debug)]
pub struct Report {
    /// The URL of the server.
    pub url: BString,
    /// Its refs.
    pub refs: Vec<Ref>,
}

/// Refs that are listed.
pub struct Plan {
    report: Report,
    warning: Option<BString>,
}

/// Connects, and lists the refs.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan, PlanError> {
    let named = request.repository.as_ref().map(|name| name.as_bstr());
    let remote = Remote::find(repository, named)?;
    let interrupt = Some(repository.interrupt());
    let refs = remote.list(&request, ConnectOptions { interrupt, ..ConnectOptions::default() })?;
    Ok(Plan { report: Report { url: remote.url.text, refs }, warning: remote.warning })
}

impl Plan {
    /// Reports the notices. Returns the refs.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        self.warning.into_iter().for_each(|warning| events.notice(Notice::Fetch(warning)));
        Ok(self.report)
    }
}

/// A configured remote, or a URL.
pub struct Remote<'a> {
    place: Place<'a>,
    name: BString,
    /// The URL, after `url.<base>.insteadOf`.
    pub url: Url,
    /// A warning about a password in the URL.
    pub warning: Option<BString>,
    upload_pack: Option<BString>,
    server_options: Vec<BString>,
}

impl<'a> Remote<'a> {
    /// Returns the remote called `named`. A name that is not configured is a URL.
    pub fn find(place: impl Into<Place<'a>>, named: Option<&BStr>) -> Result<Remote<'a>, PlanError> {
        let place = place.into();
        let (config, repo): (&dyn Config, _) = match place {
            Place::Repository(repo) => (repo, Some(repo)),
            Place::Outside(outside) => (outside, None),
        };
        let name = match (named, repo) {
            (Some(name), _) if name.is_empty() => return Err(Error::failed("bad repository ''").into()),
            (Some(name), _) => name.to_owned(),
            (None, Some(repo)) => remote::Remote::default_name(repo).map_err(Error::from)?,
            (None, None) => "origin".into(),
        };
        if config.value(keys::remote::VCS.of(&name).name()).is_some() {
            return Err(PlanError::Unsupported("remote.<name>.vcs"));
        }
        if let Some(repo) = repo
            && !name.contains(&b'/')
            && ["remotes", "branches"]
                .iter()
                .any(|dir| is_file(&repo.common_dir().join(dir).join(sys::os_str(&name))))
        {
            return Err(PlanError::Unsupported("remotes in files of their own"));
        }
        let is_name = is_remote_name(name.as_bstr());
        let all = |key: Key<Option<BString>>| {
            if is_name { config.all(key.of(&name).name()) } else { Vec::new() }
        };
        check_refspecs(&all(keys::remote::FETCH), &all(keys::remote::PUSH))?;
        let url = match (in_effect(all(keys::remote::URL)).into_iter().next(), named) {
            (Some(url), _) => url,
            (None, Some(_)) => name.clone(),
            (None, None) => return Err(Error::failed("No remote configured to list refs from.").into()),
        };
        let upload_pack = all(keys::remote::UPLOADPACK).into_iter().next();
        let server_options = in_effect(all(keys::remote::SERVER_OPTION));
        let client = client(place);
        let url = client.url(url.as_bstr());
        let warning = client.check_password(&url).map_err(|error| Error::failed(error.to_string()))?;
        Ok(Remote { place, name, url, warning, upload_pack, server_options })
    }

    /// Connects with `options`, which those of the request and of the remote complete, and lists
    /// the refs.
    pub fn list(&self, request: &Request, options: ConnectOptions) -> Result<Vec<Ref>, PlanError> {
        refuse_bundle(&self.url, self.place)?;
        let options = ConnectOptions {
            program: request.upload_pack.as_ref().or(self.upload_pack.as_ref()).cloned(),
            server_options: request.server_options.clone(),
            configured_server_options: self.server_options.clone(),
            remote: Some(self.name.clone()),
            ..options
        };
        match refs(&client(self.place), &self.url, &options, request) {
            Ok(found) => Ok(request.select(found)),
            Err(wire::Error::Unsupported(_)) => Err(PlanError::Unsupported("this remote helper")),
            Err(wire::Error::Interrupted) => Err(Error::Interrupted.into()),
            Err(error) => Err(Error::from(fetch::Error::Wire(error)).into()),
        }
    }
}

fn client(place: Place<'_>) -> Client<'_> {
    match place {
        Place::Repository(repo) => Client::of(repo),
        Place::Outside(outside) => Client::of(outside),
    }
}

/// Returns an error for refspecs that Git rejects, although nothing is fetched or pushed.
fn check_refspecs(fetch: &[BString], push: &[BString]) -> Result<(), Error> {
    let fetch = fetch.iter().map(|text| Refspec::parse(text.as_bstr(), HashKind::Sha1).map(drop));
    let push = push.iter().map(|text| Refspec::check_for_push(text.as_bstr(), HashKind::Sha1));
    fetch.chain(push).collect::<Result<(), _>>().map_err(|error| Error::failed(error.to_string()))
}

fn is_file(path: &Path) -> bool {
    matches!(by_path::stat_followed(path), Ok(Some(stat)) if stat.file_type == FileType::File)
}

/// Returns an error that leaves bundles to Git.
fn refuse_bundle(url: &Url, place: Place<'_>) -> Result<(), PlanError> {
    let dir = match place {
        Place::Repository(repo) => repo.child_dir(),
        Place::Outside(outside) => outside.cwd(),
    };
    if url.scheme != Scheme::File {
        return Ok(());
    }
    let is_bundle = |path: &Path| {
        let mut start = [0; 3];
        is_file(path)
            && by_path::open(path)
                .is_ok_and(|mut file| file.read_exact(&mut start).is_ok() && start == *b"# v")
    };
    match UserPath::new(url.path.as_bstr()).resolve(dir) {
        Ok(path) if is_bundle(&path) => Err(PlanError::Unsupported("bundles")),
        _ => Ok(()),
    }
}

fn refs(
    client: &Client<'_>,
    url: &Url,
    options: &ConnectOptions,
    request: &Request,
) -> Result<Vec<RemoteRef>, wire::Error> {
    let prefixes = [(request.tags, "refs/tags/"), (request.branches, "refs/heads/")];
    let prefixes = prefixes.into_iter().filter(|(is_wanted, _)| *is_wanted);
    let prefixes: Vec<BString> = prefixes.map(|(_, prefix)| prefix.into()).collect();
    let mut connection = client.connect(url, options)?;
    let found = connection.list_refs(&prefixes)?.refs;
    connection.close()?;
    Ok(found)
}

impl Request {
    /// Selects and sorts refs.
    fn select(&self, found: Vec<RemoteRef>) -> Vec<Ref> {
        let patterns: Vec<BString> = self.patterns.iter().map(|pattern| text!("*/", pattern)).collect();
        let mut refs = Vec::new();
        for RemoteRef { name, oid, symref, peeled } in found {
            let peeled = peeled.map(|id| Ref { id, name: text!(name, "^{}"), symref: None });
            let own = Ref { id: oid, name, symref };
            refs.extend([own].into_iter().chain(peeled).filter(|found| {
                let name = text!("/", found.name);
                let matches = |pattern: &BString| wildmatch(pattern, &name, Mode::default());
                self.wants(found.name.as_bstr()) && (patterns.is_empty() || patterns.iter().any(matches))
            }));
        }
        match self.order {
            Order::Server => {}
            Order::Name => refs.sort_by(|left, right| left.name.cmp(&right.name)),
            Order::NameReversed => refs.sort_by(|left, right| right.name.cmp(&left.name)),
        }
        refs
    }

    /// Returns true for the names that the options select.
    fn wants(&self, name: &BStr) -> bool {
        if !self.tags && !self.branches && !self.refs {
            return true;
        }
        let Some(rest) = name.strip_prefix(b"refs/") else { return false };
        if self.refs && refname::check(rest.as_bstr(), Levels::One).is_err() {
            return false;
        }
        let is_branch = self.branches && rest.starts_with(b"heads/");
        let is_tag = self.tags && rest.starts_with(b"tags/");
        is_branch || is_tag || (!self.tags && !self.branches)
    }
}
