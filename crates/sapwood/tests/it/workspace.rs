//! Workspaces as operations. The backend is the best one that works here.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

use sapwood::{
    Events, Notice, Silent, status,
    workspace::{
        create::{self, Backend, Sharing},
        freeze::{self, Activity},
        list::{self, Mounted},
        mount, rebase, relocate, remove, unmount,
    },
    worktree,
};
use testkit::{NoMountsBelow, Repo, Sandbox};

use crate::{open, open_with};

/// A repository with a commit.
fn committed(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.init("repo");
    repo.write("a", "1\n");
    repo.write("dir/b", "2\n");
    repo.commit("one");
    repo
}

fn create(repo: &Repo<'_>, request: create::Request) -> create::Report {
    create::plan(&open(repo), request).expect("a plan").run(&Silent).expect("a workspace")
}

fn named(name: &str) -> create::Request {
    create::Request { name: name.into(), ..create::Request::default() }
}

/// Removes a workspace. Returns the reason of a refusal, of the plan or of its run.
fn remove(repo: &Repo<'_>, name: &str, force: bool) -> Result<remove::Report, String> {
    let repository = open(repo);
    let request = remove::Request { name: name.into(), force };
    let plan = remove::plan(&repository, request).map_err(|error| error.to_string())?;
    plan.run(&Silent).map_err(|error| error.to_string())
}

/// Returns the workspace as a repository for plain Git.
fn inside<'s>(sandbox: &'s Sandbox, path: &Path) -> Repo<'s> {
    sandbox.repo(path.to_str().expect("a plain path"))
}

#[test]
fn plain_git_works_in_a_workspace() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = committed(&sandbox);
    let plan = create::plan(&open(&repo), named("one")).expect("a plan");
    let dir = sandbox.path().join("repo.workspaces/one");
    let shown = format!("create workspace 'one' at '{}' (branch 'one' at HEAD)", dir.display());
    assert_eq!(plan.to_string(), shown);
    assert!(!dir.exists() && !repo.exists(".git/sapwood"));
    let report = plan.run(&Silent).expect("a workspace");
    assert_eq!((report.path.as_path(), report.hook), (dir.as_path(), 0));
    // Without the right to mount, the files are copies.
    let may_mount = sys::user::effective_uid() == 0 && testkit::disk::mounts_below(&dir) == [dir.clone()];
    assert_eq!(matches!(report.backend, Backend::Image | Backend::Overlay), may_mount, "{report:?}");

    let one = inside(&sandbox, &report.path);
    assert_eq!(one.git(&["status", "--porcelain", "--branch"]).stdout, "## one\n");
    assert_eq!(one.try_git(&["config", "core.fsmonitor"]).stdout, "", "there is no program to ask");
    one.write("a", "22\n");
    one.write("new", "");
    one.remove("dir/b");
    assert_eq!(one.git(&["status", "--porcelain"]).stdout, " M a\n D dir/b\n?? new\n");
    assert_eq!(repo.git(&["status", "--porcelain"]).stdout, "");
    one.commit("two");
    assert_eq!(one.git(&["status", "--porcelain"]).stdout, "");
    assert_eq!(repo.git(&["log", "--format=%s", "one"]).stdout, "two\none\n");

    assert!(remove(&repo, "one", false).expect("nothing is lost").is_complete);
    assert!(!dir.exists() && !repo.exists(".git/worktrees"));
    assert_eq!(repo.git(&["fsck"]).stdout, "");
}

/// The index of a workspace is split, and a list of the places of the entries is beside its shared
/// half. Git may write the index whole, and the list may be damaged.
#[test]
fn the_index_of_a_workspace_stays_split() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = committed(&sandbox);
    let report = create(&repo, named("one"));
    if !matches!(report.backend, Backend::Image | Backend::Overlay | Backend::OverlayUser) {
        // Without the right to mount, the files are copies, and the index is whole.
        return;
    }
    let one = inside(&sandbox, &report.path);
    let files = |suffix: &str| {
        let is_shared = |name: &String| name.starts_with("sharedindex.") && name.ends_with(suffix);
        let entries = std::fs::read_dir(repo.join(".git/worktrees/one")).expect("there");
        let names = entries.map(|entry| entry.expect("read").file_name().into_string().expect("plain"));
        names.filter(is_shared).collect::<Vec<_>>()
    };
    let [places] = &files(".places")[..] else { panic!("there is one list") };
    assert_eq!(files("").len(), 2);
    let is_split_at = |name: &str| {
        let index = repo.read(format!(".git/worktrees/one/{name}"));
        index.windows(8).any(|bytes| bytes.starts_with(b"link\0\0\0"))
    };
    let is_split = || is_split_at("index");
    let changed_by = |variables: &[(&str, &str)]| {
        let repository = open_with(&one, variables);
        let plan = status::plan(&repository, status::Request::default()).expect("a plan");
        let status = plan.run(&Silent).expect("a status");
        status.changes.keys().map(ToString::to_string).collect::<Vec<_>>()
    };
    let changed = || changed_by(&[]);
    one.write("a", "22\n");
    assert_eq!(changed(), ["a"]);
    assert!(is_split());

    one.git(&["update-index", "--no-split-index"]);
    assert!(!is_split());
    assert_eq!(changed(), ["a"]);
    assert!(is_split() && files("").len() == 2);
    assert_eq!(one.git(&["status", "--porcelain"]).stdout, " M a\n");
    one.git(&["add", "a"]);
    assert_eq!(one.git(&["ls-files"]).stdout, "a\ndir/b\n");

    // Another index in the same directory stays whole.
    let other = repo.join(".git/worktrees/one/other").display().to_string();
    one.git(&["-c", &format!("alias.make=!GIT_INDEX_FILE='{other}' git read-tree HEAD"), "make"]);
    assert_eq!(changed_by(&[("GIT_INDEX_FILE", &other)]), ["a"]);
    assert!(!is_split_at("other") && is_split());

    let places = repo.join(".git/worktrees/one").join(places);
    let whole = std::fs::read(&places).expect("there");
    for damaged in [vec![], b"other".to_vec(), vec![0; whole.len()], whole[..whole.len() - 1].to_vec()] {
        std::fs::remove_file(&places).expect("there");
        std::fs::write(&places, damaged).expect("written");
        assert_eq!(changed(), ["a"]);
    }
}

#[test]
fn unsaved_work_stays() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = committed(&sandbox);
    let report = create(&repo, named("one"));
    let one = inside(&sandbox, &report.path);
    let changed = "'one' contains modified or untracked files, use --force to delete it";
    one.write("untracked", "");
    assert_eq!(remove(&repo, "one", false).expect_err("it is refused"), changed);
    // The change comes between plan and run.
    one.remove("untracked");
    let repository = open(&repo);
    let request = remove::Request { name: "one".into(), force: false };
    let plan = remove::plan(&repository, request).expect("a plan");
    one.write("a", "22\n");
    assert_eq!(plan.run(&Silent).expect_err("it is refused").to_string(), changed);
    assert_eq!(one.read("a"), "22\n");
    // A worktree is removed by another operation.
    let request = worktree::remove::Request { worktree: report.path.clone(), force: 1 };
    let refused = worktree::remove::plan(&repository, request).err().expect("it is refused");
    assert_eq!(refused.to_string(), format!("'{}' is a workspace", report.path.display()));
    // A commit that nothing else names.
    one.git(&["checkout", "-q", "--detach"]);
    one.commit("lost");
    let refused = remove(&repo, "one", false).expect_err("it is refused");
    assert!(refused.contains("which no branch or tag contains"), "{refused}");
    assert!(remove(&repo, "one", true).expect("by force").is_complete);
    assert!(!report.path.exists());
}

/// Another workspace with the same name and place, a move, and changes that cannot be examined.
#[test]
fn a_removal_looks_again_when_it_runs() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = committed(&sandbox);
    let detached = || create(&repo, create::Request { detach: true, ..named("one") });
    let report = detached();
    let repository = open(&repo);
    let plan = || {
        let request = remove::Request { name: "one".into(), force: true };
        remove::plan(&repository, request).expect("a plan")
    };
    let refused = |plan: remove::Plan<'_>| plan.run(&Silent).expect_err("it is refused").to_string();
    let replaced = plan();
    remove(&repo, "one", true).expect("by force");
    detached();
    let one = inside(&sandbox, &report.path);
    one.write("a", "mine\n");
    let changed = "the workspace 'one' was changed meanwhile; try again";
    assert_eq!(refused(replaced), changed);

    let moved = plan();
    let record = ".git/sapwood/workspaces/one/record";
    let before = repo.read(record).to_string();
    repo.write(record, before.replace("repo.workspaces/one", "repo.workspaces/two"));
    assert_eq!(refused(moved), changed);
    repo.write(record, &before);
    assert_eq!(one.read("a"), "mine\n");

    if report.backend.has_upper() {
        repo.write(".git/worktrees/one/index", "no index");
        let request = remove::Request { name: "one".into(), force: false };
        let error = remove::plan(&repository, request).err().expect("it is refused");
        let text =
            "cannot find out whether 'one' contains unsaved work, use --force to delete it in any case";
        assert_eq!(error.to_string(), text);
        let cause = std::error::Error::source(&error).expect("a cause").to_string();
        assert!(cause.contains("index"), "{cause}");
        assert_eq!(one.read("a"), "mine\n");
    }
    remove(&repo, "one", true).expect("by force");
}

/// The workspaces of a commit share a base, which is durable before the first one is there.
#[test]
fn lists_the_workspaces_of_one_base() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = committed(&sandbox);
    for name in ["one", "two"] {
        create(&repo, create::Request { detach: true, ..named(name) });
    }
    let two = inside(&sandbox, &sandbox.path().join("repo.workspaces/two"));
    two.write("new", "");
    let report =
        list::plan(&open(&repo), list::Request::default()).expect("a plan").run(&Silent).expect("a list");
    let [one, two] = report.workspaces.as_slice() else { panic!("{report:?}") };
    assert_eq!(
        (&one.branch, &one.commit),
        (&None, &Some(repo.git(&["rev-parse", "HEAD"]).stdout.to_string().trim().into()))
    );
    assert!(one.has_base && one.has_directory && matches!(one.mounted, Mounted::Here), "{one:?}");
    let record = (&one.workspace.record, &two.workspace.record);
    assert_eq!((record.0.backend, &record.0.base), (record.1.backend, &record.1.base));
    if record.0.backend.has_upper() {
        assert_eq!((one.changes, two.changes), (Some(0), Some(1)));
        let base = record.0.base.as_ref().expect("a base");
        assert!(!base.dir.join(&base.name).join("pending").exists());
    }
    let names = report.workspaces.iter().map(|found| found.workspace.name.to_str().expect("a plain name"));
    for name in names {
        remove(&repo, name, true).expect("by force");
    }
    let report =
        list::plan(&open(&repo), list::Request::default()).expect("a plan").run(&Silent).expect("a list");
    assert!(report.workspaces.is_empty());
}

/// Names a program that Git could ask.
struct WithProgram(PathBuf);

impl Events for WithProgram {
    fn program(&self) -> Option<PathBuf> {
        Some(self.0.clone())
    }
}

/// With the program, Git asks it for the changes. This one only notes that it was asked.
#[test]
fn git_asks_the_program() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = committed(&sandbox);
    repo.write_executable("../bin/sapwood", "#!/bin/sh\necho \"$1 $2\" >>\"$(dirname \"$0\")/asked\"\n");
    let program = sandbox.path().join("bin/sapwood");
    let plan = create::plan(&open(&repo), named("one")).expect("a plan");
    let report = plan.run(&WithProgram(program.clone())).expect("a workspace");
    if !report.backend.has_upper() {
        return;
    }
    let one = inside(&sandbox, &report.path);
    let command = format!("{} workspace changes\n", program.display());
    assert_eq!(one.git(&["config", "core.fsmonitor"]).stdout, command);
    one.git(&["status"]);
    let asked = std::fs::read_to_string(sandbox.path().join("bin/asked")).expect("it was asked");
    assert!(asked.contains("workspace changes\n"), "{asked}");
    remove(&repo, "one", true).expect("by force");
}

/// Makes a tag in a workspace whenever it hears something.
struct Late(PathBuf, AtomicUsize);

impl Events for Late {
    fn notice(&self, _: Notice) {
        let tags = self.0.join(".git/refs/tags");
        let number = self.1.fetch_add(1, Ordering::Relaxed);
        let head = std::fs::read(self.0.join(".git/refs/heads/one")).expect("a branch");
        std::fs::write(tags.join(format!("late-{number}")), head).expect("a tag");
    }
}

#[test]
fn a_change_during_the_check_keeps_a_sealed_workspace() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = committed(&sandbox);
    let request = create::Request { sealed: Some(Sharing::Auto), ..named("one") };
    let report = create(&repo, request);
    // Causes a notice when the settings are read, which the check does after the refs.
    repo.git(&["config", "core.fsyncObjectFiles", "true"]);
    let repository = open(&repo);
    let late = Late(report.path.clone(), AtomicUsize::new(0));
    let plan = remove::plan(&repository, remove::Request { name: "one".into(), force: false });
    let error = plan.expect("a plan").run(&late).expect_err("it was changed").to_string();
    assert!(error.contains("was changed meanwhile"), "{error}");
    let one = inside(&sandbox, &report.path);
    assert_eq!(one.git(&["status", "--porcelain"]).stdout, "");
    assert!(one.git(&["tag"]).stdout.to_string().contains("late-"));
    remove(&repo, "one", false).expect("no change");
    assert!(!report.path.exists());
}

#[test]
fn refuses_names_and_places() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    let refused = |request| create::plan(&open(&repo), request).err().expect("it is refused").to_string();
    assert!(refused(named("a/b")).contains("cannot be the name of a workspace"));
    let taken = create::Request { dir: Some("dir".into()), ..named("one") };
    assert_eq!(refused(taken), "'dir' already exists");
    let unknown = create::Request { start: Some("no-such".into()), ..named("one") };
    assert_eq!(refused(unknown), "invalid reference: no-such");
    assert!(!repo.exists(".git/sapwood"));
}

/// Returns true if the files of a workspace are mounted, and not copied.
fn is_mounted(report: &create::Report) -> bool {
    report.backend.has_upper()
}

#[test]
fn unmounts_and_mounts() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = committed(&sandbox);
    let report = create(&repo, named("one"));
    let one = inside(&sandbox, &report.path);
    one.write("new", "mine\n");
    let repository = open(&repo);
    let unmounted = unmount::plan(&repository, unmount::Request { name: "one".into() });
    let unmounted = unmounted.expect("a plan").run(&Silent).expect("an unmount").is_unmounted;
    assert_eq!((unmounted, one.exists("new")), (is_mounted(&report), !is_mounted(&report)));
    let request = mount::Request { name: "one".into() };
    let plan = mount::plan(&repository, request.clone()).expect("a plan");
    assert_eq!(plan.to_string(), "mount workspace 'one'");
    assert_eq!(plan.run(&Silent).expect("a mount").mounted, Mounted::Here);
    assert_eq!((one.read("new"), one.read("a")), ("mine\n".into(), "1\n".into()));
    assert!(mount::plan(&repository, mount::Request { name: "none".into() }).is_err());
}

#[test]
fn freezes_and_thaws() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = committed(&sandbox);
    let report = create(&repo, named("one"));
    let one = inside(&sandbox, &report.path);
    one.write("new", "mine\n");
    let repository = open(&repo);
    let plan = |activity| freeze::plan(&repository, freeze::Request { name: "one".into(), activity });
    if !is_mounted(&report) {
        let refused = plan(Activity::Frozen).err().expect("it is refused").to_string();
        assert!(refused.contains("has no upper layer"), "{refused}");
        return;
    }
    let frozen = plan(Activity::Frozen).expect("a plan").run(&Silent).expect("a freeze").workspace;
    assert_eq!((frozen.record.activity, one.exists("new")), (Activity::Frozen, false));
    let refused = mount::plan(&repository, mount::Request { name: "one".into() }).err();
    assert_eq!(refused.expect("it is refused").to_string(), "the workspace 'one' is frozen");
    plan(Activity::Active).expect("a plan").run(&Silent).expect("a thaw");
    assert_eq!(one.read("new"), "mine\n");
}

#[test]
fn moves_with_its_changes() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = committed(&sandbox);
    let report = create(&repo, named("one"));
    inside(&sandbox, &report.path).write("new", "mine\n");
    let repository = open(&repo);
    let plan =
        |to: &str| relocate::plan(&repository, relocate::Request { name: "one".into(), to: to.into() });
    let taken = plan("../repo").err().expect("it is refused").to_string();
    assert_eq!(taken, "'../repo' already exists");
    let late = plan("../late").expect("a plan");
    repo.write("../late/x", "");
    let refused = late.run(&Silent).expect_err("something is there now").to_string();
    assert_eq!(refused, "'../late' already exists");
    let moved = plan("../moved").expect("a plan").run(&Silent).expect("a move").workspace;
    assert!(moved.record.dir.ends_with("moved") && !report.path.exists());
    let one = inside(&sandbox, &moved.record.dir);
    assert_eq!((one.read("new"), one.read("a")), ("mine\n".into(), "1\n".into()));
    assert_eq!(one.git(&["status", "--porcelain", "--branch"]).stdout, "## one\n?? new\n");
}

/// HEAD, the files and the base are those of the commit, and the changes stay.
#[test]
fn rebases_on_another_commit() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = committed(&sandbox);
    let report = create(&repo, named("one"));
    repo.git(&["switch", "-q", "-c", "next"]);
    repo.write("a", "next\n");
    repo.write("c", "new\n");
    repo.remove("dir");
    repo.commit("two");
    let one = inside(&sandbox, &report.path);
    one.write("mine", "mine\n");
    let repository = open(&repo);
    let plan = |commit: &str, detach| {
        let (name, commit) = ("one".into(), commit.into());
        rebase::plan(&repository, rebase::Request { name, commit, detach })
    };
    let unknown = plan("nowhere", false).err().expect("it is refused").to_string();
    assert_eq!(unknown, "invalid reference: nowhere");
    let used = plan("next", false).expect("a plan").run(&Silent).expect_err("another worktree has it");
    assert!(used.to_string().starts_with("'next' is already used by worktree at "), "{used}");
    let base = |name: &str| {
        let found = sapwood::workspace::list::plan(&repository, list::Request::default()).expect("a plan");
        let found = found.run(&Silent).expect("a list").workspaces;
        let found = found.into_iter().find(|found| found.workspace.name.to_str() == Some(name));
        found.expect("the workspace").workspace.record.base.map(|base| base.name)
    };
    let before = base("one");
    let done = plan("next", true).expect("a plan").run(&Silent).expect("a rebase");
    assert_eq!(done.switched.new.branch, None);
    assert_eq!(done.base, base("one"));
    assert_eq!(done.base != before, is_mounted(&report));
    assert_eq!(
        (one.read("a"), one.read("c"), one.read("mine")),
        ("next\n".into(), "new\n".into(), "mine\n".into())
    );
    assert!(!one.exists("dir"));
    assert_eq!(one.git(&["status", "--porcelain"]).stdout, "?? mine\n");
    assert_eq!(one.git(&["rev-parse", "HEAD"]).stdout, repo.git(&["rev-parse", "next"]).stdout);
    // A local change in the way refuses the switch, and the workspace stays as it is.
    one.write("a", "mine\n");
    let refused = plan("one", false).expect("a plan").run(&Silent).expect_err("a change is in the way");
    assert!(refused.to_string().contains("would be overwritten by checkout"), "{refused}");
    assert_eq!((one.read("a"), base("one")), ("mine\n".into(), done.base));
}

#[test]
fn a_plan_to_remove_a_sealed_workspace_changes_nothing() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = committed(&sandbox);
    let report = create(&repo, create::Request { sealed: Some(Sharing::Auto), ..named("one") });
    let one = inside(&sandbox, &report.path);
    one.write("new", "mine\n");
    let repository = open(&repo);
    if is_mounted(&report) {
        unmount::plan(&repository, unmount::Request { name: "one".into() })
            .expect("a plan")
            .run(&Silent)
            .expect("unmounted");
    }
    let state = repo.join(".git/sapwood/workspaces/one");
    let shown = || {
        let entries = std::fs::read_dir(&state).expect("a state");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
        names.sort();
        (names, testkit::disk::mounts_below(&sandbox.path()))
    };
    let before = shown();
    let plan = remove::plan(&repository, remove::Request { name: "one".into(), force: false });
    let plan = plan.expect("a plan");
    assert_eq!(shown(), before, "the plan changed something");
    let refused = plan.run(&Silent).expect_err("it is refused").to_string();
    assert!(refused.contains("contains modified or untracked files"), "{refused}");
}
