//! Workspaces as volumes of containers. One core makes and removes volumes, and two doors lead to
//! it: the node service of CSI for Kubernetes, and the plugin protocol of Docker and Podman.
//!
//! - [`Settings`]: directories, programs, and what a volume may ask for;
//! - [`Volume`], [`Secrets`]: the wish of a pod or a user, checked;
//! - [`Volumes`]: publish, unpublish, and the volumes with names of the plugin;
//! - [`serve()`]: the sockets;
//! - [`become_user`]: the start of each child process, with the ids of a volume.
//!
//! The work on repositories is done by the program `sapwood`, a child process for each operation.
//! A volume is a sealed workspace, so its files and its `.git` lie below one directory. Everything
//! that a kill could leave behind is found from the records in the state directory.
//!
//! Design: docs/design/volumes.md.

mod budget;
mod child;
pub mod door;
mod error;
mod named;
mod publish;
mod repository;
mod secrets;
mod serve;
mod settings;
mod state;
mod volume;
mod volumes;

pub use child::{BECOME, become_user};
pub use error::Error;
pub use secrets::Secrets;
pub use serve::{listen, serve};
pub use settings::Settings;
pub use volume::{Unsaved, Volume};
pub use volumes::Volumes;
