//! The user's editor: `GIT_EDITOR`, `core.editor`, `VISUAL`, `EDITOR`, or `vi`. Source: git-var(1),
//! `GIT_EDITOR`.

use std::{io::IsTerminal as _, path::Path};

use bstr::{BString, ByteSlice as _};

use repo::keys;

use crate::{
    session::{Session, hooks},
    term::{
        console::{self, text},
        failure::Failure,
        files,
        text::{os_error, os_str},
    },
};

/// The error of a file that was not edited. Its message was printed.
#[derive(Debug)]
pub(crate) struct NotEdited;

/// Starts the editor on a file and waits for it. The editor gets `variables` in addition to the
/// environment of all child programs.
pub(crate) fn edit(
    session: Session<'_>,
    file: &Path,
    variables: &[(&'static str, BString)],
) -> Result<Result<(), NotEdited>, Failure> {
    let Session { invocation: run, repository: repo, settings } = session;
    let is_dumb = matches!(run.variable("TERM"), None | Some(b"dumb"));
    let variable = |name: &str| run.variable(name).map(BString::from);
    let editor = variable("GIT_EDITOR")
        .or_else(|| repo.config_str(&keys::core::EDITOR))
        .or_else(|| variable("VISUAL").filter(|_| !is_dumb))
        .or_else(|| variable("EDITOR"))
        .or_else(|| (!is_dumb).then(|| "vi".into()));
    let Some(editor) = editor else {
        console::error("Terminal is dumb, but EDITOR unset");
        return Ok(Err(NotEdited));
    };
    if editor == ":" {
        return Ok(Ok(()));
    }
    let shows_hint =
        std::io::stderr().is_terminal() && settings.advises(repo, keys::advice::WAITING_FOR_EDITOR)?;
    if shows_hint {
        let end = if is_dumb { "\n" } else { " " };
        console::eprint_raw(format!("hint: Waiting for your editor to close the file...{end}").as_bytes());
    }
    let file = files::realpath(file).map_err(|error| {
        Failure::fatal(format!("Invalid path '{}': {}", file.display(), os_error(&error)))
    })?;
    console::flush();
    // While the editor runs, keyboard signals are meant for it.
    let before = run.interrupt.is_raised();
    let ended = hooks::started(hooks::in_a_shell(editor.as_bstr(), &[String::new()]), |command| {
        command
            .current_dir(repo.child_dir())
            .env_clear()
            .envs(repo.child_env())
            .envs(variables.iter().map(|(name, value)| (name, os_str(value))))
            .arg(&file)
            .status()
    });
    let ended = match ended {
        Ok(ended) => ended,
        Err(error) => {
            hooks::not_started(editor.as_bstr(), &error);
            console::error(text!("unable to start editor '", editor, "'"));
            return Ok(Err(NotEdited));
        }
    };
    const BY_KEYBOARD: [i32; 2] = [signal_hook::consts::SIGINT, signal_hook::consts::SIGQUIT];
    let code = hooks::exit_code(ended, editor.as_bstr());
    if let Some(signal) = BY_KEYBOARD.into_iter().find(|signal| i32::from(code) == 128 + signal) {
        return Err(Failure::Signal(signal));
    }
    if !before {
        run.interrupt.forget(&BY_KEYBOARD);
    }
    run.interrupt.check()?;
    if shows_hint && !is_dumb {
        console::eprint_raw(b"\r\x1b[K");
    }
    if code != 0 {
        console::error(text!("there was a problem with the editor '", editor, "'"));
        return Ok(Err(NotEdited));
    }
    Ok(Ok(()))
}
