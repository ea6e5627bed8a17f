//! Fetches ranges of segments, checks frames and contents, and adds the contents.
//!
//! Several workers take ranges in order. Nothing of a frame is used before its digest was compared,
//! and no content is added before its object id was. Contents are published every [`PUBLISH`]
//! bytes.
//!
//! A worker holds a range and a frame, also of a content that has several frames.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
};

use format::{
    ObjectId,
    base_files::{
        Digest,
        frame::Inflater,
        table::{Frame, Group, Table},
    },
    hash::Hasher,
};

use super::{
    super::{
        Error, Phase,
        records::address,
        stock::{RANGE, Stock},
    },
    plan::{Job, Plan},
};
use crate::{
    crew::parallel,
    workspace::base::{self, Importer, Streamed},
};

/// The bytes of contents after which those that came are published.
const PUBLISH: u64 = 64 << 20;

/// Brings the contents of the plan. After an error, those that came may be published.
pub(super) fn bring(stock: &Stock<'_>, plan: &Plan, importer: &Importer<'_>) -> Result<(), Error> {
    let counts = Counts::default();
    let threads = parallel::threads(plan.jobs.len(), 1, stock.context.connections);
    let mut workers = (0..threads)
        .map(|_| Ok(Worker { stock, plan, importer, counts: &counts, inflater: Inflater::new()? }))
        .collect::<Result<Vec<_>, Error>>()?;
    if !plan.jobs.is_empty() {
        stock.context.report(Phase::Receiving, 0, plan.bytes);
    }
    parallel::map(&plan.jobs, &mut workers, |worker, job| worker.take(job)).map(drop)
}

#[derive(Default)]
struct Counts {
    /// Bytes that came.
    received: AtomicU64,
    /// Bytes of contents that were added.
    added: AtomicU64,
}

struct Worker<'w> {
    stock: &'w Stock<'w>,
    plan: &'w Plan,
    importer: &'w Importer<'w>,
    counts: &'w Counts,
    inflater: Inflater,
}

/// Returns the bytes of a frame as they are in the segment: its number, and its table's entry.
type NextFrame<'n> = dyn FnMut(usize, &Frame) -> Result<Vec<u8>, Error> + 'n;

impl Worker<'_> {
    fn take(&mut self, job: &Job) -> Result<(), Error> {
        let (segment, table) = &self.plan.tables[job.table];
        if let [group] = job.groups[..]
            && table.groups()[group].frames.len() > 1
        {
            return self.stream(segment, table, &table.groups()[group]);
        }
        let bytes = self.read(segment, job.range.clone())?;
        for &group in &job.groups {
            let group = &table.groups()[group];
            let mut at = (group.offset - job.range.start) as usize;
            if group.frames.len() > 1 {
                self.pieces(segment, table, group, &mut |_, frame| {
                    let end = at + frame.compressed as usize;
                    let piece = bytes[at..end].to_vec();
                    at = end;
                    Ok(piece)
                })?;
            } else {
                let frame = &table.frames()[group.frames.start];
                self.frame(segment, table, group, &bytes[at..at + frame.compressed as usize])?;
            }
        }
        Ok(())
    }

    fn read(&self, segment: &Digest, range: std::ops::Range<u64>) -> Result<Vec<u8>, Error> {
        let len = range.end - range.start;
        let bytes = self.stock.read(segment, range)?;
        let received = self.counts.received.fetch_add(len, Ordering::Relaxed) + len;
        self.stock.context.report(Phase::Receiving, received, self.plan.bytes);
        Ok(bytes)
    }

    /// Adds the contents of a frame.
    fn frame(&mut self, segment: &Digest, table: &Table, group: &Group, bytes: &[u8]) -> Result<(), Error> {
        let frame = &table.frames()[group.frames.start];
        let raw = inflate(&mut self.inflater, self.stock, segment, frame, bytes)?;
        let contents = &table.contents()[group.contents.clone()];
        let (mut at, mut named) = (0, Vec::with_capacity(contents.len()));
        for content in contents {
            let end = at + usize::try_from(content.size).expect("the frame is no longer");
            let bytes = &raw[at..end];
            at = end;
            let mut hasher = Hasher::object(content.oid.kind(), "blob", content.size);
            hasher.update(bytes);
            if hasher.finish().ok() != Some(content.oid) {
                return Err(self.stock.damaged(segment, wrong(&content.oid)));
            }
            named.push((content.oid, bytes));
        }
        let added = named.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        self.importer.add(&named).map_err(|source| self.failed(source))?;
        self.added(added)
    }

    /// Adds a content that has several frames, range after range.
    fn stream(&mut self, segment: &Digest, table: &Table, group: &Group) -> Result<(), Error> {
        let (mut held, mut start) = (Vec::new(), 0);
        let mut offset = group.offset;
        let (stock, counts, plan) = (self.stock, self.counts, self.plan);
        let end = group.offset + group.len;
        self.pieces(segment, table, group, &mut |_, frame| {
            let len = frame.compressed as usize;
            if held.len() - start < len {
                held.drain(..start);
                start = 0;
                // At least the frame, at most a range and a frame.
                let until = (offset + RANGE.max(len as u64)).min(end);
                let came = until - offset;
                held.extend_from_slice(&stock.read(segment, offset..until)?);
                offset = until;
                let received = counts.received.fetch_add(came, Ordering::Relaxed) + came;
                stock.context.report(Phase::Receiving, received, plan.bytes);
            }
            let piece = held[start..start + len].to_vec();
            start += len;
            Ok(piece)
        })
    }

    /// Adds a content frame after frame; `next` returns the bytes of each.
    fn pieces(
        &mut self,
        segment: &Digest,
        table: &Table,
        group: &Group,
        next: &mut NextFrame<'_>,
    ) -> Result<(), Error> {
        let content = &table.contents()[group.contents.start];
        let (stock, inflater) = (self.stock, &mut self.inflater);
        let streamed = self.importer.stream(content.oid, content.size, |sink| {
            let mut hasher = Hasher::object(content.oid.kind(), "blob", content.size);
            for number in group.frames.clone() {
                let frame = &table.frames()[number];
                let bytes = next(number, frame)?;
                let raw = inflate(inflater, stock, segment, frame, &bytes)?;
                hasher.update(raw);
                // The importer names its file in the error that it returns instead.
                sink(raw).map_err(|source: io::Error| Error::Io {
                    action: "write",
                    path: stock.context.bases.dir().to_owned(),
                    source,
                })?;
            }
            if hasher.finish().ok() == Some(content.oid) {
                Ok(())
            } else {
                Err(stock.damaged(segment, wrong(&content.oid)))
            }
        });
        match streamed.map_err(|source| self.failed(source))?? {
            Streamed::Whole => self.added(content.size),
            Streamed::OtherSize => Err(self.stock.damaged(segment, wrong(&content.oid))),
        }
    }

    /// Publishes contents from time to time.
    fn added(&self, bytes: u64) -> Result<(), Error> {
        let before = self.counts.added.fetch_add(bytes, Ordering::Relaxed);
        if before / PUBLISH == (before + bytes) / PUBLISH {
            return Ok(());
        }
        self.importer.publish().map_err(|source| self.failed(source))
    }

    fn failed(&self, source: base::Error) -> Error {
        Error::Contents { remote: address(self.stock.context.remote), source: Box::new(source) }
    }
}

fn wrong(oid: &ObjectId) -> String {
    format!("the content {oid} in it has other bytes")
}

/// Compares a frame with its digest and inflates it.
fn inflate<'i>(
    inflater: &'i mut Inflater,
    stock: &Stock<'_>,
    segment: &Digest,
    frame: &Frame,
    bytes: &[u8],
) -> Result<&'i [u8], Error> {
    stock.context.check_interrupt()?;
    if Digest::of(bytes) != frame.digest {
        return Err(stock.damaged(segment, "a frame in it does not match its digest"));
    }
    inflater.inflate(bytes, frame.raw).map_err(|error| stock.damaged(segment, error))
}
