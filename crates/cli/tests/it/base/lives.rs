//! The life of a base on a directory: pushed, listed, pulled, leased and pruned.

use std::fs;

use testkit::servers::Nginx;

use super::{Fleet, base, base_done};
use crate::SAPWOOD;

#[test]
fn a_pulled_base_is_a_workspace_at_once() {
    let fleet = Fleet::new();
    let said = base_done(&fleet.origin(), &["push", "--no-mount", &fleet.remote()]);
    let commit = fleet.commit("HEAD");
    assert!(said.starts_with(&format!("pushed the base of {commit} to {}: ", fleet.remote())), "{said}");
    let host = fleet.host("host");
    base_done(&host, &["pull", &fleet.remote(), &commit]);
    fleet.works_at(&host, &commit);
    // Nothing is fetched twice.
    base_done(&host, &["pull", &fleet.remote(), &commit]);
    let again = base_done(&fleet.origin(), &["push", "--no-mount", &fleet.remote()]);
    assert_eq!(again, format!("{} has the base of {commit} already\n", fleet.remote()));
}

#[test]
fn a_complete_repository_stays_complete() {
    let fleet = Fleet::new();
    // Commits before the newest come without their blobs.
    base_done(&fleet.origin(), &["push", "-q", "--no-mount", "--depth", "all", &fleet.remote()]);
    let (host, commit) = (fleet.host("host"), fleet.commit("HEAD"));
    let pull = |host: &testkit::Repo<'_>| {
        let report = base_done(host, &["pull", "--json", &fleet.remote(), &commit]);
        serde_json::from_str::<serde_json::Value>(&report).expect("JSON")["blobs"].as_u64()
    };
    let written = pull(&host).expect("a number");
    assert!(written > 50, "{written}");
    assert_eq!(pull(&host), Some(0));
    fs::remove_dir_all(fleet.dir()).expect("removed");
    fs::remove_dir_all(fleet.bases("host")).expect("removed");
    host.git(&["update-ref", "refs/heads/main", &commit]);
    host.git(&["fsck", "--full", "--strict"]);
    host.git(&["gc", "-q", "--prune=now"]);
    host.git(&["reset", "-q", "--hard"]);
    let files = host.run("sh".as_ref(), &["-ec", super::FILES]).stdout;
    assert_eq!(files, fleet.checkout(&commit));
    assert_eq!(host.git(&["rev-list", "--count", "HEAD"]).stdout, "1\n");
}

/// Makes a host a partial clone of the origin.
fn promises(fleet: &Fleet, host: &testkit::Repo<'_>) {
    host.git(&["remote", "add", "origin", fleet.origin().path.to_str().expect("plain")]);
    host.git(&["config", "remote.origin.promisor", "true"]);
    host.git(&["config", "remote.origin.partialclonefilter", "blob:none"]);
}

#[test]
fn a_partial_clone_needs_no_blobs() {
    let fleet = Fleet::new();
    fleet.push();
    let (host, commit) = (fleet.host("host"), fleet.commit("HEAD"));
    promises(&fleet, &host);
    let report = base_done(&host, &["pull", "--json", &fleet.remote(), &commit]);
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["blobs"], 0, "{report}");
    fleet.works_at(&host, &commit);
}

#[test]
fn the_next_commit_costs_the_changes() {
    let fleet = Fleet::new();
    fleet.push();
    let host = fleet.host("host");
    base_done(&host, &["pull", "-q", "--branch", "main", &fleet.remote()]);
    let before: u64 = fleet.stored("data").iter().map(|file| file.metadata().expect("a file").len()).sum();
    assert!(before > 3 << 20);
    let origin = fleet.origin();
    origin.write("file", "three\n");
    origin.commit("three");
    let report = base_done(&origin, &["push", "--json", "--no-mount", &fleet.remote()]);
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["contents"], 1, "{report}");
    assert!(report["bytes"].as_u64().is_some_and(|bytes| bytes < 10_000), "{report}");
    let commit = fleet.commit("HEAD");
    base_done(&host, &["pull", "-q", &fleet.remote(), &commit]);
    fleet.works_at(&host, &commit);
}

#[test]
fn a_list_names_branches_and_leases() {
    let fleet = Fleet::new();
    fleet.push();
    let (origin, remote) = (fleet.origin(), fleet.remote());
    base_done(&origin, &["push", "-q", "--no-mount", "--branch", "old/stable", &remote, "HEAD~1"]);
    base_done(&origin, &["lease", "--holder", "build 7", &remote, "HEAD", "12h"]);
    let list = base_done(&origin, &["list", &remote]);
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines.len(), 2, "{list}");
    let line = |commit: &str| *lines.iter().find(|line| line.starts_with(commit)).expect("the base");
    assert!(line(&fleet.commit("HEAD")).contains("  main  leased to build 7 until 2"), "{list}");
    assert!(line(&fleet.commit("HEAD~1")).ends_with("  old/stable"), "{list}");
    let json = base_done(&origin, &["list", "--json", &remote]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json.as_array().map(Vec::len), Some(2));
    base_done(&origin, &["lease", "--release", "--holder", "build 7", &remote, "HEAD"]);
    assert!(!base_done(&origin, &["list", &remote]).contains("leased"));
    // Without a repository, the remote is enough.
    let outside = fleet.sandbox.repo("");
    assert_eq!(base_done(&outside, &["list", &remote]).lines().count(), 2);
}

#[test]
fn prune_keeps_the_newest_and_the_leased() {
    let fleet = Fleet::new();
    let (origin, remote) = (fleet.origin(), fleet.remote());
    fleet.push();
    for number in 3..7 {
        origin.write("file", format!("{number}\n"));
        origin.commit("next");
        fleet.push();
    }
    base_done(&origin, &["lease", "-q", &remote, "HEAD~3", "1h"]);
    let kept = |commit: &str| fleet.dir().join("commits").join(fleet.commit(commit)).exists();
    base_done(&origin, &["prune", "--keep", "1", &remote]);
    assert!(kept("HEAD~2"), "it is younger than a day");
    let said = base_done(&origin, &["prune", "-n", "--keep", "1", "--grace", "0s", &remote]);
    assert!(said.contains(&fleet.commit("HEAD~2")) && kept("HEAD~2"), "{said}");
    base_done(&origin, &["prune", "--keep", "1", "--grace", "0s", &remote]);
    assert_eq!(["HEAD", "HEAD~1", "HEAD~2", "HEAD~3", "HEAD~4"].map(kept), [true, false, false, true, false]);
    let host = fleet.host("host");
    for commit in [fleet.commit("HEAD"), fleet.commit("HEAD~3")] {
        base_done(&host, &["pull", "-q", &remote, &commit]);
        fleet.works_at(&host, &commit);
    }
    let gone = fleet.commit("HEAD~2");
    let run = base(&host, &["pull", &remote, &gone]);
    assert_eq!(run.code, 128);
    assert!(run.stderr.to_string().contains(&format!("has no base of commit {gone}")), "{}", run.stderr);
}

#[test]
fn a_setting_names_the_remote() {
    let fleet = Fleet::new();
    let (origin, host) = (fleet.origin(), fleet.host("host"));
    for repo in [&origin, &host] {
        repo.git(&["config", "sapwood.baseRemote", &fleet.remote()]);
    }
    base_done(&origin, &["push", "-q", "--no-mount"]);
    base_done(&host, &["pull", "-q", "--branch", "main"]);
    fleet.works_at(&host, &fleet.commit("HEAD"));
}

#[test]
fn a_shared_directory_is_used_where_it_lies() {
    let fleet = Fleet::new();
    base_done(&fleet.origin(), &["push", "-q", &fleet.remote()]);
    let (host, copying) = (fleet.host("host"), fleet.host("copying"));
    let commit = fleet.commit("HEAD");
    let pull = |host, option: &[&str]| -> serde_json::Value {
        let remote = fleet.remote();
        let args = [&["pull", "--json"], option, &[&remote, &commit]].concat();
        serde_json::from_str(&base_done(host, &args)).expect("JSON")
    };
    let contents = |name: &str| -> u64 {
        let files = super::files_below(&fleet.bases(name).join("blobs"));
        files.iter().map(|file| file.metadata().expect("a file").len()).sum()
    };
    assert_eq!(pull(&host, &[])["contents"], 0);
    assert!(contents("host") < 100, "no content is copied");
    fleet.works_at(&host, &commit);
    assert!(pull(&copying, &["--copy"])["contents"].as_u64().is_some_and(|contents| contents > 50));
    assert!(contents("copying") > 3 << 20 && !fleet.bases("copying").join("alternates").exists());
    // The copy needs the directory no more.
    fs::rename(fleet.dir(), fleet.dir().with_file_name("away")).expect("renamed");
    fleet.works_at(&copying, &commit);
}

/// A table is kept here, named by its digest. Other bytes under its name are replaced.
#[test]
fn a_damaged_copy_of_a_table_is_fetched_again() {
    let fleet = Fleet::new();
    fleet.push();
    let (host, commit) = (fleet.host("host"), fleet.commit("HEAD"));
    // A repository that is complete has the contents as objects, and reads no table again.
    promises(&fleet, &host);
    base_done(&host, &["pull", "-q", &fleet.remote(), &commit]);
    let tables = super::files_below(&fleet.bases("host").join("tables"));
    assert_eq!(tables.len(), 1);
    let sound = fs::read(&tables[0]).expect("a table");
    let mut flipped = sound.clone();
    flipped[sound.len() / 2] ^= 1;
    for damaged in [Some(&flipped[..]), Some(&sound[..100]), Some(b""), None] {
        fs::remove_file(&tables[0]).expect("the table");
        if let Some(bytes) = damaged {
            fs::write(&tables[0], bytes).expect("written");
        }
        let pruned = host.run(SAPWOOD.as_ref(), &["workspace", "base", "prune"]);
        assert_eq!(pruned.code, 0, "{}", pruned.stderr);
        base_done(&host, &["pull", "-q", &fleet.remote(), &commit]);
        assert_eq!(fs::read(&tables[0]).expect("a table"), sound);
        fleet.works_at(&host, &commit);
    }
}

#[test]
fn a_first_push_makes_the_directory_where_a_disk_is() {
    let fleet = Fleet::new();
    let origin = fleet.origin();
    let push = |dir: &std::path::Path| {
        base(&origin, &["push", "-q", "--no-mount", &format!("file://{}", dir.display())])
    };
    let refused = |dir: &std::path::Path| {
        let run = push(dir);
        assert_eq!(run.code, 128, "{}", run.stderr);
        let said = run.stderr.to_string();
        assert!(said.contains("is missing or empty: perhaps its disk is not mounted"), "{said}");
        assert!(!dir.exists(), "created");
    };
    let above = fleet.dir().with_file_name("above");
    refused(&above.join("remote"));
    fs::create_dir(&above).expect("a new directory");
    refused(&above.join("remote"));
    fs::write(above.join("file"), "").expect("written");
    let run = push(&above.join("remote"));
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(above.join("remote/commits").join(fleet.commit("HEAD")).exists());
}

/// A commit that came with a base is no work that a removed workspace loses. One made here is.
#[test]
fn a_workspace_at_a_pulled_commit_has_nothing_to_lose() {
    let fleet = Fleet::new();
    fleet.push();
    let (origin, host, commit) = (fleet.origin(), fleet.host("host"), fleet.commit("HEAD"));
    let sapwood = |repo: &testkit::Repo<'_>, args: &[&str]| {
        let run = repo.run(SAPWOOD.as_ref(), &[&["workspace"], args].concat());
        (run.code, run.stderr.to_string())
    };
    let done = |repo: &testkit::Repo<'_>, args: &[&str]| assert_eq!(sapwood(repo, args), (0, String::new()));
    let refused = |repo: &testkit::Repo<'_>, name: &str| {
        let (code, said) = sapwood(repo, &["remove", name]);
        assert!(code == 128 && said.contains("which no branch or tag contains"), "{said}");
        done(repo, &["remove", "-f", name]);
    };
    base_done(&host, &["pull", "-q", &fleet.remote(), &commit]);
    done(&host, &["create", "-q", "-d", "one", &commit]);
    done(&host, &["remove", "one"]);
    done(&host, &["create", "-q", "-d", "one", &commit]);
    let git =
        ["git", "-c", "user.name=A", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"];
    done(&host, &[&["exec", "one", "--"], &git[..]].concat());
    // The base of a commit above it has no history, so a pull of that does not save it.
    let own = host.git(&["rev-parse", "worktrees/one/HEAD"]).stdout.to_string();
    let theirs = format!("{}:refs/heads/theirs", own.trim());
    host.git(&["push", "-q", origin.path.to_str().expect("a plain name"), &theirs]);
    origin.git(&["checkout", "-q", "theirs"]);
    origin.write("file", "above\n");
    origin.commit("above");
    fleet.push();
    base_done(&host, &["pull", "-q", &fleet.remote(), &fleet.commit("HEAD")]);
    origin.git(&["checkout", "-q", "main"]);
    refused(&host, "one");
    // Old notes go, but for those that a workspace needs.
    done(&host, &["create", "-q", "-d", "kept", &commit]);
    let notes = || super::files_below(&host.join(".git/sapwood/pulled")).len();
    assert_eq!(notes(), 4);
    for note in super::files_below(&host.join(".git/sapwood/pulled")) {
        let file = fs::File::options().write(true).open(note).expect("a note");
        file.set_modified(std::time::UNIX_EPOCH).expect("set");
    }
    base_done(&host, &["pull", "-q", &fleet.remote(), &commit]);
    assert_eq!(notes(), 1);
    done(&host, &["remove", "kept"]);
    // A commit of this repository stays its user's, also after a push and a pull of its base.
    origin.git(&["checkout", "-q", "--detach"]);
    origin.write("file", "mine\n");
    origin.commit("mine");
    let mine = fleet.commit("HEAD");
    base_done(&origin, &["push", "-q", "--no-mount", &fleet.remote()]);
    origin.git(&["checkout", "-q", "main"]);
    base_done(&origin, &["pull", "-q", &fleet.remote(), &mine]);
    done(&origin, &["create", "-q", "-d", "mine", &mine]);
    refused(&origin, "mine");
}

/// nginx serves requests that are meant for a proxy as its own.
#[test]
fn a_proxy_stands_before_a_web_server() {
    let fleet = Fleet::new();
    fleet.push();
    let nginx = Nginx::start(&fleet.dir());
    let here = nginx.url("files");
    let proxy = here.strip_suffix("/files").expect("the end of the address");
    let host = fleet.host("host");
    let pull = |proxy: &str, from: &str| {
        let proxy = format!("http.proxy={proxy}");
        let args = ["-c", &proxy, "base", "pull", "-q", "--branch", "main", from];
        let mut command = host.command(SAPWOOD.as_ref());
        let output = command.args(args).env("http_proxy", "http://proxy.invalid").output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(pull(proxy, "http://base.invalid/files"), (Some(0), String::new()));
    fleet.works_at(&host, &fleet.commit("HEAD"));
    // An empty one stands against the variable.
    assert_eq!(pull("", &here), (Some(0), String::new()));
    let (code, said) = pull("http://[", &here);
    assert!(code == Some(128) && said.contains("bad URL of a proxy in http.proxy"), "{said}");
}

/// Each file of a base is read and compared, and nothing is kept.
#[test]
fn verify_names_the_file_that_is_wrong() {
    let fleet = Fleet::new();
    fleet.push();
    let (origin, remote, head) = (fleet.origin(), fleet.remote(), fleet.commit("HEAD"));
    let before = super::files_below(&origin.join(".git"));
    let said = base_done(&origin, &["verify", &remote]);
    assert!(said.starts_with(&format!("the base of {head} is sound: ")), "{said}");
    let json = base_done(&origin, &["verify", "--json", &remote, "HEAD"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert!(json["flaw"].is_null() && json["contents"].as_u64().is_some_and(|count| count > 50), "{json}");
    for path in fleet.stored("data") {
        let sound = fs::read(&path).expect("a data file");
        let mut flipped = sound.clone();
        flipped[sound.len() / 2] ^= 1;
        fs::remove_file(&path).expect("removed");
        for bytes in [&flipped[..], &sound[..sound.len() - 1]] {
            fs::write(&path, bytes).expect("written");
            let run = base(&origin, &["verify", &remote]);
            assert_eq!(run.code, 1, "{}{}", run.stdout, run.stderr);
            let name = path.file_name().expect("a name").display().to_string();
            assert!(run.stdout.to_string().contains(&name), "{}", run.stdout);
        }
        fs::remove_file(&path).expect("removed");
        assert_eq!(base(&origin, &["verify", "-q", &remote]).code, 1);
        fs::write(&path, sound).expect("written");
    }
    base_done(&origin, &["verify", "-q", &remote]);
    assert_eq!(super::files_below(&origin.join(".git")), before);
    assert_eq!(base(&origin, &["verify", &remote, "HEAD~1"]).code, 1);
    fs::remove_dir_all(fleet.dir()).expect("removed");
    assert_eq!(base(&origin, &["verify", &remote]).code, 128);
}
