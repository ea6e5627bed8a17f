//! The trees to measure on: a repository with three commits, and paths to edit.

use std::{collections::BTreeSet, fs, path::Path, path::PathBuf};

use crate::{Error, corpus, measure::must, record};

/// The number of files in a directory of the generated tree.
const FULLNESS: usize = 17;

/// A prepared repository. Most workspaces use `refs/lab/new`. `refs/lab/old` differs from it
/// widely, `refs/lab/change-100` in 100 files.
pub(super) struct Tree {
    pub(super) packed: PathBuf,
    pub(super) fact: record::Tree,
    /// The path of a list of regular files, one per line; any first part of the list is spread over
    /// the tree.
    pub(super) edits: PathBuf,
    /// The path of a list of new names for ignored files, spread over the tree.
    pub(super) products: PathBuf,
}

pub(super) const NEW: &str = "refs/lab/new";
pub(super) const OLD: &str = "refs/lab/old";
pub(super) const CHANGED: &str = "refs/lab/change-100";

impl Tree {
    /// Prepares a generated tree of `files` tiny files. A tenth of them differ in the old commit.
    pub(super) fn wide(files: usize) -> Result<Tree, Error> {
        let dir = corpus::absolute(&corpus::directory().join("made"))?;
        let origin = corpus::wide_pair(files, FULLNESS, &dir)?;
        Tree::prepare(&origin.name(), origin.packed()?)
    }

    /// Prepares linux v6.12 with v6.1 as the old commit, or any repository.
    pub(super) fn of(which: &corpus::RepositoryOptions) -> Result<Tree, Error> {
        let origin = which.origin()?;
        Tree::prepare(&origin.name(), origin.packed()?)
    }

    fn prepare(name: &str, packed: PathBuf) -> Result<Tree, Error> {
        let head = "refs/heads/lab";
        let fact = record::Tree::of(name, &packed, head)?;
        let listing = must(Path::new("git"), &["ls-tree", "-rz", head], &packed)?;
        let text = String::from_utf8_lossy(&listing);
        let files: Vec<&str> = text
            .split('\0')
            .filter(|line| line.starts_with("100644 "))
            .filter_map(|line| line.split_once('\t').map(|(_, path)| path))
            .filter(|path| !path.contains(['\n', '"']) && !path.contains(".git"))
            .collect();
        let write = |name: &str, lines: Vec<String>| {
            let path = packed.with_file_name(name);
            fs::write(&path, lines.join("\n") + "\n").map_err(|source| Error::Io {
                what: "cannot write",
                path: path.clone(),
                source,
            })?;
            Ok(path)
        };
        let edits = write("edits", spread(&files).map(str::to_owned).collect())?;
        let directories: BTreeSet<&str> =
            files.iter().filter_map(|path| Some(path.rsplit_once('/')?.0)).collect();
        let directories: Vec<&str> = directories.into_iter().collect();
        let names = directories.iter().cycle().take(super::PRODUCTS).enumerate();
        let products = names.map(|(number, directory)| format!("{directory}/product-{number}.o")).collect();
        let products = write("products", products)?;
        Ok(Tree { packed, fact, edits, products })
    }

    /// Returns true if two plain worktrees of this tree need more space than a volume has.
    pub(super) fn is_huge(&self) -> bool {
        self.fact.files > 500_000
    }
}

/// Orders the paths so that each prefix of the result is spread evenly over them.
fn spread<'a>(paths: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let count = paths.len();
    // A step near the golden ratio of the count. It must be coprime to the count, so that each path
    // occurs once.
    let step = (count as f64 * 0.618) as usize;
    let step = (step..=count).find(|&step| greatest_common_divisor(step, count) == 1).unwrap_or(1);
    (0..count).map(move |number| paths[number * step % count])
}

fn greatest_common_divisor(left: usize, right: usize) -> usize {
    if right == 0 { left } else { greatest_common_divisor(right, left % right) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_all_paths_and_begins_everywhere() {
        let names: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let all: Vec<&str> = spread(&names).collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 1000);
        let mut tenths: Vec<usize> =
            all[..10].iter().map(|name| name.parse::<usize>().expect("a number") / 100).collect();
        tenths.sort_unstable();
        tenths.dedup();
        assert!(tenths.len() >= 8, "{tenths:?}");
    }
}
