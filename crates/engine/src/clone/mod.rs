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
mod filter;
mod junk;
mod local;
mod naming;
mod objects;
mod protocol;
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
pub use filter::Filter;
pub use local::Error as LocalError;
pub use objects::Error as ObjectsError;
pub use protocol::Error as ProtocolError;
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

/// See [`repo::fetch::Tracer`].
#[derive(Clone)]
pub struct Tracer(pub std::sync::Arc<repo::fetch::Tracer>);

impl std::fmt::Debug for Tracer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tracer")
    }
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
    /// Copy what is borrowed, and borrow no more.
    pub dissociate: bool,
    pub reject_shallow: Option<bool>,
    /// `--depth`
    pub depth: Option<BString>,
    /// `--shallow-since`
    pub shallow_since: Option<BString>,
    /// `--shallow-exclude`
    pub shallow_exclude: Vec<BString>,
    /// `--filter`
    pub filter: Option<Filter>,
    /// `--recurse-submodules`: which are active.
    pub submodules: Vec<BString>,
    /// `--sparse`
    pub sparse: bool,
    /// Sees what is said to the other side, and its answers.
    pub tracer: Option<Tracer>,
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

/// What Git leaves to another of its commands, in the new repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errand<'a> {
    /// `git rev-list --objects`: whether all that these reach is there, but for what was promised if `partial`.
    #[allow(missing_docs)]
    Connected { tips: &'a [ObjectId], partial: bool },
    /// `git repack -a -d`: copies what is borrowed.
    Repack,
    /// `git sparse-checkout set`: only the files at the root.
    Sparse,
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
    #[error("transport: invalid depth option '{0}'")]
    DepthOption(BString),
    #[error("clone --recursive is not compatible with both --reference and --reference-if-able")]
    BothReferences,
    /// Git has said why.
    #[error("failed to initialize sparse-checkout")]
    Sparse,
    #[error("fetch.fsckObjects is not supported by sapwood yet (see SHORTCOMINGS.md)")]
    ObjectChecks,
    #[error("depth {0} is not a positive number")]
    Depth(BString),
    #[error(transparent)]
    Protocol(#[from] protocol::Error),
    #[error("cannot repack to clean up")]
    Repack,
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

impl Error {
    /// Whether Git refuses in these words, too, before it touches anything.
    pub fn is_gits(&self) -> bool {
        matches!(
            self,
            Error::Source(SourceError::Missing(_))
                | Error::Depth(_)
                | Error::DestinationExists(_)
                | Error::RepositoryExists(_)
                | Error::WorkTreeExists(_)
        )
    }
}

/// Whether a bundle can be read and has all of its history.
pub fn is_complete_bundle(path: &Path) -> bool {
    let map = by_path::open(path).and_then(|file| sys::Map::of(&file));
    let header = map.ok().and_then(|map| format::bundle::parse(&map).ok());
    header.is_some_and(|header| header.prerequisites.is_empty())
}

/// Whether a value of `remote.<name>.fetch` is one that a clone can follow.
pub fn understands_refspec(refspec: &BStr) -> bool {
    select::Refspec::parse(refspec).is_ok()
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
    if let Some(depth) = &options.depth {
        let digits = depth.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if depth[..digits].iter().all(|&byte| byte == b'0') {
            return Err(Error::Depth(depth.clone()));
        }
    }
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

    /// The name the source gets as a remote, by option and configuration.
    pub fn remote(&self, outside: &repo::Outside) -> BString {
        const KEY: &[u8] = b"clone.defaultremotename";
        let parameters = self.options.config.iter().rev().filter_map(|setting| setting.split_once_str("="));
        let mut parameters = parameters.filter(|(key, _)| key.trim_ascii().eq_ignore_ascii_case(KEY));
        let option = self.options.origin.clone();
        let given = option.or_else(|| parameters.next().map(|(_, name)| name.into()));
        given.or_else(|| outside.config_str("clone.defaultRemoteName")).unwrap_or_else(|| "origin".into())
    }

    /// The worktree that will be made, absolute; `None`: bare.
    pub fn work_tree(&self) -> Option<&Path> {
        self.destination.work_tree.as_deref()
    }

    /// Makes the clone, without its worktree. `errand` does what is another command's, in the new
    /// repository, and says whether that went well.
    pub fn run(
        &self,
        events: &(dyn Fn(Event<'_>) + Sync),
        errand: &dyn Fn(Errand<'_>) -> bool,
        interrupt: &AtomicBool,
    ) -> Result<Cloned, Error> {
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
        let references = alternates::resolve(&self.options.references, &self.options.open.cwd, events)?;
        let local = self.is_local(&repo, events)?;
        protocol::check_files(&repo)?;
        let limits = self.limits(local)?;
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
        let advises = repo.config_bool("advice.defaultBranchName")?.unwrap_or(true)
            && repo.env().boolean("GIT_ADVICE")?.unwrap_or(true);
        if selection.default_branch_used && default_branch(&repo).is_none() && advises {
            events(Event::DefaultBranch(wishes.default_branch.as_bstr()));
        }
        let hash = channel.hash();
        let fsync = publish::sync_policy(&repo);
        let rebase = matches!(
            repo.config_str("branch.autoSetupRebase").as_deref().map(Vec::as_slice),
            Some(b"always" | b"remote")
        );
        let mut edits = settings::of_clone(&wishes, self.source.url.as_bstr(), hash, rebase, &selection);
        // Also where the filter is ignored: Git says so, and notes it down.
        if let Some(filter) = &self.options.filter {
            edits.extend(settings::of_partial_clone(&wishes, filter.expanded()));
        }
        let locks = store::LockOptions::default();
        store::config::edit(&self.destination.git_dir.join("config"), &edits, &locks, &fsync)?;
        check(interrupt)?;

        let wanted = objects::Wanted {
            git_dir: &self.destination.git_dir,
            hash,
            selection: &selection,
            limits: &limits,
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
        if !local && !selection.empty {
            let tips: Vec<ObjectId> = selection.mapped.iter().map(|mapped| mapped.theirs.oid).collect();
            if !errand(Errand::Connected { tips: &tips, partial: limits.filter.is_some() }) {
                return Err(objects::Error::Incomplete.into());
            }
        }

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
        if self.options.dissociate {
            self.dissociate(errand)?;
        }
        if self.options.sparse && !errand(Errand::Sparse) {
            return Err(Error::Sparse);
        }
        junk.keep();
        let worktree = match head {
            _ if self.options.no_checkout || selection.empty => Worktree::None,
            publish::Head::Unborn => Worktree::Nonexistent,
            publish::Head::Branch(oid) => Worktree::Branch(oid),
            publish::Head::Detached(oid) => Worktree::Detached(oid),
        };
        Ok(self.cloned(worktree, Force::No, claim))
    }

    /// Copies what is borrowed; then nothing is.
    fn dissociate(&self, errand: &dyn Fn(Errand<'_>) -> bool) -> Result<(), Error> {
        let alternates = self.destination.git_dir.join("objects/info/alternates");
        if matches!(by_path::stat_followed(&alternates), Ok(None)) {
            return Ok(());
        }
        if !errand(Errand::Repack) {
            return Err(Error::Repack);
        }
        let failed = |source| Error::Io { what: "unlink", path: alternates.clone(), source };
        by_path::remove_file(&alternates).map_err(failed)
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
            config: &self.parameters()?,
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
            default_branch: default_branch(repo).unwrap_or_else(|| "master".into()),
        })
    }

    fn rejects_shallow(&self, repo: &repo::Repository) -> Result<bool, Error> {
        let configured = repo.config_bool("clone.rejectShallow")?.unwrap_or(false);
        Ok(self.options.reject_shallow.unwrap_or(configured))
    }

    /// Whether objects are taken over as files; else they come through a server or from a bundle.
    pub fn takes_files(&self) -> bool {
        match &self.source.kind {
            Kind::Repository { git_dir } => self.options.local != Some(false) && !is_shallow(git_dir),
            Kind::File { .. } | Kind::Bundle { .. } => false,
        }
    }

    /// The same, with all that Git says on deciding it.
    fn is_local(&self, repo: &repo::Repository, events: &dyn Fn(Event<'_>)) -> Result<bool, Error> {
        let options = &self.options;
        if let (true, Kind::Repository { git_dir }) = (options.local != Some(false), &self.source.kind) {
            let limits = [
                ("--depth", options.depth.is_some()),
                ("--shallow-since", options.shallow_since.is_some()),
                ("--shallow-exclude", !options.shallow_exclude.is_empty()),
                ("--filter", options.filter.is_some()),
            ];
            for (limit, _) in limits.iter().filter(|(_, given)| *given) {
                let message = format!("{limit} is ignored in local clones; use file:// instead.");
                events(Event::Warning(&message));
            }
            if is_shallow(git_dir) {
                if self.rejects_shallow(repo)? {
                    return Err(Error::Shallow);
                }
                if options.local == Some(true) {
                    events(Event::Warning("source repository is shallow, ignoring --local"));
                }
            }
        }
        let local = self.takes_files();
        if options.local == Some(true) && !local {
            events(Event::Warning("--local is ignored"));
        }
        Ok(local)
    }

    /// What the other side is asked to leave out; a bundle and files are taken as they are.
    fn limits(&self, local: bool) -> Result<repo::fetch::Limits, Error> {
        let options = &self.options;
        if local || matches!(self.source.kind, Kind::Bundle { .. }) {
            return Ok(repo::fetch::Limits::default());
        }
        if options.shallow_since.is_some() {
            return Err(Error::Limit("--shallow-since"));
        }
        let parse = |depth: &BString| {
            let number = depth.to_str().ok().and_then(|depth| depth.parse().ok());
            number.ok_or_else(|| Error::DepthOption(depth.clone()))
        };
        Ok(repo::fetch::Limits {
            depth: options.depth.as_ref().map(parse).transpose()?,
            exclude: options.shallow_exclude.clone(),
            filter: options.filter.as_ref().map(|filter| filter.expanded().to_owned()),
        })
    }

    /// What `--recurse-submodules` adds to the configuration.
    fn parameters(&self) -> Result<Vec<BString>, Error> {
        let options = &self.options;
        let mut parameters = options.config.clone();
        if options.submodules.is_empty() {
            return Ok(parameters);
        }
        let mut active = options.submodules.clone();
        active.sort();
        active.dedup();
        parameters.extend(
            active.iter().map(|path| BString::from([b"submodule.active=", path.as_slice()].concat())),
        );
        if repo::Outside::load(&options.open)?.config_bool("submodule.stickyRecursiveClone")? == Some(true) {
            parameters.push("submodule.recurse=true".into());
        }
        let has = |required| options.references.iter().any(|reference| reference.required == required);
        let strategy = match (has(true), has(false)) {
            (true, true) => return Err(Error::BothReferences),
            (true, false) => "die",
            (false, true) => "info",
            (false, false) => return Ok(parameters),
        };
        parameters.push("submodule.alternateLocation=superproject".into());
        parameters.push(format!("submodule.alternateErrorStrategy={strategy}").into());
        Ok(parameters)
    }
}

fn is_shallow(git_dir: &Path) -> bool {
    matches!(by_path::stat_followed(&git_dir.join("shallow")), Ok(Some(_)))
}

/// The name of a new repository's first branch, if somebody says.
fn default_branch(repo: &repo::Repository) -> Option<BString> {
    let variable = repo.env().bytes("GIT_TEST_DEFAULT_INITIAL_BRANCH_NAME");
    let variable = variable.filter(|name| !name.is_empty()).map(BStr::to_owned);
    variable.or_else(|| repo.config_str("init.defaultBranch"))
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
