//! Submodules as operations, compared with Git.

use sapwood::{
    Error, PlanError, Silent,
    submodule::{
        Strategy, clone, init,
        update::{self, Report, Request, Why},
    },
};
use testkit::{Repo, Sandbox};

use crate::{Heard, open, pathspecs};

/// Two superprojects with the same three submodules, one of them inactive by its pathspec.
fn superprojects(sandbox: &Sandbox) -> [Repo<'_>; 2] {
    let module = sandbox.init("module");
    module.write("a", "1\n");
    module.commit("one");
    let oid = module.git(&["rev-parse", "HEAD"]).stdout.to_string();
    ["theirs", "ours"].map(|name| {
        let repo = sandbox.init(name);
        let section = |name: &str, url: &str, rest: &str| {
            format!("[submodule \"{name}\"]\n\tpath = {name}\n\turl = {url}\n{rest}")
        };
        let modules = section("one", "../module", "\tupdate = rebase\n")
            + &section("dir/two", "https://example.com/two", "")
            + &section("three", "./three", "");
        repo.write(".gitmodules", modules);
        repo.git(&["remote", "add", "origin", "https://example.com/a/b.git"]);
        for path in ["one", "dir/two", "three"] {
            let info = format!("160000,{},{path}", oid.trim());
            repo.git(&["update-index", "--add", "--cacheinfo", &info]);
            // Without the directory, `commit` would remove the entry.
            std::fs::create_dir_all(repo.join(path)).expect("a directory");
        }
        repo.commit("modules");
        repo
    })
}

#[test]
fn registers_what_git_registers() {
    let cases: [(&[&str], &[&str]); 4] = [
        (&[], &[]),
        (&["one"], &[]),
        (&["dir", "three"], &["submodule.three.url=mine"]),
        (&[], &["submodule.active=three"]),
    ];
    for (paths, settings) in cases {
        let sandbox = Sandbox::new();
        let [theirs, ours] = superprojects(&sandbox);
        for setting in settings {
            let (key, value) = setting.split_once('=').expect("an assignment");
            for repo in [&theirs, &ours] {
                repo.git(&["config", key, value]);
            }
        }
        let said = theirs.git(&[&["submodule", "init", "--"], paths].concat());
        let before = ours.read(".git/config");
        let repository = open(&ours);
        let plan = init::plan(&repository, init::Request { pathspecs: pathspecs(paths) }).expect("a plan");
        assert_eq!(ours.read(".git/config"), before);
        let lines = said.stderr.to_string() + &said.stdout.to_string();
        assert_eq!(plan.to_string(), lines, "{paths:?} {settings:?}");
        let report = plan.run(&Silent).expect("they are registered");
        assert_eq!(report.registered.len(), lines.lines().count());
        assert_eq!(ours.read(".git/config"), theirs.read(".git/config"), "{paths:?} {settings:?}");
    }
}

/// A setting that another process makes after planning stays.
#[test]
fn a_late_setting_stays() {
    let sandbox = Sandbox::new();
    let [_, ours] = superprojects(&sandbox);
    let repository = open(&ours);
    let plan = init::plan(&repository, init::Request { pathspecs: pathspecs(&[]) }).expect("a plan");
    ours.git(&["config", "submodule.one.url", "mine"]);
    ours.git(&["config", "submodule.one.update", "none"]);
    let registered = plan.run(&Silent).expect("they are registered").registered;
    let names: Vec<String> = registered.iter().map(|one| one.name.to_string()).collect();
    assert_eq!(names, ["dir/two", "three"]);
    assert_eq!(ours.git(&["config", "submodule.one.url"]).stdout, "mine\n");
    assert_eq!(ours.git(&["config", "submodule.one.update"]).stdout, "none\n");
}

#[test]
fn refusals_change_nothing() {
    let sandbox = Sandbox::new();
    let [_, ours] = superprojects(&sandbox);
    let before = ours.read(".git/config");
    let planned = |paths: &[&str]| {
        let repository = open(&ours);
        let request = init::Request { pathspecs: pathspecs(paths) };
        init::plan(&repository, request).map(drop).map_err(Error::from)
    };
    assert!(matches!(planned(&["none"]), Err(Error::Unmatched(specs)) if specs == ["none"]));
    ours.git(&["config", "-f", ".gitmodules", "submodule.three.update", "!rm -r x"]);
    let hostile = planned(&[]).expect_err("a command of somebody else").to_string();
    assert_eq!(hostile, "invalid value for 'submodule.three.update'");
    ours.git(&["config", "-f", ".gitmodules", "--unset", "submodule.three.update"]);
    ours.git(&["config", "-f", ".gitmodules", "--unset", "submodule.three.url"]);
    let missing = planned(&[]).expect_err("there is no URL").to_string();
    assert_eq!(missing, "No url found for submodule path 'three' in .gitmodules");
    assert_eq!(ours.read(".git/config"), before);
}

/// The repositories `inner`, `module` (with the submodule `in`), and `source` with the submodules
/// `sub` and `dir/two`. Two clones of the last one.
fn clones(sandbox: &Sandbox) -> [Repo<'_>; 2] {
    sandbox.repo("home").git(&["config", "--global", "protocol.file.allow", "always"]);
    let inner = sandbox.init("inner");
    inner.write("i", "1\n");
    inner.commit("one");
    let module = sandbox.init("module");
    module.write("a", "1\n");
    module.write("b", "1\n");
    module.git(&["submodule", "add", "-q", "../inner", "in"]);
    module.commit("one");
    let source = sandbox.init("source");
    source.write("s", "1\n");
    source.git(&["submodule", "add", "-q", "../module", "sub"]);
    source.git(&["submodule", "add", "-q", "../inner", "dir/two"]);
    source.commit("one");
    ["theirs", "ours"].map(|name| {
        source.git(&["clone", "-q", ".", &format!("../{name}")]);
        let repo = sandbox.repo(name);
        // Both clones have one URL.
        let path = source.path.to_str().expect("text");
        repo.git(&["remote", "set-url", "origin", path]);
        repo
    })
}

/// Moves `module` on in the source, and pulls that into both clones.
fn move_on(sandbox: &Sandbox, clones: &[Repo<'_>; 2]) {
    let module = sandbox.repo("module");
    module.write("a", "2\n");
    module.commit("two");
    let source = sandbox.repo("source");
    source.git(&["-C", "sub", "pull", "-q"]);
    source.commit("two");
    for repo in clones {
        repo.git(&["pull", "-q", "--no-recurse-submodules"]);
    }
}

/// Returns the state of all submodules.
fn state(repo: &Repo<'_>) -> String {
    const LOOK: &str = "echo \"== $displaypath\"; git rev-parse HEAD; git symbolic-ref -q HEAD; \
                        git for-each-ref; git status --porcelain; git ls-files --stage; cat .git; \
                        dir=$(git rev-parse --git-dir); cat $dir/config $dir/logs/HEAD $dir/shallow; cat *; :";
    let within = repo.try_git(&["submodule", "--quiet", "foreach", "--recursive", LOOK]);
    let status = repo.git(&["status", "--porcelain"]).stdout;
    format!("{}{status}{}", within.stdout, repo.read(".git/config"))
}

fn updated(repo: &Repo<'_>, request: Request) -> Report {
    let repository = open(repo);
    let plan = update::plan(&repository, request).expect("a plan");
    plan.run(&Silent).expect("an update")
}

#[test]
fn updates_as_git_does() {
    let all = Request { init: true, ..Request::default() };
    let paths = |paths: &[&str]| Request { pathspecs: pathspecs(paths), ..all.clone() };
    let cases: Vec<(&[&str], Request)> = vec![
        (&[], Request::default()),
        (&["--init"], all.clone()),
        (&["--init", "--recursive"], Request { recursive: true, ..all.clone() }),
        (
            &["--require-init", "--recursive", "-j", "3"],
            Request { require_init: true, recursive: true, jobs: Some(3), ..Request::default() },
        ),
        // Each clone has its own directory for the new repository.
        (&["--init", "-j", "2"], Request { jobs: Some(2), ..all.clone() }),
        (&["--init", "--remote"], Request { remote: true, ..all.clone() }),
        (&["--init", "--force", "--recursive"], Request { force: true, recursive: true, ..all.clone() }),
        (&["--init", "--", "dir"], paths(&["dir"])),
        (&["--init", "--checkout"], Request { strategy: Some(Strategy::Checkout), ..all.clone() }),
        (
            &["--init", "--reference", "../inner", "--", "dir"],
            Request { references: vec!["../inner".into()], ..paths(&["dir"]) },
        ),
    ];
    for (args, request) in cases {
        let sandbox = Sandbox::new();
        let repos = clones(&sandbox);
        // The second round finds the submodules, and moves them.
        for round in ["new", "again", "moved"] {
            if round == "moved" {
                move_on(&sandbox, &repos);
            }
            let [theirs, ours] = &repos;
            let said = theirs.git(&[&["submodule", "update"], args].concat());
            let report = updated(ours, request.clone());
            assert_eq!(state(ours), state(theirs), "{args:?} {round}");
            let lines = report.updated.iter().map(|one| one.text().to_string() + "\n");
            assert_eq!(lines.collect::<String>(), said.stdout, "{args:?} {round}");
        }
    }
}

#[test]
fn a_plan_changes_nothing() {
    let sandbox = Sandbox::new();
    let [_, ours] = clones(&sandbox);
    let before = state(&ours);
    let repository = open(&ours);
    let request = Request { init: true, recursive: true, ..Request::default() };
    let text = update::plan(&repository, request).expect("a plan").to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains("registered for path 'dir/two'"), "{text}");
    assert!(lines[3].starts_with("clone ") && lines[3].ends_with("/module into sub"), "{text}");
    assert_eq!(state(&ours), before);
    assert!(!ours.exists(".git/modules"));
}

/// Local changes in the way of a submodule are kept, and the others are updated.
#[test]
fn a_refusal_stops_no_other() {
    let sandbox = Sandbox::new();
    let repos = clones(&sandbox);
    for repo in &repos {
        repo.git(&["submodule", "update", "--init"]);
    }
    move_on(&sandbox, &repos);
    for repo in &repos {
        repo.write("sub/a", "mine\n");
        repo.git(&["-C", "dir/two", "commit", "-q", "--allow-empty", "-m", "mine"]);
    }
    let [theirs, ours] = &repos;
    let said = theirs.try_git(&["submodule", "update"]);
    assert_eq!(said.code, 1);
    let report = updated(ours, Request::default());
    assert_eq!(state(ours), state(theirs));
    assert_eq!(report.refused.len(), 1);
    assert_eq!((report.refused[0].0.to_string().as_str(), report.updated.len()), ("sub", 1));
    assert_eq!(ours.read("sub/a"), "mine\n");
    theirs.git(&["submodule", "update", "--force"]);
    updated(ours, Request { force: true, ..Request::default() });
    assert_eq!(state(ours), state(theirs));
    assert_eq!(ours.read("sub/a"), "2\n");
}

/// A commit that no branch of the submodule's repository has.
#[test]
fn a_commit_is_fetched_by_its_name() {
    let sandbox = Sandbox::new();
    let repos = clones(&sandbox);
    for repo in &repos {
        repo.git(&["submodule", "update", "--init"]);
    }
    move_on(&sandbox, &repos);
    let module = sandbox.repo("module");
    module.git(&["config", "uploadpack.allowAnySHA1InWant", "true"]);
    module.git(&["reset", "-q", "--hard", "HEAD~"]);
    let [theirs, ours] = &repos;
    theirs.git(&["submodule", "update"]);
    updated(ours, Request::default());
    assert_eq!(state(ours), state(theirs));
    assert_eq!(ours.read("sub/a"), "2\n");
}

#[test]
fn modes_and_reasons() {
    let sandbox = Sandbox::new();
    let [_, ours] = clones(&sandbox);
    let skipped = |request: Request| {
        let report = updated(&ours, request);
        assert!(report.updated.is_empty());
        report.skipped.iter().map(|one| (one.path.to_string(), one.why)).collect::<Vec<_>>()
    };
    let none = |why| vec![("dir/two".to_owned(), why), ("sub".to_owned(), why)];
    assert_eq!(skipped(Request::default()), none(Why::NotInitialized));
    ours.git(&["submodule", "--quiet", "init"]);
    for name in ["sub", "dir/two"] {
        ours.git(&["config", &format!("submodule.{name}.update"), "none"]);
    }
    assert_eq!(skipped(Request::default()), none(Why::ModeIsNone));
    // A new submodule has nothing to merge with.
    ours.git(&["config", "submodule.sub.update", "merge"]);
    let sub = || Request { pathspecs: pathspecs(&["sub"]), ..Request::default() };
    assert_eq!(updated(&ours, sub()).updated.len(), 1);
    let planned = |request| {
        let repository = open(&ours);
        update::plan(&repository, request).map(drop)
    };
    let forced = || Request { force: true, ..sub() };
    assert!(matches!(planned(forced()), Err(PlanError::Unsupported(_))));
    ours.git(&["config", "submodule.sub.update", "!touch ../ran; git checkout -q"]);
    assert_eq!(updated(&ours, forced()).updated.len(), 1);
    assert!(ours.exists("ran"));
}

/// The repository of one submodule would be within that of another, which is cloned at the same
/// time.
#[test]
fn nested_names_are_refused() {
    for names in [["a", "a/b"], ["a/b", "a"]] {
        let sandbox = Sandbox::new();
        let [_, ours] = clones(&sandbox);
        let section =
            |path: &str, name: &str| format!("[submodule \"{name}\"]\n\tpath = {path}\n\turl = ../inner\n");
        ours.write(".gitmodules", section("dir/two", names[0]) + &section("sub", names[1]));
        let repository = open(&ours);
        let request = Request { init: true, jobs: Some(2), ..Request::default() };
        let plan = update::plan(&repository, request).expect("a plan");
        let error = plan.run(&Silent).expect_err("nested names").to_string();
        assert!(error.contains("in another submodule's"), "{error}");
        assert!(!ours.exists(".git/modules/a/b/HEAD") || !ours.exists(".git/modules/a/HEAD"));
    }
}

/// The commits that count are those of the index when the plan runs.
#[test]
fn a_run_takes_the_commits_of_now() {
    let sandbox = Sandbox::new();
    let repos = clones(&sandbox);
    let ours = &repos[1];
    updated(ours, Request { init: true, ..Request::default() });
    let repository = open(ours);
    let plan = update::plan(&repository, Request::default()).expect("a plan");
    move_on(&sandbox, &repos);
    plan.run(&Silent).expect("an update");
    assert_eq!(ours.read("sub/a"), "2\n");
}

/// An update was killed after it had connected a repository with its worktree.
#[test]
fn a_worktree_that_was_never_filled_is_filled() {
    let sandbox = Sandbox::new();
    let [_, ours] = clones(&sandbox);
    updated(&ours, Request { init: true, ..Request::default() });
    for file in ["sub/a", "sub/b", "sub/.gitmodules", ".git/modules/sub/index"] {
        std::fs::remove_file(ours.join(file)).expect("it is there");
    }
    std::fs::remove_dir(ours.join("sub/in")).expect("an empty directory");
    ours.git(&["config", "submodule.sub.update", "rebase"]);
    updated(&ours, Request::default());
    assert_eq!(ours.read("sub/a"), "1\n");
    assert_eq!(ours.git(&["status", "--porcelain"]).stdout, "");
}

/// A hook that fails in one submodule stops no other, as in Git.
#[test]
fn a_failing_hook_stops_no_other() {
    let sandbox = Sandbox::new();
    let repos = clones(&sandbox);
    let ours = &repos[1];
    updated(ours, Request { init: true, ..Request::default() });
    move_on(&sandbox, &repos);
    ours.write_executable(".git/modules/sub/hooks/post-checkout", "#!/bin/sh\nexit 1\n");
    ours.git(&["-C", "dir/two", "commit", "-q", "--allow-empty", "-m", "mine"]);
    let report = updated(ours, Request::default());
    let paths: Vec<String> = report.updated.iter().map(|one| one.path.to_string()).collect();
    assert_eq!(paths, ["dir/two"]);
    assert_eq!(report.refused.len(), 1);
    assert!(matches!(&report.refused[0].1, Error::NotCheckedOut), "{:?}", report.refused);
}

/// A submodule that has its commit needs no merge, so its update mode does not matter.
#[test]
fn nothing_is_merged_into_the_recorded_commit() {
    let sandbox = Sandbox::new();
    let repos = clones(&sandbox);
    let ours = &repos[1];
    updated(ours, Request { init: true, ..Request::default() });
    ours.git(&["config", "submodule.sub.update", "merge"]);
    assert!(updated(ours, Request::default()).updated.is_empty());
    move_on(&sandbox, &repos);
    let repository = open(ours);
    assert!(matches!(
        update::plan(&repository, Request::default()).map(drop),
        Err(PlanError::Unsupported(_))
    ));
}

#[test]
fn an_update_command_gets_the_commit() {
    let sandbox = Sandbox::new();
    let repos = clones(&sandbox);
    let ours = &repos[1];
    updated(ours, Request { init: true, ..Request::default() });
    move_on(&sandbox, &repos);
    let commit = ours.git(&["rev-parse", ":sub"]).stdout.to_string();
    ours.git(&["config", "submodule.sub.update", "!f() { echo \"$# $1\" >../said; }; f"]);
    updated(ours, Request::default());
    assert_eq!(ours.read("said"), format!("1 {commit}"));
}

/// The address of a submodule is not the user's choice, and neither is its update command.
#[test]
fn hostile_submodules_are_refused() {
    let sandbox = Sandbox::new();
    let [_, ours] = clones(&sandbox);
    sandbox.repo("home").git(&["config", "--global", "protocol.file.allow", "user"]);
    let all = || Request { init: true, ..Request::default() };
    let repository = open(&ours);
    let heard = Heard::default();
    let error =
        update::plan(&repository, all()).expect("a plan").run(&heard).expect_err("a refused protocol");
    assert!(error.to_string().starts_with("clone of '"), "{error}");
    assert!(heard.0.borrow().iter().any(|said| said.ends_with("Retry scheduled")), "{:?}", heard.0);
    assert!(!ours.exists(".git/modules/sub/HEAD") && !ours.exists("sub/.git"));
    ours.git(&["config", "-f", ".gitmodules", "submodule.sub.update", "!touch ran"]);
    let repository = open(&ours);
    let hostile = update::plan(&repository, all()).map(drop).map_err(Error::from).expect_err("a command");
    assert_eq!(hostile.to_string(), "invalid value for 'submodule.sub.update'");
    ours.git(&["checkout", "-q", ".gitmodules"]);
    sandbox.repo("home").git(&["config", "--global", "protocol.file.allow", "always"]);
    std::fs::remove_dir(ours.join("sub")).expect("an empty directory");
    ours.symlink("dir", "sub");
    let repository = open(&ours);
    let linked = update::plan(&repository, all()).expect("a plan").run(&Silent).expect_err("a link");
    assert_eq!(linked.to_string(), "expected submodule path 'sub' not to be a symbolic link");
}

#[test]
fn clones_with_submodules_as_git_does() {
    let cases: Vec<(&[&str], clone::Request)> = vec![
        (&["."], clone::Request::default()),
        (&["dir"], clone::Request::default()),
        (&[".", "--no-local", "--depth=1", "--shallow-submodules"], {
            let mut request = clone::Request { shallow: true, ..clone::Request::default() };
            (request.clone.depth, request.clone.local) = (Some(1), Some(false));
            request
        }),
        (&[".", "--remote-submodules", "-j2"], {
            clone::Request { remote: true, jobs: Some(2), ..clone::Request::default() }
        }),
        (&["dir", "--reference", "source"], {
            let mut request = clone::Request::default();
            let reference = sapwood::clone::Reference { repository: "source".into(), required: true };
            request.clone.references.push(reference);
            request
        }),
        (&[".", "-n"], {
            let mut request = clone::Request::default();
            request.clone.no_checkout = true;
            request
        }),
    ];
    for (args, mut request) in cases {
        let sandbox = Sandbox::new();
        clones(&sandbox);
        let (source, made) = (sandbox.repo("source"), sandbox.repo("made"));
        let from = source.path.to_str().expect("text");
        let above = sandbox.repo("");
        let recurse = format!("--recurse-submodules={}", args[0]);
        above.git(&[&["clone", "-q", &recurse, from, "made"], &args[1..]].concat());
        let theirs = state(&made);
        std::fs::remove_dir_all(&made.path).expect("a clone");
        request.clone.source = from.into();
        request.clone.directory = Some("made".into());
        request.clone.submodules = vec![args[0].into()];
        let command = above.git_command();
        let variables =
            command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
        let plan = clone::plan(&above.path, variables.collect(), request).expect("a plan");
        assert!(!made.path.exists());
        plan.run(&Silent).expect("a clone");
        assert_eq!(state(&made), theirs, "{args:?}");
    }
}
