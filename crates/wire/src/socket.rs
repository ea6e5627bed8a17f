//! `git://`: a socket, or the proxy command of a setting.
//!
//! Format: Git's `gitprotocol-pack(5)`, "Git Transport".

use std::{
    io::{self, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs},
};

use ::http::AddressFamily;
use bstr::{BStr, BString, ByteSlice};
use format::{keys, pkt};

use super::{
    ConnectOptions, Error, Settings, Version,
    interrupt::{Interrupt, Watched},
    link::Link,
    settings::all,
    url::Url,
};

/// The port of the Git daemon.
pub(super) const PORT: &str = "9418";

/// A connected socket.
pub(super) struct Socket {
    output: BufReader<Watched<TcpStream>>,
}

impl Socket {
    /// Connects to the host of a URL.
    pub(super) fn connect(
        url: &Url,
        options: &ConnectOptions,
        interrupt: Interrupt,
    ) -> Result<Socket, Error> {
        let port = url.port.as_ref().map_or(PORT, |port| port.to_str().unwrap_or(PORT)).to_owned();
        let host = url.host.to_str_lossy().into_owned();
        let (family, voice) = (options.family, options.voice);
        let dialed = ::http::interruptible(&interrupt, move || dial(&host, &port, family, voice));
        let stream = dialed.map_err(Error::of_wait)??;
        sys::keep_alive(&stream).map_err(Error::Io)?;
        let output = Watched { inner: stream, interrupt };
        Ok(Socket { output: BufReader::with_capacity(1 << 17, output) })
    }
}

fn dial(host: &str, port: &str, family: AddressFamily, voice: Option<fn(&str)>) -> Result<TcpStream, Error> {
    let say = |text: &str| {
        if let Some(voice) = voice {
            voice(text);
        }
    };
    say(&format!("Looking up {host} ... "));
    let found = (host, port.parse::<u16>().unwrap_or_default()).to_socket_addrs().map_err(|error| {
        let text = error.to_string();
        let reason = text.rsplit(": ").next().unwrap_or_default();
        Error::Message(format!("unable to look up {host} (port {port}) ({reason})"))
    })?;
    say(&format!("done.\nConnecting to {host} (port {port}) ... "));
    let is_of_family = |address: &SocketAddr| match family {
        AddressFamily::Any => true,
        AddressFamily::V4 => address.is_ipv4(),
        AddressFamily::V6 => address.is_ipv6(),
    };
    let mut failures = String::new();
    for (at, address) in found.filter(is_of_family).enumerate() {
        match TcpStream::connect(address) {
            Ok(stream) => {
                say(&format!("{} done.\n", address.ip()));
                return Ok(stream);
            }
            Err(error) => {
                let reason = sys::reason(&error);
                failures.push_str(&format!("{host}[{at}: {}]: errno={reason}\n", address.ip()));
            }
        }
    }
    Err(Error::Message(format!("unable to connect to {host}:\n{failures}")))
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.output.read(buffer)
    }
}

impl Link for Socket {
    fn is_stateless(&self) -> bool {
        false
    }

    fn send(&mut self, request: &[u8]) -> Result<(), Error> {
        self.output.get_mut().inner.write_all(request).map_err(Error::Io)
    }

    fn finish(self: Box<Self>) -> Result<(), Error> {
        // The server may have closed the connection already.
        let _ = self.output.get_ref().inner.shutdown(Shutdown::Both);
        Ok(())
    }
}

/// Returns the packet that sends the command, the repository and the protocol version to a daemon.
pub(super) fn greeting(
    url: &Url,
    program: &BStr,
    settings: &dyn Settings,
    version: Version,
) -> Result<Vec<u8>, Error> {
    let host =
        settings.variable("GIT_OVERRIDE_VIRTUAL_HOST").map_or_else(|| written_host(url), ToOwned::to_owned);
    let mut text = [program.as_bytes(), b" ", &url.path, b"\0host=", &host, b"\0"].concat();
    if version != Version::V0 {
        text.extend_from_slice(format!("\0version={}\0", version.number()).as_bytes());
    }
    if text.len() > pkt::MAX_PAYLOAD {
        return Err(Error::Protocol("impossibly long line".into()));
    }
    let mut packet = Vec::new();
    pkt::write_line(&mut packet, &text);
    Ok(packet)
}

/// Returns host and port as written in the URL.
fn written_host(url: &Url) -> BString {
    let rest = url.text.split_once_str("://").map_or(url.text.as_bytes(), |(_, rest)| rest);
    rest[..rest.find_byte(b'/').unwrap_or(rest.len())].into()
}

/// Returns the command that connects to the host instead of a socket: `GIT_PROXY_COMMAND`, or the
/// first `core.gitProxy` for the host.
pub(super) fn proxy<'a>(settings: &'a dyn Settings, host: &[u8]) -> Option<&'a BStr> {
    if let Some(command) = settings.variable("GIT_PROXY_COMMAND") {
        return Some(command).filter(|command| !command.is_empty());
    }
    let command = all(settings, &keys::core::GIT_PROXY).into_iter().find_map(|value| {
        match value.rsplit_once_str(" for ") {
            Some((command, domain)) => {
                let before = host.strip_suffix(domain)?;
                let is_domain = before.is_empty() || before.ends_with(b".") || domain.starts_with(b".");
                is_domain.then_some(command.as_bstr())
            }
            None => Some(value),
        }
    });
    command.filter(|command| !command.is_empty() && *command != "none")
}
