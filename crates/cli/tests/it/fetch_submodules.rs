//! `fetch` in submodules, compared with Git.

use testkit::{Oracle, Repo};

use crate::SAPWOOD;

/// Creates a server with two submodules, one of which has a submodule itself; clones it; and adds
/// commits on the servers. Only those of `inner` and `one` are recorded by a superproject.
const HISTORY: &str = "
git() { command git -c protocol.file.allow=always \"$@\"; }
for name in inner one two; do
    git init -q --initial-branch=main ../$name
    git -C ../$name commit -q --allow-empty -m 1
done
(cd ../one; git submodule -q add ../inner within; git commit -qm 2)
git init -q --initial-branch=main ../server
(cd ../server; git submodule -q add ../one; git submodule -q add ../two; git commit -qm 1)
git remote add origin ../server
git fetch -q
git switch -q -c main --track origin/main
git submodule -q update --init --recursive
for name in inner two; do git -C ../$name commit -q --allow-empty -m 3; done
(cd ../one/within; git pull -q; cd ..; git commit -qam 3)
(cd ../server/one; git pull -q; cd ..; git commit -qam 2)
";

fn oracle(script: &str) -> Oracle {
    Oracle::new(SAPWOOD, |repo| {
        let script = [HISTORY, script].concat();
        let made = repo.command("sh".as_ref()).args(["-ec", &script]).output().expect("a shell");
        assert!(made.status.success(), "{script}: {}", String::from_utf8_lossy(&made.stderr));
    })
}

#[track_caller]
fn same(script: &str, args: &[&str]) {
    let oracle = oracle(script);
    oracle.same_as(script, args);
    for dir in ["one", "one/within", "two"] {
        let refs = |repo: Repo<'_>| repo.try_git(&["-C", dir, "for-each-ref"]).stdout;
        assert_eq!(refs(oracle.git()), refs(oracle.ours()), "{script} {args:?}: {dir}");
    }
}

#[test]
fn recurses_as_the_options_say() {
    for args in [
        &["fetch"][..],
        &["fetch", "-q"],
        &["fetch", "--recurse-submodules"],
        &["fetch", "--recurse-submodules", "-j4", "--prune"],
        &["fetch", "--recurse-submodules=on-demand", "origin"],
        &["fetch", "--no-recurse-submodules"],
        &["fetch", "--recurse-submodules=what"],
        &["-c", "fetch.recurseSubmodules=true", "fetch"],
        &["-c", "fetch.recurseSubmodules=false", "fetch"],
        &["-c", "submodule.one.fetchRecurseSubmodules=false", "fetch"],
        &["-c", "submodule.two.fetchRecurseSubmodules=true", "-c", "submodule.fetchJobs=2", "fetch"],
        &["fetch", "--recurse-submodules", "--dry-run"],
    ] {
        same("", args);
    }
}

#[test]
fn pull_and_clone_recurse_into_submodules() {
    same("", &["pull", "-q", "--recurse-submodules"]);
    same("", &["-c", "submodule.recurse=true", "pull"]);
    for option in ["--jobs=2", "--recurse-submodules=two", "--shallow-submodules", "--remote-submodules"] {
        let oracle = oracle("");
        let lead = ["-c", "protocol.file.allow=always", "clone", "-q", "--recurse-submodules"];
        oracle.same_as(option, &[&lead[..], &[option, "../server", "copy"]].concat());
        for dir in ["copy", "copy/one", "copy/one/within", "copy/two"] {
            let state = |repo: Repo<'_>| {
                let file = |name: &str| std::fs::read_to_string(repo.join(dir).join(name)).ok();
                let text = |name: &str| Some(file(name)?.replace(&repo.path.display().to_string(), ""));
                (repo.try_git(&["-C", dir, "for-each-ref"]).stdout, text(".git/config"), text(".git"))
            };
            assert_eq!(state(oracle.git()), state(oracle.ours()), "{option}: {dir}");
        }
    }
}

#[test]
fn finds_repositories_and_reports_failures() {
    let fetch = &["fetch", "--recurse-submodules"];
    same("rm -rf one/* one/.git", fetch);
    same("rm -rf one/.git; touch one/file; rm -rf .git/modules/one", fetch);
    same("git -C two remote set-url origin ../nowhere", fetch);
    same("git rm -qf --cached one two", &["fetch"]);
    // The commit is on no branch of the server.
    same(
        "(cd ../one; git commit -q --allow-empty -m lone; git config uploadpack.allowAnySHA1InWant true)
        (cd ../server/one; git pull -q; cd ..; git commit -qam 3; cd ../one; git reset -q --hard HEAD~1)",
        &["fetch"],
    );
}
