//! Received packs whose objects are checked (`fetch.fsckObjects`).
//!
//! Git indexes them with `index-pack --strict`, however few objects they have. Objects are checked
//! while they are in memory. A blob such as `.gitmodules` may arrive before the tree that names it.
//! Such blobs are checked after the pack is published. If one is rejected, the pack stays, but no
//! ref points to its objects.

use format::{Kind, ObjectId};
use repo::{
    fsck::{Absent, Checker},
    objects::Objects,
    pack_indexing::{self, Large, Observer, Source, Wanted},
};

use super::{Error, Program, StoreOptions, Stored, keep_pack, refused};

/// Passes objects to two observers.
struct Both<'a> {
    checker: &'a Checker,
    next: Option<&'a dyn Observer>,
}

impl Observer for Both<'_> {
    fn object(&self, oid: &ObjectId, kind: Kind, content: &[u8], offset: u64) {
        self.checker.object(oid, kind, content, offset);
        if let Some(next) = self.next {
            next.object(oid, kind, content, offset);
        }
    }

    fn large(&self, object: &Large) -> Wanted {
        let next = self.next.map_or(Wanted::Name, |next| next.large(object));
        let checker = self.checker.large(object);
        if next == Wanted::Content { next } else { checker }
    }

    fn is_in_hurry(&self) -> bool {
        self.next.is_some_and(Observer::is_in_hurry)
    }
}

/// Reads a pack, checks its objects, and publishes it.
pub(super) fn store_pack(
    source: Source<'_>,
    store_options: &StoreOptions<'_>,
    count: u32,
) -> Result<Stored, Error> {
    let rules = store_options.rules.expect("the caller has rules").clone();
    let checker = Checker::new(rules, store_options.settings.big_file_threshold);
    let both = Both { checker: &checker, next: store_options.observer };
    let options = pack_indexing::Options { observer: Some(&both), ..store_options.options() };
    let say = store_options.say;
    let validate = || Ok(checker.verdict(&mut |line| say(line))?);
    // Git reads the pack's name from `index-pack` only if it keeps the pack under a `.keep` file.
    let is_kept = store_options.settings.keeping.keeps(count);
    let program = if is_kept { Program::IndexPack } else { Program::NamedPack };
    let stored = keep_pack(source, store_options, count, &options, &validate)
        .map_err(|cause| refused(store_options, program, cause))?;
    let objects = Objects::new(store_options.objects, store_options.hash);
    match checker.finish(&objects, Absent::Ignored, &mut |line| say(line)) {
        Ok(_) => Ok(stored),
        Err(cause) => Err(refused(store_options, Program::NamedPack, cause.into())),
    }
}
