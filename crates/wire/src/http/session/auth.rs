//! The choice of credentials: from the URL, `~/.netrc`, the helpers, the user.

use ::http::{Head, basic};
use bstr::BStr;

use super::{Request, Session};
use crate::{
    HttpError,
    credential::Credential,
    http::{netrc, settings::Proactive},
};

/// The source of the secret that was sent to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Offered {
    Nothing,
    /// `~/.netrc`. Helpers get no reports about such a secret.
    Netrc,
    Credential,
}

impl Session {
    /// Chooses credentials for the server that refused a request. Returns false if none are left.
    pub(super) fn authenticate(&mut self, head: &Head, request: &Request<'_>) -> Result<bool, HttpError> {
        let mut place = request.address.clone();
        if let Some(base) = place.target.strip_suffix(request.tail.as_bytes()) {
            place.target = base.into();
        }
        if !place.is_same_server(&self.credential.1) {
            self.credential = (Credential::of(&place), place);
            (self.authorization, self.offered) = (None, Offered::Nothing);
        }
        let (credential, place) = &mut self.credential;
        credential.challenges = head.all("www-authenticate").map(BStr::to_owned).collect();
        let offers_basic = credential
            .challenges
            .iter()
            .any(|challenge| challenge.to_ascii_lowercase().starts_with(b"basic"));
        match self.offered {
            Offered::Credential if credential.is_multistage => credential.clear_secret(),
            Offered::Credential => {
                self.keeper.reject(credential, place);
                return Ok(false);
            }
            Offered::Nothing if credential.password.is_none() && offers_basic => {
                let user = credential.username.as_ref();
                let file = self.settings.netrc.as_ref();
                if let Some((user, password)) =
                    file.and_then(|file| netrc::lookup(file, place.host_name(), user))
                {
                    self.authorization = Some(basic(&user, &password));
                    self.offered = Offered::Netrc;
                    return Ok(true);
                }
            }
            Offered::Nothing | Offered::Netrc => {}
        }
        self.keeper.fill(credential, place).map_err(|error| HttpError::Credential(error.to_string()))?;
        // A password is not sent in plain text to a server that requires another scheme.
        self.authorization = credential.authorization().filter(|_| offers_basic || credential.has_scheme());
        self.offered = Offered::Credential;
        Ok(true)
    }

    /// Sends credentials with the first request: `http.proactiveAuth`.
    pub(super) fn offer_early(&mut self, request: &Request<'_>) -> Result<(), HttpError> {
        let (credential, place) = &mut self.credential;
        if self.settings.proactive == Proactive::None || !request.is_first || self.authorization.is_some() {
            return Ok(());
        }
        self.keeper.fill(credential, place).map_err(|error| HttpError::Credential(error.to_string()))?;
        self.authorization = match (self.settings.proactive, &credential.username, &credential.password) {
            (Proactive::Basic, Some(user), Some(password)) => Some(basic(user, password)),
            _ => credential.authorization(),
        };
        self.offered = Offered::Credential;
        Ok(())
    }

    /// Obtains the proxy's password. Returns false if it was sent already.
    pub(super) fn authenticate_at_proxy(&mut self, request: &Request<'_>) -> Result<bool, HttpError> {
        let proxy = self.proxy(&request.address)?;
        let Some(proxy) = proxy.filter(|proxy| proxy.address.password.is_none()) else { return Ok(false) };
        let mut credential = Credential::of(&proxy.address);
        self.keeper
            .fill(&mut credential, &proxy.address)
            .map_err(|error| HttpError::Credential(error.to_string()))?;
        self.proxy_authorization = credential.authorization();
        self.connection = None;
        Ok(self.proxy_authorization.is_some())
    }
}
