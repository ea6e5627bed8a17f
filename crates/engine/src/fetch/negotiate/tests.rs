//! The order of haves, on histories created by Git.

use repo::{OpenOptions, Repository};
use testkit::Sandbox;

use super::*;

/// Creates a linear history. Returns its commits, the oldest first.
fn line(sandbox: &Sandbox, count: usize) -> (Repository, Vec<ObjectId>) {
    let made = sandbox.init("line");
    let mut names = Vec::new();
    for number in 0..count {
        let mut commit = made.git_command();
        commit.env("GIT_COMMITTER_DATE", format!("{} +0000", 1_700_000_000 + number));
        commit.args(["commit", "-q", "--allow-empty", "-m", &number.to_string()]);
        assert!(commit.status().expect("git runs").success());
        let name = made.git(&["rev-parse", "HEAD"]).stdout;
        names.push(ObjectId::from_hex(format::HashKind::Sha1, name.trim_ascii_end()).expect("a name"));
    }
    let options = OpenOptions { cwd: made.path.clone(), ..OpenOptions::default() };
    (Repository::open(&options).expect("a repository"), names)
}

/// Returns the numbers of the commits sent as haves. The server acknowledges only the commit with
/// the number `acknowledged`.
fn offers(
    repo: &Repository,
    names: &[ObjectId],
    algorithm: Algorithm,
    theirs: &[ObjectId],
    acknowledged: Option<usize>,
) -> Vec<usize> {
    let objects = repo.stored_objects();
    let tips = Tips { theirs, ..Tips::default() };
    let mut negotiation = Negotiation::new(repo, &objects, algorithm, tips).expect("prepared");
    let mut numbers = Vec::new();
    while let Some(oid) = negotiation.next_have().expect("offered") {
        let number = names.iter().position(|name| *name == oid).expect("one of the line");
        if acknowledged == Some(number) {
            assert!(!negotiation.acknowledge(&oid).expect("it exists"));
            assert!(negotiation.is_settled().expect("an answer"));
        }
        numbers.push(number);
    }
    numbers
}

#[test]
fn offers_commits_in_gits_order() {
    let sandbox = Sandbox::new();
    let (repo, names) = line(&sandbox, 20);
    let all: Vec<usize> = (0..20).rev().collect();
    assert_eq!(offers(&repo, &names, Algorithm::Consecutive, &[], None), all);
    assert_eq!(offers(&repo, &names, Algorithm::Consecutive, &[], Some(15)), [19, 18, 17, 16, 15]);
    assert_eq!(offers(&repo, &names, Algorithm::Consecutive, &names[19..], None), [19]);
    // The gaps are 1, 2, 4, 7.
    assert_eq!(offers(&repo, &names, Algorithm::Skipping, &[], None), [19, 17, 14, 9, 1, 0]);
    assert_eq!(offers(&repo, &names, Algorithm::Skipping, &[], Some(14)), [19, 17, 14]);
    assert_eq!(offers(&repo, &names, Algorithm::Noop, &[], None), [0; 0]);
}
