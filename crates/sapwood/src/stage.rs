//! Worktree files as entries of the index: `add` passes the paths that it found.
//!
//! Files are recorded in parallel, and put into the index in order, with Git's messages. The caller
//! publishes the objects, and then writes the index. After a failure it does neither.

use std::sync::Arc;

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    add::{self, AfterError, Allow, Conflict, LineEnds, Recorded, Recording, Staging},
    diff::Pair,
    pathspec::Pathspecs,
    sparse::Patterns,
    stat::{StatRules, index_stat},
    submodules,
};
use format::{
    ObjectId,
    hash::Hasher,
    index::{Flags, Index, MonitorAnswer, NewEntry, Stage as Of},
    loose::Kind,
};
use repo::{Repository, keys, submodule::Ignore};
use store::objects::ObjectTransaction;
use sys::{FileType, Stat};

use crate::{
    Error,
    advice::{self, is_inside},
    context::Context,
    events::Staged,
    notice::Notice,
    sparse_index::{self, ExpansionHint},
    text,
};

/// How paths are staged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Only report what would be done.
    pub dry_run: bool,
    /// Report each path that is staged or removed.
    pub verbose: bool,
    /// Record only that paths will be added.
    pub intent_to_add: bool,
    /// Leave out files with errors.
    pub ignore_errors: bool,
    /// Keep the entries of missing files.
    pub ignore_removal: bool,
    /// Normalize line endings by the attributes, and store every file anew.
    pub renormalize: bool,
    /// Include paths outside the sparse checkout.
    pub sparse: bool,
    /// Add submodules with `ignore = all`, if they are named.
    pub force: bool,
}

/// The completeness of a staging step: all files are in the index, or some failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// All files are in the index.
    All,
    /// Some files had errors, which were reported and are ignored.
    Some,
}

/// An index that receives worktree files.
pub struct Stage<'a> {
    context: Context<'a>,
    worktree: &'a sys::Dir,
    /// The index that receives the entries.
    pub staging: Staging,
    /// The new objects.
    pub objects: ObjectTransaction<'a>,
    /// The sparse index it was read from, as long as Git's would still be sparse.
    pub before: Option<Index>,
    /// The sparse patterns, if the worktree is sparse.
    pub patterns: Option<Arc<Patterns>>,
    rules: StatRules,
    /// The flags of new entries.
    flags: Flags,
    /// A `.gitattributes` file was staged.
    has_new_attributes: bool,
    options: Options,
}

/// A path could not be staged. The error was reported.
struct Refused;

impl<'a> Stage<'a> {
    /// Starts without changes to `index`. `before` is the sparse index that it was read from.
    pub fn new(
        context: Context<'a>,
        worktree: &'a sys::Dir,
        index: Index,
        before: Option<Index>,
        patterns: Option<Arc<Patterns>>,
        options: Options,
    ) -> Result<Self, Error> {
        let Context { repo, settings, .. } = context;
        let assume_unchanged = repo.config(&keys::core::IGNORE_STAT)?;
        Ok(Stage {
            context,
            worktree,
            staging: Staging::new(index, add::protect(repo)?),
            objects: ObjectTransaction::new(settings.objects(repo)),
            before,
            patterns,
            rules: StatRules::of(repo)?,
            flags: if assume_unchanged { Flags::ASSUME_VALID } else { Flags::empty() },
            has_new_attributes: false,
            options,
        })
    }

    /// Stages the differences between index and worktree: Git's `add_files_to_cache`.
    pub fn update(&mut self, changes: &[Pair], pathspecs: &Pathspecs) -> Result<Put, Error> {
        let mut kept = Vec::new();
        for pair in changes {
            let path = pair.path.as_bstr();
            let is_meant = self.options.sparse || is_inside(self.patterns.as_deref(), path);
            if is_meant && !self.is_left_alone(pair, pathspecs)? {
                kept.push(pair);
            }
        }
        let is_removed =
            |pair: &Pair| pair.new.is_none() && !(is_unmerged(pair) && self.options.ignore_removal);
        let files = kept.iter().filter(|pair| !is_removed(pair)).map(|pair| pair.path.clone());
        let files: Vec<BString> = files.collect();
        let removed: Vec<bool> = kept.iter().map(|pair| is_removed(pair)).collect();
        let mut recorded = self.record(&files)?.into_iter();
        let mut put = Put::All;
        for (pair, is_removed) in kept.iter().zip(removed) {
            let path = pair.path.as_bstr();
            if is_removed {
                self.remove(path)?;
            } else if self.take(path, recorded.next().flatten())?.is_err() {
                put = self.failed("updating files failed")?;
            }
        }
        Ok(put)
    }

    /// Stages files, which may be new. A path with a slash at the end is a repository. Calls
    /// `added` for each path that was put into the index.
    pub fn add(
        &mut self,
        paths: &[BString],
        mut added: impl FnMut(&BStr) -> Result<(), Error>,
    ) -> Result<Put, Error> {
        let mut put = Put::All;
        self.publish_attributes()?;
        for (path, recorded) in paths.iter().zip(self.record(paths)?) {
            match self.take(path.as_bstr(), recorded)? {
                Ok(()) => added(path.as_bstr())?,
                Err(Refused) => put = self.failed("adding files failed")?,
            }
        }
        Ok(put)
    }

    /// Like [`Stage::add`], for tracked files: errors are printed, and never end the command.
    pub fn renormalize(&mut self, paths: &[BString]) -> Result<Put, Error> {
        let mut put = Put::All;
        for (path, recorded) in paths.iter().zip(self.record(paths)?) {
            if self.take(path.as_bstr(), recorded)?.is_err() {
                put = Put::Some;
            }
        }
        Ok(put)
    }

    /// Publishes the objects so far if a `.gitattributes` file may have been staged. Attributes
    /// determine the conversion of later files, and Git reads them from the index if the entry is
    /// up to date. The check for racy files, when the index is written, reads them there too.
    pub(crate) fn publish_attributes(&mut self) -> Result<(), Error> {
        if self.has_new_attributes {
            let objects = ObjectTransaction::new(self.context.settings.objects(self.context.repo));
            std::mem::replace(&mut self.objects, objects).publish()?;
            self.has_new_attributes = false;
        }
        Ok(())
    }

    fn failed(&self, message: &str) -> Result<Put, Error> {
        if self.options.ignore_errors { Ok(Put::Some) } else { Err(Error::Failed(message.into())) }
    }

    /// Returns true for a submodule with `ignore = all`, which is added only if it is named, and
    /// only with `--force`.
    fn is_left_alone(&self, pair: &Pair, pathspecs: &Pathspecs) -> Result<bool, Error> {
        if !pair.new.is_some_and(|new| new.mode.is_gitlink()) {
            return Ok(false);
        }
        let path = pair.path.as_bstr();
        let modules = submodules::read_modules(self.context.repo, self.staging.base())?;
        if modules.at(path).and_then(|module| module.ignore) != Some(Ignore::All) {
            return Ok(false);
        }
        let mut names = pathspecs.patterns().map(|(pattern, _)| pattern);
        if !names.any(|name| name.trim_end_with(|letter| letter == '/') == path.as_bytes()) {
            return Ok(true);
        }
        if self.options.force {
            return Ok(false);
        }
        let message = text!(
            "Skipping submodule due to ignore=all: ",
            path,
            "\nUse --force if you really want to add the submodule."
        );
        advice::advise(self.context, keys::advice::ADD_IGNORED_FILE, message)?;
        Ok(true)
    }

    fn record(&mut self, paths: &[BString]) -> Result<Vec<Option<Recorded>>, Error> {
        let Context { repo, settings, .. } = self.context;
        if self.options.intent_to_add {
            return self.intended(paths);
        }
        let recording = Recording {
            repo,
            worktree: self.worktree,
            objects: (!self.options.dry_run).then_some(&self.objects),
            big_file_threshold: settings.big_file_threshold,
            line_ends: if self.options.renormalize { LineEnds::Renormalized } else { LineEnds::AsBefore },
            after_error: if self.options.ignore_errors || self.options.renormalize {
                AfterError::Continue
            } else {
                AfterError::Stop
            },
            interrupt: self.context.interrupt,
        };
        let recorded = recording.record(paths, self.staging.base())?;
        self.context.check_interrupt()?;
        Ok(recorded)
    }

    /// Records the empty blob for every path, until its content is added.
    fn intended(&self, paths: &[BString]) -> Result<Vec<Option<Recorded>>, Error> {
        let repo = self.context.repo;
        let empty = empty_blob(repo);
        if !paths.is_empty() && !repo.objects().freshen(&empty) {
            self.objects.write(&empty, Kind::Blob, b"")?;
        }
        let look = |path: &BString| {
            let path = path.strip_suffix(b"/").unwrap_or(path).as_bstr();
            let result = add::stat(self.worktree, path).map(|stat| (stat, empty));
            Some(Recorded { messages: Vec::new(), result })
        };
        Ok(paths.iter().map(look).collect())
    }

    /// Puts a recorded file into the index.
    fn take(&mut self, path: &BStr, recorded: Option<Recorded>) -> Result<Result<(), Refused>, Error> {
        // `None` occurs only after an error, which ends the command before it gets here.
        let Some(Recorded { messages, result }) = recorded else { return Ok(Err(Refused)) };
        for message in messages {
            self.context.events.notice(Notice::Converter(message.to_string()));
        }
        let entry = path.strip_suffix(b"/").unwrap_or(path).as_bstr();
        self.looks_for(entry)?;
        self.has_new_attributes |= entry.ends_with(b".gitattributes");
        match result {
            Ok((stat, oid)) => Ok(self.put(path, entry, &stat, oid)),
            Err(error) => self.refuse(path, error),
        }
    }

    fn put(&mut self, shown_path: &BStr, path: &BStr, stat: &Stat, oid: ObjectId) -> Result<(), Refused> {
        let is_file = stat.file_type == FileType::File;
        let old = self.staging.merged(path);
        let model = self.staging.model(path).map(|entry| entry.mode);
        let mode = self.rules.mode(model, stat);
        let new = if self.options.intent_to_add {
            Staging::entry(oid, mode.bits(), Of::Normal, Flags::INTENT_TO_ADD)
        } else {
            let mut flags = self.flags;
            flags.set(Flags::UPTODATE, is_file);
            let is_watched = self.staging.base().monitor_answer() != MonitorAnswer::NotAsked;
            flags.set(Flags::FSMONITOR_VALID, is_file && is_watched);
            NewEntry { stat: index_stat(stat), oid, mode, flags, stage: Of::Normal }
        };
        if self.options.intent_to_add && old.is_some() {
            self.staging.touch(path);
        } else if !self.options.dry_run {
            let allow = Allow { new: true, replacing: true };
            if let Err(conflict) = self.staging.add(path, new, allow) {
                if conflict == Conflict::InvalidPath {
                    self.report(text!("invalid path '", path, "'"));
                }
                self.report(text!("unable to add '", shown_path, "' to index"));
                return Err(Refused);
            }
        }
        let was_same = old.is_some_and(|old| (old.oid, old.mode) == (oid, mode)) && !self.options.renormalize;
        if (self.options.verbose || self.options.dry_run) && !was_same {
            self.context.events.staged(Staged::Added(shown_path));
        }
        Ok(())
    }

    fn remove(&mut self, path: &BStr) -> Result<(), Error> {
        if self.options.ignore_removal {
            return Ok(());
        }
        self.looks_for(path)?;
        if !self.options.dry_run {
            self.staging.remove(path);
        }
        if self.options.verbose || self.options.dry_run {
            self.context.events.staged(Staged::Removed(path));
        }
        Ok(())
    }

    /// Git expands a sparse index to find `path` in a collapsed directory.
    fn looks_for(&mut self, path: &BStr) -> Result<(), Error> {
        if sparse_index::is_collapsed(self.before.as_ref(), path) {
            self.before = None;
            sparse_index::report_expansion(self.context, self.staging.base(), ExpansionHint::Print)?;
        }
        Ok(())
    }

    fn report(&self, text: impl Into<BString>) {
        self.context.events.notice(Notice::NotStaged(text.into()));
    }

    /// Reports the error of a file.
    fn refuse(&self, path: &BStr, error: add::Error) -> Result<Result<(), Refused>, Error> {
        match error {
            add::Error::Convert(error) => return Err(error.into()),
            add::Error::Stat { source, .. } => {
                return Err(Error::Failed(text!("unable to stat '", path, "': ", sys::reason(&source))));
            }
            add::Error::Type { .. } => {
                let kinds = ": can only add regular files, symbolic links or git-directories";
                self.report(text!(path, kinds));
                return Ok(Err(Refused));
            }
            add::Error::NoCommit { .. } => {
                self.report(text!("'", path, "' does not have a commit checked out"))
            }
            add::Error::Store { .. } | add::Error::Read { .. } | add::Error::Short { .. } => {
                self.report(error.to_string());
                self.report(text!(path, ": failed to insert into database"));
            }
            error => self.report(error.to_string()),
        }
        self.report(text!("unable to index file '", path, "'"));
        Ok(Err(Refused))
    }
}

fn is_unmerged(pair: &Pair) -> bool {
    pair.status == engine::diff::Status::Unmerged
}

fn empty_blob(repo: &Repository) -> ObjectId {
    Hasher::object(repo.hash(), "blob", 0).finish().expect("nothing collides with it")
}
