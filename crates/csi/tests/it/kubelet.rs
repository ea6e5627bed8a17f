//! The node service, called as a kubelet calls it.

use std::{
    fs,
    os::unix::{fs::MetadataExt as _, process::CommandExt as _},
    process::Command,
};

use csi::door::messages::{
    Empty, GetPluginInfoResponse, MountVolume, NodeGetCapabilitiesResponse, NodeGetInfoResponse,
    NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse, NodePublishVolumeRequest, ProbeResponse,
};
use testkit::disk::ORDINARY;
use tonic::Code;

use crate::scene::{Scene, names};

fn code(answer: Result<(), tonic::Status>) -> Code {
    answer.err().map_or(Code::Ok, |status| status.code())
}

#[test]
fn a_volume_is_a_clean_worktree_that_can_be_written() {
    let Some(scene) = Scene::start(&[]) else { return };
    let target = scene.published("v1", &[]);
    assert_eq!(fs::read_to_string(target.join("file")).expect("a file"), "3\n");
    assert_eq!(scene.git_in(&target, &["status", "--porcelain"]), "");
    assert_eq!(scene.git_in(&target, &["rev-parse", "HEAD"]).trim(), scene.commit("main"));
    assert_eq!(scene.git_in(&target, &["log", "--format=%s"]), "commit 3\ncommit 2\ncommit 1\n");
    assert_eq!(scene.git_in(&target, &["remote", "get-url", "origin"]).trim(), scene.address());

    // A change and a commit, and nothing outside of the directory is needed for them.
    fs::write(target.join("file"), "mine\n").expect("it can be written");
    scene.git_in(&target, &["checkout", "-q", "-b", "mine"]);
    scene.git_in(&target, &["commit", "-q", "-a", "-m", "mine"]);
    scene.git_in(&target, &["push", "-q", "origin", "mine"]);
    assert_eq!(scene.app().git(&["show", "mine:file"]).stdout, "mine\n");

    scene.unpublish("v1").expect("it goes");
    assert!(!target.exists());
    scene.assert_empty();
}

#[test]
fn each_call_is_idempotent() {
    let Some(scene) = Scene::start(&[]) else { return };
    let target = scene.published("v1", &[]);
    fs::write(target.join("mine"), "kept").expect("it can be written");
    scene.published("v1", &[]);
    assert_eq!(fs::read_to_string(target.join("mine")).expect("the second call changed nothing"), "kept");
    let topic = scene.publish("v1", &[("commit", "topic")]);
    assert_eq!(code(topic), Code::AlreadyExists);
    let mut elsewhere = scene.request("v1", &[]);
    elsewhere.target_path = scene.target("other").display().to_string();
    let elsewhere = scene.call("Node/NodePublishVolume", elsewhere).map(|_: Empty| ());
    assert_eq!(code(elsewhere), Code::FailedPrecondition);

    scene.unpublish("v1").expect("it goes");
    scene.unpublish("v1").expect("it is gone");
    scene.unpublish("never").expect("it was never there");
    // The id is free again, and the branch has moved since.
    scene.app().write("file", "4\n");
    scene.app().commit("commit 4");
    let target = scene.published("v1", &[]);
    assert_eq!(fs::read_to_string(target.join("file")).expect("a file"), "4\n");
    assert!(!target.join("mine").exists());
    scene.unpublish("v1").expect("it goes");
    scene.assert_empty();
}

#[test]
fn commits_have_ids_branches_and_tags() {
    let Some(scene) = Scene::start(&[]) else { return };
    let old = scene.commit("main~2");
    for (id, commit, expected) in [("a", "topic", "2\n"), ("b", "one", "1\n"), ("c", &old, "1\n")] {
        let target = scene.published(id, &[("commit", commit)]);
        assert_eq!(fs::read_to_string(target.join("file")).expect("a file"), expected, "{commit}");
    }
    // One repository served all.
    assert_eq!(names(&scene.dir.join("state/repositories")).len(), 1);
    let none = "0123456789012345678901234567890123456789";
    for commit in ["nothing", none] {
        assert_eq!(code(scene.publish("d", &[("commit", commit)])), Code::NotFound, "{commit}");
    }
    ["a", "b", "c", "d"].iter().for_each(|id| scene.unpublish(id).expect("it goes"));
    scene.assert_empty();
}

#[test]
fn wrong_requests_are_refused_and_leave_nothing() {
    let Some(scene) = Scene::start(&[]) else { return };
    let with = |change: fn(&mut NodePublishVolumeRequest)| {
        let mut request = scene.request("v1", &[]);
        change(&mut request);
        code(scene.call("Node/NodePublishVolume", request).map(|_: Empty| ()))
    };
    let wrong: &[fn(&mut NodePublishVolumeRequest)] = &[
        |request| request.volume_id.clear(),
        |request| request.target_path.clear(),
        |request| request.target_path = "relative".into(),
        |request| request.target_path.push_str("/../../etc"),
        |request| request.target_path.push_str("/no/such/parent"),
        |request| request.volume_capability = None,
        |request| request.volume_capability.as_mut().expect("set").mount = None,
        |request| request.volume_capability.as_mut().expect("set").access_mode = None,
        |request| {
            request.volume_capability.as_mut().expect("set").access_mode.as_mut().expect("set").mode = 5
        },
        |request| {
            let mount = MountVolume { mount_flags: vec!["suid".into()], ..MountVolume::default() };
            request.volume_capability.as_mut().expect("set").mount = Some(mount);
        },
        |request| drop(request.volume_context.remove("repository")),
        |request| drop(request.volume_context.remove("commit")),
        |request| drop(request.volume_context.insert("commit".into(), "--exec=id".into())),
        |request| drop(request.volume_context.insert("repository".into(), "/etc".into())),
        |request| drop(request.volume_context.insert("repository".into(), "ext::id".into())),
        |request| drop(request.volume_context.insert("repository".into(), "https://a:b@h/".into())),
        |request| drop(request.volume_context.insert("base".into(), "file:///srv".into())),
        |request| drop(request.volume_context.insert("color".into(), "red".into())),
        |request| drop(request.secrets.insert("color".into(), "red".into())),
    ];
    for (number, change) in wrong.iter().enumerate() {
        assert_eq!(with(*change), Code::InvalidArgument, "request {number}");
    }
    let gone = format!("{}-gone", scene.address());
    assert_eq!(code(scene.publish("v1", &[("repository", &gone)])), Code::Unavailable);
    assert_eq!(code(scene.publish("v1", &[("sparse", "../x")])), Code::InvalidArgument);
    scene.assert_empty();
    let unknown = scene.call("Node/NodeStageVolume", Empty {}).map(|_: Empty| ());
    assert_eq!(code(unknown), Code::Unimplemented);
}

#[test]
fn a_failure_leaves_nothing_of_a_new_volume() {
    let Some(scene) = Scene::start(&[]) else { return };
    // The workspace cannot be made.
    assert_eq!(code(scene.publish("v1", &[("quota", "much")])), Code::Internal);
    scene.assert_empty();
    // The workspace is made, and cannot be shown.
    fs::write(scene.target("v2"), "a file").expect("a new file");
    assert_eq!(code(scene.publish("v2", &[("unsaved", "keep")])), Code::Internal);
    fs::remove_file(scene.target("v2")).expect("it was left alone");
    scene.unpublish("v2").expect("it goes");
    scene.assert_empty();
    // A volume that was ready keeps its work.
    let target = scene.published("v3", &[]);
    fs::write(target.join("mine"), "precious").expect("it can be written");
    testkit::NoMountsBelow::new(&scene.dir).reboot();
    fs::remove_dir(&target).expect("nothing is mounted there");
    fs::write(&target, "a file").expect("a new file");
    assert_eq!(code(scene.publish("v3", &[])), Code::Internal);
    fs::remove_file(&target).expect("it was left alone");
    scene.published("v3", &[]);
    assert_eq!(fs::read_to_string(target.join("mine")).expect("a file"), "precious");

    // Without its record, nothing is known of a volume but the mount.
    let records = scene.dir.join("state/volumes");
    names(&records).iter().for_each(|name| fs::remove_file(records.join(name)).expect("a record"));
    scene.unpublish("v3").expect("its mount goes");
    assert!(!target.exists());
}

#[test]
fn a_readonly_volume_cannot_be_changed() {
    let Some(scene) = Scene::start(&[]) else { return };
    let mut request = scene.request("v1", &[]);
    request.readonly = true;
    for _ in 0..2 {
        let answer = scene.call("Node/NodePublishVolume", request.clone()).map(|_: Empty| ());
        assert_eq!(code(answer), Code::Ok, "{}", scene.log());
    }
    let target = scene.target("v1");
    assert_eq!(fs::read_to_string(target.join("file")).expect("a file"), "3\n");
    for path in ["file", "new", ".git/config", ".git/new"] {
        let error = fs::write(target.join(path), "x").expect_err(path);
        assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem, "{path}");
    }
    assert_eq!(scene.git_in(&target, &["--no-optional-locks", "status", "--porcelain"]), "");
    scene.unpublish("v1").expect("it goes");
    scene.assert_empty();
}

#[test]
fn files_belong_to_the_user_of_the_volume() {
    let Some(scene) = Scene::start(&[]) else { return };
    let id = ORDINARY.to_string();
    let target = scene.published("v1", &[("uid", &id), ("unsaved", "keep")]);
    for path in ["", "file", "dir", "bin/run", ".git", ".git/HEAD", ".git/config"] {
        let facts = target.join(path).symlink_metadata().expect("it is there");
        assert_eq!((facts.uid(), facts.gid()), (ORDINARY, ORDINARY), "{path}");
    }
    // The processes of a pod have no capability.
    let script = "echo mine >file && git add file && git commit -q -m mine && git status --porcelain";
    let mut pod = scene.app().command("/bin/sh".as_ref());
    pod.args(["-euc", script]).current_dir(&target).uid(ORDINARY).gid(ORDINARY);
    pod.env("HOME", "/nonexistent").env_remove("XDG_CONFIG_HOME").env_remove("GIT_CEILING_DIRECTORIES");
    let output = pod.output().expect("a shell");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.stdout, b"");
    // Root's volumes of the same repository have a repository of their own.
    scene.published("v2", &[]);
    assert_eq!(names(&scene.dir.join("state/repositories")).len(), 2);
    scene.unpublish("v2").expect("it goes");
    scene.unpublish("v1").expect("it is kept");
    assert_eq!(names(&scene.dir.join("state/kept")).len(), 1, "the commit is nowhere else");
    scene.assert_empty();
}

#[test]
fn unsaved_work_is_kept_if_asked() {
    let Some(scene) = Scene::start(&[]) else { return };
    let keep = [("unsaved", "keep")];
    let target = scene.published("clean", &keep);
    assert!(target.join("file").exists());
    scene.unpublish("clean").expect("it goes");
    assert_eq!(names(&scene.dir.join("state/kept")), Vec::<String>::new());

    let target = scene.published("dirty", &keep);
    fs::write(target.join("mine"), "precious").expect("it can be written");
    scene.unpublish("dirty").expect("it is kept");
    scene.unpublish("dirty").expect("it is gone from its target");
    scene.assert_empty();
    let kept = names(&scene.dir.join("state/kept"));
    let name = kept[0].strip_suffix(".json").expect("the record of a volume").to_owned();

    // The documented way back.
    let repository = names(&scene.dir.join("state/repositories")).pop().expect("one");
    let git_dir = scene.dir.join("state/repositories").join(repository).join("git");
    for command in ["thaw", "mount"] {
        let mut sapwood = Command::new(crate::scene::sapwood());
        let output = sapwood.arg("-C").arg(&git_dir).args(["workspace", command, &name]).output();
        let output = output.expect("sapwood runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let shown = scene.dir.join("state/workspaces").join(&name).join("mine");
    assert_eq!(fs::read_to_string(shown).expect("it was kept"), "precious");

    // A new volume with the same id is another one.
    let target = scene.published("dirty", &keep);
    assert!(!target.join("mine").exists());
    scene.unpublish("dirty").expect("it goes");
}

#[test]
fn a_sparse_volume_has_its_directories_and_a_shallow_one_its_depth() {
    let Some(scene) = Scene::start(&[]) else { return };
    let target = scene.published("v1", &[("sparse", "dir"), ("depth", "1")]);
    assert!(target.join("dir/3").exists() && target.join("file").exists());
    assert!(!target.join("bin").exists());
    assert_eq!(scene.git_in(&target, &["log", "--format=%s"]), "commit 3\n");
    assert_eq!(scene.git_in(&target, &["status", "--porcelain"]), "");
    // Other volumes of the commit have as much history as they want.
    for (id, attributes, commits) in [("v2", &[("depth", "2")][..], 2), ("v3", &[], 3)] {
        let target = scene.published(id, attributes);
        assert_eq!(scene.git_in(&target, &["log", "--format=%s"]).lines().count(), commits);
        scene.unpublish(id).expect("it goes");
    }
    scene.unpublish("v1").expect("it goes");
    scene.assert_empty();
}

#[test]
fn objects_are_shared_only_if_the_node_says_so() {
    for (options, links) in [(&["--objects", "apart"][..], 1), (&["--objects", "link"], 2)] {
        let Some(scene) = Scene::start(options) else { return };
        let target = scene.published("v1", &[]);
        let objects = target.join(".git/objects");
        let dirs = names(&objects).into_iter().filter(|name| name.len() == 2 || name == "pack");
        let files: Vec<_> = dirs
            .flat_map(|dir| names(&objects.join(&dir)).into_iter().map(move |name| format!("{dir}/{name}")))
            .collect();
        assert!(!files.is_empty());
        for file in files {
            let facts = objects.join(&file).metadata().expect("an object");
            // A clone of a file is a file of its own.
            assert!(facts.nlink() == links || links == 2 && facts.nlink() == 1, "{file}: {}", facts.nlink());
        }
        scene.unpublish("v1").expect("it goes");
        scene.assert_empty();
    }
}

#[test]
fn a_base_brings_the_files() {
    let Some(scene) = Scene::start(&["--allow", "file:///", "--allow-base", "file:///"]) else { return };
    let remote = format!("file://{}/bases", scene.dir.display());
    let mut push = scene.app().command(&crate::scene::sapwood());
    let output = push.args(["base", "push", &remote, "main"]).output().expect("sapwood runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let target = scene.published("v1", &[("base", &remote), ("unsaved", "keep")]);
    assert_eq!(fs::read_to_string(target.join("dir/3")).expect("a file"), "3\n3\n3\n");
    assert_eq!(scene.git_in(&target, &["status", "--porcelain"]), "");
    assert_eq!(scene.git_in(&target, &["log", "--format=%s"]), "commit 3\n", "the base has one commit");
    // A remote without the base is no failure.
    scene.published("v2", &[("base", &remote), ("commit", "topic")]);
    assert!(scene.log().contains("the server is asked"));
    scene.unpublish("v1").expect("it goes");
    scene.unpublish("v2").expect("it goes");
    assert_eq!(names(&scene.dir.join("state/kept")), Vec::<String>::new(), "nothing was unsaved");
    scene.assert_empty();
}

#[test]
fn a_volume_outlives_a_reboot_of_the_node() {
    let Some(scene) = Scene::start(&[]) else { return };
    let target = scene.published("v1", &[]);
    fs::write(target.join("mine"), "precious").expect("it can be written");
    testkit::NoMountsBelow::new(&scene.dir).reboot();
    scene.restart();
    scene.published("v1", &[]);
    assert_eq!(fs::read_to_string(target.join("mine")).expect("a file"), "precious");
    scene.unpublish("v1").expect("it goes");
    scene.assert_empty();
}

#[test]
fn a_new_container_of_the_driver_finds_the_mounts_of_the_last_one() {
    let Some(scene) = Scene::start_contained() else { return };
    let mut request = scene.request("v2", &[]);
    request.readonly = true;
    let target = scene.published("v1", &[("unsaved", "keep")]);
    let answer = scene.call("Node/NodePublishVolume", request).map(|_: Empty| ());
    assert_eq!(code(answer), Code::Ok, "{}", scene.log());
    // The node sees the mounts, and so do containers.
    fs::write(target.join("mine"), "precious").expect("it can be written");
    assert_eq!(scene.git_in(&target, &["status", "--porcelain"]), "?? mine\n");
    let error = fs::write(scene.target("v2").join("mine"), "x").expect_err("it is read-only");
    assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);

    scene.restart();
    scene.published("v1", &[("unsaved", "keep")]);
    scene.published("v3", &[]);
    assert_eq!(fs::read_to_string(target.join("mine")).expect("a file"), "precious");
    // The end of one volume leaves the others alone.
    scene.unpublish("v2").expect("it goes");
    assert_eq!(scene.git_in(&target, &["status", "--porcelain"]), "?? mine\n");
    scene.restart();
    ["v1", "v3"].iter().for_each(|id| scene.unpublish(id).unwrap_or_else(|error| panic!("{id}: {error}")));
    assert_eq!(names(&scene.dir.join("state/kept")).len(), 1);
    scene.assert_empty();
}

#[test]
fn the_service_describes_itself_and_its_volumes() {
    let Some(scene) = Scene::start(&[]) else { return };
    let info: GetPluginInfoResponse = scene.call("Identity/GetPluginInfo", Empty {}).expect("an answer");
    assert_eq!(info.name, csi::door::node::NAME);
    let probe: ProbeResponse = scene.call("Identity/Probe", Empty {}).expect("an answer");
    assert!(probe.ready.is_some_and(|ready| ready.value));
    let node: NodeGetInfoResponse = scene.call("Node/NodeGetInfo", Empty {}).expect("an answer");
    assert_eq!(node.node_id, "node-1");
    let can: NodeGetCapabilitiesResponse =
        scene.call("Node/NodeGetCapabilities", Empty {}).expect("an answer");
    assert_eq!(can.capabilities.len(), 1);

    let target = scene.published("v1", &[]);
    let ask = |id: &str, path: &str| -> Result<NodeGetVolumeStatsResponse, tonic::Status> {
        let request = NodeGetVolumeStatsRequest { volume_id: id.into(), volume_path: path.into() };
        scene.call("Node/NodeGetVolumeStats", request)
    };
    let path = target.display().to_string();
    let usage = ask("v1", &path).expect("an answer").usage;
    assert!(usage.len() == 2 && usage.iter().all(|part| part.total >= part.used && part.total > 0));
    assert_eq!(ask("v1", "/elsewhere").expect_err("not there").code(), Code::NotFound);
    assert_eq!(ask("v2", &path).expect_err("no volume").code(), Code::NotFound);
    assert_eq!(ask("", &path).expect_err("no id").code(), Code::InvalidArgument);
    scene.unpublish("v1").expect("it goes");
}

#[test]
fn repositories_without_volumes_go_when_the_budget_is_spent() {
    let Some(scene) = Scene::start(&["--budget", "0"]) else { return };
    let target = scene.published("v1", &[]);
    // A start looks at the budget.
    scene.restart();
    wait_until(|| scene.log().is_empty());
    assert!(target.join("file").exists(), "it is in use");
    scene.unpublish("v1").expect("it goes");
    scene.restart();
    wait_until(|| names(&scene.dir.join("state/repositories")).is_empty());
    assert_eq!(testkit::disk::mounts_below(&scene.dir), Vec::<std::path::PathBuf>::new());
    wait_until(|| names(&scene.dir.join("state/trash")).is_empty());
    // It comes again when a volume needs it.
    scene.published("v2", &[]);
    scene.unpublish("v2").expect("it goes");
    scene.assert_empty();
}

/// Waits for something that happens in the background.
fn wait_until(happened: impl Fn() -> bool) {
    for _ in 0..600 {
        if happened() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("it did not happen");
}

#[test]
fn a_second_service_leaves_the_directory_alone() {
    let Some(scene) = Scene::start(&[]) else { return };
    let mut second = Command::new(env!("CARGO_BIN_EXE_sapwood-csi"));
    second.arg("--state").arg(scene.dir.join("state")).arg("--run").arg(scene.dir.join("run"));
    let output = second.arg("--csi").arg(scene.dir.join("csi.sock")).output().expect("it runs");
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("another service uses it"));
    scene.published("v1", &[]);
    scene.unpublish("v1").expect("the socket is still that of the first");
}

#[test]
fn options_of_the_command_line_are_checked() {
    let run = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_sapwood-csi")).args(args).output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(run(&["--version"]).0, Some(0));
    assert_eq!(run(&["--help"]).0, Some(0));
    for wrong in [&["--colour", "red"][..], &["--csi"], &["--allow", "https://h"], &["--budget", "x"], &[]] {
        let (code, said) = run(wrong);
        assert_eq!(code, Some(1), "{wrong:?}");
        assert!(said.contains("usage: sapwood-csi"), "{said}");
    }
}
