//! Names of refs, HEAD and worktrees.

use std::{collections::HashMap, os::unix::ffi::OsStrExt as _};

use bstr::{BStr, BString, ByteSlice as _};
use repo::{ListedRef, WorktreeHeadKind};

use super::Values;
use crate::{
    Error,
    for_each_ref::field::{NameForm, RefField},
};

impl Values<'_> {
    pub(super) fn append_ref(
        &self,
        listed: &ListedRef<'_>,
        field: &RefField,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        match field {
            RefField::Name(form) => self.append_name(listed.name, *form, out)?,
            RefField::Symref(form) => {
                if let Some(target) = listed.target {
                    self.append_name(target, *form, out)?;
                }
            }
            RefField::Upstream(form) => self.append_upstream(listed.name, *form, out)?,
            RefField::Push(form) => self.append_push(listed.name, *form, out)?,
            RefField::Head => {
                let is_head = self.head.as_ref().is_some_and(|head| *head == *listed.name);
                out.push(if is_head { b'*' } else { b' ' });
            }
            RefField::WorktreePath => {
                if listed.name.starts_with(b"refs/heads/")
                    && let Some(path) = self.worktrees()?.get(listed.name.as_bytes())
                {
                    out.extend_from_slice(path);
                }
            }
        }
        Ok(())
    }

    /// Appends the name of a ref.
    pub(super) fn append_name(&self, name: &BStr, form: NameForm, out: &mut Vec<u8>) -> Result<(), Error> {
        match form {
            NameForm::Full => out.extend_from_slice(name),
            NameForm::Short => out.extend_from_slice(&self.shortener.borrow_mut().shorten(name)?),
            NameForm::StripLeft(count) => {
                let mut rest = name.split_str("/").skip(stripped(name, count));
                let kept = rest
                    .next()
                    .map_or(0, |first| first.len() + rest.map(|part| part.len() + 1).sum::<usize>());
                out.extend_from_slice(&name[name.len() - kept..]);
            }
            NameForm::StripRight(count) => {
                let parts = name.split_str("/").count().saturating_sub(stripped(name, count));
                let mut end = name.split_str("/").take(parts);
                let kept =
                    end.next().map_or(0, |first| first.len() + end.map(|part| part.len() + 1).sum::<usize>());
                out.extend_from_slice(&name[..kept]);
            }
        }
        Ok(())
    }

    fn worktrees(&self) -> Result<&HashMap<BString, BString>, Error> {
        if let Some(found) = self.worktrees.get() {
            return Ok(found);
        }
        let mut found = HashMap::new();
        for worktree in self.repo.worktrees()? {
            if let WorktreeHeadKind::Branch(branch) = self.repo.head_of(&worktree).kind {
                found.insert(branch, BString::from(worktree.path.as_os_str().as_bytes()));
            }
        }
        Ok(self.worktrees.get_or_init(|| found))
    }
}

/// Returns the number of components to remove. A negative `count` is the number of components to
/// keep.
fn stripped(name: &BStr, count: i32) -> usize {
    let components = name.split_str("/").count();
    match usize::try_from(count) {
        Ok(count) => count,
        Err(_) => components.saturating_sub(count.unsigned_abs() as usize),
    }
}
