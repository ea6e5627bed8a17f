//! The steps of a checkout, as Git's command lines.

use std::path::PathBuf;

use bstr::{BStr, BString, ByteSlice as _};
use repo::keys;
use sys::by_path;

use super::{
    Program, Step,
    checkout::{Plan, Report, Submodules, Way},
    cleanup, credentials,
    directory::cannot,
    refs::{self, Head},
    ssh::Connection,
};
use crate::{Error, RunError, text};

/// A checkout that runs.
pub(super) struct Job<'a, P> {
    pub(super) plan: Plan,
    pub(super) program: &'a P,
    /// The settings that hold secrets.
    settings: Vec<BString>,
    ssh: Option<Connection>,
}

impl<'a, P: Program> Job<'a, P> {
    pub(super) fn new(plan: Plan, program: &'a P) -> Job<'a, P> {
        // A partial clone may fetch contents while it is cleaned.
        let settings = plan.request.access.settings(plan.request.url.as_bstr(), None, false);
        Job { plan, program, settings, ssh: None }
    }

    pub(super) fn run(mut self) -> Result<Report, P::Error> {
        let reused = self.prepare_directory()?;
        let (commit, reused) = match self.make(reused, false) {
            Err(error) if reused && self.plan.request.clean.removes() => self.make_again(error)?,
            made => (made?, reused),
        };
        let Some(commit) = commit else {
            let name = self.plan.target.name.clone().unwrap_or_default();
            let error = text!("'", name, "' is neither a branch nor a tag of the repository");
            return Err(Error::failed(error).into());
        };
        if let Some(wanted) = self.plan.target.commit.as_ref().filter(|wanted| **wanted != commit) {
            return Err(Error::failed(text!("HEAD is at ", commit, ", and not at ", wanted)).into());
        }
        let credentials = self.keep_credentials()?;
        let target = &self.plan.target;
        let given = self.plan.request.reference.clone().filter(|name| !name.is_empty());
        let reference = given.or_else(|| target.name.clone()).unwrap_or_else(|| commit.clone());
        Ok(Report { reference, commit, reused, credentials })
    }

    /// Fetches and checks out. Returns the commit of HEAD; `None` if the server does not have the
    /// ref. `has_aside` is true if another repository was set aside.
    fn make(&mut self, reused: bool, has_aside: bool) -> Result<Option<BString>, P::Error> {
        self.prepare_repository(reused)?;
        if self.ssh.is_none() {
            self.connect()?;
        }
        if self.plan.target.name.is_none() && self.plan.target.commit.is_none() {
            self.plan.target.name = Some(self.default_branch()?);
        }
        self.fetch(reused)?;
        let Some(head) = self.plan.target.head(|name| self.is_there(name)) else { return Ok(None) };
        if has_aside {
            self.plan.directory.empty_beside_aside()?;
        }
        self.take_base(&head)?;
        self.fetch_lfs(&head)?;
        self.set_patterns(reused)?;
        self.check_out(&head)?;
        self.check_out_submodules(reused)?;
        Ok(Some(self.answer(&["rev-parse", "--verify", "HEAD"])?.ok_or(Error::NoHead)?))
    }

    /// Repeats a checkout that failed in the clone of an earlier job. A server that fails for a
    /// moment must not cost each of its runners a clone. So the new repository is the last attempt,
    /// after one more in the clone, and none is made while the server does not answer. Returns the
    /// commit, and true if it is in the clone.
    fn make_again(&mut self, error: P::Error) -> Result<(Option<BString>, bool), P::Error> {
        // The damaged clone does not take part.
        let question = ["--git-dir=/dev/null", "ls-remote", "-q"];
        let question = [words(&question), vec![self.plan.request.url.clone(), "HEAD".into()]].concat();
        if self.answer_of(question)?.is_none() {
            return Err(error);
        }
        if let Ok(made) = self.make(true, false) {
            return Ok((made, true));
        }
        // A job can damage objects and refs such that each later fetch or checkout fails.
        Ok((self.make_anew(error)?, false))
    }

    /// Repeats a checkout with a new repository. Brings the clone back, and returns `error`, if
    /// that fails too: the clone is not the reason.
    fn make_anew(&mut self, error: P::Error) -> Result<Option<BString>, P::Error> {
        self.ssh = None;
        if self.plan.directory.set_aside().is_err() {
            return Err(error);
        }
        let made = self.make(false, true);
        if let Ok(Some(_)) = made {
            self.plan.directory.forget_aside()?;
            return made;
        }
        self.ssh = None;
        self.plan.directory.bring_back()?;
        made.map_err(|_| error)
    }

    /// Writes the key for ssh. The repository exists by then: it has the place for the file.
    pub(super) fn connect(&mut self) -> Result<(), Error> {
        let request = &self.plan.request;
        let rewrites = request.files.submodules != Submodules::None;
        self.ssh = request.access.ssh.connect()?;
        let command = self.ssh.as_ref().map(|ssh| &ssh.command);
        self.settings = request.access.settings(request.url.as_bstr(), command, rewrites);
        Ok(())
    }

    /// Makes the directory, or makes it usable. Returns true if its repository is used again.
    fn prepare_directory(&mut self) -> Result<bool, P::Error> {
        let dir = &self.plan.request.dir;
        let cleaned = self.clean_up();
        match self.plan.way {
            Way::New => by_path::create_dir_all(dir).map_err(cannot("create", dir))?,
            Way::Remake => self.plan.directory.empty()?,
            Way::Reuse => {
                if !self.plan.request.clean.removes() {
                    return Ok(cleaned.map(|()| true)?);
                }
                if cleaned.is_ok() && self.clean()? {
                    return Ok(true);
                }
                self.ssh = None;
                self.plan.directory.may_be_emptied("it cannot be cleaned")?;
                self.plan.directory.empty()?;
            }
        }
        Ok(false)
    }

    /// Removes the credentials of killed jobs, also beside a directory that is made anew.
    fn clean_up(&self) -> Result<(), Error> {
        let (dir, secrets) = (self.plan.request.dir.clone(), self.plan.request.access.ssh.dir.clone());
        let request = cleanup::Request { dir, secrets: Some(secrets) };
        cleanup::plan(request).map_err(of_plan)?.run().map_err(of_run)?.complete()
    }

    fn prepare_repository(&self, reused: bool) -> Result<(), P::Error> {
        let request = &self.plan.request;
        // The settings of a user stay: the URL may have a user name, and maintenance may be wanted.
        if !reused || request.clean.removes() {
            // In a clone of an earlier job this brings the hooks and files of the user's template.
            self.git(&["-c", "init.defaultBranch=main", "init", "-q"])?;
            let set = |name: &str, value: BString| {
                self.git_of(vec!["config".into(), "--replace-all".into(), name.into(), value])
            };
            set("remote.origin.fetch", refs::ALL_BRANCHES.into())?;
            set("remote.origin.url", request.url.clone())?;
            // Maintenance would run during the job.
            self.git(&["config", keys::gc::AUTO.name(), "0"])?;
        }
        if let Some(dir) = &request.base.dir {
            self.git_of(vec!["config".into(), keys::sapwood::BASE_DIR.name().into(), dir.clone()])?;
        }
        if request.files.lfs {
            self.git(&["lfs", "install", "--local"])?;
        }
        Ok(())
    }

    /// Asks the server for its default branch.
    fn default_branch(&self) -> Result<BString, P::Error> {
        let answer = self.answer(&["ls-remote", "--symref", "origin", "HEAD"])?;
        let branch = answer.as_ref().and_then(|answer| refs::default_branch(answer.as_bstr()));
        Ok(branch.ok_or_else(|| {
            Error::failed(text!(
                "'",
                &self.plan.request.url,
                "' does not tell its default branch; name a ref"
            ))
        })?)
    }

    fn fetch(&self, reused: bool) -> Result<(), P::Error> {
        let history = &self.plan.request.history;
        if history.depth > 0 {
            let mut refspecs = self.plan.target.refspecs();
            if history.tags {
                refspecs.push(refs::ALL_TAGS.into());
            }
            // In a clone with all commits of a user's branches, a depth would cut them off.
            let is_whole = reused && !self.plan.request.clean.removes() && !self.is_shallow()?;
            let depth = (!is_whole).then(|| BString::from(format!("--depth={}", history.depth)));
            return self.fetch_refspecs(depth.into_iter().collect(), refspecs);
        }
        let unshallow = self.is_shallow()?.then(|| BString::from("--unshallow"));
        self.fetch_refspecs(unshallow.into_iter().collect(), self.plan.target.refspecs_for_all())?;
        let Some((name, commit)) = self.plan.target.to_verify() else { return Ok(()) };
        let peeled = text!(name, "^{commit}");
        let found = self.answer_of(vec!["rev-parse".into(), "--verify".into(), "-q".into(), peeled])?;
        match found.as_ref() == Some(commit) {
            true => Ok(()),
            // The ref has moved since the job was made.
            false => self.fetch_refspecs(Vec::new(), self.plan.target.refspecs()),
        }
    }

    fn is_shallow(&self) -> Result<bool, P::Error> {
        let answer = self.answer(&["rev-parse", "--is-shallow-repository"])?;
        Ok(answer.is_some_and(|answer| answer == "true"))
    }

    fn fetch_refspecs(&self, depth: Vec<BString>, mut refspecs: Vec<BString>) -> Result<(), P::Error> {
        let request = &self.plan.request;
        let mut args = words(&["fetch", "--no-tags", "--no-recurse-submodules"]);
        if request.clean.removes() {
            args.push("--force".into());
        } else {
            // A tag of the user does not move.
            refspecs.iter_mut().for_each(refs::spare_local);
        }
        // Pruning by one refspec would remove the refs of earlier jobs, and their use as a cache.
        if request.history.depth == 0 && request.clean.removes() {
            args.push("--prune".into());
        }
        args.extend(depth);
        let lacks_contents = !request.files.sparse.is_empty() || request.base.remote.is_some();
        let filter = request.history.filter.clone().or_else(|| lacks_contents.then(|| "blob:none".into()));
        args.extend(filter.map(|filter| text!("--filter=", filter)));
        args.extend(self.voice());
        args.push("origin".into());
        args.extend(refspecs);
        self.git_of(args)
    }

    /// Takes the contents of files from a remote of bases. Without a base the server has them.
    fn take_base(&self, head: &Head) -> Result<(), P::Error> {
        let base = &self.plan.request.base;
        let Some(remote) = &base.remote else { return Ok(()) };
        let mut args = words(&["pull", "--quiet"]);
        args.extend([remote.clone(), revision(head).clone()]);
        if self.program.base(self.step(&args))? == 0 {
            return Ok(());
        }
        if let Some(branch) = &base.branch {
            let args =
                [words(&["pull", "--quiet", "--branch"]), vec![branch.clone(), remote.clone()]].concat();
            // Its messages say why there is none.
            self.program.base(self.step(&args))?;
        }
        Ok(())
    }

    /// Fetches the contents of Git LFS at once: a checkout would ask for one after the other.
    fn fetch_lfs(&self, head: &Head) -> Result<(), P::Error> {
        let files = &self.plan.request.files;
        if !files.lfs || !files.sparse.is_empty() {
            return Ok(());
        }
        self.git_of(vec!["lfs".into(), "fetch".into(), "origin".into(), revision(head).clone()])
    }

    fn set_patterns(&self, reused: bool) -> Result<(), P::Error> {
        let files = &self.plan.request.files;
        if files.sparse.is_empty() && reused && !self.plan.request.clean.removes() {
            // The patterns of a user stay.
            return Ok(());
        }
        if files.sparse.is_empty() {
            return match self.is_sparse(&self.plan.request.dir)? {
                true => self.git(&["sparse-checkout", "disable"]),
                false => Ok(()),
            };
        }
        let args =
            words(&["sparse-checkout", "set", if files.cone { "--cone" } else { "--no-cone" }, "--stdin"]);
        let input: BString = bstr::concat(files.sparse.iter().map(|pattern| text!(pattern, "\n"))).into();
        let code = self.program.run(Step { input: &input, ..self.step(&args) })?;
        self.ended(&args, code)
    }

    fn check_out(&self, head: &Head) -> Result<(), P::Error> {
        let mut args = words(&["checkout"]);
        args.extend(self.voice());
        if self.plan.request.clean.removes() {
            args.push("--force".into());
            match head {
                Head::Branch { name, start } => args.extend(["-B".into(), name.clone(), start.clone()]),
                Head::Detached(revision) => args.extend(["--detach".into(), revision.clone()]),
            }
        } else {
            // A branch of the user does not move.
            args.extend(["--detach".into(), revision(head).clone()]);
        }
        self.git_of(args)
    }

    /// Writes the credentials for the job. The last step: a checkout that fails leaves none.
    fn keep_credentials(&mut self) -> Result<Option<PathBuf>, P::Error> {
        let request = &self.plan.request;
        let Some(persist) = &request.persist else { return Ok(None) };
        let git_dirs = cleanup::git_dirs(&request.dir)?;
        let Some(file) = request.access.reserve(request.url.as_bstr(), &persist.dir, self.ssh.as_ref())?
        else {
            return Ok(None);
        };
        let name = file.path.file_name().unwrap_or_default();
        let also = persist.also.as_ref().map(|dir| dir.join(name));
        let paths = std::iter::once(&file.path).chain(&also);
        let paths: Vec<BString> = paths.map(|path| path.as_os_str().as_encoded_bytes().into()).collect();
        let mut configs = git_dirs.iter().map(|git_dir| git_dir.join("config"));
        let included = configs.try_for_each(|config| credentials::include(&config, &paths));
        let path = file.fill(included)?;
        if let Some(ssh) = &mut self.ssh {
            ssh.keep();
        }
        Ok(Some(path))
    }

    fn voice(&self) -> Option<BString> {
        self.plan.request.progress.map(|shown| if shown { "--progress".into() } else { "--quiet".into() })
    }

    fn is_there(&self, name: &BStr) -> bool {
        let args = vec!["rev-parse".into(), "--verify".into(), "-q".into(), name.into()];
        self.answer_of(args).is_ok_and(|found| found.is_some())
    }

    pub(super) fn step<'s>(&'s self, args: &'s [BString]) -> Step<'s> {
        Step { dir: &self.plan.request.dir, args, settings: &self.settings, input: b"" }
    }

    pub(super) fn git(&self, args: &[&str]) -> Result<(), P::Error> {
        self.git_of(words(args))
    }

    /// Runs a command that must succeed.
    pub(super) fn git_of(&self, args: Vec<BString>) -> Result<(), P::Error> {
        let code = self.program.run(self.step(&args))?;
        self.ended(&args, code)
    }

    pub(super) fn ended(&self, args: &[BString], code: u8) -> Result<(), P::Error> {
        if code == 0 {
            return Ok(());
        }
        let command = args.iter().find(|arg| !arg.starts_with(b"-") && !arg.contains(&b'='));
        let command = command.cloned().unwrap_or_default();
        let dir = self.plan.request.dir.as_os_str().as_encoded_bytes();
        Err(Error::failed(text!("git ", command, " failed in '", dir, "' with exit code ", code.to_string()))
            .into())
    }

    pub(super) fn answer(&self, args: &[&str]) -> Result<Option<BString>, P::Error> {
        self.answer_of(words(args))
    }

    /// Returns the output of a command without white space at its end; `None` if it failed.
    pub(super) fn answer_of(&self, args: Vec<BString>) -> Result<Option<BString>, P::Error> {
        let output = self.program.read(self.step(&args))?;
        Ok(output.map(|output| output.trim_end().into()))
    }
}

pub(super) fn words(args: &[&str]) -> Vec<BString> {
    args.iter().map(|&arg| arg.into()).collect()
}

/// Returns the revision at which HEAD will be.
fn revision(head: &Head) -> &BString {
    match head {
        Head::Branch { start, .. } => start,
        Head::Detached(revision) => revision,
    }
}

fn of_plan(error: crate::PlanError) -> Error {
    match error {
        crate::PlanError::Failed(error) => error,
        // The clean-up has no such case.
        crate::PlanError::Unsupported(what) => Error::failed(what),
    }
}

fn of_run(error: RunError) -> Error {
    error.0
}
