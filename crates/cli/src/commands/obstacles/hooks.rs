//! Hooks that leave a command to the real Git.

use bstr::{BString, ByteSlice as _};
use repo::{Repository, keys};

use crate::{
    commands::{reason::Reason, record::Candidate},
    session::settings::config::Config,
    term::files,
};

/// Hooks that are left to the real Git.
pub(crate) const UNSERVED: &[&str] = &["reference-transaction"];

/// Hooks that are left to the real Git when a worktree is added: Git runs them in a child process
/// there.
pub(crate) const HOOKS_OF_WORKTREES: &[&str] = &["reference-transaction", "post-index-change"];

/// Hooks that sapwood runs, from the hooks directory and from the configuration.
const NATIVE_HOOKS: &[&str] = &[
    "commit-msg",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-rewrite",
    "pre-commit",
    "prepare-commit-msg",
];

/// The names of Git's hooks: Git rejects a configured hook with such a name.
const EVENTS: &[&str] = &[
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "p4-changelist",
    "p4-post-changelist",
    "p4-pre-submit",
    "p4-prepare-changelist",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-receive",
    "post-rewrite",
    "post-update",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "pre-receive",
    "prepare-commit-msg",
    "proc-receive",
    "push-to-checkout",
    "reference-transaction",
    "sendemail-validate",
    "update",
];

/// Detects configured hooks that are left to the real Git.
pub(crate) fn configured(candidate: &Candidate<'_>) -> Vec<Reason> {
    configured_in(candidate.config())
}

/// Like [`configured`], for the configuration of another repository.
pub(crate) fn configured_in(config: &dyn Config) -> Vec<Reason> {
    let names = config.names().into_iter().map(|name| name.to_string());
    names.filter(|name| is_left_to_git(config, name)).map(Reason::Setting).collect()
}

/// Returns true if the setting `name` configures a hook in a way that sapwood does not serve.
/// sapwood runs at most one configured hook per event, and only if Git would print no warning or
/// error about it.
fn is_left_to_git(config: &dyn Config, name: &str) -> bool {
    let Some(rest) = name.strip_prefix("hook.") else { return false };
    let Some((hook, key)) = rest.rsplit_once('.') else { return true };
    let has_command = || {
        let command = config.value(keys::hook::COMMAND.of(hook).name());
        command.flatten().is_some_and(|value| !value.is_empty())
    };
    match key {
        "event" => {
            let events = config.all(name);
            let ours = |event: &BString| NATIVE_HOOKS.iter().any(|ours| *event == *ours);
            let shared = |event: &BString| {
                let others = config.names().into_iter().filter(|other| {
                    other != name && other.starts_with(b"hook.") && other.ends_with(b".event")
                });
                others.into_iter().any(|other| config.all(&other.to_str_lossy()).contains(event))
            };
            EVENTS.contains(&hook)
                || events.contains(&BString::from(hook))
                || UNSERVED.iter().any(|event| events.contains(&BString::from(*event)))
                || !has_command()
                || events.iter().any(|event| event.is_empty() || ours(event) && shared(event))
        }
        "command" => config.value(name).flatten().is_none_or(|value| value.is_empty()),
        "enabled" => config.get_as::<bool>(name).is_err(),
        _ => true,
    }
}

/// Detects those of `hooks` that are in the hooks directory.
pub(crate) fn present(repo: &Repository, hooks: &[&str]) -> Vec<Reason> {
    let Ok(dir) = repo.config_path(&keys::core::HOOKS_PATH) else {
        return vec![Reason::Setting(keys::core::HOOKS_PATH.lower())];
    };
    let dir = match dir.map(|dir| dir.resolve(repo.base_dir())) {
        None => repo.common_dir().join("hooks"),
        Some(Ok(dir)) => dir,
        Some(Err(_)) => return vec![Reason::Setting(keys::core::HOOKS_PATH.lower())],
    };
    let there = hooks.iter().filter(|hook| files::may_exist(&dir.join(hook)));
    there.map(|hook| Reason::repository(format!("there is a hook '{hook}'"))).collect()
}
