//! Replacements for probes that detect how Git is built.
//!
//! A probe is a function of one of the libraries that Git's scripts source. Scripts that source
//! such a library run in a tree of links to Git's source. There, the library is replaced by a file
//! that sources the real library and then our replacement. No file of Git is copied or changed, and
//! the real Git never runs with a replacement.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use crate::{Error, suite::Suite};

/// One replacement.
pub(crate) struct Probe {
    /// The function.
    pub(crate) name: &'static str,
    /// The library in `t/` that defines it.
    pub(crate) library: &'static str,
    /// The text that is sourced after the library.
    replacement: &'static str,
    /// The reason for the replacement.
    pub(crate) reason: &'static str,
}

/// All replacements.
pub(crate) const PROBES: &[Probe] = &[Probe {
    name: "test_checkout_workers",
    library: "lib-parallel-checkout.sh",
    replacement: include_str!("probes/checkout_workers.sh"),
    reason: "counts the `checkout--worker` processes that Git starts. sapwood's workers are threads, so the \
             replacement counts `thread_start` events of checkout workers in that trace, and processes if \
             the call is handed over. The library also unsets the variable that forces Git's number of \
             workers; the replacement unsets sapwood's variable.",
}];

/// A tree of links to Git's source that contains the replacements.
pub(crate) struct Replaced {
    t: PathBuf,
}

impl Replaced {
    /// Creates the tree at `place`, which must not exist.
    pub(crate) fn make(suite: &Suite, place: &Path) -> Result<Replaced, Error> {
        let t = place.join("t");
        fs::create_dir_all(&t).map_err(|error| Error::io("create", &t, error))?;
        link_all(&suite.source, place, &["t"])?;
        let libraries: Vec<&str> = PROBES.iter().map(|probe| probe.library).collect();
        link_all(&suite.source.join("t"), &t, &libraries)?;
        for library in libraries {
            let real = suite.source.join("t").join(library);
            let replacements: String = PROBES
                .iter()
                .filter(|probe| probe.library == library)
                .map(|probe| probe.replacement)
                .collect();
            let text = format!(". '{}'\n{replacements}", real.display());
            let file = t.join(library);
            fs::write(&file, text).map_err(|error| Error::io("write", &file, error))?;
        }
        Ok(Replaced { t })
    }

    /// Returns the path from which to run the script: in this tree if it sources a library with a
    /// replaced probe, otherwise in Git's source.
    pub(crate) fn file(&self, suite: &Suite, script: &str) -> Result<PathBuf, Error> {
        let file = suite.file(script);
        let text = fs::read(&file).map_err(|error| Error::io("read", &file, error))?;
        let text = String::from_utf8_lossy(&text);
        Ok(if PROBES.iter().any(|probe| text.contains(probe.library)) {
            self.t.join(format!("{script}.sh"))
        } else {
            file
        })
    }
}

fn link_all(from: &Path, to: &Path, but: &[&str]) -> Result<(), Error> {
    for entry in fs::read_dir(from).map_err(|error| Error::io("list", from, error))? {
        let entry = entry.map_err(|error| Error::io("list", from, error))?;
        if but.iter().any(|but| entry.file_name() == *but) {
            continue;
        }
        let link = to.join(entry.file_name());
        symlink(entry.path(), &link).map_err(|error| Error::io("create", &link, error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Creates a suite with one script that sources a replaced library, and one that does not.
    fn replaced() -> (tempfile::TempDir, Suite, Replaced) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let source = dir.path().join("source");
        fs::create_dir_all(source.join("t/helper")).expect("an empty directory");
        for (file, text) in [
            ("GIT-BUILD-OPTIONS", ""),
            ("t/test-lib.sh", ""),
            ("t/helper/test-tool", ""),
            ("t/lib-parallel-checkout.sh", "echo read\ntest_checkout_workers () { echo theirs; }\n"),
            ("t/t2080-x.sh", ". ./lib-parallel-checkout.sh\ntest_checkout_workers \"$@\"\n"),
            ("t/t2081-y.sh", "echo plain\n"),
        ] {
            fs::write(source.join(file), text).expect("an empty directory");
        }
        let suite = Suite::open(&source).expect("a suite");
        let replaced = Replaced::make(&suite, &dir.path().join("tree")).expect("it can be made");
        (dir, suite, replaced)
    }

    #[test]
    fn only_scripts_that_read_the_library_meet_the_replacement() {
        let (dir, suite, replaced) = replaced();
        let file = replaced.file(&suite, "t2080-x").expect("readable");
        assert_eq!(file, dir.path().join("tree/t/t2080-x.sh"));
        assert_eq!(replaced.file(&suite, "t2081-y").expect("readable"), suite.file("t2081-y"));
        assert!(dir.path().join("tree/t/helper/test-tool").exists());
        assert!(dir.path().join("tree/GIT-BUILD-OPTIONS").exists());
    }

    #[test]
    fn workers_are_counted_in_the_trace() {
        let (dir, suite, replaced) = replaced();
        let file = replaced.file(&suite, "t2080-x").expect("readable");
        let command = dir.path().join("command");
        let thread = r#"{"event":"thread_start","sid":"x","thread":"th01:checkout_worker","t_rel":0.1}"#;
        let other = r#"{"event":"thread_start","sid":"x","thread":"th01:preload_thread","t_rel":0.1}"#;
        let child = r#"{"event":"child_start","sid":"x","argv":["git","checkout--worker"]}"#;
        let answers = |expected: &str, events: &[&str]| {
            let text = format!("printf '%s\\n' '{}' >>\"$GIT_TRACE2_EVENT\"\n", events.join("' '"));
            fs::write(&command, text).expect("writable");
            Command::new("/bin/sh")
                .arg("-c")
                .arg(". ./lib-parallel-checkout.sh; test_checkout_workers \"$@\"")
                .args(["sh", expected, "/bin/sh"])
                .arg(&command)
                .current_dir(file.parent().expect("in a directory"))
                .status()
                .expect("there is a shell")
                .success()
        };
        assert!(answers("2", &[thread, thread, other]));
        assert!(!answers("1", &[thread, thread]));
        assert!(answers("0", &[other]));
        assert!(answers("2", &[child, child]), "handed over");
        assert!(!answers("2", &[child]));
    }
}
