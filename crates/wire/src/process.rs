//! A transport that is a process: `upload-pack` on this machine, ssh, a proxy command, a remote
//! helper.
//!
//! On failure, a process that is dropped while it runs is killed, so it never outlives the command.

use std::{
    io::{self, BufReader, Read, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use super::{
    Error,
    interrupt::{Interrupt, Watched},
    link::Link,
};

/// The number of checks, 5 ms apart, before a process whose streams are closed is killed.
const GRACE: usize = 60;

/// A process that speaks the protocol on its standard input and output.
///
/// The order of the fields matters: the streams are closed before the wait for the process.
pub(super) struct Process {
    input: Input,
    output: BufReader<Watched<ChildStdout>>,
    child: Reaper,
}

/// The standard input of the process, which carries the requests.
struct Input {
    stream: ChildStdin,
    is_used: bool,
}

impl Drop for Input {
    fn drop(&mut self) {
        // A server of version 0 complains if it gets no request. A flush packet ends the session.
        if !self.is_used {
            let _ = self.stream.write_all(b"0000");
        }
    }
}

struct Reaper(Child);

impl Drop for Reaper {
    fn drop(&mut self) {
        // Both streams are closed. The process may print a message about this, as Git's does. It is
        // killed if it does not end.
        for _ in 0..GRACE {
            if matches!(self.0.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    /// Starts a process. `name` is the program's name in the error message.
    pub(super) fn start(mut command: Command, name: &str, interrupt: Interrupt) -> Result<Process, Error> {
        sys::interrupt::install();
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map(Reaper);
        let mut child = child.map_err(|source| Error::Spawn { command: name.to_owned(), source })?;
        let (Some(input), Some(output)) = (child.0.stdin.take(), child.0.stdout.take()) else {
            return Err(Error::HungUp);
        };
        let input = Input { stream: input, is_used: false };
        let output = BufReader::with_capacity(1 << 17, Watched { inner: output, interrupt });
        Ok(Process { input, output, child })
    }

    /// Returns the standard output of the process.
    pub(super) fn output(&mut self) -> &mut impl io::BufRead {
        &mut self.output
    }

    /// Waits for a process that has closed its output. Returns its exit code.
    pub(super) fn exit_code(&mut self) -> Option<i32> {
        self.child.0.wait().ok().and_then(|status| status.code())
    }

    /// Closes both streams, and waits for the process. Returns an error if it failed.
    pub(super) fn end(self) -> Result<(), Error> {
        let Process { input, output, mut child } = self;
        drop((input, output));
        if child.0.wait().map_err(Error::Io)?.success() { Ok(()) } else { Err(Error::Failed) }
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
        self.input.is_used = true;
        self.input.stream.write_all(request).map_err(Error::Io)
    }

    fn finish(self: Box<Self>) -> Result<(), Error> {
        self.end()
    }
}
