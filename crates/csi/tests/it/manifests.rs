//! The manifests of `examples/` and the unit of the package name what the service has.

use std::{ffi::OsStr, fs, path::Path};

use csi::{Settings, Unsaved, Volume, door::node::NAME};
use yaml_rust2::{Yaml, YamlLoader};

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn yaml(path: &str) -> Vec<Yaml> {
    YamlLoader::load_from_str(&read(path)).expect("YAML")
}

/// Checks the options of a command line, and returns those that name sockets.
fn check_options<'a>(options: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<(&'a str, &'a str)> {
    let mut settings = Settings::default();
    let mut sockets = Vec::new();
    for (name, value) in options {
        if ["--csi", "--plugin"].contains(&name) {
            sockets.push((name, value));
        } else {
            assert!(settings.set(OsStr::new(name), value.into()), "{name} {value}");
        }
    }
    sockets
}

/// Reads the attributes of a volume.
fn volume(attributes: &Yaml) -> Volume {
    let pairs = attributes.as_hash().expect("attributes").iter();
    let text = |value: &Yaml| value.as_str().expect("a text, because others are refused").to_owned();
    let pairs: Vec<(String, String)> = pairs.map(|(key, value)| (text(key), text(value))).collect();
    let pairs = pairs.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    Volume::parse(pairs, Unsaved::Discard).expect("attributes")
}

#[test]
fn the_driver_is_installed_under_its_name() {
    let documents = yaml("examples/kubernetes/driver.yaml");
    let [driver, set] = documents.as_slice() else { panic!("two documents") };
    assert_eq!(driver["metadata"]["name"].as_str(), Some(NAME));
    assert_eq!(driver["spec"]["volumeLifecycleModes"][0].as_str(), Some("Ephemeral"));
    let containers = &set["spec"]["template"]["spec"]["containers"];
    let args = containers[0]["args"].as_vec().expect("options");
    let options = args.iter().map(|arg| arg.as_str().expect("a text").split_once('=').expect("a value"));
    assert_eq!(check_options(options), [("--csi", "/csi/csi.sock")]);
    // The kubelet finds the socket where the registrar says it is.
    let registrar = containers[1]["args"].as_vec().expect("options");
    let path = format!("--kubelet-registration-path=/var/lib/kubelet/plugins/{NAME}/csi.sock");
    assert!(registrar.iter().any(|arg| arg.as_str() == Some(&path)));
}

#[test]
fn the_volumes_of_the_examples_are_understood() {
    let pod = &yaml("examples/kubernetes/volume.yaml")[0];
    let inline = &pod["spec"]["volumes"][0]["csi"];
    assert_eq!(inline["driver"].as_str(), Some(NAME));
    let user = pod["spec"]["securityContext"]["runAsUser"].as_i64();
    assert_eq!(user, Some(volume(&inline["volumeAttributes"]).uid.into()));
    let compose = &yaml("examples/compose/compose.yaml")[0];
    assert_eq!(compose["volumes"]["app"]["driver"].as_str(), Some("sapwood"));
    assert_eq!(volume(&compose["volumes"]["app"]["driver_opts"]).uid, 1000);
    let editor: serde_json::Value =
        serde_json::from_str(&read("examples/compose/devcontainer.json")).expect("JSON");
    let mount = editor["workspaceMount"].as_str().expect("a mount");
    let options = mount.split(',').filter_map(|part| part.strip_prefix("volume-opt=")?.split_once('='));
    Volume::parse(options, Unsaved::Keep).expect("attributes");
}

#[test]
fn the_unit_starts_the_plugin() {
    let unit = read("packaging/systemd/system/sapwood-volumes.service");
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command");
    let words: Vec<&str> = line.split(' ').filter(|word| *word != "$OPTIONS").collect();
    assert_eq!(words[0], "/usr/lib/sapwood/sapwood-csi");
    let options = words[1..].chunks(2).map(|pair| (pair[0], pair[1]));
    assert_eq!(check_options(options), [("--plugin", "/run/docker/plugins/sapwood.sock")]);
}
