//! The shim's decision to run a command natively or to hand it over. The log records it, and the
//! output is Git's in both cases.

use std::{fs, process::Command};

use bstr::{BString, ByteSlice as _};
use testkit::{Oracle, Sandbox, wording};

use super::{Shim, finished, one, same};
use crate::switch::two_branches;

#[test]
fn native_commands_are_gits_to_the_byte() {
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), two_branches);
    for args in [
        &["switch", "topic"][..],
        &["switch", "-"],
        &["checkout", "-b", "new", "topic"],
        &["checkout", "main"],
        &["checkout", "v1"],
        &["switch", "main"],
        &["switch", "v1"],
        &["switch", "-c", "topic"],
        &["checkout", "nothing"],
        &["checkout", "--detach", "--", "a"],
        &["reset", "--mixed", "--", "a"],
        &["reset", "--hard", "HEAD~1"],
        &["reset", "nothing"],
        &["-c", "core.quotePath=false", "reset", "--soft", "topic"],
        &["restore", "--staged", "."],
        &["restore", "nothing"],
        &["-C", "dir", "restore", "."],
        &["--no-pager", "checkout", "-f", "main"],
        &["checkout", ":a"],
        &["checkout", ":a", "--", "a"],
        &["reset", ":0:a"],
        &["restore", "--source", ":a", "a"],
        &["reset", "aaaaaa"],
        &["read-tree", "-m", "-u", "HEAD", "HEAD"],
        &["read-tree", ":a"],
        &["checkout-index", "-a", "-u"],
        &["checkout", "v1", "--", "a"],
        &["-C", "dir", "checkout", "-q", "topic"],
    ] {
        oracle.same(args);
        shim.was_native(args);
    }
}

/// With both streams in one file, results come after the messages and before the output of hooks,
/// as in Git.
#[test]
fn results_come_when_gits_do() {
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let repo = one(&sandbox);
    repo.write("c", "c\n");
    repo.git(&["add", "c"]);
    repo.write_executable(".git/hooks/post-checkout", "#!/bin/sh\necho hook >&2\n");
    let both = |git: &str| {
        let script = format!("'{git}' checkout topic 2>&1; '{git}' checkout main 2>&1; '{git}' reset 2>&1");
        repo.git(&["add", "c"]);
        finished(repo.command("sh".as_ref()).args(["-c", &script]))
    };
    let theirs = both("git");
    assert_eq!(theirs, both(&shim.program()));
    shim.was_native(&[]);
    assert!(theirs.stdout.starts_with(b"Switched to branch 'topic'\nA\tc\nhook\n"), "{}", theirs.stdout);
}

#[test]
fn copies_and_orders_are_native() {
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), |repo| {
        two_branches(repo);
        repo.write("b", "b\n");
        repo.commit("b");
        repo.write("z", "b\n");
        repo.git(&["add", "-N", "z"]);
    });
    for args in [
        &["diff-files", "-C", "-C"][..],
        &["diff-files", "-C", "-R", "--no-rename-empty"],
        &["diff-index", "--find-copies-harder", "-O/dev/null", "HEAD"],
        &["diff-index", "--skip-to=z", "HEAD"],
        &["diff-files", "--rotate-to", "z"],
        &["diff-files", "-Sb", "--pickaxe-all"],
        &["diff-index", "--find-object=HEAD:b", "HEAD"],
        &["diff-files", "--find-object=:b", "-Oz", "-O", ""],
        &["diff-files", "--quiet", "--skip-to=z"],
        &["diff-files", "-B", "-Gb", "--quiet"],
    ] {
        oracle.same(args);
        shim.was_native(args);
    }
    let nowhere = ["diff-files", "--find-object=nowhere"];
    oracle.same(&nowhere);
    shim.was_handed_over(&nowhere, "an argument that may be no object");
    let converted = ["-c", "core.autocrlf=input", "diff-files", "-Sb"];
    oracle.same(&converted);
    shim.was_native(&converted);
    let several_times = ["-c", "core.autocrlf=input", "diff-files", "-C", "-Sb"];
    oracle.same(&several_times);
    shim.was_handed_over(&several_times, "'-B', '-S' or '-G' among renames where line ends are converted");
}

#[test]
fn attributes_in_pathspecs_are_native() {
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), |repo| {
        two_branches(repo);
        repo.write(".gitattributes", "* foo\n");
        repo.write("new", "1\n");
    });
    for args in [
        &["ls-files", "-c", "-o", ":(attr:foo)"][..],
        &["status", "-s", ":(attr:-foo)", ":(attr:foo)new"],
        &["diff-files", "--", ":(exclude,attr:!foo)"],
        &["diff-index", "HEAD", "--", ":(attr:foo)"],
        &["reset", "--", ":(attr:foo)"],
        &["restore", ":(attr:foo)"],
        &["checkout", "--", ":(attr:foo)"],
        &["clean", "-n", ":(attr:foo)"],
        &["update-index", "--again", ":(attr:foo)"],
    ] {
        oracle.same(args);
        shim.was_native(args);
    }
    let mode = ["ls-files", ":(attr:builtin_objectmode=100644)"];
    oracle.same(&mode);
    shim.was_handed_over(&mode, "a pathspec with attributes");
    oracle.both(|repo| drop(repo.git(&["config", "core.bare", "true"])));
    let bare = ["--git-dir=.git", "diff-index", "--cached", "HEAD", "--", ":(attr:foo)"];
    oracle.same(&bare);
    shim.was_native(&bare);
}

/// The stat data that `switch -q` refreshes: `diff-files` lists no files afterwards.
#[test]
fn a_quiet_switch_refreshes_as_git_does() {
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), two_branches);
    oracle.both(|repo| {
        repo.write("b", "b\n");
        repo.commit("b");
        repo.write("b", "b\n");
    });
    oracle.same(&["checkout", "-q", "-b", "other", "HEAD~1"]);
    oracle.same(&["checkout", "-q", "main"]);
    shim.was_native(&[]);
    oracle.both(|repo| repo.write("dir/b", "one\n"));
    oracle.same(&["checkout", "-q", "other"]);
    assert_eq!(oracle.ours().git(&["diff-files"]).stdout, "");
}

#[test]
fn hands_over_commands_that_are_not_native() {
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let repo = one(&sandbox);
    for (args, why) in [
        (&["log", "--oneline"][..], "command 'log'"),
        (&["status", "-v"], "option '--verbose'"),
        (&["--version"], "command 'version'"),
        (&["version"], "command 'version'"),
        (&["-h"], "command 'help'"),
        (&[], "no command"),
        (&["--exec-path"], "options before the command"),
        (&["--exec-path=/nowhere", "--exec-path"], "options before the command"),
        (&["--html-path"], "options before the command"),
        (&["--nonsense", "switch"], "options before the command"),
        (&["-c"], "options before the command"),
        (&["-C", "nowhere", "switch", "x"], "options before the command"),
        (&["-C", "a", "switch", "x"], "options before the command"),
        (&["-p", "checkout"], "option '--paginate'"),
        (&["switch", "-h"], "a wrong or a help option"),
        (&["checkout", "--nonsense"], "a wrong or a help option"),
        (&["reset", "-Z"], "a wrong or a help option"),
        (&["switch", "--dry-run", "topic"], "option '--dry-run'"),
        (&["checkout", "--merge", "--", "a"], "option '--merge'"),
        (&["checkout", "-m", "nothing"], "'--merge' with what may be no commit"),
        (&["restore", "--merge", "nothing"], "option '--merge'"),
        (&["checkout", ":nothing"], "':nothing' may be no object"),
        (&["reset", ":2:a"], "':2:a' may be no object"),
        (&["reset", ":/^o"], "a pattern for messages"),
        (&["read-tree", "--debug-unpack", "HEAD"], "option '--debug-unpack'"),
        (&["nonsense"], "command 'nonsense'"),
        (&["--git-dir=nowhere", "reset"], "not a git repository"),
        (&["--work-tree=/nowhere", "reset", "--hard"], "the work tree is not there"),
        (&["--bare", "rev-parse", "--is-bare-repository"], "not a git repository"),
        (&["clone", "--depth=1"], "a wrong number of arguments"),
    ] {
        same(&shim, &repo, args);
        shim.was_handed_over(args, why);
    }
}

/// Each setting and each state of the repository that is not native.
#[test]
fn settings_and_states_that_are_handed_over() {
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let repo = one(&sandbox);
    for setting in [
        "submodule.recurse=maybe",
        "attr.tree=HEAD",
        "color.advice=always",
        "pager.reset=true",
        "hook.x.parallel=true",
        "trace2.eventTarget=0",
    ] {
        let args = ["-c", setting, "reset", "-q"];
        same(&shim, &repo, &args);
        let name = setting.split('=').next().expect("a name").to_lowercase();
        shim.was_handed_over(&args, &format!("{name} is set"));
    }
    for setting in [
        "extensions.unheardOf=true",
        "core.fsmonitor=false",
        "core.fsmonitor=.git/hooks/nothing",
        "submodule.recurse=no",
        "submodule.recurse=true",
        "color.ui=always",
        "pager.log=true",
        "filter.x.process=cat",
        "hook.x.command=true",
    ] {
        let args = ["-c", setting, "reset", "-q"];
        same(&shim, &repo, &args);
        shim.was_native(&args);
    }
    repo.git(&["worktree", "add", "-q", "../linked", "topic"]);
    repo.remove(".git/worktrees/linked/HEAD");
    repo.symlink("refs/heads/topic", ".git/worktrees/linked/HEAD");
    same(&shim, &repo, &["switch", "topic"]);
    shim.was_handed_over(&[], "some HEAD is a symbolic link");
    fs::remove_dir_all(repo.path.join(".git/worktrees")).expect("removed");
    let states: [(&str, &dyn Fn(), &str); 4] = [
        (".git/index.lock", &|| repo.write(".git/index.lock", ""), "the index is locked"),
        (
            ".git/hooks/reference-transaction",
            &|| repo.write_executable(".git/hooks/reference-transaction", "#!/bin/sh\n"),
            "'reference-transaction'",
        ),
        (".git/info/grafts", &|| repo.write(".git/info/grafts", ""), "info/grafts"),
        (
            ".git/config",
            &|| {
                repo.write(
                    ".git/config",
                    "[core]\n\trepositoryFormatVersion = 1\n[extensions]\n\tunheard = of\n",
                )
            },
            "unknown repository extension",
        ),
    ];
    for (file, make, why) in states {
        make();
        let args = ["reset", "-q", "topic"];
        same(&shim, &repo, &args);
        shim.was_handed_over(&args, why);
        repo.remove(file);
    }
    let inner = sandbox.init("repo/inner");
    inner.commit("inside");
    repo.git(&["init", "-q"]);
    repo.git(&["add", "inner"]);
    same(&shim, &repo, &["reset", "-q", "--soft"]);
    shim.was_native(&["a submodule"]);
    inner.git(&["config", "core.preferSymlinkRefs", "true"]);
    same(&shim, &repo, &["reset", "-q", "--soft"]);
    shim.was_handed_over(&[], "submodule 'inner': core.prefersymlinkrefs is set");
    inner.write(".git/config", "[core]\n\trepositoryFormatVersion = 7\n");
    same(&shim, &repo, &["reset", "-q", "--soft"]);
    shim.was_handed_over(&[], "submodule 'inner': it cannot be opened");
}

/// `status` writes little, so few settings prevent it. Those that do depend on their combination.
#[test]
fn when_status_is_native() {
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let repo = one(&sandbox);
    for settings in [
        &["diff.orderFile=nothing"][..],
        &["column.ui=odd"],
        &["column.status=always", "column.ui=never"],
        &["color.status=perhaps"],
        &["color.status.header=redd"],
        &["color.status.header=red", "status.color.header=blue"],
        &["core.commentChar=;", "core.commentString=#"],
        &["status.showUntrackedFiles=some"],
        &["diff.renameLimit=many"],
        &["pager.status=true"],
        &["core.quotePath=false", "column.ui=always"],
    ] {
        let mut args: Vec<&str> = settings.iter().flat_map(|setting| ["-c", *setting]).collect();
        args.push("status");
        same(&shim, &repo, &args);
        shim.was_handed_over(&args, "");
    }
    // After the first run, the index has a cache.
    for _ in 0..2 {
        let args = ["-c", "core.untrackedCache=true", "status"];
        same(&shim, &repo, &args);
        shim.was_native(&args);
    }
}

/// The configured version of a new index is used. An invalid one causes a warning when the index is
/// written.
#[test]
fn the_version_of_a_new_index() {
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let repo = one(&sandbox);
    let variable = |version| (Some(version), "index.version=2".to_owned());
    let setting = |version| (None, format!("index.version={version}"));
    let variables = [
        "2",
        "4",
        "5",
        "4x",
        "",
        " +4",
        "-1",
        "4294967300",
        "-4294967292",
        "\x0b4",
        "4 ",
        "- 4",
        "+-4",
        "18446744073709551614",
        "18446744073709551620",
        "-18446744073709551620",
    ];
    let variables = variables.map(variable);
    for (variable, setting) in variables.into_iter().chain(["3", "4", "5", "0", "-1"].map(setting)) {
        for args in [
            &["update-index", "--add", "--cacheinfo", "100644,1111111111111111111111111111111111111111,x"][..],
            &["reset", "-q"],
            &["update-index", "--split-index"],
            &["status"],
        ] {
            // In the second run the index exists.
            for is_new in [true, false] {
                let versions = [true, false].map(|ours| {
                    if is_new && repo.exists(".git/index") {
                        repo.remove(".git/index");
                    }
                    let mut command = if ours { shim.command(&repo) } else { repo.git_command() };
                    command.args(["-c", &setting]).args(args);
                    let run = finished(command.envs(variable.map(|version| ("GIT_INDEX_VERSION", version))));
                    assert_eq!(run.code, 0, "{}", run.stderr);
                    (repo.git(&["update-index", "--show-index-version"]).stdout, run.stderr)
                });
                assert_eq!(versions[0], versions[1], "{variable:?} {setting} {args:?}");
                shim.was_native(&[&setting]);
            }
        }
    }
}

/// Variables for traces and tests do not change the decision.
#[test]
fn traces_do_not_decide() {
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let repo = one(&sandbox);
    for (name, value) in [("GIT_TRACE2_EVENT", "1"), ("GIT_TRACE", "1"), ("GIT_TEST_SPLIT_INDEX", "1")] {
        let run = finished(shim.command(&repo).args(["switch", "-q", "-"]).env(name, value));
        assert_eq!(run.code, 0, "{}", run.stderr);
        shim.was_native(&[name]);
    }
}

#[test]
fn clones() {
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let repo = one(&sandbox);
    for (number, options) in [
        &[][..],
        &["--bare"],
        &["-q", "-n"],
        &["-s"],
        &["-b", "topic", "--single-branch"],
        &["--no-local"],
        &["-v"],
    ]
    .into_iter()
    .enumerate()
    {
        let here = sandbox.repo("");
        let places = ["git", "ours"].map(|who| format!("{who}/{number}"));
        let line = |place| [&["clone"], options, &["repo", place]].concat();
        let (theirs, ours) = (here.try_git(&line(&places[0])), shim.run(&here, &line(&places[1])));
        shim.was_native(options);
        assert_eq!(theirs.code, ours.code, "{options:?}");
        assert_eq!(wording(&theirs.stderr.replace("git/", "ours/")), wording(&ours.stderr), "{options:?}");
        let files = |who: &str| {
            let top = sandbox.path().join(who).join(number.to_string());
            let list = Command::new("find").arg(".").current_dir(top).output().expect("find can be run");
            let mut names: Vec<BString> = list.stdout.lines().map(BString::from).collect();
            names.sort();
            names
        };
        assert_eq!(files("git"), files("ours"), "{options:?}");
    }
    // A template adds settings and hooks before the new repository can be checked.
    for (file, content, why) in [
        ("config", "[attr]\n\ttree = HEAD\n", "attr.tree is set"),
        ("hooks/reference-transaction", "", "hooks/reference-transaction"),
    ] {
        repo.write_executable(format!("template/{file}"), content);
        let run = shim.run(&repo, &["clone", "-q", "--template=template", ".", file]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        shim.was_handed_over(&[file], why);
        repo.remove(format!("template/{file}"));
    }
    repo.symlink("nowhere", "template/HEAD");
    let run = shim.run(&repo, &["clone", "-q", "--template=template", ".", "linked"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    shim.was_handed_over(&["HEAD"], "what the template has as 'HEAD'");
    repo.remove("template/HEAD");
    repo.write("template/HEAD", "x\n");
    let run = shim.run(&repo, &["clone", "-q", "--template=template", ".", "plain"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    shim.was_native(&["HEAD"]);
    // A clone that fails immediately fails natively.
    for args in [
        &["clone", "nowhere"][..],
        &["clone", ".", "a"],
        &["clone", "file:///nowhere"],
        &["clone", "--depth=0", ".", "x"],
    ] {
        same(&shim, &repo, args);
        shim.was_native(args);
    }
}

/// A partial clone is native, and missing objects arrive in one fetch. If the fetch fails, nothing
/// changes.
#[test]
fn partial_clones() {
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let source = one(&sandbox);
    source.git(&["config", "uploadpack.allowFilter", "true"]);
    source.git(&["config", "uploadpack.allowAnySHA1InWant", "true"]);
    let url = format!("file://{}", source.path.display());
    sandbox.repo("").git(&["clone", "-q", "-n", "--filter=blob:none", &url, "partial"]);
    let partial = sandbox.repo("partial");
    let fetches = || shim.log().iter().filter(|line| line.contains("\"fetch\"")).count();
    let run = shim.run(&partial, &["checkout", "-q", "main"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(fetches() <= 1);
    assert_eq!(partial.git(&["status", "--porcelain"]).stdout, "");
    // Another pair of clones, whose source is then removed.
    for name in ["theirs", "ours"] {
        sandbox.repo("").git(&["clone", "-q", "-n", "--filter=blob:none", &url, name]);
    }
    std::fs::rename(&source.path, sandbox.path().join("gone")).expect("moved");
    let theirs = sandbox.repo("theirs").try_git(&["checkout", "-q", "main"]);
    let ours = shim.run(&sandbox.repo("ours"), &["checkout", "-q", "main"]);
    assert_eq!(theirs, ours);
    assert_eq!(ours.code, 128);
    assert_eq!(std::fs::read_dir(sandbox.path().join("ours")).expect("listed").count(), 1, "only .git");
}

/// Reftable repositories are handed over, and sapwood itself refuses them.
#[test]
fn reftable_is_handed_over() {
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let repo = one(&sandbox);
    if repo.try_git(&["refs", "migrate", "--ref-format=reftable"]).code != 0 {
        println!("skipped: this Git has no reftable");
        return;
    }
    same(&shim, &repo, &["reset", "-q"]);
    shim.was_handed_over(&[], "ref storage format 'reftable' is not supported");
    let run = shim.run(&sandbox.repo(""), &["clone", "-q", "repo", "copy"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    shim.was_handed_over(&[], "ref storage format 'reftable' is not supported");
    let refused = repo.run(std::path::Path::new(crate::SAPWOOD), &["reset", "-q"]);
    assert_eq!(refused.stderr, "fatal: ref storage format 'reftable' is not supported\n");
}

#[test]
fn aliases() {
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), |repo| {
        two_branches(repo);
        for (name, value) in [
            ("co", "checkout"),
            ("back", "checkout -q -"),
            ("quoted", "checkout 'topic'"),
            ("outside", "!git switch main"),
            ("lg", "log --oneline"),
            ("loop", "loop"),
            ("reset", "log"),
            ("opts", "-c a.b=c checkout main"),
        ] {
            repo.git(&["config", &format!("alias.{name}"), value]);
        }
        repo.git(&["config", "alias.new.command", "checkout main"]);
    });
    for args in [&["co", "topic"][..], &["CO", "main"], &["back"], &["reset", "-q"], &["co", "nothing"]] {
        oracle.same(args);
        shim.was_native(args);
    }
    for (args, why) in [
        (&["quoted"][..], "alias 'quoted' is more than"),
        (&["outside"], "alias 'outside' is more than"),
        (&["lg"], "alias 'lg' of 'log"),
        (&["loop"], "alias 'loop' of 'loop'"),
        (&["opts"], "alias 'opts' of"),
        (&["new"], "command 'new'"),
        (&["co", "-h"], "a wrong or a help option"),
        (&["-c", "help.autocorrect=immediate", "checkuot", "main"], "command 'checkuot'"),
        (&["-c", "help.autocorrect=never", "checkuot", "main"], "command 'checkuot'"),
    ] {
        oracle.same(args);
        shim.was_handed_over(args, why);
    }
    // A program with the alias's name takes precedence.
    let program = shim.path("bin/git-co");
    testkit::write_program(&program, "#!/bin/sh\necho program\n");
    let run = shim.run(&oracle.ours(), &["co", "topic"]);
    assert_eq!(run.stdout, "program\n");
}

/// The table of builtins, whose names no alias can override, equals Git's.
#[test]
fn no_alias_hides_a_command() {
    let shim = Shim::new();
    let sandbox = Sandbox::new();
    let repo = one(&sandbox);
    let builtins = repo.git(&["--list-cmds=builtins"]).stdout;
    for name in builtins.lines().map(|line| line.to_str_lossy()) {
        let alias = format!("alias.{name}=switch -q");
        let mut command = shim.command(&repo);
        let run = finished(command.args(["-c", &alias, &name]).env("SAPWOOD_SHIM", "native-only"));
        let log = shim.log();
        let line = log.last().expect("a line");
        assert!(line.contains(&format!("\"command\":\"{name}\"")), "{name}: {line} {}", run.stderr);
    }
}
