//! `submodule init`. See [`sapwood::submodule::init`]. The settings before an error are written,
//! too.

use bstr::BString;
use sapwood::submodule::init;

use super::{
    list::{self, Link, Superproject},
    options::{INIT, Request},
};
use crate::{
    session::{invocation::Invocation, settings::Settings},
    term::{console, failure::Failure},
};

/// Runs the command. Returns its exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let specs = INIT.parse(args)?.store(&mut request)?;
    let repo = run.open()?;
    let settings = Settings::read(&repo)?;
    let index = list::index(&repo, &settings)?;
    let superproject = Superproject::new(run, &repo, &settings, &index, None)?;
    let links = superproject.links(&index, &specs)?;
    register(&superproject, links, &specs, request.quiet)?;
    Ok(0)
}

/// Registers the submodules. Without `specs`, and if `submodule.active` is set, only active ones.
pub(super) fn register(
    superproject: &Superproject<'_>,
    links: Vec<Link>,
    specs: &[BString],
    quiet: bool,
) -> Result<(), Failure> {
    let (changes, done) = init::changes(superproject, links, !specs.is_empty(), &|registered| {
        if !quiet {
            console::eprint_line(registered.text());
        }
    });
    changes.write(superproject.context())?;
    Ok(done?)
}
