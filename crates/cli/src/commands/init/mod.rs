//! `sapwood init`: a new, empty repository. See [`sapwood::init`].
//!
//! Order: arguments; configuration; the directory and its skeleton; the message. A directory that
//! already contains a repository, and other formats are left to the real Git.

use bstr::{BStr, BString, ByteSlice as _};
use repo::{StandaloneConfig, keys};
use sapwood::{
    Events, Silent,
    init::{self, Plan, Unsupported},
};

use crate::{
    commands::{
        clone::report::default_branch_hint,
        obstacles,
        reason::Reason,
        record::{Candidate, Check, Command, Group, Home, LineCheck, Traits},
        rules::{Setting, Unserved, When},
    },
    session::{
        invocation::Invocation,
        settings::refused::{self, Reader},
    },
    term::{
        args::{Both, Grammar, On, Opt, Set, Survey, Table},
        console::{self, text},
        failure::Failure,
        notice::Printer,
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
            field!(wanted.template),
        )
        .native(Both),
        Opt::flag("--bare", "create a bare repository", field!(wanted.bare)).only().native(Both),
        Opt::flag("-q, --quiet", "be quiet", field!(quiet)).native(Both),
        Opt::text(
            "-b, --initial-branch <name>",
            "override the name of the initial branch",
            field!(wanted.branch),
        )
        .native(Both),
        Opt::text("--object-format <hash>", "specify the hash algorithm to use", field!(object_format))
            .native(On),
        Opt::text("--ref-format <format>", "specify the reference format to use", field!(ref_format))
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
    (keys::extensions::ALL_SETTINGS.name(), When::Set),
    (keys::includeif::ALL_SETTINGS.name(), When::Set),
    (keys::safe::BARE_REPOSITORY.name(), When::Set),
    (keys::trace2::ALL_SETTINGS.name(), When::Set),
];

#[derive(Default)]
struct Request {
    quiet: bool,
    object_format: Option<BString>,
    ref_format: Option<BString>,
    wanted: init::Request,
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
    match read(candidate.run, outside, candidate.args, &Silent) {
        Ok((request, plan)) => request.obstacle(&plan).map(Reason::repository).into_iter().collect(),
        Err(failure) => vec![Reason::refused(&failure)],
    }
}

/// Reads the command line, and what it leaves to the configuration.
fn read(
    run: &Invocation,
    outside: &StandaloneConfig,
    args: &[BString],
    events: &dyn Events,
) -> Result<(Request, Plan), Failure> {
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
    let wanted = init::Request { directory, ..std::mem::take(&mut request.wanted) };
    let plan = Plan::prepare(run.outside(), outside, run.git.as_deref(), wanted, events)?;
    Ok((request, plan))
}

impl Request {
    /// Returns the reason why this repository is left to the real Git.
    fn obstacle(&self, plan: &Plan) -> Option<&'static str> {
        let is = |value: &Option<BString>, known: &str| value.as_ref().is_none_or(|value| value == known);
        if !is(&self.object_format, "sha1") || !is(&self.ref_format, "files") {
            return Some("sapwood writes only the formats 'sha1' and 'files'");
        }
        plan.unsupported().map(|unsupported| match unsupported {
            Unsupported::Elsewhere => unsupported.name(),
            Unsupported::Taken => "the directory may hold a repository",
            Unsupported::NoTemplates => "the templates are not there",
            Unsupported::Templates => "the templates bring settings or refs",
            Unsupported::Branch => "the name of the first branch is none",
        })
    }
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let outside = StandaloneConfig::load(&run.outside())?;
    refused::check_outside(&outside, &[Reader::Every])?;
    UNSERVED.check_settings(&outside)?;
    let (request, plan) = read(run, &outside, args, &Printer)?;
    if let Some(obstacle) = request.obstacle(&plan) {
        return Err(Failure::fatal(format!("cannot create a repository here: {obstacle}")));
    }
    let (is_default_branch, kind) = (plan.is_default_branch, if plan.is_shared { "shared " } else { "" });
    let git_dir = plan.run(&Printer)?.git_dir;
    if request.quiet {
        return Ok(0);
    }
    let advises = run.variable("GIT_ADVICE") != Some(b"0")
        && !matches!(outside.config(&keys::advice::DEFAULT_BRANCH_NAME), Ok(false));
    if is_default_branch && advises {
        console::hint(default_branch_hint("master".into()));
    }
    let path: &BStr = git_dir.as_os_str().as_encoded_bytes().as_bstr();
    console::out(text!("Initialized empty ", kind, "Git repository in ", path, "/"));
    Ok(0)
}
