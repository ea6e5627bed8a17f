//! Finds what a crash damaged in an upper layer, and repairs it.
//!
//! A file is suspicious if overlayfs copied it up, if it changed after the last sync, and if it
//! ends at the end of a block or has a hole. Each other file is as a plain worktree would have it.
//! A suspicious file is compared with its origin:
//!
//! | the copy | then |
//! |---|---|
//! | lacks bytes, and has no other ones | the content of the origin is put back |
//! | lacks bytes, and has the others and more at its end | the missing bytes are put back |
//! | lacks bytes, and has changed ones | it stays, and the user is told |
//!
//! The user may have shortened a file. [`Evidence`] tells such a file from a damaged one.

use std::{
    collections::{HashMap, HashSet},
    io::ErrorKind,
    ops::Range,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bstr::{BStr, ByteSlice as _};
use sys::{DirMut, Stat, by_path};

use super::{
    super::{
        backend::{Error, Layers, Site},
        record,
        upper::{self, Below, Everything, Kind, Layer, Line, List, Time},
    },
    compare::{Comparison, Sized, compare, fill},
    mark::Moment,
    notice::{Damage, Finding},
    origin::{self, Handle, Lower, Mark, Origin},
};
use crate::files::own;

/// Blocks of file systems are multiples of this size. The kernel writes whole blocks.
const BLOCK: u64 = 512;

/// The kernel has written a change to the disk after this time, unless the disk is very busy. Its
/// own limit is half a minute.
const WRITEBACK: Duration = Duration::from_secs(600);

/// A file that may have lost bytes.
struct Suspect {
    line: Line,
    stat: Stat,
    mark: Mark,
    /// The ranges that hold data.
    data: Vec<Range<u64>>,
}

impl Suspect {
    fn has_holes(&self) -> bool {
        self.data.iter().map(|range| range.end - range.start).sum::<u64>() < self.stat.size
    }
}

/// The repair of a file.
enum Action {
    /// Remove it from the upper layer: the base shows.
    Remove,
    /// Write the missing bytes, and set the modification time.
    Fill { origin: Origin, lost: Vec<Range<u64>>, modified: (i64, u32) },
    /// Change its time, so that its content is read.
    Touch,
    /// Nothing.
    Leave,
}

/// The repairs of an upper layer.
pub(super) struct Plan {
    upper: PathBuf,
    root: DirMut,
    lower: Lower,
    findings: Vec<Finding>,
    /// In the order of the findings.
    actions: Vec<Action>,
}

/// Examines the upper layer. Everything that changed before `since` is on the disk.
pub(super) fn plan(layers: &Layers, layer: &Layer, since: Option<Moment>) -> Result<Plan, Error> {
    let upper = layers.site.upper.clone();
    let root = own::open(&upper).map_err(Error::io("open", &upper))?;
    let list = upper::scan(layer, &mut Everything)?;
    let lower = Lower::open(layers)?;
    let mut plan = Plan { upper, root, lower, findings: Vec::new(), actions: Vec::new() };
    let mut suspects = Vec::new();
    for line in list.lines() {
        match &line.kind {
            Kind::File if since.is_none_or(|since| line.ctime >= since) => {
                suspects.extend(plan.suspect(line, layer)?);
            }
            Kind::Directory(Below::Redirected(target)) if !plan.leads_somewhere(line, target.as_bstr()) => {
                plan.add(Damage::Misplaced, line, Action::Leave);
            }
            _ => {}
        }
    }
    let origins = plan.origins(&suspects)?;
    let evidence = Evidence::new(&list, layer);
    let replaced: HashSet<&BStr> = list
        .lines()
        .iter()
        .filter(|line| matches!(&line.kind, Kind::Directory(below) if *below != Below::Same))
        .map(|line| line.path.as_bstr())
        .collect();
    for (suspect, origin) in suspects.iter().zip(origins) {
        plan.judge(suspect, origin, &evidence, &replaced)?;
    }
    Ok(plan)
}

impl Plan {
    pub(super) fn findings(&self) -> &[Finding] {
        &self.findings
    }

    fn add(&mut self, damage: Damage, line: &Line, action: Action) {
        self.findings.push(Finding { damage, path: line.path.clone() });
        self.actions.push(action);
    }

    fn failed(&self, action: &'static str, path: &BStr) -> impl FnOnce(std::io::Error) -> Error {
        Error::io(action, &self.upper.join(sys::os_str(path)))
    }

    fn suspect(&self, line: &Line, layer: &Layer) -> Result<Option<Suspect>, Error> {
        let path = line.path.as_bstr();
        let read = origin::mark_of(&self.root, path, layer.form).map_err(self.failed("read", path))?;
        let Some(mark) = read else { return Ok(None) };
        let file = self.root.open_file(path).map_err(self.failed("open", path))?;
        let stat = sys::stat_of(&file).map_err(self.failed("examine", path))?;
        let data = sys::data_ranges(&file, stat.size).map_err(self.failed("read", path))?;
        let suspect = Suspect { line: line.clone(), stat, mark, data };
        let is_suspicious = suspect.stat.size.is_multiple_of(BLOCK) || suspect.has_holes();
        Ok(is_suspicious.then_some(suspect))
    }

    /// Returns true if a renamed directory has its content in a lower layer. The target of a rename
    /// within one directory is a name.
    fn leads_somewhere(&self, line: &Line, target: &BStr) -> bool {
        let path = match (target.strip_prefix(b"/"), line.path.rfind_byte(b'/')) {
            (Some(path), _) => path.to_vec(),
            // A directory above may be renamed, too.
            (None, Some(_)) => return true,
            (None, None) => target.to_vec(),
        };
        self.lower.has(path.as_bstr())
    }

    /// Returns the origin of each suspect.
    fn origins(&self, suspects: &[Suspect]) -> Result<Vec<Option<Origin>>, Error> {
        let mut origins = Vec::new();
        let mut wanted: HashSet<Handle> = HashSet::new();
        for suspect in suspects {
            let mut at = self.lower.at(suspect.line.path.as_bstr())?;
            if let Some(origin) = &at
                && !self.lower.agrees(&suspect.mark, origin)?
            {
                at = None;
            }
            if let (None, Mark::Handle(handle)) = (&at, &suspect.mark) {
                wanted.insert(handle.clone());
            }
            origins.push(at);
        }
        if wanted.is_empty() {
            return Ok(origins);
        }
        let found: HashMap<Handle, Origin> = self.lower.find(wanted)?;
        for (suspect, origin) in suspects.iter().zip(&mut origins) {
            if let (None, Mark::Handle(handle)) = (&origin, &suspect.mark) {
                *origin = found.get(handle).cloned();
            }
        }
        Ok(origins)
    }

    fn judge(
        &mut self,
        suspect: &Suspect,
        origin: Option<Origin>,
        evidence: &Evidence,
        replaced: &HashSet<&BStr>,
    ) -> Result<(), Error> {
        let (line, stat) = (&suspect.line, &suspect.stat);
        let has_holes = suspect.has_holes();
        let is_whole = || !has_holes && evidence.shows(line);
        let Some(origin) = origin else {
            if (has_holes || stat.size == 0) && evidence.is_recent(line) && !is_whole() {
                self.add(Damage::Incomplete, line, Action::Touch);
            }
            return Ok(());
        };
        let found = self.compare(suspect, &origin)?;
        if found.lost.is_empty() || is_whole() {
            return Ok(());
        }
        match found {
            // The user may have shortened it.
            Comparison { is_changed: true, .. } if !has_holes && !evidence.is_recent(line) => {}
            Comparison { is_changed: true, .. } => self.add(Damage::Incomplete, line, Action::Touch),
            Comparison { is_longer: true, lost, .. } => {
                self.add(Damage::Completed, line, Action::Fill { origin, lost, modified: stat.mtime });
            }
            _ if stat.mtime != origin.stat.mtime && !evidence.is_recent(line) => {
                self.add(Damage::Shorter, line, Action::Leave);
            }
            Comparison { lost, .. } => {
                let is_uncovered = origin.path == line.path
                    && parents(line.path.as_bstr()).all(|dir| !replaced.contains(dir));
                let is_same =
                    |one: &Stat, two: &Stat| (one.mode, one.uid, one.gid) == (two.mode, two.uid, two.gid);
                let modified = origin.stat.mtime;
                let action = if is_uncovered && is_same(stat, &origin.stat) {
                    Action::Remove
                } else {
                    Action::Fill { origin, lost, modified }
                };
                self.add(Damage::Restored, line, action);
            }
        }
        Ok(())
    }

    fn compare(&self, suspect: &Suspect, origin: &Origin) -> Result<Comparison, Error> {
        let path = suspect.line.path.as_bstr();
        let file = self.root.open_file(path).map_err(self.failed("open", path))?;
        let content = self.lower.content(origin)?;
        let copy = Sized { file: &file, size: suspect.stat.size };
        let origin = Sized { file: &content, size: origin.stat.size };
        compare(copy, &suspect.data, origin).map_err(self.failed("compare", path))
    }

    /// Repairs the files. It can be repeated.
    pub(super) fn carry_out(&self) -> Result<(), Error> {
        for (finding, action) in self.findings.iter().zip(&self.actions) {
            let path = finding.path.as_bstr();
            match action {
                Action::Remove => self.root.remove_file(path).map_err(self.failed("restore", path))?,
                Action::Fill { origin, lost, modified } => {
                    let content = self.lower.content(origin)?;
                    let time = UNIX_EPOCH + Duration::new(modified.0.try_into().unwrap_or(0), modified.1);
                    edit(&self.root, path, |file| {
                        fill(file, &content, lost).and_then(|()| file.set_modified(time))
                    })
                    .map_err(self.failed("restore", path))?;
                }
                Action::Touch => edit(&self.root, path, |file| file.set_modified(SystemTime::now()))
                    .map_err(self.failed("change", path))?,
                Action::Leave => {}
            }
        }
        Ok(())
    }
}

/// Calls `edit` with a file, which its owner may have protected.
pub(super) fn edit(
    root: &DirMut,
    path: &BStr,
    edit: impl FnOnce(&sys::File) -> std::io::Result<()>,
) -> std::io::Result<()> {
    match root.open_to_edit(path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let readable = root.open_file(path)?;
            let mode = sys::stat_of(&readable)?.mode & 0o7777;
            sys::set_mode(&readable, mode | 0o200)?;
            let edited = root.open_to_edit(path).and_then(|file| edit(&file));
            sys::set_mode(&readable, mode)?;
            edited
        }
        opened => edit(&opened?),
    }
}

/// Returns the directories above a path.
fn parents(path: &BStr) -> impl Iterator<Item = &BStr> {
    path.find_iter("/").map(|end| path[..end].as_bstr())
}

/// The facts about the time before the crash.
struct Evidence {
    /// The last change that is known.
    newest: Moment,
    /// The lists that answered the queries of the monitor.
    lists: Vec<List>,
}

impl Evidence {
    fn new(list: &List, layer: &Layer) -> Evidence {
        let newest = list.lines().iter().map(|line| line.ctime).max().unwrap_or_default();
        Evidence { newest, lists: upper::stored_lists(&layer.state) }
    }

    /// Returns true if a list shows the file as it is now. The machine ran when the list was made,
    /// so the file was as short then.
    fn shows(&self, line: &Line) -> bool {
        let is_it = |other: &Line| {
            (&other.kind, other.ino, other.ctime, other.size) == (&line.kind, line.ino, line.ctime, line.size)
                && other.time == Time::Settled
        };
        self.lists.iter().any(|list| list.get(line.path.as_bstr()).is_some_and(is_it))
    }

    /// Returns true if the file changed shortly before the last change that is known. An older
    /// change is on the disk.
    fn is_recent(&self, line: &Line) -> bool {
        let seconds = i64::try_from(WRITEBACK.as_secs()).expect("a few minutes");
        line.ctime.0.saturating_add(seconds) >= self.newest.0
    }
}

/// Writes the file `.git` of the upper layer again if the crash took its content.
pub(super) fn restore_link(site: &Site) -> Result<(), Error> {
    use std::{io::Write as _, os::unix::ffi::OsStrExt as _};
    if site.git.is_some() {
        return Ok(());
    }
    let path = site.upper.join(".git");
    let is_there = by_path::stat(&path).map_err(Error::io("examine", &path))?.is_some();
    let has_upper = || matches!(by_path::stat(&site.upper), Ok(Some(_)));
    if (is_there && !super::is_torn(&path)) || !has_upper() {
        return Ok(());
    }
    let Some(admin) = administrative(&site.state) else { return Ok(()) };
    let staged = site.upper.with_file_name(format!(".git-{}", std::process::id()));
    let written = || {
        let _ = by_path::remove_file(&staged);
        let line = [b"gitdir: ", admin.as_os_str().as_bytes(), b"\n"].concat();
        by_path::create_new(&staged, 0o666)?.write_all(&line)?;
        by_path::rename(&staged, &path)
    };
    written().map_err(Error::io("write", &path))
}

/// Returns the administrative directory of the workspace with this state, if it exists.
fn administrative(state: &Path) -> Option<PathBuf> {
    let common = state.ancestors().nth(3)?;
    record::of_worktree(common, state.file_name()?).ok()??;
    let admin = common.join("worktrees").join(state.file_name()?);
    matches!(by_path::stat(&admin), Ok(Some(_))).then_some(admin)
}

#[cfg(test)]
mod tests;
