//! `commit-graph`, run as `git` and compared with Git: the same bytes, messages and files.

use testkit::{Oracle, Repo};

use crate::{
    multi_pack_index::{same_objects, shell},
    random::Random,
    shim::Shim,
};

/// A history with merges of two and four parents, tags, a wrong date, and commits that change many
/// paths, no path, or only a mode.
const HISTORY: &str = "
    git config gc.auto 0; git config maintenance.auto false
    n=0
    step() { n=$((n + 1)); GIT_COMMITTER_DATE=\"$((1700000000 + n)) +0000\"; export GIT_COMMITTER_DATE; }
    step; mkdir -p a/b c; echo 1 >a/b/f; echo 2 >c/g; ln -s g c/link; git add .; git commit -qm 1
    git tag -a -m annotated first
    for branch in x y z; do
        git checkout -q -b $branch first; step; echo $branch >$branch; mkdir -p d/$branch
        echo $branch >d/$branch/f; git add .; git commit -qm $branch
    done
    git checkout -q main; step; git merge -q --no-edit x
    step; git merge -q --no-edit y z 2>/dev/null
    step; git commit -q --allow-empty -m empty
    step; chmod +x c/g; git add .; git commit -qm mode
    step; rm c/g; mkdir c/g; echo in >c/g/file; git add .; git commit -qm 'file to directory'
    step; for i in $(seq 600); do echo $i >many$i; done; git add .; git commit -qm many
    GIT_COMMITTER_DATE='1500000000 +0000' git commit -q --allow-empty -m early
    step; printf 'x' >\"$(printf 'a/\\303\\244')\"; git add .; git commit -qm high
    git tag -a -m nested second first; git tag tree HEAD^{tree}; git tag blob HEAD:a/b/f";

#[track_caller]
fn check(shim: &Shim, oracle: &Oracle, context: &str, args: &[&str]) {
    oracle.same_as(context, args);
    shim.was_native(args);
    same_objects(oracle, &format!("{context} {args:?}"));
}

fn history(shim: &Shim, script: &str) -> Oracle {
    Oracle::new(&shim.program(), |repo| shell(repo, &format!("{HISTORY}\n{script}")))
}

#[test]
fn writes_gits_bytes() {
    let shim = Shim::new();
    for script in [
        "true",
        "git repack -adq",
        "git repack -q; git commit -q --allow-empty -m loose",
        "git config commitGraph.generationVersion 1",
        "git config commitGraph.changedPaths true",
        "git config commitGraph.changedPathsVersion 2",
        "git config core.sharedRepository group",
        "git config core.commitGraph false",
        "git replace HEAD~1 HEAD~2",
        "git commit-graph write --reachable --changed-paths; git commit -q --allow-empty -m new",
        "git commit-graph write --reachable --split; git commit -q --allow-empty -m new",
        "echo broken >.git/objects/info/commit-graph",
        "touch .git/objects/info/commit-graph.lock",
        "rm -rf .git/objects/info",
    ] {
        let oracle = history(&shim, script);
        for options in [
            &["--reachable"][..],
            &[],
            &["--append"],
            &["--reachable", "--changed-paths"],
            &["--reachable", "--no-changed-paths", "--no-progress"],
            &["--reachable", "--changed-paths", "--max-new-filters=3"],
            &["--changed-paths", "--max-new-filters=3", "--append"],
            &["--reachable", "--max-new-filters=-1"],
        ] {
            check(&shim, &oracle, script, &[&["commit-graph", "write"], options].concat());
        }
        check(&shim, &oracle, script, &["commit-graph", "verify"]);
    }
}

#[test]
fn writes_nothing_where_git_writes_nothing() {
    let shim = Shim::new();
    for script in ["git update-ref -d HEAD; rm -rf .git/objects/*", "cp .git/refs/heads/main .git/shallow"] {
        let oracle = Oracle::new(&shim.program(), |repo| {
            repo.write("f", "1\n");
            repo.commit("one");
            shell(repo, script);
        });
        check(&shim, &oracle, script, &["commit-graph", "write", "--reachable"]);
        check(&shim, &oracle, script, &["commit-graph", "verify"]);
    }
}

#[test]
fn keeps_filters_and_upgrades_them() {
    let shim = Shim::new();
    let oracle = history(&shim, "git config commitGraph.changedPathsVersion 1");
    let args = ["commit-graph", "write", "--reachable", "--changed-paths"];
    check(&shim, &oracle, "version 1", &args);
    oracle.both(|repo| shell(repo, "git config commitGraph.changedPathsVersion 2"));
    check(&shim, &oracle, "some", &[&args[..], &["--max-new-filters=2"]].concat());
    check(&shim, &oracle, "version 2", &args);
    oracle.both(|repo| shell(repo, "git config commitGraph.changedPathsVersion 1"));
    check(&shim, &oracle, "back to version 1", &args);
    check(&shim, &oracle, "kept", &["commit-graph", "write", "--reachable"]);
}

#[test]
fn chains_layers_as_git_does() {
    let shim = Shim::new();
    let mut random = Random::new(33);
    for round in 0..3 {
        let oracle = history(&shim, "true");
        for step in 0..8 {
            let commits = 1 + random.below(6);
            let script = format!(
                "for i in $(seq {commits}); do GIT_COMMITTER_DATE=\"$((1800000000 + {step} * 10 + i)) +0000\" \
                 git commit -q --allow-empty -m {step}-$i; done"
            );
            oracle.both(|repo| shell(repo, &script));
            let options: &[&str] = match random.below(9) {
                0 => &["--split=no-merge"],
                1 => &["--split=replace"],
                2 => &["--split", "--max-commits=3"],
                3 => &["--split", "--size-multiple=5", "--changed-paths"],
                4 => &["--split", "--expire-time=now"],
                5 => &["--split=no-merge", "--changed-paths"],
                6 => &["--append"],
                _ => &["--split"],
            };
            let context = format!("round {round}, step {step}");
            check(&shim, &oracle, &context, &[&["commit-graph", "write", "--reachable"], options].concat());
            check(&shim, &oracle, &context, &["commit-graph", "verify"]);
            check(&shim, &oracle, &context, &["commit-graph", "verify", "--shallow"]);
        }
    }
}

#[test]
fn a_layer_upon_the_graph_of_an_alternate() {
    let shim = Shim::new();
    for write in ["--reachable", "--reachable --split"] {
        let script = format!(
            "git commit-graph write {write}; git clone -q --bare . .git/other; mv .git/objects .git/objects2; \
             mkdir -p .git/objects/info; echo ../objects2 >.git/objects/info/alternates; \
             git commit -q --allow-empty -m upon"
        );
        for options in [&["--split"][..], &["--split=no-merge"], &[]] {
            let oracle = history(&shim, &script);
            check(&shim, &oracle, write, &[&["commit-graph", "write", "--reachable"], options].concat());
            check(&shim, &oracle, write, &["commit-graph", "verify"]);
        }
    }
}

#[test]
fn reads_commits_and_packs_from_standard_input() {
    let shim = Shim::new();
    for (list, option) in [
        ("git rev-list -3 main", "--stdin-commits"),
        ("git for-each-ref --format='%(objectname)'", "--stdin-commits"),
        ("echo nonsense", "--stdin-commits"),
        ("echo 1234567890123456789012345678901234567890", "--stdin-commits"),
        ("ls .git/objects/pack | grep idx", "--stdin-packs"),
        ("echo nothing.idx", "--stdin-packs"),
        ("true", "--stdin-packs"),
        ("true", "--stdin-commits"),
    ] {
        let oracle = history(&shim, "git repack -q");
        let write = |repo: &Repo<'_>, git: &str| {
            let script = format!("{list} | '{git}' commit-graph write {option} --changed-paths; echo $?");
            let said = repo.command("sh".as_ref()).args(["-c", &script]).output().expect("a shell");
            (
                String::from_utf8_lossy(&said.stdout).into_owned(),
                String::from_utf8_lossy(&said.stderr).into_owned(),
            )
        };
        let (git, ours) = (oracle.git(), oracle.ours());
        assert_eq!(write(&git, "git"), write(&ours, &shim.program()), "{list}: git left");
        shim.was_native(&[list, option]);
        same_objects(&oracle, list);
    }
}

#[test]
fn reports_damage_in_gits_words() {
    let shim = Shim::new();
    let file = ".git/objects/info/commit-graph";
    let oracle =
        history(&shim, &format!("git commit-graph write --reachable --changed-paths; cp {file} .git/good"));
    let size = std::fs::metadata(oracle.git().join(".git/good")).expect("written").len();
    let mut random = Random::new(5);
    let places = (0..12_u64).chain((12..120).step_by(12)).map(|at| (at, 1));
    let scattered: Vec<(u64, u8)> = places
        .chain((0..60).map(|_| (random.below(size as usize) as u64, 1 + random.below(254) as u8)))
        .collect();
    for (at, flip) in scattered {
        oracle.both(|repo| {
            let mut bytes = std::fs::read(repo.join(".git/good")).expect("read");
            bytes[at as usize] ^= flip;
            repo.remove(file);
            std::fs::write(repo.join(file), bytes).expect("written");
        });
        let context = format!("byte {at} ^ {flip}");
        oracle.same_as(&context, &["commit-graph", "verify"]);
        shim.was_native(&[&context]);
    }
    for script in [
        "truncate -s 20 $f",
        "truncate -s 1500 $f",
        ": >$f",
        "rm -rf $f; mkdir -p .git/objects/info/commit-graphs; echo short >.git/objects/info/commit-graphs/commit-graph-chain",
        "rm -rf $f; mkdir -p .git/objects/info/commit-graphs; printf '%041d\\n' 0 >.git/objects/info/commit-graphs/commit-graph-chain",
        "rm -rf $f .git/objects/info/commit-graphs; git commit-graph write --reachable --split; rm -f .git/objects/info/commit-graphs/*.graph",
    ] {
        oracle.both(|repo| shell(repo, &format!("f={file}; chmod -f u+w $f || true; {script}")));
        for command in ["verify", "write"] {
            oracle.same_as(script, &["commit-graph", command]);
        }
    }
}

#[test]
fn leaves_the_rest_to_git() {
    let shim = Shim::new();
    let oracle = history(&shim, "true");
    for (args, why) in [
        (&["commit-graph", "write", "--expire-time=2005-04-07"][..], "a date of '--expire-time'"),
        (&["commit-graph", "verify", "--append"], "option '--append'"),
        (&["commit-graph", "nonsense"], "subcommand 'nonsense'"),
        (&["commit-graph"], "a wrong number of arguments"),
    ] {
        oracle.same(args);
        shim.was_handed_over(args, why);
    }
    oracle.both(|repo| {
        let hex = repo.git(&["rev-parse", "main~1"]).stdout.to_string();
        let hex = hex.trim();
        shell(
            repo,
            &format!("rm -f .git/objects/info/commit-graph .git/objects/{}/{}", &hex[..2], &hex[2..]),
        );
    });
    oracle.same_answer_in("a lost commit", "", &["commit-graph", "write", "--reachable"]);
    shim.was_handed_over(&["a lost commit"], "commits that cannot be read");
}
