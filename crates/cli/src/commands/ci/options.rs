//! The options of `sapwood ci`.

use bstr::{BString, ByteSlice as _};
use sapwood::ci::checkout::Submodules;

use super::runner::Runner;
use crate::{
    session::invocation::Invocation,
    term::{
        args::{Grammar, Opt, Set, Table, Value},
        console::text,
        failure::Failure,
    },
};

/// The options as the user gave them.
#[derive(Debug, Default)]
pub(super) struct Request {
    pub(super) repository: Option<BString>,
    pub(super) server: Option<BString>,
    pub(super) reference: Option<BString>,
    pub(super) commit: Option<BString>,
    pub(super) path: Option<BString>,
    pub(super) depth: Option<u32>,
    pub(super) tags: bool,
    pub(super) filter: Option<BString>,
    pub(super) sparse: Vec<BString>,
    pub(super) cone: Option<bool>,
    pub(super) submodules: Submodules,
    pub(super) lfs: bool,
    pub(super) token_env: Option<BString>,
    pub(super) token_file: Option<BString>,
    pub(super) token_user: Option<BString>,
    pub(super) ssh_key: Option<BString>,
    pub(super) ssh_known_hosts: Option<BString>,
    pub(super) ssh_strict: Option<bool>,
    pub(super) persist: bool,
    pub(super) clean: Option<bool>,
    pub(super) safe_directory: Option<bool>,
    pub(super) base: Option<BString>,
    pub(super) base_dir: Option<BString>,
    pub(super) inputs: bool,
    pub(super) dry_run: bool,
    pub(super) progress: Option<bool>,
    pub(super) quiet: bool,
    pub(super) json: bool,
}

const PATH: Opt<Set<Request>> =
    Opt::text("--path <dir>", "the directory, below the workspace of the job", |request: &mut Request| {
        &mut request.path
    });
const QUIET: Opt<Set<Request>> =
    Opt::flag("-q, --quiet", "say nothing", |request: &mut Request| &mut request.quiet);

pub(super) const CLEANUP: Table<Set<Request>> =
    Table { usage: &["sapwood ci cleanup [-q] [<dir>]"], options: &[PATH, QUIET], grammar: Grammar::Mixed };

pub(super) const CHECKOUT: Table<Set<Request>> = Table {
    usage: &["sapwood ci checkout [<options>] [<url>]"],
    options: &[
        Opt::text(
            "--repository <name>",
            "the repository on the server, as owner/name",
            |request: &mut Request| &mut request.repository,
        ),
        Opt::text("--server <url>", "the server of --repository", |request: &mut Request| {
            &mut request.server
        }),
        Opt::text("--ref <ref>", "the branch, tag or commit", |request: &mut Request| &mut request.reference),
        Opt::text(
            "--commit <id>",
            "the commit that the ref had when the job was made",
            |request: &mut Request| &mut request.commit,
        ),
        PATH,
        Opt::new("--depth <n>", "the number of commits, 0 for all branches and tags; default 1", depth)
            .only(),
        Opt::flag("--tags", "fetch all tags", |request: &mut Request| &mut request.tags),
        Opt::text("--filter <filter>", "make a partial clone", |request: &mut Request| &mut request.filter),
        Opt::list("--sparse <pattern>", "write only these directories", |request: &mut Request| {
            &mut request.sparse
        }),
        Opt::choice(
            "--cone",
            "the patterns of --sparse are directories; the default",
            |request: &mut Request| &mut request.cone,
        ),
        Opt::new("--submodules[=(true|false|recursive)]", "check out submodules", submodules),
        Opt::flag("--lfs", "fetch the contents of Git LFS", |request: &mut Request| &mut request.lfs),
        Opt::text("--token-env <variable>", "the variable that holds the token", |request: &mut Request| {
            &mut request.token_env
        }),
        Opt::text("--token-file <file>", "the file that holds the token", |request: &mut Request| {
            &mut request.token_file
        }),
        Opt::text("--token-user <name>", "the user name for the token", |request: &mut Request| {
            &mut request.token_user
        }),
        Opt::text("--ssh-key <file>", "the private key for ssh", |request: &mut Request| {
            &mut request.ssh_key
        }),
        Opt::text("--ssh-known-hosts <file>", "more keys of hosts for ssh", |request: &mut Request| {
            &mut request.ssh_known_hosts
        }),
        Opt::choice(
            "--ssh-strict",
            "refuse hosts whose key is unknown; the default",
            |request: &mut Request| &mut request.ssh_strict,
        ),
        Opt::flag("--persist-credentials", "keep the credentials for the job", |request: &mut Request| {
            &mut request.persist
        }),
        Opt::choice(
            "--clean",
            "remove what earlier jobs left; the default on a runner",
            |request: &mut Request| &mut request.clean,
        ),
        Opt::choice(
            "--set-safe-directory",
            "accept a directory of another user; the default on a runner",
            |request: &mut Request| &mut request.safe_directory,
        ),
        Opt::text(
            "--base <remote>",
            "the remote of bases that has contents of files",
            |request: &mut Request| &mut request.base,
        ),
        Opt::text(
            "--base-dir <dir>",
            "the directory of bases that the runner keeps",
            |request: &mut Request| &mut request.base_dir,
        ),
        Opt::flag(
            "--inputs",
            "take the inputs of an action from INPUT_ variables",
            |request: &mut Request| &mut request.inputs,
        ),
        Opt::flag("-n, --dry-run", "say what would be done", |request: &mut Request| &mut request.dry_run),
        Opt::choice("--progress", "show progress", |request: &mut Request| &mut request.progress),
        QUIET,
        Opt::flag("--json", "print a JSON document", |request: &mut Request| &mut request.json),
    ],
    grammar: Grammar::Mixed,
};

fn depth(request: &mut Request, value: Value) -> Result<(), Failure> {
    let text = value.text.unwrap_or_default();
    let number = text.to_str().ok().and_then(|text| text.parse().ok());
    let wrong = || Failure::fatal(text!("depth '", text, "' is not a number"));
    request.depth = Some(number.ok_or_else(wrong)?);
    Ok(())
}

fn submodules(request: &mut Request, value: Value) -> Result<(), Failure> {
    let text = value.text_or("true").unwrap_or_else(|| "false".into());
    // actions/checkout ignores the case.
    request.submodules = match &text.to_ascii_lowercase()[..] {
        b"true" => Submodules::Direct,
        b"recursive" => Submodules::Recursive,
        b"false" | b"" => Submodules::None,
        _ => return Err(Failure::fatal(text!("--submodules is true, false or recursive, not '", text, "'"))),
    };
    Ok(())
}

impl Request {
    /// Returns the URL of `--repository`, or that of the runner.
    pub(super) fn url(&self, runner: &Runner) -> Option<BString> {
        let Some(name) = self.repository.as_ref().filter(|name| !name.is_empty()) else {
            return runner.url.clone();
        };
        let server = self.server.as_ref().or(runner.server.as_ref());
        let server =
            server.map_or(&b"https://github.com"[..], |server| server.trim_end_with(|letter| letter == '/'));
        Some(text!(server, "/", name))
    }

    /// Returns the command for ssh, if there is a key or a file of hosts. Git runs it in a shell.
    pub(super) fn ssh_command(&self, run: &Invocation) -> Result<Option<BString>, Failure> {
        let quoted = |file: &BString| -> Result<BString, Failure> {
            let path = run.path(file)?;
            let path = path.as_os_str().as_encoded_bytes();
            // ssh splits the value of an option at blanks.
            if path.iter().any(|byte| matches!(byte, b'\'' | b'"' | b' ' | b'\t' | b'\n')) {
                return Err(Failure::fatal(text!(
                    "'",
                    path,
                    "': ssh needs a path without blanks and quotes"
                )));
            }
            Ok(path.into())
        };
        if self.ssh_key.is_none() && self.ssh_known_hosts.is_none() {
            return Ok(None);
        }
        let mut command = BString::from("ssh");
        if let Some(key) = &self.ssh_key {
            command = text!(command, " -i '", quoted(key)?, "' -o IdentitiesOnly=yes");
        }
        if self.ssh_strict.unwrap_or(true) {
            command = text!(command, " -o StrictHostKeyChecking=yes -o CheckHostIP=no");
        }
        if let Some(hosts) = &self.ssh_known_hosts {
            command = text!(command, " -o 'UserKnownHostsFile=", quoted(hosts)?, " ~/.ssh/known_hosts'");
        }
        Ok(Some(command))
    }
}
