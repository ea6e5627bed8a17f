//! The clone of a hostile job: the next checkout changes nothing outside of it, waits for nothing,
//! succeeds, and has the files and refs of a new clone.

use std::{fs, os::unix::fs::MetadataExt as _, path::Path, process::Stdio};

use testkit::{Repo, servers::Nginx};

use super::{Server, state};
use crate::SAPWOOD;

/// A name, a script of the hostile job, and one that must succeed after the next checkout.
type Case = (&'static str, &'static str, &'static str);

/// Functions of the scripts. `gitlink` writes an index with a path that Git refuses: it stands in
/// the place of one with the same length, in an index without a checksum.
const FUNCTIONS: &str = r#"
gitlink() {
    from=$(printf %s "$1" | tr / 0)
    git -c index.skipHash=true update-index --add --cacheinfo 160000,$(git rev-parse HEAD),$from
    FROM=$from TO=$1 perl -0pi -e 's/\Q$ENV{FROM}\E/$ENV{TO}/' .git/index
}
older() { git update-ref refs/remotes/origin/main $(git commit-tree -m x HEAD^{tree}); }
deep() { perl -e 'for (1..3000) { mkdir "a" or die; chdir "a" or die }'; }
"#;

/// Ways out of the directory. `$OUT` has the file `precious` and the directory `heads` with a ref.
const OUTSIDE: &[Case] = &[
    ("a submodule at an absolute path", "gitlink $OUT/heads", ""),
    ("a submodule below a link", "ln -s $OUT link; gitlink link/heads", ""),
    (
        "a link in the place of a directory",
        "rm -r docs; mkdir $OUT/docs; echo x >$OUT/docs/page; ln -s $OUT/docs docs",
        "",
    ),
    ("local branches elsewhere", "rm -r .git/refs/heads; ln -s $OUT/heads .git/refs/heads", ""),
    ("one local branch elsewhere", "ln -s $OUT/heads/one .git/refs/heads/two", ""),
    (
        "remote-tracking branches elsewhere",
        "rm -r .git/refs/remotes/origin; ln -s $OUT/heads .git/refs/remotes/origin",
        "",
    ),
    ("a log elsewhere", "mkdir -p .git/logs; ln -sf $OUT/precious .git/logs/HEAD", ""),
    ("a log with another name", "mkdir -p .git/logs; ln -f $OUT/precious .git/logs/HEAD", ""),
    (
        "logs elsewhere",
        "rm -rf .git/logs; mkdir $OUT/logs; echo x >$OUT/logs/HEAD; ln -s $OUT/logs .git/logs",
        "",
    ),
    (
        "a log of a submodule",
        "mkdir -p .git/modules/sub/logs; ln -sf $OUT/precious .git/modules/sub/logs/HEAD",
        "",
    ),
    (
        "a replacement of an object elsewhere",
        "mkdir $OUT/replace; git rev-parse HEAD >$OUT/replace/$(git rev-parse HEAD:README)
         ln -s $OUT/replace .git/modules/sub/refs/replace",
        "",
    ),
    (
        "refs in a storage elsewhere",
        "git config core.repositoryFormatVersion 1; git config extensions.refStorage files://$OUT",
        "",
    ),
    (
        "settings of a submodule elsewhere",
        "git config -f $OUT/config include.path $OUT/sapwood-ci-1-0.config
         ln -sf $OUT/config .git/modules/sub/config",
        "",
    ),
    (
        "submodules elsewhere",
        "git config -f .git/modules/sub/config include.path $OUT/sapwood-ci-1-0.config
         mv .git/modules $OUT/modules; ln -s $OUT/modules .git/modules",
        "",
    ),
    (
        "files with the names of credentials",
        "touch $OUT/sapwood-ci-1-0.key $OUT/sapwood-ci-1-0.hosts; git config include.path $OUT/sapwood-ci-1-0.config",
        "",
    ),
    (
        "credentials of another job",
        "echo \"# Credentials of one job, written by 'sapwood ci checkout'.\" >$OUT/sapwood-ci-1-0.config
         touch $OUT/sapwood-ci-1-0.key; git config include.path $OUT/sapwood-ci-1-0.config",
        "",
    ),
    ("a repository elsewhere", "mv .git $OUT/git; ln -s $OUT/git .git", ""),
    (
        "a link among objects",
        "rm -r .git/objects/pack; mkdir -p $OUT/pack; ln -s $OUT/pack .git/objects/pack",
        "",
    ),
    (
        "sapwood's files elsewhere",
        "mkdir -p $OUT/x .git/sapwood; ln -s $OUT/x .git/sapwood/trash; touch $OUT/x/y",
        "",
    ),
];

/// Content for which a program waits, that it cannot read, or that it does not remove.
const OBSTACLES: &[Case] = &[
    ("a FIFO for a log", "mkdir -p .git/logs; rm -f .git/logs/HEAD; mkfifo .git/logs/HEAD", ""),
    ("a FIFO for the configuration", "rm .git/config; mkfifo .git/config", ""),
    (
        "a FIFO for the configuration of a submodule",
        "rm .git/modules/sub/config; mkfifo .git/modules/sub/config",
        "",
    ),
    ("a FIFO that is included", "mkfifo ../fifo; git config include.path $PWD/../fifo", ""),
    ("an endless file that is included", "git config include.path /dev/zero", ""),
    ("a large configuration", "truncate -s 3T .git/config", ""),
    (
        "a FIFO for credentials",
        "mkfifo ../sapwood-ci-1-0.config; git config include.path $PWD/../sapwood-ci-1-0.config",
        "",
    ),
    (
        "a FIFO for credentials in the repository",
        "mkfifo .git/sapwood-ci-1-0.config; touch .git/sapwood-ci-1-0.key",
        "",
    ),
    ("a directory with the name of a key", "mkdir -p .git/sapwood-ci-1-0.key/x", ""),
    ("a FIFO for HEAD", "rm .git/HEAD; mkfifo .git/HEAD", ""),
    ("a FIFO for HEAD of a submodule", "rm .git/modules/sub/HEAD; mkfifo .git/modules/sub/HEAD", ""),
    ("a FIFO for a ref", "mkfifo .git/refs/heads/x", ""),
    ("a FIFO for a pack", "mkfifo .git/objects/pack/pack-$(git rev-parse HEAD).idx", ""),
    ("a FIFO for commondir", "mkfifo .git/commondir", ""),
    ("a FIFO for the index", "rm .git/index; mkfifo .git/index", ""),
    (
        "a list of places of a shared index",
        "git update-index --split-index; for file in .git/sharedindex.*; do echo x >$file.places; done",
        "! ls .git/sharedindex.*.places",
    ),
    ("a submodule without a commit", "git -C sub symbolic-ref HEAD refs/heads/none", ""),
    ("a FIFO of a linked worktree", "mkdir -p .git/worktrees/x; mkfifo .git/worktrees/x/gitdir", ""),
    ("a FIFO for .git", "rm -r .git; mkfifo .git", ""),
    ("a FIFO for .git of a submodule", "rm sub/.git; mkfifo sub/.git", ""),
    ("a FIFO for .gitmodules", "rm .gitmodules; mkfifo .gitmodules", ""),
    ("a broken configuration of a submodule", "echo '[' >.git/modules/sub/config", ""),
    ("a file for modules", "rm -r .git/modules; echo x >.git/modules", ""),
    ("a link for modules", "rm -r .git/modules; ln -s modules .git/modules", ""),
    ("a submodule without HEAD", "rm .git/modules/sub/HEAD", ""),
    (
        "two addresses",
        "git config --add remote.origin.url https://evil.invalid/",
        "test $(git config --get-all remote.origin.url | wc -l) = 1",
    ),
    (
        "two addresses, the right one last",
        "git config --replace-all remote.origin.url https://evil.invalid/
         git config --add remote.origin.url $URL",
        "test $(git config --get-all remote.origin.url) = $URL",
    ),
    (
        "two addresses of a submodule",
        "git config --add submodule.sub.url /a; git config --add submodule.sub.url /b",
        "",
    ),
    (
        "two addresses in a submodule",
        "git -C sub config --add remote.origin.url /a",
        "test $(git -C sub config --get-all remote.origin.url | wc -l) = 1",
    ),
    ("another remote", "git config remote.ORIGIN.url /a", "! git config --get remote.ORIGIN.url"),
    (
        "a branch that another worktree seems to have",
        "mkdir -p .git/worktrees/x; echo ref: refs/heads/main >.git/worktrees/x/HEAD
         echo $PWD/../x/.git >.git/worktrees/x/gitdir; echo ../.. >.git/worktrees/x/commondir",
        "",
    ),
    ("a worktree of a broken repository", "mkdir -p .git/worktrees/x; echo '[' >.git/config", ""),
    ("a file for .git", "rm -r .git; echo gitdir: /nowhere >.git", ""),
    (
        "a file for .git that leads to another repository",
        "mv .git ../git; echo gitdir: $PWD/../git >.git",
        "",
    ),
    ("a mark of a workspace", "rm -r .git; echo not mounted: /nowhere >.git", ""),
    ("a link for .git", "rm -r .git; ln -s nowhere .git", ""),
    (
        "a ref without an object",
        "mkdir -p .git/refs/tags; git rev-parse HEAD | tr 0-9 a-j | tr g-j a-d >.git/refs/tags/x",
        "",
    ),
    (
        "a ref that leads to itself",
        "rm -f .git/refs/remotes/origin/main; echo ref: refs/remotes/origin/main >.git/refs/remotes/origin/main",
        "",
    ),
    (
        "a lock of a ref",
        "older; mkdir -p .git/refs/heads; touch .git/refs/remotes/origin/main.lock .git/refs/heads/main.lock",
        "",
    ),
    (
        "a directory in the place of a ref",
        "git update-ref -d refs/remotes/origin/main; mkdir -p .git/refs/remotes/origin/main/x
         touch .git/refs/remotes/origin/main/x/a..b",
        "",
    ),
    (
        "objects without content",
        "chmod -R u+w .git/objects; find .git/objects -type f -exec truncate -s 1 {} +",
        "",
    ),
    ("no objects", "rm -r .git/objects; mkdir .git/objects", ""),
    ("a border of the history", "git rev-parse HEAD | tr 0-9 a-f0-3 >>.git/shallow", ""),
    ("a wrong border of the history", "echo x >.git/shallow", ""),
    (
        "a partial clone",
        "git config remote.origin.promisor true; git config remote.origin.partialCloneFilter x",
        "",
    ),
    ("a bare repository", "git config core.bare true", ""),
    ("deep directories", "deep", ""),
    ("deep directories in the repository", "cd .git/refs; deep", ""),
    ("deep directories for a submodule", "cd .git/modules; deep", ""),
    ("a closed directory", "mkdir -p closed/inner; chmod 0 closed/inner closed", ""),
    ("a closed repository", "chmod 0 .git/objects .git/refs .git", ""),
    ("a closed worktree", "chmod 0 .", ""),
    ("a worktree that cannot be changed", "chmod 0555 . docs .git", ""),
];

/// Content that a later job takes for its own.
const REMAINS: &[Case] = &[
    ("a repository in a directory of the commit", "git init -q docs; git -C docs config x.y z", "test ! -e docs/.git"),
    ("a file for a repository in a directory of the commit", "echo gitdir: $OUT >src/lib/.git", "test ! -e src/lib/.git"),
    ("a repository in a directory of a submodule", "git init -q sub/docs", "test ! -e sub/docs/.git"),
    (
        "a replaced object of a submodule",
        "cd sub; git replace $(git rev-parse HEAD:README) $(echo evil | git hash-object -w --stdin)
         rm README; git checkout -q README; grep -q evil README",
        "test -z \"$(git -C sub for-each-ref refs/replace)\"",
    ),
    (
        "a packed replacement in a submodule without a worktree",
        "git -C sub replace $(git -C sub rev-parse HEAD:README) $(echo evil | git -C sub hash-object -w --stdin)
         git -C sub pack-refs --all; rm -r sub; mkdir sub",
        "test -z \"$(git -C sub for-each-ref refs/replace)\"",
    ),
    ("the address of a submodule", "git -C sub config remote.origin.url /evil", "git -C sub config remote.origin.url | grep -q /inner.git"),
    (
        "the address of a submodule without a worktree",
        "git -C sub config remote.origin.url /evil; git -C sub/sub config remote.origin.url /evil
         git submodule deinit -q -f --all",
        "git -C sub config remote.origin.url | grep -q /inner.git
         git -C sub/sub config remote.origin.url | grep -q /innermost.git",
    ),
    (
        "a file whose name has another case",
        "git config core.ignoreCase true; echo evil >docs/PAGE; echo evil >DOCS",
        "! git config --get core.ignoreCase true",
    ),
    ("files in the place of links", "git config core.symlinks false", "! git config core.symlinks"),
    ("modes that do not count", "git config core.fileMode false; chmod +x README", "test ! -x README"),
    ("an untracked cache", "echo evil >new; git update-index --untracked-cache --force-untracked-cache; git status", ""),
    ("a split index", "git update-index --split-index --assume-unchanged README; echo evil >README", ""),
    (
        "a file outside of the sparse checkout",
        "git sparse-checkout set --no-cone '/*' '!/docs/'; mkdir -p docs; echo evil >docs/page; echo evil >docs/more",
        "",
    ),
    (
        "a hidden file in a sparse checkout",
        "git sparse-checkout set --no-cone '/*'; git update-index --skip-worktree README; echo evil >README",
        "",
    ),
    ("notes about pulls and workspaces", "mkdir -p .git/sapwood/workspaces/x; touch .git/sapwood/workspaces/x/record", "test ! -e .git/sapwood/workspaces"),
    ("grafts", "git rev-parse HEAD >.git/info/grafts", "test ! -e .git/info/grafts"),
    ("a merge", "git rev-parse HEAD >.git/MERGE_HEAD; mkdir .git/rr-cache .git/rebase-merge", "test ! -e .git/MERGE_HEAD && test ! -e .git/rr-cache"),
];

/// Returns the names and contents below a directory, links not followed.
fn content(dir: &Path) -> String {
    let script = "find . | sort; find . -type f | sort | xargs -r sha1sum; find . -type l -printf '%p %l\\n'";
    let mut find = std::process::Command::new("sh");
    let output = find.current_dir(dir).args(["-ec", script]).output().expect("a shell");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("UTF-8")
}

struct Scene<'s> {
    server: &'s Server,
    fresh: Vec<String>,
    url: String,
}

impl<'s> Scene<'s> {
    fn new(server: &'s Server) -> Scene<'s> {
        let url = server.url("app");
        let at = server.dir("fresh/app");
        server.check_out(&at, &["--ref=refs/heads/main", "--submodules=recursive", &url]);
        Scene { server, fresh: state(&at), url }
    }

    fn shell(&self, at: &Repo<'_>, script: &str) -> bool {
        let mut command = at.command("sh".as_ref());
        command.env("OUT", at.path.with_file_name("out")).env("URL", &self.url).stdout(Stdio::null());
        command.args(["-ec", &format!("{FUNCTIONS}{script}")]).status().expect("a shell").success()
    }

    /// Runs the jobs of a case.
    fn run(&self, number: usize, (name, plant, check): Case) {
        let top = self.server.dir(&number.to_string());
        let copy = ["-a", "../fresh/app", "app"];
        assert_eq!(top.run("cp".as_ref(), &copy).code, 0);
        top.write("out/precious", "mine\n");
        top.write("out/heads/one", self.server.id("main"));
        let at = self.server.sandbox.repo(&format!("{number}/app"));
        assert!(self.shell(&at, plant), "{name}: the script fails");
        let out = content(&top.join("out"));
        let mut command = at.command("timeout".as_ref());
        command.args([
            "120",
            SAPWOOD,
            "ci",
            "checkout",
            "-q",
            "--token-env=TOKEN",
            "--token-user",
            Nginx::USER,
        ]);
        command.args(["--ref=refs/heads/main", "--submodules=recursive", &self.url]);
        command.env("CI", "true").env("TOKEN", Nginx::PASSWORD).current_dir("/").arg("--path").arg(&at.path);
        let output = command.output().expect("the program");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{name}: {said}");
        assert_eq!(content(&top.join("out")), out, "{name}: files outside have changed: {said}");
        assert_eq!(state(&at), self.fresh, "{name}");
        assert!(self.shell(&at, check), "{name}: {check}: {said}");
        assert!(!at.exists(".sapwood-ci-aside"), "{name}");
        fs::remove_dir_all(&top.path).expect("a directory");
    }
}

fn run(cases: &[Case]) {
    let server = Server::new();
    let scene = Scene::new(&server);
    for (number, case) in cases.iter().enumerate() {
        scene.run(number, *case);
    }
}

#[test]
fn nothing_outside_of_the_directory_changes() {
    run(OUTSIDE);
}

#[test]
fn no_checkout_waits_or_fails_for_ever() {
    run(OBSTACLES);
}

#[test]
fn nothing_planted_remains() {
    run(REMAINS);
}

/// A checkout that fails for another reason than the clone leaves it as it is.
#[test]
fn a_clone_that_is_not_the_reason_stays() {
    let server = Server::new();
    let url = server.url("app");
    let at = server.dir("job");
    server.check_out(&at, &["--ref=refs/heads/main", &url]);
    let fresh = state(&at);
    let git_dir = || at.join(".git").metadata().expect("a directory").ino();
    let before = git_dir();
    let token = ["checkout", "-q", "--token-env=TOKEN", "--token-user", Nginx::USER];
    let absent = format!("--commit={}", "1234".repeat(10));
    for wrong in ["--ref=refs/heads/none", "--ref=none", &absent] {
        let failed = server.ci(&at, &[("CI", "true")], &[&token[..], &[wrong, &url]].concat());
        assert_ne!(failed.code, 0, "{wrong}");
        assert_eq!(git_dir(), before, "{wrong}: {}", failed.stderr);
        assert!(!at.exists(".sapwood-ci-aside"), "{wrong}");
    }
    server.check_out(&at, &["--ref=refs/heads/main", &url]);
    assert_eq!(state(&at), fresh);
    assert_eq!(git_dir(), before);
}

/// A step that fails once is repeated in the clone: a new one would be transferred as a whole.
#[test]
fn a_failure_of_a_moment_costs_no_clone() {
    let server = Server::new();
    let url = server.url("app");
    let at = server.dir("job");
    server.check_out(&at, &["--ref=refs/heads/main", &url]);
    let before = at.join(".git").metadata().expect("a directory").ino();
    let template = server.dir("template");
    template
        .write_executable("hooks/post-checkout", "#!/bin/sh\n[ -e ../failed ] || { >../failed; exit 1; }\n");
    let dir = template.path.to_str().expect("a plain name");
    let args =
        ["checkout", "-q", "--token-env=TOKEN", "--token-user", Nginx::USER, "--ref=refs/heads/main", &url];
    let run = server.ci(&at, &[("CI", "true"), ("GIT_TEMPLATE_DIR", dir)], &args);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(server.dir("").exists("failed"), "the hook ran");
    assert_eq!(at.join(".git").metadata().expect("a directory").ino(), before);
}
