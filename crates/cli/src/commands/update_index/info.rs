//! Entries from the command line or standard input: `--cacheinfo` and `--index-info`.

use bstr::{BStr, BString, ByteSlice as _};
use engine::add::{Allow, Staging};
use format::path;
use sapwood::{HashKind, Mode, ObjectId, index::Stage};

use super::{
    line::{CacheInfo, octal},
    update::{Lines, Update, whole_quote},
};
use crate::term::{
    console::{self, text},
    failure::Failure,
};

/// One line of `--index-info`.
struct Line {
    mode: u32,
    oid: ObjectId,
    stage: Stage,
    path: BString,
}

impl Update<'_> {
    pub(super) fn cache_info(&mut self, info: &CacheInfo) -> Result<(), Failure> {
        let cannot =
            |what: &BString| Err(Failure::Fatal(text!("git update-index: --cacheinfo cannot add ", what)));
        let Some(mode) = octal(&info.mode) else { return cannot(&info.mode) };
        let Some(oid) = ObjectId::from_hex(self.repo.hash(), &info.oid) else { return cannot(&info.oid) };
        if self.enter(mode, oid, info.path.as_bstr(), Stage::Normal)? { Ok(()) } else { cannot(&info.path) }
    }

    pub(super) fn index_info(&mut self) -> Result<(), Failure> {
        self.allow = Allow { new: true, replacing: true };
        self.remove = true;
        let (end, hash) = (if self.nul { 0 } else { b'\n' }, self.repo.hash());
        let mut lines = Lines::of(self.run, end)?;
        while let Some(line) = lines.next()? {
            self.run.interrupt.check()?;
            let parsed = Line::parse(line, hash);
            let mut line = parsed.ok_or_else(|| Failure::Fatal(text!("malformed index info ", line)))?;
            if !self.nul && line.path.first() == Some(&b'"') {
                let bad = || Failure::fatal("git update-index: bad quoting of path name");
                line.path = whole_quote(&line.path).ok_or_else(bad)?;
            }
            let path = line.path.as_bstr();
            if path::verify(path, kind(line.mode), self.protect).is_err() {
                console::eprint_line(text!("Ignoring path ", path));
                continue;
            }
            if line.mode == 0 {
                self.looks_for(path)?;
                self.staging.remove(path);
                continue;
            }
            if !self.enter(line.mode, line.oid, path, line.stage)? {
                return Err(Failure::Fatal(text!("git update-index: unable to update ", path)));
            }
        }
        Ok(())
    }

    /// Puts an entry into the index. Returns false if that failed; the reason was printed.
    fn enter(&mut self, mode: u32, oid: ObjectId, path: &BStr, stage: Stage) -> Result<bool, Failure> {
        if path::verify(path, kind(mode), self.protect).is_err() {
            console::error(text!("Invalid path '", path, "'"));
            return Ok(false);
        }
        self.looks_for(path)?;
        if !self.put_or_report(path, Staging::entry(oid, mode, stage, self.flags)) {
            return Ok(false);
        }
        self.report(&[b"add '", path, b"'"]);
        Ok(true)
    }
}

/// Returns the type of a mode, which determines the valid paths. An entry has no slash at its end.
fn kind(mode: u32) -> Mode {
    match Mode::from_raw(mode) {
        mode if mode.is_symlink() => mode,
        _ => Mode::FILE,
    }
}

impl Line {
    /// Parses `<mode> <object>\t<path>`, `<mode> <type> <object>\t<path>` or `<mode> <object>
    /// <stage>\t<path>`.
    fn parse(line: &[u8], hash: HashKind) -> Option<Line> {
        let digits = line.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let space = digits + line[digits..].find_byte(b' ')?;
        let mode = octal(&line[..space])?;
        let tab = space + line[space..].find_byte(b'\t')?;
        let (head, path) = (&line[space..tab], line[tab + 1..].as_bstr());
        let (head, stage) = match head {
            [rest @ .., b' ', stage @ b'0'..=b'3'] if head.len() > hash.hex_len() => (rest, stage - b'0'),
            _ => (head, 0),
        };
        let (before, oid) = head.split_at_checked(head.len().checked_sub(hash.hex_len())?)?;
        let stage = [Stage::Normal, Stage::Base, Stage::Ours, Stage::Theirs][usize::from(stage)];
        let oid = ObjectId::from_hex(hash, oid).filter(|_| before.ends_with(b" "))?;
        Some(Line { mode, oid, stage, path: path.to_owned() })
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn three_kinds_of_lines() {
        let oid = "0123456789012345678901234567890123456789";
        let parse = |line: &str| {
            let line = line.replace("OID", oid);
            Line::parse(line.as_bytes(), HashKind::Sha1)
                .map(|line| (line.mode, line.stage as u8, line.path.to_string()))
        };
        assert_eq!(parse("100644 OID\ta b"), Some((0o100644, 0, "a b".into())));
        assert_eq!(parse("100755 blob OID\t\"a\""), Some((0o100755, 0, "\"a\"".into())));
        assert_eq!(parse("0 OID 2\ta\tb"), Some((0, 2, "a\tb".into())));
        assert_eq!(parse("100644 OID\t"), Some((0o100644, 0, String::new())));
        for wrong in [
            "",
            "100644",
            "100644 OID",
            "100644OID\ta",
            "x OID\ta",
            "100644 OID 4\ta",
            "100644 0123\ta",
            "9 OID\ta",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
