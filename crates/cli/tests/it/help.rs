//! `help`: the commands by task, the manual, and unknown commands.

use std::process::{Command, Stdio};

use bstr::ByteSlice as _;
use testkit::{Oracle, Sandbox, has_program, wording};

use crate::SAPWOOD;

fn run(args: &[&str]) -> testkit::Run {
    Sandbox::new().repo("").run(SAPWOOD.as_ref(), args)
}

#[test]
fn sapwood_alone_lists_the_commands_by_task() {
    let alone = run(&[]);
    assert_eq!(alone.code, 1);
    let text = alone.stdout.to_string();
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    let place = |text: &str, word: &str| text.find(word).unwrap_or_else(|| panic!("no '{word}'"));
    let order =
        ["\nstart a working tree\n", "   clone", "\nlook at it\n", "   status", "\nchange it\n", "   switch"];
    assert!(order.map(|word| place(&text, word)).is_sorted(), "{text}");
    assert_eq!(run(&["help"]).stdout, text);
    assert_eq!(run(&["--help"]).stdout, text);
}

#[test]
fn help_prints_the_page_of_a_command() {
    let page = run(&["help", "switch"]);
    assert_eq!((page.code, page.stderr), (0, "".into()));
    let text = page.stdout.to_string();
    assert!(text.starts_with("NAME\n       sapwood-switch - Switch branches\n\nSYNOPSIS\n"), "{text}");
    assert!(
        text.contains(
            "\n       -c, --[no-]create <branch>\n              Create and switch to a new branch.\n"
        )
    );
    assert!(text.ends_with("\nSEE ALSO\n       git-switch(1), sapwood(1), sapwood-doctor(1)\n"));
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    assert_eq!(run(&["switch", "--help"]).stdout, text);
    assert_eq!(run(&["--help", "switch"]).stdout, text);
    // A page includes the subcommands.
    let worktree = run(&["help", "worktree"]).stdout;
    assert!(worktree.contains_str("\n   remove\n       Remove a worktree.\n\n       -f, --[no-]force\n"));
    assert!(run(&["help", "sapwood"]).stdout.contains_str("\nENVIRONMENT\n"));
}

/// `-h` is a short reminder: only usage and options.
#[test]
fn short_help_is_short() {
    let short = run(&["clone", "-h"]).stdout;
    assert!(short.starts_with_str("usage: sapwood clone "), "{short}");
    assert!(!short.contains_str("DESCRIPTION") && short.lines().count() < 80);
}

/// Checks a page with `man`, as Debian's lint does. Returns the warnings.
fn warnings(page: &std::path::Path) -> String {
    let mut man = Command::new("man");
    man.args(["--warnings", "-E", "UTF-8", "-l"]).arg(page);
    man.env("LC_ALL", "C.UTF-8").env("MANROFFSEQ", "").env("MANWIDTH", "80");
    let output = man.stdin(Stdio::null()).output().expect("man runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn man_takes_every_page_without_a_warning() {
    if !has_program("man") {
        return;
    }
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("");
    let written = repo.run(SAPWOOD.as_ref(), &["help", "--man", "pages/man1"]);
    assert_eq!((written.code, written.stdout, written.stderr), (0, "".into(), "".into()));
    let pages: Vec<_> = std::fs::read_dir(repo.join("pages/man1")).expect("the directory").collect();
    let pages: Vec<_> = pages.into_iter().map(|entry| entry.expect("an entry").path()).collect();
    let named = |name: &str| pages.iter().any(|page| page.ends_with(name));
    assert!(named("sapwood.1") && named("sapwood-status.1") && named("sapwood-sparse-checkout.1"));
    // Internal commands have no page.
    assert!(!named("sapwood-empty-trash.1"));
    for page in &pages {
        assert_eq!(warnings(page), "", "{}", page.display());
    }
    // The check detects errors.
    repo.write("pages/wrong.1", ".TH WRONG 1\n.SH NAME\nwrong \\- a page\n.NONSENSE\n");
    assert!(warnings(&repo.join("pages/wrong.1")).contains("NONSENSE"));
    // `apropos` and `whatis` find the names.
    let mut names = Command::new("lexgrog");
    let names = names.arg(repo.join("pages/man1/sapwood-switch.1")).output().expect("lexgrog, of man-db");
    assert!(names.stdout.contains_str("sapwood-switch - Switch branches"), "{names:?}");
}

/// Runs a shell command on a terminal. Returns its output.
fn on_a_terminal(line: &str, path: &str) -> String {
    let sandbox = Sandbox::new();
    let mut script = sandbox.repo("").command("script".as_ref());
    script.args(["-qec", line, "/dev/null"]).stdin(Stdio::null());
    script.env("PATH", path).env("MANPAGER", "cat").env("TERM", "dumb").env("LC_ALL", "C.UTF-8");
    let output = script.output().expect("a terminal");
    String::from_utf8_lossy(&output.stdout).replace('\r', "")
}

#[test]
fn help_opens_the_page_in_man_on_a_terminal() {
    if !has_program("man") || !has_program("script") {
        return;
    }
    let path = std::env::var("PATH").expect("a PATH");
    let opened = on_a_terminal(&format!("{SAPWOOD} help switch"), &path);
    assert!(opened.starts_with("SAPWOOD-SWITCH(1)"), "{opened}");
    // Without `man` the page is printed.
    let sandbox = Sandbox::new();
    let repo = sandbox.repo("");
    for program in ["script", "sh"] {
        let found = Command::new("which").arg(program).output().expect("which").stdout;
        repo.symlink(found.trim().to_str().expect("a path"), program);
    }
    let here = sandbox.path();
    let printed = on_a_terminal(&format!("{SAPWOOD} help switch"), here.to_str().expect("a path"));
    assert!(printed.starts_with("NAME\n       sapwood-switch"), "{printed}");
    // A `man` that cannot show pages of standard input fails.
    repo.write_executable("man", "#!/bin/sh\nexit 1\n");
    let printed = on_a_terminal(&format!("{SAPWOOD} help switch"), here.to_str().expect("a path"));
    assert!(printed.starts_with("NAME\n       sapwood-switch"), "{printed}");
}

/// Compares the messages about a mistyped command with Git's, with the program's name replaced.
/// Only commands that both programs have are similar to the word.
#[test]
fn a_mistyped_command_gets_gits_suggestion() {
    let oracle = Oracle::new(SAPWOOD, |repo| repo.write("a", "1\n"));
    for setting in ["show", "0", "-1", "1", "2", "never", "immediate", "off", "true", "5x", "bogus", ""] {
        for word in ["stauts", "statsu", "staus", "worktre", "swtich", "frobnicate", "count-object"] {
            let option = format!("help.autocorrect={setting}");
            let args = ["-c", &option, word, "-h"];
            let theirs = oracle.git().try_git(&args);
            let ours = oracle.ours().run(SAPWOOD.as_ref(), &args);
            let plain = |text: &[u8]| {
                let text = String::from_utf8_lossy(text).replace("sapwood", "git");
                text.replace("You called a git command", "You called a Git command")
            };
            let case = format!("{word} with {setting}");
            assert_eq!(ours.code, theirs.code, "{case}: {ours:?}");
            assert_eq!(plain(wording(&ours.stderr)), plain(wording(&theirs.stderr)), "{case}");
            assert_eq!(ours.stdout.is_empty(), theirs.stdout.is_empty(), "{case}");
        }
    }
}

#[test]
fn commands_of_git_are_named_as_such() {
    let log = run(&["log"]);
    assert_eq!(log.code, 1);
    assert_eq!(
        log.stderr,
        "sapwood: 'log' is not a sapwood command. See 'sapwood --help'.\nhint: Git has it: 'git log'.\n"
    );
    // Commands of Git are never corrected to another command.
    assert_eq!(run(&["-c", "help.autocorrect=-1", "log"]).code, 1);
    assert_eq!(run(&["help", "stauts"]).code, 1);
}
