//! The sections of the page: the cases of each, and the facts that apply to all its figures.

use crate::record::{Case, Kind, Record};

/// A section of the page.
pub(super) struct Section {
    pub(super) title: &'static str,
    /// A paragraph in Markdown.
    pub(super) intro: &'static str,
    pub(super) unit: Unit,
    pub(super) kind: Kind,
    disks: Disks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Seconds,
    Milliseconds,
}

impl Unit {
    /// Converts seconds to this unit.
    pub(super) fn of(self, seconds: f64) -> f64 {
        match self {
            Unit::Seconds => seconds,
            Unit::Milliseconds => seconds * 1000.0,
        }
    }

    pub(super) fn sign(self) -> &'static str {
        match self {
            Unit::Seconds => "s",
            Unit::Milliseconds => "ms",
        }
    }
}

/// The disks that a section covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disks {
    All,
    /// The local disk with warm caches.
    Warm,
    /// All other disks, which start with cold caches.
    Cold,
}

pub(super) const SECTIONS: [Section; 17] = [
    Section {
        title: "Checkout, clone and switch on local disks",
        intro: "Each run gets a fresh file system. The old revision is linux v6.1, the new one v6.12. gix has no \
                `checkout`: its figure for a full checkout covers the checkout phase only. \"write only\" is a \
                program that writes the same files from memory and decodes nothing. Unit: seconds.",
        unit: Unit::Seconds,
        kind: Kind::Checkout,
        disks: Disks::All,
    },
    Section {
        title: "Checkout, clone and switch on slow disks",
        intro: "The disks are FUSE file systems that delay each answer; see [design/weather.md](design/weather.md) \
                for their profiles. Caches are cold. Switches go to the target and back. gix has no `checkout`: its \
                figure for a full checkout covers the checkout phase only. Unit: seconds.",
        unit: Unit::Seconds,
        kind: Kind::Weather,
        disks: Disks::All,
    },
    Section {
        title: "Status with warm caches",
        intro: "The tree has no changes, or the number of changes that the row names. \"monitor\" is Git's own \
                daemon, `git fsmonitor--daemon`. Unit: milliseconds.",
        unit: Unit::Milliseconds,
        kind: Kind::Status,
        disks: Disks::Warm,
    },
    Section {
        title: "Status with cold caches",
        intro: "The disks nfs, efs, ebs and hdd are FUSE file systems that delay each answer. The others are block \
                devices whose caches are dropped before each run. Unit: seconds.",
        unit: Unit::Seconds,
        kind: Kind::Status,
        disks: Disks::Cold,
    },
    Section {
        title: "Workspaces",
        intro: "sapwood is `sapwood workspace` with the backend `image` here, git is `git worktree add` and \
                plain Git in such a worktree. The rows of `git status` and `git switch` compare plain Git in a \
                workspace with plain Git in a worktree. For bases, `rebase` and sapwood's status and switch, git's \
                figure is that of its full checkout, status or switch. Each run gets a fresh file system. btrfs \
                holds the backend `btrfs`, xfs the copies that share bytes, ext4 all others. Unit: milliseconds.",
        unit: Unit::Milliseconds,
        kind: Kind::Workspace,
        disks: Disks::All,
    },
    Section {
        title: "A day in a workspace",
        intro: "git is plain Git in a plain worktree. sapwood is `sapwood` in a workspace with the backend `image`; \
                a build, `lstat`, `find` and `git grep` are the same programs in both. All contenders take each \
                step in turn, and Git examines all worktrees after it: their states are equal. Each run gets fresh \
                file systems. A step may take 20 ms more than its target, the time of a few mounts. Unit: \
                milliseconds.",
        unit: Unit::Milliseconds,
        kind: Kind::Life,
        disks: Disks::All,
    },
    Section {
        title: "Agents at once",
        intro: "Each agent makes a branch and a place to work, edits 30 files, saves its state five times, makes three \
                commits, and lands them on a common branch. sapwood is a workspace with checkpoints, git is `git \
                worktree add` with a shadow repository for the states. All agents work at once, and both ways end \
                with the same files. The row \"all\" is the time until the last agent is done, the others are \
                medians of single calls. Unit: milliseconds.",
        unit: Unit::Milliseconds,
        kind: Kind::Agents,
        disks: Disks::All,
    },
    Section {
        title: "Add, commit and stash",
        intro: "sapwood makes durable what it records; Git does not unless it is told to. The disks flush1, flush5 and \
                flush20 are FUSE file systems on which only flushes take time: 1, 5 and 20 ms each. \"own\" is the \
                machine's own disk. Each run records content that no object has yet. Unit: milliseconds.",
        unit: Unit::Milliseconds,
        kind: Kind::Add,
        disks: Disks::All,
    },
    Section {
        title: "Clone and fetch",
        intro: "A case ends in the way to the server: a process on this machine (file), https on the loopback, https \
                on a line of 1 Gbit/s, https on a line of 100 Mbit/s with a round trip of 20 ms, ssh on the loopback. \
                \"server\" is `git upload-pack` alone, which answers and waits for nobody. Unit: seconds.",
        unit: Unit::Seconds,
        kind: Kind::Clone,
        disks: Disks::All,
    },
    Section {
        title: "The worktree of a job",
        intro: "sapwood is `sapwood ci checkout`, git the commands that actions/checkout runs: `init` or `clean` and \
                `reset`, `fetch --depth=1`, `checkout`. The earlier job left 100 new files in its clone, or nothing. \
                A case ends in the way to the server, as above. Unit: seconds.",
        unit: Unit::Seconds,
        kind: Kind::Ci,
        disks: Disks::All,
    },
    Section {
        title: "A fleet",
        intro: "Each host is a network namespace with a line of its own (1 Gbit/s, 5 ms in each direction) and a fresh \
                file system. All hosts start at once, and share the processors and the disk of one machine. The time \
                ends with the first `git status` that finds nothing. The next commit changes 100 files. The mirror \
                of `--reference` lies on the host before the start. Figures of bytes and of the servers' time are \
                medians of the hosts. Unit: seconds.",
        unit: Unit::Seconds,
        kind: Kind::Fleet,
        disks: Disks::All,
    },
    Section {
        title: "Status over a shared base",
        intro: "An article of 2012 laid a writable layer over a read-only repository with unionfs-fuse, told Git \
                that no file changes, and counted the calls of `git status`: 39 `lstat` and 2,676 `open` for 19,384 \
                files. This table repeats its steps, beside the same union after `sapwood workspace adopt`, and \
                workspaces. \"nfs\" is a FUSE file system that delays \
                each answer by 1 ms. Unit: milliseconds.",
        unit: Unit::Milliseconds,
        kind: Kind::Article,
        disks: Disks::All,
    },
    Section {
        title: "Files that are written and read as a whole",
        intro: "\"linux\" has two commits in one pack. \"packs\" is a generated repository of 16 packs and 800,000 \
                objects. The index is that of the newest commit, without files in the worktree. Git has its better \
                number of threads, where it has threads. The least and the most of a tool's times are in brackets. \
                Unit: milliseconds.",
        unit: Unit::Milliseconds,
        kind: Kind::Write,
        disks: Disks::All,
    },
    Section {
        title: "A day of a user, editors, a job and agents",
        intro: "sapwood is `git` here, so its time includes calls that it hands over to the real Git. The unit is \
                the number of seconds that all calls of a command take in one run.",
        unit: Unit::Seconds,
        kind: Kind::Day,
        disks: Disks::All,
    },
    Section {
        title: "Small repositories",
        intro: "60 calls of an editor, a prompt and an agent, each in turn with both programs. sapwood is `git` here, \
                so its figures include calls that it hands over to the real Git. \"all\" is the sum of the calls of \
                a caller in one run. Unit: milliseconds.",
        unit: Unit::Milliseconds,
        kind: Kind::Small,
        disks: Disks::All,
    },
    Section {
        title: "Cost against the number of files",
        intro: "The trees are generated: their names and depth are those of large public trees, their contents few and \
                small. An exponent of 1 means that the cost doubles with the number of files, an exponent of 0 that it \
                does not depend on it. \"workspace\" is `sapwood workspace create` on an existing base, beside `git \
                worktree add`. The sparse checkout has 2% of the files. Unit: seconds.",
        unit: Unit::Seconds,
        kind: Kind::Scale,
        disks: Disks::All,
    },
    Section {
        title: "Peak memory",
        intro: "Every native command that can run in the repository, with the peak resident memory of its largest \
                process.",
        unit: Unit::Seconds,
        kind: Kind::Memory,
        disks: Disks::All,
    },
];

impl Section {
    /// Returns the cases of the record that belong to this section.
    pub(super) fn cases<'a>(&self, record: &'a Record) -> Vec<&'a Case> {
        let is_here = |case: &&Case| match self.disks {
            Disks::All => true,
            Disks::Warm => case.disk == "local",
            Disks::Cold => case.disk != "local",
        };
        record.cases.iter().filter(|_| record.kind == self.kind).filter(is_here).collect()
    }

    /// Returns the file name of a record's chart in this section.
    pub(super) fn chart_name(&self, name: &str, record: &Record) -> String {
        let is_divided = self.cases(record).len() < record.cases.len();
        let part = if is_divided { format!("-{:?}", self.disks).to_lowercase() } else { String::new() };
        format!("{name}{part}.svg")
    }
}
