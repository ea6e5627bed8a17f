//! Clones whose transfer is interrupted and resumed (`sapwood.resumableClone`).

use std::{
    any::Any,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use testkit::{
    Disk, Repo, Run, Sandbox,
    crash::{Crash, CrashPoints},
    servers::{Daemon, Fault, Line, Nginx, Proxy},
};

use super::{add, seen};
use crate::{SAPWOOD, clone::tree, full, killed::sapwood, random::Random};

/// A repository behind a proxy, and the command that clones it.
struct Scene<'a> {
    sandbox: &'a Sandbox,
    /// Dropping it stops the server.
    _server: Box<dyn Any>,
    proxy: Proxy,
    url: String,
}

impl<'a> Scene<'a> {
    fn new(sandbox: &'a Sandbox, rate: Option<u64>) -> Scene<'a> {
        Scene::make_source(sandbox);
        Scene::of_daemon(sandbox, rate)
    }

    fn of_daemon(sandbox: &'a Sandbox, rate: Option<u64>) -> Scene<'a> {
        let daemon = Daemon::start(sandbox, "served");
        let proxy = Proxy::on(Line { rate, latency: Duration::ZERO }, daemon.address());
        let url = proxy.before(&daemon.url("source"));
        Scene { sandbox, _server: Box::new(daemon), proxy, url }
    }

    fn of_nginx(sandbox: &'a Sandbox) -> Scene<'a> {
        let nginx = Nginx::start(&sandbox.path().join("served"));
        let proxy = Proxy::to(([127, 0, 0, 1], nginx.port()).into());
        let url = nginx.url("git/source").replace(&nginx.port().to_string(), &proxy.port().to_string());
        Scene { sandbox, _server: Box::new(nginx), proxy, url }
    }

    /// Creates a source of about a megabyte. Some of its objects are stored as deltas.
    fn make_source(sandbox: &Sandbox) {
        let repo = sandbox.init("served/source");
        let mut random = Random::new(3);
        for number in 0..16 {
            let lines = (0..200).map(|line| format!("{}\n", if line == number { 0 } else { line }));
            repo.write(format!("notes/{}/text", number % 3), lines.collect::<String>());
            add(&repo, number, &mut random);
        }
        repo.git(&["tag", "-a", "-m", "a tag", "v1", "HEAD~2"]);
        repo.git(&["config", "uploadpack.allowFilter", "true"]);
    }

    fn args<'s>(&'s self, keeping: &'s str, more: &[&'s str]) -> Vec<&'s str> {
        [&["-c", keeping, "clone", "-q"], more, &[&self.url, "copy"]].concat()
    }

    fn run(&self, keeping: &str, more: &[&str]) -> Run {
        self.sandbox.repo("").run(Path::new(SAPWOOD), &self.args(keeping, more))
    }

    /// Clones, and returns the number of bytes received.
    #[track_caller]
    fn finish(&self, keeping: &str, more: &[&str], context: &str) -> u64 {
        let before = self.proxy.delivered();
        let run = self.run(keeping, more);
        assert_eq!((run.code, run.stderr.to_string()), (0, String::new()), "{context}");
        self.proxy.delivered() - before
    }

    /// Starts a clone that is cut off after `part` (0 to 1) of `whole` bytes.
    #[track_caller]
    fn cut(&self, keeping: &str, more: &[&str], (whole, part): (u64, f64)) {
        self.clear();
        self.proxy.once(Fault::Cut, (whole as f64 * part) as u64);
        let run = self.run(keeping, more);
        assert!(run.code == 128 && !self.proxy.is_troubled(), "{}", run.stderr);
        let is_kept =
            ["sapwood-transfer", ".git/sapwood-transfer"].iter().any(|name| self.copy().exists(name));
        assert_eq!(run.stderr.to_string().contains("info: the objects that came are kept"), is_kept);
    }

    /// Removes the files of an earlier clone.
    fn clear(&self) {
        let root = self.sandbox.repo("");
        if root.exists("copy") {
            root.remove("copy");
        }
    }

    fn copy(&self) -> Repo<'a> {
        self.sandbox.repo("copy")
    }
}

const ALWAYS: &str = "sapwood.resumableClone=true";

/// Returns every file and directory of a clone except the packs, of which there may be several.
fn files(copy: &Repo<'_>) -> Vec<(bstr::BString, (u32, bstr::BString))> {
    let all = tree(&copy.path).into_iter();
    all.filter(|(name, _)| !name.starts_with(b".git/objects/pack/pack-")).collect()
}

#[test]
fn clones_resume_after_a_cut() {
    resume_after_cuts(&[], if full() { 50 } else { 2 });
}

#[test]
fn shallow_clones_resume_after_a_cut() {
    resume_after_cuts(&["--depth=1"], if full() { 25 } else { 2 });
    resume_after_cuts(&["--depth=9", "--no-single-branch"], if full() { 25 } else { 2 });
}

#[test]
fn partial_clones_resume_after_a_cut() {
    resume_after_cuts(&["--filter=blob:none"], if full() { 25 } else { 2 });
    resume_after_cuts(&["--filter=blob:none", "--depth=9"], if full() { 25 } else { 1 });
}

#[test]
fn checked_clones_resume_after_a_cut() {
    resume_after_cuts(&["-c", "transfer.fsckObjects=true"], if full() { 25 } else { 2 });
}

/// Clones are cut by the network and killed in turn.
fn resume_after_cuts(more: &[&str], rounds: usize) {
    let sandbox = Sandbox::new();
    // The line is slow enough to cut the clone during the transfer.
    let scene = Scene::new(&sandbox, Some(2_000_000));
    let (root, copy) = (sandbox.repo(""), scene.copy());
    let whole = scene.finish(ALWAYS, more, "undisturbed");
    let expected = (seen(&copy), files(&copy));
    scene.clear();
    let clone = sapwood(&root, &scene.args(ALWAYS, more));
    // The first change and the last one are those of a clone that has nothing, and everything.
    let points = CrashPoints::of(&clone).sample(rounds + 2);
    let mut random = Random::new(4);
    let (mut kept, mut killed) = (0, 0);
    for round in 0..2 * rounds {
        scene.clear();
        let before = scene.proxy.delivered();
        let part = (random.next() % 1000) as f64 / 1000.0;
        let context = if round % 2 == 0 {
            scene.cut(ALWAYS, more, (whole, part));
            format!("{more:?}, round {round}, cut at {part} of {whole} bytes")
        } else {
            let crash = Crash::before(points[1 + round / 2], &clone);
            killed += usize::from(crash.happened());
            format!("{more:?}, round {round}, {crash}")
        };
        kept += usize::from(copy.exists(".git/sapwood-clone"));
        if !copy.exists(".git") || copy.exists(".git/sapwood-clone") {
            scene.finish(ALWAYS, more, &context);
        }
        let asked = scene.proxy.delivered() - before;
        assert!(asked <= whole + whole / 4, "{context}: {asked} bytes came");
        copy.git(&["fsck", "--strict"]);
        assert!((seen(&copy), files(&copy)) == expected, "{context}: {:?}", files(&copy));
    }
    println!("{killed} of {rounds} clones were killed");
    assert!(kept >= rounds, "only {kept} clones were cut");
    assert!(killed > 0, "each kill came after the end");
}

/// The flawed file may come before the cut or after it, and with or without the tree that names it.
#[test]
fn flaws_are_found_when_a_checked_clone_resumes() {
    let sandbox = Sandbox::new();
    let scene = Scene::new(&sandbox, None);
    let source = sandbox.repo("served/source");
    source.write(".gitmodules", "[submodule \"../x\"]\n\tpath = x\n\turl = https://example.org/x\n");
    source.commit("a name that leads out of its directory");
    let whole = scene.finish(ALWAYS, &[], "unchecked");
    let checked = ["-c", "transfer.fsckObjects=true"];
    for part in [0.3, 0.6, 0.95] {
        scene.cut(ALWAYS, &checked, (whole, part));
        assert!(scene.copy().exists(".git/sapwood-transfer"), "{part}");
        let run = scene.run(ALWAYS, &checked);
        assert_eq!(run.code, 128, "{part}: {}", run.stderr);
        assert!(run.stderr.to_string().contains("gitmodulesName"), "{part}: {}", run.stderr);
        assert_eq!(tree(&scene.copy().path).len(), 0, "{part}");
    }
}

/// Transfers are cut in the first blobs, in the last ones, and twice.
#[test]
fn a_clone_resumes_after_a_second_cut() {
    let sandbox = Sandbox::new();
    let scene = Scene::new(&sandbox, None);
    let whole = scene.finish(ALWAYS, &[], "undisturbed");
    let expected = (seen(&scene.copy()), files(&scene.copy()));
    let before = scene.proxy.delivered();
    scene.cut(ALWAYS, &[], (whole, 0.2));
    for part in [0.3, 0.2] {
        scene.proxy.once(Fault::Cut, (whole as f64 * part) as u64);
        assert_eq!(scene.run(ALWAYS, &[]).code, 128);
        assert!(scene.copy().exists(".git/sapwood-clone"), "{part}");
        // The clone is a valid repository at all times.
        scene.copy().git(&["fsck"]);
    }
    scene.finish(ALWAYS, &[], "at last");
    let asked = scene.proxy.delivered() - before;
    assert!(asked <= whole + whole / 4, "{asked} of {whole}");
    scene.copy().git(&["fsck", "--strict"]);
    assert!((seen(&scene.copy()), files(&scene.copy())) == expected);
}

#[test]
fn keeps_interrupted_clones_as_configured() {
    let sandbox = Sandbox::new();
    let scene = Scene::new(&sandbox, None);
    let whole = scene.finish(ALWAYS, &[], "undisturbed");
    for keeping in ["sapwood.resumableClone=auto", "sapwood.resumableClone=false"] {
        scene.cut(keeping, &[], (whole, 0.9));
        assert!(!sandbox.repo("").exists("copy"), "{keeping}: a small transfer is not kept");
    }
    // Another setting discards the partial transfer.
    scene.cut(ALWAYS, &[], (whole, 0.9));
    let came = scene.finish("sapwood.resumableClone=false", &[], "anew");
    assert!(came >= whole / 2, "{came} of {whole}");
    // A cut before the first byte leaves no files.
    scene.cut(ALWAYS, &[], (whole, 0.0));
    assert!(!sandbox.repo("").exists("copy"));
    // The names of objects do not tell which ones this filter leaves out.
    scene.cut(ALWAYS, &["--filter=blob:limit=100k"], (whole, 0.6));
    assert!(!sandbox.repo("").exists("copy"));
    // A shallow clone has no use for the beginning of a complete one.
    scene.cut(ALWAYS, &[], (whole, 0.6));
    let came = scene.finish(ALWAYS, &["--depth=1"], "another extent");
    assert!(came >= whole * 3 / 4, "{came} of {whole}");
    // A failure before the connection is established does not discard the partial transfer.
    scene.cut(ALWAYS, &[], (whole, 0.9));
    scene.proxy.once(Fault::Cut, 0);
    assert_eq!(scene.run(ALWAYS, &[]).code, 128);
    assert_eq!(scene.run(ALWAYS, &["-b", "nowhere"]).code, 128);
    let came = scene.finish(ALWAYS, &[], "after failures");
    assert!(came <= whole / 4, "{came} of {whole}");
}

#[test]
fn a_signal_keeps_received_objects() {
    use std::os::unix::process::ExitStatusExt as _;
    let sandbox = Sandbox::new();
    let scene = Scene::new(&sandbox, Some(1_000_000));
    let root = sandbox.repo("");
    for (name, number) in [("INT", 2), ("TERM", 15)] {
        scene.clear();
        let before = scene.proxy.delivered();
        let mut command = root.interruptible(Path::new(SAPWOOD));
        command.args(scene.args(ALWAYS, &[])).stderr(Stdio::null());
        let mut child = command.spawn().expect("it starts");
        while scene.proxy.delivered() < before + 500_000 {
            assert_eq!(child.try_wait().expect("a child"), None);
            std::thread::sleep(Duration::from_millis(5));
        }
        let sent = Command::new("kill").arg(format!("-{name}")).arg(child.id().to_string()).status();
        assert!(sent.expect("kill can be run").success());
        assert_eq!(child.wait().expect("a child").signal(), Some(number));
        scene.copy().git(&["fsck"]);
        let came = scene.finish(ALWAYS, &[], name);
        assert!(came < 800_000, "{name}: {came} bytes came");
        scene.copy().git(&["fsck", "--strict"]);
        assert_eq!(scene.copy().git(&["status", "--porcelain"]).stdout, "");
    }
}

#[test]
fn refs_may_move_while_a_clone_is_cut() {
    let sandbox = Sandbox::new();
    let scene = Scene::new(&sandbox, None);
    let (root, copy, source) = (sandbox.repo(""), scene.copy(), sandbox.repo("served/source"));
    let mut random = Random::new(9);
    for (name, more) in [("all", &[][..]), ("one", &["--single-branch"])] {
        scene.clear();
        let whole = scene.finish(ALWAYS, more, "undisturbed");
        let same = |context: &str| {
            root.git(&[&["clone", "-q"], more, &[&scene.url, "git"]].concat());
            let seen = |repo: &Repo<'_>| {
                let asked: [&[&str]; 3] =
                    [&["for-each-ref"], &["rev-parse", "HEAD"], &["status", "--porcelain"]];
                asked.map(|args| repo.git(args).stdout)
            };
            copy.git(&["fsck", "--strict", "--connectivity-only"]);
            assert_eq!(seen(&copy), seen(&sandbox.repo("git")), "{name}: {context}");
            assert_eq!(copy.read(".git/config"), sandbox.repo("git").read(".git/config"));
            root.remove("git");
        };
        scene.cut(ALWAYS, more, (whole, 0.7));
        add(&source, 100, &mut random);
        source.git(&["tag", "-a", "-m", "new", &format!("new-{name}")]);
        let came = scene.finish(ALWAYS, more, "moved on");
        assert!(came <= whole / 2, "{name}: {came} of {whole}");
        same("moved on");
        scene.cut(ALWAYS, more, (whole, 0.7));
        source.git(&["reset", "-q", "--hard", "HEAD~5"]);
        add(&source, 200, &mut random);
        scene.finish(ALWAYS, more, "moved back");
        same("moved back");
    }
}

#[test]
fn a_server_of_the_old_protocol_begins_anew() {
    let sandbox = Sandbox::new();
    let scene = Scene::new(&sandbox, None);
    sandbox.repo("home").write(".gitconfig", "[protocol]\n\tversion = 0\n");
    let whole = scene.finish(ALWAYS, &[], "undisturbed");
    let expected = (seen(&scene.copy()), files(&scene.copy()));
    scene.cut(ALWAYS, &[], (whole, 0.9));
    scene.finish(ALWAYS, &[], "anew");
    assert!((seen(&scene.copy()), files(&scene.copy())) == expected);
}

/// A bare clone is resumed in its own directory, and a template's packs are kept.
#[test]
fn bare_clones_and_templates_go_on() {
    let sandbox = Sandbox::new();
    let scene = Scene::new(&sandbox, None);
    let whole = scene.finish(ALWAYS, &[], "undisturbed");
    let other = sandbox.init("other");
    other.write("file", "of the template\n");
    other.commit("one");
    other.git(&["repack", "-q", "-a", "-d"]);
    let template = sandbox.repo("template");
    std::fs::create_dir_all(template.join("objects")).expect("a directory of ours");
    std::fs::rename(other.join(".git/objects/pack"), template.join("objects/pack")).expect("renamed");
    let template = format!("--template={}", template.path.display());
    for more in [&["--bare"][..], &["--mirror", &template], &[&template]] {
        scene.cut(ALWAYS, more, (whole, 0.8));
        let came = scene.finish(ALWAYS, more, &format!("{more:?}"));
        assert!(came <= whole / 2, "{more:?}: {came} of {whole}");
        scene.copy().git(&["fsck", "--strict"]);
        let packs = if more.len() == 1 && more[0] == "--bare" { 2 } else { 3 };
        let counts = scene.copy().git(&["count-objects", "-v"]).stdout.to_string();
        assert!(counts.contains(&format!("packs: {packs}\n")) && counts.contains("garbage: 0"), "{counts}");
        for left in ["sapwood-clone", "sapwood-transfer", ".git/sapwood-clone", ".git/sapwood-transfer"] {
            assert!(!scene.copy().exists(left), "{more:?}: {left}");
        }
    }
}

#[test]
fn a_full_disk_keeps_received_objects() {
    let sandbox = Sandbox::new();
    let scene = Scene::new(&sandbox, None);
    let whole = scene.finish(ALWAYS, &[], "undisturbed");
    sandbox.repo("").remove("copy");
    let small = sandbox.path().join("small");
    std::fs::create_dir(&small).expect("a directory of ours");
    let Some(_disk) = Disk::in_memory(2, &small) else { return };
    let root = sandbox.repo("small");
    let clone = |keeping: &str| {
        let args = ["-c", keeping, "clone", "-q", "--bare", &scene.url, "copy"];
        root.run(Path::new(SAPWOOD), &args)
    };
    // The file uses so much space that the pack does not fit on the disk.
    std::fs::write(small.join("ballast"), vec![1; 1_400_000]).expect("written");
    let run = clone(ALWAYS);
    assert_eq!(run.code, 128, "{}", run.stderr);
    assert!(run.stderr.to_string().contains("No space left on device"), "{}", run.stderr);
    assert!(root.exists("copy/sapwood-clone"), "{}", run.stderr);
    root.remove("ballast");
    let before = scene.proxy.delivered();
    let run = clone(ALWAYS);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(scene.proxy.delivered() - before < whole * 3 / 4);
    sandbox.repo("small/copy").git(&["fsck", "--strict"]);
    root.remove("copy");
    std::fs::write(small.join("ballast"), vec![1; 1_400_000]).expect("written");
    assert_eq!(clone("sapwood.resumableClone=auto").code, 128);
    assert!(!root.exists("copy"));
}

/// Over HTTP each batch is a separate request.
#[test]
fn clones_resume_over_http() {
    let sandbox = Sandbox::new();
    Scene::make_source(&sandbox);
    let scene = Scene::of_nginx(&sandbox);
    for more in [&["-c", "sapwood.http=builtin"][..], &[]] {
        scene.clear();
        let clone = |context: &str| scene.finish(ALWAYS, more, context);
        let whole = clone("undisturbed");
        let expected = (seen(&scene.copy()), files(&scene.copy()));
        scene.cut(ALWAYS, more, (whole, 0.6));
        let came = clone("again");
        assert!(came <= whole * 13 / 20, "{more:?}: {came} of {whole}");
        assert!((seen(&scene.copy()), files(&scene.copy())) == expected, "{more:?}");
    }
}

/// Most of the pack is trees, of which some are missing at each depth.
#[test]
fn missing_trees_are_asked_for() {
    let sandbox = Sandbox::new();
    let source = sandbox.init("served/source");
    let mut stream = String::new();
    for number in 0..300 {
        let path = format!("a{}/b{}/c{}/file{number}", number % 3, number % 7, number % 13);
        let head = "commit refs/heads/main\ncommitter C <c@example.com> 1700000000 +0000\ndata 0\n";
        stream.push_str(&format!("{head}M 644 inline {path}\ndata 2\n{}\n", number % 10));
    }
    let mut import = source.git_command();
    import.args(["fast-import", "--quiet"]).stdin(Stdio::piped());
    let mut import = import.spawn().expect("Git runs");
    import.stdin.take().expect("a pipe").write_all(stream.as_bytes()).expect("it reads");
    assert!(import.wait().expect("our child").success());
    let scene = Scene::of_daemon(&sandbox, None);
    let whole = scene.finish(ALWAYS, &[], "undisturbed");
    let expected = (seen(&scene.copy()), files(&scene.copy()));
    for (filters, most) in [("true", 0.75), ("false", 1.1)] {
        source.git(&["config", "uploadpack.allowFilter", filters]);
        scene.cut(ALWAYS, &[], (whole, 0.6));
        let came = scene.finish(ALWAYS, &[], filters) as f64 / whole as f64;
        // A server without filter support cannot send selected trees.
        assert!(came <= most && (filters == "true" || came > 0.95), "{filters}: {came}");
        scene.copy().git(&["fsck", "--strict"]);
        assert!((seen(&scene.copy()), files(&scene.copy())) == expected, "{filters}");
    }
}
