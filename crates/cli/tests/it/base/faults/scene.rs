//! A remote with two bases, and the checks after a fault.

use std::{
    cell::{Cell, RefCell},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use testkit::{Repo, Run};

use super::super::{Fleet, base, base_done, files_below};
use crate::SAPWOOD;

/// A kind of file of a remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    Manifest,
    Branch,
    Table,
    Segment,
    Pack,
    /// The names of the objects in the pack.
    List,
}

/// A change to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// One bit in the middle.
    Flip,
    /// The second half is gone.
    Cut,
    Empty,
    Remove,
}

impl Damage {
    pub(super) fn apply(self, path: &Path) {
        let mut bytes = fs::read(path).expect("a file of the remote");
        match self {
            Damage::Flip => {
                let middle = bytes.len() / 2;
                bytes[middle] ^= 0x10;
            }
            Damage::Cut => bytes.truncate(bytes.len() / 2),
            Damage::Empty => bytes.clear(),
            Damage::Remove => return fs::remove_file(path).expect("it is there"),
        }
        replace(path, &bytes);
    }
}

/// Replaces a file that may be read-only.
pub(super) fn replace(path: &Path, bytes: &[u8]) {
    fs::remove_file(path).expect("it is there");
    fs::write(path, bytes).expect("written");
}

/// A fleet after a push, and a host that has nothing.
pub(super) struct Scene {
    pub(super) fleet: Fleet,
    hosts: Cell<usize>,
    /// Processes were killed: a pack may have stopped half-way, which `git gc` removes.
    pub(super) has_killed: Cell<bool>,
    sound: RefCell<Option<PathBuf>>,
}

impl Scene {
    pub(super) fn new() -> Scene {
        Scene::of(Fleet::new())
    }

    pub(super) fn of(fleet: Fleet) -> Scene {
        let scene =
            Scene { fleet, hosts: Cell::new(0), has_killed: Cell::new(false), sound: RefCell::default() };
        scene.fleet.push();
        scene
    }

    pub(super) fn head(&self) -> String {
        self.fleet.commit("HEAD")
    }

    pub(super) fn remote(&self) -> String {
        self.fleet.remote()
    }

    /// The host under test.
    pub(super) fn host(&self) -> Repo<'_> {
        match self.hosts.get() {
            0 => self.other_host(),
            number => self.fleet.sandbox.repo(&format!("host{number}")),
        }
    }

    /// A host that has nothing.
    pub(super) fn other_host(&self) -> Repo<'_> {
        self.hosts.set(self.hosts.get() + 1);
        self.fleet.host(&format!("host{}", self.hosts.get()))
    }

    pub(super) fn host_bases(&self) -> PathBuf {
        self.host();
        self.fleet.bases(&format!("host{}", self.hosts.get()))
    }

    /// The manifest of a commit.
    pub(super) fn manifest(&self, commit: &str) -> PathBuf {
        self.fleet.dir().join("commits").join(commit)
    }

    pub(super) fn json(&self) -> Value {
        let text = fs::read_to_string(self.manifest(&self.head())).expect("the manifest");
        let json = text.split("-----BEGIN").next().expect("the beginning");
        serde_json::from_str(json).expect("JSON")
    }

    fn data(&self, digest: &Value) -> PathBuf {
        let digest = digest.as_str().expect("digits");
        self.fleet.dir().join("data").join(&digest[..2]).join(digest)
    }

    /// A file of the base of HEAD.
    pub(super) fn file(&self, stored: Stored) -> PathBuf {
        let json = self.json();
        match stored {
            Stored::Manifest => self.manifest(&self.head()),
            Stored::Branch => self.fleet.dir().join("branches/main"),
            Stored::Table => self.data(&json["tables"][0]["digest"]),
            Stored::Segment => self.data(&json["tables"][0]["segment"]["digest"]),
            Stored::Pack => self.data(&json["packs"][0]["digest"]),
            Stored::List => self.data(&json["packs"][0]["list"]["digest"]),
        }
    }

    /// Changes a file of the remote. [`Scene::recovers`] takes the change back.
    pub(super) fn damage(&self, stored: Stored, damage: Damage) {
        self.keep_sound();
        damage.apply(&self.file(stored));
    }

    /// Copies the remote as it is.
    pub(super) fn keep_sound(&self) {
        let copy = self.fleet.sandbox.path().join("sound");
        let copied = Command::new("cp").arg("-a").args([&self.fleet.dir(), &copy]).status();
        assert!(copied.expect("cp runs").success());
        self.sound.replace(Some(copy));
    }

    /// Runs a pull of HEAD at the host.
    pub(super) fn pull(&self) -> Run {
        base(&self.host(), &["pull", "-q", &self.remote(), &self.head()])
    }

    /// A command at the host fails with this code and these words, and leaves no base.
    #[track_caller]
    pub(super) fn refused(&self, run: &Run, code: i32, words: &[&str]) {
        let said = run.stderr.to_string();
        assert_eq!(run.code, code, "{}{said}", run.stdout);
        for word in words {
            assert!(said.contains(word), "no '{word}' in: {said}");
        }
        assert!(!said.contains("panicked"), "{said}");
        assert_eq!(self.bases_here(), Vec::<String>::new());
        self.is_clean();
    }

    /// A pull of HEAD at the host is refused.
    #[track_caller]
    pub(super) fn pull_refused(&self, words: &[&str]) {
        self.refused(&self.pull(), 128, words);
    }

    /// The names of the bases at the host.
    pub(super) fn bases_here(&self) -> Vec<String> {
        let run = self.host().run(SAPWOOD.as_ref(), &["workspace", "base", "list"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        run.stdout.to_string().lines().map(str::to_owned).collect()
    }

    /// No temporary file is left at the host.
    #[track_caller]
    pub(super) fn is_clean(&self) {
        let host = self.host();
        let left = files_below(&self.host_bases()).into_iter().chain(files_below(&host.join(".git/objects")));
        let is_temporary = |path: &PathBuf| {
            let parts = path.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
            let has_killed = self.has_killed.get();
            parts
                .into_iter()
                .any(|part| part.starts_with(".transfer-") || part.starts_with("tmp_") && !has_killed)
        };
        assert_eq!(left.filter(is_temporary).collect::<Vec<_>>(), Vec::<PathBuf>::new());
    }

    /// The remote is sound again: a pull at the same host ends with right files.
    #[track_caller]
    pub(super) fn recovers(&self) {
        if let Some(sound) = self.sound.take() {
            fs::remove_dir_all(self.fleet.dir()).expect("removed");
            let copied = Command::new("cp").arg("-a").args([&sound, &self.fleet.dir()]).status();
            assert!(copied.expect("cp runs").success());
        }
        self.works();
    }

    /// A pull at the host ends with right files.
    #[track_caller]
    pub(super) fn works(&self) {
        let run = self.pull();
        assert_eq!(run.code, 0, "{}", run.stderr);
        self.fleet.works_at(&self.host(), &self.head());
        self.is_clean();
    }

    /// Commits a change at the origin.
    pub(super) fn change(&self, content: &str) {
        self.fleet.origin().write("file", content);
        self.fleet.origin().commit(content);
    }

    /// A push of HEAD.
    pub(super) fn push(&self) -> Run {
        base(&self.fleet.origin(), &["push", "-q", "--no-mount", &self.remote()])
    }

    /// A push of HEAD fails, and publishes nothing.
    #[track_caller]
    pub(super) fn push_refused(&self, words: &[&str]) {
        let run = self.push();
        assert_eq!(run.code, 128, "{}", run.stderr);
        for word in words {
            assert!(run.stderr.to_string().contains(word), "no '{word}' in: {}", run.stderr);
        }
        assert!(!self.manifest(&self.head()).exists(), "a manifest without files");
    }

    /// A push of HEAD succeeds, and a new host has right files.
    #[track_caller]
    pub(super) fn push_works(&self) {
        let run = self.push();
        assert_eq!(run.code, 0, "{}", run.stderr);
        self.other_host();
        self.works();
    }

    /// Rewrites the manifest of HEAD.
    pub(super) fn forge(&self, change: impl FnOnce(&mut Value)) {
        self.keep_sound();
        let mut json = self.json();
        change(&mut json);
        replace(&self.manifest(&self.head()), format!("{json:#}\n").as_bytes());
    }

    /// Writes a data file under its right name. Returns its digest.
    pub(super) fn store(&self, bytes: &[u8]) -> String {
        let scratch = self.fleet.sandbox.path().join("forged");
        fs::write(&scratch, bytes).expect("written");
        let sum = Command::new("sha256sum").arg(&scratch).output().expect("sha256sum runs").stdout;
        let digest = String::from_utf8_lossy(&sum[..64]).into_owned();
        let path = self.data(&Value::from(digest.as_str()));
        fs::create_dir_all(path.parent().expect("a directory")).expect("created");
        fs::rename(&scratch, &path).or_else(|_| fs::copy(&scratch, &path).map(drop)).expect("stored");
        digest
    }

    /// Removes the copies of tables and lists that the origin keeps.
    pub(super) fn forget_copies(&self) {
        fs::remove_dir_all(self.fleet.origin().join(".git/sapwood/bases/tables")).expect("the copies");
    }

    /// Pushes the commit before HEAD too.
    pub(super) fn push_parent(&self) {
        base_done(
            &self.fleet.origin(),
            &["push", "-q", "--no-mount", "--branch", "main", &self.remote(), "HEAD~1"],
        );
    }
}
