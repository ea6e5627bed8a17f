//! A long-running filter: the client's side of Git's protocol, version 2.
//!
//! Source: gitattributes(5), "Long Running Filter Process". The process is started once and serves
//! one file after another. Its responses are packets.

use std::{
    io::{self, BufReader, Read as _, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use bstr::{BStr, BString, ByteSlice};

use crate::ConvertError;

/// The longest payload of a packet.
const MAX_DATA: usize = 65516;

/// A running process.
pub(super) struct Process {
    child: Child,
    /// The pipes of the process; `None` once it is being stopped.
    pipes: Option<(ChildStdin, BufReader<ChildStdout>)>,
    pub(super) clean: bool,
    pub(super) smudge: bool,
    pub(super) delay: bool,
}

/// The reason why the process could not be started.
#[derive(Debug)]
pub(super) enum NotStarted {
    /// Messages without `error: `. The content is left unchanged.
    Failed(Vec<String>),
    /// An error that makes Git exit.
    Fatal(ConvertError),
}

/// The filter's response for a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Content(Vec<u8>),
    Delayed,
    /// The filter refuses this file.
    Error,
    /// The filter refuses all further files of this kind.
    Abort,
}

impl Process {
    /// Starts the process and negotiates its capabilities.
    pub(super) fn start(mut command: Command, text: &BStr) -> Result<Process, NotStarted> {
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = spawned
            .map_err(|_| NotStarted::Failed(vec![format!("cannot fork to run subprocess '{text}'")]))?;
        let stdin = child.stdin.take().expect("asked to be piped");
        let stdout = BufReader::new(child.stdout.take().expect("asked to be piped"));
        let pipes = Some((stdin, stdout));
        let mut process = Process { child, pipes, clean: false, smudge: false, delay: false };
        process.handshake(text).map_err(|reason| match reason {
            NotStarted::Failed(mut lines) => {
                lines.push(format!("initialization for subprocess '{text}' failed"));
                NotStarted::Failed(lines)
            }
            fatal => fatal,
        })?;
        Ok(process)
    }

    fn handshake(&mut self, text: &BStr) -> Result<(), NotStarted> {
        let failed = |line: String| NotStarted::Failed(vec![line]);
        let unread = |what: &str| failed(format!("could not read {what} from subprocess '{text}'"));
        let other = |line: &Option<BString>, expected: &str| {
            let line = line.as_ref().map_or_else(|| "<flush packet>".to_owned(), ToString::to_string);
            failed(format!("Unexpected line '{line}', expected {expected}"))
        };
        self.lines(&["git-filter-client", "version=2"])
            .map_err(|_| failed("Could not write client identification".into()))?;
        let line = self.line().map_err(|_| unread("greeting"))?;
        if line != Some("git-filter-server".into()) {
            return Err(other(&line, "git-filter-server"));
        }
        let line = self.line().map_err(|_| unread("version"))?;
        let version =
            line.as_ref().and_then(|line| line.strip_prefix(b"version=")?.to_str().ok()?.parse().ok());
        let version: i32 = version.ok_or_else(|| other(&line, "version"))?;
        let line = self.line().map_err(|_| unread("version flush"))?;
        if line.is_some() {
            return Err(other(&line, "flush"));
        }
        if version != 2 {
            return Err(failed(format!("Version {version} not supported")));
        }
        self.lines(&["capability=clean", "capability=smudge", "capability=delay"])
            .map_err(|_| failed("Could not write requested capability".into()))?;
        while let Some(line) = self.line().map_err(|_| unread("capabilities"))? {
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
    pub(super) fn ask(&mut self, header: &[BString], content: &[u8]) -> io::Result<Answer> {
        let mut packets = Vec::with_capacity(content.len() + 256);
        for line in header {
            packet(&mut packets, &[line, b"\n"]);
        }
        packets.extend_from_slice(b"0000");
        for chunk in content.chunks(MAX_DATA) {
            packet(&mut packets, &[chunk]);
        }
        packets.extend_from_slice(b"0000");
        self.write(&packets)?;
        match self.status(BString::default())?.as_slice() {
            b"success" => {}
            b"delayed" => return Ok(Answer::Delayed),
            b"error" => return Ok(Answer::Error),
            b"abort" => return Ok(Answer::Abort),
            _ => return Err(unexpected("status")),
        }
        let mut bytes = Vec::new();
        while let Some(packet) = self.packet()? {
            bytes.extend_from_slice(&packet);
        }
        // An empty list keeps the earlier status.
        match self.status("success".into())?.as_slice() {
            b"success" => Ok(Answer::Content(bytes)),
            b"error" => Ok(Answer::Error),
            b"abort" => Ok(Answer::Abort),
            _ => Err(unexpected("status")),
        }
    }

    /// Returns the delayed files that are ready now; `None` if the process reported an error.
    pub(super) fn available(&mut self) -> io::Result<Option<Vec<BString>>> {
        self.lines(&["command=list_available_blobs"])?;
        let mut paths = Vec::new();
        while let Some(line) = self.line()? {
            paths.extend(line.strip_prefix(b"pathname=").map(BString::from));
        }
        match self.status(BString::default())?.as_slice() {
            b"success" => Ok(Some(paths)),
            b"error" => Ok(None),
            _ => Err(unexpected("status")),
        }
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
        let (stdin, _) = self.pipes.as_mut().ok_or_else(|| unexpected("end"))?;
        stdin.write_all(bytes)?;
        stdin.flush()
    }

    /// Returns the last `status=` before the flush, or `before` if there is none.
    fn status(&mut self, before: BString) -> io::Result<BString> {
        let mut status = before;
        while let Some(line) = self.line()? {
            if let Some(value) = line.strip_prefix(b"status=") {
                status = value.into();
            }
        }
        Ok(status)
    }

    fn line(&mut self) -> io::Result<Option<BString>> {
        Ok(self.packet()?.map(|mut line| {
            if line.ends_with(b"\n") {
                line.pop();
            }
            line.into()
        }))
    }

    /// Reads a packet; `None` is a flush.
    fn packet(&mut self) -> io::Result<Option<Vec<u8>>> {
        let (_, stdout) = self.pipes.as_mut().ok_or_else(|| unexpected("end"))?;
        let mut header = [0; 4];
        stdout.read_exact(&mut header)?;
        let len = header.to_str().ok().and_then(|hex| usize::from_str_radix(hex, 16).ok());
        match len {
            Some(0) => Ok(None),
            Some(len) if len >= 4 => {
                let mut bytes = vec![0; len - 4];
                stdout.read_exact(&mut bytes)?;
                Ok(Some(bytes))
            }
            _ => Err(unexpected("packet")),
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

fn unexpected(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("unexpected {what}"))
}

fn packet(out: &mut Vec<u8>, parts: &[&[u8]]) {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    out.extend_from_slice(format!("{:04x}", len + 4).as_bytes());
    for part in parts {
        out.extend_from_slice(part);
    }
}
