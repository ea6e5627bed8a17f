//! `sapwood count-objects`: the number of loose objects, and with `-v` the content of the object
//! directory.
//!
//! Order: arguments; files that linked worktrees should not have; loose objects; packs; the output.
//! Nothing is changed. As in Git, a file that cannot be examined is garbage.

mod packs;

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use bstr::{BString, ByteSlice as _};
use repo::Repository;
use sapwood::ObjectId;
use sys::by_path;

use crate::{
    commands::{
        obstacles::{LOOKING, READING},
        record::{Command, Group, Traits},
    },
    session::{
        invocation::Invocation,
        settings::refused::{self, Reader},
    },
    term::{
        args::{Grammar, Native::Both, Opt, Set, Table},
        console::{self, text},
        failure::Failure,
        notice,
        text::{bytes::readable, os_error, quote},
    },
};

/// The record of `count-objects`.
pub(super) const COMMAND: Command = Command {
    name: "count-objects",
    summary: "Count unpacked number of objects and their disk consumption",
    about: "Counts loose objects and the space that they take. With `-v` it also counts packs, objects in \
            both, and files in the object directory that do not belong there.",
    group: Group::Scripts,
    syntax: &TABLE,
    traits: Traits { starts_no_program: true, ..Command::BASE.traits },
    settings: &[LOOKING],
    checks: &[READING],
    run,
    ..Command::BASE
};

const TABLE: Table<Set<Request>> = Table {
    usage: &["sapwood count-objects [-v] [-H | --human-readable]"],
    options: &[
        Opt::flag("-v, --verbose", "be verbose", |request: &mut Request| &mut request.verbose).native(Both),
        Opt::flag("-H, --human-readable", "print sizes in human readable format", |request: &mut Request| {
            &mut request.readable
        })
        .native(Both),
    ],
    grammar: Grammar::Mixed,
};

#[derive(Default)]
struct Request {
    verbose: bool,
    readable: bool,
}

/// Paths that Git reports as garbage in the Git directory of a linked worktree, in Git's order.
const SHARED_PATHS: &[&str] = &[
    "branches",
    "common",
    "hooks",
    "info",
    "info/sparse-checkout",
    "logs/refs/bisect",
    "logs/refs/rewritten",
    "logs/refs/worktree",
    "lost-found",
    "objects",
    "refs",
    "refs/bisect",
    "refs/rewritten",
    "refs/worktree",
    "remotes",
    "worktrees",
    "rr-cache",
    "svn",
    "config",
    "packed-refs",
    "shallow",
];

/// The numbers, in Git's terms. Sizes are in bytes.
#[derive(Default)]
struct Counts {
    loose: u64,
    loose_size: u64,
    /// Loose objects that a pack also contains.
    prunable: u64,
    packed: u64,
    packs: u64,
    pack_size: u64,
    garbage: u64,
    garbage_size: u64,
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    if !TABLE.parse(args)?.store(&mut request)?.is_empty() {
        console::eprint_raw(TABLE.help().as_bytes());
        return Err(Failure::Reported(129));
    }
    let repo = run.open()?;
    refused::check(&repo, &[Reader::Every, Reader::Repository])?;
    let objects = repo.objects_dir();
    let shown = repo.display_objects_dir();
    let mut counts = Counts::default();
    if request.verbose {
        counts.find_shared_paths(&repo);
    }
    counts.count_loose(&repo, &request, objects, &shown);
    if request.verbose {
        packs::count(&mut counts, &repo, &objects.join("pack"), &shown.join("pack"));
        notice::print_object_store_errors(&repo);
    }
    counts.report(&request, &repo);
    Ok(0)
}

impl Counts {
    fn find_shared_paths(&mut self, repo: &Repository) {
        if repo.git_dir() == repo.common_dir() {
            return;
        }
        let present = |path: &PathBuf| !matches!(by_path::stat(path), Ok(None));
        let paths = SHARED_PATHS.iter().map(|name| repo.git_dir().join(name));
        paths.filter(present).for_each(|path| self.add_garbage("garbage found", &path, &path));
    }

    /// Counts the files in the 256 directories of loose objects.
    fn count_loose(&mut self, repo: &Repository, request: &Request, objects: &Path, shown: &Path) {
        for number in 0..=u8::MAX {
            let name = format!("{number:02x}");
            let dir = objects.join(&name);
            let files = match by_path::list(&dir) {
                Ok(files) => files,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => {
                    let path = shown.join(&name);
                    console::error(format!("unable to open {}: {}", path.display(), os_error(&error)));
                    return;
                }
            };
            for (file, _) in files {
                let hex = [name.as_bytes(), file.as_encoded_bytes()].concat();
                let oid =
                    ObjectId::from_hex(repo.hash(), &hex).filter(|_| hex.len() == repo.hash().hex_len());
                let path = dir.join(&file);
                let found = by_path::uninterrupted(|| path.symlink_metadata());
                match (oid, found) {
                    (Some(oid), Ok(found)) if found.is_file() => {
                        self.loose += 1;
                        self.loose_size += found.blocks() * 512;
                        let is_packed = request.verbose && repo.objects().locate_packed(&oid).is_some();
                        self.prunable += u64::from(is_packed);
                    }
                    _ if request.verbose => {
                        self.add_garbage("garbage found", &path, &shown.join(&name).join(&file));
                    }
                    _ => {}
                }
            }
        }
    }

    /// Counts the file at `path`, which messages call `shown`.
    fn add_garbage(&mut self, reason: &str, path: &Path, shown: &Path) {
        if let Ok(found) = by_path::uninterrupted(|| path.metadata()) {
            self.garbage_size += found.len();
        }
        self.garbage += 1;
        console::warning(text!(reason, ": ", shown.as_os_str().as_encoded_bytes()));
    }

    fn report(&self, request: &Request, repo: &Repository) {
        let size = |bytes: u64| if request.readable { readable(bytes) } else { (bytes / 1024).to_string() };
        if !request.verbose {
            let unit = if request.readable { "" } else { " kilobytes" };
            console::out(format!("{} objects, {}{unit}", self.loose, size(self.loose_size)));
            return;
        }
        for (name, value) in [
            ("count", self.loose.to_string()),
            ("size", size(self.loose_size)),
            ("in-pack", self.packed.to_string()),
            ("packs", self.packs.to_string()),
            ("size-pack", size(self.pack_size)),
            ("prune-packable", self.prunable.to_string()),
            ("garbage", self.garbage.to_string()),
            ("size-garbage", size(self.garbage_size)),
        ] {
            console::out(format!("{name}: {value}"));
        }
        for alternate in repo.objects().directories().skip(1) {
            let path = alternate.as_os_str().as_encoded_bytes().as_bstr();
            console::out(text!("alternate: ", quote(path, true)));
        }
    }
}
