//! The refs and HEAD of a clone, written after all objects are there.
//!
//! Order: packed-refs with all mapped refs, tags that came with other objects,
//! `refs/remotes/<name>/HEAD`, HEAD, the branch of HEAD. The repository passes `git fsck` after
//! each step.

use bstr::{BString, ByteSlice};
use format::{HashKind, ObjectId};
use repo::objects::{Kind, Reader};
use store::refs::{Change, Expected, LogPolicy, PackedRef};
use sys::by_path;

use repo::keys::{self, BoolOr, LogAll};

use super::{
    Cloned, Destination, Event, HelperCommand, Worktree,
    assembly::{Skeleton, Writing},
    error::io_error,
    junk::gone,
    objects::Populated,
    pipeline::Staged,
    select::NewHead,
};
use crate::checkout::Force;

/// The reason why a ref was not written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Refs(#[from] store::refs::Error),
    #[error(transparent)]
    Repo(#[from] repo::Error),
    #[error(transparent)]
    Object(#[from] repo::objects::Error),
    #[error("could not parse {0}")]
    NotACommit(BString),
    #[error("object {0} is a tag that names no object")]
    BadTag(ObjectId),
}

/// A clone with all refs. A failure from here on leaves it.
pub(super) struct Referenced<'a> {
    skeleton: Skeleton<'a>,
    worktree: Worktree,
    /// Files of HEAD that are written already.
    staged: Option<Staged>,
}

impl<'a> Referenced<'a> {
    /// Writes refs and HEAD, and runs the commands that Git runs then.
    pub(super) fn of(populated: Populated<'a>) -> Result<Referenced<'a>, super::Error> {
        let Populated { skeleton: Skeleton { prepared, caller, .. }, .. } = populated;
        let selection = &populated.selection;
        let options = &prepared.options;
        let is_filled = !options.no_checkout && !selection.empty;
        if is_filled && !matches!(selection.head, NewHead::Unborn(_)) {
            populated.skeleton.remove_template_index()?;
        }
        let message = BString::from([b"clone: from ", prepared.source.name().as_slice()].concat());
        let refs = self::options(&populated.skeleton, populated.hash)?;
        let head = Writer { populated: &populated, options: &refs, message }.write()?;
        let Populated { skeleton, objects, pipeline, .. } = populated;
        let staged = pipeline.and_then(|pipeline| pipeline.finish(&objects));
        if options.dissociate {
            skeleton.dissociate()?;
        }
        if options.sparse && !(caller.run_helper)(HelperCommand::Sparse) {
            return Err(super::Error::Sparse);
        }
        let worktree = if is_filled { head } else { Worktree::None };
        Ok(Referenced { skeleton, worktree, staged })
    }

    /// Ends the part of the clone that needs its options.
    pub(super) fn into_cloned(self) -> Result<Cloned, super::Error> {
        let Referenced { skeleton: Skeleton { prepared, repo, claim, .. }, worktree, staged } = self;
        // A helper command may have changed the configuration, and Git's own process sees the
        // change.
        let repo = if prepared.options.sparse { prepared.open_new()? } else { repo };
        let (force, settings) = (Force::No, Some(repo.into_settings()));
        let Destination { git_dir, work_tree, .. } = prepared.destination.clone();
        Ok(Cloned { git_dir, work_tree, worktree, force, settings, staged, claim })
    }
}

impl Skeleton<'_> {
    /// Removes an index that came with the template: it does not describe the worktree, which is
    /// still empty.
    fn remove_template_index(&self) -> Result<(), super::Error> {
        let path = self.git_dir().join("index");
        gone(by_path::remove_file(&path)).map_err(io_error("unlink", &path))
    }

    /// Copies the borrowed objects and removes `info/alternates`.
    fn dissociate(&self) -> Result<(), super::Error> {
        let path = self.git_dir().join("objects/info/alternates");
        if matches!(by_path::stat_followed(&path), Ok(None)) {
            return Ok(());
        }
        if !(self.caller.run_helper)(HelperCommand::Repack) {
            return Err(super::Error::Repack);
        }
        by_path::remove_file(&path).map_err(io_error("unlink", &path))
    }
}

/// Writes the refs of a clone.
struct Writer<'a> {
    populated: &'a Populated<'a>,
    options: &'a store::refs::Options,
    /// The message for the reflogs.
    message: BString,
}

impl Writer<'_> {
    /// Writes all refs and HEAD. Returns the work that they leave for the worktree.
    fn write(&self) -> Result<Worktree, Error> {
        let Populated { ref_options, selection, objects, .. } = self.populated;
        let mut reader = objects.reader();
        let mut packed = Vec::new();
        for mapped in &selection.mapped {
            let Some(ours) = &mapped.ours else { continue };
            let oid = mapped.theirs.oid;
            let peeled = match mapped.theirs.peeled {
                Some(peeled) => Some(peeled),
                None => Some(self.peel(&mut reader, oid)?.0).filter(|peeled| *peeled != oid),
            };
            packed.push(PackedRef { name: ours.clone(), oid, peeled });
        }
        if selection.has_refs {
            packed.sort_by(|left, right| left.name.cmp(&right.name));
            store::refs::write_packed(self.options, &packed)?;
        }
        let mut tags = Vec::new();
        for tag in &selection.follow_tags {
            if objects.has(&tag.oid)? {
                tags.push(self.update(tag.name.clone(), tag.oid));
            }
        }
        if !tags.is_empty() {
            store::refs::apply(self.options, tags)?;
        }
        if let (Some(points_at), false) = (&selection.remote_head, ref_options.bare)
            && let Some(ours) = &points_at.ours
        {
            let name = BString::from([ref_options.target_prefix().as_slice(), b"HEAD"].concat());
            self.apply(self.symbolic(name, ours.clone(), Some(points_at.theirs.oid)))?;
        }
        self.write_head()
    }

    fn write_head(&self) -> Result<Worktree, Error> {
        let Populated { skeleton, ref_options, selection, objects, .. } = self.populated;
        let events = skeleton.caller.events;
        match &selection.head {
            NewHead::Branch(theirs) => {
                self.apply(self.symbolic("HEAD".into(), theirs.name.clone(), None))?;
                if !ref_options.bare {
                    self.apply(self.update(theirs.name.clone(), theirs.oid))?;
                }
                Ok(Worktree::Branch(theirs.oid))
            }
            NewHead::Tag(theirs) => {
                let (commit, kind) = self.peel(&mut objects.reader(), theirs.oid)?;
                if kind != Kind::Commit {
                    let kind = if kind == Kind::Tree { "tree" } else { "blob" };
                    events(Event::Error(&format!("object {commit} is a {kind}, not a commit")));
                    return Err(Error::NotACommit(theirs.name.clone()));
                }
                if commit != theirs.oid {
                    let (name, oid) = (&theirs.name, theirs.oid);
                    events(Event::Warning(&format!("{name} {oid} is not a commit!")));
                }
                self.apply(self.update("HEAD".into(), commit))?;
                Ok(Worktree::Detached(commit))
            }
            NewHead::Detached(theirs) => {
                self.apply(self.update("HEAD".into(), theirs.oid))?;
                Ok(Worktree::Detached(theirs.oid))
            }
            NewHead::Unborn(name) => {
                self.apply(self.symbolic("HEAD".into(), name.clone(), None))?;
                Ok(Worktree::Nonexistent)
            }
        }
    }

    fn apply(&self, change: Change) -> Result<(), Error> {
        Ok(store::refs::apply(self.options, vec![change])?)
    }

    fn update(&self, name: BString, new: ObjectId) -> Change {
        Change::Update { name, new, expected: Expected::Any, message: self.message.clone() }
    }

    fn symbolic(&self, name: BString, target: BString, new: Option<ObjectId>) -> Change {
        let message = new.map(|_| self.message.clone());
        Change::Symbolic { name, target, message, old: None, new }
    }

    /// Follows tags from an object. Returns the object at their end, and its type.
    fn peel(&self, reader: &mut Reader<'_>, oid: ObjectId) -> Result<(ObjectId, Kind), Error> {
        let mut oid = oid;
        loop {
            let (kind, _) = reader.header(&oid)?;
            if kind != Kind::Tag {
                return Ok((oid, kind));
            }
            let (_, content) = reader.read(&oid)?;
            let hex = content.strip_prefix(b"object ").and_then(|rest| rest.lines().next());
            let target = hex.and_then(|hex| ObjectId::from_hex(self.options.hash, hex));
            oid = target.ok_or(Error::BadTag(oid))?;
        }
    }
}

/// Returns how refs of a clone are written.
pub(super) fn options(skeleton: &Skeleton<'_>, hash: HashKind) -> Result<store::refs::Options, Error> {
    let Skeleton { repo, writing: Writing { shared, fsync, .. }, .. } = skeleton;
    let log = match repo.config(&keys::core::LOG_ALL_REF_UPDATES)? {
        Some(BoolOr::Word(LogAll::Always)) => LogPolicy::Always,
        Some(BoolOr::Bool(true)) => LogPolicy::Standard,
        Some(BoolOr::Bool(false)) => LogPolicy::Never,
        None if repo.is_bare() => LogPolicy::Never,
        None => LogPolicy::Standard,
    };
    Ok(store::refs::Options {
        git_dir: skeleton.git_dir().to_owned(),
        common_dir: skeleton.git_dir().to_owned(),
        display_dir: skeleton.git_dir().to_owned(),
        hash,
        committer: repo.committer().map_err(|error| error.to_string()),
        log,
        fsync: *fsync,
        locks: store::refs::Locks { shared: *shared, ..store::refs::Locks::default() },
    })
}

/// Reads `core.fsync`, `core.fsyncMethod`, `core.fsyncObjectFiles` and `GIT_TEST_FSYNC`.
pub(super) fn sync_policy(
    repo: &repo::Repository,
    events: &dyn Fn(Event<'_>),
) -> Result<store::Fsync, repo::Error> {
    if repo.config_value(&keys::core::FSYNC_OBJECT_FILES).is_some() {
        events(Event::Warning(store::OBJECT_FILES_ARE_DEPRECATED));
    }
    let (fsync, warnings) = store::Fsync::of(&store::ConfiguredFsync {
        components: repo.config_all(&keys::core::FSYNC),
        methods: repo.config_all(&keys::core::FSYNC_METHOD),
        object_files: repo.config(&keys::core::FSYNC_OBJECT_FILES)?,
        is_on: repo.env().boolean("GIT_TEST_FSYNC")?,
    });
    warnings.iter().for_each(|warning| events(Event::Warning(warning)));
    Ok(fsync)
}
