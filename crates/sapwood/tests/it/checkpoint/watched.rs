//! The watcher, in a program of somebody else: what happens beside it, and its end.

use std::{
    cell::Cell,
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use sapwood::{Events, Notice, Silent, checkpoint::watch};
use testkit::{Repo, Sandbox};

use super::committed;
use crate::open;

/// A pause that no test waits for.
const PAUSE: Duration = Duration::from_secs(120);

/// The watcher ends long before this, which is before the pause.
const SOON: Duration = Duration::from_secs(60);

/// Time for the watcher to begin the pause. If it takes longer, the test proves less.
const BEGINNING: Duration = Duration::from_secs(2);

fn linked<'s>(sandbox: &'s Sandbox, repo: &Repo<'_>) -> Repo<'s> {
    repo.git(&["worktree", "add", "-q", "--detach", "../linked"]);
    sandbox.repo("linked")
}

/// Takes the worktree away while the watcher reads the settings, and puts it back later.
struct Unmounted {
    top: PathBuf,
    away: PathBuf,
    is_away: Cell<bool>,
    interrupt: Arc<AtomicBool>,
}

impl Events for Unmounted {
    fn notice(&self, notice: Notice) {
        if matches!(notice, Notice::Fsync(_)) && !self.is_away.replace(true) {
            fs::rename(&self.top, &self.away).expect("moved");
            fs::create_dir(&self.top).expect("a directory");
        }
        if let Notice::WatchPauses(reason) = notice {
            assert!(reason.ends_with("is not the worktree that was watched"), "{reason}");
            fs::remove_dir(&self.top).expect("nobody wrote there");
            fs::rename(&self.away, &self.top).expect("moved");
            self.interrupt.store(true, Ordering::Relaxed);
        }
    }
}

/// The directory below a mount point is empty. No entry says that all files are gone.
#[test]
fn a_worktree_that_is_replaced_meanwhile_gets_no_entry() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    // Each time that the settings are read, a notice says that this one is deprecated.
    repo.git(&["config", "core.fsyncObjectFiles", "true"]);
    let linked = linked(&sandbox, &repo);
    let repository = open(&linked);
    let plan = watch::plan(&repository, watch::Request::default()).expect("a plan");
    let events = Unmounted {
        top: linked.path.clone(),
        away: sandbox.path().join("away"),
        is_away: Cell::new(false),
        interrupt: repository.interrupt(),
    };
    let ended = plan.run(&events, &mut |made| panic!("an entry of an empty directory: {made:?}"));
    assert_eq!(ended.expect_err("the interrupt").to_string(), "interrupted");
    assert!(events.is_away.get() && linked.exists("a"));
    assert_eq!(repo.git(&["for-each-ref", "refs/sapwood"]).stdout, "");
}

/// Runs `beside` in another thread while a watcher is in its pause. Returns the end of the watcher.
fn end_in_a_pause(
    watched: &Repo<'_>,
    beside: impl FnOnce(Arc<AtomicBool>) + Send + 'static,
) -> Result<watch::Report, String> {
    let repository = open(watched);
    let request = watch::Request { settle: PAUSE, ..watch::Request::default() };
    let plan = watch::plan(&repository, request).expect("a plan");
    let begun = Instant::now();
    let mut waiting = Some((beside, repository.interrupt()));
    let ended = plan.run(&Silent, &mut |made| {
        assert_eq!(made.number, 1, "the pause is not over");
        watched.write("a", "changed\n");
        let (beside, interrupt) = waiting.take().expect("the first entry");
        thread::spawn(move || {
            thread::sleep(BEGINNING);
            beside(interrupt);
        });
    });
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    ended.map_err(|error| error.to_string())
}

#[test]
fn an_interrupt_ends_a_long_pause() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    let ended = end_in_a_pause(&repo, |interrupt| interrupt.store(true, Ordering::Relaxed));
    assert_eq!(ended.expect_err("the interrupt"), "interrupted");
}

#[test]
fn the_end_of_the_worktree_ends_a_long_pause() {
    let sandbox = Sandbox::new();
    let repo = committed(&sandbox);
    let linked = linked(&sandbox, &repo);
    let git_dir = repo.join(".git/worktrees/linked");
    let ended = end_in_a_pause(&linked, |_| fs::remove_dir_all(git_dir).expect("removed"));
    assert_eq!(ended.expect("a report").made, 1);
}
