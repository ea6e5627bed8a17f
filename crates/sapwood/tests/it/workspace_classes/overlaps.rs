//! Conflicts between workspaces: the conflicts that Git finds when both are committed, whether they
//! are committed or not.

use std::collections::BTreeSet;

use sapwood::workspace::conflicts;
use testkit::{NoMountsBelow, Repo, Sandbox};

use super::{WithGit, committed, create, script};
use crate::open;

/// Two changes, and the paths that both touch.
struct Case {
    name: &'static str,
    one: &'static str,
    two: &'static str,
    paths: &'static [&'static str],
}

const fn case(
    name: &'static str,
    one: &'static str,
    two: &'static str,
    paths: &'static [&'static str],
) -> Case {
    Case { name, one, two, paths }
}

const CASES: [Case; 21] = [
    case("other files", "echo 1 >>a", "echo 2 >>dir/b", &[]),
    case("one line", "echo 1 >>a", "echo 2 >>a", &["a"]),
    case("lines that are apart", "sed -i 1s/^/x/ long", "sed -i 9s/^/x/ long", &["long"]),
    case("equal changes", "echo 1 >>a", "echo 1 >>a", &["a"]),
    case(
        "equal changes, and others",
        "echo 1 >>a; echo 1 >>long",
        "echo 1 >>a; echo 2 >>long",
        &["a", "long"],
    ),
    case("two new files", "echo 1 >new", "echo 2 >new", &["new"]),
    case("a new file in two modes", "echo 1 >new", "echo 1 >new; chmod +x new", &["new"]),
    case("a deletion and a change", "rm long", "echo x >>long", &["long"]),
    case("two deletions", "rm long", "rm long", &["long"]),
    case("a mode and a change", "chmod +x long", "echo x >>long", &["long"]),
    case("a mode and a deletion", "chmod +x long", "rm long", &["long"]),
    case("equal modes", "chmod +x long", "chmod +x long", &["long"]),
    case("a link in place of a file", "rm long; ln -s a long", "echo x >>long", &["long"]),
    case("a name and a change", "mv long other", "echo x >>long", &["long"]),
    case(
        "a name and the line that it has",
        "sed -i 1s/^/x/ long; mv long other",
        "sed -i 1s/^/y/ long",
        &["long"],
    ),
    case("two names of a file", "mv long one", "mv long two", &["long"]),
    case("one name of two files", "mv long new", "mv dir/b new", &["new"]),
    case("a renamed directory and a file in it", "mv many new", "echo x >many/own", &[]),
    case("a file in place of a directory", "rm -r many; echo x >many", "echo x >>many/1", &["many/1"]),
    case("a directory in place of a file", "rm a; mkdir a; echo x >a/x", "echo 2 >>a", &["a", "a/x"]),
    case("a new directory and a new file", "mkdir new; echo 1 >new/file", "echo 2 >new", &["new/file"]),
];

/// Submodules at commits: `link COMMIT PATH`.
const SUBMODULES: [Case; 5] = [
    case("two commits", "link HEAD~1 sub", "link HEAD~2 sub", &["sub"]),
    case("one commit", "link HEAD~1 sub", "link HEAD~1 sub", &["sub"]),
    case("other paths", "link HEAD~1 sub", "link HEAD~1 other", &[]),
    case("a submodule and a file", "link HEAD~1 sub", "echo x >sub", &["sub"]),
    case("a submodule in place of a file", "link HEAD~1 long", "echo x >>long", &["long"]),
];

const LINK: &str = "
    link() {
        rm -rf $2; mkdir $2
        git update-index --add --cacheinfo 160000,$(git rev-parse $1),$2
    }
";

fn found(repo: &Repo<'_>) -> conflicts::Report {
    let repository = open(repo);
    let plan = conflicts::plan(&repository, conflicts::Request::default()).expect("a plan");
    plan.run(&WithGit(repo)).expect("a report")
}

/// Returns the paths that Git cannot merge, without the name of a side that Git appends to a file
/// in the way of a directory.
fn of_git(repo: &Repo<'_>) -> BTreeSet<String> {
    let args = ["merge-tree", "--write-tree", "--name-only", "--no-messages", "one", "two"];
    let lines = repo.try_git(&args).stdout.to_string();
    let own = |path: &str| path.split('~').next().unwrap_or(path).to_owned();
    lines.lines().skip(1).map(own).collect()
}

/// Two workspaces at the same commit.
fn pair(sandbox: &Sandbox) -> (Repo<'_>, [Repo<'_>; 2]) {
    let repo = committed(sandbox);
    repo.write("long", (1..10).map(|line| format!("{line}\n")).collect::<String>());
    repo.commit("long");
    for number in 1..6 {
        repo.write(format!("many/{number}"), format!("file {number}\nof many\n"));
    }
    repo.commit("many");
    let workspaces = ["one", "two"].map(|name| create(sandbox, &repo, name));
    (repo, workspaces)
}

/// Returns the paths that both touch, and those with conflicts; `None` if they are no pair.
fn shown(report: &conflicts::Report) -> Option<(Vec<String>, BTreeSet<String>)> {
    let [pair] = &report.pairs[..] else {
        assert!(report.pairs.is_empty(), "{report:?}");
        return None;
    };
    let texts = |paths: &[sapwood::bstr::BString]| paths.iter().map(ToString::to_string).collect::<Vec<_>>();
    Some((texts(&pair.paths), texts(&pair.conflicts).into_iter().collect()))
}

#[test]
fn conflicts_are_those_of_git() {
    let mut wrong = Vec::new();
    for case in &CASES {
        let sandbox = Sandbox::new();
        let _mounts = NoMountsBelow::new(&sandbox.path());
        let (repo, [one, two]) = pair(&sandbox);
        script(&one, case.one);
        script(&two, case.two);
        let mut reports = vec![("uncommitted", found(&repo))];
        one.commit("one");
        reports.push(("half committed", found(&repo)));
        two.commit("two");
        reports.push(("committed", found(&repo)));
        let (conflicts, paths) =
            (of_git(&repo), case.paths.iter().map(ToString::to_string).collect::<Vec<_>>());
        let expected = (!(conflicts.is_empty() && paths.is_empty())).then_some((paths, conflicts));
        for (when, report) in reports {
            if shown(&report) != expected || !report.skipped.is_empty() {
                wrong.push(format!("{}, {when}: {report:?}, not {expected:?}", case.name));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn submodules_are_compared_by_their_commits() {
    for case in &SUBMODULES {
        let sandbox = Sandbox::new();
        let _mounts = NoMountsBelow::new(&sandbox.path());
        let (repo, [one, two]) = pair(&sandbox);
        for (workspace, make) in [(&one, case.one), (&two, case.two)] {
            script(workspace, &[LINK, make, "; git add .; git commit -qm $(basename $PWD)"].concat());
        }
        let report = found(&repo);
        let (conflicts, paths) =
            (of_git(&repo), case.paths.iter().map(ToString::to_string).collect::<Vec<_>>());
        let expected = (!paths.is_empty()).then_some((paths, conflicts));
        assert_eq!(shown(&report), expected, "{}: {report:?}", case.name);
        assert!(report.skipped.is_empty(), "{}: {report:?}", case.name);
    }
}
