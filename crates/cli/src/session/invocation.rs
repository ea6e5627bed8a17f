//! The options before the command: `sapwood -C dir -c key=value ... <command> [<args>]`.

use std::{
    cell::{Cell, OnceCell},
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use bstr::{BString, ByteSlice};
use engine::workspace::record;
use repo::Env;
use sapwood::{UserPath, index::Access};

use crate::{
    session::{settings::rules, trace},
    term::{
        console::{self, text},
        failure::Failure,
        files::uninterrupted,
        interrupt::Interrupt,
        profile::Profile,
        text::{os_error, os_str, split_once},
    },
};

/// The name that the program was called by, which determines its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// `sapwood`
    Sapwood,
    /// `git`, through the shim: output and effects must equal Git's.
    Git,
}

impl Program {
    /// Returns the name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Program::Sapwood => "sapwood",
            Program::Git => "git",
        }
    }
}

/// One run of the program: its directory, its environment and its command line.
pub(crate) struct Invocation {
    /// The name under which the program was called.
    pub(crate) program: Program,
    /// The command's name.
    pub(crate) command: BString,
    /// The arguments after it.
    pub(crate) args: Vec<BString>,
    /// The directory the process was started in.
    pub(crate) started_in: PathBuf,
    /// The working directory; after [`Invocation::enter`] also the process's own.
    pub(crate) cwd: PathBuf,
    /// The environment, including the variables that global options set.
    pub(crate) env: Env,
    /// `-c key=value`, in order.
    pub(crate) config: Vec<BString>,
    /// `--bare`
    pub(crate) bare: bool,
    /// `-p`
    pub(crate) paginate: bool,
    /// `sapwood --verbose`: print the number of workers.
    pub(crate) verbose: bool,
    /// `sapwood --profile`: print where the time was spent.
    pub(crate) profile: Profile,
    /// Set by SIGINT, SIGTERM, SIGHUP and SIGQUIT.
    pub(crate) interrupt: Interrupt,
    /// The program of the real Git, if known: its own files are relative to it.
    pub(crate) git: Option<PathBuf>,
    /// A repository that is already open. The first caller of [`Invocation::open`] takes it.
    pub(crate) opened: Cell<Option<repo::Repository>>,
    /// The configuration without a repository. The first caller of [`Invocation::open_any`] takes
    /// it.
    pub(crate) outside_config: Cell<Option<repo::StandaloneConfig>>,
    /// The objects of the repository that the command works in, once it is open.
    pub(crate) objects: OnceCell<Arc<repo::objects::Objects>>,
    /// Fetches missing objects of a partial clone.
    pub(crate) lazy_fetch: Option<Arc<dyn repo::LazyFetch>>,
}

/// The global options that set a variable, and its value.
const VARIABLES: &[(&str, &str, &str)] = &[
    ("--no-lazy-fetch", "GIT_NO_LAZY_FETCH", "1"),
    ("--no-replace-objects", "GIT_NO_REPLACE_OBJECTS", "1"),
    ("--no-optional-locks", "GIT_OPTIONAL_LOCKS", "0"),
    ("--no-advice", "GIT_ADVICE", "0"),
    ("--literal-pathspecs", "GIT_LITERAL_PATHSPECS", "1"),
    ("--no-literal-pathspecs", "GIT_LITERAL_PATHSPECS", "0"),
    ("--glob-pathspecs", "GIT_GLOB_PATHSPECS", "1"),
    ("--noglob-pathspecs", "GIT_NOGLOB_PATHSPECS", "1"),
    ("--icase-pathspecs", "GIT_ICASE_PATHSPECS", "1"),
];

impl Invocation {
    /// Parses the global options. Prints and changes nothing: `-C` takes effect in
    /// [`Invocation::enter`].
    pub(crate) fn parse(
        program: Program,
        args: impl Iterator<Item = OsString>,
        env: Env,
    ) -> Result<Invocation, Failure> {
        let mut args = args.map(|arg| BString::from(arg.into_vec()));
        // A directory that was deleted matters only if no `-C` leads elsewhere.
        let (started_in, mut lost) = match current_directory() {
            Ok(dir) => (dir, None),
            Err(failure) => (PathBuf::new(), Some(failure)),
        };
        let mut run = Invocation {
            program,
            command: BString::default(),
            args: Vec::new(),
            cwd: started_in.clone(),
            started_in,
            env,
            config: Vec::new(),
            bare: false,
            paginate: false,
            verbose: false,
            profile: Profile::Off,
            interrupt: Interrupt::default(),
            git: None,
            opened: Cell::new(None),
            outside_config: Cell::new(None),
            objects: OnceCell::new(),
            lazy_fetch: None,
        };
        while run.command.is_empty()
            && let Some(arg) = args.next()
        {
            run.take(&arg, &mut args, &mut lost)?;
        }
        if let Some(failure) = lost {
            return Err(failure);
        }
        if run.started_in.as_os_str().is_empty() {
            run.started_in.clone_from(&run.cwd);
        }
        run.args = args.collect();
        if run.bare {
            let cwd = run.cwd.clone().into_os_string();
            run.env.entry("GIT_DIR".into()).or_insert(cwd);
            run.set("GIT_IMPLICIT_WORK_TREE", "0");
        }
        Ok(run)
    }

    /// Takes one word before the arguments of the command, and its value from `args`. An absolute
    /// `-C` makes up for a `lost` current directory.
    fn take(
        &mut self,
        arg: &BString,
        args: &mut dyn Iterator<Item = BString>,
        lost: &mut Option<Failure>,
    ) -> Result<(), Failure> {
        let (name, stuck) = match split_once(arg, b'=') {
            Some((name, value)) if name.starts_with(b"--") => (name, Some(BString::from(value))),
            _ => (arg.as_bytes(), None),
        };
        if let Some((_, variable, value)) = VARIABLES.iter().find(|(option, ..)| option.as_bytes() == name) {
            self.set(variable, *value);
            return Ok(());
        }
        let mut value = |missing: &str| stuck.clone().or_else(|| args.next()).ok_or_else(|| wrong(missing));
        match name {
            b"-v" | b"--version" => self.command = "version".into(),
            b"-h" | b"--help" => self.command = "help".into(),
            b"-p" | b"--paginate" => self.paginate = true,
            b"-P" | b"--no-pager" => self.paginate = false,
            b"--bare" => self.bare = true,
            b"--verbose" if self.program == Program::Sapwood => self.verbose = true,
            b"--profile" if self.program == Program::Sapwood => {
                self.profile = match stuck {
                    None => Profile::Table,
                    Some(file) if file.is_empty() => return Err(wrong("no file given for '--profile='")),
                    Some(file) => Profile::Picture(self.path(&file)?),
                };
            }
            b"--attr-source" => {
                let tree = value("no attribute source given for --attr-source")?;
                self.set("GIT_ATTR_SOURCE", os_str(&tree));
            }
            b"--git-dir" => {
                let dir = value("no directory given for '--git-dir' option")?;
                self.set("GIT_DIR", os_str(&dir));
            }
            b"--work-tree" => {
                let dir = value("no directory given for '--work-tree' option")?;
                self.set("GIT_WORK_TREE", os_str(&dir));
            }
            b"-c" => self.config.push(value("-c expects a configuration string")?),
            b"--config-env" => {
                let spec = value("no config key given for --config-env")?;
                let setting = self.config_from_environment(&spec)?;
                self.config.push(setting);
            }
            b"-C" => {
                let dir = value("no directory given for '-C' option")?;
                if dir.starts_with(b"/") {
                    *lost = None;
                }
                self.change_to(&dir)?;
            }
            _ if name.starts_with(b"-") => return Err(wrong(text!("unknown option: ", arg))),
            _ => self.command = arg.clone(),
        }
        Ok(())
    }

    /// `-C`: makes `dir` the working directory. An empty one changes nothing.
    fn change_to(&mut self, dir: &BString) -> Result<(), Failure> {
        if dir.is_empty() {
            return Ok(());
        }
        let place = UserPath::new(dir).resolve(&self.cwd).map_err(Into::into);
        let seen = |place: PathBuf| {
            // Only a user who may change to a directory can see the entries in it.
            uninterrupted(|| place.join(".").metadata()).map(|_| place)
        };
        self.cwd = place.and_then(seen).map_err(|error: std::io::Error| {
            let reason = os_error(&error);
            Failure::Fatal(text!("cannot change to '", dir, "': ", reason))
        })?;
        Ok(())
    }

    /// Changes the directory of the process to the working directory.
    pub(crate) fn enter(&mut self) -> Result<(), Failure> {
        uninterrupted(|| std::env::set_current_dir(&self.cwd)).map_err(|error| {
            let reason = os_error(&error);
            Failure::fatal(format!("cannot change to '{}': {reason}", self.cwd.display()))
        })?;
        self.cwd = current_directory()?;
        Ok(())
    }

    /// Returns an invocation of another command in this directory. Sets the variable `name` to
    /// `value` for it, unless it is set.
    pub(crate) fn with_default(&self, name: &str, value: impl FnOnce() -> BString) -> Invocation {
        let mut env = self.env.clone();
        env.entry(name.into()).or_insert_with(|| os_str(&value()).to_owned());
        self.with_env(env)
    }

    /// Returns an invocation of the command `name` in this directory.
    pub(crate) fn of_command(&self, name: &str) -> Invocation {
        Invocation { command: name.into(), ..self.with_env(self.env.clone()) }
    }

    /// Changes to the worktree `top` of the repository `git_dir`, and returns an invocation of
    /// another command there. Both paths are absolute.
    pub(crate) fn elsewhere(&self, top: &Path, git_dir: &Path) -> Result<Invocation, Failure> {
        let mut env = self.env.clone();
        env.insert("GIT_DIR".into(), git_dir.into());
        env.insert("GIT_WORK_TREE".into(), top.into());
        let mut run = self.with_env(env);
        (run.cwd, run.started_in) = (top.to_owned(), top.to_owned());
        run.enter()?;
        Ok(run)
    }

    /// Changes to the bare repository `git_dir`, an absolute path, and returns an invocation of
    /// another command there.
    pub(crate) fn in_repository(&self, git_dir: &Path) -> Result<Invocation, Failure> {
        let mut env = self.env.clone();
        env.retain(|name, _| name != "GIT_DIR" && name != "GIT_WORK_TREE");
        let mut run = self.with_env(env);
        (run.cwd, run.started_in) = (git_dir.to_owned(), git_dir.to_owned());
        run.enter()?;
        Ok(run)
    }

    fn with_env(&self, env: Env) -> Invocation {
        Invocation {
            program: self.program,
            command: self.command.clone(),
            args: Vec::new(),
            started_in: self.started_in.clone(),
            cwd: self.cwd.clone(),
            env,
            config: self.config.clone(),
            bare: self.bare,
            paginate: self.paginate,
            verbose: self.verbose,
            profile: self.profile.clone(),
            interrupt: self.interrupt,
            git: self.git.clone(),
            opened: Cell::new(None),
            outside_config: Cell::new(None),
            objects: OnceCell::new(),
            lazy_fetch: self.lazy_fetch.clone(),
        }
    }

    fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.env.insert(name.into(), value.into());
    }

    fn config_from_environment(&self, spec: &BString) -> Result<BString, Failure> {
        let Some((key, variable)) = spec.rsplit_once_str("=") else {
            return Err(Failure::Fatal(text!("invalid config format: ", spec)));
        };
        if variable.is_empty() {
            let key = key.as_bstr();
            return Err(Failure::Fatal(text!(
                "missing environment variable name for configuration '",
                key,
                "'"
            )));
        }
        if key.contains(&b'=') {
            // A setting is stored as one text whose key ends at the first `=`.
            return Err(Failure::Fatal(text!("keys with '=' are not supported: ", key)));
        }
        match self.env.get(os_str(variable)) {
            Some(value) => Ok(text!(key, "=", value.as_bytes())),
            None => Err(Failure::Fatal(text!(
                "missing environment variable '",
                variable,
                "' for configuration '",
                key,
                "'"
            ))),
        }
    }

    /// Resolves a path of the command line against the working directory. An empty path is an
    /// error.
    pub(crate) fn path(&self, text: &[u8]) -> Result<PathBuf, Failure> {
        let path = UserPath::new(text);
        path.resolve(&self.cwd).map_err(|refused| Failure::refused(&path, refused))
    }

    /// Returns a variable of the environment.
    pub(crate) fn variable(&self, name: &str) -> Option<&[u8]> {
        self.env.get(OsStr::new(name)).map(|value| value.as_bytes())
    }

    /// Returns the directory where the command was started, relative to the worktree's root. Git
    /// never removes that directory.
    pub(crate) fn original_cwd(&self, repo: &repo::Repository) -> Option<BString> {
        let below = self.started_in.strip_prefix(repo.work_tree()?).ok()?.as_os_str().as_bytes();
        (!below.is_empty()).then(|| below.into())
    }

    /// Discovers and opens the repository, as Git does in this directory.
    pub(crate) fn open(&self) -> Result<repo::Repository, Failure> {
        let repo = match self.opened.take() {
            Some(repo) => repo,
            None => {
                let repo = self.look_for_repository()?;
                repo.discovery_warnings().iter().for_each(console::warning);
                repo
            }
        };
        self.objects.get_or_init(|| repo.shared_objects());
        trace_discovery(&repo);
        Ok(repo)
    }

    /// Opens the repository if one exists. The arguments are not examined.
    pub(crate) fn open_any(&self) -> Result<Place, Failure> {
        if let Some(repo) = self.opened.take() {
            trace_discovery(&repo);
            return Ok(Place::Repository(Box::new(repo)));
        }
        if let Some(config) = self.outside_config.take() {
            return Ok(Place::Outside(config));
        }
        match repo::Repository::open(&self.outside()) {
            Ok(repo) => {
                rules::IN_REPOSITORIES.check_variables(&self.env)?;
                trace_discovery(&repo);
                Ok(Place::Repository(Box::new(repo)))
            }
            Err(error) if error.is_outside() => {
                Ok(Place::Outside(repo::StandaloneConfig::load(&self.outside())?))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Like [`Invocation::open`], but also opens the repository of an unmounted workspace that
    /// surrounds the current directory.
    pub(crate) fn open_from_unmounted(&self) -> Result<repo::Repository, Failure> {
        if let Some(repo) = self.opened.take() {
            self.opened.set(Some(repo));
            return self.open();
        }
        let error = match self.find_repository() {
            Ok(repo) => {
                rules::IN_REPOSITORIES.check_variables(&self.env)?;
                repo.discovery_warnings().iter().for_each(console::warning);
                self.opened.set(Some(repo));
                return self.open();
            }
            Err(error) => error,
        };
        let Some(found) = self.unmounted_at_end(&error) else { return Err(error.into()) };
        let repo = repo::Repository::open_for(&self.outside(), &found.top, &found.common)?;
        if !record::is_at(&found.common, &found.name, &found.top)? {
            return Err(found.unknown());
        }
        Ok(repo)
    }

    /// Like the first call of [`Invocation::open`], without messages and trace.
    pub(crate) fn look_for_repository(&self) -> Result<repo::Repository, Failure> {
        let repo = self.find_repository().map_err(|error| self.unmounted(error))?;
        rules::IN_REPOSITORIES.check_variables(&self.env)?;
        Ok(repo)
    }

    /// Opens the repository of another directory without messages and trace, if it is in one.
    pub(crate) fn look_for_repository_at(&self, dir: &Path) -> Result<Option<repo::Repository>, Failure> {
        match repo::Repository::open(&repo::OpenOptions { cwd: dir.to_owned(), ..self.outside() }) {
            Ok(repo) => {
                rules::IN_REPOSITORIES.check_variables(&self.env)?;
                Ok(Some(repo))
            }
            Err(error) if error.is_outside() => Ok(None),
            Err(error) => Err(self.unmounted(error)),
        }
    }

    fn find_repository(&self) -> Result<repo::Repository, repo::Error> {
        let repo = repo::Repository::open(&self.outside())?;
        if self.args.iter().any(may_name_an_entry) {
            // A command that needs the index reports its errors itself.
            if let Ok(mut index) = sapwood::index::load_as_is(&repo, Access::All)
                && engine::sparse::expand(&repo, &mut index).is_ok()
            {
                repo.set_index(index);
            }
        }
        Ok(repo)
    }

    /// Explains the error if the current directory is that of an unmounted workspace. Called as
    /// `git`, the message is Git's.
    fn unmounted(&self, error: repo::Error) -> Failure {
        let found = self.unmounted_at_end(&error).filter(|_| self.program == Program::Sapwood);
        let Some(Unmounted { top, common, name }) = found else { return error.into() };
        match repo::check_worktree_owner(&self.outside(), &top, Some(&top.join(".git")), &common) {
            Ok(()) if record::is_only_joined(&top) => Failure::Fatal(text!(
                "only processes that sapwood starts see the files of the workspace '",
                name.as_bytes(),
                "': sapwood workspace enter ",
                name.as_bytes()
            )),
            Ok(()) => Failure::Fatal(text!(
                "the workspace '",
                name.as_bytes(),
                "' is not mounted; to mount it: sapwood workspace mount ",
                name.as_bytes()
            )),
            Err(error) => error.into(),
        }
    }

    /// Returns the unmounted workspace at which the search for a repository ended.
    fn unmounted_at_end(&self, error: &repo::Error) -> Option<Unmounted> {
        let top = self.cwd.join(error.malformed_gitfile()?).parent()?.to_owned();
        let (common, name) = record::unmounted_at(&top)?;
        Some(Unmounted { top, common, name })
    }

    /// Returns the options for opening a repository from the working directory.
    pub(crate) fn outside(&self) -> repo::OpenOptions {
        repo::OpenOptions {
            cwd: self.cwd.clone(),
            git_dir: None,
            work_tree: None,
            bare: self.bare,
            is_being_created: false,
            config: self.config.clone(),
            env: self.env.clone(),
            message_sink: repo::MessageSink(|line| console::eprint_line(line)),
            is_created_by_command: false,
            lazy_fetch: self.lazy_fetch.clone(),
        }
    }
}

/// The directory of an unmounted workspace, as its file `.git` describes it.
struct Unmounted {
    top: PathBuf,
    common: PathBuf,
    name: OsString,
}

impl Unmounted {
    fn unknown(&self) -> Failure {
        let gitfile = self.top.join(".git");
        Failure::fatal(text!(
            "'",
            gitfile.as_os_str().as_bytes(),
            "' names the workspace '",
            self.name.as_bytes(),
            "' of '",
            self.common.as_os_str().as_bytes(),
            "', which is not at this place; remove the file, or run the command elsewhere"
        ))
    }
}

/// The place where a command works that needs no repository.
pub(crate) enum Place {
    Repository(Box<repo::Repository>),
    Outside(repo::StandaloneConfig),
}

/// Traces a bare repository that no variable or option named. Scripts search traces for it.
fn trace_discovery(repo: &repo::Repository) {
    if repo.is_bare_directory() {
        trace::data(0, "setup", "implicit-bare-repository", &repo.git_dir().to_string_lossy());
    }
}

fn current_directory() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|error| {
        let reason = os_error(&error);
        Failure::fatal(format!("Unable to read current working directory: {reason}"))
    })
}

/// Returns true for `:path` or `:2:path`, as an argument or as an option's value.
fn may_name_an_entry(arg: &BString) -> bool {
    arg.starts_with(b":") || (arg.starts_with(b"-") && arg.contains(&b':'))
}

fn wrong(message: impl Into<BString>) -> Failure {
    Failure::Misused(message.into())
}
