//! Random environments compared with Git: variables, settings in every scope, and current
//! directories. Git and the program under test run the same command at the same path, one after the
//! other. Exit code, messages, and every byte of the worktree, the Git directories and their
//! surroundings must be equal.

pub(crate) mod world;

use std::{
    fmt,
    io::Write as _,
    path::Path,
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use bstr::ByteSlice as _;

use self::world::{Snapshot, Stage, differences, said};
use crate::{SAPWOOD, random::Random};

/// A value to try for every variable and every setting.
const ANYWHERE: &[&str] = &[""];

/// Object directories of other repositories. They can be added once sapwood reports missing objects
/// like Git: `@/other/.git/objects`, `@/plain`; for `GIT_COMMON_DIR` `@/other/.git` and
/// `@/bare.git`, for `GIT_INDEX_FILE` `@/top/.git/index`.
const OBJECTS_ELSEWHERE: &[&str] = &[];

/// Current directories. `@` stands for the directory that contains all repositories.
const DIRECTORIES: &[&str] = &[
    "@/top",
    "@/top",
    "@/top/d",
    "@/top/.git",
    "@/top/.git/refs",
    "@/top/.git/worktrees/linked",
    "@/linked",
    "@/linked/d",
    "@/bare.git",
    "@/bare.git/refs",
    "@/top/sub",
    "@/top/nested",
    "@/other",
    "@/plain",
    "@/alias/d",
];

const VARIABLES: &[(&str, &[&str])] = &[
    (
        "GIT_DIR",
        &[
            ".git",
            "@/top/.git",
            "../top/.git",
            "@/linked/.git",
            "@/top/.git/worktrees/linked",
            "@/bare.git",
            ".",
            "@/other/.git",
            "@/none",
            "@/plain",
            "@/top/t",
            "@/top/sub/.git",
            "../.git",
            "@/alias/.git",
            "@/top",
        ],
    ),
    (
        "GIT_WORK_TREE",
        &[
            ".",
            "..",
            "@/top",
            "@/linked",
            "@/plain",
            "@/other",
            "@/none",
            "@/top/t",
            "@/top/d",
            "d",
            "@/alias",
            "@/top/",
            "@/top/.git",
            "@/top/sub",
        ],
    ),
    ("GIT_INDEX_FILE", &["@/index", "spare", "@/none/index", "@/top/d", "../spare", ".git/index", "@/top/t"]),
    ("GIT_COMMON_DIR", &["@/top/.git", ".git", "@/none", "../.git"]),
    ("GIT_OBJECT_DIRECTORY", &["@/top/.git/objects", ".git/objects", "@/none"]),
    (
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        &[
            "@/other/.git/objects",
            "../other/.git/objects",
            "@/none",
            "\"@/other/.git/objects\"",
            "@/none:@/other/.git/objects",
        ],
    ),
    ("GIT_CEILING_DIRECTORIES", &["@", "@/top", ":@/top", "top", "@/alias", "@/top/d", "@/", "@/none:@/top"]),
    ("GIT_PREFIX", &["d/", "none/"]),
    ("GIT_IMPLICIT_WORK_TREE", &["0", "1"]),
    ("GIT_TEST_ASSUME_DIFFERENT_OWNER", &["1", "1", "0"]),
];

const SETTINGS: &[(&str, &[&str])] = &[
    (
        "core.worktree",
        &["..", "../../other", "@/plain", "@/none", "../../top", "@/linked", "@/top/d", "@/top", "."],
    ),
    ("core.bare", &["true", "true", "false"]),
    ("safe.directory", &[".", "*", "@/top", "@/*", "top", "@/top/.git", "@/alias", "./"]),
    ("safe.bareRepository", &["explicit", "all"]),
    ("core.repositoryFormatVersion", &["0", "1", "1", "2"]),
    ("extensions.worktreeConfig", &["true", "true", "false"]),
    ("extensions.partialClone", &["origin"]),
    ("extensions.objectFormat", &["sha1", "sha256"]),
    ("extensions.refStorage", &["files"]),
    ("extensions.preciousObjects", &["true"]),
    ("extensions.relativeWorktrees", &["true"]),
    ("extensions.noop", &["1"]),
    ("extensions.noop-v1", &["1"]),
    ("extensions.unheardOf", &["1"]),
];

/// The place of a setting.
#[derive(Clone, Copy, Debug)]
enum Scope {
    File(&'static str),
    /// A file that `top/.git/config` includes.
    Included,
    CommandLine,
    Count,
}

const SCOPES: &[Scope] = &[
    Scope::File("@/system"),
    Scope::File("@/home/.gitconfig"),
    Scope::File("@/top/.git/config"),
    Scope::File("@/top/.git/config"),
    Scope::File("@/top/.git/config"),
    Scope::File("@/bare.git/config"),
    Scope::File("@/top/.git/config.worktree"),
    Scope::File("@/top/.git/worktrees/linked/config.worktree"),
    Scope::Included,
    Scope::CommandLine,
    Scope::Count,
];

/// Commands that change or print much state.
const COMMANDS: &[&[&str]] = &[
    &["status"],
    &["status", "--porcelain=v2", "--branch", "--ignored"],
    &["clean", "-fdx"],
    &["clean", "-fd"],
    &["clean", "-n"],
    &["checkout", "-f"],
    &["checkout", "topic"],
    &["checkout", "--", "."],
    &["restore", "--staged", "--worktree", "."],
    &["reset", "--hard"],
    &["reset", "--hard", "topic"],
    &["reset"],
    &["switch", "topic"],
    &["switch", "-c", "new"],
    &["switch", "--discard-changes", "--detach", "topic"],
    &["ls-files", "--stage", "--others"],
    &["ls-files", "--others", "--exclude-standard"],
    &["worktree", "list", "--porcelain"],
    &["worktree", "list"],
    &["worktree", "add", "@/new"],
    &["worktree", "add", "--relative-paths", "-b", "fresh", "@/new", "topic"],
    &["worktree", "remove", "--force", "@/linked"],
    &["worktree", "prune"],
    &["check-ignore", "-v", "d/x.ign", "t"],
    &["check-attr", "-a", "d/f"],
    &["update-index", "--refresh"],
    &["update-index", "--add", "--remove", "d/u", "t"],
    &["diff-files"],
    &["diff-index", "HEAD"],
    &["sparse-checkout", "list"],
    &["sparse-checkout", "set", "d"],
    &["read-tree", "HEAD"],
    &["read-tree", "-m", "-u", "HEAD", "topic"],
    &["checkout-index", "-a", "-f"],
];

/// One command in one environment.
struct Case {
    number: u64,
    directory: &'static str,
    variables: Vec<(&'static str, &'static str)>,
    settings: Vec<(Scope, &'static str, &'static str)>,
    command: &'static [&'static str],
}

impl Case {
    fn new(number: u64) -> Case {
        let mut random = Random::new(number ^ 0x656e_7669_726f_6e73);
        let directory = one(&mut random, DIRECTORIES);
        let mut variables: Vec<(&str, &str)> = Vec::new();
        for _ in 0..random.below(4) {
            let (name, values) = one(&mut random, VARIABLES);
            if variables.iter().all(|(known, _)| *known != name) {
                let more = if name == "GIT_OBJECT_DIRECTORY" { OBJECTS_ELSEWHERE } else { &[] };
                variables.push((name, value(&mut random, values, more)));
            }
        }
        let settings = (0..random.below(3)).map(|_| {
            let (name, values) = one(&mut random, SETTINGS);
            (one(&mut random, SCOPES), name, value(&mut random, values, &[]))
        });
        let settings: Vec<(Scope, &str, &str)> = settings.collect();
        // Outside of the worktree, relative paths of the index and the common directory resolve
        // differently: see SHORTCOMINGS.md.
        let names_worktree = variables.iter().any(|(name, _)| *name == "GIT_WORK_TREE")
            || settings.iter().any(|(_, name, _)| *name == "core.worktree");
        // sapwood refuses an empty index path; Git reads it as an index without entries.
        variables.retain(|(name, value)| match *name {
            _ if value.starts_with('@') => true,
            "GIT_INDEX_FILE" => !(names_worktree || value.is_empty()),
            "GIT_COMMON_DIR" => !names_worktree,
            _ => true,
        });
        Case { number, directory, variables, settings, command: one(&mut random, COMMANDS) }
    }

    /// Creates the world and runs the command there.
    fn run(&self, stage: &Stage, program: &Path) -> (testkit::Run, Snapshot) {
        let run = said(self.prepare(stage, program));
        (run, stage.snapshot())
    }

    /// Creates the world, and returns the command to run there.
    fn prepare(&self, stage: &Stage, program: &Path) -> Command {
        stage.reset();
        let mut command = stage.command(program);
        command.current_dir(stage.place(self.directory));
        let mut count = 0;
        for (scope, name, value) in &self.settings {
            let value = stage.place(value);
            match scope {
                Scope::File(file) => append(&stage.place(file), name, &value),
                Scope::Included => {
                    append(&stage.place("@/top/.git/included"), name, &value);
                    append(&stage.place("@/top/.git/config"), "include.path", "included");
                }
                Scope::CommandLine => {
                    command.args(["-c", &format!("{name}={value}")]);
                }
                Scope::Count => {
                    command.env(format!("GIT_CONFIG_KEY_{count}"), name);
                    command.env(format!("GIT_CONFIG_VALUE_{count}"), value);
                    count += 1;
                    command.env("GIT_CONFIG_COUNT", count.to_string());
                }
            }
        }
        for (name, value) in &self.variables {
            command.env(name, stage.place(value));
        }
        command.args(self.command.iter().map(|arg| stage.place(arg)));
        command
    }

    /// Returns the differences from Git. Where the command would change the repository itself,
    /// sapwood refuses it, and must leave everything as it was.
    fn differences(&self, stage: &Stage) -> Vec<String> {
        let ours = self.run(stage, SAPWOOD.as_ref());
        if is_guarded(&ours.0) {
            self.prepare(stage, SAPWOOD.as_ref());
            let untouched = (ours.0.clone(), stage.snapshot());
            return differences(&untouched, &ours);
        }
        let (mut theirs, mut ours) = (self.run(stage, &stage.git()), ours);
        if self.command[0] == "clean" {
            world::leave_out_kept(&mut theirs, &mut ours);
        }
        differences(&theirs, &ours)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: cd {};", self.number, self.directory)?;
        self.variables.iter().try_for_each(|(name, value)| write!(f, " {name}='{value}'"))?;
        self.settings.iter().try_for_each(|(scope, name, value)| write!(f, " {scope:?}[{name}={value}]"))?;
        write!(f, " git {}", self.command.join(" "))
    }
}

fn is_guarded(run: &testkit::Run) -> bool {
    run.code == 128 && run.stderr.contains_str("fatal: refusing to change '")
}

fn one<T: Copy>(random: &mut Random, of: &[T]) -> T {
    of[random.below(of.len())]
}

fn value(random: &mut Random, own: &[&'static str], more: &[&'static str]) -> &'static str {
    one(random, &[own, more, ANYWHERE].concat())
}

fn append(file: &str, name: &str, value: &str) {
    let (section, name) = name.split_once('.').expect("a section and a name");
    let mut file = std::fs::File::options().create(true).append(true).open(file).expect("it can be written");
    write!(file, "[{section}]\n\t{name} = {value}\n").expect("it can be written");
}

/// The number of cases in the full run, and in CI.
const CASES: (u64, u64) = (3000, 150);

#[test]
fn behaves_as_git_in_random_environments() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("SAPWOOD_TEST_FIRST").unwrap_or(0);
    let count = number("SAPWOOD_TEST_COUNT").unwrap_or(if crate::full() { CASES.0 } else { CASES.1 });
    let (next, failed) = (AtomicU64::new(first), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let stage = Stage::new();
                loop {
                    let case = Case::new(next.fetch_add(1, Ordering::Relaxed));
                    if case.number >= first + count {
                        break;
                    }
                    let differences = case.differences(&stage);
                    if !differences.is_empty() {
                        let text = format!("{case}\n    {}", differences.join("\n    "));
                        failed.lock().expect("nobody panics with it").push(stage_free(&stage, &text));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("nobody panics with it");
    println!("{} of {count} environments differ", failed.len());
    assert!(failed.is_empty(), "{} of {count} environments differ:\n{}", failed.len(), failed.join("\n"));
}

#[test]
fn lists_the_worktrees_of_another_common_directory() {
    let stage = Stage::new();
    let script = "cd @/top/nested; GIT_COMMON_DIR=@/top/.git $G worktree list --porcelain
        cd @/linked; GIT_COMMON_DIR=@/other/.git $G worktree list";
    let found = stage.compare_scripts("", script);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Proves that only the parts that `clean` keeps on purpose are left out.
#[test]
fn clean_keeps_the_repository_itself_and_nothing_else() {
    let stage = Stage::new();
    let run = |program: &Path, more: &str| {
        stage.reset();
        let mut command = stage.command("sh".as_ref());
        let script =
            format!("cd @/top/sub; GIT_WORK_TREE=@/top/.git $G clean -fdx; code=$?; {more} exit $code");
        command.args(["-c", &stage.place(&script)]).env("G", program);
        (said(command), stage.snapshot())
    };
    let compared = |more: &str| {
        let (mut theirs, mut ours) = (run(&stage.git(), ""), run(SAPWOOD.as_ref(), more));
        world::leave_out_kept(&mut theirs, &mut ours);
        differences(&theirs, &ours)
    };
    assert_eq!(compared(""), Vec::<String>::new());
    assert_ne!(compared("rm @/top/t;"), Vec::<String>::new(), "a missing file is found");
    assert_ne!(compared("echo x >@/top/.git/left;"), Vec::<String>::new(), "a file that stays is found");
}

fn stage_free(stage: &Stage, text: &str) -> String {
    text.replace(stage.world().to_str().expect("a plain path"), "@")
}
