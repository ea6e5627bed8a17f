//! The submodules that a fetch takes along: those in the index, then those that only fetched
//! commits contain.
//!
//! Order: [`Before::read`] before the fetch; [`Selection::find`] after it. Then
//! [`Selection::find_next`] gives one submodule after another, and the caller fetches several of
//! them at once if it likes. It reports the end of each to [`Selection::ended`]: a submodule that
//! lacks a commit after its fetch comes once more, with that commit by name.

use std::{collections::HashSet, path::PathBuf};

use bstr::{BStr, BString, ByteSlice as _};
use engine::fetch::{
    Report,
    map::Mapping,
    remote::Remote,
    submodules::{self, Changed},
};
use format::{Kind, ObjectId};
use repo::{OpenOptions, Repository, keys, objects::Objects, submodule::Module};

use crate::{
    Context, Error,
    index::load_index,
    submodules::{Submodules, connect},
    text,
};

/// The submodules that are fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recurse {
    /// As configured.
    #[default]
    Default,
    /// None.
    Off,
    /// Those that fetched commits change.
    OnDemand,
    /// All of them.
    On,
}

impl Recurse {
    /// Parses the value of the option or setting `name`.
    pub fn parse(name: &str, value: &BStr) -> Result<Recurse, Error> {
        match repo::parse_bool(Some(value)) {
            Some(true) => Ok(Recurse::On),
            Some(false) => Ok(Recurse::Off),
            None if value == "on-demand" => Ok(Recurse::OnDemand),
            None => Err(Error::Failed(text!("bad ", name, " argument: ", value))),
        }
    }

    /// Reads the configuration.
    fn configured(repo: &Repository) -> Result<Recurse, Error> {
        if let Some(value) = repo.config_str(&keys::fetch::RECURSE_SUBMODULES) {
            return Recurse::parse(&keys::fetch::RECURSE_SUBMODULES.lower(), value.as_bstr());
        }
        Ok(match repo.config(&keys::submodule::RECURSE)? {
            Some(true) => Recurse::On,
            Some(false) => Recurse::Off,
            None => Recurse::Default,
        })
    }
}

/// The state before the fetch.
pub struct Before {
    how: Recurse,
    /// The values of all refs; `None` without submodules.
    tips: Option<Vec<ObjectId>>,
}

impl Before {
    /// Reads how submodules are fetched, and the refs that the fetch may change.
    pub fn read(repo: &Repository, asked: Recurse) -> Result<Before, Error> {
        let how = if asked == Recurse::Default { Recurse::configured(repo)? } else { asked };
        let is_asked = how != Recurse::Off && repo.work_tree().is_some();
        let has_some = || {
            let modules = sys::by_path::list(&repo.common_dir().join("modules"));
            let file = repo.work_tree().map(|top| top.join(".gitmodules"));
            modules.is_ok_and(|found| !found.is_empty())
                || file.is_some_and(|file| matches!(sys::by_path::stat(&file), Ok(Some(_))))
        };
        let tips = if is_asked && has_some() {
            Some(repo.refs("refs/")?.into_iter().map(|(_, oid)| oid).collect())
        } else {
            None
        };
        Ok(Before { how, tips })
    }

    /// Returns true if submodules may be fetched.
    pub fn may_recurse(&self, repo: &Repository) -> bool {
        let has_some = self.tips.is_some() || self.how == Recurse::On;
        self.how != Recurse::Off && repo.work_tree().is_some() && has_some
    }
}

/// The fetch of one submodule.
#[derive(Clone, Debug)]
pub struct Job {
    /// The name.
    pub name: BString,
    /// The path in the worktree, or in [`Job::commit`].
    pub path: BString,
    /// The repository.
    pub git_dir: PathBuf,
    /// The commit that has the submodule, if it comes from there and not from the index. Then it
    /// may have no worktree.
    pub commit: Option<ObjectId>,
    /// The commits that a second fetch takes by name; empty for the first one.
    pub wanted: Vec<ObjectId>,
    /// The default for submodules within it.
    pub within: Recurse,
}

/// A submodule that is to be fetched.
#[derive(Clone, Debug)]
pub enum Found {
    /// Its repository is here.
    Job(Job),
    /// It has no repository.
    Inaccessible {
        /// The path.
        path: BString,
        /// See [`Job::commit`].
        commit: Option<ObjectId>,
    },
}

/// The submodules that are fetched.
pub struct Selection<'a> {
    context: Context<'a>,
    superproject: Submodules<'a>,
    how: Recurse,
    /// The choice for submodules without one of their own.
    default: Option<BString>,
    links: std::vec::IntoIter<BString>,
    changed: Vec<Changed>,
    next_changed: usize,
    /// The names of submodules that were fetched.
    seen: HashSet<BString>,
    again: Vec<Job>,
}

impl<'a> Selection<'a> {
    /// Finds the submodules after a fetch with the result `done`. The repository was opened since.
    /// `default` is the value of `--recurse-submodules-default`. Returns `None` if there is none.
    pub fn find(
        context: Context<'a>,
        before: Before,
        done: &Report,
        default: Option<BString>,
    ) -> Result<Option<Selection<'a>>, Error> {
        let index = load_index(context)?;
        let link = |at: usize| {
            let entry = index.entry(at);
            entry.mode.is_gitlink().then(|| index.path(&entry).to_owned())
        };
        let mut links: Vec<BString> = (0..index.len()).filter_map(link).collect();
        links.dedup();
        if links.is_empty() && before.tips.is_none() {
            return Ok(None);
        }
        let superproject = Submodules::new(context, &index, "".into())?;
        let how = match (before.how, superproject.general(&keys::fetch::RECURSE_SUBMODULES)) {
            (Recurse::Default, Some(value)) => {
                Recurse::parse(&keys::fetch::RECURSE_SUBMODULES.lower(), value.as_bstr())?
            }
            (how, _) => how,
        };
        if how == Recurse::Off {
            return Ok(None);
        }
        let mut selection = Selection {
            context,
            superproject,
            how,
            default,
            links: links.into_iter(),
            changed: Vec::new(),
            next_changed: 0,
            seen: HashSet::new(),
            again: Vec::new(),
        };
        if let Some(before) = &before.tips {
            let new = done.mapped.iter().filter(|mapping| is_new(mapping));
            let tips: Vec<ObjectId> = new.map(|mapping| mapping.oid).collect();
            for changed in submodules::changed(context.repo, &tips, before)? {
                if !selection.has_all(&changed)? {
                    selection.changed.push(changed);
                }
            }
        }
        Ok(Some(selection))
    }

    /// How submodules are fetched.
    pub fn how(&self) -> Recurse {
        self.how
    }

    /// Returns the number of fetches at once: `asked` if it is valid, else the configured one.
    pub fn jobs(&self, asked: Option<i32>) -> Result<usize, Error> {
        let repo = self.context.repo;
        let recorded = || {
            let jobs = self.superproject.general(&keys::submodule::FETCH_JOBS);
            jobs.and_then(|jobs| jobs.to_str().ok()?.parse::<i32>().ok())
        };
        let jobs = match (asked, repo.config(&keys::submodule::FETCH_JOBS)?) {
            (Some(jobs), _) if jobs >= 0 => jobs,
            (_, Some(jobs)) => jobs,
            (_, None) => match recorded() {
                Some(jobs) => jobs,
                None => repo.config(&keys::fetch::PARALLEL)?,
            },
        };
        Ok(match usize::try_from(jobs) {
            Ok(0) => sys::cores(),
            Ok(jobs) => jobs,
            Err(_) => 1,
        })
    }

    /// Returns the next submodule. May be called again after `None`, when another fetch has ended.
    pub fn find_next(&mut self) -> Result<Option<Found>, Error> {
        while let Some(path) = self.links.next() {
            let module = self.superproject.module(path.as_bstr());
            match self.choose(path.as_bstr(), module, None)? {
                None => {}
                Some(Found::Inaccessible { .. }) if self.is_empty_directory(&path) => {}
                found => return Ok(found),
            }
        }
        while let Some(changed) = self.changed.get(self.next_changed).cloned() {
            self.next_changed += 1;
            let path = changed.path.as_bstr();
            let modules = submodules::modules_of(self.context.repo, changed.commit)?;
            let Some(module) = modules.at(path).cloned() else { continue };
            if !self.superproject.is_active_as(module.name.as_bstr(), path)? {
                continue;
            }
            if let Some(found) = self.choose(path, Some(module), Some(changed.commit))? {
                return Ok(Some(found));
            }
        }
        Ok(self.again.pop().map(Found::Job))
    }

    /// Receives a submodule whose fetch has ended. It comes again if it lacks commits.
    pub fn ended(&mut self, job: Job) {
        let changed = self.changed.iter().find(|changed| changed.name == job.name);
        let Some(changed) = changed.filter(|_| job.wanted.is_empty()) else { return };
        // A submodule whose worktree is missing cannot be opened as usual, but has objects.
        let repo = self.open(&job);
        let place = repo.as_ref().map_or(job.git_dir.join("objects"), |repo| repo.objects_dir().to_owned());
        let objects = Objects::new(&place, self.context.repo.hash());
        let is_here = |oid: &ObjectId| matches!(objects.header(oid), Ok((Kind::Commit, _)));
        let wanted: Vec<ObjectId> = changed.wanted.iter().copied().filter(|oid| !is_here(oid)).collect();
        if !wanted.is_empty() {
            self.again.push(Job { wanted, commit: None, within: Recurse::OnDemand, ..job });
        }
    }

    /// Returns the default remote of a submodule.
    pub fn remote_of(&self, job: &Job) -> BString {
        let remote = self.open(job).and_then(|repo| Remote::default_name(&repo).ok());
        remote.unwrap_or_else(|| "origin".into())
    }

    fn open(&self, job: &Job) -> Option<Repository> {
        let options = self.context.repo.options_at(&job.git_dir);
        let env = repo::submodule::submodule_env(&options.env);
        Repository::open(&OpenOptions { git_dir: Some(".".into()), env, ..options }).ok()
    }

    fn is_empty_directory(&self, path: &BString) -> bool {
        let dir = self.context.repo.work_tree().map(|top| top.join(sys::os_str(path)));
        dir.and_then(|dir| sys::by_path::list(&dir).ok()).is_some_and(|all| all.is_empty())
    }

    /// Decides about one submodule. Returns `None` if it is not fetched.
    fn choose(
        &mut self,
        path: &BStr,
        module: Option<Module>,
        commit: Option<ObjectId>,
    ) -> Result<Option<Found>, Error> {
        let Context { repo, events, .. } = self.context;
        self.superproject.validate(path)?;
        let is_listed = module.is_some();
        let module = match module {
            Some(module) => module,
            // An unlisted repository in the place of a submodule counts as one.
            None if repo.has_submodule(path).unwrap_or(false) => {
                Module { name: path.to_owned(), fetch_recurse: Some("false".into()), ..Module::default() }
            }
            None => return Ok(None),
        };
        let name = module.name.clone();
        if self.seen.contains(&name) {
            return Ok(None);
        }
        let key = keys::submodule::ONE_FETCH_RECURSE.of(name.to_str_lossy());
        let how = match (self.how, repo.config_str(&key).or(module.fetch_recurse)) {
            (Recurse::Default, Some(value)) => Recurse::parse(key.name(), value.as_bstr())?,
            (Recurse::Default, None) => match &self.default {
                Some(value) => Recurse::parse("recurse-submodules-default", value.as_bstr())?,
                None => Recurse::OnDemand,
            },
            (how, _) => how,
        };
        let within = match how {
            Recurse::Off => return Ok(None),
            Recurse::On => Recurse::On,
            Recurse::Default | Recurse::OnDemand => {
                if !self.changed.iter().any(|changed| changed.name == name) {
                    return Ok(None);
                }
                Recurse::OnDemand
            }
        };
        let populated = repo.submodule(path).ok().flatten().map(|repo| repo.git_dir().to_owned());
        let kept = || {
            let place = connect::place(repo, events, name.as_bstr()).ok().filter(|_| is_listed)?;
            repo.is_git_directory(&place).then_some(place)
        };
        let path = path.to_owned();
        let Some(git_dir) = populated.or_else(kept) else {
            return Ok(Some(Found::Inaccessible { path, commit }));
        };
        self.seen.insert(name.clone());
        Ok(Some(Found::Job(Job { name, path, git_dir, commit, wanted: Vec::new(), within })))
    }

    /// Returns true if the submodule has all commits, and they are reachable from its refs.
    fn has_all(&self, changed: &Changed) -> Result<bool, Error> {
        let superproject = self.context.repo;
        let current = self.superproject.modules().into_iter().find(|module| module.name == changed.name);
        let path = match current {
            Some(_) => self.superproject.path_of(changed.name.as_bstr()),
            None => {
                let is_there = superproject.has_submodule(changed.name.as_bstr()).unwrap_or(false);
                is_there.then(|| changed.name.clone())
            }
        };
        // Git fetches a submodule whose path is unknown.
        let Some(path) = path else { return Ok(false) };
        let Ok(Some(repo)) = superproject.submodule(path.as_bstr()) else { return Ok(false) };
        for oid in &changed.wanted {
            match repo.objects().header(oid) {
                Err(_) => return Ok(false),
                Ok((Kind::Commit, _)) => {}
                Ok((kind, _)) => {
                    let kind = kind.name();
                    let text = text!("submodule entry '", path, "' (", oid.to_string(), ") is a ", kind);
                    return Err(Error::Failed(text!(text, ", not a commit")));
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

/// Returns true if a ref brings commits that its local ref did not have.
fn is_new(mapping: &Mapping) -> bool {
    let old = mapping.local.as_ref().map(|local| local.old);
    !mapping.rejected_shallow && old.is_none_or(|old| old != Some(mapping.oid))
}
