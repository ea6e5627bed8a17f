//! `examples/kubernetes`: the artifact in a registry, unpacked like an image volume by a container
//! runtime, and the script of the init container on it.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
};

use testkit::servers::{Registry, RegistryAccess};

use super::{fixture::Fixture, yaml};
use crate::SAPWOOD;

/// The annotation under which a runtime places a layer.
const TITLE: &str = "org.opencontainers.image.title";

#[test]
fn the_init_container_makes_a_worktree_from_the_volume() {
    let fixture = Fixture::new();
    let registry = Registry::start(RegistryAccess::Open);
    let commit = fixture.tip();
    let remote = format!("oci://{}/bases/app", registry.address());
    let push = fixture.work().run(Path::new(SAPWOOD), &["base", "push", &remote, &commit]);
    assert_eq!(push.code, 0, "{}", push.stderr);

    let pod = yaml::read("kubernetes/pod.yaml");
    let reference = yaml::text(&pod["spec"]["volumes"][0]["image"]["reference"]);
    let tag = reference.rsplit(':').next().expect("a tag").replace("COMMIT", &commit);
    let volume = fixture.path().join("volume");
    lay_out(registry.address(), &tag, &volume);

    let container = &pod["spec"]["initContainers"][0];
    let (volume, job) = (volume.display().to_string(), fixture.path().join("job").display().to_string());
    let given = [
        ("COMMIT", &*commit),
        ("URL", &*fixture.url()),
        ("BASE", &*volume),
        ("WORK", &*job),
        ("CREDENTIALS", "/nonexistent/credentials"),
    ];
    let names = container["env"].as_vec().expect("a list").iter().map(|variable| &variable["name"]);
    let variables: Vec<(String, String)> = names
        .map(|name| {
            let known = given.iter().find(|(known, _)| name.as_str() == Some(known));
            let (name, value) = known.expect("the test knows each variable");
            ((*name).to_owned(), (*value).to_owned())
        })
        .collect();
    assert_eq!(yaml::lines(&container["command"]), ["sh", "-euc"]);
    fs::create_dir(&job).expect("an empty volume");
    let script = &yaml::lines(&container["args"])[0];
    fixture.run("pod", &variables, script);
    fixture.is_from_base(&fixture.sandbox.repo("job/app"), &commit);
    // The container is started again: after its end, and after its end was not noted.
    fixture.run("pod", &variables, script);
    fixture.is_from_base(&fixture.sandbox.repo("job/app"), &commit);
    confined(&pod);
}

/// Checks the rules that an operator looks for first.
fn confined(pod: &yaml_rust2::Yaml) {
    let spec = &pod["spec"];
    assert_eq!(spec["securityContext"]["runAsNonRoot"].as_bool(), Some(true));
    for container in [&spec["initContainers"][0], &spec["containers"][0]] {
        let name = container["name"].as_str().expect("a name");
        let security = &container["securityContext"];
        assert_eq!(security["allowPrivilegeEscalation"].as_bool(), Some(false), "{name}");
        assert_eq!(security["readOnlyRootFilesystem"].as_bool(), Some(true), "{name}");
        assert_eq!(yaml::lines(&security["capabilities"]["drop"]), ["ALL"], "{name}");
        assert!(!container["resources"]["limits"]["memory"].is_badvalue(), "{name}");
        assert!(yaml::text(&container["image"]).contains("@sha256:"), "{name}");
    }
}

/// Pulls an artifact with plain requests, and writes each layer under its title below `dir`.
fn lay_out(registry: SocketAddr, tag: &str, dir: &Path) {
    let manifest = get(registry, &format!("/v2/bases/app/manifests/{tag}"));
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).expect("a manifest");
    let layers = manifest["layers"].as_array().expect("a list");
    assert!(!layers.is_empty());
    for layer in layers {
        let title = layer["annotations"][TITLE].as_str().expect("each layer has a title");
        let digest = layer["digest"].as_str().expect("each layer has a digest");
        let file = dir.join(title);
        fs::create_dir_all(file.parent().expect("below the volume")).expect("a directory");
        let content = get(registry, &format!("/v2/bases/app/blobs/{digest}"));
        assert_eq!(content.len() as u64, layer["size"].as_u64().expect("each layer has a size"));
        fs::write(file, content).expect("a new file");
    }
}

/// Sends a request, and returns the body of the response.
fn get(registry: SocketAddr, path: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(registry).expect("the registry listens");
    let accept = "application/vnd.oci.image.manifest.v1+json, */*";
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {registry}\r\nAccept: {accept}\r\n\r\n").expect("it reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers");
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    assert!(head.starts_with("HTTP/1.0 200"), "{path}: {head}");
    answer.split_off(end + 4)
}
