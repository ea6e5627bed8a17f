//! The command line of `multi-pack-index`.

use bstr::{BString, ByteSlice as _};

use crate::term::{
    args::{
        Grammar,
        Native::{Both, Off, On},
        Opt, Set, Table,
    },
    failure::Failure,
};

/// The options of a command line.
#[derive(Default)]
pub(super) struct Request {
    pub(super) object_dir: Option<BString>,
    pub(super) progress: Option<bool>,
    pub(super) preferred_pack: Option<BString>,
    pub(super) stdin_packs: bool,
    refs_snapshot: Option<BString>,
    bitmap: bool,
    incremental: bool,
    base: Option<BString>,
    no_chain_file: bool,
    batch_size: Option<BString>,
}

impl Request {
    /// Returns an error for options that are left to the real Git.
    pub(super) fn refuse_unserved(&self) -> Result<(), Failure> {
        let unserved = [
            (self.bitmap, "'--bitmap'"),
            (self.incremental, "'--incremental'"),
            (self.base.is_some(), "'--base'"),
            (self.no_chain_file, "'--no-write-chain-file'"),
            (self.batch_size.is_some(), "'--batch-size'"),
        ];
        unserved.iter().try_for_each(|(asked, what)| crate::term::failure::unserved_if(*asked, what))
    }
}

/// Returns the options that Git accepts for this subcommand.
pub(super) fn options_of(subcommand: &str) -> &'static [&'static str] {
    match subcommand.as_bytes().as_bstr() {
        name if name == "write" => &[
            "--preferred-pack",
            "--bitmap",
            "--base",
            "--incremental",
            "--no-write-chain-file",
            "--stdin-packs",
            "--refs-snapshot",
        ],
        _ => &[],
    }
}

pub(super) const TABLE: Table<Set<Request>> = Table {
    usage: &[
        "sapwood multi-pack-index [<options>] write [--preferred-pack=<pack>] [--[no-]stdin-packs] \
         [--refs-snapshot=<path>]",
        "sapwood multi-pack-index [<options>] verify",
        "sapwood multi-pack-index [<options>] expire",
    ],
    options: &[
        Opt::text(
            "--object-dir <directory>",
            "object directory containing set of packfile and pack-index pairs",
            |request: &mut Request| &mut request.object_dir,
        )
        .native(Both),
        Opt::choice("--progress", "force progress reporting", |request: &mut Request| &mut request.progress)
            .native(Both),
        Opt::text(
            "--preferred-pack <preferred-pack>",
            "pack for reuse when computing a multi-pack bitmap",
            |request: &mut Request| &mut request.preferred_pack,
        )
        .native(Both),
        Opt::flag("--bitmap", "write multi-pack bitmap", |request: &mut Request| &mut request.bitmap)
            .native(Off),
        Opt::text("--base <checksum>", "base MIDX for incremental writes", |request: &mut Request| {
            &mut request.base
        }),
        Opt::flag("--incremental", "write a new incremental MIDX", |request: &mut Request| {
            &mut request.incremental
        })
        .native(Off),
        Opt::flag(
            "--no-write-chain-file",
            "do not write the multi-pack-index chain file",
            |request: &mut Request| &mut request.no_chain_file,
        )
        .native(Off),
        Opt::flag(
            "--stdin-packs",
            "write multi-pack index containing only given indexes",
            |request: &mut Request| &mut request.stdin_packs,
        )
        .native(Both),
        Opt::text(
            "--refs-snapshot <file>",
            "refs snapshot for selecting bitmap commits",
            |request: &mut Request| &mut request.refs_snapshot,
        )
        .native(On),
        Opt::text(
            "--batch-size <size>",
            "during repack, collect pack-files of smaller size into a batch that is larger than this size",
            |request: &mut Request| &mut request.batch_size,
        ),
    ],
    grammar: Grammar::Mixed,
};
