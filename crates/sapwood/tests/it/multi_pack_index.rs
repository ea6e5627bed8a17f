//! The multi-pack-index, compared with Git's file byte for byte.

use sapwood::{
    Error, PlanError, Silent,
    multi_pack_index::{self, Report, Request, expire, verify},
};
use testkit::{Repo, Sandbox};

use crate::{Heard, open, silent_oracle};

/// Three packs without common objects, and no file that Git's maintenance has written.
fn packs(repo: &Repo<'_>) {
    repo.git(&["config", "maintenance.auto", "false"]);
    for number in 0..3 {
        repo.write("a", format!("{number}\n"));
        repo.commit(&format!("commit {number}"));
        repo.git(&["repack", "-q"]);
    }
}

fn file(repo: &Repo<'_>) -> Option<Vec<u8>> {
    std::fs::read(repo.join(".git/objects/pack/multi-pack-index")).ok()
}

/// Replaces the file, which is read-only.
fn replace(repo: &Repo<'_>, content: &[u8]) {
    let file = repo.join(".git/objects/pack/multi-pack-index");
    std::fs::remove_file(&file).and_then(|()| std::fs::write(&file, content)).expect("written");
}

/// Returns the names of the packs' index files, sorted.
fn names(repo: &Repo<'_>) -> Vec<String> {
    let listed = std::fs::read_dir(repo.join(".git/objects/pack")).expect("a directory").flatten();
    let mut names: Vec<String> = listed.map(|entry| entry.file_name().to_string_lossy().into()).collect();
    names.retain(|name| name.ends_with(".idx"));
    names.sort();
    names
}

fn written(repo: &Repo<'_>, request: Request) -> Report {
    let repository = open(repo);
    multi_pack_index::plan(&repository, request).expect("a plan").run(&Silent).expect("a run")
}

#[test]
fn writes_the_file_of_git() {
    let oracle = silent_oracle(packs);
    let (git, ours) = (oracle.git(), oracle.ours());
    let lock = ours.join(".git/objects/pack/multi-pack-index.lock");
    let repository = open(&ours);
    assert!(multi_pack_index::plan(&repository, Request::default()).expect("a plan").is_needed());
    assert_eq!((file(&ours), lock.exists()), (None, false));
    assert_eq!(written(&ours, Request::default()), Report { pack_count: 3, object_count: 9 });
    git.git(&["multi-pack-index", "write"]);
    assert!(file(&ours).is_some() && file(&ours) == file(&git));
    assert!(!multi_pack_index::plan(&repository, Request::default()).expect("a plan").is_needed());
    let some = Request { packs: Some(vec![names(&ours)[0].as_str().into()]), ..Request::default() };
    assert_eq!(written(&ours, some).pack_count, 1);
    ours.git(&["multi-pack-index", "verify"]);
    let heard = Heard::default();
    let unknown = Request { preferred: Some("none.pack".into()), ..Request::default() };
    multi_pack_index::plan(&repository, unknown).expect("a plan").run(&heard).expect("a run");
    assert_eq!(heard.0.into_inner(), ["unknown preferred pack: 'none.pack'"]);
    assert!(file(&ours) == file(&git));
}

#[test]
fn refuses_without_packs_and_leaves_bitmaps_to_git() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    let repository = open(&repo);
    let planned = || multi_pack_index::plan(&repository, Request::default()).map(drop);
    let refused = planned().expect_err("an error");
    assert!(matches!(&refused, PlanError::Failed(Error::MultiPackIndex(_))), "{refused}");
    assert_eq!(refused.to_string(), "no pack files to index.");
    repo.write(".git/objects/pack/multi-pack-index-0.bitmap", "");
    assert!(matches!(planned(), Err(PlanError::Unsupported(_))));
}

#[test]
fn removes_packs_without_a_use() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    packs(&repo);
    let old = names(&repo);
    for name in &old {
        let pack = repo.join(format!(".git/objects/pack/{}", name.replace(".idx", ".pack")));
        let touched = repo.command("touch".as_ref()).args(["-d", "@1700000000"]).arg(pack).status();
        assert!(touched.expect("it can be run").success());
    }
    repo.git(&["repack", "-q", "-a"]);
    let run = || {
        let repository = open(&repo);
        let before = names(&repo);
        let plan = expire::plan(&repository, expire::Request).expect("a plan");
        assert_eq!(names(&repo), before);
        plan.run(&Silent).expect("a run").removed
    };
    assert!(run().is_empty());
    assert_eq!(written(&repo, Request::default()).pack_count, 4);
    let before = names(&repo);
    let removed: Vec<String> = run().iter().map(ToString::to_string).collect();
    assert_eq!(removed, old);
    let left: Vec<String> = before.into_iter().filter(|name| !old.contains(name)).collect();
    assert_eq!(names(&repo), left);
    repo.git(&["multi-pack-index", "verify"]);
    repo.git(&["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn a_damaged_file_has_flaws() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    packs(&repo);
    let heard = Heard::default();
    let checked = || {
        let plan = verify::plan(&open(&repo), verify::Request).expect("a plan");
        plan.run(&heard).expect("a run")
    };
    assert!(checked().is_none());
    written(&repo, Request::default());
    assert!(checked().expect("a file").is_sound());
    let mut content = file(&repo).expect("a file");
    replace(&repo, &content[..10]);
    assert!(checked().expect("a file").verdict.is_none());
    let last = content.len() - 1;
    content[last] ^= 1;
    replace(&repo, &content);
    assert_eq!(checked().expect("a file").verdict.expect("flaws").lines, ["incorrect checksum"]);
    let heard = heard.0.into_inner();
    assert!(matches!(&heard[..], [only] if only.ends_with("is too small")), "{heard:?}");
}
