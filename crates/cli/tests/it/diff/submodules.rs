//! Submodules, and the messages about `.gitmodules`.

use bstr::ByteSlice as _;
use testkit::{Oracle, Repo};

use crate::{SAPWOOD, index_info};

/// An unreadable `.gitmodules` is reported as often as Git reports it.
#[test]
fn reports_an_unreadable_gitmodules_as_often_as_git() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        with_submodules(repo);
        repo.git(&["-C", "same", "checkout", "-q", "--detach", "HEAD"]);
        repo.git(&["add", "moved", "all"]);
        repo.git(&["rm", "-q", "-f", "--cached", "quiet"]);
        repo.remove(".gitmodules");
        repo.symlink(".gitmodules", ".gitmodules");
    });
    for args in [&["HEAD"][..], &["--cached", "HEAD"], &["--cached", "HEAD", "--", "dirty"], &["-R", "HEAD"]]
    {
        oracle.same(&[&["diff-index"], args].concat());
        oracle.same(&[&["diff-index", "--ignore-submodules=dirty"], args].concat());
    }
    // With `-m`, a missing submodule counts as unchanged, and its configuration is not read.
    oracle.same(&["diff-index", "-m", "HEAD", "--", "gone"]);
    oracle.same(&["diff-index", "-m", "HEAD"]);
    oracle.same(&["diff-files"]);
    oracle.same(&["status", "-s"]);
}

/// Creates submodules: untouched, at another commit, with a change, with an untracked file,
/// missing, and staged.
fn with_submodules(repo: &Repo<'_>) {
    let source = repo.path.join("../source");
    if !source.exists() {
        std::fs::create_dir(&source).expect("a new directory");
        let in_source = |args: &[&str]| repo.git(&[&["-C", "../source"], args].concat());
        in_source(&["init", "-q", "-b", "main"]);
        std::fs::write(source.join("file"), "x\n").expect("a new file");
        in_source(&["add", "file"]);
        in_source(&["commit", "-q", "-m", "one"]);
    }
    let names = ["same", "moved", "dirty", "littered", "gone", "all", "quiet"];
    for name in names {
        let add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../source", name];
        repo.git(&add);
        // Git would resolve the URL to a path inside of the copy, so a relative URL is set.
        repo.git(&["config", &format!("submodule.{name}.url"), "../source"]);
    }
    repo.git(&["config", "-f", ".gitmodules", "submodule.all.ignore", "all"]);
    repo.git(&["config", "-f", ".gitmodules", "submodule.quiet.ignore", "none"]);
    repo.commit("submodules");
    for name in ["moved", "all"] {
        repo.git(&["-C", name, "commit", "-q", "--allow-empty", "-m", "two"]);
    }
    for name in ["littered", "quiet"] {
        repo.write(format!("{name}/litter"), "x\n");
    }
    repo.write("dirty/file", "changed\n");
    repo.remove("gone");
}

#[test]
fn submodules() {
    let oracle = Oracle::new(SAPWOOD, with_submodules);
    oracle.both(|repo| drop(repo.git(&["config", "diff.ignoreSubmodules", "all"])));
    for args in [
        &[][..],
        &["--ignore-submodules"],
        &["--ignore-submodules=all"],
        &["--ignore-submodules=dirty"],
        &["--ignore-submodules=untracked"],
        &["--ignore-submodules=none"],
        &["-R"],
        &["--", "dirty/", "moved"],
    ] {
        oracle.same(&[&["diff-files"], args].concat());
        let at = args.iter().position(|arg| *arg == "--").unwrap_or(args.len());
        let (options, paths) = args.split_at(at);
        oracle.same(&[&["diff-index"], options, &["HEAD"], paths].concat());
        oracle.same(&[&["diff-index", "--cached"], options, &["HEAD~0"], paths].concat());
    }
    // Adds assume-unchanged submodules, and paths that are files in the tree.
    oracle.both(|repo| {
        repo.git(&["update-index", "--assume-unchanged", "dirty", "littered"]);
        let blob = repo.git(&["rev-parse", "HEAD:.gitmodules"]).stdout.trim().to_str_lossy().into_owned();
        ["gone", "same", "quiet"].iter().for_each(|name| drop(repo.git(&["rm", "-q", "--cached", name])));
        index_info(
            repo,
            &["gone", "same", "quiet"].map(|name| format!("100644 {blob} 0\t{name}\n")).concat(),
        );
        repo.git(&[
            "branch",
            "files",
            repo.git(&[
                "commit-tree",
                "-m",
                "files",
                repo.git(&["write-tree"]).stdout.trim().to_str().expect("hexadecimal"),
            ])
            .stdout
            .trim()
            .to_str()
            .expect("hexadecimal"),
        ]);
        repo.git(&["reset", "-q"]);
        repo.remove("quiet");
        repo.write("quiet", "a file\n");
    });
    for args in [
        &["diff-files"][..],
        &["diff-files", "--ignore-submodules=none"],
        &["diff-index", "--ignore-submodules=none", "HEAD"],
        &["diff-index", "--ignore-submodules", "files"],
        &["diff-index", "-m", "--ignore-submodules", "files"],
        &["diff-index", "files"],
        &["status", "--porcelain=v2"],
    ] {
        oracle.same(args);
    }
    oracle.both(|repo| drop(repo.git(&["add", "moved", "all"])));
    for args in [&["diff-files"][..], &["diff-index", "HEAD"], &["diff-index", "--cached", "HEAD"]] {
        oracle.same(args);
    }
}

/// The `.git` of the submodule is not a repository.
#[test]
fn handles_submodules_that_are_not_repositories() {
    let oracle = Oracle::new(SAPWOOD, with_submodules);
    for content in ["nonsense\n", "gitdir: \n", "gitdir: nowhere\n", ""] {
        oracle.both(|repo| repo.write("dirty/.git", content));
        for args in [&["diff-files"][..], &["diff-index", "HEAD"], &["status", "-s"]] {
            oracle.same_as(content, args);
        }
    }
    oracle.both(|repo| {
        repo.remove("dirty/.git");
        repo.write("dirty/.git/file", "x\n");
    });
    oracle.same(&["status", "-s"]);
    oracle.both(|repo| {
        repo.remove("dirty/.git");
        std::os::unix::net::UnixListener::bind(repo.join("dirty/.git")).expect("a short name");
    });
    oracle.same(&["status", "-s"]);
}

/// Conflicts about a submodule's commit. HEAD of the submodule is our commit, their commit, or
/// another one, and its files were changed.
#[test]
fn lists_unmerged_submodules() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        with_submodules(repo);
        repo.git(&["checkout", "-q", "-b", "side"]);
        let commit = |name: &str| {
            repo.git(&["-C", name, "commit", "-q", "--allow-empty", "-m", "further"]);
            repo.git(&["add", name]);
        };
        commit("dirty");
        commit("same");
        repo.git(&["commit", "-q", "-m", "theirs"]);
        repo.git(&["checkout", "-q", "main"]);
        repo.git(&["-C", "dirty", "checkout", "-q", "--detach", "HEAD~"]);
        repo.git(&["-C", "same", "checkout", "-q", "--detach", "HEAD~"]);
        repo.git(&["-C", "dirty", "commit", "-q", "--allow-empty", "-m", "another way"]);
        repo.git(&["-C", "same", "commit", "-q", "--allow-empty", "-m", "another way"]);
        repo.git(&["add", "dirty", "same"]);
        repo.git(&["commit", "-q", "-m", "ours"]);
        repo.try_git(&["merge", "-q", "side"]);
        assert!(repo.git(&["ls-files", "-u"]).stdout.contains_str("dirty"), "it conflicts");
    });
    for place in ["main@{0}", "side:{}", "HEAD~:{}"] {
        oracle.both(|repo| {
            for name in ["dirty", "same"] {
                let commit = match place.strip_suffix("{}") {
                    Some(of) => repo
                        .git(&["rev-parse", &format!("{of}{name}")])
                        .stdout
                        .trim()
                        .to_str_lossy()
                        .into_owned(),
                    None => continue,
                };
                repo.git(&["-C", name, "checkout", "-q", "--detach", &commit]);
            }
        });
        for options in [&[][..], &["--ignore-submodules=none"], &["--ignore-submodules=all"], &["-m"]] {
            oracle.same_as(place, &[&["diff-index"], options, &["HEAD"]].concat());
        }
        for options in
            [&[][..], &["--base"], &["--theirs"], &["--ours", "--ignore-submodules=dirty"], &["-0"]]
        {
            oracle.same_as(place, &[&["diff-files"], options].concat());
        }
    }
}
