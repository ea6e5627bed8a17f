//! Processing the words in order.

use bstr::{BStr, BString, ByteSlice as _};
use repo::{Repository, keys, message::MINIMUM_ABBREV};
use sapwood::ObjectId;

use super::{
    UNSERVED,
    paths::Paths,
    words::{Filter, Word},
};
use crate::term::{
    console::{Listing, text},
    failure::Failure,
};

/// The form in which revisions are printed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    /// Object names.
    Objects,
    /// The names as given.
    Given,
    /// Full names of refs.
    Full,
}

/// A revision to print.
struct Revision {
    oid: ObjectId,
    /// `^name`
    is_reversed: bool,
    name: BString,
}

/// The options and the output so far.
pub(super) struct Evaluator<'a> {
    repo: &'a Repository,
    paths: Paths<'a>,
    filter: Filter,
    verify: bool,
    quiet: bool,
    /// `--short`: the minimum number of digits; `Some(None)`: as configured.
    short: Option<Option<usize>>,
    names: Names,
    /// `--abbrev-ref`; true to shorten names strictly, so that no other ref matches.
    abbreviate_refs: Option<bool>,
    quoted: bool,
    /// True after an odd number of `--not`.
    reverses: bool,
    default: Option<BString>,
    /// The revisions found with `--verify`, which allows only one.
    found: Vec<Revision>,
    out: Listing,
}

impl<'a> Evaluator<'a> {
    pub(super) fn new(repo: &'a Repository, paths: Paths<'a>) -> Evaluator<'a> {
        Evaluator {
            repo,
            paths,
            filter: Filter::default(),
            verify: false,
            quiet: false,
            short: None,
            names: Names::Objects,
            abbreviate_refs: None,
            quoted: false,
            reverses: false,
            default: None,
            found: Vec::new(),
            out: Listing::default(),
        }
    }

    /// Processes the next word.
    pub(super) fn word(&mut self, word: Word<'_>) -> Result<(), Failure> {
        match word {
            Word::Verify => self.begin_to_verify(),
            Word::Quiet => self.quiet = true,
            Word::Short(digits) => {
                self.begin_to_verify();
                self.short = Some(digits);
            }
            Word::AbbrevRef(Some(strict)) => self.abbreviate_refs = Some(strict),
            Word::AbbrevRef(None) => {
                self.abbreviate_refs = Some(self.repo.config(&keys::core::WARN_AMBIGUOUS_REFS)?);
            }
            Word::Symbolic => self.names = Names::Given,
            Word::SymbolicFullName => self.names = Names::Full,
            Word::Quoted => self.quoted = true,
            Word::Not => self.reverses = !self.reverses,
            Word::Default(name) => self.default = Some(name.to_owned()),
            Word::Filter(change) => change(&mut self.filter),
            Word::Refs { prefix, trimmed } => self.refs(prefix, trimmed)?,
            Word::PathFormat(format) => self.paths.format = format,
            Word::PathQuery(query) => {
                let value = self.paths.evaluate(query).ok_or(UNSERVED)?;
                self.out.buffer().extend_from_slice(&value);
            }
            Word::GitPath(path) => {
                let value = self.paths.git_path(path).ok_or(UNSERVED)?;
                self.out.buffer().extend_from_slice(&value);
            }
            Word::Mark(mark) if self.filter.flags || self.filter.revisions => self.file(mark)?,
            Word::Mark(_) => {}
            Word::File(file) => self.file(file)?,
            Word::Revision(spec) => self.revision(spec)?,
        }
        Ok(())
    }

    /// Processes what depends on all words, and prints the output. Returns the exit code.
    pub(super) fn finish(mut self) -> Result<u8, Failure> {
        match (self.verify, self.found.pop()) {
            (true, Some(only)) if self.found.is_empty() => self.show(&only)?,
            (true, None) if self.show_default()? => {}
            (true, _) => return self.no_single_revision(),
            (false, _) => drop(self.show_default()?),
        }
        self.out.write("standard output")?;
        Ok(0)
    }

    fn begin_to_verify(&mut self) {
        self.verify = true;
        self.filter.flags = false;
        self.filter.others = false;
    }

    fn no_single_revision(&mut self) -> Result<u8, Failure> {
        self.out.write("standard output")?;
        Err(if self.quiet { Failure::Reported(1) } else { Failure::fatal("Needed a single revision") })
    }

    fn refs(&mut self, prefix: &str, trimmed: usize) -> Result<(), Failure> {
        for (name, oid) in self.repo.refs(prefix)? {
            // Git warns of a broken ref.
            if oid.is_null() {
                return Err(UNSERVED);
            }
            self.show(&Revision { oid, is_reversed: false, name: name[trimmed..].into() })?;
        }
        Ok(())
    }

    fn revision(&mut self, spec: &BStr) -> Result<(), Failure> {
        if let Some(at) = spec.windows(2).position(|pair| pair == b"..") {
            return self.range(spec[..at].as_bstr(), spec[at + 2..].as_bstr());
        }
        let (name, is_reversed) = match spec.strip_prefix(b"^") {
            Some(name) => (name.as_bstr(), true),
            None => (spec, false),
        };
        match self.resolve(name)? {
            Some(oid) => {
                let revision = Revision { oid, is_reversed, name: name.to_owned() };
                if self.verify {
                    self.found.push(revision);
                } else {
                    self.show(&revision)?;
                }
                Ok(())
            }
            None if self.verify && self.found.is_empty() => {
                self.no_single_revision()?;
                Ok(())
            }
            // The word may be a file; otherwise Git explains why it is not one.
            None => Err(UNSERVED),
        }
    }

    /// Shows `left..right`, or `left...right` with at most one merge base.
    fn range(&mut self, left: &BStr, right: &BStr) -> Result<(), Failure> {
        let (right, is_symmetric) = match right.strip_prefix(b".") {
            Some(right) => (right.as_bstr(), true),
            None => (right, false),
        };
        if self.verify || (left.is_empty() && right.is_empty() && !is_symmetric) {
            return Err(UNSERVED);
        }
        let side = |name: &BStr| -> Result<Revision, Failure> {
            let name = if name.is_empty() { BStr::new("HEAD") } else { name };
            let oid = self.resolve(name)?.ok_or(UNSERVED)?;
            // Git prints nothing if a side is not a commit.
            self.repo.peel_to_commit(oid)?.ok_or(UNSERVED)?;
            Ok(Revision { oid, is_reversed: false, name: name.to_owned() })
        };
        let (mut left, right) = (side(left)?, side(right)?);
        left.is_reversed = !is_symmetric;
        self.show(&right)?;
        self.show(&left)?;
        if is_symmetric {
            let commit = |side: &Revision| self.repo.peel_to_commit(side.oid);
            let (Some(one), Some(other)) = (commit(&left)?, commit(&right)?) else { return Err(UNSERVED) };
            match self.repo.merge_bases(one, other)?[..] {
                [] => {}
                [base] => self.show_object(base, true)?,
                _ => return Err(UNSERVED),
            }
        }
        Ok(())
    }

    /// Resolves a revision. A revision that Git would warn about is an error.
    fn resolve(&self, name: &BStr) -> Result<Option<ObjectId>, Failure> {
        let is_quiet = self.repo.is_resolved_without_warning(name).unwrap_or(false);
        let found = self.repo.resolve(name).map_err(|_| UNSERVED)?;
        if is_quiet { Ok(found) } else { Err(UNSERVED) }
    }

    fn show(&mut self, revision: &Revision) -> Result<(), Failure> {
        if !self.filter.revisions {
            return Ok(());
        }
        self.default = None;
        if self.abbreviate_refs.is_none() && self.names == Names::Given {
            self.print_signed(revision.is_reversed, &revision.name.clone());
            return Ok(());
        }
        if self.abbreviate_refs.is_none() && self.names == Names::Objects {
            return self.show_object(revision.oid, revision.is_reversed);
        }
        let name = match &self.repo.refs_of_short_name(revision.name.as_bstr())?[..] {
            // Git prints nothing for a name that is not a ref.
            [] => return Ok(()),
            [(full, _)] => match self.abbreviate_refs {
                Some(true) => self.repo.shorten_ref_strictly(full.as_bstr())?,
                Some(false) => self.repo.shorten_ref(full.as_bstr())?,
                None => full.clone(),
            },
            _ => return Err(UNSERVED),
        };
        self.print_signed(revision.is_reversed, &name);
        Ok(())
    }

    fn show_object(&mut self, oid: ObjectId, is_reversed: bool) -> Result<(), Failure> {
        let full = self.repo.hash().hex_len();
        let name = match self.short {
            None => oid.to_string(),
            Some(None) => self.repo.abbreviate(oid)?,
            Some(Some(digits)) => self.repo.abbreviate_to(oid, digits.clamp(MINIMUM_ABBREV, full))?,
        };
        self.print_signed(is_reversed, name.as_bytes());
        Ok(())
    }

    fn show_default(&mut self) -> Result<bool, Failure> {
        let Some(name) = self.default.take() else { return Ok(false) };
        let Some(oid) = self.resolve(name.as_bstr())? else { return Ok(false) };
        self.show(&Revision { oid, is_reversed: false, name })?;
        Ok(true)
    }

    fn file(&mut self, file: &BStr) -> Result<(), Failure> {
        self.show_default()?;
        if self.filter.files && self.filter.others {
            self.print(file);
        }
        Ok(())
    }

    fn print_signed(&mut self, is_reversed: bool, name: &[u8]) {
        // Git prints the `^` outside the quotes.
        if is_reversed != self.reverses {
            self.out.buffer().push(b'^');
        }
        self.print(name);
    }

    fn print(&mut self, word: &[u8]) {
        let quoted = || text!("'", word.replace("'", "'\\''"), "' ");
        let line = if self.quoted { quoted() } else { text!(word, "\n") };
        self.out.buffer().extend_from_slice(&line);
    }
}
