//! The upstream of a branch, and the ref that a push updates.

use bstr::{BStr, BString, ByteSlice as _};
use repo::keys::{self, Key};

use super::Values;
use crate::{
    Error,
    for_each_ref::{field::RemoteForm, unsupported},
};

impl Values<'_> {
    pub(super) fn append_upstream(
        &self,
        name: &BStr,
        form: RemoteForm,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let Some(branch) = name.strip_prefix(b"refs/heads/") else { return Ok(()) };
        let Ok(upstream) = self.repo.require_upstream(name) else { return Ok(()) };
        let setting = |key: Key<Option<BString>>| self.repo.config_all(&key.of(branch.as_bstr()));
        match form {
            RemoteForm::RemoteName => {
                out.extend(setting(keys::branch::REMOTE).last().cloned().unwrap_or_default().iter())
            }
            RemoteForm::RemoteRef => {
                out.extend(setting(keys::branch::MERGE).first().cloned().unwrap_or_default().iter())
            }
            _ => self.append_tracked(name, &upstream, form, out)?,
        }
        Ok(())
    }

    pub(super) fn append_push(&self, name: &BStr, form: RemoteForm, out: &mut Vec<u8>) -> Result<(), Error> {
        if !name.starts_with(b"refs/heads/") {
            return Ok(());
        }
        match form {
            RemoteForm::RemoteName => {
                out.extend(self.repo.configured_push_remote(name).unwrap_or_default().iter());
            }
            RemoteForm::RemoteRef => out.extend(self.repo.push_destination(name).unwrap_or_default().iter()),
            _ => {
                if let Ok(push) = self.repo.require_push(name) {
                    self.append_tracked(name, &push, form, out)?;
                }
            }
        }
        Ok(())
    }

    fn append_tracked(
        &self,
        name: &BStr,
        tracked: &BString,
        form: RemoteForm,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        if let RemoteForm::Name(form) = form {
            return self.append_name(tracked.as_bstr(), form, out);
        }
        let distance = self.distance(name, tracked.as_bstr())?;
        let shown = match (form, distance) {
            (RemoteForm::TrackShort, None) => String::new(),
            (RemoteForm::TrackShort, Some(distance)) => match distance {
                (0, 0) => "=",
                (0, _) => "<",
                (_, 0) => ">",
                _ => "<>",
            }
            .to_owned(),
            (_, None) => "gone".to_owned(),
            (_, Some((0, 0))) => String::new(),
            (_, Some((0, behind))) => format!("behind {behind}"),
            (_, Some((ahead, 0))) => format!("ahead {ahead}"),
            (_, Some((ahead, behind))) => format!("ahead {ahead}, behind {behind}"),
        };
        let bracket = form == RemoteForm::Track { bracket: true } && !shown.is_empty();
        out.extend(if bracket { format!("[{shown}]") } else { shown }.as_bytes());
        Ok(())
    }

    /// Counts the commits that only one of two refs has. `None` if one of them has no commit.
    fn distance(&self, ours: &BStr, theirs: &BStr) -> Result<Option<(usize, usize)>, Error> {
        let commit = |name: &BStr| -> Result<_, Error> {
            let Some(id) = self.repo.value_of_ref(name)? else { return Ok(None) };
            let commit = self.repo.commit_if_there(id).map_err(|_| unsupported("damaged objects"))?;
            // Git reports an error for an object that is not a commit.
            commit.map(Some).ok_or(unsupported("branches without a commit"))
        };
        let (Some(theirs), Some(ours)) = (commit(theirs)?, commit(ours)?) else { return Ok(None) };
        let distance = self.repo.ahead_behind(ours, theirs);
        distance.map(Some).map_err(|_| unsupported("damaged histories"))
    }
}
