//! The connection to a host with several addresses: attempts overlap, in alternate families
//! (RFC 8305), so that one broken family or address costs a quarter of a second.

use std::{
    io,
    net::{SocketAddr, TcpStream, ToSocketAddrs as _},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use crate::{
    AddressFamily, Broken, Cause, Watch,
    stream::{Duplex, watched},
};

/// The time after which the next address is tried beside the ones before it.
const STAGGER: Duration = Duration::from_millis(250);

/// Connects to a host, for at most `timeout` to all of its addresses together. The error is in
/// curl's wording.
pub(crate) fn dial(
    host: &str,
    port: u16,
    family: AddressFamily,
    timeout: Duration,
    watch: Watch,
) -> Result<Box<dyn Duplex>, Broken> {
    let began = Instant::now();
    let resolved = (host, port).to_socket_addrs();
    let unresolved = |reason: String| Broken {
        text: format!("Could not resolve host: {host}"),
        cause: Cause::Unreachable(reason),
    };
    let addresses: Vec<_> = resolved
        .map_err(|error| unresolved(error.to_string()))?
        .filter(|address| match family {
            AddressFamily::Any => true,
            AddressFamily::V4 => address.is_ipv4(),
            AddressFamily::V6 => address.is_ipv6(),
        })
        .collect();
    if addresses.is_empty() {
        return Err(unresolved("the host has no address of this family".into()));
    }
    let connect = |address: SocketAddr, left| TcpStream::connect_timeout(&address, left);
    match first(alternated(addresses), timeout, connect) {
        Ok(socket) => watched(socket, watch).map_err(|error| Broken::new(error.to_string())),
        Err(error) => {
            let passed = began.elapsed().as_millis();
            Err(Broken {
                text: format!(
                    "Failed to connect to {host} port {port} after {passed} ms: Could not connect to server"
                ),
                cause: Cause::Unreachable(error.to_string()),
            })
        }
    }
}

/// Alternates the families, beginning with that of the first address.
fn alternated(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let leads_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (leading, other): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| address.is_ipv6() == leads_v6);
    let (mut leading, mut other) = (leading.into_iter(), other.into_iter());
    let mut alternated = Vec::new();
    loop {
        let pair = [leading.next(), other.next()];
        if pair == [None, None] {
            return alternated;
        }
        alternated.extend(pair.into_iter().flatten());
    }
}

/// Returns the first connection that comes about. Each attempt has a thread. Those that are too
/// late end by themselves, at the deadline at the latest.
fn first<T: Send + 'static>(
    addresses: Vec<SocketAddr>,
    timeout: Duration,
    connect: impl Fn(SocketAddr, Duration) -> io::Result<T> + Copy + Send + 'static,
) -> io::Result<T> {
    if let [address] = addresses[..] {
        return connect(address, timeout);
    }
    let deadline = Instant::now() + timeout;
    let (sender, results) = mpsc::channel();
    let mut waiting = addresses.into_iter();
    let (mut running, mut reason) = (0, io::Error::from(io::ErrorKind::TimedOut));
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(reason);
        }
        if let Some(address) = waiting.next() {
            let sender = sender.clone();
            let thread = thread::Builder::new().name("connect".into());
            // After the first connection the receiver no longer exists.
            thread.spawn(move || drop(sender.send(connect(address, left))))?;
            running += 1;
        }
        if running == 0 {
            return Err(reason);
        }
        let wait = if waiting.len() > 0 { STAGGER.min(left) } else { left };
        match results.recv_timeout(wait) {
            Ok(Ok(connected)) => return Ok(connected),
            Ok(Err(error)) => (running, reason) = (running - 1, error),
            // The next attempt begins, or the time is over.
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn addresses(hosts: &[&str]) -> Vec<SocketAddr> {
        hosts.iter().map(|host| SocketAddr::new(host.parse().expect("an address"), 1)).collect()
    }

    #[test]
    fn families_alternate() {
        for (given, expected) in [
            (&["::1", "::2", "::3", "10.0.0.1"][..], &["::1", "10.0.0.1", "::2", "::3"][..]),
            (&["10.0.0.1", "10.0.0.2", "::1"], &["10.0.0.1", "::1", "10.0.0.2"]),
            (&["10.0.0.1"], &["10.0.0.1"]),
            (&[], &[]),
        ] {
            assert_eq!(alternated(addresses(given)), addresses(expected));
        }
    }

    /// An attempt at `10.0.0.*` takes all of its time, one at `::*` fails at once.
    fn connect(address: SocketAddr, left: Duration) -> io::Result<SocketAddr> {
        match address {
            SocketAddr::V4(four) if four.ip().octets()[0] == 10 => {
                thread::sleep(left);
                Err(io::ErrorKind::TimedOut.into())
            }
            SocketAddr::V4(_) => Ok(address),
            SocketAddr::V6(_) => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }

    #[test]
    fn a_silent_address_does_not_delay_the_next_one() {
        let long = Duration::from_secs(20);
        for hosts in [&["10.0.0.1", "127.0.0.1"][..], &["::1", "::2", "10.0.0.1", "127.0.0.1", "::3"]] {
            let connected = first(addresses(hosts), long, connect).expect("127.0.0.1 answers");
            assert_eq!(connected, addresses(&["127.0.0.1"])[0]);
        }
        let refused = first(addresses(&["::1", "::2"]), long, connect).expect_err("all refuse");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn all_addresses_have_one_deadline() {
        static ATTEMPTS: AtomicUsize = AtomicUsize::new(0);
        let hosts: Vec<String> = (1..200).map(|host| format!("10.0.0.{host}")).collect();
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let counted = |address, left| {
            ATTEMPTS.fetch_add(1, Ordering::SeqCst);
            connect(address, left)
        };
        let late = first(addresses(&hosts), Duration::from_secs(1), counted).expect_err("all are silent");
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        let attempts = ATTEMPTS.load(Ordering::SeqCst);
        assert!((2..100).contains(&attempts), "{attempts}: each attempt has the rest of the time");
    }
}
