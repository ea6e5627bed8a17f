//! `push`: the changes that it stashes, and those that it leaves.

use bstr::ByteSlice as _;
use testkit::Sandbox;

use super::{Pair, setup};
use crate::SAPWOOD;

/// Local changes, as lines of shell code, that every form of `push` serves natively.
const CHANGES: &[(&str, &str)] = &[
    ("a modified file", "echo 3 >a"),
    ("a staged file", "echo 3 >a; git add a"),
    ("a staged file, then modified", "echo 3 >a; git add a; echo 4 >a"),
    ("a staged file, then reverted", "echo 3 >a; git add a; echo 2 >a; echo 9 >b"),
    ("a deleted file", "rm dir/c"),
    ("a deletion that is staged", "git rm -q dir/c"),
    ("the last file of a directory", "rm -r gone; echo x >>b"),
    ("a new file that is staged", "echo n >new; git add new"),
    ("a new file in new directories", "mkdir -p n/m; echo n >n/m/o; git add n"),
    ("a new file, staged and deleted", "echo n >new; git add new; rm new; echo 3 >a"),
    ("an executable", "chmod +x a; chmod -x run; git add run"),
    ("a link to elsewhere", "ln -sfn b link"),
    ("a link that becomes a file", "rm link; echo f >link"),
    ("a file that becomes a link", "rm a; ln -s b a; git add a"),
    ("a staged rename", "git mv b moved"),
    ("an intended name with blanks", "echo x >'n w'; git add 'n w'; echo \"y\" >>dir/deep/d"),
    ("a deletion of the index alone", "git rm -q --cached a"),
    ("a deletion of the index alone, then modified", "git rm -q --cached a; echo 7 >a"),
    ("an untracked file", "echo u >u"),
    (
        "untracked files and changes",
        "echo 3 >a; mkdir -p u/v empty/dir; echo u >u/v/w; echo o >x.o; mkdir out; echo p >out/p",
    ),
    (
        "removed ignore rules, and directories that they cover",
        "git rm -q .gitignore; mkdir -p out/empty gone.o; echo n >out/n; echo n >gone.o/n
         git add out gone.o; rm gone.o/n",
    ),
    ("touched files", "touch -d '2001-01-01' a b; echo 3 >run"),
    ("nothing", "true"),
];

/// Every third change, for the wording of a form: the library's tests run each form on all changes.
fn slice() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    CHANGES.iter().step_by(3)
}

#[test]
fn puts_away_what_git_does() {
    for (name, script) in CHANGES {
        let pair = Pair::new();
        println!("{name}");
        pair.both(script).native(&["push"]).native(&["list"]);
    }
    for (name, script) in slice() {
        for form in [&[][..], &["push", "-q"], &["-m", "some  message"], &["save", "some", "words"]] {
            let pair = Pair::new();
            println!("{name}: {form:?}");
            pair.both(script).native(form).native(&["list"]);
        }
    }
}

#[test]
fn puts_away_untracked_files() {
    for (name, script) in slice() {
        for form in [&["push", "-u"][..], &["-a"], &["push", "--include-untracked", "-q", "-m", "m"]] {
            let pair = Pair::new();
            println!("{name}: {form:?}");
            pair.both(script).same(form).native(&["list"]);
        }
    }
    let pair = Pair::new();
    pair.both("echo 3 >a; mkdir -p u/v empty/dir; echo u >u/v/w; echo o >u/x.o; echo l >l; ln -s l m");
    pair.native(&["-u"]).native(&["pop"]).native(&["-a"]).native(&["pop", "-q"]);
}

#[test]
fn keeps_the_index() {
    for (name, script) in slice() {
        for form in [&["-k"][..], &["push", "--keep-index", "-q"], &["-k", "--no-keep-index"], &["-k", "-u"]]
        {
            let pair = Pair::new();
            println!("{name}: {form:?}");
            pair.both(script).same(form).native(&["list"]);
        }
    }
    Pair::new().both("echo 3 >a; git add a; echo 4 >a; echo 5 >b; git rm -q dir/c").native(&["-k"]);
}

#[test]
fn puts_away_staged_changes_alone() {
    for (name, script) in slice() {
        let pair = Pair::new();
        println!("{name}");
        pair.both(script).same(&["push", "-S"]).native(&["list"]);
    }
    Pair::new().both("echo 3 >a; git add a; echo 5 >b").native(&["--staged"]).native(&["pop"]);
    Pair::new().both("echo 3 >a").native(&["--staged"]).native(&["-S", "-u"]);
}

#[test]
fn puts_away_paths() {
    for (name, script) in slice() {
        for form in [
            &["push", "a"][..],
            &["--", "dir", "a"],
            &["push", "-q", "-m", "m", "--", ":!b"],
            &["push", "*"],
            &["push", "-u", "--", "u", "a"],
            &["push", "-k", "a", "b"],
            &["push", "nowhere", "a"],
        ] {
            let pair = Pair::new();
            println!("{name}: {form:?}");
            pair.both(script).same(form).native(&["list"]);
        }
    }
    let pair = Pair::new();
    pair.both("echo 3 >a; echo 4 >b; git add b; rm dir/c; echo n >new; git add new; echo u >u");
    pair.native(&["push", "dir"]).native(&["--", "b", "new"]).native(&["push", "-u", "u"]);
    pair.handed_over(&["push", "nowhere"], "match nothing");
}

#[test]
fn reads_paths_from_a_file() {
    let pair = Pair::new();
    pair.both("echo 3 >a; echo 4 >b; rm dir/c; echo a >list; printf 'b\\0dir' >nul");
    pair.native(&["push", "--pathspec-from-file=list"]);
    pair.native(&["push", "--pathspec-file-nul", "--pathspec-from-file=nul"]);
    pair.native(&["push", "--pathspec-file-nul"]);
    pair.native(&["push", "--pathspec-from-file=list", "a"]);
    pair.native(&["push", "--pathspec-from-file=list", "-S"]);
    pair.handed_over(&["push", "--pathspec-from-file=-"], "standard input");
    pair.native(&["push", "--pathspec-from-file=missing"]);
}

#[test]
fn runs_in_a_directory() {
    for form in [&["push"][..], &["-u"], &["push", "c"], &["push", ".."], &["--", ":/a"], &["-a"]] {
        let pair = Pair::new();
        println!("{form:?}");
        pair.both("echo 3 >a; echo 3 >dir/c; rm dir/deep/d; mkdir dir/e; echo u >dir/u; echo o >dir/o.o");
        pair.native_in("dir", form).native_in("dir", &["pop"]);
        pair.both("mkdir -p new/er; echo u >new/er/u");
        match form {
            // With this form, the paths match nothing.
            ["push", _] => {
                pair.oracle.same_in("new/er", &[&["stash"], form].concat());
            }
            _ => {
                pair.native_in("new/er", form);
            }
        }
        pair.native_in("new/er", &["apply"]);
    }
}

#[test]
fn leaves_rare_states_to_git() {
    for (script, why) in [
        ("echo i >i; git add -N i; echo 3 >a", "intended to be added"),
        ("git update-index --assume-unchanged b; echo 3 >a", "assumed unchanged"),
        ("git update-index --skip-worktree b; echo 3 >a", "sparse worktrees"),
        ("git sparse-checkout set dir; echo 3 >a", "the worktree is sparse"),
        ("rm a; mkdir a; echo x >a/x", "directories in the place of files"),
        ("rm -r dir; echo x >dir", "files in the place of directories"),
        ("rm -r dir; ln -s gone dir", "links in the place of directories"),
        (
            "git -C gone init -q; git -C gone commit -q --allow-empty -m s; mv gone/only .; git rm -qr --cached gone; git add gone",
            "",
        ),
        ("git config core.autocrlf true; printf '3\\r\\n4\\n' >a", ""),
        (
            "printf '#!/bin/sh\\nexit 0\\n' >.git/hooks/post-index-change; chmod +x .git/hooks/post-index-change; echo 3 >a",
            "there is a hook",
        ),
    ] {
        println!("{script}");
        Pair::new().both(script).handed_over(&["push"], why);
    }
    Pair::new()
        .both("git init -q nested; git -C nested commit -q --allow-empty -m n")
        .handed_over(&["-u"], "untracked repositories");
    Pair::new().both("echo 3 >a").handed_over(&["-p"], "option '--patch'");
    Pair::new().both("echo 3 >a").handed_over(&["-q", "a"], "without a subcommand");
    Pair::new().both("echo 3 >a").handed_over(&["push", "b", "--", "a"], "'--' among the paths");
}

#[test]
fn needs_a_commit_and_a_worktree() {
    let pair = Pair::of(|repo| {
        repo.write("a", "1\n");
    });
    pair.native(&[]).native(&["push", "-q"]).native(&["-u"]).native(&["list"]).native(&["create"]);
    pair.both("git add a").native(&["push"]).native(&["pop"]);
    let bare = Pair::of(|repo| {
        repo.git(&["config", "core.bare", "true"]);
    });
    bare.same(&["list"]);
}

#[test]
fn converts_as_add_does() {
    for settings in ["core.autocrlf input", "core.eol crlf", "core.autocrlf true"] {
        let pair = Pair::new();
        pair.both(&format!("git config {settings}; echo '*.txt text' >.gitattributes; printf 'x\\r\\n' >x.txt; git add .; git commit -qm attributes; printf 'y\\r\\nz\\r\\n' >x.txt"));
        pair.same(&["push"]).same(&["pop"]).same(&["-u", "-m", "again"]).same(&["apply"]);
    }
    let pair = Pair::new();
    pair.both("git config filter.up.clean 'tr a-z A-Z'; git config filter.up.smudge 'tr A-Z a-z'; echo 'f filter=up' >.gitattributes; echo text >f; git add .; git commit -qm filter; echo more >f");
    pair.native(&["push"]).native(&["pop"]);
}

/// A commit that another process makes during the push stays on the branch.
#[test]
fn keeps_a_commit_that_comes_meanwhile() {
    let pair = Pair::new();
    pair.both(
        "git config filter.move.clean 'cp .git/refs/heads/next .git/refs/heads/main; cat'; \
         echo 'f filter=move' >.gitattributes; git add .; git commit -qm attributes; \
         git branch next $(git commit-tree -p HEAD -m next HEAD^{tree}); echo more >>a; echo text >f",
    );
    pair.native(&["push", "-u"]);
    let moved = pair.oracle.ours();
    assert_eq!(moved.git(&["rev-parse", "main"]), moved.git(&["rev-parse", "next"]));
}

#[test]
fn lists_unmerged_paths() {
    let pair = Pair::new();
    pair.both(
        "git switch -qc x; echo x >a; git commit -qam x; git switch -q -; echo y >a; git commit -qam y",
    );
    pair.both("git merge -q x || true");
    for form in [&["push"][..], &[], &["-q"], &["-u"], &["push", "--", "a"], &["-S"], &["-k"]] {
        pair.native(form);
    }
}

/// Git hides the cause, and with `-q` even the failure.
#[test]
fn names_the_cause_if_the_stash_is_not_recorded() {
    for quiet in ["-q", "--no-quiet"] {
        let sandbox = Sandbox::new();
        let repo = sandbox.init("repo");
        setup(&repo);
        repo.write("a", "3\n");
        repo.write(".git/refs/stash.lock", "");
        let run = repo.run(SAPWOOD.as_ref(), &["stash", "push", quiet]);
        assert_eq!(run.code, 1, "{run:?}");
        assert!(run.stderr.contains_str("refs/stash.lock': File exists"), "{run:?}");
        assert_eq!(repo.read("a"), "3\n");
    }
}

/// As in Git, the tracked files stay too, and the exit code tells that files stay. A mount point
/// cannot be removed by root either.
#[test]
fn fails_if_an_untracked_file_cannot_be_removed() {
    let script = "echo 3 >a; mkdir u; echo 1 >u/1; echo 2 >u/2; echo 0 >b
        mount --bind a u/1 || exit 77
        $program stash -q -u 2>&1; echo $?; git status --porcelain; git stash list; umount u/1";
    let sandbox = Sandbox::new();
    let mut answers = Vec::new();
    for (name, program) in [("git", "git"), ("ours", SAPWOOD)] {
        let repo = sandbox.init(name);
        setup(&repo);
        let mut command = repo.command("unshare".as_ref());
        command.args(["-r", "-m", "sh", "-c", &script.replace("$program", program)]);
        let output = command.output().expect("unshare is installed");
        if output.status.code() == Some(77) {
            println!("skipped: nothing can be mounted");
            return;
        }
        let text = String::from_utf8(output.stdout).expect("text");
        answers.push(text.lines().filter(|line| !line.contains(": ")).collect::<Vec<_>>().join("\n"));
    }
    assert_eq!(answers[0], answers[1], "git left, ours right");
    assert!(answers[1].starts_with("1\n M a\n"), "{}", answers[1]);
}

/// Root cannot remove an immutable file either.
#[test]
fn fails_beside_an_immutable_file() {
    if !testkit::has_program("chattr") {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on a disk");
    let mut answers = Vec::new();
    for (name, program) in [("git", "git"), ("ours", SAPWOOD)] {
        let repo = sandbox.init(disk.path().join(name).to_str().expect("a plain name"));
        setup(&repo);
        repo.write("a", "3\n");
        repo.write("u/1", "1\n");
        repo.write("u/2", "2\n");
        if repo.run("chattr".as_ref(), &["+i", "u/1"]).code != 0 {
            println!("skipped: chattr does not work in '{}'", disk.path().display());
            return;
        }
        let run = repo.run(program.as_ref(), &["stash", "push", "-q", "-u"]);
        let status = repo.git(&["status", "--porcelain"]).stdout;
        repo.run("chattr".as_ref(), &["-i", "u/1"]);
        let is_named = run.stderr.contains_str("u/1") && run.stderr.contains_str("Operation not permitted");
        assert!(is_named, "{name}: {run:?}");
        assert_eq!(repo.read("u/1"), "1\n", "{name}");
        answers.push((run.code, status, repo.git(&["show", "stash^3:u/1", "stash:a"]).stdout));
    }
    assert_eq!(answers[0], answers[1], "git left, ours right");
    assert_eq!(answers[1].0, 1, "{answers:?}");
}
