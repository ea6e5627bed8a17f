//! The attributes of a volume: what a pod or a user asks for.

use serde::{Deserialize, Serialize};

use crate::Error;

/// A volume, checked for its form. The settings say what it may name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// The address of the repository, without a password.
    pub repository: String,
    /// A commit id, or the name of a branch or tag.
    pub commit: String,
    /// The remote that may have the base of the commit.
    pub base: Option<String>,
    /// The directories of a sparse workspace.
    pub sparse: Vec<String>,
    /// The number of commits of history; `None` for all.
    pub depth: Option<u32>,
    /// The owner of the files.
    pub uid: u32,
    /// The group of the files.
    pub gid: u32,
    /// The most bytes that changes may have on the disk, as for `workspace create --quota`.
    pub quota: Option<String>,
    /// The end of unsaved work.
    pub unsaved: Unsaved,
    /// Nobody may change a file.
    pub read_only: bool,
}

/// The end of changes, and of commits that the repository lacks, when a volume is removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unsaved {
    /// They go with the volume.
    #[default]
    Discard,
    /// The workspace is moved aside, and frozen.
    Keep,
}

/// Attributes that an orchestrator adds.
const OF_KUBERNETES: &str = "csi.storage.k8s.io/";

impl Volume {
    /// Reads attributes. `unsaved` is what becomes of unsaved work if they do not say.
    pub fn parse<'a>(
        attributes: impl IntoIterator<Item = (&'a str, &'a str)>,
        unsaved: Unsaved,
    ) -> Result<Volume, Error> {
        let mut volume = Volume { unsaved, ..Volume::default() };
        let mut gid = None;
        for (name, value) in attributes {
            match name {
                "repository" | "repo" => volume.repository = address(name, value)?,
                "commit" => volume.commit = revision(value)?,
                "base" => volume.base = Some(address(name, value)?),
                "sparse" => volume.sparse = directories(value)?,
                "depth" => volume.depth = Some(number(name, value)?),
                "uid" => volume.uid = id(name, value)?,
                "gid" => gid = Some(id(name, value)?),
                "quota" => volume.quota = Some(word(name, value)?),
                "unsaved" => {
                    volume.unsaved = match value {
                        "keep" => Unsaved::Keep,
                        "discard" => Unsaved::Discard,
                        _ => return Err(malformed(name, value, "keep or discard")),
                    }
                }
                _ if name.starts_with(OF_KUBERNETES) => {}
                _ => return Err(Error::Invalid(format!("there is no attribute '{name}'"))),
            }
        }
        for (name, value) in [("repository", &volume.repository), ("commit", &volume.commit)] {
            if value.is_empty() {
                return Err(Error::Invalid(format!("the attribute '{name}' is missing")));
            }
        }
        if volume.depth == Some(0) {
            return Err(malformed("depth", "0", "at least 1"));
        }
        volume.gid = gid.unwrap_or(volume.uid);
        Ok(volume)
    }

    /// Returns true if the commit is named by its id.
    pub(crate) fn names_an_id(&self) -> bool {
        is_id(&self.commit)
    }
}

/// Returns true for the hexadecimal id of a commit.
pub(crate) fn is_id(text: &str) -> bool {
    [40, 64].contains(&text.len()) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn malformed(name: &str, value: &str, expected: &str) -> Error {
    Error::Invalid(format!("the attribute '{name}' is '{value}', and has to be {expected}"))
}

/// Returns a value without control characters that no program takes for an option.
fn word(name: &str, value: &str) -> Result<String, Error> {
    if value.is_empty() || value.starts_with('-') || value.chars().any(char::is_control) {
        return Err(malformed(name, value, "a word that does not begin with '-'"));
    }
    Ok(value.to_owned())
}

/// Returns an address without a password: it would stand in records, messages and `.git/config`.
fn address(name: &str, value: &str) -> Result<String, Error> {
    let address = word(name, value)?;
    let authority = address.split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or(""));
    if authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':')) {
        return Err(Error::Invalid(format!("the attribute '{name}' has a password; use a secret")));
    }
    Ok(address)
}

/// Returns the id of a commit, or a name that may be a branch or a tag.
fn revision(value: &str) -> Result<String, Error> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./+".contains(letter);
    let is_name = value.chars().all(is_plain)
        && !value.starts_with(['-', '/', '.'])
        && !value.ends_with(['/', '.'])
        && !value.contains("..")
        && !value.contains("//");
    if value.is_empty() || !is_name {
        return Err(malformed("commit", value, "a commit id, or the name of a branch or tag"));
    }
    let lower = value.to_ascii_lowercase();
    Ok(if is_id(&lower) { lower } else { value.to_owned() })
}

/// Returns directories that commas or line ends separate.
fn directories(value: &str) -> Result<Vec<String>, Error> {
    let parts = value.split([',', '\n']).map(str::trim).filter(|part| !part.is_empty());
    let directory = |part: &str| {
        let is_inside = !part.starts_with('/') && !part.split('/').any(|name| name == "..");
        if is_inside { word("sparse", part) } else { Err(malformed("sparse", part, "below the worktree")) }
    };
    parts.map(directory).collect()
}

fn number(name: &str, value: &str) -> Result<u32, Error> {
    value.parse().map_err(|_| malformed(name, value, "a number"))
}

/// Returns the id of a user or group. The kernel means "no change" by the highest number.
fn id(name: &str, value: &str) -> Result<u32, Error> {
    match number(name, value)? {
        u32::MAX => Err(malformed(name, value, "an id")),
        id => Ok(id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(attributes: &[(&str, &str)]) -> Result<Volume, Error> {
        let needed = [("repository", "https://h/a.git"), ("commit", "main")];
        Volume::parse(needed.into_iter().chain(attributes.iter().copied()), Unsaved::Discard)
    }

    #[test]
    fn attributes_are_read() {
        let volume = parse(&[
            ("uid", "1000"),
            ("sparse", "a/b, c\n"),
            ("unsaved", "keep"),
            ("csi.storage.k8s.io/ephemeral", "true"),
            ("commit", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
        ])
        .expect("they are right");
        assert_eq!((volume.uid, volume.gid), (1000, 1000));
        assert_eq!(volume.sparse, ["a/b", "c"]);
        assert_eq!(volume.unsaved, Unsaved::Keep);
        assert!(volume.names_an_id() && volume.commit.starts_with("aaa"));
    }

    #[test]
    fn each_wrong_attribute_is_refused() {
        let wrong = [
            ("repository", "--upload-pack=id"),
            ("repository", "https://user:password@h/a"),
            ("base", "s3://b/\n"),
            ("commit", "--exec"),
            ("commit", "a..b"),
            ("commit", "main^{tree}"),
            ("commit", ""),
            ("sparse", "../a"),
            ("sparse", "/etc"),
            ("depth", "0"),
            ("depth", "all"),
            ("uid", "-1"),
            ("gid", "4294967295"),
            ("quota", "-f"),
            ("unsaved", "maybe"),
            ("password", "x"),
        ];
        for (name, value) in wrong {
            assert!(matches!(parse(&[(name, value)]), Err(Error::Invalid(_))), "{name}={value}");
        }
        assert!(Volume::parse([("commit", "main")], Unsaved::Keep).is_err());
        assert!(parse(&[("repository", "ssh://git@h/a")]).is_ok(), "a user is no secret");
    }
}
