//! Costs of a command as counts, which do not depend on the load of the machine.

use std::{
    fs,
    process::{Command, Stdio},
};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// Runs a command a few times, without input and output, and returns the fewest page faults that
/// needed no disk. A page that leaves the page cache meanwhile would add some.
pub fn page_faults(mut command: impl FnMut() -> Command) -> u64 {
    const RUNS: usize = 5;
    (0..RUNS).map(|_| page_faults_of(&mut command())).min().expect("several runs")
}

fn page_faults_of(command: &mut Command) -> u64 {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = quiet.spawn().expect("it can be run");
    let id = Pid::from_child(&child);
    // The kernel keeps the numbers of an ended process until its parent has waited for it.
    waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).expect("a child");
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("its numbers");
    assert!(child.wait().expect("a child").success(), "{command:?}");
    // Behind the name, which may contain anything, the minor faults are the eighth field.
    let fields = stat.rsplit_once(") ").expect("a name in parentheses").1;
    fields.split(' ').nth(7).and_then(|field| field.parse().ok()).expect("a number")
}

/// Returns the system calls of a command under strace, from its `execve` on, one in a line without
/// the process id; `None` if strace cannot trace here.
pub fn system_calls(command: &Command, wrap: impl FnOnce(&str) -> Command) -> Option<Vec<String>> {
    let dir = tempfile::tempdir().expect("a directory for tests");
    let log = dir.path().join("trace");
    let mut traced = wrap("strace");
    traced.args(["-f", "-qq", "-o"]).arg(&log).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => traced.env(name, value),
            None => traced.env_remove(name),
        };
    }
    let output = traced.stdin(Stdio::null()).output().expect("strace can be run");
    let Ok(text) = fs::read_to_string(log) else {
        println!("skipped: strace cannot trace: {}", String::from_utf8_lossy(&output.stderr));
        return None;
    };
    let call = |line: &str| {
        line.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ' ').to_owned()
    };
    // A call that another thread interrupts has two lines.
    Some(text.lines().map(call).filter(|line| !line.starts_with("<... ")).collect())
}

/// Returns the number of relocations that a dynamic linker applies to a 64-bit ELF program.
pub fn relocations(program: &[u8]) -> u64 {
    const RELA: u32 = 4;
    let number = |at: u64, len: usize| {
        let at = usize::try_from(at).expect("within the file");
        let mut bytes = [0; 8];
        bytes[..len].copy_from_slice(&program[at..at + len]);
        u64::from_le_bytes(bytes)
    };
    assert!(program.starts_with(b"\x7fELF\x02\x01"), "a 64-bit program, the lowest byte first");
    let (table, size, count) = (number(0x28, 8), number(0x3a, 2), number(0x3c, 2));
    let sections = (0..count).map(|at| table + at * size);
    let of_loader = sections.filter(|&at| number(at + 4, 4) == u64::from(RELA) && number(at + 8, 8) & 2 != 0);
    of_loader.map(|at| number(at + 0x20, 8) / number(at + 0x38, 8).max(1)).sum()
}
