//! The validated options: what is committed, where its parts come from, and whether the user edits
//! the message.

use bstr::{BStr, BString, ByteSlice as _};
use repo::{CommitText, Repository, keys};
use sapwood::{
    ObjectId,
    commit::{
        Whence,
        cleanup::{Cleanup, cleanup_mode},
    },
};

use super::options::Request;
use crate::{
    commands::status::preview,
    term::{console::text, failure::Failure},
};

/// `--fixup`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fixup {
    pub(super) kind: FixupKind,
    pub(super) commit: BString,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FixupKind {
    Fixup,
    Amend,
    Reword,
}

/// The validated request.
pub(super) struct Plan {
    pub(super) request: Request,
    pub(super) paths: Vec<BString>,
    pub(super) whence: Whence,
    /// The commit that HEAD points to.
    pub(super) head: Option<CommitText>,
    pub(super) editor: bool,
    /// `--no-status`, `commit.status`
    pub(super) includes_status: bool,
    pub(super) verbose: usize,
    pub(super) cleanup: Cleanup,
    pub(super) fixup: Option<Fixup>,
    /// The commit whose message is reused, with its name as given.
    pub(super) reused: Option<(BString, CommitText)>,
    /// The commit whose author is used.
    pub(super) author_of: Option<(BString, CommitText)>,
    /// The file of `-t` or `commit.template`, as messages name it.
    pub(super) template: Option<BString>,
    /// The signing key; empty for the configured one.
    pub(super) key: Option<BString>,
}

impl Plan {
    pub(super) fn is_merge_amended(&self) -> bool {
        self.request.amend && self.head.as_ref().is_some_and(|head| head.parents.len() > 1)
    }

    pub(super) fn head_id(&self) -> Option<ObjectId> {
        self.head.as_ref().map(|head| head.id)
    }
}

/// Validates the options in Git's order.
pub(super) fn plan(repo: &Repository, mut request: Request, paths: Vec<BString>) -> Result<Plan, Failure> {
    let whence = Whence::of(repo)?;
    let head = repo.head()?.oid();
    let no_head = |error| Failure::of_name(error, Failure::fatal("could not parse HEAD"));
    let head = head.map(|head| repo.commit_text(head)).transpose().map_err(no_head)?;
    validate(&request, whence, head.is_some())?;
    if request.amend
        && let Some(source) = sapwood::commit::rewritten_notes(repo)?
    {
        return Err(Failure::unsupported(&format!("{source} with --amend")));
    }
    let mut editor = request.file.is_none() && request.message.is_none() && request.reuse.is_none();
    let configured = repo.config_path(&keys::commit::TEMPLATE)?;
    let configured = configured.map(|path| BString::from(path.as_bytes()));
    let mut template = match &request.template {
        Some(file) => Some(below_top(repo, file.as_bstr())),
        None => configured,
    };
    let has_source = request.reuse.is_some()
        || request.reedit.is_some()
        || request.file.is_some()
        || request.fixup.is_some()
        || request.message.is_some();
    if has_source {
        template = None;
    }
    let mut reused = request.reedit.clone().or_else(|| request.reuse.clone());
    if request.amend && reused.is_none() && request.fixup.is_none() {
        reused = Some("HEAD".into());
    }
    if reused.is_none() && !whence.is_pick() && request.reset_author {
        return Err(Failure::fatal("--reset-author can be used only with -C, -c or --amend."));
    }
    let named = |spec: BString| commit(repo, spec.as_bstr()).map(|found| (spec, found));
    let reused = reused.map(named).transpose()?;
    let mut author_of = reused.clone().filter(|_| !request.reset_author);
    if whence.is_pick() && !request.reset_author {
        author_of = Some(named("CHERRY_PICK_HEAD".into())?);
    }
    apart(&[(request.include, "-i/--include"), (request.only, "-o/--only"), (request.all, "-a/--all")])?;
    let fixup = fixup(&mut request, &paths, whence)?;
    if fixup.as_ref().is_some_and(|fixup| fixup.kind == FixupKind::Fixup) {
        editor = false;
    }
    let editor = request.edit.unwrap_or(editor);
    preview::check(repo, &request.wanted)?;
    if request.all && !paths.is_empty() {
        return Err(Failure::Fatal(text!("paths '", paths[0], " ...' with -a does not make sense")));
    }
    if request.wanted.format.is_some() || request.wanted.nul {
        request.dry_run = true;
    }
    let cleanup = request.cleanup.clone().or_else(|| repo.config_str(&keys::commit::CLEANUP));
    let signs = repo.config(&keys::commit::GPG_SIGN)?;
    let verbose = match request.verbose {
        Some(verbose) => verbose,
        None => configured_verbosity(repo)?,
    };
    Ok(Plan {
        includes_status: match request.status {
            Some(status) => status,
            None => repo.config(&keys::commit::STATUS)?,
        },
        cleanup: cleanup_mode(cleanup.as_ref().map(|mode| mode.as_bstr()), editor)?,
        key: request.sign.clone().unwrap_or_else(|| signs.then(BString::default)),
        request,
        paths,
        whence,
        head,
        editor,
        verbose,
        fixup,
        reused,
        author_of,
        template,
    })
}

/// Reads `commit.verbose`: a number, or a boolean.
pub(super) fn configured_verbosity(repo: &Repository) -> Result<usize, repo::Error> {
    let value = repo.config_str(&keys::commit::VERBOSE);
    if value.is_some_and(|value| value.first().is_some_and(|first| b"-+0123456789".contains(first))) {
        let number: Option<i32> = repo.config_as(&keys::commit::VERBOSE)?;
        Ok(number.and_then(|it| usize::try_from(it).ok()).unwrap_or(0))
    } else {
        Ok(usize::from(repo.config_as(&keys::commit::VERBOSE)?.unwrap_or(false)))
    }
}

/// Checks the first rules, which need only the options and the operation in progress.
fn validate(request: &Request, whence: Whence, has_head: bool) -> Result<(), Failure> {
    if request.author.is_some() && request.reset_author {
        return Err(cannot_be_together(&["--reset-author", "--author"]));
    }
    if request.amend && !has_head {
        return Err(Failure::fatal("You have nothing to amend."));
    }
    if let Some(word) = whence.word().filter(|_| request.amend) {
        return Err(Failure::fatal(format!("You are in the middle of a {word} -- cannot amend.")));
    }
    if request.fixup.is_some() && request.squash.is_some() {
        return Err(cannot_be_together(&["--squash", "--fixup"]));
    }
    apart(&[
        (request.reuse.is_some(), "-C"),
        (request.reedit.is_some(), "-c"),
        (request.file.is_some(), "-F"),
        (request.fixup.is_some(), "--fixup"),
    ])?;
    apart(&[
        (request.message.is_some(), "-m"),
        (request.reedit.is_some(), "-c"),
        (request.reuse.is_some(), "-C"),
        (request.file.is_some(), "-F"),
    ])
}

/// Parses `--fixup`.
fn fixup(request: &mut Request, paths: &[BString], whence: Whence) -> Result<Option<Fixup>, Failure> {
    let Some(given) = &request.fixup else { return Ok(None) };
    let letters = given.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    if letters == 0 || given.get(letters) != Some(&b':') {
        return Ok(Some(Fixup { kind: FixupKind::Fixup, commit: given.clone() }));
    }
    let (word, commit) = (given[..letters].as_bstr(), BString::from(&given[letters + 1..]));
    let kind = match word.as_bytes() {
        b"amend" => FixupKind::Amend,
        b"reword" => FixupKind::Reword,
        _ => return Err(Failure::Fatal(text!("unknown option: --fixup=", word, ":", commit))),
    };
    if kind == FixupKind::Reword {
        if let Some(word) = whence.word().filter(|_| whence != Whence::RebasePick) {
            return Err(Failure::fatal(format!("You are in the middle of a {word} -- cannot reword.")));
        }
        if let Some(path) = paths.first() {
            return Err(Failure::Fatal(text!(
                "reword option of '--fixup' and path '",
                path,
                "' cannot be used together"
            )));
        }
        if request.all || request.include || request.only {
            return Err(Failure::fatal(
                "reword option of '--fixup' and '--patch/--interactive/--all/--include/--only' cannot be used \
                 together",
            ));
        }
        request.only = true;
    }
    request.allow_empty = true;
    Ok(Some(Fixup { kind, commit }))
}

/// Returns an error if several of the options are given.
fn apart(options: &[(bool, &str)]) -> Result<(), Failure> {
    let given: Vec<&str> = options.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
    if given.len() > 1 { Err(cannot_be_together(&given)) } else { Ok(()) }
}

fn cannot_be_together(options: &[&str]) -> Failure {
    let quoted: Vec<String> = options.iter().map(|name| format!("'{name}'")).collect();
    let list = match &quoted[..] {
        [one, other] => format!("{one} and {other}"),
        [first @ .., last] => format!("{}, and {last}", first.join(", ")),
        [] => String::new(),
    };
    Failure::fatal(format!("options {list} cannot be used together"))
}

/// Returns the commit of this name, or that a tag of this name leads to.
pub(super) fn commit(repo: &Repository, spec: &BStr) -> Result<CommitText, Failure> {
    let unknown = || Failure::Fatal(text!("could not lookup commit '", spec, "'"));
    let found = repo.resolve(spec)?.ok_or_else(unknown)?;
    let found = repo.commit_if_there(found)?.ok_or_else(unknown)?;
    Ok(repo.commit_text(found)?)
}

/// Returns a file of the command line in Git's form, relative to the worktree's root.
pub(super) fn below_top(repo: &Repository, file: &BStr) -> BString {
    if file.starts_with(b"/") || file == "-" { file.to_owned() } else { text!(repo.prefix(), file) }
}
