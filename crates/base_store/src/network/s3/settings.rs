//! The variables of S3: `AWS_*`.

use crate::{Error, Options};

/// The settings of requests.
pub(super) struct Settings {
    pub(super) region: String,
    /// The URL of the bucket.
    pub(super) bucket: http::Address,
    pub(super) sends_signature: bool,
    pub(super) signs_payload: bool,
    /// `AWS_CHECKSUM_ALGORITHM=sha256`
    pub(super) sends_checksum: bool,
    /// Headers of all requests.
    pub(super) headers: Vec<(String, bstr::BString)>,
    /// `AWS_SERVER_SIDE_ENCRYPTION`
    pub(super) encryption: Option<String>,
}

/// Reads a variable. An empty one counts as not set.
pub(super) fn variable(options: &Options<'_>, name: &str) -> Result<Option<String>, Error> {
    let Some(value) = (options.variable)(name).filter(|value| !value.is_empty()) else { return Ok(None) };
    let value = value.into_string().map_err(|_| bad(name))?;
    // It would end a header, or be in no signature that the server computes.
    if value.contains(['\r', '\n', '\0']) {
        return Err(Error::Setting(format!("bad value of {name}: it has a line end or a NUL")));
    }
    Ok(Some(value))
}

/// Returns the error for a variable with a bad value.
pub(super) fn bad(name: &str) -> Error {
    Error::Setting(format!("bad value of {name}"))
}

/// Reads a variable that is true or false.
pub(super) fn flag(options: &Options<'_>, name: &str) -> Result<bool, Error> {
    let Some(value) = variable(options, name)? else { return Ok(false) };
    match value.to_ascii_lowercase().as_str() {
        "1" | "true" | "on" | "yes" | "y" => Ok(true),
        "0" | "false" | "off" | "no" | "n" => Ok(false),
        _ => Err(bad(name)),
    }
}

/// Returns the region.
pub(super) fn region(options: &Options<'_>) -> Result<String, Error> {
    let region = variable(options, "AWS_REGION")?;
    let region = region.map_or_else(|| variable(options, "AWS_DEFAULT_REGION"), |region| Ok(Some(region)))?;
    let region = region.unwrap_or_else(|| "us-east-1".into());
    let is_good = region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if is_good { Ok(region) } else { Err(bad("AWS_REGION")) }
}

impl Settings {
    pub(super) fn load(options: &Options<'_>, bucket: &str) -> Result<Settings, Error> {
        let region = region(options)?;
        if flag(options, "AWS_S3_EXPRESS")? {
            return Err(Error::Setting("AWS_S3_EXPRESS: directory buckets are not supported".into()));
        }
        let sends_checksum = match variable(options, "AWS_CHECKSUM_ALGORITHM")?.as_deref() {
            None => false,
            Some("sha256" | "SHA256") => true,
            Some(_) => return Err(bad("AWS_CHECKSUM_ALGORITHM")),
        };
        let encryption = variable(options, "AWS_SERVER_SIDE_ENCRYPTION")?;
        if encryption.as_deref().is_some_and(|kind| !matches!(kind, "AES256" | "aws:kms" | "aws:kms:dsse")) {
            return Err(bad("AWS_SERVER_SIDE_ENCRYPTION"));
        }
        let mut headers = Vec::new();
        if flag(options, "AWS_REQUEST_PAYER")? {
            headers.push(("x-amz-request-payer".to_owned(), "requester".into()));
        }
        Ok(Settings {
            bucket: bucket_url(options, bucket, &region)?,
            region,
            sends_signature: !flag(options, "AWS_SKIP_SIGNATURE")?,
            signs_payload: !flag(options, "AWS_UNSIGNED_PAYLOAD")?,
            sends_checksum,
            headers,
            encryption,
        })
    }
}

/// Returns the URL of the bucket, without a slash at the end.
fn bucket_url(options: &Options<'_>, bucket: &str, region: &str) -> Result<http::Address, Error> {
    let has_own_host = flag(options, "AWS_VIRTUAL_HOSTED_STYLE_REQUEST")?;
    for name in ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"] {
        let Some(endpoint) = variable(options, name)? else { continue };
        let mut url = http::Address::parse(endpoint.as_bytes()).ok_or_else(|| bad(name))?;
        let base = url.target.to_string();
        // A host of the bucket's own is in the endpoint.
        let last = if has_own_host { String::new() } else { format!("/{bucket}") };
        url.target = format!("{}{last}", base.trim_end_matches('/')).into();
        return Ok(url);
    }
    let url = match has_own_host {
        true => format!("https://{bucket}.s3.{region}.amazonaws.com/"),
        false => format!("https://s3.{region}.amazonaws.com/{bucket}"),
    };
    let mut url = http::Address::parse(url.as_bytes()).ok_or_else(|| bad("AWS_REGION"))?;
    if has_own_host {
        url.target.clear();
    }
    Ok(url)
}
