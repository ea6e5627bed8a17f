//! The maker of a workspace's mounts: this process, or the mount service for users who may not
//! mount.
//!
//! The record names the door. It decides the form of the upper layer's marks too: the service uses
//! attributes that users can read, so root mounts such a workspace in the same form.

use std::path::{Path, PathBuf};

use mountd::client;
use sys::mount::{Attributes, Unmount};

use super::{
    Error,
    error::{refused, words},
};
use crate::workspace::upper::Form;

/// The socket of the machine's mount service.
pub const SERVICE: &str = client::SOCKET;

/// The maker of a workspace's mounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Door {
    /// A process that has the right to mount.
    #[default]
    Own,
    /// The mount service at this socket, for a process without that right.
    Service(PathBuf),
}

impl Door {
    /// Returns the door for a mount that no record describes: the service of the machine made it,
    /// if this process may not mount.
    pub(in crate::workspace) fn of_machine() -> Door {
        Door::Service(SERVICE.into())
    }

    /// Returns the socket of the service, if this process needs the service.
    pub(super) fn service(&self) -> Option<&Path> {
        match self {
            Door::Service(socket) if !may_mount() => Some(socket),
            _ => None,
        }
    }

    /// Returns the attributes with which an overlay marks deletions.
    pub(super) fn attributes(&self) -> Attributes {
        match self {
            Door::Own => Attributes::Trusted,
            Door::Service(_) => Attributes::User,
        }
    }

    /// Returns the form of the upper layer.
    pub(in crate::workspace) fn form(&self) -> Form {
        match self {
            Door::Own => Form::Trusted,
            Door::Service(_) => Form::User,
        }
    }

    /// Shows the Git directory `git` at `place`, which is `.git` of the overlay at `top`.
    pub(super) fn show_git(&self, git: &Path, top: &Path, place: &Path) -> Result<(), Error> {
        match self.service() {
            Some(socket) => asked(socket, place, |service| service.show_git(git, top)),
            None => sys::mount::bind(git, place).map_err(Error::io("mount", place)),
        }
    }

    /// Ends the mount at `path`.
    pub(in crate::workspace) fn unmount(&self, path: &Path, how: Unmount) -> std::io::Result<()> {
        let Some(socket) = self.service() else { return sys::mount::unmount(path, how) };
        let ended = client::Service::connect(socket)
            .and_then(|service| service.unmount(path, matches!(how, Unmount::Lazy)));
        ended.map_err(|error| match error {
            client::Error::Silent(source) | client::Error::Open { source, .. } => source,
            client::Error::Refused(answer) if answer.code == mountd::wire::Code::Kernel => {
                std::io::Error::from_raw_os_error(answer.errno)
            }
            client::Error::Refused(answer) => std::io::Error::other(words(&answer)),
        })
    }
}

/// Sends a request for a mount at `at` to the service.
pub(super) fn asked(
    socket: &Path,
    at: &Path,
    ask: impl FnOnce(&client::Service) -> Result<(), client::Error>,
) -> Result<(), Error> {
    let answered = client::Service::connect(socket).and_then(|service| ask(&service));
    answered.map_err(|error| refused(error, at, socket))
}

/// Returns an error with the reason if the service at `socket` does not serve this process.
pub(super) fn serves(socket: &Path) -> Result<(), String> {
    // The kernel takes a layer in a mount that is attached nowhere since then.
    if sys::user::kernel_version() < (6, 15) {
        return Err("this user may not mount, and the mount service takes Linux 6.15".to_owned());
    }
    let answered = client::Service::connect(socket).and_then(|service| service.hello());
    answered.map_err(|error| match error {
        client::Error::Silent(_) => format!(
            "this user may not mount, and no mount service answers at '{}'; root starts it: systemctl enable \
             --now sapwood-mountd.socket",
            socket.display()
        ),
        client::Error::Refused(answer) => {
            format!("this user may not mount, and the mount service refuses: {}", words(&answer))
        }
        other => format!("this user may not mount, and {other}"),
    })
}

/// Returns true if this process may mount.
pub(super) fn may_mount() -> bool {
    sys::mount::may_mount("overlay").is_ok()
}
