//! The end of a command line that cannot run, and the usage of the program.

use bstr::BString;

/// Printed after a wrong global option, and by `--help`.
pub(crate) const USAGE: &str = "\
usage: sapwood [-v | --version] [-h | --help] [-C <path>] [-c <name>=<value>]
           [-P | --no-pager] [--no-replace-objects] [--no-optional-locks]
           [--no-advice] [--bare] [--git-dir=<path>] [--work-tree=<path>]
           [--config-env=<name>=<envvar>] [--verbose] [--profile[=<file>]]
           <command> [<args>]";

/// Parsing ended early. The exit code is 129 either way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// `-h`: the usage, for standard output.
    Help(String),
    /// An invalid command line: the message without `error: `, and the usage if it is to be
    /// printed.
    Mistake {
        /// The message.
        message: BString,
        /// Printed after the message on standard error.
        usage: Option<String>,
    },
}
