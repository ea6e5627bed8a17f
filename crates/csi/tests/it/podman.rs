//! Podman with the plugin: a container whose volume is a worktree.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::scene::{Scene, names};

/// An image without files. Podman does not end the use of a volume by a container without an image.
const IMAGE: &str = "localhost/empty";

/// The directories of the machine that a container reads.
const SYSTEM: [&str; 4] = ["/usr", "/bin", "/lib", "/lib64"];

/// Runs podman with the plugin of a scene. Its own files lie in the scene.
fn podman(scene: &Scene, args: &[&str]) -> Output {
    let own = scene.dir.join("podman");
    fs::create_dir_all(&own).expect("a directory");
    let settings = format!(
        "[engine]\ncgroup_manager = \"cgroupfs\"\nruntime = \"runc\"\n[engine.volume_plugins]\nsapwood = \"{}\"\n",
        scene.dir.join("plugin.sock").display()
    );
    fs::write(own.join("containers.conf"), settings).expect("a file");
    let mut podman = Command::new("podman");
    podman.env("CONTAINERS_CONF", own.join("containers.conf"));
    podman.arg("--root").arg(own.join("storage")).arg("--runroot").arg(own.join("run"));
    podman.arg("--tmpdir").arg(own.join("tmp")).args(args).output().expect("podman runs")
}

/// Runs a shell in a new container that has `mount` at `/volume`.
fn run(scene: &Scene, mount: &str, script: &str) -> Output {
    let mount = format!("{mount},dst=/volume");
    let limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096"];
    let mut args = vec!["run", "--rm", "--network", "none", "--security-opt", "label=disable"];
    args.extend(limits);
    let oracle = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "/usr/bin/git".to_owned());
    let oracle = Path::new(&oracle).canonicalize().expect("Git");
    let oracle = oracle.ancestors().nth(2).expect("its directory").display().to_string();
    let shown: Vec<String> = SYSTEM
        .iter()
        .filter(|dir| Path::new(dir).exists())
        .map(|dir| (*dir).to_owned())
        .chain([oracle.clone()])
        .map(|dir| format!("{dir}:{dir}:ro"))
        .collect();
    args.extend(shown.iter().flat_map(|dir| ["--volume", dir.as_str()]));
    let path = format!("PATH={oracle}/bin:/usr/bin:/bin");
    let programs = format!("GIT_EXEC_PATH={oracle}/libexec/git-core");
    args.extend(["--env", &path, "--env", "HOME=/nowhere", "--env", "GIT_CONFIG_COUNT=2"]);
    if Path::new(&format!("{oracle}/libexec/git-core")).exists() {
        args.extend(["--env", &programs]);
    }
    args.extend(["--env", "GIT_CONFIG_KEY_0=user.name", "--env", "GIT_CONFIG_VALUE_0=me"]);
    args.extend(["--env", "GIT_CONFIG_KEY_1=user.email", "--env", "GIT_CONFIG_VALUE_1=me@example.com"]);
    args.extend(["--mount", &mount, "--workdir", "/volume", IMAGE, "sh", "-euc", script]);
    podman(scene, &args)
}

fn text(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_container_of_podman_works_in_a_volume() {
    if !testkit::has_program("podman") || !testkit::has_program("runc") {
        return;
    }
    let Some(scene) = Scene::start(&[]) else { return };
    // An archive ends in blocks of zeros.
    let archive = scene.dir.join("empty.tar").display().to_string();
    fs::write(&archive, [0; 10240]).expect("a file");
    let _ = podman(&scene, &["import", "--quiet", &archive, IMAGE]);
    let nothing = run(&scene, "type=tmpfs", "true");
    if !nothing.status.success() {
        println!("skipped: podman does not work here: {}", String::from_utf8_lossy(&nothing.stderr));
        return;
    }
    let address = format!("repo={}", scene.address());
    let create = ["volume", "create", "--driver", "sapwood", "-o", &address, "-o", "commit=main", "app"];
    assert_eq!(text(&podman(&scene, &create)).trim(), "app");
    assert!(text(&podman(&scene, &["volume", "ls"])).contains("sapwood"));

    let mount = "type=volume,src=app";
    let script =
        "cat file; git status --porcelain; echo mine >file; git commit -q -a -m mine; git log --format=%s";
    assert_eq!(text(&run(&scene, mount, script)), "3\nmine\ncommit 3\ncommit 2\ncommit 1\n");
    assert_eq!(scene.mounts(), Vec::<PathBuf>::new(), "no container uses it");
    // The next container sees what the first one did.
    assert_eq!(text(&run(&scene, mount, "cat file; echo new >new")), "mine\n");

    text(&podman(&scene, &["volume", "rm", "app"]));
    assert_eq!(names(&scene.dir.join("state/kept")).len(), 1, "the commit is nowhere else");
    scene.assert_empty();
}
