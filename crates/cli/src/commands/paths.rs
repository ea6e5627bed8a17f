//! Pathspecs on the command line, and words that may be files or revisions.

use std::{os::unix::ffi::OsStrExt as _, path::PathBuf, sync::Arc};

use bstr::{BStr, BString, ByteSlice as _};
use engine::pathspec::{self, Defaults, Pathspecs};
use repo::Repository;
use sapwood::{UserPath, index::Index};

use crate::{
    session::{index, invocation::Invocation, settings::Settings},
    term::{
        console::{self, text},
        failure::Failure,
        files,
        text::os_str,
    },
};

/// Parses the arguments as pathspecs, relative to the current directory.
pub(crate) fn parse(run: &Invocation, repo: &Repository, args: &[BString]) -> Result<Pathspecs, Failure> {
    parse_by(run, repo, args, Pathspecs::parse, None)
}

/// Like [`parse`]; without arguments, the current directory is selected.
pub(crate) fn parse_or_here(
    run: &Invocation,
    repo: &Repository,
    args: &[BString],
) -> Result<Pathspecs, Failure> {
    parse_by(run, repo, args, Pathspecs::parse_or_here, None)
}

/// Like [`parse_or_here`]; where the worktree has no attribute file, the one in this index applies.
pub(crate) fn parse_or_here_by(
    run: &Invocation,
    repo: &Repository,
    args: &[BString],
    index: Index,
) -> Result<Pathspecs, Failure> {
    parse_by(run, repo, args, Pathspecs::parse_or_here, Some(index))
}

/// Parses an argument as a path: of all pathspec magic only `:/` is supported.
pub(crate) fn parse_path(run: &Invocation, repo: &Repository, arg: &BString) -> Result<Pathspecs, Failure> {
    parse_by(run, repo, std::slice::from_ref(arg), Pathspecs::parse_paths, None)
}

type Parser = fn(&[BString], &BStr, &BStr, Defaults) -> Result<Pathspecs, engine::pathspec::Error>;

fn parse_by(
    run: &Invocation,
    repo: &Repository,
    args: &[BString],
    parser: Parser,
    index: Option<Index>,
) -> Result<Pathspecs, Failure> {
    let on = |name: &str| matches!(run.variable(name), Some(value) if !matches!(value, b"" | b"0" | b"false" | b"no" | b"off"));
    let defaults = Defaults {
        literal: on("GIT_LITERAL_PATHSPECS"),
        glob: on("GIT_GLOB_PATHSPECS"),
        icase: on("GIT_ICASE_PATHSPECS"),
        attributes: attributes(run, args, index)?,
    };
    let root = repo.work_tree().map_or(&b""[..], |root| root.as_os_str().as_bytes());
    parser(args, repo.prefix(), root.as_bstr(), defaults).map_err(|error| Failure::Fatal(error.message))
}

/// Returns the attributes, if a pathspec may need them.
fn attributes(
    run: &Invocation,
    args: &[BString],
    index: Option<Index>,
) -> Result<Option<Arc<pathspec::Attributes>>, Failure> {
    let asks = |arg: &BString| arg.starts_with(b":(") && arg.contains_str("attr:");
    if !args.iter().any(asks) {
        return Ok(None);
    }
    let repo = run.open()?;
    let index = match index {
        Some(index) => index,
        None => index::load_index(&repo, &Settings::read(&repo)?)?,
    };
    Ok(Some(Arc::new(pathspec::Attributes::new(repo, index, |line| console::eprint_line(line))?)))
}

/// Returns a path of the command line relative to the worktree's root. The error is Git's message.
pub(crate) fn from_top(repo: &Repository, path: &BStr) -> Result<BString, BString> {
    let top = repo.work_tree().map_or(&b""[..], |top| top.as_os_str().as_bytes());
    let normal = pathspec::normalize(path, repo.prefix(), top.as_bstr());
    normal.ok_or_else(|| text!("'", path, "' is outside repository at '", top, "'"))
}

/// Returns true if a word names a file in the worktree, by Git's rule to distinguish revisions from
/// paths.
pub(crate) fn is_a_file(repo: &Repository, word: &BStr) -> Result<bool, Failure> {
    let Some(root) = repo.work_tree() else { return Ok(false) };
    let (word, prefix) = match word.strip_prefix(b":/") {
        Some(b"") => return Ok(true),
        Some(rest) => (rest.as_bstr(), BStr::new("")),
        None => match word.strip_prefix(b":!").or_else(|| word.strip_prefix(b":^")) {
            Some(b"") => return Ok(true),
            Some(rest) => (rest.as_bstr(), repo.prefix()),
            None => (word, repo.prefix()),
        },
    };
    let dir = root.join(os_str(prefix));
    let path = if prefix.is_empty() {
        UserPath::new(word).resolve(root)
    } else {
        UserPath::new(word).resolve_or_base(&dir)
    };
    let seen = |path: PathBuf| files::uninterrupted(|| path.symlink_metadata());
    match path.map_err(Into::into).and_then(seen) {
        Ok(_) => Ok(true),
        Err(error) => match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => Ok(false),
            _ => {
                let reason = crate::term::text::os_error(&error);
                Err(Failure::Fatal(text!("failed to stat '", word, "': ", reason)))
            }
        },
    }
}

fn use_dashes(run: &Invocation) -> String {
    let name = run.program.name();
    format!(
        "Use '--' to separate paths from revisions, like this:\n\
         '{name} <command> [<revision>...] -- [<file>...]'"
    )
}

/// Returns true if a revision may also be a file: Git does not search within a Git directory, or
/// outside the worktree, where some commands still are when they parse their arguments.
fn looks_for_files(run: &Invocation, repo: &Repository) -> bool {
    let Some(root) = repo.work_tree() else { return false };
    let git_dir = files::canonical(repo.git_dir()).unwrap_or_else(|_| repo.git_dir().to_owned());
    let stays = run.command == "diff-index" || run.command == "reset";
    let is_outside = || files::canonical(&run.cwd).is_ok_and(|cwd| !cwd.starts_with(root));
    !(root.starts_with(git_dir) || stays && is_outside())
}

/// Returns an error for a revision that is also a file, which is ambiguous without `--`.
pub(crate) fn must_not_be_a_file(run: &Invocation, repo: &Repository, word: &BStr) -> Result<(), Failure> {
    if word.starts_with(b"-") || !looks_for_files(run, repo) || !is_a_file(repo, word)? {
        return Ok(());
    }
    Err(Failure::Fatal(text!(
        "ambiguous argument '",
        word,
        "': both revision and filename\n",
        use_dashes(run)
    )))
}

/// Prints the broken refs that `word` may mean and that were skipped.
pub(crate) fn warn_ignored(repo: &Repository, word: &BStr) {
    repo.ignored_refs(word).iter().for_each(console::warning);
}

/// Returns an error unless a path without `--` exists, or looks like a pattern.
pub(crate) fn must_be_a_file(run: &Invocation, repo: &Repository, word: &BStr) -> Result<(), Failure> {
    if word.starts_with(b"-") {
        return Err(Failure::Fatal(text!("option '", word, "' must come before non-option arguments")));
    }
    if looks_like_a_path(repo, word)? {
        return Ok(());
    }
    warn_ignored(repo, word);
    Err(Failure::Fatal(text!(
        "ambiguous argument '",
        word,
        "': unknown revision or path not in the working tree.\n",
        use_dashes(run)
    )))
}

/// Like [`must_be_a_file`], for a word after a path, which therefore is not a revision.
pub(crate) fn must_be_another_file(run: &Invocation, repo: &Repository, word: &BStr) -> Result<(), Failure> {
    if looks_like_a_path(repo, word)? {
        return Ok(());
    }
    let name = run.program.name();
    Err(Failure::Fatal(text!(
        word,
        ": no such path in the working tree.\nUse '",
        name,
        " <command> -- <path>...' to specify paths that do not exist locally."
    )))
}

fn looks_like_a_path(repo: &Repository, word: &BStr) -> Result<bool, Failure> {
    let pattern = word.starts_with(b":(") || {
        let mut escaped = false;
        word.iter().any(|&byte| {
            let special = !escaped && matches!(byte, b'*' | b'?' | b'[');
            escaped = !escaped && byte == b'\\';
            special
        })
    };
    Ok(pattern || is_a_file(repo, word)?)
}
