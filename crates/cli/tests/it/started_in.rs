//! The directory that a command was started in is never removed, even if `-C` or `--work-tree`
//! leads elsewhere.

use testkit::{Oracle, Repo};

use crate::SAPWOOD;

fn with_and_without_a_directory(repo: &Repo<'_>) {
    repo.write("f", "1\n");
    repo.write("d/g", "1\n");
    repo.write("d/e/h", "1\n");
    repo.commit("one");
    repo.git(&["switch", "-q", "-c", "without"]);
    repo.git(&["rm", "-rq", "d"]);
    repo.commit("two");
    repo.git(&["switch", "-q", "-c", "file"]);
    repo.write("d", "1\n");
    repo.commit("three");
    repo.git(&["switch", "-q", "main"]);
}

#[test]
fn it_stays() {
    let starts: &[(&str, &[&str])] = &[
        ("d/e", &[]),
        ("d/e", &["-C", ".."]),
        ("d/e", &["-C", "../.."]),
        ("d", &["-C", ".."]),
        ("d", &["-C", "e"]),
        ("d/e", &["-C", "../../../..", "--git-dir=REPO/.git", "--work-tree=REPO"]),
        ("d/e", &["--git-dir=../../.git", "--work-tree=../.."]),
    ];
    let commands: &[&[&str]] = &[
        &["switch", "-q", "without"],
        &["checkout", "-q", "-f", "without"],
        &["switch", "-q", "file"],
        &["checkout", "-q", "-f", "file"],
        &["reset", "-q", "--hard", "without"],
        &["reset", "-q", "--keep", "without"],
        &["read-tree", "-m", "-u", "HEAD", "without"],
        &["restore", "-s", "without", ":/"],
        &["checkout", "-q", "without", "--", ":/"],
        &["sparse-checkout", "set", "--no-cone", "/f"],
        &["clean", "-fdx", ":/"],
    ];
    for (dir, globals) in starts {
        for command in commands {
            let oracle = Oracle::new(SAPWOOD, with_and_without_a_directory);
            let mut ran = Vec::new();
            for (side, repo) in [("git", oracle.git()), ("ours", oracle.ours())] {
                let at = repo.join(dir);
                let globals = globals.iter().map(|word| word.replace("REPO", &format!("{side}/repo")));
                let words: Vec<String> = globals.chain(command.iter().map(|&word| word.to_owned())).collect();
                let program = if side == "git" { "git" } else { SAPWOOD };
                let mut process = repo.command(program.as_ref());
                let done = crate::shim::finished(process.current_dir(at).args(&words));
                ran.push((done.code, done.stdout));
            }
            let context: Vec<&str> = [&[*dir], *globals, *command].concat();
            assert_eq!(ran[0], ran[1], "{context:?}: git left, ours right");
            oracle.same_state(&context);
        }
    }
}

/// `-C` with an absolute path needs no current directory.
#[test]
fn a_deleted_directory() {
    let sandbox = testkit::Sandbox::new();
    let repo = sandbox.init("repo");
    with_and_without_a_directory(&repo);
    let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "git".to_owned());
    let script = "mkdir gone && cd gone && rmdir ../gone && \"$P\" -C \"$R\" -C d rev-parse --show-prefix";
    let answers = [git.as_str(), SAPWOOD].map(|program| {
        let mut shell = repo.command("sh".as_ref());
        let output = shell.args(["-c", script]).env("P", program).env("R", &repo.path).output();
        let output = output.expect("a shell");
        (output.status.code(), output.stdout)
    });
    assert_eq!(answers[0], (Some(0), b"d/\n".to_vec()));
    assert_eq!(answers[0], answers[1]);
    let script = "mkdir gone && cd gone && rmdir ../gone && \"$P\" status";
    let mut shell = repo.command("sh".as_ref());
    let output = shell.args(["-c", script]).env("P", SAPWOOD).output().expect("a shell");
    assert_eq!(output.status.code(), Some(128));
}
