//! The options of `submodule`.
//!
//! Git parses them in a shell script, which supports neither abbreviations nor clusters. The shim
//! leaves such command lines to Git, which refuses them.

use bstr::{BString, ByteSlice as _};
use engine::clone::Filter;
use sapwood::submodule::{Strategy, update};

use crate::{
    commands::{reason::Reason, record::LineCheck},
    term::{
        args::{Grammar, On, Opt, Set, Survey, Table},
        console::text,
        failure::Failure,
    },
};

/// The request of `update`; `init` uses `quiet` alone.
#[derive(Clone, Default)]
pub(super) struct Request {
    pub(super) quiet: bool,
    pub(super) progress: bool,
    pub(super) ref_format: Option<BString>,
    pub(super) depth: Option<BString>,
    pub(super) jobs: Option<BString>,
    pub(super) filter: Option<BString>,
    pub(super) update: update::Request,
}

impl Request {
    /// Completes the request of the library.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        let Request { depth, jobs, update, .. } = self;
        update.init |= update.require_init;
        let number = |text: &BString| text.to_str().ok().and_then(|text| text.parse::<i64>().ok());
        update.jobs =
            jobs.as_ref().and_then(number).map(|number| usize::try_from(number).unwrap_or_default());
        if let Some(text) = depth {
            let depth = text.to_str().ok().and_then(|text| text.parse().ok());
            let wrong = || Failure::Fatal(text!("depth ", text, " is not a positive number"));
            update.depth = Some(depth.ok_or_else(wrong)?);
        }
        Ok(())
    }
}

type Option_ = Opt<Set<Request>>;

/// The options that Git's script also accepts before `init` and `update`.
pub(super) const LEADING: &[&str] = &["-q", "--quiet"];

const QUIET: Option_ = Opt::flag("-q, --quiet", "print only errors", field!(quiet)).only().native(On);

const fn strategy(
    spelling: &'static str,
    help: &'static str,
    set: fn(&mut Request, crate::term::args::Value) -> Result<(), Failure>,
) -> Option_ {
    Opt::new(spelling, help, set).only().native(On)
}

/// `submodule init`
pub(super) const INIT: Table<Set<Request>> = Table {
    usage: &["sapwood submodule init [-q | --quiet] [--] [<path>...]"],
    options: &[QUIET],
    grammar: Grammar::OptionsFirst,
};

/// `submodule update`
pub(super) const UPDATE: Table<Set<Request>> = Table {
    usage: &["sapwood submodule update [<options>] [--] [<path>...]"],
    options: &[
        QUIET,
        Opt::new("-v, --verbose", "print progress again", |request: &mut Request, _| {
            request.quiet = false;
            Ok(())
        })
        .only()
        .native(On),
        Opt::flag("--progress", "force progress reporting", field!(progress)).only().native(On),
        Opt::flag("-i, --init", "register submodules first", field!(update.init)).only().native(On),
        Opt::flag(
            "--require-init",
            "clone only into empty directories; implies --init",
            field!(update.require_init),
        )
        .only()
        .native(On),
        Opt::flag("--remote", "use the branch of the submodule's remote", field!(update.remote))
            .only()
            .native(On),
        Opt::flag("-N, --no-fetch", "do not fetch", field!(update.no_fetch)).only().native(On),
        Opt::flag("-f, --force", "throw local changes away", field!(update.force)).only().native(On),
        Opt::flag("--recursive", "update the submodules within too", field!(update.recursive))
            .only()
            .native(On),
        strategy("--checkout", "check the commit out (the default)", |request, _| {
            request.update.strategy = Some(Strategy::Checkout);
            Ok(())
        }),
        strategy("-m, --merge", "merge the commit into the current branch", |request, _| {
            request.update.strategy = Some(Strategy::Merge);
            Ok(())
        }),
        strategy("-r, --rebase", "rebase the current branch onto the commit", |request, _| {
            request.update.strategy = Some(Strategy::Rebase);
            Ok(())
        }),
        Opt::list("--reference <repository>", "borrow objects of this repository", field!(update.references))
            .only()
            .native(On),
        Opt::text("--ref-format <format>", "store refs in this format", field!(ref_format)).only().native(On),
        Opt::flag("--dissociate", "use --reference only while cloning", field!(update.dissociate))
            .only()
            .native(On),
        Opt::text("--depth <n>", "clone and fetch so many commits", field!(depth)).only().native(On),
        Opt::text("-j, --jobs <n>", "clone so many submodules at once", field!(jobs)).only().native(On),
        Opt::choice(
            "--recommend-shallow",
            "clone as .gitmodules recommends",
            field!(update.recommend_shallow),
        )
        .native(crate::term::args::Native::Both),
        Opt::choice("--single-branch", "clone only one branch", field!(update.single_branch))
            .native(crate::term::args::Native::Both),
        Opt::text("--filter <filter>", "clone partially", field!(filter)).only().native(On),
        Opt::text("--super-prefix <prefix>", "place in the superproject", field!(update.super_prefix))
            .only()
            .hidden()
            .native(On),
    ],
    grammar: Grammar::OptionsFirst,
};

/// The options whose value is the next word.
const WITH_VALUE: &[&[u8]] = &[b"--reference", b"--ref-format", b"--depth", b"--jobs", b"-j", b"--filter"];

/// The options without a value.
const PLAIN: &[&[u8]] = &[
    b"-q",
    b"--quiet",
    b"-v",
    b"--verbose",
    b"--progress",
    b"-i",
    b"--init",
    b"--require-init",
    b"--remote",
    b"-N",
    b"--no-fetch",
    b"-f",
    b"--force",
    b"-r",
    b"--rebase",
    b"--dissociate",
    b"-m",
    b"--merge",
    b"--recursive",
    b"--checkout",
    b"--recommend-shallow",
    b"--no-recommend-shallow",
    b"--single-branch",
    b"--no-single-branch",
];

pub(super) const SPELLING: LineCheck =
    LineCheck::new("an option that is abbreviated or joined with others", spelling);

pub(super) const VALUES: LineCheck = LineCheck::new(
    "`--depth` or `--jobs` with a value that is no plain number; `--filter` that is wrong or without \
     `--init`; `--ref-format` that is not `files`; an empty value",
    values,
);

/// Detects spellings that Git's script does not support.
fn spelling(_: &Survey, args: &[BString]) -> Option<Reason> {
    let mut words = args.iter();
    while let Some(word) = words.next().filter(|word| word.starts_with(b"-") && *word != "--") {
        let stuck = word.split_once_str("=").map(|(name, _)| name);
        let jobs = word.strip_prefix(b"-j").is_some_and(|number| !number.is_empty());
        match word.as_slice() {
            name if PLAIN.contains(&name) => {}
            name if WITH_VALUE.contains(&name) => drop(words.next()),
            _ if jobs || stuck.is_some_and(|name| WITH_VALUE.contains(&name)) => {}
            name if name == b"-" => break,
            name => return Some(Reason::Option(name.as_bstr().to_string())),
        }
    }
    None
}

/// Detects values and combinations that Git refuses, or that sapwood does not support.
fn values(survey: &Survey, _: &[BString]) -> Option<Reason> {
    let given = |name: &'static str| survey.options.iter().filter(move |given| given.name == name);
    let has = |name: &'static str| given(name).next().is_some();
    let number = |name: &'static str| {
        let mut values = given(name).filter_map(|given| given.value.as_ref());
        let is_number =
            |text: &BString| !text.is_empty() && text.len() < 10 && text.iter().all(u8::is_ascii_digit);
        values.any(|text| !is_number(text)).then(|| Reason::command_line(format!("the value of '{name}'")))
    };
    let filter = || {
        let mut filters = given("--filter").filter_map(|given| given.value.as_ref());
        let is_wrong = filters.any(|filter| Filter::parse(filter.as_bstr()).is_err());
        let is_alone = has("--filter") && !has("--init") && !has("--require-init");
        (is_wrong || is_alone).then(|| Reason::Option("--filter".into()))
    };
    let format = || {
        let mut formats = given("--ref-format").filter_map(|given| given.value.as_ref());
        formats.any(|format| format != "files").then(|| Reason::Option("--ref-format".into()))
    };
    let empty = || {
        let is_empty =
            survey.options.iter().any(|given| given.value.as_ref().is_some_and(|it| it.is_empty()));
        is_empty.then(|| Reason::command_line("an option without its value"))
    };
    number("--depth").or_else(|| number("--jobs")).or_else(filter).or_else(format).or_else(empty)
}
