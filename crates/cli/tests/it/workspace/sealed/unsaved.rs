//! Work in sealed workspaces that a removal would lose, or would not.

use super::hostile::Scene;

/// A case: its name, a script that runs in the Git directory, and a part of the message with which
/// the removal is refused; `None` if nothing would be lost. The branch is landed before.
type Case = (&'static str, &'static str, Option<&'static str>);

/// Commits the submodule `m`, whose files a program would have to filter.
const SUBMODULE: &str = "unset GIT_DIR; cd $ws; git init -q m; cd m; echo one >f; git add f; \
    git commit -q -m m; cd ..; git add m 2>/dev/null; git commit -q -m m; cd m; ";

const SUBMODULES: &[Case] = &[
    (
        "a submodule with a filter",
        "git config filter.e.clean $X; git config filter.e.process $X; git config core.fsmonitor $X; \
      echo '* filter=e' >.gitattributes; echo two >f",
        Some("contains files in the submodule 'm'"),
    ),
    ("a submodule that waits", "rm .git/config; mkfifo .git/config", Some("the submodule 'm'")),
    ("a submodule without a repository", "rm -r .git", Some("the submodule 'm'")),
    ("a submodule without files", "rm -r .git f", None),
    ("a submodule that is a file", "cd ..; rm -r m; echo x >m", Some("the submodule 'm'")),
    ("a submodule that is a link", "cd ..; rm -r m; ln -s $O m", Some("the submodule 'm'")),
    ("no submodule", "cd ..; rm -r m", None),
    (
        "a repository that is not committed",
        "rm -r .git f; git init -q ../u; cd ../u; echo x >f; git config core.fsmonitor $X; rm .git/HEAD; \
      mkfifo .git/HEAD",
        Some("untracked files"),
    ),
];

/// Commits a file.
const COMMITTED: &str = "unset GIT_DIR; cd $ws; echo one >f; git add f; git commit -q -m f; ";

const STATES: &[Case] = &[
    (
        "a tag at a commit",
        "c=$(git commit-tree -p HEAD -m x HEAD^{tree}); git tag keep $c",
        Some("an object at refs/tags/keep"),
    ),
    ("a tag object", "git tag -m x keep", Some("an object at refs/tags/keep")),
    ("a packed tag", "git tag -m x keep; git pack-refs --all", Some("an object at refs/tags/keep")),
    ("a tag at the commit", "git tag keep; git tag -m x old; git tag -d old", None),
    ("a note", "git notes add -m x", Some("an object at refs/notes/commits")),
    (
        "a ref of the worktree",
        "git update-ref refs/worktree/x $(git hash-object -w f); git update-ref refs/worktree/y \
      $(echo z | git hash-object -w --stdin)",
        Some("an object at refs/worktree/"),
    ),
    (
        "a branch whose packed value is old",
        "c=$(git commit-tree -p HEAD -m x HEAD^{tree}); git branch two $c; git pack-refs --all; \
      git branch -f two HEAD",
        None,
    ),
    (
        "another branch",
        "git branch two $(git commit-tree -p HEAD -m x HEAD^{tree})",
        Some("commits at refs/heads/two"),
    ),
    ("a stash", "echo x >f; git stash -q", Some("an object at refs/stash")),
    (
        "a staged file",
        "echo x >f; git add f; git restore --source=HEAD --worktree f",
        Some("has staged changes"),
    ),
    (
        "a staged file in a whole index",
        "git update-index --no-split-index; echo x >f; git add f; git restore --source=HEAD --worktree f",
        Some("has staged changes"),
    ),
    ("a staged file that is ignored", "echo x >f.o; git add -f f.o; rm f.o", Some("has staged changes")),
    ("a file that is ignored and intended", "echo x >f.o; git add -f -N f.o", Some("has staged changes")),
    ("a staged mode", "git update-index --chmod=+x f", Some("has staged changes")),
    ("an index that is compressed", "git update-index --index-version 4", None),
    ("an index of nonsense", "head -c 5000 /dev/urandom >.git/index", Some("cannot find out")),
    ("an index that never ends", "truncate -s 1T .git/index", Some("'index' of the workspace is too large")),
    ("an index that waits", "rm .git/index; mkfifo .git/index", Some("'index' of the workspace")),
    ("an index that is a link", "rm .git/index; ln -s $O/index .git/index", Some("'index' of the workspace")),
    (
        "an index without its half",
        "git update-index --split-index; rm -f .git/sharedindex.*",
        Some("'sharedindex."),
    ),
    ("no index", "rm .git/index", None),
    ("a merge", "git rev-parse HEAD >.git/MERGE_HEAD", Some("has a merge that is not concluded")),
    ("a merge with a stash", "git rev-parse HEAD >.git/MERGE_AUTOSTASH", Some("has a merge")),
    ("a rebase", "mkdir .git/rebase-merge", Some("has a rebase that is not concluded")),
    ("picks", "mkdir .git/sequencer", Some("has a sequence of picks that is not concluded")),
    ("a bisection", "git bisect start 2>/dev/null >&2", Some("has a bisection")),
    ("another worktree", "git worktree add -q --detach $ws.other", Some("has a worktree of its own")),
    ("the repository of a submodule", "mkdir -p .git/modules/m", Some("has the repository of a submodule")),
];

fn each(backend: &str, before: &str, cases: &[Case]) {
    for (name, script, part) in cases {
        println!("{backend}: {name}");
        let scene = Scene::new(backend);
        scene.spoil(&format!("{before}{script}"));
        let (code, said) = scene.soon(&["land", "one"]);
        assert_eq!(code, 0, "{name}: {said}");
        let (code, said) = scene.soon(&["remove", "one"]);
        match part {
            Some(part) => assert!(code != 0 && said.contains(part), "{name}: {code}: {said}"),
            None => assert_eq!(code, 0, "{name}: {said}"),
        }
        assert!(!scene.place.sandbox.path().join("ran").exists(), "{name}: a program ran");
    }
}

#[test]
fn submodules_are_not_opened() {
    each("overlay", SUBMODULE, SUBMODULES);
}

#[test]
fn what_the_git_directory_holds_is_not_lost() {
    for backend in ["overlay", "copy"] {
        each(backend, COMMITTED, STATES);
    }
}

#[test]
fn many_refs_take_one_walk() {
    let scene = Scene::new("overlay");
    let repo = scene.place.repo();
    for number in 0..50 {
        repo.write("file", format!("{number}\n"));
        repo.commit("more");
    }
    repo.git(&["branch", "landed"]);
    let script = format!(
        r#"git fetch -q {} HEAD; git rev-list FETCH_HEAD >c; {{ cat packed-refs; awk '{{ c[NR] = $1 }} END {{
        for (i = 0; i < 200000; i++) printf "%s refs/heads/x/%06d\n", c[i % NR + 1], i }}' c; }} >p
        mv p packed-refs"#,
        repo.join(".git").display()
    );
    scene.spoil(&script);
    let begun = std::time::Instant::now();
    let (code, said) = scene.soon(&["remove", "one"]);
    assert_eq!(code, 0, "{said}");
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
}
