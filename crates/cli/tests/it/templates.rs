//! Clones with templates of every kind, compared with Git's: messages, exit codes, and every file
//! with its mode.

use std::{collections::BTreeMap, process::Stdio};

use bstr::{BString, ByteSlice as _};
use testkit::{Run, Sandbox};

use crate::{SAPWOOD, clone::tree, shim::finished};

/// A script that creates the template in `T`, the arguments of `clone`, and a variable.
type Case = (&'static str, &'static str, &'static str);

const PLAIN: &str = "--template=T";

const CASES: &[Case] = &[
    // The template contains files that a clone writes.
    ("echo x >T/HEAD", PLAIN, ""),
    ("echo ref: refs/heads/zz >T/HEAD", "--template=T -b topic", ""),
    ("echo x >T/HEAD; mkdir c", PLAIN, ""),
    ("echo x >T/HEAD; mkdir c", "--template=T --bare", ""),
    ("echo x >T/HEAD; mkdir -p T/objects/zz", "--template=T --separate-git-dir=sep", ""),
    ("mkdir -p T/objects/info", PLAIN, ""),
    ("mkdir -p T/objects/info T/objects/pack T/refs/heads/x", "--template=T --bare", ""),
    ("mkdir -p T/objects/info; echo x >T/objects/info/y", "--template=T -s", ""),
    ("mkdir -p T/objects/pack; echo x >T/objects/pack/y", "--template=T --no-hardlinks", ""),
    ("mkdir -p T/objects/pack", "--template=T --no-local", ""),
    (
        "mkdir -p T/objects/info; echo \"$PWD/src/.git/objects\" >T/objects/info/alternates",
        "--template=T -s",
        "",
    ),
    (
        "mkdir -p T/objects/info; echo \"$PWD/o/.git/objects\" >T/objects/info/alternates",
        "--template=T -s",
        "",
    ),
    ("mkdir -p T/objects/info; echo \"$PWD/o/.git/objects\" >T/objects/info/alternates", PLAIN, ""),
    ("echo junk >T/index", PLAIN, ""),
    ("echo junk >T/index", "--template=T -n", ""),
    ("echo junk >T/index", "--template=T --bare", ""),
    ("echo x >T/packed-refs; echo x >T/ORIG_HEAD; echo x >T/FETCH_HEAD", PLAIN, ""),
    (
        "mkdir -p T/refs/heads T/refs/tags; cp src/.git/refs/heads/main T/refs/heads/other; cp src/.git/refs/heads/main T/refs/tags/v9",
        PLAIN,
        "",
    ),
    ("mkdir -p T/logs T/info T/worktrees/w; echo x >T/logs/HEAD; echo x >T/info/exclude", PLAIN, ""),
    // The template's configuration.
    ("printf '[a]\\n\\tb = c\\n[core]\\n\\tbare = true\\n' >T/config; chmod 755 T/config", PLAIN, ""),
    (
        "printf '[core]\\n\\tfilemode = false\\n\\tsymlinks = false\\n\\tlogallrefupdates = false\\n' >T/config",
        PLAIN,
        "",
    ),
    ("printf '[core]\\n\\trepositoryformatversion = 9\\n' >T/config; echo x >T/y", PLAIN, ""),
    ("printf '[core]\\n\\trepositoryformatversion = x\\n' >T/config", PLAIN, ""),
    (
        "printf '[core]\\n\\trepositoryformatversion = 1\\n[extensions]\\n\\tnope = 1\\n' >T/config; echo x >T/y",
        PLAIN,
        "",
    ),
    (
        "printf '[core]\\n\\trepositoryformatversion = 0\\n[extensions]\\n\\tobjectformat = sha1\\n' >T/config",
        PLAIN,
        "",
    ),
    (
        "printf '[core]\\n\\trepositoryformatversion = 1\\n[extensions]\\n\\tobjectformat = sha256\\n' >T/config",
        PLAIN,
        "",
    ),
    (
        "printf '[core]\\n\\trepositoryformatversion = 1\\n[extensions]\\n\\trefstorage = files\\n' >T/config",
        PLAIN,
        "",
    ),
    (
        "printf '[core]\\n\\trepositoryformatversion = 1\\n[extensions]\\n\\trelativeWorktrees = true\\n' >T/config",
        PLAIN,
        "",
    ),
    ("printf '[broken\\n' >T/config", PLAIN, ""),
    (
        "printf '[init]\\n\\tdefaultBranch = x\\n\\ttemplateDir = y\\n[clone]\\n\\tdefaultRemoteName = up\\n' >T/config",
        PLAIN,
        "",
    ),
    // Files of other kinds and modes.
    (
        "mkdir -p T/hooks; echo x >T/hooks/x; chmod 711 T/hooks; chmod 4751 T/hooks/x; echo x >T/y; chmod 600 T/y",
        PLAIN,
        "",
    ),
    (
        "ln -s nowhere T/dangling; ln -s /etc/passwd T/link; ln -s T TL; mkfifo T/fifo; echo x >T/.hidden",
        "--template=TL",
        "",
    ),
    // The location of the template.
    ("echo x >T/y", "--template=./T/", ""),
    ("echo x >T/y", "--template=$PWD/T", ""),
    ("echo x >T/y", "--template=", "GIT_TEMPLATE_DIR=T"),
    (":", "--template=nowhere", ""),
    ("echo x >F", "--template=F", ""),
    (":", "--template=~/T", ""),
    ("echo x >T/y", "", "GIT_TEMPLATE_DIR=T"),
    ("echo x >T/y", "", "GIT_TEMPLATE_DIR="),
    ("echo x >T/y", PLAIN, "GIT_TEMPLATE_DIR=nowhere"),
    ("echo x >T/y; git config --file home/.gitconfig init.templateDir T", "", "HOME=home"),
    (
        "echo x >T/y; git config --file home/.gitconfig init.templateDir nowhere",
        "",
        "HOME=home GIT_TEMPLATE_DIR=T",
    ),
    ("echo x >T/y; git config --file home/.gitconfig init.templateDir ''", "", "HOME=home"),
    (
        "mkdir home/T; echo x >home/T/y; git config --file home/.gitconfig init.templateDir '~/T'",
        "",
        "HOME=home",
    ),
];

fn run(sandbox: &Sandbox, side: &str, case: &Case) -> (Run, BTreeMap<BString, (u32, BString)>) {
    let (setup, args, variable) = case;
    let place = sandbox.repo(side);
    let git = if side == "our" { SAPWOOD } else { "git" };
    let script = format!(
        "set -e; umask 022; mkdir T home o; git init -q o; git init -q -b main src; cd src; mkdir d; echo a >a; echo b >d/b\n\
         git add .; git commit -qm one; git branch topic; cd ..; {setup}\n\
         set +e; env {variable} '{git}' clone {args} src c"
    );
    let mut command = place.command("sh".as_ref());
    let run = finished(command.stdin(Stdio::null()).args(["-c", &script]));
    let here = place.path.display().to_string();
    let plain = |text: &BString| BString::from(text.replace(&here, "<here>").replace("sapwood", "git"));
    let run = Run { code: run.code, stdout: plain(&run.stdout), stderr: plain(&run.stderr) };
    let made = tree(&place.path).into_iter().map(|(name, (mode, text))| (name, (mode, plain(&text))));
    // Leaves out the template and the sources.
    let made = made.filter(|(name, _)| name.starts_with(b"c") || name.starts_with(b"sep"));
    (run, made.collect())
}

#[test]
fn templates_of_every_kind() {
    for case in CASES {
        let sandbox = Sandbox::new();
        for side in ["git", "our"] {
            std::fs::create_dir(sandbox.path().join(side)).expect("made");
        }
        let (theirs, ours) = (run(&sandbox, "git", case), run(&sandbox, "our", case));
        assert_eq!(theirs.0, ours.0, "{case:?}: git left, ours right");
        for name in theirs.1.keys().chain(ours.1.keys()) {
            let (theirs, ours) = (theirs.1.get(name), ours.1.get(name));
            assert_eq!(theirs, ours, "{case:?}: {name}: git left, ours right");
        }
    }
}

/// A clone fails and leaves no files if the template has a directory in place of a file.
#[test]
fn removes_the_clone_if_a_template_cannot_be_written() {
    for setup in ["mkdir T/HEAD", "mkdir T/config", "echo x >T/config.lock"] {
        let sandbox = Sandbox::new();
        for side in ["git", "our"] {
            std::fs::create_dir(sandbox.path().join(side)).expect("made");
            let (run, made) = run(&sandbox, side, &(setup, PLAIN, ""));
            assert_eq!(run.code, 128, "{side}: {setup}: {}", run.stderr);
            assert!(made.is_empty(), "{side}: {setup}: {made:?}");
            assert!(!run.stderr.contains_str(".clone-"), "{side}: {setup}: {}", run.stderr);
        }
    }
}
