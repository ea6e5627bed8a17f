use std::{io::Write as _, process::Stdio};

use bstr::{BStr, ByteSlice};
use format::{
    HashKind, Mode, ObjectId,
    hash::Hasher,
    index::{Flags, Index, NewEntry, Stage, Stat},
};
use proptest::{prelude::*, sample::select};
use repo::{
    Repository,
    convert::{Class, Converter},
};
use testkit::{Repo, Sandbox};

use crate::open;

/// Generates content from pieces that conversions examine.
fn content() -> impl Strategy<Value = Vec<u8>> {
    let piece = select(vec![
        "a",
        "text",
        "\n",
        "\n",
        "\r\n",
        "\r\n",
        "\r",
        "\0",
        "\x1a",
        "\x01",
        "$Id$",
        "$Id: 123 $",
        "$Id: a b $",
        "$Id:",
        "$Id:$",
        "$",
        "$Id",
        "ü",
        "€",
        "\u{feff}",
        "𝄞",
    ]);
    let text = proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat().into_bytes());
    prop_oneof![6 => text, 1 => Just(b"\xff\xfe\n".to_vec()), 1 => Just(b"\xfe\xff\0a\0\n".to_vec()),
        1 => Just(b"lines\nlines\nlines\n".repeat(20)), 1 => Just(b"\xe4 latin\n".to_vec())]
}

fn attribute() -> impl Strategy<Value = &'static str> {
    select(vec![
        "text",
        "-text",
        "!text",
        "text=auto",
        "text=input",
        "text=other",
        "crlf",
        "-crlf",
        "crlf=input",
        "eol=lf",
        "eol=crlf",
        "!eol",
        "ident",
        "-ident",
        "binary",
        "-binary",
        "mine",
        "diff",
        "diff=x",
        "working-tree-encoding=UTF-16",
        "working-tree-encoding=utf16le",
        "working-tree-encoding=UTF-16LE-BOM",
        "working-tree-encoding=UTF-32",
        "working-tree-encoding=ISO-8859-1",
        "working-tree-encoding=latin-1",
        "working-tree-encoding=UTF8",
        "working-tree-encoding=none-such",
        "working-tree-encoding=SHIFT-JIS",
        "!working-tree-encoding",
        "filter=none",
        "b@d",
    ])
}

const NAMES: [&str; 8] =
    ["a.txt", "b.bin", "dir/a.txt", "dir/sub/c.TXT", "dir/sub/d", "e f", "other/a.txt", "z\u{fc}"];

fn line() -> impl Strategy<Value = String> {
    let pattern = select(vec![
        "*",
        "*.txt",
        "a.txt",
        "/a.txt",
        "dir/*",
        "dir/**",
        "sub/",
        "**/sub/*",
        "[ab]*",
        "d?r/a.txt",
        "\"e f\"",
        "!a.txt",
        "*.TXT",
        "\"z\\303\\274\"",
        "[attr]mine",
        "[attr]binary",
        "# *",
        "other",
    ]);
    (pattern, proptest::collection::vec(attribute(), 0..3))
        .prop_map(|(pattern, attributes)| format!("{pattern} {}", attributes.join(" ")))
}

fn attributes() -> impl Strategy<Value = String> {
    proptest::collection::vec(line(), 0..5).prop_map(|lines| lines.join("\n"))
}

#[derive(Debug)]
struct Case {
    contents: Vec<Vec<u8>>,
    root: Option<String>,
    dir: Option<String>,
    untracked: Option<String>,
    info: String,
    config: Vec<(&'static str, &'static str)>,
}

fn case() -> impl Strategy<Value = Case> {
    let config = |key: &'static str, values: Vec<&'static str>| {
        select(values).prop_map(move |value| (!value.is_empty()).then_some((key, value)))
    };
    (
        proptest::collection::vec(content(), NAMES.len()),
        proptest::option::weighted(0.8, attributes()),
        proptest::option::of(attributes()),
        proptest::option::weighted(0.3, attributes()),
        prop_oneof![3 => Just(String::new()), 1 => attributes()],
        config("core.autocrlf", vec!["", "", "true", "input", "false"]),
        config("core.eol", vec!["", "", "lf", "crlf", "native"]),
        config("core.ignoreCase", vec!["", "", "true"]),
    )
        .prop_map(|(contents, root, dir, untracked, info, autocrlf, eol, fold)| Case {
            contents,
            root,
            dir,
            untracked,
            info,
            config: [autocrlf, eol, fold].into_iter().flatten().collect(),
        })
}

fn store(at: &Repo<'_>, content: &[u8]) -> ObjectId {
    let mut hasher = Hasher::object(HashKind::Sha1, "blob", content.len() as u64);
    hasher.update(content);
    let oid = hasher.finish().expect("no attack");
    let file = at.join(format!(".git/blob-{oid}"));
    std::fs::write(&file, content).expect("written");
    let written = at.git(&["hash-object", "-w", "--no-filters", file.to_str().expect("UTF-8")]);
    assert_eq!(written.stdout.trim_ascii(), oid.to_string().as_bytes());
    std::fs::remove_file(&file).expect("just written");
    oid
}

/// Returns the index as Git's file and as a value.
fn index(at: &Repo<'_>, files: &[(&str, &[u8])]) -> Index {
    let mut files = files.to_vec();
    files.sort();
    let mut index = Index::empty(HashKind::Sha1);
    let mut info = String::new();
    for (path, content) in files {
        let oid = store(at, content);
        info.push_str(&format!("100644 {oid} 0\t{path}\0"));
        let entry = NewEntry {
            stat: Stat::default(),
            oid,
            mode: Mode::FILE,
            flags: Flags::default(),
            stage: Stage::Normal,
        };
        index.push(path.into(), entry);
    }
    run_with_input(at, &["update-index", "-z", "--index-info"], info.as_bytes());
    index
}

fn run_with_input(at: &Repo<'_>, args: &[&str], input: &[u8]) -> String {
    let mut child = at
        .command(&crate::git())
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("git runs");
    child.stdin.take().expect("piped").write_all(input).expect("read by git");
    let output = child.wait_with_output().expect("git ends");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn prepare<'s>(sandbox: &'s Sandbox, case: &Case) -> (Repo<'s>, Index, Repository) {
    let at = sandbox.init("r");
    at.write(".git/info/attributes", &case.info);
    for (key, value) in &case.config {
        at.git(&["config", key, value]);
    }
    let mut files: Vec<(&str, &[u8])> =
        NAMES.iter().copied().zip(case.contents.iter().map(Vec::as_slice)).collect();
    files.extend(case.root.as_ref().map(|text| (".gitattributes", text.as_bytes())));
    files.extend(case.dir.as_ref().map(|text| ("dir/.gitattributes", text.as_bytes())));
    let index = index(&at, &files);
    if let Some(text) = &case.untracked {
        at.write("other/.gitattributes", text);
    }
    let repo = open(&at);
    (at, index, repo)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn writes_files_as_git_does(case in case()) {
        let sandbox = Sandbox::new();
        let (at, index, repo) = prepare(&sandbox, &case);
        let converter = Converter::for_checkout(&repo, &index).expect("readable");
        let mut worker = converter.worker();
        let mut ours = Vec::new();
        for entry in index.entries() {
            let path = index.path(entry);
            let class = worker.class(path, entry.mode).expect("valid");
            let mut reader = repo.objects().reader();
            let blob = reader.read(&entry.oid).expect("stored").1.to_vec();
            let mut out = Vec::new();
            let bytes = worker.to_worktree(path, entry.oid, &blob, &mut out).expect("converted").to_vec();
            prop_assert!(class != Class::None || bytes == blob, "{path}: {class:?} but changed");
            ours.push((path.to_owned(), bytes));
        }
        at.git(&["checkout-index", "--all", "--force"]);
        for (path, bytes) in ours {
            prop_assert_eq!(at.read(&path), bytes, "{} of {:?}", path, &case);
        }
    }

    #[test]
    fn reads_files_as_git_does(case in case(), files in proptest::collection::vec(content(), NAMES.len())) {
        let sandbox = Sandbox::new();
        let (at, index, repo) = prepare(&sandbox, &case);
        for (name, content) in NAMES.iter().zip(&files) {
            at.write(name, content);
        }
        let shown = at.try_git(&["-c", "core.quotePath=false", "diff-files", "-p", "--full-index", "--text"]);
        let theirs = shown_names(shown.stdout.as_bstr());
        let converter = Converter::for_compare(&repo, &index).expect("readable");
        let mut worker = converter.worker();
        let mut ours = Vec::new();
        for (name, content) in NAMES.iter().zip(&files) {
            let mut out = Vec::new();
            let bytes = worker.to_git((*name).into(), content, &mut out).expect("converted");
            let mut hasher = Hasher::object(HashKind::Sha1, "blob", bytes.len() as u64);
            hasher.update(bytes);
            let oid = hasher.finish().expect("no attack");
            let entry = index.position((*name).into(), Stage::Normal).expect("there");
            if oid != index.entries()[entry].oid {
                ours.push(((*name).to_owned(), oid.to_string()));
            }
        }
        prop_assert_eq!(ours, theirs, "{:?}", &case);
    }
}

/// Returns the files that differ from the index, with the object names of their content.
fn shown_names(diff: &BStr) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut path = None;
    for line in diff.lines() {
        if line.starts_with(b"diff --git ") {
            path = NAMES.iter().find(|name| line == format!("diff --git a/{name} b/{name}").as_bytes());
        } else if let Some(names) = line.strip_prefix(b"index ")
            && let Some(path) = path.take()
        {
            let new = names.split_once_str("..").expect("two names").1;
            found.push(((*path).to_owned(), new[..40].to_str_lossy().into_owned()));
        }
    }
    found
}

#[test]
fn skips_trees_with_unrelated_attributes() {
    let sandbox = Sandbox::new();
    let at = sandbox.init("r");
    let index =
        index(&at, &[("a.c", b"x\n"), (".gitattributes", b"*.c diff=cpp\n*.text merge=union # eol=crlf\n")]);
    let repo = open(&at);
    at.git(&["config", "core.eol", "crlf"]);
    let converter = Converter::for_checkout(&repo, &index).expect("readable");
    assert_eq!(converter.worker().class("a.c".into(), Mode::FILE).expect("readable"), Class::None);
    assert!(converter.is_idle());
    at.write(".gitattributes", "*.c text\n");
    let converter = Converter::for_checkout(&repo, &index).expect("readable");
    assert!(!converter.is_idle());
    assert_eq!(
        converter.worker().class("a.c".into(), Mode::FILE).expect("readable"),
        Class::None,
        "the index counts first"
    );
    assert_eq!(converter.worker().class("a.c".into(), Mode::SYMLINK).expect("readable"), Class::None);
}

#[test]
fn refuses_true_as_an_encoding() {
    let sandbox = Sandbox::new();
    let at = sandbox.init("r");
    let index = index(&at, &[("a", b"x\n"), (".gitattributes", b"a working-tree-encoding\n")]);
    let converter = Converter::for_checkout(&open(&at), &index).expect("readable");
    let message = converter.worker().class("a".into(), Mode::FILE).unwrap_err().to_string();
    assert_eq!(message, crate::fatal(&at, &["checkout-index", "a"]));
}
