//! The commands that a power cut interrupts.

use testkit::{Repo, weather::Journal};

/// A repository and commands in it.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// Creates the repository with Git. All of it is durable before the first command.
    pub(crate) prepare: fn(&Repo<'_>),
    pub(crate) steps: &'static [Step],
    /// The disks on which the scenario keeps what it reports.
    pub(crate) journals: &'static [Journal],
    pub(crate) stored: Stored,
}

/// How objects must be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// In packs with Git's names.
    AsGit,
    /// In packs or loose.
    Freely,
}

const EVERY: &[Journal] = &[Journal::Strict, Journal::Ordered];

/// A command.
pub(crate) struct Step {
    pub(crate) args: &'static [&'static str],
    pub(crate) input: Input,
}

/// The standard input of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Input {
    Text(&'static str),
    /// A file of the repository.
    File(&'static str),
}

pub(crate) const fn step(args: &'static [&'static str]) -> Step {
    Step { args, input: Input::Text("") }
}

const fn given(args: &'static [&'static str], input: Input) -> Step {
    Step { args, input }
}

/// The name of the scenario with the fewest operations.
pub(crate) const SHORTEST: &str = "update-index";

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: SHORTEST,
        prepare: new_files,
        steps: &[
            step(&["update-index", "--add", "new", "dir/new"]),
            step(&["update-index", "--force-remove", "dir/new"]),
        ],
        journals: EVERY,
        stored: Stored::Freely,
    },
    Scenario {
        name: "update-index, a pack",
        prepare: new_files,
        steps: &[step(&["-c", "sapwood.packOnAdd=2", "update-index", "--add", "new", "dir/new"])],
        journals: EVERY,
        stored: Stored::Freely,
    },
    Scenario {
        name: "update-index, a stream",
        prepare: new_files,
        steps: &[step(&["-c", "core.bigFileThreshold=3", "update-index", "--add", "new", "dir/new"])],
        journals: EVERY,
        stored: Stored::Freely,
    },
    Scenario {
        name: "update-index, a batch",
        prepare: new_files,
        steps: &[step(&[
            "-c",
            "core.fsync=all",
            "-c",
            "core.fsyncMethod=batch",
            "update-index",
            "--add",
            "new",
        ])],
        // A batch flushes once, after the data were passed to the disk: POSIX guarantees nothing.
        journals: &[Journal::Ordered],
        stored: Stored::Freely,
    },
    Scenario {
        name: "hash-object and trees",
        prepare: new_files,
        steps: &[
            step(&["hash-object", "-w", "new"]),
            step(&["update-index", "--add", "new"]),
            step(&["write-tree"]),
        ],
        journals: EVERY,
        stored: Stored::Freely,
    },
    Scenario {
        name: "add",
        prepare: new_files,
        steps: &[step(&["add", "new", "changed"]), step(&["add", "-A"])],
        journals: EVERY,
        stored: Stored::Freely,
    },
    Scenario {
        name: "add, a pack",
        prepare: many_files,
        steps: &[step(&["add", "-A"])],
        journals: EVERY,
        stored: Stored::Freely,
    },
    Scenario {
        name: "add, a stream",
        prepare: new_files,
        steps: &[step(&["-c", "core.bigFileThreshold=3", "add", "-A"])],
        journals: EVERY,
        stored: Stored::Freely,
    },
    Scenario {
        name: "commit",
        prepare: staged_files,
        steps: &[step(&["commit", "-q", "-m", "three"]), step(&["commit", "-q", "--amend", "-m", "four"])],
        journals: EVERY,
        stored: Stored::Freely,
    },
    Scenario {
        name: "commit -a",
        prepare: new_files,
        steps: &[step(&["add", "new"]), step(&["commit", "-q", "-a", "-m", "three"])],
        journals: EVERY,
        stored: Stored::Freely,
    },
    Scenario {
        name: "rm",
        prepare: base,
        steps: &[step(&["rm", "-q", "--cached", "file"]), step(&["rm", "-q", "-r", "dir"])],
        journals: EVERY,
        stored: Stored::Freely,
    },
    Scenario {
        name: "mv",
        prepare: new_files,
        steps: &[step(&["mv", "changed", "moved"])],
        journals: EVERY,
        stored: Stored::Freely,
    },
    Scenario {
        name: "mv to another directory",
        prepare: new_files,
        steps: &[step(&["mv", "changed", "dir"])],
        // POSIX does not guarantee that a file has a name while it is renamed across directories.
        journals: &[Journal::Ordered],
        stored: Stored::Freely,
    },
    Scenario {
        name: "stash",
        prepare: new_files,
        steps: &[step(&["stash", "push", "-q", "-u"]), step(&["stash", "pop", "-q"])],
        journals: EVERY,
        stored: Stored::Freely,
    },
    Scenario {
        name: "symbolic-ref",
        prepare: with_remote,
        steps: &[
            step(&["symbolic-ref", "-m", "to side", "HEAD", "refs/heads/side"]),
            step(&["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]),
        ],
        journals: EVERY,
        stored: Stored::Freely,
    },
    Scenario {
        name: "update-ref",
        prepare: base,
        steps: &[
            step(&["update-ref", "--create-reflog", "refs/new/deep/one", "HEAD"]),
            step(&["update-ref", "-m", "back", "HEAD", "HEAD~"]),
            step(&["update-ref", "-d", "refs/new/deep/one"]),
        ],
        journals: EVERY,
        stored: Stored::Freely,
    },
    Scenario {
        name: "update-ref, many",
        prepare: packed_refs,
        steps: &[given(
            &["update-ref", "--stdin"],
            Input::Text(
                "start\ncreate refs/heads/new/one HEAD\nupdate refs/heads/side HEAD\n\
                 delete refs/tags/packed\nprepare\ncommit\n",
            ),
        )],
        journals: EVERY,
        stored: Stored::Freely,
    },
    Scenario {
        name: "commit-tree",
        prepare: base,
        steps: &[
            given(&["commit-tree", "-p", "HEAD", "HEAD^{tree}"], Input::Text("three\n")),
            given(&["mktree"], Input::Text("")),
        ],
        journals: EVERY,
        stored: Stored::Freely,
    },
    Scenario {
        name: "index-pack",
        prepare: a_pack_to_index,
        steps: &[given(&["index-pack", "--stdin", "--fix-thin"], Input::File(".git/in.pack"))],
        journals: EVERY,
        stored: Stored::Freely,
    },
    Scenario {
        name: "multi-pack-index",
        prepare: two_packs,
        steps: &[step(&["multi-pack-index", "write"]), step(&["prune-packed"])],
        journals: EVERY,
        stored: Stored::AsGit,
    },
];

pub(crate) fn base(repo: &Repo<'_>) {
    // Git's own maintenance is not tested.
    repo.git(&["config", "maintenance.auto", "false"]);
    repo.write("file", "one\n");
    repo.write("dir/file", "more\n");
    repo.write("changed", "unchanged\n");
    repo.commit("one");
    repo.git(&["branch", "side"]);
    repo.write("file", "two\n");
    repo.commit("two");
}

pub(crate) fn new_files(repo: &Repo<'_>) {
    base(repo);
    repo.write("new", "new\n");
    repo.write("dir/new", "another\n");
    repo.write("changed", "changed\n");
}

pub(crate) fn staged_files(repo: &Repo<'_>) {
    new_files(repo);
    repo.git(&["add", "-A"]);
}

/// Creates enough new files for a pack.
pub(crate) fn many_files(repo: &Repo<'_>) {
    base(repo);
    (0..40).for_each(|number| repo.write(format!("new/{number}"), format!("{number}\n")));
}

fn with_remote(repo: &Repo<'_>) {
    base(repo);
    repo.git(&["update-ref", "refs/remotes/origin/main", "HEAD"]);
}

/// Creates two packs, and loose objects that one of them also contains.
fn two_packs(repo: &Repo<'_>) {
    base(repo);
    repo.git(&["repack", "-q", "-a"]);
    repo.write("third", "three\n");
    repo.commit("three");
    repo.git(&["repack", "-q"]);
}

fn packed_refs(repo: &Repo<'_>) {
    base(repo);
    repo.git(&["tag", "packed"]);
    repo.git(&["pack-refs", "--all"]);
}

/// Creates a thin pack with objects that the repository lacks.
fn a_pack_to_index(repo: &Repo<'_>) {
    base(repo);
    let long: String = (0..500).map(|number| format!("line {number}\n")).collect();
    repo.write("long", &long);
    repo.commit("three");
    repo.write("long", format!("{long}more\n"));
    repo.commit("four");
    let script = "printf 'main\n^main~1\n' | git pack-objects -q --thin --revs --stdout >.git/in.pack";
    assert_eq!(repo.run("sh".as_ref(), &["-c", script]).code, 0, "a pack is written");
    repo.git(&["reset", "-q", "--hard", "HEAD~"]);
    repo.git(&["reflog", "expire", "--expire=now", "--all"]);
    repo.git(&["prune", "--expire=now"]);
}
