//! The report for people: one screen of 80 columns. Colours only emphasize what the text states:
//! bold, green, yellow and red, which are readable on light and dark backgrounds.

use std::path::PathBuf;

use repo::{Repository, keys};

use super::{
    commands::{self, CommandReport},
    facts::{
        CacheFacts, Facts, IndexFacts, IndexState, MonitorState, ObjectFacts, Sample, SparseCheckout,
        UntrackedCache,
    },
    figures::{count, several, time},
    findings::{self, Finding, Kind},
    location::Location,
    programs::{Programs, shown},
    report::Report,
};
use crate::{
    session::{invocation::Invocation, output},
    term::text::bytes::readable,
};

/// The widest line. On a wider terminal the lines stay this short, because long lines are hard to
/// read.
const WIDTH: usize = 80;

/// The narrowest line: below this, the labels would leave no room for text.
const NARROW: usize = 40;

/// The columns for labels, all of which are shorter.
const LABEL: usize = 15;

/// The number of reasons and findings shown without `--verbose`.
const MOST_REASONS: usize = 3;
const MOST_FINDINGS: usize = 6;

/// The number of commands named for one reason.
const MOST_NAMES: usize = 8;

const BOLD: &str = "1";
const RED: &str = "1;31";
const GREEN: &str = "32";
const YELLOW: &str = "33";

/// The style of the lines.
pub(super) struct Style {
    colours: bool,
    width: usize,
    home: Option<PathBuf>,
}

impl Style {
    pub(super) fn find(run: &Invocation, repo: Option<&Repository>) -> Style {
        let asked = repo.map(|repo| output::wants_color(run, repo, keys::color::UI));
        let colours = asked.unwrap_or_else(|| Ok(output::is_colour_terminal(run)));
        let refused = run.variable("NO_COLOR").is_some_and(|value| !value.is_empty());
        let home = run.variable("HOME").filter(|home| home.starts_with(b"/"));
        Style {
            colours: !refused && colours.unwrap_or(false),
            width: (output::line_width(run) + 1).clamp(NARROW, WIDTH),
            home: home.map(|home| sys::os_str(home).into()),
        }
    }
}

/// The lines of the report.
pub(super) fn lines(report: &Report, style: &Style, verbose: bool) -> Vec<String> {
    let mut page = Page { style, lines: Vec::new() };
    page.programs(&report.programs);
    page.location(&report.location);
    if verbose {
        report.commands.iter().for_each(|command| page.command(command))
    } else {
        page.commands(&report.commands)
    }
    if let Some(facts) = &report.facts {
        page.facts(facts);
    }
    page.findings(report, verbose);
    page.lines
}

struct Page<'a> {
    style: &'a Style,
    lines: Vec<String>,
}

impl Page<'_> {
    fn paint(&self, code: &str, text: &str) -> String {
        if self.style.colours { format!("\x1b[{code}m{text}\x1b[m") } else { text.to_owned() }
    }

    fn heading(&mut self, code: &str, text: &str) {
        self.lines.push(String::new());
        self.lines.push(self.paint(code, text));
    }

    /// Adds a label and its text, which wraps in its own column.
    fn row(&mut self, code: &str, label: &str, text: &str) {
        let gap = " ".repeat(LABEL - label.len());
        for (number, line) in wrapped(text, self.style.width - LABEL).into_iter().enumerate() {
            let lead = match number {
                0 if code.is_empty() => format!("{label}{gap}"),
                0 => self.paint(code, label) + &gap,
                _ => " ".repeat(LABEL),
            };
            self.lines.push(lead + &line);
        }
    }

    fn shown(&self, path: &std::path::Path) -> String {
        shown(path, self.style.home.as_deref())
    }

    fn programs(&mut self, programs: &Programs) {
        let version = env!("CARGO_PKG_VERSION");
        let text = match (&programs.first, &programs.hidden, &programs.switch) {
            (None, ..) => "there is none in PATH".to_owned(),
            (Some(path), _, Some(switch)) if programs.is_sapwood => {
                format!("{} is sapwood {version}, with SAPWOOD_SHIM={switch}", self.shown(path))
            }
            (Some(path), ..) if programs.is_sapwood => format!("{} is sapwood {version}", self.shown(path)),
            (Some(path), Some(link), _) => {
                format!(
                    "{}; the shim {} comes later in PATH, or not at all",
                    self.shown(path),
                    self.shown(link)
                )
            }
            (Some(path), None, _) => {
                format!("{} is not sapwood (see 'sapwood shim install')", self.shown(path))
            }
        };
        self.row(BOLD, "git", &text);
        let text = match (&programs.real, &programs.error) {
            (Some(git), _) => match &git.version {
                Some(version) => format!("{}, version {version}", self.shown(&git.path)),
                None => format!("{}, which does not run", self.shown(&git.path)),
            },
            (None, error) => error.clone().unwrap_or_default(),
        };
        self.row(BOLD, "real git", &text);
    }

    fn location(&mut self, location: &Location) {
        let text = match location {
            Location::Repository { git_dir, work_tree: Some(top) } if git_dir == &top.join(".git") => {
                self.shown(top)
            }
            Location::Repository { git_dir, work_tree: Some(top) } => {
                format!("{}, kept in {}", self.shown(top), self.shown(git_dir))
            }
            Location::Repository { git_dir, work_tree: None } => {
                format!("{}, without worktree", self.shown(git_dir))
            }
            Location::None => "none: this directory is not in a Git repository".to_owned(),
            Location::Broken(_) => "cannot be opened: every command in it is handed over".to_owned(),
        };
        self.row(BOLD, "repository", &text);
    }

    /// The commands in groups.
    fn commands(&mut self, reports: &[CommandReport]) {
        self.heading(BOLD, "Commands that sapwood runs as 'git'");
        let native = commands::names(reports.iter().filter(|report| report.reasons.is_empty()));
        if !native.is_empty() {
            self.row(GREEN, "  native", &native.join(", "));
        }
        let groups = commands::by_reason(reports);
        for (reason, names) in groups.iter().take(MOST_REASONS) {
            let names = match names.len() == commands::names(reports.iter()).len() {
                true => "every command".to_owned(),
                false if names.len() > MOST_NAMES + 1 => {
                    format!("{} and {} others", names[..MOST_NAMES].join(", "), names.len() - MOST_NAMES)
                }
                false => names.join(", "),
            };
            self.row(YELLOW, "  handed over", &format!("because {}: {names}", reason.trim_end_matches('.')));
        }
        if groups.len() > MOST_REASONS {
            let others = several(groups.len() - MOST_REASONS, "other reason");
            self.row("", "", &format!("and for {others}: see --verbose"));
        }
        self.row("", "", "All else is handed over: --verbose lists native options.");
    }

    /// Adds a command with its native options, or with the reasons to hand it over.
    fn command(&mut self, report: &CommandReport) {
        let name = report.command.name;
        let options = report.options();
        self.lines.push(String::new());
        let (head, items) = match (&report.reasons[..], &options[..]) {
            ([], []) => (format!("{name}: {}", self.paint(GREEN, "native")), vec![]),
            ([], options) => {
                let text = options.join(" ");
                (
                    format!("{name}: {} with", self.paint(GREEN, "native")),
                    wrapped(&text, self.style.width - 4),
                )
            }
            (reasons, _) => {
                let items = reasons.iter().flat_map(|reason| wrapped(reason, self.style.width - 4)).collect();
                (format!("{name}: {}, because", self.paint(YELLOW, "handed over")), items)
            }
        };
        self.lines.push(head);
        self.lines.extend(items.into_iter().map(|item| format!("    {item}")));
    }

    fn facts(&mut self, facts: &Facts) {
        self.heading(BOLD, "This repository");
        match &facts.index {
            IndexState::Missing => self.row("", "  index", "none yet"),
            IndexState::Broken { .. } => self.row("", "  index", "cannot be read"),
            IndexState::Read(index) => {
                self.row("", "  files", &files(index));
                self.row("", "  index", &form(index));
            }
        }
        self.row("", "  disk", &disk(facts));
        if let (Some(sample), IndexState::Read(index)) = (&facts.sample, &facts.index) {
            self.row("", "  speed", &speed(sample, index));
        }
        self.row("", "  caches", &caches(facts));
        self.row("", "  objects", &objects(&facts.objects));
        if facts.worktrees.linked > 0 {
            let stale = match facts.worktrees.stale {
                0 => String::new(),
                stale => format!(", {} of them gone", count(stale as u64)),
            };
            self.row("", "  worktrees", &format!("{} beside the main one{stale}", facts.worktrees.linked));
        }
    }

    fn findings(&mut self, report: &Report, verbose: bool) {
        let most = if verbose { usize::MAX } else { MOST_FINDINGS };
        let of = |kind| report.findings.iter().take(most).filter(move |finding| finding.kind == kind);
        for (kind, code, title) in
            [(Kind::Problem, RED, "Problems"), (Kind::Slow, YELLOW, "Slower than need be")]
        {
            for (number, finding) in of(kind).enumerate() {
                if number == 0 {
                    self.heading(code, title);
                }
                self.finding(finding);
            }
        }
        if report.findings.len() > most {
            let others = several(report.findings.len() - most, "finding");
            self.lines.push(format!("  and {others} more: see --verbose"));
        }
        if report.facts.is_some() && report.findings.is_empty() {
            self.heading(GREEN, "Nothing is damaged here, and nothing slows commands down.");
        }
    }

    fn finding(&mut self, finding: &Finding) {
        let lines = wrapped(&finding.message, self.style.width - 2);
        self.lines.extend(lines.into_iter().map(|line| format!("  {line}")));
        if let Some(mend) = &finding.mend {
            self.lines.push(format!("      {}", self.paint(BOLD, mend)));
        }
    }
}

/// Wraps a text at spaces.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is one line");
        match line.is_empty() {
            true => line.push_str(word),
            false if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            false => lines.push(word.to_owned()),
        }
    }
    lines
}

fn files(index: &IndexFacts) -> String {
    let mut parts = vec![format!(
        "{} in {}",
        several(index.entries - index.submodules, "file"),
        match index.directories {
            1 => "1 directory".to_owned(),
            directories => format!("{} directories", count(directories as u64)),
        },
    )];
    if index.submodules > 0 {
        parts.push(several(index.submodules, "submodule"));
    }
    if index.skipped > 0 {
        parts.push(format!("{} not in the worktree (sparse)", count(index.skipped as u64)));
    }
    parts.join(", ")
}

fn form(index: &IndexFacts) -> String {
    let mut parts = vec![readable(index.size), format!("version {}", index.version)];
    parts.extend(index.is_sparse.then(|| "sparse".to_owned()));
    parts.extend(index.is_split.then(|| "split".to_owned()));
    parts.join(", ")
}

fn disk(facts: &Facts) -> String {
    let Some(disk) = &facts.disk else { return "unknown".to_owned() };
    let name = disk.name.as_deref().unwrap_or("of an unknown type");
    format!("{name}, {}", if disk.is_local { "local" } else { "not local: each call is a request" })
}

fn speed(sample: &Sample, index: &IndexFacts) -> String {
    let files = several(index.entries - index.skipped, "file");
    let read = sample.read.map(|read| format!(", a small read {}", time(read))).unwrap_or_default();
    let pass = time(findings::pass(sample, index));
    format!("a stat takes {}{read}: a status of {files} needs about {pass}", time(sample.stat))
}

fn caches(facts: &Facts) -> String {
    let untracked = match &facts.index {
        IndexState::Read(index) => index.untracked,
        _ => CacheFacts::None,
    };
    let untracked = match (untracked, facts.settings.untracked_cache) {
        (CacheFacts::None, UntrackedCache::On) => "not filled yet".to_owned(),
        (CacheFacts::None, UntrackedCache::Off | UntrackedCache::Keep) => "off".to_owned(),
        (CacheFacts::Foreign, _) => "of another place".to_owned(),
        (CacheFacts::Here { directories, valid }, _) => {
            format!("{} of {} directories", count(valid as u64), count(directories as u64))
        }
    };
    let monitor = match &facts.monitor {
        MonitorState::None => "off",
        MonitorState::Unfit(_) => "cannot watch this place",
        MonitorState::Program => "a program",
        MonitorState::Workspace => "the upper layer of the workspace",
        MonitorState::Daemon { is_running: true } => "running",
        MonitorState::Daemon { is_running: false } => "starts when needed",
    };
    let sparse = match facts.settings.sparse {
        None => "off",
        Some(SparseCheckout::Cone) => "cone",
        Some(SparseCheckout::Patterns) => "patterns",
    };
    format!("untracked cache: {untracked}; file system monitor: {monitor}; sparse: {sparse}")
}

fn objects(objects: &ObjectFacts) -> String {
    let mut parts = vec![several(objects.packs, "pack")];
    if objects.packs > 0 {
        parts.push(readable(objects.pack_size));
        parts.push(format!("{} packed", several(usize::try_from(objects.packed).unwrap_or(0), "object")));
    }
    let about = if objects.is_loose_exact { "" } else { "about " };
    parts.push(format!("{about}{} loose", count(objects.loose as u64)));
    parts.extend(objects.has_commit_graph.then(|| "commit-graph".to_owned()));
    parts.extend(objects.indexed_packs.map(|_| "multi-pack-index".to_owned()));
    if objects.alternates > 0 {
        parts.push(several(objects.alternates, "alternate"));
    }
    parts.extend(objects.is_partial.then(|| "partial clone".to_owned()));
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrapped("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrapped("/a/path/wider/than/that x", 7), ["/a/path/wider/than/that", "x"]);
        assert_eq!(wrapped("", 7), [""]);
    }
}
