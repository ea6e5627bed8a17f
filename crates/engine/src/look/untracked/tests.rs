//! Random worktrees: the walk finds the paths that `git status` prints, in each of its modes and
//! with any number of threads.
#![allow(clippy::disallowed_methods)]

use format::{
    HashKind, Mode,
    index::{Flags, Index, NewEntry, Stage, Stat},
};
use testkit::{Repo, Sandbox};

use super::*;

/// A small random number generator. One seed determines a case, so a failure only has to print the
/// seed.
struct Random(u64);

impl Random {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) % sides as u64) as usize
    }

    fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        from[self.roll(from.len())]
    }
}

const NAMES: &[&str] = &["a", "b", "a.o", "B", "a-b", "out", "dir", "x y"];

/// Creates files, directories, ignore files and repositories, some of which are tracked.
fn scatter(repo: &Repo<'_>, random: &mut Random) {
    for _ in 0..40 {
        let depth = 1 + random.roll(4);
        let names: Vec<&str> = (0..depth).map(|_| random.pick(NAMES)).collect();
        let path = names.join("/");
        let (parent, place) = (repo.join(names[..depth - 1].join("/")), repo.join(&path));
        if std::fs::create_dir_all(&parent).is_err() || place.symlink_metadata().is_ok() {
            continue;
        }
        match random.roll(12) {
            0 => std::fs::create_dir(&place).expect("nothing is there"),
            1 => drop(repo.try_git(&["init", "-q", &path])),
            2 => repo.symlink("a", &path),
            3 | 4 => {
                let rules = ["*.o\n", "out/\n", "!a.o\n", "/dir\n", "b\n!dir/b\n", "*\n!*/\n", "a*/b\n"];
                let file = parent.join(".gitignore");
                if !file.exists() {
                    std::fs::write(file, random.pick(&rules)).expect("the directory was made");
                }
            }
            _ => repo.write(&path, "x"),
        }
        if random.roll(4) == 0 {
            repo.try_git(&["-c", "advice.addEmbeddedRepo=false", "add", "-f", "--", &path]);
        }
        if random.roll(12) == 0 && place.is_file() {
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

/// Returns the untracked and ignored paths that `git status` prints.
fn git_status(repo: &Repo<'_>, args: &[&str]) -> (Vec<BString>, Vec<BString>) {
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
fn finds_what_git_status_prints() {
    let sandbox = Sandbox::new();
    for seed in 0..40 {
        let repo = sandbox.init(&format!("r{seed}"));
        scatter(&repo, &mut Random(seed));
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
            let ways = [Workers::Fixed(1), Workers::Fixed(4), Workers::Auto]
                .into_iter()
                .flat_map(|workers| [(workers, false), (workers, true)]);
            for (workers, reads_late) in ways {
                let options = Options { directories, ignored, nested: Nested::AsOne, workers };
                let (interrupt, tuning) = (AtomicBool::new(false), Tuning::reading(&root));
                let context = WalkContext { tuning: &tuning, observer: None, reads_late, meter: None };
                let found =
                    walk_observed(&opened, &root, &index, &specs, &excludes, &options, &interrupt, context);
                let Found { mut untracked, mut ignored, .. } = found.expect("plain configuration");
                untracked.retain(|path| is_other(&index, path.as_bstr()));
                ignored.retain(|path| is_other(&index, path.as_bstr()));
                assert_eq!(
                    (untracked, ignored),
                    git_status(&repo, args),
                    "seed {seed}, {args:?}, {workers:?}, {reads_late}"
                );
            }
        }
    }
}

#[test]
fn others_are_found_in_any_order() {
    let mut index = Index::empty(HashKind::Sha1);
    let oid = format::ObjectId::null(HashKind::Sha1);
    for path in ["a.c", "a/b", "b", "c-d", "c/d", "c0"] {
        let (stat, mode, flags, stage) = (Stat::default(), Mode::FILE, Flags::empty(), Stage::Normal);
        index.push(path.into(), NewEntry { stat, oid, mode, flags, stage });
    }
    let asked = ["", "a/", "a.c", "a.d", "a/b", "b", "b/", "c", "c/", "c-d/", "c.", "c/d", "c/e", "c0", "d"];
    for first in asked {
        for second in asked {
            let mut others = Others::of(&index);
            for path in [first, second, second, first] {
                let is_other = index.range_of(path.trim_end_matches('/').into()).is_empty();
                assert_eq!(others.is_other(path.into()), is_other, "{path} of {first}, {second}");
            }
        }
    }
}
