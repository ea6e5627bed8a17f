//! The table of settings, a module for each section.

mod core_and_advice;
mod differences;
mod general;
mod transports;

use super::Setting;

pub use core_and_advice::{advice, core};
pub use differences::{color, column, diff, status};
pub use general::{
    add, alias, attr, author, checkout, clean, commit, commit_graph, committer, extensions, feature, filter,
    format, fsmonitor, gc, gpg, help, hook, i18n, include, includeif, index, init, lfs, log, maintenance,
    merge, midx, notes, pack, pager, promisor, rebase, rerere, safe, sapwood, sparse, split_index, stash,
    trace2, trailer, user, versionsort, worktree,
};
pub use transports::{
    branch, clone, fetch, http, protocol, pull, push, receive, remote, remotes, sideband, ssh, submodule,
    transfer, uploadpack,
};

/// All settings, by section.
pub(super) const ALL: &[&[Setting]] = &[
    add::ALL,
    advice::ALL,
    alias::ALL,
    attr::ALL,
    author::ALL,
    branch::ALL,
    checkout::ALL,
    clean::ALL,
    clone::ALL,
    color::ALL,
    column::ALL,
    commit::ALL,
    commit_graph::ALL,
    committer::ALL,
    core::ALL,
    diff::ALL,
    extensions::ALL,
    feature::ALL,
    fetch::ALL,
    filter::ALL,
    format::ALL,
    fsmonitor::ALL,
    gc::ALL,
    gpg::ALL,
    help::ALL,
    hook::ALL,
    http::ALL,
    i18n::ALL,
    include::ALL,
    includeif::ALL,
    index::ALL,
    init::ALL,
    lfs::ALL,
    log::ALL,
    maintenance::ALL,
    merge::ALL,
    midx::ALL,
    notes::ALL,
    pack::ALL,
    pager::ALL,
    promisor::ALL,
    protocol::ALL,
    pull::ALL,
    push::ALL,
    rebase::ALL,
    receive::ALL,
    remote::ALL,
    remotes::ALL,
    rerere::ALL,
    safe::ALL,
    sapwood::ALL,
    sideband::ALL,
    sparse::ALL,
    split_index::ALL,
    ssh::ALL,
    stash::ALL,
    status::ALL,
    submodule::ALL,
    trace2::ALL,
    trailer::ALL,
    transfer::ALL,
    uploadpack::ALL,
    user::ALL,
    versionsort::ALL,
    worktree::ALL,
];
