//! `workspace base`: managing bases.

use bstr::{BString, ByteSlice as _};
use engine::workspace::{
    backend::Backend,
    base::{Act, Base, Kind, Verified},
};
use serde_json::{Value, json};

use super::{
    create::wanted_backend,
    maker::{add_base, patterns_of},
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
        b"verify" => verify(&site, &request, &words),
        b"remove" if !words.is_empty() => remove(&site, &request, &words),
        b"gc" | b"prune" if words.is_empty() => collect(&site, &request, action == "prune"),
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
        false => Some(patterns_of(&site.repo, &request.sparse)?),
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

/// Compares the named bases, or all, with their trees. Returns 1 if one differs.
fn verify(site: &Site<'_>, request: &Request, names: &[BString]) -> Result<u8, Failure> {
    let bases = site.bases(request.base_dir.as_ref())?;
    let chosen = match names.is_empty() {
        true => bases.list()?,
        false => names.iter().map(|name| bases.get(&name.to_string())).collect::<Result<_, _>>()?,
    };
    let mut reports = Vec::new();
    for base in &chosen {
        // A base of another repository is compared without its objects.
        let repo = site.repo.objects().contains(&base.tree).then_some(&site.repo);
        reports.push((base, base.verify(repo, sys::cores())?));
    }
    let is_sound = reports.iter().all(|(_, verified)| verified.flaws.is_empty());
    if request.json {
        let one = |(base, verified): &(&Base, Verified)| {
            let flaws = verified.flaws.iter();
            let flaws = flaws.map(|flaw| json!({"path": flaw.path.to_string(), "flaw": flaw.what}));
            json!({
                "name": base.name, "files": verified.files, "unknown": verified.unknown,
                "flaws": Value::from_iter(flaws),
            })
        };
        site::print_json(&Value::from_iter(reports.iter().map(one)));
        return Ok(u8::from(!is_sound));
    }
    for (base, verified) in &reports {
        for flaw in &verified.flaws {
            console::out(text!(base.name, ": '", flaw.path, "': ", flaw.what));
        }
        if verified.flaws.is_empty() && !request.quiet {
            console::out(format!("{}: {} files", base.name, verified.files));
        }
    }
    Ok(u8::from(!is_sound))
}

fn remove(site: &Site<'_>, request: &Request, names: &[BString]) -> Result<u8, Failure> {
    let bases = site.bases(request.base_dir.as_ref())?;
    for name in names {
        bases.remove(&name.to_string(), site.settings.locks.shared)?;
    }
    if request.json {
        site::print_json(&Value::from_iter(names.iter().map(|name| json!({"name": name.to_string()}))));
    }
    Ok(0)
}

/// Frees space: that of contents that no base needs, and with `prune` that of bases that no
/// workspace uses.
fn collect(site: &Site<'_>, request: &Request, prune: bool) -> Result<u8, Failure> {
    let bases = site.bases(request.base_dir.as_ref())?;
    let act = if request.dry_run { Act::Pretend } else { Act::Do };
    let shared = site.settings.locks.shared;
    let freed = if prune { bases.prune(shared, act)? } else { bases.gc(shared, act)? };
    if request.json {
        site::print_json(&json!({
            "bases": freed.bases, "blobFiles": freed.generations, "bytes": freed.bytes,
            "dryRun": request.dry_run,
        }));
    } else if !request.quiet {
        freed.bases.iter().for_each(|name| console::out(format!("removed {name}")));
        console::out(format!("freed {} bytes of contents", freed.bytes));
    }
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
