//! Those who see the objects of a pack as they arrive: the pipeline, and the check that nothing is
//! missing.

use format::{Kind, ObjectId};
use repo::indexing::{Large, Observer, Wanted};

use super::pipeline::Pipeline;
use crate::fetch::connected;

/// Those who see the objects.
pub(super) struct Watchers<'a> {
    pub(super) pipeline: Option<&'a Pipeline>,
    pub(super) links: Option<&'a connected::Links<'a>>,
}

impl Observer for Watchers<'_> {
    fn object(&self, oid: &ObjectId, kind: Kind, content: &[u8], offset: u64) {
        if let Some(links) = self.links {
            links.object(oid, kind, content, offset);
        }
        if let Some(pipeline) = self.pipeline {
            pipeline.object(oid, kind, content, offset);
        }
    }

    fn large(&self, object: &Large) -> Wanted {
        self.links.map_or(Wanted::Name, |links| links.large(object))
    }

    fn is_in_hurry(&self) -> bool {
        self.pipeline.is_some_and(Pipeline::is_in_hurry)
    }
}
