//! Entries that must not expire yet, and refs that no transaction removes.

use sapwood::checkpoint::undo::Goal;
use testkit::{Repo, Sandbox};

use super::{checkpoint, committed, travel};

fn names(repo: &Repo<'_>) -> String {
    repo.git(&["for-each-ref", "--format=%(refname:lstrip=4)", "refs/sapwood"]).stdout.to_string()
}

/// Another undo that holds the index has saved a state, and may be on its way to any other one.
#[test]
fn nothing_expires_while_the_index_is_locked() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    for content in ["1", "2", "3"] {
        repo.write("a", content);
        checkpoint(&repo, content);
    }
    repo.git(&["config", "sapwood.checkpointKeep", "1"]);
    repo.write(".git/index.lock", "");
    repo.write("a", "4");
    checkpoint(&repo, "");
    assert_eq!(names(&repo), "1\n2\n3\n4\n");
    repo.remove(".git/index.lock");
    repo.write("a", "5");
    checkpoint(&repo, "");
    assert_eq!(names(&repo), "5\n");
    // The lock of an undo itself is no obstacle: its last entries go, except the ways of redo.
    for content in ["6", "8"] {
        repo.write("a", content);
        travel(&repo, Goal::To(5), false).expect("an undo");
    }
    assert_eq!(names(&repo), "5\n8\n9\n");
}

/// A ref without a value, which a crash of a machine without flushes leaves.
#[test]
fn broken_refs_expire() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    for content in ["1", "2", "3"] {
        repo.write("a", content);
        checkpoint(&repo, content);
    }
    let file = |number: u32| format!(".git/refs/sapwood/checkpoints/main/{number}");
    let log = |number: u32| format!(".git/logs/refs/sapwood/checkpoints/main/{number}");
    repo.write(file(1), "");
    repo.write(file(2), "garbage\n");
    checkpoint(&repo, "");
    assert!(repo.exists(file(1)) && repo.exists(file(2)) && repo.exists(log(1)));
    repo.git(&["config", "sapwood.checkpointKeep", "3"]);
    checkpoint(&repo, "");
    assert!(!repo.exists(file(1)) && !repo.exists(log(1)) && !repo.exists(file(2)));
    assert_eq!(names(&repo), "3\n4\n5\n");
    // A lock of another process is respected.
    repo.write(file(3), "");
    repo.write(format!("{}.lock", file(3)), "");
    repo.git(&["config", "sapwood.checkpointKeep", "1"]);
    checkpoint(&repo, "");
    assert!(repo.exists(file(3)));
    repo.remove(format!("{}.lock", file(3)));
    checkpoint(&repo, "");
    assert_eq!(names(&repo), "7\n");
}
