//! The table of clients.

use crate::results::Format;

/// The registry of a client's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Registry {
    PyPI,
    Npm,
}

/// The source of a client's suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Suite {
    /// In the source archive or package in the registry.
    Published,
    /// Only in the client's own repository. It runs if its checkout is given.
    Checkout { tag: &'static str },
    /// The client publishes no suite; this program, a part of testkit, drives it.
    Driver { file: &'static str, text: &'static str },
}

/// One client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) name: &'static str,
    pub(crate) registry: Registry,
    pub(crate) package: &'static str,
    pub(crate) version: &'static str,
    /// Packages that its suite depends on.
    pub(crate) with: &'static [&'static str],
    pub(crate) suite: Suite,
    /// The subdirectory of the suite in which it runs.
    pub(crate) within: &'static str,
    /// Changes to the copy of the suite: the file, the old text, the new text.
    pub(crate) edits: &'static [(&'static str, &'static str, &'static str)],
    /// True if the suite expects to be in a repository, as it is for the client's developers.
    pub(crate) in_repository: bool,
    /// The command. `{results}` is replaced by the path of the JUnit file.
    pub(crate) run: &'static [&'static str],
    /// Arguments that select all tests.
    pub(crate) all: &'static [&'static str],
    /// Arguments that select the tests for CI; `None` if CI does not run the client.
    pub(crate) slice: Option<&'static [&'static str]>,
    pub(crate) results: Format,
    pub(crate) env: &'static [(&'static str, &'static str)],
    /// The minimum number of tests that must pass with git, so that a suite that did not run is an
    /// error.
    pub(crate) least: usize,
    pub(crate) least_in_slice: usize,
    /// The tests that `all` excludes, and the reasons.
    pub(crate) left_out: &'static [(&'static str, &'static str)],
}

const PYTEST: &[&str] = &["python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml={results}"];

/// Drivers compare output that contains commit names, so the commit dates are fixed.
const CLOCK: &[(&str, &str)] =
    &[("GIT_AUTHOR_DATE", "2026-01-02T03:04:05Z"), ("GIT_COMMITTER_DATE", "2026-01-02T03:04:05Z")];

/// The default values.
pub(crate) const PYTHON: Client = Client {
    name: "",
    registry: Registry::PyPI,
    package: "",
    version: "",
    with: &["pytest"],
    suite: Suite::Published,
    within: "",
    edits: &[],
    in_repository: false,
    run: PYTEST,
    all: &[],
    slice: None,
    results: Format::JUnit,
    env: &[],
    least: 1,
    least_in_slice: 1,
    left_out: &[],
};

/// Clients with the most Git calls come first.
pub(crate) const CLIENTS: &[Client] = &[
    Client {
        name: "dulwich",
        package: "dulwich",
        version: "1.2.21",
        // It starts Git with its own environment, which must pass on the path of the shim's log.
        edits: &[(
            "tests/compat/utils.py",
            "    env[\"PATH\"] = os.getenv(\"PATH\")\n",
            "    env[\"PATH\"] = os.getenv(\"PATH\")\n    env[\"SAPWOOD_SHIM_LOG\"] = os.getenv(\"SAPWOOD_SHIM_LOG\")\n",
        )],
        // The archive's own `dulwich` directory would hide the package that was built.
        run: &[
            "sh",
            "-c",
            "rm -rf dulwich && exec python -m pytest -q -p no:cacheprovider \"$@\"",
            "sh",
            "--junitxml={results}",
        ],
        with: &["pytest", "aiohttp"],
        all: &["tests/compat"],
        slice: Some(&[
            "tests/compat/test_am.py",
            "tests/compat/test_check_attr.py",
            "tests/compat/test_check_ignore.py",
            "tests/compat/test_gc.py",
            "tests/compat/test_index.py",
            "tests/compat/test_patch.py",
            "tests/compat/test_porcelain.py",
            "tests/compat/test_reftable.py",
            "tests/compat/test_repository.py",
        ]),
        least: 400,
        least_in_slice: 110,
        ..PYTHON
    },
    Client {
        name: "setuptools-scm",
        package: "setuptools_scm",
        version: "10.3.4",
        with: &["pytest", "pytest-timeout", "build", "setuptools", "wheel"],
        all: &["testing_scm"],
        least: 100,
        ..PYTHON
    },
    Client {
        name: "git-filter-repo",
        package: "git-filter-repo",
        version: "2.47.0",
        with: &[],
        within: "t",
        run: &["bash", "run_tests"],
        results: Format::Tap,
        least: 50,
        ..PYTHON
    },
    Client {
        name: "darker",
        package: "darker",
        version: "3.0.0",
        with: &[
            "pytest",
            "pytest-kwparametrize",
            "airium",
            "black",
            "defusedxml",
            "flynt",
            "isort",
            "pyupgrade",
            "regex",
            "ruamel.yaml",
            "ruff",
        ],
        all: &[
            "src/darker/tests/test_command_line.py",
            "src/darker/tests/test_git.py",
            "src/darker/tests/test_main.py",
            "src/darker/tests/test_main_format_edited_parts.py",
            "src/darker/tests/test_main_isort.py",
            "src/darker/tests/test_main_revision.py",
            "src/darker/tests/test_main_stdin_filename.py",
        ],
        least: 400,
        left_out: &[("other files", "they never or rarely call Git")],
        ..PYTHON
    },
    Client {
        name: "versioningit",
        package: "versioningit",
        version: "3.3.0",
        with: &[
            "pytest",
            "pytest-cov",
            "pytest-mock",
            "build",
            "editables",
            "hatchling",
            "pydantic",
            "setuptools",
            "wheel",
        ],
        // Its settings turn warnings into errors, and newer versions of pytest have more warnings.
        all: &["-W", "ignore::pytest.PytestRemovedIn10Warning", "test"],
        least: 100,
        ..PYTHON
    },
    Client {
        name: "dunamai",
        package: "dunamai",
        version: "1.26.5",
        all: &["tests", "--deselect=tests/integration/test_dunamai.py::test__version__from_git__shallow"],
        least: 40,
        left_out: &[("test__version__from_git__shallow", "clones from a server on the internet")],
        ..PYTHON
    },
    Client { name: "hatch-vcs", package: "hatch-vcs", version: "0.5.0", all: &["tests"], least: 5, ..PYTHON },
    Client {
        name: "simple-git",
        registry: Registry::Npm,
        package: "simple-git",
        version: "4.0.2",
        with: &[],
        suite: Suite::Driver { file: "simple-git.mjs", text: include_str!("drivers/simple-git.mjs") },
        run: &["node", "simple-git.mjs"],
        slice: Some(&[]),
        results: Format::Tap,
        env: CLOCK,
        least: 60,
        least_in_slice: 60,
        ..PYTHON
    },
    Client {
        name: "release-it",
        registry: Registry::Npm,
        package: "release-it",
        version: "20.2.1",
        with: &["mock-stdio@1.0.3", "mentoss@0.13.0", "tar@7.5.17", "@octokit/request-error@7.1.0"],
        in_repository: true,
        run: &[
            "node",
            "--test",
            "--test-concurrency=1",
            "--test-reporter=junit",
            "--test-reporter-destination={results}",
        ],
        all: &["test/git.init.js", "test/git.js", "test/tasks.js", "test/version.js"],
        least: 80,
        left_out: &[("other files", "they do not call Git, or need the repository of release-it")],
        ..PYTHON
    },
    Client {
        name: "pre-commit-driver",
        package: "pre-commit",
        version: "4.7.0",
        with: &[],
        suite: Suite::Driver { file: "tools.py", text: include_str!("drivers/tools.py") },
        run: &["python", "tools.py", "pre-commit"],
        results: Format::Tap,
        env: CLOCK,
        least: 20,
        ..PYTHON
    },
    Client {
        name: "git-machete-driver",
        package: "git-machete",
        version: "3.46.1",
        with: &[],
        suite: Suite::Driver { file: "tools.py", text: include_str!("drivers/tools.py") },
        run: &["python", "tools.py", "git-machete"],
        results: Format::Tap,
        env: CLOCK,
        least: 20,
        ..PYTHON
    },
    Client {
        name: "git-machete",
        package: "git-machete",
        version: "3.44.0",
        with: &["pytest", "pytest-mock", "pytest-xdist"],
        suite: Suite::Checkout { tag: "v3.44.0" },
        all: &["-p", "tests.pytest_full_operands", "-m", "not completion_e2e", "tests"],
        least: 400,
        left_out: &[("completion_e2e", "needs shells that may be missing")],
        ..PYTHON
    },
    Client {
        name: "pre-commit",
        package: "pre-commit",
        version: "4.6.2",
        with: &["pytest", "pytest-env", "re-assert"],
        suite: Suite::Checkout { tag: "v4.6.2" },
        in_repository: true,
        all: &["--ignore=tests/languages", "tests"],
        least: 500,
        left_out: &[("tests/languages", "they download tools of other languages")],
        ..PYTHON
    },
];
