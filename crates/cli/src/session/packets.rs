//! `GIT_TRACE_PACKET` and `GIT_TRACE_PACKFILE`: the packets of the protocol, in Git's format.
//!
//! A failed write does not affect the command.

use std::{
    io::Write as _,
    os::fd::AsFd as _,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use engine::clone::Tracer;
use repo::wire::Packet;

use crate::{
    session::invocation::Invocation,
    term::{
        files::{self, File},
        text::{clock::wall_clock, os_str},
    },
};

/// The column where messages begin, after the time and the source position.
const COLUMN: usize = 40;

/// Returns the tracer of all packets, or `None` without the variables.
pub(crate) fn tracer(run: &Invocation) -> Option<Tracer> {
    let (lines, packs) = (target(run, "GIT_TRACE_PACKET"), target(run, "GIT_TRACE_PACKFILE"));
    if lines.is_none() && packs.is_none() {
        return None;
    }
    let write = |file: &Option<Mutex<File>>, bytes: &[u8]| {
        if let Some(file) = file {
            let _ = file.lock().unwrap_or_else(PoisonError::into_inner).write_all(bytes);
        }
    };
    let command = run.command.to_string();
    Some(Tracer(Arc::new(move |packet| match packet {
        Packet::Sent(content) => write(&lines, &line(&command, '>', content)),
        Packet::Received(content) => write(&lines, &line(&command, '<', content)),
        Packet::Pack(content) => write(&packs, content),
    })))
}

fn line(command: &str, direction: char, content: &[u8]) -> Vec<u8> {
    let time = wall_clock();
    let mut line = format!("{time} {command}: ");
    line.push_str(&" ".repeat(COLUMN.saturating_sub(line.len())));
    line.push_str(&format!("packet: {command:>12}{direction} "));
    for &byte in content.iter().filter(|&&byte| byte != b'\n') {
        match byte {
            0x20..=0x7e => line.push(char::from(byte)),
            _ => line.push_str(&format!("\\{byte:o}")),
        }
    }
    line.push('\n');
    line.into_bytes()
}

/// Opens the file or descriptor that a variable names.
fn target(run: &Invocation, variable: &str) -> Option<Mutex<File>> {
    let value = run.variable(variable)?;
    let path = match value {
        // A file that is opened a second time would have its own write position.
        b"1" | b"2" | b"true" => {
            let stderr = std::io::stderr().as_fd().try_clone_to_owned().ok()?;
            return Some(Mutex::new(std::fs::File::from(stderr).into()));
        }
        [digit @ b'3'..=b'9'] => format!("/proc/self/fd/{}", char::from(*digit)).into(),
        [b'/', ..] => Path::new(os_str(value)).to_owned(),
        _ => return None,
    };
    files::open_log(&path).ok().map(Mutex::new)
}
