//! No command overwrites or deletes its own repository, whatever paths name worktree and Git
//! directory.

use std::{collections::BTreeMap, fs, path::Path};

use testkit::{Repo, Run, Sandbox};

use crate::{
    SAPWOOD,
    shim::{Shim, finished},
};

/// A layout of a worktree and its repository.
struct Layout {
    /// A shell script, run in the worktree of a normal repository.
    setup: &'static str,
    /// The directory in which commands run, relative to the repository's parent.
    dir: &'static str,
    variables: &'static [(&'static str, &'static str)],
    globals: &'static [&'static str],
    /// The Git directory, or another directory that must stay, relative to the repository's parent.
    own: &'static str,
    /// A path in the index that leads into it. If `None`, the worktree itself lies in the
    /// repository.
    tracked: Option<&'static str>,
}

const LAYOUT: Layout =
    Layout { setup: "", dir: "", variables: &[], globals: &[], own: "repo.git", tracked: None };

/// Layouts in which Git deletes or overwrites its own repository.
const UNSAFE: &[Layout] = &[
    Layout {
        setup: "mv .git repo.git",
        variables: &[("GIT_DIR", "repo.git")],
        tracked: Some("repo.git/HEAD"),
        ..LAYOUT
    },
    Layout {
        setup: "mv .git repo.git",
        variables: &[("GIT_DIR", "repo.git")],
        // The Git directory as a whole is tracked.
        tracked: Some("repo.git"),
        ..LAYOUT
    },
    Layout {
        setup: "mkdir -p x/y && mv .git x/y/repo.git",
        globals: &["--git-dir=x/y/repo.git", "--work-tree=."],
        own: "x/y/repo.git",
        tracked: Some("x"),
        ..LAYOUT
    },
    Layout {
        setup: "mv .git repo.git",
        dir: "d",
        variables: &[("GIT_DIR", "../repo.git"), ("GIT_WORK_TREE", "..")],
        tracked: Some("repo.git/refs/heads/main"),
        ..LAYOUT
    },
    Layout {
        setup: "mv .git repo.git && git --git-dir=repo.git config core.worktree \"$PWD\"",
        dir: "repo.git",
        globals: &["--git-dir=."],
        tracked: Some("repo.git/config"),
        ..LAYOUT
    },
    Layout {
        setup: "mv .git repo.git && git --git-dir=repo.git config core.worktree ../d/..",
        dir: "d",
        globals: &["--git-dir=../repo.git"],
        tracked: Some("repo.git/config"),
        ..LAYOUT
    },
    Layout {
        setup: "mv .git repo.git && echo 'gitdir: repo.git' >.git",
        tracked: Some("repo.git/objects/x"),
        ..LAYOUT
    },
    Layout { setup: "mv .git repo.git && ln -s repo.git .git", tracked: Some("repo.git/x"), ..LAYOUT },
    Layout {
        setup: "mv .git repo.git && ln -s repo ../here",
        globals: &["--git-dir=../here/repo.git", "--work-tree=../here/d/.."],
        tracked: Some("repo.git/HEAD"),
        ..LAYOUT
    },
    Layout {
        setup: "git worktree add -q --detach wt && mv .git wt/bare && git --git-dir=wt/bare worktree repair wt",
        dir: "wt",
        own: "wt/bare",
        tracked: Some("bare/HEAD"),
        ..LAYOUT
    },
    Layout {
        setup: "mv .git/objects objs",
        variables: &[("GIT_OBJECT_DIRECTORY", "objs")],
        own: "objs",
        tracked: Some("objs/x"),
        ..LAYOUT
    },
    Layout { dir: ".git", variables: &[("GIT_DIR", ".")], own: ".git", ..LAYOUT },
    Layout { variables: &[("GIT_WORK_TREE", ".git")], own: ".git", ..LAYOUT },
    Layout { setup: "git config core.worktree .", own: ".git", ..LAYOUT },
    Layout {
        setup: "git config core.worktree \"$PWD/.git/refs\"",
        own: ".git",
        globals: &["--git-dir=.git"],
        ..LAYOUT
    },
    Layout { variables: &[("GIT_DIR", ".git"), ("GIT_WORK_TREE", "d/../.git/refs")], own: ".git", ..LAYOUT },
];

/// The commands run in each layout.
const COMMANDS: &[&[&str]] = &[
    &["clean", "-ndx"],
    &["clean", "-fdx"],
    &["clean", "-ffdx"],
    &["checkout", "-f"],
    &["checkout", "-f", "other"],
    &["checkout", "HEAD", "--", ":/"],
    &["switch", "--discard-changes", "-d", "other"],
    &["restore", ":/"],
    &["reset", "--hard"],
    &["read-tree", "--reset", "-u", "HEAD"],
    &["checkout-index", "-f", "-a"],
];

fn plain(sandbox: &Sandbox, name: &str) {
    let repo = sandbox.init(name);
    repo.write("f", "1\n");
    repo.write("d/g", "1\n");
    repo.commit("one");
}

fn shell(repo: &Repo<'_>, script: &str) {
    let run = finished(repo.command("sh".as_ref()).args(["-ec", script]));
    assert_eq!(run.code, 0, "{script}: {}", run.stderr);
}

fn run(program: &Path, at: &Repo<'_>, layout: &Layout, args: &[&str]) -> Run {
    let mut command = at.command(program);
    finished(command.envs(layout.variables.iter().copied()).args(layout.globals).args(args))
}

/// Returns every file below `root` except for the index, which Git rewrites.
fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let (mut found, mut dirs) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("listed") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(root).expect("below").to_str().expect("plain").to_owned();
            if path.symlink_metadata().expect("there").is_dir() {
                dirs.push(path);
            } else if name != "index" {
                found.insert(name, fs::read(&path).unwrap_or_default());
            }
        }
    }
    found
}

#[test]
fn keeps_its_own_repository_in_every_layout() {
    for layout in UNSAFE {
        let sandbox = Sandbox::new();
        plain(&sandbox, "repo");
        let repo = sandbox.repo("repo");
        shell(&repo, layout.setup);
        let at = sandbox.repo(&format!("repo/{}", layout.dir));
        let git = |args: &[&str]| run("git".as_ref(), &at, layout, args).stdout;
        if let Some(tracked) = layout.tracked {
            let blob = git(&["rev-parse", "HEAD:f"]).to_string();
            let entry = format!("100644,{},{tracked}", blob.trim());
            git(&["update-index", "--add", "--cacheinfo", &entry]);
            git(&["commit", "-qm", "into the repository"]);
        }
        git(&["branch", "other"]);
        let own = repo.join(layout.own);
        let before = files(&own);
        assert!(before.len() > 2, "{}: it is there", layout.own);
        for command in COMMANDS {
            let context = format!("{} {:?} {command:?}", layout.setup, layout.globals);
            let ran = run(SAPWOOD.as_ref(), &at, layout, command);
            let said = ran.stderr.to_string();
            // `clean` leaves a tracked path, even if a directory is in its place. `checkout-index`
            // takes only entries of the current directory.
            let has_nothing_to_do = match command[0] {
                "clean" => said.is_empty() && ran.stdout.is_empty(),
                "checkout-index" => layout.dir == "d",
                _ => false,
            };
            if !has_nothing_to_do {
                assert_ne!(ran.code, 0, "{context}: {}", ran.stdout);
                assert!(said.contains("this repository's Git directory"), "{context}: {said}");
            }
            assert_eq!(before, files(&own), "{context}: before left, after right");
        }
    }
}

#[test]
fn cleans_around_its_own_repository() {
    let sandbox = Sandbox::new();
    plain(&sandbox, "repo");
    let repo = sandbox.repo("repo");
    shell(&repo, "mkdir -p x/y z && mv .git x/y/repo.git && touch x/1 x/y/2 z/3 u");
    let shim = Shim::new();
    let refused = shim.run(&repo, &["--git-dir=x/y/repo.git", "clean", "-fd", "x/y/repo.git"]);
    shim.was_native(&["clean"]);
    assert_eq!((refused.code, repo.exists("x/y/repo.git/HEAD")), (1, true));
    let layout = Layout { variables: &[("GIT_DIR", "x/y/repo.git")], ..LAYOUT };
    let cleaned = run(SAPWOOD.as_ref(), &repo, &layout, &["clean", "-fdx"]);
    assert_eq!(cleaned.code, 1);
    assert_eq!(
        cleaned.stderr,
        "warning: failed to remove x/y/repo.git: this repository's Git directory is 'x/y/repo.git'\n"
    );
    let told = cleaned.stdout.to_string();
    let mut told: Vec<&str> = told.lines().collect();
    told.sort_unstable();
    assert_eq!(told, ["Removing u", "Removing x/1", "Removing x/y/2", "Removing z/"]);
    assert!(repo.exists("x/y/repo.git/HEAD") && !repo.exists("x/1") && !repo.exists("z"));
    // If the options exclude the repository, it stays without a message.
    let cleaned = run(SAPWOOD.as_ref(), &repo, &layout, &["clean", "-fdx", "-e", "repo.git"]);
    assert_eq!((cleaned.code, cleaned.stderr.as_slice()), (0, &b""[..]));
}

#[test]
fn keeps_its_own_repository_in_a_sparse_worktree() {
    for command in [&["sparse-checkout", "set", "d"][..], &["sparse-checkout", "clean", "-f"]] {
        let sandbox = Sandbox::new();
        plain(&sandbox, "repo");
        let repo = sandbox.repo("repo");
        repo.write("x/tracked", "1\n");
        repo.write(".gitignore", "repo.git\n");
        repo.commit("two");
        let layout = Layout { variables: &[("GIT_DIR", "x/repo.git")], ..LAYOUT };
        shell(&repo, "git sparse-checkout set x && mv .git x/repo.git");
        if command[1] == "clean" {
            shell(
                &repo,
                "mkdir keep && mv x/repo.git keep && git --git-dir=keep/repo.git sparse-checkout set d",
            );
            shell(&repo, "mkdir -p x && mv keep/repo.git x");
        }
        let ran = run(SAPWOOD.as_ref(), &repo, &layout, command);
        assert!(repo.exists("x/repo.git/objects") && repo.exists("x/repo.git/HEAD"), "{command:?}");
        assert!(ran.stderr.to_string().contains("failed to remove"), "{command:?}: {}", ran.stderr);
    }
}

#[test]
fn refuses_a_sparse_worktree_before_the_configuration_changes() {
    for command in [&["set", "d"][..], &["init"], &["set", "--no-cone", "f"], &["disable"]] {
        let sandbox = Sandbox::new();
        plain(&sandbox, "repo");
        let repo = sandbox.repo("repo");
        let before = files(&repo.path);
        let layout = Layout { variables: &[("GIT_WORK_TREE", ".git")], ..LAYOUT };
        let ran = run(SAPWOOD.as_ref(), &repo, &layout, &[&["sparse-checkout"], command].concat());
        assert_eq!(ran.code, 128, "{command:?}: {}", ran.stderr);
        assert_eq!(files(&repo.path), before, "{command:?}: {}", ran.stderr);
    }
}

#[test]
fn refuses_to_remove_or_move_a_worktree_that_holds_the_repository() {
    for command in [&["worktree", "remove", "-f", "wt"][..], &["worktree", "move", "wt", "elsewhere"]] {
        let sandbox = Sandbox::new();
        plain(&sandbox, "repo");
        let repo = sandbox.repo("repo");
        shell(&repo, "git worktree add -q wt && mv .git wt/bare");
        let layout = Layout { globals: &["--git-dir=wt/bare"], ..LAYOUT };
        run("git".as_ref(), &repo, &layout, &["worktree", "repair", "wt"]);
        let before = files(&repo.join("wt"));
        let ran = run(SAPWOOD.as_ref(), &repo, &layout, command);
        let said = ran.stderr.to_string();
        assert_eq!((ran.code, before), (128, files(&repo.join("wt"))), "{said}");
        assert!(said.contains("it holds this repository's Git directory"), "{said}");
    }
}

#[test]
fn rm_removes_no_file_if_one_path_belongs_to_the_repository() {
    let sandbox = Sandbox::new();
    plain(&sandbox, "repo");
    let repo = sandbox.repo("repo");
    shell(&repo, "mv .git repo.git");
    let layout = Layout { variables: &[("GIT_DIR", "repo.git")], ..LAYOUT };
    let git = |args: &[&str]| run("git".as_ref(), &repo, &layout, args).stdout.to_string();
    let entry = format!("100644,{},repo.git/config", git(&["rev-parse", "HEAD:f"]).trim());
    git(&["update-index", "--add", "--cacheinfo", &entry]);
    let before = files(&repo.path);
    let ran = run(SAPWOOD.as_ref(), &repo, &layout, &["rm", "-rfq", "."]);
    let said = ran.stderr.to_string();
    assert!(ran.code != 0 && said.contains("this repository's Git directory"), "{said}");
    assert_eq!(before, files(&repo.path), "before left, after right");
}

#[test]
fn refuses_to_remove_or_move_a_workspace_that_holds_the_repository() {
    for command in [&["remove", "one", "--force"][..], &["move", "one", "../elsewhere"]] {
        let sandbox = Sandbox::new();
        plain(&sandbox, "repo");
        let repo = sandbox.repo("repo");
        let create = ["workspace", "create", "one", "--backend", "copy"];
        let made = run(SAPWOOD.as_ref(), &repo, &LAYOUT, &create);
        assert_eq!(made.code, 0, "{}", made.stderr);
        shell(&repo, "mv .git ../repo.workspaces/one/bare");
        let layout = Layout { globals: &["--git-dir=../repo.workspaces/one/bare"], ..LAYOUT };
        let workspace = sandbox.path().join("repo.workspaces/one");
        let before = files(&workspace);
        let ran = run(SAPWOOD.as_ref(), &repo, &layout, &[&["workspace"], command].concat());
        let said = ran.stderr.to_string();
        assert_eq!(ran.code, 128, "{said}");
        assert!(said.contains("it holds this repository's Git directory"), "{said}");
        // The command may have taken locks.
        let after = files(&workspace);
        let lost: Vec<&String> = before
            .iter()
            .filter(|(name, content)| after.get(*name) != Some(content))
            .map(|(name, _)| name)
            .collect();
        assert!(lost.is_empty(), "{lost:?}");
    }
}

/// Layouts in which no part of the repository can be reached: results equal Git's.
const SAFE: &[Layout] = &[
    LAYOUT,
    Layout { variables: &[("GIT_DIR", ".git")], ..LAYOUT },
    Layout { dir: "d", variables: &[("GIT_DIR", "../.git"), ("GIT_WORK_TREE", "..")], ..LAYOUT },
    Layout { dir: "d", variables: &[("GIT_DIR", "../.git")], ..LAYOUT },
    Layout { setup: "mv .git ../apart && echo 'gitdir: ../apart' >.git", ..LAYOUT },
    Layout { setup: "mv .git ../apart && ln -s ../apart .git", ..LAYOUT },
    Layout { setup: "git worktree add -q --detach ../wt", dir: "../wt", ..LAYOUT },
    Layout { setup: "git worktree add -q --detach .git/wt", dir: ".git/wt", ..LAYOUT },
    Layout { setup: "mkdir .git/wt", variables: &[("GIT_WORK_TREE", ".git/wt")], ..LAYOUT },
    Layout { setup: "mkdir ../wt", globals: &["--work-tree=../wt"], ..LAYOUT },
    Layout { setup: "mkdir ../wt && git config core.worktree ../../wt", ..LAYOUT },
    Layout {
        setup: "ln -s repo ../link",
        globals: &["--git-dir=../link/.git", "--work-tree=../link/d/.."],
        ..LAYOUT
    },
];

#[test]
fn behaves_as_git_when_the_repository_is_out_of_reach() {
    for layout in SAFE {
        let sandbox = Sandbox::new();
        for side in ["git", "ours"] {
            plain(&sandbox, &format!("{side}/repo"));
            let repo = sandbox.repo(&format!("{side}/repo"));
            shell(&repo, layout.setup);
            let at = sandbox.repo(&format!("{side}/repo/{}", layout.dir));
            shell(&at, "mkdir -p a/b && touch a/x a/b/y u && echo changed >>f");
        }
        for command in COMMANDS.iter().filter(|command| !command.contains(&"other")) {
            let [theirs, ours] = [("git", "git"), ("ours", SAPWOOD)].map(|(side, program)| {
                let at = sandbox.repo(&format!("{side}/repo/{}", layout.dir));
                let ran = run(program.as_ref(), &at, layout, command);
                let mut left = files(&sandbox.path().join(side));
                left.retain(|name, _| !name.contains(".git/") && !name.starts_with("apart/"));
                left.extend(
                    files(&sandbox.path().join(side))
                        .into_iter()
                        .filter(|(name, _)| name.contains(".git/wt")),
                );
                left.retain(|name, _| !name.ends_with("index") && !name.ends_with("/.git"));
                (ran.code, ran.stdout, left)
            });
            assert_eq!(
                theirs, ours,
                "{} {:?} {command:?}: git left, ours right",
                layout.setup, layout.globals
            );
        }
    }
}
