//! The switch, the log, `sapwood shim` and `sapwood doctor`.

use std::fs;

use bstr::ByteSlice as _;
use testkit::{Run, Sandbox};

use super::{Shim, finished, one};
use crate::SAPWOOD;

#[test]
fn the_log() {
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let repo = one(&sandbox);
    shim.run(&repo, &["switch", "nothing"]);
    shim.run(&repo, &["-C", "dir", "diff", "\"\n"]);
    let log = shim.log();
    assert_eq!(log.len(), 2);
    let (start, time) = log[0].split_once("\"ms\":").expect("a time");
    assert_eq!(
        start,
        "{\"argv\":[\"git\",\"switch\",\"nothing\"],\"command\":\"switch\",\"outcome\":\"native\",\
         \"reason\":null,\"code\":128,"
    );
    assert!(time.strip_suffix('}').and_then(|time| time.parse::<f64>().ok()).is_some_and(|time| time > 0.0));
    assert!(log[1].starts_with(
        "{\"argv\":[\"git\",\"-C\",\"dir\",\"diff\",\"\\\"\\n\"],\"command\":\"diff\",\
         \"outcome\":\"handed-over\",\"reason\":\"command 'diff'\",\"code\":null,\"ms\":"
    ));
    // The log's name is relative to the directory of the call, regardless of `-C`.
    let called = finished(
        repo.command(&shim.path("bin/git")).args(["-C", "dir", "reset", "-q"]).env("SAPWOOD_SHIM_LOG", "log"),
    );
    assert_eq!(called.code, 0, "{}", called.stderr);
    assert!(repo.read("log").contains_str("\"outcome\":\"native\""));
    // A log that cannot be written does not affect the command.
    fs::remove_file(shim.path("log")).expect("removed");
    fs::create_dir(shim.path("log")).expect("made");
    let run = shim.run(&repo, &["switch", "topic"]);
    assert_eq!((run.code, run.stderr.as_bstr()), (0, "Switched to branch 'topic'\n".into()));
}

#[test]
fn switched_off_and_native_only() {
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let repo = one(&sandbox);
    let with =
        |value: &str, args: &[&str]| finished(shim.command(&repo).env("SAPWOOD_SHIM", value).args(args));
    assert_eq!(
        with("off", &["switch", "topic"]),
        repo.try_git(&["switch", "topic"]).with_switch_message("Switched to branch")
    );
    shim.was_handed_over(&[], "SAPWOOD_SHIM=off");
    let refused = with("native-only", &["log"]);
    assert_eq!(refused.code, 128);
    assert_eq!(refused.stderr, "fatal: not native, and SAPWOOD_SHIM=native-only: command 'log'\n");
    assert!(shim.log()[0].contains("\"outcome\":\"refused\",\"reason\":\"command 'log'\",\"code\":128"));
    assert_eq!(with("native-only", &["switch", "main"]).code, 0);
    let wrong = with("maybe", &["version"]);
    assert_eq!(wrong.code, 128);
    assert!(wrong.stderr.contains_str("unknown value of SAPWOOD_SHIM: 'maybe'"), "{}", wrong.stderr);
}

trait SwitchMessage {
    fn with_switch_message(self, start: &str) -> Run;
}

impl SwitchMessage for Run {
    /// Replaces the message of a repeated switch, which reports the current branch.
    fn with_switch_message(self, start: &str) -> Run {
        Run { stderr: self.stderr.replace("Already on", start).into(), ..self }
    }
}

#[test]
fn install_status_and_remove() {
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let repo = one(&sandbox);
    let sapwood = |args: &[&str]| repo.run(SAPWOOD.as_ref(), args);
    let dir = shim.path("it's here");
    let dir_text = dir.to_str().expect("a plain name");
    let installed = sapwood(&["shim", "install", dir_text]);
    assert_eq!(installed.code, 0, "{}", installed.stderr);
    assert!(
        fs::canonicalize(dir.join("git"))
            .is_ok_and(|target| target == fs::canonicalize(SAPWOOD).expect("built"))
    );
    // The printed line works, also repeatedly, and for this shell alone.
    assert_eq!(sapwood(&["shim", "install", dir_text]), installed);
    let script = format!(
        "eval '{}'; command -v git; '{SAPWOOD}' shim status",
        installed.stdout.trim_end().as_bstr().replace("'", "'\\''").as_bstr()
    );
    let shell = finished(repo.command("sh".as_ref()).args(["-c", &script]));
    let git = dir.join("git").display().to_string();
    assert!(
        shell.stdout.starts_with(format!("{git}\ngit       {git} (sapwood)\nreal git  ").as_bytes()),
        "{}",
        shell.stdout
    );
    assert_eq!(shell.code, 0, "{}", shell.stderr);
    assert_eq!(sapwood(&["shim", "status"]).code, 1);
    assert_eq!(sapwood(&["shim", "remove", dir_text]).code, 0);
    assert!(!dir.exists());
    assert_eq!(sapwood(&["shim", "remove", dir_text]).code, 128);

    // Only sapwood's own link is replaced or removed.
    fs::create_dir(&dir).expect("made");
    fs::write(dir.join("git"), "mine").expect("written");
    assert_eq!(sapwood(&["shim", "install", dir_text]).code, 128);
    assert_eq!(sapwood(&["shim", "remove", dir_text]).code, 128);
    assert_eq!(fs::read(dir.join("git")).expect("there"), b"mine");

    let place = sandbox.path().join("home/.local/share/sapwood/bin/git");
    assert_eq!(sapwood(&["shim", "install"]).code, 0);
    assert!(place.exists());
    assert_eq!(sapwood(&["shim", "install", "--repository"]).code, 0);
    assert!(repo.exists(".git/sapwood/git"));
    assert_eq!(repo.git(&["status", "--porcelain"]).stdout, "");
    assert_eq!(sapwood(&["shim", "remove", "--repository"]).code, 0);
    assert!(!repo.exists(".git/sapwood"));
    assert_eq!(sapwood(&["shim"]).code, 129);
}

#[test]
fn the_doctor() {
    let sandbox = Sandbox::new();
    let repo = one(&sandbox);
    let doctor = || repo.run(SAPWOOD.as_ref(), &["doctor", "-v"]);
    let healthy = doctor();
    assert_eq!(healthy.code, 0, "{}", healthy.stderr);
    assert!(
        healthy.stdout.contains_str("\nswitch: native with\n    --create --force-create"),
        "{}",
        healthy.stdout
    );
    assert!(!healthy.stdout.contains_str("Slower"), "{}", healthy.stdout);
    repo.git(&["config", "attr.tree", "HEAD"]);
    repo.git(&["config", "submodule.recurse", "true"]);
    repo.git(&["config", "checkout.workers", "1"]);
    repo.git(&["config", "filter.x.smudge", "cat"]);
    let ill = doctor();
    assert_eq!(ill.code, 1);
    for line in [
        "\nswitch: handed over, because\n    attr.tree is set\n",
        "\n  checkout.workers=1: ",
        "\n  filter.x has no 'process'",
    ] {
        assert!(ill.stdout.contains_str(line), "{line}: {}", ill.stdout);
    }
    assert_eq!(sandbox.repo("").run(SAPWOOD.as_ref(), &["doctor"]).code, 1);
}
