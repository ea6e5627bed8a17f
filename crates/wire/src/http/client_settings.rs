//! The settings for a URL, for an HTTP client in another crate: remotes of bases.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use ::http::{Address, without_user};
use bstr::{BStr, BString};

use super::settings::UrlSettings;
use crate::{
    Error, HttpError, Settings,
    credential::{Credential, Keeper},
};

/// `http.*` for one URL, and a credential for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientSettings {
    /// `http.sslCAInfo`, `GIT_SSL_CAINFO`
    pub ca_file: Option<PathBuf>,
    /// `http.proxySSLCAInfo`, `GIT_PROXY_SSL_CAINFO`
    pub proxy_ca_file: Option<PathBuf>,
    /// `http.proxy`; empty for none at all, `None` for the environment's.
    pub proxy: Option<BString>,
    /// `http.extraHeader`, in order.
    pub headers: Vec<BString>,
    /// User name and password from a credential helper. The user is not prompted.
    pub credentials: Option<(BString, BString)>,
    /// `http.lowSpeedTime`, `GIT_HTTP_LOW_SPEED_TIME`, if a limit is set too.
    pub low_speed_time: Option<Duration>,
}

impl ClientSettings {
    /// Returns the settings for `url`, which begins with `http://` or `https://`.
    pub fn load(all: &dyn Settings, url: &BStr, interrupt: Arc<AtomicBool>) -> Result<ClientSettings, Error> {
        let address = Address::parse(url).ok_or_else(|| {
            let reason = "URL rejected: Malformed input to a URL function".into();
            HttpError::Access { url: without_user(url), reason }
        })?;
        let settings = UrlSettings::load(all, &address)?;
        let keeper = Keeper::new(all, all.child_dir().to_owned(), Some(interrupt));
        let mut credential = Credential::of(&address);
        // If a helper fails, the request is sent without a credential. The server then reports what
        // it requires.
        let _ = keeper.ask_helpers(&mut credential, &address);
        Ok(ClientSettings {
            ca_file: settings.tls.ca_file,
            proxy_ca_file: settings.proxy_tls.ca_file,
            proxy: settings.proxies.configured,
            headers: settings.extra_headers,
            credentials: credential.username.zip(credential.password),
            low_speed_time: settings.low_speed.map(|(_, time)| time),
        })
    }
}
