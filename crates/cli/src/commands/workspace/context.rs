//! The repository of a command, its workspaces, and its bases.

use std::path::{Path, PathBuf};

use bstr::{BStr, BString};
use engine::workspace::{
    base::Bases,
    record::{self, Workspace},
};
use repo::Repository;
use sapwood::workspace::places;
use serde_json::Value;

use crate::{
    commands::worktree::context::{ADD, WorktreeContext},
    session::{Session, claims, invocation::Invocation, settings::Settings},
    term::{console, failure::Failure, text::os_str},
};

/// The repository of a command, with its settings.
pub(super) struct Context<'a> {
    pub(super) run: &'a Invocation,
    pub(super) repo: Repository,
    pub(super) settings: Settings,
    /// The common directory, without symlinks.
    pub(super) common: PathBuf,
}

impl<'a> Context<'a> {
    /// Opens the repository from the current directory, which may be an unmounted workspace.
    pub(super) fn open(run: &'a Invocation) -> Result<Context<'a>, Failure> {
        let repo = run.open_from_unmounted()?;
        let settings = Settings::read(&repo)?;
        let common = repo.real_common_dir();
        claims::recover_locks(&common);
        Ok(Context { run, repo, settings, common })
    }

    /// Returns the session.
    pub(super) fn session(&self) -> Session<'_> {
        Session { invocation: self.run, repository: &self.repo, settings: &self.settings }
    }

    /// Returns the context for the code that `worktree` shares.
    pub(super) fn worktree_context(&self) -> WorktreeContext<'_> {
        WorktreeContext::new(self.run, &self.repo, &ADD)
    }

    /// Returns the workspace called `name`.
    pub(super) fn find(&self, name: &BStr) -> Result<Workspace, Failure> {
        Ok(record::find(&self.common, os_str(name))?)
    }

    /// Returns the named workspaces, or all of them. Damaged records are reported.
    pub(super) fn chosen(&self, names: &[BString], all: bool) -> Result<Vec<Workspace>, Failure> {
        if all != names.is_empty() {
            return Err(Failure::fatal("name workspaces, or give --all"));
        }
        if all { self.all() } else { names.iter().map(|name| self.find(name.as_ref())).collect() }
    }

    /// Returns all workspaces. Damaged records are reported.
    pub(super) fn all(&self) -> Result<Vec<Workspace>, Failure> {
        Ok(sapwood::workspace::all(&self.worktree_context())?)
    }

    /// Returns the base directory: the given one, else the configured one.
    pub(super) fn bases(&self, given: Option<&BString>) -> Result<Bases, Failure> {
        bases(self.run, &self.repo, given)
    }
}

/// Returns the base directory: the given one, else `sapwood.baseDir`, else one in the repository.
pub(crate) fn bases(run: &Invocation, repo: &Repository, given: Option<&BString>) -> Result<Bases, Failure> {
    let given = given.map(|given| run.path(given)).transpose()?;
    Ok(places::bases(repo, given.as_deref())?)
}

/// Prints a JSON document.
pub(crate) fn print_json(value: &Value) {
    console::out(format!("{value:#}"));
}

/// The version of the documents of `workspace` and `base`. A new field does not change it.
const VERSION: u64 = 1;

/// Prints the JSON document of a subcommand of `workspace` or `base`, with its version. Each object
/// of an array has it, because an array has no fields. `docs/schema` describes the documents.
pub(crate) fn print_document(mut value: Value) {
    let stamp = |value: &mut Value| {
        if let Some(fields) = value.as_object_mut() {
            fields.insert("version".into(), VERSION.into());
        }
    };
    match &mut value {
        Value::Array(all) => all.iter_mut().for_each(stamp),
        one => stamp(one),
    }
    print_json(&value);
}

/// Returns a path for a JSON document. Bytes that are not UTF-8 are replaced.
pub(crate) fn json_path(path: &Path) -> Value {
    Value::from(path.to_string_lossy())
}

/// Returns the path of this program.
pub(super) fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::fatal(format!("cannot find the path of this program: {error}")))
}
