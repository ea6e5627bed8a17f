"""Drives a command of a client in repositories made for it; the client's own suite is in no registry.

Each step prints one TAP line that holds what the command said and what Git lists afterwards, so two runs are the
same if their lines are.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(os.environ["TMPDIR"], "tool")
count = 0


def run(*argv, cwd="repo", **env):
    done = subprocess.run(
        argv,
        cwd=ROOT / cwd,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    return done.returncode, done.stdout


def git(*argv, cwd="repo"):
    code, said = run("git", *argv, cwd=cwd)
    if code != 0:
        raise SystemExit(f"git {' '.join(argv)}: {said}")
    return said


def write(name, text, cwd="repo"):
    path = ROOT / cwd / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def commit(name, text):
    write(name, text)
    git("add", name)
    git("commit", "-qm", f"{name}: {text.strip()}")


def step(*argv, cwd="repo", **env):
    """Runs a command of the client and prints everything that can be seen of it."""
    global count
    count += 1
    code, said = run(*argv, cwd=cwd, **env)
    seen = [git(*look, cwd=cwd) for look in (["status", "--porcelain", "-b"], ["branch", "-vv"], ["stash", "list"])]
    # Times and the names of temporary files are of this run only.
    said = re.sub(r"\b(\d+\.)?\d+s\b|patch\d+-\d+|\(\d+ \w+ ago\)|repo\w{8}\b", "~", said)
    print(f"{'ok' if code == 0 else 'not ok'} {count} - {' '.join(argv)}: {json.dumps([said, *seen])}", flush=True)


def pre_commit():
    write(
        ".pre-commit-config.yaml",
        """repos:
- repo: local
  hooks:
  - {id: upper, name: upper, language: system, entry: sed -i s/bad/good/, files: '[.]txt$'}
  - {id: names, name: names, language: system, entry: echo, verbose: true}
  - {id: message, name: message, language: system, entry: grep -q ok, stages: [commit-msg]}
  - {id: after, name: after, language: system, entry: git status --porcelain, always_run: true, verbose: true,
     pass_filenames: false, stages: [post-checkout, post-commit, pre-push, post-rewrite]}
""",
    )
    write(".gitignore", "*.tmp\n")
    step("pre-commit", "run")
    step("pre-commit", "install", "-t", "pre-commit", "-t", "commit-msg", "-t", "post-checkout", "-t", "pre-push")
    git("add", ".")
    step("git", "commit", "-m", "not good")
    step("git", "commit", "-m", "ok: first")
    write("a.txt", "bad\n")
    write("b.txt", "good\n")
    git("add", ".")
    step("git", "commit", "-m", "ok: fails, the hook changes a file")
    git("add", ".")
    step("git", "commit", "-m", "ok: second")
    # What is not staged is put aside while hooks run, with `git diff` and `git checkout -- .`.
    write("a.txt", "staged\n")
    git("add", "a.txt")
    write("a.txt", "staged\nunstaged\n")
    write("b.txt", "unstaged\n")
    write("untracked.txt", "bad\n")
    step("pre-commit", "run")
    step("git", "commit", "-m", "ok: third, with changes that are not staged")
    write("a.txt", "bad\nunstaged\n")
    git("add", "a.txt")
    write("a.txt", "bad\nconflicting\n")
    step("git", "commit", "-m", "ok: the hook's change meets one that is not staged")
    step("pre-commit", "run", "--all-files")
    step("pre-commit", "run", "--from-ref", "HEAD^", "--to-ref", "HEAD")
    step("pre-commit", "run", "names", "--files", "a.txt", "b.txt")
    write("new.txt", "x\n")
    git("add", "--intent-to-add", "new.txt")
    step("pre-commit", "run")
    step("git", "checkout", "-f", "-b", "topic")
    step("git", "switch", "-")
    git("init", "-q", "--bare", "../remote.git")
    git("remote", "add", "origin", "../remote.git")
    step("git", "push", "origin", "HEAD:main")
    (ROOT / "hooks").mkdir()
    hook_repository()
    step("pre-commit", "try-repo", "../hooks", "shout", "--files", "a.txt")
    write(
        ".pre-commit-config.yaml",
        f"repos:\n- repo: {ROOT}/hooks\n  rev: v1\n  hooks: [{{id: shout}}]\n",
    )
    step("pre-commit", "run", "--all-files")
    step("pre-commit", "autoupdate")
    step("pre-commit", "run", "--all-files")
    step("git", "diff")
    step("pre-commit", "validate-config")
    step("pre-commit", "init-templatedir", str(ROOT / "template"))
    step("git", "clone", f"--template={ROOT}/template", ".", "../clone")
    step("git", "commit", "--allow-empty", "-m", "in a clone with hooks of a template", cwd="clone")
    step("git", "worktree", "add", "../worktree", "-b", "worktree")
    step("pre-commit", "run", "--all-files", cwd="worktree")
    step("pre-commit", "uninstall")
    step("pre-commit", "gc")


def hook_repository():
    git("init", "-q", cwd="hooks")
    write(
        ".pre-commit-hooks.yaml",
        "- {id: shout, name: shout, language: script, entry: ./shout, verbose: true}\n",
        cwd="hooks",
    )
    write("shout", "#!/bin/sh\necho shout \"$@\"\n", cwd="hooks")
    (ROOT / "hooks/shout").chmod(0o755)
    for tag in ["v1", "v2"]:
        git("add", ".", cwd="hooks")
        git("commit", "-q", "--allow-empty", "-m", tag, cwd="hooks")
        git("tag", tag, cwd="hooks")


def git_machete():
    commit("a", "1\n")
    git("init", "-q", "--bare", "../remote.git")
    git("remote", "add", "origin", "../remote.git")
    git("push", "-q", "-u", "origin", "master")
    for branch in ["develop", "topic", "part"]:
        git("checkout", "-q", "-b", branch)
        commit(branch, "1\n")
        commit(branch, "2\n")
    git("push", "-q", "-u", "origin", "develop")
    git("checkout", "-q", "-b", "side", "develop~1")
    commit("side", "1\n")
    step("git", "machete", "discover", "-y")
    step("git", "machete", "status", "-l")
    write(".git/machete", "master\n  develop  PR #1\n    topic\n      part\n    side\n")
    step("git", "machete", "status", "-L")
    for place in ["up", "first", "last", "next", "prev", "root", "down"]:
        step("git", "machete", "go", place)
        step("git", "machete", "show", place)
    git("checkout", "-q", "develop")
    commit("develop", "3\n")
    step("git", "machete", "status")
    git("checkout", "-q", "topic")
    step("git", "machete", "fork-point")
    step("git", "machete", "diff", "-s")
    step("git", "machete", "log")
    step("git", "machete", "update", "-n", GIT_SEQUENCE_EDITOR="true")
    step("git", "machete", "status")
    step("git", "machete", "traverse", "-y", GIT_SEQUENCE_EDITOR="true")
    step("git", "machete", "reapply", GIT_SEQUENCE_EDITOR="true")
    git("checkout", "-q", "side")
    step("git", "machete", "update", "-M")
    git("checkout", "-q", "master")
    step("git", "machete", "advance", "-y")
    step("git", "machete", "traverse", "-W", "-y", GIT_SEQUENCE_EDITOR="true")
    git("checkout", "-q", "topic")
    step("git", "machete", "slide-out", "-n")
    step("git", "machete", "squash")
    step("git", "machete", "add", "-y", "new", "--onto", "side")
    step("git", "machete", "anno", "for a review")
    step("git", "machete", "is-managed", "new")
    step("git", "machete", "list", "managed")
    step("git", "machete", "rename", "newer")
    step("git", "machete", "delete-unmanaged", "-y")
    write("dirty", "x\n")
    git("add", "dirty")
    step("git", "machete", "go", "root")
    step("git", "machete", "advance", "-y")
    step("git", "machete", "update", "-n", GIT_SEQUENCE_EDITOR="true")
    git("worktree", "add", "-q", "../worktree", "part")
    step("git", "machete", "status", cwd="worktree")
    step("git", "machete", "go", "up", cwd="worktree")
    step("git", "machete", "clean", "-y")


ROOT.mkdir()
(ROOT / "repo").mkdir()
git("init", "-q")
{"pre-commit": pre_commit, "git-machete": git_machete}[sys.argv[1]]()
print(f"1..{count}")
