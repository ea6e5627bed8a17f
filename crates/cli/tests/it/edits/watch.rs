//! Scans the worktree on behalf of the test, so that a monitor hook can report exactly the changed
//! paths.

use std::{
    collections::BTreeMap,
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::Write as _,
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _},
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use bstr::BString;
use testkit::Repo;

use super::Cache;

/// The stat data and content hash of a path.
type PathState = (u32, u64, u64, (i64, i64), (i64, i64), u64);

/// The state of each path, relative to the worktree's root.
pub(super) type Snapshot = BTreeMap<Vec<u8>, PathState>;

/// The program that reports changes to Git.
enum MonitorKind {
    None,
    /// A hook of version 1: files in a directory, each named by the time of its write.
    ByTime,
    /// A hook of version 2: one file, whose length is the token.
    ByLength,
    /// The daemon receives events itself.
    Daemon,
}

pub(super) struct Watch<'a> {
    repo: &'a Repo<'a>,
    monitor: MonitorKind,
    pub(super) view: Snapshot,
}

/// Prints paths that changed at or after a time in nanoseconds. The clock of Git may be slightly
/// behind.
const BY_TIME: &str = "\
#!/bin/sh
test \"$1\" = 1 || exit 1
since=$(($2 - 20000000))
for file in .git/moments/*
do
    test \"${file##*/}\" -ge $since && cat \"$file\"
done
exit 0
";

const BY_LENGTH: &str = "\
#!/bin/sh
test \"$1\" = 2 || exit 1
length=$(wc -c <.git/changes)
printf '%s\\0' $length
case $2 in
??????????*|''|*[!0-9]*) printf '/\\0';;
*) tail -c +$(($2 + 1)) .git/changes;;
esac
";

impl<'a> Watch<'a> {
    /// Starts the monitor. Returns `None`, and prints a line, if Git's daemon does not start.
    pub(super) fn start(repo: &'a Repo<'a>, cache: Cache) -> Option<Watch<'a>> {
        let hook = |script: &str, version: &str| {
            repo.write_executable(".git/monitor", script);
            repo.git(&["config", "core.fsmonitor", ".git/monitor"]);
            repo.git(&["config", "core.fsmonitorHookVersion", version]);
        };
        let monitor = match cache {
            Cache::HookV1 => {
                fs::create_dir(repo.join(".git/moments")).expect("made");
                hook(BY_TIME, "1");
                MonitorKind::ByTime
            }
            Cache::HookV2 | Cache::HookV2Untracked => {
                repo.write(".git/changes", "");
                hook(BY_LENGTH, "2");
                MonitorKind::ByLength
            }
            _ if cache.daemon() => {
                let started = repo.try_git(&["fsmonitor--daemon", "start"]);
                if started.code != 0 {
                    println!("skipped: Git's daemon does not start: {}", started.stderr);
                    return None;
                }
                repo.git(&["config", "core.fsmonitor", "true"]);
                MonitorKind::Daemon
            }
            _ => MonitorKind::None,
        };
        Some(Watch { repo, monitor, view: look(&repo.path) })
    }

    /// Scans again, reports the changed paths to the monitor and returns them.
    pub(super) fn look(&mut self) -> Vec<BString> {
        let now = look(&self.repo.path);
        let mut changed: Vec<&[u8]> = Vec::new();
        let both = self.view.keys().chain(now.keys());
        changed.extend(both.filter(|path| self.view.get(*path) != now.get(*path)).map(Vec::as_slice));
        changed.sort_unstable();
        changed.dedup();
        let lines: Vec<u8> = changed.iter().flat_map(|path| [path, &b"\0"[..]].concat()).collect();
        match self.monitor {
            _ if lines.is_empty() => {}
            MonitorKind::ByTime => {
                let time = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos();
                self.repo.write(format!(".git/moments/{time}"), lines);
            }
            MonitorKind::ByLength => {
                let file = fs::OpenOptions::new().append(true).open(self.repo.join(".git/changes"));
                file.and_then(|mut file| file.write_all(&lines)).expect("written");
            }
            MonitorKind::None | MonitorKind::Daemon => {}
        }
        let changed = changed.into_iter().map(BString::from).collect();
        self.view = now;
        changed
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if matches!(self.monitor, MonitorKind::Daemon) {
            drop(self.repo.try_git(&["fsmonitor--daemon", "stop"]));
        }
    }
}

fn look(root: &Path) -> Snapshot {
    fn visit(root: &Path, dir: &Path, view: &mut Snapshot) {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = path.strip_prefix(root).expect("below").as_os_str().as_bytes();
            if name == b".git" {
                continue;
            }
            // Git's maintenance may remove files of a nested repository during the scan.
            let Ok(meta) = path.symlink_metadata() else { continue };
            let mut hasher = DefaultHasher::new();
            if meta.is_symlink() {
                fs::read_link(&path).ok().hash(&mut hasher);
            } else if meta.is_file() {
                fs::read(&path).ok().hash(&mut hasher);
            }
            let times = ((meta.mtime(), meta.mtime_nsec()), (meta.ctime(), meta.ctime_nsec()));
            let sight = (meta.mode(), meta.ino(), meta.size(), times.0, times.1, hasher.finish());
            if meta.is_dir() {
                // A directory's own times are left out; changes in it show in its entries.
                view.insert(name.to_vec(), (meta.mode(), meta.ino(), 0, (0, 0), (0, 0), 0));
                visit(root, &path, view);
            } else {
                view.insert(name.to_vec(), sight);
            }
        }
    }
    let mut view = Snapshot::new();
    visit(root, root, &mut view);
    view
}
