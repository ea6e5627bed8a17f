//! `--pathspec-from-file`: pathspecs from a file or standard input, one per line and quoted if
//! necessary, or each terminated by NUL. An empty file counts as no paths.

use std::io::Read as _;

use bstr::{BStr, BString, ByteSlice as _};
use engine::pathspec::Pathspecs;
use repo::Repository;
use sapwood::UserPath;

use crate::{
    commands::paths,
    session::{
        input::{self, Input},
        invocation::Invocation,
    },
    term::{
        args::{Both, Opt, Set},
        console::text,
        failure::Failure,
        files,
        text::unquote,
    },
};

/// The two options as given.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathspecFile {
    /// `--pathspec-from-file`; `-` is standard input. If a file with `:(optional)` is missing, the
    /// previous file applies. `--no-pathspec-from-file` has no effect, as in Git.
    pub(crate) files: Vec<BString>,
    /// `--pathspec-file-nul`
    pub(crate) nul: bool,
}

/// `--pathspec-from-file`
pub(crate) const fn from_file<R>(field: fn(&mut R) -> &mut Vec<BString>) -> Opt<Set<R>> {
    Opt::each("--pathspec-from-file <file>", "read pathspec from file", field)
}

/// `--pathspec-file-nul`
pub(crate) const fn file_nul<R>(field: fn(&mut R) -> &mut bool) -> Opt<Set<R>> {
    let help = "with --pathspec-from-file, pathspec elements are separated with NUL character";
    Opt::flag("--pathspec-file-nul", help, field).native(Both)
}

impl PathspecFile {
    /// Returns the paths: those `given` as arguments, or those in the file. It is an error to give
    /// both, or the file together with the option `apart`.
    pub(crate) fn or(
        &self,
        given: Pathspecs,
        apart: Option<&str>,
        run: &Invocation,
        repo: &Repository,
    ) -> Result<Pathspecs, Failure> {
        let Some(file) = self.file(run) else {
            return if self.nul {
                Err(Failure::requires("--pathspec-file-nul", "--pathspec-from-file"))
            } else {
                Ok(given)
            };
        };
        if !given.is_empty() {
            return Err(Failure::fatal(
                "'--pathspec-from-file' and pathspec arguments cannot be used together",
            ));
        }
        if let Some(option) = apart {
            return Err(Failure::fatal(format!(
                "options '--pathspec-from-file' and '{option}' cannot be used together"
            )));
        }
        let content = read(file, run, repo)?;
        paths::parse(run, repo, &elements(&content, self.nul)?)
    }

    fn file(&self, run: &Invocation) -> Option<&BStr> {
        let last = self.files.iter().rev().find_map(|file| match file.strip_prefix(b":(optional)") {
            Some(file) => at(run, file).is_ok_and(|path| path.exists()).then_some(file.as_bstr()),
            None => Some(file.as_bstr()),
        });
        // For Git the empty string means no file.
        last.filter(|file| !file.is_empty())
    }
}

fn at(run: &Invocation, file: &[u8]) -> std::io::Result<std::path::PathBuf> {
    Ok(UserPath::new(file).resolve(&run.cwd)?)
}

fn read(file: &BStr, run: &Invocation, repo: &Repository) -> Result<Vec<u8>, Failure> {
    let read = if file == "-" {
        Input::new(run)?.all()?
    } else {
        at(run, file).and_then(|path| {
            input::note_read(&path);
            let mut file = files::open(&path)?;
            let mut content = Vec::new();
            file.read_to_end(&mut content).map(|_| content)
        })
    };
    read.map_err(|error| {
        // Git works at the root of the worktree and names the file relative to that.
        let prefix = if file.starts_with(b"/") || file == "-" { BStr::new("") } else { repo.prefix() };
        let reason = crate::term::text::os_error(&error);
        Failure::Fatal(text!("could not open '", prefix, file, "' for reading: ", reason))
    })
}

fn elements(content: &[u8], nul: bool) -> Result<Vec<BString>, Failure> {
    if content.is_empty() {
        return Ok(Vec::new());
    }
    let end = if nul { b'\0' } else { b'\n' };
    let content = content.strip_suffix(&[end]).unwrap_or(content);
    content.split(|&byte| byte == end).map(|line| element(line, nul)).collect()
}

fn element(line: &[u8], nul: bool) -> Result<BString, Failure> {
    if nul {
        return Ok(line.into());
    }
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = line.split(|&byte| byte == 0).next().unwrap_or_default();
    match line.first() {
        // Bytes after the closing quote are ignored.
        Some(b'"') => match unquote(line) {
            Some((plain, _)) => Ok(plain),
            None => Err(Failure::Fatal(text!("line is badly quoted: ", line))),
        },
        _ => Ok(line.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(content: &str, nul: bool) -> Vec<BString> {
        elements(content.as_bytes(), nul).unwrap_or_else(|_| panic!("{content:?} is well quoted"))
    }

    #[test]
    fn lines() {
        assert!(of("", false).is_empty());
        assert_eq!(of("a\r\nb c", false), ["a", "b c"]);
        assert_eq!(of("\n\"\\303\\266\\n\" rest\nx\"\n", false), ["", "\u{f6}\n", "x\""]);
        assert!(elements(b"\"a\n", false).is_err());
    }

    #[test]
    fn ended_by_nul() {
        assert!(of("", true).is_empty());
        assert_eq!(of("a\n\0\"b\"\0c", true), ["a\n", "\"b\"", "c"]);
        assert_eq!(of("\0", true), [""]);
    }
}
