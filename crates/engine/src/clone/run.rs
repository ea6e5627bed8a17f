//! The run of a clone: skeleton, selection, objects, refs.

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
};

use bstr::{BStr, BString, ByteSlice};
use format::{HashKind, ObjectId, config::Edit};
use repo::{Repository, fsck::Rules};
use store::SharedRepository;
use sys::by_path;

use super::{
    Cloned, Destination, Error, Event, Filter, HelperCommand, Kind, ObjectsError, Prepared, Seed, Worktree,
    alternates, bundles,
    decisions::default_branch,
    junk::{Existed, Junk},
    local,
    objects::{self, Channel},
    pipeline::Pipeline,
    publish, resume,
    salvage::{self, Keeping},
    seeding,
    select::{NewHead, RefOptions, Selection},
    settings::{self, OuterConfig},
    watchers::Watchers,
};
use crate::{
    checkout::Force,
    fetch::connected::{self, Connected},
    indexing::incoming::{Purpose, Settings},
};

impl Prepared {
    /// Creates the clone without its worktree. `run_helper` runs another Git command in the new
    /// repository and returns true if it succeeded. `seed` may bring a base first.
    pub fn run(
        &self,
        events: &(dyn Fn(Event<'_>) + Sync),
        run_helper: &dyn Fn(HelperCommand) -> bool,
        seed: Option<&dyn Seed>,
        interrupt: &AtomicBool,
    ) -> Result<Cloned, Error> {
        let mut junk = Junk::default();
        let keeping = if seed.is_some() { Keeping::Nothing } else { self.keeping()? };
        let made = self.make(keeping, &mut junk, events, run_helper, seed, interrupt);
        let git_dir = &self.destination.git_dir;
        if let Err(error) = &made
            && error.is_interrupted_transfer()
            && salvage::is_worth_keeping(git_dir, keeping)
            && salvage::set_aside(git_dir).is_ok()
        {
            junk.keep();
            events(Event::Info("the objects that came are kept; the same command goes on with them"));
        }
        made
    }

    fn make(
        &self,
        keeping: Keeping,
        junk: &mut Junk,
        events: &(dyn Fn(Event<'_>) + Sync),
        run_helper: &dyn Fn(HelperCommand) -> bool,
        seed: Option<&dyn Seed>,
        interrupt: &AtomicBool,
    ) -> Result<Cloned, Error> {
        let destination = &self.destination;
        let resumed = resume::clear(&destination.leftover, &destination.git_dir, keeping, self.extent())?;
        let begin = Event::Begin { directory: destination.directory.as_bstr(), bare: self.options.bare };
        // Until the skeleton has a marker of its own, this lock keeps others away.
        let before = match resumed {
            resume::Resumed::Worktree(claim) => {
                events(begin);
                return self.resumed(claim, interrupt);
            }
            resume::Resumed::Transfer(claim) => Some(claim),
            resume::Resumed::Nothing => None,
        };
        let outer = OuterConfig::load(&self.options.open)?;
        // A resumed transfer stays until the connection stands, whatever fails before.
        if before.is_none() {
            destination.make(&outer, junk)?;
        }
        events(begin);
        self.check_formats(events)?;
        let existed = if before.is_some() { Existed::Yes } else { destination.git_dir_existed() };
        let made = self.make_skeleton(existed, outer.shared()?, junk, events)?;
        let repo = self.open(true)?;
        let shared = settings::shared(&repo)?;
        let fsync = publish::sync_policy(&repo, events)?;
        check_interrupt(interrupt)?;

        let ref_options = self.ref_options(&repo)?;
        let references = alternates::resolve(&self.options.references, &self.options.open.cwd, events)?;
        let source = self.rewritten(&repo)?;
        let local = self.is_local(&repo, &source, events)?;
        if source.kind != Kind::Server {
            repo::wire::Client::of(&repo).check_allowed("file".into()).map_err(ObjectsError::Wire)?;
        }
        let mut limits = self.limits(&source, local)?;
        let (rules, warnings) = if local { Default::default() } else { Rules::of_fetch(&repo)? };
        warnings.iter().for_each(|warning| events(Event::Warning(&warning.to_str_lossy())));
        let asking = objects::Asking { repo: &repo, options: &self.options, ref_options: &ref_options };
        let mut channel = Channel::open(&source, local, &asking, events)?;
        let selection = ref_options.select(channel.advertisement())?;
        report_selection(&repo, &ref_options, &selection, events)?;
        let mut base =
            seed.filter(|_| !local).map(|seed| seeding::find(seed, &selection)).transpose()?.flatten();
        if base.is_some() {
            limits.filter.get_or_insert_with(|| seeding::FILTER.into());
        }
        // Git leaves the severities of single flaws out where a server may omit objects.
        let rules =
            rules.map(|rules| if limits.filter.is_some() { Rules::strict(rules.hash()) } else { rules });
        let hash = channel.hash();
        let filter = limits.filter.as_ref().map(|filter| filter.as_bstr());
        let filter = filter.or(self.options.filter.as_ref().map(Filter::expanded));
        let edits = self.config_edits(&repo, &ref_options, &selection, hash, filter);
        // Bundles may add settings, which come before those of the branch in Git's file.
        let takes_bundles = base.is_none() && self.takes_bundles(&repo)?;
        let (later, edits): (Vec<Edit>, Vec<Edit>) =
            edits.into_iter().partition(|edit| takes_bundles && edit.key().starts_with(b"branch."));
        self.write_config(&edits, shared, &fsync)?;
        check_interrupt(interrupt)?;

        let refs = publish::refs_options(&repo, &self.destination.git_dir, hash, fsync, shared)?;
        let scene = bundles::Scene { repo: &repo, refs: &refs, fsync: &fsync, shared, events, interrupt };
        let bundled = match seed.zip(base) {
            Some((seed, commit)) => {
                let brought = seeding::bring(seed, &repo, made.shared, &commit)?;
                base = base.filter(|_| brought.is_some());
                brought
            }
            None => self.take_bundles(&scene, &source, &mut channel)?,
        };
        self.write_config(&later, shared, &fsync)?;
        check_interrupt(interrupt)?;

        let is_resumed = before.is_some();
        if is_resumed {
            destination.add_to(junk);
        }
        let pipeline = match &selection.head {
            _ if local || self.options.no_checkout || self.options.sparse || limits.filter.is_some() => None,
            _ if bundled.is_some() || is_resumed => None,
            NewHead::Branch(theirs) | NewHead::Tag(theirs) | NewHead::Detached(theirs) => {
                Pipeline::begin(&repo, &self.destination.git_dir, theirs.oid)
            }
            NewHead::Unborn(_) => None,
        };
        // Other clones lack objects on purpose, or have some already.
        let is_whole = !local
            && bundled.is_none()
            && !is_resumed
            && references.is_empty()
            && !limits.deepens()
            && limits.filter.is_none();
        let links = is_whole.then(|| connected::Links::new(&self.options.receiving));
        let watchers = Watchers { pipeline: pipeline.as_ref(), links: links.as_ref() };
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
            pack_settings: &Settings::load(&repo, Purpose::Clone)?,
            receiving: &self.options.receiving,
            fsync: &fsync,
            bundled: bundled.as_ref(),
            base,
            observer: Some(&watchers),
            rules: rules.as_ref(),
            is_resumed,
            reconnect: &|| objects::connect(&source, &asking),
        };
        let objects = channel.take(&wanted, events, interrupt)?;
        check_interrupt(interrupt)?;
        if !local && !selection.empty {
            self.check_connected(&repo, &selection, links.as_ref(), interrupt)?;
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

    /// Returns an error unless everything that the new refs need is here.
    fn check_connected(
        &self,
        repo: &Repository,
        selection: &Selection,
        links: Option<&connected::Links<'_>>,
        interrupt: &AtomicBool,
    ) -> Result<(), Error> {
        let tips: Vec<ObjectId> = selection.mapped.iter().map(|mapped| mapped.theirs.oid).collect();
        if links.is_some_and(|links| links.are_complete(&tips)) {
            return Ok(());
        }
        let options = connected::Options { workers: self.workers(), interrupt };
        // The commits at which a shallow history ends are known now.
        match connected::check(&repo.open_again()?, &tips, options)? {
            Connected::Complete => Ok(()),
            Connected::Missing(_) => Err(objects::Error::Incomplete.into()),
        }
    }

    /// Returns the configuration of the remote and of the first branch.
    fn config_edits(
        &self,
        repo: &Repository,
        ref_options: &RefOptions,
        selection: &Selection,
        hash: HashKind,
        filter: Option<&BStr>,
    ) -> Vec<Edit> {
        let rebase = matches!(
            repo.config_str("branch.autoSetupRebase").as_deref().map(Vec::as_slice),
            Some(b"always" | b"remote")
        );
        let mut edits =
            settings::clone_edits(ref_options, self.source.url.as_bstr(), hash, rebase, selection);
        // Git records the filter even if it ignores it.
        if let Some(filter) = filter {
            edits.extend(settings::partial_clone_edits(ref_options, filter));
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
    fn resumed(&self, claim: resume::Claim, interrupt: &AtomicBool) -> Result<Cloned, Error> {
        let repo = self.open(false)?;
        salvage::keep_promised(&repo, &self.destination.git_dir, interrupt)?;
        let claim = resume::take_over(&self.destination.git_dir, claim)?;
        let worktree = match repo.head()? {
            _ if self.options.no_checkout => Worktree::None,
            repo::Head::Branch { oid, .. } => Worktree::Branch(oid),
            repo::Head::Detached { oid } => Worktree::Detached(oid),
            repo::Head::Unborn { .. } | repo::Head::Unresolvable => Worktree::Nonexistent,
        };
        Ok(self.cloned(worktree, Force::Remnants, Some(claim)))
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
