//! The one difference between Git and sapwood that steps may show: untracked files in the place of
//! a new file of a sparse worktree. Git overwrites them, sapwood keeps them (docs/differences.md).

use std::{collections::BTreeSet, process::Command};

use bstr::{BString, ByteSlice as _};

use super::{
    sides::{Pair, Side},
    verifier::{Files, files},
};

/// The untracked files of both worktrees before a command.
pub(super) struct Untracked(Files);

/// Returns the paths in the index whose files belong in the worktree.
fn inside(side: &Side<'_>) -> BTreeSet<BString> {
    let listed = side.git(&["ls-files", "-t", "-z"]).stdout;
    let paths = listed.split(|byte| *byte == 0).filter_map(|line| line.strip_prefix(b"H "));
    paths.map(BString::from).collect()
}

/// Returns the path in `paths` that is equal to `path`, above it or below it; the outer of the two.
fn related(paths: &BTreeSet<BString>, path: &BString) -> Option<BString> {
    let ends = path.find_iter("/").chain([path.len()]);
    let above = ends.map(|end| BString::from(&path[..end])).find(|above| paths.contains(above));
    let below = BString::from(format!("{path}/"));
    let has_below = || paths.range(below.clone()..).next().is_some_and(|at| at.starts_with(&below));
    above.or_else(|| has_below().then(|| path.clone()))
}

impl Untracked {
    pub(super) fn of(pair: &Pair<'_>) -> Untracked {
        let tracked = inside(&pair.plain);
        let mut found = files(&pair.plain);
        found.retain(|path, (mode, _)| *mode & 0o170_000 != 0o040_000 && !tracked.contains(path));
        Untracked(found)
    }

    /// Brings the files back that Git has overwritten with new files, and sapwood has kept. Returns
    /// the number of such places.
    pub(super) fn bring_back(&self, pair: &Pair<'_>) -> usize {
        let (plain, tested) = (files(&pair.plain), files(&pair.tested));
        let lost =
            |path: &BString, before| plain.get(path) != Some(before) && tested.get(path) == Some(before);
        let lost: Vec<&BString> =
            self.0.iter().filter(|(path, before)| lost(path, *before)).map(|(path, _)| path).collect();
        if lost.is_empty() {
            return 0;
        }
        let tracked = inside(&pair.tested);
        let mut places: Vec<BString> = lost.into_iter().filter_map(|path| related(&tracked, path)).collect();
        places.sort();
        places.dedup();
        for place in &places {
            let [to, from] = [&pair.plain, &pair.tested].map(|side| side.join(&place.to_string()));
            let script = r#"rm -rf "$2" && cp -a "$1" "$2""#;
            let copied = Command::new("sh").args(["-ec", script, "sh"]).args([from, to]).status();
            assert!(copied.expect("a shell").success(), "'{place}' is brought back");
        }
        places.len()
    }
}
