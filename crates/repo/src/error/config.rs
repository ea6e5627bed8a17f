//! Errors of configuration.

use std::path::{Path, PathBuf};

use bstr::BString;

/// A setting, or a line of a configuration file, is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A line does not follow the grammar, or its value cannot be used.
    #[error("bad config line {line} in file {file}")]
    Line {
        /// The number of the line, from 1.
        line: usize,
        /// The file, as messages name it.
        file: PathBuf,
    },
    /// A value of the command line cannot be used.
    #[error("unable to parse command-line config")]
    CommandLine,
    /// The value of a setting cannot be used.
    #[error("{}", bad_variable(.key, .place.as_ref()))]
    Variable {
        /// The name of the setting.
        key: BString,
        /// The file and the line; `None` for the command line.
        place: Option<(PathBuf, usize)>,
    },
    /// A boolean setting has another value.
    #[error("bad boolean config value '{value}' for '{key}'")]
    Boolean {
        /// The name of the setting.
        key: BString,
        /// Its value.
        value: BString,
    },
    /// A numeric setting has another value.
    #[error("bad numeric config value '{value}' for '{key}'{}: {reason}", in_file(.file.as_deref()))]
    Number {
        /// The name of the setting.
        key: BString,
        /// Its value.
        value: BString,
        /// The file; `None` for the command line.
        file: Option<PathBuf>,
        /// Git's reason.
        reason: &'static str,
    },
    /// A setting has no value.
    #[error("missing value for '{0}'")]
    MissingValue(BString),
    /// The home directory in a path cannot be found.
    #[error("failed to expand user dir in: '{0}'")]
    HomeDirectory(BString),
    /// The home directory in an `include.path` cannot be found.
    #[error("could not expand include path '{0}'")]
    IncludePath(BString),
    /// A relative `include.path` is not in a file.
    #[error("relative config includes must come from files")]
    RelativeInclude,
    /// A relative `gitdir:` condition is not in a file.
    #[error("relative config include conditionals must come from files")]
    RelativeCondition,
    /// A file that is included on a `hasconfig` condition sets the URL of a remote.
    #[error(
        "remote URLs cannot be configured in file directly or indirectly included by \
         includeIf.hasconfig:remote.*.url"
    )]
    RemoteUrl,
    /// Includes are nested too deeply.
    #[error(
        "exceeded maximum include depth ({}) while including\n\t{path}\nfrom\n\t{}\n\
         This might be due to circular includes.",
        .limit, includer(.from.as_deref())
    )]
    IncludeDepth {
        /// The limit.
        limit: usize,
        /// The included file.
        path: PathBuf,
        /// The including file; `None` for the command line.
        from: Option<PathBuf>,
    },
    /// `core.abbrev` is out of range.
    #[error("abbrev length out of range: {0}")]
    Abbreviation(i32),
    /// `attr.tree` or `GIT_ATTR_SOURCE` is set.
    #[error("attributes from a tree ({0}) are not supported")]
    AttributesFromTree(&'static str),
    /// A date is malformed.
    #[error("invalid date format: {0}")]
    Date(BString),
    /// A boolean environment variable has another value.
    #[error("bad boolean environment value '{value}' for '{name}'")]
    EnvironmentBoolean {
        /// The name of the variable.
        name: String,
        /// Its value.
        value: BString,
    },
    /// `GIT_CONFIG_COUNT` is not a number.
    #[error("bogus count in GIT_CONFIG_COUNT")]
    EnvironmentCount,
    /// `GIT_CONFIG_COUNT` is too large.
    #[error("too many entries in GIT_CONFIG_COUNT")]
    EnvironmentTooMany,
    /// `GIT_CONFIG_KEY_<n>` or `GIT_CONFIG_VALUE_<n>` is not set.
    #[error("missing config {part} {name}")]
    EnvironmentMissing {
        /// `key` or `value`.
        part: &'static str,
        /// The name of the variable.
        name: String,
    },
    /// `GIT_CONFIG_PARAMETERS` is malformed.
    #[error("bogus format in GIT_CONFIG_PARAMETERS")]
    EnvironmentParameters,
    /// A `-c` option has no key.
    #[error("bogus config parameter: {0}")]
    Parameter(BString),
    /// A key of the command line is malformed.
    #[error("{problem}: {key}")]
    Key {
        /// Git's description of the problem.
        problem: &'static str,
        /// The key.
        key: BString,
    },
}

fn bad_variable(key: &BString, place: Option<&(PathBuf, usize)>) -> String {
    match place {
        Some((file, line)) => {
            format!("bad config variable '{key}' in file '{}' at line {line}", file.display())
        }
        None => format!("unable to parse '{key}' from command-line config"),
    }
}

fn in_file(file: Option<&Path>) -> String {
    file.map(|file| format!(" in file {}", file.display())).unwrap_or_default()
}

fn includer(file: Option<&Path>) -> String {
    file.map_or_else(|| "the command line".to_owned(), |file| file.display().to_string())
}
