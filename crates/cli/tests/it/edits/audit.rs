//! Whose fault it is that Git, which believes its daemon and its caches, is wrong: the daemon's that missed something, or sapwood's that wrote what
//! misleads.
//!
//! Before sapwood does something Git is asked, and where it is wrong its caches are thrown away; so it begins with an index that misleads
//! nobody. If Git is wrong afterwards about what did not happen meanwhile, sapwood wrote it. And if sapwood was the last to write, the daemon that missed nothing (it
//! names what Git is wrong about) is no excuse either. Without the daemon nobody is asked whose fault it is: what Git with its caches says wrongly there is
//! forgiven, and counted.

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

use super::judge::{PLAIN, copy_index};

/// Who wrote the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writer {
    Git,
    Sapwood,
}

pub(super) struct Audit<'a> {
    repo: &'a Repo<'a>,
    /// Git's daemon tells of changes.
    has_daemon: bool,
    writer: Writer,
    /// The index as it was last.
    index: Option<Vec<u8>>,
    /// Git with its caches was wrong, and they were thrown away.
    pub(super) git_was_wrong: usize,
}

/// What the untracked cache and all marks serve.
const ALL: [&str; 4] = ["status", "--porcelain=v2", "-z", "--no-renames"];

/// It answers before it has heard of everything at times.
const ATTEMPTS: usize = 3;

impl<'a> Audit<'a> {
    pub(super) fn new(repo: &'a Repo<'a>, has_daemon: bool) -> Self {
        Audit { repo, has_daemon, writer: Writer::Git, index: None, git_was_wrong: 0 }
    }

    /// From here on nobody is misled by what is in the index. An error if that was sapwood's doing.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        if self.has_daemon {
            let mut wrong = self.misled();
            if !wrong.is_empty() && self.writer == Writer::Sapwood {
                let named = self.named_by_daemon();
                wrong.retain(|path| named.iter().any(|name| are_related(name, path)));
                // Now that the daemon tells of them.
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

    /// `writer` has done something, and `happened` to files meanwhile. An error if it is sapwood and misleads.
    pub(super) fn judge(&mut self, writer: Writer, happened: &[BString]) -> Result<(), String> {
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
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(format!("what sapwood wrote misleads Git about {wrong:?}")),
        }
    }

    /// Git with its caches was wrong: what was written of the worktree beside the entries goes.
    pub(super) fn forgive(&mut self) {
        self.git_was_wrong += 1;
        // With the daemon and an untracked cache it ends itself by a BUG where the top of the worktree was touched, and leaves its lock.
        let _ = fs::remove_file(self.repo.join(".git/index.lock"));
        self.repo.git(&[&PLAIN[1..], &["update-index", "--force-write-index"]].concat());
        self.writer = Writer::Git;
        self.index = self.bytes();
    }

    fn bytes(&self) -> Option<Vec<u8>> {
        fs::read(self.repo.join(".git/index")).ok()
    }

    /// What Git, with its caches, is wrong about however often it is asked. Nothing if it ends itself.
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

    /// What happened since the token that stands in the index. Nothing if it does not answer.
    fn named_by_daemon(&self) -> Vec<BString> {
        let Some(token) = self.bytes().and_then(|index| token(&index)) else { return Vec::new() };
        let socket = self.repo.join(".git/fsmonitor--daemon.ipc");
        let said = ask(socket, token.as_bstr()).unwrap_or_default();
        said.split(|byte| *byte == 0).skip(1).filter(|name| !name.is_empty()).map(BString::from).collect()
    }
}

/// Whether one is the other, or in it; everything is in `/`.
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

/// The token of the extension, version 2.
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
