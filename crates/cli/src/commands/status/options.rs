//! The request: the command line and the configuration, by Git's rules of precedence.

use std::path::PathBuf;

use bstr::{BStr, BString, ByteSlice as _};
use engine::diff::renames::{self, Detect};
use repo::{Repository, keys, submodule::Ignore};
use sapwood::{
    commit::cleanup::comment_sign,
    status::{self, Base, Compared, Ignored, Renames, Untracked},
};

use crate::{
    commands::paths,
    session::{invocation::Invocation, tracking::AheadBehind},
    term::{
        args::{Both, Grammar, Off, On, Opt, Parsed, Set, Stop, Table, Value},
        failure::Failure,
        text::columns::{Columns, When},
    },
};

pub(super) const TABLE: Table<Set<Given>> = Table {
    usage: &["sapwood status [<options>] [--] [<pathspec>...]"],
    options: &[
        Opt::flag("-v, --verbose", "be verbose", |request: &mut Given| &mut request.verbose).native(Off),
        Opt::new("-s, --short", "show status concisely", |given: &mut Given, value| {
            given.take_format(value.on, Format::Short)
        })
        .native(Both),
        Opt::choice("-b, --branch", "show branch information", |request: &mut Given| &mut request.branch)
            .native(Both),
        Opt::choice("--show-stash", "show stash information", |request: &mut Given| &mut request.stash)
            .native(Both),
        Opt::choice("--ahead-behind", "compute full ahead/behind values", |request: &mut Given| {
            &mut request.ahead_behind
        })
        .native(Both),
        Opt::new("--porcelain[=<version>]", "machine-readable output", porcelain).native(Both),
        Opt::new("--long", "show status in long format (default)", |given: &mut Given, value| {
            given.take_format(value.on, Format::Long)
        })
        .native(Both),
        Opt::flag("-z, --null", "terminate entries with NUL", |request: &mut Given| &mut request.nul)
            .native(Both),
        Opt::new(
            "-u, --untracked-files[=<mode>]",
            "show untracked files, optional modes: all, normal, no. (Default: all)",
            |given: &mut Given, value| {
                given.untracked = value.text_or("all");
                Ok(())
            },
        )
        .native(Both),
        Opt::new(
            "--ignored[=<mode>]",
            "show ignored files, optional modes: traditional, matching, no. (Default: traditional)",
            |given: &mut Given, value| {
                given.ignored = value.text_or("traditional");
                Ok(())
            },
        )
        .native(Both),
        Opt::new(
            "--ignore-submodules[=<when>]",
            "ignore changes to submodules, optional when: all, dirty, untracked. (Default: all)",
            |given: &mut Given, value| {
                given.submodules = value.text_or("all");
                Ok(())
            },
        )
        .native(Both),
        Opt::new("--column[=<style>]", "list untracked files in columns", |given: &mut Given, value| {
            given.columns.push(value);
            Ok(())
        })
        .native(Both),
        Opt::new("--no-renames", "do not detect renames", |given: &mut Given, value| {
            given.renames = Some(!value.on);
            Ok(())
        })
        .native(Both),
        Opt::new(
            "-M, --find-renames[=<n>]",
            "detect renames, optionally set similarity index",
            |given: &mut Given, value| {
                given.score = Some(value.text.map(|text| score(text.as_bstr())));
                Ok(())
            },
        )
        .only()
        .native(On),
    ],
    grammar: Grammar::Mixed,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Long,
    Short,
    Porcelain,
    PorcelainV2,
}

impl Format {
    /// Returns true for the stable formats.
    pub(super) fn is_for_scripts(self) -> bool {
        matches!(self, Format::Porcelain | Format::PorcelainV2)
    }
}

#[derive(Debug)]
pub(super) struct Request {
    /// Show the patch, in the long format.
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
    /// Print paths relative to the current directory.
    pub(super) is_relative: bool,
    /// The prefix of each line of the long format (`status.displayCommentPrefix`).
    pub(super) comment: Option<BString>,
    pub(super) pathspecs: Vec<BString>,
    /// Set for the status that `commit` shows.
    pub(super) preview: Option<Preview>,
}

/// The properties of the status that `commit` shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Preview {
    /// The status goes into comments of the message, without advice and colours.
    pub(crate) is_template: bool,
    /// The commit amends HEAD, so the index is compared with HEAD's parent.
    pub(crate) amends: bool,
    /// The file that contains the index.
    pub(crate) index_file: PathBuf,
    /// The patch text.
    pub(crate) patch: BString,
}

/// Options of the command line that change the status.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) format: Option<Format>,
    pub(crate) branch: Option<bool>,
    pub(crate) ahead_behind: Option<bool>,
    pub(crate) nul: bool,
    pub(crate) untracked: Option<BString>,
}

/// The values of the options, whose effect may depend on other options.
#[derive(Default)]
pub(super) struct Given {
    verbose: bool,
    /// The inner `None` stands for the negation of a format.
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
    columns: Vec<Value>,
}

impl Given {
    /// Returns the options of a commit that affect its status. `status.short` does not apply to
    /// commits.
    pub(super) fn wanted(wanted: &Wanted) -> Given {
        Given {
            format: Some(wanted.format),
            branch: wanted.branch,
            ahead_behind: wanted.ahead_behind,
            nul: wanted.nul,
            untracked: wanted.untracked.clone(),
            ..Given::default()
        }
    }

    fn take_format(&mut self, on: bool, format: Format) -> Result<(), Failure> {
        self.format = Some(on.then_some(format));
        Ok(())
    }
}

fn porcelain(given: &mut Given, value: Value) -> Result<(), Failure> {
    let format = match value.text.as_ref().map(|version| version.as_bytes()) {
        None | Some(b"v1" | b"1") => Format::Porcelain,
        Some(b"v2" | b"2") => Format::PorcelainV2,
        Some(other) => {
            let other = other.as_bstr();
            return Err(Failure::fatal(format!("unsupported porcelain version '{other}'")));
        }
    };
    given.take_format(value.on, format)
}

impl Request {
    /// Returns the request to the library.
    pub(super) fn examination(
        &self,
        run: &Invocation,
        repo: &Repository,
    ) -> Result<status::Request, Failure> {
        Ok(status::Request {
            pathspecs: paths::parse(run, repo, &self.pathspecs)?,
            untracked: self.untracked,
            ignored: self.ignored,
            submodules: self.submodules,
            renames: self.renames,
            compared: match self.format {
                Format::Long => Compared::Followed,
                Format::Short | Format::Porcelain | Format::PorcelainV2 if self.branch => Compared::Upstream,
                Format::Short | Format::Porcelain | Format::PorcelainV2 => Compared::Nothing,
            },
            ahead_behind: Some(self.ahead_behind),
            finds_detached: self.names_what_is_detached(),
            base: if self.amends() { Base::Parent } else { Base::Head },
        })
    }

    /// Returns true if the output names the commit at which HEAD was detached.
    fn names_what_is_detached(&self) -> bool {
        match self.format {
            Format::Long => true,
            Format::PorcelainV2 => self.branch,
            Format::Short | Format::Porcelain => false,
        }
    }

    pub(super) fn fold(repo: &Repository, parsed: Parsed<Set<Given>>) -> Result<Request, Failure> {
        let mut given = Given::default();
        let pathspecs = parsed.store(&mut given)?;
        Request::of(repo, given, pathspecs)
    }

    pub(super) fn of(
        repo: &Repository,
        mut given: Given,
        pathspecs: Vec<BString>,
    ) -> Result<Request, Failure> {
        let mut columns = configured_columns(repo)?;
        for value in given.columns.drain(..) {
            columns.when = if value.on { When::Always } else { When::Never };
            let unsupported = |rest| format!("unsupported option '{rest}'").into();
            columns
                .take(value.text.unwrap_or_default().as_bstr())
                .map_err(|rest| Failure::Usage(Stop::Mistake { message: unsupported(rest), usage: None }))?;
        }
        // A configured value must be valid even if an option overrides it.
        for name in [
            keys::status::SHORT.name(),
            keys::status::BRANCH.name(),
            keys::status::AHEAD_BEHIND.name(),
            keys::status::SHOW_STASH.name(),
            keys::status::RELATIVE_PATHS.name(),
            keys::status::DISPLAY_COMMENT_PREFIX.name(),
        ] {
            repo.config_as::<bool>(name)?;
        }
        let format = format(repo, &given)?;
        // Settings for people do not apply to the stable formats.
        let for_people = !given.nul && !matches!(format, Format::Porcelain | Format::PorcelainV2);
        let ahead_behind = match given.ahead_behind {
            None if for_people => repo.config(&keys::status::AHEAD_BEHIND)?,
            given => given,
        };
        let branch = match given.branch {
            None if for_people => repo.config(&keys::status::BRANCH)?,
            given => given,
        };
        let request = Request {
            verbose: given.verbose,
            format,
            branch: branch.unwrap_or(false),
            stash: match given.stash {
                None => repo.config(&keys::status::SHOW_STASH)?,
                Some(stash) => stash,
            },
            ahead_behind: if ahead_behind == Some(false) { AheadBehind::Quick } else { AheadBehind::Full },
            nul: given.nul,
            untracked: untracked(repo, given.untracked.as_ref())?,
            ignored: ignored(given.ignored.as_ref())?,
            submodules: given.submodules.as_ref().map(|value| submodules(value.as_bstr())).transpose()?,
            columns,
            renames: renames(repo, &given)?,
            is_relative: format != Format::Porcelain && repo.config(&keys::status::RELATIVE_PATHS)?,
            comment: repo.config(&keys::status::DISPLAY_COMMENT_PREFIX)?.then(|| comment_sign(repo)),
            pathspecs,
            preview: None,
        };
        if request.ignored == Ignored::Matching && request.untracked == Untracked::No {
            return Err(Failure::fatal("Unsupported combination of ignored and untracked-files arguments"));
        }
        Ok(request)
    }

    /// Returns true if changes in submodules are summarised (`status.submoduleSummary`).
    pub(super) fn is_summarized(&self, repo: &Repository) -> bool {
        self.format == Format::Long
            && self.submodules != Some(Ignore::All)
            && repo
                .config_str(&keys::status::SUBMODULE_SUMMARY)
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
        (None, _) if repo.config(&keys::status::SHORT)? => Ok(Format::Short),
        (None, _) => Ok(Format::Long),
    }
}

fn configured_columns(repo: &Repository) -> Result<Columns, Failure> {
    let mut columns = Columns::default();
    for key in [keys::column::UI, keys::column::STATUS] {
        for value in repo.config_all(&key) {
            columns
                .take(value.as_bstr())
                .map_err(|_| Failure::fatal(format!("invalid {} mode {value}", key.name())))?;
        }
    }
    Ok(columns)
}

fn untracked(repo: &Repository, given: Option<&BString>) -> Result<Untracked, Failure> {
    let configured = Untracked::configured(repo)?;
    Ok(given.map_or(Ok(configured), |value| Untracked::parse(value.as_bstr()))?)
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
    let mut renames = Renames::configured(repo)?;
    if let Some(wanted) = given.renames {
        renames.detect = wanted.then_some(Detect::Renames);
    }
    if let Some(score) = given.score {
        renames.detect = renames.detect.or(Some(Detect::Renames));
        renames.minimum = score.unwrap_or(0);
    }
    Ok(renames)
}

/// Parses the value of `--find-renames`. Ignores text after the score, as Git does.
fn score(value: &BStr) -> u32 {
    renames::leading_score(value.strip_prefix(b"=").unwrap_or(value)).0
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
