//! The skeleton of a clone from its options, and the new repository.

use std::{
    io,
    path::{Path, PathBuf},
};

use bstr::ByteSlice;
use repo::{Repository, keys};
use sys::{Refused, UserPath, by_path};

use super::{
    Caller, Error, Event, Prepared, Source,
    error::io_error,
    junk::{Existed, Junk},
    logical_directory,
    marker::Claim,
    refs,
    skeleton::{self, Notice},
};
use crate::look::shared;

/// The new repository. It opens, and has neither objects nor refs.
pub(super) struct Skeleton<'a> {
    pub(super) prepared: &'a Prepared,
    pub(super) caller: &'a Caller<'a>,
    pub(super) repo: Repository,
    /// The lock of its marker.
    pub(super) claim: Option<Claim>,
    /// The lock of an interrupted transfer, whose packs are set aside.
    pub(super) transfer: Option<Claim>,
    pub(super) writing: Writing,
}

/// How files in the new Git directory are written.
#[derive(Clone, Copy)]
pub(super) struct Writing {
    /// The permissions of directories, alternates and copies, which are created before `--config`
    /// takes effect.
    pub(super) early_shared: store::SharedRepository,
    /// The permissions of other files.
    pub(super) shared: store::SharedRepository,
    pub(super) fsync: store::Fsync,
}

impl Writing {
    pub(super) fn locks(&self) -> store::LockOptions {
        store::LockOptions { shared: self.shared, ..store::LockOptions::default() }
    }
}

impl<'a> Skeleton<'a> {
    /// Makes the new repository, around the packs of `transfer` if there was one. `junk` removes it
    /// after a failure.
    pub(super) fn make(
        prepared: &'a Prepared,
        transfer: Option<Claim>,
        junk: &mut Junk,
        caller: &'a Caller<'a>,
    ) -> Result<Skeleton<'a>, Error> {
        let destination = &prepared.destination;
        let outer = repo::StandaloneConfig::load(&prepared.options.open)?;
        // A resumed transfer stays until the connection stands, whatever fails before.
        if transfer.is_none() {
            destination.make(&outer, junk)?;
        }
        prepared.say_begin(caller);
        prepared.check_formats(caller.events)?;
        let existed = if transfer.is_some() { Existed::Yes } else { destination.git_dir_existed() };
        let made = prepared.make_skeleton(
            existed,
            shared::of(outer.config_value(&keys::core::SHARED_REPOSITORY))?,
            junk,
            caller.events,
        )?;
        let repo = prepared.open_new()?;
        let shared = shared::of(repo.config_value(&keys::core::SHARED_REPOSITORY))?;
        let fsync = refs::sync_policy(&repo, caller.events)?;
        caller.check_interrupt()?;
        let writing = Writing { early_shared: made.shared, shared, fsync };
        Ok(Skeleton { prepared, caller, repo, claim: made.claim, transfer, writing })
    }

    pub(super) fn git_dir(&self) -> &'a Path {
        &self.prepared.destination.git_dir
    }
}

impl Prepared {
    pub(super) fn say_begin(&self, caller: &Caller<'_>) {
        let directory = self.destination.directory.as_bstr();
        (caller.events)(Event::Begin { directory, bare: self.options.bare });
    }

    /// Makes the skeleton. `existed` is the state of the Git directory.
    fn make_skeleton(
        &self,
        existed: Existed,
        shared: store::SharedRepository,
        junk: &mut Junk,
        events: &dyn Fn(Event<'_>),
    ) -> Result<skeleton::Made, Error> {
        let template = self.template()?;
        let given = self.template_as_given()?.map(|path| PathBuf::from(path.as_os_str())).unwrap_or_default();
        let destination = &self.destination;
        let voice = self.options.open.message_sink;
        let wanted = skeleton::Wanted {
            git_dir: &destination.git_dir,
            existed,
            work_tree: destination.work_tree.as_deref(),
            name_work_tree: destination.names_work_tree(),
            template: template.as_deref().map(|dir| skeleton::Template { dir, given: &given, voice }),
            config: &self.parameters()?,
            open: &self.options.open,
            purpose: skeleton::Purpose::Clone { url: self.source.url.as_bstr(), extent: self.extent() },
            fsync: &store::Fsync::default(),
            shared,
        };
        let assembly = wanted.assembly();
        let placed = |error: skeleton::Error| error.placed(&assembly, &destination.git_dir);
        skeleton::begin(&assembly).map_err(placed)?;
        junk.add(&assembly, Existed::No);
        let made = skeleton::create(&wanted, &assembly).map_err(placed)?;
        for notice in &made.notices {
            events(match notice {
                Notice::Warning(text) => Event::Warning(text),
                Notice::Error(text) => Event::Error(text),
            });
        }
        if let Some(link) = destination.git_file() {
            let target = by_path::canonical(&self.destination.git_dir).map_err(io_error("write", &link))?;
            let target = target.as_os_str().as_encoded_bytes();
            let mut file = by_path::create_new(&link, 0o666).map_err(io_error("write", &link))?;
            io::Write::write_all(&mut file, &[b"gitdir: ", target, b"\n"].concat())
                .map_err(io_error("write", &link))?;
        }
        Ok(made)
    }

    /// Returns the template directory: `--template`, `GIT_TEMPLATE_DIR`, `init.templateDir`, or
    /// Git's own. An empty value means none.
    pub fn template(&self) -> Result<Option<PathBuf>, Error> {
        let Some(given) = self.template_as_given()? else { return Ok(None) };
        Ok(match given.resolve(&self.options.open.cwd) {
            Ok(path) => Some(path),
            Err(Refused::Empty) => None,
            // No directory can have this path, so the copy reports that it is missing.
            Err(Refused::TooLong) => Some(PathBuf::from(given.as_os_str())),
        })
    }

    /// Returns the template directory as the user gave it.
    fn template_as_given(&self) -> Result<Option<UserPath>, Error> {
        let given = match &self.options.template {
            Some(path) => Some(UserPath::new(path)),
            None => self.options.open.env.clone().path("GIT_TEMPLATE_DIR"),
        };
        let path = match given {
            Some(path) => Some(path),
            None => {
                repo::StandaloneConfig::load(&self.options.open)?.config_path(&keys::init::TEMPLATE_DIR)?
            }
        };
        let path = path.or_else(|| self.options.default_template.clone().map(UserPath::from));
        Ok(path.filter(|path| !path.as_bytes().is_empty()))
    }

    /// Returns the source after `url.<base>.insteadOf`.
    pub(super) fn rewritten(&self, repo: &Repository) -> Result<Source, Error> {
        let address = repo::wire::Client::of(repo).url(self.source.url.as_bstr());
        Ok(self.source.instead(address.text.as_bstr(), &logical_directory(&self.options.open))?)
    }

    /// Opens the new repository, with `--config` and the template's configuration in effect.
    pub(super) fn open_new(&self) -> Result<Repository, Error> {
        Ok(Repository::open(&repo::OpenOptions { is_being_created: true, ..self.to_open() })?)
    }

    pub(super) fn to_open(&self) -> repo::OpenOptions {
        repo::OpenOptions {
            git_dir: Some(self.destination.git_dir.clone()),
            work_tree: self.destination.work_tree.clone(),
            is_created_by_command: true,
            ..self.options.open.clone()
        }
    }
}
