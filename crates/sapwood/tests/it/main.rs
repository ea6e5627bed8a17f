//! The library, used as a program of somebody else would use it.

#![allow(missing_docs)]
// Tests use the file system directly.
#![allow(clippy::disallowed_methods)]

mod add;
mod base;
mod check_attr;
mod check_ignore;
mod checkout_index;
mod checkpoint;
mod clean;
mod clone;
mod commit;
mod commit_graph;
mod config;
mod diff;
mod examples;
mod fast_forward;
mod fetch;
mod for_each_ref;
mod hash_object;
mod index_pack;
mod init;
mod layout;
mod ls_files;
mod ls_remote;
mod multi_pack_index;
mod new_objects;
mod object_files;
mod pull;
mod reset;
mod restore;
mod rev_parse;
mod rm;
mod show_ref;
mod sparse_checkout;
mod stash;
mod status;
mod steps;
mod submodule;
mod switch;
mod symbolic_ref;
mod update_index;
mod update_ref;
mod workspace;
mod workspace_classes;
mod workspace_gc;
mod workspace_quota;
mod worktree;

use std::{cell::RefCell, collections::HashMap, ffi::OsString};

use sapwood::{Events, Notice, Pathspecs, Repository, bstr::BString};
use testkit::{Oracle, Repo};

/// Opens the repository of a sandbox with the sandbox's environment.
fn open(repo: &Repo<'_>) -> Repository {
    open_with(repo, &[])
}

/// Like [`open`], with more variables of the environment.
fn open_with(repo: &Repo<'_>, more: &[(&str, &str)]) -> Repository {
    let command = repo.git_command();
    let variables = command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
    let more = more.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let variables: HashMap<OsString, OsString> = variables.chain(more).collect();
    Repository::open(&repo.path, variables).expect("a repository")
}

/// Two copies of a repository. Git changes one, the library the other one.
fn silent_oracle(setup: impl Fn(&Repo<'_>)) -> Oracle {
    Oracle::new("no program", setup)
}

/// Parses pathspecs that are given in the root of the worktree.
fn pathspecs(specs: &[&str]) -> Pathspecs {
    let specs: Vec<BString> = specs.iter().map(|spec| BString::from(*spec)).collect();
    Pathspecs::parse(&specs, "".into(), "".into(), Default::default()).expect("valid pathspecs")
}

/// Keeps the texts of all notices.
#[derive(Default)]
struct Heard(RefCell<Vec<String>>);

impl Events for Heard {
    fn notice(&self, notice: Notice) {
        self.0.borrow_mut().push(notice.to_string());
    }
}
