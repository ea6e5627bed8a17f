//! "Your branch is up to date with 'origin/main'." and its kin, on standard output.

use bstr::BStr;
use repo::Repository;

use crate::{
    console::{self, text},
    failure::Failure,
    settings::Settings,
};

/// Reports on a branch (full name), if there is something to compare it with.
pub(crate) fn report(repo: &Repository, settings: &Settings, branch: &BStr) -> Result<(), Failure> {
    let (others, warnings) = repo.compared_with(branch)?;
    for warning in warnings {
        console::warning(warning);
    }
    let hints = settings.advises(repo, "statusHints")?;
    let ours = repo.find_ref(branch)?;
    let mut reported = false;
    for other in others {
        let hint = |wanted: bool, line: &str| {
            if hints && wanted {
                console::out(format!("  (use \"{line})"));
            }
        };
        let (Some(ours), Some(theirs)) = (ours, other.oid) else {
            if other.is_upstream {
                let short = &other.short;
                console::out(text!("Your branch is based on '", short, "', but the upstream is gone."));
                hint(true, "git branch --unset-upstream\" to fixup");
                reported = true;
            }
            continue;
        };
        if reported {
            console::out("");
        }
        reported = true;
        let (ahead, behind) = match ours == theirs {
            true => (0, 0),
            false => repo.ahead_behind(ours, theirs)?,
        };
        let short = &other.short;
        let commits = |number: usize| format!("{number} commit{}", if number == 1 { "" } else { "s" });
        match (ahead, behind) {
            (0, 0) => console::out(text!("Your branch is up to date with '", short, "'.")),
            (_, 0) => {
                console::out(text!("Your branch is ahead of '", short, "' by ", commits(ahead), "."));
                hint(other.is_push, "git push\" to publish your local commits");
            }
            (0, _) => {
                let by = commits(behind);
                console::out(text!(
                    "Your branch is behind '",
                    short,
                    "' by ",
                    by,
                    ", and can be fast-forwarded."
                ));
                hint(other.is_upstream, "git pull\" to update your local branch");
            }
            _ => {
                console::out(text!("Your branch and '", short, "' have diverged,"));
                console::out(format!("and have {ahead} and {behind} different commits each, respectively."));
                hint(other.is_upstream, "git pull\" if you want to integrate the remote branch with yours");
            }
        }
    }
    Ok(())
}
