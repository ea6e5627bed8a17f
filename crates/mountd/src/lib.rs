//! The mount service: it mounts workspaces for users who have no right to mount.
//!
//! - [`wire`]: the messages;
//! - [`client`]: a user's side, which opens everything and passes descriptors;
//! - [`serve()`]: accepts connections, and starts a process for each;
//! - [`worker`]: such a process, which takes the files of the user, gives up all rights but three
//!   capabilities that it raises where a call needs them, and serves one connection;
//! - `peer`: the process that connected; `checks`: who owns a descriptor, and where it leads;
//!   [`disks`]: on which file systems; `image`: the copy of a checked image; `mounts`: the mounts;
//!   `table`: the owner of each mount; `confine`: rights and system calls.
//!
//! Promises: no path of a user is resolved, except the last component of a mount point. No byte of
//! an image that a user wrote reaches the kernel: the service mounts an image that it made itself
//! from the tree in the user's. A request that fails leaves no mount.
//!
//! Design: docs/design/workspace-helper.md. Boundary and tests: docs/security.md.

mod checks;
pub mod client;
mod confine;
pub mod disks;
mod image;
mod mounts;
mod peer;
mod policy;
mod serve;
mod table;
pub mod wire;
pub mod worker;

pub use policy::Policy;
pub use serve::{REFUSE, WORKER, listen, serve};
