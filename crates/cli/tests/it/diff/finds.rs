//! Rewrites, renames, copies, pickaxe searches and object searches, and the order of their output.

use bstr::ByteSlice as _;
use testkit::{Oracle, Repo};

use super::{changed, lines};
use crate::SAPWOOD;

/// Creates files that are rewritten, swapped, moved over another file, partly kept, or changed in
/// kind.
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
fn detects_rewrites() {
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
fn finds_changes_by_text_or_object() {
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

/// The locale defines the size of one character.
#[test]
fn matches_characters_of_the_locale() {
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

/// If several files come from one source, the last one shown is the rename. Files that are not
/// shown still count as made from it.
#[test]
fn detects_copies_under_another_order_and_selection() {
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
fn sorts_by_an_order_file() {
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

/// Warnings about line endings that would not round-trip: one for each file read, in order.
#[test]
fn warns_of_line_endings_that_do_not_round_trip() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        for path in ["a", "b", "binary", "by attribute", "gone", "large", "own", "same"] {
            repo.write(path, format!("{path}\none\n"));
        }
        repo.write("long", lines(0, 100));
        repo.write("empty", "");
        repo.symlink("a", "link");
        repo.write("encoded.u", "one\n");
        repo.commit("first");
        repo.write(".gitattributes", "b eol=crlf\nby* -diff\nown -text\n*.u working-tree-encoding=UTF-16\n");
        for path in ["a", "by attribute", "own"] {
            repo.write(path, format!("{path}\r\ntwo\r\n"));
        }
        repo.write("b", "b\ntwo\n");
        repo.write("binary", "\0\r\none\r\n");
        repo.write("large", "two\r\n".repeat(4000));
        repo.write("long", lines(90, 170).replace('\n', "\r\n"));
        repo.write("empty", lines(90, 170).replace('\n', "\r\n"));
        repo.remove("link");
        repo.write("link", "two\r\n");
        repo.write("encoded.u", "odd");
        repo.remove("gone");
        repo.write("new", "two\r\n");
        repo.git(&["-c", "core.safecrlf=false", "add", "new"]);
    });
    let mut told = 0;
    for settings in [
        &["-c", "core.autocrlf=input"][..],
        &["-c", "core.autocrlf=true"],
        &["-c", "core.autocrlf=input", "-c", "core.safecrlf=true"],
        &["-c", "core.autocrlf=input", "-c", "core.safecrlf=false"],
        &["-c", "core.autocrlf=input", "-c", "core.bigFileThreshold=10k"],
        &[],
    ] {
        for options in [
            &["-Sone"][..],
            &["-Stwo", "-R"],
            &["-Gtwo"],
            &["-Gone", "-R"],
            &["-Stwo", "--pickaxe-all"],
            &["-Sg", "--pickaxe-all"],
            &["-St.o", "--pickaxe-regex"],
            &["-Snowhere", "--quiet"],
            &["--find-object=HEAD:a"],
            &["-B"],
            &["-B", "-R"],
            &["-B", "-Stwo"],
            &["-B", "-Gtwo", "--pickaxe-all", "-R"],
        ] {
            for command in [&["diff-files"][..], &["diff-index", "HEAD"], &["diff-index", "--cached", "HEAD"]]
            {
                let run = oracle.same(&[settings, &command[..1], options, &command[1..]].concat());
                told += usize::from(run.stderr.contains_str("next time Git touches it"));
            }
        }
    }
    assert!(told > 20, "{told}");
}
