//! System calls. This is the only crate with unsafe code and raw system calls.
//!
//! The crates above access all files in a worktree through a [`Dir`] and a relative path. The
//! kernel resolves the path beneath that directory and follows no symbolic link. Files in the Git
//! directory, and paths from the user, go through [`by_path`], which resolves paths in the usual
//! way.
//!
//! Every error carries the kernel's error number
//! ([`io::Error::raw_os_error`](std::io::Error::raw_os_error)). A call that a signal interrupts is
//! repeated.
#![allow(clippy::disallowed_methods)]

pub mod by_path;
mod capabilities;
pub mod changes;
mod copy;
mod cores;
mod device;
mod dir;
mod dir_mut;
mod entry;
mod file;
mod file_system;
mod handle;
pub mod iconv;
pub mod interrupt;
mod limits;
mod list;
mod map;
mod memory;
pub mod mount;
mod mount_ids;
mod mount_table;
mod mount_users;
pub mod namespace;
mod peer;
mod positioned;
mod process;
pub mod profile;
pub mod quota;
mod read;
mod reason;
mod regex;
mod removal;
mod sigbus;
mod stat;
mod sync;
pub mod terminal;
mod thread_cwd;
mod thread_start;
mod umask;
pub mod user;
mod user_path;
pub mod volume;
mod watch;
pub mod xattr;
mod zone;

pub use capabilities::Capabilities;
pub use copy::{can_reflink, copy, copy_stoppable, copy_up_to, reflink};
pub use cores::cores;
pub use device::is_rotational;
pub use dir::Dir;
pub use dir_mut::DirMut;
pub use entry::{run_main, set_up};
pub use file::File;
pub use file_system::FileSystem;
pub use handle::FileHandle;
pub use limits::{
    descriptor_limit, is_disconnected, is_name_refused, is_out_of_descriptors, is_symlink_refused,
};
pub use list::{Entry, Listing};
pub use map::{Advice, Map};
pub use memory::{Memory, MemoryLeft, bound_heap, memory_left, release_freed, thread_limit, use_huge_pages};
pub use mount_ids::{MountPlace, UniqueMount, has_mount, mount_place, unique_mount};
pub use mount_table::{
    Mount, MountTable, is_fuse, mount_at, mount_id, mount_id_of, mounts, mounts_of, mounts_on,
};
pub use mount_users::{Use, all_uses, other_namespaces, processes_in, users_of_mount};
pub use peer::{peer_groups, peer_pidfd};
pub use positioned::{data_ranges, punch_hole};
pub use process::{
    Ended, end_by_signals, exec, has_read_block_device, is_ignored, is_lock_of_reader, is_running,
    keep_alive, lock, process_exists, read_stdin, run_detached, spawn_detached, spawn_service, stdin_is_file,
    terminate, thread_time, thread_waits, try_lock, try_lock_shared, wait_to_read, wait_to_read_for, waits,
};
pub use read::{read_stoppable, read_to_end, read_up_to};
pub use reason::{is_missing, not_found, reason};
pub use regex::Regex;
pub use removal::{Protection, RemovalFacts};
pub use sigbus::{
    mark_unreadable_maps_reported, survive_unreadable_maps, unreadable_map, unreadable_page_count,
    unreported_unreadable_map,
};
pub use stat::{FileType, Stat, set_executable, set_mode, stat_of};
pub use sync::{
    are_syncs_slow, can_sync_file_system, close, is_writeback_refused, request_writeback, start_writeback,
    sync_data, sync_file, sync_file_system, unwritten_bytes,
};
pub use thread_cwd::{CwdGuard, ProcessCwd, ThreadCwd};
pub use thread_start::{ThreadStart, in_parallel};
pub use umask::umask;
pub use user_path::{Refused, UserPath, os_str};
pub use watch::{Happened, Happening, Watch, Watches};
pub use zone::{Clocks, LocalTime, local_fields, local_time, utc_offset};
