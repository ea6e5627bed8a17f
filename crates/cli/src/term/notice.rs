//! Notices of the library, printed to standard error.

use sapwood::{Events, Notice, notice::Level};

use crate::term::console;

/// Prints notices, and nothing else.
#[derive(Clone, Copy)]
pub(crate) struct Printer;

impl Events for Printer {
    fn notice(&self, notice: Notice) {
        print(&notice);
    }

    fn before_program(&self) {
        console::flush();
    }
}

/// Prints the warnings and errors that Git prints at its first object lookup. None of them stops
/// the command.
pub(crate) fn print_object_store_errors(repo: &repo::Repository) {
    console::note_object_store_errors();
    sapwood::status::messages::about_objects(repo, &Printer);
}

/// Prints a notice.
pub(crate) fn print(notice: &Notice) {
    if matches!(notice, Notice::ObjectStore(_)) {
        console::note_object_store_errors();
    }
    let text = notice.text();
    match notice.level() {
        Level::Verbatim => console::eprint_raw(&text),
        Level::Plain => console::eprint_line(text),
        Level::Result => console::out(text),
        Level::Hint => console::hint(text),
        Level::Warning => console::warning(text),
        Level::Error => console::error(text),
        Level::Fatal => console::report("fatal", text),
    }
}
