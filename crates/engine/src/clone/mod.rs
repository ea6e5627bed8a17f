//! Clone: `source -> skeleton -> selection -> objects -> refs`. Checkout then fills the worktree.
//!
//! Promise: the result is that of `git clone`. At every moment the new Git directory is a
//! repository that opens and passes `git fsck`: it appears whole (`skeleton`), its objects appear
//! all at once (`objects`), and refs only after them (`publish`).
//!
//! On failure or interruption every created file is removed (`junk`). After [`Prepared::run`] has
//! returned, the clone is complete except for its worktree, and is kept. Running the command again
//! resumes a clone that was killed (`resume`).
//!
//! Nothing is printed: [`Event`]s report what Git would print, in Git's order.

mod alternates;
mod bundles;
mod decisions;
mod destination;
mod error;
mod filter;
pub mod init;
mod junk;
mod local;
mod naming;
mod objects;
mod options;
mod pipeline;
mod publish;
mod resume;
mod select;
mod server;
mod settings;
mod skeleton;
mod source;

use std::{
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use bstr::{BStr, BString, ByteSlice};
use format::{HashKind, ObjectId, config::Edit};
use repo::{Env, Repository, indexing::Observer};
use sys::{Refused, UserPath, by_path};

use crate::{
    checkout::{Force, Workers},
    fetch::connected::{self, Connected},
    indexing::arrive::{Purpose, Settings},
};
use decisions::{checks_objects, default_branch};
use destination::Destination;
use junk::{Existed, Junk};
use objects::Channel;
use pipeline::Pipeline;
use select::{NewHead, RefOptions, Selection};
use settings::OuterConfig;
use skeleton::Notice;
use store::SharedRepository;

pub use alternates::{Error as AlternatesError, check_reference};
pub use error::Error;
pub use filter::{Error as FilterError, Filter};
pub use local::Error as LocalError;
pub use objects::Error as ObjectsError;
pub use options::{Event, HelperCommand, Options, Reference, Tracer};
pub use pipeline::Staged;
pub use publish::Error as PublishError;
pub use resume::Error as ResumeError;
pub use select::Error as SelectionError;
pub use settings::BadParameter;
pub use skeleton::Error as SkeletonError;
pub use source::{Error as SourceError, Kind, Source};

/// Returns true if a bundle can be read and contains its whole history.
pub fn is_complete_bundle(path: &Path) -> bool {
    let map = by_path::open(path).and_then(|file| sys::Map::of(&file));
    let header = map.ok().and_then(|map| format::bundle::parse(&map).ok());
    header.is_some_and(|header| header.prerequisites.is_empty())
}

/// Returns true if a clone supports this value of `remote.<name>.fetch`.
pub fn supports_refspec(refspec: &BStr) -> bool {
    select::Refspec::parse(refspec).is_ok()
}

/// A clone whose source and destination are checked. Nothing has been changed yet.
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
    /// `None` for a bare clone.
    pub work_tree: Option<PathBuf>,
    /// The work left for the worktree.
    pub worktree: Worktree,
    /// The treatment of files in the way. In a new clone they are the user's; in a resumed one they
    /// may be remnants of the killed clone.
    pub force: Force,
    /// The settings with which the new repository was opened. `None` for a resumed clone.
    pub settings: Option<repo::Settings>,
    /// Files of the worktree that were written while the objects arrived.
    pub staged: Option<Staged>,
    /// The lock of the clone: no other process resumes it until this value is dropped.
    _claim: Option<resume::Claim>,
}

impl Cloned {
    /// Removes the marker of an unfinished clone. To be called when the worktree is complete. Until
    /// then the same command resumes the clone.
    pub fn finish(&self) -> Result<(), Error> {
        let failed = |source| Error::Io { what: "finish", path: self.git_dir.clone(), source };
        resume::unmark(&self.git_dir).map_err(failed)
    }
}

/// The work left for the worktree of a clone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worktree {
    /// None: the clone is bare, `--no-checkout` was given, or the source is empty.
    None,
    /// `warning: remote HEAD refers to nonexistent ref, unable to checkout`
    Nonexistent,
    /// HEAD is on a branch at this commit: check it out.
    Branch(ObjectId),
    /// HEAD is detached: check it out, with advice.
    Detached(ObjectId),
}

/// Examines the source and the destination. Changes nothing.
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
        && will_have_reflogs(&options)?
    {
        return Err(error.into());
    }
    Ok(Prepared { options, source, destination })
}

/// Returns true if the clone will have reflogs (`core.logAllRefUpdates`).
fn will_have_reflogs(options: &Options) -> Result<bool, Error> {
    let own = options.config.iter().rev().find_map(|text| match settings::parameter(text.as_bstr()) {
        Ok(Edit::Add { key, value }) if key == "core.logallrefupdates" => Some(value),
        _ => None,
    });
    let value = match own {
        Some(value) => Some(value),
        None => repo::StandaloneConfig::load(&options.open)?.config_str("core.logAllRefUpdates"),
    };
    Ok(match value {
        Some(value) => repo::parse_bool(Some(value.as_bstr())) != Some(false),
        None => !options.bare,
    })
}

/// Returns the current directory as the user sees it: `PWD`, if that names the same directory.
fn logical_directory(open: &repo::OpenOptions) -> PathBuf {
    let is_cwd = |path: &Path| {
        let [seen, real] = [path, &open.cwd].map(|path| by_path::stat_followed(path).ok().flatten());
        matches!((seen, real), (Some(seen), Some(real)) if (seen.dev, seen.ino) == (real.dev, real.ino))
    };
    let named = open.env.get(std::ffi::OsStr::new("PWD")).map(PathBuf::from);
    named.filter(|path| path.is_absolute() && is_cwd(path)).unwrap_or_else(|| open.cwd.clone())
}

impl Prepared {
    /// Returns the counters of a pack that is received.
    pub fn receiving(&self) -> &repo::indexing::Meter {
        &self.options.receiving
    }

    /// Returns the source.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Returns the destination as the user wrote it, or as it was guessed.
    pub fn directory(&self) -> &BStr {
        self.destination.directory.as_bstr()
    }

    /// Returns the absolute path of the future Git directory.
    pub fn git_dir(&self) -> &Path {
        &self.destination.git_dir
    }

    /// Returns the name of the new remote, from the options and the configuration.
    pub fn remote(&self, outside: &repo::StandaloneConfig) -> BString {
        const KEY: &[u8] = b"clone.defaultremotename";
        let parameters = self.options.config.iter().rev().filter_map(|setting| setting.split_once_str("="));
        let mut parameters = parameters.filter(|(key, _)| key.trim_ascii().eq_ignore_ascii_case(KEY));
        let option = self.options.origin.clone();
        let given = option.or_else(|| parameters.next().map(|(_, name)| name.into()));
        given.or_else(|| outside.config_str("clone.defaultRemoteName")).unwrap_or_else(|| "origin".into())
    }

    /// Returns the absolute path of the future worktree, or `None` for a bare clone.
    pub fn work_tree(&self) -> Option<&Path> {
        self.destination.work_tree.as_deref()
    }

    /// Creates the clone without its worktree. `run_helper` runs another Git command in the new
    /// repository and returns true if it succeeded.
    pub fn run(
        &self,
        events: &(dyn Fn(Event<'_>) + Sync),
        run_helper: &dyn Fn(HelperCommand) -> bool,
        interrupt: &AtomicBool,
    ) -> Result<Cloned, Error> {
        let mut junk = Junk::default();
        let destination = &self.destination;
        let resumed = resume::clear(&destination.leftover, &destination.git_dir)?;
        let begin = Event::Begin { directory: destination.directory.as_bstr(), bare: self.options.bare };
        if let Some(claim) = resumed {
            events(begin);
            return self.resumed(claim);
        }
        let outer = OuterConfig::load(&self.options.open)?;
        destination.make(&outer, &mut junk)?;
        events(begin);
        self.check_formats(events)?;
        let made = self.make_skeleton(outer.shared()?, &mut junk, events)?;
        let repo = self.open(true)?;
        let shared = settings::shared(&repo)?;
        check_interrupt(interrupt)?;

        let ref_options = self.ref_options(&repo)?;
        let references = alternates::resolve(&self.options.references, &self.options.open.cwd, events)?;
        let source = self.rewritten(&repo)?;
        let local = self.is_local(&repo, &source, events)?;
        if source.kind != Kind::Server {
            repo::wire::Client::of(&repo).check_allowed("file".into()).map_err(ObjectsError::Wire)?;
        }
        let limits = self.limits(&source, local)?;
        if !local && checks_objects(&repo)? {
            return Err(Error::ObjectChecks);
        }
        let asking = objects::Asking { repo: &repo, options: &self.options, ref_options: &ref_options };
        let mut channel = Channel::open(&source, local, &asking, events)?;
        let selection = ref_options.select(channel.advertisement())?;
        report_selection(&repo, &ref_options, &selection, events)?;
        let hash = channel.hash();
        let fsync = publish::sync_policy(&repo);
        let edits = self.config_edits(&repo, &ref_options, &selection, hash);
        // Bundles may add settings, which come before those of the branch in Git's file.
        let takes_bundles = self.takes_bundles(&repo)?;
        let (later, edits): (Vec<Edit>, Vec<Edit>) =
            edits.into_iter().partition(|edit| takes_bundles && edit.key().starts_with(b"branch."));
        self.write_config(&edits, shared, &fsync)?;
        check_interrupt(interrupt)?;

        let refs = publish::refs_options(&repo, &self.destination.git_dir, hash, fsync, shared)?;
        let scene = bundles::Scene { repo: &repo, refs: &refs, fsync: &fsync, shared, events, interrupt };
        let bundled = self.take_bundles(&scene, &source, &mut channel)?;
        self.write_config(&later, shared, &fsync)?;
        check_interrupt(interrupt)?;

        let pipeline = match &selection.head {
            _ if bundled.is_some() => None,
            _ if local || self.options.no_checkout || self.options.sparse || limits.filter.is_some() => None,
            NewHead::Branch(theirs) | NewHead::Tag(theirs) | NewHead::Detached(theirs) => {
                Pipeline::begin(&repo, &self.destination.git_dir, theirs.oid)
            }
            NewHead::Unborn(_) => None,
        };
        let wanted = objects::Wanted {
            git_dir: &self.destination.git_dir,
            hash,
            selection: &selection,
            limits: &limits,
            references,
            open: &self.options.open,
            borrowed: self.options.shared,
            shared,
            base_shared: made.shared,
            linking: self.linking(),
            workers: self.options.workers,
            meter: self.options.meter.as_deref(),
            follow_tags: self.options.single_branch,
            reject_shallow: self.rejects_shallow(&repo)?,
            remote_progress: self.options.remote_progress,
            arrival: &Settings::load(&repo, Purpose::Clone)?,
            receiving: &self.options.receiving,
            fsync: &fsync,
            bundled: bundled.as_ref(),
            observer: pipeline.as_ref().map(|pipeline| pipeline as &dyn Observer),
        };
        let objects = channel.take(&wanted, events, interrupt)?;
        check_interrupt(interrupt)?;
        if !local && !selection.empty {
            let tips: Vec<ObjectId> = selection.mapped.iter().map(|mapped| mapped.theirs.oid).collect();
            let options =
                connected::Options { workers: Workers::Fixed(self.options.workers.max(1)), interrupt };
            // The commits at which a shallow history ends are known now.
            if connected::check(&repo.open_again()?, &tips, options)? != Connected::Complete {
                return Err(objects::Error::Incomplete.into());
            }
        }

        let message = BString::from([b"clone: from ", self.source.name().as_slice()].concat());
        let published = publish::Publication {
            repo: &repo,
            git_dir: &self.destination.git_dir,
            hash,
            objects: &objects,
            fsync,
            shared,
            message,
        };
        let is_unborn = matches!(selection.head, NewHead::Unborn(_));
        if !self.options.no_checkout && !selection.empty && !is_unborn {
            self.remove_template_index()?;
        }
        let head = published.write(&ref_options, &selection, events)?;
        let staged = pipeline.and_then(|pipeline| pipeline.finish(&objects));
        if self.options.dissociate {
            self.dissociate(run_helper)?;
        }
        if self.options.sparse && !run_helper(HelperCommand::Sparse) {
            return Err(Error::Sparse);
        }
        junk.keep();
        let worktree = match head {
            _ if self.options.no_checkout || selection.empty => Worktree::None,
            publish::Head::Unborn => Worktree::Nonexistent,
            publish::Head::Branch(oid) => Worktree::Branch(oid),
            publish::Head::Detached(oid) => Worktree::Detached(oid),
        };
        // A helper command may have changed the configuration, and Git's own process sees the
        // change.
        let settings = if self.options.sparse { self.open(true)? } else { repo }.into_settings();
        Ok(Cloned { settings: Some(settings), staged, ..self.cloned(worktree, Force::No, made.claim) })
    }

    /// Returns the configuration of the remote and of the first branch.
    fn config_edits(
        &self,
        repo: &Repository,
        ref_options: &RefOptions,
        selection: &Selection,
        hash: HashKind,
    ) -> Vec<Edit> {
        let rebase = matches!(
            repo.config_str("branch.autoSetupRebase").as_deref().map(Vec::as_slice),
            Some(b"always" | b"remote")
        );
        let mut edits =
            settings::clone_edits(ref_options, self.source.url.as_bstr(), hash, rebase, selection);
        // Git records the filter even if it ignores it.
        if let Some(filter) = &self.options.filter {
            edits.extend(settings::partial_clone_edits(ref_options, filter.expanded()));
        }
        edits
    }

    fn write_config(
        &self,
        edits: &[Edit],
        shared: SharedRepository,
        fsync: &store::Fsync,
    ) -> Result<(), Error> {
        if edits.is_empty() {
            return Ok(());
        }
        let locks = store::LockOptions { shared, ..store::LockOptions::default() };
        store::config::edit(&self.destination.git_dir.join("config"), edits, &locks, fsync)?;
        Ok(())
    }

    fn linking(&self) -> local::Linking {
        match (self.options.no_hardlinks, self.options.local) {
            (true, _) => local::Linking::Never,
            (false, Some(true)) => local::Linking::Required,
            (false, _) => local::Linking::Preferred,
        }
    }

    /// Removes an index that came with the template: it does not describe the worktree, which is
    /// still empty.
    fn remove_template_index(&self) -> Result<(), Error> {
        let index = self.destination.git_dir.join("index");
        match by_path::remove_file(&index) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(Error::Io { what: "unlink", path: index, source })
            }
            _ => Ok(()),
        }
    }

    /// Copies the borrowed objects and removes `info/alternates`.
    fn dissociate(&self, run_helper: &dyn Fn(HelperCommand) -> bool) -> Result<(), Error> {
        let alternates = self.destination.git_dir.join("objects/info/alternates");
        if matches!(by_path::stat_followed(&alternates), Ok(None)) {
            return Ok(());
        }
        if !run_helper(HelperCommand::Repack) {
            return Err(Error::Repack);
        }
        let failed = |source| Error::Io { what: "unlink", path: alternates.clone(), source };
        by_path::remove_file(&alternates).map_err(failed)
    }

    fn cloned(&self, worktree: Worktree, force: Force, claim: Option<resume::Claim>) -> Cloned {
        let Destination { git_dir, work_tree, .. } = &self.destination;
        Cloned {
            git_dir: git_dir.clone(),
            work_tree: work_tree.clone(),
            worktree,
            force,
            settings: None,
            staged: None,
            _claim: claim,
        }
    }

    /// Resumes a clone that lacks only files of its worktree.
    fn resumed(&self, claim: resume::Claim) -> Result<Cloned, Error> {
        let repo = self.open(false)?;
        let worktree = match repo.head()? {
            _ if self.options.no_checkout => Worktree::None,
            repo::Head::Branch { oid, .. } => Worktree::Branch(oid),
            repo::Head::Detached { oid } => Worktree::Detached(oid),
            repo::Head::Unborn { .. } | repo::Head::Unresolvable => Worktree::Nonexistent,
        };
        Ok(self.cloned(worktree, Force::Remnants, Some(claim)))
    }

    fn make_skeleton(
        &self,
        shared: store::SharedRepository,
        junk: &mut Junk,
        events: &dyn Fn(Event<'_>),
    ) -> Result<skeleton::Made, Error> {
        let template = self.template()?;
        let given = self.template_as_given()?.map(|path| PathBuf::from(path.as_os_str())).unwrap_or_default();
        let destination = &self.destination;
        let voice = self.options.open.message_sink;
        let wanted = skeleton::Wanted {
            git_dir: &destination.git_dir,
            existed: destination.git_dir_existed(),
            work_tree: destination.work_tree.as_deref(),
            name_work_tree: destination.names_work_tree(),
            template: template.as_deref().map(|dir| skeleton::Template { dir, given: &given, voice }),
            config: &self.parameters()?,
            open: &self.options.open,
            purpose: skeleton::Purpose::Clone { url: self.source.url.as_bstr() },
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

    /// Returns the template directory: `--template`, `GIT_TEMPLATE_DIR`, `init.templateDir`, or
    /// Git's own. An empty value means none.
    pub fn template(&self) -> Result<Option<PathBuf>, Error> {
        let Some(given) = self.template_as_given()? else { return Ok(None) };
        Ok(match given.resolve(&self.options.open.cwd) {
            Ok(path) => Some(path),
            Err(Refused::Empty) => None,
            // No directory can have this path, so the copy reports that it is missing.
            Err(Refused::TooLong) => Some(PathBuf::from(given.as_os_str())),
        })
    }

    /// Returns the template directory as the user gave it.
    fn template_as_given(&self) -> Result<Option<UserPath>, Error> {
        let given = match &self.options.template {
            Some(path) => Some(UserPath::new(path)),
            None => Env::from(self.options.open.env.clone()).path("GIT_TEMPLATE_DIR"),
        };
        let path = match given {
            Some(path) => Some(path),
            None => repo::StandaloneConfig::load(&self.options.open)?.config_path("init.templateDir")?,
        };
        let path = path.or_else(|| self.options.default_template.clone().map(UserPath::from));
        Ok(path.filter(|path| !path.as_bytes().is_empty()))
    }

    /// Returns the source after `url.<base>.insteadOf`.
    fn rewritten(&self, repo: &Repository) -> Result<Source, Error> {
        let address = repo::wire::Client::of(repo).url(self.source.url.as_bstr());
        Ok(self.source.instead(address.text.as_bstr(), &logical_directory(&self.options.open))?)
    }

    /// Opens the new repository, with `--config` and the template's configuration in effect.
    fn open(&self, is_being_created: bool) -> Result<repo::Repository, Error> {
        let options = repo::OpenOptions {
            git_dir: Some(self.destination.git_dir.clone()),
            work_tree: self.destination.work_tree.clone(),
            is_created_by_command: true,
            is_being_created,
            ..self.options.open.clone()
        };
        Ok(repo::Repository::open(&options)?)
    }
}

fn check_interrupt(interrupt: &AtomicBool) -> Result<(), Error> {
    if interrupt.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
}

/// Reports refs with invalid names, an empty repository, and the name of the default branch.
fn report_selection(
    repo: &Repository,
    ref_options: &RefOptions,
    selection: &Selection,
    events: &(dyn Fn(Event<'_>) + Sync),
) -> Result<(), Error> {
    for name in &selection.funny {
        events(Event::Error(&format!("* Ignoring funny ref '{name}' locally")));
    }
    if selection.empty {
        events(Event::Warning("You appear to have cloned an empty repository."));
    }
    let advises = repo.config_bool("advice.defaultBranchName")?.unwrap_or(true)
        && repo.env().boolean("GIT_ADVICE")?.unwrap_or(true);
    if selection.default_branch_used && default_branch(repo).is_none() && advises {
        events(Event::DefaultBranch(ref_options.default_branch.as_bstr()));
    }
    Ok(())
}
