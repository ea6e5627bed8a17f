//! Events for Git's traces (`GIT_TRACE2_EVENT`, `GIT_TRACE2_PERF`), which scripts search. They are
//! events of `tracing`; without a subscriber each costs one load.

use bstr::BStr;
use engine::untracked::Found;

/// Traces a number that scripts search for in `GIT_TRACE2_PERF`, within `regions` nested regions.
pub fn data(regions: usize, category: &'static str, label: &str, value: &str) {
    tracing::info!(target: "data", regions, category, label, value);
}

/// Like [`data`], for a JSON value.
pub fn data_json(regions: usize, category: &'static str, label: &str, value: &str) {
    tracing::info!(target: "data_json", regions, category, label, value);
}

/// Traces the counters of a search for untracked files. `path` is the directory that contains all
/// selected paths.
pub fn walk(regions: usize, path: &BStr, found: &Found) {
    let figure = |label: &str, number: usize| data(regions, "read_directory", label, &number.to_string());
    let cache = found.cache_stats.unwrap_or_default();
    data(regions, "read_directory", "path", &path.to_string());
    figure("directories-visited", found.directories_read + cache.spared);
    figure("paths-visited", found.names_judged + cache.names_taken);
    if found.cache_stats.is_some() {
        figure("node-creation", cache.created);
        figure("gitignore-invalidation", cache.rules_changed);
        figure("directory-invalidation", cache.invalidated);
        figure("opendir", cache.listed);
    }
}

/// Traces the start of a program, as scripts expect it.
pub fn child(class: &'static str, words: &[&str]) {
    let argv: Vec<String> = words.iter().map(|word| serde_json::Value::from(*word).to_string()).collect();
    let value = argv.join(",");
    tracing::info!(target: "child", category = class, label = words.join(" "), value);
}

/// Traces a region that Git would trace here, and that scripts search for.
pub fn region(category: &'static str, label: &'static str) {
    tracing::info!(target: "region", category, label, value = "");
}
