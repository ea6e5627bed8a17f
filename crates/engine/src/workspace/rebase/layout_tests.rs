use format::{HashKind, Mode, ObjectId};

use super::*;
use crate::{
    checkout::{Premise, Removal, Write},
    workspace::rebase::Stamp,
};

const LEAF: Node = Node::Leaf(Stamp::ZERO);
const MERGED: Node = Node::Directory(Below::Merged);
const OPAQUE: Node = Node::Directory(Below::Opaque);
const REDIRECTED: Node = Node::Directory(Below::Redirected);

fn oid(content: u8) -> ObjectId {
    ObjectId::from_bytes(HashKind::Sha1, &[content; 20]).expect("20 bytes")
}

/// Returns an index with these files. A number represents the content.
fn index(files: &[(&str, u8)]) -> Index {
    let mut index = Index::empty(HashKind::Sha1);
    for (path, content) in files {
        let stat = Stat { ino: 7, ..Stat::default() };
        let entry = NewEntry {
            stat,
            oid: oid(*content),
            mode: Mode::FILE,
            flags: Flags::empty(),
            stage: Stage::Normal,
        };
        index.push((*path).into(), entry);
    }
    index
}

#[derive(Default)]
struct Case<'a> {
    old: &'a [(&'a str, u8)],
    new: &'a [(&'a str, u8)],
    after: &'a [(&'a str, u8)],
    writes: &'a [&'a str],
    removals: &'a [&'a str],
    /// Removals of paths without a file.
    missing: &'a [&'a str],
    upper: &'a [(&'a str, Node)],
    renamed: &'a [&'a str],
    empty: &'a [&'a str],
    dirty: &'a [&'a str],
}

impl Case<'_> {
    fn plan(&self) -> Plan {
        let index = index(self.after);
        let position = |path: &&str| index.position((*path).into(), Stage::Normal).expect("an entry");
        let writes =
            self.writes.iter().map(|path| Write { entry: position(path), premise: Premise::Anything });
        let removal = |path: &str, premise| Removal { path: path.into(), premise, gitlink: false };
        let missing = self.missing.iter().map(|path| removal(path, Premise::Absent));
        let removals = self.removals.iter().map(|path| removal(path, Premise::Anything)).chain(missing);
        let (writes, removals) = (writes.collect(), removals.collect());
        Plan { index, writes, removals, warnings: Vec::new() }
    }

    fn layout(&self) -> Layout {
        let plan = self.plan();
        let own = |paths: &[&str]| paths.iter().map(|path| BString::from(*path)).collect::<Vec<_>>();
        Layout::of(&Inputs {
            old: &index(self.old),
            new: &index(self.new),
            plan: &plan,
            upper: &Upper::of(self.upper),
            renamed: &own(self.renamed),
            empty: &own(self.empty),
            umask: 0o666,
            is_clean: &|entry| !self.dirty.iter().any(|path| plan.index.path(entry) == *path),
        })
    }

    #[track_caller]
    fn gives(&self, moves: &[&str], copies: &[&str], whiteouts: &[&str]) {
        let layout = self.layout();
        let shown = |paths: &[BString]| paths.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(shown(&layout.moves), moves, "moves");
        assert_eq!(shown(&layout.copies), copies, "copies");
        assert_eq!(shown(&layout.whiteouts), whiteouts, "whiteouts");
    }
}

#[test]
fn changes_move_and_clean_files_are_dropped() {
    let case = Case {
        old: &[("a", 1), ("b", 1), ("c", 1), ("d/a", 1)],
        new: &[("a", 1), ("b", 2), ("c", 2), ("d/a", 1)],
        after: &[("a", 1), ("b", 2), ("c", 2), ("d/a", 1)],
        writes: &["b"],
        upper: &[(".git", LEAF), ("a", LEAF), ("b", LEAF), ("c", LEAF), ("d", MERGED), ("d/new", LEAF)],
        dirty: &["a"],
        ..Case::default()
    };
    case.gives(&[".git", "a", "d/new"], &[], &[]);
    let after = index(case.after);
    let edits = case.layout().edits(&index(case.new), &after);
    let paths: Vec<_> = edits.iter().map(|edit| edit.path.to_string()).collect();
    assert_eq!(paths, ["a"]);
    assert_eq!(edits[0].entries[0].stat, Stat::default());
}

#[test]
fn a_private_file_stays_private() {
    let mut private = Stamp::ZERO;
    private.permissions = 0o600;
    let case = Case {
        old: &[("a", 1)],
        new: &[("a", 1)],
        after: &[("a", 1)],
        upper: &[("a", Node::Leaf(private))],
        ..Case::default()
    };
    case.gives(&["a"], &[], &[]);
}

#[test]
fn deletions_are_hidden_where_the_new_base_has_them() {
    let case = Case {
        old: &[("a", 1), ("b", 1), ("d/a", 1), ("d/b", 1), ("e/a", 1)],
        new: &[("a", 1), ("d/a", 1), ("d/b", 1), ("e/a", 1), ("e/b", 1)],
        after: &[("a", 1), ("d/a", 1), ("d/b", 1), ("e/a", 1), ("e/b", 1)],
        writes: &["e/b"],
        removals: &["b"],
        upper: &[("a", Node::Whiteout), ("d", Node::Whiteout), ("e", MERGED), ("e/a", Node::Whiteout)],
        ..Case::default()
    };
    case.gives(&[], &[], &["a", "d", "e/a"]);
}

#[test]
fn empty_directories_stay_and_hide_nothing_else() {
    let case = Case {
        old: &[("d/a", 1), ("d/b", 1)],
        new: &[("d/a", 1), ("d/b", 1)],
        after: &[("d/a", 1), ("d/b", 1)],
        upper: &[("d", MERGED), ("d/a", Node::Whiteout), ("d/b", Node::Whiteout), ("none", MERGED)],
        empty: &["d", "none"],
        ..Case::default()
    };
    case.gives(&["none"], &[], &["d/a", "d/b"]);
    assert_eq!(case.layout().directories, ["d"]);
}

#[test]
fn files_of_the_old_base_that_stay_are_copied() {
    // A commit untracked "a". In the new index, "b" keeps its content from the old base. "c" is
    // equal in both bases.
    let case = Case {
        old: &[("a", 1), ("b", 1), ("c", 1), ("gone", 1)],
        new: &[("b", 2), ("c", 1)],
        after: &[("b", 1), ("c", 1)],
        removals: &["gone"],
        ..Case::default()
    };
    case.gives(&[], &["a", "b"], &[]);
}

#[test]
fn directories_of_the_user_move_whole() {
    let case = Case {
        old: &[("d/a", 1)],
        new: &[("d/a", 1), ("e/a", 1)],
        after: &[("d/a", 1), ("e/a", 1)],
        writes: &["e/a"],
        upper: &[
            ("d", MERGED),
            ("d/target", MERGED),
            ("d/target/deep", MERGED),
            ("d/target/deep/file", LEAF),
            ("e", MERGED),
            ("e/own", LEAF),
            ("moved", REDIRECTED),
            ("moved/d", MERGED),
            ("moved/d/new", LEAF),
            ("moved/new", LEAF),
            ("out", OPAQUE),
            ("out/inner", REDIRECTED),
            ("out/inner/new", LEAF),
            ("out/plain", MERGED),
            ("out/plain/file", LEAF),
        ],
        renamed: &["moved/a", "out/inner/a"],
        ..Case::default()
    };
    case.gives(
        &["d/target", "e/own", "moved/d/new", "moved/new", "out/inner/new", "out/plain"],
        &["moved/a", "out/inner/a"],
        &[],
    );
}

#[test]
fn renamed_directories_are_copied_and_hidden_at_their_old_place() {
    let case = Case {
        old: &[("d/a", 1), ("d/b", 1)],
        new: &[("d/a", 1), ("d/b", 1)],
        after: &[("m/a", 1), ("m/b", 1)],
        upper: &[("d", Node::Whiteout), ("m", REDIRECTED)],
        renamed: &["m/a", "m/b"],
        ..Case::default()
    };
    case.gives(&[], &["m/a", "m/b"], &["d"]);
    let edits = case.layout().edits(&index(case.new), &index(case.after));
    let shown: Vec<_> = edits.iter().map(|edit| (edit.path.to_string(), edit.entries.len())).collect();
    let pairs = [("d/a", 0), ("d/b", 0), ("m/a", 1), ("m/b", 1)];
    assert_eq!(shown, pairs.map(|(path, count)| (path.to_owned(), count)));
}

#[test]
fn ignored_files_in_the_way_are_given_up() {
    // A file replaces an ignored directory, and a directory replaces an ignored file.
    let case = Case {
        new: &[("d", 1), ("f/a", 1)],
        after: &[("d", 1), ("f/a", 1)],
        writes: &["d", "f/a"],
        upper: &[("d", MERGED), ("d/x", LEAF), ("f", LEAF)],
        ..Case::default()
    };
    case.gives(&[], &[], &[]);
}

#[test]
fn a_file_of_the_user_hides_a_directory_of_the_new_base() {
    let case = Case {
        old: &[("d/a", 1)],
        new: &[("d/a", 1), ("d/b", 1)],
        after: &[("d/a", 1), ("d/b", 1)],
        upper: &[("d", LEAF)],
        dirty: &["d/a"],
        ..Case::default()
    };
    case.gives(&["d"], &[], &[]);
}

/// As in a worktree, where a switch removes a directory that is empty once its last entry is gone.
#[test]
fn an_empty_directory_goes_with_an_entry_without_a_file() {
    let case = Case {
        old: &[("e/f/a", 1), ("g/a", 1), ("k/n/a", 1)],
        missing: &["e/f/a", "k/n/a"],
        upper: &[
            (".git", LEAF),
            ("e", MERGED),
            ("e/f", MERGED),
            ("e/f/a", Node::Whiteout),
            ("k", MERGED),
            ("k/n", Node::Whiteout),
        ],
        empty: &["e/f", "h", "k"],
        removals: &["g/a"],
        ..Case::default()
    };
    case.gives(&[".git"], &[], &[]);
    assert_eq!(case.layout().directories, ["h", "k"]);
}

/// A file of the user at a path that the plan found free.
#[test]
fn a_file_at_the_path_of_an_entry_without_a_file_moves() {
    let case = Case { missing: &["e/a"], upper: &[("e", MERGED), ("e/a", LEAF)], ..Case::default() };
    case.gives(&["e/a"], &[], &[]);
}
