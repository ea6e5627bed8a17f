//! `for-each-ref`, run as `git` and compared with Git: fields, sort keys and filters, also at
//! random.

use testkit::{Oracle, Repo};

use crate::{random::Random, shim::Shim};

fn setup(repo: &Repo<'_>) {
    let commit = |name: &str, date: &str, message: &str| {
        repo.write("f", name);
        repo.git(&["add", "f"]);
        let made = repo
            .git_command()
            .env("GIT_COMMITTER_DATE", date)
            .env("GIT_AUTHOR_NAME", name)
            .args(["commit", "-q", "-m", message])
            .status();
        assert!(made.expect("it can be run").success());
    };
    commit("One Author", "1600000000 +0100", "subject one\nwrapped\n\nbody\nof two lines\n");
    repo.git(&["tag", "-a", "-m", "tag v1.9\n\nwith a body", "v1.9"]);
    repo.git(&["tag", "-a", "-m", "tag of a tag", "twice", "v1.9"]);
    repo.git(&["branch", "side"]);
    repo.git(&["branch", "dir/deep"]);
    repo.git(&["update-ref", "refs/remotes/origin/main", "HEAD"]);
    repo.git(&["update-ref", "refs/remotes/origin/gone", "HEAD"]);
    repo.git(&["pack-refs", "--all"]);
    commit("Two", "1600000100 -0330", "CRLF subject\r\n\r\nbody\r\n");
    repo.git(&["tag", "-m", "loose", "v1.10"]);
    repo.git(&[
        "tag",
        "-m",
        "signed\n\nbody\n-----BEGIN PGP SIGNATURE-----\nx\n-----END PGP SIGNATURE-----",
        "signed",
    ]);
    repo.git(&["tag", "side", "HEAD"]);
    repo.git(&["tag", "-m", "a tree", "tree", "HEAD^{tree}"]);
    repo.git(&["update-ref", "refs/blobs/f", "HEAD:f"]);
    repo.git(&["branch", "Upper", "HEAD~1"]);
    repo.git(&["checkout", "-q", "side"]);
    repo.write("g", "1\n");
    commit("Three <x>", "1500000000 +0000", "  ...odd -- subject!..\n");
    repo.git(&["checkout", "-q", "main"]);
    repo.git(&["merge", "-q", "-s", "ours", "-m", "merge", "side"]);
    repo.git(&["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]);
    repo.git(&["symbolic-ref", "refs/heads/sym", "refs/heads/side"]);
    repo.git(&["symbolic-ref", "refs/heads/dangling", "refs/heads/nowhere"]);
    repo.git(&["worktree", "add", "-q", "../linked", "dir/deep"]);
    for (key, value) in [
        ("remote.origin.url", "nowhere"),
        ("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"),
        ("remote.fork.url", "elsewhere"),
        ("remote.fork.push", "refs/heads/*:refs/heads/mine/*"),
        ("remote.fork.fetch", "+refs/heads/*:refs/remotes/fork/*"),
        ("branch.main.remote", "origin"),
        ("branch.main.merge", "refs/heads/main"),
        ("branch.side.remote", "."),
        ("branch.side.merge", "refs/heads/main"),
        ("branch.sym.remote", "origin"),
        ("branch.sym.merge", "refs/heads/missing"),
        ("branch.Upper.remote", "origin"),
        ("branch.Upper.merge", "refs/heads/gone"),
        ("branch.Upper.pushremote", "fork"),
    ] {
        repo.git(&["config", "--add", key, value]);
    }
}

/// Fields that sapwood serves.
const FIELDS: [&str; 84] = [
    "refname",
    "refname:short",
    "refname:lstrip=1",
    "refname:lstrip=-1",
    "refname:rstrip=2",
    "refname:rstrip=-2",
    "refname:strip=2",
    "refname:lstrip=9",
    "*refname",
    "objecttype",
    "*objecttype",
    "objectsize",
    "*objectsize",
    "objectname",
    "objectname:short",
    "objectname:short=1",
    "objectname:short=9",
    "*objectname",
    "*objectname:short",
    "upstream",
    "upstream:short",
    "upstream:track",
    "upstream:trackshort",
    "upstream:track,nobracket",
    "upstream:remotename",
    "upstream:remoteref",
    "upstream:lstrip=2",
    "push",
    "push:short",
    "push:track",
    "push:trackshort",
    "push:remotename",
    "push:remoteref",
    "HEAD",
    "symref",
    "symref:short",
    "symref:lstrip=2",
    "worktreepath",
    "tree",
    "tree:short",
    "*tree",
    "parent",
    "parent:short",
    "*parent",
    "numparent",
    "*numparent",
    "object",
    "type",
    "tag",
    "*tag",
    "*type",
    "author",
    "authorname",
    "authoremail",
    "authoremail:trim",
    "authoremail:localpart",
    "*authorname",
    "committer",
    "committername",
    "committerdate",
    "committerdate:iso",
    "committerdate:relative",
    "committerdate:unix",
    "*committerdate:short",
    "tagger",
    "taggername",
    "taggeremail:trim",
    "taggerdate:raw",
    "creator",
    "creatordate",
    "creatordate:iso-strict",
    "creatordate:rfc",
    "creatordate:format:%Y-%m-%d %H:%M:%S %z %s %j",
    "creatordate:local",
    "*creatordate",
    "subject",
    "subject:sanitize",
    "*subject",
    "body",
    "contents",
    "contents:body",
    "contents:subject",
    "contents:size",
    "contents:lines=2",
];

/// Parts of formats that are not plain fields.
const OTHERS: [&str; 12] = [
    "%(contents:signature)",
    "%(*contents:lines=1)",
    "%(color:red)",
    "%(color:bold 200)",
    "%(color:reset)",
    "%%",
    "%00",
    "%0a",
    "%zz",
    "$`'\"!\\[]{}",
    "%(*body)",
    "%(authordate:raw-local)",
];

const PATTERNS: [&str; 12] = [
    "refs/heads",
    "refs/heads/",
    "refs/heads/main",
    "refs/heads/m",
    "refs/tags/v*",
    "refs/*/side",
    "refs/heads/**",
    "refs/HEADS/*",
    "HEAD",
    "*HEAD",
    "nothing",
    "refs/remotes/origin",
];

const OBJECTS: [&str; 6] = ["HEAD", "main~1", "side", "v1.9", "twice", "refs/heads/Upper"];

fn native(shim: &Shim, oracle: &Oracle, context: &str, args: &[&str]) {
    oracle.same_as(context, args);
    shim.was_native(args);
}

#[test]
fn fields() {
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), setup);
    for field in FIELDS {
        native(&shim, &oracle, field, &["for-each-ref", &format!("--format=%({field})|")]);
        if field.contains("date:") {
            let args = ["for-each-ref", "--sort", field, "--format=%(refname)"];
            oracle.same(&args);
            shim.was_handed_over(&args, "a key that only Git knows");
            continue;
        }
        native(&shim, &oracle, field, &["for-each-ref", "--sort", field, "--format=%(refname)"]);
        native(&shim, &oracle, field, &["for-each-ref", "--sort", &format!("-{field}"), "--count=5"]);
    }
    for other in OTHERS {
        native(&shim, &oracle, other, &["for-each-ref", "--color", &format!("--format={other}x")]);
    }
    for quoting in ["--shell", "--perl", "--python", "--tcl"] {
        for format in ["%(refname) %(contents)%(color:red)", "%(align:20,middle)%(refname:short)'%(end)|"] {
            native(&shim, &oracle, quoting, &["for-each-ref", quoting, "--color", "--format", format]);
        }
    }
    oracle.both(|repo| drop(repo.git(&["config", "core.warnAmbiguousRefs", "false"])));
    native(&shim, &oracle, "", &["for-each-ref", "--format=%(refname:short) %(upstream:short)"]);
    native(&shim, &oracle, "", &["for-each-ref"]);
    oracle.both(|repo| drop(repo.git(&["checkout", "-q", "--detach"])));
    native(&shim, &oracle, "", &["for-each-ref", "--include-root-refs", "--format=%(HEAD)%(refname:short)"]);
    oracle.both(|repo| drop(repo.git(&["checkout", "-q", "--orphan", "unborn"])));
    native(&shim, &oracle, "", &["for-each-ref", "--include-root-refs", "--format=%(HEAD)%(refname:short)"]);
}

#[test]
fn conditions_and_alignments() {
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), setup);
    for format in [
        "%(if)%(HEAD)%(then)* %(else)  %(end)%(refname:short)",
        "%(if:equals=main)%(refname:short)%(then)yes%(else)no%(end)",
        "%(if:notequals=main)%(refname:short)%(then)yes%(end)",
        "%(align:left,30)%(refname)%(end)|%(align:width=12,position=right)%(objecttype)%(end)|",
        "%(align:3)%(refname)%(end)|",
        "%(align:40,middle)%(if)%(symref)%(then)-> %(symref:short)%(else)%(align:20,right)x%(end)%(end)%(end)|",
        "%(if)%(upstream)%(then)%(if)%(upstream:track)%(then)a%(else)b%(end)%(end)%(refname)",
        "%(HEAD)%00%(refname:short)%00%(upstream:short)%00%(upstream:track)%00%(subject)%00%(objectname)%00%(committerdate:unix)",
    ] {
        for options in [&[][..], &["--shell"], &["--tcl"], &["--omit-empty"]] {
            native(&shim, &oracle, "", &[&["for-each-ref", "--format", format], options].concat());
        }
    }
}

#[test]
fn choices() {
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), setup);
    for pattern in PATTERNS {
        for options in [&[][..], &["--ignore-case"], &["--include-root-refs"], &["--exclude=refs/heads/s*"]] {
            native(
                &shim,
                &oracle,
                "",
                &[&["for-each-ref", "--format=%(refname)", pattern], options].concat(),
            );
        }
    }
    for object in OBJECTS {
        for option in ["--points-at", "--merged", "--no-merged", "--contains", "--no-contains"] {
            oracle.same(&["for-each-ref", option, object]);
            let wants_git = matches!(object, "side");
            if wants_git {
                shim.was_handed_over(&[option, object], "may be several objects");
            } else {
                shim.was_native(&[option, object]);
            }
        }
    }
    for args in [
        &["--merged"][..],
        &["--count=3"],
        &["--count=0", "refs/tags"],
        &["--sort=refname", "--sort=-objecttype", "--ignore-case"],
        &["--sort=version:refname", "refs/tags"],
        &["--sort=-v:refname", "--count=2"],
        &["--no-sort", "--ignore-case", "--format=%(refname)"],
        &["--start-after=refs/heads/main"],
        &["--start-after=refs/heads"],
        &["--start-after=refs/tags/", "--include-root-refs"],
        &["--start-after=A", "--include-root-refs"],
        &["--start-after=refs/heads/main", "refs/tags"],
        &["--start-after=refs/heads/main", "--sort=author"],
        &["--omit-empty", "--format=%(symref)"],
        &["--color=never", "--format=%(color:red)%(refname)"],
        &["--exclude=refs/heads", "--no-exclude", "--exclude=refs/tags"],
    ] {
        native(&shim, &oracle, "", &[&["for-each-ref"], args].concat());
    }
    for (args, why) in [
        (&["--format=%(authorname:mailmap)"][..], "a format that only Git knows"),
        (&["--format=%(if)"], "a format that only Git knows"),
        (&["--format=%(nothing)"], "a format that only Git knows"),
        (&["--sort=describe"], "a key that only Git knows"),
        (&["--count=-1"], "a value that only Git knows"),
        (&["--points-at=nothing"], "may be no object"),
        (&["--merged=refs/blobs/f"], "may be no object"),
        (&["--include-root-refs", "--contains=HEAD"], "root refs that are judged"),
        (&["--perl", "--tcl"], "several ways to quote"),
        (&[""], "an empty pattern"),
        (&["--stdin"], "option '--stdin'"),
    ] {
        let args = [&["for-each-ref"], args].concat();
        oracle.same(&args);
        shim.was_handed_over(&args, why);
    }
}

#[test]
fn broken_refs_and_missing_objects() {
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), setup);
    let all = || {
        for args in [
            &[][..],
            &["--format=%(refname) %(objectname)"],
            // With a field of the content, Git frees the content of the previous ref twice.
            &["--format=%(refname) %(objectsize)", "--sort=objectsize"],
            &["--format=%(objecttype)", "--sort=-refname"],
            &["--count=1", "refs/heads/zz"],
            &["refs/heads/main"],
            &["--format=%(*objectname)", "refs/heads/zz"],
        ] {
            native(&shim, &oracle, "", &[&["for-each-ref"], args].concat());
        }
    };
    oracle.both(|repo| {
        repo.write(".git/refs/heads/broken", "nonsense\n");
        repo.write(".git/refs/heads/zero", "0000000000000000000000000000000000000000\n");
        repo.write(".git/refs/heads/bad..name", "nonsense\n");
    });
    all();
    oracle.both(|repo| repo.write(".git/refs/heads/zz", "1234567890123456789012345678901234567890\n"));
    all();
    oracle.both(|repo| std::fs::remove_file(repo.join(".git/refs/heads/zz")).expect("it is there"));
    // A tag with a character of unknown width, and one without headers.
    oracle.both(|repo| {
        let script = "git tag -m 'größer' utf8; \
            git cat-file tag v1.9 | sed /^tag/d | git hash-object -t tag --literally --stdin -w >.git/refs/tags/odd";
        assert!(repo.command("sh".as_ref()).args(["-ec", script]).status().expect("a shell").success());
    });
    for (format, name, why) in [
        ("%(align:9)%(subject)%(end)", "refs/tags/utf8", "not ASCII"),
        ("%(subject)", "refs/tags/odd", "malformed objects"),
    ] {
        let args = ["for-each-ref", "--format", format, name];
        oracle.same(&args);
        shim.was_handed_over(&args, why);
    }
    oracle.both(|repo| repo.write(".git/packed-refs", "x\n"));
    oracle.same(&["for-each-ref"]);
}

/// Random formats, sort keys and filters.
#[test]
fn random_lines() {
    let shim = Shim::new();
    let oracle = Oracle::new(&shim.program(), setup);
    let mut random = Random::new(7);
    for number in 0..if crate::full() { 3000 } else { 150 } {
        let mut format = String::new();
        for _ in 0..random.below(5) {
            match random.below(6) {
                0 => format += OTHERS[random.below(OTHERS.len())],
                1 => format += " - ",
                _ => format += &format!("%({})", FIELDS[random.below(FIELDS.len())]),
            }
        }
        let mut args = vec!["for-each-ref".to_owned(), format!("--format={format}|")];
        for _ in 0..random.below(3) {
            let reverse = if random.below(2) == 0 { "-" } else { "" };
            let key = FIELDS[random.below(FIELDS.len())];
            if !key.contains("date:") {
                args.push(format!("--sort={reverse}{key}"));
            }
        }
        let mut add = |one_in: usize, option: &str, values: &[&str]| {
            if random.below(one_in) == 0 {
                args.push(format!("{option}{}", values[random.below(values.len())]));
            }
        };
        add(4, "--count=", &["1", "2", "7"]);
        add(4, "--", &["shell", "perl", "python", "tcl"]);
        add(4, "--", &["ignore-case", "omit-empty", "include-root-refs", "color"]);
        add(6, "--points-at=", &["HEAD", "main~1"]);
        add(6, "--merged=", &["HEAD", "main~1"]);
        add(6, "--contains=", &["HEAD", "main~1"]);
        add(6, "--no-contains=", &["main~1"]);
        add(5, "--exclude=", &PATTERNS);
        add(2, "", &PATTERNS);
        add(4, "", &PATTERNS);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let judges = |arg: &&str| arg.starts_with("--merged") || arg.contains("contains=");
        if args.contains(&"--include-root-refs") && args.iter().any(judges) {
            continue;
        }
        native(&shim, &oracle, &number.to_string(), &args);
    }
}
