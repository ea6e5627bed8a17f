//! Classes of changes.

/// The classes of changes to list, by Git's letters (`--diff-filter`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Letters of the classes to list; if empty, all classes except `without`.
    only: Vec<u8>,
    without: Vec<u8>,
    /// `*`: all changes are listed if any change is selected.
    all_or_none: bool,
}

impl Filter {
    /// Adds classes. The error is the first unknown letter; the letters before it are added.
    pub fn add(&mut self, classes: &[u8]) -> Result<(), u8> {
        for &class in classes {
            match class {
                b'*' => self.all_or_none = true,
                b'A' | b'C' | b'D' | b'M' | b'R' | b'T' | b'U' | b'X' | b'B' => self.only.push(class),
                b'a' | b'c' | b'd' | b'm' | b'r' | b't' | b'u' | b'x' | b'b' => {
                    self.without.push(class.to_ascii_uppercase());
                }
                _ => return Err(class),
            }
        }
        Ok(())
    }

    /// Returns true if the filter excludes nothing.
    pub fn is_none(&self) -> bool {
        self.only.is_empty() && self.without.is_empty() && !self.all_or_none || self.is_undone()
    }

    /// Returns true if a change of this class is listed, or makes all changes listed.
    pub(super) fn takes(&self, letter: u8) -> bool {
        let is_wanted = self.only.is_empty() && !self.all_or_none || self.only.contains(&letter);
        is_wanted && !self.without.contains(&letter) || self.is_undone()
    }

    pub(super) fn is_all_or_none(&self) -> bool {
        self.all_or_none
    }

    /// Returns true if the letters exclude every class that they include: then no filter applies.
    fn is_undone(&self) -> bool {
        let is_excluded = |letter| self.without.contains(letter);
        !self.all_or_none && !self.only.is_empty() && self.only.iter().all(is_excluded)
    }
}
