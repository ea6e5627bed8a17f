//! `multi-pack-index`, run as `git` and compared with Git: the same bytes, messages and packs.

use std::{collections::BTreeMap, os::unix::fs::PermissionsExt as _, path::Path};

use testkit::{Oracle, Repo};

use crate::shim::Shim;

/// Runs a shell script in a repository.
#[track_caller]
pub(crate) fn shell(repo: &Repo<'_>, script: &str) {
    let made = repo.command("sh".as_ref()).args(["-ec", script]).output().expect("a shell");
    assert!(made.status.success(), "{script}: {}", String::from_utf8_lossy(&made.stderr));
}

/// Returns the files below a directory, with their modes and bytes.
pub(crate) fn files(dir: &Path) -> BTreeMap<String, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(next) = pending.pop() {
        for entry in std::fs::read_dir(&next).into_iter().flatten() {
            let entry = entry.expect("a name");
            if entry.file_type().expect("a type").is_dir() {
                pending.push(entry.path());
                continue;
            }
            let name = entry.path().strip_prefix(dir).expect("below").display().to_string();
            let mode = entry.metadata().expect("there").permissions().mode();
            found.insert(name, (mode, std::fs::read(entry.path()).expect("read")));
        }
    }
    found
}

/// Compares the object directories of both copies.
#[track_caller]
pub(crate) fn same_objects(oracle: &Oracle, context: &str) {
    let [theirs, ours] = [oracle.git(), oracle.ours()].map(|repo| files(&repo.join(".git/objects")));
    let names = |files: &BTreeMap<String, (u32, Vec<u8>)>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&theirs), names(&ours), "{context}: names; git left, ours right");
    // The times of unreachable objects depend on when each repository was created.
    for (name, theirs) in theirs.iter().filter(|(name, _)| !name.ends_with(".mtimes")) {
        assert!(*theirs == ours[name], "{context}: {name} differs");
    }
}

/// Creates four packs, two of which share objects, with fixed times.
const PACKS: &str = "
    git config gc.auto 0; git config maintenance.auto false
    for n in 1 2 3 4; do
        seq $n 40 >file$n; seq 100 >shared; git add .; git commit -qm $n
        git repack -q
    done
    git rev-list --objects HEAD~2 | git pack-objects -q --no-reuse-delta .git/objects/pack/pack >/dev/null
    n=1; for pack in .git/objects/pack/*.pack; do touch -d @170000000$n $pack; n=$((n + 1)); done";

struct Case {
    /// Modifies the repository after [`PACKS`].
    script: &'static str,
    /// The command line after `multi-pack-index`.
    args: &'static [&'static str],
}

fn run(cases: &[Case]) {
    let shim = Shim::new();
    for Case { script, args } in cases {
        let oracle = Oracle::new(&shim.program(), |repo| shell(repo, &format!("{PACKS}\n{script}")));
        let args = [&["multi-pack-index"], *args].concat();
        oracle.same_as(script, &args);
        shim.was_native(&args);
        same_objects(&oracle, script);
    }
}

#[test]
fn writes_gits_bytes() {
    run(&[
        Case { script: "true", args: &["write"] },
        Case { script: "true", args: &["--no-progress", "write", "--no-bitmap", "--no-incremental"] },
        Case { script: "git multi-pack-index write", args: &["write"] },
        Case { script: "git config midx.version 2", args: &["write"] },
        Case { script: "git multi-pack-index write; git config midx.version 2", args: &["write"] },
        Case {
            script: "git multi-pack-index write; echo >n; git add n; git commit -qm n; git repack -q",
            args: &["write"],
        },
        Case { script: "git config core.multiPackIndex false; git multi-pack-index write", args: &["write"] },
        Case { script: "git config core.sharedRepository group", args: &["write"] },
        Case { script: "rm .git/objects/pack/*.pack", args: &["write"] },
        Case { script: "echo x >.git/objects/pack/a.idx; echo >.git/objects/pack/a.pack", args: &["write"] },
        Case { script: "echo x >.git/objects/pack/a.idx", args: &["write"] },
        Case { script: "touch .git/objects/pack/multi-pack-index.lock", args: &["write"] },
        Case { script: "git multi-pack-index write; rm .git/objects/pack/*.pack", args: &["write"] },
        Case { script: "true", args: &["write", "--preferred-pack=nothing.pack"] },
        Case { script: "true", args: &["write", "--object-dir=.git/objects"] },
        Case { script: "rm -r .git/objects/pack", args: &["write"] },
    ]);
}

#[test]
fn obeys_preferred_pack_and_stdin_packs() {
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), |repo| shell(repo, PACKS));
    let packs: Vec<String> = files(&oracle.git().join(".git/objects/pack"))
        .into_keys()
        .filter(|name| name.ends_with(".idx"))
        .collect();
    for pack in &packs {
        for name in [pack.clone(), pack.replace(".idx", ".pack")] {
            let option = format!("--preferred-pack={name}");
            oracle.both(|repo| shell(repo, "rm -f .git/objects/pack/multi-pack-index"));
            let args = ["multi-pack-index", "write", &option];
            oracle.same(&args);
            shim.was_native(&args);
            same_objects(&oracle, &option);
            oracle.ours().git(&["fsck", "--strict", "--no-dangling"]);
        }
    }
    for count in 0..packs.len() {
        let list = packs[..count].join("\n");
        let ours = shim.program();
        let write = |repo: &Repo<'_>, git: &str| {
            let script =
                format!("printf '%s\\n' '{list}' | '{git}' multi-pack-index write --stdin-packs || echo $?");
            let said = repo.command("sh".as_ref()).args(["-c", &script]).output().expect("a shell");
            (
                String::from_utf8_lossy(&said.stdout).into_owned(),
                String::from_utf8_lossy(&said.stderr).into_owned(),
            )
        };
        assert_eq!(write(&oracle.git(), "git"), write(&oracle.ours(), &ours), "{count} packs");
        shim.was_native(&["--stdin-packs"]);
        same_objects(&oracle, &list);
    }
}

/// Damage of a multi-pack-index: an offset, and the byte to write there.
const DAMAGE: &[(u64, &str)] = &[
    (0, "X"),
    (4, "\\003"),
    (5, "\\002"),
    (6, "\\011"),
    (6, "\\002"),
    (11, "\\100"),
    (12, "X"),
    (24, "X"),
    (20, "\\001"),
    (36, "X"),
    (100, "X"),
    (600, "X"),
    (1500, "X"),
];

#[test]
fn reports_damage_in_gits_words() {
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), |repo| {
        shell(
            repo,
            &format!("{PACKS}\ngit multi-pack-index write; cp .git/objects/pack/multi-pack-index .git/good"),
        );
    });
    let check = |damage: &str, args: &[&str]| {
        oracle.both(|repo| {
            let place = ".git/objects/pack/multi-pack-index";
            shell(repo, &format!("cp .git/good {place}; chmod u+w {place}; f={place}; {damage}"));
        });
        oracle.same_as(damage, args);
        shim.was_native(args);
        same_objects(&oracle, damage);
    };
    for command in ["verify", "write"] {
        let args = ["multi-pack-index", command];
        check("true", &args);
        for (at, byte) in DAMAGE {
            check(&format!("printf '{byte}' | dd of=$f bs=1 seek={at} conv=notrunc 2>/dev/null"), &args);
        }
        for size in [0, 20, 40, 200, 1200] {
            check(&format!("truncate -s {size} $f"), &args);
        }
    }
    // The last bytes of the offset table, before the checksum.
    check(
        "size=$(stat -c %s $f); printf X | dd of=$f bs=1 seek=$((size - 21)) conv=notrunc 2>/dev/null",
        &["multi-pack-index", "verify"],
    );
    check(
        "size=$(stat -c %s $f); printf X | dd of=$f bs=1 seek=$((size - 28)) conv=notrunc 2>/dev/null",
        &["multi-pack-index", "verify"],
    );
    oracle.both(|repo| {
        shell(
            repo,
            "cp .git/good .git/objects/pack/multi-pack-index; rm $(ls .git/objects/pack/*.pack | head -1)",
        )
    });
    oracle.same(&["multi-pack-index", "verify"]);
    oracle.both(|repo| shell(repo, "rm -f .git/objects/pack/multi-pack-index"));
    oracle.same(&["multi-pack-index", "verify"]);
    oracle.same(&["multi-pack-index", "expire"]);
}

#[test]
fn expires_packs() {
    let cases = [
        "git repack -adq -k; git multi-pack-index write",
        "git multi-pack-index write; git repack -q -a; touch .git/objects/pack/*.pack; git multi-pack-index write",
        "git repack -q -a; touch .git/objects/pack/*; git multi-pack-index write; touch $(ls .git/objects/pack/*.pack | head -1 | sed s/pack$/keep/)",
        "git multi-pack-index write; git config core.multiPackIndex false",
        "true",
    ];
    let shim = Shim::new();
    for script in cases {
        let oracle = Oracle::new(&shim.program(), |repo| shell(repo, &format!("{PACKS}\n{script}")));
        let args = ["multi-pack-index", "expire"];
        oracle.same_as(script, &args);
        shim.was_native(&args);
        same_objects(&oracle, script);
    }
    // A corrupt file must not cause the removal of packs: Git removes them before it verifies the
    // file.
    let oracle = Oracle::new(&shim.program(), |repo| {
        shell(
            repo,
            &format!("{PACKS}\ngit repack -q -a; touch .git/objects/pack/*.pack; git multi-pack-index write"),
        );
    });
    let ours = oracle.ours();
    shell(
        &ours,
        "f=.git/objects/pack/multi-pack-index; size=$(stat -c %s $f); printf X | dd of=$f bs=1 seek=$((size - 1)) conv=notrunc 2>/dev/null",
    );
    let before = files(&ours.join(".git/objects"));
    assert_eq!(shim.run(&ours, &["multi-pack-index", "expire"]).code, 128);
    assert_eq!(files(&ours.join(".git/objects")), before);
}

/// Creates a pack of an unfinished repack, with one object that no other pack has, and copies of
/// others.
const UNFINISHED: &str = "
    echo only here >loose; git hash-object -w loose
    (git rev-list --objects HEAD; git hash-object loose) |
        git pack-objects -q .git/objects/pack/.tmp-7-pack >/dev/null";

#[test]
fn packs_of_an_unfinished_repack_do_not_count() {
    let shim = Shim::new();
    for script in ["true", "git multi-pack-index write"] {
        let oracle = Oracle::new(&shim.program(), |repo| {
            shell(repo, &format!("{PACKS}\n{UNFINISHED}\n{script}"));
        });
        let ours = oracle.ours();
        let args = ["multi-pack-index", "write"];
        assert_eq!(shim.run(&ours, &args).code, 0, "{script}");
        shim.was_native(&args);
        let written = std::fs::read(ours.join(".git/objects/pack/multi-pack-index")).expect("written");
        assert!(!written.windows(5).any(|name| name == b".tmp-"), "{script}");
        // The unfinished repack fails.
        shell(&ours, "rm -f .git/objects/pack/.tmp-*");
        ours.git(&["multi-pack-index", "verify"]);
        ours.git(&["fsck", "--strict", "--no-dangling"]);
    }
}

#[test]
fn an_unfinished_repack_costs_no_packs() {
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), |repo| {
        shell(
            repo,
            &format!(
                "{PACKS}\n{UNFINISHED}\ntouch -d @1800000000 .git/objects/pack/.tmp-*.pack
                git multi-pack-index write"
            ),
        );
    });
    let ours = oracle.ours();
    let before = files(&ours.join(".git/objects"));
    let args = ["multi-pack-index", "expire"];
    let ran = shim.run(&ours, &args);
    shim.was_native(&args);
    assert_eq!(ran.code, 128);
    let stderr = ran.stderr.to_string();
    assert!(stderr.contains("an unfinished repack; run 'git multi-pack-index write'"), "{stderr}");
    assert_eq!(files(&ours.join(".git/objects")), before);
    assert_eq!(shim.run(&ours, &["prune-packed"]).code, 0);
    shim.was_native(&["prune-packed"]);
    // The unfinished repack fails.
    shell(&ours, "rm -f .git/objects/pack/.tmp-* .git/objects/pack/multi-pack-index");
    shell(&ours, "git cat-file -e $(git hash-object loose)");
    ours.git(&["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn leaves_the_rest_to_git() {
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), |repo| shell(repo, PACKS));
    for (args, why) in [
        (&["multi-pack-index", "repack"][..], "subcommand 'repack'"),
        (&["multi-pack-index", "write", "--bitmap"], "option '--bitmap'"),
        (&["multi-pack-index", "write", "--incremental"], "option '--incremental'"),
        (&["multi-pack-index", "write"], "bitmaps or layers"),
        (&["multi-pack-index", "verify", "--preferred-pack=x"], "option '--preferred-pack'"),
        (&["multi-pack-index", "--preferred-pack=x", "write"], "options before the subcommand"),
        (&["multi-pack-index"], "a wrong number of arguments"),
    ] {
        oracle.same(args);
        shim.was_handed_over(args, why);
    }
}
