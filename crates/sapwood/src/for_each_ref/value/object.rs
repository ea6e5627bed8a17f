//! Objects, and the fields that every object has.

use bstr::{BStr, ByteSlice as _};
use format::ObjectId;
use repo::{ListedRef, objects::Kind};

use super::{Values, no_such_object};
use crate::{
    Error,
    for_each_ref::{
        field::{IdForm, ObjectField},
        unsupported,
    },
};

/// The part of an object that fields need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Need {
    Nothing,
    /// Type and size.
    Header,
    Content,
}

/// An object.
pub(super) struct Loaded {
    pub(super) id: ObjectId,
    pub(super) kind: Kind,
    pub(super) size: u64,
    /// Empty unless the fields need the content.
    pub(super) content: Vec<u8>,
}

impl Loaded {
    pub(super) fn is_tag(&self) -> bool {
        self.kind == Kind::Tag
    }
}

impl Values<'_> {
    /// Reads an object of the ref `name`.
    pub(super) fn load_object(&mut self, name: &BStr, id: ObjectId, need: Need) -> Result<Loaded, Error> {
        let loaded = match need {
            Need::Content => self.reader.read(&id).map(|(kind, content)| Loaded {
                id,
                kind,
                size: content.len() as u64,
                content: content.to_vec(),
            }),
            Need::Nothing | Need::Header => {
                let header = self.reader.header(&id);
                header.map(|(kind, size)| Loaded { id, kind, size, content: Vec::new() })
            }
        };
        let loaded = loaded.map_err(|error| match error {
            repo::objects::Error::Missing(_) => no_such_object(name, id),
            _ => unsupported("damaged objects"),
        })?;
        // Git parses commits and tags, and fails at malformed ones.
        let is_sound = need != Need::Content
            || match loaded.kind {
                Kind::Commit => loaded.commit().is_some(),
                Kind::Tag => loaded.tag().is_some(),
                Kind::Tree | Kind::Blob => true,
            };
        if is_sound { Ok(loaded) } else { Err(unsupported("malformed objects")) }
    }

    /// Returns the object that a tag finally points to.
    pub(super) fn peel(&mut self, listed: &ListedRef<'_>, tag: &Loaded) -> Result<ObjectId, Error> {
        if let Some(peeled) = listed.peeled {
            return Ok(peeled);
        }
        let wrong = || unsupported("malformed tags");
        let target = match tag.tag() {
            Some(tag) => tag.target,
            None => {
                let (_, data) = self.reader.read(&tag.id).map_err(|_| wrong())?;
                self.repo.parse_tag_target(data).ok_or_else(wrong)?
            }
        };
        let mut target = target;
        loop {
            // Git verifies the type that the tag states.
            match self.reader.header(&target.id) {
                Ok((kind, _)) if kind == target.kind => {}
                _ => return Err(wrong()),
            }
            if target.kind != Kind::Tag {
                return Ok(target.id);
            }
            let (_, data) = self.reader.read(&target.id).map_err(|_| wrong())?;
            target = self.repo.parse_tag_target(data).ok_or_else(wrong)?;
        }
    }

    pub(super) fn append_object(
        &self,
        object: &Loaded,
        field: &ObjectField,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        match field {
            ObjectField::Name(form) => self.append_id(object.id, *form, out)?,
            ObjectField::Type => out.extend_from_slice(object.kind.name().as_bytes()),
            ObjectField::Size => out.extend_from_slice(object.size.to_string().as_bytes()),
        }
        Ok(())
    }

    /// Appends the name of an object.
    pub(super) fn append_id(&self, id: ObjectId, form: IdForm, out: &mut Vec<u8>) -> Result<(), Error> {
        let digits = match form {
            IdForm::Full => usize::MAX,
            IdForm::Digits(digits) => digits,
            IdForm::Short => match self.abbrev.get() {
                Some(digits) => *digits,
                None => {
                    let digits = self.repo.abbreviation_length()?;
                    *self.abbrev.get_or_init(|| digits)
                }
            },
        };
        if digits < self.repo.hash().hex_len() {
            out.extend_from_slice(self.repo.abbreviate_to(id, digits)?.as_bytes())
        } else {
            out.extend_from_slice(id.hex_into(&mut [0; 64]))
        }
        Ok(())
    }
}

/// The headers of a commit.
pub(super) struct Commit {
    pub(super) tree: ObjectId,
    /// In the order of the headers.
    pub(super) parents: Vec<ObjectId>,
}

/// The headers of a tag.
pub(super) struct Tag<'a> {
    pub(super) target: repo::TagTarget,
    pub(super) name: &'a BStr,
}

impl Loaded {
    /// Parses the headers of a commit.
    pub(super) fn commit(&self) -> Option<Commit> {
        let kind = self.id.kind();
        let id = |line: &[u8]| ObjectId::from_hex(kind, line).filter(|_| line.len() == kind.hex_len());
        let mut lines = self.content.lines();
        let tree = id(lines.next().filter(|_| self.kind == Kind::Commit)?.strip_prefix(b"tree ")?)?;
        let parents = lines.map_while(|line| line.strip_prefix(b"parent "));
        let parents = parents.map(id).collect::<Option<Vec<_>>>()?;
        Some(Commit { tree, parents })
    }

    /// Parses the headers of a tag.
    pub(super) fn tag(&self) -> Option<Tag<'_>> {
        let kind = self.id.kind();
        let mut lines = self.content.lines();
        let hex = lines.next().filter(|_| self.kind == Kind::Tag)?.strip_prefix(b"object ")?;
        let id = ObjectId::from_hex(kind, hex)?;
        let target_kind = Kind::from_name(lines.next()?.strip_prefix(b"type ")?)?;
        let name = lines.next()?.strip_prefix(b"tag ")?.as_bstr();
        Some(Tag { target: repo::TagTarget { id, kind: target_kind }, name })
    }
}
