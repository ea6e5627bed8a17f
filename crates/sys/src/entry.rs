//! The start of a program without the set-up of Rust's standard library.
//!
//! That set-up reads `/proc/self/maps`, allocates a signal stack and ignores SIGPIPE, even if the
//! program does not need it. For a program that only executes another one, it is a tenth of the run
//! time. [`entry!`](crate::entry!) defines the C function `main` instead. [`set_up`] then does the
//! parts that the rest of the program depends on.

use std::{
    ffi::{CStr, OsStr, OsString, c_char, c_int},
    io::Write as _,
    os::unix::ffi::OsStrExt as _,
    panic::{AssertUnwindSafe, catch_unwind},
};

use rustix::{fs::Mode, fs::OFlags, io::Errno};

/// The exit code of a Rust program after a panic.
const PANICKED: u8 = 101;

/// Defines the C function `main`. It calls `$main` with the arguments, the program's name first,
/// and ends the process with the code that `$main` returns.
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        /// The entry point that the C library calls.
        #[unsafe(no_mangle)]
        pub extern "C" fn main(
            count: std::ffi::c_int,
            arguments: *const *const std::ffi::c_char,
        ) -> std::ffi::c_int {
            $crate::run_main(count, arguments, $main)
        }
    };
}

/// Runs the body of the function that [`entry!`](crate::entry!) defines. `arguments` are those of a
/// C `main`.
#[doc(hidden)]
#[allow(clippy::not_unsafe_ptr_arg_deref)]
pub fn run_main(count: c_int, arguments: *const *const c_char, main: fn(Vec<OsString>) -> u8) -> c_int {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the C library passes `count` pointers to NUL-terminated strings, which live as long
    // as the process.
    let argument = |at: usize| unsafe { CStr::from_ptr(*arguments.add(at)) };
    let argv = (0..count).map(|at| OsStr::from_bytes(argument(at).to_bytes()).to_owned()).collect();
    // A panic must not unwind into C.
    let code = catch_unwind(AssertUnwindSafe(|| main(argv))).unwrap_or(PANICKED);
    let _ = std::io::stdout().flush();
    c_int::from(code)
}

/// Opens the standard streams that are closed, so that no other file gets their numbers, and
/// ignores SIGPIPE, so that a write to a closed pipe is an error. Call it once, before other
/// threads run. [`crate::exec`] restores the action of SIGPIPE.
pub fn set_up() {
    let streams = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    for stream in streams {
        if rustix::io::fcntl_getfd(stream) == Err(Errno::BADF)
            && let Ok(file) = rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty())
        {
            // The kernel assigns the lowest free number, which is that of the stream.
            std::mem::forget(file);
        }
    }
    crate::process::ignore_broken_pipes();
}
