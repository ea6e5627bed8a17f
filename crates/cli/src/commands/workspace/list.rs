//! `workspace list`.

use std::{
    os::unix::ffi::OsStrExt as _,
    time::{SystemTime, UNIX_EPOCH},
};

use bstr::{BString, ByteSlice as _};
use engine::workspace::{
    backend::Mounted,
    crash::Notice,
    quota::Quota,
    record::{self, Workspace},
};
use sapwood::workspace::{
    class::Class,
    list::{self, Found},
};
use serde_json::{Value, json};

use super::{
    context::{self, Context, json_path},
    crash, quota,
    request::{LIST, Request},
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
    if let Some(extra) = LIST.parse(args)?.store(&mut request)?.first() {
        return Err(Failure::fatal(text!("list takes no arguments, and so not '", extra, "'")));
    }
    let context = Context::open(run)?;
    let classes = request.classes || request.json;
    let all = list::examine(&context.worktree_context(), list::Request { classes })?.workspaces;
    if request.json {
        context::print_document(Value::from_iter(all.iter().map(json)))
    } else {
        table(&all).iter().for_each(console::out)
    }
    Ok(0)
}

/// Returns the JSON document of one workspace.
pub(super) fn describe(context: &Context<'_>, workspace: &Workspace) -> Result<Value, Failure> {
    Ok(json(&Found::of(&context.worktree_context(), workspace)?))
}

/// Returns the JSON document of one workspace.
fn json(found: &Found) -> Value {
    let record = &found.workspace.record;
    let mut document = json!({
        "name": found.workspace.name.to_string_lossy(),
        "dir": json_path(&record.dir),
        "branch": found.branch.as_ref().map(|branch| branch.to_str_lossy()),
        "commit": found.commit,
        "backend": record.backend.name(),
        "sealed": record.sealed.is_some(),
        "begun": found.workspace.refuse_begun().is_err(),
        "base": record.base.as_ref().map(|base| &base.name),
        "mounted": !matches!(found.mounted, Mounted::No),
        "holder": match found.mounted {
            Mounted::InNamespace { pid } => Some(pid),
            _ => None,
        },
        "baseFound": found.has_base,
        "dirFound": found.has_directory,
        "changes": found.changes,
        "crash": crash::json(&found.workspace),
        "size": found.size,
        "quota": found.quota.as_ref().map(quota::document),
    });
    if let (Some(class), Some(fields)) = (&found.class, document.as_object_mut()) {
        fields.insert("landed".into(), json!(class.landed.as_ref().map(|name| name.to_str_lossy())));
        fields.insert("pushed".into(), class.pushed.into());
        fields.insert("moved".into(), class.has_moved.into());
        fields.insert("unsaved".into(), json!(class.unsaved.as_ref().map(ToString::to_string)));
        fields.insert("live".into(), json!(class.live));
        fields.insert("idleSince".into(), class.idle_since.into());
        fields.insert("locked".into(), class.is_locked.into());
    }
    document
}

/// Returns the words for the classes of a workspace.
fn words(class: &Class, quota: Option<&Quota>) -> BString {
    let mut words: Vec<BString> = Vec::new();
    if let Some(pid) = class.live {
        words.push(text!("live (process ", pid.to_string(), ")"));
    }
    if let Some(unsaved) = &class.unsaved {
        words.push(text!("unsaved (", unsaved.to_string(), ")"));
    }
    if let Some(branch) = &class.landed {
        words.push(if class.has_moved { text!("landed in ", branch) } else { "no commits".into() });
    }
    words.extend(class.pushed.then(|| "pushed".into()));
    words.extend(class.is_locked.then(|| "locked".into()));
    words.push(text!("idle for ", idle_for(class.idle_since)));
    words.extend(quota.map(|quota| text!("quota ", quota::words_for(quota))));
    bstr::join(", ", words).into()
}

/// Returns the time since `since` in its largest unit.
fn idle_for(since: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let seconds = now.saturating_sub(u64::try_from(since).unwrap_or(0));
    let units = [(24 * 60 * 60, 'd'), (60 * 60, 'h'), (60, 'm')];
    let unit = units.into_iter().find(|(length, _)| seconds >= *length);
    unit.map_or_else(|| format!("{seconds}s"), |(length, unit)| format!("{}{unit}", seconds / length))
}

/// Returns one line per workspace, in columns.
fn table(all: &[Found]) -> Vec<BString> {
    let width = all.iter().map(|facts| facts.workspace.name.len()).max().unwrap_or(0);
    let line = |facts: &Found| {
        let name = facts.workspace.name.as_bytes();
        let pad = " ".repeat(width - name.len());
        let record = &facts.workspace.record;
        let branch = match (&facts.branch, &facts.commit) {
            (Some(branch), _) => text!("[", branch, "]"),
            (None, Some(commit)) => text!("(detached ", &commit[..commit.len().min(10)], ")"),
            (None, None) => "(no commit)".into(),
        };
        let changes = match facts.changes {
            Some(1) => "1 change".to_owned(),
            Some(count) => format!("{count} changes"),
            None => "-".to_owned(),
        };
        let state = match facts.mounted {
            Mounted::No if record.backend.has_upper() => "not mounted",
            Mounted::InNamespace { .. } => "mounted for exec",
            _ => "mounted",
        };
        let size = facts.size.div_ceil(1024).to_string();
        let dir = record.dir.as_os_str().as_bytes();
        let backend = record.backend.name();
        let sealed = match facts.workspace.refuse_begun() {
            Err(record::Error::Begun { .. }) => ", sealed, being created",
            Err(_) => ", sealed, its creation was interrupted",
            Ok(()) if record.sealed.is_some() => ", sealed",
            Ok(()) => "",
        };
        let gone = match (facts.has_directory, facts.has_base) {
            (false, _) => " (its directory is gone)",
            (true, false) => " (its base is gone)",
            (true, true) => "",
        };
        let crash = match Notice::read(&facts.workspace.state).map_or(0, |notice| notice.findings.len()) {
            0 => String::new(),
            1 => " (1 path to look at after a crash)".to_owned(),
            count => format!(" ({count} paths to look at after a crash)"),
        };
        let classes =
            facts.class.as_ref().map(|class| words(class, facts.quota.as_ref())).unwrap_or_default();
        let before_classes = if classes.is_empty() { "" } else { "  " };
        text!(
            name,
            pad,
            "  ",
            branch,
            "  ",
            changes,
            "  ",
            size,
            " KB  ",
            backend,
            sealed,
            "  ",
            state,
            gone,
            crash.as_str(),
            before_classes,
            classes,
            "  ",
            dir
        )
    };
    all.iter().map(line).collect()
}
