//! A plan as text: what `--dry-run` prints. Removals first, as they are done first.

use std::fmt;

use super::{Plan, Premise};

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for removal in &self.removals {
            writeln!(f, "remove         {}", removal.path)?;
        }
        for write in &self.writes {
            let entry = &self.index.entries()[write.entry];
            let verb = match write.premise {
                Premise::Absent => "create",
                Premise::Unchanged(_) => "update",
                Premise::Anything => "replace",
                Premise::Directory => "submodule",
            };
            writeln!(f, "{verb:<8}{:06o} {}", entry.mode.bits(), self.index.path(entry))?;
        }
        write!(f, "{} to write, {} to remove", self.writes.len(), self.removals.len())
    }
}
