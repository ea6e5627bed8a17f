//! What was asked for: the options of `ls-files`, as values.

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
use sys::{UserPath, by_path};

use crate::{
    commands::reason::Reason,
    term::{
        args::{Grammar, Native, Opt, Stop, Survey, Table},
        console::text,
        failure::Failure,
    },
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Nul,
    Tag,
    ValidBit,
    FsmonitorBit,
    Cached,
    Deleted,
    Modified,
    Others,
    Ignored,
    Stage,
    Killed,
    Directory,
    Eol,
    EmptyDirectory,
    Unmerged,
    ResolveUndo,
    Exclude,
    ExcludeFrom,
    ExcludePerDirectory,
    ExcludeStandard,
    FullName,
    RecurseSubmodules,
    ErrorUnmatch,
    WithTree,
    Abbrev,
    Debug,
    Deduplicate,
    Sparse,
    Format,
}

pub(super) const TABLE: Table<Key> = Table {
    usage: &["sapwood ls-files [<options>] [<file>...]"],
    options: &[
        Opt::new(Key::Nul, "-z", "separate paths with the NUL character").native(Native::Both),
        Opt::new(Key::Tag, "-t", "identify the file status with tags").native(Native::Both),
        Opt::new(Key::ValidBit, "-v", "use lowercase letters for 'assume unchanged' files")
            .native(Native::Both),
        Opt::new(Key::FsmonitorBit, "-f", "use lowercase letters for 'fsmonitor clean' files")
            .native(Native::Both),
        Opt::new(Key::Cached, "-c, --cached", "show cached files in the output (default)")
            .native(Native::Both),
        Opt::new(Key::Deleted, "-d, --deleted", "show deleted files in the output").native(Native::Both),
        Opt::new(Key::Modified, "-m, --modified", "show modified files in the output").native(Native::Both),
        Opt::new(Key::Others, "-o, --others", "show other files in the output").native(Native::Both),
        Opt::new(Key::Ignored, "-i, --ignored", "show ignored files in the output").native(Native::Both),
        Opt::new(Key::Stage, "-s, --stage", "show staged contents' object name in the output")
            .native(Native::Both),
        Opt::new(Key::Killed, "-k, --killed", "show files on the filesystem that need to be removed")
            .native(Native::Both),
        Opt::new(Key::Directory, "--directory", "show 'other' directories' names only").native(Native::Both),
        Opt::new(Key::Eol, "--eol", "show line endings of files").native(Native::Both),
        Opt::new(Key::EmptyDirectory, "--empty-directory", "don't show empty directories")
            .native(Native::Both),
        Opt::new(Key::Unmerged, "-u, --unmerged", "show unmerged files in the output").native(Native::Both),
        Opt::new(Key::ResolveUndo, "--resolve-undo", "show resolve-undo information").native(Native::Both),
        Opt::new(Key::Exclude, "-x, --exclude <pattern>", "skip files matching pattern")
            .only()
            .native(Native::On),
        Opt::new(Key::ExcludeFrom, "-X, --exclude-from <file>", "read exclude patterns from <file>")
            .only()
            .native(Native::On),
        Opt::new(
            Key::ExcludePerDirectory,
            "--exclude-per-directory <file>",
            "read additional per-directory exclude patterns in <file>",
        )
        .native(Native::Both),
        Opt::new(Key::ExcludeStandard, "--exclude-standard", "add the standard git exclusions")
            .only()
            .native(Native::On),
        Opt::new(Key::FullName, "--full-name", "make the output relative to the project top directory")
            .only()
            .native(Native::On),
        Opt::new(Key::RecurseSubmodules, "--recurse-submodules", "recurse through submodules")
            .native(Native::Both),
        Opt::new(
            Key::ErrorUnmatch,
            "--error-unmatch",
            "if any <file> is not in the index, treat this as an error",
        )
        .native(Native::Both),
        Opt::new(
            Key::WithTree,
            "--with-tree <tree-ish>",
            "pretend that paths removed since <tree-ish> are still present",
        )
        .native(Native::Both),
        Opt::new(Key::Abbrev, "--abbrev[=<n>]", "use <n> digits to display object names")
            .native(Native::Both),
        Opt::new(Key::Debug, "--debug", "show debugging data").native(Native::Both),
        Opt::new(Key::Deduplicate, "--deduplicate", "suppress duplicate entries").native(Native::Both),
        Opt::new(Key::Sparse, "--sparse", "show sparse directories in the presence of a sparse index")
            .native(Native::Both),
        Opt::new(Key::Format, "--format <format>", "format to use for the output").only().native(Native::On),
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

/// Where ignore rules come from, in the order in which that was said.
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

/// Options that are wrong together, or with their values.
pub(super) fn wrong_together(_: &Survey, args: &[BString]) -> Option<Reason> {
    Request::parse(args).is_err().then(|| Reason::command_line("options or values that do not go together"))
}

impl Request {
    pub(super) fn parse(args: &[BString]) -> Result<Request, Failure> {
        let parsed = TABLE.parse(args)?;
        let mut request = Request { paths: parsed.rest, ..Request::default() };
        for event in parsed.events {
            let on = event.on;
            match event.key {
                Key::Nul => request.nul = on,
                Key::Tag => request.tag = on,
                Key::ValidBit => request.valid_bit = on,
                Key::FsmonitorBit => request.fsmonitor_bit = on,
                Key::Cached => request.cached = on,
                Key::Deleted => request.deleted = on,
                Key::Modified => request.modified = on,
                Key::Others => request.others = on,
                Key::Ignored => request.ignored = on,
                Key::Stage => request.stage = on,
                Key::Killed => request.killed = on,
                Key::Directory => request.directory = on,
                Key::Eol => request.eol = on,
                Key::EmptyDirectory => request.hide_empty = !on,
                Key::Unmerged => request.unmerged = on,
                Key::ResolveUndo => request.resolve_undo = on,
                Key::Exclude => request.excludes.extend(event.value),
                Key::ExcludeFrom => request.rules.extend(event.value.map(Rule::From)),
                Key::ExcludePerDirectory => request.rules.push(Rule::PerDirectory(event.value)),
                Key::ExcludeStandard => request.rules.push(Rule::Standard),
                Key::FullName => request.full_name = true,
                Key::RecurseSubmodules => request.recurse = on,
                Key::ErrorUnmatch => request.error_unmatch = on,
                Key::WithTree => request.with_tree = event.value,
                Key::Abbrev => request.abbrev = abbrev(on, event.value)?,
                Key::Debug => request.debug = on,
                Key::Deduplicate => request.deduplicate = on,
                Key::Sparse => request.sparse = on,
                Key::Format => request.format = event.value,
            }
        }
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

    /// What Git does not do with submodules.
    pub(super) fn judge_recursion(&self) -> Result<(), Failure> {
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

    /// Whether it makes a difference what the file system monitor has to say.
    pub(super) fn asks_monitor(&self) -> bool {
        self.modified || self.fsmonitor_bit || self.debug
    }

    /// What Git finds wrong once it knows the pathspecs.
    pub(super) fn judge(&self) -> Result<(), Failure> {
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

    /// The rules that were asked for. Names of files are from `top`, where Git is by then.
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
                    let info = repo.called_file("info/exclude");
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

    /// Whether the letters are shown.
    pub(super) fn tags(&self) -> bool {
        self.tag || self.valid_bit || self.fsmonitor_bit
    }

    /// Entries as such, whatever their files are.
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

/// Numbers are read as C does.
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
