//! Certificates for tests: an authority, a server, a client.

use std::{fs, path::Path};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// Writes `ca.pem`, and `server` and `client` each as `.pem` and `.key`, into `dir`. The server's
/// certificate is valid for 127.0.0.1, and for no host name.
pub(super) fn write(dir: &Path) {
    let key = || KeyPair::generate().expect("ring makes keys");
    let authority_key = key();
    let mut authority = named("sapwood test authority", &[]);
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let root = authority.self_signed(&authority_key).expect("valid parameters");
    put(dir, "ca.pem", &root.pem());
    let issuer = Issuer::new(authority, authority_key);
    for (name, hosts, usage) in [
        ("server", &["127.0.0.1"][..], ExtendedKeyUsagePurpose::ServerAuth),
        ("client", &[], ExtendedKeyUsagePurpose::ClientAuth),
    ] {
        let key = key();
        let mut params = named(name, hosts);
        params.extended_key_usages = vec![usage];
        let signed = params.signed_by(&key, &issuer).expect("valid parameters");
        put(dir, &format!("{name}.pem"), &signed.pem());
        put(dir, &format!("{name}.key"), &key.serialize_pem());
    }
}

/// Writes a certificate that signed itself, as `openssl req -x509` makes it: `ca.pem` is also that
/// of the server. It says that it is an authority.
pub(super) fn write_self_signed(dir: &Path) {
    let key = KeyPair::generate().expect("ring makes keys");
    let mut params = named("sapwood test server", &["127.0.0.1"]);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let own = params.self_signed(&key).expect("valid parameters");
    for name in ["ca.pem", "server.pem"] {
        put(dir, name, &own.pem());
    }
    put(dir, "server.key", &key.serialize_pem());
}

fn named(name: &str, hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
    let mut params = CertificateParams::new(hosts).expect("valid names");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn put(dir: &Path, name: &str, text: &str) {
    fs::write(dir.join(name), text).expect("the directory of the server is writable");
}
