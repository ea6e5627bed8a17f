//! A split index is kept, created or joined as in Git. The time at which a new shared index is
//! written is not compared, because the two programs count the entries of the old one differently.

use testkit::{Oracle, Repo};

use crate::SAPWOOD;

fn history(repo: &Repo<'_>) {
    for at in 0..30 {
        repo.write(format!("dir{}/file{at}", at % 3), "1\n");
    }
    repo.commit("first");
    repo.git(&["branch", "topic"]);
    for at in 0..9 {
        repo.write(format!("dir{}/file{at}", at % 3), "2\n");
    }
    repo.write("new", "1\n");
    repo.commit("second");
}

#[test]
fn kept_made_and_given_up() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        history(repo);
        repo.git(&["update-index", "--split-index"]);
    });
    for args in [
        &["switch", "topic"][..],
        &["switch", "main"],
        &["reset", "--hard", "topic"],
        &["checkout", "main", "--", "dir1"],
        &["-c", "core.splitIndex=false", "reset", "-q"],
        &["-c", "core.splitIndex=true", "reset", "--hard", "main"],
        &["-c", "core.splitIndex=true", "-c", "splitIndex.maxPercentChange=100", "switch", "topic"],
        &["reset", "-q", "main"],
    ] {
        let (git, ours) = (oracle.git(), oracle.ours());
        assert_eq!(ours.run(SAPWOOD.as_ref(), args), git.try_git(args), "{args:?}");
        let seen = |repo: &Repo<'_>| {
            let shared = repo.git(&["rev-parse", "--shared-index-path"]).stdout;
            let index = repo.git(&["ls-files", "--stage", "-t", "-v"]).stdout;
            (!shared.is_empty(), index, repo.git(&["status", "--porcelain"]).stdout)
        };
        assert_eq!(seen(&ours), seen(&git), "{args:?}");
    }
}
