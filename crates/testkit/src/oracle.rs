//! Git as oracle: runs the same command in two copies of one repository, and compares all results.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use bstr::{BStr, BString, ByteSlice as _};

use crate::sandbox::{Repo, Run, Sandbox};

/// The Git version whose messages are the reference. With another version only effects are
/// compared, not messages.
const MESSAGES_OF: (u32, u32) = (2, 55);

/// One repository, created two or more times by the same steps.
pub struct Oracle {
    sandbox: Sandbox,
    program: PathBuf,
    /// The number of copies for the program under test.
    ours: usize,
    compares_messages: bool,
}

/// The visible state of a repository and its worktree.
#[derive(Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// `git ls-files --stage -t -v`
    pub index: BString,
    /// The output of `git for-each-ref` (omitted if the files of the refs are equal in both
    /// copies), the content of HEAD, and that of ORIG_HEAD.
    pub refs: BString,
    /// Every reflog by name.
    pub reflogs: BTreeMap<BString, BString>,
    /// Path to (mode, content or link target), without `.git` directories and their content.
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

/// Returns the path of the copy `number` for the program under test.
fn ours_at(number: usize) -> String {
    match number {
        0 => OURS.to_owned(),
        number => format!("ours{number}/repo"),
    }
}

/// Returns true if the oracle is the version whose messages are the reference. With another one,
/// says so once.
fn compares_messages() -> bool {
    static IS_REFERENCE: OnceLock<bool> = OnceLock::new();
    *IS_REFERENCE.get_or_init(|| {
        let version = Sandbox::new().git_version();
        if version != MESSAGES_OF {
            println!("Git {}.{}: its messages are not compared", version.0, version.1);
        }
        version == MESSAGES_OF
    })
}

/// Returns a message that is compared with Git's, or nothing if the oracle is another version than
/// the reference.
pub fn wording(message: &[u8]) -> &BStr {
    if compares_messages() { message.as_bstr() } else { BStr::new("") }
}

impl Oracle {
    /// Creates the copies. `program` is the program under test; `setup` creates the repository, and
    /// must do the same each time it is called.
    pub fn new(program: &str, setup: impl Fn(&Repo<'_>)) -> Oracle {
        let sandbox = Sandbox::new();
        for name in [GIT, OURS] {
            setup(&sandbox.init(name));
        }
        Oracle::of(sandbox, program, 1)
    }

    /// Creates two copies of an existing repository. Times and inodes differ from the original's,
    /// so the index of each copy is refreshed.
    pub fn copies_of(program: &str, made: &Repo<'_>) -> Oracle {
        Oracle::several_of(program, made, 1)
    }

    /// Like [`Oracle::copies_of`], with several copies for the program under test: see
    /// [`Oracle::same_with_each`].
    pub fn several_of(program: &str, made: &Repo<'_>, ours: usize) -> Oracle {
        let oracle = Oracle::of(Sandbox::new(), program, ours);
        oracle.both(|copy| {
            copy_tree(&made.path, &copy.path).expect("the template can be copied");
            copy.try_git(&["update-index", "-q", "--refresh"]);
        });
        oracle
    }

    fn of(sandbox: Sandbox, program: &str, ours: usize) -> Oracle {
        let compares_messages = compares_messages();
        Oracle { sandbox, program: program.into(), ours, compares_messages }
    }

    /// Returns the copy in which Git runs.
    pub fn git(&self) -> Repo<'_> {
        self.sandbox.repo(GIT)
    }

    /// Returns the copy in which the program under test runs.
    pub fn ours(&self) -> Repo<'_> {
        self.sandbox.repo(OURS)
    }

    /// Applies the same step to all copies.
    pub fn both(&self, step: impl Fn(&Repo<'_>)) {
        step(&self.git());
        for number in 0..self.ours {
            step(&self.sandbox.repo(&ours_at(number)));
        }
    }

    /// Waits until a new file is later than all files of the copies. An index that is written in
    /// the same clock tick as a file cannot prove the file unchanged. A fixed time to sleep is not
    /// enough on a virtual machine whose clock tick is late.
    pub fn outlast_files(&self) {
        let path = self.sandbox.path().join("time");
        let written = || {
            fs::write(&path, "").expect("a file");
            path.metadata().and_then(|found| found.modified()).expect("a time")
        };
        let first = written();
        while written() <= first {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        fs::remove_file(&path).expect("the file");
    }

    /// Runs `args` in both copies; panics unless output, exit code and effects are equal. Returns
    /// the result of the program under test.
    #[track_caller]
    pub fn same(&self, args: &[&str]) -> Run {
        self.same_in("", args)
    }

    /// Like [`Oracle::same`]; a failure message contains `context`.
    #[track_caller]
    pub fn same_as(&self, context: &str, args: &[&str]) -> Run {
        self.compare(context, "", args)
    }

    /// Like [`Oracle::same`], but runs the program under test once in each of its copies, each time
    /// with other global options, which must make no difference. A failure message contains
    /// `context`.
    #[track_caller]
    pub fn same_with_each(&self, context: &str, globals: &[&[&str]], args: &[&str]) {
        assert_eq!(globals.len(), self.ours, "one copy for each");
        let git = self.git();
        let theirs = self.plain(git.try_git(args));
        for (number, global) in globals.iter().enumerate() {
            let repo = self.sandbox.repo(&ours_at(number));
            let args = [global, args].concat();
            let ours = self.plain(repo.run(&self.program, &args));
            self.same_answer(context, &args, &theirs, &ours);
            self.same_repository(&[&[context], &args[..]].concat(), &git, &repo);
        }
    }

    /// Like [`Oracle::same`], from a directory of the worktree.
    #[track_caller]
    pub fn same_in(&self, dir: &str, args: &[&str]) -> Run {
        self.compare(dir, dir, args)
    }

    #[track_caller]
    fn compare(&self, context: &str, dir: &str, args: &[&str]) -> Run {
        let ours = self.same_answer_in(context, dir, args);
        self.same_state(&[&[context], args].concat());
        ours
    }

    /// Runs `args` in a directory of both copies and compares only output and exit code. For
    /// commands that change nothing: call [`Oracle::same_state`] after the last one.
    #[track_caller]
    pub fn same_answer_in(&self, context: &str, dir: &str, args: &[&str]) -> Run {
        let theirs = self.sandbox.repo(&format!("{GIT}/{dir}")).try_git(args);
        let ours = self.sandbox.repo(&format!("{OURS}/{dir}")).run(&self.program, args);
        let (theirs, ours) = (self.plain(theirs), self.plain(ours));
        self.same_answer(context, args, &theirs, &ours);
        ours
    }

    #[track_caller]
    fn same_answer(&self, context: &str, args: &[&str], theirs: &Run, ours: &Run) {
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
    }

    /// Compares the current state of the two copies.
    #[track_caller]
    pub fn same_state(&self, context: &[&str]) {
        self.same_repository(context, &self.git(), &self.ours());
    }

    #[track_caller]
    fn same_repository(&self, context: &[&str], theirs: &Repo<'_>, ours: &Repo<'_>) {
        // If the files of the refs are equal, running Git on them is not necessary.
        let files = [theirs, ours].map(ref_files);
        let same_files = files[0] == files[1];
        let [theirs, ours] = [theirs, ours].map(|repo| self.look(repo, same_files));
        assert_eq!(theirs.worktree, ours.worktree, "{context:?}: worktree; git left, ours right");
        assert_eq!(theirs, ours, "{context:?}: state; git left, ours right");
    }

    /// Returns the state of one copy. Git refreshes nothing meanwhile.
    pub fn snapshot(&self, repo: &Repo<'_>) -> Snapshot {
        self.look(repo, false)
    }

    fn look(&self, repo: &Repo<'_>, refs_are_known: bool) -> Snapshot {
        let git = |args: &[&str]| {
            let mut all = vec!["--no-optional-locks"];
            all.extend(args);
            self.plain(repo.try_git(&all)).stdout
        };
        let mut refs = if refs_are_known {
            BString::default()
        } else {
            git(&["for-each-ref", "--format=%(refname) %(objectname) %(symref)"])
        };
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
        worktree
            .retain(|path, _| !path.starts_with(b".git/") && path != ".git" && !path.contains_str("/.git/"));
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

    /// Replaces the program's name and the path of the copy in the output.
    fn plain(&self, run: Run) -> Run {
        let root = self.sandbox.path();
        let plain = |text: BString| {
            let mut text = text.to_vec();
            let copies = std::iter::once(GIT.to_owned()).chain((0..self.ours).map(ours_at));
            for copy in copies {
                let place = root.join(copy);
                let place = place.parent().expect("below the sandbox");
                text = text.replace(place.as_os_str().as_bytes(), "<root>");
            }
            BString::from(text.replace("sapwood", "git"))
        };
        Run { code: run.code, stdout: plain(run.stdout), stderr: plain(run.stderr) }
    }
}

/// Returns the files of refs with their content.
fn ref_files(repo: &Repo<'_>) -> BTreeMap<BString, (u32, BString)> {
    let mut files = BTreeMap::new();
    collect(&repo.join(".git/refs"), &repo.join(".git/refs"), &mut files);
    files.retain(|_, (mode, _)| *mode & 0o170000 == 0o100000);
    let packed = fs::read(repo.join(".git/packed-refs")).unwrap_or_default();
    files.insert("packed-refs".into(), (0, packed.into()));
    files
}

/// Copies a directory with its content; files keep their modification times.
fn copy_tree(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, place) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_tree(&source, &place)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&source)?, &place)?;
        } else {
            fs::copy(&source, &place)?;
            let modified = entry.metadata()?.modified()?;
            // Objects are read-only, but setting a time requires write access.
            let mode = fs::metadata(&place)?.permissions();
            fs::set_permissions(&place, fs::Permissions::from_mode(mode.mode() | 0o200))?;
            fs::File::options().append(true).open(&place)?.set_modified(modified)?;
            fs::set_permissions(&place, mode)?;
        }
    }
    Ok(())
}

/// Collects everything below `dir`: files with their content, links with their target, and
/// directories.
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
