//! Names of revisions in Git's grammar: gitrevisions(7), "Specifying revisions".
//!
//! Forms are tried in Git's order: suffixes (`~3`, `^2`, `^{tree}`), then refs with their reflogs
//! and upstreams, then the output of `git describe`, then abbreviated object names, and last the
//! forms with a colon. A name without an object gives `None`; an invalid form is an error with
//! Git's message.

mod forms;
mod short_names;

use std::collections::{BinaryHeap, HashSet};

use bstr::{BStr, BString, ByteSlice};
use format::{
    ObjectId,
    index::{Index, Stage},
    keys,
    tree::{Malformed, TreeEntries, TreeEntry},
};
use objects::Kind;

use self::forms::{
    brace_suffix, colon_outside_braces, describe_suffix, numeric_suffix, prior_checkout, ref_in, split_reflog,
};
use crate::{
    Error, Head, ObjectError, Repository, RevisionError,
    refs::{End, RULES},
};

/// The possible types of an abbreviated object name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hint {
    Any,
    Commit,
    Committish,
    Treeish,
    Blob,
    Tag,
}

impl Repository {
    /// Sets the index for names like `:path` and `:2:path`. Only the first call has an effect.
    pub fn set_index(&self, index: Index) {
        let _ = self.index.set(index);
    }

    /// Resolves a revision that names one object, including `-` and `@{-N}`. Forms that use the
    /// index (`:path`) need [`Repository::set_index`] or [`Repository::resolve_with`].
    pub fn rev_parse(&self, spec: &BStr) -> Result<ObjectId, Error> {
        self.resolve(spec)?.ok_or_else(|| RevisionError::NotFound(spec.to_owned()).into())
    }

    /// Like [`Repository::rev_parse`], but returns `None` if the revision names no object.
    pub fn resolve(&self, spec: &BStr) -> Result<Option<ObjectId>, Error> {
        self.resolve_with(spec, self.index.get())
    }

    /// Like [`Repository::resolve`], but accepts only a commit, or a tag of one. This resolves
    /// abbreviations that several objects share.
    pub fn resolve_commit(&self, spec: &BStr) -> Result<Option<ObjectId>, Error> {
        match self.simple(spec, Hint::Committish)? {
            Some(id) => Ok(Some(id)),
            None => self.resolve(spec),
        }
    }

    /// Resolves a revision, or `A...B` to the only merge base of two commits. An empty side means
    /// `HEAD`. `checkout` and `restore` accept this form.
    pub fn rev_parse_or_base(&self, spec: &BStr) -> Result<ObjectId, Error> {
        let Some((left, right)) = spec.split_once_str("...") else { return self.rev_parse(spec) };
        let side = |side: &[u8]| {
            let side = if side.is_empty() { BStr::new("HEAD") } else { side.as_bstr() };
            let id = self.simple(side, Hint::Committish)?;
            id.map(|id| self.peel_to_commit(id)).transpose().map(Option::flatten)
        };
        if let (Some(left), Some(right)) = (side(left)?, side(right)?)
            && let [base] = self.merge_bases(left, right)?[..]
        {
            return Ok(base);
        }
        Err(RevisionError::NotFound(spec.to_owned()).into())
    }

    /// Returns the ambiguous names in `spec`, about which Git warns: each may mean several refs, or
    /// a ref and an object (`core.warnAmbiguousRefs`).
    pub fn ambiguous_names(&self, spec: &BStr) -> Result<Vec<BString>, Error> {
        if !self.config(&keys::core::WARN_AMBIGUOUS_REFS)? {
            return Ok(Vec::new());
        }
        let sides =
            spec.split_once_str("...").map_or(vec![spec.as_bytes()], |(left, right)| vec![left, right]);
        let sides = sides.into_iter().filter(|side| !side.is_empty());
        sides.filter_map(|side| self.ambiguous_name(side.as_bstr()).transpose()).collect()
    }

    /// Returns true if Git resolves `spec` without a warning: the name matches at most one ref, and
    /// no broken one.
    pub fn is_resolved_without_warning(&self, spec: &BStr) -> Result<bool, Error> {
        let name = ref_in(spec);
        let mut found = 0;
        for full in self.meanings(name)? {
            match self.refs.resolve(full.as_bstr())?.end {
                End::Id(_) => found += 1,
                End::Missing => {}
                End::Dangling if full == "HEAD" => {}
                End::Broken(_) if !full.contains(&b'/') => {}
                End::Dangling | End::Broken(_) => return Ok(false),
            }
        }
        let warns = self.config(&keys::core::WARN_AMBIGUOUS_REFS)?;
        Ok(!warns || !self.is_ambiguous(name, found))
    }

    fn ambiguous_name(&self, spec: &BStr) -> Result<Option<BString>, Error> {
        let name = ref_in(spec);
        let mut found = 0;
        for full in self.meanings(name)? {
            found += usize::from(self.try_ref(full.as_bstr())?.is_some());
        }
        Ok(self.is_ambiguous(name, found).then(|| name.to_owned()))
    }

    /// Returns the full names of refs that a short name may mean.
    fn meanings(&self, name: &BStr) -> Result<[BString; RULES.len()], Error> {
        let short = self.interpret_branch_name(name)?;
        Ok(RULES.map(|(before, after)| [before.as_bytes(), &short, after.as_bytes()].concat().into()))
    }

    /// Returns true if Git warns about a name for which it found this many refs.
    fn is_ambiguous(&self, name: &BStr, found: usize) -> bool {
        let is_also_an_object = || matches!(self.abbreviated(name, Hint::Any), Ok(Some(_)));
        if self.parse_hex(name).is_some() {
            found > 0
        } else {
            found > 1 || (found == 1 && is_also_an_object())
        }
    }

    /// Like [`Repository::resolve`], with an index for `:path` and `:<stage>:path`.
    pub fn resolve_with(&self, spec: &BStr, index: Option<&Index>) -> Result<Option<ObjectId>, Error> {
        if let Some(id) = self.simple(spec, Hint::Any)? {
            return Ok(Some(id));
        }
        if let Some(rest) = spec.strip_prefix(b":/").filter(|rest| !rest.is_empty()) {
            return self.youngest_matching(rest.as_bstr());
        }
        if let Some(rest) = spec.strip_prefix(b":") {
            let (stage, path) = match rest {
                [n @ b'0'..=b'3', b':', path @ ..] => (n - b'0', path.as_bstr()),
                _ => (0, rest.as_bstr()),
            };
            let Some(index) = index else {
                return Err(RevisionError::IndexEntry(spec.to_owned()).into());
            };
            let path = self.relative_path(path)?;
            let stage = [Stage::Normal, Stage::Base, Stage::Ours, Stage::Theirs][usize::from(stage)];
            return Ok(index.position(path.as_bstr(), stage).ok().map(|at| index.entry(at).oid));
        }
        let Some(colon) = colon_outside_braces(spec) else { return Ok(None) };
        let Some(tree) = self.simple(spec[..colon].as_bstr(), Hint::Treeish)? else { return Ok(None) };
        let Some(tree) = self.tree_if_any(tree)? else { return Ok(None) };
        self.lookup_path(tree, self.relative_path(spec[colon + 1..].as_bstr())?.as_bstr())
    }

    fn simple(&self, spec: &BStr, hint: Hint) -> Result<Option<ObjectId>, Error> {
        if let Some((at, n)) = numeric_suffix(spec) {
            let base = spec[..at].as_bstr();
            let Some(n) = n else { return Ok(None) };
            let Some(id) = self.simple(base, Hint::Committish)? else { return Ok(None) };
            let Some(commit) = self.peel_to_commit(id)? else { return Ok(None) };
            return match spec[at] {
                b'^' => self.nth_parent(commit, n),
                _ => self.nth_ancestor(commit, n),
            };
        }
        if let Some((base, wanted)) = brace_suffix(spec) {
            return self.peel(base, wanted);
        }
        if let Some(id) = self.basic(spec)? {
            return Ok(Some(id));
        }
        if let Some(hex) = describe_suffix(spec)
            && let Some(id) = self.abbreviated(hex, Hint::Commit)?
        {
            return Ok(Some(id));
        }
        self.abbreviated(spec, hint)
    }

    fn basic(&self, spec: &BStr) -> Result<Option<ObjectId>, Error> {
        if let Some(id) = self.parse_hex(spec) {
            return Ok(Some(id));
        }
        let (name, log) = split_reflog(spec);
        if log.is_none()
            && spec.contains_str("@{")
            && prior_checkout(spec).is_some_and(|(_, rest)| rest.is_empty())
        {
            let (n, _) = prior_checkout(spec).expect("just seen");
            return match self.previous_checkout(n)? {
                Some(previous) => match self.parse_hex(previous.as_bstr()) {
                    Some(id) => Ok(Some(id)),
                    None => Ok(self.expand_ref(previous.as_bstr())?.map(|(_, id)| id)),
                },
                None => Ok(None),
            };
        }
        let found = match (name.is_empty(), log) {
            // The reflog of HEAD's branch.
            (true, Some(_)) => match self.head()? {
                Head::Branch { name, .. } | Head::Unborn { name } => self.expand_ref(name.as_bstr())?,
                Head::Detached { .. } | Head::Unresolvable => self.expand_ref("HEAD".into())?,
            },
            (true, None) => None,
            (false, None) => self.expand_ref(self.interpret_branch_name(name)?.as_bstr())?,
            (false, Some(_)) => self.expand_ref_with_log(self.interpret_branch_name(name)?.as_bstr())?,
        };
        let Some((full, id)) = found else { return Ok(None) };
        let Some(log) = log else { return Ok(Some(id)) };
        let shown = full.strip_prefix(b"refs/heads/").unwrap_or(&full).as_bstr();
        if !log.is_empty() && log.len() <= 9 && log.iter().all(u8::is_ascii_digit) {
            let n = log.to_str().ok().and_then(|n| n.parse().ok()).expect("at most nine digits");
            return self.reflog_entry(full.as_bstr(), shown, n);
        }
        match crate::identity::parse_time(log) {
            Some(seconds) => self.reflog_at(full.as_bstr(), shown, seconds),
            None => Ok(None),
        }
    }

    fn nth_parent(&self, commit: ObjectId, n: usize) -> Result<Option<ObjectId>, Error> {
        if n == 0 {
            return Ok(Some(commit));
        }
        self.check_grafts()?;
        Ok(self.read_commit(&commit)?.parents.get(n - 1).copied())
    }

    fn nth_ancestor(&self, commit: ObjectId, n: usize) -> Result<Option<ObjectId>, Error> {
        if n > 0 {
            self.check_grafts()?;
        }
        let mut commit = commit;
        for _ in 0..n {
            match self.read_commit(&commit)?.parents.first() {
                Some(parent) => commit = *parent,
                None => return Ok(None),
            }
        }
        Ok(Some(commit))
    }

    /// Like [`Repository::tree_of`], but returns `None` if the object leads to no tree. An I/O
    /// error is an error.
    fn tree_if_any(&self, id: ObjectId) -> Result<Option<ObjectId>, Error> {
        match self.tree_of(id) {
            Ok(tree) => Ok(Some(tree)),
            Err(error) if error.is_unreadable() => Err(error),
            Err(_) => Ok(None),
        }
    }

    fn peel(&self, base: &BStr, wanted: &BStr) -> Result<Option<ObjectId>, Error> {
        let hint = match wanted.as_bytes() {
            b"commit" => Hint::Committish,
            b"tree" => Hint::Treeish,
            b"tag" => Hint::Tag,
            b"blob" => Hint::Blob,
            b"" | b"object" => Hint::Any,
            [b'/', ..] => Hint::Committish,
            _ => return Ok(None),
        };
        let Some(id) = self.simple(base, hint)? else { return Ok(None) };
        match wanted.as_bytes() {
            b"object" => Ok(Some(id)),
            b"" => Ok(Some(self.peel_tags(id)?.0)),
            b"commit" => self.peel_to_commit(id),
            b"tree" => self.tree_if_any(id),
            b"tag" => Ok((self.read_object(&id)?.0 == Kind::Tag).then_some(id)),
            b"blob" => {
                let (id, kind, _) = self.peel_tags(id)?;
                Ok((kind == Kind::Blob).then_some(id))
            }
            regex => match self.peel_to_commit(id)? {
                Some(commit) => self.first_matching(vec![commit], regex[1..].as_bstr()),
                None => Ok(None),
            },
        }
    }

    /// Resolves `:/text`: the youngest commit that is reachable from any ref.
    fn youngest_matching(&self, regex: &BStr) -> Result<Option<ObjectId>, Error> {
        let mut tips = Vec::new();
        for (_, id) in self.refs("refs/")? {
            tips.extend(if id.is_null() { None } else { self.peel_to_commit(id)? });
        }
        tips.extend(self.head()?.oid());
        self.first_matching(tips, regex)
    }

    /// Returns the first commit, by descending date, whose message matches.
    fn first_matching(&self, tips: Vec<ObjectId>, pattern: &BStr) -> Result<Option<ObjectId>, Error> {
        let invalid = || RevisionError::Pattern(pattern.to_owned());
        let (pattern, negated) = match pattern.as_bytes() {
            [b'!', b'-', rest @ ..] => (rest, true),
            [b'!', rest @ ..] if rest.starts_with(b"!") => (rest, false),
            [b'!', ..] => return Err(invalid().into()),
            _ => (pattern.as_bytes(), false),
        };
        let regex = pattern.to_str().ok().and_then(|pattern| {
            regex::bytes::RegexBuilder::new(pattern).unicode(false).multi_line(true).build().ok()
        });
        let regex = regex.ok_or_else(invalid)?;
        let mut seen = HashSet::new();
        let mut queue = BinaryHeap::new();
        let mut enter = |queue: &mut BinaryHeap<_>, id: ObjectId| {
            if seen.insert(id) {
                let commit = self.read_commit(&id)?;
                // Among commits of the same date, the one found first comes first.
                queue.push((commit.date, std::cmp::Reverse(seen.len()), id));
            }
            Ok::<(), Error>(())
        };
        for tip in tips {
            enter(&mut queue, tip)?;
        }
        while let Some((_, _, id)) = queue.pop() {
            let commit = self.read_commit(&id)?;
            if regex.is_match(&commit.message) != negated {
                return Ok(Some(id));
            }
            for parent in commit.parents {
                enter(&mut queue, parent)?;
            }
        }
        Ok(None)
    }

    fn abbreviated(&self, hex: &BStr, hint: Hint) -> Result<Option<ObjectId>, Error> {
        if hex.len() < 4 || hex.len() > self.layout.hash.hex_len() || !hex.iter().all(u8::is_ascii_hexdigit) {
            return Ok(None);
        }
        let hex = BString::from(hex.to_ascii_lowercase());
        let found = self.with_prefix(hex.as_bstr())?;
        match found.as_slice() {
            [] => return Ok(None),
            [id] => return Ok(Some(*id)),
            _ => {}
        }
        let mut fitting = Vec::new();
        for id in &found {
            if self.fits(id, hint)? {
                fitting.push(*id);
            }
        }
        match fitting.as_slice() {
            [id] => Ok(Some(*id)),
            _ => Err(RevisionError::Ambiguous(hex).into()),
        }
    }

    fn fits(&self, id: &ObjectId, hint: Hint) -> Result<bool, Error> {
        let (kind, data) = self.read_object(id)?;
        let peeled = |kind| -> Result<Kind, Error> {
            match kind {
                Kind::Tag => Ok(self.peel_tags(self.tag_target(id, &data)?)?.1),
                kind => Ok(kind),
            }
        };
        Ok(match hint {
            Hint::Any => true,
            Hint::Commit => kind == Kind::Commit,
            Hint::Committish => peeled(kind)? == Kind::Commit,
            Hint::Treeish => matches!(peeled(kind)?, Kind::Commit | Kind::Tree),
            Hint::Blob => kind == Kind::Blob,
            Hint::Tag => kind == Kind::Tag,
        })
    }

    /// Resolves `./x` and `../x` from the current directory. Other paths start at the top of the
    /// worktree.
    fn relative_path(&self, path: &BStr) -> Result<BString, Error> {
        if !(path == "." || path == ".." || path.starts_with(b"./") || path.starts_with(b"../")) {
            return Ok(path.to_owned());
        }
        if self.work_tree().is_none() {
            return Err(RevisionError::RelativePath.into());
        }
        let mut parts: Vec<&[u8]> =
            self.layout.prefix.split_str("/").filter(|part| !part.is_empty()).collect();
        for part in path.split_str("/") {
            match part {
                b"" | b"." => {}
                b".." => {
                    parts.pop().ok_or_else(|| RevisionError::Outside(path.to_owned()))?;
                }
                part => parts.push(part),
            }
        }
        Ok(bstr::join("/", parts).into())
    }

    /// Returns the object at a path below a tree.
    pub fn lookup_path(&self, tree: ObjectId, path: &BStr) -> Result<Option<ObjectId>, Error> {
        let mut id = tree;
        for part in path.split_str("/").filter(|part| !part.is_empty()) {
            let (Kind::Tree, data) = self.read_object(&id)? else { return Ok(None) };
            let mut entries = TreeEntries::new(self.layout.hash, &data);
            let is_sought = |entry: &Result<TreeEntry<'_>, Malformed>| {
                entry.as_ref().map_or(true, |entry| entry.name == part)
            };
            match entries.find(is_sought) {
                Some(Ok(entry)) => id = entry.oid,
                // The entries after a malformed one cannot be read.
                Some(Err(_)) => return Err(ObjectError::BadTree(id).into()),
                None => return Ok(None),
            }
        }
        Ok(Some(id))
    }
}
