//! Searches the lines that a diff of two files removes or adds for certain lines.
//!
//! The result depends on the diff algorithm. Git's follows Myers ("An O(ND) Difference Algorithm
//! and its Variations", 1986) in linear space and cuts long searches short, as GNU diff does. The
//! lines that Git discards beforehand and the round in which it gives up affect the result, so the
//! limits here are Git's. Sliding hunks does not affect the result, because their lines stay the
//! same.
//!
//! Most files need no diff: no differing line is a sought line, or the sought lines of the two
//! files differ in order or number.

use std::collections::HashMap;

use bstr::ByteSlice as _;

/// Upper limit of the threshold from which a line counts as common.
const MAX_COMMON_LIMIT: usize = 1024;
/// Number of lines before and after a line that are examined.
const WINDOW: usize = 100;
/// The minimum number of rounds after which a search gives up. The limit is higher for long files.
const MIN_ROUND_LIMIT: i64 = 256;
/// Number of rounds after which a good path is accepted.
const HEURISTIC_ROUNDS: i64 = 256;
/// A good path ends with at least this many equal lines in a row.
const MIN_SNAKE: i64 = 20;
/// The minimum progress per round of a good path.
const MIN_PROGRESS_PER_ROUND: i64 = 4;

/// Returns true if a diff of `old` and `new` removes or adds a line for which `is_sought` is true.
/// Lines include their line end; the last one may lack it.
pub(super) fn changes_sought_line(old: &[u8], new: &[u8], is_sought: impl Fn(&[u8]) -> bool) -> bool {
    let mut lines = Lines::default();
    let [all_old, all_new] = [(old, 0), (new, 1)].map(|(content, side)| lines.number(content, side));
    let (old, new) = trim_common_ends(&all_old, &all_new);
    let mut sought: Vec<Option<bool>> = vec![None; lines.all.len()];
    for &line in old.iter().chain(new) {
        sought[line].get_or_insert_with(|| is_sought(lines.all[line]));
    }
    let sought: Vec<bool> = sought.into_iter().map(|is_sought| is_sought.unwrap_or(false)).collect();
    if let Some(answer) = trivial_answer(old, new, &sought) {
        return answer;
    }
    let in_other = |line: usize, other: usize| lines.counts[line][other];
    let (old, discarded) = select_lines(old, near_square_root(all_old.len()), |line| in_other(line, 1));
    let (new, added) = select_lines(new, near_square_root(all_new.len()), |line| in_other(line, 0));
    discarded.iter().chain(&added).any(|&line| sought[line])
        || Search::new(&sought, old.len(), new.len()).changes_sought(&old, &new, false)
}

/// Returns the number of lines that a diff of `old` and `new` removes and adds.
pub(super) fn count_changes(old: &[u8], new: &[u8]) -> (usize, usize) {
    let mut lines = Lines::default();
    let [all_old, all_new] = [(old, 0), (new, 1)].map(|(content, side)| lines.number(content, side));
    let (old, new) = trim_common_ends(&all_old, &all_new);
    let in_other = |line: usize, other: usize| lines.counts[line][other];
    let (old, discarded) = select_lines(old, near_square_root(all_old.len()), |line| in_other(line, 1));
    let (new, added) = select_lines(new, near_square_root(all_new.len()), |line| in_other(line, 0));
    let mut counts = (discarded.len(), added.len());
    Search::new(&[], old.len(), new.len()).count(&old, &new, false, &mut counts);
    counts
}

/// The distinct lines of two files, each with a number.
#[derive(Default)]
struct Lines<'a> {
    numbers: HashMap<&'a [u8], usize>,
    all: Vec<&'a [u8]>,
    /// The number of occurrences of the line in each file.
    counts: Vec<[usize; 2]>,
}

impl<'a> Lines<'a> {
    fn number(&mut self, content: &'a [u8], side: usize) -> Vec<usize> {
        let mut number = |line: &'a [u8]| {
            let number = *self.numbers.entry(line).or_insert_with(|| {
                self.all.push(line);
                self.counts.push([0; 2]);
                self.all.len() - 1
            });
            self.counts[number][side] += 1;
            number
        };
        content.lines_with_terminator().map(&mut number).collect()
    }
}

/// Strips the lines that both files begin with, and those that both end with.
fn trim_common_ends<'a>(old: &'a [usize], new: &'a [usize]) -> (&'a [usize], &'a [usize]) {
    let start = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[start..], &new[start..]);
    let end = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    (&old[..old.len() - end], &new[..new.len() - end])
}

/// Returns the result if it is the same for every diff.
fn trivial_answer(old: &[usize], new: &[usize], sought: &[bool]) -> Option<bool> {
    let mut olds = old.iter().filter(|&&line| sought[line]).peekable();
    let mut news = new.iter().filter(|&&line| sought[line]).peekable();
    if olds.peek().is_none() && news.peek().is_none() {
        return Some(false);
    }
    (!olds.eq(news)).then_some(true)
}

/// Returns a power of two near the square root.
fn near_square_root(number: usize) -> usize {
    1 << (usize::BITS - number.leading_zeros()).div_ceil(2)
}

/// The frequency of a line in the other file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Frequency {
    Absent,
    Medium,
    Common,
}

/// Splits the lines into those that are compared and those that count as changed without a
/// comparison. The latter are lines that are absent from the other file, and common lines between
/// such lines.
fn select_lines(
    lines: &[usize],
    limit: usize,
    in_other: impl Fn(usize) -> usize,
) -> (Vec<usize>, Vec<usize>) {
    let limit = limit.min(MAX_COMMON_LIMIT);
    let frequency = |&line: &usize| match in_other(line) {
        0 => Frequency::Absent,
        count if count < limit => Frequency::Medium,
        _ => Frequency::Common,
    };
    let frequencies: Vec<Frequency> = lines.iter().map(frequency).collect();
    let (mut kept, mut discarded) = (Vec::new(), Vec::new());
    for (at, &line) in lines.iter().enumerate() {
        let is_kept = match frequencies[at] {
            Frequency::Absent => false,
            Frequency::Medium => true,
            Frequency::Common => !is_amid_absent(&frequencies, at),
        };
        if is_kept { &mut kept } else { &mut discarded }.push(line);
    }
    (kept, discarded)
}

/// Returns true if most lines around a common line, up to the next line of medium frequency, are
/// absent from the other file, with absent lines on both sides. The line itself counts on both
/// sides.
fn is_amid_absent(frequencies: &[Frequency], at: usize) -> bool {
    let run = |lines: &mut dyn Iterator<Item = &Frequency>| {
        let run = lines.take(WINDOW).take_while(|frequency| **frequency != Frequency::Medium);
        run.fold((0, 1), |(absent, common), frequency| match frequency {
            Frequency::Absent => (absent + 1, common),
            _ => (absent, common + 1),
        })
    };
    let (absent_before, common_before) = run(&mut frequencies[..at].iter().rev());
    let (absent_after, common_after) = run(&mut frequencies[at + 1..].iter());
    let (absent, common) = (absent_before + absent_after, common_before + common_after);
    absent_before > 0 && absent_after > 0 && common * 4 < common + absent
}

/// The furthest point of a path on each diagonal. A diagonal is the position in the old file minus
/// that in the new one.
struct Frontier {
    reach: Vec<i64>,
    /// The index of diagonal 0.
    zero: i64,
    low: i64,
    high: i64,
}

impl Frontier {
    fn new(old: usize, new: usize) -> Frontier {
        Frontier { reach: vec![0; old + new + 3], zero: new as i64 + 1, low: 0, high: 0 }
    }

    fn at(&self, diagonal: i64) -> i64 {
        self.reach[(self.zero + diagonal) as usize]
    }

    fn set(&mut self, diagonal: i64, reach: i64) {
        self.reach[(self.zero + diagonal) as usize] = reach;
    }

    fn start(&mut self, diagonal: i64, reach: i64) {
        (self.low, self.high) = (diagonal, diagonal);
        self.set(diagonal, reach);
    }

    /// Adds the next diagonal at each side, with `outside` as the point beyond it. At the edge of
    /// the matrix it drops a diagonal instead. A round visits every other diagonal.
    fn widen(&mut self, least: i64, most: i64, outside: i64) {
        if self.low > least {
            self.low -= 1;
            self.set(self.low - 1, outside);
        } else {
            self.low += 1;
        }
        if self.high < most {
            self.high += 1;
            self.set(self.high + 1, outside);
        } else {
            self.high -= 1;
        }
    }

    fn has(&self, diagonal: i64) -> bool {
        (self.low..=self.high).contains(&diagonal)
    }

    fn diagonals(&self) -> impl Iterator<Item = i64> + use<> {
        (self.low..=self.high).rev().step_by(2)
    }
}

/// The point that splits two files into parts to be compared separately.
struct Split {
    old: i64,
    new: i64,
    /// True for a part that is compared to the end, without a limit of rounds.
    in_full: [bool; 2],
}

struct Search<'a> {
    sought: &'a [bool],
    rounds: i64,
    ahead: Frontier,
    back: Frontier,
}

impl Search<'_> {
    fn new(sought: &[bool], old: usize, new: usize) -> Search<'_> {
        let rounds = MIN_ROUND_LIMIT.max(i64::try_from(near_square_root(old + new + 3)).unwrap_or(i64::MAX));
        Search { sought, rounds, ahead: Frontier::new(old, new), back: Frontier::new(old, new) }
    }

    /// Returns true if the diff removes or adds a sought line.
    fn changes_sought(&mut self, old: &[usize], new: &[usize], in_full: bool) -> bool {
        let (old, new) = trim_common_ends(old, new);
        if let Some(answer) = trivial_answer(old, new, self.sought) {
            return answer;
        }
        // Both sides contain a sought line, so neither is empty.
        let Split { old: old_at, new: new_at, in_full } = self.split(old, new, in_full);
        let (old, old_rest) = old.split_at(old_at as usize);
        let (new, new_rest) = new.split_at(new_at as usize);
        self.changes_sought(old, new, in_full[0]) || self.changes_sought(old_rest, new_rest, in_full[1])
    }

    /// Adds the numbers of lines that are removed and added.
    fn count(&mut self, old: &[usize], new: &[usize], in_full: bool, counts: &mut (usize, usize)) {
        let (old, new) = trim_common_ends(old, new);
        if old.is_empty() || new.is_empty() {
            counts.0 += old.len();
            counts.1 += new.len();
            return;
        }
        let Split { old: old_at, new: new_at, in_full } = self.split(old, new, in_full);
        let (old, old_rest) = old.split_at(old_at as usize);
        let (new, new_rest) = new.split_at(new_at as usize);
        self.count(old, new, in_full[0], counts);
        self.count(old_rest, new_rest, in_full[1], counts);
    }

    /// Searches from both ends until the paths meet or a limit is reached.
    fn split(&mut self, old: &[usize], new: &[usize], in_full: bool) -> Split {
        let (olds, news) = (old.len() as i64, new.len() as i64);
        let same = |old_at: i64, new_at: i64| old[old_at as usize] == new[new_at as usize];
        let (ahead, back) = (&mut self.ahead, &mut self.back);
        let end = olds - news;
        let is_odd = end % 2 != 0;
        ahead.start(0, 0);
        back.start(end, olds);
        let met = |at: i64, diagonal: i64| Split { old: at, new: at - diagonal, in_full: [true; 2] };
        for round in 1.. {
            let mut is_good = false;
            ahead.widen(-news, olds, -1);
            for diagonal in ahead.diagonals() {
                let (left, right) = (ahead.at(diagonal - 1), ahead.at(diagonal + 1));
                let start = if left >= right { left + 1 } else { right };
                let mut at = start;
                while at < olds && at - diagonal < news && same(at, at - diagonal) {
                    at += 1;
                }
                is_good |= at - start > MIN_SNAKE;
                ahead.set(diagonal, at);
                if is_odd && back.has(diagonal) && back.at(diagonal) <= at {
                    return met(at, diagonal);
                }
            }
            back.widen(-news, olds, i64::MAX);
            for diagonal in back.diagonals() {
                let (left, right) = (back.at(diagonal - 1), back.at(diagonal + 1));
                let start = if left < right { left } else { right - 1 };
                let mut at = start;
                while at > 0 && at - diagonal > 0 && same(at - 1, at - diagonal - 1) {
                    at -= 1;
                }
                is_good |= start - at > MIN_SNAKE;
                back.set(diagonal, at);
                if !is_odd && ahead.has(diagonal) && at <= ahead.at(diagonal) {
                    return met(at, diagonal);
                }
            }
            if in_full {
                continue;
            }
            if is_good && round > HEURISTIC_ROUNDS {
                let good = good_ahead(ahead, old, new, round).map(|(old, new)| Split {
                    old,
                    new,
                    in_full: [true, false],
                });
                let good = good.or_else(|| {
                    let found = good_back(back, old, new, round);
                    found.map(|(old, new)| Split { old, new, in_full: [false, true] })
                });
                if let Some(split) = good {
                    return split;
                }
            }
            if round >= self.rounds {
                break;
            }
        }
        furthest(ahead, back, olds, news)
    }
}

/// Returns the end of the good path that has progressed furthest, reduced by its distance from the
/// middle diagonal.
fn good_ahead(ahead: &Frontier, old: &[usize], new: &[usize], round: i64) -> Option<(i64, i64)> {
    let mut best = (MIN_PROGRESS_PER_ROUND * round, None);
    for diagonal in ahead.diagonals() {
        let old_at = ahead.at(diagonal);
        let new_at = old_at - diagonal;
        let far = old_at + new_at - diagonal.abs();
        let is_within = |at: i64, lines: &[usize]| (MIN_SNAKE..lines.len() as i64).contains(&at);
        if far > best.0 && is_within(old_at, old) && is_within(new_at, new) {
            let [before_old, before_new] = [(old, old_at), (new, new_at)]
                .map(|(lines, at)| &lines[(at - MIN_SNAKE) as usize..at as usize]);
            if before_old == before_new {
                best = (far, Some((old_at, new_at)));
            }
        }
    }
    best.1
}

/// Like [`good_ahead`], from the end of the files.
fn good_back(back: &Frontier, old: &[usize], new: &[usize], round: i64) -> Option<(i64, i64)> {
    let (olds, news) = (old.len() as i64, new.len() as i64);
    let mut best = (MIN_PROGRESS_PER_ROUND * round, None);
    for diagonal in back.diagonals() {
        let old_at = back.at(diagonal);
        let new_at = old_at - diagonal;
        let far = (olds - old_at) + (news - new_at) - (diagonal - (olds - news)).abs();
        let is_within = |at: i64, lines: i64| (1..=lines - MIN_SNAKE).contains(&at);
        if far > best.0 && is_within(old_at, olds) && is_within(new_at, news) {
            let [after_old, after_new] = [(old, old_at), (new, new_at)]
                .map(|(lines, at)| &lines[at as usize..(at + MIN_SNAKE) as usize]);
            if after_old == after_new {
                best = (far, Some((old_at, new_at)));
            }
        }
    }
    best.1
}

/// Returns the furthest point that a path from either end has reached.
fn furthest(ahead: &Frontier, back: &Frontier, olds: i64, news: i64) -> Split {
    let (mut ahead_sum, mut ahead_at) = (-1, -1);
    for diagonal in ahead.diagonals() {
        let at = ahead.at(diagonal).min(olds).min(news + diagonal);
        if ahead_sum < 2 * at - diagonal {
            (ahead_sum, ahead_at) = (2 * at - diagonal, at);
        }
    }
    let (mut back_sum, mut back_at) = (i64::MAX, i64::MAX);
    for diagonal in back.diagonals() {
        let at = back.at(diagonal).max(0).max(diagonal);
        if 2 * at - diagonal < back_sum {
            (back_sum, back_at) = (2 * at - diagonal, at);
        }
    }
    if olds + news - back_sum < ahead_sum {
        Split { old: ahead_at, new: ahead_sum - ahead_at, in_full: [true, false] }
    } else {
        Split { old: back_at, new: back_sum - back_at, in_full: [false, true] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(old: &str, new: &str, line: &str) -> bool {
        changes_sought_line(old.as_bytes(), new.as_bytes(), |it| it == line.as_bytes())
    }

    #[test]
    fn finds_only_changed_lines() {
        assert!(changes("a\nb\n", "a\n", "b\n"));
        assert!(changes("", "b\n", "b\n"));
        assert!(!changes("a\nb\n", "a\n", "a\n"));
        assert!(changes("a\nb", "a\nb\n", "b"), "the end belongs to it");
        assert!(!changes("a\nkept\nb\n", "c\nkept\nd\n", "kept\n"));
        assert!(changes("moved\na\nb\nc\n", "a\nb\nc\nmoved\n", "moved\n"));
        assert!(!changes("moved\na\nb\nc\n", "a\nb\nc\nmoved\n", "b\n"));
        assert!(changes("a\nb\n", "b\na\n", "a\n"), "the first goes");
    }

    #[test]
    fn counts_changed_lines() {
        let count = |old: &str, new: &str| count_changes(old.as_bytes(), new.as_bytes());
        assert_eq!(count("", "a\nb"), (0, 2));
        assert_eq!(count("a\nb\n", ""), (2, 0));
        assert_eq!(count("a\nb\nc\n", "a\nx\nc\n"), (1, 1));
        assert_eq!(count("moved\na\nb\nc\n", "a\nb\nc\nmoved\n"), (1, 1));
        assert_eq!(count("a\nb", "a\nb\n"), (1, 1));
    }

    #[test]
    fn rounds_square_roots_to_powers_of_two() {
        assert_eq!([0, 1, 3, 4, 15, 16, 65_536].map(near_square_root), [1, 2, 2, 4, 4, 8, 512]);
    }
}
