//! The sync policy: `core.fsync`, `core.fsyncMethod` and `core.fsyncObjectFiles` of
//! `git-config(1)`, parsed exactly as Git does. It determines the files that are synced before they
//! are published, and the method.
//!
//! Promise: a file of a hardened component is synced before it is renamed into place, and its
//! directory after. Git does not sync the directory. Without that, a power cut may undo a rename
//! that was reported as done, on file systems with weaker ordering than ext4.

use std::{io, path::Path};

use bstr::{BStr, BString, ByteSlice};
use sys::File;

bitflags::bitflags! {
    /// The kinds of files in a repository, in Git's terms.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Components: u8 {
        /// Loose objects.
        const LOOSE_OBJECT = 1;
        /// Packs.
        const PACK = 1 << 1;
        /// Pack indices, reverse indices, bitmaps, multi-pack-index.
        const PACK_METADATA = 1 << 2;
        /// The commit-graph.
        const COMMIT_GRAPH = 1 << 3;
        /// The index.
        const INDEX = 1 << 4;
        /// Loose refs and packed-refs.
        const REFERENCE = 1 << 5;
        /// Object maps of repositories with two hashes.
        const OBJECT_MAP = 1 << 6;

        /// `objects`
        const OBJECTS = Self::LOOSE_OBJECT.bits() | Self::PACK.bits();
        /// `derived-metadata`
        const DERIVED_METADATA = Self::PACK_METADATA.bits() | Self::COMMIT_GRAPH.bits();
        /// `committed`
        const COMMITTED = Self::OBJECTS.bits() | Self::REFERENCE.bits();
        /// `added`
        const ADDED = Self::COMMITTED.bits() | Self::INDEX.bits();
    }
}

/// Git's warning about `core.fsyncObjectFiles`. It comes before an error about its value.
pub const OBJECT_FILES_ARE_DEPRECATED: &str = "core.fsyncObjectFiles is deprecated; use core.fsync instead";

/// Git's default outside Windows. The manual calls it `committed,-loose-object`, but Git syncs
/// packs and files derived from them, and neither loose objects nor refs.
const DEFAULT: Components = Components::PACK.union(Components::DERIVED_METADATA);

const NAMES: [(&str, Components); 11] = [
    ("loose-object", Components::LOOSE_OBJECT),
    ("pack", Components::PACK),
    ("pack-metadata", Components::PACK_METADATA),
    ("commit-graph", Components::COMMIT_GRAPH),
    ("index", Components::INDEX),
    ("objects", Components::OBJECTS),
    ("reference", Components::REFERENCE),
    ("derived-metadata", Components::DERIVED_METADATA),
    ("committed", Components::COMMITTED),
    ("added", Components::ADDED),
    ("all", Components::all()),
];

/// `core.fsyncMethod`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `fsync`: the data reach stable storage.
    Fsync,
    /// `writeout-only`: the data are written to the disk, which does not flush its cache.
    WriteoutOnly,
    /// `batch`: one flush for many loose objects. `fsync` for everything else.
    Batch,
}

/// The policy that every writer obeys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fsync {
    /// The components that are synced (hardened).
    pub components: Components,
    /// The method.
    pub method: Method,
    /// `core.fsyncObjectFiles`: loose objects are synced, each for itself, even if `components`
    /// does not contain them.
    pub object_files: bool,
    /// `GIT_TEST_FSYNC=0`: nothing is synced, whatever the other fields contain.
    pub disabled: bool,
    /// True if `core.fsync` or `core.fsyncObjectFiles` is set.
    pub explicit: bool,
}

impl Default for Fsync {
    fn default() -> Self {
        Fsync {
            components: DEFAULT,
            method: Method::Fsync,
            object_files: false,
            disabled: false,
            explicit: false,
        }
    }
}

/// The settings of the policy, as they are configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configured {
    /// All values of `core.fsync`, in order.
    pub components: Vec<BString>,
    /// All values of `core.fsyncMethod`, in order.
    pub methods: Vec<BString>,
    /// `core.fsyncObjectFiles`
    pub object_files: Option<bool>,
    /// `GIT_TEST_FSYNC`
    pub is_on: Option<bool>,
}

impl Fsync {
    /// Returns the policy that these settings make, and Git's warnings about them.
    pub fn of(configured: &Configured) -> (Fsync, Vec<String>) {
        let mut fsync = Fsync { disabled: configured.is_on == Some(false), ..Fsync::default() };
        let mut warnings = Vec::new();
        for value in &configured.components {
            warnings.extend(fsync.set_components(value.as_bstr()));
        }
        for value in &configured.methods {
            warnings.extend(fsync.set_method(value.as_bstr()));
        }
        if let Some(value) = configured.object_files {
            fsync.set_object_files(value);
        }
        (fsync, warnings)
    }

    /// Returns the policy of a command that records a user's work (`add`, `commit`, `stash`):
    /// unless the user chose components, all of them are hardened.
    #[must_use]
    pub fn for_recording(self) -> Fsync {
        if self.explicit { self } else { Fsync { components: Components::all(), ..self } }
    }

    /// Sets the components from `core.fsync`. Starts from the default, not from this policy: as in
    /// Git, only the last value is used. Returns Git's warnings.
    ///
    /// Two quirks of Git are kept, because existing configurations may depend on them. Any prefix
    /// of a name selects all components that begin with it (`pack` also selects `pack-metadata`).
    /// `none` has an effect only at the end of the value.
    pub fn set_components(&mut self, value: &BStr) -> Vec<String> {
        self.explicit = true;
        let mut base = DEFAULT;
        let (mut added, mut removed) = (Components::empty(), Components::empty());
        let mut warnings = Vec::new();
        let mut rest: &[u8] = value;
        loop {
            rest = rest.trim_start_with(|letter| ", \t\n\r".contains(letter));
            if rest == b"none" {
                base = Components::empty();
                break;
            }
            let (name, after) = rest.split_at(rest.find_byte(b',').unwrap_or(rest.len()));
            rest = after;
            let negated = name.strip_prefix(b"-");
            let name = negated.unwrap_or(name);
            if name.is_empty() {
                if negated.is_some() {
                    warnings.push("invalid value for variable core.fsync".to_owned());
                }
                break;
            }
            let named: Components = NAMES
                .iter()
                .filter(|(full, _)| full.as_bytes().starts_with(name))
                .map(|(_, components)| *components)
                .collect();
            if named.is_empty() {
                warnings.push(format!("ignoring unknown core.fsync component '{}'", name.as_bstr()));
            }
            if negated.is_some() { removed |= named } else { added |= named }
        }
        self.components = (base - removed) | added;
        warnings
    }

    /// Sets the method from `core.fsyncMethod`. An unknown value changes nothing, and returns Git's
    /// warning.
    pub fn set_method(&mut self, value: &BStr) -> Option<String> {
        self.method = match value.as_bytes() {
            b"fsync" => Method::Fsync,
            b"writeout-only" => Method::WriteoutOnly,
            b"batch" => Method::Batch,
            _ => return Some(format!("ignoring unknown core.fsyncMethod value '{value}'")),
        };
        None
    }

    /// Sets `core.fsyncObjectFiles`, the older setting: `true` hardens loose objects even if
    /// `core.fsync` does not.
    fn set_object_files(&mut self, value: bool) {
        self.explicit = true;
        self.object_files = value;
    }

    /// Returns true if files of this component are synced.
    pub fn hardens(&self, component: Components) -> bool {
        let is_named = self.components.intersects(component);
        !self.disabled && (is_named || self.object_files && component.intersects(Components::LOOSE_OBJECT))
    }

    /// Returns true if loose objects are written in a batch (`core.fsyncMethod=batch`): the user
    /// chose that method, and `core.fsync` names loose objects.
    pub(crate) fn batches(&self) -> bool {
        self.explicit
            && !self.disabled
            && self.method == Method::Batch
            && self.components.intersects(Components::LOOSE_OBJECT)
    }

    /// Syncs a file's content if its component is hardened.
    pub fn file(&self, component: Components, file: &File) -> io::Result<()> {
        if !self.hardens(component) {
            return Ok(());
        }
        if self.method == Method::WriteoutOnly && write_back(file)? {
            return Ok(());
        }
        sys::sync_file(file)
    }

    /// Syncs `dir` after a name in it was created, replaced or removed, if its component is
    /// hardened. With `writeout-only`, directories are not synced.
    pub fn directory(&self, component: Components, dir: &Path) -> io::Result<()> {
        if self.hardens(component) && self.method != Method::WriteoutOnly {
            sys::by_path::sync_dir(dir)
        } else {
            Ok(())
        }
    }
}

/// Writes the pages of a file to the disk. Returns false if the system refuses to, and the caller
/// must sync the file. An error of the disk is an error here, because no later sync repeats it.
pub(crate) fn write_back(file: &File) -> io::Result<bool> {
    match sys::request_writeback(file) {
        Ok(()) => Ok(true),
        Err(error) if sys::is_writeback_refused(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(value: &str) -> (Components, usize) {
        let mut fsync = Fsync::default();
        let warnings = fsync.set_components(value.into());
        (fsync.components, warnings.len())
    }

    #[test]
    fn parses_components_like_git() {
        let all = Components::all();
        for (value, expected, warnings) in [
            ("", DEFAULT, 0),
            ("none", Components::empty(), 0),
            ("index", DEFAULT | Components::INDEX, 0),
            ("all", all, 0),
            ("all,-index", all, 0),
            ("-pack-metadata", DEFAULT - Components::PACK_METADATA, 0),
            ("-pack", Components::COMMIT_GRAPH, 0),
            ("reference,none", Components::REFERENCE, 0),
            ("none,reference", DEFAULT | Components::REFERENCE, 1),
            (" , reference,\tindex", DEFAULT | Components::REFERENCE | Components::INDEX, 0),
            ("committed", DEFAULT | Components::COMMITTED, 0),
            ("added", DEFAULT | Components::ADDED, 0),
            ("indexes,reference", DEFAULT | Components::REFERENCE, 1),
            ("-,reference", DEFAULT, 1),
            ("index ,reference", DEFAULT | Components::REFERENCE, 1),
        ] {
            assert_eq!(parsed(value), (expected, warnings), "{value:?}");
        }
    }

    #[test]
    fn parses_methods_and_the_older_setting() {
        let mut fsync = Fsync::default();
        assert_eq!(fsync.set_method("batch".into()), None);
        assert_eq!(
            fsync.set_method("Fsync".into()).expect("a warning"),
            "ignoring unknown core.fsyncMethod value 'Fsync'"
        );
        assert_eq!(fsync.method, Method::Batch);
        assert!(!fsync.hardens(Components::LOOSE_OBJECT));
        fsync.set_object_files(true);
        assert!(fsync.hardens(Components::LOOSE_OBJECT));
        assert!(!fsync.batches(), "core.fsync does not name loose objects");
        fsync.set_components("loose-object".into());
        assert!(fsync.batches());
        fsync.disabled = true;
        assert!(!fsync.hardens(Components::PACK));
    }
}
