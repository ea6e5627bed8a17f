//! The way to a remote of bases: its address, its settings, and the names of commits.

use std::{
    ffi::OsString,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use base_store::{Address, Options, Remote};
use bstr::{BStr, BString, ByteSlice as _};
use format::{HashKind, ObjectId};
use repo::{
    Env, StandaloneConfig,
    keys::{self, Key},
    wire::{ClientSettings, url::without_credentials},
};

use super::time;
use crate::{BaseError, Error, Repository};

/// The setting that names the remote.
const REMOTE: Key<Option<BString>> = keys::sapwood::BASE_REMOTE;

/// The settings that name a remote and say how to reach it.
#[derive(Clone)]
pub struct Access<'a> {
    config: Config<'a>,
    interrupt: Arc<AtomicBool>,
}

#[derive(Clone, Copy)]
enum Config<'a> {
    Repository(&'a repo::Repository),
    Outside(&'a StandaloneConfig),
}

impl<'a> From<&'a Repository> for Access<'a> {
    fn from(repository: &'a Repository) -> Access<'a> {
        Access::of(&repository.inner, repository.interrupt())
    }
}

impl<'a> Access<'a> {
    /// Takes the settings of a repository. `interrupt` stops requests.
    pub fn of(repo: &'a repo::Repository, interrupt: Arc<AtomicBool>) -> Access<'a> {
        Access { config: Config::Repository(repo), interrupt }
    }

    /// Takes the settings that hold outside of all repositories.
    pub fn outside(config: &'a StandaloneConfig, interrupt: Arc<AtomicBool>) -> Access<'a> {
        Access { config: Config::Outside(config), interrupt }
    }

    /// Returns true if `sapwood.baseRemote` names a remote.
    pub fn has_default(&self) -> bool {
        self.text(&REMOTE).is_some()
    }

    /// Returns the given address, else that of `sapwood.baseRemote`.
    pub fn address(&self, given: Option<&BString>) -> Result<Address, Error> {
        let address = given.cloned().or_else(|| self.text(&REMOTE)).ok_or(BaseError::NoRemote)?;
        Ok(Address::parse(address.as_bstr(), self.cwd())?)
    }

    /// Opens the remote at an address.
    pub fn open(&self, address: Address) -> Result<Remote, Error> {
        let env = self.env();
        let variable =
            |name: &str| -> Option<OsString> { env.bytes(name).map(|v| sys::os_str(v).to_owned()) };
        let mut options = Options::new(&variable, Arc::clone(&self.interrupt));
        options.patience = self.patience()?;
        if let Some(url) = settings_url(&address, &variable) {
            let client = self.client(url.as_bytes().as_bstr())?;
            let utf8 = |text: BString| String::from_utf8(text.into()).ok();
            options.ca_file = client.ca_file;
            options.proxy_ca_file = client.proxy_ca_file;
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

    /// Returns the commit of this name: a revision of the repository, or a whole commit id.
    pub fn commit(&self, name: &BStr) -> Result<ObjectId, Error> {
        match (whole_id(name), self.config) {
            (Some(commit), _) => Ok(commit),
            (None, Config::Repository(repo)) => peeled(repo, name),
            (None, Config::Outside(_)) => Err(BaseError::NotAnId(name.to_owned()).into()),
        }
    }

    /// Returns an error if the operation should stop.
    pub(super) fn check_interrupt(&self) -> Result<(), Error> {
        if self.interrupt.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Returns the flag that stops the operation.
    pub(super) fn interrupt(&self) -> &AtomicBool {
        &self.interrupt
    }

    fn env(&self) -> &'a Env {
        match self.config {
            Config::Repository(repo) => repo.env(),
            Config::Outside(config) => config.env(),
        }
    }

    fn cwd(&self) -> &'a Path {
        match self.config {
            Config::Repository(repo) => repo.cwd(),
            Config::Outside(config) => config.cwd(),
        }
    }

    fn text<T>(&self, key: &Key<T>) -> Option<BString> {
        match self.config {
            Config::Repository(repo) => repo.config_str(key),
            Config::Outside(config) => config.config_str(key),
        }
    }

    fn client(&self, url: &BStr) -> Result<ClientSettings, Error> {
        let interrupt = Arc::clone(&self.interrupt);
        let settings = match self.config {
            Config::Repository(repo) => ClientSettings::load(repo, url, interrupt),
            Config::Outside(config) => ClientSettings::load(config, url, interrupt),
        };
        Ok(settings.map_err(BaseError::Connection)?)
    }

    /// `sapwood.baseRetry`: how long a request that fails is repeated.
    fn patience(&self) -> Result<Duration, Error> {
        const DEFAULT: Duration = Duration::from_secs(10);
        let Some(text) = self.text(&keys::sapwood::BASE_RETRY) else { return Ok(DEFAULT) };
        Ok(time::parse(text.as_bstr()).ok_or(BaseError::Patience(text))?)
    }
}

/// The URL whose `http.<url>.*` settings hold for a remote.
fn settings_url(address: &Address, variable: &dyn Fn(&str) -> Option<OsString>) -> Option<String> {
    match address {
        Address::Directory(_) => None,
        Address::Web(url) => Some(url.with_password().to_owned()),
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

/// Returns the commit that a revision names.
pub(super) fn peeled(repo: &repo::Repository, name: &BStr) -> Result<ObjectId, Error> {
    if name.contains_str("://") {
        return Err(BaseError::SecondRemote(without_credentials(name)).into());
    }
    let commit = repo.peel_to_commit(repo.rev_parse(name)?)?;
    Ok(commit.ok_or_else(|| BaseError::NotACommit(name.to_owned()))?)
}

/// Returns the object id that is written out in `name`.
pub(super) fn whole_id(name: &BStr) -> Option<ObjectId> {
    [HashKind::Sha1, HashKind::Sha256].into_iter().find_map(|hash| ObjectId::from_hex(hash, name))
}
