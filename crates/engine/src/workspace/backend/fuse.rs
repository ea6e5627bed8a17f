//! `fuse-overlayfs` and `unionfs-fuse`: programs that combine layers without root.
//!
//! Each marks deletions in the upper layer in its own way, so a workspace stays with the program
//! that mounted it first.
//!
//! Both take the names of layers in lists with separators, which cannot be escaped. So the program
//! runs in the directory `fuse` of the workspace's state, which contains symbolic links with simple
//! names to the layers.

use std::{
    ffi::OsStr,
    io::ErrorKind,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use bstr::ByteSlice as _;
use sys::{Mount, by_path, mount::Unmount};

use super::{
    Busy, Error, Layers, Mounted, Site,
    marker::{self, Marker},
    overlay, place_of, real, share,
};

/// A program that combines layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// `fuse-overlayfs`
    FuseOverlayfs,
    /// `unionfs-fuse`
    UnionfsFuse,
}

impl Program {
    /// All programs, the best first: unionfs-fuse generates inode numbers.
    const ALL: [Program; 2] = [Program::FuseOverlayfs, Program::UnionfsFuse];

    /// Returns the name of the executable.
    pub fn name(self) -> &'static str {
        match self {
            Program::FuseOverlayfs => "fuse-overlayfs",
            Program::UnionfsFuse => "unionfs-fuse",
        }
    }

    fn types(self) -> &'static [&'static str] {
        match self {
            Program::FuseOverlayfs => &["fuse.fuse-overlayfs"],
            Program::UnionfsFuse => &["fuse.unionfs-fuse", "fuse.unionfs"],
        }
    }
}

/// Returns the best program that is in one of the directories `search`, and its path.
pub fn find(search: &[PathBuf]) -> Option<(Program, PathBuf)> {
    Program::ALL.into_iter().find_map(|program| Some((program, locate(program.name(), search)?)))
}

/// Returns an error with the reason if no program works here.
pub(super) fn works(search: &[PathBuf]) -> Result<(), String> {
    let device = Path::new("/dev/fuse");
    match by_path::open(device) {
        Err(error) => return Err(format!("cannot open '{}': {}", device.display(), sys::reason(&error))),
        Ok(_) if find(search).is_none() => {
            return Err("neither 'fuse-overlayfs' nor 'unionfs-fuse' is installed".to_owned());
        }
        Ok(_) => {}
    }
    if !super::door::may_mount() && !may_gain_rights() {
        return Err("no program may mount for this process: a container or sandbox forbids it".to_owned());
    }
    if sys::user::effective_uid() == 0 {
        return Ok(());
    }
    // Only these programs can mount for an unprivileged user.
    let helpers = SYSTEM.map(PathBuf::from);
    let found = ["fusermount3", "fusermount"].iter().find_map(|name| locate(name, &helpers));
    found.map(drop).ok_or_else(|| "the program 'fusermount3' is not installed".to_owned())
}

/// Returns true if `fusermount3` may become root here and mount as root. Without `/proc` nothing is
/// known, and a mount that fails names its reason.
fn may_gain_rights() -> bool {
    let status = by_path::read(Path::new("/proc/self/status")).ok().flatten().unwrap_or_default();
    let field = |name: &[u8]| {
        let line = status.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(name))?;
        u64::from_str_radix(std::str::from_utf8(line.trim_ascii()).ok()?, 16).ok()
    };
    /// `CAP_SYS_ADMIN` of `linux/capability.h`.
    const SYS_ADMIN: u64 = 1 << 21;
    let is_bounded = field(b"CapBnd:").is_some_and(|bounds| bounds & SYS_ADMIN == 0);
    // In a user namespace without root, a program of root has the rights of nobody.
    let ids = by_path::read(Path::new("/proc/self/uid_map")).ok().flatten();
    let has_root =
        |ids: &Vec<u8>| ids.split(|&byte| byte == b'\n').any(|line| line.trim_ascii().starts_with(b"0 "));
    field(b"NoNewPrivs:") != Some(1) && !is_bounded && ids.as_ref().is_none_or(has_root)
}

/// Returns the program that a workspace uses. Returns `None` if it was never mounted.
pub fn program_of(state: &Path) -> Option<Program> {
    let name = by_path::read_link(&links(state).join(PROGRAM)).ok()??;
    Program::ALL.into_iter().find(|program| name == Path::new(program.name()))
}

fn locate(name: &str, search: &[PathBuf]) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        by_path::is_executable(path)
            && by_path::stat_followed(path)
                .is_ok_and(|stat| stat.is_some_and(|stat| stat.file_type == sys::FileType::File))
    };
    search.iter().filter(|dir| dir.is_absolute()).map(|dir| dir.join(name)).find(is_program)
}

/// Returns the directory of the symbolic links.
fn links(state: &Path) -> PathBuf {
    state.join("fuse")
}

/// The link whose target is the name of the program.
const PROGRAM: &str = "program";

/// Mounts the layers. The workspace must not be mounted.
pub(super) fn mount(layers: &Layers, search: &[PathBuf]) -> Result<(), Error> {
    overlay::refuse_absent(&layers.site.top)?;
    let _lock = overlay::lock(&layers.site.upper, &layers.site.top)?;
    if let Some(mount) = mount_at(&layers.site.top)? {
        return Err(Error::Covered { path: layers.site.top.clone(), file_system: mount.file_system });
    }
    let bound = program_of(&layers.site.state);
    let missing = || Error::NoProgram { name: bound.map_or("fuse-overlayfs", Program::name) };
    let (program, path) = match bound {
        Some(program) => (program, locate(program.name(), search).ok_or_else(missing)?),
        None => find(search).ok_or_else(missing)?,
    };
    refuse_names(layers, program)?;
    link_layers(layers, program)?;
    Marker::current().write(&layers.site.state)?;
    let started = run(layers, program, &path);
    if started.is_err() {
        Marker::remove(&layers.site.state);
        // A program that failed late may already have mounted.
        let _ = release(&layers.site.top, Busy::Detach);
    }
    started
}

/// Returns an error for layers whose names the program cannot handle. fuse-overlayfs resolves the
/// links, joins the resulting paths with colons, and splits them again.
fn refuse_names(layers: &Layers, program: Program) -> Result<(), Error> {
    let all = lower(layers).into_iter().chain([layers.site.upper.clone(), layers.site.work.clone()]);
    let is_unfit = |path: &PathBuf| {
        program == Program::FuseOverlayfs
            && real(path).as_os_str().as_bytes().iter().any(|byte| matches!(byte, b':' | b'\\' | b','))
    };
    match all.into_iter().find(is_unfit) {
        Some(layer) => Err(Error::UnfitName { layer, program: program.name() }),
        None => Ok(()),
    }
}

/// Creates the links, and replaces existing ones.
fn link_layers(layers: &Layers, program: Program) -> Result<(), Error> {
    let dir = links(&layers.site.state);
    match by_path::remove_dir_all(&dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        removed => removed.map_err(Error::io("remove", &dir))?,
    }
    by_path::create_dir(&dir).map_err(Error::io("create", &dir))?;
    let link = |name: &str, target: &Path| {
        let path = dir.join(name);
        by_path::symlink(target, &path).map_err(Error::io("create", &path))
    };
    link(UPPER, &layers.site.upper)?;
    link(WORK, &layers.site.work)?;
    for (place, lower) in lower(layers).iter().enumerate() {
        if !matches!(by_path::stat_followed(lower), Ok(Some(_))) {
            return Err(Error::Missing { top: layers.site.top.clone(), missing: lower.clone() });
        }
        link(&place.to_string(), lower)?;
    }
    link(PROGRAM, Path::new(program.name()))
}

const UPPER: &str = "upper";
const WORK: &str = "work";

fn lower(layers: &Layers) -> Vec<PathBuf> {
    layers.frozen.iter().cloned().chain([layers.base.files()]).collect()
}

/// Starts the program. It mounts the layers, forks into the background, and its first process
/// exits.
///
/// libfuse 2 mounts on a directory with files only with the option `nonempty`, which libfuse 3 does
/// not know. The directory of a workspace that is not mounted contains `.git`.
fn run(layers: &Layers, program: Program, path: &Path) -> Result<(), Error> {
    let numbers = 0..=layers.frozen.len();
    let others = if sys::user::effective_uid() == 0 { ",allow_other" } else { "" };
    let options = match program {
        Program::FuseOverlayfs => {
            let lower: Vec<String> = numbers.map(|place| place.to_string()).collect();
            let lower = lower.join(":");
            let squash = share::squashed_owner(layers)
                .map_or_else(String::new, |(uid, gid)| format!(",squash_to_uid={uid},squash_to_gid={gid}"));
            let layers = format!("lowerdir={lower},upperdir={UPPER},workdir={WORK}");
            vec!["-o".into(), format!("nosuid,nodev,{layers}{squash}")]
        }
        Program::UnionfsFuse => {
            let lower: Vec<String> = numbers.map(|place| format!(":{place}=RO")).collect();
            let options = format!("cow,hide_meta_files,use_ino,nosuid,nodev{others}");
            vec!["-o".into(), options, format!("{UPPER}=RW{}", lower.concat())]
        }
    };
    let mut args: Vec<&OsStr> = options.iter().map(OsStr::new).collect();
    args.push(layers.site.top.as_os_str());
    let dir = links(&layers.site.state);
    let failed = |source| Error::Start { program: path.to_owned(), source };
    let mut ended = sys::run_detached(path, &args, &dir).map_err(failed)?;
    if !ended.is_success && ended.errors.contains_str("nonempty") {
        args.extend(["-o", "nonempty"].map(OsStr::new));
        ended = sys::run_detached(path, &args, &dir).map_err(failed)?;
    }
    match mount_at(&layers.site.top)? {
        Some(mount) if ended.is_success && is_of(&mount, program) => Ok(()),
        _ => Err(Error::Program {
            program: path.to_owned(),
            top: layers.site.top.clone(),
            message: message(&ended.errors, program),
        }),
    }
}

/// Returns the error output of a failed program as one line.
fn message(errors: &[u8], program: Program) -> String {
    let text = String::from_utf8_lossy(errors);
    let lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.contains("argument ignored"));
    match lines.collect::<Vec<_>>().join("; ") {
        text if text.is_empty() => format!("{} gave no reason", program.name()),
        text => text,
    }
}

/// Unmounts the workspace.
pub(super) fn unmount(site: &Site, busy: Busy) -> Result<(), Error> {
    release(&site.top, busy)?;
    Marker::remove(&site.state);
    Ok(())
}

fn release(top: &Path, busy: Busy) -> Result<(), Error> {
    // A mount whose program has exited is unusable.
    let lazily = busy == Busy::Detach || is_dead(top);
    const TRIES: u32 = 4;
    const PAUSE: Duration = Duration::from_millis(10);
    for tries in 1.. {
        let how = if lazily { Unmount::Lazy } else { Unmount::Plain };
        let failed = match sys::mount::unmount(top, how) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => match ask(top, lazily) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            },
            Err(error) if error.kind() == ErrorKind::ResourceBusy => {
                Error::Busy { path: top.to_owned(), processes: Vec::new() }
            }
            Err(source) => return Err(Error::Io { action: "unmount", path: top.to_owned(), source }),
        };
        let processes = overlay::users(top)?;
        if !processes.is_empty() {
            return Err(Error::Busy { path: top.to_owned(), processes });
        }
        if tries == TRIES {
            return Err(failed);
        }
        thread::sleep(PAUSE * tries);
    }
    unreachable!("the last try returns")
}

/// The directories of trusted programs, which may run with root's rights.
const SYSTEM: [&str; 4] = ["/run/wrappers/bin", "/usr/local/bin", "/usr/bin", "/bin"];

/// Unmounts with `fusermount`, which may do that for the owner of a mount.
fn ask(top: &Path, lazily: bool) -> Result<(), Error> {
    let search = SYSTEM.map(PathBuf::from);
    let found = ["fusermount3", "fusermount"].iter().find_map(|name| locate(name, &search));
    let program = found.ok_or(Error::NoProgram { name: "fusermount3" })?;
    let flags = if lazily { "-uz" } else { "-u" };
    let failed = |source| Error::Start { program: program.clone(), source };
    let args = [OsStr::new(flags), OsStr::new("--"), top.as_os_str()];
    let ended = sys::run_detached(&program, &args, Path::new("/")).map_err(failed)?;
    if ended.is_success {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&ended.errors).trim().to_owned();
    Err(Error::Program { program, top: top.to_owned(), message })
}

/// Returns where the workspace is visible.
pub(super) fn state(site: &Site) -> Result<Mounted, Error> {
    let is_ours = |mount: &Mount| Program::ALL.into_iter().any(|program| is_of(mount, program));
    match mount_at(&site.top)? {
        Some(mount) if is_ours(&mount) => Ok(Mounted::Here),
        _ => {
            let top = place_of(&site.top);
            Ok(marker::elsewhere(&site.state, |mount| mount.point == top && is_ours(mount)))
        }
    }
}

/// Returns true if a mount is that of a program that may serve workspaces.
pub(in crate::workspace) fn is_program_of_ours(mount: &Mount) -> bool {
    Program::ALL.into_iter().any(|program| is_of(mount, program))
}

/// Returns true if a running program serves the mount at `top` with the arguments that [`run`]
/// passes.
pub(in crate::workspace) fn is_served_for(top: &Path) -> bool {
    let is_it = |words: &Vec<Vec<u8>>| {
        let is_upper = |word: &Vec<u8>| {
            word.find(format!("upperdir={UPPER},workdir={WORK}")).is_some()
                || word.starts_with(format!("{UPPER}=RW:0=RO").as_bytes())
        };
        words.iter().any(|word| *word == top.as_os_str().as_bytes()) && words.iter().any(is_upper)
    };
    let processes = sys::namespace::process_ids().unwrap_or_default();
    processes.into_iter().any(|pid| sys::namespace::command_lines_up_from(pid).first().is_some_and(is_it))
}

/// Unmounts with `fusermount`, for a user who may not unmount.
pub(in crate::workspace) fn unmount_as_owner(top: &Path) -> Result<(), Error> {
    ask(top, true)
}

/// Removes a mount whose program has exited.
pub(super) fn remove_dead(site: &Site) -> Result<(), Error> {
    if is_dead(&site.top) { release(&site.top, Busy::Detach) } else { Ok(()) }
}

/// Returns true if the program that serves the mount at `top` has exited.
pub(super) fn is_dead(top: &Path) -> bool {
    // The kernel may serve a stat from its cache. It always forwards `statfs` to the program.
    by_path::is_remote(top).is_err_and(|error| sys::is_disconnected(&error))
}

/// Returns the mount at `top`, including one whose program has exited.
fn mount_at(top: &Path) -> Result<Option<Mount>, Error> {
    match sys::mount_at(top) {
        Err(error) if sys::is_disconnected(&error) => {
            let mounts = sys::mounts().map_err(Error::io("read", Path::new("/proc/self/mountinfo")))?;
            let place = place_of(top);
            Ok(mounts.into_iter().rev().find(|mount| mount.point == place))
        }
        found => found.map_err(Error::io("examine", top)),
    }
}

fn is_of(mount: &Mount, program: Program) -> bool {
    program.types().contains(&&*mount.file_system)
}
