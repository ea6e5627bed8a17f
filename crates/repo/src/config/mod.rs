//! Configuration, in Git's order: system, global, repository, worktree, command line. The last
//! value of a name wins.
//!
//! [`load()`] reads all sources once; later lookups do not touch the disk. A source that is missing
//! is skipped. A malformed line is an error that names file and line.

mod load;
mod parameters;
pub(crate) mod value;

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use bstr::{BStr, BString, ByteSlice};
use format::{
    config::{BadLine, normalize},
    keys::{self, BadValue, Key, Name, PathText, Typed, Value as _},
};
use sys::UserPath;

pub(crate) use format::config::parse_int;
pub use format::config::{parse_bool, parse_int as parse_number, parse_size, parse_unsigned};
pub(crate) use load::{Sources, load, load_one};
pub use parameters::config_parameters;
pub(crate) use value::bad_boolean;

use crate::{ConfigError, Env, Error, MessageSink};

/// The scope of a value, lowest precedence first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Scope {
    System,
    Global,
    Local,
    Worktree,
    Command,
}

/// The kind of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Origin {
    File,
    Stdin,
    Blob,
    CommandLine,
}

/// A source with lines.
#[derive(Debug, Default)]
struct Source {
    /// The path of the file; empty if there is no file.
    path: PathBuf,
    /// The file or blob as Git prints it.
    name: BString,
    /// `None` is a file.
    origin: Option<Origin>,
}

/// One source that is read instead of all others.
#[derive(Clone, Copy, Debug)]
pub struct OneSource<'a> {
    /// The content.
    pub bytes: &'a [u8],
    /// The path of the file; empty if there is no file.
    pub path: &'a Path,
    /// The file or blob as Git prints it.
    pub name: &'a BStr,
    /// The kind of the source.
    pub origin: Origin,
    /// The scope of its values.
    pub scope: Scope,
    /// True if includes are followed.
    pub follows_includes: bool,
}

impl Scope {
    /// Returns true if the repository cannot write the source. Only such sources decide if a
    /// repository is trusted.
    fn is_protected(self) -> bool {
        matches!(self, Scope::System | Scope::Global | Scope::Command)
    }
}

/// Context for messages about settings: the sink, and the top of the worktree, to which file names
/// are relative.
#[derive(Clone, Copy)]
pub(crate) struct MessageContext<'a> {
    pub(crate) message_sink: MessageSink,
    pub(crate) top: Option<&'a Path>,
}

/// Returns the path of a configuration file as Git prints it: relative to the top of the worktree,
/// if `.git` is there.
pub(crate) fn shown<'f>(file: &'f Path, git_dir: Option<&Path>) -> &'f Path {
    let top = git_dir.filter(|dir| dir.ends_with(".git")).and_then(Path::parent);
    top.and_then(|top| file.strip_prefix(top).ok()).unwrap_or(file)
}

/// All values of all settings.
#[derive(Debug, Default)]
pub struct Config {
    values: HashMap<BString, Vec<Entry>>,
    /// The names, in order of first appearance.
    names: Vec<BString>,
    /// The number of values.
    count: usize,
}

#[derive(Debug)]
struct Entry {
    value: Option<BString>,
    scope: Scope,
    /// `None` for the command line.
    source: Option<Arc<Source>>,
    /// The line in that file, from 1.
    line: usize,
    /// The position among all values, in the order in which they were read.
    number: usize,
}

/// A value of a setting.
#[derive(Clone, Copy, Debug)]
pub struct Configured<'c> {
    /// The name; section and variable are in lower case.
    pub key: &'c BStr,
    /// `None` for a name without `=`.
    pub value: Option<&'c BStr>,
    /// The file and line; `None` for the command line.
    pub place: Option<(&'c Path, usize)>,
    /// The kind of the source.
    pub origin: Origin,
    /// The file or blob as Git prints it; empty for other sources.
    pub source_name: &'c BStr,
    /// The scope of the source.
    pub scope: Scope,
    /// True if no later value has the same name.
    pub is_last: bool,
    /// True if the repository cannot write the source.
    is_protected: bool,
}

impl Configured<'_> {
    /// Returns Git's error about an unusable value.
    pub(crate) fn refused(&self) -> Error {
        let place = self.place.map(|(file, line)| (file.to_owned(), line));
        ConfigError::Variable { key: self.key.to_owned(), place }.into()
    }
}

impl Entry {
    /// Returns the value; the empty string for a name without `=`.
    fn text(&self) -> &BStr {
        self.value.as_ref().map_or(BStr::new(""), |value| value.as_bstr())
    }

    fn configured<'c>(&'c self, key: &'c BStr, is_last: bool) -> Configured<'c> {
        Configured {
            key,
            value: self.value.as_ref().map(|value| value.as_bstr()),
            place: self.source.as_ref().map(|source| (source.path.as_path(), self.line)),
            origin: match &self.source {
                Some(source) => source.origin.unwrap_or(Origin::File),
                None => Origin::CommandLine,
            },
            source_name: self.source.as_ref().map_or(BStr::new(""), |source| source.name.as_bstr()),
            scope: self.scope,
            is_last,
            is_protected: self.scope.is_protected(),
        }
    }
}

impl Config {
    fn push(&mut self, key: BString, entry: Entry) {
        let entry = Entry { number: self.count, ..entry };
        self.count += 1;
        if let Some(entries) = self.values.get_mut(&key) {
            entries.push(entry);
        } else {
            self.names.push(key.clone());
            self.values.insert(key, vec![entry]);
        }
    }

    /// Restores from `before` the settings that Git reads at startup, and keeps the others.
    pub(crate) fn restore_startup_settings(&mut self, mut before: Config) {
        self.values.retain(|key, _| !is_startup_setting(key));
        before.values.retain(|key, _| is_startup_setting(key));
        self.values.extend(before.values);
        let known: HashSet<BString> = self.names.iter().cloned().collect();
        self.names.extend(before.names.into_iter().filter(|name| !known.contains(name)));
        self.names.retain(|name| self.values.contains_key(name));
        self.count = self.values.values().map(Vec::len).sum();
    }

    fn entries(&self, key: &str) -> &[Entry] {
        debug_assert!(
            !is_of_format(key),
            "'{key}' is taken from the repository's own file alone: see `Extensions`"
        );
        let mut buffer = [0; 64];
        let found = match buffer.get_mut(..key.len()) {
            Some(name) => {
                name.copy_from_slice(key.as_bytes());
                normalize(name);
                self.values.get(name.as_bstr())
            }
            None => self.values.get(&normalized(key)),
        };
        found.map_or(&[], Vec::as_slice)
    }

    fn last(&self, key: &str) -> Option<&Entry> {
        self.entries(key).last()
    }

    /// Returns the last value; a name without `=` counts as empty.
    pub(crate) fn string(&self, key: &(impl Name + ?Sized)) -> Option<&BStr> {
        self.last(key.name()).map(|entry| entry.text())
    }

    /// Returns the last value; `Some(None)` for a name without `=`.
    pub(crate) fn value(&self, key: &(impl Name + ?Sized)) -> Option<Option<BString>> {
        self.last(key.name()).map(|entry| entry.value.clone())
    }

    /// Returns the last value. A name without `=` is an error: this method prints the first line of
    /// Git's message, and the error holds the second.
    pub(crate) fn string_required(
        &self,
        key: &str,
        message_context: MessageContext<'_>,
    ) -> Result<Option<&BStr>, Error> {
        match self.last(key) {
            None => Ok(None),
            Some(Entry { value: Some(value), .. }) => Ok(Some(value.as_bstr())),
            Some(entry) => {
                let key = normalized(key);
                message_context.message_sink.print([format!("error: missing value for '{key}'")]);
                let place = entry.source.as_ref().map(|source| {
                    let file = source.path.as_path();
                    let file =
                        message_context.top.and_then(|top| file.strip_prefix(top).ok()).unwrap_or(file);
                    (file.to_owned(), entry.line)
                });
                Err(ConfigError::Variable { key, place }.into())
            }
        }
    }

    pub(crate) fn all(&self, key: &(impl Name + ?Sized)) -> impl Iterator<Item = &BStr> {
        self.entries(key.name()).iter().map(|entry| entry.text())
    }

    /// Returns all values of a name from sources that the repository cannot write, in order.
    pub(crate) fn protected<T>(&self, key: &Key<T>) -> Vec<Configured<'_>> {
        let configured = self.configured_as(BStr::new(&key.lower())).into_iter();
        configured.filter(|configured| configured.is_protected).collect()
    }

    /// Returns the value of a setting, or its default.
    pub(crate) fn get<K: Typed>(&self, key: &K) -> Result<K::Value, Error> {
        let value = self.parse(key.name(), &mut |value| K::Value::parse(value))?;
        Ok(value.flatten().unwrap_or_else(|| K::Value::unset(key.default())))
    }

    /// Parses the last value of a setting. The error names the setting, and for numbers the file.
    pub(crate) fn parse<T>(
        &self,
        key: &str,
        parse: &mut dyn FnMut(Option<&BStr>) -> Result<T, BadValue>,
    ) -> Result<Option<T>, Error> {
        let Some(entry) = self.last(key) else { return Ok(None) };
        parse(entry.value.as_ref().map(|value| value.as_bstr())).map(Some).map_err(|bad| match bad {
            BadValue::Boolean => bad_boolean(entry.text(), normalized(key).as_bstr()),
            BadValue::Number(reason) => {
                let file = entry.source.as_ref().map(|source| source.path.clone());
                let (key, value) = (normalized(key), entry.text().to_owned());
                ConfigError::Number { key, value, file, reason }.into()
            }
        })
    }

    /// Returns the last value as a [`path`].
    pub(crate) fn path(
        &self,
        key: &impl Typed<Value = Option<PathText>>,
        env: &Env,
        message_context: MessageContext<'_>,
    ) -> Result<Option<UserPath>, Error> {
        let Some(value) = self.string_required(key.name(), message_context)? else { return Ok(None) };
        path(value, env)
    }

    /// Returns all names, in order of first appearance. Section and variable are in lower case.
    pub(crate) fn names(&self) -> impl Iterator<Item = &BStr> {
        self.names.iter().map(|name| name.as_bstr())
    }

    /// Returns all values, in the order in which Git reads them.
    pub fn configured(&self) -> Vec<Configured<'_>> {
        let mut all: Vec<(usize, Configured<'_>)> = Vec::with_capacity(self.count);
        for (key, entries) in &self.values {
            for (at, entry) in entries.iter().enumerate() {
                all.push((entry.number, entry.configured(key.as_bstr(), at + 1 == entries.len())));
            }
        }
        all.sort_unstable_by_key(|(number, _)| *number);
        all.into_iter().map(|(_, configured)| configured).collect()
    }

    /// Returns the values of one name, whose section and variable are in lower case, in order.
    pub fn configured_as(&self, key: &BStr) -> Vec<Configured<'_>> {
        let Some((key, entries)) = self.values.get_key_value(key) else { return Vec::new() };
        let all = entries.iter().enumerate();
        all.map(|(at, entry)| entry.configured(key.as_bstr(), at + 1 == entries.len())).collect()
    }

    /// Returns the distinct subsections of a section, in order of appearance. For `remote` these
    /// are the names of the remotes.
    pub(crate) fn subsections(&self, section: &str) -> Vec<&BStr> {
        let mut found: Vec<&BStr> = Vec::new();
        let prefix = format!("{section}.");
        for name in self.names.iter().filter_map(|name| name.strip_prefix(prefix.as_bytes())) {
            if let Some(end) = name.rfind_byte(b'.') {
                let subsection = name[..end].as_bstr();
                if !found.contains(&subsection) {
                    found.push(subsection);
                }
            }
        }
        found
    }
}

/// Returns true if Git reads the setting only from the repository's own file.
fn is_of_format(key: &str) -> bool {
    key.eq_ignore_ascii_case(keys::core::REPOSITORY_FORMAT_VERSION.name())
        || key.get(..11).is_some_and(|section| section.eq_ignore_ascii_case("extensions."))
}

/// Expands `~` in a path. `:(optional)` drops a path that does not exist.
pub fn path(value: &BStr, env: &Env) -> Result<Option<UserPath>, Error> {
    let (value, optional) = match value.strip_prefix(b":(optional)") {
        Some(rest) => (rest.as_bstr(), true),
        None => (value, false),
    };
    let path = value::interpolate(value, env).ok_or_else(|| ConfigError::HomeDirectory(value.to_owned()))?;
    let exists = || path.resolve(Path::new("")).is_ok_and(|path| path.exists());
    Ok((!optional || exists()).then_some(path))
}

/// Returns true if Git reads a setting (in lower case) once, at startup. Git looks up the other
/// settings when it needs them. Source: experiments with `git clone` and settings in a
/// conditionally included file.
fn is_startup_setting(key: &BString) -> bool {
    let is_later = keys::core::FSMONITOR.is(key.as_bstr())
        || keys::core::HOOKS_PATH.is(key.as_bstr())
        || keys::core::SPLIT_INDEX.is(key.as_bstr())
        || keys::core::SSH_COMMAND.is(key.as_bstr())
        || keys::index::THREADS.is(key.as_bstr());
    const SECTIONS: [&str; 13] = [
        "advice.",
        "attr.",
        "author.",
        "clone.",
        "color.advice",
        "committer.",
        "core.",
        "feature.",
        "i18n.",
        "index.",
        "push.",
        "sparse.",
        "user.",
    ];
    let is_in = |section: &&str| key.starts_with(section.as_bytes());
    SECTIONS.iter().any(is_in) && !is_later
}

/// Returns the error about a malformed line of `file`.
pub(crate) fn bad_line(bad: BadLine, file: &Path) -> Error {
    ConfigError::Line { line: bad.0, file: file.to_owned() }.into()
}

fn normalized(key: &str) -> BString {
    let mut name = BString::from(key);
    normalize(&mut name);
    name
}
