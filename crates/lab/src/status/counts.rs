//! Counts the system calls of a run with strace.

use std::{collections::BTreeMap, fmt, fs, path::Path};

use crate::{
    Error,
    measure::{Invocation, must},
};

/// The number of system calls of each kind.
pub(crate) struct Counts {
    /// All calls.
    pub(crate) all: u64,
    pub(crate) stats: u64,
    pub(crate) opens: u64,
    lists: u64,
    reads: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { all: _, stats, opens, lists, reads } = self;
        write!(f, "{stats} stats, {opens} opens, {lists} listings, {reads} reads")
    }
}

/// Runs the command under strace and counts its calls.
pub(crate) fn of(invocation: &Invocation) -> Result<Counts, Error> {
    let summary = std::env::temp_dir().join(format!("sapwood-lab-{}", std::process::id()));
    let to = summary.display().to_string();
    let outside = invocation.outside.iter().map(String::as_str);
    let mut words = outside.chain(["strace", "-f", "-c", "-o", &to, &invocation.program]);
    let program = words.next().expect("at least strace");
    let args: Vec<&str> = words.chain(invocation.args.iter().map(String::as_str)).collect();
    must(Path::new(program), &args, &invocation.cwd)?;
    let text = fs::read_to_string(&summary).map_err(|source| Error::Io {
        what: "cannot read",
        path: summary.clone(),
        source,
    })?;
    let _ = fs::remove_file(&summary);
    Ok(parse(&text))
}

/// Parses strace's summary: the fourth column is the number of calls, the last is the name.
fn parse(text: &str) -> Counts {
    let mut calls: BTreeMap<&str, u64> = BTreeMap::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if let [_, _, _, count, .., name] = fields[..]
            && let Ok(count) = count.parse::<u64>()
            && name != "total"
        {
            *calls.entry(name).or_default() += count;
        }
    }
    let sum = |names: &[&str]| names.iter().filter_map(|name| calls.get(name)).sum();
    Counts {
        all: calls.values().sum(),
        stats: sum(&["stat", "lstat", "fstat", "newfstatat", "statx"]),
        opens: sum(&["open", "openat", "openat2"]),
        lists: sum(&["getdents64", "getdents"]),
        reads: sum(&["read", "pread64", "readlink", "readlinkat"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_summed_by_kind() {
        let counts = parse(
            "% time     seconds  usecs/call     calls    errors syscall\n\
             ------ ----------- ----------- --------- --------- ----------------\n \
             80.00    0.001000           1       100           statx\n \
             10.00    0.000100           1        10         2 openat\n  \
             5.00    0.000050           1         5           newfstatat\n\
             100.00    0.001150          10       115         2 total\n",
        );
        assert_eq!((counts.stats, counts.opens, counts.lists, counts.all), (105, 10, 0, 115));
    }
}
