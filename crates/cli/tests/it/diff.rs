//! `diff-files` and `diff-index`: what is listed, and how.

use std::time::{Duration, SystemTime};

use bstr::ByteSlice as _;
use testkit::{Oracle, Repo};

use crate::{SAPWOOD, diff_random::NEWEST, index_info};

/// Gives a file a time long ago, so that nothing depends on when it was written.
fn age(repo: &Repo<'_>, path: &str, seconds: u64) {
    let file = std::fs::File::open(repo.join(path)).expect("the file exists");
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + seconds);
    file.set_modified(time).expect("the file is ours");
}

fn lines(from: usize, to: usize) -> String {
    (from..to).map(|number| format!("line {number}\n")).collect()
}

/// One path of each kind of difference, unmerged ones left out.
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
    // Renames without the index: what is only intended to be added is new.
    repo.remove("sub/moved");
    repo.write("sub/deep/moved", lines(81, 97));
    repo.write("intended and gone", "x\n");
    repo.git(&["add", "-N", "sub/deep/moved", "intended and gone"]);
    repo.remove("intended and gone");
    repo.git(&["rm", "-q", "--cached", "link"]);
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
fn files_of_every_kind() {
    let oracle = Oracle::new(SAPWOOD, changed);
    for args in FILES {
        oracle.same(&[&["diff-files"], *args].concat());
    }
    // The file has a name only now that it is a source.
    let run = oracle.same(&["diff-files", "-C", "-R", "--", "touched", "gone"]);
    assert!(run.stderr.contains_str("feeding unmodified touched"), "{}", run.stderr);
    for args in [&["--relative"][..], &["--relative", "-M"], &["--name-only", "."], &["../gone"], &["moved"]]
    {
        oracle.same_in("sub", &[&["diff-files"], args].concat());
    }
}

#[test]
fn trees_against_files_and_index() {
    let oracle = Oracle::new(SAPWOOD, changed);
    let both: Vec<&[&str]> = FILES.iter().copied().filter(|args| !args.contains(&"-q")).collect();
    for args in both {
        let at = args.iter().position(|arg| !arg.starts_with('-') || *arg == "--").unwrap_or(args.len());
        // A value that is an argument of its own stays with its option.
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
fn options_that_do_not_go_together() {
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

/// Options of diffs cluster, those of revisions do not, and the command gets what nobody else knows of a cluster.
#[test]
fn options_in_clusters() {
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

/// Files that were written anew, swapped, moved over another, that kept a part, or became something else.
fn rewritten(repo: &Repo<'_>) {
    repo.write("anew", lines(0, 60));
    repo.write("half", lines(100, 160));
    repo.write("grown", lines(200, 240));
    repo.write("shortened", lines(300, 400));
    repo.write("swapped one", lines(400, 460));
    repo.write("swapped other", lines(500, 560));
    repo.write("moved away", lines(600, 660));
    repo.write("moved onto", lines(700, 760));
    repo.write("small", lines(800, 810));
    repo.write("emptied", lines(900, 960));
    repo.write("filled", "");
    repo.write("becomes a link", lines(1000, 1060));
    repo.write("empty becomes a link", "");
    repo.symlink("x", "was a link");
    repo.symlink(&"long/".repeat(100), "long link");
    repo.symlink("link", "gone link");
    repo.write("returns", lines(1200, 1260).replace('\n', "\r\n"));
    repo.write("binary", lines(1300, 1360).replace('\n', "\r\n") + "\0");
    repo.write("executable", lines(1400, 1460));
    repo.commit("one");
    repo.write("anew", lines(2000, 2060));
    repo.write("half", lines(130, 190));
    repo.write("grown", lines(200, 500));
    repo.write("shortened", lines(300, 310));
    repo.write("swapped one", lines(500, 561));
    repo.write("swapped other", lines(399, 460));
    repo.write("moved onto", lines(600, 661));
    repo.write("small", lines(2100, 2110));
    repo.write("emptied", "");
    repo.write("filled", lines(2200, 2260));
    for path in
        ["becomes a link", "empty becomes a link", "was a link", "long link", "gone link", "moved away"]
    {
        repo.remove(path);
    }
    repo.symlink("y", "becomes a link");
    repo.symlink("link", "empty becomes a link");
    repo.write("was a link", lines(1000, 1061));
    repo.symlink(&"other/".repeat(100), "long link");
    repo.write("returns", lines(1200, 1260));
    repo.write("binary", lines(1300, 1360) + "\0");
    repo.write_executable("executable", lines(2400, 2460));
}

#[test]
fn rewrites() {
    let oracle = Oracle::new(SAPWOOD, rewritten);
    let options: &[&[&str]] = &[
        &["-B"],
        &["-B", "--name-status", "-z"],
        &["-B", "-M"],
        &["-B", "-C"],
        &["-B", "-C", "-C", "-l3"],
        &["-B", "-M", "-l3"],
        &["-B", "-M", "-R"],
        &["-B", "-M99%"],
        &["-B", "-M100%"],
        &["--break-rewrites=90%", "-M"],
        &["-B1/1"],
        &["-B/1", "-M20%"],
        &["-B/100%", "-C20%"],
        &["-B100%/1", "-M"],
        &["-B1%/1%", "-M1%"],
        &["-B", "-M", "--no-rename-empty"],
        &["-B", "-M", "-R", "--no-rename-empty"],
        &["-B", "--diff-filter=B"],
        &["-B", "--diff-filter=M", "-M"],
        &["-B", "--diff-filter=b"],
        &["-B", "--diff-filter=B*", "--name-only"],
        &["-B", "--diff-filter=B", "--quiet"],
        &["-B", "-M", "-Sline 20"],
        &["-B", "-M", "-Sline 60", "--pickaxe-all"],
        &["-B", "-M", "--find-object=HEAD:moved onto"],
        &["-B", "-M", "--skip-to=moved onto"],
        &["-B", "-M", "--", "anew", "moved*", "becomes*"],
        &["-BM"],
        &["-B5/6/7"],
        &["--break-rewrites=x"],
    ];
    for options in options {
        let at = options.iter().position(|option| *option == "--").unwrap_or(options.len());
        let (given, paths) = options.split_at(at);
        oracle.same(&[&["diff-files"], *options].concat());
        oracle.same(&[&["diff-index"], given, &["HEAD"], paths].concat());
    }
    let run = oracle.same(&["diff-files", "-B", "-M", "--name-status"]);
    for part in [
        "M100\tanew",
        "T100\tbecomes a link",
        "R098\tmoved away\tmoved onto",
        "R098\tswapped one\tswapped other",
    ] {
        assert!(run.stdout.contains_str(part), "{part}: {}", run.stdout);
    }
    oracle.both(|repo| drop(repo.git(&["add", "-A"])));
    for options in options {
        let at = options.iter().position(|option| *option == "--").unwrap_or(options.len());
        let (given, paths) = options.split_at(at);
        oracle.same(&[&["diff-index", "--cached"], given, &["HEAD"], paths].concat());
    }
}

#[test]
fn what_has_to_do_with_a_text_or_an_object() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        changed(repo);
        repo.write("binary", b"a\0needle needle");
        repo.write("converted", "a\r\nb\r\n");
        repo.write(
            ".gitattributes",
            "converted eol=crlf\n*.text diff\n*.binary -diff\n*.mine diff=mine\n*.c diff=cpp\n",
        );
        repo.git(&["config", "diff.mine.binary", "true"]);
        for path in ["a.text", "a.binary", "a.mine", "a.c"] {
            repo.write(path, "not as text\0\n");
        }
        repo.git(&["add", "."]);
        for path in ["a.text", "a.binary", "a.mine", "a.c"] {
            repo.write(path, "as text\n");
        }
        repo.write("binary", b"a\0needle ");
        repo.write("converted", "a\r\nb\r\na\r\n");
        repo.git(&["tag", "gone", "HEAD:gone"]);
    });
    let options: &[&[&str]] = &[
        &["-Sline 1"],
        &["-S", "needle"],
        &["-Sneedle n", "-Sa"],
        &["-S\r\n"],
        &["-Sline 62", "-M", "--name-status"],
        &["-Sline 96", "-C", "-C"],
        &["-Sline", "-R", "--name-only"],
        &["-Sno such text", "--exit-code"],
        &["-Sx", "--pickaxe-all", "--exit-code"],
        &["-Sno such text", "--pickaxe-all"],
        &["-SSubproject commit"],
        &["-Smodified", "--diff-filter=T"],
        &["-S", "x", "-s", "--exit-code"],
        &["-S", "x", "--quiet"],
        &["-Sline 1", "--quiet"],
        &["-Gline", "--quiet", "--diff-filter=M"],
        &["-Gline", "--quiet", "--diff-filter=d"],
        &["--find-object=HEAD:modified", "--quiet"],
        &["--find-object=:modified", "--name-only"],
        &["--find-object", ":0:gone"],
        &["--find-object=:nowhere"],
        &["-Sx", "--skip-to=modified"],
        &["-S", ""],
        &["--pickaxe-all"],
        &["-Sline [0-9]2$", "--pickaxe-regex"],
        &["--pickaxe-regex", "-S", "^line|x*"],
        &["-S(line 1)+\nline", "--pickaxe-regex", "-M"],
        &["-S^.$|needle ?$", "--pickaxe-regex", "--pickaxe-all"],
        &["-S[^n]e\\b", "--pickaxe-regex", "-B", "-M"],
        &["-Sx(", "--pickaxe-regex"],
        &["-Sx[", "--pickaxe-regex", "--", "nowhere"],
        &["-S\\<", "--pickaxe-regex", "-C", "-R"],
        &["--pickaxe-regex", "--name-only"],
        &["-Gline 1"],
        &["-G", "needle"],
        &["-G^a$", "-R", "--name-status"],
        &["-G^line [0-9]2$", "-M"],
        &["-Gline", "-B", "-M", "--pickaxe-all"],
        &["-G^$", "-C"],
        &["-GSubproject"],
        &["-Gas text"],
        &["-Gx("],
        &["-G", ""],
        &["-Gx", "-Sx"],
        &["-Gx", "--find-object=gone"],
        &["-Gx", "--pickaxe-regex"],
        &["-Gx", "--pickaxe-regex", "--name-only", "--name-status"],
        &["--find-object=gone", "--pickaxe-regex", "-Sx"],
        &["--find-object=HEAD:gone"],
        &["--find-object", "gone", "-M", "--name-only"],
        &["--find-object=gone", "--find-object=HEAD:modified", "-R"],
        &["--find-object=0000000000000000000000000000000000000000"],
        &["--find-object=nowhere"],
        &["--find-object=gone", "-Sx"],
        &["--find-object=gone", "--pickaxe-all"],
        &["--find-object=gone", "--pickaxe-all", "-Sx", "--name-only", "--name-status"],
    ];
    for options in options {
        oracle.same(&[&["diff-files"], *options].concat());
        let at = options.iter().position(|option| *option == "--").unwrap_or(options.len());
        let (given, paths) = options.split_at(at);
        oracle.same(&[&["diff-index"], given, &["HEAD"], paths].concat());
        oracle.same(&[&["diff-index", "--cached"], given, &["HEAD"], paths].concat());
    }
    for size in ["100", "1k"] {
        oracle.same(&["-c", &format!("core.bigFileThreshold={size}"), "diff-files", "-Gline|text"]);
    }
    let run = oracle.same(&["diff-files", "-Gas text", "--name-only"]);
    assert_eq!(run.stdout, "a.text\n");
    let run = oracle.same(&["diff-files", "-Sneedle"]);
    assert!(run.stdout.contains_str("\tbinary\n"), "{}", run.stdout);
}

/// What one character is, the environment says.
#[test]
fn characters_of_the_environment() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        repo.write("one", "\u{e9}\n");
        repo.write("bytes", b"\xe9\n");
        repo.write("letter", "e\n");
        repo.git(&["add", "."]);
        ["one", "bytes", "letter"].iter().for_each(|path| repo.write(path, ""));
    });
    let answer = |mut command: std::process::Command, locale: &str, options: &[&str]| {
        command.env("LC_ALL", locale).args(["diff-files", "--name-only"]).args(options);
        command.output().expect("it runs").stdout
    };
    let (git, ours) = (oracle.git(), oracle.ours());
    for locale in ["C", "C.UTF-8", "not there"] {
        for options in [&["-G^.$"][..], &["-S^[^x]$", "--pickaxe-regex"]] {
            let theirs = answer(git.git_command(), locale, options);
            let ours = answer(ours.command(SAPWOOD.as_ref()), locale, options);
            assert_eq!(theirs.as_bstr(), ours.as_bstr(), "{locale} {options:?}");
        }
    }
}

/// Of several that come from one file the last that is shown is the rename, and what is not shown was still made of it.
#[test]
fn copies_in_another_order_and_without_some() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        repo.write("from", lines(0, 30));
        repo.commit("one");
        repo.remove("from");
        for (path, more) in [("a", "x\n"), ("b", "y\n"), ("c", "needle\n"), ("d", "x\n")] {
            repo.write(path, lines(0, 30) + more);
        }
        repo.git(&["add", "-A"]);
        repo.write(".git/order", "c\nd\na\n");
    });
    let options: &[&[&str]] = &[
        &["-O.git/order"],
        &["--rotate-to=c"],
        &["--skip-to=c"],
        &["-Sneedle"],
        &["-Sx", "-O.git/order"],
        &["-Sy", "--pickaxe-all"],
    ];
    for options in options {
        oracle.same(&[&["diff-index", "--cached", "-C", "--name-status"], *options, &["HEAD"]].concat());
    }
    let run = oracle.same(&["diff-index", "--cached", "-C", "--name-status", "-Sneedle", "HEAD"]);
    assert_eq!(run.stdout, "C097\tfrom\tc\n");
}

#[test]
fn in_another_order() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        changed(repo);
        repo.git(&["config", "diff.orderFile", "not for plumbing"]);
        repo.write(".git/empty", "");
        repo.write(".git/order", "# first\n\nsub\nexec*\n[t-z]*\n*e\r\n*d\0x\nb*/f*\n# last\nnone");
    });
    let options: &[&[&str]] = &[
        &[],
        &["-O.git/order"],
        &["-O", ".git/order", "--name-only"],
        &["-O.git/empty", "-M"],
        &["-Onowhere", "-O.git/order", "-M", "-R"],
        &["-Onowhere"],
        &["-Onowhere", "--quiet"],
        &["-O", "sub"],
        &["-O.git/order", "-O", ""],
        &["-O", "", "-O.git/order"],
        &["-O-"],
        &["-O:(optional).git/order"],
        &["-O.git/order", "-O:(optional)nowhere"],
        &["-O:(optional)nowhere", "--name-only"],
        &["--skip-to=modified", "--quiet"],
        &["--rotate-to=becomes a directory", "--quiet"],
        &["--rotate-to=modified", "--quiet", "--diff-filter=M"],
        &["--rotate-to=modified", "--quiet", "--diff-filter=Mm"],
        &["--rotate-to", "modified"],
        &["--rotate-to=modified", "-O.git/order"],
        &["--skip-to=modified", "--name-status"],
        &["--skip-to", "gone", "--rotate-to=modified"],
        &["--skip-to=nowhere"],
        &["--skip-to=modified", "--diff-filter=M", "--exit-code"],
        &["--rotate-to=sub/deep/moved", "-M", "-O.git/order", "-z"],
    ];
    for options in options {
        oracle.same(&[&["diff-files"], *options].concat());
        oracle.same(&[&["diff-index"], *options, &["HEAD"]].concat());
        oracle.same(&[&["diff-index", "--cached"], *options, &["HEAD"]].concat());
        oracle.same(&[&["diff-index"], *options, &["HEAD", "--", "nowhere"]].concat());
    }
    oracle.both(|repo| repo.write("-", "sub\n"));
    for options in [
        &["-O../.git/order"][..],
        &["-Onowhere"],
        &["-O-"],
        &["-O:(optional)../.git/order"],
        &["--skip-to=modified", "--relative"],
    ] {
        oracle.same_in("sub", &[&["diff-files"], options].concat());
        oracle.same_in("sub", &[&["diff-index", "--cached"], options, &["HEAD"]].concat());
    }
}

/// Both sides changed one file, one of them removed another.
fn conflicted(repo: &Repo<'_>) {
    for path in ["both", "ours", "theirs", "sub/both", "kept"] {
        repo.write(path, lines(0, 20));
    }
    repo.commit("base");
    repo.git(&["checkout", "-q", "-b", "side"]);
    repo.write("both", lines(1, 21));
    repo.write("sub/both", lines(1, 22));
    repo.write("theirs", lines(2, 20));
    repo.write("added", lines(50, 60));
    repo.git(&["rm", "-q", "ours"]);
    repo.commit("side");
    repo.git(&["checkout", "-q", "main"]);
    repo.write("both", lines(0, 19));
    repo.write("sub/both", lines(0, 18));
    repo.write("ours", lines(3, 20));
    repo.write("added", lines(50, 61));
    repo.git(&["rm", "-q", "theirs"]);
    repo.commit("main");
    assert_eq!(repo.try_git(&["merge", "-q", "side"]).code, 1, "it conflicts");
    repo.write("kept", "changed\n");
    repo.remove("sub/both");
}

#[test]
fn unmerged_paths() {
    let oracle = Oracle::new(SAPWOOD, conflicted);
    let sides = ["-0", "-1", "-2", "-3", "--base", "--ours", "--theirs"];
    for side in sides {
        oracle.same(&["diff-files", side]);
        oracle.same(&["diff-files", side, "-M", "--exit-code"]);
    }
    oracle.same(&["diff-files", "--theirs", "-1"]);
    for args in
        [&["-C"][..], &["-R"], &["--name-status"], &["--diff-filter=U"], &["--diff-filter=u"], &["sub"]]
    {
        oracle.same(&[&["diff-files"], args].concat());
    }
    for args in [&["HEAD"][..], &["--cached", "HEAD"], &["-m", "HEAD"], &["-M", "side"], &["-R", "HEAD"]] {
        oracle.same(&[&["diff-index"], args].concat());
        oracle.same(&[&["diff-index", "--merge-base"], args].concat());
    }
    oracle.same(&["diff-index", "--merge-base", "--cached", "side"]);
}

/// Sides of a conflict that are of other kinds than its file, where links are regular files, and where not; a repository in its place.
#[test]
fn unmerged_paths_of_other_kinds() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        ["a", "gone", "link", "place"].iter().for_each(|path| repo.write(path, "1\n"));
        repo.write("empty", "");
        repo.commit("first");
        let blob = repo.git(&["rev-parse", "HEAD:a"]).stdout.trim().to_str_lossy().into_owned();
        let of_path = |path: &str, first: &str, second: &str| {
            format!("0 {} 0\t{path}\n{first} {blob} 1\t{path}\n{second} {blob} 2\t{path}\n", "0".repeat(40))
        };
        let lines = of_path("a", "100644", "120000")
            + &of_path("link", "120000", "100644")
            + &of_path("place", "120000", "100755")
            + &of_path("sub", "160000", "100644")
            + &of_path("other", "100644", "160000")
            + &of_path("no other", "100644", "160000")
            + &of_path("socket", "100644", "100755");
        index_info(repo, &lines);
        ["empty", "gone", "place"].iter().for_each(|path| repo.remove(path));
        // To Git it is an empty file.
        std::os::unix::net::UnixListener::bind(repo.join("socket")).expect("a short name");
        repo.git(&["init", "-q", "-b", "main", "place"]);
        repo.git(&["-C", "place", "commit", "-q", "--allow-empty", "-m", "inner"]);
        repo.write("place/new", "1\n");
        repo.write("sub/file", "1\n");
        repo.write("other/file", "1\n");
    });
    for links in ["core.symlinks=true", "core.symlinks=false"] {
        for options in [&[][..], &["-M"], &["-C"], &["-R"]] {
            oracle.same(&[&["-c", links, "diff-files"], options].concat());
            oracle.same(&[&["-c", links, "diff-index"], options, &["HEAD"]].concat());
        }
        oracle.same(&["-c", links, "diff-files", "-1", "-M"]);
        oracle.same(&["-c", links, "diff-files", "-3"]);
        oracle.same(&["-c", links, "diff-index", "-M", "-m", "HEAD"]);
        for options in [&["-s"][..], &["--porcelain=v2"], &["--no-renames"], &["-M20%", "--", "gone", "link"]]
        {
            oracle.same(&[&["-c", links, "status"], options].concat());
        }
        oracle.same(&["-c", links, "status", "-uall", "-s"]);
        oracle.same(&["-c", links, "ls-files", "-o"]);
        oracle.same(&["-c", links, "-c", "status.renames=copies", "status", "--porcelain=v2"]);
    }
}

/// What a `.gitmodules` that cannot be read is told of, and how often.
#[test]
fn gitmodules_that_cannot_be_read() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        with_submodules(repo);
        repo.git(&["-C", "same", "checkout", "-q", "--detach", "HEAD"]);
        repo.git(&["add", "moved", "all"]);
        repo.git(&["rm", "-q", "-f", "--cached", "quiet"]);
        repo.remove(".gitmodules");
        repo.symlink(".gitmodules", ".gitmodules");
    });
    for args in [&["HEAD"][..], &["--cached", "HEAD"], &["--cached", "HEAD", "--", "dirty"], &["-R", "HEAD"]]
    {
        oracle.same(&[&["diff-index"], args].concat());
        oracle.same(&[&["diff-index", "--ignore-submodules=dirty"], args].concat());
    }
    // Nobody is asked about one that is missing and counts as it is in the index.
    oracle.same(&["diff-index", "-m", "HEAD", "--", "gone"]);
    oracle.same(&["diff-index", "-m", "HEAD"]);
    oracle.same(&["diff-files"]);
    oracle.same(&["status", "-s"]);
}

/// Submodules: untouched, with another commit, with a change, with an untracked file, gone, staged.
fn with_submodules(repo: &Repo<'_>) {
    let source = repo.path.join("../source");
    if !source.exists() {
        std::fs::create_dir(&source).expect("a new directory");
        let in_source = |args: &[&str]| repo.git(&[&["-C", "../source"], args].concat());
        in_source(&["init", "-q", "-b", "main"]);
        std::fs::write(source.join("file"), "x\n").expect("a new file");
        in_source(&["add", "file"]);
        in_source(&["commit", "-q", "-m", "one"]);
    }
    let names = ["same", "moved", "dirty", "littered", "gone", "all", "quiet"];
    for name in names {
        let add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../source", name];
        repo.git(&add);
        // What Git makes of the address is the copy's own.
        repo.git(&["config", &format!("submodule.{name}.url"), "../source"]);
    }
    repo.git(&["config", "-f", ".gitmodules", "submodule.all.ignore", "all"]);
    repo.git(&["config", "-f", ".gitmodules", "submodule.quiet.ignore", "none"]);
    repo.commit("submodules");
    for name in ["moved", "all"] {
        repo.git(&["-C", name, "commit", "-q", "--allow-empty", "-m", "two"]);
    }
    for name in ["littered", "quiet"] {
        repo.write(format!("{name}/litter"), "x\n");
    }
    repo.write("dirty/file", "changed\n");
    repo.remove("gone");
}

#[test]
fn submodules() {
    let oracle = Oracle::new(SAPWOOD, with_submodules);
    oracle.both(|repo| drop(repo.git(&["config", "diff.ignoreSubmodules", "all"])));
    for args in [
        &[][..],
        &["--ignore-submodules"],
        &["--ignore-submodules=all"],
        &["--ignore-submodules=dirty"],
        &["--ignore-submodules=untracked"],
        &["--ignore-submodules=none"],
        &["-R"],
        &["--", "dirty/", "moved"],
    ] {
        oracle.same(&[&["diff-files"], args].concat());
        let at = args.iter().position(|arg| *arg == "--").unwrap_or(args.len());
        let (options, paths) = args.split_at(at);
        oracle.same(&[&["diff-index"], options, &["HEAD"], paths].concat());
        oracle.same(&[&["diff-index", "--cached"], options, &["HEAD~0"], paths].concat());
    }
    // What nobody is to look at; and where the tree has a file.
    oracle.both(|repo| {
        repo.git(&["update-index", "--assume-unchanged", "dirty", "littered"]);
        let blob = repo.git(&["rev-parse", "HEAD:.gitmodules"]).stdout.trim().to_str_lossy().into_owned();
        ["gone", "same", "quiet"].iter().for_each(|name| drop(repo.git(&["rm", "-q", "--cached", name])));
        index_info(
            repo,
            &["gone", "same", "quiet"].map(|name| format!("100644 {blob} 0\t{name}\n")).concat(),
        );
        repo.git(&[
            "branch",
            "files",
            repo.git(&[
                "commit-tree",
                "-m",
                "files",
                repo.git(&["write-tree"]).stdout.trim().to_str().expect("hexadecimal"),
            ])
            .stdout
            .trim()
            .to_str()
            .expect("hexadecimal"),
        ]);
        repo.git(&["reset", "-q"]);
        repo.remove("quiet");
        repo.write("quiet", "a file\n");
    });
    for args in [
        &["diff-files"][..],
        &["diff-files", "--ignore-submodules=none"],
        &["diff-index", "--ignore-submodules=none", "HEAD"],
        &["diff-index", "--ignore-submodules", "files"],
        &["diff-index", "-m", "--ignore-submodules", "files"],
        &["diff-index", "files"],
        &["status", "--porcelain=v2"],
    ] {
        oracle.same(args);
    }
    oracle.both(|repo| drop(repo.git(&["add", "moved", "all"])));
    for args in [&["diff-files"][..], &["diff-index", "HEAD"], &["diff-index", "--cached", "HEAD"]] {
        oracle.same(args);
    }
}

/// What is called `.git` in a submodule and is no repository.
#[test]
fn submodules_that_are_broken() {
    let oracle = Oracle::new(SAPWOOD, with_submodules);
    for content in ["nonsense\n", "gitdir: \n", "gitdir: nowhere\n", ""] {
        oracle.both(|repo| repo.write("dirty/.git", content));
        for args in [&["diff-files"][..], &["diff-index", "HEAD"], &["status", "-s"]] {
            oracle.same_as(content, args);
        }
    }
    oracle.both(|repo| {
        repo.remove("dirty/.git");
        repo.write("dirty/.git/file", "x\n");
    });
    oracle.same(&["status", "-s"]);
    oracle.both(|repo| {
        repo.remove("dirty/.git");
        std::os::unix::net::UnixListener::bind(repo.join("dirty/.git")).expect("a short name");
    });
    oracle.same(&["status", "-s"]);
}

/// A conflict about a submodule's commit: HEAD there is ours, theirs, or another's, and what is in it was changed.
#[test]
fn unmerged_submodules() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        with_submodules(repo);
        repo.git(&["checkout", "-q", "-b", "side"]);
        let commit = |name: &str| {
            repo.git(&["-C", name, "commit", "-q", "--allow-empty", "-m", "further"]);
            repo.git(&["add", name]);
        };
        commit("dirty");
        commit("same");
        repo.git(&["commit", "-q", "-m", "theirs"]);
        repo.git(&["checkout", "-q", "main"]);
        repo.git(&["-C", "dirty", "checkout", "-q", "--detach", "HEAD~"]);
        repo.git(&["-C", "same", "checkout", "-q", "--detach", "HEAD~"]);
        repo.git(&["-C", "dirty", "commit", "-q", "--allow-empty", "-m", "another way"]);
        repo.git(&["-C", "same", "commit", "-q", "--allow-empty", "-m", "another way"]);
        repo.git(&["add", "dirty", "same"]);
        repo.git(&["commit", "-q", "-m", "ours"]);
        repo.try_git(&["merge", "-q", "side"]);
        assert!(repo.git(&["ls-files", "-u"]).stdout.contains_str("dirty"), "it conflicts");
    });
    for place in ["main@{0}", "side:{}", "HEAD~:{}"] {
        oracle.both(|repo| {
            for name in ["dirty", "same"] {
                let commit = match place.strip_suffix("{}") {
                    Some(of) => repo
                        .git(&["rev-parse", &format!("{of}{name}")])
                        .stdout
                        .trim()
                        .to_str_lossy()
                        .into_owned(),
                    None => continue,
                };
                repo.git(&["-C", name, "checkout", "-q", "--detach", &commit]);
            }
        });
        for options in [&[][..], &["--ignore-submodules=none"], &["--ignore-submodules=all"], &["-m"]] {
            oracle.same_as(place, &[&["diff-index"], options, &["HEAD"]].concat());
        }
        for options in
            [&[][..], &["--base"], &["--theirs"], &["--ours", "--ignore-submodules=dirty"], &["-0"]]
        {
            oracle.same_as(place, &[&["diff-files"], options].concat());
        }
    }
}

/// Names that the file system does not take: nobody can tell what is there.
#[test]
fn files_that_cannot_be_looked_at() {
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

/// What cannot be looked at: said by `diff-files`, gone for `diff-index`.
#[test]
fn behind_a_link_in_a_circle() {
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
