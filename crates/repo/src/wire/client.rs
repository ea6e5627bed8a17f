//! Everything that configuration and environment say about connections, and making one.

use std::{
    collections::HashMap,
    ffi::{OsStr, OsString},
    io,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use bstr::{BStr, BString, ByteSlice};

use super::{
    Connection, Error, Tracer, Version,
    environment::is_repository_variable,
    http, policy,
    process::Process,
    url::{self, Scheme, Url},
};
use crate::{Env, MessageSink, OpenOptions, Repository, StandaloneConfig, config::Config};

/// The addresses that a connection may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum AddressFamily {
    #[default]
    Any,
    /// `-4`
    V4,
    /// `-6`
    V6,
}

/// How to connect.
#[derive(Clone, Default)]
pub struct ConnectOptions {
    /// `--upload-pack`, or `remote.<name>.uploadpack`.
    pub program: Option<BString>,
    /// `--server-option`, in order.
    pub server_options: Vec<BString>,
    /// `-4`, `-6`
    pub family: AddressFamily,
    /// The protocol to ask for; `None` for `protocol.version`.
    pub version: Option<Version>,
    /// Show progress; remote helpers are told so.
    pub progress: bool,
    /// How often `-v` was given, or, negative, `-q`; remote helpers are told so.
    pub verbosity: i32,
    /// Receives all packets.
    pub tracer: Option<Arc<Tracer>>,
    /// Ends every wait when it becomes true.
    pub interrupt: Option<Arc<AtomicBool>>,
}

/// Makes connections with the settings of one repository, or of none.
pub struct Client<'a> {
    config: &'a Config,
    env: &'a Env,
    /// The directory in which processes start.
    dir: &'a Path,
    messages: MessageSink,
}

impl<'a> Client<'a> {
    /// Returns a client with the settings of a repository.
    pub fn of(repo: &'a Repository) -> Client<'a> {
        Client { config: &repo.config, env: &repo.env, dir: repo.child_dir(), messages: repo.message_sink() }
    }

    /// Returns a client with the settings outside of any repository.
    pub fn outside(config: &'a StandaloneConfig, options: &'a OpenOptions) -> Client<'a> {
        Client {
            config: config.config(),
            env: config.env(),
            dir: &options.cwd,
            messages: options.message_sink,
        }
    }

    /// Parses an address, after `url.<base>.insteadOf`.
    pub fn url(&self, text: &BStr) -> Url {
        Url::parse(url::instead_of(self.config, text).as_bstr())
    }

    /// Returns the protocol that the configuration asks for: `protocol.version`.
    pub fn version(&self) -> Result<Version, Error> {
        let configured =
            self.config.string("protocol.version").map(|value| ("config 'protocol.version'", value));
        // Git's tests choose the version of all their commands by this variable.
        let tested = || Some("GIT_TEST_PROTOCOL_VERSION").zip(self.env.bytes("GIT_TEST_PROTOCOL_VERSION"));
        let Some((name, value)) = configured.or_else(|| tested().filter(|(_, value)| !value.is_empty()))
        else {
            return Ok(Version::V2);
        };
        match value.as_bytes() {
            b"2" => Ok(Version::V2),
            b"1" => Ok(Version::V1),
            b"0" => Ok(Version::V0),
            _ => Err(Error::Message(format!("unknown value for {name}: {value}"))),
        }
    }

    /// Refuses a transport that environment or configuration forbid.
    pub fn check_allowed(&self, protocol: &BStr) -> Result<(), Error> {
        policy::check(self.config, self.env, protocol)
    }

    /// Connects, and reads the capabilities of the server.
    pub fn connect(&self, url: &Url, options: &ConnectOptions) -> Result<Connection, Error> {
        self.check_allowed(url.protocol())?;
        url.check()?;
        let version = options.version.map_or_else(|| self.version(), Ok)?;
        match &url.scheme {
            Scheme::File => {
                let program = options
                    .program
                    .as_ref()
                    .map_or(OsStr::new("git-upload-pack"), |program| sys::os_str(program));
                let link = Process::on_this_machine(program, Path::new(sys::os_str(&url.path)), |command| {
                    command.current_dir(self.dir).env_clear().envs(self.other_repository());
                    if version != Version::V0 {
                        command.env("GIT_PROTOCOL", format!("version={}", version.number()));
                    }
                })?;
                Connection::open(Box::new(link), options)
            }
            Scheme::Ssh => Err(Error::Unsupported("ssh".into())),
            Scheme::Git => Err(Error::Unsupported("git".into())),
            Scheme::Http(_) => {
                let link = http::connect(&self.http(options), url.text.as_ref(), version)?;
                Connection::open(link, options)
            }
            Scheme::Helper(name) => Err(Error::Unsupported(name.clone())),
        }
    }

    /// Downloads the file at an address of HTTP, or what is missing of it. `begin` learns the place
    /// of the first byte before `into` gets it. Returns the number of bytes that came.
    pub fn download(
        &self,
        url: &BStr,
        options: &ConnectOptions,
        resume: &http::Resume,
        begin: &mut dyn FnMut(&http::Beginning) -> io::Result<()>,
        into: &mut dyn io::Write,
    ) -> Result<u64, Error> {
        let url = self.url(url);
        self.check_allowed(url.protocol())?;
        http::download(&self.http(options), url.text.as_ref(), resume, begin, into)
    }

    fn http(&self, options: &ConnectOptions) -> http::Setup<'a> {
        http::Setup {
            config: self.config,
            env: self.env,
            dir: self.dir,
            messages: self.messages,
            family: options.family,
            interrupt: options.interrupt.clone(),
        }
    }

    /// Returns the environment of a process that works in another repository.
    fn other_repository(&self) -> HashMap<OsString, OsString> {
        let kept = self.env.iter().filter(|(name, _)| !is_repository_variable(name));
        kept.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}
