//! The timers of the package.

use std::{fs, path::Path, process::Command};

use super::create::Place;
use crate::SAPWOOD;

/// The package's check demands it of the packaged unit too (`.ci/package`).
#[test]
fn the_units_of_the_mount_service_are_valid_and_confined() {
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd/system");
    if !testkit::has_program("systemd-analyze") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory for tests");
    let files = ["sapwood-mountd.service", "sapwood-mountd.socket"].map(|name| {
        let text = fs::read_to_string(units.join(name)).expect("a unit");
        fs::write(dir.path().join(name), text.replace("/usr/lib/sapwood/sapwood-mountd", "/bin/true"))
            .expect("written");
        dir.path().join(name)
    });
    let verify = Command::new("systemd-analyze").args(["verify", "--man=no"]).args(&files).output();
    let verify = verify.expect("it was there");
    let said = String::from_utf8_lossy(&verify.stderr);
    assert!(verify.status.success() && !said.contains("sapwood-mountd"), "{said}");
    let security = ["security", "--offline=yes", "--threshold=30", "--no-pager"];
    let security = Command::new("systemd-analyze").args(security).arg(&files[0]).output();
    let security = security.expect("it was there");
    assert!(security.status.success(), "{}", String::from_utf8_lossy(&security.stdout));
}

#[test]
fn the_timer_runs_gc_with_its_options() {
    let place = Place::new();
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
    for kind in ["system", "user"] {
        let dir = place.sandbox.path().join(kind);
        fs::create_dir(&dir).expect("a new directory");
        let mut files = Vec::new();
        for name in ["sapwood-gc@.service", "sapwood-gc@.timer"] {
            let text = fs::read_to_string(units.join(kind).join(name)).expect("a unit");
            let file = dir.join(name.replace('@', "@repo"));
            fs::write(&file, text.replace("/usr/bin/sapwood", SAPWOOD)).expect("written");
            files.push(file);
        }
        if testkit::has_program("systemd-analyze") {
            let verify = Command::new("systemd-analyze").args(["verify", "--man=no"]).args(&files).output();
            let verify = verify.expect("it was there");
            let said = String::from_utf8_lossy(&verify.stderr);
            assert!(verify.status.success() && !said.contains("sapwood-gc"), "{said}");
        }
        let service = fs::read_to_string(&files[0]).expect("written");
        let value = |name: &str| {
            let line = service.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
            line.trim_matches('"').to_owned()
        };
        let options = value("Environment=\"OPTIONS=");
        let command = value("ExecStart=").replace("$OPTIONS", &options);
        let command = command.replace("%f", place.repo().path.to_str().expect("a plain path"));
        let mut words = command.split_whitespace();
        let mut run = place.repo().command(words.next().expect("a program").as_ref());
        let output = run.args(words).output().expect("it runs");
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
