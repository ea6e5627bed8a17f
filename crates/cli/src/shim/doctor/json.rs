//! The report as one JSON document. docs/design/doctor.md lists the keys: within one `schema`, no
//! key is removed and no key changes its meaning.

use std::path::Path;

use serde_json::{Value, json};

use super::{
    commands::CommandReport,
    facts::{CacheFacts, Facts, IndexState, MonitorState, ObjectFacts, SparseCheckout, UntrackedCache},
    findings::{Finding, Kind},
    location::Location,
    programs::Programs,
    report::Report,
};

const SCHEMA: u32 = 1;

/// Returns the document, on several lines.
pub(super) fn document(report: &Report) -> String {
    let document = json!({
        "schema": SCHEMA,
        "sapwood": env!("CARGO_PKG_VERSION"),
        "git": git(&report.programs),
        "real_git": real_git(&report.programs),
        "repository": location(&report.location),
        "commands": report.commands.iter().map(command).collect::<Vec<_>>(),
        "facts": report.facts.as_ref().map(facts),
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
        "exit_code": report.code(),
    });
    format!("{document:#}")
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn git(programs: &Programs) -> Value {
    json!({
        "path": programs.first.as_deref().map(text),
        "is_sapwood": programs.is_sapwood,
        "switch": programs.switch.as_deref().unwrap_or("on"),
    })
}

fn real_git(programs: &Programs) -> Value {
    json!({
        "path": programs.real.as_ref().map(|git| text(&git.path)),
        "version": programs.real.as_ref().and_then(|git| git.version.clone()),
        "error": programs.error,
    })
}

fn location(location: &Location) -> Value {
    let (state, git_dir, work_tree, error) = match location {
        Location::Repository { git_dir, work_tree } => ("open", Some(git_dir), work_tree.as_ref(), None),
        Location::None => ("none", None, None, None),
        Location::Broken(error) => ("broken", None, None, Some(error)),
    };
    json!({
        "state": state,
        "git_dir": git_dir.map(|path| text(path)),
        "work_tree": work_tree.map(|path| text(path)),
        "error": error,
    })
}

fn command(report: &CommandReport) -> Value {
    json!({
        "name": report.command.name,
        "native": report.reasons.is_empty(),
        "reasons": report.reasons,
        "options": report.options(),
    })
}

fn finding(finding: &Finding) -> Value {
    let kind = match finding.kind {
        Kind::Problem => "problem",
        Kind::Slow => "slow",
    };
    json!({"id": finding.id, "kind": kind, "message": finding.message, "command": finding.mend})
}

fn facts(facts: &Facts) -> Value {
    let settings = &facts.settings;
    let nanoseconds = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    json!({
        "index": index(&facts.index),
        "disk": facts.disk.as_ref().map(|disk| json!({"type": disk.name, "local": disk.is_local})),
        "sample": facts.sample.map(|sample| json!({
            "files": sample.files,
            "stat_ns": nanoseconds(sample.stat),
            "read_ns": sample.read.map(nanoseconds),
            "touched": sample.touched,
        })),
        "monitor": monitor(&facts.monitor),
        "objects": objects(&facts.objects),
        "worktrees": {"linked": facts.worktrees.linked, "stale": facts.worktrees.stale},
        "locks": facts.locks.iter().map(|lock| json!({
            "path": text(&lock.path),
            "age_s": lock.age.map(|age| age.as_secs()),
        })).collect::<Vec<_>>(),
        "settings": {
            "untracked_cache": match settings.untracked_cache {
                UntrackedCache::Keep => "keep",
                UntrackedCache::On => "on",
                UntrackedCache::Off => "off",
            },
            "sparse_checkout": match settings.sparse {
                None => "off",
                Some(SparseCheckout::Cone) => "cone",
                Some(SparseCheckout::Patterns) => "patterns",
            },
            "preload_index": !settings.reads_alone,
            "one_checkout_worker": settings.writes_alone,
            "one_index_thread": settings.loads_alone,
            "skip_hash": settings.skips_hash,
            "fsync": settings.synced,
            "filters_without_process": settings.slow_filters,
        },
    })
}

fn index(state: &IndexState) -> Value {
    match state {
        IndexState::Missing => json!({"state": "missing"}),
        IndexState::Broken { why, .. } => json!({"state": "broken", "error": why}),
        IndexState::Read(index) => json!({
            "state": "read",
            "entries": index.entries,
            "directories": index.directories,
            "submodules": index.submodules,
            "skipped": index.skipped,
            "version": index.version,
            "bytes": index.size,
            "bytes_saved_by_version_4": index.saved_by_version_4,
            "sparse": index.is_sparse,
            "split": index.is_split,
            "monitored": index.is_monitored,
            "untracked_cache": match index.untracked {
                CacheFacts::None => json!({"state": "none"}),
                CacheFacts::Foreign => json!({"state": "foreign"}),
                CacheFacts::Here { directories, valid } => {
                    json!({"state": "here", "directories": directories, "valid": valid})
                }
            },
        }),
    }
}

fn monitor(state: &MonitorState) -> Value {
    match state {
        MonitorState::None => json!({"state": "none"}),
        MonitorState::Unfit(error) => json!({"state": "unfit", "error": error}),
        MonitorState::Program => json!({"state": "program"}),
        MonitorState::Workspace => json!({"state": "workspace"}),
        MonitorState::Daemon { is_running } => json!({"state": "daemon", "running": is_running}),
    }
}

fn objects(objects: &ObjectFacts) -> Value {
    json!({
        "packs": objects.packs,
        "pack_bytes": objects.pack_size,
        "packed": objects.packed,
        "loose": objects.loose,
        "loose_exact": objects.is_loose_exact,
        "packs_in_multi_pack_index": objects.indexed_packs.map(|count| count.min(objects.packs)),
        "commit_graph": objects.has_commit_graph,
        "alternates": objects.alternates,
        "partial": objects.is_partial,
        "damages": objects.damages,
        "lost_alternates": objects.lost_alternates,
    })
}
