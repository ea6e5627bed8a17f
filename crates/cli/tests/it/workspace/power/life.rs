//! Power cuts during the life of a workspace: its base, its creation, edits, a commit, a rebase, a
//! freeze and its removal. The disk is one of ext4 in each state that a cut leaves.
//!
//! After each cut the next commands work without a question, nothing that a command reported is
//! lost, and no byte of a file is damaged that the user did not write.

use std::{
    fs,
    io::{Seek as _, SeekFrom, Write as _},
    os::unix::fs::PermissionsExt as _,
    process::Command,
};

use testkit::{
    Disk, RecordedDisk, Repo, Run, Sandbox, Unflushed,
    disk::{NoMountsBelow, unmount_below},
};

use crate::{SAPWOOD, full, random::Random};

/// The number of files of each kind.
const FILES: usize = 5;

/// The size of the disk, in MiB.
const SIZE: u64 = 64;

/// The steps of the story, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Base,
    Create,
    Edit,
    Commit,
    LateEdit,
    Rebase,
    Freeze,
    Thaw,
    Remove,
}

/// The steps before the moment at which the power fails.
struct Progress {
    /// The last step that was complete.
    done: Option<Step>,
    /// The step that was under way.
    begun: Option<Step>,
}

impl Progress {
    fn has_done(&self, step: Step) -> bool {
        self.done >= Some(step)
    }

    fn has_begun(&self, step: Step) -> bool {
        self.begun.is_none_or(|begun| begun >= step)
    }
}

/// Returns the content of a file: three blocks of text that names it.
fn content(path: &str) -> String {
    format!("{path} is here\n").repeat(12_288 / (path.len() + 9) + 1)
}

/// The places of a story.
struct Story<'a> {
    sandbox: &'a Sandbox,
    backend: &'a str,
}

impl Story<'_> {
    fn repo(&self) -> Repo<'_> {
        self.sandbox.repo("disk/repo")
    }

    fn workspace(&self) -> Repo<'_> {
        self.sandbox.repo("disk/repo.workspaces/w")
    }

    fn run(&self, args: &[&str]) -> Run {
        self.repo().run(SAPWOOD.as_ref(), &[&["workspace"], args].concat())
    }

    fn done(&self, args: &[&str]) {
        let run = self.run(args);
        assert_eq!(run.code, 0, "{args:?}: {}", run.stderr);
    }

    /// Makes a repository with two commits.
    fn begin(&self) {
        let repo = self.sandbox.init("disk/repo");
        for kind in ["append", "mode", "move", "replace", "edit", "still", "late"] {
            for number in 0..FILES {
                let path = format!("{kind}/{number}");
                repo.write(&path, content(&path));
            }
        }
        repo.commit("one");
        repo.git(&["tag", "one"]);
        for number in 0..FILES {
            repo.write(format!("two/{number}"), content("two"));
        }
        repo.commit("two");
        repo.git(&["tag", "two"]);
        fs::write(self.sandbox.path().join("disk/other"), "0").expect("written");
        let synced = Command::new("sync").arg("-f").arg(self.sandbox.path().join("disk")).status();
        assert!(synced.expect("sync can be run").success());
    }

    /// Writes the journal of the disk, and no data of the workspace: what is torn then is torn.
    fn commit_journal(&self) {
        let mut other =
            fs::File::options().write(true).open(self.sandbox.path().join("disk/other")).expect("there");
        other.write_all(b"1").and_then(|()| other.sync_all()).expect("synced");
    }

    fn append(&self, path: &str, text: &str) {
        let mut file = fs::File::options().append(true).open(self.workspace().join(path)).expect(path);
        file.write_all(text.as_bytes()).expect(path);
    }

    fn carry_out(&self, step: Step) {
        let workspace = self.workspace();
        match step {
            Step::Base => self.done(&["base", "add", "-q", "--backend", self.backend, "one"]),
            Step::Create => {
                self.done(&["create", "-q", "w", "-b", "topic", "--backend", self.backend, "one"]);
            }
            Step::Edit => {
                for number in 0..FILES {
                    self.append(&format!("append/{number}"), "mine\n");
                    let mode = fs::Permissions::from_mode(0o755);
                    fs::set_permissions(workspace.join(format!("mode/{number}")), mode).expect("changed");
                    let moved = workspace.join(format!("move/new-{number}"));
                    fs::rename(workspace.join(format!("move/{number}")), moved).expect("renamed");
                    workspace.write("temporary", "replaced\n");
                    fs::rename(workspace.join("temporary"), workspace.join(format!("replace/{number}")))
                        .expect("renamed");
                    let edited = workspace.join(format!("edit/{number}"));
                    let mut edited = fs::File::options().write(true).open(edited).expect("opened");
                    edited.seek(SeekFrom::Start(2)).expect("sought");
                    edited.write_all(b"XY").expect("written");
                    if number == FILES / 2 {
                        self.commit_journal();
                    }
                }
                self.commit_journal();
            }
            Step::Commit => {
                for args in [&["add", "-A"][..], &["commit", "-qm", "mine"]] {
                    let run = workspace.run(SAPWOOD.as_ref(), args);
                    assert_eq!(run.code, 0, "{}", run.stderr);
                }
            }
            Step::LateEdit => {
                (0..FILES).for_each(|number| self.append(&format!("late/{number}"), "late\n"));
                self.commit_journal();
            }
            Step::Rebase => self.done(&["rebase", "-q", "-d", "w", "two"]),
            Step::Freeze => self.done(&["freeze", "-q", "w"]),
            Step::Thaw => self.done(&["thaw", "-q", "w"]),
            Step::Remove => self.done(&["remove", "-q", "--force", "w"]),
        }
    }

    /// The marks of the mount name another boot.
    fn restart(&self) {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("read");
        let all = self.repo().join(".git/sapwood/workspaces");
        for state in fs::read_dir(all).into_iter().flatten() {
            for name in ["mounted", "unsynced"] {
                let path = state.as_ref().expect("an entry").path().join(name);
                if let Ok(text) = fs::read_to_string(&path) {
                    fs::write(&path, text.replace(boot.trim_end(), "another")).expect("written");
                }
            }
        }
    }

    fn check(&self, progress: &Progress, context: &str) {
        let run = |args: &[&str]| {
            let run = self.run(args);
            assert_eq!(run.code, 0, "{context}: {args:?}: {}{}", run.stdout, run.stderr);
            run
        };
        self.restart();
        run(&["gc"]);
        run(&["mount", "--all"]);
        run(&["base", "verify"]);
        let list = run(&["list", "--json"]).stdout.to_string();
        let is_there = list.contains("\"w\"");
        if progress.has_done(Step::Create) && !progress.has_begun(Step::Remove) {
            assert!(is_there, "{context}: the workspace is lost: {list}");
        }
        if is_there {
            run(&["thaw", "-q", "w"]);
            let named = run(&["list", "--json"]).stdout.to_string();
            self.check_files(progress, &named, context);
        }
        run(&["create", "-q", "again", "--detach", "--backend", self.backend, "one"]);
        let again = self.sandbox.repo("disk/repo.workspaces/again");
        assert_eq!(again.git(&["status", "--porcelain"]).stdout, "", "{context}");
        assert_eq!(again.read("append/0"), content("append/0"), "{context}");
    }

    /// Checks the files of the workspace. `named` has the paths that the user was told about.
    fn check_files(&self, progress: &Progress, named: &str, context: &str) {
        let workspace = self.workspace();
        let status = workspace.run(SAPWOOD.as_ref(), &["status", "--porcelain"]);
        assert_eq!(status.code, 0, "{context}: {}", status.stderr);
        let read = |path: &str| workspace.exists(path).then(|| fs::read(workspace.join(path)).expect(path));
        let shown = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned();
        let is_committed = progress.has_done(Step::Commit) && !progress.has_begun(Step::Rebase);
        for number in 0..FILES {
            for kind in ["still", "mode"] {
                let path = format!("{kind}/{number}");
                assert!(read(&path) == Some(content(&path).into()), "{context}: {path}");
            }
            let moved = [format!("move/{number}"), format!("move/new-{number}")].map(|path| read(&path));
            let places = moved.iter().flatten().count();
            assert_eq!(places, 1, "{context}: move/{number}");
            let whole = content(&format!("move/{number}"));
            assert!(
                moved.iter().flatten().all(|found| *found == whole.as_bytes()),
                "{context}: move/{number}"
            );
            for (kind, added) in [("append", "mine\n"), ("late", "late\n")] {
                let path = format!("{kind}/{number}");
                let (whole, found) = (content(&path), read(&path).expect(&path));
                assert!(found.starts_with(whole.as_bytes()), "{context}: {path}: {}", shown(&found));
                assert!(found.len() <= whole.len() + added.len(), "{context}: {path}");
                let is_exact = if kind == "append" { is_committed } else { progress.has_done(Step::Rebase) };
                if is_exact {
                    assert!(found == [whole, added.to_owned()].concat().as_bytes(), "{context}: {path}");
                }
            }
            let path = format!("edit/{number}");
            let (whole, found) = (content(&path), read(&path).expect(&path));
            let edited = [&whole.as_bytes()[..2], b"XY", &whole.as_bytes()[4..]].concat();
            let is_known = found == edited || (found == whole.as_bytes() && !is_committed);
            let is_named = !is_committed && named.contains(&path);
            assert!(is_known || is_named, "{context}: {path}: {} bytes, {}", found.len(), shown(&found));
            if is_committed {
                assert_eq!(
                    read(&format!("replace/{number}")).as_deref(),
                    Some(&b"replaced\n"[..]),
                    "{context}"
                );
            }
        }
        if is_committed {
            assert_eq!(workspace.git(&["log", "-1", "--format=%s"]).stdout, "mine\n", "{context}");
            let changed = workspace.git(&["status", "--porcelain", "--", ":!late"]).stdout.to_string();
            assert_eq!(changed, "", "{context}");
            workspace.git(&["fsck", "--no-dangling"]);
        }
        if progress.has_done(Step::Rebase) {
            assert_eq!(workspace.git(&["log", "-1", "--format=%s"]).stdout, "two\n", "{context}");
        }
    }
}

const STEPS: [Step; 9] = [
    Step::Base,
    Step::Create,
    Step::Edit,
    Step::Commit,
    Step::LateEdit,
    Step::Rebase,
    Step::Freeze,
    Step::Thaw,
    Step::Remove,
];

/// Runs the story on a recorded disk, and checks `cuts` states of it, and one after each step.
fn live(backend: &str, cuts: usize) {
    let sandbox = Sandbox::new();
    let point = sandbox.path().join("disk");
    fs::create_dir(&point).expect("a new directory");
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let Some(mut disk) = RecordedDisk::new(SIZE, &sandbox.path().join("recorded"), &point) else { return };
    let story = Story { sandbox: &sandbox, backend };
    story.begin();
    let begin = disk.position();
    let ends = STEPS.map(|step| {
        story.carry_out(step);
        disk.position()
    });
    unmount_below(&point);
    disk.unmount();
    let end = *ends.last().expect("there are steps");
    let mut random = Random::new(11);
    let after_steps = ends.map(|end| (end, Unflushed::Lost));
    let others = (0..cuts).map(|number| {
        let seed = random.next();
        let unflushed = [Unflushed::Kept, Unflushed::Some(seed), Unflushed::Lost][number % 3];
        (begin + random.below(end - begin + 1), unflushed)
    });
    for (number, (position, unflushed)) in after_steps.into_iter().chain(others).enumerate() {
        let finished = ends.iter().filter(|end| **end <= position).count();
        let progress = Progress {
            done: finished.checked_sub(1).map(|last| STEPS[last]),
            begun: STEPS.get(finished).copied(),
        };
        let context =
            format!("{backend}, cut at {position} of {end}, {unflushed:?}, after {:?}", progress.done);
        // A process in the background may keep the last one in use.
        let image = sandbox.path().join(format!("cut-{number}"));
        disk.after_cut(position, unflushed, &image);
        assert!(Disk::of_image(&image, &point).map(std::mem::forget).is_some(), "{context}: no mount");
        story.check(&progress, &context);
        unmount_below(&point);
        fs::remove_file(&image).expect("removed");
    }
}

#[test]
fn a_workspace_on_an_image_survives_each_cut() {
    live("image", if full() { 500 } else { 3 });
}

#[test]
fn a_workspace_on_a_directory_survives_each_cut() {
    live("overlay", if full() { 500 } else { 3 });
}
