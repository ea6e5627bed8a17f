//! Commits that are in the default branch, in the upstream of their branch, or at a remote: by
//! ancestry, or by patches that equal theirs.

use std::collections::{BTreeMap, HashMap, HashSet};

use bstr::{BString, ByteSlice as _};
use format::ObjectId;
use repo::{Repository, WorktreeHeadKind, keys};

use super::{
    Look,
    patch::{Change, Outline, Patches},
};
use crate::{Error, worktree::records::Worktrees};

/// The newest commits of a branch that are compared with the patches of a workspace.
const COMPARED: usize = 1000;

/// A workspace with more commits of its own than this is not compared by patches.
const OWN: usize = 100;

/// Returns those of `heads` that one of `tips` contains. One whose history cannot be read is left
/// out.
pub(super) fn contained(
    repo: &Repository,
    heads: &HashSet<ObjectId>,
    tips: &[ObjectId],
) -> HashSet<ObjectId> {
    let is_there = |head: &ObjectId| matches!(repo.commit_if_there(*head), Ok(Some(_)));
    let heads: Vec<ObjectId> = heads.iter().copied().filter(is_there).collect();
    if tips.is_empty() {
        return HashSet::new();
    }
    match repo.commits_only_in(&heads, tips) {
        Ok(only) => &HashSet::from_iter(heads) - &HashSet::from_iter(only),
        Err(_) => {
            let only = |head: ObjectId| repo.commits_only_in(&[head], tips);
            let is_in = |head: &ObjectId| only(*head).is_ok_and(|only| !only.contains(head));
            heads.into_iter().filter(is_in).collect()
        }
    }
}

/// A branch in which commits land: its short name and its tip.
type Target = (BString, ObjectId);

/// The places of the HEADs of workspaces.
pub(super) struct History {
    /// The short names of the branches in which commits land.
    targets: Vec<BString>,
    /// By commit: the branch in which it landed.
    landed: HashMap<ObjectId, BString>,
    /// By full name of a branch and by commit: the upstream that has it.
    upstreams: HashMap<(BString, ObjectId), BString>,
    pushed: HashSet<ObjectId>,
}

impl History {
    pub(super) fn read(worktrees: &Worktrees<'_>, looks: &[Look<'_>]) -> Result<History, Error> {
        let repo = worktrees.repo;
        let heads: HashSet<ObjectId> = looks.iter().filter_map(Look::commit).collect();
        let mut landed = HashMap::new();
        let targets = default_branches(repo)?;
        for (name, tip) in &targets {
            for head in contained(repo, &heads, &[*tip]) {
                landed.entry(head).or_insert_with(|| name.clone());
            }
        }
        let mut upstreams = HashMap::new();
        for ((name, tip), branches) in upstreams_of(repo, looks) {
            let heads: HashSet<ObjectId> = branches.iter().map(|(_, head)| *head).collect();
            let contained = contained(repo, &heads, &[tip]);
            let branches = branches.into_iter().filter(|(_, head)| contained.contains(head));
            upstreams.extend(branches.map(|key| (key, name.clone())));
        }
        let remote: Vec<ObjectId> = repo.refs("refs/remotes/")?.into_iter().map(|(_, tip)| tip).collect();
        let pushed = contained(repo, &heads, &remote);
        let left: Vec<ObjectId> = heads.into_iter().filter(|head| !landed.contains_key(head)).collect();
        let mut patches = Patches::new(repo);
        for target in &targets {
            add_equal(&mut patches, &left, target, &mut landed)?;
        }
        let targets = targets.into_iter().map(|(name, _)| name).collect();
        Ok(History { targets, landed, upstreams, pushed })
    }

    pub(super) fn landed(&self, look: &Look<'_>, commit: ObjectId) -> Option<BString> {
        // The commits of a workspace on the default branch itself land nowhere else.
        let own = look.branch().map(short);
        if own.is_some_and(|own| self.targets.contains(&own)) {
            return None;
        }
        let upstream = || self.upstreams.get(&(look.branch()?.clone(), commit));
        self.landed.get(&commit).or_else(upstream).cloned()
    }

    pub(super) fn is_pushed(&self, commit: ObjectId) -> bool {
        self.pushed.contains(&commit)
    }
}

/// Returns the default branch: the one that `origin/HEAD` names, at the remote and here, else the
/// branch of the main worktree, else `init.defaultBranch`, `main` or `master`.
fn default_branches(repo: &Repository) -> Result<Vec<Target>, Error> {
    const ORIGIN: &[u8] = b"refs/remotes/origin/";
    let mut names: Vec<BString> = Vec::new();
    if let Some(remote) = repo.symbolic_target("refs/remotes/origin/HEAD".into())?
        && let Some(short) = remote.strip_prefix(ORIGIN)
    {
        names.push([b"refs/heads/", short].concat().into());
        names.push(remote.clone());
    }
    let exists = |name: &BString| Ok::<_, Error>(repo.find_ref(name.as_bstr())?.is_some());
    if names.is_empty() {
        let main = repo.worktrees()?.into_iter().next();
        let of_main = main.and_then(|main| match repo.head_of(&main).kind {
            WorktreeHeadKind::Branch(name) => Some(name),
            _ => None,
        });
        let configured = repo.config(&keys::init::DEFAULT_BRANCH)?;
        let usual = configured.into_iter().chain(["main".into(), "master".into()]);
        let usual = usual.map(|name| BString::from([b"refs/heads/", name.as_bytes()].concat()));
        for name in of_main.into_iter().chain(usual) {
            if exists(&name)? {
                names.push(name);
                break;
            }
        }
    }
    let mut targets = Vec::new();
    for name in names {
        if let Some(tip) = repo.find_ref(name.as_bstr())? {
            targets.push((short(&name), tip));
        }
    }
    Ok(targets)
}

fn short(full: &BString) -> BString {
    let rest = full.strip_prefix(b"refs/heads/").or_else(|| full.strip_prefix(b"refs/remotes/"));
    rest.unwrap_or(full).into()
}

/// The branches of workspaces by their upstream. The branch of the same name at a remote is no
/// place where commits land: a push makes it.
fn upstreams_of(repo: &Repository, looks: &[Look<'_>]) -> BTreeMap<Target, Vec<(BString, ObjectId)>> {
    let mut found: BTreeMap<Target, Vec<(BString, ObjectId)>> = BTreeMap::new();
    for look in looks {
        let (Some(branch), Some(head)) = (look.branch(), look.commit()) else { continue };
        let Ok(Some(upstream)) = repo.upstream_of(branch.as_bstr()) else { continue };
        let own = branch.strip_prefix(b"refs/heads/").unwrap_or(branch);
        let is_own = upstream.full.strip_suffix(own).is_some_and(|rest| rest.ends_with(b"/"));
        if let (Some(tip), false) = (upstream.oid, is_own) {
            found.entry((upstream.short, tip)).or_default().push((branch.clone(), head));
        }
    }
    found
}

/// Adds the heads whose commits all have equals in a target, or that are equal to one commit as a
/// whole (a squash). One that cannot be read is left out.
fn add_equal(
    patches: &mut Patches<'_>,
    heads: &[ObjectId],
    (name, tip): &Target,
    landed: &mut HashMap<ObjectId, BString>,
) -> Result<(), Error> {
    let mut theirs: Option<Outlines> = None;
    for head in heads.iter().filter(|head| !landed.contains_key(*head)).copied().collect::<Vec<_>>() {
        let own = patches.repo.commits_only_in(&[head], &[*tip]).unwrap_or_default();
        if own.is_empty() || own.len() > OWN {
            continue;
        }
        let theirs = match &mut theirs {
            Some(theirs) => theirs,
            none => none.insert(outlines(patches, *tip)?),
        };
        if is_equal(patches, theirs, &own, head, *tip).unwrap_or(false) {
            landed.insert(head, name.clone());
        }
    }
    Ok(())
}

/// Returns true if each of the commits `own` of `head` has an equal, or all of them together.
fn is_equal(
    patches: &mut Patches<'_>,
    theirs: &Outlines,
    own: &[ObjectId],
    head: ObjectId,
    tip: ObjectId,
) -> Result<bool, Error> {
    let repo = patches.repo;
    let mut all = true;
    for commit in own {
        let change = Change::of(repo, *commit)?;
        all = all && has_equal(patches, theirs, change, head)?;
    }
    if !all
        && own.len() > 1
        && let [base] = repo.merge_bases(head, tip)?[..]
    {
        let whole = Change { old: Some(repo.tree_of(base)?), new: repo.tree_of(head)? };
        all = has_equal(patches, theirs, Some(whole), head)?;
    }
    Ok(all)
}

/// The newest commits of a branch, by the outline of their changes.
type Outlines = HashMap<Outline, Vec<(ObjectId, Change)>>;

fn outlines(patches: &Patches<'_>, tip: ObjectId) -> Result<Outlines, Error> {
    let repo = patches.repo;
    let mut found = Outlines::new();
    for commit in repo.newest_commits(tip, COMPARED)? {
        if let Some(change) = Change::of(repo, commit)? {
            found.entry(patches.outline(change)?).or_default().push((commit, change));
        }
    }
    Ok(found)
}

/// Returns true if a commit of the branch has the same patch. One that `head` builds on does not
/// count: it may have been reverted.
fn has_equal(
    patches: &mut Patches<'_>,
    theirs: &Outlines,
    change: Option<Change>,
    head: ObjectId,
) -> Result<bool, Error> {
    let Some(change) = change else { return Ok(false) };
    let Some(commits) = theirs.get(&patches.outline(change)?) else { return Ok(false) };
    let Some(patch) = patches.patch(change)? else { return Ok(false) };
    for (commit, other) in commits {
        if patches.patch(*other)? == Some(patch) && !patches.repo.is_reachable(*commit, &[head])? {
            return Ok(true);
        }
    }
    Ok(false)
}
