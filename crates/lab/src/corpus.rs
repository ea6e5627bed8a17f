//! Prepares the repositories to measure: one with packed and one with loose objects, with known
//! refs.
//!
//! `refs/heads/lab` (HEAD) is the tree for full checkouts, `refs/lab/old` an older one.
//! `refs/lab/change-N` differs from the first in N files spread over the tree.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    Error,
    measure::{hermetic, must},
};

/// A prepared repository.
pub(crate) struct Corpus {
    pub(crate) packed: PathBuf,
    pub(crate) loose: PathBuf,
}

/// The numbers of files that the small switches change.
pub(crate) const CHANGES: [usize; 3] = [10, 100, 1000];

/// Returns the directory for all files that the lab creates.
pub(crate) fn directory() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").filter(|dir| !dir.is_empty());
    target.map_or_else(|| PathBuf::from("target"), PathBuf::from).join("lab")
}

pub(crate) fn absolute(path: &Path) -> Result<PathBuf, Error> {
    fs::create_dir_all(path).and_then(|()| fs::canonicalize(path)).map_err(|source| Error::Io {
        what: "cannot create",
        path: path.to_owned(),
        source,
    })
}

/// The options that select a repository.
#[derive(clap::Args)]
pub(crate) struct RepositoryOptions {
    /// The repository to measure on; without it, the linux tree from Debian's source packages.
    #[arg(long)]
    repo: Option<PathBuf>,
    /// The older revision of --repo.
    #[arg(long, default_value = "HEAD~50")]
    old: String,
    /// The revision of --repo that is checked out in full.
    #[arg(long, default_value = "HEAD")]
    new: String,
}

impl RepositoryOptions {
    pub(crate) fn origin(&self) -> Result<Origin, Error> {
        match &self.repo {
            Some(repo) => of_repository(repo, &self.old, &self.new),
            None => linux(),
        }
    }
}

/// The repository and revisions that a corpus is prepared from.
pub(crate) struct Origin {
    source: PathBuf,
    old: String,
    new: String,
    dir: PathBuf,
}

impl Origin {
    /// Returns the name of the tree in reports.
    pub(crate) fn name(&self) -> String {
        self.dir.file_name().map_or_else(|| "root".into(), |name| name.to_string_lossy().into_owned())
    }

    /// Prepares the packed and the loose repository.
    pub(crate) fn corpus(&self) -> Result<Corpus, Error> {
        prepare(&self.source, &self.old, &self.new, &self.dir)
    }

    /// Prepares only the packed repository.
    pub(crate) fn packed(&self) -> Result<PathBuf, Error> {
        pack(&self.source, &self.old, &self.new, &self.dir)
    }
}

/// The file that marks a complete linux repository. Its name changes with the recipe, so a
/// repository from an older recipe is rebuilt.
const LINUX_COMPLETE: &str = "complete-with-upstream-ignore";

/// Returns Linux v6.1 and v6.12, from Debian's packages `linux-source-6.1` and
/// `linux-source-6.12`, with upstream's ignore rules.
pub(crate) fn linux() -> Result<Origin, Error> {
    let dir = absolute(&directory())?.join("linux");
    let source = dir.join("source.git");
    if !dir.join(LINUX_COMPLETE).exists() {
        let work = dir.join("work");
        let _ = fs::remove_dir_all(&dir);
        let work = absolute(&work)?;
        let git = |args: &[&str]| must(Path::new("git"), args, &work);
        git(&["init", "-q", "-b", "main"])?;
        for version in ["6.1", "6.12"] {
            let archive = PathBuf::from(format!("/usr/src/linux-source-{version}.tar.xz"));
            if !archive.exists() {
                return Err(Error::Setup(format!(
                    "{} is missing: install Debian's linux-source-{version}, or give --repo",
                    archive.display()
                )));
            }
            eprintln!("lab: committing linux {version}");
            git(&["rm", "-rq", "--ignore-unmatch", "."])?;
            must(Path::new("tar"), &["-xJf", &archive.display().to_string(), "--strip-components=1"], &work)?;
            restore_ignore(&work.join(".gitignore"))?;
            git(&["-c", "core.fsync=none", "add", "-A", "-f", "."])?;
            git(&["commit", "-q", "-m", &format!("Linux {version}")])?;
            git(&["tag", &format!("v{version}")])?;
        }
        eprintln!("lab: packing");
        git(&["repack", "-adfq"])?;
        git(&["clone", "-q", "--bare", ".", &source.display().to_string()])?;
        fs::remove_dir_all(&work)
            .and_then(|()| fs::write(dir.join(LINUX_COMPLETE), ""))
            .map_err(|error| Error::Io { what: "cannot finish", path: dir.clone(), source: error })?;
    }
    Ok(Origin { source, old: "v6.1".into(), new: "v6.12".into(), dir })
}

/// Rewrites Debian's ignore file with upstream's rules.
fn restore_ignore(file: &Path) -> Result<(), Error> {
    let failed = |what| move |source| Error::Io { what, path: file.to_owned(), source };
    let text = fs::read_to_string(file).map_err(failed("cannot read"))?;
    fs::write(file, upstream_ignore(&text)).map_err(failed("cannot write"))
}

/// Removes the rules that Debian adds to the ignore file of linux. They ignore the whole tree, so
/// no tool would search it for untracked files.
fn upstream_ignore(text: &str) -> String {
    let is_debians = |line: &&str| matches!(*line, "/*" | "!/debian/");
    text.lines().filter(|line| !is_debians(line)).flat_map(|line| [line, "\n"]).collect()
}

/// Returns the origin for any repository; `old` and `new` are revisions of it.
fn of_repository(repo: &Path, old: &str, new: &str) -> Result<Origin, Error> {
    let source = fs::canonicalize(repo).map_err(|error| Error::Io {
        what: "cannot open",
        path: repo.to_owned(),
        source: error,
    })?;
    let name = source.file_name().map_or_else(|| "root".into(), |name| name.to_string_lossy().into_owned());
    let dir = absolute(&directory().join(name))?;
    Ok(Origin { source, old: old.to_owned(), new: new.to_owned(), dir })
}

/// Generates a repository of `files` small files in directories. Its older commit has only some of
/// the files.
pub(crate) fn made(files: usize, dir: &Path) -> Result<Origin, Error> {
    let dir = absolute(&dir.join(format!("made-{files}")))?;
    let source = dir.join("source.git");
    if !source.exists() {
        let mut stream = String::new();
        for (mark, message, step) in [(1, "old", 4), (2, "new", 1)] {
            let head = "committer lab <lab@example.org> 1700000000 +0000";
            stream += &format!("commit refs/heads/main\nmark :{mark}\n{head}\ndata 3\n{message}\n");
            for file in (0..files).filter(|file| step == 1 || !file.is_multiple_of(step)) {
                let content = format!("{}file {file} of {message}\n", "line\n".repeat(file % 97));
                let path = format!("dir-{}/part-{}/file-{file}.txt", file % 13, file % 5);
                stream += &format!("M 100644 inline {path}\ndata {}\n{content}\n", content.len());
            }
        }
        must(Path::new("git"), &["init", "-q", "--bare", "-b", "main", "source.git"], &dir)?;
        import(&source, stream.as_bytes())?;
    }
    Ok(Origin { source, old: "main~1".into(), new: "main".into(), dir })
}

/// Generates a repository of `files` tiny files, `fullness` in each directory, to measure costs per
/// file rather than per byte.
pub(crate) fn wide(files: usize, fullness: usize, dir: &Path) -> Result<PathBuf, Error> {
    let source = dir.join(format!("wide-{files}.git"));
    if !source.exists() {
        let mut stream = String::from(
            "blob\nmark :1\ndata 5\ntext\n\ncommit refs/heads/main\ncommitter lab <lab@example.org> 1700000000 +0000\ndata 3\nall\n",
        );
        for file in 0..files {
            let leaf = file / fullness;
            stream +=
                &format!("M 100644 :1 d{}/e{}/f{}/file-{file}.txt\n", leaf / 900, leaf / 30 % 30, leaf % 30);
        }
        let at = source.display().to_string();
        must(Path::new("git"), &["init", "-q", "--bare", "-b", "main", &at], Path::new("/"))?;
        import(&source, stream.as_bytes())?;
    }
    Ok(source)
}

/// Returns the origin for the tree of [`wide`]. A tenth of its files differ in the older commit.
pub(crate) fn wide_pair(files: usize, fullness: usize, dir: &Path) -> Result<Origin, Error> {
    let source = wide(files, fullness, dir)?;
    let git = |args: &[&str]| must(Path::new("git"), args, &source);
    if git(&["rev-parse", "-q", "--verify", "refs/tags/old"]).is_err() {
        change(&source, "main", files / 10)?;
        git(&["update-ref", "refs/tags/old", &format!("refs/lab/change-{}", files / 10)])?;
    }
    let dir = absolute(&dir.join(format!("wide-{files}")))?;
    Ok(Origin { source, old: "old".into(), new: "main".into(), dir })
}

/// Returns true if the repository `what` has no stamp and must be prepared. Deletes an incomplete
/// repository first.
fn is_to_make(what: &Path, stamp: &Path) -> bool {
    if stamp.exists() {
        return false;
    }
    eprintln!("lab: preparing {}", what.display());
    let _ = fs::remove_dir_all(what);
    true
}

fn stamp(path: &Path) -> Result<(), Error> {
    fs::write(path, "").map_err(|source| Error::Io { what: "cannot write", path: path.to_owned(), source })
}

/// Prepares the packed repository.
fn pack(source: &Path, old: &str, new: &str, dir: &Path) -> Result<PathBuf, Error> {
    let packed = dir.join("packed.git");
    let done = dir.join(format!("packed-{}-{}", old.replace('/', "_"), new.replace('/', "_")));
    if !is_to_make(&packed, &done) {
        return Ok(packed);
    }
    let git = |cwd: &Path, args: &[&str]| must(Path::new("git"), args, cwd);
    let at = packed.display().to_string();
    git(source, &["clone", "-q", "--bare", "--no-local", ".", &at])?;
    let old = text(git(&packed, &["rev-parse", "--verify", &format!("{old}^{{commit}}")])?);
    let new = text(git(&packed, &["rev-parse", "--verify", &format!("{new}^{{commit}}")])?);
    git(&packed, &["update-ref", "refs/lab/old", &old])?;
    git(&packed, &["update-ref", "refs/heads/lab", &new])?;
    git(&packed, &["symbolic-ref", "HEAD", "refs/heads/lab"])?;
    for count in CHANGES {
        change(&packed, &new, count)?;
    }
    git(&packed, &["repack", "-adq"])?;
    stamp(&done)?;
    Ok(packed)
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

fn prepare(source: &Path, old: &str, new: &str, dir: &Path) -> Result<Corpus, Error> {
    let packed = pack(source, old, new, dir)?;
    let loose = dir.join("loose.git");
    let done = dir.join(format!("loose-{}-{}", old.replace('/', "_"), new.replace('/', "_")));
    if !is_to_make(&loose, &done) {
        return Ok(Corpus { packed, loose });
    }
    let git = |cwd: &Path, args: &[&str]| must(Path::new("git"), args, cwd);
    git(dir, &["init", "-q", "--bare", "loose.git"])?;
    let tree = text(git(&packed, &["rev-parse", "refs/heads/lab^{tree}"])?);
    let commit = text(git(&packed, &["commit-tree", "-m", "loose", &tree])?);
    let mut pack = hermetic(&mut Command::new("git"))
        .args(["pack-objects", "--revs", "--stdout", "-q"])
        .current_dir(&packed)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| Error::Setup(format!("git pack-objects: {error}")))?;
    let mut stdin = pack.stdin.take().expect("piped above");
    writeln!(stdin, "{commit}").map_err(|error| Error::Setup(format!("git pack-objects: {error}")))?;
    drop(stdin);
    let unpacked = hermetic(&mut Command::new("git"))
        .args(["unpack-objects", "-q"])
        .current_dir(&loose)
        .stdin(pack.stdout.take().expect("piped above"))
        .status();
    let packed_well = pack.wait();
    if !matches!((&unpacked, &packed_well), (Ok(a), Ok(b)) if a.success() && b.success()) {
        return Err(Error::Setup("git pack-objects | git unpack-objects failed".into()));
    }
    git(&loose, &["update-ref", "refs/heads/lab", &commit])?;
    git(&loose, &["symbolic-ref", "HEAD", "refs/heads/lab"])?;
    stamp(&done)?;
    Ok(Corpus { packed, loose })
}

/// Commits a change to `count` regular files, spread evenly, as `refs/lab/change-COUNT`.
pub(crate) fn change(repo: &Path, base: &str, count: usize) -> Result<(), Error> {
    let listing = must(Path::new("git"), &["ls-tree", "-rz", base], repo)?;
    let files: Vec<&[u8]> = listing
        .split(|&byte| byte == 0)
        .filter(|line| line.starts_with(b"100644 "))
        .filter_map(|line| line.iter().position(|&byte| byte == b'\t').map(|tab| &line[tab + 1..]))
        .filter(|path| !path.contains(&b'"') && !path.contains(&b'\n') && !path.ends_with(b".gitattributes"))
        .collect();
    let step = (files.len() / count).max(1);
    let mut stream = format!(
        "commit refs/lab/change-{count}\ncommitter lab <lab@example.org> 1700000000 +0000\ndata 6\nchange\nfrom {base}\n"
    )
    .into_bytes();
    let changed = || files.iter().step_by(step).take(count);
    for (path, old) in changed().zip(blobs(repo, base, changed())?) {
        stream.extend_from_slice(b"M 100644 inline ");
        stream.extend_from_slice(path);
        stream.extend_from_slice(format!("\ndata {}\n", old.len() + 7).as_bytes());
        stream.extend_from_slice(&old);
        stream.extend_from_slice(b"change\n\n");
    }
    import(repo, &stream)
}

fn import(repo: &Path, stream: &[u8]) -> Result<(), Error> {
    let mut import = hermetic(&mut Command::new("git"))
        .args(["fast-import", "--quiet", "--force"])
        .current_dir(repo)
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| Error::Setup(format!("git fast-import: {error}")))?;
    let fed = import.stdin.take().expect("piped above").write_all(stream);
    let status = import.wait();
    match (fed, status) {
        (Ok(()), Ok(status)) if status.success() => Ok(()),
        (fed, status) => Err(Error::Setup(format!("git fast-import: {fed:?} {status:?}"))),
    }
}

/// Reads the contents of files of a commit.
fn blobs<'a>(
    repo: &Path,
    commit: &str,
    paths: impl Iterator<Item = &'a &'a [u8]>,
) -> Result<Vec<Vec<u8>>, Error> {
    let failed = |error: std::io::Error| Error::Setup(format!("git cat-file --batch: {error}"));
    let mut git = hermetic(&mut Command::new("git"))
        .args(["cat-file", "--batch"])
        .current_dir(repo)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut ask = git.stdin.take().expect("piped above");
    let mut answers = BufReader::new(git.stdout.take().expect("piped above"));
    let mut blobs = Vec::new();
    for path in paths {
        ask.write_all(&[commit.as_bytes(), b":", path, b"\n"].concat()).map_err(failed)?;
        let mut header = String::new();
        answers.read_line(&mut header).map_err(failed)?;
        let length = header.split_whitespace().nth(2).and_then(|length| length.parse::<usize>().ok());
        let length = length.ok_or_else(|| Error::Setup(format!("git cat-file --batch: {header:?}")))?;
        let mut blob = vec![0; length + 1];
        answers.read_exact(&mut blob).map_err(failed)?;
        blob.pop();
        blobs.push(blob);
    }
    drop(ask);
    git.wait().map_err(failed)?;
    Ok(blobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_debians_rules_leave_the_ignore_file() {
        let debian = "*.o\n!/.gitignore\n/rust-project.json\n\n#\n# Debian\n#\n/*\n!/debian/\n";
        assert_eq!(upstream_ignore(debian), "*.o\n!/.gitignore\n/rust-project.json\n\n#\n# Debian\n#\n");
    }
}
