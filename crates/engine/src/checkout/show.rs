//! A plan as text: the output of `--dry-run`.
//!
//! Each step is a line. Removals come first, because they are executed first; each kind is sorted
//! by path:
//!
//! ```text
//! remove <path>
//! write <mode> <object name> <path>
//! ```
//!
//! Paths with control characters, quotes, backslashes or bytes above 127 are quoted as Git quotes
//! them.

use std::fmt;

use super::Plan;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for removal in &self.removals {
            writeln!(f, "remove {}", format::quote(removal.path.as_ref(), true))?;
        }
        for write in &self.writes {
            let entry = &self.index.entry(write.entry);
            writeln!(
                f,
                "write {:?} {} {}",
                entry.mode,
                entry.oid,
                format::quote(self.index.path(entry), true)
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use format::{
        HashKind, Mode, ObjectId,
        index::{Flags, Index, NewEntry, Stage, Stat},
    };

    use super::{
        super::{Premise, Removal, Write},
        *,
    };

    #[test]
    fn prints_a_line_per_step_and_quotes_paths() {
        let mut index = Index::empty(HashKind::Sha1);
        let oid = ObjectId::empty_blob(HashKind::Sha1);
        let (mode, flags, stage) = (Mode::EXECUTABLE, Flags::empty(), Stage::Normal);
        index.push("a b".into(), NewEntry { stat: Stat::default(), oid, mode, flags, stage });
        let path = "d/\u{e9}\"\t".into();
        let plan = Plan {
            index,
            writes: vec![Write { entry: 0, premise: Premise::Absent }],
            removals: vec![Removal { path, premise: Premise::Anything, gitlink: false }],
            warnings: Vec::new(),
        };
        assert_eq!(
            plan.to_string(),
            "remove \"d/\\303\\251\\\"\\t\"\nwrite 100755 e69de29bb2d1d6434b8b29ae775ad8c2e48c5391 a b\n"
        );
    }
}
