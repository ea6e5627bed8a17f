//! The service is killed before each program that it starts, and at any instant.

use std::{fs, path::PathBuf, thread, time::Duration};

use serde_json::json;
use tonic::{Code, Status};

use crate::scene::{Scene, names};

fn is_full() -> bool {
    std::env::var_os("SAPWOOD_TEST_FULL").is_some()
}

/// Repeats a call until it succeeds, with a new service after each kill.
fn until_done(scene: &Scene, mut call: impl FnMut() -> Result<(), Status>) -> bool {
    let mut was_killed = false;
    for _ in 0..20 {
        match call() {
            Ok(()) => return was_killed,
            Err(status) => {
                let may_pass =
                    [Code::Unavailable, Code::Unknown, Code::Cancelled, Code::Internal, Code::Aborted];
                assert!(may_pass.contains(&status.code()), "{status}\n{}", scene.log());
                scene.kill_at(0);
                scene.restart();
                was_killed = true;
            }
        }
    }
    panic!("it never passed\n{}", scene.log());
}

/// The texts of the files called `mine` in kept workspaces.
fn kept(scene: &Scene) -> Vec<String> {
    let mut found = Vec::new();
    for repository in names(&scene.dir.join("state/repositories")) {
        let all = scene.dir.join("state/repositories").join(repository).join("git/sapwood/workspaces");
        for workspace in if all.exists() { names(&all) } else { Vec::new() } {
            found.extend(fs::read_to_string(all.join(workspace).join("upper/mine")));
        }
    }
    found.sort();
    found
}

#[test]
fn a_kill_before_each_step_of_a_volume_is_recovered() {
    let Some(scene) = Scene::start(&[]) else { return };
    let keep = [("unsaved", "keep")];
    let (mut expected, mut number, mut killed) = (Vec::new(), 1, 0);
    loop {
        let id = format!("v{number:02}");
        scene.kill_at(number);
        let published = until_done(&scene, || scene.publish(&id, &keep));
        let target = scene.target(&id);
        assert_eq!(scene.git_in(&target, &["status", "--porcelain"]), "", "kill {number}");
        fs::write(target.join("mine"), &id).expect("it can be written");
        expected.push(id.clone());
        scene.kill_at(number);
        let unpublished = until_done(&scene, || scene.unpublish(&id));
        scene.kill_at(0);
        scene.assert_empty();
        assert_eq!(kept(&scene), expected, "kill {number}");
        killed += usize::from(published) + usize::from(unpublished);
        if !published && !unpublished {
            break;
        }
        number += 1;
    }
    assert!(killed >= 6, "{killed} kills");
}

#[test]
fn a_kill_while_the_repository_is_made_is_recovered() {
    for number in 1..40 {
        let Some(scene) = Scene::start(&[]) else { return };
        scene.kill_at(number);
        let was_killed = until_done(&scene, || scene.publish("v1", &[]));
        scene.kill_at(0);
        let target = scene.target("v1");
        assert_eq!(scene.git_in(&target, &["status", "--porcelain"]), "", "kill {number}");
        scene.unpublish("v1").expect("it goes");
        scene.assert_empty();
        if !was_killed {
            assert!(number > 8, "{number} kills");
            return;
        }
    }
    panic!("the service starts too many programs");
}

#[test]
fn a_kill_at_any_instant_is_recovered() {
    let Some(scene) = Scene::start(&[]) else { return };
    let rounds = if is_full() { 200 } else { 16 };
    let mut expected = Vec::new();
    for round in 0..rounds {
        let id = format!("v{round:03}");
        let wait = Duration::from_millis(round * 7 % 120);
        let killed = |call: &(dyn Fn() -> Result<(), Status> + Sync)| {
            thread::scope(|scope| {
                let calling = scope.spawn(call);
                thread::sleep(wait);
                scene.restart();
                let _ = calling.join().expect("no panic");
            });
            until_done(&scene, call);
        };
        killed(&|| scene.publish(&id, &[("unsaved", "keep")]));
        let target = scene.target(&id);
        assert_eq!(scene.git_in(&target, &["status", "--porcelain"]), "", "round {round}");
        fs::write(target.join("mine"), &id).expect("it can be written");
        expected.push(id.clone());
        killed(&|| scene.unpublish(&id));
        scene.assert_empty();
        assert_eq!(kept(&scene), expected, "round {round}");
    }
}

#[test]
fn a_killed_call_of_the_plugin_is_repeated() {
    let Some(scene) = Scene::start(&[]) else { return };
    let call = |path: &str, document: &serde_json::Value| {
        let asked = scene.plugin(path, document);
        asked.map(drop).map_err(Status::unavailable)
    };
    for number in 1..40 {
        let name = format!("v{number}");
        let mut killed = false;
        let mut step = |call: &dyn Fn() -> Result<(), Status>| {
            scene.kill_at(number);
            killed |= until_done(&scene, call);
            scene.kill_at(0);
        };
        step(&|| scene.create(&name, &[]).map(drop).map_err(Status::unavailable));
        step(&|| call("VolumeDriver.Mount", &json!({"Name": name, "ID": "1"})));
        let path = scene.plugin("VolumeDriver.Path", &json!({"Name": name})).expect("an answer");
        let path = PathBuf::from(path["Mountpoint"].as_str().expect("a path"));
        fs::write(path.join("mine"), &name).expect("it can be written");
        step(&|| call("VolumeDriver.Unmount", &json!({"Name": name, "ID": "1"})));
        step(&|| match call("VolumeDriver.Remove", &json!({"Name": name})) {
            Err(status) if status.message().contains("no volume") => Ok(()),
            answer => answer,
        });
        scene.assert_empty();
        assert_eq!(kept(&scene).len(), number, "kill {number}");
        if !killed {
            return;
        }
    }
    panic!("the service starts too many programs");
}
