//! The options of `config`: one table for the older form, and one for each subcommand.

use bstr::{BString, ByteSlice as _};
use sapwood::config::Kind;

use crate::term::{
    args::{Both, Grammar, Opt, Set, Spec, Stop, Survey, Syntax, Table, join},
    failure::Failure,
};

/// The options of all forms.
#[derive(Debug, Default)]
pub(super) struct Request {
    pub(super) system: bool,
    pub(super) global: bool,
    pub(super) local: bool,
    pub(super) worktree: bool,
    pub(super) file: Option<BString>,
    pub(super) blob: Option<BString>,
    pub(super) includes: Option<bool>,
    pub(super) mode: Option<Mode>,
    pub(super) kind: Option<Kind>,
    pub(super) display: Display,
    pub(super) default: Option<BString>,
    pub(super) comment: Option<BString>,
    pub(super) fixed_value: bool,
    pub(super) all: bool,
    pub(super) regexp: bool,
    pub(super) append: bool,
    pub(super) value: Option<BString>,
    pub(super) url: Option<BString>,
}

/// Options that select what is printed of an entry.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Display {
    pub(super) nul: bool,
    pub(super) name_only: bool,
    pub(super) origin: bool,
    pub(super) scope: bool,
    pub(super) names: bool,
}

/// The option of the older form that selects the action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Get,
    GetAll,
    GetRegexp,
    GetUrlmatch,
    ReplaceAll,
    Add,
    Unset,
    UnsetAll,
    RenameSection,
    RemoveSection,
    List,
    Edit,
    GetColor,
    GetColorbool,
}

type Option_ = Opt<Set<Request>>;

const LOCATION: [Option_; 6] = [
    Opt::flag("--global", "use global config file", field!(global)).native(Both),
    Opt::flag("--system", "use system config file", field!(system)).native(Both),
    Opt::flag("--local", "use repository config file", field!(local)).native(Both),
    Opt::flag("--worktree", "use per-worktree config file", field!(worktree)).native(Both),
    Opt::text("-f, --file <file>", "use given config file", field!(file)).native(Both),
    Opt::text("--blob <blob-id>", "read config from given blob object", field!(blob)).native(Both),
];

macro_rules! kind {
    ($spelling:literal, $help:literal, $kind:expr) => {
        Opt::new($spelling, $help, |request: &mut Request, _| set_kind(request, $kind)).only().native(Both)
    };
}

const KIND: [Option_; 7] = [
    Opt::new("-t, --type <type>", "value is given this type", |request: &mut Request, value| {
        match value.text {
            None => request.kind = None,
            Some(name) => match Kind::named(name.as_bstr()) {
                Some(kind) => set_kind(request, kind)?,
                None => return Err(Failure::fatal(format!("unrecognized --type argument, {name}"))),
            },
        }
        Ok(())
    })
    .native(Both),
    kind!("--bool", "value is \"true\" or \"false\"", Kind::Bool),
    kind!("--int", "value is decimal number", Kind::Int),
    kind!("--bool-or-int", "value is --bool or --int", Kind::BoolOrInt),
    kind!("--bool-or-str", "value is --bool or string", Kind::BoolOrStr),
    kind!("--path", "value is a path (file or directory name)", Kind::Path),
    kind!("--expiry-date", "value is an expiry date", Kind::ExpiryDate),
];

fn set_kind(request: &mut Request, kind: Kind) -> Result<(), Failure> {
    if request.kind.is_some_and(|before| before != kind) {
        return Err(Failure::Error("only one type at a time".into(), 129));
    }
    request.kind = Some(kind);
    Ok(())
}

const DISPLAY: [Option_; 5] = [
    Opt::flag("-z, --null", "terminate values with NUL byte", field!(display.nul)).native(Both),
    Opt::flag("--name-only", "show variable names only", field!(display.name_only)).native(Both),
    Opt::flag("--show-origin", "show origin of config", field!(display.origin)).native(Both),
    Opt::flag("--show-scope", "show scope of config", field!(display.scope)).native(Both),
    Opt::flag("--show-names", "show config keys in addition to their values", field!(display.names))
        .native(Both),
];

macro_rules! mode {
    ($spelling:literal, $help:literal, $mode:expr) => {
        Opt::new($spelling, $help, |request: &mut Request, _| set_mode(request, $mode)).only()
    };
}

fn set_mode(request: &mut Request, mode: Mode) -> Result<(), Failure> {
    if request.mode.is_some_and(|before| before != mode) {
        return Err(Failure::Error("options for different actions cannot be used together".into(), 129));
    }
    request.mode = Some(mode);
    Ok(())
}

const MODES: [Option_; 14] = [
    mode!("--get", "get value: name [<value-pattern>]", Mode::Get).native(Both),
    mode!("--get-all", "get all values: key [<value-pattern>]", Mode::GetAll).native(Both),
    mode!("--get-regexp", "get values for regexp: name-regex [<value-pattern>]", Mode::GetRegexp)
        .native(Both),
    mode!("--get-urlmatch", "get value specific for the URL: section[.var] URL", Mode::GetUrlmatch)
        .native(Both),
    mode!("--replace-all", "replace all matching variables: name value [<value-pattern>]", Mode::ReplaceAll)
        .native(Both),
    mode!("--add", "add a new variable: name value", Mode::Add).native(Both),
    mode!("--unset", "remove a variable: name [<value-pattern>]", Mode::Unset).native(Both),
    mode!("--unset-all", "remove all matches: name [<value-pattern>]", Mode::UnsetAll).native(Both),
    mode!("--rename-section", "rename section: old-name new-name", Mode::RenameSection).native(Both),
    mode!("--remove-section", "remove a section: name", Mode::RemoveSection).native(Both),
    mode!("-l, --list", "list all", Mode::List).native(Both),
    mode!("-e, --edit", "open an editor", Mode::Edit),
    mode!("--get-color", "find the color configured: slot [<default>]", Mode::GetColor).native(Both),
    mode!("--get-colorbool", "find the color setting: slot [<stdout-is-tty>]", Mode::GetColorbool)
        .native(Both),
];

const INCLUDES: Option_ =
    Opt::choice("--includes", "respect include directives on lookup", field!(includes)).native(Both);
const DEFAULT: Option_ =
    Opt::text("--default <value>", "with --get, use default value when missing entry", field!(default))
        .native(Both);
const COMMENT: Option_ = Opt::text(
    "--comment <value>",
    "human-readable comment string (# will be prepended as needed)",
    field!(comment),
)
.native(Both);
const FIXED_VALUE: Option_ = Opt::flag(
    "--fixed-value",
    "use string equality when comparing values to value pattern",
    field!(fixed_value),
)
.native(Both);
const ALL: Option_ =
    Opt::flag("--all", "act on all values of multi-valued config options", field!(all)).native(Both);
const REGEXP: Option_ =
    Opt::flag("--regexp", "interpret the name as a regular expression", field!(regexp)).native(Both);
const VALUE: Option_ =
    Opt::text("--value <pattern>", "only values that match the pattern", field!(value)).native(Both);
const URL: Option_ = Opt::text("--url <URL>", "show config matching the given URL", field!(url)).native(Both);
const APPEND: Option_ =
    Opt::flag("--append", "add a new line without altering any existing values", field!(append)).native(Both);

const SHOWN: [Option_; 12] = join(&KIND, &DISPLAY);
const PLACED: [Option_; 18] = join(&LOCATION, &SHOWN);
const OLD: [Option_; 36] = join(&join::<_, 32>(&PLACED, &MODES), &[DEFAULT, COMMENT, FIXED_VALUE, INCLUDES]);
const LIST: [Option_; 19] = join(&PLACED, &[INCLUDES]);
const GET: [Option_; 25] = join(&PLACED, &[ALL, REGEXP, VALUE, FIXED_VALUE, URL, INCLUDES, DEFAULT]);
const SET: [Option_; 18] =
    join(&join::<_, 13>(&LOCATION, &KIND), &[ALL, VALUE, FIXED_VALUE, COMMENT, APPEND]);
const UNSET: [Option_; 9] = join(&LOCATION, &[ALL, VALUE, FIXED_VALUE]);

/// A form of the command: the older one, or a subcommand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Old,
    List,
    Get,
    Set,
    Unset,
    RenameSection,
    RemoveSection,
    Edit,
}

const OLD_TABLE: Table<Set<Request>> = Table {
    usage: &[
        "sapwood config [<file-option>] [<display-option>] [<action>] [<name> [<value> [<value-pattern>]]]",
    ],
    options: &OLD,
    grammar: Grammar::OptionsFirst,
};

const LIST_USAGE: &str = "sapwood config list [<file-option>] [<display-option>] [--includes]";
const GET_USAGE: &str = "sapwood config get [<file-option>] [<display-option>] [--includes] [--all] [--regexp] [--value=<pattern>] [--fixed-value] [--default=<default>] <name>";
const UNSET_USAGE: &str =
    "sapwood config unset [<file-option>] [--all] [--value=<pattern>] [--fixed-value] <name>";
const RENAME_USAGE: &str = "sapwood config rename-section [<file-option>] <old-name> <new-name>";
const REMOVE_USAGE: &str = "sapwood config remove-section [<file-option>] <name>";

/// The subcommands, by name.
static SUBCOMMANDS: &[(&str, Form, Table<Set<Request>>)] = &[
    ("list", Form::List, Table { usage: &[LIST_USAGE], options: &LIST, grammar: Grammar::Mixed }),
    ("get", Form::Get, Table { usage: &[GET_USAGE], options: &GET, grammar: Grammar::OptionsFirst }),
    (
        "set",
        Form::Set,
        Table {
            usage: &[
                "sapwood config set [<file-option>] [--type=<type>] [--comment=<message>] [--all] [--value=<pattern>] [--fixed-value] <name> <value>",
            ],
            options: &SET,
            grammar: Grammar::OptionsFirst,
        },
    ),
    ("unset", Form::Unset, Table { usage: &[UNSET_USAGE], options: &UNSET, grammar: Grammar::OptionsFirst }),
    (
        "rename-section",
        Form::RenameSection,
        Table { usage: &[RENAME_USAGE], options: &LOCATION, grammar: Grammar::OptionsFirst },
    ),
    (
        "remove-section",
        Form::RemoveSection,
        Table { usage: &[REMOVE_USAGE], options: &LOCATION, grammar: Grammar::OptionsFirst },
    ),
    (
        "edit",
        Form::Edit,
        Table {
            usage: &["sapwood config edit [<file-option>]"],
            options: &LOCATION,
            grammar: Grammar::Mixed,
        },
    ),
];

/// The command line of all forms.
#[derive(Debug)]
pub(super) struct Forms;

impl Forms {
    /// Returns the form of the arguments, its table, and the remaining arguments. Only the first
    /// argument can name a subcommand.
    fn of(args: &[BString]) -> (Form, &'static Table<Set<Request>>, &[BString]) {
        let named = args.split_first().and_then(|(word, rest)| {
            let found = SUBCOMMANDS.iter().find(|(name, ..)| word == name);
            found.map(|(_, form, table)| (*form, table, rest))
        });
        named.unwrap_or((Form::Old, &OLD_TABLE, args))
    }

    /// Parses a command line into its form, its options and its arguments.
    pub(super) fn parse(args: &[BString]) -> Result<(Form, Request, Vec<BString>), Failure> {
        let (form, table, args) = Forms::of(args);
        let mut request = Request::default();
        let rest = table.parse(args)?.store(&mut request)?;
        Ok((form, request, rest))
    }
}

/// The usage of all forms.
const USAGE: &[&str] = &[
    LIST_USAGE,
    GET_USAGE,
    "sapwood config set [<file-option>] [--type=<type>] [--all] [--value=<pattern>] [--fixed-value] <name> <value>",
    UNSET_USAGE,
    RENAME_USAGE,
    REMOVE_USAGE,
    "sapwood config [<file-option>] --get-colorbool <name> [<stdout-is-tty>]",
];

impl Syntax for Forms {
    fn usage(&self) -> &'static [&'static str] {
        USAGE
    }

    fn specs(&self) -> Vec<&Spec> {
        let mut specs = Syntax::specs(&OLD_TABLE);
        for (_, _, table) in SUBCOMMANDS {
            for spec in Syntax::specs(table) {
                if !specs.iter().any(|known| known.name() == spec.name()) {
                    specs.push(spec);
                }
            }
        }
        specs
    }

    fn is_native(&self, name: &str, on: bool) -> bool {
        let tables = std::iter::once(&OLD_TABLE).chain(SUBCOMMANDS.iter().map(|(.., table)| table));
        let named =
            |table: &'static Table<_>| Syntax::specs(table).into_iter().find(|spec| spec.name() == name);
        tables.filter_map(named).next().is_some_and(|spec| spec.is_native(on))
    }

    fn help(&self) -> String {
        Table { usage: USAGE, ..OLD_TABLE }.help()
    }

    fn survey(&self, args: &[BString]) -> Result<Survey, Stop> {
        let (_, table, args) = Forms::of(args);
        table.survey(args)
    }
}
