//! Installs a client: its program, the dependencies of its suite, and the suite itself.
//!
//! Each client has a directory of its own, which is kept between runs and rebuilt when the pins
//! change.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::{
    Error,
    roster::{Client, Registry, Suite},
};

/// Pins of the Python packages that the clients depend on.
const CONSTRAINTS: &str = include_str!("constraints.txt");

/// npm ignores versions that were published later. There is no other way to pin the dependencies of
/// packages.
const NPM_BEFORE: &str = "2026-11-20";

/// The directories of clients.
pub(crate) struct Place {
    /// Contains a directory for each client.
    pub(crate) installed: PathBuf,
    /// Contains the suites that are not in a registry.
    pub(crate) checkouts: Option<PathBuf>,
}

/// An installed client.
pub(crate) struct Installed {
    /// Its directory, which also receives the output of its runs.
    pub(crate) dir: PathBuf,
    /// The directory of its programs.
    pub(crate) bin: PathBuf,
    /// The suite; it is copied before each run.
    pub(crate) suite: PathBuf,
    /// The directory in which Node looks up modules.
    pub(crate) modules: Option<PathBuf>,
}

/// Installs `client`, unless it is installed already.
pub(crate) fn install(client: &'static Client, place: &Place) -> Result<Installed, Error> {
    let dir = place.installed.join(client.name);
    let suite = match (client.suite, &place.checkouts) {
        (Suite::Checkout { .. }, Some(checkouts)) => {
            let suite = checkouts.join(client.name);
            suite.canonicalize().map_err(|source| Error::io("find", &suite, source))?
        }
        _ => dir.join("suite"),
    };
    let (bin, modules) = match client.registry {
        Registry::PyPI => (dir.join("venv/bin"), None),
        Registry::Npm => (dir.join("node_modules/.bin"), Some(dir.join("node_modules"))),
    };
    let installed = Installed { dir: dir.clone(), bin, suite, modules };
    // The recipe includes the path of the directory, because scripts of a venv contain it.
    let recipe = format!("{}\n{client:?}\n{CONSTRAINTS}{NPM_BEFORE}\n", dir.display());
    let stamp = dir.join("recipe");
    if fs::read_to_string(&stamp).is_ok_and(|was| was == recipe) {
        return Ok(installed);
    }
    match fs::remove_dir_all(&dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Error::io("remove", &dir, error));
        }
        _ => {}
    }
    fs::create_dir_all(&dir).map_err(|source| Error::io("create", &dir, source))?;
    match client.registry {
        Registry::PyPI => python(client, &dir)?,
        Registry::Npm => npm(client, &dir)?,
    }
    if let Suite::Driver { file, text } = client.suite {
        let to = dir.join("suite");
        fs::create_dir_all(&to).map_err(|source| Error::io("create", &to, source))?;
        write(&to.join(file), text)?;
    }
    write(&stamp, &recipe)?;
    Ok(installed)
}

fn python(client: &'static Client, dir: &Path) -> Result<(), Error> {
    let run = |program: &Path, args: &[&str]| call(client, program, args, dir);
    run(Path::new("python3"), &["-m", "venv", "venv"])?;
    write(&dir.join("constraints.txt"), CONSTRAINTS)?;
    let pip = dir.join("venv/bin/pip");
    let pin = format!("{}=={}", client.package, client.version);
    let mut install = vec!["install", "--quiet", "--constraint", "constraints.txt", &pin];
    install.extend(client.with);
    run(&pip, &install)?;
    if client.suite == Suite::Published {
        let source =
            ["download", "--quiet", "--no-deps", "--no-binary", client.package, &pin, "--dest", "sdist"];
        run(&pip, &source)?;
        let sdist = fs::read_dir(dir.join("sdist")).and_then(|mut entries| entries.next().transpose());
        let sdist = sdist.ok().flatten().map(|entry| entry.path()).unwrap_or_default();
        unpack(client, &sdist, dir)?;
    }
    Ok(())
}

fn npm(client: &'static Client, dir: &Path) -> Result<(), Error> {
    let run = |args: &[&str]| call(client, Path::new("npm"), args, dir);
    write(&dir.join("package.json"), "{\"private\": true}\n")?;
    let pin = format!("{}@{}", client.package, client.version);
    let mut install = vec!["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"];
    let before = format!("--before={NPM_BEFORE}");
    install.extend([before.as_str(), &pin]);
    install.extend(client.with);
    run(&install)?;
    if client.suite == Suite::Published {
        run(&["pack", "--silent", &pin])?;
        let name = client.package.trim_start_matches('@').replace('/', "-");
        unpack(client, &dir.join(format!("{name}-{}.tgz", client.version)), dir)?;
    }
    Ok(())
}

/// Unpacks an archive whose files are all in one directory.
fn unpack(client: &'static Client, archive: &Path, dir: &Path) -> Result<(), Error> {
    let suite = dir.join("suite");
    fs::create_dir_all(&suite).map_err(|source| Error::io("create", &suite, source))?;
    let archive = archive.to_string_lossy();
    call(client, Path::new("tar"), &["-xzf", &archive, "--strip-components=1", "-C", "suite"], dir)
}

fn call(client: &'static Client, program: &Path, args: &[&str], dir: &Path) -> Result<(), Error> {
    let output = Command::new(program)
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .map_err(|source| Error::io("run", program, source))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let command = format!("{} {}", program.display(), args.join(" "));
    Err(Error::Install { client: client.name, command, said: String::from_utf8_lossy(&said).into_owned() })
}

fn write(file: &Path, text: &str) -> Result<(), Error> {
    fs::write(file, text).map_err(|source| Error::io("write", file, source))
}
