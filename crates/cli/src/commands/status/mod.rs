//! `sapwood status`: what differs between HEAD, the index and the worktree, and what is in progress.
//!
//! Order: arguments and configuration (`options`); the three lists and the state of the Git directory (`collect`); what was learnt about
//! stat data goes into the index, if it can be locked (`record`); then the answer, in one of its formats. Nothing but that refresh
//! changes anything, and it fails silently.

mod branch;
mod collect;
mod long;
mod obstacle;
mod options;
mod porcelain;
mod record;
mod short;
mod state;
mod summary;
mod verbose;

use bstr::{BStr, BString, ByteSlice as _};
use repo::Repository;

use crate::{
    commands::{
        obstacles::{GENERAL, READING, attributes_of_pathspecs},
        record::{Command, Group, Traits},
    },
    session::{
        invocation::Invocation,
        output,
        settings::{
            Settings,
            refused::{self, Reader},
        },
    },
    term::{
        console::{self, text},
        failure::{self, Failure},
        text::relative::relative,
    },
};

use collect::{Change, Collected};
use options::{Format, Request};

/// The record of `status`.
pub(super) const COMMAND: Command = Command {
    name: "status",
    summary: "Show the working tree status",
    group: Group::Changes,
    syntax: &options::TABLE,
    traits: Traits { plans_first: true, ..Command::BASE.traits },
    settings: &[GENERAL, obstacle::SETTINGS],
    line: &[attributes_of_pathspecs],
    checks: &[READING, &[obstacle::settings_together]],
    run,
    ..Command::BASE
};

/// The commands whose settings are read.
const READERS: [Reader; 8] = [
    Reader::Every,
    Reader::Repository,
    Reader::Plumbing,
    Reader::Porcelain,
    Reader::Submodules,
    Reader::Columns,
    Reader::Refs,
    Reader::Hooks,
];

/// Runs the command. Returns its exit code.
fn run(run: &Invocation, args: &[BString]) -> Result<u8, Failure> {
    let parsed = options::TABLE.parse(args)?;
    let repo = run.open()?;
    let root = repo.work_tree().ok_or_else(Failure::no_worktree)?;
    refused::check(&repo, &READERS)?;
    let request = Request::fold(&repo, parsed)?;
    if request.verbose && request.format == Format::Long {
        return verbose::by_git(run);
    }
    let settings = Settings::read(run, &repo)?.for_answers();
    let root = sys::Dir::open(root).map_err(Failure::cannot_open(root))?;
    let collected = collect::collect(run, &repo, &settings, &root, &request)?;
    run.interrupt.check()?;
    let answer = Answer::new(run, &repo, &settings, &request, collected)?;
    let mut out = Vec::new();
    match request.format {
        Format::Long => answer.long(&mut out)?,
        Format::Short | Format::Porcelain => answer.short(&mut out)?,
        Format::PorcelainV2 => answer.porcelain(&mut out)?,
    }
    failure::must_have_been_readable()?;
    console::out_raw(&out);
    Ok(0)
}

/// What is to be told, and how.
struct Answer<'a> {
    run: &'a Invocation,
    repo: &'a Repository,
    settings: &'a Settings,
    request: &'a Request,
    found: Collected,
    palette: Palette,
    /// `advice.statusHints`
    hints: bool,
}

impl<'a> Answer<'a> {
    fn new(
        run: &'a Invocation,
        repo: &'a Repository,
        settings: &'a Settings,
        request: &'a Request,
        found: Collected,
    ) -> Result<Self, Failure> {
        let hints = settings.advises(repo, "statusHints")?;
        let palette = match request.format {
            Format::Long | Format::Short => Palette::read(run, repo)?,
            Format::Porcelain | Format::PorcelainV2 => Palette::default(),
        };
        Ok(Answer { run, repo, settings, request, found, palette, hints })
    }

    /// A path as it is told: with NULs as it is, else from where we are, and quoted if it has to be.
    fn path(&self, path: &BStr, blanks: Blanks) -> BString {
        if self.request.nul {
            return path.to_owned();
        }
        let path = match self.request.is_relative && !self.repo.prefix().is_empty() {
            true => relative(path, self.repo.prefix()),
            false => path.to_owned(),
        };
        let quoted = format::quote(path.as_bstr(), self.settings.quote_path);
        match blanks == Blanks::Quoted && path.contains(&b' ') && quoted == path {
            true => text!("\"", path, "\""),
            false => quoted,
        }
    }

    fn end(&self) -> &'static str {
        if self.request.nul { "\0" } else { "\n" }
    }
}

/// Whether a blank in a path is a reason to quote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blanks {
    Plain,
    Quoted,
}

/// What is coloured on its own. Source: git-config(1), `color.status.<slot>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Header,
    Updated,
    Changed,
    Untracked,
    NoBranch,
    Unmerged,
    LocalBranch,
    RemoteBranch,
    /// As `Header`, unless it is set.
    OnBranch,
}

/// The slots' sequences; none if there are no colours.
#[derive(Default)]
struct Palette(Option<[BString; 9]>);

/// As they are configured, with what counts where they are not.
const SLOTS: [(Slot, &[&str], &str); 9] = [
    (Slot::Header, &["header"], ""),
    (Slot::Updated, &["updated", "added"], "\x1b[32m"),
    (Slot::Changed, &["changed"], "\x1b[31m"),
    (Slot::Untracked, &["untracked"], "\x1b[31m"),
    (Slot::NoBranch, &["nobranch"], "\x1b[31m"),
    (Slot::Unmerged, &["unmerged"], "\x1b[31m"),
    (Slot::LocalBranch, &["localbranch"], "\x1b[32m"),
    (Slot::RemoteBranch, &["remotebranch"], "\x1b[31m"),
    (Slot::OnBranch, &["branch"], ""),
];

impl Palette {
    fn read(run: &Invocation, repo: &Repository) -> Result<Palette, Failure> {
        use crate::term::text::color;
        let key = if repo.config_str("color.status").is_some() { "color.status" } else { "status.color" };
        if !output::wants_color(run, repo, key)? {
            return Ok(Palette(None));
        }
        let mut sequences: [BString; 9] = Default::default();
        for (slot, names, default) in SLOTS {
            let keys = names
                .iter()
                .flat_map(|name| [format!("color.status.{name}"), format!("status.color.{name}")]);
            let value = keys.filter_map(|key| repo.config_str(&key).map(|value| (key, value))).next();
            sequences[slot as usize] = match value {
                None if slot == Slot::OnBranch => sequences[Slot::Header as usize].clone(),
                None => default.into(),
                Some((key, value)) => color::parse(value.as_bstr()).ok_or_else(|| {
                    Failure::fatal(format!("bad color value '{value}' for variable '{key}'"))
                })?,
            };
        }
        Ok(Palette(Some(sequences)))
    }

    fn is_on(&self) -> bool {
        self.0.is_some()
    }

    fn sequence(&self, slot: Slot) -> &[u8] {
        self.0.as_ref().map_or(&[], |sequences| &sequences[slot as usize])
    }

    /// The text in the slot's colour.
    fn paint(&self, out: &mut Vec<u8>, slot: Option<Slot>, text: impl AsRef<[u8]>) {
        let sequence = slot.map_or(&b""[..], |slot| self.sequence(slot));
        out.extend_from_slice(sequence);
        out.extend_from_slice(text.as_ref());
        if !sequence.is_empty() {
            out.extend_from_slice(crate::term::text::color::RESET.as_bytes());
        }
    }
}
