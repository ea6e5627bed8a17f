use format::{
    HashKind, ObjectId,
    index::{Edit, Flags, NewEntry, Stage, Stat},
};

use super::*;

fn parse(specs: &[&str], prefix: &str) -> Result<Pathspecs, Error> {
    let specs: Vec<BString> = specs.iter().map(|&spec| spec.into()).collect();
    Pathspecs::parse(&specs, prefix.into(), "/top".into(), Defaults::default())
}

fn matched(specs: &[&str], prefix: &str) -> Vec<&'static str> {
    const PATHS: [&str; 8] = ["a", "a.c", "d", "dir/a.c", "dir/sub/b.c", "dir/sub/deep/c.h", "dirx", "X.C"];
    let specs = parse(specs, prefix).expect("valid");
    let mut seen = Seen::default();
    PATHS.into_iter().filter(|&path| specs.matches(path.into(), &mut seen)).collect()
}

#[test]
fn matches_names_directories_and_wildcards() {
    assert_eq!(matched(&["a"], ""), ["a"]);
    assert_eq!(matched(&["dir"], ""), ["dir/a.c", "dir/sub/b.c", "dir/sub/deep/c.h"]);
    assert_eq!(matched(&["dirx/"], ""), [""; 0]);
    assert_eq!(matched(&["."], "dir/sub/"), ["dir/sub/b.c", "dir/sub/deep/c.h"]);
    assert_eq!(matched(&["*.c"], ""), ["a.c", "dir/a.c", "dir/sub/b.c"]);
    assert_eq!(matched(&["*.c"], "dir/"), ["dir/a.c", "dir/sub/b.c"]);
    assert_eq!(matched(&["../a?c"], "dir/"), ["a.c"]);
    assert_eq!(matched(&["/top/dir/a.c"], ""), ["dir/a.c"]);
}

#[test]
fn finds_the_common_directory() {
    let common =
        |specs: &[&str], prefix: &str| parse(specs, prefix).expect("valid").common_directory().to_owned();
    assert_eq!(common(&["d/*", "d/e/f"], "in/"), "in/d/");
    assert_eq!(common(&["d/*"], "in/[ab]/"), "in/[ab]/");
}

#[test]
fn parses_magic() {
    assert_eq!(matched(&[":/a"], "dir/"), ["a"]);
    assert_eq!(matched(&[":(glob)*.c"], ""), ["a.c"]);
    assert_eq!(matched(&[":(glob)**/*.c"], ""), ["a.c", "dir/a.c", "dir/sub/b.c"]);
    assert_eq!(matched(&[":(glob)dir/**"], ""), ["dir/a.c", "dir/sub/b.c", "dir/sub/deep/c.h"]);
    assert_eq!(matched(&[":(glob)dir/**/c.h"], ""), ["dir/sub/deep/c.h"]);
    assert_eq!(matched(&[":(icase)x.c"], ""), ["X.C"]);
    assert_eq!(matched(&[":(literal)*.c"], ""), [""; 0]);
    assert_eq!(matched(&["dir", ":!*.h"], ""), ["dir/a.c", "dir/sub/b.c"]);
    assert_eq!(matched(&[":^dir"], ""), ["a", "a.c", "d", "dirx", "X.C"]);
    assert_eq!(matched(&[":(icase,prefix:4)dir/A.C"], ""), ["dir/a.c"]);
    assert_eq!(matched(&[":(icase,prefix:4)DIR/A.C"], ""), [""; 0]);
    assert_eq!(matched(&[":(prefix:5)dir/*"], ""), [""; 0]);
    assert_eq!(matched(&[":(prefix:-5)./a"], "dir/"), ["dir/a.c"; 0]);
    assert_eq!(matched(&[":(prefix:-5)../a"], "dir/"), ["a"]);
    for from_the_root in [":/./a", ":(prefix:)./a", ":(top)/top/a"] {
        assert_eq!(matched(&[from_the_root], ""), [""; 0]);
    }
}

#[test]
fn plain_paths_select_ranges_of_the_index() {
    let mut index = Index::empty(HashKind::Sha1);
    let content = NewEntry {
        stat: Stat::default(),
        oid: ObjectId::null(HashKind::Sha1),
        mode: Mode::FILE,
        flags: Flags::empty(),
        stage: Stage::Normal,
    };
    let paths = ["a", "d.c", "d/a", "d/b", "d0", "e", "f/g", "h"];
    let edit = |path: &str| Edit { path: path.into(), entries: vec![content] };
    index.apply(paths.map(edit).into());
    let ranges = |specs: &[&str]| parse(specs, "").expect("valid").ranges(&index);
    assert_eq!(ranges(&["h", "a", "none"]), [0..1, 7..8]);
    assert_eq!(ranges(&["d", "d/b", "d/a", "h"]), [2..4, 7..8]);
    assert_eq!(ranges(&["d0", "d/", "f"]), [2..5, 6..7]);
    assert!(ranges(&["none"]).is_empty());
    let all = 0..paths.len();
    for specs in [&[][..], &["a", "*.c"], &[":!a"], &[":(icase)A", "h"]] {
        assert_eq!(ranges(specs), std::slice::from_ref(&all), "{specs:?}");
    }
}

#[test]
fn refuses_invalid_pathspecs() {
    let message = |spec: &str, prefix: &str| parse(&[spec], prefix).expect_err("refused").message;
    assert!(message("", "").starts_with(b"empty string is not a valid pathspec."));
    assert_eq!(message("../x", ""), "../x: '../x' is outside repository at '/top'");
    assert_eq!(message("/topless", ""), "/topless: '/topless' is outside repository at '/top'");
    assert_eq!(message(":(wrong)x", ""), "Invalid pathspec magic 'wrong' in ':(wrong)x'");
    assert_eq!(message(":(attr:)x", ""), "attr spec must not be empty");
    assert_eq!(message(":(attr:a,attr:b)x", ""), "Only one 'attr:' specification is allowed.");
    assert_eq!(message(":(attr:a !-b)x", ""), "invalid attribute name -b");
    assert_eq!(message(":(attr:a=b*)x", ""), "cannot use '*' for value matching");
    assert_eq!(message(":(attr:a=b\\(x", ""), "cannot use '(' for value matching");
    assert_eq!(
        message(":(attr:a=b\\", ""),
        "Escape character '\\' not allowed as last character in attr value"
    );
    assert_eq!(message(":(attr:a=b\\,c", ""), "Missing ')' at the end of pathspec magic in ':(attr:a=b\\,c'");
    for number in ["x", " ", "+", "--1", "1k", "2\\"] {
        let spec = format!(":(prefix:{number},top)a");
        assert_eq!(message(&spec, ""), "invalid parameter for pathspec magic 'prefix'");
    }
    assert_eq!(message(":(prefix:0)a", "dir/"), "'prefix' magic is supposed to be used at worktree's root");
    for number in ["2", "2147483647", "4294967299"] {
        assert_eq!(message(&format!(":(prefix:{number})a"), ""), "error initializing pathspec_item");
    }
    assert_eq!(message(":(top", ""), "Missing ')' at the end of pathspec magic in ':(top'");
}

#[test]
fn remembers_pathspecs_that_matched_nothing() {
    let specs = parse(&["a", "nowhere", ":!d"], "").expect("valid");
    let mut seen = Seen::default();
    assert!(specs.matches("a".into(), &mut seen));
    assert_eq!(specs.unseen(&seen).collect::<Vec<_>>(), ["nowhere"]);
    assert!(!specs.may_match_below("other".into()));
    assert!(parse(&["dir/*.c"], "").expect("valid").may_match_below("dir".into()));
    assert!(parse(&["dir/a/b"], "").expect("valid").may_match_below("dir".into()));
}
