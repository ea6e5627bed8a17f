//! The remotes of a partial clone that have the omitted objects.
//!
//! The remotes are queried in the order of the configuration; the one in the repository's
//! `extensions.partialClone` comes last. [`CONTENTS_REMOTE`] is left out. The caller of
//! [`crate::Repository::open`] supplies the fetch, see [`LazyFetch`]. Source: Git's technical notes
//! on partial clones.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bstr::{BString, ByteSlice};
use format::{
    ObjectId,
    keys::{self, Key, PathText},
};
use objects::{Contents, Promisors};

use crate::{
    Env, Error,
    config::{Config, MessageContext},
    open::Layout,
    options::{LazyFetch, OpenOptions, Place, Promised},
};

/// The remote that gives plain Git the contents of bases. Readers here take contents from
/// [`LazyFetch::contents`] and never ask it.
pub const CONTENTS_REMOTE: &str = "sapwood-bases";

/// See [`Promisors`].
#[derive(Debug)]
pub(crate) struct Remotes {
    names: Vec<BString>,
    quiet: bool,
    /// `GIT_NO_LAZY_FETCH`
    is_off: bool,
    told: AtomicBool,
    fetcher: Option<Arc<dyn LazyFetch>>,
    contents: Option<Box<dyn Contents>>,
    open: OpenOptions,
}

impl Remotes {
    /// Returns the configured promisor remotes; `None` if there are none.
    pub(crate) fn of(
        config: &Config,
        env: &Env,
        layout: &Layout,
        options: &OpenOptions,
    ) -> Result<Option<Remotes>, Error> {
        let mut names: Vec<BString> = Vec::new();
        for key in config.names() {
            let Some(rest) = key.strip_prefix(b"remote.") else { continue };
            let promises = match rest.strip_suffix(b".promisor") {
                Some(name) => config.get(&keys::remote::PROMISOR.of(name.as_bstr()))?,
                None => rest.ends_with(b".partialclonefilter"),
            };
            let name = rest.rsplitn_str(2, ".").nth(1).unwrap_or_default();
            let is_asked = !name.starts_with(b"/") && name != CONTENTS_REMOTE.as_bytes();
            if promises && is_asked && !names.iter().any(|known| known == name) {
                names.push(name.into());
            }
        }
        if let Some(last) = layout.extensions.partial_clone.as_ref().filter(|name| !name.is_empty()) {
            names.retain(|name| name != last);
            names.push(last.clone());
        }
        if names.is_empty() {
            return Ok(None);
        }
        let context = MessageContext { message_sink: options.message_sink, top: None };
        let setting =
            |key: &Key<Option<PathText>>| config.path(key, env, context).ok()??.resolve(&options.cwd).ok();
        let common = layout.real_common_dir();
        let place = Place { common: &common, hash: layout.hash, setting: &setting };
        Ok(Some(Remotes {
            names,
            contents: options.lazy_fetch.as_ref().and_then(|fetcher| fetcher.contents(&place)),
            quiet: config.get(&keys::promisor::QUIET)?,
            is_off: env.boolean("GIT_NO_LAZY_FETCH")?.unwrap_or(false),
            told: AtomicBool::new(false),
            fetcher: options.lazy_fetch.clone(),
            open: OpenOptions { lazy_fetch: None, ..options.clone() },
        }))
    }
}

impl Promisors for Remotes {
    fn count(&self) -> usize {
        self.names.len()
    }

    fn contents(&self) -> Option<&dyn Contents> {
        self.contents.as_deref()
    }

    #[expect(clippy::disallowed_methods, reason = "Git would fetch the same objects, and finds them")]
    fn fetch(&self, number: usize, missing: &[ObjectId]) -> bool {
        if self.is_off {
            if !self.told.swap(true, Ordering::Relaxed) {
                let text = "warning: lazy fetching disabled; some objects may not be available";
                self.open.message_sink.print([text.into()]);
            }
            return false;
        }
        let Some(fetcher) = &self.fetcher else { return false };
        let (remote, quiet) = (self.names[number].as_bstr(), self.quiet);
        let wanted = Promised { open: &self.open, remote, objects: missing, quiet };
        sys::changes::aside(|| fetcher.fetch(&wanted))
    }
}
