//! Arguments the way Git reads them, from one table per command.
//!
//! A table is data: the same entries parse the command line and print `-h`. The rules are those of
//! Git's parse-options: long options may be shortened while they stay unique, `--no-` turns an
//! option back, short ones cluster (`-fq`) and take their value stuck or apart (`-bname`,
//! `-b name`), options and arguments mix until `--`, and the last one wins. A command folds the
//! [`Event`]s in order, which is what makes the last one win.
//!
//! Nothing is printed here: a wrong line ends in a [`Stop`] that holds what to print and where.

mod one_shot;

use bstr::{BStr, BString, ByteSlice, ByteVec};
use one_shot::Reader;

/// Printed after a wrong global option, and by `--help`.
pub(crate) const USAGE: &str = "\
usage: sapwood [-v | --version] [-h | --help] [-C <path>] [-c <name>=<value>]
           [-P | --no-pager] [--no-replace-objects] [--no-optional-locks]
           [--no-advice] [--bare] [--git-dir=<path>] [--work-tree=<path>]
           [--config-env=<name>=<envvar>] [--verbose] [--profile[=<file>]]
           <command> [<args>]";

/// What an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    /// Nothing.
    Nothing,
    /// A value, named so in the help.
    Value(&'static str),
    /// A value that can only be stuck to it; the help's text for it, brackets and all.
    Optional(&'static str),
}

/// One option of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opt<K: 'static> {
    key: K,
    spelling: &'static str,
    negatable: bool,
    hidden: bool,
    reader: Reader,
    help: &'static str,
}

impl<K: Copy> Opt<K> {
    /// `spelling` is what the help shows, without the `--no-` form: `-q, --quiet`, `--jobs <n>`,
    /// `-t, --track[=<how>]`.
    pub(crate) const fn new(key: K, spelling: &'static str, help: &'static str) -> Self {
        Opt { key, spelling, negatable: true, hidden: false, reader: Reader::Options, help }
    }

    /// Without a `--no-` form.
    pub(crate) const fn only(mut self) -> Self {
        self.negatable = false;
        self
    }

    /// Not in the help.
    pub(crate) const fn hidden(mut self) -> Self {
        self.hidden = true;
        self
    }

    /// The names as they are spelt, and what follows them.
    fn parts(&self) -> (&'static str, &'static str) {
        let end = self.spelling.find(['<', '[']).unwrap_or(self.spelling.len());
        (self.spelling[..end].trim_end(), &self.spelling[end..])
    }

    fn short(&self) -> Option<u8> {
        match self.spelling.as_bytes() {
            [b'-', letter, ..] if *letter != b'-' => Some(*letter),
            _ => None,
        }
    }

    fn long(&self) -> Option<&'static str> {
        self.parts().0.split_once("--").map(|(_, long)| long)
    }

    /// As [`Given::name`].
    fn name(&self) -> &'static str {
        let names = self.parts().0;
        names.rsplit(", ").next().unwrap_or(names)
    }

    fn takes(&self) -> Takes {
        match self.parts().1 {
            "" => Takes::Nothing,
            name if name.starts_with('<') => Takes::Value(name),
            form => Takes::Optional(form),
        }
    }
}

/// A command's usage lines (without `usage: `) and options, in the help's order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table<K: 'static> {
    /// One line for each form.
    pub(crate) usage: &'static [&'static str],
    /// The options.
    pub(crate) options: &'static [Opt<K>],
}

/// One option met on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event<K> {
    /// Which.
    pub(crate) key: K,
    /// `false` for the `--no-` form.
    pub(crate) on: bool,
    /// Its value, if it takes one and it was given.
    pub(crate) value: Option<BString>,
}

/// The command line, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parsed<K> {
    /// The options in order.
    pub(crate) events: Vec<Event<K>>,
    /// All else, in order; with the first `--` if it was to be kept.
    pub(crate) rest: Vec<BString>,
}

/// A command line taken apart by somebody who does not know what the options mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Survey {
    /// The options in order.
    pub(crate) options: Vec<Given>,
    /// As [`Parsed::rest`].
    pub(crate) rest: Vec<BString>,
}

/// One option of a [`Survey`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    /// Its long name, or its short one if it has no other, with dashes: `--quiet`, `-b`.
    pub(crate) name: &'static str,
    /// `false` for the `--no-` form.
    pub(crate) on: bool,
    /// Its value, if it takes one and it was given.
    pub(crate) value: Option<BString>,
}

/// What becomes of a `--`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DashDash {
    /// It ends the options and is dropped.
    Drop,
    /// It ends the options and stays among the arguments.
    Keep,
}

/// Parsing ended early. The exit code is 129 either way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// `-h`: the usage, for standard output.
    Help(String),
    /// A mistake: the message without `error: `, and the usage if it is to follow.
    Mistake {
        /// What is wrong.
        message: BString,
        /// Printed after it on standard error.
        usage: Option<String>,
    },
}

/// What [`Walk::next`] comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item<K> {
    /// An option.
    Option(Event<K>),
    /// The `--` that ends the options.
    DashDash,
    /// Anything else.
    Argument(BString),
}

/// A command line taken apart from left to right, for commands in which an option counts for what comes after it.
pub(crate) struct Walk<'a, K: 'static> {
    table: &'a Table<K>,
    all: usize,
    queue: std::slice::Iter<'a, BString>,
    /// Of switches that came in one word.
    waiting: std::collections::VecDeque<Event<K>>,
    /// Only arguments follow.
    ended: bool,
}

impl<K: Copy + PartialEq> Walk<'_, K> {
    /// The next thing; `None` at the end.
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

    /// The words that are left, whatever they look like.
    pub(crate) fn words(&self) -> &[BString] {
        self.queue.as_slice()
    }

    /// Takes so many of them.
    pub(crate) fn take(&mut self, count: usize) -> Vec<BString> {
        self.queue.by_ref().take(count).cloned().collect()
    }
}

impl<K: Copy + PartialEq> Table<K> {
    /// Begins to take the arguments after the command's name apart.
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
    pub(crate) fn parse(&self, args: &[BString], dash_dash: DashDash) -> Result<Parsed<K>, Stop> {
        let mut parsed = Parsed { events: Vec::new(), rest: Vec::new() };
        let mut walk = self.walk(args);
        while let Some(item) = walk.next()? {
            match item {
                Item::Option(event) => parsed.events.push(event),
                Item::DashDash if dash_dash == DashDash::Keep => parsed.rest.push("--".into()),
                Item::DashDash => {}
                Item::Argument(arg) => parsed.rest.push(arg),
            }
        }
        Ok(parsed)
    }

    /// As [`Table::parse`], with the options by name.
    pub(crate) fn survey(&self, args: &[BString], dash_dash: DashDash) -> Result<Survey, Stop> {
        Ok(self.named(self.parse(args, dash_dash)?))
    }

    /// What was taken apart, with the options by name.
    pub(crate) fn named(&self, parsed: Parsed<K>) -> Survey {
        let options = parsed.events.into_iter().map(|event| self.given(event)).collect();
        Survey { options, rest: parsed.rest }
    }

    /// An option by name.
    pub(crate) fn given(&self, event: Event<K>) -> Given {
        let option = self.options.iter().find(|option| option.key == event.key);
        let name = option.expect("every event comes from an option of this table").name();
        Given { name, on: event.on, value: event.value }
    }

    fn cluster<'a>(
        &self,
        cluster: &[u8],
        queue: &mut impl Iterator<Item = &'a BString>,
        events: &mut Vec<Event<K>>,
    ) -> Result<(), Stop> {
        let mut left = cluster;
        while let Some((&letter, stuck)) = left.split_first() {
            let Some(option) = self.options.iter().find(|option| option.short() == Some(letter)) else {
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
            // A misspelt long option shows after its first letter was taken for a switch.
            if left.len() + 1 == cluster.len() && !left.is_empty() {
                self.two_dashes_meant(cluster)?;
            }
        }
        Ok(())
    }

    /// Takes one option of a cluster; the answer is what is left of it.
    fn switch<'a, 'b>(
        &self,
        option: &Opt<K>,
        letter: u8,
        stuck: &'b [u8],
        queue: &mut impl Iterator<Item = &'a BString>,
        events: &mut Vec<Event<K>>,
    ) -> Result<&'b [u8], Stop> {
        let name = || format!("switch `{}'", letter as char);
        let (value, left) = match option.takes() {
            Takes::Nothing => (None, stuck),
            Takes::Value(_) | Takes::Optional(_) if !stuck.is_empty() => (Some(stuck.into()), &[][..]),
            Takes::Optional(_) => (None, stuck),
            Takes::Value(_) => (Some(next_value(queue, name)?), stuck),
        };
        events.push(Event { key: option.key, on: true, value });
        Ok(left)
    }

    fn two_dashes_meant(&self, word: &[u8]) -> Result<(), Stop> {
        let meant = word.starts_with(b"no-")
            || self
                .options
                .iter()
                .any(|option| option.long().is_some_and(|long| long.as_bytes().starts_with(word)));
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

    /// What a long option comes to that was written without `no-` (`on`), or with it.
    fn event<'a>(
        &self,
        option: &Opt<K>,
        on: bool,
        arg: &BStr,
        queue: &mut impl Iterator<Item = &'a BString>,
    ) -> Result<Event<K>, Stop> {
        let stuck = arg.split_once_str("=").map(|(_, value)| value.as_bstr());
        let spelt = || match option.long() {
            Some(long) if on => format!("option `{long}'"),
            Some(long) => format!("option `no-{}'", long.trim_start_matches("no-")),
            None => String::from("option"),
        };
        // `--refresh` for an option called `no-refresh` is its negation.
        let negates = on == option.long().is_some_and(|long| long.starts_with("no-"));
        let value = match (option.takes(), stuck) {
            (Takes::Nothing, None) => None,
            (Takes::Nothing, Some(_)) => return Err(takes_no_value(spelt())),
            (Takes::Value(_) | Takes::Optional(_), stuck) if negates => match stuck {
                Some(_) => return Err(takes_no_value(spelt())),
                None => None,
            },
            (_, Some(value)) => Some(value.into()),
            (Takes::Optional(_), None) => None,
            (Takes::Value(_), None) => Some(next_value(queue, spelt)?),
        };
        Ok(Event { key: option.key, on: !negates, value })
    }

    /// The option `name` means, and whether it was written without `no-`.
    fn find_long(&self, name: &BStr, arg: &BStr) -> Result<(&Opt<K>, bool), Stop> {
        let (bare, on) = match name.strip_prefix(b"no-") {
            Some(rest) => (rest.as_bstr(), false),
            None => (name, true),
        };
        let mut candidates: Vec<(&Opt<K>, bool)> = Vec::new();
        for option in self.options {
            let Some(long) = option.long() else { continue };
            let (stem, stem_on) = match long.strip_prefix("no-") {
                Some(stem) => (stem, false),
                None => (long, true),
            };
            if on != stem_on && !option.negatable {
                continue;
            }
            if bare == stem {
                return Ok((option, on));
            }
            let too_short = option.negatable && name.len() <= 3 && b"no-".starts_with(name);
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
                    let long = option.long().unwrap_or_default();
                    format!("--{}{}", if on { "" } else { "no-" }, long.trim_start_matches("no-"))
                };
                let mut message = BString::from("ambiguous option: ");
                message.push_str(arg);
                message.push_str(format!(" (could be {} or {})", spell(first), spell(second)));
                Err(Stop::Mistake { message, usage: None })
            }
        }
    }

    /// The usage, as `-h` prints it.
    pub(crate) fn help(&self) -> String {
        const COLUMN: usize = 26;
        let mut text = String::new();
        for (number, line) in self.usage.iter().enumerate() {
            let lead = if number == 0 { "usage:" } else { "   or:" };
            text += &format!("{lead} {line}\n");
        }
        text.push('\n');
        let mut line = |head: String, help: &str| {
            if head.len() < COLUMN {
                text += &format!("{head:COLUMN$}{help}\n");
            } else {
                text += &format!("{head}\n{:COLUMN$}{help}\n", "");
            }
        };
        for option in self.options.iter().filter(|option| !option.hidden) {
            let mut head = String::from("    ");
            if let Some(short) = option.short() {
                head += &format!("-{}", short as char);
            }
            if let Some(long) = option.long() {
                head += if option.short().is_some() { ", " } else { "" };
                let negation = option.negatable && !long.starts_with("no-");
                head += &format!("--{}{long}", if negation { "[no-]" } else { "" });
            }
            match option.takes() {
                Takes::Nothing => {}
                Takes::Value(name) => head += &format!(" {name}"),
                Takes::Optional(form) => head += form,
            }
            line(head, option.help);
            if let (Some(positive), true) =
                (option.long().and_then(|long| long.strip_prefix("no-")), option.negatable)
            {
                line(format!("    --{positive}"), &format!("opposite of --no-{positive}"));
            }
        }
        text.push('\n');
        text
    }
}

fn next_value<'a>(
    queue: &mut impl Iterator<Item = &'a BString>,
    name: impl FnOnce() -> String,
) -> Result<BString, Stop> {
    queue
        .next()
        .cloned()
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
            Opt::new(Key::Branch, "-b, --branch <branch>", "a branch"),
            Opt::new(Key::Quiet, "-q, --quiet", "say less"),
            Opt::new(Key::Progress, "--progress", "say more"),
            Opt::new(Key::NoRefresh, "--no-refresh", "skip it"),
            Opt::new(Key::Hard, "--hard", "all of it").only(),
            Opt::new(Key::Track, "-t, --track[=(direct|inherit)]", "follow"),
        ],
    };

    fn parse(args: &[&str]) -> Result<Parsed<Key>, Stop> {
        let args: Vec<BString> = args.iter().map(|&arg| arg.into()).collect();
        TABLE.parse(&args, DashDash::Keep)
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
    fn an_option_called_no_something_turns_round() {
        assert_eq!(events(&["--no-refresh"]), [(Key::NoRefresh, true, None)]);
        assert_eq!(events(&["--refresh"]), [(Key::NoRefresh, false, None)]);
        assert_eq!(events(&["--ref"]), [(Key::NoRefresh, false, None)]);
    }

    #[test]
    fn arguments_mix_with_options_until_two_dashes() {
        let parsed = parse(&["a", "-q", "-", "--", "-q"]).expect("valid");
        assert_eq!(parsed.rest, ["a", "-", "--", "-q"]);
        let args: Vec<BString> = ["a", "--", "b"].map(BString::from).into();
        assert_eq!(TABLE.parse(&args, DashDash::Drop).expect("valid").rest, ["a", "b"]);
    }

    #[test]
    fn mistakes_are_told_as_git_tells_them() {
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
