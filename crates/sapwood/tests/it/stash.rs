//! The stash as an operation, compared with Git.

use sapwood::{
    Error, PlanError, Repository, Silent, StashError,
    stash::{
        apply, branch, drop, list,
        push::{self, Reason, Saved, Untracked},
        show,
    },
};
use testkit::{Oracle, Repo};

use crate::{Heard, open, pathspecs, silent_oracle};

/// Two commits with files, directories, a link, an executable and ignored names.
fn history(repo: &Repo<'_>) {
    repo.write("a", "1\n");
    repo.write("b", "1\n2\n3\n");
    repo.write("dir/c", "c\n");
    repo.write("dir/deep/d", "d\n");
    repo.write("gone/only", "only\n");
    repo.write_executable("run", "#!/bin/sh\n");
    repo.symlink("a", "link");
    repo.write(".gitignore", "*.o\n/out/\n");
    repo.commit("one");
    repo.write("a", "2\n");
    repo.commit("two words");
}

/// Local changes, as lines of shell code.
const CHANGES: &[&str] = &[
    "echo 3 >a",
    "echo 3 >a; git add a",
    "echo 3 >a; git add a; echo 4 >a",
    "echo 3 >a; git add a; echo 2 >a; echo 9 >b",
    "rm dir/c",
    "git rm -q dir/c",
    "rm -r gone; echo x >>b",
    "echo n >new; git add new",
    "mkdir -p n/m; echo n >n/m/o; git add n",
    "echo n >new; git add new; rm new; echo 3 >a",
    "chmod +x a; chmod -x run; git add run",
    "ln -sfn b link",
    "rm link; echo f >link",
    "rm a; ln -s b a; git add a",
    "git mv b moved",
    "git rm -q --cached a",
    "git rm -q --cached a; echo 7 >a",
    "echo u >u",
    "echo 3 >a; mkdir -p u/v empty/dir; echo u >u/v/w; echo o >x.o; mkdir out; echo p >out/p",
    "touch -d '2001-01-01' a b; echo 3 >run",
    "true",
];

fn both(oracle: &Oracle, script: &str) {
    oracle.both(|repo| {
        let shell = repo.command("sh".as_ref()).args(["-c", script]).output().expect("a shell");
        assert!(shell.status.success(), "{script}: {}", String::from_utf8_lossy(&shell.stderr));
    });
}

fn forms() -> Vec<(&'static [&'static str], push::Request)> {
    let plain = push::Request::default;
    vec![
        (&["push"], plain()),
        (&["push", "-m", "m"], push::Request { message: Some("m".into()), ..plain() }),
        (&["push", "-u"], push::Request { untracked: Untracked::Stashed, ..plain() }),
        (&["push", "-a"], push::Request { untracked: Untracked::All, ..plain() }),
        (&["push", "-k"], push::Request { keep_index: true, ..plain() }),
        (&["push", "-S"], push::Request { staged: true, ..plain() }),
        (&["push", "dir", "a"], push::Request { pathspecs: pathspecs(&["dir", "a"]), ..plain() }),
        (
            &["push", "-k", "-u", "*"],
            push::Request {
                pathspecs: pathspecs(&["*"]),
                keep_index: true,
                untracked: Untracked::Stashed,
                ..plain()
            },
        ),
    ]
}

fn stash(repository: &Repository, request: push::Request) -> push::Report {
    push::plan(repository, request).expect("a plan").run(&Silent).expect("a stash")
}

/// Each change in each form: the state is Git's, or the plan says that Git has to do it, and has
/// done nothing.
#[test]
fn puts_away_what_git_puts_away() {
    let mut unsupported = 0;
    for script in CHANGES {
        for (form, request) in forms() {
            let oracle = silent_oracle(history);
            both(&oracle, script);
            let ours = oracle.ours();
            let before = oracle.snapshot(&ours);
            let repository = open(&ours);
            let plan = match push::plan(&repository, request) {
                Ok(plan) => plan,
                Err(PlanError::Unsupported(_)) => {
                    unsupported += 1;
                    assert_eq!(oracle.snapshot(&ours), before, "{script}: {form:?}");
                    continue;
                }
                Err(PlanError::Failed(error)) => panic!("{error}"),
            };
            let theirs = oracle.git().try_git(&[&["stash"], form].concat());
            let report = plan.run(&Silent).expect("a stash");
            oracle.same_state(&[&[*script], form].concat());
            assert!(!report.is_incomplete);
            let text = theirs.stdout.to_string();
            match report.entry {
                Ok(Saved { commit, message }) => {
                    assert_eq!(text, format!("Saved working directory and index state {message}\n"));
                    let made = ours.git(&["rev-parse", "stash"]).stdout;
                    assert_eq!(format!("{commit}\n"), made.to_string());
                }
                Err(Reason::NoChanges) => assert_eq!(text, "No local changes to save\n"),
                Err(Reason::NothingStaged) => assert_eq!(theirs.stderr, "No staged changes\n"),
                Err(Reason::NoCommit) => panic!("there is a commit"),
            }
        }
    }
    assert!(unsupported <= 20, "{unsupported} cases are left to Git");
}

/// A stash comes back, staged or not, and the entry is dropped.
#[test]
fn brings_back_what_git_brings_back() {
    let stashed = [
        "echo 3 >a; git stash -q",
        "echo 3 >a; git add a; echo 4 >a; git stash -q",
        "echo 3 >a; rm dir/c; git mv dir/deep/d moved; echo n >new; git add new; git stash -q",
        "echo 3 >a; echo n >new; git add new; echo u >u; echo o >x.o; git stash -q -a",
        "chmod +x a; ln -sfn b link; git stash -q",
    ];
    let since = ["true", "echo 9 >b; git commit -qam b", "echo 9 >b", "echo 9 >a", "touch -d 2001-01-01 a"];
    let plain = apply::Request::default;
    let forms: [(&[&str], apply::Request); 3] = [
        (&["pop", "-q"], apply::Request { drop: true, ..plain() }),
        (&["apply", "-q"], plain()),
        (&["pop", "-q", "--index"], apply::Request { drop: true, index: Some(true), ..plain() }),
    ];
    let mut unsupported = 0;
    for stashed in stashed {
        for since in since {
            for (form, request) in &forms {
                let oracle = silent_oracle(history);
                both(&oracle, stashed);
                both(&oracle, since);
                let ours = oracle.ours();
                let before = oracle.snapshot(&ours);
                match apply::plan(&open(&ours), request.clone()) {
                    Ok(plan) => {
                        let report = plan.run(&Silent).expect("an apply");
                        assert_eq!((report.is_complete, report.is_dropped), (true, request.drop));
                        oracle.git().git(&[&["stash"], *form].concat());
                        oracle.same_state(&[&[stashed, since], *form].concat());
                    }
                    Err(PlanError::Unsupported(_)) => {
                        unsupported += 1;
                        assert_eq!(oracle.snapshot(&ours), before);
                    }
                    Err(PlanError::Failed(error)) => panic!("{error}"),
                }
            }
        }
    }
    assert!((1..=24).contains(&unsupported), "{unsupported} cases are left to Git");
}

/// Plans print their steps, and one that is dropped leaves nothing.
#[test]
fn a_dropped_plan_has_changed_nothing() {
    let oracle = silent_oracle(history);
    both(&oracle, "echo 3 >a; rm dir/c; echo u >u");
    let ours = oracle.ours();
    let repository = open(&ours);
    let objects = || ours.git(&["count-objects", "-v"]).stdout;
    let before = objects();
    let request = push::Request { untracked: Untracked::Stashed, ..push::Request::default() };
    let plan = push::plan(&repository, request.clone()).expect("a plan");
    assert_eq!(plan.to_string(), "stash a\nstash dir/c\nstash untracked u\n");
    assert!(ours.exists(".git/index.lock"));
    std::mem::drop(plan);
    assert_eq!(objects(), before);
    oracle.same_state(&["a dropped push"]);
    stash(&repository, request);
    oracle.git().git(&["stash", "-u"]);
    let plan = apply::plan(&repository, apply::Request::default()).expect("a plan");
    assert!(plan.to_string().starts_with("remove dir/c\nwrite 100644 "), "{plan}");
    std::mem::drop(plan);
    oracle.same_state(&["a dropped apply"]);
}

/// A file that changes after the plan is not overwritten, and the entry has its old content.
#[test]
fn a_run_checks_late() {
    let oracle = silent_oracle(history);
    both(&oracle, "echo 3 >a; echo 4 >b");
    let ours = oracle.ours();
    let repository = open(&ours);
    let plan = push::plan(&repository, push::Request::default()).expect("a plan");
    ours.write("a", "meanwhile\n");
    let heard = Heard::default();
    let report = plan.run(&heard).expect("a stash");
    assert!(report.is_incomplete);
    assert_eq!(heard.0.into_inner(), ["'a' was changed meanwhile: left as it is"]);
    assert_eq!((ours.read("a"), ours.read("b")), ("meanwhile\n".into(), "1\n2\n3\n".into()));
    assert_eq!(ours.git(&["show", "stash:a"]).stdout, "3\n");
}

#[test]
fn lists_shows_and_drops() {
    let oracle = silent_oracle(history);
    both(&oracle, "for m in one two three; do echo $m >a; echo $m >u-$m; git stash -q -u -m $m; done");
    let ours = oracle.ours();
    let repository = open(&ours);
    let listed = || {
        let report = list::plan(&repository, list::Request).expect("a plan").run(&Silent).expect("a list");
        let lines = report.entries.iter().map(|entry| format!("{}: {}\n", entry.name, entry.message));
        lines.collect::<String>()
    };
    assert_eq!(listed(), ours.git(&["stash", "list"]).stdout.to_string());
    let show = |stash: Option<&str>| {
        let request = show::Request { stash: stash.map(Into::into) };
        show::plan(&repository, request).expect("a plan").run(&Silent).expect("changes")
    };
    let paths = |pairs: &[show::Pair]| pairs.iter().map(|pair| pair.path.to_string()).collect::<Vec<_>>();
    let two = show(Some("1"));
    assert_eq!((paths(&two.changes), paths(&two.staged)), (vec!["a".to_owned()], Vec::new()));
    assert_eq!(paths(&two.untracked), ["u-two"]);
    assert_eq!(show(None).entry.revision, "refs/stash@{0}");
    let drop = |request| drop::plan(&repository, request).map(|plan| plan.run(&Silent).expect("a drop"));
    let dropped = drop(drop::Request::Entry(Some("1".into()))).expect("a plan");
    assert_eq!(dropped.commit, Some(two.entry.commit));
    oracle.git().git(&["stash", "drop", "-q", "1"]);
    oracle.same_state(&["drop"]);
    assert_eq!(listed(), ours.git(&["stash", "list"]).stdout.to_string());
    drop(drop::Request::All).expect("a plan");
    oracle.git().git(&["stash", "clear"]);
    oracle.same_state(&["clear"]);
    assert_eq!((listed(), drop(drop::Request::All).expect("a plan").commit), (String::new(), None));
    match drop(drop::Request::Entry(None)) {
        Err(PlanError::Failed(Error::Stash(error))) => assert!(matches!(*error, StashError::NoEntries)),
        other => panic!("{other:?}"),
    }
}

/// An entry that was replaced after the plan stays.
#[test]
fn drops_only_the_entry_of_the_plan() {
    let oracle = silent_oracle(history);
    both(&oracle, "for m in one two; do echo $m >a; git stash -q -m $m; done");
    let ours = oracle.ours();
    let plan = drop::Request::default();
    let repository = open(&ours);
    let plan = drop::plan(&repository, plan).expect("a plan");
    assert_eq!(plan.to_string(), "drop refs/stash@{0}\n");
    ours.git(&["stash", "drop", "-q"]);
    let error = plan.run(&Silent).expect_err("another entry has the number");
    assert_eq!(error.to_string(), "refs/stash@{0}: Could not drop stash entry");
    assert_eq!(ours.git(&["stash", "list"]).stdout, "stash@{0}: On main: one\n");
}

#[test]
fn makes_a_branch() {
    let oracle = silent_oracle(history);
    both(
        &oracle,
        "echo 3 >a; git add a; echo 4 >a; echo n >new; git add new; git stash -q; echo 9 >a; git commit -qam a",
    );
    oracle.git().git(&["stash", "branch", "saved"]);
    let ours = oracle.ours();
    let repository = open(&ours);
    let request = branch::Request { branch: "saved".into(), ..branch::Request::default() };
    let report = branch::plan(&repository, request).expect("a plan").run(&Silent).expect("a branch");
    assert_eq!(report.switched.new.branch, Some("refs/heads/saved".into()));
    assert!(report.applied.is_dropped);
    oracle.same_state(&["branch"]);
}

/// There is no commit to go back to. As in Git, the index is written.
#[test]
fn needs_a_commit() {
    let oracle = silent_oracle(|repo| repo.write("a", "1\n"));
    oracle.both(|repo| {
        repo.git(&["add", "a"]);
    });
    oracle.git().try_git(&["stash"]);
    assert_eq!(stash(&open(&oracle.ours()), push::Request::default()).entry, Err(Reason::NoCommit));
    oracle.same_state(&["no commit"]);
}

#[test]
fn refuses_unmerged_paths() {
    let oracle = silent_oracle(history);
    both(
        &oracle,
        "git switch -qc x; echo x >a; git commit -qam x; git switch -q -; echo y >a; git commit -qam y; \
         git merge -q x || true",
    );
    match push::plan(&open(&oracle.ours()), push::Request::default()) {
        Err(PlanError::Failed(Error::Stash(error))) => {
            assert!(matches!(*error, StashError::Unmerged(ref paths) if paths == &["a"]), "{error}");
        }
        _ => panic!("it is refused"),
    }
}
