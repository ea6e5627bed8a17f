//! Random commands of Git and sapwood.

use std::{
    ffi::{OsStr, OsString},
    fs,
    io::{self, Write as _},
    os::unix::ffi::OsStrExt as _,
    process::Stdio,
};

use super::{Cache, RandomEdits, Writer};
use crate::SAPWOOD;

/// The blob of "1\n", which is in the first commit.
const BLOB: &str = "d00491fd7e5bb6fa28c517a0bb32b8b506539d4d";

fn words<const N: usize>(words: [&str; N]) -> Vec<OsString> {
    words.iter().map(Into::into).collect()
}

impl RandomEdits<'_> {
    /// Runs a random command of Git or sapwood.
    pub(super) fn command(&mut self, path: &[u8]) -> io::Result<()> {
        let mut line = self.line(path)?;
        // Git can run each of sapwood's commands as well.
        if matches!(line.program, Program::Sapwood) && self.once_in(2) {
            line.program = Program::Git;
        }
        if line.on_path {
            line.args.extend([OsString::from("--"), OsStr::from_bytes(path).into()]);
        }
        let done = self.run(&line);
        self.age_moved();
        done
    }

    fn line(&mut self, path: &[u8]) -> io::Result<Line> {
        use Program::{Git, Sapwood};
        Ok(match self.random.below(40) {
            0..=3 => Line::new(Git, &["add", "-f"]).on_path(),
            4 => Line::new(Git, &["add", "-A"]),
            5 => Line::new(Git, &["add", "-u"]),
            // Git writes an entry repeatedly when it makes such an index sparse again.
            6 if !self.cache.cone() => Line::new(Git, &["add", "-N"]).on_path(),
            7 => Line::new(Git, &["rm", "-r", "-q", "-f", "--cached"]).on_path(),
            8 => {
                // The file stays on disk, where nothing shows that it is untracked now.
                let mut line = Line::new(Sapwood, &["update-index", "--force-remove", "--"]);
                let found = self.found().unwrap_or(path.into());
                line.args.push(OsStr::from_bytes(&found).into());
                line
            }
            9 => Line::new(Git, &["rm", "-r", "-q", "-f"]).on_path(),
            10 => {
                let mut other = self.path();
                if self.cache.is_watched() && self.is_behind_a_link(&other) {
                    // Git then marks a name as valid that does not exist.
                    other = self.name().to_vec();
                }
                let mut line = Line::new(Git, &["mv", "-f", "--"]);
                line.args.extend([path, &other].map(|path| OsStr::from_bytes(path).into()));
                line
            }
            11 | 12 => Line::new(Git, &["commit", "-q", "--allow-empty", "--no-verify", "-m", "more"]),
            13 => Line::new(Git, &["commit", "-q", "-a", "--no-verify", "-m", "all"]),
            14 => self.conflict(path),
            15 => Line::new(Git, &["merge", "-q", "-m", "merged", "side"]),
            16 => Line::new(Git, &["merge", "--abort"]),
            17 => Line::new(
                Git,
                self.pick(&[&["stash", "-q"][..], &["stash", "-q", "-u"], &["stash", "pop", "-q"]]),
            ),
            18 => Line::new(Sapwood, &["checkout", "-q", "-f", self.pick(&["HEAD", "side"])]).on_path(),
            19 => Line::new(Sapwood, &["reset", "-q"]),
            20 => Line::new(Sapwood, &["reset", "-q", "--hard"]),
            21 => {
                let to = self.pick(&["HEAD~1", "side", "main"]);
                Line::new(Sapwood, &["switch", "-q", "-f", "--detach", to])
            }
            22 => Line::new(Sapwood, &["switch", "-q", "-f", self.pick(&["side", "main"])]),
            23 => Line::new(Sapwood, &["read-tree", "--reset", "-u", "HEAD"]),
            24 => Line::new(Sapwood, &["clean", "-q", "-f", self.pick(&["-d", "-x", "-X"])]),
            25 | 26 => {
                let marks =
                    ["--assume-unchanged", "--skip-worktree", "--no-assume-unchanged", "--no-skip-worktree"];
                Line::new(Sapwood, &["update-index", self.pick(&marks)]).on_path()
            }
            27 => Line::new(Sapwood, &["update-index", self.pick(&["--chmod=+x", "--chmod=-x"])]).on_path(),
            28 => Line::new(Sapwood, &["update-index", "--add", "--remove"]).on_path(),
            29 => Line::new(Sapwood, &["update-index", "-q", self.pick(&["--refresh", "--really-refresh"])]),
            30 => Line::new(Sapwood, &["update-index", "--index-version", self.pick(&["2", "3", "4"])]),
            31 if self.splits => {
                Line::new(Sapwood, &["update-index", self.pick(&["--split-index", "--no-split-index"])])
            }
            32 => {
                let how = ["--untracked-cache", "--force-untracked-cache", "--no-untracked-cache"];
                Line::new(Sapwood, &["update-index", self.pick(&how)])
            }
            33 => Line::new(Sapwood, &["update-index", self.pick(&["--fsmonitor", "--no-fsmonitor"])]),
            34 if self.cache.cone() || self.cache == Cache::SparsePatterns => self.sparse(),
            35 => Line::new(
                Git,
                &["-C", "sub", "commit", "-q", "-a", "--allow-empty", "--no-verify", "-m", "inner"],
            ),
            36 => Line::new(Git, &["-C", "sub", "checkout", "-q", "--detach", "HEAD~1"]),
            37 => Line::new(Git, &["add", "-f", "sub"]),
            38 => self.repository(path)?,
            _ => Line::new(Git, &["status", "-s"]),
        })
    }

    /// Runs a command, which may fail.
    fn run(&mut self, line: &Line) -> io::Result<()> {
        let mut command = match line.program {
            Program::Git => self.repo.git_command(),
            Program::Sapwood => self.repo.command(SAPWOOD.as_ref()),
        };
        command.env("GIT_LITERAL_PATHSPECS", "1").args(&line.args);
        if self.has_daemon() && matches!(line.program, Program::Sapwood) {
            self.watch.look();
            let settled = self.audit.settle();
            self.must(settled);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        // A command that has failed does not read its input.
        let _ = child.stdin.take().expect("a pipe").write_all(&line.input);
        let output = child.wait_with_output()?;
        let ended = output.status.code().is_some_and(|code| code != 101);
        if !ended && matches!(line.program, Program::Git) {
            // A bug of Git: it aborts and leaves its lock.
            let _ = fs::remove_file(self.repo.join(".git/index.lock"));
        } else {
            assert!(ended, "{:#?} {line:?} {}", self.log, output.stderr.escape_ascii());
        }
        self.log.push(format!("{line:?}"));
        match line.program {
            Program::Git => self.wrote(Writer::Git),
            Program::Sapwood => self.wrote(Writer::Sapwood),
        }
        if output.status.success() {
            Ok(())
        } else {
            Err(io::Error::other(output.stderr.escape_ascii().to_string()))
        }
    }

    /// Returns a command that adds conflict stages for a path.
    fn conflict(&mut self, path: &[u8]) -> Line {
        let stages = self.pick(&[&[1, 2, 3][..], &[2, 3], &[1, 2], &[1, 3], &[2], &[3], &[1]]);
        let mut line = Line::new(Program::Git, &["update-index", "-z", "--index-info"]);
        // Removes the entry at stage 0, which would stay otherwise.
        line.input = [format!("0 {} 0\t", "0".repeat(40)).as_bytes(), path, b"\0"].concat();
        for stage in stages {
            let mode = self.pick(&["100644", "100755", "120000", "100644", "100755", "120000", "160000"]);
            line.input.extend(format!("{mode} {BLOB} {stage}\t").into_bytes());
            line.input.extend([path, b"\0"].concat());
        }
        line
    }

    /// Creates a repository with a commit at a path. Git adds it as a submodule.
    fn repository(&mut self, path: &[u8]) -> io::Result<Line> {
        let place = self.place(path);
        self.clear(path)?;
        fs::create_dir(&place)?;
        let mut init = Line::new(Program::Git, &["init", "-q", "-b", "main"]);
        init.args.push(place.clone().into());
        self.run(&init)?;
        let mut commit = Line::new(Program::Git, &["-C"]);
        commit.args.push(place.into());
        commit.args.extend(words(["commit", "-q", "--allow-empty", "--no-verify", "-m", "nested"]));
        Ok(commit)
    }

    fn sparse(&mut self) -> Line {
        let cones = [
            &["set", "d"][..],
            &["set", "out", "d/d"],
            &["set", "new"],
            &["set"],
            &["add", "out/d"],
            &["reapply"],
        ];
        let patterns = [
            &["set", "--no-cone", "/*", "!/out"][..],
            &["set", "--no-cone", "/*", "!a"],
            &["set", "--no-cone", "d", "*.o"],
            &["set", "--no-cone", "/*"],
            &["reapply"],
        ];
        let how = if self.cache.cone() { self.pick(&cones) } else { self.pick(&patterns) };
        Line::new(Program::Sapwood, &[&["sparse-checkout"], how].concat())
    }
}

/// A command line.
#[derive(Debug)]
struct Line {
    program: Program,
    args: Vec<OsString>,
    on_path: bool,
    input: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum Program {
    Git,
    /// Sapwood, or sometimes Git in its place.
    Sapwood,
}

impl Line {
    fn new(program: Program, args: &[&str]) -> Line {
        let args = args.iter().map(OsString::from).collect();
        Line { program, args, on_path: false, input: Vec::new() }
    }

    fn on_path(mut self) -> Line {
        self.on_path = true;
        self
    }
}
