//! The lines of `ls-files`, written into one buffer.

use std::io::Write as _;

use bstr::{BStr, ByteSlice as _};
use repo::Repository;
use sapwood::{
    Mode, ObjectId,
    index::{Entry, Flags, Index, Stage},
    ls_files::{Kind, LineEnds, Listed, ListedEntry, State},
};

use super::{
    form,
    request::{Abbrev, Request},
};
use crate::{
    session::settings::Settings,
    term::{
        console::{self, Listing, text},
        failure::Failure,
        text::{os_error, quote_into, relative::relative},
    },
};

/// The name of the output in an error.
const OUTPUT: &str = "standard output";

pub(super) struct Show<'a> {
    /// The superproject, with `--recurse-submodules`.
    repo: &'a Repository,
    request: &'a Request,
    quote_path: bool,
    /// The directory that listed names are relative to; empty with `--full-name`.
    prefix: &'a BStr,
    listing: Listing,
    pub(super) line_ends: LineEnds<'a>,
}

impl<'a> Show<'a> {
    pub(super) fn new(repo: &'a Repository, settings: &Settings, request: &'a Request) -> Show<'a> {
        let prefix = if request.full_name { BStr::new("") } else { repo.prefix() };
        let (quote_path, line_ends) = (settings.quote_path, LineEnds::of(repo));
        Show { repo, request, quote_path, prefix, listing: Listing::default(), line_ends }
    }

    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        self.listing.write(OUTPUT)
    }

    /// Lists a path.
    pub(super) fn listed(&mut self, listed: &Listed<'_>) -> Result<(), Failure> {
        let Listed { path, top, .. } = *listed;
        match listed.kind {
            Kind::Entry(entry) => self.entry(listed, &entry)?,
            Kind::Other => self.other("? ", top, path)?,
            Kind::Killed => self.other("K ", top, path)?,
            Kind::Resolved { stage, mode, oid } => {
                if self.request.tags() {
                    self.listing.buffer().extend_from_slice(b"U ");
                }
                self.object(self.repo, mode, oid, stage)?;
                self.name(path);
                self.end();
            }
            Kind::Unreadable(error) => {
                console::error(text!("cannot lstat '", path, "': ", os_error(error)));
            }
        }
        self.listing.flush_if_full()
    }

    /// Lists a path that is not in the index.
    fn other(&mut self, tag: &str, top: &Index, path: &BStr) -> Result<(), Failure> {
        if self.request.tags() {
            self.listing.buffer().extend_from_slice(tag.as_bytes());
        }
        self.push_line_ends("", top, path)?;
        self.name(path);
        self.end();
        Ok(())
    }

    fn entry(&mut self, listed: &Listed<'_>, found: &ListedEntry<'_>) -> Result<(), Failure> {
        let ListedEntry { entry, state, repo, index } = *found;
        if let Some(form) = &self.request.format {
            let line = form::line(self, form.as_bstr(), listed, found)?;
            self.listing.buffer().extend_from_slice(&line);
            self.end();
        } else {
            self.tag(state, entry);
            if self.request.stage {
                self.object(repo, entry.mode, entry.oid, entry.stage)?;
            }
            let in_index = if self.request.eol { self.line_ends.in_index(index, entry) } else { "" };
            self.push_line_ends(in_index, listed.top, listed.path)?;
            self.name(listed.path);
            self.end();
        }
        if self.request.debug {
            self.debug(entry);
        }
        Ok(())
    }

    /// Appends the tag. It is in lower case if the entry is assumed unchanged, or valid for the
    /// monitor, and the user selected that display.
    fn tag(&mut self, state: State, entry: &Entry) {
        if !self.request.tags() {
            return;
        }
        let tag = match (state, entry.stage) {
            (State::Deleted, _) => "R ",
            (State::Modified, _) => "C ",
            (State::Cached, Stage::Normal) if entry.flags.contains(Flags::SKIP_WORKTREE) => "S ",
            (State::Cached, Stage::Normal) => "H ",
            (State::Cached, _) => "M ",
        };
        let lower = self.request.valid_bit && entry.flags.contains(Flags::ASSUME_VALID)
            || self.request.fsmonitor_bit && entry.flags.contains(Flags::FSMONITOR_VALID);
        let bytes = self.listing.buffer();
        let start = bytes.len();
        bytes.extend_from_slice(tag.as_bytes());
        if lower {
            bytes[start].make_ascii_lowercase();
        }
    }

    /// Appends an object of `home`. Its name is that of [`Show::object_name`].
    fn object(&mut self, home: &Repository, mode: Mode, oid: ObjectId, stage: Stage) -> Result<(), Failure> {
        let name = self.object_name(home, oid)?;
        // Writing to memory cannot fail.
        let _ = write!(self.listing.buffer(), "{:06o} {name} {}\t", mode.bits(), stage as u8);
        Ok(())
    }

    /// Returns a name that is unique among the objects of `home`, with the number of digits that
    /// the superproject configures.
    fn object_name(&self, home: &Repository, oid: ObjectId) -> Result<String, Failure> {
        Ok(match self.request.abbrev {
            Abbrev::Full => oid.to_string(),
            Abbrev::Configured => home.abbreviate_as(oid, self.repo)?,
            Abbrev::To(least) => home.abbreviate_to(oid, least)?,
        })
    }

    /// Returns a name that is unique in the superproject, which need not contain the object.
    pub(super) fn object_name_at_top(&self, oid: ObjectId) -> Result<String, Failure> {
        self.object_name(self.repo, oid)
    }

    fn name(&mut self, path: &BStr) {
        let (nul, quote_path, prefix) = (self.request.nul, self.quote_path, self.prefix);
        push_name(self.listing.buffer(), path, prefix, nul, quote_path);
    }

    pub(super) fn name_into(&self, out: &mut Vec<u8>, path: &BStr) {
        push_name(out, path, self.prefix, self.request.nul, self.quote_path);
    }

    fn end(&mut self) {
        let end = if self.request.nul { 0 } else { b'\n' };
        self.listing.buffer().push(end);
    }

    fn push_line_ends(&mut self, in_index: &str, top: &Index, path: &BStr) -> Result<(), Failure> {
        if !self.request.eol {
            return Ok(());
        }
        let in_worktree = self.line_ends.in_worktree(path);
        let attribute = self.line_ends.attributes(top, path)?;
        let _ = write!(self.listing.buffer(), "i/{in_index:<5} w/{in_worktree:<5} attr/{attribute:<17}\t");
        Ok(())
    }

    fn debug(&mut self, entry: &Entry) {
        const EXTENDED: u32 = 0x4000;
        let stat = &entry.stat;
        let mut flags = (entry.stage as u32) << 12;
        for (flag, bit) in [
            (Flags::ASSUME_VALID, 0x8000),
            (Flags::FSMONITOR_VALID, 1 << 21),
            (Flags::INTENT_TO_ADD, EXTENDED | 1 << 29),
            (Flags::SKIP_WORKTREE, EXTENDED | 1 << 30),
        ] {
            if entry.flags.contains(flag) {
                flags |= bit;
            }
        }
        let _ = write!(
            self.listing.buffer(),
            "  ctime: {}:{}\n  mtime: {}:{}\n  dev: {}\tino: {}\n  uid: {}\tgid: {}\n  size: {}\tflags: {flags:x}\n",
            stat.ctime.0,
            stat.ctime.1,
            stat.mtime.0,
            stat.mtime.1,
            stat.dev,
            stat.ino,
            stat.uid,
            stat.gid,
            stat.size,
        );
    }
}

fn push_name(out: &mut Vec<u8>, path: &BStr, prefix: &BStr, nul: bool, quote_path: bool) {
    let mut push = |name: &BStr| {
        if nul { out.extend_from_slice(name) } else { quote_into(out, name, quote_path) }
    };
    match path.strip_prefix(prefix.as_bytes()) {
        Some(below) if !below.is_empty() => push(below.as_bstr()),
        _ => push(relative(path, prefix).as_bstr()),
    }
}
