//! The commands, one file each.

use bstr::{BStr, BString, ByteSlice as _};

use crate::{
    session::invocation::Invocation,
    shim,
    term::{
        args::{Stop, Survey},
        console::{self, text},
        failure::Failure,
    },
};

mod adopt;
pub(crate) mod branch;
pub(crate) mod check_attr;
mod check_ignore;
pub(crate) mod checkout;
mod checkout_index;
mod clean;
pub(crate) mod clone;
pub(crate) mod diff;
pub(crate) mod ls_files;
mod names;
pub(crate) mod paths;
mod pathspec_file;
pub(crate) mod read_tree;
pub(crate) mod reason;
mod reset;
mod sparse_checkout;
pub(crate) mod status;
mod trash;
mod unseen;
mod update_index;
mod upstream;
pub(crate) mod worktree;

/// Runs the command that was named. Returns its exit code.
pub(crate) fn dispatch(run: &Invocation) -> Result<u8, Failure> {
    let result = run_named(run);
    // A command that is to be handed over has printed nothing.
    if let (Some(objects), false) = (run.objects.get(), matches!(result, Err(Failure::Unserved(_)))) {
        console::late_complaints(objects);
    }
    result
}

fn run_named(run: &Invocation) -> Result<u8, Failure> {
    match run.command.as_bytes() {
        b"checkout" => checkout::checkout(run),
        b"switch" => checkout::switch(run),
        b"restore" => checkout::restore(run),
        b"reset" => reset::run(run),
        b"read-tree" => read_tree::run(run),
        b"checkout-index" => checkout_index::run(run),
        b"check-attr" => check_attr::run(run),
        b"check-ignore" => check_ignore::run(run),
        b"clean" => clean::run(run),
        b"ls-files" => ls_files::run(run),
        b"clone" => clone::run(run),
        b"diff-files" => diff::files(run),
        b"diff-index" => diff::index(run),
        b"worktree" => worktree::run(run),
        b"sparse-checkout" => sparse_checkout::run(run),
        b"status" => status::run(run),
        b"adopt" => adopt::run(run),
        b"update-index" => update_index::run(run),
        b"shim" => shim::command(run),
        b"doctor" => shim::doctor(run),
        b"version" => {
            console::out(concat!("sapwood version ", env!("CARGO_PKG_VERSION")));
            Ok(0)
        }
        b"help" => {
            console::out(help());
            Ok(0)
        }
        b"" => {
            console::out(help());
            Ok(1)
        }
        name if name == trash::COMMAND.as_bytes() => trash::run(run),
        name => {
            console::note(text!("sapwood: '", name, "' is not a sapwood command. See 'sapwood --help'."));
            Ok(1)
        }
    }
}

/// The options and arguments of an invocation, for who only wants to know what was asked for. `None` if
/// it is no command of Git's that sapwood has.
pub(crate) fn survey(command: &BStr, args: &[BString]) -> Option<Result<Survey, Stop>> {
    Some(match command.as_bytes() {
        b"checkout" => checkout::survey(checkout::Dress::Checkout, args),
        b"switch" => checkout::survey(checkout::Dress::Switch, args),
        b"restore" => checkout::survey(checkout::Dress::Restore, args),
        b"reset" => reset::survey(args),
        b"read-tree" => read_tree::survey(args),
        b"checkout-index" => checkout_index::survey(args),
        b"check-attr" => check_attr::survey(args),
        b"check-ignore" => check_ignore::survey(args),
        b"clean" => clean::survey(args),
        b"ls-files" => ls_files::survey(args),
        b"clone" => clone::survey(args),
        b"diff-files" => diff::survey(diff::Dress::Files, args),
        b"diff-index" => diff::survey(diff::Dress::Index, args),
        b"worktree" => worktree::survey(args),
        b"sparse-checkout" => sparse_checkout::survey(args),
        b"status" => status::survey(args),
        b"update-index" => update_index::survey(args),
        _ => return None,
    })
}

fn help() -> String {
    format!("{}\n\n{COMMANDS}", crate::term::args::USAGE)
}

const COMMANDS: &str = "\
Git's commands that look at, fill and change a worktree:

   status     Show the working tree status
   clone      Clone a repository into a new directory
   checkout   Switch branches or restore working tree files
   switch     Switch branches
   reset      Set `HEAD` or the index to a known state
   restore    Restore working tree files
   clean      Remove untracked files from the working tree
   worktree   Manage multiple working trees
   read-tree  Read trees into the index
   checkout-index
              Write files of the index
   sparse-checkout
              Reduce your working tree to a subset of tracked files
   update-index
              Register file contents in the working tree to the index

and that look at one:

   check-attr
              Display gitattributes information
   check-ignore
              Debug gitignore / exclude files
   diff-files Compare files in the working tree and the index
   diff-index Compare a tree to the working tree or index
   ls-files   Show information about files in the index and the working tree

Beside them:

   adopt      Take a worktree from a cache or a copy for the index's
   shim       Put a `git` first on PATH that is sapwood where it can be
   doctor     Show what is native in a repository, and what slows it down

'sapwood <command> -h' lists the options of a command; --dry-run with any of
them prints what would be done and changes nothing.";
