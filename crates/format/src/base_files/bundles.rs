//! Bundle lists: the bundles of a branch, for `git clone --bundle-uri`.
//!
//! A list is a file in Git's configuration format, as Git's `bundle-uri` document defines it. Each
//! bundle continues where the previous one ends, and has a larger token. Git ignores the keys `tip`
//! and `size`, which are for the next writer. URIs are relative to the list, so a copy of a remote
//! works at another location.

use crate::{HashKind, ObjectId};

use super::{DataFile, Digest};

/// A bundle of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// `creationToken`
    pub token: u64,
    /// The commit at which it ends.
    pub tip: ObjectId,
    /// The bundle.
    pub file: DataFile,
}

/// A list, oldest bundle first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BundleList {
    /// The bundles.
    pub bundles: Vec<Bundle>,
}

/// The bytes are not a list that [`BundleList::to_bytes`] wrote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {0} is not one that sapwood writes")]
pub struct BadList(usize);

const HEAD: &str = "[bundle]\n\tversion = 1\n\tmode = all\n\theuristic = creationToken\n";

impl BundleList {
    /// Reads a list that [`BundleList::to_bytes`] wrote.
    pub fn parse(bytes: &[u8], hash: HashKind) -> Result<BundleList, BadList> {
        let text = std::str::from_utf8(bytes).map_err(|_| BadList(1))?;
        let body = text.strip_prefix(HEAD).ok_or(BadList(1))?;
        let lines: Vec<&str> = body.lines().collect();
        let mut bundles: Vec<Bundle> = Vec::new();
        for (at, part) in lines.chunks(5).enumerate() {
            let bundle = bundle(part, hash)
                .filter(|bundle| bundles.last().is_none_or(|last| last.token < bundle.token));
            bundles.push(bundle.ok_or(BadList(HEAD.lines().count() + 1 + at * 5))?);
        }
        Ok(BundleList { bundles })
    }

    /// Returns the list in its file format.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = HEAD.to_owned();
        for Bundle { token, tip, file } in &self.bundles {
            text += &format!(
                "[bundle \"{token}\"]\n\turi = ../{}\n\tcreationToken = {token}\n\ttip = {tip}\n\tsize = {}\n",
                file.digest.path(),
                file.size
            );
        }
        text.into_bytes()
    }
}

/// Reads the five lines of one bundle.
fn bundle(lines: &[&str], hash: HashKind) -> Option<Bundle> {
    let [section, uri, token, tip, size] = lines else { return None };
    let token = token.strip_prefix("\tcreationToken = ")?.parse().ok()?;
    if *section != format!("[bundle \"{token}\"]") {
        return None;
    }
    let path = uri.strip_prefix("\turi = ../")?;
    let digest: Digest = path.rsplit('/').next()?.parse().ok()?;
    if digest.path() != path {
        return None;
    }
    let tip = ObjectId::from_hex(hash, tip.strip_prefix("\ttip = ")?.as_bytes())?;
    Some(Bundle {
        token,
        tip,
        file: DataFile { digest, size: size.strip_prefix("\tsize = ")?.parse().ok()? },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> BundleList {
        let bundle = |number: u8| Bundle {
            token: number.into(),
            tip: ObjectId::from_bytes(HashKind::Sha1, &[number; 20]).expect("20 bytes"),
            file: DataFile { digest: Digest::of(&[number]), size: 1000 + u64::from(number) },
        };
        BundleList { bundles: vec![bundle(1), bundle(2), bundle(9)] }
    }

    #[test]
    fn lists_come_back() {
        let bytes = list().to_bytes();
        assert_eq!(BundleList::parse(&bytes, HashKind::Sha1), Ok(list()));
        assert_eq!(BundleList::parse(HEAD.as_bytes(), HashKind::Sha1), Ok(BundleList::default()));
        assert_eq!(BundleList::parse(&bytes, HashKind::Sha256), Err(BadList(5)));
        let text = String::from_utf8(bytes).expect("ASCII");
        for (from, to) in
            [("../data", "/data"), ("[bundle \"2\"]", "[bundle \"3\"]"), ("mode = all", "mode = any")]
        {
            BundleList::parse(text.replacen(from, to, 1).as_bytes(), HashKind::Sha1).expect_err(to);
        }
        let swapped = BundleList { bundles: list().bundles.into_iter().rev().collect() };
        BundleList::parse(&swapped.to_bytes(), HashKind::Sha1).expect_err("tokens grow");
    }
}
