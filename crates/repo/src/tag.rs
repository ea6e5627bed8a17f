//! The object that a tag finally points to.
//!
//! Like Git, it trusts the type that the tag states for its target: the target itself is not read.

use bstr::ByteSlice as _;
use format::ObjectId;
use objects::{Kind, Reader};

use crate::{Error, ObjectError, Repository};

/// The target of a tag, from the tag's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagTarget {
    /// The object.
    pub id: ObjectId,
    /// Its type, as stated by the tag.
    pub kind: Kind,
}

impl Repository {
    /// Parses the headers that specify a tag's target; `None` if they are malformed.
    pub fn parse_tag_target(&self, data: &[u8]) -> Option<TagTarget> {
        let mut lines = data.lines();
        let id = self.parse_hex(lines.next()?.strip_prefix(b"object ")?)?;
        let kind = Kind::from_name(lines.next()?.strip_prefix(b"type ")?)?;
        Some(TagTarget { id, kind })
    }

    /// Follows the tag `id` and tags of tags to another object. `None` if a tag is malformed.
    pub fn peel_tag_with(&self, reader: &mut Reader<'_>, id: ObjectId) -> Result<Option<TagTarget>, Error> {
        let mut target = TagTarget { id, kind: Kind::Tag };
        while target.kind == Kind::Tag {
            let (Kind::Tag, data) = reader.read(&target.id).map_err(ObjectError::from)? else {
                return Ok(None);
            };
            let Some(next) = self.parse_tag_target(data) else { return Ok(None) };
            target = next;
        }
        Ok(Some(target))
    }
}
