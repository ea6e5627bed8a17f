//! The repository of a volume on this node. All volumes with one address and one owner share it,
//! and the bases in it, but for those whose history is cut: they have another one.
//!
//! `git` is a bare repository that belongs to the owner of the volumes. `refs/sapwood/commits/ID`
//! is written when everything of that commit is here: a pull of a base that was killed leaves a
//! commit without all of its files. With a depth it is `refs/sapwood/depth-N/ID`.

use std::{
    io,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use sys::by_path;

use crate::{Error, Secrets, Volume, Volumes, child::Child, volume};

/// How long a server's consent to credentials counts.
const CONSENT: Duration = Duration::from_secs(60 * 60);

/// The repository of a volume.
pub(crate) struct Repository<'a> {
    volumes: &'a Volumes,
    volume: &'a Volume,
    /// The file that child processes lock.
    lock: PathBuf,
    /// The directory that holds everything of it.
    pub(crate) dir: PathBuf,
}

impl<'a> Repository<'a> {
    /// Returns the repository of a volume. It may not exist yet.
    pub(crate) fn of(volumes: &'a Volumes, volume: &'a Volume) -> Repository<'a> {
        let (lock, dir) = (volumes.state.children(), volumes.state.repository(volume));
        Repository { volumes, volume, lock, dir }
    }

    /// Returns the bare repository.
    pub(crate) fn git_dir(&self) -> PathBuf {
        self.dir.join("git")
    }

    fn home(&self) -> PathBuf {
        self.dir.join("home")
    }

    /// Returns true if the state of a workspace is here, complete or not.
    pub(crate) fn has_workspace(&self, name: &str) -> bool {
        let state = self.git_dir().join("sapwood/workspaces").join(name);
        matches!(by_path::stat(&state), Ok(Some(_)))
    }

    /// Runs a command of `sapwood` in the repository, without secrets.
    pub(crate) fn sapwood(&self, action: &str, args: &[&str]) -> Result<String, Error> {
        let home = self.home();
        let child = self.child(&home, self.volumes.no_secrets(), &[]);
        let git_dir = self.git_dir();
        let git_dir = git_dir.to_str().expect("the state directory has a plain name");
        child.sapwood(action, &[&["-C", git_dir], args].concat())
    }

    /// Brings the commit of the volume here, and returns its id. `known` is the id that an earlier
    /// attempt found: a branch may have moved since. One process at a time works on a repository.
    pub(crate) fn prepare(&self, known: Option<&str>, secrets: &Secrets) -> Result<String, Error> {
        let lock = self.volumes.lock_of(&self.dir);
        let _held = lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        self.make()?;
        let opened = secrets.open(&self.volumes.settings.run, self.volume)?;
        let environment = opened.environment();
        let home = self.home();
        let child = self.child(&home, opened.secrets(), &environment);
        let commit = self.consent(&child, known)?;
        if !self.is_complete(&commit) {
            self.bring(&child, &commit)?;
            let name = self.complete(&commit);
            self.git(&child, "record the commit", &["update-ref", &name, &commit])?;
        }
        self.touch();
        Ok(commit)
    }

    /// Makes the address of the repository the `origin` of a new workspace.
    pub(crate) fn set_origin(&self, workspace: &str) -> Result<(), Error> {
        let home = self.home();
        let child = self.child(&home, self.volumes.no_secrets(), &[]);
        // The directory that the workspace shows as `.git`, if it has mounts.
        let state = self.git_dir().join("sapwood/workspaces").join(workspace);
        let mut file = state.join("git/config");
        if !matches!(by_path::stat(&file), Ok(Some(_))) {
            file = self.volumes.state.workspace(workspace).join(".git/config");
        }
        let file = file.to_str().expect("the state directory has a plain name");
        let args = ["config", "--file", file, "--replace-all", "remote.origin.url", &self.volume.repository];
        child.git("name the origin", &args).map(drop)
    }

    /// Notes that the repository is in use.
    pub(crate) fn touch(&self) {
        let _ = by_path::touch(&self.dir);
    }

    /// Makes the directory and the empty bare repository. After a kill it begins again, because
    /// nothing is in a repository without the mark at the end.
    fn make(&self) -> Result<(), Error> {
        let made = self.dir.join("made");
        if matches!(by_path::stat(&made), Ok(Some(_))) {
            return Ok(());
        }
        let git_dir = self.git_dir();
        for dir in [&self.dir, &self.home()] {
            match by_path::create_private_dir(dir) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(Error::io("make the directory", dir)(error));
                }
                _ => {}
            }
            let give = chown(dir, Some(self.volume.uid), Some(self.volume.gid));
            give.map_err(Error::io("give away", dir))?;
        }
        match by_path::remove_dir_all(&git_dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("remove", &git_dir)(error));
            }
            _ => {}
        }
        let home = self.home();
        let child = self.child(&home, self.volumes.no_secrets(), &[]);
        let git_dir = git_dir.to_str().expect("the state directory has a plain name");
        let action = "make a repository";
        child.git(action, &["init", "--quiet", "--bare", "--initial-branch=main", git_dir])?;
        let settings = [
            ("remote.origin.url", self.volume.repository.as_str()),
            ("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"),
            // Maintenance would run beside the service, and outlive it.
            ("maintenance.auto", "false"),
            ("gc.auto", "0"),
        ];
        for (key, value) in settings {
            self.git(&child, action, &["config", key, value])?;
        }
        let mark = || sys::sync_file(by_path::create_new(&made, 0o600)?);
        mark().map_err(Error::io("write", &made))
    }

    /// Asks the server whether it gives the repository to these credentials, unless it did so in
    /// the last hour. So a pod reads nothing that another pod's credentials brought. Returns the
    /// id of the commit.
    fn consent(&self, child: &Child<'_>, known: Option<&str>) -> Result<String, Error> {
        let commit = match known {
            Some(commit) => Some(commit.to_owned()),
            None => self.volume.names_an_id().then(|| self.volume.commit.clone()),
        };
        let key = format!("{} {}", self.dir.display(), child.secrets.digest());
        if let Some(commit) = &commit
            && self.volumes.consents().get(&key).is_some_and(|since| since.elapsed() < CONSENT)
        {
            return Ok(commit.clone());
        }
        let name = &self.volume.commit;
        let patterns = if commit.is_some() {
            vec!["HEAD".to_owned()]
        } else {
            vec![format!("refs/heads/{name}"), format!("refs/tags/{name}"), format!("refs/tags/{name}^{{}}")]
        };
        let mut args = vec!["ls-remote".to_owned(), "--quiet".to_owned(), self.volume.repository.clone()];
        args.extend(patterns);
        let ended = child.run(&self.volumes.settings.git, &args)?;
        let repository = self.volume.repository.clone();
        if !ended.is_success {
            return Err(Error::Unreadable { repository, reason: ended.said });
        }
        let mut consents = self.volumes.consents();
        consents.retain(|_, since| since.elapsed() < CONSENT);
        consents.insert(key, Instant::now());
        drop(consents);
        if let Some(commit) = commit {
            return Ok(commit);
        }
        let refs: Vec<(&str, &str)> = ended.stdout.lines().filter_map(|line| line.split_once('\t')).collect();
        // A branch comes before a tag; of a tag object, the commit.
        let wanted =
            [format!("refs/heads/{name}"), format!("refs/tags/{name}^{{}}"), format!("refs/tags/{name}")];
        let find = |wanted: &String| refs.iter().find(|(_, name)| name == wanted).map(|(id, _)| *id);
        match wanted.iter().find_map(find).filter(|id| volume::is_id(id)) {
            Some(id) => Ok(id.to_owned()),
            None => Err(Error::NoCommit { repository, commit: name.clone() }),
        }
    }

    /// Returns true if everything of a commit is here.
    fn is_complete(&self, commit: &str) -> bool {
        let home = self.home();
        let child = self.child(&home, self.volumes.no_secrets(), &[]);
        let name = self.complete(commit);
        self.git(&child, "look for the commit", &["rev-parse", "--verify", "--quiet", &name]).is_ok()
    }

    /// Brings a commit: from the remote of bases if the volume names one, else from the server.
    fn bring(&self, child: &Child<'_>, commit: &str) -> Result<(), Error> {
        let git_dir = self.git_dir();
        let git_dir = git_dir.to_str().expect("the state directory has a plain name");
        if let Some(base) = &self.volume.base {
            let pulled =
                child.sapwood("pull the base", &["-C", git_dir, "base", "pull", "--quiet", base, commit]);
            match pulled {
                Ok(_) => return Ok(()),
                Err(error) => self.volumes.log(&format!("{error}; the server is asked")),
            }
        }
        let action = "fetch the repository";
        let fetch = ["-C", git_dir, "fetch", "--quiet", "--no-write-fetch-head", "--no-auto-maintenance"];
        if let Some(depth) = self.volume.depth {
            let depth = depth.to_string();
            let wanted = ["--no-tags", "--depth", &depth, "origin", commit];
            child.sapwood(action, &[&fetch[..], &wanted].concat())?;
        } else {
            child.sapwood(action, &[&fetch[..], &["--tags", "origin"]].concat())?;
        }
        let object = format!("{commit}^{{commit}}");
        let has = || self.git(child, "look for the commit", &["cat-file", "-e", &object]).is_ok();
        if has() {
            return Ok(());
        }
        // No branch has it, but a server may give it all the same.
        let _ = child.sapwood(action, &[&fetch[..], &["--no-tags", "origin", commit]].concat());
        if has() {
            return Ok(());
        }
        let repository = self.volume.repository.clone();
        Err(Error::NoCommit { repository, commit: self.volume.commit.clone() })
    }

    /// Returns the ref that exists while everything of a commit is here. It also keeps the commit
    /// from `git gc`, and makes it no unsaved work of a workspace.
    fn complete(&self, commit: &str) -> String {
        match self.volume.depth {
            Some(depth) => format!("refs/sapwood/depth-{depth}/{commit}"),
            None => format!("refs/sapwood/commits/{commit}"),
        }
    }

    fn git(&self, child: &Child<'_>, action: &str, args: &[&str]) -> Result<String, Error> {
        let git_dir = self.git_dir();
        let git_dir = git_dir.to_str().expect("the state directory has a plain name");
        child.git(action, &[&["-C", git_dir], args].concat())
    }

    fn child<'b>(
        &'b self,
        home: &'b Path,
        secrets: &'b Secrets,
        environment: &'b [(String, String)],
    ) -> Child<'b> {
        let (settings, lock) = (&self.volumes.settings, self.lock.as_path());
        Child { settings, volume: self.volume, home, secrets, lock, environment }
    }
}
