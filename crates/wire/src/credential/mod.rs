//! User names and passwords: the protocol of Git's credential helpers, and prompts at the terminal.
//!
//! Order: [`Keeper::fill`] runs the helpers of `credential.helper` one by one, then the askpass
//! program or a prompt at the terminal. [`Keeper::approve`] reports to the helpers that the server
//! accepted the credential, [`Keeper::reject`] that it refused the credential.
//!
//! Format: git-credential(1), "INPUT/OUTPUT FORMAT".

mod keeper;
mod prompt;

use bstr::{BString, ByteSlice};

pub(super) use keeper::Keeper;

use ::http::{Address, basic, decode};

/// The capabilities of helpers beyond user names and passwords.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Capabilities {
    /// Whole values of `Authorization`.
    authtype: bool,
    /// State of an authentication with several steps.
    state: bool,
}

/// A credential, complete or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Credential {
    protocol: BString,
    host: BString,
    path: Option<BString>,
    pub(super) username: Option<BString>,
    pub(super) password: Option<BString>,
    /// The scheme and value of `Authorization`.
    authtype: Option<BString>,
    credential: Option<BString>,
    is_ephemeral: bool,
    expiry: Option<u64>,
    refresh_token: Option<BString>,
    /// The values of `WWW-Authenticate`.
    pub(super) challenges: Vec<BString>,
    states: Vec<BString>,
    /// True if the helper wants to continue after the server's next response.
    pub(super) is_multistage: bool,
    helpers_can: Capabilities,
    /// The settings were applied.
    is_configured: bool,
    is_approved: bool,
}

impl Credential {
    /// Returns the credential for an address, with the user name and password from the address.
    pub(super) fn of(address: &Address) -> Credential {
        let path = address.target.strip_prefix(b"/").unwrap_or_default();
        let path = path.trim_end_with(|letter| letter == '/');
        Credential {
            protocol: address.scheme().into(),
            host: address.authority().into(),
            path: Some(decode(path)).filter(|path| !path.is_empty()),
            username: address.user.clone(),
            password: address.password.clone(),
            ..Credential::default()
        }
    }

    /// Returns true if nothing is missing.
    pub(super) fn is_complete(&self) -> bool {
        (self.username.is_some() && self.password.is_some())
            || (self.authtype.is_some() && self.credential.is_some())
    }

    /// Returns the value of `Authorization`, for the schemes that need no digest of the request.
    pub(super) fn authorization(&self) -> Option<BString> {
        if let (Some(scheme), Some(value)) = (&self.authtype, &self.credential) {
            return Some(BString::from(format!("{scheme} {value}")));
        }
        let (user, password) = (self.username.as_ref()?, self.password.as_ref()?);
        Some(basic(user, password))
    }

    /// Clears the secret, so that it can be requested again.
    fn forget(&mut self) {
        self.username = None;
        self.clear_secret();
        self.refresh_token = None;
        self.expiry = None;
        self.is_approved = false;
    }

    /// Returns true if a helper chose the scheme of `Authorization`.
    pub(super) fn has_scheme(&self) -> bool {
        self.authtype.is_some() && self.credential.is_some()
    }

    /// Clears the secret, but not the user name.
    pub(super) fn clear_secret(&mut self) {
        (self.password, self.credential, self.authtype, self.is_ephemeral) = (None, None, None, false);
    }

    /// Describes the server in prompts: `protocol://user@host/path`.
    fn description(&self, with_user: bool) -> BString {
        let mut text = BString::from(format!("{}://", self.protocol));
        if let Some(user) = self.username.as_ref().filter(|_| with_user) {
            text.extend_from_slice(&[encode(user).as_slice(), b"@"].concat());
        }
        text.extend_from_slice(&self.host);
        if let Some(path) = &self.path {
            text.extend_from_slice(&[b"/", path.as_slice()].concat());
        }
        text
    }

    /// Returns the input lines for a helper. The error is the name of a value that contains a
    /// newline or NUL.
    fn write(&self, operation: Operation) -> Result<Vec<u8>, &'static str> {
        let mut lines = Vec::new();
        let offered = match operation {
            Operation::Get => Capabilities { authtype: true, state: true },
            Operation::Store | Operation::Erase => self.helpers_can,
        };
        let mut put = |name: &'static str, value: Option<&BString>| {
            let Some(value) = value else { return Ok(()) };
            if value.contains(&b'\n') || value.contains(&0) {
                return Err(name);
            }
            lines.extend_from_slice(&[name.as_bytes(), b"=", value, b"\n"].concat());
            Ok(())
        };
        if offered.authtype {
            put("capability[]", Some(&"authtype".into()))?;
        }
        if offered.state {
            put("capability[]", Some(&"state".into()))?;
        }
        if offered.authtype {
            put("authtype", self.authtype.as_ref())?;
            put("credential", self.credential.as_ref())?;
            put("ephemeral", self.is_ephemeral.then(|| "1".into()).as_ref())?;
        }
        put("protocol", Some(&self.protocol))?;
        put("host", Some(&self.host))?;
        put("path", self.path.as_ref())?;
        put("username", self.username.as_ref())?;
        put("password", self.password.as_ref())?;
        put("oauth_refresh_token", self.refresh_token.as_ref())?;
        put("password_expiry_utc", self.expiry.map(|time| time.to_string().into()).as_ref())?;
        for challenge in &self.challenges {
            put("wwwauth[]", Some(challenge))?;
        }
        if offered.state {
            for state in &self.states {
                put("state[]", Some(state))?;
            }
            put("continue", self.is_multistage.then(|| "1".into()).as_ref())?;
        }
        Ok(lines)
    }

    /// Reads a helper's output. Returns true if the helper sets `quit`.
    fn read(&mut self, answer: &[u8]) -> Result<bool, BString> {
        let mut quit = false;
        let mut capabilities = Capabilities::default();
        for line in answer.lines().take_while(|line| !line.is_empty()) {
            let Some((name, value)) = line.split_once_str("=") else { return Err(line.into()) };
            let text = || Some(BString::from(value));
            match name {
                b"username" => self.username = text(),
                b"password" => self.password = text(),
                b"protocol" => self.protocol = value.into(),
                b"host" => self.host = value.into(),
                b"path" => self.path = text(),
                b"authtype" => self.authtype = text(),
                b"credential" => self.credential = text(),
                b"ephemeral" => self.is_ephemeral = is_true(value),
                b"capability[]" => match value {
                    b"authtype" => capabilities.authtype = true,
                    b"state" => capabilities.state = true,
                    _ => {}
                },
                b"wwwauth[]" => self.challenges.push(value.into()),
                b"state[]" => self.states.push(value.into()),
                b"continue" => self.is_multistage = is_true(value),
                b"password_expiry_utc" => {
                    self.expiry =
                        value.to_str().ok().and_then(|text| text.parse().ok()).filter(|time| *time > 0);
                }
                b"oauth_refresh_token" => self.refresh_token = text(),
                b"quit" => quit = is_true(value),
                // A later version of the protocol may have more keys.
                _ => {}
            }
        }
        self.helpers_can = capabilities;
        Ok(quit)
    }
}

/// The operations of a helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Get,
    Store,
    Erase,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Operation::Get => "get",
            Operation::Store => "store",
            Operation::Erase => "erase",
        }
    }
}

fn is_true(value: &[u8]) -> bool {
    format::config::parse_bool(Some(value.as_bstr())).unwrap_or(false)
}

/// Percent-encodes characters that are not allowed in the user name of a URL.
fn encode(text: &[u8]) -> BString {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte);
    let mut encoded = BString::default();
    for &byte in text {
        if plain(byte) {
            encoded.push(byte)
        } else {
            encoded.extend_from_slice(format!("%{byte:02x}").as_bytes())
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credential(address: &str) -> Credential {
        Credential::of(&Address::parse(address.as_bytes()).expect("valid"))
    }

    #[test]
    fn writes_and_reads_lines() {
        let mut one = credential("https://example.com:444/a/b.git/");
        let lines = one.write(Operation::Get).expect("no line ends");
        let expected =
            "capability[]=authtype\ncapability[]=state\nprotocol=https\nhost=example.com:444\npath=a/b.git\n";
        assert_eq!(lines.as_bstr(), expected);
        let answer = b"capability[]=authtype\nauthtype=Bearer\ncredential=x=y\nnew=1\n\nusername=z\n";
        assert_eq!(one.read(answer), Ok(false));
        assert!(one.is_complete());
        assert_eq!(one.authorization(), Some("Bearer x=y".into()));
        assert_eq!(one.username, None);
        assert_eq!(one.read(b"nonsense\n"), Err("nonsense".into()));
        assert_eq!(one.read(b"quit=1\n"), Ok(true));
    }

    #[test]
    fn refuses_line_ends() {
        let one = credential("https://us%0aer@example.com/");
        assert_eq!(one.write(Operation::Get), Err("username"));
    }

    #[test]
    fn describes_places() {
        let one = credential("https://us%40er:pass@example.com/");
        assert_eq!(one.description(false), "https://example.com");
        assert_eq!(one.description(true), "https://us%40er@example.com");
        assert_eq!(one.authorization(), Some("Basic dXNAZXI6cGFzcw==".into()));
    }
}
