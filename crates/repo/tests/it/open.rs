use std::fs;

use repo::{Head, OpenOptions, Repository, keys};
use testkit::{Repo, Sandbox};

use crate::{fatal, git, git_output, open, options};

#[track_caller]
fn assert_same_refusal(at: &Repo<'_>) {
    let ours = Repository::open(&options(at)).err().expect("must be refused").to_string();
    assert_eq!(ours, fatal(at, &["rev-parse", "--git-dir"]));
}

#[test]
fn finds_the_layout_from_several_directories() {
    let sandbox = Sandbox::new();
    let top = sandbox.init("r");
    top.write("a/b/c", "x");
    top.commit("one");
    for dir in ["r", "r/a", "r/a/b", "r/.git", "r/.git/refs"] {
        let at = sandbox.repo(dir);
        let repo = open(&at);
        assert_eq!(
            repo.git_dir().to_str().expect("UTF-8"),
            git_output(&at, &["rev-parse", "--absolute-git-dir"])
        );
        let inside = git_output(&at, &["rev-parse", "--is-inside-work-tree"]) == "true";
        assert_eq!(repo.work_tree().is_some(), inside, "{dir}");
        if inside {
            assert_eq!(repo.prefix(), git_output(&at, &["rev-parse", "--show-prefix"]).as_str());
            assert_eq!(repo.work_tree(), Some(top.path.as_path()));
        }
        assert_eq!(
            repo.is_bare().to_string(),
            git_output(&at, &["rev-parse", "--is-bare-repository"]),
            "{dir}"
        );
    }
}

#[test]
fn reports_a_missing_repository() {
    let sandbox = Sandbox::new();
    sandbox.init("r");
    fs::create_dir(sandbox.path().join("empty")).expect("new");
    assert_same_refusal(&sandbox.repo("empty"));
}

#[test]
fn stops_at_ceiling_directories() {
    let sandbox = Sandbox::new();
    let top = sandbox.init("r");
    top.write("a/b/c", "x");
    for (dir, ceiling) in
        [("r/a/b", "r"), ("r/a", "r"), ("r/a", ""), ("r", "r"), ("r/a/b", "r/a"), ("r/a", "x")]
    {
        let at = sandbox.repo(dir);
        let mut options = options(&at);
        let ceiling = sandbox.path().join(ceiling);
        options.env.insert("GIT_CEILING_DIRECTORIES".into(), ceiling.clone().into());
        let git = at
            .command(&git())
            .env("GIT_CEILING_DIRECTORIES", &ceiling)
            .args(["rev-parse", "--git-dir"])
            .output()
            .expect("git runs");
        assert_eq!(Repository::open(&options).is_ok(), git.status.success(), "{dir} {ceiling:?}");
    }
}

#[test]
fn reads_gitfiles_and_reports_faults() {
    let sandbox = Sandbox::new();
    let top = sandbox.init("r");
    top.write("f", "x");
    top.commit("one");
    top.git(&["worktree", "add", "-q", "-b", "side", "../linked"]);
    let linked = sandbox.repo("linked");
    let repo = open(&linked);
    assert_eq!(repo.common_dir(), top.path.join(".git"));
    assert_eq!(repo.git_dir(), top.path.join(".git/worktrees/linked"));
    assert_eq!(repo.work_tree(), Some(linked.path.as_path()));
    assert_eq!(repo.index_path(), top.path.join(".git/worktrees/linked/index"));
    assert!(matches!(repo.head().expect("a branch"), Head::Branch { name, .. } if name == "refs/heads/side"));
    for content in ["nonsense", "gitdir: \n", "gitdir: /no/where\n"] {
        linked.write(".git", content);
        let ours = Repository::open(&options(&linked)).err().expect("must be refused").to_string();
        let theirs = fatal(&linked, &["rev-parse", "--git-dir"]);
        // For the third content, Git prints `(null)` in place of the path.
        assert_eq!(ours.replace("/no/where", "(null)"), theirs.replace("/no/where", "(null)"));
    }
}

#[test]
fn checks_formats_and_extensions() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("r");
    for config in [
        "[core]\nrepositoryformatversion = 2\n",
        "[core]\nrepositoryformatversion = 1\n[extensions]\nfoo\nBar = 1\n",
        "[core]\nrepositoryformatversion = 1\n[extensions]\nfoo = x\n",
        "[core]\nrepositoryformatversion = 0\n[extensions]\nobjectformat = sha256\n",
        "[core]\nrepositoryformatversion = 0\n[extensions]\nobjectformat = sha1\nnoop-v1\n",
        "[core]\nbare = maybe\n",
        "[core]\nrepositoryformatversion = x\n",
        "[core\n",
        "[core]\nrepositoryformatversion = 0\nx=\"\n",
    ] {
        repo.write(".git/config", config);
        let ours = Repository::open(&options(&repo)).err().expect("must be refused").to_string();
        let theirs = fatal(&repo, &["rev-parse", "--git-dir"]);
        assert_eq!(ours.replace(&format!("{}/", repo.path.display()), ""), theirs, "{config}");
    }
    repo.write(".git/config", "[core]\nrepositoryformatversion = 0\n[extensions]\nunknown = 1\n");
    open(&repo);
    for storage in ["reftable", "files:///elsewhere"] {
        let extension = format!("[extensions]\nrefstorage = {storage}\n");
        repo.write(".git/config", format!("[core]\nrepositoryformatversion = 1\n{extension}"));
        assert_eq!(
            Repository::open(&options(&repo)).err().expect("must be refused").to_string(),
            format!("ref storage format '{storage}' is not supported")
        );
    }
}

#[test]
fn opens_a_sha256_repository() {
    let sandbox = Sandbox::new();
    let at = sandbox.repo("r");
    fs::create_dir(&at.path).expect("new");
    at.git(&["init", "-q", "--object-format=sha256", "-b", "main"]);
    at.write("f", "x");
    at.commit("one");
    let repo = open(&at);
    assert_eq!(
        repo.rev_parse("HEAD".into()).expect("born").to_string(),
        git_output(&at, &["rev-parse", "HEAD"])
    );
    assert_eq!(
        repo.tree_of(repo.rev_parse("@".into()).expect("born")).expect("a commit").to_string(),
        git_output(&at, &["rev-parse", "HEAD^{tree}"])
    );
}

#[test]
fn refuses_dubious_ownership() {
    let sandbox = Sandbox::new();
    let at = sandbox.init("it's");
    let opened = |env: &[(&str, &str)]| {
        let mut options = options(&at);
        let mut command = at.command(&git());
        for (name, value) in env {
            options.env.insert(name.into(), value.into());
            command.env(name, value);
        }
        let git = command.args(["rev-parse", "--git-dir"]).output().expect("git runs");
        let ours = Repository::open(&options).map(|_| ()).map_err(|err| err.to_string());
        assert_eq!(ours.is_ok(), git.status.success(), "{env:?}");
        if let Err(message) = ours {
            assert_eq!(
                testkit::wording(format!("fatal: {message}\n").as_bytes()),
                testkit::wording(&git.stderr)
            );
        }
    };
    let path = at.path.to_str().expect("UTF-8").to_owned();
    let parent = format!("{}/*", sandbox.path().display());
    let assume = ("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1");
    opened(&[]);
    opened(&[assume]);
    // Older versions support neither the pattern nor the dot.
    let newer: &[&str] = if sandbox.git_version() >= (2, 48) { &[&parent, "."] } else { &[] };
    for value in [&*path, "*", "/elsewhere", ""].iter().chain(newer).copied() {
        opened(&[
            assume,
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "safe.directory"),
            ("GIT_CONFIG_VALUE_0", value),
        ]);
    }
    // The repository's own configuration is ignored.
    at.git(&["config", "safe.directory", "*"]);
    opened(&[assume]);
}

#[test]
fn accepts_explicit_directories() {
    let sandbox = Sandbox::new();
    let top = sandbox.init("r");
    top.write("sub/f", "x");
    top.commit("one");
    top.git(&["clone", "-q", "--bare", ".", "../bare.git"]);
    let outside = sandbox.path();
    let git_dir = top.path.join(".git");
    let with = |cwd: &str, git_dir: Option<&str>, work_tree: Option<&str>| {
        let at = sandbox.repo(cwd);
        let options = OpenOptions {
            git_dir: git_dir.map(Into::into),
            work_tree: work_tree.map(Into::into),
            ..options(&at)
        };
        let mut command = at.command(&git());
        command.args(git_dir.map(|dir| format!("--git-dir={dir}")));
        command.args(work_tree.map(|dir| format!("--work-tree={dir}")));
        let top = command.args(["rev-parse", "--show-toplevel", "--show-prefix"]).output().expect("git runs");
        let ours = Repository::open(&options);
        let theirs = String::from_utf8(top.stdout).expect("UTF-8");
        match ours {
            Ok(repo) => match repo.work_tree() {
                Some(work_tree) => {
                    assert_eq!(format!("{}\n{}\n", work_tree.display(), repo.prefix()), theirs, "{cwd}");
                }
                None => assert!(!top.status.success(), "{cwd} {git_dir:?} {work_tree:?}"),
            },
            Err(err) => assert_eq!(format!("fatal: {err}\n"), String::from_utf8_lossy(&top.stderr)),
        }
    };
    let dir = git_dir.to_str().expect("UTF-8");
    let out = outside.to_str().expect("UTF-8");
    with("r/sub", Some(dir), None);
    with("r/sub", Some("../.git"), Some(".."));
    with("r/sub", None, Some(".."));
    with("r", Some(".git"), Some("sub"));
    with("bare.git", None, None);
    with("bare.git", None, Some("../r"));
    with("bare.git/refs", None, None);
    with("r", Some("nowhere"), None);
    with("home", Some(dir), Some(&format!("{out}/r")));
    top.git(&["config", "core.worktree", "../sub"]);
    with("r", None, None);
    with("r/sub", None, None);
    with("r/sub", Some(dir), None);
    top.git(&["config", "--unset", "core.worktree"]);
    top.git(&["config", "core.bare", "true"]);
    with("r", None, None);
    with("r", None, Some("."));
}

#[test]
fn reads_configuration_in_order_with_includes() {
    let sandbox = Sandbox::new();
    let at = sandbox.init("r");
    at.write("f", "x");
    at.commit("one");
    let home = sandbox.path().join("home");
    fs::write(
        home.join(".gitconfig"),
        "[a]\n\tx = global\n\ty = ~/p\n[sapwood]\n\tupperDir = ~/p\n[include]\n\tpath = more\n[a]\n\tw = last\n\
         [includeIf \"gitdir:~/../r/\"]\npath=yes1\n[includeIf \"gitdir:**/r/.git\"]\npath=yes2\n\
         [includeIf \"gitdir/i:**/R/\"]\npath=yes3\n[includeIf \"onbranch:ma*\"]\npath=yes4\n\
         [includeIf \"onbranch:other\"]\npath=no\n[includeIf \"hasconfig:remote.*.url:https://x/**\"]\npath=yes5\n\
         [includeIf \"unknown:x\"]\npath=no\n[n]\nk=1k\nbad=1x\nword=maybe\nb\nempty=\n",
    )
    .expect("written");
    for name in ["yes1", "yes2", "yes3", "yes4", "yes5", "no"] {
        fs::write(home.join(name), format!("[got]\n\t{name} = 1\n")).expect("written");
    }
    fs::write(home.join("more"), "[a]\n\tx = included\n\tw = included\n").expect("written");
    at.git(&["config", "remote.o.url", "https://x/y"]);
    at.git(&["config", "extensions.worktreeConfig", "true"]);
    at.git(&["config", "a.z", "local"]);
    at.git(&["config", "--worktree", "a.z", "worktree"]);
    let mut options = options(&at);
    options.config = vec!["a.q=1=2".into(), "a.flag".into()];
    let mut command_env = options.env.clone();
    for (name, value) in [
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "A.Count"),
        ("GIT_CONFIG_VALUE_0", "zero"),
        ("GIT_CONFIG_PARAMETERS", "'a.old=style' 'a.new'='st'\\''yle'"),
    ] {
        command_env.insert(name.into(), value.into());
    }
    options.env = command_env;
    let repo = Repository::open(&options).expect("opens");
    for key in [
        "a.x", "a.y", "a.w", "a.z", "a.q", "a.flag", "a.count", "a.old", "a.new", "got.yes1", "got.yes2",
        "got.yes3", "got.yes4", "got.yes5", "got.no", "n.b", "n.empty",
    ] {
        let git = at
            .command(&git())
            .envs(&options.env)
            .args(["-c", "a.q=1=2", "-c", "a.flag", "config", "--get", key])
            .output()
            .expect("git runs");
        let theirs = git.status.success().then(|| String::from_utf8_lossy(&git.stdout).trim_end().to_owned());
        assert_eq!(repo.config_str(key).map(|value| value.to_string()), theirs, "{key}");
    }
    assert_eq!(repo.config_as::<i32>("N.K").expect("readable"), Some(1024));
    assert_eq!(repo.config_as::<bool>("a.flag").expect("readable"), Some(true));
    assert_eq!(repo.config_as::<bool>("a.missing").expect("readable"), None);
    assert_eq!(repo.config_path(&keys::sapwood::UPPER_DIR).expect("readable"), Some(home.join("p").into()));
    assert_eq!(repo.config_all("a.x"), ["global", "included"]);
    for key in ["bool", "int"] {
        let ours = match key {
            "bool" => repo.config_as::<bool>("n.word").err(),
            _ => repo.config_as::<i32>("n.bad").err(),
        };
        let name = if key == "bool" { "n.word" } else { "n.bad" };
        assert_eq!(
            ours.expect("bad value").to_string(),
            fatal(&at, &["config", &format!("--type={key}"), "--get", name])
        );
    }
}
