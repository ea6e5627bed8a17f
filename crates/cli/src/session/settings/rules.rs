//! Rules for settings and variables, as data in the records of commands.

use bstr::{BStr, ByteSlice as _};
use repo::Env;

use super::config::Config;
use crate::term::failure::Failure;

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

/// A setting (one `*` matches any text), and the values that are an obstacle.
pub(crate) type Setting = (&'static str, When);

/// An environment variable, and the values that are an obstacle. An empty value counts as unset.
pub(crate) type Variable = (&'static str, When);

/// Settings and variables that would change the result of a command, and that sapwood does not
/// serve, by whatever name it was called: the shim hands the command over, `sapwood` refuses it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unserved {
    pub(crate) settings: &'static [Setting],
    pub(crate) variables: &'static [Variable],
}

impl Unserved {
    pub(crate) const NOTHING: Unserved = Unserved { settings: &[], variables: &[] };

    /// Returns an error that names the first setting in `config` that is not served.
    pub(crate) fn check_settings(&self, config: &dyn Config) -> Result<(), Failure> {
        if self.settings.is_empty() {
            return Ok(());
        }
        for name in config.names() {
            let text = name.to_str_lossy();
            let rule = self.settings.iter().find(|(pattern, _)| matches(pattern, &name));
            let value = || config.value(&text);
            let applies =
                |when: When| value().is_some_and(|value| when.applies(value.as_ref().map(|it| it.as_bstr())));
            if let Some((pattern, when)) = rule
                && applies(*when)
            {
                let shown = if pattern.contains('*') { &text } else { *pattern };
                return Err(Failure::unsupported(shown));
            }
        }
        Ok(())
    }

    /// Returns an error that names the first variable in `env` that is not served.
    pub(crate) fn check_variables(&self, env: &Env) -> Result<(), Failure> {
        let mut given = self.variables.iter().filter(|(name, when)| is_obstacle(env, name, *when));
        given.next().map_or(Ok(()), |(name, _)| Err(Failure::unsupported(name)))
    }
}

/// Variables that replace files of a repository, so that any command in one would work with other
/// commits or refs than Git does.
pub(crate) const IN_REPOSITORIES: Unserved = Unserved {
    settings: &[],
    variables: &[
        ("GIT_GRAFT_FILE", When::Set),
        ("GIT_REFERENCE_BACKEND", When::Set),
        ("GIT_SHALLOW_FILE", When::Set),
    ],
};

/// Returns true if the variable `name` has a value that is an obstacle.
pub(crate) fn is_obstacle(env: &Env, name: &str, when: When) -> bool {
    let value = env.get(std::ffi::OsStr::new(name)).filter(|value| !value.is_empty());
    value.is_some_and(|value| when.applies(Some(value.as_encoded_bytes().as_bstr())))
}

/// Returns true if a setting's name, in lower case, matches a rule's pattern.
pub(crate) fn matches(pattern: &str, name: &[u8]) -> bool {
    match pattern.split_once('*') {
        Some((start, end)) => {
            name.len() >= start.len() + end.len()
                && name[..start.len()].eq_ignore_ascii_case(start.as_bytes())
                && name[name.len() - end.len()..].eq_ignore_ascii_case(end.as_bytes())
        }
        None => pattern.as_bytes().eq_ignore_ascii_case(name),
    }
}

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

    #[test]
    fn a_star_stands_for_anything() {
        assert!(matches("hook.*", b"hook.x.command"));
        assert!(matches("filter.*.process", b"filter.lfs.process"));
        assert!(!matches("filter.*.process", b"filter.process"));
        assert!(matches("color.advice*", b"color.advice"));
        assert!(!matches("attr.tree", b"attr.tree2"));
        assert!(matches("core.ignoreCase", b"core.ignorecase"));
    }
}
