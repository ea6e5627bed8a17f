//! A directory with repositories that is restored before each run, so that Git and sapwood work at
//! the same path.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::Path,
    process::Command,
};

use bstr::{BString, ByteSlice as _};
use testkit::{Run, Sandbox};

use crate::SAPWOOD;

/// The program that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    Git,
    Sapwood,
    /// sapwood, called as `git`.
    Shim,
    /// A program that does nothing.
    Nothing,
}

/// Mode and content or target of everything below the place, also outside the repositories.
pub(super) type Snapshot = BTreeMap<BString, (u32, BString)>;

pub(super) struct Fixture(Sandbox);

const PLACE: &str = "place";
const KEPT: &str = "kept";

/// Creates the repositories: `src` to clone; `repo`, which has files of each kind that a path may
/// lead to; `wt`, a worktree of it.
const SETUP: &str = r"
echo parent >parent-file
git init -q -b main src; echo s >src/s; git -C src add s; git -C src commit -qm s
git init -q -b main repo; cd repo
mkdir dir sub; echo one >f; echo g >dir/g; echo h >sub/h; echo '*.log' >.gitignore; echo '*.bin -text' >.gitattributes
git add .; git commit -qm one; git branch other; git worktree add -q ../wt other
mkdir good hooks tmpl; echo x >good/inside; echo t >tmpl/description; ln -s nothing-here dangling
echo untracked >untracked; echo 'not what is wanted' >afile; echo changed >f; echo f >specs; echo '*.tmp' >pats; touch a.tmp b.log
echo '* -diff' >attrs; printf '[core]\n\tabbrev = 9\n' >conf; printf '[core]\n\tabbrev = 11\n' >.gitconfig
printf '#!/bin/sh\necho hook >hook-ran\n' >post-checkout; chmod +x post-checkout; cp post-checkout hooks
";

impl Fixture {
    pub(super) fn new() -> Fixture {
        let sandbox = Sandbox::new();
        fs::create_dir(sandbox.path().join(PLACE)).expect("an empty sandbox");
        let made = sandbox.repo(PLACE).command("sh".as_ref()).args(["-ec", SETUP]).output().expect("a shell");
        assert!(made.status.success(), "{}", made.stderr.as_bstr());
        fs::rename(sandbox.path().join(PLACE), sandbox.path().join(KEPT)).expect("nothing is there");
        Fixture(sandbox)
    }

    /// Runs a program in `dir` of a fresh copy, after `prepare`. The program's name is replaced in
    /// its output.
    pub(super) fn run(
        &self,
        program: Program,
        dir: &str,
        prepare: impl Fn(&Path),
        dress: impl Fn(&mut Command),
    ) -> (Run, Snapshot) {
        let place = self.0.path().join(PLACE);
        let _ = fs::remove_dir_all(&place);
        let copied = Command::new("cp").arg("-a").args([self.0.path().join(KEPT), place.clone()]).status();
        assert!(copied.expect("cp").success());
        let repo = self.0.repo(&format!("{PLACE}/{dir}"));
        prepare(&repo.path);
        let mut command = match program {
            Program::Git => repo.git_command(),
            Program::Sapwood | Program::Shim => repo.command(SAPWOOD.as_ref()),
            Program::Nothing => repo.command("true".as_ref()),
        };
        if program == Program::Shim {
            command.arg0("git");
        }
        dress(&mut command);
        let output = command.output().expect("the program can be run");
        let run = Run {
            code: output.status.code().unwrap_or(-1),
            stdout: plain(&output.stdout),
            stderr: plain(&output.stderr),
        };
        let mut found = Snapshot::new();
        collect(&place, &place, &mut found);
        (run, found)
    }

    /// Runs Git, for preparations.
    pub(super) fn git(&self, dir: &Path, args: &[&str]) {
        let done = self.0.repo(PLACE).git_command().current_dir(dir).args(args).output().expect("git");
        assert!(done.status.success(), "{args:?}: {}", done.stderr.as_bstr());
    }
}

/// Cuts a line after a very long path: Git's messages end after 4,096 bytes.
fn plain(text: &[u8]) -> BString {
    let text = text.replace("sapwood", "git");
    let lines = text.lines_with_terminator().map(|line| match line.find("./".repeat(32)) {
        Some(at) => [&line[..at], b"<long>\n"].concat(),
        None => line.to_vec(),
    });
    lines.collect::<Vec<_>>().concat().into()
}

fn collect(root: &Path, dir: &Path, found: &mut Snapshot) {
    for entry in fs::read_dir(dir).into_iter().flatten() {
        let path = entry.expect("readable").path();
        let name = path.strip_prefix(root).expect("below the root").as_os_str().as_encoded_bytes();
        let meta = path.symlink_metadata().expect("just listed");
        let mode = meta.permissions().mode();
        let content = if meta.is_symlink() {
            fs::read_link(&path).expect("a link").into_os_string().into_encoded_bytes()
        } else if meta.is_file() && (!name.contains_str("/objects/") || name.ends_with(b"alternates")) {
            entries(fs::read(&path).expect("a readable file"))
        } else {
            Vec::new()
        };
        // The names of loose objects and packs may differ between the programs.
        if !name.contains_str("/objects/") || name.contains_str("/objects/info") {
            found.insert(name.into(), (mode, content.into()));
        }
        if meta.is_dir() {
            collect(root, &path, found);
        }
    }
}

/// Returns the entries of an index (mode, object and path), because its times differ. Other content
/// is returned unchanged.
fn entries(content: Vec<u8>) -> Vec<u8> {
    let word = |at: usize| u32::from_be_bytes(content[at..at + 4].try_into().expect("four bytes"));
    if !content.starts_with(b"DIRC") || word(4) > 3 {
        return content;
    }
    let (mut at, mut found) = (12, Vec::new());
    for _ in 0..word(8) {
        let name = at + 62 + if content[at + 60] & 0x40 != 0 { 2 } else { 0 };
        let end = name + content[name..].find_byte(0).expect("names end");
        found.extend([&content[at + 24..at + 28], &content[at + 40..at + 60], &content[name..end]].concat());
        at += (end - at) / 8 * 8 + 8;
    }
    found
}
