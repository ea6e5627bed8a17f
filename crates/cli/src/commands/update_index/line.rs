//! The command line as a series of acts: every option counts for what comes after it, and some do their work where they stand.
//!
//! A mistake is an act too: what stands before it has been done, and said, by then.

use bstr::{BString, ByteSlice as _};

use crate::term::args::{Given, Grammar, Item, Native, Opt, Spec, Stop, Survey, Syntax, Table};

/// Options that only say how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Quiet,
    IgnoreSubmodules,
    Add,
    Replace,
    Remove,
    Unmerged,
    Refresh,
    ReallyRefresh,
    CacheInfo,
    Chmod,
    AssumeUnchanged,
    NoAssumeUnchanged,
    SkipWorktree,
    NoSkipWorktree,
    IgnoreSkipWorktree,
    InfoOnly,
    ForceRemove,
    Nul,
    Stdin,
    IndexInfo,
    Unresolve,
    Again,
    IgnoreMissing,
    Verbose,
    ClearResolveUndo,
    IndexVersion,
    ShowIndexVersion,
    SplitIndex,
    UntrackedCache,
    TestUntrackedCache,
    ForceUntrackedCache,
    ForceWriteIndex,
    Fsmonitor,
    FsmonitorValid,
    NoFsmonitorValid,
}

pub(super) const TABLE: Table<Key> = Table {
    usage: &["sapwood update-index [<options>] [--] [<file>...]"],
    options: &[
        Opt::new(Key::Quiet, "-q", "continue refresh even when index needs update").only().native(Native::On),
        Opt::new(Key::IgnoreSubmodules, "--ignore-submodules", "refresh: ignore submodules")
            .native(Native::Both),
        Opt::new(Key::Add, "--add", "do not ignore new files").native(Native::Both),
        Opt::new(Key::Replace, "--replace", "let files replace directories and vice-versa")
            .native(Native::Both),
        Opt::new(Key::Remove, "--remove", "notice files missing from worktree").native(Native::Both),
        Opt::new(Key::Unmerged, "--unmerged", "refresh even if index contains unmerged entries")
            .native(Native::Both),
        Opt::new(Key::Refresh, "--refresh", "refresh stat information").only().native(Native::On),
        Opt::new(
            Key::ReallyRefresh,
            "--really-refresh",
            "like --refresh, but ignore assume-unchanged setting",
        )
        .only()
        .native(Native::On),
        Opt::new(Key::CacheInfo, "--cacheinfo", "add the specified entry to the index")
            .only()
            .native(Native::On),
        Opt::new(Key::Chmod, "--chmod <(+|-)x>", "override the executable bit of the listed files")
            .only()
            .native(Native::On),
        Opt::new(Key::AssumeUnchanged, "--assume-unchanged", "mark files as \"not changing\"")
            .only()
            .native(Native::On),
        Opt::new(Key::NoAssumeUnchanged, "--no-assume-unchanged", "clear assumed-unchanged bit")
            .only()
            .native(Native::On),
        Opt::new(Key::SkipWorktree, "--skip-worktree", "mark files as \"index-only\"")
            .only()
            .native(Native::On),
        Opt::new(Key::NoSkipWorktree, "--no-skip-worktree", "clear skip-worktree bit")
            .only()
            .native(Native::On),
        Opt::new(
            Key::IgnoreSkipWorktree,
            "--ignore-skip-worktree-entries",
            "do not touch index-only entries",
        )
        .native(Native::Both),
        Opt::new(Key::InfoOnly, "--info-only", "add to index only; do not add content to object database")
            .native(Native::Both),
        Opt::new(Key::ForceRemove, "--force-remove", "remove named paths even if present in worktree")
            .native(Native::Both),
        Opt::new(Key::Nul, "-z", "with --stdin: input lines are terminated by null bytes")
            .only()
            .native(Native::On),
        Opt::new(Key::Stdin, "--stdin", "read list of paths to be updated from standard input")
            .only()
            .native(Native::On),
        Opt::new(Key::IndexInfo, "--index-info", "add entries from standard input to the index")
            .only()
            .native(Native::On),
        Opt::new(Key::Unresolve, "--unresolve", "repopulate stages #2 and #3 for the listed paths")
            .only()
            .native(Native::On),
        Opt::new(Key::Again, "-g, --again", "only update entries that differ from HEAD")
            .only()
            .native(Native::On),
        Opt::new(Key::IgnoreMissing, "--ignore-missing", "ignore files missing from worktree")
            .native(Native::Both),
        Opt::new(Key::Verbose, "--verbose", "report actions to standard output").native(Native::Both),
        Opt::new(
            Key::ClearResolveUndo,
            "--clear-resolve-undo",
            "(for porcelains) forget saved unresolved conflicts",
        )
        .only()
        .native(Native::On),
        Opt::new(Key::IndexVersion, "--index-version <n>", "write index in this format").native(Native::Both),
        Opt::new(Key::ShowIndexVersion, "--show-index-version", "report on-disk index format version")
            .native(Native::Both),
        Opt::new(Key::SplitIndex, "--split-index", "enable or disable split index").native(Native::Both),
        Opt::new(Key::UntrackedCache, "--untracked-cache", "enable/disable untracked cache")
            .native(Native::Both),
        Opt::new(
            Key::TestUntrackedCache,
            "--test-untracked-cache",
            "test if the filesystem supports untracked cache",
        )
        .native(Native::Both),
        Opt::new(
            Key::ForceUntrackedCache,
            "--force-untracked-cache",
            "enable untracked cache without testing the filesystem",
        )
        .native(Native::Both),
        Opt::new(
            Key::ForceWriteIndex,
            "--force-write-index",
            "write out the index even if is not flagged as changed",
        )
        .native(Native::Both),
        Opt::new(Key::Fsmonitor, "--fsmonitor", "enable or disable file system monitor").native(Native::Both),
        Opt::new(Key::FsmonitorValid, "--fsmonitor-valid", "mark files as fsmonitor valid")
            .only()
            .native(Native::On),
        Opt::new(Key::NoFsmonitorValid, "--no-fsmonitor-valid", "clear fsmonitor valid bit")
            .only()
            .native(Native::On),
    ],
    grammar: Grammar::Mixed,
};

/// An entry of `--cacheinfo`, as it was spelt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CacheInfo {
    pub(super) mode: BString,
    pub(super) oid: BString,
    pub(super) path: BString,
}

/// One thing to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// From here on it is so, or not.
    Set(Key, bool),
    /// From here on paths become executable (`+x`), or not (`-x`).
    Chmod {
        executable: bool,
    },
    /// The format of the index, as a number; 0 is none that was asked for.
    IndexVersion(i64),
    /// The entries are compared with their files.
    Refresh {
        really: bool,
    },
    CacheInfo(CacheInfo),
    /// Entries come from the standard input, now.
    IndexInfo,
    /// Paths come from the standard input, in the end.
    Stdin,
    Unresolve(Vec<BString>),
    /// Paths that differ from HEAD, of those that these mean.
    Again(Vec<BString>),
    ClearResolveUndo,
    Path(BString),
    /// The line ends here.
    Mistake(Stop),
}

/// The acts of a command line.
pub(super) fn acts(args: &[BString]) -> Vec<Act> {
    let mut acts = Vec::new();
    if let Err(stop) = collect(args, &mut acts, &mut |_| ()) {
        acts.push(Act::Mistake(stop));
    }
    acts
}

/// The command line for callers that only look at it.
pub(super) struct Line;

impl Syntax for Line {
    fn usage(&self) -> &'static [&'static str] {
        TABLE.usage
    }

    fn specs(&self) -> Vec<&Spec> {
        (&TABLE as &'static Table<Key>).specs()
    }

    fn help(&self) -> String {
        TABLE.help()
    }

    /// A mistake that counts only at its place is none here: the command prints it in Git's words.
    fn survey(&self, args: &[BString]) -> Result<Survey, Stop> {
        let mut acts = Vec::new();
        let mut options = Vec::new();
        collect(args, &mut acts, &mut |given| options.push(given))?;
        let rest = acts.into_iter().flat_map(|act| match act {
            Act::Path(path) => vec![path],
            Act::Again(paths) | Act::Unresolve(paths) => paths,
            _ => Vec::new(),
        });
        Ok(Survey { options, rest: rest.collect() })
    }
}

/// Stops at a mistake that is Git's own parser's; others become acts, the last ones.
fn collect(args: &[BString], acts: &mut Vec<Act>, tell: &mut dyn FnMut(Given)) -> Result<(), Stop> {
    let mistake = |message: &str| Act::Mistake(Stop::Mistake { message: message.into(), usage: None });
    let mut walk = TABLE.walk(args);
    while let Some(item) = walk.next()? {
        let event = match item {
            Item::DashDash => continue,
            Item::Argument(path) => {
                acts.push(Act::Path(path));
                continue;
            }
            Item::Option(event) => event,
        };
        tell(Given { name: event.name, on: event.on, value: event.value.clone() });
        let value = event.value.unwrap_or_default();
        let act = match event.key {
            Key::Refresh => Act::Refresh { really: false },
            Key::ReallyRefresh => Act::Refresh { really: true },
            Key::ClearResolveUndo => Act::ClearResolveUndo,
            Key::Chmod => match value.as_bytes() {
                b"+x" => Act::Chmod { executable: true },
                b"-x" => Act::Chmod { executable: false },
                _ => mistake("option 'chmod' expects \"+x\" or \"-x\""),
            },
            Key::IndexVersion if !event.on => Act::IndexVersion(0),
            Key::IndexVersion => match value.to_str().ok().and_then(|text| text.parse::<i32>().ok()) {
                Some(number) => Act::IndexVersion(number.into()),
                None => {
                    mistake("option `index-version' expects an integer value with an optional k/m/g suffix")
                }
            },
            Key::ShowIndexVersion => Act::IndexVersion(-i64::from(event.on)),
            Key::Stdin if !walk.words().is_empty() => mistake("option 'stdin' must be the last argument"),
            Key::Stdin => Act::Stdin,
            Key::IndexInfo if !walk.words().is_empty() => {
                mistake("option 'index-info' must be the last argument")
            }
            Key::IndexInfo => Act::IndexInfo,
            Key::Unresolve => Act::Unresolve(walk.take(usize::MAX)),
            Key::Again => Act::Again(walk.take(usize::MAX)),
            Key::CacheInfo => match walk.words().first().and_then(in_one) {
                Some(info) => {
                    walk.take(1);
                    Act::CacheInfo(info)
                }
                None if walk.words().len() < 3 => mistake("option 'cacheinfo' expects <mode>,<sha1>,<path>"),
                None => {
                    let mut words = walk.take(3).into_iter();
                    let mut next = || words.next().unwrap_or_default();
                    Act::CacheInfo(CacheInfo { mode: next(), oid: next(), path: next() })
                }
            },
            key => Act::Set(key, event.on),
        };
        let ends = matches!(act, Act::Mistake(_));
        acts.push(act);
        if ends {
            break;
        }
    }
    Ok(())
}

/// `<mode>,<object>,<path>`
fn in_one(word: &BString) -> Option<CacheInfo> {
    let (mode, rest) = word.split_once_str(",")?;
    octal(mode)?;
    let (oid, path) = rest.split_once_str(",")?;
    let is_name = matches!(oid.len(), 40 | 64) && oid.iter().all(u8::is_ascii_hexdigit);
    is_name.then(|| CacheInfo { mode: mode.into(), oid: oid.into(), path: path.into() })
}

/// A mode, as C's library reads it.
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

    fn line(text: &str) -> Vec<Act> {
        let args: Vec<BString> = text.split_whitespace().map(BString::from).collect();
        acts(&args)
    }

    #[test]
    fn what_stands_where() {
        let oid = "0123456789012345678901234567890123456789";
        let info = |path: &str| {
            Act::CacheInfo(CacheInfo { mode: "100644".into(), oid: oid.into(), path: path.into() })
        };
        assert_eq!(
            line(&format!("a --add --cacheinfo 100644,{oid},x,y --cacheinfo 100644 {oid} -b -q -- --add")),
            [
                Act::Path("a".into()),
                Act::Set(Key::Add, true),
                info("x,y"),
                info("-b"),
                Act::Set(Key::Quiet, true),
                Act::Path("--add".into()),
            ]
        );
        assert_eq!(line("-g --refresh x"), [Act::Again(vec!["--refresh".into(), "x".into()])]);
        assert_eq!(line("--no-assume-unchanged"), [Act::Set(Key::NoAssumeUnchanged, true)]);
        assert!(matches!(line("x --stdin y")[..], [Act::Path(_), Act::Mistake(_)]));
        assert!(matches!(line("--cacheinfo 100644 x")[..], [Act::Mistake(_)]));
        assert!(matches!(line("--chmod=-y a")[..], [Act::Mistake(_)]));
        assert_eq!(line("--no-index-version --show-index-version"), [0, -1].map(Act::IndexVersion));
        assert_eq!(
            (octal(b"0100755"), octal(b"8"), octal(b"-1"), octal(b"")),
            (Some(0o100755), None, None, None)
        );
    }
}
