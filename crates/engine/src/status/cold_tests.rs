//! `examine` returns equal results with cold and warm caches, and reads no ignore file needlessly.
#![allow(clippy::disallowed_methods, clippy::print_stdout)]

use std::{
    fs::{File, FileTimes},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::{Duration, UNIX_EPOCH},
};

use bstr::BString;
use repo::Repository;
use testkit::{Repo, Sandbox};

use super::{Options, Touched, Untracked, examine_on};
use crate::{
    crew::Workers,
    diff::{Missing, Status, SubmoduleIgnore},
    look::{
        pathspec::Pathspecs,
        scan::sweep::ColdDisk,
        untracked::{self, Directories, Excludes, Ignored, Nested},
    },
};

/// Returns the changes and untracked paths found on a disk with this access pattern.
fn examined(
    repo: &Repo<'_>,
    cold: Option<ColdDisk>,
    directories: Directories,
    begin: &(dyn Fn() + Sync),
) -> (Vec<(BString, Status)>, Vec<BString>) {
    let options = repo::OpenOptions { cwd: repo.path.clone(), ..repo::OpenOptions::default() };
    let opened = Repository::open(&options).expect("a repository");
    let read = store::index::ReadOptions::default();
    let index = store::index::load(&opened.index_path(), opened.hash(), &read).expect("it was written");
    let root = sys::Dir::open(&repo.path).expect("it is there");
    let excludes = Excludes::standard(&opened, &[]).expect("no settings");
    let (everything, interrupt) = (Pathspecs::default(), AtomicBool::new(false));
    let workers = Workers::Auto;
    let how = untracked::Options { directories, ignored: Ignored::Left, nested: Nested::AsOne, workers };
    let options = Options {
        meter: None,
        pathspecs: &everything,
        untracked: Some(Untracked { options: how, excludes: &excludes }),
        touched: Touched::Compared,
        unmerged: None,
        submodules: SubmoduleIgnore::Configured,
        missing: Missing::Deleted,
        ignore_untracked_in_submodules: false,
        when_cold: begin,
        interrupt: &interrupt,
    };
    let seen = examine_on(&|_, _| cold, &opened, &root, &index, &options).expect("it can be read");
    let changes = seen.changes.into_iter().map(|pair| (pair.path, pair.status)).collect();
    (changes, seen.found.untracked)
}

#[test]
fn finds_the_same_on_any_disk() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("tree");
    for number in 0..600 {
        repo.write(format!("{}/{}/{number}", number % 7, number % 5), "x");
    }
    repo.write(".gitignore", "/3/\n/4/1/\n*.o\n");
    repo.write("5/.gitignore", "/2/\n!/2/kept\n");
    repo.git(&["add", "-fA"]);
    for path in
        ["new", "1/1/new", "2/made/new", "3/new", "4/1/new", "4/2/x.o", "5/2/new", "5/2/made/new", "6/0/x.o"]
    {
        repo.write(path, "x");
    }
    repo.write("1/1/1", "longer");
    repo.remove("0/0/0");
    let begun = AtomicUsize::new(0);
    let begin = || {
        begun.fetch_add(1, Ordering::Relaxed);
    };
    let found = |cold, directories| examined(&repo, cold, directories, &begin);
    for directories in [Directories::Files, Directories::WholeUnlessEmpty] {
        let warm = found(None, directories);
        assert_eq!((warm.0.len(), warm.1.len()), (2, 3), "{warm:?}");
        assert_eq!(found(Some(ColdDisk::OneByOne), directories), warm);
        assert_eq!(found(Some(ColdDisk::ManyAtOnce), directories), warm);
    }
    assert_eq!(begun.into_inner(), 4);
}

/// Reads are detected by access times: after a write, the first read updates the access time.
#[test]
fn reads_no_rules_for_a_clean_tree_with_cold_caches() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("tree");
    for number in 0..60 {
        repo.write(format!("{}/{}/{number}", number % 3, number % 5), "x");
    }
    let rules = [".gitignore", "1/.gitignore", "2/.gitignore"];
    let long_ago = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let forget = || {
        for file in rules {
            let times = FileTimes::new().set_accessed(long_ago).set_modified(long_ago);
            File::open(repo.join(file)).and_then(|file| file.set_times(times)).expect("it is ours");
        }
    };
    rules.iter().for_each(|file| repo.write(file, "*.o\n"));
    forget();
    // With `core.trustctime`, the changed ctime would cause a comparison, which reads the files.
    repo.git(&["config", "core.trustctime", "false"]);
    repo.git(&["add", "-fA"]);
    let read = |cold| {
        forget();
        assert_eq!(examined(&repo, cold, Directories::WholeUnlessEmpty, &|| {}), (vec![], vec![]));
        let accessed = |file: &&str| repo.join(file).metadata().and_then(|stat| stat.accessed());
        rules.iter().filter(|file| accessed(file).expect("it is told") != long_ago).count()
    };
    if read(None) != rules.len() {
        println!("skipped: the file system keeps no account of reads");
        return;
    }
    assert_eq!([ColdDisk::OneByOne, ColdDisk::ManyAtOnce].map(|cold| read(Some(cold))), [0, 0]);
    // A new untracked name causes reads of only those rules that may apply to it.
    repo.write("2/new.o", "x");
    assert_eq!([ColdDisk::OneByOne, ColdDisk::ManyAtOnce].map(|cold| read(Some(cold))), [2, 2]);
}
