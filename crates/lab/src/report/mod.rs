//! `lab report`: writes docs/measurements.md and its charts from the records in docs/measurements.
//!
//! The page and the charts depend on the records alone, so the same records give the same bytes. A
//! test compares the committed page and charts with the committed records.

mod chart;
mod fleet;
mod overview;
mod page;
mod scale;
mod section;
mod since;
mod text;
mod workspace;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use crate::{
    Error,
    record::{Kind, Record},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The directory that contains `measurements/*.json` and gets `measurements.md`.
    #[arg(default_value = "docs")]
    docs: PathBuf,
    /// Write nothing; name the rows that became 10% worse since these records, and exit with 1 if
    /// there is one. A directory of records, one record, or a commit that holds records.
    #[arg(long, value_name = "RECORDS|COMMIT")]
    since: Option<String>,
}

/// The records by file name without `.json`.
type Records = BTreeMap<String, Record>;

/// Runs `lab report`.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Error> {
    match &args.since {
        Some(since) => since::run(&args.docs, since),
        None => write(&args.docs).map(|()| ExitCode::SUCCESS),
    }
}

/// Writes the page and the charts of the records below `docs`.
pub(crate) fn write(docs: &Path) -> Result<(), Error> {
    let records = read(&docs.join("measurements"))?;
    let charts = charts(&records)?;
    let mut files = BTreeMap::from([
        (PathBuf::from("measurements.md"), page::page(&records, &charts)),
        (PathBuf::from("measurements.svg"), overview::chart(&records)?),
    ]);
    files.extend(charts.into_iter().map(|(name, chart)| (Path::new("measurements").join(name), chart)));
    for (name, content) in files {
        let path = docs.join(name);
        fs::write(&path, content).map_err(|source| Error::Io { what: "cannot write", path, source })?;
    }
    Ok(())
}

fn read(dir: &Path) -> Result<Records, Error> {
    let failed = |source| Error::Io { what: "cannot list", path: dir.to_owned(), source };
    let mut records = Records::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let name = path.file_stem().map(|name| name.to_string_lossy().into_owned());
            records.insert(name.unwrap_or_default(), Record::read(&path)?);
        }
    }
    if records.is_empty() {
        return Err(Error::Setup(format!("{} holds no record", dir.display())));
    }
    Ok(records)
}

/// Draws a chart for each record in each section, by file name. A record without ratios gets no
/// chart.
fn charts(records: &Records) -> Result<BTreeMap<String, String>, Error> {
    let mut charts = BTreeMap::new();
    for section in &section::SECTIONS {
        for (name, record) in records {
            let mut cases = section.cases(record);
            // The calls of each caller together say enough.
            cases.retain(|case| record.kind != Kind::Small || case.case == "all");
            if record.kind == Kind::Scale {
                if let Some(chart) = scale::chart(record)? {
                    charts.insert(section.chart_name(name, record), chart);
                }
            } else if record.kind != Kind::Memory && cases.iter().any(|case| case.ratio().is_some()) {
                charts.insert(section.chart_name(name, record), chart::ratios(section, record, &cases)?);
            }
        }
    }
    Ok(charts)
}
