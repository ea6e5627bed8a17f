//! Tests with Git as oracle: for every object, the result is that of `git cat-file`.

#![allow(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

mod damage;
mod handmade;
mod limits;
mod storage;

use super::*;

/// Runs Git in a directory, without the user's configuration. It must succeed. `SAPWOOD_TEST_GIT`
/// names the program; the default is the one in `PATH`.
fn git(dir: &Path, args: &[&str]) -> Vec<u8> {
    let program = std::env::var_os("SAPWOOD_TEST_GIT").unwrap_or_else(|| "git".into());
    let output = Command::new(program)
        .args(args)
        .current_dir(dir)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .envs([("HOME", "/nonexistent"), ("GIT_CONFIG_NOSYSTEM", "1")])
        .envs(["AUTHOR", "COMMITTER"].map(|who| (format!("GIT_{who}_DATE"), "1700000000 +0000")))
        .envs(["AUTHOR", "COMMITTER"].into_iter().flat_map(|who| {
            ["NAME", "EMAIL"].map(|what| (format!("GIT_{who}_{what}"), "somebody@example.com"))
        }))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Returns all objects with type and content, in order of names.
fn all_objects(dir: &Path, hash: HashKind) -> Vec<(ObjectId, Kind, Vec<u8>)> {
    let out = git(dir, &["cat-file", "--batch-all-objects", "--batch"]);
    let mut rest = &out[..];
    let mut objects = Vec::new();
    while !rest.is_empty() {
        let end = rest.iter().position(|&byte| byte == b'\n').unwrap();
        let line: Vec<&[u8]> = rest[..end].split(|&byte| byte == b' ').collect();
        let size: usize = std::str::from_utf8(line[2]).unwrap().parse().unwrap();
        let content = rest[end + 1..][..size].to_vec();
        rest = &rest[end + 1 + size + 1..];
        objects.push((
            ObjectId::from_hex(hash, line[0]).unwrap(),
            Kind::from_name(line[1]).unwrap(),
            content,
        ));
    }
    objects
}

fn objects_dir(repo: &Path) -> PathBuf {
    let bare = repo.join("objects");
    if bare.is_dir() { bare } else { repo.join(".git/objects") }
}

/// Reads all objects in the given order with one reader.
fn assert_reads(objects: &Objects, expected: &[(ObjectId, Kind, Vec<u8>)]) {
    let mut reader = objects.reader();
    for (oid, kind, content) in expected {
        let (found_kind, found) = reader.read(oid).unwrap_or_else(|error| panic!("{oid}: {error:?}"));
        assert_eq!(found_kind, *kind, "{oid}");
        assert!(found == content, "{oid}");
        assert_eq!(reader.header(oid).unwrap(), (*kind, content.len() as u64), "{oid}");
        assert!(objects.contains(oid));
        let located = reader.read_located(oid, objects.locate(oid), u64::MAX).unwrap();
        assert!(
            matches!(located, Content::Whole(found, bytes) if found == *kind && bytes == content),
            "{oid}"
        );
        let mut streamed = Vec::new();
        let mut sink = |piece: &[u8]| {
            streamed.extend_from_slice(piece);
            Ok(())
        };
        reader.stream(oid, &mut sink).unwrap_or_else(|error| panic!("{oid}: {error:?}"));
        assert!(streamed == *content, "{oid}");
    }
}

/// Makes a repository with some history, in which all objects are loose.
fn small_repo(dir: &Path, format: &str) {
    git(dir, &["init", "-q", "-b", "main", "--object-format", format]);
    for round in 0..12u32 {
        let mut text: String = (0..400).map(|line| format!("line {line} of {}\n", line % 7)).collect();
        text.insert_str((round * 137) as usize, &format!("round {round}\n"));
        std::fs::write(dir.join("text"), &text).unwrap();
        std::fs::write(dir.join(format!("file {round}")), format!("{round}").repeat(round as usize)).unwrap();
        git(dir, &["add", "."]);
        git(dir, &["commit", "-q", "-m", &format!("round {round}")]);
    }
    git(dir, &["tag", "-a", "-m", "a tag", "v1"]);
}

const FORMATS: [(&str, HashKind); 2] = [("sha1", HashKind::Sha1), ("sha256", HashKind::Sha256)];
