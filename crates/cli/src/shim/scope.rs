//! What is native, as far as the command line tells: for each command the options that sapwood has in
//! full. What is not in the table is the real Git's, so is a command line that is wrong: Git says so
//! in its own words.

use bstr::{BStr, BString, ByteSlice as _};

use super::Reason;
use crate::{
    args::{Given, Survey},
    cmd::{check_attr, checkout::is_conflict_style},
    recursion,
};

/// An option, and which of its forms are native.
#[derive(Clone, Copy, Debug)]
pub(super) struct Native {
    /// As [`crate::args::Given::name`] has it.
    pub(super) option: &'static str,
    on: bool,
    off: bool,
}

const fn both(option: &'static str) -> Native {
    Native { option, on: true, off: true }
}

/// Without its `--no-` form.
const fn on(option: &'static str) -> Native {
    Native { option, on: true, off: false }
}

/// Only its `--no-` form.
const fn off(option: &'static str) -> Native {
    Native { option, on: false, off: true }
}

impl Native {
    /// As one would write it: `--quiet`, `--[no-]guess`, `--no-merge`.
    pub(super) fn spelt(&self) -> String {
        match (self.option.strip_prefix("--"), self.on) {
            (Some(long), false) => format!("--no-{long}"),
            _ => self.option.to_owned(),
        }
    }
}

/// What the first argument before `--` may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum First {
    /// A revision, or a path.
    Revision,
    /// A path, always.
    Path,
    /// A repository.
    Repository,
    /// A worktree, or where one is to be.
    Worktree,
}

/// A command, and what of it is native.
#[derive(Debug)]
pub(super) struct Scope {
    /// Its name, and after a space that of a subcommand.
    pub(super) command: &'static str,
    pub(super) options: &'static [Native],
    pub(super) first: First,
}

/// The options of a command that lists differences: its own, and those of all.
macro_rules! diff {
    ($($own:expr),* $(,)?) => {
        &[
            $($own,)*
            on("--raw"),
            on("--name-only"),
            on("--name-status"),
            on("--no-patch"),
            on("-z"),
            both("--abbrev"),
            on("--line-prefix"),
            on("--find-renames"),
            on("--find-copies"),
            on("--no-renames"),
            on("-l"),
            both("--relative"),
            on("-R"),
            both("--exit-code"),
            both("--quiet"),
            on("--diff-filter"),
            on("--ignore-submodules"),
            on("--ita-invisible-in-index"),
            on("--ita-visible-in-index"),
            on("-r"),
            on("-t"),
            on("--full-index"),
            on("--no-ext-diff"),
            on("--no-textconv"),
            on("--no-color"),
        ]
    };
}

/// Every command that is native in part.
pub(super) const SCOPES: &[Scope] = &[
    Scope {
        command: "check-attr",
        first: First::Path,
        options: &[both("--all"), both("--cached"), both("--stdin"), both("-z"), off("--source")],
    },
    Scope {
        command: "check-ignore",
        first: First::Path,
        options: &[
            both("--quiet"),
            both("--verbose"),
            both("--stdin"),
            both("-z"),
            both("--non-matching"),
            both("--no-index"),
        ],
    },
    Scope {
        command: "checkout",
        first: First::Revision,
        options: &[
            both("-b"),
            both("-B"),
            both("-l"),
            both("--guess"),
            both("--overlay"),
            on("--ours"),
            on("--theirs"),
            both("--quiet"),
            both("--progress"),
            both("--detach"),
            both("--track"),
            both("--force"),
            both("--orphan"),
            both("--overwrite-ignore"),
            both("--ignore-other-worktrees"),
            both("--ignore-skip-worktree-bits"),
            both("--pathspec-from-file"),
            both("--pathspec-file-nul"),
            both("--recurse-submodules"),
            both("--merge"),
            both("--conflict"),
        ],
    },
    Scope {
        command: "switch",
        first: First::Revision,
        options: &[
            both("--create"),
            both("--force-create"),
            both("--guess"),
            both("--discard-changes"),
            both("--quiet"),
            both("--progress"),
            both("--detach"),
            both("--track"),
            both("--force"),
            both("--orphan"),
            both("--overwrite-ignore"),
            both("--ignore-other-worktrees"),
            both("--recurse-submodules"),
            both("--merge"),
            both("--conflict"),
        ],
    },
    Scope {
        command: "restore",
        first: First::Path,
        options: &[
            both("--source"),
            both("--staged"),
            both("--worktree"),
            both("--ignore-unmerged"),
            both("--overlay"),
            on("--ours"),
            on("--theirs"),
            both("--quiet"),
            both("--progress"),
            both("--ignore-skip-worktree-bits"),
            both("--pathspec-from-file"),
            both("--pathspec-file-nul"),
            both("--recurse-submodules"),
            off("--merge"),
        ],
    },
    Scope {
        command: "reset",
        first: First::Revision,
        options: &[
            both("--quiet"),
            both("--no-refresh"),
            both("--mixed"),
            both("--soft"),
            both("--hard"),
            both("--merge"),
            both("--keep"),
            both("--intent-to-add"),
            both("--pathspec-from-file"),
            both("--pathspec-file-nul"),
            both("--recurse-submodules"),
        ],
    },
    Scope {
        command: "read-tree",
        first: First::Revision,
        options: &[
            on("--index-output"),
            both("--empty"),
            both("--verbose"),
            on("-m"),
            both("--trivial"),
            both("--aggressive"),
            both("--reset"),
            on("--prefix"),
            on("-u"),
            on("--exclude-per-directory"),
            on("-i"),
            both("--dry-run"),
            both("--no-sparse-checkout"),
            off("--debug-unpack"),
            both("--recurse-submodules"),
            both("--quiet"),
        ],
    },
    Scope {
        command: "checkout-index",
        first: First::Path,
        options: &[
            both("--all"),
            both("--ignore-skip-worktree-bits"),
            both("--force"),
            both("--quiet"),
            both("--no-create"),
            both("--index"),
            on("-z"),
            both("--stdin"),
            both("--temp"),
            both("--prefix"),
            on("--stage"),
        ],
    },
    Scope {
        command: "clean",
        first: First::Path,
        options: &[
            both("--quiet"),
            both("--dry-run"),
            both("--force"),
            off("--interactive"),
            on("-d"),
            on("-x"),
            on("-X"),
            on("--exclude"),
        ],
    },
    Scope {
        command: "clone",
        first: First::Repository,
        options: &[
            both("--quiet"),
            both("--verbose"),
            both("--progress"),
            both("--reject-shallow"),
            both("--no-checkout"),
            both("--bare"),
            both("--mirror"),
            both("--local"),
            both("--no-hardlinks"),
            both("--shared"),
            both("--reference"),
            both("--reference-if-able"),
            both("--dissociate"),
            both("--jobs"),
            on("--ipv4"),
            on("--ipv6"),
            both("--recurse-submodules"),
            both("--sparse"),
            both("--upload-pack"),
            both("--depth"),
            both("--shallow-since"),
            both("--shallow-exclude"),
            both("--filter"),
            both("--shallow-submodules"),
            both("--remote-submodules"),
            both("--ref-format"),
            both("--origin"),
            both("--branch"),
            both("--single-branch"),
            both("--tags"),
            both("--template"),
            both("--config"),
            both("--separate-git-dir"),
        ],
    },
    Scope {
        command: "diff-files",
        first: First::Revision,
        options: diff!(
            on("-q"),
            on("-0"),
            on("-1"),
            on("-2"),
            on("-3"),
            on("--base"),
            on("--ours"),
            on("--theirs"),
        ),
    },
    Scope {
        command: "diff-index",
        first: First::Revision,
        options: diff!(on("--cached"), on("--merge-base"), on("-m")),
    },
    Scope {
        command: "ls-files",
        first: First::Path,
        options: &[
            both("-z"),
            both("-t"),
            both("-v"),
            both("-f"),
            both("--cached"),
            both("--deleted"),
            both("--modified"),
            both("--others"),
            both("--ignored"),
            both("--stage"),
            both("--killed"),
            both("--directory"),
            both("--eol"),
            both("--empty-directory"),
            both("--unmerged"),
            both("--resolve-undo"),
            on("--exclude"),
            on("--exclude-from"),
            both("--exclude-per-directory"),
            on("--exclude-standard"),
            on("--full-name"),
            off("--recurse-submodules"),
            both("--error-unmatch"),
            both("--with-tree"),
            both("--abbrev"),
            both("--debug"),
            both("--deduplicate"),
            both("--sparse"),
            on("--format"),
        ],
    },
    Scope {
        command: "sparse-checkout add",
        first: First::Path,
        options: &[on("--skip-checks"), both("--stdin")],
    },
    Scope {
        command: "sparse-checkout check-rules",
        first: First::Path,
        options: &[both("-z"), both("--cone"), both("--rules-file")],
    },
    Scope {
        command: "sparse-checkout clean",
        first: First::Path,
        options: &[both("--dry-run"), both("--force"), both("--verbose")],
    },
    Scope { command: "sparse-checkout disable", first: First::Path, options: &[] },
    Scope {
        command: "sparse-checkout init",
        first: First::Path,
        options: &[both("--cone"), both("--sparse-index")],
    },
    Scope { command: "sparse-checkout list", first: First::Path, options: &[] },
    Scope {
        command: "sparse-checkout reapply",
        first: First::Path,
        options: &[both("--cone"), both("--sparse-index")],
    },
    Scope {
        command: "sparse-checkout set",
        first: First::Path,
        options: &[both("--cone"), both("--sparse-index"), on("--skip-checks"), on("--stdin")],
    },
    Scope {
        command: "status",
        first: First::Path,
        options: &[
            off("--verbose"),
            both("--short"),
            both("--branch"),
            both("--show-stash"),
            both("--ahead-behind"),
            both("--porcelain"),
            both("--long"),
            both("--null"),
            both("--untracked-files"),
            both("--ignored"),
            both("--ignore-submodules"),
            both("--column"),
            both("--no-renames"),
            on("--find-renames"),
        ],
    },
    Scope {
        command: "update-index",
        first: First::Path,
        options: &[
            on("-q"),
            both("--ignore-submodules"),
            both("--add"),
            both("--replace"),
            both("--remove"),
            both("--unmerged"),
            on("--refresh"),
            on("--really-refresh"),
            on("--cacheinfo"),
            on("--chmod"),
            on("--assume-unchanged"),
            on("--no-assume-unchanged"),
            on("--skip-worktree"),
            on("--no-skip-worktree"),
            both("--ignore-skip-worktree-entries"),
            both("--info-only"),
            both("--force-remove"),
            on("-z"),
            on("--stdin"),
            on("--index-info"),
            on("--unresolve"),
            on("--again"),
            both("--ignore-missing"),
            both("--verbose"),
            on("--clear-resolve-undo"),
            both("--index-version"),
            both("--show-index-version"),
            both("--split-index"),
            both("--untracked-cache"),
            both("--test-untracked-cache"),
            both("--force-untracked-cache"),
            both("--force-write-index"),
            both("--fsmonitor"),
            on("--fsmonitor-valid"),
            on("--no-fsmonitor-valid"),
        ],
    },
    Scope {
        command: "worktree add",
        first: First::Worktree,
        options: &[
            both("--force"),
            both("-b"),
            both("-B"),
            both("--orphan"),
            both("--detach"),
            both("--checkout"),
            both("--lock"),
            both("--reason"),
            both("--quiet"),
            both("--track"),
            both("--guess-remote"),
            both("--relative-paths"),
        ],
    },
    Scope {
        command: "worktree list",
        first: First::Worktree,
        options: &[both("--porcelain"), both("--verbose"), both("--expire"), on("-z")],
    },
    Scope { command: "worktree lock", first: First::Worktree, options: &[both("--reason")] },
    Scope {
        command: "worktree move",
        first: First::Worktree,
        options: &[both("--force"), both("--relative-paths")],
    },
    Scope {
        command: "worktree prune",
        first: First::Worktree,
        options: &[both("--dry-run"), both("--verbose"), both("--expire")],
    },
    Scope { command: "worktree remove", first: First::Worktree, options: &[both("--force")] },
    Scope { command: "worktree repair", first: First::Worktree, options: &[both("--relative-paths")] },
    Scope { command: "worktree unlock", first: First::Worktree, options: &[] },
];

/// The entry of a command, or of the subcommand its arguments begin with.
pub(super) fn of(command: &BStr, args: &[BString]) -> Option<&'static Scope> {
    SCOPES.iter().find(|scope| {
        let (name, subcommand) = scope.names();
        name.as_bytes() == command.as_bytes()
            && subcommand.is_none_or(|subcommand| args.first().is_some_and(|first| first == subcommand))
    })
}

impl Scope {
    /// The command's name, and the subcommand's.
    pub(super) fn names(&self) -> (&'static str, Option<&'static str>) {
        match self.command.split_once(' ') {
            Some((command, subcommand)) => (command, Some(subcommand)),
            None => (self.command, None),
        }
    }

    /// Why this command line is not native; it has been parsed without a mistake.
    pub(super) fn obstacle(&self, survey: &Survey) -> Option<Reason> {
        for given in &survey.options {
            let native = self.options.iter().find(|native| native.option == given.name);
            if !native.is_some_and(|native| if given.on { native.on } else { native.off }) {
                let name = given.name.strip_prefix("--no-").unwrap_or(given.name);
                return Some(Reason::Option(match given.on {
                    true => given.name.to_owned(),
                    false => format!("--no-{}", name.trim_start_matches('-')),
                }));
            }
        }
        if !matches!(self.command, "clone" | "ls-files") && recursion::asked(survey).is_err() {
            return Some(Reason::command_line("--recurse-submodules with what is no boolean"));
        }
        if self.command == "check-attr" && check_attr::is_mistaken(survey) {
            return Some(Reason::command_line("a wrong number of arguments"));
        }
        if self.command == "check-attr" && survey.rest.iter().any(|word| word == "builtin_objectmode") {
            return Some(Reason::command_line("an attribute that is built in"));
        }
        if self.merges_files()
            && let Some(reason) = conflicts(survey)
        {
            return Some(reason);
        }
        let binds = survey.options.iter().any(|given| given.name == "--prefix");
        if binds && self.command == "read-tree" && survey.rest.len() > 1 {
            return Some(Reason::command_line("'--prefix' with several trees"));
        }
        if self.first == First::Worktree && self.words(survey).any(|word| word.starts_with(b":")) {
            return Some(Reason::command_line("an argument that may look into the index"));
        }
        let by_attribute = |word: &BString| word.starts_with(b":(") && word.contains_str("attr");
        survey.rest.iter().any(by_attribute).then(|| Reason::command_line("a pathspec with attributes"))
    }

    /// Whether `--merge` means what it does for `checkout` (and not what it does for `reset`).
    fn merges_files(&self) -> bool {
        matches!(self.command, "checkout" | "switch" | "restore")
    }

    /// The one thing that is named, to be switched to with `--merge`.
    pub(super) fn merged_with<'a>(&self, survey: &'a Survey) -> Option<&'a BStr> {
        if self.merges_files() { merged_with(survey) } else { None }
    }

    /// The words that may be revisions.
    pub(super) fn words<'a>(&self, survey: &'a Survey) -> impl Iterator<Item = &'a BStr> {
        let arguments = match self.first {
            First::Revision => survey.rest.split(|word| word == "--").next().unwrap_or_default(),
            // After the path.
            First::Worktree if self.command == "worktree add" => survey.rest.get(1..).unwrap_or_default(),
            First::Path | First::Repository | First::Worktree => &[],
        };
        let named = |given: &&Given| matches!(given.name, "--source" | "--with-tree");
        let sources = survey.options.iter().filter(named);
        let sources = sources.filter_map(|given| given.value.as_ref());
        arguments.iter().chain(sources).map(|word| word.as_bstr())
    }
}

/// What of `--merge`, `--conflict`, `--ours` and `--theirs` is not native: more than a switch to what is named
/// and nothing else, and more than taking one side.
fn conflicts(survey: &Survey) -> Option<Reason> {
    const BESIDE_MERGE: &[&str] = &[
        "-b",
        "-B",
        "-l",
        "--conflict",
        "--create",
        "--detach",
        "--force-create",
        "--guess",
        "--merge",
        "--progress",
        "--quiet",
        "--track",
    ];
    let given = |name: &str| survey.options.iter().any(|given| given.name == name);
    let mut styles = survey.options.iter().filter(|given| given.name == "--conflict" && given.on);
    if styles.any(|given| !given.value.as_ref().is_some_and(|style| is_conflict_style(style))) {
        return Some(Reason::command_line("an unknown style of conflicts"));
    }
    if (given("--ours") || given("--theirs")) && given("--ignore-unmerged") {
        return Some(Reason::command_line("--ignore-unmerged with a side of conflicts"));
    }
    let merges =
        survey.options.iter().find(|given| given.on && matches!(given.name, "--merge" | "--conflict"))?;
    let beside = survey.options.iter().all(|given| BESIDE_MERGE.contains(&given.name));
    match (merged_with(survey), beside) {
        (Some(_), true) => None,
        _ => Some(Reason::Option(merges.name.to_owned())),
    }
}

/// The one thing that is named, to be switched to with `--merge`.
fn merged_with(survey: &Survey) -> Option<&BStr> {
    let merges = |given: &Given| given.on && matches!(given.name, "--merge" | "--conflict");
    match &survey.rest[..] {
        _ if !survey.options.iter().any(merges) => None,
        [name] if name != "--" => Some(name.as_bstr()),
        [name, dashes] if name != "--" && dashes == "--" => Some(name.as_bstr()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd;

    fn obstacle(line: &str) -> Option<String> {
        let mut words = line.split(' ').map(BString::from);
        let command = words.next().expect("a command");
        let args: Vec<BString> = words.collect();
        let scope = of(command.as_bstr(), &args).expect("in the table");
        let survey = cmd::survey(command.as_bstr(), &args).expect("has a table");
        scope.obstacle(&survey.expect("no mistake")).map(|reason| reason.to_string())
    }

    /// A name with a typing mistake would make an option silently not native.
    #[test]
    fn every_name_is_an_option_of_its_command() {
        for scope in SCOPES {
            for native in scope.options {
                let (command, subcommand) = scope.names();
                let words = subcommand.into_iter().chain([native.option, "value"]);
                let args: Vec<BString> = words.map(BString::from).collect();
                let survey = cmd::survey(command.into(), &args).expect("has a table");
                let survey = survey.unwrap_or_else(|stop| panic!("{} {stop:?}", scope.command));
                assert_eq!(survey.options[0].name, native.option, "{}", scope.command);
            }
        }
    }

    #[test]
    fn native_lines() {
        for line in [
            "checkout topic",
            "checkout main...topic",
            "checkout -l -b x",
            "checkout -qf -b new origin/main",
            "checkout -t origin/x --no-guess",
            "checkout HEAD~2 -- a :(glob)*.c :/b",
            "checkout --no-recurse-submodules main",
            "switch -c x -",
            "switch -m topic",
            "checkout --conflict=zdiff3 -b x topic --",
            "checkout --ours -- a",
            "restore --theirs --overlay a",
            "switch --discard-changes main",
            "restore -SW --source=HEAD~1 :/ a...b",
            "reset --hard HEAD^",
            "reset --merge HEAD^",
            "reset --merge",
            "reset -q -- a",
            "reset --refresh",
            "read-tree -m -u --aggressive --exclude-per-directory=.gitignore a b c d",
            "read-tree --prefix=a/ --index-output=x HEAD^{tree}",
            "checkout-index -a --prefix=x",
            "checkout-index -afqnu --prefix=a/ --stage=all --temp :x",
            "reset --pathspec-from-file=- --pathspec-file-nul",
            "clean -fdx -e *.o -- a",
            "clone -q --bare src dst",
            "clone --no-tags -b v1 src",
            "worktree add -ff --no-checkout ../w main~2",
            "worktree list --porcelain -z",
            "worktree prune -n --expire now",
            "diff-files -z --name-only -- a b",
            "diff-files -q -2 -M50% -l 5 a",
            "diff-files --ignore-submodules --quiet",
            "diff-index --cached --quiet --diff-filter=ACM HEAD --",
            "diff-index -C --relative=sub --abbrev=7 main~2 a",
        ] {
            assert_eq!(obstacle(line), None, "{line}");
        }
    }

    #[test]
    fn lines_for_the_real_git() {
        for (line, why) in [
            ("checkout -p", "option '--patch'"),
            ("checkout -m -- a", "option '--merge'"),
            ("checkout -m main -- a", "option '--merge'"),
            ("checkout -f -m main", "option '--merge'"),
            ("switch -m -c x", "option '--merge'"),
            ("checkout --conflict=diff3 -- a", "option '--conflict'"),
            ("checkout --conflict=nice a", "an unknown style of conflicts"),
            ("restore -m a", "option '--merge'"),
            ("restore --ours --ignore-unmerged a", "--ignore-unmerged with a side of conflicts"),
            ("checkout --dry-run x", "option '--dry-run'"),
            ("checkout -- :(attr:x)a", "a pathspec with attributes"),
            ("switch --recurse-submodules=x y", "--recurse-submodules with what is no boolean"),
            ("reset -p", "option '--patch'"),
            ("read-tree --debug-unpack a", "option '--debug-unpack'"),
            ("worktree add a :b", "an argument that may look into the index"),
            ("read-tree --prefix=x a b", "'--prefix' with several trees"),
            ("clone --bundle-uri=x a", "option '--bundle-uri'"),
            ("clone --revision=x a", "option '--revision'"),
            ("clean -id", "option '--interactive'"),
            ("worktree add ../w :x", "an argument that may look into the index"),
            ("diff-files -p", "option '--patch'"),
            ("diff-index --stat HEAD", "option '--stat'"),
            ("diff-index -m --find-copies-harder HEAD", "option '--find-copies-harder'"),
        ] {
            assert_eq!(obstacle(line).as_deref(), Some(why), "{line}");
        }
    }
}
