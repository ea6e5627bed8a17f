//! Bundles of a branch, for `git clone --bundle-uri`, made by the real Git.
//!
//! A new bundle continues where the newest one ends. When there are more than `MOST`, the oldest
//! become one. The list is written last: bundles that it does not name yet harm nobody.

use std::{
    io::Read as _,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    process::Stdio,
    time::{SystemTime, UNIX_EPOCH},
};

use bstr::{BStr, ByteSlice as _};
use engine::{base_transfer::records, worktree::admin};
use format::{
    ObjectId,
    base_files::{
        DataFile, Digester, RecordKind, RecordName,
        bundles::{Bundle, BundleList},
    },
};
use repo::{Repository, keys};
use sys::by_path;

use super::{
    Site,
    site::{cannot, own_name},
};
use crate::{BaseError, Error, text};

/// The most bundles of a list.
const MOST: usize = 16;
/// The number of bundles that stay as they are when older ones become one.
const NEWEST: usize = 8;

/// Writes the bundles of `branch`, a name without `refs/heads/`, up to `commit`.
pub(super) fn write(site: Site<'_>, branch: &BStr, commit: ObjectId) -> Result<(), Error> {
    let Site { context, remote, .. } = site;
    let repo = context.repo;
    if repo.is_shallow_clone() || is_partial(repo)? {
        return Err(BaseError::BundlesOfPart.into());
    }
    let id = records::branch_name(branch).id().to_owned();
    let name = RecordName::new(RecordKind::Bundles, id).map_err(engine::base_transfer::Error::from)?;
    let branch = text!("refs/heads/", branch);
    let old = remote.record(&name)?;
    let list = old.map(|bytes| BundleList::parse(&bytes, repo.hash()));
    // A list that is not ours to continue, or continues from a commit that is gone, begins again.
    let mut list = list.and_then(Result::ok).unwrap_or_default();
    if !list.bundles.iter().all(|bundle| repo.objects().contains(&bundle.tip)) {
        list.bundles.clear();
    }
    let last = list.bundles.last().copied();
    if last.is_some_and(|last| last.tip == commit) {
        return Ok(());
    }
    let maker = BundleRepository::new(site, branch.as_bstr())?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let token = last.map_or(now, |last| now.max(last.token + 1));
    match maker.bundle(last.map(|last| last.tip), commit)? {
        Some(file) => list.bundles.push(Bundle { token, tip: commit, file }),
        // The branch went back: all that it has is in the bundles.
        None => return Ok(()),
    }
    if list.bundles.len() > MOST {
        let newest = list.bundles.split_off(list.bundles.len() - NEWEST);
        if let Some(until) = list.bundles.last().copied()
            && let Some(file) = maker.bundle(None, until.tip)?
        {
            list.bundles = vec![Bundle { file, ..until }];
        }
        list.bundles.extend(newest);
    }
    let files: Vec<DataFile> = list.bundles.iter().map(|bundle| bundle.file).collect();
    Ok(remote.set_record(&name, &list.to_bytes(), &files)?)
}

/// Returns true if a promisor remote may hold objects that are missing here.
fn is_partial(repo: &Repository) -> Result<bool, Error> {
    for remote in repo.remotes() {
        if repo.config(&keys::remote::PROMISOR.of(remote))? {
            return Ok(true);
        }
    }
    Ok(repo.extensions().partial_clone.is_some())
}

/// A bare repository that borrows the objects of the user's and has one branch, because a bundle
/// names refs. It goes away with this value.
struct BundleRepository<'a> {
    site: Site<'a>,
    branch: &'a BStr,
    dir: PathBuf,
}

impl<'a> BundleRepository<'a> {
    fn new(site: Site<'a>, branch: &'a BStr) -> Result<BundleRepository<'a>, Error> {
        let above = site.context.repo.real_common_dir().join("sapwood");
        let shared = site.context.settings.locks.shared;
        shared.create_dir_all(&above).map_err(cannot("create", &above))?;
        let dir = above.join(own_name("bundle"));
        let _ = by_path::remove_dir_all(&dir);
        shared.create_dir(&dir).map_err(cannot("create", &dir))?;
        let maker = BundleRepository { site, branch, dir };
        let format = format!("--object-format={}", site.context.repo.hash().name());
        maker.git(&["init", "-q", "--bare", "--template=", &format])?;
        let objects = by_path::realpath_forgiving(site.context.repo.objects_dir());
        let line = [objects.as_os_str().as_bytes(), b"\n"].concat();
        admin::write(&maker.dir.join("objects/info/alternates"), &line)?;
        Ok(maker)
    }

    /// Makes the bundle of `tip` without the history of `after`, and writes it to the remote.
    /// Returns `None` if there is nothing in it.
    fn bundle(&self, after: Option<ObjectId>, tip: ObjectId) -> Result<Option<DataFile>, Error> {
        let not: Vec<ObjectId> = after.into_iter().collect();
        if self.site.context.repo.commits_only_in(&[tip], &not)?.is_empty() {
            return Ok(None);
        }
        let branch = self.branch.to_str_lossy();
        self.git(&["update-ref", &branch, &tip.to_string()])?;
        let excluded = after.map(|after| format!("^{after}"));
        let mut args = vec!["bundle", "create", "-q", "made.bundle"];
        args.extend(excluded.as_deref());
        args.push(&branch);
        self.git(&args)?;
        self.site.context.check_interrupt()?;
        let path = self.dir.join("made.bundle");
        let file = self.digest(&path)?;
        self.site.remote.write(&file.digest, &path)?;
        Ok(Some(file))
    }

    fn digest(&self, path: &Path) -> Result<DataFile, Error> {
        let (mut digester, mut size, mut room) = (Digester::default(), 0, vec![0; 1 << 16]);
        let mut read = || {
            let mut file = by_path::open(path)?;
            loop {
                sys::interrupt::check()?;
                match file.read(&mut room)? {
                    0 => return Ok(()),
                    len => (size += len as u64, digester.update(&room[..len])),
                };
            }
        };
        let read: std::io::Result<()> = read();
        read.map_err(cannot("read", path))?;
        Ok(DataFile { digest: digester.finish(), size })
    }

    fn git(&self, args: &[&str]) -> Result<(), Error> {
        let events = self.site.context.events;
        let mut git = events.git().ok_or(BaseError::NoGit)?;
        for name in ["GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"] {
            git.env_remove(name);
        }
        git.env("GIT_DIR", &self.dir).current_dir(&self.dir).args(args);
        events.before_program();
        let said = git.stdin(Stdio::null()).output();
        let said = said.map_err(|error| Error::failed(format!("cannot run git: {}", sys::reason(&error))))?;
        self.site.context.check_interrupt()?;
        if said.status.success() {
            Ok(())
        } else {
            Err(BaseError::Git { command: args[0].to_owned(), said: said.stderr.trim().into() }.into())
        }
    }
}

impl Drop for BundleRepository<'_> {
    fn drop(&mut self) {
        let _ = by_path::remove_dir_all(&self.dir);
    }
}
