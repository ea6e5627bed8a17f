//! The service as an orchestrator sees it: its sockets, and the directories of volumes.

#![allow(clippy::disallowed_methods, clippy::print_stdout)]

mod floors;
mod killed;
mod kubelet;
mod manifests;
mod many;
mod plugin;
mod podman;
mod sanity;
mod scene;
mod secrets;
