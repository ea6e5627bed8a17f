//! Tests of the program against Git: a command has equal results in equal repositories with both
//! programs.

#![allow(clippy::disallowed_methods, clippy::print_stdout)]

mod add;
mod adopt;
mod alternates;
mod args;
mod base;

mod behind_links;
mod branch_names;
mod bundles;
mod check_attr;
mod check_ignore;
mod checkpoint;
mod ci;
mod clean;
mod clone;
mod clone_base;
mod clone_collisions;
mod clone_pipeline;
mod commit;
mod commit_graph;
mod commit_tree;
mod compare;
mod completion;
mod config;
mod conflicts;
mod count_objects;
mod cruft;
mod cuts;
mod diff;
mod diff_lines;
mod diff_random;
mod doctor;
mod documents;
mod edits;
mod environments;
mod examples;
mod faults;
mod fetch;
mod fetch_submodules;
mod filters;
mod for_each_ref;
mod force;
mod fsck_objects;
mod fsmonitor;
mod fsync_settings;
mod guard;
mod hard_links;
mod hash_object;
mod help;
mod hooks;
mod hostile;
mod hostile_servers;
mod ignore_stat;
mod imports;
mod index_pack;
mod init;
mod interrupt;
mod killed;
mod large_files;
mod local_state;
mod ls_files;
mod ls_remote;
mod maintenance;
mod matrix;
mod mktree;
mod multi_pack_index;
mod mv;
mod objects;
mod old_gits;
mod owners;
mod packaging;
mod parallel_settings;
mod partial;
mod paths;
mod pathspec_attr;
mod pathspec_file;
mod pathspec_prefix;
mod patterns;
mod power;
mod preflight;
mod profile;
mod progress;
mod prune_packed;
mod pull;
mod random;
mod read_tree;
mod readme;
mod recursion;
mod refs;
mod refspecs;
mod refused_settings;
mod reset;
mod rev_parse;
mod rm;
mod round_trips;
mod schema;
mod scripted;
mod seen;
mod settings_place;
mod shared;
mod shell_init;
mod shim;
mod show_ref;
mod sign;
mod sparse;
mod sparse_index;
mod split_index;
mod started_in;
mod stash;
mod status;
mod status_costs;
mod submodules;
mod switch;
mod symbolic_head;
mod symbolic_ref;
mod templates;
mod trace;
mod transports;
mod tree_limits;
mod trees;
mod unreadable_state;
mod unserved;
mod untracked_cache;
mod update_index;
mod update_ref;
mod upgrade;
mod user_paths;
mod versions;
mod waits;
mod walk;
mod warnings;
mod wire_details;
mod workspace;
mod worktree;
mod write_tree;
mod writers;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

/// The program under test.
const SAPWOOD: &str = env!("CARGO_BIN_EXE_sapwood");

/// Adds index entries from lines for `update-index --index-info`.
fn index_info(repo: &testkit::Repo<'_>, lines: &str) {
    repo.write(".git/lines", lines);
    let script = "git update-index --index-info <.git/lines";
    let shell = repo.command("sh".as_ref()).args(["-c", script]).status().expect("a shell");
    assert!(shell.success(), "the index takes these");
}

/// Returns true if the slow matrices run in full (`SAPWOOD_TEST_FULL`). Otherwise a slice of them
/// runs.
fn full() -> bool {
    std::env::var_os("SAPWOOD_TEST_FULL").is_some()
}

fn common_factor(one: usize, other: usize) -> usize {
    if other == 0 { one } else { common_factor(other, one % other) }
}

/// Runs `check` on two threads for all cases, or, unless [`full`], for `slice` of them spread
/// evenly. Fails at the end and lists the cases that failed.
fn bounded<C: std::fmt::Display + Sync>(cases: Vec<C>, slice: usize, check: impl Fn(&C) + Sync) {
    // A stride that shares no factor with the number of cases covers every value of each dimension.
    let least = if full() { 1 } else { (cases.len() / slice).max(1) };
    let stride = (least..).find(|stride| common_factor(*stride, cases.len()) == 1).expect("a prime");
    let chosen: Vec<&C> = cases.iter().step_by(stride).collect();
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(case) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if catch_unwind(AssertUnwindSafe(|| check(case))).is_err() {
                        failed.lock().expect("not poisoned: panics are caught").push(case.to_string());
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("not poisoned: panics are caught");
    println!("{} of {} cases run, {} failed", chosen.len(), cases.len(), failed.len());
    assert!(failed.is_empty(), "{} cases failed:\n{}", failed.len(), failed.join("\n"));
}
