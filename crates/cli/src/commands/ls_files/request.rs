//! The options of `ls-files` as values.

use bstr::{BString, ByteSlice as _};
use sapwood::ls_files::{Lists, Options, Rule};

use crate::{
    commands::{reason::Reason, record::LineCheck},
    term::{
        args::{Both, Grammar, On, Opt, Set, Stop, Survey, Table},
        failure::Failure,
    },
};

pub(super) const TABLE: Table<Set<Request>> = Table {
    usage: &["sapwood ls-files [<options>] [<file>...]"],
    options: &[
        Opt::flag("-z", "separate paths with the NUL character", field!(nul)).native(Both),
        Opt::flag("-t", "identify the file status with tags", field!(tag)).native(Both),
        Opt::flag("-v", "use lowercase letters for 'assume unchanged' files", field!(valid_bit)).native(Both),
        Opt::flag("-f", "use lowercase letters for 'fsmonitor clean' files", field!(fsmonitor_bit))
            .native(Both),
        Opt::flag("-c, --cached", "show cached files in the output (default)", field!(cached)).native(Both),
        Opt::flag("-d, --deleted", "show deleted files in the output", field!(options.lists.deleted))
            .native(Both),
        Opt::flag("-m, --modified", "show modified files in the output", field!(options.lists.modified))
            .native(Both),
        Opt::flag("-o, --others", "show other files in the output", field!(options.lists.others))
            .native(Both),
        Opt::flag("-i, --ignored", "show ignored files in the output", field!(options.ignored)).native(Both),
        Opt::flag("-s, --stage", "show staged contents' object name in the output", field!(stage))
            .native(Both),
        Opt::flag(
            "-k, --killed",
            "show files on the filesystem that need to be removed",
            field!(options.lists.killed),
        )
        .native(Both),
        Opt::flag("--directory", "show 'other' directories' names only", field!(options.directories))
            .native(Both),
        Opt::flag("--eol", "show line endings of files", field!(eol)).native(Both),
        Opt::new("--empty-directory", "don't show empty directories", |request: &mut Request, value| {
            request.options.hides_empty = !value.on;
            Ok(())
        })
        .native(Both),
        Opt::flag("-u, --unmerged", "show unmerged files in the output", field!(options.lists.unmerged))
            .native(Both),
        Opt::flag("--resolve-undo", "show resolve-undo information", field!(options.lists.resolved))
            .native(Both),
        Opt::list("-x, --exclude <pattern>", "skip files matching pattern", field!(options.patterns))
            .only()
            .native(On),
        Opt::new(
            "-X, --exclude-from <file>",
            "read exclude patterns from <file>",
            |request: &mut Request, value| {
                request.options.rules.extend(value.text.map(Rule::File));
                Ok(())
            },
        )
        .only()
        .native(On),
        Opt::new(
            "--exclude-per-directory <file>",
            "read additional per-directory exclude patterns in <file>",
            |request: &mut Request, value| {
                request.options.rules.push(Rule::PerDirectory(value.text));
                Ok(())
            },
        )
        .native(Both),
        Opt::new("--exclude-standard", "add the standard git exclusions", |request: &mut Request, _| {
            request.options.rules.push(Rule::Standard);
            Ok(())
        })
        .only()
        .native(On),
        Opt::flag("--full-name", "make the output relative to the project top directory", field!(full_name))
            .only()
            .native(On),
        Opt::flag("--recurse-submodules", "recurse through submodules", field!(options.recurse)).native(Both),
        Opt::flag(
            "--error-unmatch",
            "if any <file> is not in the index, treat this as an error",
            field!(options.finds_unmatched),
        )
        .native(Both),
        Opt::text(
            "--with-tree <tree-ish>",
            "pretend that paths removed since <tree-ish> are still present",
            field!(options.with_tree),
        )
        .native(Both),
        Opt::new(
            "--abbrev[=<n>]",
            "use <n> digits to display object names",
            |request: &mut Request, value| {
                request.abbrev = abbrev(value.on, value.text)?;
                Ok(())
            },
        )
        .native(Both),
        Opt::flag("--debug", "show debugging data", field!(debug)).native(Both),
        Opt::flag("--deduplicate", "suppress duplicate entries", field!(deduplicate)).native(Both),
        Opt::flag(
            "--sparse",
            "show sparse directories in the presence of a sparse index",
            field!(options.collapsed),
        )
        .native(Both),
        Opt::text("--format <format>", "format to use for the output", field!(format)).only().native(On),
    ],
    grammar: Grammar::Mixed,
};

/// How object names are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Abbrev {
    #[default]
    Full,
    Configured,
    To(usize),
}

#[derive(Default)]
pub(super) struct Request {
    pub(super) nul: bool,
    tag: bool,
    pub(super) valid_bit: bool,
    pub(super) fsmonitor_bit: bool,
    /// The option itself: cached entries are also the default.
    cached: bool,
    pub(super) stage: bool,
    pub(super) eol: bool,
    pub(super) full_name: bool,
    pub(super) abbrev: Abbrev,
    pub(super) debug: bool,
    deduplicate: bool,
    pub(super) format: Option<BString>,
    pub(super) options: Options,
    pub(super) paths: Vec<BString>,
}

pub(super) const WRONG_TOGETHER: LineCheck =
    LineCheck::new("options or values that do not go together", wrong_together);

/// Detects conflicting options, or invalid values.
fn wrong_together(_: &Survey, args: &[BString]) -> Option<Reason> {
    Request::parse(args).is_err().then(|| Reason::command_line("options or values that do not go together"))
}

impl Request {
    pub(super) fn parse(args: &[BString]) -> Result<Request, Failure> {
        let mut request = Request::default();
        request.paths = TABLE.parse(args)?.store(&mut request)?;
        let Request { cached, stage, deduplicate, eol, tag, .. } = request;
        let Lists { unmerged, deleted, modified, others, killed, resolved, .. } = request.options.lists;
        if request.format.is_some() && (stage || others || killed || resolved || deduplicate || eol || tag) {
            return Err(Failure::Usage(Stop::Mistake {
                message: "--format cannot be used with -s, -o, -k, -t, --resolve-undo, --deduplicate, --eol"
                    .into(),
                usage: Some(TABLE.help()),
            }));
        }
        request.stage |= unmerged;
        let is_default = !(deleted || modified || others || killed || resolved);
        request.options.lists.cached = !unmerged && (cached || stage || is_default);
        request.options.deduplicate = deduplicate && !tag && !request.stage;
        request.options.shows_monitor = request.fsmonitor_bit || request.debug;
        Ok(request)
    }

    /// Checks the rules that Git checks after it parsed the pathspecs.
    pub(super) fn validate(&self) -> Result<(), Failure> {
        let Options { lists, ignored, patterns, rules, with_tree, .. } = &self.options;
        let excludes = rules.iter().any(|rule| !matches!(rule, Rule::PerDirectory(None)));
        if *ignored && !lists.others && !self.cached {
            return Err(Failure::fatal("ls-files -i must be used with either -o or -c"));
        }
        if *ignored && !excludes && patterns.is_empty() {
            return Err(Failure::fatal("ls-files --ignored needs some exclude pattern"));
        }
        if with_tree.is_some() && self.stage {
            let wrong = "options 'ls-files --with-tree' and '-s/-u' cannot be used together";
            return Err(Failure::fatal(wrong));
        }
        Ok(())
    }

    /// Returns true if tags are shown.
    pub(super) fn tags(&self) -> bool {
        self.tag || self.valid_bit || self.fsmonitor_bit
    }
}

/// Parses `--abbrev`. Zero means all digits; the minimum is four.
fn abbrev(on: bool, value: Option<BString>) -> Result<Abbrev, Failure> {
    const LEAST: usize = 4;
    match (on, value) {
        (false, _) => Ok(Abbrev::Full),
        (true, None) => Ok(Abbrev::Configured),
        (true, Some(value)) => match value.to_str().ok().and_then(|text| text.parse::<usize>().ok()) {
            Some(0) => Ok(Abbrev::Full),
            Some(number) => Ok(Abbrev::To(number.max(LEAST))),
            None => Err(Failure::Usage(Stop::Mistake {
                message: "option `abbrev' expects a numerical value".into(),
                usage: None,
            })),
        },
    }
}
