//! Reads the imports between the modules of a crate from its sources, and finds import cycles.
//!
//! An import is a path in a `use` line or in an expression that begins with `crate`, `super`,
//! `self` or the name of a child module. It leads to the file that defines the item: re-exports and
//! the imports of parent modules are followed. Test code (`#[cfg(test)]`) is left out, and so are
//! names that macros expand to.

pub mod layers;
mod source;
mod tokens;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::Path,
};

use source::Source;

/// One import of a file by another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Import {
    /// The importing file, relative to the source root, e.g. `status/mod.rs`.
    pub from: String,
    /// The file that defines the imported item.
    pub to: String,
    /// The line of the import in `from`.
    pub line: usize,
    /// The import path relative to the file's own module, e.g. `super::plan::Plan`.
    pub path: String,
}

impl fmt::Display for Import {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {} ({})", self.from, self.line, self.path, self.to)
    }
}

/// A cycle: files or directories that import each other, directly or through others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circle {
    /// The members, sorted.
    pub members: Vec<String>,
    /// One import for each pair of members with an import.
    pub imports: Vec<Import>,
}

impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "circle of {}: {}", self.members.len(), self.members.join(", "))?;
        self.imports.iter().try_for_each(|import| writeln!(f, "    {import}"))
    }
}

/// All imports of one crate.
#[derive(Debug)]
pub struct Imports {
    files: Vec<String>,
    imports: Vec<Import>,
}

impl Imports {
    /// Reads all modules below `root`, a crate's `src` directory. Binaries below `bin/` are left
    /// out.
    pub fn read(root: &Path) -> Imports {
        let sources = Sources::read(root);
        let mut imports = BTreeSet::new();
        for (module, source) in &sources.0 {
            for used in &source.paths {
                let Some(to) = sources.resolve(module, &used.segments, 0) else { continue };
                if to.file != source.file {
                    let (from, to) = (source.file.clone(), to.file.clone());
                    imports.insert(Import { from, to, line: used.line, path: used.segments.join("::") });
                }
            }
        }
        let files = sources.0.values().map(|source| source.file.clone()).collect();
        Imports { files, imports: imports.into_iter().collect() }
    }

    /// The files, relative to the source root.
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// The imports, sorted by importing file.
    pub fn all(&self) -> &[Import] {
        &self.imports
    }

    /// Returns the cycles between files, largest first.
    pub fn circles(&self) -> Vec<Circle> {
        self.circles_of(str::to_owned)
    }

    /// Returns the cycles between modules. A module is given by the first `depth` parts of a file's
    /// module path: at depth 1, `status/scan/mod.rs` belongs to `status` and `guard.rs` to `guard`.
    /// The crate root is left out.
    pub fn circles_at(&self, depth: usize) -> Vec<Circle> {
        self.circles_of(|file| module_at(file, depth))
    }

    /// Returns the cycles between groups of files, largest first. `group` returns the group of a
    /// file; a file whose group is the empty string is left out.
    pub fn circles_of(&self, group: impl Fn(&str) -> String) -> Vec<Circle> {
        let mut edges: BTreeMap<(String, String), &Import> = BTreeMap::new();
        for import in &self.imports {
            let (from, to) = (group(&import.from), group(&import.to));
            if from != to && !from.is_empty() && !to.is_empty() {
                edges.entry((from, to)).or_insert(import);
            }
        }
        let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (from, to) in edges.keys() {
            next.entry(from).or_default().push(to);
        }
        let mut circles: Vec<Circle> = components(&next)
            .into_iter()
            .map(|members| {
                let is_within = |(from, to): &(String, String)| {
                    members.contains(&from.as_str()) && members.contains(&to.as_str())
                };
                let imports = edges.iter().filter(|(edge, _)| is_within(edge));
                Circle {
                    imports: imports.map(|(_, import)| (*import).clone()).collect(),
                    members: members.iter().map(|&member| member.to_owned()).collect(),
                }
            })
            .collect();
        circles.sort_by_key(|circle| (std::cmp::Reverse(circle.members.len()), circle.members.clone()));
        circles
    }

    /// Returns the imports from a lower floor to a higher one. `floor` returns a file's floor, from
    /// 0 upwards, or `None` for a file that belongs to no floor.
    pub fn upward(&self, floor: impl Fn(&str) -> Option<usize>) -> Vec<&Import> {
        let is_upward = |import: &&Import| match (floor(&import.from), floor(&import.to)) {
            (Some(from), Some(to)) => from < to,
            _ => false,
        };
        self.imports.iter().filter(is_upward).collect()
    }
}

/// Returns the first `depth` parts of a file's module path, joined by `/`; the empty string for the
/// crate root.
pub fn module_at(file: &str, depth: usize) -> String {
    let module = module_of(file);
    module[..module.len().min(depth)].join("/")
}

/// Returns the module path of a file: `[]` for the crate root.
fn module_of(file: &str) -> Vec<String> {
    let mut parts: Vec<String> = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    let is_root = parts.len() == 1 && (parts[0] == "lib" || parts[0] == "main");
    if is_root || parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    parts
}

/// Returns the strongly connected components with more than one member, each sorted: Tarjan's
/// algorithm.
fn components<'n>(next: &BTreeMap<&'n str, Vec<&'n str>>) -> Vec<Vec<&'n str>> {
    #[derive(Default)]
    struct Search<'n> {
        numbers: BTreeMap<&'n str, usize>,
        stack: Vec<&'n str>,
        found: Vec<Vec<&'n str>>,
    }
    fn visit<'n>(node: &'n str, next: &BTreeMap<&'n str, Vec<&'n str>>, search: &mut Search<'n>) -> usize {
        let number = search.numbers.len();
        search.numbers.insert(node, number);
        search.stack.push(node);
        let mut lowest = number;
        for &to in next.get(node).into_iter().flatten() {
            match search.numbers.get(to) {
                None => lowest = lowest.min(visit(to, next, search)),
                Some(&seen) if search.stack.contains(&to) => lowest = lowest.min(seen),
                Some(_) => {}
            }
        }
        if lowest == number {
            let at = search.stack.iter().position(|&member| member == node).expect("it was pushed above");
            let mut members = search.stack.split_off(at);
            if members.len() > 1 {
                members.sort_unstable();
                search.found.push(members);
            }
        }
        lowest
    }
    let mut search = Search::default();
    for &node in next.keys() {
        if !search.numbers.contains_key(node) {
            visit(node, next, &mut search);
        }
    }
    search.found
}

/// The sources of a crate by their module paths.
struct Sources(BTreeMap<Vec<String>, Source>);

impl Sources {
    fn read(root: &Path) -> Sources {
        let mut files = Vec::new();
        list(root, "", &mut files);
        let mut sources: BTreeMap<Vec<String>, Source> = BTreeMap::new();
        for file in files {
            let text = std::fs::read_to_string(root.join(&file)).expect("a source file is UTF-8");
            let module = module_of(&file);
            sources.insert(module, Source::parse(file, &text));
        }
        // Files of test modules, and the files below them.
        let tests: Vec<Vec<String>> = sources
            .iter()
            .flat_map(|(module, source)| {
                let named = |test: &String| module.iter().chain([test]).cloned().collect();
                source.test_modules.iter().map(named)
            })
            .collect();
        let test_files: BTreeSet<String> = sources.values().flat_map(Source::test_files).collect();
        sources.retain(|module, source| {
            !tests.iter().any(|test| module.starts_with(test)) && !test_files.contains(&source.file)
        });
        Sources(sources)
    }

    /// Returns the file that defines the item at `path`, as seen from `module`; `None` for an item
    /// of another crate.
    fn resolve(&self, module: &[String], path: &[String], depth: usize) -> Option<&Source> {
        /// A longer chain of re-exports must be a cycle.
        const MOST_REEXPORTS: usize = 16;
        let here = self.0.get(module)?;
        let (mut at, rest) = match path.first()?.as_str() {
            "crate" => (Vec::new(), &path[1..]),
            "self" => (module.to_vec(), &path[1..]),
            "super" => {
                let up = path.iter().take_while(|part| *part == "super").count();
                (module[..module.len().checked_sub(up)?].to_vec(), &path[up..])
            }
            child if here.child_modules.contains(child) => (module.to_vec(), path),
            _ => return None,
        };
        let mut rest = rest;
        while let Some(part) = rest.first() {
            at.push(part.clone());
            if !self.0.contains_key(&at) {
                at.pop();
                break;
            }
            rest = &rest[1..];
        }
        let found = self.0.get(&at)?;
        let Some(item) = rest.first() else { return Some(found) };
        if found.defines(item) || depth == MOST_REEXPORTS {
            return Some(found);
        }
        let follow = |target: &[String]| {
            let target: Vec<String> = target.iter().chain(&rest[1..]).cloned().collect();
            self.resolve(&at, &target, depth + 1)
        };
        match found.uses.get(item) {
            Some(target) => follow(target),
            None => {
                let mut globs = found.globs.iter().filter_map(|glob| {
                    let with_item: Vec<String> = glob.iter().chain(rest).cloned().collect();
                    let source = self.resolve(&at, &with_item, depth + 1)?;
                    source.defines(item).then_some(source)
                });
                globs.next().or(Some(found))
            }
        }
    }
}

/// Lists the source files below `root`, relative to it.
fn list(root: &Path, below: &str, files: &mut Vec<String>) {
    let entries = std::fs::read_dir(root.join(below)).expect("a source directory can be listed");
    for entry in entries {
        let name = entry.expect("a source directory can be listed").file_name();
        let name = name.to_str().expect("a source file's name is UTF-8");
        let path = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
        match root.join(&path).is_dir() {
            true if path == "bin" => {}
            true => list(root, &path, files),
            false if name.ends_with(".rs") => files.push(path),
            false => {}
        }
    }
    files.sort();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(files: &[(&str, &str)]) -> Imports {
        let root = tempfile::tempdir().expect("a temporary directory");
        for (file, text) in files {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().expect("it has one")).expect("it is new");
            std::fs::write(path, text).expect("it is new");
        }
        Imports::read(root.path())
    }

    fn members(circles: &[Circle]) -> Vec<Vec<&str>> {
        circles.iter().map(|circle| circle.members.iter().map(String::as_str).collect()).collect()
    }

    #[test]
    fn finds_circles_of_files_and_of_directories() {
        let imports = read(&[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a/mod.rs", "mod one; pub use one::One;"),
            ("a/one.rs", "use crate::b::{self, two::{Two as Other, *}};"),
            ("b/mod.rs", "pub mod two; fn f() { crate::c::g() }"),
            ("b/two.rs", "use std::fmt; pub struct Two;"),
            ("c.rs", "pub fn g() -> super::a::One {}"),
        ]);
        let said: Vec<String> = imports.all().iter().map(Import::to_string).collect();
        assert!(said.contains(&"c.rs:1: super::a::One (a/one.rs)".to_owned()), "{said:?}");
        assert_eq!(members(&imports.circles()), [vec!["a/one.rs", "b/mod.rs", "c.rs"]]);
        assert_eq!(members(&imports.circles_at(1)), [vec!["a", "b", "c"]]);
        let floor = |file: &str| ["c", "b", "a"].iter().position(|name| *name == module_at(file, 1));
        let upward: Vec<&str> = imports.upward(floor).iter().map(|import| import.from.as_str()).collect();
        assert_eq!(upward, ["c.rs"]);
    }

    #[test]
    fn follows_imports_of_parents_and_glob_reexports() {
        let imports = read(&[
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "mod x; mod y; mod z; use x::X; pub use z::*;"),
            ("a/x.rs", "pub struct X;"),
            ("a/y.rs", "use super::X; use super::Z;"),
            ("a/z.rs", "pub enum Z {}"),
            ("b.rs", "use crate::a::Z;"),
        ]);
        let pairs: Vec<(&str, &str)> =
            imports.all().iter().map(|import| (import.from.as_str(), import.to.as_str())).collect();
        assert!(pairs.contains(&("a/y.rs", "a/x.rs")) && pairs.contains(&("b.rs", "a/z.rs")), "{pairs:?}");
        assert!(
            pairs.contains(&("a/y.rs", "a/z.rs")) && !pairs.contains(&("a/y.rs", "a/mod.rs")),
            "{pairs:?}"
        );
        assert_eq!(members(&imports.circles()), Vec::<Vec<&str>>::new());
    }

    #[test]
    fn leaves_out_tests_comments_and_strings() {
        let imports = read(&[
            ("lib.rs", "mod a; mod b; #[cfg(test)] mod c;"),
            (
                "a.rs",
                r##"// use crate::b::B;
                /* use crate::b::B; /* nested */ */
                const TEXT: &str = "use crate::b::B;"; const RAW: &str = r#"" crate::b::B"#;
                const QUOTE: char = '"'; fn f<'a>(x: &'a str) -> char { '\'' }
                #[cfg(test)] use crate::b::B;
                #[cfg(test)]
                #[allow(unused)]
                mod tests { use crate::b::B; }
                #[cfg(test)]
                #[path = "a_tests.rs"]
                mod more_tests;
                pub struct A;"##,
            ),
            ("a_tests.rs", "use crate::b::B;"),
            ("b.rs", "pub struct B; mod inner { use super::super::a::A; }"),
            ("c.rs", "use crate::{a, b};"),
        ]);
        let said: Vec<String> = imports.all().iter().map(Import::to_string).collect();
        assert_eq!(said, ["b.rs:1: super::a::A (a.rs)"]);
        assert_eq!(imports.files(), ["lib.rs", "a.rs", "b.rs"]);
    }
}
