//! `sapwood init`: a new, empty repository.
//!
//! Order: arguments; configuration; the directory and its skeleton; the message. A directory that
//! already contains a repository, shared permissions and other formats are left to the real Git.

use std::path::{Path, PathBuf};

use bstr::{BStr, BString, ByteSlice as _};
use engine::clone::init;
use format::refname::{self, Levels};
use repo::{StandaloneConfig, keys};
use sapwood::{FileType, UserPath};
use sys::by_path;

use crate::{
    commands::{
        clone::{default_template, report::default_branch_hint},
        obstacles,
        reason::Reason,
        record::{Candidate, Check, Command, Group, Home, LineCheck, Traits},
        rules::{Setting, Unserved, When},
    },
    session::{
        invocation::Invocation,
        settings::{
            fsync,
            refused::{self, Reader},
        },
    },
    term::{
        args::{
            Grammar,
            Native::{Both, On},
            Opt, Set, Survey, Table,
        },
        console::{self, text},
        failure::Failure,
    },
};

/// The record of `init`.
pub(super) const COMMAND: Command = Command {
    name: "init",
    summary: "Create an empty Git repository",
    about: "Creates an empty repository: the Git directory with its configuration, and the files of the \
            template directory. HEAD names the first branch, which has no commit yet.\n\n\
            The Git directory appears whole or not at all.",
    group: Group::Starts,
    syntax: &TABLE,
    traits: Traits { outside: true, ..Command::BASE.traits },
    unserved: UNSERVED,
    settings: &[SETTINGS],
    line: &[
        LineCheck::new("`--object-format` but `sha1`; `--ref-format` but `files`", other_formats),
        LineCheck::new("several directories", several_directories),
    ],
    checks: &[&[
        obstacles::RULES,
        Check::new(
            "a directory that holds a repository; a template with `config`, `HEAD` or `refs`; a setting or \
             a branch name that Git refuses",
            place_and_templates,
        ),
    ]],
    run,
    ..Command::BASE
};

const TABLE: Table<Set<Request>> = Table {
    usage: &[
        "sapwood init [-q | --quiet] [--bare] [--template=<template-directory>]\n                    [--object-format=<format>] [--ref-format=<format>]\n                    [-b <branch-name> | --initial-branch=<branch-name>] [<directory>]",
    ],
    options: &[
        Opt::text(
            "--template <template-directory>",
            "directory from which templates will be used",
            |request: &mut Request| &mut request.template,
        )
        .native(Both),
        Opt::flag("--bare", "create a bare repository", |request: &mut Request| &mut request.bare)
            .only()
            .native(Both),
        Opt::flag("-q, --quiet", "be quiet", |request: &mut Request| &mut request.quiet).native(Both),
        Opt::text(
            "-b, --initial-branch <name>",
            "override the name of the initial branch",
            |request: &mut Request| &mut request.branch,
        )
        .native(Both),
        Opt::text("--object-format <hash>", "specify the hash algorithm to use", |request: &mut Request| {
            &mut request.object_format
        })
        .native(On),
        Opt::text("--ref-format <format>", "specify the reference format to use", |request: &mut Request| {
            &mut request.ref_format
        })
        .native(On),
    ],
    grammar: Grammar::Mixed,
};

/// Settings and variables that change the format or the place of the repository.
const UNSERVED: Unserved = Unserved {
    settings: &[
        (keys::core::BARE.name(), When::Set),
        (keys::core::WORKTREE.name(), When::Set),
        (keys::feature::EXPERIMENTAL.name(), When::True),
        (keys::init::DEFAULT_OBJECT_FORMAT.name(), When::Not(&["sha1"])),
        (keys::init::DEFAULT_REF_FORMAT.name(), When::Not(&["files"])),
        (keys::init::DEFAULT_SUBMODULE_PATH_CONFIG.name(), When::True),
    ],
    variables: &[
        ("GIT_COMMON_DIR", When::Set),
        ("GIT_DEFAULT_HASH", When::Not(&["sha1"])),
        ("GIT_DEFAULT_REF_FORMAT", When::Not(&["files"])),
        ("GIT_DIR", When::Set),
        ("GIT_OBJECT_DIRECTORY", When::Set),
        ("GIT_REFERENCE_BACKEND", When::Not(&["files"])),
        ("GIT_TEST_DEFAULT_HASH", When::Not(&["sha1"])),
        ("GIT_TEST_DEFAULT_REF_FORMAT", When::Not(&["files"])),
        ("GIT_WORK_TREE", When::Set),
    ],
};

/// Settings that change messages, or that only the real Git is known to handle as Git does.
const SETTINGS: &[Setting] = &[
    // With this setting, Git omits how to turn the hint off.
    (keys::advice::DEFAULT_BRANCH_NAME.name(), When::True),
    (keys::color::ADVICE_ALL.name(), When::Set),
    (keys::core::HIDE_DOT_FILES.name(), When::Set),
    (keys::core::LOG_ALL_REF_UPDATES.name(), When::Set),
    (keys::core::SHARED_REPOSITORY.name(), When::Set),
    (keys::extensions::ALL_SETTINGS.name(), When::Set),
    (keys::includeif::ALL_SETTINGS.name(), When::Set),
    (keys::safe::BARE_REPOSITORY.name(), When::Set),
    (keys::trace2::ALL_SETTINGS.name(), When::Set),
];

#[derive(Default)]
struct Request {
    template: Option<BString>,
    bare: bool,
    quiet: bool,
    branch: Option<BString>,
    object_format: Option<BString>,
    ref_format: Option<BString>,
}

fn other_formats(survey: &Survey, _: &[BString]) -> Option<Reason> {
    let given = |name, known| {
        let mut values = survey.options.iter().filter(move |given| given.name == name);
        values.find(move |given| given.value.as_ref().is_some_and(|value| value != known))
    };
    let other = given("--object-format", "sha1").or_else(|| given("--ref-format", "files"));
    other.map(|given| Reason::Option(given.name.to_owned()))
}

fn several_directories(survey: &Survey, _: &[BString]) -> Option<Reason> {
    (survey.rest.len() > 1).then(|| Reason::command_line("several directories"))
}

/// Detects a directory that already exists as a repository, templates with more than files, and an
/// invalid branch name.
fn place_and_templates(candidate: &Candidate<'_>) -> Vec<Reason> {
    let (Some(_), Home::Outside(outside)) = (candidate.survey, candidate.home) else { return Vec::new() };
    // Git rejects such a setting after it has created a part of the repository.
    if let Err(failure) = refused::check_outside(outside, &[Reader::Every]) {
        return vec![Reason::refused(&failure.into())];
    }
    match New::read(candidate.run, outside, candidate.args) {
        Ok(new) => new.obstacle().map(Reason::repository).into_iter().collect(),
        Err(failure) => vec![Reason::refused(&failure)],
    }
}

/// The repository to create.
struct New {
    request: Request,
    directory: PathBuf,
    /// The full name of the first branch.
    branch: BString,
    /// True if neither the user nor a setting names the branch.
    is_default: bool,
    /// The template directory, and its path as the user gave it.
    template: Option<(PathBuf, PathBuf)>,
}

impl New {
    fn read(run: &Invocation, outside: &StandaloneConfig, args: &[BString]) -> Result<New, Failure> {
        let mut request = Request::default();
        let rest = TABLE.parse(args)?.store(&mut request)?;
        let directory = match &rest[..] {
            [] => run.cwd.clone(),
            [directory] => run.path(directory)?,
            _ => {
                console::eprint_raw(TABLE.help().as_bytes());
                return Err(Failure::Reported(129));
            }
        };
        let configured = || {
            let variable =
                run.variable("GIT_TEST_DEFAULT_INITIAL_BRANCH_NAME").filter(|name| !name.is_empty());
            variable.map(BString::from).or_else(|| outside.config_str(&keys::init::DEFAULT_BRANCH))
        };
        let named = request.branch.clone().or_else(configured);
        let is_default = named.is_none();
        let branch = text!("refs/heads/", named.unwrap_or_else(|| "master".into()));
        let template = template(run, outside, request.template.as_ref())?;
        Ok(New { request, directory, branch, is_default, template })
    }

    /// Returns the reason why this repository is left to the real Git.
    fn obstacle(&self) -> Option<&'static str> {
        let is_missing = |path: &Path| matches!(by_path::stat(path), Ok(None));
        let is_directory = |path: &Path| matches!(by_path::stat_followed(path), Ok(Some(stat)) if stat.file_type == FileType::Directory);
        let is_free = match by_path::list(&self.directory) {
            Ok(entries) if self.request.bare => entries.is_empty(),
            Ok(_) => is_missing(&self.directory.join(".git")),
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        };
        let decides = |dir: &Path| ["config", "HEAD", "refs"].iter().any(|name| !is_missing(&dir.join(name)));
        let is = |value: &Option<BString>, known: &str| value.as_ref().is_none_or(|value| value == known);
        if !is(&self.request.object_format, "sha1") || !is(&self.request.ref_format, "files") {
            return Some("sapwood writes only the formats 'sha1' and 'files'");
        }
        if !is_free {
            return Some("the directory may hold a repository");
        }
        match &self.template {
            Some((dir, _)) if !is_directory(dir) => return Some("the templates are not there"),
            Some((dir, _)) if decides(dir) => return Some("the templates bring settings or refs"),
            _ => {}
        }
        let short = repo::branch_name(self.branch.as_bstr());
        let is_name = refname::check(self.branch.as_bstr(), Levels::Two).is_ok() && !short.starts_with(b"-");
        (!is_name).then_some("the name of the first branch is none")
    }
}

/// Returns the template directory: `--template`, `GIT_TEMPLATE_DIR`, `init.templateDir`, or Git's
/// own. An empty path means none.
fn template(
    run: &Invocation,
    outside: &StandaloneConfig,
    option: Option<&BString>,
) -> Result<Option<(PathBuf, PathBuf)>, Failure> {
    let given = match (option, run.variable("GIT_TEMPLATE_DIR")) {
        (Some(option), _) => Some(UserPath::new(option)),
        (None, Some(variable)) => Some(UserPath::new(variable)),
        (None, None) => outside.config_path(&keys::init::TEMPLATE_DIR)?,
    };
    let Some(given) = given.or_else(|| default_template(run).map(UserPath::from)) else { return Ok(None) };
    if given.as_bytes().is_empty() {
        return Ok(None);
    }
    let dir = given.resolve(&run.cwd).map_err(|refused| Failure::refused(&given, refused))?;
    Ok(Some((dir, PathBuf::from(given.as_os_str()))))
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let outside = StandaloneConfig::load(&run.outside())?;
    refused::check_outside(&outside, &[Reader::Every])?;
    UNSERVED.check_settings(&outside)?;
    let new = New::read(run, &outside, args)?;
    if let Some(obstacle) = new.obstacle() {
        return Err(Failure::fatal(format!("cannot create a repository here: {obstacle}")));
    }
    let git_dir = init::create(&init::Options {
        directory: &new.directory,
        bare: new.request.bare,
        branch: new.branch.as_bstr(),
        template: new.template.as_ref().map(|(dir, given)| (dir.as_path(), given.as_path())),
        open: &run.outside(),
        fsync: &fsync(run, &outside)?,
    })
    .map_err(|error| Failure::fatal(error.to_string()))?;
    if new.request.quiet {
        return Ok(0);
    }
    let advises = run.variable("GIT_ADVICE") != Some(b"0")
        && !matches!(outside.config(&keys::advice::DEFAULT_BRANCH_NAME), Ok(false));
    if new.is_default && advises {
        console::hint(default_branch_hint("master".into()));
    }
    let path: &BStr = git_dir.as_os_str().as_encoded_bytes().as_bstr();
    console::out(text!("Initialized empty Git repository in ", path, "/"));
    Ok(0)
}
