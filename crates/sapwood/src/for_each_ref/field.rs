//! The fields of a format, and their syntax. Source: git-for-each-ref(1), "FIELD NAMES".
//!
//! Any other field is left to Git, including errors: an unknown field, a field with an argument
//! that Git ignores, a mailmap.

use bstr::{BStr, BString, ByteSlice as _};

use crate::{color, date::DateFormat};

/// A field.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    /// The field describes the object that a tag finally points to (`*`).
    pub(super) peeled: bool,
    pub(super) kind: FieldKind,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum FieldKind {
    /// A field of the ref.
    Ref(RefField),
    /// A field that any object has.
    Object(ObjectField),
    /// A field of the text of a commit or a tag.
    Text(TextField),
    /// Part of the format itself.
    Control(Control),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum RefField {
    Name(NameForm),
    Symref(NameForm),
    Upstream(RemoteForm),
    Push(RemoteForm),
    Head,
    WorktreePath,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum NameForm {
    Full,
    Short,
    /// The number of components to remove at the front; a negative number is the number to keep.
    StripLeft(i32),
    StripRight(i32),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum RemoteForm {
    Name(NameForm),
    Track { bracket: bool },
    TrackShort,
    RemoteName,
    RemoteRef,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ObjectField {
    Name(IdForm),
    Type,
    Size,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum IdForm {
    Full,
    /// The number of digits that `core.abbrev` sets.
    Short,
    /// At least this number of digits.
    Digits(usize),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum TextField {
    Tree(IdForm),
    Parent(IdForm),
    NumParent,
    /// The target of a tag.
    Object,
    /// The type of the target.
    Type,
    Tag,
    Person(Person, PersonPart),
    Subject,
    SanitizedSubject,
    /// The body including the signature.
    WholeBody,
    Contents,
    ContentsBody,
    ContentsSize,
    Signature,
    Lines(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Person {
    Author,
    Committer,
    Tagger,
    /// The committer or the tagger.
    Creator,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum PersonPart {
    Whole,
    Name,
    Mail(MailForm),
    Date(DateFormat),
    /// Like `Date` in Git's default format, but sorted by time.
    PlainDate,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum MailForm {
    Bracketed,
    Trimmed,
    LocalPart,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Control {
    Color { sequence: BString, is_reset: bool },
    Align { position: Position, width: usize },
    If(Condition),
    Then,
    Else,
    End,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Position {
    Left,
    Middle,
    Right,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Condition {
    NotBlank,
    Equals(BString),
    NotEquals(BString),
}

impl Field {
    /// Parses a field without `%(` and `)`. Returns `None` if it is left to Git.
    pub(super) fn parse(text: &BStr) -> Option<Field> {
        let (peeled, text) = match text.strip_prefix(b"*") {
            Some(rest) => (true, rest.as_bstr()),
            None => (false, text),
        };
        let (name, argument) = match text.split_once_str(":") {
            Some((name, argument)) => (name, Some(argument.as_bstr())),
            None => (text.as_bytes(), None),
        };
        // For most fields, an empty argument counts as none.
        let given = argument.filter(|argument| !argument.is_empty());
        let kind = ref_field(name, given)
            .map(FieldKind::Ref)
            .or_else(|| object_field(name, given).map(FieldKind::Object))
            .or_else(|| text_field(name, argument).map(FieldKind::Text))
            .or_else(|| control(name, given).map(FieldKind::Control))?;
        let has_peeled_form =
            matches!(kind, FieldKind::Object(_) | FieldKind::Text(_) | FieldKind::Ref(RefField::Name(_)));
        (has_peeled_form || !peeled).then_some(Field { peeled, kind })
    }
}

fn ref_field(name: &[u8], argument: Option<&BStr>) -> Option<RefField> {
    Some(match (name, argument) {
        (b"refname", argument) => RefField::Name(name_form(argument)?),
        (b"symref", argument) => RefField::Symref(name_form(argument)?),
        (b"upstream", argument) => RefField::Upstream(remote_form(argument)?),
        (b"push", argument) => RefField::Push(remote_form(argument)?),
        (b"HEAD", None) => RefField::Head,
        (b"worktreepath", None) => RefField::WorktreePath,
        _ => return None,
    })
}

fn name_form(argument: Option<&BStr>) -> Option<NameForm> {
    let Some(argument) = argument else { return Some(NameForm::Full) };
    if argument == "short" {
        return Some(NameForm::Short);
    }
    let (how, number) = argument.split_once_str("=")?;
    let number = plain_number(number.as_bstr())?;
    match how {
        b"lstrip" | b"strip" => Some(NameForm::StripLeft(number)),
        b"rstrip" => Some(NameForm::StripRight(number)),
        _ => None,
    }
}

fn remote_form(argument: Option<&BStr>) -> Option<RemoteForm> {
    if let Some(form) = name_form(argument) {
        return Some(RemoteForm::Name(form));
    }
    let (mut form, mut bracket) = (None, true);
    for word in argument?.split_str(",") {
        match word {
            b"track" => form = Some(RemoteForm::Track { bracket: true }),
            b"trackshort" => form = Some(RemoteForm::TrackShort),
            b"nobracket" => bracket = false,
            b"remotename" => form = Some(RemoteForm::RemoteName),
            b"remoteref" => form = Some(RemoteForm::RemoteRef),
            _ => return None,
        }
    }
    match form? {
        RemoteForm::Track { .. } => Some(RemoteForm::Track { bracket }),
        // Git keeps state from an earlier remote argument in the list.
        form if argument?.contains(&b',') && !matches!(form, RemoteForm::TrackShort) => None,
        form => Some(form),
    }
}

/// Parses an integer of up to six digits in canonical form.
fn plain_number(text: &BStr) -> Option<i32> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_plain = (1..=6).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    text.to_str().ok().filter(|_| is_plain)?.parse().ok()
}

fn object_field(name: &[u8], argument: Option<&BStr>) -> Option<ObjectField> {
    match (name, argument) {
        (b"objectname", argument) => Some(ObjectField::Name(id_form(argument)?)),
        (b"objecttype", None) => Some(ObjectField::Type),
        (b"objectsize", None) => Some(ObjectField::Size),
        _ => None,
    }
}

fn id_form(argument: Option<&BStr>) -> Option<IdForm> {
    match argument {
        None => Some(IdForm::Full),
        Some(word) if word == "short" => Some(IdForm::Short),
        Some(word) => {
            let digits = plain_number(word.strip_prefix(b"short=")?.as_bstr())?;
            let digits = usize::try_from(digits).ok().filter(|digits| *digits > 0)?;
            Some(IdForm::Digits(digits.max(repo::message::MINIMUM_ABBREV)))
        }
    }
}

fn text_field(name: &[u8], argument: Option<&BStr>) -> Option<TextField> {
    let given = argument.filter(|argument| !argument.is_empty());
    Some(match (name, given) {
        (b"tree", given) => TextField::Tree(id_form(given)?),
        (b"parent", given) => TextField::Parent(id_form(given)?),
        (b"numparent", None) => TextField::NumParent,
        (b"object", None) => TextField::Object,
        (b"type", None) => TextField::Type,
        (b"tag", None) => TextField::Tag,
        (b"subject", None) => TextField::Subject,
        (b"subject", Some(word)) if word == "sanitize" => TextField::SanitizedSubject,
        (b"body", None) if argument.is_none() => TextField::WholeBody,
        (b"contents", None) => TextField::Contents,
        (b"contents", Some(word)) => match word.as_bytes() {
            b"subject" => TextField::Subject,
            b"body" => TextField::ContentsBody,
            b"size" => TextField::ContentsSize,
            b"signature" => TextField::Signature,
            _ => {
                let lines = plain_number(word.strip_prefix(b"lines=")?.as_bstr())?;
                TextField::Lines(usize::try_from(lines).ok()?)
            }
        },
        _ => return person_field(name, argument),
    })
}

fn person_field(name: &[u8], argument: Option<&BStr>) -> Option<TextField> {
    const PEOPLE: [(&[u8], Person); 4] = [
        (b"author", Person::Author),
        (b"committer", Person::Committer),
        (b"tagger", Person::Tagger),
        (b"creator", Person::Creator),
    ];
    let (person, part) =
        PEOPLE.iter().find_map(|(word, person)| Some((*person, name.strip_prefix(*word)?)))?;
    let part = match (part, argument) {
        (b"", None) => PersonPart::Whole,
        (b"date", None) => PersonPart::PlainDate,
        (b"date", Some(format)) => PersonPart::Date(DateFormat::parse(format)?),
        _ if person == Person::Creator => return None,
        (b"name", None) => PersonPart::Name,
        (b"email", None) => PersonPart::Mail(MailForm::Bracketed),
        (b"email", Some(words)) => PersonPart::Mail(mail_form(words)?),
        _ => return None,
    };
    Some(TextField::Person(person, part))
}

fn mail_form(words: &BStr) -> Option<MailForm> {
    let mut form = MailForm::Trimmed;
    for word in words.split_str(",") {
        match word {
            b"trim" => {}
            b"localpart" => form = MailForm::LocalPart,
            _ => return None,
        }
    }
    Some(form)
}

fn control(name: &[u8], argument: Option<&BStr>) -> Option<Control> {
    Some(match (name, argument) {
        (b"color", Some(value)) => {
            Control::Color { sequence: color::parse(value)?, is_reset: value == "reset" }
        }
        (b"align", Some(words)) => align(words)?,
        (b"if", None) => Control::If(Condition::NotBlank),
        (b"if", Some(compared)) => match (compared.strip_prefix(b"equals="), compared) {
            (Some(text), _) => Control::If(Condition::Equals(text.into())),
            (None, compared) => {
                Control::If(Condition::NotEquals(compared.strip_prefix(b"notequals=")?.into()))
            }
        },
        (b"then", None) => Control::Then,
        (b"else", None) => Control::Else,
        (b"end", None) => Control::End,
        _ => return None,
    })
}

fn align(words: &BStr) -> Option<Control> {
    let (mut position, mut width) = (Position::Left, None);
    for word in words.split_str(",") {
        let place = word.strip_prefix(b"position=").unwrap_or(word);
        let number = word.strip_prefix(b"width=").unwrap_or(word);
        if let Some(number) = plain_number(number.as_bstr()).and_then(|number| usize::try_from(number).ok()) {
            width = Some(number);
            continue;
        }
        position = match place {
            b"left" => Position::Left,
            b"middle" => Position::Middle,
            b"right" => Position::Right,
            _ => return None,
        };
    }
    Some(Control::Align { position, width: width? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<FieldKind> {
        Field::parse(text.into()).map(|field| field.kind)
    }

    #[test]
    fn fields_that_clients_use() {
        for text in [
            "refname:lstrip=-2",
            "upstream:track,nobracket",
            "upstream:nobracket,track",
            "push:remotename",
            "*objectname",
            "objectname:short=1",
            "committerdate:iso8601",
            "creatordate:format:%Y",
            "HEAD",
            "contents:lines=3",
            "authoremail:trim,localpart",
            "if:notequals=x",
            "align:30,position=right",
            "color:bold red",
            "worktreepath",
            "refname:",
            "subject:sanitize",
            "*refname",
        ] {
            assert!(parse(text).is_some(), "{text}");
        }
    }

    #[test]
    fn fields_for_git() {
        for text in [
            "",
            "*",
            "nothing",
            "authorname:mailmap",
            "authordate:human",
            "authordate:",
            "describe",
            "raw",
            "objectsize:disk",
            "ahead-behind:HEAD",
            "contents:trailers",
            "refname:short,strip=1",
            "*HEAD",
            "upstream:short,track",
            "creatorname",
            "numparent:x",
            "align",
            "align:left",
            "objectname:short=0",
            "contents:lines=-1",
            "color",
            "color:nonsense",
            "upstream:remotename,trackshort,remoteref",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
