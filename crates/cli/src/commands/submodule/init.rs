//! `submodule init`: copies the URL and the update mode of submodules from `.gitmodules` to the
//! configuration. Existing settings stay. All changes are one write, including those before an
//! error.

use bstr::{BString, ByteSlice as _};
use format::config::Edit;

use repo::keys;

use super::{
    list::{self, Link, Superproject},
    options::{INIT, Request},
    remote::{self, Missing},
};
use crate::{
    session::{invocation::Invocation, settings::Settings},
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// Runs the command. Returns its exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let specs = INIT.parse(args)?.store(&mut request)?;
    let repo = run.open()?;
    let settings = Settings::read(&repo)?;
    let index = list::index(&repo, &settings)?;
    let superproject = Superproject::new(run, &repo, &settings, &index, None)?;
    let Some(links) = superproject.links(&index, &specs)? else { return Ok(1) };
    register(&superproject, links, &specs, request.quiet)?;
    Ok(0)
}

/// Registers the submodules. Without `specs`, and if `submodule.active` is set, only active ones.
pub(super) fn register(
    superproject: &Superproject<'_>,
    mut links: Vec<Link>,
    specs: &[BString],
    quiet: bool,
) -> Result<(), Failure> {
    if specs.is_empty() && superproject.repo.config_value(&keys::submodule::ACTIVE).is_some() {
        let mut active = Vec::new();
        for link in links {
            if superproject.submodules.is_active(link.path.as_bstr())? {
                active.push(link);
            }
        }
        links = active;
    }
    let mut edits = Vec::new();
    let done = links.iter().try_for_each(|link| edits_of(superproject, link, quiet, &mut edits));
    if !edits.is_empty() {
        let config = superproject.repo.common_dir().join("config");
        store::config::edit(
            &config,
            &edits,
            &superproject.settings.config_locks,
            &superproject.settings.fsync,
        )?;
    }
    done
}

fn edits_of(
    superproject: &Superproject<'_>,
    link: &Link,
    quiet: bool,
    edits: &mut Vec<Edit>,
) -> Result<(), Failure> {
    let (path, repo) = (link.path.as_bstr(), superproject.repo);
    let shown = superproject.shown(path);
    let no_url = || Failure::Fatal(text!("No url found for submodule path '", shown, "' in .gitmodules"));
    let module = superproject.submodules.module(path).ok_or_else(no_url)?;
    let name = module.name.as_slice();
    if !superproject.submodules.is_active(path)? {
        edits.push(Edit::Set { key: keys::submodule::ONE_ACTIVE.with(name), value: "true".into() });
    }
    if list::setting(repo, module.name.as_bstr(), keys::submodule::ONE_URL).is_none() {
        let url = module.url.clone().ok_or_else(no_url)?;
        let url = if repo::wire::url::is_relative(url.as_bstr()) {
            remote::resolve(superproject, url.as_bstr(), Missing::Warn)?
        } else {
            url
        };
        edits.push(Edit::Set { key: keys::submodule::ONE_URL.with(name), value: url.clone() });
        if !quiet {
            console::eprint_line(text!(
                "Submodule '",
                module.name,
                "' (",
                url,
                ") registered for path '",
                shown,
                "'"
            ));
        }
    }
    if let Some(update) = &module.update
        && list::setting(repo, module.name.as_bstr(), keys::submodule::ONE_UPDATE).is_none()
    {
        let value = list::recorded(module.name.as_bstr(), update)?.name();
        edits.push(Edit::Set { key: keys::submodule::ONE_UPDATE.with(name), value });
    }
    Ok(())
}
