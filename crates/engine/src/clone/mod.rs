//! Clone: `source -> skeleton -> selection -> objects -> refs`; the worktree is checkout's business.
//!
//! Promise: what a clone leaves is what `git clone` leaves. At every moment the new Git directory is a
//! repository that opens and checks clean: it appears whole (`skeleton`), objects appear all at once
//! (`objects`), and refs only after them (`publish`).
//!
//! On failure or interruption everything that was made is removed again (`junk`); after
//! [`Prepared::run`] has returned the clone is complete but for its worktree, and is kept. A clone that
//! was killed is gone on with by the same command (`resume`).
//!
//! Nothing is printed: [`Event`]s say what Git would, in Git's order.

mod alternates;
mod destination;
mod junk;
mod local;
mod naming;
mod objects;
mod publish;
mod resume;
mod select;
mod settings;
mod skeleton;
mod source;

use std::{
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use bstr::{BStr, BString, ByteSlice};
use format::{
    ObjectId,
    refname::{self, Levels},
};
use sys::by_path;

use crate::checkout::Force;
use destination::Destination;
use junk::{Existed, Junk};
use objects::Channel;
use skeleton::Notice;

pub use alternates::Error as AlternatesError;
pub use local::Error as LocalError;
pub use objects::Error as ObjectsError;
pub use publish::Error as PublishError;
pub use resume::Error as ResumeError;
pub use select::Error as SelectionError;
pub use settings::BadParameter;
pub use skeleton::Error as SkeletonError;
pub use source::{Error as SourceError, Kind, Source};

/// `--reference` and `--reference-if-able`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Reference {
    pub repository: BString,
    /// Whether it is an error if it cannot be used.
    pub required: bool,
}

/// What the user asked for. Defaults are Git's.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Options {
    /// A path, a `file://` URL or a bundle, as the user wrote it.
    pub source: BString,
    /// Where to; guessed from the source if not given.
    pub directory: Option<BString>,
    pub branch: Option<BString>,
    pub bare: bool,
    pub mirror: bool,
    pub no_checkout: bool,
    pub single_branch: bool,
    /// `--no-tags`
    pub no_tags: bool,
    /// `--origin`
    pub origin: Option<BString>,
    /// `--local`, `--no-local`
    pub local: Option<bool>,
    pub no_hardlinks: bool,
    pub shared: bool,
    pub references: Vec<Reference>,
    pub reject_shallow: Option<bool>,
    /// Options that limit history or objects, such as `--depth`: ignored where files are taken over.
    pub limits: Vec<&'static str>,
    /// `--config`, in order.
    pub config: Vec<BString>,
    /// `--template`; empty for none.
    pub template: Option<BString>,
    /// Where Git's own templates are, if `--template`, `GIT_TEMPLATE_DIR` and `init.templateDir` say
    /// nothing.
    pub default_template: Option<PathBuf>,
    pub separate_git_dir: Option<BString>,
    /// `--upload-pack`
    pub upload_pack: Option<BString>,
    /// Ask the other side for progress texts.
    pub remote_progress: bool,
    /// How many threads take over objects.
    pub workers: usize,
    /// The current directory, the environment and `-c` settings.
    pub open: repo::OpenOptions,
}

/// What happens on the way.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub enum Event<'a> {
    /// `Cloning into ...`
    Begin { directory: &'a BStr, bare: bool },
    /// `warning: ...`
    Warning(&'a str),
    /// `error: ...`, without being the end.
    Error(&'a str),
    /// `info: ...`
    Info(&'a str),
    /// The hint on `init.defaultBranch`, for the name used.
    DefaultBranch(&'a BStr),
    /// Progress texts of the other side, raw.
    Remote(&'a [u8]),
    /// A pack is being received.
    Pack(repo::pack::Progress),
    /// `done.`: local objects are there.
    Done,
}

/// Why there is no clone. Messages are Git's, where Git has them; nothing is left behind.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error(transparent)]
    Source(#[from] source::Error),
    #[error("No directory name could be guessed.\nPlease specify a directory on the command line")]
    NoName,
    #[error("destination path '{0}' already exists and is not an empty directory.")]
    DestinationExists(BString),
    #[error("repository path '{0}' already exists and is not an empty directory.")]
    RepositoryExists(BString),
    #[error("working tree '{}' already exists.", .0.display())]
    WorkTreeExists(PathBuf),
    #[error("could not create leading directories of '{}'", .path.display())]
    LeadingDirectories { path: PathBuf, source: io::Error },
    #[error("could not create work tree dir '{path}'")]
    CreateWorkTree { path: BString, source: io::Error },
    #[error("'{0}' is not a valid remote name")]
    RemoteName(BString),
    #[error("source repository is shallow, reject to clone.")]
    Shallow,
    #[error("option '{0}' is not supported by sapwood yet (see SHORTCOMINGS.md)")]
    Limit(&'static str),
    #[error("fetch.fsckObjects is not supported by sapwood yet (see SHORTCOMINGS.md)")]
    ObjectChecks,
    #[error("transport 'file' not allowed")]
    TransportForbidden,
    #[error("cannot {what} '{}'", .path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Resume(#[from] ResumeError),
    #[error(transparent)]
    Alternates(#[from] alternates::Error),
    #[error(transparent)]
    Skeleton(#[from] skeleton::Error),
    #[error(transparent)]
    Config(#[from] store::config::Error),
    #[error(transparent)]
    Selection(#[from] SelectionError),
    #[error(transparent)]
    Objects(#[from] objects::Error),
    #[error(transparent)]
    Publish(#[from] publish::Error),
    #[error(transparent)]
    Repo(#[from] repo::Error),
    #[error("interrupted")]
    Interrupted,
}

/// A clone that can be made, as far as can be told without touching anything.
#[derive(Clone, Debug)]
pub struct Prepared {
    options: Options,
    source: Source,
    destination: Destination,
}

/// A finished clone without its worktree.
#[derive(Debug)]
pub struct Cloned {
    /// The new Git directory, absolute.
    pub git_dir: PathBuf,
    /// `None`: bare.
    pub work_tree: Option<PathBuf>,
    /// What is to be done about the worktree.
    pub worktree: Worktree,
    /// How: files that are in the way of a new clone are somebody's, those of one that was killed
    /// may be its own.
    pub force: Force,
    /// Until it is dropped nobody else goes on with this clone.
    _claim: resume::Claim,
}

impl Cloned {
    /// To be called when the worktree is done, too: from here on this is a repository like any other.
    /// Until then the same clone, run again, goes on with it.
    pub fn finish(&self) -> Result<(), Error> {
        let failed = |source| Error::Io { what: "finish", path: self.git_dir.clone(), source };
        resume::unmark(&self.git_dir).map_err(failed)
    }
}

/// See [`Cloned::worktree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worktree {
    /// Nothing: bare, `--no-checkout`, or nothing was cloned.
    None,
    /// `warning: remote HEAD refers to nonexistent ref, unable to checkout`
    Nonexistent,
    /// HEAD is on a branch at this commit: check it out.
    Branch(ObjectId),
    /// HEAD is detached: check it out, with advice.
    Detached(ObjectId),
}

/// Looks at the source and the destination. Touches nothing.
pub fn prepare(mut options: Options) -> Result<Prepared, Error> {
    if options.mirror {
        options.bare = true;
        options.no_tags = true;
    }
    if options.bare {
        options.no_checkout = true;
    }
    let source = source::locate(options.source.as_bstr(), &logical_directory(&options.open))?;
    let destination = Destination::find(&options, &source)?;
    Ok(Prepared { options, source, destination })
}

/// The current directory as the user sees it: `PWD`, if that is the same directory.
fn logical_directory(open: &repo::OpenOptions) -> PathBuf {
    let same = |path: &Path| {
        let [seen, real] = [path, &open.cwd].map(|path| by_path::stat_followed(path).ok().flatten());
        matches!((seen, real), (Some(seen), Some(real)) if (seen.dev, seen.ino) == (real.dev, real.ino))
    };
    let named = open.env.get(std::ffi::OsStr::new("PWD")).map(PathBuf::from);
    named.filter(|path| path.is_absolute() && same(path)).unwrap_or_else(|| open.cwd.clone())
}

impl Prepared {
    /// Where the source was found.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The destination, as the user wrote it or as it was guessed.
    pub fn directory(&self) -> &BStr {
        self.destination.directory.as_bstr()
    }

    /// The Git directory that will be made, absolute.
    pub fn git_dir(&self) -> &Path {
        &self.destination.git_dir
    }

    /// Makes the clone, without its worktree.
    pub fn run(&self, events: &(dyn Fn(Event<'_>) + Sync), interrupt: &AtomicBool) -> Result<Cloned, Error> {
        let mut junk = Junk::default();
        let destination = &self.destination;
        let resumed = resume::clear(&destination.left, &destination.git_dir)?;
        let begin = Event::Begin { directory: destination.directory.as_bstr(), bare: self.options.bare };
        if let Some(claim) = resumed {
            events(begin);
            return self.resumed(claim);
        }
        destination.make(&mut junk)?;
        events(begin);
        let claim = self.make_skeleton(&mut junk, events)?;
        let repo = self.open()?;
        check(interrupt)?;

        let wishes = self.wishes(&repo)?;
        if forbids_files(&repo, &self.options.open) {
            return Err(Error::TransportForbidden);
        }
        let references = alternates::resolve(&self.options.references, &self.options.open.cwd, events)?;
        let local = self.is_local(&repo, events)?;
        if !local && checks_objects(&repo)? {
            return Err(Error::ObjectChecks);
        }
        let channel = Channel::open(&self.source, local, &self.options, &wishes)?;
        let selection = wishes.select(channel.advertisement())?;
        for name in &selection.funny {
            events(Event::Error(&format!("* Ignoring funny ref '{name}' locally")));
        }
        if selection.empty {
            events(Event::Warning("You appear to have cloned an empty repository."));
        }
        if selection.default_branch_used && repo.config_str("init.defaultBranch").is_none() {
            events(Event::DefaultBranch(wishes.default_branch.as_bstr()));
        }
        let hash = channel.hash();
        let fsync = publish::sync_policy(&repo);
        let rebase = matches!(
            repo.config_str("branch.autoSetupRebase").as_deref().map(Vec::as_slice),
            Some(b"always" | b"remote")
        );
        let edits = settings::of_clone(&wishes, self.source.url.as_bstr(), hash, rebase, &selection);
        let locks = store::LockOptions::default();
        store::config::edit(&self.destination.git_dir.join("config"), &edits, &locks, &fsync)?;
        check(interrupt)?;

        let wanted = objects::Wanted {
            git_dir: &self.destination.git_dir,
            hash,
            selection: &selection,
            references,
            shared: self.options.shared,
            linking: match (self.options.no_hardlinks, self.options.local) {
                (true, _) => local::Linking::Never,
                (false, Some(true)) => local::Linking::Required,
                (false, _) => local::Linking::Preferred,
            },
            workers: self.options.workers,
            follow_tags: wishes.single_branch && wishes.tags,
            reject_shallow: self.rejects_shallow(&repo)?,
            remote_progress: self.options.remote_progress,
            reverse_index: repo.config_bool("pack.writeReverseIndex")?.unwrap_or(true),
            fsync: &fsync,
        };
        let objects = channel.take(&wanted, events, interrupt)?;
        check(interrupt)?;

        let message = BString::from([b"clone: from ", self.source.url.as_slice()].concat());
        let published = publish::Publication {
            repo: &repo,
            git_dir: &self.destination.git_dir,
            hash,
            objects: &objects,
            fsync,
            message,
        };
        let head = published.write(&wishes, &selection, events)?;
        junk.keep();
        let worktree = match head {
            _ if self.options.no_checkout || selection.empty => Worktree::None,
            publish::Head::Unborn => Worktree::Nonexistent,
            publish::Head::Branch(oid) => Worktree::Branch(oid),
            publish::Head::Detached(oid) => Worktree::Detached(oid),
        };
        Ok(self.cloned(worktree, Force::No, claim))
    }

    fn cloned(&self, worktree: Worktree, force: Force, claim: resume::Claim) -> Cloned {
        let Destination { git_dir, work_tree, .. } = &self.destination;
        Cloned { git_dir: git_dir.clone(), work_tree: work_tree.clone(), worktree, force, _claim: claim }
    }

    /// A clone that lacks no more than (some of) its worktree.
    fn resumed(&self, claim: resume::Claim) -> Result<Cloned, Error> {
        let repo = self.open()?;
        let worktree = match repo.head()? {
            _ if self.options.no_checkout => Worktree::None,
            repo::Head::Branch { oid, .. } => Worktree::Branch(oid),
            repo::Head::Detached { oid } => Worktree::Detached(oid),
            repo::Head::Unborn { .. } => Worktree::Nonexistent,
        };
        Ok(self.cloned(worktree, Force::Remnants, claim))
    }

    fn make_skeleton(&self, junk: &mut Junk, events: &dyn Fn(Event<'_>)) -> Result<resume::Claim, Error> {
        let template = self.template()?;
        let destination = &self.destination;
        let wanted = skeleton::Wanted {
            git_dir: &destination.git_dir,
            existed: destination.git_dir_existed(),
            work_tree: destination.work_tree.as_deref(),
            name_work_tree: destination.names_work_tree(),
            template: template.as_deref(),
            config: &self.options.config,
            url: self.source.url.as_bstr(),
            fsync: &store::Fsync::default(),
        };
        let assembly = wanted.assembly();
        junk.add(&assembly, Existed::No);
        let (notices, claim) = skeleton::create(&wanted, &assembly)?;
        for notice in notices {
            match notice {
                Notice::NoTemplates(path) => {
                    events(Event::Warning(&format!("templates not found in {}", path.display())));
                }
                Notice::IgnoredTemplate(path) => {
                    events(Event::Error(&format!("ignoring template {}", path.display())));
                }
            }
        }
        if let Some(link) = destination.git_file() {
            let failed = |source| Error::Io { what: "write", path: link.clone(), source };
            let target = by_path::canonical(&self.destination.git_dir).map_err(failed)?;
            let target = std::os::unix::ffi::OsStrExt::as_bytes(target.as_os_str());
            let mut file = by_path::create_new(&link, 0o666).map_err(failed)?;
            io::Write::write_all(&mut file, &[b"gitdir: ", target, b"\n"].concat()).map_err(failed)?;
        }
        Ok(claim)
    }

    /// `--template`, `GIT_TEMPLATE_DIR`, `init.templateDir`, Git's own. An empty one is none.
    pub fn template(&self) -> Result<Option<PathBuf>, Error> {
        let given = match &self.options.template {
            Some(path) => Some(PathBuf::from(path.to_path_lossy())),
            None => self.options.open.env.get(std::ffi::OsStr::new("GIT_TEMPLATE_DIR")).map(PathBuf::from),
        };
        let path = match given {
            Some(path) => Some(path),
            None => repo::Outside::load(&self.options.open)?.config_path("init.templateDir")?,
        };
        let path = path.or_else(|| self.options.default_template.clone());
        Ok(path.filter(|path| !path.as_os_str().is_empty()).map(|path| self.options.open.cwd.join(path)))
    }

    /// The new repository, with `--config` and templates in effect.
    fn open(&self) -> Result<repo::Repository, Error> {
        let options = repo::OpenOptions {
            git_dir: Some(self.destination.git_dir.clone()),
            work_tree: self.destination.work_tree.clone(),
            ..self.options.open.clone()
        };
        Ok(repo::Repository::open(&options)?)
    }

    fn wishes(&self, repo: &repo::Repository) -> Result<select::Wishes, Error> {
        let options = &self.options;
        let configured = || repo.config_str("clone.defaultRemoteName");
        let remote = options.origin.clone().or_else(configured).unwrap_or_else(|| "origin".into());
        let tracking = format!("refs/remotes/{remote}/test");
        if refname::check(tracking.as_bytes().as_bstr(), Levels::Two).is_err() {
            return Err(Error::RemoteName(remote));
        }
        let mut refspecs = Vec::new();
        for value in repo.config_all(&format!("remote.{remote}.fetch")) {
            refspecs.push(select::Refspec::parse(value.as_bstr())?);
        }
        Ok(select::Wishes {
            refspecs,
            branch: options.branch.clone(),
            single_branch: options.single_branch,
            tags: !options.no_tags,
            bare: options.bare,
            mirror: options.mirror,
            remote,
            default_branch: repo.config_str("init.defaultBranch").unwrap_or_else(|| "master".into()),
        })
    }

    fn rejects_shallow(&self, repo: &repo::Repository) -> Result<bool, Error> {
        let configured = repo.config_bool("clone.rejectShallow")?.unwrap_or(false);
        Ok(self.options.reject_shallow.unwrap_or(configured))
    }

    /// Whether objects are taken over as files, as Git decides it.
    fn is_local(&self, repo: &repo::Repository, events: &dyn Fn(Event<'_>)) -> Result<bool, Error> {
        let mut local = self.options.local != Some(false);
        if let (true, Kind::Repository { git_dir }) = (local, &self.source.kind) {
            for limit in &self.options.limits {
                let message = format!("{limit} is ignored in local clones; use file:// instead.");
                events(Event::Warning(&message));
            }
            if matches!(by_path::stat_followed(&git_dir.join("shallow")), Ok(Some(_))) {
                if self.rejects_shallow(repo)? {
                    return Err(Error::Shallow);
                }
                if self.options.local == Some(true) {
                    events(Event::Warning("source repository is shallow, ignoring --local"));
                }
                local = false;
            }
        } else {
            local = false;
        }
        if self.options.local == Some(true) && !local {
            events(Event::Warning("--local is ignored"));
        }
        match self.options.limits.first() {
            Some(limit) if !local => Err(Error::Limit(limit)),
            _ => Ok(local),
        }
    }
}

fn check(interrupt: &AtomicBool) -> Result<(), Error> {
    if interrupt.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
}

/// `fetch.fsckObjects`, else `transfer.fsckObjects`.
fn checks_objects(repo: &repo::Repository) -> Result<bool, Error> {
    let own = repo.config_bool("fetch.fsckObjects")?;
    let own = if own.is_some() { own } else { repo.config_bool("transfer.fsckObjects")? };
    Ok(own.unwrap_or(false))
}

/// `protocol.file.allow`, `protocol.allow` and `GIT_ALLOW_PROTOCOL`: whether this machine's
/// repositories may not be cloned.
fn forbids_files(repo: &repo::Repository, open: &repo::OpenOptions) -> bool {
    let variable =
        |name: &str| open.env.get(std::ffi::OsStr::new(name)).map(|value| value.as_encoded_bytes());
    if let Some(list) = variable("GIT_ALLOW_PROTOCOL") {
        return !list.split_str(":").any(|name| name == b"file");
    }
    let configured = repo.config_str("protocol.file.allow").or_else(|| repo.config_str("protocol.allow"));
    match configured.as_deref().map(Vec::as_slice) {
        Some(b"never") => true,
        Some(b"user") => variable("GIT_PROTOCOL_FROM_USER").is_some_and(|value| value == b"0"),
        _ => false,
    }
}
