//! Runs a command under `ptrace(2)`.

use std::{
    collections::HashMap,
    fs::File,
    os::unix::{fs::FileExt as _, process::CommandExt as _},
    process::{Command, Stdio},
    thread,
};

use nix::{
    errno::Errno,
    libc,
    sys::{
        ptrace::{self, Options},
        signal::{Signal, kill},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use rustix::fs::{MemfdFlags, memfd_create};

use super::calls::Changing;

/// Something that happens before a change.
#[derive(Clone, Copy)]
pub(super) struct Stop<'a> {
    pub(super) number: usize,
    pub(super) event: Event<'a>,
}

#[derive(Clone, Copy)]
pub(super) enum Event<'a> {
    Signal(Signal),
    /// The command waits for it.
    Meanwhile(&'a (dyn Fn() + Sync)),
}

/// The end of a command.
#[derive(Debug)]
pub(super) struct Outcome {
    /// Exit code; 128 + n if signal n ended the command.
    pub(super) code: i32,
    pub(super) stderr: String,
    /// The calls that change something, in their order.
    pub(super) calls: Vec<&'static str>,
    /// The call before which the event happened.
    pub(super) stopped: Option<String>,
}

/// Runs the command. Its tracer is a thread of its own, which waits for no process of another one.
pub(super) fn run(command: &Command, stop: Option<Stop<'_>>) -> Outcome {
    thread::scope(|scope| {
        let tracer = scope.spawn(|| trace(command, stop));
        tracer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

// The tracer waits for the child.
#[allow(clippy::zombie_processes)]
fn trace(command: &Command, stop: Option<Stop<'_>>) -> Outcome {
    let stderr = File::from(memfd_create("stderr", MemfdFlags::CLOEXEC).expect("memory"));
    let mut child = stopped(command, stderr.try_clone().expect("a descriptor")).spawn().expect("a shell");
    let root = Pid::from_raw(child.id() as i32);
    let halted = waitpid(root, Some(WaitPidFlag::WUNTRACED)).expect("our child");
    assert_eq!(halted, WaitStatus::Stopped(root, Signal::SIGSTOP), "the shell stops itself");
    let options = Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK;
    if let Err(error) = ptrace::seize(root, options) {
        let _ = child.kill().and_then(|()| child.wait());
        panic!("this test traces its children, and may not: {error}");
    }
    let mut tracer = Tracer {
        root,
        tracees: HashMap::from([(root, false)]),
        has_begun: false,
        calls: Vec::new(),
        stop,
        stopped: None,
        is_killed: false,
    };
    kill(root, Signal::SIGCONT).expect("our child");
    let code = tracer.run();
    let mut text = vec![0; stderr.metadata().expect("memory").len() as usize];
    stderr.read_exact_at(&mut text, 0).expect("memory");
    let stderr = String::from_utf8_lossy(&text).into_owned();
    Outcome { code, stderr, calls: tracer.calls, stopped: tracer.stopped }
}

/// Returns a shell that stops itself, and becomes the command when it goes on.
fn stopped(command: &Command, stderr: File) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "kill -STOP $$; exec \"$0\" \"$@\""]);
    shell.arg(command.get_program()).args(command.get_args()).env_clear();
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(dir) = command.get_current_dir() {
        shell.current_dir(dir);
    }
    // In a process group of its own, it gets no signal of a terminal.
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).process_group(0);
    shell
}

struct Tracer<'a> {
    root: Pid,
    /// The threads. True for those inside a system call, whose next stop is its end.
    tracees: HashMap<Pid, bool>,
    /// The shell has become the command.
    has_begun: bool,
    calls: Vec<&'static str>,
    stop: Option<Stop<'a>>,
    /// The call before which the event happened.
    stopped: Option<String>,
    is_killed: bool,
}

impl Tracer<'_> {
    /// Traces all threads until the command has ended, after a kill until all processes have.
    /// Processes that outlive the command go on without a tracer when this thread ends.
    fn run(&mut self) -> i32 {
        let mut code = None;
        loop {
            let next = waitpid(None, Some(WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD));
            match next {
                Ok(WaitStatus::Exited(thread, status)) => code = self.ended(thread, status).or(code),
                Ok(WaitStatus::Signaled(thread, signal, _)) => {
                    code = self.ended(thread, 128 + signal as i32).or(code);
                }
                Ok(WaitStatus::PtraceSyscall(thread)) => self.at_call(thread),
                Ok(WaitStatus::PtraceEvent(thread, _, event)) => self.at_event(thread, event),
                Ok(WaitStatus::Stopped(thread, signal)) => self.resume(thread, Some(signal)),
                Ok(WaitStatus::Continued(_) | WaitStatus::StillAlive) | Err(Errno::EINTR) => {}
                // The last one is gone.
                Err(Errno::ECHILD) => self.tracees.clear(),
                Err(error) => panic!("cannot wait for the command: {error}"),
            }
            if let Some(code) = code.filter(|_| !self.is_killed || self.tracees.is_empty()) {
                return code;
            }
            assert!(next != Err(Errno::ECHILD), "the command has ended unseen");
        }
    }

    /// Returns the exit code if this was the command.
    fn ended(&mut self, thread: Pid, code: i32) -> Option<i32> {
        self.tracees.remove(&thread);
        (thread == self.root).then_some(code)
    }

    fn at_call(&mut self, thread: Pid) {
        let is_inside = self.tracees.entry(thread).or_default();
        *is_inside = !*is_inside;
        if *is_inside
            && self.has_begun
            && let Some(call) = Changing::at_entry_of(thread)
        {
            self.calls.push(call.name);
            if let Some(stop) = self.stop.filter(|stop| stop.number == self.calls.len()) {
                self.stopped = Some(call.describe());
                match stop.event {
                    Event::Signal(signal) => self.send(signal),
                    Event::Meanwhile(act) => act(),
                }
            }
        }
        self.resume(thread, None);
    }

    /// A kill skips the calls that stopped threads were about to make.
    fn send(&mut self, signal: Signal) {
        if signal != Signal::SIGKILL {
            kill(self.root, signal).expect("the command runs");
            return;
        }
        self.is_killed = true;
        for thread in self.tracees.keys() {
            // The thread may have ended with another of its process.
            let _ = kill(*thread, signal);
        }
    }

    fn at_event(&mut self, thread: Pid, event: libc::c_int) {
        if event == libc::PTRACE_EVENT_EXEC {
            // The thread has the id of its process from now on.
            if let Ok(former) = ptrace::getevent(thread) {
                self.tracees.remove(&Pid::from_raw(former as libc::pid_t));
            }
            self.tracees.insert(thread, true);
            self.has_begun |= thread == self.root;
        }
        self.tracees.entry(thread).or_default();
        self.resume(thread, None);
    }

    fn resume(&mut self, thread: Pid, signal: Option<Signal>) {
        if self.is_killed {
            // It may have been started after the kill.
            let _ = kill(thread, Signal::SIGKILL);
        }
        // A thread that was killed cannot go on.
        let _ = ptrace::syscall(thread, signal);
    }
}
