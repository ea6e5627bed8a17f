//! Builds in workspaces, with real build tools: none does more than in the main worktree, and none
//! keeps an object of another commit.
//!
//! `SAPWOOD_TEST_FULL=1` runs 500 random histories of commits, rebases, switches and workspaces
//! that take builds along. `SAPWOOD_TEST_SEED` runs one.

use std::{collections::HashMap, fs, process::Command, time::Duration};

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

    /// Builds in the main worktree, or in a workspace. Returns the calls of the compiler.
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
        fs::read_to_string(log).unwrap_or_default().lines().map(ToOwned::to_owned).collect()
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
        let tool = if seed % 2 == 0 { Tool::Make } else { Tool::Ninja };
        let mut walk = Histories {
            project: Project::new(tool),
            random: Random::new(seed),
            history: vec![format!("seed {seed}, {tool:?}")],
            workspaces: Vec::new(),
            made: 0,
        };
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
