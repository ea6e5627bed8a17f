//! Automatic maintenance after a commit: the command line of the real Git.

use testkit::Sandbox;

use crate::shim::{Shim, finished};

/// A Git that logs its arguments. With `OLD` set, it fails like a version without `--detach`.
const GIT: &str = "#!/bin/sh
echo \"$@\" >>\"$LOG\"
case $1 in maintenance) echo said >&2; test -z \"$OLD\" || exit 129;; esac
";

#[test]
fn is_started_as_git_does() {
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.write_executable("../real/git", GIT);
    let log = sandbox.path().join("log");
    let starts = |settings: &[&str], options: &[&str], old: &str| {
        let _ = std::fs::remove_file(&log);
        let mut command = shim.command(&repo);
        command.env("SAPWOOD_GIT", sandbox.path().join("real/git")).env("LOG", &log).env("OLD", old);
        for setting in settings {
            command.args(["-c", setting]);
        }
        let run = finished(command.args(["commit", "--allow-empty", "-m", "x"]).args(options));
        assert_eq!(run.code, 0, "{settings:?}: {}", run.stderr);
        shim.was_native(settings);
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        let expected = if said.is_empty() || !old.is_empty() { "" } else { "said\n" };
        assert_eq!(run.stderr, expected, "{settings:?}");
        said
    };
    // The sandbox configures maintenance in the foreground.
    assert_eq!(starts(&[], &[], ""), "maintenance run --auto --no-quiet --no-detach\n");
    assert_eq!(starts(&[], &["-q"], ""), "maintenance run --auto --quiet --no-detach\n");
    for detaching in ["maintenance.autoDetach=true", "gc.autoDetach=true"] {
        let said = starts(&[detaching], &["-q"], "");
        assert_eq!(said, "maintenance run --auto --quiet --detach\n", "{detaching}");
    }
    for off in [&["maintenance.auto=false"][..], &["gc.auto=0"], &["gc.auto=-1"]] {
        assert_eq!(starts(off, &[], ""), "", "{off:?}");
    }
    assert_ne!(starts(&["gc.auto=0", "maintenance.auto=true"], &[], ""), "");
    let said = starts(&[], &["-q"], "1");
    assert_eq!(said, "maintenance run --auto --quiet --no-detach\ngc --auto --quiet\n");
}
