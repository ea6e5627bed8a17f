//! `--negotiation-restrict`, `--negotiation-include`: the objects whose history the negotiation
//! offers to the server, and those that are always offered.

use bstr::{BString, ByteSlice as _};
use engine::fetch::remote::Remote;
use format::{
    ObjectId,
    wildmatch::{Mode, wildmatch},
};

use super::context::FetchContext;
use crate::term::{
    console::{self, text},
    failure::Failure,
};

impl FetchContext<'_> {
    /// Returns the objects that the command line or `remote.<name>.negotiationRestrict` name;
    /// `None` without any restriction.
    pub(super) fn negotiation_tips(&self, remote: &Remote) -> Result<Option<Vec<ObjectId>>, Failure> {
        let given = &self.request.negotiation_tips;
        let given = if given.is_empty() { &remote.negotiation_restrict } else { given };
        if given.is_empty() {
            return Ok(None);
        }
        self.objects_named(given, "--negotiation-restrict").map(Some)
    }

    /// Returns the objects that are always offered.
    pub(super) fn negotiation_include(&self, remote: &Remote) -> Result<Vec<ObjectId>, Failure> {
        let given = &self.request.negotiation_include;
        let given = if given.is_empty() { &remote.negotiation_include } else { given };
        self.objects_named(given, "--negotiation-include")
    }

    fn objects_named(&self, names: &[BString], option: &str) -> Result<Vec<ObjectId>, Failure> {
        let mut found = Vec::new();
        for name in names {
            match name.find_byteset(b"?*[") {
                Some(_) => self.add_matching(name, option, &mut found)?,
                None => self.add_object(name, &mut found)?,
            }
        }
        Ok(found)
    }

    /// Adds the object that `name` resolves to. A name that does not resolve is left out.
    fn add_object(&self, name: &BString, tips: &mut Vec<ObjectId>) -> Result<(), Failure> {
        let Ok(Some(oid)) = self.repo.resolve(name.as_bstr()) else { return Ok(()) };
        if !self.repo.stored_objects().contains(&oid) {
            return Err(Failure::Fatal(text!("the object ", name, " does not exist")));
        }
        tips.push(oid);
        Ok(())
    }

    fn add_matching(&self, pattern: &BString, option: &str, tips: &mut Vec<ObjectId>) -> Result<(), Failure> {
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
            console::warning(text!("ignoring ", option, "=", pattern, end));
        }
        Ok(())
    }
}
