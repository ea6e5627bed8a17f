//! README, run as written: each line succeeds, and its last line of output is the expected one, for
//! root and for an ordinary user with an empty home.
//!
//! Addresses lead to this machine, and the program that a line builds is the program under test.

use std::{fs, path::Path, process::Command};

use testkit::{
    Repo,
    disk::{as_ordinary_user, give_to_ordinary_user, ordinary_user_reaches},
    servers::{Registry, RegistryAccess},
};

use crate::{SAPWOOD, base::Fleet};

/// A command's beginning, and its last line of output. In that line, `*` stands for any text, and
/// `|` separates alternatives.
type Expected = (&'static str, &'static str);

/// The scripts of README by their sections.
const SECTIONS: &[(&str, &[Expected])] = &[
    (
        "## A worktree for each agent",
        &[
            ("sapwood workspace doctor", "  copy          works"),
            ("sapwood workspace create agent-1", "Workspace at '*)|hint: Only processes *"),
            ("sapwood workspace exec agent-1", ""),
            ("sapwood workspace list", "agent-1 *"),
            ("sapwood workspace remove agent-1", ""),
            ("git log --oneline -1 agent-1", "* Add a greeting"),
            ("sapwood workspace create --exec job agent-1", "hello"),
        ],
    ),
    (
        "## For a fleet",
        &[
            ("base=", ""),
            ("sapwood base push $base", "pushed the base of *"),
            ("sapwood clone --base $base", "Preparing worktree (checking out 'main')|hint: Only processes *"),
            ("cd ../job", ""),
            ("sapwood workspace exec job -- git status", "nothing to commit, working tree clean"),
        ],
    ),
    (
        "## Build and test",
        &[("cargo build --release && ./target/release/sapwood clone", "Checked out *"), (".ci/test", "")],
    ),
    (
        "## Install",
        &[
            ("cargo install", ""),
            (".ci/package", ""),
            ("sudo apt install", ""),
            ("sapwood help status", "*sapwood-doctor(1)"),
        ],
    ),
    (
        "## Tour",
        &[
            ("sapwood clone /srv/git/linux.git", "done.|Cloning into *"),
            ("sapwood clone https://example.org", "Cloning into *"),
            ("cd linux", ""),
            ("sapwood fetch", ""),
            ("sapwood status", "nothing to commit, working tree clean"),
            ("sapwood switch -c topic v6.1", "Switched to a new branch 'topic'"),
            ("sapwood adopt", "verified: 3, *"),
            ("eval", "This line, *"),
            ("git switch --detach v6.1", "HEAD is now at * one"),
            ("sapwood doctor", "Nothing is damaged here, *"),
            ("sapwood sparse-checkout set fs mm", ""),
        ],
    ),
];

/// Commands that build or install something. `.ci/clean-machine` runs them.
const NOT_HERE: &[&str] = &["cargo install ", ".ci/package", ".ci/test", "sudo apt install "];

fn readme() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    fs::read_to_string(path).expect("README")
}

/// Returns the commands of a script, without comments. A command ends with its line, unless a quote
/// is open.
fn commands(script: &str) -> Vec<String> {
    let (mut all, mut current, mut is_quoted) = (Vec::new(), String::new(), false);
    for line in script.lines() {
        let mut before = ' ';
        for letter in line.chars() {
            is_quoted ^= letter == '\'';
            if letter == '#' && before.is_whitespace() && !is_quoted {
                break;
            }
            current.push(letter);
            before = letter;
        }
        if is_quoted {
            current.push('\n');
        } else if !current.trim().is_empty() {
            all.push(std::mem::take(&mut current).trim_end().to_owned());
        }
    }
    all
}

/// Returns the title and the commands of each section with a script.
fn sections() -> Vec<(String, Vec<String>)> {
    let text = readme();
    let mut found = Vec::new();
    for section in text.split("\n## ").skip(1) {
        let title = section.lines().next().expect("a title");
        if let Some((_, code)) = section.split_once("```sh\n") {
            let script = code.split_once("```").expect("the end of the script").0;
            found.push((format!("## {title}"), commands(script)));
        }
    }
    found
}

/// The user who follows README.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    Root,
    Ordinary,
}

/// The machine of a reader: a repository, the servers that README names, and an empty home.
struct Machine {
    reader: Reader,
    fleet: Fleet,
    registry: Registry,
}

impl Machine {
    /// Returns `None`, and prints the reason, if the reader cannot reach the programs.
    fn new(reader: Reader) -> Option<Machine> {
        let fleet = Fleet::new();
        let root = fleet.sandbox.path();
        let origin = fleet.origin();
        // As servers of partial clones have it.
        origin.git(&["config", "uploadpack.allowFilter", "true"]);
        let linux = fleet.sandbox.init("linux");
        for file in ["fs/inode.c", "mm/slab.c", "net/socket.c"] {
            linux.write(file, "");
        }
        linux.commit("one");
        linux.git(&["tag", "v6.1"]);
        linux.write("fs/inode.c", "more\n");
        linux.commit("two");
        linux.git(&["clone", "-q", "--bare", ".", "../linux.git"]);
        for dir in ["bin", "tour", "empty-home"] {
            fs::create_dir(root.join(dir)).expect("a new directory");
        }
        testkit::copy_program(SAPWOOD.as_ref(), &root.join("bin/sapwood"));
        if reader == Reader::Ordinary {
            give_to_ordinary_user(&root);
            if ![root.join("bin"), git_dir()].iter().all(|dir| ordinary_user_reaches(dir)) {
                println!("skipped: an ordinary user cannot reach the programs");
                return None;
            }
        }
        Some(Machine { reader, fleet, registry: Registry::start(RegistryAccess::Open) })
    }

    /// Returns a shell in `dir` with the environment of somebody who has just logged in.
    fn shell(&self, dir: &Repo<'_>) -> Command {
        let root = self.fleet.sandbox.path();
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{}:{path}", root.join("bin").display(), git_dir().display());
        let mut shell = Command::new("sh");
        shell.current_dir(&dir.path).env_clear().env("PATH", path).env("HOME", root.join("empty-home"));
        // The maintenance after a commit must not outlive the test.
        shell.env("GIT_TEST_MAINT_AUTO_DETACH", "false").env("TMPDIR", &root);
        if self.reader == Reader::Root {
            // The kernel mounts no image that lies in memory.
            shell.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", "sapwood.baseDir");
            shell.env("GIT_CONFIG_VALUE_0", self.fleet.bases("job"));
        } else {
            as_ordinary_user(&mut shell);
        }
        shell
    }

    /// Returns a command of README with the addresses of this machine.
    fn here(&self, command: &str) -> String {
        if NOT_HERE.iter().any(|begin| command.starts_with(begin)) {
            return "true".to_owned();
        }
        let root = self.fleet.sandbox.path();
        let there = [
            ("oci://registry.example.org", format!("oci://{}", self.registry.address())),
            ("https://example.org/app.git", format!("file://{}", root.join("origin").display())),
            ("/srv/git/linux.git", root.join("linux.git").display().to_string()),
            ("cargo build --release && ./target/release/sapwood", "sapwood".to_owned()),
        ];
        there.iter().fold(command.to_owned(), |command, (name, here)| command.replace(name, here))
    }

    /// Runs the commands of a section in one shell. Returns the exit code and the last line of
    /// output of each.
    fn run(&self, dir: &Repo<'_>, commands: &[String]) -> Vec<(String, String)> {
        let outputs = self.fleet.sandbox.path().join("empty-home/outputs");
        let mut script = format!("mkdir '{0}'; OUT='{0}'\n", outputs.display());
        for (number, command) in commands.iter().enumerate() {
            let command = self.here(command);
            script +=
                &format!("{{ {command}\n}} >$OUT/{number} 2>&1 </dev/null; echo $? >$OUT/{number}.code\n");
        }
        let ended = self.shell(dir).args(["-c", &script]).output().expect("a shell");
        assert!(ended.stderr.is_empty(), "{}", String::from_utf8_lossy(&ended.stderr));
        let read = |name: String| {
            String::from_utf8_lossy(&fs::read(outputs.join(name)).unwrap_or_default()).trim_end().to_owned()
        };
        let results =
            (0..commands.len()).map(|number| (read(format!("{number}.code")), read(number.to_string())));
        let results = results.collect();
        fs::remove_dir_all(outputs).expect("it was made");
        results
    }
}

fn git_dir() -> std::path::PathBuf {
    let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "/usr/bin/git".to_owned());
    Path::new(&git).parent().expect("a program in a directory").to_owned()
}

fn matches(pattern: &str, line: &str) -> bool {
    pattern.split('|').any(|one| match one.split_once('*') {
        Some((begin, end)) => line.starts_with(begin) && line.ends_with(end),
        None => one == line,
    })
}

/// Follows README from the first section to the last one.
fn follow(reader: Reader) {
    let Some(machine) = Machine::new(reader) else { return };
    // README asks for it.
    assert!(readme().contains("and `user.name` and `user.email` set:"));
    let (origin, tour) = (machine.fleet.origin(), machine.fleet.sandbox.repo("tour"));
    let named = "git config --global user.name Reader; git config --global user.email reader@example.org";
    assert!(machine.shell(&origin).args(["-ec", named]).status().expect("a shell").success());
    for ((title, commands), (_, expected)) in sections().iter().zip(SECTIONS) {
        let dir = if title == "## Tour" { &tour } else { &origin };
        let results = machine.run(dir, commands);
        for ((command, (code, output)), (_, last)) in commands.iter().zip(&results).zip(*expected) {
            let line = output.lines().last().unwrap_or_default();
            assert!(code == "0" && matches(last, line), "{reader:?}: {command}: {code}\n{output}");
        }
    }
}

#[test]
fn every_script_is_known() {
    let found = sections();
    let titles: Vec<&str> = found.iter().map(|(title, _)| &title[..]).collect();
    assert_eq!(titles, SECTIONS.iter().map(|(title, _)| *title).collect::<Vec<_>>());
    for ((title, commands), (_, expected)) in found.iter().zip(SECTIONS) {
        assert_eq!(commands.len(), expected.len(), "{title}: {commands:#?}");
        for (command, (begin, _)) in commands.iter().zip(*expected) {
            assert!(command.starts_with(begin), "{title}: {command}");
        }
    }
    assert!(readme().lines().count() <= 100);
}

#[test]
fn root_follows_it() {
    if sys::user::effective_uid() != 0 {
        println!("skipped: needs root");
        return;
    }
    follow(Reader::Root);
}

#[test]
fn an_ordinary_user_follows_it() {
    let mut id = Command::new("id");
    if !as_ordinary_user(id.arg("-u")).output().is_ok_and(|output| output.status.success()) {
        println!("skipped: only root can become another user");
        return;
    }
    follow(Reader::Ordinary);
}

/// The program that README builds is the one that is measured and packaged: the profile `release`.
#[test]
fn users_build_what_is_measured() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |name: &str| fs::read_to_string(root.join(name)).expect("a file of the project");
    let cargo = read("Cargo.toml");
    let (_, release) = cargo.split_once("[profile.release]\n").expect("the profile");
    let release = release.split("\n[").next().expect("its settings");
    assert!(release.contains("lto = \"fat\"\ncodegen-units = 1\n"), "{release}");
    for name in ["README.md", ".ci/clean-machine"] {
        assert!(!read(name).contains("--profile"), "{name}");
    }
    assert!(read(".ci/package").contains("${SAPWOOD_CI_PROFILE:-release}"));
    for line in read("justfile").lines() {
        let is_measurement = line.contains("-p sapwood-lab -- ");
        assert!(!is_measurement || line.contains("--release") || line.ends_with("-- report"), "{line}");
        assert!(!line.contains("--profile ") || line.contains(".ci/test --profile quick "), "{line}");
    }
}
