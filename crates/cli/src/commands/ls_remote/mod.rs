//! `sapwood ls-remote`: the refs of a server. See [`sapwood::ls_remote`].
//!
//! Order: arguments; the URL; one connection; the output. No repository is needed, and nothing is
//! changed. A remote helper that lists refs itself is served too.

use bstr::{BString, ByteSlice as _};
use engine::fetch;
use repo::{
    keys,
    wire::{self, ConnectOptions},
};
use sapwood::{
    Error, PlanError, config,
    ls_remote::{self, Order, Ref, Remote},
};

use crate::{
    commands::{
        obstacles::RULES,
        reason::Reason,
        record::{Command, Group, LineCheck, Traits},
        rules::{Setting, When},
    },
    session::{
        invocation::{Invocation, Place},
        packets,
    },
    term::{
        args::{Both, Grammar, On, Opt, Set, Survey, Table, Value},
        console::{self, Listing, text},
        failure::Failure,
        text::os_error,
    },
};

/// The record of `ls-remote`.
pub(super) const COMMAND: Command = Command {
    name: "ls-remote",
    summary: "List references in a remote repository",
    about: "Lists the refs of a server and the names of their objects. It works outside of a repository too.",
    group: Group::Scripts,
    syntax: &TABLE,
    traits: Traits { anywhere: true, ..Command::BASE.traits },
    settings: &[SETTINGS],
    line: &[LineCheck::new("a key of `--sort` that sapwood does not know", sort_keys)],
    checks: &[&[RULES]],
    late: &[
        "bundles",
        "remote.<name>.vcs",
        "remotes in files of their own",
        "this key of --sort",
        "this remote helper",
    ],
    run,
    ..Command::BASE
};

/// Git warns of passwords in URLs.
const SETTINGS: &[Setting] = &[(keys::transfer::CREDENTIALS_IN_URL.name(), When::Not(&["allow"]))];

const TABLE: Table<Set<Request>> = Table {
    usage: &[
        "sapwood ls-remote [--branches] [--tags] [--refs] [--upload-pack=<exec>]\n                     \
              [-q | --quiet] [--exit-code] [--get-url] [--sort=<key>]\n                     \
              [--symref] [<repository> [<patterns>...]]",
    ],
    options: &[
        Opt::flag("-q, --quiet", "do not print remote URL", field!(quiet)).native(Both),
        Opt::text(
            "--upload-pack <exec>",
            "path of git-upload-pack on the remote host",
            field!(wanted.upload_pack),
        )
        .native(On),
        Opt::text("--exec <exec>", "path of git-upload-pack on the remote host", field!(wanted.upload_pack))
            .hidden()
            .native(On),
        Opt::flag("-t, --tags", "limit to tags", field!(wanted.tags)).native(Both),
        Opt::flag("-b, --branches", "limit to branches", field!(wanted.branches)).native(Both),
        Opt::flag("-h", "deprecated synonym for --branches", field!(wanted.branches)).hidden().native(On),
        Opt::flag("--heads", "deprecated synonym for --branches", field!(wanted.branches))
            .hidden()
            .native(Both),
        Opt::flag("--refs", "do not show peeled tags", field!(wanted.refs)).native(Both),
        Opt::flag("--get-url", "take url.<base>.insteadOf into account", field!(get_url)).native(Both),
        Opt::new("--sort <key>", "field name to sort on", Request::set_sort).native(On),
        Opt::flag("--exit-code", "exit with exit code 2 if no matching refs are found", field!(exit_code))
            .native(Both),
        Opt::flag("--symref", "show underlying ref in addition to the object pointed by it", field!(symref))
            .native(Both),
        Opt::list(
            "-o, --server-option <server-specific>",
            "option to transmit",
            field!(wanted.server_options),
        )
        .native(On),
    ],
    grammar: Grammar::OptionsFirst,
};

#[derive(Default)]
struct Request {
    quiet: bool,
    get_url: bool,
    exit_code: bool,
    symref: bool,
    wanted: ls_remote::Request,
}

/// Parses a sort key. Without Git only names can be compared.
fn order(text: &[u8]) -> Option<Order> {
    match text {
        b"refname" => Some(Order::Name),
        b"-refname" => Some(Order::NameReversed),
        _ => None,
    }
}

impl Request {
    /// The last key is compared first. Names are unique, so another key has no effect.
    fn set_sort(&mut self, value: Value) -> Result<(), Failure> {
        self.wanted.order = match value.text {
            None => Order::Server,
            Some(key) => order(&key).ok_or(Failure::Unserved("this key of --sort"))?,
        };
        Ok(())
    }
}

/// Detects sort keys that need objects, or that compare numbers in names.
fn sort_keys(survey: &Survey, _: &[BString]) -> Option<Reason> {
    let mut keys = survey.options.iter().filter(|given| given.name == "--sort");
    let unknown = keys.any(|given| given.value.as_ref().is_some_and(|key| order(key).is_none()));
    unknown.then(|| Reason::command_line("a key that only Git knows"))
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let mut words = TABLE.parse(args)?.store(&mut request)?.into_iter();
    let named = words.next();
    request.wanted.patterns = words.collect();
    let place = run.open_any()?;
    let place = match &place {
        Place::Repository(repo) => config::Place::Repository(repo),
        Place::Outside(outside) => config::Place::Outside(outside),
    };
    let remote = Remote::find(place, named.as_ref().map(|name| name.as_bstr()))?;
    remote.warning.iter().for_each(console::warning);
    if request.get_url {
        let mut listing = Listing::default();
        listing.buffer().extend_from_slice(&text!(remote.url.text, "\n"));
        listing.write("standard output")?;
        return Ok(0);
    }
    let options = ConnectOptions {
        verbosity: if request.quiet { -1 } else { 0 },
        tracer: packets::tracer(run).map(|tracer| tracer.0),
        interrupt: Some(run.interrupt.shared()),
        ..ConnectOptions::default()
    };
    let refs = remote.list(&request.wanted, options).map_err(|error| failure(run, error))?;
    if named.is_none() && !request.quiet {
        console::eprint_line(text!("From ", remote.url.text));
    }
    print(&refs, request.symref)?;
    Ok(if refs.is_empty() && request.exit_code { 2 } else { 0 })
}

fn print(refs: &[Ref], symref: bool) -> Result<(), Failure> {
    let mut listing = Listing::default();
    for line in refs {
        let buffer = listing.buffer();
        if let Some(target) = line.symref.as_ref().filter(|_| symref) {
            buffer.extend_from_slice(&text!("ref: ", target, "\t", line.name, "\n"));
        }
        buffer.extend_from_slice(&text!(line.id.to_string(), "\t", line.name, "\n"));
        listing.flush_if_full()?;
    }
    listing.write("standard output")
}

/// Converts an error to the failure that ends the command.
fn failure(run: &Invocation, error: PlanError) -> Failure {
    if run.interrupt.check().is_err() {
        return run.interrupt.failure();
    }
    let error = match error {
        PlanError::Failed(Error::Fetch(error)) => *error,
        error => return error.into(),
    };
    match error {
        fetch::Error::Wire(wire::Error::HelperFailed) => Failure::Reported(128),
        fetch::Error::Wire(wire::Error::Failed) => Failure::Reported(1),
        other => {
            let cause =
                std::error::Error::source(&other).and_then(|cause| cause.downcast_ref::<std::io::Error>());
            let cause = cause.map(|cause| format!(": {}", os_error(cause))).unwrap_or_default();
            Failure::Fatal(text!(other.to_string(), cause))
        }
    }
}
