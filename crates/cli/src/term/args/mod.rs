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
mod spec;
pub(crate) mod stop;
mod walk;

use std::sync::atomic::{AtomicBool, Ordering};

use bstr::BString;

pub(crate) use spec::{
    Native::{self, Both, Neither, Off, On},
    Opt, Set, Spec, Takes, Value,
};
pub(crate) use stop::{Stop, USAGE};
pub(crate) use walk::Item;

use crate::term::failure::Failure;

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

    /// Returns true if sapwood serves this form of an option (`on`: without `--no-`) as Git does.
    fn is_native(&self, name: &str, on: bool) -> bool {
        self.specs().into_iter().any(|spec| spec.is_native(on) && spec.name() == name)
    }

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

impl<K: Copy> Table<K> {
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
