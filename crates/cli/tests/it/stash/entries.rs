//! The entries: `list`, `show`, `drop`, `clear`, `create`, `store`.

use super::Pair;

/// Creates three stash entries.
fn three() -> Pair {
    let pair = Pair::new();
    for message in ["one", "two", "three"] {
        pair.both(&format!("echo {message} >a; git stash -q -m {message}"));
    }
    pair
}

#[test]
fn lists_and_shows() {
    let pair = Pair::new();
    pair.native(&["list"]).same(&["show"]);
    let pair = three();
    pair.native(&["list"]).same(&["list", "-p"]).same(&["list", "-1"]).same(&["list", "--format=%H"]);
    pair.same(&["show"]).same(&["show", "-p", "stash@{1}"]).same(&["show", "9"]);
    pair.both("git config log.date iso").same(&["list"]);
    pair.both("git config --unset log.date; git branch stash").same(&["list"]);
}

#[test]
fn drops_entries() {
    for form in [
        &["drop"][..],
        &["drop", "0"],
        &["drop", "1"],
        &["drop", "stash@{2}"],
        &["drop", "-q", "refs/stash@{1}"],
        &["drop", "3"],
        &["drop", "stash"],
        &["drop", "stash@{one}"],
        &["drop", "stash@{0}", "stash@{1}"],
        &["drop", "HEAD"],
        &["drop", "nonsense"],
        &["pop", "HEAD"],
        &["pop", "1"],
        &["apply", "stash@{2}"],
        &["apply", "stash^{commit}"],
        &["apply", "stash@{0}", "stash@{1}"],
        &["clear"],
        &["clear", "x"],
    ] {
        let pair = three();
        println!("{form:?}");
        pair.same(form).native(&["list"]);
    }
    let pair = three();
    pair.native(&["drop", "1"]).native(&["drop"]).native(&["drop"]).native(&["drop"]).native(&["list"]);
    three().native(&["clear"]).native(&["clear"]).native(&["clear", "x"]).native(&["drop"]);
    three().both("git pack-refs --all").native(&["drop", "-q", "2"]).native(&["clear"]);
}

#[test]
fn creates_and_stores() {
    let pair = three();
    pair.native(&["create"]).both("echo 4 >a; echo n >new; git add new; echo u >u");
    pair.native(&["create"]).native(&["create", "a", "message"]).same(&["create", "-m", "x"]);
    pair.both("git stash create >../commit");
    for form in [
        &["store"][..],
        &["store", "-q"],
        &["store", "nonsense"],
        &["store", "HEAD"],
        &["store", "-q", "HEAD"],
        &["store", "-m", "again", "stash@{1}"],
        &["store", "stash@{2}"],
        &["store", "a", "b"],
    ] {
        println!("{form:?}");
        pair.same(form).native(&["list"]);
    }
    pair.native(&["store", "-m", "again", "stash@{1}"]);
}

#[test]
fn names_heads_of_all_kinds() {
    for script in [
        "git checkout -q --detach",
        "git checkout -q -b some/branch",
        "git commit -q --allow-empty --allow-empty-message -m ''",
        "git commit -q --allow-empty -m 'subject\n\nbody'",
        "git config core.abbrev 12",
    ] {
        println!("{script}");
        let pair = Pair::new();
        pair.both(script).both("echo 3 >a").native(&[]).native(&["list"]).native(&["pop"]);
        pair.native(&["push", "-m", ""]).native(&["push", "-m", "x"]);
    }
}

#[test]
fn leaves_other_command_lines_to_git() {
    let pair = three();
    for form in
        [&["nonsense"][..], &["-h"], &["push", "-h"], &["-q", "pop"], &["export", "--print"], &["pop", "-x"]]
    {
        pair.same(form);
    }
}
