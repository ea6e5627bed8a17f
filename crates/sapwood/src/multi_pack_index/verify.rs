//! The multi-pack-index compared with the indexes of its packs.

use engine::midx::{self, PackDir};
pub use engine::midx::{Step, Verdict};
use sys::by_path;

use super::{pack_dir, prepare::load, unsupported};
use crate::{
    Context, Events, Notice, PlanError, Repository, RunError, events::Notices, object_files::ObjectDir,
};

/// There are no options.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request;

/// The result.
#[derive(Debug, Default)]
pub struct Report {
    /// The flaws; `None` if the file is no multi-pack-index.
    pub verdict: Option<Verdict>,
}

impl Report {
    /// Returns true if there are no flaws.
    pub fn is_sound(&self) -> bool {
        let is_sound = |verdict: &Verdict| verdict.lines.is_empty() && verdict.fatal.is_none();
        self.verdict.as_ref().is_some_and(is_sound)
    }
}

/// A check to be reported.
pub struct Plan {
    report: Option<Report>,
    notices: Vec<Notice>,
}

/// Checks the file. Changes nothing.
pub fn plan(repository: &Repository, _request: Request) -> Result<Plan, PlanError> {
    let notices = Notices::default();
    let context = repository.context(&notices);
    let pack_dir = pack_dir(context.repo, &ObjectDir::own(context.repo))?;
    let report = check(context, &pack_dir, &mut |_, _, _| {})?;
    Ok(Plan { report, notices: notices.into_vec() })
}

impl Plan {
    /// Reports the notices. Returns `None` if there is no file.
    pub fn run(self, events: &impl Events) -> Result<Option<Report>, RunError> {
        self.notices.into_iter().for_each(|notice| events.notice(notice));
        Ok(self.report)
    }
}

/// Checks the file of a directory. `progress` receives the step, the number of finished items, and
/// the total.
pub fn check(
    context: Context<'_>,
    pack_dir: &PackDir,
    progress: &mut dyn FnMut(Step, usize, usize),
) -> Result<Option<Report>, PlanError> {
    let Some(found) = load(context, pack_dir)? else {
        let is_there = matches!(by_path::stat_followed(&pack_dir.midx()), Ok(Some(_)));
        return Ok(is_there.then(Report::default));
    };
    let verdict = midx::verify(pack_dir, &found, context.interrupt, progress);
    context.check_interrupt()?;
    if verdict.unusable_pack {
        return Err(unsupported("packs that cannot be used"));
    }
    Ok(Some(Report { verdict: Some(verdict) }))
}
