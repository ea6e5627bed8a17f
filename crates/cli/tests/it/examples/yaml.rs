//! Reading the YAML of the examples.

use std::fs;

use yaml_rust2::{Yaml, YamlLoader};

/// Reads an example with one YAML document.
pub(super) fn read(name: &str) -> Yaml {
    let text = fs::read_to_string(super::example(name)).expect("the example");
    let mut documents = YamlLoader::load_from_str(&text).expect("it is YAML");
    assert_eq!(documents.len(), 1, "{name}");
    documents.remove(0)
}

/// Returns the strings of a list.
pub(super) fn lines(list: &Yaml) -> Vec<String> {
    list.as_vec().expect("a list").iter().map(text).collect()
}

/// Returns a string.
pub(super) fn text(value: &Yaml) -> String {
    value.as_str().expect("a text").to_owned()
}

/// Returns the names and values of a map of variables. A value that the runner computes comes from
/// `given`, whose variables precede the others.
pub(super) fn variables(map: &Yaml, given: &[(&str, &str)]) -> Vec<(String, String)> {
    let written = map.as_hash().expect("a map").iter().map(|(name, value)| (text(name), text(value)));
    let mut all: Vec<(String, String)> =
        written.filter(|(name, _)| given.iter().all(|(known, _)| known != name)).collect();
    for (name, value) in &all {
        assert!(!value.contains("${{"), "the test does not know {name}: {value}");
    }
    all.extend(given.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())));
    all
}
