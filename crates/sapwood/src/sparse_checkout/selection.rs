//! The current selection, its settings, and the patterns of a new one.

use std::{os::unix::ffi::OsStrExt as _, path::PathBuf};

use bstr::{BStr, BString, ByteSlice as _};
use engine::{
    guard::Guard,
    pathspec,
    sparse::{self, Cone, Patterns},
};
use format::{config::Edit, index::Stage};
use repo::{keys, keys::Key};
use sys::Dir;

use crate::{
    Context, Error, Notice,
    index::load_raw,
    sparse_index::{self, Expansion, ExpansionHint, Read},
    text, worktree_config,
};

/// The patterns for the files of the root directory.
pub(super) const TOP: &[u8] = b"/*\n!/*/\n";

/// The selection of a worktree, and its settings.
#[derive(Clone)]
pub struct Selection<'a> {
    pub(super) context: Context<'a>,
    /// `core.sparseCheckout`
    pub on: bool,
    /// `core.sparseCheckoutCone`
    pub cone: bool,
    /// `core.ignoreCase`
    pub(super) icase: bool,
    /// `index.sparse`
    pub(super) sparse_index: bool,
    /// `extensions.worktreeConfig`
    has_worktree_config: bool,
    /// True to report the progress.
    pub progress: bool,
    /// The directory in which the program was started, relative to the root of the worktree.
    pub original_cwd: Option<BString>,
}

/// The values of `core.sparseCheckout` and `core.sparseCheckoutCone`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Off,
    Patterns,
    Cone,
}

/// The names of directories, or patterns, of a caller.
#[derive(Clone, Debug)]
pub enum Words {
    /// As they are.
    Names(Vec<BString>),
    /// Lines of a file, in which the names of directories may be quoted.
    Lines(Vec<BString>),
}

impl Words {
    fn as_slice(&self) -> &[BString] {
        match self {
            Words::Names(words) | Words::Lines(words) => words,
        }
    }
}

/// Returns a line without its quotes.
pub fn unquoted(line: &BString) -> Result<BString, Error> {
    if line.first() != Some(&b'"') {
        return Ok(line.clone());
    }
    match format::unquote(line) {
        Some((name, [])) => Ok(name),
        _ => Err(Error::Failed(text!("unable to unquote C-style string '", line, "'"))),
    }
}

impl<'a> Selection<'a> {
    /// Reads the settings.
    pub fn of(context: Context<'a>) -> Result<Selection<'a>, Error> {
        let repo = context.repo;
        Ok(Selection {
            context,
            on: sparse::is_on(repo)?,
            cone: repo.config(&keys::core::SPARSE_CHECKOUT_CONE)?,
            icase: repo.config(&keys::core::IGNORE_CASE)?,
            sparse_index: repo.config(&keys::index::SPARSE)?,
            has_worktree_config: repo.extensions().worktree_config,
            progress: true,
            original_cwd: None,
        })
    }

    /// Replaces the context: another receiver gets the reports from now on.
    pub(super) fn with_context<'b>(self, context: Context<'b>) -> Selection<'b> {
        let Selection { on, cone, icase, sparse_index, has_worktree_config, progress, original_cwd, .. } =
            self;
        Selection { context, on, cone, icase, sparse_index, has_worktree_config, progress, original_cwd }
    }

    /// Returns an error for a worktree that is missing, or that contains what must not change.
    pub(super) fn must_be_changeable(&self) -> Result<(), Error> {
        let repo = self.context.repo;
        let top = repo.work_tree().filter(|top| Dir::open(top).is_ok()).ok_or(Error::NoWorktree)?;
        Ok(Guard::of(repo, top).map(drop)?)
    }

    /// Returns an error with this text if all files are selected.
    pub fn must_be_on(&self, otherwise: &str) -> Result<(), Error> {
        if self.on { Ok(()) } else { Err(Error::failed(otherwise)) }
    }

    /// Returns the file with the patterns.
    pub fn file(&self) -> PathBuf {
        sparse::path(self.context.repo)
    }

    /// Reads the file with the patterns, and reports its warnings.
    pub fn load(&self) -> Result<Option<Patterns>, Error> {
        let Some(loaded) = Patterns::read(&self.file(), self.cone, self.icase)? else { return Ok(None) };
        self.warn(&loaded.warnings);
        Ok(Some(loaded.patterns))
    }

    /// Like [`Selection::load`]; a missing file is an error.
    pub fn existing(&self) -> Result<Patterns, Error> {
        self.load()?.ok_or_else(|| Error::failed("unable to load existing sparse-checkout patterns"))
    }

    pub(super) fn warn(&self, warnings: &[BString]) {
        warnings
            .iter()
            .for_each(|warning| self.context.events.notice(Notice::SparsePatterns(warning.clone())));
    }

    /// Selects the requested mode, the current one, or a cone, and records it if it is new; then
    /// does the same for the sparse index.
    pub fn take_mode(&mut self, cone: Option<bool>, sparse_index: Option<bool>) -> Result<(), Error> {
        let repo = self.context.repo;
        let is_new = cone.is_some() || !self.on;
        self.decide_mode(cone);
        if (is_new || sparse_index.is_some()) && repo.head()?.oid().is_some() {
            // Git changes the index last, and would fail at its lock only then.
            store::Lock::wait_until_free(&repo.index_path(), store::Wait::No)?;
        }
        if is_new {
            self.record(if self.cone { Mode::Cone } else { Mode::Patterns })?;
        }
        let Some(on) = sparse_index else { return Ok(()) };
        self.sparse_index = on;
        self.edit(&[set(keys::index::SPARSE, on)])
    }

    /// Like [`Selection::take_mode`], without recording it.
    pub fn decide_mode(&mut self, asked: Option<bool>) {
        self.cone = asked.or(self.on.then_some(self.cone)).unwrap_or(true);
        self.on = true;
    }

    pub(super) fn record(&mut self, mode: Mode) -> Result<(), Error> {
        worktree_config::begin(self.context.repo, self.context.settings)?;
        self.has_worktree_config = true;
        let mut edits = vec![
            set(keys::core::SPARSE_CHECKOUT, mode != Mode::Off),
            set(keys::core::SPARSE_CHECKOUT_CONE, mode == Mode::Cone),
        ];
        if mode == Mode::Off {
            edits.push(set(keys::index::SPARSE, false));
        }
        self.edit(&edits)
    }

    /// Changes the configuration of this worktree, or the common one without `worktreeConfig`.
    fn edit(&self, edits: &[Edit]) -> Result<(), Error> {
        let Context { repo, settings, .. } = self.context;
        let path = if self.has_worktree_config {
            repo.git_dir().join("config.worktree")
        } else {
            repo.common_dir().join("config")
        };
        Ok(store::config::edit(&path, edits, &settings.locks, &settings.fsync)?)
    }

    /// Returns the patterns that select these words and nothing else. Without patterns, these are
    /// the files of the root directory.
    pub fn selecting(&self, words: &Words) -> Result<Patterns, Error> {
        if self.cone {
            return Ok(Patterns::of_cone(self.cone_of(words)?));
        }
        if matches!(words, Words::Names(names) if names.is_empty()) {
            return Ok(self.selecting_top());
        }
        let lines = words.as_slice().iter().map(|line| &line[..]);
        Ok(Patterns::of_lines(lines, false, self.icase).patterns)
    }

    /// Returns the patterns for the files of the root directory.
    pub(super) fn selecting_top(&self) -> Patterns {
        Patterns::parse(TOP, self.cone, self.icase).patterns
    }

    /// Returns the patterns that select these words in addition to the present ones. In a cone, the
    /// words are read first; else the present patterns.
    pub fn adding<E: From<Error>>(&self, words: impl FnOnce() -> Result<Words, E>) -> Result<Patterns, E> {
        if self.cone {
            let mut cone = self.cone_of(&words()?)?;
            let Some(before) = self.existing()?.cone().cloned() else {
                let wrong = "existing sparse-checkout patterns do not use cone mode";
                return Err(Error::failed(wrong).into());
            };
            cone.join(&before);
            return Ok(Patterns::of_cone(cone));
        }
        let before = self.existing()?;
        let words = words()?;
        let all = before.lines().iter().chain(words.as_slice()).map(|line| &line[..]);
        Ok(Patterns::of_lines(all, false, self.icase).patterns)
    }

    /// Returns the cone of these directories.
    fn cone_of(&self, words: &Words) -> Result<Cone, Error> {
        let mut cone = Cone::new(self.icase);
        for word in words.as_slice() {
            let name = if matches!(words, Words::Lines(_)) { unquoted(word)? } else { word.clone() };
            let name = name.trim().trim_end_with(|letter| letter == '/');
            let below = name.trim_start_with(|letter| letter == '/').as_bstr();
            let Some(path) = pathspec::normalize(below, "".into(), "".into()) else {
                return Err(Error::Failed(text!("could not normalize path ", name)));
            };
            if !path.is_empty() {
                cone.add(text!("/", path.trim_end_with(|letter| letter == '/')).as_bstr());
            }
        }
        Ok(cone)
    }

    /// Returns the words relative to the worktree's root. Refuses words that look like a mistake,
    /// or warns of them.
    pub fn checked(&self, read: &Read, words: &[BString], skip_checks: bool) -> Result<Vec<BString>, Error> {
        let repo = self.context.repo;
        let prefix = repo.prefix();
        let mut words = words.to_vec();
        if words.is_empty() {
            return Ok(words);
        }
        if !prefix.is_empty() && self.cone {
            let root = repo.work_tree().map_or(&b""[..], |root| root.as_os_str().as_bytes()).as_bstr();
            for word in &mut words {
                *word = pathspec::normalize(word.as_bstr(), prefix, root).ok_or_else(|| {
                    Error::Failed(text!("'", word, "' is outside repository at '", root, "'"))
                })?;
            }
        }
        if skip_checks {
            return Ok(words);
        }
        if !prefix.is_empty() && !self.cone {
            return Err(Error::failed("please run from the toplevel directory in non-cone mode"));
        }
        if self.cone {
            words.iter().try_for_each(|word| must_be_directory_name(word.as_bstr()))?;
        }
        let Read { index, before, .. } = read;
        if words.iter().any(|word| sparse_index::is_collapsed(before.as_ref(), word.as_bstr())) {
            sparse_index::report_expansion(self.context, index, ExpansionHint::Print)?;
        }
        let is_file = |word: &BString| {
            let found = index.position(word.as_bstr(), Stage::Normal);
            found.is_ok_and(|at| !index.entry(at).mode.is_tree())
        };
        for word in words.iter().filter(|word| is_file(word)) {
            if self.cone {
                let anyway = "to treat it as a directory anyway, rerun with --skip-checks";
                return Err(Error::Failed(text!("'", word, "' is not a directory; ", anyway)));
            }
            self.warn(&[text!(
                "pass a leading slash before paths such as '",
                word,
                "' if you want a single file (see NON-CONE PROBLEMS in the git-sparse-checkout manual)."
            )]);
        }
        Ok(words)
    }

    /// Reads the index for lookups.
    pub fn read(&self) -> Result<Read, Error> {
        let index = load_raw(self.context.repo, self.context.settings)?;
        sparse_index::read(self.context, index, None, ExpansionHint::Print, Expansion::AtOnce)
    }
}

fn set(key: Key<bool>, on: bool) -> Edit {
    Edit::Set { key: key.name().into(), value: if on { "true" } else { "false" }.into() }
}

/// Returns an error for a name that looks like a pattern.
fn must_be_directory_name(word: &BStr) -> Result<(), Error> {
    let why = if word.starts_with(b"/") {
        " (no leading slash)"
    } else if word.starts_with(b"!") {
        ".  If your directory starts with a '!', pass --skip-checks"
    } else if word.iter().any(|byte| b"*?[]".contains(byte)) {
        ".  If your directory really has any of '*?[]\\' in it, pass --skip-checks"
    } else {
        return Ok(());
    };
    Err(Error::failed(format!("specify directories rather than patterns{why}")))
}
