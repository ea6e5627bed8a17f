//! `submodule update`: updates each submodule to the commit that the superproject records.

use std::process::Command;

use bstr::{BStr, BString, ByteSlice as _};
use repo::{Repository, keys};
use sapwood::{
    ObjectId,
    index::Stage,
    submodule::{
        Strategy,
        remote::{self, Missing},
    },
};

use super::{
    clone::{Clones, Wanted},
    fetch::{self, FetchExtent},
    init,
    list::{self, Link, Superproject},
    options::{Request, UPDATE},
};
use crate::{
    session::{invocation::Invocation, reexec, settings::Settings, submodules::connect, tasks},
    term::{
        console::{self, text},
        failure::Failure,
        text::os_str,
    },
};

/// A submodule that has a repository, and will be updated.
#[derive(Clone, Debug)]
struct Update {
    path: BString,
    name: BString,
    commit: ObjectId,
    is_new: bool,
}

/// Runs the command. Returns its exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let specs = UPDATE.parse(args)?.store(&mut request)?;
    request.init |= request.require_init;
    let mut repo = run.open()?;
    let settings = Settings::read(&repo)?;
    let index = list::index(&repo, &settings)?;
    let super_prefix = request.super_prefix.clone();
    let superproject = Superproject::new(run, &repo, &settings, &index, super_prefix.clone())?;
    let jobs = jobs(&superproject, &request)?;
    let links = superproject.links(&index, &specs)?;
    if request.init {
        init::register(&superproject, links.clone(), &specs, request.quiet)?;
        // The new settings apply from here on.
        let has_warned = superproject.submodules.has_warned();
        drop(superproject);
        repo = run.open()?;
        let superproject = Superproject::new(run, &repo, &settings, &index, super_prefix)?;
        superproject.submodules.set_warned(has_warned);
        return update(&superproject, &request, links, !specs.is_empty(), jobs);
    }
    update(&superproject, &request, links, !specs.is_empty(), jobs)
}

/// Returns the number of parallel clones.
fn jobs(superproject: &Superproject<'_>, request: &Request) -> Result<usize, Failure> {
    let parse = |text: &BString| text.to_str().ok().and_then(|text| text.parse::<i64>().ok());
    let configured = || -> Result<Option<i64>, Failure> {
        let number = match superproject.repo.config(&keys::submodule::FETCH_JOBS)? {
            Some(number) => Some(i64::from(number)),
            None => superproject.submodules.general(&keys::submodule::FETCH_JOBS).as_ref().and_then(parse),
        };
        match number {
            Some(..0) => Err(Failure::fatal("negative values not allowed for submodule.fetchJobs")),
            number => Ok(number),
        }
    };
    let configured = configured()?;
    let number = request.jobs.as_ref().and_then(parse).or(configured).unwrap_or(1);
    Ok(usize::try_from(number).ok().filter(|&number| number > 0).unwrap_or_else(sys::cores))
}

fn update(
    superproject: &Superproject<'_>,
    request: &Request,
    links: Vec<Link>,
    named: bool,
    jobs: usize,
) -> Result<u8, Failure> {
    let mut updates = Vec::new();
    let look =
        |link: Link, output: &mut Vec<u8>| look(superproject, request, link, named, &mut updates, output);
    let mut clones = Clones {
        superproject,
        request,
        links: links.into_iter(),
        retries: Default::default(),
        look: Box::new(look),
        gave_up: false,
    };
    tasks::run(superproject.run, jobs, &mut clones)?;
    let gave_up = clones.gave_up;
    drop(clones);
    if gave_up {
        return Ok(1);
    }
    let mut code = 0;
    for one in updates {
        superproject.run.interrupt.check()?;
        let ended = match update_one(superproject, request, &one, jobs) {
            Ok(code) => code,
            Err(failure @ Failure::Signal(_)) => return Err(failure),
            Err(failure) => {
                failure.print();
                failure.code()
            }
        };
        match ended {
            0 => {}
            128 => return Ok(128),
            other => code = other,
        }
    }
    Ok(code)
}

/// Decides about one submodule. Returns it if it must be cloned, and adds it to `updates` unless it
/// is skipped.
fn look(
    superproject: &Superproject<'_>,
    request: &Request,
    link: Link,
    named: bool,
    updates: &mut Vec<Update>,
    output: &mut Vec<u8>,
) -> Result<Option<Wanted>, Failure> {
    let path = link.path.as_bstr();
    let shown = superproject.shown(path);
    if link.stage != Stage::Normal {
        output.extend_from_slice(&text!("Skipping unmerged submodule ", shown, "\n"));
        return Ok(None);
    }
    let mut say_missing = || {
        if named {
            output.extend_from_slice(&text!("Submodule path '", shown, "' not initialized\n"));
            output.extend_from_slice(b"Maybe you want to use 'update --init'?\n");
        }
    };
    let Some(module) = superproject.submodules.module(path) else {
        say_missing();
        return Ok(None);
    };
    let name = module.name.as_bstr();
    let configured = list::setting(superproject.repo, name, keys::submodule::ONE_UPDATE);
    let mode = configured.as_ref().or(module.update.as_ref());
    if request.strategy.is_none() && mode.is_some_and(|mode| mode == "none") {
        output.extend_from_slice(&text!("Skipping submodule '", shown, "'\n"));
        return Ok(None);
    }
    if !superproject.submodules.is_active(path)? {
        say_missing();
        return Ok(None);
    }
    let url = match (list::setting(superproject.repo, name, keys::submodule::ONE_URL), &module.url) {
        (Some(url), _) => url,
        (None, Some(url)) if repo::wire::url::is_relative(url.as_bstr()) => {
            remote::resolve(superproject, url.as_bstr(), Missing::Warn)?
        }
        (None, Some(url)) => url.clone(),
        (None, None) => {
            return Err(Failure::Fatal(text!("cannot clone submodule '", name, "' without a URL")));
        }
    };
    let is_new = matches!(sys::by_path::stat(&superproject.dir(path).join(".git")), Ok(None) | Err(_));
    updates.push(Update { path: path.to_owned(), name: name.to_owned(), commit: link.commit, is_new });
    if !is_new {
        return Ok(None);
    }
    let recommended = request.recommend_shallow != Some(false)
        && module
            .shallow
            .as_ref()
            .is_some_and(|shallow| repo::parse_bool(Some(shallow.as_bstr())) == Some(true));
    let depth = if recommended { Some("1".into()) } else { request.depth.clone() };
    Ok(Some(Wanted { name: name.to_owned(), link, url, depth }))
}

/// Updates one submodule and its nested submodules. Returns the exit code.
fn update_one(
    superproject: &Superproject<'_>,
    request: &Request,
    one: &Update,
    jobs: usize,
) -> Result<u8, Failure> {
    let path = one.path.as_bstr();
    superproject.submodules.validate(path)?;
    let submodule = fetch::open(superproject, path)?;
    connect::renew_worktree(&superproject.dir(path), submodule.git_dir(), superproject.settings)?;
    let strategy = strategy(superproject, request, one)?;
    let head = if one.is_new {
        None
    } else {
        let head = submodule.head().ok().and_then(|head| head.oid());
        let unknown = || {
            let shown = superproject.shown(path);
            Failure::Fatal(text!("Unable to find current revision in submodule path '", shown, "'"))
        };
        Some(head.ok_or_else(unknown)?)
    };
    let commit =
        if request.remote { remote_commit(superproject, request, path, &submodule)? } else { one.commit };
    drop(submodule);
    if head != Some(commit) || request.force {
        if !request.no_fetch {
            fetch::ensure(superproject, request, path, commit)?;
        }
        let code = bring(superproject, request, path, commit, &strategy, head.is_none() || request.force)?;
        if code != 0 {
            return Ok(code);
        }
    }
    if !request.recursive {
        return Ok(0);
    }
    let code = reexec::run(superproject.run, nested(superproject, request, path, jobs))?;
    if code != 0 {
        let shown = superproject.shown(path);
        console::report("fatal", text!("Failed to recurse into submodule path '", shown, "'"));
    }
    Ok(code)
}

fn strategy(superproject: &Superproject<'_>, request: &Request, one: &Update) -> Result<Strategy, Failure> {
    let strategy = match (
        &request.strategy,
        list::setting(superproject.repo, one.name.as_bstr(), keys::submodule::ONE_UPDATE),
    ) {
        (Some(strategy), _) => strategy.clone(),
        (None, Some(value)) => Strategy::parse(&value).ok_or_else(|| {
            Failure::Fatal(text!(
                "Invalid update mode '",
                value,
                "' configured for submodule path '",
                one.path,
                "'"
            ))
        })?,
        (None, None) => {
            match superproject.submodules.module(one.path.as_bstr()).and_then(|module| module.update) {
                Some(update) => list::recorded(one.name.as_bstr(), &update)?,
                None => Strategy::Checkout,
            }
        }
    };
    Ok(match strategy {
        Strategy::Merge | Strategy::Rebase | Strategy::None if one.is_new => Strategy::Checkout,
        strategy => strategy,
    })
}

/// Returns the tip of the branch that the submodule follows, fetched unless `--no-fetch` was given.
fn remote_commit(
    superproject: &Superproject<'_>,
    request: &Request,
    path: &BStr,
    submodule: &Repository,
) -> Result<ObjectId, Failure> {
    let remote = remote::of_submodule(superproject, path, submodule)?;
    let branch = followed_branch(superproject, path)?;
    if !request.no_fetch && fetch::fetch(superproject, request, path, FetchExtent::Branches, false)? != 0 {
        return Err(Failure::Fatal(text!("Unable to fetch in submodule path '", path, "'")));
    }
    let name = text!("refs/remotes/", remote, "/", branch);
    // Open the submodule again after the fetch.
    let found = fetch::open(superproject, path)?.find_ref(name.as_bstr()).ok().flatten();
    found.ok_or_else(|| {
        Failure::Fatal(text!("Unable to find ", name, " revision in submodule path '", path, "'"))
    })
}

fn followed_branch(superproject: &Superproject<'_>, path: &BStr) -> Result<BString, Failure> {
    let module = superproject.submodules.module(path).unwrap_or_default();
    let configured = list::setting(superproject.repo, module.name.as_bstr(), keys::submodule::ONE_BRANCH);
    let Some(branch) = configured.or(module.branch) else { return Ok("HEAD".into()) };
    if branch != "." {
        return Ok(branch);
    }
    let head = superproject.repo.head()?;
    match head.branch().map(|branch| branch.strip_prefix(b"refs/heads/").ok_or(branch)) {
        Some(Ok(branch)) => Ok(branch.into()),
        Some(Err(name)) => Err(Failure::Fatal(text!("Expecting a full ref name, got ", name))),
        None => Err(Failure::Fatal(text!(
            "Submodule (",
            module.name,
            ") branch configured to inherit branch from superproject, but the superproject is not on any branch"
        ))),
    }
}

/// Runs the command that updates the submodule to `commit`. Returns its exit code.
fn bring(
    superproject: &Superproject<'_>,
    request: &Request,
    path: &BStr,
    commit: ObjectId,
    strategy: &Strategy,
    forced: bool,
) -> Result<u8, Failure> {
    let (run, dir, hex) = (superproject.run, superproject.dir(path), commit.to_string());
    let quiet = request.quiet.then_some("--quiet");
    let mut command = match strategy {
        Strategy::Command(command) => {
            let mut shell = Command::new("/bin/sh");
            shell.arg("-c").arg(os_str(&text!(command, " \"$@\""))).arg(os_str(command));
            let env = repo::submodule::submodule_env(&run.env);
            shell.env_clear().envs(env).current_dir(&dir);
            shell
        }
        _ => reexec::in_submodule(run, &dir),
    };
    match strategy {
        Strategy::Checkout => command.args(["checkout", "-q"]).args(forced.then_some("-f")),
        Strategy::Rebase => command.arg("rebase").args(quiet),
        Strategy::Merge => command.arg("merge").args(quiet),
        Strategy::None | Strategy::Command(_) => &mut command,
    };
    command.env("GIT_PROTOCOL_FROM_USER", "0").arg(&hex);
    let code = reexec::run(run, command)?;
    let shown = superproject.shown(path);
    if code != 0 {
        let (failed, code) = match strategy {
            Strategy::Rebase => (text!("Unable to rebase '", hex, "'"), 128),
            Strategy::Merge => (text!("Unable to merge '", hex, "'"), 128),
            Strategy::Command(command) => (text!("Execution of '", command, " ", hex, "' failed"), 128),
            _ => (text!("Unable to checkout '", hex, "'"), code),
        };
        console::report("fatal", text!(failed, " in submodule path '", shown, "'"));
        return Ok(code);
    }
    if !request.quiet {
        let done = match strategy {
            Strategy::Rebase => text!("rebased into '", hex, "'"),
            Strategy::Merge => text!("merged in '", hex, "'"),
            Strategy::Command(command) => text!("'", command, " ", hex, "'"),
            _ => text!("checked out '", hex, "'"),
        };
        console::out(text!("Submodule path '", shown, "': ", done));
    }
    Ok(0)
}

/// Returns the command that updates the submodules nested in the one at `path`.
fn nested(superproject: &Superproject<'_>, request: &Request, path: &BStr, jobs: usize) -> Command {
    let mut git = reexec::in_submodule(superproject.run, &superproject.dir(path));
    git.env("GIT_PROTOCOL_FROM_USER", "0").args(["submodule--helper", "update", "--recursive"]);
    git.arg(os_str(&text!("--super-prefix=", superproject.shown(path), "/"))).arg(format!("--jobs={jobs}"));
    let flags = [
        ("--quiet", request.quiet),
        ("--force", request.force),
        ("--init", request.init),
        ("--remote", request.remote),
        ("--no-fetch", request.no_fetch),
        ("--dissociate", request.dissociate),
        ("--progress", request.progress),
        ("--require-init", request.require_init),
        ("--checkout", request.strategy == Some(Strategy::Checkout)),
        ("--merge", request.strategy == Some(Strategy::Merge)),
        ("--rebase", request.strategy == Some(Strategy::Rebase)),
        ("--recommend-shallow", request.recommend_shallow == Some(true)),
        ("--no-recommend-shallow", request.recommend_shallow == Some(false)),
        ("--single-branch", request.single_branch == Some(true)),
        ("--no-single-branch", request.single_branch == Some(false)),
    ];
    git.args(flags.iter().filter(|(_, given)| *given).map(|(name, _)| name));
    let texts = [
        ("--depth=", request.depth.as_ref()),
        ("--ref-format=", request.ref_format.as_ref()),
        ("--filter=", request.filter.as_ref()),
    ];
    for (name, value) in texts {
        git.args(value.map(|value| os_str(&text!(name, value)).to_owned()));
    }
    for reference in &request.references {
        git.arg("--reference").arg(os_str(reference));
    }
    git
}
