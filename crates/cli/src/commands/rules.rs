//! Rules for settings and variables, as data in the records of commands.

use bstr::BStr;

/// The values with which a setting is an obstacle.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    /// No value.
    Never,
    /// Every value.
    Set,
    /// Every value but false.
    True,
    /// A value that is not a boolean.
    NotBoolean,
    /// Every value but these.
    Not(&'static [&'static str]),
}

impl When {
    /// Returns true if `value` is an obstacle. `None` is a key without `=`, which means true.
    pub(crate) fn applies(self, value: Option<&BStr>) -> bool {
        match self {
            When::Never => false,
            When::Set => true,
            When::True => repo::parse_bool(value) != Some(false),
            When::NotBoolean => repo::parse_bool(value).is_none(),
            When::Not(values) => {
                let value = value.unwrap_or_default().to_ascii_lowercase();
                !values.iter().any(|known| known.as_bytes() == value)
            }
        }
    }
}

/// A setting (lower case; one `*` matches any text), and the values that are an obstacle.
pub(crate) type Setting = (&'static str, When);

/// An environment variable, and the values that are an obstacle. An empty value counts as unset.
pub(crate) type Variable = (&'static str, When);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_no_boolean() {
        assert!(When::NotBoolean.applies(Some("nonsense".into())));
        assert!(!When::NotBoolean.applies(Some("off".into())));
        assert!(!When::NotBoolean.applies(None));
        assert!(When::True.applies(None));
    }
}
