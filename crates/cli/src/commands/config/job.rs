//! The parsed command line.

use bstr::{BString, ByteSlice as _};

use super::{
    location::Location,
    options::{self, Display, Form, Forms, Mode, Request},
    url::Url,
    value::Kind,
};
use crate::term::failure::Failure;

/// One call of the command, parsed.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) location: Location,
    /// `--includes`
    pub(super) includes: Option<bool>,
    pub(super) display: Display,
    pub(super) kind: Option<Kind>,
    /// True if Git would start a pager on a terminal.
    pub(super) is_paged: bool,
    pub(super) action: Action,
}

/// The task.
#[derive(Debug)]
pub(super) enum Action {
    List,
    Get(Get),
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
    Change(Change),
    Section {
        old: BString,
        new: Option<BString>,
    },
}

/// Entries to print.
#[derive(Debug)]
pub(super) struct Get {
    pub(super) name: BString,
    /// True if `name` is a regular expression.
    pub(super) is_regexp: bool,
    /// True if all entries are printed, not only the last one.
    pub(super) all: bool,
    pub(super) values: Values,
    pub(super) default: Option<BString>,
}

/// Entries to change.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) name: BString,
    /// `None` removes entries.
    pub(super) value: Option<BString>,
    pub(super) values: Values,
    pub(super) all: bool,
    pub(super) comment: Option<BString>,
    /// The ways to change several values, which the error message names.
    pub(super) advice: Option<&'static str>,
}

/// The selected values.
#[derive(Debug)]
pub(super) enum Values {
    All,
    None,
    Exactly(BString),
    /// A regular expression; `!` negates it.
    Matching(BString),
}

impl Values {
    fn new(pattern: Option<BString>, is_fixed: bool) -> Values {
        match pattern {
            None => Values::All,
            Some(value) if is_fixed => Values::Exactly(value),
            Some(pattern) => Values::Matching(pattern),
        }
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
        Ok(Job { location, includes, display, kind, is_paged, action })
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
    let comment = request.comment.take().map(|text| options::comment(text.as_ref())).transpose()?;
    let change = |name, value, values, all| {
        Action::Change(Change { name, value, values, all, comment: comment.clone(), advice: None })
    };
    Ok(match mode {
        Some(Mode::List) => {
            let [] = words::<0, 0>(given)?;
            Action::List
        }
        Some(Mode::Get | Mode::GetAll | Mode::GetRegexp) => {
            let [name, pattern] = words::<1, 2>(given)?;
            Action::Get(Get {
                name: name.unwrap_or_default(),
                is_regexp: mode == Some(Mode::GetRegexp),
                all: !is_get,
                values: Values::new(pattern, fixed),
                default: request.default.take(),
            })
        }
        None => {
            let [name, value, pattern] = words::<2, 3>(given)?;
            let advice = pattern.is_none().then_some("Use a regexp, --add or --replace-all");
            let values = Values::new(pattern, fixed);
            let (name, all) = (name.unwrap_or_default(), false);
            Action::Change(Change { name, value, values, all, comment, advice })
        }
        Some(Mode::Add) => {
            let [name, value] = words::<2, 2>(given)?;
            change(name.unwrap_or_default(), value, Values::None, false)
        }
        Some(Mode::ReplaceAll) => {
            let [name, value, pattern] = words::<2, 3>(given)?;
            change(name.unwrap_or_default(), value, Values::new(pattern, fixed), true)
        }
        Some(Mode::Unset | Mode::UnsetAll) => {
            let [name, pattern] = words::<1, 2>(given)?;
            change(name.unwrap_or_default(), None, Values::new(pattern, fixed), mode == Some(Mode::UnsetAll))
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
    Ok(Action::Get(Get {
        name,
        is_regexp: request.regexp,
        all: request.all,
        values: Values::new(pattern, request.fixed_value),
        default: request.default.take(),
    }))
}

fn for_url(request: &mut Request, name: BString, url: BString) -> Result<Action, Failure> {
    let url = Url::parse(url.as_ref(), false).ok().flatten().ok_or_else(|| wrong("such a URL"))?;
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
    Ok(Action::Change(Change {
        name: name.unwrap_or_default(),
        value,
        values: if request.append { Values::None } else { Values::new(pattern, request.fixed_value) },
        all: request.all,
        comment: request.comment.take().map(|text| options::comment(text.as_ref())).transpose()?,
        advice: is_plain.then_some("Use --value=<pattern>, --append or --all"),
    }))
}

fn unset(request: &mut Request, given: Vec<BString>) -> Result<Action, Failure> {
    let [name] = words::<1, 1>(given)?;
    let pattern = request.value.take();
    if request.fixed_value && pattern.is_none() {
        return Err(wrong("options that do not go together"));
    }
    Ok(Action::Change(Change {
        name: name.unwrap_or_default(),
        value: None,
        values: Values::new(pattern, request.fixed_value),
        all: request.all,
        comment: None,
        advice: None,
    }))
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
        assert!(matches!(parsed("a.b").expect("valid").action, Action::Get(Get { all: false, .. })));
        let Action::Change(change) = parsed("a.b c").expect("valid").action else { panic!("it changes") };
        assert!(change.advice.is_some() && !change.all);
        let Action::Change(change) = parsed("a.b --c ^d").expect("valid").action else {
            panic!("it changes")
        };
        assert!(matches!(change.values, Values::Matching(_)) && change.value == Some("--c".into()));
        for line in ["a.b=c", "a b c d", "--get", "--get --get-all a", "-l x", "--name-only a.b", "set a.b"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }

    #[test]
    fn only_the_first_word_names_a_subcommand() {
        assert!(matches!(parsed("list").expect("valid").action, Action::List));
        let Action::Get(get) = parsed("--local list").expect("valid").action else { panic!("it reads") };
        assert_eq!(get.name, "list");
        assert!(matches!(parsed("get set").expect("valid").action, Action::Get(_)));
        assert!(parsed("edit").is_err());
    }
}
