//! `sapwood-csi [--csi SOCKET] [--plugin SOCKET] [--<option> <value>]...`: workspaces as volumes
//! of Kubernetes, Docker and Podman.

use std::{
    env,
    ffi::{OsStr, OsString},
    io,
    path::PathBuf,
    process::ExitCode,
};

use csi::{Settings, Volumes, listen, serve};

const USAGE: &str = "\
usage: sapwood-csi [<options>]

    --csi <socket>          serve the CSI node service at this socket
    --plugin <socket>       serve the volume plugin of Docker and Podman at this socket
    --state <dir>           records, repositories, workspaces (/var/lib/sapwood-csi)
    --run <dir>             files with secrets, in memory (/run/sapwood-csi)
    --node <name>           the name of this node (the name of the host)
    --sapwood <program>     the program sapwood
    --git <program>         the real Git
    --git-config <file>     Git's settings for all volumes
    --allow <prefix>        repositories that volumes may name (https://, ssh://; repeatable)
    --allow-base <prefix>   remotes of bases that volumes may name (https://; repeatable)
    --objects <way>         apart (clones of files, else copies) or link: volumes share objects
    --budget <size>         the bytes of repositories that no volume uses (20G)";

fn main() -> ExitCode {
    let mut args = env::args_os().skip(1).peekable();
    if args.next_if(|arg| arg == csi::BECOME).is_some() {
        return fail(&csi::become_user(args));
    }
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn fail(error: &io::Error) -> ExitCode {
    use io::Write as _;
    let _ = writeln!(io::stderr(), "sapwood-csi: {error}");
    ExitCode::FAILURE
}

fn run(mut args: impl Iterator<Item = OsString>) -> io::Result<()> {
    let mut settings = Settings::default();
    settings.take_environment(env::vars_os());
    let (mut node, mut named): (Option<PathBuf>, Option<PathBuf>) = (None, None);
    while let Some(name) = args.next() {
        if name == "--help" || name == "--version" {
            use io::Write as _;
            let version = concat!("sapwood-csi ", env!("CARGO_PKG_VERSION"));
            return writeln!(io::stdout(), "{}", if name == "--help" { USAGE } else { version });
        }
        let malformed =
            || io::Error::other(format!("unknown or malformed option '{}'\n{USAGE}", name.display()));
        let (name, value) = match split(&name) {
            Some(pair) => pair,
            None => (name.clone(), args.next().ok_or_else(malformed)?),
        };
        if name == "--csi" {
            node = Some(value.into());
        } else if name == "--plugin" {
            named = Some(value.into());
        } else if !settings.set(&name, value) {
            return Err(malformed());
        }
    }
    if node.is_none() && named.is_none() {
        return Err(io::Error::other(format!("no socket\n{USAGE}")));
    }
    // Before the sockets: a second service must not take those of the first.
    let volumes = Volumes::open(settings).map_err(io::Error::other)?;
    let open = |path: Option<PathBuf>| path.map(|path| listen(&path)).transpose();
    let (node, named) = (open(node).map_err(io::Error::other)?, open(named).map_err(io::Error::other)?);
    serve(volumes, node, named)
}

/// Splits an option of the form `--name=value`.
fn split(arg: &OsStr) -> Option<(OsString, OsString)> {
    let text = arg.to_str()?;
    let (name, value) = text.split_once('=')?;
    name.starts_with("--").then(|| (name.into(), value.into()))
}
