//! `lab article`: repeats the steps of an article of 2012 and compares them with workspaces. The
//! steps are `git status` of a plain worktree, over unionfs-fuse, and with all files assumed
//! unchanged. Beside them: the same union after `sapwood workspace adopt`, and workspaces. Each
//! status is cold once and warm several times. The base is local, or on a disk with the latency of
//! NFS.

use std::{fs, path::Path, path::PathBuf, process::ExitCode};

use testkit::weather::{Mount, Profile};

use super::{
    contender::{Backend, Contender, Place},
    leftovers,
    tree::{NEW, Tree},
};
use crate::{
    Error, budget, corpus,
    measure::{self, Invocation, must},
    programs::{Pair, Programs},
    record::{Kind, Machine, RecordOptions, Sample},
    results::Results,
    rig::warm,
    status::counts,
    weather::block::drop_caches,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    repository: corpus::RepositoryOptions,
    /// Only these kinds of worktree.
    #[arg(long = "way", value_enum)]
    ways: Vec<WorktreeKind>,
    /// Only bases on these disks.
    #[arg(long = "base", value_enum)]
    bases: Vec<Base>,
    /// Number of runs.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    #[command(flatten)]
    programs: Pair,
    /// The directory for file systems.
    #[arg(long)]
    scratch: Option<PathBuf>,
    #[command(flatten)]
    record_options: RecordOptions,
}

/// A kind of worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum WorktreeKind {
    /// A plain worktree. With a base on a network disk, the worktree is there.
    Plain,
    Unionfs,
    /// unionfs-fuse, with all files assumed unchanged.
    UnionfsAssumed,
    /// unionfs-fuse, adopted by sapwood.
    UnionfsAdopted,
    Overlay,
    Image,
}

/// The disk of the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Base {
    Local,
    Nfs,
}

impl Base {
    fn name(self) -> &'static str {
        match self {
            Base::Local => "local",
            Base::Nfs => "nfs",
        }
    }
}

const KINDS: [WorktreeKind; 6] = [
    WorktreeKind::Plain,
    WorktreeKind::Unionfs,
    WorktreeKind::UnionfsAssumed,
    WorktreeKind::UnionfsAdopted,
    WorktreeKind::Overlay,
    WorktreeKind::Image,
];
/// The number of warm runs after each cold one.
const WARM: usize = 3;

impl WorktreeKind {
    fn contender(self) -> Contender {
        match self {
            WorktreeKind::Plain
            | WorktreeKind::Unionfs
            | WorktreeKind::UnionfsAssumed
            | WorktreeKind::UnionfsAdopted => Contender::Unionfs,
            WorktreeKind::Overlay => Contender::Sapwood(Backend::Overlay),
            WorktreeKind::Image => Contender::Sapwood(Backend::Image),
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let Programs { sapwood, versions, .. } = args.programs.find()?;
    let tree = Tree::of(&args.repository)?;
    warm(&tree.packed)?;
    let scratch = args.scratch.clone().unwrap_or_else(|| corpus::directory().join("scratch"));
    let scratch = corpus::absolute(&scratch)?;
    let ways = if args.ways.is_empty() { KINDS.to_vec() } else { args.ways.clone() };
    let bases = if args.bases.is_empty() { vec![Base::Local, Base::Nfs] } else { args.bases.clone() };
    println!("{}; {versions:?}; {} runs", Machine::here(), args.runs);
    let mut results = Results::default();
    let mut failures = 0;
    for run in budget::rounds(args.runs) {
        for &base in &bases {
            let mut in_turn = ways.clone();
            if run % 2 == 1 {
                in_turn.reverse();
            }
            for kind in in_turn {
                eprintln!("lab: run {} of {}: {kind:?}, {base:?} base", run + 1, args.runs);
                let done = Setup::new(kind, base, &tree, (&args.programs.git, &sapwood), &scratch)
                    .and_then(|setup| setup.measure(&mut results));
                if let Err(error) = done {
                    eprintln!("lab: {kind:?} with a {base:?} base gave up: {error}");
                    failures += 1;
                }
            }
        }
    }
    results.print();
    let cases = results.cases(&tree.fact.name);
    args.record_options.write(Kind::Article, &versions, vec![tree.fact], cases)?;
    Ok(if failures > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// A worktree of one kind, and the disk of its base.
struct Setup<'a> {
    kind: WorktreeKind,
    base: Base,
    /// Dropped before `network`, because its mounts are stacked on that disk's mount.
    place: Place<'a>,
    network: Option<NetworkDisk>,
}

/// A disk with the latency of NFS.
struct NetworkDisk {
    dir: PathBuf,
    mount: Option<Mount>,
}

const NAME: &str = "tree";

impl<'a> Setup<'a> {
    fn new(
        kind: WorktreeKind,
        base: Base,
        tree: &Tree,
        programs: (&'a Path, &'a Path),
        scratch: &Path,
    ) -> Result<Self, Error> {
        let mut place = Place::new(kind.contender(), tree, programs, scratch)?;
        let mut network = (base == Base::Nfs).then(|| NetworkDisk::new(scratch)).transpose()?;
        if let Some(network) = &network {
            place.put_bases(&network.backing())?;
        }
        // For unionfs and the plain worktree, the base is created at full speed. With the settings,
        // Git does not reread each file because its inode number differs through a mount.
        if place.contender == Contender::Unionfs {
            measure::run(&place.base(NEW).expect("unionfs has a base"))?;
            let base = place.base_dir();
            for (name, value) in [("core.checkStat", "minimal"), ("core.trustctime", "false")] {
                must(programs.0, &["config", name, value], &base)?;
            }
        }
        if let Some(network) = &mut network {
            network.mount()?;
            place.put_bases(&network.disk())?;
        }
        let setup = Setup { kind, base, place, network };
        setup.prepare()?;
        Ok(setup)
    }

    fn prepare(&self) -> Result<(), Error> {
        let place = &self.place;
        match self.kind {
            WorktreeKind::Plain => {}
            WorktreeKind::Overlay | WorktreeKind::Image => {
                measure::run(&place.base(NEW).expect("these backends have bases"))?;
                measure::run(&place.create(NAME))?;
            }
            WorktreeKind::Unionfs | WorktreeKind::UnionfsAssumed | WorktreeKind::UnionfsAdopted => {
                measure::run(&place.create(NAME))?;
            }
        }
        if self.kind == WorktreeKind::UnionfsAdopted {
            let at = place.dir(NAME);
            measure::run(&place.sapwood(&["workspace", "adopt", &at.display().to_string()], &at))?;
        }
        if self.kind == WorktreeKind::UnionfsAssumed {
            let at = place.dir(NAME);
            let script = "git config core.ignoreStat true && git ls-files -z | \
                          git update-index --assume-unchanged -z --stdin";
            must(Path::new("sh"), &["-ec", script], &at)?;
        }
        // Records the stat data of the mount in the index.
        for _ in 0..2 {
            must(Path::new("git"), &["status", "--porcelain"], &self.at()).map(drop)?;
        }
        Ok(())
    }

    /// Returns the directory in which `status` runs.
    fn at(&self) -> PathBuf {
        match self.kind {
            WorktreeKind::Plain => self.place.base_dir(),
            _ => self.place.dir(NAME),
        }
    }

    fn measure(&self, results: &mut Results) -> Result<(), Error> {
        let by_git = self.place.git(&["status"], &self.at());
        let by_ours = self.place.sapwood(&["status"], &self.at());
        let tools: &[(&str, &Invocation)] = match self.kind {
            WorktreeKind::Plain => &[("git", &by_git), ("sapwood", &by_ours)],
            WorktreeKind::Unionfs => &[("unionfs", &by_git)],
            WorktreeKind::UnionfsAssumed => &[("unionfs-assumed", &by_git)],
            WorktreeKind::UnionfsAdopted => &[("adopted-git", &by_git), ("adopted", &by_ours)],
            WorktreeKind::Overlay => &[("overlay-git", &by_git), ("overlay", &by_ours)],
            WorktreeKind::Image => &[("image-git", &by_git), ("image", &by_ours)],
        };
        for (tool, invocation) in tools {
            for number in 0..=WARM {
                if number == 0 {
                    drop_caches()?;
                }
                let sample = Sample::from(measure::run(invocation)?);
                let case = if number == 0 { "cold" } else { "warm" };
                eprintln!("lab:   {tool} {case} {:.3} s", sample.wall);
                results.add(case, self.base.name(), tool, sample);
            }
            let counts = counts::of(invocation)?;
            eprintln!("lab:   {tool} {counts}");
            let [stats, opens] = [counts.stats, counts.opens].map(|number| i64::try_from(number).ok());
            results.add("calls", self.base.name(), tool, Sample { stats, opens, ..Sample::default() });
        }
        let status = must(Path::new("git"), &["status", "--porcelain"], &self.at())?;
        if !status.is_empty() {
            return Err(Error::Setup(format!("{:?} is not clean", self.kind)));
        }
        Ok(())
    }
}

impl Drop for Setup<'_> {
    fn drop(&mut self) {
        leftovers::clear(self.place.volume.path(), Path::new("/nonexistent"));
        if let Some(network) = &self.network {
            leftovers::clear(&network.disk(), Path::new("/nonexistent"));
        }
    }
}

impl NetworkDisk {
    fn new(scratch: &Path) -> Result<NetworkDisk, Error> {
        let network = NetworkDisk { dir: scratch.join("far"), mount: None };
        let _ = fs::remove_dir_all(&network.dir);
        let path = network.backing();
        fs::create_dir_all(&path).map_err(|source| Error::Io { what: "cannot create", path, source })?;
        Ok(network)
    }

    fn backing(&self) -> PathBuf {
        self.dir.join("backing")
    }

    fn disk(&self) -> PathBuf {
        self.dir.join("disk")
    }

    fn mount(&mut self) -> Result<(), Error> {
        let mount = Mount::new(&Profile::nfs(), &self.dir);
        let path = self.dir.join("disk");
        self.mount = Some(mount.map_err(|source| Error::Io { what: "cannot serve", path, source })?);
        Ok(())
    }
}

impl Drop for NetworkDisk {
    fn drop(&mut self) {
        drop(self.mount.take());
        if let Err(source) = fs::remove_dir_all(&self.dir) {
            eprintln!("lab: cannot remove {}: {source}", self.dir.display());
        }
    }
}
