//! The upstream of a new branch. Source: git-config(1), `branch.*`, `remote.*`.

use bstr::{BStr, BString, ByteSlice as _};
use repo::{Repository, keys};

use super::{Error, names};

/// The rule that selects the upstream of a new branch (`--track`, `branch.autoSetupMerge`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Track {
    Never,
    /// The default: the start is the upstream if it is a remote-tracking branch.
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
    /// Reads `branch.autoSetupMerge`.
    pub fn configured(repo: &Repository) -> Result<Track, Error> {
        Ok(match repo.config_str(&keys::branch::AUTO_SETUP_MERGE) {
            Some(value) if value == "always" => Track::Always,
            Some(value) if value == "inherit" => Track::Inherit,
            Some(value) if value == "simple" => Track::Simple,
            _ => match repo.config_as(&keys::branch::AUTO_SETUP_MERGE)? {
                Some(false) => Track::Never,
                _ => Track::Remote,
            },
        })
    }
}

/// Returns the remotes whose fetch refspecs update the ref `name` (full), each with the ref's name
/// on the remote.
fn sources(repo: &Repository, name: &BStr) -> Vec<(BString, BString)> {
    let source = |remote: &BString| repo.fetched_into(remote.as_bstr(), name);
    repo.remotes().into_iter().filter_map(|remote| source(&remote).map(|name| (remote, name))).collect()
}

/// Returns true if a refspec of some remote fetches into `name` (full).
pub fn is_tracking_ref(repo: &Repository, name: &BStr) -> bool {
    !sources(repo, name).is_empty()
}

/// The new values of `branch.<name>.remote` and `branch.<name>.merge`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// The remote; `None` for this repository.
    pub remote: Option<BString>,
    /// The full names of the refs on the remote.
    pub merge: Vec<BString>,
}

/// The reason why a branch got no upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum NoUpstream {
    /// The rule selects no upstream for this start. That is not an error.
    NotWanted,
    /// With `--track=inherit`: the start has no upstream remote.
    StartHasNoRemote,
    /// With `--track=inherit`: the start has no upstream branch.
    StartHasNoMerge,
    /// Several remotes, which are listed, fetch into the start.
    Ambiguous(Vec<BString>),
    /// The branch would be its own upstream.
    Itself,
}

/// Chooses the upstream of the new branch `branch` (short name), which starts at the ref `start`
/// (full name).
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
        let remote = repo.config_str(&keys::branch::REMOTE.of(from)).ok_or(NoUpstream::StartHasNoRemote)?;
        let merge = repo.config_all(&keys::branch::MERGE.of(from));
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
