//! `sapwood doctor` in ten kinds of repositories: one screen of 80 columns, the expected findings,
//! the exit code, and no change of any file.

use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt as _, path::Path, process::Command};

use bstr::ByteSlice as _;
use serde_json::Value;
use testkit::{
    Repo, Run, Sandbox,
    weather::{Mount, Profile, usable},
};

use crate::{SAPWOOD, index_info};

const ROWS: usize = 40;
const COLUMNS: usize = 80;

/// The report for people and the one for scripts.
struct Doctor {
    text: String,
    json: Value,
    code: i32,
}

impl Doctor {
    /// Runs both reports in `repo`. They must change no file, and print nothing on standard error.
    #[track_caller]
    fn of(repo: &Repo<'_>) -> Doctor {
        let before = state(&repo.path);
        let text = repo.run(SAPWOOD.as_ref(), &["doctor"]);
        let json = repo.run(SAPWOOD.as_ref(), &["doctor", "--json"]);
        assert_eq!(before, state(&repo.path), "the doctor writes nothing");
        Doctor::checked(&text, &json)
    }

    #[track_caller]
    fn checked(text: &Run, json: &Run) -> Doctor {
        assert_eq!((text.stderr.as_bstr(), json.stderr.as_bstr()), (b"".as_bstr(), b"".as_bstr()));
        assert_eq!(text.code, json.code);
        let text_lines = text.stdout.to_str().expect("words").to_owned();
        println!("{text_lines}");
        assert!(text_lines.lines().count() <= ROWS, "one screen: {text_lines}");
        for line in text_lines.lines().filter(|line| line.contains(' ')) {
            let is_path = line.trim_start().starts_with("rm /") || line.trim_start().starts_with("mv /");
            assert!(is_path || line.chars().count() <= COLUMNS, "{line}");
        }
        let json: Value = serde_json::from_slice(&json.stdout).expect("one document");
        assert_eq!(json["exit_code"], text.code);
        Doctor { text: text_lines, json, code: text.code }
    }

    fn findings(&self) -> Vec<&str> {
        let findings = self.json["findings"].as_array().expect("a list");
        let names = findings.iter().map(|finding| finding["id"].as_str().expect("a name"));
        // A busy machine is slow, which may cause this finding; a unit test covers it.
        names.filter(|name| *name != "monitor-off").collect()
    }

    /// Returns the text with single spaces and without line breaks, to search for phrases.
    fn words(&self) -> String {
        self.text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[track_caller]
    fn says(&self, words: &str) {
        assert!(self.words().contains(words), "not '{words}': {}", self.text);
    }
}

/// Returns each path below `top` with the stat fields that a write would change.
fn state(top: &Path) -> BTreeMap<std::path::PathBuf, (u64, i64, i64, u64)> {
    let (mut found, mut dirs) = (BTreeMap::new(), vec![top.to_owned()]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten() {
            let path = entry.expect("an entry").path();
            let stat = fs::symlink_metadata(&path).expect("there");
            if stat.is_dir() {
                dirs.push(path.clone());
            }
            found.insert(path, (stat.ino(), stat.mtime(), stat.mtime_nsec(), stat.size()));
        }
    }
    found
}

fn small(repo: &Repo<'_>) {
    repo.write("dir/a", "1\n");
    repo.write("b", "2\n");
    repo.commit("one");
}

/// Creates a hundred thousand files in a thousand directories, in the index and in a commit.
fn large<'s>(sandbox: &'s Sandbox, name: &str) -> Repo<'s> {
    let repo = sandbox.init(name);
    repo.write("a", "1\n");
    repo.git(&["add", "a"]);
    let blob = repo.git(&["rev-parse", ":a"]).stdout.trim().to_str().expect("hex").to_owned();
    let mut lines = String::new();
    for number in 0..100_000 {
        lines += &format!("100644 {blob}\tdir-{:04}/file-{number}\n", number / 100);
    }
    index_info(&repo, &lines);
    repo.git(&["commit", "-qm", "one"]);
    repo
}

#[test]
fn small_repository() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    small(&repo);
    let doctor = Doctor::of(&repo);
    assert_eq!((doctor.code, doctor.findings().len()), (0, 0));
    doctor.says("files 2 files in 1 directory");
    doctor.says("a stat takes");
    doctor.says("status of 2 files needs about");
    doctor.says("Nothing is damaged here");
    assert_eq!(doctor.json["schema"], 1);
    assert_eq!(doctor.json["repository"]["state"], "open");
    assert_eq!(doctor.json["facts"]["index"]["entries"], 2);
    assert_eq!(doctor.json["facts"]["sample"]["files"], 2);
    let version = repo.git(&["version"]).stdout;
    let version = version.trim().strip_prefix(b"git version ").expect("a version").to_str_lossy();
    assert_eq!(doctor.json["real_git"]["version"], *version);
    assert_eq!(doctor.json["git"]["is_sapwood"], false);
}

#[test]
fn large_repository() {
    let sandbox = Sandbox::new();
    let repo = large(&sandbox, "repo");
    let doctor = Doctor::of(&repo);
    assert_eq!(doctor.code, 0);
    assert_eq!(doctor.json["facts"]["index"]["entries"], 100_001);
    assert_eq!(doctor.json["facts"]["index"]["directories"], 1000);
    assert_eq!(doctor.findings(), ["untracked-cache-off", "skip-hash", "index-version"]);
    doctor.says("the untracked cache is off: each status lists 1,000 directories git config");
    // The predicted smaller size equals the size of the index that Git writes.
    let facts = &doctor.json["facts"]["index"];
    let expected =
        facts["bytes"].as_u64().expect("a size") - facts["bytes_saved_by_version_4"].as_u64().expect("one");
    repo.git(&["update-index", "--index-version", "4"]);
    let size = fs::metadata(repo.join(".git/index")).expect("there").size();
    assert!(size.abs_diff(expected) * 20 < size, "{size}, expected {expected}");
    assert_eq!(Doctor::of(&repo).findings(), ["untracked-cache-off", "skip-hash"]);
    repo.git(&["config", "core.untrackedCache", "true"]);
    assert_eq!(Doctor::of(&repo).findings(), ["untracked-cache-empty", "skip-hash"]);
    repo.git(&["config", "index.skipHash", "true"]);
    repo.git(&["status", "-unormal"]);
    assert!(Doctor::of(&repo).findings().is_empty());
}

#[test]
fn sparse_repository() {
    let sandbox = Sandbox::new();
    let repo = large(&sandbox, "repo");
    repo.git(&["config", "index.skipHash", "true"]);
    repo.git(&["config", "core.untrackedCache", "false"]);
    repo.git(&["update-index", "--index-version", "4"]);
    repo.git(&["sparse-checkout", "set", "--no-sparse-index", "dir-0007"]);
    let doctor = Doctor::of(&repo);
    doctor.says("99,900 not in the worktree (sparse)");
    doctor.says("status of 101 files needs");
    assert!(doctor.findings().contains(&"sparse-index"), "{:?}", doctor.findings());
    repo.git(&["sparse-checkout", "reapply", "--sparse-index"]);
    let doctor = Doctor::of(&repo);
    assert!(!doctor.findings().contains(&"sparse-index"), "{:?}", doctor.findings());
    assert_eq!(doctor.json["facts"]["index"]["sparse"], true);
    doctor.says("because the worktree is sparse: stash push");
    assert_eq!(doctor.code, 1);
}

/// A FUSE file system stands in for a network disk.
#[test]
fn network_disk() {
    if let Err(why) = usable() {
        return println!("skipped: {why}");
    }
    let sandbox = Sandbox::new();
    let mount = Mount::new(&Profile::calm(), &sandbox.path().join("mount")).expect("mounted");
    let repo = sandbox.init("mount/disk/repo");
    for number in 0..60 {
        repo.write(format!("dir-{number}/a"), format!("{number}\n"));
    }
    repo.commit("one");
    let doctor = Doctor::of(&repo);
    doctor.says("disk fuse");
    doctor.says(", not local: each call is a request");
    assert_eq!(doctor.json["facts"]["disk"]["local"], false);
    assert_eq!(doctor.findings(), ["untracked-cache-off"]);
    repo.git(&["config", "core.fsmonitor", "true"]);
    let doctor = Doctor::of(&repo);
    assert_eq!(doctor.findings(), ["untracked-cache-off", "monitor-unfit"]);
    doctor.says("remote repository");
    drop(repo);
    mount.end().expect("unmounted");
}

#[test]
fn submodules_and_filters() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    small(&repo);
    repo.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "./", "sub"]);
    repo.git(&["commit", "-qm", "sub"]);
    let doctor = Doctor::of(&repo);
    doctor.says("3 files in 1 directory, 1 submodule");
    assert_eq!(doctor.code, 0);
    // The filter as `git lfs install` configures it, and as old versions did.
    repo.git(&["config", "filter.lfs.clean", "git-lfs clean -- %f"]);
    repo.git(&["config", "filter.lfs.smudge", "git-lfs smudge -- %f"]);
    let doctor = Doctor::of(&repo);
    assert_eq!(doctor.findings(), ["filter-process"]);
    doctor.says("filter.lfs has no 'process': a program is started for each file git lfs install");
    repo.git(&["config", "filter.lfs.process", "git-lfs filter-process"]);
    assert!(Doctor::of(&repo).findings().is_empty());
}

#[test]
fn locked_index() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    small(&repo);
    repo.write(".git/index.lock", "");
    let doctor = Doctor::of(&repo);
    assert_eq!((doctor.code, doctor.findings()), (1, vec!["locked"]));
    doctor.says("'index.lock' is there since");
    doctor.says("handed over because the index is locked: ");
    let command = doctor.json["findings"][0]["command"].as_str().expect("a command");
    assert!(Command::new("sh").args(["-c", command]).status().expect("a shell").success());
    assert_eq!(Doctor::of(&repo).code, 0);
}

#[test]
fn broken_repositories() {
    let sandbox = Sandbox::new();
    for (name, damage, finding, words) in [
        ("index", "echo nonsense >.git/index", "index-broken", "the index cannot be read: "),
        (
            "checksum",
            "printf x | dd of=.git/index bs=1 seek=20 conv=notrunc status=none",
            "index-broken",
            "the index cannot be read: ",
        ),
        (
            "config",
            "printf '[core\\n' >>.git/config",
            "repository-broken",
            "the repository cannot be opened: bad config line ",
        ),
        (
            "objects",
            "rm -f .git/objects/$(git rev-parse HEAD^{tree} | sed 's:^..:&/:')",
            "objects-broken",
            "the commit of HEAD cannot be read: ",
        ),
        (
            "blobs",
            "rm -f .git/objects/$(git rev-parse HEAD:b | sed 's:^..:&/:')",
            "objects-broken",
            "1 of 2 objects that the index names are missing",
        ),
        (
            "alternates",
            "echo /nowhere >.git/objects/info/alternates",
            "alternate-missing",
            "object directory /nowhere does not exist",
        ),
    ] {
        let repo = sandbox.init(name);
        small(&repo);
        let shell = repo.command("sh".as_ref()).args(["-ec", damage]).status().expect("a shell");
        assert!(shell.success(), "{name}");
        let doctor = Doctor::of(&repo);
        assert_eq!((doctor.code, doctor.findings()), (1, vec![finding]), "{name}");
        doctor.says(words);
        doctor.says("Problems");
        doctor.says("real git");
    }
}

#[test]
fn no_repository() {
    let sandbox = Sandbox::new();
    let doctor = Doctor::of(&sandbox.repo(""));
    assert_eq!(doctor.code, 1);
    doctor.says("repository none: this directory is not in a Git repository");
    let commands = doctor.json["commands"].as_array().expect("a list");
    let is_clone = |command: &&Value| command["name"] == "clone" && command["native"] == true;
    assert!(commands.iter().any(|command| is_clone(&command)), "{commands:?}");
    assert!(!commands.iter().any(|command| command["name"] == "status"), "it needs a repository");
    doctor.says("real git");
    assert_eq!(doctor.json["repository"]["state"], "none");
    assert_eq!(doctor.json["facts"], Value::Null);
}

#[test]
fn objects_and_settings() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    small(&repo);
    repo.git(&["config", "maintenance.auto", "false"]);
    for number in 0..12 {
        repo.write("b", format!("{number}\n"));
        repo.commit("next");
        repo.git(&["repack", "-dq"]);
    }
    let doctor = Doctor::of(&repo);
    assert_eq!(doctor.findings(), ["multi-pack-index"]);
    doctor.says("12 packs without a multi-pack-index");
    repo.git(&["multi-pack-index", "write"]);
    assert!(Doctor::of(&repo).findings().is_empty());
    for (key, value, finding) in [
        ("core.preloadIndex", "false", "preload-index"),
        ("checkout.workers", "1", "checkout-workers"),
        ("index.threads", "1", "index-threads"),
        ("core.fsync", "committed", "fsync"),
    ] {
        repo.git(&["config", key, value]);
        assert!(Doctor::of(&repo).findings().contains(&finding), "{key}");
    }
    // Each suggested command fixes its finding.
    let doctor = Doctor::of(&repo);
    for finding in doctor.json["findings"].as_array().expect("a list") {
        let command = finding["command"].as_str().expect("a command");
        let shell = repo.command("sh".as_ref()).args(["-ec", command]).status().expect("a shell");
        assert!(shell.success(), "{command}");
    }
    assert!(Doctor::of(&repo).findings().is_empty());
    // The suggested value overrides one of the user's, and neither program warns of it.
    repo.git(&["config", "--global", "core.fsync", "all"]);
    assert!(Doctor::of(&repo).findings().is_empty());
    assert_eq!(repo.git(&["status", "-s"]).stderr, "");
    assert_eq!(repo.run(SAPWOOD.as_ref(), &["status", "-s"]).stderr, "");
}

/// A copied worktree has other times than the index, and `sapwood adopt` fixes that.
#[test]
fn copied_worktree() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    for number in 0..1_200 {
        repo.write(format!("a-{number}"), "1\n");
    }
    repo.commit("one");
    let copy = sandbox.repo("copy");
    let copied = Command::new("cp").arg("-r").arg(&repo.path).arg(&copy.path).status();
    assert!(copied.expect("cp").success());
    let doctor = Doctor::of(&copy);
    assert_eq!(doctor.findings(), ["stat-data"]);
    assert_eq!(doctor.json["findings"][0]["command"], "sapwood adopt");
    assert_eq!(copy.run(SAPWOOD.as_ref(), &["adopt", "-q"]).code, 0);
    assert!(Doctor::of(&copy).findings().is_empty());
}

#[test]
fn stale_worktrees() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    small(&repo);
    for number in 0..6 {
        repo.git(&["worktree", "add", "-q", "--detach", &format!("../linked-{number}")]);
    }
    for number in 0..5 {
        fs::remove_dir_all(sandbox.path().join(format!("linked-{number}"))).expect("removed");
    }
    let doctor = Doctor::of(&repo);
    assert_eq!(doctor.findings(), ["stale-worktrees"]);
    doctor.says("worktrees 6 beside the main one, 5 of them gone");
}

/// Colours are used on a terminal or on request; `NO_COLOR` disables them.
#[test]
fn colours() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    small(&repo);
    let with = |variable: Option<&str>, args: &[&str]| {
        let mut command = repo.command(SAPWOOD.as_ref());
        command.args(args).env("TERM", "xterm");
        variable.map(|value| command.env("NO_COLOR", value));
        command.output().expect("it runs").stdout
    };
    let always = ["-c", "color.ui=always", "doctor"];
    assert!(!with(None, &["doctor"]).contains(&b'\x1b'));
    let painted = with(None, &always);
    assert!(!with(Some("1"), &always).contains(&b'\x1b'));
    // Only bold, green, yellow and red: dim, white and blue are unreadable on some backgrounds.
    let codes: Vec<&[u8]> =
        painted.split_str("\x1b[").skip(1).map(|rest| rest.split_str("m").next().expect("one")).collect();
    assert!(!codes.is_empty());
    assert!(codes.iter().all(|code| [&b""[..], b"1", b"32", b"33", b"1;31"].contains(code)), "{codes:?}");
}
