//! Settings: they are found, read as types, and changed as by `git config`.
//!
//! A [`Source`] is one file, or all settings of a repository. [`Source::read`] finds settings with
//! their scopes and origins. A change of one file has a plan, which holds the lock of the file.
//!
//! ```no_run
//! use sapwood::config::{self, Change, Edit, Location, Query, Request, Search};
//! use sapwood::{Repository, Silent};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let search = Search::new(Query { name: "remote.origin.fetch".into(), ..Query::default() })?;
//! let found = config::read(&repository, Location::Everywhere)?;
//! for record in found.search(&search)? {
//!     println!("{}: {:?} ({:?})", record.key, record.value, record.scope);
//! }
//! let change = Change { name: "a.b".into(), value: Some("c".into()), ..Change::default() };
//! let request = Request { location: Location::Local, edit: Edit::Entries(change) };
//! config::plan(&repository, request)?.run(&Silent)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod search;
mod source;
mod url;
mod value;
mod write;

pub use repo::{Configured, Origin, Scope};
pub use search::{ColorUse, Listed, Query, Record, Search, Values};
pub use source::{Found, Location, Place, Source};
pub use url::Url;
pub use value::{Kind, Value};
pub use write::{Change, Edit, Plan, Report, comment};

use crate::{Error, PlanError, error::ConfigError};

/// A change of one file.
#[derive(Clone, Debug)]
pub struct Request {
    /// The file.
    pub location: Location,
    /// The change.
    pub edit: Edit,
}

/// Reads the settings of a location, and follows includes as Git does by default. All files are as
/// they were when the repository was opened.
pub fn read<'a>(place: impl Into<Place<'a>>, location: Location) -> Result<Found<'a>, PlanError> {
    Source::of(place, location)?.read(None)
}

/// Locks the file, and computes its new content. No file is changed.
pub fn plan<'a>(place: impl Into<Place<'a>>, request: Request) -> Result<Plan, PlanError> {
    Source::of(place, request.location)?.plan(request.edit)
}

fn unsupported(what: &'static str) -> PlanError {
    PlanError::Unsupported(what)
}

/// Returns a value of a type that only Git reads.
fn unsupported_value() -> PlanError {
    unsupported("values of this type")
}

fn refused(error: ConfigError) -> PlanError {
    Error::from(error).into()
}
