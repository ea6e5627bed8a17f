//! What is native, as far as the command line tells: for each command the options that sapwood has in
//! full. What is not in the table is the real Git's, so is a command line that is wrong: Git says so
//! in its own words.

mod table;

use bstr::{BStr, BString, ByteSlice as _};
use engine::pathspec::{Defaults, Pathspecs};
use repo::Repository;

use super::Reason;
use crate::{
    commands::{check_attr, checkout::is_conflict_style},
    session::submodules,
    term::args::{Given, Survey},
};
pub(super) use table::SCOPES;

/// An option, and which of its forms are native.
#[derive(Clone, Copy, Debug)]
pub(super) struct Native {
    /// As [`crate::term::args::Given::name`] has it.
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

/// The entry of a command, or of the subcommand its arguments begin with.
pub(super) fn of(command: &BStr, args: &[BString]) -> Option<&'static Scope> {
    SCOPES.iter().find(|scope| {
        let (name, subcommand) = scope.names();
        name.as_bytes() == command.as_bytes()
            && subcommand.is_none_or(|subcommand| args.first().is_some_and(|first| first == subcommand))
    })
}

/// Whose pathspecs may ask for attributes.
const ASKS_ATTRIBUTES: &[&str] = &[
    "checkout",
    "clean",
    "diff-files",
    "diff-index",
    "ls-files",
    "reset",
    "restore",
    "status",
    "update-index",
];

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
        if !matches!(self.command, "clone" | "ls-files") && submodules::asked(survey).is_err() {
            return Some(Reason::command_line("--recurse-submodules with what is no boolean"));
        }
        if self.command == "check-attr" && check_attr::is_mistaken(survey) {
            return Some(Reason::command_line("a wrong number of arguments"));
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
        let recurses = survey.options.iter().any(|given| given.name == "--recurse-submodules");
        let knows = ASKS_ATTRIBUTES.contains(&self.command) && !recurses;
        let unknown = if knows { "builtin_objectmode" } else { "attr" };
        asks_for(survey, unknown).then(|| Reason::command_line("a pathspec with attributes"))
    }

    /// Why pathspecs are not native in this repository: of some that only it writes Git dies.
    pub(super) fn obstacle_in(&self, repo: &Repository, survey: &Survey) -> Option<Reason> {
        let written = survey.rest.iter().filter(|word| is_long(word, "prefix:")).cloned().collect::<Vec<_>>();
        let parsed = Pathspecs::parse(&written, repo.prefix(), "".into(), Defaults::default());
        parsed.is_err().then(|| Reason::command_line("a pathspec with a prefix"))
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

/// Whether a pathspec may ask for an attribute, or for this one.
fn asks_for(survey: &Survey, attribute: &str) -> bool {
    survey.rest.iter().any(|word| is_long(word, attribute))
}

/// Whether this is a pathspec with this in its magic, maybe.
fn is_long(word: &[u8], magic: &str) -> bool {
    word.starts_with(b":(") && word.contains_str(magic)
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
    use crate::commands;

    fn obstacle(line: &str) -> Option<String> {
        let mut words = line.split(' ').map(BString::from);
        let command = words.next().expect("a command");
        let args: Vec<BString> = words.collect();
        let scope = of(command.as_bstr(), &args).expect("in the table");
        let survey = commands::survey(command.as_bstr(), &args).expect("has a table");
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
                let survey = commands::survey(command.into(), &args).expect("has a table");
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
            "diff-files -C -C --no-rename-empty -O x --skip-to=a",
            "diff-files -S x --pickaxe-all",
            "diff-files -RzM50% -sq",
            "diff-index -m -Gx HEAD",
            "diff-files -Sx --pickaxe-regex -B20%/30%",
            "diff-index --find-object=main:a HEAD",
            "diff-index --cached --quiet --diff-filter=ACM HEAD --",
            "diff-index -m --find-copies-harder -R --rotate-to a HEAD",
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
            ("checkout -- :(attr:builtin_objectmode=100644)a", "a pathspec with attributes"),
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
            ("diff-files -zp", "option '--patch'"),
            ("diff-index --stat HEAD", "option '--stat'"),
        ] {
            assert_eq!(obstacle(line).as_deref(), Some(why), "{line}");
        }
    }
}
