//! A process for each submodule: the choice of the next one, and handling the end of each.

use std::{collections::HashSet, os::unix::process::CommandExt as _, path::PathBuf, process::Command};

use bstr::{BStr, BString, ByteSlice as _};
use engine::fetch::{
    remote::Remote,
    submodules::{self, Changed},
};
use format::Kind;
use repo::{Repository, keys, objects::Objects, submodule::Module};
use sapwood::ObjectId;

use super::{
    super::{context::FetchContext, options::Recurse},
    parse,
};
use crate::{
    session::{
        invocation::Program,
        reexec,
        submodules::{Submodules, connect},
        tasks::{Next, Start, Task, Work},
    },
    term::{
        console::{self, text},
        failure::Failure,
        notice::Printer,
        text::os_str,
    },
};

/// The fetch of one submodule.
pub(super) struct Job {
    name: BString,
    path: BString,
    git_dir: PathBuf,
    /// True for the second fetch, which requests commits by name.
    is_second: bool,
}

/// A submodule to fetch, and the default for submodules within it.
struct Chosen {
    job: Option<Job>,
    default: &'static str,
}

pub(super) struct Fetches<'a> {
    context: &'a FetchContext<'a>,
    repo: &'a Repository,
    superproject: &'a Submodules<'a>,
    how: Recurse,
    options: Vec<&'static str>,
    links: std::vec::IntoIter<BString>,
    changed: Vec<Changed>,
    next_changed: usize,
    /// The names of submodules that were fetched.
    seen: HashSet<BString>,
    again: Vec<(Job, Vec<ObjectId>)>,
    /// The names of submodules whose fetch failed, one per line.
    failed: BString,
    code: u8,
}

impl<'a> Fetches<'a> {
    /// Prepares the fetches of the submodules at `links`. `superproject` provides the submodules of
    /// the index, and the default of how they are fetched.
    pub(super) fn new(
        context: &'a FetchContext<'a>,
        repo: &'a Repository,
        (superproject, how): (&'a Submodules<'a>, Recurse),
        options: Vec<&'static str>,
        links: Vec<BString>,
    ) -> Fetches<'a> {
        Fetches {
            context,
            repo,
            superproject,
            how,
            options,
            links: links.into_iter(),
            changed: Vec::new(),
            next_changed: 0,
            seen: HashSet::new(),
            again: Vec::new(),
            failed: BString::default(),
            code: 0,
        }
    }

    /// Adds a submodule that fetched commits change, unless it has all the commits.
    pub(super) fn add(&mut self, changed: Changed) -> Result<(), Failure> {
        if !self.has_all(&changed)? {
            self.changed.push(changed);
        }
        Ok(())
    }

    /// Reports the failed fetches. Returns the exit code.
    pub(super) fn finish(self) -> u8 {
        if !self.failed.is_empty() {
            console::eprint_raw(&text!("Errors during submodule fetch:\n", self.failed));
        }
        self.code
    }
}

impl Work for Fetches<'_> {
    type Key = Job;

    fn next(&mut self, output: &mut Vec<u8>) -> Result<Option<Task<Job>>, Failure> {
        let prefix = self.context.request.submodule_prefix.clone().unwrap_or_default();
        let is_quiet = self.context.request.verbosity < 0;
        while let Some(path) = self.links.next() {
            let module = self.superproject.module(path.as_bstr());
            let Some(chosen) = self.choose(path.as_bstr(), module)? else { continue };
            let Some(job) = chosen.job else {
                let dir = self.repo.work_tree().map(|top| top.join(os_str(&path)));
                let is_empty =
                    dir.and_then(|dir| sys::by_path::list(&dir).ok()).is_some_and(|all| all.is_empty());
                if !is_empty {
                    self.code = 1;
                    output.extend_from_slice(&text!("Could not access submodule '", path, "'\n"));
                }
                continue;
            };
            if !is_quiet {
                output.extend_from_slice(&text!("Fetching submodule ", prefix, path, "\n"));
            }
            return Ok(Some(self.start(job, &[], chosen.default, &[])));
        }
        while let Some(changed) = self.changed.get(self.next_changed).cloned() {
            self.next_changed += 1;
            let modules = submodules::modules_of(self.repo, changed.commit)?;
            let module = modules.at(changed.path.as_bstr()).cloned();
            if !self.is_active(module.as_ref(), changed.path.as_bstr())? {
                continue;
            }
            let Some(chosen) = self.choose(changed.path.as_bstr(), module)? else { continue };
            let at = text!(" at commit ", self.repo.abbreviate(changed.commit)?, "\n");
            let Some(job) = chosen.job else {
                output.extend_from_slice(&text!("Could not access submodule '", changed.path, "'", at));
                continue;
            };
            if !is_quiet {
                output.extend_from_slice(&text!("Fetching submodule ", prefix, changed.path, at));
            }
            return Ok(Some(self.start(job, &["--work-tree=."], chosen.default, &[])));
        }
        let Some((job, commits)) = self.again.pop() else { return Ok(None) };
        let remote = Repository::open(&self.options_of(&job)).ok();
        let remote = remote.and_then(|repo| Remote::default_name(&repo).ok());
        let mut words = vec![remote.unwrap_or_else(|| "origin".into())];
        words.extend(commits.iter().map(|oid| BString::from(oid.to_string())));
        Ok(Some(self.start(job, &[], "on-demand", &words)))
    }

    fn ended(&mut self, job: Job, code: u8, _: &mut Vec<u8>) -> Result<Next, Failure> {
        if code != 0 {
            self.code = 1;
            self.failed.extend_from_slice(&text!("\t", job.name, "\n"));
        }
        let changed = self.changed.iter().find(|changed| changed.name == job.name);
        if let Some(changed) = changed.filter(|_| !job.is_second) {
            // A submodule whose worktree is missing cannot be opened as usual, but has objects.
            let repo = Repository::open(&self.options_of(&job)).ok();
            let place =
                repo.as_ref().map_or(job.git_dir.join("objects"), |repo| repo.objects_dir().to_owned());
            let objects = Objects::new(&place, self.repo.hash());
            let is_here = |oid: &ObjectId| matches!(objects.header(oid), Ok((Kind::Commit, _)));
            let missing: Vec<ObjectId> = changed.wanted.iter().copied().filter(|oid| !is_here(oid)).collect();
            if !missing.is_empty() {
                self.again.push((Job { is_second: true, ..job }, missing));
            }
        }
        Ok(Next::GoOn)
    }
}

impl Fetches<'_> {
    /// Decides about one submodule. Returns `None` if it is not fetched.
    fn choose(&mut self, path: &BStr, module: Option<Module>) -> Result<Option<Chosen>, Failure> {
        self.superproject.validate(path)?;
        let is_listed = module.is_some();
        let module = match module {
            Some(module) => module,
            // An unlisted repository in the place of a submodule counts as one.
            None if self.repo.has_submodule(path).unwrap_or(false) => {
                Module { name: path.to_owned(), fetch_recurse: Some("false".into()), ..Module::default() }
            }
            None => return Ok(None),
        };
        let name = module.name.clone();
        if self.seen.contains(&name) {
            return Ok(None);
        }
        let key = keys::submodule::ONE_FETCH_RECURSE.of(name.to_str_lossy());
        let how = match (self.how, self.repo.config_str(&key).or(module.fetch_recurse)) {
            (Recurse::Default, Some(value)) => parse(key.name(), value.as_bstr())?,
            (Recurse::Default, None) => match &self.context.request.recurse_default {
                Some(value) => parse("recurse-submodules-default", value.as_bstr())?,
                None => Recurse::OnDemand,
            },
            (how, _) => how,
        };
        let default = match how {
            Recurse::Off => return Ok(None),
            Recurse::On => "yes",
            Recurse::Default | Recurse::OnDemand => {
                if !self.changed.iter().any(|changed| changed.name == name) {
                    return Ok(None);
                }
                "on-demand"
            }
        };
        let populated = self.repo.submodule(path).ok().flatten().map(|repo| repo.git_dir().to_owned());
        let kept = || {
            let place = connect::place(self.repo, &Printer, name.as_bstr()).ok().filter(|_| is_listed)?;
            self.repo.is_git_directory(&place).then_some(place)
        };
        let job = populated.or_else(kept).map(|git_dir| Job {
            name: name.clone(),
            path: path.to_owned(),
            git_dir,
            is_second: false,
        });
        if job.is_some() {
            self.seen.insert(name);
        }
        Ok(Some(Chosen { job, default }))
    }

    fn is_active(&self, module: Option<&Module>, path: &BStr) -> Result<bool, Failure> {
        match module {
            Some(module) => Ok(self.superproject.is_active_as(module.name.as_bstr(), path)?),
            None => Ok(false),
        }
    }

    fn start(&self, job: Job, lead: &[&str], default: &str, words: &[BString]) -> Task<Job> {
        let prefix = self.context.request.submodule_prefix.clone().unwrap_or_default();
        let mut args: Vec<BString> = self.options.iter().map(|option| BString::from(*option)).collect();
        args.extend(["--recurse-submodules-default".into(), default.into()]);
        args.push(text!("--submodule-prefix=", prefix, job.path, "/"));
        args.extend_from_slice(words);
        let mut command = self.command(&job);
        command.args(lead).arg("fetch").args(args.iter().map(|arg| os_str(arg)));
        Task { key: job, what: Start::Process(Box::new(command)) }
    }

    /// Returns a command that runs this program in the repository of a submodule.
    fn command(&self, job: &Job) -> Command {
        let mut command = reexec::in_submodule(self.context.run, &job.git_dir);
        command.env("GIT_DIR", ".");
        if self.context.run.program == Program::Sapwood {
            command.arg0("sapwood");
        }
        command
    }

    fn options_of(&self, job: &Job) -> repo::OpenOptions {
        repo::OpenOptions {
            cwd: job.git_dir.clone(),
            git_dir: Some(".".into()),
            env: repo::submodule::submodule_env(&self.context.run.env),
            ..self.context.run.outside()
        }
    }

    /// Returns true if the submodule has all commits, and they are reachable from its refs.
    fn has_all(&self, changed: &Changed) -> Result<bool, Failure> {
        let current = self.superproject.modules().into_iter().find(|module| module.name == changed.name);
        let path = match current {
            Some(_) => self.superproject.path_of(changed.name.as_bstr()),
            None => {
                self.repo.has_submodule(changed.name.as_bstr()).unwrap_or(false).then(|| changed.name.clone())
            }
        };
        // Git fetches a submodule whose path is unknown.
        let Some(path) = path else { return Ok(false) };
        let Ok(Some(repo)) = self.repo.submodule(path.as_bstr()) else { return Ok(false) };
        for oid in &changed.wanted {
            match repo.objects().header(oid) {
                Err(_) => return Ok(false),
                Ok((Kind::Commit, _)) => {}
                Ok((kind, _)) => {
                    return Err(Failure::Fatal(text!(
                        "submodule entry '",
                        path,
                        "' (",
                        oid.to_string(),
                        ") is a ",
                        kind.name(),
                        ", not a commit"
                    )));
                }
            }
            let head = repo.head()?.oid();
            if repo.left_behind(*oid, head)?.total > 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
