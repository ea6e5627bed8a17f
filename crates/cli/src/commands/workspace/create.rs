//! `workspace create`.
//!
//! The worktree is added like `git worktree add`, with files from a base. With `--exec`, the
//! command runs in the new workspace; then the workspace is removed unless it has unsaved work.

use std::{
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    rc::Rc,
};

use bstr::{BString, ByteSlice as _};
use engine::{
    workspace::{
        backend::Backend,
        frozen,
        record::{self, Durability, Workspace},
    },
    worktree::admin,
};
use sapwood::{
    workspace::{
        create::{self, Hooks, Sharing},
        seal::{self, Start},
    },
    worktree::records::Given,
};
use serde_json::Value;

use super::{
    build,
    context::{self, Context},
    doctor, exec,
    list::describe,
    maker::{Maker, WorkspaceOptions},
    mounts, quota,
    remove::{self, Force},
    request::{CREATE, Request},
    submodules, with,
};
use crate::{
    commands::worktree::{
        add,
        context::{self as worktree_context, WorktreeContext},
    },
    session::invocation::Invocation,
    term::{
        console::{self, text},
        failure::Failure,
        files,
    },
};

/// Runs the command. Returns its exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let mut words = CREATE.parse(args)?.store(&mut request)?;
    let command = match words.iter().position(|word| word == "--") {
        Some(at) => {
            let command = words.split_off(at + 1);
            words.truncate(at);
            command
        }
        None => Vec::new(),
    };
    if request.exec == command.is_empty() {
        return Err(Failure::fatal("--exec and a command after '--' go together"));
    }
    let (name, start) = match words.as_slice() {
        [name] => (name.clone(), None),
        [name, start] => (name.clone(), Some(start.clone())),
        _ => return Err(Failure::fatal("name the workspace, and at most one commit")),
    };
    if request.sealed {
        let together = "the option cannot be used with --sealed: ";
        let unfit = [(request.at.is_some(), "--at"), (request.recurse_submodules, "--recurse-submodules")];
        if let Some((_, option)) = unfit.into_iter().find(|(is_given, _)| *is_given) {
            return Err(Failure::fatal(format!("{together}{option}")));
        }
    } else if request.objects.is_some() {
        return Err(Failure::requires("--objects", "--sealed"));
    }
    let context = Context::open(run)?;
    create::check_name(&context.common, name.as_bstr())?;
    let created = create(&context, &request, &name, start)?;
    let workspace = match created {
        Created::Yes(workspace) => workspace,
        Created::No(code) => return Ok(code),
    };
    if request.recurse_submodules {
        console::flush();
        let bases = context.bases(request.base_dir.as_ref())?;
        let quiet = request.quiet || request.json;
        let is_visible = build::shows(request.progress, quiet);
        submodules::fill(&context, &workspace, &bases, is_visible, quiet)?;
    }
    if !request.exec {
        report(&context, &request, &workspace)?;
        return Ok(0);
    }
    console::flush();
    let code = exec::status(run, &workspace, &command)?;
    // The command may have moved or rebased the workspace.
    let found = context.find(name.as_bstr());
    match found.and_then(|found| remove::remove(&context.worktree_context(), &found, Force::No)) {
        Ok(()) => {}
        Err(failure) => {
            failure.print();
            console::eprint_line(text!("The workspace '", name, "' stays."));
        }
    }
    Ok(code)
}

/// Creates a workspace at `top`, on the branch `start` or detached at that commit. Returns Git's
/// exit code.
pub(crate) fn at(
    run: &Invocation,
    top: &Path,
    start: BString,
    detach: bool,
    quiet: bool,
) -> Result<u8, Failure> {
    let context = Context::open(run)?;
    let progress = Some(build::shows(None, quiet));
    let maker = Maker::for_clone(WorkspaceOptions { progress, ..WorkspaceOptions::default() });
    let added = worktree_context::Request { detach, quiet, ..worktree_context::Request::default() };
    let args = [top.as_os_str().as_bytes().into(), start];
    let code = add::add(&context.worktree_context(), &added, &args, Some(&maker))?;
    let dir = files::realpath_forgiving(top);
    if !quiet && let Some(workspace) = context.all()?.iter().find(|found| found.record.dir == dir) {
        mounts::tell_visibility(workspace);
    }
    Ok(code)
}

/// A workspace on a new branch with its name.
pub(crate) struct Branched {
    pub(crate) name: BString,
    /// The commit at which the branch begins.
    pub(crate) commit: BString,
    /// The directory; `None` for the one that a new workspace gets.
    pub(crate) dir: Option<BString>,
    pub(crate) backend: Option<Backend>,
    pub(crate) quiet: bool,
}

/// Returns an error for a name that no new workspace can have.
pub(crate) fn check_name(run: &Invocation, name: &BString) -> Result<(), Failure> {
    Ok(create::check_name(&Context::open(run)?.common, name.as_bstr())?)
}

/// Creates a workspace whose files this process sees, too. If the worktree is not added, the reason
/// was printed, and Git's exit code is returned.
pub(crate) fn branched(run: &Invocation, wanted: Branched) -> Result<Result<Workspace, u8>, Failure> {
    let Branched { name, commit, dir, backend, quiet } = wanted;
    let context = Context::open(run)?;
    let worktrees = context.worktree_context();
    let dir = match &dir {
        Some(dir) => run.path(dir)?,
        None => create::directory(&worktrees, name.as_bstr())?,
    };
    let progress = Some(build::shows(None, quiet));
    let quota = sapwood::workspace::quota::inherited(&context.repo);
    let name_of = Some(name.clone());
    let options = WorkspaceOptions { name: name_of, backend, progress, quota, ..WorkspaceOptions::default() };
    let branch = Some(name.clone());
    let added = worktree_context::Request { branch, quiet, ..worktree_context::Request::default() };
    let args = [dir.as_os_str().as_bytes().into(), commit];
    match add::add(&worktrees, &added, &args, Some(&Maker::for_everybody(options)))? {
        0 => Ok(Ok(context.find(name.as_bstr())?)),
        code => Ok(Err(code)),
    }
}

/// Returns the JSON document of a new workspace.
pub(crate) fn document(run: &Invocation, workspace: &Workspace) -> Result<Value, Failure> {
    describe(&Context::open(run)?, workspace)
}

/// Prints where a new workspace is.
pub(crate) fn tell(workspace: &Workspace) {
    let dir = workspace.record.dir.as_os_str().as_bytes();
    console::eprint_line(text!("Workspace at '", dir, "' (", workspace.record.backend.name(), ")"));
    mounts::tell_visibility(workspace);
}

/// The result of a creation.
enum Created {
    Yes(Box<Workspace>),
    /// The worktree was not added, and the reason was printed. Contains the exit code.
    No(u8),
}

fn create(
    context: &Context<'_>,
    request: &Request,
    name: &BString,
    start: Option<BString>,
) -> Result<Created, Failure> {
    let worktrees = context.worktree_context();
    let dir = match &request.dir {
        Some(dir) => context.run.path(dir)?,
        None => create::directory(&worktrees, name.as_bstr())?,
    };
    let shared = with::share(context, request, start.as_ref())?;
    let copied = shared.layers.clone();
    let start_of_sealed = request.sealed.then(|| {
        let start = Start { name: name.clone(), revision: start.clone(), branch: request.branch.clone() };
        start.find(&context.repo)
    });
    let options = WorkspaceOptions {
        sealed: start_of_sealed.transpose()?,
        hooks: wanted_hooks(context.run, request)?,
        check: None,
        settings: request.settings.iter().map(setting).collect::<Result<_, _>>()?,
        quota: request.quota.as_ref().map(quota::size).transpose()?,
        name: Some(name.clone()),
        backend: wanted_backend(request)?,
        base_dir: request.base_dir.as_ref().map(|dir| context.run.path(dir)).transpose()?,
        upper_dir: request.upper_dir.as_ref().map(|dir| context.run.path(dir)).transpose()?,
        sparse: request.sparse.clone(),
        layers: shared.layers,
        frozen: shared.paths,
        source: shared.source.map(Rc::new),
        durability: request.volatile.then_some(Durability::Volatile),
        progress: Some(build::shows(request.progress, request.quiet || request.json)),
    };
    let maker = Maker::new(options);
    if request.sealed {
        let sealing = seal::Options { detach: request.detach, sharing: sharing(request)? };
        maker.seal(&worktrees, &Given::new(dir), sealing)?;
        return created(context, request, name, &copied);
    }
    let added = worktree_context::Request {
        branch: request.branch.clone(),
        detach: request.detach,
        quiet: request.quiet || request.json,
        ..worktree_context::Request::default()
    };
    let mut args = vec![BString::from(dir.as_os_str().as_bytes())];
    args.extend(start);
    match add::add(&worktrees, &added, &args, Some(&maker))? {
        0 => created(context, request, name, &copied),
        code => Ok(Created::No(code)),
    }
}

/// Creates a sealed workspace for `worktree add`.
pub(crate) fn sealed_at(
    worktrees: &WorktreeContext<'_>,
    at: &Given,
    start: Start,
    detach: bool,
) -> Result<(), Failure> {
    create::check_name(&worktrees.common, start.name.as_bstr())?;
    let sealed = Some(start.find(worktrees.repo)?);
    let options = WorkspaceOptions { name: Some(start.name), sealed, ..WorkspaceOptions::default() };
    Maker::new(options).seal(worktrees, at, seal::Options { detach, sharing: Sharing::Auto })
}

/// Adds what only the command line gives a new workspace: the files of `layers`, if the backend has
/// no layers, and the path of `--at`.
fn created(
    context: &Context<'_>,
    request: &Request,
    name: &BString,
    layers: &[PathBuf],
) -> Result<Created, Failure> {
    let workspace = context.find(name.as_bstr())?;
    if !workspace.record.backend.has_upper() {
        let top = &workspace.record.dir;
        layers.iter().try_for_each(|layer| frozen::copy_into(layer, top))?;
    }
    if let Some(at) = &request.at {
        let at = context.run.path(at)?;
        admin::write(&workspace.state.join(record::AT), at.as_os_str().as_bytes())?;
    }
    Ok(Created::Yes(Box::new(workspace)))
}

/// Returns the way in which a sealed workspace gets the objects.
fn sharing(request: &Request) -> Result<Sharing, Failure> {
    let Some(way) = &request.objects else { return Ok(Sharing::Auto) };
    let unknown = || Failure::fatal(format!("unknown way '{way}': use auto, reflink, link or copy"));
    Sharing::from_name(way).ok_or_else(unknown)
}

fn wanted_hooks(run: &Invocation, request: &Request) -> Result<Hooks, Failure> {
    Ok(match request.hooks.as_ref().map(|hooks| hooks.as_slice()) {
        None => Hooks::Default,
        Some(b"none") => Hooks::None,
        Some(b"repository") => Hooks::Repository,
        Some(dir) => Hooks::Directory(run.path(&BString::from(dir))?),
    })
}

/// Returns the key and the value of `--config`.
fn setting(given: &BString) -> Result<(BString, BString), Failure> {
    match given.split_once_str("=") {
        Some((key, value)) if key.contains(&b'.') => Ok((key.into(), value.into())),
        _ => Err(Failure::fatal(text!("--config takes a key and a value, as in a.b=c, not '", given, "'"))),
    }
}

/// Returns the requested backend; `None` for `auto`.
pub(super) fn wanted_backend(request: &Request) -> Result<Option<Backend>, Failure> {
    named_backend(request.backend.as_ref())
}

/// Returns the backend called `name`; `None` for `auto`, and without a name.
pub(crate) fn named_backend(name: Option<&BString>) -> Result<Option<Backend>, Failure> {
    let Some(name) = name.filter(|name| **name != "auto") else { return Ok(None) };
    Backend::from_name(name).map(Some).ok_or_else(|| {
        let names: Vec<&str> = Backend::ALL.iter().map(|backend| backend.name()).collect();
        Failure::fatal(format!("unknown backend '{name}': use auto, {}", names.join(", ")))
    })
}

fn report(context: &Context<'_>, request: &Request, workspace: &Workspace) -> Result<(), Failure> {
    if request.json {
        context::print_document(describe(context, workspace)?);
    } else if !request.quiet {
        tell(workspace);
        if workspace.record.backend == Backend::Copy && request.backend.is_none() {
            tell_copy(context, request, workspace)?;
        }
    }
    Ok(())
}

/// Says why all files of a workspace were copied, and where the remedies are: for the first copy of
/// a repository.
fn tell_copy(context: &Context<'_>, request: &Request, workspace: &Workspace) -> Result<(), Failure> {
    let is_earlier =
        |other: &Workspace| other.record.backend == Backend::Copy && other.name != workspace.name;
    if context.all()?.iter().any(is_earlier) {
        return Ok(());
    }
    let refused = doctor::probe(context, request)?.into_iter().find_map(|(_, works)| works.err());
    let reason = refused.map(|reason| format!(": {reason}")).unwrap_or_default();
    console::hint(format!(
        "Every file was copied, because no faster way works here{reason}. \
         'sapwood workspace doctor' lists the other ways, and what each of them needs."
    ));
    Ok(())
}
