//! `.worktreeinclude`: the ignored files that a new workspace gets by default.
//!
//! The file lies at the top of the worktree in which `create` runs. It has the format of
//! `.gitignore`. A path is taken if one of its patterns matches and Git ignores the path; so
//! tracked files, and untracked ones that are not ignored, are never taken. An ignored directory
//! that matches is taken whole. One that does not match is entered only if a pattern begins with
//! its path: `.env` does not search `node_modules`.

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    crew::Workers,
    ignore::check::{Checker, Sources, folds_case},
    pathspec::Pathspecs,
    untracked::{self, Directories, Excludes, Ignored, Nested, Options},
};
use repo::Repository;
use sapwood::{Dir, FileType, index::Index};

use crate::{session::invocation::Invocation, term::failure::Failure};

/// The name of the file.
pub(super) const NAME: &str = ".worktreeinclude";

/// Returns the ignored paths of a worktree that the file names, sorted.
pub(super) fn paths(
    run: &Invocation,
    repo: &Repository,
    root: &Dir,
    index: &Index,
) -> Result<Vec<BString>, Failure> {
    let Some(content) = content(root)? else { return Ok(Vec::new()) };
    let excludes = Excludes::standard(repo, &[])?.without_cache();
    let options = Options {
        directories: Directories::Files,
        ignored: Ignored::Matching,
        nested: Nested::AsOne,
        workers: Workers::Auto,
    };
    let everything = Pathspecs::default();
    let flag = run.interrupt.flag();
    let found = untracked::walk(repo, root, index, &everything, &excludes, &options, flag, None)?;
    run.interrupt.check()?;
    let mut sources = Sources::default();
    sources.add(NAME.into(), &content, folds_case(repo)?);
    let checker = Checker::new(repo, Some(root), None, sources)?;
    let mut search = Search { root, checker, starts: starts(&content), taken: Vec::new() };
    for path in &found.ignored {
        let (path, kind) = match path.strip_suffix(b"/") {
            Some(dir) => (dir.as_bstr(), FileType::Directory),
            None => (path.as_bstr(), FileType::File),
        };
        search.examine(path, kind)?;
    }
    Ok(search.taken)
}

fn content(root: &Dir) -> Result<Option<Vec<u8>>, Failure> {
    let failed = |error: std::io::Error| {
        Failure::fatal(format!("cannot read '{NAME}': {}", crate::term::text::os_error(&error)))
    };
    match root.stat(NAME.as_bytes()).map_err(failed)? {
        Some(stat) if stat.file_type == FileType::File => {
            let mut content = Vec::new();
            let mut file = root.open_file(NAME.as_bytes()).map_err(failed)?;
            std::io::Read::read_to_end(&mut file, &mut content).map_err(failed)?;
            Ok(Some(content))
        }
        _ => Ok(None),
    }
}

/// Returns the patterns that name a path from the top, without the slash in front.
fn starts(content: &[u8]) -> Vec<BString> {
    let lines = content.lines().map(|line| line.trim_end_with(|letter| letter == ' '));
    let plain = lines.filter(|line| !line.starts_with(b"#") && !line.starts_with(b"!"));
    let starts = plain.map(|line| line.strip_prefix(b"/").unwrap_or(line));
    starts
        .filter(|start| start.trim_end_with(|letter| letter == '/').contains(&b'/'))
        .map(Into::into)
        .collect()
}

struct Search<'a> {
    root: &'a Dir,
    checker: Checker<'a>,
    starts: Vec<BString>,
    taken: Vec<BString>,
}

impl Search<'_> {
    /// Takes an ignored path, or what matches below it.
    fn examine(&mut self, path: &BStr, kind: FileType) -> Result<(), Failure> {
        let is_directory = kind == FileType::Directory;
        if self.checker.find(path, Some(is_directory)).is_some_and(|found| !found.negative) {
            self.taken.push(path.to_owned());
            return Ok(());
        }
        let lead = [path.as_bytes(), b"/"].concat();
        if !is_directory || !self.starts.iter().any(|start| start.starts_with(&lead)) {
            return Ok(());
        }
        let failed = |error: std::io::Error| {
            Failure::fatal(format!("cannot read '{path}': {}", crate::term::text::os_error(&error)))
        };
        let mut names = self.root.open_dir(path).and_then(|dir| dir.list()).map_err(failed)?;
        names.sort_by(|one, other| one.0.cmp(&other.0));
        for (name, kind) in names {
            self.examine([lead.as_slice(), &name].concat().as_bstr(), kind)?;
        }
        Ok(())
    }
}
