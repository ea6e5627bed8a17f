//! `core.ignoreStat`: the entries of files that a command writes are marked as assumed unchanged,
//! as by Git.

use testkit::{Repo, Sandbox};

use crate::SAPWOOD;

fn make<'s>(sandbox: &'s Sandbox, name: &str) -> Repo<'s> {
    let repo = sandbox.init(name);
    for number in 0..5 {
        repo.write(format!("f{number}"), "1\n");
    }
    repo.symlink("f0", "link");
    repo.commit("one");
    repo.git(&["branch", "side"]);
    repo.write("f0", "22\n");
    repo.commit("two");
    repo.git(&["config", "core.ignoreStat", "true"]);
    repo.write("f0", "333\n");
    repo.write("f1", "333\n");
    repo.remove("f2");
    repo
}

#[test]
fn marks_what_it_writes() {
    let scripts = [
        "$P checkout -q -- f0 f2",
        "$P restore f1 f2",
        "$P restore --source=side f0",
        "$P checkout-index -q -f -u -a",
        "$P checkout-index -q -f f0",
        "$P reset -q --hard",
        "$P checkout -q -f side",
        "$P switch -q --discard-changes side",
        "$P stash -q",
        "$P read-tree -u --reset side",
        "$P worktree add -q wt side; cd wt",
        "$P clone -q -c core.ignoreStat=true . new; cd new",
        "$P clone -q --no-local -c core.ignoreStat=true . new; cd new",
    ];
    let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "git".to_owned());
    let mut failed = Vec::new();
    for script in scripts {
        let lists = [git.as_str(), SAPWOOD].map(|program| {
            let sandbox = Sandbox::new();
            let repo = make(&sandbox, "repo");
            let script = format!("{script}; $G ls-files -v");
            let mut shell = repo.command("sh".as_ref());
            shell.args(["-ec", &script]).env("P", program).env("G", &git);
            let output = shell.output().expect("a shell");
            assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8_lossy(&output.stdout).into_owned()
        });
        if lists[0] != lists[1] {
            failed.push(format!("{script}\n  git\n{}  sapwood\n{}", lists[0], lists[1]));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
