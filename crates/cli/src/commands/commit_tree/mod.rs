//! `sapwood commit-tree`: a commit from a tree, parents and a message.
//!
//! Options take effect from left to right, as in Git: a parent or a file is looked up at its
//! position.

use bstr::{BStr, BString, ByteSlice as _};
use repo::Repository;
use sapwood::{
    ObjectId,
    commit_tree::{self, Kind, Request},
};

use crate::{
    commands::{
        obstacles::{self, LOOKING},
        record::{Check, Command, Group, Revisions},
    },
    session::{Session, input::Input, invocation::Invocation, settings::Settings},
    term::{
        args::{Both, Grammar, On, Opt, Table},
        console::{self, text},
        failure::Failure,
        files,
        text::{os_error, os_str},
    },
};

/// The record of `commit-tree`.
pub(super) const COMMAND: Command = Command {
    name: "commit-tree",
    summary: "Create a new commit object",
    about: "Writes a commit of a tree and prints its name. The message comes from `-m`, `-F` or standard \
            input.",
    group: Group::Scripts,
    syntax: &TABLE,
    revisions: Revisions::Leading,
    settings: &[LOOKING],
    checks: &[CHECKS],
    run,
    ..Command::BASE
};

const CHECKS: &[Check] = &[obstacles::RULES, obstacles::REVISIONS, obstacles::GUESSED_IDENTITY];

#[derive(Clone, Copy)]
enum Key {
    Parent,
    Message,
    File,
    Sign,
}

const TABLE: Table<Key> = Table {
    usage: &[
        "sapwood commit-tree <tree> [(-p <parent>)...]",
        "sapwood commit-tree [(-p <parent>)...] [-S[<keyid>]] [(-m <message>)...] [(-F <file>)...] <tree>",
    ],
    options: &[
        Opt::keyed(Key::Parent, "-p <parent>", "id of a parent commit object").only().native(On),
        Opt::keyed(Key::Message, "-m <message>", "commit message").only().native(On),
        Opt::keyed(Key::File, "-F <file>", "read commit log message from file").only().native(On),
        Opt::keyed(Key::Sign, "-S, --gpg-sign[=<key-id>]", "GPG sign commit").native(Both),
    ],
    grammar: Grammar::Mixed,
};

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let parsed = TABLE.parse(args)?;
    let repo = run.open()?;
    let settings = Settings::read(&repo)?.for_recording();
    let mut parents = Vec::new();
    let mut message = BString::default();
    let mut key: Option<BString> = None;
    for event in parsed.events {
        let value = event.value.unwrap_or_default();
        match event.key {
            Key::Parent => parent(&repo, value.as_bstr(), &mut parents)?,
            Key::Message => {
                gap(&mut message);
                message.extend_from_slice(&value);
                if message.last().is_some_and(|last| *last != b'\n') {
                    message.push(b'\n');
                }
            }
            Key::File => {
                gap(&mut message);
                message.extend_from_slice(&file(run, &repo, value.as_bstr())?);
            }
            Key::Sign => key = event.on.then_some(value),
        }
    }
    let [tree] = &parsed.rest[..] else { return Err(Failure::fatal("must give exactly one tree")) };
    let named = repo.resolve(tree.as_bstr())?;
    let named = named.ok_or_else(|| Failure::Fatal(text!("not a valid object name ", tree)))?;
    if message.is_empty() {
        let read = Input::new(run)?.all()?;
        let failed = |error| Failure::Fatal(text!("git commit-tree: failed to read: ", os_error(&error)));
        message = read.map_err(failed)?.into();
    }
    commit_tree::check(&repo, named, Kind::Tree)?;
    let session = Session { invocation: run, repository: &repo, settings: &settings };
    let commit = Request { tree: named, parents, message, key };
    let oid = commit_tree::write(session.context(run), commit).map_err(|error| match error {
        // The reason was printed.
        sapwood::Error::NotSigned => Failure::Reported(1),
        error => error.into(),
    })?;
    console::out(oid.to_string());
    Ok(0)
}

/// Separates the parts of a message as paragraphs.
fn gap(message: &mut BString) {
    if !message.is_empty() {
        message.push(b'\n');
    }
}

/// Reads a file. As in Git, its name is relative to the worktree's root.
fn file(run: &Invocation, repo: &Repository, name: &BStr) -> Result<Vec<u8>, Failure> {
    if name == "-" {
        let read = Input::new(run)?.all()?;
        return read.map_err(|error| {
            Failure::Fatal(text!("git commit-tree: failed to read '-': ", os_error(&error)))
        });
    }
    let file = files::open(&repo.base_dir().join(os_str(name))).map_err(|error| {
        Failure::Fatal(text!("could not open '", name, "' for reading: ", os_error(&error)))
    })?;
    let mut content = Vec::new();
    files::read_to_end(&file, 0, &mut content).map_err(|error| {
        Failure::Fatal(text!("git commit-tree: failed to read '", name, "': ", os_error(&error)))
    })?;
    Ok(content)
}

fn parent(repo: &Repository, name: &BStr, parents: &mut Vec<ObjectId>) -> Result<(), Failure> {
    let oid = repo.resolve_commit(name)?;
    let oid = oid.ok_or_else(|| Failure::Fatal(text!("not a valid object name ", name)))?;
    commit_tree::check(repo, oid, Kind::Commit)?;
    if parents.contains(&oid) {
        console::error(format!("duplicate parent {oid} ignored"))
    } else {
        parents.push(oid)
    }
    Ok(())
}
