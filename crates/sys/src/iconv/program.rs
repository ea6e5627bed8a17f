//! The system's program `iconv`.

use std::{
    ffi::OsStr,
    fs::File,
    io::{Seek as _, Write as _},
    os::unix::ffi::OsStrExt as _,
    process::{Command, Stdio},
};

use rustix::fs::{MemfdFlags, memfd_create};

use super::Error;

/// Converts `input` and appends the result to `out`. Returns `None` if the program cannot be
/// started.
pub(super) fn convert(to: &[u8], from: &[u8], input: &[u8], out: &mut Vec<u8>) -> Option<Result<(), Error>> {
    if [to, from].iter().any(|name| name.is_empty() || name.contains(&0)) {
        return Some(Err(Error::Unknown));
    }
    match run(to, from, input)? {
        Some(converted) => {
            out.extend_from_slice(&converted);
            Some(Ok(()))
        }
        // The exit code does not say why. An empty input fails only if an encoding is unknown.
        None => Some(Err(match run(to, from, b"")? {
            Some(_) => Error::Unfit,
            None => Error::Unknown,
        })),
    }
}

/// Returns `None` if the program cannot be started, and `Some(None)` if it fails.
fn run(to: &[u8], from: &[u8], input: &[u8]) -> Option<Option<Vec<u8>>> {
    // A file, not a pipe: the program may write before it has read everything.
    let mut file = File::from(memfd_create("iconv", MemfdFlags::CLOEXEC).ok()?);
    file.write_all(input).and_then(|()| file.rewind()).ok()?;
    let [mut to_option, mut from_option] = [b"--to-code=".to_vec(), b"--from-code=".to_vec()];
    to_option.extend_from_slice(to);
    from_option.extend_from_slice(from);
    let mut command = Command::new("iconv");
    command.arg(OsStr::from_bytes(&from_option)).arg(OsStr::from_bytes(&to_option));
    let output = command.stdin(Stdio::from(file)).stderr(Stdio::null()).output().ok()?;
    Some(output.status.success().then_some(output.stdout))
}
