//! The repositories on the server, and those into which it is fetched.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    Error, corpus,
    measure::{hermetic, must},
    weather::trees::Tree,
};

pub(crate) const TREE: &str = "tree.git";
pub(crate) const SUPER: &str = "super.git";
pub(crate) const HISTORY: &str = "history.git";
pub(crate) const REFS: &str = "refs.git";
pub(crate) const HISTORY_CLIENT: &str = "history-client";
pub(crate) const REFS_CLIENT: &str = "refs-client";

/// The number of submodules that are fetched at once.
pub(crate) const JOBS: usize = 8;

const SUBMODULES: usize = 40;
/// The files of a submodule, and the commits.
const FILES: usize = 100;
const VERSIONS: usize = 20;

const COMMITS: usize = 1000;
const STEPS: [usize; 2] = [10, COMMITS];
const REFS_COUNT: usize = 50_000;

/// Prepared repositories, below one directory.
pub(crate) struct Source {
    pub(crate) root: PathBuf,
    /// The number of refs of [`REFS`].
    refs: usize,
}

impl Source {
    /// Returns the branch that is `commits` ahead of the client.
    pub(crate) fn branch(commits: usize) -> String {
        format!("plus-{commits}")
    }

    /// Prepares a bare repository with the tree's history. `few_refs` makes the large
    /// repository small.
    pub(crate) fn of(tree: &Tree, few_refs: bool) -> Result<Source, Error> {
        let root = corpus::absolute(&corpus::directory().join("clone").join(&tree.name))?;
        let source = Source { root, refs: if few_refs { 500 } else { REFS_COUNT } };
        source.make(TREE, &tree.packed.display().to_string(), |at| {
            let from = tree.packed.display().to_string();
            bare_clone(&from, at)
        })?;
        Ok(source)
    }

    /// Prepares what a case needs beyond the tree.
    pub(crate) fn prepare(&self, repo: &str) -> Result<(), Error> {
        let tree = self.root.join(TREE).display().to_string();
        match repo {
            SUPER => self.make(SUPER, "40 submodules", |at| submodules(&self.root, at))?,
            HISTORY => {
                self.make(HISTORY, &tree, |at| {
                    bare_clone(&tree, at)?;
                    history(at)
                })?;
                self.make(HISTORY_CLIENT, "base", |at| {
                    let from = format!("file://{}", self.root.join(HISTORY).display());
                    let at = at.display().to_string();
                    git(&self.root, &["clone", "-qn", "--single-branch", "-b", "base", &from, &at])
                })?;
            }
            REFS => {
                let content = self.refs.to_string();
                self.make(REFS, &content, |at| {
                    bare_clone(&tree, at)?;
                    many_refs(at, self.refs)
                })?;
                self.make(REFS_CLIENT, &content, |at| {
                    let from = format!("file://{}", self.root.join(REFS).display());
                    git(&self.root, &["clone", "-qn", &from, &at.display().to_string()])
                })?;
            }
            _ => {}
        }
        crate::rig::warm(&self.root.join(repo))
    }

    /// Makes the repository `name` unless it is there with this content.
    fn make(
        &self,
        name: &str,
        content: &str,
        make: impl FnOnce(&Path) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (at, stamp) = (self.root.join(name), self.root.join(format!("{name}.complete")));
        if fs::read(&stamp).is_ok_and(|there| there == content.as_bytes()) {
            return Ok(());
        }
        eprintln!("lab: preparing {}", at.display());
        let _ = fs::remove_file(&stamp);
        let _ = fs::remove_dir_all(&at);
        make(&at)?;
        fs::write(&stamp, content).map_err(|source| Error::Io { what: "cannot write", path: stamp, source })
    }
}

fn git(cwd: &Path, args: &[&str]) -> Result<(), Error> {
    must(Path::new("git"), args, cwd).map(drop)
}

/// Clones a repository into one pack with a bitmap, as a server has it.
fn bare_clone(from: &str, at: &Path) -> Result<(), Error> {
    git(Path::new("/"), &["clone", "-q", "--bare", "--no-local", from, &at.display().to_string()])?;
    for key in ["uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"] {
        git(at, &["config", key, "true"])?;
    }
    git(at, &["repack", "-adqb"])
}

/// Adds [`COMMITS`] commits to HEAD. Each changes a file of its own and one that all change.
fn history(at: &Path) -> Result<(), Error> {
    let head = must(Path::new("git"), &["rev-parse", "HEAD"], at)?;
    let head = String::from_utf8_lossy(&head).trim().to_owned();
    let mut stream = String::new();
    for number in 1..=COMMITS {
        let from = if number == 1 { format!("from {head}\n") } else { String::new() };
        let own = format!("{}commit {number}\n", "line\n".repeat(number % 97));
        stream += &format!(
            "commit refs/heads/lab-new\ncommitter lab <lab@example.org> {} +0000\ndata 3\nnew\n{from}",
            1_900_000_000 + number
        );
        stream += &format!("M 100644 inline lab/{}/{number}\ndata {}\n{own}\n", number % 7, own.len());
        let text = number.to_string();
        stream += &format!("M 100644 inline lab/number\ndata {}\n{text}\n", text.len());
    }
    import(at, &stream)?;
    git(at, &["update-ref", "refs/heads/base", &head])?;
    for step in STEPS {
        let back = format!("refs/heads/lab-new~{}", COMMITS - step);
        git(at, &["update-ref", &format!("refs/heads/{}", Source::branch(step)), &back])?;
    }
    git(at, &["update-ref", "-d", "refs/heads/lab-new"])?;
    git(at, &["repack", "-adqb"])
}

fn many_refs(at: &Path, count: usize) -> Result<(), Error> {
    let commits = must(Path::new("git"), &["rev-list", "--all"], at)?;
    let text = String::from_utf8_lossy(&commits);
    let commits: Vec<&str> = text.lines().collect();
    let lines = (0..count).map(|number| {
        format!("create refs/heads/many/branch-{number:05} {}\n", commits[number * 7 % commits.len()])
    });
    fed(at, &["-c", "core.fsync=none", "update-ref", "--stdin"], &lines.collect::<String>())?;
    git(at, &["pack-refs", "--all"])
}

/// Makes the repositories of the submodules beside `at`, and the repository with all of them.
fn submodules(root: &Path, at: &Path) -> Result<(), Error> {
    let committer = "committer lab <lab@example.org> 1700000000 +0000";
    let (mut modules, mut links) = (String::new(), String::new());
    for module in 0..SUBMODULES {
        let name = format!("sub-{module:02}.git");
        let sub = root.join(&name);
        let _ = fs::remove_dir_all(&sub);
        init(&sub)?;
        let mut stream = String::new();
        for version in 0..VERSIONS {
            stream += &format!("commit refs/heads/main\n{committer}\ndata 4\nall\n\n");
            for file in (0..FILES).filter(|file| version == 0 || file % VERSIONS == version) {
                let line = format!("line {module} {file} {version}\n").repeat(20 + file);
                stream += &format!("M 100644 inline d{}/f{file}\ndata {}\n{line}\n", file % 9, line.len());
            }
        }
        import(&sub, &stream)?;
        git(&sub, &["repack", "-adqb"])?;
        let tip = must(Path::new("git"), &["rev-parse", "main"], &sub)?;
        modules += &format!("[submodule \"s{module:02}\"]\n\tpath = m/s{module:02}\n\turl = ../{name}\n");
        links += &format!("M 160000 {} m/s{module:02}\n", String::from_utf8_lossy(&tip).trim());
    }
    init(at)?;
    let head = format!("commit refs/heads/main\n{committer}\ndata 4\nall\n\n");
    import(at, &format!("{head}M 100644 inline .gitmodules\ndata {}\n{modules}\n{links}", modules.len()))
}

fn init(at: &Path) -> Result<(), Error> {
    git(Path::new("/"), &["init", "-q", "--bare", "-b", "main", &at.display().to_string()])
}

fn import(at: &Path, stream: &str) -> Result<(), Error> {
    fed(at, &["fast-import", "--quiet", "--force"], stream)
}

/// Runs Git with this standard input.
fn fed(at: &Path, args: &[&str], input: &str) -> Result<(), Error> {
    let failed = |detail: String| Error::Command { command: format!("git {}", args.join(" ")), detail };
    let mut command = hermetic(&mut Command::new("git"))
        .args(args)
        .current_dir(at)
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let written = command.stdin.take().expect("piped above").write_all(input.as_bytes());
    let status = command.wait().map_err(|error| failed(error.to_string()))?;
    match written {
        Ok(()) if status.success() => Ok(()),
        _ => Err(failed(format!("{written:?}, {status}"))),
    }
}
