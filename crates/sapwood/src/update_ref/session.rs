//! Transactions whose edits arrive one by one, as `git update-ref --stdin` has them.

use store::refs::{Edit, Failures, RefTransaction, Rejected};

use super::objects::Objects;
use crate::{
    Context, Error,
    refs::{self, Options},
};

/// A step of a session other than an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The next edits are a transaction that is aborted unless it is committed.
    Start,
    /// All refs are locked and checked.
    Prepare,
    /// The edits are dropped.
    Abort,
    /// The edits are made.
    Commit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Edits without a start: the end of the session commits them.
    Open,
    /// After a start: the end of the session aborts the edits.
    Started,
    Prepared,
    Closed,
}

/// One transaction after the other.
pub struct Session<'a> {
    context: Context<'a>,
    options: &'a Options,
    failures: Failures,
    objects: Objects<'a>,
    /// The open transaction; `None` after it was closed.
    transaction: Option<RefTransaction<'a>>,
    state: State,
}

impl<'a> Session<'a> {
    /// Begins without edits. The options are those of [`refs::options_with_hook`].
    pub fn new(context: Context<'a>, options: &'a Options, failures: Failures) -> Result<Session<'a>, Error> {
        let objects = Objects::new(context.repo);
        let transaction = Some(refs::transaction(context, options, failures)?);
        Ok(Session { context, options, failures, objects, transaction, state: State::Open })
    }

    /// Returns an error if this step, or an edit (`None`), is not allowed now.
    pub fn allows(&self, control: Option<Control>) -> Result<(), Error> {
        let wrong = match (self.state, control) {
            (State::Started, Some(Control::Start)) => "cannot restart ongoing transaction",
            (State::Prepared, None | Some(Control::Start | Control::Prepare)) => {
                "prepared transactions can only be closed"
            }
            (State::Closed, control) if control != Some(Control::Start) => "transaction is closed",
            _ => return Ok(()),
        };
        Err(Error::failed(wrong))
    }

    /// Adds an edit. Returns it if it is skipped because of its new value.
    pub fn add(&mut self, edit: Edit) -> Result<Option<Rejected>, Error> {
        self.allows(None)?;
        let rejected = self.objects.check(&edit, self.failures)?;
        if rejected.is_none() {
            let transaction = self.transaction.as_mut().expect("it is open while edits are allowed");
            transaction.add(edit)?;
        }
        Ok(rejected)
    }

    /// Makes a step. Returns the edits that a commit has skipped.
    pub fn control(&mut self, control: Control) -> Result<Vec<Rejected>, Error> {
        self.allows(Some(control))?;
        match control {
            Control::Start => {
                if self.state == State::Closed {
                    self.transaction = Some(refs::transaction(self.context, self.options, self.failures)?);
                }
                self.state = State::Started;
            }
            Control::Prepare => {
                let mut transaction = self.close();
                transaction.prepare()?;
                (self.transaction, self.state) = (Some(transaction), State::Prepared);
            }
            Control::Abort => self.close().abort(),
            Control::Commit => return Ok(self.close().commit()?),
        }
        Ok(Vec::new())
    }

    fn close(&mut self) -> RefTransaction<'a> {
        self.state = State::Closed;
        self.transaction.take().expect("only a closed session has none")
    }

    /// Ends the session: commits edits without a start, and aborts others. Returns the edits that
    /// the commit has skipped.
    pub fn end(mut self) -> Result<Vec<Rejected>, Error> {
        match (self.state, self.transaction.take()) {
            (State::Open, Some(transaction)) => return Ok(transaction.commit()?),
            (_, Some(transaction)) => transaction.abort(),
            (_, None) => {}
        }
        Ok(Vec::new())
    }
}
