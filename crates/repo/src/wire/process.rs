//! A transport that is a process: `upload-pack` on this machine.

use std::{
    ffi::OsStr,
    io::{self, BufReader, Read, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use super::{Error, link::Link};

/// A process that speaks the protocol on its standard input and output.
pub(super) struct Process {
    child: Reaper,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

struct Reaper(Child);

impl Drop for Reaper {
    fn drop(&mut self) {
        // A process that still runs has no reader and writer any more, so it is killed.
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

impl Process {
    /// Runs `program` on `repository` through the shell, as Git does. `command` has the
    /// environment.
    pub(super) fn on_this_machine(
        program: &OsStr,
        repository: &Path,
        environment: impl FnOnce(&mut Command),
    ) -> Result<Process, Error> {
        let mut script = program.to_owned();
        script.push(" \"$1\"");
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).arg("sh").arg(repository);
        environment(&mut command);
        Process::start(command, &program.to_string_lossy())
    }

    fn start(mut command: Command, name: &str) -> Result<Process, Error> {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map(Reaper);
        let mut child = child.map_err(|source| Error::Spawn { command: name.to_owned(), source })?;
        let (Some(input), Some(output)) = (child.0.stdin.take(), child.0.stdout.take()) else {
            return Err(Error::HungUp);
        };
        Ok(Process { child, input, output: BufReader::with_capacity(1 << 17, output) })
    }
}

impl Read for Process {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.output.read(buffer)
    }
}

impl Link for Process {
    fn is_stateless(&self) -> bool {
        false
    }

    fn send(&mut self, request: &[u8]) -> Result<(), Error> {
        self.input.write_all(request).and_then(|()| self.input.flush()).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Error::HungUp,
            _ => Error::Io(error),
        })
    }

    fn finish(self: Box<Self>) -> Result<(), Error> {
        let Process { mut child, mut input, output } = *self;
        // The server may have exited already.
        let _ = input.write_all(b"0000");
        drop((input, output));
        match child.0.wait().map_err(Error::Io)?.success() {
            true => Ok(()),
            false => Err(Error::Failed),
        }
    }
}
