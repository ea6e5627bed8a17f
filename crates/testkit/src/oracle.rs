//! Git as oracle: the same command in two copies of one repository, and nothing may differ.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    path::{Path, PathBuf},
};

use bstr::{BString, ByteSlice as _};

use crate::sandbox::{Repo, Run, Sandbox};

/// The Git version whose messages are taken as the truth. With an older one only what a command
/// did is compared, not what it said.
const MESSAGES_OF: (u32, u32) = (2, 55);

/// One repository, made twice by the same steps.
pub struct Oracle {
    sandbox: Sandbox,
    program: PathBuf,
    compares_messages: bool,
}

/// Everything that can be seen of a repository and its worktree.
#[derive(Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// `git ls-files --stage -t -v`
    pub index: BString,
    /// `git for-each-ref`, HEAD's content, and ORIG_HEAD's.
    pub refs: BString,
    /// Every reflog by name.
    pub reflogs: BTreeMap<BString, BString>,
    /// Path to (mode, content or link target), `.git` left out.
    pub worktree: BTreeMap<BString, (u32, BString)>,
    /// `git status --porcelain --ignored`
    pub status: BString,
    /// Names in the Git directory: state files, and locks left behind.
    pub git_dir: Vec<BString>,
    /// `.git/config`
    pub config: BString,
}

const GIT: &str = "git/repo";
const OURS: &str = "ours/repo";

impl Oracle {
    /// `program` is the program under test; `setup` makes the repository, and must do the same
    /// each time it is called.
    pub fn new(program: &str, setup: impl Fn(&Repo<'_>)) -> Oracle {
        let sandbox = Sandbox::new();
        for name in [GIT, OURS] {
            setup(&sandbox.init(name));
        }
        let compares_messages = sandbox.git_version() >= MESSAGES_OF;
        Oracle { sandbox, program: program.into(), compares_messages }
    }

    /// Two copies of a repository made already. Times and inodes differ from the original's, so the
    /// index of each is refreshed.
    pub fn copies_of(program: &str, made: &Repo<'_>) -> Oracle {
        let sandbox = Sandbox::new();
        for name in [GIT, OURS] {
            let copy = sandbox.repo(name);
            fs::create_dir_all(copy.path.parent().expect("below the sandbox")).expect("a new directory");
            let copied = std::process::Command::new("cp").arg("-a").arg(&made.path).arg(&copy.path).status();
            assert!(copied.is_ok_and(|status| status.success()), "the template cannot be copied");
            copy.try_git(&["update-index", "-q", "--refresh"]);
        }
        let compares_messages = sandbox.git_version() >= MESSAGES_OF;
        Oracle { sandbox, program: program.into(), compares_messages }
    }

    /// The copy Git works in.
    pub fn git(&self) -> Repo<'_> {
        self.sandbox.repo(GIT)
    }

    /// The copy the program under test works in.
    pub fn ours(&self) -> Repo<'_> {
        self.sandbox.repo(OURS)
    }

    /// Does the same to both copies.
    pub fn both(&self, step: impl Fn(&Repo<'_>)) {
        step(&self.git());
        step(&self.ours());
    }

    /// Runs `args` in both copies; panics unless all that was said and done is the same. Returns
    /// what the program under test said.
    #[track_caller]
    pub fn same(&self, args: &[&str]) -> Run {
        self.same_in("", args)
    }

    /// As [`Oracle::same`]; `context` names the case when it fails.
    #[track_caller]
    pub fn same_as(&self, context: &str, args: &[&str]) -> Run {
        self.compare(context, "", args)
    }

    /// As [`Oracle::same`], from a directory of the worktree.
    #[track_caller]
    pub fn same_in(&self, dir: &str, args: &[&str]) -> Run {
        self.compare(dir, dir, args)
    }

    #[track_caller]
    fn compare(&self, context: &str, dir: &str, args: &[&str]) -> Run {
        let theirs = self.sandbox.repo(&format!("{GIT}/{dir}")).try_git(args);
        let ours = self.sandbox.repo(&format!("{OURS}/{dir}")).run(&self.program, args);
        let (theirs, ours) = (self.plain(theirs), self.plain(ours));
        if self.compares_messages {
            assert_eq!(
                theirs.stderr, ours.stderr,
                "{context} {args:?}: standard error; git left, ours right"
            );
            assert_eq!(
                theirs.stdout, ours.stdout,
                "{context} {args:?}: standard output; git left, ours right"
            );
        }
        assert_eq!(
            theirs.code, ours.code,
            "{context} {args:?}: exit code; git left, ours said {}",
            ours.stderr
        );
        self.same_state(&[&[context], args].concat());
        ours
    }

    /// Compares the two copies as they are.
    #[track_caller]
    pub fn same_state(&self, context: &[&str]) {
        let (theirs, ours) = (self.snapshot(&self.git()), self.snapshot(&self.ours()));
        assert_eq!(theirs.worktree, ours.worktree, "{context:?}: worktree; git left, ours right");
        assert_eq!(theirs, ours, "{context:?}: state; git left, ours right");
    }

    /// Looks at one copy. Git refreshes nothing while we look.
    pub fn snapshot(&self, repo: &Repo<'_>) -> Snapshot {
        let git = |args: &[&str]| {
            let mut all = vec!["--no-optional-locks"];
            all.extend(args);
            self.plain(repo.try_git(&all)).stdout
        };
        let mut refs = git(&["for-each-ref", "--format=%(refname) %(objectname) %(symref)"]);
        for name in ["HEAD", "ORIG_HEAD"] {
            let content = fs::read(repo.join(format!(".git/{name}"))).unwrap_or_default();
            refs.extend([name.as_bytes(), b" ", &content].concat());
        }
        let mut git_dir: Vec<BString> = fs::read_dir(repo.join(".git"))
            .expect("a repository")
            .map(|entry| BString::from(entry.expect("readable").file_name().as_bytes()))
            .collect();
        git_dir.sort();
        let mut worktree = BTreeMap::new();
        collect(&repo.path, &repo.path, &mut worktree);
        worktree.retain(|path, _| !path.starts_with(b".git/") && path != ".git");
        let mut reflogs = BTreeMap::new();
        let mut logs = BTreeMap::new();
        collect(&repo.join(".git/logs"), &repo.join(".git/logs"), &mut logs);
        for (path, (mode, content)) in logs {
            if mode & 0o170000 == 0o100000 {
                reflogs.insert(path, content);
            }
        }
        Snapshot {
            index: git(&["ls-files", "--stage", "-t", "-v"]),
            refs,
            reflogs,
            worktree,
            status: git(&["status", "--porcelain", "--ignored"]),
            git_dir,
            config: fs::read(repo.join(".git/config")).unwrap_or_default().into(),
        }
    }

    /// The program's name and the copy's place taken out of what was said.
    fn plain(&self, run: Run) -> Run {
        let root = self.sandbox.path();
        let plain = |text: BString| {
            let mut text = text.to_vec();
            for copy in ["git", "ours"] {
                text = text.replace(root.join(copy).as_os_str().as_bytes(), "<root>");
            }
            BString::from(text.replace("sapwood", "git"))
        };
        Run { code: run.code, stdout: plain(run.stdout), stderr: plain(run.stderr) }
    }
}

/// Everything below `dir`: files with their content, links with their target, directories empty or not.
fn collect(root: &Path, dir: &Path, found: &mut BTreeMap<BString, (u32, BString)>) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries {
        let path = entry.expect("readable").path();
        let name = path.strip_prefix(root).expect("below the root").as_os_str().as_bytes();
        let meta = path.symlink_metadata().expect("just listed");
        let mode = meta.permissions().mode();
        let content = if meta.is_symlink() {
            let target = fs::read_link(&path).expect("a link");
            found.insert(name.into(), (0o120000, target.as_os_str().as_bytes().into()));
            continue;
        } else if meta.is_file() {
            fs::read(&path).expect("a readable file").into()
        } else {
            BString::default()
        };
        found.insert(name.into(), (mode, content));
        if meta.is_dir() {
            collect(root, &path, found);
        }
    }
}
