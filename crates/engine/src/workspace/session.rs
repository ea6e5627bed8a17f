//! A session shows a workspace at another path, in a mount namespace of its own: programs that
//! store absolute paths find there what they built in another worktree. All other processes see
//! that path as before.
//!
//! The path may be that of the main worktree, whose `.git` is the common directory. A worktree has
//! a file of that name, so the common directory is hidden. The session then shows it below the
//! workspace's own directory (`SHOWN`), and a file `.git` that leads there. The records of
//! workspaces hold paths of the hidden directory: `inside` and `outside` translate them.

use std::{
    io::{self, Write as _},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use sys::{by_path, mount, namespace};

use super::{backend::Error, record::Workspace};

/// The name of the common directory of a session that hides its place.
const SHOWN: &str = "sapwood-common";
/// The file beside it that contains the hidden path.
const HIDDEN: &str = "hidden";

/// Moves this process, which must have only one thread and see the workspace, into a new mount
/// namespace, in which the directory `at` shows the workspace at `top`. `common` is the common
/// directory. The working directory becomes `at`.
pub fn start(workspace: &Workspace, common: &Path, at: &Path) -> Result<(), Error> {
    let top =
        by_path::canonical(&workspace.record.dir).map_err(Error::io("examine", &workspace.record.dir))?;
    let at = &by_path::canonical(at).map_err(Error::io("examine", at))?;
    let common = by_path::canonical(common).map_err(Error::io("examine", common))?;
    if *at == top {
        return enter(at);
    }
    if top.starts_with(at) || at.starts_with(&top) {
        return Err(Error::Nested { top, at: at.to_owned() });
    }
    namespace::enter_new_mounts()
        .or_else(|_| namespace::enter_new())
        .map_err(|source| Error::NoNamespaces { source })?;
    mount::make_private().map_err(Error::io("change the mounts below", Path::new("/")))?;
    let kept = by_path::open(&common).map_err(Error::io("open", &common))?;
    mount::bind(&top, at).map_err(Error::io("mount", at))?;
    if common.starts_with(at) {
        show_common(workspace, (&common, &kept), (&top, at))?;
    }
    enter(at)
}

fn enter(dir: &Path) -> Result<(), Error> {
    std::env::set_current_dir(dir).map_err(Error::io("enter", dir))
}

/// Shows the common directory, which is hidden, below `top`, and leads Git there.
fn show_common(
    workspace: &Workspace,
    (common, kept): (&Path, &sys::File),
    (top, at): (&Path, &Path),
) -> Result<(), Error> {
    mount::tmpfs(top).map_err(Error::io("mount", top))?;
    let shown = top.join(SHOWN);
    by_path::create_dir(&shown).map_err(Error::io("create", &shown))?;
    mount::bind_open(kept, &shown).map_err(Error::io("mount", &shown))?;
    let write = |name: &str, content: &[&[u8]]| -> Result<PathBuf, Error> {
        let path = top.join(name);
        let written =
            by_path::create_new(&path, 0o644).and_then(|mut file| file.write_all(&content.concat()));
        written.map(|()| path.clone()).map_err(Error::io("write", &path))
    };
    write(HIDDEN, &[common.as_os_str().as_bytes()])?;
    let admin = shown.join("worktrees").join(&workspace.name);
    let gitfile = write("gitfile", &[b"gitdir: ", admin.as_os_str().as_bytes(), b"\n"])?;
    let place = at.join(".git");
    mount::bind(&gitfile, &place).map_err(Error::io("mount", &place))
}

/// Returns true if `state`, a path in a common directory, belongs to a session.
pub fn is_inside(state: &Path) -> bool {
    shown_above(state).is_some()
}

/// Returns the common directory above a path, if a session shows it, and its hidden path. The user
/// may have a directory of that name too, and a file beside it: nothing is mounted there.
fn shown_above(path: &Path) -> Option<(&Path, PathBuf)> {
    let is_named = |above: &&Path| above.file_name().is_some_and(|name| name == SHOWN);
    let hidden = |shown: &Path| {
        let content: io::Result<_> = by_path::read(&shown.with_file_name(HIDDEN));
        let hidden = PathBuf::from(sys::os_str(&content.ok()??));
        let is_mounted = match (sys::mount_id(shown), sys::mount_id(shown.parent()?)) {
            (Ok(Some((own, _))), Ok(Some((above, _)))) => own != above,
            // An old kernel does not tell.
            _ => true,
        };
        (is_mounted && hidden.is_absolute()).then_some(hidden)
    };
    path.ancestors().filter(is_named).find_map(|shown| Some((shown, hidden(shown)?)))
}

/// Returns the path in this session of a path in a record. `state` is a path in the common
/// directory as this process sees it.
pub(crate) fn inside(state: &Path, recorded: &Path) -> PathBuf {
    let found =
        shown_above(state).and_then(|(shown, hidden)| Some(shown.join(recorded.strip_prefix(hidden).ok()?)));
    found.unwrap_or_else(|| recorded.to_owned())
}

/// Returns the path outside of this session of a path in the common directory, as the mount table
/// has it.
pub(crate) fn outside(path: &Path) -> PathBuf {
    let found =
        shown_above(path).and_then(|(shown, hidden)| Some(hidden.join(path.strip_prefix(shown).ok()?)));
    found.unwrap_or_else(|| path.to_owned())
}
