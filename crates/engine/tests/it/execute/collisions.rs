//! Collisions of two names on a file system that ignores case.

use engine::checkout::Premise;

use super::fixture::{Fixture, Item, Mount, kinds};

/// Runs a test on a case-insensitive file system. With 8 workers it runs several times, because the
/// order of workers varies.
fn on_case_insensitive(test: impl Fn(&Fixture)) {
    for workers in [1, 8, 8, 8] {
        let Some(fixture) = Fixture::on(Mount::ignoring_case, workers) else { return };
        test(&fixture);
    }
}

/// Returns paths in lower case, because the file system may return either case. All files are
/// executable on that file system. A file that is unlinked but not yet released exists for a moment
/// as a "ghost".
fn lower_case_tree(fixture: &Fixture) -> Vec<(String, String)> {
    let plain = |content: String| content.trim_start_matches("x ").to_owned();
    let found = fixture.tree().into_iter().filter(|(path, _)| !path.contains(".ghost-ntfs-3g"));
    found.map(|(path, content)| (path.to_lowercase(), plain(content))).collect()
}

#[test]
fn keeps_the_last_in_index_order() {
    on_case_insensitive(|fixture| {
        let plan = fixture.writes(&[
            ("FILE", Item::File("1"), Premise::Absent),
            ("File", Item::File("2"), Premise::Absent),
            ("file", Item::File("3"), Premise::Absent),
            ("other", Item::File("o"), Premise::Absent),
        ]);
        let report = fixture.execute(&plan);
        assert_eq!(kinds(&report.writes), ["collided, gone", "collided, gone", "collided, here", "written"]);
        assert_eq!(report.collided().collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(lower_case_tree(fixture), [("file".into(), "3".into()), ("other".into(), "o".into())]);
    });
}

#[test]
fn merges_directories_and_reports_colliding_files() {
    on_case_insensitive(|fixture| {
        let plan = fixture.writes(&[
            ("DIR/a", Item::File("1"), Premise::Absent),
            ("DIR/b", Item::File("2"), Premise::Absent),
            ("dir/a", Item::File("3"), Premise::Absent),
            ("dir/c", Item::File("4"), Premise::Absent),
        ]);
        let report = fixture.execute(&plan);
        assert_eq!(kinds(&report.writes), ["collided, gone", "written", "collided, here", "written"]);
        let expected = [("dir/a", "3"), ("dir/b", "2"), ("dir/c", "4")];
        assert_eq!(lower_case_tree(fixture), expected.map(|(path, content)| (path.into(), content.into())));
    });
}

#[test]
fn a_later_file_replaces_a_directory() {
    on_case_insensitive(|fixture| {
        let plan = fixture.writes(&[
            ("A/x", Item::File("1"), Premise::Absent),
            ("A/y/z", Item::File("2"), Premise::Absent),
            ("a", Item::File("3"), Premise::Absent),
        ]);
        let report = fixture.execute(&plan);
        // Git reports the first file of the replaced directory.
        assert_eq!(kinds(&report.writes), ["collided, gone", "removed", "collided, here"]);
        assert_eq!(lower_case_tree(fixture), [("a".into(), "3".into())]);
    });
}

#[test]
fn a_later_directory_replaces_a_file() {
    on_case_insensitive(|fixture| {
        let plan = fixture
            .writes(&[("A", Item::File("1"), Premise::Absent), ("a/x", Item::File("2"), Premise::Absent)]);
        let report = fixture.execute(&plan);
        // Git replaces files at leading directories without a message.
        assert_eq!(kinds(&report.writes), ["removed", "written"]);
        assert_eq!(lower_case_tree(fixture), [("a/x".into(), "2".into())]);
    });
}

#[test]
fn a_link_never_redirects_later_writes() {
    on_case_insensitive(|fixture| {
        let outside = fixture.worktree.with_file_name("outside");
        std::fs::create_dir(&outside).expect("a directory");
        let plan = fixture.writes(&[
            ("A/post-checkout", Item::Executable("evil"), Premise::Absent),
            ("a", Item::Link("../outside"), Premise::Absent),
        ]);
        let report = fixture.execute(&plan);
        assert_eq!(kinds(&report.writes)[1], "collided, gone");
        assert_eq!(std::fs::read_dir(&outside).expect("a directory").count(), 0);
        assert_eq!(lower_case_tree(fixture), [("a/post-checkout".into(), "evil".into())]);
    });
}

#[test]
fn a_foreign_file_is_stale_and_no_collision() {
    on_case_insensitive(|fixture| {
        fixture.put("README", "untracked");
        fixture.put("ignored", "untracked");
        let plan = fixture.writes(&[
            ("Ignored", Item::File("1"), Premise::Anything),
            ("ignoreD", Item::File("2"), Premise::Anything),
            ("readme", Item::File("tracked"), Premise::Absent),
        ]);
        let report = fixture.execute(&plan);
        assert_eq!(kinds(&report.writes), ["collided, gone", "collided, here", "stale"]);
        assert_eq!(
            lower_case_tree(fixture),
            [("ignored".into(), "2".into()), ("readme".into(), "untracked".into())]
        );
    });
}

#[test]
fn replaces_two_names_of_one_tracked_file_in_order() {
    on_case_insensitive(|fixture| {
        fixture.put("Name", "old");
        let plan = fixture.writes(&[
            ("Name", Item::File("1"), fixture.unchanged("Name")),
            ("name", Item::File("2"), fixture.unchanged("name")),
        ]);
        let report = fixture.execute(&plan);
        assert_eq!(kinds(&report.writes), ["collided, gone", "collided, here"]);
        assert_eq!(lower_case_tree(fixture), [("name".into(), "2".into())]);
    });
}
