//! The limits of the entries: by number and by age.

use sapwood::{
    Silent,
    checkpoint::{fork, list, undo::Goal},
};
use testkit::Sandbox;

use super::{NONE_LEFT, checkpoint, committed, redo, travel, undo};
use crate::open;

/// Entries by number and by age. The newest one stays.
#[test]
fn entries_expire() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    let numbers = || {
        let report = list::plan(&open(&repo), list::Request::default()).expect("a plan").run(&Silent);
        report.expect("a list").entries.iter().map(|listed| listed.entry.number).collect::<Vec<_>>()
    };
    for number in 1..=5 {
        repo.write("a", number.to_string());
        checkpoint(&repo, "");
    }
    repo.git(&["pack-refs", "--all"]);
    repo.git(&["config", "sapwood.checkpointKeep", "3"]);
    checkpoint(&repo, "");
    assert_eq!(numbers(), [4, 5, 6]);
    let refused = travel(&repo, Goal::Back(3), false).expect_err("expired");
    assert_eq!(refused, "nothing to undo: 3 back is asked for, and 2 are there");
    repo.git(&["config", "sapwood.checkpointExpire", "now"]);
    checkpoint(&repo, "");
    assert_eq!(numbers(), [7]);
}

/// A bad value is refused before anything is written, by each operation that could write.
#[test]
fn bad_limits_are_refused_first() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    checkpoint(&repo, "");
    repo.write("a", "2\n");
    let objects = || repo.git(&["count-objects", "-v"]).stdout;
    let before = (objects(), repo.git(&["for-each-ref"]).stdout);
    let number = "it is a number of entries, at least 1";
    let age = "it is 'never', 'now', or a time such as '2.weeks.ago'";
    for (key, value, message) in [
        ("Keep", "0", format!("bad value '0' for sapwood.checkpointKeep: {number}")),
        ("Keep", "-1", format!("bad value '-1' for sapwood.checkpointKeep: {number}")),
        ("Keep", "many", "bad numeric config value 'many' for 'sapwood.checkpointkeep'".into()),
        ("Keep", "", "bad numeric config value '' for 'sapwood.checkpointkeep'".into()),
        ("Keep", "99999999999", "bad numeric config value '99999999999' for 'sapwood.checkpointkeep'".into()),
        ("Keep", "99999999999999999999999", "bad numeric config value '99999999999999999999999'".into()),
        ("Expire", "0", format!("bad value '0' for sapwood.checkpointExpire: {age}")),
        ("Expire", "-3.days.ago", format!("bad value '-3.days.ago' for sapwood.checkpointExpire: {age}")),
        ("Expire", "0.days.ago", format!("bad value '0.days.ago' for sapwood.checkpointExpire: {age}")),
        ("Expire", "sometimes", format!("bad value 'sometimes' for sapwood.checkpointExpire: {age}")),
        ("Expire", "", format!("bad value '' for sapwood.checkpointExpire: {age}")),
        ("Expire", "99999999999999999999.days.ago", "bad value '99999999999999999999.days.ago'".into()),
    ] {
        let key = format!("sapwood.checkpoint{key}");
        repo.git(&["config", &key, value]);
        let repository = open(&repo);
        let refusals = [
            super::checkpoint::plan(&repository, Default::default()).map(drop).map_err(|e| e.to_string()),
            travel(&repo, Goal::Back(1), false).map(drop),
            fork::plan(&repository, fork::Request { name: "f".into(), ..Default::default() })
                .map(drop)
                .map_err(|error| error.to_string()),
        ];
        for refused in refusals {
            let refused = refused.expect_err("a bad value");
            assert!(refused.starts_with(&message), "{key}={value}: {refused}");
        }
        repo.git(&["config", "--unset", &key]);
    }
    assert_eq!((objects(), repo.git(&["for-each-ref"]).stdout), before);
    repo.git(&["config", "sapwood.checkpointKeep", "2147483647"]);
    repo.git(&["config", "sapwood.checkpointExpire", "9999.weeks.ago"]);
    checkpoint(&repo, "");
}

/// The place in the history and the way of redo stay, whatever the limits are.
#[test]
fn limits_keep_the_place_and_the_way_of_redo() {
    for (key, value) in [("Keep", "1"), ("Expire", "now")] {
        let sandbox = Sandbox::new();
        let repo = committed(&sandbox);
        for content in ["1", "2", "3", "4", "5"] {
            repo.write("a", content);
            checkpoint(&repo, content);
        }
        repo.git(&["config", &format!("sapwood.checkpoint{key}"), value]);
        travel(&repo, Goal::Back(3), false).expect("an undo");
        assert_eq!(repo.read("a"), "2");
        // Looking around is no change.
        checkpoint(&repo, "looked");
        checkpoint(&repo, "looked again");
        let report = list::plan(&open(&repo), list::Request::default()).expect("a plan").run(&Silent);
        let report = report.expect("a list");
        assert_eq!(report.place, Some(2));
        let numbers: Vec<u64> = report.entries.iter().map(|listed| listed.entry.number).collect();
        assert_eq!(numbers, [2, 3, 4, 5, 8], "{key}");
        for content in ["3", "4", "5"] {
            redo(&repo);
            assert_eq!(repo.read("a"), content, "{key}");
        }
        // At the end of the way only the last state is left.
        repo.write("a", "6");
        checkpoint(&repo, "");
        assert_eq!(travel(&repo, Goal::Back(1), false).expect_err("expired"), NONE_LEFT, "{key}");
    }
}

/// The limits do not take the state before an undo.
#[test]
fn small_limits_keep_the_state_before_an_undo() {
    for (key, value) in [("Keep", "1"), ("Expire", "now")] {
        let sandbox = Sandbox::new();
        let repo = committed(&sandbox);
        checkpoint(&repo, "");
        repo.git(&["config", &format!("sapwood.checkpoint{key}"), value]);
        repo.write("a", "never committed\n");
        undo(&repo);
        assert_eq!(repo.read("a"), "1\n");
        redo(&repo);
        assert_eq!(repo.read("a"), "never committed\n", "{key}");
    }
}
