//! Local sources of a clone that try to expose the user's files or to run programs: CVE-2022-39253,
//! CVE-2023-22490, CVE-2024-32004, CVE-2024-32021.

use testkit::{Repo, Sandbox};

use super::{TreeEntry, everywhere, hook, source};

fn secret(sandbox: &Sandbox) -> String {
    sandbox.repo("").write("secret/key", "secret");
    sandbox.path().join("secret").display().to_string()
}

/// CVE-2022-39253 and CVE-2024-32021: links in the object directory that a clone would follow or
/// hard-link.
#[test]
fn refuses_links_among_the_objects() {
    everywhere(|sandbox, field| {
        let secret = secret(sandbox);
        let url = source(sandbox, "source", &[("file", TreeEntry::File("1"))]);
        let key = format!("{secret}/key");
        for (target, link) in
            [(&secret, "objects/zz"), (&key, "objects/info/x"), (&key, "objects/pack/p.idx")]
        {
            for options in [&[][..], &["--local"], &["--no-hardlinks"], &["--bare"], &["--no-local"]] {
                let line = [&["clone", "-q", "--template=", "given", "work"], options].concat();
                field.same(&line, |repo| {
                    repo.git(&["clone", "-q", "--template=", &url, "given"]);
                    repo.symlink(target, format!("given/.git/{link}"));
                });
            }
        }
    });
}

/// CVE-2022-39253 and CVE-2023-22490: the object directory itself is a link.
#[test]
fn refuses_a_link_as_the_object_directory() {
    everywhere(|sandbox, field| {
        let url = source(sandbox, "source", &[("file", TreeEntry::File("1"))]);
        for options in [&[][..], &["--no-hardlinks"], &["--no-local"]] {
            let line = [&["clone", "-q", "--template=", "given", "work"], options].concat();
            field.same(&line, |repo: &Repo<'_>| {
                repo.git(&["clone", "-q", "--template=", &url, "given"]);
                std::fs::rename(repo.join("given/.git/objects"), repo.join("objects")).expect("moved");
                repo.symlink("../../objects", "given/.git/objects");
            });
        }
    });
}

/// CVE-2024-32004: a source whose configuration and hooks would run programs while it is read.
#[test]
fn runs_no_program_of_the_source() {
    everywhere(|sandbox, field| {
        let hook = hook(sandbox);
        let url = source(sandbox, "source", &[("file", TreeEntry::File("1"))]);
        let pwned = format!("touch '{}'", sandbox.path().join("pwned").display());
        for options in [&[][..], &["--bare"], &["--no-hardlinks"]] {
            let line = [&["clone", "-q", "--template=", "given", "work"], options].concat();
            let run = field.same(&line, |repo: &Repo<'_>| {
                repo.git(&["clone", "-q", "--template=", &url, "given"]);
                let given = repo.join("given");
                let given = given.to_str().expect("a plain name");
                for name in ["core.fsmonitor", "uploadpack.packObjectsHook", "core.sshCommand", "core.pager"]
                {
                    repo.git(&["-C", given, "config", name, &pwned]);
                }
                for name in ["post-checkout", "reference-transaction", "post-index-change"] {
                    repo.write_executable(format!("given/.git/hooks/{name}"), &hook);
                }
            });
            assert_eq!(run.code, 0, "{}", run.stderr);
        }
    });
}
