//! The document that a coding agent gives its hooks on standard input.
//!
//! Claude Code, Codex and Gemini CLI name the tool and its input; Cursor names the command or the
//! file. Unknown fields are ignored, so the same reader serves all of them. A document that cannot
//! be read costs the label, not the checkpoint.

use std::{
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use bstr::{BString, ByteSlice as _};
use repo::Repository;
use serde_json::Value;

use crate::{
    session::{input::Input, invocation::Invocation},
    term::failure::Failure,
};

/// The size of a document that is read, in bytes. The results of tools stand in it too.
const LIMIT: u64 = 64 << 20;

/// The number of characters of a label that is taken from a document.
const SHOWN: usize = 120;

/// A call of a tool.
pub(super) struct Call {
    /// The label for the state after it.
    pub(super) label: BString,
    /// The directories in which it may have worked, the likeliest first.
    directories: Vec<PathBuf>,
    /// The error of a document that could not be read.
    pub(super) error: Option<Failure>,
}

impl Call {
    /// Reads the document.
    pub(super) fn read(run: &Invocation) -> Result<Call, Failure> {
        let (document, error) = match read_document(run) {
            Ok(document) => (document, None),
            Err(failure @ Failure::Signal(_)) => return Err(failure),
            Err(failure) => (Value::Null, Some(failure)),
        };
        let mut directories = directories_of(&document);
        directories.push(run.cwd.clone());
        Ok(Call { label: label_of(&document), directories, error })
    }

    /// Opens the first repository that one of the directories is in.
    pub(super) fn repository(&self, run: &Invocation) -> Result<Option<Repository>, Failure> {
        for directory in self.directories.iter().filter(|path| path.is_dir()) {
            if let Some(repo) = run.look_for_repository_at(directory)? {
                return Ok(Some(repo));
            }
        }
        Ok(None)
    }
}

/// Reads the document on standard input.
pub(crate) fn read_document(run: &Invocation) -> Result<Value, Failure> {
    let mut input = Input::new(run)?;
    let mut text = Vec::new();
    // An agent whose hook closes the pipe early reports an error.
    let read = input.by_ref().take(LIMIT).read_to_end(&mut text);
    let read = read.and_then(|_| io::copy(&mut input, &mut io::sink()));
    run.interrupt.check()?;
    let rest = read.map_err(|error| Failure::error(format!("cannot read standard input: {error}")))?;
    if rest > 0 {
        return Err(Failure::error(format!("the document on standard input is longer than {LIMIT} bytes")));
    }
    let document = serde_json::from_slice(&text);
    document.map_err(|error| Failure::error(format!("standard input is not JSON: {error}")))
}

/// Returns the absolute directories that a document names: that of the session, that of the file,
/// and those of the workspace.
fn directories_of(document: &Value) -> Vec<PathBuf> {
    let input = document.get("tool_input").unwrap_or(document);
    let session = document.get("cwd").and_then(Value::as_str).map(PathBuf::from);
    let file = input.get("file_path").and_then(Value::as_str).map(Path::new);
    let file = file.and_then(Path::parent).map(Path::to_owned);
    let roots = document.get("workspace_roots").and_then(Value::as_array).into_iter().flatten();
    let roots = roots.filter_map(Value::as_str).map(PathBuf::from);
    session.into_iter().chain(file).chain(roots).filter(|path| path.is_absolute()).collect()
}

fn label_of(document: &Value) -> BString {
    let text = |value: &Value, name: &str| value.get(name)?.as_str().map(str::to_owned);
    let event = || text(document, "hook_event_name").unwrap_or_else(|| "hook".to_owned());
    let name = text(document, "tool_name").unwrap_or_else(event);
    let input = document.get("tool_input").unwrap_or(document);
    let details = ["command", "file_path", "absolute_path", "notebook_path", "path", "prompt"];
    let detail = details.iter().find_map(|detail| text(input, detail));
    let label = detail.map_or_else(|| name.clone(), |detail| format!("{name}: {detail}"));
    let line = label.lines().next().unwrap_or_default();
    // A terminal shows the label.
    let label: String = line.chars().filter(|char| !char.is_control()).take(SHOWN).collect();
    label.trim().as_bytes().as_bstr().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_name_the_tool_and_its_object() {
        for (document, label) in [
            (json!({ "tool_name": "Bash", "tool_input": { "command": "make\nmake test" } }), "Bash: make"),
            (json!({ "tool_name": "Edit", "tool_input": { "file_path": "/r/a.rs" } }), "Edit: /r/a.rs"),
            (json!({ "tool_name": "x", "tool_input": [] }), "x"),
            (json!({ "hook_event_name": "afterShellExecution", "command": "ls" }), "afterShellExecution: ls"),
            (json!({ "tool_name": "Bash", "tool_input": { "command": "\u{1b}[2Jls" } }), "Bash: [2Jls"),
            (json!([1]), "hook"),
            (Value::Null, "hook"),
        ] {
            assert_eq!(label_of(&document), label);
        }
        let long = json!({ "tool_name": "Bash", "tool_input": { "command": "\u{e4}".repeat(500) } });
        assert_eq!(label_of(&long).chars().count(), SHOWN);
    }

    #[test]
    fn directories_are_absolute_and_in_order() {
        for (document, directories) in [
            (json!({ "cwd": "/r/d", "tool_input": { "file_path": "/o/a" } }), &["/r/d", "/o"][..]),
            (json!({ "file_path": "/o/a", "workspace_roots": ["/w", 1, "x"] }), &["/o", "/w"]),
            (json!({ "cwd": "r", "tool_input": { "file_path": "a" } }), &[]),
            (json!({ "cwd": 1, "tool_input": 2, "file_path": {}, "workspace_roots": "/w" }), &[]),
            (json!([1]), &[]),
        ] {
            let found = directories_of(&document);
            assert_eq!(found, directories.iter().map(PathBuf::from).collect::<Vec<_>>(), "{document}");
        }
    }
}
