//! Commits that are reachable from others.

use std::collections::HashSet;

use format::ObjectId;

use crate::{Error, Repository};

impl Repository {
    /// Returns the `tips` that are reachable from one of `bases`. Does not walk below the lowest
    /// generation of the tips in the commit-graph, and ends when all tips are found.
    pub fn reachable_tips(
        &self,
        bases: &[ObjectId],
        tips: &HashSet<ObjectId>,
    ) -> Result<HashSet<ObjectId>, Error> {
        self.check_grafts()?;
        let graph = self.commit_graph();
        let generation = |id: &ObjectId| Some(graph?.commit(id)?.generation());
        // A commit outside of the graph may descend from any other.
        let least = tips.iter().map(|tip| generation(tip).unwrap_or(u32::MAX)).min().unwrap_or(0);
        let mut found = HashSet::new();
        let mut seen: HashSet<ObjectId> = bases.iter().copied().collect();
        let mut pending: Vec<ObjectId> = seen.iter().copied().collect();
        let mut reader = self.objects.reader();
        while let Some(id) = pending.pop() {
            if tips.contains(&id) {
                found.insert(id);
                if found.len() == tips.len() {
                    break;
                }
            }
            if generation(&id).is_some_and(|generation| generation < least) {
                continue;
            }
            let parents = match graph.and_then(|graph| graph.commit(&id)?.parents()) {
                Some(parents) => parents,
                None => self.read_commit_with(&mut reader, &id)?.parents,
            };
            pending.extend(parents.into_iter().filter(|parent| seen.insert(*parent)));
        }
        Ok(found)
    }

    /// Returns true if a shallow clone ends at this commit.
    pub fn is_shallow(&self, id: &ObjectId) -> Result<bool, Error> {
        Ok(self.shallow()?.contains(id))
    }
}
