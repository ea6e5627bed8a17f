//! `workspace base`: the bases themselves.

use bstr::{BString, ByteSlice as _};
use engine::{
    sparse::{Cone, Patterns},
    workspace::{
        backend::Backend,
        base::{Base, Kind},
    },
};
use serde_json::{Value, json};

use super::{
    create::wanted_backend,
    maker::add_base,
    request::{BASE, Request},
    site::{self, Site, json_path},
};
use crate::{
    session::invocation::Invocation,
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// Runs the command. Returns its exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let mut words = BASE.parse(args)?.store(&mut request)?;
    if words.is_empty() {
        return Err(Failure::fatal("name an action: add, list, verify, remove, gc or prune"));
    }
    let action = words.remove(0);
    let site = Site::open(run)?;
    match action.as_slice() {
        b"add" => add(&site, &request, &words),
        b"list" if words.is_empty() => list(&site, &request),
        _ => Err(Failure::fatal(text!("unknown action '", action, "'"))),
    }
}

fn add(site: &Site<'_>, request: &Request, commits: &[BString]) -> Result<u8, Failure> {
    let bases = site.bases(request.base_dir.as_ref())?;
    let kind = match wanted_backend(request)? {
        None | Some(Backend::Image) => Kind::Image,
        Some(_) => Kind::Directory,
    };
    let patterns = match request.sparse.is_empty() {
        true => None,
        false => {
            let mut cone = Cone::new(site.repo.config_bool("core.ignoreCase")?.unwrap_or(false));
            request.sparse.iter().for_each(|dir| cone.add(dir.trim_with(|letter| letter == '/').as_bstr()));
            Some(Patterns::of_cone(cone))
        }
    };
    let head = [BString::from("HEAD")];
    let commits = if commits.is_empty() { &head[..] } else { commits };
    let mut added = Vec::new();
    for name in commits {
        let commit = site.repo.peel_to_commit(site.repo.rev_parse(name.as_bstr())?)?;
        let commit = commit.ok_or_else(|| Failure::fatal(text!("'", name, "' is not a commit")))?;
        let quiet = request.quiet || request.json;
        let patterns = patterns.as_ref();
        added.push(add_base(site.run, &site.repo, &site.settings, &bases, commit, kind, patterns, quiet)?);
    }
    print(request, &added);
    Ok(0)
}

fn list(site: &Site<'_>, request: &Request) -> Result<u8, Failure> {
    print(request, &site.bases(request.base_dir.as_ref())?.list()?);
    Ok(0)
}

fn print(request: &Request, bases: &[Base]) {
    if request.json {
        let one =
            |base: &Base| json!({"name": base.name, "kind": base.kind.name(), "dir": json_path(&base.dir)});
        site::print_json(&Value::from_iter(bases.iter().map(one)));
    } else if !request.quiet {
        bases.iter().for_each(|base| console::out(format!("{}  {}", base.name, base.kind.name())));
    }
}
