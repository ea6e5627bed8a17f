//! `lab measure`: every table that README and docs name, for one build on one quiet machine.
//!
//! Each table is a call of the lab in a process of its own, with a share of the time, which begins
//! with the first run. After two thirds of its share a table begins no further run, and writes its
//! record. At the end of its share it is killed. The calls have a process and a mount namespace
//! each, so a killed one leaves no process and no mount behind.
//!
//! The records go to the build directory. They replace those in docs only if each table has one and
//! the page can be drawn.

mod tables;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

use self::tables::{Share, TABLES, Table, Tree};
use crate::{
    Error, build, corpus, load,
    programs::{self, ProgramOptions},
    record::Record,
    report,
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// 15 minutes in place of 80: fewer runs, cases and tables.
    #[arg(long)]
    quick: bool,
    /// Measure on a busy machine, in a changed tree, or a program of another commit.
    #[arg(long)]
    anyway: bool,
    /// Only these tables, by the names of their records. They do not replace the records in docs.
    #[arg(long = "table")]
    tables: Vec<String>,
    /// The minutes for all tables.
    #[arg(long)]
    minutes: Option<f64>,
    /// A repository in place of linux.
    #[arg(long)]
    tree: Option<PathBuf>,
    /// The older revision of --tree.
    #[arg(long, default_value = "HEAD~50")]
    old: String,
    /// The repository or bundle for slow disks; by default a generated one of 2,000 files.
    #[arg(long)]
    slow_tree: Option<PathBuf>,
    /// Seconds to wait until the machine is quiet.
    #[arg(long, default_value_t = 60)]
    patience: u64,
    /// The directory whose records and page are replaced.
    #[arg(long, default_value = "docs")]
    docs: PathBuf,
    /// The sources of the measured program.
    #[arg(long, hide = true, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))]
    sources: PathBuf,
    #[command(flatten)]
    programs: ProgramOptions,
}

/// How a table ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Complete,
    /// The record holds the runs before the end of the time.
    Shortened,
    /// No record, and the reason.
    Missing(String),
}

/// The time in which the machine is watched, and the part of a share in which runs begin.
const WATCH: Duration = Duration::from_secs(3);
const BEGINS: f64 = 2.0 / 3.0;
/// The longest time in which a table prepares its trees. They stay for the next measurement.
const PREPARATION: Duration = Duration::from_secs(20 * 60);
/// The generated tree for slow disks: its files, and those in a directory.
const SLOW_FILES: usize = 2000;
const FULLNESS: usize = 17;

struct Suite<'a> {
    args: &'a Args,
    sapwood: PathBuf,
    slow: PathBuf,
    records: PathBuf,
    /// Multiplies the share of each table.
    scale: f64,
    /// A call can have namespaces of its own.
    is_apart: bool,
}

/// The program and options that start a call in namespaces of its own, which end with it.
const APART: [&str; 6] = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];

pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    let tables = chosen(args)?;
    let programs = args.programs.find()?;
    permitted(args, &programs.sapwood)?;
    let home = corpus::absolute(&corpus::directory().join("measured"))?;
    let records = home.join("measurements");
    let _ = fs::remove_dir_all(&records);
    corpus::absolute(&records)?;
    if args.tree.is_none() && tables.iter().any(|(table, _)| matches!(table.tree, Tree::Repo | Tree::Named)) {
        corpus::linux()?.corpus()?;
    }
    let slow = match &args.slow_tree {
        Some(tree) => tree.clone(),
        None if tables.iter().all(|(table, _)| table.tree != Tree::Slow) => PathBuf::new(),
        None => {
            let dir = corpus::absolute(&corpus::directory().join("made"))?;
            corpus::wide(SLOW_FILES, FULLNESS, &dir)?
        }
    };
    let all: u64 = tables.iter().map(|(_, share)| share.seconds).sum();
    let scale = args.minutes.map_or(1.0, |minutes| minutes * 60.0 / all as f64);
    let is_apart = is_apart();
    let suite = Suite { args, sapwood: programs.sapwood, slow, records: records.clone(), scale, is_apart };
    let mut ends = Vec::new();
    for (table, share) in &tables {
        let end = suite.table(table, share)?;
        println!("{}", said(table.name, &end));
        ends.push((table.name, end));
    }
    println!("\n{} in all:", records.display());
    ends.iter().for_each(|(name, end)| println!("  {}", said(name, end)));
    let is_whole = args.tables.is_empty() && ends.iter().all(|(_, end)| !matches!(end, End::Missing(_)));
    if !args.tables.is_empty() {
        println!("A choice of tables replaces no records in {}.", args.docs.display());
    } else if is_whole {
        report::write(&home)?;
        publish(&home, &args.docs)?;
    } else {
        println!("The records in {} stay: tables are missing.", args.docs.display());
    }
    let is_missing = ends.iter().any(|(_, end)| matches!(end, End::Missing(_)));
    Ok(if is_missing { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Returns the tables that were asked for, with their shares.
fn chosen(args: &Args) -> Result<Vec<(&'static Table, &'static Share)>, Error> {
    if let Some(name) = args.tables.iter().find(|name| TABLES.iter().all(|table| table.name != **name)) {
        let names: Vec<&str> = TABLES.iter().map(|table| table.name).collect();
        return Err(Error::Setup(format!("no table is called `{name}`: {}", names.join(", "))));
    }
    let is_asked =
        |table: &&Table| args.tables.is_empty() || args.tables.iter().any(|name| name == table.name);
    let asked = TABLES.iter().filter(is_asked);
    Ok(asked.filter_map(|table| Some((table, table.share(args.quick)?))).collect())
}

/// Refuses a program without a commit, and, unless `--anyway` is given, one of another tree and a
/// busy machine.
fn permitted(args: &Args, sapwood: &Path) -> Result<(), Error> {
    let version = programs::said_version(sapwood)?;
    let commit = build::measurable(&version)
        .map_err(|reason| Error::Setup(format!("{} is not measured: {reason}", sapwood.display())))?;
    if args.anyway {
        return Ok(());
    }
    let refused = |reason: String| Err(Error::Setup(format!("{reason}; --anyway measures in spite of this")));
    if let Some(reason) = build::objection(&args.sources, commit)? {
        return refused(reason);
    }
    let end = Instant::now() + Duration::from_secs(args.patience);
    while let Some(reason) = load::objection(WATCH) {
        if Instant::now() >= end {
            return refused(format!("the machine is busy: {reason}"));
        }
    }
    Ok(())
}

fn is_apart() -> bool {
    let mut probe = Command::new(APART[0]);
    let probe = probe.args(&APART[1..]).arg("true").stderr(Stdio::null()).status();
    probe.is_ok_and(|status| status.success())
}

fn said(name: &str, end: &End) -> String {
    match end {
        End::Complete => format!("{name}: complete"),
        End::Shortened => format!("{name}: its time was over before all runs were made"),
        End::Missing(reason) => format!("{name}: no record: {reason}"),
    }
}

impl Suite<'_> {
    /// Measures one table.
    fn table(&self, table: &Table, share: &Share) -> Result<End, Error> {
        let seconds = share.seconds as f64 * self.scale;
        let record = self.records.join(format!("{}.json", table.name));
        println!("\n{}: at most {seconds:.0} s", table.name);
        let started = self.command(table, share, seconds, &record).spawn();
        let mut child = started.map_err(|error| Error::Setup(format!("{}: {error}", table.name)))?;
        let begun = self.begun(&record);
        let code = ended(&mut child, &begun, Duration::from_secs_f64(seconds))
            .map_err(|error| Error::Setup(format!("{}: {error}", table.name)))?;
        let _ = fs::remove_file(&begun);
        if !record.exists() {
            return Ok(End::Missing(match code {
                None => format!("it was ended after {seconds:.0} s"),
                Some(code) => format!("it failed with exit code {code}"),
            }));
        }
        // A record that cannot be read is an error of the lab, not of the table.
        let record = Record::read(&record)?;
        Ok(if code.is_none() || record.is_shortened() { End::Shortened } else { End::Complete })
    }

    /// Returns the path of the file that exists once the first run of a table began.
    fn begun(&self, record: &Path) -> PathBuf {
        record.with_extension("begun")
    }

    fn command(&self, table: &Table, share: &Share, seconds: f64, record: &Path) -> Command {
        let me = std::env::current_exe().unwrap_or_else(|_| "lab".into());
        let mut command = if self.is_apart {
            let mut command = Command::new(APART[0]);
            command.args(&APART[1..]).arg(me);
            command
        } else {
            Command::new(me)
        };
        command.args(share.args.split(' '));
        command.arg("--within").arg(format!("{:.0}", (seconds * BEGINS).floor()));
        command.arg("--begun").arg(self.begun(record));
        command.arg("--record").arg(record).arg("--sapwood").arg(&self.sapwood);
        let quick = if self.args.quick { " --quick" } else { "" };
        command.arg("--note").arg(format!("`just measure{quick}` made this record."));
        let named = match table.tree {
            Tree::Slow => Some(self.slow.as_path()),
            _ => self.args.tree.as_deref(),
        };
        let git = &self.args.programs.pair.git;
        command.args(table.options(share, named, &self.args.old, [git, &self.args.programs.gix]));
        command.stdin(Stdio::null());
        command
    }
}

/// Waits for the end of a process, and kills it this long after the file `begun` appeared, or after
/// [`PREPARATION`]. Returns its exit code, or `None` if it was killed.
fn ended(child: &mut Child, begun: &Path, time: Duration) -> std::io::Result<Option<i32>> {
    let start = Instant::now();
    let mut end = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.code().unwrap_or(-1)));
        }
        if end.is_none() && begun.exists() {
            end = Some(Instant::now() + time);
        }
        if Instant::now() >= end.unwrap_or(start + PREPARATION) {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// Replaces the records, charts and page in `docs` by those in `home`.
fn publish(home: &Path, docs: &Path) -> Result<(), Error> {
    let failed = |what, path: &Path| {
        let path = path.to_owned();
        move |source| Error::Io { what, path, source }
    };
    let target = corpus::absolute(&docs.join("measurements"))?;
    for entry in fs::read_dir(&target).map_err(failed("cannot list", &target))? {
        let path = entry.map_err(failed("cannot list", &target))?.path();
        if path.extension().is_some_and(|ending| ending == "json" || ending == "svg") {
            fs::remove_file(&path).map_err(failed("cannot remove", &path))?;
        }
    }
    let records = home.join("measurements");
    for entry in fs::read_dir(&records).map_err(failed("cannot list", &records))? {
        let path = entry.map_err(failed("cannot list", &records))?.path();
        if let Some(name) = path.file_name() {
            fs::copy(&path, target.join(name)).map_err(failed("cannot copy", &path))?;
        }
    }
    report::write(docs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_records_replace_all_old_ones() {
        let dir = tempfile::tempdir().expect("a directory for tests");
        let (home, docs) = (dir.path().join("home"), dir.path().join("docs"));
        for measurements in [home.join("measurements"), docs.join("measurements")] {
            fs::create_dir_all(&measurements).expect("a new directory");
        }
        let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/measurements");
        for entry in fs::read_dir(committed).expect("a directory").flatten() {
            if entry.path().extension().is_some_and(|ending| ending == "json") {
                let to = home.join("measurements").join(entry.file_name());
                fs::copy(entry.path(), to).expect("a copy");
            }
        }
        for name in ["old.json", "old.svg", "README.md"] {
            fs::write(docs.join("measurements").join(name), "{}").expect("a file");
        }
        publish(&home, &docs).expect("records from which a page can be drawn");
        let is_there = |name: &str| docs.join(name).exists();
        assert!(!is_there("measurements/old.json") && !is_there("measurements/old.svg"));
        assert!(is_there("measurements/README.md"), "only records and charts go");
        assert!(is_there("measurements.md") && is_there("measurements.svg"));
        assert!(is_there("measurements/status.json"));
        // A record of local and of slow disks has one chart for each, named after the disks.
        let is_chart = |name: &str| name.starts_with("status") && name.ends_with(".svg");
        let new = fs::read_dir(docs.join("measurements")).expect("a directory").flatten();
        assert!(new.map(|entry| entry.file_name()).any(|name| name.to_str().is_some_and(is_chart)));
    }

    #[test]
    fn a_call_that_exceeds_its_time_is_killed() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("a program of every system");
        let dir = tempfile::tempdir().expect("a directory for tests");
        let begun = dir.path().join("begun");
        fs::write(&begun, "").expect("a file");
        let code = ended(&mut child, &begun, Duration::from_millis(300)).expect("it is a child");
        assert_eq!(code, None);
        // Preparation is not part of the time.
        let mut child = Command::new("sleep").arg("1").spawn().expect("a program of every system");
        let never = dir.path().join("never");
        assert_eq!(ended(&mut child, &never, Duration::ZERO).expect("it is a child"), Some(0));
    }
}
