//! The record of a command: all its properties that the program uses before it runs.
//!
//! Dispatch, `-h`, `help`, shell completion, the shim's decision and `doctor` read records. A
//! command's name is in its record and nowhere else.

use std::borrow::Cow;

use bstr::{BStr, BString};
use repo::{Repository, StandaloneConfig};

use super::{
    reason::Reason,
    rules::{Setting, Unserved, Variable},
};
use crate::{
    session::{invocation::Invocation, settings::config::Config},
    term::{
        args::{Grammar, Stop, Survey, Syntax, Table},
        failure::Failure,
    },
};

/// A command that may run natively.
pub(crate) struct Candidate<'a> {
    pub(crate) run: &'a Invocation,
    pub(crate) command: &'static Command,
    /// The parsed, valid command line. `None` stands for any command line.
    pub(crate) survey: Option<&'a Survey>,
    /// The arguments of the command line.
    pub(crate) args: &'a [BString],
    pub(crate) home: Home<'a>,
}

/// The configuration that a command works with.
#[derive(Clone, Copy)]
pub(crate) enum Home<'a> {
    Repository(&'a Repository),
    Outside(&'a StandaloneConfig),
}

impl<'a> Candidate<'a> {
    /// Returns the repository. Only commands that run in one have checks that call this.
    pub(crate) fn repo(&self) -> &'a Repository {
        match self.home {
            Home::Repository(repo) => repo,
            Home::Outside(_) => unreachable!("'{}' runs outside of a repository", self.command.name),
        }
    }

    /// Returns the configuration.
    pub(crate) fn config(&self) -> &'a dyn Config {
        match self.home {
            Home::Repository(repo) => repo,
            Home::Outside(outside) => outside,
        }
    }

    /// Returns the reasons, and runs one check after the other.
    pub(crate) fn reasons(&self) -> impl Iterator<Item = Reason> {
        self.command.checks.iter().flat_map(|checks| checks.iter()).flat_map(|check| (check.find)(self))
    }

    /// Returns true if the command line has the option `name`, in any form.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.survey.is_some_and(|survey| survey.options.iter().any(|given| given.name == name))
    }
}

/// A check of the settings, the environment and the state of the repository.
pub(crate) struct Check {
    /// The conditions that it detects, for docs/commands.md.
    pub(crate) about: &'static str,
    /// Returns the reasons to hand the command over.
    pub(crate) find: fn(&Candidate<'_>) -> Vec<Reason>,
}

impl Check {
    pub(crate) const fn new(about: &'static str, find: fn(&Candidate<'_>) -> Vec<Reason>) -> Check {
        Check { about, find }
    }
}

/// A check of a valid command line.
pub(crate) struct LineCheck {
    /// The conditions that it detects, for docs/commands.md.
    pub(crate) about: &'static str,
    /// Returns a reason to hand the command over. The arguments are as the user gave them.
    pub(crate) find: fn(&Survey, &[BString]) -> Option<Reason>,
}

impl LineCheck {
    pub(crate) const fn new(
        about: &'static str,
        find: fn(&Survey, &[BString]) -> Option<Reason>,
    ) -> LineCheck {
        LineCheck { about, find }
    }
}

/// One command, or one subcommand.
pub(crate) struct Command {
    /// The name; for a subcommand the command's name, a space, and its own.
    pub(crate) name: &'static str,
    /// One line for `help` and the manual.
    pub(crate) summary: &'static str,
    /// Paragraphs for the manual, separated by empty lines: the command's purpose, and differences
    /// from Git that a user notices. Words in backticks are literal, words in `<>` are values.
    pub(crate) about: &'static str,
    pub(crate) group: Group,
    /// The usage lines, the options, and the grammar of the command line.
    pub(crate) syntax: &'static dyn Syntax,
    /// The arguments that the shim resolves as revisions before it decides.
    pub(crate) revisions: Revisions,
    pub(crate) traits: Traits,
    /// Settings and variables that the command does not serve, however it was called. The variables
    /// are checked before it runs; it checks the settings itself, once it has a configuration.
    pub(crate) unserved: Unserved,
    /// Settings that leave the command to the real Git only because of its messages, or because
    /// Git refuses the value in words of its own.
    pub(crate) settings: &'static [&'static [Setting]],
    /// Environment variables that leave the command to the real Git in the same way.
    pub(crate) variables: &'static [&'static [Variable]],
    /// Checks of the command line alone.
    pub(crate) line: &'static [LineCheck],
    /// Checks of the repository's state, in the order of their cost.
    pub(crate) checks: &'static [&'static [Check]],
    /// Conditions that only show while the command works, as [`Failure::Unserved`] names them. The
    /// command is handed over then, unless it has changed something, shown a result, or consumed
    /// input.
    pub(crate) late: &'static [&'static str],
    /// Runs the command with the arguments after its name. Returns the exit code.
    pub(crate) run: fn(&Invocation, &[BString]) -> Result<u8, Failure>,
    /// If it is not empty, the first argument names one of them, apart from `leading`.
    pub(crate) subcommands: &'static [Command],
    /// Spellings of options of all subcommands that may also precede the subcommand.
    pub(crate) leading: &'static [&'static str],
    /// The record that runs without arguments, or if the first one is an option. With `None`, a
    /// subcommand is required.
    pub(crate) assumed: Option<&'static Command>,
}

/// The part of `help` that lists a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// Git's commands that create a repository.
    Starts,
    /// Git's commands that only read.
    Looks,
    /// Git's commands that change a worktree.
    Changes,
    /// Git's commands for several worktrees, and for parts of one.
    Worktrees,
    /// Git's commands for scripts.
    Scripts,
    /// Commands that Git does not have.
    Own,
    /// Commands that sapwood starts itself. They are not listed.
    Internal,
    /// Git's commands that only Git and sapwood start. They are not listed.
    Hidden,
}

/// The arguments that may be revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Revisions {
    /// No argument.
    None,
    /// The arguments before `--`.
    Leading,
    /// The arguments after the first.
    AfterFirst,
}

/// Properties that shared code uses to distinguish commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traits {
    /// The command runs without a repository.
    pub(crate) outside: bool,
    /// The command runs in a repository if there is one, and without one otherwise.
    pub(crate) anywhere: bool,
    /// The command starts no hook, filter or other program, so it does not need to find the real
    /// Git.
    pub(crate) starts_no_program: bool,
}

impl Command {
    /// Returns a record with these values and the others of this one.
    pub(crate) const fn named(
        self,
        name: &'static str,
        summary: &'static str,
        syntax: &'static dyn Syntax,
        run: fn(&Invocation, &[BString]) -> Result<u8, Failure>,
    ) -> Command {
        Command { name, summary, syntax, run, ..self }
    }

    /// The values that most records share. A record sets only the fields that differ.
    pub(crate) const BASE: Command = Command {
        name: "",
        summary: "",
        about: "",
        group: Group::Internal,
        syntax: &Table::<()> { usage: &[], options: &[], grammar: Grammar::Mixed },
        revisions: Revisions::None,
        traits: Traits { outside: false, anywhere: false, starts_no_program: false },
        unserved: Unserved::NOTHING,
        settings: &[],
        variables: &[],
        line: &[],
        checks: &[],
        late: &[],
        run: |_, _| Err(Failure::fatal("this command needs a subcommand")),
        subcommands: &[],
        leading: &[],
        assumed: None,
    };

    /// Returns true for a command that Git has.
    pub(crate) fn is_gits(&self) -> bool {
        !matches!(self.group, Group::Own | Group::Internal)
    }

    /// Returns the last word of the command's name.
    pub(crate) fn word(&self) -> &'static str {
        self.name.rsplit(' ').next().unwrap_or(self.name)
    }

    /// Returns the first word of the command's name, without a subcommand.
    pub(crate) fn family(&self) -> &'static str {
        self.name.split(' ').next().unwrap_or(self.name)
    }

    /// Returns the commands that run: this one, or its subcommands.
    pub(crate) fn leaves(&'static self) -> &'static [Command] {
        match self.subcommands {
            [] => std::slice::from_ref(self),
            subcommands => subcommands,
        }
    }

    /// Returns the text that `-h` prints. A command with subcommands lists their usage lines.
    pub(crate) fn help(&self) -> String {
        let lines = self.subcommands.iter().flat_map(|subcommand| subcommand.syntax.usage());
        if self.subcommands.is_empty() || !self.syntax.usage().is_empty() {
            return self.syntax.help();
        }
        let line = |(number, line)| format!("{} {line}\n", if number == 0 { "usage:" } else { "   or:" });
        lines.enumerate().map(line).collect::<String>() + "\n"
    }

    /// Returns the record that runs for `args`, and its arguments: without the subcommand's name.
    pub(crate) fn leaf<'a>(
        &'static self,
        args: &'a [BString],
    ) -> Result<(&'static Command, Cow<'a, [BString]>), Stop> {
        let is_leading = |arg: &&BString| self.leading.iter().any(|option| **arg == **option);
        let (leading, args) = args.split_at(args.iter().take_while(is_leading).count());
        let (command, rest) = self.named_by(args)?;
        let all = if leading.is_empty() { rest.into() } else { [leading, rest].concat().into() };
        Ok((command, all))
    }

    /// Like [`Command::leaf`], for arguments that begin with the subcommand.
    fn named_by<'a>(&'static self, args: &'a [BString]) -> Result<(&'static Command, &'a [BString]), Stop> {
        if self.subcommands.is_empty() {
            return Ok((self, args));
        }
        let mistake = |message: String| Stop::Mistake { message: message.into(), usage: Some(self.help()) };
        let Some((word, rest)) = args.split_first() else {
            let needed = || mistake("need a subcommand".to_owned());
            return self.assumed.map(|command| (command, args)).ok_or_else(needed);
        };
        if rest.is_empty() && word == "-h" {
            return Err(Stop::Help(self.help()));
        }
        if let Some(command) = self.assumed.filter(|_| word.starts_with(b"-")) {
            return Ok((command, args));
        }
        if word.starts_with(b"-") {
            return Err(match self.syntax.survey(std::slice::from_ref(word)) {
                Err(Stop::Mistake { message, .. }) => Stop::Mistake { message, usage: Some(self.help()) },
                _ => mistake("need a subcommand".to_owned()),
            });
        }
        let named = |command: &&Command| word == command.word();
        let found = self.subcommands.iter().find(named);
        found.map(|command| (command, rest)).ok_or_else(|| mistake(format!("unknown subcommand: `{word}'")))
    }

    /// Runs the command, or the subcommand that the arguments name.
    pub(crate) fn start(&'static self, run: &Invocation) -> Result<u8, Failure> {
        let (leaf, args) = self.leaf(&run.args)?;
        leaf.unserved.check_variables(&run.env)?;
        (leaf.run)(run, &args)
    }

    /// Returns the first reason why a valid command line is not native.
    pub(crate) fn line_obstacle(&self, survey: &Survey, args: &[BString]) -> Option<Reason> {
        for given in &survey.options {
            if !self.syntax.is_native(given.name, given.on) {
                let stem = given.name.strip_prefix("--no-").unwrap_or(given.name);
                return Some(Reason::Option(if given.on {
                    given.name.to_owned()
                } else {
                    format!("--no-{}", stem.trim_start_matches('-'))
                }));
            }
        }
        self.line.iter().find_map(|check| (check.find)(survey, args))
    }

    /// Returns the words of a command line that may be revisions.
    pub(crate) fn words<'a>(&self, survey: &'a Survey) -> impl Iterator<Item = &'a BStr> {
        use bstr::ByteSlice as _;
        let arguments = match self.revisions {
            Revisions::Leading => survey.rest.split(|word| word == "--").next().unwrap_or_default(),
            Revisions::AfterFirst => survey.rest.get(1..).unwrap_or_default(),
            Revisions::None => &[],
        };
        let named = survey.options.iter().filter(|given| matches!(given.name, "--source" | "--with-tree"));
        let sources = named.filter_map(|given| given.value.as_ref());
        arguments.iter().chain(sources).map(|word| word.as_bstr())
    }
}

#[cfg(test)]
mod tests {
    use bstr::{BString, ByteSlice as _};

    use crate::commands;

    fn obstacle(line: &str) -> Option<String> {
        let mut words = line.split(' ').map(BString::from);
        let command = words.next().expect("a command");
        let args: Vec<BString> = words.collect();
        let command = commands::find(command.as_bstr()).expect("in the table");
        let (command, args) = command.leaf(&args).expect("a subcommand");
        let survey = command.syntax.survey(&args).expect("no mistake");
        command.line_obstacle(&survey, &args).map(|reason| reason.to_string())
    }

    #[test]
    fn native_command_lines() {
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
    fn command_lines_for_the_real_git() {
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
