//! Cuts contents into frames and segments, and sends them.
//!
//! Workers compress the frames of a batch while senders write the segments before. Frames are cut
//! by the sizes of the contents in path order, so the same contents give the same segments: a push
//! that is repeated finds its files at the remote.
//!
//! Memory: a batch of frames ([`BATCH`]), or a piece of one large content.

use std::{
    io::Write as _,
    ops::Range,
    sync::{Mutex, PoisonError, mpsc},
    time::SystemTime,
};

use format::{
    HashKind, ObjectId,
    base_files::{Digest, frame, manifest, table},
    hash::Hasher,
};
use repo::objects::{Kind, Location, Reader};

use super::{
    super::{
        Context, Error, Phase,
        scratch::{Scratch, ScratchFile},
        seconds, stock,
    },
    Parts, Report, journal,
    plan::{Content, Plan},
};
use crate::crew::{Workers, parallel};

/// The bytes of contents that workers hold together.
const BATCH: u64 = 64 << 20;
/// A content above this many bytes is compressed piece after piece.
const LARGE: u64 = 32 << 20;
/// The bytes of a frame of a large content.
const PIECE: usize = 4 << 20;
/// The number of senders, and of segments that wait for one.
const SENDERS: usize = 2;

/// A compressed frame.
struct Compressed {
    bytes: Vec<u8>,
    frame: table::Frame,
}

/// Contents that share a frame, or one that has several.
struct Job<'p> {
    contents: &'p [Content],
    size: u64,
}

/// Sends the contents. Returns the tables, in order.
pub(super) fn write(
    parts: Parts<'_>,
    plan: &Plan,
    report: &mut Report,
) -> Result<Vec<manifest::Table>, Error> {
    let (Parts { context, scratch, .. }, contents) = (parts, &plan.contents);
    if contents.is_empty() {
        return Ok(Vec::new());
    }
    let jobs = jobs(contents);
    let sent = Mutex::new(Vec::new());
    let failure: Mutex<Option<Error>> = Mutex::default();
    let (sender, receiver) = mpsc::sync_channel::<(usize, Segment)>(1);
    let receiver = Mutex::new(receiver);
    let made = std::thread::scope(|scope| {
        for _ in 0..SENDERS {
            scope.spawn(|| {
                loop {
                    let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((number, segment)) = next else { return };
                    match segment.send(context, scratch) {
                        Ok(table) => lock(&sent).push((number, table)),
                        Err(error) => {
                            lock(&failure).get_or_insert(error);
                        }
                    }
                }
            });
        }
        let mut cutter = Cutter { parts, plan, sender, current: None, number: 0 };
        cutter.run(&jobs, &failure)
    });
    if let Some(error) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    made?;
    let mut sent = sent.into_inner().unwrap_or_else(PoisonError::into_inner);
    sent.sort_by_key(|(number, _)| *number);
    report.contents = contents.len() as u64;
    report.segments = sent.len() as u64;
    report.bytes += sent.iter().map(|(_, table)| table.file.size + table.segment.size).sum::<u64>();
    Ok(sent.into_iter().map(|(_, table)| table).collect())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Each change is one call.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn jobs(contents: &[Content]) -> Vec<Job<'_>> {
    let (mut jobs, mut start, mut size) = (Vec::new(), 0, 0);
    let target = frame::TARGET as u64;
    for (at, content) in contents.iter().enumerate() {
        // A large content has its frames for itself.
        if size > 0 && (size + content.size > target) {
            jobs.push(Job { contents: &contents[start..at], size });
            (start, size) = (at, 0);
        }
        size += content.size;
    }
    jobs.push(Job { contents: &contents[start..], size });
    jobs
}

/// A segment that is being written.
struct Segment {
    file: ScratchFile,
    frames: Vec<table::Frame>,
    contents: Vec<table::Content>,
    hash: HashKind,
}

impl Segment {
    fn push(&mut self, compressed: &Compressed) -> Result<(), Error> {
        self.frames.push(compressed.frame);
        self.file.write(&compressed.bytes)
    }

    /// Sends the segment, then its table.
    fn send(self, context: &Context<'_>, scratch: &Scratch) -> Result<manifest::Table, Error> {
        let segment = self.file.named();
        let table = table::Table::new(self.hash, self.frames, self.contents)?;
        context.check_interrupt()?;
        context.remote.write(&segment.digest, &self.file.path)?;
        let bytes = table.to_bytes();
        let mut aside = scratch.file()?;
        aside.write(&bytes)?;
        let file = aside.named();
        context.remote.write(&file.digest, &aside.path)?;
        stock::keep(context, scratch, &bytes)?;
        let table = manifest::Table { file, segment, renewed: seconds(SystemTime::now()) };
        journal::note(context, &table);
        Ok(table)
    }
}

struct Cutter<'c> {
    parts: Parts<'c>,
    plan: &'c Plan,
    sender: mpsc::SyncSender<(usize, Segment)>,
    current: Option<Segment>,
    number: usize,
}

impl Cutter<'_> {
    fn run(&mut self, jobs: &[Job<'_>], failure: &Mutex<Option<Error>>) -> Result<(), Error> {
        let total: u64 = jobs.iter().map(|job| job.size).sum();
        let count = match self.parts.context.workers {
            Workers::Auto => sys::cores(),
            Workers::Fixed(count) => count,
        };
        let mut workers: Vec<Compressing<'_>> = (0..parallel::threads(jobs.len(), 1, count))
            .map(|_| Compressing::new(self.parts, self.plan))
            .collect::<Result<_, Error>>()?;
        let (mut at, mut done) = (0, 0);
        self.parts.context.report(Phase::Sending, done, total);
        while at < jobs.len() && lock(failure).is_none() {
            self.parts.context.check_interrupt()?;
            let batch = batch(jobs, at);
            if let [job] = &jobs[batch.clone()]
                && job.size > LARGE
            {
                self.large(job, &mut workers[0])?;
            } else {
                let made = parallel::map(&jobs[batch.clone()], &mut workers, |worker, job| worker.job(job))?;
                for (job, frames) in jobs[batch.clone()].iter().zip(&made) {
                    self.add(job, frames)?;
                }
            }
            done += jobs[batch.clone()].iter().map(|job| job.size).sum::<u64>();
            at = batch.end;
            self.parts.context.report(Phase::Sending, done, total);
        }
        self.end()
    }

    fn segment(&mut self) -> Result<&mut Segment, Error> {
        if self.current.is_none() {
            let (file, hash) = (self.parts.scratch.file()?, self.parts.context.repo.hash());
            self.current = Some(Segment { file, frames: Vec::new(), contents: Vec::new(), hash });
        }
        Ok(self.current.as_mut().expect("it was just made"))
    }

    fn add(&mut self, job: &Job<'_>, frames: &[Compressed]) -> Result<(), Error> {
        let segment = self.segment()?;
        frames.iter().try_for_each(|frame| segment.push(frame))?;
        self.added(job)
    }

    /// Notes the contents whose frames were written.
    fn added(&mut self, job: &Job<'_>) -> Result<(), Error> {
        let limit = self.parts.segment;
        let segment = self.segment()?;
        let contents = job.contents.iter();
        segment.contents.extend(contents.map(|one| table::Content { oid: one.oid, size: one.size }));
        if segment.file.size() >= limit { self.end() } else { Ok(()) }
    }

    /// Compresses a content without holding all of it.
    fn large(&mut self, job: &Job<'_>, worker: &mut Compressing<'_>) -> Result<(), Error> {
        let (content, interrupt) = (&job.contents[0], self.parts.context.interrupt);
        let segment = self.segment()?;
        let mut hasher = Hasher::object(content.oid.kind(), "blob", content.size);
        let (mut held, mut failure) = (Vec::with_capacity(PIECE), None);
        let Compressing { reader, compressor, .. } = worker;
        let mut pass = |held: &mut Vec<u8>| {
            let frame = compress(compressor, held);
            held.clear();
            frame.and_then(|frame| segment.push(&frame)).map_err(|error| {
                failure = Some(error);
                std::io::Error::from(std::io::ErrorKind::Other)
            })
        };
        let streamed = reader.stream(&content.oid, &mut |mut bytes| {
            if interrupt.load(std::sync::atomic::Ordering::Relaxed) {
                return Err(std::io::ErrorKind::Interrupted.into());
            }
            hasher.update(bytes);
            while !bytes.is_empty() {
                let (now, rest) = bytes.split_at(bytes.len().min(PIECE - held.len()));
                held.extend_from_slice(now);
                bytes = rest;
                if held.len() == PIECE {
                    pass(&mut held)?;
                }
            }
            Ok(())
        });
        let ended = match streamed {
            Ok(()) if !held.is_empty() => pass(&mut held).is_ok(),
            _ => true,
        };
        self.parts.context.check_interrupt()?;
        match (failure, streamed) {
            (Some(error), _) => return Err(error),
            (None, Err(source)) => return Err(Error::Object { oid: content.oid, source: Box::new(source) }),
            (None, Ok(())) => debug_assert!(ended, "a failure is noted"),
        }
        if hasher.finish().ok() != Some(content.oid) {
            return Err(Error::WrongName { path: self.plan.path(content), oid: content.oid });
        }
        self.added(job)
    }

    /// Hands the segment to a sender.
    fn end(&mut self) -> Result<(), Error> {
        if let Some(segment) = self.current.take() {
            // Senders end only after this.
            let _ = self.sender.send((self.number, segment));
            self.number += 1;
        }
        Ok(())
    }
}

/// Returns the jobs to do together.
fn batch(jobs: &[Job<'_>], start: usize) -> Range<usize> {
    let (mut end, mut size) = (start, 0);
    while let Some(job) = jobs.get(end) {
        let is_large = job.size > LARGE;
        if end > start && (is_large || size + job.size > BATCH) {
            break;
        }
        size += job.size;
        end += 1;
        if is_large {
            break;
        }
    }
    start..end
}

/// A worker.
struct Compressing<'r> {
    parts: Parts<'r>,
    plan: &'r Plan,
    reader: Reader<'r>,
    compressor: frame::Compressor,
    raw: Vec<u8>,
}

impl<'r> Compressing<'r> {
    fn new(parts: Parts<'r>, plan: &'r Plan) -> Result<Compressing<'r>, Error> {
        let compressor = frame::Compressor::new(parts.level)?;
        Ok(Compressing { parts, plan, reader: parts.objects.reader(), compressor, raw: Vec::new() })
    }

    fn job(&mut self, job: &Job<'_>) -> Result<Vec<Compressed>, Error> {
        self.parts.context.check_interrupt()?;
        self.raw.clear();
        self.raw.resize(usize::try_from(job.size).expect("at most a batch"), 0);
        let locate = |oid: &ObjectId| self.parts.objects.locate_packed(oid);
        let mut start = 0;
        let mut order: Vec<(Option<Location>, usize, &Content)> = job
            .contents
            .iter()
            .map(|content| {
                let at = start;
                start += usize::try_from(content.size).expect("at most a batch");
                (locate(&content.oid), at, content)
            })
            .collect();
        order.sort_by_key(|(location, at, _)| (*location, *at));
        for (location, at, content) in order {
            let oid = content.oid;
            let read = self.reader.read_located(&oid, location, u64::MAX);
            let read = read.map_err(|source| Error::Object { oid, source: Box::new(source) })?;
            let room = &mut self.raw[at..at + usize::try_from(content.size).expect("as before")];
            match read {
                repo::objects::Content::Whole(Kind::Blob, blob) if blob.len() == room.len() => {
                    room.copy_from_slice(blob);
                }
                repo::objects::Content::Large(Kind::Blob, _) => {
                    let mut rest = &mut room[..];
                    let streamed = self.reader.stream(&oid, &mut |piece| rest.write_all(piece));
                    streamed.map_err(|source| Error::Object { oid, source: Box::new(source) })?;
                }
                _ => return Err(Error::WrongName { path: self.plan.path(content), oid }),
            }
            let mut hasher = Hasher::object(oid.kind(), "blob", content.size);
            hasher.update(room);
            if hasher.finish().ok() != Some(oid) {
                return Err(Error::WrongName { path: self.plan.path(content), oid });
            }
        }
        let piece = if self.raw.len() <= frame::TARGET { frame::TARGET } else { PIECE };
        self.raw.chunks(piece).map(|raw| compress(&mut self.compressor, raw)).collect()
    }
}

fn compress(compressor: &mut frame::Compressor, raw: &[u8]) -> Result<Compressed, Error> {
    let bytes = compressor.compress(raw)?;
    let length = |len: usize| u32::try_from(len).expect("a frame is shorter");
    let (compressed, raw) = (length(bytes.len()), length(raw.len()));
    let frame = table::Frame { compressed, raw, digest: Digest::of(&bytes) };
    Ok(Compressed { bytes, frame })
}
