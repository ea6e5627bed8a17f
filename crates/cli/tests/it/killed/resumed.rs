//! Clones that are run again after a kill: from each state that it can leave, and beside the user's
//! later changes.

use std::path::Path;

use testkit::{Repo, Sandbox};

use super::{usable, usable_objects};
use crate::SAPWOOD;

fn make_dir(repo: &Repo<'_>, name: &str) {
    std::fs::create_dir_all(repo.join(name)).expect("a directory for tests");
}

/// The states that a kill leaves, built from the parts of a complete clone.
#[test]
fn clone_resumes_from_every_state_a_kill_can_leave() {
    let sandbox = Sandbox::new();
    let source = sandbox.init("source");
    source.write("a/file", "one\n");
    source.write("file", "two\n");
    source.commit("one");
    let root = sandbox.repo("");
    let (copy, bare) = (sandbox.repo("copy"), sandbox.repo("bare"));
    let url = source.join("").display().to_string();
    let url = url.trim_end_matches('/');
    // The id of a running process; clone ignores the id.
    let marker = format!("{}\n{url}\n", std::process::id());
    let scrap = format!(".clone-{}", std::process::id());
    let marked = format!("{scrap}/sapwood-clone");
    let invalid = "ref: refs/heads/unfinished-clone\n";
    type Moment<'a> = (&'a str, &'a dyn Fn());
    let published: &dyn Fn() = &|| {
        root.git(&["clone", "-q", "--no-checkout", url, "copy"]);
        copy.write(".git/sapwood-clone", &marker);
    };
    let moments: &[Moment<'_>] = &[
        ("an assembly without a marker", &|| make_dir(&copy, &scrap)),
        ("an assembly with a marker not written", &|| copy.write(&marked, "")),
        ("an assembly", &|| {
            copy.write(&marked, &marker);
            copy.write(format!("{scrap}/description"), "half");
        }),
        ("a skeleton", &|| {
            copy.write(".git/sapwood-clone", &marker);
            copy.write(".git/HEAD", invalid);
        }),
        ("only the marker left by a clearing", &|| copy.write(".git/sapwood-clone", &marker)),
        ("an empty directory left by a clearing", &|| make_dir(&copy, ".git")),
        ("refs, and HEAD locked for its reflog", &|| {
            published();
            copy.write(".git/HEAD.lock", "");
        }),
        ("a locked index, and half a file", &|| {
            published();
            copy.write(".git/index.lock", "");
            copy.write("a/file", "o");
        }),
        ("an index, and the marker", &|| {
            root.git(&["clone", "-q", url, "copy"]);
            copy.write(".git/sapwood-clone", &marker);
        }),
    ];
    for (context, make) in moments {
        if root.exists("copy") {
            root.remove("copy");
        }
        make();
        let run = root.run(Path::new(SAPWOOD), &["clone", "-q", url, "copy"]);
        assert_eq!(run.code, 0, "{context}: {}", run.stderr);
        usable(&copy, context);
        assert_eq!(copy.git(&["status", "--porcelain"]).stdout, "", "{context}");
        let head = copy.git(&["rev-parse", "HEAD"]).stdout;
        assert_eq!(head, source.git(&["rev-parse", "HEAD"]).stdout, "{context}");
        for name in ["sapwood-clone", "index.lock", "HEAD.lock"] {
            assert!(!copy.exists(format!(".git/{name}")), "{context}: {name} is left");
        }
    }
    bare.write("sapwood-clone", &marker);
    bare.write(format!("{scrap}/HEAD"), invalid);
    let run = root.run(Path::new(SAPWOOD), &["clone", "-q", "--bare", url, "bare"]);
    assert_eq!(run.code, 0, "half moved in: {}", run.stderr);
    usable_objects(&bare, "half moved in");
    assert!(!bare.exists("sapwood-clone") && !bare.exists(&scrap), "half moved in: something is left");
}

/// The state left by a kill after the refs and before the index, with later changes of the user.
struct InterruptedClone<'a> {
    copy: Repo<'a>,
    root: Repo<'a>,
    clone: Vec<&'a str>,
}

impl<'a> InterruptedClone<'a> {
    fn new(sandbox: &'a Sandbox, url: &'a str, settings: &[&'a str]) -> InterruptedClone<'a> {
        let (root, copy) = (sandbox.repo(""), sandbox.repo("copy"));
        let settings: Vec<&str> = settings.iter().flat_map(|setting| ["-c", *setting]).collect();
        let clone = |option| [&["clone", option][..], &settings, &[url, "copy"]].concat();
        root.git(&clone("-qn"));
        copy.write(".git/sapwood-clone", format!("1\n{url}\n"));
        InterruptedClone { copy, root, clone: clone("-q") }
    }

    /// Runs the clone again, and expects it to stop at `paths`.
    fn blocked(&self, context: &str, paths: &[&str]) {
        let run = self.root.run(Path::new(SAPWOOD), &self.clone);
        let mut said: String = paths
            .iter()
            .map(|path| format!("error: '{path}' was changed meanwhile: left as it is\n"))
            .collect();
        said.push_str(
            "fatal: unable to checkout working tree\n\
             warning: Clone succeeded, but checkout failed.\n\
             You can inspect what was checked out with 'git status'\n\
             and retry with 'git restore --source=HEAD :/'\n\n",
        );
        assert_eq!((run.code, run.stderr.to_string()), (128, said), "{context}");
        assert!(self.copy.exists(".git/sapwood-clone"), "{context}: the clone is not finished");
    }

    /// Runs the clone again, and expects it to complete.
    fn finished(&self, context: &str, status: &str) {
        let run = self.root.run(Path::new(SAPWOOD), &self.clone);
        assert_eq!((run.code, run.stderr.to_string()), (0, String::new()), "{context}");
        assert_eq!(self.status(), status, "{context}");
        // Reads the tree again, so that every file is compared.
        self.copy.git(&["read-tree", "HEAD"]);
        assert_eq!(self.status(), status, "{context}, all compared");
        assert!(!self.copy.exists(".git/sapwood-clone"), "{context}: the marker is left");
        assert_eq!(self.root.run(Path::new(SAPWOOD), &self.clone).code, 128, "{context}: once more");
    }

    fn status(&self) -> String {
        self.copy.git(&["status", "--porcelain"]).stdout.to_string()
    }

    fn inode(&self, path: &str) -> u64 {
        use std::os::unix::fs::MetadataExt as _;
        self.copy.join(path).symlink_metadata().expect("is there").ino()
    }
}

#[test]
fn resumed_clone_keeps_the_users_files() {
    let sandbox = Sandbox::new();
    let source = sandbox.init("source");
    for name in ["begun", "edited", "empty", "mine/new", "missing", "under/file", "whole"] {
        source.write(name, format!("content of {name}\n"));
    }
    source.write("nothing", "");
    for name in ["run", "run-begun", "run-whole"] {
        source.write_executable(name, "#!/bin/sh\nexit 0\n");
    }
    source.symlink("whole", "link");
    source.symlink("whole", "link-moved");
    source.write("taken", "a file\n");
    source.write("dir-taken", "a file\n");
    source.commit("one");
    let head = source.git(&["rev-parse", "HEAD"]).stdout.to_string();
    for name in ["sub", "sub-new"] {
        let gitlink = format!("160000,{},{name}", head.trim());
        source.git(&["update-index", "--add", "--cacheinfo", &gitlink]);
    }
    source.git(&["commit", "-q", "-m", "submodules"]);
    let url = source.path.display().to_string();
    let half = InterruptedClone::new(&sandbox, &url, &[]);
    let copy = &half.copy;

    copy.write("whole", "content of whole\n");
    copy.write("begun", "content of");
    copy.write("empty", "");
    copy.write("nothing", "");
    copy.write("run", "#!/bin/sh\nexit 0\n");
    copy.write_executable("run-begun", "#!/bin");
    copy.write_executable("run-whole", "#!/bin/sh\nexit 0\n");
    copy.symlink("whole", "link");
    make_dir(copy, "sub");
    copy.write("sub/work", "in the submodule\n");
    let kept = ["whole", "nothing", "run-whole", "link", "sub/work"];
    let inodes: Vec<u64> = kept.iter().map(|path| half.inode(path)).collect();
    // Files of the user: changed, longer, of another type than the entry, and at other paths.
    copy.write("edited", "content of edited\nand more\n");
    copy.write("mine/new", "mine\n");
    copy.symlink("begun", "link-moved");
    copy.symlink("whole", "taken");
    copy.write("dir-taken/notes", "notes\n");
    copy.write("under", "content");
    copy.write("untracked", "untracked\n");

    let theirs = ["dir-taken", "edited", "link-moved", "mine/new", "taken", "under/file"];
    half.blocked("the first time", &theirs);
    let check = |context: &str| {
        for (path, content) in [
            ("edited", "content of edited\nand more\n"),
            ("mine/new", "mine\n"),
            ("dir-taken/notes", "notes\n"),
            ("under", "content"),
            ("untracked", "untracked\n"),
            ("sub/work", "in the submodule\n"),
            ("whole", "content of whole\n"),
            ("begun", "content of begun\n"),
            ("empty", "content of empty\n"),
            ("missing", "content of missing\n"),
        ] {
            assert_eq!(copy.read(path), content, "{context}: {path}");
        }
        let target = |path: &str| std::fs::read_link(copy.join(path)).expect("a link");
        assert_eq!(target("link-moved"), Path::new("begun"), "{context}");
        assert_eq!(target("taken"), Path::new("whole"), "{context}");
        let now: Vec<u64> = kept.iter().map(|path| half.inode(path)).collect();
        assert_eq!(inodes, now, "{context}: what was whole is kept");
        let status = " D dir-taken\n M edited\n M link-moved\n M mine/new\n T taken\n D under/file\n\
                      ?? under\n?? untracked\n";
        assert_eq!(half.status(), status, "{context}");
        assert_eq!(copy.git(&["rev-parse", "HEAD"]).stdout, source.git(&["rev-parse", "HEAD"]).stdout);
    };
    check("the first time");
    half.blocked("the second time", &theirs);
    check("the second time");
    for path in ["dir-taken", "edited", "link-moved", "mine/new", "taken", "under"] {
        copy.remove(path);
    }
    // The clone was killed again, in the middle of this file.
    copy.write("edited", "con");
    half.finished("moved away", "?? untracked\n");
    assert_eq!(copy.read("edited"), "content of edited\n");
}

#[test]
fn resumed_clone_compares_the_bytes_it_would_write() {
    let sandbox = Sandbox::new();
    let source = sandbox.init("source");
    source.write(".gitattributes", "*.crlf eol=crlf\n*.up filter=up\n");
    for name in ["begun.crlf", "mine.crlf", "whole.crlf"] {
        source.write(name, "one\ntwo\n");
    }
    for name in ["begun.up", "mine.up", "missing.up", "whole.up"] {
        source.write(name, "lower\n");
    }
    let big: Vec<u8> = (0..200_000u32).flat_map(|n| n.to_le_bytes()).collect();
    for name in ["begun.big", "longer.big", "mine.big", "missing.big", "whole.big"] {
        source.write(name, &big);
    }
    source.commit("one");
    let url = source.path.display().to_string();
    let settings =
        ["filter.up.smudge=tr a-z A-Z", "filter.up.clean=tr A-Z a-z", "core.bigFileThreshold=100k"];
    let half = InterruptedClone::new(&sandbox, &url, &settings);
    let copy = &half.copy;
    copy.write("begun.crlf", "one\r\ntwo\r");
    copy.write("whole.crlf", "one\r\ntwo\r\n");
    copy.write("begun.up", "LOW");
    copy.write("whole.up", "LOWER\n");
    copy.write("begun.big", &big[..300_000]);
    copy.write("whole.big", &big);
    let whole = ["whole.crlf", "whole.up", "whole.big"];
    let inodes = whole.map(|path| half.inode(path));
    // For Git these files match their entries, but a clone would not have written these bytes.
    copy.write("mine.crlf", "one\ntwo\n");
    copy.write("mine.up", "lower\n");
    let longer = [&big[..], b"x"].concat();
    copy.write("longer.big", &longer);
    let mut mine = big.clone();
    mine[500_000] ^= 1;
    copy.write("mine.big", &mine);
    half.blocked("the first time", &["longer.big", "mine.big", "mine.crlf", "mine.up"]);
    assert_eq!(copy.read("mine.crlf"), "one\ntwo\n");
    assert_eq!(copy.read("mine.up"), "lower\n");
    assert!(copy.read("longer.big") == longer && copy.read("mine.big") == mine);
    assert!(copy.read("begun.big") == big && copy.read("missing.big") == big);
    assert_eq!(copy.read("begun.crlf"), "one\r\ntwo\r\n");
    assert_eq!(copy.read("begun.up"), "LOWER\n");
    assert_eq!(copy.read("missing.up"), "LOWER\n");
    assert_eq!(whole.map(|path| half.inode(path)), inodes);
    for path in ["longer.big", "mine.big", "mine.crlf", "mine.up"] {
        copy.remove(path);
    }
    half.finished("moved away", "");
    assert_eq!(copy.read("mine.up"), "LOWER\n");
}

/// An index entry means that the file was complete, or that the user has staged it since.
#[test]
fn resumed_clone_keeps_files_with_index_entries() {
    let sandbox = Sandbox::new();
    let source = sandbox.init("source");
    for name in ["a", "b", "c", "staged"] {
        source.write(name, format!("content of {name}\n"));
    }
    source.commit("one");
    let url = source.path.display().to_string();
    let half = InterruptedClone::new(&sandbox, &url, &[]);
    let copy = &half.copy;
    copy.git(&["read-tree", "HEAD"]);
    copy.git(&["checkout-index", "-u", "a", "c"]);
    copy.write("a", "edited after it was finished\n");
    copy.write("b", "con");
    copy.write("staged", "staged\n");
    copy.write("new", "new\n");
    copy.git(&["add", "staged", "new"]);
    copy.git(&["rm", "-q", "--cached", "c"]);
    let run = half.root.run(Path::new(SAPWOOD), &half.clone);
    assert_eq!((run.code, run.stderr.to_string()), (0, String::new()));
    assert_eq!(half.status(), " M a\nA  new\nM  staged\n");
    assert_eq!(copy.read("b"), "content of b\n");
}

#[test]
fn resumed_clone_completes_after_a_filter_is_repaired() {
    let sandbox = Sandbox::new();
    let source = sandbox.init("source");
    source.write(".gitattributes", "*.up filter=up\n");
    source.write("a", "plain\n");
    source.write("b.up", "lower\n");
    source.commit("one");
    let url = source.path.display().to_string();
    let root = sandbox.repo("");
    let settings = ["-c", "filter.up.smudge=false", "-c", "filter.up.required=true"];
    let clone: Vec<&str> = [&["clone", "-q"][..], &settings, &[&url, "copy"]].concat();
    let run = root.run(Path::new(SAPWOOD), &clone);
    assert_eq!(run.code, 128, "{}", run.stderr);
    let half = InterruptedClone { copy: sandbox.repo("copy"), root, clone };
    assert!(half.copy.exists(".git/sapwood-clone"));
    half.copy.git(&["config", "filter.up.smudge", "tr a-z A-Z"]);
    half.copy.git(&["config", "filter.up.clean", "tr A-Z a-z"]);
    half.finished("mended", "");
    assert_eq!(half.copy.read("b.up"), "LOWER\n");
}
