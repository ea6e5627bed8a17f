//! Generated repositories of any size, with names as in large public trees.

use std::{
    fs,
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    Error,
    measure::{hermetic, must},
};

/// The directories at the top. One of them is 2% of the tree.
pub(super) const AREAS: usize = 50;
/// The files in a directory, as in linux and Chromium on average.
const FULLNESS: usize = 13;
/// The levels of directories below an area.
const LEVELS: u32 = 4;
/// The names of directories: each level of an area has all of them at most.
const NAMES: [&str; 9] = [
    "accessibility",
    "browser",
    "controller",
    "extensions",
    "internal",
    "layout",
    "platform",
    "renderer",
    "testing",
];
/// The number of different contents. Few blobs keep the repository small, so that a tree of
/// millions of files costs inodes only.
const BLOBS: usize = 256;
/// The files of the second commit that differ.
pub(super) const CHANGED: usize = 100;

/// A generated repository.
pub(super) struct Generated {
    pub(super) name: String,
    pub(super) files: usize,
    pub(super) repo: PathBuf,
}

/// Returns the path of a file.
pub(super) fn path(file: usize, files: usize) -> String {
    let area = area(file, files);
    let first = (area * files).div_ceil(AREAS);
    let mut leaf = (file - first) / FULLNESS;
    let mut path = format!("area-{area:02}");
    for _ in 0..LEVELS {
        path += "/";
        path += NAMES[leaf % NAMES.len()];
        leaf /= NAMES.len();
    }
    // More leaves than the levels have names for share directories.
    format!("{path}/session_controller_{file:07}.cc")
}

fn area(file: usize, files: usize) -> usize {
    file * AREAS / files
}

fn content(number: usize) -> String {
    format!("// Part {number}\n{}", "int value;\n".repeat(number % 7))
}

/// Makes the repository, unless it is there: `main`, and `refs/lab/change-100` with other contents.
pub(super) fn generate(files: usize, dir: &Path) -> Result<Generated, Error> {
    let name = format!("deep-{files}");
    let repo = dir.join(format!("{name}.git"));
    let result = Generated { name, files, repo };
    let complete = result.repo.join("complete");
    if complete.exists() {
        return Ok(result);
    }
    eprintln!("lab: generating {files} files");
    let _ = fs::remove_dir_all(&result.repo);
    let at = result.repo.display().to_string();
    must(Path::new("git"), &["init", "-q", "--bare", "-b", "main", &at], Path::new("/"))?;
    let failed = |what| {
        let path = result.repo.clone();
        move |source| Error::Io { what, path, source }
    };
    let mut child = hermetic(&mut Command::new("git"))
        .args(["-c", "fastimport.unpackLimit=1", "-c", "core.fsync=none", "fast-import", "--quiet"])
        .current_dir(&result.repo)
        .stdin(Stdio::piped())
        .spawn()
        .map_err(failed("cannot start git fast-import in"))?;
    let mut input = BufWriter::new(child.stdin.take().expect("it was asked for"));
    let fed = feed(files, &mut input).and_then(|()| input.flush());
    drop(input);
    let ended = child.wait().map_err(failed("cannot wait for git fast-import in"))?;
    fed.map_err(failed("cannot feed git fast-import in"))?;
    if !ended.success() {
        return Err(Error::Setup(format!("git fast-import failed in {}", result.repo.display())));
    }
    fs::write(&complete, "").map_err(failed("cannot finish"))?;
    Ok(result)
}

fn feed(files: usize, to: &mut impl std::io::Write) -> std::io::Result<()> {
    let head = "committer lab <lab@example.org> 1700000000 +0000\ndata 3\nall\n";
    for number in 0..BLOBS {
        let text = content(number);
        write!(to, "blob\nmark :{}\ndata {}\n{text}\n", number + 1, text.len())?;
    }
    write!(to, "commit refs/heads/main\nmark :{}\n{head}", BLOBS + 1)?;
    for file in 0..files {
        writeln!(to, "M 100644 :{} {}", file % BLOBS + 1, path(file, files))?;
    }
    write!(to, "\ncommit refs/lab/change-{CHANGED}\n{head}from :{}\n", BLOBS + 1)?;
    for file in spread(CHANGED, files) {
        writeln!(to, "M 100644 :{} {}", (file + 1) % BLOBS + 1, path(file, files))?;
    }
    writeln!(to)
}

/// Returns the numbers of `count` files, or of all if there are fewer, spread over the tree.
pub(super) fn spread(count: usize, files: usize) -> impl Iterator<Item = usize> {
    let step = (files / count).max(1);
    (0..files).step_by(step).take(count)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[test]
    fn names_are_deep_and_an_area_is_two_percent() {
        let files = 20_000;
        let paths: BTreeSet<String> = (0..files).map(|file| path(file, files)).collect();
        assert_eq!(paths.len(), files);
        let mut areas: BTreeMap<&str, usize> = BTreeMap::new();
        let mut directories: BTreeMap<&str, usize> = BTreeMap::new();
        for path in &paths {
            let (area, _) = path.split_once('/').expect("a directory");
            *areas.entry(area).or_default() += 1;
            let (directory, _) = path.rsplit_once('/').expect("a directory");
            *directories.entry(directory).or_default() += 1;
            assert_eq!(path.matches('/').count(), 5, "{path}");
            assert!((50..100).contains(&path.len()), "{path}");
        }
        assert_eq!(areas.len(), AREAS);
        assert!(areas.values().all(|&count| count == files / AREAS), "{areas:?}");
        assert!(directories.values().all(|&count| count <= FULLNESS), "{directories:?}");
    }

    #[test]
    fn few_files_are_possible() {
        let paths: BTreeSet<String> = (0..60).map(|file| path(file, 60)).collect();
        assert_eq!(paths.len(), 60);
        assert_eq!(spread(100, 60).count(), 60);
        assert_eq!(spread(10, 60).count(), 10);
    }
}
