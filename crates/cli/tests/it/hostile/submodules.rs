//! Submodules whose names or paths lead into the repository or into one another: CVE-2018-11235,
//! CVE-2019-1349, CVE-2019-1350, CVE-2019-1387, CVE-2024-32002, CVE-2025-48384.

use testkit::{Repo, Sandbox};

use super::{AttackDir, TreeEntry, everywhere, harmless_clone, hook, source};

/// Creates a repository that serves as a submodule and brings a hook to the paths that an attacker
/// needs. Returns its path and its commit.
fn submodule(sandbox: &Sandbox) -> (String, String) {
    let repo = sandbox.init("submodule");
    repo.write_executable("hooks/post-checkout", hook(sandbox));
    repo.write_executable("y/hooks/post-checkout", hook(sandbox));
    repo.write_executable("post-checkout", hook(sandbox));
    repo.commit("submodule");
    let commit = repo.git(&["rev-parse", "HEAD"]).stdout.to_string().trim().to_owned();
    (repo.path.display().to_string(), commit)
}

fn attack(field: &mut AttackDir<'_>, url: &str) {
    // Local submodules are allowed, so that no other check stops the attack.
    let allowed = &[("GIT_ALLOW_PROTOCOL", "file")];
    let clone = ["clone", "--template=", "-q", "-b", "evil", url, "work"];
    field.same_with(allowed, &[&clone[..], &["--recurse-submodules"]].concat(), |_| {});
    field.same_with(allowed, &clone, |_| {});
    for line in [
        &["-C", "work", "checkout", "-q", "--recurse-submodules", "origin/evil"][..],
        &["-C", "work", "checkout", "-q", "origin/evil"],
        &["-C", "work", "reset", "-q", "--hard", "origin/evil"],
    ] {
        field.same_with(allowed, line, |repo: &Repo<'_>| harmless_clone(repo, url));
    }
}

fn section(name: &str, path: &str, url: &str) -> String {
    format!("[submodule \"{name}\"]\n\tpath = {path}\n\turl = {url}\n")
}

/// CVE-2018-11235: the name leads out of `.git/modules` to a repository in the tree.
#[test]
fn refuses_a_name_that_leads_out_of_modules() {
    everywhere(|sandbox, field| {
        let (url, commit) = submodule(sandbox);
        let hook = hook(sandbox);
        let modules = section("../../evil", "sub", &url);
        let url = source(
            sandbox,
            "source",
            &[
                (".gitmodules", TreeEntry::File(&modules)),
                ("evil/HEAD", TreeEntry::File("ref: refs/heads/main\n")),
                ("evil/config", TreeEntry::File("[core]\n\trepositoryformatversion = 0\n")),
                ("evil/hooks/post-checkout", TreeEntry::Program(&hook)),
                ("evil/objects/info/packs", TreeEntry::File("\n")),
                ("evil/refs/heads/none", TreeEntry::File("\n")),
                ("sub", TreeEntry::Commit(&commit)),
            ],
        );
        attack(field, &url);
    });
}

/// CVE-2019-1387: the repository of one submodule lies within another's. CVE-2019-1349: two
/// submodules have one name.
#[test]
fn refuses_submodules_inside_one_another() {
    everywhere(|sandbox, field| {
        let (url, commit) = submodule(sandbox);
        for (number, (one, other)) in
            [("hippo", "hippo/hooks"), ("hippo", "HIPPO"), ("x/y", "x/Y/hooks")].into_iter().enumerate()
        {
            let modules = [section(one, "one", &url), section(other, "two", &url)].concat();
            let url = source(
                sandbox,
                &format!("source{number}"),
                &[
                    (".gitmodules", TreeEntry::File(&modules)),
                    ("one", TreeEntry::Commit(&commit)),
                    ("two", TreeEntry::Commit(&commit)),
                ],
            );
            attack(field, &url);
        }
    });
}

/// CVE-2019-1350: names with shell metacharacters as arguments of the processes that Git starts.
#[test]
fn quotes_names_with_shell_metacharacters() {
    everywhere(|sandbox, field| {
        let (url, commit) = submodule(sandbox);
        let modules = section("a 'b' $(touch pwned)", "su'b $(touch pwned)", &url);
        let url = source(
            sandbox,
            "source",
            &[
                (".gitmodules", TreeEntry::File(&modules)),
                ("su'b $(touch pwned)", TreeEntry::Commit(&commit)),
            ],
        );
        attack(field, &url);
    });
}

/// CVE-2024-32002: a submodule below a directory. On a case-insensitive file system the directory's
/// name is a link into the repository.
#[test]
fn refuses_a_submodule_behind_a_link_of_the_same_name() {
    everywhere(|sandbox, field| {
        let (url, commit) = submodule(sandbox);
        let modules = section("x/y", "A/modules/x", &url);
        let url = source(
            sandbox,
            "source",
            &[
                (".gitmodules", TreeEntry::File(&modules)),
                ("A/modules/x", TreeEntry::Commit(&commit)),
                ("a", TreeEntry::Link(".git")),
            ],
        );
        attack(field, &url);
    });
}

/// CVE-2025-48384: a carriage return at the end of a path, which a configuration file would lose.
#[test]
fn refuses_a_path_that_ends_in_a_carriage_return() {
    everywhere(|sandbox, field| {
        let (url, commit) = submodule(sandbox);
        let modules = format!("[submodule \"sub\"]\n\tpath = \"sub\r\"\n\turl = {url}\n");
        let url = source(
            sandbox,
            "source",
            &[
                (".gitmodules", TreeEntry::File(&modules)),
                ("sub\r", TreeEntry::Commit(&commit)),
                ("sub", TreeEntry::Link(".git/modules/sub/hooks")),
            ],
        );
        attack(field, &url);
    });
}
