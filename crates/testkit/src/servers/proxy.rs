//! A proxy before a server, with a rate and a latency, which can cut and stall connections and
//! corrupt bytes.
//!
//! It forwards TCP and is independent of the protocol. Both directions have the rate and the
//! latency of the line. All connections share the rate. Faults affect the bytes from the server.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use super::Acceptor;

/// The maximum number of chunks in transit on a line. It bounds memory.
const UNDER_WAY: usize = 256;

/// The size of a chunk in bytes.
const CHUNK: usize = 16 << 10;

/// A line between client and server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Bytes a second, in each direction; `None` for no limit.
    pub rate: Option<u64>,
    /// The one-way latency.
    pub latency: Duration,
}

/// A fault of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection is closed.
    Cut,
    /// No more data arrive, and the connection stays open.
    Stall,
    /// One byte arrives with all its bits inverted.
    Corrupt,
}

/// The bytes that are counted up to a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The bytes of all connections since the trouble was set. The fault occurs once.
    Once,
    /// The bytes of all connections since the trouble was set. The fault occurs at each later byte,
    /// too: the server is gone.
    FromThen,
    /// The bytes of each connection.
    EachConnection,
}

/// A fault and the byte count at which it occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The number of bytes from the server that arrive before the fault.
    pub after: u64,
    /// The bytes that are counted.
    pub moment: Moment,
    /// The fault.
    pub fault: Fault,
}

/// A running proxy.
pub struct Proxy {
    acceptor: Acceptor,
    shared: Arc<Shared>,
}

struct Shared {
    server: SocketAddr,
    line: Line,
    over: AtomicBool,
    state: Mutex<State>,
    /// The bytes from the server, and from the client, since the start.
    received: AtomicU64,
    sent: AtomicU64,
    /// The bytes from the server that were delivered to the client.
    delivered: AtomicU64,
}

#[derive(Default)]
struct State {
    trouble: Option<Trouble>,
    /// The answer that the next connections get, and their number.
    answer: (usize, String),
    /// Bytes from the server since the trouble was set.
    counted: u64,
    /// The times at which the line becomes free, in the direction from the server and from the
    /// client.
    free: [Option<Instant>; 2],
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the answer that the next connection gets instead of the server's.
    fn take_answer(&self) -> Option<String> {
        let mut state = self.state();
        let (left, answer) = &mut state.answer;
        *left = left.checked_sub(1)?;
        Some(answer.clone())
    }

    /// Returns the arrival time of a chunk that is sent now.
    fn arrival(&self, direction: Direction, length: usize) -> Instant {
        let now = Instant::now();
        let Some(rate) = self.line.rate else { return now + self.line.latency };
        let took = Duration::from_secs_f64(length as f64 / rate as f64);
        let mut state = self.state();
        let free = &mut state.free[direction as usize];
        let passed = free.map_or(now, |free| free.max(now)) + took;
        *free = Some(passed);
        passed + self.line.latency
    }

    /// Counts `length` bytes from the server; the connection has received `before` bytes before
    /// them. Returns the fault that occurs within these bytes, and the number of bytes before it.
    fn pass(&self, before: u64, length: usize) -> Option<(Fault, usize)> {
        let mut state = self.state();
        let all = state.counted;
        state.counted += length as u64;
        let trouble = state.trouble?;
        let place = match trouble.moment {
            Moment::Once => trouble.after.checked_sub(all)?,
            Moment::FromThen => trouble.after.saturating_sub(all),
            Moment::EachConnection => trouble.after.checked_sub(before)?,
        };
        let place = usize::try_from(place).ok()?;
        if place >= length {
            return None;
        }
        if trouble.moment == Moment::Once {
            state.trouble = None;
        }
        Some((trouble.fault, place))
    }
}

#[derive(Clone, Copy)]
enum Direction {
    FromServer,
    FromClient,
}

impl Proxy {
    /// Starts a proxy before the server at `server`, on a perfect line.
    pub fn to(server: SocketAddr) -> Proxy {
        Proxy::on(Line::default(), server)
    }

    /// Starts a proxy before the server at `server`.
    pub fn on(line: Line, server: SocketAddr) -> Proxy {
        let shared = Arc::new(Shared {
            server,
            line,
            over: AtomicBool::new(false),
            state: Mutex::default(),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
        });
        let forwarding = Arc::clone(&shared);
        let acceptor = Acceptor::start(move |client, _| {
            // A missing server looks like a server that hangs up.
            let _ = forward(&forwarding, &client);
            let _ = client.shutdown(Shutdown::Both);
        });
        Proxy { acceptor, shared }
    }

    /// Returns the address to connect to.
    pub fn address(&self) -> SocketAddr {
        self.acceptor.address()
    }

    /// Returns the port to connect to.
    pub fn port(&self) -> u16 {
        self.acceptor.port()
    }

    /// Returns the URL with the server's address replaced by the proxy's.
    pub fn before(&self, url: &str) -> String {
        let server = self.shared.server;
        let through = url.replace(&format!(":{}/", server.port()), &format!(":{}/", self.port()));
        assert_ne!(through, url, "the URL names {server}");
        through
    }

    /// Sets or clears the trouble. Counting starts now.
    pub fn set(&self, trouble: Option<Trouble>) {
        let mut state = self.shared.state();
        state.trouble = trouble;
        state.counted = 0;
    }

    /// Sets a fault that occurs once, after this many bytes of all connections, counted from now.
    pub fn once(&self, fault: Fault, after: u64) {
        self.set(Some(Trouble { after, moment: Moment::Once, fault }));
    }

    /// Answers the first request of each of the next `count` connections with these bytes, and then
    /// ends the connection. The server does not see them.
    pub fn answer(&self, count: usize, bytes: impl Into<String>) {
        self.shared.state().answer = (count, bytes.into());
    }

    /// Returns true while a trouble is set. A trouble with [`Moment::Once`] ends when its fault has
    /// occurred.
    pub fn is_troubled(&self) -> bool {
        self.shared.state().trouble.is_some()
    }

    /// Cuts the open connections.
    pub fn cut(&self) {
        self.acceptor.cut();
    }

    /// Returns the number of bytes from the server so far.
    pub fn received(&self) -> u64 {
        self.shared.received.load(Ordering::SeqCst)
    }

    /// Returns the number of bytes from the server that were delivered so far.
    pub fn delivered(&self) -> u64 {
        self.shared.delivered.load(Ordering::SeqCst)
    }

    /// Returns the number of bytes from the client so far.
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::SeqCst)
    }

    /// Returns the number of connections so far.
    pub fn connections(&self) -> usize {
        self.acceptor.accepted()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
    }
}

/// A chunk, and the time at which it arrives.
type Chunk = (Instant, Vec<u8>);

fn forward(shared: &Shared, client: &TcpStream) -> io::Result<()> {
    if let Some(answer) = shared.take_answer() {
        return refuse(client, &answer);
    }
    let server = TcpStream::connect(shared.server)?;
    server.set_nodelay(true)?;
    let closed = AtomicBool::new(false);
    thread::scope(|scope| {
        let (to_client, arriving) = sync_channel(UNDER_WAY);
        let (to_server, leaving) = sync_channel(UNDER_WAY);
        let (server, closed) = (&server, &closed);
        scope.spawn(move || deliver(&arriving, client, &shared.delivered));
        scope.spawn(move || deliver(&leaving, server, &AtomicU64::new(0)));
        scope.spawn(move || {
            take_from_client(shared, client, &to_server);
            closed.store(true, Ordering::SeqCst);
        });
        let end = take_from_server(shared, server, closed, &to_client);
        drop(to_client);
        if end == End::Cut {
            // Chunks that were sent before the cut still arrive.
            thread::sleep(shared.line.latency);
            let _ = server.shutdown(Shutdown::Both);
            let _ = client.shutdown(Shutdown::Read);
        }
    });
    Ok(())
}

/// Reads the head of an HTTP request and answers.
fn refuse(mut client: &TcpStream, answer: &str) -> io::Result<()> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    client.write_all(answer.as_bytes())?;
    client.shutdown(Shutdown::Write)?;
    // A connection with unread bytes is reset, and the answer may be lost.
    io::copy(&mut client, &mut io::sink()).map(drop)
}

/// Writes the chunks at their arrival times, counts their bytes, and passes on the end of the
/// stream.
fn deliver(chunks: &Receiver<Chunk>, mut to: &TcpStream, counter: &AtomicU64) {
    while let Ok((due, chunk)) = chunks.recv() {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&chunk).is_err() {
            // The sender detects that there is no receiver any more.
            return;
        }
        counter.fetch_add(chunk.len() as u64, Ordering::SeqCst);
    }
    let _ = to.shutdown(Shutdown::Write);
}

fn take_from_client(shared: &Shared, mut client: &TcpStream, to: &SyncSender<Chunk>) {
    let mut buffer = vec![0; CHUNK];
    while let Some(chunk) = read(&mut client, &mut buffer) {
        shared.sent.fetch_add(chunk.len() as u64, Ordering::SeqCst);
        let due = shared.arrival(Direction::FromClient, chunk.len());
        if to.send((due, chunk.to_vec())).is_err() {
            return;
        }
    }
}

/// The reason for the end of the bytes from a server.
#[derive(PartialEq, Eq)]
enum End {
    /// The server or the client ended the connection.
    Natural,
    Cut,
}

fn take_from_server(
    shared: &Shared,
    mut server: &TcpStream,
    closed: &AtomicBool,
    to: &SyncSender<Chunk>,
) -> End {
    let mut buffer = vec![0; CHUNK];
    let mut before = 0;
    while let Some(chunk) = read(&mut server, &mut buffer) {
        let mut chunk = chunk.to_vec();
        let fault = shared.pass(before, chunk.len());
        before += chunk.len() as u64;
        let end = match fault {
            Some((Fault::Corrupt, place)) => {
                chunk[place] ^= 0xff;
                None
            }
            Some((fault, place)) => {
                chunk.truncate(place);
                Some(fault)
            }
            None => None,
        };
        shared.received.fetch_add(chunk.len() as u64, Ordering::SeqCst);
        let due = shared.arrival(Direction::FromServer, chunk.len());
        let lost = to.send((due, chunk)).is_err();
        match end {
            Some(Fault::Stall) => {
                while !closed.load(Ordering::SeqCst) && !shared.over.load(Ordering::SeqCst) {
                    thread::sleep(Duration::from_millis(10));
                }
                return End::Cut;
            }
            Some(_) => return End::Cut,
            None if lost => return End::Cut,
            None => {}
        }
    }
    End::Natural
}

/// Returns the next bytes; `None` at the end, and after an error.
fn read<'b>(from: &mut &TcpStream, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    loop {
        match from.read(buffer) {
            Ok(0) => return None,
            Ok(length) => return Some(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}
