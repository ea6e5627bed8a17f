//! The `post-checkout` hook. Source: githooks(5).

use std::{
    ffi::{OsStr, OsString},
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::PermissionsExt as _,
        process::ExitStatusExt as _,
    },
    path::Path,
    process::{Command, Stdio},
};

use bstr::{BString, ByteSlice as _};
use format::ObjectId;
use repo::Repository;

use crate::{
    console::{self, text},
    failure::Failure,
    global::Invocation,
    settings::Settings,
};

/// Runs it, if there is one. Returns its exit code, 0 without one. What it prints goes to standard
/// error, as with Git.
pub(crate) fn post_checkout(
    run: &Invocation,
    repo: &Repository,
    settings: &Settings,
    old: Option<ObjectId>,
    new: Option<ObjectId>,
    branch_changed: bool,
) -> Result<u8, Failure> {
    let Some(worktree) = repo.work_tree() else { return Ok(0) };
    let Some(mut command) = post_checkout_in(run, repo, settings, worktree)? else { return Ok(0) };
    let name = |oid: Option<ObjectId>| oid.unwrap_or(ObjectId::null(repo.hash())).to_string();
    command.args([name(old), name(new), u8::from(branch_changed).to_string()]);
    if run.env.contains_key(OsStr::new("GIT_DIR")) || repo.git_dir() != worktree.join(".git") {
        command.env("GIT_DIR", repo.git_dir());
    }
    finish(command)
}

/// As [`post_checkout`], in a worktree that was just made, at `top`: it finds its repository by itself.
pub(crate) fn post_checkout_of_new(
    run: &Invocation,
    repo: &Repository,
    settings: &Settings,
    top: &Path,
    new: ObjectId,
) -> Result<u8, Failure> {
    let Some(mut command) = post_checkout_in(run, repo, settings, top)? else { return Ok(0) };
    command.args([ObjectId::null(repo.hash()).to_string(), new.to_string(), "1".to_owned()]);
    command.env_remove("GIT_DIR").env_remove("GIT_WORK_TREE");
    finish(command)
}

/// The hook's command without arguments, to be run in `dir`, if there is one.
fn post_checkout_in(
    run: &Invocation,
    repo: &Repository,
    settings: &Settings,
    dir: &Path,
) -> Result<Option<Command>, Failure> {
    let hooks = match repo.config_path("core.hooksPath")? {
        Some(path) => repo.work_tree().unwrap_or(&run.cwd).join(path),
        None => repo.common_dir().join("hooks"),
    };
    let path = hooks.join("post-checkout");
    let Ok(meta) = path.metadata() else { return Ok(None) };
    if meta.permissions().mode() & 0o111 == 0 || !meta.is_file() {
        if settings.advises(repo, "ignoredHook")? {
            console::hint(format!(
                "The '{}' hook was ignored because it's not set as executable.\n\
                 You can disable this warning with `git config set advice.ignoredHook false`.",
                path.display()
            ));
        }
        return Ok(None);
    }
    let mut command = Command::new(&path);
    command
        .current_dir(dir)
        .env_clear()
        .envs(&run.env)
        .env("GIT_PREFIX", OsStr::from_bytes(repo.prefix()))
        .stdin(Stdio::null())
        .stdout(std::io::stderr());
    if let Some(parameters) = config_parameters(run) {
        command.env("GIT_CONFIG_PARAMETERS", parameters);
    }
    Ok(Some(command))
}

fn finish(mut command: Command) -> Result<u8, Failure> {
    console::flush();
    match command.status() {
        Ok(status) => {
            let signal = || 128 + status.signal().unwrap_or(0);
            Ok(u8::try_from(status.code().unwrap_or_else(signal)).unwrap_or(1))
        }
        Err(error) => {
            let reason = crate::text::os_error(&error);
            console::error(format!("cannot exec '{}': {reason}", command.get_program().display()));
            Ok(1)
        }
    }
}

/// What `GIT_CONFIG_PARAMETERS` is for programs we start, if `-c` adds to it.
pub(crate) fn config_parameters(run: &Invocation) -> Option<OsString> {
    let before = run.variable("GIT_CONFIG_PARAMETERS").unwrap_or_default();
    let all = || text!(before, if before.is_empty() { "" } else { " " }, parameters(&run.config));
    (!run.config.is_empty()).then(|| OsString::from_vec(all().into()))
}

/// `-c key=value` for programs we start, as Git hands it on.
fn parameters(config: &[BString]) -> BString {
    let quote = |text: &[u8]| text!("'", text.replace("'", "'\\''").replace("!", "'\\!'"), "'");
    let settings = config.iter().map(|setting| match setting.split_once_str("=") {
        Some((key, value)) => text!(quote(key), "=", quote(value)),
        None => quote(setting),
    });
    bstr::join(" ", settings).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_quoted_for_children() {
        let config = ["a.b=it's".into(), "c.d".into()];
        assert_eq!(parameters(&config), r"'a.b'='it'\''s' 'c.d'");
    }
}
