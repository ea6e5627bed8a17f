//! Reads `refs/replace/`, or its configured substitute: the objects to read in place of others.
//!
//! They are read at the first object lookup, as in Git: on a network disk each read costs a round
//! trip. If they cannot be read, no object is reliable, so each lookup is an error.

use std::{collections::HashMap, fmt, sync::OnceLock};

use bstr::{BString, ByteSlice};
use format::ObjectId;

use super::Store;
use crate::{Error, RefError};

/// See [`objects::Replacements`].
pub(crate) struct Replaced {
    store: Store,
    /// The prefix of these refs.
    base: BString,
    found: OnceLock<Result<Found, Error>>,
}

#[derive(Default)]
struct Found {
    objects: HashMap<ObjectId, ObjectId>,
    /// Git's warnings about refs without a valid object.
    warnings: Vec<BString>,
}

impl Replaced {
    pub(crate) fn new(store: Store, base: BString) -> Replaced {
        Replaced { store, base, found: OnceLock::new() }
    }

    /// Returns true if there may be replacements.
    pub(crate) fn replaces_any(&self) -> bool {
        self.found().map_or(true, |found| !found.objects.is_empty())
    }

    /// Returns Git's warnings.
    pub(crate) fn warnings(&self) -> &[BString] {
        self.found().map_or(&[], |found| &found.warnings)
    }

    /// Returns all replacements.
    pub(crate) fn objects(&self) -> Result<&HashMap<ObjectId, ObjectId>, Error> {
        Ok(&self.found()?.objects)
    }

    fn found(&self) -> Result<&Found, Error> {
        self.found.get_or_init(|| self.read()).as_ref().map_err(Error::clone)
    }

    /// Reads the refs. The last component of a name is the replaced object.
    fn read(&self) -> Result<Found, Error> {
        let mut found = Found::default();
        for (full, replacement) in self.store.list(self.base.as_bstr())? {
            let name = full.strip_prefix(self.base.as_bytes()).unwrap_or(&full).as_bstr();
            let last = name.rsplit_once_str("/").map_or(name.as_bytes(), |(_, last)| last);
            let Some(replaced) = ObjectId::from_hex(self.store.packed.hash, last) else {
                found.warnings.push(format!("bad replace ref name: {name}").into());
                continue;
            };
            if found.objects.insert(replaced, replacement).is_some() {
                return Err(RefError::DuplicateReplacement(name.to_owned()).into());
            }
        }
        Ok(found)
    }
}

impl objects::Replacements for Replaced {
    fn all(&self) -> Result<&HashMap<ObjectId, ObjectId>, Box<dyn std::error::Error + Send + Sync>> {
        Ok(self.objects()?)
    }
}

impl fmt::Debug for Replaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replaced").field("base", &self.base).finish_non_exhaustive()
    }
}
