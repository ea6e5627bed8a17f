//! The values of fields, for one ref after the other.
//!
//! An object is read at most once per ref, and only as far as the fields need it: not at all, its
//! type and size, or its content. The object that a tag points to is read if a field needs it.

mod name;
mod object;
mod person;
mod remote;
mod text;

use std::{
    cell::{OnceCell, RefCell},
    collections::HashMap,
};

use bstr::{BStr, BString};
use format::ObjectId;
use repo::{ListedRef, Repository, Shortener, keys, objects::Reader};

use self::object::{Loaded, Need};
use super::{
    field::{Field, FieldKind, ObjectField, RefField, TextField},
    sort::{SortKey, SortValue},
};
use crate::Error;

/// Computes the values of fields.
pub(super) struct Values<'a> {
    repo: &'a Repository,
    reader: Reader<'a>,
    /// The parts that the fields need of a ref's object, and of the object that a tag points to.
    own: Need,
    peeled: Need,
    /// The ref that HEAD points to, or HEAD if it is detached.
    head: Option<BString>,
    shortener: RefCell<Shortener<'a>>,
    /// The length of short object names.
    abbrev: OnceCell<usize>,
    /// The paths of worktrees by the full names of their branches.
    worktrees: OnceCell<HashMap<BString, BString>>,
    /// The current time, in seconds since 1970.
    now: u64,
}

/// The objects of one ref, as far as the fields need them.
#[derive(Default)]
pub(super) struct Objects {
    own: Option<Loaded>,
    peeled: Option<Loaded>,
}

impl Objects {
    /// Returns true if no object was read.
    pub(super) fn is_empty(&self) -> bool {
        self.own.is_none()
    }
}

impl<'a> Values<'a> {
    /// Prepares for `fields`. `now` is the current time, in seconds since 1970.
    pub(super) fn new<'f>(
        repo: &'a Repository,
        fields: impl Iterator<Item = &'f Field>,
        now: u64,
    ) -> Result<Values<'a>, Error> {
        let mut values = Values {
            repo,
            reader: repo.objects().reader(),
            own: Need::Nothing,
            peeled: Need::Nothing,
            head: None,
            shortener: RefCell::new(Shortener::new(repo, true)),
            abbrev: OnceCell::new(),
            worktrees: OnceCell::new(),
            now,
        };
        let (mut needs_head, mut shortens) = (false, false);
        for field in fields {
            let need = match &field.kind {
                FieldKind::Ref(RefField::Head) => {
                    needs_head = true;
                    continue;
                }
                FieldKind::Ref(_) => {
                    shortens = true;
                    Need::Nothing
                }
                FieldKind::Control(_) => continue,
                FieldKind::Object(ObjectField::Name(_)) if !field.peeled => Need::Nothing,
                FieldKind::Object(_) => Need::Header,
                FieldKind::Text(_) => Need::Content,
            };
            if field.peeled {
                values.own = values.own.max(Need::Header);
                values.peeled = values.peeled.max(need).max(Need::Header);
            } else {
                values.own = values.own.max(need)
            }
        }
        if needs_head {
            values.head = repo.reading_name("HEAD".into())?;
        }
        if shortens && !repo.config(&keys::core::WARN_AMBIGUOUS_REFS)? {
            values.shortener = RefCell::new(Shortener::new(repo, false));
        }
        Ok(values)
    }

    /// Returns true if no object is read.
    pub(super) fn reads_nothing(&self) -> bool {
        self.own == Need::Nothing
    }

    /// Reads the objects of a ref that the fields need.
    pub(super) fn load(&mut self, listed: &ListedRef<'_>) -> Result<Objects, Error> {
        let mut objects = Objects::default();
        if self.own > Need::Nothing {
            let own = self.load_object(listed.name, listed.id, self.own)?;
            if self.peeled > Need::Nothing && own.is_tag() {
                let id = self.peel(listed, &own)?;
                objects.peeled = Some(self.load_object(listed.name, id, self.peeled)?);
            }
            objects.own = Some(own);
        }
        Ok(objects)
    }

    /// Appends the value of a field.
    pub(super) fn append(
        &mut self,
        listed: &ListedRef<'_>,
        objects: &Objects,
        field: &Field,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let object = if field.peeled { &objects.peeled } else { &objects.own };
        match (&field.kind, object) {
            (FieldKind::Ref(kind), _) => {
                self.append_ref(listed, kind, out)?;
                if field.peeled {
                    out.extend_from_slice(b"^{}");
                }
                Ok(())
            }
            (FieldKind::Object(ObjectField::Name(form)), _) if !field.peeled => {
                self.append_id(listed.id, *form, out)
            }
            (FieldKind::Object(kind), Some(object)) => self.append_object(object, kind, out),
            (FieldKind::Text(kind), Some(object)) => self.append_text(object, kind, out),
            _ => Ok(()),
        }
    }

    /// Returns the value of a sort key.
    pub(super) fn sort_value(
        &mut self,
        listed: &ListedRef<'_>,
        objects: &Objects,
        key: &SortKey,
    ) -> Result<SortValue, Error> {
        if key.is_number() {
            let object = if key.field.peeled { &objects.peeled } else { &objects.own };
            return Ok(SortValue::Number(
                object.as_ref().map_or(0, |object| self.number(object, &key.field)),
            ));
        }
        let mut text = Vec::new();
        self.append(listed, objects, &key.field, &mut text)?;
        Ok(SortValue::Text(text.into()))
    }

    /// Returns the number that a field sorts by.
    fn number(&self, object: &Loaded, field: &Field) -> u64 {
        match &field.kind {
            FieldKind::Object(ObjectField::Size) => object.size,
            FieldKind::Text(TextField::Person(who, _)) => {
                object.person_line(*who).and_then(person::Date::of).map_or(0, |date| date.seconds)
            }
            FieldKind::Text(TextField::NumParent) => {
                object.commit().map_or(0, |commit| self.parents(object.id, &commit).len() as u64)
            }
            FieldKind::Text(TextField::ContentsSize) => {
                object.message().map_or(0, |message| message.whole.len() as u64)
            }
            _ => 0,
        }
    }
}

fn no_such_object(name: &BStr, id: ObjectId) -> Error {
    Error::failed(format!("missing object {id} for {name}"))
}
