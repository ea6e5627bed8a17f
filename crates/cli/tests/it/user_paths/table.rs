//! The table of places where a user can pass a path, one row each.

use super::Value::{self, *};

/// How a path is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathSource {
    /// In the command line, in place of `{}`.
    Argument,
    /// In a variable of the environment.
    Variable(&'static str),
    /// In the repository's own configuration.
    Setting(&'static str),
    /// In a file of the Git directory, after this text: the file's path, and the text.
    File(&'static str, &'static str),
}

/// An intended difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Differs {
    /// Only the messages differ; exit code and disk are equal.
    Words,
    /// sapwood refuses the command and changes nothing.
    Refused,
    /// The worktree is the repository itself: Git writes into it, sapwood does not. If no step of
    /// the command leads there, at most the messages differ.
    Guarded,
    /// Not run.
    NotRun,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) source: PathSource,
    pub(super) command: &'static str,
    /// The directory in which the command runs.
    pub(super) dir: &'static str,
    /// A valid path.
    pub(super) good: &'static str,
    /// The relative path from where the path starts to the directory with `afile` and others in it.
    pub(super) lead: &'static str,
    /// Also run with `/`. Allowed only if the command writes nothing for any path, because `/` is
    /// the disk of the machine.
    pub(super) takes_root: bool,
    /// The listed differences may be absent, because commands differ.
    pub(super) is_way: bool,
    /// Values, their difference from Git, and the reason.
    pub(super) differs: &'static [(&'static [Value], Differs, &'static str)],
}

impl Row {
    const fn new(source: PathSource, command: &'static str, good: &'static str) -> Row {
        Row { source, command, dir: "repo", good, lead: "", takes_root: false, is_way: false, differs: &[] }
    }

    const fn at(self, dir: &'static str) -> Row {
        Row { dir, ..self }
    }

    const fn lead(self, lead: &'static str) -> Row {
        Row { lead, ..self }
    }

    const fn root(self) -> Row {
        Row { takes_root: true, ..self }
    }

    const fn but(self, differs: &'static [(&'static [Value], Differs, &'static str)]) -> Row {
        Row { differs, ..self }
    }

    /// Returns this way to name a repository, with another command.
    pub(super) fn with(&self, command: &'static str) -> Row {
        Row { command, is_way: true, ..*self }
    }
}

const fn arg(command: &'static str, good: &'static str) -> Row {
    Row::new(PathSource::Argument, command, good)
}

const fn var(name: &'static str, good: &'static str, command: &'static str) -> Row {
    Row::new(PathSource::Variable(name), command, good)
}

const fn set(key: &'static str, good: &'static str, command: &'static str) -> Row {
    Row::new(PathSource::Setting(key), command, good)
}

const fn file(file: &'static str, before: &'static str, good: &'static str, command: &'static str) -> Row {
    Row::new(PathSource::File(file, before), command, good)
}

/// Commands that change nothing, and read only files of the repository, wherever the worktree is.
pub(super) const READERS: &[&str] = &["ls-files -s", "worktree list --porcelain", "check-ignore b.log"];

pub(super) const COMMANDS: &[&str] = &[
    "ls-files -s",
    "worktree list --porcelain",
    "check-ignore b.log",
    "status --porcelain",
    "checkout -f",
    "reset --hard",
    "clean -fdx",
    "switch -f --detach other",
    "read-tree -u --reset other",
    "checkout-index -af",
    "diff-files --name-only",
    "update-index --refresh",
];

const LOOKED_FOR: &str = "update-index looks for objects where Git needs none";

const TAKEN_APART: &str = "Git looks at one component after another and sees no limit";

/// The ways to name a repository and its worktree.
pub(super) const WAYS: &[Row] = &[
    var("GIT_WORK_TREE", "good", "").but(&[
        (&[Long], Differs::Refused, TAKEN_APART),
        (&[Missing, File, Dangling], Differs::Refused, "ls-files opens the worktree"),
    ]),
    set("core.worktree", "../good", "").lead("../").but(&[(
        &[Dot],
        Differs::Guarded,
        "the worktree is the Git directory",
    )]),
    var("GIT_DIR", ".git", ""),
    var("GIT_DIR", "../.git", "").at("repo/.git").lead("../").but(&[(
        &[Dot, Slash],
        Differs::Guarded,
        "the worktree is the Git directory",
    )]),
    var("GIT_COMMON_DIR", ".git", ""),
    var("GIT_OBJECT_DIRECTORY", ".git/objects", "").but(&[(
        &[Dot, Up],
        Differs::Refused,
        "attributes are read from objects that are not there",
    )]),
    var("GIT_INDEX_FILE", ".git/index", "").but(&[
        (&[Empty, Long], Differs::Refused, "Git reads an empty index, and clean removes all tracked files"),
        (&[Dot, Up, Slash, File], Differs::Words, "the absolute name is said"),
        (&[Missing, Dangling], Differs::Words, "Git lists the lock that it holds itself"),
    ]),
    var("GIT_ALTERNATE_OBJECT_DIRECTORIES", "../src/.git/objects", "").but(&[
        (&[Long], Differs::Words, TAKEN_APART),
        (&[Missing, File, Dangling], Differs::Words, LOOKED_FOR),
    ]),
    var("GIT_CEILING_DIRECTORIES", "..", "").at("repo/dir"),
    file(".git", "gitdir: ", "../repo/.git/worktrees/wt", "").at("wt").but(&[(
        &[Dot, Up, Root, Missing, File, Dangling, Long],
        Differs::Words,
        "Git says (null) for the directory",
    )]),
    file(".git/worktrees/wt/commondir", "", "../..", "").but(&[(
        &[Empty, Dot, Up, Root, Missing, File, Dangling, Long],
        Differs::Words,
        "HEAD of a worktree without common directory is still read",
    )]),
    file(".git/objects/info/alternates", "", "../../../src/.git/objects", "").lead("../../").but(&[
        (&[Long], Differs::Words, TAKEN_APART),
        (&[Missing, File, Dangling], Differs::Words, LOOKED_FOR),
    ]),
];

pub(super) const ROWS: &[Row] = &[
    arg("--git-dir {} ls-files -s", ".git").root(),
    arg("--work-tree={} ls-files -s", "good").but(&[
        (&[Long], Differs::Refused, TAKEN_APART),
        (&[Missing, File, Dangling], Differs::Refused, "ls-files opens the worktree"),
    ]),
    arg("-C {} ls-files -s", "dir").root(),
    arg("checkout --pathspec-from-file={}", "specs"),
    arg("restore --pathspec-from-file={}", "specs"),
    arg("reset --pathspec-from-file={}", "specs"),
    arg("reset --pathspec-from-file={}", "../specs").at("repo/dir"),
    arg("ls-files -o -X {}", "pats").root().but(&[(&[Long], Differs::Words, "Git warns before it dies")]),
    arg("ls-files -o --exclude-per-directory={}", ".gitignore").but(&[(
        &[Root, Slash],
        Differs::Words,
        "sapwood warns of a name that no file has",
    )]),
    arg("sparse-checkout check-rules --rules-file {}", "specs").root(),
    arg("checkout-index -af --prefix={}", "out").but(&[(
        &[Long],
        Differs::Refused,
        "other words for a path too long",
    )]),
    arg("checkout-index --prefix={} f", "out").but(&[(
        &[Long],
        Differs::Refused,
        "other words for a path too long",
    )]),
    arg("read-tree --prefix={} other", "new"),
    arg("read-tree --index-output={} other", "idx").but(&[(
        &[Empty, Long],
        Differs::Words,
        "refused before trees are read",
    )]),
    arg("diff-files --name-only -O{}", "specs").root(),
    arg("diff-index --name-only -O {} other", "specs").root(),
    arg("diff-files --name-only --relative={}", "dir"),
    arg("diff-files --name-only --rotate-to={}", "f").root(),
    arg("checkout -- {}", "dir"),
    arg("checkout -- {}", "../dir").at("repo/dir"),
    arg("restore -s other -SW {}", "dir"),
    arg("reset -- {}", "dir"),
    arg("clean -fdx -- {}", "good"),
    arg("ls-files {}", "dir").root(),
    arg("status --porcelain -- {}", "dir"),
    arg("diff-files --name-only {}", "dir").root(),
    arg("check-ignore -v {}", "dir").root(),
    arg("check-attr -a {}", "dir").root(),
    arg("checkout-index -f {}", "f"),
    arg("update-index --add {}", "untracked"),
    arg("update-index --remove {}", "f"),
    arg("update-index --force-remove {}", "f"),
    arg("update-index --assume-unchanged {}", "f"),
    arg("worktree add -q --detach {}", "new").but(&[
        (&[Empty], Differs::Refused, "Git ends by BUG and SIGABRT"),
        (&[Long], Differs::Words, "other words for a path too long"),
    ]),
    arg("worktree add -q -b new {}", "new").but(&[
        (&[Empty], Differs::Refused, "Git ends by BUG and SIGABRT, and leaves the branch"),
        (&[Long], Differs::Refused, "Git leaves the branch"),
    ]),
    arg("worktree remove {}", "../wt"),
    arg("worktree remove -f {}", "../wt").at("wt").but(&[(&[Long], Differs::Refused, TAKEN_APART)]),
    arg("worktree move {} ../moved", "../wt"),
    arg("worktree move ../wt {}", "new").but(&[
        (&[Empty], Differs::Words, "refused before the move is tried"),
        (&[Long], Differs::Words, "other words for a path too long"),
    ]),
    arg("worktree lock {}", "../wt").but(&[(&[Long], Differs::Words, TAKEN_APART)]),
    arg("worktree unlock {}", "../wt").but(&[(&[Long], Differs::Words, TAKEN_APART)]),
    arg("worktree repair {}", "../wt").but(&[(&[Long], Differs::Refused, TAKEN_APART)]),
    arg("clone -q {} dst", "../src").but(&[(
        &[File],
        Differs::Words,
        "no program is asked that has no answer",
    )]),
    arg("clone -q ../src {}", "new").but(&[(&[Long], Differs::Words, "other words for a path too long")]),
    arg("clone -q --bare ../src {}", "new").but(&[
        (&[Dangling], Differs::Refused, "no directory is made at the end of a link that leads nowhere"),
        (&[Long], Differs::Words, "other words for a path too long"),
    ]),
    arg("clone -q --separate-git-dir={} ../src dst", "new").but(&[
        (&[Dangling], Differs::Refused, "no directory is made at the end of a link that leads nowhere"),
        (&[Slash], Differs::NotRun, "Git refuses the slash at the end"),
        (&[Long], Differs::Refused, "Git leaves half a repository"),
    ]),
    arg("clone -q --template={} ../src dst", "tmpl"),
    arg("clone -q --reference={} ../src dst", "../src").but(&[
        (&[File], Differs::Words, "Git takes the file for a broken .git file"),
        (&[Long], Differs::Refused, TAKEN_APART),
    ]),
    arg("clone -q --reference-if-able={} ../src dst", "../src").but(&[
        (&[File], Differs::NotRun, "Git dies of a file that it need not use"),
        (&[Long], Differs::NotRun, TAKEN_APART),
    ]),
    var("GIT_TEMPLATE_DIR", "tmpl", "clone -q ../src dst"),
    var("GIT_WORK_TREE", "new", "clone -q ../src dst"),
    var("HOME", "good", "ls-files -s").root(),
    var("HOME", "good", "diff-index --abbrev HEAD"),
    var("XDG_CONFIG_HOME", "good", "ls-files -s").root(),
    var("GIT_CONFIG_GLOBAL", "conf", "ls-files -s").root().but(&[(
        &[Dot, Up, Root],
        Differs::Words,
        "one message where Git has several",
    )]),
    set("core.hooksPath", "hooks", "switch -q -f --detach other").but(&[(
        &[Dot],
        Differs::NotRun,
        "Git drops the dot and finds no program of that name",
    )]),
    set("core.excludesFile", "pats", "status --porcelain").but(&[(&[Long], Differs::Words, "not warned of")]),
    set("core.excludesFile", "pats", "clean -fd").but(&[(&[Long], Differs::Words, "not warned of")]),
    set("core.excludesFile", "pats", "ls-files -o --exclude-standard"),
    set("core.excludesFile", "pats", "ls-files -o --exclude-standard").at("repo/dir"),
    set("core.excludesFile", "pats", "check-ignore -v a.tmp").root(),
    set("core.attributesFile", "attrs", "check-attr -a f").root(),
    set("core.attributesFile", "attrs", "checkout -f").but(&[(&[Long], Differs::Words, "not warned of")]),
    set("include.path", "../conf", "ls-files -s").root().lead("../").but(&[(
        &[Empty, Dot, Up, Root, Long],
        Differs::Words,
        "the absolute name is said, once",
    )]),
    set("core.fsmonitor", "hooks/post-checkout", "status --porcelain").but(&[(
        &[Dot, Up],
        Differs::Words,
        "the reason that the kernel gives",
    )]),
    set("init.templateDir", "tmpl", "clone -q ../src dst"),
    set("diff.orderFile", "specs", "diff-files --name-only"),
    file(".git/worktrees/wt/gitdir", "", "../../../../wt/.git", "worktree list --porcelain")
        .but(&[
            (&[Dangling], Differs::NotRun, "the link is not followed"),
            (&[Long], Differs::Words, TAKEN_APART),
        ])
        .lead("../../../"),
    file(".git/worktrees/wt/gitdir", "", "../../../../wt/.git", "worktree prune --expire=now")
        .but(&[(&[Dangling], Differs::NotRun, "the link is not followed")])
        .lead("../../../"),
    file(".git/worktrees/wt/gitdir", "", "../../../../wt/.git", "worktree repair")
        .lead("../../../")
        .but(&[(&[Dangling, Long], Differs::NotRun, "Git writes a path that it made up")]),
];
