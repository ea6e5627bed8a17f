//! Credentials: who gets them, who gets the files that they brought, and where they are seen.

use std::{collections::HashMap, fs, path::Path};

use csi::door::messages::Empty;
use testkit::servers::{Nginx, Sshd};
use tonic::{Code, Status};

use crate::scene::Scene;

fn publish(scene: &Scene, id: &str, address: &str, secrets: &[(&str, &str)]) -> Result<(), Status> {
    let mut request = scene.request(id, &[("repository", address)]);
    request.secrets = secrets
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect::<HashMap<_, _>>();
    scene.call("Node/NodePublishVolume", request).map(|_: Empty| ())
}

/// Returns the files below `dir` that contain `text`.
fn files_with(dir: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let facts = entry.file_type().expect("an entry");
        if facts.is_dir() {
            found.extend(files_with(&entry.path(), text));
        } else if facts.is_file() {
            let bytes = fs::read(entry.path()).unwrap_or_default();
            if bytes.windows(text.len()).any(|part| part == text.as_bytes()) {
                found.push(entry.path().display().to_string());
            }
        }
    }
    found
}

#[test]
fn a_repository_with_a_password_is_read_with_the_secret_of_the_pod() {
    let Some(scene) = Scene::start(&["--allow", "http://"]) else { return };
    let server = Nginx::start(&scene.sandbox.path());
    let address = server.url("auth/app");
    let right = [("username", Nginx::USER), ("password", Nginx::PASSWORD)];
    let wrong = [("username", Nginx::USER), ("password", "wrong word")];
    let refused = publish(&scene, "v0", &address, &wrong).expect_err("a wrong password");
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    assert!(!refused.message().contains("wrong word"), "{refused}");
    publish(&scene, "v1", &address, &right).unwrap_or_else(|error| panic!("{error}\n{}", scene.log()));
    assert_eq!(fs::read_to_string(scene.target("v1").join("file")).expect("a file"), "3\n");

    // The files are on the node now, and only those who may read the repository get them.
    for (id, secrets) in [("v2", &wrong[..]), ("v3", &[])] {
        let refused = publish(&scene, id, &address, secrets).expect_err("no right to read");
        assert_eq!(refused.code(), Code::Unavailable, "{refused}");
        assert!(!scene.target(id).join("file").exists());
    }
    assert_eq!(files_with(&scene.dir, Nginx::PASSWORD), Vec::<String>::new());
    assert_eq!(files_with(&scene.target("v1"), Nginx::PASSWORD), Vec::<String>::new());

    // Credentials that were accepted count for an hour, without a question.
    server.clear_requests();
    publish(&scene, "v4", &address, &right).expect("they are known");
    ["v1", "v4"].iter().for_each(|id| scene.unpublish(id).expect("it goes"));
    scene.assert_empty();
}

#[test]
fn a_key_for_ssh_is_a_file_while_it_is_used() {
    let Some(scene) = Scene::start(&["--allow", "ssh://"]) else { return };
    let Some(server) = Sshd::start(&scene.sandbox) else { return };
    let dir = scene.sandbox.path().join("sshd");
    let read =
        |name: &str| fs::read_to_string(dir.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let (key, host) = (read("key"), read("host.pub"));
    let hosts = format!("[127.0.0.1]:{} {host}", server.address().port());
    let address = server.url(&scene.app().path);
    let refused = publish(&scene, "v0", &address, &[("ssh-privatekey", &key)]).expect_err("no host is known");
    assert_eq!(refused.code(), Code::InvalidArgument);
    let secrets = [("ssh-privatekey", key.as_str()), ("known_hosts", hosts.as_str())];
    publish(&scene, "v1", &address, &secrets).unwrap_or_else(|error| panic!("{error}\n{}", scene.log()));
    assert_eq!(fs::read_to_string(scene.target("v1").join("file")).expect("a file"), "3\n");
    let line = key.lines().nth(3).expect("a key has many lines");
    assert_eq!(files_with(&scene.dir, line), Vec::<String>::new());
    scene.unpublish("v1").expect("it goes");
    scene.assert_empty();
}
