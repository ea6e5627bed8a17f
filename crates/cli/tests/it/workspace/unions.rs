//! Checkouts and unions of the user's own: `workspace adopt`, and `workspace base add --from`.

use std::{fs, path::Path, process::Command};

use testkit::{Repo, Run, Sandbox, disk::NoMountsBelow, need_program};

use super::create::Place;
use crate::SAPWOOD;

/// The file systems of unions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Overlay,
    UnionFs,
}

/// A checkout, and a union over it, in which the tests work.
struct Scene {
    // Dropped first: it unmounts.
    _mounts: NoMountsBelow,
    sandbox: Sandbox,
    kind: Kind,
}

impl Scene {
    fn new(kind: Kind) -> Scene {
        let sandbox = Sandbox::new();
        let scene = Scene { _mounts: NoMountsBelow::new(&sandbox.path()), sandbox, kind };
        let checkout = scene.sandbox.init("checkout");
        for number in 0..300 {
            checkout.write(format!("many/{}/{number}", number % 20), format!("{number}\n"));
        }
        for name in ["a", "b", "dir/a", "dir/b", "dir/deep/a", "gone/a", "gone/b"] {
            checkout.write(name, format!("{name}\n"));
        }
        checkout.write(".gitignore", "*.o\n");
        checkout.commit("one");
        for name in ["upper", "work", "union"] {
            fs::create_dir(scene.at(name)).expect("a new directory");
        }
        scene.mount("checkout");
        scene
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.sandbox.path().join(name)
    }

    fn union(&self) -> Repo<'_> {
        self.sandbox.repo("union")
    }

    /// Mounts the union as a user does.
    fn mount(&self, lower: &str) {
        let [lower, upper, work, union] =
            [lower, "upper", "work", "union"].map(|name| self.at(name).display().to_string());
        let mut mount = match self.kind {
            Kind::Overlay => {
                let mut mount = Command::new("mount");
                let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
                mount.args(["-t", "overlay", "overlay", "-o", &options, &union]);
                mount
            }
            Kind::UnionFs => {
                need_program("unionfs-fuse");
                let mut mount = Command::new("unionfs-fuse");
                mount.args(["-o", "cow,hide_meta_files,use_ino", &format!("{upper}=RW:{lower}=RO"), &union]);
                mount
            }
        };
        assert!(mount.status().expect("it can be run").success(), "{mount:?}");
    }

    fn unmount(&self) {
        // A process that the last command started may still use it.
        let unmounted = (0..100).any(|_| {
            let ended = Command::new("umount").arg(self.at("union")).status().expect("it can be run");
            std::thread::sleep(std::time::Duration::from_millis(if ended.success() { 0 } else { 50 }));
            ended.success()
        });
        assert!(unmounted, "the union is in use");
    }

    fn adopt(&self) -> Run {
        let union = self.union();
        self.sandbox
            .repo("")
            .run(SAPWOOD.as_ref(), &["workspace", "adopt", union.path.to_str().expect("plain")])
    }

    /// Runs a script in the union.
    fn run(&self, script: &str) {
        let run = self.union().run(Path::new("sh"), &["-ec", script]);
        assert_eq!(run.code, 0, "{script}: {}{}", run.stdout, run.stderr);
    }

    /// Compares both programs' status with that of Git without a monitor. Returns the status.
    fn status(&self, context: &str) -> String {
        let union = self.union();
        let all = [
            "--no-optional-locks",
            "-c",
            "core.fsmonitor=false",
            "-c",
            "core.untrackedCache=false",
            "status",
            "--porcelain",
        ];
        let all = union.git(&all).stdout;
        for tool in [Path::new(SAPWOOD), Path::new(&git())] {
            let run = union.run(tool, &["status", "--porcelain"]);
            assert_eq!((&run.stdout, run.stderr), (&all, "".into()), "{:?}, {tool:?}: {context}", self.kind);
        }
        all.to_string()
    }

    /// Returns the number of calls once the files are old enough to be trusted.
    fn settled(&self) -> usize {
        let mut calls = self.cost();
        for _ in 0..30 {
            std::thread::sleep(std::time::Duration::from_millis(100));
            calls = calls.min(self.cost());
        }
        calls
    }

    /// Returns the number of `lstat` calls of a status.
    fn cost(&self) -> usize {
        need_program("strace");
        let trace = self.at("trace");
        let calls = "trace=newfstatat,lstat,statx";
        // The loader examines each directory that Cargo puts into the variable.
        let program = ["-u", "LD_LIBRARY_PATH", "strace"];
        let args = ["-f", "-o", trace.to_str().expect("plain"), "-e", calls, SAPWOOD, "status"];
        let args = [&program[..], &args].concat();
        let run = self.union().run(Path::new("env"), &args);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let text = fs::read_to_string(&trace).expect("written");
        text.lines()
            .filter(|line| line.contains('(') && !line.contains("/proc") && !line.contains("/etc"))
            .count()
    }
}

fn git() -> String {
    std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "git".to_owned())
}

fn is_root() -> bool {
    let is_root = sys::user::effective_uid() == 0;
    if !is_root {
        println!("skipped: only root mounts unions");
    }
    is_root
}

#[test]
fn a_union_of_the_user_reports_its_changes() {
    for kind in [Kind::Overlay, Kind::UnionFs] {
        if !is_root() {
            return;
        }
        let scene = Scene::new(kind);
        let before = scene.cost();
        assert!(before > 300, "{kind:?}: {before}");
        let adopted = scene.adopt();
        assert_eq!(adopted.code, 0, "{}", adopted.stderr);
        assert_eq!(scene.status("nothing"), "");
        let clean = scene.settled();
        assert!(clean < 60, "{kind:?}: {clean} calls");
        for change in [
            "echo more >>a",
            "rm b",
            "echo new >new; mkdir fresh; echo x >fresh/x",
            "rm -r gone",
            "mkdir gone; echo other >gone/new",
            "rm dir/b; mkdir dir/b; echo x >dir/b/x",
            "rm -r dir/deep; echo file >dir/deep",
            "mkdir moved; echo 1 >moved/1; rm -f a; mv moved a",
            "echo x >x.o; chmod +x many/1/1",
            "git stash -q -u",
            "git stash drop -q",
            "echo two >two; git add -A; git commit -qm two",
            "git checkout -q HEAD~1; git checkout -q -",
            "git clean -fdxq; git reset -q --hard",
        ] {
            scene.run(change);
            scene.status(change);
        }
        let after = scene.settled();
        assert!(after < before / 2, "{kind:?}: {after} calls of {before}");
        // The checkout below is as it was.
        let checkout = scene.sandbox.repo("checkout");
        assert_eq!(checkout.git(&["status", "--porcelain"]).stdout, "");
        assert_eq!(checkout.git(&["log", "--format=%s"]).stdout, "one\n");
        // Mounted again, it is the same union.
        scene.unmount();
        scene.mount("checkout");
        scene.run("echo again >>many/2/2");
        assert_eq!(scene.status("mounted again"), " M many/2/2\n");
    }
}

#[test]
fn a_union_that_is_mounted_in_another_way_is_examined() {
    for kind in [Kind::Overlay, Kind::UnionFs] {
        if !is_root() {
            return;
        }
        let scene = Scene::new(kind);
        assert_eq!(scene.adopt().code, 0);
        assert_eq!(scene.status("adopted"), "");
        scene.unmount();
        // A copy in which a file differs.
        let copied = Command::new("cp").arg("-a").args([scene.at("checkout"), scene.at("copy")]).status();
        assert!(copied.expect("it can be run").success());
        scene.sandbox.repo("copy").write("many/3/3", "differs\n");
        scene.mount("copy");
        for tool in [SAPWOOD, &git()] {
            let run = scene.union().run(Path::new(tool), &["status", "--porcelain"]);
            assert_eq!(run.stdout, " M many/3/3\n", "{kind:?}, {tool}");
            assert!(run.stderr.to_string().contains("every file is examined"), "{kind:?}: {}", run.stderr);
        }
    }
}

/// The process of an adopted union still ends when another union is mounted at its place.
#[test]
fn a_process_without_its_mount_is_not_believed() {
    if !is_root() {
        return;
    }
    let scene = Scene::new(Kind::UnionFs);
    assert_eq!(scene.adopt().code, 0);
    assert_eq!(scene.status("adopted"), "");
    let line = format!("^unionfs-fuse .*{}$", scene.at("union").display());
    let found = Command::new("pgrep").args(["-f", &line]).output().expect("it can be run").stdout;
    let process = String::from_utf8(found).expect("a number").trim().to_owned();
    let send = |signal: &str| {
        let sent = Command::new("kill").args([signal, &process]).status();
        assert!(sent.expect("it can be run").success(), "kill {signal} {process}");
    };
    send("-STOP");
    testkit::detach(&scene.at("union"));
    let copied = Command::new("cp").arg("-a").args([scene.at("checkout"), scene.at("copy")]).status();
    assert!(copied.expect("it can be run").success());
    scene.sandbox.repo("copy").write("many/3/3", "differs\n");
    scene.mount("copy");
    let run = scene.union().run(SAPWOOD.as_ref(), &["status", "--porcelain"]);
    send("-KILL");
    assert_eq!(run.stdout, " M many/3/3\n", "{}", run.stderr);
}

#[test]
fn what_is_no_union_is_refused() {
    if !is_root() {
        return;
    }
    let scene = Scene::new(Kind::UnionFs);
    let refused = |dir: &str, why: &str| {
        let run = scene.sandbox.repo("").run(SAPWOOD.as_ref(), &["workspace", "adopt", dir]);
        assert!(run.code == 128 && run.stderr.to_string().contains(why), "{dir}: {}", run.stderr);
    };
    refused("checkout", "is no mount point of an overlay or of unionfs-fuse");
    refused("/proc", "is no mount point of an overlay or of unionfs-fuse");
    scene.unmount();
    let branches = format!("{}=RW:{}=RO", scene.at("upper").display(), scene.at("checkout").display());
    let mut mount = Command::new("unionfs-fuse");
    mount.args(["-o", "cow", &branches]).arg(scene.at("union"));
    assert!(mount.status().expect("it can be run").success());
    refused("union", "mount it with '-o hide_meta_files'");
}

#[test]
fn a_checkout_becomes_a_base_where_it_lies() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let repo = place.repo();
    for number in 0..300 {
        repo.write(format!("many/{}/{number}", number % 20), format!("{number}\n").repeat(1000));
    }
    repo.commit("many");
    repo.git(&["clone", "-q", ".", "../share"]);
    let share = place.sandbox.repo("share");
    let from = ["base", "add", "--from", "../share"];
    // A checkout with a change is refused, also where Git was told not to look.
    share.write("new", "");
    let refused = place.run(&from).stderr.to_string();
    assert!(refused.contains("is not a clean checkout"), "{refused}");
    share.remove("new");
    share.git(&["update-index", "--assume-unchanged", "many/3/3"]);
    let content = share.read("many/3/3");
    share.write("many/3/3", "other\n");
    let refused = place.run(&from).stderr.to_string();
    assert!(refused.contains("'many/3/3': its content differs"), "{refused}");
    assert_eq!(place.done(&["base", "list"]), "");
    share.write("many/3/3", content);
    // Ignored files may be there.
    share.write("built.o", "object");
    assert!(place.done(&from).ends_with("  directory\n"));
    let size = Command::new("du").args(["-s", "--apparent-size", "-B1"]).arg(place.bases()).output();
    let size = String::from_utf8(size.expect("it can be run").stdout).expect("text");
    let size: u64 = size.split('\t').next().expect("a number").parse().expect("a number");
    assert!(size < 200_000, "{size} bytes: the files were copied");
    // A workspace takes it without being told.
    place.done(&["create", "one", "-b", "topic"]);
    assert_eq!(place.json()[0]["backend"], "overlay");
    let inside = |script: &str| place.done(&["exec", "one", "--", "sh", "-ec", script]);
    assert_eq!(place.git("one", &["status", "--porcelain"]), "");
    inside("echo more >>file; rm -r many/1; echo new >new");
    let status = place.git("one", &["status", "--porcelain"]);
    assert_eq!(status.lines().count(), 17, "{status}");
    assert_eq!(inside(&format!("{SAPWOOD} status --porcelain")), status);
    assert_eq!(inside("cat built.o"), "object");
    for backend in ["copy", "reflink", "btrfs"] {
        let run = place.run(&["create", "two", "--backend", backend]);
        assert!(backend == "copy" || run.code != 0, "{backend}");
    }
    // A directory that only root may write, on a read-only mount.
    place.done(&["remove", "-f", "one", "two"]);
    let name = place.done(&["base", "list"]);
    let name = name.split(' ').next().expect("a name");
    place.done(&["base", "remove", name]);
    assert_eq!(share.git(&["status", "--porcelain"]).stdout, "");
    assert!(share.exists("many/3/3") && share.exists("built.o"));
}
