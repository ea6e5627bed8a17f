//! Changes to the files of entries: each state of a file, link or submodule, with each flag and
//! each `ignore` setting, in each command that reports it.

use std::path::Path;

use bstr::ByteSlice as _;
use testkit::{Oracle, Repo};

use crate::SAPWOOD;

/// A script that creates `<mark>/<kind>-<state>` for each combination, a branch `same` that equals
/// `main`, and a branch `changed` in which only `base` differs.
const STATES: &str = r#"
set -e
files="same touched rewritten modsame modsize exec gone emptydir fulldir repodir tolink tofifo noparent parentfile parentlink parentlinkout"
links="same retarget tofile gone emptydir"
subs="unpop missing clean other dirty untracked staged tofile files nocommit"
git init -q --template= -b main .git/tpl
(cd .git/tpl; echo a >a; git add a; git commit -q -m a; echo b >a; git commit -qam b; git checkout -q HEAD^)
other=$(git -C .git/tpl rev-parse main)
top=$PWD
make() {
    for s in $files; do mkdir -p $1/f-$s/d; printf 'one\n' >$1/f-$s/d/f; done
    for s in $links; do mkdir -p $1/l-$s; ln -s target $1/l-$s/l; done
}
for mark in none assume skip; do make $mark; done
mkdir lib; printf 'one\n' >lib/f; echo base >base
for ignore in none all dirty untracked; do for mark in none assume; do for s in $subs; do
    sub=sub-$ignore/$mark/$s; mkdir -p sub-$ignore/$mark; cp -r .git/tpl $sub
    test $ignore = none || printf '[submodule "%s"]\n\tpath = %s\n\turl = ./x\n\tignore = %s\n' $sub $sub $ignore >>.gitmodules
done; done; done
git -c advice.addEmbeddedRepo=false add -A
git commit -q -m base; git branch same
echo changed >base; git commit -qam changed; git branch changed; git reset -q --hard HEAD^
make ita; git add -N ita
sleep 1.1
git update-index -q --refresh || :
git ls-files skip | git update-index --skip-worktree --stdin
git ls-files assume 'sub-*/assume' | git update-index --assume-unchanged --stdin
for mark in none assume skip ita; do
    for s in $files; do (
        cd $mark/f-$s/d
        case $s in
        touched) touch -d 2001-01-01 f ;;
        rewritten) cp f g; mv g f; touch -d 2002-02-02 f ;;
        modsame) printf 'two\n' >f ;;
        modsize) printf 'three\n' >f ;;
        exec) chmod +x f ;;
        gone) rm f ;;
        emptydir) rm f; mkdir f ;;
        fulldir) rm f; mkdir f; echo x >f/x ;;
        repodir) rm f; cp -r $top/.git/tpl f ;;
        tolink) rm f; ln -s nowhere f ;;
        tofifo) rm f; mkfifo f ;;
        noparent) cd ..; rm -r d ;;
        parentfile) cd ..; rm -r d; echo x >d ;;
        parentlink) cd ..; mv d e; ln -s e d ;;
        parentlinkout) cd ..; rm -r d; ln -s ../../lib d ;;
        esac
    ); done
    for s in $links; do (
        cd $mark/l-$s
        case $s in
        retarget) rm l; ln -s t2 l ;;
        tofile) rm l; echo x >l ;;
        gone) rm l ;;
        emptydir) rm l; mkdir l ;;
        esac
    ); done
done
for ignore in none all dirty untracked; do for mark in none assume; do for s in $subs; do (
    cd sub-$ignore/$mark/$s
    case $s in
    unpop) cd ..; rm -rf $s; mkdir $s ;;
    missing) cd ..; rm -rf $s ;;
    other) git checkout -q $other ;;
    dirty) echo d >>a ;;
    untracked) echo u >u ;;
    staged) echo s >s; git add s ;;
    tofile) cd ..; rm -rf $s; echo x >$s ;;
    files) rm -rf .git ;;
    nocommit) rm -rf .git; git init -q ;;
    esac
); done; done; done
"#;

fn shell(repo: &Repo<'_>, script: &str) {
    let run = repo.run(Path::new("/bin/sh"), &["-c", script]);
    assert_eq!(run.code, 0, "{}", run.stderr);
}

/// Each command runs over all states. A command that changes an index or a file does so in both
/// copies.
#[test]
fn reports_every_state_as_git_does() {
    let oracle = Oracle::new(SAPWOOD, |repo| shell(repo, STATES));
    let mut listed = 0;
    for line in [
        "switch same",
        "checkout HEAD",
        "switch changed",
        "-c core.fileMode=false switch same",
        "-c core.symlinks=false switch changed",
        "-c core.trustctime=false checkout",
        "-c core.checkStat=minimal checkout",
        "-c diff.ignoreSubmodules=all checkout",
        "-c diff.ignoreSubmodules=dirty checkout",
        "-c diff.ignoreSubmodules=untracked checkout",
        "-c diff.ignoreSubmodules=none checkout",
        "status --porcelain",
        "status --porcelain=2",
        "-c diff.ignoreSubmodules=dirty status --porcelain",
        "diff-files",
        "diff-index HEAD",
        "diff-index -m HEAD",
        "-c core.fileMode=false diff-index HEAD",
        "ls-files -m",
        "ls-files -d",
        "update-index --refresh",
        "reset",
        "switch same",
        "update-index --really-refresh",
        "reset HEAD -- base",
    ] {
        let run = oracle.same(&line.split(' ').collect::<Vec<_>>());
        listed += run.stdout.lines().count();
    }
    assert!(listed > 1000, "{listed} lines");
    // Git compares a file behind a link with the entry by its stat data alone (see
    // behind_links.rs).
    oracle.both(|repo| shell(repo, "rm */f-parentlink/d"));
    for args in [&["reset", "--hard"][..], &["checkout", "same"]] {
        oracle.same(args);
    }
}

/// A broken submodule does not stop a command that need not read it.
#[test]
fn does_not_read_a_submodule_that_is_assumed_unchanged() {
    let broken = [
        ("a link to it", "mv sub ../sub; ln -s ../sub sub"),
        ("another link", "rm -rf sub; ln -s lib sub"),
        ("leads nowhere", "rm -rf sub/.git; echo 'gitdir: nowhere' >sub/.git"),
        ("no repository", "rm -rf sub/.git; mkdir sub/.git"),
        ("broken HEAD", "echo junk >sub/.git/HEAD"),
    ];
    for (name, script) in broken {
        for mark in ["--no-assume-unchanged", "--assume-unchanged"] {
            let oracle = Oracle::new(SAPWOOD, |repo| {
                repo.git(&["init", "-q", "sub"]);
                repo.git(&["-C", "sub", "commit", "-q", "--allow-empty", "-m", "sub"]);
                repo.write("lib/file", "lib\n");
                repo.commit("main");
                repo.git(&["branch", "same"]);
                repo.git(&["update-index", mark, "sub"]);
                shell(repo, script);
            });
            for line in
                ["switch same", "-c diff.ignoreSubmodules=all checkout main", "ls-files -m", "diff-files"]
            {
                let args: Vec<&str> = line.split(' ').collect();
                let theirs = oracle.git().try_git(&args);
                let ours = oracle.ours().run(Path::new(SAPWOOD), &args);
                assert_eq!(theirs, ours, "{name} {mark} {line}: git left, ours right");
            }
        }
    }
}

/// A tool has rewritten files with other line endings (`text=auto`). For Git another size is a
/// change, whatever content would be stored. If no size was recorded, the content that would be
/// stored decides.
#[test]
fn compares_other_line_endings_as_git_does() {
    let oracle = Oracle::new(SAPWOOD, |repo| {
        repo.write(".gitattributes", "* text=auto\n");
        for name in ["lf", "unrecorded"] {
            repo.write(name, "one\ntwo\n");
        }
        repo.commit("lf");
        // A blob with carriage returns is stored unchanged.
        repo.write(".git/info/attributes", "* -text\n");
        for name in ["cr", "crunrecorded"] {
            repo.write(name, "one\r\ntwo\r\n");
        }
        repo.commit("cr");
        repo.remove(".git/info/attributes");
        repo.git(&["branch", "same"]);
        repo.write("other", "other\n");
        repo.commit("other");
        repo.git(&["branch", "other"]);
        repo.git(&["reset", "-q", "--hard", "same"]);
        repo.git(&["read-tree", "same"]);
        shell(repo, "printf 'one\\r\\ntwo\\r\\n' >unrecorded; printf 'one\\ntwo\\n' >crunrecorded");
        repo.try_git(&["update-index", "-q", "--refresh"]);
        shell(repo, "printf 'one\\r\\ntwo\\r\\n' >lf; printf 'one\\ntwo\\n' >cr");
    });
    for line in [
        "status --porcelain",
        "diff-files",
        "diff-index HEAD",
        "ls-files -m",
        "update-index --refresh",
        "switch same",
        "switch other",
        "reset",
        "checkout main -- other",
        "update-index lf",
        "status --porcelain",
        "reset --hard",
    ] {
        oracle.same(&line.split(' ').collect::<Vec<_>>());
    }
}
