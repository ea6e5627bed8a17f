//! Attributes of paths, compared with `git check-attr`.

use sapwood::{
    PlanError, Silent,
    bstr::BString,
    check_attr::{self, Request, State},
};
use testkit::{Repo, Sandbox};

use crate::open;

fn attributes(repo: &Repo<'_>) {
    repo.write("users", "*.u user\n");
    repo.git(&["config", "core.attributesFile", "users"]);
    repo.write(".git/info/attributes", "*.i info -text\n");
    repo.write(".gitattributes", "[attr]mine one=1 -two !three\n*.m mine\n*.b binary\n* text=auto crlf\n");
    repo.write("dir/.gitattributes", "x !text inner=\"a\"\n");
    repo.write_executable("run", "1\n");
    repo.symlink("run", "link");
    repo.commit("one");
    repo.write(".gitattributes", "* later\n");
}

const PATHS: [&str; 8] = ["a.u", "a.i", "a.m", "dir/a.b", "dir/x", "dir", "run", "./dir/../link"];

fn names(words: &[&str]) -> Vec<BString> {
    words.iter().map(|word| BString::from(*word)).collect()
}

/// Returns the lines that `check-attr` prints.
fn lines(repo: &Repo<'_>, request: Request) -> String {
    let report = check_attr::plan(&open(repo), request).expect("a plan").run(&Silent).expect("answers");
    let mut lines = String::new();
    for answer in report.answers {
        for (name, state) in answer.attributes {
            let state = match state {
                State::Set => "set".into(),
                State::Unset => "unset".into(),
                State::Unspecified => "unspecified".into(),
                State::Text(text) => text,
            };
            lines += &format!("{}: {name}: {state}\n", answer.path);
        }
    }
    lines
}

#[test]
fn finds_the_attributes_that_git_finds() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    attributes(&repo);
    let paths = names(&PATHS);
    let some = ["text", "inner", "two", "builtin_objectmode"];
    for (options, cached, source) in [
        (&[][..], false, None),
        (&["--cached"][..], true, None),
        (&["--source=HEAD"][..], false, Some("HEAD")),
    ] {
        let source = source.map(BString::from);
        let all = Request { names: None, paths: paths.clone(), cached, source: source.clone() };
        let theirs = repo.git(&[&["check-attr", "-a"], options, &["--"], &PATHS].concat());
        assert_eq!(lines(&repo, all), theirs.stdout.to_string(), "{options:?}");
        // Git takes the mode from the files, which must exist.
        let paths = names(&PATHS[6..]);
        let few = Request { names: Some(names(&some)), paths, cached, source };
        let theirs = repo.git(&[&["check-attr"], options, &some, &["--"], &PATHS[6..]].concat());
        assert_eq!(lines(&repo, few), theirs.stdout.to_string(), "{options:?}");
    }
}

#[test]
fn refuses_what_git_refuses() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    attributes(&repo);
    let mode = Request { names: Some(names(&["builtin_objectmode"])), ..Request::default() };
    for (args, request) in [
        (&["a", "../x"][..], Request { names: Some(names(&["a"])), paths: names(&["../x"]), ..mode.clone() }),
        (&["builtin_objectmode", "nothing"][..], Request { paths: names(&["nothing"]), ..mode.clone() }),
        (&["--source=nothing", "a", "b"][..], Request { source: Some("nothing".into()), ..mode }),
    ] {
        let refused = match check_attr::plan(&open(&repo), request) {
            Err(PlanError::Failed(error)) => format!("fatal: {error}\n"),
            other => panic!("{args:?}: {:?}", other.map(drop)),
        };
        let theirs = repo.try_git(&[&["check-attr"], args].concat());
        assert_eq!((refused, 128), (theirs.stderr.to_string(), theirs.code), "{args:?}");
    }
}
