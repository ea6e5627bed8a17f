//! Two names that are one, on a file system that ignores case.

use engine::checkout::Premise;

use super::fixture::{Fixture, Item, Mount, kinds};

/// Runs a test on a case-insensitive file system; more than once at 8 workers, as who comes first differs.
fn on_one(test: impl Fn(&Fixture)) {
    for workers in [1, 8, 8, 8] {
        let Some(fixture) = Fixture::on(Mount::ignoring_case, workers) else { return };
        test(&fixture);
    }
}

/// Paths in lower case, as the file system may answer with either; all files are executable there. What was
/// unlinked but is not yet released lives on for a moment as a "ghost".
fn folded(fixture: &Fixture) -> Vec<(String, String)> {
    let plain = |content: String| content.trim_start_matches("x ").to_owned();
    let found = fixture.tree().into_iter().filter(|(path, _)| !path.contains(".ghost-ntfs-3g"));
    found.map(|(path, content)| (path.to_lowercase(), plain(content))).collect()
}

#[test]
fn the_last_in_index_order_survives() {
    on_one(|fixture| {
        let plan = fixture.writes(&[
            ("FILE", Item::File("1"), Premise::Absent),
            ("File", Item::File("2"), Premise::Absent),
            ("file", Item::File("3"), Premise::Absent),
            ("other", Item::File("o"), Premise::Absent),
        ]);
        let report = fixture.execute(&plan);
        assert_eq!(kinds(&report.writes), ["collided, gone", "collided, gone", "collided, here", "written"]);
        assert_eq!(report.collided().collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(folded(fixture), [("file".into(), "3".into()), ("other".into(), "o".into())]);
    });
}

#[test]
fn directories_merge_and_their_files_collide() {
    on_one(|fixture| {
        let plan = fixture.writes(&[
            ("DIR/a", Item::File("1"), Premise::Absent),
            ("DIR/b", Item::File("2"), Premise::Absent),
            ("dir/a", Item::File("3"), Premise::Absent),
            ("dir/c", Item::File("4"), Premise::Absent),
        ]);
        let report = fixture.execute(&plan);
        assert_eq!(kinds(&report.writes), ["collided, gone", "written", "collided, here", "written"]);
        let expected = [("dir/a", "3"), ("dir/b", "2"), ("dir/c", "4")];
        assert_eq!(folded(fixture), expected.map(|(path, content)| (path.into(), content.into())));
    });
}

#[test]
fn a_file_that_comes_last_takes_the_place_of_a_directory() {
    on_one(|fixture| {
        let plan = fixture.writes(&[
            ("A/x", Item::File("1"), Premise::Absent),
            ("A/y/z", Item::File("2"), Premise::Absent),
            ("a", Item::File("3"), Premise::Absent),
        ]);
        let report = fixture.execute(&plan);
        // Of what was in the directory Git names the first.
        assert_eq!(kinds(&report.writes), ["collided, gone", "removed", "collided, here"]);
        assert_eq!(folded(fixture), [("a".into(), "3".into())]);
    });
}

#[test]
fn a_directory_that_comes_last_takes_the_place_of_a_file() {
    on_one(|fixture| {
        let plan = fixture
            .writes(&[("A", Item::File("1"), Premise::Absent), ("a/x", Item::File("2"), Premise::Absent)]);
        let report = fixture.execute(&plan);
        // Git makes way for leading directories without a word.
        assert_eq!(kinds(&report.writes), ["removed", "written"]);
        assert_eq!(folded(fixture), [("a/x".into(), "2".into())]);
    });
}

#[test]
fn a_link_does_not_lead_later_writes_elsewhere() {
    on_one(|fixture| {
        let outside = fixture.worktree.with_file_name("outside");
        std::fs::create_dir(&outside).expect("a directory");
        let plan = fixture.writes(&[
            ("A/post-checkout", Item::Executable("evil"), Premise::Absent),
            ("a", Item::Link("../outside"), Premise::Absent),
        ]);
        let report = fixture.execute(&plan);
        assert_eq!(kinds(&report.writes)[1], "collided, gone");
        assert_eq!(std::fs::read_dir(&outside).expect("a directory").count(), 0);
        assert_eq!(folded(fixture), [("a/post-checkout".into(), "evil".into())]);
    });
}

#[test]
fn somebody_elses_file_is_not_taken_for_a_collision() {
    on_one(|fixture| {
        fixture.put("README", "untracked");
        fixture.put("ignored", "untracked");
        let plan = fixture.writes(&[
            ("Ignored", Item::File("1"), Premise::Anything),
            ("ignoreD", Item::File("2"), Premise::Anything),
            ("readme", Item::File("tracked"), Premise::Absent),
        ]);
        let report = fixture.execute(&plan);
        assert_eq!(kinds(&report.writes), ["collided, gone", "collided, here", "stale"]);
        assert_eq!(folded(fixture), [("ignored".into(), "2".into()), ("readme".into(), "untracked".into())]);
    });
}

#[test]
fn two_names_of_one_tracked_file_are_replaced_in_order() {
    on_one(|fixture| {
        fixture.put("Name", "old");
        let plan = fixture.writes(&[
            ("Name", Item::File("1"), fixture.unchanged("Name")),
            ("name", Item::File("2"), fixture.unchanged("name")),
        ]);
        let report = fixture.execute(&plan);
        assert_eq!(kinds(&report.writes), ["collided, gone", "collided, here"]);
        assert_eq!(folded(fixture), [("name".into(), "2".into())]);
    });
}
