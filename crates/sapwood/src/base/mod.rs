//! Bases: the files of one commit, built once for all workspaces of it, and shared between
//! machines over object stores, registries, web servers and directories.
//!
//! - [`push`], [`pull`], [`verify`], [`list`], [`lease`], [`prune`]: a base and a remote;
//! - [`mirror`]: the bases of branches that move;
//! - [`add`], [`kept`]: the bases of a base directory on this machine;
//! - [`Access`], [`Site`]: the settings and the place of a transfer.
//!
//! A plan of [`list`], [`lease`] and [`prune`] needs no repository: [`Access`] says which settings
//! hold. Planning contacts no remote.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, base::{pull, push}};
//!
//! let repository = Repository::open("repo".as_ref(), std::env::vars_os().collect())?;
//! let remote = Some("file:///srv/bases".into());
//! let request = push::Request { remote: remote.clone(), ..push::Request::default() };
//! push::plan(&repository, request)?.run(&Silent)?;
//! let request = pull::Request { remote, ..pull::Request::default() };
//! println!("{}", pull::plan(&repository, request)?.run(&Silent)?.base.dir.display());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Design: docs/design/fleet.md.

mod access;
pub mod add;
pub(crate) mod bring;
mod bundle;
pub mod kept;
pub mod lease;
pub mod list;
pub mod mirror;
pub mod prune;
pub mod pull;
pub mod push;
mod signature;
mod site;
pub mod time;
pub mod verify;

pub use access::Access;
pub use base_store::{Address, Remote};
pub use engine::workspace::base::{Base, Kind};
pub use site::Site;
