//! `update-index` compared with Git in one worktree, each with its own index: the output and every
//! byte of the index.
//!
//! The files are old, so that no entry is racy and the stat data are equal.

mod whole_index;

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::Stdio,
    time::{Duration, SystemTime},
};

use bstr::{BString, ByteSlice as _};
use testkit::{Repo, Run, Sandbox, wording};

use crate::{SAPWOOD, shim::Shim};

/// A repository with one index for each program.
struct IndexPair<'a> {
    repo: Repo<'a>,
}

const GIT: &str = ".git/index-git";
const OURS: &str = ".git/index-ours";

/// Makes a file older than any index.
fn age(path: &Path) {
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_200_000_000);
    fs::File::open(path).and_then(|file| file.set_modified(old)).expect("it is ours");
}

fn write(repo: &Repo<'_>, path: &str, content: &str) {
    repo.write(path, content);
    age(&repo.join(path));
}

impl<'a> IndexPair<'a> {
    /// Creates files of all kinds, staged and committed.
    fn new(sandbox: &'a Sandbox) -> IndexPair<'a> {
        let repo = sandbox.init("repo");
        for path in ["a", "b", "dir/x", "dir/y", "dir/deep/z", "dir.c", "exec"] {
            write(&repo, path, &format!("{path}\n"));
        }
        repo.symlink("a", "link");
        // In a split index, the place of an entry depends on whether its file is as new as the
        // index.
        let touched = repo.run("touch".as_ref(), &["-h", "-d", "@1200000000", "link"]);
        assert_eq!(touched.code, 0, "{}", touched.stderr);
        repo.git(&["add", "-A"]);
        repo.git(&["commit", "-q", "-m", "first"]);
        IndexPair::of(repo)
    }

    /// Copies the existing index for both programs.
    fn of(repo: Repo<'a>) -> IndexPair<'a> {
        for index in [GIT, OURS] {
            let _ = fs::copy(repo.join(".git/index"), repo.join(index));
        }
        IndexPair { repo }
    }

    fn run(&self, program: Option<&str>, index: &str, stdin: Option<&[u8]>, args: &[&str]) -> Run {
        let mut command = match program {
            Some(program) => self.repo.command(program.as_ref()),
            None => self.repo.git_command(),
        };
        command.args(args).env("GIT_INDEX_FILE", self.repo.join(index));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it can be run");
        // A program need not read its input.
        let _ = child.stdin.take().expect("piped").write_all(stdin.unwrap_or_default());
        let output = child.wait_with_output().expect("our child");
        Run {
            code: output.status.code().unwrap_or(-1),
            stdout: output.stdout.into(),
            stderr: output.stderr.into(),
        }
    }

    /// Runs `update-index` with both programs; sapwood first, so that sapwood writes the objects.
    #[track_caller]
    fn same_given(&self, stdin: Option<&[u8]>, args: &[&str]) -> Run {
        // Options such as `-c` precede the command.
        let globals = args.iter().take_while(|arg| **arg != "!").count() % args.len().max(1);
        let (before, after) =
            if args.contains(&"!") { (&args[..globals], &args[globals + 1..]) } else { (&args[..0], args) };
        let args = [before, &["update-index"], after].concat();
        let ours = self.run(Some(SAPWOOD), OURS, stdin, &args);
        let theirs = self.run(None, GIT, stdin, &args);
        let plain = |text: &BString| BString::from(text.replace("sapwood", "git").replace(OURS, GIT));
        let (errors, results) = (plain(&theirs.stderr), plain(&theirs.stdout));
        assert_eq!(
            wording(&errors),
            wording(&plain(&ours.stderr)),
            "{args:?}: standard error; git left, ours right"
        );
        assert_eq!(results, plain(&ours.stdout), "{args:?}: standard output; git left, ours right");
        assert_eq!(theirs.code, ours.code, "{args:?}: exit code");
        self.same_index(&args);
        ours
    }

    #[track_caller]
    fn same_index(&self, args: &[&str]) {
        let read = |index: &str| fs::read(self.repo.join(index)).ok();
        if read(GIT) == read(OURS) {
            return;
        }
        let shown =
            |index| self.run(None, index, None, &["ls-files", "--debug", "--stage", "-v", "--sparse"]).stdout;
        assert_eq!(shown(GIT), shown(OURS), "{args:?}: entries; git left, ours right");
        let text = |index| BString::from(read(index).unwrap_or_default());
        assert_eq!(text(GIT), text(OURS), "{args:?}: bytes of the index; git left, ours right");
    }

    #[track_caller]
    fn same(&self, args: &[&str]) -> Run {
        self.same_given(None, args)
    }

    /// Checks that Git finds every object that sapwood's index names.
    #[track_caller]
    fn is_whole(&self) {
        // Uses a copy, because `write-tree` records trees in the index.
        const COPY: &str = ".git/index-copy";
        fs::copy(self.repo.join(OURS), self.repo.join(COPY)).expect("copied");
        let run = self.run(None, COPY, None, &["write-tree"]);
        assert_eq!((run.code, run.stderr.as_slice()), (0, &b""[..]));
        self.repo.git(&["fsck", "--strict", "--no-dangling"]);
    }
}

#[test]
fn files_come_and_go() {
    let sandbox = Sandbox::new();
    let pair = IndexPair::new(&sandbox);
    let repo = &pair.repo;
    write(repo, "new", "new\n");
    write(repo, "a", "changed\n");
    write(repo, "n/e/w", "deep\n");
    repo.write_executable("run", "#!/bin/sh\n");
    age(&repo.join("run"));
    repo.symlink("nowhere", "dangling");
    for args in [
        &["a"][..],
        &["a", "new"],
        &["--add", "new", "n/e/w", "run", "dangling"],
        &["--verbose", "a", "--add", "new"],
        &["b", "gone"],
        &["--remove", "gone", "b"],
        &["--force-remove", "--verbose", "dir/x", "never-there"],
        &["dir"],
        &["--add", "n"],
        &["--add", ".git/x", "x/../../outside"],
        &["--add", "link/x", "a/x"],
        &["--add", "n/e/", ""],
        &["--", "--add"],
    ] {
        pair.same(args);
    }
    pair.is_whole();
    // Files in place of directories, and the reverse.
    repo.remove("dir");
    write(repo, "dir", "a file\n");
    repo.remove("new");
    write(repo, "new/below", "was a file\n");
    pair.same(&["--add", "dir"]);
    pair.same(&["--add", "new/below"]);
    pair.same(&["--add", "--replace", "dir"]);
    pair.same(&["--add", "--replace", "new/below"]);
    repo.remove("exec");
    fs::create_dir(repo.join("exec")).expect("made");
    pair.same(&["exec"]);
    pair.same(&["--remove", "exec"]);
    pair.is_whole();
}

#[test]
fn marks_and_modes() {
    let sandbox = Sandbox::new();
    let pair = IndexPair::new(&sandbox);
    write(&pair.repo, "b", "changed\n");
    for args in [
        &["--assume-unchanged", "a", "b", "--no-assume-unchanged", "a"][..],
        &["b"],
        &["--skip-worktree", "dir/x", "dir/y"],
        &["--remove", "--ignore-skip-worktree-entries", "dir/x"],
        &["--remove", "dir/x"],
        &["--no-skip-worktree", "dir/y"],
        &["--skip-worktree", "nothing"],
        &["--fsmonitor-valid", "a", "--no-fsmonitor-valid", "a"],
        &["--chmod=+x", "--verbose", "exec", "--chmod", "-x", "a"],
        &["--chmod=+x", "link"],
        &["--chmod=x", "a"],
        &["-c", "core.ignoreStat=true", "!", "b", "--no-assume-unchanged", "b"],
        &["-c", "core.ignoreStat=true", "!", "--add", "b"],
    ] {
        pair.same(args);
    }
}

#[test]
fn entries_that_are_given() {
    let sandbox = Sandbox::new();
    let pair = IndexPair::new(&sandbox);
    let oid = pair.repo.git(&["rev-parse", "HEAD:a"]).stdout.trim_end().to_str_lossy().into_owned();
    let other = pair.repo.git(&["rev-parse", "HEAD:b"]).stdout.trim_end().to_str_lossy().into_owned();
    let null = "0".repeat(40);
    let given = |text: &str| text.replace("OID", &oid).replace("OTHER", &other).replace("NULL", &null);
    for line in [
        "--add --verbose --cacheinfo 100644,OID,info",
        "--cacheinfo 100755 OTHER a --cacheinfo 100644 OID dir/x",
        "--cacheinfo 100644 OID unknown",
        "--add --cacheinfo 160000 OID sub --cacheinfo 120000 OID l --cacheinfo 0 OID odd",
        "--add --cacheinfo 100644 OID .git/config",
        "--add --cacheinfo 120000 OID .gitmodules",
        "--add --cacheinfo 100644 OID a/b",
        "--add --replace --cacheinfo 100644 OID a/b,c",
        "--cacheinfo 100644 NULL b",
        "--cacheinfo 100644 12345 b",
        "--cacheinfo 9 OID b",
        "--cacheinfo",
        "--cacheinfo 100644 OID",
        "--stdin a",
        "--index-version 7",
    ] {
        let line = given(line);
        pair.same(&line.split(' ').collect::<Vec<_>>());
    }
    let lines = given(
        "0 NULL\tb\n100644 OID 1\tb\n100755 OTHER 2\tb\n100644 blob OID\tc\n100644 OTHER\t\"q\\303\\251\\t\"\n\
         0 NULL\tlink\n120000 OID 3\tlink\n100644 OID\tdir\n100644 OID\t.git/x\n",
    );
    pair.same_given(Some(lines.as_bytes()), &["--index-info"]);
    pair.same_given(Some(lines.replace('\n', "\0").as_bytes()), &["-z", "--index-info"]);
    for wrong in ["100644 OID b\n", "x\n", "100644 OID\t\"b\n", "100644 OIDX\tb\n"] {
        pair.same_given(Some(given(wrong).as_bytes()), &["--index-info"]);
    }
    // Conflicts are resolved, recorded, restored and forgotten.
    for args in [
        &["--refresh"][..],
        &["--unmerged", "-q", "--refresh"],
        &["b"],
        &["--unresolve", "b", "a"],
        &["--add", "b"],
        &["--force-remove", "b"],
        &["--unresolve", "b"],
        &["--force-remove", "b", "--clear-resolve-undo"],
        &["--unresolve", "b"],
    ] {
        pair.same(args);
    }
}

#[test]
fn paths_from_the_standard_input() {
    let sandbox = Sandbox::new();
    let pair = IndexPair::new(&sandbox);
    for path in ["one", "two words", "q\"uote", "last"] {
        write(&pair.repo, path, path);
    }
    pair.same_given(Some(b"one\n\"q\\\"uote\"\ntwo words"), &["--add", "--verbose", "--chmod=+x", "--stdin"]);
    pair.same_given(Some(b"last\0dir/x\0q\"uote\0"), &["--add", "--verbose", "-z", "--stdin"]);
    pair.same_given(Some(b"\"one\n"), &["--stdin"]);
    pair.same_given(Some(b"/outside\n"), &["--stdin"]);
    pair.same_given(Some(b""), &["--stdin"]);
    pair.is_whole();
}

/// With enough paths, several workers read them; errors of single paths are still detected.
#[test]
fn many_paths_that_were_named_at_once() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    let path = |number: usize| format!("{}/{}/{number}", number % 7, number % 5);
    (0..400).for_each(|number| write(&repo, &path(number), "x\n"));
    write(&repo, "top", "x\n");
    repo.git(&["add", "-A"]);
    repo.git(&["commit", "-q", "-m", "first"]);
    let pair = IndexPair::of(repo);
    let repo = &pair.repo;
    let named = |numbers: std::ops::Range<usize>| {
        let lines: Vec<String> = numbers.map(|number| path(number) + "\n").collect();
        (lines.concat() + "top\n").into_bytes()
    };
    pair.same_given(Some(&named(0..400)), &["--verbose", "--stdin"]);
    write(repo, &path(3), "changed\n");
    write(repo, &path(299), "changed\n");
    repo.remove(path(200));
    repo.remove(path(201));
    repo.write(format!("{}/below", path(201)), "in its place\n");
    pair.same_given(Some(&named(0..400)), &["--verbose", "--stdin"]);
    pair.same_given(Some(&named(0..400)), &["--verbose", "--remove", "--stdin"]);
    (400..600).for_each(|number| write(repo, &path(number), "new\n"));
    pair.same_given(Some(&named(300..600)), &["--verbose", "--stdin"]);
    pair.same_given(Some(&named(300..600)), &["--verbose", "--add", "--stdin"]);
    // Paths behind a link count as missing for every worker.
    repo.remove("3");
    repo.symlink("4", "3");
    pair.same_given(Some(&named(0..400)), &["--verbose", "--remove", "--stdin"]);
    let mut lines = named(0..3);
    lines.extend_from_slice(&named(4..200));
    lines.extend_from_slice(b"\"badly quoted\n");
    pair.same_given(Some(&lines.replace("3/", "4/")), &["--verbose", "--remove", "--stdin"]);
    pair.same_given(Some(&named(0..100)), &["--assume-unchanged", "--stdin"]);
    pair.same_given(Some(&named(100..300)), &["--verbose", "--force-remove", "--stdin"]);
}

#[test]
fn stat_data_are_brought_up_to_date() {
    let sandbox = Sandbox::new();
    let pair = IndexPair::new(&sandbox);
    let repo = &pair.repo;
    let touch = |path: &str| {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_300_000_000);
        fs::File::open(repo.join(path)).and_then(|file| file.set_modified(time)).expect("it is ours");
    };
    ["a", "dir/deep/z"].into_iter().for_each(touch);
    pair.same(&["--refresh"]);
    pair.same(&["--refresh"]);
    write(repo, "b", "another\n");
    repo.remove("dir/y");
    repo.remove("exec");
    repo.symlink("b", "exec");
    for args in [
        &["--refresh"][..],
        &["-q", "--refresh"],
        &["--ignore-missing", "--refresh"],
        &["--refresh", "--remove", "dir/y", "--refresh"],
        &["--assume-unchanged", "a", "b", "dir.c"],
        &["--refresh"],
    ] {
        pair.same(args);
    }
    touch("dir.c");
    pair.same(&["--refresh"]);
    pair.same(&["--really-refresh"]);
    pair.same(&["-c", "core.ignoreStat=true", "!", "--really-refresh"]);
    repo.remove("dir");
    repo.symlink(".", "dir");
    pair.same(&["--ignore-missing", "--refresh"]);
    repo.remove("dir");
    write(repo, "dir", "a file\n");
    pair.same(&["--ignore-missing", "--refresh"]);
}

#[test]
fn submodules_are_commits() {
    let sandbox = Sandbox::new();
    let pair = IndexPair::new(&sandbox);
    let within = sandbox.init("repo/sub");
    within.commit("first");
    sandbox.init("repo/unborn");
    for args in [&["--add", "sub"][..], &["--add", "unborn"], &["--add", "sub/.git/config"], &["--refresh"]] {
        pair.same(args);
    }
    within.commit("second");
    for args in [&["--ignore-submodules", "--refresh"][..], &["--refresh"], &["sub"], &["--refresh"]] {
        pair.same(args);
    }
    pair.repo.remove("sub/.git");
    pair.same(&["sub"]);
    pair.same(&["--force-remove", "sub"]);
    pair.same(&["--add", "sub"]);
}

#[test]
fn again_updates_paths_that_differ_from_head() {
    let sandbox = Sandbox::new();
    let pair = IndexPair::new(&sandbox);
    let repo = &pair.repo;
    write(repo, "a", "second\n");
    write(repo, "dir/x", "second\n");
    write(repo, "new", "new\n");
    pair.same(&["--add", "a", "dir/x", "new"]);
    write(repo, "a", "third\n");
    write(repo, "dir/x", "first\n");
    write(repo, "b", "not staged\n");
    pair.same(&["--verbose", "-g", "dir"]);
    pair.same(&["--again", "*x", ":!new"]);
    // With `--info-only` the content need not be readable from the repository.
    write(repo, ".gitattributes", "*.crlf text\n*.wide text working-tree-encoding=UTF-16\n");
    write(repo, "a.crlf", "one\r\ntwo\r\n");
    write(repo, "a.wide", "odd");
    for way in [&["--info-only"][..], &[]] {
        for name in ["a.crlf", "a.wide"] {
            pair.same(&[way, &["--add", name]].concat());
            pair.same(&["--force-remove", name]);
        }
    }
    repo.remove(".gitattributes");
    // The result of a refresh is discarded unless it comes last.
    pair.same(&["--refresh", "-g", "dir"]);
    pair.same(&["--refresh", "dir/x", "-g", "dir"]);
    pair.same(&["--refresh"]);
    repo.remove("new");
    pair.same(&["-g"]);
    pair.same(&["--verbose", "--remove", "-g"]);
    pair.is_whole();
}

#[test]
fn contents_are_converted() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    write(&repo, "indexed", "one\r\ntwo\r\n");
    repo.git(&["add", "-A"]);
    repo.write(
        ".gitattributes",
        "*.txt text\n*.auto text=auto\n*.crlf text eol=crlf\n*.id ident\n*.bin -text\n*.f filter=up\n\
         *.bad filter=bad\n*.u16 working-tree-encoding=UTF-16\n*.sjis working-tree-encoding=SHIFT-JIS\n",
    );
    let config =
        [("filter.up.clean", "tr a-z A-Z"), ("filter.bad.clean", "false"), ("filter.bad.required", "true")];
    config.iter().for_each(|(name, value)| drop(repo.git(&["config", name, value])));
    for (path, content) in [
        ("crlf.txt", "one\r\ntwo\n"),
        ("lf.txt", "one\ntwo\n"),
        ("crlf.auto", "one\r\n"),
        ("lf.crlf", "one\ntwo\r\n"),
        ("x.id", "$Id: 123 $\n"),
        ("x.bin", "one\r\n"),
        ("x.f", "shout\r\n"),
        ("x.bad", "lost\n"),
        ("x.u16", "no mark\n"),
        ("x.sjis", "\u{8}plain\n"),
        ("y.sjis", "\u{fffd}\n"),
        ("plain", "one\r\ntwo\n"),
        ("empty.txt", ""),
    ] {
        write(&repo, path, content);
    }
    repo.write("y.u16", b"\xff\xfea\0\n\0");
    age(&repo.join("y.u16"));
    let pair = IndexPair::of(repo);
    for args in [
        &["--add", "crlf.txt", "lf.txt", "crlf.auto", "lf.crlf", "x.id", "x.bin", "x.f", "empty.txt"][..],
        &["--add", "x.bad"],
        &["--add", "y.u16", "x.sjis"],
        &["--add", "x.u16"],
        &["--add", "y.sjis"],
        &["-c", "core.safecrlf=true", "!", "--add", "--force-remove", "crlf.txt"],
        &["-c", "core.safecrlf=true", "!", "--add", "crlf.txt"],
        &["-c", "core.safecrlf=false", "!", "--add", "crlf.txt"],
        &["-c", "core.autocrlf=true", "!", "--add", "plain"],
        &["-c", "core.autocrlf=true", "-c", "core.safecrlf=true", "!", "--force-remove", "lf.txt"],
        &["-c", "core.autocrlf=true", "-c", "core.safecrlf=true", "!", "--add", "lf.txt"],
        &["-c", "core.autocrlf=input", "!", "indexed", "--add", "--info-only", "lf.txt"],
        &["--info-only", "--add", "plain"],
    ] {
        pair.same(args);
    }
    pair.is_whole();
}

#[test]
fn file_systems_without_modes_or_links() {
    let sandbox = Sandbox::new();
    let pair = IndexPair::new(&sandbox);
    let repo = &pair.repo;
    repo.write_executable("a", "a\n");
    age(&repo.join("a"));
    repo.write_executable("new", "new\n");
    age(&repo.join("new"));
    repo.remove("link");
    write(repo, "link", "elsewhere");
    pair.same(&["-c", "core.fileMode=false", "!", "--add", "a", "new"]);
    pair.same(&["-c", "core.symlinks=false", "!", "link"]);
    pair.same(&["--refresh"]);
    pair.same(&["a", "link"]);
    pair.is_whole();
}

#[test]
fn waits_for_no_foreign_lock() {
    let sandbox = Sandbox::new();
    let pair = IndexPair::new(&sandbox);
    for index in [GIT, OURS] {
        pair.repo.write(format!("{index}.lock"), "");
    }
    let fatal = |run: Run| {
        assert_eq!(run.code, 128);
        run.stderr.lines().take(3).map(|line| line.replace(OURS, GIT)).collect::<Vec<_>>()
    };
    let of = |args: &[&str]| {
        let ours = pair.run(Some(SAPWOOD), OURS, None, args);
        assert_eq!(fatal(pair.run(None, GIT, None, args)), fatal(ours), "{args:?}");
    };
    of(&["update-index", "--force-remove", "a"]);
    of(&["update-index", "-q", "--force-remove", "a"]);
    // No write is needed.
    pair.same(&["a", "--show-index-version"]);
}

#[test]
fn files_larger_than_memory_is_for() {
    let sandbox = Sandbox::new();
    let pair = IndexPair::new(&sandbox);
    write(&pair.repo, "large", &"all work and no play\n".repeat(20_000));
    write(&pair.repo, "large.txt", &"all work and no play\r\n".repeat(20_000));
    pair.repo.write(".git/info/attributes", "*.txt text\n");
    pair.same(&["-c", "core.bigFileThreshold=64k", "!", "--add", "--info-only", "large"]);
    pair.same(&["-c", "core.bigFileThreshold=64k", "!", "--add", "large", "large.txt"]);
    pair.same(&["--refresh"]);
    pair.is_whole();
}

#[test]
fn runs_natively_through_the_shim() {
    let sandbox = Sandbox::new();
    let pair = IndexPair::new(&sandbox);
    let shim = Shim::new();
    for args in [
        &["update-index", "--refresh"][..],
        &["update-index", "--add", "a", "--remove", "gone", "-q", "--really-refresh"],
        &["update-index", "--assume-unchanged", "a", "--no-assume-unchanged", "a"],
        &["update-index", "-g", "dir"],
        &["update-index", "--untracked-cache", "--index-version", "4"],
    ] {
        assert_eq!(shim.run(&pair.repo, args).code, 0, "{args:?}");
        shim.was_native(args);
    }
    for (args, why) in [
        (&["update-index", "--nonsense"][..], "a wrong or a help option"),
        (
            &["-c", "splitIndex.sharedIndexExpire=yesterday", "update-index", "a"],
            "splitindex.sharedindexexpire",
        ),
    ] {
        shim.run(&pair.repo, args);
        shim.was_handed_over(args, why);
    }
}
