//! Looks up refs: HEAD, single names and all names of a prefix.
//!
//! A malformed name is not a ref. A malformed file is an error with Git's message. A file that
//! cannot be read is an error, never a missing ref or another value.

use std::{io, ops::ControlFlow};

use bstr::{BStr, BString, ByteSlice};
use format::{
    ObjectId,
    refname::{self, Levels},
};
use sys::{FileType, by_path};

use crate::{
    error::{Error, RefError},
    refs::{End, Head, ListScope, ListedRef, RULES, Raw, Resolved},
    repository::Repository,
};

/// `EINVAL`, which Git reports for the content of a broken ref.
const INVALID: i32 = 22;
/// `ENOTDIR`
const NOT_A_DIRECTORY: i32 = 20;
/// `ELOOP`
const LOOP: i32 = 40;

impl Repository {
    /// Returns the target of HEAD.
    pub fn head(&self) -> Result<Head, Error> {
        match self.refs.raw("HEAD".into())? {
            Raw::Missing | Raw::Impossible => Err(RefError::NoHead.into()),
            Raw::Id(oid) => Ok(Head::Detached { oid }),
            Raw::Symbolic(name) if refname::check(name.as_bstr(), Levels::One).is_ok() => {
                let Resolved { last, end } = self.refs.follow("HEAD".into(), Raw::Symbolic(name))?;
                Ok(match (last, value(end)?) {
                    (Some(name), Some(oid)) => Head::Branch { name, oid },
                    (Some(name), None) => Head::Unborn { name },
                    (None, _) => Head::Unresolvable,
                })
            }
            Raw::Symbolic(_) | Raw::Broken => Err(broken("HEAD".into())),
        }
    }

    /// Returns the value of a full ref name, following symbolic refs; `None` if it does not exist.
    /// A broken ref is an error.
    pub fn find_ref(&self, name: &BStr) -> Result<Option<ObjectId>, Error> {
        value(self.refs.resolve(name)?.end)
    }

    /// Returns the object of a ref for a caller that tries several names: a broken ref counts as
    /// missing.
    pub(crate) fn try_ref(&self, name: &BStr) -> Result<Option<ObjectId>, Error> {
        Ok(match self.refs.resolve(name)?.end {
            End::Id(id) => Some(id),
            End::Missing | End::Dangling | End::Broken(_) => None,
        })
    }

    /// Returns Git's warnings about broken and dangling refs that the short `name` could mean. Git
    /// ignores such refs.
    pub fn ignored_refs(&self, name: &BStr) -> Vec<String> {
        let ignored = |(before, after): &(&str, &str)| {
            let full = BString::from([before.as_bytes(), name, after.as_bytes()].concat());
            match self.refs.resolve(full.as_bstr()).ok()?.end {
                End::Broken(_) if full.contains(&b'/') => Some(format!("ignoring broken ref {full}")),
                End::Dangling if full != "HEAD" => Some(format!("ignoring dangling symref {full}")),
                _ => None,
            }
        };
        RULES.iter().filter_map(ignored).collect()
    }

    /// Returns the target of a symbolic ref; `None` if the ref does not exist, or contains an
    /// object name.
    pub fn symbolic_target(&self, name: &BStr) -> Result<Option<BString>, Error> {
        if refname::check(name, Levels::One).is_err() {
            return Ok(None);
        }
        Ok(match self.refs.raw(name)? {
            Raw::Symbolic(target) => Some(target),
            _ => None,
        })
    }

    /// Returns the last name in the chain of a ref, which need not exist, and true if the ref is
    /// symbolic. Follows one step unless `recurse` is set. Returns `None` if the chain does not
    /// end, ends in something that is not a ref, or cannot be read.
    pub fn end_of_chain(&self, name: &BStr, recurse: bool) -> Result<Option<(BString, bool)>, Error> {
        match self.readable_chain(name, recurse) {
            Err(Error::Ref(RefError::Loose { .. })) => Ok(None),
            end => end,
        }
    }

    /// Like [`Repository::end_of_chain`], but a ref that cannot be read is an error.
    pub fn readable_chain(&self, name: &BStr, recurse: bool) -> Result<Option<(BString, bool)>, Error> {
        if refname::check(name, Levels::One).is_err() {
            return Ok(None);
        }
        match self.refs.raw(name)? {
            Raw::Missing | Raw::Id(_) => Ok(Some((name.to_owned(), false))),
            Raw::Impossible | Raw::Broken => Ok(None),
            Raw::Symbolic(target) if !recurse => Ok(Some((target, true))),
            raw @ Raw::Symbolic(_) => match self.refs.follow(name, raw)? {
                Resolved { last: Some(last), end: End::Id(_) | End::Dangling } => Ok(Some((last, true))),
                _ => Ok(None),
            },
        }
    }

    /// Returns the object of a full ref name. `None` for a ref that is missing, broken or cannot be
    /// read.
    pub fn value_of_ref(&self, name: &BStr) -> Result<Option<ObjectId>, Error> {
        match self.try_ref(name) {
            Err(Error::Ref(RefError::Loose { .. })) => Ok(None),
            value => value,
        }
    }

    /// Returns the last full name in the chain of a ref that has a value.
    pub fn reading_name(&self, name: &BStr) -> Result<Option<BString>, Error> {
        Ok(match self.refs.resolve(name)? {
            Resolved { last, end: End::Id(_) } => Some(last.unwrap_or_else(|| name.to_owned())),
            _ => None,
        })
    }

    /// Looks up a ref without following it. The inner result is true if it exists, or the system
    /// error for which it cannot exist. The name may be invalid if it is safe.
    pub fn look_up_ref(&self, name: &BStr) -> Result<io::Result<bool>, Error> {
        Ok(match self.refs.raw(name) {
            Ok(Raw::Id(_) | Raw::Symbolic(_)) => Ok(true),
            Ok(Raw::Broken) => Err(io::Error::from_raw_os_error(INVALID)),
            Ok(Raw::Impossible) => Err(io::Error::from_raw_os_error(LOOP)),
            Ok(Raw::Missing) if self.is_below_a_file(name) => {
                Err(io::Error::from_raw_os_error(NOT_A_DIRECTORY))
            }
            Ok(Raw::Missing) => Ok(false),
            Err(Error::Ref(RefError::Loose { source, .. })) => {
                Err(source.raw_os_error().map_or(source.kind().into(), io::Error::from_raw_os_error))
            }
            Err(error) => return Err(error),
        })
    }

    fn is_below_a_file(&self, name: &BStr) -> bool {
        let dirs = name.find_iter("/").map(|slash| name[..slash].as_bstr());
        let paths = dirs.map(|dir| refname::file(&self.layout.git_dir, &self.layout.refs_dir, dir));
        paths
            .map(|path| by_path::stat_followed(&path))
            .any(|found| matches!(found, Ok(Some(found)) if found.file_type != FileType::Directory))
    }

    /// Lists all refs whose names begin with a prefix, sorted. A symbolic ref has the value of its
    /// target; dangling ones are left out. Broken refs have the null name, as in Git.
    pub fn refs(&self, prefix: &str) -> Result<Vec<(BString, ObjectId)>, Error> {
        self.refs.list(prefix.into())
    }

    /// Visits all refs of `scope`, in order; those after `after` if it is given. Dangling symbolic
    /// refs are left out. Ends when `visit` breaks or fails.
    pub fn each_ref<E: From<Error>>(
        &self,
        scope: ListScope<'_>,
        after: Option<&BStr>,
        visit: impl FnMut(&ListedRef<'_>) -> Result<ControlFlow<()>, E>,
    ) -> Result<ControlFlow<()>, E> {
        self.refs.each(scope, after, visit)
    }
}

fn value(end: End) -> Result<Option<ObjectId>, Error> {
    match end {
        End::Missing | End::Dangling => Ok(None),
        End::Id(id) => Ok(Some(id)),
        // Other files in the Git directory are not refs.
        End::Broken(name) if !name.contains(&b'/') && !refname::is_root(name.as_bstr()) => Ok(None),
        End::Broken(name) => Err(broken(name.as_bstr())),
    }
}

fn broken(name: &BStr) -> Error {
    RefError::Broken(name.to_owned()).into()
}
