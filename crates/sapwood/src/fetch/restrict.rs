//! The objects whose history the negotiation offers to the server, and those that are always
//! offered.

use bstr::{BString, ByteSlice as _};
use format::{
    ObjectId,
    wildmatch::{Mode, wildmatch},
};

use crate::{Context, Error, Notice, text};

/// Returns the objects that these names and patterns of refs mean. `option` is the name of their
/// option.
pub(super) fn objects_named(
    context: Context<'_>,
    names: &[BString],
    option: &str,
) -> Result<Vec<ObjectId>, Error> {
    let mut found = Vec::new();
    for name in names {
        match name.find_byteset(b"?*[") {
            Some(_) => add_matching(context, name, option, &mut found)?,
            None => add_object(context, name, &mut found)?,
        }
    }
    Ok(found)
}

/// Adds the object that `name` resolves to. A name that does not resolve is left out.
fn add_object(context: Context<'_>, name: &BString, tips: &mut Vec<ObjectId>) -> Result<(), Error> {
    let Ok(Some(oid)) = context.repo.resolve(name.as_bstr()) else { return Ok(()) };
    if !context.repo.stored_objects().contains(&oid) {
        return Err(Error::Failed(text!("the object ", name, " does not exist")));
    }
    tips.push(oid);
    Ok(())
}

fn add_matching(
    context: Context<'_>,
    pattern: &BString,
    option: &str,
    tips: &mut Vec<ObjectId>,
) -> Result<(), Error> {
    let whole = if pattern.starts_with(b"refs/") { pattern.clone() } else { text!("refs/", pattern) };
    let before = tips.len();
    for (name, oid) in context.repo.refs("refs/")? {
        if wildmatch(&whole, &name, Mode::default()) {
            tips.push(oid);
        }
    }
    if tips.len() == before {
        let end = " because it does not match any refs";
        context.events.notice(Notice::Fetch(text!("ignoring ", option, "=", pattern, end)));
    }
    Ok(())
}
