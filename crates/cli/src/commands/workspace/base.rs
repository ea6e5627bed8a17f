//! `workspace base`: managing bases.

use std::os::unix::ffi::OsStrExt as _;

use bstr::{BString, ByteSlice as _};
use engine::workspace::backend::Backend;
use sapwood::base::{
    Base, Kind,
    add::{self, Add},
    kept::{self, Action, Report, Verified},
};
use serde_json::{Value, json};

use super::{
    build::shows,
    context::{self, Context, json_path},
    create::wanted_backend,
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
    if request.from.is_some() && !request.sparse.is_empty() {
        return Err(Failure::fatal("--from takes a whole checkout, and so not --sparse"));
    }
    if request.from.is_some() && commits.len() > 1 {
        return Err(Failure::fatal("--from takes one commit"));
    }
    let path = |given: &Option<BString>| given.as_ref().map(|dir| context.run.path(dir)).transpose();
    let asked = add::Request {
        commits: commits.to_vec(),
        from: path(&request.from)?,
        base_dir: path(&request.base_dir)?,
        kind: match wanted_backend(request)? {
            None | Some(Backend::Image) => Kind::Image,
            Some(_) => Kind::Directory,
        },
        sparse: request.sparse.clone(),
        progress: Some(shows(request.progress, request.quiet || request.json)),
    };
    let session = context.session();
    let context = session.context(session.invocation);
    print(request, &Add::prepare(context, asked)?.run(context)?.bases);
    Ok(0)
}

/// Does an action with the bases of the directory.
fn carry_out(context: &Context<'_>, request: &Request, action: &Action) -> Result<Report, Failure> {
    let bases = context.bases(request.base_dir.as_ref())?;
    let session = context.session();
    Ok(kept::carry_out(session.context(session.invocation), &bases, action)?)
}

fn list(context: &Context<'_>, request: &Request) -> Result<u8, Failure> {
    if let Report::Listed(bases) = carry_out(context, request, &Action::List)? {
        print(request, &bases);
    }
    Ok(0)
}

/// Compares the named bases, or all, with their trees. Returns 1 if one differs.
fn verify(context: &Context<'_>, request: &Request, names: &[BString]) -> Result<u8, Failure> {
    let action = Action::Verify(names.iter().map(ToString::to_string).collect());
    let Report::Verified(reports) = carry_out(context, request, &action)? else { return Ok(0) };
    let is_sound = reports.iter().all(|(_, verified)| verified.flaws.is_empty());
    if request.json {
        let one = |(base, verified): &(Base, Verified)| {
            let flaws = verified.flaws.iter();
            let flaws = flaws.map(|flaw| json!({"path": flaw.path.to_string(), "flaw": flaw.what}));
            json!({
                "name": base.name, "files": verified.files, "unknown": verified.unknown,
                "flaws": Value::from_iter(flaws),
            })
        };
        context::print_document(Value::from_iter(reports.iter().map(one)));
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
    carry_out(context, request, &Action::Remove(names.iter().map(ToString::to_string).collect()))?;
    if request.json {
        context::print_document(Value::from_iter(names.iter().map(|name| json!({"name": name.to_string()}))));
    }
    Ok(0)
}

/// Frees space: that of contents that no base needs, and with `prune` that of bases that no
/// workspace uses.
fn collect(context: &Context<'_>, request: &Request, prune: bool) -> Result<u8, Failure> {
    let dry_run = request.dry_run;
    let action = if prune {
        let unused = request.unused.as_ref().map(|word| time::parse(word.as_bstr())).transpose()?;
        Action::Prune { unused: unused.unwrap_or_default(), dry_run }
    } else {
        Action::Collect { dry_run }
    };
    let Report::Freed(freed) = carry_out(context, request, &action)? else { return Ok(0) };
    if request.json {
        context::print_document(json!({
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
        let one = |base: &Base| {
            let parent = base.parent.as_deref().map(json_path);
            json!({"name": base.name, "kind": base.kind.name(), "dir": json_path(&base.dir), "parent": parent})
        };
        context::print_document(Value::from_iter(bases.iter().map(one)));
    } else if !request.quiet {
        for base in bases {
            let line = format!("{}  {}", base.name, base.kind.name());
            let below = base.parent.as_deref().and_then(|parent| parent.file_name());
            match below {
                Some(name) => console::out(text!(line, " over ", name.as_bytes())),
                None => console::out(line),
            }
        }
    }
}
