//! Entries of submodules (`--recurse-submodules`).

use testkit::{Oracle, Repo};

use crate::{SAPWOOD, index_info, shim::Shim};

/// Creates nested submodules: checked out with their own or an absorbed Git directory, removed but
/// with their Git directory kept, inactive, and never cloned.
fn nested(repo: &Repo<'_>) {
    let made = |dir: &str, name: &str| {
        repo.git(&["init", "-q", "-b", "main", dir]);
        repo.write(format!("{dir}/{name}"), "x\n");
        repo.git(&["-C", dir, "add", "."]);
        repo.git(&["-C", dir, "commit", "-q", "-m", "one"]);
    };
    let add = |at: &str, name: &str| {
        repo.git(&["-C", at, "submodule", "--quiet", "add", &format!("./{name}"), name]);
    };
    for name in ["own", "kept", "off", "one", "two"] {
        made(name, "file.txt");
    }
    made("one/below", "deep file");
    made("two/below", "other");
    repo.write("one/un tracked", "x\n");
    add("one", "below");
    add("two", "below");
    for at in ["one", "two"] {
        repo.git(&["-C", at, "commit", "-q", "-m", "two"]);
    }
    for name in ["own", "kept", "off", "one", "two"] {
        add(".", name);
        repo.git(&["config", &format!("submodule.{name}.url"), "./elsewhere"]);
    }
    for name in ["one", "kept"] {
        repo.git(&["submodule", "--quiet", "absorbgitdirs", name]);
    }
    repo.write("sub/file.txt", "x\n");
    repo.git(&["add", "sub"]);
    repo.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{},void", "1".repeat(40))]);
    repo.git(&["config", "-f", ".gitmodules", "submodule.void.path", "void"]);
    repo.git(&["config", "submodule.void.url", "./void"]);
    repo.git(&["config", "submodule.off.active", "false"]);
    repo.git(&["add", ".gitmodules"]);
    repo.git(&["commit", "-q", "-m", "all"]);
    repo.remove("kept");
}

#[test]
fn lists_entries_of_submodules() {
    let oracle = Oracle::new(SAPWOOD, nested);
    let recurse = ["ls-files", "--recurse-submodules"];
    let shim = Shim::new();
    for args in [
        &[][..],
        &["-z"],
        &["-s"],
        &["-t", "-c"],
        &["-v", "--deduplicate"],
        &["*.txt"],
        &[":(icase)*.TXT", ":!own"],
        &["one"],
        &["one/", "kept/"],
        &["one/below/deep*"],
        &["o*/file.txt"],
        &["off", "void"],
        &["--", "nothing"],
    ] {
        let args = [&recurse[..], args].concat();
        let same = |dir: &str| {
            let run = |args: &[&str], ours: bool| {
                if ours { shim.run(&oracle.git(), args) } else { oracle.git().try_git(args) }
            };
            let args = [&["-C", dir], &args[..]].concat();
            assert_eq!(run(&args, true), run(&args, false), "{args:?}");
            shim.was_native(&args);
        };
        ["."].into_iter().chain(["sub"]).for_each(same);
    }
    oracle.both(|repo| drop(repo.git(&["-C", "one", "config", "submodule.below.active", "false"])));
    oracle.same_in(".", &recurse);
    oracle.same_in("sub", &["ls-files", "--recurse-submodules", "--full-name", ".."]);
    for args in [&["-d"][..], &["-u"], &["--error-unmatch", "sub"], &["--with-tree=HEAD"], &["-o"]] {
        let args = [&recurse[..], args].concat();
        oracle.same(&args);
        assert_eq!(shim.run(&oracle.git(), &args), oracle.git().try_git(&args), "{args:?}");
        shim.was_native(&args);
    }
    oracle.both(|repo| drop(repo.git(&["-C", "own", "config", "index.sparse", "perhaps"])));
    oracle.same(&recurse);
}

/// Attributes of a submodule's entries are matched against whole paths.
#[test]
fn matches_attributes_in_submodules() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        nested(repo);
        repo.write(".gitattributes", "*.txt foo\none/* bar\n/sub baz\noff baz\n");
        repo.write("one/.gitattributes", "file.txt -foo\n");
        repo.write("one/below/.gitattributes", "* foo\n");
        repo.git(&["add", "."]);
    });
    let check = |lists: &[&[&str]]| {
        for specs in lists {
            for dir in [".", "sub"] {
                oracle.same_in(dir, &[&["ls-files", "--recurse-submodules", "-s"], *specs].concat());
            }
        }
    };
    let lists = [
        &[":(attr:foo)"][..],
        &[":(attr:!foo)"],
        &[":(attr:-foo)one"],
        &[":(attr:foo)o*", "two"],
        &[":(attr:baz)"],
        &[":(attr:!baz)off/", "void"],
    ];
    check(&lists);
    check(&[&[":(attr:bar)one", ":(exclude,attr:foo)"], &["one", ":(exclude,attr:bar)"]]);
    // The attributes now come from the superproject's index. Git matches an exclusion first against
    // the submodule's entry, and reads the submodule's index from then on.
    oracle.both(|repo| repo.remove(".gitattributes"));
    check(&lists);
}

/// Creates submodules that differ in rules, attributes, objects, abbreviation, index and monitor,
/// all of which influence the listing.
fn mixed(repo: &Repo<'_>) {
    nested(repo);
    repo.write(".gitattributes", "*.txt text\none/*.c eol=lf\n");
    repo.write(".gitignore", "two/\nkept/\n");
    repo.write(".git/info/attributes", "two/other -text\n");
    repo.write("tracked.o", "1\n");
    repo.write("out/below/file", "1\n");
    repo.write("in/file", "1\n");
    for at in ["one", "two"] {
        // Names with a common prefix, in some submodules only.
        for number in 0..150 {
            repo.write(format!("{at}/many/{number}"), format!("{at} {number}\n"));
        }
        repo.write(format!("{at}/.gitattributes"), "*.c text\nfile.txt -text\n*.bin diff\n");
        repo.write(format!("{at}/.gitignore"), "*.o\n");
        repo.write(format!("{at}/a.c"), "1\r\n2\r\n");
        repo.write(format!("{at}/gone.c"), "1\r\n2\n");
        repo.write(format!("{at}/b.bin"), "\0\x01");
        repo.write(format!("{at}/\u{e9}.o"), "ignored here\n");
        repo.write(format!("{at}/out/c"), "1\n");
        repo.git(&["-C", at, "add", "-f", "."]);
        repo.git(&["-C", at, "commit", "-q", "-m", "more"]);
        repo.git(&["-C", at, "config", "core.abbrev", "9"]);
        repo.write(format!("{at}/a.c"), "changed\n");
        repo.remove(format!("{at}/gone.c"));
    }
    repo.git(&["add", "."]);
    repo.git(&["add", "-f", "tracked.o"]);
    repo.git(&["commit", "-q", "-m", "more"]);
    repo.git(&["-C", "one", "update-index", "--assume-unchanged", "file.txt"]);
}

const EVERYTHING: &str = "--format=%(objectmode) %(objectname) %(objecttype) %(objectsize) %(objectsize:padded) %(stage) %(path) \
     %(eolinfo:index) %(eolinfo:worktree) %(eolattr)";

#[test]
fn prints_entries_of_submodules_as_git_does() {
    let oracle = Oracle::new(SAPWOOD, mixed);
    let shim = Shim::new();
    let all = |settings: &[&str]| {
        for args in [
            &["--eol"][..],
            &["--eol", "-s", "-t", "--debug", "o*"],
            &["--eol", "two", ":!*many*"],
            &["-s", "--abbrev"],
            &["-s", "--abbrev=4", "*.txt", "*many*"],
            &["-s", "--abbrev=4", "--no-abbrev"],
            &[EVERYTHING],
            &[EVERYTHING, "--abbrev", "-z", "one"],
            &[EVERYTHING, "--abbrev=4", "two"],
            &["--format=%(path)%", "two"],
            &["--format=%(nothing)", "two"],
            &["--format=%(path)", "--debug", "own"],
            &["-f"],
            &["-fv", "-s", "one"],
            &["-f", "--debug"],
            &["-ic", "--exclude-standard"],
            &["-ic", "-x", "*.o"],
            &["-ics", "-x", "one", "-x", "!own", "-x", "kept/"],
            &["-ict", "-x", "o*/", "--eol", "one", "kept"],
            &["-i", "-x", "*"],
            &["-ic"],
            &["-ico", "-x", "*"],
            &["--sparse"],
            &["--sparse", "-t", "-s", "--eol"],
            &["--sparse", EVERYTHING],
            &["-t"],
        ] {
            let args = [settings, &["ls-files", "--recurse-submodules"], args].concat();
            let (theirs, ours) = (oracle.git().try_git(&args), shim.run(&oracle.git(), &args));
            assert_eq!(theirs, ours, "{args:?}");
            if theirs.code != 129 {
                shim.was_native(&args);
            }
        }
    };
    all(&[]);
    all(&["-c", "core.abbrev=6"]);
    all(&["-C", "sub"]);
    // The monitor of a submodule is queried too, in the root of the superproject.
    oracle.both(|repo| {
        repo.write_executable(".git/monitor", "#!/bin/sh\npwd >>asked\nprintf 'token\\0file.txt\\0'\n");
        let monitor = repo.join(".git/monitor");
        for at in [".", "one"] {
            repo.git(&["-C", at, "config", "core.fsmonitor", monitor.to_str().expect("a name")]);
            repo.git(&["-C", at, "config", "core.fsmonitorHookVersion", "2"]);
            repo.git(&["-C", at, "update-index", "--fsmonitor"]);
            repo.git(&["-C", at, "status"]);
        }
        repo.remove("asked");
    });
    let asked = |program: &str| {
        let args = ["ls-files", "--recurse-submodules", "-f"];
        let said = match program {
            "git" => oracle.git().try_git(&args),
            _ => shim.run(&oracle.git(), &args),
        };
        let at = oracle.git().read("asked");
        oracle.git().remove("asked");
        (said, at)
    };
    let theirs = asked("git");
    assert!(theirs.0.stdout.to_string().contains("h one/b.bin\n"), "{}", theirs.0.stdout);
    assert_eq!(theirs, asked("shim"));
    all(&[]);
    oracle.both(|repo| {
        repo.git(&["sparse-checkout", "set", "--cone", "--sparse-index", "in", "sub"]);
        repo.git(&["-C", "one", "sparse-checkout", "set", "--cone", "many"]);
    });
    all(&[]);
}

/// A pathspec that matches directories matches each stage that is a submodule.
#[test]
fn matches_unmerged_submodules() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        let blob = "d00491fd7e5bb6fa28c517a0bb32b8b506539d4d";
        repo.write("there", "1\n");
        for name in ["gone", "there"] {
            index_info(
                repo,
                &format!("100644 {blob} 1\t{name}\n160000 {blob} 2\t{name}\n100644 {blob} 3\t{name}\n"),
            );
        }
    });
    for specs in
        [&["gone/"][..], &["there/"], &["gone"], &["gone/", "there/"], &["gone/", "nothing"], &[":!there/"]]
    {
        for options in [
            &["-d"][..],
            &["-m"],
            &["-dm", "-s"],
            &["-c", "-s"],
            &["-dm", "--deduplicate"],
            &["-c", "--deduplicate"],
        ] {
            oracle.same(&[&["ls-files"], options, specs].concat());
        }
    }
}
