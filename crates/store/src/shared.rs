//! Permissions of files in a shared repository (`core.sharedRepository` of `git-config(1)`).

use bstr::{BStr, ByteSlice};

/// Who may read and write what is written into the repository.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SharedRepository {
    /// `umask`, `false`: as the umask says.
    #[default]
    Umask,
    /// At least these permission bits more than the umask leaves: `group` is 0660, `all` 0664.
    Widened(u32),
    /// An octal value: exactly these.
    Exactly(u32),
}

/// The value of `core.sharedRepository` cannot be used. Git's wording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum BadSharedRepository {
    #[error("bad boolean config value '{0}' for 'core.sharedrepository'")]
    NoBoolean(String),
    #[error(
        "problem with core.sharedRepository filemode value (0{0:03o}).\n\
         The owner of files must always have read and write permissions."
    )]
    LocksOwnerOut(u32),
}

const GROUP: SharedRepository = SharedRepository::Widened(0o660);
const EVERYBODY: SharedRepository = SharedRepository::Widened(0o664);

impl SharedRepository {
    /// From the configuration's value; `None` is a key without `=`.
    pub fn parse(value: Option<&BStr>) -> Result<SharedRepository, BadSharedRepository> {
        let Some(value) = value else { return Ok(GROUP) };
        match value.as_bytes() {
            b"umask" => return Ok(SharedRepository::Umask),
            b"group" => return Ok(GROUP),
            b"all" | b"world" | b"everybody" => return Ok(EVERYBODY),
            _ => {}
        }
        let text = value.to_str_lossy();
        if let Ok(number) = u32::from_str_radix(&text, 8) {
            return match number {
                0 => Ok(SharedRepository::Umask),
                1 => Ok(GROUP),
                2 => Ok(EVERYBODY),
                mode if mode & 0o600 != 0o600 => Err(BadSharedRepository::LocksOwnerOut(mode)),
                mode => Ok(SharedRepository::Exactly(mode & 0o666)),
            };
        }
        match text.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" => Ok(GROUP),
            "false" | "no" | "off" | "" => Ok(SharedRepository::Umask),
            _ => Err(BadSharedRepository::NoBoolean(text.into_owned())),
        }
    }

    /// What the permission bits of a new file become (`calc_shared_perm` in Git).
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

    /// What the permission bits of a new directory become: searchable by whoever may read it, and
    /// handing its group down if the group may use it.
    pub fn dir_mode(self, mode: u32) -> u32 {
        if self == SharedRepository::Umask {
            return mode;
        }
        let mode = self.file_mode(mode);
        let mode = mode | (mode & 0o444) >> 2;
        if mode & 0o060 != 0 { mode | 0o2000 } else { mode }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_the_modes_they_give() {
        let mode =
            |value: &str| SharedRepository::parse(Some(value.into())).map(|shared| shared.file_mode(0o600));
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
        assert_eq!(mode("perhaps"), Err(BadSharedRepository::NoBoolean("perhaps".to_owned())));
        assert_eq!(SharedRepository::parse(None), Ok(GROUP));
        assert_eq!(GROUP.file_mode(0o444), 0o444);
        assert_eq!(GROUP.dir_mode(0o755), 0o2775);
        assert_eq!(SharedRepository::Exactly(0o600).dir_mode(0o755), 0o700);
    }
}
