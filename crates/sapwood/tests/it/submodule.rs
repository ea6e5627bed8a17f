//! Submodules as operations, compared with Git.

use sapwood::{Error, Silent, submodule::init};
use testkit::{Repo, Sandbox};

use crate::{open, pathspecs};

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
