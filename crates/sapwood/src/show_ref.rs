//! Refs with their objects.
//!
//! Like Git, looks up the object of each ref that it shows, and reads only tags, for
//! [`Request::dereference`]. The first broken ref ends the list.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, show_ref::{self, Request}};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let request = Request { tags: true, dereference: true, ..Request::default() };
//! for found in show_ref::plan(&repository, request)?.run(&Silent)?.refs {
//!     println!("{} {} {:?}", found.id, found.name, found.peeled);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::ops::ControlFlow;

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    ObjectId,
    refname::{self, Levels},
};
use repo::{
    ListScope,
    objects::{Kind, Reader},
};

use crate::{
    Error, Events, PlanError, Repository, RunError,
    settings::refused::{self, Reader as SettingsReader},
    text,
};

/// The refs to show.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Names, or whole components at their ends; all refs if empty. With [`Request::verify`] full
    /// names.
    pub names: Vec<BString>,
    /// Show exactly these refs, and HEAD and the like. One that does not exist is an error.
    pub verify: bool,
    /// Show HEAD, too, whatever the names are.
    pub head: bool,
    /// Show branches. Without this and [`Request::tags`] all refs are shown.
    pub branches: bool,
    /// Show tags.
    pub tags: bool,
    /// Find the objects that tags finally point to.
    pub dereference: bool,
}

/// A ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ref {
    /// The full name.
    pub name: BString,
    /// Its object.
    pub id: ObjectId,
    /// The object that a tag finally points to, with [`Request::dereference`].
    pub peeled: Option<ObjectId>,
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The refs: HEAD first, then those of each kind by name.
    pub refs: Vec<Ref>,
}

/// Refs that are found.
pub struct Plan {
    refs: Vec<Ref>,
}

/// Finds the refs.
pub fn plan(repository: &Repository, request: Request) -> Result<Plan, PlanError> {
    let repo = &repository.inner;
    refused::check(repo, &[SettingsReader::Every]).map_err(Error::from)?;
    let mut lookup = Lookup::new(repo, request.dereference);
    let mut refs = Vec::new();
    if request.verify {
        for name in &request.names {
            let shown = lookup.one(name.as_bstr())?.ok_or_else(|| not_valid(name.as_bstr()))?;
            refs.push(shown.into());
        }
    } else {
        lookup.list(&request, |shown| {
            refs.push(shown.into());
            Ok::<_, Error>(())
        })?;
    }
    Ok(Plan { refs })
}

impl Plan {
    /// Returns the refs.
    pub fn run(self, _: &impl Events) -> Result<Report, RunError> {
        Ok(Report { refs: self.refs })
    }
}

/// Returns true if a ref exists, which is not followed.
pub fn exists(repository: &Repository, name: &BStr) -> Result<bool, PlanError> {
    if !is_plain(name) {
        return Err(PlanError::Unsupported("refs with unusual names"));
    }
    Ok(is_there(&repository.inner, name)?)
}

/// Returns false for a name that is too long, or unusual, for which Git has rules of its own.
pub fn is_plain(name: &BStr) -> bool {
    const LONGEST: usize = 255;
    let is_inside = refname::check(name, Levels::One).is_ok() || refname::is_safe(name);
    is_inside && name.len() <= LONGEST && !name.contains(&0)
}

/// See [`exists`]. The name may be unusual.
pub fn is_there(repo: &repo::Repository, name: &BStr) -> Result<bool, Error> {
    let found = repo.look_up_ref(name)?;
    found.map_err(|error| Error::failed(format!("failed to look up reference: {}", sys::reason(&error))))
}

/// Returns the error of a name of [`Request::verify`] that names no ref.
pub fn not_valid(name: &BStr) -> Error {
    Error::Failed(text!("'", name, "' - not a valid ref"))
}

/// A ref that is shown. See [`Ref`].
#[derive(Clone, Copy, Debug)]
pub struct Shown<'n> {
    /// The full name.
    pub name: &'n BStr,
    /// Its object.
    pub id: ObjectId,
    /// The object that a tag finally points to.
    pub peeled: Option<ObjectId>,
}

impl From<Shown<'_>> for Ref {
    fn from(shown: Shown<'_>) -> Ref {
        let Shown { name, id, peeled } = shown;
        Ref { name: name.to_owned(), id, peeled }
    }
}

/// Looks up refs, and their objects.
pub struct Lookup<'a> {
    repo: &'a repo::Repository,
    reader: Reader<'a>,
    dereference: bool,
}

impl<'a> Lookup<'a> {
    /// Finds the objects of tags if `dereference` is set.
    pub fn new(repo: &'a repo::Repository, dereference: bool) -> Lookup<'a> {
        Lookup { repo, reader: repo.objects().reader(), dereference }
    }

    /// Returns the ref with this full name; `None` if it does not exist or is broken.
    pub fn one<'n>(&mut self, name: &'n BStr) -> Result<Option<Shown<'n>>, Error> {
        let is_full = name.starts_with(b"refs/") || refname::is_safe(name);
        let id = if is_full { self.repo.value_of_ref(name)? } else { None };
        id.map(|id| self.shown(name, id, None)).transpose()
    }

    /// Visits the refs in order.
    pub fn list<E: From<Error> + From<repo::Error>>(
        &mut self,
        request: &Request,
        mut visit: impl FnMut(Shown<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if request.head
            && let Some(id) = self.repo.value_of_ref("HEAD".into())?
        {
            visit(self.shown("HEAD".into(), id, None)?)?;
        }
        let prefixes: &[&str] = match (request.branches, request.tags) {
            (false, false) => &["refs/"],
            (true, false) => &["refs/heads/"],
            (false, true) => &["refs/tags/"],
            (true, true) => &["refs/heads/", "refs/tags/"],
        };
        let patterns = &request.names;
        for prefix in prefixes {
            let repo = self.repo;
            let _flow = repo.each_ref(ListScope::Below((*prefix).into()), None, |listed| {
                if patterns.is_empty() || patterns.iter().any(|pattern| ends_with(listed.name, pattern)) {
                    visit(self.shown(listed.name, listed.id, listed.peeled)?)?;
                }
                Ok::<_, E>(ControlFlow::Continue(()))
            })?;
        }
        Ok(())
    }

    /// Looks up the object. `peeled` is the object behind a tag, if it is known.
    fn shown<'n>(
        &mut self,
        name: &'n BStr,
        id: ObjectId,
        peeled: Option<ObjectId>,
    ) -> Result<Shown<'n>, Error> {
        // If the object's type is needed anyway, reading it proves that the object exists.
        let needs_kind = self.dereference && peeled.is_none();
        let kind = if needs_kind { self.reader.header(&id).ok().map(|(kind, _)| kind) } else { None };
        if kind.is_none() && !self.repo.objects().contains(&id) {
            return Err(Error::Failed(text!("git show-ref: bad ref ", name, " (", id.to_string(), ")")));
        }
        let peeled = match peeled {
            None if kind == Some(Kind::Tag) => {
                self.repo.peel_tag_with(&mut self.reader, id).ok().flatten().map(|target| target.id)
            }
            peeled => peeled.filter(|_| self.dereference),
        };
        Ok(Shown { name, id, peeled })
    }
}

/// Returns true if `pattern` equals the name, or whole components at its end.
fn ends_with(name: &BStr, pattern: &BString) -> bool {
    name.strip_suffix(pattern.as_slice()).is_some_and(|rest| rest.is_empty() || rest.ends_with(b"/"))
}
