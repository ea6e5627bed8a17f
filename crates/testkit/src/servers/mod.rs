//! Real servers for tests. Each one listens on a free port of 127.0.0.1, works for root and for an
//! ordinary user, and ends when its value is dropped.

mod certificates;
mod nginx;

pub use nginx::{Nginx, NginxOptions};
