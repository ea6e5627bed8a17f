//! The transfers of `transfer` over a network: an object store, a registry, a web server.

use std::{ffi::OsString, time::Duration};

use testkit::servers::{Nginx, Registry, RegistryAccess, S3};

use super::*;

fn open(address: &str, variables: &[(&'static str, OsString)]) -> Remote {
    let variable =
        |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone());
    let address = Address::parse(address.into(), Path::new("/")).expect("an address");
    let options = base_store::Options::new(&variable, Arc::default());
    Remote::open(address, &base_store::Options { timeout: Duration::from_secs(120), ..options })
        .expect("opened")
}

/// Pushes and pulls two commits, and returns the second.
fn carry_over(
    sandbox: &Sandbox,
    source: &Repo<'_>,
    remote: &Remote,
    reader: &Remote,
    between: &dyn Fn(),
) -> ObjectId {
    let sender = Host::at(source.path.clone());
    let host = Host::new(sandbox, "host");
    let options = push::Options { branch: Some("main".into()), segment: 8 << 20, ..push::Options::default() };
    let first = commit(source, "HEAD");
    let pushed = sender.push(remote, first, &options);
    between();
    let (base, cold) = host.pull(reader, first).expect("pulled");
    check(source, &host, &base, first);
    assert_eq!(cold.contents, pushed.contents);
    let (_, again) = host.pull(reader, first).expect("pulled");
    assert_eq!((again.requests, again.bytes), (0, 0));
    let second = change(source, 100, 1);
    assert_eq!(sender.push(remote, second, &options).contents, 100);
    between();
    let nearest = base_transfer::records::nearest(reader, "main".into(), None).expect("read").expect("there");
    assert_eq!(nearest.manifest.commit, second);
    let (base, next) = host.pull(reader, second).expect("pulled");
    check(source, &host, &base, second);
    assert_eq!((next.contents, next.packs, next.requests), (100, 1, 3));
    assert!(next.bytes * 50 < cold.bytes, "{next:?} after {cold:?}");
    second
}

fn prune(remote: &Remote) -> base_transfer::prune::Report {
    let now = std::time::SystemTime::now() + 2 * base_transfer::GRACE;
    let options = base_transfer::prune::Options { now, ..base_transfer::prune::Options::new(1) };
    base_transfer::prune::prune(remote, &options, &AtomicBool::new(false)).expect("pruned")
}

#[test]
fn an_object_store_serves_and_is_pruned() {
    let sandbox = Sandbox::new();
    let source = project(&sandbox);
    let server = S3::start();
    let remote = open(&format!("s3://{}/some/prefix", S3::BUCKET), &S3::variables(server.address()));
    let second = carry_over(&sandbox, &source, &remote, &remote, &|| {});
    let pruned = prune(&remote);
    assert_eq!((pruned.commits.len(), pruned.kept), (1, 1));
    let manifest = base_transfer::records::manifest(&remote, &second).expect("read").expect("there").manifest;
    assert_eq!(remote.data().expect("listed").len(), manifest.files().count());
    let other = Host::new(&sandbox, "other");
    let (base, _) = other.pull(&remote, second).expect("pulled");
    check(&source, &other, &base, second);
    // Wrong bytes on the way are no file either.
    let segment = manifest.tables[0].segment.digest.path();
    let path = server.object(format!("some/prefix/{segment}"));
    let mut bytes = fs::read(&path).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).expect("written");
    let error = Host::new(&sandbox, "third").pull(&remote, second).expect_err("damaged");
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    assert!(error.to_string().contains(&segment) && error.to_string().contains("s3://"), "{error}");
}

#[test]
fn a_registry_serves_and_is_pruned() {
    let sandbox = Sandbox::new();
    let source = project(&sandbox);
    let server = Registry::start(RegistryAccess::Open);
    let remote = open(&format!("oci://{}/some/name", server.address()), &[]);
    let second = carry_over(&sandbox, &source, &remote, &remote, &|| {});
    let pruned = prune(&remote);
    assert_eq!((pruned.commits.len(), pruned.kept), (1, 1));
    let other = Host::new(&sandbox, "other");
    let (base, _) = other.pull(&remote, second).expect("pulled");
    check(&source, &other, &base, second);
}

#[test]
fn a_web_server_shows_the_files_of_a_directory() {
    let sandbox = Sandbox::new();
    let source = project(&sandbox);
    let remote = remote_in(&sandbox);
    let root = remote.directory().expect("a directory");
    let server = Nginx::start(root);
    // The server runs as another user.
    let show = || {
        let shown = Command::new("chmod").args(["-R", "a+rX"]).arg(root).status();
        assert!(shown.expect("chmod runs").success());
    };
    let reader = open(&format!("http://127.0.0.1:{}/files", server.port()), &[]);
    carry_over(&sandbox, &source, &remote, &reader, &show);
}
