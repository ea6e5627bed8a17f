//! Bases that show the contents of another base with another owner or other permissions.
//!
//! No content is stored twice. An image of another user is written from the image that exists: a
//! few megabytes of metadata, with the same blob files. For a directory there are three forms
//! ([`Form`]). Each kind is made without objects of the repository and without filters.

use std::{
    path::{Path, PathBuf},
    time::{Duration, UNIX_EPOCH},
};

use bstr::{BStr, ByteSlice as _};
use format::index::{Index, Stat};
use sys::{Dir, by_path, xattr};

use super::{
    AddOptions, Base, Bases, Error, Kind, Wanted, add::Made, image, populate::Populate, proof, users::User,
};
use crate::files::own;

/// The way in which a directory is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The other base is used itself.
    InPlace,
    /// The files of the other base, and an index that expects the owner that the mount shows: a
    /// mount with mapped ids, or a program that squashes owners.
    Owned {
        /// The user id that the mount shows.
        uid: u32,
        /// The group id that the mount shows.
        gid: u32,
    },
    /// Files without contents that belong to this user. The attributes of overlayfs name the files
    /// of the other base, which the overlay gets as a layer of data only.
    StandIns,
}

/// The contents of a base that shows another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The files of the other base.
    pub of: PathBuf,
    /// The form.
    pub form: Form,
}

impl Form {
    /// Returns the name used in records.
    pub(super) fn name(self) -> &'static str {
        match self {
            Form::InPlace => "in-place",
            Form::Owned { .. } => "owned",
            Form::StandIns => "stand-ins",
        }
    }

    /// Returns the form with this name. The owner of [`Form::Owned`] is in the record of the base.
    pub(super) fn from_name(name: &BStr, owner: (u32, u32)) -> Option<Form> {
        let all = [Form::Owned { uid: owner.0, gid: owner.1 }, Form::StandIns];
        all.into_iter().find(|form| form.name() == name)
    }

    fn owner(self, wanted: &Wanted<'_>) -> (u32, u32) {
        match self {
            Form::Owned { uid, gid } => (uid, gid),
            Form::InPlace | Form::StandIns => (wanted.owner().uid, wanted.owner().gid),
        }
    }
}

impl Bases {
    /// Returns the bases of this directory and its alternates that differ from `wanted` only in
    /// their owner or permissions, and whose directory this process may enter.
    pub fn siblings(&self, wanted: &Wanted<'_>) -> Result<Vec<Base>, Error> {
        let is_sibling = |base: &Base| {
            base.kind == wanted.kind()
                && base.view.is_none()
                && (base.parent.is_none() || base.kind == Kind::Image)
                && base.contents.as_deref() == Some(wanted.contents())
                && by_path::may_be_run(&base.files()).is_ok()
        };
        // A base that cannot be read is another user's, and private. A view is durable when it is
        // made, so the base below has to be.
        let mut all: Vec<Base> = Vec::new();
        for dir in [self.dir.clone()].into_iter().chain(self.alternates()?) {
            all.extend(Bases::at(&dir).readable().into_iter().filter(is_sibling));
        }
        all.retain_mut(|base| {
            let is_pending = base.pending.is_some();
            !base.is_lost() && (!is_pending || base.harden().map(|hard| *base = hard).is_ok())
        });
        Ok(all)
    }

    /// Returns the base that shows `other` in this form, from this directory, if it exists.
    /// Registers the repository as a user of bases.
    pub fn find_view(&self, wanted: &Wanted<'_>, form: Form) -> Result<Option<Base>, Error> {
        let found = self.load_own(&view_name(wanted, form))?;
        found.iter().for_each(|base| base.note_user(wanted.repo()));
        Ok(found)
    }

    /// Returns the base that shows `other` in this form, and makes it here if it does not exist.
    pub fn view(
        &self,
        wanted: &Wanted<'_>,
        other: &Base,
        form: Form,
        options: &AddOptions<'_>,
    ) -> Result<Base, Error> {
        let _lock = self.lock(options.shared).map_err(|source| self.read_only(wanted, source))?;
        if let Some(base) = self.find_view(wanted, form)? {
            return Ok(base);
        }
        self.register(User::Repository(&wanted.repo().real_common_dir()), options.shared)?;
        // Holds off `gc` of the other directory while the new base is made.
        let other_dir = other.dir.parent().unwrap_or(&other.dir);
        let is_own = by_path::canonical(other_dir).ok() == by_path::canonical(&self.dir).ok();
        let _kept = if is_own { None } else { self.borrow_from(other_dir)? };
        let _held = other.hold()?;
        let name = view_name(wanted, form);
        self.add_staged(&name, wanted, options, |staged| match wanted.kind() {
            Kind::Image => self.image_of(wanted, other, staged, options),
            Kind::Directory => show(wanted, other, form, staged, options),
        })
    }

    fn image_of(
        &self,
        wanted: &Wanted<'_>,
        other: &Base,
        staged: &Path,
        options: &AddOptions<'_>,
    ) -> Result<Made, Error> {
        let index = other.load_whole()?;
        let mut devices = other.all_devices()?;
        for device in &mut devices {
            let inside = device.strip_prefix(&self.dir).map(Path::to_owned);
            let io = |source| Error::Io { action: "examine", path: device.clone(), source };
            *device = match inside {
                Ok(inside) => inside,
                Err(_) => by_path::canonical(device).map_err(io)?,
            };
        }
        let owner = wanted.owner();
        let (index, devices) = image::derive(wanted, other, index, devices, staged, options)?;
        Ok(Made { index, devices, owner: (owner.uid, owner.gid), view: None, pending: None })
    }
}

fn view_name(wanted: &Wanted<'_>, form: Form) -> String {
    match wanted.kind() {
        Kind::Image => wanted.name().to_owned(),
        Kind::Directory => wanted.name_of_view(form.name(), form.owner(wanted)),
    }
}

/// Writes the files and the proof of a directory that shows `other`. Returns their index.
fn show(
    wanted: &Wanted<'_>,
    other: &Base,
    form: Form,
    staged: &Path,
    options: &AddOptions<'_>,
) -> Result<Made, Error> {
    let of = by_path::canonical(&other.files());
    let of = of.map_err(|source| Error::Io { action: "examine", path: other.files(), source })?;
    let owner = form.owner(wanted);
    let mut index = other.load_whole()?;
    let files = staged.join("files");
    let io = |action| {
        let path = files.clone();
        move |source| Error::Io { action, path, source }
    };
    match form {
        Form::StandIns => {
            by_path::create_dir(&files).map_err(io("create"))?;
            make_stand_ins(&mut index, &of, &files, options)?;
        }
        Form::InPlace | Form::Owned { .. } => {
            by_path::symlink(&of, &files).map_err(io("create"))?;
            for entry in index.entries_mut().iter_mut().filter(|entry| entry.stat != Stat::default()) {
                (entry.stat.uid, entry.stat.gid) = owner;
            }
        }
    }
    proof::copy(&other.dir, staged)?;
    Ok(Made { index, devices: Vec::new(), owner, view: Some(View { of, form }), pending: None })
}

/// The attributes by which overlayfs finds the data of a file in another layer.
const METACOPY: &std::ffi::CStr = c"user.overlay.metacopy";
const REDIRECT: &std::ffi::CStr = c"user.overlay.redirect";

fn make_stand_ins(index: &mut Index, of: &Path, files: &Path, options: &AddOptions<'_>) -> Result<(), Error> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Io { action: "open", path, source }
    };
    let (from, to) = (Dir::open(of).map_err(failed(of))?, own::open(files).map_err(failed(files))?);
    let make_file = |at: usize| {
        let (path, mode) = (index.path_at(at), index.mode_at(at));
        let stat = from.stat(path).map_err(|error| ("examine", error))?;
        let stat = stat.ok_or_else(|| ("examine", std::io::ErrorKind::NotFound.into()))?;
        let file = to.create_new(path, mode.is_executable()).map_err(|error| ("create", error))?;
        if stat.size > 0 {
            file.set_len(stat.size).map_err(|error| ("write", error))?;
            let set = |name, value: &[u8]| xattr::set_of(&file, name, value);
            set(METACOPY, b"")
                .and_then(|()| set(REDIRECT, &[b"/", path.as_bytes()].concat()))
                .map_err(|error| ("set the attributes of", error))?;
        }
        // Git hashes a file that is as new as the index.
        let since = Duration::new(u64::try_from(stat.mtime.0).unwrap_or(0), stat.mtime.1);
        file.set_modified(UNIX_EPOCH + since).map_err(|error| ("change", error))
    };
    let populate = Populate { index, from: &from, to: &to, top: files, make_file: &make_file };
    let made = populate.run(sys::cores());
    let stats =
        made.map_err(|failed| Error::Io { action: failed.action, path: failed.path, source: failed.source })?;
    if options.interrupt.load(std::sync::atomic::Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }
    for (entry, stat) in index.entries_mut().iter_mut().zip(stats) {
        entry.stat = stat;
    }
    Ok(())
}

impl Base {
    /// Notes the use of the base, and registers a repository as a user of its directory. A failure
    /// is ignored: in a directory that cannot be written, nothing can be removed either.
    pub fn note_user(&self, repo: &repo::Repository) {
        self.note_use();
        if let Some(dir) = self.dir.parent() {
            let _ = Bases::at(dir).register(User::Repository(&repo.real_common_dir()), Default::default());
        }
    }

    /// Loads the index with its cache-tree.
    fn load_whole(&self) -> Result<Index, Error> {
        let options = store::index::ReadOptions { verify: true, ..store::index::ReadOptions::default() };
        let rest = self.rest_of_index();
        let loaded = store::index::load_over(&rest, &self.shared_index(), self.tree.kind(), &options);
        let mut index = loaded.map_err(|error| Error::Damaged { path: rest, what: error.to_string() })?;
        // It gets a shared half and lists of untracked files of its own.
        index.base = None;
        index.untracked = None;
        Ok(index)
    }
}
