//! `git upload-pack` alone: the answer of the server, with nobody who takes it in. Its time is a
//! floor for every client of that server.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::{case::Case, source::Source};
use crate::{
    Error,
    measure::{Invocation, hermetic, must},
};

/// A request of protocol version 2, in a file.
pub(super) struct Request {
    file: PathBuf,
    repo: PathBuf,
    /// The bytes of the answer.
    pub(super) bytes: u64,
}

impl Request {
    /// Prepares the request of a case. A clone with submodules has several, so there is none. The
    /// blobs of a worktree that a blobless clone asks for later are not in the request.
    pub(super) fn of(case: Case, git: &Path, source: &Source) -> Result<Option<Request>, Error> {
        let repo = source.root.join(case.repo());
        let oids = |refs: &[&str]| -> Result<Vec<String>, Error> {
            let args = [&["for-each-ref", "--format=%(objectname)"], refs].concat();
            let text = must(git, &args, &repo)?;
            let mut oids: Vec<String> = String::from_utf8_lossy(&text).lines().map(str::to_owned).collect();
            oids.sort_unstable();
            oids.dedup();
            Ok(oids)
        };
        let mut lines = vec![line("command=fetch"), line("object-format=sha1"), "0001".into()];
        lines.push(line("ofs-delta"));
        let wants = match case {
            Case::Full => oids(&["refs/heads", "refs/tags"])?,
            Case::Shallow => {
                lines.push(line("deepen 1"));
                let head = must(git, &["rev-parse", "HEAD"], &repo)?;
                vec![String::from_utf8_lossy(&head).trim().to_owned()]
            }
            Case::Blobless => {
                lines.push(line("filter blob:none"));
                oids(&["refs/heads", "refs/tags"])?
            }
            Case::Fetch10 | Case::Fetch1000 => {
                lines.push(line("thin-pack"));
                let base = oids(&["refs/heads/base"])?;
                lines.extend(base.iter().map(|oid| line(&format!("have {oid}"))));
                let branch = Source::branch(case.commits().unwrap_or_default());
                oids(&[&format!("refs/heads/{branch}")])?
            }
            Case::Nothing => {
                lines = vec![line("command=ls-refs"), line("object-format=sha1"), "0001".into()];
                lines.extend(["peel", "symrefs", "ref-prefix refs/heads/"].map(line));
                Vec::new()
            }
            Case::Submodules => return Ok(None),
        };
        lines.extend(wants.iter().map(|oid| line(&format!("want {oid}"))));
        if case != Case::Nothing {
            lines.push(line("done"));
        }
        lines.push("0000".into());
        let file = source.root.join(format!("{}.request", case.name()));
        let failed = |source| Error::Io { what: "cannot write", path: file.clone(), source };
        fs::write(&file, lines.concat()).map_err(failed)?;
        let mut request = Request { file, repo, bytes: 0 };
        request.bytes = request.answer(git)?;
        Ok(Some(request))
    }

    /// Returns the call that makes the server answer.
    pub(super) fn invocation(&self, git: &Path) -> Invocation {
        let [repo, file, git] = [&self.repo, &self.file, git].map(|path| path.display().to_string());
        let script = "exec \"$0\" upload-pack --stateless-rpc \"$1\" <\"$2\"";
        let args = ["GIT_PROTOCOL=version=2", "sh", "-c", script, &git, &repo, &file];
        Invocation::new(Path::new("/usr/bin/env"), &args, Path::new("/"))
    }

    /// Counts the bytes of the answer.
    fn answer(&self, git: &Path) -> Result<u64, Error> {
        let Invocation { program, args, .. } = self.invocation(git);
        let failed = |detail: String| Error::Command { command: "git upload-pack".into(), detail };
        let mut child = hermetic(&mut Command::new(program))
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let mut answer = child.stdout.take().expect("piped above");
        let copied = std::io::copy(&mut answer, &mut std::io::sink());
        let status = child.wait().map_err(|error| failed(error.to_string()))?;
        match copied {
            Ok(bytes) if status.success() && bytes > 100 => Ok(bytes),
            _ => Err(failed(format!("{copied:?}, {status}"))),
        }
    }
}

fn line(text: &str) -> String {
    format!("{:04x}{text}\n", text.len() + 5)
}
