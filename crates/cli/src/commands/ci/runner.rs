//! The variables by which runners name the repository, the commit and the directory of a job.

use std::path::PathBuf;

use bstr::{BString, ByteSlice as _};

use crate::{
    session::invocation::Invocation,
    term::{console::text, text::os_str},
};

/// The job, as its runner describes it. Each field is empty outside of a runner.
#[derive(Debug, Default)]
pub(super) struct Runner {
    /// A program runs the job, and nobody answers a question.
    pub(super) is_ci: bool,
    /// The URL of the repository.
    pub(super) url: Option<BString>,
    /// The URL of the server, without the name of a repository.
    pub(super) server: Option<BString>,
    pub(super) reference: Option<BString>,
    pub(super) commit: Option<BString>,
    /// The branch, without `refs/heads/`.
    pub(super) branch: Option<BString>,
    /// The directory in which checkouts of the job lie.
    pub(super) workspace: Option<PathBuf>,
    /// A directory for secrets that is outside of the workspace, and is removed with the job.
    pub(super) secrets: Option<PathBuf>,
    /// Its path in containers that the job starts.
    pub(super) secrets_in_containers: Option<PathBuf>,
    /// The variable that holds the token of the job.
    pub(super) token_variable: Option<&'static str>,
    /// The user name that the server expects with a token.
    pub(super) user: &'static str,
}

/// The variables of a runner that does not need code of its own.
struct Names {
    /// The variable that tells the runner.
    mark: &'static str,
    url: &'static str,
    reference: &'static str,
    commit: &'static str,
    branch: &'static str,
    workspace: &'static str,
    token: Option<&'static str>,
    user: &'static str,
}

const RUNNERS: &[Names] = &[
    Names {
        mark: "GITHUB_ACTIONS",
        url: "",
        reference: "GITHUB_REF",
        commit: "GITHUB_SHA",
        branch: "GITHUB_BASE_REF",
        workspace: "GITHUB_WORKSPACE",
        token: None,
        user: "x-access-token",
    },
    Names {
        mark: "GITLAB_CI",
        url: "CI_REPOSITORY_URL",
        reference: "",
        commit: "CI_COMMIT_SHA",
        branch: "CI_COMMIT_BRANCH",
        workspace: "CI_PROJECT_DIR",
        token: Some("CI_JOB_TOKEN"),
        user: "gitlab-ci-token",
    },
    Names {
        mark: "BUILDKITE",
        url: "BUILDKITE_REPO",
        reference: "",
        commit: "BUILDKITE_COMMIT",
        branch: "BUILDKITE_BRANCH",
        workspace: "BUILDKITE_BUILD_CHECKOUT_PATH",
        token: None,
        user: "x-access-token",
    },
    Names {
        mark: "JENKINS_URL",
        url: "GIT_URL",
        reference: "",
        commit: "GIT_COMMIT",
        branch: "GIT_LOCAL_BRANCH",
        workspace: "WORKSPACE",
        token: None,
        user: "x-access-token",
    },
];

impl Runner {
    /// Reads the variables.
    pub(super) fn of(run: &Invocation) -> Runner {
        let value = |name: &str| run.variable(name).filter(|value| !value.is_empty()).map(BString::from);
        let is_ci = value("CI").is_some_and(|value| value == "true" || value == "1");
        let Some(names) = RUNNERS.iter().find(|names| value(names.mark).is_some()) else {
            return Runner { is_ci, user: "x-access-token", ..Runner::default() };
        };
        let path = |name: &str| value(name).map(|path| PathBuf::from(os_str(&path)));
        let server = value("GITHUB_SERVER_URL");
        let on_github = || Some(text!(server.as_ref()?, "/", value("GITHUB_REPOSITORY")?));
        let is_github = names.mark == "GITHUB_ACTIONS";
        let url = if is_github { on_github() } else { value(names.url).map(without_password) };
        // Buildkite and Jenkins name a commit that is no object id where they know none.
        let commit = value(names.commit).filter(|commit| commit.iter().all(u8::is_ascii_hexdigit));
        let workspace = path(names.workspace);
        let beside = || {
            // GitLab keeps a directory beside the project for the time of a job.
            let mut dir = workspace.clone()?.into_os_string();
            dir.push(".tmp");
            Some(PathBuf::from(dir))
        };
        let secrets = path("RUNNER_TEMP").or_else(beside).filter(|dir| dir.is_dir());
        let in_containers = PathBuf::from("/github/runner_temp");
        Runner {
            is_ci,
            url,
            reference: value(names.reference).or_else(|| {
                value(names.branch).filter(|_| commit.is_none()).map(|name| text!("refs/heads/", name))
            }),
            commit,
            branch: value(names.branch).or_else(|| branch_of(&value(names.reference)?)),
            workspace,
            secrets_in_containers: secrets.as_ref().filter(|_| is_github).map(|_| in_containers),
            secrets,
            server,
            token_variable: names.token,
            user: names.user,
        }
    }
}

fn branch_of(reference: &BString) -> Option<BString> {
    reference.strip_prefix(b"refs/heads/").map(BString::from)
}

/// Removes user and password: the token of the job has a variable of its own.
fn without_password(url: BString) -> BString {
    repo::wire::url::without_credentials(url.as_bstr())
}
