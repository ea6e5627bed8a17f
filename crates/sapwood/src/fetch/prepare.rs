//! The remote, and the options of the engine.

use bstr::{BStr, BString, ByteSlice as _};
use engine::fetch::{
    self, Options,
    refspec::Refspec,
    remote::{self, Remote},
};
use format::ObjectId;
use repo::{
    keys::{self, Key},
    wire::{Client, Limits},
};

use super::{Request, partial, restrict::objects_named};
use crate::{Context, Error, Notice};

/// A fetch from one remote, ready for the engine.
pub struct Prepared {
    /// The remote.
    pub remote: Remote,
    /// The options.
    pub options: Options,
}

impl Prepared {
    /// Fetches.
    pub fn run(&self, engine: fetch::Context<'_>) -> Result<fetch::Report, fetch::Error> {
        fetch::run(engine, &self.remote, &self.options)
    }
}

/// Reads the remote of this name or URL. Reports, or refuses, a password in its URL
/// (`transfer.credentialsInUrl`).
pub fn remote(context: Context<'_>, name: &BStr) -> Result<Remote, Error> {
    let remote = load(context.repo, name)?;
    let client = Client::of(context.repo);
    for url in &remote.urls {
        let warning = client.check_password(&client.url(url.as_bstr()));
        let warning = warning.map_err(|error| Error::failed(error.to_string()))?;
        warning.into_iter().for_each(|text| context.events.notice(Notice::Fetch(text)));
    }
    Ok(remote)
}

/// Reads the remote of this name or URL.
pub fn load(repo: &repo::Repository, name: &BStr) -> Result<Remote, Error> {
    Remote::load(repo, name).map_err(|error| match error {
        remote::Error::Repo(error) => error.into(),
        remote::Error::Refspec(error) => Error::failed(error.to_string()),
    })
}

/// Combines the request with the settings of the remote. Changes nothing.
pub fn prepare(context: Context<'_>, mut remote: Remote, request: &Request) -> Result<Prepared, Error> {
    let repo = context.repo;
    let parse = |texts: &[BString]| -> Result<Vec<Refspec>, Error> {
        let parsed = texts.iter().map(|text| Refspec::parse(text.as_bstr(), repo.hash()));
        parsed.collect::<Result<_, _>>().map_err(|error| Error::failed(error.to_string()))
    };
    let mut refspecs = parse(&request.refspecs)?;
    let choose = |given: Option<bool>, of_remote: Option<bool>, key: Key<bool>| -> Result<bool, Error> {
        Ok(match given.or(of_remote) {
            Some(chosen) => chosen,
            None => repo.config(&key)?,
        })
    };
    let prune = choose(request.prune, remote.prune, keys::fetch::PRUNE)?;
    if choose(request.prune_tags, remote.prune_tags, keys::fetch::PRUNE_TAGS)? {
        if remote.is_configured {
            remote.refspecs.push(Refspec::all_tags())
        } else {
            refspecs.insert(0, Refspec::all_tags())
        }
    }
    let refmap = request.refmap.as_ref().map(|texts| parse(texts)).transpose()?;
    let shows_forced = match request.forced_updates {
        Some(shows) => shows,
        None => repo.config(&keys::fetch::SHOW_FORCED_UPDATES)?,
    };
    let mut connect = request.connect.clone();
    connect.remote = remote.is_configured.then(|| remote.name.clone());
    let offered = negotiation(context, &remote, request)?;
    let options = Options {
        refspecs,
        refmap,
        tags: request.tags,
        prune,
        prefetch: request.prefetch,
        force: request.force,
        atomic: request.atomic,
        dry_run: request.dry_run,
        keep: request.keep,
        update_head_ok: request.update_head_ok,
        update_shallow: request.update_shallow,
        refetch: request.refetch,
        skips_forced_check: !shows_forced,
        advises_forced_check: context.advises(keys::advice::FETCH_SHOW_FORCED_UPDATES)?,
        fetch_head: request.fetch_head,
        limits: Limits { filter: partial::filter(repo, request, &remote.name), ..request.limits.clone() },
        negotiation_tips: offered.tips,
        negotiation_include: offered.include,
        action: request.action.clone(),
        progress: connect.progress,
        connect,
        quiet: request.quiet,
        keeps_partial: false,
    };
    Ok(Prepared { remote, options })
}

/// The objects that the negotiation offers to the server.
pub struct Offered {
    /// Those whose history is offered; `None` for all refs.
    pub tips: Option<Vec<ObjectId>>,
    /// Those that are always offered.
    pub include: Vec<ObjectId>,
}

/// Returns the objects that the request, or else the configuration of the remote, offers.
pub fn negotiation(context: Context<'_>, remote: &Remote, request: &Request) -> Result<Offered, Error> {
    let tips = given_or(&request.negotiation_tips, &remote.negotiation_restrict);
    let tips =
        if tips.is_empty() { None } else { Some(objects_named(context, tips, "--negotiation-restrict")?) };
    let include = given_or(&request.negotiation_include, &remote.negotiation_include);
    Ok(Offered { tips, include: objects_named(context, include, "--negotiation-include")? })
}

fn given_or<'a>(given: &'a [BString], configured: &'a [BString]) -> &'a [BString] {
    if given.is_empty() { configured } else { given }
}
