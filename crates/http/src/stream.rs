//! Connections: TCP, TLS above it, and the watch over both.
//!
//! A read or a write waits in short steps. After each step the watch compares the rate with
//! `http.lowSpeedLimit`, ends a wait that takes too long, and checks for an interrupt.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    sync::Arc,
    time::{Duration, Instant},
};

use rustls::{ClientConfig, ClientConnection, StreamOwned, pki_types::ServerName};

use crate::{
    Broken, Cause, Interrupt, Interrupted,
    interrupt::{TICK, is_set},
};

/// The bytes that a system may hold back after a write: buffers of sockets.
const HELD: u64 = 8 << 20;

/// The bytes of these that may take as long as an answer.
const HELD_PIECE: u64 = 1 << 20;

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

/// A stream in both directions.
pub(crate) trait Duplex: Read + Write + Send {}

impl<T: Read + Write + Send> Duplex for T {}

/// The limits of a connection.
#[derive(Clone, Default)]
pub struct Watch {
    /// The minimum rate in bytes a second, and the time for which the rate may be lower.
    pub low_speed: Option<(u64, Duration)>,
    /// The longest time without a byte in either direction.
    pub idle: Option<Duration>,
    /// Ends every wait when it becomes true.
    pub interrupt: Interrupt,
}

/// Puts a watch over a socket.
pub(crate) fn watched(socket: TcpStream, watch: Watch) -> io::Result<Box<dyn Duplex>> {
    // A request is written whole, so the kernel must not wait for more data to send.
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(TICK))?;
    socket.set_write_timeout(Some(TICK))?;
    Ok(Box::new(Watched { socket, watch, slow: Slow::new(), held: 0 }))
}

/// Begins TLS on a stream.
pub(crate) fn secure(
    stream: Box<dyn Duplex>,
    host: &str,
    config: &Arc<ClientConfig>,
) -> Result<Box<dyn Duplex>, Broken> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| Broken::new(format!("SSL: invalid host name '{host}'")))?;
    let session =
        ClientConnection::new(Arc::clone(config), name).map_err(|error| Broken::new(error.to_string()))?;
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
    let Error::InvalidCertificate(reason) = cause else {
        return Broken::new(format!("TLS connect error: {cause}"));
    };
    let text = match reason {
        CertificateError::UnknownIssuer => {
            "SSL certificate problem: unable to get local issuer certificate".into()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "SSL certificate problem: certificate has expired".into()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!("SSL: no alternative certificate subject name matches target host name '{host}'")
        }
        CertificateError::Revoked => "SSL certificate problem: certificate revoked".into(),
        _ => format!("TLS connect error: {cause}"),
    };
    Broken { text, cause: Cause::Certificate(reason.clone()) }
}

/// TLS. A connection that is closed without a TLS close message is an error, because anybody on
/// the way can close it.
struct Tls(StreamOwned<ClientConnection, Buffered>);

impl Read for Tls {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.read(out).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                let text =
                    "TLS: the connection was closed without a close message: unexpected eof while reading";
                io::Error::new(error.kind(), text)
            }
            _ => error,
        })
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
    /// The bytes that were written since the last read.
    held: u64,
}

impl Watched {
    /// Checks a wait that began at `began`. Bytes that the system holds back are still on their
    /// way: each MiB of them may take as long as an answer.
    fn check(&self, began: Instant) -> io::Result<()> {
        if is_set(&self.watch.interrupt) {
            return Err(io::Error::other(Interrupted));
        }
        let Some(idle) = self.watch.idle else { return Ok(()) };
        let held = u32::try_from(self.held.min(HELD) / HELD_PIECE).unwrap_or_default();
        if began.elapsed() < idle * (1 + held) {
            return Ok(());
        }
        let text = format!("timed out: no progress for {} seconds", idle.as_secs_f32());
        Err(io::Error::new(io::ErrorKind::TimedOut, text))
    }
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
        let began = Instant::now();
        loop {
            self.check(began)?;
            let read = match self.socket.read(out) {
                Err(error) if is_step(&error) => None,
                other => Some(other?),
            };
            if let Some(low_speed) = self.watch.low_speed {
                self.slow.count(read.unwrap_or(0), low_speed)?;
            }
            if let Some(read) = read {
                self.held = 0;
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
        let began = Instant::now();
        loop {
            self.check(began)?;
            match self.socket.write(bytes) {
                Err(error) if is_step(&error) => {}
                Ok(written) => {
                    self.held += written as u64;
                    return Ok(written);
                }
                failed => return failed,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}
