//! Command lines that do not get as far as a command's work.

use testkit::Sandbox;

use crate::SAPWOOD;

#[test]
fn an_unknown_command_is_named() {
    let sandbox = Sandbox::new();
    let run = sandbox.repo("").run(SAPWOOD.as_ref(), &["frobnicate"]);
    assert_eq!(run.code, 1);
    assert_eq!(run.stderr, "sapwood: 'frobnicate' is not a sapwood command. See 'sapwood --help'.\n");
    assert_eq!(run.stdout, "");
}

#[test]
fn global_options_and_their_mistakes() {
    let sandbox = Sandbox::new();
    let run = |args: &[&str]| sandbox.repo("").run(SAPWOOD.as_ref(), args);
    assert_eq!(run(&["--version"]).code, 0);
    assert!(run(&["-C", ".", "--version"]).stdout.starts_with(b"sapwood version "));
    assert_eq!(run(&[]).code, 1);
    assert_eq!(run(&["--help"]).code, 0);
    let wrong = run(&["--frobnicate", "switch"]);
    assert_eq!(wrong.code, 129);
    assert!(wrong.stderr.starts_with(b"unknown option: --frobnicate\nusage: "));
    assert_eq!(run(&["-c"]).code, 129);
    assert_eq!(run(&["-C", "nowhere", "switch"]).code, 128);
}
