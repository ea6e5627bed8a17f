//! Lists an upper layer. Links are not followed, and only directories are opened.
//!
//! Source: Documentation/filesystems/overlayfs.rst of Linux ("whiteouts and opaque directories",
//! "redirect_dir"), fuse-overlayfs(1), aufs(5) for the `.wh.` names; `unionfs` for unionfs-fuse.

use std::{
    io,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use bstr::{BStr, BString, ByteSlice as _};
use sys::{Dir, FileType, Listing, Stat, xattr};

use super::{
    Error, Form, Layer,
    list::{Below, Kind, Line, List, Time},
    unionfs::{self, Hidden},
};

/// Selects directories that are listed as one line.
pub trait Prune {
    /// Returns true if the directory at `path` is ignored and the index has no entry below it.
    /// Called only for directories that the base does not contain.
    fn is_left_out(&mut self, path: &BStr) -> bool;
}

/// Lists every directory in full.
pub struct Everything;

impl Prune for Everything {
    fn is_left_out(&mut self, _: &BStr) -> bool {
        false
    }
}

/// A change within this time may keep a file's change time: two ticks of the slowest kernel clock,
/// 100 Hz.
const TICKS: Duration = Duration::from_millis(20);

/// The additional time on a file system without fractions of a second.
const WHOLE_SECOND: Duration = Duration::from_secs(1);

/// Lists the upper layer. `prune` selects the directories that are listed as one line.
pub fn scan(layer: &Layer, prune: &mut dyn Prune) -> Result<List, Error> {
    let failed =
        |path: &BStr, source| Error::Unreadable { path: layer.upper.join(sys::os_str(path)), source };
    let root = Dir::open(&layer.upper).map_err(|source| failed(b"".into(), source))?;
    let device = root.stat_self().map_err(|source| failed(b"".into(), source))?.dev;
    let xattrs = OverlayXattrs::of(layer.form);
    let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut scan = Scan {
        layer,
        prune,
        device,
        xattrs,
        begun,
        listing: Listing::default(),
        lines: Vec::new(),
        hidden: None,
    };
    let mut left = vec![(BString::default(), VisibleLower::Base)];
    while let Some((path, shown)) = left.pop() {
        scan.directory(&root, &path, shown, &mut left)?;
    }
    let (mut lines, hidden) = (scan.lines, scan.hidden);
    lines.sort_unstable_by(|one, two| one.path.cmp(&two.path));
    if let Some(hidden) = hidden {
        let at = |path: &BStr| lines.binary_search_by(|line| line.path.as_bstr().cmp(path)).ok();
        let is_directory = |path: &BStr| {
            at(path).is_some_and(|at| matches!(lines[at].kind, Kind::Directory(_) | Kind::Ignored))
        };
        let mut deleted = hidden.outermost(is_directory);
        // Something else is at such a path now.
        deleted.retain(|path| at(path.as_bstr()).is_none());
        lines.extend(deleted.into_iter().map(whiteout));
        lines.sort_unstable_by(|one, two| one.path.cmp(&two.path));
    }
    let layers = layer.frozen().iter().map(|path| path.as_os_str().as_encoded_bytes().into()).collect();
    Ok(List { layers, mounts: Vec::new(), lines })
}

/// The attributes by which an overlay marks its entries.
struct OverlayXattrs {
    opaque: &'static [&'static std::ffi::CStr],
    redirect: Option<&'static std::ffi::CStr>,
    whiteout: Option<&'static std::ffi::CStr>,
    /// The visibility of the attributes of privileged mounts to this process.
    visibility: XattrVisibility,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum XattrVisibility {
    All,
    None,
}

impl OverlayXattrs {
    fn of(form: Form) -> OverlayXattrs {
        let all = XattrVisibility::All;
        match form {
            Form::Trusted => OverlayXattrs {
                opaque: &[c"trusted.overlay.opaque"],
                redirect: Some(c"trusted.overlay.redirect"),
                whiteout: Some(c"trusted.overlay.whiteout"),
                visibility: if xattr::sees_trusted() { all } else { XattrVisibility::None },
            },
            Form::User => OverlayXattrs {
                opaque: &[c"user.overlay.opaque"],
                redirect: Some(c"user.overlay.redirect"),
                whiteout: Some(c"user.overlay.whiteout"),
                visibility: all,
            },
            Form::UnionFs => OverlayXattrs { opaque: &[], redirect: None, whiteout: None, visibility: all },
            Form::Fuse => OverlayXattrs {
                opaque: &[c"user.fuseoverlayfs.opaque", c"user.overlay.opaque", c"trusted.overlay.opaque"],
                redirect: None,
                whiteout: None,
                visibility: if xattr::sees_trusted() { all } else { XattrVisibility::None },
            },
        }
    }
}

/// The lower entries that may be visible in a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum VisibleLower {
    Base,
    Nothing,
}

struct Scan<'a> {
    layer: &'a Layer,
    prune: &'a mut dyn Prune,
    device: u64,
    xattrs: OverlayXattrs,
    begun: Duration,
    listing: Listing,
    lines: Vec<Line>,
    /// The metadata of unionfs-fuse.
    hidden: Option<Hidden>,
}

impl Scan<'_> {
    fn failed(&self, path: &BStr, source: io::Error) -> Error {
        Error::Unreadable { path: self.layer.upper.join(sys::os_str(path)), source }
    }

    /// Adds the line of a directory and those of its entries. Its subdirectories are added to
    /// `left`.
    fn directory(
        &mut self,
        root: &Dir,
        path: &BString,
        mut shown: VisibleLower,
        left: &mut Vec<(BString, VisibleLower)>,
    ) -> Result<(), Error> {
        let mut names: Vec<(BString, FileType)> = Vec::new();
        let visit = |entry: sys::Entry<'_>| {
            names.push((entry.name.into(), entry.file_type));
            Ok::<_, io::Error>(())
        };
        let opened = if path.is_empty() {
            self.listing.read(root, visit).map(|()| None)
        } else {
            self.listing.open(root, path, visit).map(Some)
        };
        let opened = match opened {
            Ok(opened) => opened,
            // The directory was removed or replaced after its name was read. The next listing
            // reports that.
            Err(error) if !path.is_empty() && is_gone(&error) => return Ok(()),
            Err(error) => return Err(self.failed(path.as_ref(), error)),
        };
        let dir = opened.as_ref().unwrap_or(root);
        let mut has_other_whiteouts = false;
        if path.is_empty() {
            if self.layer.form == Form::UnionFs {
                self.read_metadata(root, &mut names)?;
            }
        } else {
            let stat = dir.stat_self().map_err(|source| self.failed(path.as_ref(), source))?;
            if stat.dev != self.device {
                return Err(Error::ForeignMount { path: self.layer.upper.join(sys::os_str(path)) });
            }
            let below = self.below(path, dir, shown, &names, &mut has_other_whiteouts)?;
            // In a directory of the base, files are probably tracked. The lookup is not cached:
            // there are few such directories, and the base's metadata are in memory.
            let is_in_base = || self.layer.is_in_base(path.as_ref());
            if (below != Below::Same || !is_in_base()) && self.prune.is_left_out(path.as_ref()) {
                self.push(path.clone(), Kind::Ignored, &stat);
                return Ok(());
            }
            shown = if below == Below::Nothing { VisibleLower::Nothing } else { VisibleLower::Base };
            self.push(path.clone(), Kind::Directory(below), &stat);
        }
        for (name, file_type) in names {
            if path.is_empty() && name == ".git" {
                continue;
            }
            let mut full = path.clone();
            if !full.is_empty() {
                full.push(b'/');
            }
            self.entry(dir, full, name.as_ref(), file_type, (shown, has_other_whiteouts), left)?;
        }
        Ok(())
    }

    /// Reads the metadata of unionfs-fuse, and removes its directory from the names of the upper
    /// layer.
    fn read_metadata(&mut self, root: &Dir, names: &mut Vec<(BString, FileType)>) -> Result<(), Error> {
        let is_metadata = |name: &BString| unionfs::METADATA.iter().any(|metadata| name == metadata);
        let found: Vec<BString> =
            names.iter().map(|(name, _)| name).filter(|name| is_metadata(name)).cloned().collect();
        let refused = |name: &BStr| Error::UnionFs { path: self.layer.dir.join(sys::os_str(name)) };
        // The mount hides such a directory of the base, with the files that the index names.
        for name in unionfs::METADATA {
            for lower in &self.layer.lower {
                if !matches!(sys::by_path::stat(&lower.join(name)), Ok(None)) {
                    return Err(refused(name.into()));
                }
            }
        }
        let Some(name) = found.first() else { return Ok(()) };
        let read = Hidden::read(root, name.as_ref()).map_err(|source| self.failed(name.as_ref(), source))?;
        let hidden = read.filter(|_| found.len() == 1).ok_or_else(|| refused(name.as_ref()))?;
        names.retain(|(other, _)| other != name);
        self.hidden = Some(hidden);
        Ok(())
    }

    /// Like [`Scan::below`] for unionfs-fuse, which shows the directories of all layers in one, and
    /// has no mark for a directory that was renamed to the path of a file.
    fn below_in_unionfs(&self, path: &BString, shown: VisibleLower) -> Below {
        if shown == VisibleLower::Nothing
            || self.hidden.as_ref().is_some_and(|hidden| hidden.contains(path.as_ref()))
        {
            return Below::Nothing;
        }
        let kinds = self.layer.lower.iter().filter_map(|lower| {
            let stat = sys::by_path::stat(&lower.join(sys::os_str(path)));
            stat.ok().flatten().map(|stat| stat.file_type)
        });
        let kinds: Vec<FileType> = kinds.collect();
        if kinds.iter().any(|kind| *kind != FileType::Directory) {
            Below::Unseen
        } else if kinds.is_empty() {
            Below::Nothing
        } else {
            Below::Same
        }
    }

    /// Returns the part of a directory that comes from lower layers.
    fn below(
        &self,
        path: &BString,
        dir: &Dir,
        shown: VisibleLower,
        names: &[(BString, FileType)],
        has_other_whiteouts: &mut bool,
    ) -> Result<Below, Error> {
        if self.layer.form == Form::UnionFs {
            return Ok(self.below_in_unionfs(path, shown));
        }
        let read = |name| xattr::get_of(dir, name).map_err(|source| self.failed(path.as_ref(), source));
        if let Some(redirect) = self.xattrs.redirect
            && let Some(target) = read(redirect)?
        {
            return Ok(Below::Redirected(target.into()));
        }
        let is_marked_by_file = self.layer.form == Form::Fuse
            && names.iter().any(|(name, _)| name == ".wh..wh..opq" || name == ".wh..opq");
        let mut is_opaque = is_marked_by_file;
        for name in self.xattrs.opaque {
            match read(name)?.as_deref() {
                Some(b"y") => is_opaque = true,
                Some(b"x") => *has_other_whiteouts = true,
                _ => {}
            }
        }
        Ok(match (is_opaque || shown == VisibleLower::Nothing, self.xattrs.visibility) {
            (true, XattrVisibility::All) => Below::Nothing,
            (true, XattrVisibility::None) if is_opaque => Below::Nothing,
            (_, XattrVisibility::None) => Below::Unseen,
            (false, XattrVisibility::All) => Below::Same,
        })
    }

    fn entry(
        &mut self,
        dir: &Dir,
        mut path: BString,
        name: &BStr,
        file_type: FileType,
        (shown, has_other_whiteouts): (VisibleLower, bool),
        left: &mut Vec<(BString, VisibleLower)>,
    ) -> Result<(), Error> {
        if self.layer.form == Form::Fuse
            && let Some(hidden) = name.strip_prefix(b".wh.")
        {
            // fuse-overlayfs hides such names.
            if !hidden.is_empty() && !hidden.starts_with(b".wh.") && hidden != b".opq" {
                path.extend_from_slice(hidden);
                self.lines.push(whiteout(path));
            }
            return Ok(());
        }
        path.extend_from_slice(name);
        if file_type == FileType::Directory && name != ".git" {
            left.push((path, shown));
            return Ok(());
        }
        // If the entry has vanished, the next listing reports that.
        let Some(stat) = self.stat(dir, &path, name)? else { return Ok(()) };
        let kind = match stat.file_type {
            _ if name == ".git" => Kind::Repository,
            FileType::File
                if has_other_whiteouts && stat.size == 0 && self.is_whiteout_file(dir, &path, name)? =>
            {
                Kind::Whiteout
            }
            FileType::File => Kind::File,
            FileType::Symlink => Kind::Symlink,
            FileType::Other => {
                let found = xattr::is_whiteout(dir, name);
                if found.map_err(|source| self.failed(path.as_ref(), source))? {
                    Kind::Whiteout
                } else {
                    Kind::Special
                }
            }
            // The entry became a directory after the names were read.
            FileType::Directory => {
                left.push((path, shown));
                return Ok(());
            }
        };
        match kind {
            Kind::Whiteout => self.lines.push(whiteout(path)),
            kind => self.push(path, kind, &stat),
        }
        Ok(())
    }

    fn stat(&self, dir: &Dir, path: &BString, name: &BStr) -> Result<Option<Stat>, Error> {
        dir.stat_local(name.as_bytes()).map_err(|source| self.failed(path.as_ref(), source))
    }

    /// Returns true if a file is a whiteout in the form that unprivileged tools write: an empty
    /// file with an attribute.
    fn is_whiteout_file(&self, dir: &Dir, path: &BString, name: &BStr) -> Result<bool, Error> {
        let Some(mark) = self.xattrs.whiteout else { return Ok(false) };
        let found = xattr::get_in(dir, name, mark).map_err(|source| self.failed(path.as_ref(), source))?;
        Ok(found.is_some())
    }

    fn push(&mut self, path: BString, kind: Kind, stat: &Stat) {
        let is_directory = matches!(kind, Kind::Directory(_) | Kind::Ignored);
        let (size, ctime) = if is_directory { (0, (0, 0)) } else { (stat.size, stat.ctime) };
        let time = if is_directory || self.is_settled(ctime) { Time::Settled } else { Time::Unsettled };
        self.lines.push(Line { path, kind, ino: stat.ino, mode: stat.mode, size, ctime, time });
    }

    /// Returns true if the clock has advanced since `ctime`, so that any later change gets a later
    /// time.
    fn is_settled(&self, ctime: (i64, u32)) -> bool {
        let Ok(seconds) = u64::try_from(ctime.0) else { return true };
        let resolution = if ctime.1 == 0 { WHOLE_SECOND } else { Duration::ZERO };
        Duration::new(seconds, ctime.1) + resolution + TICKS <= self.begun
    }
}

/// Returns true if the error means that a path does not exist or is not a directory.
pub(super) fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        || sys::is_symlink_refused(error)
}

fn whiteout(path: BString) -> Line {
    Line { path, kind: Kind::Whiteout, ino: 0, mode: 0, size: 0, ctime: (0, 0), time: Time::Settled }
}
