//! The check of received objects (`fetch.fsckObjects`, `index-pack --strict`), compared with Git.

use testkit::{Oracle, Repo};

use crate::SAPWOOD;

/// Creates a server whose branch leads to a flawed object. `commit` creates a commit from text.
const SERVER: &str = r#"
git init -q --initial-branch=main ../server
git remote add origin ../server
cd ../server
who='A <a@b> 1234567890 +0000'
empty=$(git mktree </dev/null)
blob=$(echo x | git hash-object -w --stdin)
commit() { git hash-object -t commit -w --stdin --literally; }
tree() { perl -e 'while (@ARGV) { print shift, " ", shift, "\0", pack "H*", shift }' "$@" |
    git hash-object -t tree -w --stdin --literally; }
put() { git update-ref refs/heads/main $1; }
put_tree() { put $(git commit-tree -m m $1); }
put_file() { put_tree $(tree 100644 $1 $(git hash-object -w --stdin)); }
"#;

const FLAWS: &[&str] = &[
    r#"put $(printf "tree $empty\nauthor A <a@b> x +0000\ncommitter $who\n\nm\n" | commit)"#,
    r#"put $(printf "tree $empty\nauthor A a@b 1 +0000\ncommitter $who\n\nm\n" | commit)"#,
    r#"put $(printf "tree $empty\nauthor $who\nauthor $who\ncommitter $who\n\nm\n" | commit)"#,
    r#"put $(printf "tree $empty\ncommitter $who\n\nm\n" | commit)"#,
    r#"put $(printf "tree $empty\nauthor $who\ncommitter $who\n\na\0b\n" | commit)"#,
    r#"put_tree $(tree 40000 .git $empty)"#,
    r#"put_tree $(tree 100664 a $blob 0100644 b $blob)"#,
    r#"put_tree $(tree 100644 b $blob 100644 a $blob)"#,
    r#"put_tree $(tree 100644 a $blob 40000 a $empty)"#,
    r#"put_tree $(tree 120000 .gitmodules $blob)"#,
    r#"printf '[submodule "a"]\n\turl = -x\n\tpath = -y\n\tupdate = !z\n' | put_file .gitmodules"#,
    r#"printf '[submodule "../a"]\n\turl = https://host/%%0a\n' | put_file .GITMODULES"#,
    r#"printf '[submodule "a"\n' | put_file .gitmodules"#,
    r#"printf '%03000d' 0 | put_file .gitattributes"#,
    r#"git update-ref refs/tags/v1 $(printf "object $blob\ntype blob\ntag a..b\n\nm\n" |
        git hash-object -t tag -w --stdin --literally); put $(git commit-tree -m m $empty)"#,
    r#"put $(git commit-tree -m m $empty)"#,
];

fn oracle(flaw: &str) -> Oracle {
    Oracle::new(SAPWOOD, |repo| shell(repo, &[SERVER, flaw].concat()))
}

fn shell(repo: &Repo<'_>, script: &str) {
    let made = repo.command("sh".as_ref()).args(["-ec", script]).output().expect("a shell");
    assert!(made.status.success(), "{script}: {}", String::from_utf8_lossy(&made.stderr));
}

#[test]
fn a_fetch_refuses_flaws() {
    for flaw in FLAWS {
        let oracle = oracle(flaw);
        oracle.same_as(flaw, &["-c", "transfer.fsckObjects=true", "fetch"]);
        let kept = ["-c", "fetch.fsckObjects=true", "-c", "fetch.unpackLimit=1", "fetch", "-q", "--keep"];
        oracle.same_as(flaw, &kept);
    }
}

#[test]
fn settings_change_severities() {
    let padded = FLAWS[6];
    for settings in [
        &["fetch.fsck.zeroPaddedFilemode=ignore", "fetch.fsck.badFilemode=error"][..],
        &["fetch.fsck.zeroPaddedFilemode=warn", "fetch.fsck.badFilemode=ignore"],
        &["fetch.fsck.zeroPaddedFilemode=ignore", "fetch.fsck.nonsense=warn"],
        &["fetch.fsck.zeroPaddedFilemode=nonsense"],
        &["transfer.fsckObjects=false"],
        &["fetch.fsckObjects=false"],
        &["fetch.fsck.skipList=../server/skipped"],
    ] {
        let oracle = oracle(&[padded, "; git rev-parse main: >skipped"].concat());
        let mut args = vec!["-c", "transfer.fsckObjects=true"];
        args.extend(settings.iter().flat_map(|setting| ["-c", setting]));
        args.push("fetch");
        oracle.same_as(&settings.join(" "), &args);
    }
}

#[test]
fn a_clone_refuses_flaws() {
    for flaw in [FLAWS[0], FLAWS[5], FLAWS[10], FLAWS[15]] {
        let oracle = oracle(flaw);
        let args = ["-c", "fetch.fsckObjects=true", "clone", "--no-local", "-q", "../server", "../copy"];
        oracle.same_as(flaw, &args);
        let exists = |repo: Repo<'_>| repo.join("../copy/.git/HEAD").exists();
        assert_eq!(exists(oracle.git()), exists(oracle.ours()), "{flaw}");
    }
}

#[test]
fn index_pack_checks_objects() {
    for flaw in FLAWS {
        let pack =
            "; git pack-objects -q --revs --all --stdout </dev/null >a.pack 2>/dev/null; cp a.pack ../repo";
        let oracle = oracle(&[flaw, pack].concat());
        for args in [
            &["index-pack", "--strict", "a.pack"][..],
            &["index-pack", "--fsck-objects=badDate=ignore,hasDotgit:warn", "a.pack"],
        ] {
            oracle.same_as(flaw, args);
        }
    }
    let oracle = oracle(
        "put_tree $(tree 100644 a $blob); git rev-parse main |
        git pack-objects -q --stdout >../repo/a.pack",
    );
    for args in [
        &["index-pack", "--strict", "a.pack"][..],
        &["index-pack", "--strict=what=warn", "a.pack"],
        &["index-pack", "--fsck-objects=nulInHeader=warn", "a.pack"],
        &["index-pack", "--fsck-objects", "a.pack"],
    ] {
        oracle.same_as("a missing tree", args);
    }
}

/// Objects of more than 16 MB, which are not kept in memory while a pack arrives.
const LARGE: &[&str] = &[
    r#"put_tree $(many zzz | git hash-object -t tree -w --stdin --literally)"#,
    r#"put_tree $(many a | git hash-object -t tree -w --stdin --literally)"#,
    r#"put $({ printf "tree $empty\ncommitter $who\n\n"; zeros; } | tr '\0' m | commit)"#,
    r#"tag=$({ printf "object $blob\ntype blob\ntag a..b\n\n"; zeros; } | tr '\0' m |
        git hash-object -t tag -w --stdin --literally)
        git update-ref refs/tags/v1 $tag; put $(git commit-tree -m m $empty)"#,
    r#"zeros | put_file big"#,
    r#"{ printf '[submodule "a"]\n\turl = -x\n'; zeros | tr '\0' '\n'; } | put_file .gitmodules"#,
    r#"{ printf '#'; zeros; } | tr '\0' m | put_file .gitattributes"#,
];

/// `many` prints a tree of 18 MB whose first entry has the name `$1`.
const LARGE_PARTS: &str = r#"
many() { perl -e '$oid = pack "H*", shift; print "100644 ", shift, "\0", $oid;
    printf "100644 f%07d\0%s", $_, $oid for 1 .. 520000' $blob $1; }
zeros() { head -c 17825792 /dev/zero; }
"#;

#[test]
fn large_objects_are_checked() {
    let pack = "; git pack-objects -q --revs --all --stdout </dev/null >../repo/a.pack 2>/dev/null";
    for flaw in LARGE {
        let oracle = oracle(&[LARGE_PARTS, flaw, pack].concat());
        oracle.same_as(flaw, &["index-pack", "--strict", "a.pack"]);
        let few = ["-c", "core.bigFileThreshold=1m", "index-pack", "--strict", "-o", "b.idx", "a.pack"];
        oracle.same_as(flaw, &few);
        oracle.same_as(flaw, &["-c", "transfer.fsckObjects=true", "fetch", "-q"]);
    }
}

#[test]
fn objects_have_the_kinds_under_which_they_are_named() {
    let pack = r#"pack() { for oid; do echo $oid; done | git pack-objects -q --stdout >../repo/a.pack; }
        file=$(tree 100644 a $blob); with() { printf "tree $1\n$2author $who\ncommitter $who\n\nm\n" | commit; };"#;
    for wrong in [
        "pack $(with $blob) $blob",
        r#"pack $(with $file "parent $file\n") $file $blob"#,
        "inner=$(tree 40000 a $blob); pack $(with $inner) $inner $blob",
        "inner=$(tree 100644 a $file); pack $(with $inner) $inner $file $blob",
        "inner=$(tree 100644 a $blob 40000 b $blob); pack $(with $inner) $inner $blob",
    ] {
        let oracle = oracle(&[pack, wrong].concat());
        let git = oracle.git().git_command();
        let ours = oracle.ours().command(SAPWOOD.as_ref());
        for mut command in [git, ours] {
            let ran = command.args(["index-pack", "--strict", "a.pack"]).output().expect("it can be run");
            assert_eq!(ran.status.code(), Some(128), "{wrong}: {ran:?}");
        }
    }
}
