//! Requests to long-running filters during a checkout, and the handling of filters that fail.

use std::path::Path;

use bstr::{BString, ByteSlice as _};
use testkit::{FILTER_PROTOCOL, Oracle, Repo, Sandbox, wording};

use crate::SAPWOOD;

/// A filter process that changes nothing and writes each request to `.git/told`. Files with "slow"
/// in their names are delayed.
const PROCESS: &str = r#"
my %late;
while (1) {
    my @header = lines();
    my %told = map { /^([^=]+)=(.*)$/s } @header;
    if ($told{command} eq "list_available_blobs") {
        packet("pathname=$_\n") for grep { !$late{$_}{named}++ } sort keys %late;
        flush(); packet("status=success\n"); flush();
        next;
    }
    my $data = content();
    my $path = $told{pathname};
    if ($told{command} eq "smudge") {
        open(my $log, ">>", ".git/told") or die; print $log join(" ", @header), "\n"; close $log;
    }
    if ($late{$path}) { $data = (delete $late{$path})->{data}; }
    elsif ($path =~ /slow/ && $told{"can-delay"}) {
        $late{$path} = { data => $data }; packet("status=delayed\n"); flush(); next;
    }
    packet("status=success\n"); flush();
    packet($data) if length $data; flush(); flush();
}
"#;

/// Creates branches that differ in every file, and tags of each kind.
fn history(repo: &Repo<'_>) {
    repo.write(".git/filter.pl", [FILTER_PROTOCOL, PROCESS].concat());
    repo.git(&["config", "filter.log.process", "perl .git/filter.pl"]);
    repo.write(".gitattributes", "*.up filter=log\n");
    let all = |word: &str| {
        for name in ["a.up", "b slow.up", "dir/c.up"] {
            repo.write(name, format!("{word} {name}\n"));
        }
        repo.commit(word);
    };
    all("first");
    repo.git(&["tag", "light"]);
    repo.git(&["branch", "topic"]);
    all("second");
    repo.git(&["tag", "-a", "-m", "annotated", "annotated"]);
    repo.git(&["update-ref", "refs/remotes/origin/there", "HEAD~1"]);
    repo.git(&["config", "remote.origin.url", "nowhere"]);
    repo.git(&["config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"]);
    all("third");
    repo.git(&["tag", "-a", "-m", "a tree", "tree", "main~1^{tree}"]);
    repo.git(&["branch", "both", "main~1"]);
    repo.git(&["tag", "both", "topic"]);
}

/// Returns the requests since the last call, sorted, because the order of files is not defined.
fn told(repo: &Repo<'_>) -> Vec<String> {
    if !repo.exists(".git/told") {
        return Vec::new();
    }
    let text = repo.read(".git/told").to_string();
    repo.remove(".git/told");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn sends_filters_the_same_requests_as_git() {
    let oracle = Oracle::new(SAPWOOD, history);
    let mut with_ref = 0;
    let mut requests = 0;
    for args in [
        &["switch", "topic"][..],
        &["switch", "-"],
        &["checkout", "light"],
        &["checkout", "annotated"],
        &["checkout", "main~2"],
        &["checkout", "main~1^{commit}"],
        &["-c", "core.warnAmbiguousRefs=false", "checkout", "-q", "both"],
        &["checkout", "HEAD~1", "--", "a.up"],
        &["checkout", "HEAD", "--", "."],
        &["reset", "--hard", "main~2"],
        &["reset", "--hard", "HEAD@{1}"],
        &["switch", "main"],
        &["checkout", "-b", "new", "topic"],
        &["checkout", "-f", "main"],
        &["checkout", "there"],
        &["checkout", "main^{tree}", "--", "."],
        &["checkout", "tree", "--", "."],
        &["checkout", "HEAD:dir", "--", "."],
        &["checkout", ":/third", "--", "."],
        &["restore", "--source=topic", "."],
        &["restore", "--source=annotated", "--staged", "--worktree", "."],
        &["reset", "--hard"],
        &["reset", "--hard", "annotated"],
        &["reset", "--keep", "light"],
        &["reset", "--merge", "main"],
        &["reset", "--hard", "main~1"],
        &["checkout", "@{-1}"],
    ] {
        oracle.same(args);
        let (theirs, ours) = (told(&oracle.git()), told(&oracle.ours()));
        assert_eq!(theirs, ours, "{args:?}: git left, ours right");
        requests += ours.len();
        with_ref += ours.iter().filter(|line| line.contains(" ref=")).count();
    }
    // A checkout from the index sends no ref or tree.
    for args in [&["restore", "."][..], &["checkout", "--", "."], &["checkout", "-f"], &["reset", "--hard"]] {
        oracle.both(|repo| {
            repo.remove("a.up");
            repo.remove("b slow.up");
        });
        oracle.same(args);
        let (theirs, ours) = (told(&oracle.git()), told(&oracle.ours()));
        assert_eq!(theirs, ours, "{args:?}: git left, ours right");
        requests += ours.len();
    }
    assert!(requests > 60 && with_ref > 20, "{requests} requests, {with_ref} with a ref");
}

#[test]
fn sends_filters_the_same_requests_in_a_clone() {
    let sandbox = Sandbox::new();
    history(&sandbox.init("source"));
    let root = sandbox.repo("");
    let filter = format!("filter.log.process=perl '{}/source/.git/filter.pl'", sandbox.path().display());
    for branch in ["main", "topic", "annotated"] {
        let clone = |into| ["clone", "-q", "-c", &filter, "-b", branch, "source", into].map(str::to_owned);
        let args = clone("theirs");
        root.git(&args.each_ref().map(String::as_str));
        let args = clone("ours");
        let run = root.run(Path::new(SAPWOOD), &args.each_ref().map(String::as_str));
        assert_eq!(run.code, 0, "{}", run.stderr);
        let [theirs, ours] = ["theirs", "ours"].map(|name| told(&sandbox.repo(name)));
        assert_eq!(theirs, ours, "{branch}: git left, ours right");
        assert_eq!(ours.len(), 4, "three files, one of them asked for twice");
        root.remove("theirs");
        root.remove("ours");
    }
}

/// Creates a repository with a required filter, which fails while the file `fail` exists.
fn with_required_filter(repo: &Repo<'_>) {
    repo.write("a", "one\n");
    repo.write("gone", "one\n");
    repo.commit("first");
    repo.git(&["branch", "old"]);
    repo.git(&["config", "filter.no.smudge", "test ! -e .git/fail && cat"]);
    repo.git(&["config", "filter.no.clean", "cat"]);
    repo.git(&["config", "filter.no.required", "true"]);
    repo.write(".gitattributes", "b filter=no\n");
    for name in ["a", "b", "c", "dir/d"] {
        repo.write(name, "two\n");
    }
    repo.remove("gone");
    repo.commit("second");
    repo.git(&["switch", "-q", "old"]);
    repo.write(".git/fail", "");
}

/// The files written before the failure depend on the workers, with Git too. Git does not record
/// them. sapwood records them in the index, so that the command can be run again.
#[test]
fn stops_when_a_required_filter_fails() {
    for (args, moved) in [
        (&["switch", "main"][..], true),
        (&["checkout", "-q", "main"], true),
        (
            &["-c", "checkout.workers=4", "-c", "checkout.thresholdForParallelism=0", "switch", "-d", "main"],
            true,
        ),
        (&["reset", "--hard", "main"], true),
        (&["reset", "--keep", "main"], true),
        (&["reset", "--merge", "main"], true),
        (&["checkout", "main", "--", "."], false),
        (&["restore", "--source=main", "--staged", "--worktree", "."], false),
        (&["restore", "--source=main", "."], false),
    ] {
        let oracle = Oracle::new(SAPWOOD, with_required_filter);
        let head = |repo: &Repo<'_>| (repo.read(".git/HEAD"), repo.git(&["rev-parse", "HEAD"]).stdout);
        let before = head(&oracle.ours());
        let theirs = oracle.git().try_git(args);
        let ours = oracle.ours().run(Path::new(SAPWOOD), args);
        assert_eq!(ours.code, 128, "{args:?}: {}", ours.stderr);
        assert_eq!(theirs, ours, "{args:?}: git left, ours right");
        assert!(ours.stderr.ends_with(b"\nfatal: b: smudge filter no failed\n"), "{}", ours.stderr);
        for repo in [oracle.git(), oracle.ours()] {
            assert_eq!(head(&repo), before, "{args:?}");
            assert!(!repo.exists(".git/index.lock") && !repo.exists("b"), "{args:?}");
        }
        // Each entry of the index is on disk (`restore` without `--staged` removes more).
        let repo = oracle.ours();
        assert_eq!(
            repo.git(&["diff-files", "--name-only", "--diff-filter=D", "--", ".", ":!gone"]).stdout,
            "",
            "{args:?}"
        );

        repo.remove(".git/fail");
        let again = repo.run(Path::new(SAPWOOD), args);
        assert_eq!(again.code, 0, "{args:?}: {}", again.stderr);
        for name in ["a", "b", "c", "dir/d"] {
            assert_eq!(repo.read(name), "two\n", "{args:?}: {name}");
        }
        assert!(!moved || repo.git(&["status", "--porcelain"]).stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn clone_reports_a_failed_required_filter() {
    let sandbox = Sandbox::new();
    let source = sandbox.init("source");
    with_required_filter(&source);
    source.git(&["symbolic-ref", "HEAD", "refs/heads/main"]);
    let root = sandbox.repo("");
    let args = ["-c", "filter.no.smudge=false", "-c", "filter.no.required=true", "clone", "source", "new"];
    let theirs = root.try_git(&args);
    root.remove("new");
    let ours = root.run(Path::new(SAPWOOD), &args);
    assert_eq!((ours.code, theirs.code), (128, 128), "{}", ours.stderr);
    assert_eq!(
        wording(&theirs.stderr).replace("git ", "sapwood "),
        wording(&ours.stderr).replace("git ", "sapwood "),
        "git left, ours right"
    );
    assert_eq!(sandbox.repo("new").read(".git/HEAD"), "ref: refs/heads/main\n");
}

/// Command lines for which the whole dialogue with the filter is compared with Git's.
const CONVERSATIONS: &[(&str, &[&str])] = &[
    ("", &["switch", "topic"]),
    ("", &["checkout", "--detach", "light"]),
    ("", &["checkout", "topic", "--", "."]),
    ("rm -r *", &["checkout", "--", "."]),
    ("rm -r *", &["checkout", "-f"]),
    ("rm -r *", &["reset", "--hard"]),
    ("", &["reset", "--keep", "topic"]),
    ("", &["restore", "--source=topic", "--staged", "--worktree", "."]),
    ("", &["read-tree", "-m", "-u", "topic"]),
    ("", &["read-tree", "-m", "-u", "HEAD", "topic"]),
    ("", &["read-tree", "--reset", "-u", "topic"]),
    ("rm -r *", &["checkout-index", "-a"]),
    ("rm -r *", &["checkout-index", "-f", "-u", "-a"]),
    ("rm -r *", &["checkout-index", "a.up", "b slow.up"]),
    ("rm -r *", &["checkout-index", "--prefix=out/", "-a"]),
    (
        "rm -r *",
        &["-c", "checkout.workers=4", "-c", "checkout.thresholdForParallelism=0", "checkout-index", "-a"],
    ),
    ("", &["-c", "checkout.workers=4", "-c", "checkout.thresholdForParallelism=0", "switch", "topic"]),
    ("git merge topic~0 || git reset -q; rm *.up", &["checkout-index", "--stage=2", "-f", "-a"]),
    ("", &["worktree", "add", "../wt", "topic"]),
    ("", &["worktree", "add", "--detach", "../wt", "light"]),
    ("git sparse-checkout set nothing", &["sparse-checkout", "set", "dir"]),
    ("git sparse-checkout set nothing", &["sparse-checkout", "disable"]),
    ("touch -d 2001-01-01 *.up", &["status", "--porcelain"]),
    ("touch -d 2001-01-01 *.up", &["update-index", "--refresh"]),
    ("touch -d 2001-01-01 *.up", &["ls-files", "-m"]),
    ("touch -d 2001-01-01 *.up", &["diff-files"]),
    ("touch -d 2001-01-01 *.up", &["switch", "topic"]),
    ("touch -d 2001-01-01 *.up", &["reset", "--hard"]),
    ("touch -d 2001-01-01 *.up", &["checkout", "--", "."]),
    ("echo other >a.up", &["update-index", "a.up", "b slow.up"]),
];

#[test]
fn sends_filters_the_same_conversation_as_git() {
    // Several workers compare files, so these requests have no order. Files are written in index
    // order.
    let told = |repo: &Repo<'_>| {
        let told = if repo.exists("../told") { repo.read("../told") } else { Default::default() };
        let mut lines: Vec<String> = told.to_string().lines().map(str::to_owned).collect();
        lines.sort_by_key(|line| line.starts_with("command=clean").then(|| line.clone()));
        lines
    };
    let mut requests = 0;
    for (before, args) in CONVERSATIONS {
        let oracle = Oracle::new(SAPWOOD, |repo| {
            history(repo);
            let shell = |script: &str| drop(repo.run(Path::new("/bin/sh"), &["-c", script]));
            let script = format!("{FILTER_PROTOCOL}{PROCESS}")
                .replace("\".git/told\"", "\"$ENV{HOME}/told\"")
                .replace(r#"if ($told{command} eq "smudge") {"#, "{")
                .replace("my $data = content();", "my $data = content(); push @header, length $data;");
            repo.write(".git/filter.pl", script);
            let filter = format!(
                "HOME='{}' perl '{}'",
                repo.join("..").display(),
                repo.join(".git/filter.pl").display()
            );
            repo.git(&["config", "filter.log.process", &filter]);
            // A file as new as the index would be cleaned again.
            shell("find . -name '*.up' -exec touch -d 2020-01-01 {} +");
            repo.git(&["update-index", "-q", "--refresh"]);
            shell(before);
            std::fs::remove_file(repo.join("../told")).ok();
        });
        let theirs = oracle.git().try_git(args);
        let ours = oracle.ours().run(Path::new(SAPWOOD), args);
        assert_eq!(theirs.code, ours.code, "{before}; {args:?}: {}", ours.stderr);
        let (theirs, ours) = (told(&oracle.git()), told(&oracle.ours()));
        assert_eq!(theirs, ours, "{before}; {args:?}: git left, ours right");
        requests += ours.len();
        let [theirs, ours] = [oracle.git(), oracle.ours()].map(|repo| oracle.snapshot(&repo).worktree);
        assert_eq!(theirs, ours, "{before}; {args:?}: git left, ours right");
    }
    assert!(requests > 80, "{requests} requests");
}

/// Responses of filter processes, as arguments of `printf`. A dash stands for the handshake. The
/// process then closes its output, and reads its input to the end.
const RESPONSES: &[&str] = &[
    "zzzz",
    "zz",
    "+001",
    "0003",
    "fff9",
    "0001",
    "0004",
    "",
    "0016git-filter",
    "000funexpected\\n",
    "0016git-filter-server\\n000eversion=3\\n0000",
    "0016git-filter-server\\n000eversion=2\\n0000zzzz",
    "-",
    "-zzzz",
    "-0003",
    "-0013status=success\\n0000zzzz",
    "-0013status=success\\n00000007abczzzz",
    "-0013status=success\\n00000007abc0000zzzz",
    "-0013status=success\\n00000007abc00000000",
    "-0013status=success\\n00000007abc00040007def00000000",
    "-0013status=success\\n00000007ab",
    "-0011status=error\\n0000",
    "-0011status=abort\\n0000",
    "-000fstatus=odd\\n0000",
    "-0013status=delayed\\n0000",
    "-0013status=delayed\\n0000zzzz",
    "-0013status=delayed\\n00000000",
    "-0013status=delayed\\n000000000011status=error\\n0000",
    "-0013status=delayed\\n000000000013status=success\\n0000",
];

/// A filter that breaks the protocol so far that Git exits ends the command, also if the filter is
/// not required. Any other failure leaves the content unchanged.
#[test]
fn nonsense_of_a_filter_has_gits_effect() {
    const HANDSHAKE: &str = "0016git-filter-server\\n000eversion=2\\n0000\
        0015capability=clean\\n0016capability=smudge\\n0015capability=delay\\n0000";
    // A file as new as the index would be cleaned again when the index is written.
    let settle = |repo: &Repo<'_>| {
        let script = "touch -d 2020-01-01 b.p other .gitattributes && git update-index -q --refresh";
        assert_eq!(repo.run(Path::new("/bin/sh"), &["-c", script]).code, 0);
    };
    let oracle = Oracle::new(SAPWOOD, |repo| {
        repo.write(".gitattributes", "*.p filter=j\n");
        repo.write("b.p", "b\n");
        repo.write("other", "other\n");
        repo.commit("one");
        repo.write("a.p", "a\n");
        settle(repo);
    });
    for response in RESPONSES {
        for required in ["false", "true"] {
            let written = match response.strip_prefix('-') {
                Some(rest) => [HANDSHAKE, rest].concat(),
                None => (*response).to_owned(),
            };
            let filter = format!("filter.j.process=printf '{written}'; exec >&-; cat >/dev/null");
            let required = format!("filter.j.required={required}");
            let with = |args: &[&str]| {
                let args = [&["-c", &filter, "-c", &required], args].concat();
                let context = format!("{response}, {args:?}");
                let theirs = oracle.git().try_git(&args);
                let ours = oracle.ours().run(Path::new(SAPWOOD), &args);
                // For a delayed file that never comes, Git's exit code is the number of such files.
                let code = |code: i32| if response.contains("delayed") { i32::from(code != 0) } else { code };
                assert_eq!(code(theirs.code), code(ours.code), "{context}: {}{}", theirs.stderr, ours.stderr);
                // Git may also print the signal with which it has stopped the process.
                let plain = |said: &BString| -> Vec<BString> {
                    let lines = said.lines().filter(|line| !line.contains_str("died of signal"));
                    lines.map(BString::from).collect()
                };
                assert_eq!(plain(&theirs.stderr), plain(&ours.stderr), "{context}: git left, ours right");
                oracle.same_state(&[&context]);
            };
            with(&["add", "a.p"]);
            oracle.both(|repo| {
                repo.try_git(&["rm", "-q", "--cached", "a.p"]);
                repo.remove("b.p");
            });
            with(&["checkout", "--", "b.p"]);
            oracle.both(|repo| {
                repo.git(&["reset", "-q", "--hard"]);
                settle(repo);
            });
        }
    }
    let nothing =
        oracle.ours().run(Path::new(SAPWOOD), &["-c", "filter.j.process=printf zzzz", "add", "other", "a.p"]);
    assert_eq!(nothing.code, 128, "{nothing:?}");
    assert!(nothing.stderr.contains_str("protocol error: bad line length character: zzzz"), "{nothing:?}");
    assert_eq!(oracle.ours().git(&["ls-files", "a.p"]).stdout, "");
}
