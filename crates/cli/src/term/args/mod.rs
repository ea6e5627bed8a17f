//! Arguments the way Git reads them, from one table per command.
//!
//! A table is data: the same entries parse the command line and print `-h`. The rules are those of
//! Git's parse-options: long options may be abbreviated while they stay unique, `--no-` negates an
//! option, short options cluster (`-fq`) and take their value attached or separate (`-bname`, `-b
//! name`), options and arguments mix until `--`, and the last one wins. A command applies the
//! [`Event`]s in order, which makes the last one win.
//!
//! Nothing is printed here: an invalid command line returns a [`Stop`] that holds the text to
//! print.

mod one_shot;

use std::sync::atomic::{AtomicBool, Ordering};

use bstr::{BStr, BString, ByteSlice, ByteVec};
use one_shot::Reader;

use crate::term::failure::Failure;

/// Printed after a wrong global option, and by `--help`.
pub(crate) const USAGE: &str = "\
usage: sapwood [-v | --version] [-h | --help] [-C <path>] [-c <name>=<value>]
           [-P | --no-pager] [--no-replace-objects] [--no-optional-locks]
           [--no-advice] [--bare] [--git-dir=<path>] [--work-tree=<path>]
           [--config-env=<name>=<envvar>] [--verbose] [--profile[=<file>]]
           <command> [<args>]";

/// The value that an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Nothing.
    Nothing,
    /// A value; the help shows it under this name.
    Value(&'static str),
    /// A value that must be attached to the option. The help shows it as this text, with its
    /// brackets.
    Optional(&'static str),
}

/// The forms of an option that sapwood serves as Git does. The others are left to the real Git.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Native {
    /// No form.
    Neither,
    /// `--name` and `--no-name`.
    Both,
    /// `--name` only.
    On,
    /// `--no-name` only.
    Off,
}

/// The declaration of one option, without the setter: its spelling, its help and its rules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    spelling: &'static str,
    /// One line for `-h` and the manual.
    pub(crate) help: &'static str,
    negatable: bool,
    /// Left out of `-h` and the manual.
    pub(crate) hidden: bool,
    reader: Reader,
    native: Native,
    /// The value if the option is the last word and needs one.
    at_end: Option<&'static str>,
}

/// One option of a command: its declaration, and the key that identifies it to the command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opt<K: 'static> {
    key: K,
    spec: Spec,
}

/// The value of an option on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    /// `false` for the `--no-` form.
    pub(crate) on: bool,
    /// The text after the option, if the option takes one and the user gave one.
    pub(crate) text: Option<BString>,
}

impl Value {
    /// Returns the text, `default` for an option without a text, or `None` for the `--no-` form.
    pub(crate) fn text_or(self, default: &str) -> Option<BString> {
        self.on.then(|| self.text.unwrap_or_else(|| default.into()))
    }
}

/// Stores the value of an option in the request `R` of a command.
#[derive(Debug)]
pub(crate) enum Set<R: 'static> {
    /// `--name` sets the field, `--no-name` clears it.
    Flag(fn(&mut R) -> &mut bool),
    /// Like `Flag`; the field is `None` if the option was not given.
    Choice(fn(&mut R) -> &mut Option<bool>),
    /// The field takes the text; `--no-name` clears it.
    Text(fn(&mut R) -> &mut Option<BString>),
    /// `--name` adds one, `--no-name` sets the field to zero.
    Count(fn(&mut R) -> &mut usize),
    /// `-v` adds one to a number above zero, and resets a number below zero (`-q`) first.
    Louder(fn(&mut R) -> &mut i32),
    /// `-q` subtracts one from a number below zero, and resets a number above zero (`-v`) first.
    Quieter(fn(&mut R) -> &mut i32),
    /// `--name <text>` adds the text, `--no-name` empties the list.
    List(fn(&mut R) -> &mut Vec<BString>),
    /// The function validates and stores the value.
    Call(fn(&mut R, Value) -> Result<(), Failure>),
}

impl<R> Clone for Set<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Set<R> {}

impl<R> Set<R> {
    fn apply(self, request: &mut R, value: Value) -> Result<(), Failure> {
        match self {
            Set::Flag(field) => *field(request) = value.on,
            Set::Choice(field) => *field(request) = Some(value.on),
            Set::Text(field) => *field(request) = value.text,
            Set::Count(field) => *field(request) = if value.on { *field(request) + 1 } else { 0 },
            Set::Louder(field) => {
                *field(request) = if value.on { (*field(request)).max(0) + 1 } else { 0 };
            }
            Set::Quieter(field) => {
                *field(request) = if value.on { (*field(request)).min(0) - 1 } else { 0 };
            }
            Set::List(field) => match value.text {
                Some(text) => field(request).push(text),
                None => field(request).clear(),
            },
            Set::Call(set) => set(request, value)?,
        }
        Ok(())
    }
}

impl<R> Opt<Set<R>> {
    /// An option that `set` stores. `spelling` has the form that `-h` shows, without `--no-`:
    /// `-q, --quiet`, `--jobs <n>`, `-t, --track[=<how>]`.
    pub(crate) const fn new(
        spelling: &'static str,
        help: &'static str,
        set: fn(&mut R, Value) -> Result<(), Failure>,
    ) -> Self {
        Opt::keyed(Set::Call(set), spelling, help)
    }

    /// An option that is on or off.
    pub(crate) const fn flag(
        spelling: &'static str,
        help: &'static str,
        field: fn(&mut R) -> &mut bool,
    ) -> Self {
        Opt::keyed(Set::Flag(field), spelling, help)
    }

    /// An option that is on, off or not given.
    pub(crate) const fn choice(
        spelling: &'static str,
        help: &'static str,
        field: fn(&mut R) -> &mut Option<bool>,
    ) -> Self {
        Opt::keyed(Set::Choice(field), spelling, help)
    }

    /// An option that counts how often it was given.
    pub(crate) const fn count(
        spelling: &'static str,
        help: &'static str,
        field: fn(&mut R) -> &mut usize,
    ) -> Self {
        Opt::keyed(Set::Count(field), spelling, help)
    }

    /// `-v, --verbose`, a counter. The field is negative after `-q`.
    pub(crate) const fn verbose(field: fn(&mut R) -> &mut i32) -> Self {
        Opt::keyed(Set::Louder(field), "-v, --verbose", "be more verbose")
    }

    /// `-q, --quiet`, a counter: the counterpart of [`Opt::verbose`].
    pub(crate) const fn quiet(field: fn(&mut R) -> &mut i32) -> Self {
        Opt::keyed(Set::Quieter(field), "-q, --quiet", "be more quiet")
    }

    /// An option with a text that may be given several times.
    pub(crate) const fn list(
        spelling: &'static str,
        help: &'static str,
        field: fn(&mut R) -> &mut Vec<BString>,
    ) -> Self {
        Opt::keyed(Set::List(field), spelling, help)
    }

    /// An option with a text.
    pub(crate) const fn text(
        spelling: &'static str,
        help: &'static str,
        field: fn(&mut R) -> &mut Option<BString>,
    ) -> Self {
        Opt::keyed(Set::Text(field), spelling, help)
    }
}

impl<K: Copy> Opt<K> {
    /// `spelling` is what the help shows, without the `--no-` form: `-q, --quiet`, `--jobs <n>`,
    /// `-t, --track[=<how>]`.
    pub(crate) const fn keyed(key: K, spelling: &'static str, help: &'static str) -> Self {
        let spec = Spec {
            spelling,
            help,
            negatable: true,
            hidden: false,
            reader: Reader::Options,
            native: Native::Neither,
            at_end: None,
        };
        Opt { key, spec }
    }

    /// Removes the `--no-` form.
    pub(crate) const fn only(mut self) -> Self {
        self.spec.negatable = false;
        self
    }

    /// Hides the option in `-h` and the manual.
    pub(crate) const fn hidden(mut self) -> Self {
        self.spec.hidden = true;
        self
    }

    /// Makes `value` the default if the option is the last word.
    pub(crate) const fn at_end(mut self, value: &'static str) -> Self {
        self.spec.at_end = Some(value);
        self
    }

    /// Declares which forms sapwood serves as Git does.
    pub(crate) const fn native(mut self, native: Native) -> Self {
        self.spec.native = native;
        self
    }
}

impl<K: Copy> Opt<K> {
    fn event(&self, on: bool, value: Option<BString>) -> Event<K> {
        Event { key: self.key, name: self.spec.name(), on, value }
    }
}

impl Spec {
    /// Splits the spelling into the option's names and the value that follows them.
    fn parts(&self) -> (&'static str, &'static str) {
        let end = self.spelling.find(['<', '[']).unwrap_or(self.spelling.len());
        (self.spelling[..end].trim_end(), &self.spelling[end..])
    }

    /// Returns the letter after one dash.
    pub(crate) fn short(&self) -> Option<u8> {
        match self.spelling.as_bytes() {
            [b'-', letter, ..] if *letter != b'-' => Some(*letter),
            _ => None,
        }
    }

    /// Returns the name after two dashes.
    pub(crate) fn long(&self) -> Option<&'static str> {
        self.parts().0.split_once("--").map(|(_, long)| long)
    }

    /// Returns the long name, or else the short one, with dashes: `--quiet`, `-b`.
    pub(crate) fn name(&self) -> &'static str {
        let names = self.parts().0;
        names.rsplit(", ").next().unwrap_or(names)
    }

    /// Returns the kind of value that the option takes.
    pub(crate) fn takes(&self) -> Takes {
        match self.parts().1 {
            "" => Takes::Nothing,
            name if name.starts_with('<') => Takes::Value(name),
            form => Takes::Optional(form),
        }
    }

    /// Returns true if sapwood serves this form (`on`: without `--no-`) as Git does.
    pub(crate) fn is_native(&self, on: bool) -> bool {
        match self.native {
            Native::Neither => false,
            Native::Both => true,
            Native::On => on,
            Native::Off => !on,
        }
    }

    /// Returns true if sapwood serves every form as Git does.
    pub(crate) fn is_wholly_native(&self) -> bool {
        self.native == Native::Both
            || (self.native == Native::On && !(self.negatable && self.long().is_some()))
    }

    /// Returns the native form as a user types it: `--quiet`, `--no-merge`.
    pub(crate) fn native_form(&self) -> Option<String> {
        match (self.native, self.name().strip_prefix("--")) {
            (Native::Neither, _) => None,
            (Native::Off, Some(long)) => Some(format!("--no-{long}")),
            _ => Some(self.name().to_owned()),
        }
    }

    /// Returns the native forms with the value, as docs/commands.md lists them.
    pub(crate) fn native_head(&self) -> Option<String> {
        match (self.native, self.long()) {
            (Native::Neither, _) => None,
            (Native::Off, Some(long)) => Some(format!("--no-{long}")),
            (Native::On, Some(_)) if self.negatable => Some(self.head().replace("[no-]", "")),
            _ => Some(self.head()),
        }
    }

    /// Returns the option with its `--no-` form and its value, as `-h` and the manual show it.
    pub(crate) fn head(&self) -> String {
        let mut head = String::new();
        if let Some(short) = self.short() {
            head += &format!("-{}", short as char);
        }
        if let Some(long) = self.long() {
            head += if self.short().is_some() { ", " } else { "" };
            let negation = self.negatable && !long.starts_with("no-");
            head += &format!("--{}{long}", if negation { "[no-]" } else { "" });
        }
        match self.takes() {
            Takes::Nothing => {}
            Takes::Value(name) => head += &format!(" {name}"),
            Takes::Optional(form) => head += form,
        }
        head
    }

    /// Returns the name of the `--no-` form without dashes, or that of `--<x>` for `--no-<x>`.
    pub(crate) fn negation(&self) -> Option<String> {
        let long = self.long().filter(|_| self.negatable)?;
        Some(self.opposite().map_or_else(|| format!("no-{long}"), str::to_owned))
    }

    /// Returns `x` for an option `--no-<x>` that has the opposite `--<x>`.
    pub(crate) fn opposite(&self) -> Option<&'static str> {
        self.long().and_then(|long| long.strip_prefix("no-")).filter(|_| self.negatable)
    }
}

/// How a command's arguments are parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grammar {
    /// Options and arguments mix; `--` ends the options and is dropped.
    Mixed,
    /// As `Mixed`, but the first `--` stays among the arguments.
    MixedWithDashes,
    /// Options come first: after the first argument, every word is an argument.
    OptionsFirst,
    /// Options come first and are read one at a time, as in Git's revision commands. The number is
    /// the count of revision arguments after which options may still follow.
    Revisions(usize),
    /// The command parses the words itself. The table holds the options for the help only.
    Words,
}

/// A command's usage lines (without `usage: `) and options, in the help's order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table<K: 'static> {
    /// One line for each form.
    pub(crate) usage: &'static [&'static str],
    /// The options.
    pub(crate) options: &'static [Opt<K>],
    /// The parsing rules.
    pub(crate) grammar: Grammar,
}

/// The options of two lists in one array of length `N`, for tables that share options.
pub(crate) const fn join<K: Copy, const N: usize>(own: &[Opt<K>], shared: &[Opt<K>]) -> [Opt<K>; N] {
    assert!(own.len() + shared.len() == N, "N is the number of all options");
    let mut all = [own[0]; N];
    let mut at = 0;
    while at < N {
        all[at] = if at < own.len() { own[at] } else { shared[at - own.len()] };
        at += 1;
    }
    all
}

/// The command line of a command, for callers that are not generic over its request type.
pub(crate) trait Syntax: Sync {
    /// The usage lines, without `usage: `.
    fn usage(&self) -> &'static [&'static str];

    /// The options.
    fn specs(&self) -> Vec<&Spec>;

    /// Returns the text that `-h` prints.
    fn help(&self) -> String;

    /// Parses `args` into options by name, and arguments.
    fn survey(&self, args: &[BString]) -> Result<Survey, Stop>;
}

impl<K: Copy + Sync> Syntax for Table<K> {
    fn usage(&self) -> &'static [&'static str] {
        self.usage
    }

    fn specs(&self) -> Vec<&Spec> {
        self.options.iter().map(|option| &option.spec).collect()
    }

    fn help(&self) -> String {
        Table::help(self)
    }

    fn survey(&self, args: &[BString]) -> Result<Survey, Stop> {
        let parsed = self.parse(args)?;
        let given = |event: Event<K>| Given { name: event.name, on: event.on, value: event.value };
        Ok(Survey { options: parsed.events.into_iter().map(given).collect(), rest: parsed.rest })
    }
}

/// One option met on the command line.
#[derive(Clone, Debug)]
pub(crate) struct Event<K> {
    /// The option's key.
    pub(crate) key: K,
    /// Like [`Spec::name`].
    pub(crate) name: &'static str,
    /// `false` for the `--no-` form.
    pub(crate) on: bool,
    /// The option's value, if it takes one and the user gave one.
    pub(crate) value: Option<BString>,
}

/// A parsed command line.
#[derive(Clone, Debug)]
pub(crate) struct Parsed<K> {
    /// The options in order.
    pub(crate) events: Vec<Event<K>>,
    /// The other words, in order; with the first `--` if the grammar keeps it.
    pub(crate) rest: Vec<BString>,
}

impl<R> Event<Set<R>> {
    /// Stores the option in `request`.
    pub(crate) fn store(self, request: &mut R) -> Result<(), Failure> {
        self.key.apply(request, Value { on: self.on, text: self.value })
    }
}

impl<R> Parsed<Set<R>> {
    /// Stores the options in `request`, in order. Returns the arguments.
    pub(crate) fn store(self, request: &mut R) -> Result<Vec<BString>, Failure> {
        self.events.into_iter().try_for_each(|event| event.store(request))?;
        Ok(self.rest)
    }
}

/// A command line parsed by a caller that does not interpret the options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Survey {
    /// The options in order.
    pub(crate) options: Vec<Given>,
    /// Like [`Parsed::rest`].
    pub(crate) rest: Vec<BString>,
}

/// One option of a [`Survey`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    /// Like [`Spec::name`].
    pub(crate) name: &'static str,
    /// `false` for the `--no-` form.
    pub(crate) on: bool,
    /// The option's value, if it takes one and the user gave one.
    pub(crate) value: Option<BString>,
}

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

/// One result of [`Walk::next`].
#[derive(Clone, Debug)]
pub(crate) enum Item<K> {
    /// An option.
    Option(Event<K>),
    /// The `--` that ends the options.
    DashDash,
    /// Anything else.
    Argument(BString),
}

/// A command line read from left to right, for commands in which an option applies to the words
/// after it.
pub(crate) struct Walk<'a, K: 'static> {
    table: &'a Table<K>,
    all: usize,
    queue: std::slice::Iter<'a, BString>,
    /// Short options of the current cluster that were not returned yet.
    waiting: std::collections::VecDeque<Event<K>>,
    /// Only arguments follow.
    ended: bool,
}

impl<K: Copy> Walk<'_, K> {
    /// Returns the next item; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Item<K>>, Stop> {
        if let Some(event) = self.waiting.pop_front() {
            return Ok(Some(Item::Option(event)));
        }
        let Some(arg) = self.queue.next() else { return Ok(None) };
        if self.ended || arg.first() != Some(&b'-') || arg.len() == 1 {
            return Ok(Some(Item::Argument(arg.clone())));
        }
        if arg == "--" {
            self.ended = true;
            return Ok(Some(Item::DashDash));
        }
        if arg == "--end-of-options" {
            self.ended = true;
            return self.next();
        }
        if self.all == 1 && arg == "-h" {
            return Err(Stop::Help(self.table.help()));
        }
        if let Some(long) = arg.strip_prefix(b"--") {
            return self.table.long(long.as_bstr(), &mut self.queue).map(Item::Option).map(Some);
        }
        let mut events = Vec::new();
        self.table.cluster(&arg[1..], &mut self.queue, &mut events)?;
        self.waiting.extend(events);
        self.next()
    }

    /// Returns the words that are left, without interpreting them.
    pub(crate) fn words(&self) -> &[BString] {
        self.queue.as_slice()
    }

    /// Takes the next `count` words, without interpreting them.
    pub(crate) fn take(&mut self, count: usize) -> Vec<BString> {
        self.queue.by_ref().take(count).cloned().collect()
    }
}

impl<K: Copy> Table<K> {
    /// Starts to parse the arguments after the command's name, one item at a time.
    pub(crate) fn walk<'a>(&'a self, args: &'a [BString]) -> Walk<'a, K> {
        Walk {
            table: self,
            all: args.len(),
            queue: args.iter(),
            waiting: std::collections::VecDeque::new(),
            ended: false,
        }
    }

    /// Parses the arguments after the command's name.
    pub(crate) fn parse(&self, args: &[BString]) -> Result<Parsed<K>, Stop> {
        match self.grammar {
            Grammar::Revisions(count) => return self.one_by_one(args, count),
            Grammar::Words if matches!(args, [only] if only == "-h") => return Err(Stop::Help(self.help())),
            Grammar::Words => return Ok(Parsed { events: Vec::new(), rest: args.to_vec() }),
            Grammar::Mixed | Grammar::MixedWithDashes | Grammar::OptionsFirst => {}
        }
        let mut parsed = Parsed { events: Vec::new(), rest: Vec::new() };
        let mut walk = self.walk(args);
        while let Some(item) = walk.next()? {
            match item {
                Item::Option(event) => parsed.events.push(event),
                Item::DashDash if self.grammar == Grammar::MixedWithDashes => parsed.rest.push("--".into()),
                Item::DashDash => {}
                Item::Argument(arg) => {
                    parsed.rest.push(arg);
                    walk.ended |= self.grammar == Grammar::OptionsFirst;
                }
            }
        }
        Ok(parsed)
    }

    fn cluster<'a>(
        &self,
        cluster: &[u8],
        queue: &mut impl Iterator<Item = &'a BString>,
        events: &mut Vec<Event<K>>,
    ) -> Result<(), Stop> {
        let mut left = cluster;
        while let Some((&letter, stuck)) = left.split_first() {
            let Some(option) = self.options.iter().find(|option| option.spec.short() == Some(letter)) else {
                if left.len() == cluster.len() {
                    self.two_dashes_meant(cluster)?;
                }
                if letter == b'h' {
                    return Err(Stop::Help(self.help()));
                }
                let message = if letter.is_ascii() {
                    format!("unknown switch `{}'", letter as char).into()
                } else {
                    [b"unknown non-ascii option in string: `-", cluster, b"'"].concat().into()
                };
                return Err(Stop::Mistake { message, usage: Some(self.help()) });
            };
            left = self.switch(option, letter, stuck, queue, events)?;
            // A long option with one dash (`-quiet`) may begin with a letter that is a switch.
            if left.len() + 1 == cluster.len() && !left.is_empty() {
                self.two_dashes_meant(cluster)?;
            }
        }
        Ok(())
    }

    /// Reads one option of a cluster. Returns the letters of the cluster that are left.
    fn switch<'a, 'b>(
        &self,
        option: &Opt<K>,
        letter: u8,
        stuck: &'b [u8],
        queue: &mut impl Iterator<Item = &'a BString>,
        events: &mut Vec<Event<K>>,
    ) -> Result<&'b [u8], Stop> {
        let name = || format!("switch `{}'", letter as char);
        let (value, left) = match option.spec.takes() {
            Takes::Nothing => (None, stuck),
            Takes::Value(_) | Takes::Optional(_) if !stuck.is_empty() => (Some(stuck.into()), &[][..]),
            Takes::Optional(_) => (None, stuck),
            Takes::Value(_) => (Some(next_value(queue, option.spec.at_end, name)?), stuck),
        };
        events.push(option.event(true, value));
        Ok(left)
    }

    fn two_dashes_meant(&self, word: &[u8]) -> Result<(), Stop> {
        let meant = word.starts_with(b"no-")
            || self
                .options
                .iter()
                .any(|option| option.spec.long().is_some_and(|long| long.as_bytes().starts_with(word)));
        if word.len() < 3 || !meant {
            return Ok(());
        }
        let message = [b"did you mean `--", word, b"` (with two dashes)?"].concat().into();
        Err(Stop::Mistake { message, usage: None })
    }

    fn long<'a>(&self, arg: &BStr, queue: &mut impl Iterator<Item = &'a BString>) -> Result<Event<K>, Stop> {
        let name = arg.split_once_str("=").map_or(arg, |(name, _)| name.as_bstr());
        let (option, on) = self.find_long(name, arg)?;
        self.event(option, on, arg, queue)
    }

    /// Returns the event of a long option. `on` is true if it was written without `no-`.
    fn event<'a>(
        &self,
        option: &Opt<K>,
        on: bool,
        arg: &BStr,
        queue: &mut impl Iterator<Item = &'a BString>,
    ) -> Result<Event<K>, Stop> {
        let stuck = arg.split_once_str("=").map(|(_, value)| value.as_bstr());
        let spelt = || match option.spec.long() {
            Some(long) if on => format!("option `{long}'"),
            Some(long) => format!("option `no-{}'", long.trim_start_matches("no-")),
            None => String::from("option"),
        };
        // `--refresh` for an option called `no-refresh` is its negation.
        let negates = on == option.spec.long().is_some_and(|long| long.starts_with("no-"));
        let value = match (option.spec.takes(), stuck) {
            (Takes::Nothing, None) => None,
            (Takes::Nothing, Some(_)) => return Err(takes_no_value(spelt())),
            (Takes::Value(_) | Takes::Optional(_), stuck) if negates => match stuck {
                Some(_) => return Err(takes_no_value(spelt())),
                None => None,
            },
            (_, Some(value)) => Some(value.into()),
            (Takes::Optional(_), None) => None,
            (Takes::Value(_), None) => Some(next_value(queue, option.spec.at_end, spelt)?),
        };
        Ok(option.event(!negates, value))
    }

    /// Returns the option that `name` selects, and true if it was written without `no-`.
    fn find_long(&self, name: &BStr, arg: &BStr) -> Result<(&Opt<K>, bool), Stop> {
        let (bare, on) = match name.strip_prefix(b"no-") {
            Some(rest) => (rest.as_bstr(), false),
            None => (name, true),
        };
        let mut candidates: Vec<(&Opt<K>, bool)> = Vec::new();
        for option in self.options {
            let Some(long) = option.spec.long() else { continue };
            let (stem, stem_on) = match long.strip_prefix("no-") {
                Some(stem) => (stem, false),
                None => (long, true),
            };
            if on != stem_on && !option.spec.negatable {
                continue;
            }
            if bare == stem {
                return Ok((option, on));
            }
            let too_short = option.spec.negatable && name.len() <= 3 && b"no-".starts_with(name);
            if stem.as_bytes().starts_with(bare) || too_short {
                candidates.push((option, on && !too_short));
            }
        }
        match candidates[..] {
            [] => {
                let message = [b"unknown option `", arg.as_bytes(), b"'"].concat().into();
                Err(Stop::Mistake { message, usage: Some(self.help()) })
            }
            [one] => Ok(one),
            [.., first, second] => {
                let spell = |(option, on): (&Opt<K>, bool)| {
                    let long = option.spec.long().unwrap_or_default();
                    format!("--{}{}", if on { "" } else { "no-" }, long.trim_start_matches("no-"))
                };
                let mut message = BString::from("ambiguous option: ");
                message.push_str(arg);
                message.push_str(format!(" (could be {} or {})", spell(first), spell(second)));
                Err(Stop::Mistake { message, usage: None })
            }
        }
    }

    /// Returns the usage, as `-h` prints it.
    pub(crate) fn help(&self) -> String {
        const COLUMN: usize = 26;
        let mut text = String::new();
        for (number, line) in self.usage.iter().enumerate() {
            let lead = if number == 0 { "usage:" } else { "   or:" };
            match line.strip_prefix("sapwood ") {
                Some(rest) if CALLED_AS_GIT.load(Ordering::Relaxed) => {
                    text += &format!("{lead} git {rest}\n")
                }
                _ => text += &format!("{lead} {line}\n"),
            }
        }
        text.push('\n');
        let mut line = |head: String, help: &str| {
            if head.len() < COLUMN {
                text += &format!("{head:COLUMN$}{help}\n");
            } else {
                text += &format!("{head}\n{:COLUMN$}{help}\n", "");
            }
        };
        for spec in self.options.iter().map(|option| &option.spec).filter(|spec| !spec.hidden) {
            line(format!("    {}", spec.head()), spec.help);
            if let Some(opposite) = spec.opposite() {
                line(format!("    --{opposite}"), &format!("opposite of --no-{opposite}"));
            }
        }
        text.push('\n');
        text
    }
}

/// True if usages name `git`. It is static because a process is called by one name.
static CALLED_AS_GIT: AtomicBool = AtomicBool::new(false);

/// Makes usages name `git`, the name that the user typed.
pub(crate) fn call_it_git() {
    CALLED_AS_GIT.store(true, Ordering::Relaxed);
}

fn next_value<'a>(
    queue: &mut impl Iterator<Item = &'a BString>,
    at_end: Option<&'static str>,
    name: impl FnOnce() -> String,
) -> Result<BString, Stop> {
    queue
        .next()
        .cloned()
        .or_else(|| at_end.map(BString::from))
        .ok_or_else(|| Stop::Mistake { message: format!("{} requires a value", name()).into(), usage: None })
}

fn takes_no_value(name: String) -> Stop {
    Stop::Mistake { message: format!("{name} takes no value").into(), usage: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Key {
        Branch,
        Quiet,
        Progress,
        NoRefresh,
        Hard,
        Track,
    }

    const TABLE: Table<Key> = Table {
        usage: &["sapwood try [<options>]", "sapwood try -- <file>..."],
        options: &[
            Opt::keyed(Key::Branch, "-b, --branch <branch>", "a branch"),
            Opt::keyed(Key::Quiet, "-q, --quiet", "say less"),
            Opt::keyed(Key::Progress, "--progress", "say more"),
            Opt::keyed(Key::NoRefresh, "--no-refresh", "skip it"),
            Opt::keyed(Key::Hard, "--hard", "all of it").only(),
            Opt::keyed(Key::Track, "-t, --track[=(direct|inherit)]", "follow"),
        ],
        grammar: Grammar::MixedWithDashes,
    };

    fn parse(args: &[&str]) -> Result<Parsed<Key>, Stop> {
        let args: Vec<BString> = args.iter().map(|&arg| arg.into()).collect();
        TABLE.parse(&args)
    }

    fn events(args: &[&str]) -> Vec<(Key, bool, Option<String>)> {
        let parsed = parse(args).expect("valid");
        let text = |value: BString| value.to_string();
        parsed.events.into_iter().map(|event| (event.key, event.on, event.value.map(text))).collect()
    }

    fn message(args: &[&str]) -> (String, bool) {
        match parse(args) {
            Err(Stop::Mistake { message, usage }) => (message.to_string(), usage.is_some()),
            other => panic!("{args:?} gave {other:?}"),
        }
    }

    #[test]
    fn clusters_stuck_values_and_abbreviations() {
        let value = |text: &str| Some(text.to_string());
        assert_eq!(
            events(&["-qbname", "x", "--bran=y", "-b", "z", "--no-quiet"]),
            [
                (Key::Quiet, true, None),
                (Key::Branch, true, value("name")),
                (Key::Branch, true, value("y")),
                (Key::Branch, true, value("z")),
                (Key::Quiet, false, None),
            ]
        );
        assert_eq!(
            events(&["--prog", "--no-prog"]),
            [(Key::Progress, true, None), (Key::Progress, false, None)]
        );
        assert_eq!(events(&["--no-branch"]), [(Key::Branch, false, None)]);
    }

    #[test]
    fn optional_values_are_only_stuck() {
        let value = |text: &str| Some(text.to_string());
        assert_eq!(
            events(&["-t", "a", "--track", "b", "--track=direct", "-tinherit"]),
            [
                (Key::Track, true, None),
                (Key::Track, true, None),
                (Key::Track, true, value("direct")),
                (Key::Track, true, value("inherit")),
            ]
        );
    }

    #[test]
    fn negates_options_whose_names_begin_with_no() {
        assert_eq!(events(&["--no-refresh"]), [(Key::NoRefresh, true, None)]);
        assert_eq!(events(&["--refresh"]), [(Key::NoRefresh, false, None)]);
        assert_eq!(events(&["--ref"]), [(Key::NoRefresh, false, None)]);
    }

    #[test]
    fn arguments_mix_with_options_until_two_dashes() {
        let parsed = parse(&["a", "-q", "-", "--", "-q"]).expect("valid");
        assert_eq!(parsed.rest, ["a", "-", "--", "-q"]);
        let args: Vec<BString> = ["a", "--", "b"].map(BString::from).into();
        assert_eq!(Table { grammar: Grammar::Mixed, ..TABLE }.parse(&args).expect("valid").rest, ["a", "b"]);
    }

    #[test]
    fn mistakes_are_worded_as_in_git() {
        assert_eq!(message(&["--foo=1"]), ("unknown option `foo=1'".into(), true));
        assert_eq!(message(&["-z"]), ("unknown switch `z'".into(), true));
        assert_eq!(message(&["-qz"]), ("unknown switch `z'".into(), true));
        assert_eq!(message(&["-b"]), ("switch `b' requires a value".into(), false));
        assert_eq!(message(&["--branch"]), ("option `branch' requires a value".into(), false));
        assert_eq!(message(&["--quiet=1"]), ("option `quiet' takes no value".into(), false));
        assert_eq!(message(&["--no-hard"]), ("unknown option `no-hard'".into(), true));
        assert_eq!(message(&["-hard"]), ("did you mean `--hard` (with two dashes)?".into(), false));
    }

    #[test]
    fn help_is_laid_out_in_two_columns() {
        let Err(Stop::Help(help)) = parse(&["-h"]) else { panic!("-h is help") };
        insta::assert_snapshot!(help, @r"
        usage: sapwood try [<options>]
           or: sapwood try -- <file>...

            -b, --[no-]branch <branch>
                                  a branch
            -q, --[no-]quiet      say less
            --[no-]progress       say more
            --no-refresh          skip it
            --refresh             opposite of --no-refresh
            --hard                all of it
            -t, --[no-]track[=(direct|inherit)]
                                  follow
        ");
    }
}
