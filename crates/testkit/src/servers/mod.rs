//! Servers for tests. Each serves on a free port of the loopback, works for root and for an
//! ordinary user, and ends when it is dropped.
//!
//! - [`Nginx`]: http and https.
//! - [`Daemon`]: `git daemon`.
//! - [`Registry`]: Debian's `docker-registry`.
//! - `S3`: `s3s-fs`, with the feature `s3`.
//! - [`Sshd`]: OpenSSH's server, with keys of its own.
//! - [`Proxy`]: stands before a server: slow, far away, and unreliable.
//! - [`Scripted`]: says whatever a test wants in Git's protocol.
//! - [`Slurm`]: a cluster of several nodes.
//! - [`Acceptor`]: any server that a closure plays.
//!
//! The sockets are bound here. The programs inherit them, or are started once a connection, as
//! inetd starts them. So a port is never taken by somebody else.

mod acceptor;
mod certificates;
mod daemon;
mod inetd;
mod nginx;
mod proxy;
mod registry;
#[cfg(feature = "s3")]
mod s3;
#[cfg(feature = "s3")]
mod s3_files;
pub mod scripted;
mod slurm;
mod sshd;

pub use acceptor::Acceptor;
pub use daemon::Daemon;
pub use nginx::{Nginx, NginxOptions};
pub use proxy::{Fault, Line, Moment, Proxy, Trouble};
pub use registry::{Registry, RegistryAccess};
#[cfg(feature = "s3")]
pub use s3::S3;
pub use scripted::Scripted;
pub use slurm::Slurm;
pub use sshd::Sshd;
