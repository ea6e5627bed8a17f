//! The parsed command line.

use bstr::{BString, ByteSlice as _};
use sapwood::config::{Change, Kind, Query, Url, Values, comment};

use super::{
    location::Location,
    options::{Display, Form, Forms, Mode, Request},
};
use crate::term::failure::Failure;

/// One call of the command, parsed.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) location: Location,
    pub(super) shown: Shown,
    pub(super) action: Action,
}

/// How settings are read and printed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    /// `--includes`
    pub(super) includes: Option<bool>,
    pub(super) display: Display,
    /// The type of printed values.
    pub(super) kind: Option<Kind>,
    /// True if Git would start a pager on a terminal.
    pub(super) is_paged: bool,
}

/// The task.
#[derive(Debug)]
pub(super) enum Action {
    List,
    /// Settings to print: all, or only the last one. Their type is that of [`Shown`].
    Get {
        query: Query,
        all: bool,
    },
    /// The settings of `section` for a URL; all of them if `key` is `None`.
    Url {
        section: BString,
        key: Option<BString>,
        url: Url,
    },
    Color {
        slot: BString,
        default: Option<BString>,
    },
    ColorBool {
        slot: BString,
        is_terminal: Option<bool>,
    },
    Change {
        change: Change,
        /// The ways to change several values, which the error message names.
        advice: Option<&'static str>,
    },
    Section {
        old: BString,
        new: Option<BString>,
    },
}

fn values(pattern: Option<BString>, is_fixed: bool) -> Values {
    match pattern {
        None => Values::All,
        Some(value) if is_fixed => Values::Exactly(value),
        Some(pattern) => Values::Matching(pattern),
    }
}

/// Returns the failure for an invalid command line. Git's message would include its usage text.
fn wrong(what: &str) -> Failure {
    Failure::Error(what.into(), 129)
}

impl Job {
    /// Parses a command line. The real Git reports the error of an invalid one.
    pub(super) fn parse(args: &[BString]) -> Result<Job, Failure> {
        let (form, mut request, words) = Forms::parse(args)?;
        if form == Form::Old && request.mode.is_none() {
            request.mode = match &words[..] {
                [name] if lacks_value(name) => return Err(wrong("a variable with its value in one word")),
                [_] => Some(Mode::Get),
                _ => None,
            };
        }
        let is_color = request.kind == Some(Kind::Color);
        let is_paged = match form {
            Form::List => true,
            Form::Get => !is_color,
            Form::Old => {
                matches!(request.mode, Some(Mode::List | Mode::GetAll | Mode::GetRegexp | Mode::GetUrlmatch))
            }
            _ => false,
        };
        if form == Form::List || matches!(request.mode, Some(Mode::GetRegexp | Mode::List)) {
            request.display.names = true;
        }
        let action = match form {
            Form::Old => old(&mut request, words)?,
            Form::List if words.is_empty() => Action::List,
            Form::Get => get(&mut request, words)?,
            Form::Set => set(&mut request, words)?,
            Form::Unset => unset(&mut request, words)?,
            Form::RenameSection | Form::RemoveSection => section(form == Form::RenameSection, words)?,
            Form::Edit => return Err(wrong("an editor for the configuration")),
            Form::List => return Err(wrong("arguments of a listing")),
        };
        let location = Location::of(&mut request)?;
        let Request { includes, display, kind, .. } = request;
        let kind = kind.filter(|_| !display.name_only);
        Ok(Job { location, shown: Shown { includes, display, kind, is_paged }, action })
    }
}

/// Returns true for `git config a.b=c`, for which Git prints advice.
fn lacks_value(name: &BString) -> bool {
    name.rfind_byte(b'.').is_some_and(|dot| name[dot..].contains(&b'='))
}

fn words<const MIN: usize, const MAX: usize>(words: Vec<BString>) -> Result<[Option<BString>; MAX], Failure> {
    if !(MIN..=MAX).contains(&words.len()) {
        return Err(wrong("a wrong number of arguments"));
    }
    let mut words = words.into_iter();
    Ok(std::array::from_fn(|_| words.next()))
}

fn old(request: &mut Request, given: Vec<BString>) -> Result<Action, Failure> {
    let mode = request.mode;
    let is_write = matches!(mode, None | Some(Mode::ReplaceAll | Mode::Add));
    let is_get = mode == Some(Mode::Get);
    let shows = matches!(mode, Some(Mode::Get | Mode::GetAll | Mode::GetRegexp | Mode::List));
    let lists = matches!(mode, Some(Mode::List | Mode::GetRegexp));
    if request.display.name_only && !lists
        || request.display.origin && !shows
        || request.default.is_some() && !is_get
        || request.comment.is_some() && !is_write
        || request.kind.is_some() && matches!(mode, Some(Mode::GetColor | Mode::GetColorbool))
    {
        return Err(wrong("options that do not go together"));
    }
    let patterns_at = match mode {
        Some(Mode::Get | Mode::GetAll | Mode::GetRegexp | Mode::Unset | Mode::UnsetAll) => Some(1),
        Some(Mode::ReplaceAll) => Some(2),
        None if given.len() == 3 => Some(2),
        _ => None,
    };
    if request.fixed_value && patterns_at.is_none_or(|at| given.len() <= at) {
        return Err(wrong("--fixed-value without a pattern"));
    }
    let fixed = request.fixed_value;
    let comment = request.comment.take().map(|text| comment(text.as_ref())).transpose()?;
    let kind = request.kind;
    let change = |name: Option<BString>, value, values, all| {
        let name = name.unwrap_or_default();
        let comment = comment.clone();
        Action::Change { change: Change { name, value, kind, values, all, comment }, advice: None }
    };
    Ok(match mode {
        Some(Mode::List) => {
            let [] = words::<0, 0>(given)?;
            Action::List
        }
        Some(Mode::Get | Mode::GetAll | Mode::GetRegexp) => {
            let [name, pattern] = words::<1, 2>(given)?;
            let query = Query {
                name: name.unwrap_or_default(),
                is_regexp: mode == Some(Mode::GetRegexp),
                values: values(pattern, fixed),
                default: request.default.take(),
                kind: None,
            };
            Action::Get { query, all: !is_get }
        }
        None => {
            let [name, value, pattern] = words::<2, 3>(given)?;
            let advice = pattern.is_none().then_some("Use a regexp, --add or --replace-all");
            let (name, values) = (name.unwrap_or_default(), values(pattern, fixed));
            Action::Change { change: Change { name, value, kind, values, all: false, comment }, advice }
        }
        Some(Mode::Add) => {
            let [name, value] = words::<2, 2>(given)?;
            change(name, value, Values::None, false)
        }
        Some(Mode::ReplaceAll) => {
            let [name, value, pattern] = words::<2, 3>(given)?;
            change(name, value, values(pattern, fixed), true)
        }
        Some(Mode::Unset | Mode::UnsetAll) => {
            let [name, pattern] = words::<1, 2>(given)?;
            change(name, None, values(pattern, fixed), mode == Some(Mode::UnsetAll))
        }
        Some(Mode::RenameSection | Mode::RemoveSection) => section(mode == Some(Mode::RenameSection), given)?,
        Some(Mode::GetColor) => {
            let [slot, default] = words::<1, 2>(given)?;
            Action::Color { slot: slot.unwrap_or_default(), default }
        }
        Some(Mode::GetColorbool) => {
            let [slot, is_terminal] = words::<1, 2>(given)?;
            let is_terminal = is_terminal
                .map(|text| repo::parse_bool(Some(text.as_bstr())).ok_or_else(|| wrong("a wrong boolean")));
            Action::ColorBool { slot: slot.unwrap_or_default(), is_terminal: is_terminal.transpose()? }
        }
        Some(Mode::GetUrlmatch) => {
            let [name, url] = words::<2, 2>(given)?;
            for_url(request, name.unwrap_or_default(), url.unwrap_or_default())?
        }
        Some(Mode::Edit) => return Err(wrong("an editor for the configuration")),
    })
}

fn get(request: &mut Request, given: Vec<BString>) -> Result<Action, Failure> {
    let [name] = words::<1, 1>(given)?;
    let name = name.unwrap_or_default();
    let pattern = request.value.take();
    if request.fixed_value && pattern.is_none()
        || request.default.is_some() && (request.all || request.url.is_some())
        || request.url.is_some() && (request.all || request.regexp || pattern.is_some())
    {
        return Err(wrong("options that do not go together"));
    }
    if let Some(url) = request.url.take() {
        return for_url(request, name, url);
    }
    if request.kind == Some(Kind::Color) && name.is_empty() && request.default.is_some() {
        return Ok(Action::Color { slot: name, default: request.default.take() });
    }
    let (values, default) = (values(pattern, request.fixed_value), request.default.take());
    let query = Query { name, is_regexp: request.regexp, values, default, kind: None };
    Ok(Action::Get { query, all: request.all })
}

fn for_url(request: &mut Request, name: BString, url: BString) -> Result<Action, Failure> {
    let url = Url::parse(url.as_ref()).ok_or_else(|| wrong("such a URL"))?;
    let name = name.to_ascii_lowercase();
    let (section, key) = match name.split_once_str(".") {
        Some((section, key)) => (section.into(), Some(key.into())),
        None => (name.into(), None),
    };
    request.display.names = key.is_none();
    Ok(Action::Url { section, key, url })
}

fn set(request: &mut Request, given: Vec<BString>) -> Result<Action, Failure> {
    let [name, value] = words::<2, 2>(given)?;
    let pattern = request.value.take();
    if request.fixed_value && pattern.is_none() || request.append && pattern.is_some() {
        return Err(wrong("options that do not go together"));
    }
    let is_plain = pattern.is_none() && !request.all && !request.append;
    let change = Change {
        name: name.unwrap_or_default(),
        value,
        kind: request.kind,
        values: if request.append { Values::None } else { values(pattern, request.fixed_value) },
        all: request.all,
        comment: request.comment.take().map(|text| comment(text.as_ref())).transpose()?,
    };
    Ok(Action::Change { change, advice: is_plain.then_some("Use --value=<pattern>, --append or --all") })
}

fn unset(request: &mut Request, given: Vec<BString>) -> Result<Action, Failure> {
    let [name] = words::<1, 1>(given)?;
    let pattern = request.value.take();
    if request.fixed_value && pattern.is_none() {
        return Err(wrong("options that do not go together"));
    }
    let (name, values) = (name.unwrap_or_default(), values(pattern, request.fixed_value));
    let change = Change { name, values, all: request.all, ..Change::default() };
    Ok(Action::Change { change, advice: None })
}

fn section(is_renamed: bool, given: Vec<BString>) -> Result<Action, Failure> {
    let [old, new] = if is_renamed { words::<2, 2>(given)? } else { words::<1, 2>(given)? };
    if !is_renamed && new.is_some() {
        return Err(wrong("a wrong number of arguments"));
    }
    Ok(Action::Section { old: old.unwrap_or_default(), new })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Job, String> {
        let args: Vec<BString> = line.split(' ').map(BString::from).collect();
        Job::parse(&args).map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn the_older_form_goes_by_the_number_of_words() {
        assert!(matches!(parsed("a.b").expect("valid").action, Action::Get { all: false, .. }));
        let change = |line| match parsed(line).expect("valid").action {
            Action::Change { change, advice } => (change, advice),
            other => panic!("it does not change: {other:?}"),
        };
        assert!(matches!(change("a.b c"), (Change { all: false, .. }, Some(_))));
        let (change, _) = change("a.b --c ^d");
        assert!(matches!(change.values, Values::Matching(_)) && change.value == Some("--c".into()));
        for line in ["a.b=c", "a b c d", "--get", "--get --get-all a", "-l x", "--name-only a.b", "set a.b"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn only_the_first_word_names_a_subcommand() {
        assert!(matches!(parsed("list").expect("valid").action, Action::List));
        let Action::Get { query, .. } = parsed("--local list").expect("valid").action else {
            panic!("it reads")
        };
        assert_eq!(query.name, "list");
        assert!(matches!(parsed("get set").expect("valid").action, Action::Get { .. }));
        assert!(parsed("edit").is_err());
    }
}
