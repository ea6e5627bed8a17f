//! Servers for tests. Each listens on a free port of the loopback, works for root and for an
//! ordinary user, and ends when the value is dropped.
//!
//! - [`Nginx`]: http and https.
//! - [`Daemon`]: `git daemon`.
//! - [`Registry`]: Debian's `docker-registry`.
//! - `S3`: `s3s-fs`, with the feature `s3`.
//! - [`Sshd`]: OpenSSH's server, with keys of its own.
//! - [`Proxy`]: a proxy before a server, with latency, a limited rate and faults.
//! - [`Scripted`]: sends any bytes that a test chooses, in Git's protocol.
//! - [`Slurm`]: a cluster of several nodes.
//! - [`Acceptor`]: any server that is implemented as a closure.
//!
//! The sockets are bound in this process. The programs inherit them, or are started once per
//! connection, like those of inetd. So no other process can take a port.

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
