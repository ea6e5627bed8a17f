//! The plugin, called as Docker and Podman call it.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};

use crate::scene::{Scene, names};

fn mount(scene: &Scene, name: &str, id: &str) -> Result<PathBuf, String> {
    let answer = scene.plugin("VolumeDriver.Mount", &json!({"Name": name, "ID": id}))?;
    Ok(PathBuf::from(answer["Mountpoint"].as_str().expect("a path")))
}

fn unmount(scene: &Scene, name: &str, id: &str) -> Result<(), String> {
    scene.plugin("VolumeDriver.Unmount", &json!({"Name": name, "ID": id})).map(drop)
}

fn remove(scene: &Scene, name: &str) -> Result<(), String> {
    scene.plugin("VolumeDriver.Remove", &json!({"Name": name})).map(drop)
}

#[test]
fn a_volume_with_a_name_lives_until_it_is_removed() {
    let Some(scene) = Scene::start(&[]) else { return };
    let activated = scene.plugin("Plugin.Activate", &json!({})).expect("an answer");
    assert_eq!(activated["Implements"], json!(["VolumeDriver"]));
    let can = scene.plugin("VolumeDriver.Capabilities", &json!({})).expect("an answer");
    assert_eq!(can["Capabilities"]["Scope"], "local");

    scene.create("work", &[]).expect("it is made");
    scene.create("work", &[]).expect("it is there");
    assert!(scene.create("work", &[("commit", "topic")]).expect_err("other options").contains("exists"));
    let path = mount(&scene, "work", "container-1").expect("it is shown");
    assert_eq!(mount(&scene, "work", "container-2").expect("it is shown"), path);
    assert_eq!(mount(&scene, "work", "container-2").expect("again"), path);
    assert_eq!(scene.git_in(&path, &["status", "--porcelain"]), "");
    fs::write(path.join("mine"), "precious").expect("it can be written");

    let got = scene.plugin("VolumeDriver.Get", &json!({"Name": "work"})).expect("an answer");
    assert_eq!(got["Volume"]["Name"], "work");
    assert_eq!(got["Volume"]["Status"]["commit"], scene.commit("main").as_str());
    assert_eq!(got["Volume"]["Status"]["containers"], 2);
    let asked = scene.plugin("VolumeDriver.Path", &json!({"Name": "work"})).expect("an answer");
    assert_eq!(asked["Mountpoint"], path.display().to_string());
    let list = scene.plugin("VolumeDriver.List", &json!({})).expect("an answer");
    assert_eq!(list["Volumes"].as_array().map(Vec::len), Some(1));

    assert!(remove(&scene, "work").expect_err("two containers").contains("in use"));
    unmount(&scene, "work", "container-1").expect("one is left");
    assert!(path.join("mine").exists());
    unmount(&scene, "work", "container-2").expect("none is left");
    assert!(!path.join("mine").exists());
    assert_eq!(scene.mounts(), Vec::<PathBuf>::new());

    // The work is there for the next container, also after the service and the machine began again.
    scene.restart();
    mount(&scene, "work", "container-3").expect("it is shown");
    assert_eq!(fs::read_to_string(path.join("mine")).expect("a file"), "precious");
    testkit::NoMountsBelow::new(&scene.dir).reboot();
    mount(&scene, "work", "container-3").expect("it is shown");
    assert_eq!(fs::read_to_string(path.join("mine")).expect("a file"), "precious");
    unmount(&scene, "work", "container-3").expect("none is left");

    // Unsaved work is kept.
    remove(&scene, "work").expect("it goes");
    assert!(remove(&scene, "work").expect_err("it is gone").contains("no volume"));
    assert_eq!(names(&scene.dir.join("state/kept")).len(), 1);
    scene.assert_empty();
}

#[test]
fn wrong_calls_are_errors() {
    let Some(scene) = Scene::start(&[]) else { return };
    let wrong: &[(&str, Value)] = &[
        ("VolumeDriver.Create", json!({"Opts": {}})),
        ("VolumeDriver.Create", json!({"Name": "a"})),
        ("VolumeDriver.Create", json!({"Name": "a", "Opts": {"repo": "file:///nowhere", "commit": "main"}})),
        ("VolumeDriver.Create", json!({"Name": "a", "Opts": {"repo": "/etc", "commit": "main"}})),
        ("VolumeDriver.Create", json!({"Name": "a", "Opts": "repo"})),
        ("VolumeDriver.Mount", json!({"Name": "a", "ID": "1"})),
        ("VolumeDriver.Get", json!({"Name": "a"})),
        ("VolumeDriver.Path", json!({})),
        ("VolumeDriver.Shrink", json!({"Name": "a"})),
    ];
    for (path, document) in wrong {
        assert!(scene.plugin(path, document).is_err(), "{path} {document}");
    }
    assert!(scene.create("a", &[("commit", "nothing")]).expect_err("no branch").contains("no commit"));
    assert_eq!(scene.plugin("VolumeDriver.List", &json!({})).expect("an answer")["Volumes"], json!([]));
    scene.assert_empty();
}

#[test]
fn a_volume_without_changes_leaves_nothing() {
    let Some(scene) = Scene::start(&[]) else { return };
    scene.create("a", &[("sparse", "dir"), ("depth", "1")]).expect("it is made");
    scene.create("b", &[("unsaved", "discard")]).expect("it is made");
    let path = mount(&scene, "b", "1").expect("it is shown");
    fs::write(path.join("mine"), "x").expect("it can be written");
    unmount(&scene, "b", "1").expect("none is left");
    remove(&scene, "a").expect("it was never mounted");
    remove(&scene, "b").expect("its changes go");
    assert_eq!(names(&scene.dir.join("state/kept")), Vec::<String>::new());
    scene.assert_empty();
}
