//! A clone by Git and a clone by sapwood are equal: files, modes, contents, messages and exit code.
//! Only the stat data of the index differs.

use std::{collections::BTreeMap, fs, path::Path};

use bstr::{BString, ByteSlice as _};
use testkit::{Repo, Run, Sandbox};

use crate::SAPWOOD;

/// Creates a sandbox with repositories of many kinds to clone from.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    let home = sandbox.repo("home");
    // Git before 2.41 writes no reverse index by default, and its default branch name depends on
    // the configuration.
    home.write(".gitconfig", "[pack]\n\twriteReverseIndex = true\n[init]\n\tdefaultBranch = main\n");
    home.write("template/description", "a template\n");
    home.write("template/info/exclude", "*~\n");
    home.write("template/.hidden", "not copied\n");
    home.write_executable("template/hooks/post-checkout", "#!/bin/sh\necho \"hook $*\"\n");
    home.symlink("description", "template/link");

    let plain = sandbox.init("plain");
    fill(&plain);
    plain.git(&["tag", "light"]);
    plain.git(&["tag", "-a", "-m", "a tag", "annotated"]);
    plain.git(&["branch", "topic", "HEAD~1"]);
    plain.git(&["branch", "feature/x"]);
    plain.git(&["update-ref", "refs/notes/commits", "HEAD"]);
    plain.git(&["bundle", "create", "-q", "../all.bundle", "--all"]);
    plain.git(&["bundle", "create", "-q", "../tag.bundle", "light"]);
    plain.git(&["bundle", "create", "-q", "../thin.bundle", "HEAD~1..main"]);

    sandbox.init("empty");
    sandbox.repo("").git(&["init", "-q", "--object-format=sha256", "sha256"]);
    fill(&sandbox.repo("sha256"));
    let copy = |name: &str| {
        sandbox.repo("").git(&["clone", "-q", "plain", name]);
        sandbox.repo(name)
    };
    copy("detached").git(&["checkout", "-q", "--detach", "HEAD~1"]);
    copy("headless").git(&["symbolic-ref", "HEAD", "refs/heads/missing"]);
    let packed = copy("packed");
    packed.git(&["gc", "-q"]);
    let url = format!("file://{}", sandbox.path().join("plain").display());
    sandbox.repo("").git(&["clone", "-q", "--depth=1", &url, "shallow"]);
    sandbox.repo("").git(&["clone", "-q", "-s", "plain", "borrower"]);
    packed.git(&["worktree", "add", "-q", "../linked", "topic"]);
    sandbox
}

fn fill(repo: &Repo<'_>) {
    repo.write("a", "one\n");
    repo.write("dir/b", "two\n");
    repo.write_executable("dir/run", "#!/bin/sh\n");
    repo.symlink("a", "link");
    repo.commit("one");
    repo.write("a", "changed\n");
    repo.write("dir/deep/c", "three\n");
    repo.commit("two");
}

/// Returns mode and content of everything below `root`. The content of the index is left out
/// because its stat data must differ.
pub(crate) fn tree(root: &Path) -> BTreeMap<BString, (u32, BString)> {
    use std::os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _};
    let mut found = BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten() {
            let path = entry.expect("an entry").path();
            let meta = path.symlink_metadata().expect("there");
            let content = if meta.is_symlink() {
                fs::read_link(&path).expect("a link").as_os_str().as_bytes().into()
            } else if meta.is_file() && !path.ends_with("index") {
                fs::read(&path).expect("readable").into()
            } else {
                BString::default()
            };
            let name = path.strip_prefix(root).expect("below").as_os_str().as_bytes().into();
            found.insert(name, (meta.permissions().mode(), content));
            if meta.is_dir() {
                directories.push(path);
            }
        }
    }
    found
}

/// Replaces the working directories of Git and sapwood in messages and files by one placeholder.
fn plain(sandbox: &Sandbox, text: &BString) -> BString {
    let root = sandbox.path().display().to_string();
    let text = text.replace(format!("{root}/git/"), "<here>/").replace(format!("{root}/ours/"), "<here>/");
    text.replace("sapwood", "git").into()
}

/// Returns the output of `clone -v` without its last line, the throughput, which Git does not
/// print.
#[track_caller]
fn without_rate(said: &BString) -> BString {
    let lines: Vec<&str> = said.to_str().expect("text").lines().collect();
    let (rate, rest) = lines.split_last().expect("something was said");
    let words: Vec<&str> = rate.split(' ').collect();
    let ["Checked", "out", files, "files", "in", seconds, "s", speed, "files/s)"] = words[..] else {
        panic!("not the rate: {rate}");
    };
    assert!(files.parse::<u32>().is_ok_and(|files| files > 0), "{rate}");
    assert!(seconds.split_once('.').is_some_and(|(_, decimals)| decimals.len() == 3), "{rate}");
    assert!(speed.strip_prefix('(').is_some_and(|speed| speed.parse::<u64>().is_ok()), "{rate}");
    rest.iter().map(|line| format!("{line}\n")).collect::<String>().into()
}

/// Clones with both programs, in fresh directories, and compares the results. Returns the run of
/// sapwood.
#[track_caller]
fn compare_clones(sandbox: &Sandbox, prepare: impl Fn(&Repo<'_>), args: &[&str]) -> Run {
    let mut all = vec!["clone"];
    all.extend(args);
    let run = |name: &str| {
        let here = sandbox.repo(name);
        if here.path.exists() {
            fs::remove_dir_all(&here.path).expect("removed");
        }
        fs::create_dir_all(&here.path).expect("made");
        prepare(&here);
        let run = match name {
            "git" => here.try_git(&all),
            _ => here.run(Path::new(SAPWOOD), &all),
        };
        let found = tree(&here.path)
            .into_iter()
            .map(|(path, (mode, content))| (path, (mode, plain(sandbox, &content))))
            .collect::<BTreeMap<_, _>>();
        let said = (plain(sandbox, &run.stdout), plain(sandbox, &run.stderr));
        (run, said, found)
    };
    let (theirs, they_said, they_made) = run("git");
    let (ours, mut we_said, we_made) = run("ours");
    if args.contains(&"-v") {
        we_said.1 = without_rate(&we_said.1);
    }
    if !is_old(sandbox) {
        assert_eq!(they_said, we_said, "{args:?}: what was said; git left, ours right");
    }
    assert_eq!(theirs.code, ours.code, "{args:?}: exit code; ours said {}", ours.stderr);
    let names = |made: &BTreeMap<BString, (u32, BString)>| {
        made.iter().map(|(path, (mode, _))| format!("{mode:o} {path}")).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(names(&they_made), names(&we_made), "{args:?}: files; git left, ours right");
    for (path, theirs) in &they_made {
        assert_eq!(Some(theirs), we_made.get(path), "{args:?}: {path}; git left, ours right");
    }
    for entry in fs::read_dir(sandbox.path().join("ours")).expect("listed") {
        let name = entry.expect("an entry").file_name();
        let name = name.to_str().expect("our own names").to_owned();
        let copy = sandbox.repo(&format!("ours/{name}"));
        if !copy.exists(".git/index") {
            continue;
        }
        let index = |side: &str| sandbox.repo(&format!("{side}/{name}")).git(&["ls-files", "-s"]).stdout;
        assert_eq!(index("git"), index("ours"), "{args:?}: index; git left, ours right");
        assert_eq!(copy.git(&["status", "--porcelain"]).stdout, "", "{args:?}: not clean");
        copy.git(&["fsck", "--full", "--strict"]);
    }
    ours
}

/// Returns true if the Git under test is older than the reference release, in which some options
/// behaved differently.
fn is_old(sandbox: &Sandbox) -> bool {
    sandbox.git_version() < (2, 55)
}

#[track_caller]
fn same(sandbox: &Sandbox, args: &[&str]) -> Run {
    compare_clones(sandbox, |_| {}, args)
}

#[test]
fn clones_repositories_of_every_kind() {
    let sandbox = sandbox();
    let kinds =
        ["plain", "empty", "sha256", "detached", "headless", "packed", "shallow", "borrower", "linked"];
    for source in kinds {
        let source = format!("../{source}");
        for options in
            [&[][..], &["--bare"], &["--mirror"], &["-s"], &["--single-branch"], &["--no-hardlinks"], &["-n"]]
        {
            if is_old(&sandbox) && options == ["--mirror"] {
                continue;
            }
            let mut args = options.to_vec();
            args.extend([source.as_str(), "copy"]);
            same(&sandbox, &args);
        }
    }
}

#[test]
fn clones_through_the_protocol_and_from_bundles() {
    let sandbox = sandbox();
    let url = |name: &str| format!("file://{}", sandbox.path().join(name).display());
    let sources =
        [url("plain"), url("sha256"), url("empty"), url("detached"), url("headless"), url("shallow")];
    let bundles = ["../all.bundle", "../all", "../tag.bundle"].map(String::from);
    for source in sources.iter().chain(&bundles) {
        for options in [&[][..], &["--bare"], &["--single-branch"], &["--no-tags"], &["-b", "annotated"]] {
            let mut args = options.to_vec();
            args.extend([source.as_str(), "copy"]);
            same(&sandbox, &args);
        }
    }
    same(&sandbox, &["--no-local", "../plain", "copy"]);
    same(&sandbox, &["--reference", "../plain", "../thin.bundle", "copy"]);
    // The last line of the message about missing commits differs from Git's.
    let refused = sandbox.repo("ours").run(Path::new(SAPWOOD), &["clone", "../thin.bundle", "thin"]);
    assert_eq!(refused.code, 128);
    assert!(refused.stderr.to_string().contains("Repository lacks these prerequisite commits:\n"));
    assert!(!sandbox.repo("ours").exists("thin"));
}

#[test]
fn options() {
    let sandbox = sandbox();
    let template = sandbox.path().join("home/template").display().to_string();
    for options in [
        &["-q"][..],
        &["-v"],
        &["-o", "upstream"],
        &["-b", "topic"],
        &["-b", "light"],
        &["-b", "annotated", "--single-branch"],
        &["-b", "topic", "--single-branch", "--no-tags"],
        &["--no-tags", "-b", "topic"],
        &["--no-tags"],
        &["--mirror", "--single-branch"],
        &["--depth=1"],
        &["--filter=blob:limit=2k"],
        &["--template="],
        &["--template=/does/not/exist"],
        &["--template", &template],
        &["--reference", "../plain"],
        &["--reference-if-able", "../nowhere"],
        &["--separate-git-dir", "elsewhere"],
        &["-c", "foo.bar=1", "-c", "Foo.Sub.Baz"],
        &["-c", "core.logAllRefUpdates=always", "--single-branch"],
        &["-c", "clone.defaultRemoteName=there"],
        &["-c", "branch.autoSetupRebase=always"],
        &["-c", "remote.origin.fetch=+refs/notes/*:refs/notes/*"],
        &["-c", "core.hooksPath=/does/not/exist"],
    ] {
        if is_old(&sandbox) && options.iter().any(|option| ["--no-tags", "--mirror"].contains(option)) {
            continue;
        }
        let mut args = options.to_vec();
        args.extend(["../plain", "copy"]);
        same(&sandbox, &args);
    }
    same(&sandbox, &["../plain"]);
    same(&sandbox, &["../plain/.git/"]);
    same(&sandbox, &["--bare", "../plain"]);
    same(&sandbox, &["../plain", "a/b/c//"]);
    compare_clones(&sandbox, |here| fs::create_dir(here.join("copy")).expect("made"), &["../plain", "copy"]);
    compare_clones(
        &sandbox,
        |here| fs::create_dir(here.join("copy")).expect("made"),
        &["--bare", "../plain", "copy"],
    );
}

/// Clones that leave out history or objects: the requests to the server and the configuration
/// written.
#[test]
fn makes_shallow_and_partial_clones() {
    let sandbox = sandbox();
    sandbox.repo("plain").git(&["config", "uploadpack.allowFilter", "true"]);
    sandbox.repo("plain").git(&["config", "uploadpack.allowAnySHA1InWant", "true"]);
    let url = |name: &str| format!("file://{}", sandbox.path().join(name).display());
    let (plain, deaf) = (url("plain"), url("sha256"));
    for (options, source) in [
        (&["--depth=1"][..], &plain),
        (&["--depth=1", "--no-single-branch"], &plain),
        (&["--depth=9", "--reject-shallow"], &plain),
        (&["--depth=2x"], &plain),
        (&["--shallow-exclude=topic"], &plain),
        (&["--filter=blob:none", "-n"], &plain),
        (&["--filter=blob:limit=1k", "--bare"], &plain),
        (&["--filter=tree:0", "-n", "--single-branch"], &plain),
        (&["--filter=blob:none", "-n"], &deaf),
        (&["--filter=blob:none", "--filter=tree:1", "-n"], &plain),
        (&["--filter=combine:blob:none+tree:x", "-n"], &plain),
        (&["--shallow-since=@1 +0000"], &plain),
        (&["--shallow-since=tea, forty years ago"], &plain),
        (&["--shallow-since=yesterday"], &plain),
    ] {
        let mut args = options.to_vec();
        args.extend([source.as_str(), "copy"]);
        same(&sandbox, &args);
    }
    // The objects that the worktree needs arrive in one more pack.
    let run =
        sandbox.repo("ours").run(Path::new(SAPWOOD), &["clone", "-q", "--filter=blob:none", &plain, "full"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let full = sandbox.repo("ours/full");
    assert_eq!(full.git(&["status", "--porcelain"]).stdout, "");
    let packs = fs::read_dir(full.join(".git/objects/pack")).expect("listed");
    let is_pack = |name: &std::ffi::OsString| name.to_string_lossy().ends_with(".pack");
    assert_eq!(packs.map(|entry| entry.expect("an entry").file_name()).filter(is_pack).count(), 2);
    full.git(&["fsck"]);
}

#[test]
fn takes_one_revision() {
    let sandbox = sandbox();
    if is_old(&sandbox) {
        return;
    }
    let url = format!("file://{}", sandbox.path().join("plain").display());
    let name = |name: &str| {
        sandbox.repo("plain").git(&["rev-parse", name]).stdout.trim().to_str_lossy().into_owned()
    };
    let (commit, tree) = (name("HEAD"), name("HEAD:"));
    for revision in ["HEAD", "annotated", "refs/heads/topic", "topic^", &commit, &tree, &commit[..9]] {
        same(&sandbox, &["--revision", revision, &url, "copy"]);
        same(&sandbox, &["--revision", revision, "../plain", "copy"]);
    }
    for other in ["--bare", "--branch=topic", "--mirror", "--depth=1", "--no-tags"] {
        same(&sandbox, &["--revision=HEAD", other, &url, "copy"]);
    }
}

/// Options for which Git runs other commands.
#[test]
fn runs_the_extra_steps_of_dissociate_sparse_and_submodules() {
    let sandbox = sandbox();
    same(&sandbox, &["--dissociate", "--reference", "../plain", "../packed", "copy"]);
    same(&sandbox, &["--dissociate", "-s", "../plain", "copy"]);
    same(&sandbox, &["--sparse", "../plain", "copy"]);
    let plain = sandbox.repo("plain");
    let submodule = sandbox.path().join("packed").display().to_string();
    plain.git(&["-c", "protocol.file.allow=always", "submodule", "add", "-q", &submodule, "sub"]);
    plain.commit("with a submodule");
    let allowed = ["-c", "protocol.file.allow=always"];
    let run = |git: &Path, name: &str| {
        let here = sandbox.repo("");
        let args = [&allowed[..], &["clone", "-q", "--recurse-submodules", "plain", name]].concat();
        let run = here.run(git, &args);
        assert_eq!(run.code, 0, "{}", run.stderr);
        let status = sandbox.repo(name).git(&["submodule", "status"]).stdout;
        (status, sandbox.repo(name).git(&["config", "--list", "--local"]).stdout)
    };
    let git = std::env::var_os("SAPWOOD_TEST_GIT").map_or_else(|| "git".into(), std::path::PathBuf::from);
    assert_eq!(run(&git, "theirs"), run(Path::new(SAPWOOD), "ours-too"));
}

#[test]
fn leaves_nothing_behind_when_it_refuses() {
    let sandbox = sandbox();
    for args in [
        &["../nowhere"][..],
        &["../plain/dir"],
        &["/"],
        &["-b", "nowhere", "../plain"],
        &["-o", "a b", "../plain"],
        &["--reference", "../nowhere", "../plain"],
        &["--reference", "../shallow", "../plain"],
        &["--reject-shallow", "../shallow"],
        &["--bare", "--separate-git-dir=x", "../plain"],
        &["-c", "bad", "../plain"],
        &["-c", "protocol.file.allow=never", "../plain"],
        &["-c", "protocol.allow=never", "--no-local", "../plain"],
        &["-c", "protocol.file.allow=sometimes", "../plain"],
        &["-c", "remote.origin.fetch=refs/x:refs/y", "../plain"],
        &["--depth=0", "../plain"],
        &["--ref-format=nonsense", "../plain"],
    ] {
        if is_old(&sandbox) && args[0].starts_with("--ref-format") {
            continue;
        }
        let run = same(&sandbox, args);
        assert_eq!(run.code, 128, "{args:?}");
        assert_eq!(fs::read_dir(sandbox.path().join("ours")).expect("listed").count(), 0, "{args:?}");
    }
    let occupied = |here: &Repo<'_>| here.write("copy/file", "the user's");
    compare_clones(&sandbox, occupied, &["../plain", "copy"]);
    let empty = |here: &Repo<'_>| fs::create_dir(here.join("copy")).expect("made");
    compare_clones(&sandbox, empty, &["-b", "nowhere", "../plain", "copy"]);
}

#[test]
fn names_unsupported_options() {
    let sandbox = sandbox();
    let here = sandbox.repo("plain");
    for (args, named) in [
        (&["--no-local", "--filter=auto", "."][..], "the filter 'auto'"),
        (&["--ref-format=reftable", "."], "'reftable'"),
    ] {
        let mut all = vec!["clone"];
        all.extend(args);
        all.push("copy");
        let run = here.run(Path::new(SAPWOOD), &all);
        let said = run.stderr.to_string();
        assert_eq!(run.code, 128, "{args:?}");
        assert!(said.contains(named) && said.contains("not supported by sapwood yet"), "{said}");
        assert!(!here.exists("copy"), "{said}");
    }
}

#[test]
fn refuses_a_symbolic_link_among_objects() {
    let sandbox = sandbox();
    let plain = sandbox.repo("plain");
    plain.symlink("/etc/passwd", ".git/objects/00/link");
    let run = same(&sandbox, &["../plain", "copy"]);
    assert!(run.stderr.to_string().contains("symlink '00/link' exists, refusing to clone with --local"));
}

#[test]
fn refuses_a_repository_of_another_owner_unless_declared_safe() {
    let sandbox = sandbox();
    let source = sandbox.repo("plain");
    if std::os::unix::fs::chown(source.join(".git"), Some(12345), None).is_err() {
        println!("skipped: only root can give files away");
        return;
    }
    let clone = ["clone", "-q", "plain", "copy"];
    let refused = sandbox.repo("").run(Path::new(SAPWOOD), &clone);
    assert_eq!(refused.code, 128);
    assert!(refused.stderr.to_string().contains("detected dubious ownership in repository at"));
    assert!(!sandbox.repo("").exists("copy"));
    let mut config = sandbox.repo("home").read(".gitconfig");
    config.extend_from_slice(b"[safe]\n\tdirectory = *\n");
    sandbox.repo("home").write(".gitconfig", config);
    let allowed = sandbox.repo("").run(Path::new(SAPWOOD), &clone);
    assert_eq!(allowed.code, 0, "{}", allowed.stderr);
}

#[test]
fn keeps_the_clone_and_reports_a_missing_object() {
    let sandbox = sandbox();
    let source = sandbox.repo("plain");
    let blob = source.git(&["rev-parse", "HEAD:dir/b"]).stdout.trim().to_str_lossy().into_owned();
    source.remove(format!(".git/objects/{}/{}", &blob[..2], &blob[2..]));
    let run = sandbox.repo("").run(Path::new(SAPWOOD), &["clone", "plain", "copy"]);
    assert_eq!(run.code, 128);
    let said = run.stderr.to_string();
    assert!(said.contains(&blob) && said.contains("fatal: unable to checkout working tree\n"), "{said}");
    assert!(said.contains("warning: Clone succeeded, but checkout failed.\n"), "{said}");
    let copy = sandbox.repo("copy");
    assert_eq!(copy.git(&["status", "--porcelain"]).stdout, " D dir/b\n");
    assert!(!copy.exists(".git/index.lock") && !copy.exists(".git/sapwood-clone"));
}

#[test]
fn finishes_an_unfinished_clone_but_keeps_foreign_branches() {
    let sandbox = sandbox();
    let root = sandbox.repo("");
    let clone = ["clone", "plain", "copy"];
    let source = sandbox.path().join("plain").display().to_string();
    let copy = sandbox.repo("copy");
    let marker = format!("{}\n{source}\n", i32::MAX);

    // Simulates a clone that was killed while it wrote the worktree.
    root.git(&["clone", "-q", "plain", "copy"]);
    copy.write(".git/sapwood-clone", &marker);
    copy.remove(".git/index");
    copy.write(".git/index.lock", "");
    copy.write("a", "ch");
    copy.remove("dir");
    copy.write("notes", "the user's");
    let run = root.run(Path::new(SAPWOOD), &clone);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(copy.git(&["status", "--porcelain"]).stdout, "?? notes\n");
    assert!(!copy.exists(".git/sapwood-clone") && !copy.exists(".git/index.lock"));

    // The clone is finished, so a second run changes nothing.
    let refused = root.run(Path::new(SAPWOOD), &clone);
    assert_eq!(refused.code, 128);
    let text = "fatal: destination path 'copy' already exists and is not an empty directory.\n";
    assert_eq!(refused.stderr, text);

    // Simulates a clone that was killed before it wrote refs. It is refused if the repository has a
    // branch that was created since.
    root.remove("copy");
    copy.write(".git/sapwood-clone", &marker);
    copy.write(".git/HEAD", "ref: refs/heads/unfinished-clone\n");
    copy.write(".git/refs/heads/topic/mine", "0123456789012345678901234567890123456789\n");
    let refused = root.run(Path::new(SAPWOOD), &clone);
    assert_eq!((refused.code, refused.stderr.to_string()), (128, text.to_owned()));
    assert!(copy.exists(".git/refs/heads/topic/mine"));
    copy.remove(".git/refs/heads/topic/mine");
    let run = root.run(Path::new(SAPWOOD), &clone);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(copy.git(&["status", "--porcelain"]).stdout, "");
}

#[test]
fn dry_run_changes_nothing() {
    let sandbox = sandbox();
    let before = tree(&sandbox.path());
    let run = sandbox.repo("").run(Path::new(SAPWOOD), &["clone", "--dry-run", "plain", "copy"]);
    assert_eq!((run.code, run.stderr), (0, BString::default()));
    let source = sandbox.path().join("plain/.git").display().to_string();
    assert_eq!(run.stdout, format!("Would clone the repository '{source}' into 'copy'\n"));
    assert!(before == tree(&sandbox.path()));
}

/// `url.<base>.insteadOf` is applied once, by every command.
#[test]
fn rewrites_a_url_once() {
    let sandbox = Sandbox::new();
    for name in ["first/o", "second/o"] {
        let repo = sandbox.init(name);
        repo.write("name", name);
        repo.commit(name);
    }
    let place = sandbox.path();
    let (first, second) = (place.join("first"), place.join("second"));
    sandbox.repo("home").write(
        ".gitconfig",
        format!(
            "[url \"file://{first}/\"]\n\tinsteadOf = gh:\n[url \"file://{second}/\"]\n\tinsteadOf = file://{first}/\n\
             [protocol \"file\"]\n\tallow = always\n",
            first = first.display(),
            second = second.display()
        ),
    );
    let top = sandbox.repo("");
    let ours = |repo: &Repo<'_>, args: &[&str]| {
        let run = repo.run(Path::new(SAPWOOD), args);
        assert_eq!(run.code, 0, "{args:?}: {}", run.stderr);
        run
    };
    let head = sandbox.repo("first/o").git(&["rev-parse", "HEAD"]).stdout;
    for args in [&["clone", "-q", "gh:o", "made"][..], &["clone", "-q", "--depth=1", "gh:o", "made"]] {
        ours(&top, args);
        let made = sandbox.repo("made");
        assert_eq!(made.read("name"), "first/o", "{args:?}");
        for args in [&["fetch"][..], &["pull", "--ff-only"], &["fetch", "gh:o"]] {
            ours(&made, args);
            let fetched = made.git(&["rev-parse", "FETCH_HEAD"]).stdout;
            assert_eq!(fetched, head, "{args:?}");
        }
        assert!(ours(&made, &["ls-remote", "origin"]).stdout.starts_with(&head[..40]));
        top.remove("made");
    }
    // As with Git, a URL that is written out is rewritten too, once.
    let url = format!("file://{}/o", first.display());
    ours(&top, &["clone", "-q", &url, "made"]);
    assert_eq!(sandbox.repo("made").read("name"), "second/o");
    let outer = sandbox.init("outer");
    outer.git(&["submodule", "--quiet", "add", "gh:o", "sub"]);
    outer.commit("with a submodule");
    ours(&top, &["clone", "-q", "--recurse-submodules", "outer", "copy"]);
    assert_eq!(sandbox.repo("copy").read("sub/name"), "first/o");
    ours(&sandbox.repo("copy"), &["fetch", "-q", "--recurse-submodules"]);
    assert_eq!(sandbox.repo("copy/sub").git(&["rev-parse", "FETCH_HEAD"]).stdout, head);
}
