//! `sapwood ls-remote`: the refs of a server.
//!
//! Order: arguments; the URL; one connection; the output. No repository is needed, and nothing is
//! changed. A remote helper that lists refs itself is served too.

mod remote;

use bstr::{BStr, BString, ByteSlice as _};
use format::{
    refname::{self, Levels},
    wildmatch::{Mode, wildmatch},
};
use repo::wire::{self, Client, ConnectOptions, RemoteRef, url::Url};

use self::remote::Remote;
use repo::keys;
use sapwood::ObjectId;

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
        settings::config::Config,
    },
    term::{
        args::{Grammar, Native::Both, Native::On, Opt, Set, Survey, Table, Value},
        console::{self, Listing, text},
        failure::Failure,
    },
};

/// The record of `ls-remote`.
pub(super) const COMMAND: Command = Command {
    name: "ls-remote",
    summary: "List references in a remote repository",
    about: "Lists the refs of a server and the names of their objects. It works outside of a repository too.",
    group: Group::Scripts,
    syntax: &TABLE,
    traits: Traits { anywhere: true, plans_first: true, ..Command::BASE.traits },
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
        Opt::flag("-q, --quiet", "do not print remote URL", |request: &mut Request| &mut request.quiet)
            .native(Both),
        Opt::text(
            "--upload-pack <exec>",
            "path of git-upload-pack on the remote host",
            |request: &mut Request| &mut request.upload_pack,
        )
        .native(On),
        Opt::text("--exec <exec>", "path of git-upload-pack on the remote host", |request: &mut Request| {
            &mut request.upload_pack
        })
        .hidden()
        .native(On),
        Opt::flag("-t, --tags", "limit to tags", |request: &mut Request| &mut request.tags).native(Both),
        Opt::flag("-b, --branches", "limit to branches", |request: &mut Request| &mut request.branches)
            .native(Both),
        Opt::flag("-h", "deprecated synonym for --branches", |request: &mut Request| &mut request.branches)
            .hidden()
            .native(On),
        Opt::flag("--heads", "deprecated synonym for --branches", |request: &mut Request| {
            &mut request.branches
        })
        .hidden()
        .native(Both),
        Opt::flag("--refs", "do not show peeled tags", |request: &mut Request| &mut request.refs)
            .native(Both),
        Opt::flag("--get-url", "take url.<base>.insteadOf into account", |request: &mut Request| {
            &mut request.get_url
        })
        .native(Both),
        Opt::new("--sort <key>", "field name to sort on", Request::set_sort).native(On),
        Opt::flag(
            "--exit-code",
            "exit with exit code 2 if no matching refs are found",
            |request: &mut Request| &mut request.exit_code,
        )
        .native(Both),
        Opt::flag(
            "--symref",
            "show underlying ref in addition to the object pointed by it",
            |request: &mut Request| &mut request.symref,
        )
        .native(Both),
        Opt::list("-o, --server-option <server-specific>", "option to transmit", |request: &mut Request| {
            &mut request.server_options
        })
        .native(On),
    ],
    grammar: Grammar::OptionsFirst,
};

#[derive(Default)]
struct Request {
    quiet: bool,
    upload_pack: Option<BString>,
    tags: bool,
    branches: bool,
    refs: bool,
    get_url: bool,
    sort: Vec<Key>,
    exit_code: bool,
    symref: bool,
    server_options: Vec<BString>,
}

/// A sort key. Without Git only names can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Name,
    NameReversed,
}

impl Key {
    fn parse(text: &[u8]) -> Option<Key> {
        match text {
            b"refname" => Some(Key::Name),
            b"-refname" => Some(Key::NameReversed),
            _ => None,
        }
    }
}

impl Request {
    fn set_sort(&mut self, value: Value) -> Result<(), Failure> {
        match value.text {
            None => self.sort.clear(),
            Some(key) => {
                let key = Key::parse(&key).ok_or(Failure::Unserved("this key of --sort"))?;
                self.sort.push(key);
            }
        }
        Ok(())
    }
}

/// Detects sort keys that need objects, or that compare numbers in names.
fn sort_keys(survey: &Survey, _: &[BString]) -> Option<Reason> {
    let mut keys = survey.options.iter().filter(|given| given.name == "--sort");
    let unknown = keys.any(|given| given.value.as_ref().is_some_and(|key| Key::parse(key).is_none()));
    unknown.then(|| Reason::command_line("a key that only Git knows"))
}

/// One line of the output.
struct Line {
    oid: ObjectId,
    name: BString,
    symref: Option<BString>,
}

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let mut request = Request::default();
    let words = TABLE.parse(args)?.store(&mut request)?;
    let place = run.open_any()?;
    let (client, config): (Client<'_>, &dyn Config) = match &place {
        Place::Repository(repo) => (Client::of(repo.as_ref()), repo.as_ref()),
        Place::Outside(config) => (Client::of(config), config),
    };
    let repo = match &place {
        Place::Repository(repo) => Some(repo.as_ref()),
        Place::Outside(_) => None,
    };
    let remote = Remote::find(config, repo, words.first().map(|name| name.as_bstr()))?;
    let url = client.url(remote.url.as_bstr());
    let warning = client.check_password(&url).map_err(|error| Failure::fatal(error.to_string()))?;
    warning.iter().for_each(console::warning);
    if request.get_url {
        let mut listing = Listing::default();
        listing.buffer().extend_from_slice(&text!(url.text, "\n"));
        listing.write("standard output")?;
        return Ok(0);
    }
    remote::refuse_bundle(&url, repo.map_or(run.cwd.as_path(), |repo| repo.child_dir()))?;
    let options = ConnectOptions {
        program: request.upload_pack.clone().or_else(|| remote.upload_pack.clone()),
        server_options: request.server_options.clone(),
        configured_server_options: remote.server_options.clone(),
        verbosity: if request.quiet { -1 } else { 0 },
        tracer: packets::tracer(run).map(|tracer| tracer.0),
        interrupt: Some(run.interrupt.shared()),
        remote: Some(remote.name.clone()),
        ..ConnectOptions::default()
    };
    let found = refs(&client, &url, &options, &request).map_err(|error| remote::failure(run, error))?;
    if words.is_empty() && !request.quiet {
        console::eprint_line(text!("From ", url.text));
    }
    let lines = lines(found, &request, words.get(1..).unwrap_or_default());
    print(&lines, &request)?;
    Ok(if lines.is_empty() && request.exit_code { 2 } else { 0 })
}

fn refs(
    client: &Client<'_>,
    url: &Url,
    options: &ConnectOptions,
    request: &Request,
) -> Result<Vec<RemoteRef>, wire::Error> {
    let prefixes = [(request.tags, "refs/tags/"), (request.branches, "refs/heads/")];
    let prefixes = prefixes.into_iter().filter(|(is_wanted, _)| *is_wanted);
    let prefixes: Vec<BString> = prefixes.map(|(_, prefix)| prefix.into()).collect();
    let mut connection = client.connect(url, options)?;
    let found = connection.list_refs(&prefixes)?.refs;
    connection.close()?;
    Ok(found)
}

/// Selects and sorts the lines of the output.
fn lines(found: Vec<RemoteRef>, request: &Request, patterns: &[BString]) -> Vec<Line> {
    let patterns: Vec<BString> = patterns.iter().map(|pattern| text!("*/", pattern)).collect();
    let mut lines = Vec::new();
    for RemoteRef { name, oid, symref, peeled } in found {
        let peeled = peeled.map(|oid| Line { oid, name: text!(name, "^{}"), symref: None });
        let line = Line { oid, name, symref };
        lines.extend([line].into_iter().chain(peeled).filter(|line| {
            let name = text!("/", line.name);
            let matches = |pattern: &BString| wildmatch(pattern, &name, Mode::default());
            request.wants(line.name.as_bstr()) && (patterns.is_empty() || patterns.iter().any(matches))
        }));
    }
    // The last key is compared first; names are unique, so a further key by name has no effect.
    match request.sort.last() {
        Some(Key::Name) => lines.sort_by(|left, right| left.name.cmp(&right.name)),
        Some(Key::NameReversed) => lines.sort_by(|left, right| right.name.cmp(&left.name)),
        None => {}
    }
    lines
}

impl Request {
    /// Returns true for the names that the options select.
    fn wants(&self, name: &BStr) -> bool {
        if !self.tags && !self.branches && !self.refs {
            return true;
        }
        let Some(rest) = name.strip_prefix(b"refs/") else { return false };
        if self.refs && refname::check(rest.as_bstr(), Levels::One).is_err() {
            return false;
        }
        let is_branch = self.branches && rest.starts_with(b"heads/");
        let is_tag = self.tags && rest.starts_with(b"tags/");
        is_branch || is_tag || (!self.tags && !self.branches)
    }
}

fn print(lines: &[Line], request: &Request) -> Result<(), Failure> {
    let mut listing = Listing::default();
    for line in lines {
        let buffer = listing.buffer();
        if let Some(target) = line.symref.as_ref().filter(|_| request.symref) {
            buffer.extend_from_slice(&text!("ref: ", target, "\t", line.name, "\n"));
        }
        buffer.extend_from_slice(&text!(line.oid.to_string(), "\t", line.name, "\n"));
        listing.flush_if_full()?;
    }
    listing.write("standard output")
}
