//! `shell-init` in the real shells: the function `sw`, its completion, and the name in the prompt.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use testkit::{Repo, Sandbox, disk::NoMountsBelow, has_program};

use crate::SAPWOOD;

const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// A shell that has read the script, and runs commands.
struct Shell<'s> {
    name: &'static str,
    repo: Repo<'s>,
    script: PathBuf,
}

impl<'s> Shell<'s> {
    fn new(name: &'static str, repo: &Repo<'s>) -> Option<Shell<'s>> {
        if !has_program(name) {
            println!("skipped: no {name}");
            return None;
        }
        let made = repo.run(Path::new(SAPWOOD), &["shell-init", name]);
        assert_eq!((made.code, made.stderr), (0, "".into()));
        let script = repo.join(format!(".git/init.{name}"));
        fs::write(&script, made.stdout).expect("a new file");
        Some(Shell { name, repo: repo.clone(), script })
    }

    /// Runs commands after the script. Returns the exit code, standard output and standard error.
    fn run(&self, text: &str) -> (i32, String, String) {
        let mut shell = self.repo.command(self.name.as_ref());
        match self.name {
            "bash" => shell.args(["--norc", "--noprofile"]),
            "zsh" => shell.arg("-f"),
            _ => shell.arg("--no-config"),
        };
        self.output(shell.arg("-c").arg(format!("source '{}'; {text}", self.script.display())))
    }

    fn output(&self, shell: &mut Command) -> (i32, String, String) {
        let bin = Path::new(SAPWOOD).parent().expect("a directory").display();
        let path = std::env::var("PATH").expect("a PATH");
        let output = shell.env("PATH", format!("{bin}:{path}")).output().expect("a shell");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        (output.status.code().expect("no signal"), text(output.stdout), text(output.stderr))
    }

    /// Prints the name that the prompt would show.
    fn prompt(&self) -> &'static str {
        match self.name {
            "bash" => "_sapwood_prompt; echo \"[$sapwood_workspace]\"",
            "zsh" => "_sapwood_prompt; print -r -- \"[$sapwood_workspace]\"",
            _ => "emit fish_prompt; echo \"[$sapwood_workspace]\"",
        }
    }
}

fn repository(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.init("repo");
    repo.write("dir/a", "1\n");
    repo.commit("one");
    for name in ["space-one", "space-two", "100%-$(touch${IFS}pwned)"] {
        let made =
            repo.run(SAPWOOD.as_ref(), &["workspace", "create", "--backend", "copy", "--detach", name]);
        assert_eq!(made.code, 0, "{}", made.stderr);
    }
    repo
}

#[test]
fn sw_changes_into_a_workspace() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = repository(&sandbox);
    repo.git(&["config", "sapwood.workspaceDir", &sandbox.path().join("made").display().to_string()]);
    for shell in SHELLS.iter().filter_map(|name| Shell::new(name, &repo)) {
        let name = shell.name;
        let spaces = sandbox.path().join("repo.workspaces");
        let (code, out, err) = shell.run("cd dir; sw space-one; pwd; sw space-two; pwd");
        let expected = format!("{0}/space-one\n{0}/space-two\n", spaces.display());
        assert_eq!((code, out.as_str()), (0, expected.as_str()), "{name}: {err}");
        // A new one, from a workspace, and the list.
        let (code, out, err) = shell.run(&format!("sw space-one; sw -c new-{name} HEAD; pwd; sw"));
        let dir = sandbox.path().join("made").join(format!("new-{name}"));
        assert!(code == 0 && out.starts_with(&format!("{}\n", dir.display())), "{name}: {out}{err}");
        assert!(out.contains("space-two"), "{name}: {out}");
        // Errors leave the directory as it is.
        for (line, expected) in [("sw nowhere", 128), ("sw -x", 129), ("sw a b", 129), ("sw -c -x", 129)] {
            let status = if name == "fish" { "$status" } else { "$?" };
            let (_, out, _) = shell.run(&format!("{line}; echo {status}; pwd"));
            assert_eq!(out, format!("{expected}\n{}\n", repo.path.display()), "{name}: {line}");
        }
    }
    assert!(!repo.exists("pwned"));
}

#[test]
fn the_prompt_names_the_workspace_without_a_program() {
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    repo.git(&["worktree", "add", "-q", "../linked"]);
    fs::create_dir(sandbox.path().join("outside")).expect("a new directory");
    let spaces = sandbox.path().join("repo.workspaces").display().to_string();
    for shell in SHELLS.iter().filter_map(|name| Shell::new(name, &repo)) {
        let prompt = shell.prompt();
        // Without PATH no program can be started, and a name that is a command does not run.
        let empty = if shell.name == "fish" { "set PATH" } else { "PATH=" };
        for (dir, expected) in [
            (repo.path.display().to_string(), "[]"),
            (format!("{spaces}/space-one"), "[space-one]"),
            (format!("{spaces}/space-one/dir"), "[space-one]"),
            (sandbox.path().join("linked").display().to_string(), "[]"),
            (sandbox.path().join("outside").display().to_string(), "[]"),
            ("/".to_owned(), "[]"),
        ] {
            let (code, out, err) = shell.run(&format!("{empty}; cd '{dir}'; {prompt}"));
            assert_eq!((code, out.trim(), err.trim()), (0, expected, ""), "{} in {dir}", shell.name);
        }
        let odd = if shell.name == "zsh" { "100%%-$(touch${IFS}pwned)" } else { "100%-$(touch${IFS}pwned)" };
        let (_, out, err) = shell.run(&format!("cd '{spaces}/100%-$(touch${{IFS}}pwned)'; {prompt}"));
        assert_eq!((out.trim(), err.trim()), (&*format!("[{odd}]"), ""), "{}", shell.name);
    }
    assert!(!Path::new(&spaces).join("100%-$(touch${IFS}pwned)/pwned").exists());
}

/// A file of another user may name anything, and a directory may have a newline in its name.
#[test]
fn the_prompt_takes_names_of_others() {
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    let name = "a\u{1b}]0;b";
    let common = sandbox.path().join("theirs/.git");
    fs::create_dir_all(common.join("sapwood/workspaces").join(name)).expect("a new directory");
    fs::write(common.join("sapwood/workspaces").join(name).join("record"), "").expect("a new file");
    let at = sandbox.path().join("at");
    fs::create_dir(&at).expect("a new directory");
    let plain = sandbox.path().join("plain\nline");
    fs::create_dir(&plain).expect("a new directory");
    fs::write(at.join(".git"), format!("gitdir: {}/worktrees/{name}\n", common.display())).expect("written");
    for shell in SHELLS.iter().filter_map(|name| Shell::new(name, &repo)) {
        let prompt = shell.prompt();
        let (code, out, err) = shell.run(&format!("cd '{}'; {prompt}", at.display()));
        assert_eq!((code, out.trim(), err.as_str()), (0, "[a?]0;b]", ""), "{}", shell.name);
        // It ends.
        let (code, out, _) = shell.run(&format!("cd '{}'; {prompt}", plain.display()));
        assert_eq!((code, out.trim()), (0, "[]"), "{}", shell.name);
    }
}

/// The exit code of the last command reaches the user's own prompt commands, and the script may be
/// read twice.
#[test]
fn the_hook_of_bash_keeps_the_exit_code() {
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    let Some(shell) = Shell::new("bash", &repo) else { return };
    let again = format!("source '{}'", shell.script.display());
    for before in ["PROMPT_COMMAND='echo mine $?'", "PROMPT_COMMAND=('echo mine $?')", "unset PROMPT_COMMAND"]
    {
        let mut bash = repo.command("bash".as_ref());
        let text = format!(
            "{before}; {again}; {again}; (exit 7); for each in \"${{PROMPT_COMMAND[@]}}\"; do eval \"$each\"; done; \
             grep -c _sapwood_prompt <<<\"${{PROMPT_COMMAND[*]}}\""
        );
        let (code, out, err) = shell.output(bash.args(["--norc", "--noprofile", "-c", &text]));
        let mine = if before.starts_with("unset") { "" } else { "mine 7\n" };
        assert_eq!((code, out.as_str(), err.as_str()), (0, &*format!("{mine}1\n"), ""), "{before}");
    }
}

#[test]
fn names_are_completed() {
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    for shell in SHELLS.iter().filter_map(|name| Shell::new(name, &repo)) {
        let ask = match shell.name {
            "bash" => "COMP_WORDS=(sw space) COMP_CWORD=1; _sw; printf '%s\\n' \"${COMPREPLY[@]}\"",
            "zsh" => "compadd() { shift; print -l -- ${(M)${(P)1}:#space*} }; cd dir; _sw",
            _ => "cd dir; complete -C 'sw space'",
        };
        let (code, out, err) = shell.run(ask);
        let mut found: Vec<&str> =
            out.lines().map(|line| line.split('\t').next().unwrap_or_default()).collect();
        found.sort_unstable();
        assert_eq!((code, found), (0, vec!["space-one", "space-two"]), "{}: {err}", shell.name);
    }
}

#[test]
fn another_shell_is_a_mistake() {
    let sandbox = Sandbox::new();
    let at = sandbox.repo("");
    let run = at.run(SAPWOOD.as_ref(), &["shell-init", "tcsh"]);
    assert_eq!((run.code, run.stdout), (129, "".into()));
    assert_eq!(at.run(SAPWOOD.as_ref(), &["shell-init"]).code, 129);
}
