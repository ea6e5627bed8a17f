//! Settings with invalid values are refused as in Git, in any file, and even if the command does
//! not use them.

use std::path::Path;

use testkit::{Repo, Sandbox};

use crate::SAPWOOD;

/// Settings that every command reads.
const EVERYWHERE: &[&str] = &[
    "core.fileMode",
    "core.trustctime",
    "core.symlinks",
    "core.ignoreCase",
    "core.quotePath",
    "core.sparseCheckout",
    "core.ignoreStat",
    "core.precomposeUnicode",
    "core.protectHFS",
    "core.protectNTFS",
    "core.lockfilePid",
    "core.sparseCheckoutCone",
    "core.useReplaceRefs",
    "core.bare",
    "sparse.expectFilesOutsideOfPatterns",
    "user.useConfigOnly",
    "feature.manyFiles",
    "feature.experimental",
    "core.multiPackIndex",
    "core.commitGraph",
    "index.skipHash",
    "core.autocrlf",
    "core.safecrlf",
    "branch.autoSetupMerge",
    "core.packedGitLimit",
    "core.packedGitWindowSize",
    "core.deltaBaseCacheLimit",
    "pack.packSizeLimit",
    "core.compression",
    "core.looseCompression",
    "pack.compression",
    "core.abbrev",
    "core.whitespace",
    "core.editor",
    "core.askPass",
    "core.checkRoundtripEncoding",
    "core.untrackedCache",
    "i18n.commitEncoding",
    "i18n.logOutputEncoding",
    "user.name",
    "user.email",
    "core.commentChar",
    "core.commentString",
    "core.checkStat",
    "core.disambiguate",
    "core.createObject",
    "push.default",
    "advice.statusHints",
    "advice.detachedHead",
    "advice.updateSparsePath",
    "advice.ofNoKind",
];

/// Settings that commands with differences read.
const DIFFERENCES: &[&str] = &[
    "diff.renameLimit",
    "diff.suppressBlankEmpty",
    "diff.indentHeuristic",
    "diff.wsErrorHighlight",
    "core.warnAmbiguousRefs",
];

/// Settings that `status` reads, but plumbing does not.
const FOR_PEOPLE: &[&str] = &[
    "diff.mnemonicPrefix",
    "diff.noPrefix",
    "diff.autoRefreshIndex",
    "diff.trustExitCode",
    "diff.statGraphWidth",
    "diff.statNameWidth",
    "diff.context",
    "diff.interHunkContext",
    "diff.wordRegex",
    "diff.algorithm",
];

const VALUES: &[&str] = &["=x", "=", "=3", "=-1", "=true", "=1g", "=99999999999999999999", "=never", ""];

/// Values that change the output without an error.
const QUIET: &[&str] = &["core.abbrev=1g", "core.untrackedCache=true", "core.untrackedCache=3"];

const COMMANDS: [&[&str]; 3] = [&["ls-files"], &["diff-index", "--cached", "HEAD"], &["status", "-s"]];

fn compare(repo: &Repo<'_>, args: &[&str]) {
    let theirs = repo.try_git(args);
    let ours = repo.run(Path::new(SAPWOOD), args);
    assert_eq!(ours, theirs, "{args:?}");
}

#[test]
fn refuses_invalid_values() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.write("file", "x\n");
    repo.commit("all");
    for key in [EVERYWHERE, DIFFERENCES, FOR_PEOPLE].concat() {
        for value in VALUES {
            let setting = format!("{key}{value}");
            if QUIET.contains(&setting.as_str()) {
                continue;
            }
            for command in COMMANDS {
                compare(&repo, &[&["-c", &setting], command].concat());
            }
        }
    }
}

#[test]
fn names_the_place_of_an_invalid_value() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.write("file", "x\n");
    repo.commit("all");
    let config = std::fs::read_to_string(repo.join(".git/config")).expect("there is one");
    for lines in [
        "[core]\n\tcheckStat = x\n",
        "[core]\n\n\tabbrev = 3 # too few\n\tquotePath = false\n",
        "[core]\n\tabbrev\n",
        "[core]\n\tabbrev = x\n",
        "[core]\n\tsafecrlf = x\n",
        "[push]\n\tdefault = a\\\nb\n",
        // The first of two values, and a value that another one overrides.
        "[core]\n\tcheckStat = x\n\tabbrev = 3\n\tcheckStat = default\n",
        "[core]\n\tcommitGraph = x\n\tcommitGraph = false\n",
        "[core]\n\tcheckStat = x",
    ] {
        std::fs::write(repo.join(".git/config"), format!("{config}{lines}")).expect("ours");
        for command in COMMANDS {
            compare(&repo, command);
        }
    }
    std::fs::write(repo.join(".git/config"), format!("{config}[core]\n\tcheckStat = x\n")).expect("ours");
    compare(&repo, &["-c", "core.abbrev=3", "ls-files"]);
}
