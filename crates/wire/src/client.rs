//! The settings that configuration and environment make for connections, and opening a connection.

use std::{ffi::OsString, io, path::Path, process::Command};

use bstr::{BStr, BString, ByteSlice};
use format::keys;

use super::{
    ConnectOptions, Connection, Error, Packet, Settings, Version,
    environment::is_repository_variable,
    helper::{Connected, Helper},
    http,
    link::Link,
    policy,
    process::Process,
    settings,
    shell::through_shell,
    socket::{self, Socket},
    ssh::Ssh,
    url::{self, Scheme, Url},
};

/// The program that serves fetches.
const PROGRAM: &str = "git-upload-pack";

/// Makes connections with the settings of one repository, or of none.
pub struct Client<'a> {
    settings: &'a dyn Settings,
    /// The directory in which processes start.
    dir: &'a Path,
}

impl<'a> Client<'a> {
    /// Returns a client with these settings.
    pub fn of(settings: &'a dyn Settings) -> Client<'a> {
        Client { settings, dir: settings.child_dir() }
    }

    /// Starts processes in `dir`.
    pub fn in_dir(self, dir: &'a Path) -> Client<'a> {
        Client { dir, ..self }
    }

    /// Parses a URL after applying `url.<base>.insteadOf`.
    pub fn url(&self, text: &BStr) -> Url {
        Url::parse(url::instead_of(self.settings, text).as_bstr())
    }

    /// Returns the configured protocol version: `protocol.version`.
    pub fn version(&self) -> Result<Version, Error> {
        let configured = self
            .settings
            .string(keys::protocol::VERSION.name())
            .map(|value| ("config 'protocol.version'", value));
        // Git's tests choose the protocol version of all their commands with this variable.
        let tested =
            || Some("GIT_TEST_PROTOCOL_VERSION").zip(self.settings.variable("GIT_TEST_PROTOCOL_VERSION"));
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
        policy::check(self.settings, protocol)
    }

    /// Applies `transfer.credentialsInUrl`: a password in `url` is an error, or a warning, which
    /// this returns.
    pub fn check_password(&self, url: &Url) -> Result<Option<BString>, Error> {
        let key = keys::transfer::CREDENTIALS_IN_URL;
        let Some(value) = self.settings.string(key.name()) else { return Ok(None) };
        if !["warn", "die", "allow"].iter().any(|known| value == *known) {
            let wrong = format!("unrecognized value {}: '{value}'", key.name());
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
            let print = self.settings.message_printer();
            print("hint: see protocol.version in 'git help config' for more details");
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
                let text = [program.as_bytes(), b" ", &format::shell::quote(url.path.as_bstr())].concat();
                let mut command = through_shell(&text, &[]);
                prepare(&mut command);
                if version != Version::V0 {
                    command.env("GIT_PROTOCOL", format!("version={}", version.number()));
                }
                Box::new(Process::start(command, &program.to_str_lossy(), interrupt)?)
            }
            Scheme::Ssh => {
                let ssh = Ssh { settings: self.settings, url, family: options.family, version };
                let remote = [program.as_bytes(), b" ", &format::shell::quote(url.path.as_bstr())].concat();
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
        let greeting = socket::greeting(url, program, self.settings, version)?;
        let mut link: Box<dyn Link> = match socket::proxy(self.settings, &url.host) {
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
        let choice = settings::text(self.settings, &keys::sapwood::HTTP);
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
            command.current_dir(self.dir).env_clear().envs(self.settings.helper_variables());
        };
        match Helper::start(name, &url.path, options, &prepare)?.connect(
            options,
            version,
            self.settings.message_printer(),
        )? {
            Connected::Link(link) => Connection::open(link, options),
            Connected::Itself(helper) => Connection::of_helper(helper, options),
        }
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
            settings: self.settings,
            dir: self.dir,
            family: options.family,
            interrupt: options.interrupt.clone(),
            verbosity: options.verbosity,
            proxy: options.remote.as_ref().and_then(|name| {
                let proxy = self.settings.string(keys::remote::PROXY.of(name).name());
                proxy.map(BStr::to_owned)
            }),
        }
    }

    /// Returns the environment of a process that runs for another repository.
    fn other_repository(&self) -> Vec<(OsString, OsString)> {
        let mut variables = self.settings.variables();
        variables.retain(|(name, _)| !is_repository_variable(name));
        variables
    }
}
