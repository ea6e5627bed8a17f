//! A directory with repositories of every kind, created once and copied for each run.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use bstr::{BString, ByteSlice as _};
use testkit::{Run, Sandbox};

use crate::SAPWOOD;

/// The directory of one thread. All runs use the same path, so that messages can be compared as
/// they are.
pub(crate) struct Stage {
    sandbox: Sandbox,
}

/// Mode and content by path of everything below the world. The stat data of an index are left out.
pub(crate) type Snapshot = BTreeMap<BString, (u32, BString)>;

impl Stage {
    /// Creates the repositories.
    pub(crate) fn new() -> Stage {
        let stage = Stage { sandbox: Sandbox::new() };
        fs::create_dir_all(stage.world().join("home")).expect("a new directory");
        let script = stage.repo().git_command().get_program().to_owned();
        let made = stage.command("sh".as_ref()).args(["-ec", MAKE]).env("GIT", script).output();
        let made = made.expect("a shell");
        assert!(made.status.success(), "the repositories are made: {}", made.stderr.as_bstr());
        fs::rename(stage.world(), stage.kept()).expect("it is ours");
        stage
    }

    fn repo(&self) -> testkit::Repo<'_> {
        self.sandbox.repo("stage/world")
    }

    /// Returns the directory that the commands see. Its surroundings are empty.
    pub(crate) fn world(&self) -> PathBuf {
        self.sandbox.path().join("stage/world")
    }

    fn kept(&self) -> PathBuf {
        self.sandbox.path().join("kept")
    }

    /// Replaces `@` in a text by the path of the world.
    pub(crate) fn place(&self, text: &str) -> String {
        text.replace('@', self.world().to_str().expect("a plain path"))
    }

    /// Restores the world to its first state.
    pub(crate) fn reset(&self) {
        let stage = self.sandbox.path().join("stage");
        let _ = fs::remove_dir_all(&stage);
        fs::create_dir(&stage).expect("just removed");
        copy_tree(&self.kept(), &self.world()).expect("the world can be copied");
    }

    /// Returns a command in the world, with its own home directory and settings.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = self.repo().command(program);
        command
            .env_remove("GIT_CONFIG_NOSYSTEM")
            .env("GIT_CONFIG_SYSTEM", self.world().join("system"))
            .env("HOME", self.world().join("home"))
            .env("XDG_CONFIG_HOME", self.world().join("home/.config"))
            .env("GIT_CEILING_DIRECTORIES", self.sandbox.path())
            .env("GIT_TERMINAL_PROMPT", "0")
            .stdin(Stdio::null());
        command
    }

    /// Returns the path of Git.
    pub(crate) fn git(&self) -> PathBuf {
        self.repo().git_command().get_program().into()
    }

    /// Returns a snapshot of the world and its surroundings, where no command may create files.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let root = self.sandbox.path().join("stage");
        let mut found = Snapshot::new();
        collect(&root, &root, &mut found);
        found
    }
}

impl Stage {
    /// Runs the script `setup`, then `script` with each program as `$G`, each time in a fresh
    /// world. Returns the differences.
    pub(crate) fn compare_scripts(&self, setup: &str, script: &str) -> Vec<String> {
        let [theirs, ours] = [self.git(), SAPWOOD.into()].map(|program| {
            self.reset();
            let mut command = self.command("sh".as_ref());
            let made = command.args(["-ec", &self.place(setup)]).output().expect("a shell");
            assert!(made.status.success(), "{setup}: {}", made.stderr.as_bstr());
            let mut command = self.command("sh".as_ref());
            command.args(["-c", &self.place(script)]).env("G", program);
            (said(command), self.snapshot())
        });
        differences(&theirs, &ours)
    }

    /// Runs `script`, which the program under test refuses, and returns its message.
    pub(crate) fn refused(&self, script: &str) -> String {
        self.reset();
        let before = self.snapshot();
        let mut command = self.command("sh".as_ref());
        command.args(["-c", &self.place(script)]).env("G", SAPWOOD);
        let run = said(command);
        assert_eq!(run.code, 128, "{script}: {}", run.stderr);
        assert!(self.snapshot() == before, "{script} leaves nothing");
        run.stderr.to_string()
    }
}

/// Returns the differences between two runs.
pub(crate) fn differences(theirs: &(Run, Snapshot), ours: &(Run, Snapshot)) -> Vec<String> {
    let ((theirs, their_world), (ours, our_world)) = (theirs, ours);
    let mut found = Vec::new();
    if theirs.code != ours.code {
        let said = ours.stderr.trim().as_bstr();
        found.push(format!("exit code: git {}, ours {}: {said}", theirs.code, ours.code));
    }
    let paths = their_world.keys().chain(our_world.keys().filter(|path| !their_world.contains_key(*path)));
    for path in paths.filter(|path| their_world.get(*path) != our_world.get(*path)) {
        let [theirs, ours] = [their_world, our_world].map(|world| match world.get(path) {
            Some((mode, content)) => format!("{mode:o} {content:?}"),
            None => "nothing".to_owned(),
        });
        found.push(format!("disk: {path}: git {theirs}, ours {ours}"));
    }
    let outputs =
        [("standard output", &theirs.stdout, &ours.stdout), ("standard error", &theirs.stderr, &ours.stderr)];
    let differing = outputs.into_iter().filter(|(_, theirs, ours)| !are_the_same_words(theirs, ours));
    found.extend(differing.map(|(what, theirs, ours)| format!("{what}: git {theirs:?}, ours {ours:?}")));
    found
}

/// Leaves out the parts of the repository that `clean` keeps and Git deletes, with the messages
/// about them (docs/differences.md).
pub(crate) fn leave_out_kept(theirs: &mut (Run, Snapshot), ours: &mut (Run, Snapshot)) {
    let kept_by = |line: &[u8]| -> Option<BString> {
        let (path, why) = line.strip_prefix(b"warning: failed to remove ")?.split_once_str(": ")?;
        why.starts_with(b"this repository's Git directory is ").then(|| path.into())
    };
    let kept: Vec<BString> = ours.0.stderr.lines().filter_map(kept_by).collect();
    if kept.is_empty() || (theirs.0.code, ours.0.code) != (0, 1) {
        return;
    }
    ours.0.code = 0;
    ours.0.stderr = ours
        .0
        .stderr
        .lines_with_terminator()
        .filter(|line| kept_by(line).is_none())
        .collect::<Vec<_>>()
        .concat()
        .into();
    // Git names the outermost directory that it removes.
    let holds_kept = |line: &[u8]| {
        let removed = line.strip_prefix(b"Removing ").map(|path| path.trim_end_with(|letter| letter == '\n'));
        removed.is_some_and(|removed| {
            removed.ends_with(b"/") && kept.iter().any(|path| path.starts_with(removed))
        })
    };
    theirs.0.stdout = theirs
        .0
        .stdout
        .lines_with_terminator()
        .filter(|line| !holds_kept(line))
        .collect::<Vec<_>>()
        .concat()
        .into();
    let is_kept = |place: &BString| {
        kept.iter().any(|path| {
            let (inside, itself) = (format!("/{path}/"), format!("/{path}"));
            place.contains_str(&inside) || place.ends_with(itself.as_bytes())
        })
    };
    let places: Vec<BString> = ours.1.keys().filter(|place| is_kept(place)).cloned().collect();
    let is_above = |place: &BString| {
        let below = format!("{place}/");
        places.iter().any(|kept| kept.starts_with(below.as_bytes()))
    };
    ours.1.retain(|place, _| !(is_kept(place) || is_above(place) && !theirs.1.contains_key(place)));
}

/// Messages of Git, and the messages that sapwood may print instead: docs/differences.md has the
/// reasons.
const OTHER_WORDS: &[(&str, &str)] = &[
    ("fatal: not a git repository: (null)", "fatal: not a git repository: "),
    ("fatal: this operation must be run in a work tree", "fatal: cannot open '"),
    ("fatal: this operation must be run in a work tree", "fatal: this worktree is not sparse"),
    ("fatal: this operation must be run in a work tree", "fatal: invalid reference: "),
    (
        "fatal: unable to set up work tree using invalid config",
        "fatal: this operation must be run in a work tree",
    ),
    // Git names a file of the Git directory by a path relative to it, or by `GIT_COMMON_DIR`.
    (" in file ./config", " in file /"),
    (" in file ./config", " in file .git/config"),
    (" in file /", " in file .git/config"),
    // A setting with two values, which a new format of the repository would replace.
    (
        "warning: core.repositoryformatversion has multiple values",
        "error: cannot overwrite multiple values with a single value: core.repositoryformatversion",
    ),
    (
        "fatal: could not set 'core.repositoryformatversion' to '1'",
        "fatal: unable to upgrade repository format to support relative worktrees",
    ),
    ("fatal: this operation must be run in a work tree", "fatal: unable to access '"),
    ("unable to map index file", "fatal: this operation must be run in a work tree"),
    ("index file smaller than expected", "fatal: this operation must be run in a work tree"),
    ("index file open failed", "index file open failed"),
    ("index file open failed", "index.lock': Not a directory"),
    ("index file smaller than expected", "fatal: cannot open '"),
    ("fatal: unknown index entry format", "fatal: index file corrupt"),
    ("fatal: unable to write new index file", "fatal: could not rename '"),
    // A missing object.
    ("fatal: Could not parse object", " not found"),
    ("fatal: Could not parse object", "fatal: ambiguous argument"),
    ("fatal: bad object", " not found"),
    ("fatal: bad object", "error: bad tree object"),
    ("hint: If you meant to create a worktree containing a new unborn branch", " not found"),
    ("fatal: unable to read", " not found"),
    ("fatal: unable to read tree", "fatal: invalid reference: "),
    ("fatal: invalid reference: ", " not found"),
    ("fatal: failed to unpack tree object", "fatal: Not a valid object name"),
];

/// Returns true for equal messages, and for pairs in [`OTHER_WORDS`]. Two kinds of lines are
/// ignored: messages about alternates, which Git repeats for each process, and locks that Git lists
/// as untracked while the listing process itself holds them.
fn are_the_same_words(theirs: &BString, ours: &BString) -> bool {
    let plain = |text: &BString| -> Vec<BString> {
        let is_noise = |line: &&[u8]| {
            line.starts_with(b"error: unable to normalize alternate object path")
                || line.starts_with(b"error: object directory ")
                || line.ends_with(b".lock")
        };
        text.lines().filter(|line| !is_noise(line)).map(BString::from).collect()
    };
    let (theirs, ours) = (plain(theirs), plain(ours));
    let is_known = |theirs: &BString, ours: &BString| {
        OTHER_WORDS.iter().any(|(git, other)| theirs.contains_str(git) && ours.contains_str(other))
    };
    let all_known = theirs.iter().zip(&ours).all(|(theirs, ours)| theirs == ours || is_known(theirs, ours));
    // The advice after an unknown revision is longer in Git.
    let is_longer = !theirs.is_empty() && !ours.is_empty() && theirs.first() != ours.first();
    all_known && (theirs.len() == ours.len() || is_longer)
}

/// Runs a command and returns its output, with the program's name replaced.
pub(crate) fn said(mut command: Command) -> Run {
    use std::os::unix::process::ExitStatusExt as _;
    let output = command.output().expect("the program can be run");
    let plain = |text: Vec<u8>| BString::from(text.replace("sapwood", "git"));
    let code = output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap_or(0));
    Run { code, stdout: plain(output.stdout), stderr: plain(output.stderr) }
}

/// Creates `top` with a linked worktree, a submodule, an embedded repository and local changes, and
/// other repositories next to it.
const MAKE: &str = r#"
git() { "$GIT" "$@"; }
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=protocol.file.allow GIT_CONFIG_VALUE_0=always
for name in lib other top; do git init -q -b main --template= $name; done
(cd lib; echo l >l; git add .; git commit -qm l)
(cd other; echo o >o; mkdir d; echo of >d/f; git add .; git commit -qm o; echo u >untracked)
cd top
mkdir d e
echo 1 >t; echo 2 >d/f; echo 3 >d/g; echo 4 >e/h; echo '*.ign' >.gitignore; echo 'd/* attr' >.gitattributes
git submodule --quiet add ../lib sub
git add .; git commit -qm 1
git switch -qc topic; echo 11 >t; git rm -q d/g; echo 5 >e/i; git add .; git commit -qm 2
git switch -q main; git branch wt
git worktree add -q ../linked wt
git clone -q --bare --template= . ../bare.git
git repack -adq
echo changed >d/f; echo u >u; echo u >d/u; echo i >d/x.ign; mkdir dir; echo u >dir/u
git init -q -b main --template= nested; echo n >nested/n
git -C nested add n; git -C nested commit -qm n
cd ..
echo u >linked/lu
mkdir plain; echo p >plain/p; ln -s top alias; cp top/.git/index index
"#;

/// Copies a directory recursively; files keep their times.
fn copy_tree(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, place) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_tree(&source, &place)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&source)?, &place)?;
        } else {
            fs::write(&place, fs::read(&source)?)?;
            let meta = entry.metadata()?;
            fs::File::options().append(true).open(&place)?.set_modified(meta.modified()?)?;
            fs::set_permissions(&place, meta.permissions())?;
        }
    }
    Ok(())
}

fn collect(root: &Path, dir: &Path, found: &mut Snapshot) {
    for entry in fs::read_dir(dir).into_iter().flatten() {
        let path = entry.expect("readable").path();
        let name = path.strip_prefix(root).expect("below the root").as_os_str().as_bytes();
        let meta = path.symlink_metadata().expect("just listed");
        let mode = meta.permissions().mode();
        let content: BString = if meta.is_symlink() {
            fs::read_link(&path).expect("a link").as_os_str().as_bytes().into()
        } else if meta.is_file() {
            let bytes = fs::read(&path).expect("a readable file");
            if bytes.starts_with(b"DIRC") { entries_of(&bytes) } else { bytes.into() }
        } else {
            BString::default()
        };
        found.insert(name.into(), (mode, content));
        if meta.is_dir() {
            collect(root, &path, found);
        }
    }
}

/// Returns the version of an index and its entries without their stat data. Returns the bytes
/// unchanged if they are not an index.
fn entries_of(index: &[u8]) -> BString {
    let number = |at: usize| -> Option<usize> {
        let bytes = index.get(at..at + 4)?;
        Some(u32::from_be_bytes(bytes.try_into().ok()?) as usize)
    };
    let parse = || -> Option<BString> {
        let version = number(4)?;
        let mut text = BString::from(format!("version {version}\n"));
        let (mut at, mut path) = (12, Vec::new());
        for _ in 0..number(8)? {
            let is_extended = index.get(at + 60)? & 0x40 != 0;
            let fixed = at + if is_extended { 64 } else { 62 };
            let mut name = index.get(fixed..)?;
            if version == 4 {
                // The paths here are short, so the length of the removed suffix fits one byte.
                let (&cut, rest) = name.split_first()?;
                path.truncate(path.len().checked_sub(usize::from(cut))?);
                name = rest;
            } else {
                path.clear();
            }
            path.extend_from_slice(&name[..name.find_byte(0)?]);
            let content: String = index[at + 40..fixed].iter().map(|byte| format!("{byte:02x}")).collect();
            text.extend(format!("{:o} {content} {}\n", number(at + 24)?, path.as_bstr()).bytes());
            let end = index.len() - name.len() + name.find_byte(0)?;
            at = if version == 4 { end + 1 } else { at + (end - at + 8) / 8 * 8 };
        }
        Some(text)
    };
    parse().unwrap_or_else(|| index.into())
}
