//! The trees of the index.
//!
//! Order: the lock of the index, the index, the missing trees, the index with its cached trees. As
//! in Git, it is no error if the index cannot be written: only its cached trees would change.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, write_tree::{self, Request}};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! println!("{}", write_tree::plan(&repository, Request::default())?.run(&Silent)?.tree);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use bstr::{BString, ByteSlice as _};
use engine::add::{self, Missing};
use format::ObjectId;
use store::objects::ObjectTransaction;

use crate::{
    Context, Error, Events, Notice, PlanError, Repository, RunError, Silent, TreeError,
    events::Notices,
    text,
    transaction::{IndexTransaction, Recorded, Start},
};

/// The options.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The objects of entries need not exist.
    pub allow_missing: bool,
    /// The directory whose tree is wanted, with a slash at the end; `None` for the whole tree.
    pub prefix: Option<BString>,
    /// Build all trees, also those that the index has cached.
    pub ignore_cached: bool,
}

/// The result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The name of the tree.
    pub tree: ObjectId,
}

/// A locked index.
pub struct Plan<'r> {
    repository: &'r Repository,
    request: Request,
    transaction: IndexTransaction<'r>,
    notices: Vec<Notice>,
}

/// Locks and reads the index.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan<'_>, PlanError> {
    let notices = Notices::default();
    let start = Start::IndexOnly { dry_run: false };
    let transaction = IndexTransaction::start(repository.recording_context(&notices), start)?;
    let transaction = transaction.with_context(repository.recording_context(&Silent));
    Ok(Plan { repository, request, transaction, notices: notices.into_vec() })
}

impl Plan<'_> {
    /// Writes the trees, and the index.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let Plan { repository, request, transaction, notices } = self;
        notices.into_iter().for_each(|notice| events.notice(notice));
        let context = repository.recording_context(events);
        let tree = write(context, &request, transaction.with_context(context))?;
        Ok(Report { tree })
    }
}

/// Writes the trees of a locked index, and the index. Returns the name of the tree.
pub fn write(
    context: Context<'_>,
    request: &Request,
    mut transaction: IndexTransaction<'_>,
) -> Result<ObjectId, Error> {
    let repo = context.repo;
    let index = &mut transaction.index;
    if request.ignore_cached {
        index.cache_tree = None;
    }
    let before = index.cache_tree.clone();
    let missing = if request.allow_missing { Missing::Allowed } else { Missing::Refused };
    let objects = ObjectTransaction::new(context.settings.objects(repo));
    let trees = add::write_tree(index, repo, &objects, missing);
    let trees = trees.map_err(|error| Error::Trees(TreeError::Write(error)))?;
    let tree = match &request.prefix {
        None => trees.root,
        Some(prefix) => trees
            .of_directory(index, prefix.as_bstr())
            .ok_or_else(|| Error::Failed(text!("git-write-tree: prefix ", prefix, " not found")))?,
    };
    let is_new = index.cache_tree != before;
    objects.publish()?;
    if is_new && let Err(Error::Interrupted) = transaction.finish(Recorded::Yes) {
        return Err(Error::Interrupted);
    }
    Ok(tree)
}
