//! The people of commits and tags, and their dates.

use bstr::{BStr, ByteSlice as _};
use repo::objects::Kind;

use super::{Values, object::Loaded};
use crate::{
    Error,
    date::DateFormat,
    for_each_ref::{
        field::{MailForm, Person, PersonPart},
        quote::until_nul,
        unsupported,
    },
};

/// A date as an object stores it.
pub(super) struct Date {
    pub(super) seconds: u64,
    /// Hours and minutes, as one decimal number.
    zone: i32,
}

impl Loaded {
    /// Returns the text from a person's line to the end of the object: Git searches all of it for
    /// the parts of a person. `None` if objects of this type have no such person.
    pub(super) fn person_line(&self, who: Person) -> Option<&BStr> {
        let header: &[u8] = match (who, self.kind) {
            (Person::Author, Kind::Commit) => b"author ",
            (Person::Committer | Person::Creator, Kind::Commit) => b"committer ",
            (Person::Tagger | Person::Creator, Kind::Tag) => b"tagger ",
            _ => return None,
        };
        let text = until_nul(&self.content);
        let headers = &text[..text.find(b"\n\n").map_or(text.len(), |end| end + 1)];
        let start = if headers.starts_with(header) { 0 } else { headers.find([b"\n", header].concat())? + 1 };
        Some(text[start + header.len()..].as_bstr())
    }
}

impl Values<'_> {
    pub(super) fn append_person(
        &self,
        object: &Loaded,
        who: Person,
        part: &PersonPart,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let Some(text) = object.person_line(who) else { return Ok(()) };
        let line = text.lines_with_terminator().next().unwrap_or_default().trim_end_with(|end| end == '\n');
        match part {
            PersonPart::Whole => out.extend_from_slice(line),
            PersonPart::Name => out.extend_from_slice(line.find(b" <").map_or(&b""[..], |end| &line[..end])),
            PersonPart::Mail(form) => out.extend_from_slice(mail(text, *form).unwrap_or_default()),
            PersonPart::PlainDate => return self.append_date(text, &DateFormat::DEFAULT, out),
            PersonPart::Date(format) => return self.append_date(text, format, out),
        }
        Ok(())
    }

    fn append_date(&self, text: &BStr, format: &DateFormat, out: &mut Vec<u8>) -> Result<(), Error> {
        if let Some(date) = Date::of(text) {
            let shown = format.show(date.seconds, date.zone, self.now);
            out.extend_from_slice(shown.ok_or(unsupported("dates so far away"))?.as_bytes());
        }
        Ok(())
    }
}

fn mail(text: &BStr, form: MailForm) -> Option<&[u8]> {
    let start = text.find_byte(b'<')?;
    let inner = &text[start + 1..];
    let end = |byte: u8| inner.find_byte(byte);
    match form {
        MailForm::Bracketed => Some(&text[start..start + end(b'>')? + 2]),
        MailForm::Trimmed => Some(&inner[..end(b'>')?]),
        MailForm::LocalPart => Some(&inner[..end(b'@').or_else(|| end(b'>'))?]),
    }
}

impl Date {
    /// Finds the date after the mail address.
    pub(super) fn of(text: &BStr) -> Option<Date> {
        let rest = &text[text.find(b"> ")? + 2..];
        let (seconds, rest) = number(rest, false)?;
        let seconds = seconds.parse::<u64>().ok().filter(|seconds| *seconds != u64::MAX)?;
        let zone = number(rest, true).map_or(Some(0), |(zone, _)| zone.parse().ok())?;
        Some(Date { seconds, zone })
    }
}

/// Splits off a number like C's `strtoul`, after white space. Returns zero if there are no digits.
fn number(text: &[u8], signed: bool) -> Option<(String, &[u8])> {
    let start = text.iter().position(|byte| !matches!(byte, b' ' | b'\t'..=b'\r')).unwrap_or(text.len());
    let text = &text[start..];
    let sign = usize::from(signed && matches!(text.first(), Some(b'+' | b'-')));
    let digits = text[sign..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits == 0 {
        return Some(("0".to_owned(), text));
    }
    let number = text[..sign + digits].to_str().ok()?;
    Some((number.trim_start_matches('+').to_owned(), &text[sign + digits..]))
}
