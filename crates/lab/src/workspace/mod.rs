//! `lab workspace`: compares workspaces with Git's worktrees, with copies that share bytes, and
//! with a manually mounted unionfs-fuse.
//!
//! Each run of a contender gets a fresh file system and runs the whole script, from the first base
//! to the last worktree. The order of the contenders is reversed from run to run. The output of
//! `status` is compared with that of a Git without a monitor, so that no contender wins by skipping
//! work.

mod acts;
pub(crate) mod agents;
pub(crate) mod article;
mod contender;
mod leftovers;
pub(crate) mod life;
mod script;
mod space;
mod targets;
mod tree;

use std::process::ExitCode;

pub(crate) use self::acts::{Act, act};
use self::{
    contender::{Backend, Contender, Peer, Place},
    script::{Script, Step},
    tree::Tree,
};
use crate::{
    Error, budget, corpus,
    options::Options,
    programs::{Pair, Programs},
    record::{Kind, Machine},
    results::Results,
    rig::warm,
};

/// The number of ignored files that a build writes.
const PRODUCTS: usize = 20_000;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these backends; by default all.
    #[arg(long = "backend", value_enum)]
    backends: Vec<Backend>,
    /// Only these peers; by default all.
    #[arg(long = "peer", value_enum)]
    peers: Vec<Peer>,
    /// Measure no peers.
    #[arg(long, conflicts_with = "peers")]
    alone: bool,
    /// Measure no backends.
    #[arg(long, conflicts_with = "backends")]
    only_peers: bool,
    /// Numbers of workers for `git worktree add`; the first one is Git's in all other steps.
    #[arg(long, value_delimiter = ',', default_value = "2,1,4")]
    git_workers: Vec<usize>,
    /// Only these steps.
    #[arg(long = "step", value_enum)]
    steps: Vec<Step>,
    /// Measure a generated tree with this many files instead of linux.
    #[arg(long)]
    made: Option<usize>,
    #[command(flatten)]
    repository: corpus::RepositoryOptions,
    /// Number of runs for each contender.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Number of runs for unionfs-fuse, which takes minutes for each.
    #[arg(long, default_value_t = 1)]
    unionfs_runs: usize,
    /// Number of times a status is repeated in a run.
    #[arg(long, default_value_t = 5)]
    repeats: usize,
    // The hooks that sapwood writes must find it in PATH.
    #[command(flatten)]
    programs: Pair,
    #[command(flatten)]
    options: Options,
}

impl Args {
    fn contenders(&self, tree: &Tree) -> Vec<Contender> {
        let backends = match self.backends.as_slice() {
            _ if self.only_peers => Vec::new(),
            [] => Backend::ALL.to_vec(),
            some => some.to_vec(),
        };
        let peers = match self.peers.as_slice() {
            _ if self.alone => Vec::new(),
            [] => Peer::ALL.to_vec(),
            some => some.to_vec(),
        };
        let mut contenders: Vec<Contender> = backends.into_iter().map(Contender::Sapwood).collect();
        for peer in peers {
            match peer {
                Peer::Git => {
                    contenders.extend(self.git_workers.iter().map(|&workers| Contender::Git(workers)))
                }
                Peer::Cp => contenders.push(Contender::Cp),
                Peer::Unionfs => contenders.push(Contender::Unionfs),
            }
        }
        contenders.retain(|&contender| Script::is_for(contender, tree));
        contenders
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let Programs { sapwood, versions, .. } = args.programs.find()?;
    let tree = match args.made {
        Some(files) => Tree::wide(files)?,
        None => Tree::of(&args.repository)?,
    };
    warm(&tree.packed)?;
    let scratch = args.options.scratch(None)?;
    let steps = if args.steps.is_empty() { Step::ALL.to_vec() } else { args.steps.clone() };
    let contenders = args.contenders(&tree);
    println!("{}; {versions:?}; {} runs, order alternating", Machine::here(), args.runs);
    let mut results = Results::default();
    let mut failures = 0;
    for run in budget::rounds(args.runs) {
        let mut in_turn = contenders.clone();
        if run % 2 == 1 {
            in_turn.reverse();
        }
        in_turn.retain(|&contender| contender != Contender::Unionfs || run < args.unionfs_runs);
        for contender in in_turn {
            eprintln!("lab: run {} of {}: {}", run + 1, args.runs, contender.tool());
            // The other numbers of workers only determine Git's best time to create a worktree.
            let is_other = matches!(contender, Contender::Git(workers) if workers != args.git_workers[0]);
            let steps: &[Step] = if is_other { &[] } else { &steps };
            let done = Place::new(contender, &tree, (&args.programs.git, &sapwood), &scratch)
                .and_then(|place| Script::new(place, &tree, (steps, args.repeats), &mut results)?.run());
            if let Err(error) = done {
                eprintln!("lab: {} gave up: {error}", contender.tool());
                failures += 1;
            }
        }
    }
    results.print();
    let mut cases = results.cases(&tree.fact.name);
    targets::add_git(&mut cases);
    for case in &mut cases {
        case.at_most = targets::at_most(&case.case, tree.is_huge());
    }
    let is_huge = tree.is_huge();
    args.options.record.write(Kind::Workspace, &versions, vec![tree.fact], cases.clone())?;
    let code = if args.options.check { targets::check(&cases, |_| is_huge) } else { ExitCode::SUCCESS };
    Ok(if failures > 0 { ExitCode::FAILURE } else { code })
}
