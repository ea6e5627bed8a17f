//! Command lines that fail or end before a command starts.

use bstr::ByteSlice as _;
use testkit::Sandbox;

use crate::SAPWOOD;

#[test]
fn names_an_unknown_command() {
    let sandbox = Sandbox::new();
    let run = sandbox.repo("").run(SAPWOOD.as_ref(), &["frobnicate"]);
    assert_eq!(run.code, 1);
    assert_eq!(run.stderr, "sapwood: 'frobnicate' is not a sapwood command. See 'sapwood --help'.\n");
    assert_eq!(run.stdout, "");
}

#[test]
fn parses_global_options_and_rejects_unknown_ones() {
    let sandbox = Sandbox::new();
    let run = |args: &[&str]| sandbox.repo("").run(SAPWOOD.as_ref(), args);
    assert_eq!(run(&["--version"]).code, 0);
    let version = run(&["-C", ".", "--version"]).stdout;
    assert!(version.starts_with(b"sapwood version ") && version.lines().count() == 1, "{version}");
    let options = run(&["version", "--build-options"]).stdout;
    assert!(options.starts_with(version.as_slice()), "{options}");
    let names = options.lines().skip(1).filter_map(|line| line.split_once_str(": ")).map(|(name, _)| name);
    assert!(names.eq([&b"commit"[..], b"target", b"features"]), "{options}");
    assert_eq!(run(&[]).code, 1);
    assert_eq!(run(&["--help"]).code, 0);
    let wrong = run(&["--frobnicate", "switch"]);
    assert_eq!(wrong.code, 129);
    assert!(wrong.stderr.starts_with(b"unknown option: --frobnicate\nusage: "));
    assert_eq!(run(&["-c"]).code, 129);
    assert_eq!(run(&["-C", "nowhere", "switch"]).code, 128);
}

/// The usage texts are Git's, except for one added line about `--dry-run`.
#[test]
fn usage_equals_gits_except_for_the_dry_run_option() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    if sandbox.git_version() != (2, 55) {
        return;
    }
    for command in ["checkout", "switch", "restore", "reset"] {
        for option in ["-h", "--frobnicate", "-Z"] {
            let theirs = repo.try_git(&[command, option]);
            let ours = repo.run(SAPWOOD.as_ref(), &[command, option]);
            let plain = |text: &[u8]| {
                let text = String::from_utf8_lossy(text).replace("sapwood", "git");
                text.lines().filter(|line| !line.contains("--[no-]dry-run ")).collect::<Vec<_>>().join("\n")
            };
            assert_eq!(ours.code, 129);
            assert_eq!(plain(&theirs.stdout), plain(&ours.stdout), "{command} {option}");
            assert_eq!(plain(&theirs.stderr), plain(&ours.stderr), "{command} {option}");
        }
    }
}
