//! Listing refs in a format and an order.
//!
//! Order: refs, which are checked one after the other; values; sorting. Refs in name order are
//! formatted as they are found. All of it is part of the plan, so a value that only Git can print
//! can still be left to it. docs/design/for-each-ref.md has the rules for reading objects.
//!
//! ```no_run
//! use sapwood::{Repository, Silent, for_each_ref::{self, Format, Request}};
//!
//! let repository = Repository::open(".".as_ref(), std::env::vars_os().collect())?;
//! let format = Format::parse("%(refname:short) %(contents:subject)".into()).expect("it is valid");
//! let request = Request { patterns: vec!["refs/heads".into()], format, ..Request::default() };
//! print!("{}", for_each_ref::plan(&repository, request)?.run(&Silent)?.text);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod field;
mod filter;
mod format;
mod quote;
mod render;
mod sort;
mod value;

use std::ops::ControlFlow;

use ::format::ObjectId;
use bstr::{BString, ByteSlice as _};
use repo::{ListScope, ListedRef, Repository, Soundness, objects::Reader};

pub use filter::Commits;
pub use format::Format;
pub use quote::Quoting;
pub use sort::SortKey;

use self::{
    filter::{Judged, Names},
    render::Renderer,
    sort::SortValue,
    value::Values,
};
use crate::{
    Error, Events, Notice, PlanError, RunError,
    settings::refused::{self, Reader as SettingsReader},
    text,
};

/// The refs to list, and their order and form.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Names, prefixes of names up to a slash, or wildcards; all refs if empty.
    pub patterns: Vec<BString>,
    /// The refs to leave out.
    pub excluded: Vec<BString>,
    /// Names match and sort without regard to case.
    pub icase: bool,
    /// Include HEAD and the like.
    pub root: bool,
    /// Begin after this name.
    pub start_after: Option<BString>,
    /// The largest number of refs; 0 for all.
    pub count: usize,
    /// The commits that decide.
    pub commits: Commits,
    /// The order, the most significant key first; by name if empty.
    pub keys: Vec<SortKey>,
    /// Keep the order of the names, also with [`Request::icase`].
    pub unsorted: bool,
    /// The line of a ref.
    pub format: Format,
    /// The language in which values are literals.
    pub quoting: Quoting,
    /// Use the colours of the format.
    pub colors: bool,
    /// Leave empty lines out.
    pub omit_empty: bool,
    /// The current time for relative dates, in seconds since 1970.
    pub now: u64,
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// A line for each ref.
    pub text: BString,
}

/// Refs that are listed.
pub struct Plan {
    listed: Listed,
}

/// The lines, up to an error.
#[derive(Debug, Default)]
pub struct Listed {
    /// The lines before the error.
    pub text: Vec<u8>,
    /// Warnings about refs that are left out.
    pub warnings: Vec<BString>,
    /// The error that ended the list.
    pub failed: Option<Error>,
}

/// Lists the refs. Changes nothing.
pub fn plan(repository: &crate::Repository, request: Request) -> Result<Plan, PlanError> {
    let readers = [SettingsReader::Every];
    refused::check(&repository.inner, &readers).map_err(Error::from)?;
    let mut listed = list(&repository.inner, request)?;
    match listed.failed.take() {
        Some(error) => Err(error.into()),
        None => Ok(Plan { listed }),
    }
}

impl Plan {
    /// Reports the notices. Returns the list.
    pub fn run(self, events: &impl Events) -> Result<Report, RunError> {
        let Listed { text, warnings, .. } = self.listed;
        warnings.into_iter().for_each(|warning| events.notice(Notice::Repository(warning)));
        Ok(Report { text: text.into() })
    }
}

/// The lines.
impl std::fmt::Display for Plan {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self.listed.text.as_bstr(), formatter)
    }
}

/// Lists the refs of a repository.
pub fn list(repo: &Repository, mut request: Request) -> Result<Listed, PlanError> {
    let (keys, names) = (std::mem::take(&mut request.keys), Names::take(&mut request));
    let (format, quoting) = (std::mem::take(&mut request.format), request.quoting);
    let fields = format.fields().chain(keys.iter().map(|key| &key.field));
    let mut list = List {
        repo,
        names,
        values: Values::new(repo, fields, request.now)?,
        renderer: Renderer { format, quoting, colors: request.colors },
        reader: repo.objects().reader(),
        request: &request,
        keys,
        judged: Judged::default(),
        line: Vec::new(),
        listed: Listed::default(),
    };
    let done = if list.is_in_natural_order() { list.as_found() } else { list.sorted() };
    let mut listed = list.listed;
    match done.map_err(PlanError::from) {
        Ok(()) => {}
        Err(PlanError::Failed(error)) => listed.failed = Some(error),
        Err(unsupported) => return Err(unsupported),
    }
    Ok(listed)
}

/// Returns the error of a value that only Git can print.
fn unsupported(what: &'static str) -> Error {
    PlanError::Unsupported(what).into()
}

impl Names {
    fn take(request: &mut Request) -> Names {
        let (patterns, excluded) =
            (std::mem::take(&mut request.patterns), std::mem::take(&mut request.excluded));
        Names { patterns, excluded, icase: request.icase }
    }
}

/// A ref to be sorted.
struct Item {
    name: BString,
    id: ObjectId,
    target: Option<BString>,
    peeled: Option<ObjectId>,
    commit: Option<ObjectId>,
    keys: Vec<SortValue>,
    /// The formatted line, if all refs are printed.
    shown: Option<Vec<u8>>,
}

impl Item {
    fn listed(&self) -> ListedRef<'_> {
        ListedRef {
            name: self.name.as_bstr(),
            id: self.id,
            target: self.target.as_ref().map(|target| target.as_bstr()),
            peeled: self.peeled,
            soundness: Soundness::Sound,
        }
    }
}

struct List<'a> {
    repo: &'a Repository,
    request: &'a Request,
    names: Names,
    judged: Judged,
    keys: Vec<SortKey>,
    renderer: Renderer,
    values: Values<'a>,
    reader: Reader<'a>,
    line: Vec<u8>,
    listed: Listed,
}

/// Called with a selected ref, and its commit if that was read.
type Visit<'a, 'v> =
    dyn FnMut(&mut List<'a>, &ListedRef<'_>, Option<ObjectId>) -> Result<ControlFlow<()>, Error> + 'v;

impl<'a> List<'a> {
    /// Returns true if refs can be written as they are found.
    fn is_in_natural_order(&self) -> bool {
        let is_natural = match &self.keys[..] {
            [] => !self.request.icase || self.request.unsorted,
            // Git reads the objects of all refs before it prints the first one.
            [key] => key.is_natural() && !self.request.icase && self.values.reads_nothing(),
            _ => false,
        };
        is_natural && !self.request.commits.needs_all()
    }

    /// Visits the selected refs.
    fn each(&mut self, visit: &mut Visit<'a, '_>) -> Result<(), Error> {
        let (repo, request) = (self.repo, self.request);
        let prefixes = self.names.prefixes();
        let scopes: Vec<ListScope<'_>> = if request.root {
            vec![ListScope::WithRoot]
        } else {
            prefixes.iter().map(|prefix| ListScope::Below(prefix.as_bstr())).collect()
        };
        for scope in scopes {
            let after = request.start_after.as_ref().map(|after| after.as_bstr());
            let flow = repo.each_ref(scope, after, |listed| {
                let problem = match listed.soundness {
                    Soundness::Sound => None,
                    Soundness::Broken => Some("ignoring broken ref "),
                    Soundness::BadName => Some("ignoring ref with broken name "),
                };
                if let Some(problem) = problem {
                    self.listed.warnings.push(text!(problem, listed.name));
                    return Ok(ControlFlow::Continue(()));
                }
                if !self.names.wants(listed.name) {
                    return Ok(ControlFlow::Continue(()));
                }
                match request.commits.wants(&mut self.judged, repo, &mut self.reader, listed)? {
                    Some(commit) => visit(self, listed, commit),
                    None => Ok(ControlFlow::Continue(())),
                }
            })?;
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn as_found(&mut self) -> Result<(), Error> {
        let mut left = self.request.count;
        self.each(&mut |list, listed, _| {
            list.write(listed)?;
            left = left.wrapping_sub(1);
            Ok(if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })
    }

    fn sorted(&mut self) -> Result<(), Error> {
        let mut items: Vec<Item> = Vec::new();
        self.each(&mut |_, listed, commit| {
            items.push(Item {
                name: listed.name.to_owned(),
                id: listed.id,
                target: listed.target.map(ToOwned::to_owned),
                peeled: listed.peeled,
                commit,
                keys: Vec::new(),
                shown: None,
            });
            Ok(ControlFlow::Continue(()))
        })?;
        self.request.commits.retain_merged(self.repo, &mut items, |item| item.commit)?;
        let count = match self.request.count {
            0 => items.len(),
            count => count.min(items.len()),
        };
        let shows_all = count == items.len();
        // With a single ref, nothing is compared and nothing needs to be read yet.
        if items.len() > 1 {
            for item in &mut items {
                let objects = self.values.load(&item.listed())?;
                let mut keys = Vec::new();
                for key in &self.keys {
                    keys.push(self.values.sort_value(&item.listed(), &objects, key)?);
                }
                if shows_all && !objects.is_empty() {
                    self.line.clear();
                    self.render(&item.listed(), &objects)?;
                    item.shown = Some(self.line.clone());
                }
                item.keys = keys;
            }
        }
        let (keys, icase) = (&self.keys, self.request.icase);
        items.sort_by(|left, right| {
            sort::compare(keys, icase, (&left.name, &left.keys), (&right.name, &right.keys))
        });
        for item in &items[..count] {
            match &item.shown {
                Some(line) => self.append(line),
                None => self.write(&item.listed())?,
            }
        }
        Ok(())
    }

    /// Appends the line of a ref to the listing.
    fn write(&mut self, listed: &ListedRef<'_>) -> Result<(), Error> {
        let objects = self.values.load(listed)?;
        self.line.clear();
        self.render(listed, &objects)?;
        let line = std::mem::take(&mut self.line);
        self.append(&line);
        self.line = line;
        Ok(())
    }

    fn append(&mut self, line: &[u8]) {
        if !line.is_empty() || !self.request.omit_empty {
            let buffer = &mut self.listed.text;
            buffer.extend_from_slice(line);
            buffer.push(b'\n');
        }
    }

    /// Appends the formatted ref to `line`.
    fn render(&mut self, listed: &ListedRef<'_>, objects: &value::Objects) -> Result<(), Error> {
        let (renderer, values, line) = (&self.renderer, &mut self.values, &mut self.line);
        renderer.render(line, &mut |field, out| values.append(listed, objects, field, out))
    }
}
