//! `check-attr`: values from everywhere, the order of all of them, and what is said of bad lines.

use testkit::{Oracle, Repo};

use crate::{
    SAPWOOD,
    check_ignore::{fed, in_turns},
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
fn values_and_their_order() {
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
fn names_on_standard_input() {
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
fn a_co_process() {
    let oracle = Oracle::new(SAPWOOD, attributes);
    let shim = Shim::new();
    let turns = [("a.m", "a.m: one: 1"), ("sub/f.x", "sub/f.x: one: unspecified"), ("b.m", "b.m: one: 1")];
    let args = ["check-attr", "--stdin", "one"];
    in_turns(oracle.ours().command(SAPWOOD.as_ref()).args(args), &turns);
    in_turns(shim.command(&oracle.ours()).args(args), &turns);
    shim.was_native(&args);
}

#[test]
fn what_is_handed_over() {
    let oracle = Oracle::new(SAPWOOD, attributes);
    let shim = Shim::new();
    for (args, why) in [
        (&["check-attr"][..], "number of arguments"),
        (&["check-attr", "--source", "HEAD", "-a", "a.m"], "--source"),
        (&["check-attr", "builtin_objectmode", "users"], "built in"),
    ] {
        let (theirs, ours) = (oracle.git().try_git(args), shim.run(&oracle.git(), args));
        assert_eq!(theirs, ours, "{args:?}");
        shim.was_handed_over(args, why);
    }
}
