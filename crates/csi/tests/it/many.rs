//! Many volumes at once. `SAPWOOD_TEST_FULL` makes them 300 by 30 workers.

use std::{
    fs,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use tonic::{Code, Status};

use crate::scene::{Scene, names};

/// Repeats a call as a kubelet does. `may_pass` are the errors after which it may succeed.
fn repeat(scene: &Scene, what: &str, may_pass: &[Code], call: impl Fn() -> Result<(), Status>) {
    let mut last = None;
    for _ in 0..300 {
        match call() {
            Ok(()) => return,
            Err(status) if may_pass.contains(&status.code()) => last = Some(status),
            Err(status) => panic!("{what}: {status}\n{}", scene.log()),
        }
        thread::sleep(Duration::from_millis(100));
    }
    panic!("{what}: it never passed: {last:?}\n{}", scene.log());
}

/// Publishes and unpublishes volumes by some workers. Each volume gets a file.
fn come_and_go(scene: &Scene, volumes: usize, workers: usize, may_pass: &[Code]) {
    let (next, kept) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= volumes {
                return;
            }
            let id = format!("v{number}");
            let commit = ["main", "topic", "one"][number % 3];
            let unsaved = if number % 4 == 0 { "keep" } else { "discard" };
            let publish = || scene.publish(&id, &[("commit", commit), ("unsaved", unsaved)]);
            repeat(scene, &id, may_pass, publish);
            let target = scene.target(&id);
            assert_eq!(scene.git_in(&target, &["status", "--porcelain"]), "");
            fs::write(target.join("mine"), &id).expect("it can be written");
            if number % 5 == 0 {
                repeat(scene, &id, may_pass, publish);
                assert_eq!(fs::read_to_string(target.join("mine")).expect("a file"), id);
            }
            repeat(scene, &id, may_pass, || scene.unpublish(&id));
            kept.fetch_add(usize::from(number % 4 == 0), Ordering::Relaxed);
        }
    };
    thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    scene.assert_empty();
    assert_eq!(names(&scene.dir.join("state/kept")).len(), kept.load(Ordering::Relaxed));
}

/// Returns the number of volumes and of workers.
fn size(slice: (usize, usize)) -> (usize, usize) {
    if std::env::var_os("SAPWOOD_TEST_FULL").is_some() { (300, 30) } else { slice }
}

#[test]
fn volumes_come_and_go_at_once() {
    let (volumes, workers) = size((60, 6));
    let Some(scene) = Scene::start(&[]) else { return };
    come_and_go(&scene, volumes, workers, &[Code::Aborted]);
}

#[test]
fn volumes_come_and_go_while_the_service_is_killed() {
    let (volumes, workers) = size((30, 5));
    let Some(scene) = Scene::start(&[]) else { return };
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let killing = scope.spawn(|| {
            let mut kills = 0_u64;
            while !is_over.load(Ordering::Relaxed) {
                // The calls of more workers take longer, and each needs some that are not killed.
                let pause = Duration::from_millis(700 + kills * 131 % 900);
                thread::sleep(pause * u32::try_from(workers).expect("few") / 5);
                scene.restart();
                kills += 1;
            }
            kills
        });
        let may_pass = [Code::Aborted, Code::Unavailable, Code::Unknown, Code::Cancelled, Code::Internal];
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            come_and_go(&scene, volumes, workers, &may_pass);
        }));
        is_over.store(true, Ordering::Relaxed);
        assert!(killing.join().expect("no panic") > 0);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}
