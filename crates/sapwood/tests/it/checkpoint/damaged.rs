//! Entries that cannot be read: missing and damaged objects, and objects and refs of others.

use std::{collections::BTreeSet, fs};

use sapwood::checkpoint::{list, undo::Goal};
use testkit::{Repo, Sandbox};

use super::{checkpoint, committed, travel};
use crate::{Heard, open};

fn git(repo: &Repo<'_>, args: &[&str]) -> String {
    repo.git(args).stdout.to_string().trim().to_owned()
}

fn name(number: u64) -> String {
    format!("refs/sapwood/checkpoints/main/{number}")
}

/// Returns the path of a loose object.
fn object_file(oid: &str) -> String {
    format!(".git/objects/{}/{}", &oid[..2], &oid[2..])
}

/// Makes entries of `a` and `untracked` with the contents 1 to `last`. Their objects are loose.
fn entries(repo: &Repo<'_>, last: u64) {
    repo.git(&["config", "sapwood.packOnAdd", "false"]);
    for number in 1..=last {
        repo.write("a", format!("{number}\n"));
        repo.write("untracked", format!("also {number}\n"));
        checkpoint(repo, &number.to_string());
    }
}

fn numbers(repo: &Repo<'_>) -> (Vec<u64>, Vec<String>) {
    let report = list::plan(&open(repo), list::Request::default()).expect("a plan").run(&sapwood::Silent);
    let report = report.expect("a list");
    let readable = report.entries.iter().map(|listed| listed.entry.number).collect();
    (readable, report.damaged.into_iter().map(|(_, error)| error).collect())
}

/// A damage of an entry.
struct Damage<'r> {
    kind: &'static str,
    make: Box<dyn Fn() + 'r>,
    /// The end of the message.
    reason: String,
}

fn damages<'r>(repo: &'r Repo<'r>, number: u64) -> Vec<Damage<'r>> {
    let entry = name(number);
    let part = |part: &str| git(repo, &["rev-parse", &format!("{entry}{part}")]);
    let remove = |oid: String| {
        let file = object_file(&oid);
        Box::new(move || repo.remove(&file)) as Box<dyn Fn() + 'r>
    };
    let [tree, info, worktree] = [part(""), part(":info"), part(":worktree")];
    let blob = part(":worktree/untracked");
    let head = git(repo, &["rev-parse", "HEAD"]);
    let set = |oid: String| {
        let entry = entry.clone();
        Box::new(move || drop(repo.git(&["update-ref", &entry, &oid]))) as Box<dyn Fn() + 'r>
    };
    let file = format!(".git/{entry}");
    let missing = |oid: &str| format!("object {oid} not found");
    let damage = |kind, make, reason| Damage { kind, make, reason };
    vec![
        damage("the tree is missing", remove(tree.clone()), missing(&tree)),
        damage("the facts are missing", remove(info.clone()), missing(&info)),
        damage("the files' tree is missing", remove(worktree.clone()), missing(&worktree)),
        damage(
            "a file is missing",
            remove(blob.clone()),
            format!("the object {blob} of 'untracked' is missing"),
        ),
        damage("a commit", set(head.clone()), format!("{head} is not a checkpoint")),
        damage("a blob", set(blob.clone()), format!("{blob} is not a checkpoint")),
        damage("another tree", set(worktree.clone()), format!("{worktree} is not a checkpoint")),
        damage(
            "a broken ref",
            Box::new(move || repo.write(&file, "garbage\n")),
            "the ref is broken".to_owned(),
        ),
    ]
}

/// The error names the ref and the damage. The other entries can be restored, and new ones be made.
#[test]
fn a_damaged_entry_is_named_and_affects_no_other() {
    for at in 0..8 {
        for number in [2, 3] {
            let sandbox = Sandbox::new();
            let repo = committed(&sandbox);
            entries(&repo, 3);
            let Damage { kind, make, reason } = damages(&repo, number).swap_remove(at);
            make();
            let text = format!("the checkpoint '{}' cannot be read: {reason}", name(number));
            // Entry 3 is the present state, whose missing objects an undo would write again.
            if number < 3 {
                assert_eq!(travel(&repo, Goal::To(number), false).expect_err("damaged"), text, "{kind}");
            }
            repo.write("a", "later\n");
            repo.write("untracked", "later\n");
            assert_eq!(travel(&repo, Goal::To(number), false).expect_err("damaged"), text, "{kind}");
            let expected: BTreeSet<&str> = [text.as_str()].into();
            let (readable, damaged) = numbers(&repo);
            let is_deep = readable.contains(&number);
            assert!(is_deep || damaged == [text.as_str()], "{kind}: {damaged:?}");
            let heard = Heard::default();
            let repository = open(&repo);
            let made =
                sapwood::checkpoint::plan(&repository, Default::default()).expect("a plan").run(&heard);
            assert_eq!(made.expect("a checkpoint").number, 4, "{kind}");
            let is_reported = number == 3 && !is_deep;
            let heard: BTreeSet<String> = heard.0.into_inner().into_iter().collect();
            let heard: BTreeSet<&str> = heard.iter().map(String::as_str).collect();
            assert_eq!(heard, if is_reported { expected } else { BTreeSet::new() }, "{kind}");
            assert_eq!(travel(&repo, Goal::To(1), false).expect("an undo").reached, 1, "{kind}");
            assert_eq!((repo.read("a"), repo.read("untracked")), ("1\n".into(), "also 1\n".into()));
            assert_eq!(travel(&repo, Goal::To(4), false).expect("an undo").reached, 4, "{kind}");
            assert_eq!(repo.read("a"), "later\n", "{kind}");
        }
    }
}

/// The way back over an entry that cannot be read ends there, with its name.
#[test]
fn undo_does_not_pass_a_damaged_entry() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    entries(&repo, 4);
    let info = git(&repo, &["rev-parse", &format!("{}:info", name(3))]);
    repo.remove(object_file(&info));
    let text = format!("the checkpoint '{}' cannot be read: object {info} not found", name(3));
    for steps in [1, 2, 3] {
        assert_eq!(travel(&repo, Goal::Back(steps), false).expect_err("damaged"), text, "{steps}");
    }
    travel(&repo, Goal::To(2), false).expect("an undo");
    assert_eq!(travel(&repo, Goal::Forward(1), false).expect_err("damaged"), text);
    assert_eq!(travel(&repo, Goal::Back(1), false).expect("an undo").reached, 1);
}

/// Damaged entries expire, and do not keep others from it.
#[test]
fn damaged_entries_expire() {
    for expire in [("Keep", "2"), ("Expire", "now")] {
        let sandbox = Sandbox::new();
        let repo = committed(&sandbox);
        entries(&repo, 5);
        let info = git(&repo, &["rev-parse", &format!("{}:info", name(1))]);
        repo.remove(object_file(&info));
        let foreign = git(&repo, &["rev-parse", "HEAD"]);
        repo.git(&["update-ref", &name(2), &foreign]);
        repo.git(&["config", &format!("sapwood.checkpoint{}", expire.0), expire.1]);
        checkpoint(&repo, "");
        let kept = if expire.0 == "Keep" { vec![5, 6] } else { vec![6] };
        assert_eq!(numbers(&repo), (kept.clone(), Vec::new()), "{expire:?}");
        // So does a broken ref.
        repo.write(format!(".git/{}", name(5)), "garbage\n");
        repo.write("a", "later\n");
        checkpoint(&repo, "");
        let kept = if expire.0 == "Keep" { vec![6, 7] } else { vec![7] };
        assert_eq!(numbers(&repo), (kept, Vec::new()), "{expire:?}");
    }
}

/// Refs of others below the series are no entries.
#[test]
fn foreign_refs_are_left_alone() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    checkpoint(&repo, "");
    let foreign =
        ["foo", "007", "+9", "0", "-1", "1x", "99999999999999999999", "18446744073709551615", "2/x"];
    for foreign in foreign {
        repo.git(&["update-ref", &format!("refs/sapwood/checkpoints/main/{foreign}"), "HEAD"]);
    }
    repo.git(&["config", "sapwood.checkpointKeep", "1"]);
    repo.write("a", "2\n");
    let refused =
        sapwood::checkpoint::plan(&open(&repo), Default::default()).expect("a plan").run(&sapwood::Silent);
    assert!(refused.expect_err("a directory is in the way").to_string().contains("main/2"));
    repo.git(&["update-ref", "-d", "refs/sapwood/checkpoints/main/2/x"]);
    assert_eq!(checkpoint(&repo, "").number, 2);
    assert_eq!(numbers(&repo), (vec![2], Vec::new()));
    let left = git(&repo, &["for-each-ref", "--format=%(refname)", "refs/sapwood"]);
    assert_eq!(left.lines().count(), foreign.len(), "{left}");
}

/// Entries whose parents lead in a circle, or that show themselves.
#[test]
fn circles_end() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    entries(&repo, 2);
    let tree = |info: &str| {
        repo.write("../info", info);
        let blob = git(&repo, &["hash-object", "-w", "../info"]);
        let listed = git(&repo, &["ls-tree", &name(2)]);
        let lines = listed.lines().map(|line| {
            let is_info = line.ends_with("\tinfo");
            if is_info { format!("100644 blob {blob}\tinfo\n") } else { format!("{line}\n") }
        });
        fs::write(repo.join("../tree"), lines.collect::<String>()).expect("written");
        let mut command = repo.git_command();
        let input = fs::File::open(repo.join("../tree")).expect("a file");
        let output = command.arg("mktree").stdin(input).output().expect("Git runs");
        String::from_utf8(output.stdout).expect("a name").trim().to_owned()
    };
    for place in
        ["parent 2", "parent 7", "shows 2\ntip 2", "shows 7\ntip 7", "shows 1\ntip 9", "shows 2\ntip 1"]
    {
        let tree = tree(&format!("version 1\ntime 1\nkind undo\n{place}\ncommand x\n\n"));
        repo.git(&["update-ref", &name(2), &tree]);
        for goal in [Goal::Back(2), Goal::Back(u64::MAX), Goal::Forward(1), Goal::Forward(u64::MAX)] {
            assert!(travel(&repo, goal, false).is_err(), "{place}: {goal:?}");
        }
    }
}
