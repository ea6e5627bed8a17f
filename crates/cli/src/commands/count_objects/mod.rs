//! `sapwood count-objects`: the number of loose objects, and with `-v` the content of the object
//! directory. See [`sapwood::object_files::count`].

use bstr::{BString, ByteSlice as _};
use repo::Repository;
use sapwood::object_files::count::{self, Report};

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
        args::{Both, Grammar, Opt, Set, Table},
        console::{self, text},
        failure::Failure,
        notice::Printer,
        text::{bytes::readable, quote},
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
        Opt::flag("-v, --verbose", "be verbose", field!(verbose)).native(Both),
        Opt::flag("-H, --human-readable", "print sizes in human readable format", field!(readable))
            .native(Both),
    ],
    grammar: Grammar::Mixed,
};

#[derive(Default)]
struct Request {
    verbose: bool,
    readable: bool,
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
    let counts = count::count(&repo, count::Request { verbose: request.verbose }, &Printer);
    report(&counts, &request, &repo);
    Ok(0)
}

fn report(counts: &Report, request: &Request, repo: &Repository) {
    let size = |bytes: u64| if request.readable { readable(bytes) } else { (bytes / 1024).to_string() };
    if !request.verbose {
        let unit = if request.readable { "" } else { " kilobytes" };
        console::out(format!("{} objects, {}{unit}", counts.loose, size(counts.loose_size)));
        return;
    }
    for (name, value) in [
        ("count", counts.loose.to_string()),
        ("size", size(counts.loose_size)),
        ("in-pack", counts.packed.to_string()),
        ("packs", counts.packs.to_string()),
        ("size-pack", size(counts.pack_size)),
        ("prune-packable", counts.prunable.to_string()),
        ("garbage", counts.garbage.to_string()),
        ("size-garbage", size(counts.garbage_size)),
    ] {
        console::out(format!("{name}: {value}"));
    }
    for alternate in repo.objects().directories().skip(1) {
        let path = alternate.as_os_str().as_encoded_bytes().as_bstr();
        console::out(text!("alternate: ", quote(path, true)));
    }
}
