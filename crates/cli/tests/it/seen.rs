//! The state of a repository, read from its files.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    path::Path,
};

use bstr::{BString, ByteSlice as _};

/// A file or a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    File { executable: bool, content: BString },
    Link(BString),
}

/// Returns the files and links below a directory; those in `.git` only if `with_git` is
/// true.
pub(crate) fn tree(root: &Path, with_git: bool) -> BTreeMap<BString, Node> {
    let (mut found, mut open) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(dir) = open.pop() {
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        for entry in entries {
            let path = entry.expect("a directory that can be read").path();
            let name: BString = path.strip_prefix(root).expect("below").as_os_str().as_bytes().into();
            let meta = path.symlink_metadata().expect("nobody works here");
            if meta.is_dir() {
                if with_git || name != ".git" {
                    open.push(path);
                }
                continue;
            }
            let node = if meta.is_symlink() {
                Node::Link(fs::read_link(&path).expect("a link").into_os_string().as_bytes().into())
            } else {
                let executable = meta.permissions().mode() & 0o100 != 0;
                Node::File { executable, content: fs::read(&path).expect("a file").into() }
            };
            found.insert(name, node);
        }
    }
    found
}

/// Returns the paths of all files in a Git directory.
pub(crate) fn names(git_dir: &Path) -> BTreeSet<BString> {
    tree(git_dir, true).into_keys().collect()
}

/// Returns the content of HEAD, and refs by name.
pub(crate) fn refs(git_dir: &Path) -> BTreeMap<BString, BString> {
    let mut refs = BTreeMap::new();
    let packed = fs::read(git_dir.join("packed-refs")).unwrap_or_default();
    for line in packed.lines().filter(|line| !line.starts_with(b"#") && !line.starts_with(b"^")) {
        let (oid, name) = line.split_once_str(" ").expect("an id and a name");
        refs.insert(name.into(), oid.into());
    }
    for (name, node) in tree(&git_dir.join("refs"), true) {
        if let Node::File { content, .. } = node {
            refs.insert([&b"refs/"[..], &name].concat().into(), content.trim_end().into());
        }
    }
    refs.insert("HEAD".into(), fs::read(git_dir.join("HEAD")).unwrap_or_default().trim_end().into());
    refs
}
