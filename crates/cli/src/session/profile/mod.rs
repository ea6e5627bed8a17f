//! `sapwood --profile[=<file>] <command>`: where the time went, as a table on standard error and,
//! if the user names a file, as a picture.
//!
//! The file is checked before the command and written after it. It replaces only an older profile.
//! A file that cannot be written causes a warning: the command has done its work, and its exit code
//! stands.

mod picture;
mod table;

use std::{io::Write as _, path::PathBuf};

use sys::{by_path, profile};

use crate::term::{
    console::{self, text},
    failure::Failure,
    text::os_error,
};

/// The form of the profile that the user asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Nothing.
    #[default]
    Off,
    /// The table.
    Table,
    /// The table, and a picture in this file.
    Picture(PathBuf),
}

impl Profile {
    /// Begins, unless the picture would overwrite something.
    pub(crate) fn start(&self) -> Result<(), Failure> {
        if let Profile::Picture(path) = self
            && !may_be_written(path)
        {
            return Err(Failure::fatal(format!("'{}' exists and is no profile", path.display())));
        }
        if *self != Profile::Off {
            profile::start();
        }
        Ok(())
    }

    /// Ends, and says where the time went.
    pub(crate) fn report(&self, command: &str) {
        let Some(profile) = profile::finish() else { return };
        console::raw(table::draw(&profile, command).as_bytes());
        if let Profile::Picture(path) = self {
            let picture = picture::draw(&profile, command);
            if let Err(error) = write(path, &picture) {
                console::warning(text!(
                    "the profile could not be written to '",
                    path.display().to_string(),
                    "': ",
                    os_error(&error)
                ));
            }
        }
    }
}

/// The last line of a picture, by which sapwood recognises its own files.
const MARK: &str = "<!-- a profile of sapwood -->\n";

/// Nothing is there, or an older profile.
fn may_be_written(path: &std::path::Path) -> bool {
    match by_path::stat(path) {
        Ok(None) => true,
        // A device or a pipe is not for looking into, and a link may lead to anything.
        Ok(Some(stat)) if stat.file_type == sys::FileType::File => {
            matches!(by_path::read(path), Ok(Some(content)) if content.ends_with(MARK.as_bytes()))
        }
        // Errors are reported when the file is written.
        Ok(Some(_)) => false,
        Err(_) => true,
    }
}

fn write(path: &std::path::Path, picture: &str) -> std::io::Result<()> {
    if may_be_written(path) && by_path::stat(path)?.is_some() {
        by_path::remove_file(path)?;
    }
    let mut file = by_path::create_new(path, 0o666)?;
    file.write_all(picture.as_bytes())?;
    file.write_all(MARK.as_bytes())
}
