//! What is elsewhere unchanged: the same object.

use std::collections::HashMap;

use bstr::ByteSlice as _;
use format::ObjectId;

use super::{super::MAX_SCORE, Candidates, Detect, basename};

/// Of so many files alike the best is taken.
const MOST_ALIKE: usize = 100;

/// Pairs those with the same content. Of several, one that was not taken before is better, and one with the same file name; among
/// equals the first.
pub(super) fn find(candidates: &mut Candidates) {
    let mut by_name: HashMap<ObjectId, Vec<usize>> = HashMap::new();
    for (at, source) in candidates.sources.iter().enumerate() {
        if let Some(oid) = source.file.side.oid {
            by_name.entry(oid).or_default().push(at);
        }
    }
    for at in 0..candidates.targets.len() {
        let target = &candidates.targets[at].file;
        let Some(alike) = target.side.oid.and_then(|oid| by_name.get_mut(&oid)) else { continue };
        let mut best: Option<(usize, u32)> = None;
        let mut asked = 0;
        for (place, &number) in alike.iter().enumerate() {
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
            let worth = u32::from(!is_used) + u32::from(is_same_name);
            if best.is_none_or(|(_, best)| worth > best) {
                best = Some((place, worth));
            }
            asked += 1;
            if worth == 2 || asked == MOST_ALIKE {
                break;
            }
        }
        let Some((place, _)) = best else { continue };
        let source = match candidates.detect {
            // Nothing else may come from it.
            Detect::Renames => alike.remove(place),
            Detect::Copies => alike[place],
        };
        candidates.record(at, source, MAX_SCORE);
    }
}
