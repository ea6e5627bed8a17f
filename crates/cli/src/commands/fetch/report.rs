//! The messages of a fetch: events, the table, and errors in Git's wording.

use std::{
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bstr::BStr;
use engine::fetch::{
    Error, Event, OurHead, Report,
    remote::Remote,
    update::{Flag, Update},
};

use repo::{Repository, keys};

use super::{
    context::FetchContext,
    table::{Form, Table, summary_width},
};
use crate::{
    session::{invocation::Invocation, output, receiving::Display, settings::Settings},
    term::{
        console::{self, text},
        failure::Failure,
        progress,
        text::{os_error, sideband::Sideband},
    },
};

/// Prints events as they arrive, from any thread.
pub(super) struct Reporter<'a> {
    repo: &'a Repository,
    settings: &'a Settings,
    /// The width of the terminal.
    columns: usize,
    is_dry: bool,
    verbosity: i32,
    table: Mutex<Table>,
    sideband: Mutex<Sideband>,
    receiving: &'a Display<'a>,
    is_quiet: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Reporter<'a> {
    pub(super) fn new(
        context: &'a FetchContext<'a>,
        remote: &Remote,
        form: Form,
        receiving: &'a Display<'a>,
    ) -> Reporter<'a> {
        let run = context.run;
        let is_dumb = matches!(run.variable("TERM"), None | Some(b"dumb"));
        let url = engine::fetch::shown_url(&repo::wire::Client::of(context.repo).url(remote.url()));
        Reporter {
            repo: context.repo,
            settings: context.settings,
            columns: output::line_width(run) + 1,
            is_dry: context.request.dry_run,
            verbosity: context.request.verbosity,
            table: Mutex::new(Table::new(form, url, context.request.verbosity)),
            sideband: Mutex::new(Sideband::new(progress::has_terminal() && !is_dumb)),
            receiving,
            is_quiet: context.request.verbosity < 0,
        }
    }

    pub(super) fn event(&self, event: Event<'_>) {
        match event {
            Event::Mapped(refs) => lock(&self.table).fit(refs, self.columns),
            Event::Pruned(updates) => self.pruned(updates),
            Event::Dangling(refs) if !self.is_quiet => {
                let words = if self.is_dry { "will become" } else { "has become" };
                for (name, target) in refs {
                    console::eprint_line(text!(
                        "   ",
                        name,
                        " ",
                        words,
                        " dangling after ",
                        target,
                        " was deleted"
                    ));
                }
            }
            Event::Dangling(_) => {}
            Event::Received => self.receiving.finish(),
            Event::Remote(bytes) => console::eprint_raw(&lock(&self.sideband).push(bytes)),
            Event::Warning(message) => console::warning(message),
            Event::Error(message) => console::error(message),
            Event::OtherHead { remote, theirs, ours } => self.other_head(remote, theirs, ours),
        }
    }

    fn pruned(&self, updates: &[Update]) {
        if self.is_quiet {
            return;
        }
        let Ok(width) = summary_width(self.repo, updates.iter().map(|update| &update.old)) else { return };
        let mut table = lock(&self.table);
        updates.iter().for_each(|update| table.print(update, width));
    }

    fn other_head(&self, remote: &BStr, theirs: &BStr, ours: OurHead<'_>) {
        let lead = text!("'HEAD' at '", remote, "' is '", theirs, "', but we have ");
        match ours {
            OurHead::Branch(ours) => console::out(text!(lead, "'", ours, "' locally.")),
            OurHead::Detached(oid) => {
                let end = "' locally.";
                console::out(text!(lead, "a detached HEAD pointing to '", oid.to_string(), end));
                return;
            }
        }
        if self.settings.advises(self.repo, keys::advice::FETCH_REMOTE_HEAD_WARN).unwrap_or(true) {
            console::hint(text!(
                "Run 'git remote set-head ",
                remote,
                " ",
                theirs,
                "' to follow the change, or set\n\
                 'remote.",
                remote,
                ".followRemoteHEAD' configuration option to a different value\n\
                 if you do not want to see this message. Specifically running\n\
                 'git config set remote.",
                remote,
                ".followRemoteHEAD warn-if-not-branch-",
                theirs,
                "'\n\
                 will disable the warning until the remote changes HEAD to something else.\n\
                 Disable this message with \"git config set advice.fetchRemoteHEADWarn false\""
            ));
        }
    }

    /// Ends incomplete lines.
    pub(super) fn finish(&self) {
        console::eprint_raw(&lock(&self.sideband).finish());
    }

    /// Prints the table.
    pub(super) fn table(&self, done: &Report) -> Result<(), Failure> {
        if self.is_quiet {
            return Ok(());
        }
        let width = if done.failed_early {
            0
        } else {
            summary_width(self.repo, done.mapped.iter().map(|mapping| &mapping.oid))?
        };
        let mut table = lock(&self.table);
        let is_shown = |update: &&Update| update.flag != Flag::UpToDate || self.verbosity > 0;
        done.updates.iter().filter(is_shown).for_each(|update| table.print(update, width));
        Ok(())
    }
}

/// Converts an error to a failure.
pub(super) fn failure(run: &Invocation, error: Error) -> Failure {
    if run.interrupt.check().is_err() {
        return run.interrupt.failure();
    }
    let mut message = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        if let Some(cause) = cause.downcast_ref::<io::Error>()
            && !message.ends_with(&os_error(cause))
        {
            message.push_str(&format!(": {}", os_error(cause)));
        }
        source = cause.source();
    }
    match error {
        Error::Incomplete(_)
        | Error::FetchHead(_)
        | Error::Unadvertised(_)
        | Error::Prerequisites(_)
        | Error::Unconnected => Failure::Error(message.into(), 1),
        // The remote helper has printed its error.
        Error::Wire(repo::wire::Error::HelperFailed) => Failure::Reported(128),
        Error::Refs(error) => Failure::fatal(message).advised(error.advice()).plain(),
        _ => Failure::fatal(message),
    }
}
