#![allow(clippy::disallowed_methods)]

use bstr::{BString, ByteSlice as _};
use testkit::{Repo, Sandbox};

use super::{approximate, parse};

/// Returns Git's reading of a committer's date as `<seconds> <zone>`; `None` if Git refuses it.
fn git_date(repo: &Repo<'_>, text: &str) -> Option<BString> {
    let mut command = repo.git_command();
    // Our parser uses the time zone of this process.
    match std::env::var_os("TZ") {
        Some(zone) => command.env("TZ", zone),
        None => command.env_remove("TZ"),
    };
    let output = command.env("GIT_COMMITTER_DATE", text).args(["var", "GIT_COMMITTER_IDENT"]).output();
    let output = output.expect("git runs");
    let line = output.stdout.trim_end().as_bstr();
    output.status.success().then(|| line.rsplit_once_str("> ").expect("an identity").1.into())
}

fn ours(text: &str) -> Option<BString> {
    let now = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs();
    parse(text.as_bytes(), now.cast_signed()).map(|time| time.to_string().into())
}

#[track_caller]
fn same(repo: &Repo<'_>, text: &str) {
    assert_eq!(git_date(repo, text), ours(text), "{text:?}; git left, ours right");
}

#[test]
fn parses_known_dates() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("r");
    for text in [
        "@1700000000 +0130",
        "@0 +0000",
        "@0 -0001",
        "@1 + 130",
        "@1 +-130",
        "@18446744073709551615 +0000",
        "@18446744073709551614 +0000",
        "@5",
        "@1700000000 +0130 ",
        "1700000000 -0800",
        "1700000000",
        "99999999 +0000",
        "100000000 +0000",
        "0 +0000",
        "18446744073709551615",
        "9223372036854775807",
        "67768036191676799",
        "11807545549029312672 2018-08-20",
        "Mon 20 Aug 2018 20:19:19 +0200",
        "Mon Aug 20 20:19:19 CEST 2018",
        "Mon Aug 20 08:19:19 PM UTC 2018",
        "Thu, 07 Apr 2005 22:13:13 +0200",
        "2005-04-07T22:13:13+0200",
        "2005-04-07T22:13:13.5Z",
        "20180820T201919Z",
        "20180820T2019",
        "20180820T20",
        "20180820T201919.25",
        "2018-08-20",
        "2018-08-20 20:19:19 +02:30",
        "2018-08-20 20:19:19 +02:-3",
        "2018-08-20 20:19:19 +02:",
        "2018-08-20 20:19:19 +02: 3",
        "2018-08-20 24:00:60",
        "2018-08-20 24:60:00",
        "2018 Aug 10:00:00",
        "1970 Jan 0:0:0",
        "2099-12-31 23:59:59 -0001",
        "2099-12-31 23:59:59 -0100",
        "1969-12-31 23:59:59 +0000",
        "1970-01-01 00:00:00 +0100",
        "2100-01-01 00:00:00 +0000",
        "2018-08-20 10:00:00 -0001",
        "20.8.2018 10:00",
        "8/20/2018 10:00",
        "20/8/2018 10:00",
        "8/20 10:00",
        "1.2.99 1:02:03 AM",
        "yesterday",
        "now",
        "noon",
        "never",
        "2 days ago",
        "tomorrow 10:00",
        " ",
        "\n",
        "2018-08-20 10:00\n+0200",
        "2018-08-20 10:00 Zulu",
        "2018-08-20 10:00 Z",
        "2018-08-20 10:00 NT",
        "4294969314-08-20 10:00",
    ] {
        same(&repo, text);
    }
}

/// A generator of pseudo-random numbers: xorshift64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).expect("below a usize")
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }

    /// Returns a number whose count of digits is one of these.
    fn number(&mut self) -> String {
        let digits = [1, 2, 2, 2, 3, 4, 4, 5, 6, 8, 9, 10, 20][self.below(13)];
        (0..digits).map(|_| char::from(b'0' + self.below(10) as u8)).collect()
    }

    fn piece(&mut self) -> String {
        match self.below(14) {
            0 => self.of(&["Jan", "February", "mar", "APRIL", "Mayor", "Dec,", "Augus"]).to_owned(),
            1 => self.of(&["Mon", "tuesday", "WEDNES", "Thu,", "Su", "Sundays"]).to_owned(),
            2 => self.of(&["UTC", "Z", "z", "PST", "NT", "CEST", "mest", "EA", "IDLW", "Zone"]).to_owned(),
            3 => self.of(&["PM", "am", "AMs", "T", "T1", "ago", "now", "noon", "last"]).to_owned(),
            4 => format!("{}:{:02}:{:02}", self.below(26), self.below(62), self.below(62)),
            5 => format!("{:02}:{:02}", self.below(24), self.below(60)),
            6 => format!("{}-{:02}-{:02}", 1960 + self.below(150), self.below(14), self.below(33)),
            7 => {
                let mark = self.of(&["-", "/", ".", ":"]);
                format!("{}{mark}{}{mark}{}", self.below(40), self.below(40), self.below(2200))
            }
            8 => format!("{}{:04}", self.of(&["+", "-"]), self.below(2500)),
            9 => {
                format!("{}{:02}:{}", self.of(&["+", "-"]), self.below(25), self.of(&["0", "30", "-1", " 5"]))
            }
            10 => format!("{}{:02}{:02}", 1965 + self.below(140), self.below(14), self.below(33)),
            11 => (1960 + self.below(150)).to_string(),
            12 => self.below(40).to_string(),
            _ => self.number(),
        }
    }

    fn date(&mut self) -> String {
        let mut text = String::new();
        // Half of the texts begin as a valid date.
        if self.below(2) == 0 {
            let (year, month, day) = (1970 + self.below(130), 1 + self.below(12), 1 + self.below(31));
            text = format!("{year}-{month}-{day}{}{}", self.of(&[" ", "T", "", "\t"]), self.piece());
        } else if self.below(8) == 0 {
            text = format!("@{} {}", self.number(), self.of(&["+0000", "-0130", "+ 20", "+130", "-01300"]));
        }
        for _ in 0..self.below(6) {
            text.push_str(self.of(&[" ", " ", " ", "", ",", ".", "-", "T", "\n", "é"]));
            text.push_str(&self.piece());
        }
        text
    }
}

/// `SAPWOOD_TEST_DATES` sets the number of dates.
#[test]
fn parses_random_dates_as_git_does() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("r");
    let number = std::env::var("SAPWOOD_TEST_DATES").ok().and_then(|number| number.parse().ok());
    let mut random = Random(0x5eed_da7e);
    let mut taken = 0;
    for _ in 0..number.unwrap_or(600) {
        let text = random.date();
        if !text.is_empty() {
            same(&repo, &text);
            taken += usize::from(ours(&text).is_some());
        }
    }
    assert!(taken > 0, "none of them was a date");
}

/// The current time for approximate dates: a Wednesday in summer.
const NOW: i64 = 1_784_116_821;

/// Compares our reading of dates with that of `git rev-parse --since`.
#[track_caller]
fn same_guesses(repo: &Repo<'_>, texts: &[String]) {
    let mut command = repo.git_command();
    if let Some(zone) = std::env::var_os("TZ") {
        command.env("TZ", zone);
    }
    command.env("GIT_TEST_DATE_NOW", NOW.to_string()).arg("rev-parse");
    let output = command.args(texts.iter().map(|text| format!("--since={text}"))).output();
    let output = output.expect("git runs");
    assert!(output.status.success(), "{output:?}");
    let told: Vec<&[u8]> = output.stdout.lines().collect();
    assert_eq!(told.len(), texts.len());
    for (text, told) in texts.iter().zip(told) {
        let ours = approximate(text.as_bytes(), NOW).seconds.cast_unsigned();
        assert_eq!(told.as_bstr(), format!("--max-age={ours}"), "{text:?}; git left, ours right");
    }
}

#[test]
fn guesses_dates_as_git_does() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("r");
    let texts = [
        "now",
        "never",
        "today",
        "yesterday",
        "noon",
        "midnight",
        "tea",
        "noon yesterday",
        "10am today",
        "yesterday noon",
        "3 days ago at 10pm",
        "2 weeks ago",
        "2.weeks.ago",
        "one week ago",
        "last friday",
        "last wednesday",
        "2 tuesdays ago",
        "3 months ago",
        "14 months ago",
        "1 year ago",
        "ten years ago",
        "last month",
        "Jan 5",
        "5 Jan",
        "Dec 25 noon",
        "Dec 6, 1992",
        "6 Dec 92",
        "6/12/2005",
        "12/6",
        "1.2.03",
        "15:00",
        "3:15pm",
        "at 5",
        "0002 days ago",
        "02 days ago",
        "tomorrow",
        "",
        "ago",
        "nonsense",
        "10",
        "1000",
        "2000",
        "1 second ago",
        "6 sec",
        "6 min",
        "500000000 weeks",
        "4294967297 days ago",
        "January",
        "8:30 last monday",
        "12am",
        "2026-07-15",
        "2026-07-15 10:00",
        "yesterday 4:04:04.5",
    ];
    same_guesses(&repo, &texts.map(str::to_owned));
    assert!(!approximate(b"nonsense", NOW).is_date);
    assert!(approximate(b"nonsense of yesterday", NOW).is_date);
    let words = [
        "last",
        "two",
        "three",
        "ago",
        "days",
        "weeks",
        "months",
        "years",
        "hour",
        "minutes",
        "yesterday",
        "today",
        "noon",
        "tea",
        "midnight",
        "friday",
        "Wed",
        "sunday",
        "pm",
        "AM",
        "now",
        "never",
    ];
    let mut random = Random(0x9e55_da7e);
    let mut texts = Vec::new();
    for _ in 0..600 {
        let mut text = String::new();
        for _ in 0..=random.below(5) {
            text.push_str(random.of(&[" ", " ", ".", ",", ""]));
            let word = if random.below(3) > 0 { random.of(&words).to_owned() } else { random.piece() };
            text.push_str(&word);
        }
        texts.push(text);
    }
    same_guesses(&repo, &texts);
}
