//! Refs, changed in one transaction.
//!
//! Planning checks the names of the refs and the new objects. The run locks all refs, checks their
//! old values, and then writes them. The hook `reference-transaction` is told of each stage, and
//! may forbid the change. Refs and reflogs are on disk before the run returns. Only an error of the
//! disk can leave some of the refs changed.
//!
//! ```no_run
//! use sapwood::{HashKind, ObjectId, Repository, Silent, update_ref::{self, Edit, Request}};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let name = b"d00491fd7e5bb6fa28c517a0bb32b8b506539d4d";
//! let commit = ObjectId::from_hex(HashKind::Sha1, name).expect("a name");
//! let edits = vec![Edit::set("refs/heads/topic".into(), commit, "moved".into())];
//! update_ref::plan(&repository, Request { edits, ..Request::default() })?.run(&Silent)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod objects;
mod session;

use bstr::BStr;
use format::ObjectId;
pub use store::refs::{Edit, Failures, Follow, Logged, New, NewLog, Old, Rejected, Rejection};

use self::objects::Objects;
pub use self::session::{Control, Session};
use crate::{
    Context, Error, Events, Notice, PlanError, Repository, RunError, Silent,
    refs::{self, Options},
};

/// The edits of a transaction.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The edits, each of another ref.
    pub edits: Vec<Edit>,
    /// The effect of an error that concerns one edit.
    pub failures: Failures,
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The edits that were skipped, with [`Failures::RejectOne`].
    pub rejected: Vec<Rejected>,
}

/// Edits that are checked.
pub struct Plan<'r> {
    repository: &'r Repository,
    options: Options,
    checked: Checked,
}

/// Checks the edits. No ref is locked.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    refs::check_state(&repository.inner)?;
    let options = refs::options_with_hook(repository.recording_context(&Silent))?;
    Ok(Plan { repository, options, checked: Checked::of(&repository.inner, request)? })
}

impl Plan<'_> {
    /// Makes the edits.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let Plan { repository, options, checked } = self;
        let context = repository.recording_context(events);
        context.check_interrupt()?;
        Ok(checked.commit(context, &options)?)
    }
}

/// Checks and makes the edits.
pub fn apply(context: Context<'_>, options: &Options, request: Request) -> Result<Report, Error> {
    Checked::of(context.repo, request)?.commit(context, options)
}

/// Edits whose names and objects are right, and the report about the others.
struct Checked {
    edits: Vec<Edit>,
    failures: Failures,
    report: Report,
}

impl Checked {
    fn of(repo: &repo::Repository, request: Request) -> Result<Checked, Error> {
        let Request { edits, failures } = request;
        let mut objects = Objects::new(repo);
        let mut checked = Checked { edits: Vec::new(), failures, report: Report::default() };
        for edit in edits {
            match objects.check(&edit, failures)? {
                None => checked.edits.push(edit),
                Some(rejected) => checked.report.rejected.push(rejected),
            }
        }
        Ok(checked)
    }

    fn commit(self, context: Context<'_>, options: &Options) -> Result<Report, Error> {
        let Checked { edits, failures, mut report } = self;
        let mut transaction = refs::transaction(context, options, failures)?;
        edits.into_iter().try_for_each(|edit| transaction.add(edit))?;
        report.rejected.extend(transaction.commit()?);
        Ok(report)
    }
}

/// Returns the object that a word names, or `None`. A full name needs no object.
pub fn object(context: Context<'_>, word: &BStr) -> Result<Option<ObjectId>, Error> {
    let Context { repo, events, .. } = context;
    if let Some(oid) = ObjectId::from_hex(repo.hash(), word) {
        return Ok(Some(oid));
    }
    if !word.iter().any(|byte| b"^~:@".contains(byte)) {
        let warnings = repo.ignored_refs(word).into_iter();
        warnings.for_each(|warning| events.notice(Notice::Repository(warning.into())));
    }
    let found = match repo.resolve(word) {
        Ok(found) => found,
        Err(error) if error.is_unreadable() || error.is_final() => return Err(error.into()),
        Err(_) => None,
    };
    if found.is_some() {
        refs::warn_ambiguous(context, word, 1)?;
    }
    Ok(found)
}
