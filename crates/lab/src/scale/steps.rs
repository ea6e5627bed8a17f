//! The steps of `lab scale`.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use super::tree::{self, CHANGED, Generated};
use crate::{
    Error,
    measure::{self, Invocation, must},
    record::Sample,
};

/// A step, and the cases that a run of it adds a sample to.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) cases: &'static [&'static str],
    /// Git runs the step once: it takes minutes at 3.5 million files.
    pub(super) once: bool,
    /// Runs the step with the tool of this number, and returns a sample for each case.
    pub(super) take: fn(&Place<'_>, usize, usize) -> Result<Vec<Sample>, Error>,
}

/// Commits come after switches, so that these change exactly [`CHANGED`] files.
pub(super) const STEPS: [Step; 6] = [
    Step { name: "status", cases: &["status"], once: false, take: status },
    Step { name: "switch", cases: &["switch-100"], once: false, take: switch },
    Step { name: "record", cases: &["add-10", "commit-10"], once: false, take: record },
    // Before anything is removed: ext4 creates files slowly after that.
    Step { name: "sparse", cases: &["sparse"], once: true, take: sparse },
    Step { name: "first workspace", cases: &["workspace-first"], once: false, take: first },
    Step { name: "workspace", cases: &WORKSPACE, once: true, take: workspace },
];

/// The cases of a new workspace.
const WORKSPACE: [&str; 5] =
    ["workspace", "workspace-status", "workspace-add-10", "workspace-commit-10", "workspace-switch-100"];

/// The worktree of one size.
pub(super) struct Place<'a> {
    programs: [&'a Path; 2],
    generated: &'a Generated,
    dir: PathBuf,
}

const SAPWOOD: usize = 1;
/// The files of `add` and `commit`.
const EDITED: usize = 10;

impl<'a> Place<'a> {
    /// Makes the worktree. The time of this is not measured.
    pub(super) fn new(
        generated: &'a Generated,
        programs: [&'a Path; 2],
        dir: &Path,
    ) -> Result<Place<'a>, Error> {
        let place = Place { programs, generated, dir: dir.to_owned() };
        place.clone("tree")?;
        let tree = place.tree();
        place.git(&["-c", "checkout.workers=0", "checkout", "-q", "--detach", "main"], &tree)?;
        let changed = format!("refs/lab/change-{CHANGED}:refs/lab/changed");
        place.git(&["fetch", "-q", "origin", &changed], &tree)?;
        place.git(&["update-ref", "refs/lab/main", "HEAD"], &tree)?;
        place.git(&["status", "--porcelain"], &tree)?;
        Ok(place)
    }

    /// Clones the generated repository without files.
    fn clone(&self, name: &str) -> Result<PathBuf, Error> {
        let from = self.generated.repo.display().to_string();
        self.git(&["clone", "-q", "--shared", "--no-checkout", "-b", "main", &from, name], &self.dir)?;
        let at = self.dir.join(name);
        for (key, value) in
            [("gc.auto", "0"), ("maintenance.auto", "false"), ("advice.detachedHead", "false")]
        {
            self.git(&["config", key, value], &at)?;
        }
        Ok(at)
    }

    fn git(&self, args: &[&str], at: &Path) -> Result<(), Error> {
        must(self.programs[0], args, at).map(drop)
    }

    fn tree(&self) -> PathBuf {
        self.dir.join("tree")
    }

    fn run(&self, tool: usize, args: &[&str], at: &Path) -> Result<Sample, Error> {
        self.measure(self.programs[tool], args, at)
    }

    fn measure(&self, program: &Path, args: &[&str], at: &Path) -> Result<Sample, Error> {
        let mut invocation = Invocation::new(program, args, at);
        invocation.own_memory = true;
        measure::run(&invocation).map(Sample::from)
    }

    /// Appends a line to ten files below `top`, and returns their paths.
    fn edit(&self, top: &Path, line: &str) -> Result<Vec<String>, Error> {
        let files = self.generated.files;
        let paths: Vec<String> = tree::spread(EDITED, files).map(|file| tree::path(file, files)).collect();
        for path in &paths {
            let path = top.join(path);
            let opened = fs::OpenOptions::new().append(true).open(&path);
            opened.and_then(|mut file| writeln!(file, "{line}")).map_err(|source| Error::Io {
                what: "cannot edit",
                path,
                source,
            })?;
        }
        Ok(paths)
    }

    /// Creates a worktree of HEAD, named after the tool. Returns its directory and the sample.
    fn create(&self, tool: usize, name: &str) -> Result<(PathBuf, Sample), Error> {
        let dir = self.dir.join(name);
        let to = dir.display().to_string();
        let args: &[&str] = match tool {
            SAPWOOD => &["workspace", "create", name, "--detach", "--dir", &to],
            _ => &["-c", "checkout.workers=0", "worktree", "add", "-q", "--detach", &to],
        };
        let sample = self.run(tool, args, &self.tree())?;
        Ok((dir, sample))
    }

    /// Removes what `create` made.
    fn remove(&self, tool: usize, name: &str) -> Result<(), Error> {
        let dir = self.dir.join(name).display().to_string();
        let args: &[&str] = match tool {
            SAPWOOD => &["workspace", "remove", "--force", name],
            _ => &["worktree", "remove", "--force", &dir],
        };
        must(self.programs[tool], args, &self.tree()).map(drop)
    }

    /// Removes the bases that no workspace uses. They may be mounted.
    pub(super) fn finish(&self) {
        let _ = must(self.programs[SAPWOOD], &["workspace", "base", "gc"], &self.tree());
    }
}

fn status(place: &Place<'_>, tool: usize, _: usize) -> Result<Vec<Sample>, Error> {
    Ok(vec![place.run(tool, &["--no-optional-locks", "status", "--porcelain"], &place.tree())?])
}

/// Switches to the other commit and back. The sample is the way there in half of the runs.
fn switch(place: &Place<'_>, tool: usize, run: usize) -> Result<Vec<Sample>, Error> {
    let to = |name: &str| place.run(tool, &["switch", "-q", "--detach", name], &place.tree());
    let (there, back) = (to("refs/lab/changed")?, to("refs/lab/main")?);
    Ok(vec![if run.is_multiple_of(2) { there } else { back }])
}

fn record(place: &Place<'_>, tool: usize, run: usize) -> Result<Vec<Sample>, Error> {
    record_in(place, tool, run, &place.tree())
}

/// Edits, adds and commits ten files below `top`.
fn record_in(place: &Place<'_>, tool: usize, run: usize, top: &Path) -> Result<Vec<Sample>, Error> {
    let paths = place.edit(top, &format!("// edit {run} by {tool}"))?;
    let mut words = vec!["add"];
    words.extend(paths.iter().map(String::as_str));
    let add = place.run(tool, &words, top)?;
    let commit = place.run(tool, &["commit", "-q", "-m", "Edit ten files"], top)?;
    Ok(vec![add, commit])
}

/// Creates the first workspace of a commit, which makes a base of all files. Git's worktrees have
/// no base.
fn first(place: &Place<'_>, tool: usize, run: usize) -> Result<Vec<Sample>, Error> {
    if tool != SAPWOOD || run > 0 {
        return Ok(Vec::new());
    }
    let name = format!("first-{tool}");
    let (_, sample) = place.create(tool, &name)?;
    place.remove(tool, &name)?;
    Ok(vec![sample])
}

fn workspace(place: &Place<'_>, tool: usize, run: usize) -> Result<Vec<Sample>, Error> {
    let name = format!("next-{tool}");
    let (dir, created) = place.create(tool, &name)?;
    let samples = in_workspace(place, tool, run, &dir);
    place.remove(tool, &name)?;
    Ok([vec![created], samples?].concat())
}

fn in_workspace(place: &Place<'_>, tool: usize, run: usize, dir: &Path) -> Result<Vec<Sample>, Error> {
    let status = place.run(tool, &["status", "--porcelain"], dir)?;
    let recorded = record_in(place, tool, run, dir)?;
    let switch = place.run(tool, &["switch", "-q", "--detach", "refs/lab/changed"], dir)?;
    Ok([vec![status], recorded, vec![switch]].concat())
}

/// Checks out one of the directories at the top, which is 2% of the tree.
fn sparse(place: &Place<'_>, tool: usize, run: usize) -> Result<Vec<Sample>, Error> {
    let at = place.clone(&format!("sparse-{tool}-{run}"))?;
    let area = format!("area-{:02}", tree::AREAS / 2);
    let script = format!(
        "'{program}' sparse-checkout set {area} && '{program}' checkout -q main",
        program = place.programs[tool].display()
    );
    let sample = place.measure(Path::new("sh"), &["-c", &script], &at)?;
    if !at.join(&area).is_dir() || at.join("area-00").exists() {
        return Err(Error::Setup(format!("{}: the sparse checkout is not {area}", at.display())));
    }
    Ok(vec![sample])
}
