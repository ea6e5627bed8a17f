//! The ways to create a worktree, and their commands for the same work.

use std::path::{Path, PathBuf};

use super::tree::{NEW, Tree};
use crate::{
    Error,
    measure::{Invocation, must},
    rig::{FileSystem, Volume},
};

/// A backend of `sapwood workspace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Backend {
    Image,
    Overlay,
    OverlayUser,
    Fuse,
    Btrfs,
    Reflink,
    Copy,
}

impl Backend {
    pub(super) const ALL: [Backend; 7] = [
        Backend::Image,
        Backend::Overlay,
        Backend::OverlayUser,
        Backend::Fuse,
        Backend::Btrfs,
        Backend::Reflink,
        Backend::Copy,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Backend::Image => "image",
            Backend::Overlay => "overlay",
            Backend::OverlayUser => "overlay-user",
            Backend::Fuse => "fuse",
            Backend::Btrfs => "btrfs",
            Backend::Reflink => "reflink",
            Backend::Copy => "copy",
        }
    }
}

/// An alternative to sapwood's workspaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Peer {
    /// `git worktree add`.
    Git,
    /// `cp --reflink` of a worktree and its index, on xfs.
    Cp,
    /// `unionfs-fuse` over a repository, mounted manually.
    Unionfs,
}

impl Peer {
    pub(super) const ALL: [Peer; 3] = [Peer::Git, Peer::Cp, Peer::Unionfs];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contender {
    Sapwood(Backend),
    /// `git worktree add` with a number of workers.
    Git(usize),
    Cp,
    Unionfs,
}

impl Contender {
    /// Returns the name in records. The best backend is recorded as `sapwood`.
    pub(super) fn tool(self) -> String {
        match self {
            Contender::Sapwood(Backend::Image) => "sapwood".into(),
            Contender::Sapwood(backend) => backend.name().into(),
            Contender::Git(workers) => format!("git-{workers}"),
            Contender::Cp => "cp".into(),
            Contender::Unionfs => "unionfs".into(),
        }
    }

    /// Returns true if creating a worktree is cheaper than a copy, in time and bytes.
    pub(super) fn is_cheap(self) -> bool {
        !matches!(
            self,
            Contender::Git(_) | Contender::Cp | Contender::Sapwood(Backend::Copy | Backend::Reflink)
        )
    }

    pub(super) fn file_system(self) -> FileSystem {
        match self {
            Contender::Sapwood(Backend::Btrfs) => FileSystem::Btrfs,
            Contender::Sapwood(Backend::Reflink) | Contender::Cp => FileSystem::Xfs,
            _ => FileSystem::Ext4,
        }
    }
}

/// A repository on a fresh file system, and the commands of one contender there.
pub(super) struct Place<'a> {
    pub(super) contender: Contender,
    git: &'a Path,
    sapwood: &'a Path,
    /// The repository that the worktrees belong to.
    pub(super) repo: PathBuf,
    /// The directory of bases, if it is not the default.
    bases: Option<PathBuf>,
    pub(super) volume: Volume,
}

impl<'a> Place<'a> {
    /// Creates the file system, and a repository that shares the objects of the tree.
    pub(super) fn new(
        contender: Contender,
        tree: &Tree,
        (git, sapwood): (&'a Path, &'a Path),
        scratch: &Path,
    ) -> Result<Place<'a>, Error> {
        Place::on(contender.file_system(), contender, tree, (git, sapwood), scratch)
    }

    /// Creates a place on a file system that is not the usual one of the contender.
    pub(super) fn on(
        file_system: FileSystem,
        contender: Contender,
        tree: &Tree,
        (git, sapwood): (&'a Path, &'a Path),
        scratch: &Path,
    ) -> Result<Place<'a>, Error> {
        let volume = Volume::fresh(file_system, scratch)?;
        volume.read_directly();
        let repo = volume.path().join("repo");
        let place = Place { contender, git, sapwood, repo, bases: None, volume };
        place.clone_to(&tree.packed, &place.repo)?;
        let work = place.volume.path().join("work");
        std::fs::create_dir(&work).map_err(|source| Error::Io {
            what: "cannot create",
            path: work,
            source,
        })?;
        Ok(place)
    }

    fn clone_to(&self, packed: &Path, to: &Path) -> Result<(), Error> {
        let [from, to_text] = [packed, to].map(|path| path.display().to_string());
        must(self.git, &["clone", "-q", "-s", "-n", &from, &to_text], Path::new("/"))?;
        let refs = ["refs/lab/*:refs/lab/*", "refs/heads/lab:refs/lab/new"];
        must(self.git, &["fetch", "-q", "origin", refs[0], refs[1]], to)?;
        for (name, value) in [("gc.auto", "0"), ("advice.detachedHead", "false")] {
            must(self.git, &["config", name, value], to)?;
        }
        // A generated tree has no ignore rules of its own.
        let exclude = to.join(".git/info/exclude");
        std::fs::write(&exclude, "*.o\n").map_err(|source| Error::Io {
            what: "cannot write",
            path: exclude,
            source,
        })
    }

    /// Returns the directory of a worktree.
    pub(super) fn dir(&self, name: &str) -> PathBuf {
        self.volume.path().join("work").join(name)
    }

    /// Sets the parent directory of bases that are created later.
    pub(super) fn put_bases(&mut self, at: &Path) -> Result<(), Error> {
        self.bases = Some(at.to_owned());
        let bases = at.join("bases").display().to_string();
        must(self.git, &["config", "sapwood.baseDir", &bases], &self.repo).map(drop)
    }

    /// Returns the directory of the base that was created manually.
    pub(super) fn base_dir(&self) -> PathBuf {
        self.bases.as_deref().unwrap_or(self.volume.path()).join("base")
    }

    fn text(&self, name: &str) -> String {
        self.volume.path().join(name).display().to_string()
    }

    pub(super) fn sapwood(&self, args: &[&str], at: &Path) -> Invocation {
        Invocation::new(self.sapwood, args, at)
    }

    pub(super) fn git(&self, args: &[&str], at: &Path) -> Invocation {
        let workers = match self.contender {
            Contender::Git(workers) => format!("checkout.workers={workers}"),
            _ => "checkout.workers=2".into(),
        };
        Invocation::new(self.git, &[&["-c", workers.as_str()], args].concat(), at)
    }

    fn shell(&self, script: &str) -> Invocation {
        Invocation::new(Path::new("sh"), &["-ec", script], &self.repo)
    }

    /// Returns the command that creates the base of a commit, if the contender has bases.
    pub(super) fn base(&self, commit: &str) -> Option<Invocation> {
        match self.contender {
            Contender::Git(_) | Contender::Sapwood(Backend::Copy) => None,
            Contender::Sapwood(backend) => Some(
                self.sapwood(&["workspace", "base", "add", commit, "--backend", backend.name()], &self.repo),
            ),
            // The settings prevent Git from reading every file of a copy once.
            Contender::Cp if commit == NEW => Some(self.shell(&format!(
                "'{git}' config core.checkStat minimal; '{git}' config core.trustctime false; \
                 '{git}' -c checkout.workers=2 worktree add -q --detach '{base}' {commit}; rm '{base}/.git'",
                git = self.git.display(),
                base = self.base_dir().display(),
            ))),
            Contender::Unionfs if commit == NEW => Some(self.shell(&format!(
                "'{git}' clone -q -s -n '{repo}' '{base}'; cd '{base}'; \
                 '{git}' fetch -q origin 'refs/lab/*:refs/lab/*'; cp '{repo}/.git/info/exclude' .git/info/; \
                 '{git}' -c checkout.workers=2 checkout -q --detach {commit}",
                git = self.git.display(),
                repo = self.repo.display(),
                base = self.base_dir().display(),
            ))),
            Contender::Cp | Contender::Unionfs => None,
        }
    }

    /// Returns the command that creates a worktree of the new commit.
    pub(super) fn create(&self, name: &str) -> Invocation {
        let dir = self.dir(name).display().to_string();
        match self.contender {
            Contender::Sapwood(backend) => self.sapwood(
                &["workspace", "create", name, NEW, "--detach", "--dir", &dir, "--backend", backend.name()],
                &self.repo,
            ),
            Contender::Git(_) => self.git(&["worktree", "add", "-q", "--detach", &dir, NEW], &self.repo),
            Contender::Cp => self.shell(&format!(
                "'{git}' worktree add -q --no-checkout --detach '{dir}' {NEW}; \
                 cp -a --reflink=always '{base}/.' '{dir}'; \
                 cp .git/worktrees/base/index .git/worktrees/{name}/index",
                git = self.git.display(),
                base = self.base_dir().display(),
            )),
            Contender::Unionfs => self.shell(&format!(
                "mkdir -p '{own}' '{dir}'; unionfs-fuse -o cow,hide_meta_files '{own}'=RW:'{base}'=RO '{dir}'",
                own = self.text(&format!("own-{name}")),
                base = self.base_dir().display(),
            )),
        }
    }

    /// Returns the command that removes a worktree with its changes.
    pub(super) fn remove(&self, name: &str) -> Invocation {
        let dir = self.dir(name).display().to_string();
        match self.contender {
            Contender::Sapwood(_) => self.sapwood(&["workspace", "remove", "--force", name], &self.repo),
            Contender::Git(_) | Contender::Cp => {
                self.git(&["worktree", "remove", "--force", &dir], &self.repo)
            }
            Contender::Unionfs => self.shell(&format!(
                "fusermount3 -u '{dir}' || fusermount -u '{dir}'; rmdir '{dir}'; rm -rf '{}'",
                self.text(&format!("own-{name}"))
            )),
        }
    }

    /// Makes a repository of another user, who shares the bases of the first one. Returns false if
    /// the contender shares no base.
    pub(super) fn clone_for_other(&self, tree: &Tree) -> Result<bool, Error> {
        let Some(id) = self.other_id() else { return Ok(false) };
        let repo = self.other_repo();
        self.clone_to(&tree.packed, &repo)?;
        let work = self.text("other-work");
        must(Path::new("mkdir"), &[&work], Path::new("/"))?;
        let repo = repo.display().to_string();
        must(Path::new("chown"), &["-R", id, &repo, &work], Path::new("/"))?;
        Ok(true)
    }

    fn other_repo(&self) -> PathBuf {
        self.volume.path().join("other")
    }

    /// Returns the user id of the other user. Backends that mount need root, with another umask.
    fn other_id(&self) -> Option<&'static str> {
        match self.contender {
            Contender::Sapwood(Backend::Image | Backend::Overlay) => Some("0"),
            Contender::Sapwood(Backend::OverlayUser) => Some("54321"),
            _ => None,
        }
    }

    /// Returns the command by which the other user runs `sapwood workspace`.
    fn by_other(&self, args: &[&str]) -> Invocation {
        let id = self.other_id().unwrap_or("0");
        let sapwood = self.sapwood.display().to_string();
        let (user, group) = (format!("--reuid={id}"), format!("--regid={id}"));
        let script = "umask 077; exec \"$@\"";
        let before =
            [user.as_str(), group.as_str(), "--clear-groups", "sh", "-c", script, "sh", sapwood.as_str()];
        Invocation::new(
            Path::new("setpriv"),
            &[&before[..], &["workspace"], args].concat(),
            &self.other_repo(),
        )
    }

    /// Returns the commands by which the other user creates a worktree on the base of the first
    /// user, and removes it.
    pub(super) fn life_for_other(&self, name: &str) -> Option<[Invocation; 2]> {
        let Contender::Sapwood(backend) = self.contender else { return None };
        let bases = self.repo.join(".git/sapwood/bases").display().to_string();
        let dir = self.volume.path().join("other-work").join(name).display().to_string();
        let create = ["create", name, NEW, "--detach", "--dir", &dir, "--base-dir", &bases];
        let create = self.by_other(&[&create[..], &["--backend", backend.name()]].concat());
        Some([create, self.by_other(&["remove", name])])
    }

    /// Waits until sapwood has deleted the removed files, which happens in the background.
    pub(super) fn settle(&self) {
        let trash = self.repo.join(".git/sapwood/trash");
        let is_empty = || std::fs::read_dir(&trash).map_or(true, |mut entries| entries.next().is_none());
        for _ in 0..3000 {
            if is_empty() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        eprintln!("lab: {} is still not empty", trash.display());
    }

    /// Returns the invocation to run in a worktree. The files of some backends are visible only to
    /// processes inside.
    pub(super) fn inside(&self, name: &str, invocation: Invocation) -> Invocation {
        match self.contender {
            Contender::Sapwood(Backend::OverlayUser) => {
                let exec = self.sapwood(&["workspace", "exec", name, "--"], &self.repo);
                let outside = std::iter::once(exec.program).chain(exec.args).collect();
                Invocation { outside, cwd: exec.cwd, ..invocation }
            }
            _ => Invocation { cwd: self.dir(name), ..invocation },
        }
    }

    /// Runs a Git command in a worktree, outside of measurements, and returns its output.
    pub(super) fn check(&self, name: &str, args: &[&str]) -> Result<String, Error> {
        self.output(&self.inside(name, self.git(args, &self.repo)))
    }

    /// Runs a command outside of measurements and returns its output.
    pub(super) fn output(&self, of: &Invocation) -> Result<String, Error> {
        let mut words = of.outside.iter().chain([&of.program]).chain(&of.args).map(String::as_str);
        let program = Path::new(words.next().expect("at least the program"));
        let rest: Vec<&str> = words.collect();
        must(program, &rest, &of.cwd).map(|output| String::from_utf8_lossy(&output).into_owned())
    }

    /// Returns the command that replaces the base of a workspace.
    pub(super) fn rebase(&self, name: &str, commit: &str) -> Option<Invocation> {
        matches!(self.contender, Contender::Sapwood(_))
            .then(|| self.sapwood(&["workspace", "rebase", name, commit], &self.repo))
    }

    /// Returns the command that runs all commands, sequentially or concurrently.
    pub(super) fn all(&self, commands: &[Invocation], order: Order) -> Invocation {
        let mut script = String::new();
        for command in commands {
            let words = std::iter::once(&command.program).chain(&command.args);
            let line: Vec<String> = words.map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
            script += &line.join(" ");
            script += match order {
                Order::InTurn => "\n",
                Order::AtOnce => " & all=\"$all $!\"\n",
            };
        }
        if order == Order::AtOnce {
            script += "for one in $all; do wait $one || code=1; done; exit ${code:-0}\n";
        }
        self.shell(&script)
    }
}

/// The order of several commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    InTurn,
    AtOnce,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.settle();
        super::leftovers::clear(self.volume.path(), self.sapwood);
    }
}
