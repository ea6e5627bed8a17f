//! Git's test suite: its built source, and the selection of scripts.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::Error;

/// The part of the suite that covers sapwood: checkout, index, status, patterns, worktrees,
/// submodules, recording (add, commit, stash, refs), packs, clone, fetch.
pub(crate) const CORE: &[&str] = &[
    "t00[02]*",
    "t100*",
    "t101*",
    "t1050*",
    "t109*",
    "t13[01]*",
    "t14*",
    "t15*",
    "t17*",
    "t20*",
    "t21*",
    "t22*",
    "t24*",
    "t30*",
    "t36*",
    "t37*",
    "t39*",
    "t530[023489]*",
    "t5313*",
    "t531[89]*",
    "t532[458]*",
    "t5334*",
    "t5351*",
    "t5500*",
    "t551[0124]*",
    "t5537*",
    "t5570*",
    "t5574*",
    "t560[12]*",
    "t5604*",
    "t5606*",
    "t570[02]*",
    "t613*",
    "t630[01]*",
    "t700[125]*",
    "t701[012]*",
    "t706*",
    "t71*",
    "t72*",
    "t7300*",
    "t74*",
    "t75*",
];

/// Git's source, built with its test helpers.
pub(crate) struct Suite {
    /// The absolute path.
    pub(crate) source: PathBuf,
    /// The names of all scripts without `.sh`, sorted.
    pub(crate) scripts: Vec<String>,
}

impl Suite {
    /// Opens the source, which must be built.
    pub(crate) fn open(source: &Path) -> Result<Suite, Error> {
        let not_built = || Error::NotBuilt { tree: source.to_owned() };
        let source = source.canonicalize().map_err(|_| not_built())?;
        for needed in ["GIT-BUILD-OPTIONS", "t/test-lib.sh", "t/helper/test-tool"] {
            if !source.join(needed).exists() {
                return Err(not_built());
            }
        }
        let t = source.join("t");
        let listed = fs::read_dir(&t).map_err(|error| Error::io("list", &t, error))?;
        let mut scripts: Vec<String> = listed
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter_map(|name| Some(name.strip_suffix(".sh")?.to_owned()))
            .filter(|name| name.starts_with('t') && name.as_bytes().get(1).is_some_and(u8::is_ascii_digit))
            .collect();
        scripts.sort();
        Ok(Suite { source, scripts })
    }

    /// Returns the path of a script.
    pub(crate) fn file(&self, script: &str) -> PathBuf {
        self.source.join(format!("t/{script}.sh"))
    }

    /// Returns the scripts that match any of `patterns`. A pattern without a match is an error,
    /// because it is probably mistyped.
    pub(crate) fn select<'p>(
        &self,
        patterns: impl IntoIterator<Item = &'p str>,
    ) -> Result<Vec<String>, Error> {
        let mut chosen = Vec::new();
        for pattern in patterns {
            let before = chosen.len();
            chosen.extend(self.scripts.iter().filter(|script| matches(pattern, script)).cloned());
            if chosen.len() == before {
                return Err(Error::NoScript { pattern: pattern.to_owned() });
            }
        }
        chosen.sort();
        chosen.dedup();
        Ok(chosen)
    }
}

/// Returns true if `name` matches `pattern`, or begins with it: `t20*`, `t00[02]*`, `t2006`,
/// `t2006-checkout-index-basic.sh`.
fn matches(pattern: &str, name: &str) -> bool {
    let pattern = pattern.strip_suffix(".sh").or_else(|| pattern.strip_suffix('*')).unwrap_or(pattern);
    let mut name = name.chars();
    let mut rest = pattern.chars();
    while let Some(wanted) = rest.next() {
        let Some(found) = name.next() else { return false };
        let fits = match wanted {
            '[' => {
                let class: Vec<char> = rest.by_ref().take_while(|&one| one != ']').collect();
                class.contains(&found)
            }
            '?' => true,
            wanted => wanted == found,
        };
        if !fits {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suite() -> (tempfile::TempDir, Result<Suite, Error>) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir_all(dir.path().join("t/helper")).expect("an empty directory");
        for file in [
            "GIT-BUILD-OPTIONS",
            "t/test-lib.sh",
            "t/helper/test-tool",
            "t/t0001-init.sh",
            "t/t0012-help.sh",
            "t/t0021-conversion.sh",
            "t/t5601-clone.sh",
            "t/t5601",
            "t/lib-diff.sh",
            "t/test-lib-functions.sh",
        ] {
            fs::write(dir.path().join(file), "").expect("an empty directory");
        }
        let suite = Suite::open(dir.path());
        (dir, suite)
    }

    #[test]
    fn finds_the_scripts_and_no_library() {
        let (_dir, suite) = suite();
        let suite = suite.expect("is there");
        assert_eq!(suite.scripts, ["t0001-init", "t0012-help", "t0021-conversion", "t5601-clone"]);
    }

    #[test]
    fn selects_by_prefix_class_and_name() {
        let (_dir, suite) = suite();
        let suite = suite.expect("is there");
        let select = |patterns: &[&str]| suite.select(patterns.iter().copied()).expect("something matches");
        assert_eq!(select(&["t00[02]*"]), ["t0001-init", "t0021-conversion"]);
        assert_eq!(select(&["t5601", "t0001-init.sh", "t0001"]), ["t0001-init", "t5601-clone"]);
        assert_eq!(select(&["t?0"]).len(), 3);
        assert!(
            matches!(suite.select(["t0001", "t9999"]), Err(Error::NoScript { pattern }) if pattern == "t9999")
        );
    }

    #[test]
    fn a_source_that_was_not_built_is_refused() {
        let (dir, _) = suite();
        fs::remove_file(dir.path().join("t/helper/test-tool")).expect("was there");
        assert!(matches!(Suite::open(dir.path()), Err(Error::NotBuilt { .. })));
    }
}
