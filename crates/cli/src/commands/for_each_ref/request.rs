//! The command line of `for-each-ref`.

use bstr::{BString, ByteSlice as _};

use sapwood::for_each_ref::{self, Format, Quoting, SortKey};

use crate::{
    commands::{reason::Reason, record::LineCheck},
    term::{
        args::{Both, Grammar, On, Opt, Set, Survey, Table, Value},
        failure::Failure,
    },
};

pub(super) const TABLE: Table<Set<Request>> = Table {
    usage: &[
        "sapwood for-each-ref [--count=<count>] [--shell|--perl|--python|--tcl]\n                         \
              [(--sort=<key>)...] [--format=<format>]\n                         \
              [--include-root-refs] [--points-at=<object>]\n                         \
              [--merged[=<object>]] [--no-merged[=<object>]]\n                         \
              [--contains[=<object>]] [--no-contains[=<object>]]\n                         \
              [(--exclude=<pattern>)...] [--start-after=<marker>] [<pattern>...]",
    ],
    options: &[
        Opt::new("-s, --shell", "quote placeholders suitably for shells", |request: &mut Request, _| {
            request.quote(Quoting::Shell)
        })
        .native(On),
        Opt::new("-p, --perl", "quote placeholders suitably for perl", |request: &mut Request, _| {
            request.quote(Quoting::Perl)
        })
        .native(On),
        Opt::new("--python", "quote placeholders suitably for python", |request: &mut Request, _| {
            request.quote(Quoting::Python)
        })
        .native(On),
        Opt::new("--tcl", "quote placeholders suitably for Tcl", |request: &mut Request, _| {
            request.quote(Quoting::Tcl)
        })
        .native(On),
        Opt::flag(
            "--omit-empty",
            "do not output a newline after empty formatted refs",
            field!(wanted.omit_empty),
        )
        .native(Both),
        Opt::new("--count <n>", "show only <n> matched refs", Request::set_count).native(On),
        Opt::text("--format <format>", "format to use for the output", field!(format)).native(On),
        Opt::text(
            "--start-after <marker>",
            "start iteration after the provided marker",
            field!(wanted.start_after),
        )
        .native(Both),
        Opt::new("--color[=<when>]", "respect format colors", Request::set_color).native(Both),
        Opt::list("--exclude <pattern>", "exclude refs which match pattern", field!(wanted.excluded))
            .native(Both),
        Opt::new("--sort <key>", "field name to sort on", Request::set_sort).native(Both),
        Opt::list(
            "--points-at <object>",
            "print only refs which points at the given object",
            field!(points_at),
        )
        .native(On),
        Opt::list("--merged <commit>", "print only refs that are merged", field!(merged))
            .only()
            .at_end("HEAD")
            .native(On),
        Opt::list("--no-merged <commit>", "print only refs that are not merged", field!(not_merged))
            .only()
            .at_end("HEAD")
            .native(On),
        Opt::list("--contains <commit>", "print only refs which contain the commit", field!(contains))
            .only()
            .at_end("HEAD")
            .native(On),
        Opt::list(
            "--no-contains <commit>",
            "print only refs which don't contain the commit",
            field!(not_contains),
        )
        .only()
        .at_end("HEAD")
        .native(On),
        Opt::flag("--ignore-case", "sorting and filtering are case insensitive", field!(wanted.icase))
            .native(Both),
        Opt::flag("--stdin", "read reference patterns from stdin", field!(stdin)),
        Opt::flag("--include-root-refs", "also include HEAD ref and pseudorefs", field!(wanted.root))
            .native(Both),
    ],
    grammar: Grammar::Mixed,
};

#[derive(Default)]
pub(super) struct Request {
    /// The part that the library takes as it is.
    pub(super) wanted: for_each_ref::Request,
    format: Option<BString>,
    pub(super) color: When,
    sort: Vec<BString>,
    /// `--no-sort` removed Git's default key.
    no_sort: bool,
    pub(super) points_at: Vec<BString>,
    pub(super) merged: Vec<BString>,
    pub(super) not_merged: Vec<BString>,
    pub(super) contains: Vec<BString>,
    pub(super) not_contains: Vec<BString>,
    pub(super) stdin: bool,
}

/// The value of `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum When {
    Always,
    Never,
    #[default]
    Auto,
}

/// Returns the failure for a command line that [`line()`] leaves to Git.
fn unserved() -> Failure {
    Failure::unsupported("this format, key or value")
}

impl Request {
    fn quote(&mut self, quoting: Quoting) -> Result<(), Failure> {
        if self.wanted.quoting != Quoting::None && self.wanted.quoting != quoting {
            return Err(Failure::Error("more than one quoting style?".into(), 129));
        }
        self.wanted.quoting = quoting;
        Ok(())
    }

    fn set_count(&mut self, value: Value) -> Result<(), Failure> {
        let text = value.text.unwrap_or_default();
        self.wanted.count = text.to_str().ok().and_then(|text| text.parse().ok()).ok_or_else(unserved)?;
        Ok(())
    }

    fn set_color(&mut self, value: Value) -> Result<(), Failure> {
        self.color = match value.text_or("always").as_ref().map(|text| text.as_bytes()) {
            Some(b"always") => When::Always,
            None | Some(b"never") => When::Never,
            Some(b"auto") => When::Auto,
            Some(_) => return Err(unserved()),
        };
        Ok(())
    }

    fn set_sort(&mut self, value: Value) -> Result<(), Failure> {
        match value.text {
            Some(key) => self.sort.push(key),
            None => {
                self.sort.clear();
                self.no_sort = true;
            }
        }
        Ok(())
    }

    /// Parses the format.
    pub(super) fn format(&self) -> Result<Format, Failure> {
        let Some(given) = &self.format else { return Ok(Format::default()) };
        Format::parse(given.as_bstr()).ok_or_else(unserved)
    }

    /// Returns the sort keys, the most significant one first.
    pub(super) fn keys(&self) -> Result<Vec<SortKey>, Failure> {
        let keys = self.sort.iter().rev().map(|key| SortKey::parse(key.as_bstr()));
        keys.collect::<Option<_>>().ok_or_else(unserved)
    }

    /// Returns true if refs are not sorted, even with `--ignore-case`.
    pub(super) fn sorts_nothing(&self) -> bool {
        self.no_sort && self.sort.is_empty()
    }

    /// Returns true if Git sees more than one key.
    pub(super) fn has_own_order(&self) -> bool {
        self.sort.len() + usize::from(!self.no_sort) > 1
    }
}

/// Checks the values of the options.
pub(super) const LINE: LineCheck = LineCheck::new(
    "a format or a key of `--sort` that sapwood does not know; unusual values of `--count` and `--color`; \
     several ways to quote; `--include-root-refs` beside `--merged`, `--contains` and their opposites; an \
     order by a formatted date",
    line,
);

/// Detects a command line with elements that only Git supports.
fn line(survey: &Survey, _: &[BString]) -> Option<Reason> {
    let values = |name: &'static str| {
        survey.options.iter().filter(move |given| given.name == name).filter_map(|given| given.value.as_ref())
    };
    let is_count = |text: &BString| (1..=6).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    let is_when = |text: &BString| matches!(text.as_slice(), b"always" | b"never" | b"auto");
    let parsed: Vec<_> = values("--format").map(|text| Format::parse(text.as_bstr())).collect();
    let says = |what: &str| Some(Reason::command_line(what));
    if parsed.iter().any(Option::is_none) {
        return says("a format that only Git knows");
    }
    if values("--sort").any(|key| SortKey::parse(key.as_bstr()).is_none()) {
        return says("a key that only Git knows");
    }
    if !values("--count").all(is_count) || !values("--color").all(is_when) {
        return says("a value that only Git knows");
    }
    let quoting = survey
        .options
        .iter()
        .filter(|given| matches!(given.name, "--shell" | "--perl" | "--python" | "--tcl"));
    let mut styles: Vec<_> = quoting.map(|given| given.name).collect();
    styles.dedup();
    if styles.len() > 1 {
        return says("several ways to quote");
    }
    // With these, Git shows no root refs.
    let judges = |name: &str| matches!(name, "--merged" | "--no-merged" | "--contains" | "--no-contains");
    let given = |wanted: &dyn Fn(&str) -> bool| survey.options.iter().any(|given| wanted(given.name));
    if given(&judges) && given(&|name| name == "--include-root-refs") {
        return says("root refs that are judged by commits");
    }
    let is_empty = survey.rest.iter().chain(values("--exclude")).any(|pattern| pattern.is_empty());
    is_empty.then(|| Reason::command_line("an empty pattern"))
}
