//! Fetching in a submodule, if it lacks the commit that the superproject records.

use bstr::{BStr, ByteSlice as _};
use repo::Repository;
use sapwood::ObjectId;
use sapwood::submodule::remote;

use super::{list::Superproject, options::Request};
use crate::{
    session::reexec,
    term::{
        console::{self, text},
        failure::Failure,
        text::os_str,
    },
};

/// The extent of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FetchExtent {
    /// The branches, as configured.
    Branches,
    /// This commit.
    Commit(ObjectId),
}

/// Opens the submodule at `path`.
pub(super) fn open(superproject: &Superproject<'_>, path: &BStr) -> Result<Repository, Failure> {
    let opened = superproject.repo.submodule(path).ok().flatten();
    opened
        .ok_or_else(|| Failure::Fatal(text!("could not get a repository handle for submodule '", path, "'")))
}

/// Fetches `commit` into the submodule, unless it is reachable from the submodule's refs.
pub(super) fn ensure(
    superproject: &Superproject<'_>,
    request: &Request,
    path: &BStr,
    commit: ObjectId,
) -> Result<(), Failure> {
    if is_reachable(&open(superproject, path)?, commit) {
        return Ok(());
    }
    let shown = superproject.shown(path);
    let code = fetch(superproject, request, path, FetchExtent::Branches, request.quiet)?;
    if code != 0 && !request.quiet {
        console::eprint_line(text!(
            "Unable to fetch in submodule path '",
            shown,
            "'; trying to directly fetch ",
            commit.to_string(),
            ":"
        ));
    }
    if is_reachable(&open(superproject, path)?, commit)
        || fetch(superproject, request, path, FetchExtent::Commit(commit), request.quiet)? == 0
    {
        return Ok(());
    }
    Err(Failure::Fatal(text!(
        "Fetched in submodule path '",
        shown,
        "', but it did not contain ",
        commit.to_string(),
        ". Direct fetching of that commit failed."
    )))
}

/// Runs `fetch` in the submodule. Returns its exit code.
pub(super) fn fetch(
    superproject: &Superproject<'_>,
    request: &Request,
    path: &BStr,
    what: FetchExtent,
    quiet: bool,
) -> Result<u8, Failure> {
    let mut git = reexec::in_submodule(superproject.run, &superproject.dir(path));
    git.env("GIT_PROTOCOL_FROM_USER", "0").arg("fetch");
    if quiet {
        git.arg("--quiet");
    }
    if let Some(depth) = request.depth.as_ref().filter(|depth| depth.iter().any(|&digit| digit != b'0')) {
        git.arg(os_str(&text!("--depth=", depth)));
    }
    if let FetchExtent::Commit(commit) = what {
        let remote = remote::of_submodule(superproject, path, &open(superproject, path)?)?;
        git.arg(os_str(&remote)).arg(commit.to_string());
    }
    reexec::run(superproject.run, git)
}

/// Returns true if the commit is reachable from HEAD or a ref of the submodule. An error counts as
/// no: the fetch then reports it.
fn is_reachable(submodule: &Repository, commit: ObjectId) -> bool {
    let refs = submodule.refs("refs/").unwrap_or_default();
    let head = submodule.head().ok().and_then(|head| head.oid());
    let tips = refs.into_iter().map(|(_, oid)| oid).chain(head);
    let mut bases: Vec<ObjectId> = Vec::new();
    for tip in tips {
        if tip == commit {
            return submodule.objects().contains(&commit);
        }
        // Peel tags; a tip that is not a commit does not count.
        let name = format!("{tip}^{{commit}}");
        if let Ok(base) = submodule.rev_parse(name.as_bytes().as_bstr()) {
            bases.push(base);
        }
    }
    bases.sort_unstable();
    bases.dedup();
    submodule.objects().contains(&commit) && submodule.is_reachable(commit, &bases).unwrap_or(false)
}
