//! What is asked: the command line over the configuration, by Git's rules of precedence.

use bstr::{BStr, BString, ByteSlice as _};
use engine::diff::renames::{self, Detect};
use repo::{Repository, submodule::Ignore};

use crate::{
    session::tracking::AheadBehind,
    term::{
        args::{Grammar, Native, Opt, Parsed, Stop, Table},
        failure::Failure,
        text::columns::{Columns, When},
    },
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Verbose,
    Short,
    Branch,
    ShowStash,
    AheadBehind,
    Porcelain,
    Long,
    Nul,
    Untracked,
    Ignored,
    IgnoreSubmodules,
    Column,
    NoRenames,
    FindRenames,
}

pub(super) const TABLE: Table<Key> = Table {
    usage: &["sapwood status [<options>] [--] [<pathspec>...]"],
    options: &[
        Opt::new(Key::Verbose, "-v, --verbose", "be verbose").native(Native::Off),
        Opt::new(Key::Short, "-s, --short", "show status concisely").native(Native::Both),
        Opt::new(Key::Branch, "-b, --branch", "show branch information").native(Native::Both),
        Opt::new(Key::ShowStash, "--show-stash", "show stash information").native(Native::Both),
        Opt::new(Key::AheadBehind, "--ahead-behind", "compute full ahead/behind values").native(Native::Both),
        Opt::new(Key::Porcelain, "--porcelain[=<version>]", "machine-readable output").native(Native::Both),
        Opt::new(Key::Long, "--long", "show status in long format (default)").native(Native::Both),
        Opt::new(Key::Nul, "-z, --null", "terminate entries with NUL").native(Native::Both),
        Opt::new(
            Key::Untracked,
            "-u, --untracked-files[=<mode>]",
            "show untracked files, optional modes: all, normal, no. (Default: all)",
        )
        .native(Native::Both),
        Opt::new(
            Key::Ignored,
            "--ignored[=<mode>]",
            "show ignored files, optional modes: traditional, matching, no. (Default: traditional)",
        )
        .native(Native::Both),
        Opt::new(
            Key::IgnoreSubmodules,
            "--ignore-submodules[=<when>]",
            "ignore changes to submodules, optional when: all, dirty, untracked. (Default: all)",
        )
        .native(Native::Both),
        Opt::new(Key::Column, "--column[=<style>]", "list untracked files in columns").native(Native::Both),
        Opt::new(Key::NoRenames, "--no-renames", "do not detect renames").native(Native::Both),
        Opt::new(
            Key::FindRenames,
            "-M, --find-renames[=<n>]",
            "detect renames, optionally set similarity index",
        )
        .only()
        .native(Native::On),
    ],
    grammar: Grammar::Mixed,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Long,
    Short,
    Porcelain,
    PorcelainV2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Untracked {
    No,
    Normal,
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ignored {
    No,
    Traditional,
    Matching,
}

/// How renames are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Renames {
    /// `None`: not at all.
    pub(super) detect: Option<Detect>,
    /// See [`renames::Options`].
    pub(super) minimum: u32,
    pub(super) limit: usize,
}

#[derive(Debug)]
pub(super) struct Request {
    /// The differences are shown, in the long format.
    pub(super) verbose: bool,
    pub(super) format: Format,
    pub(super) branch: bool,
    pub(super) stash: bool,
    pub(super) ahead_behind: AheadBehind,
    /// `-z`
    pub(super) nul: bool,
    pub(super) untracked: Untracked,
    pub(super) ignored: Ignored,
    /// `--ignore-submodules`
    pub(super) submodules: Option<Ignore>,
    pub(super) columns: Columns,
    pub(super) renames: Renames,
    /// Paths are told from where we are.
    pub(super) is_relative: bool,
    /// Leads each line of the long format (`status.displayCommentPrefix`).
    pub(super) comment: Option<BString>,
    pub(super) pathspecs: Vec<BString>,
}

/// What an option said, if it was given; what counts then may depend on others.
#[derive(Default)]
struct Given {
    verbose: bool,
    /// `None` inside: the opposite of one of them.
    format: Option<Option<Format>>,
    branch: Option<bool>,
    stash: Option<bool>,
    ahead_behind: Option<bool>,
    nul: bool,
    untracked: Option<BString>,
    ignored: Option<BString>,
    submodules: Option<BString>,
    renames: Option<bool>,
    score: Option<Option<u32>>,
}

impl Request {
    /// Whether the answer names what a detached HEAD was detached at.
    pub(super) fn names_what_is_detached(&self) -> bool {
        match self.format {
            Format::Long => true,
            Format::PorcelainV2 => self.branch,
            Format::Short | Format::Porcelain => false,
        }
    }

    pub(super) fn fold(repo: &Repository, parsed: Parsed<Key>) -> Result<Request, Failure> {
        let flag = |key: &str| repo.config_bool(key);
        let mut columns = configured_columns(repo)?;
        let mut given = Given::default();
        for event in parsed.events {
            let (on, value) = (event.on, event.value);
            match event.key {
                Key::Verbose => given.verbose = on,
                Key::Short => given.format = Some(on.then_some(Format::Short)),
                Key::Long => given.format = Some(on.then_some(Format::Long)),
                Key::Porcelain => {
                    let format = match value.as_ref().map(|value| value.as_bytes()) {
                        None | Some(b"v1" | b"1") => Format::Porcelain,
                        Some(b"v2" | b"2") => Format::PorcelainV2,
                        Some(other) => {
                            let other = other.as_bstr();
                            return Err(Failure::fatal(format!("unsupported porcelain version '{other}'")));
                        }
                    };
                    given.format = Some(on.then_some(format));
                }
                Key::Branch => given.branch = Some(on),
                Key::ShowStash => given.stash = Some(on),
                Key::AheadBehind => given.ahead_behind = Some(on),
                Key::Nul => given.nul = on,
                Key::Untracked => given.untracked = on.then(|| value.unwrap_or_else(|| "all".into())),
                Key::Ignored => given.ignored = on.then(|| value.unwrap_or_else(|| "traditional".into())),
                Key::IgnoreSubmodules => given.submodules = on.then(|| value.unwrap_or_else(|| "all".into())),
                Key::Column => {
                    columns.when = if on { When::Always } else { When::Never };
                    columns.take(value.unwrap_or_default().as_bstr()).map_err(|rest| {
                        Failure::Usage(Stop::Mistake {
                            message: format!("unsupported option '{rest}'").into(),
                            usage: None,
                        })
                    })?;
                }
                Key::NoRenames => given.renames = Some(!on),
                Key::FindRenames => given.score = Some(value.map(|value| score(value.as_bstr()))),
            }
        }
        // What is configured has to mean something, also where the command line says otherwise.
        for key in ["short", "branch", "aheadBehind", "showStash", "relativePaths", "displayCommentPrefix"] {
            flag(&format!("status.{key}"))?;
        }
        let format = format(repo, &given)?;
        // What people configure for themselves does not reach scripts.
        let for_people = !given.nul && !matches!(format, Format::Porcelain | Format::PorcelainV2);
        let ahead_behind = match given.ahead_behind {
            None if for_people => flag("status.aheadBehind")?,
            given => given,
        };
        let branch = match given.branch {
            None if for_people => flag("status.branch")?,
            given => given,
        };
        let request = Request {
            verbose: given.verbose,
            format,
            branch: branch.unwrap_or(false),
            stash: match given.stash {
                None => flag("status.showStash")?.unwrap_or(false),
                Some(stash) => stash,
            },
            ahead_behind: if ahead_behind == Some(false) { AheadBehind::Quick } else { AheadBehind::Full },
            nul: given.nul,
            untracked: untracked(repo, given.untracked.as_ref())?,
            ignored: ignored(given.ignored.as_ref())?,
            submodules: given.submodules.as_ref().map(|value| submodules(value.as_bstr())).transpose()?,
            columns,
            renames: renames(repo, &given)?,
            is_relative: format != Format::Porcelain && flag("status.relativePaths")?.unwrap_or(true),
            comment: flag("status.displayCommentPrefix")?.unwrap_or(false).then(|| comment(repo)),
            pathspecs: parsed.rest,
        };
        if request.ignored == Ignored::Matching && request.untracked == Untracked::No {
            return Err(Failure::fatal("Unsupported combination of ignored and untracked-files arguments"));
        }
        Ok(request)
    }

    /// Whether what happened in submodules is summed up (`status.submoduleSummary`).
    pub(super) fn is_summarized(&self, repo: &Repository) -> bool {
        self.format == Format::Long
            && self.submodules != Some(Ignore::All)
            && repo
                .config_str("status.submoduleSummary")
                .is_some_and(|value| repo::parse_bool(Some(value.as_bstr())) != Some(false))
    }
}

fn format(repo: &Repository, given: &Given) -> Result<Format, Failure> {
    match (given.format, given.nul) {
        (Some(Some(Format::Long)), true) => {
            Err(Failure::fatal("options '--long' and '-z' cannot be used together"))
        }
        (None | Some(None), true) => Ok(Format::Porcelain),
        (Some(format), _) => Ok(format.unwrap_or(Format::Long)),
        (None, _) if repo.config_bool("status.short")? == Some(true) => Ok(Format::Short),
        (None, _) => Ok(Format::Long),
    }
}

fn configured_columns(repo: &Repository) -> Result<Columns, Failure> {
    let mut columns = Columns::default();
    for key in ["ui", "status"] {
        for value in repo.config_all(&format!("column.{key}")) {
            columns
                .take(value.as_bstr())
                .map_err(|_| Failure::fatal(format!("invalid column.{key} mode {value}")))?;
        }
    }
    Ok(columns)
}

fn untracked(repo: &Repository, given: Option<&BString>) -> Result<Untracked, Failure> {
    let parse = |value: &BStr| match value.as_bytes() {
        b"no" => Some(Untracked::No),
        b"normal" => Some(Untracked::Normal),
        b"all" => Some(Untracked::All),
        _ => match repo::parse_bool(Some(value)) {
            Some(false) => Some(Untracked::No),
            Some(true) => Some(Untracked::Normal),
            None => None,
        },
    };
    let invalid = |value: &BString| Failure::fatal(format!("Invalid untracked files mode '{value}'"));
    const KEY: &str = "status.showUntrackedFiles";
    let configured = match repo.config_str(KEY) {
        None => Untracked::Normal,
        // Nothing at all is true, in configuration.
        Some(value) if value.is_empty() && repo.config_bool(KEY)? == Some(true) => Untracked::Normal,
        Some(value) => parse(value.as_bstr()).ok_or_else(|| invalid(&value))?,
    };
    given.map_or(Ok(configured), |value| parse(value.as_bstr()).ok_or_else(|| invalid(value)))
}

fn ignored(given: Option<&BString>) -> Result<Ignored, Failure> {
    match given.map(|value| value.as_bytes()) {
        None | Some(b"no") => Ok(Ignored::No),
        Some(b"traditional") => Ok(Ignored::Traditional),
        Some(b"matching") => Ok(Ignored::Matching),
        Some(other) => Err(Failure::fatal(format!("Invalid ignored mode '{}'", other.as_bstr()))),
    }
}

fn submodules(value: &BStr) -> Result<Ignore, Failure> {
    Ignore::parse(value).ok_or_else(|| Failure::fatal(format!("bad --ignore-submodules argument: {value}")))
}

fn renames(repo: &Repository, given: &Given) -> Result<Renames, Failure> {
    // The last of `status.*` counts, or the first of `diff.*`.
    let value = |name: &str| {
        let first = || repo.config_all(&format!("diff.{name}")).into_iter().next();
        repo.config_str(&format!("status.{name}")).or_else(first)
    };
    let is_copies =
        |value: &BString| value.eq_ignore_ascii_case(b"copies") || value.eq_ignore_ascii_case(b"copy");
    for key in ["status.renames", "diff.renames"] {
        if !repo.config_str(key).is_some_and(|value| is_copies(&value)) {
            repo.config_bool(key)?;
        }
    }
    let mut detect = match value("renames") {
        Some(value) if is_copies(&value) => Some(Detect::Copies),
        Some(value) if repo::parse_bool(Some(value.as_bstr())) == Some(false) => None,
        _ => Some(Detect::Renames),
    };
    if let Some(wanted) = given.renames {
        detect = wanted.then_some(Detect::Renames);
    }
    if given.score.is_some() {
        detect = detect.or(Some(Detect::Renames));
    }
    let limit = match repo.config_str("status.renameLimit") {
        Some(_) => repo.config_int("status.renameLimit")?,
        None => repo.config_int("diff.renameLimit")?,
    };
    Ok(Renames {
        detect,
        minimum: given.score.flatten().unwrap_or(0),
        limit: limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(renames::DEFAULT_LIMIT),
    })
}

/// What is given to `--find-renames`; what is behind the score is not looked at, as by Git.
fn score(value: &BStr) -> u32 {
    renames::leading_score(value.strip_prefix(b"=").unwrap_or(value)).0
}

/// What leads a line that is a comment.
pub(super) fn comment(repo: &Repository) -> BString {
    let configured = repo.config_str("core.commentString").or_else(|| repo.config_str("core.commentChar"));
    configured.filter(|value| !value.eq_ignore_ascii_case(b"auto")).unwrap_or_else(|| "#".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores() {
        let of = |value: &str| score(value.into());
        assert_eq!(
            (of("50"), of("50%"), of("5"), of(".5"), of("=50"), of("0.5")),
            (30_000, 30_000, 30_000, 30_000, 30_000, 30_000)
        );
        assert_eq!((of("100%"), of("100"), of("0"), of("")), (60_000, 6_000, 0, 0));
    }
}
