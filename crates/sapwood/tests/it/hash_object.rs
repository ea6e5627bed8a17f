//! The names of contents, compared with `git hash-object`.

use sapwood::{
    Silent,
    hash_object::{self, Content, Kind, Request, Source},
};
use testkit::{Repo, Sandbox};

use crate::open;

fn source(repo: &Repo<'_>, file: &str) -> Source {
    Source { content: Content::File(repo.join(file)), path: Some(file.into()) }
}

fn name(repo: &Repo<'_>, args: &[&str]) -> String {
    repo.git(&[&["hash-object"], args].concat()).stdout.to_string().trim_end().to_owned()
}

#[test]
fn names_and_writes_what_git_does() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.write(".gitattributes", "*.crlf text eol=crlf\n*.void filter=void\n");
    repo.git(&["config", "filter.void.clean", "true"]);
    let large = "x".repeat(3 << 20);
    let files = [("plain", "1\r\n"), ("a.crlf", "1\r\n"), ("a.void", "content\n"), ("large", large.as_str())];
    files.iter().for_each(|(file, content)| repo.write(file, content));
    let repository = open(&repo);
    let theirs: Vec<String> = files.iter().map(|(file, _)| name(&repo, &[file])).collect();
    for write in [false, true] {
        let sources = files.iter().map(|(file, _)| source(&repo, file)).collect();
        let plan = hash_object::plan(&repository, Request { sources, write, ..Request::default() });
        let report = plan.expect("a plan").run(&Silent).expect("names");
        let ours: Vec<String> = report.names.iter().map(ToString::to_string).collect();
        assert_eq!(ours, theirs);
        let is_there = |name: &String| repo.git_command().args(["cat-file", "-e", name]).status();
        assert!(ours.iter().all(|name| is_there(name).expect("git runs").success() == write));
    }
}

#[test]
fn bytes_of_any_kind_and_files_that_cannot_be_read() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    let repository = open(&repo);
    let run = |request: Request| hash_object::plan(&repository, request).expect("a plan").run(&Silent);
    let sources = vec![Source { content: Content::Bytes(b"any\n".to_vec()), path: None }];
    let report = run(Request { sources, kind: Kind::Tree, write: false }).expect("names");
    repo.write("any", "any\n");
    assert_eq!(report.names[0].to_string(), name(&repo, &["-t", "tree", "--literally", "any"]));
    let sources = vec![source(&repo, "any"), source(&repo, "missing")];
    let failed = run(Request { sources, write: true, ..Request::default() }).expect_err("an error");
    assert!(failed.to_string().starts_with("could not open '"), "{failed}");
    assert_eq!(repo.git(&["count-objects"]).stdout, "0 objects, 0 kilobytes\n");
}
