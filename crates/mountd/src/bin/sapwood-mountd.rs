//! `sapwood-mountd [--listen SOCKET] [--<option> <value>]...`: the mount service. Without
//! `--listen`, the standard input is the listening socket, as systemd passes it.

use std::{env, ffi::OsString, io, path::PathBuf, process::ExitCode};

use mountd::{Policy, listen, serve, worker};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            use io::Write as _;
            let _ = writeln!(io::stderr(), "sapwood-mountd: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<()> {
    let mut args = env::args_os().skip(1).peekable();
    if args.next_if(|arg| arg == mountd::REFUSE).is_some() {
        return worker::refuse();
    }
    let is_worker = args.next_if(|arg| arg == mountd::WORKER).is_some();
    let (mut policy, mut socket) = (Policy::default(), None);
    while let Some(name) = args.next() {
        let malformed = || io::Error::other(format!("unknown option '{}'", name.display()));
        let value: OsString = args.next().ok_or_else(malformed)?;
        if name == "--listen" {
            socket = Some(PathBuf::from(value));
        } else if !policy.set(&name, value) {
            return Err(malformed());
        }
    }
    match socket {
        _ if is_worker => worker::run(&policy),
        Some(socket) => serve(listen(&socket)?, &policy),
        None => serve(io::stdin(), &policy),
    }
}
