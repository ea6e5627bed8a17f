//! The processes that see the files of a workspace, for a user without root: a clone prefers a
//! backend that serves every process, and otherwise says how to see the files.

use std::{fs, os::unix::fs::symlink, path::Path};

use testkit::{
    Sandbox,
    disk::{NoMountsBelow, as_ordinary_user, give_to_ordinary_user, ordinary_user_reaches},
};

use crate::SAPWOOD;

/// Programs that Git and sapwood start.
const PROGRAMS: [&str; 5] = ["sh", "cat", "ls", "sed", "uname"];

#[test]
fn a_clone_of_an_ordinary_user_says_who_sees_its_files() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = sandbox.init("repo");
    repo.write("file", "content\n");
    repo.commit("one");
    let bin = sandbox.path().join("bin");
    fs::create_dir(&bin).expect("a directory");
    fs::create_dir_all(sandbox.path().join("home")).expect("a directory");
    testkit::copy_program(SAPWOOD.as_ref(), &bin.join("sapwood"));
    let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "/usr/bin/git".to_owned());
    symlink(&git, bin.join("git")).expect("a link");
    for program in PROGRAMS {
        let found = ["/bin", "/usr/bin"].map(|dir| Path::new(dir).join(program));
        symlink(found.iter().find(|path| path.exists()).expect("installed"), bin.join(program))
            .expect("a link");
    }
    give_to_ordinary_user(&sandbox.path());
    if ![&*bin, Path::new(&git)].into_iter().all(ordinary_user_reaches) {
        println!("skipped: an ordinary user cannot reach the programs");
        return;
    }
    let run = |path: &str, script: &str| {
        let mut shell = repo.command(Path::new("/bin/sh"));
        shell.env("PATH", path).args(["-ec", script]);
        let output = as_ordinary_user(&mut shell).output().expect("a shell");
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    };
    let path = bin.to_str().expect("plain");
    // This user has no program for FUSE.
    let (is_done, said) = run(path, "sapwood clone --workspace . ../job; cat ../job/.git");
    assert!(is_done, "{said}");
    let words = "Only processes that sapwood starts see";
    assert!(said.contains(&format!("hint: {words} its files: sapwood workspace enter job")), "{said}");
    assert!(
        said.contains(&format!("{words} the files of this workspace: sapwood workspace enter job\n")),
        "{said}"
    );
    let (is_done, said) = run(path, "cd ../job; sapwood workspace unmount job; sapwood workspace mount job");
    assert!(is_done && said.contains(&format!("hint: {words}")), "{said}");
    let (is_done, said) = run(path, "cd ../job; git status");
    assert!(!is_done && said.contains("job/.git"), "{said}");
    let script = "cd ../job; sapwood workspace exec job -- cat file; sapwood workspace list";
    let (is_done, said) = run(path, script);
    assert!(is_done && said.starts_with("content\n") && said.contains("  mounted for exec  "), "{said}");
    let (is_done, said) = run(path, "cd ../job; sapwood workspace remove job");
    assert!(is_done, "{said}");
    // With the program, every process sees the files.
    let path = format!("{path}:{}", std::env::var("PATH").unwrap_or_default());
    let (_, said) = run(&path, "sapwood workspace doctor");
    if !said.contains("fuse          works") {
        println!("skipped: FUSE does not work here for an ordinary user");
        return;
    }
    let (is_done, said) =
        run(&path, "sapwood clone -q --workspace . ../seen; cd ../seen; git status --short; cat file");
    assert!(is_done && said.ends_with("content\n"), "{said}");
    let (is_done, said) = run(&path, "cd ../seen.git; sapwood workspace remove seen");
    assert!(is_done, "{said}");
}
