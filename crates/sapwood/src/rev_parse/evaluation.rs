//! Evaluating the words in order.

use std::ops::ControlFlow;

use bstr::{BStr, BString, ByteSlice as _};
use format::ObjectId;
use repo::{Repository, keys, message::MINIMUM_ABBREV};

use super::{Answer, Class, Query, Report, Word, is_supported, paths::Paths, unsupported};
use crate::{Error, PlanError};

/// The form of the answers to revisions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    /// Object names.
    Objects,
    /// The names as given.
    Given,
    /// Full names of refs.
    Full,
}

/// A revision that was found.
struct Revision {
    id: ObjectId,
    /// `^name`
    is_reversed: bool,
    name: BString,
}

/// The options and the answers so far.
pub struct Evaluation<'a> {
    repo: &'a Repository,
    paths: Paths<'a>,
    left_out: Vec<Class>,
    verify: bool,
    /// The minimum number of digits of abbreviated names; `Some(None)`: as configured.
    short: Option<Option<usize>>,
    names: Names,
    /// True to shorten names of refs strictly, so that no other ref matches.
    abbreviate_refs: Option<bool>,
    /// True after an odd number of [`Word::Not`].
    reverses: bool,
    default: Option<BString>,
    /// The revisions found with [`Word::Verify`], which allows only one.
    found: Vec<Revision>,
    report: Report,
}

impl<'a> Evaluation<'a> {
    /// Begins without words.
    pub fn new(repo: &'a Repository) -> Evaluation<'a> {
        Evaluation {
            repo,
            paths: Paths::new(repo),
            left_out: Vec::new(),
            verify: false,
            short: None,
            names: Names::Objects,
            abbreviate_refs: None,
            reverses: false,
            default: None,
            found: Vec::new(),
            report: Report::default(),
        }
    }

    /// Evaluates the next word. Breaks if no word after it is looked at.
    pub fn word(&mut self, word: Word<'_>) -> Result<ControlFlow<()>, PlanError> {
        self.evaluate(word)?;
        Ok(if self.report.lacks_revision { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    /// Returns the answers so far.
    pub fn answers(&self) -> &[Answer] {
        &self.report.answers
    }

    /// Evaluates what depends on all words.
    pub fn finish(mut self) -> Result<Report, PlanError> {
        if self.report.lacks_revision {
            return Ok(self.report);
        }
        match (self.verify, self.found.pop()) {
            (true, Some(only)) if self.found.is_empty() => self.show(only)?,
            (true, None) if self.show_default()? => {}
            (true, _) => self.report.lacks_revision = true,
            (false, _) => drop(self.show_default()?),
        }
        Ok(self.report)
    }

    fn evaluate(&mut self, word: Word<'_>) -> Result<(), Error> {
        match word {
            Word::Verify => self.begin_to_verify(),
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
            Word::Not => self.reverses = !self.reverses,
            Word::Default(name) => self.default = Some(name.to_owned()),
            Word::LeaveOut(class) => self.left_out.push(class),
            Word::Refs { prefix, is_trimmed } => self.refs(prefix, is_trimmed)?,
            Word::PathFormat(format) => self.paths.format = format,
            Word::Query(Query::CdUp) if self.repo.work_tree().is_none() => {}
            Word::Query(query) => {
                let fact = self.paths.evaluate(query).ok_or_else(unsupported)?;
                self.report.answers.push(Answer::Fact(fact));
            }
            Word::GitPath(path) => {
                let fact = self.paths.git_path(path).ok_or_else(unsupported)?;
                self.report.answers.push(Answer::Fact(fact));
            }
            Word::Mark(mark) if self.keeps(Class::Flags) || self.keeps(Class::Revisions) => {
                self.file(mark)?;
            }
            Word::Mark(_) => {}
            Word::File(file) => self.file(file)?,
            Word::Revision(spec) => self.revision(spec)?,
        }
        Ok(())
    }

    fn begin_to_verify(&mut self) {
        self.verify = true;
        self.left_out.extend([Class::Flags, Class::Others]);
    }

    fn keeps(&self, class: Class) -> bool {
        !self.left_out.contains(&class)
    }

    fn refs(&mut self, prefix: &str, is_trimmed: bool) -> Result<(), Error> {
        for (mut name, id) in self.repo.refs(prefix)? {
            // Git warns of a broken ref.
            if id.is_null() {
                return Err(unsupported());
            }
            if is_trimmed {
                name.drain(..prefix.len());
            }
            self.show(Revision { id, is_reversed: false, name })?;
        }
        Ok(())
    }

    fn revision(&mut self, spec: &BStr) -> Result<(), Error> {
        if !is_supported(spec) {
            return Err(unsupported());
        }
        if let Some(at) = spec.windows(2).position(|pair| pair == b"..") {
            return self.range(spec[..at].as_bstr(), spec[at + 2..].as_bstr());
        }
        let (name, is_reversed) = match spec.strip_prefix(b"^") {
            Some(name) => (name.as_bstr(), true),
            None => (spec, false),
        };
        match self.resolve(name)? {
            Some(id) => {
                let revision = Revision { id, is_reversed, name: name.to_owned() };
                if self.verify {
                    self.found.push(revision);
                } else {
                    self.show(revision)?;
                }
            }
            None if self.verify && self.found.is_empty() => self.report.lacks_revision = true,
            // The word may be a file; otherwise Git explains why it is not one.
            None => return Err(unsupported()),
        }
        Ok(())
    }

    /// Shows `left..right`, or `left...right` with at most one merge base.
    fn range(&mut self, left: &BStr, right: &BStr) -> Result<(), Error> {
        let (right, is_symmetric) = match right.strip_prefix(b".") {
            Some(right) => (right.as_bstr(), true),
            None => (right, false),
        };
        if self.verify || (left.is_empty() && right.is_empty() && !is_symmetric) {
            return Err(unsupported());
        }
        let side = |name: &BStr| -> Result<(Revision, ObjectId), Error> {
            let name = if name.is_empty() { BStr::new("HEAD") } else { name };
            let id = self.resolve(name)?.ok_or_else(unsupported)?;
            // Git prints nothing if a side is not a commit.
            let commit = self.repo.peel_to_commit(id)?.ok_or_else(unsupported)?;
            Ok((Revision { id, is_reversed: false, name: name.to_owned() }, commit))
        };
        let ((mut left, one), (right, other)) = (side(left)?, side(right)?);
        left.is_reversed = !is_symmetric;
        self.show(right)?;
        self.show(left)?;
        if is_symmetric {
            match self.repo.merge_bases(one, other)?[..] {
                [] => {}
                [base] => self.show_object(base, true)?,
                _ => return Err(unsupported()),
            }
        }
        Ok(())
    }

    /// Resolves a revision. A revision that Git would warn about is an error.
    fn resolve(&self, name: &BStr) -> Result<Option<ObjectId>, Error> {
        let is_quiet = self.repo.is_resolved_without_warning(name).unwrap_or(false);
        let found = self.repo.resolve(name).map_err(|_| unsupported())?;
        if is_quiet { Ok(found) } else { Err(unsupported()) }
    }

    fn show(&mut self, revision: Revision) -> Result<(), Error> {
        if !self.keeps(Class::Revisions) {
            return Ok(());
        }
        self.default = None;
        let Revision { id, is_reversed, name } = revision;
        if self.abbreviate_refs.is_none() && self.names == Names::Given {
            self.show_name(name, is_reversed);
            return Ok(());
        }
        if self.abbreviate_refs.is_none() && self.names == Names::Objects {
            return self.show_object(id, is_reversed);
        }
        let name = match &self.repo.refs_of_short_name(name.as_bstr())?[..] {
            // Git prints nothing for a name that is not a ref.
            [] => return Ok(()),
            [(full, _)] => match self.abbreviate_refs {
                Some(true) => self.repo.shorten_ref_strictly(full.as_bstr())?,
                Some(false) => self.repo.shorten_ref(full.as_bstr())?,
                None => full.clone(),
            },
            _ => return Err(unsupported()),
        };
        self.show_name(name, is_reversed);
        Ok(())
    }

    fn show_object(&mut self, id: ObjectId, is_reversed: bool) -> Result<(), Error> {
        let full = self.repo.hash().hex_len();
        let name = match self.short {
            None => {
                let is_reversed = is_reversed != self.reverses;
                self.report.answers.push(Answer::Object { id, is_reversed });
                return Ok(());
            }
            Some(None) => self.repo.abbreviate(id)?,
            Some(Some(digits)) => self.repo.abbreviate_to(id, digits.clamp(MINIMUM_ABBREV, full))?,
        };
        self.show_name(name.into(), is_reversed);
        Ok(())
    }

    fn show_name(&mut self, name: BString, is_reversed: bool) {
        let is_reversed = is_reversed != self.reverses;
        self.report.answers.push(Answer::Name { name, is_reversed });
    }

    fn show_default(&mut self) -> Result<bool, Error> {
        let Some(name) = self.default.take() else { return Ok(false) };
        let Some(id) = self.resolve(name.as_bstr())? else { return Ok(false) };
        self.show(Revision { id, is_reversed: false, name })?;
        Ok(true)
    }

    fn file(&mut self, file: &BStr) -> Result<(), Error> {
        self.show_default()?;
        if self.keeps(Class::Files) && self.keeps(Class::Others) {
            self.report.answers.push(Answer::Name { name: file.to_owned(), is_reversed: false });
        }
        Ok(())
    }
}
