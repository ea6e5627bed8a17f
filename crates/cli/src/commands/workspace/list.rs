//! `workspace list`.

use std::{os::unix::ffi::OsStrExt as _, path::Path};

use bstr::{BString, ByteSlice as _};
use engine::workspace::{
    backend::Mounted,
    crash::Notice,
    record::Workspace,
    upper::{self, Layer},
};
use repo::WorktreeHeadKind;
use serde_json::{Value, json};
use sys::{FileType, by_path};

use super::{
    context::{self, Context, json_path},
    crash, mounts,
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
    let all: Vec<Facts> =
        context.all()?.iter().map(|workspace| Facts::of(&context, workspace)).collect::<Result<_, _>>()?;
    match request.json {
        true => context::print_json(&Value::from_iter(all.iter().map(Facts::json))),
        false => table(&all).iter().for_each(console::out),
    }
    Ok(0)
}

/// Returns the JSON document of one workspace.
pub(super) fn describe(context: &Context<'_>, workspace: &Workspace) -> Result<Value, Failure> {
    Ok(Facts::of(context, workspace)?.json())
}

/// The properties of a workspace that are listed.
struct Facts {
    workspace: Workspace,
    /// The branch without `refs/heads/`; `None` if HEAD is detached.
    branch: Option<BString>,
    commit: Option<String>,
    mounted: Mounted,
    /// False if the base is gone, so that the workspace cannot be mounted again.
    has_base: bool,
    /// The number of changed paths in the upper layer; `None` if the backend has no upper layer, or
    /// if the layer cannot be read.
    changes: Option<usize>,
    /// The size of the upper layer and the administrative directory on disk, in bytes.
    size: u64,
}

impl Facts {
    fn of(context: &Context<'_>, workspace: &Workspace) -> Result<Facts, Failure> {
        let admin = context.common.join("worktrees").join(&workspace.name);
        let worktree = context.repo.linked_worktree(&workspace.name);
        let head = worktree.as_ref().map(|worktree| context.repo.head_of(worktree));
        let branch = head.as_ref().and_then(|head| match &head.kind {
            WorktreeHeadKind::Branch(name) => Some(name.strip_prefix(b"refs/heads/").unwrap_or(name).into()),
            _ => None,
        });
        let has_upper = workspace.record.backend.has_upper();
        let layer = Layer::of(workspace);
        let changes = layer.and_then(|layer| match upper::changed_paths(&layer) {
            Ok(all) => Some(all.changes()),
            Err(error) => {
                console::error(error.to_string());
                None
            }
        });
        let size = if has_upper { bytes_below(&workspace.upper()) } else { 0 };
        Ok(Facts {
            branch,
            commit: head.map(|head| head.oid.to_string()),
            mounted: mounts::state(workspace)?,
            has_base: mounts::layers(workspace).is_ok(),
            changes,
            size: size + bytes_below(&admin),
            workspace: workspace.clone(),
        })
    }

    fn json(&self) -> Value {
        let record = &self.workspace.record;
        json!({
            "name": self.workspace.name.to_string_lossy(),
            "dir": json_path(&record.dir),
            "branch": self.branch.as_ref().map(|branch| branch.to_str_lossy()),
            "commit": self.commit,
            "backend": record.backend.name(),
            "base": record.base.as_ref().map(|base| &base.name),
            "mounted": !matches!(self.mounted, Mounted::No),
            "holder": match self.mounted {
                Mounted::InNamespace { pid } => Some(pid),
                _ => None,
            },
            "baseFound": self.has_base,
            "changes": self.changes,
            "crash": crash::json(&self.workspace),
            "size": self.size,
        })
    }
}

/// Returns one line per workspace, in columns.
fn table(all: &[Facts]) -> Vec<BString> {
    let width = all.iter().map(|facts| facts.workspace.name.len()).max().unwrap_or(0);
    let line = |facts: &Facts| {
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
        let gone = if facts.has_base { "" } else { " (its base is gone)" };
        let crash = match Notice::read(&facts.workspace.state).map_or(0, |notice| notice.findings.len()) {
            0 => String::new(),
            1 => " (1 path to look at after a crash)".to_owned(),
            count => format!(" ({count} paths to look at after a crash)"),
        };
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
            "  ",
            state,
            gone,
            crash.as_str(),
            "  ",
            dir
        )
    };
    all.iter().map(line).collect()
}

/// Returns the size in bytes of the files below `dir`, except shared indexes, which workspaces
/// link. Skips directories that cannot be read.
fn bytes_below(dir: &Path) -> u64 {
    let Ok(entries) = by_path::list(dir) else { return 0 };
    let size = |(name, kind): (std::ffi::OsString, FileType)| {
        let path = dir.join(&name);
        match kind {
            FileType::Directory => bytes_below(&path),
            _ if name.as_bytes().starts_with(b"sharedindex.") => 0,
            _ => by_path::stat(&path).ok().flatten().map_or(0, |stat| stat.size),
        }
    };
    entries.into_iter().map(size).sum()
}
