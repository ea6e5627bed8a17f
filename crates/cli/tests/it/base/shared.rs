//! Shared base directories that belong to others, or lie where nothing may be written.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use testkit::{
    Repo, Run,
    disk::{as_ordinary_user, give_to_ordinary_user, ordinary_user_reaches},
};

use super::{FILES, Fleet, base_done, files_below};
use crate::SAPWOOD;

/// Pulls the base of HEAD and makes a workspace of it. `run` runs sapwood at the host. No content
/// is copied: the base directory of the host stays small.
#[track_caller]
fn used_in_place(fleet: &Fleet, host: &str, remote: &str, run: &dyn Fn(&[&str]) -> Run) {
    let commit = fleet.commit("HEAD");
    let done = |args: &[&str]| {
        let run = run(args);
        assert_eq!(run.code, 0, "{args:?}: {}{}", run.stdout, run.stderr);
        run.stdout
    };
    done(&["base", "pull", "-q", remote, &commit]);
    done(&["workspace", "create", "-q", "-d", "one", &commit]);
    let files = done(&["workspace", "exec", "one", "--", "sh", "-ec", FILES]);
    assert_eq!(files, fleet.checkout(&commit));
    done(&["workspace", "remove", "one"]);
    let blobs = files_below(&fleet.bases(host).join("blobs"));
    let room: u64 = blobs.iter().map(|file| file.metadata().expect("a file").len()).sum();
    assert!(room < 100_000, "{room} bytes were copied");
}

fn is_root() -> bool {
    as_ordinary_user(&mut Command::new("true")).status().is_ok_and(|status| status.success())
}

fn at<'a>(repo: &'a Repo<'_>) -> impl Fn(&[&str]) -> Run + 'a {
    |args| repo.run(SAPWOOD.as_ref(), args)
}

#[test]
fn a_directory_on_a_read_only_mount() {
    if !is_root() {
        return;
    }
    let fleet = Fleet::new();
    base_done(&fleet.origin(), &["push", "-q", &fleet.remote()]);
    let sealed = fleet.dir().with_file_name("sealed");
    fs::create_dir(&sealed).expect("a new directory");
    let mount = |args: &[&str]| {
        let status = Command::new("mount").args(args).args([&fleet.dir(), &sealed]).status();
        assert!(status.expect("mount runs").success());
    };
    mount(&["--bind", "-o", "ro"]);
    assert!(fs::write(sealed.join("x"), "").is_err(), "it can be written");
    let before = files_below(&fleet.dir());
    let remote = format!("file://{}", sealed.display());
    used_in_place(&fleet, "host", &remote, &at(&fleet.host("host")));
    assert_eq!(files_below(&fleet.dir()), before);
}

#[test]
fn a_directory_of_another_user() {
    if !is_root() {
        return;
    }
    let fleet = Fleet::new();
    base_done(&fleet.origin(), &["push", "-q", &fleet.remote()]);
    give_to_ordinary_user(&fleet.dir());
    let host = fleet.host("host");
    // The other user could change the files of a workspace, so their contents are copied.
    let pulled = host.run(SAPWOOD.as_ref(), &["base", "pull", "-q", &fleet.remote(), &fleet.commit("HEAD")]);
    assert_eq!(pulled.code, 0, "{}", pulled.stderr);
    let said = pulled.stderr.to_string();
    assert!(said.contains("detected dubious ownership") && said.contains("contents are copied"), "{said}");
    assert!(!fleet.bases("host").join("alternates").exists(), "{said}");
    // A user who trusts the owner says so.
    let trusting = fleet.host("trusting");
    let declared = format!("safe.directory={}/bases", fleet.dir().display());
    used_in_place(&fleet, "trusting", &fleet.remote(), &|args| {
        trusting.run(SAPWOOD.as_ref(), &[&["-c", &declared], args].concat())
    });
}

#[test]
fn a_user_who_may_only_read() {
    if !is_root() {
        return;
    }
    let fleet = Fleet::new();
    base_done(&fleet.origin(), &["push", "-q", &fleet.remote()]);
    let host = fleet.host("host");
    let sapwood = fleet.sandbox.path().join("bin/sapwood");
    fs::create_dir_all(sapwood.parent().expect("it has one")).expect("a new directory");
    testkit::copy_program(SAPWOOD.as_ref(), &sapwood);
    fs::create_dir_all(fleet.bases("host")).expect("a new directory");
    let home = fleet.sandbox.path().join("home");
    fs::create_dir_all(&home).expect("a directory");
    for dir in [&host.path, &fleet.bases("host"), &home] {
        give_to_ordinary_user(dir);
    }
    let open = |dir: &Path| fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).expect("set");
    open(fleet.dir().parent().expect("a directory"));
    // Workspaces lie beside the repository.
    fs::set_permissions(fleet.sandbox.path(), fs::Permissions::from_mode(0o1777)).expect("set");
    if ![&sapwood, &fleet.dir()].into_iter().all(|path| ordinary_user_reaches(path)) {
        println!("skipped: an ordinary user cannot reach the directories of tests");
        return;
    }
    let before = files_below(&fleet.dir());
    let run = |args: &[&str]| {
        let mut command = host.command(&sapwood);
        let output = as_ordinary_user(command.args(args)).output().expect("it runs");
        Run {
            code: output.status.code().unwrap_or(-1),
            stdout: output.stdout.into(),
            stderr: output.stderr.into(),
        }
    };
    used_in_place(&fleet, "host", &fleet.remote(), &run);
    assert_eq!(files_below(&fleet.dir()), before);
}

/// A copy ends the dependence on a shared directory: the directory may go away.
#[test]
fn a_copy_ends_the_dependence_on_a_shared_directory() {
    let fleet = Fleet::new();
    let origin = fleet.origin();
    origin.git(&["config", "uploadpack.allowFilter", "true"]);
    base_done(&origin, &["push", "-q", &fleet.remote()]);
    let commit = fleet.commit("HEAD");
    let url = format!("file://{}", origin.path.display());
    let bases = format!("sapwood.baseDir={}", fleet.bases("clone").display());
    let repo = fleet.sandbox.repo("clone");
    let dir = repo.path.display().to_string();
    let words = ["clone", "-q", "-c", &bases, "--base", &fleet.remote(), &url, &dir];
    assert_eq!(origin.run(SAPWOOD.as_ref(), &words).code, 0);
    let alternates = || fs::read_to_string(fleet.bases("clone").join("alternates")).unwrap_or_default();
    assert!(alternates().contains("remote/bases"), "{}", alternates());

    // A workspace there still needs it.
    let create = repo.run(SAPWOOD.as_ref(), &["workspace", "create", "-q", "-d", "one", &commit]);
    assert_eq!(create.code, 0, "{}", create.stderr);
    let copy = ["base", "pull", "--copy", &fleet.remote(), &commit];
    let needed = repo.run(SAPWOOD.as_ref(), &copy);
    assert_eq!(needed.code, 1, "{}{}", needed.stdout, needed.stderr);
    assert!(needed.stderr.to_string().contains("still needs"), "{}", needed.stderr);
    assert!(alternates().contains("remote/bases"));
    assert_eq!(repo.run(SAPWOOD.as_ref(), &["workspace", "remove", "one"]).code, 0);

    let copied = repo.run(SAPWOOD.as_ref(), &copy);
    assert_eq!(copied.code, 0, "{}{}", copied.stdout, copied.stderr);
    assert_eq!(alternates(), "");
    let room: u64 = files_below(&fleet.bases("clone").join("blobs"))
        .iter()
        .map(|file| file.metadata().expect("a file").len())
        .sum();
    assert!(room > 3 << 20, "{room} bytes were copied");
    fs::rename(fleet.dir(), fleet.dir().with_extension("away")).expect("moved");
    fs::rename(&origin.path, origin.path.with_extension("away")).expect("moved");
    let create = repo.run(SAPWOOD.as_ref(), &["workspace", "create", "-q", "-d", "two", &commit]);
    assert_eq!(create.code, 0, "{}", create.stderr);
    let files = repo.run(SAPWOOD.as_ref(), &["workspace", "exec", "two", "--", "sh", "-ec", FILES]);
    assert_eq!(files.code, 0, "{}", files.stderr);
    assert_eq!(repo.run(SAPWOOD.as_ref(), &["workspace", "remove", "two"]).code, 0);
    assert_eq!(repo.git(&["show", "HEAD:many/40"]).stdout.to_string().lines().count(), 40);
}
