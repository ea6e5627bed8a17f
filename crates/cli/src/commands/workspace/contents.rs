//! `sapwood workspace serve-contents <remote>`: gives plain Git the contents of bases. See
//! [`sapwood::workspace::contents`].
//!
//! The helper writes the blobs into the object database as one promisor pack. If some are in no
//! base, it ends without an answer. Git then keeps those that came, prints nothing, and asks the
//! next remote for the rest.

use std::borrow::Cow;

use bstr::{BStr, BString, ByteSlice as _};
use engine::workspace::base::{BlobPack, BlobSource};
use repo::Repository;
use sapwood::ObjectId;

use super::context;
use crate::{
    session::{input::Input, invocation::Invocation, settings::Settings},
    term::{console, failure::Failure, progress::Progress},
};

/// Runs the remote helper. Returns its exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let ([_] | [_, _]) = args else {
        return Err(Failure::Misused("this command is for sapwood itself".into()));
    };
    let repo = run.open()?;
    let mut helper = Helper { run, repo: &repo, wanted: Vec::new(), shows_progress: false };
    let mut input = Input::new(run)?;
    let mut line = Vec::new();
    while input.line(b'\n', &mut line)? {
        let Some(answer) = helper.answer(line.as_bstr())? else { return Ok(1) };
        if answer.is_empty() {
            continue;
        }
        console::out_raw(&answer);
        console::flush();
    }
    Ok(0)
}

struct Helper<'a> {
    run: &'a Invocation,
    repo: &'a Repository,
    /// The objects of the current batch.
    wanted: Vec<ObjectId>,
    shows_progress: bool,
}

impl Helper<'_> {
    /// Returns the answer to a line, `None` to end without one.
    fn answer(&mut self, line: &BStr) -> Result<Option<BString>, Failure> {
        let (word, rest) = line.split_once_str(" ").unwrap_or((line, b""));
        Ok(Some(match word {
            b"capabilities" => "fetch\noption\nobject-format\n\n".into(),
            b"option" => self.option(rest.as_bstr()),
            b"list" => format!(":object-format {}\n\n", self.repo.hash().name()).into(),
            b"fetch" => {
                let (name, _) = rest.split_once_str(" ").unwrap_or((rest, b""));
                let Some(oid) = ObjectId::from_hex(self.repo.hash(), name) else { return Ok(None) };
                self.wanted.push(oid);
                BString::default()
            }
            // The end of a batch, or of the conversation.
            b"" if self.wanted.is_empty() => BString::default(),
            b"" if self.give()? => "\n".into(),
            _ => return Ok(None),
        }))
    }

    fn option(&mut self, rest: &BStr) -> BString {
        match rest.split_once_str(" ").unwrap_or((rest, b"")) {
            (b"object-format", _) => "ok\n".into(),
            (b"progress", value) => {
                self.shows_progress = value == b"true";
                "ok\n".into()
            }
            _ => "unsupported\n".into(),
        }
    }

    /// Writes the blobs of the batch. Returns true if none is missing.
    fn give(&mut self) -> Result<bool, Failure> {
        let wanted = std::mem::take(&mut self.wanted);
        let settings = Settings::read(self.repo)?;
        let source = BlobSource::of(context::bases(self.run, self.repo, None)?, self.repo.hash());
        let title = Cow::Borrowed("Copying contents of the base");
        let progress = Progress::titled(title, self.shows_progress, settings.progress_delay);
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let pack = BlobPack {
            source: &source,
            objects: self.repo.objects_dir(),
            hash: self.repo.hash(),
            promised: true,
            shared: settings.locks.shared,
            fsync: &settings.fsync,
            workers: settings.workers,
            interrupt: self.run.interrupt.flag(),
            progress: &|done| progress.update(count(done), wanted.len()),
        };
        let absent = pack.write(&wanted);
        self.run.interrupt.check()?;
        let absent = absent?;
        progress.finish(wanted.len() - absent.len(), wanted.len());
        Ok(absent.is_empty())
    }
}
