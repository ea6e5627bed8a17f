//! The lifecycle of a workspace for a user without privileges, in a repository that the user owns.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::Command,
};

use testkit::{
    Run,
    disk::{ORDINARY, as_ordinary_user, give_to_ordinary_user, ordinary_user_reaches},
    has_program,
};

use super::create::{Place, leftovers};
use crate::SAPWOOD;

/// A place that belongs to the ordinary user.
pub(super) struct UnprivilegedFixture {
    pub(super) place: Place,
    /// A copy of the program that every user can reach.
    sapwood: PathBuf,
}

impl UnprivilegedFixture {
    /// Returns `None`, and prints the reason, if the test cannot change users.
    pub(super) fn new() -> Option<UnprivilegedFixture> {
        let mut id = Command::new("id");
        if !as_ordinary_user(id.arg("-u")).output().is_ok_and(|output| output.status.success()) {
            println!("skipped: only root can become another user");
            return None;
        }
        let place = Place::new();
        let sapwood = place.sandbox.path().join("bin/sapwood");
        fs::create_dir_all(sapwood.parent().expect("it has one")).expect("a new directory");
        testkit::copy_program(SAPWOOD.as_ref(), &sapwood);
        fs::create_dir_all(place.sandbox.path().join("home")).expect("a directory");
        for dir in [place.sandbox.path(), place.bases().to_owned()] {
            give_to_ordinary_user(&dir);
        }
        if ![place.bases(), &sapwood].into_iter().all(ordinary_user_reaches) {
            println!("skipped: an ordinary user cannot reach the directories of tests");
            return None;
        }
        Some(UnprivilegedFixture { place, sapwood })
    }

    fn command(&self, program: &Path, dir: &Path) -> Command {
        let mut command = self.place.repo().command(program);
        as_ordinary_user(&mut command).current_dir(dir);
        command
    }

    /// Runs `sapwood workspace` in the repository.
    pub(super) fn run(&self, args: &[&str]) -> Run {
        let repo = self.place.repo().path.clone();
        let output = self.command(&self.sapwood, &repo).arg("workspace").args(args).output();
        let output = output.expect("it can be run");
        let code = output.status.code().unwrap_or(-1);
        Run { code, stdout: output.stdout.into(), stderr: output.stderr.into() }
    }

    pub(super) fn done(&self, args: &[&str]) -> String {
        let run = self.run(args);
        assert_eq!(run.code, 0, "{args:?}: {}{}", run.stdout, run.stderr);
        run.stdout.to_string()
    }

    /// Runs the real Git in the repository, as its owner.
    pub(super) fn git(&self, args: &[&str]) {
        let status = self.command(&git(), &self.place.repo().path).args(args).status();
        assert!(status.expect("it can be run").success(), "{args:?}");
    }

    /// Runs a shell script in a workspace. `$GIT` and `$SAPWOOD` are the programs.
    pub(super) fn inside(&self, name: &str, script: &str) -> String {
        let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "git".to_owned());
        let sapwood = self.sapwood.display().to_string();
        let script = format!("GIT='{git}'; SAPWOOD='{sapwood}'; {script}");
        self.done(&["exec", name, "--", "sh", "-ec", &script])
    }
}

/// Returns the best backend that the kernel allows an ordinary user here, determined without
/// sapwood. Bases and upper layers are on file systems without snapshots and shared blocks.
fn allowed() -> &'static str {
    let succeeds = |command: &mut Command| {
        as_ordinary_user(command).output().is_ok_and(|output| output.status.success())
    };
    if succeeds(Command::new("unshare").args(["-Um", "--map-current-user", "true"])) {
        return "overlay-user";
    }
    let may_fuse = succeeds(Command::new("sh").args(["-c", "test -r /dev/fuse -a -w /dev/fuse"]));
    let driver = has_program("fuse-overlayfs") || has_program("unionfs-fuse");
    if may_fuse && driver && has_program("fusermount3") { "fuse" } else { "copy" }
}

/// Returns the running processes of the ordinary user that run the copy of the program.
fn processes(owned: &UnprivilegedFixture) -> Vec<String> {
    let all = fs::read_dir("/proc").expect("a directory of the kernel").flatten();
    let is_ours = |entry: &fs::DirEntry| {
        fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe.starts_with(owned.place.sandbox.path()))
    };
    all.filter(is_ours).map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn auto_takes_what_the_kernel_allows() {
    let Some(owned) = UnprivilegedFixture::new() else { return };
    let created = owned.done(&["create", "one", "-b", "topic", "--backend", "auto", "--json"]);
    let created: serde_json::Value = serde_json::from_str(&created).expect("JSON");
    assert_eq!(created["backend"], allowed(), "{created:#}");
    life(&owned, "one");
}

#[test]
fn each_backend_works_or_reports_why_not() {
    for backend in ["overlay-user", "fuse", "copy", "image", "overlay", "btrfs", "reflink"] {
        let Some(owned) = UnprivilegedFixture::new() else { return };
        let created = owned.run(&["create", "one", "-b", "topic", "--backend", backend]);
        if created.code == 0 {
            assert!(!["image", "overlay"].contains(&backend), "{backend} mounts, and only root may");
            life(&owned, "one");
        } else {
            let said = created.stderr.to_string();
            assert!(backend != "copy" && backend != allowed(), "{backend}: {said}");
            assert!(said.contains(backend), "{backend}: {said}");
            assert_eq!(leftovers(&owned.place), Vec::<PathBuf>::new(), "{backend}");
            assert!(!owned.place.workspace("one").path.exists(), "{backend}");
            assert!(
                owned.place.repo().try_git(&["rev-parse", "-q", "--verify", "topic"]).code != 0,
                "{said}"
            );
        }
    }
}

/// Edits, commits, and removes the workspace.
pub(super) fn life(owned: &UnprivilegedFixture, name: &str) {
    let place = &owned.place;
    let both = "test \"$($GIT status --porcelain)\" = \"$($SAPWOOD status --porcelain)\"";
    assert_eq!(owned.inside(name, &format!("$GIT status --porcelain; {both}; $GIT fsck")), "");
    owned.inside(name, "echo more >>file; echo new >new; rm dir/empty; echo x >x.o; chmod +x dir/deep/file");
    let expected = " M dir/deep/file\n D dir/empty\n M file\n?? new\n";
    assert_eq!(owned.inside(name, &format!("$GIT status --porcelain; {both}")), expected);
    let refused = owned.run(&["remove", name]);
    assert_ne!(refused.code, 0, "{}", refused.stdout);
    assert!(refused.stderr.to_string().contains("--force"), "{}", refused.stderr);
    owned.inside(name, "$GIT add -A; $GIT commit -qm three");
    assert_eq!(owned.inside(name, &format!("$GIT status --porcelain; {both}")), "");
    let shown = owned.command(&git(), &place.repo().path).args(["show", "topic:file"]).output();
    assert_eq!(shown.expect("it can be run").stdout, b"changed\nmore\n");
    let listed: serde_json::Value = serde_json::from_str(&owned.done(&["list", "--json"])).expect("JSON");
    assert_eq!((&listed[0]["name"], &listed[0]["mounted"]), (&name.into(), &true.into()), "{listed:#}");
    // Everything in the repository still belongs to the user.
    let find =
        Command::new("find").arg(&place.repo().path).args(["!", "-user", &ORDINARY.to_string()]).output();
    assert_eq!(String::from_utf8_lossy(&find.expect("it can be run").stdout), "");
    owned.done(&["remove", name]);
    assert_eq!(leftovers(place), Vec::<PathBuf>::new());
    assert_eq!(processes(owned), Vec::<String>::new());
    let objects = fs::metadata(place.repo().join(".git/objects")).expect("a directory");
    assert_eq!((objects.uid(), objects.permissions().mode() & 0o700), (ORDINARY, 0o700));
}

fn git() -> PathBuf {
    std::env::var_os("SAPWOOD_TEST_GIT").unwrap_or_else(|| "git".into()).into()
}

/// A fork in a namespace has the uncommitted work, and nothing lies below its mount point.
#[test]
fn a_fork_without_root_has_the_uncommitted_work() {
    let Some(owned) = UnprivilegedFixture::new() else { return };
    if allowed() != "overlay-user" {
        println!("skipped: the kernel allows no namespaces");
        return;
    }
    let repo = owned.place.repo();
    let user = |args: &[&str]| {
        let output = owned.command(&owned.sapwood, &repo.path).args(args).output().expect("it can be run");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let script = "echo staged > staged; git add staged; echo above > staged; echo new > untracked";
    let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "git".to_owned());
    let script = script.replace("git ", &format!("{git} "));
    let status = owned.command(Path::new("/bin/sh"), &repo.path).args(["-ec", &script]).status();
    assert!(status.expect("a shell").success());
    let forked = user(&["fork", "--backend", "overlay-user", "--json", "one"]);
    let forked: serde_json::Value = serde_json::from_str(&forked).expect("a document");
    assert_eq!((&forked["workspace"]["backend"], &forked["written"]), (&"overlay-user".into(), &2.into()));
    let inside =
        owned.inside("one", "cat staged untracked; $GIT status --porcelain; $SAPWOOD checkpoints --json");
    let (files, listed) = inside.split_once("{").expect("a document");
    assert_eq!(files, "above\nnew\nAM staged\n?? untracked\n");
    assert!(
        listed.contains("\"label\": \"fork of main\"") && listed.contains("\"kind\": \"fork\""),
        "{listed}"
    );
    let hidden = fs::read_dir(owned.place.workspace("one").path).expect("a mount point");
    let hidden: Vec<_> = hidden.flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(hidden, [".git"]);
    owned.done(&["remove", "--force", "one"]);
}
