//! "Your branch is up to date with 'origin/main'." and similar reports.

use bstr::{BStr, BString};
use repo::Repository;

use crate::{
    session::settings::Settings,
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// How exactly two branches are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AheadBehind {
    /// Count the commits.
    Full,
    /// Only report whether the branches are equal.
    Quick,
}

/// Prints the report on a branch (full name) on standard output, if it has a counterpart.
pub(crate) fn report(repo: &Repository, settings: &Settings, branch: &BStr) -> Result<(), Failure> {
    let TrackingReport { lines, warnings } = compare(repo, settings, branch, AheadBehind::Full)?;
    warnings.iter().for_each(console::warning);
    lines.iter().for_each(console::out);
    Ok(())
}

/// The report about a branch.
#[derive(Debug)]
pub(crate) struct TrackingReport {
    pub(crate) lines: Vec<BString>,
    /// Warnings about the configuration, without `warning: `.
    pub(crate) warnings: Vec<String>,
}

/// Compares a branch (full name) with its configured upstream and push branches.
pub(crate) fn compare(
    repo: &Repository,
    settings: &Settings,
    branch: &BStr,
    how: AheadBehind,
) -> Result<TrackingReport, Failure> {
    let (others, warnings) = repo.comparison_refs(branch)?;
    let hints = settings.advises(repo, "statusHints")?;
    let ours = repo.find_ref(branch)?;
    let mut lines: Vec<BString> = Vec::new();
    for other in others {
        let hint = |wanted: bool, line: &str| (hints && wanted).then(|| format!("  (use \"{line})").into());
        let (Some(ours), Some(theirs)) = (ours, other.oid) else {
            if other.is_upstream {
                let short = &other.short;
                lines.push(text!("Your branch is based on '", short, "', but the upstream is gone."));
                lines.extend(hint(true, "git branch --unset-upstream\" to fixup"));
            }
            continue;
        };
        if !lines.is_empty() {
            lines.push(BString::default());
        }
        let short = &other.short;
        if ours == theirs {
            lines.push(text!("Your branch is up to date with '", short, "'."));
            continue;
        }
        if how == AheadBehind::Quick {
            lines.push(text!("Your branch and '", short, "' refer to different commits."));
            lines.extend(hint(other.is_push, "git status --ahead-behind\" for details"));
            continue;
        }
        let (ahead, behind) = repo.ahead_behind(ours, theirs)?;
        let commits = |number: usize| format!("{number} commit{}", if number == 1 { "" } else { "s" });
        match (ahead, behind) {
            (_, 0) => {
                lines.push(text!("Your branch is ahead of '", short, "' by ", commits(ahead), "."));
                lines.extend(hint(other.is_push, "git push\" to publish your local commits"));
            }
            (0, _) => {
                let by = commits(behind);
                let line =
                    text!("Your branch is behind '", short, "' by ", by, ", and can be fast-forwarded.");
                lines.push(line);
                lines.extend(hint(other.is_upstream, "git pull\" to update your local branch"));
            }
            _ => {
                lines.push(text!("Your branch and '", short, "' have diverged,"));
                let each = format!("and have {ahead} and {behind} different commits each, respectively.");
                lines.push(each.into());
                let advice = "git pull\" if you want to integrate the remote branch with yours";
                lines.extend(hint(other.is_upstream, advice));
            }
        }
    }
    Ok(TrackingReport { lines, warnings })
}
