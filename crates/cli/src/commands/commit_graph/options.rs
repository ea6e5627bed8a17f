//! The command line of `commit-graph`.

use bstr::{BStr, BString, ByteSlice as _};
use sapwood::commit_graph::{self, Split};

use crate::{
    commands::reason::Reason,
    session::settings::expiry::expire_date,
    term::{
        args::{Both, Grammar, On, Opt, Set, Survey, Table, Value},
        console::{self, text},
        failure::Failure,
    },
};

/// The options of a command line.
#[derive(Default)]
pub(super) struct Request {
    pub(super) object_dir: Option<BString>,
    pub(super) progress: Option<bool>,
    pub(super) shallow: bool,
    pub(super) reachable: bool,
    pub(super) stdin_packs: bool,
    pub(super) stdin_commits: bool,
    pub(super) write: commit_graph::Request,
}

/// Returns the options that Git accepts for this subcommand.
pub(super) fn options_of(subcommand: &str) -> &'static [&'static str] {
    match subcommand.as_bytes().as_bstr() {
        name if name == "write" => &[
            "--reachable",
            "--stdin-packs",
            "--stdin-commits",
            "--append",
            "--changed-paths",
            "--split",
            "--max-commits",
            "--size-multiple",
            "--expire-time",
            "--max-new-filters",
        ],
        _ => &["--shallow"],
    }
}

/// Detects dates that only Git can parse.
pub(super) fn dates(survey: &Survey, _: &[BString]) -> Option<Reason> {
    let mut given = survey.options.iter().filter(|given| given.name == "--expire-time" && given.on);
    let is_odd = |text: Option<&BString>| text.is_none_or(|text| expire_date(text.as_bstr()).is_none());
    given.any(|given| is_odd(given.value.as_ref())).then(|| Reason::command_line("a date of '--expire-time'"))
}

/// Parses a number like Git's options: a sign, digits, and an optional unit.
fn number(name: &str, value: Value) -> Result<Option<i32>, Failure> {
    let Some(text) = value.text else { return Ok(None) };
    let number = repo::parse_number(text.as_bstr()).ok().filter(|_| !text.is_empty());
    let wrong = || {
        console::error(format!("option `{name}' expects an integer value with an optional k/m/g suffix"));
        Failure::Reported(129)
    };
    number.ok_or_else(wrong).map(Some)
}

fn split(request: &mut Request, value: Value) -> Result<(), Failure> {
    let strategy = value.text.unwrap_or_default();
    request.write.split = Some(match strategy.as_slice() {
        b"" => request.write.split.unwrap_or(Split::Merge),
        b"no-merge" => Split::NoMerge,
        b"replace" => Split::Replace,
        _ => return Err(Failure::Fatal(text!("unrecognized --split argument, ", strategy))),
    });
    Ok(())
}

fn max_new_filters(request: &mut Request, value: Value) -> Result<(), Failure> {
    let parse = |text: &BStr| text.to_str().ok()?.trim_start().parse().ok();
    request.write.max_new_filters = Some(match &value.text {
        None => None,
        Some(text) => match parse(text.as_bstr()) {
            Some(number) => Some(number),
            None => {
                console::error("option `max-new-filters' expects a numerical value");
                return Err(Failure::Reported(129));
            }
        },
    });
    Ok(())
}

pub(super) const TABLE: Table<Set<Request>> = Table {
    usage: &[
        "sapwood commit-graph verify [--object-dir <dir>] [--shallow] [--[no-]progress]",
        "sapwood commit-graph write [--object-dir <dir>] [--append] [--split[=<strategy>]] \
         [--reachable | --stdin-packs | --stdin-commits] [--changed-paths] [--[no-]max-new-filters <n>] \
         [--[no-]progress] <split-options>",
    ],
    options: &[
        Opt::text("--object-dir <dir>", "the object directory to store the graph", field!(object_dir))
            .native(On),
        Opt::choice("--progress", "force progress reporting", field!(progress)).native(Both),
        Opt::flag("--shallow", "if the commit-graph is split, only verify the tip file", field!(shallow))
            .native(Both),
        Opt::flag("--reachable", "start walk at all refs", field!(reachable)).native(Both),
        Opt::flag("--stdin-packs", "scan pack-indexes listed by stdin for commits", field!(stdin_packs))
            .native(Both),
        Opt::flag("--stdin-commits", "start walk at commits listed by stdin", field!(stdin_commits))
            .native(Both),
        Opt::flag("--append", "include all commits already in the commit-graph file", field!(write.append))
            .native(Both),
        Opt::choice("--changed-paths", "enable computation for changed paths", field!(write.changed_paths))
            .native(Both),
        Opt::new("--split[=<strategy>]", "allow writing an incremental commit-graph file", split)
            .only()
            .native(On),
        Opt::new(
            "--max-commits <n>",
            "maximum number of commits in a non-base split commit-graph",
            |request: &mut Request, value| {
                request.write.max_commits = number("max-commits", value)?;
                Ok(())
            },
        )
        .native(On),
        Opt::new(
            "--size-multiple <n>",
            "maximum ratio between two levels of a split commit-graph",
            |request: &mut Request, value| {
                request.write.size_multiple = number("size-multiple", value)?;
                Ok(())
            },
        )
        .native(On),
        Opt::new(
            "--expire-time <expiry-date>",
            "only expire files older than a given date-time",
            |request: &mut Request, value| {
                request.write.expire = value.text.and_then(|date| expire_date(date.as_bstr()));
                Ok(())
            },
        )
        .native(On),
        Opt::new(
            "--max-new-filters <n>",
            "maximum number of changed-path Bloom filters to compute",
            max_new_filters,
        )
        .native(Both),
    ],
    grammar: Grammar::Mixed,
};
