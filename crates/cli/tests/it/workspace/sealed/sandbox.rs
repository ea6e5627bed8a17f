//! An agent's day in a sandbox that sees only the directory of the workspace.

use std::{path::Path, process::Command};

use super::{super::create::Place, listing};
use crate::SAPWOOD;

/// The commands of a day. `g` is the program.
const DAY: &str = r#"
set -e
g status; g log -1 --oneline; g branch -vv; g config user.name; g checkout -q -b feature
echo one >>file; g status --short; g diff; g add file; g diff --cached --stat; g commit -q -m 'agent: one'
mkdir sub; echo two >sub/two; g add -A; g commit -q -m 'agent: two'; g show --stat HEAD
echo half >>file; g stash; g stash list; g stash pop; g restore file; g status --porcelain
g mv sub/two sub/three; g commit -q -m 'agent: three'; g rm -q dir/deep/file; g reset -q --hard
g switch -q -; echo main >other; g add other; g commit -q -m 'agent: main'; g rebase -q one feature
g tag -m text mark; g describe; g tag -d mark; g cherry-pick -n HEAD~1 || g reset -q --hard; g reset -q --hard
g revert --no-edit HEAD; g blame file; g grep -n one; g ls-files -s; g rev-parse --show-toplevel
echo junk >junk; g clean -qfd; g reflog -3; g merge-base HEAD origin/HEAD || true; g log --all --oneline
g commit -q --amend -m 'agent: last'; g branch -f one; g switch -q one; g branch -D feature; g fsck
g gc -q; g status --porcelain
"#;

#[test]
fn forty_commands_work_with_only_the_directory_bound() {
    if !testkit::has_program("bwrap") {
        return;
    }
    let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "/usr/bin/git".to_owned());
    let git = Path::new(&git).canonicalize().expect("Git");
    let programs = git.ancestors().nth(2).expect("the directory of the oracle");
    for (backend, program) in [("image", "git"), ("overlay", "sapwood"), ("copy", "sapwood"), ("copy", "git")]
    {
        let place = Place::new();
        let repo = place.repo();
        repo.git(&["branch", "-M", "main"]);
        repo.git(&["config", "user.name", "A. Gent"]);
        repo.git(&["config", "user.email", "a@example.org"]);
        place.done(&["create", "-q", "--sealed", "--backend", backend, "one"]);
        let workspace = place.workspace("one");
        let outside = |place: &Place| {
            let mut all = listing(&place.repo().path);
            all.retain(|(path, ..)| !path.contains("/sapwood/workspaces"));
            all
        };
        let before = outside(&place);
        let mut sandbox = Command::new("bwrap");
        sandbox.args([
            "--unshare-all",
            "--die-with-parent",
            "--clearenv",
            "--proc",
            "/proc",
            "--dev",
            "/dev",
        ]);
        for dir in ["/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache"] {
            sandbox.args(["--ro-bind-try", dir, dir]);
        }
        sandbox
            .arg("--ro-bind")
            .arg(programs)
            .arg(programs)
            .arg("--ro-bind")
            .arg(SAPWOOD)
            .arg("/opt/sapwood");
        sandbox.args(["--symlink", "/opt/sapwood", "/opt/shim/git", "--tmpfs", "/tmp"]);
        sandbox.arg("--bind").args([&workspace.path, &workspace.path]).arg("--chdir").arg(&workspace.path);
        let real = git.parent().expect("a directory").display();
        let path = match program {
            "git" => format!("{real}:/usr/bin:/bin"),
            _ => format!("/opt/shim:{real}:/usr/bin:/bin"),
        };
        sandbox.args([
            "--setenv",
            "PATH",
            &path,
            "--setenv",
            "HOME",
            "/tmp",
            "--setenv",
            "GIT_EDITOR",
            "true",
        ]);
        let script = format!("g() {{ git -c core.pager=cat \"$@\"; }}\n{DAY}");
        let output = sandbox.args(["sh", "-c", &script]).output().expect("bwrap runs");
        let said = format!(
            "{backend}, {program}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(output.status.success(), "{said}");
        assert!(outside(&place) == before, "something outside has changed: {said}");
        place.done(&["land", "one"]);
        assert_eq!(repo.git(&["log", "-1", "--format=%s", "one"]).stdout, "agent: last\n", "{said}");
        assert_eq!(repo.git(&["fsck", "--strict", "--no-dangling"]).stdout, "", "{said}");
        let removed = place.run(&["remove", "one"]);
        assert_eq!(removed.code, 0, "{}", removed.stderr);
    }
}
