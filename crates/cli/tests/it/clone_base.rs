//! `clone --base`: a clone that begins with a base, and takes what is newer from the server.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use testkit::{
    Repo, Run,
    crash::{Crash, CrashPoints},
    servers::Nginx,
};

use crate::{
    SAPWOOD,
    base::{FILES, Fleet, files_below},
    killed::{ALL, Most, at_crash_points},
};

/// A server that takes pushes and filters, whose branch is one commit ahead of its base.
fn fleet(push: &[&str]) -> Fleet {
    let fleet = Fleet::new();
    let origin = fleet.origin();
    origin.git(&["config", "uploadpack.allowFilter", "true"]);
    origin.git(&["config", "receive.denyCurrentBranch", "ignore"]);
    sapwood(&origin, &[&["base", "push", "-q"], push, &[&fleet.remote()]].concat());
    fleet
}

fn advance(fleet: &Fleet) {
    fleet.origin().write("many/8", "eight\n");
    fleet.origin().write("new", "new\n");
    fleet.origin().commit("three");
}

/// Returns the words of a clone into the directory `name` of the sandbox.
fn words(fleet: &Fleet, name: &str, args: &[&str]) -> Vec<String> {
    let url = format!("file://{}", fleet.origin().path.display());
    let bases = format!("sapwood.baseDir={}", fleet.bases(name).display());
    let dir = fleet.sandbox.path().join(name).display().to_string();
    [&["clone", "-c", &bases], args, &[&url, &dir]].concat().into_iter().map(str::to_owned).collect()
}

/// Runs `sapwood clone` into the directory `name` of the sandbox.
fn clone(fleet: &Fleet, name: &str, args: &[&str]) -> Run {
    let words = words(fleet, name, args);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    fleet.origin().run(SAPWOOD.as_ref(), &words)
}

#[track_caller]
fn cloned<'f>(fleet: &'f Fleet, name: &str, args: &[&str]) -> Repo<'f> {
    let run = clone(fleet, name, args);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    fleet.sandbox.repo(name)
}

fn missing(repo: &Repo<'_>) -> usize {
    let listed = repo.git(&["rev-list", "--objects", "--missing=print", "HEAD"]).stdout.to_string();
    listed.lines().filter(|line| line.starts_with('?')).count()
}

fn files(repo: &Repo<'_>) -> String {
    repo.run("sh".as_ref(), &["-ec", FILES]).stdout.to_string()
}

#[track_caller]
fn sapwood(repo: &Repo<'_>, args: &[&str]) -> String {
    let run = repo.run(SAPWOOD.as_ref(), args);
    assert_eq!(run.code, 0, "{args:?}: {}{}", run.stdout, run.stderr);
    run.stdout.to_string()
}

#[test]
fn a_clone_takes_only_newer_objects_from_the_server() {
    let fleet = fleet(&["--no-mount"]);
    advance(&fleet);
    let remote = fleet.remote();
    let repo = cloned(&fleet, "clone", &["--base", &remote]);
    assert_eq!(repo.git(&["status", "--porcelain=v2", "--branch"]).code, 0);
    assert_eq!(repo.git(&["rev-parse", "HEAD"]).stdout.to_string().trim(), fleet.commit("HEAD"));
    assert_eq!(files(&repo), fleet.checkout(&fleet.commit("HEAD")));
    // The two newer blobs came; the others lie in the base directory alone.
    assert!(missing(&repo) > 50, "{} objects are missing", missing(&repo));
    assert_eq!(repo.git(&["config", "remote.origin.promisor"]).stdout, "true\n");
    assert_eq!(repo.git(&["config", "remote.origin.partialclonefilter"]).stdout, "blob:none\n");
    repo.git(&["fsck", "--connectivity-only"]);
    repo.git(&["fsck"]);
    assert_eq!(sapwood(&repo, &["status", "--porcelain"]), "");
    assert_eq!(repo.git(&["log", "--format=%s", "-2"]).stdout, "three\ntwo\n");

    // Without the server, contents serve whoever reads.
    let away = fleet.sandbox.path().join("away");
    fs::rename(&fleet.origin().path, &away).expect("moved");
    fs::remove_file(repo.join("many/9")).expect("removed");
    fs::write(repo.join("dir/deep/file"), "changed\n").expect("written");
    sapwood(&repo, &["restore", "."]);
    assert_eq!(sapwood(&repo, &["status", "--porcelain"]), "");
    fs::rename(&away, &fleet.origin().path).expect("moved back");

    repo.write("many/3", "a change\n");
    sapwood(&repo, &["commit", "-q", "-a", "-m", "four"]);
    repo.git(&["push", "-q", "origin", "HEAD:refs/heads/ours"]);
    fleet.origin().git(&["fsck"]);
    assert_eq!(fleet.commit("ours~1"), fleet.commit("main"));
    repo.git(&["fsck"]);
}

#[test]
fn a_clone_becomes_a_workspace_of_a_bare_repository() {
    let fleet = fleet(&["--no-mount"]);
    for (name, is_newer) in [("same", false), ("newer", true)] {
        if is_newer {
            advance(&fleet);
        }
        let remote = fleet.remote();
        let repo = cloned(&fleet, name, &["--base", &remote, "--workspace"]);
        let bare = fleet.sandbox.repo(&format!("{name}.git"));
        assert_eq!(bare.git(&["rev-parse", "--is-bare-repository"]).stdout, "true\n");
        assert_eq!(bare.git(&["rev-parse", "origin/main"]).stdout.to_string().trim(), fleet.commit("main"));
        let inside = |words: &str| {
            let args = ["workspace", "exec", name, "--", "sh", "-ec", words];
            sapwood(&bare, &args)
        };
        assert_eq!(inside(FILES), fleet.checkout(&fleet.commit("main")), "{name}");
        assert_eq!(inside("git status --porcelain"), "");
        assert_eq!(inside("git symbolic-ref HEAD"), "refs/heads/main\n");
        inside(&format!("echo x >many/1; {SAPWOOD} commit -qam changed; git push -q origin HEAD:{name}"));
        assert_eq!(fleet.commit(&format!("{name}~1")), fleet.commit("main"));
        sapwood(&bare, &["workspace", "remove", name]);
        assert!(!repo.exists(""));
    }
}

/// A commit in a clone asks nobody for an object: the server and the remote are gone.
#[test]
fn a_commit_fetches_nothing() {
    let fleet = fleet(&["--no-mount"]);
    advance(&fleet);
    let remote = fleet.remote();
    let plain = cloned(&fleet, "plain", &["--base", &remote]);
    cloned(&fleet, "inside", &["--base", &remote, "--workspace"]);
    let away = |path: &Path| fs::rename(path, path.with_extension("away")).expect("moved");
    away(&fleet.origin().path);
    away(&fleet.dir());
    let work = format!(
        "echo changed >file; echo changed >many/1; echo new >many/new; mkdir -p own/deep; echo x >own/deep/file; \
         rm many/2; {SAPWOOD} add -A; {SAPWOOD} commit -q -m all; \
         echo more >>dir/deep/file; {SAPWOOD} commit -q -a -m more; \
         test -z \"$({SAPWOOD} status --porcelain)\"; git diff --quiet HEAD; git log --format=%s -3"
    );
    let expected = "more\nall\nthree\n";
    let run = plain.run("sh".as_ref(), &["-ec", &work]);
    assert_eq!((run.code, run.stdout.to_string()), (0, expected.to_owned()), "{}", run.stderr);
    let bare = fleet.sandbox.repo("inside.git");
    let said = sapwood(&bare, &["workspace", "exec", "inside", "--", "sh", "-ec", &work]);
    assert_eq!(said, expected);
    for repo in [&plain, &bare] {
        repo.git(&["fsck", "--connectivity-only"]);
    }
}

/// A clone that was killed before any change is finished by the same command. If it was complete,
/// the answer is that of Git.
#[test]
fn a_killed_clone_is_finished_by_the_same_command() {
    killed(&fleet(&["--no-mount"]), &[], 10);
}

#[test]
fn a_killed_clone_with_a_workspace_is_finished_by_the_same_command() {
    killed(&fleet(&["--no-mount"]), &["--workspace"], 14);
}

/// Where no upper layer can lie, the files of a workspace come from a checkout.
#[test]
fn a_killed_clone_with_a_copied_workspace_is_finished_by_the_same_command() {
    let fleet = fleet(&["--no-mount"]);
    for number in 0..1000 {
        fleet.origin().write(format!("bulk/{}/{number}", number % 7), format!("{number}\n"));
    }
    fleet.origin().commit("bulk");
    sapwood(&fleet.origin(), &["base", "push", "-q", "--no-mount", &fleet.remote()]);
    let dirs = ["lower", "upper", "work", "overlay"].map(|name| fleet.sandbox.path().join(name));
    dirs.iter().for_each(|dir| fs::create_dir(dir).expect("a new directory"));
    let [lower, upper, work, overlay] = dirs.map(|dir| dir.display().to_string());
    let layers = format!("lowerdir={lower},upperdir={upper},workdir={work}");
    let mount = Command::new("mount").args(["-t", "overlay", "-o", &layers, "overlay", &overlay]).status();
    if !mount.expect("mount runs").success() {
        println!("skipped: this user may not mount");
        return;
    }
    let setting = format!("sapwood.upperDir={overlay}");
    killed(&fleet, &["--workspace", "-c", &setting], 14);
    let made = clone(&fleet, "last", &["-q", "--base", &fleet.remote(), "--workspace", "-c", &setting]);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let list = sapwood(&fleet.sandbox.repo("last.git"), &["workspace", "list", "--json"]);
    assert!(list.contains("\"copy\""), "{list}");
}

fn killed(fleet: &Fleet, options: &[&str], slice: usize) {
    advance(fleet);
    let (remote, head) = (fleet.remote(), fleet.commit("HEAD"));
    let args = [&["-q", "--base", &remote], options].concat();
    let is_workspace = !options.is_empty();
    let command = |name: &str| {
        let words = words(fleet, name, &args);
        let mut command = fleet.origin().command(SAPWOOD.as_ref());
        command.args(words);
        command
    };
    let points = CrashPoints::of(&command("whole"));
    let (mut finished, mut resumed) = (0, 0);
    at_crash_points(&points, &Most(slice, ALL), |number| {
        let name = format!("copy{number}");
        let words = words(fleet, &name, &args);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let copy = fleet.sandbox.repo(&name);
        let git_dir = if is_workspace {
            fleet.sandbox.repo(&format!("{name}.git"))
        } else {
            fleet.sandbox.repo(&format!("{name}/.git"))
        };
        let crash = Crash::before(number, &command(&name));
        let context = crash.to_string();
        let is_complete = git_dir.exists("HEAD") && !git_dir.exists("sapwood-clone");
        let run = fleet.origin().run(SAPWOOD.as_ref(), &words);
        if is_complete {
            finished += 1;
            assert_eq!(run.code, 128, "{context}: {}", run.stderr);
            let said = "already exists and is not an empty directory.";
            assert!(run.stderr.to_string().contains(said), "{context}: {}", run.stderr);
        } else {
            resumed += 1;
            assert_eq!(run.code, 0, "{context}: {}", run.stderr);
        }
        assert!(!git_dir.exists("sapwood-clone"), "{context}: the marker is left");
        let inside = |words: &str| {
            if is_workspace {
                sapwood(&git_dir, &["workspace", "exec", &name, "--", "sh", "-ec", words])
            } else {
                let run = copy.run("sh".as_ref(), &["-ec", words]);
                assert_eq!(run.code, 0, "{context}: {}", run.stderr);
                run.stdout.to_string()
            }
        };
        assert_eq!(inside(FILES), fleet.checkout(&head), "{context}");
        assert_eq!(
            inside("git status --porcelain; git rev-parse HEAD; git symbolic-ref HEAD"),
            format!("{head}\nrefs/heads/main\n"),
            "{context}"
        );
        let fsck = git_dir.try_git(&["fsck", "--no-dangling"]);
        assert_eq!(fsck.code, 0, "{context}: {}", fsck.stderr);
        let worktrees = git_dir.git(&["worktree", "list", "--porcelain"]).stdout.to_string();
        assert_eq!(worktrees.matches("worktree ").count(), 1 + usize::from(is_workspace), "{worktrees}");
        let left = files_below(&fleet.bases(&name)).into_iter().chain(files_below(&git_dir.path));
        let is_left = |path: &std::path::PathBuf| {
            let path = path.to_string_lossy();
            [".transfer-", ".clone-", "/.new-", ".lock"].iter().any(|word| path.contains(word))
                && !path.ends_with("/.scratch-lock")
        };
        assert_eq!(left.filter(is_left).collect::<Vec<_>>(), Vec::<std::path::PathBuf>::new(), "{context}");
        if is_workspace {
            sapwood(&git_dir, &["workspace", "remove", &name]);
            assert!(!copy.exists(""), "{context}");
        }
        crash.happened()
    });
    println!("{resumed} clones were resumed, {finished} were complete");
    assert!(resumed > 0, "each kill came after the end");
}

#[test]
fn contents_of_a_shared_directory_are_used_where_they_lie() {
    let fleet = fleet(&[]);
    advance(&fleet);
    let remote = fleet.remote();
    let repo = cloned(&fleet, "clone", &["--base", &remote]);
    assert_eq!(files(&repo), fleet.checkout(&fleet.commit("HEAD")));
    let room = |dir: &Path| -> u64 {
        let files = files_below(&dir.join("blobs")).into_iter();
        files.map(|file| fs::metadata(file).expect("a file").len()).sum()
    };
    assert!(room(&fleet.dir().join("bases")) > 3 << 20);
    assert!(room(&fleet.bases("clone")) < 4096, "{} bytes were copied", room(&fleet.bases("clone")));
    repo.git(&["fsck"]);
}

#[test]
fn without_a_base_it_is_an_ordinary_clone() {
    let fleet = Fleet::new();
    let remote = fleet.remote();
    let run = clone(&fleet, "clone", &["--base", &remote]);
    let repo = fleet.sandbox.repo("clone");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stderr.to_string().contains("has no base of branch 'main'; cloning without one"),
        "{}",
        run.stderr
    );
    assert_eq!(missing(&repo), 0);
    assert_ne!(repo.run("git".as_ref(), &["config", "remote.origin.promisor"]).code, 0);
    assert_eq!(files(&repo), fleet.checkout(&fleet.commit("HEAD")));
}

#[test]
fn a_base_that_is_damaged_leaves_nothing() {
    let fleet = fleet(&["--no-mount"]);
    for path in files_below(&fleet.dir().join("data")) {
        let mut bytes = fs::read(&path).expect("read");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        let _ = fs::remove_file(&path);
        fs::write(&path, bytes).expect("written");
    }
    let remote = fleet.remote();
    for args in [&["--base", &remote][..], &["--base", &remote, "--workspace"]] {
        let run = clone(&fleet, "clone", args);
        assert_eq!(run.code, 128, "{}", run.stderr);
        assert!(run.stderr.to_string().contains("is damaged"), "{}", run.stderr);
        for name in ["clone", "clone.git"] {
            assert!(!fleet.sandbox.path().join(name).exists(), "{name} is left");
        }
    }
    let run = clone(&fleet, "clone", &["--base", &remote, "--workspace", "--bare"]);
    assert!(
        run.stderr.to_string().contains("'--workspace' and '--bare' cannot be used together"),
        "{}",
        run.stderr
    );
}

/// A web server that does not admit the caller, or that the caller does not trust.
#[test]
fn a_remote_that_cannot_be_used_is_named_and_leaves_nothing() {
    const SECRET: &str = "not-the-password";
    let fleet = fleet(&["--no-mount"]);
    let (server, other) = (Nginx::start(&fleet.dir()), Nginx::start(&fleet.dir()));
    let trust = |server: &Nginx| format!("http.sslCAInfo={}", server.ca_file().display());
    let helper = |password: &str| {
        let answer = format!("username={}\\npassword={password}\\n", Nginx::USER);
        format!("credential.helper=!printf '{answer}'; :")
    };
    let (closed, open) = (server.tls_url("auth-files"), server.tls_url("files"));
    let with_secret = closed.replace("https://", &format!("https://{}:{SECRET}@", Nginx::USER));
    let denied = ["access denied", "401", "credential.helper"];
    let refused = ["certificate is refused", "no trusted authority", "http.sslCAInfo"];
    let cases = [
        (&closed, &closed, vec![trust(&server)], denied),
        (&closed, &closed, vec![trust(&server), helper(SECRET)], denied),
        (&with_secret, &closed, vec![trust(&server)], denied),
        (&open, &open, vec![], refused),
        (&open, &open, vec![trust(&other)], refused),
        (&closed, &closed, vec![helper(SECRET)], refused),
    ];
    let temporary = fleet.sandbox.path().join("tmp");
    fs::create_dir(&temporary).expect("a new directory");
    let run = |remote: &str, settings: &[String], more: &[&str]| {
        let settings = settings.iter().flat_map(|setting| ["-c", setting]);
        let args: Vec<&str> =
            ["--base", remote].into_iter().chain(settings).chain(more.iter().copied()).collect();
        let mut command = fleet.origin().command(SAPWOOD.as_ref());
        command.args(words(&fleet, "clone", &args)).env("TMPDIR", &temporary).stdin(Stdio::null());
        let output = command.output().expect("it runs");
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    };
    let all = || [files_below(&fleet.sandbox.path()), files_below(fleet.dir().parent().expect("the disk"))];
    let before = all();
    for (remote, shown, settings, words) in &cases {
        for more in [&[][..], &["--workspace"]] {
            let context = format!("{remote} {settings:?} {more:?}");
            let (code, said) = run(remote, settings, more);
            assert_eq!(code, Some(128), "{context}: {said}");
            let is_named = said.contains(&shown["https://".len()..]);
            assert!(is_named && words.iter().all(|words| said.contains(words)), "{context}: {said}");
            assert!(!said.contains(SECRET), "{context}: {said}");
            assert_eq!(all(), before, "{context}");
            let dirs = ["clone", "clone.git"].map(|name| fleet.sandbox.path().join(name));
            assert!(!dirs.iter().any(|dir| dir.exists()) && !fleet.bases("clone").exists(), "{context}");
        }
    }
    // The settings that the messages name.
    let (code, said) = run(&closed, &[trust(&server), helper(Nginx::PASSWORD)], &["-q"]);
    assert_eq!((code, &*said), (Some(0), ""));
    assert_eq!(files(&fleet.sandbox.repo("clone")), fleet.checkout(&fleet.commit("HEAD")));
}
