//! The commands during which the power fails.

use testkit::Repo;

/// A repository and commands in it.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// Makes the repository with Git. All of it is durable before the first command.
    pub(crate) prepare: fn(&Repo<'_>),
    pub(crate) steps: &'static [Step],
}

/// A command.
pub(crate) struct Step {
    pub(crate) args: &'static [&'static str],
    /// Its standard input.
    pub(crate) input: &'static str,
}

pub(crate) const fn step(args: &'static [&'static str]) -> Step {
    Step { args, input: "" }
}

/// The name of the scenario with the fewest operations.
pub(crate) const SHORTEST: &str = "update-index";

pub(crate) const SCENARIOS: &[Scenario] = &[Scenario {
    name: SHORTEST,
    prepare: base,
    steps: &[
        step(&["update-index", "--force-remove", "dir/file"]),
        step(&["update-index", "--chmod=+x", "file"]),
    ],
}];

pub(crate) fn base(repo: &Repo<'_>) {
    repo.write("file", "one\n");
    repo.write("dir/file", "more\n");
    repo.commit("one");
    repo.git(&["branch", "side"]);
    repo.write("file", "two\n");
    repo.commit("two");
}

pub(crate) fn new_files(repo: &Repo<'_>) {
    base(repo);
    repo.write("new", "new\n");
    repo.write("dir/new", "another\n");
}
