//! packaging/: `install.sh` checks before it installs, and the version is the same everywhere.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use bstr::ByteSlice as _;
use testkit::{Sandbox, need_program};

use crate::SAPWOOD;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A release in a directory: the archive for this machine with the program under test, its digest,
/// the signature and the script, as `.ci/release` makes them.
struct Release {
    sandbox: Sandbox,
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

impl Release {
    fn new() -> Release {
        need_program("ssh-keygen");
        let release = Release { sandbox: Sandbox::new() };
        let script = format!(
            "mkdir release && ssh-keygen -q -t ed25519 -N '' -C test -f key
             name=sapwood-{VERSION}-$(uname -m)-linux
             mkdir -p $name/bin $name/share/man/man1
             cp {SAPWOOD} $name/bin/sapwood
             echo page >$name/share/man/man1/sapwood.1.gz
             tar -czf release/$name.tar.gz $name
             sed \"s|^key=.*|key='$(cut -d' ' -f1,2 key.pub)'|; s|^version=.*|version={VERSION}|\" \\
                 {}/packaging/install.sh >release/install.sh
             cd release && sha256sum *.tar.gz >SHA256SUMS
             ssh-keygen -q -Y sign -n sapwood-release -f ../key SHA256SUMS",
            root().display()
        );
        release.sh(&script);
        release
    }

    fn dir(&self) -> PathBuf {
        self.sandbox.path()
    }

    /// Runs a script in the sandbox; it must succeed.
    fn sh(&self, script: &str) {
        let output = Command::new("sh").args(["-ec", script]).current_dir(self.dir()).output().expect("sh");
        assert!(output.status.success(), "{script}: {}", output.stderr.as_bstr());
    }

    fn install(&self, args: &[&str]) -> Output {
        let mut command = Command::new("sh");
        command.arg("release/install.sh").args(["--from", "release", "--prefix", "prefix"]).args(args);
        command.current_dir(self.dir()).output().expect("sh")
    }

    /// The script must refuse, with these words, and leave nothing.
    #[track_caller]
    fn refuses(&self, args: &[&str], words: &str) {
        let output = self.install(args);
        assert!(!output.status.success() && output.stderr.contains_str(words), "{}", output.stderr.as_bstr());
        assert!(!self.dir().join("prefix").exists());
    }
}

#[test]
fn the_installer_installs_a_signed_release() {
    let release = Release::new();
    // A second run replaces the files of the first.
    for _ in 0..2 {
        let output = release.install(&[]);
        let said = output.stdout.to_str_lossy();
        assert!(output.status.success(), "{said}{}", output.stderr.as_bstr());
        assert!(said.contains(&format!("sapwood version {VERSION} (")), "{said}");
    }
    release.sh("prefix/bin/sapwood --version && test -s prefix/share/man/man1/sapwood.1.gz");
    release.sh("test \"$(find prefix -type f | wc -l)\" = 2");
}

#[test]
fn the_installer_refuses_what_was_changed() {
    let release = Release::new();
    release.sh("cp -r release good");
    let again = || release.sh("rm -r release && cp -r good release");

    release.sh("echo >>$(echo release/*.tar.gz)");
    release.refuses(&[], ".tar.gz is wrong");
    release.refuses(&["--digest-only"], ".tar.gz is wrong");
    // Digests that fit the changed archive have no signature.
    release.sh("cd release && sha256sum *.tar.gz >SHA256SUMS");
    release.refuses(&[], "the signature of SHA256SUMS is wrong");
    // Another key signs them.
    release.sh("ssh-keygen -q -t ed25519 -N '' -f other && cd release && rm SHA256SUMS.sig && \
                ssh-keygen -q -Y sign -n sapwood-release -f ../other SHA256SUMS");
    release.refuses(&[], "the signature of SHA256SUMS is wrong");
    again();
    // A signature of the right key, for another purpose.
    release.sh("cd release && rm SHA256SUMS.sig && ssh-keygen -q -Y sign -n git -f ../key SHA256SUMS");
    release.refuses(&[], "the signature of SHA256SUMS is wrong");
    again();
    release.sh("rm release/SHA256SUMS.sig");
    release.refuses(&[], "there is no release/SHA256SUMS.sig");
    again();
    release.sh("sed -i 's/^key=.*/key=/' release/install.sh");
    release.refuses(&[], "the signature of SHA256SUMS is wrong");
    let output = Command::new("sh").arg(root().join("packaging/install.sh")).output().expect("sh");
    assert!(output.stderr.contains_str("this is not the script of a release"), "{}", output.stderr.as_bstr());
}

/// A release changes Cargo.toml; nothing else may keep the old version.
#[test]
fn the_version_is_the_same_everywhere() {
    for name in [
        "packaging/homebrew/sapwood.rb",
        "packaging/nix/package.nix",
        "packaging/devcontainer/sapwood/devcontainer-feature.json",
    ] {
        assert!(read(name).contains(VERSION), "{name} has not the version {VERSION}");
    }
    let cargo = read("Cargo.toml");
    let between: Vec<&str> = cargo.lines().filter(|line| line.contains("path = \"crates/")).collect();
    let wanted = format!("version = \"={VERSION}\"");
    let without: Vec<&&str> = between.iter().filter(|line| !line.contains(&wanted)).collect();
    // Only the crate for tests is not published.
    assert!(without.len() == 1 && without[0].starts_with("testkit = "), "{without:?}");
    let printed = Command::new(root().join(".ci/version")).output().expect("the script");
    assert_eq!(printed.stdout.to_str_lossy().trim(), VERSION);
}

/// Each crate that is published says what a registry asks for, and has a page.
#[test]
fn published_crates_have_a_description_and_a_page() {
    for entry in fs::read_dir(root().join("crates")).expect("the crates").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let cargo = read(&format!("crates/{name}/Cargo.toml"));
        if cargo.contains("publish = false") {
            continue;
        }
        for field in
            ["description = \"", "license.workspace", "repository.workspace", "rust-version.workspace"]
        {
            assert!(cargo.contains(field), "{name}: {field}");
        }
        for file in ["README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            assert!(!read(&format!("crates/{name}/{file}")).is_empty(), "{name}/{file}");
        }
    }
}

/// `.ci/rpm` builds a package in a release only, and fails there if the list of its files lacks
/// one.
#[test]
fn the_rpm_has_all_programs() {
    let (stage, spec) = (read(".ci/stage"), read("packaging/rpm/sapwood.spec"));
    let line = stage.lines().find_map(|line| line.strip_prefix("for program in "));
    let programs = line.and_then(|line| line.strip_suffix("; do")).expect("the programs");
    for program in programs.split(' ') {
        assert!(spec.lines().any(|line| line.ends_with(&format!(" /usr/{program}"))), "{program}");
    }
}
