//! Entries from the command line or standard input: `--cacheinfo` and `--index-info`.

use bstr::{BString, ByteSlice as _};
use sapwood::{
    HashKind, ObjectId,
    index::Stage,
    update_index::{Allow, NewEntry},
};

use super::{
    Lines, Run,
    line::{CacheInfo, octal},
    whole_quote,
};
use crate::term::{console::text, failure::Failure};

impl Run<'_> {
    pub(super) fn cache_info(&mut self, info: &CacheInfo) -> Result<(), Failure> {
        let cannot =
            |what: &BString| Err(Failure::Fatal(text!("git update-index: --cacheinfo cannot add ", what)));
        let Some(mode) = octal(&info.mode) else { return cannot(&info.mode) };
        let Some(oid) = ObjectId::from_hex(self.repo.hash(), &info.oid) else { return cannot(&info.oid) };
        let entry = NewEntry { path: info.path.clone(), mode, oid, stage: Stage::Normal };
        if self.update.enter(entry)? { Ok(()) } else { cannot(&info.path) }
    }

    pub(super) fn index_info(&mut self) -> Result<(), Failure> {
        self.rules().allow = Allow { new: true, replacing: true };
        self.rules().remove = true;
        let (end, hash) = (if self.nul { 0 } else { b'\n' }, self.repo.hash());
        let mut lines = Lines::of(self.run, end)?;
        while let Some(line) = lines.next()? {
            self.run.interrupt.check()?;
            let parsed = parse(line, hash);
            let mut entry = parsed.ok_or_else(|| Failure::Fatal(text!("malformed index info ", line)))?;
            if !self.nul && entry.path.first() == Some(&b'"') {
                let bad = || Failure::fatal("git update-index: bad quoting of path name");
                entry.path = whole_quote(&entry.path).ok_or_else(bad)?;
            }
            let path = entry.path.clone();
            if !self.update.enter_or_remove(entry)? {
                return Err(Failure::Fatal(text!("git update-index: unable to update ", path)));
            }
        }
        Ok(())
    }
}

/// Parses `<mode> <object>\t<path>`, `<mode> <type> <object>\t<path>` or `<mode> <object>
/// <stage>\t<path>`.
fn parse(line: &[u8], hash: HashKind) -> Option<NewEntry> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let space = digits + line[digits..].find_byte(b' ')?;
    let mode = octal(&line[..space])?;
    let tab = space + line[space..].find_byte(b'\t')?;
    let (head, path) = (&line[space..tab], line[tab + 1..].into());
    let (head, stage) = match head {
        [rest @ .., b' ', stage @ b'0'..=b'3'] if head.len() > hash.hex_len() => (rest, stage - b'0'),
        _ => (head, 0),
    };
    let (before, oid) = head.split_at_checked(head.len().checked_sub(hash.hex_len())?)?;
    let stage = [Stage::Normal, Stage::Base, Stage::Ours, Stage::Theirs][usize::from(stage)];
    let oid = ObjectId::from_hex(hash, oid).filter(|_| before.ends_with(b" "))?;
    Some(NewEntry { path, mode, oid, stage })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_kinds_of_lines() {
        let oid = "0123456789012345678901234567890123456789";
        let parsed = |line: &str| {
            let line = line.replace("OID", oid);
            parse(line.as_bytes(), HashKind::Sha1)
                .map(|line| (line.mode, line.stage as u8, line.path.to_string()))
        };
        assert_eq!(parsed("100644 OID\ta b"), Some((0o100644, 0, "a b".into())));
        assert_eq!(parsed("100755 blob OID\t\"a\""), Some((0o100755, 0, "\"a\"".into())));
        assert_eq!(parsed("0 OID 2\ta\tb"), Some((0, 2, "a\tb".into())));
        assert_eq!(parsed("100644 OID\t"), Some((0o100644, 0, String::new())));
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
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
