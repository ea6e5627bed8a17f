//! A transport that is a process: `upload-pack` on this machine, ssh, a proxy command, a remote
//! helper.
//!
//! Failure: a process that is dropped before its end is killed, so it never outlives the command.

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

/// The number of times that a process without streams is looked at, 5 ms apart, until it is killed.
const GRACE: usize = 60;

/// A process that speaks the protocol on its standard input and output.
///
/// The streams come first, so that they are closed before the process is waited for.
pub(super) struct Process {
    input: Input,
    output: BufReader<Watched<ChildStdout>>,
    child: Reaper,
}

/// The requests to the process.
struct Input {
    stream: ChildStdin,
    is_used: bool,
}

impl Drop for Input {
    fn drop(&mut self) {
        // A server of version 0 that got no request complains unless it is told that none comes.
        if !self.is_used {
            let _ = self.stream.write_all(b"0000");
        }
    }
}

struct Reaper(Child);

impl Drop for Reaper {
    fn drop(&mut self) {
        // The process has no reader and writer any more. It may say so, as Git's does, and is
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
    /// Starts a process. `name` is the program in the error message.
    pub(super) fn start(mut command: Command, name: &str, interrupt: Interrupt) -> Result<Process, Error> {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map(Reaper);
        let mut child = child.map_err(|source| Error::Spawn { command: name.to_owned(), source })?;
        let (Some(input), Some(output)) = (child.0.stdin.take(), child.0.stdout.take()) else {
            return Err(Error::HungUp);
        };
        let input = Input { stream: input, is_used: false };
        let output = BufReader::with_capacity(1 << 17, Watched { inner: output, interrupt });
        Ok(Process { input, output, child })
    }

    /// Returns the stream of bytes that the process writes.
    pub(super) fn output(&mut self) -> &mut impl io::BufRead {
        &mut self.output
    }

    /// Waits for the end of a process that has closed its output. Returns its exit code.
    pub(super) fn exit_code(&mut self) -> Option<i32> {
        self.child.0.wait().ok().and_then(|status| status.code())
    }

    /// Closes both streams, and waits for the end. It is an error if the process failed.
    pub(super) fn end(self) -> Result<(), Error> {
        let Process { input, output, mut child } = self;
        drop((input, output));
        match child.0.wait().map_err(Error::Io)?.success() {
            true => Ok(()),
            false => Err(Error::Failed),
        }
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
