//! Makes the worktree of a job.
//!
//! Order: the directory (a clone of the same URL is cleaned and used again; other content is
//! removed); the repository; the fetch; files of a base; sparse patterns; the checkout; submodules;
//! the credentials that the job keeps. Nothing but the directory is changed, and its content is
//! removed only for [`Clean::Runner`] and [`Clean::Asked`]. A checkout that was killed is repeated
//! by the same command.

use std::{
    fmt,
    io::Write as _,
    path::{Path, PathBuf},
};

use bstr::{BString, ByteSlice as _};
use sys::{UserPath, by_path};

use super::{
    Access, Persist, Program, Token, credentials,
    directory::{Directory, Found, cannot},
    refs::{self, Target},
    steps::Job,
};
use crate::{Error, PlanError, repository::Environment, text};

/// The worktree of a job.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The directory, absolute.
    pub dir: PathBuf,
    /// The URL of the repository. User and password in it serve as a token.
    pub url: BString,
    /// A branch, a tag, a full name of a ref, or an object id; `None` for the default branch.
    pub reference: Option<BString>,
    /// The commit that the ref had when the job was made. The ref may have moved since then.
    pub commit: Option<BString>,
    /// The commits to fetch.
    pub history: History,
    /// The files to write.
    pub files: Files,
    /// The ways to the server.
    pub access: Access,
    /// Keeps the credentials for the job.
    pub persist: Option<Persist>,
    /// The treatment of what is in the directory.
    pub clean: Clean,
    /// Accept a repository that another user owns.
    pub trusts_owner: bool,
    /// Shows progress if true, and no messages of Git if false.
    pub progress: Option<bool>,
    /// The source of contents beside the server.
    pub base: Base,
}

/// The commits to fetch.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The number of commits; zero for the history of all branches and tags.
    pub depth: u32,
    /// Fetch all tags.
    pub tags: bool,
    /// The filter of a partial clone.
    pub filter: Option<BString>,
}

/// The files to write.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// The patterns of a sparse checkout; all files if empty.
    pub sparse: Vec<BString>,
    /// The patterns are directories.
    pub cone: bool,
    /// Submodules.
    pub submodules: Submodules,
    /// Fetch the contents of Git LFS.
    pub lfs: bool,
}

/// The submodules to check out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Submodules {
    /// None.
    #[default]
    None,
    /// Those of the repository.
    Direct,
    /// Those of the repository and of its submodules.
    Recursive,
}

/// A remote of bases that has contents of files.
#[derive(Clone, Debug, Default)]
pub struct Base {
    /// The address of the remote; `None` if the server has all.
    pub remote: Option<BString>,
    /// The directory of bases that the runner keeps: `sapwood.baseDir`.
    pub dir: Option<BString>,
    /// The branch whose newest base serves if the commit has none.
    pub branch: Option<BString>,
}

/// The treatment of what is in the directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clean {
    /// Remove nothing. Local changes stay, branches do not move, and a conflict is an error.
    #[default]
    Keep,
    /// Remove changes, untracked files and local branches, or the content of another repository:
    /// the directory belongs to a runner.
    Runner,
    /// Like `Runner`, and the user said so.
    Asked,
}

impl Clean {
    /// Returns true if content may be removed.
    pub(super) fn removes(self) -> bool {
        self != Clean::Keep
    }
}

/// A checkout.
#[derive(Debug)]
pub struct Plan {
    pub(super) request: Request,
    pub(super) directory: Directory,
    pub(super) target: Target,
    pub(super) way: Way,
}

/// The use of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// It is empty.
    New,
    /// It is a clone of the same URL.
    Reuse,
    /// It is emptied first.
    Remake,
}

/// The result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The ref or commit that was checked out, as in the request; the default branch without one.
    pub reference: BString,
    /// The commit of HEAD.
    pub commit: BString,
    /// True if the repository was there before.
    pub reused: bool,
    /// The file that holds the credentials of the job.
    pub credentials: Option<PathBuf>,
}

/// Examines the directory. Changes nothing, and contacts nobody.
pub fn plan(environment: Environment, request: Request) -> Result<Plan, PlanError> {
    let mut request = request;
    if request.url.is_empty() {
        return Err(Error::failed("name the repository to check out").into());
    }
    let (url, in_url): (BString, Option<Token>) = credentials::split(request.url.as_bstr());
    request.url = url;
    // Mounts and the home directory are compared by their real paths.
    request.dir = by_path::realpath_forgiving(&request.dir);
    request.access.token = request.access.token.take().or(in_url);
    let home = environment.get(std::ffi::OsStr::new("HOME")).map(PathBuf::from);
    let directory = Directory { path: request.dir.clone(), home, clean: request.clean };
    let open = crate::repository::outside(request.dir.clone(), environment);
    let way = match directory.look(&request.url, &open, request.trusts_owner)? {
        Found::Nothing => Way::New,
        Found::Clone => {
            if directory.clean.removes() {
                directory.may_be_cleaned()?;
            }
            Way::Reuse
        }
        Found::Other(what) => {
            directory.may_be_emptied(&what)?;
            Way::Remake
        }
    };
    let target = Target::new(request.reference.as_ref(), request.commit.as_ref());
    // Other text could be an option of the commands that get it.
    if let Some(commit) = target.commit.as_ref().filter(|commit| !refs::is_object_id(commit.as_bstr())) {
        return Err(Error::failed(text!("'", commit, "' is not a whole object id")).into());
    }
    Ok(Plan { request, directory, target, way })
}

impl Plan {
    /// Makes the worktree with the commands of `program`.
    pub fn run<P: Program>(self, program: &P) -> Result<Report, P::Error> {
        Job::new(self, program).run()
    }
}

impl Report {
    /// Appends the outputs of a step to the file from which GitHub's runner reads them.
    pub fn append_to(&self, file: &Path) -> Result<(), Error> {
        let lines = text!("ref=", self.reference, "\ncommit=", self.commit, "\n");
        let written = by_path::append(file, true, 0o666).and_then(|mut file| file.write_all(&lines));
        written.map_err(cannot("write", file))
    }
}

/// Returns the directory `given` below the workspace `top`, or the workspace itself. With
/// `confined` a directory elsewhere is refused.
pub fn directory(top: &Path, given: Option<&UserPath>, confined: bool) -> Result<PathBuf, Error> {
    let top = by_path::realpath_forgiving(top);
    let Some(given) = given else { return Ok(top) };
    let path = given.resolve(&top).map_err(|refused| Error::refused(given, refused))?;
    let path = by_path::realpath_forgiving(&path);
    if confined && !path.starts_with(&top) {
        return Err(Error::failed(format!("'{given}' is not below the workspace '{}'", top.display())));
    }
    Ok(path)
}

/// Returns true if a directory above `dir` has a repository. The content of `dir` may then be files
/// of a person, whose shell sets `CI`.
pub fn lies_in_a_worktree(dir: &Path) -> bool {
    dir.ancestors().skip(1).any(|above| matches!(by_path::stat(&above.join(".git")), Ok(Some(_)) | Err(_)))
}

impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dir, url) = (self.request.dir.display(), &self.request.url);
        match self.way {
            Way::New => write!(formatter, "clone '{url}' into '{dir}'"),
            Way::Reuse => write!(formatter, "fetch from '{url}' into '{dir}'"),
            Way::Remake => write!(formatter, "remove what is in '{dir}', and clone '{url}' into it"),
        }
    }
}
