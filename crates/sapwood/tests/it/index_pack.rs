//! Indexes of packs, compared with `git index-pack`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use sapwood::{
    Error, PlanError, Silent,
    index_pack::{self, Options, Request, receive},
};
use testkit::{Repo, Sandbox};

use crate::open;

/// Returns the bytes of a pack with three commits.
fn pack(repo: &Repo<'_>) -> Vec<u8> {
    for number in 0..3 {
        repo.write("a", format!("{number}\n"));
        repo.commit(&format!("commit {number}"));
    }
    repo.git(&["repack", "-q", "-a", "-d"]);
    let mut names = fs::read_dir(repo.join(".git/objects/pack")).expect("a directory").flatten();
    let found = names.find(|entry| entry.path().extension() == Some("pack".as_ref()));
    fs::read(found.expect("a pack").path()).expect("read")
}

fn request(pack: &Path) -> Request {
    Request { pack: pack.as_os_str().as_encoded_bytes().into(), ..Request::default() }
}

#[test]
fn writes_and_verifies_the_files_of_git() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    let bytes = pack(&repo);
    let (theirs, ours) = (repo.join("theirs.pack"), repo.join("ours.pack"));
    [&theirs, &ours].iter().for_each(|path| fs::write(path, &bytes).expect("written"));
    let printed = repo.git(&["index-pack", "theirs.pack"]).stdout.to_string();
    let repository = open(&repo);
    let index = |pack: &PathBuf| fs::read(pack.with_extension("idx")).ok();
    let reverse = |pack: &PathBuf| fs::read(pack.with_extension("rev")).ok();
    let plan = index_pack::plan(&repository, request(&ours)).expect("a plan");
    assert!(index(&ours).is_none());
    let report = plan.run(&Silent).expect("a run");
    assert_eq!((report.checksum.to_string(), report.missing.len()), (printed.trim().to_owned(), 0));
    assert!(index(&ours).is_some() && index(&ours) == index(&theirs));
    assert!(reverse(&ours) == reverse(&theirs));
    let verify = || Request { verify: true, ..request(&ours) };
    index_pack::plan(&repository, verify()).expect("a plan").run(&Silent).expect("a run");
    let mut damaged = index(&ours).expect("an index");
    damaged[1100] ^= 1;
    let file = ours.with_extension("idx");
    fs::remove_file(&file).and_then(|()| fs::write(&file, damaged)).expect("written");
    assert!(index_pack::plan(&repository, verify()).is_err());
}

#[test]
fn a_damaged_pack_leaves_no_file() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    let mut bytes = pack(&repo);
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let damaged = repo.join("damaged.pack");
    fs::write(&damaged, &bytes).expect("written");
    let planned = index_pack::plan(&open(&repo), request(&damaged)).map(drop);
    assert!(matches!(planned, Err(PlanError::Failed(Error::IndexPack(_)))));
    assert!(!damaged.with_extension("idx").exists());
    let other = sandbox.init("other");
    let repository = open(&other);
    let plan = receive::plan(&repository, receive::Request::default()).expect("a plan");
    plan.run(&Silent, &mut bytes.as_slice()).map(drop).expect_err("an error");
    assert_eq!(fs::read_dir(other.join(".git/objects/pack")).expect("a directory").count(), 0);
}

#[test]
fn receives_a_pack() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    let bytes = pack(&repo);
    let other = sandbox.init("other");
    let repository = open(&other);
    let options = Options { checks: Some(Vec::new()), strict: true, ..Options::default() };
    let wanted = receive::Request { keep: Some("why".into()), options, ..receive::Request::default() };
    let plan = receive::plan(&repository, wanted).expect("a plan");
    let report = plan.run(&Silent, &mut bytes.as_slice()).expect("a run");
    assert_eq!((report.received.objects, report.missing.len()), (9, 0));
    let keep = other.join(format!(".git/objects/pack/pack-{}.keep", report.received.checksum));
    assert_eq!(fs::read_to_string(keep).expect("a file"), "why\n");
    let head = repo.git(&["rev-parse", "HEAD"]).stdout.to_string();
    other.git(&["cat-file", "-e", head.trim()]);
    other.git(&["fsck", "--strict", "--no-dangling"]);
}
