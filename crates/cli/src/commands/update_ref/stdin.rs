//! `update-ref --stdin`: commands from standard input, each executed as it arrives.

use bstr::{BString, ByteSlice as _};
use format::refname::{self, Levels};
use sapwood::ObjectId;
use store::refs::{Edit, Follow, New, NewLog, Old, RefTransaction, Rejected};

use super::{
    Context, Objects,
    line::{Argument, Line, is_space},
    vetoed,
};
use crate::{
    session::input::Input,
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// The state of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    /// Updates without `start`: the end of the input commits them.
    Open,
    /// After `start`: the end of the input aborts them.
    Started,
    Prepared,
    Closed,
}

/// A command of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Update,
    Create,
    Delete,
    Verify,
    SymrefUpdate,
    SymrefCreate,
    SymrefDelete,
    SymrefVerify,
    Option,
    Start,
    Prepare,
    Abort,
    Commit,
}

/// The commands: the name, the number of arguments, and the next state.
const VERBS: [(Verb, &str, usize, State); 13] = [
    (Verb::Update, "update", 3, State::Open),
    (Verb::Create, "create", 2, State::Open),
    (Verb::Delete, "delete", 2, State::Open),
    (Verb::Verify, "verify", 2, State::Open),
    (Verb::SymrefUpdate, "symref-update", 4, State::Open),
    (Verb::SymrefCreate, "symref-create", 2, State::Open),
    (Verb::SymrefDelete, "symref-delete", 2, State::Open),
    (Verb::SymrefVerify, "symref-verify", 2, State::Open),
    (Verb::Option, "option", 1, State::Open),
    (Verb::Start, "start", 0, State::Started),
    (Verb::Prepare, "prepare", 0, State::Prepared),
    (Verb::Abort, "abort", 0, State::Closed),
    (Verb::Commit, "commit", 0, State::Closed),
];

/// Runs the session. Returns the exit code.
pub(super) fn run(context: &Context<'_>) -> Result<u8, Failure> {
    let mut session = Session {
        context,
        objects: Objects::new(context.repo),
        transaction: Some(context.transaction()?),
        state: State::Open,
        follow: if context.request.no_deref { Follow::No } else { Follow::Yes },
    };
    let end = if context.request.nul { 0 } else { b'\n' };
    let mut input = Input::new(context.run)?;
    let (mut line, mut more) = (Vec::new(), Vec::new());
    loop {
        context.run.interrupt.check()?;
        if !input.raw_line(end, &mut line)? {
            break;
        }
        let (verb, name, count, next) = verb_of(&line, end)?;
        if context.request.nul {
            for _ in 1..count {
                if !input.raw_line(end, &mut more)? {
                    break;
                }
                line.extend_from_slice(&more);
            }
        }
        session.enter(next)?;
        session.execute(
            verb,
            name,
            Line::new(&line, name.len() + usize::from(count > 0), context.request.nul),
        )?;
    }
    session.end()
}

/// Parses the command of a line.
fn verb_of(line: &[u8], end: u8) -> Result<(Verb, &'static str, usize, State), Failure> {
    let shown = || line[..line.find_byte(0).unwrap_or(line.len())].as_bstr();
    match line.first() {
        Some(first) if *first == end => return Err(Failure::fatal("empty command in input")),
        Some(first) if is_space(*first) => {
            return Err(Failure::Fatal(text!("whitespace before command: ", shown())));
        }
        _ => {}
    }
    let is_meant = |(_, name, count, _): &&(Verb, &str, usize, State)| {
        let after = line.strip_prefix(name.as_bytes()).map(|rest| rest.first().copied().unwrap_or(0));
        after == Some(if *count > 0 { b' ' } else { end })
    };
    let found = VERBS.iter().find(is_meant).copied();
    found.ok_or_else(|| Failure::Fatal(text!("unknown command: ", shown())))
}

struct Session<'a> {
    context: &'a Context<'a>,
    objects: Objects<'a>,
    /// The open transaction; `None` after it was closed.
    transaction: Option<RefTransaction<'a>>,
    state: State,
    /// Applies to the next command only.
    follow: Follow,
}

impl Session<'_> {
    /// Changes the state, if the command is allowed.
    fn enter(&mut self, next: State) -> Result<(), Failure> {
        match self.state {
            State::Started if next == State::Started => {
                return Err(Failure::fatal("cannot restart ongoing transaction"));
            }
            State::Open | State::Started => self.state = self.state.max(next),
            State::Prepared if next != State::Closed => {
                return Err(Failure::fatal("prepared transactions can only be closed"));
            }
            State::Prepared => self.state = next,
            State::Closed if next != State::Started => return Err(Failure::fatal("transaction is closed")),
            State::Closed => {
                self.state = next;
                self.transaction = Some(self.context.transaction()?);
            }
        }
        Ok(())
    }

    fn execute(&mut self, verb: Verb, name: &'static str, mut line: Line<'_>) -> Result<(), Failure> {
        let edit = match verb {
            Verb::Update => self.update(&mut line)?,
            Verb::Create => self.create(&mut line)?,
            Verb::Delete => self.delete(&mut line)?,
            Verb::Verify => self.verify(&mut line)?,
            Verb::SymrefUpdate => self.symref_update(&mut line)?,
            Verb::SymrefCreate => self.symref_create(&mut line)?,
            Verb::SymrefDelete => self.symref_delete(&mut line)?,
            Verb::SymrefVerify => self.symref_verify(&mut line)?,
            Verb::Option => return self.option(&line),
            Verb::Start | Verb::Prepare | Verb::Abort | Verb::Commit => {
                line.finish(name)?;
                return self.control(verb, name);
            }
        };
        self.add(verb, edit)
    }

    /// Adds an edit, or rejects it alone with `--batch-updates`.
    fn add(&mut self, verb: Verb, edit: Edit) -> Result<(), Failure> {
        self.follow = if self.context.request.no_deref { Follow::No } else { Follow::Yes };
        let Err(refusal) = self.objects.check(&edit) else {
            let transaction = self.transaction.as_mut().expect("it is open while commands may add edits");
            return transaction.add(edit).map_err(|error| Failure::fatal(error.to_string()));
        };
        let (Edit { name, new: New::Id(new), old, .. }, Some(kind), true) =
            (edit, refusal.kind, self.context.request.batch)
        else {
            return Err(Failure::fatal(refusal.message));
        };
        let old = match old {
            Old::Id(oid) if verb != Verb::Create => Some(oid),
            _ => None,
        };
        report(&Rejected { name, new: Some(new), old, kind, message: refusal.message });
        Ok(())
    }

    fn control(&mut self, verb: Verb, name: &str) -> Result<(), Failure> {
        let failed = |error: store::refs::Error| {
            let advice = error.advice();
            vetoed(&error).unwrap_or_else(|| Failure::fatal(format!("{name}: {error}")).advised(advice))
        };
        match verb {
            Verb::Prepare => {
                let transaction = self.transaction.as_mut().expect("a closed one cannot be prepared");
                transaction.prepare().map_err(failed)?;
            }
            Verb::Abort => self.transaction.take().expect("it is open").abort(),
            Verb::Commit => {
                let rejected = self.transaction.take().expect("it is open").commit().map_err(failed)?;
                rejected.iter().for_each(report);
            }
            _ => {}
        }
        console::out(text!(name, ": ok"));
        console::flush();
        Ok(())
    }

    /// Handles the end of the input.
    fn end(mut self) -> Result<u8, Failure> {
        match (self.state, self.transaction.take()) {
            (State::Open, Some(transaction)) => {
                let rejected = transaction.commit().map_err(|error| {
                    let advice = error.advice();
                    Failure::fatal(error.to_string()).advised(advice)
                })?;
                rejected.iter().for_each(report);
            }
            (State::Started | State::Prepared, Some(transaction)) => transaction.abort(),
            _ => {}
        }
        Ok(0)
    }

    fn edit(&self, name: &BString, new: New, old: Old) -> Edit {
        let edit = self.context.edit(name.as_bstr(), ObjectId::null(self.context.repo.hash()));
        Edit { new, old, follow: self.follow, ..edit }
    }

    fn null(&self) -> ObjectId {
        ObjectId::null(self.context.repo.hash())
    }

    /// Reads the new value of a ref; `None` if it is missing.
    fn new_value(
        &self,
        line: &mut Line<'_>,
        verb: &str,
        name: &BString,
    ) -> Result<Option<ObjectId>, Failure> {
        let Some(text) = value_text(line, verb, name, "<new-oid>")? else { return Ok(None) };
        if text.is_empty() {
            if self.context.request.nul && verb != "update" {
                return Ok(None);
            }
            if self.context.request.nul {
                console::warning(text!(verb, " ", name, ": missing <new-oid>, treating as zero"));
            }
            return Ok(Some(self.null()));
        }
        let invalid = || Failure::Fatal(text!(verb, " ", name, ": invalid <new-oid>: ", text));
        self.context.object(text.as_bstr())?.map(Some).ok_or_else(invalid)
    }

    /// Reads the old value of a ref; `None` if it is missing.
    fn old_value(
        &self,
        line: &mut Line<'_>,
        verb: &str,
        name: &BString,
    ) -> Result<Option<ObjectId>, Failure> {
        let Some(text) = value_text(line, verb, name, "<old-oid>")? else { return Ok(None) };
        if text.is_empty() {
            return Ok((!self.context.request.nul).then(|| self.null()));
        }
        let invalid = || Failure::Fatal(text!(verb, " ", name, ": invalid <old-oid>: ", text));
        self.context.object(text.as_bstr())?.map(Some).ok_or_else(invalid)
    }

    fn update(&self, line: &mut Line<'_>) -> Result<Edit, Failure> {
        let name = first(line, "update")?;
        let new = self.new_value(line, "update", &name)?;
        let new = new.ok_or_else(|| Failure::Fatal(text!("update ", name, ": missing <new-oid>")))?;
        let old = self.old_value(line, "update", &name)?.map_or(Old::Any, Old::Id);
        line.finish(text!("update ", name))?;
        Ok(self.edit(&name, New::Id(new), old))
    }

    fn create(&self, line: &mut Line<'_>) -> Result<Edit, Failure> {
        let name = first(line, "create")?;
        let new = self.new_value(line, "create", &name)?;
        let new = new.ok_or_else(|| Failure::Fatal(text!("create ", name, ": missing <new-oid>")))?;
        if new.is_null() {
            return Err(Failure::Fatal(text!("create ", name, ": zero <new-oid>")));
        }
        line.finish(text!("create ", name))?;
        Ok(self.edit(&name, New::Id(new), Old::Id(self.null())))
    }

    fn delete(&self, line: &mut Line<'_>) -> Result<Edit, Failure> {
        let name = first(line, "delete")?;
        let old = self.old_value(line, "delete", &name)?;
        if old.is_some_and(|old| old.is_null()) {
            return Err(Failure::Fatal(text!("delete ", name, ": zero <old-oid>")));
        }
        line.finish(text!("delete ", name))?;
        let edit = self.edit(&name, New::Id(self.null()), old.map_or(Old::Any, Old::Id));
        Ok(Edit { log: NewLog::ByPolicy, ..edit })
    }

    fn verify(&self, line: &mut Line<'_>) -> Result<Edit, Failure> {
        let name = first(line, "verify")?;
        let old = self.old_value(line, "verify", &name)?.unwrap_or_else(|| self.null());
        line.finish(text!("verify ", name))?;
        Ok(unlogged(self.edit(&name, New::Keep, Old::Id(old))))
    }

    fn symref_update(&self, line: &mut Line<'_>) -> Result<Edit, Failure> {
        let name = first(line, "symref-update")?;
        let target = line.next_refname()?;
        let wrong = |what: BString| Failure::Fatal(text!("symref-update ", name, ": ", what));
        let target = target.ok_or_else(|| wrong("missing <new-target>".into()))?;
        let old = match line.next_word()? {
            None => Old::Any,
            Some(kind) => {
                let value = line.next_word()?.ok_or_else(|| wrong("expected old value".into()))?;
                match kind.as_slice() {
                    b"oid" => {
                        let found = self.context.object(value.as_bstr())?;
                        Old::Id(found.ok_or_else(|| wrong(text!("invalid oid: ", value)))?)
                    }
                    b"ref" if refname::check(value.as_bstr(), Levels::One).is_err() => {
                        return Err(wrong(text!("invalid ref: ", value)));
                    }
                    b"ref" => Old::Symbolic(value),
                    _ => return Err(wrong(text!("invalid arg '", kind, "' for old value"))),
                }
            }
        };
        line.finish(text!("symref-update ", name))?;
        Ok(self.edit(&name, New::Symbolic(target), old))
    }

    fn symref_create(&self, line: &mut Line<'_>) -> Result<Edit, Failure> {
        let name = first(line, "symref-create")?;
        let target = line.next_refname()?;
        let missing = || Failure::Fatal(text!("symref-create ", name, ": missing <new-target>"));
        let target = target.ok_or_else(missing)?;
        line.finish(text!("symref-create ", name))?;
        Ok(self.edit(&name, New::Symbolic(target), Old::Id(self.null())))
    }

    fn symref_delete(&self, line: &mut Line<'_>) -> Result<Edit, Failure> {
        if self.follow == Follow::Yes {
            return Err(Failure::fatal("symref-delete: cannot operate with deref mode"));
        }
        let name = first(line, "symref-delete")?;
        let old = line.next_refname()?.map_or(Old::Any, Old::Symbolic);
        line.finish(text!("symref-delete ", name))?;
        let edit = self.edit(&name, New::Id(self.null()), old);
        Ok(Edit { log: NewLog::ByPolicy, ..edit })
    }

    fn symref_verify(&self, line: &mut Line<'_>) -> Result<Edit, Failure> {
        if self.follow == Follow::Yes {
            return Err(Failure::fatal("symref-verify: cannot operate with deref mode"));
        }
        let name = first(line, "symref-verify")?;
        let old = line.next_refname()?.map_or_else(|| Old::Id(self.null()), Old::Symbolic);
        line.finish(text!("symref-verify ", name))?;
        Ok(unlogged(self.edit(&name, New::Keep, old)))
    }

    fn option(&mut self, line: &Line<'_>) -> Result<(), Failure> {
        let end: &[u8] = if self.context.request.nul { b"" } else { b"\n" };
        let rest = line.rest();
        match rest.strip_prefix(b"no-deref") {
            Some(after) if after.starts_with(end) && (!end.is_empty() || after.is_empty()) => {
                self.follow = Follow::No;
                Ok(())
            }
            _ => Err(Failure::Fatal(text!("option unknown: ", rest))),
        }
    }
}

/// Returns the edit without a message and without creating a reflog, for a check.
fn unlogged(edit: Edit) -> Edit {
    Edit { message: BString::default(), log: NewLog::ByPolicy, ..edit }
}

/// Reads the ref of a command.
fn first(line: &mut Line<'_>, verb: &str) -> Result<BString, Failure> {
    line.refname()?.ok_or_else(|| Failure::fatal(format!("{verb}: missing <ref>")))
}

/// Reports an edit that was skipped.
fn report(rejected: &Rejected) {
    if !rejected.message.is_empty() {
        console::error(&rejected.message);
    }
    let Rejected { name, new, old, kind, .. } = rejected;
    // Git prints this for a value that was not given.
    let shown = |oid: &Option<ObjectId>| oid.map_or("(null)".to_owned(), |oid| oid.to_string());
    console::out(text!("rejected ", name, format!(" {} {} {kind}", shown(new), shown(old))));
}

/// Reads the text of a value; `None` if it is missing.
fn value_text(
    line: &mut Line<'_>,
    verb: &str,
    name: &BString,
    what: &str,
) -> Result<Option<BString>, Failure> {
    match line.next_object(verb, name.as_bstr())? {
        Argument::EndOfInput => {
            Err(Failure::Fatal(text!(verb, " ", name, ": unexpected end of input when reading ", what)))
        }
        Argument::None => Ok(None),
        Argument::Given(text) => Ok(Some(text)),
    }
}
