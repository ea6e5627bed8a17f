//! The backend `image` for a user without privileges, by way of the mount service.

use std::{
    path::{Path, PathBuf},
    thread,
};

use testkit::{
    disk::ORDINARY,
    mount_service::{MountService, program_beside},
};

use super::{
    create::leftovers,
    ordinary::{UnprivilegedFixture, life},
};
use crate::SAPWOOD;

/// A place of the ordinary user, and a running service.
pub(super) fn served(options: &[&str]) -> Option<(MountService, UnprivilegedFixture)> {
    let owned = UnprivilegedFixture::new()?;
    let disk = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let service = MountService::start(&program_beside(SAPWOOD.as_ref()), disk, options);
    let socket = service.socket();
    owned.git(&["config", "sapwood.mountService", socket.to_str().expect("a plain name")]);
    Some((service, owned))
}

fn backend_of(owned: &UnprivilegedFixture, name: &str) -> String {
    let created = owned.done(&["create", name, "-b", name, "--json"]);
    let created: serde_json::Value = serde_json::from_str(&created).expect("JSON");
    created["backend"].as_str().expect("a name").to_owned()
}

/// Runs `sapwood workspace` as root, by sudo of the ordinary user.
fn as_root(owned: &UnprivilegedFixture, args: &[&str]) {
    let mut command = owned.place.repo().command(SAPWOOD.as_ref());
    let output = command.env("SUDO_UID", ORDINARY.to_string()).arg("workspace").args(args).output();
    let output = output.expect("it can be run");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn an_ordinary_user_gets_an_image() {
    let Some((mut service, owned)) = served(&[]) else { return };
    let created = owned.done(&["create", "one", "-b", "topic", "--json"]);
    let created: serde_json::Value = serde_json::from_str(&created).expect("JSON");
    assert_eq!(created["backend"], "image", "{created:#}");
    // Root sees the files too: they are mounted for every process.
    assert_eq!(owned.place.workspace("one").read("file"), "changed\n");
    assert_eq!(service.table().len(), 2, "the image and the overlay: {:?}", service.table());
    life(&owned, "one");
    assert_eq!(service.table(), Vec::<String>::new(), "{}", service.log());
    assert!(service.is_alive());
    let log = service.log();
    for what in ["mounted image", "mounted overlay", "ended"] {
        assert!(log.contains(&format!("user {ORDINARY}: {what}")), "{what}: {log}");
    }
}

#[test]
fn a_workspace_is_unmounted_and_mounted_again() {
    let Some((service, owned)) = served(&[]) else { return };
    assert_eq!(backend_of(&owned, "one"), "image");
    owned.inside("one", "echo more >>file; rm -r dir; mkdir dir; echo new >dir/new");
    let status = "$GIT status --porcelain -uall; test \"$($GIT status --porcelain)\" = \"$($SAPWOOD status --porcelain)\"";
    let before = owned.inside("one", status);
    assert_eq!(before, " D dir/deep/file\n D dir/empty\n M file\n?? dir/new\n");
    owned.done(&["unmount", "one"]);
    assert_eq!(service.table(), Vec::<String>::new(), "{}", service.log());
    owned.done(&["mount", "one"]);
    assert_eq!(owned.inside("one", status), before);
    // Root mounts it in the same form: what was deleted stays deleted.
    owned.done(&["unmount", "one"]);
    as_root(&owned, &["mount", "one"]);
    assert_eq!(service.table(), Vec::<String>::new(), "root needs no service");
    assert_eq!(owned.inside("one", status), before);
    as_root(&owned, &["unmount", "one"]);
    owned.done(&["mount", "one"]);
    owned.done(&["remove", "--force", "one"]);
    assert_eq!(leftovers(&owned.place), Vec::<PathBuf>::new());
}

#[test]
fn a_workspace_gets_another_base() {
    let Some((service, owned)) = served(&[]) else { return };
    assert_eq!(backend_of(&owned, "one"), "image");
    owned.inside(
        "one",
        "rm -r dir; mkdir dir; echo new >new; $GIT stash -qu; test -f dir/deep/file; test ! -e new",
    );
    owned.done(&["rebase", "one", "HEAD~1"]);
    assert_eq!(owned.inside("one", "cat file; $GIT status --porcelain"), "content\n");
    owned.done(&["remove", "--force", "one"]);
    assert_eq!(service.table(), Vec::<String>::new(), "{}", service.log());
}

#[test]
fn a_sealed_workspace_has_its_own_git_directory() {
    let Some((service, owned)) = served(&[]) else { return };
    owned.done(&["create", "one", "-b", "topic", "--sealed", "--backend", "image"]);
    owned.inside("one", "echo more >>file; $GIT commit -qam three; test -z \"$($GIT status --porcelain)\"");
    owned.done(&["land", "one"]);
    owned.done(&["remove", "--force", "one"]);
    assert_eq!(service.table(), Vec::<String>::new(), "{}", service.log());
}

#[test]
fn fifty_at_once() {
    let Some((service, owned)) = served(&[]) else { return };
    let name = |number: usize| format!("w{number}");
    assert_eq!(backend_of(&owned, "first"), "image");
    thread::scope(|scope| {
        for number in 0..50 {
            let owned = &owned;
            scope.spawn(move || assert_eq!(backend_of(owned, &name(number)), "image"));
        }
    });
    assert_eq!(service.table().len(), 52, "one image, and 51 overlays");
    thread::scope(|scope| {
        for number in 0..50 {
            let owned = &owned;
            scope.spawn(move || owned.done(&["remove", &name(number)]));
        }
    });
    owned.done(&["remove", "first"]);
    assert_eq!(service.table(), Vec::<String>::new(), "{}", service.log());
}

#[test]
fn without_the_service_the_reason_names_the_command() {
    let Some((service, owned)) = served(&[]) else { return };
    assert_eq!(backend_of(&owned, "one"), "image");
    drop(service);
    let doctor = owned.done(&["doctor"]);
    assert!(doctor.contains("systemctl enable --now sapwood-mountd.socket"), "{doctor}");
    let refused = owned.run(&["unmount", "one"]);
    assert_ne!(refused.code, 0, "{}", refused.stdout);
    let refused = owned.run(&["create", "two", "-b", "two", "--backend", "image"]);
    assert_ne!(refused.code, 0, "{}", refused.stdout);
}

#[test]
fn a_limit_is_an_error_that_leaves_nothing() {
    let Some((service, owned)) = served(&["--mounts", "2"]) else { return };
    assert_eq!(backend_of(&owned, "one"), "image");
    let refused = owned.run(&["create", "two", "-b", "two", "--backend", "image"]);
    assert_ne!(refused.code, 0, "{}", refused.stdout);
    assert!(refused.stderr.to_string().contains("too many mounts"), "{}", refused.stderr);
    assert_eq!(service.table().len(), 2);
    owned.done(&["remove", "one"]);
    assert_eq!(leftovers(&owned.place), Vec::<PathBuf>::new());
}

#[test]
fn what_a_deleted_repository_left_ends_by_the_configured_service() {
    let Some((service, owned)) = served(&[]) else { return };
    assert_eq!(backend_of(&owned, "one"), "image");
    assert_eq!(service.table().len(), 2, "the image and the overlay: {:?}", service.table());
    // Mount points cannot be removed.
    let bases = owned.place.bases().to_owned();
    let remove = format!("!rm -rf .git/worktrees .git/sapwood '{}' 2>/dev/null || true", bases.display());
    owned.git(&["-c", &format!("alias.away={remove}"), "away"]);
    // The orphans of other tests may belong to other users.
    let run = owned.run(&["gc", "--all"]);
    assert_eq!(service.table(), Vec::<String>::new(), "{}{}{}", run.stdout, run.stderr, service.log());
}
