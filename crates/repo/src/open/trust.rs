//! Checks whose files a command is about to use: `safe.directory` for everything that is no
//! repository.
//!
//! A base directory, the record of a workspace and an upper layer decide which bytes a command
//! mounts, executes or removes. So they must belong to a user who could do the same anyway:
//!
//! - the caller, and root;
//! - for root, the user who called `sudo` (`SUDO_UID`);
//! - the owner of the repository, which was checked when it was opened. Its hooks run.
//!
//! Any other owner must be declared by `safe.directory`, which only the system, the user and the
//! command line can set.

use std::{
    ffi::OsString,
    os::unix::ffi::OsStrExt as _,
    path::{Component, Path, PathBuf},
    sync::OnceLock,
};

use sys::{FileType, Stat, by_path};

use super::Finder;
use crate::{Attempt, DiscoveryError, Env, Error, OpenOptions, error::Foreign};

/// The users whose files a command may use.
#[derive(Debug)]
pub struct Trust {
    options: OpenOptions,
    env: Env,
    /// The common directory of the repository, without links.
    common: PathBuf,
    owners: Vec<u32>,
    groups: OnceLock<Vec<u32>>,
    unmapped: OnceLock<Option<u32>>,
}

/// The place of a directory in the path that is checked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Above,
    Last,
}

impl Trust {
    /// Returns the users whom a command trusts that has opened the repository with the common
    /// directory `common`.
    pub fn of(options: OpenOptions, common: &Path) -> Trust {
        let env = options.env.clone();
        let user = sys::user::effective_uid();
        let worktree = common.parent().filter(|_| common.ends_with(".git"));
        let of_repository = [Some(common), worktree]
            .into_iter()
            .flatten()
            .filter_map(|dir| by_path::stat_followed(dir).ok().flatten().map(|stat| stat.uid));
        let sudo = super::safety::sudo_id(&env, "SUDO_UID").filter(|_| user == 0);
        let owners = [user, 0].into_iter().chain(sudo).chain(of_repository).collect();
        Trust {
            options,
            env,
            common: common.to_owned(),
            owners,
            groups: OnceLock::new(),
            unmapped: OnceLock::new(),
        }
    }

    /// Refuses a file or directory of another user, and a link that another user made. A missing
    /// one passes. The directories above are not examined: they belong to the repository.
    pub fn check_file(&self, path: &Path) -> Result<(), Error> {
        for stat in [by_path::stat(path), by_path::stat_followed(path)] {
            let Some(stat) = stat.map_err(Attempt::Stat.on(path))? else { return Ok(()) };
            if !self.is_owner(stat.uid) && !self.is_declared(&self.common)? {
                let foreign = Foreign::Owner(stat.uid);
                return Err(refused(path, path, foreign, &self.common));
            }
        }
        Ok(())
    }

    /// Refuses a directory that another user could change, or exchange for another one: each
    /// directory and each link on the way must belong to a trusted user, and nobody else may write
    /// there. Missing ones pass. A directory in the repository is as safe as the repository.
    pub fn check_dir(&self, dir: &Path) -> Result<(), Error> {
        if self.is_in_repository(dir) {
            return Ok(());
        }
        let found = self.foreign_part(dir, |stat, place| self.foreign_to_write(stat, place))?;
        self.refuse_undeclared(dir, found)
    }

    /// Like [`Trust::check_dir`] for a directory in which the command makes a new one. Everybody
    /// may write there if it is sticky.
    pub fn check_dir_above(&self, dir: &Path) -> Result<(), Error> {
        if self.is_in_repository(dir) {
            return Ok(());
        }
        let found = self.foreign_part(dir, |stat, _| self.foreign_to_write(stat, Place::Above))?;
        self.refuse_undeclared(dir, found)
    }

    fn is_in_repository(&self, dir: &Path) -> bool {
        let is_plain = !dir.components().any(|part| part == Component::ParentDir);
        is_plain && dir.starts_with(&self.common)
    }

    /// Refuses a mount point that another user made, or to which a link of another user leads. A
    /// missing one passes. Another user may own a directory above it, as for Git's worktrees.
    pub fn check_mount_point(&self, dir: &Path) -> Result<(), Error> {
        let found = self.foreign_part(dir, |stat, place| {
            let is_foreign = place == Place::Last && !self.is_owner(stat.uid);
            is_foreign.then_some(Foreign::Owner(stat.uid))
        })?;
        self.refuse_undeclared(dir, found)
    }

    fn refuse_undeclared(&self, dir: &Path, found: Option<(PathBuf, Foreign)>) -> Result<(), Error> {
        let Some((part, foreign)) = found else { return Ok(()) };
        let real = by_path::realpath_forgiving(dir);
        if self.is_declared(&real)? { Ok(()) } else { Err(refused(dir, &part, foreign, &real)) }
    }

    /// Walks to `dir` as the kernel does. Returns the first part that `judge` calls foreign, and
    /// the first link of another user.
    fn foreign_part(
        &self,
        dir: &Path,
        judge: impl Fn(&Stat, Place) -> Option<Foreign>,
    ) -> Result<Option<(PathBuf, Foreign)>, Error> {
        /// The kernel's limit.
        const MAX_LINKS: usize = 40;
        let names = |path: &Path| -> Vec<OsString> {
            path.components().rev().map(|part| part.as_os_str().to_owned()).collect()
        };
        let mut left = names(&self.options.cwd.join(dir));
        let (mut at, mut links) = (PathBuf::new(), 0);
        while let Some(name) = left.pop() {
            match name.as_bytes() {
                b"." => continue,
                b".." => {
                    at.pop();
                    continue;
                }
                _ => {}
            }
            let path = at.join(&name);
            let stat = match by_path::stat(&path) {
                // A mount whose program or server has died. Nobody can use what is below it.
                Err(error) if sys::is_disconnected(&error) => return Ok(None),
                stat => stat.map_err(Attempt::Stat.on(&path))?,
            };
            let Some(stat) = stat else { return Ok(None) };
            if stat.file_type == FileType::Symlink {
                links += 1;
                if !self.is_owner(stat.uid) {
                    return Ok(Some((path, Foreign::Link(stat.uid))));
                }
                let Some(target) = by_path::read_link(&path).map_err(Attempt::Resolve.on(&path))? else {
                    return Ok(None);
                };
                if links > MAX_LINKS {
                    let error = std::io::Error::other("too many levels of symbolic links");
                    return Err(Attempt::Resolve.on(&path)(error));
                }
                left.extend(names(&target));
                continue;
            }
            let place = if left.is_empty() { Place::Last } else { Place::Above };
            if let Some(foreign) = judge(&stat, place) {
                return Ok(Some((path, foreign)));
            }
            at = path;
        }
        Ok(None)
    }

    /// Judges a directory whose entries nobody else may change. In a sticky directory nobody can
    /// exchange an entry of another user, but anybody can add one.
    fn foreign_to_write(&self, stat: &Stat, place: Place) -> Option<Foreign> {
        const STICKY: u32 = 0o1000;
        const OTHERS: u32 = 0o002;
        const GROUP: u32 = 0o020;
        if !self.is_owner(stat.uid) {
            return Some(Foreign::Owner(stat.uid));
        }
        if place == Place::Above && stat.mode & STICKY != 0 {
            return None;
        }
        // The users of a group to which the caller belongs are a team. An ordinary user decides
        // for the user's own directories.
        let user = sys::user::effective_uid();
        let by_group = stat.mode & GROUP != 0 && !self.is_group(stat.gid) && (user == 0 || stat.uid != user);
        (stat.mode & OTHERS != 0 || by_group).then_some(Foreign::Writable)
    }

    fn is_owner(&self, id: u32) -> bool {
        // In a user namespace that maps only some ids, the others look all alike, and root's may be
        // among them.
        self.owners.contains(&id) || *self.unmapped.get_or_init(sys::user::unmapped_id) == Some(id)
    }

    fn is_group(&self, id: u32) -> bool {
        let groups = self.groups.get_or_init(|| {
            let sudo = super::safety::sudo_id(&self.env, "SUDO_GID");
            sys::user::groups().into_iter().chain(sudo.filter(|_| sys::user::effective_uid() == 0)).collect()
        });
        groups.contains(&id)
    }

    fn is_declared(&self, path: &Path) -> Result<bool, Error> {
        let finder = Finder::new(&self.options, &self.env, self.options.cwd.clone());
        if finder.is_declared_safe(path)? {
            return Ok(true);
        }
        // `safe.directory` names a repository by its worktree.
        match path.parent().filter(|_| path.ends_with(".git")) {
            Some(worktree) => finder.is_declared_safe(worktree),
            None => Ok(false),
        }
    }
}

fn refused(dir: &Path, part: &Path, foreign: Foreign, declared: &Path) -> Error {
    DiscoveryError::Foreign {
        dir: dir.to_owned(),
        part: part.to_owned(),
        foreign,
        declared: declared.to_owned(),
    }
    .into()
}
