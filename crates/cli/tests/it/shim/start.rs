//! The start of the program as counts: page faults, relocations and system calls of short commands.
//! Times depend on the machine, so `lab small` compares those.

use std::{fs, process::Command};

use testkit::{Repo, Sandbox, costs, need_program};

use super::{Shim, finished, oracle_path};
use crate::SAPWOOD;

/// Short commands, and the highest accepted ratio of page faults to Git's.
///
/// A test program is not optimised as a whole: its code lies in more pages than the release
/// program's, each of them costs a fault, and each change moves them. So the limits are a fifth
/// above ratios that were measured. A buffer of 256 KiB that is cleared, or a program whose
/// addresses are relocated, costs more. `lab small` has a narrower limit, for the release program.
const SHORT: &[(&[&str], f64)] = &[
    (&["status"], 2.25),
    (&["rev-parse", "HEAD"], 1.7),
    (&["config", "core.bare"], 1.7),
    (&["diff-files"], 2.1),
    (&["count-objects"], 2.0),
    (&["show-ref"], 1.75),
];

/// A test program also loads the mathematical library, because some test servers need it.
const CALLS_OF_LIBM: usize = 9;

/// A repository with ten files and one commit, and the shim before Git on a short PATH.
struct Place {
    shim: Shim,
    sandbox: Sandbox,
}

impl Place {
    fn new() -> Place {
        let place = Place { shim: Shim::new(), sandbox: Sandbox::new() };
        let repo = place.sandbox.init("repo");
        (0..10).for_each(|number| repo.write(format!("file-{number}"), format!("{number}\n")));
        repo.commit("one");
        // The stat data of the files become older than the index.
        std::thread::sleep(std::time::Duration::from_millis(1100));
        repo.git(&["update-index", "--really-refresh"]);
        place
    }

    fn repo(&self) -> Repo<'_> {
        self.sandbox.repo("repo")
    }

    /// Returns the path of a program that the short PATH does not have.
    fn path_of(&self, program: &str) -> String {
        let mut shell = self.repo().command("sh".as_ref());
        finished(shell.args(["-c", &format!("command -v {program}")])).stdout.to_string().trim().to_owned()
    }

    /// Returns a command of Git, or of the shim.
    fn command(&self, is_shim: bool, program: &str, args: &[&str]) -> Command {
        let repo = self.repo();
        let real = oracle_path(&repo).split(':').next().expect("a directory").to_owned();
        let bin = self.shim.path("bin");
        let own = if is_shim { bin.join("git") } else { std::path::Path::new(&real).join("git") };
        let program = if program.is_empty() { own.as_path() } else { program.as_ref() };
        let mut command = repo.command(program);
        command.args(args).env("PATH", format!("{}:{real}", bin.display())).env("SAPWOOD_SHIM", "on");
        command
    }

    /// Returns the system calls of both programs. The check of a descriptor before its `close` is
    /// that of test programs alone.
    fn calls(&self, args: &[&str]) -> Option<[Vec<String>; 2]> {
        let calls = |is_shim| {
            let traced = self.command(is_shim, "", args);
            let calls = costs::system_calls(&traced, |name| self.command(is_shim, &self.path_of(name), &[]))?;
            Some(calls.into_iter().filter(|line| !line.contains("F_GETFD")).collect::<Vec<_>>())
        };
        Some([calls(false)?, calls(true)?])
    }
}

#[test]
fn few_addresses_are_relocated() {
    let program = fs::read(SAPWOOD).expect("readable");
    let relocations = costs::relocations(&program);
    // Those of the functions of the C library. A program without a fixed address has thousands, and
    // each page with one of them is copied before the first line runs.
    assert!((1..400).contains(&relocations), "{relocations}");
}

#[test]
fn short_commands_touch_few_pages() {
    let place = Place::new();
    let mut wrong = Vec::new();
    for (args, most) in SHORT {
        let [git, ours] =
            [false, true].map(|is_shim| costs::page_faults(|| place.command(is_shim, "", args)));
        println!("{args:?}: {git} faults of git, {ours} of sapwood");
        if ours as f64 > git as f64 * most {
            wrong.push((args, git, ours));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn short_commands_make_no_more_system_calls_than_git() {
    need_program("strace");
    let place = Place::new();
    for (args, _) in SHORT {
        let Some([git, ours]) = place.calls(args) else { return };
        println!("{args:?}: {} calls of git, {} of sapwood", git.len(), ours.len());
        let loads_libm = ours.iter().any(|call| call.contains("/libm.so"));
        let most = git.len() + if loads_libm { CALLS_OF_LIBM } else { 0 };
        assert!(ours.len() <= most, "{args:?}:\n{}", ours.join("\n"));
        assert!(!ours.iter().any(|call| call.starts_with("clone")), "{args:?}: a thread");
    }
}
