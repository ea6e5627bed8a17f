//! `core.sharedRepository`: the mode of every new file and directory equals Git's, under several
//! umasks.

use std::{
    collections::BTreeMap, fmt, fs, io::Write as _, os::unix::fs::PermissionsExt as _, path::Path,
    process::Stdio,
};

use bstr::{BString, ByteSlice as _};
use testkit::{Run, Sandbox, wording};

use crate::{
    bounded,
    shim::{Shim, finished},
};

/// A line of configuration; `None` leaves the setting out.
const VALUES: &[Option<&str>] = &[
    None,
    Some("= group"),
    Some(""),
    Some("= true"),
    Some("= 1"),
    Some("= all"),
    Some("= world"),
    Some("= everybody"),
    Some("= 2"),
    Some("= umask"),
    Some("= false"),
    Some("= 0"),
    Some("= \"\""),
    Some("= 0600"),
    Some("= 0640"),
    Some("= 0660"),
    Some("= 0666"),
    Some("= 0777"),
    Some("= \" +664\""),
    Some("= -1"),
    Some("= 9"),
    Some("= 1k"),
];
const BAD: &[&str] = &["= perhaps", "= 3", "= 0400", "= 08"];
const UMASKS: &[&str] = &["022", "077", "002"];

struct Case {
    value: Option<&'static str>,
    umask: &'static str,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "core.sharedRepository {:?}, umask {}", self.value, self.umask)
    }
}

/// One directory with a repository `repo` for Git, and one for the shim.
struct Sides {
    sandbox: Sandbox,
    shim: Shim,
    umask: &'static str,
}

impl Sides {
    fn new(case: &Case) -> Sides {
        let sides = Sides { sandbox: Sandbox::new(), shim: Shim::new(), umask: case.umask };
        for side in ["git", "our"] {
            let repo = sides.sandbox.init(&format!("{side}/repo"));
            repo.write("a", "one\n");
            repo.write("d/b", "two\n");
            repo.commit("one");
            repo.write("a", "three\n");
            repo.commit("two");
            repo.git(&["branch", "topic", "HEAD~1"]);
            repo.git(&["branch", "other", "HEAD~1"]);
            if let Some(value) = case.value {
                configure(&repo.join(".git/config"), value);
            }
        }
        sides
    }

    /// Runs `args` on one side under the umask.
    fn run(&self, side: &str, args: &[&str]) -> Run {
        let repo = self.sandbox.repo(&format!("{side}/repo"));
        let program = if side == "git" { "git".to_owned() } else { self.shim.program() };
        let script = format!("umask {}; exec \"$0\" \"$@\"", self.umask);
        let mut command = repo.command("sh".as_ref());
        command.stdin(Stdio::null()).args(["-c", script.as_str(), program.as_str()]).args(args);
        let run = finished(&mut command);
        let top = self.sandbox.path().join(side).display().to_string();
        let plain = |text: BString| text.replace(&top, "<top>").into();
        Run { code: run.code, stdout: plain(run.stdout), stderr: plain(run.stderr) }
    }

    /// Runs `args` on both sides, and compares messages, exit codes and modes.
    #[track_caller]
    fn same(&self, context: &Case, args: &[&str]) {
        let [theirs, ours] = ["git", "our"].map(|side| self.run(side, args));
        assert_eq!(theirs, ours, "{context}: {args:?}: git left, shim right");
        self.shim.was_native(args);
        let [theirs, ours] = ["git", "our"].map(|side| modes(&self.sandbox.path().join(side)));
        for name in theirs.keys().chain(ours.keys()) {
            let (theirs, ours) = (theirs.get(name), ours.get(name));
            assert_eq!(theirs, ours, "{context}: {args:?}: {name}: git left, shim right");
        }
    }
}

fn configure(file: &Path, value: &str) {
    let mut file = fs::File::options().append(true).create(true).open(file).expect("opened");
    writeln!(file, "[core]\n\tsharedRepository {value}").expect("written");
}

/// Returns every file and directory with its mode in octal, and the content of configuration files.
fn modes(top: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![top.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("listed") {
            let path = entry.expect("an entry").path();
            let mut name = path.strip_prefix(top).expect("below").display().to_string();
            // The name is a hash over the stat data in the file.
            if let Some((dir, _)) = name.split_once("sharedindex.") {
                name = format!("{dir}sharedindex");
            }
            let meta = path.symlink_metadata().expect("there");
            let mut seen = format!("{:o}", meta.permissions().mode());
            if path.file_name().is_some_and(|name| name == "config") {
                let content = fs::read(&path).expect("read");
                seen += &content.replace(top.display().to_string(), "<top>").to_str_lossy();
            }
            found.insert(name, seen);
            if meta.is_dir() {
                dirs.push(path);
            }
        }
    }
    found
}

fn cases(values: impl Iterator<Item = Option<&'static str>>) -> Vec<Case> {
    values.flat_map(|value| UMASKS.iter().map(move |umask| Case { value, umask })).collect()
}

/// Splits a line into arguments at spaces.
fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

#[test]
fn creates_files_with_gits_modes() {
    bounded(cases(VALUES.iter().copied()), 12, |case| {
        let sides = Sides::new(case);
        for line in [
            "worktree add ../deep/er/wt",
            "worktree add --no-checkout ../plain topic",
            "worktree lock --reason why ../plain",
            "worktree unlock ../plain",
            "worktree move ../plain ../moved",
            "worktree remove ../moved",
            "checkout -q -b new/branch",
            "switch -q -c newer/branch other",
            "reset -q --hard HEAD",
            "update-index --split-index",
            "update-index --no-split-index",
            "sparse-checkout set d",
            "worktree add ../sparse",
            "sparse-checkout disable",
            "worktree add --lock -b dir/made ../locked",
        ] {
            sides.same(case, &words(line));
        }
        for side in ["git", "our"] {
            sides.sandbox.repo(&format!("{side}/repo")).write("new", "new object\n");
        }
        sides.same(case, &["update-index", "--add", "new"]);
    });
}

#[test]
fn clones_with_gits_modes() {
    bounded(cases(VALUES.iter().copied()), 12, |case| {
        let sides = Sides::new(case);
        // The setting is in the template, in the user's configuration, and an option.
        for side in ["git", "our"] {
            let place = sides.sandbox.repo(side);
            place.write("template/description", "a template\n");
            place.write("template/made/deep", "deep\n");
            place.write_executable("template/hooks/sample", "#!/bin/sh\n");
            if let Some(value) = case.value {
                configure(&place.join("template/config"), value);
            }
        }
        let url = |side: &str| format!("file://{}", sides.sandbox.path().join(side).join("repo").display());
        assert_eq!(url("git").len(), url("our").len(), "packs hold no path");
        sides.same(case, &words("clone -q . ../a/b/clone"));
        sides.same(case, &words("clone -q --template=../template . ../template/clone"));
        sides.same(case, &words("clone -q --bare --no-hardlinks . ../copied"));
        sides.same(case, &words("clone -q -s . ../borrowed"));
        sides.same(case, &words("clone -q --no-local . ../packed"));
        if let Some(value) = case.value {
            let setting = match value.strip_prefix("= ") {
                Some(value) => format!("core.sharedRepository={}", value.trim_matches('"')),
                None => "core.sharedRepository".to_owned(),
            };
            sides.same(case, &["-c", &setting, "clone", "-q", ".", "../c/d/clone"]);
            sides.same(case, &["-c", &setting, "clone", "-q", "--no-local", "--bare", ".", "../bare"]);
            sides.same(case, &["-c", &setting, "clone", "-q", "--no-hardlinks", ".", "../unlinked"]);
            sides.same(case, &["-c", &setting, "clone", "-q", "--separate-git-dir=../sep", ".", "../s"]);
            sides.same(case, &["clone", "-q", "--config", &setting, ".", "../e/f/clone"]);
            sides.same(case, &["clone", "-q", "--no-local", "--config", &setting, ".", "../g"]);
        }
    });
}

#[test]
fn refuses_invalid_values() {
    for case in cases(BAD.iter().map(|value| Some(*value))) {
        let sides = Sides::new(&case);
        for line in [
            "worktree add -q --detach ../x/wt",
            "checkout -q -b new",
            "update-index --force-write",
            "clone -q . ../c",
            "worktree list",
        ] {
            let [theirs, ours] = ["git", "our"].map(|side| sides.run(side, &words(line)));
            assert_eq!(theirs.code, ours.code, "{case}: {line}: {}", ours.stderr);
            assert_eq!(
                wording(&theirs.stderr),
                wording(&ours.stderr),
                "{case}: {line}: git left, shim right"
            );
        }
    }
}

/// A file that is rewritten keeps its mode.
#[test]
fn keeps_the_mode_of_a_rewritten_file() {
    let sides = Sides::new(&Case { value: Some("= group"), umask: "077" });
    let context = Case { value: Some("= group"), umask: "077" };
    sides.same(&context, &words("worktree add -q ../wt topic"));
    let change = |path: &str, mode: u32| {
        for side in ["git", "our"] {
            let path = sides.sandbox.repo(side).join(path);
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
        }
    };
    change("repo/.git/worktrees/wt/gitdir", 0o664);
    change("wt/.git", 0o640);
    change("repo/.git/config", 0o600);
    sides.same(&context, &words("worktree move ../wt ../new"));
    sides.same(&context, &words("worktree add -q --relative-paths ../relative other"));
}
