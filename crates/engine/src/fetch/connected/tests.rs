//! Checks of histories that Git created, with some objects removed.

use std::sync::atomic::AtomicBool;

use repo::OpenOptions;
use testkit::{Repo, Sandbox};

use super::*;

fn answer(dir: &Repo<'_>, tips: &[&str]) -> Connected {
    let options = OpenOptions { cwd: dir.path.clone(), ..OpenOptions::default() };
    let repo = Repository::open(&options).expect("a repository");
    let name = |tip: &&str| {
        let text = dir.git(&["rev-parse", tip]).stdout;
        ObjectId::from_hex(repo.hash(), text.trim_ascii_end()).expect("a name")
    };
    let tips: Vec<ObjectId> = tips.iter().map(name).collect();
    let interrupt = AtomicBool::new(false);
    let options = Options { workers: Workers::Fixed(2), interrupt: &interrupt };
    check(&repo, &tips, options).expect("an answer")
}

#[test]
fn misses_each_object_that_no_ref_leads_to() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.write("a", "1");
    repo.write("dir/b", "1");
    repo.commit("one");
    repo.git(&["branch", "old"]);
    repo.write("dir/c", "2");
    repo.commit("two");
    repo.write("dir/sub/d", "3");
    repo.commit("three");
    let tip = String::from_utf8_lossy(repo.git(&["rev-parse", "HEAD"]).stdout.trim_ascii_end()).into_owned();
    repo.git(&["checkout", "-q", "old"]);
    repo.git(&["branch", "-D", "main"]);
    assert_eq!(answer(&repo, &[&tip, "old"]), Connected::Complete);
    for gone in ["^:dir/c", "^:dir", "^^{tree}", "^", ":dir/sub/d", ":dir/sub", "^{tree}", ""] {
        let oid = repo.git(&["rev-parse", &format!("{tip}{gone}")]).stdout;
        let oid = String::from_utf8_lossy(oid.trim_ascii_end()).into_owned();
        let file = repo.path.join(".git/objects").join(&oid[..2]).join(&oid[2..]);
        let aside = repo.path.join("aside");
        sys::by_path::rename(&file, &aside).expect("a loose object");
        let known = repo.git(&["rev-parse", "old:a"]).stdout;
        let missing = answer(&repo, &[&tip]);
        assert_eq!(
            missing,
            Connected::Missing(ObjectId::from_hex(repo_hash(), oid.as_bytes()).expect("a name")),
            "{gone} {known:?}"
        );
        assert_eq!(answer(&repo, &["old"]), Connected::Complete);
        sys::by_path::rename(&aside, &file).expect("it goes back");
    }
    // Objects that are reachable from a ref are not looked up.
    let blob =
        String::from_utf8_lossy(repo.git(&["rev-parse", "old:a"]).stdout.trim_ascii_end()).into_owned();
    sys::by_path::remove_file(&repo.path.join(".git/objects").join(&blob[..2]).join(&blob[2..]))
        .expect("there");
    assert_eq!(answer(&repo, &[&tip]), Connected::Complete);
    // Without refs all objects are looked up.
    repo.git(&["checkout", "-q", "--orphan", "empty"]);
    repo.git(&["update-ref", "-d", "refs/heads/old"]);
    assert!(matches!(answer(&repo, &[&tip]), Connected::Missing(_)));
}

fn repo_hash() -> format::HashKind {
    format::HashKind::Sha1
}
