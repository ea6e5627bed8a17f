//! `index-pack` compared with Git: the same files to the byte, the same messages and exit codes.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use bstr::{BString, ByteSlice as _};
use format::{HashKind, ObjectId, hash::Hasher};
use testkit::{Repo, Run, Sandbox};

use crate::shim::{Shim, finished};

const HISTORY: &str = "for i in 1 2 3 4 5 6; do seq $i 400 >a; seq $i 90 >dir/b; echo $i >c$i; git add .; git commit -qm $i; done; \
     git tag -a -m tag v1; git repack -q -a -d -f --depth=50; cp .git/objects/pack/*.pack ../../whole.pack";

/// Two repositories; the second one is used through the shim.
struct Pair {
    sandbox: Sandbox,
    shim: Shim,
}

impl Pair {
    /// Creates two empty repositories, each with a file `whole.pack`, a pack of a history.
    fn new(format: &str) -> Pair {
        let sandbox = Sandbox::new();
        let source = sandbox.repo("source/repo");
        source.write("dir/x", "x");
        shell(&source, &format!("git init -q -b main --object-format={format} .; {HISTORY}"));
        for side in ["git", "ours"] {
            let repo = sandbox.repo(&format!("{side}/repo"));
            repo.write("whole.pack", fs::read(sandbox.path().join("whole.pack")).expect("a pack"));
            shell(&repo, &format!("git init -q --bare --object-format={format} ."));
        }
        Pair { sandbox, shim: Shim::new() }
    }

    fn git(&self) -> Repo<'_> {
        self.sandbox.repo("git/repo")
    }

    fn ours(&self) -> Repo<'_> {
        self.sandbox.repo("ours/repo")
    }

    fn pack(&self) -> Vec<u8> {
        fs::read(self.sandbox.path().join("whole.pack")).expect("a pack")
    }

    /// Runs both programs with `input`, and compares everything. Returns sapwood's run.
    #[track_caller]
    fn same(&self, args: &[&str], input: &[u8]) -> Run {
        let mut command = self.git().git_command();
        let theirs = fed(command.args(args), input);
        let ours = fed(self.shim.command(&self.ours()).args(args), input);
        assert_eq!(theirs, ours, "{args:?}: git left, ours right");
        assert_eq!(files(&self.git()), files(&self.ours()), "{args:?}");
        ours
    }

    #[track_caller]
    fn native(&self, args: &[&str], input: &[u8]) -> Run {
        self.shim.log();
        let run = self.same(args, input);
        self.shim.was_native(args);
        run
    }

    /// Removes all packs and objects from both repositories.
    fn reset(&self) {
        for repo in [self.git(), self.ours()] {
            shell(&repo, "rm -rf objects/pack objects/[0-9a-f][0-9a-f]; rm -f *.idx *.rev *.keep");
        }
    }
}

fn shell(repo: &Repo<'_>, script: &str) {
    let made = repo.command("sh".as_ref()).args(["-ec", script]).output().expect("a shell");
    assert!(made.status.success(), "{script}: {}", String::from_utf8_lossy(&made.stderr));
}

/// Runs a command with a pipe as its input.
fn fed(command: &mut Command, input: &[u8]) -> Run {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it can be run");
    let mut stdin = child.stdin.take().expect("a pipe");
    // A program that has seen enough closes the pipe, so the write may fail.
    let _ = stdin.write_all(input);
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    Run {
        code: output.status.code().unwrap_or(-1),
        stdout: output.stdout.into(),
        stderr: output.stderr.into(),
    }
}

/// Returns the files with their modes. Git leaves temporary packs behind when it fails.
fn files(repo: &Repo<'_>) -> BTreeMap<String, (u32, BString)> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut found = BTreeMap::new();
    for dir in [".", "objects/pack"] {
        let Ok(entries) = fs::read_dir(repo.join(dir)) else { continue };
        for entry in entries.map(|entry| entry.expect("listed")) {
            let name = format!("{dir}/{}", entry.file_name().to_string_lossy());
            let metadata = entry.metadata().expect("there");
            if metadata.is_file() && !name.contains("/tmp_") {
                let content = fs::read(entry.path()).expect("readable");
                found.insert(name, (metadata.permissions().mode(), content.into()));
            }
        }
    }
    found
}

#[test]
fn indexes_files_as_git_does() {
    for format in ["sha1", "sha256"] {
        let pair = Pair::new(format);
        for options in [
            "",
            "-o other.idx",
            "--no-rev-index",
            "--rev-index --threads=1",
            "--threads=4",
            "--index-version=1",
            "--index-version=2,0x400",
            "--keep=why",
            "--keep",
            "--max-input-size=20",
            "--max-input-size=20000000",
        ] {
            let args: Vec<&str> =
                ["index-pack"].into_iter().chain(options.split_whitespace()).chain(["whole.pack"]).collect();
            pair.native(&args, b"");
            pair.native(&["index-pack", "--verify", "whole.pack"], b"");
            pair.reset();
        }
        for settings in [
            "pack.indexVersion=1",
            "pack.writeReverseIndex=false",
            "pack.threads=1",
            "core.deltaBaseCacheLimit=1",
        ] {
            pair.native(&["-c", settings, "index-pack", "whole.pack"], b"");
            pair.reset();
        }
        for args in [["index-pack", "nowhere.pack"], ["index-pack", "whole"], ["index-pack", "HEAD.pack"]] {
            pair.native(&args, b"");
        }
        pair.native(&["index-pack", "-o", "nowhere/x.idx", "whole.pack"], b"");
        pair.native(&["-c", "pack.threads=-1", "index-pack", "whole.pack"], b"");
    }
}

#[test]
fn receives_packs_as_git_does() {
    for format in ["sha1", "sha256"] {
        let pair = Pair::new(format);
        let pack = pair.pack();
        for options in [
            "",
            "--keep=why",
            "--keep",
            "--fix-thin",
            "--no-rev-index",
            "--index-version=1",
            "--threads=3",
            "--max-input-size=2000",
            "--show-resolving-progress --threads=1",
            "--report-end-of-input",
        ] {
            let args: Vec<&str> =
                ["index-pack", "--stdin"].into_iter().chain(options.split_whitespace()).collect();
            let is_shown = options.contains("progress");
            if !is_shown {
                pair.native(&args, &pack);
                // The pack and its files exist already.
                pair.native(&args, &pack);
            }
            pair.reset();
        }
        let header = format!("--pack_header=2,{}", u32::from_be_bytes(pack[8..12].try_into().expect("four")));
        pair.native(&["index-pack", "--stdin", &header], &pack[12..]);
        pair.reset();
        pair.native(&["index-pack", "--stdin", "--object-format=sha1"], &pack);
        // Bytes after the pack are passed on.
        pair.native(&["index-pack", "--stdin"], &[&pack, b"behind\n".as_slice()].concat());
    }
}

#[test]
fn shows_progress() {
    let pair = Pair::new("sha1");
    let run = |repo: &Repo<'_>, ours: bool, args: &[&str]| {
        let mut command = if ours { pair.shim.command(repo) } else { repo.git_command() };
        let run = fed(command.args(args), &pair.pack());
        // The last line of each phase, without times and rates.
        let text = run.stderr.to_string();
        let last = text.lines().map(|line| line.rsplit('\r').next().unwrap_or_default().to_owned());
        last.map(|line| line.split(" | ").next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    for args in [
        &["index-pack", "-v", "--stdin"][..],
        &["index-pack", "-v", "--progress-title", "Taking", "--stdin"],
        &["index-pack", "-v", "whole.pack"],
        &["index-pack", "--show-resolving-progress", "--stdin"],
    ] {
        let theirs = run(&pair.git(), false, args);
        let ours = run(&pair.ours(), true, args);
        assert_eq!(theirs, ours, "{args:?}");
        assert!(!ours.is_empty());
        pair.shim.was_native(args);
    }
}

#[test]
fn completes_thin_packs() {
    let pair = Pair::new("sha1");
    let source = pair.sandbox.repo("source/repo");
    shell(
        &source,
        "git rev-parse HEAD~3 >../../base; (git rev-parse HEAD; echo ^HEAD~3) >../../wanted; \
         git pack-objects --thin --revs --stdout --delta-base-offset <../../wanted >../../thin.pack 2>/dev/null; \
         git pack-objects --revs -q ../../base <../../base",
    );
    let thin = fs::read(pair.sandbox.path().join("thin.pack")).expect("a pack");
    pair.native(&["index-pack", "--stdin"], &thin);
    let without_bases = pair.native(&["index-pack", "--stdin", "--fix-thin"], &thin);
    assert_eq!(without_bases.code, 128);
    let mut listings = Vec::new();
    for (repo, is_ours) in [(pair.git(), false), (pair.ours(), true)] {
        shell(
            &repo,
            "cp ../../base-*.pack ../../base-*.idx objects/pack/; cd objects/pack; for f in base-*; do mv $f pack-${f#base-}; done",
        );
        for threads in ["--threads=1", "--threads=2"] {
            let args = ["index-pack", "--stdin", "--fix-thin", threads];
            let mut command = if is_ours { pair.shim.command(&repo) } else { repo.git_command() };
            let run = fed(command.args(args), &thin);
            assert_eq!((run.code, run.stderr.as_bstr()), (0, b"".as_bstr()));
            // Another library compresses the added bases, so the name of the pack differs.
            let name = run.stdout.strip_prefix(b"pack\t").expect("a pack").trim().to_str_lossy().into_owned();
            let index = format!("objects/pack/pack-{name}.idx");
            repo.git(&["verify-pack", &index]);
            let mut shown = repo.git_command();
            shown.arg("show-index").stdin(fs::File::open(repo.join(&index)).expect("an index"));
            let shown = finished(&mut shown).stdout;
            let mut objects: Vec<String> = shown
                .lines()
                .map(|line| line.to_str_lossy().split(' ').nth(1).expect("a name").to_owned())
                .collect();
            objects.sort();
            listings.push(objects);
        }
        repo.git(&["fsck", "--strict"]);
    }
    assert!(!listings[0].is_empty() && listings.iter().all(|listing| *listing == listings[0]));
    pair.shim.was_native(&["index-pack", "--fix-thin"]);
}

#[test]
fn verifies_indices_as_git_does() {
    let pair = Pair::new("sha1");
    let verify = ["index-pack", "--verify", "whole.pack"];
    let each = |script: &str| [pair.git(), pair.ours()].iter().for_each(|repo| shell(repo, script));
    pair.native(&verify, b"");
    pair.native(&["index-pack", "whole.pack"], b"");
    pair.native(&verify, b"");
    pair.native(&["index-pack", "--verify", "--no-rev-index", "whole.pack"], b"");
    pair.native(&["index-pack", "--verify", "-o", "whole.idx", "whole.pack"], b"");
    pair.native(&["index-pack", "--verify", "-o", "x", "whole.pack"], b"");
    for (damage, file) in [
        ("printf '\\377' | dd of=FILE bs=1 seek=1500 conv=notrunc 2>/dev/null", "whole.idx"),
        ("printf '\\377' | dd of=FILE bs=1 seek=100 conv=notrunc 2>/dev/null", "whole.idx"),
        ("printf '\\377' | dd of=FILE bs=1 seek=7 conv=notrunc 2>/dev/null", "whole.idx"),
        ("printf '\\377' | dd of=FILE bs=1 seek=20 conv=notrunc 2>/dev/null", "whole.rev"),
        ("echo more >>FILE", "whole.rev"),
        ("echo more >>FILE", "whole.idx"),
        ("head -c 100 FILE >x; mv x FILE", "whole.rev"),
        ("head -c 1000 FILE >x; mv x FILE", "whole.idx"),
        ("rm FILE", "whole.rev"),
        ("rm FILE", "whole.idx"),
        ("printf 'x' | dd of=FILE bs=1 seek=200 conv=notrunc 2>/dev/null", "whole.pack"),
        ("rm FILE", "whole.pack"),
    ] {
        each("for f in whole.*; do cp $f saved.$f; done; chmod u+w whole.*");
        each(&damage.replace("FILE", file));
        pair.native(&verify, b"");
        each("for f in saved.*; do mv -f $f ${f#saved.}; done");
    }
}

fn zlib(content: &[u8]) -> Vec<u8> {
    let (mut low, mut high) = (1u32, 0u32);
    for &byte in content {
        low = (low + u32::from(byte)) % 65521;
        high = (high + low) % 65521;
    }
    let len = u16::try_from(content.len()).expect("short");
    let mut out = vec![0x78, 0x01, 0x01];
    out.extend(len.to_le_bytes());
    out.extend((!len).to_le_bytes());
    out.extend(content);
    out.extend((high << 16 | low).to_be_bytes());
    out
}

/// Returns an entry of a pack whose header announces `size` bytes and contains the reference
/// `base`.
fn entry(kind: u8, size: usize, base: &[u8], content: &[u8]) -> Vec<u8> {
    let mut out = vec![kind << 4 | (size & 15) as u8];
    let mut rest = size >> 4;
    while rest > 0 {
        *out.last_mut().expect("one") |= 0x80;
        out.push((rest & 0x7f) as u8);
        rest >>= 7;
    }
    out.extend(base);
    out.extend(zlib(content));
    out
}

fn pack(count: u32, entries: &[&[u8]]) -> Vec<u8> {
    let mut out = [b"PACK\0\0\0\x02".as_slice(), &count.to_be_bytes(), &entries.concat()].concat();
    let mut hasher = Hasher::checksum(HashKind::Sha1);
    hasher.update(&out);
    out.extend(hasher.finish().expect("a checksum").as_bytes());
    out
}

fn blob_name(content: &[u8]) -> ObjectId {
    let mut hasher = Hasher::object(HashKind::Sha1, "blob", content.len() as u64);
    hasher.update(content);
    hasher.finish().expect("no attack")
}

const BASE: &[u8] = b"some content of a base";
/// A delta that appends four bytes to [`BASE`].
const DELTA: &[u8] = &[22, 26, 0x90, 22, 4, b'm', b'o', b'r', b'e'];

#[test]
fn refuses_what_git_refuses() {
    let pair = Pair::new("sha1");
    let base = entry(3, BASE.len(), b"", BASE);
    let behind = [base.len() as u8];
    let delta = entry(6, DELTA.len(), &behind, DELTA);
    let named = |base: &[u8]| entry(7, DELTA.len(), blob_name(base).as_bytes(), DELTA);
    let good = pack(2, &[&base, &delta]);
    let mut cases: Vec<Vec<u8>> = (0..good.len()).map(|end| good[..end].to_vec()).collect();
    let changed = |at: usize, byte: u8| {
        let mut pack = good.clone();
        pack[at] = byte;
        pack
    };
    cases.extend([
        changed(0, b'p'),
        changed(7, 4),
        changed(good.len() - 1, !good[good.len() - 1]),
        changed(13, 0x79),
        changed(25, !good[25]),
        changed(12 + base.len() + 4, 9),
        pack(3, &[&base, &delta]),
        pack(1, &[&base, &delta]),
        pack(0, &[&base]),
        pack(1, &[&named(BASE)]),
        pack(3, &[&named(b"x"), &named(b"y"), &base]),
        pack(1, &[&entry(0, 1, b"", b"x")]),
        pack(1, &[&entry(5, 1, b"", b"x")]),
        pack(1, &[&entry(3, 1, b"", b"")]),
        pack(1, &[&entry(3, 1, b"", b"xy")]),
        pack(1, &[&entry(3, 1 << 30, b"", b"xy")]),
        pack(1, &[&entry(1, 1 << 24, b"", b"xy")]),
        pack(2, &[&base, &entry(6, DELTA.len(), &[0], DELTA)]),
        pack(2, &[&base, &entry(6, DELTA.len(), &[1], DELTA)]),
        pack(2, &[&base, &entry(6, DELTA.len(), &[0xff, 0x7f], DELTA)]),
        pack(2, &[&base, &entry(6, DELTA.len(), &[0xff; 20], DELTA)]),
    ]);
    for bad in [
        &DELTA[..8],
        &[22, 26, 0x90, 22, 0, 4, b'm', b'o'],
        &[21, 26, 0x90, 22, 4, 1, 2, 3, 4],
        &[22, 0],
        &[22, 0, 0],
        &[22, 3, 0x90, 23],
        &[22, 5, 0xb0, 5, 1],
        &[22, 5, 0x90],
        &[22, 5, 1, 2, 3, 4],
        b"",
    ] {
        cases.push(pack(2, &[&base, &entry(6, bad.len(), &behind, bad)]));
    }
    for case in &cases {
        for args in [&["index-pack", "--stdin"][..], &["index-pack", "--stdin", "--fix-thin", "--threads=1"]]
        {
            let run = pair.native(args, case);
            assert_eq!(run.code, 128, "{case:?}");
            let left = fs::read_dir(pair.ours().join("objects/pack")).map_or(0, Iterator::count);
            assert_eq!(left, 0, "{case:?}");
        }
    }
    // Packs in files, whose size is known in advance.
    for (number, case) in [good.clone(), [&good[..], b"junk"].concat(), cases[40].clone()].iter().enumerate()
    {
        [pair.git(), pair.ours()].iter().for_each(|repo| repo.write("case.pack", case));
        assert_eq!(pair.native(&["index-pack", "case.pack"], b"").code == 0, number == 0);
        pair.reset();
    }
}

#[test]
fn accepts_what_git_accepts() {
    let pair = Pair::new("sha1");
    let base = entry(3, BASE.len(), b"", BASE);
    let more = [BASE, b"more"].concat();
    let named = entry(7, DELTA.len(), blob_name(BASE).as_bytes(), DELTA);
    let again = [26, 30, 0x90, 26, 4, b'm', b'o', b'r', b'e'];
    let twice = entry(7, again.len(), blob_name(&more).as_bytes(), &again);
    let empty = entry(3, 0, b"", b"");
    for case in [
        pack(0, &[]),
        pack(1, &[&empty]),
        pack(2, &[&base, &base]),
        pack(3, &[&twice, &named, &base]),
        pack(5, &[&base, &named, &base, &named, &empty]),
    ] {
        for threads in ["--threads=1", "--threads=3"] {
            assert_eq!(pair.native(&["index-pack", "--stdin", threads], &case).code, 0);
            pair.reset();
        }
    }
}

#[test]
fn compares_objects_with_existing_ones() {
    let pair = Pair::new("sha1");
    let good = pack(1, &[&entry(3, BASE.len(), b"", BASE)]);
    let name = blob_name(BASE).to_string();
    let place = format!("objects/{}/{}", &name[..2], &name[2..]);
    // Another blob of equal size, of another size, another type; then a file that is not an object.
    for other in ["printf 'some content of a BASE'", "echo other", ":"] {
        for (threshold, threads) in [("1g", "2"), ("1", "1")] {
            let settings = [
                "-c",
                &format!("core.bigFileThreshold={threshold}"),
                "-c",
                &format!("pack.threads={threads}"),
            ];
            for repo in [pair.git(), pair.ours()] {
                let script = format!(
                    "{other} >x; o=$(git hash-object -w x | sed 's|^..|&/|'); mkdir -p objects/{}; cp objects/$o {place}; rm x",
                    &name[..2]
                );
                shell(&repo, &script);
            }
            let run = pair.native(&[&settings[..], &["index-pack", "--stdin"]].concat(), &good);
            assert!(run.stderr.contains_str("SHA1 COLLISION FOUND WITH"), "{}", run.stderr);
            pair.reset();
        }
    }
    // An existing object with equal content is not a collision.
    for repo in [pair.git(), pair.ours()] {
        shell(&repo, "printf 'some content of a base' | git hash-object -w --stdin");
    }
    for threshold in ["1g", "1"] {
        let settings = format!("core.bigFileThreshold={threshold}");
        assert_eq!(pair.native(&["-c", &settings, "index-pack", "--stdin"], &good).code, 0);
    }
}

#[test]
fn works_outside_of_a_repository() {
    let pair = Pair::new("sha256");
    for (side, is_ours) in [("git", false), ("ours", true)] {
        let outside = pair.sandbox.repo(&format!("{side}/outside"));
        outside.write("a.pack", pair.pack());
        let run = |args: &[&str]| {
            let mut command = if is_ours { pair.shim.command(&outside) } else { outside.git_command() };
            finished(command.args(args).stdin(Stdio::null()))
        };
        let results = [
            run(&["index-pack", "a.pack"]),
            run(&["index-pack", "--object-format=sha256", "a.pack"]),
            run(&["index-pack", "--object-format=sha256", "--verify", "a.pack"]),
            run(&["index-pack", "--stdin", "--object-format=sha256"]),
            run(&["index-pack", "--stdin"]),
        ];
        outside.write("results", format!("{results:?}"));
        if is_ours {
            pair.shim.was_native(&["index-pack", "--stdin"]);
        }
    }
    let read = |path: &str| fs::read(pair.sandbox.path().join(path)).expect("written");
    for file in ["results", "a.idx", "a.rev"] {
        assert_eq!(read(&format!("git/outside/{file}")), read(&format!("ours/outside/{file}")), "{file}");
    }
}

#[test]
fn leaves_rare_words_to_git() {
    let pair = Pair::new("sha1");
    for (args, why) in [
        (&["index-pack", "--verify-stat", "whole.pack"][..], "--verify-stat"),
        (&["index-pack", "--promisor", "--stdin"], "--promisor"),
        (&["index-pack", "--stdin", "-o", "x"], "--stdin with -o"),
        (&["index-pack"], "no pack"),
        (&["index-pack", "--fix-thin", "whole.pack"], "--fix-thin without --stdin"),
    ] {
        pair.shim.log();
        pair.same(args, &pair.pack());
        pair.shim.was_handed_over(args, why);
    }
}

#[test]
fn a_signal_leaves_nothing_behind() {
    let pair = Pair::new("sha1");
    let pack = pair.pack();
    let mut command = pair.shim.command(&pair.ours());
    let mut child = command.args(["index-pack", "--stdin"]).stdin(Stdio::piped()).spawn().expect("runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(&pack[..pack.len() / 2]).expect("it reads");
    let dir = pair.ours().join("objects/pack");
    let names = |dir: &Path| fs::read_dir(dir).map_or(0, Iterator::count);
    while names(&dir) == 0 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let killed = Command::new("kill").arg(child.id().to_string()).status().expect("kill can be run");
    assert!(killed.success());
    let status = child.wait().expect("it ends");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
    assert_eq!(names(&dir), 0);
}
