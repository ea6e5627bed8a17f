//! `version`: the release, the commit, and how the program was built.

use bstr::BString;

use crate::{
    commands::record::Command,
    session::invocation::Invocation,
    term::{console, failure::Failure},
};

pub(super) const COMMAND: Command = Command { name: "version", run, ..Command::BASE };

/// Empty if the build did not know it.
const COMMIT: &str = env!("SAPWOOD_COMMIT");

/// The parts of the program that not every build has.
const FEATURES: &[(&str, bool)] =
    &[("static", cfg!(target_feature = "crt-static")), ("debug-assertions", cfg!(debug_assertions))];

fn run(_: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    console::out(first_line());
    if args.iter().any(|arg| arg == "--build-options") {
        let commit = if COMMIT.is_empty() { "unknown" } else { COMMIT };
        let features: Vec<&str> = features().collect();
        let features = if features.is_empty() { "none".to_owned() } else { features.join(" ") };
        console::out(format!("commit: {commit}\ntarget: {}\nfeatures: {features}", env!("SAPWOOD_TARGET")));
    }
    Ok(0)
}

fn features() -> impl Iterator<Item = &'static str> {
    FEATURES.iter().filter(|(_, present)| *present).map(|(name, _)| *name)
}

/// Returns the version; in parentheses the beginning of the commit, the target and the features.
fn first_line() -> String {
    let commit = COMMIT.get(..12).unwrap_or(COMMIT);
    let known = [commit, env!("SAPWOOD_TARGET")].into_iter().filter(|word| !word.is_empty());
    let words: Vec<&str> = known.chain(features()).collect();
    format!("sapwood version {} ({})", env!("CARGO_PKG_VERSION"), words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_begins_with_the_version() {
        let line = first_line();
        let version = concat!("sapwood version ", env!("CARGO_PKG_VERSION"), " (");
        assert!(line.starts_with(version) && line.ends_with(')'), "{line}");
        assert!(line.contains(env!("SAPWOOD_TARGET")), "{line}");
    }
}
