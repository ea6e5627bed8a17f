//! Workspaces that a process uses, and the time since nobody did.

use std::{
    fs::File,
    process::{Child, Command},
    thread,
    time::{Duration, SystemTime},
};

use testkit::{NoMountsBelow, Sandbox};

use super::{class, committed, create, reaped, script};

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn any_use_by_a_process_keeps_a_workspace() {
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = committed(&sandbox);
    repo.write(".gitignore", "*.o\n");
    repo.commit("ignores");
    let names = ["directory", "program", "open", "mapped", "free"];
    let [directory, program, open, mapped, _] = names.map(|name| {
        let workspace = create(&sandbox, &repo, name);
        script(&workspace, "mkdir deep.o; cp \"$(command -v sleep)\" deep.o/sleep");
        workspace.path.join("deep.o")
    });
    let run = |command: &mut Command| Running(command.arg("100").spawn().expect("it runs"));
    let file = |dir: &std::path::Path| File::open(dir.join("sleep")).expect("a file");
    let processes = [
        run(Command::new("sleep").current_dir(directory)),
        run(Command::new(program.join("sleep")).current_dir("/")),
        run(Command::new("sleep").current_dir("/").stdin(file(&open))),
    ];
    let map = sys::Map::of(&file(&mapped).into()).expect("a map");
    let live = || names.map(|name| class(&repo, name).live);
    let ids = processes.iter().map(|process| Some(process.0.id()));
    let expected: Vec<Option<u32>> = ids.chain([Some(std::process::id()), None]).collect();
    assert_eq!(live().to_vec(), expected);
    assert_eq!(reaped(&repo), ["free"]);
    drop((processes, map));
    let names = ["directory", "mapped", "open", "program"];
    assert_eq!(names.map(|name| class(&repo, name).live), [None; 4]);
    assert_eq!(reaped(&repo), names);
}

/// Each change makes the workspace young, wherever it leaves its trace.
#[test]
fn work_ends_the_idle_time() {
    let old = SystemTime::now() - Duration::from_secs(1_000_000);
    let sandbox = Sandbox::new();
    let _mounts = NoMountsBelow::new(&sandbox.path());
    let repo = committed(&sandbox);
    let work = [
        ("file", "echo x >a"),
        ("new", "mkdir -p new; echo x >new/file"),
        ("deleted", "rm dir/b"),
        ("index", "git update-index --assume-unchanged a"),
        ("reflog", "git commit -q --allow-empty -m x"),
        ("head", "git symbolic-ref HEAD refs/heads/other"),
    ];
    for (name, work) in work {
        let workspace = create(&sandbox, &repo, name);
        thread::sleep(Duration::from_millis(1100));
        let before = class(&repo, name).idle_since;
        assert_eq!(class(&repo, name).idle_since, before, "{name}: a list is no work");
        workspace.git(&["--no-optional-locks", "status"]);
        assert_eq!(class(&repo, name).idle_since, before, "{name}: a look is no work");
        script(&workspace, work);
        assert!(class(&repo, name).idle_since > before, "{name}");
        // A program may set the times of files back.
        if let Ok(file) = File::options().append(true).open(workspace.path.join("new/file")) {
            file.set_modified(old).expect("a time");
            assert!(class(&repo, name).idle_since > before, "{name}");
        }
    }
}
