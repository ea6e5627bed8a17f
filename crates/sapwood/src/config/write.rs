//! Changes one file under its lock.

use bstr::{BStr, BString, ByteSlice as _};
use format::config::{self, SectionError};
use repo::keys;
use store::{Components, Fsync, LockOptions, config::LockedFile};

use super::{
    refused,
    search::{ValueTest, Values, normalized},
    source::{File, Place, Source},
    unsupported,
    value::{Kind, stored},
};
use crate::{Error, Events, PlanError, RunError, error::ConfigError, settings, text};

/// A change.
#[derive(Clone, Debug)]
pub enum Edit {
    /// A change of the settings of one name.
    Entries(Change),
    /// A change of a section, wherever it stands.
    Section {
        /// Its name.
        old: BString,
        /// The new name; `None` to remove the section.
        new: Option<BString>,
    },
}

/// A change of the settings of one name. By default all are selected, and one may be replaced. With
/// [`Values::None`] a setting is added.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// The name, as it is written into the file.
    pub name: BString,
    /// The new value; `None` to remove the selected settings.
    pub value: Option<BString>,
    /// The type of the new value, which determines the form in which it is stored.
    pub kind: Option<Kind>,
    /// The values that are replaced or removed.
    pub values: Values,
    /// Several settings may be replaced by one, or be removed.
    pub all: bool,
    /// A comment on the line; see [`comment`].
    pub comment: Option<BString>,
}

/// The result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The number of sections that were renamed or removed.
    pub sections: usize,
}

/// A file that is locked, and its new content.
pub struct Plan {
    locked: LockedFile,
    name: BString,
    content: Vec<u8>,
    report: Report,
}

impl Source<'_> {
    /// Locks the file, and computes its new content. No file is changed.
    pub fn plan(self, edit: Edit) -> Result<Plan, PlanError> {
        let place = self.place;
        let file = self.into_file()?;
        match edit {
            Edit::Entries(change) => change.plan(place, file),
            Edit::Section { old, new } => {
                let new = new.as_ref().map(|new| new.as_bstr());
                if let Err(SectionError::Name(name)) = config::rename_section(b"", old.as_bstr(), new) {
                    return Err(refused(ConfigError::Section(name)));
                }
                Plan::new(place, file, |before| {
                    let renamed = config::rename_section(before, old.as_bstr(), new);
                    renamed.map_err(|_| unsupported("files with mistakes"))
                })
            }
        }
    }
}

impl Change {
    fn plan(self, place: Place<'_>, file: File) -> Result<Plan, PlanError> {
        let name = self.name.as_bstr();
        let value = self.value.as_ref().map(|value| stored(self.kind, name, value.as_bstr())).transpose()?;
        let comment = self.comment.as_ref().map(|text| comment(text.as_bstr())).transpose()?;
        let key = normalized(name).map_err(refused)?;
        // Git checks the pattern only if the file exists.
        let values = ValueTest::of(&self.values).map_err(|_| unsupported("patterns of this form"))?;
        let change = config::Change {
            key: name,
            value: value.as_ref().map(|value| value.as_bstr()),
            comment: comment.as_ref().map(|comment| comment.as_bstr()),
            all: self.all,
        };
        Plan::new(place, file, |before| {
            let changed = config::change(before, &change, &|value: Option<&BStr>| values.accepts(value));
            changed.map(|content| (content, 0)).map_err(|error| match error {
                config::Error::Nothing => refused(ConfigError::Nothing),
                config::Error::Multiple { .. } => refused(ConfigError::Multiple(key)),
                _ => unsupported("files with mistakes"),
            })
        })
    }
}

impl Plan {
    /// Locks a file. `change` returns its new content, and the number of sections that it changes.
    fn new(
        place: Place<'_>,
        file: File,
        change: impl FnOnce(&[u8]) -> Result<(Vec<u8>, usize), PlanError>,
    ) -> Result<Plan, PlanError> {
        let File { path, name, .. } = file;
        let locked = LockedFile::take(&path, &lock_options(place)?);
        let (locked, before) = locked.map_err(|error| not_locked(error, &name))?;
        let (content, sections) = change(&before.unwrap_or_default())?;
        Ok(Plan { locked, name, content, report: Report { sections } })
    }

    /// Replaces the file. Like Git, syncs nothing.
    pub fn run(self, _events: &impl Events) -> Result<Report, RunError> {
        let Plan { locked, name, content, report } = self;
        locked.replace(&content, &Fsync::default(), Components::empty()).map_err(|error| {
            let reason = match error {
                store::Error::Io { source, .. } => sys::reason(&source),
                error => error.to_string(),
            };
            Error::from(ConfigError::NotWritten { name, reason })
        })?;
        Ok(report)
    }
}

/// Returns the error of a file that was not locked and read.
fn not_locked(error: store::Error, name: &BString) -> PlanError {
    let reason = match error {
        store::Error::Locked { .. } => "File exists".to_owned(),
        store::Error::CannotLock { source, .. } => sys::reason(&source),
        // Git would replace it.
        error @ store::Error::NotAFile { .. } => return refused(ConfigError::NotAFile(error)),
        _ => return unsupported("files with mistakes"),
    };
    refused(ConfigError::Locked { name: name.clone(), reason })
}

fn lock_options(place: Place<'_>) -> Result<LockOptions, PlanError> {
    let invalid = || unsupported("invalid settings of locks");
    match place {
        Place::Repository(repo) => settings::locks(repo).map_err(|_| invalid()),
        Place::Outside(outside) => {
            let is_set = |key: &str| outside.config_value(key).is_some();
            if is_set(keys::core::SHARED_REPOSITORY.name()) || is_set(keys::core::LOCKFILE_PID.name()) {
                Err(invalid())
            } else {
                Ok(LockOptions::default())
            }
        }
    }
}

/// Returns the text after a value: a comment that begins with a space and `#`.
pub fn comment(text: &BStr) -> Result<BString, Error> {
    if text.contains(&b'\n') {
        return Err(Error::Failed(text!("no multi-line comment allowed: '", text, "'")));
    }
    let is_led = text.trim_start_with(|letter| letter == ' ' || letter == '\t').starts_with(b"#");
    Ok(match text.first() {
        Some(b' ' | b'\t') if is_led => text.to_owned(),
        Some(b'#') => text!(" ", text),
        _ => text!(" # ", text),
    })
}
