//! The entries of several trees, name by name.

use bstr::BStr;
use format::{Mode, ObjectId, tree::TreeEntries};

use crate::look::LookError;

/// The remaining entries of one tree.
pub(super) struct Listing<'a> {
    entries: Vec<Option<format::tree::TreeEntry<'a>>>,
    first: usize,
}

impl<'a> Listing<'a> {
    pub(super) fn parse(
        data: &'a [u8],
        oid: Option<&ObjectId>,
        hash: format::HashKind,
    ) -> Result<Self, LookError> {
        let entries = TreeEntries::new(hash, data).map(|entry| entry.map(Some)).collect::<Result<_, _>>();
        match (entries, oid) {
            (Ok(entries), _) => Ok(Listing { entries, first: 0 }),
            (Err(_), Some(oid)) => Err(LookError::MalformedTree(*oid)),
            (Err(_), None) => Ok(Listing { entries: Vec::new(), first: 0 }),
        }
    }

    fn head(&mut self) -> Option<&'a BStr> {
        while let Some(None) = self.entries.get(self.first) {
            self.first += 1;
        }
        self.entries.get(self.first).and_then(|entry| entry.as_ref()).map(|entry| entry.name)
    }

    /// Takes the entry with this name. A directory sorts as if its name ended with a slash, so `t`
    /// may come after `t-2` and has to be searched for.
    fn take(&mut self, name: &BStr) -> Option<(Mode, ObjectId)> {
        self.head()?;
        for entry in &mut self.entries[self.first..] {
            let Some(found) = entry else { continue };
            if found.name == name {
                let taken = (found.mode, found.oid);
                *entry = None;
                return Some(taken);
            }
            let may_follow = found.name.starts_with(name) && found.name[name.len()] < b'/';
            if !may_follow && found.name > name {
                return None;
            }
        }
        None
    }
}

/// Returns the smallest name among the next entries of all trees, and each tree's entry of that
/// name.
pub(super) fn next_name<'a>(
    listings: &mut [Listing<'a>],
    sides: &mut [Option<(Mode, ObjectId)>],
) -> Option<&'a BStr> {
    let name = listings.iter_mut().filter_map(Listing::head).min()?;
    for (listing, side) in listings.iter_mut().zip(sides) {
        *side = listing.take(name);
    }
    Some(name)
}
