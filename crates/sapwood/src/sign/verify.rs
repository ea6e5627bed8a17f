//! Verifying a signature of `ssh-keygen`, as Git verifies those of commits: the signer's principal
//! is looked up in the file of allowed signers, and then the signature is verified for that
//! principal.
//!
//! The time of verification is now: an expired key is no longer accepted.

use std::{
    io::{self, Write as _},
    process::{Command, Stdio},
};

use bstr::{BString, ByteSlice as _};
use repo::{Repository, keys};
use sys::{UserPath, by_path};

use super::{Format, PrivateDir, Purpose, Signer};
use crate::Events;

/// Returns the principal who signed `content`, one of those in the file `signers`; or the reason
/// why the signature is not valid.
pub fn verify_by_ssh(
    repo: &Repository,
    events: &dyn Events,
    content: &[u8],
    signature: &[u8],
    purpose: Purpose,
    signers: &UserPath,
) -> Result<BString, BString> {
    let verifier = Signer { repo, events, format: Format::Ssh, purpose };
    let place = PrivateDir::new(repo).map_err(|error| cannot("create a temporary directory", &error))?;
    let file = place.0.join("signature");
    by_path::create_new(&file, 0o600)
        .and_then(|mut opened| {
            opened.write_all(signature)?;
            sys::close(opened)
        })
        .map_err(|error| cannot("write the signature", &error))?;
    let mut find = verifier.keygen("find-principals");
    find.arg("-f").arg(signers.as_os_str()).arg("-s").arg(&file);
    let found = verifier.output_of(find, b"")?;
    let mut reason = BString::from("its signer is not an allowed one");
    for principal in found.lines().filter(|line| !line.is_empty()) {
        let mut check = verifier.keygen("verify");
        check.args(["-n", purpose.namespace(), "-f"]).arg(signers.as_os_str());
        check.arg("-I").arg(sys::os_str(principal)).arg("-s").arg(&file);
        if let Some(revoked) = repo.config_path(&keys::gpg::SSH_REVOCATION_FILE).ok().flatten() {
            check.arg("-r").arg(revoked.as_os_str());
        }
        match verifier.output_of(check, content) {
            Ok(_) => return Ok(principal.into()),
            Err(messages) => reason = messages,
        }
    }
    Err(reason)
}

fn cannot(what: &str, error: &io::Error) -> BString {
    format!("cannot {what}: {}", sys::reason(error)).into()
}

impl Signer<'_> {
    fn keygen(&self, action: &str) -> Command {
        let mut command = Command::new(self.program().as_os_str());
        command.args(["-Y", action]).stdout(Stdio::piped());
        command
    }

    /// Runs the program. Returns its output, or the last line of its messages if it failed.
    fn output_of(&self, command: Command, input: &[u8]) -> Result<BString, BString> {
        let program = self.program();
        let Some(output) = self.finished(command, Some(input), program.as_bytes().as_bstr()) else {
            return Err(format!("'{program}' does not run").into());
        };
        if output.status.success() {
            return Ok(output.stdout.into());
        }
        let messages = [output.stderr, output.stdout].concat();
        let last =
            messages.lines().rfind(|line| !line.trim().is_empty()).unwrap_or(b"ssh-keygen gave no reason");
        Err(last.trim().into())
    }
}
