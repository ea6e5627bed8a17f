//! The options of `ls-files` as values.

use std::{os::unix::ffi::OsStrExt as _, path::Path};

use bstr::{BString, ByteSlice as _};
use engine::{
    ignore::{
        Rules,
        check::{self, Sources},
    },
    untracked::Directories,
};
use repo::Repository;
use sapwood::UserPath;
use sys::by_path;

use crate::{
    commands::{reason::Reason, record::LineCheck},
    term::{
        args::{
            Grammar,
            Native::{Both, On},
            Opt, Set, Stop, Survey, Table,
        },
        console::text,
        failure::Failure,
    },
};

pub(super) const TABLE: Table<Set<Request>> = Table {
    usage: &["sapwood ls-files [<options>] [<file>...]"],
    options: &[
        Opt::flag("-z", "separate paths with the NUL character", |request: &mut Request| &mut request.nul)
            .native(Both),
        Opt::flag("-t", "identify the file status with tags", |request: &mut Request| &mut request.tag)
            .native(Both),
        Opt::flag("-v", "use lowercase letters for 'assume unchanged' files", |request: &mut Request| {
            &mut request.valid_bit
        })
        .native(Both),
        Opt::flag("-f", "use lowercase letters for 'fsmonitor clean' files", |request: &mut Request| {
            &mut request.fsmonitor_bit
        })
        .native(Both),
        Opt::flag("-c, --cached", "show cached files in the output (default)", |request: &mut Request| {
            &mut request.cached
        })
        .native(Both),
        Opt::flag("-d, --deleted", "show deleted files in the output", |request: &mut Request| {
            &mut request.deleted
        })
        .native(Both),
        Opt::flag("-m, --modified", "show modified files in the output", |request: &mut Request| {
            &mut request.modified
        })
        .native(Both),
        Opt::flag("-o, --others", "show other files in the output", |request: &mut Request| {
            &mut request.others
        })
        .native(Both),
        Opt::flag("-i, --ignored", "show ignored files in the output", |request: &mut Request| {
            &mut request.ignored
        })
        .native(Both),
        Opt::flag(
            "-s, --stage",
            "show staged contents' object name in the output",
            |request: &mut Request| &mut request.stage,
        )
        .native(Both),
        Opt::flag(
            "-k, --killed",
            "show files on the filesystem that need to be removed",
            |request: &mut Request| &mut request.killed,
        )
        .native(Both),
        Opt::flag("--directory", "show 'other' directories' names only", |request: &mut Request| {
            &mut request.directory
        })
        .native(Both),
        Opt::flag("--eol", "show line endings of files", |request: &mut Request| &mut request.eol)
            .native(Both),
        Opt::new("--empty-directory", "don't show empty directories", |request: &mut Request, value| {
            request.hide_empty = !value.on;
            Ok(())
        })
        .native(Both),
        Opt::flag("-u, --unmerged", "show unmerged files in the output", |request: &mut Request| {
            &mut request.unmerged
        })
        .native(Both),
        Opt::flag("--resolve-undo", "show resolve-undo information", |request: &mut Request| {
            &mut request.resolve_undo
        })
        .native(Both),
        Opt::list("-x, --exclude <pattern>", "skip files matching pattern", |request: &mut Request| {
            &mut request.excludes
        })
        .only()
        .native(On),
        Opt::new(
            "-X, --exclude-from <file>",
            "read exclude patterns from <file>",
            |request: &mut Request, value| {
                request.rules.extend(value.text.map(Rule::From));
                Ok(())
            },
        )
        .only()
        .native(On),
        Opt::new(
            "--exclude-per-directory <file>",
            "read additional per-directory exclude patterns in <file>",
            |request: &mut Request, value| {
                request.rules.push(Rule::PerDirectory(value.text));
                Ok(())
            },
        )
        .native(Both),
        Opt::new("--exclude-standard", "add the standard git exclusions", |request: &mut Request, _| {
            request.rules.push(Rule::Standard);
            Ok(())
        })
        .only()
        .native(On),
        Opt::flag(
            "--full-name",
            "make the output relative to the project top directory",
            |request: &mut Request| &mut request.full_name,
        )
        .only()
        .native(On),
        Opt::flag("--recurse-submodules", "recurse through submodules", |request: &mut Request| {
            &mut request.recurse
        })
        .native(Both),
        Opt::flag(
            "--error-unmatch",
            "if any <file> is not in the index, treat this as an error",
            |request: &mut Request| &mut request.error_unmatch,
        )
        .native(Both),
        Opt::text(
            "--with-tree <tree-ish>",
            "pretend that paths removed since <tree-ish> are still present",
            |request: &mut Request| &mut request.with_tree,
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
        Opt::flag("--debug", "show debugging data", |request: &mut Request| &mut request.debug).native(Both),
        Opt::flag("--deduplicate", "suppress duplicate entries", |request: &mut Request| {
            &mut request.deduplicate
        })
        .native(Both),
        Opt::flag(
            "--sparse",
            "show sparse directories in the presence of a sparse index",
            |request: &mut Request| &mut request.sparse,
        )
        .native(Both),
        Opt::text("--format <format>", "format to use for the output", |request: &mut Request| {
            &mut request.format
        })
        .only()
        .native(On),
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

/// A source of ignore rules. Their order on the command line matters.
enum Rule {
    From(BString),
    PerDirectory(Option<BString>),
    Standard,
}

#[derive(Default)]
pub(super) struct Request {
    pub(super) nul: bool,
    tag: bool,
    pub(super) valid_bit: bool,
    pub(super) fsmonitor_bit: bool,
    pub(super) cached: bool,
    pub(super) deleted: bool,
    pub(super) modified: bool,
    pub(super) others: bool,
    pub(super) ignored: bool,
    pub(super) stage: bool,
    pub(super) killed: bool,
    directory: bool,
    hide_empty: bool,
    pub(super) eol: bool,
    pub(super) unmerged: bool,
    pub(super) resolve_undo: bool,
    pub(super) full_name: bool,
    pub(super) error_unmatch: bool,
    pub(super) abbrev: Abbrev,
    pub(super) debug: bool,
    deduplicate: bool,
    pub(super) sparse: bool,
    pub(super) format: Option<BString>,
    excludes: Vec<BString>,
    rules: Vec<Rule>,
    pub(super) recurse: bool,
    pub(super) with_tree: Option<BString>,
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
        let Request { stage, others, killed, resolve_undo, deduplicate, eol, tag, .. } = request;
        if request.format.is_some()
            && (stage || others || killed || resolve_undo || deduplicate || eol || tag)
        {
            return Err(Failure::Usage(Stop::Mistake {
                message: "--format cannot be used with -s, -o, -k, -t, --resolve-undo, --deduplicate, --eol"
                    .into(),
                usage: Some(TABLE.help()),
            }));
        }
        request.stage |= request.unmerged;
        Ok(request)
    }

    /// Refuses combinations that Git does not support with submodules.
    pub(super) fn validate_recursion(&self) -> Result<(), Failure> {
        let Request { deleted, others, unmerged, killed, modified, resolve_undo, .. } = *self;
        if !self.recurse {
            return Ok(());
        }
        if deleted || others || unmerged || killed || modified || resolve_undo || self.with_tree.is_some() {
            return Err(Failure::fatal("ls-files --recurse-submodules unsupported mode"));
        }
        if self.error_unmatch {
            return Err(Failure::fatal("ls-files --recurse-submodules does not support --error-unmatch"));
        }
        Ok(())
    }

    pub(super) fn needs_worktree(&self) -> bool {
        self.modified || self.others || self.deleted || self.ignored || self.killed
    }

    /// Returns true if data of the file system monitor affect the output.
    pub(super) fn asks_monitor(&self) -> bool {
        self.modified || self.fsmonitor_bit || self.debug
    }

    /// Checks the rules that Git checks after it parsed the pathspecs.
    pub(super) fn validate(&self) -> Result<(), Failure> {
        let excludes = self.rules.iter().any(|rule| !matches!(rule, Rule::PerDirectory(None)));
        if self.ignored && !self.others && !self.cached {
            return Err(Failure::fatal("ls-files -i must be used with either -o or -c"));
        }
        if self.ignored && !excludes && self.excludes.is_empty() {
            return Err(Failure::fatal("ls-files --ignored needs some exclude pattern"));
        }
        if self.with_tree.is_some() && self.stage {
            let wrong = "options 'ls-files --with-tree' and '-s/-u' cannot be used together";
            return Err(Failure::fatal(wrong));
        }
        Ok(())
    }

    /// Returns the ignore rules. File names are relative to `top`, where Git is by then.
    pub(super) fn sources(&self, repo: &Repository, top: &Path) -> Result<Sources, Failure> {
        let icase = check::folds_case(repo)?;
        let mut sources = Sources {
            first: Rules::of_patterns(self.excludes.iter().map(|pattern| pattern.as_bstr()), icase),
            ..Sources::default()
        };
        for rule in &self.rules {
            match rule {
                Rule::From(name) => match UserPath::new(name).resolve(top).map(|path| by_path::read(&path)) {
                    Ok(Ok(Some(content))) => sources.add(name.clone(), &content, icase),
                    _ => return Err(Failure::Fatal(text!("cannot use ", name, " as an exclude file"))),
                },
                Rule::PerDirectory(name) => sources.per_directory = name.clone(),
                Rule::Standard => {
                    let info = repo.display_common_file("info/exclude");
                    sources.add_standard(repo, info.as_os_str().as_bytes().into())?;
                }
            }
        }
        Ok(sources)
    }

    pub(super) fn directories(&self) -> Directories {
        match (self.directory, self.hide_empty) {
            (false, _) => Directories::Files,
            (true, false) => Directories::Whole,
            (true, true) => Directories::WholeUnlessEmpty,
        }
    }

    /// Returns true if tags are shown.
    pub(super) fn tags(&self) -> bool {
        self.tag || self.valid_bit || self.fsmonitor_bit
    }

    /// Returns true if entries are listed regardless of their files.
    pub(super) fn shows_cached(&self) -> bool {
        let others = self.deleted || self.others || self.killed || self.modified || self.resolve_undo;
        self.cached || self.stage || !others
    }

    pub(super) fn lists_entries(&self) -> bool {
        self.shows_cached() || self.deleted || self.modified
    }

    pub(super) fn deduplicates(&self) -> bool {
        self.deduplicate && !self.tag && !self.stage
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
