//! Reading the words of a command line from left to right.

use bstr::{BStr, BString, ByteSlice as _, ByteVec as _};

use crate::term::text::split_once;

use super::{Event, Grammar, Opt, Parsed, Stop, Table, Takes};

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
    pub(super) fn switch<'a, 'b>(
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

    pub(super) fn two_dashes_meant(&self, word: &[u8]) -> Result<(), Stop> {
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
        let name = split_once(arg, b'=').map_or(arg, |(name, _)| name.as_bstr());
        let (option, on) = self.find_long(name, arg)?;
        self.event(option, on, arg, queue)
    }

    /// Returns the event of a long option. `on` is true if it was written without `no-`.
    pub(super) fn event<'a>(
        &self,
        option: &Opt<K>,
        on: bool,
        arg: &BStr,
        queue: &mut impl Iterator<Item = &'a BString>,
    ) -> Result<Event<K>, Stop> {
        let stuck = split_once(arg, b'=').map(|(_, value)| value.as_bstr());
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
