//! `refs/replace/`, or what stands for it: which object to read in place of which.
//!
//! Read when an object is first looked for, as in Git: on a network disk each question costs a round trip. Without them
//! no object can be told from another, so what keeps from reading them is an error for each.

use std::{collections::HashMap, fmt, sync::OnceLock};

use bstr::{BString, ByteSlice};
use format::ObjectId;

use super::Store;
use crate::{Error, RefError, objects};

/// See [`objects::Replacements`].
pub(crate) struct Replaced {
    store: Store,
    /// What the names of such refs begin with.
    base: BString,
    found: OnceLock<Result<Found, Error>>,
}

#[derive(Default)]
struct Found {
    objects: HashMap<ObjectId, ObjectId>,
    /// Git's complaints about refs that name no object.
    warnings: Vec<BString>,
}

impl Replaced {
    pub(crate) fn new(store: Store, base: BString) -> Replaced {
        Replaced { store, base, found: OnceLock::new() }
    }

    /// Whether there may be any.
    pub(crate) fn replaces_any(&self) -> bool {
        self.found().map_or(true, |found| !found.objects.is_empty())
    }

    /// Git's complaints.
    pub(crate) fn warnings(&self) -> &[BString] {
        self.found().map_or(&[], |found| &found.warnings)
    }

    fn found(&self) -> Result<&Found, Error> {
        self.found.get_or_init(|| self.read()).as_ref().map_err(Error::clone)
    }

    /// The last component of a name says what is replaced.
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
    fn all(&self) -> Result<&HashMap<ObjectId, ObjectId>, Error> {
        Ok(&self.found()?.objects)
    }
}

impl fmt::Debug for Replaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replaced").field("base", &self.base).finish_non_exhaustive()
    }
}
