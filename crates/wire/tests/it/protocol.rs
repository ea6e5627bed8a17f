//! Connections to Git's `upload-pack`, in every version of the protocol: the pack contains the
//! objects that the client lacks, and no others.

use std::{collections::VecDeque, io::Read};

use bstr::{BStr, ByteSlice};
use format::{HashKind, ObjectId};
use testkit::{Repo, Sandbox, servers::Daemon};
use wire::{Client, Error, Limits, Negotiator, Request, Version};

use crate::RepoSettings;

/// Offers a list of commits, newest first.
struct Offer {
    commits: VecDeque<ObjectId>,
    common: Vec<ObjectId>,
}

impl Offer {
    fn of(repo: &Repo<'_>, args: &[&str]) -> Offer {
        let names = repo.git(&[&["rev-list"], args].concat()).stdout.to_string();
        let parse = |name: &str| ObjectId::from_hex(HashKind::Sha1, name.as_bytes()).expect("a name");
        Offer { commits: names.lines().map(parse).collect(), common: Vec::new() }
    }
}

impl Negotiator for Offer {
    fn next_have(&mut self) -> Result<Option<ObjectId>, Error> {
        Ok(self.commits.pop_front())
    }

    fn acknowledge(&mut self, commit: &ObjectId) -> Result<bool, Error> {
        let known = self.common.contains(commit);
        self.common.push(*commit);
        // All ancestors of a common commit are common too.
        self.commits.clear();
        Ok(known)
    }
}

/// A server with 60 commits, and a client that has 40 of them and 50 of its own.
fn ground() -> Sandbox {
    let sandbox = Sandbox::new();
    let server = sandbox.init("server");
    for number in 0..40 {
        server.git(&["commit", "-q", "--allow-empty", "-m", &number.to_string()]);
    }
    let target = sandbox.path().join("client");
    server.git(&["clone", "-q", ".", &target.display().to_string()]);
    for number in 40..60 {
        server.git(&["commit", "-q", "--allow-empty", "-m", &number.to_string()]);
    }
    server.git(&["tag", "-a", "-m", "tag", "v1"]);
    let client = sandbox.repo("client");
    for number in 0..50 {
        client.git(&["commit", "-q", "--allow-empty", "-m", &format!("own {number}")]);
    }
    sandbox
}

/// Fetches HEAD of `url`, and returns the number of objects in the pack.
fn fetched(client: &Repo<'_>, url: &BStr, offer: &mut Offer, limits: &Limits) -> (u32, usize) {
    let repo = RepoSettings::of(client);
    let wire = Client::of(&repo);
    let mut connection = wire.connect(&wire.url(url), &Default::default()).expect("connected");
    let refs = connection.list_refs(&[]).expect("refs").refs;
    let head = refs.iter().find(|found| found.name == "HEAD").expect("a HEAD");
    assert!(head.symref.is_some());
    let tag = refs.iter().find(|found| found.name == "refs/tags/v1").expect("a tag");
    assert_eq!(tag.peeled, Some(head.oid));
    let mut request = Request {
        wants: &[head.oid],
        want_refs: &[],
        negotiator: offer,
        shallow: &[],
        limits,
        include_tags: false,
        thin_pack: true,
        progress: false,
        uri_protocols: &[],
        texts: &|_| {},
    };
    let mut stream = connection.fetch(&mut request).expect("a pack");
    let mut pack = Vec::new();
    stream.read_to_end(&mut pack).expect("whole");
    assert!(pack.starts_with(b"PACK"));
    let shallow = stream.shallow().len();
    stream.finish().expect("the server ends well");
    (u32::from_be_bytes(pack[8..12].try_into().expect("four bytes")), shallow)
}

#[test]
fn sends_only_what_is_new() {
    let sandbox = ground();
    let client = sandbox.repo("client");
    let daemon = Daemon::start(&sandbox, "");
    let file = format!("file://{}", sandbox.path().join("server").display());
    let all = Limits::default();
    let depth = Limits { depth: Some(3), ..Limits::default() };
    for version in [Version::V0, Version::V1, Version::V2] {
        client.git(&["config", "protocol.version", &version.number().to_string()]);
        for url in [&file, &daemon.url("server")] {
            let url = BStr::new(url.as_bytes());
            let fetch =
                |args: &[&str], limits: &Limits| fetched(&client, url, &mut Offer::of(&client, args), limits);
            // Each side has one empty tree.
            assert_eq!(fetch(&["--max-count=0", "HEAD"], &all), (61, 0), "{version:?} {url}");
            assert_eq!(fetch(&["HEAD"], &all), (20, 0), "{version:?} {url}");
            assert_eq!(fetch(&["HEAD", "^origin/HEAD"], &all), (61, 0), "{version:?} {url}");
            assert_eq!(fetch(&["--max-count=0", "HEAD"], &depth), (4, 1), "{version:?} {url}");
        }
    }
}

#[test]
fn helpers_carry_the_protocol() {
    let sandbox = ground();
    let client = sandbox.repo("client");
    client.git(&["config", "protocol.ext.allow", "always"]);
    let url = format!("ext::git-upload-pack {}", sandbox.path().join("server").display());
    let mut offer = Offer::of(&client, &["HEAD"]);
    assert_eq!(fetched(&client, url.as_bytes().as_bstr(), &mut offer, &Limits::default()).0, 20);
    let repo = RepoSettings::of(&client);
    let wire = Client::of(&repo);
    let url = wire.url("nowhere::x".into());
    assert!(wire.connect(&url, &Default::default()).is_err());
}

#[test]
fn urls_are_replaced_as_by_git() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    let set = |key: &str, value: &str| drop(repo.git(&["config", "--add", key, value]));
    set("url.https://late/.pushInsteadOf", "x:");
    set("url.https://a/.insteadOf", "x");
    set("url.https://b/.insteadOf", "x:");
    set("url.https://late/.insteadOf", "x:");
    set("url.https://long.example/.insteadOf", "x:y/");
    set("url.https://a/.insteadOf", "x:");
    let same = |texts: &[&str]| {
        let settings = RepoSettings::of(&repo);
        for text in texts {
            let expected = repo.git(&["ls-remote", "--get-url", text]).stdout.to_string();
            let found = Client::of(&settings).url(BStr::new(text.as_bytes())).text;
            assert_eq!(found, expected.trim_end(), "{text}");
        }
    };
    same(&["x:z", "x:y/z", "x", "xz", "other", "https://a/z"]);
    set("url.prefix/.insteadOf", "");
    same(&["x:z", "other"]);
}
