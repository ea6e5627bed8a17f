//! Detection of exact renames: the same object at another path.

use std::collections::HashMap;

use bstr::ByteSlice as _;
use format::ObjectId;

use super::{super::MAX_SCORE, Candidates, Detect, basename};

/// Maximum number of sources with the same content to consider.
const MAX_SOURCES: usize = 100;

/// Pairs files with the same content. Among several sources, an unused one is preferred, then one
/// with the same file name, then the first one.
pub(super) fn find(candidates: &mut Candidates) {
    let mut by_name: HashMap<ObjectId, Vec<usize>> = HashMap::new();
    for (at, source) in candidates.sources.iter().enumerate() {
        if let Some(oid) = source.file.side.oid {
            by_name.entry(oid).or_default().push(at);
        }
    }
    for at in 0..candidates.targets.len() {
        let target = &candidates.targets[at].file;
        let Some(sources) = target.side.oid.and_then(|oid| by_name.get_mut(&oid)) else { continue };
        let mut best: Option<(usize, u32)> = None;
        let mut considered = 0;
        for (place, &number) in sources.iter().enumerate() {
            let source = &candidates.sources[number];
            let is_used = source.used > 0;
            if is_used && candidates.detect == Detect::Renames {
                continue;
            }
            let source = &source.file;
            if source.side.mode != target.side.mode && !(source.is_regular() && target.is_regular()) {
                continue;
            }
            let is_same_name = basename(source.path.as_bstr()) == basename(target.path.as_bstr());
            let rank = u32::from(!is_used) + u32::from(is_same_name);
            if best.is_none_or(|(_, best)| rank > best) {
                best = Some((place, rank));
            }
            considered += 1;
            if rank == 2 || considered == MAX_SOURCES {
                break;
            }
        }
        let Some((place, _)) = best else { continue };
        let source = match candidates.detect {
            // No other target may use this source.
            Detect::Renames => sources.remove(place),
            Detect::Copies => sources[place],
        };
        candidates.record(at, source, MAX_SCORE);
    }
}
