//! The parser that precedes the check. Source: Git's `parse_commit_buffer` and `parse_tag_buffer`.

use format::{
    HashKind, Kind, ObjectId,
    tree::{TreeEntries, TreeEntry},
};

use super::Line;

/// Parses an object. The error holds Git's messages.
pub(super) fn check(hash: HashKind, oid: &ObjectId, kind: Kind, content: &[u8]) -> Result<(), Vec<Line>> {
    match kind {
        Kind::Commit => {
            commit(hash, content).map_err(|flaw| vec![Line::Error(format!("{flaw} {oid}").into())])
        }
        Kind::Tag => tag(hash, content).map_err(|kind| {
            let complaint = |kind| format!("unknown tag type '{kind}' in {oid}");
            kind.map(|kind| Line::Error(complaint(kind).into())).into_iter().collect()
        }),
        Kind::Tree | Kind::Blob => Ok(()),
    }
}

fn commit(hash: HashKind, content: &[u8]) -> Result<(), &'static str> {
    let is_line = |rest: &[u8], lead: &[u8]| {
        let end = lead.len() + hash.hex_len();
        rest.len() > end + 1 && rest.starts_with(lead) && rest[end] == b'\n'
    };
    let is_oid =
        |rest: &[u8], lead: usize| ObjectId::from_hex(hash, &rest[lead..lead + hash.hex_len()]).is_some();
    let (tree, parent) = (b"tree ", b"parent ");
    if !is_line(content, tree) {
        return Err("bogus commit object");
    }
    if !is_oid(content, tree.len()) {
        return Err("bad tree pointer in commit");
    }
    let mut rest = &content[tree.len() + hash.hex_len() + 1..];
    while rest.len() > parent.len() + hash.hex_len() && rest.starts_with(parent) {
        if !is_line(rest, parent) || !is_oid(rest, parent.len()) {
            return Err("bad parents in commit");
        }
        rest = &rest[parent.len() + hash.hex_len() + 1..];
    }
    Ok(())
}

/// Parses a tag. If its type is unknown, the error holds that type.
fn tag(hash: HashKind, content: &[u8]) -> Result<(), Option<bstr::BString>> {
    /// The size of Git's buffer for a type.
    const LONGEST_TYPE: usize = 20;
    let mut rest = content;
    let enough = content.len() >= hash.hex_len() + 24;
    let object = super::header(&mut rest, b"object").filter(|_| enough).ok_or(None)?;
    ObjectId::from_hex(hash, object).ok_or(None)?;
    let kind = super::header(&mut rest, b"type").filter(|kind| kind.len() < LONGEST_TYPE).ok_or(None)?;
    if ![&b"commit"[..], b"tree", b"blob", b"tag"].contains(&kind) {
        return Err(Some(kind.into()));
    }
    super::header(&mut rest, b"tag").map(drop).ok_or(None)
}

/// Returns the objects that an object refers to, with their types, as far as it can be parsed.
pub fn links(hash: HashKind, kind: Kind, content: &[u8]) -> Vec<(ObjectId, Kind)> {
    let mut rest = content;
    let mut links = Vec::new();
    let mut add = |name: &[u8], kind| links.extend(ObjectId::from_hex(hash, name).map(|oid| (oid, kind)));
    match kind {
        Kind::Blob => {}
        Kind::Commit => {
            if let Some(tree) = super::header(&mut rest, b"tree") {
                add(tree, Kind::Tree);
            }
            while let Some(parent) = super::header(&mut rest, b"parent") {
                add(parent, Kind::Commit);
            }
        }
        Kind::Tag => {
            let object = super::header(&mut rest, b"object");
            let kind = match super::header(&mut rest, b"type") {
                Some(b"commit") => Some(Kind::Commit),
                Some(b"tree") => Some(Kind::Tree),
                Some(b"blob") => Some(Kind::Blob),
                Some(b"tag") => Some(Kind::Tag),
                _ => None,
            };
            if let (Some(object), Some(kind)) = (object, kind) {
                add(object, kind);
            }
        }
        Kind::Tree => {
            let entries = TreeEntries::new(hash, content).filter_map(Result::ok);
            let entries = entries.filter(|entry| !entry.mode.is_gitlink());
            let kind = |entry: &TreeEntry<'_>| if entry.mode.is_tree() { Kind::Tree } else { Kind::Blob };
            links.extend(entries.map(|entry| (entry.oid, kind(&entry))));
        }
    }
    links
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_git_cannot_parse() {
        let oid = ObjectId::null(HashKind::Sha1);
        let complaint = |kind, text: &str| match check(HashKind::Sha1, &oid, kind, text.as_bytes()) {
            Ok(()) => "none".to_owned(),
            Err(lines) => lines.iter().map(|line| format!("{line:?}")).collect(),
        };
        let tree = format!("tree {oid}\n");
        assert_eq!(complaint(Kind::Commit, &format!("{tree}x")), "none");
        assert!(complaint(Kind::Commit, &tree).contains("bogus commit object"));
        assert!(complaint(Kind::Commit, &tree.replace("00\n", "0x\n\n")).contains("bad tree pointer"));
        assert!(complaint(Kind::Commit, &format!("{tree}parent {oid} \nx")).contains("bad parents"));
        let object = format!("object {oid}\n");
        assert_eq!(complaint(Kind::Tag, &format!("{object}type commit\ntag x\n")), "none");
        assert_eq!(complaint(Kind::Tag, &format!("{object}tag x\ntype commit\n")), "");
        assert!(complaint(Kind::Tag, &format!("{object}type what\ntag x\n\n")).contains("unknown tag type"));
    }
}
