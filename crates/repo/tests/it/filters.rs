use bstr::{BString, ByteSlice};
use format::{
    HashKind, Mode,
    index::{Flags, Index, NewEntry, Stage, Stat},
};
use repo::convert::{Class, Converter, Delays, Metadata, Smudged};
use testkit::{FILTER_PROTOCOL, Repo, Sandbox};

use crate::{git_output, open};

/// A filter that writes upper case to the worktree and lower case to Git, and logs its requests. It
/// delays a path that contains `late`, refuses one with `fail`, and aborts at one with `abort`.
const FILTER: &str = r#"
my (%kept, $rounds);
open(my $log, '>>', $ARGV[0]); $log->autoflush(1);
while (1) {
    my %h = map { split /=/, $_, 2 } lines();
    print $log join(" ", map { "$_=$h{$_}" } sort keys %h), "\n";
    if ($h{command} eq 'list_available_blobs') {
        if (!$rounds++) { packet("pathname=$_\n") for sort keys %kept }
        flush(); packet("status=success\n"); flush(); next;
    }
    my $data = content();
    if ($h{pathname} =~ /fail/) { packet("status=error\n"); flush(); next }
    if ($h{pathname} =~ /abort/) { packet("status=abort\n"); flush(); next }
    if ($h{'can-delay'} && $h{pathname} =~ /late/) { $kept{$h{pathname}} = $data; packet("status=delayed\n"); flush(); next }
    $data = delete $kept{$h{pathname}} if exists $kept{$h{pathname}};
    $data = $h{command} eq 'smudge' ? uc $data : lc $data;
    packet("status=success\n"); flush();
    packet($1) while $data =~ /\G(.{1,60000})/gs;
    flush(); flush();
}
"#;

fn setup<'s>(sandbox: &'s Sandbox, attributes: &str, files: &[&str]) -> (Repo<'s>, Index) {
    let at = sandbox.init("r");
    for file in files {
        at.write(file, format!("content of {file}\n"));
    }
    at.write(".gitattributes", attributes);
    at.commit("one");
    let mut index = Index::empty(HashKind::Sha1);
    for line in git_output(&at, &["ls-files", "-s"]).lines() {
        let (info, path) = line.split_once('\t').expect("a tab");
        let hex = info.split(' ').nth(1).expect("a name");
        let oid = format::ObjectId::from_hex(HashKind::Sha1, hex.as_bytes()).expect("hexadecimal");
        let entry = NewEntry {
            stat: Stat::default(),
            oid,
            mode: Mode::FILE,
            flags: Flags::default(),
            stage: Stage::Normal,
        };
        index.push(path.into(), entry);
    }
    at.write("../filter.pl", [FILTER_PROTOCOL, FILTER].concat());
    (at, index)
}

fn process(sandbox: &Sandbox) -> String {
    let root = sandbox.path();
    format!("perl '{0}/filter.pl' '{0}/log'", root.display())
}

/// Filters all entries, as a checkout would.
fn written(at: &Repo<'_>, index: &Index) -> (Vec<(BString, BString)>, Vec<String>) {
    let repo = open(at);
    let tip = repo.rev_parse("HEAD".into()).expect("born");
    let metadata = Metadata { reference: Some("refs/heads/main".into()), treeish: Some(tip) };
    let converter = Converter::for_checkout(&repo, index).expect("readable").with_metadata(metadata);
    let mut lane = converter.external(Delays::Offered);
    let mut files = Vec::new();
    let mut reader = repo.objects().reader();
    for entry in index.entries() {
        let path = index.path(entry);
        let blob = reader.read(&entry.oid).expect("stored").1.to_vec();
        match lane.smudge(path, entry.oid, &blob).expect("not required") {
            Smudged::Ready(bytes) => files.push((path.to_owned(), bytes.into())),
            Smudged::Unchanged => files.push((path.to_owned(), blob.into())),
            Smudged::Delayed => {}
        }
    }
    loop {
        let ready = lane.available().expect("no error");
        if ready.is_empty() {
            break;
        }
        for path in ready {
            let at = index.position(path.as_bstr(), Stage::Normal).expect("was in the index");
            let Smudged::Ready(bytes) =
                lane.fetch(path.as_bstr(), index.entries()[at].oid).expect("filtered")
            else {
                panic!("{path} was promised");
            };
            files.push((path, bytes.into()));
        }
    }
    assert_eq!(lane.unfinished(), Vec::<BString>::new());
    files.sort();
    (files, lane.take_messages())
}

#[track_caller]
fn same_as_git(at: &Repo<'_>, index: &Index) -> Vec<String> {
    let (ours, messages) = written(at, index);
    for (path, _) in &ours {
        at.remove(path);
    }
    let run = at.try_git(&["checkout", "HEAD", "--", "."]);
    for (path, bytes) in ours {
        assert_eq!(at.read(&path), bytes, "{path}");
    }
    let said = run.stderr.to_string();
    for message in &messages {
        assert!(said.contains(message.as_str()), "{message:?} in {said:?}");
    }
    messages
}

#[test]
fn runs_a_command_per_file() {
    let sandbox = Sandbox::new();
    let (at, index) = setup(
        &sandbox,
        "*.u filter=upper\n*.b filter=broken\n*.n filter=unknown\n",
        &["a.u", "it's.u", "x.b", "y.n"],
    );
    at.git(&["config", "filter.upper.smudge", "tr a-z A-Z; echo %f"]);
    at.git(&["config", "filter.upper.clean", "tr A-Z a-z"]);
    at.git(&["config", "filter.broken.smudge", "cat >/dev/null; exit 3"]);
    assert_eq!(
        same_as_git(&at, &index),
        [
            "error: external filter 'cat >/dev/null; exit 3' failed 3",
            "error: external filter 'cat >/dev/null; exit 3' failed",
        ]
    );
    let repo = open(&at);
    let converter = Converter::for_checkout(&repo, &index).expect("readable");
    let mut worker = converter.worker();
    let class = |worker: &mut repo::convert::Worker, path: &str| {
        worker.class(path.into(), Mode::FILE).expect("valid")
    };
    assert_eq!(class(&mut worker, "a.u"), Class::External);
    assert_eq!(class(&mut worker, "y.n"), Class::None);
    let mut out = Vec::new();
    assert_eq!(worker.to_git("a.u".into(), b"ABC", &mut out).expect("cleaned"), b"abc");

    at.git(&["config", "filter.broken.required", "true"]);
    let repo = open(&at);
    let converter = Converter::for_checkout(&repo, &index).expect("readable");
    let entry = index.entries()[index.position("x.b".into(), Stage::Normal).expect("there")];
    let refused = converter.worker().to_worktree("x.b".into(), entry.oid, b"x", &mut out).unwrap_err();
    at.remove("x.b");
    assert_eq!(refused.to_string(), crate::fatal(&at, &["checkout", "HEAD", "--", "x.b"]));
}

#[test]
fn fetches_files_delayed_by_a_process() {
    let sandbox = Sandbox::new();
    let (at, index) = setup(
        &sandbox,
        "*.p filter=proc ident\n",
        &["1-late.p", "2.p", "3-fail.p", "4-late.p", "6.p", "plain"],
    );
    let command = process(&sandbox);
    at.git(&["config", "filter.proc.process", &command]);
    same_as_git(&at, &index);
    // Git sends the same requests to its own filter process.
    let log = at.read("../log").to_string();
    let lines: Vec<_> = log.lines().collect();
    let (ours, theirs) = lines.split_at(lines.len() / 2);
    let without_ref = |lines: &[&str]| -> Vec<String> {
        lines.iter().map(|line| line.replace(" ref=refs/heads/main", "")).collect()
    };
    assert_eq!(without_ref(ours), without_ref(theirs));
}

#[test]
fn continues_after_a_process_aborts() {
    let sandbox = Sandbox::new();
    let (at, index) = setup(&sandbox, "*.p filter=proc\n", &["1.p", "2-abort.p", "3.p"]);
    at.git(&["config", "filter.proc.process", &process(&sandbox)]);
    assert_eq!(same_as_git(&at, &index), Vec::<String>::new());
}

#[test]
fn reports_a_process_that_cannot_start() {
    let sandbox = Sandbox::new();
    let (at, index) = setup(&sandbox, "*.p filter=proc\n", &["1.p", "2.p"]);
    at.git(&["config", "filter.proc.process", "exit 1"]);
    let (files, messages) = written(&at, &index);
    assert_eq!(files.len(), 3);
    let failed = "error: initialization for subprocess 'exit 1' failed";
    assert!(messages.iter().any(|message| message.starts_with(failed)), "{messages:?}");
    at.git(&["config", "filter.proc.required", "true"]);
    let converter = Converter::for_checkout(&open(&at), &index).expect("readable");
    let refused =
        converter.external(Delays::Offered).smudge("1.p".into(), index.entries()[1].oid, b"x").unwrap_err();
    assert_eq!(refused.to_string(), "1.p: smudge filter proc failed");
}
