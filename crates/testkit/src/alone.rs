//! Steps that each run in a process of their own, because they test a state of the process.

use std::process::Command;

/// Set in the processes that [`each_alone`] starts.
const STEP: &str = "SAPWOOD_TEST_STEP";

/// Runs each step in a new process of this test program. `test` is the full name of the test that
/// calls this.
pub fn each_alone(test: &str, steps: &[(&str, fn())]) {
    if let Some(name) = std::env::var_os(STEP) {
        let (_, step) = steps.iter().find(|(step, _)| name == *step).expect("a step of this test");
        return step();
    }
    for (name, _) in steps {
        let mut program = Command::new(std::env::current_exe().expect("this program"));
        let output = program.args(["--exact", test]).env(STEP, name).output().expect("it starts");
        let [said, errors] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        assert!(output.status.success() && said.contains("1 passed"), "{name}: {said}{errors}");
    }
}
