//! Workspaces of users who may not mount.

use std::{fs, process::Command, time::Duration};

use engine::workspace::backend::{Backend, Error, Mounted};

use crate::{
    Check,
    place::{NOBODY, Place, is_root, programs},
};

const USER: Backend = Backend::OverlayUser;

pub(crate) const CHECKS: &[Check] = &[
    ("a_holder_serves_any_number_of_processes", a_holder_serves_any_number_of_processes),
    ("a_user_without_privileges_needs_no_root", a_user_without_privileges_needs_no_root),
    ("a_killed_holder_leaves_its_processes_alone", a_killed_holder_leaves_its_processes_alone),
    ("a_holder_ends_with_its_state_directory", a_holder_ends_with_its_state_directory),
    ("a_failure_of_the_holder_is_told", a_failure_of_the_holder_is_told),
];

fn a_holder_serves_any_number_of_processes() {
    let place = Place::new();
    let mounted = place.mount(USER).expect("mounted");
    let Mounted::InNamespace { pid } = mounted else { panic!("{mounted:?}") };
    assert_eq!(place.state(USER), mounted);
    assert_eq!(place.mount(USER).expect("it is mounted"), mounted);
    assert!(!place.top("file").exists(), "this process does not see it");
    let inside = |script: &str| {
        let output = place.helper(&["inside", "overlay-user", script]).output().expect("started");
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    assert_eq!(inside("cat file dir/one"), "content of file\ncontent of dir/one\n");
    inside("echo changed >file && rm dir/one && mkdir new && id -u");
    assert_eq!(inside("cat file; ls -d dir/one new 2>/dev/null || true"), "changed\nnew\n");
    assert_eq!(inside("id -u").trim(), sys::user::effective_uid().to_string());
    let upper = sys::Dir::open(&place.layers.site.upper).expect("opened");
    assert!(sys::xattr::is_whiteout(&upper, b"dir/one").expect("a stat"));
    assert_eq!(
        sys::xattr::get_in(&upper, b"new", c"user.overlay.opaque").expect("read"),
        Some(b"y".to_vec())
    );
    let mut shell = place.helper(&["inside", "overlay-user", "echo; exec sleep 100"]);
    let mut shell = shell.stdout(std::process::Stdio::piped()).spawn().expect("started");
    let mut output = std::io::BufReader::new(shell.stdout.take().expect("a pipe"));
    std::io::BufRead::read_line(&mut output, &mut String::new()).expect("it writes");
    let refused = place.unmount(USER).expect_err("it is busy");
    let Error::Busy { processes, .. } = &refused else { panic!("{refused}") };
    assert!(
        processes.iter().any(|process| matches!(process.name.as_deref(), Some("sh" | "sleep"))),
        "{refused}"
    );
    assert!(processes.iter().all(|process| process.pid != pid), "{refused}");
    for process in processes {
        let _ = Command::new("kill").arg(process.pid.to_string()).status();
    }
    let _ = shell.wait();
    await_end(|| place.unmount(USER).is_ok());
    assert_eq!(place.state(USER), Mounted::No);
    assert!(sys::namespace::Process::of(pid).expect("known").is_none(), "the holder has ended");
    place.mount(USER).expect("mounted again");
    assert_eq!(inside("cat file"), "changed\n");
}

fn a_user_without_privileges_needs_no_root() {
    if !is_root() {
        return;
    }
    let place = Place::new().of_nobody();
    let run = |words: &[&str]| {
        let output = place.run_as(NOBODY, words);
        assert!(output.status.success(), "{words:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let refused = place.run_as(NOBODY, &["mount", "overlay"]);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("may not mount"));
    assert!(run(&["mount", "overlay-user"]).starts_with("InNamespace"));
    assert!(run(&["state", "overlay-user"]).starts_with("InNamespace"));
    let script = "id -u; echo changed >file; rm -r dir; mkdir -p a/b; git init -q . 2>/dev/null; cat /proc/self/status";
    let output = run(&["inside", "overlay-user", script]);
    assert!(output.starts_with(&format!("{NOBODY}\n")), "{output}");
    assert!(output.contains("CapEff:\t0000000000000000"), "a command has no capabilities: {output}");
    assert_eq!(fs::read(place.layers.site.upper.join("file")).expect("read"), b"changed\n");
    run(&["unmount", "overlay-user"]);
    assert_eq!(run(&["state", "overlay-user"]), "No\n");
}

fn a_killed_holder_leaves_its_processes_alone() {
    let place = Place::new();
    let Mounted::InNamespace { pid } = place.mount(USER).expect("mounted") else { panic!("no holder") };
    let mut shell = place.helper(&["inside", "overlay-user", "echo; read line; cat file; exec sleep 100"]);
    shell.stdout(std::process::Stdio::piped()).stdin(std::process::Stdio::piped());
    let mut shell = shell.spawn().expect("started");
    let mut output = std::io::BufReader::new(shell.stdout.take().expect("a pipe"));
    std::io::BufRead::read_line(&mut output, &mut String::new()).expect("it writes");
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().expect("kill can be run").success());
    await_end(|| sys::namespace::Process::of(pid).expect("known").is_none());
    let Mounted::InNamespace { pid: other } = place.state(USER) else { panic!("it is mounted") };
    assert_ne!(other, pid);
    let seen = place.helper(&["inside", "overlay-user", "cat dir/one"]).output().expect("started");
    assert_eq!(seen.stdout, b"content of dir/one\n");
    assert!(matches!(place.unmount(USER), Err(Error::Busy { .. })));
    drop(shell.stdin.take());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut output, &mut line).expect("it writes");
    assert_eq!(line, "content of file\n");
    if let Err(Error::Busy { processes, .. }) = place.unmount(USER) {
        for process in processes {
            let _ = Command::new("kill").arg(process.pid.to_string()).status();
        }
    }
    let _ = shell.wait();
    await_end(|| place.state(USER) == Mounted::No);
    place.mount(USER).expect("mounted again");
}

fn a_holder_ends_with_its_state_directory() {
    let place = Place::new();
    let Mounted::InNamespace { pid } = place.mount(USER).expect("mounted") else { panic!("no holder") };
    fs::rename(&place.layers.site.state, place.root().join("gone")).expect("renamed");
    await_end(|| sys::namespace::Process::of(pid).expect("known").is_none());
}

fn a_failure_of_the_holder_is_told() {
    let place = Place::new();
    fs::remove_dir_all(place.layers.base.files()).expect("removed");
    let refused = place.mount(USER).expect_err("it cannot work");
    assert!(matches!(refused, Error::Holder { .. }), "{refused}");
    assert!(refused.to_string().contains(&*place.layers.base.files().to_string_lossy()), "{refused}");
    assert!(refused.advice().expect("there is a way out").contains("base"));
    assert_eq!(place.state(USER), Mounted::No);
    let mut nothing = programs(place.root());
    let holder = nothing.holder.as_mut().expect("there is a holder");
    holder.args.clear();
    holder.program = "/bin/true".into();
    let refused = engine::workspace::backend::mount(USER, &place.layers, &nothing).expect_err("no holder");
    assert!(refused.to_string().contains("/bin/true"), "{refused}");
}

fn await_end(mut is_over: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + Duration::from_secs(120);
    while !is_over() {
        assert!(std::time::Instant::now() < end, "it does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}
