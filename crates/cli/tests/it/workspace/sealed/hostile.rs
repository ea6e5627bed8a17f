//! Sealed workspaces whose processes do their worst. `land`, `list`, `gc`, `unmount`, `mount` and
//! `remove` run nothing, follow nothing, end soon, and change nothing that they should not.

use std::{
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use testkit::Repo;

use super::super::create::Place;
use crate::SAPWOOD;

/// The result of `land`.
pub(super) enum Land {
    /// The branch gets the commit: the workspace's own files decide nothing.
    Lands,
    /// It fails, and this is a part of the message.
    Fails(&'static str),
}

use Land::{Fails, Lands};

/// A case: its name, a script that runs in the Git directory, and the result. `$M` is a file that
/// must not appear, `$O` a repository outside, `$X` a program that writes `$M`.
pub(super) type Case<'a> = (&'static str, &'a str, Land);

/// Functions for the scripts.
const PRELUDE: &str = r#"
set -e
ws=$(dirname "$PWD"); export GIT_DIR="$PWD"
raw() { perl -e 'print pack "H*", shift' "$1"; }
blob() { printf "$1" | git hash-object -w --stdin; }
any() { git hash-object -t "$1" -w --literally --stdin; }
on() { git commit-tree -p HEAD -m "x $$" "$1" >new; cat new >refs/heads/one; }
entry() { printf '%s %s\0' "$1" "$2"; raw "$3"; }
file_of() { echo "objects/$(printf %s "$1" | cut -c1-2)/$(printf %s "$1" | cut -c3-)"; }
fresh() { on "$(git mktree </dev/null)"; }
cfg() { git config "$@"; }
"#;

const CONFIGURATION: &[Case<'_>] = &[
    ("fsmonitor", "cfg core.fsmonitor $X; fresh", Lands),
    (
        "hooksPath",
        "mkdir h; for n in reference-transaction post-checkout post-index-change; do cp $X h/$n; done; \
      cfg core.hooksPath $PWD/h; fresh",
        Lands,
    ),
    (
        "hooks",
        "for n in reference-transaction post-checkout post-index-change pre-auto-gc; do cp $X hooks/$n; done; fresh",
        Lands,
    ),
    (
        "filter",
        "cfg filter.f.clean $X; cfg filter.f.smudge $X; cfg filter.f.process $X; \
      printf '* filter=f\\n' >info/attributes; printf '* filter=f\\n' >$ws/.gitattributes; fresh",
        Lands,
    ),
    (
        "attributes in the tree",
        "cfg merge.m.driver $X; cfg diff.m.command $X; cfg diff.m.textconv $X; \
      b=$(blob '* merge=m diff=m filter=m\\n'); on $(printf '100644 blob %s\\t.gitattributes\\n' $b | git mktree)",
        Lands,
    ),
    (
        "pager, editor and ssh",
        "for k in core.pager core.editor core.sshCommand diff.external core.askPass \
      gpg.program credential.helper core.gitProxy sequence.editor; do cfg $k $X; done; fresh",
        Lands,
    ),
    (
        "upload-pack",
        "cfg uploadpack.packObjectsHook $X; cfg remote.origin.uploadpack $X; \
      cfg core.alternateRefsCommand $X; cfg remote.origin.url ext::$X; fresh",
        Lands,
    ),
    ("alias", "for k in status log rev-parse merge-tree land; do cfg alias.$k \"!$X\"; done; fresh", Lands),
    (
        "include of a fifo",
        "mkfifo f; printf '[include]\\n\\tpath = f\\n' >>config; unset GIT_DIR; \
      printf %s \"$(cat refs/heads/one)\" >HEAD",
        Lands,
    ),
    ("worktree", "fresh; cfg core.worktree /etc", Lands),
    ("bare", "fresh; cfg core.bare true", Lands),
    ("version", "fresh; cfg core.repositoryFormatVersion 99", Lands),
    ("unknown extension", "fresh; cfg core.repositoryFormatVersion 1; cfg extensions.nonsense x", Lands),
    (
        "partial clone",
        "fresh; cfg core.repositoryFormatVersion 1; cfg extensions.partialClone origin; \
      cfg remote.origin.promisor true; cfg remote.origin.url ext::$X",
        Lands,
    ),
    ("configuration is a fifo", "fresh; rm config; mkfifo config", Lands),
    ("configuration is a directory", "fresh; rm config; mkdir config", Lands),
    ("configuration is a link", "fresh; rm config; ln -s /etc/passwd config", Lands),
    ("configuration is nonsense", "fresh; head -c 100000 /dev/urandom >config", Lands),
    ("no configuration", "fresh; rm config", Lands),
    (
        "grafts, shallow and replacements",
        "fresh; git replace HEAD HEAD~1; \
      git rev-parse HEAD >shallow; cp shallow info/grafts",
        Lands,
    ),
    ("index is a fifo", "fresh; rm index; mkfifo index", Lands),
    ("index is nonsense", "fresh; head -c 5000 /dev/urandom >index", Lands),
    ("commondir", "fresh; echo $O >commondir", Lands),
    ("midx and bitmaps", "fresh; head -c 9000 /dev/urandom >objects/pack/multi-pack-index", Lands),
    (
        "a commit-graph of nonsense",
        "fresh; rm -rf objects/info/commit-graph*; head -c 9000 /dev/urandom >objects/info/commit-graph",
        Lands,
    ),
];

const REFS: &[Case<'_>] = &[
    ("HEAD is a fifo", "rm HEAD; mkfifo HEAD", Fails("is not a regular file")),
    ("HEAD is a directory", "rm HEAD; mkdir HEAD", Fails("is not a regular file")),
    ("HEAD is a link", "fresh; mv HEAD real; ln -s real HEAD", Fails("HEAD")),
    ("HEAD is a link outside", "rm HEAD; ln -s /etc/passwd HEAD", Fails("HEAD")),
    ("HEAD is a link to itself", "rm HEAD; ln -s HEAD HEAD", Fails("HEAD")),
    ("HEAD never ends", "truncate -s 1T HEAD", Fails("is too large")),
    ("HEAD is empty", ": >HEAD", Fails("does not hold the name of an object")),
    ("no HEAD", "rm HEAD", Fails("does not exist")),
    ("HEAD is nonsense", "head -c 40 /dev/urandom >HEAD", Fails("does not hold the name of an object")),
    ("HEAD is cut", "git rev-parse HEAD | cut -c1-39 >h; cat h >HEAD", Fails("does not hold the name")),
    ("HEAD leads up", "echo 'ref: refs/heads/../../../../HEAD' >HEAD", Fails("does not name a branch")),
    ("HEAD leads to the root", "echo 'ref: /etc/passwd' >HEAD", Fails("does not name a branch")),
    ("HEAD names a lock", "echo 'ref: refs/heads/x.lock' >HEAD", Fails("does not name a branch")),
    ("HEAD names a tag", "git tag t; echo 'ref: refs/tags/t' >HEAD", Fails("does not name a branch")),
    (
        "HEAD has control characters",
        "printf 'ref: refs/heads/a\\001\\033[31mb\\n' >HEAD",
        Fails("does not name a branch"),
    ),
    ("an unborn branch", "echo 'ref: refs/heads/none' >HEAD", Fails("has no commit")),
    ("a symbolic branch", "echo 'ref: refs/heads/one' >refs/heads/one", Fails("does not hold the name")),
    ("the branch is a fifo", "rm refs/heads/one; mkfifo refs/heads/one", Fails("is not a regular file")),
    ("the branch is a directory", "rm refs/heads/one; mkdir refs/heads/one", Fails("is not a regular file")),
    ("the branch is a link", "rm refs/heads/one; ln -s /dev/zero refs/heads/one", Fails("refs/heads/one")),
    ("heads is a link", "rm -r refs/heads; ln -s $O/refs/heads refs/heads", Fails("refs/heads/one")),
    ("refs is a link", "rm -r refs; ln -s $O/refs refs", Fails("refs/heads/one")),
    (
        "packed-refs is a fifo",
        "rm -f refs/heads/one packed-refs; mkfifo packed-refs",
        Fails("is not a regular file"),
    ),
    ("packed-refs never ends", "rm refs/heads/one; truncate -s 1T packed-refs", Fails("is too large")),
    ("packed-refs is nonsense", "rm refs/heads/one; echo x >packed-refs", Fails("names no object")),
    ("HEAD names a blob", "blob x >h; cat h >HEAD", Fails("is a blob, not a commit")),
    ("HEAD names a tree", "git rev-parse HEAD^{tree} >h; cat h >HEAD", Fails("is a tree, not a commit")),
    (
        "HEAD names a tag object",
        "git tag -m x t; git rev-parse t >h; cat h >HEAD",
        Fails("is a tag, not a commit"),
    ),
    ("HEAD names nothing", "echo 1234567890123456789012345678901234567890 >HEAD", Fails("lacks the commit")),
];

const OBJECTS: &[Case<'_>] = &[
    (
        "alternates",
        "fresh; o=$(GIT_DIR=$O git rev-parse HEAD); echo $O/objects >objects/info/alternates; \
      echo $o >refs/heads/one",
        Fails("lacks the commit"),
    ),
    ("http-alternates and a fifo", "fresh; mkfifo objects/info/alternates", Lands),
    ("objects is a link", "fresh; mv objects real; ln -s real objects", Fails("objects")),
    (
        "a directory of loose objects is a link",
        "fresh; f=$(file_of $(cat new)); d=$(dirname $f); mv $d real; \
      ln -s ../real $d",
        Fails("objects/"),
    ),
    (
        "a loose object is a link",
        "fresh; f=$(file_of $(cat new)); mv $f real; ln -s ../../real $f",
        Fails("objects/"),
    ),
    (
        "a loose object is a fifo",
        "fresh; f=$(file_of $(cat new)); rm $f; mkfifo $f",
        Fails("is not a regular file"),
    ),
    (
        "a loose object with another content",
        "fresh; a=$(file_of $(cat new)); b=$(file_of $(blob y)); \
      rm $a; cp $b $a",
        Fails("is a blob, not a commit"),
    ),
    (
        "a loose object with another name",
        "fresh; c=$(cat new); git commit-tree -m y HEAD^{tree} >other; \
      a=$(file_of $c); rm $a; cp $(file_of $(cat other)) $a",
        Fails("another content than its name"),
    ),
    (
        "a loose object that is cut",
        "fresh; f=$(file_of $(cat new)); chmod u+w $f; truncate -s 20 $f",
        Fails("cannot be read"),
    ),
    ("an empty loose object", "fresh; f=$(file_of $(cat new)); chmod u+w $f; : >$f", Fails("cannot be read")),
    (
        "a loose object that never ends",
        "fresh; f=$(file_of $(cat new)); chmod u+w $f; truncate -s 1T $f",
        Fails("cannot be read"),
    ),
    (
        "a header that lies",
        "c=$(cat refs/heads/one | tr 0-9 1-90); f=$(file_of $c); mkdir -p $(dirname $f); \
      perl -MCompress::Zlib -e 'print compress(\"commit 99999999999999\\0x\")' >$f; echo $c >refs/heads/one",
        Fails("has 99999999999999 bytes"),
    ),
    (
        "a missing tree",
        "fresh; t=$(git rev-parse HEAD^{tree}); b=$(blob z); t=$(printf '100644 blob %s\\tz\\n' $b | git mktree); \
      on $t; rm $(file_of $t)",
        Fails("lacks the tree"),
    ),
    (
        "a missing blob",
        "b=$(blob z); on $(printf '100644 blob %s\\tz\\n' $b | git mktree); rm $(file_of $b)",
        Fails("lacks the blob"),
    ),
    (
        "a missing parent",
        "fresh; p=$(cat new); fresh; git commit-tree -p $p -m y HEAD^{tree} >n; rm -f $(file_of $p); \
      cat n >refs/heads/one",
        Fails("lacks the commit"),
    ),
    ("a blob as tree", "b=$(blob z); on $(entry 40000 z $b | any tree)", Fails("is a blob, not a tree")),
    ("a tree with .git", "on $(entry 100644 .git $(blob z) | any tree)", Fails("refused")),
    ("a tree with ..", "on $(entry 40000 .. $(git mktree </dev/null) | any tree)", Fails("refused")),
    ("a tree with a slash", "on $(entry 100644 a/b $(blob z) | any tree)", Fails("refused")),
    (
        "a tree with a name twice",
        "z=$(blob z); on $({ entry 100644 a $z; entry 100644 a $z; } | any tree)",
        Fails("refused"),
    ),
    ("a tree that is cut", "on $(printf '100644 a\\0x' | any tree)", Fails("refused")),
    (
        "a tree out of order",
        "z=$(blob z); on $({ entry 100644 b $z; entry 100644 a $z; } | any tree)",
        Fails("refused"),
    ),
    (
        "a commit without an author",
        "printf 'tree %s\\n\\nx\\n' $(git rev-parse HEAD^{tree}) | any commit >n; \
      cat n >refs/heads/one",
        Fails("refused"),
    ),
    (
        ".gitmodules with a command",
        "b=$(blob '[submodule \"x\"]\\n\\tpath = x\\n\\turl = -u./evil\\n'); \
      on $(printf '100644 blob %s\\t.gitmodules\\n' $b | git mktree)",
        Fails("refused"),
    ),
    (
        ".gitmodules with a bad name",
        "b=$(blob '[submodule \"../../x\"]\\n\\tpath = x\\n\\turl = y\\n'); \
      on $(printf '100644 blob %s\\t.gitmodules\\n' $b | git mktree)",
        Fails("refused"),
    ),
    (
        ".gitmodules is a link",
        "b=$(blob config); on $(printf '120000 blob %s\\t.gitmodules\\n' $b | git mktree)",
        Fails("refused"),
    ),
    (
        "a submodule",
        "on $(printf '160000 commit 1234567890123456789012345678901234567890\\tm\\n' | git mktree)",
        Lands,
    ),
    (
        "trees as deep as a hole",
        "perl -e 'my $o=shift; for (1..5000) { open my $p, \"|-\", \"cat >t\"; \
      print $p \"040000 tree $o\\td\\n\"; close $p; $o=`git mktree <t`; chomp $o } print $o' \
      $(git mktree </dev/null) >deep; on $(cat deep)",
        Fails("nested deeper than"),
    ),
    (
        "a pack of nonsense",
        "fresh; git gc -q; for f in objects/pack/*.pack; do chmod u+w $f; \
      s=$(stat -c %s $f); head -c $s /dev/urandom >r; mv -f r $f; done",
        Fails("lacks the commit"),
    ),
    (
        "an index of nonsense",
        "fresh; git gc -q; for f in objects/pack/*.idx; do s=$(stat -c %s $f); \
      head -c $s /dev/urandom >r; mv -f r $f; done",
        Fails("lacks the commit"),
    ),
    (
        "a pack that is cut",
        "fresh; git gc -q; for f in objects/pack/*.pack; do cp $f r; truncate -s 40 r; \
      mv -f r $f; done",
        Fails("lacks the commit"),
    ),
    (
        "a pack that is a fifo",
        "fresh; git gc -q; for f in objects/pack/*.pack; do rm -f $f; mkfifo $f; done",
        Fails("is not a regular file"),
    ),
    (
        "a pack that is a link",
        "fresh; git gc -q; for f in objects/pack/*.pack; do mv $f r; ln -s ../../r $f; done",
        Fails("objects/pack"),
    ),
    (
        "packs is a link",
        "fresh; git gc -q; mv objects/pack real; ln -s ../real objects/pack",
        Fails("lacks the commit"),
    ),
    (
        "a pack with the name of another",
        "fresh; git gc -q; set -- objects/pack/*.idx; env -u GIT_DIR git init -q n; \
      GIT_DIR=n/.git git commit -q --allow-empty -m n; GIT_DIR=n/.git git gc -q; \
      for i; do cp -f n/.git/objects/pack/*.idx $i; done; rm -r n",
        Fails("lacks the commit"),
    ),
];

const DIRECTORIES: &[Case<'_>] = &[
    (".git is a file", "rm -r $ws/.git; echo gitdir: $O >$ws/.git", Fails(".git")),
    (".git is a link", "rm -r $ws/.git; ln -s $O $ws/.git", Fails(".git")),
    (".git is a fifo", "rm -r $ws/.git; mkfifo $ws/.git", Fails(".git")),
    ("no .git", "rm -r $ws/.git", Fails(".git")),
    ("an empty .git", "rm -r $ws/.git; mkdir $ws/.git", Fails("does not exist")),
];

/// A place with a workspace, a repository outside, and a program that must not run.
pub(super) struct Scene {
    pub(super) place: Place,
}

impl Scene {
    pub(super) fn new(backend: &str) -> Scene {
        let place = Place::new();
        let outside = place.sandbox.init("outside");
        outside.write("secret", "secret\n");
        outside.commit("secret");
        outside.write_executable(
            "x",
            format!("#!/bin/sh\necho ran >>{}\n", place.sandbox.path().join("ran").display()),
        );
        outside.git(&["branch", "-f", "one"]);
        place.done(&["create", "-q", "--sealed", "--backend", backend, "one"]);
        Scene { place }
    }

    pub(super) fn outside(&self) -> Repo<'_> {
        self.place.sandbox.repo("outside")
    }

    /// Runs the script in the Git directory of the workspace.
    pub(super) fn spoil(&self, script: &str) {
        let workspace = self.place.workspace("one");
        let mut shell = workspace.command("/bin/sh".as_ref());
        let outside = self.outside();
        shell.env("O", outside.join(".git")).env("X", outside.join("x")).current_dir(workspace.join(".git"));
        let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "/usr/bin/git".to_owned());
        let above = std::path::Path::new(&git).parent().expect("a directory").to_owned();
        shell.env("PATH", format!("{}:/usr/bin:/bin", above.display()));
        let output = shell.args(["-c", &format!("{PRELUDE}\n{script}")]).output().expect("sh runs");
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Runs a command, which must end soon. Returns its exit code and what it said.
    pub(super) fn soon(&self, args: &[&str]) -> (i32, String) {
        let mut command: Command = self.place.repo().command(SAPWOOD.as_ref());
        command.arg("workspace").args(args).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let begun = Instant::now();
        while child.try_wait().expect("a child").is_none() {
            if begun.elapsed() > Duration::from_secs(120) {
                child.kill().expect("a child");
                panic!("{args:?} does not end");
            }
            thread::sleep(Duration::from_millis(5));
        }
        let output = child.wait_with_output().expect("it ended");
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (output.status.code().unwrap_or_else(|| panic!("{args:?} died: {text}")), text)
    }

    fn refs(&self) -> String {
        self.place.repo().git(&["for-each-ref"]).stdout.to_string()
    }

    fn try_case(&self, (name, script, land): &Case<'_>) {
        self.spoil(script);
        let before = self.refs();
        let (code, said) = self.soon(&["land", "one"]);
        match land {
            Lands => assert_eq!(code, 0, "{name}: {said}"),
            Fails(part) => {
                assert!(code != 0 && said.contains(part), "{name}: {code}: {said}");
                assert_eq!(self.refs(), before, "{name}: {said}");
            }
        }
        for args in [&["list"][..], &["list", "--json"], &["gc"], &["unmount", "one"], &["mount", "one"]] {
            let (code, said) = self.soon(args);
            assert_eq!(code, 0, "{name}: {args:?}: {said}");
        }
        let (code, said) = self.soon(&["remove", "one"]);
        // A branch without a commit, in a workspace without changes, is no work.
        assert!(
            code != 0 || matches!(land, Lands | Fails("has no commit")),
            "{name}: it was removed: {said}"
        );
        let (code, said) = self.soon(&["remove", "--force", "one"]);
        assert!(code == 0 || !self.place.repo().exists(".git/sapwood/workspaces/one"), "{name}: {said}");
        assert!(!self.place.sandbox.path().join("ran").exists(), "{name}: a program ran");
        let repo = self.place.repo();
        assert_eq!(repo.git(&["fsck", "--strict", "--no-dangling"]).stdout, "", "{name}");
        let secret = self.outside().git(&["rev-parse", "HEAD"]).stdout.to_string();
        assert_ne!(repo.try_git(&["cat-file", "-e", secret.trim_end()]).code, 0, "{name}: an object came");
        assert_eq!(self.outside().read("secret"), "secret\n", "{name}");
        repo.try_git(&["branch", "-D", "one"]);
    }
}

pub(super) fn each(backend: &str, cases: &[Case<'_>]) {
    let mut scene = Scene::new(backend);
    let mut failed = Vec::new();
    for case in cases {
        println!("{}", case.0);
        let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| scene.try_case(case)));
        if tried.is_err() {
            failed.push(case.0);
        }
        if tried.is_ok() && scene.place.json().as_array().expect("a list").is_empty() {
            scene.place.done(&["create", "-q", "--sealed", "--backend", backend, "one"]);
        } else {
            scene = Scene::new(backend);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn configuration_and_hooks_are_not_obeyed() {
    each("overlay", CONFIGURATION);
}

#[test]
fn odd_refs_are_refused() {
    each("overlay", REFS);
}

#[test]
fn odd_objects_are_refused() {
    each("copy", OBJECTS);
}

#[test]
fn odd_git_directories_are_refused() {
    each("copy", DIRECTORIES);
}
