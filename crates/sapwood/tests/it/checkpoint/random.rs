//! Random edits, commands of Git, checkpoints, undo, redo and forks, beside a model that copies
//! everything. `SAPWOOD_TEST_FULL=1` runs 10,000 steps.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    panic::{AssertUnwindSafe, catch_unwind},
};

use sapwood::{
    Silent,
    checkpoint::undo::Goal,
    workspace::create::{self, Backend},
};
use testkit::{NoMountsBelow, Repo, Sandbox};

use super::{
    checkpoint,
    forks::fork,
    model::{Model, everything},
    travel,
};
use crate::open;

/// Names with files in the place of directories, and the other way round.
const NAMES: &[&str] = &["a", "a/x", "a/y/z", "b", "b.o", "c/d", "c/e.o", "c", "deep/er/f", "i1", "i2/g"];

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % limit as u64).expect("a small number")
    }

    fn of<'l, T>(&mut self, list: &'l [T]) -> &'l T {
        &list[self.below(list.len())]
    }
}

struct Walk<'s> {
    sandbox: &'s Sandbox,
    repo: Repo<'s>,
    random: Random,
    /// The states by the numbers of their entries.
    entries: BTreeMap<u64, Model>,
    /// The entries in the order of undo, and the present place in it.
    line: Vec<u64>,
    at: usize,
    newest: Option<Model>,
    log: Vec<String>,
    forks: usize,
}

impl Walk<'_> {
    fn step(&mut self, number: usize) {
        let kind = self.random.below(20);
        match kind {
            0..=7 => self.edit(number),
            8..=10 => self.git(),
            11..=13 => self.checkpoint(),
            14..=16 => self.back(),
            17 | 18 => self.forward(),
            _ if number.is_multiple_of(5) => self.fork(),
            _ => self.edit(number),
        }
    }

    fn note(&mut self, what: String) {
        self.log.push(what);
    }

    fn edit(&mut self, number: usize) {
        let name = *self.random.of(NAMES);
        let place = self.repo.join(name);
        let kind = self.random.below(8);
        self.note(format!("edit {kind} of {name}"));
        // Removes whatever is at the path, or a file above it.
        let clear = |repo: &Repo<'_>| {
            let above: Vec<usize> = name.match_indices('/').map(|(at, _)| at).collect();
            for at in above {
                let above = repo.join(&name[..at]);
                if fs::symlink_metadata(&above).is_ok_and(|found| !found.is_dir()) {
                    fs::remove_file(above).expect("removed");
                }
            }
            if repo.exists(name) {
                repo.remove(name);
            }
        };
        match kind {
            0..=3 => {
                clear(&self.repo);
                self.repo.write(name, format!("{} {}\n", number % 7, self.random.below(3)));
            }
            4 => {
                clear(&self.repo);
                self.repo.symlink("a", name);
            }
            5 if self.repo.exists(name) => self.repo.remove(name),
            6 if fs::symlink_metadata(&place).is_ok_and(|found| found.is_file()) => {
                let mode = *self.random.of(&[0o644, 0o755]);
                fs::set_permissions(&place, fs::Permissions::from_mode(mode)).expect("changed");
            }
            7 => {
                let rules = *self.random.of(&["*.o\n", "*.o\ni*\n", "*.o\n/a/\n"]);
                self.repo.write(".gitignore", rules);
            }
            _ => {}
        }
    }

    fn git(&mut self) {
        let name = *self.random.of(NAMES);
        let lines: [&[&str]; 9] = [
            &["add", "-A"],
            &["add", "-u"],
            &["add", name],
            &["add", "-N", name],
            &["rm", "-q", "-r", "--cached", name],
            &["commit", "-q", "-a", "-m", "x"],
            &["stash", "push", "-q", "-u"],
            &["commit", "-q", "--allow-empty", "-m", "y"],
            &["checkout", "-q", "--", name],
        ];
        let line =
            if self.random.below(40) == 0 { &["gc", "-q", "--prune=now"] } else { *self.random.of(&lines) };
        self.note(format!("git {line:?}"));
        self.repo.try_git(line);
    }

    fn checkpoint(&mut self) {
        self.note("checkpoint".into());
        let model = Model::of(&self.repo);
        let made = checkpoint(&self.repo, "");
        self.check_present(&model);
        let has_moved = self.at + 1 < self.line.len() || self.is_moved();
        // After an undo, a restored file that is ignored now is no change.
        let present = self.present();
        let model = if self.is_moved() && self.is_held(&present) { present } else { model };
        let is_same = self.is_held(&model);
        assert_eq!(made.is_changed, !is_same);
        if !(is_same && has_moved) {
            self.line.truncate(self.at + 1);
            self.line.push(made.number);
            self.at = self.line.len() - 1;
        }
        self.entries.insert(made.number, model.clone());
        self.newest = Some(model);
    }

    /// Returns true if the last entry was made by an undo or redo, or right after one.
    fn is_moved(&self) -> bool {
        self.entries.keys().next_back() != self.line.last()
    }

    /// Returns true if the newest entry has this state.
    fn is_held(&self, model: &Model) -> bool {
        let newest = self.newest.as_ref();
        newest.is_some_and(|newest| (&newest.files, &newest.index) == (&model.files, &model.index))
    }

    /// Returns the present state as undo sees it: with ignored files that the newest entry holds as
    /// untracked ones.
    fn present(&self) -> Model {
        let mut model = Model::of(&self.repo);
        if let Some(newest) = &self.newest {
            let mut all = everything(&self.repo);
            let was_untracked = |path: &&String| !newest.index.contains(&format!("\t{path}\n"));
            for path in newest.files.keys().filter(was_untracked) {
                if let Some(file) = all.remove(path) {
                    model.files.insert(path.clone(), file);
                }
            }
        }
        model
    }

    fn back(&mut self) {
        let steps = 1 + self.random.below(3);
        let before = Model::of(&self.repo);
        let is_held = self.is_held(&self.present());
        self.note(format!("undo {steps}, held {is_held}"));
        let from = if is_held { Some(self.at) } else { Some(self.at + 1).filter(|_| !self.line.is_empty()) };
        let target = from.and_then(|from| from.checked_sub(steps)).filter(|_| !self.line.is_empty());
        match target {
            Some(target) => self.travel(Goal::Back(steps as u64), target, before),
            None => self.refused(Goal::Back(steps as u64), &before),
        }
    }

    fn forward(&mut self) {
        let before = Model::of(&self.repo);
        let is_held = self.is_held(&self.present());
        self.note(format!("redo, held {is_held}"));
        let target = Some(self.at + 1).filter(|target| is_held && *target < self.line.len());
        match target {
            Some(target) => self.travel(Goal::Forward(1), target, before),
            None => self.refused(Goal::Forward(1), &before),
        }
    }

    fn refused(&mut self, goal: Goal, before: &Model) {
        assert!(travel(&self.repo, goal, false).is_err(), "{goal:?}");
        self.check_present(before);
    }

    fn travel(&mut self, goal: Goal, target: usize, before: Model) {
        let wanted = self.entries[&self.line[target]].clone();
        let (everything_before, present) = (everything(&self.repo), self.present());
        let report = match travel(&self.repo, goal, false) {
            Ok(report) => report,
            Err(error) if error.contains("is in the way") => {
                self.check_present(&before);
                return;
            }
            Err(error) => panic!("{error}"),
        };
        assert!(!report.is_incomplete);
        assert_eq!(report.reached, self.line[target]);
        // Files that neither state has stay.
        let mut expected = wanted.files.clone();
        let stays = |path: &&String| !before.files.contains_key(*path) && !wanted.files.contains_key(*path);
        for path in everything_before.keys().filter(stays) {
            expected.insert(path.clone(), everything_before[path].clone());
        }
        assert_eq!(everything(&self.repo), expected);
        let now = Model::of(&self.repo);
        assert_eq!(now.index, wanted.index);
        assert_eq!(now.head, before.head);
        if now.head == wanted.head && now.files == wanted.files {
            assert_eq!(now.status, wanted.status);
        }
        if let Some(saved) = report.saved {
            let mut held = present;
            // Ignored files in the way were stored too.
            let others = everything_before.into_iter().filter(|(path, _)| wanted.files.contains_key(path));
            held.files.extend(others);
            self.entries.insert(saved, held);
            // A redo goes on along its line.
            if !matches!(goal, Goal::Forward(_)) {
                self.line.truncate(self.at + 1);
                self.line.push(saved);
            }
        }
        self.at = target;
        let number = report.number.expect("a new entry");
        self.entries.insert(number, wanted.clone());
        self.newest = Some(wanted);
    }

    fn fork(&mut self) {
        if self.repo.try_git(&["rev-parse", "-q", "--verify", "HEAD"]).code != 0 {
            return;
        }
        self.forks += 1;
        let name = format!("fork-{}", self.forks);
        self.note(format!("fork {name}"));
        let before = Model::of(&self.repo);
        let report = fork(&self.repo, &name, None);
        self.check_present(&before);
        let forked = self.sandbox.repo(report.workspace.path.to_str().expect("a plain path"));
        let model = Model::of(&forked);
        assert_eq!((model.files, model.index), (before.files, before.index));
        assert_eq!(model.status, before.status);
        let request = sapwood::workspace::remove::Request { name: name.as_str().into(), force: true };
        let repository = open(&self.repo);
        sapwood::workspace::remove::plan(&repository, request)
            .expect("a plan")
            .run(&Silent)
            .expect("removed");
        self.repo.git(&["branch", "-q", "-D", &name]);
    }

    fn check_present(&self, before: &Model) {
        assert_eq!(&Model::of(&self.repo), before);
    }
}

/// The worktree of a walk.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// That of a repository.
    Main,
    /// A workspace.
    Workspace(Option<Backend>),
}

fn walk(seed: u64, steps: usize, place: Place) {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = sandbox.init("repo");
    repo.write(".gitignore", "*.o\n");
    repo.write("a/x", "1\n");
    repo.write("c/d", "2\n");
    repo.write("b", "3\n");
    repo.commit("one");
    repo.git(&["config", "sapwood.checkpointKeep", "100000"]);
    let repo = match place {
        Place::Main => repo,
        Place::Workspace(backend) => {
            let request = create::Request { name: "w".into(), backend, ..create::Request::default() };
            let made = create::plan(&open(&repo), request).expect("a plan").run(&Silent);
            sandbox.repo(made.expect("a workspace").path.to_str().expect("a plain path"))
        }
    };
    let mut walk = Walk {
        sandbox: &sandbox,
        repo,
        random: Random(seed),
        entries: BTreeMap::new(),
        line: Vec::new(),
        at: 0,
        newest: None,
        log: vec![format!("seed {seed}, {place:?}")],
        forks: 0,
    };
    let steps = AssertUnwindSafe(|| (0..steps).for_each(|number| walk.step(number)));
    if let Err(panic) = catch_unwind(steps) {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
        panic!("{:#?} in {}: {text}", walk.log, walk.repo.path.display());
    }
    assert_eq!(walk.repo.git(&["fsck", "--strict"]).stderr, "");
}

fn is_full() -> bool {
    std::env::var_os("SAPWOOD_TEST_FULL").is_some()
}

#[test]
fn random_walks_in_a_plain_worktree() {
    let (seeds, steps) = if is_full() { (40, 125) } else { (4, 50) };
    (1..=seeds).for_each(|seed| walk(seed, steps, Place::Main));
}

#[test]
fn random_walks_in_workspaces() {
    let (seeds, steps) = if is_full() { (40, 125) } else { (2, 40) };
    let may_mount = sys::user::effective_uid() == 0;
    // The best backend is `image`, where the kernel mounts one.
    let backends = [Some(if may_mount { Backend::Overlay } else { Backend::Copy }), None];
    for (seed, backend) in (1..=seeds).zip(backends.into_iter().cycle()) {
        walk(100 + seed, steps, Place::Workspace(backend));
    }
}
