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

/// Returns the key of an object: in each part of the path, the bytes that AWS and Google advise
/// against are encoded. The crate `object_store` made the keys of earlier releases in this form. In
/// a URL, [`encode`] encodes the percent signs once more.
pub(super) fn object_key(path: &str) -> String {
    let mut key = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_control() || !byte.is_ascii() || br#"\{^}%`]">[~<#|*?"#.contains(&byte) {
            key.push_str(&format!("%{byte:02X}"));
        } else {
            key.push(byte.into());
        }
    }
    key
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

    /// Returns the signature of a request at 2013-05-24 with the keys of the documentation.
    fn signature(region: &str, token: Option<&str>, payload: &str, request: Request<'_>) -> String {
        let keys = Keys {
            id: "AKIAIOSFODNN7EXAMPLE".into(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
            token: token.map(str::to_owned),
        };
        let mut request = request;
        sign(&mut request, &keys, region, payload, UNIX_EPOCH + Duration::from_secs(1_369_353_600));
        let (name, value) = request.headers.last().expect("it was added");
        assert_eq!(name, "Authorization");
        value.to_string().rsplit("Signature=").next().expect("a signature").to_owned()
    }

    fn request<'a>(method: &'a str, url: &str, headers: &[(&str, &str)]) -> Request<'a> {
        let address = Address::parse(url.as_bytes()).expect("a URL");
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
        Request { method, address, headers, body: Body::Empty }
    }

    /// The examples of "Signature Calculations for the Authorization Header" in the documentation
    /// of S3.
    #[test]
    fn signs_the_examples_of_the_documentation() {
        let place = "https://examplebucket.s3.amazonaws.com";
        let put = [("Date", "Fri, 24 May 2013 00:00:00 GMT"), ("x-amz-storage-class", "REDUCED_REDUNDANCY")];
        for (method, target, headers, body, expected) in [
            (
                "GET",
                "/test.txt",
                &[("Range", "bytes=0-9")][..],
                "",
                "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            ),
            (
                "PUT",
                "/test%24file.text",
                &put,
                "Welcome to Amazon S3.",
                "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
            ),
            (
                "GET",
                "/?lifecycle=",
                &[],
                "",
                "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
            ),
            (
                "GET",
                "/?max-keys=2&prefix=J",
                &[],
                "",
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            ),
        ] {
            let request = request(method, &format!("{place}{target}"), headers);
            let payload = Digest::of(body.as_bytes()).to_string();
            assert_eq!(signature("us-east-1", None, &payload, request), expected, "{method} {target}");
        }
    }

    /// A port, a token, a header with many blanks, a query in another order, an encoded key. The
    /// value is that of a second implementation, in Python.
    #[test]
    fn signs_an_upload_with_a_token() {
        let key = object_key("a~b\u{e4} +/x");
        assert_eq!(key, "a%7Eb%C3%A4 +/x");
        let path = key.split('/').map(encode).collect::<Vec<_>>().join("/");
        let url = format!("http://127.0.0.1:9000/bases/{path}~?uploadId=a%2Fb%2Bc%3D&partNumber=1");
        let request = request("PUT", &url, &[("Content-Type", " a  b ")]);
        assert_eq!(
            signature("eu-north-1", Some("a/b+c=="), UNSIGNED, request),
            "8683d9d735b1f99ff4df74e8bf4d1215c10233753b4d70c1689bd3b653f55563"
        );
    }

    #[test]
    fn encodes_keys_of_objects() {
        assert_eq!(object_key("bases/a-b_c.d e/x=y"), "bases/a-b_c.d e/x=y");
        assert_eq!(object_key(r#"~#%*?[]{}^\`"<>|"#), "%7E%23%25%2A%3F%5B%5D%7B%7D%5E%5C%60%22%3C%3E%7C");
        assert_eq!(object_key("\u{e4}\u{20ac}\t"), "%C3%A4%E2%82%AC%09");
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
