//! The entries of a worktree.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, checkpoint::list};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! for listed in list::plan(&repository, list::Request::default())?.run(&Silent)?.entries {
//!     println!("{} {}", listed.entry.number, listed.entry.info.label);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use bstr::BString;

use super::{Entry, series::Series};
use crate::{Context, Error, Events, PlanError, Repository, RunError, events::Notices};

/// The options.
#[derive(Clone, Debug, Default)]
pub struct Request {}

/// An entry, and its ref.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The entry.
    pub entry: Entry,
    /// The full name of its ref.
    pub name: BString,
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The entries, oldest first.
    pub entries: Vec<Listed>,
    /// The entry from which the next undo goes back: that of the newest state, or the one that the
    /// last undo or redo restored.
    pub place: Option<u64>,
    /// The entries that cannot be read, by number, and the errors.
    pub damaged: Vec<(u64, String)>,
}

/// The entries, which are known already.
pub struct Plan(Report);

/// Reads the entries. Changes nothing.
pub fn plan(repository: &Repository, _request: Request) -> Result<Plan, PlanError> {
    let notices = Notices::default();
    Ok(Plan(find(repository.context(&notices))?))
}

impl Plan {
    /// Returns the entries.
    pub fn run(self, _events: &impl Events) -> Result<Report, RunError> {
        Ok(self.0)
    }
}

/// Reads the entries.
pub fn find(context: Context<'_>) -> Result<Report, Error> {
    let series = Series::find(context.repo)?;
    let mut report = Report::default();
    for number in series.numbers() {
        match series.read(context.repo, number) {
            Ok(entry) => {
                report.place = Some(entry.place());
                report.entries.push(Listed { entry, name: series.name_of(number) });
            }
            Err(error) => report.damaged.push((number, error.to_string())),
        }
    }
    Ok(report)
}
