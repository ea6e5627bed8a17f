//! Bundles that a client downloads before a fetch or a clone contacts the server.
//!
//! Promise: a failure costs only the time of the download. The following fetch transfers everything
//! that is missing, so errors are only reported, and the caller continues.
//!
//! Order: download the file at the URI (`download.rs`). The file is a bundle, or a list (`list.rs`)
//! of further URIs, at most four levels deep. Unbundle the bundles whose prerequisites exist
//! (`unbundle.rs`), and repeat until no remaining bundle can be unbundled. Write their refs as
//! `refs/bundles/*`, so that the fetch can send them as haves. Design: docs/design/fetch.md,
//! "Bundles".

mod download;
mod list;
mod unbundle;

use std::{
    cmp::Reverse,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use bstr::{BStr, BString};
use format::{bundle, config::Edit};
use repo::{keys, wire::ConnectOptions};

use self::list::{Entry, List, Mode};
use crate::fetch::{Context, Event};

/// Git's limit of nested lists. Each level counts twice, as in Git.
const MAX_DEPTH: usize = 4;

/// The reason why processing stopped before all bundles were tried.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum Error {
    #[error("interrupted")]
    Interrupted,
    #[error(transparent)]
    Repo(#[from] repo::Error),
}

/// The inputs for fetching bundles.
#[derive(Clone, Copy)]
pub struct Bundles<'a> {
    /// The repository, and the options for writing to it. Only warnings and errors are reported to
    /// its events.
    pub context: Context<'a>,
    /// The options for connections.
    pub connect: &'a ConnectOptions,
    /// The base of relative paths.
    pub dir: &'a Path,
}

/// The result for a bundle URI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// True if a step failed. The failure was reported.
    pub failed: bool,
    /// True if a list with a heuristic was found. Later fetches should check its URI again.
    pub has_heuristic: bool,
}

/// A local file that contains a bundle or a list.
struct Held {
    path: PathBuf,
    /// True if the file was downloaded. It is then removed on drop.
    is_temporary: bool,
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.is_temporary {
            // A file that stays is harmless.
            let _ = sys::by_path::remove_file(&self.path);
        }
    }
}

/// The downloaded bundles, not yet unbundled.
#[derive(Default)]
struct Found {
    bundles: Vec<(BString, Held)>,
    has_heuristic: bool,
}

/// A step failed, and its failure was reported.
struct Failed;

impl Bundles<'_> {
    /// Fetches the bundles at a URI. Does nothing for an empty URI.
    pub fn fetch(&self, uri: &BStr) -> Result<Outcome, Error> {
        if uri.is_empty() {
            return Ok(Outcome::default());
        }
        let mut found = Found::default();
        let entry = Entry { uri: Some(uri.to_owned()), ..Entry::default() };
        let failed = self.collect(&entry, 0, &mut found)?.is_err();
        if !failed {
            self.take_all(&mut found)?;
        }
        Ok(Outcome { failed, has_heuristic: found.has_heuristic })
    }

    /// Fetches the bundles of a list that a server at `url` sent as keys and values.
    pub fn fetch_list(&self, pairs: &[(BString, BString)], url: &BStr) -> Result<Outcome, Error> {
        let mut list = List::at(url);
        for (number, (key, value)) in (1..).zip(pairs) {
            match list.set(key, value.as_ref()) {
                Ok(None) => {}
                Ok(Some(warning)) => self.warn(&warning),
                Err(_) => {
                    self.error(&format!("error on bundle-uri response line {number}: {key}={value}"));
                    self.error("could not retrieve server-advertised bundle-uri list");
                    return Ok(Outcome::default());
                }
            }
        }
        if list.entries.is_empty() {
            return Ok(Outcome::default());
        }
        if list.is_by_token {
            let failed = self.fetch_by_token(list)?.is_err();
            return Ok(Outcome { failed, has_heuristic: true });
        }
        let mut found = Found::default();
        self.collect_list(list, 0, &mut found)?;
        self.take_all(&mut found)?;
        Ok(Outcome { failed: false, has_heuristic: found.has_heuristic })
    }

    fn warn(&self, text: &str) {
        (self.context.events)(Event::Warning(text.into()));
    }

    fn error(&self, text: &str) {
        (self.context.events)(Event::Error(text.into()));
    }

    /// Downloads the file at an entry's URI and, if it is a list, the files of its entries.
    fn collect(&self, entry: &Entry, depth: usize, found: &mut Found) -> Result<Result<(), Failed>, Error> {
        if self.context.interrupt.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        if depth >= MAX_DEPTH {
            self.warn(&format!("exceeded bundle URI recursion limit ({MAX_DEPTH})"));
            return Ok(Err(Failed));
        }
        let Some(uri) = &entry.uri else {
            self.error(&format!("bundle '{}' has no uri", entry.id));
            return Ok(Err(Failed));
        };
        let Some(held) = self.download(uri.as_ref())? else {
            self.warn(&format!("failed to download bundle from URI '{uri}'"));
            return Ok(Err(Failed));
        };
        if is_bundle(&held.path) {
            found.bundles.push((entry.id.clone(), held));
            return Ok(Ok(()));
        }
        let result = match self.read_list(&held.path, uri.as_ref()) {
            Ok(list) if list.is_by_token => {
                found.has_heuristic = true;
                self.fetch_by_token(list)?
            }
            Ok(list) => {
                self.collect_list(list, depth, found)?;
                Ok(())
            }
            Err(Failed) => Err(Failed),
        };
        if result.is_err() {
            self.warn(&format!("file at URI '{uri}' is not a bundle or bundle list"));
        }
        Ok(result)
    }

    /// Tries every entry of the list, or in mode `any` each one until one succeeds. Failures of
    /// single entries are ignored.
    fn collect_list(&self, list: List, depth: usize, found: &mut Found) -> Result<(), Error> {
        let mode = list.mode;
        for entry in list.in_order() {
            let done = self.collect(&entry, depth + 2, found)?;
            if mode == Mode::Any && done.is_ok() {
                break;
            }
        }
        Ok(())
    }

    fn read_list(&self, path: &Path, uri: &BStr) -> Result<List, Failed> {
        let values = repo::config_file(path).map_err(|error| {
            self.error(&error.to_string());
            Failed
        })?;
        let mut list = List::of_file(uri);
        for (key, value) in values {
            let value = value.unwrap_or_default();
            match list.set(&key, value.as_ref()) {
                Ok(None) => {}
                Ok(Some(warning)) => self.warn(&warning),
                Err(_) => {
                    self.error(&format!("bad value '{value}' of '{key}' in file {}", path.display()));
                    return Err(Failed);
                }
            }
        }
        let mut result = Ok(());
        for entry in list.entries.iter().filter(|entry| entry.uri.is_none()) {
            self.error(&format!("bundle list at '{uri}': bundle '{}' has no uri", entry.id));
            result = Err(Failed);
        }
        result.map(|()| list)
    }

    /// Unbundles until no remaining bundle has its prerequisites.
    fn take_all(&self, found: &mut Found) -> Result<(), Error> {
        let mut left: Vec<usize> = list::in_order(found.bundles.iter().map(|(id, _)| id.as_ref()));
        loop {
            let mut taken = None;
            for (place, at) in left.iter().enumerate() {
                if self.unbundle(&found.bundles[*at].1.path)?.is_ok() {
                    taken = Some(place);
                    break;
                }
            }
            match taken {
                Some(place) => left.remove(place),
                None => return Ok(()),
            };
        }
    }

    /// Fetches the fewest bundles of a list ordered by creation token, the newest first. A bundle
    /// without its prerequisites needs older bundles.
    fn fetch_by_token(&self, list: List) -> Result<Result<(), Failed>, Error> {
        let mut entries = list.in_order();
        if entries.is_empty() {
            return Ok(Ok(()));
        }
        entries.sort_by_key(|entry| Reverse(entry.token));
        let repo = self.context.repo;
        let known = repo.config_str(&keys::fetch::BUNDLE_CREATION_TOKEN);
        let known = known.and_then(|text| text.to_string().trim().parse::<u64>().ok());
        if known.is_some_and(|known| entries[0].token <= known) {
            return Ok(Ok(()));
        }
        let known = known.unwrap_or(0);
        let mut steps: Vec<Step> = entries.iter().map(|_| Step::Unknown).collect();
        let (mut at, mut newest, mut deeper) = (0, 0, true);
        let is_complete = loop {
            let Some(entry) = entries.get(at).filter(|entry| entry.token > known) else { break false };
            if matches!(steps[at], Step::Unknown) {
                let mut one = Found::default();
                let done = self.collect(entry, 1, &mut one)?;
                steps[at] = match one.bundles.pop() {
                    Some((_, held)) => Step::Held(held),
                    None if done.is_ok() => {
                        let uri = entry.uri.clone().unwrap_or_default();
                        self.warn(&format!("file downloaded from '{uri}' is not a bundle"));
                        break false;
                    }
                    None => {
                        deeper = true;
                        Step::Done
                    }
                };
            }
            if let Step::Held(held) = &steps[at] {
                deeper = self.unbundle(&held.path)?.is_err();
                if !deeper {
                    newest = newest.max(entry.token);
                    steps[at] = Step::Done;
                }
            }
            match (deeper, at) {
                (true, _) => at += 1,
                (false, 0) => break true,
                (false, _) => at -= 1,
            }
        };
        if !is_complete {
            return Ok(Err(Failed));
        }
        self.record(keys::fetch::BUNDLE_CREATION_TOKEN.name(), newest.to_string().into());
        Ok(Ok(()))
    }

    /// Sets a key in the repository's configuration. A failure is reported as a warning.
    pub fn record(&self, key: &str, value: BString) {
        let Context { repo, fsync, locks, .. } = self.context;
        let path = repo.common_dir().join("config");
        let edit = Edit::Set { key: key.into(), value };
        if store::config::edit(&path, &[edit], locks, fsync).is_err() {
            self.warn("failed to store maximum creation token");
        }
    }
}

/// The state of a bundle in a list ordered by creation token.
enum Step {
    /// Not downloaded yet.
    Unknown,
    /// Downloaded; the prerequisites were missing so far.
    Held(Held),
    /// Unbundled, or the download failed.
    Done,
}

/// Returns true if a file has the header of a bundle.
fn is_bundle(path: &Path) -> bool {
    let map = sys::by_path::open(path).and_then(|file| sys::Map::of(&file));
    map.is_ok_and(|map| bundle::parse(&map).is_ok())
}
