//! `stash`, run as `git` and compared with Git: commits, reflogs, index, worktree, messages and
//! exit codes.

use testkit::{Oracle, Repo, Sandbox};

use crate::shim::Shim;

mod entries;
mod pop;
mod push;
mod random;

/// Creates two commits with files, directories, a link, an executable and ignored names.
fn setup(repo: &Repo<'_>) {
    repo.write("a", "1\n");
    repo.write("b", "1\n2\n3\n4\n5\n");
    repo.write("dir/c", "c\n");
    repo.write("dir/deep/d", "d\n");
    repo.write("gone/only", "only\n");
    repo.write_executable("run", "#!/bin/sh\n");
    repo.symlink("a", "link");
    repo.write(".gitignore", "*.o\n/out/\n");
    repo.commit("one");
    repo.write("a", "2\n");
    repo.commit("two words");
}

/// Two copies of the repository of [`setup`], and the shim.
struct Pair {
    shim: Shim,
    oracle: Oracle,
}

impl Pair {
    fn new() -> Pair {
        Pair::of(setup)
    }

    fn of(setup: impl Fn(&Repo<'_>)) -> Pair {
        let sandbox = Sandbox::new();
        let made = sandbox.init("made");
        setup(&made);
        let shim = Shim::new();
        let oracle = Oracle::copies_of(&shim.program(), &made);
        Pair { shim, oracle }
    }

    /// Runs a line of shell code in both copies.
    #[track_caller]
    fn both(&self, script: &str) -> &Pair {
        self.oracle.both(|repo| {
            let shell = repo.command("sh".as_ref()).args(["-c", script]).output().expect("a shell");
            assert!(shell.status.success(), "{script}: {}", String::from_utf8_lossy(&shell.stderr));
        });
        self
    }

    /// Asserts that the command has equal results in both copies, and runs natively.
    #[track_caller]
    fn native(&self, args: &[&str]) -> &Pair {
        self.native_in("", args)
    }

    #[track_caller]
    fn native_in(&self, dir: &str, args: &[&str]) -> &Pair {
        let args = [&["stash"], args].concat();
        self.shim.log();
        self.oracle.same_in(dir, &args);
        self.shim.was_native(&args);
        self
    }

    /// Asserts that the command has equal results in both copies, native or not.
    #[track_caller]
    fn same(&self, args: &[&str]) -> &Pair {
        self.oracle.same(&[&["stash"], args].concat());
        self
    }

    /// Asserts that the command has equal results in both copies, and is handed over for this
    /// reason.
    #[track_caller]
    fn handed_over(&self, args: &[&str], why: &str) -> &Pair {
        let args = [&["stash"], args].concat();
        self.shim.log();
        self.oracle.same(&args);
        self.shim.was_handed_over(&args, why);
        self
    }
}
