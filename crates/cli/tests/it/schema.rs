//! docs/schema: the program's documents are as their JSON Schemas say, and each `--json` has one.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use serde_json::{Map, Value};
use testkit::{Repo, Sandbox};

use crate::{SAPWOOD, base::Fleet, workspace::create::Place};

/// The schemas by the commands in their titles, such as `workspace list`.
struct Schemas(BTreeMap<String, Value>);

impl Schemas {
    fn read() -> Schemas {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
        let mut all = BTreeMap::new();
        for entry in fs::read_dir(dir).expect("the directory of schemas") {
            let path = entry.expect("an entry").path();
            let text = fs::read_to_string(&path).expect("a schema");
            let schema: Value = serde_json::from_str(&text).expect("JSON");
            for command in schema["title"].as_str().expect("a title").split(", ") {
                let words = command.strip_prefix("sapwood ").and_then(|words| words.strip_suffix(" --json"));
                all.insert(words.unwrap_or_else(|| panic!("{}", path.display())).to_owned(), schema.clone());
            }
        }
        Schemas(all)
    }

    /// Checks the document that a command printed.
    #[track_caller]
    fn check(&self, command: &str, printed: &str) -> Value {
        let document =
            serde_json::from_str(printed).unwrap_or_else(|error| panic!("{command}: {error}: {printed}"));
        let schema = self.0.get(command).unwrap_or_else(|| panic!("'{command}' has no schema"));
        let mut wrong = Vec::new();
        compare("", schema, &document, &mut wrong);
        assert!(wrong.is_empty(), "{command}: {}\n{document:#}", wrong.join("\n"));
        document
    }
}

/// Compares a value with a schema, in the vocabulary that docs/schema uses. An unknown word of the
/// vocabulary is an error. So is a field that the schema does not name: nobody has described it.
fn compare(at: &str, schema: &Value, value: &Value, wrong: &mut Vec<String>) {
    let schema = schema.as_object().expect("a schema is an object");
    if let Some(any) = schema.get("anyOf").and_then(Value::as_array) {
        let attempts = any.iter().map(|one| {
            let mut wrong = Vec::new();
            compare(at, one, value, &mut wrong);
            wrong
        });
        let best = attempts.min_by_key(Vec::len).expect("a choice");
        return wrong.extend(best);
    }
    for (word, rule) in schema {
        let fits = match word.as_str() {
            "$schema" | "title" | "description" => true,
            "const" => rule == value,
            "enum" => rule.as_array().expect("values").contains(value),
            "minimum" => value.is_null() || value.as_i64() >= rule.as_i64(),
            "type" => match rule {
                Value::Array(kinds) => kinds.iter().any(|kind| is_of(kind, value)),
                kind => is_of(kind, value),
            },
            "required" => {
                let names = rule.as_array().expect("names").iter().filter_map(Value::as_str);
                value.as_object().is_none_or(|fields| names.clone().all(|name| fields.contains_key(name)))
            }
            "items" => {
                let items = value.as_array().into_iter().flatten().enumerate();
                items.for_each(|(number, item)| compare(&format!("{at}[{number}]"), rule, item, wrong));
                true
            }
            "properties" => {
                let nothing = Map::new();
                for (name, field) in value.as_object().unwrap_or(&nothing) {
                    match rule.get(name) {
                        Some(rule) => compare(&format!("{at}.{name}"), rule, field, wrong),
                        None => wrong.push(format!("{at}.{name} is not in the schema")),
                    }
                }
                true
            }
            other => panic!("the schemas use no '{other}'"),
        };
        if !fits {
            wrong.push(format!("{at}: {word} {rule}, but the program has {value}"));
        }
    }
}

fn is_of(kind: &Value, value: &Value) -> bool {
    match kind.as_str().expect("a name") {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "null" => value.is_null(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("there is no type '{other}'"),
    }
}

fn printed(repo: &Repo<'_>, args: &[&str]) -> String {
    let run = repo.run(SAPWOOD.as_ref(), args);
    assert!(run.code <= 1, "{args:?}: {}", run.stderr);
    run.stdout.to_string()
}

#[test]
fn the_check_finds_what_a_schema_forbids() {
    let wrong = |schema: &str, value: &str| {
        let mut wrong = Vec::new();
        let json = |text: &str| serde_json::from_str(text).expect("JSON");
        compare("", &json(schema), &json(value), &mut wrong);
        wrong.len()
    };
    let object = r#"{"type": "object", "required": ["a"], "properties": {"a": {"type": ["integer", "null"], "minimum": 0}}}"#;
    let cases = [
        (r#"{"a": 1}"#, 0),
        (r#"{"a": null}"#, 0),
        ("{}", 1),
        (r#"{"a": -1}"#, 1),
        (r#"{"a": 1, "b": 2}"#, 1),
    ];
    for (value, count) in cases {
        assert_eq!(wrong(object, value), count, "{value}");
    }
    assert_eq!(wrong(r#"{"type": "array", "items": {"enum": ["x"]}}"#, r#"["x", "y"]"#), 1);
    assert_eq!(wrong(r#"{"anyOf": [{"const": 1}, {"const": 2}]}"#, "2"), 0);
    assert_eq!(wrong(r#"{"anyOf": [{"const": 1}, {"const": 2}]}"#, "3"), 1);
}

/// A command whose usage has `--json`, or whose options have, is described.
#[test]
fn each_command_with_json_has_a_schema() {
    let schemas = Schemas::read();
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    let mut wanted = BTreeSet::new();
    for family in ["workspace", "base", "checkpoint", "checkpoints", "undo", "redo", "fork", "doctor"] {
        // The manual has a heading for each subcommand, and below it its options.
        let mut subcommand = None;
        for line in printed(&repo, &["help", family]).lines() {
            let words = line.strip_prefix("   ").filter(|rest| !rest.starts_with(' '));
            subcommand = words.map(str::to_owned).or(subcommand);
            if !line.is_empty() && !line.starts_with(' ') {
                subcommand = None;
            }
            if line.trim_start().starts_with("--json") || line.trim_start().starts_with("--[no-]json") {
                wanted.insert(match &subcommand {
                    Some(subcommand) => format!("{family} {subcommand}"),
                    None => family.to_owned(),
                });
            }
        }
    }
    // `workspace base` is one heading with five forms.
    if wanted.remove("workspace base") {
        wanted
            .extend(["list", "verify", "remove", "gc", "prune"].map(|form| format!("workspace base {form}")));
    }
    let described: BTreeSet<String> = schemas.0.into_keys().collect();
    assert_eq!(described, wanted);
}

#[test]
fn workspaces_print_what_the_schemas_say() {
    let schemas = Schemas::read();
    let place = Place::new();
    let repo = place.repo();
    let check = |command: &str, args: &[&str]| {
        let words: Vec<&str> = command.split(' ').chain(["--json"]).chain(args.iter().copied()).collect();
        schemas.check(command, &printed(&repo, &words))
    };
    check("workspace create", &["--backend", "copy", "one", "-b", "one"]);
    check("workspace create", &["--backend", "overlay", "two", "-b", "two"]);
    check("workspace create", &["--sealed", "three"]);
    for name in ["one", "two"] {
        place.workspace(name).write("file", format!("{name}\n"));
        place.workspace(name).commit(name);
    }
    assert_eq!(check("workspace list", &[]).as_array().map(Vec::len), Some(3));
    check("workspace conflicts", &[]);
    check("workspace sync", &["--all"]);
    check("workspace freeze", &["two"]);
    check("workspace thaw", &["two"]);
    check("workspace unmount", &["two"]);
    check("workspace mount", &["two"]);
    check("workspace move", &["two", "../moved"]);
    check("workspace rebase", &["two", "HEAD~1"]);
    check("workspace doctor", &[]);
    check("workspace land", &["--onto", "new", "one", "two"]);
    check("workspace base list", &[]);
    check("workspace base verify", &[]);
    check("workspace remove", &["--force", "two"]);
    check("workspace gc", &["--landed", "-n"]);
    let bases = check("workspace base prune", &["-n"]);
    check("workspace base gc", &[]);
    if let Some(base) = bases["bases"].get(0).and_then(Value::as_str) {
        check("workspace base remove", &[base]);
    }

    let one = place.workspace("one");
    let check = |command: &str, args: &[&str]| {
        schemas.check(command, &printed(&one, &[&[command, "--json"], args].concat()))
    };
    check("checkpoint", &["-m", "first"]);
    one.write("file", "more\n");
    check("undo", &[]);
    check("redo", &[]);
    check("checkpoints", &[]);
    check("fork", &["forked"]);
    for directory in [&one, &repo] {
        schemas.check("doctor", &printed(directory, &["doctor", "--json"]));
    }
    let outside = place.sandbox.repo("");
    schemas.check("doctor", &printed(&outside, &["doctor", "--json"]));
}

#[test]
fn remotes_of_bases_print_what_the_schemas_say() {
    let schemas = Schemas::read();
    let fleet = Fleet::new();
    let origin = fleet.origin();
    let host = fleet.host("host");
    let (remote, head) = (fleet.remote(), fleet.commit("HEAD"));
    let check = |repo: &Repo<'_>, command: &str, args: &[&str]| {
        let words: Vec<&str> = command.split(' ').chain(["--json"]).chain(args.iter().copied()).collect();
        schemas.check(command, &printed(repo, &words))
    };
    check(&origin, "base push", &["--no-mount", &remote]);
    check(&origin, "base lease", &["--holder", "job", &remote, "HEAD", "1h"]);
    assert_eq!(check(&origin, "base list", &[&remote]).as_array().map(Vec::len), Some(1));
    check(&origin, "base verify", &[&remote, "HEAD"]);
    check(&host, "base pull", &[&remote, &head]);
    let url = format!("file://{}", origin.path.display());
    let mirror = fleet.sandbox.path().join("mirror");
    check(&fleet.sandbox.repo(""), "base mirror", &["--dir", mirror.to_str().expect("plain"), &remote, &url]);
    check(&origin, "base prune", &["--keep", "1", "-n", &remote]);
}
