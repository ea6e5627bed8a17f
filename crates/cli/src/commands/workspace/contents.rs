//! `sapwood workspace serve-contents <remote>`: gives plain Git the contents of bases.
//!
//! A clone that began with a base has commits and trees; its blobs are contents of the base
//! directory. sapwood reads them there. Git asks its promisor remotes in the order of the
//! configuration. So [`register`] adds a remote in front, whose remote helper is this program. The
//! helper needs no place in `PATH`: an alias names it, and Git runs `git remote-<name>` for it.
//!
//! The helper writes the blobs into the object database as one promisor pack. If some are in no
//! base, it ends without an answer. Git then keeps those that came, prints nothing, and asks the
//! next remote for the rest.
//!
//! Sources: gitremote-helpers(7), Git's technical notes on partial clones.

use std::borrow::Cow;

use bstr::{BStr, BString, ByteSlice as _};
use engine::workspace::base::{BlobPack, BlobSource};
use format::{
    ObjectId,
    config::{self, Edit},
};
use repo::{CONTENTS_REMOTE, Repository};

use super::{context, monitor::quote};
use crate::{
    session::{input::Input, invocation::Invocation, settings::Settings},
    term::{
        console::{self, text},
        failure::Failure,
        progress::Progress,
    },
};

/// The name of this subcommand.
const SERVE: &str = "serve-contents";

/// Adds the remote to a partial clone, or corrects its settings. Does nothing in other
/// repositories. A failure is a warning: without the remote, Git asks the server.
pub(crate) fn register(repo: &Repository, settings: &Settings) {
    if let Err(failure) = try_to_register(repo, settings) {
        failure.print_as_warning();
    }
}

fn try_to_register(repo: &Repository, settings: &Settings) -> Result<(), Failure> {
    let others: Vec<BString> =
        repo.remotes().into_iter().filter(|name| name.as_bstr() != CONTENTS_REMOTE).collect();
    if !repo.objects().is_partial() || !keeps_default_remote(&others) {
        return Ok(());
    }
    let wanted = wanted_settings()?;
    let is_set = |(key, value): &(String, BString)| repo.config_str(key).as_ref() == Some(value);
    if wanted.iter().all(is_set) && is_asked_first(repo) {
        return Ok(());
    }
    let path = repo.common_dir().join("config");
    store::config::rewrite(&path, &settings.config_locks, &settings.fsync, |content| {
        in_front(content.unwrap_or_default(), &wanted).map_err(store::config::Error::Key)
    })?;
    Ok(())
}

/// Returns the settings of the remote.
fn wanted_settings() -> Result<Vec<(String, BString)>, Failure> {
    let program = quote(context::this_program()?.as_os_str());
    let of_remote = |name: &str| format!("remote.{CONTENTS_REMOTE}.{name}");
    Ok(vec![
        (of_remote("url"), text!(CONTENTS_REMOTE, "::")),
        (of_remote("fetch"), text!("+refs/heads/*:refs/remotes/", CONTENTS_REMOTE, "/*")),
        (of_remote("promisor"), "true".into()),
        (of_remote("partialclonefilter"), "blob:none".into()),
        (of_remote("skipFetchAll"), "true".into()),
        (format!("alias.remote-{CONTENTS_REMOTE}"), text!("!", program, " workspace ", SERVE)),
    ])
}

/// Puts the settings in front of a file, and removes those that it has: Git asks promisor remotes
/// in the order of their first settings.
fn in_front(content: Vec<u8>, wanted: &[(String, BString)]) -> Result<Vec<u8>, config::Error> {
    let mut rest = content;
    for (key, _) in wanted {
        match config::edit(&rest, &[Edit::Unset { key: key.as_str().into() }]) {
            Ok(without) => rest = without,
            Err(config::Error::Nothing) => {}
            Err(error) => return Err(error),
        }
    }
    let edits: Vec<Edit> = wanted
        .iter()
        .map(|(key, value)| Edit::Set { key: key.as_str().into(), value: value.clone() })
        .collect();
    let mut front = config::edit(b"", &edits)?;
    front.extend_from_slice(&rest);
    Ok(front)
}

/// Returns true if Git asks the remote before others.
fn is_asked_first(repo: &Repository) -> bool {
    let is_of_promisor = |name: &BStr| name.ends_with(b".promisor") || name.ends_with(b".partialclonefilter");
    let mut names = repo.config_names().filter(|name| name.starts_with(b"remote.") && is_of_promisor(name));
    names.next().is_some_and(|name| name.starts_with(format!("remote.{CONTENTS_REMOTE}.").as_bytes()))
}

/// Returns true if one more remote leaves Git's default remote as it is: the only one, else
/// `origin`.
fn keeps_default_remote(others: &[BString]) -> bool {
    match others {
        [only] => only == "origin",
        _ => true,
    }
}

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
        let settings = Settings::read(self.run, self.repo)?;
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
