//! Renames and copies: pairs and scores equal those of Git.

use std::{collections::BTreeMap, fmt::Write as _, path::Path};

use bstr::{BString, ByteSlice as _};
use engine::{
    diff::{
        self, Pair,
        renames::{self, Detect, Empty, Options},
    },
    pathspec::Pathspecs,
};
use format::ObjectId;
use repo::{OpenOptions, Repository};
use testkit::{Repo, Sandbox};

/// A small random number generator. Its seed reproduces a case.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) % sides as u64) as usize
    }

    fn one_in(&mut self, sides: usize) -> bool {
        self.roll(sides) == 0
    }

    fn path(&mut self) -> String {
        const DIRS: [&str; 5] = ["", "a/", "b/", "b/c/", "deep/er/"];
        const NAMES: [&str; 9] = ["x", "y", "z", "Makefile", "one.c", "two.c", "three.c", "four", "five"];
        format!("{}{}", DIRS[self.roll(DIRS.len())], NAMES[self.roll(NAMES.len())])
    }

    /// Returns lines from a small vocabulary, so that files share some lines by chance. May return
    /// no lines.
    fn content(&mut self) -> Vec<u8> {
        if self.one_in(12) {
            return Vec::new();
        }
        let end = if self.one_in(4) { "\r\n" } else { "\n" };
        let mut content = Vec::new();
        for _ in 0..self.roll(30) {
            self.line(&mut content, end);
        }
        if self.one_in(6) {
            content.push(0);
        }
        if self.one_in(6) {
            content.retain(|byte| *byte != b'\n');
        }
        content
    }

    fn line(&mut self, content: &mut Vec<u8>, end: &str) {
        content.extend_from_slice(format!("line {} {}", self.roll(60), "of".repeat(self.roll(9))).as_bytes());
        content.extend_from_slice(end.as_bytes());
    }

    fn edit(&mut self, content: &mut Vec<u8>) {
        for _ in 0..1 + self.roll(6) {
            match self.roll(4) {
                0 => self.line(content, "\n"),
                1 => content.truncate(self.roll(content.len() + 1)),
                2 => drop(content.drain(..self.roll(content.len() / 2 + 1))),
                _ if content.is_empty() => content.push(b'x'),
                _ => {
                    let at = self.roll(content.len());
                    content[at] = b'#';
                }
            }
        }
    }
}

#[derive(Clone)]
enum Item {
    File(Vec<u8>),
    Executable(Vec<u8>),
    Link(String),
}

fn put(repo: &Repo<'_>, path: &str, item: &Item) {
    match item {
        Item::File(content) => repo.write(path, content),
        Item::Executable(content) => repo.write_executable(path, content),
        Item::Link(target) => repo.symlink(target, path),
    }
}

/// Creates a repository with a commit, and a different state in the worktree.
fn create_case(repo: &Repo<'_>, dice: &mut Dice) {
    let mut files: BTreeMap<String, Item> = BTreeMap::new();
    for _ in 0..5 + dice.roll(25) {
        let item = match dice.roll(12) {
            0 => Item::Link(format!("to {}", dice.roll(3))),
            1 => Item::Executable(dice.content()),
            // The content is a copy of another file's.
            2 | 3 if !files.is_empty() => files.values().nth(dice.roll(files.len())).expect("there").clone(),
            _ => Item::File(dice.content()),
        };
        files.insert(dice.path(), item);
    }
    files.iter().for_each(|(path, item)| put(repo, path, item));
    repo.write("stays", "as it is\n");
    if dice.one_in(2) {
        repo.write(".gitattributes", "*.c -diff\nx diff\nfour diff=yes\nfive diff=no\n");
        repo.git(&["config", "diff.yes.binary", "true"]);
        repo.git(&["config", "diff.no.binary", "false"]);
    }
    repo.commit("one");
    files.keys().for_each(|path| repo.remove(path));
    for _ in 0..3 + dice.roll(25) {
        let Some(path) = files.keys().nth(dice.roll(files.len().max(1))).cloned() else { break };
        let mut item = files[&path].clone();
        if dice.roll(5) > 1 {
            files.remove(&path);
        }
        match &mut item {
            Item::File(content) | Item::Executable(content) if !dice.one_in(3) => dice.edit(content),
            _ => {}
        }
        if !dice.one_in(8) {
            files.insert(dice.path(), item);
        }
    }
    files.iter().for_each(|(path, item)| put(repo, path, item));
}

fn open(repo: &Repo<'_>) -> Repository {
    let command = repo.command(Path::new("git"));
    let env = command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
    let options = OpenOptions { cwd: repo.path.clone(), env: env.collect(), ..OpenOptions::default() };
    Repository::open(&options).expect("a repository")
}

/// Formats pairs as `--raw -z --no-abbrev` prints them.
fn raw(pairs: &[Pair], null: ObjectId) -> String {
    let mut text = String::new();
    for pair in pairs {
        let side = |side: Option<diff::Side>| match side {
            Some(side) => (side.mode.bits(), side.oid.unwrap_or(null)),
            None => (0, null),
        };
        let ((old_mode, old), (new_mode, new)) = (side(pair.old), side(pair.new));
        let letter = char::from(pair.status.letter());
        write!(text, ":{old_mode:06o} {new_mode:06o} {old} {new} {letter}").expect("to a string");
        if let Some(source) = &pair.source {
            write!(text, "{:03}\0{source}", pair.score * 100 / diff::MAX_SCORE).expect("to a string");
        }
        write!(text, "\0{}\0", pair.path).expect("to a string");
    }
    text
}

#[test]
fn finds_the_renames_that_git_finds() {
    let cases: u64 = if std::env::var_os("SAPWOOD_TEST_FULL").is_some() { 1000 } else { 30 };
    let kinds: [(&[&str], Detect, u32, usize); 7] = [
        (&["-M"], Detect::Renames, 0, 1000),
        (&["-M20%"], Detect::Renames, 12_000, 1000),
        (&["-M9"], Detect::Renames, 54_000, 1000),
        (&["-M100%"], Detect::Renames, 60_000, 1000),
        (&["-M", "-l3"], Detect::Renames, 0, 3),
        (&["-C", "-l0"], Detect::Copies, 0, 0),
        (&["-C30%"], Detect::Copies, 18_000, 1000),
    ];
    let (mut renamed, mut copied) = (0, 0);
    for case in 0..cases {
        let sandbox = Sandbox::new();
        let repo = sandbox.init("repo");
        create_case(&repo, &mut Dice(case));
        repo.git(&["add", "-A"]);
        let opened = open(&repo);
        let root = sys::Dir::open(&repo.path).expect("the worktree");
        let index = store::index::load(&opened.index_path(), opened.hash(), &Default::default());
        let index = index.expect("an index");
        let tree = repo.git(&["rev-parse", "HEAD^{tree}"]).stdout;
        let tree = ObjectId::from_hex(opened.hash(), tree.trim_ascii()).expect("a name");
        let all = Pathspecs::default();
        for (args, detect, minimum, limit) in kinds {
            let pairs = diff::staged(&opened, &root, &index, Some(tree), &all, None, None).expect("is read");
            let options = Options {
                detect,
                minimum,
                limit,
                empty: Empty::Included,
                worktree: Some(diff::WorktreeFiles { root: &root, index: &index }),
            };
            let found = renames::detect(&opened, pairs, &options).expect("can be read");
            let is_skipped = found.skipped.is_some();
            let pairs = found.resolved();
            let raw = raw(&pairs, ObjectId::null(opened.hash()));
            let args = [&["diff-index", "--cached", "--raw", "-z", "--no-abbrev"], args, &["HEAD"]].concat();
            let expected = repo.git(&args);
            assert_eq!(
                BString::from(raw).replace("\0", "\n"),
                expected.stdout.replace("\0", "\n"),
                "case {case}: {args:?}"
            );
            assert_eq!(is_skipped, !expected.stderr.is_empty(), "case {case}: {args:?}");
            renamed += pairs.iter().filter(|pair| pair.status == diff::Status::Renamed).count();
            copied += pairs.iter().filter(|pair| pair.status == diff::Status::Copied).count();
        }
    }
    assert!(renamed > 100 && copied > 20, "{renamed} renames, {copied} copies: the dice are loaded");
}
