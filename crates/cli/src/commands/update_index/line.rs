//! The command line as a series of actions: an option applies to the words after it, and some
//! options act at once.
//!
//! An error is an action too: the actions before it are executed first.

use bstr::{BString, ByteSlice as _};

use super::{Cache, Run};
use crate::term::args::{Both, Given, Grammar, Item, On, Opt, Spec, Stop, Survey, Syntax, Table};

/// The effect of an option.
#[derive(Clone, Copy)]
pub(super) enum Effect {
    /// Changes the treatment of later words.
    Set(Switch),
    Refresh {
        really: bool,
    },
    CacheInfo,
    Chmod,
    Stdin,
    IndexInfo,
    Unresolve,
    Again,
    ClearResolveUndo,
    IndexVersion,
    ShowIndexVersion,
}

/// Turns a rule of the run on or off.
pub(super) type Switch = fn(&mut Run<'_>, bool);

/// Returns the effect of an option that sets a rule: to the form of the option, or to a mark.
macro_rules! rule {
    ($($name:ident).+) => {
        Effect::Set(|run, on| run.rules().$($name).+ = on)
    };
    ($name:ident: $on:literal) => {
        Effect::Set(|run, _| run.rules().$name = Some($on))
    };
}

pub(super) const TABLE: Table<Effect> = Table {
    usage: &["sapwood update-index [<options>] [--] [<file>...]"],
    options: &[
        Opt::keyed(rule!(quiet), "-q", "continue refresh even when index needs update").only().native(On),
        Opt::keyed(rule!(refresh.ignore_submodules), "--ignore-submodules", "refresh: ignore submodules")
            .native(Both),
        Opt::keyed(rule!(allow.new), "--add", "do not ignore new files").native(Both),
        Opt::keyed(rule!(allow.replacing), "--replace", "let files replace directories and vice-versa")
            .native(Both),
        Opt::keyed(rule!(remove), "--remove", "notice files missing from worktree").native(Both),
        Opt::keyed(rule!(refresh.unmerged), "--unmerged", "refresh even if index contains unmerged entries")
            .native(Both),
        Opt::keyed(Effect::Refresh { really: false }, "--refresh", "refresh stat information")
            .only()
            .native(On),
        Opt::keyed(
            Effect::Refresh { really: true },
            "--really-refresh",
            "like --refresh, but ignore assume-unchanged setting",
        )
        .only()
        .native(On),
        Opt::keyed(Effect::CacheInfo, "--cacheinfo", "add the specified entry to the index")
            .only()
            .native(On),
        Opt::keyed(Effect::Chmod, "--chmod <(+|-)x>", "override the executable bit of the listed files")
            .only()
            .native(On),
        Opt::keyed(rule!(assume_valid: true), "--assume-unchanged", "mark files as \"not changing\"")
            .only()
            .native(On),
        Opt::keyed(rule!(assume_valid: false), "--no-assume-unchanged", "clear assumed-unchanged bit")
            .only()
            .native(On),
        Opt::keyed(rule!(skip_worktree: true), "--skip-worktree", "mark files as \"index-only\"")
            .only()
            .native(On),
        Opt::keyed(rule!(skip_worktree: false), "--no-skip-worktree", "clear skip-worktree bit")
            .only()
            .native(On),
        Opt::keyed(
            rule!(ignore_skipped),
            "--ignore-skip-worktree-entries",
            "do not touch index-only entries",
        )
        .native(Both),
        Opt::keyed(
            rule!(info_only),
            "--info-only",
            "add to index only; do not add content to object database",
        )
        .native(Both),
        Opt::keyed(rule!(force_remove), "--force-remove", "remove named paths even if present in worktree")
            .native(Both),
        Opt::keyed(
            Effect::Set(|run, on| run.nul = on),
            "-z",
            "with --stdin: input lines are terminated by null bytes",
        )
        .only()
        .native(On),
        Opt::keyed(Effect::Stdin, "--stdin", "read list of paths to be updated from standard input")
            .only()
            .native(On),
        Opt::keyed(Effect::IndexInfo, "--index-info", "add entries from standard input to the index")
            .only()
            .native(On),
        Opt::keyed(Effect::Unresolve, "--unresolve", "repopulate stages #2 and #3 for the listed paths")
            .only()
            .native(On),
        Opt::keyed(Effect::Again, "-g, --again", "only update entries that differ from HEAD")
            .only()
            .native(On),
        Opt::keyed(rule!(refresh.ignore_missing), "--ignore-missing", "ignore files missing from worktree")
            .native(Both),
        Opt::keyed(rule!(verbose), "--verbose", "report actions to standard output").native(Both),
        Opt::keyed(
            Effect::ClearResolveUndo,
            "--clear-resolve-undo",
            "(for porcelains) forget saved unresolved conflicts",
        )
        .only()
        .native(On),
        Opt::keyed(Effect::IndexVersion, "--index-version <n>", "write index in this format").native(Both),
        Opt::keyed(Effect::ShowIndexVersion, "--show-index-version", "report on-disk index format version")
            .native(Both),
        Opt::keyed(
            Effect::Set(|run, on| run.split = Some(on)),
            "--split-index",
            "enable or disable split index",
        )
        .native(Both),
        Opt::keyed(
            Effect::Set(|run, on| run.untracked = Some(if on { Cache::On } else { Cache::Off })),
            "--untracked-cache",
            "enable/disable untracked cache",
        )
        .native(Both),
        Opt::keyed(
            Effect::Set(|run, on| run.untracked = Some(if on { Cache::Tested } else { Cache::Off })),
            "--test-untracked-cache",
            "test if the filesystem supports untracked cache",
        )
        .native(Both),
        Opt::keyed(
            Effect::Set(|run, on| run.untracked = Some(if on { Cache::On } else { Cache::Off })),
            "--force-untracked-cache",
            "enable untracked cache without testing the filesystem",
        )
        .native(Both),
        Opt::keyed(
            Effect::Set(|run, on| run.force_write = on),
            "--force-write-index",
            "write out the index even if is not flagged as changed",
        )
        .native(Both),
        Opt::keyed(
            Effect::Set(|run, on| run.fsmonitor = Some(on)),
            "--fsmonitor",
            "enable or disable file system monitor",
        )
        .native(Both),
        Opt::keyed(rule!(fsmonitor_valid: true), "--fsmonitor-valid", "mark files as fsmonitor valid")
            .only()
            .native(On),
        Opt::keyed(rule!(fsmonitor_valid: false), "--no-fsmonitor-valid", "clear fsmonitor valid bit")
            .only()
            .native(On),
    ],
    grammar: Grammar::Mixed,
};

/// An entry of `--cacheinfo`, as given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CacheInfo {
    pub(super) mode: BString,
    pub(super) oid: BString,
    pub(super) path: BString,
}

/// One action.
#[derive(Clone)]
pub(super) enum Action {
    /// Change a rule for later words.
    Set {
        switch: Switch,
        on: bool,
    },
    /// Make later paths executable (`+x`), or not (`-x`).
    Chmod {
        executable: bool,
    },
    /// Write the index in this version; 0: no change, negative: print the version.
    IndexVersion(i64),
    /// Compare the entries with their files.
    Refresh {
        really: bool,
    },
    CacheInfo(CacheInfo),
    /// Read entries from standard input, now.
    IndexInfo,
    /// Read paths from standard input, at the end.
    Stdin,
    Unresolve(Vec<BString>),
    /// Update the paths that differ from HEAD and that these pathspecs select.
    Again(Vec<BString>),
    ClearResolveUndo,
    Path(BString),
    /// Report this error and stop.
    Mistake(Stop),
}

/// Returns the actions of a command line.
pub(super) fn actions(args: &[BString]) -> Vec<Action> {
    let mut actions = Vec::new();
    if let Err(stop) = collect(args, &mut actions, &mut |_| ()) {
        actions.push(Action::Mistake(stop));
    }
    actions
}

/// The command line for callers that only inspect it.
pub(super) struct Line;

impl Syntax for Line {
    fn usage(&self) -> &'static [&'static str] {
        TABLE.usage
    }

    fn specs(&self) -> Vec<&Spec> {
        (&TABLE as &'static Table<Effect>).specs()
    }

    fn help(&self) -> String {
        TABLE.help()
    }

    /// Ignores errors that depend on their position: the command prints them with Git's message.
    fn survey(&self, args: &[BString]) -> Result<Survey, Stop> {
        let mut actions = Vec::new();
        let mut options = Vec::new();
        collect(args, &mut actions, &mut |given| options.push(given))?;
        let rest = actions.into_iter().flat_map(|action| match action {
            Action::Path(path) => vec![path],
            Action::Again(paths) | Action::Unresolve(paths) => paths,
            _ => Vec::new(),
        });
        Ok(Survey { options, rest: rest.collect() })
    }
}

/// Parses the command line. Syntax errors of Git's parser are returned; any other error becomes the
/// last action.
fn collect(
    args: &[BString],
    actions: &mut Vec<Action>,
    on_option: &mut dyn FnMut(Given),
) -> Result<(), Stop> {
    let mistake = |message: &str| Action::Mistake(Stop::Mistake { message: message.into(), usage: None });
    let mut walk = TABLE.walk(args);
    while let Some(item) = walk.next()? {
        let event = match item {
            Item::DashDash => continue,
            Item::Argument(path) => {
                actions.push(Action::Path(path));
                continue;
            }
            Item::Option(event) => event,
        };
        on_option(Given { name: event.name, on: event.on, value: event.value.clone() });
        let value = event.value.unwrap_or_default();
        let action = match event.key {
            Effect::Refresh { really } => Action::Refresh { really },
            Effect::ClearResolveUndo => Action::ClearResolveUndo,
            Effect::Chmod => match value.as_bytes() {
                b"+x" => Action::Chmod { executable: true },
                b"-x" => Action::Chmod { executable: false },
                _ => mistake("option 'chmod' expects \"+x\" or \"-x\""),
            },
            Effect::IndexVersion if !event.on => Action::IndexVersion(0),
            Effect::IndexVersion => match value.to_str().ok().and_then(|text| text.parse::<i32>().ok()) {
                Some(number) => Action::IndexVersion(number.into()),
                None => {
                    mistake("option `index-version' expects an integer value with an optional k/m/g suffix")
                }
            },
            Effect::ShowIndexVersion => Action::IndexVersion(-i64::from(event.on)),
            Effect::Stdin if !walk.words().is_empty() => mistake("option 'stdin' must be the last argument"),
            Effect::Stdin => Action::Stdin,
            Effect::IndexInfo if !walk.words().is_empty() => {
                mistake("option 'index-info' must be the last argument")
            }
            Effect::IndexInfo => Action::IndexInfo,
            Effect::Unresolve => Action::Unresolve(walk.take(usize::MAX)),
            Effect::Again => Action::Again(walk.take(usize::MAX)),
            Effect::CacheInfo => match walk.words().first().and_then(in_one) {
                Some(info) => {
                    walk.take(1);
                    Action::CacheInfo(info)
                }
                None if walk.words().len() < 3 => mistake("option 'cacheinfo' expects <mode>,<sha1>,<path>"),
                None => {
                    let mut words = walk.take(3).into_iter();
                    let mut next = || words.next().unwrap_or_default();
                    Action::CacheInfo(CacheInfo { mode: next(), oid: next(), path: next() })
                }
            },
            Effect::Set(switch) => Action::Set { switch, on: event.on },
        };
        let ends = matches!(action, Action::Mistake(_));
        actions.push(action);
        if ends {
            break;
        }
    }
    Ok(())
}

/// Parses `<mode>,<object>,<path>`.
fn in_one(word: &BString) -> Option<CacheInfo> {
    let (mode, rest) = word.split_once_str(",")?;
    octal(mode)?;
    let (oid, path) = rest.split_once_str(",")?;
    let is_name = matches!(oid.len(), 40 | 64) && oid.iter().all(u8::is_ascii_hexdigit);
    is_name.then(|| CacheInfo { mode: mode.into(), oid: oid.into(), path: path.into() })
}

/// Parses a mode like C's `strtoul`.
pub(super) fn octal(text: &[u8]) -> Option<u32> {
    let text = text.trim_ascii_start();
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    match digits.first() {
        Some(b'0'..=b'7') => u32::from_str_radix(digits.to_str().ok()?, 8).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Vec<String> {
        let args: Vec<BString> = text.split_whitespace().map(BString::from).collect();
        let shown = |action: Action| match action {
            Action::Set { on, .. } => format!("set {on}"),
            Action::Path(path) => format!("path {path}"),
            Action::CacheInfo(info) => format!("entry {}", info.path),
            Action::Again(paths) => format!("again {paths:?}"),
            Action::IndexVersion(number) => format!("version {number}"),
            Action::Mistake(_) => "mistake".to_owned(),
            _ => "other".to_owned(),
        };
        actions(&args).into_iter().map(shown).collect()
    }

    #[test]
    fn acts_stand_in_the_order_of_the_line() {
        let oid = "0123456789012345678901234567890123456789";
        assert_eq!(
            line(&format!("a --add --cacheinfo 100644,{oid},x,y --cacheinfo 100644 {oid} -b -q -- --add")),
            ["path a", "set true", "entry x,y", "entry -b", "set true", "path --add"]
        );
        assert_eq!(line("-g --refresh x"), ["again [\"--refresh\", \"x\"]"]);
        assert_eq!(line("--no-assume-unchanged"), ["set true"]);
        assert_eq!(line("x --stdin y"), ["path x", "mistake"]);
        assert_eq!(line("--cacheinfo 100644 x"), ["mistake"]);
        assert_eq!(line("--chmod=-y a"), ["mistake"]);
        assert_eq!(line("--no-index-version --show-index-version"), ["version 0", "version -1"]);
    }

    #[test]
    fn modes_are_octal_numbers() {
        assert_eq!(
            (octal(b"0100755"), octal(b"8"), octal(b"-1"), octal(b"")),
            (Some(0o100755), None, None, None)
        );
    }
}
