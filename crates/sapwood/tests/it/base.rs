//! Bases as operations: a remote that is a directory, a machine that pushes, and one that pulls.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use sapwood::{
    BaseError, Error, Silent,
    base::{
        Access, Kind, add,
        kept::{self, Action},
        lease, list, mirror, prune, pull, push, verify,
    },
    bstr::BString,
    clone::{self, BaseRemote, ForMirror, Need},
};
use testkit::{Repo, Sandbox};

use crate::open;

/// A complete repository, a host that begins with nothing, and a directory as remote.
struct Fleet {
    sandbox: Sandbox,
}

impl Fleet {
    fn new(init: &[&str]) -> Fleet {
        let sandbox = Sandbox::new();
        for name in ["origin", "host"] {
            fs::create_dir(sandbox.path().join(name)).expect("a new directory");
            sandbox.repo(name).git(&[&["init", "-q", "-b", "main"], init].concat());
        }
        let fleet = Fleet { sandbox };
        let origin = fleet.origin();
        for number in 0..20 {
            origin.write(format!("dir/{number}"), format!("content {number}\n").repeat(number));
        }
        origin.write_executable("tool", "#!/bin/sh\n");
        origin.symlink("dir", "link");
        origin.commit("one");
        origin.write("dir/3", "other\n");
        origin.commit("two");
        fleet
    }

    fn origin(&self) -> Repo<'_> {
        self.sandbox.repo("origin")
    }

    fn host(&self) -> Repo<'_> {
        self.sandbox.repo("host")
    }

    fn dir(&self) -> PathBuf {
        self.sandbox.path().join("remote")
    }

    fn remote(&self) -> Option<BString> {
        Some(format!("file://{}", self.dir().display()).into())
    }

    fn head(&self) -> String {
        self.commit("HEAD")
    }

    fn commit(&self, name: &str) -> String {
        self.origin().git(&["rev-parse", name]).stdout.to_string().trim().to_owned()
    }

    fn push(&self, commit: &str) -> push::Report {
        let origin = open(&self.origin());
        push::plan(&origin, self.push_request(commit)).expect("a plan").run(&Silent).expect("a push")
    }

    fn push_request(&self, commit: &str) -> push::Request {
        let options = push::Options { no_mount: true, ..push::Options::default() };
        push::Request { remote: self.remote(), commit: Some(commit.into()), branch: None, options }
    }

    fn pull_request(&self) -> pull::Request {
        pull::Request { remote: self.remote(), branch: Some("main".into()), ..pull::Request::default() }
    }

    fn listed(&self) -> Vec<(String, list::Listed)> {
        let origin = open(&self.origin());
        let plan = list::plan(&origin, list::Request { remote: self.remote() }).expect("a plan");
        plan.run(&Silent).expect("a list").bases.into_iter().collect()
    }
}

/// All files below a directory and their contents, sorted.
fn files(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten() {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                dirs.push(path)
            } else {
                found.push((path.clone(), fs::read(&path).unwrap_or_default()))
            }
        }
    }
    found.sort();
    found
}

fn variables(repo: &Repo<'_>) -> HashMap<OsString, OsString> {
    let command = repo.git_command();
    command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))).collect()
}

#[test]
fn a_base_goes_to_a_remote_and_comes_back() {
    for init in [&[][..], &["--object-format=sha256"]] {
        let fleet = Fleet::new(init);
        let pushed = fleet.push("HEAD");
        assert_eq!(pushed.branch.as_ref().map(|branch| branch.to_string()).as_deref(), Some("main"));
        assert!(!pushed.sent.was_there && pushed.sent.contents > 0);
        assert!(fleet.push("HEAD").sent.was_there);
        let all = fleet.listed();
        assert_eq!((all.len(), &all[0].0, &all[0].1.branches), (1, &fleet.head(), &vec!["main".to_owned()]));
        let host = open(&fleet.host());
        let pulled = pull::plan(&host, fleet.pull_request()).expect("a plan").run(&Silent).expect("a pull");
        assert_eq!(pulled.commit.to_string(), fleet.head());
        assert_eq!(pulled.received.contents, pushed.sent.contents);
        // A second pull finds it.
        let again = pull::plan(&host, fleet.pull_request()).expect("a plan").run(&Silent).expect("a pull");
        assert_eq!((again.base.name, again.received.contents), (pulled.base.name.clone(), 0));
        let tree = fleet.host().git(&["rev-parse", &format!("{}^{{tree}}", fleet.head())]).stdout;
        assert_eq!(tree.to_string().trim(), fleet.commit("HEAD^{tree}"));
        let request = kept::Request { base_dir: None, action: Action::Verify(Vec::new()) };
        let kept::Report::Verified(verified) =
            kept::plan(&host, request).expect("a plan").run(&Silent).expect("it is verified")
        else {
            panic!("a verification says what it found");
        };
        assert_eq!((verified.len(), &verified[0].0.name), (1, &pulled.base.name));
        assert_eq!((verified[0].1.flaws.len(), verified[0].1.files), (0, 22));
    }
}

#[test]
fn a_plan_changes_nothing_and_says_what_it_does() {
    let fleet = Fleet::new(&[]);
    let (origin, host) = (open(&fleet.origin()), open(&fleet.host()));
    let before = (files(&fleet.origin().path), files(&fleet.host().path));
    let head = fleet.head();
    let push = push::plan(&origin, fleet.push_request("HEAD")).expect("a plan").to_string();
    assert_eq!(push, format!("push the base of {head} to {}", fleet.remote().expect("a remote")));
    let pull = pull::plan(&host, fleet.pull_request()).expect("a plan").to_string();
    assert!(pull.starts_with("pull the newest base of 'main' from file://"), "{pull}");
    let request = verify::Request { remote: fleet.remote(), ..verify::Request::default() };
    verify::plan(&origin, request).expect("a plan");
    add::plan(&origin, add::Request::default()).expect("a plan");
    let access = || Access::from(&origin);
    let request = prune::Request { remote: fleet.remote(), keep: 1, ..prune::Request::default() };
    prune::plan(access(), request).expect("a plan");
    let (time, commit) = (Some(Duration::from_secs(60)), "HEAD".into());
    let request = lease::Request { remote: fleet.remote(), commit, holder: None, time };
    lease::plan(access(), request).expect("a plan");
    assert!(!fleet.dir().exists());
    assert!(before == (files(&fleet.origin().path), files(&fleet.host().path)));
}

/// Each refusal of a plan is a variant, and comes before anything was changed.
#[test]
fn refusals_have_types() {
    let fleet = Fleet::new(&[]);
    let (origin, host) = (open(&fleet.origin()), open(&fleet.host()));
    let refused = |request| match push::plan(&origin, request).err().map(Error::from) {
        Some(Error::Bases(error)) => *error,
        other => panic!("{other:?}"),
    };
    let request = || fleet.push_request("HEAD");
    assert!(matches!(refused(push::Request { remote: None, ..request() }), BaseError::NoRemote));
    let tree = refused(push::Request { commit: Some("HEAD^{tree}".into()), ..request() });
    assert!(matches!(tree, BaseError::NotACommit(_)), "{tree}");
    let second = refused(push::Request { commit: Some("file:///x".into()), ..request() });
    assert!(matches!(second, BaseError::SecondRemote(_)), "{second}");
    let unborn = verify::Request { remote: fleet.remote(), ..verify::Request::default() };
    let unborn = verify::plan(&host, unborn).err().map(Error::from).expect("it is refused");
    assert_eq!(unborn.to_string(), "HEAD has no commit: name one, or a --branch");
    fleet.push("HEAD");
    let none = pull::Request { branch: Some("none".into()), ..fleet.pull_request() };
    let none = pull::plan(&host, none).expect("a plan").run(&Silent).expect_err("there is no such branch");
    assert!(none.to_string().ends_with("remote has no base of branch 'none'"), "{none}");
    let options = push::Options { level: Some(20), ..push::Options::default() };
    let level = refused(push::Request { options, ..request() });
    assert!(matches!(level, BaseError::Level(_)), "{level}");
}

/// A flaw of the base is the result of a verification, and it is kept nowhere.
#[test]
fn verification_finds_flaws() {
    let fleet = Fleet::new(&[]);
    let sent = fleet.push("HEAD").sent;
    let origin = open(&fleet.origin());
    let read = || {
        let request = verify::Request { remote: fleet.remote(), ..verify::Request::default() };
        verify::plan(&origin, request).expect("a plan").run(&Silent).expect("it is read").read
    };
    let before = files(&fleet.origin().path);
    assert_eq!(read().expect("it is sound").contents, sent.contents);
    let data: Vec<PathBuf> = files(&fleet.dir()).into_iter().map(|(path, _)| path).collect();
    for path in data.iter().filter(|path| path.to_string_lossy().contains("/data/")) {
        let content = fs::read(path).expect("a file");
        let mut wrong = content.clone();
        if let Some(last) = wrong.last_mut() {
            *last ^= 1;
        }
        fs::write(path, wrong).expect("it is written");
        read().expect_err(&path.display().to_string());
        fs::write(path, content).expect("it is written");
    }
    read().expect("it is sound again");
    assert!(before == files(&fleet.origin().path));
}

#[test]
fn leases_and_branches_keep_bases() {
    let fleet = Fleet::new(&[]);
    let origin = open(&fleet.origin());
    for name in ["HEAD~1", "HEAD"] {
        fleet.push(name);
    }
    let old = fleet.commit("HEAD~1");
    let lease = |time| {
        let (commit, holder) = (BString::from(old.as_str()), Some("a host".to_owned()));
        let request = lease::Request { remote: fleet.remote(), commit, holder, time };
        lease::plan(&origin, request).expect("a plan").run(&Silent).expect("a lease").end
    };
    let prune = |dry_run| {
        let grace = Some(Duration::ZERO);
        let request = prune::Request { remote: fleet.remote(), keep: 1, grace, dry_run };
        prune::plan(&origin, request).expect("a plan").run(&Silent).expect("it is pruned").commits
    };
    assert!(lease(Some(Duration::from_secs(600))).is_some());
    let leases = fleet.listed().into_iter().find(|(commit, _)| *commit == old).expect("a base").1.leases;
    assert_eq!(leases.iter().map(|lease| lease.holder.as_str()).collect::<Vec<_>>(), ["a host"]);
    assert_eq!(prune(false), [""; 0]);
    assert_eq!(lease(None), None);
    assert_eq!(prune(true), [old.as_str()]);
    assert_eq!(fleet.listed().len(), 2);
    assert_eq!(prune(false), [old.as_str()]);
    assert_eq!(fleet.listed().len(), 1);
}

#[test]
fn a_base_directory_is_filled_and_emptied() {
    let fleet = Fleet::new(&[]);
    let origin = open(&fleet.origin());
    let added = |request: add::Request| {
        add::plan(&origin, request).map_err(Error::from).and_then(|plan| Ok(plan.run(&Silent)?.bases))
    };
    let request = || add::Request { kind: Kind::Directory, ..add::Request::default() };
    let both = add::Request { commits: vec!["HEAD".into(), "HEAD~1".into()], ..request() };
    let bases = added(both).expect("two bases");
    assert_eq!(fs::read(bases[0].files().join("dir/3")).expect("a file"), b"other\n");
    let kept = |action| {
        kept::plan(&origin, kept::Request { base_dir: None, action })
            .expect("a plan")
            .run(&Silent)
            .expect("done")
    };
    let names = || match kept(Action::List) {
        kept::Report::Listed(bases) => bases.into_iter().map(|base| base.name).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(names().len(), 2);
    kept(Action::Remove(vec![bases[1].name.clone()]));
    assert_eq!(names(), [bases[0].name.as_str()]);
    kept(Action::Prune { unused: Duration::ZERO, dry_run: true });
    assert_eq!(names().len(), 1);
    kept(Action::Prune { unused: Duration::ZERO, dry_run: false });
    assert_eq!(names(), [""; 0]);

    // A checkout becomes a base where it lies, if it is clean.
    let checkout = fleet.sandbox.repo("checkout");
    fleet.origin().git(&["clone", "-q", ".", "../checkout"]);
    let from = || add::Request { from: Some("../checkout".into()), ..request() };
    checkout.write("untracked", "");
    let refused = added(from()).expect_err("an untracked file");
    assert!(
        matches!(&refused, Error::Bases(error) if matches!(**error, BaseError::NotClean(_))),
        "{refused}"
    );
    fs::remove_file(checkout.path.join("untracked")).expect("it is there");
    checkout.write("dir/3", "changed\n");
    added(from()).expect_err("a changed file");
    checkout.git(&["checkout", "-q", "dir/3"]);
    let part = add::Request { sparse: vec!["dir".into()], ..from() };
    assert!(added(part).expect_err("a part of it").to_string().contains("one whole base"));
    // A file that changes after planning ends the plan, and no base is added.
    let plan = add::plan(&origin, from()).expect("a plan");
    checkout.write("dir/3", "changed\n");
    let late = Error::from(plan.run(&Silent).expect_err("it is no longer clean"));
    assert!(matches!(&late, Error::Bases(error) if matches!(**error, BaseError::NotClean(_))), "{late}");
    assert_eq!(names(), [""; 0]);
    checkout.git(&["checkout", "-q", "dir/3"]);
    let linked = added(from()).expect("a base").remove(0);
    let real = |path: &Path| path.canonicalize().expect("it exists");
    assert!(linked.is_elsewhere() && real(&linked.files()) == real(&checkout.path));
}

/// A mirror makes its repository, follows new tips, and forgets branches that are gone.
#[test]
fn a_mirror_follows_branches() {
    let fleet = Fleet::new(&[]);
    let origin = fleet.origin();
    origin.git(&["branch", "topic"]);
    let round = |url: Option<&str>| {
        let request = mirror::Request {
            dir: "mirror".into(),
            remote: fleet.remote(),
            url: url.map(BString::from),
            branches: vec!["*".into()],
            options: push::Options { bundle: Some(false), no_mount: true, ..push::Options::default() },
        };
        let plan = mirror::plan(&fleet.sandbox.path(), variables(&origin), request).map_err(Error::from)?;
        let (environment, interrupt) = (variables(&origin), plan.interrupt());
        Ok(plan.run(&Silent, &ForMirror { environment, interrupt, events: &Silent })?.branches)
    };
    let missing: Result<_, Error> = round(None);
    assert!(missing.expect_err("there is no mirror").to_string().starts_with("'mirror' is missing"));
    assert!(!fleet.sandbox.path().join("mirror").exists());
    let url = origin.path.to_str().expect("text");
    let sent = |followed: &mirror::Followed| match followed {
        mirror::Followed::Pushed(pushed) => (pushed.branch.to_string(), pushed.sent.is_some()),
        other => panic!("{other:?}"),
    };
    let first = round(Some(url)).expect("a round");
    assert_eq!(first.iter().map(sent).collect::<Vec<_>>(), [("main".into(), true), ("topic".into(), true)]);
    let second = round(None).expect("a round");
    assert_eq!(
        second.iter().map(sent).collect::<Vec<_>>(),
        [("main".into(), false), ("topic".into(), false)]
    );
    origin.write("new", "");
    origin.commit("three");
    origin.git(&["branch", "-D", "topic"]);
    let third = round(None).expect("a round");
    assert!(matches!(&third[0], mirror::Followed::Removed(branch) if branch == "topic"), "{third:?}");
    assert_eq!(sent(&third[1]), ("main".to_owned(), true));
    let commits: Vec<String> = fleet.listed().into_iter().map(|(commit, _)| commit).collect();
    assert!(commits.contains(&fleet.head()), "{commits:?}");
    let other = round(Some("file:///elsewhere")).expect_err("another repository");
    assert!(
        matches!(&other, Error::Bases(error) if matches!(**error, BaseError::OtherMirror { .. })),
        "{other}"
    );
    // A repository that no mirror made is left alone.
    fs::rename(fleet.sandbox.path().join("mirror"), fleet.sandbox.path().join("old")).expect("it moves");
    origin.git(&["clone", "-q", "--bare", ".", "../mirror"]);
    let foreign = round(Some(url)).expect_err("no mirror");
    assert!(
        matches!(&foreign, Error::Bases(error) if matches!(**error, BaseError::NotAMirror(_))),
        "{foreign}"
    );
}

/// The commit of the base comes from the remote, what is newer from the server.
#[test]
fn a_clone_begins_with_a_base() {
    let fleet = Fleet::new(&[]);
    let origin = fleet.origin();
    let request = push::Request { branch: Some("main".into()), ..fleet.push_request("HEAD~1") };
    push::plan(&open(&origin), request).expect("a plan").run(&Silent).expect("a push");
    origin.git(&["config", "uploadpack.allowFilter", "true"]);
    let planned = |name: &str, remotes: &[(&str, Need)], no_checkout: bool| {
        let remote = |(address, need): &(&str, Need)| BaseRemote { address: (*address).into(), need: *need };
        let request = clone::Request {
            source: "origin".into(),
            directory: Some(name.into()),
            no_checkout,
            bases: remotes.iter().map(remote).collect(),
            ..clone::Request::default()
        };
        clone::plan(&fleet.sandbox.path(), variables(&origin), request)
    };
    let cloned =
        |name: &str, remotes: &[(&str, Need)]| planned(name, remotes, true).expect("a plan").run(&Silent);
    let remote = fleet.remote().expect("a remote").to_string();
    cloned("made", &[("file:///nowhere", Need::IfAble), (&remote, Need::Required)]).expect("a clone");
    let made = fleet.sandbox.repo("made");
    assert_eq!(made.git(&["rev-parse", "HEAD"]).stdout.to_string().trim(), fleet.head());
    assert_eq!(made.git(&["config", "remote.origin.promisor"]).stdout, "true\n");
    assert_eq!(made.git(&["rev-list", "--count", "HEAD"]).stdout, "2\n");
    let bases = made.path.join(".git/sapwood/bases");
    assert!(!files(&bases).is_empty());
    let error = cloned("none", &[("file:///nowhere", Need::Required)]).expect_err("it is required");
    assert!(matches!(error.0, Error::Bases(_)), "{error}");
    assert!(!fleet.sandbox.path().join("none").exists());
    cloned("plain", &[("file:///nowhere", Need::IfAble)]).expect("a clone without a base");
    assert_eq!(fleet.sandbox.repo("plain").git(&["rev-list", "--count", "HEAD"]).stdout, "2\n");
    // Contents come from the base, and newer ones from the server.
    origin.write("new", "newer\n");
    origin.commit("newer");
    let report = planned("filled", &[(&remote, Need::Required)], false).expect("a plan").run(&Silent);
    let filled = fleet.sandbox.repo("filled");
    assert_eq!(report.expect("a clone").commit.map(|oid| oid.to_string()), Some(fleet.head()));
    assert_eq!(
        (filled.read("new"), filled.git(&["status", "--porcelain"]).stdout),
        ("newer\n".into(), "".into())
    );
    assert_eq!(filled.git(&["config", "remote.origin.promisor"]).stdout, "true\n");
}
