//! Packs over HTTP: all versions of the protocol, with and without history at the client.

use std::io::Read as _;

use format::{HashKind, ObjectId};
use testkit::Repo;
use wire::{Client, ConnectOptions, Error, Limits, Negotiator, Request};

use super::Ground;
use crate::RepoSettings;

/// Offers commits in order, and records those that the server has.
#[derive(Default)]
struct Offers {
    left: Vec<ObjectId>,
    common: Vec<ObjectId>,
}

impl Negotiator for Offers {
    fn next_have(&mut self) -> Result<Option<ObjectId>, Error> {
        Ok(self.left.pop())
    }

    fn acknowledge(&mut self, commit: &ObjectId) -> Result<bool, Error> {
        let known = self.common.contains(commit);
        self.common.push(*commit);
        Ok(known)
    }
}

fn commits(repo: &Repo<'_>, range: &str) -> Vec<ObjectId> {
    let list = repo.git(&["rev-list", range]).stdout.to_string();
    list.lines().map(|hex| ObjectId::from_hex(HashKind::Sha1, hex.as_bytes()).expect("a name")).collect()
}

/// Fetches all refs, and returns the pack.
fn fetch(ground: &Ground, url: &str, offers: &mut Offers) -> Vec<u8> {
    let repo = RepoSettings::of(&ground.client());
    let client = Client::of(&repo);
    let connected = client.connect(&client.url(url.into()), &ConnectOptions::default());
    let mut connection = connected.expect("the server answers");
    let listed = connection.list_refs(&[]).expect("the server has refs");
    let wants: Vec<ObjectId> = listed.refs.iter().map(|found| found.oid).collect();
    let mut request = Request {
        wants: &wants,
        want_refs: &[],
        negotiator: offers,
        shallow: &[],
        limits: &Limits::default(),
        include_tags: true,
        thin_pack: true,
        progress: false,
        uri_protocols: &[],
        texts: &|_| {},
    };
    let mut stream = connection.fetch(&mut request).expect("the server sends a pack");
    let mut pack = Vec::new();
    stream.read_to_end(&mut pack).expect("a whole pack");
    stream.finish().expect("the dialogue ends well");
    pack
}

/// Passes the pack to Git and checks that all objects of the server are now here.
fn take(ground: &Ground, pack: &[u8]) {
    let client = ground.client();
    client.write("pack", pack);
    let pack = client.join("pack");
    let input = std::fs::File::open(pack).expect("just written");
    let mut index = client.git_command();
    let run = index.args(["index-pack", "--stdin", "--fix-thin"]).stdin(input).output().expect("Git runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let heads =
        ground.sandbox.repo("root/a").git(&["for-each-ref", "--format=%(objectname)"]).stdout.to_string();
    for head in heads.lines() {
        client.git(&["rev-list", "--objects", "--quiet", head]);
    }
}

/// Adds commits to the server's `main`, each with a tag.
fn grow(server: &Repo<'_>, names: &[String]) {
    let mut script = String::new();
    for (number, name) in names.iter().enumerate() {
        let from = if number == 0 { "from refs/heads/main^0\n" } else { "" };
        script.push_str(&format!(
            "commit refs/heads/main\nmark :1\ncommitter A <a@b> {number} +0000\ndata 1\nx\n{from}\
             M 644 inline {name}\ndata 1\ny\n\nreset refs/tags/{name}\nfrom :1\n\n"
        ));
    }
    server.write(".git/script", script);
    let input = std::fs::File::open(server.join(".git/script")).expect("just written");
    let mut import = server.git_command();
    let run = import.args(["fast-import", "--quiet"]).stdin(input).output().expect("Git runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}

#[test]
fn packs_come_over_every_version() {
    let ground = Ground::new();
    let server = ground.sandbox.repo("root/a");
    // With 60 tags the request is long enough to be compressed.
    let names: Vec<String> = (0..60).map(|number| format!("t{number}")).collect();
    grow(&server, &names);
    for (version, path) in [("2", "git/a"), ("1", "git/a"), ("0", "git/a"), ("2", "v0/a")] {
        ground.client().git(&["config", "protocol.version", version]);
        ground.server.clear_requests();
        let url = ground.server.tls_url(path);
        let pack = fetch(&ground, &url, &mut Offers::default());
        take(&ground, &pack);
        assert!(ground.server.requests().iter().any(|line| line.contains("|gzip|")), "{version} {path}");

        let left = commits(&server, "HEAD").into_iter().rev().collect();
        grow(&server, &[format!("v{version}{}", path.len())]);
        let mut offers = Offers { left, common: Vec::new() };
        let pack = fetch(&ground, &url, &mut offers);
        assert!(!offers.common.is_empty(), "{version} {path}");
        let count = u32::from_be_bytes(pack[8..12].try_into().expect("a header"));
        assert!(count <= 3, "{version} {path}: {count} objects for one commit");
        take(&ground, &pack);
    }
}
