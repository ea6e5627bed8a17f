//! Checks of the layers of a library: no import points upwards, modules do not import each other in
//! a circle, and nothing is imported from the crate root, which only re-exports.

use std::path::Path;

use super::{Imports, module_at};

/// The layer of modules that the list of layers does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    /// There are none.
    None,
    /// They are above all layers.
    Top,
}

/// The modules of a crate, in layers.
#[derive(Clone, Copy, Debug)]
pub struct Layers<'l> {
    /// The directory of the crate's manifest.
    pub crate_dir: &'l str,
    /// The layers from top to bottom.
    pub layers: &'l [&'l [&'l str]],
    /// The layer of all other modules.
    pub others: Others,
}

impl Layers<'_> {
    /// Panics with the imports that break a rule, if there are any.
    #[track_caller]
    pub fn check(&self) {
        let imports = Imports::read(&Path::new(self.crate_dir).join("src"));
        let floor = |file: &str| {
            let module = module_at(file, 1);
            let below = self.layers.iter().rev().position(|layer| layer.contains(&module.as_str()));
            let other = self.others == Others::Top && !module.is_empty();
            below.or_else(|| other.then_some(self.layers.len()))
        };
        let unknown: Vec<&String> =
            imports.files().iter().filter(|file| *file != "lib.rs" && floor(file).is_none()).collect();
        assert!(unknown.is_empty(), "files without a layer: {unknown:?}");
        none(imports.upward(floor), "imports of a higher layer");
        none(imports.circles_at(1), "modules that import each other");
        let from_root = imports.all().iter().filter(|import| import.to == "lib.rs");
        none(from_root, "items that belong in a module");
    }
}

#[track_caller]
fn none(found: impl IntoIterator<Item = impl ToString>, what: &str) {
    let lines: Vec<String> = found.into_iter().map(|one| one.to_string()).collect();
    assert!(lines.is_empty(), "{what}:\n{}", lines.join("\n"));
}
