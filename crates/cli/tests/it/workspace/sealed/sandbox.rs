//! An agent's day in sandboxes that see only the directory of the workspace: bubblewrap, Landlock,
//! podman, gVisor.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::json;

use super::{super::create::Place, listing};
use crate::SAPWOOD;

/// The commands of a day. `g` is the program.
const DAY: &str = r#"
set -e
g() { git -c core.pager=cat "$@"; }
g status; g log -1 --oneline; g branch -vv; g config user.name; g checkout -q -b feature
echo one >>file; g status --short; g diff; g add file; g diff --cached --stat; g commit -q -m 'agent: one'
mkdir sub; echo two >sub/two; g add -A; g commit -q -m 'agent: two'; g show --stat HEAD
echo half >>file; g stash; g stash list; g stash pop; g restore file; g status --porcelain
g mv sub/two sub/three; g commit -q -m 'agent: three'; g rm -q dir/deep/file; g reset -q --hard
g switch -q -; echo main >other; g add other; g commit -q -m 'agent: main'; g rebase -q one feature
g tag -m text mark; g describe; g tag -d mark; g cherry-pick -n HEAD~1 || g reset -q --hard; g reset -q --hard
g revert --no-edit HEAD; g blame file; g grep -n one; g ls-files -s; g rev-parse --show-toplevel
echo junk >junk; g clean -qfd; g reflog -3; g merge-base HEAD origin/HEAD || true; g log --all --oneline
g commit -q --amend -m 'agent: last'; g branch -f one; g switch -q one; g branch -D feature; g fsck
g gc -q; g status --porcelain
"#;

/// The directories of the machine that a sandbox may read.
const SYSTEM: [&str; 4] = ["/usr", "/bin", "/lib", "/lib64"];

/// One of the programs whose commands a day has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Program {
    Git,
    Sapwood,
}

/// A sandbox that shows a workspace, and runs a script in it.
struct Inside<'a> {
    /// The directory of the workspace.
    top: &'a Path,
    script: &'a str,
    /// A directory outside of the workspace, for the files of the sandbox itself.
    outside: &'a Path,
    program: Program,
}

impl Inside<'_> {
    /// Returns the real Git.
    fn git() -> PathBuf {
        let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "/usr/bin/git".to_owned());
        Path::new(&git).canonicalize().expect("Git")
    }

    /// Returns the directory of the real Git and of its programs.
    fn oracle() -> PathBuf {
        Self::git().ancestors().nth(2).expect("the directory of the oracle").to_owned()
    }

    /// Returns the directories and files that are shown, with their paths inside.
    fn shown(&self) -> Vec<(PathBuf, PathBuf)> {
        let shim = self.outside.join("shim");
        fs::create_dir_all(&shim).expect("a directory");
        if !shim.join("git").exists() {
            std::os::unix::fs::symlink("/opt/sapwood", shim.join("git")).expect("a link");
        }
        let system = SYSTEM.iter().map(|dir| (PathBuf::from(dir), PathBuf::from(dir)));
        let oracle = (Self::oracle(), Self::oracle());
        let own = [(SAPWOOD.into(), "/opt/sapwood".into()), (shim, "/opt/shim".into())];
        system.filter(|(dir, _)| dir.exists()).chain([oracle]).chain(own).collect()
    }

    fn variables(&self) -> Vec<(&'static str, String)> {
        let git = Self::git();
        let real = git.parent().expect("a directory").display();
        let path = match self.program {
            Program::Git => format!("{real}:/usr/bin:/bin"),
            Program::Sapwood => format!("/opt/shim:{real}:/usr/bin:/bin"),
        };
        let plain = [("HOME", "/tmp"), ("GIT_EDITOR", "true"), ("LC_ALL", "C")];
        let plain = plain.map(|(name, value)| (name, value.to_owned()));
        // The oracle may have been copied from the place for which it was built.
        let programs = Self::oracle().join("libexec/git-core");
        let programs = programs.exists().then(|| ("GIT_EXEC_PATH", programs.display().to_string()));
        [("PATH", path)].into_iter().chain(plain).chain(programs).collect()
    }
}

type Sandbox = fn(&Inside<'_>) -> Output;

fn bubblewrap(inside: &Inside<'_>) -> Output {
    let mut sandbox = Command::new("bwrap");
    sandbox.args(["--unshare-all", "--die-with-parent", "--clearenv", "--proc", "/proc", "--dev", "/dev"]);
    for (from, to) in inside.shown() {
        sandbox.arg("--ro-bind").args([from, to]);
    }
    sandbox.args(["--tmpfs", "/tmp"]);
    sandbox.arg("--bind").args([inside.top, inside.top]).arg("--chdir").arg(inside.top);
    for (name, value) in inside.variables() {
        sandbox.args(["--setenv", name, &value]);
    }
    sandbox.args(["sh", "-c", inside.script]).output().expect("bwrap runs")
}

/// The kernel's own sandbox: the processes see the whole machine by name, and may use only some
/// directories.
fn landlock(inside: &Inside<'_>) -> Output {
    let home = inside.outside.join("home");
    let shim = inside.outside.join("bin");
    for dir in [&home, &shim] {
        fs::create_dir_all(dir).expect("a directory");
    }
    if !shim.join("git").exists() {
        std::os::unix::fs::symlink(SAPWOOD, shim.join("git")).expect("a link");
    }
    let mut command = Command::new("sh");
    command.args(["-c", inside.script]).current_dir(inside.top).env_clear();
    let variables = inside.variables().into_iter().map(|(name, value)| match name {
        "HOME" => (name, home.display().to_string()),
        _ => (name, value.replace("/opt/shim", shim.to_str().expect("a plain name"))),
    });
    command.envs(variables);
    let program = Path::new(SAPWOOD).to_owned();
    let mut read: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).filter(|dir| dir.exists()).collect();
    read.extend([Inside::oracle(), program, shim, "/proc".into(), "/etc/ld.so.cache".into()]);
    let write = [inside.top.to_owned(), home, "/dev/null".into()];
    testkit::landlock::output(&mut command, &read, &write).expect("the command runs")
}

/// A container without an image: its root has only what is shown.
fn podman(inside: &Inside<'_>) -> Output {
    let root = inside.outside.join("root");
    fs::create_dir_all(&root).expect("a directory");
    let own = |name: &str| inside.outside.join(name);
    let mut sandbox = Command::new("podman");
    // Its own files lie in the sandbox of the test.
    sandbox.arg("--root").arg(own("podman")).arg("--runroot").arg(own("podman-run"));
    sandbox.args(["--cgroup-manager", "cgroupfs", "--runtime", "runc", "run", "--rm", "--network", "none"]);
    sandbox.args([
        "--security-opt",
        "label=disable",
        "--ulimit",
        "nofile=1024:1024",
        "--ulimit",
        "nproc=4096:4096",
    ]);
    for (from, to) in inside.shown() {
        sandbox.arg("--volume").arg(format!("{}:{}:ro", from.display(), to.display()));
    }
    let top = inside.top.display();
    sandbox.arg("--volume").arg(format!("{top}:{top}")).arg("--workdir").arg(inside.top);
    sandbox.args(["--tmpfs", "/tmp"]);
    for (name, value) in inside.variables() {
        sandbox.arg("--env").arg(format!("{name}={value}"));
    }
    sandbox.arg("--rootfs").arg(&root).args(["sh", "-c", inside.script]);
    sandbox.output().expect("podman runs")
}

/// A kernel of its own in user space.
fn gvisor(inside: &Inside<'_>) -> Output {
    let bundle = inside.outside.join("bundle");
    fs::create_dir_all(bundle.join("root")).expect("a directory");
    let bind = |from: &Path, to: &Path, mode: &str| json!({"destination": to, "type": "bind", "source": from, "options": ["rbind", mode]});
    let mut mounts: Vec<_> = inside.shown().iter().map(|(from, to)| bind(from, to, "ro")).collect();
    mounts.push(bind(inside.top, inside.top, "rw"));
    mounts.push(json!({"destination": "/proc", "type": "proc", "source": "proc"}));
    mounts.push(json!({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"}));
    let variables: Vec<_> =
        inside.variables().iter().map(|(name, value)| format!("{name}={value}")).collect();
    let spaces: Vec<_> =
        ["pid", "mount", "network", "ipc"].iter().map(|kind| json!({"type": kind})).collect();
    let config = json!({
        "ociVersion": "1.0.0",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": ["sh", "-c", inside.script],
            "env": variables,
            "cwd": inside.top,
            // As in a container of podman: root reads and writes the files of others.
            "capabilities": {
                "bounding": ["CAP_DAC_OVERRIDE", "CAP_FOWNER"],
                "effective": ["CAP_DAC_OVERRIDE", "CAP_FOWNER"],
                "permitted": ["CAP_DAC_OVERRIDE", "CAP_FOWNER"],
            },
        },
        "root": {"path": "root"},
        "mounts": mounts,
        "linux": {"namespaces": spaces},
    });
    fs::write(bundle.join("config.json"), config.to_string()).expect("written");
    let mut sandbox = Command::new("runsc");
    sandbox.arg("--root").arg(inside.outside.join("runsc"));
    sandbox.args(["--platform=ptrace", "--network=none", "--ignore-cgroups", "run", "--bundle"]).arg(&bundle);
    sandbox.arg(format!("sapwood-test-{}", std::process::id())).output().expect("runsc runs")
}

/// Returns true if a sandbox can start a shell. If not, says why: the kernel, or the container in
/// which the tests run, may forbid it.
fn works(name: &str, sandbox: Sandbox) -> bool {
    let dirs = tempfile::tempdir().expect("a directory for tests");
    let (top, outside) = (dirs.path().join("top"), dirs.path().join("outside"));
    [&top, &outside].iter().for_each(|dir| fs::create_dir(dir).expect("a directory"));
    let script = "echo works >file";
    let output = sandbox(&Inside { top: &top, script, outside: &outside, program: Program::Git });
    let works = output.status.success() && top.join("file").exists();
    if !works {
        println!("skipped: '{name}' cannot run here: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    works
}

/// Everything outside of the workspace that belongs to the repository.
fn outside(place: &Place) -> Vec<(String, u32, Vec<u8>)> {
    let mut all = listing(&place.repo().path);
    all.retain(|(path, ..)| !path.contains("/sapwood/workspaces"));
    all
}

/// A sealed workspace on the branch `one`.
fn sealed(backend: &str) -> Place {
    let place = Place::new();
    let repo = place.repo();
    repo.git(&["branch", "-M", "main"]);
    repo.git(&["config", "user.name", "A. Gent"]);
    repo.git(&["config", "user.email", "a@example.org"]);
    place.done(&["create", "-q", "--sealed", "--backend", backend, "one"]);
    place
}

fn day_in(sandbox: Sandbox, cases: &[(&str, Program)]) {
    for (backend, program) in cases {
        let place = sealed(backend);
        let (repo, workspace) = (place.repo(), place.workspace("one"));
        let before = outside(&place);
        let own = tempfile::tempdir().expect("a directory for tests");
        let inside = Inside { top: &workspace.path, script: DAY, outside: own.path(), program: *program };
        let output = sandbox(&inside);
        let said = format!(
            "{backend}, {program:?}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(output.status.success(), "{said}");
        assert!(outside(&place) == before, "something outside has changed: {said}");
        place.done(&["land", "one"]);
        assert_eq!(repo.git(&["log", "-1", "--format=%s", "one"]).stdout, "agent: last\n", "{said}");
        assert_eq!(repo.git(&["fsck", "--strict", "--no-dangling"]).stdout, "", "{said}");
        let removed = place.run(&["remove", "one"]);
        assert_eq!(removed.code, 0, "{}", removed.stderr);
    }
}

const ALL: [(&str, Program); 4] = [
    ("image", Program::Git),
    ("overlay", Program::Sapwood),
    ("copy", Program::Sapwood),
    ("copy", Program::Git),
];

#[test]
fn forty_commands_work_with_only_the_directory_bound() {
    if testkit::has_program("bwrap") {
        day_in(bubblewrap, &ALL);
    }
}

#[test]
fn forty_commands_work_under_landlock() {
    if !testkit::landlock::is_enforced() {
        println!("skipped: the kernel has no Landlock");
        return;
    }
    // The sandbox is one: it hides the repository.
    let place = sealed("overlay");
    let own = tempfile::tempdir().expect("a directory for tests");
    let repo = place.repo();
    let script = format!("cat {0}/.git/config && echo x >{0}/.git/config", repo.path.display());
    let top = &place.workspace("one").path;
    let inside = Inside { top, script: &script, outside: own.path(), program: Program::Git };
    let before = repo.read(".git/config");
    assert!(!landlock(&inside).status.success(), "the repository is open to the sandbox");
    assert_eq!(repo.read(".git/config"), before);
    day_in(landlock, &ALL);
}

#[test]
fn forty_commands_work_in_a_container_of_podman() {
    if testkit::has_program("podman") && testkit::has_program("runc") && works("podman", podman) {
        day_in(podman, &ALL);
    }
}

#[test]
fn forty_commands_work_in_gvisor() {
    // Not every Debian has it.
    if Command::new("runsc").arg("--version").output().is_err() {
        println!("skipped: there is no 'runsc'");
        return;
    }
    if works("runsc", gvisor) {
        day_in(gvisor, &ALL);
    }
}

/// The system calls that change the place of their argument, and those that only sometimes do.
const CHANGES: &str = "trace=open,openat,openat2,creat,mkdir,mkdirat,mknod,mknodat,rename,renameat,renameat2,\
                       link,linkat,symlink,symlinkat,unlink,unlinkat,rmdir,truncate,chmod,fchmodat,chown,\
                       lchown,fchownat,utimensat,setxattr,lsetxattr,removexattr,mount,umount2";

/// Without a sandbox nothing keeps the programs from writing elsewhere. They do not.
#[test]
fn no_program_writes_outside_of_the_directory() {
    if !testkit::has_program("strace") {
        return;
    }
    for (backend, program) in [("overlay", Program::Git), ("overlay", Program::Sapwood)] {
        let place = sealed(backend);
        let workspace = place.workspace("one");
        let own = tempfile::tempdir().expect("a directory for tests");
        let home = own.path().join("home");
        let shim = own.path().join("bin");
        for dir in [&home, &shim] {
            fs::create_dir(dir).expect("a directory");
        }
        std::os::unix::fs::symlink(SAPWOOD, shim.join("git")).expect("a link");
        let inside = Inside { top: &workspace.path, script: DAY, outside: own.path(), program };
        let log = own.path().join("log");
        let mut traced = Command::new("strace");
        traced.args(["-f", "-y", "-qq", "-s", "4096", "-e", CHANGES, "-e", "signal=none", "-o"]).arg(&log);
        traced.args(["sh", "-c", DAY]).current_dir(&workspace.path).env_clear();
        traced.envs(inside.variables().into_iter().map(|(name, value)| match name {
            "HOME" => (name, home.display().to_string()),
            _ => (name, value.replace("/opt/shim", shim.to_str().expect("a plain name"))),
        }));
        let output = traced.output().expect("strace runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let log = fs::read_to_string(&log).expect("a log");
        let changes: Vec<&str> = log.lines().filter(|line| is_change(line)).collect();
        assert!(changes.len() > 200, "{} changes in a whole day", changes.len());
        let elsewhere: Vec<&&str> = changes.iter().filter(|line| !is_below(line, &workspace.path)).collect();
        assert!(elsewhere.is_empty(), "{program:?}: {elsewhere:#?}");
        place.done(&["land", "-q", "one"]);
    }
}

/// Returns true for a line of strace with a call that has changed something, or could have.
fn is_change(line: &str) -> bool {
    let call = line.split_once(' ').map_or(line, |(_, call)| call.trim_start());
    let is_read = call.starts_with("open")
        && !["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"].iter().any(|flag| call.contains(flag));
    let has_failed = call.contains(") = -1 ");
    !is_read && !has_failed && call.contains('(')
}

/// Returns true if all paths of a call lie in a directory, or are no files of a user. The working
/// directory of each command is in the workspace, so a relative path without `..` is too.
fn is_below(line: &str, top: &Path) -> bool {
    let paths = line.split('"').skip(1).step_by(2).filter(|path| !path.is_empty());
    // Descriptors have the paths of their files beside them.
    let dirs = line.split("</").skip(1).filter_map(|rest| rest.split('>').next());
    let dirs = dirs.map(|dir| format!("/{dir}"));
    let top = top.to_str().expect("a plain name");
    let is_fine = |path: &str| {
        path.starts_with(top)
            || ["/dev/null", "/dev/tty"].contains(&path)
            || (!path.starts_with('/') && !path.contains(".."))
    };
    let is_relative = |path: &&str| !path.starts_with('/');
    let from_elsewhere =
        paths.clone().any(|path| is_relative(&path)) && !dirs.into_iter().all(|dir| is_fine(&dir));
    paths.clone().all(is_fine) && !from_elsewhere
}
