//! `sapwood diff-files` and `sapwood diff-index`: the plumbing for lists of differences.
//!
//! Order: arguments; index; differences; renames among them; their order; output. Nothing is
//! written, and no lock is taken. The index is not refreshed, so a touched file is listed until
//! another command refreshes the index.

mod options;
mod order;
mod show;

use std::collections::HashSet;

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    diff::{
        self, Against, Collapsed, IntentToAdd, Pair, Status, SubmoduleIgnore, Unchanged, WorktreeFiles,
        pickaxe::{self, Haystack, Needle},
        renames::{self, Skipped, SourceUses},
        rewrites,
    },
    pathspec::Pathspecs,
    sparse::Purpose,
    status::{self, Worktree},
};
use repo::{
    Repository,
    keys::{self, BoolOr},
    objects,
};

use crate::{
    commands::{
        obstacles::{ATTRIBUTES_OF_PATHSPECS, GENERAL, READING},
        paths,
        reason::Reason,
        record::{Candidate, Check, Command, Group, Revisions, Traits},
        rules::{Setting, When},
        scan_messages,
    },
    session::{
        index,
        invocation::Invocation,
        monitor,
        revisions::warn_ambiguous,
        settings::{
            Settings,
            refused::{self, Reader},
        },
        sparse_index::{self, Expansion, ExpansionHint, Read},
    },
    term::{
        console::{self, text},
        failure::{self, Failure},
        notice,
    },
};
use options::Variant;
use options::{Kind, Request};
use sapwood::{
    Dir, ObjectId,
    index::{Index, Stage},
};
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
    traits: Traits { plans_first: true, ..Command::BASE.traits },
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
    let top = repo.work_tree().ok_or_else(Failure::no_worktree)?;
    let specs = pathspecs(run, &repo, &request, &request.words)?;
    must_agree(&request)?;
    let root = Dir::open(top).map_err(Failure::cannot_open(top))?;
    let Read { index, before, .. } = load(run, &repo, &settings, &root, Expansion::Later)?;
    let worktree = examine(run, &repo, &root, &index, &specs, &request, request.stage)?;
    scan_messages::print(&index, &specs, &worktree);
    let intended = request.intended.unwrap_or(IntentToAdd::Hidden);
    let mut pairs = diff::unstaged(&index, worktree.changes, intended);
    if request.unchanged == Unchanged::Listed {
        let scope = scope(&request, &specs);
        let unreadable = &worktree.unreadable;
        // Here Git lists collapsed directories of a sparse index as single entries.
        let index = before.as_ref().unwrap_or(&index);
        pairs = diff::with_unchanged(&repo, index, pairs, unreadable, &scope, request.stage)?;
    }
    finish(run, &repo, &settings, &request, WorktreeFiles { root: &root, index: &index }, pairs)
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
    let specs = pathspecs(run, &repo, &request, words)?;
    must_agree(&request)?;
    let tree = tree(&repo, &request, word.as_bstr(), named)?;
    let top = match repo.work_tree() {
        Some(top) => top,
        None if request.cached => repo.git_dir(),
        None => return Err(Failure::no_worktree()),
    };
    notice::print_object_store_errors(&repo);
    let root = Dir::open(top).map_err(Failure::cannot_open(top))?;
    // Listing unchanged entries needs each file.
    let fill = if request.unchanged == Unchanged::Listed { Expansion::AtOnce } else { Expansion::Later };
    let Read { mut index, before, .. } = load(run, &repo, &settings, &root, fill)?;
    sparse_index::expand_for(&repo, &mut index, &|_| Purpose::Compare(tree))?;
    let worktree = if request.cached {
        Worktree::default()
    } else {
        examine(run, &repo, &root, &index, &specs, &request, None)?
    };
    worktree.warnings.iter().for_each(console::warning);
    let against = if request.cached {
        Against::Index { intended: request.intended.unwrap_or(IntentToAdd::Shown) }
    } else {
        Against::Worktree {
            changes: &worktree.changes,
            unreadable: &worktree.unreadable,
            missing: request.missing,
            changes_within: status::changes_within,
        }
    };
    let found = diff::tree(&repo, &root, &index, Some(tree), against, &scope(&request, &specs))?;
    // Git reads `.gitmodules` once, so its warnings are printed once.
    if worktree.warnings.is_empty() {
        found.warnings.iter().for_each(console::warning);
    }
    let patterns = if before.is_some() { sparse_index::wanted(&repo)? } else { None };
    let pairs = match (&before, &patterns) {
        (Some(index), Some(patterns)) => {
            let collapsed = Collapsed { index, patterns };
            collapsed.collapse(&repo, tree, found.pairs, &specs, request.depth)?
        }
        _ => found.pairs,
    };
    finish(run, &repo, &settings, &request, WorktreeFiles { root: &root, index: &index }, pairs)
}

fn must_agree(request: &Request) -> Result<(), Failure> {
    request.clash.map_or(Ok(()), |clash| Err(Failure::fatal(clash)))
}

/// Resolves the arguments of `--find-object`, which Git does before all other arguments.
fn resolve_objects(repo: &Repository, settings: &Settings, request: &mut Request) -> Result<(), Failure> {
    for word in &request.object_words {
        let missing = || Failure::Error(text!("unable to resolve '", word, "'"), 129);
        request.objects.push(repo.resolve(word.as_bstr())?.ok_or_else(missing)?);
        warn_ambiguous(repo, settings, word.as_bstr(), 1)?;
    }
    Ok(())
}

/// Returns the selected pathspecs and the submodule policy.
fn scope<'a>(request: &Request, pathspecs: &'a Pathspecs) -> diff::Scope<'a> {
    let submodules = request.ignore_submodules.map_or(SubmoduleIgnore::BySubmodule, SubmoduleIgnore::Given);
    diff::Scope { pathspecs, submodules, unchanged: request.unchanged }
}

/// Reads the index, which may be sparse, and applies the response of the file system monitor.
fn load(
    run: &Invocation,
    repo: &Repository,
    settings: &Settings,
    root: &Dir,
    fill: Expansion,
) -> Result<Read, Failure> {
    let mut read = index::read_index(repo, settings, root, ExpansionHint::Print, fill)?;
    monitor::refresh(run, repo, settings, &mut read.index)?;
    Ok(read)
}

/// Finds the differences between index and worktree; for unmerged paths also those from the stage
/// `unmerged`. Stat data that differ from the file's count as a difference.
fn examine(
    run: &Invocation,
    repo: &Repository,
    root: &Dir,
    index: &Index,
    specs: &Pathspecs,
    request: &Request,
    unmerged: Option<Stage>,
) -> Result<Worktree, Failure> {
    let options = status::Options {
        meter: None,
        pathspecs: specs,
        untracked: None,
        touched: status::Touched::Changed,
        unmerged,
        submodules: request.ignore_submodules.map_or(SubmoduleIgnore::BySubmodule, SubmoduleIgnore::Given),
        missing: request.missing,
        ignore_untracked_in_submodules: false,
        when_cold: &|| {},
        interrupt: run.interrupt.flag(),
    };
    let worktree = status::examine(repo, root, index, &options)?;
    run.interrupt.check()?;
    Ok(worktree)
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
    // Git warns of line endings that a conversion would not restore.
    let has_text = !matches!(request.needle, None | Some(options::Needle::Objects));
    let reads_again = request.detect.is_some() && (has_text || request.rewrites.is_some());
    let looks_into_files = !request.cached && reads_again;
    if looks_into_files && !matches!(repo.config(&keys::core::AUTOCRLF), Ok(BoolOr::Bool(false))) {
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

/// Finds renames, and prints the pairs.
fn finish(
    run: &Invocation,
    repo: &Repository,
    settings: &Settings,
    request: &Request,
    worktree: WorktreeFiles<'_>,
    mut pairs: Vec<Pair>,
) -> Result<u8, Failure> {
    let base = match &request.relative {
        None => BString::default(),
        Some(None) => repo.prefix().to_owned(),
        Some(Some(base)) => base.clone(),
    };
    pairs.retain(|pair| pair.path.starts_with(&base));
    if request.is_quick() {
        keep_first_difference(&mut pairs, request.is_of_trees_first);
    }
    if request.reverse {
        pairs = pairs.into_iter().map(Pair::reversed).collect();
    }
    if let Some(scores) = request.rewrites {
        let messages;
        (pairs, messages) =
            rewrites::split(repo, pairs, scores, worktree, request.predicts_line_ending_warnings())?;
        messages.iter().for_each(console::eprint_line);
    }
    let (mut skipped, mut uses, mut hashed) = (None, SourceUses::default(), HashSet::new());
    if let Some(detect) = request.detect {
        let configured = repo.config(&keys::diff::RENAME_LIMIT)?;
        let configured = configured.map(|limit| usize::try_from(limit).unwrap_or(0));
        let options = renames::Options {
            detect,
            minimum: request.minimum,
            limit: request.limit.or(configured).unwrap_or(renames::DEFAULT_LIMIT),
            empty: request.empty,
            worktree: Some(worktree),
        };
        let found = renames::detect(repo, pairs, &options)?;
        (pairs, skipped, uses, hashed) = (found.pairs, found.skipped, found.uses, found.hashed);
    }
    if request.rewrites.is_some() {
        pairs = rewrites::join(pairs, &mut uses);
    }
    if let Some(needle) = &request.needle {
        let haystack = Haystack {
            worktree,
            hashed: &hashed,
            is_reversed: request.reverse,
            any_selects_all: request.all_if_any,
            warns: request.predicts_line_ending_warnings(),
        };
        search(repo, request, needle, &haystack, &mut pairs)?;
    }
    order::arrange(run, repo, request, &mut pairs)?;
    uses.mark_copies(&mut pairs);
    for pair in pairs.iter().filter(|pair| pair.status == Status::Unknown) {
        console::error(text!("feeding unmodified ", pair.path, " to diffcore"));
    }
    let filter = &request.filter;
    let is_taken = |pair: &Pair| filter.takes(pair.class());
    match filter.is_all_or_none() {
        true if pairs.iter().any(is_taken) => {}
        true => pairs.clear(),
        false => pairs.retain(is_taken),
    }
    failure::must_have_been_readable()?;
    if request.kind != Kind::Nothing {
        console::out_raw(&show::lines(repo, &pairs, &format(run, repo, settings, request, base)?)?);
    }
    if let Some(skipped) = skipped {
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
    Ok(u8::from(request.exit_code && !pairs.is_empty()))
}

/// Keeps the pairs that Git has found when it stops at the first difference. Between a tree and the
/// worktree, Git compares the paths of the tree first.
fn keep_first_difference(pairs: &mut Vec<Pair>, is_of_trees_first: bool) {
    if is_of_trees_first {
        pairs.sort_by_key(|pair| pair.old.is_none());
    }
    let first = pairs.iter().position(|pair| pair.status != Status::Unmerged);
    pairs.truncate(first.map_or(pairs.len(), |first| first + 1));
}

/// Keeps the pairs that match the search, or all pairs (`--pickaxe-all`) if any pair matches.
fn search(
    repo: &Repository,
    request: &Request,
    needle: &options::Needle,
    haystack: &Haystack<'_>,
    pairs: &mut Vec<Pair>,
) -> Result<(), Failure> {
    let regex;
    let needle = match needle {
        options::Needle::Text(text) => Needle::Text(text.as_bstr()),
        options::Needle::Matches(pattern) => {
            regex = compile(pattern)?;
            Needle::Matches(&regex)
        }
        options::Needle::Lines(pattern) => {
            regex = compile(pattern)?;
            Needle::Lines(&regex)
        }
        options::Needle::Objects => Needle::Objects(&request.objects),
    };
    let found = pickaxe::find(repo, pairs, needle, haystack)?;
    found.messages.iter().for_each(console::eprint_line);
    if !request.all_if_any || !found.pairs.contains(&true) {
        let mut found = found.pairs.into_iter();
        pairs.retain(|_| found.next().unwrap_or(false));
    }
    Ok(())
}

fn compile(pattern: &BString) -> Result<sys::Regex, Failure> {
    sys::Regex::new(pattern).map_err(|message| Failure::Fatal(text!("invalid regex: ", message.as_bstr())))
}

fn format(
    run: &Invocation,
    repo: &Repository,
    settings: &Settings,
    request: &Request,
    base: BString,
) -> Result<Format, Failure> {
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
        base,
    })
}
