//! Checks that sapwood's output is correct.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    os::unix::ffi::OsStrExt as _,
    path::PathBuf,
    process::Command,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bstr::{BString, ByteSlice as _};
use testkit::Repo;

use super::{audit::Writer, random_edits::RandomEdits};
use crate::{SAPWOOD, sparse_index::tree_of_entries};

/// The output of a command.
#[derive(PartialEq, Eq)]
struct Output {
    code: Option<i32>,
    stdout: BString,
    stderr: BString,
}

/// A command line, and the directory to run it in.
struct Query {
    args: Vec<OsString>,
    dir: Vec<u8>,
}

pub(super) struct Verifier<'a> {
    repo: &'a Repo<'a>,
    case: String,
    asked: usize,
}

/// Options that make Git run without any cache.
pub(super) const PLAIN: [&str; 5] =
    ["--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false"];

impl<'a> Verifier<'a> {
    pub(super) fn new(repo: &'a Repo<'a>, case: String) -> Self {
        Verifier { repo, case, asked: 0 }
    }

    pub(super) fn summary(&self, edits: &RandomEdits<'_>) -> String {
        let wrong = edits.audit.git_was_wrong;
        format!("{} questions; Git with its caches was wrong {wrong} times", self.asked)
    }

    /// Runs the checks that follow a step.
    pub(super) fn check(&mut self, edits: &mut RandomEdits<'_>, number: usize) {
        let question = status(edits);
        let settled = edits.audit.settle();
        edits.must(settled);
        let truth = self.truth(&question);
        let entries = edits.once_in(3).then(|| self.entries());
        // Git with its caches, which it writes.
        if edits.once_in(4) {
            let said = self.ask(self.repo.git_command(), &question);
            edits.log.push(format!("git with its caches: {:?}", question.args));
            edits.wrote(Writer::Git);
            if said.stdout != truth.stdout {
                edits.audit.forgive();
            }
        }
        if edits.has_daemon() {
            // The daemon sometimes responds before it has received all events.
            let mut git = self.repo.git_command();
            git.env("GIT_OPTIONAL_LOCKS", "0");
            if self.ask(git, &question).stdout != truth.stdout {
                edits.audit.forgive();
            }
        }
        for again in 0..=edits.random.below(2) {
            let writes = !edits.once_in(4);
            let mut command = self.repo.command(SAPWOOD.as_ref());
            if !writes {
                command.env("GIT_OPTIONAL_LOCKS", "0");
            }
            let said = self.ask(command, &question);
            self.compare(edits, &question, number, ["first", "again"][again], &truth, &said);
            edits.log.push(format!("sapwood {:?}{}", question.args, if writes { "" } else { ", unwritten" }));
            edits.wrote(Writer::Sapwood);
        }
        if let Some(entries) = entries {
            assert_eq!(entries, self.entries(), "{}: status changed entries\n{:#?}", self.case, edits.log);
        }
        self.plumbing(edits, number);
        if number % 12 == 11 {
            self.is_sound(edits);
        }
    }

    /// Runs commands that trust the stat data in the index.
    fn plumbing(&mut self, edits: &mut RandomEdits<'_>, number: usize) {
        let question = plumbing(edits);
        let refreshes = question.args.iter().any(|arg| arg == "--refresh");
        let mut git = self.repo.git_command();
        if refreshes {
            git.env("GIT_INDEX_FILE", copy_index(self.repo, "twin", None));
        }
        let truth = self.ask_with(git, &PLAIN, &question);
        let said = self.ask(self.repo.command(SAPWOOD.as_ref()), &question);
        self.compare(edits, &question, number, "plumbing", &truth, &said);
        if refreshes {
            edits.log.push("sapwood update-index --refresh".into());
        }
        edits.wrote(Writer::Sapwood);
    }

    /// Returns Git's output with an index whose stat data it does not trust.
    fn truth(&mut self, question: &Query) -> Output {
        let mut git = self.repo.git_command();
        let time = UNIX_EPOCH + Duration::from_secs(1);
        git.env("GIT_INDEX_FILE", copy_index(self.repo, "truth", Some(time)));
        self.ask_with(git, &PLAIN, question)
    }

    fn ask(&mut self, command: Command, question: &Query) -> Output {
        self.ask_with(command, &[], question)
    }

    fn ask_with(&mut self, mut command: Command, globals: &[&str], question: &Query) -> Output {
        self.asked += 1;
        command.current_dir(self.repo.join(&question.dir));
        let output = command.args(globals).args(&question.args).output().expect("it starts");
        let plain = |text: Vec<u8>| BString::from(text.replace("sapwood", "git"));
        // Git does not print the percentage for a sparse index, and makes an index sparse that it
        // finds full.
        let is_share = |line: &[u8]| line.starts_with(b"You are in a sparse checkout");
        // A name with a line feed is escaped, so that messages can be compared line by line.
        let stderr = output.stderr.replace("n\nl", "n\\nl");
        let (mut stdout, mut stderr) = (plain(output.stdout), plain(stderr));
        if stdout.contains_str("\nYou are in a sparse checkout") {
            stdout = stdout
                .lines_with_terminator()
                .filter(|line| !is_share(line))
                .collect::<Vec<_>>()
                .concat()
                .into();
        }
        let says_nothing = |line: &[u8]| {
            // Warnings about ignore and attribute files that one program did not open, because a
            // cache or a pathspec made it needless.
            let is_of_rules = line.starts_with(b"warning: unable to access '")
                && !line.contains_str(".gitmodules")
                || line.contains_str(".gitignore': ")
                || line.contains_str(".gitattributes': ");
            // The daemon exits when it has missed events; either program may notice.
            is_of_rules
                || line == b"error: could not read IPC response\n"
                // Git prints this for an index that it tries to make sparse.
                || line.contains_str(": unmerged (")
        };
        let lines = stderr.lines_with_terminator().filter(|line| !says_nothing(line));
        stderr = lines.collect::<Vec<_>>().concat().into();
        Output { code: output.status.code(), stdout, stderr }
    }

    fn compare(
        &self,
        edits: &RandomEdits<'_>,
        question: &Query,
        number: usize,
        when: &str,
        truth: &Output,
        said: &Output,
    ) {
        assert_ne!(
            said.code,
            Some(101),
            "{}, step {number}, {when}: {:?} panics: {}",
            self.case,
            question.args,
            said.stderr
        );
        // Git fails if a path outside of the directory of `diff-index --relative` is unmerged.
        let is_known_to_die =
            || question.args.iter().any(|arg| arg.as_encoded_bytes().starts_with(b"--relative"));
        if truth == said || truth.code.is_none() && is_known_to_die() {
            return;
        }
        let lines = |said: &Output| {
            let separator = if question.args.iter().any(|arg| arg == "-z") { b'\0' } else { b'\n' };
            let lines: Vec<String> = said
                .stdout
                .split(|byte| *byte == separator)
                .chain(said.stderr.split(|byte| *byte == b'\n'))
                .map(|line| line.escape_ascii().to_string())
                .collect();
            lines
        };
        let (theirs, ours) = (lines(truth), lines(said));
        let only = |one: &[String], other: &[String]| -> Vec<String> {
            one.iter().filter(|line| !other.contains(line)).cloned().collect()
        };
        let from = edits.log.len().saturating_sub(60);
        panic!(
            "{}, step {number}, {when}: {:?} in {:?}\n{:#?}\ngit {:?} only: {:#?}\nsapwood {:?} only: {:#?}",
            self.case,
            question.args,
            question.dir.as_bstr(),
            &edits.log[from..],
            truth.code,
            only(&theirs, &ours),
            said.code,
            only(&ours, &theirs),
        );
    }

    /// Returns the entries with their flags.
    fn entries(&self) -> BString {
        self.repo.git(&["-c", "core.fsmonitor=false", "ls-files", "-s", "-t", "-v", "-z"]).stdout
    }

    /// Checks that Git finds the repository sound, and that each cached tree matches the index
    /// entries.
    pub(super) fn is_sound(&self, edits: &mut RandomEdits<'_>) {
        edits.tell();
        let git = |args: &[&str]| self.repo.try_git(&[&PLAIN[..], args].concat());
        // To make the index sparse in memory, Git writes trees. It then reports them as missing
        // once.
        let fsck = || git(&["fsck", "--no-dangling", "--no-progress"]);
        let fsck = Some(fsck()).filter(|run| run.code == 0).unwrap_or_else(fsck);
        assert_eq!(fsck.code, 0, "{}: {}\n{:#?}", self.case, fsck.stderr, edits.log);
        let tree = git(&["write-tree"]);
        let staged = |intended: &str| git(&["diff-index", "--cached", intended, "HEAD"]).stdout;
        let nothing_is_intended = staged("--ita-visible-in-index") == staged("--ita-invisible-in-index");
        // Git can merge a link of this name but refuses to add one. `git reset` leaves out its
        // entry and still records the tree as cached.
        let name = tree.stdout.trim().to_str_lossy().into_owned();
        let linked = tree.code == 0 && git(&["ls-tree", &name, ".gitmodules"]).stdout.starts_with(b"120000");
        if tree.code == 0 && nothing_is_intended && !linked {
            let entries = tree_of_entries(self.repo);
            assert_eq!(tree.stdout, entries, "{}: an untrue cache-tree\n{:#?}", self.case, edits.log);
        }
    }
}

/// Copies the index. The copy has the modification time of the original, or `time`.
pub(super) fn copy_index(repo: &Repo<'_>, name: &str, time: Option<SystemTime>) -> PathBuf {
    let (index, copy) = (repo.join(".git/index"), repo.join(format!(".git/{name}")));
    match fs::copy(&index, &copy) {
        Ok(_) => {
            let time = time.or_else(|| index.metadata().and_then(|meta| meta.modified()).ok());
            let file = File::options().append(true).open(&copy);
            file.and_then(|file| file.set_modified(time.expect("it is there"))).expect("ours");
        }
        // There is no index.
        Err(_) => drop(fs::remove_file(&copy)),
    }
    copy
}

fn with(question: &mut Query, args: &[&str]) {
    question.args.extend(args.iter().map(OsString::from));
}

/// Adds pathspecs to one invocation in five.
fn narrow(edits: &mut RandomEdits<'_>, question: &mut Query) {
    if !edits.once_in(5) {
        return;
    }
    with(question, &["--"]);
    let specs = [
        &["d"][..],
        &["a", "d/a"],
        &["*.o"],
        &[":!d"],
        &[":(icase)B"],
        &[":(glob)**/a"],
        &["d/", "out/"],
        &["d/*"],
        &[":/"],
    ];
    if edits.once_in(3) {
        let path = edits.path();
        let spec = [b":(top,literal)", &path[..]].concat();
        question.args.push(OsStr::from_bytes(&spec).into());
    } else {
        with(question, edits.pick(&specs));
    }
}

fn place(edits: &mut RandomEdits<'_>) -> Vec<u8> {
    if edits.once_in(12) { edits.directory() } else { Vec::new() }
}

fn status(edits: &mut RandomEdits<'_>) -> Query {
    let mut question = Query { args: Vec::new(), dir: place(edits) };
    if edits.once_in(8) {
        let configured = ["status.renames=copies", "diff.ignoreSubmodules=all", "status.relativePaths=false"];
        with(&mut question, &["-c", edits.pick(&configured)]);
    }
    with(&mut question, &["status"]);
    let format = edits.pick(&[
        &["--porcelain=v2", "-z", "--branch", "--show-stash"][..],
        &["--porcelain=v2", "-z", "--branch", "--show-stash"],
        &["--porcelain=v2", "-z", "--branch", "--show-stash"],
        &["--porcelain=v2"],
        &["--porcelain"],
        &["-s", "-b"],
        &["--long"],
        &["--long", "--show-stash"],
        &["--column", "-b"],
        &["--column=row,dense", "--short"],
    ]);
    with(&mut question, format);
    with(&mut question, edits.pick(&[&["-unormal"][..], &["-unormal"], &["-uall"], &["-uno"], &[]]));
    with(
        &mut question,
        edits.pick(&[
            &[][..],
            &[],
            &[],
            &["--ignored=traditional"],
            &["--ignored=matching"],
            &["--ignored=no"],
        ]),
    );
    with(
        &mut question,
        edits.pick(&[
            &[][..],
            &[],
            &[],
            &[],
            &["--no-renames"],
            &["-M20%"],
            &["--ignore-submodules=none"],
            &["--ignore-submodules=dirty"],
            &["--ignore-submodules=untracked"],
            &["--ignore-submodules=all"],
        ]),
    );
    narrow(edits, &mut question);
    question
}

fn plumbing(edits: &mut RandomEdits<'_>) -> Query {
    let mut question = Query { args: Vec::new(), dir: place(edits) };
    let args = edits.pick(&[
        &["diff-files", "--raw"][..],
        &["diff-files", "--raw", "-z"],
        &["diff-files", "-M30%"],
        &["diff-files", "-C", "--name-status"],
        &["diff-index", "--raw", "HEAD"],
        &["diff-index", "-M", "-m", "HEAD"],
        &["diff-index", "--cached", "--raw", "HEAD"],
        &["diff-index", "--cached", "-C40%", "-z", "HEAD"],
        &["diff-files", "-R", "-M"],
        &["diff-files", "--theirs", "--name-status", "-M"],
        &["diff-files", "-0", "--ignore-submodules=none", "--diff-filter=MTU"],
        &["diff-files", "--base", "--ita-visible-in-index", "--abbrev=9"],
        &["diff-index", "-R", "-M", "side"],
        &["diff-index", "-C", "--ignore-submodules", "side"],
        &["diff-index", "--merge-base", "--name-status", "-z", "side"],
        &["diff-index", "--cached", "--relative", "-M", "--ita-invisible-in-index", "side"],
        &["ls-files", "-o", "--exclude-standard"],
        &["ls-files", "-o", "--exclude-standard", "--directory", "-z"],
        &["ls-files", "-o", "--exclude-standard", "--directory", "--no-empty-directory"],
        &["ls-files", "-o", "-i", "--exclude-standard"],
        &["ls-files", "-o", "-i", "--exclude-standard", "--directory"],
        &["ls-files", "-c", "-i", "--exclude-standard"],
        &["ls-files", "-o", "-z"],
        &["ls-files", "-d", "-z", "--exclude-standard"],
        &["ls-files", "-m", "--exclude-standard"],
        &["ls-files", "-t", "-c", "-d", "-m", "-o", "-k", "--exclude-standard"],
        &["ls-files", "-s", "-v"],
        &["ls-files", "-u", "--abbrev"],
        &["ls-files", "--eol", "-c", "-o", "-z"],
        &["ls-files", "-o", "--directory", "--full-name"],
        &["ls-files", "--deduplicate", "-c", "-m", "-d"],
        &["check-ignore", "-v", "-n"],
        &["check-ignore", "-v", "--no-index"],
        &["check-ignore"],
        &["update-index", "--refresh"],
    ]);
    with(&mut question, args);
    if args[0] == "check-ignore" {
        with(&mut question, &["--"]);
        question.dir.clear();
        for _ in 0..6 {
            let mut path = edits.path();
            if edits.once_in(5) {
                path.push(b'/');
            }
            question.args.push(OsStr::from_bytes(&path).into());
        }
    } else if args[0] == "update-index" {
        question.dir.clear();
    } else {
        narrow(edits, &mut question);
    }
    question
}
