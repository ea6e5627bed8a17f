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
type Case = CaseOn<Scene>;

/// A case with a scene of another kind.
type CaseOn<S> = (&'static str, fn(&S));

/// Runs all cases, two at a time. Lists the ones that failed.
fn play(cases: &[Case]) {
    play_on(cases, Scene::new);
}

/// Like [`play`], with a scene of another kind.
fn play_on<S>(cases: &[CaseOn<S>], scene: impl Fn() -> S + Sync) {
    struct Named<S>(&'static str, fn(&S));
    impl<S> std::fmt::Display for Named<S> {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }
    let all = cases.len();
    let cases = cases.iter().map(|(name, play)| Named(name, *play)).collect();
    crate::bounded(cases, all, |Named(_, play)| play(&scene()));
}
