//! Changes one file.

use bstr::{BStr, BString, ByteSlice as _};
use format::config::{self, SectionError};
use repo::keys;
use store::{Fsync, LockOptions};

use super::{
    job::{Change, Job},
    location::{Context, File},
    read::{key_message, normalized, selection},
    value,
};
use crate::{
    session::{invocation::Place, settings},
    term::{
        console::{self, text},
        failure::Failure,
        text::os_error,
    },
};

/// Git's exit codes.
const INVALID_KEY: u8 = 1;
const NO_SECTION_OR_NAME: u8 = 2;
const NOT_WRITTEN: u8 = 4;
const NOTHING_SET: u8 = 5;
const NO_LOCK: u8 = 255;

/// Changes the entries of one name. Returns the exit code.
pub(super) fn change(context: &Context<'_>, job: &Job, change: &Change) -> Result<u8, Failure> {
    let file = context.file_to_write()?;
    let name = change.name.as_bstr();
    let value = change.value.as_ref().map(|text| value::stored(job.kind, name, text.as_ref())).transpose()?;
    let key = match normalized(name) {
        Ok(key) => key,
        Err(error) => {
            use config::Error::{NoName, NoSection};
            let lacks = matches!(error, NoSection(_) | NoName(_));
            console::error(key_message(&error, name));
            return Ok(if lacks { NO_SECTION_OR_NAME } else { INVALID_KEY });
        }
    };
    // Git checks the pattern only if the file exists.
    let select = selection(&change.values).map_err(|_| Failure::Unserved("patterns of this form"))?;
    let edit = config::Change {
        key: name,
        value: value.as_ref().map(|value| value.as_bstr()),
        comment: change.comment.as_ref().map(|comment| comment.as_bstr()),
        all: change.all,
    };
    let done = rewrite(context, &file, |before| {
        config::change(&before.unwrap_or_default(), &edit, &select).map_err(Stop::Edit)
    })?;
    match done {
        Ok(()) => Ok(0),
        Err(Stop::Edit(config::Error::Nothing)) => Ok(NOTHING_SET),
        Err(Stop::Edit(config::Error::Multiple { .. })) => {
            console::warning(text!(key, " has multiple values"));
            if let Some(advice) = change.advice {
                console::error(text!(
                    "cannot overwrite multiple values with a single value\n       ",
                    advice,
                    " to change ",
                    name,
                    "."
                ));
            }
            Ok(NOTHING_SET)
        }
        Err(Stop::Lock(error)) => no_lock(&file, Some(&error)),
        Err(_) => Err(Failure::Unserved("files with mistakes")),
    }
}

/// Renames or removes a section. Returns the exit code.
pub(super) fn section(context: &Context<'_>, old: &BStr, new: Option<&BString>) -> Result<u8, Failure> {
    let file = context.file_to_write()?;
    let mut found = 0;
    if let Err(SectionError::Name(_)) = config::rename_section(b"", old, new.map(|new| new.as_ref())) {
        let name = new.map(|new| new.as_bstr()).unwrap_or_default();
        console::error(text!("invalid section name: ", name));
        return Ok(NO_LOCK);
    }
    let done = rewrite(context, &file, |before| {
        let renamed = config::rename_section(&before.unwrap_or_default(), old, new.map(|new| new.as_ref()));
        let (after, count) = renamed.map_err(|_| Stop::Text)?;
        found = count;
        Ok(after)
    })?;
    match done {
        Ok(()) if found == 0 => Err(Failure::fatal(text!("no such section: ", old))),
        Ok(()) => Ok(0),
        Err(Stop::Lock(_)) => no_lock(&file, None),
        Err(_) => Err(Failure::Unserved("files with mistakes")),
    }
}

/// The reason why a file was not changed.
enum Stop {
    Edit(config::Error),
    Text,
    /// The lock could not be acquired; the text is Git's reason.
    Lock(String),
    /// The file is a device, FIFO or socket; the text says so.
    Device(String),
    Io,
}

impl From<store::Error> for Stop {
    fn from(error: store::Error) -> Stop {
        match error {
            store::Error::Locked { .. } => Stop::Lock("File exists".to_owned()),
            store::Error::CannotLock { source, .. } => Stop::Lock(os_error(&source).to_string()),
            store::Error::NotAFile { .. } => Stop::Device(error.to_string()),
            _ => Stop::Io,
        }
    }
}

fn rewrite(
    context: &Context<'_>,
    file: &File,
    change: impl FnOnce(Option<Vec<u8>>) -> Result<Vec<u8>, Stop>,
) -> Result<Result<(), Stop>, Failure> {
    let options = lock_options(context.place)?;
    match store::config::rewrite(&file.path, &options, &Fsync::default(), change) {
        // The real Git would replace it.
        Err(Stop::Device(message)) => Err(Failure::Error(message.into(), NOT_WRITTEN)),
        done => Ok(done),
    }
}

fn lock_options(place: &Place) -> Result<LockOptions, Failure> {
    const WHAT: &str = "invalid settings of locks";
    match place {
        Place::Repository(repo) => Ok(LockOptions {
            shared: settings::shared(repo).map_err(|_| Failure::Unserved(WHAT))?,
            record_pid: repo.config(&keys::core::LOCKFILE_PID).map_err(|_| Failure::Unserved(WHAT))?,
            ..LockOptions::default()
        }),
        Place::Outside(outside) => {
            let is_set = |key: &str| outside.config_value(key).is_some();
            if is_set(keys::core::SHARED_REPOSITORY.name()) || is_set(keys::core::LOCKFILE_PID.name()) {
                Err(Failure::Unserved(WHAT))
            } else {
                Ok(LockOptions::default())
            }
        }
    }
}

fn no_lock(file: &File, reason: Option<&String>) -> Result<u8, Failure> {
    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    console::error(text!("could not lock config file ", file.name, reason));
    Ok(NO_LOCK)
}
