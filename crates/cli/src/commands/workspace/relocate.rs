//! `workspace move`. See [`sapwood::workspace::relocate`].

use std::os::unix::ffi::OsStrExt as _;

use bstr::{BString, ByteSlice as _};
use sapwood::workspace::relocate;
use serde_json::json;

use super::{
    context::{self, Context, json_path},
    request::{MOVE, Request},
};
use crate::{
    session::invocation::Invocation,
    term::{
        console::{self, text},
        failure::Failure,
        files,
    },
};

/// Runs the command. Returns its exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let words = MOVE.parse(args)?.store(&mut request)?;
    let [name, to] = words.as_slice() else {
        return Err(Failure::fatal("name a workspace and a directory"));
    };
    let context = Context::open(run)?;
    let workspace = context.find(name.as_bstr())?;
    workspace.refuse_sealed("workspace move")?;
    let worktree_context = context.worktree_context();
    let to = worktree_context.given(to.as_bstr())?;
    relocate::check(&worktree_context, &workspace, &to)?;
    let moved = relocate::relocate(&worktree_context, &workspace, &files::realpath_forgiving(&to.path))?;
    if request.json {
        let dir = json_path(&moved.record.dir);
        context::print_document(json!({"name": workspace.name.to_string_lossy(), "dir": dir}));
    } else if !request.quiet {
        console::eprint_line(text!("Workspace at '", moved.record.dir.as_os_str().as_bytes(), "'"));
    }
    Ok(0)
}
