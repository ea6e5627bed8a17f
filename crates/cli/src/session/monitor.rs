//! The file system monitor of a run. See [`sapwood::monitor`].

use engine::monitor::Response;
use sapwood::monitor;
pub(crate) use sapwood::monitor::{
    Monitor, asking_git_has_defect, configured, everything, is_running, printed, query_workspace,
};

use crate::term::notice::Printer;

/// See [`monitor::unknown`].
pub(crate) fn unknown(error: &dyn std::error::Error) -> Response {
    monitor::unknown(error, &Printer)
}
