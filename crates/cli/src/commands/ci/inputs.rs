//! The inputs of an action, as GitHub's runner passes them: variables `INPUT_<NAME>`.

use bstr::{BString, ByteSlice as _};

use crate::{session::invocation::Invocation, term::console::text, term::failure::Failure};

/// How an input becomes an option.
enum Form {
    /// The value follows the option.
    Text(&'static str),
    /// Each line is a value of its own.
    Lines(&'static str),
    /// `true` or `false`.
    Flag(&'static str),
    /// The name of the variable is the value: it holds a secret.
    Name(&'static str),
    /// `false` is the option. `true` is what a runner does without one.
    Off(&'static str),
}

/// The inputs of actions/checkout, with those of sapwood at the end.
const INPUTS: &[(&str, Form)] = &[
    ("INPUT_REPOSITORY", Form::Text("--repository")),
    ("INPUT_GITHUB-SERVER-URL", Form::Text("--server")),
    ("INPUT_REF", Form::Text("--ref")),
    ("INPUT_TOKEN", Form::Name("--token-env")),
    ("INPUT_SSH-KEY", Form::Name("--ssh-key-env")),
    ("INPUT_SSH-KNOWN-HOSTS", Form::Name("--ssh-known-hosts-env")),
    ("INPUT_SSH-USER", Form::Text("--ssh-user")),
    ("INPUT_SSH-KEY-FILE", Form::Text("--ssh-key")),
    ("INPUT_SSH-KNOWN-HOSTS-FILE", Form::Text("--ssh-known-hosts")),
    ("INPUT_SSH-STRICT", Form::Flag("--ssh-strict")),
    ("INPUT_PERSIST-CREDENTIALS", Form::Flag("--persist-credentials")),
    ("INPUT_PATH", Form::Text("--path")),
    ("INPUT_CLEAN", Form::Off("--no-clean")),
    ("INPUT_FILTER", Form::Text("--filter")),
    ("INPUT_SPARSE-CHECKOUT", Form::Lines("--sparse")),
    ("INPUT_SPARSE-CHECKOUT-CONE-MODE", Form::Flag("--cone")),
    ("INPUT_FETCH-DEPTH", Form::Text("--depth")),
    ("INPUT_FETCH-TAGS", Form::Flag("--tags")),
    ("INPUT_SHOW-PROGRESS", Form::Flag("--progress")),
    ("INPUT_LFS", Form::Flag("--lfs")),
    ("INPUT_SUBMODULES", Form::Text("--submodules")),
    ("INPUT_SET-SAFE-DIRECTORY", Form::Flag("--set-safe-directory")),
    ("INPUT_BASE", Form::Text("--base")),
    ("INPUT_BASE-DIR", Form::Text("--base-dir")),
];

/// Returns the inputs that are not empty as arguments of `ci checkout`. A name may be written with
/// `_` in the place of `-`, because a shell can only set such a variable.
pub(super) fn arguments(run: &Invocation) -> Result<Vec<BString>, Failure> {
    let mut all = Vec::new();
    for (name, form) in INPUTS {
        let plain = name.replace('-', "_");
        let names = [*name, &plain];
        let Some((name, value)) = names.iter().find_map(|name| Some((*name, run.variable(name)?))) else {
            continue;
        };
        let value = value.trim();
        if value.is_empty() {
            continue;
        }
        let is_on = || match value {
            b"true" | b"True" | b"TRUE" => Ok(true),
            b"false" | b"False" | b"FALSE" => Ok(false),
            _ => Err(Failure::fatal(text!("the input ", name, " is neither true nor false"))),
        };
        match form {
            Form::Text(option) => all.push(text!(option, "=", value)),
            Form::Lines(option) => {
                let lines = value.lines().map(<[u8]>::trim).filter(|line| !line.is_empty());
                all.extend(lines.map(|line| text!(option, "=", line)));
            }
            Form::Flag(option) if is_on()? => all.push((*option).into()),
            Form::Flag(option) => all.push(text!("--no-", option.trim_start_matches('-'))),
            Form::Off(option) if !is_on()? => all.push((*option).into()),
            Form::Off(_) => {}
            Form::Name(option) => all.push(text!(option, "=", name)),
        }
    }
    Ok(all)
}
