//! `ci checkout` and `ci cleanup` with a server that asks for a password. The oracle is plain Git:
//! the commands that actions/checkout documents.

mod directory;
mod inherited;
mod planted;
mod secrets;
mod ssh;

use std::{fs, path::Path};

use testkit::{
    Repo, Run, Sandbox,
    servers::{Nginx, NginxOptions},
};

use crate::SAPWOOD;

/// A server with the repository `app`, which has a submodule with a submodule.
struct Server {
    nginx: Nginx,
    sandbox: Sandbox,
}

impl Server {
    fn new() -> Server {
        let sandbox = Sandbox::new();
        sandbox.repo("home").git(&["config", "--global", "protocol.file.allow", "always"]);
        let config = [("uploadpack.allowFilter", "true"), ("uploadpack.allowAnySHA1InWant", "true")];
        fs::create_dir(sandbox.path().join("server")).expect("a new directory");
        let nginx = Nginx::with(
            &sandbox.path().join("server"),
            NginxOptions { config: &config, ..NginxOptions::default() },
        );
        let server = Server { nginx, sandbox };
        for (name, inner) in [("innermost", None), ("inner", Some("innermost")), ("app", Some("inner"))] {
            let work = server.sandbox.init(&format!("work/{name}"));
            work.write("README", format!("{name}\n"));
            work.write("src/lib/code", "code\n");
            work.write("docs/page", "page\n");
            work.write(".gitignore", "ignored\n");
            work.commit("one");
            if let Some(inner) = inner {
                let path = server.sandbox.path().join("server").join(format!("{inner}.git"));
                work.git(&["submodule", "add", "-q", &path.to_string_lossy(), "sub"]);
                work.git(&["config", "-f", ".gitmodules", "submodule.sub.url", &server.url(inner)]);
                work.commit("submodule");
            }
            work.write("src/lib/code", "more code\n");
            work.commit("two");
            if name == "app" {
                work.git(&["tag", "-a", "-m", "one", "v1"]);
                work.git(&["branch", "topic/a"]);
                work.git(&["switch", "-q", "-c", "request"]);
                work.write("README", "a request\n");
                work.commit("request");
                work.git(&["update-ref", "refs/pull/7/merge", "HEAD"]);
                work.git(&["switch", "-q", "main"]);
                work.git(&["branch", "-q", "-D", "request"]);
                work.write("README", "three\n");
                work.commit("three");
            }
            let bare = format!("../../server/{name}.git");
            work.git(&["clone", "-q", "--mirror", ".", &bare]);
            work.git(&["remote", "add", "origin", &bare]);
        }
        server
    }

    /// Returns the URL of a repository. The server asks for [`Nginx::PASSWORD`].
    fn url(&self, name: &str) -> String {
        self.nginx.url(&format!("auth/{name}.git"))
    }

    fn work(&self) -> Repo<'_> {
        self.sandbox.repo("work/app")
    }

    fn id(&self, name: &str) -> String {
        self.work().git(&["rev-parse", &format!("{name}^{{commit}}")]).stdout.to_string().trim().to_owned()
    }

    /// Returns a directory of the sandbox.
    fn dir(&self, name: &str) -> Repo<'_> {
        let repo = self.sandbox.repo(name);
        fs::create_dir_all(&repo.path).expect("a directory");
        repo
    }

    /// Runs `sapwood ci` in a directory, with the variables of a runner and the token in `TOKEN`.
    fn ci(&self, at: &Repo<'_>, variables: &[(&str, &str)], args: &[&str]) -> Run {
        let mut command = at.command(Path::new(SAPWOOD));
        command.env("TOKEN", Nginx::PASSWORD).envs(variables.iter().copied()).arg("ci").args(args);
        let output = command.output().expect("the program");
        Run {
            code: output.status.code().expect("no signal"),
            stdout: output.stdout.into(),
            stderr: output.stderr.into(),
        }
    }

    /// Like [`Server::ci`] on a runner; the checkout must succeed.
    fn check_out(&self, at: &Repo<'_>, args: &[&str]) -> Run {
        let all = [&["checkout", "-q", "--token-env=TOKEN", "--token-user", Nginx::USER], args].concat();
        let run = self.ci(at, &[("CI", "true")], &all);
        assert_eq!(run.code, 0, "{args:?}: {}", run.stderr);
        run
    }

    /// Makes a directory with plain Git: the commands of actions/checkout for these arguments of
    /// `fetch` and `checkout`.
    fn plain(
        &self,
        name: &str,
        before: &[&str],
        fetch: &[&str],
        checkout: &[&str],
        after: &[&str],
    ) -> Repo<'_> {
        let repo = self.dir(name);
        let url = self.url("app");
        let secret = format!("{}:{}", Nginx::USER, Nginx::PASSWORD.replace(' ', "%20"));
        repo.git(&["init", "-q"]);
        repo.git(&["remote", "add", "origin", &url.replacen("http://", &format!("http://{secret}@"), 1)]);
        if !before.is_empty() {
            repo.git(before);
        }
        repo.git(&[&["fetch", "-q", "--no-tags", "--no-recurse-submodules"], fetch].concat());
        repo.git(&[&["checkout", "-q", "--force"], checkout].concat());
        if !after.is_empty() {
            let to = url.strip_suffix("app.git").expect("its URL");
            let with = to.replacen("http://", &format!("http://{secret}@"), 1);
            repo.git(&[&["-c", &format!("url.{with}.insteadOf={to}")], after].concat());
        }
        repo
    }
}

/// Returns the visible state of a checkout.
fn state(repo: &Repo<'_>) -> Vec<String> {
    let read = |args: &[&str]| repo.try_git(args).stdout.to_string();
    let mut files = Vec::new();
    list(&repo.path, &repo.path, &mut files);
    files.sort();
    vec![
        read(&["symbolic-ref", "-q", "HEAD"]),
        read(&["rev-parse", "HEAD"]),
        read(&["status", "--porcelain", "--ignored"]),
        read(&["ls-files", "-t", "--stage"]),
        read(&["for-each-ref"]),
        read(&["rev-parse", "--is-shallow-repository"]),
        read(&["rev-list", "--count", "HEAD"]),
        read(&["config", "--get-regexp", "^(branch|remote.origin.(promisor|partial))"]),
        read(&["sparse-checkout", "list"]),
        // A partial clone without the file would fetch it.
        if repo.exists(".gitmodules") {
            read(&["submodule", "status", "--recursive"])
        } else {
            String::new()
        },
        files.join("\n"),
    ]
}

/// Adds the files of a worktree with their contents.
fn list(top: &Path, dir: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.strip_prefix(top).expect("below").display().to_string();
        if path.file_name() == Some(".git".as_ref()) {
            continue;
        }
        if path.is_dir() {
            list(top, &path, found);
        } else {
            found.push(format!("{name}: {}", fs::read_to_string(&path).expect("a text")));
        }
    }
}

/// A name, the options of sapwood, and Git's commands: before the fetch, its arguments, those of
/// the checkout, and the command after it. `MAIN`, `PULL` and `TAG` stand for commits.
type Case = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
    &'static [&'static str],
    &'static [&'static str],
    &'static [&'static str],
);

const CASES: &[Case] = &[
    (
        "branch and commit",
        &["--ref=refs/heads/main", "--commit=MAIN"],
        &[],
        &["--depth=1", "origin", "+MAIN:refs/remotes/origin/main"],
        &["-B", "main", "refs/remotes/origin/main"],
        &[],
    ),
    (
        "the default branch",
        &[],
        &[],
        &["--depth=1", "origin", "+refs/heads/main:refs/remotes/origin/main"],
        &["-B", "main", "refs/remotes/origin/main"],
        &[],
    ),
    (
        "a pull request",
        &["--ref=refs/pull/7/merge", "--commit=PULL"],
        &[],
        &["--depth=1", "origin", "+PULL:refs/remotes/pull/7/merge"],
        &["refs/remotes/pull/7/merge"],
        &[],
    ),
    (
        "a tag",
        &["--ref=refs/tags/v1"],
        &[],
        &["--depth=1", "origin", "+refs/tags/v1:refs/tags/v1"],
        &["refs/tags/v1"],
        &[],
    ),
    ("a commit", &["--ref=TAG"], &[], &["--depth=1", "origin", "TAG"], &["TAG"], &[]),
    (
        "a short name",
        &["--ref=topic/a", "--depth=2"],
        &[],
        &[
            "--depth=2",
            "origin",
            "+refs/heads/topic/a*:refs/remotes/origin/topic/a*",
            "+refs/tags/topic/a*:refs/tags/topic/a*",
        ],
        &["-B", "topic/a", "refs/remotes/origin/topic/a"],
        &[],
    ),
    (
        "the whole history",
        &["--depth=0", "--ref=refs/heads/main", "--commit=MAIN"],
        &[],
        &["origin", "+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"],
        &["-B", "main", "refs/remotes/origin/main"],
        &[],
    ),
    (
        "a tip that moved",
        &["--depth=0", "--ref=refs/heads/main", "--commit=TAG"],
        &[],
        &[
            "origin",
            "+refs/heads/topic/*:refs/remotes/origin/topic/*",
            "+refs/tags/*:refs/tags/*",
            "+TAG:refs/remotes/origin/main",
        ],
        &["-B", "main", "refs/remotes/origin/main"],
        &[],
    ),
    (
        "tags and a filter",
        &["--ref=refs/heads/main", "--tags", "--filter=blob:none"],
        &[],
        &[
            "--depth=1",
            "--filter=blob:none",
            "origin",
            "+refs/heads/main:refs/remotes/origin/main",
            "+refs/tags/*:refs/tags/*",
        ],
        &["-B", "main", "refs/remotes/origin/main"],
        &[],
    ),
    (
        "sparse directories",
        &["--ref=refs/heads/main", "--sparse=src", "--sparse=docs"],
        &["sparse-checkout", "set", "src", "docs"],
        &["--depth=1", "--filter=blob:none", "origin", "+refs/heads/main:refs/remotes/origin/main"],
        &["-B", "main", "refs/remotes/origin/main"],
        &[],
    ),
    (
        "sparse patterns",
        &["--ref=refs/heads/main", "--sparse=/docs/*", "--sparse=README", "--no-cone"],
        &["sparse-checkout", "set", "--no-cone", "/docs/*", "README"],
        &["--depth=1", "--filter=blob:none", "origin", "+refs/heads/main:refs/remotes/origin/main"],
        &["-B", "main", "refs/remotes/origin/main"],
        &[],
    ),
    (
        "submodules",
        &["--ref=refs/heads/main", "--submodules"],
        &[],
        &["--depth=1", "origin", "+refs/heads/main:refs/remotes/origin/main"],
        &["-B", "main", "refs/remotes/origin/main"],
        &["submodule", "update", "-q", "--init", "--force", "--depth=1"],
    ),
    (
        "submodules of submodules",
        &["--ref=refs/heads/main", "--submodules=recursive", "--depth=0"],
        &[],
        &["origin", "+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"],
        &["-B", "main", "refs/remotes/origin/main"],
        &["submodule", "update", "-q", "--init", "--force", "--recursive"],
    ),
];

#[test]
fn a_new_checkout_equals_that_of_plain_git() {
    let server = Server::new();
    let ids =
        [("MAIN", server.id("main")), ("PULL", server.id("refs/pull/7/merge")), ("TAG", server.id("v1"))];
    let with_ids = |args: &[&str]| -> Vec<String> {
        let one = |arg: &&str| ids.iter().fold((*arg).to_owned(), |text, (name, id)| text.replace(name, id));
        args.iter().map(one).collect()
    };
    fn refs(args: &[String]) -> Vec<&str> {
        args.iter().map(String::as_str).collect()
    }
    for (number, (name, ours, before, fetch, checkout, after)) in CASES.iter().enumerate() {
        let [fetch, checkout, ours] = [fetch, checkout, ours].map(|args| with_ids(args));
        let plain = server.plain(&format!("git/{number}"), before, &refs(&fetch), &refs(&checkout), after);
        let at = server.dir(&format!("ours/{number}"));
        let url = server.url("app");
        server.check_out(&at, &[&refs(&ours)[..], &[&url]].concat());
        assert_eq!(state(&at), state(&plain), "{name}");
        assert_eq!(at.git(&["config", "remote.origin.url"]).stdout, format!("{url}\n").as_str());
        // Once more, in the clone that is there now.
        server.check_out(&at, &[&refs(&ours)[..], &[&url]].concat());
        assert_eq!(state(&at), state(&plain), "{name}, again");
    }
}

/// The name of a runner, its variables, and the ref and commit that they mean.
type Runner<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str, &'a str);

/// The variables of each runner name the repository, the commit and the directory.
#[test]
fn runners_name_the_job() {
    let server = Server::new();
    let (url, main, pull) = (server.url("app"), server.id("main"), server.id("refs/pull/7/merge"));
    let (host, _) = url.split_once("/auth/").expect("its URL");
    let runners: &[Runner<'_>] = &[
        (
            "github",
            &[
                ("GITHUB_ACTIONS", "true"),
                ("GITHUB_SERVER_URL", host),
                ("GITHUB_REPOSITORY", "auth/app.git"),
                ("GITHUB_REF", "refs/pull/7/merge"),
                ("GITHUB_SHA", &pull),
                ("GITHUB_WORKSPACE", "WORKSPACE"),
                ("GITHUB_OUTPUT", "OUTPUT"),
            ],
            "refs/pull/7/merge",
            &pull,
        ),
        (
            "gitlab",
            &[
                ("GITLAB_CI", "true"),
                ("CI_REPOSITORY_URL", &url.replacen("http://", "http://gitlab-ci-token:x@", 1)),
                ("CI_COMMIT_SHA", &main),
                ("CI_COMMIT_BRANCH", "main"),
                ("CI_PROJECT_DIR", "WORKSPACE"),
                ("GITHUB_OUTPUT", "OUTPUT"),
            ],
            &main,
            &main,
        ),
        (
            "buildkite",
            &[
                ("BUILDKITE", "true"),
                ("BUILDKITE_REPO", &url),
                ("BUILDKITE_COMMIT", "HEAD"),
                ("BUILDKITE_BRANCH", "main"),
                ("BUILDKITE_BUILD_CHECKOUT_PATH", "WORKSPACE"),
                ("GITHUB_OUTPUT", "OUTPUT"),
            ],
            "refs/heads/main",
            &main,
        ),
        (
            "jenkins",
            &[
                ("JENKINS_URL", "http://127.0.0.1/"),
                ("GIT_URL", &url),
                ("GIT_COMMIT", &main),
                ("WORKSPACE", "WORKSPACE"),
                ("GITHUB_OUTPUT", "OUTPUT"),
            ],
            &main,
            &main,
        ),
    ];
    for (name, variables, reference, commit) in runners {
        let at = server.dir(name);
        let output = server.sandbox.path().join(format!("{name}.output")).display().to_string();
        let workspace = at.path.display().to_string();
        let variables: Vec<(&str, &str)> = variables
            .iter()
            .map(|(name, value)| match *value {
                "WORKSPACE" => (*name, &*workspace),
                "OUTPUT" => (*name, &*output),
                value => (*name, value),
            })
            .chain([("CI", "true")])
            .collect();
        let args = ["checkout", "--json", "--path=app", "--token-env=TOKEN", "--token-user", Nginx::USER];
        let run = server.ci(&server.dir("elsewhere"), &variables, &args);
        assert_eq!(run.code, 0, "{name}: {}", run.stderr);
        let document: serde_json::Value = serde_json::from_slice(&run.stdout).expect("a document");
        assert_eq!(document["ref"], *reference, "{name}");
        assert_eq!(document["commit"], *commit, "{name}");
        assert_eq!(document["dir"], format!("{workspace}/app"), "{name}");
        let app = server.sandbox.repo(&format!("{name}/app"));
        assert_eq!(app.git(&["rev-parse", "HEAD"]).stdout, format!("{commit}\n").as_str());
        let written = fs::read_to_string(&output).expect("the outputs");
        assert_eq!(written, format!("ref={reference}\ncommit={commit}\n"), "{name}");
        let outside = server.ci(&at, &variables, &["checkout", "--path=../other"]);
        assert_eq!(outside.code, 128, "{name}");
        assert!(outside.stderr.to_string().contains("is not below the workspace"), "{}", outside.stderr);
    }
}

/// The inputs of an action are those of actions/checkout.
#[test]
fn inputs_are_options() {
    let server = Server::new();
    let at = server.dir("inputs");
    let url = server.url("app");
    let (host, _) = url.split_once("/auth/").expect("its URL");
    let run = server.ci(
        &at,
        &[
            ("CI", "true"),
            ("INPUT_REPOSITORY", "auth/app.git"),
            ("INPUT_GITHUB_SERVER_URL", host),
            ("INPUT_REF", "topic/a"),
            ("INPUT_TOKEN", Nginx::PASSWORD),
            ("INPUT_PERSIST_CREDENTIALS", "false"),
            ("INPUT_PATH", "below/app"),
            ("INPUT_CLEAN", "true"),
            ("INPUT_FETCH_DEPTH", "2"),
            ("INPUT_SPARSE_CHECKOUT", "  src\n\n  docs\n"),
            ("INPUT_SUBMODULES", "false"),
            ("INPUT_SHOW_PROGRESS", "false"),
        ],
        &["checkout", "--inputs", "--token-user", Nginx::USER],
    );
    assert_eq!(run.code, 0, "{}", run.stderr);
    let app = server.sandbox.repo("inputs/below/app");
    assert_eq!(app.git(&["rev-list", "--count", "HEAD"]).stdout, "2\n");
    assert_eq!(app.git(&["sparse-checkout", "list"]).stdout, "docs\nsrc\n");
    let wrong = server.ci(&at, &[("INPUT_LFS", "perhaps")], &["checkout", "--inputs", &url]);
    assert_eq!((wrong.code, &wrong.stderr[..6]), (128, &b"fatal:"[..]), "{}", wrong.stderr);
    // Wrong names and a wrong commit are errors.
    for (args, reason) in [
        (&["--ref=nowhere", "--depth=0"][..], "'nowhere' is neither a branch nor a tag of the repository"),
        (&["--token-env=NOWHERE"], "the variable 'NOWHERE' is not set"),
        (&["--submodules=perhaps"], "--submodules is true, false or recursive"),
        (&["--depth=x"], "depth 'x' is not a number"),
    ] {
        let base = ["checkout", "--token-env=TOKEN", "--token-user", Nginx::USER, "--path=other", &url];
        let run = server.ci(&at, &[("CI", "true")], &[&base[..], args].concat());
        assert_eq!(run.code, 128, "{args:?}");
        assert!(run.stderr.to_string().contains(reason), "{}", run.stderr);
    }
}

/// `--lfs` calls git-lfs, here a program that notes its calls.
#[test]
fn the_contents_of_lfs_are_fetched_at_once() {
    let server = Server::new();
    let at = server.dir("lfs");
    let bin = server.dir("bin");
    let log = server.sandbox.path().join("lfs.log").display().to_string();
    bin.write_executable("git-lfs", format!("#!/bin/sh\necho \"$@\" >>'{log}'\n"));
    let mut command = at.command(Path::new(SAPWOOD));
    let path =
        command.get_envs().find_map(|(name, value)| (name == "PATH").then_some(value?)).expect("a PATH");
    let path = format!("{}:{}", bin.path.display(), path.to_string_lossy());
    command.env("PATH", path).env("CI", "true").env("TOKEN", Nginx::PASSWORD);
    command.args([
        "ci",
        "checkout",
        "-q",
        "--lfs",
        "--ref=main",
        "--token-env=TOKEN",
        "--token-user",
        Nginx::USER,
    ]);
    let output = command.arg(server.url("app")).output().expect("the program");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let calls = fs::read_to_string(&log).expect("calls");
    assert_eq!(calls, "install --local\nfetch origin refs/remotes/origin/main\n");
}
