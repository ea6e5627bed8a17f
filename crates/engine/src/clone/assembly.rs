//! The skeleton of a clone from its options, and the new repository.

use std::{io, path::PathBuf};

use bstr::ByteSlice;
use repo::{Env, Repository};
use sys::{Refused, UserPath, by_path};

use super::{
    Error, Event, Prepared, Source,
    junk::{Existed, Junk},
    logical_directory,
    skeleton::{self, Notice},
};

impl Prepared {
    /// Makes the skeleton. `existed` is the state of the Git directory.
    pub(super) fn make_skeleton(
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
        junk.add(&assembly, Existed::No);
        let made = skeleton::create(&wanted, &assembly)
            .map_err(|error| error.placed(&assembly, &destination.git_dir))?;
        for notice in &made.notices {
            match notice {
                Notice::NoTemplates(path) => {
                    events(Event::Warning(&format!("templates not found in {}", path.display())));
                }
                Notice::RefusedTemplates(path, why) => {
                    let message = format!("not copying templates from '{}': {why}", path.display());
                    events(Event::Warning(&message));
                }
                Notice::IgnoredTemplate(path) => {
                    events(Event::Error(&format!("ignoring template {}", path.display())));
                }
            }
        }
        if let Some(link) = destination.git_file() {
            let failed = |source| Error::Io { what: "write", path: link.clone(), source };
            let target = by_path::canonical(&self.destination.git_dir).map_err(failed)?;
            let target = std::os::unix::ffi::OsStrExt::as_bytes(target.as_os_str());
            let mut file = by_path::create_new(&link, 0o666).map_err(failed)?;
            io::Write::write_all(&mut file, &[b"gitdir: ", target, b"\n"].concat()).map_err(failed)?;
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
            None => Env::from(self.options.open.env.clone()).path("GIT_TEMPLATE_DIR"),
        };
        let path = match given {
            Some(path) => Some(path),
            None => repo::StandaloneConfig::load(&self.options.open)?.config_path("init.templateDir")?,
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
    pub(super) fn open(&self, is_being_created: bool) -> Result<repo::Repository, Error> {
        let options = repo::OpenOptions {
            git_dir: Some(self.destination.git_dir.clone()),
            work_tree: self.destination.work_tree.clone(),
            is_created_by_command: true,
            is_being_created,
            ..self.options.open.clone()
        };
        Ok(repo::Repository::open(&options)?)
    }
}
