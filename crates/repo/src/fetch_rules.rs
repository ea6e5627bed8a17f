//! The checks of fetched objects that settings require.

use bstr::{BString, ByteSlice as _};
use objects::fsck::{Id, Rules};

use crate::{Error, Repository};
use format::keys;

impl Repository {
    /// Reads `fetch.fsckObjects`, else `transfer.fsckObjects`, and `fetch.fsck.*`. Returns `None`
    /// if fetched objects are not checked. The second value holds warnings.
    pub fn fetch_rules(&self) -> Result<(Option<Rules>, Vec<BString>), Error> {
        let is_on = match self.config(&keys::fetch::FSCK_OBJECTS)? {
            Some(is_on) => is_on,
            None => self.config(&keys::transfer::FSCK_OBJECTS)?,
        };
        if !is_on {
            return Ok((None, Vec::new()));
        }
        let mut rules = Rules::strict(self.hash());
        let mut warnings = Vec::new();
        let mut names: Vec<BString> = self.config_names().map(|name| name.to_owned()).collect();
        names.dedup();
        for name in names {
            let Some(id) = name.strip_prefix(b"fetch.fsck.") else { continue };
            if id == b"skiplist" {
                if let Some(path) = self.config_path(&keys::fetch::FSCK_SKIP_LIST)? {
                    rules.skip(path.as_bytes().as_bstr())?;
                }
                continue;
            }
            let key = name.to_str_lossy();
            for value in self.config_all(&key) {
                match Id::parse(id) {
                    Some(_) => rules.set(id.as_bstr(), value.as_bstr())?,
                    None => warnings.push([b"Skipping unknown msg id '", id, b"'"].concat().into()),
                }
            }
        }
        Ok((Some(rules), warnings))
    }
}
