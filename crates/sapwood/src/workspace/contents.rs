//! The remote that gives plain Git the contents of bases.
//!
//! A clone that began with a base has commits and trees; its blobs are contents of the base
//! directory. sapwood reads them there. Git asks its promisor remotes in the order of the
//! configuration. So [`register`] adds a remote in front, whose remote helper is the program
//! `sapwood`. The helper needs no place in `PATH`: an alias names it, and Git runs
//! `git remote-<name>` for it.
//!
//! Sources: gitremote-helpers(7), Git's technical notes on partial clones.

use std::path::Path;

use bstr::{BStr, BString, ByteSlice as _};
use format::config::{self, Edit};
use repo::{CONTENTS_REMOTE, Repository, keys};

use super::monitor::quote;
use crate::{Error, Events, Notice, settings::Settings, text};

/// The subcommand of `sapwood workspace` that is the remote helper.
const SERVE: &str = "serve-contents";

/// Adds the remote to a partial clone, or corrects its settings. Does nothing in other
/// repositories, and without the program. A failure is a warning: without the remote, Git asks the
/// server.
pub fn register(repo: &Repository, settings: &Settings, events: &dyn Events) {
    let Some(program) = events.program() else { return };
    if let Err(error) = try_to_register(repo, settings, &program) {
        events.notice(Notice::ContentsRemote(error.to_string()));
    }
}

fn try_to_register(repo: &Repository, settings: &Settings, program: &Path) -> Result<(), Error> {
    let others: Vec<BString> =
        repo.remotes().into_iter().filter(|name| name.as_bstr() != CONTENTS_REMOTE).collect();
    if !repo.objects().is_partial() || !keeps_default_remote(&others) {
        return Ok(());
    }
    let wanted = wanted_settings(program);
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
fn wanted_settings(program: &Path) -> Vec<(String, BString)> {
    let program = quote(program.as_os_str());
    let remote = CONTENTS_REMOTE;
    vec![
        (keys::remote::URL.of(remote).into(), text!(CONTENTS_REMOTE, "::")),
        (keys::remote::FETCH.of(remote).into(), text!("+refs/heads/*:refs/remotes/", CONTENTS_REMOTE, "/*")),
        (keys::remote::PROMISOR.of(remote).into(), "true".into()),
        (keys::remote::PARTIAL_CLONE_FILTER.of(remote).into(), "blob:none".into()),
        (keys::remote::SKIP_FETCH_ALL.of(remote).into(), "true".into()),
        (
            keys::alias::ONE.of(format!("remote-{CONTENTS_REMOTE}")).into(),
            text!("!", program, " workspace ", SERVE),
        ),
    ]
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
