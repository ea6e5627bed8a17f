//! Short names of refs, and the marks that stand for names: `@{-N}`, `@`, `@{upstream}`, `@{push}`.

use bstr::{BStr, BString, ByteSlice as _};
use format::ObjectId;

use super::forms::prior_checkout;
use crate::{
    Error, Repository, UpstreamError,
    refs::{End, RULES, Resolved},
};

impl Repository {
    /// Returns the full name of a short ref name, by Git's rules of precedence.
    pub fn expand_ref(&self, short: &BStr) -> Result<Option<(BString, ObjectId)>, Error> {
        for (before, after) in RULES {
            let mut name = BString::from(before);
            name.extend_from_slice(short);
            name.extend_from_slice(after.as_bytes());
            if let Some(id) = self.try_ref(name.as_bstr())? {
                return Ok(Some((name, id)));
            }
        }
        Ok(None)
    }

    /// Like [`Repository::expand_ref`], but skips refs without a reflog. A symbolic ref may have
    /// the reflog of its target.
    pub(super) fn expand_ref_with_log(&self, short: &BStr) -> Result<Option<(BString, ObjectId)>, Error> {
        for (before, after) in RULES {
            let name = BString::from([before.as_bytes(), short, after.as_bytes()].concat());
            let Resolved { last, end: End::Id(id) } = self.refs.resolve(name.as_bstr())? else { continue };
            let mut names = [Some(name), last].into_iter().flatten();
            if let Some(name) = names.find(|name| self.has_reflog(name.as_bstr())) {
                return Ok(Some((name, id)));
            }
        }
        Ok(None)
    }

    /// Returns every ref that a short name may mean. Symbolic refs are followed.
    pub fn refs_of_short_name(&self, short: &BStr) -> Result<Vec<(BString, ObjectId)>, Error> {
        let short = self.interpret_branch_name(short)?;
        let mut found = Vec::new();
        for (before, after) in RULES {
            let name = BString::from(bstr::concat([before.as_bytes(), &short, after.as_bytes()]));
            if let Resolved { last, end: End::Id(id) } = self.refs.resolve(name.as_bstr())? {
                found.push((last.unwrap_or(name), id));
            }
        }
        Ok(found)
    }

    /// Replaces `@{-N}`, `@` and `branch@{upstream}` at the beginning of a name. Other names are
    /// returned unchanged. The replacement of `@{-N}` is a short name, that of `@{upstream}` a full
    /// one.
    pub fn interpret_branch_name(&self, name: &BStr) -> Result<BString, Error> {
        if let Some((whole, rest)) = self.expand_prior_checkout(name)? {
            if rest.is_empty() {
                return Ok(whole);
            }
            let interpreted = self.interpret_branch_name(whole.as_bstr())?;
            // In a ref name, only `@{upstream}` or `@{push}` may follow `@{-N}`.
            return Ok(if interpreted == whole { name.to_owned() } else { interpreted });
        }
        if name == "@" {
            return Ok("HEAD".into());
        }
        match name.strip_prefix(b"@") {
            // The upstream or push destination of HEAD's branch.
            Some(mark) if mark.starts_with(b"@{") => {
                let interpreted = self.interpret_mark(mark.as_bstr())?;
                Ok(if interpreted == mark { name.to_owned() } else { interpreted })
            }
            _ => self.interpret_mark(name),
        }
    }

    /// Replaces `branch@{upstream}` and `branch@{push}` by a full name. Other names are returned
    /// unchanged. Here, `@` is the name of a branch.
    pub fn interpret_mark(&self, name: &BStr) -> Result<BString, Error> {
        let Some(at) = name.find(b"@{") else { return Ok(name.to_owned()) };
        let mark = name[at..].to_ascii_lowercase();
        let (branch, push) = match mark.as_slice() {
            b"@{u}" | b"@{upstream}" => (&name[..at], false),
            b"@{push}" => (&name[..at], true),
            _ => return Ok(name.to_owned()),
        };
        self.upstream_or_push_ref(branch.as_bstr(), push).map_err(|error| Error::Mark(Box::new(error)))
    }

    /// Returns the upstream or push destination of the branch `short`, or of HEAD's branch.
    fn upstream_or_push_ref(&self, short: &BStr, push: bool) -> Result<BString, Error> {
        let branch = match short.as_bytes() {
            b"" | b"HEAD" => match self.head()?.branch() {
                Some(branch) => branch.to_owned(),
                None => return Err(UpstreamError::NoCurrentBranch.into()),
            },
            branch => {
                let mut full = BString::from("refs/heads/");
                full.extend_from_slice(branch);
                if self.find_ref(full.as_bstr())?.is_none() {
                    return Err(UpstreamError::NoBranch(branch.into()).into());
                }
                full
            }
        };
        if push { self.require_push(branch.as_bstr()) } else { self.require_upstream(branch.as_bstr()) }
    }

    /// Replaces `@{-N}` at the beginning of a word by the previous checkout. Also returns the text
    /// that follows it. Returns `None` for other words, and if the reflog has fewer checkouts.
    pub fn expand_prior_checkout<'n>(&self, name: &'n BStr) -> Result<Option<(BString, &'n BStr)>, Error> {
        let Some((n, rest)) = prior_checkout(name) else { return Ok(None) };
        let Some(mut whole) = self.previous_checkout(n)? else { return Ok(None) };
        whole.extend_from_slice(rest);
        Ok(Some((whole, rest)))
    }
}
