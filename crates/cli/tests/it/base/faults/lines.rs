//! A real registry, behind a line that breaks. Tests of `remote` cover the other servers.

use std::{ffi::OsString, fs};

use serde_json::Value;
use testkit::{
    Repo, Run,
    servers::{Fault, Moment, Proxy, Registry, RegistryAccess, Trouble},
};

use super::{
    super::{Fleet, base_command},
    scene::Damage,
};

/// A fleet, and a server behind a proxy.
struct Remote {
    fleet: Fleet,
    server: Registry,
    proxy: Proxy,
    variables: Vec<(&'static str, OsString)>,
    address: String,
}

impl Remote {
    fn registry(access: RegistryAccess) -> Remote {
        let server = Registry::start(access);
        let proxy = Proxy::to(server.address());
        let address = format!("oci://{}/team/app", proxy.address());
        Remote { fleet: Fleet::new(), server, proxy, variables: Vec::new(), address }
    }

    fn open() -> Remote {
        Remote::registry(RegistryAccess::Open)
    }

    fn run(&self, repo: &Repo<'_>, args: &[&str]) -> Run {
        let output = base_command(repo, args).envs(self.variables.iter().cloned()).output().expect("it runs");
        let code = output.status.code().unwrap_or(-1);
        Run { code, stdout: output.stdout.into(), stderr: output.stderr.into() }
    }

    #[track_caller]
    fn done(&self, repo: &Repo<'_>, args: &[&str]) -> String {
        let run = self.run(repo, args);
        assert_eq!(run.code, 0, "{args:?} at {}: {}{}", self.address, run.stdout, run.stderr);
        run.stdout.to_string()
    }

    fn push(&self) -> Run {
        self.run(&self.fleet.origin(), &["push", "-q", &self.address])
    }

    fn pull(&self, host: &Repo<'_>) -> Run {
        self.run(host, &["pull", "--json", &self.address, &self.fleet.commit("HEAD")])
    }

    #[track_caller]
    fn push_works(&self) {
        let run = self.push();
        assert_eq!(run.code, 0, "{}", run.stderr);
    }

    #[track_caller]
    fn pull_works(&self, host: &Repo<'_>) -> Value {
        let run = self.pull(host);
        assert_eq!(run.code, 0, "{}", run.stderr);
        self.fleet.works_at(host, &self.fleet.commit("HEAD"));
        serde_json::from_slice(&run.stdout).expect("JSON")
    }

    /// The command fails with this code and one of these words; no base is at the host.
    #[track_caller]
    fn refused(&self, run: &Run, words: &[&str]) {
        let said = run.stderr.to_string();
        assert_eq!(run.code, 128, "{said}");
        assert!(words.iter().any(|word| said.contains(word)), "{said}");
        assert!(!said.contains("panicked") && !said.contains(Registry::PASSWORD));
    }

    fn cut_after(&self, after: u64, moment: Moment) {
        self.proxy.set(Some(Trouble { after, moment, fault: Fault::Cut }));
    }
}

#[test]
fn a_life_on_each_server() {
    let remote = Remote::open();
    let (origin, address) = (remote.fleet.origin(), remote.address.as_str());
    remote.push_works();
    let host = remote.fleet.host("host");
    let first = remote.pull_works(&host);
    assert!(first["bytes"].as_u64().is_some_and(|bytes| bytes > 3 << 20), "{first}");
    origin.write("file", "three\n");
    origin.commit("three");
    remote.push_works();
    let next = remote.pull_works(&host);
    assert_eq!(next["contents"], 1, "{next}");
    assert!(next["bytes"].as_u64().is_some_and(|bytes| bytes < 20_000), "{next}");
    remote.done(&origin, &["lease", "-q", "--holder", "job", address, "HEAD~1", "1h"]);
    assert!(remote.done(&origin, &["list", address]).contains("leased to job"));
    let prune = ["prune", "-q", "--keep", "1", "--grace", "0s", address];
    remote.done(&origin, &prune);
    assert_eq!(remote.done(&origin, &["list", address]).lines().count(), 2);
    remote.done(&origin, &["lease", "--release", "--holder", "job", address, "HEAD~1"]);
    remote.done(&origin, &prune);
    assert_eq!(remote.done(&origin, &["list", address]).lines().count(), 1);
    remote.pull_works(&remote.fleet.host("other"));
}

#[test]
fn a_server_that_goes_away_in_the_middle_of_a_pull() {
    let remote = Remote::open();
    remote.push_works();
    let host = remote.fleet.host("host");
    remote.cut_after(1 << 20, Moment::EachConnection);
    remote.refused(&remote.pull(&host), &["oci://"]);
    assert!(!host.exists(".git/index") && !remote.fleet.bases("host").join("index").exists());
    remote.proxy.set(None);
    remote.pull_works(&host);
    // One cut is repeated behind the user's back.
    remote.proxy.once(Fault::Cut, 200_000);
    remote.pull_works(&remote.fleet.host("other"));
}

#[test]
fn a_byte_that_changes_on_the_line() {
    let remote = Remote::open();
    remote.push_works();
    for (number, after) in [100_u64, 40_000, 1 << 20, 2 << 20].into_iter().enumerate() {
        let host = remote.fleet.host(&format!("host{number}"));
        remote.proxy.once(Fault::Corrupt, after);
        let run = remote.pull(&host);
        if run.code == 0 {
            remote.fleet.works_at(&host, &remote.fleet.commit("HEAD"));
        } else {
            remote.refused(&run, &["oci://"]);
        }
        remote.proxy.set(None);
        remote.pull_works(&host);
    }
}

#[test]
fn a_server_that_goes_away_in_the_middle_of_a_push() {
    let remote = Remote::open();
    // The answers to a push are short: each connection ends after the first ones.
    remote.cut_after(300, Moment::EachConnection);
    remote.refused(&remote.push(), &["oci://"]);
    remote.proxy.set(None);
    let host = remote.fleet.host("host");
    remote.refused(&remote.pull(&host), &["has no base of commit"]);
    remote.push_works();
    remote.pull_works(&host);
}

#[test]
fn wrong_bytes_on_the_disk_of_a_server() {
    let remote = Remote::open();
    let report = remote.done(&remote.fleet.origin(), &["push", "--json", &remote.address]);
    assert!(report.contains("segments"));
    // A push to a directory names equal files.
    remote.fleet.push();
    let manifest = remote.fleet.dir().join("commits").join(remote.fleet.commit("HEAD"));
    let manifest: Value = serde_json::from_slice(&fs::read(manifest).expect("a manifest")).expect("JSON");
    let table = &manifest["tables"][0];
    for digest in [&table["digest"], &table["segment"]["digest"], &manifest["packs"][0]["digest"]] {
        let path = remote.server.blob(digest.as_str().expect("digits"));
        let sound = fs::read(&path).expect("a file of the server");
        for damage in [Damage::Flip, Damage::Cut] {
            let host = remote.fleet.host(&format!("host-{digest:.10}-{damage:?}").replace('"', ""));
            damage.apply(&path);
            remote.refused(&remote.pull(&host), &["oci://"]);
            fs::write(&path, &sound).expect("written");
            remote.pull_works(&host);
        }
    }
}

#[test]
fn passwords_of_registries() {
    let mut remote = Remote::registry(RegistryAccess::Password);
    remote.refused(&remote.push(), &["access denied"]);
    let config = remote.fleet.sandbox.path().join("docker");
    fs::create_dir(&config).expect("created");
    remote.variables = vec![("DOCKER_CONFIG", config.clone().into())];
    let host_name = remote.proxy.address().to_string();
    // User and password in base64, as `docker login` writes them.
    let set = |auth: &str| {
        let json = serde_json::json!({"auths": {&host_name: {"auth": auth}}});
        fs::write(config.join("config.json"), json.to_string()).expect("written");
    };
    set("YWxpY2U6d3Jvbmc=");
    remote.refused(&remote.push(), &["access denied"]);
    set("YWxpY2U6b3BlbiBzZXNhbWU=");
    remote.push_works();
    let host = remote.fleet.host("host");
    remote.pull_works(&host);
    let nothing = format!("oci://{}/no/such", remote.proxy.address());
    let run = remote.run(&host, &["pull", &nothing, &remote.fleet.commit("HEAD")]);
    remote.refused(&run, &["has no base of commit"]);
}
