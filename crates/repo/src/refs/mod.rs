//! Refs, read: loose files over `packed-refs`, symbolic ones followed.
//!
//! Source: gitrepository-layout(5) and git-check-ref-format(1). A name that is not well formed is no
//! ref; a file that is not well formed is an error in Git's words; one that cannot be read is an error, never another value.

mod list;
mod replace;
mod store;

use bstr::{BStr, BString, ByteSlice};
use format::{
    ObjectId,
    refname::{self, Levels},
};

use crate::{Error, Head, RefError, Repository, revision::RULES};
pub(crate) use replace::Replaced;
use store::Raw;
pub(crate) use store::{End, Resolved, Store};

impl Repository {
    /// Where HEAD leads.
    pub fn head(&self) -> Result<Head, Error> {
        match self.refs.raw("HEAD".into())? {
            Raw::Missing | Raw::Impossible => Err(RefError::NoHead.into()),
            Raw::Id(oid) => Ok(Head::Detached { oid }),
            Raw::Symbolic(name) if refname::check(name.as_bstr(), Levels::One).is_ok() => {
                let Resolved { last, end } = self.refs.followed("HEAD".into(), Raw::Symbolic(name))?;
                Ok(match (last, value(end)?) {
                    (Some(name), Some(oid)) => Head::Branch { name, oid },
                    (Some(name), None) => Head::Unborn { name },
                    (None, _) => Head::Nowhere,
                })
            }
            Raw::Symbolic(_) | Raw::Broken => Err(broken("HEAD".into())),
        }
    }

    /// Value of a full ref name, symbolic refs followed; `None` if missing. A broken one is an error.
    pub fn find_ref(&self, name: &BStr) -> Result<Option<ObjectId>, Error> {
        value(self.refs.resolve(name)?.end)
    }

    /// The object a ref leads to, for who looks whether there is one: what is broken is none.
    pub(crate) fn try_ref(&self, name: &BStr) -> Result<Option<ObjectId>, Error> {
        Ok(match self.refs.resolve(name)?.end {
            End::Id(id) => Some(id),
            End::Missing | End::Dangling | End::Broken(_) => None,
        })
    }

    /// What Git says of the refs that `name` may mean, as a user writes it, and that are broken or lead nowhere: it passes them over.
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

    /// The target of a symbolic ref; `None` if there is no such ref or it holds an object name.
    pub fn symbolic_target(&self, name: &BStr) -> Result<Option<BString>, Error> {
        if refname::check(name, Levels::One).is_err() {
            return Ok(None);
        }
        Ok(match self.refs.raw(name)? {
            Raw::Symbolic(target) => Some(target),
            _ => None,
        })
    }

    /// All refs whose names begin with a prefix, sorted. Symbolic ones have the value of what they point to; those that lead nowhere are
    /// left out. What is broken is null, as for Git.
    pub fn refs(&self, prefix: &str) -> Result<Vec<(BString, ObjectId)>, Error> {
        self.refs.list(prefix.into())
    }

    /// The same name in our type; `None` if it is not of the repository's hash.
    pub(crate) fn own_id(&self, id: &gix_hash::oid) -> Option<ObjectId> {
        ObjectId::from_bytes(self.layout.hash, id.as_bytes())
    }
}

fn value(end: End) -> Result<Option<ObjectId>, Error> {
    match end {
        End::Missing | End::Dangling => Ok(None),
        End::Id(id) => Ok(Some(id)),
        // Whatever else lies beside the refs.
        End::Broken(name) if !name.contains(&b'/') && !refname::is_root(name.as_bstr()) => Ok(None),
        End::Broken(name) => Err(broken(name.as_bstr())),
    }
}

fn broken(name: &BStr) -> Error {
    RefError::Broken(name.to_owned()).into()
}

/// `refs/heads/x` as `x`; other names as they are.
pub fn branch_name(full: &BStr) -> &BStr {
    full.strip_prefix(b"refs/heads/").map_or(full, |short| short.as_bstr())
}
