//! The tables that README and docs name, with their share of the time.

use std::{ffi::OsString, path::Path};

/// The option that names the measured tree in place of linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tree {
    /// `--repo`
    Repo,
    /// `--tree`
    Named,
    /// `--tree`, with the tree for slow disks.
    Slow,
    /// The table makes its own trees.
    Own,
}

/// The options for programs that a table has besides `--sapwood`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peers {
    Git,
    Gix,
    Both,
}

/// A table: one call of the lab, which writes one record.
#[derive(Debug)]
pub(super) struct Table {
    /// The name of its record.
    pub(super) name: &'static str,
    pub(super) tree: Tree,
    pub(super) peers: Peers,
    pub(super) full: Share,
    /// `None` if `--quick` leaves the table out.
    pub(super) quick: Option<Share>,
}

/// A share of the time, in seconds, and the call that fits into it.
#[derive(Debug)]
pub(super) struct Share {
    pub(super) seconds: u64,
    pub(super) args: &'static str,
}

const fn share(minutes: u64, args: &'static str) -> Share {
    Share { seconds: 60 * minutes, args }
}

const fn quick(seconds: u64, args: &'static str) -> Option<Share> {
    Some(Share { seconds, args })
}

/// The time of all tables, in seconds.
#[cfg(test)]
const ALL: [u64; 2] = [80 * 60, 15 * 60];

/// The tables in the order in which they are measured: the shorter a row takes, the earlier, while
/// the machine is known to be quiet.
pub(super) static TABLES: [Table; 14] = [
    Table {
        name: "small",
        tree: Tree::Own,
        peers: Peers::Git,
        full: share(2, "small --runs 25"),
        quick: quick(60, "small --runs 5"),
    },
    Table {
        name: "status",
        tree: Tree::Named,
        peers: Peers::Both,
        full: share(6, "status --on local --on cold --runs 3 --changes 0,10,10000"),
        quick: quick(80, "status --on local --runs 1 --changes 0"),
    },
    Table {
        name: "status-slow",
        tree: Tree::Slow,
        peers: Peers::Both,
        full: share(6, "status --on nfs --on hdd --runs 2 --changes 0,10"),
        quick: quick(60, "status --on nfs --runs 1 --changes 0 --untracked normal"),
    },
    Table {
        name: "checkout",
        tree: Tree::Repo,
        peers: Peers::Gix,
        full: share(11, "checkout --fs ext4 --runs 3"),
        quick: quick(180, "checkout --fs ext4 --case clone --case full --case small --runs 1"),
    },
    Table {
        name: "weather",
        tree: Tree::Slow,
        peers: Peers::Both,
        full: share(8, "weather --quick --on nfs --on hdd --runs 2"),
        quick: quick(120, "weather --quick --on nfs --files 10 --runs 1"),
    },
    Table {
        name: "add",
        tree: Tree::Named,
        peers: Peers::Git,
        full: share(6, "add --on ext4 --on flush5 --runs 3"),
        quick: quick(60, "add --on ext4 --case 500 --case commit --runs 1"),
    },
    Table {
        name: "clone",
        tree: Tree::Named,
        peers: Peers::Both,
        full: share(7, "clone --over file --over https --few-refs --runs 2"),
        quick: quick(80, "clone --over https --case full --few-refs --runs 1"),
    },
    Table {
        name: "ci",
        tree: Tree::Named,
        peers: Peers::Git,
        full: share(4, "ci --over https --case new --case next --runs 2"),
        quick: None,
    },
    Table {
        name: "workspace",
        tree: Tree::Repo,
        peers: Peers::Git,
        full: share(
            5,
            "workspace --backend image --peer git --git-workers 2 --step bases --step status --step edit \
             --step switch --step rebase --step build --step remove --runs 2",
        ),
        quick: quick(
            80,
            "workspace --backend image --peer git --git-workers 2 --step status --step remove --repeats 2 --runs 1",
        ),
    },
    Table {
        name: "life",
        tree: Tree::Repo,
        peers: Peers::Git,
        full: share(5, "life --backend image --runs 2"),
        quick: None,
    },
    Table {
        name: "agents",
        tree: Tree::Own,
        peers: Peers::Git,
        full: share(2, "agents --quick --agents 8 --runs 3"),
        quick: quick(50, "agents --quick --runs 1"),
    },
    Table {
        name: "fleet",
        tree: Tree::Named,
        peers: Peers::Git,
        full: share(7, "fleet --hosts 1 --runs 2"),
        quick: quick(80, "fleet --hosts 1 --peer clone --peer store --runs 1"),
    },
    Table {
        name: "day",
        tree: Tree::Repo,
        peers: Peers::Git,
        // A volume has room for five worktrees of linux beside the repository's own.
        full: share(8, "day --on ext4 --commands 280 --agents 4 --worktrees 1 --runs 1"),
        quick: quick(50, "day --on ext4 --made 3000 --commands 140 --agents 4 --worktrees 1 --runs 1"),
    },
    Table { name: "memory", tree: Tree::Repo, peers: Peers::Git, full: share(3, "memory"), quick: None },
];

impl Table {
    /// Returns the options for the measured tree, if it is not linux, and for Git and gix.
    pub(super) fn options(
        &self,
        share: &Share,
        tree: Option<&Path>,
        old: &str,
        [git, gix]: [&Path; 2],
    ) -> Vec<OsString> {
        let mut options: Vec<OsString> = Vec::new();
        // A call that generates its tree takes no other one.
        if let Some(tree) = tree.filter(|_| self.tree != Tree::Own && !share.args.contains("--made")) {
            let is_repo = self.tree == Tree::Repo;
            options.extend([if is_repo { "--repo" } else { "--tree" }.into(), tree.into()]);
            options.extend(is_repo.then(|| ["--old".into(), old.into()]).into_iter().flatten());
        }
        if matches!(self.peers, Peers::Git | Peers::Both) {
            options.extend(["--git".into(), git.into()]);
        }
        if matches!(self.peers, Peers::Gix | Peers::Both) {
            options.extend(["--gix".into(), gix.into()]);
        }
        options
    }

    /// Returns the share of a whole or a quick measurement.
    pub(super) fn share(&self, is_quick: bool) -> Option<&Share> {
        if is_quick { self.quick.as_ref() } else { Some(&self.full) }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn the_shares_are_the_whole_time() {
        for (is_quick, all) in [(false, ALL[0]), (true, ALL[1])] {
            let shares = TABLES.iter().filter_map(|table| table.share(is_quick));
            assert_eq!(shares.map(|share| share.seconds).sum::<u64>(), all, "quick: {is_quick}");
        }
    }

    #[test]
    fn each_call_is_one_of_the_lab() {
        for table in &TABLES {
            for share in [Some(&table.full), table.quick.as_ref()].into_iter().flatten() {
                let mut words: Vec<OsString> =
                    ["lab"].into_iter().chain(share.args.split(' ')).map(Into::into).collect();
                let programs = [Path::new("git"), Path::new("gix")];
                words.extend(table.options(share, Some(Path::new("tree")), "HEAD~1", programs));
                words.extend(["--within", "1", "--begun", "b", "--record", "r"].map(Into::into));
                words.extend(["--sapwood", "s", "--note", "n"].map(Into::into));
                let parsed = crate::Args::try_parse_from(words);
                assert!(parsed.is_ok(), "{}: {}", share.args, parsed.err().expect("an error"));
            }
        }
    }
}
