//! `create --quota` and `workspace quota`: the refusals, and the words when a quota is full.

use std::{fs, path::Path};

use testkit::{
    Run,
    disk::{Disk, Format},
};

use super::create::{Place, leftovers};
use crate::SAPWOOD;

fn text(run: &Run) -> String {
    run.stderr.to_string()
}

#[test]
fn a_quota_that_would_not_be_in_force_is_refused() {
    let place = Place::new();
    let refused = |args: &[&str], words: &[&str]| {
        let run = place.run(&[&["create", "one", "--backend", "overlay"], args].concat());
        let said = text(&run);
        assert_eq!(run.code, 128, "{args:?}: {said}");
        assert!(words.iter().all(|words| said.contains(words)), "{args:?}: {said}");
        assert_eq!(leftovers(&place), Vec::<std::path::PathBuf>::new(), "{args:?}");
    };
    refused(
        &["--quota", "2G"],
        &["without project quotas", "hint: ext4: 'tune2fs -O project,quota", "prjquota"],
    );
    for size in ["0", "-1", "much", "2X"] {
        refused(&["--quota", size], &["is not a size such as 500M or 20G, or 'none'"]);
    }
    // Elsewhere, the quota would not count the Git directory.
    let elsewhere = place.sandbox.path().join("elsewhere").display().to_string();
    refused(
        &["--sealed", "--quota", "2G", "--upper-dir", &elsewhere],
        &["would not count its Git directory", "hint: leave the changes in the repository"],
    );
    place.repo().git(&["config", "sapwood.workspaceQuota", "1g"]);
    refused(&[], &["without project quotas"]);
    place.done(&["create", "one", "-q", "--backend", "overlay", "--quota", "none"]);
    assert_eq!(place.json()[0]["quota"], serde_json::Value::Null);
    for args in [&["quota", "one"][..], &["quota", "one", "2G"]] {
        let run = place.run(args);
        assert_eq!((run.code, text(&run)), (128, "fatal: 'one' has no quota\n".to_owned()));
    }
}

fn on_a_disk(format: Format, test: impl Fn(&Place, &Path)) {
    let place = Place::new();
    let point = place.sandbox.path().join("disk");
    fs::create_dir(&point).expect("a new directory");
    // The reason was printed if there is none.
    let image = place.sandbox.path().join("image");
    let Some(disk) = Disk::with_quotas(format, &image, &point) else { return };
    let uppers = point.join("uppers");
    place.repo().git(&["config", "sapwood.upperDir", uppers.to_str().expect("a plain path")]);
    test(&place, &uppers);
    testkit::disk::unmount_below(&place.sandbox.path().join("repo.workspaces"));
    drop(disk);
}

#[test]
fn status_and_commit_say_which_quota_is_full() {
    for format in [Format::Ext4, Format::Xfs] {
        on_a_disk(format, |place, uppers| {
            place.done(&["create", "one", "-q", "--backend", "overlay", "--quota", "2M"]);
            assert_eq!(place.json()[0]["quota"]["limit"], 2 << 20);
            let one = place.workspace("one");
            one.write("mine", "mine\n");
            let ours = |args: &[&str]| one.run(SAPWOOD.as_ref(), args);
            let status = ours(&["status", "--porcelain"]);
            assert_eq!((status.code, text(&status).as_str()), (0, ""), "there is space");
            let full = one.run("dd".as_ref(), &["if=/dev/zero", "of=big.o", "bs=64k", "count=100"]);
            let error = text(&full);
            assert!(full.code != 0, "{error}");
            assert!(
                ["Disk quota exceeded", "No space left"].iter().any(|words| error.contains(words)),
                "{error}"
            );
            let told = |run: &Run| {
                let said = text(run);
                assert!(said.contains("warning: the quota of the workspace 'one' is full: "), "{said}");
                assert!(said.contains(" of 2.00 MiB\n"), "{said}");
                assert!(
                    said.contains("hint: or raise the limit: sapwood workspace quota one <size>"),
                    "{said}"
                );
            };
            let status = ours(&["status", "--porcelain"]);
            assert_eq!((status.code, status.stdout.to_string().as_str()), (0, "?? mine\n"));
            told(&status);
            one.git(&["add", "mine"]);
            let commit = ours(&["commit", "-q", "-m", "mine"]);
            assert_eq!(commit.code, 0, "{}", text(&commit));
            told(&commit);
            assert_eq!(place.repo().git(&["show", "one:mine"]).stdout, "mine\n");
            let table = place.done(&["list", "-v"]);
            assert!(table.contains("quota ") && table.contains(" of 2.00 MiB"), "{table}");
            assert!(place.done(&["quota", "one", "4M"]).ends_with(" of 4.00 MiB\n"));
            let status = ours(&["status", "--porcelain"]);
            assert_eq!((status.code, text(&status).as_str()), (0, ""), "there is space again");
            place.done(&["quota", "one", "none", "--json"]);
            assert_eq!(place.json()[0]["quota"]["limit"], serde_json::Value::Null);
            place.done(&["remove", "one"]);
            assert!(!uppers.join("one").exists());
        });
    }
}
