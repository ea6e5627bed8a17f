//! `workspace quota`, and the words about a quota that is full.

use bstr::{BString, ByteSlice as _};
use engine::workspace::quota::Quota;
use sapwood::workspace::quota;
use serde_json::{Value, json};

use super::{
    context::{self, Context},
    request::{QUOTA, Request},
};
use crate::{
    session::invocation::Invocation,
    term::{
        console::{self, text},
        failure::Failure,
        text::bytes::readable,
    },
};

/// Runs the command. Returns its exit code.
pub(super) fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let words = QUOTA.parse(args)?.store(&mut request)?;
    let (name, limit) = match &words[..] {
        [name] => (name, None),
        [name, limit] => (name, Some(size(limit)?)),
        _ => return Err(Failure::fatal("name a workspace, and at most one size")),
    };
    let context = Context::open(run)?;
    let workspace = context.find(name.as_bstr())?;
    let quota = match limit {
        Some(limit) => quota::change(&context.worktree_context(), &workspace, limit)?,
        None => quota::of(&workspace)?,
    };
    if request.json {
        context::print_document(document(&quota));
    } else if !request.quiet {
        console::out(words_for(&quota));
    }
    Ok(0)
}

/// Parses a size; `none` is 0, for no limit.
pub(super) fn size(text: &BString) -> Result<u64, Failure> {
    if text == "none" {
        return Ok(0);
    }
    let bytes = bytes(text).filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| Failure::fatal(text!("'", text, "' is not a size such as 500M or 20G, or 'none'")))
}

/// Returns the number of bytes that a text such as `500M` names.
pub(super) fn bytes(text: &BString) -> Option<u64> {
    repo::parse_size(text.as_bstr()).ok().and_then(|bytes| u64::try_from(bytes).ok())
}

/// Returns the JSON document of a quota.
pub(super) fn document(quota: &Quota) -> Value {
    json!({"used": quota.used, "limit": (quota.limit > 0).then_some(quota.limit)})
}

/// Returns the words for a quota.
pub(super) fn words_for(quota: &Quota) -> String {
    match quota.limit {
        0 => format!("{}, no limit", readable(quota.used)),
        limit => format!("{} of {}", readable(quota.used), readable(limit)),
    }
}

/// Tells the user that the quota of the current workspace is full, if it is.
pub(crate) fn tell_if_full(run: &Invocation) {
    if !quota::may_be_full(&run.cwd) {
        return;
    }
    let Ok(repo) = run.open() else { return };
    let Some((workspace, quota)) = quota::full(&repo) else { return };
    let name = workspace.name.to_string_lossy();
    console::warning(format!("the quota of the workspace '{name}' is full: {}", words_for(&quota)));
    console::hint(
        "Nothing is lost, but no file can grow. Delete files that are not needed, such as ignored ones,",
    );
    console::hint(format!("or raise the limit: sapwood workspace quota {name} <size>"));
}
