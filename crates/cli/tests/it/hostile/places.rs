//! Files of another user in places that a command reads: a directory for everybody (`/tmp`), the
//! repository of a team, a base directory. The commands run as root. No program of the other user
//! runs, nothing of root's is removed or covered, and no file is made where a link leads.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use bstr::ByteSlice as _;
use testkit::{
    Repo, Run, Sandbox,
    disk::{NoMountsBelow, ORDINARY, as_ordinary_user, give_to_ordinary_user, mounts_below},
};

use crate::SAPWOOD;

/// A directory for everybody, in which root has a repository and the attacker another one.
///
/// - `shared/mine/repo`: the repository of root;
/// - `shared/evil`: the repository of the attacker, whose programs make the file `pwned`;
/// - `shared/evil.workspaces/w`: the attacker's unmounted workspace;
/// - `victim`: a directory of root, at which the attacker's record says that it is mounted.
struct Shared {
    // Must be dropped first, because it unmounts.
    _mounts: NoMountsBelow,
    sandbox: Sandbox,
}

impl Shared {
    /// Returns `None`, and prints the reason, if the test cannot change users.
    fn new() -> Option<Shared> {
        let mut id = Command::new("id");
        if !as_ordinary_user(id.arg("-u")).output().is_ok_and(|output| output.status.success()) {
            println!("skipped: only root can become another user");
            return None;
        }
        let sandbox = Sandbox::new();
        let shared = Shared { _mounts: NoMountsBelow::new(&sandbox.path()), sandbox };
        for (dir, mode) in [("", 0o755), ("shared", 0o1777), ("shared/mine", 0o755), ("victim", 0o755)] {
            let path = shared.path(dir);
            fs::create_dir_all(&path).expect("created");
            set_mode(&path, mode);
        }
        fs::write(shared.path("victim/kept"), "of root\n").expect("written");
        for name in ["shared/mine/repo", "shared/evil"] {
            let repo = shared.sandbox.init(name);
            repo.write("file", "1\n");
            repo.write(".gitattributes", "file filter=evil\n");
            repo.commit("one");
            repo.git(&["config", "sapwood.baseDir", shared.path("bases").to_str().expect("UTF-8")]);
        }
        Some(shared)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.sandbox.path().join(name)
    }

    fn mine(&self) -> Repo<'_> {
        self.sandbox.repo("shared/mine/repo")
    }

    /// Fills the attacker's repository with programs, makes a workspace whose record names `top`,
    /// and gives everything to the attacker.
    fn plant(&self, top: &Path) {
        let evil = self.sandbox.repo("shared/evil");
        let run = evil
            .run(SAPWOOD.as_ref(), &["workspace", "create", "-q", "w", "-b", "w", "--backend", "overlay"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let run = evil.run(SAPWOOD.as_ref(), &["workspace", "unmount", "-q", "w"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let program = format!("#!/bin/sh\ntouch '{}'\n", self.path("pwned").display());
        for name in ["post-checkout", "post-index-change", "reference-transaction", "pre-commit"] {
            evil.write_executable(format!(".git/hooks/{name}"), &program);
        }
        evil.write_executable("program", &program);
        let program = evil.join("program");
        let program = program.to_str().expect("UTF-8");
        for key in
            ["core.fsmonitor", "filter.evil.clean", "filter.evil.smudge", "core.sshCommand", "core.pager"]
        {
            evil.git(&["config", key, program]);
        }
        let record = evil.join(".git/sapwood/workspaces/w/record");
        let set =
            ["config", "-f", record.to_str().expect("UTF-8"), "workspace.dir", top.to_str().expect("UTF-8")];
        evil.git(&set);
        for dir in ["shared/evil", "shared/evil.workspaces"] {
            give_to_ordinary_user(&self.path(dir));
        }
    }

    /// The file `.git` of the attacker's unmounted workspace.
    fn marker(&self) -> Vec<u8> {
        fs::read(self.path("shared/evil.workspaces/w/.git")).expect("a workspace")
    }

    /// Runs sapwood in the directory `dir`, and checks that the attacker gained nothing.
    fn run(&self, dir: &str, line: &[&str]) -> Run {
        let before = mounts_below(&self.sandbox.path());
        let run = self.sandbox.repo(dir).run(SAPWOOD.as_ref(), line);
        let said = format!("{line:?} in {dir}: {} {}{}", run.code, run.stdout, run.stderr);
        assert!(!self.path("pwned").exists(), "a program of another user ran: {said}");
        assert_eq!(fs::read_to_string(self.path("victim/kept")).expect(&said), "of root\n");
        for kept in ["shared/evil/.git/config", "shared/evil.workspaces/w/.git"] {
            assert!(self.path(kept).exists(), "{kept} is gone: {said}");
        }
        let evil = self.path("shared/evil.workspaces");
        let covered = mounts_below(&self.sandbox.path()).into_iter().find(|at| {
            !before.contains(at) && (at.starts_with(self.path("victim")) || at.starts_with(&evil))
        });
        assert_eq!(covered, None, "{said}");
        run
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("root may");
}

fn give(path: &Path) {
    chown(path, Some(ORDINARY), Some(ORDINARY)).expect("root may");
}

/// Each command that acts on workspaces or on bases, with the name `w` of the attacker's workspace.
const LINES: &[&[&str]] = &[
    &["workspace", "list"],
    &["workspace", "create", "n"],
    &["workspace", "create", "n", "--exec", "--", "true"],
    &["workspace", "mount", "w"],
    &["workspace", "mount", "--all"],
    &["workspace", "unmount", "--all"],
    &["workspace", "exec", "w", "--", "true"],
    &["workspace", "enter", "w"],
    &["workspace", "move", "w", "../moved"],
    &["workspace", "freeze", "w"],
    &["workspace", "thaw", "w"],
    &["workspace", "rebase", "w", "HEAD"],
    &["workspace", "remove", "w"],
    &["workspace", "remove", "--force", "w"],
    &["workspace", "gc"],
    &["workspace", "doctor"],
    &["workspace", "base", "add"],
    &["workspace", "base", "list"],
    &["workspace", "base", "verify"],
    &["workspace", "base", "gc"],
    &["workspace", "base", "prune"],
    &["workspace", "changes", "2", "x"],
    &["base", "push", "file:///nowhere/at/all", "HEAD"],
    &["status"],
    &["switch", "w"],
    &["add", "."],
    &["worktree", "list"],
    &["worktree", "prune"],
];

/// A file `.git` that is not Git's, above directories of root: outside of repositories, it leads
/// to an error. In root's repository it means nothing.
#[test]
fn a_marker_of_another_user_above_the_current_directory_leads_nowhere() {
    let Some(shared) = Shared::new() else { return };
    shared.plant(&shared.path("victim"));
    let marker = shared.path("shared/.git");
    fs::write(&marker, shared.marker()).expect("written");
    give(&marker);
    for line in LINES {
        for dir in ["shared/mine", "shared/evil.workspaces/w"] {
            let run = shared.run(dir, line);
            let said = format!("{line:?} in {dir}: {} {}{}", run.code, run.stdout, run.stderr);
            assert_eq!(run.code, 128, "{said}");
            let is_refusal = said.contains("detected dubious ownership in repository at");
            assert!(is_refusal || line.contains(&"changes"), "{said}");
        }
    }
    // Root's own file does not make the repository root's.
    chown(&marker, Some(0), Some(0)).expect("root may");
    for line in LINES {
        assert_eq!(shared.run("shared/mine", line).code, 128, "{line:?}");
    }
    give(&marker);
    let made = shared.run("shared/mine/repo", &["workspace", "create", "n", "-b", "n", "--json"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let top = shared.path("shared/mine/repo.workspaces/n");
    assert!(made.stdout.to_string().contains(top.to_str().expect("UTF-8")), "{}", made.stdout);
    let listed = shared.run("shared/mine/repo", &["workspace", "list"]).stdout.to_string();
    assert!(listed.starts_with("n  [n]") && listed.lines().count() == 1, "{listed}");
    for line in LINES {
        shared.run("shared/mine/repo", line);
    }
}

/// A record that another user wrote into the repository of a team: the others go on.
#[test]
fn a_record_of_another_user_decides_nothing() {
    let Some(shared) = Shared::new() else { return };
    shared.plant(&shared.path("victim"));
    let made =
        shared.run("shared/mine/repo", &["workspace", "create", "n", "-b", "n", "--backend", "overlay"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    assert_eq!(shared.run("shared/mine/repo", &["workspace", "unmount", "n"]).code, 0);
    let (states, admins) = (".git/sapwood/workspaces", ".git/worktrees");
    for dir in [states, admins] {
        set_mode(&shared.mine().join(dir), 0o1777);
        let (from, to) = (shared.path("shared/evil").join(dir), shared.mine().join(dir));
        let copied = Command::new("cp").arg("-a").arg(from.join("w")).arg(to).status();
        assert!(copied.expect("cp runs").success());
    }
    for line in [
        &["mount", "w"][..],
        &["unmount", "w"],
        &["exec", "w", "--", "true"],
        &["move", "w", "../moved"],
        &["freeze", "w"],
        &["thaw", "w"],
        &["rebase", "w", "HEAD"],
        &["remove", "w"],
        &["remove", "--force", "w"],
    ] {
        let run = shared.run("shared/mine/repo", &[&["workspace"], line].concat());
        let said = format!("{line:?}: {} {}", run.code, run.stderr);
        assert!(run.code != 0 && said.contains("belongs to the user 54321"), "{said}");
        assert!(shared.mine().join(states).join("w/record").exists(), "{said}");
    }
    let removed = shared.run("shared/mine/repo", &["worktree", "remove", "--force", "--force", "w"]);
    assert!(removed.code != 0 && shared.mine().join(admins).join("w").exists(), "{}", removed.stderr);
    let all = shared.run("shared/mine/repo", &["workspace", "mount", "--all"]);
    let said = all.stderr.to_string();
    assert!(said.contains("Workspace 'n' is mounted") && said.contains("belongs to the user"), "{said}");
    assert_eq!(all.code, 1, "{said}");
    assert!(
        mounts_below(&shared.path("shared/mine")).contains(&shared.path("shared/mine/repo.workspaces/n"))
    );
    // The marks of an interrupted removal and of an interrupted move.
    for mark in ["removing", "moving"] {
        let path = shared.mine().join(states).join("w").join(mark);
        fs::write(&path, [b"/nowhere\0", shared.path("victim").as_os_str().as_encoded_bytes()].concat())
            .expect("written");
        give(&path);
        shared.run("shared/mine/repo", &["workspace", "gc"]);
        assert!(shared.mine().join(states).join("w/record").exists(), "{mark}");
        fs::remove_file(path).expect("removed");
    }
    // Root's own record behind a link of the other user.
    let own = shared.mine().join(states).join("link");
    symlink(shared.path("shared/evil").join(states).join("w"), &own).expect("made");
    assert_ne!(shared.run("shared/mine/repo", &["workspace", "mount", "link"]).code, 0);
}

/// A base directory that another user could change: its own, one below a directory or a link of the
/// other user, one for everybody, and an alternate.
#[test]
fn a_base_directory_of_another_user_is_refused() {
    let Some(shared) = Shared::new() else { return };
    shared.plant(&shared.path("victim"));
    let set = |dir: &Path| {
        shared.mine().git(&["config", "sapwood.baseDir", dir.to_str().expect("UTF-8")]);
    };
    let made =
        shared.run("shared/mine/repo", &["workspace", "create", "n", "-b", "n", "--backend", "overlay"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    shared.run("shared/mine/repo", &["workspace", "unmount", "n"]);
    let own = shared.path("bases");
    let refused = |line: &[&str]| {
        let run = shared.run("shared/mine/repo", line);
        let said = format!("{line:?}: {} {}", run.code, run.stderr);
        assert!(run.code != 0 && said.contains("detected dubious ownership in '"), "{said}");
        assert!(said.contains("git config --global --add safe.directory"), "{said}");
    };
    let all: &[&[&str]] = &[
        &["workspace", "create", "m", "-b", "m", "--backend", "overlay"],
        &["workspace", "base", "add"],
        &["workspace", "base", "list"],
        &["workspace", "base", "verify"],
        &["workspace", "base", "gc"],
        &["workspace", "base", "prune"],
    ];
    let foreign = shared.path("shared/foreign");
    let copied = Command::new("cp").arg("-a").args([&own, &foreign]).status();
    assert!(copied.expect("cp runs").success());
    give_to_ordinary_user(&foreign);
    let link = shared.path("shared/link");
    symlink(&own, &link).expect("made");
    std::os::unix::fs::lchown(&link, Some(ORDINARY), Some(ORDINARY)).expect("root may");
    let below = shared.path("shared/above/bases");
    fs::create_dir_all(&below).expect("created");
    give(&shared.path("shared/above"));
    for dir in [&foreign, &link, &below, &below.join("missing"), &shared.path("shared")] {
        set(dir);
        all.iter().for_each(|line| refused(line));
    }
    assert!(!shared.mine().join(".git/worktrees/m").exists());
    // A lock that is a link would make root create a file at its target.
    for name in ["lock", "transfers"] {
        let _ = fs::remove_file(own.join(name));
        symlink(shared.path("made"), own.join(name)).expect("made");
    }
    set(&own);
    assert_ne!(shared.run("shared/mine/repo", &["workspace", "base", "gc"]).code, 0);
    assert!(!shared.path("made").exists(), "a lock was made where a link leads");
    ["lock", "transfers"].iter().for_each(|name| fs::remove_file(own.join(name)).expect("removed"));
    // An alternate.
    fs::write(own.join("alternates"), foreign.as_os_str().as_encoded_bytes()).expect("written");
    refused(&["workspace", "base", "list"]);
    fs::remove_file(own.join("alternates")).expect("removed");
    // A base that was root's when the workspace was made.
    give(&own);
    for line in [&["workspace", "mount", "n"][..], &["workspace", "exec", "n", "--", "true"]] {
        refused(line);
    }
    // The way out that the message names, and nothing in the repository itself.
    shared.mine().git(&["config", "safe.directory", "*"]);
    refused(&["workspace", "mount", "n"]);
    let declared = format!("safe.directory={}", own.display());
    let run = shared.run("shared/mine/repo", &["-c", &declared, "workspace", "mount", "n"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    // Removal does not need the base.
    let run = shared.run("shared/mine/repo", &["workspace", "remove", "--force", "n"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
}

/// The owner mounts it, and so does root for the user who called `sudo`, or by `safe.directory`.
#[test]
fn the_owner_and_sudo_use_an_unmounted_workspace_from_inside() {
    let Some(shared) = Shared::new() else { return };
    let top = shared.path("shared/evil.workspaces/w");
    shared.plant(&top);
    // The programs are the owner's, and may run for the owner.
    fs::remove_dir_all(shared.path("shared/evil/.git/hooks")).expect("removed");
    fs::remove_file(shared.path("shared/evil/program")).expect("removed");
    let bases = shared.path("bases");
    give_to_ordinary_user(&bases);
    let at = shared.sandbox.repo("shared/evil.workspaces/w");
    let mounts = |command: &mut Command| {
        let output = command.arg("workspace").args(["mount", "w"]).output().expect("it can be run");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_mounted = mounts_below(&top).contains(&top);
        let undone = Command::new("umount").arg(&top).status();
        assert_eq!(undone.is_ok_and(|status| status.success()), is_mounted);
        (is_mounted, said)
    };
    let (is_mounted, said) = mounts(&mut at.command(SAPWOOD.as_ref()));
    assert!(!is_mounted && said.contains("detected dubious ownership in repository"), "{said}");
    let (is_mounted, said) = mounts(at.command(SAPWOOD.as_ref()).env("SUDO_UID", ORDINARY.to_string()));
    assert!(is_mounted, "{said}");
    let mut declared = at.command(SAPWOOD.as_ref());
    let (is_mounted, said) = mounts(declared.args(["-c", "safe.directory=*"]));
    assert!(is_mounted, "{said}");
}

/// The nearest repository is meant: one inside of the directory of an unmounted workspace.
#[test]
fn a_repository_below_an_unmounted_workspace_is_its_own() {
    let Some(shared) = Shared::new() else { return };
    shared.plant(&shared.path("victim"));
    let outer = shared.mine();
    let made = outer.run(SAPWOOD.as_ref(), &["workspace", "create", "a", "-b", "a", "--backend", "overlay"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    assert_eq!(outer.run(SAPWOOD.as_ref(), &["workspace", "unmount", "a"]).code, 0);
    let inner = shared.sandbox.init("shared/mine/repo.workspaces/a/inner");
    inner.write("file", "inner\n");
    inner.commit("inner");
    let made = inner.run(SAPWOOD.as_ref(), &["workspace", "create", "b", "-b", "b", "--backend", "copy"]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    assert_eq!(inner.git(&["worktree", "list"]).stdout.lines().count(), 2);
    assert_eq!(outer.git(&["worktree", "list"]).stdout.lines().count(), 2);
    // GIT_DIR names another one still.
    let mut explicit = shared.sandbox.repo("shared/mine/repo.workspaces/a").command(SAPWOOD.as_ref());
    let listed = explicit.env("GIT_DIR", inner.join(".git")).args(["workspace", "list"]).output();
    assert!(listed.expect("it can be run").stdout.starts_with(b"b "));
    // From inside of the unmounted one, from a directory in it, but not from a copy.
    let top = shared.sandbox.repo("shared/mine/repo.workspaces/a");
    top.write("sub/x", "");
    let sub = shared.sandbox.repo("shared/mine/repo.workspaces/a/sub");
    for at in [&top, &sub] {
        let listed = at.run(SAPWOOD.as_ref(), &["workspace", "list"]);
        assert!(listed.stdout.starts_with(b"a "), "{}{}", listed.stdout, listed.stderr);
    }
    let copy = shared.path("shared/mine/copy");
    fs::create_dir(&copy).expect("created");
    fs::copy(top.join(".git"), copy.join(".git")).expect("copied");
    let run = shared.run("shared/mine/copy", &["workspace", "list"]);
    assert_eq!(run.code, 128);
    assert!(run.stderr.to_string().contains("is not at this place"), "{}", run.stderr);
}

/// The upper layer decides what a workspace shows.
#[test]
fn an_upper_layer_of_another_user_is_refused() {
    let Some(shared) = Shared::new() else { return };
    shared.plant(&shared.path("victim"));
    let create = |name: &str, upper: &Path| {
        let line = ["workspace", "create", name, "-b", name, "--backend", "overlay", "--upper-dir"];
        shared.run("shared/mine/repo", &[&line[..], &[upper.to_str().expect("UTF-8")]].concat())
    };
    let above = shared.path("shared/above");
    fs::create_dir(&above).expect("created");
    give(&above);
    let refused = create("a", &above);
    assert!(
        refused.code != 0 && refused.stderr.contains_str("belongs to the user 54321"),
        "{}",
        refused.stderr
    );
    let made = create("b", &shared.path("shared"));
    assert_eq!(made.code, 0, "{}", made.stderr);
    for line in [["unmount", "b"], ["mount", "b"], ["unmount", "b"]] {
        let run = shared.run("shared/mine/repo", &[&["workspace"], &line[..]].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
    }
    give(&shared.path("shared/b"));
    for line in [&["mount", "b"][..], &["exec", "b", "--", "true"], &["remove", "--force", "b"]] {
        let run = shared.run("shared/mine/repo", &[&["workspace"], line].concat());
        assert!(run.code != 0 && run.stderr.contains_str("belongs to the user 54321"), "{}", run.stderr);
    }
    assert!(shared.path("shared/b/upper").exists());
}

/// Another user makes a directory where the workspace of root was.
#[test]
fn a_directory_made_where_a_workspace_was_is_not_entered() {
    let Some(shared) = Shared::new() else { return };
    shared.plant(&shared.path("victim"));
    let top = shared.path("shared/n");
    for backend in ["copy", "overlay"] {
        let dir = top.to_str().expect("UTF-8");
        let line = ["workspace", "create", "n", "-d", "--backend", backend, "--dir", dir];
        let made = shared.run("shared/mine/repo", &line);
        assert_eq!(made.code, 0, "{}", made.stderr);
        shared.run("shared/mine/repo", &["workspace", "unmount", "n"]);
        let aside = shared.path("shared/aside");
        fs::rename(&top, &aside).expect("moved");
        fs::create_dir(&top).expect("created");
        fs::write(top.join(".git"), format!("gitdir: {}\n", shared.path("shared/evil/.git").display()))
            .expect("written");
        fs::write(top.join("file"), "of the attacker\n").expect("written");
        give_to_ordinary_user(&top);
        for line in [
            &["workspace", "mount", "n"][..],
            &["workspace", "exec", "n", "--", SAPWOOD, "status"],
            &["workspace", "rebase", "n", "HEAD"],
            &["workspace", "remove", "n"],
            &["worktree", "remove", "n"],
        ] {
            let run = shared.run("shared/mine/repo", line);
            // Nothing is mounted for a copy.
            let is_idle = backend == "copy" && line.contains(&"mount");
            assert!(is_idle || run.code != 0, "{backend} {line:?}: {}{}", run.stdout, run.stderr);
            assert!(top.join("file").exists(), "{backend} {line:?}");
        }
        fs::remove_dir_all(&top).expect("removed");
        fs::rename(&aside, &top).expect("moved");
        let removed = shared.run("shared/mine/repo", &["workspace", "remove", "n"]);
        assert_eq!(removed.code, 0, "{}", removed.stderr);
    }
}

/// Another user makes the repository of a mirror before root's mirror does.
#[test]
fn a_mirror_of_another_user_is_refused() {
    let Some(shared) = Shared::new() else { return };
    shared.plant(&shared.path("victim"));
    let evil = shared.sandbox.repo("shared/evil");
    evil.git(&["-c", "safe.directory=*", "config", "sapwood.baseMirror", "true"]);
    evil.git(&["-c", "safe.directory=*", "config", "remote.origin.url", "ssh://nowhere.invalid/x"]);
    give_to_ordinary_user(&evil.path);
    let line = ["base", "mirror", "--once", "--dir", "../../evil/.git", "file:///nowhere/at/all"];
    let run = shared.run("shared/mine/repo", &line);
    assert!(run.code == 128 && run.stderr.contains_str("detected dubious ownership"), "{}", run.stderr);
    let lock = shared.path("shared/m.mirror-lock");
    symlink(shared.path("made"), &lock).expect("made");
    let line =
        ["base", "mirror", "--once", "--dir", "../../m", "file:///nowhere/at/all", "file:///nothing/at/all"];
    assert_ne!(shared.run("shared/mine/repo", &line).code, 0);
    assert!(!shared.path("made").exists(), "a lock was made where a link leads");
}

/// A clone goes on with what a killed clone left, but not with what another user put there.
#[test]
fn a_clone_does_not_take_over_what_another_user_left() {
    let Some(shared) = Shared::new() else { return };
    shared.plant(&shared.path("victim"));
    let url = shared.mine().path.display().to_string();
    for owner in [0, ORDINARY] {
        let top = shared.sandbox.repo("shared/dest");
        shared.mine().git(&["clone", "-q", "--template=", &url, "../../dest"]);
        top.remove("file");
        top.remove(".git/index");
        top.write(".git/sapwood-clone", format!("1\n{url}\n"));
        if owner != 0 {
            let program = format!("#!/bin/sh\ntouch '{}'\n", shared.path("pwned").display());
            top.write_executable(".git/hooks/post-checkout", &program);
            give_to_ordinary_user(&top.path);
        }
        let run = shared.run("shared/mine", &["clone", "-q", &url, "../dest"]);
        let said = run.stderr.to_string();
        if owner == 0 {
            assert!(run.code == 0 && top.join("file").exists(), "{said}");
        } else {
            assert!(
                run.code == 128 && said.contains("already exists and is not an empty directory"),
                "{said}"
            );
            assert!(!top.join("file").exists());
        }
        fs::remove_dir_all(&top.path).expect("removed");
    }
    // The directory of a clone that was killed early is emptied, but not one of another user.
    let left = shared.path("shared/dest/.clone-1");
    fs::create_dir_all(&left).expect("created");
    fs::write(left.join("sapwood-clone"), format!("1\n{url}\n")).expect("written");
    fs::write(left.join("kept"), "").expect("written");
    give_to_ordinary_user(&shared.path("shared/dest"));
    assert_eq!(shared.run("shared/mine", &["clone", "-q", &url, "../dest"]).code, 128);
    assert!(left.join("kept").exists());
}
