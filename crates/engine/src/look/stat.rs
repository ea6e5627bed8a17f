//! Compares stat data of files with those in the index: Git's `ie_match_stat`, as values.

use format::{
    Mode, ObjectId,
    index::{Entry, Flags, Index, Stat},
};
use repo::keys;
use sys::FileType;

/// Reduces the fields that the index stores to 32 bits. A size that is a non-zero multiple of 4 GiB
/// becomes 2^31, because zero means "compare the content".
pub fn index_stat(stat: &sys::Stat) -> Stat {
    let size = match stat.size as u32 {
        0 if stat.size != 0 => 1 << 31,
        size => size,
    };
    Stat {
        ctime: (stat.ctime.0 as u32, stat.ctime.1),
        mtime: (stat.mtime.0 as u32, stat.mtime.1),
        dev: stat.dev as u32,
        ino: stat.ino as u32,
        uid: stat.uid,
        gid: stat.gid,
        size,
    }
}

/// Returns the stat data of an entry's file, as far as they are stored in the index.
pub(crate) fn recorded_stat(entry: &Entry) -> sys::Stat {
    let file_type = if entry.mode.is_symlink() { FileType::Symlink } else { FileType::File };
    let Stat { ctime, mtime, dev, ino, uid, gid, size } = entry.stat;
    sys::Stat {
        file_type,
        mode: entry.mode.bits(),
        ctime: (ctime.0.into(), ctime.1),
        mtime: (mtime.0.into(), mtime.1),
        dev: dev.into(),
        ino: ino.into(),
        uid,
        gid,
        size: size.into(),
    }
}

/// Returns true if the entry at `position` is a merged file or link and `stat` matches it in every
/// field, so that the result is [`Match::Same`] for all rules. This holds for nearly all entries,
/// and reads only their stat data.
#[inline]
pub fn matches_exactly(index: &Index, position: usize, stat: &sys::Stat) -> bool {
    let mode = match stat.file_type {
        FileType::File if stat.is_executable() => Mode::EXECUTABLE,
        FileType::File => Mode::FILE,
        FileType::Symlink => Mode::SYMLINK,
        FileType::Directory | FileType::Other => return false,
    };
    let stat = index_stat(stat);
    stat.size != 0 && !is_racy(stat.mtime, index.timestamp) && index.has_mode_and_stat(position, mode, &stat)
}

/// The settings that select which stat fields are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatRules {
    /// `core.trustctime`
    pub trust_ctime: bool,
    /// False if `core.checkStat` is `minimal`: then only whole seconds and sizes are compared.
    pub check_stat: bool,
    /// `core.fileMode`: compare the executable bit.
    pub file_mode: bool,
    /// `core.symlinks`; if false, links are regular files in the worktree.
    pub symlinks: bool,
}

impl Default for StatRules {
    fn default() -> Self {
        StatRules { trust_ctime: true, check_stat: true, file_mode: true, symlinks: true }
    }
}

/// The result of comparing a file's stat data with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// The file has the entry's content.
    Same,
    /// The stat data match, but the file was written no earlier than the index, or within the
    /// recorded second. The content decides.
    Racy,
    /// The stat data differ, or the content was never compared. Git's `update-index --refresh`
    /// would compare the content; commands that do not refresh report a change.
    Touched,
    /// The type, mode or size differs, or the entry is an intent-to-add entry.
    Different,
}

impl StatRules {
    /// Reads the rules from a repository's configuration.
    pub fn of(repo: &repo::Repository) -> Result<Self, repo::Error> {
        let minimal = repo
            .config_str(&keys::core::CHECK_STAT)
            .is_some_and(|value| value.eq_ignore_ascii_case(b"minimal"));
        Ok(StatRules {
            trust_ctime: repo.config(&keys::core::TRUSTCTIME)?,
            check_stat: !minimal,
            file_mode: repo.config(&keys::core::FILE_MODE)?,
            symlinks: repo.config(&keys::core::SYMLINKS)?,
        })
    }

    /// Compares an entry with its file's stat data, regardless of the entry's assume-valid and
    /// skip-worktree flags. `written` is the modification time of the index file.
    ///
    /// Unlike in stock builds of Git, recorded nanoseconds are compared, so a later change within
    /// the same second is detected. If only the nanoseconds differ, the content decides. Git would
    /// also compare it, because the file is racy to Git. As in Git, a racy file is recognized by
    /// whole seconds. Git would compare its content, which may differ even if the file did not
    /// change, because attributes may have changed since.
    pub fn compare(&self, entry: &Entry, stat: &sys::Stat, written: (u32, u32)) -> Match {
        if entry.flags.contains(Flags::INTENT_TO_ADD) || !self.same_kind(entry.mode, stat) {
            return Match::Different;
        }
        if entry.mode.is_gitlink() {
            return Match::Same;
        }
        let (old, now) = (entry.stat, index_stat(stat));
        if old.size == 0 && entry.oid != ObjectId::empty_blob(entry.oid.kind()) {
            return Match::Touched;
        }
        if old.size != now.size {
            return if old.size == 0 { Match::Touched } else { Match::Different };
        }
        let times = self.trust_ctime && self.check_stat;
        let mut same = old.mtime.0 == now.mtime.0 && (!times || old.ctime.0 == now.ctime.0);
        let mut exact = true;
        if self.check_stat {
            same &= (old.uid, old.gid, old.ino) == (now.uid, now.gid, now.ino);
            exact &= same_fraction(old.mtime.1, now.mtime.1);
            exact &= !times || same_fraction(old.ctime.1, now.ctime.1);
        }
        match same {
            false => Match::Touched,
            true if !exact || is_racy(old.mtime, written) => Match::Racy,
            true => Match::Same,
        }
    }

    /// Returns true if the names in a directory have not changed since its stat was `recorded`.
    /// Always false for a directory that is no older than the index, which was written at
    /// `written`.
    pub fn same_directory(&self, recorded: &Stat, stat: &sys::Stat, written: (u32, u32)) -> bool {
        let now = index_stat(stat);
        let same = |old: (u32, u32), now: (u32, u32)| {
            old.0 == now.0 && (!self.check_stat || same_fraction(old.1, now.1))
        };
        !is_racy(recorded.mtime, written)
            && recorded.size == now.size
            && same(recorded.mtime, now.mtime)
            && (!self.check_stat || !self.trust_ctime || same(recorded.ctime, now.ctime))
            && (!self.check_stat || (recorded.uid, recorded.gid, recorded.ino) == (now.uid, now.gid, now.ino))
    }

    /// Returns the mode of an entry for a file with this stat. `old` is the mode of the existing
    /// entry.
    pub fn mode(&self, old: Option<Mode>, stat: &sys::Stat) -> Mode {
        match stat.file_type {
            FileType::Symlink => Mode::SYMLINK,
            FileType::Directory => Mode::GITLINK,
            _ if !self.symlinks && old.is_some_and(Mode::is_symlink) => Mode::SYMLINK,
            _ if !self.file_mode => old.filter(|mode| mode.is_file()).unwrap_or(Mode::FILE),
            _ if stat.mode & 0o100 != 0 => Mode::EXECUTABLE,
            _ => Mode::FILE,
        }
    }

    /// Returns true if the two stat data differ by the rules of stock builds of Git.
    pub fn differs(&self, one: &Stat, other: &Stat) -> bool {
        one.mtime.0 != other.mtime.0
            || self.trust_ctime && self.check_stat && one.ctime.0 != other.ctime.0
            || self.check_stat && (one.uid, one.gid, one.ino) != (other.uid, other.gid, other.ino)
            || one.size != other.size
    }

    /// Returns true if a file with this stat can belong to an entry with this mode.
    fn same_kind(&self, mode: Mode, stat: &sys::Stat) -> bool {
        match stat.file_type {
            FileType::File if mode.is_file() => {
                !self.file_mode || mode.is_executable() == (stat.mode & 0o100 != 0)
            }
            FileType::File => mode.is_symlink() && !self.symlinks,
            FileType::Symlink => mode.is_symlink(),
            FileType::Directory => mode.is_gitlink(),
            FileType::Other => false,
        }
    }
}

/// Returns true if the nanoseconds are equal or were not recorded.
fn same_fraction(old: u32, now: u32) -> bool {
    old == 0 || old == now
}

/// Returns true if a file with modification time `mtime` may have changed without a change of its
/// stat data, after an index written at `written` recorded it.
fn is_racy(mtime: (u32, u32), written: (u32, u32)) -> bool {
    written.0 != 0 && mtime.0 >= written.0
}

#[cfg(test)]
mod tests {
    use bstr::ByteSlice;
    use format::{
        HashKind,
        index::{Index, NewEntry, Stage},
    };

    use super::*;

    const STAT: sys::Stat = sys::Stat {
        file_type: FileType::File,
        mode: 0o100644,
        ctime: (100, 5),
        mtime: (100, 5),
        dev: 1,
        ino: 7,
        uid: 0,
        gid: 0,
        size: 3,
    };

    fn compare(rules: StatRules, mode: Mode, flags: Flags, now: sys::Stat, written: (u32, u32)) -> Match {
        let mut index = Index::empty(HashKind::Sha1);
        let entry = NewEntry {
            stat: index_stat(&STAT),
            oid: ObjectId::null(HashKind::Sha1),
            mode,
            flags,
            stage: Stage::Normal,
        };
        index.push(b"a".as_bstr(), entry);
        rules.compare(&index.entry(0), &now, written)
    }

    #[test]
    fn compares_the_fields_that_the_rules_select() {
        let rules = StatRules::default();
        let none = Flags::empty();
        let minimal = StatRules { check_stat: false, ..rules };
        let no_ctime = StatRules { trust_ctime: false, ..rules };
        let no_mode = StatRules { file_mode: false, ..rules };
        let after = (200, 0);
        assert_eq!(compare(rules, Mode::FILE, none, STAT, after), Match::Same);
        assert_eq!(compare(rules, Mode::FILE, none, STAT, (100, 5)), Match::Racy);
        assert_eq!(compare(rules, Mode::FILE, none, STAT, (100, 6)), Match::Racy);
        assert_eq!(compare(rules, Mode::FILE, none, STAT, (101, 0)), Match::Same);
        assert_eq!(compare(rules, Mode::FILE, Flags::INTENT_TO_ADD, STAT, after), Match::Different);
        let touched = sys::Stat { mtime: (100, 6), ..STAT };
        assert_eq!(compare(rules, Mode::FILE, none, touched, after), Match::Racy);
        let later = sys::Stat { mtime: (101, 5), ..STAT };
        assert_eq!(compare(rules, Mode::FILE, none, later, after), Match::Touched);
        assert_eq!(compare(minimal, Mode::FILE, none, touched, after), Match::Same);
        let moved = sys::Stat { ctime: (101, 0), ..STAT };
        assert_eq!(compare(rules, Mode::FILE, none, moved, after), Match::Touched);
        assert_eq!(compare(no_ctime, Mode::FILE, none, moved, after), Match::Same);
        let grown = sys::Stat { size: 4, ..STAT };
        assert_eq!(compare(rules, Mode::FILE, none, grown, after), Match::Different);
        assert_eq!(compare(rules, Mode::EXECUTABLE, none, STAT, after), Match::Different);
        assert_eq!(compare(no_mode, Mode::EXECUTABLE, none, STAT, after), Match::Same);
        assert_eq!(compare(rules, Mode::SYMLINK, none, STAT, after), Match::Different);
        let directory = sys::Stat { file_type: FileType::Directory, ..STAT };
        assert_eq!(compare(rules, Mode::GITLINK, none, directory, after), Match::Same);
        assert_eq!(compare(rules, Mode::FILE, none, directory, after), Match::Different);
    }

    /// The fast path agrees with the full comparison for all rules.
    #[test]
    fn the_fast_path_agrees_with_the_full_comparison() {
        let glance = |mode, flags, stage, now: &sys::Stat, written| {
            let mut index = Index::empty(HashKind::Sha1);
            let oid = ObjectId::null(HashKind::Sha1);
            index.push(b"a".as_bstr(), NewEntry { stat: index_stat(&STAT), oid, mode, flags, stage });
            index.timestamp = written;
            matches_exactly(&index, 0, now)
        };
        let (none, after) = (Flags::empty(), (200, 0));
        assert!(glance(Mode::FILE, none, Stage::Normal, &STAT, after));
        assert!(glance(Mode::FILE, Flags::ASSUME_VALID, Stage::Normal, &STAT, after));
        assert!(!glance(Mode::FILE, none, Stage::Ours, &STAT, after));
        assert!(!glance(Mode::FILE, none, Stage::Normal, &sys::Stat { size: 0, ..STAT }, after));
        let others = [
            sys::Stat { mode: 0o100755, ..STAT },
            sys::Stat { file_type: FileType::Symlink, ..STAT },
            sys::Stat { file_type: FileType::Directory, ..STAT },
            sys::Stat { mtime: (100, 6), ..STAT },
            sys::Stat { dev: 2, ..STAT },
            STAT,
        ];
        let modes = [Mode::FILE, Mode::EXECUTABLE, Mode::SYMLINK, Mode::GITLINK];
        let all = StatRules::default();
        let rules = [
            all,
            StatRules { trust_ctime: false, ..all },
            StatRules { check_stat: false, ..all },
            StatRules { file_mode: false, ..all },
            StatRules { symlinks: false, ..all },
        ];
        for (now, mode) in others.iter().flat_map(|now| modes.map(|mode| (now, mode))) {
            for flags in [none, Flags::INTENT_TO_ADD, Flags::SKIP_WORKTREE] {
                for written in [(0, 0), (100, 0), (101, 0)] {
                    if glance(mode, flags, Stage::Normal, now, written) {
                        let same = |rules| compare(rules, mode, flags, *now, written);
                        assert_eq!(rules.map(same), [Match::Same; 5]);
                    }
                }
            }
        }
    }

    #[test]
    fn compares_sizes_beyond_32_bits() {
        assert_eq!(index_stat(&sys::Stat { size: 1 << 33, ..STAT }).size, 1 << 31);
        assert_eq!(index_stat(&sys::Stat { size: (1 << 33) + 5, ..STAT }).size, 5);
        assert_eq!(index_stat(&sys::Stat { size: 0, ..STAT }).size, 0);
    }
}
