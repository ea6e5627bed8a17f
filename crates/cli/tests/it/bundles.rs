//! Bundles that precede a fetch, from files and from a real server, compared with Git.

use std::{fs, path::Path};

use bstr::ByteSlice as _;
use testkit::{
    Oracle, Repo, Run, Sandbox,
    servers::{Fault, Nginx, Proxy},
};

use crate::SAPWOOD;

/// Three commits, a bundle of each, and one of all.
const HISTORY: &str = "
git init -q --initial-branch=main
for n in 1 2 3; do echo $n >file; git add file; git commit -qm $n; git branch b$n; done
mkdir ../files
git bundle create -q ../files/1.bundle b1
git bundle create -q ../files/2.bundle b1..b2
git bundle create -q ../files/3.bundle b2..b3
git bundle create -q ../files/all.bundle --all
echo junk >../files/junk
sed '2,/^$/s/^[0-9a-f]* refs/1111111111111111111111111111111111111111 refs/' ../files/1.bundle >../files/bad.bundle
";

/// Bundle lists, each with its file name.
const LISTS: &[(&str, &str)] = &[
    (
        "all",
        "[bundle]\nversion = 1\nmode = all\n[bundle \"c\"]\nuri = 3.bundle\n[bundle \"a\"]\nuri = 1.bundle\n\
             [bundle \"b\"]\nuri = ./2.bundle\n",
    ),
    (
        "any",
        "[bundle]\nversion = 1\nmode = any\n[bundle \"gone\"]\nuri = gone\n[bundle \"x\"]\nuri = 1.bundle\n\
             [bundle \"y\"]\nuri = all.bundle\n",
    ),
    ("nested", "[bundle]\nversion = 1\nmode = all\n[bundle \"l\"]\nuri = all\n[bundle \"j\"]\nuri = junk\n"),
    ("loop", "[bundle]\nversion = 1\nmode = all\n[bundle \"l\"]\nuri = loop\n"),
    (
        "tokens",
        "[bundle]\nversion = 1\nmode = all\nheuristic = creationToken\n\
                [bundle \"3\"]\nuri = 3.bundle\ncreationToken = 3\n[bundle \"2\"]\nuri = 2.bundle\ncreationToken = 2\n\
                [bundle \"1\"]\nuri = 1.bundle\ncreationToken = 1\n",
    ),
    (
        "hole",
        "[bundle]\nversion = 1\nmode = all\nheuristic = creationToken\n\
              [bundle \"3\"]\nuri = 3.bundle\ncreationToken = 3\n[bundle \"1\"]\nuri = 1.bundle\ncreationToken = 1\n",
    ),
    ("bare", "[bundle]\nversion = 1\nmode = all\n[bundle \"n\"]\ncreationToken = 1\n"),
    ("later", "[bundle]\nversion = 2\nmode = all\n"),
];

fn served(sandbox: &Sandbox) -> Repo<'_> {
    let source = sandbox.repo("served/source");
    fs::create_dir_all(&source.path).expect("made");
    let made = source.command("sh".as_ref()).args(["-ec", HISTORY]).output().expect("a shell");
    assert!(made.status.success(), "{}", made.stderr.as_bstr());
    for (name, content) in LISTS {
        fs::write(sandbox.path().join("served/files").join(name), content).expect("written");
    }
    source
}

/// Returns the exit code, and the messages without the names of temporary files.
fn plain(run: Run) -> (i32, Vec<String>) {
    let lines = run.stderr.lines().map(|line| line.to_str_lossy().into_owned());
    (run.code, lines.filter(|line| !line.contains("tmp_uri_") && !line.starts_with("error: bad")).collect())
}

/// Fetches with both programs, each in a copy of an empty repository, and compares.
#[track_caller]
fn same(sandbox: &Sandbox, uri: &str, times: usize) {
    let source = sandbox.repo("served/source");
    let oracle = Oracle::new(SAPWOOD, |repo| {
        repo.git(&["init", "-q", "--initial-branch=main"]);
        repo.git(&["remote", "add", "origin", &source.path.display().to_string()]);
        repo.git(&["config", "fetch.bundleURI", uri]);
    });
    for _ in 0..times {
        let theirs = plain(oracle.git().try_git(&["fetch"]));
        let ours = plain(oracle.ours().run(Path::new(SAPWOOD), &["fetch"]));
        assert_eq!(theirs, ours, "{uri}: git left, ours right");
        oracle.same_state(&[uri]);
    }
    oracle.ours().git(&["fsck"]);
    let left = fs::read_dir(oracle.ours().join(".git/objects/bundles")).map(Iterator::count);
    assert_eq!(left.unwrap_or(0), 0, "{uri}");
}

#[test]
fn bundles_and_lists() {
    let sandbox = Sandbox::new();
    served(&sandbox);
    let nginx = Nginx::start(&sandbox.path().join("served"));
    let files = sandbox.path().join("served/files");
    for name in ["all.bundle", "3.bundle", "bad.bundle", "junk", "gone"] {
        same(&sandbox, &files.join(name).display().to_string(), 1);
    }
    same(&sandbox, &format!("file://{}", files.join("all").display()), 1);
    for (name, _) in LISTS {
        same(&sandbox, &nginx.url(&format!("files/files/{name}")), if *name == "tokens" { 2 } else { 1 });
    }
}

/// Clones with both programs, and compares messages, refs and configuration.
#[track_caller]
fn same_clone(sandbox: &Sandbox, args: &[&str]) {
    let clone = |side: &str| {
        let here = sandbox.repo(side);
        fs::create_dir_all(&here.path).expect("made");
        let run = match side {
            "git" => here.try_git(args),
            _ => here.run(Path::new(SAPWOOD), args),
        };
        let copy = sandbox.repo(&format!("{side}/copy"));
        let seen = copy.exists(".git").then(|| {
            copy.git(&["fsck"]);
            let config = copy.read(".git/config");
            (copy.git(&["for-each-ref"]).stdout, config, copy.git(&["status", "--porcelain"]).stdout)
        });
        let _ = fs::remove_dir_all(&copy.path);
        (plain(run), seen)
    };
    assert_eq!(clone("git"), clone("ours"), "{args:?}: git left, ours right");
}

#[test]
fn clones_begin_with_bundles() {
    let sandbox = Sandbox::new();
    let source = served(&sandbox);
    let nginx = Nginx::start(&sandbox.path().join("served"));
    let (url, files) = (nginx.url("git/source"), nginx.url("files/files"));
    for name in ["2.bundle", "all", "tokens", "gone"] {
        same_clone(&sandbox, &["clone", &format!("--bundle-uri={files}/{name}"), &url, "copy"]);
    }
    same_clone(&sandbox, &["clone", "--depth=1", "--bundle-uri=x", &url, "copy"]);
    // The server advertises the bundles itself.
    for (key, value) in [
        ("uploadpack.advertiseBundleURIs", "true"),
        ("bundle.version", "1"),
        ("bundle.mode", "all"),
        ("bundle.one.uri", &format!("{files}/1.bundle")),
        ("bundle.gone.uri", "../../files/files/gone"),
    ] {
        source.git(&["config", key, value]);
    }
    same_clone(&sandbox, &["-c", "transfer.bundleURI=true", "clone", &url, "copy"]);
    same_clone(&sandbox, &["-c", "transfer.bundleURI=false", "clone", &url, "copy"]);
    // With the bundle, no object has to be requested.
    nginx.clear_requests();
    let bundle = format!("--bundle-uri={files}/all.bundle");
    let run = sandbox.repo("ours").run(Path::new(SAPWOOD), &["clone", "-q", &bundle, &url, "copy"]);
    assert_eq!((run.code, run.stderr.as_bstr()), (0, b"".as_bstr()));
    let posts = nginx.requests().iter().filter(|request| request.contains("POST")).count();
    assert_eq!(posts, 1, "only the refs are listed: {:?}", nginx.requests());
}

/// An interrupted download continues where it stopped.
#[test]
fn downloads_are_resumed() {
    let sandbox = Sandbox::new();
    let source = served(&sandbox);
    let noise: Vec<u8> = (0..400_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    source.write("noise", noise);
    source.commit("noise");
    source.git(&["bundle", "create", "-q", "../files/large.bundle", "--all"]);
    let size = fs::metadata(sandbox.path().join("served/files/large.bundle")).expect("there").len();
    let nginx = Nginx::start(&sandbox.path().join("served"));
    let proxy = Proxy::to(([127, 0, 0, 1], nginx.port()).into());
    let repo = sandbox.init("copy");
    repo.git(&["remote", "add", "origin", &source.path.display().to_string()]);
    repo.git(&["config", "fetch.bundleURI", &proxy.before(&nginx.url("files/files/large.bundle"))]);
    proxy.once(Fault::Cut, size / 2);
    let cut = repo.run(Path::new(SAPWOOD), &["fetch", "-q", "--dry-run"]);
    assert!(cut.stderr.contains_str("failed to download bundle"), "{}", cut.stderr);
    let before = proxy.received();
    let run = repo.run(Path::new(SAPWOOD), &["fetch", "-q"]);
    assert_eq!((run.code, run.stderr.as_bstr()), (0, b"".as_bstr()));
    assert!(proxy.received() - before < size * 3 / 4, "{before} {} {size}", proxy.received());
    assert_eq!(
        repo.git(&["rev-parse", "refs/bundles/heads/main"]).stdout,
        source.git(&["rev-parse", "HEAD"]).stdout
    );
    repo.git(&["fsck"]);
}
