//! Talks to a `git-upload-pack` process: protocol version 2, as a client without any objects.
//!
//! Format: Git's `gitprotocol-v2(5)`. Order: [`Connection::open`] reads the capabilities,
//! [`Connection::list_refs`] requests refs, and [`Connection::fetch`] requests objects and turns
//! into the stream of the pack. Dropping the value waits for the process or kills it.

use std::{
    collections::{BTreeSet, HashMap},
    ffi::{OsStr, OsString},
    io::{self, BufReader, Read, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bstr::{BString, ByteSlice};
use format::{HashKind, ObjectId, pkt};

/// The reason why the conversation ended. Messages are Git's, without `fatal: `.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("unable to run '{command}'")]
    Spawn { command: String, source: io::Error },
    #[error(
        "Could not read from remote repository.\n\nPlease make sure you have the correct access rights\nand the repository exists."
    )]
    HungUp,
    #[error("remote error: {0}")]
    Remote(BString),
    #[error("protocol error: {0}")]
    Protocol(String),
    /// The server sent everything, and then failed.
    #[error("remote transport reported error")]
    Failed,
    #[error("protocol error while talking to upload-pack")]
    Io(#[source] io::Error),
}

/// A ref of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct RemoteRef {
    pub name: BString,
    pub oid: ObjectId,
    /// The target, if the ref is symbolic.
    pub symref: Option<BString>,
    /// The object that the tag leads to, if the ref names a tag object.
    pub peeled: Option<ObjectId>,
}

/// The answer to `ls-refs`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advertisement {
    /// The refs, in the server's order.
    pub refs: Vec<RemoteRef>,
    /// The branch that HEAD names, if it has no commit.
    pub unborn_head: Option<BString>,
}

/// Receives progress texts as they come, from any thread.
pub type Sideband<'a> = dyn Fn(&[u8]) + Sync + 'a;

/// Options of a fetch.
#[derive(Clone, Copy)]
pub struct FetchOptions<'a> {
    /// Request annotated tags of the sent objects too.
    pub include_tags: bool,
    /// Receives the texts of the server, unchanged: messages, and progress if it is requested.
    pub texts: &'a Sideband<'a>,
    /// Request progress.
    pub progress: bool,
    /// The requested part of the history.
    pub limits: &'a Limits,
}

/// The requested part of the history and its objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// `--depth`
    pub depth: Option<u32>,
    /// `--shallow-exclude`, in order.
    pub exclude: Vec<BString>,
    /// `--filter`, in the form that the server expects.
    pub filter: Option<BString>,
}

impl Limits {
    /// Returns true if the history is cut off.
    pub fn deepens(&self) -> bool {
        self.depth.is_some() || !self.exclude.is_empty()
    }
}

/// The data on a connection, for a trace.
#[derive(Clone, Copy, Debug)]
pub enum Packet<'a> {
    /// A sent line. It is empty for a flush (`0000`), delimiter or end.
    Sent(&'a [u8]),
    /// A received line.
    Received(&'a [u8]),
    /// A piece of the pack.
    Pack(&'a [u8]),
}

/// Receives all data of a connection, from any thread.
pub type Tracer = dyn Fn(Packet<'_>) + Send + Sync;

/// A running conversation with a server.
pub struct Connection {
    child: Reaper,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    hash: HashKind,
    capabilities: BTreeSet<BString>,
    tracer: Option<Arc<Tracer>>,
}

struct Reaper(Child);

impl Drop for Reaper {
    fn drop(&mut self) {
        // A process that still runs has no reader and writer any more, so it is killed.
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

impl Connection {
    /// Runs `command` on `repository` through the shell, as Git does, and reads the capabilities.
    /// Variables of the environment that describe another repository are removed.
    pub fn open(
        command: &OsStr,
        repository: &Path,
        environment: &std::collections::HashMap<std::ffi::OsString, std::ffi::OsString>,
        tracer: Option<Arc<Tracer>>,
    ) -> Result<Connection, Error> {
        let mut script = command.to_owned();
        script.push(" \"$1\"");
        let mut child = Command::new("sh")
            .arg("-c")
            .arg(script)
            .arg("sh")
            .arg(repository)
            .env_clear()
            .envs(environment.iter().filter(|(name, _)| !is_repository_variable(name)))
            .env("GIT_PROTOCOL", "version=2")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map(Reaper)
            .map_err(|source| Error::Spawn { command: command.to_string_lossy().into_owned(), source })?;
        let (Some(input), Some(output)) = (child.0.stdin.take(), child.0.stdout.take()) else {
            return Err(Error::HungUp);
        };
        let mut connection = Connection {
            child,
            input,
            output: BufReader::with_capacity(1 << 17, output),
            hash: HashKind::Sha1,
            capabilities: BTreeSet::new(),
            tracer,
        };
        connection.read_capabilities()?;
        Ok(connection)
    }

    /// Returns the hash of the server's object names.
    pub fn hash(&self) -> HashKind {
        self.hash
    }

    fn read_capabilities(&mut self) -> Result<(), Error> {
        let mut line = Vec::new();
        let first = self.read_line(&mut line)?;
        if !matches!(first, pkt::Header::Data(_)) || line.trim_ascii_end() != b"version 2" {
            return Err(Error::Protocol("upload-pack does not speak protocol version 2".into()));
        }
        while let pkt::Header::Data(_) = self.read_line(&mut line)? {
            let capability = line.trim_ascii_end();
            if let Some(name) = capability.strip_prefix(b"object-format=") {
                self.hash = match name {
                    b"sha1" => HashKind::Sha1,
                    b"sha256" => HashKind::Sha256,
                    other => {
                        return Err(Error::Protocol(format!(
                            "unknown object format '{}' specified by server",
                            other.as_bstr()
                        )));
                    }
                };
            }
            self.capabilities.insert(capability.into());
        }
        Ok(())
    }

    /// Returns true if `word` is among the space-separated values of the capability `name`.
    fn has_feature(&self, name: &str, word: &str) -> bool {
        let prefix = format!("{name}=");
        self.capabilities
            .iter()
            .filter_map(|capability| capability.strip_prefix(prefix.as_bytes()))
            .any(|values| values.split_str(" ").any(|value| value == word.as_bytes()))
    }

    /// Returns true if the server supports object filters.
    pub fn filters(&self) -> bool {
        self.has_feature("fetch", "filter")
    }

    fn begin(&self, command: &str) -> Vec<u8> {
        let mut request = Vec::new();
        pkt::write_line(&mut request, format!("command={command}\n").as_bytes());
        pkt::write_line(&mut request, concat!("agent=sapwood/", env!("CARGO_PKG_VERSION"), "\n").as_bytes());
        if self.capabilities.iter().any(|capability| capability.starts_with(b"object-format=")) {
            pkt::write_line(&mut request, format!("object-format={}\n", self.hash.name()).as_bytes());
        }
        pkt::write_delimiter(&mut request);
        request
    }

    fn read_line(&mut self, line: &mut Vec<u8>) -> Result<pkt::Header, Error> {
        let header = read_line(&mut self.output, line);
        if let Some(tracer) = &self.tracer {
            match &header {
                Ok(pkt::Header::Data(_)) | Err(Error::Remote(_)) => tracer(Packet::Received(line)),
                Ok(pkt::Header::Flush) => tracer(Packet::Received(b"0000")),
                Ok(pkt::Header::Delimiter) => tracer(Packet::Received(b"0001")),
                Ok(pkt::Header::ResponseEnd) => tracer(Packet::Received(b"0002")),
                Err(_) => {}
            }
        }
        header
    }

    fn send(&mut self, request: &[u8]) -> Result<(), Error> {
        if let Some(tracer) = &self.tracer {
            let mut rest = request;
            while let Some((digits, after)) = rest.split_first_chunk::<4>() {
                let length = match pkt::parse_header(*digits) {
                    Some(pkt::Header::Data(length)) => length,
                    _ => 0,
                };
                tracer(Packet::Sent(if length == 0 { digits } else { &after[..length] }));
                rest = &after[length..];
            }
        }
        self.input.write_all(request).and_then(|()| self.input.flush()).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Error::HungUp,
            _ => Error::Io(error),
        })
    }

    /// Requests the refs that begin with one of `prefixes`.
    pub fn list_refs(&mut self, prefixes: &[BString]) -> Result<Advertisement, Error> {
        let mut request = self.begin("ls-refs");
        pkt::write_line(&mut request, b"peel\n");
        pkt::write_line(&mut request, b"symrefs\n");
        if self.has_feature("ls-refs", "unborn") {
            pkt::write_line(&mut request, b"unborn\n");
        }
        for prefix in prefixes {
            pkt::write_line(&mut request, format!("ref-prefix {prefix}\n").as_bytes());
        }
        pkt::write_flush(&mut request);
        self.send(&request)?;

        let mut advertisement = Advertisement::default();
        let mut line = Vec::new();
        while let pkt::Header::Data(_) = self.read_line(&mut line)? {
            parse_ref(self.hash, line.trim_end_with(|c| c == '\n'), &mut advertisement)
                .ok_or_else(|| Error::Protocol(format!("invalid ls-refs response: {}", line.as_bstr())))?;
        }
        Ok(advertisement)
    }

    /// Requests all objects that are reachable from `wants`. The caller reads the pack from the
    /// returned value.
    pub fn fetch<'a>(
        mut self,
        wants: &[ObjectId],
        options: FetchOptions<'a>,
    ) -> Result<PackStream<'a>, Error> {
        let mut request = self.begin("fetch");
        if !options.progress {
            pkt::write_line(&mut request, b"no-progress\n");
        }
        if options.include_tags {
            pkt::write_line(&mut request, b"include-tag\n");
        }
        pkt::write_line(&mut request, b"ofs-delta\n");
        let limits = options.limits;
        if let Some(depth) = limits.depth {
            pkt::write_line(&mut request, format!("deepen {depth}\n").as_bytes());
        }
        for name in &limits.exclude {
            pkt::write_line(&mut request, format!("deepen-not {name}\n").as_bytes());
        }
        if let Some(filter) = limits.filter.as_ref().filter(|_| self.filters()) {
            pkt::write_line(&mut request, format!("filter {filter}\n").as_bytes());
        }
        for want in wants {
            pkt::write_line(&mut request, format!("want {want}\n").as_bytes());
        }
        pkt::write_line(&mut request, b"done\n");
        pkt::write_flush(&mut request);
        self.send(&request)?;

        let mut line = Vec::new();
        let mut shallow = Vec::new();
        loop {
            match self.read_line(&mut line)? {
                pkt::Header::Data(_) => {}
                other => return Err(Error::Protocol(format!("expected a section, found {other:?}"))),
            }
            match line.trim_ascii_end() {
                b"packfile" => break,
                b"shallow-info" => {
                    while let pkt::Header::Data(_) = self.read_line(&mut line)? {
                        let oid = line
                            .trim_ascii_end()
                            .strip_prefix(b"shallow ")
                            .and_then(|hex| ObjectId::from_hex(self.hash, hex))
                            .ok_or_else(|| {
                                Error::Protocol(format!("invalid shallow line: {}", line.as_bstr()))
                            })?;
                        shallow.push(oid);
                    }
                }
                other => return Err(Error::Protocol(format!("unexpected section '{}'", other.as_bstr()))),
            }
        }
        Ok(PackStream {
            child: self.child,
            input: self.input,
            output: self.output,
            texts: options.texts,
            aborted: Arc::default(),
            left: 0,
            over: false,
            shallow,
            tracer: self.tracer,
        })
    }
}

/// The pack of a fetch: the data band of the answer. The callback receives the progress band.
pub struct PackStream<'a> {
    child: Reaper,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    texts: &'a Sideband<'a>,
    aborted: Arc<AtomicBool>,
    left: usize,
    over: bool,
    shallow: Vec<ObjectId>,
    tracer: Option<Arc<Tracer>>,
}

impl PackStream<'_> {
    /// Returns the commits whose parents the server does not have.
    pub fn shallow(&self) -> &[ObjectId] {
        &self.shallow
    }

    /// Returns a flag that becomes true when the server aborts before the end of the pack.
    pub fn aborted(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.aborted)
    }

    /// Reads to the end of the answer and ends the conversation. It is an error if the server fails
    /// now.
    pub fn finish(mut self) -> Result<(), Error> {
        io::copy(&mut self, &mut io::sink()).map_err(Error::Io)?;
        let PackStream { mut child, mut input, output, .. } = self;
        let mut leave = Vec::new();
        pkt::write_flush(&mut leave);
        // The server may have exited already.
        let _ = input.write_all(&leave);
        drop((input, output));
        match child.0.wait().map_err(Error::Io)?.success() {
            true => Ok(()),
            false => Err(Error::Failed),
        }
    }

    /// Advances to the next bytes of the pack; returns false at the end.
    fn next_packet(&mut self) -> io::Result<bool> {
        while self.left == 0 && !self.over {
            let mut digits = [0; 4];
            self.output.read_exact(&mut digits)?;
            let length = match pkt::parse_header(digits) {
                Some(pkt::Header::Data(length)) if length > 0 => length,
                Some(pkt::Header::Flush | pkt::Header::Delimiter | pkt::Header::ResponseEnd) => {
                    self.over = true;
                    break;
                }
                _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "bad line length")),
            };
            let mut band = [0];
            self.output.read_exact(&mut band)?;
            if band[0] == 1 {
                self.left = length - 1;
                continue;
            }
            let mut text = vec![0; length - 1];
            self.output.read_exact(&mut text)?;
            match band[0] {
                2 => (self.texts)(&text),
                3 => {
                    (self.texts)(&[text.trim_ascii_end(), b"\n"].concat());
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "bad band")),
            }
        }
        Ok(!self.over)
    }
}

impl Read for PackStream<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let more = self.next_packet().inspect_err(|_| self.aborted.store(true, Ordering::Relaxed));
        if out.is_empty() || !more? {
            return Ok(0);
        }
        let wanted = out.len().min(self.left);
        let read = self.output.read(&mut out[..wanted])?;
        if read == 0 {
            self.aborted.store(true, Ordering::Relaxed);
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read;
        if let Some(tracer) = &self.tracer {
            tracer(Packet::Pack(&out[..read]));
        }
        Ok(read)
    }
}

fn read_line(from: &mut impl Read, line: &mut Vec<u8>) -> Result<pkt::Header, Error> {
    let hung_up = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => Error::HungUp,
        _ => Error::Io(error),
    };
    line.clear();
    let mut digits = [0; 4];
    from.read_exact(&mut digits).map_err(hung_up)?;
    let header = pkt::parse_header(digits)
        .ok_or_else(|| Error::Protocol(format!("bad line length character: {}", digits.as_bstr())))?;
    if let pkt::Header::Data(length) = header {
        line.resize(length, 0);
        from.read_exact(line).map_err(hung_up)?;
        if let Some(text) = line.strip_prefix(b"ERR ") {
            return Err(Error::Remote(text.trim_ascii_end().into()));
        }
    }
    Ok(header)
}

fn parse_ref(hash: HashKind, line: &[u8], into: &mut Advertisement) -> Option<()> {
    let mut words = line.split_str(" ");
    let value = words.next()?;
    let name: BString = words.next()?.into();
    let (mut symref, mut peeled) = (None, None);
    for attribute in words {
        if let Some(target) = attribute.strip_prefix(b"symref-target:") {
            symref = Some(BString::from(target));
        } else if let Some(hex) = attribute.strip_prefix(b"peeled:") {
            peeled = Some(ObjectId::from_hex(hash, hex)?);
        }
    }
    if value == b"unborn" {
        if name == "HEAD" {
            into.unborn_head = symref;
        }
    } else {
        into.refs.push(RemoteRef { name, oid: ObjectId::from_hex(hash, value)?, symref, peeled });
    }
    Some(())
}

/// Returns true if an environment variable describes the caller's repository: the list of `git
/// rev-parse --local-env-vars`.
fn is_repository_variable(name: &OsStr) -> bool {
    const NAMES: [&str; 16] = [
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_CONFIG",
        "GIT_CONFIG_PARAMETERS",
        "GIT_CONFIG_COUNT",
        "GIT_OBJECT_DIRECTORY",
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_IMPLICIT_WORK_TREE",
        "GIT_GRAFT_FILE",
        "GIT_INDEX_FILE",
        "GIT_NO_REPLACE_OBJECTS",
        "GIT_REPLACE_REF_BASE",
        "GIT_PREFIX",
        "GIT_SHALLOW_FILE",
        "GIT_COMMON_DIR",
        "GIT_INTERNAL_SUPER_PREFIX",
    ];
    NAMES.iter().any(|known| name == *known)
}

/// Returns the environment without the variables that describe one repository.
pub(crate) fn without_repository(env: &HashMap<OsString, OsString>) -> HashMap<OsString, OsString> {
    let kept = env.iter().filter(|(name, _)| !is_repository_variable(name));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

    #[test]
    fn parses_refs_with_attributes() {
        let mut found = Advertisement::default();
        for line in
            [format!("{A} HEAD symref-target:refs/heads/main"), format!("{A} refs/tags/v1 peeled:{A}")]
        {
            parse_ref(HashKind::Sha1, line.as_bytes(), &mut found).expect("valid");
        }
        let oid = ObjectId::from_hex(HashKind::Sha1, A.as_bytes()).expect("a full name");
        assert_eq!(found.refs[0].symref, Some("refs/heads/main".into()));
        assert_eq!(found.refs[1].peeled, Some(oid));
        assert_eq!(found.unborn_head, None);
    }

    #[test]
    fn parses_an_unborn_head_and_refuses_nonsense() {
        let mut found = Advertisement::default();
        parse_ref(HashKind::Sha1, b"unborn HEAD symref-target:refs/heads/trunk", &mut found).expect("valid");
        assert_eq!((found.unborn_head.as_ref(), found.refs.len()), (Some(&"refs/heads/trunk".into()), 0));
        for line in ["", "zz refs/heads/x", A, &format!("{A} x peeled:12")] {
            assert_eq!(parse_ref(HashKind::Sha1, line.as_bytes(), &mut found), None, "{line}");
        }
    }

    #[test]
    fn reports_a_missing_command() {
        let environment = std::env::vars_os().collect();
        let refused = Connection::open(OsStr::new("no-such-upload-pack"), Path::new("/"), &environment, None);
        assert!(matches!(refused, Err(Error::HungUp)));
    }
}
