//! Remote helpers: `git remote-<name>`, which connect to the servers of other transports.
//!
//! Order: [`Helper::start`] reads the helper's capabilities and sets its options.
//! [`Helper::connect`] turns it into a link to the server. A helper that cannot connect lists refs
//! and writes objects itself ([`Helper::list`], [`Helper::fetch`]). Format: `gitremote-helpers(7)`.

mod list;
mod stateless;

use std::{
    io::{BufRead, Read},
    process::Command,
};

use ::http::AddressFamily;
use bstr::{BStr, BString, ByteSlice};
use format::HashKind;

pub use self::list::Wanted;
use super::{ConnectOptions, Error, Version, link::Link, process::Process};

/// The maximum length of a line from a helper, in bytes. Git has no limit; no helper needs more.
const MAX_LINE: u64 = 1 << 20;

/// The service that a helper connects to.
const SERVICE: &str = "git-upload-pack";

/// A running helper.
pub(super) struct Helper {
    name: BString,
    process: Process,
    capabilities: Vec<BString>,
}

/// The way in which a helper serves a request.
pub(super) enum Connected {
    /// The protocol runs over this link.
    Link(Box<dyn Link>),
    /// The helper lists refs and writes objects itself.
    Itself(Helper),
}

/// The response to an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    Ok,
    Unsupported,
    Failed,
}

impl Helper {
    /// Starts `git remote-<name>`. `prepare` sets environment and directory.
    pub(super) fn start(
        name: &BStr,
        address: &[u8],
        options: &ConnectOptions,
        prepare: &dyn Fn(&mut Command),
    ) -> Result<Helper, Error> {
        let mut command = Command::new("git");
        let program = [b"remote-", name.as_bytes()].concat();
        let remote = options.remote.as_ref().map_or(address, |remote| remote.as_bytes());
        command.args([sys::os_str(&program), sys::os_str(remote), sys::os_str(address)]);
        prepare(&mut command);
        let process =
            Process::start(command, "git", options.interrupt.clone()).map_err(|error| match error {
                Error::Spawn { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                    Error::NoHelper(name.into())
                }
                other => other,
            })?;
        let mut helper = Helper { name: name.into(), process, capabilities: Vec::new() };
        helper.read_capabilities()?;
        if helper.has("option") {
            helper.set_options(options)?;
        }
        Ok(helper)
    }

    fn has(&self, capability: &str) -> bool {
        self.capabilities.iter().any(|known| known == capability)
    }

    fn read_capabilities(&mut self) -> Result<(), Error> {
        const KNOWN: [&str; 4] = ["fetch", "option", "connect", "stateless-connect"];
        self.write(b"capabilities\n")?;
        loop {
            let line = self.read_line()?;
            if line.is_empty() {
                return Ok(());
            }
            let (name, mandatory) = match line.strip_prefix(b"*") {
                Some(name) => (name, true),
                None => (line.as_bytes(), false),
            };
            let is_harmless = name.starts_with(b"refspec ") || name == b"object-format" || name == b"push";
            if mandatory && !is_harmless && !KNOWN.iter().any(|known| name == known.as_bytes()) {
                let name = name.as_bstr();
                return Err(Error::Message(format!(
                    "unknown mandatory capability {name}; this remote helper probably needs newer version of Git"
                )));
            }
            self.capabilities.push(name.into());
        }
    }

    fn set_options(&mut self, options: &ConnectOptions) -> Result<(), Error> {
        self.set("progress", if options.progress { "true" } else { "false" })?;
        self.set("verbosity", &(options.verbosity + 1).max(0).to_string())?;
        match options.family {
            AddressFamily::Any => Reply::Ok,
            AddressFamily::V4 => self.set("family", "ipv4")?,
            AddressFamily::V6 => self.set("family", "ipv6")?,
        };
        Ok(())
    }

    /// Sets an option.
    fn set(&mut self, name: &str, value: &str) -> Result<Reply, Error> {
        if !self.has("option") {
            return Ok(Reply::Unsupported);
        }
        self.write(format!("option {name} {value}\n").as_bytes())?;
        let reply = self.read_line()?;
        Ok(match reply.as_bytes() {
            b"ok" => Reply::Ok,
            b"unsupported" => Reply::Unsupported,
            _ => Reply::Failed,
        })
    }

    /// Sets an option to a text, in double quotes if the text has special bytes.
    fn set_text(&mut self, name: &str, value: &BStr) -> Result<Reply, Error> {
        let quoted = format::quote(value, true);
        self.set(name, &quoted.to_str_lossy())
    }

    /// Requests a connection to `upload-pack`.
    pub(super) fn connect(
        mut self,
        options: &ConnectOptions,
        version: Version,
        print: fn(&str),
    ) -> Result<Connected, Error> {
        if let Some(program) = options.program.as_ref().filter(|program| *program != SERVICE)
            && (self.has("connect") || self.has("stateless-connect"))
        {
            let warning = match self.set_text("servpath", program.as_bstr())? {
                Reply::Ok => None,
                Reply::Unsupported => Some("setting remote service path not supported by protocol"),
                Reply::Failed => Some("invalid remote service path"),
            };
            if let Some(warning) = warning {
                print(&format!("warning: {warning}"));
            }
        }
        for (capability, stateless) in [("connect", false), ("stateless-connect", true)] {
            if !self.has(capability) || (stateless && version != Version::V2) {
                continue;
            }
            self.write(format!("{capability} {SERVICE}\n").as_bytes())?;
            let reply = self.read_line()?;
            match reply.as_bytes() {
                b"" if stateless => {
                    return Ok(Connected::Link(Box::new(stateless::Stateless::new(self.process))));
                }
                b"" => return Ok(Connected::Link(Box::new(self.process))),
                b"fallback" => {}
                _ => return Err(Error::Message(format!("unknown response to connect: {reply}"))),
            }
        }
        if self.has("fetch") {
            Ok(Connected::Itself(self))
        } else {
            // The helper writes `fast-import` streams.
            Err(Error::Unsupported(self.name))
        }
    }

    fn write(&mut self, text: &[u8]) -> Result<(), Error> {
        match self.process.send(text) {
            Err(Error::Io(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            other => other,
        }
    }

    fn read_line(&mut self) -> Result<BString, Error> {
        let mut line = Vec::new();
        self.process.output().take(MAX_LINE).read_until(b'\n', &mut line).map_err(Error::of_io)?;
        match line.pop() {
            Some(b'\n') => Ok(line.into()),
            // Git's own helpers exit with 128 after they have printed a message.
            _ if self.process.exit_code() == Some(128) => Err(Error::HelperFailed),
            _ => Err(Error::HelperAborted(self.name.clone())),
        }
    }
}

/// Parses the name of a hash.
fn hash_of(name: &[u8]) -> Option<HashKind> {
    match name {
        b"sha1" => Some(HashKind::Sha1),
        b"sha256" => Some(HashKind::Sha256),
        _ => None,
    }
}
