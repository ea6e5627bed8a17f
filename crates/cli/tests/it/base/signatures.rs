//! Signed manifests, by the real `ssh-keygen`.

use std::{fs, path::PathBuf, process::Command};

use testkit::{Repo, has_program};

use super::{Fleet, base, base_done};

/// Makes a key in the sandbox. Returns its path.
fn key(fleet: &Fleet, name: &str) -> PathBuf {
    let path = fleet.sandbox.path().join(name);
    let mut keygen = Command::new("ssh-keygen");
    let made = keygen.args(["-q", "-t", "ed25519", "-N", "", "-C", name, "-f"]).arg(&path).output();
    assert!(made.expect("ssh-keygen runs").status.success());
    path
}

/// Writes a file of allowed signers with this key. `options` precede it.
fn allow(fleet: &Fleet, name: &str, options: &str) -> String {
    let public = fs::read_to_string(fleet.sandbox.path().join(format!("{name}.pub"))).expect("a public key");
    let path = fleet.sandbox.path().join("signers");
    fs::write(&path, format!("{name}@example.com {options}{public}")).expect("written");
    path.display().to_string()
}

fn signs_with(repo: &Repo<'_>, key: &std::path::Path) {
    repo.git(&["config", "user.signingKey", key.to_str().expect("a plain name")]);
}

/// Pulls at a new host that accepts the signers. Returns the end of the message if it is refused.
#[track_caller]
fn refused(fleet: &Fleet, host: &str, signers: &str) -> String {
    let host = fleet.host(host);
    host.git(&["config", "sapwood.baseSigners", signers]);
    let commit = fleet.commit("HEAD");
    let run = base(&host, &["pull", &fleet.remote(), &commit]);
    assert_eq!(run.code, 128, "{}{}", run.stdout, run.stderr);
    let lead = format!("fatal: {}: the record 'commits/{commit}' is refused: ", fleet.remote());
    let said = run.stderr.to_string();
    let reason = said.strip_prefix(&lead).unwrap_or_else(|| panic!("{said}")).trim_end().to_owned();
    assert!(!host.exists(".git/shallow"), "nothing is fetched");
    assert_eq!(super::files_below(&host.join(".git/objects")).len(), 0, "nothing is fetched");
    reason
}

#[test]
fn only_an_allowed_signer_counts() {
    if !has_program("ssh-keygen") {
        return;
    }
    let fleet = Fleet::new();
    let alice = key(&fleet, "alice");
    key(&fleet, "mallory");
    let origin = fleet.origin();
    signs_with(&origin, &alice);
    base_done(&origin, &["push", "-q", "--no-mount", "--sign", &fleet.remote()]);
    let manifest = fleet.dir().join("commits").join(fleet.commit("HEAD"));
    let signed = fs::read_to_string(&manifest).expect("the manifest");
    assert!(signed.ends_with("-----END SSH SIGNATURE-----\n"), "{signed}");
    let signers = allow(&fleet, "alice", "");
    let host = fleet.host("good");
    host.git(&["config", "sapwood.baseSigners", &signers]);
    base_done(&host, &["pull", "-q", &fleet.remote(), &fleet.commit("HEAD")]);
    fleet.works_at(&host, &fleet.commit("HEAD"));
    // Another namespace, an expired key, a revoked key.
    let signers = allow(&fleet, "alice", "namespaces=\"git\" ");
    assert!(!refused(&fleet, "git", &signers).is_empty());
    let signers = allow(&fleet, "alice", "valid-before=\"20000101\" ");
    assert!(!refused(&fleet, "expired", &signers).is_empty());
    let signers = allow(&fleet, "mallory", "");
    assert_eq!(refused(&fleet, "other", &signers), "No principal matched.");
    let signers = allow(&fleet, "alice", "");
    let revoked = fleet.sandbox.path().join("alice.pub");
    let revoking = fleet.host("revoked");
    revoking.git(&["config", "gpg.ssh.revocationFile", revoked.to_str().expect("a plain name")]);
    assert!(!refused(&fleet, "revoked", &signers).is_empty());
    // A changed manifest under a signature that was good.
    let changed = signed.replacen("\"time\": 1", "\"time\": 2", 1);
    assert_ne!(changed, signed);
    fs::write(&manifest, changed).expect("written");
    assert!(!refused(&fleet, "changed", &signers).is_empty());
    // The signature of an object of Git's is none of a manifest.
    let (body, _) = signed.split_once("-----BEGIN").expect("a signature");
    let file = fleet.sandbox.path().join("body");
    fs::write(&file, body).expect("written");
    let mut keygen = Command::new("ssh-keygen");
    let made = keygen.args(["-Y", "sign", "-n", "git", "-f"]).args([&alice, &file]).output();
    assert!(made.expect("ssh-keygen runs").status.success());
    let signature = fs::read_to_string(file.with_extension("sig")).expect("a signature");
    fs::write(&manifest, format!("{body}{signature}")).expect("written");
    assert!(!refused(&fleet, "namespace", &signers).is_empty());
    fs::write(&manifest, body).expect("written");
    assert!(refused(&fleet, "unsigned", &signers).contains("it has no signature"));
    fs::write(&manifest, format!("{body}-----BEGIN SSH SIGNATURE-----\njunk\n")).expect("written");
    assert!(!refused(&fleet, "junk", &signers).is_empty());
}

#[test]
fn a_push_that_cannot_sign_publishes_nothing() {
    if !has_program("ssh-keygen") {
        return;
    }
    let fleet = Fleet::new();
    let origin = fleet.origin();
    origin.git(&["config", "sapwood.baseSign", "true"]);
    signs_with(&origin, &fleet.sandbox.path().join("missing"));
    let run = base(&origin, &["push", "--no-mount", &fleet.remote()]);
    assert_eq!(run.code, 128);
    assert!(
        run.stderr.to_string().contains("the signature of the manifest could not be made"),
        "{}",
        run.stderr
    );
    assert_eq!(fleet.stored("commits").len() + fleet.stored("branches").len(), 0);
    base_done(&origin, &["push", "-q", "--no-mount", "--no-sign", &fleet.remote()]);
    assert_eq!(fleet.stored("commits").len(), 1);
}

/// A base that is there without a signature gets one. No content is sent again.
#[test]
fn a_push_signs_what_is_there() {
    if !has_program("ssh-keygen") {
        return;
    }
    let fleet = Fleet::new();
    let (origin, remote, head) = (fleet.origin(), fleet.remote(), fleet.commit("HEAD"));
    fleet.push();
    let alice = key(&fleet, "alice");
    let signers = allow(&fleet, "alice", "");
    assert!(refused(&fleet, "before", &signers).contains("it has no signature"));
    let data = fleet.stored("data");
    signs_with(&origin, &alice);
    let push = |options: &[&str]| {
        base_done(&origin, &[&["push", "--json", "--no-mount"], options, &[remote.as_str()]].concat())
    };
    let report: serde_json::Value = serde_json::from_str(&push(&["--sign"])).expect("JSON");
    assert_eq!((&report["wasThere"], &report["contents"]), (&false.into(), &0.into()), "{report}");
    assert_eq!(fleet.stored("data"), data);
    let host = fleet.host("after");
    host.git(&["config", "sapwood.baseSigners", &signers]);
    base_done(&host, &["pull", "-q", &remote, &head]);
    fleet.works_at(&host, &head);
    // A signature stays, whoever pushes.
    let manifest = fs::read(fleet.dir().join("commits").join(&head)).expect("the manifest");
    push(&[]);
    push(&["--sign"]);
    assert_eq!(fs::read(fleet.dir().join("commits").join(&head)).expect("the manifest"), manifest);
}

#[test]
fn a_mirror_signs_what_is_there() {
    if !has_program("ssh-keygen") {
        return;
    }
    let fleet = Fleet::new();
    let outside = fleet.sandbox.repo("");
    let (remote, url) = (fleet.remote(), format!("file://{}", fleet.origin().path.display()));
    let mirror = |options: &[&str]| {
        let args = [&["mirror", "-q", "--dir", "m.git"], options, &[remote.as_str(), &url]].concat();
        base_done(&outside, &args);
        fs::read_to_string(fleet.dir().join("commits").join(fleet.commit("HEAD"))).expect("the manifest")
    };
    assert!(!mirror(&[]).contains("SIGNATURE"));
    signs_with(&fleet.sandbox.repo("m.git"), &key(&fleet, "alice"));
    let signed = mirror(&["--sign"]);
    assert!(signed.ends_with("-----END SSH SIGNATURE-----\n"), "{signed}");
    assert_eq!(mirror(&["--sign"]), signed);
}
