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

/// The settings of TLS with a server or a proxy.
#[derive(Clone, Debug)]
pub struct TlsSettings {
    /// `http.sslVerify`; always true for a proxy
    pub verify: bool,
    /// `http.sslCAInfo`, `http.proxySSLCAInfo`
    pub ca_file: Option<PathBuf>,
    /// `http.sslCAPath`
    pub ca_dir: Option<PathBuf>,
    /// `http.sslCert`, `http.proxySSLCert`
    pub certificate: Option<PathBuf>,
    /// `http.sslKey`, `http.proxySSLKey`
    pub key: Option<PathBuf>,
    /// `http.sslVersion`
    pub oldest: OldestTls,
}

impl Default for TlsSettings {
    /// Trusts the system's authorities.
    fn default() -> TlsSettings {
        TlsSettings {
            verify: true,
            ca_file: None,
            ca_dir: None,
            certificate: None,
            key: None,
            oldest: OldestTls::default(),
        }
    }
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
        let trust = if self.verify { Some(self.trusted()?) } else { None };
        let verifier = Verifier::of(trust, provider)?;
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
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
    let verifier = Verifier::of(Some(trusted), provider)?;
    Ok(Arc::new(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()))
}

fn in_dir(dir: &Path) -> Vec<CertificateDer<'static>> {
    let names = sys::by_path::list(dir).unwrap_or_default().into_iter();
    names.flat_map(|(name, _)| certificates(&dir.join(name)).unwrap_or_default()).collect()
}

/// Verifies the certificates of servers.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    /// `None` accepts every certificate: `http.sslVerify=false`.
    trust: Option<Trust>,
}

/// Verifies as usual, and also accepts a server whose own certificate is one of the trusted ones,
/// although it says that it is an authority, as OpenSSL does: `openssl req -x509` makes such ones.
#[derive(Debug)]
struct Trust {
    /// `None` if nothing is trusted.
    usual: Option<Arc<WebPkiServerVerifier>>,
    trusted: Vec<CertificateDer<'static>>,
}

impl Verifier {
    /// `trusted` holds the trusted certificates; `None` accepts every certificate.
    fn of(
        trusted: Option<Vec<CertificateDer<'static>>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Arc<Verifier>, String> {
        let Some(trusted) = trusted else { return Ok(Arc::new(Verifier { provider, trust: None })) };
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(trusted.iter().cloned());
        let usual = if roots.is_empty() {
            None
        } else {
            let usual = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
            Some(usual.build().map_err(|error| error.to_string())?)
        };
        Ok(Arc::new(Verifier { provider, trust: Some(Trust { usual, trusted }) }))
    }
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
        let Some(Trust { usual, trusted }) = &self.trust else {
            return Ok(ServerCertVerified::assertion());
        };
        let usual = usual.as_ref().ok_or(CertificateError::UnknownIssuer)?;
        match usual.verify_server_cert(certificate, intermediates, name, response, now) {
            // The period is checked before this.
            Err(error) if is_authority(&error) && trusted.iter().any(|ours| ours == certificate) => {
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
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
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
