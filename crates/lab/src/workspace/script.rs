//! The work of one run: one contender on a fresh file system, from its first base to its last
//! worktree.

use std::{fs, path::PathBuf};

use super::{
    PRODUCTS,
    contender::{Backend, Contender, Order, Place},
    space::{self, Group},
    tree::{CHANGED, NEW, OLD, Tree},
};
use crate::{
    Error, measure,
    measure::Invocation,
    record::Sample,
    results::Results,
    weather::block::{drop_caches, reads},
};

/// A part of the work. Bases and worktrees are always created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Step {
    /// Bases of a commit 100 files away and of the old commit.
    Bases,
    /// Status of an unchanged worktree.
    Status,
    /// `grep -r`: cold, warm, and in a second worktree.
    Grep,
    /// 10 and 10,000 edits, and the status after them.
    Edit,
    /// Switch to other commits.
    Switch,
    /// `workspace rebase` to other commits.
    Rebase,
    /// 20,000 ignored files, and the status after them.
    Build,
    /// Removal.
    Remove,
    /// Fifty worktrees.
    Many,
    /// Worktrees of another user, or of root with another umask, on the same base.
    Share,
}

impl Step {
    pub(super) const ALL: [Step; 10] = [
        Step::Bases,
        Step::Status,
        Step::Grep,
        Step::Edit,
        Step::Switch,
        Step::Rebase,
        Step::Build,
        Step::Remove,
        Step::Many,
        Step::Share,
    ];
}

/// The number of worktrees in the last step.
const MANY: usize = 50;
/// The names of cheap worktrees; the last three are not changed before their removal.
const CHEAP: [&str; 9] =
    ["git", "ours", "switch-git", "switch-ours", "rebase", "build", "gone-1", "gone-2", "gone-3"];
/// The numbers of edits.
const EDITS: [usize; 2] = [10, 10_000];
/// The name under which all file systems are recorded, so that their figures are in one row.
pub(super) const DISK: &str = "local";

pub(super) struct Script<'a> {
    pub(super) place: Place<'a>,
    pub(super) tree: &'a Tree,
    pub(super) steps: &'a [Step],
    /// The number of runs of each status.
    pub(super) repeats: usize,
    pub(super) results: &'a mut Results,
    /// The path of this program.
    pub(super) me: PathBuf,
    /// The number of files edited so far.
    edited: usize,
}

/// The program that is measured in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Git,
    Ours,
}

impl<'a> Script<'a> {
    pub(super) fn new(
        place: Place<'a>,
        tree: &'a Tree,
        (steps, repeats): (&'a [Step], usize),
        results: &'a mut Results,
    ) -> Result<Self, Error> {
        let me = std::env::current_exe().map_err(|error| Error::Setup(error.to_string()))?;
        Ok(Script { place, tree, steps, repeats, results, me, edited: 0 })
    }

    pub(super) fn run(&mut self) -> Result<(), Error> {
        self.bases()?;
        for name in self.names() {
            self.take("create", self.place.create(name))?;
        }
        let does = |step| self.steps.contains(&step);
        let (status, grep, edit, switch) =
            (does(Step::Status), does(Step::Grep), does(Step::Edit), does(Step::Switch));
        let (rebase, build) = (does(Step::Rebase), does(Step::Build));
        let (remove, many) = (does(Step::Remove), does(Step::Many));
        if status {
            self.status(Program::Git, "git", "first")?;
            self.status(Program::Ours, self.second(), "first")?;
            self.statuses("0", 0)?;
        }
        if grep {
            self.greps()?;
        }
        if edit {
            for count in EDITS.into_iter().filter(|count| count * 2 <= self.tree.fact.files) {
                self.edits(count)?;
            }
        }
        if switch {
            self.switches()?;
        }
        if rebase {
            self.rebases()?;
        }
        if build {
            self.build()?;
        }
        if remove {
            self.removals()?;
        }
        if many && self.place.contender.is_cheap() {
            self.many()?;
        }
        if does(Step::Share) {
            self.share()?;
        }
        Ok(())
    }

    /// Returns the names of the worktrees.
    fn names(&self) -> &'static [&'static str] {
        match (self.place.contender.is_cheap(), self.tree.is_huge()) {
            (true, _) => &CHEAP,
            (false, false) if !self.steps.is_empty() => &CHEAP[..2],
            (false, _) => &CHEAP[..1],
        }
    }

    /// Returns the worktree for sapwood's commands: the second one, if there is one.
    fn second(&self) -> &'static str {
        self.names().get(1).copied().unwrap_or("git")
    }

    /// Returns the worktree for a purpose, or `instead` if it does not exist.
    fn one_for(&self, name: &'static str, instead: &'static str) -> &'static str {
        if self.names().contains(&name) { name } else { instead }
    }

    /// Runs and measures a command, and adds the sample to the results.
    fn take(&mut self, case: &str, invocation: Invocation) -> Result<Sample, Error> {
        let tool = self.place.contender.tool();
        self.take_for(case, &tool, invocation)
    }

    fn take_for(&mut self, case: &str, tool: &str, invocation: Invocation) -> Result<Sample, Error> {
        let before = space::used(self.place.volume.path())?;
        let usage = measure::run(&invocation)?;
        let after = space::used(self.place.volume.path())?;
        let sample = Sample { disk: Some(after - before), ..Sample::from(usage) };
        self.add(case, tool, sample.clone());
        Ok(sample)
    }

    fn add(&mut self, case: &str, tool: &str, sample: Sample) {
        let Sample { wall, user, sys, disk, cached, .. } = sample;
        let cpu = user + sys;
        eprintln!("lab:   {tool} {case} {wall:.4} s, CPU {cpu:.4} s, disk {disk:?}, cached {cached:?} KiB");
        self.results.add(case, DISK, tool, sample);
    }

    fn bases(&mut self) -> Result<(), Error> {
        for (case, commit) in [("base-first", NEW), ("base-100", CHANGED), ("base-old", OLD)] {
            let is_asked = commit == NEW || self.steps.contains(&Step::Bases);
            if let Some(invocation) = self.place.base(commit).filter(|_| is_asked) {
                self.take(case, invocation)?;
            }
        }
        Ok(())
    }

    /// Measures one status. Sapwood in a plain worktree is recorded as `plain`, because it is not a
    /// peer.
    fn status(&mut self, by: Program, name: &str, what: &str) -> Result<(), Error> {
        let at = &self.place.repo;
        let (case, tool, invocation) = match by {
            Program::Git => {
                let invocation = self.place.git(&["status", "--porcelain"], at);
                (format!("git-status-{what}"), self.place.contender.tool(), invocation)
            }
            Program::Ours => {
                let invocation = self.place.sapwood(&["status", "--porcelain"], at);
                (format!("status-{what}"), self.tool_of_ours(), invocation)
            }
        };
        let invocation = self.place.inside(name, invocation);
        self.take_for(&case, &tool, invocation).map(drop)
    }

    fn tool_of_ours(&self) -> String {
        match self.place.contender {
            Contender::Git(_) => "plain".into(),
            other => other.tool(),
        }
    }

    /// Repeats both statuses, and compares their output with that of Git without a monitor.
    fn statuses(&mut self, what: &str, changes: usize) -> Result<(), Error> {
        self.statuses_of([("git", Program::Git), (self.second(), Program::Ours)], what, changes)
    }

    fn statuses_of(&mut self, of: [(&str, Program); 2], what: &str, changes: usize) -> Result<(), Error> {
        for number in 0..self.repeats {
            let mut in_turn = of;
            if number % 2 == 1 {
                in_turn.reverse();
            }
            for (name, by) in in_turn {
                self.status(by, name, what)?;
            }
        }
        for (name, _) in of {
            self.verify(name, changes)?;
        }
        Ok(())
    }

    /// Fails unless Git without a monitor finds this number of changes, and Git and sapwood produce
    /// the same output with it.
    fn verify(&self, name: &str, changes: usize) -> Result<(), Error> {
        let args = ["--no-optional-locks", "status", "--porcelain"];
        let truth = self.place.check(name, &[&["-c", "core.fsmonitor=false"], &args[..]].concat())?;
        if truth.lines().count() != changes {
            return Err(self.wrong(name, format!("{changes} changes expected"), &truth));
        }
        let ours = self.place.inside(name, self.place.sapwood(&args, &self.place.repo));
        for (tool, answer) in
            [("git", self.place.check(name, &args)?), ("sapwood", self.place.output(&ours)?)]
        {
            if answer != truth {
                return Err(self.wrong(
                    name,
                    format!("{tool} gives another status than git without monitor"),
                    &answer,
                ));
            }
        }
        Ok(())
    }

    fn wrong(&self, name: &str, what: String, answer: &str) -> Error {
        let first: Vec<&str> = answer.lines().take(3).collect();
        let count = answer.lines().count();
        Error::Setup(format!("{}, {name}: {what}, got {count}: {first:?}", self.place.contender.tool()))
    }

    fn greps(&mut self) -> Result<(), Error> {
        let second = self.second();
        let cases = [("grep-cold", "git"), ("grep-warm", "git"), ("grep-second", second)];
        let count = if second == "git" { 2 } else { 3 };
        let mut groups = Vec::new();
        for (case, name) in cases.into_iter().take(count) {
            if case == "grep-cold" {
                drop_caches()?;
            }
            let volume = self.place.volume.path().to_owned();
            let args = ["-rqF", "--exclude-dir=.git", "lab finds this nowhere", "."];
            let grep = Invocation::new("grep".as_ref(), &args, &volume);
            let group = Group::new();
            let grep = match &group {
                Some(group) => group.run(grep),
                None => grep,
            };
            let before = reads(&volume).ok();
            let usage = measure::run(&Invocation { accepted: &[1], ..self.place.inside(name, grep) })?;
            let operations = reads(&volume).ok().zip(before).map_or(0, |(after, before)| after - before);
            let cached = group.as_ref().and_then(Group::cached);
            let sample = Sample { operations, cached, ..Sample::from(usage) };
            self.add(case, &self.place.contender.tool(), sample);
            // Removing a group moves its pages to its parent. Keep the group, so that the next
            // group is not charged for them.
            groups.push(group);
        }
        Ok(())
    }

    /// Edits files until `count` are edited, in both worktrees.
    fn edits(&mut self, count: usize) -> Result<(), Error> {
        let list = self.tree.edits.display().to_string();
        let (skip, more) = (self.edited.to_string(), (count - self.edited).to_string());
        let mut names = vec!["git", self.second()];
        names.dedup();
        for name in names {
            let args = ["act", "edit", &list, &skip, &more];
            let edit = self.place.inside(name, Invocation::new(&self.me, &args, &self.place.repo));
            self.take(&format!("edit-{count}"), edit)?;
        }
        self.edited = count;
        self.status(Program::Git, "git", &format!("{count}-first"))?;
        self.status(Program::Ours, self.second(), &format!("{count}-first"))?;
        self.statuses(&count.to_string(), count)
    }

    fn switches(&mut self) -> Result<(), Error> {
        let of_git = self.one_for("switch-git", "git");
        let of_ours = self.one_for("switch-ours", self.second());
        let by = [("git-switch", of_git, Program::Git), ("switch", of_ours, Program::Ours)];
        let count = if of_git == of_ours { 1 } else { 2 };
        for (case, name, by) in by.into_iter().take(count) {
            self.place.check(name, &["reset", "-q", "--hard"])?;
            for (what, commit) in [("100", CHANGED), ("100", NEW), ("old", OLD)] {
                let args = ["switch", "-q", "--detach", commit];
                let at = &self.place.repo;
                let (invocation, tool) = match by {
                    Program::Git => (self.place.git(&args, at), self.place.contender.tool()),
                    Program::Ours => (self.place.sapwood(&args, at), self.tool_of_ours()),
                };
                self.take_for(&format!("{case}-{what}"), &tool, self.place.inside(name, invocation))?;
                self.verify_at(name, commit)?;
            }
        }
        Ok(())
    }

    fn rebases(&mut self) -> Result<(), Error> {
        let name = "rebase";
        for (case, commit) in [("rebase-100", CHANGED), ("rebase-100", NEW), ("rebase-old", OLD)] {
            let Some(invocation) = self.place.rebase(name, commit).filter(|_| self.names().contains(&name))
            else {
                return Ok(());
            };
            self.take(case, invocation)?;
            self.verify_at(name, commit)?;
        }
        Ok(())
    }

    /// Fails unless the worktree is clean and at this commit.
    fn verify_at(&self, name: &str, commit: &str) -> Result<(), Error> {
        let [is, expected] = ["HEAD^{commit}", &format!("{commit}^{{commit}}")]
            .map(|revision| self.place.check(name, &["rev-parse", revision]));
        let (is, expected) = (is?, expected?);
        if is != expected {
            return Err(self.wrong(name, format!("{commit} is not checked out"), &is));
        }
        self.verify(name, 0)
    }

    fn build(&mut self) -> Result<(), Error> {
        let name = self.one_for("build", "git");
        let (list, count) = (self.tree.products.display().to_string(), PRODUCTS.to_string());
        let args = ["act", "build", &list, "0", &count];
        let build = self.place.inside(name, Invocation::new(&self.me, &args, &self.place.repo));
        // The switches ended at the old commit, which may not have all directories of the new one.
        if name == "git" && self.steps.contains(&Step::Switch) {
            self.place.check(name, &["checkout", "-q", "--detach", NEW])?;
        }
        self.take(&format!("build-{PRODUCTS}"), build)?;
        self.status(Program::Git, name, "built-first")?;
        self.status(Program::Ours, name, "built-first")?;
        self.statuses_of([(name, Program::Git), (name, Program::Ours)], "built", 0)
    }

    fn removals(&mut self) -> Result<(), Error> {
        for &name in self.names() {
            let case = match name {
                name if name.starts_with("gone") => "remove",
                "ours" if !self.place.contender.is_cheap() => "remove",
                name if name == self.one_for("build", "git") => "remove-built",
                _ => "remove-other",
            };
            self.take(case, self.place.remove(name))?;
            if self.place.dir(name).exists() {
                return Err(self.wrong(name, "the directory is still there".into(), ""));
            }
        }
        Ok(())
    }

    fn many(&mut self) -> Result<(), Error> {
        for (how, word) in [(Order::InTurn, ""), (Order::AtOnce, "-at-once")] {
            let names: Vec<String> = (0..MANY).map(|number| format!("many{word}-{number}")).collect();
            let create: Vec<Invocation> = names.iter().map(|name| self.place.create(name)).collect();
            let remove: Vec<Invocation> = names.iter().map(|name| self.place.remove(name)).collect();
            self.place.settle();
            self.take(&format!("create-{MANY}{word}"), self.place.all(&create, how))?;
            for name in &names {
                let is_there = |name: &String| fs::metadata(self.place.dir(name).join(".git")).is_ok();
                if !is_there(name) {
                    return Err(self.wrong(name, "it was not made".into(), ""));
                }
            }
            self.take(&format!("remove-{MANY}{word}"), self.place.all(&remove, how))?;
        }
        Ok(())
    }

    /// Creates two worktrees of another user. The first also writes the metadata that this user
    /// needs; its bytes on disk show that no content is written.
    fn share(&mut self) -> Result<(), Error> {
        if !self.place.clone_for_other(self.tree)? {
            return Ok(());
        }
        for (case, name) in [("create-other-first", "other-1"), ("create-other", "other-2")] {
            let Some([create, _]) = self.place.life_for_other(name) else { return Ok(()) };
            self.take(case, create)?;
        }
        for name in ["other-1", "other-2"] {
            let Some([_, remove]) = self.place.life_for_other(name) else { return Ok(()) };
            self.take("remove-other-user", remove)?;
        }
        Ok(())
    }

    /// Returns true if plain worktrees of the contender are measured at all.
    pub(super) fn is_for(contender: Contender, tree: &Tree) -> bool {
        let copies =
            matches!(contender, Contender::Sapwood(Backend::Copy | Backend::Reflink) | Contender::Cp);
        !(copies && tree.is_huge())
    }
}
