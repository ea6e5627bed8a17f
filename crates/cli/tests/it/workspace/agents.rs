//! docs/agents.md: each JSON document is as the page says.

use std::collections::BTreeMap;

use serde_json::Value;

use super::create::Place;
use crate::SAPWOOD;

const PAGE: &str = include_str!("../../../../../docs/agents.md");

/// Returns the examples of the page, by the commands in the headings above them.
fn examples() -> BTreeMap<String, Value> {
    let json = PAGE.split_once("\n## JSON\n").expect("the section").1;
    let mut examples = BTreeMap::new();
    for section in json.split("\n### ").skip(1) {
        let (heading, rest) = section.split_once('\n').expect("a heading");
        let lines = rest.lines().skip(1).take_while(|line| line.starts_with("    "));
        let text: String = lines.collect();
        let value: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{heading}: {error}"));
        for command in heading.split(", ") {
            examples.insert(command.trim_matches('`').to_owned(), value.clone());
        }
    }
    examples
}

/// Compares names and kinds of all fields. An empty array and null fit everything, at the place
/// where a value may be absent.
fn same_shape(path: &str, example: &Value, found: &Value) {
    match (example, found) {
        (Value::Null, _) | (_, Value::Null) => {}
        (Value::Object(example), Value::Object(found)) => {
            let names = |object: &serde_json::Map<String, Value>| object.keys().cloned().collect::<Vec<_>>();
            assert_eq!(names(found), names(example), "{path}");
            example
                .iter()
                .for_each(|(name, value)| same_shape(&format!("{path}.{name}"), value, &found[name]));
        }
        (Value::Array(example), Value::Array(found)) => {
            let pairs = found.iter().filter_map(|found| Some((example.first()?, found)));
            pairs.for_each(|(example, found)| same_shape(&format!("{path}[]"), example, found));
        }
        (Value::Bool(_), Value::Bool(_))
        | (Value::Number(_), Value::Number(_))
        | (Value::String(_), Value::String(_)) => {}
        _ => panic!("{path}: the page has {example}, the program {found}"),
    }
}

/// Checks the version of a document, in each object of an array.
fn has_version(command: &str, document: &Value) {
    let all = document.as_array().cloned().unwrap_or_else(|| vec![document.clone()]);
    assert!(!all.is_empty(), "{command} has printed an empty array");
    all.iter().for_each(|one| assert_eq!(one["version"], 1, "{command}: {one}"));
}

#[test]
fn documents_are_as_the_page_says() {
    let mut examples = examples();
    let place = Place::new();
    let repo = place.repo();
    repo.git(&["branch", "trunk"]);
    let args = ["create", "--sealed", "--json", "sealed", "trunk"];
    check(&mut examples, "workspace create --json", &place.done(&args));
    for name in ["one", "two"] {
        place.done(&["create", "-q", "--backend", "overlay", name, "trunk", "-b", name]);
        place.workspace(name).write("file", format!("{name}\n"));
        place.workspace(name).commit(name);
    }
    check(&mut examples, "workspace list --json", &place.done(&["list", "--json"]));
    let conflicts = place.run(&["conflicts", "--json"]);
    let conflicts = check(&mut examples, "workspace conflicts --json", &conflicts.stdout.to_string());
    assert_eq!(
        (&conflicts["pairs"][0]["conflicts"], conflicts["notExamined"].as_array().map(Vec::len)),
        (&serde_json::json!(["file"]), Some(1))
    );

    // An array with both kinds of objects.
    let landed = place.run(&["land", "--json", "--rebase", "--onto", "trunk", "one", "two"]);
    let landed: Value = serde_json::from_str(&landed.stdout.to_string()).expect("JSON");
    has_version("land", &landed);
    let example = examples.remove("workspace land --json").expect("the page has it");
    same_shape("land", &example[0], &landed[0]);
    same_shape("not landed", &example[1], &landed[1]);
    assert!(landed[1]["commit"].is_string() && landed[0]["landed"] == true, "{landed}");

    let one = place.workspace("one");
    let there = |args: &[&str]| {
        let run = one.run(SAPWOOD.as_ref(), args);
        assert_eq!(run.code, 0, "{args:?}: {}", run.stderr);
        run.stdout.to_string()
    };
    one.git(&["init", "-q", "nested"]);
    let example = examples["checkpoint --json"].clone();
    let made = check(&mut examples, "checkpoint --json", &there(&["checkpoint", "--json", "-m", "first"]));
    let place_of = |document: &Value| {
        let name = document["ref"].as_str().expect("a name").to_owned();
        let parts: Vec<&str> = name.split('/').collect();
        (parts[..4].join("/"), parts.len())
    };
    assert_eq!(place_of(&made), place_of(&example));
    assert_eq!(made["leftOut"][0]["reason"], example["leftOut"][0]["reason"]);
    one.remove("nested");
    one.write("file", "more\n");
    check(&mut examples, "undo --json", &there(&["undo", "--json"]));
    check(&mut examples, "redo --json", &there(&["redo", "--json"]));
    check(&mut examples, "checkpoints --json", &there(&["checkpoints", "--json"]));
    check(&mut examples, "fork --json", &there(&["fork", "--json", "forked"]));

    // A creation that was killed before it wrote a file.
    let record = repo.join(".git/sapwood/workspaces/sealed/record");
    let content = std::fs::read_to_string(&record).expect("a record");
    std::fs::write(&record, format!("{content}\tbegun = 4194304\n")).expect("written");
    check(&mut examples, "workspace gc --json", &place.done(&["gc", "--json"]));
    place.reboot();
    check(&mut examples, "workspace mount --all --json", &place.done(&["mount", "--all", "--json"]));
    check(&mut examples, "workspace remove --json", &place.done(&["remove", "--force", "--json", "one"]));
    assert!(examples.is_empty(), "no test for {examples:?}");
}

/// Compares a document with the example of the page, which is taken out.
fn check(examples: &mut BTreeMap<String, Value>, command: &str, printed: &str) -> Value {
    let document: Value =
        serde_json::from_str(printed).unwrap_or_else(|error| panic!("{command}: {error}: {printed}"));
    has_version(command, &document);
    let example = examples.remove(command).unwrap_or_else(|| panic!("the page lacks '{command}'"));
    same_shape(command, &example, &document);
    document
}
