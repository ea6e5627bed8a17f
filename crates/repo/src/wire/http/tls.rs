//! TLS with the settings of `http.ssl*` and `GIT_SSL_*`.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
    version::{TLS12, TLS13},
};

use super::HttpError;

/// The files in which systems store their trusted certificates.
const SYSTEM_FILES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The minimum TLS version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum OldestTls {
    #[default]
    V12,
    V13,
}

/// The settings of TLS.
#[derive(Clone, Debug)]
pub(super) struct TlsSettings {
    /// `http.sslVerify`
    pub(super) verify: bool,
    /// `http.sslCAInfo`
    pub(super) ca_file: Option<PathBuf>,
    /// `http.sslCAPath`
    pub(super) ca_dir: Option<PathBuf>,
    /// `http.sslCert`
    pub(super) certificate: Option<PathBuf>,
    /// `http.sslKey`
    pub(super) key: Option<PathBuf>,
    /// `http.sslVersion`
    pub(super) oldest: OldestTls,
}

impl TlsSettings {
    /// Reads the certificates.
    pub(super) fn load(&self) -> Result<Arc<ClientConfig>, HttpError> {
        let provider = Arc::new(ring::default_provider());
        let versions: &[_] = match self.oldest {
            OldestTls::V12 => &[&TLS13, &TLS12],
            OldestTls::V13 => &[&TLS13],
        };
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .map_err(|error| HttpError::Setting(error.to_string()))?;
        let builder = match self.verify {
            true => builder.with_root_certificates(self.roots()?),
            false => builder.dangerous().with_custom_certificate_verifier(Arc::new(NoVerification(provider))),
        };
        let Some(certificate) = &self.certificate else {
            return Ok(Arc::new(builder.with_no_client_auth()));
        };
        let bad = |path: &Path| {
            HttpError::Setting(format!("could not load PEM client certificate from {}", path.display()))
        };
        let chain =
            certificates(certificate).filter(|chain| !chain.is_empty()).ok_or_else(|| bad(certificate))?;
        let key_file = self.key.as_ref().unwrap_or(certificate);
        let key = read(key_file).and_then(|text| PrivateKeyDer::from_pem_slice(&text).ok());
        let key = key.ok_or_else(|| {
            HttpError::Setting(format!("unable to set private key file: '{}' type PEM", key_file.display()))
        })?;
        let config = builder.with_client_auth_cert(chain, key).map_err(|_| bad(certificate))?;
        Ok(Arc::new(config))
    }

    fn roots(&self) -> Result<RootCertStore, HttpError> {
        let mut roots = RootCertStore::empty();
        if let Some(file) = &self.ca_file {
            let found = certificates(file).filter(|found| !found.is_empty());
            let found = found.ok_or_else(|| {
                HttpError::Setting(format!("error adding trust anchors from file: {}", file.display()))
            })?;
            roots.add_parsable_certificates(found);
        }
        if let Some(dir) = &self.ca_dir {
            add_dir(dir, &mut roots);
        }
        if self.ca_file.is_none() && self.ca_dir.is_none() {
            match SYSTEM_FILES.iter().find_map(|file| certificates(Path::new(file))) {
                Some(found) => drop(roots.add_parsable_certificates(found)),
                None => add_dir(Path::new("/etc/ssl/certs"), &mut roots),
            }
        }
        Ok(roots)
    }
}

fn add_dir(dir: &Path, roots: &mut RootCertStore) {
    for (name, _) in sys::by_path::list(dir).unwrap_or_default() {
        roots.add_parsable_certificates(certificates(&dir.join(name)).unwrap_or_default());
    }
}

fn read(path: &Path) -> Option<Vec<u8>> {
    sys::by_path::read(path).ok().flatten()
}

/// Returns the certificates in a file; `None` if it cannot be read.
fn certificates(path: &Path) -> Option<Vec<CertificateDer<'static>>> {
    let text = read(path)?;
    Some(CertificateDer::pem_slice_iter(&text).filter_map(Result::ok).collect())
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
