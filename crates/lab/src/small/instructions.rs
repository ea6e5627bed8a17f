//! Counts the instructions of a run with valgrind.

use std::{fs, io, process::Command};

use crate::{Error, measure::Invocation};

/// Runs the command under valgrind and counts the instructions of its process, without those of
/// its children and of the kernel. Returns `None` if the process became another program, or ended
/// by a signal: its count is that of a part.
pub(super) fn of(invocation: &Invocation) -> Result<Option<i64>, Error> {
    let outside = invocation.outside.iter().map(String::as_str);
    let valgrind =
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", invocation.program.as_str()];
    let mut words = outside.chain(valgrind);
    let program = words.next().expect("at least valgrind");
    let ended = Command::new(program)
        .args(words)
        .args(&invocation.args)
        .current_dir(&invocation.cwd)
        .output()
        .map_err(|source| Error::Io { what: "cannot run", path: program.into(), source })?;
    let text = String::from_utf8_lossy(&ended.stderr);
    if !text.contains("Callgrind") {
        return Err(Error::Setup(format!("valgrind failed: {text}")));
    }
    if ended.status.code().is_none() {
        // It may have held the lock.
        let lock = invocation.cwd.join(".git/index.lock");
        if let Err(source) = fs::remove_file(&lock)
            && source.kind() != io::ErrorKind::NotFound
        {
            return Err(Error::Io { what: "cannot remove", path: lock, source });
        }
        return Ok(None);
    }
    Ok(parse(&text))
}

/// Returns the number of the line `==<pid>== Collected : <number>`.
fn parse(text: &str) -> Option<i64> {
    text.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_found() {
        let text =
            "==7== Callgrind, a call-graph generating cache profiler\n==7== Collected : 1234\n==7== \n";
        assert_eq!(parse(text), Some(1234));
        assert_eq!(parse("==7== Callgrind\n"), None);
    }
}
