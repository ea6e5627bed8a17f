//! The remote of a command, and the repository with its settings.

use std::{
    ffi::{OsStr, OsString},
    time::Duration,
};

use base_store::{Address, Options, Remote};
use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    base_transfer::{self, Context, Progress},
    workspace::base::Bases,
};
use format::{HashKind, ObjectId};
use repo::{
    Repository, StandaloneConfig,
    keys::{self, Key},
    wire::{ClientSettings, url::without_credentials},
};

use crate::{
    commands::workspace,
    session::{
        invocation::{Invocation, Place},
        settings::Settings,
    },
    term::{console::text, failure::Failure},
};

/// The configuration that names remotes and says how to reach them.
pub(crate) enum Config<'a> {
    Repository(&'a Repository),
    Outside(&'a StandaloneConfig),
}

impl<'a> Config<'a> {
    pub(crate) fn of(place: &'a Place) -> Config<'a> {
        match place {
            Place::Repository(repo) => Config::Repository(repo),
            Place::Outside(config) => Config::Outside(config),
        }
    }

    fn text<T>(&self, key: &Key<T>) -> Option<BString> {
        match self {
            Config::Repository(repo) => repo.config_str(key),
            Config::Outside(config) => config.config_str(key),
        }
    }

    fn client(&self, url: &BStr, run: &Invocation) -> Result<ClientSettings, Failure> {
        let interrupt = run.interrupt.shared();
        let settings = match self {
            Config::Repository(repo) => ClientSettings::load(*repo, url, interrupt),
            Config::Outside(config) => ClientSettings::load(*config, url, interrupt),
        };
        settings.map_err(|error| Failure::fatal(error.to_string()))
    }
}

/// Takes the remote from the words of a command line: the first word, or `sapwood.baseRemote` if
/// the first word is no address.
pub(super) fn take_address(
    run: &Invocation,
    config: &Config<'_>,
    words: &mut Vec<BString>,
) -> Result<Address, Failure> {
    let has_default = config.text(&REMOTE).is_some();
    match words.first().is_some_and(|word| !has_default || word.contains_str("://")) {
        true => Ok(Address::parse(words.remove(0).as_bstr(), &run.cwd)?),
        false => configured_address(run, config),
    }
}

/// The setting that names the remote.
const REMOTE: Key<Option<BString>> = keys::sapwood::BASE_REMOTE;

/// Returns the address in `sapwood.baseRemote`.
pub(super) fn configured_address(run: &Invocation, config: &Config<'_>) -> Result<Address, Failure> {
    let address = config.text(&REMOTE).ok_or_else(|| {
        Failure::fatal("name a remote: s3://, oci://, https:// or file:// (or set sapwood.baseRemote)")
    })?;
    Ok(Address::parse(address.as_bstr(), &run.cwd)?)
}

/// Opens a remote with the settings and the environment of this run.
pub(crate) fn open(run: &Invocation, config: &Config<'_>, address: Address) -> Result<Remote, Failure> {
    let env = &run.env;
    let variable = |name: &str| -> Option<OsString> { env.get(OsStr::new(name)).cloned() };
    let mut options = Options::new(&variable, run.interrupt.shared());
    options.patience = patience(config)?;
    if let Some(url) = settings_url(&address, &variable) {
        let client = config.client(url.as_bytes().as_bstr(), run)?;
        let utf8 = |text: BString| String::from_utf8(text.into()).ok();
        options.ca_file = client.ca_file;
        options.timeout = client.low_speed_time.unwrap_or(options.timeout);
        options.proxy = client.proxy.and_then(utf8);
        options.headers = client.headers.into_iter().filter_map(utf8).collect();
        // The keys of an object store come from the environment alone.
        if !matches!(address, Address::S3 { .. }) {
            options.credentials =
                client.credentials.and_then(|(user, password)| utf8(user).zip(utf8(password)));
        }
    }
    Ok(Remote::open(address, &options)?)
}

/// `sapwood.baseRetry`: how long a request that fails is repeated.
fn patience(config: &Config<'_>) -> Result<Duration, Failure> {
    const DEFAULT: Duration = Duration::from_secs(10);
    match config.text(&keys::sapwood::BASE_RETRY) {
        Some(text) => super::time::parse(text.as_bstr()).map_err(|_| {
            Failure::fatal(text!("bad value of sapwood.baseRetry '", text, "': write 30s or 5m"))
        }),
        None => Ok(DEFAULT),
    }
}

/// The URL whose `http.<url>.*` settings hold for a remote.
fn settings_url(address: &Address, variable: &dyn Fn(&str) -> Option<OsString>) -> Option<String> {
    match address {
        Address::Directory(_) => None,
        Address::Web(url) => Some(url.to_string()),
        Address::Registry { scheme: base_store::Scheme::Http, host, name } => {
            Some(format!("http://{host}/{name}"))
        }
        Address::Registry { host, name, .. } => Some(format!("https://{host}/{name}")),
        Address::S3 { bucket, .. } => {
            let endpoint = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"].into_iter().find_map(variable);
            let endpoint = endpoint.and_then(|url| url.into_string().ok()).filter(|url| !url.is_empty());
            Some(endpoint.unwrap_or_else(|| format!("https://{bucket}.s3.amazonaws.com/")))
        }
    }
}

/// A remote, and the repository if there is one: for commands that need no objects.
pub(super) struct RemoteSite {
    pub(super) place: Place,
    pub(super) remote: Remote,
}

impl RemoteSite {
    /// Opens the remote that `words` begin with.
    pub(super) fn open(run: &Invocation, words: &mut Vec<BString>) -> Result<RemoteSite, Failure> {
        let place = run.open_any()?;
        let config = Config::of(&place);
        let address = take_address(run, &config, words)?;
        let remote = open(run, &config, address)?;
        Ok(RemoteSite { place, remote })
    }
}

/// Returns the commit of this name: a revision of the repository, or a whole commit id.
pub(super) fn commit_of(site: &RemoteSite, name: &BStr) -> Result<ObjectId, Failure> {
    if let Some(commit) = whole_id(name) {
        return Ok(commit);
    }
    match &site.place {
        Place::Repository(repo) => commit_in(repo, name),
        Place::Outside(_) => Err(Failure::fatal(text!("'", name, "' is no commit id of 40 or 64 digits"))),
    }
}

/// Returns the commit that a revision names.
pub(super) fn commit_in(repo: &Repository, name: &BStr) -> Result<ObjectId, Failure> {
    if name.contains_str("://") {
        let shown = without_credentials(name);
        return Err(Failure::fatal(text!("name one remote, and so not '", shown, "'")));
    }
    let commit = repo.peel_to_commit(repo.rev_parse(name)?)?;
    commit.ok_or_else(|| Failure::fatal(text!("'", name, "' is not a commit")))
}

/// Returns the object id that is written out in `name`.
pub(super) fn whole_id(name: &BStr) -> Option<ObjectId> {
    [HashKind::Sha1, HashKind::Sha256].into_iter().find_map(|hash| ObjectId::from_hex(hash, name))
}

/// The repository of a command, its settings, and the remote.
pub(super) struct Site<'a> {
    pub(super) run: &'a Invocation,
    pub(super) repo: Repository,
    pub(super) settings: Settings,
    pub(super) bases: Bases,
    pub(super) remote: Remote,
}

impl<'a> Site<'a> {
    /// Opens the remote at `address`, for the repository `repo`.
    pub(super) fn open(
        run: &'a Invocation,
        repo: Repository,
        base_dir: Option<&BString>,
        address: Address,
    ) -> Result<Site<'a>, Failure> {
        let settings = Settings::read(&repo)?;
        let remote = open(run, &Config::Repository(&repo), address)?;
        let bases = workspace::context::bases(run, &repo, base_dir)?;
        Ok(Site { run, repo, settings, bases, remote })
    }

    /// The parts that a transfer works with.
    pub(super) fn context<'s>(&'s self, progress: &'s (dyn Fn(Progress) + Sync)) -> Context<'s> {
        context(self.run, &self.repo, &self.settings, &self.remote, &self.bases, progress)
    }

    /// See [`failed`].
    pub(super) fn failed(&self, error: base_transfer::Error) -> Failure {
        failed(self.run, error)
    }
}

/// The parts that a transfer works with.
pub(super) fn context<'s>(
    run: &'s Invocation,
    repo: &'s Repository,
    settings: &'s Settings,
    remote: &'s Remote,
    bases: &'s Bases,
    progress: &'s (dyn Fn(Progress) + Sync),
) -> Context<'s> {
    Context {
        repo,
        remote,
        bases,
        fsync: &settings.fsync,
        locks: &settings.locks,
        workers: settings.workers,
        connections: base_store::CONNECTIONS,
        interrupt: run.interrupt.flag(),
        progress,
    }
}

/// Returns the failure of a transfer: a signal's, if one came.
pub(crate) fn failed(run: &Invocation, error: base_transfer::Error) -> Failure {
    match run.interrupt.check() {
        Err(failure) => failure,
        Ok(()) => error.into(),
    }
}
