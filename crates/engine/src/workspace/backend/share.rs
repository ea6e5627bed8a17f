//! The form in which a workspace can use a base of another user.

use std::path::PathBuf;

use sys::by_path;

use super::{Backend, Layers, fuse};
use crate::workspace::base::{Base, Form};

/// Returns the form in which a workspace with this backend can use `base`, whose files may belong
/// to another user. The error is the reason why there is none. `search` are the directories of
/// programs.
///
/// A copy-up gives the file of the upper layer the owner of the file below. In a user namespace
/// only the user's own id is mapped, so the kernel refuses for files of other users. A file without
/// contents that belongs to the user, with its data in a layer of data only, is copied up.
pub fn form_for(backend: Backend, base: &Base, search: &[PathBuf]) -> Result<Form, String> {
    let files = base.files();
    let stat = by_path::stat_followed(&files).ok().flatten();
    let (uid, gid) = stat
        .map(|stat| (stat.uid, stat.gid))
        .ok_or_else(|| format!("'{}' cannot be examined", files.display()))?;
    let as_shown = if base.owner == Some((uid, gid)) { Form::InPlace } else { Form::Owned { uid, gid } };
    let own = (sys::user::effective_uid(), sys::user::effective_gid());
    let is_ours = uid == own.0 || own.0 == 0 && sys::xattr::sees_trusted();
    let others = |what: &str| Err(format!("the files of the base belong to another user, and {what}"));
    match backend {
        // They copy the whole directory.
        Backend::Reflink | Backend::Btrfs if base.is_elsewhere() => {
            Err("the base is a checkout that lies elsewhere".to_owned())
        }
        Backend::Image | Backend::Reflink => Ok(Form::InPlace),
        Backend::Overlay => Ok(as_shown),
        Backend::OverlayUser | Backend::Btrfs if is_ours => Ok(as_shown),
        Backend::OverlayUser if sys::user::kernel_version() >= (6, 16) => Ok(Form::StandIns),
        Backend::OverlayUser => others("this kernel shares no files of other users (Linux 6.16 does)"),
        Backend::Btrfs => others("only their owner may make a snapshot"),
        Backend::Fuse => match fuse::find(search) {
            _ if is_ours => Ok(as_shown),
            Some((fuse::Program::FuseOverlayfs, _)) => Ok(Form::Owned { uid: own.0, gid: own.1 }),
            _ => others("unionfs-fuse lets nobody else change them"),
        },
        Backend::Copy => Err("a checkout shares no files".to_owned()),
    }
}

/// Returns the owner that a FUSE program must show for all files: the one that the index of the
/// base expects, if the files have another one.
pub(super) fn squashed_owner(layers: &Layers) -> Option<(u32, u32)> {
    let view = layers.base.view.as_ref()?;
    let stat = by_path::stat_followed(&view.of).ok().flatten()?;
    layers.base.owner.filter(|owner| *owner != (stat.uid, stat.gid))
}
