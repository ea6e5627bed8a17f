//! The address of a submodule, and the remotes of a superproject and of a submodule.

use std::os::unix::ffi::OsStrExt as _;

use bstr::{BStr, BString, ByteSlice as _};
use repo::Repository;

use super::list::Scene;
use crate::term::{
    console::{self, text},
    failure::Failure,
};

/// The treatment of a superproject without a remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Warn,
    Silent,
}

/// Returns true for an address that is meant relative to the superproject's.
pub(super) fn is_relative(url: &BStr) -> bool {
    url.starts_with(b"./") || url.starts_with(b"../")
}

/// Returns the address that `url` means in the superproject.
pub(super) fn resolve(scene: &Scene<'_>, url: &BStr, missing: Missing) -> Result<BString, Failure> {
    let repo = scene.repo;
    let key = format!("remote.{}.url", default_remote(repo)?);
    let base = match repo.config_str(&key) {
        Some(base) => base,
        None => {
            if missing == Missing::Warn {
                console::warning(format!(
                    "could not look up configuration '{key}'. \
                     Assuming this repository is its own authoritative upstream."
                ));
            }
            let top = repo.work_tree().unwrap_or_else(|| repo.git_dir());
            top.as_os_str().as_bytes().into()
        }
    };
    relative(base.as_bstr(), url)
}

/// Returns the remote that Git takes if none is named.
pub(super) fn default_remote(repo: &Repository) -> Result<BString, Failure> {
    let head = repo.head()?;
    Ok(repo.remote_of(head.branch().unwrap_or_default()))
}

/// Returns the remote of the submodule at `path` that has its address, else its default remote.
pub(super) fn of_submodule(
    scene: &Scene<'_>,
    path: &BStr,
    submodule: &Repository,
) -> Result<BString, Failure> {
    let url = scene.submodules.module(path).and_then(|module| module.url);
    let url = match url {
        Some(url) if is_relative(url.as_bstr()) => Some(resolve(scene, url.as_bstr(), Missing::Silent)?),
        url => url,
    };
    let first_url =
        |remote: &BString| submodule.config_all(&format!("remote.{remote}.url")).into_iter().next();
    let found = url.and_then(|url| {
        submodule.remotes().into_iter().find(|remote| first_url(remote).is_some_and(|first| first == url))
    });
    found.map_or_else(|| default_remote(submodule), Ok)
}

/// Returns the address `url`, relative to `base`.
pub(super) fn relative(base: &BStr, url: &BStr) -> Result<BString, Failure> {
    if !is_local(url) || url.starts_with(b"/") {
        return Ok(url.to_owned());
    }
    let mut base = BString::from(base.strip_suffix(b"/").unwrap_or(base));
    let is_path = is_local(base.as_bstr()) && !base.starts_with(b"/");
    if is_path && !is_relative(base.as_bstr()) {
        base = text!("./", base);
    }
    let (mut url, mut separator) = (url, "/");
    loop {
        if let Some(rest) = url.strip_prefix(b"../") {
            url = rest.as_bstr();
            if chop(&mut base, is_path)? == Chopped::AtColon {
                separator = ":";
            }
        } else if let Some(rest) = url.strip_prefix(b"./") {
            url = rest.as_bstr();
        } else {
            break;
        }
    }
    let joined = text!(base, separator, url);
    let joined = if url.ends_with(b"/") { joined[..joined.len() - 1].into() } else { joined };
    Ok(joined.strip_prefix(b"./").map_or(joined.clone(), BString::from))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chopped {
    AtSlash,
    AtColon,
}

/// Removes the last component.
fn chop(base: &mut BString, is_path: bool) -> Result<Chopped, Failure> {
    if let Some(slash) = base.rfind_byte(b'/') {
        base.truncate(slash);
        return Ok(Chopped::AtSlash);
    }
    if let Some(colon) = base.rfind_byte(b':') {
        base.truncate(colon);
        return Ok(Chopped::AtColon);
    }
    if is_path || *base == "." {
        return Err(Failure::Fatal(text!("cannot strip one component off url '", base, "'")));
    }
    *base = ".".into();
    Ok(Chopped::AtSlash)
}

/// Returns true for a path, as opposed to a URL or `host:path`.
fn is_local(url: &BStr) -> bool {
    match (url.find_byte(b':'), url.find_byte(b'/')) {
        (Some(colon), Some(slash)) => slash < colon,
        (Some(_), None) => false,
        (None, _) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_addresses() {
        for (base, url, expected) in [
            ("https://host/a/b", "../c", "https://host/a/c"),
            ("https://host/a/b/", "./c/", "https://host/a/b/c"),
            ("host:a/b", "../c", "host:a/c"),
            ("host:b", "../c", "host:c"),
            ("/srv/a", "../../c", "/c"),
            ("sub/a", "../c", "sub/c"),
            ("a", "../c", "c"),
            ("../a", "../c", "../c"),
            ("/srv/a", "/else", "/else"),
            ("/srv/a", "https://host/x", "https://host/x"),
        ] {
            assert_eq!(relative(base.into(), url.into()).expect("resolved"), expected, "{base} {url}");
        }
        assert!(relative("a".into(), "../../../c".into()).is_err());
    }
}
