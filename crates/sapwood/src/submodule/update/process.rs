//! The operations of an update in this process: clones in threads, the others one after another.

use std::{
    cell::RefCell,
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use bstr::{BString, ByteSlice as _};
use format::ObjectId;
use repo::OpenOptions;

use super::{
    Bring, Failed, Fetch, NewRepository, Place, Report, Request, Selected, Source, Step, Updated, Wanted,
    finish, one, plan, prepare, select,
};
use crate::{
    Error, Events, Notice, Repository, RunError,
    clone::{self, Reference},
    events::Notices,
    fetch, hooks,
    submodule::{Link, Strategy, Superproject, init},
    switch::{self, Discard, Rules},
    text,
    transaction::Done,
};

/// The update of a superproject's submodules.
pub(super) struct Process<'a, E> {
    superproject: &'a Superproject<'a>,
    request: &'a Request,
    repository: &'a Repository,
    events: &'a E,
    report: RefCell<Report>,
    /// The names of the submodules that were cloned or found.
    names: RefCell<Vec<BString>>,
}

/// A clone in its own thread: its notices, and its end.
type Cloned = (Vec<Notice>, Result<(), Error>);

impl<'a, E: Events> Process<'a, E> {
    pub(super) fn new(
        superproject: &'a Superproject<'a>,
        request: &'a Request,
        repository: &'a Repository,
        events: &'a E,
    ) -> Process<'a, E> {
        let (report, names) = Default::default();
        Process { superproject, request, repository, events, report, names }
    }

    pub(super) fn into_report(self) -> Report {
        self.report.into_inner()
    }

    /// Clones what is missing, and updates each submodule.
    pub(super) fn update(&self, links: &[Link], jobs: usize) -> Result<(), Error> {
        let (mut updates, mut wanted) = (Vec::new(), Vec::new());
        for link in links {
            match select(self.superproject, self.request, link, &init::Changes::default())? {
                Selected::Skipped(skipped) => self.report.borrow_mut().skipped.push(skipped),
                Selected::Update(update) => updates.push(update),
                Selected::New(update, new) => {
                    updates.push(update);
                    wanted.push(new);
                }
            }
        }
        self.clone_all(wanted, jobs)?;
        for update in updates {
            self.superproject.context().check_interrupt()?;
            match one(self.superproject, self.request, &update, self) {
                Ok(()) => {}
                Err(Failed::Brought { path, cause: RunError(cause), .. }) if is_refusal(&cause) => {
                    self.report.borrow_mut().refused.push((path, cause));
                }
                Err(failed) => return Err(failed.into()),
            }
        }
        Ok(())
    }

    /// Clones. A clone that fails is tried once more after the others, as in Git.
    fn clone_all(&self, wanted: Vec<Wanted>, jobs: usize) -> Result<(), Error> {
        let mut again = Vec::new();
        for (wanted, error) in self.clone_each(wanted, jobs)? {
            let scheduled = text!("Failed to clone '", wanted.path, "'. Retry scheduled");
            self.events.notice(Notice::FetchError(error.to_string().into()));
            self.events.notice(Notice::Transfer(scheduled));
            again.push(wanted);
        }
        let failed = self.clone_each(again, jobs)?.into_iter().next();
        failed.map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Clones each, and connects it. Returns the ones that failed.
    fn clone_each(&self, wanted: Vec<Wanted>, jobs: usize) -> Result<Vec<(Wanted, Error)>, Error> {
        let (mut new, mut ready, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        for wanted in wanted {
            let names = &mut self.names.borrow_mut();
            match prepare(self.superproject, self.request, &wanted, names) {
                Ok(Step::Connect) => ready.push(wanted),
                Ok(Step::Clone(place)) => new.push((wanted, place)),
                Err(error) => failed.push((wanted, error)),
            }
        }
        let cloned = self.clone_side_by_side(&new, jobs);
        for ((wanted, _), (notices, done)) in new.into_iter().zip(cloned) {
            notices.into_iter().for_each(|notice| self.events.notice(notice));
            match done {
                Ok(()) => ready.push(wanted),
                Err(Error::Interrupted) => return Err(Error::Interrupted),
                Err(error) => {
                    let message = text!(wanted.failed(self.superproject).to_string());
                    failed.push((wanted, Error::Submodule { message, cause: Box::new(error) }));
                }
            }
        }
        for wanted in ready {
            if let Err(error) = finish(self.superproject, self.request, &wanted) {
                failed.push((wanted, error));
            }
        }
        Ok(failed)
    }

    /// Runs the clones, up to `jobs` at once. Returns their ends, in order.
    fn clone_side_by_side(&self, new: &[(Wanted, NewRepository)], jobs: usize) -> Vec<Cloned> {
        let options = self.options(&self.superproject.dir("".into()));
        let (request, interrupt) = (self.request, self.repository.interrupt());
        let (next, ends) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let work = || {
            while let Some((at, (wanted, place))) =
                Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, new.get(at)?)))
            {
                let heard = Notices::default();
                let plan =
                    clone::plan_with(options.clone(), place.request(request, wanted), interrupt.clone());
                let done = plan.map_err(Error::from).and_then(|plan| Ok(plan.run(&heard).map(drop)?));
                ends.lock().unwrap_or_else(PoisonError::into_inner).push((at, (heard.into_vec(), done)));
            }
        };
        thread::scope(|scope| {
            for _ in 0..jobs.min(new.len()) {
                scope.spawn(work);
            }
        });
        let mut ends = ends.into_inner().unwrap_or_else(PoisonError::into_inner);
        ends.sort_by_key(|(at, _)| *at);
        ends.into_iter().map(|(_, end)| end).collect()
    }

    /// Returns the options of Git's child process in a directory. It is not the user who chose the
    /// addresses of submodules.
    fn options(&self, dir: &Path) -> OpenOptions {
        let mut options = self.superproject.repo.options_at(dir);
        options.env = repo::submodule::submodule_env(&options.env);
        options.env.insert("GIT_PROTOCOL_FROM_USER".into(), "0".into());
        options
    }

    fn open(&self, place: Place<'_>) -> Result<Repository, Error> {
        let opened = repo::Repository::open(&self.options(place.dir))?;
        Repository::of(opened, self.repository.interrupt())
    }

    fn fetch_in(&self, place: Place<'_>, extent: Fetch) -> Result<bool, Error> {
        let mut request = fetch::Request::default();
        request.limits.depth = self.request.depth.filter(|&depth| depth > 0);
        if let Fetch::Commit(remote, commit) = extent {
            request.remote = Some(remote);
            request.refspecs = vec![commit.to_string().into()];
        }
        let repository = self.open(place)?;
        let report = fetch::plan(&repository, request).map_err(Error::from)?.run(self.events)?;
        Ok(!report.fetched.has_failures)
    }

    fn switch(&self, place: Place<'_>, bring: &Bring) -> Result<(), Error> {
        let repository = self.open(place)?;
        let request = switch::Request {
            target: Some(bring.commit.to_string().into()),
            rules: Rules::Checkout,
            discard: if bring.force { Discard::ChangesAndUntracked } else { Discard::Nothing },
            ..switch::Request::default()
        };
        let report = switch::plan(&repository, request).map_err(Error::from)?.run(self.events)?;
        if report.done == Done::Complete && report.hook == 0 { Ok(()) } else { Err(Error::NotCheckedOut) }
    }
}

/// Returns true if only the worktree of one submodule is concerned.
fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Refused(_) | Error::NotCheckedOut)
}

impl NewRepository {
    fn request(&self, request: &Request, wanted: &Wanted) -> clone::Request {
        let bytes = |path: &Path| BString::from(path.as_os_str().as_encoded_bytes());
        let reference = |name: &BString| Reference { repository: name.clone(), required: true };
        clone::Request {
            source: wanted.url.clone(),
            directory: Some(bytes(&self.dir)),
            separate_git_dir: Some(bytes(&self.git_dir)),
            no_checkout: true,
            depth: wanted.depth.filter(|&depth| depth > 0),
            references: self.references.iter().map(reference).collect(),
            dissociate: request.dissociate,
            single_branch: request.single_branch,
            filter: request.filter.clone(),
            ..clone::Request::default()
        }
    }
}

impl<E: Events> Source for Process<'_, E> {
    type Error = RunError;

    fn fetch(&self, place: Place<'_>, fetch: Fetch) -> Result<bool, RunError> {
        match self.fetch_in(place, fetch) {
            Ok(done) => Ok(done),
            Err(Error::Interrupted) => Err(Error::Interrupted.into()),
            Err(error) => {
                self.events.notice(Notice::FetchError(error.to_string().into()));
                Ok(false)
            }
        }
    }

    fn bring(&self, place: Place<'_>, bring: &Bring) -> Result<(), RunError> {
        match &bring.strategy {
            Strategy::Checkout | Strategy::None => Ok(self.switch(place, bring)?),
            Strategy::Merge | Strategy::Rebase => Err(Error::NotSupported("merging in a submodule").into()),
            Strategy::Command(command) => {
                let repository = self.open(place)?;
                let (context, args) = (repository.context(self.events), [bring.commit.to_string()]);
                match hooks::in_shell_at(context, place.dir, command.as_bstr(), &args) {
                    0 => Ok(()),
                    code => Err(Error::failed(format!("exit code {code}")).into()),
                }
            }
        }
    }

    fn nested(&self, place: Place<'_>) -> Result<(), RunError> {
        let request = Request {
            pathspecs: Default::default(),
            super_prefix: Some(text!(place.shown, "/")),
            ..self.request.clone()
        };
        let repository = self.open(place)?;
        let report = plan(&repository, request).map_err(Error::from)?.run(self.events)?;
        self.report.borrow_mut().add(report);
        Ok(())
    }

    fn fetches_commit(&self, place: Place<'_>, commit: ObjectId) {
        let hex = commit.to_string();
        let failed = text!("Unable to fetch in submodule path '", place.shown, "'");
        self.events.notice(Notice::Transfer(text!(failed, "; trying to directly fetch ", hex, ":")));
    }

    fn updated(&self, updated: Updated) {
        self.report.borrow_mut().updated.push(updated);
    }
}
