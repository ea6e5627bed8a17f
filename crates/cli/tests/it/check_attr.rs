//! Tests of `check-attr`: attributes from every source, their order, and the messages about bad
//! lines.

use testkit::{Oracle, Repo};

use crate::{
    SAPWOOD,
    check_ignore::{fed, in_turns, without_its_index},
    shim::Shim,
};

fn attributes(repo: &Repo<'_>) {
    repo.write("users", "*.u zeta user=yes\n");
    repo.git(&["config", "core.attributesFile", "users"]);
    std::fs::create_dir_all(repo.join(".git/info")).expect("made");
    repo.write(".git/info/attributes", "*.i info -text\n[attr]late alpha beta=2\n");
    repo.write(
        ".gitattributes",
        "[attr]mine one=1 -two !three\n*.m mine\n*.b binary\n* text=auto crlf\n\"q t\" quoted\ndir/ isdir\nlate.x late\n\
         *.bad a@b\n!neg x\n[attr]a@b c\nx.v value=with=equals\ndir/**/*.d inner=1\n",
    );
    repo.write(
        "sub/.gitattributes",
        "[attr]notallowed x\n*.m -mine local\n*.u !zeta\nf.x -user two three=3\n",
    );
    repo.write("sub/f.x", "1\n");
    repo.commit("first");
    repo.write("sub/.gitattributes", "*.m changed\n");
    repo.write("deep/er/.gitattributes", "*.m deeper\n");
}

const PATHS: &[&str] = &[
    "a.m",
    "sub/a.m",
    "sub/a.u",
    "a.u",
    "a.i",
    "a.b",
    "q t",
    "dir",
    "dir/",
    "dir/x/y.d",
    "late.x",
    "x.v",
    "deep/er/a.m",
    "sub/f.x",
    "t\u{e9}.m",
    ".",
    "sub/../a.m",
    "missing/a.m",
];

#[test]
fn lists_values_in_gits_order() {
    let oracle = Oracle::new(SAPWOOD, attributes);
    for options in [
        &["-a", "--"][..],
        &["--cached", "-a", "--"],
        &["-z", "-a", "--"],
        &["mine", "--"],
        &["one", "two", "three", "text", "binary", "nothing", "--"],
        &["-z", "--cached", "user", "zeta", "--"],
    ] {
        oracle.same(&[&["check-attr"], options, PATHS].concat());
        oracle.same_in("sub", &[&["check-attr"], options, &["a.m", "../a.m", "f.x"]].concat());
    }
    for path in PATHS {
        oracle.same(&["check-attr", "-a", path]);
        oracle.same(&["check-attr", "text", path]);
    }
    for args in [&["--", "a"][..], &["a@b", "a.m"], &["-a", "../x"], &["text", "a.m", "../x"]] {
        let (theirs, ours) = (oracle.git(), oracle.ours());
        let args = [&["check-attr"], args].concat();
        let (theirs, ours) = (theirs.try_git(&args), ours.run(SAPWOOD.as_ref(), &args));
        assert_eq!((theirs.code, theirs.stdout), (ours.code, ours.stdout), "{args:?}");
    }
}

#[test]
fn reads_paths_from_standard_input() {
    let oracle = Oracle::new(SAPWOOD, attributes);
    let plain = "a.m\nsub/a.m\n\"q\\040t\"\nsub/f.x\na.u\n";
    for (input, args) in [
        (plain, &["--stdin", "-a"][..]),
        (plain, &["--stdin", "one", "user"]),
        (plain, &["--stdin", "--", "one", "user"]),
        ("a.m\0sub/f.x\0", &["--stdin", "-z", "-a"]),
        ("a.m\n../x\nsub/f.x\n", &["--stdin", "-a"]),
        ("a.m\n\"x", &["--stdin", "-a"]),
    ] {
        let args = [&["check-attr"], args].concat();
        let shim = Shim::new();
        let theirs = fed(&oracle.git(), "git", &args, input);
        let ours = fed(&oracle.ours(), &shim.program(), &args, input);
        assert_eq!(theirs, ours, "{args:?} {input:?}");
    }
}

#[test]
fn prints_each_result_before_reading_the_next_path() {
    let oracle = Oracle::new(SAPWOOD, attributes);
    let shim = Shim::new();
    let turns = [("a.m", "a.m: one: 1"), ("sub/f.x", "sub/f.x: one: unspecified"), ("b.m", "b.m: one: 1")];
    let args = ["check-attr", "--stdin", "one"];
    in_turns(oracle.ours().command(SAPWOOD.as_ref()).args(args), &turns);
    in_turns(shim.command(&oracle.ours()).args(args), &turns);
    shim.was_native(&args);
}

/// Attributes belong to the path as given, even if a directory of it is a symbolic link.
#[test]
fn ignores_attribute_files_behind_a_link() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        attributes(repo);
        repo.write("sub/deep/.gitattributes", "*.m linked\n");
        repo.symlink("sub/deep", "link");
        repo.symlink("nowhere", "dangling");
        repo.symlink("loop", "loop");
    });
    for path in ["link/a.m", "link", "dangling/a.m", "loop/a.m", "link/../a.m"] {
        oracle.same(&["check-attr", "-a", "--", path]);
        oracle.same(&["check-attr", "--cached", "-a", "--", path]);
    }
}

#[test]
fn fails_when_the_index_is_truncated_between_two_paths() {
    let oracle = Oracle::new(SAPWOOD, attributes);
    let args = ["check-attr", "--stdin", "--cached", "builtin_objectmode"];
    without_its_index(&oracle.ours(), &args, ["a.m", "sub/f.x"]);
}

#[test]
fn hands_over_a_wrong_number_of_arguments() {
    let oracle = Oracle::new(SAPWOOD, attributes);
    let shim = Shim::new();
    let args = &["check-attr"][..];
    let (theirs, ours) = (oracle.git().try_git(args), shim.run(&oracle.git(), args));
    assert_eq!(theirs, ours, "{args:?}");
    shim.was_handed_over(args, "number of arguments");
}

/// A tree named by option, setting or global option replaces the worktree's files.
#[test]
fn reads_attributes_from_a_tree() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        attributes(repo);
        repo.git(&["branch", "old"]);
        repo.write("sub/.gitattributes", "*.m newer\n");
        repo.commit("second");
        repo.remove(".gitattributes");
        repo.git(&["tag", "blob", "HEAD:sub/f.x"]);
    });
    for tree in ["HEAD", "old", "HEAD~", "HEAD^{tree}", "old:sub", "blob", "nothing", ""] {
        let source = format!("--source={tree}");
        oracle.same(&[&["check-attr", &source, "-a", "--"], PATHS].concat());
        oracle.same_in("sub", &["check-attr", "--cached", &source, "-a", "--", "a.m", "../a.m"]);
        let setting = format!("attr.tree={tree}");
        oracle.same(&[&["-c", &setting, "check-attr", "-a", "--"], PATHS].concat());
        let global = format!("--attr-source={tree}");
        oracle.same(&[&global, "-c", "attr.tree=old", "check-attr", "-a", "sub/a.m"]);
        oracle.same(&[&global, "check-attr", "--source=HEAD", "-a", "sub/a.m"]);
    }
    oracle.same(&["check-attr", "--source=HEAD", "--no-source", "-a", "sub/a.m"]);
}

#[test]
fn reports_builtin_objectmode() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        attributes(repo);
        repo.write_executable("run", "x");
        repo.symlink("run", "link");
        repo.git(&["init", "-q", "nested"]);
        repo.git(&["init", "-q", "empty"]);
        repo.git(&["-C", "nested", "commit", "-q", "--allow-empty", "-m", "one"]);
        repo.git(&["add", "run"]);
    });
    let names = ["sub/f.x", "run", "link", "sub", "sub/", "nested", "nested/", "empty", "missing", "run"];
    for options in [&["check-attr"][..], &["check-attr", "--cached"], &["check-attr", "--source=HEAD"]] {
        oracle.same(&[options, &["builtin_objectmode", "text", "--"], &names].concat());
        oracle.same(&[options, &["-a", "run"]].concat());
        oracle.same(&[options, &["builtin_objectmode", "."]].concat());
    }
}

#[test]
fn reads_attributes_in_a_bare_repository() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        attributes(repo);
        repo.git(&["init", "-q", "--bare", "-b", "main", "bare.git"]);
        repo.git(&["push", "-q", "bare.git", "HEAD:refs/heads/main"]);
        repo.write("bare.git/info/attributes", "*.i inside\n");
    });
    for options in [
        &["check-attr", "-a"][..],
        &["check-attr", "--cached", "-a"],
        &["check-attr", "--source=HEAD", "-a"],
        &["-c", "attr.tree=HEAD", "check-attr", "-a"],
        &["check-attr", "builtin_objectmode"],
    ] {
        for path in ["a.m", "sub/a.m", "a.i", "HEAD", "/absolute"] {
            oracle.same_in("bare.git", &[options, &["--", path]].concat());
        }
    }
    let shim = Shim::new();
    let bare = oracle.ours();
    let run = shim.run(&bare, &["-C", "bare.git", "check-attr", "--source=HEAD", "-a", "sub/a.m"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    shim.was_native(&["check-attr"]);
}
