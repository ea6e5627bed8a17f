//! The reports of the library, printed.

use std::{
    cell::RefCell,
    path::PathBuf,
    process::Command,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bstr::BStr;
use engine::crew::Meter;
use sapwood::{
    Context, Events, Notice,
    events::{Counter, Filtered, Phase, Renaming, Staged, Steps, Transfer},
    transaction::{IndexTransaction, Start},
};

use crate::{
    session::{
        Session,
        invocation::{Invocation, Program},
        real_git,
        settings::Settings,
        transfer,
    },
    term::{
        console::{self, text},
        failure::Failure,
        interrupt::Interrupt,
        notice::{self, Printer},
        progress::{self, Progress, Watch},
    },
};

/// Prints notices and progress, and finds the real Git.
pub(crate) struct Terminal<'a> {
    run: &'a Invocation,
    /// The delay before progress is shown; `None` to show none.
    progress: Option<Duration>,
    watch: RefCell<Option<Watch>>,
    /// The notices that are printed later; `None` to print each at once.
    held: RefCell<Option<Vec<Notice>>>,
}

impl<'a> Terminal<'a> {
    /// Shows no progress.
    pub(crate) fn new(run: &'a Invocation) -> Terminal<'a> {
        Terminal { run, progress: None, watch: RefCell::default(), held: RefCell::default() }
    }

    /// Holds notices until [`Terminal::release`]. Until then the shim can still start the real Git,
    /// which prints its own.
    pub(crate) fn holding(self) -> Terminal<'a> {
        Terminal { held: RefCell::new(Some(Vec::new())), ..self }
    }

    /// Prints the notices that were held, and each later one at once.
    pub(crate) fn release(&self) {
        self.held.take().unwrap_or_default().iter().for_each(notice::print);
    }

    /// Shows progress after `delay`.
    pub(crate) fn with_progress(self, delay: Duration) -> Terminal<'a> {
        Terminal { progress: Some(delay), ..self }
    }
}

impl Events for Terminal<'_> {
    fn notice(&self, notice: Notice) {
        match &mut *self.held.borrow_mut() {
            Some(held) => held.push(notice),
            None => self.run.notice(notice),
        }
    }

    fn steps(&self) -> Option<Box<dyn Steps>> {
        self.run.steps()
    }

    fn begin(&self, phase: Phase, total: usize) -> Option<Arc<Meter>> {
        let delay = self.progress?;
        let title = match phase {
            Phase::RefreshIndex => "Refresh index",
            Phase::ReadDirectories => "Reading directories",
            Phase::RemoveFiles => "Removing files",
        };
        self.watch.borrow_mut().insert(Watch::start(Progress::new(title, true, delay), total)).shared_meter()
    }

    fn end(&self, _phase: Phase) {
        if let Some(watch) = self.watch.take() {
            watch.finish();
        }
    }

    fn before_program(&self) {
        console::flush();
    }

    fn git(&self) -> Option<Command> {
        self.run.git()
    }

    fn adding_base(&self, wanted: Option<bool>) -> Option<Box<dyn Counter>> {
        self.run.adding_base(wanted)
    }

    fn program(&self) -> Option<PathBuf> {
        self.run.program()
    }
}

/// Prints notices at once, and shows the progress of a change.
impl Events for Invocation {
    fn notice(&self, notice: Notice) {
        match notice {
            Notice::SubmoduleFailed(error) => {
                let failure = match error.downcast::<sapwood::Error>() {
                    Ok(error) => Failure::from(*error),
                    Err(error) => Failure::fatal(error.to_string()),
                };
                match self.program {
                    Program::Git => failure.plain().print(),
                    Program::Sapwood => failure.print(),
                }
            }
            notice => notice::print(&notice),
        }
    }

    fn staged(&self, staged: Staged<'_>) {
        console::out(match staged {
            Staged::Added(path) => text!("add '", path, "'"),
            Staged::Removed(path) => text!("remove '", path, "'"),
            Staged::Executable(path, on) => text!("chmod ", if on { "+x" } else { "-x" }, " '", path, "'"),
        });
    }

    fn renaming(&self, step: Renaming, from: &BStr, to: &BStr) {
        console::out(match step {
            Renaming::Check => text!("Checking rename of '", from, "' to '", to, "'"),
            Renaming::Rename => text!("Renaming ", from, " to ", to),
        });
    }

    fn steps(&self) -> Option<Box<dyn Steps>> {
        let delay = progress::delay(self.variable("GIT_PROGRESS_DELAY"));
        let files = Progress::new("Updating files", true, delay);
        Some(Box::new(Files { files, filtered: OnceLock::new(), delay }))
    }

    fn before_program(&self) {
        console::flush();
    }

    fn git(&self) -> Option<Command> {
        real_git::command(self)
    }

    fn adding_base(&self, wanted: Option<bool>) -> Option<Box<dyn Counter>> {
        let configured = self.variable("GIT_PROGRESS_DELAY");
        let delay = configured.map_or(SOON, |_| progress::delay(configured));
        let is_visible = wanted.unwrap_or_else(progress::has_terminal);
        Some(Box::new(AddingBase(Progress::new("Adding base", is_visible, delay))))
    }

    fn transferring(&self, wanted: Option<bool>) -> Option<Box<dyn Transfer>> {
        Some(Box::new(transfer::Display::new(wanted)))
    }

    fn program(&self) -> Option<PathBuf> {
        std::env::current_exe().ok()
    }
}

/// The delay before the progress of a base: a user who expects a workspace in milliseconds should
/// know soon why this one takes longer.
const SOON: Duration = Duration::from_millis(300);

/// `Adding base`
struct AddingBase(Progress);

impl Counter for AddingBase {
    fn update(&self, done: usize, total: usize) {
        self.0.update(done, total);
    }
}

impl Drop for AddingBase {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// `Updating files`, then `Filtering content`.
struct Files {
    files: Progress,
    filtered: OnceLock<Progress>,
    delay: Duration,
}

impl Steps for Files {
    fn update(&self, done: usize, total: usize) {
        self.files.update(done, total);
    }

    fn filtered(&self, filtered: Filtered) {
        let Filtered { steps, done, total, bytes } = filtered;
        // As Git counts, all updates have been started by now.
        self.files.finish(steps, steps);
        let progress = self.filtered.get_or_init(|| Progress::new("Filtering content", true, self.delay));
        progress.update(done, total);
        if done == total {
            progress.finish_bytes(done, total, bytes);
        }
    }

    fn finish(&self, total: usize) {
        self.files.finish(total, total);
    }
}

/// Returns the context of a step that prints notices at once.
pub(crate) fn printing<'a>(repo: &'a repo::Repository, settings: &'a Settings) -> Context<'a> {
    Context { repo, settings, events: &Printer, interrupt: Interrupt::default().flag(), hands_over: false }
}

impl<'a> Session<'a> {
    /// Locks the index and loads it.
    pub(crate) fn start(self, start: Start) -> Result<IndexTransaction<'a>, Failure> {
        let mut transaction = IndexTransaction::start(self.context(self.invocation), start)?;
        transaction.policy.original_cwd = self.invocation.original_cwd(self.repository);
        Ok(transaction)
    }

    /// Returns the context of a step whose reports `events` receives.
    pub(crate) fn context(self, events: &'a dyn Events) -> Context<'a> {
        let Session { invocation, repository: repo, settings } = self;
        let hands_over = invocation.program == Program::Git;
        Context { repo, settings, events, interrupt: Interrupt::default().flag(), hands_over }
    }
}
