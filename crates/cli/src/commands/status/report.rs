//! The result of `status`, and the colours for printing it.

use super::options::{Format, Request};
use crate::{
    session::{invocation::Invocation, output, settings::Settings},
    term::{
        console::text,
        failure::Failure,
        text::{quote, relative::relative},
    },
};
use bstr::{BStr, BString, ByteSlice as _};
use repo::{Repository, keys};
use sapwood::status::Status;

/// The result, and its format.
pub(super) struct StatusReport<'a> {
    pub(super) run: &'a Invocation,
    pub(super) repo: &'a Repository,
    pub(super) settings: &'a Settings,
    pub(super) request: &'a Request,
    pub(super) found: Status,
    pub(super) palette: Palette,
    /// `advice.statusHints`
    pub(super) hints: bool,
}

impl<'a> StatusReport<'a> {
    pub(super) fn new(
        run: &'a Invocation,
        repo: &'a Repository,
        settings: &'a Settings,
        request: &'a Request,
        found: Status,
    ) -> Result<Self, Failure> {
        let is_template = request.is_template();
        let hints = !is_template && settings.advises(repo, keys::advice::STATUS_HINTS)?;
        let palette = match request.format {
            Format::Long if is_template => Palette::default(),
            Format::Long | Format::Short => Palette::read(run, repo)?,
            Format::Porcelain | Format::PorcelainV2 => Palette::default(),
        };
        Ok(StatusReport { run, repo, settings, request, found, palette, hints })
    }

    /// Returns a path for printing: unchanged with `-z`, else relative to the current directory,
    /// and quoted if necessary.
    pub(super) fn path(&self, path: &BStr, blanks: SpaceQuoting) -> BString {
        if self.request.nul {
            return path.to_owned();
        }
        let path = if self.request.is_relative && !self.repo.prefix().is_empty() {
            relative(path, self.repo.prefix())
        } else {
            path.to_owned()
        };
        let quoted = quote(path.as_bstr(), self.settings.quote_path);
        if blanks == SpaceQuoting::Quoted && path.contains(&b' ') && quoted == path {
            text!("\"", path, "\"")
        } else {
            quoted
        }
    }

    pub(super) fn end(&self) -> &'static str {
        if self.request.nul { "\0" } else { "\n" }
    }
}

/// Selects if a path with a space is quoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpaceQuoting {
    Plain,
    Quoted,
}

/// Elements with separate colours. Source: git-config(1), `color.status.<slot>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Header,
    Updated,
    Changed,
    Untracked,
    NoBranch,
    Unmerged,
    LocalBranch,
    RemoteBranch,
    /// Falls back to `Header` if it is not set.
    OnBranch,
}

/// The escape sequences of the slots; `None` without colours.
#[derive(Default)]
pub(super) struct Palette(pub(super) Option<[BString; 9]>);

/// The slots with their names in the configuration and their default sequences.
pub(super) const SLOTS: [(Slot, &[&str], &str); 9] = [
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
    pub(super) fn read(run: &Invocation, repo: &Repository) -> Result<Palette, Failure> {
        use crate::term::text::color;
        let key = if repo.config_str(&keys::color::STATUS).is_some() {
            keys::color::STATUS
        } else {
            keys::status::COLOR
        };
        if !output::wants_color(run, repo, key)? {
            return Ok(Palette(None));
        }
        let mut sequences: [BString; 9] = Default::default();
        for (slot, names, default) in SLOTS {
            let keys = names
                .iter()
                .flat_map(|name| [keys::color::STATUS_SLOT.of(name), keys::status::COLOR_SLOT.of(name)]);
            let value = keys.filter_map(|key| repo.config_str(&key).map(|value| (key, value))).next();
            sequences[slot as usize] = match value {
                None if slot == Slot::OnBranch => sequences[Slot::Header as usize].clone(),
                None => default.into(),
                Some((key, value)) => color::parse(value.as_bstr()).ok_or_else(|| {
                    Failure::fatal(format!("bad color value '{value}' for variable '{}'", key.name()))
                })?,
            };
        }
        Ok(Palette(Some(sequences)))
    }

    pub(super) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    pub(super) fn sequence(&self, slot: Slot) -> &[u8] {
        self.0.as_ref().map_or(&[], |sequences| &sequences[slot as usize])
    }

    /// Appends the text in the colour of the slot.
    pub(super) fn paint(&self, out: &mut Vec<u8>, slot: Option<Slot>, text: impl AsRef<[u8]>) {
        let sequence = slot.map_or(&b""[..], |slot| self.sequence(slot));
        out.extend_from_slice(sequence);
        out.extend_from_slice(text.as_ref());
        if !sequence.is_empty() {
            out.extend_from_slice(crate::term::text::color::RESET.as_bytes());
        }
    }
}
