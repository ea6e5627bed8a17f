//! Whether certain lines are among those that a diff of two files shows as removed or added.
//!
//! Which lines these are depends on the diff: Git's is by Myers ("An O(ND) Difference Algorithm and its Variations", 1986), in linear space, and ends
//! searches that take long with what they have, as GNU diff does. What Git leaves out beforehand and when it gives up shows in the answer, so
//! the limits here are Git's. How a diff slides its hunks does not: the lines in them stay the same.
//!
//! Most files need no diff: those without such a line where they differ, and those that have them in another order or number.

use std::collections::HashMap;

use bstr::ByteSlice as _;

/// A line that the other file has so often is common, whatever its length.
const COMMON: usize = 1024;
/// So many lines before and behind one are looked at.
const WINDOW: usize = 100;
/// A search has so many rounds, and more in long files.
const ROUNDS: i64 = 256;
/// After so many rounds a path that looks good will do.
const IMPATIENT: i64 = 256;
/// It does if so many lines in a row are the same.
const SNAKE: i64 = 20;
/// And if it is so far for each round.
const FAR: i64 = 4;

/// Whether a diff of `old` and `new` removes or adds a line that `is_sought` is true of. Lines have their end; the last one may not.
pub(super) fn differ(old: &[u8], new: &[u8], is_sought: impl Fn(&[u8]) -> bool) -> bool {
    let mut lines = Lines::default();
    let [all_old, all_new] = [(old, 0), (new, 1)].map(|(content, side)| lines.number(content, side));
    let (old, new) = without_ends(&all_old, &all_new);
    let mut sought: Vec<Option<bool>> = vec![None; lines.all.len()];
    for &line in old.iter().chain(new) {
        sought[line].get_or_insert_with(|| is_sought(lines.all[line]));
    }
    let sought: Vec<bool> = sought.into_iter().map(|is_sought| is_sought.unwrap_or(false)).collect();
    if let Some(answer) = at_first_sight(old, new, &sought) {
        return answer;
    }
    let in_other = |line: usize, other: usize| lines.counts[line][other];
    let (old, left_out) = worth_comparing(old, root(all_old.len()), |line| in_other(line, 1));
    let (new, added) = worth_comparing(new, root(all_new.len()), |line| in_other(line, 0));
    left_out.iter().chain(&added).any(|&line| sought[line])
        || Search::new(&sought, old.len(), new.len()).finds(&old, &new, false)
}

/// The lines of two files, by number.
#[derive(Default)]
struct Lines<'a> {
    numbers: HashMap<&'a [u8], usize>,
    all: Vec<&'a [u8]>,
    /// How often each file has them.
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

/// What is between the lines that both begin with, and those that both end with.
fn without_ends<'a>(old: &'a [usize], new: &'a [usize]) -> (&'a [usize], &'a [usize]) {
    let start = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[start..], &new[start..]);
    let end = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    (&old[..old.len() - end], &new[..new.len() - end])
}

/// The answer if any diff gives the same.
fn at_first_sight(old: &[usize], new: &[usize], sought: &[bool]) -> Option<bool> {
    let mut olds = old.iter().filter(|&&line| sought[line]).peekable();
    let mut news = new.iter().filter(|&&line| sought[line]).peekable();
    if olds.peek().is_none() && news.peek().is_none() {
        return Some(false);
    }
    (!olds.eq(news)).then_some(true)
}

/// A power of two near the square root.
fn root(number: usize) -> usize {
    1 << (usize::BITS - number.leading_zeros()).div_ceil(2)
}

/// What a line is to the other file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Worth {
    Foreign,
    Shared,
    Common,
}

/// Parts the lines that take part from those that are taken for changed beforehand: what the other file does not have, and what is common and
/// amid such lines.
fn worth_comparing(
    lines: &[usize],
    limit: usize,
    in_other: impl Fn(usize) -> usize,
) -> (Vec<usize>, Vec<usize>) {
    let limit = limit.min(COMMON);
    let worth = |&line: &usize| match in_other(line) {
        0 => Worth::Foreign,
        count if count < limit => Worth::Shared,
        _ => Worth::Common,
    };
    let worths: Vec<Worth> = lines.iter().map(worth).collect();
    let (mut kept, mut left_out) = (Vec::new(), Vec::new());
    for (at, &line) in lines.iter().enumerate() {
        let is_kept = match worths[at] {
            Worth::Foreign => false,
            Worth::Shared => true,
            Worth::Common => !is_amid_foreign(&worths, at),
        };
        if is_kept { &mut kept } else { &mut left_out }.push(line);
    }
    (kept, left_out)
}

/// Whether the lines around a common one, as far as none is shared, are foreign on both sides, and mostly. It counts for both.
fn is_amid_foreign(worths: &[Worth], at: usize) -> bool {
    let run = |lines: &mut dyn Iterator<Item = &Worth>| {
        let run = lines.take(WINDOW).take_while(|worth| **worth != Worth::Shared);
        run.fold((0, 1), |(foreign, common), worth| match worth {
            Worth::Foreign => (foreign + 1, common),
            _ => (foreign, common + 1),
        })
    };
    let (foreign_before, common_before) = run(&mut worths[..at].iter().rev());
    let (foreign_behind, common_behind) = run(&mut worths[at + 1..].iter());
    let (foreign, common) = (foreign_before + foreign_behind, common_before + common_behind);
    foreign_before > 0 && foreign_behind > 0 && common * 4 < common + foreign
}

/// How far paths have come, by the diagonal they are on: the place in the old file less that in the new one.
struct Front {
    reach: Vec<i64>,
    /// Where the diagonal 0 is.
    zero: i64,
    low: i64,
    high: i64,
}

impl Front {
    fn new(old: usize, new: usize) -> Front {
        Front { reach: vec![0; old + new + 3], zero: new as i64 + 1, low: 0, high: 0 }
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

    /// Takes in the next diagonals, beyond which is nothing: `outside`. Those at the edge are left in their turn, as every other one is looked at.
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

/// Where two files are parted for each part to be compared by itself.
struct Parting {
    old: i64,
    new: i64,
    /// Whether the parts are to be compared to the end, however long it takes.
    in_full: [bool; 2],
}

struct Search<'a> {
    sought: &'a [bool],
    rounds: i64,
    ahead: Front,
    back: Front,
}

impl Search<'_> {
    fn new(sought: &[bool], old: usize, new: usize) -> Search<'_> {
        let rounds = ROUNDS.max(i64::try_from(root(old + new + 3)).unwrap_or(i64::MAX));
        Search { sought, rounds, ahead: Front::new(old, new), back: Front::new(old, new) }
    }

    /// Whether a line that is sought is changed.
    fn finds(&mut self, old: &[usize], new: &[usize], in_full: bool) -> bool {
        let (old, new) = without_ends(old, new);
        if let Some(answer) = at_first_sight(old, new, self.sought) {
            return answer;
        }
        // Each side has one, so neither is empty.
        let Parting { old: old_at, new: new_at, in_full } = self.part(old, new, in_full);
        let (old, old_rest) = old.split_at(old_at as usize);
        let (new, new_rest) = new.split_at(new_at as usize);
        self.finds(old, new, in_full[0]) || self.finds(old_rest, new_rest, in_full[1])
    }

    /// Searches from both ends until the paths meet, or it takes too long.
    fn part(&mut self, old: &[usize], new: &[usize], in_full: bool) -> Parting {
        let (olds, news) = (old.len() as i64, new.len() as i64);
        let same = |old_at: i64, new_at: i64| old[old_at as usize] == new[new_at as usize];
        let (ahead, back) = (&mut self.ahead, &mut self.back);
        let end = olds - news;
        let is_odd = end % 2 != 0;
        ahead.start(0, 0);
        back.start(end, olds);
        let met = |at: i64, diagonal: i64| Parting { old: at, new: at - diagonal, in_full: [true; 2] };
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
                is_good |= at - start > SNAKE;
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
                is_good |= start - at > SNAKE;
                back.set(diagonal, at);
                if !is_odd && ahead.has(diagonal) && at <= ahead.at(diagonal) {
                    return met(at, diagonal);
                }
            }
            if in_full {
                continue;
            }
            if is_good && round > IMPATIENT {
                let good = good_ahead(ahead, (old, new), round).map(|(old, new)| Parting {
                    old,
                    new,
                    in_full: [true, false],
                });
                let good = good.or_else(|| {
                    let found = good_back(back, (old, new), round);
                    found.map(|(old, new)| Parting { old, new, in_full: [false, true] })
                });
                if let Some(parting) = good {
                    return parting;
                }
            }
            if round >= self.rounds {
                break;
            }
        }
        furthest(ahead, back, olds, news)
    }
}

/// Of the paths that look good the one that is furthest, less how far it is off the middle.
fn good_ahead(ahead: &Front, (old, new): (&[usize], &[usize]), round: i64) -> Option<(i64, i64)> {
    let mut best = (FAR * round, None);
    for diagonal in ahead.diagonals() {
        let old_at = ahead.at(diagonal);
        let new_at = old_at - diagonal;
        let far = old_at + new_at - diagonal.abs();
        let is_within = |at: i64, lines: &[usize]| (SNAKE..lines.len() as i64).contains(&at);
        if far > best.0 && is_within(old_at, old) && is_within(new_at, new) {
            let [before_old, before_new] =
                [(old, old_at), (new, new_at)].map(|(lines, at)| &lines[(at - SNAKE) as usize..at as usize]);
            if before_old == before_new {
                best = (far, Some((old_at, new_at)));
            }
        }
    }
    best.1
}

/// The same from the end.
fn good_back(back: &Front, (old, new): (&[usize], &[usize]), round: i64) -> Option<(i64, i64)> {
    let (olds, news) = (old.len() as i64, new.len() as i64);
    let mut best = (FAR * round, None);
    for diagonal in back.diagonals() {
        let old_at = back.at(diagonal);
        let new_at = old_at - diagonal;
        let far = (olds - old_at) + (news - new_at) - (diagonal - (olds - news)).abs();
        let is_within = |at: i64, lines: i64| (1..=lines - SNAKE).contains(&at);
        if far > best.0 && is_within(old_at, olds) && is_within(new_at, news) {
            let [behind_old, behind_new] =
                [(old, old_at), (new, new_at)].map(|(lines, at)| &lines[at as usize..(at + SNAKE) as usize]);
            if behind_old == behind_new {
                best = (far, Some((old_at, new_at)));
            }
        }
    }
    best.1
}

/// What came furthest, from either end.
fn furthest(ahead: &Front, back: &Front, olds: i64, news: i64) -> Parting {
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
        Parting { old: ahead_at, new: ahead_sum - ahead_at, in_full: [true, false] }
    } else {
        Parting { old: back_at, new: back_sum - back_at, in_full: [false, true] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(old: &str, new: &str, line: &str) -> bool {
        differ(old.as_bytes(), new.as_bytes(), |it| it == line.as_bytes())
    }

    #[test]
    fn what_is_kept_is_not_changed() {
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
    fn roots() {
        assert_eq!([0, 1, 3, 4, 15, 16, 65_536].map(root), [1, 2, 2, 4, 4, 8, 512]);
    }
}
