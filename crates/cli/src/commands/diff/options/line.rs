//! A request during parsing: how each option is stored.

use bstr::{BStr, BString, ByteSlice as _};
use repo::message::MINIMUM_ABBREV;
use sapwood::{
    diff::{Depth, Detect, Ignore, Needle, Presence, Scores, Unchanged, parse_score},
    index::Stage,
};

use super::request::{Kind, Request};
use crate::term::{
    args::{Stop, Value},
    console::text,
    failure::Failure,
};

const FORMATS_CLASH: &str =
    "options '--name-only', '--name-status', '--check', and '-s' cannot be used together";

const NEEDLES_CLASH: &str = "options '-G', '-S', and '--find-object' cannot be used together";
const REGEX_CLASH: &str =
    "options '-G' and '--pickaxe-regex' cannot be used together, use '--pickaxe-regex' with '-S'";
const ALL_CLASH: &str = "options '--pickaxe-all' and '--find-object' cannot be used together, use '--pickaxe-all' with '-G' and '-S'";

/// A request during parsing: a later option changes the meaning of earlier ones.
pub(crate) struct Line {
    pub(super) request: Request,
    /// The option that is being stored.
    pub(super) option: &'static str,
    pub(super) raw: bool,
    pub(super) names: bool,
    pub(super) statuses: bool,
    pub(super) nothing: bool,
    pub(super) quiet: bool,
    pub(super) side: Option<Stage>,
    pub(super) relative_to: Option<BString>,
    pub(super) text: Option<BString>,
    pub(super) lines: bool,
    pub(super) counts: bool,
    pub(super) is_regex: bool,
}

/// The search of `-S` and `-G`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Search {
    /// The number of places on each side.
    Counts,
    /// The lines that differ.
    Lines,
}

pub(super) fn abbrev(line: &mut Line, value: Value) -> Result<(), Failure> {
    line.request.abbrev = if value.on {
        let parse = |text: BString| number(&text).ok_or_else(|| unserved("such an '--abbrev'"));
        let digits = value.text.map(parse).transpose()?;
        Some(digits.map(|digits| digits.max(MINIMUM_ABBREV)))
    } else {
        None
    };
    Ok(())
}

pub(super) fn recursive(line: &mut Line, _: Value) -> Result<(), Failure> {
    if line.request.wanted.depth != Depth::Both {
        line.request.wanted.depth = Depth::Files;
    }
    Ok(())
}

pub(super) fn break_rewrites(line: &mut Line, value: Value) -> Result<(), Failure> {
    let scores = Scores::parse(&value.text.unwrap_or_default());
    let bad = || mistake("break-rewrites expects <n>/<m> form");
    line.request.wanted.rewrites = Some(scores.ok_or_else(bad)?);
    Ok(())
}

pub(super) fn rename_limit(line: &mut Line, value: Value) -> Result<(), Failure> {
    let limit = value.text.and_then(|text| number(&text));
    line.request.wanted.limit = Some(limit.ok_or_else(|| unserved("such a '-l'"))?);
    Ok(())
}

/// `--relative` without a directory keeps the one given before.
pub(super) fn relative(line: &mut Line, value: Value) -> Result<(), Failure> {
    line.relative_to = value.text.or(line.relative_to.take());
    line.request.relative = value.on.then(|| line.relative_to.clone());
    Ok(())
}

pub(super) fn diff_filter(line: &mut Line, value: Value) -> Result<(), Failure> {
    let classes = value.text.unwrap_or_default();
    line.request.wanted.filter.add(&classes).map_err(|unknown| {
        let unknown = text!("unknown change class '", BStr::new(&[unknown]), "' in --diff-filter=");
        mistake(text!(unknown, classes)).into()
    })
}

pub(super) fn order_file(line: &mut Line, value: Value) -> Result<(), Failure> {
    let files = &mut line.request.wanted.order_files;
    let file = value.text.unwrap_or_default();
    match file.strip_prefix(b":(optional)") {
        Some(b"") => return Err(unserved("such a '-O'").into()),
        Some(file) => files.push((file.into(), Presence::Optional)),
        None if file.is_empty() => files.clear(),
        None => files.push((file, Presence::Needed)),
    }
    Ok(())
}

pub(super) fn ignore_submodules(line: &mut Line, value: Value) -> Result<(), Failure> {
    let when = value.text.unwrap_or_else(|| "all".into());
    let bad = || mistake(format!("bad --ignore-submodules argument: {when}"));
    line.request.wanted.submodules = Some(Ignore::parse(when.as_bstr()).ok_or_else(bad)?);
    Ok(())
}

impl Line {
    pub(super) fn new(request: Request) -> Line {
        Line {
            request,
            option: "",
            raw: false,
            names: false,
            statuses: false,
            nothing: false,
            quiet: false,
            side: None,
            relative_to: None,
            text: None,
            lines: false,
            counts: false,
            is_regex: false,
        }
    }

    pub(super) fn detect(&mut self, detect: Detect, value: Value) -> Result<(), Failure> {
        let copies = detect == Detect::Copies;
        let name = if copies { "find-copies" } else { "find-renames" };
        let score = parse_score(&value.text.unwrap_or_default());
        self.request.wanted.minimum = score.ok_or_else(|| mistake(format!("invalid argument to {name}")))?;
        if copies && self.request.wanted.detect == Some(Detect::Copies) {
            self.request.wanted.unchanged = Unchanged::Listed;
        }
        self.request.wanted.detect = Some(detect);
        Ok(())
    }

    pub(super) fn look_for(&mut self, value: Value, search: Search) -> Result<(), Failure> {
        let text = value.text.unwrap_or_default();
        if text.is_empty() {
            let letter = if search == Search::Counts { 'S' } else { 'G' };
            return Err(mistake(format!("-{letter} requires a non-empty argument")).into());
        }
        self.counts |= search == Search::Counts;
        self.lines |= search == Search::Lines;
        self.text = Some(text);
        Ok(())
    }

    pub(super) fn finish(self) -> Result<Request, Failure> {
        let mut request = self.request;
        request.wanted.stage = self.side.or(request.wanted.stage);
        let has_objects = !request.object_words.is_empty();
        if [self.names, self.statuses, self.nothing].into_iter().filter(|given| *given).count() > 1 {
            request.clash = Some(FORMATS_CLASH);
        } else if [self.counts, self.lines, has_objects].into_iter().filter(|given| *given).count() > 1 {
            request.clash = Some(NEEDLES_CLASH);
        } else if self.lines && self.is_regex {
            request.clash = Some(REGEX_CLASH);
        } else if request.wanted.all_if_any && has_objects {
            request.clash = Some(ALL_CLASH);
        }
        request.kind = match (self.names, self.statuses, self.nothing || self.quiet) {
            (_, _, true) => Kind::Nothing,
            (true, _, _) => Kind::NameOnly,
            (_, true, _) => Kind::NameStatus,
            _ => Kind::Raw,
        };
        request.wanted.needle = match self.text {
            Some(text) if self.lines => Some(Needle::Lines(text)),
            Some(text) if self.is_regex => Some(Needle::Matches(text)),
            Some(text) => Some(Needle::Text(text)),
            None => has_objects.then(|| Needle::Objects(Vec::new())),
        };
        match request.wanted.needle {
            Some(Needle::Text(_) | Needle::Matches(_) | Needle::Lines(_))
                if request.wanted.depth == Depth::Directories =>
            {
                request.wanted.depth = Depth::Files
            }
            Some(Needle::Objects(_)) => request.wanted.depth = Depth::Both,
            _ => {}
        }
        // Git ends this combination with an internal error.
        if self.is_regex
            && matches!(request.wanted.needle, Some(Needle::Objects(_)))
            && request.clash.is_none()
        {
            return Err(unserved("'--pickaxe-regex' with '--find-object'").into());
        }
        // This overrides all options about renames.
        if request.wanted.unchanged == Unchanged::Listed {
            request.wanted.detect = Some(Detect::Copies);
        }
        if self.quiet {
            request.exit_code = true;
            (request.wanted.detect, request.wanted.unchanged) = (None, Unchanged::Omitted);
            // Git stops at the first difference.
            request.wanted.quick = request.wanted.filter.is_none();
        }
        Ok(request)
    }
}

fn number(text: &[u8]) -> Option<usize> {
    let is_plain = !text.is_empty() && text.len() < 10 && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_plain)?.parse().ok()
}

fn mistake(message: impl Into<BString>) -> Stop {
    Stop::Mistake { message: message.into(), usage: None }
}

pub(crate) fn unserved(what: &str) -> Stop {
    mistake(format!("{what} is not supported by sapwood yet (see SHORTCOMINGS.md)"))
}
