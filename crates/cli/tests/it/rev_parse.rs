//! `rev-parse` through the shim, compared with Git: the output is equal, and usual forms are
//! native.

use testkit::Oracle;

use crate::{full, shim::Shim};

/// Command lines that sapwood serves in every repository below.
const NATIVE: &[&[&str]] = &[
    &["HEAD"],
    &["--git-dir"],
    &["--absolute-git-dir"],
    &["--git-common-dir"],
    &["--path-format=absolute", "--git-dir", "--git-common-dir", "--git-path", "MERGE_HEAD"],
    &["--path-format=relative", "--git-dir", "--git-common-dir", "--absolute-git-dir"],
    &["--show-prefix"],
    &["--show-cdup"],
    &["--is-inside-git-dir", "--is-inside-work-tree", "--is-bare-repository"],
    &["--is-shallow-repository", "--show-object-format", "--show-ref-format"],
    &["--show-object-format=output"],
    &["--verify", "HEAD"],
    &["--verify", "-q", "HEAD^{commit}"],
    &["--verify", "-q", "nothing"],
    &["--verify", "nothing"],
    &["--verify", "HEAD", "HEAD"],
    &["--verify"],
    &["--default", "HEAD", "--verify"],
    &["--default", "HEAD"],
    &["--short", "HEAD"],
    &["--short=12", "HEAD"],
    &["--short=1", "HEAD"],
    &["--short=99", "HEAD~1"],
    &["--abbrev-ref", "HEAD"],
    &["--abbrev-ref", "@"],
    &["--abbrev-ref=loose", "main", "v1", "HEAD~1"],
    &["--symbolic", "main", "HEAD~1", "^v1"],
    &["--symbolic-full-name", "HEAD", "main", "v1", "--not", "main"],
    &["--sq", "HEAD", "^v1"],
    &["main:dir/b", "HEAD^{tree}", "v1^{}", "v1^{commit}", "HEAD~1^0"],
    &["main..HEAD", "..main", "main.."],
    &["HEAD~1...main"],
    &["--all"],
    &["--branches", "--tags", "--remotes"],
    &["--symbolic", "--branches"],
    &["--symbolic-full-name", "--all"],
    &["--revs-only", "HEAD", "--", "a"],
    &["--no-revs", "HEAD", "--", "a"],
    &["--flags", "HEAD", "--", "a"],
    &["HEAD", "--", "a", "none"],
    &["--end-of-options", "HEAD"],
    &["-q", "--git-path", "HEAD"],
    &[],
    &["-h"],
];

/// Command lines left to Git: it prints an error, a warning, or uses rules that sapwood lacks.
const OTHERS: &[&[&str]] = &[
    &["nothing"],
    &["a"],
    &["nothing", "--"],
    &["--abbrev-ref", "@{upstream}"],
    &["--symbolic-full-name", "@{push}"],
    &["HEAD^!", "HEAD^@", "HEAD^-"],
    &[":a", ":0:a", ":/one"],
    &["HEAD^{/one}", "HEAD@{1.day.ago}", "HEAD@{tea}", "HEAD@{yesterday noon}", "HEAD@{99}"],
    &["--since=1970-01-01T00:00:01Z"],
    &["--glob=refs/heads/*"],
    &["--git-path", "hooks"],
    &["--git-path", "index"],
    &["--show-superproject-working-tree"],
    &["--local-env-vars"],
    &["--short=x", "HEAD"],
    &["--no-such-option"],
    &["--git-path"],
    &["HEAD:./a", "HEAD:../a"],
    &["v1@{0}"],
    &["topic@{0}", "HEAD@{1}", "@{1}", "@{0}"],
    &["--verify", "main..HEAD"],
];

/// Kinds of repositories: a shell script that runs in a repository with two commits, a branch and a
/// tag.
const REPOSITORIES: &[(&str, &str)] = &[
    ("plain", "true"),
    ("packed", "git gc -q"),
    ("detached", "git checkout -q --detach"),
    ("ambiguous", "git tag topic main; git branch v1 main"),
    ("upstream", "git remote add origin .; git fetch -q origin; git branch -q -u origin/main"),
    ("broken ref", "echo nonsense >.git/refs/heads/bad; git symbolic-ref refs/heads/lost refs/heads/none"),
    ("shallow", "git rev-parse HEAD >.git/shallow"),
    ("replaced", "git replace HEAD HEAD~1"),
    ("grafts", "git rev-parse HEAD >.git/info/grafts"),
    ("short names", "git config core.abbrev 10; git config core.warnAmbiguousRefs false"),
    ("bad setting", "git config core.abbrev x"),
    ("bare by setting", "git config core.bare true"),
];

fn set_up(repo: &testkit::Repo<'_>, script: &str) {
    repo.write("a", "1\n");
    repo.write("dir/b", "2\n");
    repo.commit("one");
    repo.git(&["branch", "topic"]);
    repo.git(&["tag", "-a", "-m", "a tag", "v1"]);
    repo.write("a", "3\n");
    repo.commit("two");
    let mut shell = repo.command("sh".as_ref());
    let made = shell.args(["-c", script]).output().expect("a shell");
    assert!(made.status.success(), "{script}: {}", String::from_utf8_lossy(&made.stderr));
}

#[test]
fn prints_what_git_prints() {
    // A third of the calls in each repository, another third in the next one.
    let stride = if full() { 1 } else { 3 };
    for (first, (kind, script)) in REPOSITORIES.iter().enumerate() {
        let shim = Shim::new();
        let oracle = Oracle::new(&shim.program(), |repo| set_up(repo, script));
        let places = ["", "dir", ".git", ".git/refs"];
        let calls = NATIVE.iter().chain(OTHERS).flat_map(|line| places.map(|place| (line, place)));
        for (line, place) in calls.skip(first % stride).step_by(stride) {
            oracle.same_answer_in(kind, place, &[&["rev-parse"], *line].concat());
        }
        oracle.same_state(&[kind]);
    }
}

#[test]
fn usual_questions_are_native() {
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), |repo| set_up(repo, "true"));
    for line in NATIVE {
        oracle.same_answer_in("", "", &[&["rev-parse"], *line].concat());
        if line != &["-h"] {
            shim.was_native(&[]);
        }
    }
}

#[test]
fn places_named_by_variables_and_options() {
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), |repo| {
        set_up(repo, "git worktree add -q linked topic; git clone -q --bare . bare.git; mkdir -p x/y");
    });
    let globals: &[&[&str]] = &[
        &["--git-dir=.git"],
        &["--git-dir=.git", "--work-tree=dir"],
        &["--git-dir=.git", "--work-tree=.", "-C", "dir"],
        &["--work-tree=x"],
        &["--bare"],
        &["-C", "linked"],
        &["-C", "bare.git"],
        &["-C", "bare.git/refs"],
        &["-C", "x/y"],
        &["--git-dir=bare.git"],
        &["-c", "core.worktree=../x"],
    ];
    for global in globals {
        for line in NATIVE.iter().chain(&[&["--show-toplevel"][..]]) {
            oracle.same_answer_in("", "", &[global, &["rev-parse"][..], *line].concat());
        }
    }
}
