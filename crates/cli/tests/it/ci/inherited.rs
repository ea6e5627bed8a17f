//! The repository that an earlier job left: none of its programs runs in a later job, and none of
//! its files stays.

use std::{fs, os::unix::fs::MetadataExt as _, path::Path, process::Stdio};

use testkit::{Repo, servers::Nginx};

use super::{Server, state};

/// A name, and a script that lets Git start `$EVIL` in the worktree or in its submodule.
const PROGRAMS: &[(&str, &str)] = &[
    ("hooks", "for hook in post-checkout post-index-change; do ln -s $EVIL .git/hooks/$hook; done"),
    ("hooks of a submodule", "ln -s $EVIL .git/modules/sub/hooks/post-index-change; touch sub/README"),
    ("core.hooksPath", "mkdir ../h; ln -s $EVIL ../h/post-index-change; git config core.hooksPath $PWD/../h"),
    ("core.fsmonitor", "git config core.fsmonitor $EVIL"),
    ("core.fsmonitor of a submodule", "git -C sub config core.fsmonitor $EVIL"),
    ("core.fsmonitor of an inner submodule", "git -C sub/sub config core.fsmonitor $EVIL"),
    (
        "a filter",
        "git config filter.x.clean $EVIL; git config filter.x.smudge $EVIL; echo '* filter=x' >.git/info/attributes
         touch README",
    ),
    ("an alias", "git config alias.evil !$EVIL"),
    ("an included file", "git config -f ../more core.fsmonitor $EVIL; git config include.path $PWD/../more"),
    (
        "a file that is included on a condition",
        "git config -f ../more core.fsmonitor $EVIL; git config includeIf.gitdir:$PWD/.path $PWD/../more",
    ),
    (
        "settings of the worktree",
        "git config extensions.worktreeConfig true; git config --worktree core.fsmonitor $EVIL",
    ),
    (
        "a common directory elsewhere",
        "cp -a .git ../common; echo $PWD/../common >.git/commondir
         git config -f ../common/config core.fsmonitor $EVIL",
    ),
    (
        "a Git directory in the place of a submodule's file",
        "rm sub/.git; cp -a .git/modules/sub sub/.git; git config -f sub/.git/config --unset core.worktree
         git -C sub config core.fsmonitor $EVIL",
    ),
    (
        "a submodule's repository elsewhere",
        "cp -a .git/modules/sub ../elsewhere; echo gitdir: $PWD/../elsewhere >sub/.git
         git config -f ../elsewhere/config core.worktree $PWD/sub; git -C sub config core.fsmonitor $EVIL",
    ),
    (
        "a link to a submodule's repository",
        "mv .git/modules/sub ../elsewhere; ln -s ../../../elsewhere .git/modules/sub
         git config -f ../elsewhere/config core.worktree $PWD/sub; git -C sub config core.fsmonitor $EVIL",
    ),
    ("submodule.<name>.update", "git config submodule.sub.update !$EVIL; git -C sub checkout -q $(git -C sub commit-tree HEAD^{tree} -m x)"),
    ("remote.origin.uploadpack", "git config remote.origin.uploadpack $EVIL; git config url.$PWD/.insteadOf $URL"),
    ("core.sshCommand", "git config core.sshCommand $EVIL; git config url.git@h:.insteadOf $URL"),
    ("credential.helper", "git config credential.helper $EVIL"),
];

/// A name, and a script that lets Git take other files than those of the commit.
const FILES: &[(&str, &str)] = &[
    ("skip-worktree", "git update-index --skip-worktree README; echo evil >README"),
    ("assume-unchanged", "git update-index --assume-unchanged README; echo evil >README"),
    ("skip-worktree in a submodule", "git -C sub update-index --skip-worktree README; echo evil >sub/README"),
    ("files in a submodule", "echo evil >sub/new; mkdir sub/docs/deep; echo evil >sub/docs/deep/new"),
    (
        "a replaced object",
        "git replace $(git rev-parse HEAD:README) $(echo evil | git hash-object -w --stdin)
         git checkout -q -f HEAD; rm README; git checkout README",
    ),
    ("alternates", "mkdir ../o; echo $PWD/../o >.git/objects/info/alternates"),
    ("exclusions", "echo evil >new; echo new >>.git/info/exclude"),
    ("a link in the place of a submodule", "mv sub ../moved; ln -s ../moved sub"),
    (
        "the worktree of a submodule elsewhere",
        "mkdir -p ../worktree; git -C sub config core.worktree $PWD/../worktree",
    ),
    ("refspecs", "git config --add remote.origin.fetch '+refs/heads/*:refs/replace/*'"),
    (
        "a sparse checkout that Git does not know",
        "git sparse-checkout set src; git config --worktree core.sparseCheckout false; echo evil >docs",
    ),
];

/// The commands of a later job.
const LATER: &str = "git status; git diff; git evil; git checkout -f HEAD; git -C sub status
    git -C sub/sub status; git -C sub checkout -f HEAD; touch README; git add README
    git -c remote.origin.followRemoteHEAD=never fetch -q
    git submodule update --no-fetch --recursive; :";

/// A job in a clone with submodules.
struct Job<'s> {
    at: Repo<'s>,
    url: String,
    evil: String,
    ran: std::path::PathBuf,
}

impl Job<'_> {
    /// Runs a script in the clone. Returns true if the planted program ran.
    fn ran_in(&self, script: &str) -> bool {
        drop(fs::remove_file(&self.ran));
        let mut command = self.at.command("sh".as_ref());
        command.env("EVIL", &self.evil).env("URL", &self.url).env("GIT_TERMINAL_PROMPT", "0");
        command.env("GIT_ASKPASS", "true").args(["-c", script]).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().expect("a shell");
        self.ran.exists()
    }
}

fn check_out(server: &Server, job: &Job<'_>) -> Vec<String> {
    server.check_out(&job.at, &["--ref=refs/heads/main", "--submodules=recursive", &job.url]);
    state(&job.at)
}

fn job<'s>(server: &'s Server, name: &str) -> Job<'s> {
    let ran = server.sandbox.path().join("ran");
    let programs = server.dir("programs");
    // A filter has no arguments, and passes on what it reads; all others fail.
    let script = format!("#!/bin/sh\ntouch '{}'\n[ $# = 0 ] && exec cat\nexit 1\n", ran.display());
    programs.write_executable("evil", script);
    let evil = programs.join("evil").display().to_string();
    Job { at: server.dir(name), url: server.url("app"), evil, ran }
}

fn inode(at: &Repo<'_>) -> u64 {
    at.join(".git").metadata().expect("a directory").ino()
}

/// Nothing that a job has planted runs in a later job, or during its checkout.
#[test]
fn no_program_of_an_earlier_job_runs() {
    let server = Server::new();
    for (number, (name, script)) in PROGRAMS.iter().enumerate() {
        let job = job(&server, &format!("{number}/app"));
        let fresh = check_out(&server, &job);
        let git_dir = inode(&job.at);
        job.ran_in(script);
        // The check can fail: the program runs if the clone is used as it is.
        assert!(job.ran_in(LATER), "{name}: the script plants nothing");
        job.ran_in(&format!("git submodule update -q -f --recursive; {script}"));
        drop(fs::remove_file(&job.ran));
        assert_eq!(check_out(&server, &job), fresh, "{name}");
        assert!(!job.ran.exists(), "{name}: it ran during the checkout");
        assert!(!job.ran_in(LATER), "{name}: it ran in the later job");
        assert_eq!(inode(&job.at), git_dir, "{name}: the clone was made anew");
    }
}

/// A later job has the files of its commit, however an earlier one hid its changes.
#[test]
fn no_file_of_an_earlier_job_stays() {
    let server = Server::new();
    for (number, (name, script)) in FILES.iter().enumerate() {
        let job = job(&server, &format!("{number}/app"));
        let fresh = check_out(&server, &job);
        let git_dir = inode(&job.at);
        job.ran_in(script);
        assert_eq!(check_out(&server, &job), fresh, "{name}");
        assert_eq!(inode(&job.at), git_dir, "{name}: the clone was made anew");
        assert!(!job.at.exists(".git/objects/info/alternates"), "{name}");
        let fetch = job.at.git(&["config", "--get-all", "remote.origin.fetch"]).stdout;
        assert_eq!(fetch, "+refs/heads/*:refs/remotes/origin/*\n", "{name}");
        let elsewhere = server.dir(&format!("{number}/worktree"));
        assert_eq!(fs::read_dir(&elsewhere.path).expect("a directory").count(), 0, "{name}");
    }
}

/// A job without submodules has none of an earlier job's files of them, and the next one has its
/// own again, from the repository that stayed.
#[test]
fn submodules_of_an_earlier_job_leave_no_files() {
    let server = Server::new();
    let job = job(&server, "app");
    let with = check_out(&server, &job);
    let module = job.at.join(".git/modules/sub").metadata().expect("a directory").ino();
    server.check_out(&job.at, &["--ref=refs/heads/main", &job.url]);
    assert_eq!(fs::read_dir(job.at.join("sub")).expect("a directory").count(), 0);
    server.check_out(&job.at, &["--ref=refs/heads/main", "--submodules=true", &job.url]);
    assert!(job.at.exists("sub/README"));
    assert_eq!(fs::read_dir(job.at.join("sub/sub")).expect("a directory").count(), 0);
    assert_eq!(check_out(&server, &job), with);
    assert_eq!(job.at.join(".git/modules/sub").metadata().expect("a directory").ino(), module);
}

/// The hooks of the user's template and of the global configuration stay.
#[test]
fn hooks_of_the_machine_stay() {
    let server = Server::new();
    let template = server.dir("template");
    let ran = server.sandbox.path().join("ran");
    template.write_executable("hooks/post-checkout", format!("#!/bin/sh\ntouch '{}'\n", ran.display()));
    let path = template.path.display().to_string();
    server.sandbox.repo("home").git(&["config", "--global", "init.templateDir", &path]);
    let job = job(&server, "app");
    for round in 0..2 {
        check_out(&server, &job);
        assert!(ran.exists(), "round {round}");
        fs::remove_file(&ran).expect("the hook has made it");
        assert!(job.at.exists(".git/hooks/post-checkout"), "round {round}");
    }
}

/// Outside of a runner the hooks and settings of a user stay.
#[test]
fn hooks_and_settings_of_a_user_stay() {
    let server = Server::new();
    let job = job(&server, "mine");
    check_out(&server, &job);
    job.at.write_executable(".git/hooks/post-checkout", "#!/bin/sh\n");
    job.at.git(&["config", "alias.mine", "status"]);
    let args = ["checkout", "-q", "--token-env=TOKEN", "--token-user", Nginx::USER, &job.url];
    for (variables, option) in [(&[][..], None), (&[("CI", "true")], Some("--no-clean"))] {
        let run = server.ci(&job.at, variables, &args.iter().copied().chain(option).collect::<Vec<_>>());
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(job.at.exists(".git/hooks/post-checkout"));
        assert_eq!(job.at.git(&["config", "alias.mine"]).stdout, "status\n");
    }
    assert!(Path::new(&job.evil).exists());
}
