//! `sapwood checkout`, `switch` and `restore`: one command in three dresses, as in Git.

use crate::{failure::Failure, global::Invocation};

/// `sapwood checkout`
pub(crate) fn checkout(_run: &Invocation) -> Result<u8, Failure> {
    Err(Failure::unsupported("checkout"))
}
/// `sapwood switch`
pub(crate) fn switch(_run: &Invocation) -> Result<u8, Failure> {
    Err(Failure::unsupported("switch"))
}
/// `sapwood restore`
pub(crate) fn restore(_run: &Invocation) -> Result<u8, Failure> {
    Err(Failure::unsupported("restore"))
}
