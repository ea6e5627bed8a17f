//! `worktree add`.
//!
//! Order: the rules for arguments; the branch, as in `git branch`; the administrative directory
//! (locked against pruning), the two links, HEAD; sparse patterns and configuration; the files, as
//! in `reset --hard`; the hook. A failure before the files exist removes everything that was
//! created, except the branch, as in Git. A failing hook removes nothing.

use std::{os::unix::ffi::OsStrExt as _, path::Path};

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    switch::{self, Target, names, tracking::Track},
    workspace::record::{self, LOCK_REASON},
    worktree::admin::{self, Admin},
};
use format::{ObjectId, config::Edit, refname};
use repo::{Guess, Repository};
use store::refs::{Change, Expected};
use sys::{Refused, UserPath, by_path};

use super::{
    context::{Given, Request, WorktreeContext},
    remove::remove_junk,
};
use crate::{
    commands::{
        checkout, reset, upstream,
        workspace::maker::{Maker, NewWorkspace},
    },
    session::{
        hooks,
        invocation::Invocation,
        settings::{
            Settings,
            refused::{self, Reader},
        },
    },
    term::{
        console::{self, text},
        failure::Failure,
    },
};

impl Request {
    fn check(&self, arguments: usize) -> Result<(), Failure> {
        let together = |one: &str, other: &str| {
            Err(Failure::fatal(format!("options '{one}' and '{other}' cannot be used together")))
        };
        let ways = [self.detach, self.branch.is_some(), self.force_branch.is_some()];
        if ways.into_iter().filter(|way| *way).count() > 1 {
            return Err(Failure::fatal("options '-b', '-B', and '--detach' cannot be used together"));
        }
        if self.detach && self.orphan {
            return together("--orphan", "--detach");
        }
        if self.orphan && self.track.is_some() {
            return together("--orphan", "--track");
        }
        if self.orphan && self.no_checkout {
            return together("--orphan", "--no-checkout");
        }
        if self.orphan && arguments == 2 {
            return Err(Failure::fatal("option '--orphan' and commit-ish cannot be used together"));
        }
        if self.reason.is_some() && !self.lock {
            return Err(Failure::requires("--reason", "--lock"));
        }
        Ok(())
    }
}

/// Returns the last component of a path, without slashes.
pub(crate) fn basename(path: &BStr) -> &BStr {
    let path = path.trim_end_with(|letter| letter == '/');
    path.rsplit_str("/").next().unwrap_or_default().as_bstr()
}

/// Runs the command. With `sapwood.worktree = workspace`, the worktree becomes a workspace if there
/// is a backend whose files every process can see.
pub(super) fn run(context: &WorktreeContext<'_>, request: &Request, args: &[BString]) -> Result<u8, Failure> {
    let maker = Maker::configured(context.run, context.repo)?;
    add(context, request, args, maker.as_ref())
}

/// Adds a worktree. `maker`, if it is given and supports this case, provides the files.
pub(crate) fn add(
    context: &WorktreeContext<'_>,
    request: &Request,
    args: &[BString],
    maker: Option<&Maker<'_>>,
) -> Result<u8, Failure> {
    request.check(args.len())?;
    let (at, start) = match args {
        [path] => (context.given(path.as_bstr())?, None),
        [path, start] => (context.given(path.as_bstr())?, Some(start.clone())),
        _ => return Err(context.misused()),
    };
    let arg = args[0].as_bstr();
    if arg.is_empty() {
        return Err(Failure::refused(&UserPath::new(arg), Refused::Empty));
    }
    if refname::sanitized(basename(at.shown.as_bstr())).is_empty() {
        return Err(Failure::Fatal(text!("'", arg, "' names no place for a worktree")));
    }
    let settings = Settings::read(context.run, context.repo)?;
    refused::check(context.repo, &[Reader::Refs, Reader::Hooks])?;
    let is_alone = start.is_none();
    Add { context, repo: context.repo, settings: &settings, request, at, is_alone, maker }.run(start)
}

struct Add<'a> {
    context: &'a WorktreeContext<'a>,
    repo: &'a Repository,
    settings: &'a Settings,
    request: &'a Request,
    at: Given,
    /// No commit or branch is given.
    is_alone: bool,
    maker: Option<&'a Maker<'a>>,
}

/// The branch or commit of the new worktree.
struct Goal {
    /// The branch, or the name of the commit.
    name: BString,
    /// The branch to create.
    new_branch: Option<BString>,
    orphan: bool,
}

impl Add<'_> {
    fn run(self, start: Option<BString>) -> Result<u8, Failure> {
        let goal = self.goal(start)?;
        let request = &self.request;
        let start = if goal.orphan { None } else { self.commit(goal.name.as_bstr())? };
        if start.is_none() && !goal.orphan {
            return self.no_commit(&goal);
        }
        // Prepare the base first: a failure then leaves no branch.
        let workspace = match (self.maker, start) {
            (Some(maker), Some(commit)) if !request.no_checkout => {
                if request.force == 0 {
                    self.context.check_candidate(&self.at, 0, &self.repo.worktrees()?, "add")?;
                }
                maker.prepare(self.repo, self.settings, commit, &self.at.path)?
            }
            _ => None,
        };
        if !request.quiet {
            self.print_preparing(&goal)?;
        }
        let mut name = goal.name.clone();
        if let Some(branch) = &goal.new_branch {
            if !goal.orphan {
                // Git runs `git branch` here, and returns its exit code on failure.
                if let Err(failure) = self.make_branch(branch.as_bstr(), goal.name.as_bstr()) {
                    failure.plain().print();
                    return Ok(255);
                }
                console::flush();
            }
            name = branch.clone();
        } else if request.track.is_some() {
            return Err(Failure::fatal("--[no-]track can only be used if a new branch is created"));
        }
        self.make(name.as_bstr(), goal.orphan, workspace)
    }

    /// Returns the commit that `name` names.
    fn commit(&self, name: &BStr) -> Result<Option<ObjectId>, Failure> {
        match self.repo.rev_parse(name).and_then(|oid| self.repo.peel_to_commit(oid)) {
            Ok(commit) => Ok(commit),
            Err(error) if error.is_unreadable() || error.is_final() => Err(error.into()),
            Err(_) => Ok(None),
        }
    }

    /// Returns the full name of the branch `word`, if it exists.
    fn existing(&self, word: &BStr) -> Result<Option<BString>, Failure> {
        match names::branch_ref(self.repo, word)? {
            Some(full) if self.repo.find_ref(full.as_bstr())?.is_some() => Ok(Some(full)),
            _ => Ok(None),
        }
    }

    fn refuse_used(&self, full: &BStr) -> Result<(), Failure> {
        match self.repo.worktree_using(full, false)? {
            None => Ok(()),
            Some(path) => {
                let short = full.strip_prefix(names::BRANCHES).unwrap_or(full);
                let path = path.as_os_str().as_bytes();
                Err(Failure::Fatal(text!("'", short, "' is already used by worktree at '", path, "'")))
            }
        }
    }

    fn goal(&self, start: Option<BString>) -> Result<Goal, Failure> {
        let request = &self.request;
        let given = start.is_some();
        let mut name = start.unwrap_or_else(|| "HEAD".into());
        if name == "-" {
            name = "@{-1}".into();
        }
        if let Some(branch) = &request.force_branch
            && request.force == 0
            && let Some(full) = self.existing(branch.as_bstr())?
        {
            self.refuse_used(full.as_bstr())?;
        }
        let mut new_branch = request.force_branch.clone().or_else(|| request.branch.clone());
        let mut orphan = request.orphan;
        let named = self.maker.and_then(Maker::name);
        let base = named.unwrap_or_else(|| basename(self.at.shown.as_bstr()));
        if orphan {
            new_branch = new_branch.or_else(|| Some(base.to_owned()));
        } else if request.detach {
            if name == "HEAD" {
                self.has_local_refs()?;
            }
        } else if !given && new_branch.is_some() {
            orphan = self.infers_orphan(None)?;
        } else if !given {
            let mut found = None;
            if self.existing(base)?.is_some() {
                found = Some(base.to_owned());
            } else {
                new_branch = Some(base.to_owned());
                if self.guesses_remote()?
                    && let Guess::Unique { tracking, .. } = self.repo.guess_remote_branch(base)?
                {
                    found = Some(tracking);
                }
            }
            match found {
                Some(found) => name = found,
                None => orphan = self.infers_orphan(Some(self.guesses_remote()?))?,
            }
        } else {
            if self.commit(name.as_bstr())?.is_none()
                && let Guess::Unique { tracking, .. } = self.repo.guess_remote_branch(name.as_bstr())?
            {
                new_branch = Some(std::mem::replace(&mut name, tracking));
            }
            if name == "HEAD" {
                self.has_local_refs()?;
            }
        }
        Ok(Goal { name, new_branch, orphan })
    }

    fn guesses_remote(&self) -> Result<bool, Failure> {
        let configured = || self.repo.config_bool("worktree.guessRemote");
        Ok(match self.request.guess_remote {
            Some(guesses) => guesses,
            None => configured()?.unwrap_or(false),
        })
    }

    /// Returns true if HEAD or any branch exists.
    fn has_local_refs(&self) -> Result<bool, Failure> {
        if self.repo.head().is_ok_and(|head| head.oid().is_some()) {
            return Ok(true);
        }
        let any = !self.repo.refs("refs/heads/")?.is_empty();
        if any && !self.request.quiet {
            console::warning("HEAD points to an invalid (or orphaned) reference.\n");
        }
        Ok(any)
    }

    /// Returns true if there is no commit to start from, so that the branch is an orphan. If
    /// `remote` is `Some(true)`, remote branches count as starting points.
    fn infers_orphan(&self, remote: Option<bool>) -> Result<bool, Failure> {
        if self.has_local_refs()? {
            return Ok(false);
        }
        if remote == Some(true) {
            if !self.repo.refs("refs/remotes/")?.is_empty() {
                return Ok(false);
            }
            if self.request.force == 0 && self.has_remote() {
                return Err(Failure::fatal(
                    "No local or remote refs exist despite at least one remote\n\
                     present, stopping; use 'add -f' to override or fetch a remote first",
                ));
            }
        }
        if !self.request.quiet {
            console::eprint_line("No possible source branch, inferring '--orphan'");
        }
        let together = |other: &str| {
            Err(Failure::fatal(format!("options '--orphan' and '{other}' cannot be used together")))
        };
        if self.request.track.is_some() {
            return together("--track");
        }
        if self.request.no_checkout {
            return together("--no-checkout");
        }
        Ok(true)
    }

    fn has_remote(&self) -> bool {
        let head = self.repo.head().ok();
        let branch = head.as_ref().and_then(|head| head.branch()).unwrap_or("".into());
        let remote = self.repo.remote_of(branch);
        self.repo.config_str(&format!("remote.{remote}.url")).is_some()
    }

    fn no_commit(&self, goal: &Goal) -> Result<u8, Failure> {
        let request = &self.request;
        console::print_object_store_errors(self.repo);
        let asked = request.branch.as_ref().or(request.force_branch.as_ref());
        if !request.quiet && self.is_alone && self.settings.advises(self.repo, "worktreeAddOrphan")? {
            let with = match asked {
                Some(branch) => text!("-b ", branch, " "),
                None => BString::default(),
            };
            console::hint(text!(
                "If you meant to create a worktree containing a new unborn branch\n\
                 (branch with no commits) for this repository, you can do so\n\
                 using the --orphan flag:\n\n    git worktree add --orphan ",
                with,
                self.at.shown,
                "\n\nDisable this message with \"git config set advice.worktreeAddOrphan false\""
            ));
        }
        Err(Failure::Fatal(text!("invalid reference: ", goal.name)))
    }

    fn print_preparing(&self, goal: &Goal) -> Result<(), Failure> {
        let what = match &goal.new_branch {
            Some(branch) => {
                let was = match self.request.force_branch {
                    Some(_) => self.commit(branch.as_bstr())?,
                    None => None,
                };
                match was {
                    Some(commit) => {
                        let short = self.repo.abbreviate(commit)?;
                        text!("resetting branch '", branch, "'; was at ", short)
                    }
                    None => text!("new branch '", branch, "'"),
                }
            }
            None if !self.request.detach && self.existing(goal.name.as_bstr())?.is_some() => {
                text!("checking out '", goal.name, "'")
            }
            None => {
                let commit = self.commit(goal.name.as_bstr())?.expect("it was looked up before");
                text!("detached HEAD ", self.repo.abbreviate(commit)?)
            }
        };
        console::eprint_line(text!("Preparing worktree (", what, ")"));
        Ok(())
    }

    /// Creates a branch, like `git branch [--force] <word> <start>`.
    fn make_branch(&self, word: &BStr, start: &BStr) -> Result<(), Failure> {
        let (repo, settings) = (self.repo, self.settings);
        let full = checkout::new_branch_ref(repo, word)?;
        let branch = full.strip_prefix(names::BRANCHES).unwrap_or(&full).as_bstr();
        let exists = repo.find_ref(full.as_bstr())?.is_some();
        if exists && self.request.force_branch.is_none() {
            return Err(checkout::already_exists(full.as_bstr()));
        }
        if exists && let Some(path) = repo.worktree_using(full.as_bstr(), false)? {
            let path = path.as_os_str().as_bytes();
            return Err(Failure::Fatal(text!(
                "cannot force update the branch '",
                branch,
                "' used by worktree at '",
                path,
                "'"
            )));
        }
        let track = match self.request.track {
            Some(track) => track,
            None => Track::configured(repo)?,
        };
        let from = upstream::Start::find(repo, start, track)?;
        let commit = self.commit(start)?.expect("it was looked up before");
        let mut refs = settings.refs(repo)?;
        if self.maker.is_some() {
            // An interrupted creation must not leave a branch that no program can read.
            refs.fsync = refs.fsync.for_recording();
        }
        switch::create_branch(&refs, full.as_bstr(), commit, start, exists)?;
        upstream::set(repo, settings, branch, from, track, self.request.quiet)
    }

    fn make(&self, name: &BStr, orphan: bool, workspace: Option<NewWorkspace<'_>>) -> Result<u8, Failure> {
        let (repo, request) = (self.repo, &self.request);
        self.context.check_candidate(&self.at, request.force, &repo.worktrees()?, "add")?;
        let existing = if request.detach { None } else { self.existing(name)? };
        if let Some(full) = existing.as_ref().filter(|_| request.force == 0) {
            self.refuse_used(full.as_bstr())?;
        }
        let is_branch = existing.is_some();
        let branch = match existing {
            Some(full) if orphan => return Err(checkout::already_exists(full.as_bstr())),
            Some(full) => full,
            None if orphan => checkout::new_branch_ref(repo, name)?,
            None => BString::default(),
        };
        let commit = self.commit(name)?;
        if commit.is_none() && !orphan {
            return Err(Failure::Fatal(text!("invalid reference: ", name)));
        }
        let reason = match (&request.reason, request.lock) {
            (Some(reason), _) => reason.clone(),
            (None, true) => "added with --lock".into(),
            (None, false) => "initializing".into(),
        };
        let head = match commit {
            Some(commit) if !is_branch && !orphan => Head::Commit(commit),
            _ => Head::Branch(branch.as_bstr()),
        };
        if !orphan {
            let target = match head {
                Head::Branch(full) => Target::Branch(full),
                Head::Commit(commit) => Target::Commit(commit),
            };
            let mut refs = self.settings.refs(repo)?;
            // The new directory cannot contain a lock yet.
            refs.git_dir = repo.common_dir().join("worktrees");
            switch::check_head(&refs, target, commit)?;
        }
        let reason = match &workspace {
            Some(_) if !request.lock => {
                record::initializing(&by_path::realpath_forgiving(&self.at.path)).into()
            }
            _ => reason,
        };
        let name = match &workspace {
            Some(workspace) => workspace.name(&self.at.path),
            None => basename(self.at.shown.as_bstr()),
        };
        let id = refname::sanitized(name);
        let admin = admin::make(repo.common_dir(), id.as_bstr(), &reason, self.settings.locks.shared)?;
        if let Err(failure) = workspace.as_ref().map_or(Ok(()), |workspace| workspace.check_name(&admin)) {
            remove_junk(&[&admin.dir]);
            return Err(failure);
        }
        if let Err(failure) = self.claim() {
            remove_junk(&[&admin.dir]);
            return Err(failure);
        }
        let filled = match &workspace {
            Some(workspace) => self.fill_workspace(&admin, head, workspace),
            None => self.fill(&admin, head),
        };
        if !matches!(filled, Ok(0)) {
            if let Some(workspace) = &workspace {
                workspace.undo(&admin);
            }
            remove_junk(&[&admin.dir, &self.at.path]);
            return filled;
        }
        if let Some(workspace) = &workspace {
            if !request.lock {
                admin::write(&admin.dir.join("locked"), LOCK_REASON.as_bytes())?;
            }
            workspace.persist(&admin)?;
        } else if !request.lock {
            // If the lock cannot be removed, the worktree still exists.
            let _ = by_path::remove_file(&admin.dir.join("locked"));
        }
        match commit {
            Some(commit) if !request.no_checkout && !orphan => {
                hooks::post_checkout_of_new(repo, self.settings, &self.at.path, commit)
            }
            _ => Ok(0),
        }
    }

    /// Claims the directory: of several processes that add a worktree at one path, only one finds
    /// no `.git` there.
    fn claim(&self) -> Result<(), Failure> {
        let (top, shown) = (&self.at.path, &self.at.shown);
        self.settings.locks.shared.create_dir_all(top).map_err(|error| {
            let reason = crate::term::text::os_error(&error);
            Failure::Fatal(text!("could not create leading directories of '", shown, "/.git': ", reason))
        })?;
        by_path::create_new(&top.join(".git"), 0o666).map(drop).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => Failure::Fatal(text!("'", shown, "' already exists")),
            _ => {
                let reason = crate::term::text::os_error(&error);
                Failure::Fatal(text!("could not open '", shown, "/.git' for writing: ", reason))
            }
        })
    }

    /// Like [`Add::fill`], for files that do not come from a checkout.
    fn fill_workspace(&self, admin: &Admin, head: Head<'_>, workspace: &NewWorkspace) -> Result<u8, Failure> {
        let gitfile = workspace.create_state(admin)?;
        let linker = self.context.linker(self.request.relative)?;
        linker.link_through(&gitfile, &self.at.path, &admin.dir)?;
        self.fill_admin(admin, head)?;
        workspace.configure(admin)?;
        match workspace.is_checkout() {
            true => self.reset(),
            false => workspace.mount(admin),
        }
    }

    /// Runs all steps between the directory and the hook. A result other than `Ok(0)` undoes the
    /// worktree.
    fn fill(&self, admin: &Admin, head: Head<'_>) -> Result<u8, Failure> {
        self.context.linker(self.request.relative)?.link(&self.at.path, &admin.dir)?;
        self.fill_admin(admin, head)?;
        match self.request.no_checkout {
            true => Ok(0),
            false => self.reset(),
        }
    }

    /// Writes the administrative directory, except for the links.
    fn fill_admin(&self, admin: &Admin, head: Head<'_>) -> Result<(), Failure> {
        admin::write(&admin.dir.join("commondir"), b"../..")?;
        self.settings.locks.shared.create_dir(&admin.dir.join("refs")).map_err(|error| {
            Failure::fatal(format!("could not create '{}': {error}", admin.dir.join("refs").display()))
        })?;
        self.write_head(admin, head)?;
        if self.repo.config_bool("core.sparseCheckout")?.unwrap_or(false) {
            self.copy(admin, "info/sparse-checkout", |from, to| {
                text!("failed to copy '", from, "' to '", to, "'; sparse-checkout may not work correctly")
            });
        }
        if self.repo.extensions().worktree_config {
            self.copy_config(admin)?;
        }
        Ok(())
    }

    fn write_head(&self, admin: &Admin, head: Head<'_>) -> Result<(), Failure> {
        let mut refs = self.settings.refs(self.repo)?;
        refs.git_dir = admin.dir.clone();
        let name = BString::from("HEAD");
        let change = match head {
            Head::Commit(new) => {
                Change::Update { name, new, expected: Expected::Any, message: BString::default() }
            }
            Head::Branch(target) => {
                let target = target.to_owned();
                Change::Symbolic { name, target, message: None, old: None, new: None }
            }
        };
        store::refs::apply(&refs, vec![change]).map_err(|error| switch::Error::from(error).into())
    }

    /// Copies a file of this worktree's Git directory, if it exists. `failed` returns the message
    /// for a failure.
    fn copy(&self, admin: &Admin, name: &str, failed: impl Fn(&[u8], &[u8]) -> BString) -> bool {
        let (from, to) = (self.repo.git_dir().join(name), admin.dir.join(name));
        let copied = || -> std::io::Result<bool> {
            let Some(content) = by_path::read(&from)? else { return Ok(false) };
            let shared = self.settings.locks.shared;
            shared.create_dir_all(to.parent().unwrap_or(Path::new("/")))?;
            let mut file = shared.create_new(&to, 0o666)?;
            std::io::Write::write_all(&mut file, &content)?;
            Ok(true)
        };
        copied().unwrap_or_else(|_| {
            console::error(failed(from.as_os_str().as_bytes(), to.as_os_str().as_bytes()));
            false
        })
    }

    /// Copies the configuration of this worktree, without its location and `core.bare`.
    fn copy_config(&self, admin: &Admin) -> Result<(), Failure> {
        let copied = self.copy(admin, "config.worktree", |from, to| {
            text!("failed to copy worktree config from '", from, "' to '", to, "'")
        });
        if !copied {
            return Ok(());
        }
        let path = admin.dir.join("config.worktree");
        let mut edits = Vec::new();
        if repo::setting_of(&path, "core.bare").is_some_and(|bare| bare.is_true()) {
            edits.push(Edit::Unset { key: "core.bare".into() });
        }
        if repo::setting_of(&path, "core.worktree").is_some() {
            edits.push(Edit::Unset { key: "core.worktree".into() });
        }
        Ok(store::config::edit(&path, &edits, &self.settings.config_locks, &self.settings.fsync)?)
    }

    /// Runs `git reset --hard` in the new worktree.
    fn reset(&self) -> Result<u8, Failure> {
        let outer = self.context.run;
        let mut env = outer.env.clone();
        env.insert("GIT_DIR".into(), self.at.path.join(".git").into());
        env.insert("GIT_WORK_TREE".into(), self.at.path.clone().into());
        let of_children = self.repo.child_env().into_iter();
        env.extend(of_children.filter(|(name, _)| name == "GIT_IMPLICIT_WORK_TREE"));
        let mut args: Vec<BString> = vec!["--hard".into(), "--no-recurse-submodules".into()];
        if self.request.quiet {
            args.push("--quiet".into());
        }
        let inner = Invocation {
            program: outer.program,
            command: "reset".into(),
            args,
            started_in: outer.started_in.clone(),
            cwd: self.at.path.clone(),
            env,
            config: outer.config.clone(),
            bare: false,
            paginate: false,
            verbose: outer.verbose,
            profile: outer.profile.clone(),
            interrupt: outer.interrupt,
            git: outer.git.clone(),
            opened: Default::default(),
            outside_config: Default::default(),
            objects: Default::default(),
            lazy_fetch: outer.lazy_fetch.clone(),
        };
        let code = reset::run(&inner, &inner.args);
        console::flush();
        match code {
            Err(failure @ Failure::Signal(_)) => Err(failure),
            Err(failure) => {
                failure.print();
                Ok(failure.code())
            }
            Ok(code) => Ok(code),
        }
    }
}

#[derive(Clone, Copy)]
enum Head<'a> {
    Branch(&'a BStr),
    Commit(ObjectId),
}
