//! The native options of `diff-files` and `diff-index`, and their grammar.
//!
//! Git reads some of these options as whole words and others in clusters. No option may be
//! abbreviated or follow the first path.

mod line;
mod request;

use bstr::BString;
use sapwood::{
    diff::{Depth, Detect, Empty, FirstPath, IntentToAdd, Missing, Unchanged},
    index::Stage,
};

pub(super) use line::unserved;
use line::{
    Line, Search, abbrev, break_rewrites, diff_filter, ignore_submodules, order_file, recursive, relative,
    rename_limit,
};
pub(super) use request::{Kind, Request};

use crate::term::{
    args::{Both, Grammar, On, Opt, Set, Stop, Table, join},
    failure::Failure,
};

/// One of the two commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    Files,
    Index,
}

/// An option that sapwood does not serve.
const fn foreign(spelling: &'static str) -> Opt<Set<Line>> {
    Opt::new(spelling, "", |line: &mut Line, _| Err(unserved(&format!("option '{}'", line.option)).into()))
        .hidden()
}

/// An option without effect in the formats that sapwood serves.
const fn idle(spelling: &'static str, help: &'static str) -> Opt<Set<Line>> {
    Opt::new(spelling, help, |_: &mut Line, _| Ok(())).only().native(On)
}

/// The options of both commands.
const COMMON: &[Opt<Set<Line>>] = &[
    Opt::new("--raw", "generate the diff in raw format", |line: &mut Line, _| {
        (line.raw, line.nothing) = (true, false);
        Ok(())
    })
    .only()
    .native(On),
    Opt::flag("--name-only", "show only names of changed files", |request: &mut Line| &mut request.names)
        .only()
        .native(On),
    Opt::flag("--name-status", "show only names and status of changed files", |request: &mut Line| {
        &mut request.statuses
    })
    .only()
    .native(On),
    Opt::new("-s, --no-patch", "suppress diff output", |line: &mut Line, value| {
        (line.raw, line.names, line.statuses, line.nothing) = (false, false, false, value.on);
        Ok(())
    })
    .native(On),
    Opt::flag("-z", "do not quote names, and end all fields with NUL", |request: &mut Line| {
        &mut request.request.nul
    })
    .only()
    .native(On),
    Opt::new("--abbrev[=<n>]", "use <n> digits to display object names", abbrev).native(Both),
    Opt::new("--line-prefix <prefix>", "put something before every line", |line: &mut Line, value| {
        line.request.line_prefix = value.text.unwrap_or_default();
        Ok(())
    })
    .only()
    .native(On),
    Opt::new("-B, --break-rewrites[=<n>[/<m>]]", "find what was rewritten", break_rewrites).only().native(On),
    Opt::new("-M, --find-renames[=<n>]", "detect renames", |line: &mut Line, value| {
        line.detect(Detect::Renames, value)
    })
    .only()
    .native(On),
    Opt::new("-C, --find-copies[=<n>]", "detect copies", |line: &mut Line, value| {
        line.detect(Detect::Copies, value)
    })
    .only()
    .native(On),
    Opt::new("--find-copies-harder", "find copies of unmodified files, too", |line: &mut Line, value| {
        line.request.wanted.unchanged = if value.on { Unchanged::Listed } else { Unchanged::Omitted };
        Ok(())
    })
    .native(Both),
    Opt::new("--rename-empty", "take empty files for renamed, too", |line: &mut Line, value| {
        line.request.wanted.empty = if value.on { Empty::Included } else { Empty::Excluded };
        Ok(())
    })
    .native(Both),
    Opt::new("--no-renames", "disable rename detection", |line: &mut Line, _| {
        line.request.wanted.detect = None;
        Ok(())
    })
    .only()
    .native(On),
    Opt::new("-l <n>", "detect no renames if there are more files", rename_limit).only().native(On),
    Opt::new("--relative[=<prefix>]", "show only what is in a directory, from there", relative).native(Both),
    Opt::flag("-R", "swap two inputs, reverse the diff", |request: &mut Line| {
        &mut request.request.wanted.reverse
    })
    .only()
    .native(On),
    Opt::flag("--exit-code", "exit with 1 if there were differences, 0 otherwise", |request: &mut Line| {
        &mut request.request.exit_code
    })
    .native(Both),
    Opt::flag("--quiet", "disable all output of the program", |request: &mut Line| &mut request.quiet)
        .native(Both),
    Opt::new("--diff-filter <classes>", "select files by diff type", diff_filter).only().native(On),
    Opt::new("-O <file>", "order by the patterns of a file", order_file).only().native(On),
    Opt::new("-S <string>", "show only where a text is not as often as before", |line: &mut Line, value| {
        line.look_for(value, Search::Counts)
    })
    .only()
    .native(On),
    Opt::new(
        "-G <regex>",
        "show only where a line that matches was removed or added",
        |line: &mut Line, value| line.look_for(value, Search::Lines),
    )
    .only()
    .native(On),
    Opt::new("--find-object <object>", "show only what is or was this object", |line: &mut Line, value| {
        line.request.object_words.extend(value.text);
        Ok(())
    })
    .only()
    .native(On),
    Opt::flag("--pickaxe-regex", "take the text of '-S' for a regular expression", |request: &mut Line| {
        &mut request.is_regex
    })
    .only()
    .native(On),
    Opt::flag("--pickaxe-all", "show all if '-S' finds any", |request: &mut Line| {
        &mut request.request.wanted.all_if_any
    })
    .only()
    .native(On),
    Opt::new("--rotate-to <path>", "show a path first", |line: &mut Line, value| {
        line.request.wanted.from = Some((FirstPath::Rotate, value.text.unwrap_or_default()));
        Ok(())
    })
    .only()
    .native(On),
    Opt::new("--skip-to <path>", "show nothing before a path", |line: &mut Line, value| {
        line.request.wanted.from = Some((FirstPath::Skip, value.text.unwrap_or_default()));
        Ok(())
    })
    .only()
    .native(On),
    Opt::new("--ignore-submodules[=<when>]", "ignore changes to submodules", ignore_submodules)
        .only()
        .native(On),
    Opt::new("--ita-invisible-in-index", "hide 'git add -N' entries from the index", |line: &mut Line, _| {
        line.request.wanted.intended = Some(IntentToAdd::Hidden);
        Ok(())
    })
    .only()
    .native(On),
    Opt::new(
        "--ita-visible-in-index",
        "treat 'git add -N' entries as real in the index",
        |line: &mut Line, _| {
            line.request.wanted.intended = Some(IntentToAdd::Shown);
            Ok(())
        },
    )
    .only()
    .native(On),
    Opt::new("-r", "show what is in directories, also where the index does not", recursive)
        .of_revisions()
        .native(On),
    Opt::new("-t", "show directories too, where a sparse index has them", |line: &mut Line, _| {
        line.request.wanted.depth = Depth::Both;
        Ok(())
    })
    .of_revisions()
    .native(On),
    idle("--full-index", "show full object names in patches"),
    idle("--no-ext-diff", "run no external diff helper"),
    idle("--no-textconv", "run no text conversion filters"),
    idle("--no-color", "show no colors"),
    foreign("-c").of_revisions(),
    foreign("--cc").of_revisions(),
    foreign("-p, --patch"),
    foreign("-u"),
    foreign("-U, --unified[=<n>]"),
    foreign("-W, --function-context"),
    foreign("--patch-with-raw"),
    foreign("--patch-with-stat"),
    foreign("--numstat"),
    foreign("--shortstat"),
    foreign("-X, --dirstat[=<param>]"),
    foreign("--cumulative"),
    foreign("--dirstat-by-file[=<param>]"),
    foreign("--check"),
    foreign("--summary"),
    foreign("--stat[=<width>]"),
    foreign("--stat-width <width>"),
    foreign("--stat-name-width <width>"),
    foreign("--stat-graph-width <width>"),
    foreign("--stat-count <count>"),
    foreign("--compact-summary"),
    foreign("--binary"),
    foreign("--color[=<when>]"),
    foreign("--ws-error-highlight <kind>"),
    foreign("--src-prefix <prefix>"),
    foreign("--dst-prefix <prefix>"),
    foreign("--no-prefix"),
    foreign("--default-prefix"),
    foreign("--inter-hunk-context <n>"),
    foreign("--output-indicator-new <char>"),
    foreign("--output-indicator-old <char>"),
    foreign("--output-indicator-context <char>"),
    foreign("-D, --irreversible-delete"),
    foreign("--follow"),
    foreign("--minimal"),
    foreign("-w, --ignore-all-space"),
    foreign("-b, --ignore-space-change"),
    foreign("--ignore-space-at-eol"),
    foreign("--ignore-cr-at-eol"),
    foreign("--ignore-blank-lines"),
    foreign("-I, --ignore-matching-lines <regex>"),
    foreign("--indent-heuristic"),
    foreign("--patience"),
    foreign("--histogram"),
    foreign("--diff-algorithm <algorithm>"),
    foreign("--anchored <text>"),
    foreign("--word-diff[=<mode>]"),
    foreign("--word-diff-regex <regex>"),
    foreign("--color-words[=<regex>]"),
    foreign("--color-moved[=<mode>]"),
    foreign("--color-moved-ws <mode>"),
    foreign("-a, --text"),
    foreign("--ext-diff"),
    foreign("--textconv"),
    foreign("--submodule[=<format>]"),
    foreign("--max-depth <depth>"),
    foreign("--output <file>"),
];

/// The options of `diff-files` alone.
const OWN_FILES: &[Opt<Set<Line>>] = &[
    idle("-q", "say nothing of removed files: without effect").of_the_command(),
    Opt::new("-0", "compare unmerged files with nothing", |line: &mut Line, _| {
        line.request.wanted.stage = None;
        Ok(())
    })
    .of_revisions()
    .native(On),
    Opt::new("-1", "compare unmerged files with the base", |line: &mut Line, _| {
        line.request.wanted.stage = Some(Stage::Base);
        Ok(())
    })
    .of_revisions()
    .native(On),
    Opt::new("-2", "compare unmerged files with our version", |line: &mut Line, _| {
        line.request.wanted.stage = Some(Stage::Ours);
        Ok(())
    })
    .of_revisions()
    .native(On),
    Opt::new("-3", "compare unmerged files with their version", |line: &mut Line, _| {
        line.request.wanted.stage = Some(Stage::Theirs);
        Ok(())
    })
    .of_revisions()
    .native(On),
    Opt::new("--base", "compare unmerged files with the base", |line: &mut Line, _| {
        line.side = Some(Stage::Base);
        Ok(())
    })
    .of_the_command()
    .native(On),
    Opt::new("--ours", "compare unmerged files with our version", |line: &mut Line, _| {
        line.side = Some(Stage::Ours);
        Ok(())
    })
    .of_the_command()
    .native(On),
    Opt::new("--theirs", "compare unmerged files with their version", |line: &mut Line, _| {
        line.side = Some(Stage::Theirs);
        Ok(())
    })
    .of_the_command()
    .native(On),
];

pub(super) const FILES: Table<Set<Line>> = Table {
    usage: &["sapwood diff-files [-q] [-0 | -1 | -2 | -3] [<common-diff-options>] [<path>...]"],
    options: &join::<_, { OWN_FILES.len() + COMMON.len() }>(OWN_FILES, COMMON),
    grammar: Grammar::Revisions(0),
};

/// The options of `diff-index` alone.
const OWN_INDEX: &[Opt<Set<Line>>] = &[
    Opt::flag("--cached", "compare with the index, not with the worktree", |request: &mut Line| {
        &mut request.request.wanted.cached
    })
    .of_the_command()
    .native(On),
    Opt::flag("--merge-base", "compare the merge base of the commit and HEAD", |request: &mut Line| {
        &mut request.request.merge_base
    })
    .of_the_command()
    .native(On),
    Opt::new("-m", "take files that are missing for unchanged", |line: &mut Line, _| {
        line.request.wanted.missing = Missing::AsIndexed;
        Ok(())
    })
    .of_the_command()
    .native(On),
];

pub(super) const INDEX: Table<Set<Line>> = Table {
    usage: &[
        "sapwood diff-index [-m] [--cached] [--merge-base] [<common-diff-options>] <tree-ish> [<path>...]",
    ],
    options: &join::<_, { OWN_INDEX.len() + COMMON.len() }>(OWN_INDEX, COMMON),
    grammar: Grammar::Revisions(1),
};

impl Variant {
    /// Returns the number of revisions that the command takes.
    fn revisions(self) -> usize {
        usize::from(self == Variant::Index)
    }

    fn table(self) -> &'static Table<Set<Line>> {
        match self {
            Variant::Files => &FILES,
            Variant::Index => &INDEX,
        }
    }
}

impl Request {
    pub(super) fn parse(variant: Variant, args: &[BString]) -> Result<Request, Failure> {
        let table = variant.table();
        let parsed = table.parse(args)?;
        let mut line = Line::new(Request::default());
        for event in parsed.events {
            line.option = event.name;
            event.store(&mut line)?;
        }
        let mut request = line.finish()?;
        let dashes = parsed.rest.iter().position(|word| word == "--");
        request.words = parsed.rest[..dashes.unwrap_or(parsed.rest.len())].to_vec();
        request.paths = dashes.map(|at| parsed.rest[at + 1..].to_vec());
        let revisions = variant.revisions();
        if request.words.len() < revisions || request.paths.is_some() && request.words.len() > revisions {
            let stop =
                Stop::Mistake { message: "wrong number of revisions".into(), usage: Some(table.help()) };
            return Err(stop.into());
        }
        Ok(request)
    }
}
