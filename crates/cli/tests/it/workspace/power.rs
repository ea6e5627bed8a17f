//! Power cuts at each change of the disk while a base is added.

mod life;

use std::path::{Path, PathBuf};

use bstr::ByteSlice as _;
use testkit::{
    Repo, Run, Sandbox,
    weather::{Fault, Journal, Mount, Nth, Operation, Profile, Survivors, usable},
};

use crate::SAPWOOD;

/// The operations that change a disk.
const CHANGES: [Operation; 9] = [
    Operation::Mkdir,
    Operation::Create,
    Operation::Symlink,
    Operation::Write,
    Operation::Link,
    Operation::Rename,
    Operation::Unlink,
    Operation::Fsync,
    Operation::Fsyncdir,
];

fn repository(sandbox: &Sandbox) -> Repo<'_> {
    let repo = sandbox.init("repo");
    repo.write("file", "content\n");
    repo.write("dir/file", "more\n");
    repo.symlink("file", "link");
    repo.commit("one");
    repo
}

/// A base directory on a disk whose power can be cut.
struct Bases {
    backing: PathBuf,
    at: PathBuf,
}

impl Bases {
    fn new(root: &Path, name: &str) -> Bases {
        let made = |end: &str| {
            let dir = root.join(format!("{name}-{end}"));
            std::fs::create_dir(&dir).expect("a new directory");
            dir
        };
        Bases { backing: made("backing"), at: made("disk") }
    }

    fn mount(&self) -> Mount {
        // The model of the disk supports fsync, not syncfs. A journal makes them equal: each sync
        // includes all earlier changes.
        Mount::over(&Profile::power(Journal::Ordered), &self.backing, &self.at).expect("mounted")
    }

    fn run(&self, repo: &Repo<'_>, args: &[&str]) -> Run {
        let at = self.at.to_str().expect("a plain name");
        repo.run(SAPWOOD.as_ref(), &[&["workspace", "base"], args, &["--base-dir", at]].concat())
    }
}

#[test]
fn a_base_is_complete_or_not_there_after_a_power_cut() {
    if usable().is_err() {
        println!("skipped: no FUSE");
        return;
    }
    let sandbox = Sandbox::new();
    let repo = repository(&sandbox);
    let mut cuts = 0;
    for backend in ["image", "overlay"] {
        for operation in CHANGES {
            for nth in 1.. {
                let name = format!("{backend}-{}-{nth}", operation.name());
                let bases = Bases::new(&sandbox.path(), &name);
                let disk = bases.mount();
                disk.set_faults(vec![Fault::cut(operation).nth(Nth::From(nth))]);
                let added = bases.run(&repo, &["add", "--backend", backend]);
                let was_cut = disk.is_cut();
                assert_eq!(added.code == 0, !was_cut, "{name}: {added:?}");
                if !was_cut {
                    break;
                }
                cuts += 1;
                let survivors = Survivors::Some { seed: nth };
                let _disk = disk.pull_plug(survivors).expect("the disk is made anew");
                let verified = bases.run(&repo, &["verify"]);
                assert_eq!(verified.code, 0, "{name}: {verified:?}");
                let again = bases.run(&repo, &["add", "--backend", backend]);
                assert_eq!(again.code, 0, "{name}: {again:?}");
                let verified = bases.run(&repo, &["verify"]);
                assert_eq!(verified.code, 0, "{name}: {verified:?}");
                let listed = bases.run(&repo, &["list"]).stdout;
                assert_eq!(listed.lines().count(), 1, "{name}: {listed}");
            }
        }
    }
    assert!(cuts > 20, "{cuts} cuts");
}
