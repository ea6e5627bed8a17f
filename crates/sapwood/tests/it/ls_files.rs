//! Paths of the index and the worktree, compared with `git ls-files`.

use std::ops::ControlFlow;

use sapwood::{
    Silent,
    bstr::BString,
    index::{Flags, Stage},
    ls_files::{self, Kind, LineEnds, Listed, Lists, Options, Report, Request, Rule, State},
};
use testkit::{Repo, Sandbox};

use crate::{Heard, open, pathspecs};

/// Entries of every kind, and files beside them.
fn mess(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.init("repo");
    for path in ["a", "gone", "dir/b", "dir/gone", "replaced", "skipped", "tracked.o", "both", "solved"] {
        repo.write(path, "1\n");
    }
    repo.commit("first");
    repo.git(&["switch", "-q", "-c", "topic"]);
    ["both", "solved"].iter().for_each(|path| repo.write(path, "2\n"));
    repo.commit("second");
    repo.git(&["switch", "-q", "main"]);
    ["both", "solved"].iter().for_each(|path| repo.write(path, "3\n"));
    repo.commit("third");
    repo.try_git(&["merge", "-q", "topic"]);
    repo.write("solved", "4\n");
    repo.git(&["add", "solved"]);
    repo.git(&["update-index", "--skip-worktree", "skipped"]);
    ["gone", "dir/gone", "replaced", "skipped"].iter().for_each(|path| repo.remove(path));
    repo.write("a", "longer\r\n");
    for path in ["replaced/new", "new", "x.o", "dir/y.o", "untracked/one", "untracked/two.o"] {
        repo.write(path, "1\n");
    }
    repo.write(".gitignore", "*.o\n");
    repo
}

/// Returns the line of `ls-files -t -z`; that of a stage is complete.
fn line(listed: &Listed<'_>) -> String {
    let path = listed.path;
    match listed.kind {
        Kind::Entry(found) => {
            let tag = match (found.state, found.entry.stage) {
                (State::Deleted, _) => "R",
                (State::Modified, _) => "C",
                (State::Cached, Stage::Normal) if found.entry.flags.contains(Flags::SKIP_WORKTREE) => "S",
                (State::Cached, Stage::Normal) => "H",
                (State::Cached, _) => "M",
            };
            format!("{tag} {path}\0")
        }
        Kind::Other => format!("? {path}\0"),
        Kind::Killed => format!("K {path}\0"),
        Kind::Resolved { stage, mode, oid } => {
            format!("U {:06o} {oid} {}\t{path}\0", mode.bits(), stage as u8)
        }
        Kind::Unreadable(error) => panic!("{path}: {error}"),
    }
}

/// Returns all lines, and the report.
fn lines(repo: &Repo<'_>, request: Request) -> (String, Report) {
    let repository = open(repo);
    let mut lines = String::new();
    let plan = ls_files::plan(&repository, request).expect("a plan");
    let report = plan.run(&Silent, &mut |listed| {
        lines.push_str(&line(&listed));
        ControlFlow::Continue(())
    });
    (lines, report.expect("a list"))
}

fn only(lists: Lists) -> Options {
    Options { lists, ..Options::default() }
}

#[test]
fn lists_what_git_lists() {
    let all = Lists {
        cached: true,
        deleted: true,
        modified: true,
        others: true,
        killed: true,
        resolved: true,
        unmerged: false,
    };
    let others = || only(Lists { others: true, ..Lists::NONE });
    let cases: Vec<(&[&str], Options)> = vec![
        (&[], Options::default()),
        (&["-c", "-d", "-m", "-o", "-k", "--resolve-undo"], only(all)),
        (&["-d", "-m"], only(Lists { deleted: true, modified: true, ..Lists::NONE })),
        (&["-o", "--exclude-standard"], Options { rules: vec![Rule::Standard], ..others() }),
        (&["-o", "-i", "-X", ".gitignore", "-x", "new"], {
            let rules = vec![Rule::File(".gitignore".into())];
            Options { ignored: true, rules, patterns: vec!["new".into()], ..others() }
        }),
        (&["-o", "--directory"], Options { directories: true, ..others() }),
        (&["-c", "-i", "--exclude-per-directory=.gitignore"], {
            let rules = vec![Rule::PerDirectory(Some(".gitignore".into()))];
            Options { ignored: true, rules, ..Options::default() }
        }),
        (&["--with-tree=topic~"], Options { with_tree: Some("topic~".into()), ..Options::default() }),
    ];
    let sandbox = Sandbox::new();
    let repo = mess(&sandbox);
    repo.git(&["rm", "-q", "--cached", "dir/b"]);
    for (args, options) in cases {
        for specs in [&[][..], &["dir", "*o*", ":!x.o"]] {
            let theirs = repo.git(&[&["ls-files", "-t", "-z"], args, &["--"], specs].concat());
            let request = Request { pathspecs: pathspecs(specs), options: options.clone() };
            assert_eq!(lines(&repo, request).0, theirs.stdout.to_string(), "{args:?} {specs:?}");
        }
    }
    let unmerged = only(Lists { unmerged: true, ..Lists::NONE });
    let theirs = repo.git(&["ls-files", "-u", "--format=%(path)"]).stdout.to_string();
    let ours = lines(&repo, Request { options: unmerged, ..Request::default() }).0;
    assert_eq!(ours.replace("M ", "").replace('\0', "\n"), theirs);
    let once = Options { deduplicate: true, ..only(Lists { deleted: true, modified: true, ..Lists::NONE }) };
    let theirs = repo.git(&["ls-files", "-d", "-m", "--deduplicate"]).stdout.to_string();
    let ours = lines(&repo, Request { options: once, ..Request::default() }).0;
    let paths: String = ours.split_terminator('\0').map(|line| format!("{}\n", &line[2..])).collect();
    assert_eq!(paths, theirs);
}

#[test]
fn pathspecs_that_match_nothing_and_a_list_that_ends_early() {
    let sandbox = Sandbox::new();
    let repo = mess(&sandbox);
    let options = Options { finds_unmatched: true, ..Options::default() };
    let request = || Request { pathspecs: pathspecs(&["a", "new", "dir"]), options: options.clone() };
    let (found, report) = lines(&repo, request());
    assert_eq!(found, "H a\0H dir/b\0H dir/gone\0");
    assert_eq!(report.unmatched, [BString::from("new")]);
    let repository = open(&repo);
    let mut count = 0;
    let plan = ls_files::plan(&repository, request()).expect("a plan");
    let report = plan.run(&Silent, &mut |_| {
        count += 1;
        if count == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert_eq!((count, report.expect("a list")), (2, Report::default()));
    let refused = |options: Options| {
        let planned = ls_files::plan(&repository, Request { options, ..Request::default() });
        planned.err().expect("an error").to_string()
    };
    let recurse = || Options { recurse: true, ..Options::default() };
    let lists = Lists { others: true, ..Lists::default() };
    assert_eq!(refused(Options { lists, ..recurse() }), "ls-files --recurse-submodules unsupported mode");
    let none = Options { with_tree: Some("none".into()), ..Options::default() };
    assert_eq!(refused(none), "tree-ish none not found.");
}

#[test]
fn line_endings_and_entries_of_submodules() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    for (path, content) in [("sub/in", "1\r\n"), ("sub/deep/in", "1\n")] {
        repo.write(path, content);
    }
    repo.git(&["init", "-q", "-b", "main", "sub"]);
    repo.git(&["-C", "sub", "add", "."]);
    repo.git(&["-C", "sub", "commit", "-q", "-m", "one"]);
    repo.git(&["submodule", "--quiet", "add", "./sub", "sub"]);
    repo.git(&["config", "submodule.sub.url", "./elsewhere"]);
    repo.write(".gitattributes", "a text\n");
    repo.write("a", "1\r\n");
    repo.commit("first");
    let repository = open(&repo);
    let options = Options { recurse: true, ..Options::default() };
    let plan = ls_files::plan(&repository, Request { options, ..Request::default() }).expect("a plan");
    let mut found = String::new();
    plan.run(&Silent, &mut |listed| {
        if let Kind::Entry(entry) = listed.kind {
            let mut line_ends = LineEnds::of(entry.repo);
            let in_index = line_ends.in_index(entry.index, entry.entry);
            // The attributes of the worktree are not those of the submodule.
            let attributes = if listed.path.starts_with(b"sub/") {
                ""
            } else {
                line_ends.attributes(listed.top, listed.path).expect("attributes")
            };
            found.push_str(&format!("{} {in_index} {attributes}\n", listed.path));
        }
        ControlFlow::Continue(())
    })
    .expect("a list");
    let theirs = repo.git(&["ls-files", "--recurse-submodules"]).stdout.to_string();
    let paths: Vec<&str> = found.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(paths, theirs.lines().collect::<Vec<_>>());
    assert!(found.contains("a lf text\n") && found.contains("sub/in crlf \n"), "{found}");
}

/// Git says on standard error that it expands the index.
#[test]
fn a_sparse_index_is_expanded_where_git_expands_it() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    ["in/a", "out/b", "top"].iter().for_each(|path| repo.write(path, "1\n"));
    repo.commit("first");
    repo.git(&["sparse-checkout", "set", "--cone", "--sparse-index", "in"]);
    let repository = open(&repo);
    for (collapsed, args) in [(true, &["--sparse"][..]), (false, &[])] {
        let theirs = repo.git(&[&["ls-files", "-t", "-z"], args].concat());
        let options = Options { collapsed, ..Options::default() };
        let plan = ls_files::plan(&repository, Request { options, ..Request::default() }).expect("a plan");
        let (heard, mut found) = (Heard::default(), String::new());
        let run = plan.run(&heard, &mut |listed| {
            found.push_str(&line(&listed));
            ControlFlow::Continue(())
        });
        run.expect("a list");
        assert_eq!(found, theirs.stdout.to_string());
        assert_eq!(heard.0.into_inner().is_empty(), theirs.stderr.is_empty(), "{}", theirs.stderr);
        assert_eq!(collapsed, theirs.stderr.is_empty());
    }
}
