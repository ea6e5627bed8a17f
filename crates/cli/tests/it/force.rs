//! Files of which only the stat data differs from the index: forced commands write them again, as
//! Git does; other commands leave them.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    time::{Duration, SystemTime},
};

use testkit::{Oracle, Repo};

use crate::SAPWOOD;

const COMMANDS: &[&[&str]] = &[
    &["checkout", "-f"],
    &["checkout", "-f", "main"],
    &["checkout", "-f", "-B", "main"],
    &["checkout", "-f", "other"],
    &["switch", "-f", "main"],
    &["switch", "--discard-changes", "other"],
    &["reset", "--hard"],
    &["read-tree", "--reset", "-u", "HEAD"],
    &["restore", "."],
    &["checkout", "--", "."],
    &["checkout", "HEAD", "--", "."],
    &["checkout-index", "-f", "-a"],
    &["switch", "-q", "main"],
    &["checkout", "-q", "other"],
    &["reset", "--merge"],
    &["read-tree", "-m", "-u", "HEAD"],
];

const SETTINGS: &[(&str, &str)] = &[
    ("core.fileMode", "true"),
    ("core.fileMode", "false"),
    ("core.trustctime", "false"),
    ("core.checkStat", "minimal"),
];

fn made(repo: &Repo<'_>) {
    for name in ["m400", "m600", "touched", "ctime", "hard", "same"] {
        repo.write(name, format!("{name}\n"));
    }
    repo.write_executable("exe", "exe\n");
    repo.symlink("same", "link");
    repo.commit("one");
    repo.git(&["branch", "other"]);
}

/// Changes only stat data that Git does not record.
fn touched(repo: &Repo<'_>) {
    let chmod = |name: &str, mode| {
        fs::set_permissions(repo.join(name), fs::Permissions::from_mode(mode)).expect("it is ours");
    };
    chmod("m400", 0o400);
    chmod("m600", 0o600);
    chmod("exe", 0o700);
    let now = SystemTime::now() - Duration::from_secs(100);
    fs::File::open(repo.join("touched")).and_then(|file| file.set_modified(now)).expect("it is ours");
    chmod("ctime", 0o644);
    fs::hard_link(repo.join("hard"), repo.join("second")).expect("a second name");
    repo.remove("link");
    repo.symlink("same", "link");
}

#[test]
fn force_rewrites_files_with_changed_stat_data() {
    let mut cases = Vec::new();
    for setting in SETTINGS {
        for command in COMMANDS {
            let oracle = Oracle::new(SAPWOOD, made);
            oracle.both(|repo| drop(repo.git(&["config", setting.0, setting.1])));
            cases.push((setting, command, oracle));
        }
    }
    // Git compares whole seconds.
    std::thread::sleep(Duration::from_millis(1100));
    for (setting, command, oracle) in cases {
        oracle.both(touched);
        oracle.same_as(&format!("{setting:?}"), command);
        let links = |repo: &Repo<'_>| fs::metadata(repo.join("hard")).expect("there").nlink();
        assert_eq!(
            links(&oracle.git()),
            links(&oracle.ours()),
            "{setting:?} {command:?}: git left, ours right"
        );
    }
}
