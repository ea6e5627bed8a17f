//! `submodule init`: copies the URL and the update mode of submodules from `.gitmodules` to the
//! configuration. Existing settings stay. All changes are one write, including those before an
//! error.

use bstr::{BString, ByteSlice as _};
use format::config::Edit;

use super::{
    list::{self, Link, Scene},
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
    let settings = Settings::read(run, &repo)?;
    let index = list::index(&repo, &settings)?;
    let scene = Scene::new(run, &repo, &settings, &index, None)?;
    let Some(links) = scene.links(&index, &specs)? else { return Ok(1) };
    register(&scene, links, &specs, request.quiet)?;
    Ok(0)
}

/// Registers the submodules. Without `specs`, and if `submodule.active` is set, only active ones.
pub(super) fn register(
    scene: &Scene<'_>,
    mut links: Vec<Link>,
    specs: &[BString],
    quiet: bool,
) -> Result<(), Failure> {
    if specs.is_empty() && scene.repo.config_value("submodule.active").is_some() {
        let mut active = Vec::new();
        for link in links {
            if scene.submodules.is_active(link.path.as_bstr())? {
                active.push(link);
            }
        }
        links = active;
    }
    let mut edits = Vec::new();
    let done = links.iter().try_for_each(|link| edits_of(scene, link, quiet, &mut edits));
    if !edits.is_empty() {
        let config = scene.repo.common_dir().join("config");
        store::config::edit(&config, &edits, &scene.settings.config_locks, &scene.settings.fsync)?;
    }
    done
}

fn edits_of(scene: &Scene<'_>, link: &Link, quiet: bool, edits: &mut Vec<Edit>) -> Result<(), Failure> {
    let (path, repo) = (link.path.as_bstr(), scene.repo);
    let shown = scene.shown(path);
    let no_url = || Failure::Fatal(text!("No url found for submodule path '", shown, "' in .gitmodules"));
    let module = scene.submodules.module(path).ok_or_else(no_url)?;
    let key = |item: &str| text!("submodule.", module.name, ".", item);
    if !scene.submodules.is_active(path)? {
        edits.push(Edit::Set { key: key("active"), value: "true".into() });
    }
    if list::setting(repo, module.name.as_bstr(), "url").is_none() {
        let url = module.url.clone().ok_or_else(no_url)?;
        let url = match repo::wire::url::is_relative(url.as_bstr()) {
            true => remote::resolve(scene, url.as_bstr(), Missing::Warn)?,
            false => url,
        };
        edits.push(Edit::Set { key: key("url"), value: url.clone() });
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
        && list::setting(repo, module.name.as_bstr(), "update").is_none()
    {
        let value = list::recorded(module.name.as_bstr(), update)?.name();
        edits.push(Edit::Set { key: key("update"), value });
    }
    Ok(())
}
