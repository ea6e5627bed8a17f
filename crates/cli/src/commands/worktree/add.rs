//! `worktree add`. See [`sapwood::worktree::add`].

use bstr::{BString, ByteSlice as _};
use repo::keys;
use sapwood::{
    UserPath,
    workspace::seal::Start,
    worktree::{
        add::{self, Add, FileSource},
        records::Given,
    },
};

use super::context::{Request, WorktreeContext};
use crate::{
    commands::workspace::{create, maker::Maker},
    session::settings::Settings,
    term::{
        failure::{Failure, Preface},
        text::os_str,
    },
};

impl Request {
    /// Returns the request for the library, without the path.
    fn for_add(&self, args: &[BString]) -> add::Request {
        add::Request {
            path: args.first().map(|path| os_str(path).into()).unwrap_or_default(),
            start: args.get(1).filter(|_| args.len() == 2).cloned(),
            force: self.force,
            branch: self.branch.clone(),
            force_branch: self.force_branch.clone(),
            orphan: self.orphan,
            detach: self.detach,
            no_checkout: self.no_checkout,
            lock: self.lock,
            reason: self.reason.clone(),
            quiet: self.quiet,
            track: self.track,
            guess_remote: self.guess_remote,
            relative: self.relative,
        }
    }
}

/// Runs the command. With `sapwood.worktree = workspace`, the worktree becomes a workspace if there
/// is a backend whose files every process can see.
pub(super) fn run(context: &WorktreeContext<'_>, request: &Request, args: &[BString]) -> Result<u8, Failure> {
    let maker = Maker::configured(context.repo)?;
    if maker.is_some() && context.repo.config(&keys::sapwood::SEALED)? {
        return add_sealed(context, request, args);
    }
    add(context, request, args, maker.as_ref())
}

/// Adds a sealed workspace, with the name of its directory.
fn add_sealed(context: &WorktreeContext<'_>, request: &Request, args: &[BString]) -> Result<u8, Failure> {
    let ([path] | [path, _]) = args else { return Err(context.misused()) };
    let unserved = [
        (request.force > 0, "--force"),
        (request.force_branch.is_some(), "-B"),
        (request.orphan, "--orphan"),
        (request.no_checkout, "--no-checkout"),
        (request.lock, "--lock"),
        (request.track.is_some(), "--track"),
    ];
    if let Some((_, option)) = unserved.into_iter().find(|(is_given, _)| *is_given) {
        return Err(Failure::fatal(format!("sapwood.sealed does not serve {option}")));
    }
    let at: Given = context.given(path.as_bstr())?;
    let name = add::default_name(path.as_bstr());
    let start = Start { name, revision: args.get(1).cloned(), branch: request.branch.clone() };
    create::sealed_at(context, &at, start, request.detach)?;
    Ok(0)
}

/// Adds a worktree. `maker`, if it is given and supports this case, provides the files.
pub(crate) fn add(
    context: &WorktreeContext<'_>,
    request: &Request,
    args: &[BString],
    maker: Option<&Maker>,
) -> Result<u8, Failure> {
    let request = request.for_add(args);
    request.check()?;
    let ([path] | [path, _]) = args else { return Err(context.misused()) };
    let at: Given = context.given(path.as_bstr())?;
    // In a subdirectory the path is not empty after its prefix.
    let typed = UserPath::new(path);
    typed.resolve(&context.run.cwd).map_err(|refused| Failure::refused(&typed, refused))?;
    let settings = Settings::read(context.repo)?;
    let source = maker.map(|maker| maker.source(context, &settings));
    let source = source.as_ref().map(|source| source as &dyn FileSource);
    let add = Add::new(context, &settings, &request, &at, source)?;
    match add.run(&add.plan()?) {
        Ok(report) => Ok(report.hook),
        // Git runs `git branch` here, and returns this code.
        Err(sapwood::Error::NewBranch(error)) => {
            Failure::from(*error).plain().print();
            Ok(255)
        }
        // The only change that can be refused is that of the files: Git runs `git reset` for them.
        Err(error @ sapwood::Error::Refused(_)) => {
            let failure = Failure::fatal("Could not reset index file to revision 'HEAD'.");
            Err(failure.after(Preface::Cause(Box::new(error.into()))))
        }
        Err(error) => Err(error.into()),
    }
}
