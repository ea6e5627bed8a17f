//! A clean checkout of the user as a base, where it lies: on a network disk, for example. Nothing
//! of it is copied or changed.
//!
//! The base's `files` is a symbolic link to the checkout. Before the base is published, the content
//! of each file is compared with the tree. Afterwards the user must leave the checkout as it is.

use std::path::Path;

use sys::{Dir, FileType, by_path};

use super::{
    Base, Bases, Error, Kind, Wanted,
    add::{AddOptions, Made, owner_of_files, remove_tree},
    stored::STAGED,
    tree,
    users::User,
};
use crate::look::{protect, stat::index_stat};

impl Base {
    /// Returns true if the files are a checkout of the user.
    pub fn is_elsewhere(&self) -> bool {
        let stat = by_path::stat(&self.files()).ok().flatten();
        self.view.is_none() && stat.is_some_and(|stat| stat.file_type == FileType::Symlink)
    }
}

impl Bases {
    /// Adds the checkout at the absolute path `dir` as the base for `wanted`, of kind directory.
    /// The caller has checked that it contains no untracked files. Returns the base that exists, if
    /// there is one.
    pub fn add_from(&self, wanted: &Wanted<'_>, dir: &Path, options: &AddOptions<'_>) -> Result<Base, Error> {
        let _lock = self.lock(options.shared).map_err(|source| self.read_only(wanted, source))?;
        if let Some(base) = self.find(wanted)? {
            return Ok(base);
        }
        self.register(User::Repository(&wanted.repo().real_common_dir()), options.shared)?;
        self.remove_staged();
        let staged = self.dir.join(format!("{STAGED}{}", wanted.name()));
        let io = |action, path: &Path| {
            let path = path.to_owned();
            move |source| Error::Io { action, path, source }
        };
        options.shared.create_dir(&staged).map_err(io("create", &staged))?;
        let added = self.link_and_publish(wanted, dir, &staged, options);
        if added.is_err() {
            let _ = remove_tree(&staged);
        }
        added?;
        let missing = || Error::Missing { dir: self.dir.clone(), name: wanted.name().to_owned() };
        self.load(wanted.name())?.ok_or_else(missing)
    }

    fn link_and_publish(
        &self,
        wanted: &Wanted<'_>,
        dir: &Path,
        staged: &Path,
        options: &AddOptions<'_>,
    ) -> Result<(), Error> {
        let files = staged.join("files");
        by_path::symlink(dir, &files).map_err(|source| Error::Io {
            action: "create",
            path: files,
            source,
        })?;
        let repo = wanted.repo();
        let mut index = tree::index_of(repo.objects(), wanted.tree(), protect(repo)?)?;
        let root =
            Dir::open(dir).map_err(|source| Error::Io { action: "open", path: dir.to_owned(), source })?;
        for at in 0..index.len() {
            let path = index.path_at(at).to_owned();
            let stat = root.stat(&path);
            let stat = stat.map_err(|source| Error::Io {
                action: "examine",
                path: dir.join(sys::os_str(&path)),
                source,
            })?;
            if let Some(stat) = stat {
                index.entries_mut()[at].stat = index_stat(&stat);
            }
        }
        let (name, owner) = (wanted.name(), owner_of_files(staged)?);
        let made = Made { index, devices: Vec::new(), owner, view: None, pending: None };
        let shared_index = self.describe(name, wanted, staged, made, options.fsync)?;
        let base = Base {
            dir: staged.to_owned(),
            name: name.to_owned(),
            kind: Kind::Directory,
            tree: wanted.tree(),
            shared_index,
            devices: Vec::new(),
            contents: None,
            owner: Some(owner),
            view: None,
            pending: None,
            parent: None,
        };
        if let Some(flaw) = base.verify(Some(repo), sys::cores())?.flaws.first() {
            let (tree, path) = (wanted.tree(), &flaw.path);
            let message = format!("'{}' is no checkout of {tree}: '{path}': {}", dir.display(), flaw.what);
            return Err(Error::Step { message });
        }
        self.publish(name, staged, options.fsync)
    }
}
