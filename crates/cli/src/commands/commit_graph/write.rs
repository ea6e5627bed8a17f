//! `commit-graph write`.

use bstr::BString;
use engine::commit_graph::{Error, PackError};
use repo::objects::{Kind, Objects};
use sapwood::{
    ObjectId, PlanError,
    commit_graph::{Filters, Start, Tips, peel, prepare, referenced},
};

use super::{Context, options::Request, progress::Bars};
use crate::{
    session::input::Input,
    term::{
        console,
        failure::{Failure, Preface},
        progress::Progress,
    },
};

impl Context<'_> {
    pub(super) fn write(&self, mut request: Request) -> Result<u8, Failure> {
        let sources = [request.reachable, request.stdin_packs, request.stdin_commits];
        if sources.into_iter().filter(|is_given| *is_given).count() > 1 {
            let wrong = "use at most one of --reachable, --stdin-commits, or --stdin-packs";
            return Err(Failure::fatal(wrong));
        }
        let filters = Filters::of(self.repo)?;
        let place = self.place(&request)?;
        let objects = self.repo.stored_objects();
        let Some(tips) = self.tips(&mut request, &objects)? else { return Err(Failure::Reported(1)) };
        let bars = Bars::new(self.shows, self.settings.progress_delay);
        let show = |stage, done, total| bars.show(stage, done, total);
        let prepared = prepare(self.library(), &objects, place, filters, &request.write, tips, &show);
        let Some(prepared) = prepared.map_err(failed)? else { return Ok(0) };
        let written = prepared.write()?;
        bars.written(written.chunk_count, written.commit_count);
        Ok(0)
    }

    /// Returns the commits to start from; `None` after their error was printed.
    fn tips(&self, request: &mut Request, objects: &Objects) -> Result<Option<Tips>, Failure> {
        let counting = |title| Progress::new(title, self.shows, self.settings.progress_delay);
        if request.reachable {
            let progress = counting("Collecting referenced commits");
            let commits = referenced(self.repo, objects, &mut |count| progress.update(count, 0))?;
            progress.finish(commits.len(), 0);
            return Ok(Some(Tips::Commits(commits)));
        }
        if !request.stdin_packs && !request.stdin_commits {
            return Ok(Some(Tips::AllPacks));
        }
        let (mut input, mut line) = (Input::new(self.run)?, Vec::new());
        let (mut packs, mut commits) = (Vec::new(), Vec::new());
        let progress = counting("Collecting commits from input");
        request.write.start =
            if request.stdin_packs { Start::Packs(Vec::new()) } else { Start::Commits(Vec::new()) };
        while input.line(b'\n', &mut line)? {
            let line = BString::from(line.strip_suffix(b"\r").unwrap_or(&line));
            if request.stdin_packs {
                packs.push(line);
                continue;
            }
            let hex = line.get(..objects.hash().hex_len());
            let Some(id) = hex.and_then(|hex| ObjectId::from_hex(objects.hash(), hex)) else {
                console::error(format!("unexpected non-hex object ID: {line}"));
                return Ok(None);
            };
            match peel(self.repo, objects, id) {
                Some((id, Kind::Commit)) => commits.push(id),
                Some(_) => {}
                None => {
                    console::error(format!("invalid object: {line}"));
                    return Ok(None);
                }
            }
            progress.update(commits.len(), 0);
        }
        if request.stdin_packs {
            return Ok(Some(Tips::Packs(packs)));
        }
        progress.finish(commits.len(), 0);
        Ok(Some(Tips::Commits(commits)))
    }
}

/// Returns the failure for a graph that could not be computed.
fn failed(error: PlanError) -> Failure {
    let PlanError::Failed(sapwood::Error::CommitGraph(error)) = error else { return error.into() };
    let message = error.to_string();
    match *error {
        Error::Pack(PackError::Type(id)) => Failure::fatal(format!("unable to get type of object {id}")),
        Error::Pack(PackError::Index { why: Some(why), .. }) => {
            Failure::error(message).after(Preface::Error(why.into()))
        }
        Error::Pack(_) | Error::TooMany => Failure::error(message),
        Error::Commit(id) => {
            Failure::fatal(message).after(Preface::Error(format!("Could not read {id}").into()))
        }
        _ => Failure::fatal(message),
    }
}
