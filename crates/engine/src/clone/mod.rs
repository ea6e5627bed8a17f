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
mod answers;
mod destination;
mod error;
mod filter;
mod junk;
mod local;
mod naming;
mod objects;
mod options;
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
use format::{ObjectId, config::Edit};
use repo::Env;
use sys::{Refused, UserPath, by_path};

use crate::checkout::Force;
use answers::{checks_objects, default_branch};
use destination::Destination;
use junk::{Existed, Junk};
use objects::Channel;
use settings::Outer;
use skeleton::Notice;

pub use alternates::Error as AlternatesError;
pub use error::Error;
pub use filter::Filter;
pub use local::Error as LocalError;
pub use objects::Error as ObjectsError;
pub use options::{Errand, Event, Options, Reference, Tracer};
pub use protocol::Error as ProtocolError;
pub use publish::Error as PublishError;
pub use resume::Error as ResumeError;
pub use select::Error as SelectionError;
pub use settings::BadParameter;
pub use skeleton::Error as SkeletonError;
pub use source::{Error as SourceError, Kind, Source};

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
    /// The settings as they were when it was begun, unless an earlier clone is gone on with.
    pub settings: Option<repo::Settings>,
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
    if let Err(error) = repo::check_committer_date(&options.open.env.clone().into())
        && begins_reflogs(&options)?
    {
        return Err(error.into());
    }
    Ok(Prepared { options, source, destination })
}

/// Returns true if the clone will have reflogs (`core.logAllRefUpdates`).
fn begins_reflogs(options: &Options) -> Result<bool, Error> {
    let own = options.config.iter().rev().find_map(|text| match settings::parameter(text.as_bstr()) {
        Ok(Edit::Add { key, value }) if key == "core.logallrefupdates" => Some(value),
        _ => None,
    });
    let value = match own {
        Some(value) => Some(value),
        None => repo::Outside::load(&options.open)?.config_str("core.logAllRefUpdates"),
    };
    Ok(match value {
        Some(value) => repo::parse_bool(Some(value.as_bstr())) != Some(false),
        None => !options.bare,
    })
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
        let outer = Outer::load(&self.options.open)?;
        destination.make(&outer, &mut junk)?;
        events(begin);
        self.check_formats(events)?;
        let made = self.make_skeleton(outer.shared()?, &mut junk, events)?;
        let repo = self.open(true)?;
        let shared = settings::shared(&repo)?;
        check(interrupt)?;

        let wishes = self.wishes(&repo)?;
        let references = alternates::resolve(&self.options.references, &self.options.open.cwd, events)?;
        let local = self.is_local(&repo, events)?;
        protocol::check_files(&repo)?;
        let limits = self.limits(local)?;
        if !local && checks_objects(&repo)? {
            return Err(Error::ObjectChecks);
        }
        let channel = Channel::open(&self.source, local, &self.options, &wishes, events)?;
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
        let locks = store::LockOptions { shared, ..store::LockOptions::default() };
        store::config::edit(&self.destination.git_dir.join("config"), &edits, &locks, &fsync)?;
        check(interrupt)?;

        let wanted = objects::Wanted {
            git_dir: &self.destination.git_dir,
            hash,
            selection: &selection,
            limits: &limits,
            references,
            borrowed: self.options.shared,
            shared,
            early: made.shared,
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
            shared,
            message,
        };
        let is_unborn = matches!(selection.head, select::NewHead::Unborn(_));
        if !self.options.no_checkout && !selection.empty && !is_unborn {
            self.drop_foreign_index()?;
        }
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
        // Settings that an errand wrote are in effect, as in Git's own process.
        let settings = if self.options.sparse { self.open(true)? } else { repo }.into_settings();
        Ok(Cloned { settings: Some(settings), ..self.cloned(worktree, Force::No, made.claim) })
    }

    /// An index that came with the template says nothing of a worktree that is still to be filled.
    fn drop_foreign_index(&self) -> Result<(), Error> {
        let index = self.destination.git_dir.join("index");
        match by_path::remove_file(&index) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(Error::Io { what: "unlink", path: index, source })
            }
            _ => Ok(()),
        }
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
        Cloned {
            git_dir: git_dir.clone(),
            work_tree: work_tree.clone(),
            worktree,
            force,
            settings: None,
            _claim: claim,
        }
    }

    /// A clone that lacks no more than (some of) its worktree.
    fn resumed(&self, claim: resume::Claim) -> Result<Cloned, Error> {
        let repo = self.open(false)?;
        let worktree = match repo.head()? {
            _ if self.options.no_checkout => Worktree::None,
            repo::Head::Branch { oid, .. } => Worktree::Branch(oid),
            repo::Head::Detached { oid } => Worktree::Detached(oid),
            repo::Head::Unborn { .. } | repo::Head::Nowhere => Worktree::Nonexistent,
        };
        Ok(self.cloned(worktree, Force::Remnants, claim))
    }

    fn make_skeleton(
        &self,
        shared: store::SharedRepository,
        junk: &mut Junk,
        events: &dyn Fn(Event<'_>),
    ) -> Result<skeleton::Made, Error> {
        let template = self.template()?;
        let called = self.template_called()?.map(|path| PathBuf::from(path.as_os_str())).unwrap_or_default();
        let destination = &self.destination;
        let voice = self.options.open.voice;
        let wanted = skeleton::Wanted {
            git_dir: &destination.git_dir,
            existed: destination.git_dir_existed(),
            work_tree: destination.work_tree.as_deref(),
            name_work_tree: destination.names_work_tree(),
            template: template.as_deref().map(|dir| skeleton::Template { dir, called: &called, voice }),
            config: &self.parameters()?,
            open: &self.options.open,
            url: self.source.url.as_bstr(),
            fsync: &store::Fsync::default(),
            shared,
        };
        let assembly = wanted.assembly();
        junk.add(&assembly, Existed::No);
        let made = skeleton::create(&wanted, &assembly)
            .map_err(|error| error.placed(&assembly, &destination.git_dir))?;
        for notice in &made.notices {
            match notice {
                Notice::NoTemplates(path) => {
                    events(Event::Warning(&format!("templates not found in {}", path.display())));
                }
                Notice::RefusedTemplates(path, why) => {
                    let message = format!("not copying templates from '{}': {why}", path.display());
                    events(Event::Warning(&message));
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
        Ok(made)
    }

    /// `--template`, `GIT_TEMPLATE_DIR`, `init.templateDir`, Git's own. An empty one is none.
    pub fn template(&self) -> Result<Option<PathBuf>, Error> {
        let Some(called) = self.template_called()? else { return Ok(None) };
        Ok(match called.resolve(&self.options.open.cwd) {
            Ok(path) => Some(path),
            Err(Refused::Empty) => None,
            // As no such directory is there: the copy warns of it.
            Err(Refused::TooLong) => Some(PathBuf::from(called.as_os_str())),
        })
    }

    /// The template as it was given.
    fn template_called(&self) -> Result<Option<UserPath>, Error> {
        let given = match &self.options.template {
            Some(path) => Some(UserPath::new(path)),
            None => Env::from(self.options.open.env.clone()).path("GIT_TEMPLATE_DIR"),
        };
        let path = match given {
            Some(path) => Some(path),
            None => repo::Outside::load(&self.options.open)?.config_path("init.templateDir")?,
        };
        let path = path.or_else(|| self.options.default_template.clone().map(UserPath::from));
        Ok(path.filter(|path| !path.as_bytes().is_empty()))
    }

    /// The new repository, with `--config` and templates in effect.
    fn open(&self, in_the_making: bool) -> Result<repo::Repository, Error> {
        let options = repo::OpenOptions {
            git_dir: Some(self.destination.git_dir.clone()),
            work_tree: self.destination.work_tree.clone(),
            made_here: true,
            in_the_making,
            ..self.options.open.clone()
        };
        Ok(repo::Repository::open(&options)?)
    }
}

fn check(interrupt: &AtomicBool) -> Result<(), Error> {
    if interrupt.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
}
