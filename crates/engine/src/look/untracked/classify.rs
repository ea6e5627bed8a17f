//! Classifies a name in a directory, as far as possible without reading below it.

use std::ops::Range;

use bstr::{BString, ByteSlice as _};
use sys::FileType;

use super::{
    Directories, Ignored, Nested, Walk,
    tracked::{Below, IndexLookup},
    tree::{Descent, IgnoreState, ReadPurpose, State},
};
use crate::look::{ignore::Level, pathspec::Reach};

/// The directory that contains a name.
pub(super) struct ParentDirectory<'p> {
    /// Returns true if the directory is ignored with all its content. Also returns the rules for
    /// its content.
    pub(super) rules: &'p dyn Fn() -> (bool, Option<&'p Level>),
    /// Returns true if these rules have not been read yet, because no name has needed them.
    pub(super) are_unread: &'p dyn Fn() -> bool,
    /// The index entries below it.
    pub(super) within: &'p Range<usize>,
}

/// The classification of a name.
pub(super) enum Classification {
    /// The state of the name. The second value is true if the path is an index entry.
    Known(State, bool),
    /// The state depends on the content of the directory.
    Descend(Descent),
}

const NOTHING: Classification = Classification::Known(State::Nothing, false);

impl Walk<'_> {
    /// Classifies `path` in the directory `parent`. `known` is the result of the index lookup, if
    /// it was already done. A directory's path gets a slash at the end.
    pub(super) fn classify(
        &self,
        path: &mut BString,
        file_type: FileType,
        parent: &ParentDirectory<'_>,
        known: Option<IndexLookup>,
    ) -> Classification {
        let name = path.rfind_byte(b'/').map_or(path.as_bstr(), |slash| path[slash + 1..].as_bstr());
        let folds = self.tracked.folds_case();
        if name == ".git"
            || folds && name.eq_ignore_ascii_case(b".git")
            || self.pathspecs.rules_out(path.as_bstr())
        {
            return NOTHING;
        }
        let is_dir = file_type == FileType::Directory;
        let look = || self.tracked.look(path.as_bstr(), is_dir, parent.within, &mut 0);
        let known = known.unwrap_or_else(look);
        if known.entry && !is_dir {
            return NOTHING;
        }
        if let (true, Below::Entries(within)) = (is_dir, &known.below)
            && (parent.are_unread)()
        {
            path.push(b'/');
            let (purpose, within) = (ReadPurpose::Report, within.clone());
            let ignore_state = IgnoreState::Unknown;
            return Classification::Descend(Descent {
                purpose,
                ignore_state,
                nested: None,
                within,
                entry: known.entry,
            });
        }
        let (all, level) = (parent.rules)();
        let ignored = all || self.is_ignored(level, path.as_bstr(), is_dir);
        if ignored && self.options.ignored == Ignored::Left {
            return Classification::Known(State::Ignored, known.entry);
        }
        if ignored && self.options.ignored == Ignored::Named {
            let is_told = !known.entry && self.pathspecs.name(path.as_bstr());
            return Classification::Known(if is_told { State::Ignored } else { State::Nothing }, known.entry);
        }
        match file_type {
            FileType::Other => NOTHING,
            FileType::File | FileType::Symlink => match (self.is_selected(path.as_bstr()), ignored) {
                (false, _) => NOTHING,
                (true, true) => Classification::Known(State::Ignored, false),
                (true, false) => Classification::Known(State::Untracked, false),
            },
            FileType::Directory => {
                path.push(b'/');
                self.directory(path, ignored, known.entry, known.below)
            }
        }
    }

    fn directory(&self, path: &BString, ignored: bool, entry: bool, below: Below) -> Classification {
        let options = self.options;
        let ignore_state = if ignored { IgnoreState::Ignored } else { IgnoreState::NotIgnored };
        let descend = |purpose, nested, within| {
            Classification::Descend(Descent { purpose, ignore_state, nested, within, entry })
        };
        match below {
            Below::Entries(within) => return descend(ReadPurpose::Report, None, within),
            Below::Submodule => return NOTHING,
            Below::Nothing => {}
        }
        // An ignored path was matched by a rule, so the pathspecs are not evaluated.
        let reach = if ignored { Reach::Whole } else { self.reach(path.as_bstr()) };
        if reach == Reach::None {
            return NOTHING;
        }
        let itself = if ignored { State::Ignored } else { State::Untracked };
        let nested =
            if options.nested == Nested::Skipped || reach == Reach::Below { State::Nothing } else { itself };
        if options.directories == Directories::Files {
            if ignored && options.ignored.is_matching() {
                return self.unless_nested(path, nested, itself, entry);
            }
            return descend(ReadPurpose::Report, Some(nested), 0..0);
        }
        if reach == Reach::Below {
            return descend(ReadPurpose::Report, Some(nested), 0..0);
        }
        let hides_empty = options.directories == Directories::WholeUnlessEmpty;
        if ignored && (!hides_empty || options.ignored.is_matching()) {
            return self.unless_nested(path, nested, itself, entry);
        }
        if !ignored && options.ignored == Ignored::Left && !hides_empty {
            return self.unless_nested(path, nested, itself, entry);
        }
        descend(ReadPurpose::Classify, Some(nested), 0..0)
    }

    fn unless_nested(&self, path: &BString, nested: State, itself: State, entry: bool) -> Classification {
        let is_nested = nested != itself && self.is_nested(path.as_bstr());
        Classification::Known(if is_nested { nested } else { itself }, entry)
    }
}
