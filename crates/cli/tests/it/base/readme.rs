//! The script of the README's section "For a fleet", with a registry on this machine, and a
//! directory in the place of the Git server.

use std::{fs, path::Path};

use testkit::servers::{Registry, RegistryAccess};

use super::Fleet;
use crate::{SAPWOOD, workspace::readme::script};

#[test]
fn a_fleet_runs_as_written() {
    let script = script("## For a fleet");
    assert!(script.lines().count() <= 12);
    let fleet = Fleet::new();
    let programs = fleet.sandbox.path().join("bin");
    fs::create_dir(&programs).expect("a directory");
    fs::copy(SAPWOOD, programs.join("sapwood")).expect("a copy");
    let (registry, origin) = (Registry::start(RegistryAccess::Open), fleet.origin());
    origin.git(&["config", "uploadpack.allowFilter", "true"]);
    // The addresses of the script lead to this machine.
    let (remote, url) =
        (format!("oci://{}/app", registry.address()), format!("file://{}", origin.path.display()));
    let mut here = script;
    for (there, address) in
        [("oci://registry.example.org/app", &remote), ("https://example.org/app.git", &url)]
    {
        assert_eq!(here.matches(there).count(), 1, "{here}");
        here = here.replace(there, address);
    }
    let mut shell = origin.command(Path::new("sh"));
    let path = std::env::var("PATH").unwrap_or_default();
    let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "/usr/bin/git".to_owned());
    let git = Path::new(&git).parent().expect("a program in a directory");
    shell.env("PATH", format!("{}:{}:{path}", programs.display(), git.display()));
    // The kernel mounts no image that lies in memory.
    shell.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", "sapwood.baseDir");
    shell.env("GIT_CONFIG_VALUE_0", fleet.bases("job"));
    let output = shell.args(["-exc", &here]).output().expect("a shell");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    let files = fleet.sandbox.repo("job").run("sh".as_ref(), &["-ec", super::FILES]).stdout;
    assert_eq!(files, fleet.checkout(&fleet.commit("HEAD")));
    assert!(fleet.sandbox.repo("job.git").exists("sapwood/workspaces"));
    assert!(out.ends_with("nothing to commit, working tree clean\n"), "{out}{err}");
}
