//! The author of the commit: from another commit, an option, or the configuration.

use bstr::{BStr, BString, ByteSlice as _};
use repo::{CommitText, GivenIdentity, Person, Repository, Who};

use super::cleanup::is_space;
use crate::{Error, text};

/// The source of the author. It precedes the environment and the configuration.
#[derive(Clone, Debug, Default)]
pub struct AuthorSource {
    /// The name of a commit, and the commit whose author it is.
    pub commit: Option<(BString, CommitText)>,
    /// `Name <mail>`
    pub identity: Option<BString>,
    /// A date that does not depend on the present time.
    pub date: Option<BString>,
}

/// The parts of `Name <mail> <seconds> <zone>`.
struct Parts<'a> {
    name: &'a BStr,
    mail: &'a BStr,
    /// `<seconds> <zone>`
    date: Option<BString>,
}

impl Parts<'_> {
    /// Parses an identity by Git's rules: only an address in angle brackets is required.
    fn of(line: &BStr) -> Option<Parts<'_>> {
        let start = line.find_byte(b'<')?;
        let end = start + line[start..].find_byte(b'>')?;
        let name = line[..start].trim_end_with(is_space).as_bstr();
        let mail = line[start + 1..end].as_bstr();
        let after = line[line.rfind_byte(b'>')? + 1..].trim_start();
        let mut words = after.fields();
        let is_number = |word: &&[u8]| !word.is_empty() && word.iter().all(u8::is_ascii_digit);
        let is_zone = |word: &&[u8]| matches!(word.first(), Some(b'+' | b'-')) && is_number(&&word[1..]);
        let date = words.next().filter(is_number).zip(words.next().filter(is_zone));
        let date = date.map(|(seconds, zone)| text!(seconds, " ", zone));
        Some(Parts { name, mail, date })
    }
}

/// Returns the author.
pub fn author(repo: &Repository, source: &AuthorSource) -> Result<Person, Error> {
    let mut given = GivenIdentity::default();
    if let Some((spec, commit)) = &source.commit {
        let line = commit.header("author");
        let line = line.ok_or_else(|| Error::Failed(text!("commit '", spec, "' lacks author header")))?;
        let line = commit.recode(line, repo.commit_encoding().as_bstr());
        let parts = Parts::of(line.as_bstr());
        let malformed = || Error::Failed(text!("commit '", spec, "' has malformed author line"));
        let parts = parts.ok_or_else(malformed)?;
        given.name = Some(parts.name.to_owned());
        given.mail = Some(parts.mail.to_owned());
        given.date = parts.date.map(|date| text!("@", date));
    }
    if let Some(author) = &source.identity {
        let malformed = || Error::Failed("malformed --author parameter".into());
        let parts = Parts::of(author.as_bstr()).ok_or_else(malformed)?;
        given.name = Some(parts.name.to_owned());
        given.mail = Some(parts.mail.to_owned());
    }
    if let Some(date) = &source.date {
        if !Repository::is_absolute_date(date.as_bstr()) {
            return Err(Error::Failed(text!("invalid date format: ", date)));
        }
        given.date = Some(date.clone());
    }
    Ok(repo.person(Who::Author, given)?)
}

/// Returns the variables that pass the author to programs.
pub fn variables(author: &Person) -> Vec<(&'static str, BString)> {
    vec![
        ("GIT_AUTHOR_NAME", author.name.clone()),
        ("GIT_AUTHOR_EMAIL", author.mail.clone()),
        ("GIT_AUTHOR_DATE", text!("@", author.date)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_identities_apart() {
        let parts =
            |line: &str| Parts::of(line.into()).map(|it| (it.name.to_string(), it.mail.to_string(), it.date));
        let whole = ("A U".to_owned(), "a@b".to_owned(), Some("12 +0100".into()));
        assert_eq!(parts("A U <a@b> 12 +0100"), Some(whole));
        assert_eq!(parts("<a@b> 12"), Some((String::new(), "a@b".to_owned(), None)));
        assert_eq!(parts("A\u{3000} <a@b>"), Some(("A\u{3000}".to_owned(), "a@b".to_owned(), None)));
        assert_eq!(parts("A <a"), None);
        assert_eq!(parts("A a@b"), None);
    }
}
