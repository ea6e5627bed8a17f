//! Certificates: those that are trusted, and the words for one that is not.

use std::{fmt, path::PathBuf, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::ring,
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
    server::ParsedCertificate,
};
use sys::by_path;

use crate::{Error, Options};

/// Places of the certificates that a system trusts.
const SYSTEM_FILES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

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
) -> Result<(ClientConfig, Authorities), Error> {
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
    let bad = |error: &dyn fmt::Display| Error::Setting(format!("cannot set up TLS: {error}"));
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates.iter().cloned());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| bad(&error))?;
    if roots.is_empty() {
        // Every server is refused, with a reason.
        return Ok((builder.with_root_certificates(roots).with_no_client_auth(), authorities));
    }
    let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
    let verifier = Verifier { usual: usual.map_err(|error| bad(&error))?, certificates };
    let config = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    Ok((config.with_no_client_auth(), authorities))
}

fn parse(text: &[u8]) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(text).filter_map(Result::ok).collect()
}

/// Verifies as usual, and also accepts a server whose own certificate is one of the trusted ones,
/// although it says that it is an authority. OpenSSL, and so Git, accepts it: it is what
/// `openssl req -x509` makes.
#[derive(Debug)]
struct Verifier {
    usual: Arc<WebPkiServerVerifier>,
    certificates: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self.usual.verify_server_cert(certificate, intermediates, name, response, now);
        match verified {
            // The period is checked before this.
            Err(error)
                if is_authority(&error) && self.certificates.iter().any(|ours| ours == certificate) =>
            {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.usual.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.usual.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

/// Returns true for a server's certificate that says that it is an authority. rustls has no variant
/// for it.
fn is_authority(error: &rustls::Error) -> bool {
    matches!(error, rustls::Error::InvalidCertificate(CertificateError::Other(other))
        if format!("{other:?}").contains("CaUsedAsEndEntity"))
}

/// Returns the reason why a certificate was refused, if that is the cause of an error.
pub(super) fn refusal(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(rustls::Error::InvalidCertificate(reason)) = error.downcast_ref() {
            return Some(words(reason));
        }
        // The error inside another is not its source, but its source's.
        let inside = error.downcast_ref::<std::io::Error>().and_then(|error| error.get_ref());
        next = match inside {
            Some(inside) => Some(inside),
            None => error.source(),
        };
    }
    None
}

fn words(reason: &CertificateError) -> String {
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
        other if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "it is that of an authority, and not among the trusted ones".to_owned()
        }
        other => other.to_string(),
    }
}
