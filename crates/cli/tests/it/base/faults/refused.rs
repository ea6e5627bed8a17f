//! Requests that cannot be met: wrong addresses, names, rights and repositories.

use std::{fs, os::unix::fs::PermissionsExt as _};

use testkit::{
    disk::{as_ordinary_user, give_to_ordinary_user, ordinary_user_reaches},
    servers::Nginx,
};

use super::{
    super::{Fleet, base, base_done},
    Case, play,
    scene::Scene,
};
use crate::SAPWOOD;

const CASES: &[Case] = &[
    ("an unknown scheme", |scene| {
        let run = base(&scene.host(), &["pull", "gopher://x/y", &scene.head()]);
        scene.refused(&run, 128, &["bad address", "gopher://x/y", "expected s3://"]);
    }),
    ("a directory that is not there", |scene| {
        let run = base(&scene.host(), &["pull", "file:///missing/dir", &scene.head()]);
        scene.refused(&run, 128, &["/missing/dir"]);
    }),
    ("no remote at all", |scene| {
        let run = base(&scene.host(), &["pull"]);
        scene.refused(&run, 128, &["name a remote"]);
    }),
    ("a commit that nobody has", |scene| {
        let id = "1".repeat(40);
        let run = base(&scene.host(), &["pull", &scene.remote(), &id]);
        scene.refused(&run, 128, &["has no base of commit", &id]);
        let run = base(&scene.host(), &["pull", &scene.remote(), "nonsense"]);
        scene.refused(&run, 128, &["nonsense"]);
        let run = base(&scene.host(), &["pull", &scene.remote()]);
        scene.refused(&run, 128, &["HEAD has no commit"]);
        scene.recovers();
    }),
    ("a branch that nobody has", |scene| {
        let run = base(&scene.host(), &["pull", "--branch", "no/such", &scene.remote()]);
        scene.refused(&run, 128, &["has no base of branch 'no/such'"]);
    }),
    ("branches with hostile names stay among the branches", |scene| {
        let origin = scene.fleet.origin();
        for name in ["../../outside", "..", ".hidden", "a b\u{1b}[31m", "\u{fc}", &"x".repeat(200)] {
            base_done(&origin, &["push", "-q", "--no-mount", "--branch", name, &scene.remote()]);
            base_done(&scene.other_host(), &["pull", "-q", "--branch", name, &scene.remote()]);
        }
        assert_eq!(scene.fleet.stored("branches").len(), 7);
        assert!(
            !scene.fleet.dir().join("../outside").exists() && !scene.fleet.dir().join("outside").exists()
        );
    }),
    ("holders with hostile names stay among the leases", |scene| {
        let origin = scene.fleet.origin();
        for name in ["../../outside", "..", "a\nb", &"x".repeat(200)] {
            base_done(&origin, &["lease", "--holder", name, &scene.remote(), "HEAD", "1h"]);
        }
        assert_eq!(scene.fleet.stored("leases").len(), 4);
        assert!(
            !scene.fleet.dir().join("../outside").exists() && !scene.fleet.dir().join("outside").exists()
        );
        assert!(!base_done(&origin, &["list", &scene.remote()]).contains("a\nb"));
    }),
    ("a repository with other hashes", |scene| {
        let other = scene.fleet.sandbox.repo("sha256");
        fs::create_dir(&other.path).expect("created");
        other.git(&["init", "-q", "--object-format=sha256"]);
        let run = base(&other, &["pull", "--branch", "main", &scene.remote()]);
        assert_eq!(run.code, 128);
        assert!(run.stderr.to_string().contains("hashes"), "{}", run.stderr);
        other.write("file", "x");
        other.commit("one");
        // Both can live side by side.
        base_done(&other, &["push", "-q", "--no-mount", "--branch", "other", &scene.remote()]);
        scene.works();
    }),
    ("a remote that may not be written", |scene| {
        let Some(user) = UnprivilegedUser::at(scene) else { return };
        scene.change("three\n");
        let run = user.base(&scene.fleet.origin(), &["push", "-q", "--no-mount", &scene.remote()]);
        assert_eq!(run.code, 128, "{}", run.stderr);
        let said = run.stderr.to_string();
        assert!(said.contains("ermission denied") && said.contains("remote/"), "{said}");
        assert!(!scene.manifest(&scene.head()).exists());
        scene.push_works();
    }),
    ("a base directory that may not be written", |scene| {
        let host = scene.host();
        let Some(user) = UnprivilegedUser::at(scene) else { return };
        fs::create_dir_all(scene.host_bases()).expect("created");
        fs::set_permissions(scene.host_bases(), fs::Permissions::from_mode(0o755)).expect("set");
        let run = user.base(&host, &["pull", "-q", &scene.remote(), &scene.head()]);
        assert_eq!(run.code, 128, "{}", run.stderr);
        let said = run.stderr.to_string();
        assert!(said.contains("ermission denied") && said.contains("bases-host"), "{said}");
        scene.works();
    }),
    ("a file in the place of the base directory", |scene| {
        fs::write(scene.host_bases(), "x").expect("written");
        let run = scene.pull();
        assert_eq!(run.code, 128);
        assert!(run.stderr.to_string().contains("bases-host"), "{}", run.stderr);
        fs::remove_file(scene.host_bases()).expect("removed");
        scene.works();
    }),
    ("a web server is read only, and lists nothing", |scene| {
        let nginx = Nginx::start(&scene.fleet.dir());
        let web = nginx.url("files");
        let run = base(&scene.fleet.origin(), &["push", &web, "HEAD~1"]);
        assert_eq!(run.code, 128);
        assert!(run.stderr.to_string().contains("not possible"), "{}", run.stderr);
        let run = base(&scene.fleet.origin(), &["list", &web]);
        assert_eq!(run.code, 128);
        assert!(run.stderr.to_string().contains("not possible"), "{}", run.stderr);
        base_done(&scene.host(), &["pull", "-q", "--branch", "main", &web]);
        scene.fleet.works_at(&scene.host(), &scene.head());
    }),
    ("a web server that wants a password", |scene| {
        let nginx = Nginx::start(&scene.fleet.dir());
        let web = nginx.url("auth-files");
        let run = base(&scene.host(), &["pull", &web, &scene.head()]);
        scene.refused(&run, 128, &["access denied"]);
        let host = scene.host();
        let helper = format!("!printf 'username={}\\npassword=wrong\\n'; :", Nginx::USER);
        host.git(&["config", "credential.helper", &helper]);
        let run = base(&host, &["pull", &web, &scene.head()]);
        scene.refused(&run, 128, &["access denied"]);
        assert!(!run.stderr.to_string().contains("wrong"), "{}", run.stderr);
        let helper = format!("!printf 'username={}\\npassword={}\\n'; :", Nginx::USER, Nginx::PASSWORD);
        host.git(&["config", "credential.helper", &helper]);
        base_done(&host, &["pull", "-q", &web, &scene.head()]);
        scene.fleet.works_at(&host, &scene.head());
    }),
];

#[test]
fn refused_requests() {
    play(CASES);
}

/// SHA-256 repositories have bases too.
#[test]
fn a_sha256_repository() {
    let scene = Scene::of(Fleet::with(&["init", "-q", "-b", "main", "--object-format=sha256"]));
    scene.works();
    scene.change("three\n");
    scene.push_works();
}

/// A user without privileges, who may read the sandbox and write to nothing.
struct UnprivilegedUser {
    sapwood: std::path::PathBuf,
}

impl UnprivilegedUser {
    fn at(scene: &Scene) -> Option<UnprivilegedUser> {
        let sapwood = scene.fleet.sandbox.path().join("bin/sapwood");
        fs::create_dir_all(sapwood.parent().expect("it has one")).expect("a new directory");
        testkit::copy_program(SAPWOOD.as_ref(), &sapwood);
        // Root works in these repositories too.
        let settings = scene.fleet.sandbox.path().join("home/.gitconfig");
        fs::write(settings, "[safe]\n\tdirectory = *\n").expect("written");
        for dir in ["origin", "host1", "home"] {
            let dir = scene.fleet.sandbox.path().join(dir);
            if dir.exists() {
                give_to_ordinary_user(&dir);
            }
        }
        let open = |path: &std::path::Path| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("set");
        };
        open(&scene.fleet.sandbox.path());
        open(scene.fleet.dir().parent().expect("a directory"));
        if ![&sapwood, &scene.fleet.dir()].into_iter().all(|path| ordinary_user_reaches(path)) {
            println!("skipped: an ordinary user cannot reach the directories of tests");
            return None;
        }
        Some(UnprivilegedUser { sapwood })
    }

    fn base(&self, repo: &testkit::Repo<'_>, args: &[&str]) -> testkit::Run {
        let mut command = repo.command(&self.sapwood);
        command.arg("base").args(args);
        let output = as_ordinary_user(&mut command).output().expect("it runs");
        testkit::Run {
            code: output.status.code().unwrap_or(-1),
            stdout: output.stdout.into(),
            stderr: output.stderr.into(),
        }
    }
}
