//! `sapwood diff-files` and `sapwood diff-index`: the plumbing for lists of differences. See
//! [`sapwood::diff`].
//!
//! Order: arguments; differences; output. Nothing is written, and no lock is taken.

mod options;
mod show;

use bstr::{BStr, BString, ByteSlice as _};
use repo::{Repository, keys, objects};
use sapwood::{
    ObjectId, Pathspecs,
    diff::{self, Needle, Skipped},
};

use crate::{
    commands::{
        obstacles::{ATTRIBUTES_OF_PATHSPECS, GENERAL, READING},
        paths,
        reason::Reason,
        record::{Candidate, Check, Command, Group, Revisions},
        rules::{Setting, When},
    },
    session::{
        Session,
        invocation::Invocation,
        revisions::warn_ambiguous,
        settings::{Reader, Settings, refused},
    },
    term::{
        console::{self, text},
        failure::Failure,
        notice,
    },
};
use options::{Kind, Request, Variant};
use show::{Dots, Format};

/// The record of `diff-files`.
pub(super) const FILES: Command = Command {
    name: "diff-files",
    summary: "Compare files in the working tree and the index",
    about: "Lists the files of the worktree that differ from the index. It is for scripts. Files are \
            compared in parallel. Lists, renames, copies and `-S` and `-G` are supported; patches and \
            statistics are not.",
    group: Group::Scripts,
    syntax: &options::FILES,
    revisions: Revisions::Leading,
    settings: &[GENERAL, SETTINGS],
    line: &[ATTRIBUTES_OF_PATHSPECS],
    checks: &[READING, &[WORDS_OF_FILES]],
    run: files,
    ..Command::BASE
};

/// The record of `diff-index`.
pub(super) const INDEX: Command = Command {
    name: "diff-index",
    summary: "Compare a tree to the working tree or index",
    about: "Lists the paths that differ between a tree and the worktree, or with `--cached` the index. It is \
            for scripts. Trees are read in parallel, and directories that the index knows to be equal are \
            skipped. Lists, renames, copies and `-S` and `-G` are supported; patches and statistics are not.",
    syntax: &options::INDEX,
    checks: &[READING, &[WORDS_OF_INDEX]],
    run: index,
    ..FILES
};

/// Settings that change which files are binary for Git, and settings whose values Git may reject.
const SETTINGS: &[Setting] = &[
    (keys::diff::DRIVER_BINARY.name(), When::Set),
    (keys::diff::COLOR_ALL.name(), When::Set),
    (keys::diff::DIRSTAT.name(), When::Set),
    (keys::diff::WS_ERROR_HIGHLIGHT.name(), When::Set),
];

/// Runs `diff-files`. Returns the exit code.
fn files(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::parse(Variant::Files, args)?;
    let repo = run.open()?;
    refused::check(&repo, &[Reader::Every, Reader::Repository, Reader::Plumbing])?;
    let settings = Settings::read(&repo)?.for_lookups();
    resolve_objects(&repo, &settings, &mut request)?;
    repo.work_tree().ok_or_else(Failure::no_worktree)?;
    request.wanted.pathspecs = pathspecs(run, &repo, &request, &request.words)?;
    must_agree(&request)?;
    finish(Session { invocation: run, repository: &repo, settings: &settings }, request)
}

/// Runs `diff-index`. Returns the exit code.
fn index(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::parse(Variant::Index, args)?;
    let repo = run.open()?;
    refused::check(
        &repo,
        &[Reader::Every, Reader::Repository, Reader::Plumbing, Reader::Refs, Reader::Hooks],
    )?;
    let settings = Settings::read(&repo)?.for_lookups();
    resolve_objects(&repo, &settings, &mut request)?;
    let (word, words) = request.words.split_first().expect("one is asked for");
    let named = named(run, &repo, &settings, &request, word.as_bstr())?;
    request.wanted.pathspecs = pathspecs(run, &repo, &request, words)?;
    must_agree(&request)?;
    request.wanted.tree = Some(tree(&repo, &request, word.as_bstr(), named)?);
    if repo.work_tree().is_none() && !request.wanted.cached {
        return Err(Failure::no_worktree());
    }
    notice::print_object_store_errors(&repo);
    finish(Session { invocation: run, repository: &repo, settings: &settings }, request)
}

fn must_agree(request: &Request) -> Result<(), Failure> {
    request.clash.map_or(Ok(()), |clash| Err(Failure::fatal(clash)))
}

/// Resolves the arguments of `--find-object`, which Git does before all other arguments.
fn resolve_objects(repo: &Repository, settings: &Settings, request: &mut Request) -> Result<(), Failure> {
    let mut objects = Vec::new();
    for word in &request.object_words {
        let missing = || Failure::Error(text!("unable to resolve '", word, "'"), 129);
        objects.push(repo.resolve(word.as_bstr())?.ok_or_else(missing)?);
        warn_ambiguous(repo, settings, word.as_bstr(), 1)?;
    }
    if let Some(Needle::Objects(sought)) = &mut request.wanted.needle {
        *sought = objects;
    }
    Ok(())
}

/// Returns the object that `word` names.
fn named(
    run: &Invocation,
    repo: &Repository,
    settings: &Settings,
    request: &Request,
    word: &BStr,
) -> Result<ObjectId, Failure> {
    let Some(oid) = repo.resolve(word)?.filter(|_| !is_a_range(word)) else {
        if request.paths.is_none() {
            paths::must_be_a_file(run, repo, word)?;
        }
        return Err(Failure::Fatal(text!("bad revision '", word, "'")));
    };
    warn_ambiguous(repo, settings, word, 1)?;
    if request.paths.is_none() {
        paths::must_not_be_a_file(run, repo, word)?;
    }
    Ok(oid)
}

/// Returns the tree of the object that `word` names, or of its merge base with HEAD.
fn tree(repo: &Repository, request: &Request, word: &BStr, oid: ObjectId) -> Result<ObjectId, Failure> {
    let oid = if request.merge_base { base(repo, oid)? } else { oid };
    repo.tree_of(oid).map_err(|error| match error.is_unreadable() {
        true => error.into(),
        false if !repo.objects().contains(&oid) => Failure::Fatal(text!("bad object ", word)),
        false => {
            console::error(text!("bad tree object ", word));
            Failure::Reported(128)
        }
    })
}

/// Returns the merge base of a commit and HEAD.
fn base(repo: &Repository, oid: ObjectId) -> Result<ObjectId, Failure> {
    let (untagged, kind) = repo.peel_object(oid)?;
    let is_commit = kind == objects::Kind::Commit;
    if !is_commit {
        console::error(format!("object {oid} is a {kind}, not a commit"));
    }
    let head = repo.head()?.oid().ok_or_else(|| Failure::fatal("unable to get HEAD"))?;
    let bases = if is_commit { repo.merge_bases(untagged, head)? } else { Vec::new() };
    match bases[..] {
        [] => Err(Failure::fatal("no merge base found")),
        [base] => Ok(base),
        _ => Err(Failure::fatal("multiple merge bases found")),
    }
}

fn is_a_range(word: &BStr) -> bool {
    word.starts_with(b"^") || [&b".."[..], b"^@", b"^!", b"^-"].iter().any(|mark| word.contains_str(mark))
}

/// Parses the words after `--`, or the words that are not revisions.
fn pathspecs(
    run: &Invocation,
    repo: &Repository,
    request: &Request,
    words: &[BString],
) -> Result<Pathspecs, Failure> {
    if let Some(given) = &request.paths {
        return paths::parse(run, repo, given);
    }
    if let Some((first, others)) = words.split_first() {
        if repo.resolve(first.as_bstr())?.is_some() {
            paths::must_not_be_a_file(run, repo, first.as_bstr())?;
            return Err(Failure::Fatal(text!("'", first, "' is one revision too many")));
        }
        paths::must_be_a_file(run, repo, first.as_bstr())?;
        others.iter().try_for_each(|word| {
            if word.starts_with(b"-") {
                paths::must_be_a_file(run, repo, word.as_bstr())
            } else {
                paths::must_be_another_file(run, repo, word.as_bstr())
            }
        })?;
    }
    paths::parse(run, repo, words)
}

const WORDS_OF_FILES: Check = Check::new(
    "options that do not go together; a word that may be no object; a word that is a revision and a path, \
     or neither; `-B`, `-S` and `-G` among renames with `core.autocrlf`",
    words_of_files,
);

const WORDS_OF_INDEX: Check = Check::new(
    "options that do not go together; a word that may be no tree or object; a word that is a revision \
     and a path, or neither; `-B`, `-S` and `-G` of files among renames with `core.autocrlf`",
    words_of_index,
);

/// Detects words of `diff-files` that may not be a tree, an object or a path.
fn words_of_files(candidate: &Candidate<'_>) -> Vec<Reason> {
    words(candidate, Variant::Files)
}

/// Detects words of `diff-index` that may not be a tree, an object or a path.
fn words_of_index(candidate: &Candidate<'_>) -> Vec<Reason> {
    words(candidate, Variant::Index)
}

fn words(candidate: &Candidate<'_>, variant: Variant) -> Vec<Reason> {
    if candidate.survey.is_none() {
        return Vec::new();
    }
    let found = obstacle(candidate.run, candidate.repo(), variant, candidate.args);
    found.map(Reason::command_line).into_iter().collect()
}

/// Returns a reason if an argument that should be a tree is not one, or if a path does not exist or
/// may also be a revision.
fn obstacle(run: &Invocation, repo: &Repository, variant: Variant, args: &[BString]) -> Option<&'static str> {
    let Ok(request) = Request::parse(variant, args) else {
        return Some("options or arguments that do not go together");
    };
    let is_plain = |word: &BString| matches!(repo.resolve(word.as_bstr()), Ok(Some(_)));
    let is_clear = |word: &BString| repo.ambiguous_names(word.as_bstr()).is_ok_and(|it| it.is_empty());
    if !request.object_words.iter().all(|word| is_plain(word) && is_clear(word)) {
        return Some("an argument that may be no object");
    }
    if request.wanted.warns_unpredictably(repo) {
        return Some("'-B', '-S' or '-G' among renames where line ends are converted");
    }
    let mut words = &request.words[..];
    if variant == Variant::Index {
        let (word, others) = words.split_first().expect("one is asked for");
        words = others;
        let word = word.as_bstr();
        let oid = repo.resolve(word).ok().flatten().filter(|_| !is_a_range(word));
        let base = |oid| if request.merge_base { base(repo, oid).ok() } else { Some(oid) };
        let is_file = request.paths.is_none() && paths::must_not_be_a_file(run, repo, word).is_err();
        if is_file || oid.and_then(base).is_none_or(|oid| repo.tree_of(oid).is_err()) {
            return Some("an argument that may be no tree");
        }
    }
    let is_revision = words.first().is_some_and(|word| !matches!(repo.resolve(word.as_bstr()), Ok(None)));
    let is_path = |word: &BString| paths::must_be_a_file(run, repo, word.as_bstr()).is_ok();
    (is_revision || !words.iter().all(is_path)).then_some("an argument that may be no path")
}

/// Finds the pairs, and prints them.
fn finish(session: Session<'_>, mut request: Request) -> Result<u8, Failure> {
    let Session { invocation: run, repository: repo, .. } = session;
    request.wanted.base = match &request.relative {
        None => BString::default(),
        Some(None) => repo.prefix().to_owned(),
        Some(Some(base)) => base.clone(),
    };
    let found = diff::find(session.context(run), &request.wanted)?;
    for path in &found.unknown {
        console::error(text!("feeding unmodified ", path, " to diffcore"));
    }
    sapwood::index::must_have_been_readable()?;
    if request.kind != Kind::Nothing {
        console::out_raw(&show::lines(repo, &found.pairs, &format(session, &request)?)?);
    }
    if let Some(skipped) = found.skipped {
        console::flush();
        let (what, limit) = match skipped {
            Skipped::All(limit) => ("exhaustive rename detection was skipped", limit),
            Skipped::Unchanged(limit) => ("only found copies from modified paths", limit),
        };
        console::warning(format!("{what} due to too many files."));
        console::warning(format!(
            "you may want to set your diff.renameLimit variable to at least {limit} and retry the command."
        ));
    }
    Ok(u8::from(request.exit_code && !found.pairs.is_empty()))
}

fn format(session: Session<'_>, request: &Request) -> Result<Format, Failure> {
    let Session { invocation: run, repository: repo, settings } = session;
    let wants_dots =
        run.variable("GIT_PRINT_SHA1_ELLIPSIS").is_some_and(|it| it.eq_ignore_ascii_case(b"yes"));
    let digits = match request.abbrev {
        None => None,
        Some(Some(digits)) => Some(digits.min(repo.hash().hex_len())),
        Some(None) => Some(repo.abbreviation_length()?),
    };
    let dots = if request.abbrev == Some(None) { Dots::Three } else { Dots::Aligned };
    Ok(Format {
        kind: request.kind,
        nul: request.nul,
        quote_path: settings.quote_path,
        digits,
        ellipsis: wants_dots.then_some(dots),
        lead: request.line_prefix.clone(),
        base: request.wanted.base.clone(),
    })
}
