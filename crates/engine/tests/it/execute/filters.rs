//! Conversions, and external filters in their lane.

use engine::checkout::{Outcome, Premise};
use testkit::FILTER_PROTOCOL;

use super::fixture::{Fixture, Item, kinds, tree};

/// A filter process that converts to upper case. A file with "slow" in its name is delayed, and
/// delivered at the second request. "never" is promised and never delivered. "bad" is refused.
const PROCESS: &str = r#"
my (%late, @ready, $asked);
while (1) {
    my %h = map { split /=/, $_, 2 } lines();
    if ($h{command} eq "list_available_blobs") {
        my @now = $asked++ ? sort keys %late : ();
        @now = () if $asked > 2;
        # At the first question nothing may be ready only if something comes later: answer with one file.
        @now = (sort keys %late)[0..0] if $asked == 1 && %late;
        for (@now) { packet("pathname=$_\n"); push @ready, $_; }
        flush(); packet("status=success\n"); flush();
        next;
    }
    my $data = content();
    my $path = $h{pathname};
    if (exists $late{$path}) { $data = delete $late{$path}; }
    elsif ($path =~ /never/ && $h{"can-delay"}) { packet("status=delayed\n"); flush(); next; }
    elsif ($path =~ /slow/ && $h{"can-delay"}) { $late{$path} = $data; packet("status=delayed\n"); flush(); next; }
    elsif ($path =~ /bad/) { packet("status=error\n"); flush(); next; }
    packet("status=success\n"); flush();
    packet(uc $data) if length $data; flush(); flush();
}
"#;

fn with_process(workers: usize) -> Fixture {
    let fixture = Fixture::new(workers);
    let script = fixture.worktree.with_file_name("filter.pl");
    std::fs::write(&script, [FILTER_PROTOCOL, PROCESS].concat()).expect("a script");
    fixture.config("filter.upper.process", &format!("perl {}", script.display()));
    fixture
}

const ATTRIBUTES: &str = "*.up filter=upper\n*.crlf text eol=crlf\n";

#[test]
fn writes_filtered_converted_and_plain_files() {
    for workers in [1, 8] {
        let fixture = with_process(workers);
        let plan = fixture.writes(&[
            (".gitattributes", Item::File(ATTRIBUTES), Premise::Absent),
            ("a.up", Item::File("at once\n"), Premise::Absent),
            ("d/e/slow-1.up", Item::File("later\n"), Premise::Absent),
            ("d/e/slow-2.up", Item::Executable("much later\n"), Premise::Absent),
            ("d/lines.crlf", Item::File("one\ntwo\n"), Premise::Absent),
            ("d/link", Item::Link("a.up"), Premise::Absent),
            ("plain", Item::File("plain\n"), Premise::Absent),
        ]);
        assert_eq!(
            fixture.complete(&plan),
            tree(&[
                (".gitattributes", ATTRIBUTES),
                ("a.up", "AT ONCE\n"),
                ("d/e/slow-1.up", "LATER\n"),
                ("d/e/slow-2.up", "x MUCH LATER\n"),
                ("d/lines.crlf", "one\r\ntwo\r\n"),
                ("d/link", "-> a.up"),
                ("plain", "plain\n"),
            ])
        );
    }
}

#[test]
fn a_promised_file_that_never_arrives_fails() {
    for workers in [1, 8] {
        let fixture = with_process(workers);
        let plan = fixture.writes(&[
            (".gitattributes", Item::File(ATTRIBUTES), Premise::Absent),
            ("never.up", Item::File("never\n"), Premise::Absent),
            ("slow.up", Item::File("later\n"), Premise::Absent),
        ]);
        let report = fixture.execute(&plan);
        assert_eq!(kinds(&report.writes), ["written", "failed", "written"]);
        let Outcome::Failed(error) = &report.writes[1] else { unreachable!("just compared") };
        assert_eq!(error.message("never.up".into()), "'never.up' was not filtered properly");
        assert_eq!(fixture.tree(), tree(&[(".gitattributes", ATTRIBUTES), ("slow.up", "LATER\n")]));
    }
}

#[test]
fn a_failed_filter_is_fatal_only_if_required() {
    for required in ["false", "true"] {
        let fixture = with_process(1);
        fixture.config("filter.upper.required", required);
        let plan = fixture.writes(&[
            (".gitattributes", Item::File(ATTRIBUTES), Premise::Absent),
            ("bad.up", Item::File("as it was\n"), Premise::Absent),
            ("good.up", Item::File("good\n"), Premise::Absent),
        ]);
        let report = fixture.execute(&plan);
        let failed = required == "true";
        // No step starts after the failure. The filter gets the files in order.
        let after = if failed { ["written", "failed", "skipped"] } else { ["written"; 3] };
        assert_eq!(kinds(&report.writes), after);
        assert_eq!(report.interrupted, failed);
        let fatal = report.fatal().map(ToString::to_string);
        assert_eq!(fatal.as_deref(), failed.then_some("bad.up: smudge filter upper failed"));
        assert_eq!(["bad.up", "good.up"].map(|name| fixture.path(name).exists()), [!failed; 2]);
    }
}

#[test]
fn runs_a_smudge_command_once_per_file_in_index_order() {
    let fixture = Fixture::new(8);
    let log = fixture.worktree.with_file_name("log");
    let command = format!("echo %f >>'{}'; sed -e 's|^|%f: |'", log.display());
    fixture.config("filter.tag.smudge", &command);
    let names: Vec<String> = (0..12).map(|n| format!("d{}/f{n:02}.t", n % 3)).collect();
    let mut entries = vec![(".gitattributes", Item::File("*.t filter=tag\n"), Premise::Absent)];
    entries.extend(names.iter().map(|name| (name.as_str(), Item::File("x\n"), Premise::Absent)));
    let written = fixture.complete(&fixture.writes(&entries));
    for name in &names {
        let base = name.rsplit('/').next().expect("a name");
        assert!(written[name].contains(base) && written[name].ends_with(": x\n"), "{:?}", written[name]);
    }
    let (log, mut names) = (std::fs::read_to_string(log).expect("a log"), names);
    names.sort();
    assert_eq!(log.lines().collect::<Vec<_>>(), names);
}

#[test]
fn filtered_files_obey_premises() {
    let fixture = with_process(2);
    fixture.put("slow.up", "the user's");
    fixture.put("any-slow.up", "untracked");
    let plan = fixture.writes(&[
        (".gitattributes", Item::File(ATTRIBUTES), Premise::Absent),
        ("any-slow.up", Item::File("new\n"), Premise::Anything),
        ("slow.up", Item::File("new\n"), Premise::Absent),
    ]);
    let report = fixture.execute(&plan);
    assert_eq!(kinds(&report.writes), ["written", "written", "stale"]);
    assert_eq!(
        fixture.tree(),
        tree(&[(".gitattributes", ATTRIBUTES), ("any-slow.up", "NEW\n"), ("slow.up", "the user's")])
    );
}
