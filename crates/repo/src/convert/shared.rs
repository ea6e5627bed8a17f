//! The state that all workers share: configuration, attribute files, and the action for the
//! attributes of a path.

use std::{
    collections::{HashMap, HashSet},
    io::Read as _,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

use bstr::{BStr, BString, ByteSlice};
use format::{
    HashKind,
    index::{Index, Stage},
    keys::{self, AutoCrlf, BoolOr},
};

use super::{
    attributes::{CRLF, ENCODING, EOL, FILTER, File, IDENT, MAX_FILE, Names, RawFile, State, TEXT, Values},
    encoding,
    filter::{self, Driver, Metadata},
    lfs,
    storing::Storing,
    text::LineEnds,
};
use objects::{Kind, Objects};

use crate::{Attempt, ConfigError, ConvertError, Error, Repository, disk};

/// The precedence of attribute files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// The index first, then the worktree.
    Checkout,
    /// The index alone.
    Tree,
    /// The worktree in its state before the command writes, then the index.
    Restore,
    /// The worktree first, then the index.
    Compare,
}

/// The settings and attribute files of an index and a configuration.
pub(super) struct Shared {
    pub(super) objects: Arc<Objects>,
    pub(super) hash: HashKind,
    pub(super) direction: Direction,
    pub(super) worktree: Option<sys::Dir>,
    /// The names at the top of the worktree when the checkout began. Below other names, the only
    /// attribute files are those that the checkout has written.
    pub(super) present: Option<HashSet<Vec<u8>>>,
    /// The built-in file, the system's and the user's, weakest first.
    pub(super) weakest: Vec<RawFile>,
    pub(super) info: RawFile,
    /// The `.gitattributes` files of the index, by directory. When restoring, files of the worktree
    /// replace them.
    pub(super) indexed: HashMap<BString, RawFile>,
    /// The attribute files that were added later, below the top. `None` if none can be added.
    pub(super) arrived: Option<RwLock<HashMap<BString, Arc<File>>>>,
    pub(super) settings: Settings,
    pub(super) drivers: Vec<Driver>,
    pub(super) filters: filter::Environment,
    pub(super) lfs: Option<lfs::Store>,
    pub(super) metadata: Metadata,
    /// The index, when comparing. Conversions that depend on a guess look at its blobs.
    pub(super) index: Option<Index>,
    /// The checks of content that will be stored.
    pub(super) storing: Option<Storing>,
    pub(super) tables: OnceLock<Tables>,
}

pub(super) struct Settings {
    /// `core.autocrlf`: the conversion of paths without attributes.
    pub(super) auto: LineEnds,
    /// The conversion of text without an attribute about line ends.
    pub(super) native: LineEnds,
    pub(super) fold_case: bool,
}

/// The attribute files, compiled after all macros are known.
pub(super) struct Tables {
    pub(super) names: Names,
    pub(super) weakest: Vec<File>,
    pub(super) info: File,
    pub(super) indexed: HashMap<BString, Arc<File>>,
    pub(super) root: Option<Arc<File>>,
    /// True if no path needs conversion.
    pub(super) idle: bool,
}

/// The conversion of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Action {
    pub(super) ident: bool,
    pub(super) ends: LineEnds,
    /// True if Git would stream the blob.
    pub(super) streamed: bool,
    pub(super) encoding: Option<BString>,
    /// The position in [`Shared::drivers`].
    pub(super) driver: Option<usize>,
}

impl Action {
    /// Returns true if the bytes stay as they are in both directions.
    pub(super) fn is_none(&self) -> bool {
        !self.ident && self.ends == LineEnds::Keep && self.encoding.is_none() && self.driver.is_none()
    }
}

impl Settings {
    fn of(repo: &Repository) -> Result<Settings, Error> {
        let auto = match repo.config(&keys::core::AUTOCRLF)? {
            BoolOr::Word(AutoCrlf::Input) => LineEnds::AutoLf,
            BoolOr::Bool(true) => LineEnds::AutoCrLf,
            BoolOr::Bool(false) => LineEnds::Keep,
        };
        let wants_crlf =
            repo.config_str(&keys::core::EOL).is_some_and(|eol| eol.eq_ignore_ascii_case(b"crlf"));
        let native = match auto {
            LineEnds::AutoCrLf => LineEnds::CrLf,
            LineEnds::AutoLf => LineEnds::Lf,
            _ if wants_crlf => LineEnds::CrLf,
            _ => LineEnds::Lf,
        };
        Ok(Settings { auto, native, fold_case: repo.config(&keys::core::IGNORE_CASE)? })
    }
}

/// Reads the attribute files outside of the worktree, weakest first.
fn weakest(repo: &Repository) -> Result<Vec<RawFile>, Error> {
    let found = weakest_paths(repo)?;
    Ok(std::iter::once(RawFile::built_in()).chain(found.iter().map(|path| read(path))).collect())
}

/// Returns the paths of the system's and the user's attribute file.
fn weakest_paths(repo: &Repository) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    if !repo.env().boolean("GIT_ATTR_NOSYSTEM")?.unwrap_or(false) {
        files.push("/etc/gitattributes".into());
    }
    let user = match repo.config_path(&keys::core::ATTRIBUTES_FILE)? {
        Some(path) => Some(path),
        None => repo.env().xdg_config("attributes"),
    };
    files.extend(user.and_then(|path| path.resolve(repo.base_dir()).ok()));
    Ok(files)
}

/// Returns the content of each attribute file that belongs to no tree: the system's, the user's and
/// `info/attributes`. A file that cannot be read counts as empty, as for a conversion.
pub fn outside_attributes(repo: &Repository) -> Result<Vec<BString>, Error> {
    let mut paths = weakest_paths(repo)?;
    paths.push(info_path(repo));
    let content = |path: &PathBuf| disk::read_optional(path).ok().flatten().unwrap_or_default();
    Ok(paths.iter().map(|path| content(path).into()).collect())
}

fn info_path(repo: &Repository) -> PathBuf {
    repo.common_dir().join("info/attributes")
}

/// Reads a file. A file that cannot be read sets no attributes.
fn read(path: &Path) -> RawFile {
    let bytes = disk::read_optional(path).ok().flatten();
    bytes.map_or_else(RawFile::default, |bytes| RawFile::parse(&bytes, true))
}

fn indexed(repo: &Repository, index: &Index) -> Result<HashMap<BString, RawFile>, Error> {
    const NAME: &[u8] = b".gitattributes";
    let mut found = HashMap::new();
    let mut reader = repo.objects().reader();
    for at in index.files_named(NAME) {
        let entry = index.entry(at);
        // An unmerged path is represented by stage 2 ("ours").
        if !matches!(entry.stage, Stage::Normal | Stage::Ours) {
            continue;
        }
        let dir = &index.path(&entry)[..index.directory_at(at)];
        let dir = dir.strip_suffix(b"/").unwrap_or(dir);
        let (kind, bytes) =
            reader.read(&entry.oid).map_err(|error| ConvertError::Attributes(Arc::new(error)))?;
        if kind == Kind::Blob {
            found.insert(dir.into(), RawFile::parse(bytes, dir.is_empty()));
        }
    }
    Ok(found)
}

impl Shared {
    /// Reads everything except the worktree's attribute files.
    pub(super) fn load(repo: &Repository, index: &Index, direction: Direction) -> Result<Shared, Error> {
        for (name, given) in [
            ("GIT_ATTR_SOURCE", repo.env().bytes("GIT_ATTR_SOURCE").is_some()),
            (keys::attr::TREE.name(), repo.config_str(&keys::attr::TREE).is_some()),
        ] {
            if given {
                return Err(ConfigError::AttributesFromTree(name).into());
            }
        }
        let worktree = match repo.work_tree().filter(|_| direction != Direction::Tree) {
            Some(top) => Some(sys::Dir::open(top).map_err(Attempt::Access.on(top))?),
            None => None,
        };
        let present = match (&worktree, direction) {
            (Some(dir), Direction::Checkout) => {
                dir.list().ok().map(|names| names.into_iter().map(|(name, _)| name).collect())
            }
            _ => None,
        };
        let settings = Settings::of(repo)?;
        let keeps_index = direction == Direction::Compare;
        let drivers = filter::drivers(repo)?;
        Ok(Shared {
            objects: Arc::clone(&repo.objects),
            hash: repo.hash(),
            direction,
            worktree,
            present,
            weakest: weakest(repo)?,
            info: read(&info_path(repo)),
            indexed: indexed(repo, index)?,
            arrived: None,
            settings,
            lfs: lfs::Store::of(repo, &drivers, index)?,
            drivers,
            filters: filter::Environment::of(repo),
            metadata: Metadata::default(),
            index: keeps_index.then(|| index.entries_only()),
            storing: None,
            tables: OnceLock::new(),
        })
    }

    /// Replaces attribute files of the index by those of the worktree, except in `renewed`
    /// directories.
    pub(super) fn prefer_worktree(&mut self, renewed: impl Fn(&[u8]) -> bool) {
        let mut indexed = std::mem::take(&mut self.indexed);
        for (dir, file) in indexed.iter_mut().filter(|(dir, _)| !renewed(dir)) {
            if let Some(found) = self.in_worktree(dir.as_bstr()) {
                *file = found;
            }
        }
        self.indexed = indexed;
    }
}

impl Shared {
    /// Returns the compiled attribute files. They are read and compiled when the first path is
    /// looked up.
    pub(super) fn tables(&self) -> &Tables {
        self.tables.get_or_init(|| {
            let root = match self.direction {
                Direction::Compare => self.in_worktree(BStr::new("")),
                _ if self.indexed.contains_key(BStr::new("")) => None,
                Direction::Checkout | Direction::Tree | Direction::Restore => self.in_worktree(BStr::new("")),
            };
            let root = root.as_ref().or_else(|| self.indexed.get(BStr::new("")));
            let names = Names::of(self.weakest.iter().chain(root).chain([&self.info]));
            let compile = |file| names.compile(file);
            let indexed: HashMap<_, _> =
                self.indexed.iter().map(|(dir, file)| (dir.clone(), Arc::new(compile(file)))).collect();
            let weakest: Vec<_> = self.weakest.iter().map(compile).collect();
            let info = compile(&self.info);
            let root = root.map(|root| Arc::new(compile(root)));
            let nothing_elsewhere = match &self.present {
                Some(present) => !present.iter().any(|name| name != b".git"),
                None => self.worktree.is_none(),
            };
            let idle = nothing_elsewhere
                && self.arrived.is_none()
                && self.settings.auto == LineEnds::Keep
                && info.is_empty()
                && weakest.iter().chain(root.as_deref()).all(File::is_empty)
                && indexed.values().all(|file| file.is_empty());
            Tables { names, weakest, info, indexed, root, idle }
        })
    }

    /// Reads the attribute file of a directory of the worktree; `None` if there is none.
    fn in_worktree(&self, dir: &BStr) -> Option<RawFile> {
        let top = dir.split_str("/").next().unwrap_or_default();
        if !top.is_empty() && self.present.as_ref().is_some_and(|present| !present.contains(top)) {
            return None;
        }
        let mut path = dir.to_vec();
        if !dir.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(b".gitattributes");
        let mut bytes = Vec::new();
        let mut file = self.worktree.as_ref()?.open_file(&path).ok()?;
        if sys::stat_of(&file).ok()?.size >= MAX_FILE {
            return None;
        }
        file.read_to_end(&mut bytes).ok()?;
        Some(RawFile::parse(&bytes, dir.is_empty()))
    }

    /// Returns the attribute file that has precedence in a directory below the top.
    pub(super) fn file_of(&self, tables: &Tables, dir: &BStr) -> Option<Arc<File>> {
        let arrived =
            || self.arrived.as_ref()?.read().unwrap_or_else(PoisonError::into_inner).get(dir).cloned();
        let indexed = || tables.indexed.get(dir).cloned().or_else(arrived);
        let worktree = || self.in_worktree(dir).map(|raw| Arc::new(tables.names.compile(&raw)));
        match self.direction {
            Direction::Checkout | Direction::Tree | Direction::Restore => indexed().or_else(worktree),
            Direction::Compare => worktree().or_else(indexed),
        }
    }

    /// Returns the action for the attributes of a path.
    pub(super) fn action(&self, values: &Values) -> Result<Action, Error> {
        let kind = Text::of(values);
        let ends = match kind {
            Text::Undefined => self.settings.auto,
            Text::Binary => LineEnds::Keep,
            Text::Always => self.settings.native,
            Text::Lf => LineEnds::Lf,
            Text::CrLf => LineEnds::CrLf,
            Text::Auto if self.settings.native == LineEnds::CrLf => LineEnds::AutoCrLf,
            Text::Auto | Text::AutoLf => LineEnds::AutoLf,
            Text::AutoCrLf => LineEnds::AutoCrLf,
        };
        let encoding = match values.get(ENCODING) {
            Some(State::Set) => {
                return Err(ConvertError::EncodingWithoutName.into());
            }
            Some(State::Value(name)) if !name.is_empty() && !encoding::is_utf8(name.as_bstr()) => {
                Some(name.clone())
            }
            _ => None,
        };
        let driver = match values.get(FILTER) {
            Some(State::Value(name)) => self.drivers.iter().position(|driver| driver.name == *name),
            _ => None,
        };
        let guessed = matches!(kind, Text::Auto | Text::AutoCrLf)
            || kind == Text::Undefined && ends == LineEnds::AutoCrLf;
        let filtered = driver.is_some_and(|at: usize| self.drivers[at].has_command());
        let streamed = !guessed && !filtered && encoding.is_none();
        let ident = values.get(IDENT) == Some(&State::Set);
        Ok(Action { ident, ends, streamed, encoding, driver })
    }
}

impl Action {
    /// Returns the driver that a checkout runs. Git streams some files, and for these ignores
    /// drivers without a command even if they are required.
    pub(super) fn smudge_driver(&self) -> Option<usize> {
        self.driver.filter(|_| !self.streamed)
    }
}

/// The attributes of a path that concern line ends.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Text {
    Undefined,
    Binary,
    Always,
    Lf,
    CrLf,
    Auto,
    AutoLf,
    AutoCrLf,
}

impl Text {
    pub(super) fn of(values: &Values) -> Text {
        let text = |attribute| match values.get(attribute) {
            Some(State::Set) => Text::Always,
            Some(State::Unset) => Text::Binary,
            Some(State::Value(value)) if value == "input" => Text::Lf,
            Some(State::Value(value)) if value == "auto" => Text::Auto,
            _ => Text::Undefined,
        };
        let mut kind = text(TEXT);
        if kind == Text::Undefined {
            kind = text(CRLF);
        }
        if kind != Text::Binary
            && let Some(State::Value(eol)) = values.get(EOL)
        {
            kind = match (eol.as_slice(), kind) {
                (b"lf", Text::Auto) => Text::AutoLf,
                (b"crlf", Text::Auto) => Text::AutoCrLf,
                (b"lf", _) => Text::Lf,
                (b"crlf", _) => Text::CrLf,
                (_, kind) => kind,
            };
        }
        kind
    }

    /// Describes them as `ls-files --eol` does.
    pub(super) fn describe(self) -> &'static str {
        match self {
            Text::Undefined => "",
            Text::Binary => "-text",
            Text::Always => "text",
            Text::Lf => "text eol=lf",
            Text::CrLf => "text eol=crlf",
            Text::Auto => "text=auto",
            Text::AutoLf => "text=auto eol=lf",
            Text::AutoCrLf => "text=auto eol=crlf",
        }
    }
}

impl Shared {
    /// Returns the blob of a path in the index. An unmerged path is represented by stage 2
    /// ("ours").
    pub(super) fn indexed_blob(&self, path: &BStr) -> Option<Vec<u8>> {
        let index = self.index.as_ref()?;
        let at = [Stage::Normal, Stage::Ours].iter().find_map(|stage| index.position(path, *stage).ok())?;
        match self.objects.reader().read(&index.entry(at).oid) {
            Ok((Kind::Blob, bytes)) => Some(bytes.to_vec()),
            _ => None,
        }
    }
}
