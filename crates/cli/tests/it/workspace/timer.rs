//! The timers of the package.

use std::{fs, path::Path, process::Command};

use super::create::Place;
use crate::SAPWOOD;

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
