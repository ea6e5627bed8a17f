//! Commits, and their author and committer lines. Source: Git's `fsck_commit` and `fsck_ident`.

use format::ObjectId;

use super::{Id, Refusal, Report, header, headers};

pub(super) fn check(report: &mut Report<'_>, content: &[u8]) -> Result<(), Refusal> {
    headers(report, content)?;
    let hash = report.rules.hash;
    let is_oid = |line: &[u8]| ObjectId::from_hex(hash, line).is_some();
    let mut rest = content;
    let Some(tree) = header(&mut rest, b"tree") else {
        return report.flaw(Id::MissingTree, "invalid format - expected 'tree' line");
    };
    if !is_oid(tree) {
        report.flaw(Id::BadTreeSha1, "invalid 'tree' line format - bad sha1")?;
    }
    while let Some(parent) = header(&mut rest, b"parent") {
        if !is_oid(parent) {
            report.flaw(Id::BadParentSha1, "invalid 'parent' line format - bad sha1")?;
        }
    }
    let mut authors = 0;
    while let Some(author) = header(&mut rest, b"author") {
        authors += 1;
        person(report, author)?;
    }
    match authors {
        0 => report.flaw(Id::MissingAuthor, "invalid format - expected 'author' line")?,
        1 => {}
        _ => report.flaw(Id::MultipleAuthors, "invalid format - multiple 'author' lines")?,
    }
    let Some(committer) = header(&mut rest, b"committer") else {
        return report.flaw(Id::MissingCommitter, "invalid format - expected 'committer' line");
    };
    person(report, committer)?;
    if content.contains(&0) {
        report.flaw(Id::NulInCommit, "NUL byte in the commit object body")?;
    }
    Ok(())
}

/// Checks `name <mail> seconds zone`.
pub(super) fn person(report: &mut Report<'_>, line: &[u8]) -> Result<(), Refusal> {
    let mut flaw = |id, what: &str| report.flaw(id, format!("invalid author/committer line - {what}"));
    if line.first() == Some(&b'<') {
        return flaw(Id::MissingNameBeforeEmail, "missing space before email");
    }
    let at = match line.iter().position(|byte| matches!(byte, b'<' | b'>')) {
        None => return flaw(Id::MissingEmail, "missing email"),
        Some(at) if line[at] == b'>' => return flaw(Id::BadName, "bad name"),
        Some(at) => at,
    };
    if line[at - 1] != b' ' {
        return flaw(Id::MissingSpaceBeforeEmail, "missing space before email");
    }
    let rest = &line[at + 1..];
    let rest = match rest.iter().position(|byte| matches!(byte, b'<' | b'>')) {
        Some(at) if rest[at] == b'>' => &rest[at + 1..],
        _ => return flaw(Id::BadEmail, "bad email"),
    };
    let Some(rest) = rest.strip_prefix(b" ") else {
        return flaw(Id::MissingSpaceBeforeDate, "missing space before date");
    };
    let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let rest = &rest[blanks..];
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (date, rest) = rest.split_at(digits);
    if date.is_empty() {
        return flaw(Id::BadDate, "bad date");
    }
    if date[0] == b'0' && (date.len() > 1 || rest.first() != Some(&b' ')) {
        return flaw(Id::ZeroPaddedDate, "zero-padded date");
    }
    let seconds = std::str::from_utf8(date).ok().and_then(|date| date.parse::<i64>().ok());
    // The size of Git's buffer.
    if seconds.is_none() || date.len() > 23 {
        return flaw(Id::BadDateOverflow, "date causes integer overflow");
    }
    let Some(zone) = rest.strip_prefix(b" ") else {
        return flaw(Id::BadDate, "bad date");
    };
    let is_zone = matches!(zone, [b'+' | b'-', digits @ ..]
        if digits.len() == 4 && digits.iter().all(u8::is_ascii_digit));
    if is_zone { Ok(()) } else { flaw(Id::BadTimezone, "bad time zone") }
}
