//! `sapwood --profile[=<file>] <command>`: where the time was spent, as a table on standard error
//! and, if the user names a file, as a picture (SVG).
//!
//! The file is checked before the command and written after it. It replaces only an older profile.
//! If it cannot be written, sapwood prints a warning: the command is complete, and its exit code
//! stands.

mod picture;
mod table;

use std::{io::Write as _, path::PathBuf};

use sapwood::FileType;
use sys::{by_path, profile};

use crate::term::{
    console::{self, text},
    failure::Failure,
    interrupt::Interrupt,
    text::os_error,
};

/// The form of the profile that the user asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Profile {
    /// No profile.
    #[default]
    Off,
    /// A table.
    Table,
    /// A table, and a picture in this file.
    Picture(PathBuf),
}

impl Profile {
    /// Starts the measurement, unless the picture would overwrite a foreign file.
    pub(crate) fn start(&self) -> Result<(), Failure> {
        if let Profile::Picture(path) = self
            && !may_be_written(path)
        {
            return Err(Failure::fatal(format!("'{}' exists and is no profile", path.display())));
        }
        if *self != Profile::Off {
            Interrupt::install_now();
            profile::start();
        }
        Ok(())
    }

    /// Ends the measurement and prints the profile.
    pub(crate) fn report(&self, command: &str) {
        let Some(profile) = profile::finish() else { return };
        console::eprint_raw(table::draw(&profile, command).as_bytes());
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

/// The last line of a picture, which identifies sapwood's own files.
const MARK: &str = "<!-- a profile of sapwood -->\n";

/// Returns true if the path does not exist, or is an older profile.
fn may_be_written(path: &std::path::Path) -> bool {
    match by_path::stat(path) {
        Ok(None) => true,
        // Do not read a device or a pipe, or follow a link.
        Ok(Some(stat)) if stat.file_type == FileType::File => {
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
