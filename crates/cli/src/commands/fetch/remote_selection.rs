//! The remotes that a command line names.

use std::io::Read as _;

use bstr::{BString, ByteSlice as _};
use engine::fetch::remote::Remote;
use repo::keys;
use sapwood::fetch::several::{all_remotes, members, remotes_of};

use super::context::FetchContext;
use crate::term::{console::text, failure::Failure, stdin};

/// The remotes to fetch from.
pub(super) enum RemoteSelection {
    /// One remote, with the refspecs of the command line as given.
    One(BString, Words),
    /// Several, by name.
    Many(Vec<BString>),
}

/// The words after the repository.
#[derive(Default)]
pub(super) struct Words {
    /// Refspecs, and `tag <name>`.
    pub(super) refspecs: Vec<BString>,
    /// True if no refspec was given.
    pub(super) may_prune_tags: bool,
}

/// Determines the remotes.
pub(super) fn select(context: &FetchContext<'_>, words: &[BString]) -> Result<RemoteSelection, Failure> {
    let (repo, request) = (context.repo, context.request);
    let all = match request.all {
        Some(all) => all,
        None => words.is_empty() && !request.multiple && repo.config(&keys::fetch::ALL_REMOTES)?,
    };
    if all {
        match words.len() {
            0 => {}
            1 => return Err(Failure::fatal("fetch --all does not take a repository argument")),
            _ => return Err(Failure::fatal("fetch --all does not make sense with refspecs")),
        }
        return many(context, all_remotes(repo)?);
    }
    if words.is_empty() && !request.multiple {
        let name = Remote::default_name(repo)?;
        return one(context, name, &[], Words { may_prune_tags: true, ..Words::default() });
    }
    if request.multiple {
        return many(context, members(repo, words)?);
    }
    let (name, rest) = words.split_first().expect("there is a word");
    let found = remotes_of(repo, name.as_bstr())?;
    if found.len() > 1 {
        if !rest.is_empty() {
            return Err(Failure::fatal("fetching a group and specifying refspecs does not make sense"));
        }
        return many(context, found);
    }
    let name = found.into_iter().next().unwrap_or_else(|| name.clone());
    one(context, name, rest, Words { may_prune_tags: rest.is_empty(), ..Words::default() })
}

fn one(
    context: &FetchContext<'_>,
    name: BString,
    rest: &[BString],
    mut words: Words,
) -> Result<RemoteSelection, Failure> {
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        if word == "tag" {
            let tag = rest.next();
            let tag = tag.ok_or_else(|| Failure::fatal("you need to specify a tag name"))?;
            words.refspecs.push(text!("refs/tags/", tag, ":refs/tags/", tag));
        } else {
            words.refspecs.push(word.clone())
        }
    }
    if context.request.stdin {
        let mut input = Vec::new();
        stdin::note_consumed();
        std::io::stdin().lock().read_to_end(&mut input).map_err(|error| {
            Failure::fatal(format!("cannot read standard input: {}", crate::term::text::os_error(&error)))
        })?;
        words.refspecs.extend(input.lines().map(BString::from));
    }
    Ok(RemoteSelection::One(name, words))
}

fn many(context: &FetchContext<'_>, remotes: Vec<BString>) -> Result<RemoteSelection, Failure> {
    if context.request.stdin {
        return Err(Failure::fatal("--stdin can only be used when fetching from one remote"));
    }
    Ok(RemoteSelection::Many(remotes))
}
