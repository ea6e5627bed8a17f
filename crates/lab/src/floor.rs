//! Measures the floor, a lower bound of checkout time: two threads write the same files from
//! memory, without decoding objects or writing an index.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

use crate::{Error, measure::hermetic, record::Sample};

struct File {
    path: PathBuf,
    mode: u32,
    content: Vec<u8>,
}

/// Returns the seconds it takes to write the files of `revision` below `into`. The time to read
/// them is not included.
pub(crate) fn measure(repo: &Path, revision: &str, into: &Path) -> Result<Sample, Error> {
    let me = std::env::current_exe().map_err(|error| Error::Setup(error.to_string()))?;
    let args =
        ["floor", &repo.display().to_string(), revision, &into.display().to_string()].map(str::to_owned);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let output = crate::measure::must(&me, &args, Path::new("/"))?;
    let wall = String::from_utf8_lossy(&output).trim().parse::<f64>();
    wall.map(Sample::wall_only).map_err(|error| Error::Setup(format!("floor: {error}")))
}

/// Runs `lab floor REPO REVISION DIR` and prints the seconds.
pub(crate) fn child(repo: &Path, revision: &str, into: &Path) -> Result<ExitCode, Error> {
    let directories = load(repo, revision)?;
    let groups: Vec<_> = directories.into_iter().collect();
    let next = AtomicUsize::new(0);
    let start = Instant::now();
    let results: Vec<Result<(), Error>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    while let Some((dir, files)) = groups.get(next.fetch_add(1, Ordering::Relaxed)) {
                        write_directory(&into.join(dir), into, files)?;
                    }
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("a floor worker does not panic")).collect()
    });
    let wall = start.elapsed().as_secs_f64();
    results.into_iter().collect::<Result<(), Error>>()?;
    println!("{wall:.4}");
    Ok(ExitCode::SUCCESS)
}

fn write_directory(dir: &Path, into: &Path, files: &[File]) -> Result<(), Error> {
    fs::create_dir_all(dir).map_err(|source| Error::Io {
        what: "cannot create",
        path: dir.to_owned(),
        source,
    })?;
    for file in files {
        let path = into.join(&file.path);
        let failed = |source| Error::Io { what: "cannot write", path: path.clone(), source };
        if file.mode == 0o120000 {
            let target = String::from_utf8_lossy(&file.content).into_owned();
            std::os::unix::fs::symlink(target, &path).map_err(failed)?;
            continue;
        }
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true).mode(if file.mode & 0o100 != 0 { 0o777 } else { 0o666 });
        options.open(&path).map_err(failed)?.write_all(&file.content).map_err(failed)?;
    }
    Ok(())
}

fn load(repo: &Path, revision: &str) -> Result<BTreeMap<PathBuf, Vec<File>>, Error> {
    let failed = |detail: String| Error::Command { command: "git cat-file --batch".into(), detail };
    let io = |error: std::io::Error| failed(error.to_string());
    let listing = crate::measure::must(Path::new("git"), &["ls-tree", "-rz", revision], repo)?;
    let entries: Vec<(u32, String, PathBuf)> = listing
        .split(|&byte| byte == 0)
        .filter_map(|line| {
            let text = std::str::from_utf8(line).ok()?;
            let (meta, path) = text.split_once('\t')?;
            let mut fields = meta.split(' ');
            let mode = u32::from_str_radix(fields.next()?, 8).ok()?;
            (fields.next()? == "blob").then(|| (mode, fields.next().unwrap_or("").to_owned(), path.into()))
        })
        .collect();
    let mut child = hermetic(&mut Command::new("git"))
        .args(["cat-file", "--batch"])
        .current_dir(repo)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(io)?;
    let mut stdin = child.stdin.take().expect("piped above");
    let mut stdout = BufReader::new(child.stdout.take().expect("piped above"));
    let names: Vec<u8> = entries.iter().flat_map(|(_, oid, _)| format!("{oid}\n").into_bytes()).collect();
    let feeder = std::thread::spawn(move || stdin.write_all(&names));
    let mut directories: BTreeMap<PathBuf, Vec<File>> = BTreeMap::new();
    for (mode, oid, path) in entries {
        let mut header = String::new();
        stdout.read_line(&mut header).map_err(io)?;
        let size = header.trim().rsplit(' ').next().and_then(|field| field.parse::<usize>().ok());
        let size = size.ok_or_else(|| failed(format!("{oid}: {header}")))?;
        let mut content = vec![0; size + 1];
        stdout.read_exact(&mut content).map_err(io)?;
        content.pop();
        let dir = path.parent().unwrap_or(Path::new("")).to_owned();
        directories.entry(dir).or_default().push(File { path, mode, content });
    }
    feeder.join().expect("the feeder does not panic").map_err(io)?;
    child.wait().map_err(io)?;
    Ok(directories)
}
