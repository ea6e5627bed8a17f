//! Every path that a user can pass, each with values that are easy to get wrong: exit code,
//! messages, and all files on the disk afterwards, also in the Git directory and around the
//! repository, equal Git's.

mod fixture;
mod table;

use std::fmt;

use bstr::ByteSlice as _;

use fixture::{Fixture, Program};
use table::{Differs, PathSource, READERS, ROWS, Row, WAYS};

thread_local! {
    static GROUND: Fixture = Fixture::new();
}

/// The kind of a path value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Empty,
    Dot,
    Up,
    Root,
    /// The row's valid path, with a slash at its end.
    Slash,
    Missing,
    /// A file in place of a directory, or a file with other content.
    File,
    Dangling,
    /// One byte more than the longest valid path.
    Long,
}

const VALUES: [Value; 9] = {
    use Value::*;
    [Empty, Dot, Up, Root, Slash, Missing, File, Dangling, Long]
};

impl Value {
    fn text(self, row: &Row) -> String {
        let beside = |name: &str| format!("{}{name}", row.lead);
        match self {
            Value::Empty => String::new(),
            Value::Dot => ".".into(),
            Value::Up => "..".into(),
            Value::Root => "/".into(),
            Value::Slash => format!("{}/", row.good),
            Value::Missing => beside("nowhere"),
            Value::File => beside("afile"),
            Value::Dangling => beside("dangling"),
            Value::Long => "./".repeat(2048),
        }
    }
}

struct Case {
    row: Row,
    value: Value,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {} in {}: {:?}", self.row.source, self.row.command, self.row.dir, self.value)
    }
}

impl Case {
    fn difference(&self) -> Option<Differs> {
        self.row.differs.iter().find(|(values, ..)| values.contains(&self.value)).map(|(_, how, _)| *how)
    }

    fn run(&self, fixture: &Fixture, program: Program) -> (testkit::Run, fixture::Snapshot) {
        let value = self.value.text(&self.row);
        let row = &self.row;
        let prepare = |dir: &std::path::Path| match row.source {
            PathSource::Setting(key) => fixture.git(dir, &["config", key, &value]),
            PathSource::File(file, before) => {
                std::fs::write(dir.join(file), format!("{before}{value}\n")).expect("written");
            }
            PathSource::Argument | PathSource::Variable(_) => {}
        };
        fixture.run(program, row.dir, prepare, |command| {
            if let PathSource::Variable(name) = row.source {
                command.env(name, &value);
            }
            if row.source == PathSource::Variable("HOME") {
                command.env_remove("XDG_CONFIG_HOME");
            }
            command.args(row.command.split(' ').map(|word| word.replace("{}", &value)));
        })
    }

    fn check(&self) {
        let difference = self.difference();
        if difference == Some(Differs::NotRun) {
            return;
        }
        let programs: &[Program] = match self.value {
            Value::Empty | Value::Missing => &[Program::Sapwood, Program::Shim],
            _ => &[Program::Sapwood],
        };
        GROUND.with(|fixture| {
            let (theirs, after_theirs) = self.run(fixture, Program::Git);
            for &program in programs {
                let (ours, after_ours) = self.run(fixture, program);
                let same_words = (&theirs.stdout, testkit::wording(&theirs.stderr))
                    == (&ours.stdout, testkit::wording(&ours.stderr));
                match difference {
                    // The shim may hand over to Git a command that sapwood would refuse.
                    Some(_)
                        if (program == Program::Shim || self.row.is_way)
                            && theirs == ours
                            && after_theirs == after_ours => {}
                    Some(Differs::Words) => {
                        assert!(!same_words, "{self}: listed as different and is not");
                        assert_eq!(theirs.code, ours.code, "{self}: exit code; ours said {}", ours.stderr);
                        same_disk(&after_theirs, &after_ours);
                    }
                    Some(Differs::Guarded) if is_guarded(&ours) => {
                        let (_, before) = self.run(fixture, Program::Nothing);
                        same_disk(&in_git_dir(before), &in_git_dir(after_ours));
                    }
                    Some(Differs::Guarded) => {
                        assert_eq!(theirs.code, ours.code, "{self}: exit code; ours said {}", ours.stderr);
                        same_disk(&after_theirs, &after_ours);
                    }
                    Some(Differs::Refused) => {
                        assert_ne!(ours.code, 0, "{self}: listed as refused and is not");
                        let (_, before) = self.run(fixture, Program::Nothing);
                        same_disk(&before, &after_ours);
                    }
                    _ => {
                        assert_eq!(
                            testkit::wording(&theirs.stderr),
                            testkit::wording(&ours.stderr),
                            "{self}: standard error; git left"
                        );
                        assert_eq!(theirs.stdout, ours.stdout, "{self}: standard output; git left");
                        assert_eq!(theirs.code, ours.code, "{self}: exit code; git left");
                        same_disk(&after_theirs, &after_ours);
                    }
                }
            }
        });
    }
}

/// Returns true if the guard refused the command.
fn is_guarded(run: &testkit::Run) -> bool {
    run.code != 0 && run.stderr.contains_str("this repository's Git directory")
}

fn in_git_dir(mut snapshot: fixture::Snapshot) -> fixture::Snapshot {
    snapshot.retain(|name, _| name.contains_str(".git/"));
    snapshot
}

/// Panics with the paths that differ.
fn same_disk(theirs: &fixture::Snapshot, ours: &fixture::Snapshot) {
    let names = theirs.keys().chain(ours.keys());
    let differing: std::collections::BTreeSet<_> =
        names.filter(|name| theirs.get(*name) != ours.get(*name)).collect();
    let told: Vec<_> = differing.iter().map(|name| (name, theirs.get(*name), ours.get(*name))).collect();
    assert!(told.is_empty(), "on disk, git left: {told:?}");
}

fn cases(rows: impl Iterator<Item = Row>) -> Vec<Case> {
    rows.flat_map(|row| VALUES.map(|value| Case { row, value }))
        .filter(|case| {
            case.value != Value::Root || READERS.contains(&case.row.command) || case.row.takes_root
        })
        .collect()
}

/// The ways to name a repository, with each command.
#[test]
fn ways_to_name_a_repository() {
    let rows = WAYS.iter().flat_map(|source| table::COMMANDS.iter().map(|command| source.with(command)));
    crate::bounded(cases(rows), 150, Case::check);
}

/// Commands that would delete files which Git keeps; all of them run, in CI too.
#[test]
fn the_empty_string_names_no_directory() {
    let deleting = ["clean -fdx", "checkout -f", "reset --hard"];
    let rows = WAYS.iter().flat_map(|source| deleting.map(|command| source.with(command)));
    let mut cases = cases(rows.chain(ROWS.iter().copied()));
    cases.retain(|case| case.value == Value::Empty);
    let all = cases.len();
    crate::bounded(cases, all, Case::check);
}

/// Arguments, options, variables, settings and files that contain a path.
#[test]
fn paths_of_each_command() {
    crate::bounded(cases(ROWS.iter().copied()), 250, Case::check);
}
