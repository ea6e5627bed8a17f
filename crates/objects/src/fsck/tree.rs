//! Trees. Source: Git's `fsck_tree`.

use std::cmp::Ordering;

use format::{ObjectId, path};

use super::{Files, Id, Report};

/// The type bits of a mode, and those of a symbolic link and of a directory.
const TYPE: u32 = 0o170000;
const LINK: u32 = 0o120000;
const DIRECTORY: u32 = 0o040000;

/// Flaws that are reported once a tree, in this order.
const ONCE: [(Id, &str); 11] = [
    (Id::NullSha1, "contains entries pointing to null sha1"),
    (Id::FullPathname, "contains full pathnames"),
    (Id::EmptyName, "contains empty pathname"),
    (Id::HasDot, "contains '.'"),
    (Id::HasDotdot, "contains '..'"),
    (Id::HasDotgit, "contains '.git'"),
    (Id::ZeroPaddedFilemode, "contains zero-padded file modes"),
    (Id::BadFilemode, "contains bad file modes"),
    (Id::DuplicateEntries, "contains duplicate file entries"),
    (Id::TreeNotSorted, "not properly sorted"),
    (Id::LargePathname, "contains excessively large pathname"),
];

/// One entry as stored.
struct Entry<'a> {
    mode: u32,
    is_padded: bool,
    name: &'a [u8],
    oid: ObjectId,
}

/// Returns true if the tree is refused.
pub(super) fn check(report: &mut Report<'_>, content: &[u8], files: &mut Files) -> bool {
    let mut is_refused = false;
    let mut found = Vec::new();
    let mut order = Order::default();
    let mut rest = content;
    while !rest.is_empty() {
        let entry = match entry(&mut rest, report.rules.hash) {
            Ok(entry) => entry,
            Err(complaint) => {
                report.complain(complaint);
                is_refused |= report.flaw(Id::BadTree, "cannot be parsed as a tree").is_err();
                break;
            }
        };
        is_refused |= special(report, &entry, files);
        let name = entry.name;
        let mut note = |is: bool, id: Id| {
            if is && !found.contains(&id) {
                found.push(id);
            }
        };
        note(entry.oid.is_null(), Id::NullSha1);
        note(name.contains(&b'/'), Id::FullPathname);
        note(name == b".", Id::HasDot);
        note(name == b"..", Id::HasDotdot);
        let is_ntfs_dot_git = behind_backslashes(name).any(path::is_ntfs_dot_git);
        note(path::is_hfs_dot(name, b"git") || is_ntfs_dot_git, Id::HasDotgit);
        note(entry.is_padded, Id::ZeroPaddedFilemode);
        note(name.len() > report.rules.longest_name, Id::LargePathname);
        let known = [0o100755, 0o100644, LINK, DIRECTORY, 0o160000];
        note(!known.contains(&entry.mode), Id::BadFilemode);
        match order.next(&entry) {
            Placed::Sorted => {}
            Placed::Unsorted => note(true, Id::TreeNotSorted),
            Placed::Twice => note(true, Id::DuplicateEntries),
        }
    }
    // After an entry that cannot be read, Git reports what it has seen before.
    for (id, message) in ONCE {
        if found.contains(&id) {
            is_refused |= report.flaw(id, message).is_err();
        }
    }
    is_refused
}

/// Splits one entry off. The error is Git's message.
fn entry<'a>(rest: &mut &'a [u8], hash: format::HashKind) -> Result<Entry<'a>, &'static str> {
    let bytes = *rest;
    let len = hash.len();
    if bytes.len() < len + 3 || bytes[bytes.len() - (len + 1)] != 0 {
        return Err("too-short tree object");
    }
    let malformed = "malformed mode in tree entry";
    let blank = bytes.iter().position(|byte| *byte == b' ').ok_or(malformed)?;
    let digits = &bytes[..blank];
    if digits.is_empty() || !digits.iter().all(|digit| (b'0'..=b'7').contains(digit)) {
        return Err(malformed);
    }
    let mode = digits.iter().fold(0_u32, |mode, digit| mode << 3 | u32::from(digit - b'0'));
    let after = &bytes[blank + 1..];
    let end = after.iter().position(|byte| *byte == 0).ok_or("too-short tree object")?;
    if end == 0 {
        return Err("empty filename in tree entry");
    }
    let raw = after.get(end + 1..end + 1 + len).ok_or("too-short tree file")?;
    let oid = ObjectId::from_bytes(hash, raw).ok_or("too-short tree file")?;
    *rest = &after[end + 1 + len..];
    // Git keeps 16 bits of the mode.
    Ok(Entry { mode: mode & 0xffff, is_padded: digits[0] == b'0', name: &after[..end], oid })
}

/// Returns the name, and its rest after each backslash: NTFS treats a backslash as a separator.
fn behind_backslashes(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    let starts = name.iter().enumerate().filter(|(_, byte)| **byte == b'\\').map(|(at, _)| at + 1);
    std::iter::once(0).chain(starts).map(|start| &name[start..])
}

/// Collects `.gitmodules` and `.gitattributes`, and reports symbolic links in place of files that
/// Git reads. Returns true if the tree is refused.
fn special(report: &mut Report<'_>, entry: &Entry<'_>, files: &mut Files) -> bool {
    let Entry { name, oid, .. } = *entry;
    let is_link = entry.mode & TYPE == LINK;
    let is = |dot: path::Dot| path::is_hfs_dot(name, dot.word()) || path::is_ntfs_dot(name, dot);
    let mut is_refused = false;
    let mut module = |report: &mut Report<'_>| {
        if is_link {
            is_refused |= report.flaw(Id::GitmodulesSymlink, ".gitmodules is a symbolic link").is_err();
        } else {
            files.modules.insert(oid);
        }
    };
    if is(path::Dot::Modules) {
        module(report);
    }
    let mut refused_links = false;
    if is(path::Dot::Attributes) && !is_link {
        files.attributes.insert(oid);
    }
    let links = [
        (path::Dot::Attributes, Id::GitattributesSymlink, ".gitattributes is a symlink"),
        (path::Dot::Ignore, Id::GitignoreSymlink, ".gitignore is a symlink"),
        (path::Dot::Mailmap, Id::MailmapSymlink, ".mailmap is a symlink"),
    ];
    for (dot, id, message) in links {
        if is_link && is(dot) {
            refused_links |= report.flaw(id, message).is_err();
        }
    }
    for rest in behind_backslashes(name).skip(1) {
        if path::is_ntfs_dot(rest, path::Dot::Modules) {
            module(report);
        }
    }
    is_refused || refused_links
}

/// The position of an entry relative to the previous entry.
enum Placed {
    Sorted,
    Unsorted,
    Twice,
}

/// Compares each entry with the previous one. A file and a directory with the same name need not be
/// adjacent: `foo`, `foo.bar`, `foo/`.
#[derive(Default)]
struct Order<'a> {
    before: Option<(bool, &'a [u8])>,
    /// Files that a directory of the same name may follow.
    candidates: Vec<&'a [u8]>,
}

impl<'a> Order<'a> {
    fn next(&mut self, entry: &Entry<'a>) -> Placed {
        let now = (entry.mode & TYPE == DIRECTORY, entry.name);
        let Some((was_directory, old)) = self.before.replace(now) else { return Placed::Sorted };
        let (is_directory, new) = now;
        let shared = old.len().min(new.len());
        match old[..shared].cmp(&new[..shared]) {
            Ordering::Less => return Placed::Sorted,
            Ordering::Greater => return Placed::Unsorted,
            Ordering::Equal if old.len() == new.len() => return Placed::Twice,
            Ordering::Equal => {}
        }
        let next = |name: &[u8], is_directory: bool| match name.get(shared) {
            Some(byte) => *byte,
            None if is_directory => b'/',
            None => 0,
        };
        let (one, other) = (next(old, was_directory), next(new, is_directory));
        let is_before_slash = |byte: u8| 0 < byte && byte < b'/';
        if one == 0 && is_before_slash(other) {
            self.candidates.push(old);
        } else if other == b'/' && is_before_slash(one) {
            while let Some(file) = self.candidates.pop() {
                let Some(rest) = new.strip_prefix(file) else { continue };
                match rest.first() {
                    None => return Placed::Twice,
                    Some(byte) if is_before_slash(*byte) => {
                        self.candidates.push(file);
                        break;
                    }
                    Some(_) => {}
                }
            }
        }
        if one < other { Placed::Sorted } else { Placed::Unsorted }
    }
}
