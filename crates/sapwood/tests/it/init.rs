//! New repositories, compared with `git init`.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsString,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use sapwood::{
    PlanError, Silent,
    init::{self, Plan, Request, Unsupported},
};
use testkit::{Oracle, Repo, Sandbox};

use crate::silent_oracle;

fn plan_with(repo: &Repo<'_>, request: Request, variable: Option<&str>) -> Result<Plan, PlanError> {
    let command = repo.git_command();
    let variables = command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
    let mut variables: HashMap<OsString, OsString> = variables.collect();
    variables.extend(variable.map(|name| (OsString::from(name), OsString::from("elsewhere"))));
    init::plan(&repo.path, variables, request)
}

fn new(directory: &str) -> Request {
    Request { directory: directory.into(), ..Request::default() }
}

/// Returns the modes of all entries below a directory, and the contents of files.
fn files(dir: &Path, found: &mut BTreeMap<PathBuf, (u32, Vec<u8>)>, root: &Path) {
    for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, found, root);
        }
        let content = if path.is_dir() { Vec::new() } else { std::fs::read(&path).expect("a file") };
        let mode = path.metadata().expect("it is there").permissions().mode();
        found.insert(path.strip_prefix(root).expect("it is below").to_owned(), (mode, content));
    }
}

/// Compares the repositories `new`.
#[track_caller]
fn same(oracle: &Oracle, context: &str) {
    let [theirs, ours] = [oracle.git().path, oracle.ours().path].map(|top| {
        let (mut found, root) = (BTreeMap::new(), top.join("new"));
        files(&root, &mut found, &root);
        found
    });
    assert_eq!(theirs, ours, "{context}: git left, ours right");
}

#[test]
fn creates_what_git_creates() {
    let cases: [(&[&str], Request); 5] = [
        (&["new/deep"], new("new/deep")),
        (&["--bare", "new"], Request { bare: true, ..new("new") }),
        (&["-b", "trunk", "new"], Request { branch: Some("trunk".into()), ..new("new") }),
        (&["--template=own", "new"], Request { template: Some("own".into()), ..new("new") }),
        (&["--template=", "new"], Request { template: Some("".into()), ..new("new") }),
    ];
    for (args, request) in cases {
        let oracle = silent_oracle(|repo| repo.write("own/info/exclude", "c\n"));
        let (git, ours) = (oracle.git(), oracle.ours());
        git.git(&[&["init", "-q"], args].concat());
        let directory = request.directory.clone();
        let plan = plan_with(&ours, request, None).expect("a plan");
        assert!(!ours.exists("new"), "{args:?}: a plan creates nothing");
        let report = plan.run(&Silent).expect("a repository");
        let place = ours.path.join(&directory).canonicalize().expect("it is there");
        assert!(report.git_dir.starts_with(&place), "{args:?}: {}", report.git_dir.display());
        same(&oracle, &format!("{args:?}"));
    }
}

/// The settings of the user have the effect that they have in Git, or are Unsupported.
#[test]
fn obeys_settings() {
    for (setting, bare) in [
        ("[core]\nlogAllRefUpdates = always", false),
        ("[core]\nlogAllRefUpdates = false", false),
        ("[core]\nlogAllRefUpdates = false", true),
        ("[core]\nsharedRepository", false),
        ("[core]\nsharedRepository = all", false),
        ("[core]\nsharedRepository = 0640", true),
        ("[core]\nsharedRepository = umask", false),
        ("[core]\nhideDotFiles = true", false),
        ("[extensions]\nobjectFormat = sha256\nrefStorage = reftable\nother = 1", false),
        ("[safe]\nbareRepository = explicit", true),
        ("[includeIf \"gitdir:new/\"]\npath = included", false),
    ] {
        let oracle = silent_oracle(|repo| {
            repo.write("own/info/exclude", "c\n");
            repo.write_executable("own/hooks/post-commit", "c\n");
        });
        let (git, ours) = (oracle.git(), oracle.ours());
        let home = git.join("../../home");
        std::fs::write(home.join(".gitconfig"), format!("{setting}\n")).expect("written");
        let included =
            "[init]\ndefaultBranch = dev\n[core]\nlogAllRefUpdates = false\nsharedRepository = group\n";
        std::fs::write(home.join("included"), included).expect("written");
        let options: &[&str] = if bare { &["--bare"] } else { &[] };
        git.git(&[&["init", "-q", "--template=own"], options, &["new"]].concat());
        let request = Request { bare, template: Some("own".into()), ..new("new") };
        let plan = plan_with(&ours, request, None).expect("a plan");
        plan.run(&Silent).expect("a repository");
        same(&oracle, setting);
    }
}

#[test]
fn refuses_settings_that_git_refuses() {
    for (setting, refusal) in [
        ("[core]\nlogAllRefUpdates = x", "bad boolean config value 'x' for 'core.logallrefupdates'"),
        ("[core]\nsharedRepository = x", "bad boolean config value 'x' for 'core.sharedrepository'"),
        ("[core]\nlogAllRefUpdates", "bad config variable 'core.logallrefupdates' in file"),
    ] {
        let sandbox = Sandbox::new();
        let repo = sandbox.repo("");
        repo.write("home/.gitconfig", format!("{setting}\n"));
        let git = repo.try_git(&["init", "-q", "new"]).stderr.to_string();
        let ours = plan_with(&repo, new("mine"), None).err().expect("a refusal").to_string();
        assert!(git.contains(refusal) && ours.contains(refusal), "{setting}: {git}: {ours}");
        assert!(!repo.exists("mine"), "{setting}");
    }
}

#[test]
fn leaves_the_rest_to_git() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.write("own/config", "");
    let template = |name: &str| Request { template: Some(name.into()), ..new("new") };
    let invalid = Request { branch: Some("a..b".into()), ..new("new") };
    for (request, variable, unsupported) in [
        (new("."), None, Unsupported::Taken),
        (template("own"), None, Unsupported::Templates),
        (template("nowhere"), None, Unsupported::NoTemplates),
        (invalid, None, Unsupported::Branch),
        (new("new"), Some("GIT_DIR"), Unsupported::Elsewhere),
    ] {
        let planned = plan_with(&repo, request, variable);
        assert!(matches!(planned, Err(PlanError::Unsupported(name)) if name == unsupported.name()));
        assert!(!repo.exists("new"));
    }
}
