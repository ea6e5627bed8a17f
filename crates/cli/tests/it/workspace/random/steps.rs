//! The steps: edits like those of users, editors and builds, and commands of Git.

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{
    kept::Untracked,
    sides::{COMMITS, FILLER, Pair, Ran, Side},
};
use crate::random::Random;

/// Names that steps use. There are few, so that edits collide.
const NAMES: [&str; 14] =
    ["a", "b", "c", "d", "e", "long", "new", "run", "x y", "é", "a.o", "out", "b.log", "many"];

const TARGETS: [&str; 6] = ["a", "d/a", "nowhere", "..", "d", "../long"];

const RULES: [&str; 7] =
    ["", "*.o\n/out/\n", "*.o\nnew\n", "d/\n", "/many/*\n!/many/1\n", "*.log\n", "out\n*~\n"];

/// Scripts that mount something: `$1` is a new path outside of the worktree, `$2` the mount point.
/// If `$3` is `true`, the mount shows the files that it hides, with changes.
const MOUNT_DIRECTORY: &str = r#"mkdir "$1"; if $3; then cp -a "$2/." "$1"; fi
    echo in >"$1/a"; mkdir -p "$1/d"; echo in >"$1/d/new"; mount --bind "$1" "$2""#;
const MOUNT_MEMORY: &str = r#"mkdir "$1"; if $3; then cp -a "$2/." "$1"; fi
    mount -t tmpfs -o mode=755 x "$2"; cp -a "$1/." "$2"; echo in >"$2/new""#;
const MOUNT_FILE: &str = r#"if $3; then cp -a "$2" "$1"; else echo in >"$1"; fi; mount --bind "$1" "$2""#;

/// Directories that are files in other commits, so that a mount there blocks most checkouts.
const REPLACED: [&str; 3] = ["c", "d/d", "link"];

/// The largest number of mounts inside a worktree at one time.
const MOST_MOUNTS: usize = 3;

pub(super) struct RandomSteps<'a> {
    pair: &'a Pair<'a>,
    random: Random,
    /// Present if steps mount something inside the worktrees.
    mounts: Option<Mounts>,
    /// True after a mount point blocked a checkout, see [`Ran::Blocked`].
    pub(super) is_over: bool,
    is_sparse: bool,
    pub(super) log: Vec<String>,
    /// The number of successful steps and of all steps, by kind.
    done: BTreeMap<&'static str, (usize, usize)>,
}

/// Mounts inside the worktrees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inside {
    Nothing,
    Mounts,
}

/// The mounts inside both worktrees, in the order of mounting.
#[derive(Default)]
struct Mounts {
    points: Vec<String>,
    count: usize,
}

/// The paths of the plain worktree.
#[derive(Default)]
struct View {
    files: Vec<String>,
    dirs: Vec<String>,
}

fn view(side: &Side<'_>) -> View {
    let mut found = View::default();
    for (path, (mode, _)) in super::verifier::files(side) {
        let path = path.to_string();
        if path.starts_with(FILLER) {
            continue;
        }
        if mode & 0o170_000 == 0o040_000 { found.dirs.push(path) } else { found.files.push(path) }
    }
    found
}

/// An edit of one worktree.
type Edit<'e> = &'e dyn Fn(&Side<'_>) -> io::Result<()>;

impl<'a> RandomSteps<'a> {
    pub(super) fn new(pair: &'a Pair<'a>, random: Random, inside: Inside) -> Self {
        let mounts = (inside == Inside::Mounts).then(Mounts::default);
        let (log, done) = Default::default();
        RandomSteps { pair, random, mounts, is_over: false, is_sparse: false, log, done }
    }

    /// Removes all mounts inside the worktrees.
    pub(super) fn end(&mut self) {
        while self.mounts.as_ref().is_some_and(|mounts| !mounts.points.is_empty()) {
            self.umount();
        }
    }

    pub(super) fn summary(&self) -> String {
        let parts = self.done.iter().map(|(name, (done, all))| format!("{name} {done}/{all}"));
        parts.collect::<Vec<_>>().join(", ")
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.random.below(from.len())]
    }

    fn once_in(&mut self, times: usize) -> bool {
        self.random.below(times) == 0
    }

    /// Returns a path, which may exist, in an existing or a new directory.
    fn path(&mut self, view: &View) -> String {
        if self.once_in(2) && !view.files.is_empty() {
            return view.files[self.random.below(view.files.len())].clone();
        }
        let dir = self.dir(view);
        let mut path = if dir.is_empty() { String::new() } else { format!("{dir}/") };
        if self.once_in(4) {
            path = format!("{path}{}/", self.pick(&NAMES));
        }
        format!("{path}{}", self.pick(&NAMES))
    }

    /// Returns a directory that exists, or the root.
    fn dir(&mut self, view: &View) -> String {
        if view.dirs.is_empty() || self.once_in(3) {
            return String::new();
        }
        view.dirs[self.random.below(view.dirs.len())].clone()
    }

    fn file(&mut self, view: &View) -> String {
        if view.files.is_empty() {
            "a".into()
        } else {
            view.files[self.random.below(view.files.len())].clone()
        }
    }

    fn content(&mut self) -> Vec<u8> {
        match self.random.below(6) {
            0 => Vec::new(),
            1 => vec![b'z'; 3000 + self.random.below(6000)],
            2 => (1..30)
                .map(|line| format!("line {line} of {}\n", self.random.below(9)))
                .collect::<String>()
                .into(),
            _ => format!("{} of it\n", self.random.below(5)).into(),
        }
    }

    /// Makes the same step in both worktrees.
    pub(super) fn step(&mut self, number: usize) {
        let view = view(&self.pair.plain);
        let (name, succeeded) = match self.random.below(5) {
            _ if self.mounts.is_some() && self.once_in(5) => self.change_mounts(&view),
            0..=2 => self.edit(&view),
            _ if self.is_sparse => {
                let untracked = Untracked::of(self.pair);
                let ran = self.command(number, &view);
                let count = untracked.bring_back(self.pair);
                if count > 0 {
                    self.log.push(format!("{count} untracked paths were kept, and are brought back"));
                    self.done.entry("kept").or_default().1 += count;
                }
                ran
            }
            _ => self.command(number, &view),
        };
        if succeeded && matches!(name, "sparse" | "dense") {
            self.is_sparse = name == "sparse";
        }
        let counts = self.done.entry(name).or_default();
        counts.0 += usize::from(succeeded);
        counts.1 += 1;
    }

    fn both(&mut self, what: String, edit: Edit<'_>) -> bool {
        let one = edit(&self.pair.plain);
        let other = edit(&self.pair.tested);
        self.log.push(format!("{what}: {one:?}"));
        let kind = |result: &io::Result<()>| result.as_ref().err().map(io::Error::kind);
        assert_eq!(kind(&one), kind(&other), "{other:?}; the steps:\n{}", self.log.join("\n"));
        one.is_ok()
    }

    /// Mounts something inside both worktrees, or unmounts what was mounted last.
    fn change_mounts(&mut self, view: &View) -> (&'static str, bool) {
        let count = self.mounts.as_ref().map_or(0, |mounts| mounts.points.len());
        if count == MOST_MOUNTS || count > 0 && self.once_in(2) {
            return ("umount", self.umount());
        }
        ("mount", self.mount(view))
    }

    fn mount(&mut self, view: &View) -> bool {
        let is_file = self.once_in(4) && !view.files.is_empty();
        let point = if is_file { self.file(view) } else { self.dir(view) };
        if point.is_empty() || REPLACED.contains(&point.as_str()) {
            return false;
        }
        let script = if is_file { MOUNT_FILE } else { self.pick(&[MOUNT_DIRECTORY, MOUNT_MEMORY]) };
        // Some mounts show the files that they hide.
        let is_copy = self.once_in(2).to_string();
        let mounts = self.mounts.as_mut().expect("checked by the caller");
        mounts.count += 1;
        let name = format!("mounted{}", mounts.count);
        let is_done = self.both(format!("mount {name} at {point}: {script}"), &|side| {
            let (at, source) = (side.join(&point), side.repo.path.with_file_name(&name));
            if at.symlink_metadata()?.is_symlink() {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("umask 022; {script}"), "sh"]).args([&source, &at]).arg(&is_copy);
            let code = shell.stderr(Stdio::null()).status()?;
            if code.success() { Ok(()) } else { Err(io::ErrorKind::Other.into()) }
        });
        if is_done {
            self.mounts.as_mut().expect("checked by the caller").points.push(point);
        }
        is_done
    }

    /// Unmounts what was mounted last. A rename of a directory above moves the mount, so the mount
    /// table names its place.
    fn umount(&mut self) -> bool {
        self.mounts.as_mut().expect("checked by the caller").points.pop();
        self.both("umount".into(), &|side| {
            let points = testkit::disk::mounts_below(&side.repo.path);
            let inside =
                points.iter().rfind(|point| **point != side.repo.path).ok_or(io::ErrorKind::NotFound)?;
            ended("umount", &[], std::slice::from_ref(inside))
        })
    }

    fn edit(&mut self, view: &View) -> (&'static str, bool) {
        let path = self.path(view);
        match self.random.below(14) {
            0..=2 => {
                let content = self.content();
                let shown = content.len();
                (
                    "write",
                    self.both(format!("write {path} ({shown} bytes)"), &|side| {
                        make_way(side, &path)?;
                        fs::write(side.join(&path), &content)
                    }),
                )
            }
            3 => {
                let path = self.file(view);
                (
                    "append",
                    self.both(format!("append to {path}"), &|side| {
                        is_file(&side.join(&path))?;
                        OpenOptions::new().append(true).open(side.join(&path))?.write_all(b"more\n")
                    }),
                )
            }
            4 => {
                let (path, length) = (self.file(view), self.random.below(20) as u64);
                (
                    "truncate",
                    self.both(format!("truncate {path} to {length}"), &|side| {
                        is_file(&side.join(&path))?;
                        OpenOptions::new().write(true).open(side.join(&path))?.set_len(length)
                    }),
                )
            }
            5 => {
                let (path, mode) = (self.file(view), self.pick(&[0o644, 0o755, 0o600]));
                (
                    "chmod",
                    self.both(format!("chmod {mode:o} {path}"), &|side| {
                        is_file(&side.join(&path))?;
                        outlive_second_of(&side.join(&path))?;
                        fs::set_permissions(side.join(&path), fs::Permissions::from_mode(mode))
                    }),
                )
            }
            6 => {
                let target = self.pick(&TARGETS);
                (
                    "symlink",
                    self.both(format!("ln -s {target} {path}"), &|side| {
                        make_way(side, &path)?;
                        let place = side.join(&path);
                        if place.symlink_metadata().is_ok() {
                            fs::remove_file(&place)?;
                        }
                        symlink(target, place)
                    }),
                )
            }
            7 => {
                ("mkdir", self.both(format!("mkdir -p {path}"), &|side| fs::create_dir_all(side.join(&path))))
            }
            8 => {
                let path = self.file(view);
                ("rm", self.both(format!("rm {path}"), &|side| fs::remove_file(side.join(&path))))
            }
            9 => {
                let path = self.dir(view);
                if path.is_empty() || self.once_in(2) {
                    return ("rm -r", false);
                }
                // rm(1) goes on after a mount point, whatever the order of the directory is.
                (
                    "rm -r",
                    self.both(format!("rm -r {path}"), &|side| ended("rm", &["-rf"], &[side.join(&path)])),
                )
            }
            10 => {
                let from = self.file(view);
                ("mv file", self.rename(&from, &path))
            }
            11 => {
                let from = self.dir(view);
                ("mv directory", !from.is_empty() && self.rename(&from, &path))
            }
            12 => {
                let (dir, rules) = (self.dir(view), self.pick(&RULES));
                (
                    "ignore rules",
                    self.both(format!("rules {rules:?} in '{dir}'"), &|side| {
                        fs::write(side.join(&dir).join(".gitignore"), rules)
                    }),
                )
            }
            _ => {
                let (count, dir) = (self.random.below(5), self.pick(&["out", "out/deep", "d/x.o"]));
                (
                    "build",
                    self.both(format!("{count} ignored files in {dir}"), &|side| {
                        fs::create_dir_all(side.join(dir))?;
                        (0..count).try_for_each(|name| {
                            fs::write(side.join(dir).join(format!("{name}.o")), "built\n")
                        })
                    }),
                )
            }
        }
    }

    /// Renames like mv(1): a directory that the file system cannot rename is copied.
    fn rename(&mut self, from: &str, to: &str) -> bool {
        if to.starts_with(from) {
            return false;
        }
        self.both(format!("mv {from} {to}"), &|side| {
            make_way(side, to)?;
            ended("mv", &["-T"], &[side.join(from), side.join(to)])
        })
    }

    fn git(&mut self, number: usize, args: &[&str]) -> bool {
        let ran = self.pair.run(number, args);
        self.log.push(format!("git {args:?}: {ran:?}"));
        match ran {
            Ran::Ended { is_done } => is_done,
            Ran::Blocked => {
                self.is_over = true;
                false
            }
            Ran::Different(wrong) => panic!("{wrong}\nthe steps:\n{}", self.log.join("\n")),
        }
    }

    fn command(&mut self, number: usize, view: &View) -> (&'static str, bool) {
        let path = self.path(view);
        let target = self.pick(&COMMITS);
        let has_mounts = self.mounts.as_ref().is_some_and(|mounts| !mounts.points.is_empty());
        let (command, mounts) = (self.random_command(), self.pair.kind.mounts() && !has_mounts);
        let mut run = |name: &'static str, args: &[&str]| (name, self.git(number, args));
        match command {
            Step::Add => run("add", &["add", "-A"]),
            Step::AddPath => run("add", &["add", "--", &path]),
            Step::Remove => run("git rm", &["rm", "-r", "-q", "--", &path]),
            Step::Uncache => run("git rm", &["rm", "-r", "-q", "--cached", "--", &path]),
            Step::Move => {
                let is_dir = self.pair.kind.renames_directories() && self.once_in(2);
                let from = if is_dir { self.dir(view) } else { self.file(view) };
                let is_done = self.git(number, &["mv", "--", &from, &path]);
                // With any monitor, Git keeps the stat data of before the move until it refreshes
                // the index. `sparse-checkout` then leaves the file where it is.
                for side in [&self.pair.plain, &self.pair.tested] {
                    side.git(&["status", "--porcelain"]);
                }
                ("git mv", is_done)
            }
            Step::Commit => run("commit", &["commit", "-q", "-a", "-m", "more"]),
            Step::CommitStaged => run("commit", &["commit", "-q", "-m", "staged"]),
            Step::Switch => run("switch", &["switch", "-q", "--detach", target]),
            Step::SwitchBranch => run("switch", &["switch", "-q", "work"]),
            Step::Checkout => run("checkout", &["checkout", "-q", "-f", "-B", "work", target]),
            Step::Restore => run("restore", &["checkout", "-q", target, "--", &path]),
            Step::ResetHard => run("reset", &["reset", "-q", "--hard", target]),
            Step::ResetMixed => run("reset", &["reset", "-q", "--mixed", target]),
            Step::Reset => run("reset", &["reset", "-q", "--hard"]),
            Step::Merge => run("merge", &["merge", "-q", "-m", "merged", target]),
            Step::Stash => run("stash", &["stash", "push", "-q", "-u"]),
            Step::Pop => run("stash pop", &["stash", "pop", "-q"]),
            Step::Clean => run("clean", &["clean", "-q", "-f", "-d", "-x"]),
            Step::Sparse => {
                let dirs = self.pick(&[["d", "e"], ["many/1", "moved/f"], ["c", "dd/d"]]);
                ("sparse", self.git(number, &["sparse-checkout", "set", dirs[0], dirs[1]]))
            }
            Step::Rebase => ("rebase", self.rebase(number, target)),
            Step::Remount if mounts => ("remount", self.remount()),
            Step::Remount => ("remount", false),
            Step::Dense => run("dense", &["sparse-checkout", "disable"]),
        }
    }

    /// Moves both worktrees to a commit: one by a switch, the other by another base.
    fn rebase(&mut self, number: usize, target: &str) -> bool {
        let detached = ["switch", "-q", "--detach", target];
        let branch = ["switch", "-q", "work"];
        let (switch, to) =
            if number.is_multiple_of(3) { (&branch[..], "work") } else { (&detached[..], target) };
        if !self.pair.kind.rebases() || self.mounts.is_some() {
            return self.git(number, switch);
        }
        let plain = self.pair.plain.try_git(switch);
        let args =
            if to == "work" { vec!["rebase", "-q", "w", to] } else { vec!["rebase", "-q", "-d", "w", to] };
        let tested = self.pair.tested.workspace_from_outside(&args);
        self.log.push(format!("rebase to {to}: {}", plain.code == 0));
        let steps = || self.log.join("\n");
        assert_eq!(plain.code == 0, tested.code == 0, "{plain:?}\n{tested:?}\nthe steps:\n{}", steps());
        plain.code == 0
    }

    /// Unmounts and mounts the worktree under test.
    fn remount(&mut self) -> bool {
        for action in ["unmount", "mount"] {
            let run = self.pair.tested.workspace_from_outside(&[action, "-q", "w"]);
            assert_eq!(run.code, 0, "{action}: {run:?}\nthe steps:\n{}", self.log.join("\n"));
        }
        self.log.push("remount".into());
        true
    }

    fn random_command(&mut self) -> Step {
        use Step::*;
        self.pick(&[
            Add,
            Add,
            AddPath,
            AddPath,
            Remove,
            Uncache,
            Move,
            Move,
            Commit,
            Commit,
            CommitStaged,
            Switch,
            Switch,
            Switch,
            SwitchBranch,
            Checkout,
            Restore,
            Restore,
            ResetHard,
            ResetMixed,
            Reset,
            Merge,
            Stash,
            Stash,
            Pop,
            Pop,
            Clean,
            Sparse,
            Dense,
            Dense,
            Rebase,
            Rebase,
            Rebase,
            Remount,
        ])
    }
}

#[derive(Clone, Copy)]
enum Step {
    Add,
    AddPath,
    Remove,
    Uncache,
    Move,
    Commit,
    CommitStaged,
    Switch,
    SwitchBranch,
    Checkout,
    Restore,
    ResetHard,
    ResetMixed,
    Reset,
    Merge,
    Stash,
    Pop,
    Clean,
    Sparse,
    Dense,
    Rebase,
    Remount,
}

fn is_file(path: &Path) -> io::Result<()> {
    if path.symlink_metadata()?.is_file() { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Waits until the second of the file's change time is over. Git compares whole seconds, so a
/// change of permissions within that second is invisible to it: `checkout -f` then leaves the file
/// alone, and otherwise writes it again.
fn outlive_second_of(path: &Path) -> io::Result<()> {
    let changed = path.symlink_metadata()?.ctime();
    while SystemTime::now().duration_since(UNIX_EPOCH).is_ok_and(|now| now.as_secs() as i64 <= changed) {
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Runs a program on paths.
fn ended(program: &str, options: &[&str], paths: &[PathBuf]) -> io::Result<()> {
    let code = Command::new(program).args(options).args(paths).stderr(Stdio::null()).status()?;
    if code.success() { Ok(()) } else { Err(io::ErrorKind::Other.into()) }
}

/// Creates the parent directories of a path. A link above it is not followed.
fn make_way(side: &Side<'_>, path: &str) -> io::Result<()> {
    for (at, _) in path.match_indices('/') {
        let dir = side.join(&path[..at]);
        match dir.symlink_metadata() {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => return Err(io::ErrorKind::NotADirectory.into()),
            Err(_) => fs::create_dir(dir)?,
        }
    }
    match side.join(path).symlink_metadata() {
        Ok(meta) if meta.is_dir() || meta.is_symlink() => Err(io::ErrorKind::AlreadyExists.into()),
        _ => Ok(()),
    }
}
