//! Lists refs by prefix: loose ones hide packed ones.
//!
//! Order: loose refs first, then packed-refs, so a ref that another process packs meanwhile is
//! found at least once. Each directory is listed once, and the type of an entry is taken from the
//! listing if it has one. A directory that cannot be listed is an error; Git treats it as empty.
//! Packed refs are visited in place: listing them all makes no copies.

use std::{
    io::ErrorKind,
    ops::ControlFlow,
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
};

use bstr::{BStr, BString, ByteSlice};
use format::{
    ObjectId,
    refname::{self, Levels},
};
use sys::{FileType, by_path};

use super::store::{End, Store};
use crate::{Attempt, Error, RefError};

/// A ref in a listing.
#[derive(Clone, Copy, Debug)]
pub struct ListedRef<'a> {
    /// The full name.
    pub name: &'a BStr,
    /// The value; null for a ref that is not sound.
    pub id: ObjectId,
    /// The last ref in the chain of a symbolic ref.
    pub target: Option<&'a BStr>,
    /// The object that the tag finally points to, if packed-refs contains it.
    pub peeled: Option<ObjectId>,
    /// The soundness of the ref.
    pub soundness: Soundness,
}

/// The usability of a ref.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Soundness {
    /// It has a value.
    Sound,
    /// Its content is not a value, or is the null name.
    Broken,
    /// Its name is invalid.
    BadName,
}

/// The refs to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListScope<'a> {
    /// Those whose names begin with this.
    Below(&'a BStr),
    /// All refs, with HEAD and the other root refs.
    WithRoot,
}

/// A loose ref. A dangling one is not listed, but still hides a packed ref.
struct LooseRef {
    name: BString,
    id: ObjectId,
    target: Option<BString>,
    soundness: Soundness,
    is_dangling: bool,
}

impl Store {
    /// Lists all refs whose names begin with `prefix`, sorted. A symbolic ref has the value of its
    /// target; dangling ones are left out. Broken refs have the null name.
    pub(crate) fn list(&self, prefix: &BStr) -> Result<Vec<(BString, ObjectId)>, Error> {
        let mut all = Vec::new();
        let _flow = self.each(ListScope::Below(prefix), None, |listed| {
            all.push((listed.name.to_owned(), listed.id));
            Ok::<_, Error>(ControlFlow::Continue(()))
        })?;
        Ok(all)
    }

    /// Visits all refs of `scope`, in order; those after `after` if it is given. Ends when `visit`
    /// breaks or fails.
    pub(crate) fn each<E: From<Error>>(
        &self,
        scope: ListScope<'_>,
        after: Option<&BStr>,
        mut visit: impl FnMut(&ListedRef<'_>) -> Result<ControlFlow<()>, E>,
    ) -> Result<ControlFlow<()>, E> {
        let (prefix, mut loose) = match scope {
            ListScope::Below(prefix) => (prefix, self.loose_refs(prefix)?),
            ListScope::WithRoot => ("".into(), self.loose_refs("".into())?),
        };
        if scope == ListScope::WithRoot {
            loose.splice(0..0, self.root_refs()?);
            loose.sort_by(|left, right| left.name.cmp(&right.name));
        }
        let mut loose = loose.iter().peekable();
        // For `refs/`, read all of packed-refs, so that every malformed line is noticed.
        let packed_prefix = if prefix == "refs/" { "".into() } else { prefix };
        // A name is not after its own prefix, and no name has a control character.
        let is_after = |name: &BStr| {
            after.is_none_or(|after| match name.strip_prefix(after.as_bytes()) {
                Some(rest) => !rest.is_empty(),
                None => name > after,
            })
        };
        let mut show = |listed: &ListedRef<'_>| {
            if is_after(listed.name) { visit(listed) } else { Ok(ControlFlow::Continue(())) }
        };
        let flow = self.packed.each_below(packed_prefix, |record| {
            while let Some(before) = loose.next_if(|before| before.name < *record.name) {
                if !before.is_dangling && show(&before.listed())?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            if loose.peek().is_some_and(|same| same.name == *record.name) {
                return Ok(ControlFlow::Continue(()));
            }
            let is_bad = record.oid.is_null() && refname::check(record.name, Levels::One).is_err();
            let soundness = if is_bad { Soundness::BadName } else { Soundness::Sound };
            let (name, id, peeled) = (record.name, record.oid, record.peeled);
            show(&ListedRef { name, id, target: None, peeled, soundness })
        })?;
        if flow.is_continue() {
            for rest in loose.filter(|rest| !rest.is_dangling) {
                if show(&rest.listed())?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(flow)
    }

    fn loose_refs(&self, prefix: &BStr) -> Result<Vec<LooseRef>, Error> {
        let mut loose = Vec::new();
        let dir = match prefix.strip_prefix(b"refs/") {
            Some(rest) => {
                prefix[..prefix.len() - rest.len() + rest.rfind_byte(b'/').map_or(0, |at| at + 1)].as_bstr()
            }
            None if b"refs/".starts_with(prefix) => "refs/".into(),
            None => return Ok(loose),
        };
        self.loose_below(dir, prefix, &mut loose)?;
        loose.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(loose)
    }

    /// Lists HEAD and the other root refs.
    fn root_refs(&self) -> Result<Vec<LooseRef>, Error> {
        let entries = by_path::list(&self.git_dir).map_err(Attempt::ReadLooseRefs.on(&self.git_dir))?;
        let files = entries.into_iter().filter(|(_, file_type)| *file_type == FileType::File);
        let names = files.map(|(name, _)| BString::from(name.into_vec()));
        let roots = names.filter(|name| refname::is_listed_root(name.as_bstr()));
        roots.filter_map(|name| self.loose(name).transpose()).collect()
    }

    /// Lists the directory `dir`, whose name ends with a slash.
    fn loose_below(&self, dir: &BStr, prefix: &BStr, found: &mut Vec<LooseRef>) -> Result<(), Error> {
        let path = refname::file(&self.git_dir, &self.packed.common_dir, dir);
        let entries = match by_path::list(&path) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Vec::new()
            }
            Err(error) => return Err(Attempt::ReadLooseRefs.on(&path)(error)),
        };
        // Refs of this worktree only are in its own Git directory.
        let has_own = dir == "refs/" && self.git_dir != self.packed.common_dir;
        let own = refname::PER_WORKTREE.iter().filter(|_| has_own);
        for dir in own.map(|dir| BStr::new(*dir)).filter(|dir| may_contain(dir, prefix)) {
            self.loose_below(dir, prefix, found)?;
        }
        for (entry, mut file_type) in entries {
            if entry.as_bytes().starts_with(b".") || entry.as_bytes().ends_with(b".lock") {
                continue;
            }
            if file_type == FileType::Symlink {
                let at = path.join(&entry);
                match by_path::stat_followed(&at) {
                    Ok(Some(stat)) => file_type = stat.file_type,
                    Ok(None) => continue,
                    Err(error) if sys::is_symlink_refused(&error) => continue,
                    Err(error) => return Err(Attempt::ReadLooseRefs.on(&at)(error)),
                }
            }
            let mut name = BString::from([dir.as_bytes(), &entry.into_vec()].concat());
            match file_type {
                FileType::Directory => {
                    name.push(b'/');
                    let is_own = has_own && refname::is_per_worktree(name.as_bstr());
                    if !is_own && may_contain(name.as_bstr(), prefix) {
                        self.loose_below(name.as_bstr(), prefix, found)?;
                    }
                }
                FileType::File if name.starts_with(prefix) => found.extend(self.loose(name)?),
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads a loose ref. `None` if it was removed after the listing.
    fn loose(&self, name: BString) -> Result<Option<LooseRef>, Error> {
        let id = ObjectId::null(self.packed.hash);
        if refname::check(name.as_bstr(), Levels::One).is_err() {
            if !refname::is_safe(name.as_bstr()) {
                return Err(RefError::Dangerous(name).into());
            }
            let (target, soundness, is_dangling) = (None, Soundness::BadName, false);
            return Ok(Some(LooseRef { name, id, target, soundness, is_dangling }));
        }
        let resolved = self.resolve(name.as_bstr())?;
        let target = resolved.last;
        let (id, soundness, is_dangling) = match resolved.end {
            End::Missing => return Ok(None),
            End::Dangling => (id, Soundness::Broken, true),
            End::Broken(_) => (id, Soundness::Broken, target.is_some()),
            End::Id(id) if id.is_null() => (id, Soundness::Broken, target.is_some()),
            End::Id(id) => (id, Soundness::Sound, false),
        };
        Ok(Some(LooseRef { name, id, target, soundness, is_dangling }))
    }
}

impl LooseRef {
    fn listed(&self) -> ListedRef<'_> {
        ListedRef {
            name: self.name.as_bstr(),
            id: self.id,
            target: self.target.as_ref().map(|target| target.as_bstr()),
            peeled: None,
            soundness: self.soundness,
        }
    }
}

/// Returns true if names with this prefix may be below a directory.
fn may_contain(dir: &BStr, prefix: &BStr) -> bool {
    dir.starts_with(prefix) || prefix.starts_with(dir.as_bytes())
}
