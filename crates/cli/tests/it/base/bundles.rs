//! Bundles beside bases: plain `git clone --bundle-uri` of a pushed directory behind a web server.

use testkit::servers::Nginx;

use super::{Fleet, base, base_done};

/// Clones with the real Git and the bundles of a branch. Returns the bytes of the pack that the
/// repository itself had to send.
fn clone_with_bundles(fleet: &Fleet, nginx: &Nginx, branch: &str, into: &str) {
    let uri = nginx.url(&format!("files/bundles/{branch}"));
    let repo = fleet.sandbox.repo("");
    let url = fleet.origin().path.display().to_string();
    let run = repo.try_git(&["clone", "-q", &format!("--bundle-uri={uri}"), &format!("file://{url}"), into]);
    assert_eq!((run.code, run.stderr.to_string().as_str()), (0, ""));
    let clone = fleet.sandbox.repo(into);
    clone.git(&["fsck"]);
    let refs = clone.git(&["for-each-ref", "--format=%(objectname)", "refs/bundles"]).stdout;
    assert_eq!(refs.to_string().trim(), fleet.commit("HEAD"), "the bundles reach the tip");
    assert_eq!(clone.git(&["rev-parse", "HEAD"]).stdout.to_string().trim(), fleet.commit("HEAD"));
}

#[test]
fn plain_git_clones_from_bundles() {
    let fleet = Fleet::new();
    let origin = fleet.origin();
    let push = || base_done(&origin, &["push", "-q", "--bundle", &fleet.remote()]);
    push();
    let nginx = Nginx::start(&fleet.dir());
    clone_with_bundles(&fleet, &nginx, "main", "one");
    let size = || -> Vec<u64> {
        let log = nginx.requests();
        let data = log.iter().filter(|line| line.contains("/files/data/"));
        data.map(|line| line.split('|').nth(3).and_then(|size| size.parse().ok()).expect("a size")).collect()
    };
    assert!(size().iter().sum::<u64>() > 3 << 20, "the bundle came from the web server");
    origin.write("file", "three\n");
    origin.commit("three");
    push();
    // A second push of that commit writes no bundle.
    push();
    nginx.clear_requests();
    clone_with_bundles(&fleet, &nginx, "main", "two");
    let sizes = size();
    assert_eq!(sizes.len(), 2, "{sizes:?}");
    assert!(
        sizes.iter().min().is_some_and(|size| *size < 2000),
        "the second bundle holds the change: {sizes:?}"
    );
    // A later fetch takes only the new bundle.
    origin.write("file", "four\n");
    origin.commit("four");
    push();
    nginx.clear_requests();
    let clone = fleet.sandbox.repo("two");
    clone.git(&["fetch", "-q"]);
    assert_eq!(size().len(), 1);
    assert_eq!(clone.git(&["rev-parse", "origin/main"]).stdout.to_string().trim(), fleet.commit("HEAD"));
}

#[test]
fn many_bundles_become_one_and_a_rewound_branch_goes_on() {
    let fleet = Fleet::new();
    let origin = fleet.origin();
    let push =
        || base_done(&origin, &["push", "-q", "--bundle", "--no-mount", "--branch", "a/b", &fleet.remote()]);
    let list = || std::fs::read_to_string(&fleet.stored("bundles")[0]).expect("the list");
    for number in 0..18 {
        origin.write("file", format!("{number}\n"));
        origin.commit("next");
        push();
    }
    let count = list().matches("uri = ").count();
    assert!((8..17).contains(&count), "{}", list());
    let nginx = Nginx::start(&fleet.dir());
    origin.git(&["branch", "a/b"]);
    clone_with_bundles(&fleet, &nginx, "a_2fb", "many");
    origin.git(&["reset", "-q", "--hard", "HEAD~3"]);
    origin.write("file", "else\n");
    origin.commit("else");
    origin.git(&["branch", "-f", "a/b"]);
    push();
    clone_with_bundles(&fleet, &nginx, "a_2fb", "rewound");
}

#[test]
fn a_shallow_repository_writes_no_bundle() {
    let fleet = Fleet::new();
    let url = format!("file://{}", fleet.origin().path.display());
    fleet.sandbox.repo("").git(&["clone", "-q", "--depth=1", &url, "shallow"]);
    let shallow = fleet.sandbox.repo("shallow");
    let run = base(&shallow, &["push", "-q", "--bundle", "--no-mount", &fleet.remote()]);
    assert_eq!(run.code, 128);
    assert!(run.stderr.to_string().contains("bundles need the whole history"), "{}", run.stderr);
    assert_eq!(fleet.stored("bundles").len(), 0);
}
