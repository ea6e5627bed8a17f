//! Random worktrees: what is found is what `git status` tells, in each of its modes and with any number of threads.
#![allow(clippy::disallowed_methods)]

use testkit::{Repo, Sandbox};

use super::*;

/// A small generator: a case is made from one number, which is all a failure has to print.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) % sides as u64) as usize
    }

    fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        from[self.roll(from.len())]
    }
}

const NAMES: &[&str] = &["a", "b", "a.o", "B", "a-b", "out", "dir", "x y"];

/// Files, directories, ignore files and repositories, of which some is tracked.
fn scatter(repo: &Repo<'_>, dice: &mut Dice) {
    for _ in 0..40 {
        let depth = 1 + dice.roll(4);
        let names: Vec<&str> = (0..depth).map(|_| dice.pick(NAMES)).collect();
        let path = names.join("/");
        let (parent, place) = (repo.join(names[..depth - 1].join("/")), repo.join(&path));
        if std::fs::create_dir_all(&parent).is_err() || place.symlink_metadata().is_ok() {
            continue;
        }
        match dice.roll(12) {
            0 => std::fs::create_dir(&place).expect("nothing is there"),
            1 => drop(repo.try_git(&["init", "-q", &path])),
            2 => repo.symlink("a", &path),
            3 | 4 => {
                let rules = ["*.o\n", "out/\n", "!a.o\n", "/dir\n", "b\n!dir/b\n", "*\n!*/\n", "a*/b\n"];
                let file = parent.join(".gitignore");
                if !file.exists() {
                    std::fs::write(file, dice.pick(&rules)).expect("the directory was made");
                }
            }
            _ => repo.write(&path, "x"),
        }
        if dice.roll(4) == 0 {
            repo.try_git(&["-c", "advice.addEmbeddedRepo=false", "add", "-f", "--", &path]);
        }
        if dice.roll(12) == 0 && place.is_file() {
            repo.remove(&path);
            repo.write(format!("{path}/below"), "x");
        }
    }
}

fn open(repo: &Repo<'_>) -> (Repository, sys::Dir, Index) {
    let options = repo::OpenOptions { cwd: repo.path.clone(), ..repo::OpenOptions::default() };
    let opened = Repository::open(&options).expect("a repository");
    let read = store::index::ReadOptions::default();
    let index = store::index::load(&opened.index_path(), opened.hash(), &read).expect("an index");
    (opened, sys::Dir::open(&repo.path).expect("a worktree"), index)
}

/// What `git status` tells of what is untracked and ignored.
fn told(repo: &Repo<'_>, args: &[&str]) -> (Vec<BString>, Vec<BString>) {
    let run = repo.git(&[&["status", "--porcelain", "-z"], args].concat());
    let with = |mark: &[u8]| {
        let mut paths: Vec<BString> = run
            .stdout
            .split_str(b"\0")
            .filter_map(|line| line.strip_prefix(mark).map(BString::from))
            .collect();
        paths.sort();
        paths
    };
    (with(b"?? "), with(b"!! "))
}

#[test]
fn as_git_status_tells() {
    let sandbox = Sandbox::new();
    for seed in 0..40 {
        let repo = sandbox.init(&format!("r{seed}"));
        scatter(&repo, &mut Dice(seed));
        let (opened, root, index) = open(&repo);
        for (args, directories, ignored) in [
            (&["-unormal"][..], Directories::WholeUnlessEmpty, Ignored::Left),
            (&["-uall"], Directories::Files, Ignored::Left),
            (&["-unormal", "--ignored"], Directories::WholeUnlessEmpty, Ignored::Too),
            (&["-uall", "--ignored"], Directories::Files, Ignored::Too),
            (&["-unormal", "--ignored=matching"], Directories::WholeUnlessEmpty, Ignored::Matching),
            (&["-uall", "--ignored=matching"], Directories::Files, Ignored::Matching),
            (&["-unormal", "--ignored", "--", "a", "dir/*"], Directories::WholeUnlessEmpty, Ignored::Too),
            (&["-uall", "--", "dir/a", ":!*/b"], Directories::Files, Ignored::Left),
        ] {
            let specs: Vec<BString> =
                args.iter().skip_while(|arg| **arg != "--").skip(1).map(|&arg| arg.into()).collect();
            let specs = Pathspecs::parse(&specs, "".into(), "/".into(), Default::default()).expect("valid");
            let excludes = Excludes::standard(&opened, &[]).expect("plain configuration");
            for workers in [Workers::Fixed(1), Workers::Fixed(4), Workers::Auto] {
                let options = Options { directories, ignored, nested: Nested::AsOne, workers };
                let found =
                    walk(&opened, &root, &index, &specs, &excludes, &options, &AtomicBool::new(false));
                let Found { mut untracked, mut ignored, .. } = found.expect("plain configuration");
                untracked.retain(|path| is_other(&index, path.as_bstr()));
                ignored.retain(|path| is_other(&index, path.as_bstr()));
                assert_eq!((untracked, ignored), told(&repo, args), "seed {seed}, {args:?}, {workers:?}");
            }
        }
    }
}

/// Sets the time of every directory that was touched in step `step` to a time of that step, so that no two steps share a tick and no
/// directory is as young as the index.
fn settle_times(dir: &std::path::Path, step: u64) {
    use std::time::{Duration, UNIX_EPOCH};
    let recent = UNIX_EPOCH + Duration::from_secs(1_500_000_000);
    let modified = dir.symlink_metadata().and_then(|found| found.modified()).expect("a directory");
    for entry in std::fs::read_dir(dir).expect("readable").flatten() {
        if entry.file_type().expect("known").is_dir() && entry.file_name() != ".git" {
            settle_times(&entry.path(), step);
        }
    }
    if modified > recent {
        let time = UNIX_EPOCH + Duration::from_secs(1_000_000_000 + 2 * step);
        std::fs::File::open(dir).and_then(|dir| dir.set_modified(time)).expect("ours");
    }
}

/// One change of the worktree or of the index. Which path's entry changed, if one did.
fn edit(repo: &Repo<'_>, dice: &mut Dice) -> Option<String> {
    let depth = 1 + dice.roll(3);
    let path = (0..depth).map(|_| dice.pick(NAMES)).collect::<Vec<_>>().join("/");
    let place = repo.join(&path);
    let is_dir = place.is_dir();
    match dice.roll(10) {
        0 if is_dir => std::fs::remove_dir_all(&place).expect("ours"),
        0 | 1 => drop(std::fs::remove_file(&place)),
        2 => {
            let to = repo.join(dice.pick(NAMES));
            drop(std::fs::rename(&place, to));
        }
        3 => drop(std::fs::create_dir_all(&place)),
        4 => {
            let rules = ["*.o\n", "out/\n", "/dir\n", "b\n!dir/b\n", "a*/b\n", "", "*\n"];
            let parent = place.parent().expect("below the root");
            if std::fs::create_dir_all(parent).is_ok() {
                drop(std::fs::write(parent.join(".gitignore"), dice.pick(&rules)));
            }
        }
        5 | 6 => {
            let known = !repo.git(&["ls-files", "--", &path]).stdout.is_empty();
            let args: &[&str] =
                if known { &["rm", "-q", "-r", "--cached", "-f", "--"] } else { &["add", "-f", "--"] };
            // One file at a time: each is told of.
            if known == (depth > 0) && !is_dir && repo.try_git(&[args, &[&*path]].concat()).code == 0 {
                return Some(path);
            }
        }
        7 if dice.roll(4) == 0 => drop(repo.try_git(&["init", "-q", &path])),
        8 => drop(std::fs::write(repo.join(".git/info/exclude"), dice.pick(&["", "a.o\n", "x*\n"]))),
        _ => {
            if std::fs::create_dir_all(place.parent().expect("below the root")).is_ok() && !is_dir {
                drop(std::fs::write(&place, "x"));
            }
        }
    }
    None
}

#[test]
fn with_a_cache_it_is_the_same_after_each_edit() {
    let sandbox = Sandbox::new();
    let steps = if std::env::var_os("SAPWOOD_TEST_FULL").is_some() { 2000 } else { 60 };
    for (seed, directories, arg) in [
        (0, Directories::WholeUnlessEmpty, "-unormal"),
        (1, Directories::Files, "-uall"),
        (2, Directories::WholeUnlessEmpty, "-unormal"),
    ] {
        let repo = sandbox.init(&format!("c{seed}"));
        let mut dice = Dice(seed + 100);
        scatter(&repo, &mut dice);
        let (opened, root, mut index) = open(&repo);
        let flags = if directories == Directories::Files { 0 } else { UntrackedCache::NORMAL };
        let ident = cache::ident(&opened);
        index.untracked = Some(UntrackedCache::new(ident.as_bstr(), flags, index.hash));
        let specs = Pathspecs::parse(&[], "".into(), "/".into(), Default::default()).expect("none");
        let mut spared = 0;
        for step in 0..steps {
            if let Some(path) = (step > 0).then(|| edit(&repo, &mut dice)).flatten() {
                let untracked = index.untracked.take();
                (_, _, index) = open(&repo);
                index.untracked = untracked;
                index.invalidate(path.as_str().into());
            }
            settle_times(&repo.path, step);
            index.timestamp = (u32::try_from(1_000_000_000 + 2 * step + 1).expect("small"), 0);
            let excludes = Excludes::standard(&opened, &[]).expect("plain configuration");
            let options = Options {
                directories,
                ignored: Ignored::Left,
                nested: Nested::AsOne,
                workers: Workers::Fixed(2),
            };
            let examine = |index: &Index| {
                let untracked = Some(crate::status::Untracked { options, excludes: &excludes });
                let options = crate::status::Options {
                    pathspecs: &specs,
                    untracked,
                    touched: crate::status::Touched::Compared,
                    submodules: None,
                    ignore_untracked_in_submodules: false,
                    interrupt: &AtomicBool::new(false),
                };
                crate::status::examine(&opened, &root, index, &options).expect("readable").found
            };
            let found = examine(&index);
            let mut untracked = found.untracked.clone();
            untracked.retain(|path| is_other(&index, path.as_bstr()));
            let status = ["--no-optional-locks", "status", "--porcelain", "-z", arg];
            let run = repo.git(&status);
            let mut expected: Vec<BString> = run
                .stdout
                .split_str(b"\0")
                .filter_map(|line| line.strip_prefix(b"?? "))
                .map(BString::from)
                .collect();
            expected.sort();
            assert_eq!(untracked, expected, "seed {seed}, step {step}");
            index.untracked = found.cache.or(index.untracked);
            // What was recorded is taken, and is the same; what was not believed is read again.
            let again = examine(&index);
            assert_eq!(again.untracked, found.untracked, "seed {seed}, step {step}, again");
            spared += usize::from(again.directories_read == 0);
        }
        assert!(spared * 2 > steps as usize, "{spared} of {steps}");
    }
}
