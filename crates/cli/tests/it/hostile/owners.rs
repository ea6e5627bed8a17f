//! Repositories of another owner: CVE-2022-24765 (`safe.directory`), CVE-2024-32004 and
//! CVE-2024-32020.

use std::os::unix::fs::chown;

use testkit::Repo;

use super::{AttackDir, TreeEntry, everywhere, hook, source};

const OTHER: (&str, &str) = ("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1");

/// CVE-2022-24765: a `.git` of another owner above the current directory.
#[test]
fn refuses_a_repository_of_another_owner() {
    everywhere(|sandbox, field| {
        let hook = hook(sandbox);
        let url = source(sandbox, "source", &[("file", TreeEntry::File("1"))]);
        let prepare = |repo: &Repo<'_>| {
            repo.git(&["clone", "-q", "--shared", "--template=", &url, "work"]);
            repo.write_executable("work/.git/hooks/post-checkout", &hook);
            // The configuration of the repository itself is ignored.
            repo.git(&["-C", "work", "config", "safe.directory", "*"]);
            std::fs::create_dir(repo.join("work/dir")).expect("made");
        };
        for line in [
            &["-C", "work", "checkout", "evil"][..],
            &["-C", "work/dir", "checkout", "evil"],
            &["-C", "work", "switch", "evil"],
            &["-C", "work", "restore", "README"],
            &["-C", "work", "reset", "--hard", "origin/evil"],
            &["--git-dir=work/.git", "reset", "--soft", "origin/evil"],
        ] {
            let run = field.same_with(&[OTHER], line, prepare);
            let explicit = line[0].starts_with("--git-dir");
            assert_eq!(run.code, if explicit { 0 } else { 128 }, "{line:?}: {}", run.stderr);
        }
        declared(field, &url);
    });
}

/// The user's own configuration is read.
fn declared(field: &mut AttackDir<'_>, url: &str) {
    let prepare = |repo: &Repo<'_>| {
        repo.git(&["clone", "-q", "--shared", "--template=", url, "work"]);
    };
    for (value, code) in [("*", 0), ("/nowhere", 128), ("", 128)] {
        let setting = format!("safe.directory={value}");
        let line = ["-c", &setting, "-C", "work", "checkout", "-q", "evil"];
        let run = field.same_with(&[OTHER], &line, prepare);
        assert_eq!(run.code, code, "{line:?}: {}", run.stderr);
    }
}

/// The repository really belongs to another owner, if this process may change owners.
#[test]
fn refuses_a_repository_given_to_another_owner() {
    everywhere(|sandbox, field| {
        let url = source(sandbox, "source", &[("file", TreeEntry::File("1"))]);
        let given = |path: &std::path::Path| chown(path, Some(12345), Some(12345)).is_ok();
        let probe = sandbox.path().join("field/probe");
        std::fs::write(&probe, "").expect("written");
        let can = given(&probe) && {
            use std::os::unix::fs::MetadataExt as _;
            probe.metadata().expect("there").uid() == 12345
        };
        std::fs::remove_file(probe).expect("removed");
        if !can {
            println!("skipped: files cannot be given away here");
            return;
        }
        let run = field.same(&["-C", "work", "checkout", "evil"], |repo| {
            repo.git(&["clone", "-q", "--shared", "--template=", &url, "work"]);
            assert!(given(&repo.join("work")) && given(&repo.join("work/.git")));
        });
        assert_eq!(run.code, 128, "{}", run.stderr);
        // CVE-2024-32004 and CVE-2024-32020: the source of a clone, over any transport, or by
        // linking its objects.
        for line in [
            &["clone", "--template=", "given", "work"][..],
            &["clone", "--template=", "--bare", "given/.git", "work"],
            &["clone", "--template=", "--no-local", "given", "work"],
        ] {
            let run = field.same(line, |repo| {
                repo.git(&["clone", "-q", "--template=", &url, "given"]);
                assert!(given(&repo.join("given")) && given(&repo.join("given/.git")));
            });
            // With a server process the client does not check the owner.
            let expected = if line.contains(&"--no-local") { 0 } else { 128 };
            assert_eq!(run.code, expected, "{line:?}: {}", run.stderr);
        }
    });
}

/// Related to CVE-2022-24765: a bare repository inside of a worktree.
#[test]
fn refuses_a_bare_repository_in_a_worktree() {
    everywhere(|sandbox, field| {
        let url = source(sandbox, "source", &[("file", TreeEntry::File("1"))]);
        let line = ["-c", "safe.bareRepository=explicit", "-C", "bare", "reset", "--soft", "evil"];
        let run = field.same(&line, |repo| {
            repo.git(&["clone", "-q", "--shared", "--template=", "--bare", &url, "bare"]);
        });
        assert_eq!(run.code, 128, "{}", run.stderr);
    });
}
