//! Helpers that list refs and write objects themselves: `list` and `fetch`.

use bstr::{BString, ByteSlice};
use format::{HashKind, ObjectId};

use super::{Helper, Reply, hash_of};
use crate::{Advertisement, Error, Limits, RemoteRef};

/// A request to a helper that writes the objects itself.
pub struct Wanted<'a> {
    /// The requested objects, with the names of refs that point to them.
    pub refs: &'a [(ObjectId, BString)],
    /// The requested part of the history.
    pub limits: &'a Limits,
    /// Request annotated tags of the sent objects too.
    pub include_tags: bool,
    /// True if the repository is being cloned.
    pub cloning: bool,
    /// True if the server promises the omitted objects.
    pub from_promisor: bool,
    /// Request also objects that exist locally.
    pub refetch: bool,
}

impl Helper {
    /// Requests all refs. Also returns the hash algorithm of their object names.
    pub(crate) fn list(&mut self) -> Result<(Advertisement, HashKind), Error> {
        if self.has("object-format") {
            self.set("object-format", "true")?;
        }
        self.write(b"list\n")?;
        let (mut found, mut hash) = (Advertisement::default(), HashKind::Sha1);
        loop {
            let line = self.read_line()?;
            if line.is_empty() {
                break;
            }
            if let Some(keyword) = line.strip_prefix(b":") {
                if let Some(name) = keyword.strip_prefix(b"object-format ") {
                    hash = hash_of(name).ok_or_else(|| Error::Message("unsupported object format".into()))?;
                }
                continue;
            }
            add(&line, hash, &mut found)?;
        }
        resolve_symbolic(&mut found);
        Ok((found, hash))
    }

    /// Lets the helper fetch objects into the repository. Returns the `.keep` files that it
    /// created.
    pub(crate) fn fetch(mut self, wanted: &Wanted<'_>) -> Result<Vec<BString>, Error> {
        self.set_limits(wanted)?;
        let mut request = Vec::new();
        for (oid, name) in wanted.refs {
            request.extend_from_slice(format!("fetch {oid} {name}\n").as_bytes());
        }
        request.push(b'\n');
        self.write(&request)?;
        let mut kept = Vec::new();
        loop {
            let line = self.read_line()?;
            if line.is_empty() {
                break;
            }
            if let Some(path) = line.strip_prefix(b"lock ") {
                kept.push(path.into());
            }
        }
        self.end()?;
        Ok(kept)
    }

    /// Ends the conversation.
    pub(crate) fn end(mut self) -> Result<(), Error> {
        self.write(b"\n")?;
        self.process.end()
    }

    fn set_limits(&mut self, wanted: &Wanted<'_>) -> Result<(), Error> {
        let limits = wanted.limits;
        if wanted.cloning {
            self.set("cloning", "true")?;
            self.set("check-connectivity", "false")?;
        }
        for (is_set, name) in [(wanted.from_promisor, "from-promisor"), (wanted.refetch, "refetch")] {
            if is_set {
                self.set(name, "true")?;
            }
        }
        if wanted.include_tags {
            self.set("followtags", "true")?;
        }
        let texts = [
            ("depth", limits.depth.map(|depth| depth.to_string().into())),
            ("deepen-since", limits.since.map(|since| since.to_string().into())),
            ("deepen-relative", limits.relative.then(|| BString::from("true"))),
            ("filter", limits.filter.clone()),
        ];
        let excluded = limits.exclude.iter().map(|name| ("deepen-not", Some(name.clone())));
        for (name, value) in texts.into_iter().chain(excluded) {
            let Some(value) = value else { continue };
            if self.set_text(name, value.as_bstr())? != Reply::Ok {
                return Err(Error::Message(format!("the remote helper does not support '{name}'")));
            }
        }
        Ok(())
    }
}

/// Adds a line of the list: `<value> <name> [<attribute>…]`.
fn add(line: &[u8], hash: HashKind, found: &mut Advertisement) -> Result<(), Error> {
    let malformed = || Error::Message(format!("malformed response in ref list: {}", line.as_bstr()));
    let (value, rest) = line.split_once_str(" ").ok_or_else(malformed)?;
    let name = rest.split_str(" ").next().unwrap_or_default();
    let null = ObjectId::null(hash);
    let (oid, symref) = match value {
        b"?" => (null, None),
        _ => match value.strip_prefix(b"@") {
            Some(target) => (null, Some(BString::from(target))),
            None => (ObjectId::from_hex(hash, value).ok_or_else(malformed)?, None),
        },
    };
    if let Some(tag) = name.strip_suffix(b"^{}") {
        if let Some(last) = found.refs.last_mut().filter(|last| last.name == tag) {
            last.peeled = Some(oid);
        }
        return Ok(());
    }
    found.refs.push(RemoteRef { name: name.into(), oid, symref, peeled: None });
    Ok(())
}

/// Gives each symbolic ref the value of its target, and removes refs without a value.
fn resolve_symbolic(found: &mut Advertisement) {
    let values: std::collections::HashMap<BString, ObjectId> =
        found.refs.iter().map(|one| (one.name.clone(), one.oid)).collect();
    for one in found.refs.iter_mut().filter(|one| one.oid.is_null()) {
        if let Some(oid) = one.symref.as_ref().and_then(|target| values.get(target)) {
            one.oid = *oid;
        }
    }
    if let Some(head) = found.refs.iter().find(|one| one.name == "HEAD" && one.oid.is_null()) {
        found.unborn_head.clone_from(&head.symref);
    }
    found.refs.retain(|one| !one.oid.is_null());
}
