//! Faults between a remote and a host. After each fault: the exit code, the message, and
//! the state; then the cause is taken away and the same command succeeds.

mod damaged;
mod disks;
mod killed;
mod lines;
mod refused;
mod scene;

use scene::Scene;

/// A case of the table.
type Case = (&'static str, fn(&Scene));

/// Runs all cases, two at a time. Lists the ones that failed.
fn play(cases: &[Case]) {
    struct Named(Case);
    impl std::fmt::Display for Named {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0.0)
        }
    }
    let all = cases.len();
    crate::bounded(cases.iter().map(|case| Named(*case)).collect(), all, |case| {
        (case.0.1)(&Scene::new());
    });
}
