//! The lines of `ls-files`, written into one buffer.

use std::io::Write as _;

use bstr::{BStr, ByteSlice as _};
use repo::{
    Repository,
    convert::{self, Converter},
};

use super::{
    format,
    request::{Abbrev, Request},
};
use crate::{
    session::settings::Settings,
    term::{
        console::Listing,
        failure::Failure,
        text::{os_str, quote_into, relative::relative},
    },
};
use sapwood::{
    FileType, Mode, ObjectId,
    index::{Entry, Flags, Index, Stage},
};

/// The name of the output in an error.
const OUTPUT: &str = "standard output";

/// The location of an entry: in the superproject, or in one of its submodules.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    /// The repository that contains the object.
    pub(super) repo: &'a Repository,
    pub(super) index: &'a Index,
    /// The superproject's index, which also has the attributes of paths in submodules.
    pub(super) top: &'a Index,
    /// Relative to the root of the superproject.
    pub(super) path: &'a BStr,
}

pub(super) struct Show<'a> {
    /// The superproject, with `--recurse-submodules`.
    repo: &'a Repository,
    pub(super) request: &'a Request,
    quote_path: bool,
    /// The directory that listed names are relative to; empty with `--full-name`.
    prefix: &'a BStr,
    listing: Listing,
    /// Created on first use.
    worker: Option<convert::Worker>,
}

impl<'a> Show<'a> {
    pub(super) fn new(repo: &'a Repository, settings: &Settings, request: &'a Request) -> Show<'a> {
        let prefix = if request.full_name { BStr::new("") } else { repo.prefix() };
        let quote_path = settings.quote_path;
        Show { repo, request, quote_path, prefix, listing: Listing::default(), worker: None }
    }

    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        self.listing.write(OUTPUT)
    }

    /// Lists a path that is not in the index.
    pub(super) fn other(&mut self, tag: &str, index: &Index, path: &BStr) -> Result<(), Failure> {
        if self.request.tags() {
            self.listing.buffer().extend_from_slice(tag.as_bytes());
        }
        self.line_ends("", index, path)?;
        self.name(path);
        self.end();
        self.listing.flush_if_full()
    }

    pub(super) fn entry(&mut self, tag: &str, index: &Index, entry: &Entry) -> Result<(), Failure> {
        let place = Place { repo: self.repo, index, top: index, path: index.path(entry) };
        self.entry_at(tag, &place, entry)
    }

    pub(super) fn entry_at(&mut self, tag: &str, place: &Place<'_>, entry: &Entry) -> Result<(), Failure> {
        if let Some(form) = &self.request.format {
            let line = format::line(self, form.as_bstr(), place, entry)?;
            self.listing.buffer().extend_from_slice(&line);
            self.end();
        } else {
            self.tag(tag, entry);
            if self.request.stage {
                self.object(place.repo, entry.mode, entry.oid, entry.stage as usize)?;
            }
            let in_index = if self.request.eol { self.of_index(place, entry) } else { "" };
            self.line_ends(in_index, place.top, place.path)?;
            self.name(place.path);
            self.end();
        }
        if self.request.debug {
            self.debug(entry);
        }
        self.listing.flush_if_full()
    }

    /// Lists a stage of a resolved conflict.
    pub(super) fn resolved(
        &mut self,
        path: &BStr,
        mode: Mode,
        oid: ObjectId,
        stage: usize,
    ) -> Result<(), Failure> {
        if self.request.tags() {
            self.listing.buffer().extend_from_slice(b"U ");
        }
        self.object(self.repo, mode, oid, stage)?;
        self.name(path);
        self.end();
        self.listing.flush_if_full()
    }

    /// Appends the tag. It is in lower case if the entry is assumed unchanged, or valid for the
    /// monitor, and the user selected that display.
    fn tag(&mut self, tag: &str, entry: &Entry) {
        if !self.request.tags() {
            return;
        }
        let lower = self.request.valid_bit && entry.flags.contains(Flags::ASSUME_VALID)
            || self.request.fsmonitor_bit && entry.flags.contains(Flags::FSMONITOR_VALID);
        let bytes = self.listing.buffer();
        let start = bytes.len();
        bytes.extend_from_slice(tag.as_bytes());
        if lower {
            bytes[start].make_ascii_lowercase();
        }
    }

    fn object(&mut self, home: &Repository, mode: Mode, oid: ObjectId, stage: usize) -> Result<(), Failure> {
        let name = self.object_name(home, oid)?;
        // Writing to memory cannot fail.
        let _ = write!(self.listing.buffer(), "{:06o} {name} {stage}\t", mode.bits());
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

    fn line_ends(&mut self, in_index: &str, top: &Index, path: &BStr) -> Result<(), Failure> {
        if !self.request.eol {
            return Ok(());
        }
        let (in_worktree, attribute) = (self.of_worktree(path), self.of_attributes(top, path)?);
        let _ = write!(self.listing.buffer(), "i/{in_index:<5} w/{in_worktree:<5} attr/{attribute:<17}\t");
        Ok(())
    }

    /// Returns the line endings of the blob of a path; for an unmerged path, of our side. Like Git,
    /// searches the superproject for the blobs of submodules.
    pub(super) fn of_index(&self, place: &Place<'_>, entry: &Entry) -> &'static str {
        if !entry.mode.is_file() {
            return "";
        }
        let (index, path) = (place.index, place.index.path(entry));
        let at = [Stage::Normal, Stage::Ours].iter().find_map(|stage| index.position(path, *stage).ok());
        let mut reader = self.repo.objects().reader();
        match at.map(|at| reader.read(&index.entry(at).oid)) {
            Some(Ok((_, content))) => convert::describe_line_ends(content),
            _ => convert::describe_line_ends(b""),
        }
    }

    pub(super) fn of_worktree(&self, path: &BStr) -> &'static str {
        let Some(top) = self.repo.work_tree() else { return "" };
        let path = top.join(os_str(path));
        let found = sys::by_path::stat(&path).ok().flatten();
        if found.is_none_or(|stat| stat.file_type != FileType::File) {
            return "";
        }
        match sys::by_path::read(&path) {
            Ok(Some(content)) => convert::describe_line_ends(&content),
            _ => "",
        }
    }

    pub(super) fn of_attributes(&mut self, top: &Index, path: &BStr) -> Result<&'static str, Failure> {
        if self.worker.is_none() {
            self.worker = Some(Converter::for_compare(self.repo, top)?.worker());
        }
        let worker = self.worker.as_mut().expect("it was just made");
        Ok(worker.describe_attributes(path))
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
