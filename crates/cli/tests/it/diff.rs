//! `diff-files` and `diff-index`: the entries they list, and the format of the list.

mod finds;
mod sparse;
mod submodules;
mod unmerged;

use std::time::{Duration, SystemTime};

use bstr::ByteSlice as _;
use testkit::{Oracle, Repo};

use crate::{SAPWOOD, diff_random::NEWEST, index_info};

/// Sets a fixed modification time long ago, so that no result depends on the time of the write.
fn age(repo: &Repo<'_>, path: &str, seconds: u64) {
    let file = std::fs::File::open(repo.join(path)).expect("the file exists");
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + seconds);
    file.set_modified(time).expect("the file is ours");
}

fn lines(from: usize, to: usize) -> String {
    (from..to).map(|number| format!("line {number}\n")).collect()
}

/// Creates one path for each kind of difference, except for unmerged paths.
fn changed(repo: &Repo<'_>) {
    let files =
        ["modified", "touched", "same size", "gone", "sub/moved", "executable", "becomes a link", "ä"];
    for (number, path) in files.iter().enumerate() {
        repo.write(path, lines(number * 20, number * 20 + 15));
        age(repo, path, 0);
    }
    for path in ["becomes a directory", "becomes a repository", "assumed", "skipped", "staged", "sub/deep/x"]
    {
        repo.write(path, format!("{path}\n"));
        age(repo, path, 0);
    }
    repo.write("intended anew", "");
    repo.symlink("modified", "link");
    repo.symlink("gone", "link that becomes a file");
    repo.git(&["add", "-A"]);
    repo.git(&["commit", "-q", "-m", "one"]);
    repo.write("modified", lines(1, 16));
    repo.write("same size", lines(40, 54) + "line xx\n");
    age(repo, "touched", 1);
    repo.write("executable", lines(100, 115));
    age(repo, "executable", 0);
    repo.git(&["add", "executable"]);
    repo.write_executable("executable", lines(100, 115));
    for path in ["gone", "becomes a link", "becomes a directory", "becomes a repository", "ä"] {
        repo.remove(path);
    }
    repo.symlink("x", "becomes a link");
    repo.write("becomes a directory/file", "x\n");
    repo.git(&["init", "-q", "becomes a repository"]);
    repo.git(&["-C", "becomes a repository", "commit", "-q", "--allow-empty", "-m", "x"]);
    repo.remove("link that becomes a file");
    repo.write("link that becomes a file", "gone");
    repo.write("staged", "otherwise\n");
    repo.git(&["add", "staged"]);
    repo.write("new", "new\n");
    repo.git(&["add", "new"]);
    repo.write("new and changed", "new\n");
    repo.git(&["add", "new and changed"]);
    repo.write("new and changed", "newer\n");
    repo.write("assumed", "changed, and nobody is to know\n");
    repo.remove("skipped");
    repo.git(&["update-index", "--assume-unchanged", "assumed"]);
    repo.git(&["update-index", "--skip-worktree", "skipped"]);
    // Prepares renames that the index does not record. An intent-to-add entry counts as new.
    repo.remove("sub/moved");
    repo.write("sub/deep/moved", lines(81, 97));
    repo.write("intended and gone", "x\n");
    repo.git(&["add", "-N", "sub/deep/moved", "intended and gone"]);
    repo.remove("intended and gone");
    repo.git(&["rm", "-q", "--cached", "link", "intended anew"]);
    // Its content equals the commit's, but as an intent-to-add entry it is not part of the index.
    repo.git(&["add", "-N", "intended anew"]);
}

const FILES: &[&[&str]] = &[
    &[],
    &["-q"],
    &["-z"],
    &["--raw", "-r"],
    &["--name-only"],
    &["--name-status", "-z"],
    &["--name-only", "--raw"],
    &["-s"],
    &["-s", "--raw"],
    &["--quiet"],
    &["--exit-code", "-s"],
    &["--exit-code"],
    &["--quiet", "--", "link"],
    &["--abbrev"],
    &["--abbrev=4"],
    &["--abbrev=100", "--full-index"],
    &["--abbrev", "--no-abbrev"],
    &["-R"],
    &["-M"],
    &["-M", "-R"],
    &["-M99%"],
    &["--find-renames=.5", "--name-status"],
    &["-C"],
    &["-C", "-M"],
    &["-C", "-R", "--exit-code"],
    &["-C", "-R", "--diff-filter=X", "--exit-code"],
    &["-C", "-C"],
    &["-C", "-C", "-l2"],
    &["-C", "-C", "-R", "--no-rename-empty"],
    &["--find-copies-harder", "--no-renames"],
    &["--find-copies-harder", "--no-find-copies-harder"],
    &["-M", "--no-renames"],
    &["-M", "-l1"],
    &["-M", "-l", "0"],
    &["--diff-filter=MT"],
    &["--diff-filter=dm"],
    &["--diff-filter=Ad"],
    &["--diff-filter=*A"],
    &["--diff-filter=Dd"],
    &["--diff-filter=R*", "-M", "--name-status"],
    &["--diff-filter=X", "--exit-code"],
    &["--line-prefix=| ", "--name-status"],
    &["--relative"],
    &["--relative=sub/"],
    &["--relative=su", "--name-only"],
    &["--relative=sub", "--no-relative"],
    &["--relative=sub", "--relative"],
    &["--relative=sub", "--no-relative", "--relative"],
    &["--ita-visible-in-index"],
    &["sub"],
    &["--", "sub/*d", ":!gone"],
    &["--", "nowhere"],
    &["--name-only", "modified", "gone"],
];

#[test]
fn lists_every_kind_of_change() {
    let oracle = Oracle::new(SAPWOOD, changed);
    for args in FILES {
        oracle.same(&[&["diff-files"], *args].concat());
    }
    // Git prints the file's name here only because it is the source of a copy.
    let run = oracle.same(&["diff-files", "-C", "-R", "--", "touched", "gone"]);
    assert!(run.stderr.contains_str("feeding unmodified touched"), "{}", run.stderr);
    for args in [&["--relative"][..], &["--relative", "-M"], &["--name-only", "."], &["../gone"], &["moved"]]
    {
        oracle.same_in("sub", &[&["diff-files"], args].concat());
    }
}

#[test]
fn compares_trees_with_files_and_index() {
    let oracle = Oracle::new(SAPWOOD, changed);
    let both: Vec<&[&str]> = FILES.iter().copied().filter(|args| !args.contains(&"-q")).collect();
    for args in both {
        let at = args.iter().position(|arg| !arg.starts_with('-') || *arg == "--").unwrap_or(args.len());
        // The separate value of `-l` stays with its option.
        let at = if args.contains(&"-l") { args.len() } else { at };
        let (options, paths) = args.split_at(at);
        oracle.same(&[&["diff-index"], options, &["HEAD"], paths].concat());
        oracle.same(&[&["diff-index", "--cached"], options, &["HEAD"], paths].concat());
        oracle.same(&[&["diff-index", "-m"], options, &["HEAD"], paths].concat());
    }
    oracle.same(&["diff-index", "--cached", "--ita-invisible-in-index", "HEAD"]);
    oracle.same(&["diff-index", "HEAD:sub", "--exit-code"]);
    oracle.same(&["diff-index", "--cached", "4b825dc642cb6eb9a060e54bf8d69288fbee4904"]);
    oracle.same_in("sub", &["diff-index", "--relative", "HEAD", "--", "."]);
}

#[test]
fn rejects_options_that_exclude_each_other() {
    let oracle = Oracle::new(SAPWOOD, changed);
    let options: &[&[&str]] = &[
        &["--name-only", "--name-status"],
        &["--name-only", "-s"],
        &["-s", "--name-only"],
        &["--name-status", "-s", "--quiet"],
        &["-s", "--raw", "--name-only"],
    ];
    for options in options {
        oracle.same(&[&["diff-files"], *options].concat());
        oracle.same(&[&["diff-files"], *options, &["nowhere"]].concat());
        oracle.same(&[&["diff-index"], *options, &["HEAD"]].concat());
        oracle.same(&[&["diff-index"], *options, &["HEAD:gone"]].concat());
        oracle.same(&[&["diff-index", "--cached"], *options, &["nowhere", "--"]].concat());
    }
    oracle.both(|repo| drop(repo.git(&["tag", "-a", "-m", "x", "annotated", "HEAD:gone"])));
    for revision in ["HEAD^{tree}", "HEAD:gone", "annotated", "HEAD"] {
        oracle.same(&["diff-index", "--merge-base", revision]);
        oracle.same(&["diff-index", "--merge-base", "--cached", revision]);
    }
    let run = oracle.same(&["diff-index", "--name-only", "--name-status", "--merge-base", "HEAD^{tree}"]);
    assert_eq!(run.code, 128);
    assert!(run.stderr.starts_with(b"fatal: options '--name-only'"), "{}", run.stderr);
}

/// Short options of diffs can be clustered; those of revisions cannot. The command parses the rest
/// of a cluster that neither of the two parsers knows.
#[test]
fn parses_clustered_short_options() {
    let oracle = Oracle::new(SAPWOOD, changed);
    if testkit::Sandbox::new().git_version() < NEWEST {
        println!("skipped: this Git is old");
        return;
    }
    let of_both: &[&[&str]] = &[
        &["-Rz"],
        &["-zRM20%"],
        &["-CRS line 2"],
        &["-zl1", "-C"],
        &["-sRz", "--exit-code"],
        &["-s", "--no-no-patch"],
        &["-zsS", "line"],
        &["-RO", ".gitignore"],
        &["-MC"],
        &["-CX"],
        &["--find-copies=x"],
        &["-raw"],
        &["-stat"],
        &["--raw=1"],
        &["--no-relative=x"],
        &["--no-abbrev=4"],
        &["--diff-filter=AQ"],
    ];
    for options in of_both {
        oracle.same(&[&["diff-files"], *options].concat());
        oracle.same(&[&["diff-index", "--cached"], *options, &["HEAD"]].concat());
    }
    for options in [
        &["-Rq"][..],
        &["-R-theirs"],
        &["-S", "--"],
        &["-RO", "--", "x"],
        &["--diff-filter"],
        &["--end-of-options", "gone"],
        &["--end-of-options", "-z"],
        &["modified", "-z"],
        &["modified", "-"],
        &["-R", "--", "-z"],
    ] {
        oracle.same(&[&["diff-files"], options].concat());
    }
    let run = oracle.same(&["diff-files", "-RM-q"]);
    assert_eq!(run.code, 129, "the rest is the value: {}", run.stderr);
    for options in [&["-Rm"][..], &["-R-cached"], &["-z-merge-base"]] {
        oracle.same(&[&["diff-index"], options, &["HEAD"]].concat());
    }
    for options in [
        "-Rqz",
        "-Rm",
        "-zr",
        "-rz",
        "-q=1",
        "--name-stat",
        "--quie",
        "-Rt",
        "--no-raw",
        "-",
        "-zé",
        "-zstat",
    ] {
        let (theirs, ours) = (
            oracle.git().try_git(&["diff-files", options]),
            oracle.ours().run(SAPWOOD.as_ref(), &["diff-files", options]),
        );
        assert_eq!((theirs.code, ours.code), (129, 129), "{options}");
        assert_eq!((theirs.stdout, ours.stdout), ("".into(), "".into()), "{options}");
    }
}

/// The file system rejects these names as too long, so their state is unknown.
#[test]
fn reports_names_the_file_system_rejects() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        repo.write("file", "x\n");
        repo.write("sub/file", "x\n");
        repo.commit("one");
        let blob = repo.git(&["rev-parse", "HEAD:file"]).stdout.trim().to_str_lossy().into_owned();
        let long = "long".repeat(100);
        let entries = [long.clone(), format!("sub/{long}"), format!("dir{long}/below")];
        for path in &entries {
            repo.git(&["update-index", "--add", "--cacheinfo", &format!("100644,{blob},{path}")]);
        }
        repo.git(&["commit", "-q", "-m", "two"]);
        let new = format!("sub/new{long}");
        repo.git(&["update-index", "--add", "--cacheinfo", &format!("100644,{blob},{new}")]);
        repo.remove("file");
    });
    for args in [&[][..], &["--name-status"], &["--", "sub"]] {
        oracle.same(&[&["diff-files"], args].concat());
    }
    for options in [&["HEAD"][..], &["-m", "HEAD"], &["--cached", "HEAD"], &["HEAD", "--", "sub"]] {
        oracle.same(&[&["diff-index"], options].concat());
    }
    for options in
        [&["--refresh"][..], &["-q", "--refresh"], &["--ignore-missing", "--refresh"], &["--really-refresh"]]
    {
        oracle.same(&[&["update-index"], options].concat());
    }
}

/// A path whose `lstat` fails is an error for `diff-files` and deleted for `diff-index`.
#[test]
fn handles_a_symbolic_link_loop() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        ["a", "d/a", "d/b", "e"].iter().for_each(|path| repo.write(path, "1\n"));
        repo.commit("first");
        repo.write("d/b", "2\n");
        repo.write("d/new", "2\n");
        repo.git(&["add", "-A"]);
        let blob = repo.git(&["rev-parse", "HEAD:a"]).stdout.trim().to_str_lossy().into_owned();
        let lines: Vec<String> =
            (1..=3).map(|stage| format!("100644 {blob} {stage}\td/unmerged\n")).collect();
        index_info(repo, &lines.concat());
        repo.remove("d");
        repo.symlink("d", "d");
    });
    for args in [
        &["diff-files"][..],
        &["status", "--porcelain=v2"],
        &["diff-index", "HEAD"],
        &["diff-index", "-m", "HEAD"],
        &["diff-index", "HEAD", "--", "d/a", "e"],
        &["diff-index", "--cached", "HEAD"],
    ] {
        oracle.same(args);
    }
}
