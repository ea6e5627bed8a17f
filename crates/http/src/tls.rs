//! TLS with the settings of `http.ssl*` and `GIT_SSL_*`.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

pub use rustls::{CertificateError, ClientConfig};
use rustls::{
    DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
    server::ParsedCertificate,
    version::{TLS12, TLS13},
};

/// The files in which systems store their trusted certificates.
pub const SYSTEM_FILES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The minimum TLS version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OldestTls {
    /// TLS 1.2
    #[default]
    V12,
    /// TLS 1.3
    V13,
}

/// The settings of TLS.
#[derive(Clone, Debug)]
pub struct TlsSettings {
    /// `http.sslVerify`
    pub verify: bool,
    /// `http.sslCAInfo`
    pub ca_file: Option<PathBuf>,
    /// `http.sslCAPath`
    pub ca_dir: Option<PathBuf>,
    /// `http.sslCert`
    pub certificate: Option<PathBuf>,
    /// `http.sslKey`
    pub key: Option<PathBuf>,
    /// `http.sslVersion`
    pub oldest: OldestTls,
}

impl TlsSettings {
    /// Reads the certificates. The error is a message.
    pub fn load(&self) -> Result<Arc<ClientConfig>, String> {
        let provider = Arc::new(ring::default_provider());
        let versions: &[_] = match self.oldest {
            OldestTls::V12 => &[&TLS13, &TLS12],
            OldestTls::V13 => &[&TLS13],
        };
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .map_err(|error| error.to_string())?;
        let builder = if self.verify {
            match verifier(self.trusted()?, provider)? {
                Some(verifier) => builder.dangerous().with_custom_certificate_verifier(verifier),
                // Every server is refused.
                None => builder.with_root_certificates(RootCertStore::empty()),
            }
        } else {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(NoVerification(provider)))
        };
        let Some(certificate) = &self.certificate else {
            return Ok(Arc::new(builder.with_no_client_auth()));
        };
        let bad = |path: &Path| format!("could not load PEM client certificate from {}", path.display());
        let chain =
            certificates(certificate).filter(|chain| !chain.is_empty()).ok_or_else(|| bad(certificate))?;
        let key_file = self.key.as_ref().unwrap_or(certificate);
        let key = read(key_file).and_then(|text| PrivateKeyDer::from_pem_slice(&text).ok());
        let key =
            key.ok_or_else(|| format!("unable to set private key file: '{}' type PEM", key_file.display()))?;
        let config = builder.with_client_auth_cert(chain, key).map_err(|_| bad(certificate))?;
        Ok(Arc::new(config))
    }

    /// Returns the trusted certificates.
    fn trusted(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let mut trusted = Vec::new();
        if let Some(file) = &self.ca_file {
            let found = certificates(file).filter(|found| !found.is_empty());
            trusted.extend(
                found.ok_or_else(|| format!("error adding trust anchors from file: {}", file.display()))?,
            );
        }
        if let Some(dir) = &self.ca_dir {
            trusted.extend(in_dir(dir));
        }
        if self.ca_file.is_none() && self.ca_dir.is_none() {
            let of_system = SYSTEM_FILES.iter().find_map(|file| certificates(Path::new(file)));
            trusted.extend(of_system.unwrap_or_else(|| in_dir(Path::new("/etc/ssl/certs"))));
        }
        Ok(trusted)
    }
}

/// Returns a configuration that trusts these certificates. The error is a message.
pub fn trusting(trusted: Vec<CertificateDer<'static>>) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(Arc::new(match verifier(trusted, provider)? {
        Some(verifier) => {
            builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
        }
        // Every server is refused, with a reason.
        None => builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth(),
    }))
}

/// Returns `None` if nothing is trusted.
fn verifier(
    trusted: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
) -> Result<Option<Arc<Verifier>>, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(trusted.iter().cloned());
    if roots.is_empty() {
        return Ok(None);
    }
    let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
    let usual = usual.map_err(|error| error.to_string())?;
    Ok(Some(Arc::new(Verifier { usual, trusted })))
}

fn in_dir(dir: &Path) -> Vec<CertificateDer<'static>> {
    let names = sys::by_path::list(dir).unwrap_or_default().into_iter();
    names.flat_map(|(name, _)| certificates(&dir.join(name)).unwrap_or_default()).collect()
}

/// Verifies as usual, and also accepts a server whose own certificate is one of the trusted ones,
/// although it says that it is an authority, as OpenSSL does: `openssl req -x509` makes such ones.
#[derive(Debug)]
struct Verifier {
    usual: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
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
            Err(error) if is_authority(&error) && self.trusted.iter().any(|ours| ours == certificate) => {
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

fn is_authority(error: &rustls::Error) -> bool {
    matches!(error, rustls::Error::InvalidCertificate(reason) if is_of_authority(reason))
}

/// Returns true if a certificate is refused because it says that it is an authority. rustls has no
/// variant for it.
pub fn is_of_authority(reason: &CertificateError) -> bool {
    matches!(reason, CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity"))
}

fn read(path: &Path) -> Option<Vec<u8>> {
    sys::by_path::read(path).ok().flatten()
}

/// Returns the certificates in a file; `None` if it cannot be read.
fn certificates(path: &Path) -> Option<Vec<CertificateDer<'static>>> {
    Some(parse(&read(path)?))
}

/// Returns the certificates in the text of a file.
pub fn parse(text: &[u8]) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(text).filter_map(Result::ok).collect()
}

/// Accepts every certificate: `http.sslVerify=false`.
#[derive(Debug)]
struct NoVerification(Arc<CryptoProvider>);

impl ServerCertVerifier for NoVerification {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
