//! Git's own monitor, `git fsmonitor--daemon`: one query to its socket, in packet lines. sapwood
//! starts the daemon if it is not running.
//!
//! Every wait is bounded: a daemon that does not listen within a second, or does not respond within
//! a minute, counts as failed.

use std::{
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsFd as _, AsRawFd as _},
        unix::net::UnixStream,
    },
    path::Path,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use bstr::{BStr, BString};
use engine::monitor::Response;
use format::pkt::{self, Header};
use sys::by_path;

use crate::{events::Events, notice::Notice, trace};

/// Time limit for a daemon to listen after its start, or while it is busy.
const LISTENS_WITHIN: Duration = Duration::from_secs(1);

/// Time limit for a socket without a listener. A starting daemon listens as soon as it has created
/// the socket. Git waits as long as for a busy daemon, although a busy daemon does not refuse;
/// after the daemon was killed, every command would then wait a second.
const REFUSES_WITHIN: Duration = Duration::from_millis(100);

/// Time limit for the response. The daemon waits at most a second for the file system's events.
const RESPONDS_WITHIN: Duration = Duration::from_secs(60);

/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// The token to send if the index contains none. No daemon accepts it as its own.
const NO_TOKEN: &str = "builtin:fake";

/// How to treat a socket that does not exist or refuses connections.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Ends,
    MayCome,
}

/// Queries the changes since `token`.
pub(super) fn query(events: &dyn Events, socket: &Path, token: Option<BString>) -> Response {
    trace::region("fsm_client", "query");
    let token = token.unwrap_or_else(|| NO_TOKEN.into());
    let response = connect(events, socket).and_then(|stream| match exchange(stream, token.as_ref()) {
        Ok(response) => {
            trace::data(1, "fsm_client", "query/response-length", &response.len().to_string());
            Some(response)
        }
        Err(_) => {
            events.notice(Notice::DaemonSilent);
            None
        }
    });
    response.and_then(|response| Response::parse(&response)).unwrap_or_else(|| Response::none(NO_TOKEN))
}

/// Connects to the daemon, and starts it if necessary.
fn connect(events: &dyn Events, socket: &Path) -> Option<UnixStream> {
    let path = || socket.as_os_str().as_encoded_bytes().into();
    let unspecified = || events.notice(Notice::DaemonUnreachable(path()));
    match attempts(socket, Missing::Ends) {
        Ok(Some(stream)) => return Some(stream),
        Ok(None) => {}
        Err(_) => {
            unspecified();
            return None;
        }
    }
    if !start(events) {
        return None;
    }
    // The new daemon cannot report earlier changes, but it records those from now on.
    attempts(socket, Missing::MayCome).unwrap_or_else(|_| {
        unspecified();
        None
    })
}

fn start(events: &dyn Events) -> bool {
    const WORDS: [&str; 3] = ["git", "fsmonitor--daemon", "start"];
    let Some(mut command) = events.git() else { return false };
    command.args(&WORDS[1..]);
    trace::child("fsmonitor", &WORDS);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Connects, and retries while a daemon may still start to listen. Returns `None` if no daemon
/// listens.
fn attempts(socket: &Path, missing: Missing) -> io::Result<Option<UnixStream>> {
    let begun = Instant::now();
    loop {
        match open(socket) {
            Ok(stream) => return Ok(Some(stream)),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound if missing == Missing::Ends => return Ok(None),
                io::ErrorKind::ConnectionRefused
                    if missing == Missing::Ends && begun.elapsed() >= REFUSES_WITHIN =>
                {
                    return Ok(None);
                }
                io::ErrorKind::NotFound | io::ErrorKind::TimedOut | io::ErrorKind::ConnectionRefused => {}
                _ => return Err(error),
            },
        }
        if begun.elapsed() >= LISTENS_WITHIN {
            return Ok(None);
        }
        thread::sleep(PAUSE);
    }
}

/// Returns true if a daemon listens at `socket`. Starts none, and sends no query.
pub fn is_running(socket: &Path) -> bool {
    open(socket).is_ok()
}

/// Connects to the socket. A path longer than a socket address is reached through its directory.
fn open(socket: &Path) -> io::Result<UnixStream> {
    const LONGEST: usize = 107;
    match (socket.as_os_str().len() > LONGEST, socket.parent(), socket.file_name()) {
        (true, Some(parent), Some(name)) => {
            let dir = by_path::open(parent)?;
            UnixStream::connect(
                Path::new("/proc/self/fd").join(dir.as_fd().as_raw_fd().to_string()).join(name),
            )
        }
        _ => UnixStream::connect(socket),
    }
}

/// Sends the token, and reads until the flush packet that ends the response.
fn exchange(mut stream: UnixStream, token: &BStr) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(RESPONDS_WITHIN))?;
    stream.set_write_timeout(Some(RESPONDS_WITHIN))?;
    let mut request = Vec::new();
    token.chunks(pkt::MAX_PAYLOAD).for_each(|chunk| pkt::write_line(&mut request, chunk));
    pkt::write_flush(&mut request);
    stream.write_all(&request)?;
    let mut response = Vec::new();
    let mut stream = io::BufReader::new(stream);
    loop {
        let mut digits = [0; 4];
        stream.read_exact(&mut digits)?;
        match pkt::parse_header(digits) {
            Some(Header::Flush) => return Ok(response),
            Some(Header::Data(length)) => {
                let start = response.len();
                response.resize(start + length, 0);
                stream.read_exact(&mut response[start..])?;
            }
            _ => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}
