//! `--negotiation-restrict`: the objects whose history is offered to the server.

use bstr::{BString, ByteSlice as _};
use engine::fetch::remote::Remote;
use format::{
    ObjectId,
    wildmatch::{Mode, wildmatch},
};

use super::desk::Desk;
use crate::term::{
    console::{self, text},
    failure::{Failure, unserved_if},
};

impl Desk<'_> {
    /// Returns the objects that the command line or `remote.<name>.negotiationRestrict` name;
    /// `None` without any restriction.
    pub(super) fn negotiation_tips(&self, remote: &Remote) -> Result<Option<Vec<ObjectId>>, Failure> {
        unserved_if(!remote.negotiation_include.is_empty(), "setting 'remote.<name>.negotiationInclude'")?;
        let given = &self.request.negotiation_tips;
        let given = if given.is_empty() { &remote.negotiation_restrict } else { given };
        if given.is_empty() {
            return Ok(None);
        }
        let mut tips = Vec::new();
        for text in given {
            match text.find_byteset(b"?*[") {
                Some(_) => self.add_matching(text, &mut tips)?,
                None => self.add_object(text, &mut tips)?,
            }
        }
        Ok(Some(tips))
    }

    /// A name that leads nowhere is left out.
    fn add_object(&self, name: &BString, tips: &mut Vec<ObjectId>) -> Result<(), Failure> {
        let Ok(Some(oid)) = self.repo.resolve(name.as_bstr()) else { return Ok(()) };
        if !self.repo.stored_objects().contains(&oid) {
            return Err(Failure::Fatal(text!("the object ", name, " does not exist")));
        }
        tips.push(oid);
        Ok(())
    }

    fn add_matching(&self, pattern: &BString, tips: &mut Vec<ObjectId>) -> Result<(), Failure> {
        let whole = match pattern.starts_with(b"refs/") {
            true => pattern.clone(),
            false => text!("refs/", pattern),
        };
        let before = tips.len();
        for (name, oid) in self.repo.refs("refs/")? {
            if wildmatch(&whole, &name, Mode::default()) {
                tips.push(oid);
            }
        }
        if tips.len() == before {
            let end = " because it does not match any refs";
            console::warning(text!("ignoring --negotiation-restrict=", pattern, end));
        }
        Ok(())
    }
}
