//! `examples/slurm` on a cluster of four nodes on this machine. The jobs run as an ordinary user,
//! in workspaces that the prolog creates and the epilog removes.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use testkit::{
    Repo, Sandbox,
    disk::{NoMountsBelow, mounts_below, ordinary_user_reaches},
    servers::Slurm,
};

use super::example;
use crate::SAPWOOD;

const NODES: usize = 4;

/// The user of the jobs. The controller requires a user that the system knows.
const USER: &str = "nobody";

/// The time limit for all jobs of a test, on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);

/// A cluster, and on each node a clone of `server.git` with the example's files.
struct Cluster {
    slurm: Slurm,
    /// Must be dropped after the cluster.
    sandbox: Sandbox,
}

impl Cluster {
    /// Creates the cluster. Returns `None` if this machine does not support one.
    fn new(settings: &str) -> Option<Cluster> {
        let sandbox = Sandbox::new();
        let at = sandbox.path();
        fs::set_permissions(&at, fs::Permissions::from_mode(0o755)).expect("our directory");
        // Root reads repositories that the ordinary user owns.
        fs::write(at.join("home/.gitconfig"), "[safe]\n\tdirectory = *\n").expect("a home");
        let work = sandbox.init("work");
        for number in 0..200 {
            work.write(format!("dir{}/file{number}", number % 7), format!("{number}\n"));
        }
        work.commit("one");
        work.git(&["clone", "-q", "--bare", ".", "../server.git"]);
        for node in 1..=NODES {
            let clone = at.join(format!("node{node}/app.git")).display().to_string();
            work.git(&["clone", "-q", "--bare", "../server.git", &clone]);
            let refs = "+refs/heads/*:refs/remotes/origin/*";
            work.git(&["-C", &clone, "config", "remote.origin.fetch", refs]);
        }
        fs::create_dir(at.join("bin")).expect("a new directory");
        testkit::copy_program(SAPWOOD.as_ref(), &at.join("bin/sapwood"));
        fs::create_dir(at.join("slurm-files")).expect("a new directory");
        for file in fs::read_dir(example("slurm")).expect("the example") {
            let file = file.expect("an entry").path();
            fs::copy(&file, at.join("slurm-files").join(file.file_name().expect("a file"))).expect("a copy");
        }
        let git = PathBuf::from(std::env::var_os("SAPWOOD_TEST_GIT").unwrap_or("/usr/bin/git".into()));
        if !ordinary_user_reaches(&git) || !ordinary_user_reaches(&at.join("bin/sapwood")) {
            println!("skipped: an ordinary user cannot reach the programs");
            return None;
        }
        let programs = git.parent().expect("a program in a directory").display().to_string();
        let settings = format!(
            "SAPWOOD_REPOSITORIES={0}/$SLURMD_NODENAME\n\
             SAPWOOD_WORKSPACES={0}/$SLURMD_NODENAME/jobs\n\
             SAPWOOD_ACCOUNTS={USER}\n\
             SAPWOOD_REMOTE=\n\
             SAPWOOD_UNSAVED=keep\n\
             SAPWOOD_LOG={0}/log.$SLURMD_NODENAME\n\
             PATH={0}/bin:{programs}:/usr/bin:/bin\n\
             {settings}\n",
            at.display()
        );
        fs::write(at.join("slurm-files/settings"), settings).expect("a file");
        let programs = at.join("slurm-files");
        let hooks = format!(
            "Prolog={0}/prolog\nEpilog={0}/epilog\nTaskProlog={0}/task-prolog\nPrologFlags=Alloc",
            programs.display()
        );
        let owned = Command::new("chown").args(["-R", USER]).arg(&at).status().expect("chown");
        if !owned.success() {
            println!("skipped: only root gives files away");
            return None;
        }
        let slurm = Slurm::start(&at.join("cluster"), NODES, &hooks)?;
        Some(Cluster { slurm, sandbox })
    }

    fn server(&self) -> Repo<'_> {
        self.sandbox.repo("server.git")
    }

    fn tip(&self) -> String {
        self.server().git(&["rev-parse", "main"]).stdout.to_string().trim().to_owned()
    }

    /// Submits a job as the ordinary user.
    fn submit(&self, args: &[&str], job: &Path) {
        let here = self.sandbox.repo("");
        let mut command = self.slurm.command(Path::new("setpriv"));
        let environment = here.command(Path::new("true"));
        command.envs(environment.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.args([&format!("--reuid={USER}"), "--regid=nogroup", "--clear-groups", "sbatch"]);
        command.arg(format!("--output={}/log.%A_%a", here.path.display())).args(args);
        let output = command.arg(job).current_dir(&here.path).output().expect("sbatch");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Runs a shell script as a job with this comment on the first node, and waits for it. Returns
    /// the output of the job and the nodes.
    fn job(&self, comment: &str, script: &str) -> String {
        let file = self.sandbox.path().join("script");
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("a file");
        self.submit(&[&format!("--comment={comment}"), "--nodelist=node1"], &file);
        self.slurm.wait_until_idle(LIMIT);
        self.said()
    }

    /// Runs sapwood in the clone of the first node.
    fn sapwood(&self, args: &[&str]) -> String {
        let run = self.sandbox.repo("node1/app.git").run(Path::new(SAPWOOD), args);
        assert_eq!(run.code, 0, "{args:?}: {}", run.stderr);
        run.stdout.to_string()
    }

    /// Returns the output of all jobs, prologs and epilogs.
    fn said(&self) -> String {
        let entries = fs::read_dir(self.sandbox.path()).expect("the sandbox").flatten();
        let logs = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("log."));
        logs.filter_map(|entry| fs::read_to_string(entry.path()).ok()).collect()
    }

    /// Asserts that no node has a workspace, a mount in the workspace directory, or a process.
    fn nothing_is_left(&self) {
        assert_eq!(self.slurm.processes_of_jobs(), Vec::<String>::new());
        for node in 1..=NODES {
            let clone = self.sandbox.repo(&format!("node{node}/app.git"));
            assert_eq!(clone.git(&["for-each-ref", "refs/sapwood"]).stdout, "");
            let node = self.sandbox.path().join(format!("node{node}"));
            assert_eq!(mounts_below(&node), Vec::<PathBuf>::new());
            for dir in ["jobs", "app.git/worktrees", "app.git/sapwood/workspaces"] {
                let entries = fs::read_dir(node.join(dir)).into_iter().flatten().flatten();
                let names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
                assert_eq!(names, Vec::<std::ffi::OsString>::new(), "{} {dir}", node.display());
            }
        }
    }
}

#[test]
fn an_array_of_64_tasks_removes_its_workspaces() {
    let Some(cluster) = Cluster::new("") else { return };
    let _mounts = NoMountsBelow::new(&cluster.sandbox.path());
    let comment = format!("--comment=sapwood:app@{}", cluster.tip());
    cluster.submit(&[&comment], &example("slurm/job"));
    cluster.slurm.wait_until_idle(LIMIT);

    let said = cluster.said();
    let server = cluster.server();
    let refs = server.git(&["for-each-ref", "--format=%(refname:short)", "refs/heads/task-*"]).stdout;
    assert_eq!(refs.to_string().lines().count(), 64, "{said}");
    let mut nodes = std::collections::BTreeSet::new();
    for task in 0..64 {
        let branch = format!("task-{task}");
        let count = server.git(&["rev-list", "--count", &format!("main..{branch}")]).stdout;
        assert_eq!(count, "1\n", "{branch}");
        let changed = server.git(&["diff", "--name-only", "main", &branch]).stdout;
        assert_eq!(changed, format!("results/{task}\n").as_str(), "{branch}");
        let content = server.git(&["show", &format!("{branch}:results/{task}")]).stdout.to_string();
        let node = content.trim().strip_prefix(&format!("task {task} on ")).expect("the task's own line");
        nodes.insert(node.to_owned());
    }
    assert_eq!(nodes.len(), NODES, "every node takes a part");
    cluster.nothing_is_left();
    let fsck = server.try_git(&["fsck", "--strict"]);
    assert_eq!(fsck.code, 0, "{}", fsck.stderr);
}

#[test]
fn the_epilog_keeps_unsaved_work_and_logs_its_path() {
    let Some(cluster) = Cluster::new("") else { return };
    let _mounts = NoMountsBelow::new(&cluster.sandbox.path());
    let comment = format!("sapwood:app@{}", cluster.tip());
    let said = cluster.job(&comment, "cd $SAPWOOD_WORKSPACE && echo mine >unsaved");
    let node = cluster.sandbox.path().join("node1");
    assert_eq!(mounts_below(&node.join("jobs")), Vec::<PathBuf>::new(), "{said}");
    let list = cluster.sapwood(&["workspace", "list"]);
    let name = list.split_whitespace().find(|word| word.starts_with("job-")).expect("it is kept").to_owned();
    let wayout = format!("unsaved work is kept: sapwood -C {}/app.git workspace thaw {name}", node.display());
    assert!(said.contains(&wayout), "{said}");
    cluster.sapwood(&["workspace", "thaw", &name]);
    let unsaved = fs::read_to_string(node.join("jobs").join(&name).join("unsaved"));
    assert_eq!(unsaved.expect("the file"), "mine\n");

    // A commit on no branch counts as unsaved too. A pushed one does not.
    let commit = "cd $SAPWOOD_WORKSPACE && echo 1 >file && git add file && git commit -qm 1";
    let said = cluster.job(&comment, commit);
    assert_eq!(cluster.sapwood(&["workspace", "list"]).lines().count(), 2, "{said}");
    let said = cluster.job(&comment, &format!("{commit} && git push -q origin HEAD:refs/heads/pushed"));
    assert_eq!(cluster.sapwood(&["workspace", "list"]).lines().count(), 2, "{said}");
    assert_eq!(cluster.server().git(&["rev-list", "--count", "main..pushed"]).stdout, "1\n", "{said}");
}

#[test]
fn the_epilog_discards_unsaved_work_if_it_is_told_to() {
    let Some(cluster) = Cluster::new("SAPWOOD_UNSAVED=discard") else { return };
    let _mounts = NoMountsBelow::new(&cluster.sandbox.path());
    let comment = format!("sapwood:app@{}", cluster.tip());
    let said = cluster.job(&comment, "cd $SAPWOOD_WORKSPACE && echo mine >unsaved && echo wrote >&2");
    assert!(said.contains("wrote"), "{said}");
    cluster.nothing_is_left();
}

#[test]
fn a_wrong_comment_fails_the_job_and_drains_no_node() {
    let Some(cluster) = Cluster::new("") else { return };
    let _mounts = NoMountsBelow::new(&cluster.sandbox.path());
    let tip = cluster.tip();
    for (comment, cause) in [
        ("sapwood:app@no-such-branch", "no workspace of app at no-such-branch"),
        (&*format!("sapwood:other@{tip}"), "other.git does not belong to nobody"),
        (&*format!("sapwood:../node2/app@{tip}"), ""),
        ("sapwood:app@--force", ""),
        ("a note of the user", ""),
    ] {
        let said = cluster.job(comment, "cd \"$SAPWOOD_WORKSPACE\" && echo entered");
        assert!(said.contains(cause) && !said.contains("entered"), "{comment}: {said}");
        assert_eq!(cluster.slurm.state(), "idle\n".repeat(NODES), "{comment}");
    }
    cluster.nothing_is_left();
    let Some(cluster) = Cluster::new("SAPWOOD_ACCOUNTS=ci") else { return };
    let said = cluster.job(&format!("sapwood:app@{tip}"), "cd \"$SAPWOOD_WORKSPACE\" && echo entered");
    assert!(said.contains("the account nobody gets no workspaces") && !said.contains("entered"), "{said}");
}

#[test]
fn a_job_without_rights_makes_its_own_workspace() {
    let Some(cluster) = Cluster::new("") else { return };
    let _mounts = NoMountsBelow::new(&cluster.sandbox.path());
    let at = cluster.sandbox.path();
    let script = format!(
        "cd {0} && bin/sapwood -C node1/app.git workspace create --backend overlay-user \
             --exec job-$SLURM_JOB_ID {1} -- cat dir1/file1",
        at.display(),
        cluster.tip()
    );
    let said = cluster.job("none", &script);
    assert!(said.lines().any(|line| line == "1"), "{said}");
    cluster.nothing_is_left();
}

#[test]
fn tasks_run_on_nodes_that_have_the_base() {
    let Some(cluster) = Cluster::new("") else { return };
    let _mounts = NoMountsBelow::new(&cluster.sandbox.path());
    let tip = cluster.tip();
    let mut place = cluster.slurm.command(Path::new("srun"));
    place.args(["--nodelist=node3"]).arg(cluster.sandbox.path().join("slurm-files/place"));
    let output = place.args(["app", &tip]).output().expect("srun");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    cluster.slurm.wait_until_idle(LIMIT);
    let prefer = format!("--prefer=app&app-{}", &tip[..12]);
    let file = cluster.sandbox.path().join("script");
    fs::write(&file, "#!/bin/sh\ncd $SAPWOOD_WORKSPACE && echo on $SLURMD_NODENAME\n").expect("a file");
    for _ in 0..3 {
        let comment = format!("--comment=sapwood:app@{tip}");
        cluster.submit(&[&comment, "--constraint=app", &prefer], &file);
        cluster.slurm.wait_until_idle(LIMIT);
    }
    let said = cluster.said();
    assert_eq!(said.matches("on node3\n").count(), 3, "{said}");
    let features =
        cluster.slurm.command(Path::new("sinfo")).args(["-hN", "-n", "node3", "-o", "%b"]).output();
    let features = String::from_utf8_lossy(&features.expect("sinfo").stdout).into_owned();
    assert_eq!(features.trim(), format!("app,app-{}", &tip[..12]));
}

#[test]
fn a_node_without_the_commit_pulls_its_base() {
    let remote = "SAPWOOD_REMOTE=file://${SAPWOOD_REPOSITORIES%/*}/remote";
    let Some(cluster) = Cluster::new(remote) else { return };
    let _mounts = NoMountsBelow::new(&cluster.sandbox.path());
    let work = cluster.sandbox.repo("work");
    work.write("new", "from the base\n");
    work.commit("two");
    let tip = work.git(&["rev-parse", "HEAD"]).stdout.to_string().trim().to_owned();
    fs::create_dir_all(cluster.sandbox.path().join("remote/app")).expect("a directory");
    let remote = format!("file://{}/remote/app", cluster.sandbox.path().display());
    let push = work.run(Path::new(SAPWOOD), &["base", "push", &remote, &tip]);
    assert_eq!(push.code, 0, "{}", push.stderr);
    let clone = cluster.sandbox.repo("node1/app.git");
    for (key, value) in [
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.partialCloneFilter", "blob:none"),
    ] {
        clone.git(&["config", key, value]);
    }
    assert_eq!(clone.try_git(&["cat-file", "-e", &tip]).code, 1, "the clone is older");
    let said = cluster.job(&format!("sapwood:app@{tip}"), "cat $SAPWOOD_WORKSPACE/new");
    assert!(said.lines().any(|line| line == "from the base"), "{said}");
    cluster.nothing_is_left();
}
