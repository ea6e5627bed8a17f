//! The options of `sapwood ci`.

use std::path::PathBuf;

use bstr::{BString, ByteSlice as _};
use sapwood::ci::{Content, Ssh, checkout::Submodules};

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
    pub(super) ssh_key_env: Option<BString>,
    pub(super) ssh_known_hosts: Option<BString>,
    pub(super) ssh_known_hosts_env: Option<BString>,
    pub(super) ssh_user: Option<BString>,
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
    Opt::text("--path <dir>", "the directory, below the workspace of the job", field!(path));
const QUIET: Opt<Set<Request>> = Opt::flag("-q, --quiet", "say nothing", field!(quiet));

pub(super) const CLEANUP: Table<Set<Request>> =
    Table { usage: &["sapwood ci cleanup [-q] [<dir>]"], options: &[PATH, QUIET], grammar: Grammar::Mixed };

pub(super) const CHECKOUT: Table<Set<Request>> = Table {
    usage: &["sapwood ci checkout [<options>] [<url>]"],
    options: &[
        Opt::text("--repository <name>", "the repository on the server, as owner/name", field!(repository)),
        Opt::text("--server <url>", "the server of --repository", field!(server)),
        Opt::text("--ref <ref>", "the branch, tag or commit", field!(reference)),
        Opt::text("--commit <id>", "the commit that the ref had when the job was made", field!(commit)),
        PATH,
        Opt::new("--depth <n>", "the number of commits, 0 for all branches and tags; default 1", depth)
            .only(),
        Opt::flag("--tags", "fetch all tags", field!(tags)),
        Opt::text("--filter <filter>", "make a partial clone", field!(filter)),
        Opt::list("--sparse <pattern>", "write only these directories", field!(sparse)),
        Opt::choice("--cone", "the patterns of --sparse are directories; the default", field!(cone)),
        Opt::new("--submodules[=(true|false|recursive)]", "check out submodules", submodules),
        Opt::flag("--lfs", "fetch the contents of Git LFS", field!(lfs)),
        Opt::text("--token-env <variable>", "the variable that holds the token", field!(token_env)),
        Opt::text("--token-file <file>", "the file that holds the token", field!(token_file)),
        Opt::text("--token-user <name>", "the user name for the token", field!(token_user)),
        Opt::text("--ssh-key <file>", "the private key for ssh", field!(ssh_key)),
        Opt::text(
            "--ssh-key-env <variable>",
            "the variable that holds the private key for ssh",
            field!(ssh_key_env),
        ),
        Opt::text("--ssh-known-hosts <file>", "more keys of hosts for ssh", field!(ssh_known_hosts)),
        Opt::text(
            "--ssh-known-hosts-env <variable>",
            "the variable that holds more keys of hosts for ssh",
            field!(ssh_known_hosts_env),
        ),
        Opt::text(
            "--ssh-user <name>",
            "the user name for ssh, with a key and --repository; default 'git'",
            field!(ssh_user),
        ),
        Opt::choice("--ssh-strict", "refuse hosts whose key is unknown; the default", field!(ssh_strict)),
        Opt::flag("--persist-credentials", "keep the credentials for the job", field!(persist)),
        Opt::choice("--clean", "remove what earlier jobs left; the default on a runner", field!(clean)),
        Opt::choice(
            "--set-safe-directory",
            "accept a directory of another user; the default on a runner",
            field!(safe_directory),
        ),
        Opt::text("--base <remote>", "the remote of bases that has contents of files", field!(base)),
        Opt::text("--base-dir <dir>", "the directory of bases that the runner keeps", field!(base_dir)),
        Opt::flag("--inputs", "take the inputs of an action from INPUT_ variables", field!(inputs)),
        Opt::flag("-n, --dry-run", "say what would be done", field!(dry_run)),
        Opt::choice("--progress", "show progress", field!(progress)),
        QUIET,
        Opt::flag("--json", "print a JSON document", field!(json)),
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

    /// Returns the URL by which the repository at `url` is reached: by ssh, if there is a key.
    pub(super) fn by_ssh(&self, url: BString) -> BString {
        let server = [&b"https://"[..], b"http://"].iter().find_map(|scheme| url.strip_prefix(*scheme));
        let has_key = self.ssh_key.is_some() || self.ssh_key_env.is_some();
        match server.and_then(|rest| rest.split_once_str("/")).filter(|_| has_key) {
            Some((server, path)) => {
                let host = server.rsplit_once_str("@").map_or(server, |(_, host)| host);
                let host = host.split(|&byte| byte == b':').next().unwrap_or(host);
                let user = self.ssh_user.as_ref().filter(|user| !user.is_empty());
                let user = user.map_or(&b"git"[..], |user| user);
                let path = path.strip_suffix(b".git").unwrap_or(path);
                text!(user, "@", host, ":", path, ".git")
            }
            None => url,
        }
    }

    /// Returns the access by ssh, with files in `dir`, and the names of the variables that hold it.
    pub(super) fn ssh(&self, run: &Invocation, dir: PathBuf) -> Result<(Ssh, Vec<BString>), Failure> {
        let mut hidden = Vec::new();
        let mut content = |file: &Option<BString>, variable: &Option<BString>| {
            if let Some(name) = variable {
                let Some(text) = run.variable(&name.to_str_lossy()) else {
                    return Err(Failure::fatal(text!("the variable '", name, "' is not set")));
                };
                hidden.push(name.clone());
                return Ok(Some(Content::Text(text.into())));
            }
            Ok(file.as_ref().map(|file| run.path(file)).transpose()?.map(Content::File))
        };
        let key = content(&self.ssh_key, &self.ssh_key_env)?;
        let known_hosts = content(&self.ssh_known_hosts, &self.ssh_known_hosts_env)?;
        Ok((Ssh { key, known_hosts, is_strict: self.ssh_strict.unwrap_or(true), dir }, hidden))
    }
}
