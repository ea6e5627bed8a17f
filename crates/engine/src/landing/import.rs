//! Copies new objects into the repository.

use std::{
    collections::HashMap,
    io::{ErrorKind, Read as _, Seek as _, Write as _},
    sync::atomic::{AtomicBool, Ordering},
};

use format::{Kind, ObjectId, hash::Hasher};
use repo::{
    Repository,
    fsck::{Absent, Checker, Line, Rules, links},
    objects::{Content, Objects, Reader},
    pack_indexing::{Large, Observer as _, Wanted},
};
use store::objects::{ObjectTransaction, StreamError};
use sys::by_path;

use super::{Error, Foreign, foreign::LARGEST};

/// Blobs of more bytes are not kept in memory.
const LARGE: u64 = 32 << 20;
/// The most new objects.
const MOST: usize = 20_000_000;

/// An import.
pub struct Import<'a> {
    /// The repository that gets the objects.
    pub repo: &'a Repository,
    /// The objects to take.
    pub foreign: &'a Foreign<'a>,
    /// Stores them. The caller publishes it.
    pub transaction: &'a ObjectTransaction<'a>,
    /// `core.bigFileThreshold`
    pub big: u64,
    /// Raised to stop.
    pub interrupt: &'a AtomicBool,
}

/// Stages an object of this kind, and all objects that it needs and the repository lacks, unless
/// one of them breaks the rules. Returns their number.
pub fn import(import: &Import<'_>, rules: Rules, root: (ObjectId, Kind)) -> Result<usize, Error> {
    let known = import.repo.stored_objects();
    let checker = Checker::new(rules, import.big);
    let mut walk = Walk {
        import,
        known: &known,
        known_reader: known.reader(),
        checker: &checker,
        reader: import.foreign.objects().reader(),
        named: HashMap::new(),
        pending: Vec::new(),
        blobs: Vec::new(),
        count: 0,
    };
    walk.run(root)?;
    let count = walk.count;
    let mut lines = Vec::new();
    let mut say = |line: &Line| match line {
        Line::Error(text) | Line::Warning(text) => lines.push(text.clone()),
    };
    let verdict = checker.verdict(&mut say);
    // Each new blob was checked. The others are in the repository.
    let verdict = verdict.and_then(|()| checker.finish(&known, Absent::Ignored, &mut say).map(drop));
    match verdict {
        Ok(()) => Ok(count),
        Err(reason) => Err(Error::Refused { reason, lines }),
    }
}

/// A new object, with the kind that the objects expect that name it.
struct Next {
    oid: ObjectId,
    kind: Kind,
    /// The depth of a tree below the tree of its commit.
    depth: usize,
}

struct Walk<'a> {
    import: &'a Import<'a>,
    known: &'a Objects,
    known_reader: Reader<'a>,
    checker: &'a Checker,
    reader: Reader<'a>,
    /// The objects that were named so far.
    named: HashMap<ObjectId, Kind>,
    pending: Vec<Next>,
    /// They are taken last: any commit may hold a tree that calls one of them `.gitmodules`, and
    /// then it is checked as such.
    blobs: Vec<ObjectId>,
    count: usize,
}

impl Walk<'_> {
    fn run(&mut self, (oid, kind): (ObjectId, Kind)) -> Result<(), Error> {
        let deepest = usize::try_from(self.known.max_tree_depth()).unwrap_or(0);
        self.name(Next { oid, kind, depth: 0 })?;
        while let Some(next) = self.next() {
            if self.import.interrupt.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            if next.depth > deepest {
                return Err(Error::TooDeep(deepest));
            }
            self.count += 1;
            let depth = if next.kind == Kind::Tree { next.depth + 1 } else { 0 };
            for (oid, kind) in self.take(&next)? {
                self.name(Next { oid, kind, depth })?;
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Option<Next> {
        let blob = |oid| Next { oid, kind: Kind::Blob, depth: 0 };
        self.pending.pop().or_else(|| self.blobs.pop().map(blob))
    }

    /// Queues an object, unless it was named before or the repository has it. Its kind must be the
    /// one that it has elsewhere.
    fn name(&mut self, next: Next) -> Result<(), Error> {
        let Next { oid, kind, .. } = next;
        match self.named.insert(oid, kind) {
            Some(before) if before != kind => return Err(Error::Kinds { oid, kinds: [before, kind] }),
            Some(_) => return Ok(()),
            None => {}
        }
        // One that the repository has but cannot read is taken anew.
        if self.known.contains(&oid)
            && let Ok((found, _)) = self.known_reader.header(&oid)
        {
            return if found == kind { Ok(()) } else { Err(Error::Type { oid, expected: kind, found }) };
        }
        if self.count + self.pending.len() + self.blobs.len() >= MOST {
            return Err(Error::TooMany(MOST));
        }
        match kind {
            Kind::Blob => self.blobs.push(oid),
            _ => self.pending.push(next),
        }
        Ok(())
    }

    /// Checks and stages one object. Returns the objects that it names.
    fn take(&mut self, next: &Next) -> Result<Vec<(ObjectId, Kind)>, Error> {
        let (oid, hash) = (next.oid, self.import.repo.hash());
        if next.kind == Kind::Tree && oid == ObjectId::empty_tree(hash) {
            self.import.transaction.write(&oid, Kind::Tree, b"")?;
            return Ok(Vec::new());
        }
        let stored = self.import.foreign.prepare(&oid)?;
        if !self.import.foreign.objects().contains(&oid) {
            return Err(Error::Missing { oid, kind: next.kind });
        }
        let damaged = |error: repo::objects::Error| Error::Damaged { oid, reason: error.to_string() };
        let (kind, size) = self.reader.header(&oid).map_err(damaged)?;
        // Deflated data are hardly longer than the object. The file is read whole.
        if stored.is_some_and(|stored| stored > size.saturating_add(size / 64).saturating_add(64 << 10)) {
            return Err(Error::Damaged { oid, reason: "its file is too large".to_owned() });
        }
        if kind != next.kind {
            return Err(Error::Type { oid, expected: next.kind, found: kind });
        }
        if kind != Kind::Blob && size > LARGEST {
            return Err(Error::TooLarge { oid, kind, size });
        }
        if kind == Kind::Blob && size > LARGE {
            return self.take_large(oid, size).map(|()| Vec::new());
        }
        let (kind, content) = match self.reader.read_up_to(&oid, LARGEST).map_err(damaged)? {
            Content::Whole(kind, content) => (kind, content),
            // A loose object of more than a mebibyte.
            Content::Large(_, found) if found == size => self.reader.read(&oid).map_err(damaged)?,
            Content::Large(..) => return Err(changed(oid)),
        };
        let mut hasher = Hasher::object(hash, kind.name(), content.len() as u64);
        hasher.update(content);
        if kind != next.kind || hasher.finish().ok() != Some(oid) {
            return Err(Error::Hash { oid });
        }
        self.checker.object(&oid, kind, content, self.count as u64);
        self.import.transaction.write(&oid, kind, content)?;
        Ok(links(hash, kind, content))
    }

    /// Stages a blob through a file, because two readers of the same file could see two contents.
    fn take_large(&mut self, oid: ObjectId, size: u64) -> Result<(), Error> {
        if size > self.import.foreign.room()? {
            return Err(Error::TooLarge { oid, kind: Kind::Blob, size });
        }
        let wanted = self.checker.large(&Large { oid, kind: Kind::Blob, size, offset: self.count as u64 });
        let path = self.import.foreign.private().join("blob");
        let io = |action| {
            let path = path.clone();
            move |source| Error::Io { action, path, source }
        };
        let mut file = by_path::create_new_readable(&path, 0o600).map_err(io("create"))?;
        let _ = by_path::remove_file(&path);
        let mut written = 0u64;
        let streamed = self.reader.stream(&oid, &mut |piece| {
            written += piece.len() as u64;
            if written > size {
                return Err(ErrorKind::FileTooLarge.into());
            }
            file.write_all(piece)
        });
        streamed.map_err(|error| Error::Damaged { oid, reason: error.to_string() })?;
        if wanted == Wanted::Content {
            let mut content = Vec::new();
            file.rewind().map_err(io("read"))?;
            file.read_to_end(&mut content).map_err(io("read"))?;
            self.checker.object(&oid, Kind::Blob, &content, self.count as u64);
        }
        file.rewind().map_err(io("read"))?;
        let hash = self.import.repo.hash();
        match self.import.transaction.write_stream(hash, written, &mut file) {
            Ok(found) if found == oid => Ok(()),
            Ok(_) | Err(StreamError::Collision) => Err(Error::Hash { oid }),
            Err(StreamError::Store(error)) => Err(error.into()),
            Err(error) => Err(Error::Damaged { oid, reason: error.to_string() }),
        }
    }
}

/// The file of the object has another size than a moment ago.
fn changed(oid: ObjectId) -> Error {
    Error::Damaged { oid, reason: "it changed while it was read".to_owned() }
}
