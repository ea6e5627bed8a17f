//! Merges in memory, by one process of the real Git.

use std::{
    collections::BTreeSet,
    io::Write as _,
    process::{Child, Stdio},
    thread,
};

use bstr::{BString, ByteSlice as _};
use format::ObjectId;
use store::objects::Quarantine;

use crate::{Error, trace, worktree::records::Worktrees};

const ARGS: [&str; 7] = [
    "merge-tree",
    "--write-tree",
    "--allow-unrelated-histories",
    "--no-messages",
    "--name-only",
    "-z",
    "--stdin",
];

/// Merges each pair of commits. Returns for each the paths with conflicts. New objects go to the
/// quarantine.
pub(super) fn all(
    worktrees: &Worktrees<'_>,
    quarantine: &Quarantine,
    pairs: &[[ObjectId; 2]],
) -> Result<Vec<Vec<BString>>, Error> {
    if pairs.is_empty() {
        return Ok(Vec::new());
    }
    let lines: String = pairs.iter().map(|[one, other]| format!("{one} {other}\n")).collect();
    let mut child = start(worktrees, quarantine)?;
    let mut input = child.stdin.take().expect("it is piped");
    let output = thread::scope(|scope| {
        // Git writes results while it reads. It may end early, and then says why.
        scope.spawn(move || drop(input.write_all(lines.as_bytes())));
        child.wait_with_output()
    });
    let output = output.map_err(|error| cannot_run(&error))?;
    let merged = parse(&output.stdout, pairs.len());
    match merged {
        Some(merged) if output.status.success() => {
            let own = merged.into_iter().zip(pairs).map(|(paths, pair)| own_names(paths, pair));
            Ok(own.collect())
        }
        _ => {
            let said = output.stderr.trim_end().as_bstr().to_string();
            Err(Error::failed(format!("git merge-tree failed ({}): {said}", output.status)))
        }
    }
}

/// Returns the paths by their own names. Git moves a file that is in the way of a directory aside,
/// to its name with `~` and the name of its side, which is a commit here.
fn own_names(paths: Vec<BString>, sides: &[ObjectId; 2]) -> Vec<BString> {
    let sides = sides.map(|side| format!("~{side}"));
    let own = |path: BString| {
        let aside = sides.iter().find_map(|side| path.rfind(side));
        aside.map_or(path.clone(), |at| path[..at].into())
    };
    let own: BTreeSet<BString> = paths.into_iter().map(own).collect();
    own.into_iter().collect()
}

fn cannot_run(error: &std::io::Error) -> Error {
    Error::failed(format!("cannot run git merge-tree: {}", sys::reason(error)))
}

fn start(worktrees: &Worktrees<'_>, quarantine: &Quarantine) -> Result<Child, Error> {
    let repo = worktrees.repo;
    let Some(mut git) = worktrees.events.git() else {
        return Err(Error::failed("the real Git merges, and there is none"));
    };
    worktrees.events.before_program();
    trace::child("?", &[&["git"], &ARGS[..]].concat());
    git.args(ARGS).envs(repo.child_env()).current_dir(repo.child_dir());
    git.env("GIT_OBJECT_DIRECTORY", sys::by_path::realpath_forgiving(quarantine.path()));
    git.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    git.spawn().map_err(|error| cannot_run(&error))
}

/// Parses the output: for each merge its state, the tree, and the paths with conflicts, each with a
/// NUL, and another NUL. Returns `None` if it is incomplete.
fn parse(output: &[u8], count: usize) -> Option<Vec<Vec<BString>>> {
    let mut fields = output.split(|byte| *byte == 0);
    let mut merged = Vec::new();
    for _ in 0..count {
        fields.next().filter(|state| [&b"0"[..], b"1"].contains(state))?;
        let _tree = fields.next()?;
        let paths = fields.by_ref().take_while(|path| !path.is_empty()).map(BString::from).collect();
        merged.push(paths);
    }
    (fields.next() == Some(b"") && fields.next().is_none()).then_some(merged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_aside_are_their_own() {
        let side = |digit: &str| ObjectId::from_hex(format::HashKind::Sha1, digit.repeat(40).as_bytes());
        let sides = [side("1"), side("2")].map(|side| side.expect("hexadecimal"));
        let [one, two] = sides.map(|side| BString::from(format!("dir/a~{side}")));
        let numbered = BString::from(format!("b~{}_0", sides[1]));
        let paths = vec![one, "dir/a".into(), two, numbered, "c~d".into()];
        assert_eq!(own_names(paths, &sides), ["b", "c~d", "dir/a"]);
    }

    #[test]
    fn parses_what_git_prints() {
        let output = b"0\0aa\0a b\0c\0\x001\0bb\0\0";
        let expected = vec![vec![BString::from("a b"), "c".into()], Vec::new()];
        assert_eq!(parse(output, 2), Some(expected));
        assert_eq!(parse(output, 3), None);
        assert_eq!(parse(output, 1), None);
        assert_eq!(parse(b"", 0), Some(Vec::new()));
        assert_eq!(parse(&output[..9], 2), None);
    }
}
