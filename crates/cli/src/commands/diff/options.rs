//! The options of `diff-files` and `diff-index`, as far as they are native, and how they are written.
//!
//! Git takes some of these options at their word and others in clusters, none abbreviated, and none after the first path.

use bstr::{BStr, BString, ByteSlice as _};
use engine::diff::{
    Depth, IntentToAdd, Missing, Unchanged,
    renames::{Detect, Empty, parse_score},
    rewrites,
};
use format::{ObjectId, index::Stage};
use repo::{message::MINIMUM_ABBREV, submodule::Ignore};

use crate::term::{
    args::{Event, Grammar, Native, Opt, Stop, Table},
    console::text,
};

/// Which of the two commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dress {
    Files,
    Index,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Raw,
    NameOnly,
    NameStatus,
    NoPatch,
    Nul,
    Abbrev,
    /// Means nothing to what is native.
    Idle(&'static str),
    LinePrefix,
    Break,
    FindRenames,
    FindCopies,
    Harder,
    RenameEmpty,
    NoRenames,
    RenameLimit,
    Relative,
    Recursive,
    Directories,
    Reverse,
    ExitCode,
    Quiet,
    Filter,
    OrderFile,
    Text,
    Lines,
    Object,
    AllIfAny,
    AsRegex,
    /// By the path, and with what comes before it last or not at all.
    From(From),
    IgnoreSubmodules,
    Hidden,
    Visible,
    /// By number, or by name, which is stronger.
    Stage(Option<Stage>),
    Side(Stage),
    Cached,
    MergeBase,
    MatchMissing,
    /// Not native.
    Foreign(&'static str),
}

const fn foreign(spelling: &'static str) -> Opt<Key> {
    Opt::new(Key::Foreign(spelling), spelling, "").hidden()
}

const fn idle(spelling: &'static str, help: &'static str) -> Opt<Key> {
    Opt::new(Key::Idle(spelling), spelling, help).only().native(Native::On)
}

/// A command's own options, and those that both have.
macro_rules! table {
    ($usage:literal, $revisions:literal, $($own:expr),* $(,)?) => {
        Table {
            usage: &[$usage],
            options: &[
                $($own,)*
                Opt::new(Key::Raw, "--raw", "generate the diff in raw format").only().native(Native::On),
                Opt::new(Key::NameOnly, "--name-only", "show only names of changed files").only().native(Native::On),
                Opt::new(Key::NameStatus, "--name-status", "show only names and status of changed files")
                    .only().native(Native::On),
                Opt::new(Key::NoPatch, "-s, --no-patch", "suppress diff output").native(Native::On),
                Opt::new(Key::Nul, "-z", "do not quote names, and end all fields with NUL").only().native(Native::On),
                Opt::new(Key::Abbrev, "--abbrev[=<n>]", "use <n> digits to display object names").native(Native::Both),
                Opt::new(Key::LinePrefix, "--line-prefix <prefix>", "put something before every line").only().native(Native::On),
                Opt::new(Key::Break, "-B, --break-rewrites[=<n>[/<m>]]", "find what was rewritten").only().native(Native::On),
                Opt::new(Key::FindRenames, "-M, --find-renames[=<n>]", "detect renames").only().native(Native::On),
                Opt::new(Key::FindCopies, "-C, --find-copies[=<n>]", "detect copies").only().native(Native::On),
                Opt::new(Key::Harder, "--find-copies-harder", "find copies of unmodified files, too").native(Native::Both),
                Opt::new(Key::RenameEmpty, "--rename-empty", "take empty files for renamed, too").native(Native::Both),
                Opt::new(Key::NoRenames, "--no-renames", "disable rename detection").only().native(Native::On),
                Opt::new(Key::RenameLimit, "-l <n>", "detect no renames if there are more files").only().native(Native::On),
                Opt::new(Key::Relative, "--relative[=<prefix>]", "show only what is in a directory, from there").native(Native::Both),
                Opt::new(Key::Reverse, "-R", "swap two inputs, reverse the diff").only().native(Native::On),
                Opt::new(Key::ExitCode, "--exit-code", "exit with 1 if there were differences, 0 otherwise").native(Native::Both),
                Opt::new(Key::Quiet, "--quiet", "disable all output of the program").native(Native::Both),
                Opt::new(Key::Filter, "--diff-filter <classes>", "select files by diff type").only().native(Native::On),
                Opt::new(Key::OrderFile, "-O <file>", "order by the patterns of a file").only().native(Native::On),
                Opt::new(Key::Text, "-S <string>", "show only where a text is not as often as before").only().native(Native::On),
                Opt::new(Key::Lines, "-G <regex>", "show only where a line that matches was removed or added").only().native(Native::On),
                Opt::new(Key::Object, "--find-object <object>", "show only what is or was this object").only().native(Native::On),
                Opt::new(Key::AsRegex, "--pickaxe-regex", "take the text of '-S' for a regular expression").only().native(Native::On),
                Opt::new(Key::AllIfAny, "--pickaxe-all", "show all if '-S' finds any").only().native(Native::On),
                Opt::new(Key::From(From::First), "--rotate-to <path>", "show a path first").only().native(Native::On),
                Opt::new(Key::From(From::Only), "--skip-to <path>", "show nothing before a path").only().native(Native::On),
                Opt::new(Key::IgnoreSubmodules, "--ignore-submodules[=<when>]", "ignore changes to submodules")
                    .only().native(Native::On),
                Opt::new(Key::Hidden, "--ita-invisible-in-index", "hide 'git add -N' entries from the index")
                    .only().native(Native::On),
                Opt::new(Key::Visible, "--ita-visible-in-index", "treat 'git add -N' entries as real in the index")
                    .only().native(Native::On),
                Opt::new(Key::Recursive, "-r", "show what is in directories, also where the index does not").of_revisions().native(Native::On),
                Opt::new(Key::Directories, "-t", "show directories too, where a sparse index has them").of_revisions().native(Native::On),
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
            ],
    grammar: Grammar::Revisions($revisions),
}
    };
}

pub(super) const FILES: Table<Key> = table!(
    "sapwood diff-files [-q] [-0 | -1 | -2 | -3] [<common-diff-options>] [<path>...]",
    0,
    idle("-q", "say nothing of removed files: without effect").of_the_command(),
    Opt::new(Key::Stage(None), "-0", "compare unmerged files with nothing").of_revisions().native(Native::On),
    Opt::new(Key::Stage(Some(Stage::Base)), "-1", "compare unmerged files with the base")
        .of_revisions()
        .native(Native::On),
    Opt::new(Key::Stage(Some(Stage::Ours)), "-2", "compare unmerged files with our version")
        .of_revisions()
        .native(Native::On),
    Opt::new(Key::Stage(Some(Stage::Theirs)), "-3", "compare unmerged files with their version")
        .of_revisions()
        .native(Native::On),
    Opt::new(Key::Side(Stage::Base), "--base", "compare unmerged files with the base")
        .of_the_command()
        .native(Native::On),
    Opt::new(Key::Side(Stage::Ours), "--ours", "compare unmerged files with our version")
        .of_the_command()
        .native(Native::On),
    Opt::new(Key::Side(Stage::Theirs), "--theirs", "compare unmerged files with their version")
        .of_the_command()
        .native(Native::On),
);

pub(super) const INDEX: Table<Key> = table!(
    "sapwood diff-index [-m] [--cached] [--merge-base] [<common-diff-options>] <tree-ish> [<path>...]",
    1,
    Opt::new(Key::Cached, "--cached", "compare with the index, not with the worktree")
        .of_the_command()
        .native(Native::On),
    Opt::new(Key::MergeBase, "--merge-base", "compare the merge base of the commit and HEAD")
        .of_the_command()
        .native(Native::On),
    Opt::new(Key::MatchMissing, "-m", "take files that are missing for unchanged")
        .of_the_command()
        .native(Native::On),
);

impl Dress {
    /// How many it takes.
    fn revisions(self) -> usize {
        usize::from(self == Dress::Index)
    }

    fn table(self) -> &'static Table<Key> {
        match self {
            Dress::Files => &FILES,
            Dress::Index => &INDEX,
        }
    }
}

/// What is printed of each pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Raw,
    NameOnly,
    NameStatus,
    Nothing,
}

/// Classes of changes.
#[derive(Debug, Default)]
pub(super) struct Filter {
    /// Letters of what is shown; empty: of all but `without`.
    only: Vec<u8>,
    without: Vec<u8>,
    /// `*`: all is shown if anything would be.
    all_or_none: bool,
}

impl Filter {
    /// Whether a change of this letter is shown, or makes all be.
    pub(super) fn takes(&self, letter: u8) -> bool {
        let is_wanted = self.only.is_empty() && !self.all_or_none || self.only.contains(&letter);
        is_wanted && !self.without.contains(&letter) || self.is_undone()
    }

    /// Whether nothing is left of what was asked for: then nothing was.
    fn is_undone(&self) -> bool {
        let is_excluded = |letter| self.without.contains(letter);
        !self.all_or_none && !self.only.is_empty() && self.only.iter().all(is_excluded)
    }

    /// Whether it leaves out nothing.
    fn is_none(&self) -> bool {
        self.only.is_empty() && self.without.is_empty() && !self.all_or_none || self.is_undone()
    }

    pub(super) fn is_all_or_none(&self) -> bool {
        self.all_or_none
    }

    /// Takes some more, up to the first that is none, which is the error.
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

/// What becomes of what comes before the path that is to be shown first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// It comes last.
    First,
    /// It is left out.
    Only,
}

/// Whether a file has to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Needed,
    Optional,
}

/// What is looked for in the pairs.
#[derive(Debug)]
pub(super) enum Needle {
    /// It is not as often on both sides.
    Text(BString),
    /// What matches is not.
    Matches(BString),
    /// A line that matches was removed or added.
    Lines(BString),
    /// Objects.
    Objects,
}

/// What was asked for.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) kind: Kind,
    pub(super) nul: bool,
    /// How many digits names have at least; `Some(None)` is for the configuration to say. Without it, all.
    pub(super) abbrev: Option<Option<usize>>,
    pub(super) line_prefix: BString,
    pub(super) rewrites: Option<rewrites::Scores>,
    pub(super) detect: Option<Detect>,
    /// Listed for copies to be found of it.
    pub(super) unchanged: Unchanged,
    pub(super) empty: Empty,
    pub(super) minimum: u32,
    pub(super) limit: Option<usize>,
    /// The directory; `Some(None)` is where we are.
    pub(super) relative: Option<Option<BString>>,
    /// Of directories that are one entry of the index.
    pub(super) depth: Depth,
    pub(super) reverse: bool,
    pub(super) exit_code: bool,
    pub(super) is_quiet: bool,
    /// A tree is compared with the worktree.
    pub(super) is_of_trees_first: bool,
    pub(super) filter: Filter,
    pub(super) needle: Option<Needle>,
    /// How objects that are looked for were named, and what they are once that is known.
    pub(super) object_words: Vec<BString>,
    pub(super) objects: Vec<ObjectId>,
    /// If anything has to do with it, all is shown.
    pub(super) all_if_any: bool,
    /// The last that is there or has to be.
    pub(super) order_files: Vec<(BString, Presence)>,
    pub(super) from: Option<(From, BString)>,
    pub(super) ignore_submodules: Option<Ignore>,
    pub(super) intended: Option<IntentToAdd>,
    /// With what the file of an unmerged path is compared.
    pub(super) stage: Option<Stage>,
    pub(super) cached: bool,
    pub(super) merge_base: bool,
    pub(super) missing: Missing,
    /// Options that do not go together. Git finds that out after it knows revisions and paths.
    pub(super) clash: Option<&'static str>,
    /// Words that are no options, before a `--` and after it.
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
    /// Whether Git looks no further than the first difference.
    pub(super) fn is_quick(&self) -> bool {
        self.is_quiet && self.filter.is_none()
    }

    /// Whether it is known how often Git reads a file, and so warns of its line ends: not where it looks for renames.
    pub(super) fn tells_of_line_ends(&self) -> bool {
        self.detect.is_none()
    }

    pub(super) fn parse(dress: Dress, args: &[BString]) -> Result<Request, Stop> {
        let table = dress.table();
        let parsed = table.parse(args)?;
        let mut request = Request {
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
        let mut folded = Folded::default();
        for event in parsed.events {
            folded.take(&mut request, event)?;
        }
        folded.finish(&mut request)?;
        request.is_of_trees_first = dress == Dress::Index && !request.cached;
        let dashes = parsed.rest.iter().position(|word| word == "--");
        request.words = parsed.rest[..dashes.unwrap_or(parsed.rest.len())].to_vec();
        request.paths = dashes.map(|at| parsed.rest[at + 1..].to_vec());
        let revisions = dress.revisions();
        if request.words.len() < revisions || request.paths.is_some() && request.words.len() > revisions {
            return Err(Stop::Mistake {
                message: "wrong number of revisions".into(),
                usage: Some(table.help()),
            });
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

/// Options that others change, on the way.
#[derive(Default)]
struct Folded {
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

impl Folded {
    fn take(&mut self, request: &mut Request, event: Event<Key>) -> Result<(), Stop> {
        let value = event.value;
        match event.key {
            Key::Raw => (self.raw, self.nothing) = (true, false),
            Key::NameOnly => self.names = true,
            Key::NameStatus => self.statuses = true,
            Key::NoPatch => {
                (self.raw, self.names, self.statuses, self.nothing) = (false, false, false, event.on);
            }
            Key::Nul => request.nul = true,
            Key::Abbrev if !event.on => request.abbrev = None,
            Key::Abbrev => {
                let digits = value.map(|value| number(&value).ok_or_else(|| unserved("such an '--abbrev'")));
                request.abbrev = Some(digits.transpose()?.map(|digits| digits.max(MINIMUM_ABBREV)));
            }
            Key::Idle(_) => {}
            Key::Recursive if request.depth == Depth::Both => {}
            Key::Recursive => request.depth = Depth::Files,
            Key::Directories => request.depth = Depth::Both,
            Key::LinePrefix => request.line_prefix = value.unwrap_or_default(),
            Key::Break => {
                let scores = rewrites::Scores::parse(&value.unwrap_or_default());
                let bad = || mistake("break-rewrites expects <n>/<m> form");
                request.rewrites = Some(scores.ok_or_else(bad)?);
            }
            Key::FindRenames | Key::FindCopies => {
                let copies = event.key == Key::FindCopies;
                let name = if copies { "find-copies" } else { "find-renames" };
                let score = parse_score(&value.unwrap_or_default());
                request.minimum = score.ok_or_else(|| mistake(format!("invalid argument to {name}")))?;
                if copies && request.detect == Some(Detect::Copies) {
                    request.unchanged = Unchanged::Listed;
                }
                request.detect = Some(if copies { Detect::Copies } else { Detect::Renames });
            }
            Key::Harder => request.unchanged = if event.on { Unchanged::Listed } else { Unchanged::Omitted },
            Key::RenameEmpty => request.empty = if event.on { Empty::Included } else { Empty::Excluded },
            Key::NoRenames => request.detect = None,
            Key::RenameLimit => {
                let limit = value.and_then(|value| number(&value));
                request.limit = Some(limit.ok_or_else(|| unserved("such a '-l'"))?);
            }
            // Without a directory, the one given before stays.
            Key::Relative => {
                self.relative_to = value.or(self.relative_to.take());
                request.relative = event.on.then(|| self.relative_to.clone());
            }
            Key::Reverse => request.reverse = true,
            Key::ExitCode => request.exit_code = event.on,
            Key::Quiet => self.quiet = event.on,
            Key::Filter => {
                let classes = value.unwrap_or_default();
                if let Err(unknown) = request.filter.add(&classes) {
                    let unknown =
                        text!("unknown change class '", BStr::new(&[unknown]), "' in --diff-filter=");
                    return Err(mistake(text!(unknown, classes)));
                }
            }
            Key::OrderFile => {
                let file = value.unwrap_or_default();
                match file.strip_prefix(b":(optional)") {
                    Some(b"") => return Err(unserved("such a '-O'")),
                    Some(file) => request.order_files.push((file.into(), Presence::Optional)),
                    None if file.is_empty() => request.order_files.clear(),
                    None => request.order_files.push((file, Presence::Needed)),
                }
            }
            Key::Text | Key::Lines => {
                let is_text = event.key == Key::Text;
                let text = value.unwrap_or_default();
                if text.is_empty() {
                    let letter = if is_text { 'S' } else { 'G' };
                    return Err(mistake(format!("-{letter} requires a non-empty argument")));
                }
                self.counts |= is_text;
                self.lines |= !is_text;
                self.text = Some(text);
            }
            Key::Object => request.object_words.extend(value),
            Key::AllIfAny => request.all_if_any = true,
            Key::AsRegex => self.is_regex = true,
            Key::From(from) => request.from = Some((from, value.unwrap_or_default())),
            Key::IgnoreSubmodules => {
                let when = value.unwrap_or_else(|| "all".into());
                let ignore = Ignore::parse(when.as_bstr());
                let bad = || mistake(format!("bad --ignore-submodules argument: {when}"));
                request.ignore_submodules = Some(ignore.ok_or_else(bad)?);
            }
            Key::Hidden => request.intended = Some(IntentToAdd::Hidden),
            Key::Visible => request.intended = Some(IntentToAdd::Shown),
            Key::Stage(stage) => request.stage = stage,
            Key::Side(stage) => self.side = Some(stage),
            Key::Cached => request.cached = true,
            Key::MergeBase => request.merge_base = true,
            Key::MatchMissing => request.missing = Missing::AsIndexed,
            Key::Foreign(spelling) => {
                let name = spelling.split(['[', '<', ' ', ',']).next().unwrap_or(spelling);
                return Err(unserved(&format!("option '{name}'")));
            }
        }
        Ok(())
    }

    fn finish(self, request: &mut Request) -> Result<(), Stop> {
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
        // Git stops at what it takes for a mistake of its own.
        if self.is_regex && matches!(request.needle, Some(Needle::Objects)) && request.clash.is_none() {
            return Err(unserved("'--pickaxe-regex' with '--find-object'"));
        }
        // Whatever else is said of renames.
        if request.unchanged == Unchanged::Listed {
            request.detect = Some(Detect::Copies);
        }
        if self.quiet {
            (request.exit_code, request.is_quiet) = (true, true);
            (request.detect, request.unchanged) = (None, Unchanged::Omitted);
        }
        Ok(())
    }
}

fn number(text: &[u8]) -> Option<usize> {
    let is_plain = !text.is_empty() && text.len() < 10 && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_plain)?.parse().ok()
}
