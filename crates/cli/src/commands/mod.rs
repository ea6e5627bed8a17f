//! The commands: a folder and a record for each. [`COMMANDS`] is the table.

use bstr::BStr;

use self::record::Command;
pub(crate) use crate::session::settings::rules;
use crate::{
    session::invocation::Invocation,
    term::{
        console::{self, text},
        failure::Failure,
    },
};

mod add;
mod adopt;
mod base;
pub(crate) mod check_attr;
mod check_ignore;
pub(crate) mod checkout;
mod checkout_index;
pub(crate) mod checkpoint;
mod ci;
mod clean;
pub(crate) mod clone;
mod commit;
mod commit_graph;
mod commit_tree;
mod compare;
mod config;
mod count_objects;
pub(crate) mod diff;
mod diffstat;
mod fetch;
mod for_each_ref;
mod hash_object;
mod index_pack;
mod init;
pub(crate) mod ls_files;
mod ls_remote;
mod mktree;
mod multi_pack_index;
mod mv;
mod names;
mod nested;
mod object_dirs;
pub(crate) mod obstacles;
pub(crate) mod paths;
mod pathspec_file;
mod prune_packed;
mod pull;
pub(crate) mod read_tree;
pub(crate) mod reason;
pub(crate) mod record;
mod reset;
mod rev_parse;
mod rm;
mod shell_init;
mod show_ref;
mod sparse_checkout;
mod stash;
pub(crate) mod status;
mod submodule;
mod symbolic_ref;
mod trash;
mod update_index;
mod update_ref;
pub(crate) mod workspace;
pub(crate) mod worktree;
mod write_tree;

/// All commands except those of the shim, in the order of `help`.
pub(crate) const COMMANDS: &[Command] = &[
    status::COMMAND,
    init::COMMAND,
    clone::COMMAND,
    fetch::COMMAND,
    pull::COMMAND,
    checkout::COMMAND,
    checkout::SWITCH_COMMAND,
    add::COMMAND,
    mv::COMMAND,
    rm::COMMAND,
    reset::COMMAND,
    checkout::RESTORE_COMMAND,
    clean::COMMAND,
    commit::COMMAND,
    stash::COMMAND,
    worktree::COMMAND,
    submodule::COMMAND,
    submodule::HELPER,
    read_tree::COMMAND,
    checkout_index::COMMAND,
    sparse_checkout::COMMAND,
    update_index::COMMAND,
    update_ref::COMMAND,
    symbolic_ref::COMMAND,
    hash_object::COMMAND,
    mktree::COMMAND,
    write_tree::COMMAND,
    commit_tree::COMMAND,
    show_ref::COMMAND,
    for_each_ref::COMMAND,
    check_attr::COMMAND,
    check_ignore::COMMAND,
    config::COMMAND,
    count_objects::COMMAND,
    prune_packed::COMMAND,
    multi_pack_index::COMMAND,
    index_pack::COMMAND,
    commit_graph::COMMAND,
    rev_parse::COMMAND,
    diff::FILES,
    diff::INDEX,
    ls_files::COMMAND,
    ls_remote::COMMAND,
    checkpoint::COMMAND,
    checkpoint::UNDO,
    checkpoint::REDO,
    checkpoint::LIST,
    checkpoint::FORK,
    workspace::COMMAND,
    base::COMMAND,
    adopt::COMMAND,
    ci::COMMAND,
    shell_init::COMMAND,
    compare::COMMAND,
    trash::COMMAND,
];

/// Returns the fetcher of missing objects for a run.
pub(crate) fn lazy_fetch(run: &Invocation) -> std::sync::Arc<dyn repo::LazyFetch> {
    std::sync::Arc::new(fetch::Fetcher::of(run))
}

/// Returns the command called `name`.
pub(crate) fn find(name: &BStr) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| name == command.name)
}

/// Runs `command`. Returns its exit code.
pub(crate) fn start(run: &Invocation, command: &'static Command) -> Result<u8, Failure> {
    let result = command.start(run);
    // A command that will be handed over has printed nothing.
    if let (Some(objects), false) = (run.objects.get(), matches!(result, Err(Failure::Unserved(_)))) {
        console::print_late_object_store_errors(objects);
    }
    result
}

/// Prints the message for an unknown command, and returns its failure.
pub(crate) fn unknown(name: &BStr) -> Failure {
    console::eprint_line(text!("sapwood: '", name, "' is not a sapwood command. See 'sapwood --help'."));
    Failure::Reported(1)
}
