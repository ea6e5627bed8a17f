//! `checkout.thresholdForParallelism` and `GIT_TEST_CHECKOUT_WORKERS`: the number of workers, and
//! Git's errors.

use testkit::Sandbox;

use crate::SAPWOOD;

const WORKERS: &str = "checkout.workers=3";

#[test]
fn decides_as_git_does() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    for number in 0..40 {
        repo.write(format!("f{number}"), format!("{number}\n"));
    }
    repo.commit("one");
    let run = |variable: Option<&str>, program: &str, args: &[&str]| {
        for number in 0..40 {
            drop(std::fs::remove_file(repo.join(format!("f{number}"))));
        }
        let mut command = repo.command(program.as_ref());
        command.env_remove("SAPWOOD_TEST_CHECKOUT_WORKERS");
        variable.map(|value| command.env("GIT_TEST_CHECKOUT_WORKERS", value));
        let output = command.args(args).args(["reset", "-q", "--hard"]).output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (variable, threshold, workers) in [
        (None, Some("0"), 3),
        (None, Some("40"), 3),
        (None, Some("41"), 1),
        // Git compares with an unsigned number.
        (None, Some("-5"), 1),
        (None, None, 1),
        (Some("2"), Some("-5"), 2),
        (Some(""), Some("-5"), 1),
    ] {
        let mut args = vec!["--verbose".to_owned(), "-c".to_owned(), WORKERS.to_owned()];
        if let Some(threshold) = threshold {
            args.extend(["-c".to_owned(), format!("checkout.thresholdForParallelism={threshold}")]);
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let (code, stderr) = run(variable, SAPWOOD, &args);
        assert_eq!(code, Some(0), "{stderr}");
        let line = format!("workers: checkout_worker {workers}\n");
        assert_eq!(stderr.contains(&line), workers > 1, "{variable:?} {threshold:?}: {stderr}");
    }
    let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "git".to_owned());
    for (variable, setting) in
        [(None, "checkout.thresholdForParallelism=abc"), (Some("x"), WORKERS), (Some("2x"), WORKERS)]
    {
        let args = ["-c", WORKERS, "-c", setting];
        let [theirs, ours] = [git.as_str(), SAPWOOD].map(|program| run(variable, program, &args));
        assert_eq!(theirs, ours, "{variable:?} {setting}: git left, sapwood right");
    }
}
