//! Random changes that users, editors and Git make to a worktree.

mod commands;

use std::{
    ffi::OsStr,
    fs::{self, File},
    io,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{MetadataExt as _, PermissionsExt as _, symlink},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use testkit::Repo;

use super::{
    Cache, Settings,
    audit::{Audit, Writer},
    watch::Watch,
};
use crate::random::Random;

/// Frequent names, so that edits collide at the same paths.
const NAMES: [&[u8]; 10] = [b"a", b"b", b"d", b"out", b"a.o", b"B", b"a-b", b"a.b", b"x y", b"link"];

/// Names that need quoting or escaping.
const ODD_NAMES: [&[u8]; 16] = [
    b"n\nl",
    b"q\"t",
    b"\xff\xfe",
    "é".as_bytes(),
    b"[ab]",
    b"#c",
    b"!n",
    b"*",
    b"back\\slash",
    b" ",
    b"tail ",
    b"-dash",
    b".hidden",
    b"t\tab",
    b":colon",
    b"new",
];

const CONTENTS: [&str; 9] = ["", "1\n", "2\n", "x\n", "no end", "three\n", "1\n2\n3\n", "side\n", "\0\n"];

/// Lines of the files in which renames are detected.
pub(super) const LINES: [&str; 12] = [
    "the first line\n",
    "the second one\n",
    "three of them now\n",
    "four\n",
    "five, and more of it\n",
    "six\n",
    "seven is long, too, so that a chunk is full of it\n",
    "eight\n",
    "nine\n",
    "ten\n",
    "eleven\n",
    "twelve\n",
];

const RULES: [&str; 22] = [
    "",
    "*.o\n",
    "out/\n",
    "/d\n",
    "a\n",
    "b\n!d/b\n",
    "a*/b\n",
    "*\n!*/\n",
    "*\n!d\n!a\n",
    "!a.o\n",
    "d/d/\n",
    "**/a\n",
    "d/**\n",
    "/d/*\n!/d/a\n",
    "x\\ y\n\\#c\n\\!n\n",
    "[ab]\n",
    "# nothing\n\n  \n",
    "sub\n",
    "link\n",
    "\u{feff}b\r\na.b \n",
    ".gitignore\n",
    "é\n*~\n?\n",
];

const TARGETS: [&str; 10] = ["a", "..", ".", "link", "nowhere", "d", "../out", "d/d", "/", "../sub"];

pub(super) struct RandomEdits<'a> {
    repo: &'a Repo<'a>,
    cache: Cache,
    minimal: bool,
    splits: bool,
    pub(super) random: Random,
    watch: Watch<'a>,
    pub(super) audit: Audit<'a>,
    /// The number of modification times assigned; each file gets its own second.
    moments: u64,
    /// The actions so far, the latest one last.
    pub(super) log: Vec<String>,
}

fn path_of(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

impl<'a> RandomEdits<'a> {
    pub(super) fn new(
        repo: &'a Repo<'a>,
        cache: Cache,
        settings: &Settings,
        random: Random,
        watch: Watch<'a>,
    ) -> Self {
        let mut edits = RandomEdits {
            repo,
            cache,
            minimal: settings.minimal,
            splits: settings.splits,
            random,
            watch,
            audit: Audit::new(repo, cache.daemon()),
            moments: 0,
            log: Vec::new(),
        };
        edits.age_all(&repo.path);
        edits.watch.look();
        edits
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.random.below(from.len())]
    }

    /// Returns true if Git's daemon reports changes.
    pub(super) fn has_daemon(&self) -> bool {
        self.cache.daemon()
    }

    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.random.below(times) == 0
    }

    fn name(&mut self) -> &'static [u8] {
        if self.once_in(6) { self.pick(&ODD_NAMES) } else { self.pick(&NAMES) }
    }

    /// Returns a random path that exists.
    fn found(&mut self) -> Option<Vec<u8>> {
        let count = self.watch.view.len();
        let at = (count > 0).then(|| self.random.below(count))?;
        let found = self.watch.view.keys().nth(at).expect("less than their number");
        let is_inside = found.windows(5).any(|part| part == b"/.git");
        (!is_inside).then(|| found.clone())
    }

    /// Returns a random path, which may exist or not.
    pub(super) fn path(&mut self) -> Vec<u8> {
        if self.once_in(3)
            && let Some(found) = self.found()
        {
            return found;
        }
        let depth = [1, 1, 2, 2, 2, 3, 3, 4][self.random.below(8)];
        let names: Vec<&[u8]> = (0..depth).map(|_| self.name()).collect();
        names.join(&b'/')
    }

    /// Returns true if a path is, or lies in, a nested repository or a directory that looks like
    /// one.
    fn is_nested(&self, path: &[u8]) -> bool {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let mut dirs = ends.chain([path.len()]);
        dirs.any(|end| self.watch.view.contains_key(&[&path[..end], &b"/.git"[..]].concat()))
    }

    fn is_behind_a_link(&self, path: &[u8]) -> bool {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        ends.map(|end| self.place(&path[..end])).any(|above| above.is_symlink())
    }

    /// Returns a random directory of the repository, often its root.
    pub(super) fn directory(&mut self) -> Vec<u8> {
        let is_dir = |mode: u32| mode & 0o170_000 == 0o040_000;
        let found = self.watch.view.iter().filter(|(path, sight)| is_dir(sight.0) && !self.is_nested(path));
        let found: Vec<Vec<u8>> = found.map(|(path, _)| path.clone()).collect();
        if found.is_empty() || self.once_in(3) {
            return Vec::new();
        }
        found[self.random.below(found.len())].clone()
    }

    fn place(&self, path: &[u8]) -> PathBuf {
        self.repo.join(path)
    }

    /// Creates the parent directories of a path, and removes files in their place.
    fn make_way(&self, path: &[u8]) -> io::Result<()> {
        for (at, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            let above = self.place(&path[..at]);
            match above.symlink_metadata() {
                Ok(meta) if meta.is_dir() => continue,
                Ok(_) => fs::remove_file(&above)?,
                Err(_) => {}
            }
            fs::create_dir(&above)?;
        }
        Ok(())
    }

    fn clear(&self, path: &[u8]) -> io::Result<()> {
        self.make_way(path)?;
        let place = self.place(path);
        match place.symlink_metadata() {
            Ok(meta) if meta.is_dir() => fs::remove_dir_all(place),
            Ok(_) => fs::remove_file(place),
            Err(_) => Ok(()),
        }
    }

    fn content(&mut self) -> Vec<u8> {
        if self.once_in(4) {
            let (from, more) = (self.random.below(6), 4 + self.random.below(6));
            return LINES[from..(from + more).min(LINES.len())].concat().into_bytes();
        }
        self.pick(&CONTENTS).into()
    }

    /// Sets a modification time long ago that no other file has. It is older than every index.
    fn age(&mut self, place: &Path) {
        if place.symlink_metadata().is_ok_and(|meta| meta.is_file() || meta.is_dir()) {
            self.moments += 1;
            let time = UNIX_EPOCH + Duration::from_secs(1_000_000_000 + self.moments);
            let _ = File::open(place).and_then(|file| file.set_modified(time));
        }
    }

    fn age_all(&mut self, dir: &Path) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_name() == ".git" {
                continue;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.age_all(&entry.path());
            }
            self.age(&entry.path());
        }
        self.age(dir);
    }

    /// Returns true if a file moved to this place could not be distinguished from the file that it
    /// replaces. Symlinks keep their times.
    fn is_twin(&self, place: &Path) -> bool {
        self.minimal && place.symlink_metadata().is_ok_and(|meta| !meta.is_file())
    }

    /// Without inodes in the comparison, a moved file with the same time and size looks unchanged.
    fn age_moved(&mut self) {
        if self.minimal {
            self.age_all(&self.repo.path.clone());
        }
    }

    /// Makes a few changes, and reports them to the monitor.
    pub(super) fn step(&mut self, number: usize) {
        for _ in 0..=self.random.below(3) {
            let path = self.path();
            let kind = self.random.below(43);
            self.log.push(format!("step {number}: {kind} {}", path.escape_ascii()));
            let done = if kind < 33 { self.edit(kind, &path) } else { self.command(&path) };
            if let Err(error) = done {
                self.log.push(format!("    {error}"));
            }
        }
        if self.once_in(5) {
            self.age_all(&self.repo.path.clone());
            self.log.push("everything is old".into());
        }
        self.watch.look();
    }

    /// Makes a change that needs no process.
    fn edit(&mut self, kind: usize, path: &[u8]) -> io::Result<()> {
        let place = self.place(path);
        match kind {
            0..=3 => {
                if self.once_in(2) {
                    self.clear(path)?;
                } else {
                    self.make_way(path)?;
                }
                fs::write(place, self.content())
            }
            4 | 5 => {
                // Overwrites in place with the same size, often within the clock tick of the
                // previous write.
                let size =
                    place.symlink_metadata().map(|meta| if meta.is_file() { meta.size() } else { 0 })?;
                for _ in 0..=self.random.below(2) {
                    let letter = self.pick(b"pqrs");
                    if size > 0 {
                        fs::write(&place, vec![letter; usize::try_from(size).expect("small")])?;
                    }
                }
                Ok(())
            }
            6 if place.symlink_metadata()?.is_file() => fs::write(&place, fs::read(&place)?),
            7 | 8 => {
                let meta = place.symlink_metadata()?;
                if meta.is_dir() { fs::remove_dir_all(place) } else { fs::remove_file(place) }
            }
            9 | 10 => {
                let other = self.path();
                place.symlink_metadata()?;
                if other.starts_with(path) || path.starts_with(&other[..]) || self.is_twin(&place) {
                    return Ok(());
                }
                self.clear(&other)?;
                self.log.push(format!("    to {}", other.escape_ascii()));
                fs::rename(place, self.place(&other))?;
                self.age_moved();
                Ok(())
            }
            11 | 12 if place.symlink_metadata()?.is_file() => {
                let mode = self.pick(&[0o644, 0o755, 0o600, 0o744]);
                fs::set_permissions(place, fs::Permissions::from_mode(mode))
            }
            13 => {
                let later = Duration::from_secs(if self.once_in(4) { 3600 } else { 0 });
                if !place.symlink_metadata()?.is_symlink() {
                    File::open(place)?.set_modified(SystemTime::now() + later)?;
                }
                Ok(())
            }
            14 => {
                self.age(&place);
                Ok(())
            }
            15 => {
                self.clear(path)?;
                fs::create_dir(&place)?;
                let name = self.name();
                fs::write(place.join(path_of(name)), self.content())
            }
            16 | 17 => {
                let target = self.pick(&TARGETS);
                self.clear(path)?;
                symlink(target, place)
            }
            18 => {
                self.make_way(path)?;
                fs::create_dir(place)
            }
            19..=21 => {
                let dir = self.directory_of(path);
                let place = self.place(&dir).join(".gitignore");
                let rules = self.pick(&RULES);
                if self.once_in(8) {
                    let _ = fs::remove_file(&place);
                    return if self.once_in(2) { Ok(()) } else { symlink("a", place) };
                }
                fs::write(place, rules)
            }
            22 => fs::write(self.repo.join(".git/info/exclude"), self.pick(&RULES)),
            23 => fs::write(self.repo.join(".git/excludes"), self.pick(&RULES)),
            24 => self.nest(path),
            25 => {
                let other = self.path();
                let to = self.place(&other);
                place.symlink_metadata().and_then(|_| to.symlink_metadata())?;
                let aside = self.repo.join(".git/aside");
                let nested = other.starts_with(path) || path.starts_with(&other[..]);
                if nested || self.is_twin(&place) || self.is_twin(&to) {
                    return Ok(());
                }
                self.log.push(format!("    and {}", other.escape_ascii()));
                fs::rename(&place, &aside)?;
                fs::rename(&to, &place)?;
                fs::rename(aside, &to)?;
                self.age_moved();
                Ok(())
            }
            26 if self.once_in(3) => {
                self.clear(path)?;
                UnixListener::bind(place).map(drop)
            }
            // The daemon reports a change under the name that was used for it, not under other hard
            // links.
            27 if !self.cache.daemon() && place.symlink_metadata()?.is_file() => {
                let other = self.path();
                if !other.starts_with(path) {
                    self.clear(&other)?;
                    fs::hard_link(place, self.place(&other))?;
                }
                Ok(())
            }
            28 => {
                let what = self.pick(&["sub/file", "sub/new", "sub/.gitignore"]);
                let content = self.content();
                self.make_way(what.as_bytes())?;
                fs::write(self.repo.join(what), content)
            }
            // Without an index that should be sparse, Git reports directories as files.
            29 if !self.cache.cone() && self.once_in(40) => fs::remove_file(self.repo.join(".git/index")),
            // Moves a directory and puts a link to it in its place. Git fails if the place is a
            // submodule's.
            30 | 31 if path != b"sub" && place.symlink_metadata()?.is_dir() => {
                let other = self.path();
                let nested = other.starts_with(path) || path.starts_with(&other[..]);
                if nested || self.is_twin(&place) {
                    return Ok(());
                }
                self.clear(&other)?;
                self.log.push(format!("    to {}", other.escape_ascii()));
                let to = self.place(&other);
                fs::rename(&place, &to)?;
                self.age_moved();
                symlink(to, place)
            }
            // Moves the directory back.
            32 if place.symlink_metadata()?.is_symlink() && place.is_dir() => {
                let from = fs::read_link(&place)?;
                if from.is_absolute() && from.starts_with(&self.repo.path) && from != self.repo.path {
                    fs::remove_file(&place)?;
                    fs::rename(from, place)?;
                    self.age_moved();
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn directory_of(&mut self, path: &[u8]) -> Vec<u8> {
        if self.once_in(2) {
            return self.directory();
        }
        let end = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let dir = path[..end].to_vec();
        let is_dir = self.place(&dir).symlink_metadata().is_ok_and(|meta| meta.is_dir());
        if is_dir { dir } else { Vec::new() }
    }

    /// Creates a repository in the worktree, or a directory that looks like one.
    fn nest(&mut self, path: &[u8]) -> io::Result<()> {
        self.make_way(path)?;
        let place = self.place(path);
        // A link may lead out of the worktree, even to the root of the file system. Nothing is
        // created there.
        let root = self.place(b"").canonicalize()?;
        if place.is_symlink() && !place.canonicalize().is_ok_and(|place| place.starts_with(root)) {
            return Ok(());
        }
        let git = place.join(".git");
        if git.symlink_metadata().is_ok() {
            return if self.once_in(2) { fs::remove_dir_all(git) } else { Ok(()) };
        }
        match self.random.below(5) {
            0 => {
                fs::create_dir_all(place)?;
                fs::write(git, self.pick(&["gitdir: nowhere\n", "nonsense\n", ""]))
            }
            1 => fs::create_dir_all(git),
            _ => {
                // HEAD comes last and turns the directory into a repository; the parent directory
                // has changed since the last scan all the same.
                for dir in ["objects", "refs/heads"] {
                    fs::create_dir_all(git.join(dir))?;
                }
                fs::write(git.join("HEAD"), "ref: refs/heads/main\n")
            }
        }
    }

    /// Checks the index after a command that may have written it.
    pub(super) fn wrote(&mut self, writer: Writer) {
        let happened = if self.has_daemon() { self.watch.look() } else { Vec::new() };
        let judged = self.audit.verify(writer, &happened);
        self.must(judged);
    }

    pub(super) fn must(&self, judged: Result<(), String>) {
        if let Err(message) = judged {
            panic!("{message} in {}\n{:#?}", self.repo.path.display(), self.log);
        }
    }

    /// Reports files that a command created or removed.
    pub(super) fn tell(&mut self) {
        self.watch.look();
    }
}
