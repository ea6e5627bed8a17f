//! The refs and HEAD of a clone, written after all objects are there.
//!
//! Order: packed-refs with all mapped refs, tags that came with other objects,
//! `refs/remotes/<name>/HEAD`, HEAD, the branch of HEAD. The repository passes `git fsck` after
//! each step.

use std::path::{Path, PathBuf};

use bstr::{BString, ByteSlice};
use format::{HashKind, ObjectId};
use repo::objects::{Kind, Objects, Reader};
use store::refs::{Change, Expected, LogPolicy, PackedRef};

use super::{
    Event,
    select::{NewHead, RefOptions, Selection},
};

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

/// The resulting HEAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    Branch(ObjectId),
    Detached(ObjectId),
    Unborn,
}

/// The inputs of the refs.
pub(super) struct Publication<'a> {
    pub(super) repo: &'a repo::Repository,
    pub(super) git_dir: &'a Path,
    pub(super) hash: HashKind,
    pub(super) objects: &'a Objects,
    pub(super) fsync: store::Fsync,
    pub(super) shared: store::SharedRepository,
    /// The message for the reflogs.
    pub(super) message: BString,
}

impl Publication<'_> {
    /// Writes all refs and HEAD.
    pub(super) fn write(
        &self,
        ref_options: &RefOptions,
        selection: &Selection,
        events: &dyn Fn(Event<'_>),
    ) -> Result<Head, Error> {
        let options = self.options()?;
        let mut reader = self.objects.reader();
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
            store::refs::write_packed(&options, &packed)?;
        }
        let mut tags = Vec::new();
        for tag in &selection.follow_tags {
            if self.objects.has(&tag.oid)? {
                tags.push(self.update(tag.name.clone(), tag.oid));
            }
        }
        if !tags.is_empty() {
            store::refs::apply(&options, tags)?;
        }
        if let (Some(points_at), false) = (&selection.remote_head, ref_options.bare)
            && let Some(ours) = &points_at.ours
        {
            let name = BString::from([ref_options.target_prefix().as_slice(), b"HEAD"].concat());
            store::refs::apply(
                &options,
                vec![self.symbolic(name, ours.clone(), Some(points_at.theirs.oid))],
            )?;
        }
        self.head(&options, ref_options, selection, events)
    }

    fn head(
        &self,
        options: &store::refs::Options,
        ref_options: &RefOptions,
        selection: &Selection,
        events: &dyn Fn(Event<'_>),
    ) -> Result<Head, Error> {
        match &selection.head {
            NewHead::Branch(theirs) => {
                store::refs::apply(options, vec![self.symbolic("HEAD".into(), theirs.name.clone(), None)])?;
                if !ref_options.bare {
                    store::refs::apply(options, vec![self.update(theirs.name.clone(), theirs.oid)])?;
                }
                Ok(Head::Branch(theirs.oid))
            }
            NewHead::Tag(theirs) => {
                let (commit, kind) = self.peel(&mut self.objects.reader(), theirs.oid)?;
                if kind != Kind::Commit {
                    let kind = if kind == Kind::Tree { "tree" } else { "blob" };
                    events(Event::Error(&format!("object {commit} is a {kind}, not a commit")));
                    return Err(Error::NotACommit(theirs.name.clone()));
                }
                if commit != theirs.oid {
                    let (name, oid) = (&theirs.name, theirs.oid);
                    events(Event::Warning(&format!("{name} {oid} is not a commit!")));
                }
                store::refs::apply(options, vec![self.update("HEAD".into(), commit)])?;
                Ok(Head::Detached(commit))
            }
            NewHead::Detached(theirs) => {
                store::refs::apply(options, vec![self.update("HEAD".into(), theirs.oid)])?;
                Ok(Head::Detached(theirs.oid))
            }
            NewHead::Unborn(name) => {
                store::refs::apply(options, vec![self.symbolic("HEAD".into(), name.clone(), None)])?;
                Ok(Head::Unborn)
            }
        }
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
            let target = hex.and_then(|hex| ObjectId::from_hex(self.hash, hex));
            oid = target.ok_or(Error::BadTag(oid))?;
        }
    }

    fn options(&self) -> Result<store::refs::Options, Error> {
        refs_options(self.repo, self.git_dir, self.hash, self.fsync, self.shared)
    }
}

/// Returns how refs of a clone are written.
pub(super) fn refs_options(
    repo: &repo::Repository,
    git_dir: &Path,
    hash: HashKind,
    fsync: store::Fsync,
    shared: store::SharedRepository,
) -> Result<store::refs::Options, Error> {
    let log = match repo.config_str("core.logAllRefUpdates") {
        Some(value) if value.eq_ignore_ascii_case(b"always") => LogPolicy::Always,
        Some(_) if repo.config_bool("core.logAllRefUpdates")? == Some(true) => LogPolicy::Standard,
        Some(_) => LogPolicy::Never,
        None if repo.is_bare() => LogPolicy::Never,
        None => LogPolicy::Standard,
    };
    Ok(store::refs::Options {
        git_dir: PathBuf::from(git_dir),
        common_dir: PathBuf::from(git_dir),
        display_dir: PathBuf::from(git_dir),
        hash,
        committer: repo.committer().map_err(|error| error.to_string()),
        log,
        fsync,
        locks: store::refs::Locks { shared, ..store::refs::Locks::default() },
    })
}

/// Reads `core.fsync`, `core.fsyncMethod`, `core.fsyncObjectFiles` and `GIT_TEST_FSYNC`.
pub(super) fn sync_policy(
    repo: &repo::Repository,
    events: &dyn Fn(Event<'_>),
) -> Result<store::Fsync, repo::Error> {
    if repo.config_value("core.fsyncObjectFiles").is_some() {
        events(Event::Warning(store::OBJECT_FILES_ARE_DEPRECATED));
    }
    let (fsync, warnings) = store::Fsync::of(&store::ConfiguredFsync {
        components: repo.config_all("core.fsync"),
        methods: repo.config_all("core.fsyncMethod"),
        object_files: repo.config_bool("core.fsyncObjectFiles")?,
        is_on: repo.env().boolean("GIT_TEST_FSYNC")?,
    });
    warnings.iter().for_each(|warning| events(Event::Warning(warning)));
    Ok(fsync)
}
