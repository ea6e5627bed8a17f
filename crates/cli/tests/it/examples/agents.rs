//! The hooks of coding agents, called as the agents call them: a JSON document on standard input,
//! and an exit code.

use std::{io::Write as _, path::Path, process::Stdio};

use serde_json::{Value, json};
use testkit::{Repo, Run, Sandbox};

use super::example;
use crate::SAPWOOD;

/// Runs a hook as an agent does, in a shell.
fn call(repo: &Repo<'_>, command: &str, input: &str) -> Run {
    let mut shell = repo.command(Path::new("/bin/sh"));
    let path = shell.get_envs().find_map(|(name, value)| (name == "PATH").then_some(value?)).expect("a PATH");
    let dirs = [Path::new(SAPWOOD).parent().expect("a directory").to_owned()];
    let path = std::env::join_paths(dirs.into_iter().chain(std::env::split_paths(path))).expect("a PATH");
    shell.env("PATH", path).args(["-c", command]);
    let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.as_mut().expect("a shell");
    // A hook that reads nothing closes the pipe.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    let mut out = [Vec::new(), Vec::new()];
    std::io::Read::read_to_end(&mut child.stdout.take().expect("a pipe"), &mut out[0]).expect("read");
    std::io::Read::read_to_end(&mut child.stderr.take().expect("a pipe"), &mut out[1]).expect("read");
    let code = child.wait().expect("an end").code().expect("an exit code");
    let [stdout, stderr] = out;
    Run { code, stdout: stdout.into(), stderr: stderr.into() }
}

/// Returns the commands in a file, by event.
fn commands(file: &str) -> Vec<(String, String)> {
    let text = std::fs::read(example("agents").join(file)).expect("an example");
    let document: Value = serde_json::from_slice(&text).expect("JSON");
    let hooks = document["hooks"].as_object().expect("events");
    let command = |(event, groups): (&String, &Value)| {
        let group = &groups[0];
        let hook = if group["hooks"].is_null() { group } else { &group["hooks"][0] };
        (event.clone(), hook["command"].as_str().expect("a command").to_owned())
    };
    hooks.iter().map(command).collect()
}

/// Returns the document of an event, as the agent's reference describes it, and the label.
fn document(event: &str, dir: &str) -> (Value, &'static str) {
    let common = json!({
        "session_id": "s", "transcript_path": "/tmp/t.jsonl", "cwd": dir, "hook_event_name": event,
        "permission_mode": "default", "conversation_id": "c", "workspace_roots": [dir],
    });
    let (fields, label) = match event {
        "UserPromptSubmit" => (json!({ "prompt": "Fix it" }), "UserPromptSubmit: Fix it"),
        "PostToolUse" => (
            json!({
                "tool_name": "Bash", "tool_use_id": "t", "tool_response": { "stdout": "x".repeat(100_000) },
                "tool_input": { "command": "make test", "description": "Run the tests" },
            }),
            "Bash: make test",
        ),
        "AfterTool" => (
            json!({ "tool_name": "write_file", "tool_input": { "file_path": "src/a", "content": "b" } }),
            "write_file: src/a",
        ),
        "afterFileEdit" => (
            json!({ "file_path": "/r/a", "edits": [{ "old_string": "a", "new_string": "b" }] }),
            "afterFileEdit: /r/a",
        ),
        "afterShellExecution" => (json!({ "command": "ls", "output": "a\n" }), "afterShellExecution: ls"),
        other => panic!("unknown event {other}"),
    };
    let mut all = common;
    all.as_object_mut().expect("an object").extend(fields.as_object().expect("an object").clone());
    (all, label)
}

#[test]
fn agents_store_a_checkpoint_after_each_call() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    repo.write("a", "1\n");
    repo.commit("one");
    let mut labels: Vec<String> = Vec::new();
    for file in ["claude-code.json", "codex.json", "gemini-cli.json", "cursor.json"] {
        for (event, command) in commands(file) {
            repo.write("a", format!("{file} {event}\n"));
            let (document, label) = document(&event, &repo.path.to_string_lossy());
            let run = call(&repo, &command, &document.to_string());
            assert_eq!((run.code, run.stdout.as_slice()), (0, &b""[..]), "{file} {event}: {}", run.stderr);
            labels.insert(0, label.to_owned());
        }
    }
    let listed = repo.run(SAPWOOD.as_ref(), &["checkpoints", "--json"]).stdout;
    let listed: Value = serde_json::from_slice(&listed).expect("a document");
    assert_eq!(listed["version"], 1);
    let found = listed["checkpoints"].as_array().expect("a list").iter().rev();
    let found: Vec<&str> = found.map(|entry| entry["label"].as_str().expect("a label")).collect();
    assert_eq!(found, labels);
    assert_eq!(repo.run(SAPWOOD.as_ref(), &["undo", "2"]).code, 0);
    assert_eq!(repo.read("a"), "gemini-cli.json AfterTool\n");
}

/// Returns the labels, the oldest first.
fn labels(repo: &Repo<'_>) -> Vec<String> {
    let listed = repo.run(SAPWOOD.as_ref(), &["checkpoints", "--json"]).stdout;
    let listed: Value = serde_json::from_slice(&listed).expect("a document");
    let entries = listed["checkpoints"].as_array().expect("a list").iter();
    entries.map(|entry| entry["label"].as_str().expect("a label").to_owned()).collect()
}

/// Hooks of a user run in the home directory with some agents. The document names the place.
#[test]
fn the_document_names_the_directory() {
    let sandbox = Sandbox::new();
    let [one, two, home] = ["one", "two", "home"].map(|name| {
        let repo = sandbox.repo(name);
        if name != "home" {
            sandbox.init(name);
            repo.write("dir/a", "1\n");
            repo.commit("one");
        }
        repo
    });
    let path = |repo: &Repo<'_>, below: &str| repo.join(below).to_string_lossy().into_owned();
    let hook = "sapwood checkpoint --hook";
    for (place, document, expected) in [
        (&home, json!({ "tool_name": "cwd", "cwd": path(&one, "dir") }), &one),
        (&two, json!({ "tool_name": "cwd", "cwd": path(&one, "") }), &one),
        (&two, json!({ "tool_name": "gone", "cwd": path(&one, "gone") }), &two),
        (&two, json!({ "tool_name": "relative", "cwd": "../one" }), &two),
        (&home, json!({ "tool_name": "roots", "workspace_roots": ["/", path(&one, "")] }), &one),
        (
            &home,
            json!({ "tool_name": "file", "file_path": path(&two, "dir/new"), "workspace_roots": [path(&one, "")] }),
            &two,
        ),
        (&one, json!({ "tool_name": "no string", "cwd": 7, "workspace_roots": {} }), &one),
        (&one, json!({}), &one),
    ] {
        let before = [labels(&one).len(), labels(&two).len()];
        let run = call(place, hook, &document.to_string());
        assert_eq!((run.code, run.stdout, run.stderr), (0, "".into(), "".into()), "{document}");
        let label = document["tool_name"].as_str().unwrap_or("hook");
        assert!(labels(expected).last().is_some_and(|last| last.starts_with(label)), "{document}");
        assert_eq!(labels(&one).len() + labels(&two).len(), before[0] + before[1] + 1, "{document}");
    }
    assert!(!home.exists(".git"));
    // A repository without a worktree has nothing to store.
    home.git(&["init", "-q", "--bare", "bare"]);
    let run = call(&home, hook, &json!({ "cwd": path(&home, "bare") }).to_string());
    assert_eq!((run.code, run.stdout, run.stderr), (0, "".into(), "".into()));
}

/// The repository of another user is an error that the agent shows, and nothing runs in it.
#[test]
fn the_repository_of_another_user_is_no_veto() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    if std::os::unix::fs::chown(repo.join(".git"), Some(12_345), None).is_err() {
        println!("skipped: only root can give a directory away");
        return;
    }
    std::os::unix::fs::chown(repo.join(""), Some(12_345), None).expect("changed");
    let (document, _) = document("PostToolUse", &repo.path.to_string_lossy());
    for place in [&repo, &sandbox.repo("home")] {
        let run = call(place, "sapwood checkpoint --hook", &document.to_string());
        assert_eq!((run.code, run.stdout.as_slice()), (1, &b""[..]));
        assert!(
            run.stderr.starts_with(b"fatal: detected dubious ownership in repository at '"),
            "{}",
            run.stderr
        );
    }
    assert!(!repo.exists(".git/refs/sapwood"));
}

/// Where sapwood is missing, the shell's exit code is none that an agent takes for a veto.
#[test]
fn a_missing_program_is_no_veto() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    for file in ["claude-code.json", "codex.json", "gemini-cli.json", "cursor.json"] {
        for (event, command) in commands(file) {
            let mut shell = repo.command(Path::new("/bin/sh"));
            let output = shell.env("PATH", "/nowhere").args(["-c", &command]).output().expect("a shell");
            assert_eq!(
                (output.status.code(), output.stdout.as_slice()),
                (Some(127), &b""[..]),
                "{file} {event}"
            );
        }
    }
    // A directory that is gone.
    let mut shell = repo.command(Path::new("/bin/sh"));
    let script =
        format!("mkdir gone && cd gone && rmdir ../gone && exec {SAPWOOD} checkpoint --hook </dev/null");
    let output = shell.args(["-c", &script]).output().expect("a shell");
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(128), &b""[..]));
}

/// No failure of a hook is a veto, and outside of a repository there is nothing to do.
#[test]
fn a_failing_hook_is_no_veto() {
    let sandbox = Sandbox::new();
    let repo = sandbox.init("repo");
    let hook = "sapwood checkpoint --hook";
    repo.write("a", "1\n");
    repo.commit("one");
    let (document, _) = document("PostToolUse", "/");
    let outside = call(&sandbox.repo("home"), hook, &document.to_string());
    assert_eq!((outside.code, outside.stdout, outside.stderr), (0, "".into(), "".into()));
    // The state is worth more than its label.
    for (number, input) in ["", "no document", "{\"tool_name\":", "{} {}", "\u{0}"].into_iter().enumerate() {
        repo.write("a", number.to_string());
        let run = call(&repo, hook, input);
        assert_eq!((run.code, run.stdout.as_slice()), (1, &b""[..]));
        assert!(run.stderr.starts_with(b"error: standard input is not JSON"), "{}", run.stderr);
        assert_eq!(labels(&repo), vec!["hook"; number + 1]);
        let stored = format!("refs/sapwood/checkpoints/main/{}:worktree/a", number + 1);
        assert_eq!(repo.git(&["show", &stored]).stdout, number.to_string());
    }
    repo.git(&["config", "sapwood.checkpointKeep", "none"]);
    let run = call(&repo, hook, &document.to_string());
    assert_eq!((run.code, run.stdout.as_slice()), (1, &b""[..]), "{}", run.stderr);
    assert!(run.stderr.starts_with(b"fatal: bad numeric config value"), "{}", run.stderr);
}

/// Claude Code's hooks of worktrees: the directory on standard output, and nothing else.
#[test]
fn an_agent_creates_and_removes_its_workspace() {
    let sandbox = Sandbox::new();
    let _mounts = testkit::disk::NoMountsBelow::new(&sandbox.path());
    let repo = sandbox.init("repo");
    repo.write("dir/a", "1\n");
    repo.commit("one");
    let home = sandbox.repo("home");
    let commands = commands("claude-code-worktrees.json");
    let command = |event: &str| {
        let found = commands.iter().find(|(name, _)| name == event);
        found.expect("the event is in the file").1.clone()
    };
    let cwd = repo.join("dir").to_string_lossy().into_owned();
    let create = json!({ "hook_event_name": "WorktreeCreate", "cwd": cwd, "name": "fix/one" }).to_string();
    let made = call(&home, &command("WorktreeCreate"), &create);
    let dir = sandbox.path().join("repo.workspaces/fix-one");
    assert_eq!((made.code, made.stdout.to_string()), (0, format!("{}\n", dir.display())), "{}", made.stderr);
    let again = call(&home, &command("WorktreeCreate"), &create);
    assert_eq!((again.code, again.stdout), (0, made.stdout), "{}", again.stderr);
    let workspace = sandbox.repo("repo.workspaces/fix-one");
    assert_eq!(workspace.read("dir/a"), "1\n");
    // Unsaved work is not removed.
    workspace.write("dir/a", "2\n");
    let remove = json!({ "hook_event_name": "WorktreeRemove", "cwd": cwd, "worktree_path": dir }).to_string();
    let refused = call(&home, &command("WorktreeRemove"), &remove);
    assert!(refused.code != 0 && refused.stdout.is_empty(), "{}", refused.stderr);
    assert_eq!(workspace.read("dir/a"), "2\n");
    workspace.git(&["checkout", "-q", "--", "dir/a"]);
    // A directory in the workspace is not the workspace.
    let inner = json!({ "worktree_path": dir.join("dir") }).to_string();
    let refused = call(&home, &command("WorktreeRemove"), &inner);
    assert!(
        refused.code != 0 && refused.stderr.to_string().contains("is no workspace"),
        "{}",
        refused.stderr
    );
    assert!(dir.exists());
    let removed = call(&home, &command("WorktreeRemove"), &remove);
    assert_eq!((removed.code, removed.stdout), (0, "".into()), "{}", removed.stderr);
    assert!(!dir.exists());
    for (event, document, reason) in [
        ("WorktreeCreate", json!({ "cwd": cwd }), "has no field 'name'"),
        ("WorktreeRemove", json!({ "worktree_path": cwd }), "is no workspace"),
        ("WorktreeRemove", json!({ "worktree_path": "/" }), "is no workspace"),
    ] {
        let wrong = call(&home, &command(event), &document.to_string());
        assert!(wrong.code != 0 && wrong.stderr.to_string().contains(reason), "{event}: {}", wrong.stderr);
    }
    let wrong = repo.run(SAPWOOD.as_ref(), &["workspace", "hook", "keep"]);
    assert_eq!(wrong.code, 128);
}

/// The skill names commands that exist.
#[test]
fn the_skill_names_commands_that_exist() {
    let text = std::fs::read_to_string(example("agents/sapwood-workspaces/SKILL.md")).expect("an example");
    let front =
        text.strip_prefix("---\n").and_then(|text| text.split_once("\n---\n")).expect("front matter").0;
    assert!(front.lines().any(|line| line == "name: sapwood-workspaces"), "{front}");
    assert!(front.lines().any(|line| line.starts_with("description: ")), "{front}");
    let sandbox = Sandbox::new();
    let at = sandbox.repo("");
    let mut seen = 0;
    for line in text.lines().flat_map(|line| line.split('`').skip(1).step_by(2).chain([line.trim_start()])) {
        let Some(words) = line.strip_prefix("sapwood ") else { continue };
        let words: Vec<&str> = words.split(' ').collect();
        let name = if matches!(words[0], "workspace" | "ci") { &words[..2] } else { &words[..1] };
        let help = at.run(SAPWOOD.as_ref(), &[name, &["-h"]].concat());
        assert_eq!(help.code, 129, "{line}");
        let options = words.iter().filter(|word| word.starts_with("--") && word.len() > 2);
        for option in options {
            let option = option.split('=').next().unwrap_or_default();
            assert!(help.stdout.to_string().replace("[no-]", "").contains(option), "{line}: {option}");
        }
        seen += 1;
    }
    assert!(seen > 5, "{seen}");
}
