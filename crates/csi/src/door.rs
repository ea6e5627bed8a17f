//! The doors to volumes: protocols that others defined.

pub mod grpc;
pub mod messages;
pub mod node;
pub mod plugin;
