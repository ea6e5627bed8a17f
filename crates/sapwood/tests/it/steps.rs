//! Functions below the operations, which the command line calls.

use std::{fs, sync::atomic::AtomicBool};

use sapwood::{
    HashKind, Silent, clone,
    fetch::several,
    index::{self, Access},
    settings::Settings,
    switch, trash,
    workspace::monitor::{self, Remote},
    worktree::add,
};
use testkit::{Repo, Sandbox};

fn open(repo: &Repo<'_>) -> repo::Repository {
    let options = repo::OpenOptions { cwd: repo.path.clone(), ..repo::OpenOptions::default() };
    repo::Repository::open(&options).expect("a repository")
}

#[test]
fn facts_of_an_index_are_read_from_its_bytes() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.write("dir/file", "1\n");
    repo.write("other", "1\n");
    repo.commit("first");
    let opened = open(&repo);
    let path = opened.index_path();
    let has = |dir: &str| index::has_entry_below(&opened, dir.into());
    let has_submodules = || index::has_submodules(&path, HashKind::Sha1);
    assert_eq!([has("dir"), has("di"), has("other")], [Some(true), Some(false), Some(false)]);
    assert!(!has_submodules().expect("an index"));
    let module = "160000,d00491fd7e5bb6fa28c517a0bb32b8b506539d4d,module";
    repo.git(&["update-index", "--add", "--cacheinfo", module]);
    for arg in ["--no-split-index", "--split-index"] {
        repo.git(&["update-index", arg]);
        assert_eq!([has("dir"), has("di")], [Some(true), Some(false)], "{arg}");
        assert!(has_submodules().expect("an index"), "{arg}");
        let all = index::load_as_is(&opened, Access::All).expect("an index");
        let some = index::load_as_is(&opened, Access::Lookups).expect("an index");
        assert_eq!((all.entries().len(), some.range_below("dir".into()).len()), (3, 1), "{arg}");
    }
    fs::write(&path, "DIRC").expect("written");
    assert_eq!(has("dir"), None);
    let error = has_submodules().expect_err("damaged").to_string();
    assert_eq!(error, format!("the index '{}' cannot be read", path.display()));
    assert!(index::load_as_is(&opened, Access::All).is_err());
    fs::remove_file(&path).expect("removed");
    assert!(!has_submodules().expect("no index"));
}

#[test]
fn several_fetches_run_at_once_as_configured() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    let jobs = |asked| several::jobs(&open(&repo), asked).map_err(|error| error.to_string());
    assert_eq!([jobs(None), jobs(Some(2)), jobs(Some(0))], [Ok(1), Ok(2), Ok(clone::workers())]);
    repo.git(&["config", "fetch.parallel", "-1"]);
    assert_eq!(jobs(None), Err("fetch.parallel cannot be negative".to_owned()));
}

#[test]
fn names_of_worktrees_and_branches() {
    let cases = [("a/b/", "b"), ("a/.b", "-b"), ("a b.lock", "a-b"), ("@", "-"), ("//", ""), ("", "")];
    for (path, name) in cases {
        assert_eq!(add::default_name(path.into()), name, "{path}");
    }
    assert!(["*", "a?", "[b", "c\\"].into_iter().all(|word| switch::has_wildcards(word.into())));
    assert!(!switch::has_wildcards("a/b-c]".into()));
}

#[test]
fn the_trash_is_emptied_before_the_call_returns() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.write(".git/sapwood/trash/1/dir/file", "1\n");
    trash::empty_here(&repo.join(".git"), &AtomicBool::new(false)).expect("empty");
    assert!(!repo.exists(".git/sapwood/trash"));
}

#[test]
fn a_worktree_is_told_to_ask_a_program() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    let opened = open(&repo);
    let settings = Settings::read(&opened, &Silent).expect("settings");
    monitor::configure(opened.git_dir(), &settings, "/a program".as_ref(), Remote::Fuse).expect("written");
    let list = repo.git(&["config", "--file", ".git/config.worktree", "--list"]).stdout.to_string();
    let expected = "core.fsmonitor='/a program' workspace changes\ncore.fsmonitorhookversion=2\n\
                    core.untrackedcache=true\nfsmonitor.allowremote=true\n";
    assert_eq!(list.to_lowercase(), expected);
}
