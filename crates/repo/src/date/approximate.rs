//! Dates as people write them: `yesterday`, `2 weeks ago`, `last friday`, `noon`.
//!
//! Every text yields a date: the current time supplies the fields that the text leaves out. Source:
//! Git's `approxidate_str`. Its order of attempts is kept, because many texts can be read in
//! several ways.

use sys::{Clocks, LocalTime};

use super::{
    Date, Fields, UNSET, digits, parse,
    words::{MONTHS, NUMBERS, SPANS, WEEKDAYS, common},
};

const DAY: i32 = 86_400;

/// The result of [`approximate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Approximate {
    /// Seconds since 1970.
    pub(crate) seconds: i64,
    /// False if no word of the text was recognized.
    pub(crate) is_date: bool,
}

/// Parses an exact date, or else an approximate one. `now` is the current time, in seconds since
/// 1970.
pub(crate) fn approximate(text: &[u8], now: i64) -> Approximate {
    if let Some(exact) = parse(text, now) {
        return Approximate { seconds: exact.seconds.cast_signed(), is_date: true };
    }
    let today = sys::local_fields(now);
    let fields = Fields { year: UNSET, month: UNSET, day: UNSET, ..Fields::of(today) };
    let date = Date { text, now, fields, offset: UNSET, is_utc: false };
    let LocalTime { weekday, clocks, .. } = today;
    Guess { date, today: Fields::of(today), weekday, clocks, number: 0, is_date: false }.run()
}

impl Fields {
    fn of(time: LocalTime) -> Fields {
        let [year, month, day, hour, minute, second] = time.fields;
        Fields { year, month, day, hour, minute, second }
    }

    fn has_time_of(&self, other: &Fields) -> bool {
        (self.hour, self.minute, self.second) == (other.hour, other.minute, other.second)
    }
}

struct Guess<'a> {
    date: Date<'a>,
    today: Fields,
    weekday: i32,
    clocks: Clocks,
    /// A number whose meaning depends on the next word; 0 if there is none.
    number: i32,
    is_date: bool,
}

impl Guess<'_> {
    fn run(mut self) -> Approximate {
        let mut at = 0;
        while let Some(&byte) = self.date.text.get(at).filter(|&&byte| byte != 0) {
            at = match byte {
                b'0'..=b'9' => {
                    self.place_number();
                    self.is_date = true;
                    self.digits(at)
                }
                b'a'..=b'z' | b'A'..=b'Z' => {
                    let rest = &self.date.text[at..];
                    let len = rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
                    // `len` ends before a digit, but a word followed by a digit matches no name.
                    self.is_date |= self.word(rest);
                    at + len
                }
                _ => at + 1,
            };
        }
        self.place_number();
        Approximate { seconds: self.go_back(0), is_date: self.is_date }
    }

    /// Reads a number, or a time or date that begins with it. Returns the end.
    fn digits(&mut self, at: usize) -> usize {
        let (number, end) = digits(self.date.text, at);
        if matches!(self.date.byte(end), b':' | b'.' | b'/' | b'-') && self.date.is_digit(end + 1) {
            let taken = self.date.several(number, at..end);
            if taken > 0 {
                return at + taken;
            }
        }
        // `Dec 02` is a date, `Dec 0002` is not.
        if self.date.byte(at) != b'0' || end - at <= 2 {
            self.number = number as i32;
        }
        end
    }

    /// Stores a number without a word as day, month or year: the first of these that is unset and
    /// fits.
    fn place_number(&mut self) {
        let (number, fields) = (std::mem::take(&mut self.number), &mut self.date.fields);
        if number == 0 {
            return;
        }
        if fields.day < 0 && number < 32 {
            fields.day = number;
        } else if fields.month < 0 && number < 13 {
            fields.month = number - 1;
        } else if fields.year < 0 {
            match number {
                1970..2100 => fields.year = number - 1900,
                70..100 => fields.year = number,
                ..38 => fields.year = number + 100,
                _ => {}
            }
        }
    }

    /// Reads the word at the beginning of `rest`. Returns false if the word is not recognized.
    fn word(&mut self, rest: &[u8]) -> bool {
        if let Some(month) = MONTHS.iter().position(|name| common(rest, name) >= 3) {
            self.date.fields.month = month as i32;
            return true;
        }
        let is = |name: &str| common(rest, name) == name.len();
        if let Some((_, act)) = SPECIAL.iter().find(|(name, _)| is(name)) {
            act(self);
            return true;
        }
        if self.number == 0 {
            if let Some(before) = NUMBERS.iter().position(|name| is(name)) {
                self.number = before as i32 + 1;
                return true;
            }
            if is("last") {
                self.number = 1;
            }
            return is("last");
        }
        if let Some((_, seconds)) = SPANS.iter().find(|(name, _)| common(rest, name) >= name.len() - 1) {
            let count = std::mem::take(&mut self.number);
            self.go_back(seconds.wrapping_mul(count));
            return true;
        }
        if let Some(weekday) = WEEKDAYS.iter().position(|name| common(rest, name) >= 3) {
            let days = self.weekday - weekday as i32;
            let weeks = std::mem::take(&mut self.number) - i32::from(days > 0);
            self.go_back(days.wrapping_add(weeks.wrapping_mul(7)).wrapping_mul(DAY));
            return true;
        }
        if common(rest, "months") >= 5 {
            self.go_back(0);
            let months = self.date.fields.month.wrapping_sub(std::mem::take(&mut self.number));
            self.date.fields.month = if months < 0 { months.rem_euclid(12) } else { months };
            self.date.fields.year += months.div_euclid(12).min(0);
            return true;
        }
        if common(rest, "years") >= 4 {
            self.go_back(0);
            let years = std::mem::take(&mut self.number);
            self.date.fields.year = self.date.fields.year.wrapping_sub(years);
            return true;
        }
        false
    }

    /// Sets the unset day, month and year from today, and goes back by `seconds`.
    fn go_back(&mut self, mut seconds: i32) -> i64 {
        let (fields, today) = (&mut self.date.fields, &self.today);
        if fields.day < 0 {
            let days = -(fields.day + 1);
            if seconds == 0 && days > 0 {
                seconds = days.wrapping_mul(DAY);
            }
            fields.day = today.day;
        }
        if fields.month < 0 {
            fields.month = today.month;
        }
        if fields.year < 0 {
            fields.year = today.year - i32::from(fields.month > today.month);
        }
        let Fields { year, month, day, hour, minute, second } = *fields;
        let there = sys::local_time([year, month, day, hour, minute, second], self.clocks);
        let moment = there - i64::from(seconds);
        self.set(moment);
        moment
    }

    fn set(&mut self, moment: i64) {
        let time = sys::local_fields(moment);
        self.date.fields = Fields::of(time);
        (self.weekday, self.clocks) = (time.weekday, time.clocks);
    }

    /// Sets the hour. Without a day, the date is the most recent moment with this hour.
    fn set_hour(&mut self, hour: i32) {
        let fields = &mut self.date.fields;
        if fields.day < 0 && fields.hour < hour {
            // `go_back` goes back by one day.
            fields.day = -2;
        }
        (fields.hour, fields.minute, fields.second) = (hour, 0, 0);
    }

    /// Takes the pending number as an hour before (`first` is 0) or after noon (`first` is 12).
    fn set_half_day(&mut self, first: i32) {
        let (number, fields) = (std::mem::take(&mut self.number), &mut self.date.fields);
        if number != 0 {
            (fields.hour, fields.minute, fields.second) = (number, 0, 0);
        }
        fields.hour = fields.hour % 12 + first;
    }

    /// Goes back by `days` days; 0 means today.
    fn set_day_before(&mut self, days: i32) {
        self.number = 0;
        self.date.fields.day = UNSET;
        self.go_back(days * DAY);
    }
}

type Act = fn(&mut Guess<'_>);

/// Words with a special meaning.
const SPECIAL: [(&str, Act); 9] = [
    ("yesterday", |guess| guess.set_day_before(1)),
    ("noon", |guess| {
        guess.place_number();
        guess.set_hour(12);
    }),
    ("midnight", |guess| {
        guess.place_number();
        guess.set_hour(0);
    }),
    ("tea", |guess| {
        guess.place_number();
        guess.set_hour(17);
    }),
    ("PM", |guess| guess.set_half_day(12)),
    ("AM", |guess| guess.set_half_day(0)),
    ("never", |guess| {
        guess.set(0);
        guess.number = 0;
    }),
    ("now", |guess| {
        guess.number = 0;
        guess.go_back(0);
    }),
    ("today", |guess| {
        if guess.date.fields.has_time_of(&guess.today) {
            guess.set_hour(0);
        }
        guess.set_day_before(0);
    }),
];
