//! `ls-remote` compared with Git, in every version of the protocol.

use testkit::Oracle;

use crate::SAPWOOD;

fn oracle() -> Oracle {
    Oracle::new(SAPWOOD, |repo| {
        repo.write("a", "1\n");
        repo.commit("one");
        repo.git(&["tag", "light"]);
        repo.git(&["tag", "-a", "-m", "tag", "v1"]);
        repo.git(&["branch", "side/one"]);
        repo.git(&["remote", "add", "self", "."]);
    })
}

#[test]
fn prints_what_git_prints() {
    let oracle = oracle();
    for args in [
        &["."][..],
        &[],
        &["-q"],
        &["self"],
        &["--tags", "."],
        &["--branches", "."],
        &["--heads", "--tags", "."],
        &["--refs", "."],
        &["--symref", "."],
        &["--symref", "--sort=refname", ".", "HEAD", "main"],
        &["--sort=-refname", "."],
        &[".", "v*"],
        &[".", "refs/tags/*", "one"],
        &["--exit-code", ".", "nothing"],
        &["--exit-code", ".", "main"],
        &[".", "nothing"],
        &["--get-url", "self"],
        &["--get-url", "short:x"],
        &["nowhere"],
        &[""],
        &["--exit-code", "./nowhere"],
        &["-h", "."],
    ] {
        for version in ["0", "1", "2"] {
            let option = format!("protocol.version={version}");
            let configured = ["-c", &option, "-c", "url.other:.insteadOf=short:", "ls-remote"];
            oracle.same_as(version, &[&configured[..], args].concat());
        }
    }
    oracle.same_as("policy", &["-c", "protocol.file.allow=never", "ls-remote", "."]);
    oracle.same_as("policy", &["-c", "protocol.allow=nonsense", "ls-remote", "."]);
    oracle.same_as("strange", &["ls-remote", "ssh://-oProxyCommand=x/y"]);
    oracle.same_as("a helper that is not there", &["ls-remote", "nowhere::x"]);
}
