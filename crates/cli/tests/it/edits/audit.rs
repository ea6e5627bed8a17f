//! Determines why Git, which trusts its monitor daemon and its caches, returns a wrong result: the
//! daemon missed a change, or sapwood wrote a misleading index.
//!
//! Before sapwood runs, Git is run with its caches. If its result is wrong, the caches are
//! discarded, so sapwood starts from an index that misleads no program. If Git is then wrong about
//! a path that has not changed meanwhile, sapwood's index is at fault. If sapwood was the last
//! writer, and the daemon reports a path that Git is wrong about, sapwood's index is at fault too.
//! Without the daemon the cause is not determined: wrong results of Git with its caches are only
//! counted.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, BufReader, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::PathBuf,
    time::{Duration, UNIX_EPOCH},
};

use bstr::{BStr, BString, ByteSlice as _};
use format::pkt::{self, Header};
use testkit::Repo;

use super::verifier::{PLAIN, copy_index};

/// The program that wrote the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writer {
    Git,
    Sapwood,
}

pub(super) struct Audit<'a> {
    repo: &'a Repo<'a>,
    /// Git's daemon reports changes.
    has_daemon: bool,
    writer: Writer,
    /// The bytes of the index after the last command.
    index: Option<Vec<u8>>,
    /// The number of times that Git with its caches was wrong and the caches were discarded.
    pub(super) git_was_wrong: usize,
}

/// A status command that uses the untracked cache and all flags of the entries.
const ALL: [&str; 4] = ["status", "--porcelain=v2", "-z", "--no-renames"];

/// The daemon sometimes responds before it has received all events.
const ATTEMPTS: usize = 3;

impl<'a> Audit<'a> {
    pub(super) fn new(repo: &'a Repo<'a>, has_daemon: bool) -> Self {
        Audit { repo, has_daemon, writer: Writer::Git, index: None, git_was_wrong: 0 }
    }

    /// Ensures that the index misleads no program from here on. Returns an error if sapwood wrote a
    /// misleading index.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        if self.has_daemon {
            let mut wrong = self.misled();
            if !wrong.is_empty() && self.writer == Writer::Sapwood {
                let named = self.named_by_daemon();
                wrong.retain(|path| named.iter().any(|name| are_related(name, path)));
                // Run Git once more, now that the daemon has reported these paths.
                let again = if wrong.is_empty() { BTreeSet::new() } else { self.misled() };
                wrong.retain(|path| again.contains(path));
                if !wrong.is_empty() {
                    return Err(format!(
                        "Git's daemon names {wrong:?}, and Git is wrong about it all the same"
                    ));
                }
            }
            if !wrong.is_empty() || !self.misled().is_empty() {
                self.forgive();
            }
        }
        self.index = self.bytes();
        Ok(())
    }

    /// Checks the index after a command of `writer`, during which the paths in `happened` changed.
    /// Returns an error if sapwood wrote an index that misleads Git.
    pub(super) fn verify(&mut self, writer: Writer, happened: &[BString]) -> Result<(), String> {
        let now = self.bytes();
        let before = std::mem::replace(&mut self.index, now);
        if before == self.index {
            return Ok(());
        }
        self.writer = writer;
        if writer == Writer::Git || !self.has_daemon {
            return Ok(());
        }
        let mut wrong = self.misled();
        wrong.retain(|path| !happened.iter().any(|name| are_related(name, path)));
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(format!("what sapwood wrote misleads Git about {wrong:?}"))
        }
    }

    /// Discards Git's caches after a wrong result: everything in the index except the entries.
    pub(super) fn forgive(&mut self) {
        self.git_was_wrong += 1;
        // With the daemon and an untracked cache, Git aborts with a BUG message if the root
        // directory was touched, and leaves its lock.
        let _ = fs::remove_file(self.repo.join(".git/index.lock"));
        self.repo.git(&[&PLAIN[1..], &["update-index", "--force-write-index"]].concat());
        self.writer = Writer::Git;
        self.index = self.bytes();
    }

    fn bytes(&self) -> Option<Vec<u8>> {
        fs::read(self.repo.join(".git/index")).ok()
    }

    /// Returns the paths that Git with its caches reports wrongly in every attempt. Returns none if
    /// Git aborts.
    fn misled(&self) -> BTreeSet<BString> {
        let copy = copy_index(self.repo, "audit", Some(UNIX_EPOCH + Duration::from_secs(1)));
        let mut plain = self.repo.git_command();
        let plain = plain.env("GIT_INDEX_FILE", copy).args(PLAIN).args(ALL).output().expect("it starts");
        let mut wrong = None;
        for _ in 0..ATTEMPTS {
            let mut git = self.repo.git_command();
            let said = git.env("GIT_OPTIONAL_LOCKS", "0").args(ALL).output().expect("it starts");
            if said.status.code() != plain.status.code() {
                return BTreeSet::new();
            }
            let now = records(&said.stdout);
            let now: BTreeSet<BString> =
                now.symmetric_difference(&records(&plain.stdout)).map(path_of).collect();
            let kept = match wrong.take() {
                None => now,
                Some(before) => &before & &now,
            };
            if kept.is_empty() {
                return kept;
            }
            wrong = Some(kept);
        }
        wrong.unwrap_or_default()
    }

    /// Returns the paths that the daemon reports since the token in the index. Returns none if the
    /// daemon does not respond.
    fn named_by_daemon(&self) -> Vec<BString> {
        let Some(token) = self.bytes().and_then(|index| token(&index)) else { return Vec::new() };
        let socket = self.repo.join(".git/fsmonitor--daemon.ipc");
        let said = ask(socket, token.as_bstr()).unwrap_or_default();
        said.split(|byte| *byte == 0).skip(1).filter(|name| !name.is_empty()).map(BString::from).collect()
    }
}

/// Returns true if the paths are equal or one is inside the other; `/` contains every path.
fn are_related(one: &BString, other: &BString) -> bool {
    let [one, other] = [one, other].map(|path| path.trim_end_with(|letter| letter == '/'));
    let is_in = |inner: &[u8], outer: &[u8]| {
        outer.is_empty()
            || inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    };
    is_in(one, other) || is_in(other, one)
}

fn records(said: &[u8]) -> BTreeSet<BString> {
    said.split(|byte| *byte == 0).filter(|record| !record.is_empty()).map(BString::from).collect()
}

fn path_of(record: &BString) -> BString {
    let fields = match record[0] {
        b'1' => 9,
        b'u' => 11,
        _ => 2,
    };
    record.splitn(fields, |byte| *byte == b' ').last().expect("there is one").into()
}

/// Returns the token of version 2 of the extension.
fn token(index: &[u8]) -> Option<BString> {
    let at = index.rfind(b"FSMN\0")?;
    let rest = index.get(at + 12..)?;
    Some(rest[..rest.find_byte(0)?].into())
}

fn ask(socket: PathBuf, token: &BStr) -> io::Result<Vec<u8>> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut question = Vec::new();
    pkt::write_line(&mut question, token);
    pkt::write_flush(&mut question);
    stream.write_all(&question)?;
    let (mut stream, mut said) = (BufReader::new(stream), Vec::new());
    loop {
        let mut digits = [0; 4];
        stream.read_exact(&mut digits)?;
        match pkt::parse_header(digits) {
            Some(Header::Data(length)) => {
                let start = said.len();
                said.resize(start + length, 0);
                stream.read_exact(&mut said[start..])?;
            }
            _ => return Ok(said),
        }
    }
}
