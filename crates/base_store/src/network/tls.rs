//! Certificates: those that are trusted, and the words for one that is not.

use std::{fmt, path::PathBuf, sync::Arc};

use http::tls::{CertificateError, ClientConfig, SYSTEM_FILES, is_of_authority, parse, trusting};
use sys::by_path;

use crate::{Error, Options};

/// The file of the trusted certificates.
#[derive(Clone, Debug)]
pub(super) struct Authorities {
    /// The setting or variable that names the file; `None` for the system's.
    named_by: Option<String>,
    file: Option<PathBuf>,
}

impl fmt::Display for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.as_ref().map_or("no file".into(), |file| file.to_string_lossy());
        match &self.named_by {
            Some(name) => write!(f, "'{file}' ({name})"),
            None if self.file.is_some() => write!(f, "'{file}' (of the system)"),
            None => f.write_str("nothing: this system has no file of certificates"),
        }
    }
}

/// Reads the certificates: those of the caller's file, else of the variables, else the system's.
/// `ca_variable` is one more variable that names a file of certificates.
pub(super) fn config(
    options: &Options<'_>,
    ca_variable: Option<&str>,
) -> Result<(Arc<ClientConfig>, Authorities), Error> {
    let variable = |name: &str| {
        let value = (options.variable)(name).filter(|value| !value.is_empty())?;
        Some(Authorities { named_by: Some(name.to_owned()), file: Some(PathBuf::from(value)) })
    };
    let given = options.ca_file.clone().map(|file| Authorities {
        named_by: Some("http.sslCAInfo or GIT_SSL_CAINFO".to_owned()),
        file: Some(file),
    });
    let given = given.or_else(|| ca_variable.and_then(variable)).or_else(|| variable("SSL_CERT_FILE"));
    let (certificates, authorities) = match given {
        Some(authorities) => {
            let file = authorities.file.clone().unwrap_or_default();
            let read = by_path::read(&file);
            let text = read.map_err(|source| Error::Io { what: "read", path: file.clone(), source })?;
            let found = parse(&text.unwrap_or_default());
            if found.is_empty() {
                return Err(Error::Setting(format!("no certificates in {authorities}")));
            }
            (found, authorities)
        }
        None => {
            let read = |file: &str| Some((PathBuf::from(file), by_path::read(file.as_ref()).ok().flatten()?));
            let (file, text) = SYSTEM_FILES.iter().find_map(|file| read(file)).unzip();
            (parse(&text.unwrap_or_default()), Authorities { named_by: None, file })
        }
    };
    Ok((trusting(certificates).map_err(|error| bad(&error))?, authorities))
}

/// Returns the file with the authorities of proxies; `None` for the system's.
pub(super) fn proxy_authorities(options: &Options<'_>) -> Option<PathBuf> {
    let variable = || (options.variable)("SSL_CERT_FILE").filter(|value| !value.is_empty());
    options.proxy_ca_file.clone().or_else(|| variable().map(PathBuf::from))
}

/// Returns the error for TLS that cannot be set up.
fn bad(reason: &str) -> Error {
    Error::Setting(format!("cannot set up TLS: {reason}"))
}

/// Returns the reason why a certificate is refused.
pub(super) fn words(reason: &CertificateError) -> String {
    match reason {
        CertificateError::UnknownIssuer => "no trusted authority signed it".to_owned(),
        // A trusted authority has the name of the one that signed it, and another key.
        CertificateError::BadSignature => "no trusted authority signed it with its key".to_owned(),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "it has expired, or the clock of this machine is wrong".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet, or the clock of this machine is wrong".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is for a server with another name".to_owned()
        }
        CertificateError::Revoked => "it is revoked".to_owned(),
        other if is_of_authority(other) => {
            "it is that of an authority, and not among the trusted ones".to_owned()
        }
        other => other.to_string(),
    }
}
