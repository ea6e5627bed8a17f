//! `workspace create`.
//!
//! The worktree is added like `git worktree add`, with files from a base. With `--exec`, the
//! command runs in the new workspace; then the workspace is removed unless it has unsaved work.

use std::{
    ffi::OsString,
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
use format::refname;
use sys::by_path;

use super::{
    build,
    context::{self, Context},
    exec,
    list::describe,
    maker::{Maker, WorkspaceOptions},
    mounts,
    remove::{self, Force},
    request::{CREATE, Request},
    submodules, with,
};
use crate::{
    commands::worktree::{add, context as worktree_context},
    session::invocation::Invocation,
    term::{
        console::{self, text},
        failure::Failure,
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
    let context = Context::open(run)?;
    check_name(&context, &name)?;
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
        submodules::Fill { context: &context, workspace: &workspace, bases, is_visible, quiet }.run()?;
    }
    if !request.exec {
        report(&context, &request, &workspace)?;
        return Ok(0);
    }
    console::flush();
    let code = exec::status(run, &workspace, &command)?;
    match remove::remove(&context.worktree_context(), &workspace, Force::No) {
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
    let maker = Maker::for_clone(run, WorkspaceOptions { quiet, ..WorkspaceOptions::default() });
    let added = worktree_context::Request { detach, quiet, ..worktree_context::Request::default() };
    let args = [top.as_os_str().as_bytes().into(), start];
    let code = add::add(&context.worktree_context(), &added, &args, Some(&maker))?;
    let dir = by_path::realpath_forgiving(top);
    if !quiet && let Some(workspace) = context.all()?.iter().find(|found| found.record.dir == dir) {
        mounts::tell_visibility(workspace);
    }
    Ok(code)
}

/// The result of a creation.
enum Created {
    Yes(Box<Workspace>),
    /// The worktree was not added, and the reason was printed. Contains the exit code.
    No(u8),
}

/// Returns an error for a name that cannot be both a directory name and the end of a branch name.
fn check_name(context: &Context<'_>, name: &BString) -> Result<(), Failure> {
    if name.is_empty() || refname::sanitized(name.as_bstr()) != *name || name.contains(&b'/') {
        return Err(Failure::fatal(text!(
            "'",
            name,
            "' cannot be the name of a workspace: it is the name of a directory, and follows the rules for names \
             of branches"
        )));
    }
    match record::find(&context.common, sys::os_str(name)) {
        Err(record::Error::Missing(_)) => Ok(()),
        Ok(_) => Err(record::Error::Exists(sys::os_str(name).to_owned()).into()),
        Err(error) => Err(error.into()),
    }
}

fn create(
    context: &Context<'_>,
    request: &Request,
    name: &BString,
    start: Option<BString>,
) -> Result<Created, Failure> {
    let dir = directory(context, request, name)?;
    let shared = with::share(context, request, start.as_ref())?;
    let copied = shared.layers.clone();
    let options = WorkspaceOptions {
        name: Some(name.clone()),
        backend: wanted_backend(request)?,
        base_dir: request.base_dir.clone(),
        upper_dir: request.upper_dir.as_ref().map(|dir| context.run.path(dir)).transpose()?,
        sparse: request.sparse.clone(),
        layers: shared.layers,
        frozen: shared.paths,
        source: shared.source.map(Rc::new),
        durability: request.volatile.then_some(Durability::Volatile),
        quiet: request.quiet || request.json,
        progress: request.progress,
    };
    let maker = Maker::new(context.run, options);
    let added = worktree_context::Request {
        branch: request.branch.clone(),
        detach: request.detach,
        quiet: request.quiet || request.json,
        ..worktree_context::Request::default()
    };
    let mut args = vec![BString::from(dir.as_os_str().as_bytes())];
    args.extend(start);
    match add::add(&context.worktree_context(), &added, &args, Some(&maker))? {
        0 => {
            let workspace = context.find(name.as_bstr())?;
            if !workspace.record.backend.has_upper() {
                let top = &workspace.record.dir;
                copied.iter().try_for_each(|layer| frozen::copy_into(layer, top))?;
            }
            if let Some(at) = &request.at {
                let at = context.run.path(at)?;
                admin::write(&workspace.state.join(record::AT), at.as_os_str().as_bytes())?;
            }
            Ok(Created::Yes(Box::new(workspace)))
        }
        code => Ok(Created::No(code)),
    }
}

/// Returns the directory of a new workspace: `--dir`, else `sapwood.workspaceDir` with the name,
/// else a directory next to the main worktree.
fn directory(context: &Context<'_>, request: &Request, name: &BString) -> Result<PathBuf, Failure> {
    if let Some(dir) = &request.dir {
        return context.run.path(dir);
    }
    let name = sys::os_str(name);
    if let Some(all) = context::configured_dir(context.run, &context.repo, "sapwood.workspaceDir")? {
        return Ok(all.join(name));
    }
    let main = match context.repo.worktrees()?.into_iter().next() {
        Some(main) => main.path,
        None => context.common.clone(),
    };
    let mut all = OsString::from(main.file_name().unwrap_or_default());
    all.push(".workspaces");
    Ok(main.with_file_name(all).join(name))
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
        context::print_json(&describe(context, workspace)?);
    } else if !request.quiet {
        let dir = workspace.record.dir.as_os_str().as_bytes();
        console::eprint_line(text!("Workspace at '", dir, "' (", workspace.record.backend.name(), ")"));
        mounts::tell_visibility(workspace);
    }
    Ok(())
}
