//! Arguments as Git's revision commands read them: one option at a time.
//!
//! No option may be abbreviated. The diff options cluster (`-Rz`). The revision options and the
//! command's own are whole words; the command's own come last, and may end a cluster (`-Rq`). A
//! `--` anywhere ends the options, and so does the first word that cannot be a revision.

use bstr::{BStr, BString, ByteSlice as _};

use crate::term::text::split_once;

use super::{Event, Opt, Parsed, Stop, Table};

/// The part of Git that reads an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// Git's parse-options.
    Options,
    /// The revision parser, which comes first.
    Revisions,
    /// The command, which gets what the other readers leave.
    Command,
}

const UNKNOWN_OR_PART: &[u8] =
    b"' is not supported by sapwood yet, or not in this form (see SHORTCOMINGS.md)";

impl<K: Copy> Table<K> {
    /// Parses arguments of which the first `revisions` may be revisions. Options may follow these,
    /// but not a path. The rest keeps the `--`, if the user gave one.
    pub(super) fn one_by_one(&self, args: &[BString], revisions: usize) -> Result<Parsed<K>, Stop> {
        if matches!(args, [only] if only == "-h") {
            return Err(Stop::Help(self.help()));
        }
        let dashes = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
        let (before, behind) = args.split_at(dashes);
        let mut parsed = Parsed { events: Vec::new(), rest: Vec::new() };
        let (mut queue, mut takes_options) = (before.iter(), true);
        while parsed.rest.len() <= revisions
            && let Some(arg) = queue.next()
        {
            if !takes_options || !arg.starts_with(b"-") {
                parsed.rest.push(arg.clone());
            } else if arg == "--end-of-options" {
                takes_options = false;
            } else {
                self.one(arg.as_bstr(), &mut queue, &mut parsed.events)?;
            }
        }
        parsed.rest.extend(queue.chain(behind).cloned());
        Ok(parsed)
    }

    /// Parses one argument that begins with a dash.
    fn one<'a>(
        &self,
        arg: &BStr,
        queue: &mut impl Iterator<Item = &'a BString>,
        events: &mut Vec<Event<K>>,
    ) -> Result<(), Stop> {
        if let Some(option) = self.options.iter().find(|option| option.is_the_word(arg)) {
            events.push(option.event(true, None));
            return Ok(());
        }
        let unknown =
            || Stop::Mistake { message: [b"option '", &**arg, UNKNOWN_OR_PART].concat().into(), usage: None };
        if let Some(long) = arg.strip_prefix(b"--") {
            let name = split_once(long, b'=').map_or(long, |(name, _)| name);
            let (option, on) = self.whole(name.as_bstr()).ok_or_else(unknown)?;
            events.push(self.event(option, on, long.as_bstr(), queue)?);
            return Ok(());
        }
        let cluster: &[u8] = &arg[1..];
        if cluster.is_empty() {
            return Err(unknown());
        }
        let mut left = cluster;
        while let Some((&letter, stuck)) = left.split_first() {
            let mut clustered = self.options.iter().filter(|option| option.spec.reader == Reader::Options);
            let Some(option) = clustered.find(|option| option.spec.short() == Some(letter)) else {
                if left.len() == cluster.len() {
                    self.two_dashes_meant(cluster)?;
                    return Err(unknown());
                }
                let end: BString = [b"-", left].concat().into();
                let owned = |option: &&Opt<K>| {
                    option.spec.reader == Reader::Command && option.is_the_word(end.as_bstr())
                };
                let option = self.options.iter().find(owned).ok_or_else(unknown)?;
                events.push(option.event(true, None));
                return Ok(());
            };
            left = self.switch(option, letter, stuck, queue, events)?;
            if left.len() + 1 == cluster.len() && !left.is_empty() {
                self.two_dashes_meant(cluster)?;
            }
        }
        Ok(())
    }

    /// Returns the option of this name, and true if it is written without `no-`.
    fn whole(&self, name: &BStr) -> Option<(&Opt<K>, bool)> {
        let named = |name: &BStr| {
            let mut others = self.options.iter().filter(|option| option.spec.reader != Reader::Command);
            others.find(|option| option.spec.long().is_some_and(|long| long.as_bytes() == name.as_bytes()))
        };
        let is_negative = |option: &Opt<K>| option.spec.long().is_some_and(|long| long.starts_with("no-"));
        if let Some(option) = named(name) {
            return Some((option, !is_negative(option)));
        }
        let option = named(name.strip_prefix(b"no-")?.as_bstr())?;
        option.spec.negatable.then_some((option, is_negative(option)))
    }
}

impl<K: Copy> Opt<K> {
    /// Makes the revision parser read the option: on its own, by its whole name.
    pub(crate) const fn of_revisions(mut self) -> Self {
        self.spec.reader = Reader::Revisions;
        self.spec.negatable = false;
        self
    }

    /// Makes the command itself read the option: on its own, by its whole name.
    pub(crate) const fn of_the_command(mut self) -> Self {
        self.spec.reader = Reader::Command;
        self.spec.negatable = false;
        self
    }

    /// Returns true if the option is read as a whole word, and `arg` is that word.
    fn is_the_word(&self, arg: &BStr) -> bool {
        self.spec.reader != Reader::Options && arg.as_bytes() == self.spec.parts().0.as_bytes()
    }
}
