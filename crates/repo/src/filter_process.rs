//! A long-running filter: the client's side of Git's protocol, version 2.
//!
//! Source: gitattributes(5), "Long Running Filter Process". The process is started once and serves
//! one file after another. Its responses are packets.

use std::{
    collections::HashMap,
    io::{self, BufReader, Read as _, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::Mutex,
};

use bstr::{BStr, BString, ByteSlice};
use sys::File;

use crate::error::ConvertError;

/// The longest payload of a packet.
const MAX_DATA: usize = 65516;
/// The longest payload of a packet with a line that Git reads.
const MAX_LINE: usize = 65519;
/// Packets are written in batches of about this many bytes.
const BATCH: usize = 1 << 20;

/// The content that a filter gets.
#[derive(Clone, Copy)]
pub(crate) enum Input<'a> {
    Bytes(&'a [u8]),
    /// An open file, from its position to its end.
    File(&'a File),
}

impl Input<'_> {
    /// Passes the content on in pieces of at most `most` bytes. A signal stops it after the next
    /// piece.
    pub(crate) fn each(self, most: usize, take: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let file = match self {
            Input::Bytes(bytes) => {
                return bytes.chunks(most).try_for_each(|chunk| {
                    sys::interrupt::check()?;
                    take(chunk)
                });
            }
            Input::File(file) => file,
        };
        let mut room = vec![0; most];
        loop {
            sys::interrupt::check()?;
            match (&*file).read(&mut room)? {
                0 => return Ok(()),
                read => take(&room[..read])?,
            }
        }
    }
}

/// The long-running processes by command. Each is started once, serves one caller at a time, and
/// ends with the repository.
#[derive(Default)]
pub(crate) struct Processes(pub(crate) Mutex<HashMap<BString, Process>>);

/// A running process.
pub(crate) struct Process {
    child: Child,
    /// The pipes of the process; `None` once it is being stopped.
    pipes: Option<(ChildStdin, BufReader<ChildStdout>)>,
    pub(crate) clean: bool,
    pub(crate) smudge: bool,
    pub(crate) delay: bool,
}

/// The reason why the process could not be started.
#[derive(Debug)]
pub(crate) enum NotStarted {
    /// Messages without `error: `. The content is left unchanged.
    Failed(Vec<String>),
    /// An error that makes Git exit.
    Fatal(ConvertError),
}

/// The reason why a running process is of no more use.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// It has ended, or breaks the protocol in a way that Git treats as a failure of one file.
    Failed,
    /// Git's message for a response that is no packet. Git exits, whether the filter is required or
    /// not.
    Fatal(String),
}

impl From<io::Error> for Broken {
    /// Converts an error of writing: the process has ended, or does not read.
    fn from(_: io::Error) -> Broken {
        Broken::Failed
    }
}

/// The filter's response for a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Content(Vec<u8>),
    Delayed,
    /// The filter refuses this file.
    Error,
    /// The filter refuses all further files of this kind.
    Abort,
}

impl Process {
    /// Starts the process and negotiates its capabilities.
    pub(crate) fn start(mut command: Command, text: &BStr) -> Result<Process, NotStarted> {
        sys::interrupt::install();
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned
            .map_err(|_| NotStarted::Failed(vec![format!("cannot fork to run subprocess '{text}'")]))?;
        let stdin = child.stdin.take().expect("asked to be piped");
        let stdout = BufReader::new(child.stdout.take().expect("asked to be piped"));
        let pipes = Some((stdin, stdout));
        let mut process = Process { child, pipes, clean: false, smudge: false, delay: false };
        match process.handshake(text) {
            Ok(()) => Ok(process),
            Err(NotStarted::Failed(mut lines)) => {
                process.stop();
                lines.push(format!("initialization for subprocess '{text}' failed"));
                Err(NotStarted::Failed(lines))
            }
            Err(fatal) => Err(fatal),
        }
    }

    fn handshake(&mut self, text: &BStr) -> Result<(), NotStarted> {
        let failed = |line: String| NotStarted::Failed(vec![line]);
        let unread = |what: &str| {
            let message = format!("could not read {what} from subprocess '{text}'");
            move |broken| match broken {
                Broken::Failed => failed(message),
                Broken::Fatal(message) => NotStarted::Fatal(ConvertError::Protocol(message)),
            }
        };
        let other = |line: &Option<BString>, expected: &str| {
            let line = line.as_ref().map_or_else(|| "<flush packet>".to_owned(), ToString::to_string);
            failed(format!("Unexpected line '{line}', expected {expected}"))
        };
        // A process that does not read may still have written: its greeting decides.
        let _ = self.lines(&["git-filter-client", "version=2"]);
        let line = self.line().map_err(unread("greeting"))?;
        if line != Some("git-filter-server".into()) {
            return Err(other(&line, "git-filter-server"));
        }
        let line = self.line().map_err(unread("version"))?;
        let version =
            line.as_ref().and_then(|line| line.strip_prefix(b"version=")?.to_str().ok()?.parse().ok());
        let version: i32 = version.ok_or_else(|| other(&line, "version"))?;
        let line = self.line().map_err(unread("version flush"))?;
        if line.is_some() {
            return Err(other(&line, "flush"));
        }
        if version != 2 {
            return Err(failed(format!("Version {version} not supported")));
        }
        self.lines(&["capability=clean", "capability=smudge", "capability=delay"])
            .map_err(|_| failed("Could not write requested capability".into()))?;
        while let Some(line) = self.line().map_err(unread("capabilities"))? {
            match line.strip_prefix(b"capability=") {
                Some(b"clean") => self.clean = true,
                Some(b"smudge") => self.smudge = true,
                Some(b"delay") => self.delay = true,
                Some(other) => {
                    return Err(NotStarted::Fatal(ConvertError::Capability {
                        command: text.to_owned(),
                        capability: other.into(),
                    }));
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Sends a file and waits for the response. `header` holds the lines before the content.
    pub(crate) fn ask(&mut self, header: &[BString], content: Input<'_>) -> Result<Answer, Broken> {
        let mut packets = Vec::new();
        for line in header {
            packet(&mut packets, &[line, b"\n"]);
        }
        packets.extend_from_slice(b"0000");
        let sent = content.each(MAX_DATA, &mut |chunk| {
            packet(&mut packets, &[chunk]);
            if packets.len() > BATCH {
                self.write(&packets)?;
                packets.clear();
            }
            Ok(())
        });
        packets.extend_from_slice(b"0000");
        let sent = sent.and_then(|()| self.write(&packets));
        sys::interrupt::check()?;
        // A process that does not read may still have written something that is no packet.
        let status = self.status(BString::default());
        let status = status?;
        sent?;
        match status.as_slice() {
            b"success" => {}
            b"delayed" => return Ok(Answer::Delayed),
            b"error" => return Ok(Answer::Error),
            b"abort" => return Ok(Answer::Abort),
            _ => return Err(Broken::Failed),
        }
        let mut bytes = Vec::new();
        while let Some(packet) = self.packet(MAX_DATA)? {
            bytes.try_reserve(packet.len()).map_err(io::Error::from)?;
            bytes.extend_from_slice(&packet);
        }
        // An empty list keeps the earlier status.
        match self.status("success".into())?.as_slice() {
            b"success" => Ok(Answer::Content(bytes)),
            b"error" => Ok(Answer::Error),
            b"abort" => Ok(Answer::Abort),
            _ => Err(Broken::Failed),
        }
    }

    /// Returns the delayed files that are ready now; `None` if the process reported an error.
    pub(crate) fn available(&mut self) -> Result<Option<Vec<BString>>, Broken> {
        self.lines(&["command=list_available_blobs"])?;
        let mut paths = Vec::new();
        // Unlike elsewhere, Git exits if the process ends here.
        let ended = |broken| match broken {
            Broken::Failed => Broken::Fatal("the remote end hung up unexpectedly".to_owned()),
            fatal @ Broken::Fatal(_) => fatal,
        };
        while let Some(line) = self.line().map_err(ended)? {
            paths.extend(line.strip_prefix(b"pathname=").map(BString::from));
        }
        match self.status(BString::default())?.as_slice() {
            b"success" => Ok(Some(paths)),
            b"error" => Ok(None),
            _ => Err(Broken::Failed),
        }
    }

    /// Ends a process that may not notice that its pipes are closed.
    pub(crate) fn stop(self) {
        sys::terminate(&self.child);
    }

    fn lines(&mut self, lines: &[&str]) -> io::Result<()> {
        let mut packets = Vec::new();
        for line in lines {
            packet(&mut packets, &[line.as_bytes(), b"\n"]);
        }
        packets.extend_from_slice(b"0000");
        self.write(&packets)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let (stdin, _) = self.pipes.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        stdin.write_all(bytes)?;
        stdin.flush()
    }

    /// Returns the last `status=` before the flush, or `before` if there is none.
    fn status(&mut self, before: BString) -> Result<BString, Broken> {
        let mut status = before;
        while let Some(line) = self.line()? {
            if let Some(value) = line.strip_prefix(b"status=") {
                status = value.into();
            }
        }
        Ok(status)
    }

    /// Reads a line without its line feed. To Git, an empty line ends a list.
    fn line(&mut self) -> Result<Option<BString>, Broken> {
        let packet = self.packet(MAX_LINE)?;
        Ok(packet
            .map(|mut line| {
                if line.ends_with(b"\n") {
                    line.pop();
                }
                line.into()
            })
            .filter(|line: &BString| !line.is_empty()))
    }

    /// Reads a packet of at most `longest` bytes. `None` is a flush or another packet without
    /// content.
    fn packet(&mut self, longest: usize) -> Result<Option<Vec<u8>>, Broken> {
        let (_, stdout) = self.pipes.as_mut().ok_or(Broken::Failed)?;
        let mut header = [0; 4];
        stdout.read_exact(&mut header).map_err(unread)?;
        let digits = header.iter().map(|digit| char::from(*digit).to_digit(16));
        let len = digits.collect::<Option<Vec<u32>>>();
        let len = len.map(|digits| digits.iter().fold(0, |len, digit| len << 4 | *digit as usize));
        match len {
            None => {
                let text = header.split(|byte| *byte == 0).next().unwrap_or_default().as_bstr();
                Err(Broken::Fatal(format!("protocol error: bad line length character: {text}")))
            }
            Some(0..=2 | 4) => Ok(None),
            Some(3) => Err(Broken::Fatal("protocol error: bad line length 3".to_owned())),
            Some(len) if len - 4 > longest => {
                Err(Broken::Fatal(format!("protocol error: bad line length {}", len - 4)))
            }
            Some(len) => {
                let mut bytes = vec![0; len - 4];
                stdout.read_exact(&mut bytes).map_err(unread)?;
                Ok(Some(bytes))
            }
        }
    }
}

impl Drop for Process {
    /// Closes the pipes, which tells the process to stop, and waits for it.
    fn drop(&mut self) {
        self.pipes = None;
        // The exit status does not matter: all responses have arrived.
        let _ = self.child.wait();
    }
}

fn unread(error: io::Error) -> Broken {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Broken::Failed,
        _ => Broken::Fatal(format!("read error: {}", sys::reason(&error))),
    }
}

fn packet(out: &mut Vec<u8>, parts: &[&[u8]]) {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    out.extend_from_slice(format!("{:04x}", len + 4).as_bytes());
    for part in parts {
        out.extend_from_slice(part);
    }
}
