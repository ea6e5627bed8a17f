//! Records as files: the path of a run's record, and the layout of its JSON.

use std::{fs, path::Path, path::PathBuf, sync::OnceLock};

use serde::Serialize;

use super::{Case, Kind, Machine, Record, Tree, Versions};
use crate::{Error, budget, corpus, load::Load};

/// The options for the record.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct RecordOptions {
    /// Write the record of this run to this file, like docs/measurements/*.json; by default to a
    /// file of the build directory.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// A sentence for the record; may be given several times.
    #[arg(long, value_name = "SENTENCE")]
    note: Vec<String>,
}

impl RecordOptions {
    /// Writes the record of this run.
    pub(crate) fn write(
        &self,
        kind: Kind,
        versions: &Versions,
        trees: Vec<Tree>,
        cases: Vec<Case>,
    ) -> Result<(), Error> {
        let args: Vec<String> = std::env::args().skip(1).collect();
        let notes = self.note.iter().cloned().chain(budget::note()).collect();
        let record = Record {
            kind,
            date: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
            machine: Machine::here(),
            versions: versions.clone(),
            command: command(&args),
            load: STARTED.get().map(|&before| [before, Load::now()]),
            trees,
            notes,
            cases: measured(cases),
        };
        let path = match &self.record {
            Some(path) => path.clone(),
            None => {
                let name = args.first().map_or("record", String::as_str);
                corpus::absolute(&corpus::directory())?.join(format!("{name}.json"))
            }
        };
        let wrap = |source| Error::Io { what: "cannot write", path: path.clone(), source };
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(wrap)?;
        }
        fs::write(&path, record.text()).map_err(wrap)?;
        println!("every sample: {}", path.display());
        Ok(())
    }
}

/// The load at the start of this process.
static STARTED: OnceLock<Load> = OnceLock::new();

/// Notes the load at the start of this process, for its records.
pub(crate) fn note_load() {
    STARTED.get_or_init(Load::now);
}

/// Leaves out figures without a run, which a time that was over leaves behind.
fn measured(mut cases: Vec<Case>) -> Vec<Case> {
    for case in &mut cases {
        case.tools.retain(|figure| figure.summary.is_some() || !figure.samples.is_empty());
    }
    cases.retain(|case| !case.tools.is_empty());
    cases
}

/// Options for the paths of results, scratch files and programs. They are left out of the command
/// that repeats a run; the record contains the programs' versions.
const PLACES: [&str; 8] =
    ["--record", "--note", "--scratch", "--sapwood", "--git", "--gix", "--within", "--begun"];

/// Returns the command of the `justfile` that repeats a call of the lab with these arguments. Paths
/// are reduced to their last component.
fn command(args: &[String]) -> String {
    let mut words = vec!["just"];
    let mut args = args.iter().map(String::as_str);
    while let Some(arg) = args.next() {
        let name = arg.split_once('=').map_or(arg, |(name, _)| name);
        if PLACES.contains(&name) {
            if name == arg {
                args.next();
            }
        } else if arg == "checkout" && words.len() == 1 {
            words.push("bench");
        } else {
            words.push(arg.rsplit('/').next().unwrap_or(arg));
        }
    }
    words.join(" ")
}

impl Record {
    /// Returns true if the time was over before all runs were made.
    pub(crate) fn is_shortened(&self) -> bool {
        self.notes.iter().any(|note| note.starts_with(budget::NOTE))
    }

    pub(crate) fn read(path: &Path) -> Result<Record, Error> {
        let text = fs::read(path).map_err(|source| Error::Io {
            what: "cannot read",
            path: path.to_owned(),
            source,
        })?;
        Record::parse(&text).map_err(|error| Error::Setup(format!("{}: {error}", path.display())))
    }

    pub(crate) fn parse(text: &[u8]) -> Result<Record, serde_json::Error> {
        serde_json::from_slice(text)
    }

    /// Returns the record as JSON with one line for each figure.
    fn text(&self) -> String {
        fn json<T: Serialize>(value: &T) -> String {
            serde_json::to_string(value).expect("plain data serialises")
        }
        let figures = |case: &Case| {
            let lines: Vec<String> =
                case.tools.iter().map(|figure| format!("    {}", json(figure))).collect();
            lines.join(",\n")
        };
        let cases: Vec<String> = self
            .cases
            .iter()
            .map(|case| {
                let head = json(&Case { tools: Vec::new(), ..case.clone() });
                let head = head.strip_suffix("[]}").expect("the tools are last");
                format!("  {head}[\n{}\n  ]}}", figures(case))
            })
            .collect();
        let Record { kind, date, machine, versions, command, load, trees, notes, .. } = self;
        let mut fields = vec![
            ("kind", json(kind)),
            ("date", json(date)),
            ("machine", json(machine)),
            ("versions", json(versions)),
            ("command", json(command)),
            ("trees", json(trees)),
            ("notes", json(notes)),
            ("cases", format!("[\n{}\n]", cases.join(",\n"))),
        ];
        if let Some(load) = load {
            fields.insert(5, ("load", json(load)));
        }
        let fields: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
        format!("{{\n{}\n}}\n", fields.join(",\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::figure;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let mut cases = Vec::new();
        Case::add(&mut cases, ["linux", "ext4", "full"], figure("git-1", &[4.0, 5.0]));
        Case::add(&mut cases, ["linux", "ext4", "full"], figure("sapwood", &[1.5]));
        Case::add(&mut cases, ["linux", "xfs", "full"], figure("git-1", &[0.25]));
        cases[0].at_most.git = Some(0.5);
        cases[0].calls = Some((3, 2));
        let record = Record {
            kind: Kind::Checkout,
            date: "2026-11-25".into(),
            machine: Machine { cpu: None, cores: 2, kernel: "6.18".into() },
            versions: Versions::from([("git".into(), "git version 2.55.0".into())]),
            command: "just bench".into(),
            load: Some([Load { average: 0.25, waiting: None }, Load { average: 1.5, waiting: Some(0.5) }]),
            trees: vec![Tree { name: "linux".into(), files: 3, directories: None }],
            notes: vec!["A \"note\".".into()],
            cases,
        };
        let text = record.text();
        let read: Record = serde_json::from_str(&text).expect("a record");
        assert_eq!(read.text(), text);
        assert_eq!(read.cases.len(), 2, "{text}");
        assert_eq!(read.cases[0].tools[0].samples.len(), 2, "{text}");
        assert_eq!(text.lines().filter(|line| line.contains("\"tool\":")).count(), 3, "{text}");
    }

    #[test]
    fn a_command_leaves_out_where_results_go() {
        let of = |line: &str| command(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(of("status --record a.json --on local --note=quiet"), "just status --on local");
        assert_eq!(of("status --gix /opt/gix --tree /data/a.bundle"), "just status --tree a.bundle");
        assert_eq!(of("checkout --scratch /tmp --check"), "just bench --check");
    }
}
