//! The messages of a clone: events and errors in Git's words.

use std::{
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bstr::{BStr, BString};
use engine::clone::{BadParameter, Error, Event, ObjectsError, SkeletonError};
use repo::wire;

use crate::{
    session::{invocation::Invocation, receiving::Display},
    term::{
        console::{self, text},
        failure::Failure,
        progress::Watch,
        text::{os_error, sideband::Sideband},
    },
};

/// Prints events as they come, from any thread.
pub(super) struct Reporter<'a> {
    quiet: bool,
    /// The files that are linked or copied, until all are.
    copying: Mutex<Option<Watch>>,
    receiving: &'a Display<'a>,
    sideband: Mutex<Sideband>,
}

impl<'a> Reporter<'a> {
    pub(super) fn new(
        quiet: bool,
        copying: Watch,
        receiving: &'a Display<'a>,
        sideband: Sideband,
    ) -> Reporter<'a> {
        Reporter { quiet, copying: Mutex::new(Some(copying)), receiving, sideband: Mutex::new(sideband) }
    }

    pub(super) fn event(&self, event: Event<'_>) {
        match event {
            Event::Begin { directory, bare } if !self.quiet => {
                let what = if bare { "bare repository " } else { "" };
                console::eprint_line(text!("Cloning into ", what, "'", directory, "'..."));
            }
            Event::Begin { .. } => {}
            Event::Done => {
                if let Some(copying) = self.copying().take() {
                    copying.finish();
                }
                if !self.quiet {
                    console::eprint_line("done.");
                }
            }
            Event::Warning(message) => console::warning(message),
            Event::Error(message) => console::error(message),
            Event::Info(message) => console::report("info", message),
            Event::DefaultBranch(name) => console::hint(default_branch_hint(name)),
            Event::Remote(bytes) => {
                let mut sideband = self.sideband.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                console::eprint_raw(&sideband.push(bytes));
            }
            Event::Received => self.receiving.finish(),
        }
    }

    fn copying(&self) -> MutexGuard<'_, Option<Watch>> {
        self.copying.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the lines that are open.
    pub(super) fn finish(&self) {
        drop(self.copying().take());
        let mut sideband = self.sideband.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        console::eprint_raw(&sideband.finish());
    }
}

/// Git's hint about the name of a first branch that no setting gave.
pub(crate) fn default_branch_hint(name: &BStr) -> BString {
    text!(
        "Using '",
        name,
        "' as the name for the initial branch. This default branch name\n\
         will change to \"main\" in Git 3.0. To configure the initial branch name\n\
         to use in all of your new repositories, which will suppress this warning,\n\
         call:\n\n\
         \tgit config --global init.defaultBranch <name>\n\n\
         Names commonly chosen instead of 'master' are 'main', 'trunk' and\n\
         'development'. The just-created branch can be renamed via this command:\n\n\
         \tgit branch -m <name>\n\n\
         Disable this message with \"git config set advice.defaultBranchName false\""
    )
}

/// The list of paths that share a name on this file system.
pub(super) fn collisions(mut paths: Vec<BString>, ignore_case: bool) -> BString {
    if ignore_case {
        paths.sort_by_key(|path| path.to_ascii_lowercase())
    } else {
        paths.sort()
    }
    let mut message = BString::from(
        "the following paths have collided (e.g. case-sensitive paths\n\
         on a case-insensitive filesystem) and only one from the same\n\
         colliding group is in the working tree:\n",
    );
    for path in paths {
        message.extend_from_slice(&text!("\n  '", path, "'"));
    }
    message
}

/// How an error ends the command.
pub(super) fn failure(run: &Invocation, error: Error) -> Failure {
    if run.interrupt.check().is_err() {
        return run.interrupt.failure();
    }
    // The helper has said why.
    if matches!(error, Error::Objects(ObjectsError::Wire(wire::Error::HelperFailed))) {
        return Failure::Reported(128);
    }
    error.warnings().iter().for_each(console::warning);
    // Git says first what is wrong with a parameter, then that it cannot write it.
    if let Error::Skeleton(SkeletonError::Parameter(BadParameter { source })) = &error {
        console::error(source.to_string());
    }
    let mut message = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        match cause.downcast_ref::<io::Error>() {
            Some(cause) if message.ends_with(&os_error(cause)) => {}
            Some(cause) => message.push_str(&format!(": {}", os_error(cause))),
            None => {}
        }
        source = cause.source();
    }
    Failure::fatal(message)
}
