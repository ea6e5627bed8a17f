//! Signatures of manifests, by `ssh-keygen`.

use bstr::{BString, ByteSlice as _};
use repo::{Repository, keys};
use sapwood::sign::{self, Purpose};
use sys::UserPath;

use crate::term::{failure::Failure, notice::Printer};

/// Returns true if a push signs: the option, else `sapwood.baseSign`.
pub(super) fn is_wanted(repo: &Repository, given: Option<bool>) -> Result<bool, Failure> {
    match given {
        Some(wanted) => Ok(wanted),
        None => Ok(repo.config(&keys::sapwood::BASE_SIGN)?),
    }
}

/// Signs a manifest with `user.signingKey`.
pub(super) fn sign(repo: &Repository, manifest: &[u8]) -> Result<Vec<u8>, String> {
    sign::sign_by_ssh(repo, &Printer, manifest, Purpose::Base).map_err(|error| {
        Failure::from(error).print();
        "see above".to_owned()
    })
}

/// The signers that a pull accepts.
pub(crate) struct Signers<'a> {
    repo: &'a Repository,
    file: UserPath,
}

impl<'a> Signers<'a> {
    /// Those of `sapwood.baseSigners`. `None`: no signature is needed.
    pub(crate) fn configured(repo: &'a Repository) -> Result<Option<Signers<'a>>, Failure> {
        let file = repo.config_path(&keys::sapwood::BASE_SIGNERS)?;
        Ok(file.map(|file| Signers { repo, file }))
    }

    /// Checks the signature of a manifest. The error is the reason for which it does not hold.
    pub(crate) fn check(&self, manifest: &[u8], signature: Option<&[u8]>) -> Result<(), String> {
        let Some(signature) = signature else {
            return Err("it has no signature, and sapwood.baseSigners names who must sign".to_owned());
        };
        let by = sign::verify_by_ssh(self.repo, &Printer, manifest, signature, Purpose::Base, &self.file);
        by.map(drop).map_err(|reason: BString| reason.to_str_lossy().into_owned())
    }
}
