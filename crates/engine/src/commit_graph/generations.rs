//! Generation numbers: topological levels and corrected commit dates. A commit's number is greater
//! than those of all its parents.

use super::{Build, Error, Layer, Stage, chain, check};

/// The largest level that the file format can store.
const MAX_LEVEL: u32 = 0x3fff_ffff;

/// The generation numbers of a commit, as stored in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GenerationNumbers {
    /// The topological level: the number of commits on the longest path to a root, at most
    /// `MAX_LEVEL`.
    pub(super) level: u32,
    /// The corrected commit date, in seconds since the epoch; 0 if it is not written.
    pub(super) generation: u64,
}

impl Build<'_> {
    /// Computes the generation numbers of the chosen commits, in their order.
    pub(super) fn generations(
        &mut self,
        chosen: &[u32],
        below: &[Layer],
        with_dates: bool,
    ) -> Result<Vec<GenerationNumbers>, Error> {
        let mut numbers: Vec<Option<GenerationNumbers>> = vec![None; self.commits.nodes.len()];
        let mut is_chosen = vec![false; self.commits.nodes.len()];
        chosen.iter().for_each(|&number| is_chosen[number as usize] = true);
        let mut pending = Vec::new();
        for (done, &start) in chosen.iter().enumerate() {
            check(self.request.interrupt)?;
            pending.push(start);
            while let Some(&number) = pending.last() {
                if numbers[number as usize].is_some() {
                    pending.pop();
                    continue;
                }
                if !is_chosen[number as usize] {
                    numbers[number as usize] = Some(self.below(number, below)?);
                    continue;
                }
                let parents = self.commits.parents(number);
                if let Some(&parent) = parents.iter().find(|&&parent| numbers[parent as usize].is_none()) {
                    // A path without cycles is no longer than the number of commits, so the old
                    // graph is damaged.
                    if pending.len() > self.commits.nodes.len() {
                        let text = "a commit of the commit-graph is its own ancestor";
                        return Err(Error::Graph(text.to_owned()));
                    }
                    pending.push(parent);
                    continue;
                }
                let known = parents.iter().filter_map(|&parent| numbers[parent as usize]);
                let most = known.fold(GenerationNumbers::default(), |most, parent| GenerationNumbers {
                    level: most.level.max(parent.level),
                    generation: most.generation.max(parent.generation),
                });
                let date = self.commits.get(number).map_or(0, |commit| commit.date);
                let generation = most.generation.wrapping_add(1).max(date);
                numbers[number as usize] = Some(GenerationNumbers {
                    level: (most.level + 1).min(MAX_LEVEL),
                    generation: if with_dates { generation } else { 0 },
                });
                pending.pop();
            }
            (self.progress)(Stage::Levels, done + 1, chosen.len());
        }
        if with_dates {
            (self.progress)(Stage::Generations, chosen.len(), chosen.len());
        }
        let number = |&number: &u32| numbers[number as usize].unwrap_or_default();
        Ok(chosen.iter().map(number).collect())
    }

    /// Returns the generation numbers of a commit in a layer that stays.
    fn below(&self, number: u32, below: &[Layer]) -> Result<GenerationNumbers, Error> {
        let id = self.commits.id(number);
        let lost = || Error::Commit(id);
        let (layer, n) = chain::find_in(below, &id).ok_or_else(lost)?;
        let old = self.request.old.ok_or_else(lost)?;
        let level = below[layer].graph.commit(n).level;
        if level == 0 {
            return Err(Error::NoLevels);
        }
        let generation = old.generation(layer, n).map_err(|text| Error::Graph(text.to_owned()))?;
        Ok(GenerationNumbers { level, generation })
    }
}
