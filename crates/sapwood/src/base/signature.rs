//! Signatures of manifests, by `ssh-keygen`.

use bstr::{BString, ByteSlice as _};
use repo::{Repository, keys};
use sys::UserPath;

use crate::{
    Context, Error, Events,
    sign::{self, Purpose},
};

/// Returns true if a push signs: the given choice, else `sapwood.baseSign`.
pub(super) fn is_wanted(repo: &Repository, given: Option<bool>) -> Result<bool, Error> {
    match given {
        Some(wanted) => Ok(wanted),
        None => Ok(repo.config(&keys::sapwood::BASE_SIGN)?),
    }
}

/// Signs a manifest with `user.signingKey`.
pub(super) fn sign(context: Context<'_>, manifest: &[u8]) -> Result<Vec<u8>, Error> {
    sign::sign_by_ssh(context.repo, context.events, manifest, Purpose::Base)
}

/// The signers that a pull accepts.
pub(super) struct Signers<'a> {
    repo: &'a Repository,
    events: &'a dyn Events,
    file: UserPath,
}

impl<'a> Signers<'a> {
    /// Those of `sapwood.baseSigners`. `None`: no signature is needed.
    pub(super) fn configured(context: Context<'a>) -> Result<Option<Signers<'a>>, Error> {
        let Context { repo, events, .. } = context;
        let file = repo.config_path(&keys::sapwood::BASE_SIGNERS)?;
        Ok(file.map(|file| Signers { repo, events, file }))
    }

    /// Checks the signature of a manifest. The error is the reason for which it does not hold.
    pub(super) fn check(&self, manifest: &[u8], signature: Option<&[u8]>) -> Result<(), String> {
        let Some(signature) = signature else {
            return Err("it has no signature, and sapwood.baseSigners names who must sign".to_owned());
        };
        let by = sign::verify_by_ssh(self.repo, self.events, manifest, signature, Purpose::Base, &self.file);
        by.map(drop).map_err(|reason: BString| reason.to_str_lossy().into_owned())
    }
}
