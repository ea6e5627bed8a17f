//! The command line of `multi-pack-index`.

use bstr::{BString, ByteSlice as _};

use crate::term::{
    args::{Both, Grammar, Off, On, Opt, Set, Table},
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
            field!(object_dir),
        )
        .native(Both),
        Opt::choice("--progress", "force progress reporting", field!(progress)).native(Both),
        Opt::text(
            "--preferred-pack <preferred-pack>",
            "pack for reuse when computing a multi-pack bitmap",
            field!(preferred_pack),
        )
        .native(Both),
        Opt::flag("--bitmap", "write multi-pack bitmap", field!(bitmap)).native(Off),
        Opt::text("--base <checksum>", "base MIDX for incremental writes", field!(base)),
        Opt::flag("--incremental", "write a new incremental MIDX", field!(incremental)).native(Off),
        Opt::flag(
            "--no-write-chain-file",
            "do not write the multi-pack-index chain file",
            field!(no_chain_file),
        )
        .native(Off),
        Opt::flag(
            "--stdin-packs",
            "write multi-pack index containing only given indexes",
            field!(stdin_packs),
        )
        .native(Both),
        Opt::text(
            "--refs-snapshot <file>",
            "refs snapshot for selecting bitmap commits",
            field!(refs_snapshot),
        )
        .native(On),
        Opt::text(
            "--batch-size <size>",
            "during repack, collect pack-files of smaller size into a batch that is larger than this size",
            field!(batch_size),
        ),
    ],
    grammar: Grammar::Mixed,
};
