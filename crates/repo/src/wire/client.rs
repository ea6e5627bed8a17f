//! The settings that configuration and environment make for connections, and opening a connection.

use std::{
    collections::HashMap,
    ffi::OsString,
    io,
    path::Path,
    process::Command,
    sync::{Arc, atomic::AtomicBool},
};

use bstr::{BStr, BString, ByteSlice};

use super::{
    Connection, Error, Packet, Tracer, Version,
    environment::is_repository_variable,
    helper::{Connected, Helper},
    http,
    link::Link,
    policy,
    process::Process,
    shell::through_shell,
    socket::{self, Socket},
    ssh::Ssh,
    url::{self, Scheme, Url},
};
use crate::{
    Env, MessageSink, OpenOptions, Repository, StandaloneConfig, config::Config, config_parameters, quote,
};

/// The program that serves fetches.
const PROGRAM: &str = "git-upload-pack";

/// The address family of a connection.
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
    /// `--server-option`, in order. They are an error with a server of version 0 or 1.
    pub server_options: Vec<BString>,
    /// `remote.<name>.serverOption`, unless `server_options` overrides it. Not sent to a server of
    /// version 0 or 1.
    pub configured_server_options: Vec<BString>,
    /// `-4`, `-6`
    pub family: AddressFamily,
    /// The protocol version to request; `None` for `protocol.version`.
    pub version: Option<Version>,
    /// Show progress. Passed on to remote helpers.
    pub progress: bool,
    /// The number of `-v` options, or, negative, of `-q` options. Passed on to remote helpers.
    pub verbosity: i32,
    /// Receives all packets.
    pub tracer: Option<Arc<Tracer>>,
    /// Ends every wait when it becomes true.
    pub interrupt: Option<Arc<AtomicBool>>,
    /// The name of the remote. Passed on to remote helpers.
    pub remote: Option<BString>,
    /// Prints a part of a line about the progress of connecting. `None` prints nothing.
    pub voice: Option<fn(&str)>,
}

/// Makes connections with the settings of one repository, or of none.
pub struct Client<'a> {
    config: &'a Config,
    env: &'a Env,
    /// The directory in which processes start.
    dir: &'a Path,
    messages: MessageSink,
    place: Place<'a>,
}

/// The repository of a client, if it has one.
#[derive(Clone, Copy)]
enum Place<'a> {
    In(&'a Repository),
    Outside(&'a OpenOptions),
}

impl<'a> Client<'a> {
    /// Returns a client with the settings of a repository.
    pub fn of(repo: &'a Repository) -> Client<'a> {
        Client {
            config: &repo.config,
            env: &repo.env,
            dir: repo.child_dir(),
            messages: repo.message_sink(),
            place: Place::In(repo),
        }
    }

    /// Returns a client with the settings outside of any repository.
    pub fn outside(config: &'a StandaloneConfig, options: &'a OpenOptions) -> Client<'a> {
        Client {
            config: config.config(),
            env: config.env(),
            dir: &options.cwd,
            messages: options.message_sink,
            place: Place::Outside(options),
        }
    }

    /// Starts processes in `dir`.
    pub fn in_dir(self, dir: &'a Path) -> Client<'a> {
        Client { dir, ..self }
    }

    /// Parses a URL after applying `url.<base>.insteadOf`.
    pub fn url(&self, text: &BStr) -> Url {
        Url::parse(url::instead_of(self.config, text).as_bstr())
    }

    /// Returns the configured protocol version: `protocol.version`.
    pub fn version(&self) -> Result<Version, Error> {
        let configured =
            self.config.string("protocol.version").map(|value| ("config 'protocol.version'", value));
        // Git's tests choose the protocol version of all their commands with this variable.
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

    /// Returns an error if environment or configuration forbid the transport.
    pub fn check_allowed(&self, protocol: &BStr) -> Result<(), Error> {
        policy::check(self.config, self.env, protocol)
    }

    /// Applies `transfer.credentialsInUrl`: a password in `url` is an error, or a warning, which
    /// this returns.
    pub fn check_password(&self, url: &Url) -> Result<Option<BString>, Error> {
        let Some(value) = self.config.string("transfer.credentialsInUrl") else { return Ok(None) };
        if !["warn", "die", "allow"].iter().any(|known| value == *known) {
            let wrong = format!("unrecognized value transfer.credentialsInUrl: '{value}'");
            return Err(Error::Message(wrong));
        }
        let Some(shown) = url::with_redacted_password(url.text.as_bstr()).filter(|_| value != "allow") else {
            return Ok(None);
        };
        let message = format!("URL '{shown}' uses plaintext credentials");
        if value == "die" { Err(Error::Message(message)) } else { Ok(Some(message.into())) }
    }

    /// Connects, and reads the capabilities of the server.
    pub fn connect(&self, url: &Url, options: &ConnectOptions) -> Result<Connection, Error> {
        let connection = self.connected(url, options);
        if let Err(Error::ServerOptions) = connection {
            self.messages.print(["hint: see protocol.version in 'git help config' for more details".into()]);
        }
        connection
    }

    fn connected(&self, url: &Url, options: &ConnectOptions) -> Result<Connection, Error> {
        self.check_allowed(url.protocol())?;
        url.check()?;
        let version = options.version.map_or_else(|| self.version(), Ok)?;
        let prepare = |command: &mut Command| {
            command.current_dir(self.dir).env_clear().envs(self.other_repository());
        };
        let interrupt = options.interrupt.clone();
        let program = options.program.as_ref().map_or(BStr::new(PROGRAM), |program| program.as_bstr());
        let link: Box<dyn Link> = match &url.scheme {
            Scheme::File => {
                let text = [program.as_bytes(), b" ", &quote::shell(url.path.as_bstr())].concat();
                let mut command = through_shell(&text, &[]);
                prepare(&mut command);
                if version != Version::V0 {
                    command.env("GIT_PROTOCOL", format!("version={}", version.number()));
                }
                Box::new(Process::start(command, &program.to_str_lossy(), interrupt)?)
            }
            Scheme::Ssh => {
                let ssh = Ssh { config: self.config, env: self.env, url, family: options.family, version };
                let remote = [program.as_bytes(), b" ", &quote::shell(url.path.as_bstr())].concat();
                let command = ssh.command(&remote, &prepare)?;
                let program = command.get_program().to_string_lossy().into_owned();
                let started = Process::start(command, "ssh", interrupt);
                Box::new(started.map_err(|error| match error {
                    Error::Spawn { source, .. } => {
                        let reason = sys::reason(&source);
                        Error::Message(format!("cannot exec '{program}': {reason}\nfatal: unable to fork"))
                    }
                    error => error,
                })?)
            }
            Scheme::Git => self.over_git(url, program, version, options, &prepare)?,
            Scheme::Http(name) => return self.over_http(name.as_bstr(), url, version, options),
            Scheme::Helper(name) => return self.over_helper(name.as_bstr(), url, version, options),
        };
        Connection::open(link, options)
    }

    fn over_git(
        &self,
        url: &Url,
        program: &BStr,
        version: Version,
        options: &ConnectOptions,
        prepare: &dyn Fn(&mut Command),
    ) -> Result<Box<dyn Link>, Error> {
        let interrupt = options.interrupt.clone();
        let greeting = socket::greeting(url, program, self.env, version)?;
        let mut link: Box<dyn Link> = match socket::proxy(self.config, self.env, &url.host) {
            Some(proxy) => {
                let mut command = Command::new(sys::os_str(proxy));
                let port = url.port.as_ref().map_or(BStr::new(socket::PORT), |port| port.as_bstr());
                command.arg(sys::os_str(&url.host)).arg(sys::os_str(port));
                prepare(&mut command);
                let started = Process::start(command, &proxy.to_str_lossy(), interrupt);
                Box::new(started.map_err(|_| Error::Message(format!("cannot start proxy {proxy}")))?)
            }
            None => Box::new(Socket::connect(url, options, interrupt)?),
        };
        if let Some(tracer) = &options.tracer {
            tracer(Packet::Sent(&greeting[4..]));
        }
        link.send(&greeting)?;
        Ok(link)
    }

    /// `sapwood.http` chooses Git's remote helper or sapwood's own client. By default the own
    /// client is used only if there is no git.
    fn over_http(
        &self,
        name: &BStr,
        url: &Url,
        version: Version,
        options: &ConnectOptions,
    ) -> Result<Connection, Error> {
        let choice = self.config.string("sapwood.http").unwrap_or("auto".into());
        match choice.as_bytes() {
            b"builtin" => {}
            b"git" => return self.over_helper(name, url, version, options),
            b"auto" => match self.over_helper(name, url, version, options) {
                Err(Error::NoHelper(_)) => {}
                other => return other,
            },
            _ => return Err(Error::Message(format!("bad value of 'sapwood.http': {choice}"))),
        }
        Connection::open(http::connect(&self.http(options), url.text.as_ref(), version)?, options)
    }

    fn over_helper(
        &self,
        name: &BStr,
        url: &Url,
        version: Version,
        options: &ConnectOptions,
    ) -> Result<Connection, Error> {
        let prepare = |command: &mut Command| {
            command.current_dir(self.dir).env_clear().envs(self.this_repository());
        };
        match Helper::start(name, &url.path, options, &prepare)?.connect(options, version, self.messages)? {
            Connected::Link(link) => Connection::open(link, options),
            Connected::Itself(helper) => Connection::of_helper(helper, options),
        }
    }

    /// Returns the environment of a process that runs for this repository.
    fn this_repository(&self) -> Vec<(OsString, OsString)> {
        let mut variables = match self.place {
            Place::In(repo) => repo.child_env(),
            Place::Outside(options) => {
                let mut variables: Vec<_> =
                    self.env.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
                let before = self.env.bytes("GIT_CONFIG_PARAMETERS");
                if let Some(parameters) = config_parameters(before, &options.config) {
                    variables.retain(|(name, _)| name != "GIT_CONFIG_PARAMETERS");
                    variables.push(("GIT_CONFIG_PARAMETERS".into(), parameters));
                }
                variables
            }
        };
        if let Place::In(repo) = self.place {
            let git_dir = repo.exported_git_dir().unwrap_or(Path::new(".git"));
            variables.retain(|(name, _)| name != "GIT_DIR");
            variables.push(("GIT_DIR".into(), git_dir.into()));
        }
        variables
    }

    /// Downloads the file at an HTTP URL, or the rest of it. `begin` receives the offset of the
    /// first byte before `into` receives any. Returns the number of downloaded bytes.
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
            verbosity: options.verbosity,
            proxy: options.remote.as_ref().and_then(|name| {
                let proxy = self.config.string(&format!("remote.{name}.proxy"));
                proxy.map(BStr::to_owned)
            }),
        }
    }

    /// Returns the environment of a process that runs for another repository.
    fn other_repository(&self) -> HashMap<OsString, OsString> {
        let kept = self.env.iter().filter(|(name, _)| !is_repository_variable(name));
        kept.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}
