//! Random trees: names with every byte except NUL and slash, deep and wide, files becoming
//! directories and the reverse, mode changes. The checkouts by sapwood and by Git are equal.

use std::{collections::BTreeMap, fs, io::Write as _, path::Path, process::Stdio};

use bstr::{BString, ByteSlice as _};
use proptest::{collection, prelude::*, test_runner::Config};
use testkit::{Oracle, Repo, Sandbox};

use crate::{SAPWOOD, full};

#[derive(Clone, Debug)]
enum Node {
    File { executable: bool, content: Vec<u8> },
    Symlink(Vec<u8>),
    Directory(BTreeMap<Vec<u8>, Node>),
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    let any_byte =
        collection::vec(any::<u8>().prop_filter("no NUL, no slash", |&b| b != 0 && b != b'/'), 1..12);
    let few =
        prop_oneof![Just(b"a".to_vec()), Just(b"b".to_vec()), Just(b"a.b".to_vec()), Just(b"a-b".to_vec())];
    let long = Just(vec![b'n'; 255]);
    // Other tests cover names that Git refuses in an index.
    prop_oneof![4 => any_byte, 6 => few, 1 => long].prop_filter("a name Git allows", |name| {
        let lower = name.to_ascii_lowercase();
        name != b"."
            && name != b".."
            && !lower.contains_str(".git")
            && !lower.contains_str("git~")
            && !name.contains(&b'\\')
    })
}

fn node() -> impl Strategy<Value = Node> {
    let content = prop_oneof![
        6 => collection::vec(any::<u8>(), 0..200),
        1 => Just(vec![b'x'; 100_000]),
    ];
    let leaf = prop_oneof![
        6 => (any::<bool>(), content).prop_map(|(executable, content)| Node::File { executable, content }),
        1 => collection::vec(1u8.., 1..30).prop_map(Node::Symlink),
    ];
    leaf.prop_recursive(6, 60, 8, |inner| {
        collection::btree_map(name(), inner, 1..8).prop_map(Node::Directory)
    })
}

fn tree() -> impl Strategy<Value = BTreeMap<Vec<u8>, Node>> {
    collection::btree_map(name(), node(), 0..10)
}

/// Commits the tree through `fast-import`, without a worktree.
fn commit(repo: &Repo<'_>, branch: &str, tree: &BTreeMap<Vec<u8>, Node>) {
    fn emit(stream: &mut Vec<u8>, prefix: &[u8], tree: &BTreeMap<Vec<u8>, Node>) {
        for (name, node) in tree {
            let path = [prefix, name].concat();
            let (mode, content) = match node {
                Node::Directory(inner) => {
                    emit(stream, &[&path[..], b"/"].concat(), inner);
                    continue;
                }
                Node::File { executable, content } => {
                    (if *executable { "100755" } else { "100644" }, content)
                }
                Node::Symlink(target) => ("120000", target),
            };
            stream.extend_from_slice(format!("M {mode} inline \"").as_bytes());
            for byte in &path {
                stream.extend_from_slice(format!("\\{byte:03o}").as_bytes());
            }
            stream.extend_from_slice(format!("\"\ndata {}\n", content.len()).as_bytes());
            stream.extend_from_slice(content);
            stream.push(b'\n');
        }
    }
    let mut stream =
        format!("commit refs/heads/{branch}\ncommitter a <a@b> 1700000000 +0000\ndata 1\nx\n").into_bytes();
    emit(&mut stream, b"", tree);
    stream.extend_from_slice(b"done\n");
    let git = std::env::var_os("SAPWOOD_TEST_GIT").unwrap_or_else(|| "git".into());
    let mut import = repo
        .command(Path::new(&git))
        .args(["fast-import", "--quiet", "--done"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("git starts");
    import.stdin.take().expect("piped").write_all(&stream).expect("git reads");
    assert!(import.wait().expect("our child").success());
}

#[test]
fn random_trees_are_checked_out_as_git_does() {
    let config =
        Config { cases: if full() { 400 } else { 40 }, failure_persistence: None, ..Config::default() };
    proptest!(config, |(first in tree(), second in tree())| {
        let sandbox = Sandbox::new();
        let made = sandbox.init("template");
        commit(&made, "first", &first);
        commit(&made, "second", &second);
        let oracle = Oracle::copies_of(SAPWOOD, &made);
        oracle.same_as("first", &["checkout", "first"]);
        oracle.same_as("second", &["checkout", "second"]);
        oracle.same_as("back", &["reset", "--hard", "first"]);
    });
}

#[test]
fn every_byte_can_stand_in_a_name() {
    let mut tree = BTreeMap::new();
    for byte in (1..=255u8).filter(|&byte| byte != b'/' && byte != b'\\') {
        let content = Node::File { executable: byte % 2 == 0, content: vec![byte] };
        let inner = BTreeMap::from([(vec![b'x', byte], content)]);
        tree.insert(vec![byte, b'y'], Node::Directory(inner));
    }
    let sandbox = Sandbox::new();
    let made = sandbox.init("template");
    commit(&made, "bytes", &tree);
    let oracle = Oracle::copies_of(SAPWOOD, &made);
    oracle.same_as("bytes", &["checkout", "bytes"]);
    let below: Vec<BString> = fs::read_dir(&oracle.ours().path)
        .expect("the worktree")
        .map(|entry| BString::from(entry.expect("readable").file_name().as_encoded_bytes()))
        .collect();
    assert_eq!(below.len(), tree.len() + 1);
}
