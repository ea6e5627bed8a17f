//! The types of values, and their forms.

use bstr::{BStr, BString};

use crate::config::{parse_bool, parse_int, parse_size};

/// Why a value has not the type of its setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadValue {
    /// It is not a boolean.
    Boolean,
    /// It is not a number, for Git's reason.
    Number(&'static str),
}

/// A type of values.
pub trait Value: Sized {
    /// The form of a valid value.
    const FORM: Form;

    /// True if the setting may be unset. All other settings have a default.
    const IS_OPTIONAL: bool = false;

    /// Parses a value; `None` is a name without `=`. Returns `None` for a value that counts as
    /// unset.
    fn parse(value: Option<&BStr>) -> Result<Option<Self>, BadValue>;

    /// Returns the value of a setting that is not set.
    fn unset(default: Option<&'static str>) -> Self {
        let parsed = Self::parse(default.map(BStr::new)).ok().flatten();
        parsed.expect("a test parses each default")
    }
}

impl Value for bool {
    const FORM: Form = Form::Bool;

    fn parse(value: Option<&BStr>) -> Result<Option<bool>, BadValue> {
        parse_bool(value).map(Some).ok_or(BadValue::Boolean)
    }
}

impl Value for i32 {
    const FORM: Form = Form::Number;

    fn parse(value: Option<&BStr>) -> Result<Option<i32>, BadValue> {
        parse_int(value.unwrap_or_default()).map(Some).map_err(BadValue::Number)
    }
}

/// A size in bytes. A negative one counts as unset.
impl Value for u64 {
    const FORM: Form = Form::Size;

    fn parse(value: Option<&BStr>) -> Result<Option<u64>, BadValue> {
        let size = parse_size(value.unwrap_or_default()).map_err(BadValue::Number)?;
        Ok(u64::try_from(size).ok())
    }
}

/// Any bytes. A name without `=` is empty.
impl Value for BString {
    const FORM: Form = Form::Text;

    fn parse(value: Option<&BStr>) -> Result<Option<BString>, BadValue> {
        Ok(Some(value.unwrap_or_default().to_owned()))
    }
}

impl<V: Value> Value for Option<V> {
    const FORM: Form = V::FORM;
    const IS_OPTIONAL: bool = true;

    fn parse(value: Option<&BStr>) -> Result<Option<Option<V>>, BadValue> {
        V::parse(value).map(Some)
    }

    fn unset(_: Option<&'static str>) -> Option<V> {
        None
    }
}

/// A path that may begin with `~`. Only a reader that knows the environment can resolve it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathText(pub BString);

impl Value for PathText {
    const FORM: Form = Form::Path;

    fn parse(value: Option<&BStr>) -> Result<Option<PathText>, BadValue> {
        Ok(BString::parse(value)?.map(PathText))
    }
}

/// The words that a setting accepts besides a boolean, in any case.
pub trait Words: Copy + 'static {
    /// The spelling of each word.
    const WORDS: &'static [&'static str];
    /// The words, in the same order.
    const ALL: &'static [Self];
}

/// A boolean, or a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoolOr<W> {
    /// A boolean.
    Bool(bool),
    /// One of the words.
    Word(W),
}

impl<W: Words> Value for BoolOr<W> {
    const FORM: Form = Form::BoolOr(W::WORDS);

    fn parse(value: Option<&BStr>) -> Result<Option<BoolOr<W>>, BadValue> {
        let is = |word: &str| value.is_some_and(|value| value.eq_ignore_ascii_case(word.as_bytes()));
        match W::WORDS.iter().position(|word| is(word)) {
            Some(at) => Ok(Some(BoolOr::Word(W::ALL[at]))),
            None => Ok(bool::parse(value)?.map(BoolOr::Bool)),
        }
    }
}

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($word:ident = $text:literal),* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum $name {
            $($word),*
        }

        impl Words for $name {
            const WORDS: &'static [&'static str] = &[$($text),*];
            const ALL: &'static [$name] = &[$($name::$word),*];
        }
    )*};
}

words! {
    /// The word of `core.autocrlf`.
    AutoCrlf { Input = "input" }
    /// The word of `core.safecrlf`.
    SafeCrlf { Warn = "warn" }
    /// The word of `core.logAllRefUpdates`.
    LogAll { Always = "always" }
}

/// The form of a valid value, as Git checks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A boolean.
    Bool,
    /// One of these words, or a boolean.
    BoolOr(&'static [&'static str]),
    /// Like `BoolOr`, but a key without a value is not a boolean.
    GivenBoolOr(&'static [&'static str]),
    /// A number.
    Number,
    /// A non-negative number.
    Count,
    /// A non-negative size.
    Size,
    /// A compression level. The word is Git's name for it.
    Level(&'static str),
    /// A minimum length of abbreviated names, or a word for one.
    Abbreviation,
    /// Any value.
    Text,
    /// A path.
    Path,
    /// At least one character.
    Character,
    /// One of these words. The text is Git's message for other values, without `error: `, in which
    /// NUL stands for the value.
    Word(&'static [&'static str], &'static str),
    /// Like `Word`, ignoring case.
    AnyCase(&'static [&'static str], &'static str),
    /// A list of `diff.wsErrorHighlight`.
    Highlight,
    /// Like `Word`, with a fatal error.
    Mode(&'static [&'static str], &'static str),
}
