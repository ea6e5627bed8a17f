//! Connections: TCP, TLS above it, and the watch over both.
//!
//! A read waits in short steps. After each step the watch compares the rate with
//! `http.lowSpeedLimit` and checks for an interrupt.

use std::{
    io::{self, Read, Write},
    net::{TcpStream, ToSocketAddrs as _},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use rustls::{ClientConfig, ClientConnection, StreamOwned, pki_types::ServerName};

use super::broken::Broken;
use crate::{AddressFamily, interrupt::Interrupt};

/// The timeout for connecting to one address. curl has the same timeout for all addresses together.
const CONNECT: Duration = Duration::from_secs(300);

/// The interval of the watch.
const STEP: Duration = Duration::from_millis(250);

/// A stream in both directions.
pub(super) trait Duplex: Read + Write + Send {}

impl<T: Read + Write + Send> Duplex for T {}

/// The limits of a connection.
#[derive(Clone, Default)]
pub(super) struct Watch {
    /// The minimum rate in bytes a second, and the time for which the rate may be lower.
    pub(super) low_speed: Option<(u64, Duration)>,
    /// Ends every wait when it becomes true.
    pub(super) interrupt: Interrupt,
}

/// Connects to a host. The error is in curl's wording.
pub(super) fn dial(
    host: &str,
    port: u16,
    family: AddressFamily,
    watch: Watch,
) -> Result<Box<dyn Duplex>, Broken> {
    let began = Instant::now();
    let resolved = (host, port).to_socket_addrs();
    let addresses: Vec<_> = resolved
        .map_err(|_| Broken::new(format!("Could not resolve host: {host}")))?
        .filter(|address| match family {
            AddressFamily::Any => true,
            AddressFamily::V4 => address.is_ipv4(),
            AddressFamily::V6 => address.is_ipv6(),
        })
        .collect();
    if addresses.is_empty() {
        return Err(Broken::new(format!("Could not resolve host: {host}")));
    }
    for address in addresses {
        if let Ok(socket) = TcpStream::connect_timeout(&address, CONNECT) {
            // A request is written whole, so the kernel must not wait for more data to send.
            let prepared = socket.set_nodelay(true).and_then(|()| socket.set_read_timeout(Some(STEP)));
            prepared.map_err(|error| Broken(error.to_string()))?;
            return Ok(Box::new(Watched { socket, watch, slow: Slow::new() }));
        }
    }
    let passed = began.elapsed().as_millis();
    Err(Broken(format!(
        "Failed to connect to {host} port {port} after {passed} ms: Could not connect to server"
    )))
}

/// Begins TLS on a stream.
pub(super) fn secure(
    stream: Box<dyn Duplex>,
    host: &str,
    config: &Arc<ClientConfig>,
) -> Result<Box<dyn Duplex>, Broken> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| Broken::new(format!("SSL: invalid host name '{host}'")))?;
    let session =
        ClientConnection::new(Arc::clone(config), name).map_err(|error| Broken(error.to_string()))?;
    let mut stream = StreamOwned::new(session, Buffered(io::BufReader::with_capacity(64 << 10, stream)));
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).map_err(|error| refused(&error, host))?;
    }
    Ok(Box::new(Tls(stream)))
}

/// Describes a failed handshake as curl does with OpenSSL.
fn refused(error: &io::Error, host: &str) -> Broken {
    use rustls::{CertificateError, Error};
    let Some(cause) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) else {
        return Broken::receiving(error);
    };
    let certificate = |reason: &str| Broken(format!("SSL certificate problem: {reason}"));
    match cause {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            certificate("unable to get local issuer certificate")
        }
        Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            certificate("certificate has expired")
        }
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => {
            Broken(format!("SSL: no alternative certificate subject name matches target host name '{host}'"))
        }
        Error::InvalidCertificate(CertificateError::Revoked) => certificate("certificate revoked"),
        other => Broken(format!("TLS connect error: {other}")),
    }
}

/// TLS. A server that closes the connection without a TLS close message ends the stream: the
/// framing of the body shows if a part is missing.
struct Tls(StreamOwned<ClientConnection, Buffered>);

impl Read for Tls {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self.0.read(out) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
            other => other,
        }
    }
}

impl Write for Tls {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Reads in large pieces: rustls itself requests 4 KB at a time.
struct Buffered(io::BufReader<Box<dyn Duplex>>);

impl Read for Buffered {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.read(out)
    }
}

impl Write for Buffered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.get_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.get_mut().flush()
    }
}

/// A socket with a watch.
struct Watched {
    socket: TcpStream,
    watch: Watch,
    slow: Slow,
}

/// The measurement of the rate.
struct Slow {
    /// The start of the current measurement, which takes a second, and its bytes.
    second: Instant,
    bytes: u64,
    /// The time since which the rate has been too low.
    since: Option<Instant>,
}

impl Slow {
    fn new() -> Slow {
        Slow { second: Instant::now(), bytes: 0, since: None }
    }

    /// Counts bytes; returns an error if the rate has been too low for too long.
    fn count(&mut self, read: usize, low_speed: (u64, Duration)) -> io::Result<()> {
        let (limit, time) = low_speed;
        self.bytes += read as u64;
        let now = Instant::now();
        let passed = now - self.second;
        if passed < Duration::from_secs(1) {
            return Ok(());
        }
        let rate = self.bytes as f64 / passed.as_secs_f64();
        if rate >= limit as f64 {
            self.since = None;
        } else if now - *self.since.get_or_insert(self.second) >= time {
            let text = format!(
                "Operation too slow. Less than {limit} bytes/sec transferred the last {} seconds",
                time.as_secs()
            );
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        (self.second, self.bytes) = (now, 0);
        Ok(())
    }
}

impl Read for Watched {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        // The caller, not the server, spent the time before this call.
        if self.watch.low_speed.is_some() && self.slow.second.elapsed() > Duration::from_secs(2) {
            self.slow = Slow { since: self.slow.since, ..Slow::new() };
        }
        loop {
            if self.watch.interrupt.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)) {
                return Err(io::Error::other(crate::Error::Interrupted));
            }
            let read = match self.socket.read(out) {
                Err(error) if is_step(&error) => None,
                other => Some(other?),
            };
            if let Some(low_speed) = self.watch.low_speed {
                self.slow.count(read.unwrap_or(0), low_speed)?;
            }
            if let Some(read) = read {
                return Ok(read);
            }
        }
    }
}

fn is_step(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

impl Write for Watched {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}
