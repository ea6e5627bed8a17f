//! Hooks: those configured (`hook.<name>.event`, `.command`), then that of the hooks directory. Source: githooks(5), git-hook(1).
//!
//! What they print goes to standard error, as with Git; their standard input is empty.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::PermissionsExt as _,
        process::ExitStatusExt as _,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use bstr::{BStr, BString, ByteSlice as _};
use format::ObjectId;
use repo::Repository;

use crate::{
    console::{self, text},
    failure::Failure,
    global::Invocation,
    settings::Settings,
};

/// What was changed with an index that has been written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Changed {
    /// The worktree, by a merge of trees.
    Worktree,
    /// Nothing but the index, by `reset`.
    IndexAlone,
    /// Some paths.
    #[default]
    Paths,
}

/// `post-checkout`. Returns its exit code, 0 without one.
pub(crate) fn post_checkout(
    run: &Invocation,
    repo: &Repository,
    settings: &Settings,
    old: Option<ObjectId>,
    new: Option<ObjectId>,
    branch_changed: bool,
) -> Result<u8, Failure> {
    if repo.work_tree().is_none() {
        return Ok(0);
    }
    let name = |oid: Option<ObjectId>| oid.unwrap_or(ObjectId::null(repo.hash())).to_string();
    let args = [name(old), name(new), u8::from(branch_changed).to_string()];
    Hooks::here(run, repo, settings).run("post-checkout", &args)
}

/// As [`post_checkout`], in a worktree that was just made, at `top`: it finds its repository by itself.
pub(crate) fn post_checkout_of_new(
    run: &Invocation,
    repo: &Repository,
    settings: &Settings,
    top: &Path,
    new: ObjectId,
) -> Result<u8, Failure> {
    let args = [ObjectId::null(repo.hash()).to_string(), new.to_string(), "1".to_owned()];
    Hooks { dir: top, ..Hooks::here(run, repo, settings) }.run("post-checkout", &args)
}

/// `post-index-change`, which can stop nothing.
pub(crate) fn post_index_change(
    run: &Invocation,
    repo: &Repository,
    settings: &Settings,
    changed: Changed,
) -> Result<(), Failure> {
    let flag = |is: bool| u8::from(is).to_string();
    let args = [flag(changed == Changed::Worktree), flag(changed == Changed::IndexAlone)];
    Hooks::here(run, repo, settings).run("post-index-change", &args).map(drop)
}

/// What `command` (a program, or a line for the shell) says on standard output; `None` if it fails. It has our standard input.
pub(crate) fn answer(
    run: &Invocation,
    repo: &Repository,
    settings: &Settings,
    command: &BStr,
    args: &[String],
) -> Option<Vec<u8>> {
    console::flush();
    let hooks = Hooks::here(run, repo, settings);
    let finished = started(in_a_shell(command, args), |command| {
        let dressed = hooks.dress(command).args(args);
        dressed.stdin(Stdio::inherit()).stdout(Stdio::piped()).stderr(Stdio::inherit()).output()
    });
    match finished {
        Ok(output) => output.status.success().then_some(output.stdout),
        Err(error) => {
            let reason = crate::text::os_error(&error);
            match command.contains(&b'/') {
                true => console::report("fatal", text!("cannot exec '", command, "': ", reason)),
                false => console::error(text!("cannot run ", command, ": ", reason)),
            }
            None
        }
    }
}

/// The commands configured for `event`, in no order that counts: the shim sees to it that there is one at most.
pub(crate) fn configured(repo: &Repository, event: &str) -> Vec<BString> {
    let names = repo.config_names().filter_map(|key| key.strip_prefix(b"hook.")?.strip_suffix(b".event"));
    let names = names.filter_map(|name| name.to_str().ok());
    let is_off = |name: &str| matches!(repo.config_bool(&format!("hook.{name}.enabled")), Ok(Some(false)));
    let meant = names.filter(|name| {
        let events = repo.config_all(&format!("hook.{name}.event"));
        events.iter().any(|value| value == event) && !is_off(name)
    });
    let commands = meant.filter_map(|name| repo.config_str(&format!("hook.{name}.command")));
    if is_off(event) { Vec::new() } else { commands.collect() }
}

struct Hooks<'a> {
    run: &'a Invocation,
    repo: &'a Repository,
    settings: &'a Settings,
    /// Where they are run: the top of the worktree, or of one that was just made.
    dir: &'a Path,
}

impl<'a> Hooks<'a> {
    fn here(run: &'a Invocation, repo: &'a Repository, settings: &'a Settings) -> Self {
        Hooks { run, repo, settings, dir: repo.work_tree().unwrap_or(&run.cwd) }
    }

    /// Runs all hooks of this name. Their exit codes, one over the other.
    fn run(&self, name: &str, args: &[String]) -> Result<u8, Failure> {
        let mut code = 0;
        for command in configured(self.repo, name) {
            code |= self.wait(in_a_shell(command.as_bstr(), args), args, command.as_bstr());
        }
        if let Some(path) = self.in_directory(name)? {
            let said: BString = path.as_os_str().as_bytes().into();
            code |= self.wait(Command::new(&path), args, said.as_bstr());
        }
        Ok(code)
    }

    fn top(&self) -> &Path {
        self.repo.work_tree().unwrap_or(&self.run.cwd)
    }

    fn is_elsewhere(&self) -> bool {
        self.dir != self.top()
    }

    /// The program in the hooks directory, if it may be run.
    fn in_directory(&self, name: &str) -> Result<Option<PathBuf>, Failure> {
        let dir = match self.repo.config_path("core.hooksPath")? {
            Some(path) => self.top().join(path),
            None => self.repo.common_dir().join("hooks"),
        };
        let path = dir.join(name);
        let Ok(meta) = sys::by_path::uninterrupted(|| path.metadata()) else { return Ok(None) };
        if meta.permissions().mode() & 0o111 != 0 && meta.is_file() {
            return Ok(Some(path));
        }
        if self.settings.advises(self.repo, "ignoredHook")? {
            console::hint(format!(
                "The '{}' hook was ignored because it's not set as executable.\n\
                 You can disable this warning with `git config set advice.ignoredHook false`.",
                path.display()
            ));
        }
        Ok(None)
    }

    /// Gives it the surroundings that Git would.
    fn dress<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        let Hooks { run, repo, .. } = self;
        command
            .current_dir(self.dir)
            .env_clear()
            .envs(&run.env)
            .env("GIT_PREFIX", OsStr::from_bytes(repo.prefix()))
            .stdin(Stdio::null())
            .stdout(std::io::stderr());
        if self.is_elsewhere() {
            command.env_remove("GIT_DIR").env_remove("GIT_WORK_TREE");
        } else if run.env.contains_key(OsStr::new("GIT_DIR"))
            || repo.git_dir() != self.top().join(".git")
            || run.command == "clone"
        {
            command.env("GIT_DIR", repo.git_dir());
        }
        if let Some(parameters) = config_parameters(run) {
            command.env("GIT_CONFIG_PARAMETERS", parameters);
        }
        command
    }

    fn wait(&self, command: Command, args: &[String], name: &BStr) -> u8 {
        console::flush();
        match started(command, |command| self.dress(command).args(args).status()) {
            Ok(status) => {
                let signal = || 128 + status.signal().unwrap_or(0);
                u8::try_from(status.code().unwrap_or_else(signal)).unwrap_or(1)
            }
            Err(error) => {
                console::error(text!("cannot exec '", name, "': ", crate::text::os_error(&error)));
                1
            }
        }
    }
}

/// Runs `command`; one that the kernel does not know how to run is a script for the shell, as in Git.
fn started<T>(mut command: Command, run: impl Fn(&mut Command) -> io::Result<T>) -> io::Result<T> {
    const EXEC_FORMAT_ERROR: i32 = 8;
    match run(&mut command) {
        Err(error) if error.raw_os_error() == Some(EXEC_FORMAT_ERROR) => {
            run(Command::new("/bin/sh").arg(command.get_program()))
        }
        result => result,
    }
}

/// A command as Git starts those of the configuration: by itself if it is one word, else in a shell that hands the arguments on.
fn in_a_shell(text: &BStr, args: &[String]) -> Command {
    let bytes = OsStr::from_bytes(text);
    if !text.iter().any(|byte| b"|&;<>()$`\\\"' \t\n*?[#~=%".contains(byte)) {
        return Command::new(bytes);
    }
    let mut command = Command::new("/bin/sh");
    let script = if args.is_empty() { text.to_owned() } else { text!(text, " \"$@\"") };
    command.arg("-c").arg(OsStr::from_bytes(&script)).arg(bytes);
    command
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
