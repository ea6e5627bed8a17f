//! Checks all objects of an incoming pack.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use format::{Kind, ObjectId};

use super::{Files, Findings, Id, Line, Roles, Rules, blob, object, parse};
use crate::{
    database::{Objects, Reader},
    pack_indexing::{Large, Observer, Wanted},
};

/// Commits, trees and tags of more bytes are refused: each is kept in memory during its check.
const LARGEST: u64 = 512 << 20;

/// Limit for the bytes of messages that are kept until the pack is complete.
const MOST_TEXT: usize = 16 << 20;

/// Limits for the number of `.gitmodules` and of `.gitattributes` blobs. A hostile tree can have
/// millions.
const MOST_FILES: usize = 1 << 20;

/// Checks the objects of a pack as they arrive, and collects the messages about them.
pub struct Checker {
    rules: Rules,
    /// Blobs of more bytes are not kept in memory while a pack arrives.
    big: u64,
    /// True if the names that objects refer to are collected: see [`Checker::links`].
    collects: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Messages, and the reason for a refusal, by the offset of the object in the pack.
    findings: BTreeMap<u64, (Vec<Line>, Option<Refused>)>,
    /// The bytes of all these messages.
    text: usize,
    modules: BTreeSet<ObjectId>,
    attributes: BTreeSet<ObjectId>,
    /// Blobs that were checked in their roles.
    done: BTreeSet<ObjectId>,
    /// Blobs that were checked during a second read of the pack.
    late: BTreeMap<ObjectId, Findings>,
    links: BTreeMap<ObjectId, Kind>,
    /// An object to which references expect two different types.
    disputed: Option<(ObjectId, Kind, Kind)>,
    seen: HashMap<ObjectId, Kind>,
    /// Objects that occurred more than once.
    repeated: BTreeSet<ObjectId>,
}

/// The reason why the objects were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum Refused {
    /// An object that cannot be parsed.
    #[error("invalid {0}")]
    Invalid(&'static str),
    /// An object was refused while the pack arrived.
    #[error("fsck error in packed object")]
    Object,
    /// A blob was refused after the pack was complete.
    #[error("fsck error in pack objects")]
    File,
    #[error("{} {oid} has {size} bytes, too many to be checked", .kind.name())]
    TooLarge { oid: ObjectId, kind: Kind, size: u64 },
    #[error("too many files are called '{0}'")]
    TooMany(&'static str),
    #[error("did not receive expected object {0}")]
    Missing(ObjectId),
    #[error("The same object {0} appears twice in the pack")]
    Repeated(ObjectId),
    #[error("object {oid}: expected type {}, found {}", .expected.name(), .found.name())]
    Type { oid: ObjectId, expected: Kind, found: Kind },
}

/// How to treat blobs that trees refer to but that do not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// Not an error: another check finds them, or a remote promises them.
    Ignored,
    /// They are reported.
    Reported,
}

impl Checker {
    /// `big` is `core.bigFileThreshold`, in bytes.
    pub fn new(rules: Rules, big: u64) -> Checker {
        Checker { rules, big, collects: false, state: Mutex::default() }
    }

    /// Collects the names of all objects, and of the objects they refer to, for [`Checker::links`].
    pub fn collecting(self) -> Checker {
        Checker { collects: true, ..self }
    }

    /// Returns an error if an object of the pack refers to an object that is neither in the pack
    /// nor in `objects`, or has another type, or if an object occurs twice.
    pub fn links(&self, objects: &Objects) -> Result<(), Refused> {
        let state = self.state();
        if let Some((oid, expected, found)) = state.disputed {
            return Err(Refused::Type { oid, expected, found });
        }
        // The empty tree always exists for Git.
        let empty_tree = ObjectId::empty_tree(self.rules.hash);
        for (&oid, &expected) in &state.links {
            let found = match state.seen.get(&oid) {
                Some(kind) => *kind,
                None if oid == empty_tree => Kind::Tree,
                None => objects.header(&oid).map_err(|_| Refused::Missing(oid))?.0,
            };
            if found != expected {
                return Err(Refused::Type { oid, expected, found });
            }
        }
        state.repeated.first().map_or(Ok(()), |oid| Err(Refused::Repeated(*oid)))
    }

    /// Returns true if [`Checker::finish`] would not find a blob in `objects`. The pack may hold
    /// the blob where `objects` cannot read it: see [`Late`].
    pub fn lacks_files(&self, objects: &Objects) -> bool {
        let state = self.state();
        let mut files = state.modules.iter().chain(&state.attributes);
        files.any(|oid| !state.done.contains(oid) && !objects.contains_listed(oid))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes the messages so far to `say`, in the order of the pack, and stops at the first object
    /// that is refused.
    pub fn verdict(&self, say: &mut dyn FnMut(&Line)) -> Result<(), Refused> {
        let (findings, text) = {
            let mut state = self.state();
            (std::mem::take(&mut state.findings), std::mem::take(&mut state.text))
        };
        for (lines, refused) in findings.into_values() {
            lines.iter().for_each(&mut *say);
            refused.map_or(Ok(()), Err)?;
        }
        if text > MOST_TEXT {
            say(&Line::Warning("more flaws are not shown".into()));
        }
        Ok(())
    }

    /// Checks the blobs that came before the trees that refer to them. `objects` contains the pack
    /// and all older objects. Returns the missing `.gitmodules` blobs.
    pub fn finish(
        &self,
        objects: &Objects,
        absent: Absent,
        say: &mut dyn FnMut(&Line),
    ) -> Result<Vec<ObjectId>, Refused> {
        let mut state = std::mem::take(&mut *self.state());
        let mut reader = objects.reader();
        let (mut is_refused, mut missing) = (false, Vec::new());
        for (oid, found) in std::mem::take(&mut state.late) {
            found.lines.iter().for_each(&mut *say);
            is_refused |= found.is_refused;
            state.done.insert(oid);
        }
        for (files, is_modules) in [(&state.modules, true), (&state.attributes, false)] {
            for oid in files.difference(&state.done) {
                let roles = Roles { modules: is_modules, attributes: !is_modules };
                let found = match self.file(&mut reader, oid, roles) {
                    Some(found) => found,
                    None if absent == Absent::Ignored => continue,
                    None if is_modules => {
                        missing.push(*oid);
                        continue;
                    }
                    None => {
                        let message = "unable to read .gitattributes blob";
                        super::flaw(&self.rules, oid, Id::GitattributesMissing, message)
                    }
                };
                found.lines.iter().for_each(&mut *say);
                is_refused |= found.is_refused;
            }
        }
        if is_refused { Err(Refused::File) } else { Ok(missing) }
    }

    /// Checks one blob; returns `None` if it is missing.
    fn file(&self, reader: &mut Reader<'_>, oid: &ObjectId, roles: Roles) -> Option<Findings> {
        Some(match reader.header(oid).ok()? {
            (Kind::Blob, size) if size > self.big => blob(&self.rules, oid, None, roles),
            (Kind::Blob, _) => blob(&self.rules, oid, Some(reader.read(oid).ok()?.1), roles),
            _ => {
                let (id, name) = if roles.modules {
                    (Id::GitmodulesBlob, ".gitmodules")
                } else {
                    (Id::GitattributesBlob, ".gitattributes")
                };
                super::flaw(&self.rules, oid, id, &format!("non-blob found at {name}"))
            }
        })
    }

    /// Checks a blob in the roles that earlier trees gave it.
    fn blob(&self, oid: &ObjectId, content: Option<&[u8]>) -> Findings {
        let roles = {
            let mut state = self.state();
            let roles = state.roles(oid);
            if roles == Roles::default() {
                return Findings::default();
            }
            state.done.insert(*oid);
            roles
        };
        blob(&self.rules, oid, content, roles)
    }

    fn large_blob(&self, object: &Large) -> Wanted {
        let Large { oid, size, offset, .. } = *object;
        if size <= self.big && self.state().roles(&oid) != Roles::default() {
            return Wanted::Content;
        }
        let found = self.blob(&oid, None);
        let mut state = self.state();
        if self.collects {
            state.see(&oid, Kind::Blob);
        }
        if found != Findings::default() {
            state.note(offset, found.lines, found.is_refused.then_some(Refused::Object));
        }
        Wanted::Name
    }
}

/// Receives the objects of the same pack a second time, and checks the blobs that came before the
/// trees that refer to them. [`Checker::finish`] reports the results.
pub struct Late<'a>(pub &'a Checker);

impl Late<'_> {
    fn file(&self, oid: &ObjectId, content: Option<&[u8]>) {
        let mut state = self.0.state();
        let roles = state.roles(oid);
        if roles != Roles::default() && !state.done.contains(oid) {
            state.late.insert(*oid, blob(&self.0.rules, oid, content, roles));
        }
    }
}

impl Observer for Late<'_> {
    fn object(&self, oid: &ObjectId, kind: Kind, content: &[u8], _: u64) {
        if kind == Kind::Blob {
            self.file(oid, Some(content));
        }
    }

    fn large(&self, object: &Large) -> Wanted {
        if object.kind == Kind::Blob && object.size <= self.0.big {
            let roles = self.0.state().roles(&object.oid);
            return if roles == Roles::default() { Wanted::Name } else { Wanted::Content };
        }
        if object.kind == Kind::Blob {
            self.file(&object.oid, None);
        }
        Wanted::Name
    }
}

impl Observer for Checker {
    fn object(&self, oid: &ObjectId, kind: Kind, content: &[u8], offset: u64) {
        let mut files = Files::default();
        let (lines, refused) = match parse::check(self.rules.hash, oid, kind, content) {
            Err(lines) => (lines, Some(Refused::Invalid(kind.name()))),
            Ok(()) => {
                let found = match kind {
                    Kind::Blob => self.blob(oid, Some(content)),
                    _ => object(&self.rules, oid, kind, content, &mut files),
                };
                (found.lines, found.is_refused.then_some(Refused::Object))
            }
        };
        if self.collects {
            let links = parse::links(self.rules.hash, kind, content);
            let mut state = self.state();
            state.see(oid, kind);
            links.into_iter().for_each(|(oid, kind)| state.link(oid, kind));
        }
        let is_silent = lines.is_empty() && refused.is_none();
        if is_silent && files == Files::default() {
            return;
        }
        let mut state = self.state();
        state.modules.extend(files.modules);
        state.attributes.extend(files.attributes);
        let too_many = [(&state.modules, ".gitmodules"), (&state.attributes, ".gitattributes")]
            .into_iter()
            .find(|(files, _)| files.len() > MOST_FILES)
            .map(|(_, name)| Refused::TooMany(name));
        if !is_silent || too_many.is_some() {
            state.note(offset, lines, refused.or(too_many));
        }
    }

    fn large(&self, object: &Large) -> Wanted {
        let Large { oid, kind, size, offset } = *object;
        match kind {
            Kind::Blob => self.large_blob(object),
            _ if size > LARGEST => {
                self.state().note(offset, Vec::new(), Some(Refused::TooLarge { oid, kind, size }));
                Wanted::Name
            }
            Kind::Commit | Kind::Tree | Kind::Tag => Wanted::Content,
        }
    }
}

impl State {
    /// Returns the roles that the trees seen so far give a blob.
    fn roles(&self, oid: &ObjectId) -> Roles {
        Roles { modules: self.modules.contains(oid), attributes: self.attributes.contains(oid) }
    }

    /// Records that an object arrived.
    fn see(&mut self, oid: &ObjectId, kind: Kind) {
        if self.seen.insert(*oid, kind).is_some() {
            self.repeated.insert(*oid);
        }
    }

    /// Records a reference to an object of this type.
    fn link(&mut self, oid: ObjectId, kind: Kind) {
        let before = self.links.insert(oid, kind);
        if let Some(before) = before.filter(|before| *before != kind) {
            self.disputed.get_or_insert((oid, before, kind));
        }
    }

    /// Stores the messages about the object at `offset`. Objects behind the first refusal are not
    /// reported, so their messages are dropped.
    fn note(&mut self, offset: u64, lines: Vec<Line>, refused: Option<Refused>) {
        let is_refusal = |(_, refused): &(Vec<Line>, Option<Refused>)| refused.is_some();
        if self.findings.last_key_value().is_some_and(|(last, found)| *last < offset && is_refusal(found)) {
            return;
        }
        if refused.is_some() {
            self.findings.split_off(&offset);
        } else if self.text > MOST_TEXT {
            return;
        }
        self.text += lines.iter().map(Line::len).sum::<usize>();
        self.findings.insert(offset, (lines, refused));
    }
}
