use std::{fs, os::unix::fs::symlink};

use repo::Repository;
use testkit::{Repo, Sandbox};

use crate::{git_output, open, options};

/// Makes loose, packed, symbolic and broken refs, some both loose and packed, in the main worktree
/// and another one.
fn all_kinds<'s>(sandbox: &'s Sandbox, format: &str) -> Repo<'s> {
    let at = sandbox.init("r");
    fs::remove_dir_all(at.join(".git")).expect("it was just made");
    at.git(&["init", "-q", "-b", "main", &format!("--object-format={format}")]);
    for number in 0..3 {
        at.write("f", format!("{number}"));
        at.commit(&format!("{number}"));
    }
    let old = git_output(&at, &["rev-parse", "HEAD~1"]);
    at.git(&["tag", "-a", "-m", "annotated", "v1", "HEAD~1"]);
    for name in ["refs/heads/a", "refs/heads/a-b", "refs/heads/c/d", "refs/remotes/o/main", "refs/x"] {
        at.git(&["update-ref", name, &old]);
    }
    at.git(&["pack-refs", "--all"]);
    at.git(&["worktree", "add", "-q", "--detach", "../other"]);
    at.git(&["update-ref", "refs/heads/a", "HEAD"]);
    at.git(&["update-ref", "refs/heads/loose/deep/er", "HEAD"]);
    at.git(&["update-ref", "refs/bisect/bad", "HEAD"]);
    at.git(&["-C", "../other", "update-ref", "refs/bisect/good", "HEAD~1"]);
    at.git(&["-C", "../other", "update-ref", "refs/worktree/own", "HEAD"]);
    at.git(&["symbolic-ref", "refs/remotes/o/HEAD", "refs/remotes/o/main"]);
    at.git(&["symbolic-ref", "refs/heads/c/e", "refs/heads/nowhere"]);
    let mut target = "refs/heads/a".to_owned();
    for depth in 1..=6 {
        let name = format!("refs/deep/{depth}");
        at.git(&["symbolic-ref", &name, &target]);
        target = name;
    }
    symlink("refs/heads/a", at.join(".git/refs/heads/linked")).expect("made");
    symlink("../x", at.join(".git/refs/heads/link-to-file")).expect("made");
    fs::write(at.join(".git/refs/heads/x"), "no link leads here\n").expect("written");
    symlink("nowhere", at.join(".git/refs/heads/dangling")).expect("made");
    symlink("loop", at.join(".git/refs/heads/loop")).expect("made");
    let zeros = "0".repeat(old.len());
    let files = [
        ("empty", ""),
        ("garbage", "garbage\n"),
        ("zero", &zeros),
        ("a.lock", &old),
        (".hidden", &old),
        ("bad..name", &old),
        ("spaces", &format!("{old}   \n\n")),
        ("followed", &format!("{old} by more\n")),
        ("short", &old[..10]),
        ("to-bad-name", "ref: refs/heads/a..b\n"),
        ("tight", "ref:refs/heads/a"),
    ];
    for (name, content) in files {
        fs::write(at.join(format!(".git/refs/heads/{name}")), content).expect("written");
    }
    fs::create_dir(at.join(".git/refs/heads/a-b")).expect("made");
    at
}

const NAMES: [&str; 40] = [
    "HEAD",
    "refs/heads/a",
    "refs/heads/a-b",
    "refs/heads/c/d",
    "refs/heads/c",
    "refs/heads/c/d/e",
    "refs/heads/c/e",
    "refs/x",
    "refs/remotes/o/HEAD",
    "refs/tags/v1",
    "refs/heads/loose/deep/er",
    "refs/deep/4",
    "refs/deep/5",
    "refs/deep/6",
    "refs/heads/linked",
    "refs/heads/link-to-file",
    "refs/heads/dangling",
    "refs/heads/loop",
    "refs/heads/zero",
    "refs/heads/spaces",
    "refs/heads/followed",
    "refs/heads/to-bad-name",
    "refs/heads/tight",
    "refs/heads/a.lock",
    "refs/heads/bad..name",
    "refs/bisect/bad",
    "refs/bisect/good",
    "refs/worktree/own",
    "main-worktree/HEAD",
    "main-worktree/refs/bisect/bad",
    "main-worktree/refs/heads/a",
    "worktrees/other/HEAD",
    "worktrees/other/refs/bisect/good",
    "worktrees/other/refs/heads/a",
    "worktrees/none/HEAD",
    "ORIG_HEAD",
    "config",
    "refs",
    "index",
    "refs/heads/a/b",
];

fn listed(repo: &Repository, prefix: &str) -> String {
    let all = repo.refs(prefix).expect("readable");
    // Git reports refs with the null name as broken.
    let sound = all.iter().filter(|(_, id)| !id.is_null());
    sound.map(|(name, id)| format!("{name} {id}")).collect::<Vec<_>>().join("\n")
}

fn same(at: &Repo<'_>, context: &str) {
    let repo = open(at);
    for prefix in [
        "refs/",
        "refs/heads/",
        "refs/heads/a",
        "refs/heads/c/",
        "refs/bisect/",
        "refs/no/",
        "refs/remotes/o/",
    ] {
        let asked = format!("{prefix}*");
        let asked = if prefix.ends_with('/') { prefix } else { &asked };
        let theirs = git_output(at, &["for-each-ref", "--format=%(refname) %(objectname)", asked]);
        // As a pattern of Git, a prefix does not match in directories.
        let ours = listed(&repo, prefix);
        let ours = ours.lines().filter(|line| prefix.ends_with('/') || line.matches('/').count() == 2);
        assert_eq!(ours.collect::<Vec<_>>().join("\n"), theirs, "{context}: {prefix}");
    }
    for name in NAMES {
        let theirs = at.try_git(&["rev-parse", "--verify", "--quiet", "--end-of-options", name]);
        let theirs = String::from_utf8_lossy(&theirs.stdout).trim_end().to_owned();
        let ours = repo.find_ref(name.into()).expect("neither broken nor unreadable");
        assert_eq!(ours.map_or(String::new(), |id| id.to_string()), theirs, "{context}: {name}");
    }
    for name in ["refs/heads/empty", "refs/heads/garbage", "refs/heads/short"] {
        let broken = repo.find_ref(name.into()).expect_err("broken");
        assert_eq!(broken.to_string(), format!("unable to resolve reference '{name}': reference broken"));
        assert_eq!(repo.resolve(name.into()).expect("readable"), None, "passed over");
    }
    let nulls: Vec<_> = repo.refs("refs/heads/").expect("readable");
    let nulls: Vec<_> =
        nulls.iter().filter(|(_, id)| id.is_null()).map(|(name, _)| name.to_string()).collect();
    let expected = ["bad..name", "empty", "garbage", "short", "x", "zero"];
    assert_eq!(nulls, expected.map(|name| format!("refs/heads/{name}")), "{context}");
}

#[test]
fn lists_refs_of_all_kinds_as_git_does() {
    for format in ["sha1", "sha256"] {
        let sandbox = Sandbox::new();
        let at = all_kinds(&sandbox, format);
        same(&at, format);
        same(&sandbox.repo("other"), format);
        // The format before Git 2.15, which does not promise an order. These refs are not sorted.
        let packed = at.join(".git/packed-refs");
        let content = fs::read_to_string(&packed).expect("packed");
        let (_, records) = content.split_once('\n').expect("a header");
        let mut records: Vec<_> = records.replace("\n^", "|^").lines().map(ToOwned::to_owned).collect();
        records.reverse();
        fs::write(&packed, records.join("\n").replace('|', "\n") + "\n").expect("written");
        same(&at, "unsorted");
    }
}

#[test]
fn finds_refs_packed_by_another_process() {
    let sandbox = Sandbox::new();
    let at = sandbox.init("r");
    at.write("f", "1");
    at.commit("one");
    at.git(&["branch", "side"]);
    let repo = open(&at);
    let name = "refs/heads/side".into();
    let found = || repo.find_ref(name).expect("readable").map(|id| id.to_string());
    assert_eq!(found(), Some(git_output(&at, &["rev-parse", "HEAD"])));
    at.git(&["pack-refs", "--all", "--prune"]);
    assert_eq!(found(), Some(git_output(&at, &["rev-parse", "HEAD"])));
    at.commit("two");
    at.git(&["update-ref", "refs/heads/side", "HEAD"]);
    at.git(&["pack-refs", "--all", "--prune"]);
    assert_eq!(found(), Some(git_output(&at, &["rev-parse", "HEAD"])));
    at.git(&["update-ref", "-d", "refs/heads/side"]);
    assert_eq!(found(), None);
}

#[test]
fn reports_damaged_packed_refs() {
    let sandbox = Sandbox::new();
    let at = sandbox.init("r");
    at.write("f", "1");
    at.commit("one");
    let id = git_output(&at, &["rev-parse", "HEAD"]);
    let header = "# pack-refs with: peeled fully-peeled sorted \n";
    let long = "x".repeat(100);
    for content in [
        "garbage\n".to_owned(),
        format!("{header}{id} refs/heads/side"),
        format!("{header}{long}\n{id} refs/heads/side\n"),
        format!("# other\n{id} refs/heads/side\n"),
        format!("{header}{id} refs/heads/side\n^{id}x\n"),
        format!("{header}{id} refs/../side\n"),
        format!("{header}{id}refs/heads/side\n"),
    ] {
        fs::write(at.join(".git/packed-refs"), &content).expect("written");
        let theirs = at.try_git(&["for-each-ref"]);
        let theirs = String::from_utf8_lossy(&theirs.stderr).into_owned();
        let mut options = options(&at);
        options.env.insert("GIT_NO_REPLACE_OBJECTS".into(), "1".into());
        let ours = Repository::open(&options).expect("not looked at").refs("refs/").expect_err("damaged");
        assert_eq!(format!("fatal: {ours}\n"), theirs, "{content}");
    }
}
