//! "Your branch is up to date with 'origin/main'." and similar reports.

use bstr::{BStr, BString};
use repo::{Repository, keys};
pub(crate) use sapwood::tracking::AheadBehind;
use sapwood::tracking::{Followed, Relation, Tracking, compare};

use crate::{
    session::settings::Settings,
    term::{
        console::{self, text},
        failure::Failure,
    },
};

/// Prints the report on a branch (full name) on standard output, if it has a counterpart.
pub(crate) fn report(repo: &Repository, settings: &Settings, branch: &BStr) -> Result<(), Failure> {
    let tracking = compare(repo, branch, AheadBehind::Full)?;
    tracking.warnings.iter().for_each(console::warning);
    lines(&tracking, settings.advises(repo, keys::advice::STATUS_HINTS)?).iter().for_each(console::out);
    Ok(())
}

/// Returns the report, in lines.
pub(crate) fn lines(tracking: &Tracking, hints: bool) -> Vec<BString> {
    let mut lines: Vec<BString> = Vec::new();
    for followed in &tracking.followed {
        let Followed { short, is_upstream, is_push, relation } = followed;
        let hint = |wanted: bool, line: &str| (hints && wanted).then(|| format!("  (use \"{line})").into());
        if *relation != Relation::Gone && !lines.is_empty() {
            lines.push(BString::default());
        }
        match *relation {
            Relation::Gone if *is_upstream => {
                lines.push(text!("Your branch is based on '", short, "', but the upstream is gone."));
                lines.extend(hint(true, "git branch --unset-upstream\" to fixup"));
            }
            Relation::Gone => {}
            Relation::Same => lines.push(text!("Your branch is up to date with '", short, "'.")),
            Relation::Different => {
                lines.push(text!("Your branch and '", short, "' refer to different commits."));
                lines.extend(hint(*is_push, "git status --ahead-behind\" for details"));
            }
            Relation::Diverged(ahead, 0) => {
                lines.push(text!("Your branch is ahead of '", short, "' by ", commits(ahead), "."));
                lines.extend(hint(*is_push, "git push\" to publish your local commits"));
            }
            Relation::Diverged(0, behind) => {
                let by = commits(behind);
                let line =
                    text!("Your branch is behind '", short, "' by ", by, ", and can be fast-forwarded.");
                lines.push(line);
                lines.extend(hint(*is_upstream, "git pull\" to update your local branch"));
            }
            Relation::Diverged(ahead, behind) => {
                lines.push(text!("Your branch and '", short, "' have diverged,"));
                let each = format!("and have {ahead} and {behind} different commits each, respectively.");
                lines.push(each.into());
                let advice = "git pull\" if you want to integrate the remote branch with yours";
                lines.extend(hint(*is_upstream, advice));
            }
        }
    }
    lines
}

fn commits(number: usize) -> String {
    format!("{number} commit{}", if number == 1 { "" } else { "s" })
}
