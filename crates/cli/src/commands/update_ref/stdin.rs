//! `update-ref --stdin`: commands from standard input, each executed as it arrives.

use bstr::{BString, ByteSlice as _};
use sapwood::{
    ObjectId, refs,
    update_ref::{Control, Edit, Failures, Follow, New, NewLog, Old, Rejected, Session},
};

use super::{
    Context,
    line::{Argument, Line, is_space},
};
use crate::{
    session::input::Input,
    term::{
        console::{self, text},
        failure::Failure,
    },
};

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
    Control(Control),
}

/// The commands: the name, and the number of arguments.
const VERBS: [(Verb, &str, usize); 13] = [
    (Verb::Update, "update", 3),
    (Verb::Create, "create", 2),
    (Verb::Delete, "delete", 2),
    (Verb::Verify, "verify", 2),
    (Verb::SymrefUpdate, "symref-update", 4),
    (Verb::SymrefCreate, "symref-create", 2),
    (Verb::SymrefDelete, "symref-delete", 2),
    (Verb::SymrefVerify, "symref-verify", 2),
    (Verb::Option, "option", 1),
    (Verb::Control(Control::Start), "start", 0),
    (Verb::Control(Control::Prepare), "prepare", 0),
    (Verb::Control(Control::Abort), "abort", 0),
    (Verb::Control(Control::Commit), "commit", 0),
];

/// Runs the session. Returns the exit code.
pub(super) fn run(context: &Context<'_>) -> Result<u8, Failure> {
    let failures = if context.request.batch { Failures::RejectOne } else { Failures::EndAll };
    let session = Session::new(context.library, context.options, failures)?;
    let mut commands = Commands { context, session, follow: context.follow() };
    let end = if context.request.nul { 0 } else { b'\n' };
    let mut input = Input::new(context.run)?;
    let (mut line, mut more) = (Vec::new(), Vec::new());
    loop {
        context.run.interrupt.check()?;
        if !input.raw_line(end, &mut line)? {
            break;
        }
        let (verb, name, count) = verb_of(&line, end)?;
        if context.request.nul {
            for _ in 1..count {
                if !input.raw_line(end, &mut more)? {
                    break;
                }
                line.extend_from_slice(&more);
            }
        }
        commands.session.allows(match verb {
            Verb::Control(control) => Some(control),
            _ => None,
        })?;
        let at = name.len() + usize::from(count > 0);
        commands.execute(verb, name, Line::new(&line, at, context.request.nul))?;
    }
    commands.session.end()?.iter().for_each(report);
    Ok(0)
}

/// Parses the command of a line.
fn verb_of(line: &[u8], end: u8) -> Result<(Verb, &'static str, usize), Failure> {
    let shown = || line[..line.find_byte(0).unwrap_or(line.len())].as_bstr();
    match line.first() {
        Some(first) if *first == end => return Err(Failure::fatal("empty command in input")),
        Some(first) if is_space(*first) => {
            return Err(Failure::Fatal(text!("whitespace before command: ", shown())));
        }
        _ => {}
    }
    let is_meant = |(_, name, count): &&(Verb, &str, usize)| {
        let after = line.strip_prefix(name.as_bytes()).map(|rest| rest.first().copied().unwrap_or(0));
        after == Some(if *count > 0 { b' ' } else { end })
    };
    let found = VERBS.iter().find(is_meant).copied();
    found.ok_or_else(|| Failure::Fatal(text!("unknown command: ", shown())))
}

struct Commands<'a> {
    context: &'a Context<'a>,
    session: Session<'a>,
    /// Applies to the next command only.
    follow: Follow,
}

impl Commands<'_> {
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
            Verb::Control(control) => {
                line.finish(name)?;
                return self.control(control, name);
            }
        };
        self.follow = self.context.follow();
        if let Some(rejected) = self.session.add(edit)? {
            let old = rejected.old.filter(|_| verb != Verb::Create);
            report(&Rejected { old, ..rejected });
        }
        Ok(())
    }

    fn control(&mut self, control: Control, name: &str) -> Result<(), Failure> {
        let rejected = self.session.control(control).map_err(|error| match error {
            sapwood::Error::Refs(error) if !error.is_veto() => {
                Failure::fatal(format!("{name}: {error}")).advised(error.advice())
            }
            error => error.into(),
        })?;
        rejected.iter().for_each(report);
        console::out(text!(name, ": ok"));
        console::flush();
        Ok(())
    }

    fn edit(&self, name: &BString, new: New, old: Old) -> Edit {
        Edit { new, old, follow: self.follow, ..self.context.edit(name.as_bstr(), self.null()) }
    }

    fn null(&self) -> ObjectId {
        self.context.null()
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
                    b"ref" if !refs::is_valid(value.as_bstr()) => {
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
