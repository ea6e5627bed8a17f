//! What a new branch is to follow. Source: git-config(1), `branch.*`, `remote.*`.

use bstr::{BStr, BString, ByteSlice as _};
use repo::Repository;

use super::{Error, names};

/// How a new branch is to follow its start (`--track`, `branch.autoSetupMerge`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Track {
    Never,
    /// Only if the start is a remote-tracking branch: the default.
    Remote,
    /// `branch.autoSetupMerge=always`
    Always,
    /// `--track`
    Explicit,
    /// `--track=inherit`
    Inherit,
    /// `branch.autoSetupMerge=simple`
    Simple,
}

impl Track {
    /// The configured default.
    pub fn configured(repo: &Repository) -> Result<Track, Error> {
        Ok(match repo.config_str("branch.autoSetupMerge") {
            Some(value) if value == "always" => Track::Always,
            Some(value) if value == "inherit" => Track::Inherit,
            Some(value) if value == "simple" => Track::Simple,
            _ => match repo.config_bool("branch.autoSetupMerge")? {
                Some(false) => Track::Never,
                _ => Track::Remote,
            },
        })
    }
}

/// The remotes whose fetch refspecs write to the ref `name` (full), each with the name it has there.
fn sources(repo: &Repository, name: &BStr) -> Vec<(BString, BString)> {
    let source = |remote: &BString| {
        let specs = repo.config_all(&format!("remote.{remote}.fetch"));
        specs.iter().find_map(|spec| source_of(spec.as_bstr(), name))
    };
    repo.remotes().into_iter().filter_map(|remote| source(&remote).map(|name| (remote, name))).collect()
}

/// What one refspec fetches into `name`.
fn source_of(spec: &BStr, name: &BStr) -> Option<BString> {
    let (source, destination) = spec.strip_prefix(b"+").unwrap_or(spec).split_once_str(":")?;
    match (source.split_once_str("*"), destination.split_once_str("*")) {
        (Some((before, after)), Some((from, to))) => {
            let middle = name.strip_prefix(from)?.strip_suffix(to)?;
            Some([before, middle, after].concat().into())
        }
        (None, None) => (name == destination).then(|| source.into()),
        _ => None,
    }
}

/// Whether some remote's refspecs fetch into `name` (full).
pub fn is_tracking_ref(repo: &Repository, name: &BStr) -> bool {
    !sources(repo, name).is_empty()
}

/// What `branch.<name>.remote` and `branch.<name>.merge` are to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// `None`: a branch of this repository.
    pub remote: Option<BString>,
    /// Full names on the remote.
    pub merge: Vec<BString>,
}

/// Why a branch could not be given an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum NoUpstream {
    /// Nothing to follow, and that is fine.
    NotWanted,
    /// `--track=inherit`, but the start follows no remote.
    StartHasNoRemote,
    /// `--track=inherit`, but the start merges nothing.
    StartHasNoMerge,
    /// More than one remote fetches into the start.
    Ambiguous(Vec<BString>),
    /// It would follow itself.
    Itself,
}

/// What the new branch (short name) is to follow, started from the ref `start` (full name).
pub fn choose_upstream(
    repo: &Repository,
    branch: &BStr,
    start: &BStr,
    track: Track,
) -> Result<Upstream, NoUpstream> {
    if track == Track::Never {
        return Err(NoUpstream::NotWanted);
    }
    if track == Track::Inherit {
        let from = start.strip_prefix(names::BRANCHES).unwrap_or(start).as_bstr();
        let remote = repo.config_str(&format!("branch.{from}.remote")).ok_or(NoUpstream::StartHasNoRemote)?;
        let merge = repo.config_all(&format!("branch.{from}.merge"));
        if merge.is_empty() {
            return Err(NoUpstream::StartHasNoMerge);
        }
        return Ok(Upstream { remote: Some(remote).filter(|remote| remote != "."), merge });
    }
    let mut matches = sources(repo, start);
    if matches.len() > 1 {
        return Err(NoUpstream::Ambiguous(matches.into_iter().map(|(remote, _)| remote).collect()));
    }
    match (matches.pop(), track) {
        (Some((remote, source)), Track::Simple) => {
            let same = source.strip_prefix(names::BRANCHES) == Some(branch.as_bytes());
            let upstream = Upstream { remote: Some(remote), merge: vec![source] };
            same.then_some(upstream).ok_or(NoUpstream::NotWanted)
        }
        (Some((remote, source)), _) => Ok(Upstream { remote: Some(remote), merge: vec![source] }),
        (None, Track::Remote | Track::Simple) => Err(NoUpstream::NotWanted),
        (None, _) if start.strip_prefix(names::BRANCHES) == Some(branch.as_bytes()) => {
            Err(NoUpstream::Itself)
        }
        (None, _) => Ok(Upstream { remote: None, merge: vec![start.to_owned()] }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refspecs_read_backwards() {
        let source =
            |spec: &str, name: &str| source_of(spec.into(), name.into()).map(|name| name.to_string());
        let all = "+refs/heads/*:refs/remotes/o/*";
        assert_eq!(source(all, "refs/remotes/o/a/b").as_deref(), Some("refs/heads/a/b"));
        assert_eq!(source(all, "refs/remotes/p/a"), None);
        assert_eq!(source("refs/heads/a:refs/x", "refs/x").as_deref(), Some("refs/heads/a"));
        assert_eq!(source("refs/heads/a", "refs/heads/a"), None);
    }
}
