//! Signatures of requests: AWS Signature Version 4, as its documentation for S3 describes it.

use std::time::SystemTime;

use bstr::BString;
use format::base_files::{Digest, Digester};
use http::Request;

use super::{credentials::Keys, time};

/// The payload's digest in a request that does not sign it.
pub(super) const UNSIGNED: &str = "UNSIGNED-PAYLOAD";

/// The bytes of a block of SHA-256.
const BLOCK: usize = 64;

/// Adds the headers of a signature. Each name in the query has a value, perhaps an empty one, which
/// [`encode`] encoded. `payload` is the SHA-256 of the body in hexadecimal digits.
pub(super) fn sign(request: &mut Request<'_>, keys: &Keys, region: &str, payload: &str, now: SystemTime) {
    let stamp = time::stamp(now);
    let mut put = |name: &str, value: &str| request.headers.push((name.to_owned(), value.into()));
    put("x-amz-date", &stamp);
    put("x-amz-content-sha256", payload);
    if let Some(token) = &keys.token {
        put("x-amz-security-token", token);
    }
    let mut headers: Vec<(String, String)> = request
        .headers
        .iter()
        .map(|(name, value)| (name.to_ascii_lowercase(), words(&value.to_string())))
        .collect();
    headers.push(("host".into(), request.address.authority()));
    headers.sort();
    let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
    let names = names.join(";");
    let lines: String = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let target = request.address.target.to_string();
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let mut pairs: Vec<(&str, &str)> = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
    pairs.sort_unstable();
    let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let whole = format!("{}\n{path}\n{}\n{lines}\n{names}\n{payload}", request.method, pairs.join("&"));
    let date = &stamp[..8];
    let scope = format!("{date}/{region}/s3/aws4_request");
    let text = format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{}", Digest::of(whole.as_bytes()));
    let mut key = hmac(format!("AWS4{}", keys.secret).as_bytes(), date.as_bytes());
    for part in [region, "s3", "aws4_request"] {
        key = hmac(key.as_bytes(), part.as_bytes());
    }
    let signature = hmac(key.as_bytes(), text.as_bytes());
    let value = format!(
        "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
        keys.id
    );
    request.headers.push(("Authorization".into(), BString::from(value)));
}

/// Returns a header's value with single spaces.
fn words(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// HMAC with SHA-256 (RFC 2104).
fn hmac(key: &[u8], text: &[u8]) -> Digest {
    let mut block = [0; BLOCK];
    if key.len() > BLOCK {
        let digest = Digest::of(key);
        block[..digest.as_bytes().len()].copy_from_slice(digest.as_bytes());
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let hash = |pad: u8, text: &[u8]| {
        let mut digester = Digester::default();
        digester.update(&block.map(|byte| byte ^ pad));
        digester.update(text);
        digester.finish()
    };
    hash(0x5c, hash(0x36, text).as_bytes())
}

/// Encodes a part of a path or a query.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(byte.into());
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use http::{Address, Body};

    use super::*;

    /// The first example of "Signature Calculations for the Authorization Header" in the
    /// documentation of S3.
    #[test]
    fn signs_the_example_of_the_documentation() {
        let keys = Keys {
            id: "AKIAIOSFODNN7EXAMPLE".into(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
            token: None,
        };
        let address = Address::parse(b"https://examplebucket.s3.amazonaws.com/test.txt").expect("a URL");
        let headers = vec![("Range".to_owned(), "bytes=0-9".into())];
        let mut request = Request { method: "GET", address, headers, body: Body::Empty };
        let now = UNIX_EPOCH + Duration::from_secs(1_369_353_600);
        sign(&mut request, &keys, "us-east-1", &Digest::of(b"").to_string(), now);
        let (name, value) = request.headers.last().expect("it was added");
        assert_eq!(name, "Authorization");
        let signature = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";
        assert!(value.to_string().ends_with(signature), "{value}");
    }

    /// Test cases 2 and 6 of RFC 4231.
    #[test]
    fn computes_hmac() {
        assert_eq!(
            hmac(b"Jefe", b"what do ya want for nothing?").to_string(),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            hmac(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First").to_string(),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }
}
