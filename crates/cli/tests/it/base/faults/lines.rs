//! A registry and an object store, behind a line that breaks.

use std::{
    cell::RefCell,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use testkit::{
    Repo, Run, noise,
    servers::{Fault, Moment, Proxy, Registry, RegistryAccess, S3, Trouble},
};

use super::{
    super::{Fleet, base_command, files_below},
    CaseOn, play_on,
    scene::Damage,
};

/// A fleet, and a server behind a proxy.
struct Remote {
    fleet: Fleet,
    server: Server,
    proxy: Proxy,
    variables: RefCell<Vec<(&'static str, OsString)>>,
    address: String,
}

enum Server {
    Registry(Registry),
    S3(S3),
}

impl Remote {
    fn registry(access: RegistryAccess) -> Remote {
        let server = Registry::start(access);
        let proxy = Proxy::to(server.address());
        let address = format!("oci://{}/team/app", proxy.address());
        let server = Server::Registry(server);
        Remote { fleet: Fleet::new(), server, proxy, variables: RefCell::default(), address }
    }

    fn object_store() -> Remote {
        let server = S3::start();
        let proxy = Proxy::to(server.address());
        let variables = RefCell::new(S3::variables(proxy.address()));
        let address = format!("s3://{}/team/app", S3::BUCKET);
        Remote { fleet: Fleet::new(), server: Server::S3(server), proxy, variables, address }
    }

    fn open() -> Remote {
        Remote::registry(RegistryAccess::Open)
    }

    /// The beginning of the address, which each message has.
    fn scheme(&self) -> &str {
        &self.address[..self.address.find("://").expect("a URL") + 3]
    }

    fn run(&self, repo: &Repo<'_>, args: &[&str]) -> Run {
        let variables = self.variables.borrow();
        let output = base_command(repo, args).envs(variables.iter().cloned()).output().expect("it runs");
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

    /// The command fails with this code and one of these words.
    #[track_caller]
    fn refused(&self, run: &Run, words: &[&str]) {
        let said = run.stderr.to_string();
        assert_eq!(run.code, 128, "{said}");
        assert!(words.iter().any(|word| said.contains(word)), "{said}");
        assert!(!said.contains("panicked") && !said.contains(Registry::PASSWORD));
        assert!(!said.contains(S3::SECRET), "{said}");
    }

    /// A pull at a new host fails with all of these words, and leaves nothing half-made there.
    /// When `mend` has taken the cause away, the same pull succeeds.
    #[track_caller]
    fn pull_refused(&self, host: &str, words: &[&str], mend: impl FnOnce()) -> Value {
        let repo = self.fleet.host(host);
        let run = self.pull(&repo);
        words.iter().for_each(|word| self.refused(&run, &[word]));
        self.nothing_half_made(&repo, host);
        mend();
        self.pull_works(&repo)
    }

    #[track_caller]
    fn nothing_half_made(&self, repo: &Repo<'_>, host: &str) {
        let dirs = [self.fleet.bases(host), repo.join(".git/objects")];
        let left: Vec<PathBuf> = dirs.iter().flat_map(|dir| files_below(dir)).collect();
        let is_half_made = |path: &&PathBuf| {
            let path = path.to_string_lossy();
            path.contains("/.transfer-") || path.contains("/tmp_") || path.ends_with("/image")
        };
        assert_eq!(left.iter().filter(is_half_made).collect::<Vec<_>>(), Vec::<&PathBuf>::new());
    }

    fn cut_after(&self, after: u64, moment: Moment) {
        self.proxy.set(Some(Trouble { after, moment, fault: Fault::Cut }));
    }

    /// The manifest of HEAD.
    fn manifest(&self) -> Value {
        // A push to a directory names equal files.
        self.fleet.push();
        let manifest = self.fleet.dir().join("commits").join(self.fleet.commit("HEAD"));
        serde_json::from_slice(&fs::read(manifest).expect("a manifest")).expect("JSON")
    }

    /// The file in which the server keeps a data file.
    fn file(&self, digest: &Value) -> PathBuf {
        let digest = digest.as_str().expect("digits");
        match &self.server {
            Server::Registry(server) => server.blob(digest),
            Server::S3(server) => server.object(Path::new("team/app/data").join(&digest[..2]).join(digest)),
        }
    }

    fn set_variable(&self, name: &'static str, value: &str) {
        let mut variables = self.variables.borrow_mut();
        variables.retain(|(known, _)| *known != name);
        variables.push((name, value.into()));
    }
}

type Case = CaseOn<Remote>;

const BOTH: &[Case] = &[
    ("a life", |remote| {
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
    }),
    ("a line that breaks soon on each connection", |remote| {
        remote.push_works();
        let manifest = remote.manifest();
        let segment = manifest["tables"][0]["segment"]["digest"].as_str().expect("digits");
        let host = remote.fleet.host("host");
        // A number of retries: in ten seconds, short pauses may be enough for the whole segment.
        remote.set_variable("GIT_CONFIG_COUNT", "1");
        remote.set_variable("GIT_CONFIG_KEY_0", "sapwood.baseRetry");
        remote.set_variable("GIT_CONFIG_VALUE_0", "0s");
        remote.cut_after(100_000, Moment::EachConnection);
        remote.refused(&remote.pull(&host), &[&format!("{segment}: ")]);
        assert!(!host.exists(".git/index") && !remote.fleet.bases("host").join("index").exists());
        remote.nothing_half_made(&host, "host");
        remote.proxy.set(None);
        remote.pull_works(&host);
        // One cut is repeated behind the user's back.
        remote.proxy.once(Fault::Cut, 200_000);
        remote.pull_works(&remote.fleet.host("other"));
        assert!(!remote.proxy.is_troubled(), "the line was not cut");
    }),
    ("a server that goes away in the middle of a data file: the next pull goes on", |remote| {
        // The third content is asked for by itself, after or beside the others.
        let origin = remote.fleet.origin();
        origin.write("second", noise(9 << 20, 2));
        origin.write("third", noise(10 << 20, 3));
        origin.commit("large");
        remote.push_works();
        let whole = remote.pull_works(&remote.fleet.host("first"))["bytes"].as_u64().expect("a number");
        remote.cut_after(whole / 10 * 9, Moment::FromThen);
        let next = remote.pull_refused("host", &[remote.scheme(), FILES_STAY], || remote.proxy.set(None));
        assert_eq!(next["packs"], 0, "{next}");
        assert!(next["known"].as_u64().is_some_and(|known| known > 0), "{next}");
        assert!(next["bytes"].as_u64().is_some_and(|bytes| bytes < whole), "{next} of {whole}");
    }),
    ("a server that takes connections and sends nothing", |remote| {
        remote.push_works();
        // A second instead of half a minute.
        remote.set_variable("GIT_HTTP_LOW_SPEED_LIMIT", "1");
        remote.set_variable("GIT_HTTP_LOW_SPEED_TIME", "1");
        remote.proxy.set(Some(Trouble { after: 0, moment: Moment::EachConnection, fault: Fault::Stall }));
        let commit = remote.fleet.commit("HEAD");
        remote.pull_refused("host", &[remote.scheme(), &commit, "timed out", FILES_STAY], || {
            remote.proxy.set(None);
        });
    }),
    ("a byte that changes on the line", |remote| {
        remote.push_works();
        for (number, after) in [100_u64, 40_000, 1 << 20, 2 << 20].into_iter().enumerate() {
            let host = remote.fleet.host(&format!("host{number}"));
            remote.proxy.once(Fault::Corrupt, after);
            let run = remote.pull(&host);
            if run.code == 0 {
                remote.fleet.works_at(&host, &remote.fleet.commit("HEAD"));
            } else {
                remote.refused(&run, &[remote.scheme()]);
            }
            remote.proxy.set(None);
            remote.pull_works(&host);
        }
    }),
    ("a server that goes away in the middle of a push", |remote| {
        // The answers to a push are short.
        for after in [300, 800] {
            remote.cut_after(after, Moment::FromThen);
            remote.refused(&remote.push(), &[remote.scheme()]);
        }
        remote.proxy.set(None);
        let host = remote.fleet.host("host");
        remote.refused(&remote.pull(&host), &["has no base of commit"]);
        remote.push_works();
        remote.pull_works(&host);
    }),
    ("wrong bytes on the disk of a server", |remote| {
        let report = remote.done(&remote.fleet.origin(), &["push", "--json", &remote.address]);
        assert!(report.contains("segments"));
        let manifest = remote.manifest();
        let table = &manifest["tables"][0];
        for digest in [&table["digest"], &table["segment"]["digest"], &manifest["packs"][0]["digest"]] {
            let path = remote.file(digest);
            let sound = fs::read(&path).expect("a file of the server");
            let name = digest.as_str().expect("digits");
            for damage in [Damage::Flip, Damage::Cut] {
                damage.apply(&path);
                remote.pull_refused(&format!("host-{name:.10}-{damage:?}"), &[remote.scheme(), name], || {
                    fs::write(&path, &sound).expect("written");
                });
            }
        }
    }),
    ("failures of the server that pass", |remote| {
        remote.push_works();
        for status in BUSY {
            remote.proxy.answer(3, unavailable(status));
            remote.pull_works(&remote.fleet.host(&status[..3]));
        }
        remote.fleet.origin().write("file", "three\n");
        remote.fleet.origin().commit("three");
        remote.proxy.answer(3, unavailable(BUSY[0]));
        remote.push_works();
    }),
    ("failures of the server that stay", |remote| {
        remote.push_works();
        let commit = remote.fleet.commit("HEAD");
        for status in BUSY {
            remote.proxy.answer(usize::MAX, unavailable(status));
            let words = [remote.scheme(), &commit, status, FILES_STAY];
            remote.pull_refused(&status[..3], &words, || remote.proxy.answer(0, ""));
        }
        remote.fleet.origin().write("file", "three\n");
        remote.fleet.origin().commit("three");
        remote.proxy.answer(usize::MAX, unavailable(BUSY[0]));
        let run = remote.push();
        [remote.scheme(), BUSY[0], FILES_STAY].iter().for_each(|word| remote.refused(&run, &[word]));
        remote.proxy.answer(0, "");
        remote.push_works();
    }),
];

/// The advice after a failure that may pass.
const FILES_STAY: &str = "sapwood.baseRetry";

/// States of a server that may pass.
const BUSY: [&str; 2] = ["500 Internal Server Error", "503 Service Unavailable"];

fn unavailable(status: &str) -> String {
    format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 4\r\n\r\nbusy")
}

/// The answer of an object store to a request that it refuses.
fn denied() -> String {
    let text =
        "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code><Message>not for you</Message></Error>";
    format!(
        "HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Type: application/xml\r\n\
         Content-Length: {}\r\n\r\n{text}",
        text.len()
    )
}

const OBJECT_STORE: &[Case] = &[
    ("wrong keys", |remote| {
        remote.push_works();
        remote.set_variable("AWS_SECRET_ACCESS_KEY", "another-secret");
        let host = remote.fleet.host("host");
        for run in [remote.pull(&host), remote.push()] {
            remote.refused(&run, &["access denied: SignatureDoesNotMatch"]);
            remote.refused(&run, &["hint: check the credentials"]);
            assert!(!run.stderr.to_string().contains("another-secret"), "{}", run.stderr);
        }
        remote.set_variable("AWS_ACCESS_KEY_ID", "AKUNKNOWN");
        remote.refused(&remote.pull(&host), &["access denied"]);
        remote.nothing_half_made(&host, "host");
        remote.variables.replace(S3::variables(remote.proxy.address()));
        remote.pull_works(&host);
    }),
    ("a bucket that is not there", |remote| {
        remote.push_works();
        let commit = remote.fleet.commit("HEAD");
        let host = remote.fleet.host("host");
        for args in
            [&["pull", "s3://nowhere/x", &commit][..], &["push", "s3://nowhere/x"], &["list", "s3://nowhere"]]
        {
            let repo = if args[0] == "pull" { remote.fleet.host("host") } else { remote.fleet.origin() };
            let run = remote.run(&repo, args);
            remote.refused(&run, &["s3://nowhere"]);
            remote.refused(&run, &["NoSuchBucket"]);
        }
        remote.nothing_half_made(&host, "host");
        remote.pull_works(&host);
    }),
    ("a bucket that refuses", |remote| {
        remote.push_works();
        remote.proxy.answer(usize::MAX, denied());
        remote.refused(&remote.push(), &["access denied: AccessDenied: not for you"]);
        let words = ["s3://bases/team/app/commits/", "access denied: AccessDenied: not for you"];
        remote.pull_refused("host", &words, || remote.proxy.answer(0, ""));
    }),
];

#[test]
fn a_registry_behind_a_line() {
    play_on(BOTH, Remote::open);
}

#[test]
fn an_object_store_behind_a_line() {
    play_on(BOTH, Remote::object_store);
}

#[test]
fn an_object_store_that_refuses() {
    play_on(OBJECT_STORE, Remote::object_store);
}

#[test]
fn passwords_of_registries() {
    let remote = Remote::registry(RegistryAccess::Password);
    remote.refused(&remote.push(), &["access denied"]);
    let config = remote.fleet.sandbox.path().join("docker");
    fs::create_dir(&config).expect("created");
    remote.set_variable("DOCKER_CONFIG", config.to_str().expect("a plain name"));
    let host_name = remote.proxy.address().to_string();
    // User and password in base64, as `docker login` writes them.
    let set = |auth: &str| {
        let json = json!({"auths": {&host_name: {"auth": auth}}});
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
