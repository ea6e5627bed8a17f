//! Trees and commits that no command has checked out, compared with Git's plumbing.

use sapwood::{
    ObjectId, Repository, Silent, commit_tree,
    make_tree::{self, Entry, Kind},
    write_tree,
};
use testkit::{Repo, Sandbox};

use crate::open;

fn committed(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.init("repo");
    repo.write("file", "1\n");
    repo.write("dir/a", "2\n");
    repo.write("dir.txt", "3\n");
    repo.commit("one");
    repo
}

fn tree(repository: &Repository, request: make_tree::Request) -> Result<ObjectId, String> {
    let plan = make_tree::plan(repository, request).map_err(|error| error.to_string())?;
    Ok(plan.run(&Silent).expect("a tree").tree)
}

#[test]
fn a_tree_of_entries_is_gits() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    let repository = open(&repo);
    let entry = |name: &str, mode, kind| Entry {
        mode,
        kind,
        name: name.into(),
        oid: repository.resolve(&format!("HEAD:{name}")).expect("an object"),
    };
    let file = entry("file", 0o100644, Kind::Blob);
    let all =
        || vec![file.clone(), entry("dir", 0o40000, Kind::Tree), entry("dir.txt", 0o100644, Kind::Blob)];
    let request = make_tree::Request { entries: all(), allow_missing: false };
    assert_eq!(tree(&repository, request), Ok(repository.resolve("HEAD^{tree}").expect("a tree")));

    let refused = |entry: Entry| {
        tree(&repository, make_tree::Request { entries: vec![entry], allow_missing: false })
            .expect_err("it is refused")
    };
    let shown = file.oid;
    let other = Entry { kind: Kind::Tree, ..file.clone() };
    assert_eq!(refused(other), "entry 'file' object type (tree) doesn't match mode type (blob)");
    let tree_mode = Entry { mode: 0o40000, kind: Kind::Tree, ..file.clone() };
    let message = format!("entry 'file' object {shown} is a blob but specified type was (tree)");
    assert_eq!(refused(tree_mode), message);
    let missing = Entry { oid: ObjectId::null(shown.kind()), ..file.clone() };
    let message = format!("entry 'file' object {} is unavailable", missing.oid);
    assert_eq!(refused(missing), message);
    assert_eq!(refused(Entry { name: "a/b".into(), ..file }), "path a/b contains slash");
}

#[test]
fn a_commit_of_a_tree_is_gits() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    let repository = open(&repo);
    let (head, tree) =
        (repository.resolve("HEAD").expect("a commit"), repository.resolve("HEAD^{tree}").expect("a tree"));
    let request = commit_tree::Request {
        parents: vec![head, head],
        message: "text\n".into(),
        ..commit_tree::Request::of(tree)
    };
    let plan = commit_tree::plan(&repository, request.clone()).expect("a plan");
    assert_eq!(plan.to_string(), format!("write a commit of tree {tree} with 1 parents"));
    let ours = plan.run(&Silent).expect("a commit").commit;
    let (tree, head) = (tree.to_string(), head.to_string());
    let theirs = repo.git(&["commit-tree", "-m", "text", "-p", &head, &tree]).stdout;
    assert_eq!(theirs, format!("{ours}\n"));
    assert_eq!(repo.git(&["rev-parse", "HEAD"]).stdout, format!("{head}\n"), "no ref moves");

    let swapped = commit_tree::Request { tree: request.parents[0], ..request };
    let refused = commit_tree::plan(&repository, swapped).err().expect("it is refused");
    assert_eq!(refused.to_string(), format!("{head} is not a valid 'tree' object"));
}

#[test]
fn the_trees_of_the_index_are_gits() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    repo.write("dir/new", "4\n");
    repo.git(&["add", "dir/new"]);
    let repository = open(&repo);
    let written = |prefix: Option<&str>| {
        let request =
            write_tree::Request { prefix: prefix.map(Into::into), ..write_tree::Request::default() };
        write_tree::plan(&repository, request).expect("a plan").run(&Silent).map(|report| report.tree)
    };
    let whole = written(None).expect("a tree");
    assert_eq!(repo.git(&["write-tree"]).stdout, format!("{whole}\n"));
    let dir = written(Some("dir/")).expect("a tree");
    assert_eq!(repo.git(&["write-tree", "--prefix=dir/"]).stdout, format!("{dir}\n"));
    let refused = written(Some("none/")).expect_err("it is refused");
    assert_eq!(refused.to_string(), "git-write-tree: prefix none/ not found");
    // A planned operation holds the lock of the index, and releases it.
    let plan = write_tree::plan(&repository, write_tree::Request::default()).expect("a plan");
    assert!(repo.exists(".git/index.lock"));
    drop(plan);
    assert!(!repo.exists(".git/index.lock"));
}
