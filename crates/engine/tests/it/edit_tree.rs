//! Trees with changed paths, beside those that Git makes of an index with the same changes.

use std::collections::BTreeMap;

use bstr::{BString, ByteSlice as _};
use engine::{
    add::{Edits, edit_tree},
    tree_cache::TreeCache,
};
use format::ObjectId;
use repo::{OpenOptions, Repository};
use store::{
    Fsync,
    objects::{ObjectTransaction, Options},
};
use testkit::{Sandbox, wildcards::Dice};

const PATHS: [&str; 9] = ["a", "a/b", "a/b/c", "a.b", "d/e", "d/f", "d/g/h", "z", "d-e"];

#[test]
fn edits_lead_to_the_trees_of_git() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    let mut dice = Dice::new(3);
    for number in 0..4 {
        repo.write(format!("blob{number}"), format!("{number}\n"));
    }
    repo.commit("blobs");
    let blob = |number: usize| repo.git(&["rev-parse", &format!("HEAD:blob{number}")]).stdout.to_string();
    let blobs: Vec<String> = (0..4).map(|number| blob(number).trim_end().to_owned()).collect();
    let options = OpenOptions { cwd: repo.path.clone(), ..OpenOptions::default() };
    let (fsync, opened) = (Fsync::default(), Repository::open(&options).expect("a repository"));
    let parse = |hex: &str| ObjectId::from_hex(opened.hash(), hex.as_bytes()).expect("an object name");
    for round in 0..60 {
        // Each round starts with the tree of the one before.
        let root = repo.git(&["write-tree"]).stdout.to_string();
        let root = parse(root.trim_end());
        let mut edits = Edits::new();
        let mut given: BTreeMap<BString, Option<usize>> = BTreeMap::new();
        for _ in 0..=dice.below(4) {
            let new = (dice.below(3) > 0).then(|| dice.below(4));
            given.insert(PATHS[dice.below(PATHS.len())].into(), new);
        }
        // A set of changes in which one path is below another has no meaning.
        let clashes = |path: &BString| {
            given.iter().any(|(other, _)| path.starts_with(&[other.as_bytes(), b"/"].concat()))
        };
        let given: Vec<(BString, Option<usize>)> =
            given.iter().filter(|(path, _)| !clashes(path)).map(|(path, new)| (path.clone(), *new)).collect();
        for (path, new) in &given {
            edits.insert(path.clone(), new.map(|number| (format::Mode::FILE, parse(&blobs[number]))));
            let name = path.to_str().expect("text");
            match new {
                Some(number) => {
                    let entry = format!("100644,{},{name}", blobs[*number]);
                    repo.git(&["update-index", "--add", "--replace", "--cacheinfo", &entry]);
                }
                None => drop(repo.git(&["update-index", "--force-remove", name])),
            }
        }
        let objects = repo.join(".git/objects");
        let transaction = ObjectTransaction::new(Options::new(&objects, &fsync));
        let trees = TreeCache::new(&opened);
        let made = edit_tree(&trees, &transaction, Some(root), &edits).expect("a tree");
        transaction.publish().expect("published");
        let expected = repo.git(&["write-tree"]).stdout.to_string();
        assert_eq!(made.to_string(), expected.trim_end(), "round {round}: {given:?}");
    }
}
