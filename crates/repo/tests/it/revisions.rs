use bstr::ByteSlice;
use repo::{Guess, Head};
use testkit::Sandbox;

use crate::{git_output, open};

fn history(sandbox: &Sandbox) -> testkit::Repo<'_> {
    let at = sandbox.init("r");
    for n in 0..4 {
        at.write("dir/f", format!("{n}"));
        at.commit(&format!("commit {n}\nsecond line\n\nbody mentions needle{n}"));
    }
    at.git(&["tag", "-a", "-m", "annotated", "v1", "HEAD~1"]);
    at.git(&["tag", "light", "HEAD~2"]);
    at.git(&["checkout", "-q", "-b", "side", "HEAD~2"]);
    at.write("g", "g");
    at.commit("on the side");
    at.git(&["checkout", "-q", "main"]);
    at.git(&["merge", "-q", "-m", "merged", "side"]);
    at.git(&["checkout", "-q", "--detach", "v1"]);
    at.git(&["checkout", "-q", "side"]);
    at.git(&["checkout", "-q", "main"]);
    at
}

#[test]
fn resolves_every_form_as_git_does() {
    let sandbox = Sandbox::new();
    let at = history(&sandbox);
    at.git(&["clone", "-q", ".", "../clone"]);
    at.write("later", "x");
    at.commit("later");
    let clone = sandbox.repo("clone");
    clone.git(&["fetch", "-q"]);
    let full = git_output(&at, &["rev-parse", "HEAD"]);
    let short = &full[..9];
    let describe = git_output(&at, &["describe", "--long"]);
    let specs = [
        "HEAD",
        "@",
        "main",
        "side",
        "v1",
        "light",
        "v1^{}",
        "v1^{commit}",
        "v1^{tag}",
        "v1^{tree}",
        "v1^{object}",
        "HEAD~2",
        "HEAD~",
        "HEAD^",
        "HEAD^2",
        "HEAD^3",
        "HEAD^^^",
        "HEAD~1^2~1",
        "HEAD^0",
        "HEAD~99",
        "@~1",
        "heads/main",
        "tags/v1",
        "refs/heads/main",
        "refs/tags/v1",
        "nothing",
        "HEAD:dir/f",
        "HEAD:dir",
        "HEAD:",
        "HEAD:nothing",
        "v1:dir/f",
        "HEAD^{tree}:dir",
        ":/needle2",
        ":/nothing at all",
        "HEAD^{/on the}",
        "HEAD^{/!-merged}",
        "main^{/needle1}",
        "@{0}",
        "@{1}",
        "@{2}",
        "main@{1}",
        "HEAD@{1}",
        "HEAD@{3}",
        "@{-1}",
        "@{-2}",
        "@{-3}",
        "@{-9}",
        "@{-1}~1",
        "main@{2099-01-01}",
        "main@{2000-01-01 00:00:00}",
        short,
        describe.as_str(),
        &full,
        "0123456789",
        "dead",
        "@{u}",
        "main@{upstream}",
        "side@{u}",
        "@{push}",
        "origin",
        "origin/main",
        "origin/HEAD",
        "main~9999999999",
        "HEAD^{blob}",
        "HEAD:dir/f^{blob}",
        "^HEAD",
        "",
    ];
    for at in [&at, &clone] {
        let repo = open(at);
        for spec in specs {
            let git = at.try_git(&["rev-parse", "--verify", "--quiet", "--end-of-options", spec]);
            let theirs = (git.code == 0).then(|| git.stdout.to_str_lossy().trim_end().to_owned());
            let theirs = theirs.filter(|text| !text.starts_with('^'));
            let ours = repo.resolve(spec.into()).ok().flatten().map(|id| id.to_string());
            assert_eq!(ours, theirs, "{spec:?}");
        }
    }
}

#[test]
fn resolves_loose_and_packed_refs() {
    let sandbox = Sandbox::new();
    let at = history(&sandbox);
    at.git(&["pack-refs", "--all"]);
    at.git(&["update-ref", "refs/heads/side", "v1^{}"]);
    at.git(&["update-ref", "refs/x/y", "HEAD"]);
    at.git(&["symbolic-ref", "refs/heads/sym", "refs/heads/main"]);
    let repo = open(&at);
    for prefix in ["refs/", "refs/heads/", "refs/tags/", "refs/nothing/"] {
        let theirs = git_output(&at, &["for-each-ref", "--format=%(refname) %(objectname)", prefix]);
        let ours: Vec<_> =
            repo.refs(prefix).expect("readable").iter().map(|(name, id)| format!("{name} {id}")).collect();
        assert_eq!(ours.join("\n"), theirs, "{prefix}");
    }
    assert_eq!(repo.find_ref("refs/heads/none".into()).expect("readable"), None);
    assert_eq!(repo.find_ref("main".into()).expect("readable"), None, "not a full name");
    assert!(repo.find_ref("refs/heads/sym".into()).expect("readable").is_some());
}

#[test]
fn reads_heads_of_all_kinds() {
    let sandbox = Sandbox::new();
    let at = sandbox.init("r");
    assert_eq!(open(&at).head().expect("readable"), Head::Unborn { name: "refs/heads/main".into() });
    at.write("f", "x");
    at.commit("one");
    let oid = open(&at).rev_parse("HEAD".into()).expect("born");
    assert_eq!(open(&at).head().expect("readable"), Head::Branch { name: "refs/heads/main".into(), oid });
    at.git(&["checkout", "-q", "--detach"]);
    assert_eq!(open(&at).head().expect("readable"), Head::Detached { oid });
}

#[test]
fn formats_subjects_and_abbreviations() {
    let sandbox = Sandbox::new();
    let at = history(&sandbox);
    for message in ["\n\n  two\n lines  \n\nbody", "one", "", "trailing  \n", "a\tb"] {
        at.git(&[
            "commit",
            "-q",
            "--allow-empty",
            "--allow-empty-message",
            "--cleanup=verbatim",
            "-m",
            message,
        ]);
    }
    let repo = open(&at);
    for line in git_output(&at, &["log", "--all", "--format=%H %h"]).lines() {
        let (hash, short) = line.split_once(' ').expect("two words");
        let id = repo.rev_parse(hash.into()).expect("exists");
        assert_eq!(repo.abbreviate(id).expect("known"), short);
        assert_eq!(
            repo.subject(id).expect("a commit"),
            git_output(&at, &["log", "-1", "--format=%s", hash]).as_str()
        );
    }
    at.git(&["config", "i18n.commitEncoding", "ISO-8859-1"]);
    at.git(&["commit", "-q", "--allow-empty", "-m", "ge\u{e4}ndert"]);
    at.write("message", b"ge\xe4ndert\n");
    at.git(&["commit", "-q", "--allow-empty", "-F", "message"]);
    for (log, shown) in [("UTF-8", "ge\u{e4}ndert".as_bytes()), ("latin-1", b"ge\xe4ndert")] {
        at.git(&["config", "i18n.logOutputEncoding", log]);
        let repo = open(&at);
        let id = repo.rev_parse("HEAD".into()).expect("born");
        assert_eq!(repo.subject(id).expect("a commit"), shown, "{log}");
        assert_eq!(at.git(&["log", "-1", "--format=%s"]).stdout.trim_end(), shown, "{log}");
    }
    for abbrev in ["4", "12", "auto", "no", "40"] {
        at.git(&["config", "core.abbrev", abbrev]);
        let repo = open(&at);
        let id = repo.rev_parse("HEAD".into()).expect("born");
        assert_eq!(
            repo.abbreviate(id).expect("known"),
            git_output(&at, &["log", "-1", "--format=%h"]),
            "{abbrev}"
        );
    }
}

#[test]
fn counts_distances_between_all_pairs() {
    let sandbox = Sandbox::new();
    let at = history(&sandbox);
    at.git(&["checkout", "-q", "--orphan", "other"]);
    at.commit("unrelated");
    // Two merges of the same two commits in opposite order, so each pair has two bases. Then
    // commits with wrong dates: one of their bases is older than its own ancestors.
    for (branch, name) in [("left", "l"), ("right", "r")] {
        at.git(&["checkout", "-q", "-b", branch, "main"]);
        at.write(name, name);
        at.commit(name);
    }
    at.git(&["branch", "crossed"]);
    at.git(&["merge", "-q", "-m", "right of left", "left"]);
    at.git(&["checkout", "-q", "crossed"]);
    at.git(&["merge", "-q", "-m", "crossed", "left"]);
    at.git(&["checkout", "-q", "left"]);
    at.git(&["merge", "-q", "-m", "left of right", "crossed~0^1"]);
    let dates = ["-c", "user.name=x", "commit-tree", "-p", "left", "-p", "side", "-m", "late", "left^{tree}"];
    let mut old = at.command(std::path::Path::new("git"));
    let old = old.args(dates).env("GIT_COMMITTER_DATE", "1000000000 +0000").output().expect("git runs");
    let old = String::from_utf8(old.stdout).expect("a name");
    at.git(&["update-ref", "refs/heads/old", old.trim()]);
    for graph in ["true", "false"] {
        at.git(&["commit-graph", "write", "--reachable"]);
        at.git(&["config", "core.commitGraph", graph]);
        distances(&at);
    }
}

fn distances(at: &testkit::Repo<'_>) {
    let repo = open(at);
    let all: Vec<_> = git_output(at, &["rev-list", "--all"]).lines().map(str::to_owned).collect();
    for left in &all {
        for right in &all {
            let range = format!("{left}...{right}");
            let theirs = git_output(at, &["rev-list", "--left-right", "--count", &range]);
            let id = |hex: &String| repo.rev_parse(hex.as_str().into()).expect("exists");
            let (ahead, behind) = repo.ahead_behind(id(left), id(right)).expect("walkable");
            assert_eq!(format!("{ahead}\t{behind}"), theirs);
            let mut bases = repo.merge_bases(id(left), id(right)).expect("walkable");
            bases.sort();
            let bases: Vec<String> = bases.iter().map(ToString::to_string).collect();
            let theirs = at.try_git(&["merge-base", "--all", left, right]).stdout.to_string();
            let mut theirs: Vec<_> = theirs.lines().collect();
            theirs.sort();
            assert_eq!(bases, theirs, "{left} {right}");
        }
    }
}

#[test]
fn finds_upstreams_and_guesses() {
    let sandbox = Sandbox::new();
    let at = history(&sandbox);
    at.git(&["branch", "only-there"]);
    at.git(&["clone", "-q", ".", "../clone"]);
    let clone = sandbox.repo("clone");
    let repo = open(&clone);
    let tracking = repo.upstream_of("refs/heads/main".into()).expect("readable").expect("configured");
    assert_eq!(
        (tracking.short.to_str(), tracking.is_upstream, tracking.is_push),
        (Ok("origin/main"), true, true)
    );
    assert_eq!(tracking.oid, repo.find_ref("refs/remotes/origin/main".into()).expect("readable"));
    assert!(
        matches!(repo.guess_remote_branch("only-there".into()), Ok(Guess::Unique { tracking, remote, .. })
            if tracking == "refs/remotes/origin/only-there" && remote == "origin")
    );
    assert_eq!(repo.guess_remote_branch("nowhere".into()).expect("readable"), Guess::None);

    clone.git(&["remote", "add", "-f", "second", "../r"]);
    clone.git(&["branch", "local", "--track", "main"]);
    clone.git(&["update-ref", "-d", "refs/remotes/origin/main"]);
    let repo = open(&clone);
    assert_eq!(
        repo.guess_remote_branch("only-there".into()).expect("readable"),
        Guess::Ambiguous { matches: 2 }
    );
    let local = repo.upstream_of("refs/heads/local".into()).expect("readable").expect("configured");
    assert_eq!(local.full, "refs/heads/main");
    let gone = repo.upstream_of("refs/heads/main".into()).expect("readable").expect("configured");
    assert_eq!(gone.oid, None);
    clone.git(&["config", "checkout.defaultRemote", "second"]);
    assert!(
        matches!(open(&clone).guess_remote_branch("only-there".into()), Ok(Guess::Unique { remote, .. }) if remote == "second")
    );
}

#[test]
fn finds_branches_in_use_by_worktrees() {
    let sandbox = Sandbox::new();
    let at = history(&sandbox);
    at.git(&["worktree", "add", "-q", "../linked", "side"]);
    let repo = open(&at);
    let linked = sandbox.path().join("linked");
    assert_eq!(repo.worktree_using("refs/heads/side".into(), true).expect("readable"), Some(linked));
    assert_eq!(repo.worktree_using("refs/heads/main".into(), true).expect("readable"), None);
    assert_eq!(
        repo.worktree_using("refs/heads/main".into(), false).expect("readable"),
        Some(at.path.clone())
    );
    let from_linked = open(&sandbox.repo("linked"));
    assert_eq!(
        from_linked.worktree_using("refs/heads/main".into(), true).expect("readable"),
        Some(at.path.clone())
    );
}

#[test]
fn lists_commits_left_behind() {
    let sandbox = Sandbox::new();
    let at = history(&sandbox);
    let base = open(&at).rev_parse("HEAD".into()).expect("born");
    at.git(&["checkout", "-q", "--detach"]);
    for n in 1..=6 {
        at.git(&["commit", "-q", "--allow-empty", "-m", &format!("lost {n}")]);
        let repo = open(&at);
        let tip = repo.rev_parse("HEAD".into()).expect("born");
        let left = repo.left_behind(tip, Some(base)).expect("walkable");
        let mut lines: Vec<_> =
            left.listed.iter().map(|(name, subject)| format!("  {name} {subject}")).collect();
        if left.total > left.listed.len() {
            lines.push(format!(" ... and {} more.", left.total - left.listed.len()));
        }
        let hash = tip.to_string();
        let said = at.try_git(&["checkout", "main"]).stderr.to_string();
        at.git(&["checkout", "-q", "--detach", &hash]);
        assert_eq!(left.total, n);
        assert!(said.contains(&format!("{}\n", lines.join("\n"))), "{said}\n{lines:?}");
    }
    let repo = open(&at);
    assert_eq!(repo.left_behind(base, None).expect("walkable").total, 0);
}

/// The child of this commit has the same date, and another branch holds its parent.
#[test]
fn leaves_nothing_behind_among_equal_dates() {
    let sandbox = Sandbox::new();
    let at = sandbox.init("r");
    at.commit("first");
    at.git(&["branch", "low"]);
    at.commit("second");
    at.commit("third");
    let repo = open(&at);
    let second = repo.rev_parse("main~1".into()).expect("there");
    assert_eq!(repo.left_behind(second, None).expect("walkable").total, 0);
}

#[test]
fn formats_the_committer_of_a_reflog_line() {
    let sandbox = Sandbox::new();
    let at = sandbox.init("r");
    at.write("f", "x");
    at.commit("one");
    for (name, mail, date) in [
        ("A U Thor", "a@b", "1700000000 +0130"),
        ("  <Crud>, ", "x<y>\n", "@1700000001 -0730"),
        ("", "m", "2024-02-03T04:05:06Z"),
    ] {
        let env = [("GIT_COMMITTER_NAME", name), ("GIT_COMMITTER_EMAIL", mail), ("GIT_COMMITTER_DATE", date)];
        let mut options = crate::options(&at);
        let mut command = at.command(&crate::git());
        for (key, value) in env {
            options.env.insert(key.into(), value.into());
            command.env(key, value);
        }
        let status = command.args(["update-ref", "-m", "x", "HEAD", "HEAD"]).status().expect("git runs");
        assert!(status.success());
        let log = at.read(".git/logs/HEAD").to_string();
        let line = log.lines().last().expect("a line");
        let theirs =
            line.splitn(3, ' ').nth(2).and_then(|rest| rest.split('\t').next()).expect("an identity");
        let ours = repo::Repository::open(&options).expect("opens").committer().expect("a date");
        assert_eq!(ours, theirs);
    }
}
