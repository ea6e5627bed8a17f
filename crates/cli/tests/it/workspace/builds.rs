//! Builds in workspaces, with real build tools: none does more than in the main worktree, and none
//! keeps an object of another commit.
//!
//! `SAPWOOD_TEST_FULL=1` runs 500 random histories of commits, rebases, switches and workspaces
//! that take builds along. `SAPWOOD_TEST_SEED` runs one.

use std::{collections::HashMap, fs, path::Path, process::Command, time::Duration};

use testkit::{Repo, need_program};

use super::create::Place;
use crate::{full, random::Random};

/// A build tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    Make,
    Ninja,
}

const MAKEFILE: &str = r"SOURCES := $(sort $(wildcard src/*.c))
OBJECTS := $(SOURCES:src/%.c=build/%.o)
build/app: $(OBJECTS) build/list
	$(CC) -o $@ $(OBJECTS)
build/%.o: src/%.c | build
	$(CC) -MMD -MP -Iinclude -c -o $@ $<
build/list: FORCE | build
	@echo '$(OBJECTS)' | cmp -s - $@ || echo '$(OBJECTS)' > $@
build:
	mkdir -p build
FORCE:
-include $(wildcard build/*.d)
";

const NINJA: &str = r"builddir = build
rule cc
  command = $$CC -MMD -MF $out.d -Iinclude -c -o $out $in
  depfile = $out.d
  deps = gcc
rule link
  command = $$CC -o $out $in
";

/// A repository with a C project, and a compiler that counts its calls.
struct Project {
    place: Place,
    tool: Tool,
    /// The built program of each tree, from a clean build.
    clean: HashMap<String, Vec<u8>>,
}

impl Project {
    fn new(tool: Tool) -> Project {
        for program in ["gcc", "make", "ninja"] {
            need_program(program);
        }
        let place = Place::new();
        let tools = place.sandbox.repo("tools");
        fs::create_dir(&tools.path).expect("a new directory");
        tools.write_executable("cc", "#!/bin/sh\necho \"$*\" >> \"${0%/*}/log\"\nexec gcc \"$@\"\n");
        let repo = place.repo();
        repo.write(".gitignore", "/build/\n");
        repo.write("Makefile", MAKEFILE);
        repo.write("src/main.c", "#include \"h0.h\"\nint main(void) { return H0; }\n");
        for number in 0..4 {
            header(&repo, number, 1);
            unit(&repo, number, 1);
        }
        let project = Project { place, tool, clean: HashMap::new() };
        project.commit();
        project
    }

    fn repo(&self) -> Repo<'_> {
        self.place.repo()
    }

    /// Commits everything in the main worktree.
    fn commit(&self) {
        let repo = self.repo();
        let names = fs::read_dir(repo.join("src")).expect("sources");
        let mut names: Vec<String> = names
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("plain"))
            .map(|name| name.trim_end_matches(".c").to_owned())
            .collect();
        names.sort();
        let objects: Vec<String> = names.iter().map(|name| format!("build/{name}.o")).collect();
        let mut ninja = NINJA.to_owned();
        for name in &names {
            ninja += &format!("build build/{name}.o: cc src/{name}.c\n");
        }
        ninja += &format!("build build/app: link {}\n", objects.join(" "));
        repo.write("build.ninja", ninja);
        repo.git(&["add", "-A"]);
        repo.git(&["commit", "-qm", "change", "--allow-empty"]);
    }

    /// Builds in the main worktree, or in a workspace. Returns the calls of the compiler, sorted.
    fn build(&self, workspace: Option<&str>) -> Vec<String> {
        let tools = self.place.sandbox.repo("tools");
        let log = tools.join("log");
        let _ = fs::remove_file(&log);
        let cc = tools.join("cc");
        let command = match self.tool {
            Tool::Make => format!("exec make -s CC={}", cc.display()),
            Tool::Ninja => format!("CC={} exec ninja --quiet build/app", cc.display()),
        };
        // A file written in the same tick of the clock as an output would look as old as it, in
        // every worktree.
        std::thread::sleep(Duration::from_millis(10));
        match workspace {
            Some(name) => drop(self.place.done(&["exec", name, "--", "sh", "-c", &command])),
            None => {
                let run = self.repo().run("sh".as_ref(), &["-c", &command]);
                assert_eq!(run.code, 0, "{run:?}");
            }
        }
        std::thread::sleep(Duration::from_millis(10));
        let calls = fs::read_to_string(log).unwrap_or_default();
        // The tools run several compilers at a time.
        let mut calls: Vec<String> = calls.lines().map(ToOwned::to_owned).collect();
        calls.sort();
        calls
    }

    /// Returns the program that a clean build of HEAD there makes.
    fn expected(&mut self, workspace: Option<&str>) -> Vec<u8> {
        let repo = self.dir(workspace);
        let tree = repo.git(&["rev-parse", "HEAD^{tree}"]).stdout.to_string().trim().to_owned();
        if let Some(known) = self.clean.get(&tree) {
            return known.clone();
        }
        let clean = tempfile::tempdir().expect("a directory for tests");
        let script = format!("git archive {tree} | tar x -C {}", clean.path().display());
        assert_eq!(self.repo().run("sh".as_ref(), &["-c", &script]).code, 0);
        let built = Command::new("make").args(["-s", "CC=gcc"]).current_dir(clean.path()).status();
        assert!(built.expect("make runs").success());
        let built = fs::read(clean.path().join("build/app")).expect("built");
        self.clean.insert(tree, built.clone());
        built
    }

    fn dir(&self, workspace: Option<&str>) -> Repo<'_> {
        workspace.map_or_else(|| self.repo(), |name| self.place.workspace(name))
    }

    fn check(&mut self, workspace: Option<&str>, history: &[String]) {
        self.build(workspace);
        let found = fs::read(self.dir(workspace).join("build/app")).expect("built");
        assert!(found == self.expected(workspace), "the build differs from a clean one: {history:#?}");
        assert_eq!(self.build(workspace), [""; 0], "the second build does something: {history:#?}");
    }
}

fn header(repo: &Repo<'_>, number: usize, value: usize) {
    let next = if number < 3 { format!("#include \"h{}.h\"\n", number + 1) } else { String::new() };
    repo.write(format!("include/h{number}.h"), format!("{next}#define H{number} {value}\n"));
}

fn unit(repo: &Repo<'_>, number: usize, value: usize) {
    let header = number % 4;
    repo.write(
        format!("src/u{number}.c"),
        format!("#include \"h{header}.h\"\nint u{number}(void) {{ return H{header} + {value}; }}\n"),
    );
}

#[test]
fn a_change_costs_as_many_steps_as_in_the_main_worktree() {
    for (tool, backend) in [(Tool::Make, "image"), (Tool::Ninja, "image"), (Tool::Make, "overlay-user")] {
        let project = Project::new(tool);
        let (place, repo) = (&project.place, project.repo());
        let all = project.build(None).len();
        assert!(all >= 6, "{tool:?}: {all} calls");
        place.done(&["create", "-q", "one", "-b", "one", "--backend", backend, "--with", "build"]);
        assert_eq!(project.build(Some("one")), [""; 0], "{tool:?}: nothing has changed");
        let edit = "echo '#define H2 7' > include/h2.h; echo '#include \"h3.h\"' >> include/h2.h";
        place.done(&["exec", "one", "--", "sh", "-c", edit]);
        repo.write("include/h2.h", "#define H2 7\n#include \"h3.h\"\n");
        let (inside, outside) = (project.build(Some("one")), project.build(None));
        assert_eq!(inside, outside, "{tool:?}");
        assert!(outside.len() > 1 && outside.len() < all, "{tool:?}: {outside:?}");
        // A rebase: as many steps as after a switch.
        repo.git(&["checkout", "-q", "."]);
        project.build(None);
        unit(&repo, 3, 9);
        project.commit();
        let outside = project.build(None);
        place.done(&["exec", "one", "--", "git", "checkout", "-q", "."]);
        project.build(Some("one"));
        place.done(&["rebase", "-q", "-d", "one", "main"]);
        assert_eq!(project.build(Some("one")), outside, "{tool:?}");
        assert_eq!(outside.len(), 2, "{tool:?}: {outside:?}");
    }
}

/// Writes a repository with two crates, one of which uses the other.
fn write_crates(repo: &Repo<'_>) {
    repo.write(".gitignore", "/target/\n");
    repo.write("Cargo.toml", "[workspace]\nmembers = [\"lower\", \"upper\", \"aside\"]\nresolver = \"2\"\n");
    let package =
        |name: &str| format!("[package]\nname = \"{name}\"\nversion = \"1.0.0\"\nedition = \"2021\"\n");
    for name in ["lower", "aside"] {
        repo.write(format!("{name}/Cargo.toml"), package(name));
        repo.write(format!("{name}/src/lib.rs"), "pub fn value() -> u32 { 1 }\n");
    }
    repo.write("upper/Cargo.toml", package("upper") + "[dependencies]\nlower = { path = \"../lower\" }\n");
    repo.write("upper/src/main.rs", "fn main() { println!(\"{}\", lower::value()); }\n");
}

#[test]
fn cargo_is_warm_at_the_path_of_the_main_worktree() {
    let place = Place::new();
    let tools = place.sandbox.repo("tools");
    fs::create_dir(&tools.path).expect("a new directory");
    let wrapper = "#!/bin/sh\ncase \"$*\" in *'--crate-name ___'*) ;; *--crate-name*) \
                   echo \"$4 $3\" >> \"${0%/*}/log\" ;; esac\nexec \"$@\"\n";
    tools.write_executable("rustc", wrapper);
    let cargo = Path::new(env!("CARGO"));
    let build = format!(
        "RUSTC={} RUSTC_WRAPPER={} CARGO_HOME={} CARGO_INCREMENTAL=0 RUSTFLAGS= {} build -q --offline",
        cargo.with_file_name("rustc").display(),
        tools.join("rustc").display(),
        tools.join("home").display(),
        cargo.display()
    );
    let calls = || {
        let log = tools.join("log");
        let mut calls: Vec<String> =
            fs::read_to_string(&log).unwrap_or_default().lines().map(ToOwned::to_owned).collect();
        let _ = fs::remove_file(&log);
        calls.sort();
        calls
    };
    let repo = place.repo();
    let outside = || {
        let run = repo.run("sh".as_ref(), &["-c", &build]);
        assert_eq!(run.code, 0, "{run:?}");
        calls()
    };
    write_crates(&repo);
    assert_eq!(outside().len(), 3);
    repo.commit("crates");
    repo.write("aside/src/lib.rs", "pub fn value() -> u32 { 3 }\n");
    repo.commit("another");
    outside();
    let top = repo.path.to_str().expect("a plain name");
    place.done(&["create", "-q", "one", "-d", "--with", "target", "--at", top]);
    let inside = |script: &str| {
        place.done(&["exec", "one", "--", "sh", "-ec", script]);
        calls()
    };
    assert_eq!(inside(&build), [""; 0], "nothing has changed");
    let edit = "pub fn value() -> u32 { 2 }\n";
    place.workspace("one").write("lower/src/lib.rs", edit);
    repo.write("lower/src/lib.rs", edit);
    let expected = outside();
    assert_eq!(expected.len(), 2);
    assert_eq!(inside(&build), expected);
    let run = place.done(&["exec", "one", "--", "target/debug/upper"]);
    assert_eq!(run, "2\n");
    // The commit before has another file: cargo makes that crate again, and no other.
    place.done(&["create", "-q", "two", "-d", "HEAD~1", "--with", "target", "--at", top]);
    place.done(&["exec", "two", "--", "sh", "-ec", &build]);
    assert_eq!(calls().len(), 3, "'lower' is modified in the main worktree");
    assert_eq!(place.done(&["exec", "two", "--", "target/debug/upper"]), "1\n");
}

#[test]
fn a_bundle_has_the_sources_of_the_workspace() {
    need_program("esbuild");
    let place = Place::new();
    let repo = place.repo();
    let package = |value: &str| format!("export const value = '{value}';\n");
    repo.write(".gitignore", "node_modules/\n/dist/\n");
    repo.write(".worktreeinclude", "node_modules\ndist\n");
    repo.write("package.json", "{\"scripts\": {}}\n");
    repo.write("src/part.js", package("first"));
    repo.write(
        "src/main.js",
        "import {value} from './part.js'; import {dep} from 'dep'; console.log(value, dep);\n",
    );
    // make runs the bundler only if a source is newer than the bundle.
    let makefile = "dist/out.js: $(shell find src -type f)\n\
                    \tesbuild src/main.js --bundle --log-level=warning --outfile=$@\n";
    repo.write("Makefile", makefile);
    repo.commit("first");
    repo.write("src/part.js", package("second"));
    repo.commit("second");
    repo.write("node_modules/dep/index.js", "export const dep = 'installed';\n");
    repo.write("node_modules/dep/package.json", "{\"main\": \"index.js\", \"type\": \"module\"}\n");
    assert_eq!(repo.run("make".as_ref(), &["-s"]).code, 0);
    let bundle = |name: &str| {
        place.done(&["exec", name, "--", "make", "-s"]);
        place.workspace(name).read("dist/out.js").to_string()
    };
    place.done(&["create", "-q", "one", "-d"]);
    place.done(&["create", "-q", "old", "-d", "HEAD~1"]);
    assert_eq!(bundle("one"), repo.read("dist/out.js").to_string());
    assert!(bundle("old").contains("first") && bundle("old").contains("installed"));
    let before = fs::metadata(place.workspace("one").join("dist/out.js")).expect("built").modified();
    bundle("one");
    let after = fs::metadata(place.workspace("one").join("dist/out.js")).expect("built").modified();
    assert_eq!(before.expect("a time"), after.expect("a time"), "nothing has changed");
    place.done(&["rebase", "-q", "-d", "one", "HEAD~1"]);
    assert_eq!(bundle("one"), bundle("old"));
}

/// A workspace in a history.
struct Histories {
    project: Project,
    random: Random,
    history: Vec<String>,
    workspaces: Vec<String>,
    made: usize,
}

impl Histories {
    fn walk(seed: u64, steps: usize) {
        let tool = if seed.is_multiple_of(2) { Tool::Make } else { Tool::Ninja };
        let mut walk = Histories {
            project: Project::new(tool),
            random: Random::new(seed),
            history: vec![format!("seed {seed}, {tool:?}")],
            workspaces: Vec::new(),
            made: 0,
        };
        walk.change();
        walk.change();
        walk.project.build(None);
        for _ in 0..steps {
            walk.step();
        }
        for name in walk.workspaces.clone() {
            walk.history.push(format!("build {name}"));
            walk.project.check(Some(&name), &walk.history);
        }
    }

    fn step(&mut self) {
        let place = &self.project.place;
        let backend = ["image", "overlay", "fuse"][self.random.below(3)];
        let commit = format!("main~{}", self.random.below(3));
        let at = self.random.below(self.workspaces.len().max(1));
        let name = self.workspaces.get(at).cloned();
        match (self.random.below(8), name) {
            (0 | 1, _) => self.change(),
            (2, _) => {
                self.history.push("build in the main worktree".to_owned());
                self.project.check(None, &self.history);
            }
            (3, _) => {
                self.history.push(format!("main worktree to {commit}"));
                self.project.repo().git(&["checkout", "-q", "--detach", &commit]);
            }
            (4, name) if self.workspaces.len() < 3 => {
                let new = format!("w{}", self.made);
                self.made += 1;
                let mut args =
                    vec!["create", "-q", "-d", &new, &commit, "--backend", backend, "--with", "build"];
                let from = name.filter(|_| self.random.below(2) == 0);
                args.extend(from.iter().flat_map(|name| ["--from", name]));
                self.history.push(args.join(" "));
                place.done(&args);
                self.workspaces.push(new);
            }
            (5, Some(name)) => {
                self.history.push(format!("rebase {name} {commit}"));
                place.done(&["rebase", "-q", "-d", &name, &commit]);
            }
            (6, Some(name)) => {
                self.history.push(format!("switch {name} {commit}"));
                place.git(&name, &["switch", "-q", "--detach", &commit]);
            }
            (_, Some(name)) => {
                self.history.push(format!("build {name}"));
                self.project.check(Some(&name), &self.history);
            }
            _ => {}
        }
    }

    /// Commits a change to the branch of the main worktree.
    fn change(&mut self) {
        let repo = self.project.repo();
        repo.git(&["checkout", "-q", "main"]);
        let (number, value) = (self.random.below(4), self.random.below(100));
        let what = match self.random.below(4) {
            0 => {
                header(&repo, number, value);
                format!("header {number} = {value}")
            }
            1 => {
                let path = format!("src/u{}.c", 4 + number);
                if repo.exists(&path) {
                    repo.remove(&path);
                } else {
                    unit(&repo, 4 + number, value);
                }
                format!("'{path}' comes or goes")
            }
            _ => {
                unit(&repo, number, value);
                format!("unit {number} = {value}")
            }
        };
        self.project.commit();
        self.history.push(format!("commit: {what}"));
    }
}

#[test]
fn random_histories_build_what_a_clean_build_does() {
    let one = std::env::var("SAPWOOD_TEST_SEED").ok().map(|seed| seed.parse().expect("a number"));
    let seeds = match one {
        Some(seed) => seed..seed + 1,
        None => 0..if full() { 500 } else { 3 },
    };
    for seed in seeds {
        Histories::walk(seed, 14);
    }
}
