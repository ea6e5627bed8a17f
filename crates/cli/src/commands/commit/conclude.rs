//! Making the commit: its parents and headers, the object, HEAD, and the end of the operation that
//! it concludes.

use bstr::{BString, ByteSlice as _};
use engine::{add::Missing, switch};
use format::{ObjectId, loose::Kind};
use repo::{CommitHeader, Person};
use store::objects::Transaction;

use super::{
    Run,
    cleanup::{self, Cleanup},
    index::{Prepared, git_path},
    message,
    plan::Whence,
};
use crate::{
    session::{
        maintenance::{self, MaintenanceOutput},
        new_commit::{self, NewCommit},
        real_git,
    },
    term::{
        console::{self, text},
        failure::Failure,
        text::os_error,
    },
};

/// The parents of the commit, and the headers derived from them.
struct Ancestry {
    parents: Vec<ObjectId>,
    extra: Vec<CommitHeader>,
}

const STALE: &str = "\
repository has been updated, but unable to write
new index file. Check that disk is not full and quota is
not exceeded, and then \"git restore --staged :/\" to recover.";

impl Run<'_> {
    /// Writes the trees of the index, which must be complete now. Returns false if that fails; the
    /// error was printed.
    pub(super) fn make_trees(&self, prepared: &mut Prepared<'_>) -> Result<bool, Failure> {
        if prepared.trees.is_some() {
            return Ok(true);
        }
        let repo = self.session.repository;
        let objects = Transaction::new(self.session.settings.objects(repo));
        match engine::add::write_tree(&mut prepared.index, repo, &objects, Missing::Refused) {
            Ok(trees) => prepared.trees = Some(trees),
            Err(error) => {
                new_commit::report_tree_error(&error);
                console::error("Error building trees");
                return Ok(false);
            }
        }
        if let Err(error) = objects.publish() {
            prepared.trees = None;
            console::error(error.to_string());
            console::error("Error building trees");
            return Ok(false);
        }
        Ok(true)
    }

    /// Reads the final message. The failure explains why it is missing.
    pub(super) fn read_message(&self) -> Result<BString, Failure> {
        let plan = self.plan;
        let comment = self.comment.as_bstr();
        let read = sys::by_path::read(&self.session.repository.git_dir().join("COMMIT_EDITMSG"));
        let reason = match read {
            Ok(Some(text)) => {
                let text = cleanup::clean(&text, plan.cleanup, plan.verbose > 0, comment);
                self.check_message(&text, plan.cleanup)?;
                return Ok(text);
            }
            Ok(None) => "No such file or directory".to_owned(),
            Err(error) => os_error(&error),
        };
        Err(Failure::fatal(format!("could not read commit message: {reason}")))
    }

    fn check_message(&self, text: &[u8], mode: Cleanup) -> Result<(), Failure> {
        let plan = self.plan;
        if plan.request.allow_empty_message {
            return Ok(());
        }
        let refused = |why: &str| {
            console::eprint_line(why);
            Err(Failure::Reported(1))
        };
        if cleanup::is_empty(text, mode) {
            return refused("Aborting commit due to empty commit message.");
        }
        let template = plan.template.as_ref().and_then(|file| message::template(self.session, file).ok());
        let is_untouched = template
            .is_some_and(|template| cleanup::is_untouched(text, &template, mode, self.comment.as_bstr()));
        if is_untouched {
            return refused("Aborting commit; you did not edit the message.");
        }
        if plan.fixup.is_some() && text.starts_with(b"amend! ") {
            let body = &text[message::subject_length(text)..];
            if cleanup::is_empty(body, mode) {
                return refused("Aborting commit due to empty commit message body.");
            }
        }
        Ok(())
    }

    /// Creates the commit and moves HEAD. Returns the commit's name.
    pub(super) fn conclude(
        &self,
        prepared: Prepared<'_>,
        message: &BString,
        author: &Person,
        committer: &Person,
    ) -> Result<ObjectId, Failure> {
        let repo = self.session.repository;
        let settings = self.session.settings;
        let (action, ancestry) = self.ancestry()?;
        let tree = prepared.trees.as_ref().expect("they were made before the message was edited").root;
        self.must_exist(tree)?;
        let commit = NewCommit {
            tree,
            parents: ancestry.parents,
            author: author.line(),
            committer: committer.line(),
            extra: ancestry.extra,
            message: message.as_bstr(),
            key: self.plan.key.as_ref().map(|key| key.as_bstr()),
        };
        let refs = settings.refs(repo)?;
        let objects = Transaction::new(settings.objects(repo));
        let written = commit.write(self.session, &objects);
        let oid = written.map_err(|failure| match failure {
            Failure::Reported(_) => Failure::fatal("failed to write commit object"),
            other => other,
        })?;
        self.session.invocation.interrupt.check()?;
        objects.publish()?;
        let action = self.session.invocation.variable("GIT_REFLOG_ACTION").unwrap_or(action.as_bytes());
        let subject = message.lines().next().unwrap_or_default();
        let log = text!(action, ": ", subject);
        switch::advance_head(repo, &refs, self.plan.head_id(), oid, log.as_bstr())?;
        if let Err(error) = switch::state::conclude(repo, &refs) {
            console::error(error.to_string());
        }
        // Git hides the cause.
        prepared.publish().map_err(|error| {
            console::error(error.to_string());
            Failure::fatal(STALE)
        })?;
        self.rerere()?;
        let output =
            if self.plan.request.quiet { MaintenanceOutput::Quiet } else { MaintenanceOutput::Progress };
        maintenance::start_auto(self.session.invocation, repo, output)?;
        Ok(oid)
    }

    /// Returns an error if the tree was pruned while the message was edited: no ref leads to it
    /// yet.
    fn must_exist(&self, tree: ObjectId) -> Result<(), Failure> {
        let repo = self.session.repository;
        match repo.objects().header(&tree) {
            Err(error) if error.is_unreadable() => Err(error.into()),
            Err(_) if tree != ObjectId::empty_tree(repo.hash()) => {
                Err(Failure::fatal(format!("{tree} is not a valid object")))
            }
            _ => Ok(()),
        }
    }

    /// Returns the word for the reflog, the parents, and the headers to keep.
    fn ancestry(&self) -> Result<(&'static str, Ancestry), Failure> {
        let plan = self.plan;
        let Some(head) = &plan.head else {
            return Ok(("commit (initial)", Ancestry { parents: Vec::new(), extra: Vec::new() }));
        };
        if plan.request.amend {
            const OWN: [&str; 7] =
                ["tree", "parent", "author", "committer", "encoding", "gpgsig", "gpgsig-sha256"];
            let extra = head.headers.iter().filter(|header| !OWN.iter().any(|own| header.key == *own));
            let ancestry = Ancestry { parents: head.parents.clone(), extra: extra.cloned().collect() };
            return Ok(("commit (amend)", ancestry));
        }
        if plan.whence == Whence::Merge {
            return Ok(("commit (merge)", self.merged(head.id)?));
        }
        let action = match plan.whence {
            Whence::CherryPick => "commit (cherry-pick)",
            Whence::RebasePick => "commit (rebase)",
            Whence::Commit | Whence::Merge => "commit",
        };
        Ok((action, Ancestry { parents: vec![head.id], extra: Vec::new() }))
    }

    /// Returns HEAD and the merged commits, without those that are ancestors of others. A signed
    /// tag is kept as a header.
    fn merged(&self, head: ObjectId) -> Result<Ancestry, Failure> {
        let repo = self.session.repository;
        let read = sys::by_path::read(&repo.git_dir().join("MERGE_HEAD"));
        let shown = git_path(self.session, "MERGE_HEAD");
        let reason = match read {
            Ok(Some(list)) => return self.merged_from(head, &list),
            Ok(None) => "No such file or directory".to_owned(),
            Err(error) => os_error(&error),
        };
        Err(Failure::fatal(format!("could not open '{}' for reading: {reason}", shown.display())))
    }

    fn merged_from(&self, head: ObjectId, list: &[u8]) -> Result<Ancestry, Failure> {
        let repo = self.session.repository;
        let mut merged: Vec<(ObjectId, Option<ObjectId>)> = vec![(head, None)];
        for line in list.lines() {
            let corrupt = || Failure::Fatal(text!("Corrupt MERGE_HEAD file (", line, ")"));
            let named = repo.resolve(line.as_bstr())?.ok_or_else(corrupt)?;
            let commit = repo.commit_if_there(named)?.ok_or_else(corrupt)?;
            merged.push((commit, (named != commit).then_some(named)));
        }
        let mode = sys::by_path::read(&repo.git_dir().join("MERGE_MODE")).ok().flatten();
        if mode.as_deref() != Some(b"no-ff") {
            merged = self.reduced(merged)?;
        }
        let mut ancestry = Ancestry { parents: Vec::new(), extra: Vec::new() };
        for (commit, tag) in merged {
            ancestry.parents.push(commit);
            let Some(tag) = tag else { continue };
            let mut reader = repo.objects().reader();
            if let (Kind::Tag, content) = reader.read(&tag)?
                && is_signed(content)
            {
                ancestry.extra.push(CommitHeader { key: "mergetag".into(), value: content.into() });
            }
        }
        Ok(ancestry)
    }

    /// Leaves out commits that are ancestors of others, and all but the first of equal ones.
    fn reduced(
        &self,
        merged: Vec<(ObjectId, Option<ObjectId>)>,
    ) -> Result<Vec<(ObjectId, Option<ObjectId>)>, Failure> {
        let repo = self.session.repository;
        let mut unique: Vec<(ObjectId, Option<ObjectId>)> = Vec::new();
        for one in merged {
            if !unique.iter().any(|(commit, _)| *commit == one.0) {
                unique.push(one);
            }
        }
        let mut kept = Vec::new();
        for one in &unique {
            let mut is_contained = false;
            for (other, _) in unique.iter().filter(|(other, _)| *other != one.0) {
                is_contained |= repo.merge_bases(one.0, *other)?.contains(&one.0);
            }
            if !is_contained {
                kept.push(*one);
            }
        }
        Ok(kept)
    }

    /// Records the conflict resolutions, if `rerere` is enabled.
    fn rerere(&self) -> Result<(), Failure> {
        let repo = self.session.repository;
        let is_wanted = match repo.config_bool("rerere.enabled")? {
            Some(is_wanted) => is_wanted,
            None => matches!(sys::by_path::stat(&repo.common_dir().join("rr-cache")), Ok(Some(_))),
        };
        if !is_wanted {
            return Ok(());
        }
        let Some(mut git) = real_git::command(self.session.invocation) else { return Ok(()) };
        console::flush();
        git.envs(repo.child_env()).current_dir(repo.child_dir()).arg("rerere");
        if let Err(error) = git.stdin(std::process::Stdio::null()).status() {
            console::error(format!("cannot run git rerere: {}", os_error(&error)));
        }
        Ok(())
    }
}

/// Returns true if a tag has a signature in a format that Git supports.
fn is_signed(tag: &[u8]) -> bool {
    const BEGINNINGS: [&str; 4] = [
        "-----BEGIN PGP SIGNATURE-----",
        "-----BEGIN PGP MESSAGE-----",
        "-----BEGIN SIGNED MESSAGE-----",
        "-----BEGIN SSH SIGNATURE-----",
    ];
    tag.lines().any(|line| BEGINNINGS.iter().any(|beginning| line.starts_with(beginning.as_bytes())))
}
