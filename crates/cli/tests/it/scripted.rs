//! Shell scripts that run twice in equal repositories: with Git, and with the shim as `git`. Both
//! runs have equal output, and leave equal states and objects.

use std::process::Stdio;

use bstr::{BString, ByteSlice as _};
use testkit::{Oracle, Repo, Run, wording};

use crate::shim::{Shim, finished};

/// Two equal repositories.
pub(crate) struct Scripted {
    shim: Shim,
    oracle: Oracle,
}

impl Scripted {
    /// `setup` is a script that Git runs in both repositories.
    pub(crate) fn new(setup: &str) -> Scripted {
        let shim = Shim::new();
        let oracle = Oracle::new(&shim.program(), |repo| {
            let run = script(repo, "", setup);
            assert_eq!(run.code, 0, "{setup}: {}", run.stderr);
        });
        Scripted { shim, oracle }
    }

    /// Runs `line` in both repositories. Returns the output with sapwood.
    #[track_caller]
    pub(crate) fn same(&self, line: &str) -> Run {
        self.shim.log();
        let (git, ours) = (self.oracle.git(), self.oracle.ours());
        let theirs = plain(&git, script(&git, "", line));
        let printed = plain(&ours, script(&ours, &self.shim.prelude(), line));
        assert_eq!(
            wording(&theirs.stderr),
            wording(&printed.stderr),
            "{line}: standard error; git left, ours right"
        );
        assert_eq!(theirs.stdout, printed.stdout, "{line}: standard output; git left, ours right");
        assert_eq!(theirs.code, printed.code, "{line}: exit code; git left, ours right");
        self.oracle.same_state(&[line]);
        let [theirs, made] =
            [git, ours].map(|repo| repo.git(&["cat-file", "--batch-all-objects", "--batch-check"]).stdout);
        assert_eq!(theirs, made, "{line}: objects; git left, ours right");
        printed
    }

    /// Like [`Scripted::same`]; each call of `command` must be native.
    #[track_caller]
    pub(crate) fn native(&self, command: &str, line: &str) -> Run {
        let run = self.same(line);
        let named = format!("\"command\":\"{command}\"");
        let log = self.shim.log();
        let mut calls = log.iter().filter(|line| line.contains(&named)).peekable();
        assert!(calls.peek().is_some(), "{line}: no call of {command}");
        for call in calls {
            assert!(call.contains("\"outcome\":\"native\""), "{line}: {call}");
        }
        run
    }

    /// Like [`Scripted::same`]; a call of `command` must be handed over, for a reason that contains
    /// `why`.
    #[track_caller]
    pub(crate) fn handed_over(&self, line: &str, why: &str) {
        self.same(line);
        let log = self.shim.log();
        let is_it = |line: &String| line.contains("\"outcome\":\"handed-over\"") && line.contains(why);
        assert!(log.iter().any(is_it), "{line}: {log:?}");
    }
}

fn script(repo: &Repo<'_>, prelude: &str, line: &str) -> Run {
    let mut shell = repo.command("sh".as_ref());
    shell.arg("-c").arg(format!("{prelude}{line}")).stdin(Stdio::null());
    finished(&mut shell)
}

/// Replaces the path of the repository in the output.
fn plain(repo: &Repo<'_>, run: Run) -> Run {
    let place = repo.path.clone().into_os_string().into_encoded_bytes();
    let plain = |text: BString| BString::from(text.replace(&place, "<repo>"));
    Run { code: run.code, stdout: plain(run.stdout), stderr: plain(run.stderr) }
}
