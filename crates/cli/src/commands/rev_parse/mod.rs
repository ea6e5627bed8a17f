//! `sapwood rev-parse`: names of objects, and facts about the repository. See
//! [`sapwood::rev_parse`].
//!
//! Order: the words from left to right, as in Git; the output is held back until all words are
//! processed. A word that Git would refuse, warn about or treat as a file leaves the command to the
//! real Git, which prints its own message. Nothing is changed.

mod words;

use bstr::{BString, ByteSlice as _};
use sapwood::rev_parse::{Answer, Evaluation};

use self::words::Part;
use crate::{
    commands::{
        obstacles::{self, LOOKING},
        reason::Reason,
        record::{Candidate, Check, Command, Group, LineCheck, Traits},
    },
    session::{
        invocation::{Invocation, Program},
        settings::refused::{self, Reader},
    },
    term::{
        args::{Grammar, On, Opt, Set, Stop, Survey, Table},
        console::{Listing, text},
        failure::Failure,
    },
};

/// The record of `rev-parse`.
pub(super) const COMMAND: Command = Command {
    name: "rev-parse",
    summary: "Print the names of objects, and facts about the repository",
    about: "Prints the object names of revisions, the directories of the repository, and other facts \
            that scripts ask for. Options that take other command lines apart are left to the real Git.",
    group: Group::Scripts,
    syntax: &TABLE,
    traits: Traits { starts_no_program: true, ..Command::BASE.traits },
    settings: &[LOOKING],
    line: &[LineCheck::new(
        "`:<path>`, `:/<text>`, `^{/<text>}`, `^!`, `^@`, `^-`, `@{<date>}`, `<rev>:./<path>`, several merge bases",
        unserved_words,
    )],
    checks: &[&[obstacles::RULES, Check::new(obstacles::PARTIAL_OR_GRAFTS, objects)]],
    late: &["these words of rev-parse"],
    run,
    ..Command::BASE
};

/// The options, for the help: [`words`] parses them.
const TABLE: Table<Set<()>> = Table {
    usage: &["sapwood rev-parse [<options>] <revision>...", "sapwood rev-parse <question>..."],
    options: &[
        word("--verify", "accept exactly one revision"),
        word("-q, --quiet", "print no message if --verify fails"),
        word("--short[=<n>]", "abbreviate object names"),
        word("--abbrev-ref[=(strict|loose)]", "print the short name of a ref"),
        word("--symbolic", "print names as they were given"),
        word("--symbolic-full-name", "print the full names of refs"),
        word("--sq", "quote the output for the shell"),
        word("--not", "turn the meaning of the following revisions around"),
        word("--default <revision>", "the revision if none is given"),
        word("--revs-only", "print no word that is not for rev-list"),
        word("--no-revs", "print no revision"),
        word("--flags", "print only options"),
        word("--no-flags", "print no option"),
        word("--all", "print all refs"),
        word("--branches", "print all branches"),
        word("--tags", "print all tags"),
        word("--remotes", "print all remote-tracking branches"),
        word("--path-format=(absolute|relative)", "the form of the paths that follow"),
        word("--git-dir", "print the Git directory"),
        word("--absolute-git-dir", "print the Git directory as an absolute path"),
        word("--git-common-dir", "print the directory that all worktrees share"),
        word("--git-path <path>", "print the place of a file in the Git directory"),
        word("--show-toplevel", "print the top of the worktree"),
        word("--show-prefix", "print the path from the top of the worktree"),
        word("--show-cdup", "print the path to the top of the worktree"),
        word("--is-inside-git-dir", "print if this directory is in the Git directory"),
        word("--is-inside-work-tree", "print if this directory is in the worktree"),
        word("--is-bare-repository", "print if the repository is bare"),
        word("--is-shallow-repository", "print if the history is cut off"),
        word("--show-object-format[=(storage|input|output)]", "print the hash of object names"),
        word("--show-ref-format", "print the format of refs"),
    ],
    grammar: Grammar::Words,
};

const fn word(spelling: &'static str, help: &'static str) -> Opt<Set<()>> {
    Opt::new(spelling, help, |_, _| Ok(())).only().native(On)
}

/// Detects a word that sapwood does not serve.
fn unserved_words(_: &Survey, args: &[BString]) -> Option<Reason> {
    words::parse(args).err()
}

/// Detects grafts and partial clones, if a word needs to read an object.
fn objects(candidate: &Candidate<'_>) -> Vec<Reason> {
    let reads_objects = |arg: &BString| !arg.starts_with(b"--") && arg.find_byteset("^~:{.").is_some();
    if candidate.survey.is_some() && !candidate.args.iter().any(reads_objects) {
        return Vec::new();
    }
    let mut found = obstacles::partial(candidate.repo());
    found.extend(obstacles::grafts(candidate.repo()));
    found
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    if matches!(args, [only] if only == "-h") {
        return Err(Stop::Help(TABLE.help()).into());
    }
    let parts = words::parse(args).map_err(|_| UNSERVED)?;
    let repo = run.open()?;
    // Git names files relative to its working directory, which depends on the command.
    let is_elsewhere = repo.work_tree().is_some_and(|top| !run.cwd.starts_with(top));
    let refused = refused::check(&repo, &[Reader::Every, Reader::Repository]);
    if run.program == Program::Git && (is_elsewhere || refused.is_err()) {
        return Err(UNSERVED);
    }
    refused?;
    let mut evaluation = Evaluation::new(&repo);
    let (mut quiet, mut plain) = (false, usize::MAX);
    for part in parts {
        match part {
            Part::Quiet => quiet = true,
            Part::Quoted => plain = plain.min(evaluation.answers().len()),
            Part::Word(word) if evaluation.word(word)?.is_break() => break,
            Part::Word(_) => {}
        }
    }
    let report = evaluation.finish()?;
    let mut listing = Listing::default();
    for (at, answer) in report.answers.iter().enumerate() {
        print(listing.buffer(), answer, at >= plain);
    }
    listing.write("standard output")?;
    if !report.lacks_revision {
        return Ok(0);
    }
    Err(if quiet { Failure::Reported(1) } else { Failure::fatal("Needed a single revision") })
}

fn print(out: &mut Vec<u8>, answer: &Answer, quoted: bool) {
    let mut hex = [0; 64];
    let (word, is_reversed): (&[u8], bool) = match answer {
        Answer::Object { id, is_reversed } => (id.hex_into(&mut hex), *is_reversed),
        Answer::Name { name, is_reversed } => (name.as_slice(), *is_reversed),
        Answer::Fact(fact) => {
            out.extend_from_slice(fact);
            return out.push(b'\n');
        }
    };
    // Git prints the `^` outside the quotes.
    if is_reversed {
        out.push(b'^');
    }
    if quoted {
        out.extend_from_slice(&text!("'", word.replace("'", "'\\''"), "' "));
    } else {
        out.extend_from_slice(word);
        out.push(b'\n');
    }
}

/// The failure that leaves the command to the real Git.
const UNSERVED: Failure = Failure::Unserved("these words of rev-parse");
