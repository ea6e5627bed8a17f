//! File permissions in a shared repository (`core.sharedRepository` of `git-config(1)`).
//!
//! Promise: only this module determines the modes of files and directories that sapwood creates in
//! a Git directory. Without the setting, it makes no extra system calls.

use std::{io, path::Path};

use bstr::{BStr, ByteSlice};
use sys::{File, FileType, by_path};

/// The access rights of other users to files in the repository.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SharedRepository {
    /// `umask`, `false`: the umask applies.
    #[default]
    Umask,
    /// The umask's permissions plus these bits: `group` is 0660, `all` 0664.
    Widened(u32),
    /// An octal value: exactly these bits.
    Exactly(u32),
}

/// The value of `core.sharedRepository` is invalid. The messages are Git's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum BadSharedRepository {
    #[error("bad boolean config value '{0}' for 'core.sharedrepository'")]
    NotBoolean(String),
    #[error(
        "problem with core.sharedRepository filemode value (0{0:03o}).\n\
         The owner of files must always have read and write permissions."
    )]
    LocksOwnerOut(u32),
}

const GROUP: SharedRepository = SharedRepository::Widened(0o660);
const EVERYBODY: SharedRepository = SharedRepository::Widened(0o664);

impl SharedRepository {
    /// Parses the configuration's value. `None` is a key without `=`. `boolean` is the value parsed
    /// as a boolean, if that is possible.
    pub fn parse(
        value: Option<&BStr>,
        boolean: Option<bool>,
    ) -> Result<SharedRepository, BadSharedRepository> {
        let Some(value) = value else { return Ok(GROUP) };
        match value.as_bytes() {
            b"umask" => return Ok(SharedRepository::Umask),
            b"group" => return Ok(GROUP),
            b"all" | b"world" | b"everybody" => return Ok(EVERYBODY),
            _ => {}
        }
        match (octal(value.as_bytes()), boolean) {
            (Some(0), _) | (None, Some(false)) => Ok(SharedRepository::Umask),
            (Some(1), _) | (None, Some(true)) => Ok(GROUP),
            (Some(2), _) => Ok(EVERYBODY),
            (Some(mode), _) if mode & 0o600 != 0o600 => Err(BadSharedRepository::LocksOwnerOut(mode)),
            (Some(mode), _) => Ok(SharedRepository::Exactly(mode & 0o666)),
            (None, None) => Err(BadSharedRepository::NotBoolean(value.to_string())),
        }
    }

    /// Returns the value that Git writes into the configuration of a new repository, or `None` for
    /// no value.
    pub fn value(self) -> Option<String> {
        match self {
            SharedRepository::Umask => None,
            GROUP => Some("1".to_owned()),
            EVERYBODY => Some("2".to_owned()),
            SharedRepository::Widened(mode) | SharedRepository::Exactly(mode) => Some(format!("0{mode:o}")),
        }
    }

    /// Adjusts the permission bits of a new file (`calc_shared_perm` in Git).
    pub fn file_mode(self, mode: u32) -> u32 {
        let bits = match self {
            SharedRepository::Umask => return mode,
            SharedRepository::Widened(bits) | SharedRepository::Exactly(bits) => bits,
        };
        let bits = if mode & 0o200 == 0 { bits & !0o222 } else { bits };
        let bits = if mode & 0o100 != 0 { bits | (bits & 0o444) >> 2 } else { bits };
        match self {
            SharedRepository::Exactly(_) => mode & !0o777 | bits,
            _ => mode | bits,
        }
    }

    /// Adjusts the permission bits of a new directory. A user who may read it may also search it.
    /// If its group has access, the setgid bit makes new entries inherit the group.
    pub fn dir_mode(self, mode: u32) -> u32 {
        if self == SharedRepository::Umask {
            return mode;
        }
        let mode = self.file_mode(mode);
        let mode = mode | (mode & 0o444) >> 2;
        if mode & 0o060 != 0 { mode | 0o2000 } else { mode }
    }

    /// Creates a directory.
    pub fn create_dir(self, path: &Path) -> io::Result<()> {
        by_path::create_dir(path)?;
        self.adjust_dir(path)
    }

    /// Creates a directory and its missing parents. An existing directory keeps its mode.
    pub fn create_dir_all(self, path: &Path) -> io::Result<()> {
        if self == SharedRepository::Umask {
            return by_path::create_dir_all(path);
        }
        match self.create_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else {
                    return Err(error);
                };
                self.create_dir_all(parent)?;
                self.create_dir_all(path)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let found = by_path::stat_followed(path)?;
                let is_directory = found.is_some_and(|stat| stat.file_type == FileType::Directory);
                if is_directory { Ok(()) } else { Err(error) }
            }
            made => made,
        }
    }

    /// Creates a file with the permission bits of `mode` minus the umask, and opens it for writing.
    pub fn create_new(self, path: &Path, mode: u32) -> io::Result<File> {
        let file = by_path::create_new(path, mode)?;
        self.adjust_file(&file)?;
        Ok(file)
    }

    /// Sets the final permissions of a directory.
    pub fn adjust_dir(self, path: &Path) -> io::Result<()> {
        if self == SharedRepository::Umask {
            return Ok(());
        }
        let Some(stat) = by_path::stat_followed(path)? else { return Ok(()) };
        let mode = stat.mode & 0o7777;
        match self.dir_mode(mode) {
            wanted if wanted == mode => Ok(()),
            wanted => by_path::set_mode(path, wanted),
        }
    }

    /// Sets the final permissions of a file.
    pub fn adjust_file(self, file: &File) -> io::Result<()> {
        if self == SharedRepository::Umask {
            return Ok(());
        }
        let mode = sys::stat_of(file)?.mode & 0o7777;
        match self.file_mode(mode) {
            wanted if wanted == mode => Ok(()),
            wanted => sys::set_mode(file, wanted),
        }
    }
}

/// Parses an octal number as C's `strtol` does, up to the end of the text, and truncates it to an
/// `int`. The empty text is 0.
fn octal(text: &[u8]) -> Option<u32> {
    if text.is_empty() {
        return Some(0);
    }
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let text = &text[text.iter().take_while(|byte| is_space(byte)).count()..];
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(|digit| (b'0'..=b'7').contains(digit)) {
        return None;
    }
    let number = digits.iter().try_fold(0i64, |number, digit| {
        let digit = i64::from(digit - b'0');
        let shifted = number.checked_mul(8)?;
        if is_negative { shifted.checked_sub(digit) } else { shifted.checked_add(digit) }
    });
    let number = number.unwrap_or(if is_negative { i64::MIN } else { i64::MAX });
    u32::try_from(number & i64::from(u32::MAX)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_values_and_computes_modes() {
        let mode = |value: &str| {
            let boolean = match value {
                "true" | "9" => Some(true),
                "false" => Some(false),
                _ => None,
            };
            SharedRepository::parse(Some(value.into()), boolean).map(|shared| shared.file_mode(0o600))
        };
        assert_eq!(mode("umask"), Ok(0o600));
        assert_eq!(mode("0"), Ok(0o600));
        assert_eq!(mode("false"), Ok(0o600));
        assert_eq!(mode("true"), Ok(0o660));
        assert_eq!(mode("group"), Ok(0o660));
        assert_eq!(mode("1"), Ok(0o660));
        assert_eq!(mode("all"), Ok(0o664));
        assert_eq!(mode("2"), Ok(0o664));
        assert_eq!(mode("0640"), Ok(0o640));
        assert_eq!(mode("0060"), Err(BadSharedRepository::LocksOwnerOut(0o060)));
        assert_eq!(mode("perhaps"), Err(BadSharedRepository::NotBoolean("perhaps".to_owned())));
        assert_eq!(mode("9"), Ok(0o660), "no octal number, but one that is not 0");
        assert_eq!(mode(" +0640"), Ok(0o640));
        assert_eq!(mode("-1"), Ok(0o666));
        assert_eq!(mode("3"), Err(BadSharedRepository::LocksOwnerOut(3)));
        assert_eq!(mode("7777777777777777777777777"), Ok(0o666));
        assert_eq!(mode(""), Ok(0o600));
        assert_eq!(SharedRepository::parse(None, Some(true)), Ok(GROUP));
        assert_eq!(GROUP.file_mode(0o444), 0o444);
        assert_eq!(GROUP.dir_mode(0o755), 0o2775);
        assert_eq!(SharedRepository::Exactly(0o600).dir_mode(0o755), 0o700);
    }
}
