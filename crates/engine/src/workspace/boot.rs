//! The boot of the machine: the time in which the kernel's caches hold what no disk holds yet.

use std::path::Path;

use sys::by_path;

/// The kernel's boot id, which changes with every boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot(String);

impl Boot {
    /// Returns the current boot; `None` where the kernel does not tell it.
    pub fn current() -> Option<Boot> {
        let read = by_path::read(Path::new("/proc/sys/kernel/random/boot_id")).ok().flatten();
        let id = String::from_utf8_lossy(&read.unwrap_or_default()).trim_end().to_owned();
        (!id.is_empty()).then_some(Boot(id))
    }

    /// Returns the boot with a recorded id.
    pub(super) fn recorded(id: String) -> Boot {
        Boot(id)
    }

    /// Returns the id.
    pub(super) fn id(&self) -> &str {
        &self.0
    }

    /// Returns true if the machine was not started again since.
    pub fn is_current(&self) -> bool {
        Boot::current().as_ref() == Some(self)
    }
}
