//! `submodule update`: updates each submodule to the commit that the superproject records. See
//! [`sapwood::submodule::update`].

use std::process::Command;

use bstr::{BString, ByteSlice as _};
use sapwood::{
    ObjectId,
    submodule::{
        Strategy,
        update::{self, Bring, Failed, Fetch, Place, Source, Updated},
    },
};

use super::{
    clone::Clones,
    init,
    list::{self, Link, Superproject},
    options::{Request, UPDATE},
};
use crate::{
    commands::paths,
    session::{invocation::Invocation, reexec, settings::Settings, tasks},
    term::{
        console::{self, text},
        failure::Failure,
        text::os_str,
    },
};

/// Runs the command. Returns its exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let specs = UPDATE.parse(args)?.store(&mut request)?;
    request.finish()?;
    let mut repo = run.open()?;
    let settings = Settings::read(&repo)?;
    let index = list::index(&repo, &settings)?;
    let super_prefix = request.update.super_prefix.clone();
    let superproject = Superproject::new(run, &repo, &settings, &index, super_prefix.clone())?;
    let jobs = update::jobs(&superproject, request.update.jobs)?;
    request.update.pathspecs = paths::parse(run, &repo, &specs)?;
    let links = sapwood::submodule::links(&index, &request.update.pathspecs)?;
    if request.update.init {
        init::register(&superproject, links.clone(), &specs, request.quiet)?;
        // The new settings apply from here on.
        let has_warned = superproject.submodules.has_warned();
        drop(superproject);
        repo = run.open()?;
        let superproject = Superproject::new(run, &repo, &settings, &index, super_prefix)?;
        superproject.submodules.set_warned(has_warned);
        return update(&superproject, &request, links, jobs);
    }
    update(&superproject, &request, links, jobs)
}

fn update(
    superproject: &Superproject<'_>,
    request: &Request,
    links: Vec<Link>,
    jobs: usize,
) -> Result<u8, Failure> {
    let mut clones = Clones {
        superproject,
        request,
        links: links.into_iter(),
        names: Vec::new(),
        retries: Default::default(),
        updates: Vec::new(),
        gave_up: false,
    };
    tasks::run(superproject.run, jobs, &mut clones)?;
    if clones.gave_up {
        return Ok(1);
    }
    let children = Children { superproject, request, jobs };
    let mut code = 0;
    for one in clones.updates {
        superproject.run.interrupt.check()?;
        match update::one(superproject, &request.update, &one, &children).map_or_else(code_of, |()| Ok(0))? {
            0 => {}
            128 => return Ok(128),
            other => code = other,
        }
    }
    Ok(code)
}

/// Prints the messages of a submodule that was not updated. Returns Git's exit code.
fn code_of(failed: Failed<Failure>) -> Result<u8, Failure> {
    let (cause, message, is_fatal) = match failed {
        Failed::Brought { path, bring, cause } => {
            let is_fatal = !matches!(bring.strategy, Strategy::Checkout | Strategy::None);
            (cause, Some(bring.failed(path.as_bstr())), is_fatal)
        }
        Failed::Nested { path, cause } => {
            (cause, Some(text!("Failed to recurse into submodule path '", path, "'")), false)
        }
        Failed::Other(cause) => (cause, None, false),
    };
    if let Failure::Signal(_) = cause {
        return Err(cause);
    }
    cause.print();
    // After a process that cannot be started, there is no other message.
    if let (Failure::Reported(_), Some(message)) = (&cause, message) {
        console::report("fatal", message);
        return Ok(if is_fatal { 128 } else { cause.code() });
    }
    Ok(cause.code())
}

/// The operations in a submodule, each a process.
struct Children<'a> {
    superproject: &'a Superproject<'a>,
    request: &'a Request,
    jobs: usize,
}

impl Source for Children<'_> {
    type Error = Failure;

    fn fetch(&self, place: Place<'_>, fetch: Fetch) -> Result<bool, Failure> {
        let mut git = self.command(place, "fetch");
        if self.request.quiet && fetch != Fetch::Followed {
            git.arg("--quiet");
        }
        if let Some(depth) = self.request.update.depth.filter(|&depth| depth > 0) {
            git.arg(format!("--depth={depth}"));
        }
        if let Fetch::Commit(remote, commit) = fetch {
            git.arg(os_str(&remote)).arg(commit.to_string());
        }
        Ok(reexec::run(self.superproject.run, git)? == 0)
    }

    fn bring(&self, place: Place<'_>, bring: &Bring) -> Result<(), Failure> {
        let quiet = self.request.quiet.then_some("--quiet");
        let mut command = match &bring.strategy {
            Strategy::Command(command) => self.shell(place, command),
            Strategy::Rebase => self.command(place, "rebase"),
            Strategy::Merge => self.command(place, "merge"),
            Strategy::Checkout | Strategy::None => self.command(place, "checkout"),
        };
        match &bring.strategy {
            Strategy::Checkout | Strategy::None => command.arg("-q").args(bring.force.then_some("-f")),
            Strategy::Rebase | Strategy::Merge => command.args(quiet),
            Strategy::Command(_) => &mut command,
        };
        command.arg(bring.commit.to_string());
        self.wait(command)
    }

    fn nested(&self, place: Place<'_>) -> Result<(), Failure> {
        self.wait(self.nested_command(place))
    }

    fn fetches_commit(&self, place: Place<'_>, commit: ObjectId) {
        if !self.request.quiet {
            let hex = commit.to_string();
            let failed = text!("Unable to fetch in submodule path '", place.shown, "'");
            console::eprint_line(text!(failed, "; trying to directly fetch ", hex, ":"));
        }
    }

    fn updated(&self, updated: Updated) {
        if !self.request.quiet {
            console::out(updated.text());
        }
    }
}

impl Children<'_> {
    fn wait(&self, command: Command) -> Result<(), Failure> {
        match reexec::run(self.superproject.run, command)? {
            0 => Ok(()),
            code => Err(Failure::Reported(code)),
        }
    }

    fn command(&self, place: Place<'_>, name: &str) -> Command {
        let mut git = reexec::in_submodule(self.superproject.run, place.dir);
        git.env("GIT_PROTOCOL_FROM_USER", "0").arg(name);
        git
    }

    fn shell(&self, place: Place<'_>, command: &BString) -> Command {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(os_str(&text!(command, " \"$@\""))).arg(os_str(command));
        let env = repo::submodule::submodule_env(&self.superproject.run.env);
        shell.env_clear().envs(&env).current_dir(place.dir).env("GIT_PROTOCOL_FROM_USER", "0");
        shell
    }

    /// Returns the command that updates the submodules within a submodule.
    fn nested_command(&self, place: Place<'_>) -> Command {
        let (request, update) = (self.request, &self.request.update);
        let mut git = self.command(place, "submodule--helper");
        git.args(["update", "--recursive"]);
        git.arg(os_str(&text!("--super-prefix=", place.shown, "/"))).arg(format!("--jobs={}", self.jobs));
        let flags = [
            ("--quiet", request.quiet),
            ("--force", update.force),
            ("--init", update.init),
            ("--remote", update.remote),
            ("--no-fetch", update.no_fetch),
            ("--dissociate", update.dissociate),
            ("--progress", request.progress),
            ("--require-init", update.require_init),
            ("--checkout", update.strategy == Some(Strategy::Checkout)),
            ("--merge", update.strategy == Some(Strategy::Merge)),
            ("--rebase", update.strategy == Some(Strategy::Rebase)),
            ("--recommend-shallow", update.recommend_shallow == Some(true)),
            ("--no-recommend-shallow", update.recommend_shallow == Some(false)),
            ("--single-branch", update.single_branch == Some(true)),
            ("--no-single-branch", update.single_branch == Some(false)),
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
        for reference in &update.references {
            git.arg("--reference").arg(os_str(reference));
        }
        git
    }
}
