//! The declaration of an option: its spelling, its help, its rules, and the field that it sets.

use bstr::BString;

use super::{Event, one_shot::Reader};
use crate::term::failure::Failure;

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
    pub(super) spelling: &'static str,
    /// One line for `-h` and the manual.
    pub(crate) help: &'static str,
    pub(super) negatable: bool,
    /// Left out of `-h` and the manual.
    pub(crate) hidden: bool,
    pub(super) reader: Reader,
    native: Native,
    /// The value if the option is the last word and needs one.
    pub(super) at_end: Option<&'static str>,
}

/// One option of a command: its declaration, and the key that identifies it to the command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opt<K: 'static> {
    pub(super) key: K,
    pub(super) spec: Spec,
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
    /// `--name <text>` adds the text, `--no-name` changes nothing.
    Each(fn(&mut R) -> &mut Vec<BString>),
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
    pub(super) fn apply(self, request: &mut R, value: Value) -> Result<(), Failure> {
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
            Set::Each(field) => field(request).extend(value.text),
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

    /// See [`Set::Each`].
    pub(crate) const fn each(
        spelling: &'static str,
        help: &'static str,
        field: fn(&mut R) -> &mut Vec<BString>,
    ) -> Self {
        Opt::keyed(Set::Each(field), spelling, help)
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
    pub(super) fn event(&self, on: bool, value: Option<BString>) -> Event<K> {
        Event { key: self.key, name: self.spec.name(), on, value }
    }
}

impl Spec {
    /// Splits the spelling into the option's names and the value that follows them.
    pub(super) fn parts(&self) -> (&'static str, &'static str) {
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
        self.name().strip_prefix("--")
    }

    /// Returns the long name, or else the short one, with dashes: `--quiet`, `-b`.
    pub(crate) fn name(&self) -> &'static str {
        let names = self.parts().0;
        names.rsplit(' ').next().unwrap_or(names)
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
