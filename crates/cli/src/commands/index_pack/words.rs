//! The words of the command line. Git reads them one by one: none may be abbreviated or negated.

use bstr::{BStr, BString, ByteSlice as _};
use sapwood::{HashKind, index_pack::Options};

use crate::commands::reason::Reason;

/// The parsed command line. A command line that Git refuses is left to it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) pack: Option<BString>,
    pub(super) stdin: bool,
    pub(super) fix_thin: bool,
    pub(super) keep: Option<BString>,
    /// `-o`
    pub(super) index: Option<BString>,
    pub(super) verify: bool,
    /// The header of the pack, if another process has read it already.
    pub(super) header: Option<[u8; 12]>,
    pub(super) title: Option<BString>,
    pub(super) verbose: bool,
    pub(super) shows_resolving: bool,
    pub(super) reports_end: bool,
    pub(super) options: Options,
}

/// Parses the words. The error names a word that sapwood does not serve.
pub(super) fn parse(args: &[BString]) -> Result<Request, Reason> {
    let mut request = Request::default();
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let unserved = || Reason::Option(word.to_string());
        match word.as_bytes() {
            b"--stdin" => request.stdin = true,
            b"--fix-thin" => request.fix_thin = true,
            b"--keep" => request.keep = Some(BString::default()),
            b"--verify" => request.verify = true,
            b"--fsck-objects" => request.check(b""),
            b"--strict" => {
                request.check(b"");
                request.options.strict = true;
            }
            b"--rev-index" => request.options.reverse = Some(true),
            b"--no-rev-index" => request.options.reverse = Some(false),
            b"--show-resolving-progress" => request.shows_resolving = true,
            b"--report-end-of-input" => request.reports_end = true,
            b"-v" => request.verbose = true,
            b"-o" if request.index.is_none() => {
                request.index = Some(words.next().ok_or_else(unserved)?.clone());
            }
            b"--progress-title" if request.title.is_none() => {
                request.title = Some(words.next().ok_or_else(unserved)?.clone());
            }
            other if !other.starts_with(b"-") && request.pack.is_none() => request.pack = Some(word.clone()),
            _ => request.with_value(word.as_bstr()).ok_or_else(unserved)?,
        }
    }
    request.validate()
}

impl Request {
    fn check(&mut self, words: &[u8]) {
        self.options.checks.get_or_insert_default().push(words.into());
    }

    /// Parses a word of the form `--name=value`.
    fn with_value(&mut self, word: &BStr) -> Option<()> {
        let (name, value) = word.split_once_str("=")?;
        let value = value.as_bstr();
        match name {
            b"--keep" => self.keep = Some(value.to_owned()),
            b"--fsck-objects" => self.check(value),
            b"--strict" => {
                self.check(value);
                self.options.strict = true;
            }
            b"--threads" => self.options.threads = Some(number(value)?).filter(|&threads| threads > 0),
            b"--max-input-size" => self.options.limit = Some(number(value)?).filter(|&limit| limit > 0),
            b"--index-version" => {
                let (version, limit) = match value.split_once_str(",") {
                    Some((version, limit)) => (version.as_bstr(), Some(offset(limit.as_bstr())?)),
                    None => (value, None),
                };
                self.options.version = Some(number(version).filter(|version| (1..=2).contains(version))?);
                self.options.largest_short = limit;
            }
            b"--pack_header" => {
                let (version, count) = value.split_once_str(",")?;
                let mut header = *b"PACK\0\0\0\0\0\0\0\0";
                header[4..8].copy_from_slice(&number::<u32>(version.as_bstr())?.to_be_bytes());
                header[8..].copy_from_slice(&number::<u32>(count.as_bstr())?.to_be_bytes());
                self.header = Some(header);
            }
            b"--object-format" => {
                self.options.hash = Some(match value.as_bytes() {
                    b"sha1" => HashKind::Sha1,
                    b"sha256" => HashKind::Sha256,
                    _ => return None,
                });
            }
            _ => return None,
        }
        Some(())
    }

    /// Leaves combinations to Git that it refuses, or that are rarely used.
    fn validate(self) -> Result<Request, Reason> {
        let rare = match &self {
            Request { pack: None, stdin: false, .. } => "no pack",
            Request { pack: Some(_), stdin: true, .. } => "--stdin with a name",
            Request { index: Some(_), stdin: true, .. } => "--stdin with -o",
            Request { verify: true, stdin: true, .. } => "--stdin with --verify",
            Request { fix_thin: true, stdin: false, .. } => "--fix-thin without --stdin",
            Request { header: Some(_), stdin: false, .. } => "--pack_header without --stdin",
            _ => return Ok(self),
        };
        Err(Reason::command_line(rare))
    }
}

/// Parses a decimal number in canonical form. Git accepts other forms too.
fn number<N: std::str::FromStr>(text: &BStr) -> Option<N> {
    let is_plain = text == "0" || (!text.starts_with(b"0") && text.iter().all(u8::is_ascii_digit));
    if is_plain { text.to_str().ok()?.parse().ok() } else { None }
}

/// Parses an offset below 2^31, decimal or hexadecimal.
fn offset(text: &BStr) -> Option<u64> {
    let value = match text.strip_prefix(b"0x") {
        Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => {
            u64::from_str_radix(digits.to_str().ok()?, 16).ok()?
        }
        _ => number(text)?,
    };
    (value < 1 << 31).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Request, String> {
        let words: Vec<BString> = line.split_whitespace().map(BString::from).collect();
        parse(&words).map_err(|reason| reason.to_string())
    }

    #[test]
    fn reads_words() {
        let request =
            parsed("--stdin --fix-thin --keep=why --threads=3 --pack_header=2,7 -v").expect("served");
        assert_eq!(request.keep, Some("why".into()));
        assert_eq!(request.options.threads, Some(3));
        assert_eq!(request.header, Some(*b"PACK\0\0\0\x02\0\0\0\x07"));
        assert!(request.stdin && request.fix_thin && request.verbose);
        let request = parsed("--index-version=2,0x40000 -o 3.idx a.pack").expect("served");
        let Options { version, largest_short, .. } = request.options;
        assert_eq!((version, largest_short), (Some(2), Some(0x40000)));
        assert_eq!((request.index, request.pack), (Some("3.idx".into()), Some("a.pack".into())));
    }

    #[test]
    fn leaves_other_words_to_git() {
        for line in [
            "",
            "a b",
            "--threads=0x2 a",
            "--index-version=3 a",
            "-o",
            "--fix-thin a",
            "--verify --stdin",
            "--stdin a",
            "--pack_header=2 --stdin",
            "--no-keep a",
            "--index-version=2,0x80000000 a",
            "--object-format=md5 a",
            "--stdi",
            "--promisor --stdin",
        ] {
            parsed(line).expect_err(line);
        }
    }
}
