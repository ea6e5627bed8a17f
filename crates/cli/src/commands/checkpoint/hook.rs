//! The document that a coding agent gives its hooks on standard input.
//!
//! Claude Code, Codex and Gemini CLI name the tool and its input; Cursor names the command or the
//! file. Unknown fields are ignored, so the same reader serves all of them.

use std::io::Read as _;

use bstr::{BString, ByteSlice as _};
use serde_json::Value;

use crate::{
    session::{input::Input, invocation::Invocation},
    term::failure::Failure,
};

/// The number of characters of a label that is taken from a document.
const SHOWN: usize = 120;

/// Reads the document. Returns the label for the state after the call of the tool.
pub(super) fn label(run: &Invocation) -> Result<BString, Failure> {
    let mut text = Vec::new();
    let read = Input::new(run)?.read_to_end(&mut text);
    run.interrupt.check()?;
    read.map_err(|error| Failure::error(format!("cannot read standard input: {error}")))?;
    let document = serde_json::from_slice(&text);
    let document =
        document.map_err(|error| Failure::error(format!("standard input is not JSON: {error}")))?;
    Ok(label_of(&document))
}

fn label_of(document: &Value) -> BString {
    let text = |value: &Value, name: &str| value.get(name)?.as_str().map(str::to_owned);
    let event = || text(document, "hook_event_name").unwrap_or_else(|| "hook".to_owned());
    let name = text(document, "tool_name").unwrap_or_else(event);
    let input = document.get("tool_input").unwrap_or(document);
    let details = ["command", "file_path", "absolute_path", "notebook_path", "path", "prompt"];
    let detail = details.iter().find_map(|detail| text(input, detail));
    let label = detail.map_or_else(|| name.clone(), |detail| format!("{name}: {detail}"));
    let label: String = label.lines().next().unwrap_or_default().chars().take(SHOWN).collect();
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
            (json!([1]), "hook"),
        ] {
            assert_eq!(label_of(&document), label);
        }
        let long = json!({ "tool_name": "Bash", "tool_input": { "command": "\u{e4}".repeat(500) } });
        assert_eq!(label_of(&long).chars().count(), SHOWN);
    }
}
