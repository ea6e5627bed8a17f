//! Refs, read: loose files over `packed-refs`, symbolic ones followed.
//!
//! Source: gitrepository-layout(5) and git-check-ref-format(1). A name that is not well formed is no
//! ref; a file that is not well formed is an error in Git's words.

use std::{collections::HashMap, ffi::OsStr, os::unix::ffi::OsStrExt as _, path::Path};

use bstr::{BStr, BString, ByteSlice};
use format::{HashKind, ObjectId};
use gix::refs::{FullName, FullNameRef, Target, file::Store};

use crate::{Error, Head, Repository};

/// Symbolic refs nested deeper than this are broken.
const MAX_SYMREF_DEPTH: usize = 5;

/// Opens the store of a repository.
pub(crate) fn store(layout: &crate::open::Layout) -> Store {
    store_at(&layout.git_dir, &layout.common_dir, layout.hash)
}

/// The refs as one worktree sees them.
pub(crate) fn store_at(git_dir: &Path, common_dir: &Path, hash: HashKind) -> Store {
    let hash = gix_hash(hash);
    let options = gix::refs::store::init::Options {
        write_reflog: gix::refs::store::WriteReflog::Disable,
        ..Default::default()
    };
    if git_dir == common_dir {
        Store::at_opts(git_dir.to_owned(), hash, options)
    } else {
        Store::for_linked_worktree_opts(git_dir.to_owned(), common_dir.to_owned(), hash, options)
    }
}

/// Which object to read in place of which.
#[derive(Debug, Default)]
pub(crate) struct Replacements {
    pub(crate) objects: HashMap<ObjectId, ObjectId>,
    /// Git's complaints about refs that name no object.
    pub(crate) warnings: Vec<BString>,
}

/// Reads `refs/replace/`, or what stands for it. The last component of a name says what is replaced.
pub(crate) fn replacements(store: &Store, base: &BStr, hash: HashKind) -> Result<Replacements, Error> {
    let prefix = base.to_str().ok().and_then(|base| base.try_into().ok());
    let prefix: &gix::path::RelativePath =
        prefix.ok_or_else(|| Error::new(format!("unable to read refs below {base}: invalid name")))?;
    let listed = list(store, Some(prefix));
    let listed = listed
        .map_err(|err| Error::new(format!("unable to read refs below {base}: {}", with_reason(&*err))))?;
    let mut found = Replacements::default();
    for reference in listed {
        let full = reference.name.as_bstr();
        let name = full.strip_prefix(base.as_bytes()).unwrap_or(full).as_bstr();
        let last = name.rsplit_once_str("/").map_or(name.as_bytes(), |(_, last)| last);
        let Some(replaced) = ObjectId::from_hex(hash, last) else {
            found.warnings.push(format!("bad replace ref name: {name}").into());
            continue;
        };
        let replacement = reference.target.try_id().and_then(|id| ObjectId::from_bytes(hash, id.as_bytes()));
        let Some(replacement) = replacement else { continue };
        if found.objects.insert(replaced, replacement).is_some() {
            return Err(Error::new(format!("duplicate replace ref: {name}")));
        }
    }
    Ok(found)
}

/// One step: what a ref holds.
enum Value {
    Id(ObjectId),
    Symbolic(FullName),
}

impl Repository {
    /// Where HEAD points.
    pub fn head(&self) -> Result<Head, Error> {
        match self.read_ref("HEAD".into())? {
            None => Err(Error::new("unable to read HEAD".to_owned())),
            Some(Value::Id(oid)) => Ok(Head::Detached { oid }),
            Some(Value::Symbolic(name)) => {
                let name = name.as_bstr().to_owned();
                Ok(match self.find_ref(name.as_bstr())? {
                    Some(oid) => Head::Branch { name, oid },
                    None => Head::Unborn { name },
                })
            }
        }
    }

    /// Value of a full ref name, symbolic refs followed; `None` if missing.
    pub fn find_ref(&self, name: &BStr) -> Result<Option<ObjectId>, Error> {
        let mut name = name.to_owned();
        for _ in 0..=MAX_SYMREF_DEPTH {
            match self.read_ref(name.as_bstr())? {
                None => return Ok(None),
                Some(Value::Id(id)) => return Ok(Some(id)),
                Some(Value::Symbolic(target)) => name = target.into_inner(),
            }
        }
        Ok(None)
    }

    /// Why `name`, as a user writes it, may be a ref that is there and cannot be read.
    pub fn unreadable_ref(&self, name: &BStr) -> Option<Error> {
        const PLACES: [&str; 5] = ["", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"];
        PLACES.iter().find_map(|place| {
            let full = BString::from([place.as_bytes(), name].concat());
            self.find_ref(full.as_bstr()).err()
        })
    }

    /// The target of a symbolic ref; `None` if there is no such ref or it holds an object name.
    pub fn symbolic_target(&self, name: &BStr) -> Result<Option<BString>, Error> {
        Ok(match self.read_ref(name)? {
            Some(Value::Symbolic(target)) => Some(target.into_inner()),
            _ => None,
        })
    }

    /// All refs below a prefix (a directory with its slash, or the beginning of a name), sorted.
    /// Symbolic ones have the value of what they point to; those that lead nowhere are left out.
    pub fn refs(&self, prefix: &str) -> Result<Vec<(BString, ObjectId)>, Error> {
        let below = match prefix {
            "" | "refs/" => None,
            prefix => {
                let valid = prefix.try_into();
                Some(valid.map_err(|_| Error::new(format!("invalid ref prefix '{prefix}'")))?)
            }
        };
        let listed = list(&self.refs, below)
            .map_err(|err| Error::new(format!("unable to read refs: {}", with_reason(&*err))))?;
        let mut refs = Vec::new();
        for reference in listed {
            let name = reference.name.as_bstr().to_owned();
            let id = match reference.target {
                Target::Object(id) => Some(self.own_id(&id)?),
                Target::Symbolic(target) => self.find_ref(target.as_bstr())?,
            };
            refs.extend(id.map(|id| (name, id)));
        }
        refs.sort();
        Ok(refs)
    }

    fn read_ref(&self, name: &BStr) -> Result<Option<Value>, Error> {
        self.read_ref_in(&self.refs, name)
    }

    /// What `name` finally points to: the name of the last ref on the way, unless that is `name` itself, and its value.
    pub(crate) fn resolve_in(
        &self,
        store: &Store,
        name: &BStr,
    ) -> Result<(Option<BString>, Option<ObjectId>), Error> {
        let mut last = None;
        for _ in 0..=MAX_SYMREF_DEPTH {
            match self.read_ref_in(store, last.as_ref().map_or(name, |last: &BString| last.as_bstr()))? {
                None => return Ok((last, None)),
                Some(Value::Id(id)) => return Ok((last, Some(id))),
                Some(Value::Symbolic(target)) => last = Some(target.into_inner()),
            }
        }
        Ok((None, None))
    }

    fn read_ref_in(&self, store: &Store, name: &BStr) -> Result<Option<Value>, Error> {
        let Ok(full) = <&FullNameRef>::try_from(name) else { return Ok(None) };
        // A pseudoref is a file of the Git directory or nothing; the search below would go on to six other places.
        if !name.contains(&b'/') && name != "HEAD" {
            let file = store.git_dir().join(OsStr::from_bytes(name));
            if matches!(sys::by_path::stat(&file), Ok(None)) {
                return Ok(None);
            }
        }
        let found = uninterrupted(|| store.try_find(full.as_partial_name()), |err| was_interrupted(err));
        let found = found.map_err(|err| {
            let why = io_of(&err).map_or_else(|| "reference broken".to_owned(), sys::reason);
            Error::unreadable(format!("unable to resolve reference '{name}': {why}"))
        })?;
        // The search may have gone on to `refs/tags/<name>` and so on.
        let Some(reference) = found.filter(|reference| reference.name.as_bstr() == name) else {
            return Ok(None);
        };
        Ok(Some(match reference.target {
            Target::Object(id) => Value::Id(self.own_id(&id)?),
            Target::Symbolic(target) => Value::Symbolic(target),
        }))
    }

    pub(crate) fn own_id(&self, id: &gix::oid) -> Result<ObjectId, Error> {
        ObjectId::from_bytes(self.layout.hash, id.as_bytes())
            .ok_or_else(|| Error::new(format!("object name {id} is not of the repository's hash")))
    }
}

/// What the system said, if that is at the bottom of an error.
pub(crate) fn io_of<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e std::io::Error> {
    std::iter::successors(Some(error), |error| error.source()).find_map(|error| error.downcast_ref())
}

/// Repeats what the system interrupted: gix leaves that to the system, which leaves it to whoever calls.
pub(crate) fn uninterrupted<T, E>(
    mut call: impl FnMut() -> Result<T, E>,
    was_interrupted: impl Fn(&E) -> bool,
) -> Result<T, E> {
    loop {
        match call() {
            Err(error) if was_interrupted(&error) => {}
            answer => return answer,
        }
    }
}

/// Whether a signal, or a network mount that heeds them, is at the bottom of an error.
pub(crate) fn was_interrupted(error: &(dyn std::error::Error + 'static)) -> bool {
    io_of(error).is_some_and(|error| error.kind() == std::io::ErrorKind::Interrupted)
}

/// What an error of gix's says, and what the system said, which gix leaves to its cause.
pub(crate) fn with_reason(error: &(dyn std::error::Error + 'static)) -> String {
    match io_of(error) {
        Some(io) => format!("{error}: {}", sys::reason(io)),
        None => error.to_string(),
    }
}

/// Whatever gix says.
type Cause = Box<dyn std::error::Error + 'static>;

/// All refs of a store, or those below a prefix.
fn list(store: &Store, below: Option<&gix::path::RelativePath>) -> Result<Vec<gix::refs::Reference>, Cause> {
    let once = || {
        let platform = store.iter()?;
        let found = match below {
            None => platform.all()?,
            Some(prefix) => platform.prefixed(prefix)?,
        };
        found.map(|reference| Ok(reference?)).collect()
    };
    uninterrupted(once, |cause: &Cause| was_interrupted(cause.as_ref()))
}

/// The same name in gix's type.
pub(crate) fn gix_id(id: &ObjectId) -> gix::ObjectId {
    gix::ObjectId::from_bytes_or_panic(id.as_bytes())
}

/// The same hash in gix's type.
pub(crate) fn gix_hash(kind: HashKind) -> gix::hash::Kind {
    match kind {
        HashKind::Sha1 => gix::hash::Kind::Sha1,
        HashKind::Sha256 => gix::hash::Kind::Sha256,
    }
}

/// `refs/heads/x` as `x`; other names as they are.
pub fn branch_name(full: &BStr) -> &BStr {
    full.strip_prefix(b"refs/heads/").map_or(full, |short| short.as_bstr())
}
