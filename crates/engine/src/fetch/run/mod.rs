//! A fetch from one remote.

mod remote_head;

use std::{collections::HashMap, ops::ControlFlow};

use bstr::{BString, ByteSlice};
use format::ObjectId;
use repo::{
    Repository,
    wire::{Advertisement, Client},
};
use store::refs::{Edit, Failures, Follow, RefTransaction, Rejection};

use super::{
    Context, Error, Event, FailedTransaction, FetchHeadPolicy, Options, Report,
    fetch_head::{self, FetchHead},
    map::{self, Force, LocalRefs, Mapped, Mapping, Merge, Message, RefSelection, Tags},
    refspec::{Refspec, for_prefetch},
    remote::{FollowHead, Remote, TagOption, Upstream},
    transfer::{Depth, Transfer, shown_url},
    update::{self, CheckedOut, FAILED, Flag, Policy, Update},
};

/// Fetches from a remote.
pub fn run(context: Context<'_>, remote: &Remote, options: &Options) -> Result<Report, Error> {
    let mut remote = remote.clone();
    let mut options = options.clone();
    if options.prefetch {
        remote.refspecs = for_prefetch(std::mem::take(&mut remote.refspecs));
        options.refspecs = for_prefetch(std::mem::take(&mut options.refspecs));
    }
    options.tags = match (options.tags, remote.tags) {
        (Some(tags), _) => Some(tags),
        (None, TagOption::All) => Some(Tags::All),
        (None, TagOption::None) => Some(Tags::None),
        (None, TagOption::Follow) => None,
    };
    remote.complete(&mut options.connect);
    let url = Client::of(context.repo).url(remote.url());
    let report = Report { url: shown_url(&url), ..Report::default() };
    let transfer = Transfer::new(context, &options, url);
    let upstream = Upstream::load(context.repo)?;
    Fetch {
        context,
        remote: &remote,
        options: &options,
        upstream,
        transfer,
        report,
        local: LocalRefs::default(),
        head_lines: Vec::new(),
        edits: Vec::new(),
    }
    .run()
}

/// A fetch in progress.
struct Fetch<'a> {
    context: Context<'a>,
    remote: &'a Remote,
    options: &'a Options,
    upstream: Option<Upstream>,
    transfer: Transfer<'a>,
    report: Report,
    local: LocalRefs,
    /// The lines for FETCH_HEAD.
    head_lines: Vec<u8>,
    /// The ref edits, each with the index of its update in the report.
    edits: Vec<(Edit, Option<usize>)>,
}

impl<'a> Fetch<'a> {
    fn run(mut self) -> Result<Report, Error> {
        let Context { repo, .. } = self.context;
        let fetch_head = FetchHead::of(repo, self.context.locks.shared);
        if self.writes_fetch_head() && self.options.fetch_head == FetchHeadPolicy::Replace {
            fetch_head.truncate()?;
        }
        let theirs = self.list_refs()?;
        self.read_local_refs()?;
        let mut mapped = self.map(&theirs)?;
        if self.find_dangling(&mapped)? {
            mapped = self.map(&theirs)?;
        }
        let Mapped { mut refs, follows_tags, messages } = mapped;
        self.report_messages(&messages);
        if !self.options.update_head_ok {
            self.refuse_checked_out(&refs)?;
        }
        (self.context.events)(Event::Mapped(&refs));
        if self.options.prune {
            self.prune(&refs)?;
        }
        let url = self.report.url.clone();
        let depth = if follows_tags { Depth::FollowingTags } else { Depth::AsAsked };
        let done = self.transfer.take(repo, &mut refs, depth, &url)?;
        self.report.has_new_objects |= done.has_new_objects;
        // Reopened, because the objects that have just arrived determine which tags are followed.
        let fresh = match done.reopened {
            None if follows_tags && done.has_new_objects => Some(repo.open_again()?),
            reopened => reopened,
        };
        self.update(fresh.as_ref().unwrap_or(repo), &refs)?;
        // Like Git, follow no tags after a rejected ref.
        let is_rejected = self.report.updates.iter().any(|update| update.flag == Flag::Rejected);
        if follows_tags && !is_rejected {
            self.follow_tags(&theirs, fresh.as_ref().unwrap_or(repo))?;
        }
        self.report.failed_early = self.report.has_failures;
        if self.commit()? {
            if self.writes_fetch_head() {
                fetch_head.append(&self.head_lines)?;
            }
            if self.follows_head() && !self.report.failed_early {
                self.set_remote_head(&theirs)?;
            }
        }
        self.transfer.release();
        self.report.mapped = refs;
        Ok(self.report)
    }

    fn writes_fetch_head(&self) -> bool {
        self.options.fetch_head != FetchHeadPolicy::Leave && !self.options.dry_run
    }

    /// Returns true if this fetch records the remote's HEAD.
    fn follows_head(&self) -> bool {
        self.options.refspecs.is_empty()
            && !self.remote.refspecs.is_empty()
            && self.remote.follow_head != FollowHead::Never
            && self.remote.is_configured
    }

    /// Returns the upstream of the current branch, if it belongs to this remote.
    fn merges(&self) -> Option<&Upstream> {
        self.upstream.as_ref().filter(|upstream| upstream.remote == self.remote.name)
    }

    fn list_refs(&mut self) -> Result<Advertisement, Error> {
        let options = self.options;
        let mut prefixes = Vec::new();
        if options.refspecs.is_empty() {
            self.remote.refspecs.iter().for_each(|refspec| refspec.add_prefixes(&mut prefixes));
            prefixes.extend(self.merges().into_iter().flat_map(|upstream| upstream.merge.iter().cloned()));
            if prefixes.is_empty() {
                prefixes.push("HEAD".into());
            }
        } else {
            options.refspecs.iter().for_each(|refspec| refspec.add_prefixes(&mut prefixes));
        }
        if options.tags != Some(Tags::None) {
            prefixes.push("refs/tags/".into());
        }
        if self.follows_head() {
            prefixes.push("HEAD".into());
        }
        self.transfer.list_refs(&prefixes)
    }

    fn read_local_refs(&mut self) -> Result<(), Error> {
        let local = &mut self.local;
        let mut values = Vec::new();
        let scope = repo::ListScope::Below("refs/".into());
        let _flow = self.context.repo.each_ref(scope, None, |listed| {
            values.push((listed.name.to_owned(), listed.id));
            if listed.target.is_some() {
                local.symbolic.insert(listed.name.to_owned());
            }
            Ok::<_, Error>(ControlFlow::Continue(()))
        })?;
        if self.context.repo.head().is_ok_and(|head| head.branch().is_some()) {
            local.symbolic.insert("HEAD".into());
        }
        // The refs are sorted, so the map is built without searches.
        local.values = values.into_iter().collect();
        Ok(())
    }

    /// Finds dangling symbolic refs among the new local refs, and adds them to the local refs.
    /// Returns true if it finds any.
    fn find_dangling(&mut self, mapped: &Mapped) -> Result<bool, Error> {
        let before = self.local.symbolic.len();
        let new = mapped.refs.iter().filter_map(|mapping| mapping.local.as_ref());
        for ours in new.filter(|ours| ours.old.is_none()) {
            if self.context.repo.symbolic_target(ours.name.as_bstr())?.is_some() {
                self.local.symbolic.insert(ours.name.clone());
            }
        }
        Ok(self.local.symbolic.len() > before)
    }

    fn map(&self, theirs: &Advertisement) -> Result<Mapped, Error> {
        let objects = self.context.repo.objects();
        let selection = RefSelection {
            remote: self.remote,
            refspecs: &self.options.refspecs,
            refmap: self.options.refmap.as_deref(),
            upstream: self.upstream.as_ref(),
            tags: self.options.tags.unwrap_or(Tags::Follow),
            prefetch: self.options.prefetch,
        };
        Ok(map::map(&theirs.refs, &selection, &self.local, &mut |oid| objects.contains_listed(oid))?)
    }

    fn report_messages(&self, messages: &[Message]) {
        for message in messages {
            match message {
                Message::Funny(name) => {
                    let text = format!("* Ignoring funny ref '{name}' locally");
                    (self.context.events)(Event::Error(text.as_str().into()));
                }
                Message::UsuallyTracks { local, usual, now } => {
                    let text = format!("{local} usually tracks {usual}, not {now}");
                    (self.context.events)(Event::Warning(text.as_str().into()));
                }
            }
        }
    }

    /// Returns an error if the fetch would update a branch that is checked out in a worktree.
    fn refuse_checked_out(&self, refs: &[Mapping]) -> Result<(), Error> {
        for ours in refs.iter().filter_map(|mapping| mapping.local.as_ref()) {
            if ours.name.starts_with(b"refs/heads/")
                && let Some(worktree) = self.context.repo.worktree_using(ours.name.as_bstr(), false)?
            {
                return Err(Error::CheckedOut { branch: ours.name.clone(), worktree });
            }
        }
        Ok(())
    }

    fn prune(&mut self, refs: &[Mapping]) -> Result<(), Error> {
        let options = self.options;
        let refspecs: &[Refspec] =
            if options.refspecs.is_empty() { &self.remote.refspecs } else { &options.refspecs };
        let stale = map::stale(refspecs, refs, &self.local);
        if stale.is_empty() {
            return Ok(());
        }
        let null = ObjectId::null(self.context.repo.hash());
        let edits = stale.iter().map(|(name, _)| Edit {
            follow: Follow::No,
            ..Edit::set(name.as_bstr(), null, "fetch: prune".into())
        });
        if !options.dry_run {
            if options.atomic {
                self.edits.extend(edits.map(|edit| (edit, None)));
            } else {
                let mut transaction = self.transaction(Failures::EndAll);
                for edit in edits {
                    transaction.add(edit)?;
                }
                if let Err(error) = vetoed(transaction.commit())? {
                    (self.context.events)(Event::Error(error.to_string().as_str().into()));
                    self.report.has_failures = true;
                }
            }
        }
        let line = |(name, old): &(BString, ObjectId)| Update {
            flag: Flag::Pruned,
            summary: "[deleted]".into(),
            reason: None,
            theirs: "(none)".into(),
            ours: name.clone(),
            old: *old,
            new: null,
        };
        (self.context.events)(Event::Pruned(&stale.iter().map(line).collect::<Vec<_>>()));
        self.local.values.retain(|name, _| !stale.iter().any(|(gone, _)| gone == name));
        self.report_dangling(&stale)?;
        Ok(())
    }

    /// Reports symbolic refs whose target was removed.
    fn report_dangling(&self, stale: &[(BString, ObjectId)]) -> Result<(), Error> {
        let mut dangling = Vec::new();
        for name in &self.local.symbolic {
            if let Some(target) = self.context.repo.symbolic_target(name.as_bstr())?
                && stale.iter().any(|(gone, _)| *gone == target)
            {
                dangling.push((name.clone(), target));
            }
        }
        dangling.sort();
        if !dangling.is_empty() {
            (self.context.events)(Event::Dangling(&dangling));
        }
        Ok(())
    }

    fn transaction(&self, failures: Failures) -> RefTransaction<'a> {
        let mut transaction = RefTransaction::new(self.context.refs, failures);
        if let Some(hook) = self.context.hook {
            transaction.observed_by(Box::new(hook));
        }
        transaction
    }

    fn warn_of_unchecked(&self) {
        if self.options.skips_forced_check && self.options.advises_forced_check {
            (self.context.events)(Event::Warning(UNCHECKED.into()));
        }
    }

    /// Decides the update of each ref, and collects lines and edits.
    fn update(&mut self, repo: &Repository, refs: &[Mapping]) -> Result<(), Error> {
        let options = self.options;
        let policy = Policy {
            force: if options.force { Force::Yes } else { Force::No },
            may_update_head: options.update_head_ok,
            checks_forced: !options.skips_forced_check,
            dry_run: options.dry_run,
            action: options.action.clone(),
        };
        let mut checked_out = CheckedOut::default();
        let null = ObjectId::null(repo.hash());
        for mapping in refs.iter().filter(|mapping| mapping.rejected_shallow) {
            let name = mapping.local.as_ref().map_or(&mapping.name, |local| &local.name);
            let text = format!("rejected {name} because shallow roots are not allowed to be updated");
            (self.context.events)(Event::Warning(text.as_str().into()));
        }
        // Only commits can be merged.
        let merge = |mapping: &Mapping| match mapping.merge {
            Merge::Merged if repo.commit_if_there(mapping.oid)?.is_none() => Ok(Merge::NotMerged),
            merge => Ok::<_, Error>(merge),
        };
        let accepted = refs.iter().filter(|mapping| !mapping.rejected_shallow);
        let accepted: Vec<(&Mapping, Merge)> =
            accepted.map(|mapping| Ok((mapping, merge(mapping)?))).collect::<Result<_, Error>>()?;
        for wanted in [Merge::Merged, Merge::NotMerged, Merge::Ignored] {
            for (mapping, _) in accepted.iter().filter(|(_, merge)| *merge == wanted) {
                let changed =
                    (mapping.merge != wanted).then(|| Mapping { merge: wanted, ..(*mapping).clone() });
                let mapping = changed.as_ref().unwrap_or(mapping);
                let line = fetch_head::line(mapping, self.report.url.as_bstr());
                self.head_lines.extend_from_slice(&line);
                let Some(local) = &mapping.local else {
                    if self.options.fetch_head != FetchHeadPolicy::Leave {
                        let (kind, _) = fetch_head::describe(mapping.name.as_bstr());
                        self.report.updates.push(Update {
                            flag: Flag::New,
                            summary: if kind.is_empty() { "branch" } else { kind }.into(),
                            reason: None,
                            theirs: mapping.name.clone(),
                            ours: "FETCH_HEAD".into(),
                            old: null,
                            new: mapping.oid,
                        });
                    }
                    continue;
                };
                if !repo.objects().contains(&mapping.oid) {
                    return Err(Error::NoObject(mapping.oid));
                }
                let decision = update::decide(repo, mapping, local, &policy, &mut checked_out)?;
                self.report.has_failures |= decision.update.flag == Flag::Rejected;
                self.report.updates.push(decision.update);
                if let Some(error) = decision.error {
                    (self.context.events)(Event::Error(error.as_str().into()));
                }
                if let Some(edit) = decision.edit.filter(|_| !options.dry_run) {
                    self.edits.push((edit, Some(self.report.updates.len() - 1)));
                }
            }
        }
        self.warn_of_unchecked();
        Ok(())
    }

    /// Fetches the tags that point to objects which have just arrived.
    fn follow_tags(&mut self, theirs: &Advertisement, repo: &Repository) -> Result<(), Error> {
        let mut local = self.local.clone();
        let names = self.edits.iter().map(|(edit, _)| edit.name.clone());
        local.values.extend(names.map(|name| (name, ObjectId::null(repo.hash()))));
        let objects = repo.objects();
        let mut tags = map::missing_tags(&theirs.refs, &[], &local, &mut |oid| objects.contains_listed(oid));
        if tags.is_empty() {
            return Ok(());
        }
        let url = self.report.url.clone();
        let done = self.transfer.take(repo, &mut tags, Depth::Tags, &url)?;
        self.report.has_new_objects |= done.has_new_objects;
        self.update(done.reopened.as_ref().unwrap_or(repo), &tags)
    }

    /// Commits the edits. With `--atomic`, either all edits are made or none. Otherwise a failed
    /// edit is skipped. Returns false if no edit was made although there were some.
    fn commit(&mut self) -> Result<bool, Error> {
        let edits = std::mem::take(&mut self.edits);
        let failures = if self.options.atomic { Failures::EndAll } else { Failures::RejectOne };
        if self.options.atomic && self.report.has_failures {
            return Ok(false);
        }
        if edits.is_empty() {
            return Ok(true);
        }
        let mut transaction = self.transaction(failures);
        let mut numbers = HashMap::new();
        for (edit, number) in edits {
            numbers.insert(edit.name.clone(), number);
            transaction.add(edit)?;
        }
        match vetoed(transaction.commit())? {
            Ok(rejected) => {
                let mut advised = false;
                for one in rejected {
                    self.report.has_failures = true;
                    if let Some(Some(number)) = numbers.get(&one.name) {
                        let update = &mut self.report.updates[*number];
                        (update.flag, update.reason) = (Flag::Rejected, Some(FAILED));
                    }
                    let is_conflict = one.kind == Rejection::NameConflict;
                    let text = match is_conflict {
                        true if advised => continue,
                        true => conflict_advice(&self.remote.name),
                        false => one.message,
                    };
                    advised |= is_conflict;
                    (self.context.events)(Event::Error(text.as_str().into()));
                }
            }
            Err(error) => {
                let code = if is_conflict(&error) { CONFLICT } else { OTHER };
                self.report.failed_transaction = Some(FailedTransaction { message: error.to_string(), code });
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The warning if forced updates are not checked for lost commits.
const UNCHECKED: &str = "fetch normally indicates which branches had a forced update,\n\
    but that check has been disabled; to re-enable, use '--show-forced-updates'\n\
    flag or run 'git config fetch.showForcedUpdates true'";

/// Exit codes of a failed transaction. Git uses the negative numbers of its two error kinds.
const CONFLICT: u8 = 254;
const OTHER: u8 = 253;

/// Ends the fetch if the hook vetoed the transaction. Git dies at once, without a table.
fn vetoed<T>(done: Result<T, store::refs::Error>) -> Result<Result<T, store::refs::Error>, Error> {
    match done {
        Err(error @ store::refs::Error::Vetoed { .. }) => Err(error.into()),
        done => Ok(done),
    }
}

fn is_conflict(error: &store::refs::Error) -> bool {
    error.rejection() == Some(Rejection::NameConflict)
}

fn conflict_advice(remote: &BString) -> String {
    format!(
        "some local refs could not be updated; try running\n 'git remote prune {remote}' to remove any \
         old, conflicting branches"
    )
}
