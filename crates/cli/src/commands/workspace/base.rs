//! `workspace base`: managing bases.

use bstr::{BString, ByteSlice as _};
use engine::workspace::{
    backend::Backend,
    base::{Act, Base, Kind, Verified},
};
use serde_json::{Value, json};

use super::{
    context::{self, Context, json_path},
    create::wanted_backend,
    maker::{add_base, patterns_of},
    request::{BASE, Request},
};
use crate::{
    commands::base::time,
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
    let context = Context::open(run)?;
    match action.as_slice() {
        b"add" => add(&context, &request, &words),
        b"list" if words.is_empty() => list(&context, &request),
        b"verify" => verify(&context, &request, &words),
        b"remove" if !words.is_empty() => remove(&context, &request, &words),
        b"gc" | b"prune" if words.is_empty() => collect(&context, &request, action == "prune"),
        _ => Err(Failure::fatal(text!("unknown action '", action, "'"))),
    }
}

fn add(context: &Context<'_>, request: &Request, commits: &[BString]) -> Result<u8, Failure> {
    let bases = context.bases(request.base_dir.as_ref())?;
    let kind = match wanted_backend(request)? {
        None | Some(Backend::Image) => Kind::Image,
        Some(_) => Kind::Directory,
    };
    let patterns = match request.sparse.is_empty() {
        true => None,
        false => Some(patterns_of(&context.repo, &request.sparse)?),
    };
    let head = [BString::from("HEAD")];
    let commits = if commits.is_empty() { &head[..] } else { commits };
    let mut added = Vec::new();
    for name in commits {
        let commit = context.repo.peel_to_commit(context.repo.rev_parse(name.as_bstr())?)?;
        let commit = commit.ok_or_else(|| Failure::fatal(text!("'", name, "' is not a commit")))?;
        let quiet = request.quiet || request.json;
        let patterns = patterns.as_ref();
        added.push(add_base(
            context.run,
            &context.repo,
            &context.settings,
            &bases,
            commit,
            kind,
            patterns,
            quiet,
        )?);
    }
    print(request, &added);
    Ok(0)
}

fn list(context: &Context<'_>, request: &Request) -> Result<u8, Failure> {
    print(request, &context.bases(request.base_dir.as_ref())?.list()?);
    Ok(0)
}

/// Compares the named bases, or all, with their trees. Returns 1 if one differs.
fn verify(context: &Context<'_>, request: &Request, names: &[BString]) -> Result<u8, Failure> {
    let bases = context.bases(request.base_dir.as_ref())?;
    let chosen = match names.is_empty() {
        true => bases.list()?,
        false => names.iter().map(|name| bases.get(&name.to_string())).collect::<Result<_, _>>()?,
    };
    let mut reports = Vec::new();
    for base in &chosen {
        // A base of another repository is compared without its objects.
        let repo = context.repo.objects().contains(&base.tree).then_some(&context.repo);
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
        context::print_json(&Value::from_iter(reports.iter().map(one)));
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

fn remove(context: &Context<'_>, request: &Request, names: &[BString]) -> Result<u8, Failure> {
    let bases = context.bases(request.base_dir.as_ref())?;
    for name in names {
        bases.remove(&name.to_string(), context.settings.locks.shared)?;
    }
    if request.json {
        context::print_json(&Value::from_iter(names.iter().map(|name| json!({"name": name.to_string()}))));
    }
    Ok(0)
}

/// Frees space: that of contents that no base needs, and with `prune` that of bases that no
/// workspace uses.
fn collect(context: &Context<'_>, request: &Request, prune: bool) -> Result<u8, Failure> {
    let bases = context.bases(request.base_dir.as_ref())?;
    let act = if request.dry_run { Act::DryRun } else { Act::Remove };
    let shared = context.settings.locks.shared;
    let interrupt = context.run.interrupt.flag();
    let freed = match prune {
        true => {
            let unused = request.unused.as_ref().map(|word| time::parse(word.as_bstr())).transpose()?;
            bases.prune_older(shared, act, interrupt, unused.unwrap_or_default())
        }
        false => bases.gc(shared, act, interrupt),
    };
    context.run.interrupt.check()?;
    let freed = freed?;
    if request.json {
        context::print_json(&json!({
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
        context::print_json(&Value::from_iter(bases.iter().map(one)));
    } else if !request.quiet {
        bases.iter().for_each(|base| console::out(format!("{}  {}", base.name, base.kind.name())));
    }
}
