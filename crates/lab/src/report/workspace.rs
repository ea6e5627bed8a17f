//! The additional tables for workspaces: other backends and peers, and bytes.

use super::{
    page::{Column, column},
    section::{Section, Unit},
    text,
};
use crate::record::{Case, Figure, Kind, Sample};

/// The tools that have no column in the usual table.
const OTHERS: [(&str, &str); 9] = [
    ("overlay", "overlay"),
    ("overlay-user", "overlay-user"),
    ("fuse", "fuse"),
    ("btrfs", "btrfs"),
    ("reflink", "reflink"),
    ("copy", "copy"),
    ("plain", "sapwood, plain worktree"),
    ("cp", "cp --reflink"),
    ("unionfs", "unionfs-fuse"),
];
/// The tools of the article's table.
const ARTICLE: [(&str, &str); 10] = [
    ("git", "git, plain worktree"),
    ("sapwood", "sapwood, plain worktree"),
    ("unionfs", "git, unionfs-fuse"),
    ("unionfs-assumed", "the same, assume unchanged"),
    ("adopted-git", "git, unionfs-fuse adopted"),
    ("adopted", "sapwood, unionfs-fuse adopted"),
    ("overlay-git", "git, overlay"),
    ("overlay", "sapwood, overlay"),
    ("image-git", "git, image"),
    ("image", "sapwood, image"),
];

/// A value that is in some samples only.
type Number = fn(&Sample) -> Option<i64>;

/// Returns the titles and columns of the additional tables.
pub(super) fn tables(section: &Section, cases: &[&Case]) -> Vec<(&'static str, Vec<Column>)> {
    match section.kind {
        Kind::Workspace => vec![
            ("Other backends, and peers (medians):", others(section.unit, cases)),
            (
                "Bytes on disk that a step adds, in MB (medians):",
                bytes(cases, &is_spacious, |sample| sample.disk),
            ),
            (
                "Bytes that a step adds to the page cache, in MB (medians):",
                bytes(cases, &|_| true, |sample| sample.cached),
            ),
        ],
        Kind::Life => vec![("Other backends (medians):", others(section.unit, cases))],
        Kind::Agents => vec![
            ("Bytes on disk, in MB (medians):", bytes(cases, &|_| true, |sample| sample.disk)),
            ("Calls that were repeated because of a lock or a branch that moved (medians):", waits(cases)),
        ],
        Kind::Article => vec![
            ("Calls of `lstat` and its relatives:", calls(cases, |sample| sample.stats)),
            ("Calls of `open` and its relatives:", calls(cases, |sample| sample.opens)),
        ],
        _ => Vec::new(),
    }
}

fn names(cases: &[&Case]) -> Column {
    column("case", cases, |case| Some(self::case(&case.case)))
}

fn others(unit: Unit, cases: &[&Case]) -> Vec<Column> {
    let is_shown = |case: &&&Case| OTHERS.iter().any(|(tool, _)| case.tool(tool).is_some());
    let cases: Vec<&Case> = cases.iter().filter(is_shown).copied().collect();
    let time = |case: &Case, tool| Some(text::time(case.tool(tool)?.wall()?.median, unit));
    let tools = OTHERS.iter().map(|&(tool, head)| column(head, &cases, |case| time(case, tool)));
    std::iter::once(names(&cases)).chain(tools).collect()
}

/// Returns true if the table of bytes shows this case.
fn is_spacious(case: &str) -> bool {
    let steps = ["base-", "create", "rebase-", "git-switch-old", "switch-old", "edit-10"];
    steps.iter().any(|step| case.starts_with(step)) || case.ends_with("status-first")
}

fn bytes(cases: &[&Case], is_shown: &dyn Fn(&str) -> bool, of: Number) -> Vec<Column> {
    let has = |case: &&&Case| case.tools.iter().any(|figure| figure.median_of(of).is_some());
    let cases: Vec<&Case> = cases.iter().filter(|case| is_shown(&case.case)).filter(has).copied().collect();
    let own = [("sapwood", "sapwood"), ("git", "git")];
    let tools = own.into_iter().chain(OTHERS).map(|(tool, head)| {
        column(head, &cases, |case| {
            let figure = if tool == "git" { case.best_of_git() } else { case.tool(tool) };
            figure?.median_of(of).map(text::megabytes)
        })
    });
    std::iter::once(names(&cases)).chain(tools).collect()
}

fn waits(cases: &[&Case]) -> Vec<Column> {
    let of = |sample: &Sample| sample.waits.and_then(|waits| i64::try_from(waits).ok());
    let text = |figure: Option<&Figure>| Some(text::count(figure?.median_of(of)? as usize));
    vec![
        column("case", cases, |case| Some(text::case(Kind::Agents, &case.case))),
        column("sapwood", cases, |case| text(case.tool("sapwood"))),
        column("git", cases, |case| text(case.best_of_git())),
    ]
}

/// Returns the columns of the article's table of times.
pub(super) fn article(unit: Unit, cases: &[&Case]) -> Vec<Column> {
    let cases: Vec<&Case> = cases.iter().filter(|case| case.case != "calls").copied().collect();
    let time = |case: &Case, tool: &str| Some(text::spread(case.tool(tool)?.wall()?, unit));
    of_article(&cases, time)
}

fn calls(cases: &[&Case], of: Number) -> Vec<Column> {
    let cases: Vec<&Case> = cases.iter().filter(|case| case.case == "calls").copied().collect();
    of_article(&cases, |case, tool| Some(text::count(case.tool(tool)?.median_of(of)? as usize)))
}

fn of_article(cases: &[&Case], cell: impl Fn(&Case, &str) -> Option<String>) -> Vec<Column> {
    let place = |case: &Case| {
        let base = if case.disk == "nfs" { "base on nfs" } else { "local base" };
        Some(if case.case == "calls" { base.to_owned() } else { format!("{base}, {} caches", case.case) })
    };
    let tools = ARTICLE.iter().map(|&(tool, head)| column(head, cases, |case| cell(case, tool)));
    std::iter::once(column("case", cases, place)).chain(tools).collect()
}

/// Returns the text for a case.
pub(super) fn case(case: &str) -> String {
    let (by, rest) = match case.strip_prefix("git-") {
        Some(rest) => ("git", rest),
        None => ("sapwood", case),
    };
    if let Some(changes) = rest.strip_prefix("status-") {
        let (changes, first) = match changes.strip_suffix("-first") {
            Some(changes) => (changes, ", the first one"),
            None => (changes, ""),
        };
        let after = match changes {
            "0" => String::new(),
            "first" => " in a new worktree".into(),
            "built" => " after the build".into(),
            number => format!(", {} changes", text::number_of(number)),
        };
        return format!("`{by} status`{after}{first}");
    }
    let (name, what) = rest.split_once('-').unwrap_or((rest, ""));
    let commit = if what == "old" {
        "the old commit".into()
    } else {
        format!("a commit {} files away", text::number_of(what))
    };
    match (name, what) {
        ("base", "first") => "first base".into(),
        ("base", _) => format!("base of {commit}"),
        ("switch", _) => format!("`{by} switch` to {commit}"),
        ("rebase", _) => format!("`workspace rebase` to {commit}"),
        ("create" | "remove", "") => name.to_owned(),
        ("create" | "remove", "50") => format!("{name} fifty in turn"),
        ("create" | "remove", "50-at-once") => format!("{name} fifty at once"),
        ("create", "other-first") => "first one of another user or umask".into(),
        ("create", "other") => "create for another user or umask".into(),
        ("remove", "other-user") => "remove for another user or umask".into(),
        ("remove", "built") => "remove after the build".into(),
        ("remove", _) => "remove with other changes".into(),
        ("edit", number) => format!("edit {} files", text::number_of(number)),
        ("build", number) => format!("write {} ignored files", text::number_of(number)),
        ("grep", "second") => "`grep -r` in a second worktree".into(),
        ("grep", caches) => format!("`grep -r`, {caches} caches"),
        _ => case.to_owned(),
    }
}

/// Returns the text for a step of `lab life`.
pub(super) fn step(step: &str) -> String {
    let (name, number) = step.split_once('-').unwrap_or((step, ""));
    let number = || text::number_of(number);
    match (name, step) {
        (_, "first") => "first worktree of the repository, and its status".into(),
        (_, "status-built-first") => "status after the build, the first one".into(),
        (_, "status-built") => "status after the build".into(),
        ("status", _) => format!("status, {} changes", number()),
        ("append", _) => format!("append to {} files", number()),
        ("replace", _) => format!("replace {} files by rename", number()),
        (_, "commit") => "`commit -a` of them".into(),
        (_, "build") => "write 20,000 ignored files".into(),
        (_, "git-grep") => "`git grep`, warm".into(),
        (_, "lstat") => "`lstat` of all regular files".into(),
        ("read", _) => format!("read {} files", number()),
        ("restore", _) => format!("`restore` {} files", number()),
        ("stash", _) => format!("`stash` and `stash pop` of {} files", number()),
        (_, "reset") => "`reset --hard`".into(),
        (_, "clean") => "delete the ignored files".into(),
        (_, "rebase-old") => "`switch` to the old commit; `workspace rebase` in a workspace".into(),
        (_, "switch-new") => "`switch` back to the new commit".into(),
        (_, "all") => "all steps but the first worktree".into(),
        _ => step.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn steps_of_a_day_have_names() {
        for (step, name) in [
            ("append-2000", "append to 2,000 files"),
            ("status-4000", "status, 4,000 changes"),
            ("status-built", "status after the build"),
            ("find", "find"),
        ] {
            assert_eq!(super::step(step), name);
        }
    }

    #[test]
    fn cases_have_names() {
        for (case, name) in [
            ("base-first", "first base"),
            ("base-100", "base of a commit 100 files away"),
            ("base-old", "base of the old commit"),
            ("status-0", "`sapwood status`"),
            ("git-status-first", "`git status` in a new worktree"),
            ("status-10000-first", "`sapwood status`, 10,000 changes, the first one"),
            ("git-status-built", "`git status` after the build"),
            ("git-switch-old", "`git switch` to the old commit"),
            ("rebase-100", "`workspace rebase` to a commit 100 files away"),
            ("create-50-at-once", "create fifty at once"),
            ("remove", "remove"),
            ("create-other-first", "first one of another user or umask"),
            ("remove-other", "remove with other changes"),
            ("edit-10", "edit 10 files"),
            ("build-20000", "write 20,000 ignored files"),
            ("grep-second", "`grep -r` in a second worktree"),
        ] {
            assert_eq!(super::case(case), name);
        }
    }
}
