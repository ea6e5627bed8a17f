//! Settings that a command refuses before it does anything, even if it does not need them.
//!
//! Git's commands read the whole configuration in order and fail at the first invalid value.
//! Settings that they read only on demand (`repo_config_get_*`) fail them at that point, and only
//! if no later value overrides the invalid one. Source: git-config(1), and Git's message for each
//! value.

use std::path::Path;

use bstr::{BStr, ByteSlice as _};
use repo::{Configured, Repository, StandaloneConfig};

use crate::term::{
    console::{self, text},
    failure::Failure,
};

/// Settings that a command reads together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// All commands.
    Every,
    /// Commands that read an index or objects.
    Repository,
    /// Commands that may run a hook or look for one.
    Hooks,
    /// Plumbing commands that list differences.
    Plumbing,
    /// Porcelain commands that show differences.
    Porcelain,
    /// Commands that read a ref.
    Refs,
    /// `checkout` and related commands.
    Checkout,
    /// Commands that list changes in submodules.
    Submodules,
    /// Commands that may print columns.
    Columns,
    /// `clean`.
    Clean,
    /// `clone`.
    Clone,
    /// Commands that sign, while they sign.
    Signing,
    /// `hash-object`.
    Contents,
}

/// The form of a valid value.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Bool,
    /// One of these words, or a boolean.
    BoolOr(&'static [&'static str]),
    /// Like `BoolOr`, but a key without a value is not a boolean.
    GivenBoolOr(&'static [&'static str]),
    Number,
    /// A non-negative number.
    Count,
    /// A non-negative size.
    Size,
    /// A compression level. The word is Git's name for it.
    Level(&'static str),
    /// A minimum length of abbreviated names, or a word for one.
    Abbreviation,
    /// Any value.
    Text,
    /// At least one character.
    Character,
    /// One of these words. The text is Git's message for other values, without `error: `, in which
    /// NUL stands for the value.
    Word(&'static [&'static str], &'static str),
    /// Like `Word`, ignoring case.
    AnyCase(&'static [&'static str], &'static str),
    /// A list of `diff.wsErrorHighlight`.
    Highlight,
    /// Like `Word`, with a fatal error.
    Mode(&'static [&'static str], &'static str),
}

/// Which of several values of a key are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    All,
    Last,
}

fn rule(key: &BStr) -> Option<(Reader, Values, Kind)> {
    use Kind::*;
    use Reader::*;
    Some(match key.as_bytes() {
        b"core.filemode"
        | b"core.trustctime"
        | b"core.symlinks"
        | b"core.ignorecase"
        | b"core.quotepath"
        | b"core.sparsecheckout"
        | b"core.ignorestat"
        | b"core.precomposeunicode"
        | b"core.protecthfs"
        | b"core.protectntfs"
        | b"core.lockfilepid"
        | b"core.sparsecheckoutcone"
        | b"core.usereplacerefs"
        | b"core.bare"
        | b"sparse.expectfilesoutsideofpatterns"
        | b"user.useconfigonly" => (Every, Values::All, Bool),
        b"feature.manyfiles"
        | b"feature.experimental"
        | b"core.multipackindex"
        | b"core.commitgraph"
        | b"index.sparse"
        | b"index.skiphash" => (Reader::Repository, Values::Last, Bool),
        b"core.hookspath" => (Hooks, Values::Last, Text),
        b"core.autocrlf" => (Every, Values::All, BoolOr(&["input"])),
        b"core.safecrlf" => (Every, Values::All, BoolOr(&["warn"])),
        b"branch.autosetupmerge" => (Every, Values::All, BoolOr(&["always", "inherit", "simple"])),
        b"core.packedgitlimit"
        | b"core.packedgitwindowsize"
        | b"core.deltabasecachelimit"
        | b"pack.packsizelimit" => (Every, Values::All, Size),
        b"core.bigfilethreshold" => (Contents, Values::Last, Size),
        b"core.maxtreedepth" => (Every, Values::Last, Number),
        b"core.compression" | b"core.loosecompression" => (Every, Values::All, Level("zlib")),
        b"pack.compression" => (Every, Values::All, Level("pack")),
        b"core.abbrev" => (Every, Values::All, Abbreviation),
        b"core.excludesfile"
        | b"core.attributesfile"
        | b"core.whitespace"
        | b"core.editor"
        | b"core.askpass"
        | b"core.checkroundtripencoding"
        | b"core.fsync"
        | b"core.fsyncmethod"
        | b"core.untrackedcache"
        | b"i18n.commitencoding"
        | b"i18n.logoutputencoding"
        | b"user.name"
        | b"user.email"
        | b"author.name"
        | b"author.email"
        | b"committer.name"
        | b"committer.email"
        | b"attr.tree" => (Every, Values::All, Text),
        b"branch.autosetuprebase" => {
            const WORDS: &[&str] = &["never", "local", "remote", "always"];
            (Every, Values::All, Word(WORDS, "malformed value for branch.autosetuprebase"))
        }
        b"core.commentchar" | b"core.commentstring" => (Every, Values::All, Character),
        b"core.checkstat" => {
            (Every, Values::All, Word(&["default", "minimal"], "invalid value for 'core.checkstat': '\0'"))
        }
        b"core.disambiguate" => {
            const WORDS: &[&str] = &["none", "commit", "committish", "tree", "treeish", "blob"];
            (Every, Values::All, Word(WORDS, "unknown hint type for 'core.disambiguate': \0"))
        }
        b"core.createobject" => {
            (Every, Values::All, Mode(&["rename", "link"], "invalid mode for object creation: \0"))
        }
        b"push.default" => {
            const WORDS: &[&str] = &["nothing", "matching", "simple", "upstream", "tracking", "current"];
            const WRONG: &str = "malformed value for push.default: \0\n\
                error: must be one of nothing, matching, simple, upstream or current";
            (Every, Values::All, Word(WORDS, WRONG))
        }
        b"diff.renamelimit" => (Plumbing, Values::All, Number),
        b"diff.suppressblankempty" | b"diff.indentheuristic" => (Plumbing, Values::All, Bool),
        b"diff.dirstat" => (Plumbing, Values::All, Text),
        b"diff.wserrorhighlight" => (Plumbing, Values::All, Highlight),
        b"core.warnambiguousrefs" | b"core.prefersymlinkrefs" => (Plumbing, Values::Last, Bool),
        b"core.logallrefupdates" => (Refs, Values::Last, GivenBoolOr(&["always"])),
        b"merge.conflictstyle" => {
            const WORDS: &[&str] = &["merge", "diff3", "zdiff3"];
            (Checkout, Values::All, Word(WORDS, "unknown style '\0' given for 'merge.conflictstyle'"))
        }
        b"diff.ignoresubmodules" => (Submodules, Values::All, Text),
        b"column.ui" => (Columns, Values::All, Text),
        b"column.clean" => (Clean, Values::All, Text),
        b"gpg.format" => {
            let words = &["openpgp", "x509", "ssh"];
            (Signing, Values::All, Word(words, "invalid value for 'gpg.format': '\0'"))
        }
        b"user.signingkey"
        | b"gpg.program"
        | b"gpg.openpgp.program"
        | b"gpg.x509.program"
        | b"gpg.ssh.program"
        | b"gpg.ssh.defaultkeycommand"
        | b"gpg.ssh.allowedsignersfile"
        | b"gpg.ssh.revocationfile" => (Signing, Values::All, Text),
        b"gpg.mintrustlevel" => {
            let words = &["undefined", "never", "marginal", "fully", "ultimate"];
            (Signing, Values::All, AnyCase(words, "invalid value for 'gpg.mintrustlevel': '\0'"))
        }
        b"clone.defaultremotename" => (Clone, Values::All, Text),
        b"clone.rejectshallow" | b"clone.filtersubmodules" => (Clone, Values::All, Bool),
        b"diff.mnemonicprefix"
        | b"diff.noprefix"
        | b"diff.relative"
        | b"diff.autorefreshindex"
        | b"diff.trustexitcode" => (Porcelain, Values::All, Bool),
        b"color.diff" => (Porcelain, Values::All, BoolOr(&["never", "always", "auto"])),
        b"diff.statgraphwidth" | b"diff.statnamewidth" => (Porcelain, Values::All, Number),
        b"diff.context" | b"diff.interhunkcontext" => (Porcelain, Values::All, Count),
        b"diff.wordregex" | b"diff.external" | b"diff.submodule" | b"diff.orderfile" | b"column.status" => {
            (Porcelain, Values::All, Text)
        }
        b"diff.algorithm" => {
            const WORDS: &[&str] = &["myers", "default", "minimal", "patience", "histogram"];
            (Porcelain, Values::All, AnyCase(WORDS, "unknown value for config 'diff.algorithm': \0"))
        }
        advice if ADVICE.iter().any(|name| advice.strip_prefix(b"advice.") == Some(name.as_bytes())) => {
            (Every, Values::All, Bool)
        }
        driver if is_of_diff_driver(driver) => (Plumbing, Values::All, Text),
        _ => return None,
    })
}

/// Returns true for a text setting of a driver, such as `diff.<name>.textconv`.
fn is_of_diff_driver(key: &[u8]) -> bool {
    let Some((_, item)) = key.strip_prefix(b"diff.").and_then(|rest| rest.rsplit_once_str(".")) else {
        return false;
    };
    matches!(item, b"funcname" | b"xfuncname" | b"command" | b"textconv" | b"wordregex" | b"algorithm")
}

/// The known advice, in lower case. Git ignores other names. Source: git-config(1), `advice.*`.
const ADVICE: [&str; 47] = [
    "addembeddedrepo",
    "addemptypathspec",
    "addignoredfile",
    "ambiguousfetchrefspec",
    "amworkdir",
    "checkoutambiguousremotebranchname",
    "commitbeforemerge",
    "defaultbranchname",
    "detachedhead",
    "diverging",
    "fetchremoteheadwarn",
    "fetchshowforcedupdates",
    "forcedeletebranch",
    "graftfiledeprecated",
    "ignoredhook",
    "implicitidentity",
    "mergeconflict",
    "nestedtag",
    "objectnamewarning",
    "pushalreadyexists",
    "pushfetchfirst",
    "pushneedsforce",
    "pushnonfastforward",
    "pushnonffcurrent",
    "pushnonffmatching",
    "pushrefneedsupdate",
    "pushunqualifiedrefname",
    "pushupdaterejected",
    "rebasetodoerror",
    "refsyntax",
    "resetnorefresh",
    "resolveconflict",
    "rmhints",
    "sequencerinuse",
    "setupstreamfailure",
    "skippedcherrypicks",
    "sparseindexexpanded",
    "statusaheadbehindwarning",
    "statushints",
    "statusuoption",
    "submodulealternateerrorstrategydie",
    "submodulemergeconflict",
    "submodulesnotupdated",
    "suggestdetachinghead",
    "updatesparsepath",
    "waitingforeditor",
    "worktreeaddorphan",
];

/// Returns an error for a setting that one of `readers` refuses.
pub(crate) fn check(repo: &Repository, readers: &[Reader]) -> Result<(), Failure> {
    check_all(repo.configured(), repo.work_tree(), readers)
}

/// Like [`check`], without a repository.
pub(crate) fn check_outside(outside: &StandaloneConfig, readers: &[Reader]) -> Result<(), Failure> {
    check_all(outside.configured(), None, readers)
}

fn check_all(all: Vec<Configured<'_>>, top: Option<&Path>, readers: &[Reader]) -> Result<(), Failure> {
    for configured in all {
        if let Some((reader, values, kind)) = rule(configured.key)
            && readers.contains(&reader)
            && (values == Values::All || configured.is_last)
        {
            kind.check(top, &configured)?;
        }
    }
    Ok(())
}

impl Kind {
    fn check(self, top: Option<&Path>, configured: &Configured<'_>) -> Result<(), Failure> {
        let Configured { key, value, place, .. } = *configured;
        let bad_number = |kind: &str| {
            let file = place.map_or(String::new(), |(file, _)| format!(" in file {}", shown(top, file)));
            let value = value.unwrap_or_default();
            Failure::fatal(format!("bad numeric config value '{value}' for '{key}'{file}: {kind}"))
        };
        let given = || value.ok_or_else(|| refused(top, configured, &format!("missing value for '{key}'")));
        let boolean = || match repo::parse_bool(value) {
            Some(_) => Ok(()),
            None => {
                let value = value.unwrap_or_default();
                Err(Failure::fatal(format!("bad boolean config value '{value}' for '{key}'")))
            }
        };
        let among = |words: &[&str], value: &BStr| words.iter().any(|word| value == *word);
        match self {
            Kind::Bool => boolean(),
            Kind::BoolOr(words) => match value {
                Some(value) if words.iter().any(|word| value.eq_ignore_ascii_case(word.as_bytes())) => Ok(()),
                _ => boolean(),
            },
            Kind::GivenBoolOr(words) => {
                given()?;
                Kind::BoolOr(words).check(top, configured)
            }
            Kind::Number => repo::parse_number(value.unwrap_or_default()).map(drop).map_err(bad_number),
            Kind::Size => repo::parse_unsigned(value.unwrap_or_default()).map(drop).map_err(bad_number),
            Kind::Level(name) => match repo::parse_number(value.unwrap_or_default()).map_err(bad_number)? {
                -1..=9 => Ok(()),
                level => Err(Failure::fatal(format!("bad {name} compression level {level}"))),
            },
            Kind::Abbreviation => {
                let value = given()?;
                let is_off =
                    || repo::parse_bool(Some(value)) == Some(false) && repo::parse_number(value).is_err();
                if value.eq_ignore_ascii_case(b"auto") || is_off() {
                    return Ok(());
                }
                match repo::parse_number(value).map_err(bad_number)? {
                    LEAST_LENGTH.. => Ok(()),
                    length => Err(refused(top, configured, &format!("abbrev length out of range: {length}"))),
                }
            }
            Kind::Text => given().map(drop),
            Kind::Character => match given()?.is_empty() {
                false => Ok(()),
                true => Err(refused(top, configured, &format!("{key} must have at least one character"))),
            },
            Kind::Word(words, wrong) => match given()? {
                value if among(words, value) => Ok(()),
                value => Err(refused(top, configured, &wrong.replace('\0', &value.to_string()))),
            },
            Kind::AnyCase(words, wrong) => match given()? {
                value if words.iter().any(|word| value.eq_ignore_ascii_case(word.as_bytes())) => Ok(()),
                value => Err(refused(top, configured, &wrong.replace('\0', &value.to_string()))),
            },
            Kind::Highlight => match given()? {
                value if value.is_empty() || value.split_str(",").all(is_highlight) => Ok(()),
                value => {
                    let wrong = format!("unknown value for config '{key}': {value}");
                    Err(refused(top, configured, &wrong))
                }
            },
            Kind::Count => match repo::parse_number(value.unwrap_or_default()).map_err(bad_number)? {
                0.. => Ok(()),
                _ => Err(unparsable(top, configured)),
            },
            Kind::Mode(words, wrong) => match given()? {
                value if among(words, value) => Ok(()),
                value => Err(Failure::fatal(wrong.replace('\0', &value.to_string()))),
            },
        }
    }
}

/// The minimum length of an abbreviated name.
const LEAST_LENGTH: i32 = 4;

/// Prints `wrong` as an error and returns the failure that names the setting's file and line.
fn refused(top: Option<&Path>, configured: &Configured<'_>, wrong: &str) -> Failure {
    console::error(wrong);
    unparsable(top, configured)
}

fn is_highlight(kind: &[u8]) -> bool {
    matches!(kind, b"none" | b"default" | b"all" | b"new" | b"old" | b"context")
}

/// Returns the failure that names the file and line of an invalid value.
fn unparsable(top: Option<&Path>, configured: &Configured<'_>) -> Failure {
    let key = configured.key;
    Failure::Fatal(match configured.place {
        Some((file, line)) => {
            text!(
                "bad config variable '",
                key,
                "' in file '",
                shown(top, file),
                "' at line ",
                line.to_string()
            )
        }
        None => text!("unable to parse '", key, "' from command-line config"),
    })
}

/// Returns a file's path relative to the root of the worktree, if it is below.
fn shown(top: Option<&Path>, file: &Path) -> String {
    let below = top.and_then(|top| file.strip_prefix(top).ok());
    below.unwrap_or(file).display().to_string()
}
