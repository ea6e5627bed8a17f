//! The native options of `diff-files` and `diff-index`, and their grammar.
//!
//! Git reads some of these options as whole words and others in clusters. No option may be
//! abbreviated or follow the first path.

use bstr::{BStr, BString, ByteSlice as _};
use engine::diff::{
    Depth, IntentToAdd, Missing, Unchanged,
    renames::{Detect, Empty, parse_score},
    rewrites,
};
use format::{ObjectId, index::Stage};
use repo::{message::MINIMUM_ABBREV, submodule::Ignore};

use crate::term::{
    args::{
        Grammar,
        Native::{Both, On},
        Opt, Set, Stop, Table, Value, join,
    },
    console::text,
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
        line.request.unchanged = if value.on { Unchanged::Listed } else { Unchanged::Omitted };
        Ok(())
    })
    .native(Both),
    Opt::new("--rename-empty", "take empty files for renamed, too", |line: &mut Line, value| {
        line.request.empty = if value.on { Empty::Included } else { Empty::Excluded };
        Ok(())
    })
    .native(Both),
    Opt::new("--no-renames", "disable rename detection", |line: &mut Line, _| {
        line.request.detect = None;
        Ok(())
    })
    .only()
    .native(On),
    Opt::new("-l <n>", "detect no renames if there are more files", rename_limit).only().native(On),
    Opt::new("--relative[=<prefix>]", "show only what is in a directory, from there", relative).native(Both),
    Opt::flag("-R", "swap two inputs, reverse the diff", |request: &mut Line| &mut request.request.reverse)
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
        &mut request.request.all_if_any
    })
    .only()
    .native(On),
    Opt::new("--rotate-to <path>", "show a path first", |line: &mut Line, value| {
        line.request.from = Some((FirstPath::Rotate, value.text.unwrap_or_default()));
        Ok(())
    })
    .only()
    .native(On),
    Opt::new("--skip-to <path>", "show nothing before a path", |line: &mut Line, value| {
        line.request.from = Some((FirstPath::Skip, value.text.unwrap_or_default()));
        Ok(())
    })
    .only()
    .native(On),
    Opt::new("--ignore-submodules[=<when>]", "ignore changes to submodules", ignore_submodules)
        .only()
        .native(On),
    Opt::new("--ita-invisible-in-index", "hide 'git add -N' entries from the index", |line: &mut Line, _| {
        line.request.intended = Some(IntentToAdd::Hidden);
        Ok(())
    })
    .only()
    .native(On),
    Opt::new(
        "--ita-visible-in-index",
        "treat 'git add -N' entries as real in the index",
        |line: &mut Line, _| {
            line.request.intended = Some(IntentToAdd::Shown);
            Ok(())
        },
    )
    .only()
    .native(On),
    Opt::new("-r", "show what is in directories, also where the index does not", recursive)
        .of_revisions()
        .native(On),
    Opt::new("-t", "show directories too, where a sparse index has them", |line: &mut Line, _| {
        line.request.depth = Depth::Both;
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
        line.request.stage = None;
        Ok(())
    })
    .of_revisions()
    .native(On),
    Opt::new("-1", "compare unmerged files with the base", |line: &mut Line, _| {
        line.request.stage = Some(Stage::Base);
        Ok(())
    })
    .of_revisions()
    .native(On),
    Opt::new("-2", "compare unmerged files with our version", |line: &mut Line, _| {
        line.request.stage = Some(Stage::Ours);
        Ok(())
    })
    .of_revisions()
    .native(On),
    Opt::new("-3", "compare unmerged files with their version", |line: &mut Line, _| {
        line.request.stage = Some(Stage::Theirs);
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
        &mut request.request.cached
    })
    .of_the_command()
    .native(On),
    Opt::flag("--merge-base", "compare the merge base of the commit and HEAD", |request: &mut Line| {
        &mut request.request.merge_base
    })
    .of_the_command()
    .native(On),
    Opt::new("-m", "take files that are missing for unchanged", |line: &mut Line, _| {
        line.request.missing = Missing::AsIndexed;
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

/// The form in which pairs are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Raw,
    NameOnly,
    NameStatus,
    Nothing,
}

/// Classes of changes (`--diff-filter`).
#[derive(Debug, Default)]
pub(super) struct Filter {
    /// Letters of the classes to show; if empty, all classes except `without`.
    only: Vec<u8>,
    without: Vec<u8>,
    /// `*`: all changes are shown if any change is selected.
    all_or_none: bool,
}

impl Filter {
    /// Returns true if a change of this class is shown, or makes all changes shown.
    pub(super) fn takes(&self, letter: u8) -> bool {
        let is_wanted = self.only.is_empty() && !self.all_or_none || self.only.contains(&letter);
        is_wanted && !self.without.contains(&letter) || self.is_undone()
    }

    /// Returns true if the letters exclude every class that they include: then no filter applies.
    fn is_undone(&self) -> bool {
        let is_excluded = |letter| self.without.contains(letter);
        !self.all_or_none && !self.only.is_empty() && self.only.iter().all(is_excluded)
    }

    /// Returns true if the filter excludes nothing.
    fn is_none(&self) -> bool {
        self.only.is_empty() && self.without.is_empty() && !self.all_or_none || self.is_undone()
    }

    pub(super) fn is_all_or_none(&self) -> bool {
        self.all_or_none
    }

    /// Adds classes. The error is the first unknown letter; the letters before it are added.
    fn add(&mut self, classes: &[u8]) -> Result<(), u8> {
        for &class in classes {
            match class {
                b'*' => self.all_or_none = true,
                b'A' | b'C' | b'D' | b'M' | b'R' | b'T' | b'U' | b'X' | b'B' => self.only.push(class),
                b'a' | b'c' | b'd' | b'm' | b'r' | b't' | b'u' | b'x' | b'b' => {
                    self.without.push(class.to_ascii_uppercase());
                }
                _ => return Err(class),
            }
        }
        Ok(())
    }
}

/// How to treat the pairs before the path to show first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FirstPath {
    /// Show them last (`--rotate-to`).
    Rotate,
    /// Omit them (`--skip-to`).
    Skip,
}

/// Selects if a file must exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Needed,
    Optional,
}

/// The text or object to search for in the pairs.
#[derive(Debug)]
pub(super) enum Needle {
    /// A text whose number of occurrences differs between the sides (`-S`).
    Text(BString),
    /// A regular expression whose number of matches differs between the sides.
    Matches(BString),
    /// A regular expression that matches a removed or added line (`-G`).
    Lines(BString),
    /// Objects (`--find-object`).
    Objects,
}

/// The request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) kind: Kind,
    pub(super) nul: bool,
    /// The minimum number of digits of object names; `Some(None)`: as configured; `None`: all
    /// digits.
    pub(super) abbrev: Option<Option<usize>>,
    pub(super) line_prefix: BString,
    pub(super) rewrites: Option<rewrites::Scores>,
    pub(super) detect: Option<Detect>,
    /// Selects if unchanged files are listed, as sources of copies.
    pub(super) unchanged: Unchanged,
    pub(super) empty: Empty,
    pub(super) minimum: u32,
    pub(super) limit: Option<usize>,
    /// The directory; `Some(None)` is the current directory.
    pub(super) relative: Option<Option<BString>>,
    /// The depth in collapsed directories.
    pub(super) depth: Depth,
    pub(super) reverse: bool,
    pub(super) exit_code: bool,
    pub(super) is_quiet: bool,
    /// True if a tree is compared with the worktree.
    pub(super) is_of_trees_first: bool,
    pub(super) filter: Filter,
    pub(super) needle: Option<Needle>,
    /// The names of the objects to find, and the objects once they are resolved.
    pub(super) object_words: Vec<BString>,
    pub(super) objects: Vec<ObjectId>,
    /// Show all pairs if any pair matches the search.
    pub(super) all_if_any: bool,
    /// The files of `-O`, of which the last one that exists or must exist is used.
    pub(super) order_files: Vec<(BString, Presence)>,
    pub(super) from: Option<(FirstPath, BString)>,
    pub(super) ignore_submodules: Option<Ignore>,
    pub(super) intended: Option<IntentToAdd>,
    /// The stage to compare the file of an unmerged path with.
    pub(super) stage: Option<Stage>,
    pub(super) cached: bool,
    pub(super) merge_base: bool,
    pub(super) missing: Missing,
    /// Conflicting options. Git reports them after it has resolved revisions and paths.
    pub(super) clash: Option<&'static str>,
    /// Words that are not options, before `--` and after it.
    pub(super) words: Vec<BString>,
    pub(super) paths: Option<Vec<BString>>,
}

fn mistake(message: impl Into<BString>) -> Stop {
    Stop::Mistake { message: message.into(), usage: None }
}

pub(super) fn unserved(what: &str) -> Stop {
    mistake(format!("{what} is not supported by sapwood yet (see SHORTCOMINGS.md)"))
}

impl Request {
    /// Returns true if Git stops at the first difference.
    pub(super) fn is_quick(&self) -> bool {
        self.is_quiet && self.filter.is_none()
    }

    /// Returns true if the number of Git's warnings about the line endings of a file is known. It
    /// equals the number of times that Git reads the file, which is unknown during a search for
    /// renames.
    pub(super) fn predicts_line_ending_warnings(&self) -> bool {
        self.detect.is_none()
    }

    pub(super) fn parse(variant: Variant, args: &[BString]) -> Result<Request, Failure> {
        let table = variant.table();
        let parsed = table.parse(args)?;
        let request = Request {
            kind: Kind::Raw,
            nul: false,
            abbrev: None,
            line_prefix: BString::default(),
            rewrites: None,
            detect: None,
            unchanged: Unchanged::Omitted,
            empty: Empty::Included,
            minimum: 0,
            limit: None,
            relative: None,
            depth: Depth::Directories,
            reverse: false,
            exit_code: false,
            is_quiet: false,
            is_of_trees_first: false,
            filter: Filter::default(),
            needle: None,
            object_words: Vec::new(),
            objects: Vec::new(),
            all_if_any: false,
            order_files: Vec::new(),
            from: None,
            ignore_submodules: None,
            intended: None,
            stage: Some(Stage::Ours),
            cached: false,
            merge_base: false,
            missing: Missing::Deleted,
            clash: None,
            words: Vec::new(),
            paths: None,
        };
        let mut line = Line::new(request);
        for event in parsed.events {
            line.option = event.name;
            event.store(&mut line)?;
        }
        let mut request = line.finish()?;
        request.is_of_trees_first = variant == Variant::Index && !request.cached;
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

const FORMATS_CLASH: &str =
    "options '--name-only', '--name-status', '--check', and '-s' cannot be used together";

const NEEDLES_CLASH: &str = "options '-G', '-S', and '--find-object' cannot be used together";
const REGEX_CLASH: &str =
    "options '-G' and '--pickaxe-regex' cannot be used together, use '--pickaxe-regex' with '-S'";
const ALL_CLASH: &str = "options '--pickaxe-all' and '--find-object' cannot be used together, use '--pickaxe-all' with '-G' and '-S'";

/// A request during parsing: a later option changes the meaning of earlier ones.
pub(super) struct Line {
    request: Request,
    /// The option that is being stored.
    option: &'static str,
    raw: bool,
    names: bool,
    statuses: bool,
    nothing: bool,
    quiet: bool,
    side: Option<Stage>,
    relative_to: Option<BString>,
    text: Option<BString>,
    lines: bool,
    counts: bool,
    is_regex: bool,
}

/// The search of `-S` and `-G`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Search {
    /// The number of places on each side.
    Counts,
    /// The lines that differ.
    Lines,
}

fn abbrev(line: &mut Line, value: Value) -> Result<(), Failure> {
    line.request.abbrev = if value.on {
        let parse = |text: BString| number(&text).ok_or_else(|| unserved("such an '--abbrev'"));
        let digits = value.text.map(parse).transpose()?;
        Some(digits.map(|digits| digits.max(MINIMUM_ABBREV)))
    } else {
        None
    };
    Ok(())
}

fn recursive(line: &mut Line, _: Value) -> Result<(), Failure> {
    if line.request.depth != Depth::Both {
        line.request.depth = Depth::Files;
    }
    Ok(())
}

fn break_rewrites(line: &mut Line, value: Value) -> Result<(), Failure> {
    let scores = rewrites::Scores::parse(&value.text.unwrap_or_default());
    let bad = || mistake("break-rewrites expects <n>/<m> form");
    line.request.rewrites = Some(scores.ok_or_else(bad)?);
    Ok(())
}

fn rename_limit(line: &mut Line, value: Value) -> Result<(), Failure> {
    let limit = value.text.and_then(|text| number(&text));
    line.request.limit = Some(limit.ok_or_else(|| unserved("such a '-l'"))?);
    Ok(())
}

/// `--relative` without a directory keeps the one given before.
fn relative(line: &mut Line, value: Value) -> Result<(), Failure> {
    line.relative_to = value.text.or(line.relative_to.take());
    line.request.relative = value.on.then(|| line.relative_to.clone());
    Ok(())
}

fn diff_filter(line: &mut Line, value: Value) -> Result<(), Failure> {
    let classes = value.text.unwrap_or_default();
    line.request.filter.add(&classes).map_err(|unknown| {
        let unknown = text!("unknown change class '", BStr::new(&[unknown]), "' in --diff-filter=");
        mistake(text!(unknown, classes)).into()
    })
}

fn order_file(line: &mut Line, value: Value) -> Result<(), Failure> {
    let files = &mut line.request.order_files;
    let file = value.text.unwrap_or_default();
    match file.strip_prefix(b":(optional)") {
        Some(b"") => return Err(unserved("such a '-O'").into()),
        Some(file) => files.push((file.into(), Presence::Optional)),
        None if file.is_empty() => files.clear(),
        None => files.push((file, Presence::Needed)),
    }
    Ok(())
}

fn ignore_submodules(line: &mut Line, value: Value) -> Result<(), Failure> {
    let when = value.text.unwrap_or_else(|| "all".into());
    let bad = || mistake(format!("bad --ignore-submodules argument: {when}"));
    line.request.ignore_submodules = Some(Ignore::parse(when.as_bstr()).ok_or_else(bad)?);
    Ok(())
}

impl Line {
    fn new(request: Request) -> Line {
        Line {
            request,
            option: "",
            raw: false,
            names: false,
            statuses: false,
            nothing: false,
            quiet: false,
            side: None,
            relative_to: None,
            text: None,
            lines: false,
            counts: false,
            is_regex: false,
        }
    }

    fn detect(&mut self, detect: Detect, value: Value) -> Result<(), Failure> {
        let copies = detect == Detect::Copies;
        let name = if copies { "find-copies" } else { "find-renames" };
        let score = parse_score(&value.text.unwrap_or_default());
        self.request.minimum = score.ok_or_else(|| mistake(format!("invalid argument to {name}")))?;
        if copies && self.request.detect == Some(Detect::Copies) {
            self.request.unchanged = Unchanged::Listed;
        }
        self.request.detect = Some(detect);
        Ok(())
    }

    fn look_for(&mut self, value: Value, search: Search) -> Result<(), Failure> {
        let text = value.text.unwrap_or_default();
        if text.is_empty() {
            let letter = if search == Search::Counts { 'S' } else { 'G' };
            return Err(mistake(format!("-{letter} requires a non-empty argument")).into());
        }
        self.counts |= search == Search::Counts;
        self.lines |= search == Search::Lines;
        self.text = Some(text);
        Ok(())
    }

    fn finish(self) -> Result<Request, Failure> {
        let mut request = self.request;
        request.stage = self.side.or(request.stage);
        let has_objects = !request.object_words.is_empty();
        if [self.names, self.statuses, self.nothing].into_iter().filter(|given| *given).count() > 1 {
            request.clash = Some(FORMATS_CLASH);
        } else if [self.counts, self.lines, has_objects].into_iter().filter(|given| *given).count() > 1 {
            request.clash = Some(NEEDLES_CLASH);
        } else if self.lines && self.is_regex {
            request.clash = Some(REGEX_CLASH);
        } else if request.all_if_any && has_objects {
            request.clash = Some(ALL_CLASH);
        }
        request.kind = match (self.names, self.statuses, self.nothing || self.quiet) {
            (_, _, true) => Kind::Nothing,
            (true, _, _) => Kind::NameOnly,
            (_, true, _) => Kind::NameStatus,
            _ => Kind::Raw,
        };
        request.needle = match self.text {
            Some(text) if self.lines => Some(Needle::Lines(text)),
            Some(text) if self.is_regex => Some(Needle::Matches(text)),
            Some(text) => Some(Needle::Text(text)),
            None => has_objects.then_some(Needle::Objects),
        };
        match request.needle {
            Some(Needle::Text(_) | Needle::Matches(_) | Needle::Lines(_))
                if request.depth == Depth::Directories =>
            {
                request.depth = Depth::Files
            }
            Some(Needle::Objects) => request.depth = Depth::Both,
            _ => {}
        }
        // Git ends this combination with an internal error.
        if self.is_regex && matches!(request.needle, Some(Needle::Objects)) && request.clash.is_none() {
            return Err(unserved("'--pickaxe-regex' with '--find-object'").into());
        }
        // This overrides all options about renames.
        if request.unchanged == Unchanged::Listed {
            request.detect = Some(Detect::Copies);
        }
        if self.quiet {
            (request.exit_code, request.is_quiet) = (true, true);
            (request.detect, request.unchanged) = (None, Unchanged::Omitted);
        }
        Ok(request)
    }
}

fn number(text: &[u8]) -> Option<usize> {
    let is_plain = !text.is_empty() && text.len() < 10 && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_plain)?.parse().ok()
}
