//! `workspace base`: managing bases.

use std::{
    os::unix::ffi::OsStrExt as _,
    process::{Command, Stdio},
};

use bstr::{BString, ByteSlice as _};
use engine::workspace::{
    backend::Backend,
    base::{Act, Base, Flaw, Kind, Owner, Persist, Verified, Wanted},
};
use repo::{OpenOptions, Repository};
use serde_json::{Value, json};

use super::{
    build::{add_base, build_base, shows},
    context::{self, Context, json_path},
    create::wanted_backend,
    maker::patterns_of,
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
    if let Some(from) = &request.from {
        return add_from(context, request, from, commits);
    }
    let bases = context.bases(request.base_dir.as_ref())?;
    let kind = match wanted_backend(request)? {
        None | Some(Backend::Image) => Kind::Image,
        Some(_) => Kind::Directory,
    };
    let patterns =
        if request.sparse.is_empty() { None } else { Some(patterns_of(&context.repo, &request.sparse)?) };
    let head = [BString::from("HEAD")];
    let commits = if commits.is_empty() { &head[..] } else { commits };
    let mut added = Vec::new();
    for name in commits {
        let commit = context.repo.peel_to_commit(context.repo.rev_parse(name.as_bstr())?)?;
        let commit = commit.ok_or_else(|| Failure::fatal(text!("'", name, "' is not a commit")))?;
        let is_visible = shows(request.progress, request.quiet || request.json);
        let patterns = patterns.as_ref();
        added.push(add_base(
            context.run,
            &context.repo,
            &context.settings,
            &bases,
            commit,
            kind,
            patterns,
            is_visible,
            Persist::Now,
        )?);
    }
    print(request, &added);
    Ok(0)
}

/// Adds a clean checkout where it lies. Its untracked files would appear in each workspace, so
/// there may be none.
fn add_from(
    context: &Context<'_>,
    request: &Request,
    from: &BString,
    commits: &[BString],
) -> Result<u8, Failure> {
    let run = context.run;
    let dir = run.path(from)?;
    let dir = sys::by_path::canonical(&dir).map_err(Failure::cannot_open(&dir))?;
    let checkout = Repository::open(&OpenOptions { cwd: dir.clone(), ..run.outside() })?;
    let top = checkout.work_tree().and_then(|top| sys::by_path::canonical(top).ok());
    if top.as_ref() != Some(&dir) {
        return Err(Failure::fatal(format!("'{}' is not the top of a worktree", dir.display())));
    }
    if !request.sparse.is_empty() {
        return Err(Failure::fatal("--from takes a whole checkout, and so not --sparse"));
    }
    let mut status = Command::new(context::this_program()?);
    status.current_dir(&dir).args([
        "--no-optional-locks",
        "status",
        "--porcelain",
        "--untracked-files=normal",
    ]);
    let status = status.stdin(Stdio::null()).output();
    let status = status.map_err(|error| Failure::fatal(format!("cannot run 'status': {error}")))?;
    if !status.status.success() || !status.stdout.is_empty() {
        console::eprint_raw(&status.stderr);
        return Err(Failure::fatal(format!(
            "'{0}' is not a clean checkout; 'sapwood -C {0} status' names what differs",
            dir.display()
        )));
    }
    let head = [BString::from("HEAD")];
    let [commit] = (if commits.is_empty() { &head[..] } else { commits }) else {
        return Err(Failure::fatal("--from takes one commit"));
    };
    // The commit of the checkout is looked up there.
    let place = if commits.is_empty() { &checkout } else { &context.repo };
    let id = place.peel_to_commit(place.rev_parse(commit.as_bstr())?)?;
    let id = id.ok_or_else(|| Failure::fatal(text!("'", commit, "' is not a commit")))?;
    let repo = &context.repo;
    let wanted = Wanted::new(repo, repo.tree_of(id)?, Kind::Directory, Owner::of_process(), None)?;
    let bases = context.bases(request.base_dir.as_ref())?;
    let added = build_base(run, &context.settings, id, false, Persist::Now, |options, _| {
        bases.add_from(&wanted, &dir, options)
    })?;
    print(request, &[added]);
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
        let verified = match base.verify(repo, sys::cores()) {
            // It is built again before it is used.
            Err(error) if base.is_lost() => {
                let flaw = Flaw { path: BString::default(), what: error.to_string() };
                Verified { flaws: vec![flaw], ..Verified::default() }
            }
            verified => verified?,
        };
        reports.push((base, verified));
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
    let bases = context.bases(request.base_dir.as_ref())?;
    for name in names {
        bases.remove(&name.to_string(), context.settings.locks.shared)?;
    }
    if request.json {
        context::print_document(Value::from_iter(names.iter().map(|name| json!({"name": name.to_string()}))));
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
    let freed = if prune {
        let unused = request.unused.as_ref().map(|word| time::parse(word.as_bstr())).transpose()?;
        bases.prune_older(shared, act, interrupt, unused.unwrap_or_default())
    } else {
        bases.gc(shared, act, interrupt)
    };
    context.run.interrupt.check()?;
    let freed = freed?;
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
