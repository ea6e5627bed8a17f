//! HTTP/1.1 for all of sapwood: Git's transport and the remotes of bases.
//!
//! Order: [`Address`] parses a URL, [`Proxies`] chooses a proxy for it, [`connect()`] makes a
//! connection, a [`Conversation`] sends requests on it and reads the responses. [`Client`] keeps
//! connections between requests, and follows redirects.
//!
//! Everything blocks, in the caller's thread. A wait ends soon after the interrupt of its [`Watch`]
//! is set. Servers are not trusted: heads, lines and numbers are bounded, and a body that ends too
//! early is an error. Formats: RFC 9110, RFC 9112.

mod address;
mod broken;
mod client;
mod connect;
mod dial;
mod interrupt;
mod kept;
mod message;
mod proxy;
mod stream;
pub mod tls;

pub use address::{Address, decode, form, without_user};
pub use broken::{Broken, Cause};
pub use client::{Body, Client, Parts, Request, Response};
pub use connect::{Connected, Peer, Route, connect};
pub use interrupt::{Interrupt, Interrupted, interruptible, sleep};
pub use message::{Conversation, Failure, Head, Message};
pub use proxy::{Proxies, Proxy};
pub use stream::{AddressFamily, Watch};

/// Returns the value of `Authorization` for a user and a password.
pub fn basic(user: &[u8], password: &[u8]) -> bstr::BString {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    format!("Basic {}", STANDARD.encode([user, b":", password].concat())).into()
}

/// Returns true for a header that cannot be misread as the end of the request's head.
pub fn is_header(name: &str, value: &[u8]) -> bool {
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(token) && !value.iter().any(|byte| b"\r\n\0".contains(byte))
}
