# `just check` before a commit; the slow matrices have a command each.

# An option of the lab may hold spaces (`--note`).
set positional-arguments

# format, lints, documentation
check:
    cargo fmt --all --check
    .ci/prose
    cargo clippy --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items

# all tests, with Git 2.55 as the oracle
test *args:
    .ci/test {{args}}

# the transition matrix, the walks of the bundles, the matrices of stash and rev-parse, whole
conformance:
    SAPWOOD_TEST_FULL=1 .ci/test --profile quick -- matrix walk trees stash::pop rev_parse

# Git's own test suite with the real git and with sapwood's in its place; the core slice, or what is asked for
referee *args:
    .ci/referee {{args}}

# test suites of other people's Git clients with the real git and with sapwood's in its place; all, or those named
clients *args:
    .ci/clients {{args}}

# 10,800 random edits under every cache and monitor, Git asked after each
edits:
    SAPWOOD_TEST_FULL=1 .ci/test -- edits

# 3,000 random environments (variables, settings in every scope, current directories), each command beside Git
environments:
    SAPWOOD_TEST_FULL=1 .ci/test -- environments

# killed before every change on disk: commands of every day, clones, switches (also with submodules), base push and pull
crash:
    SAPWOOD_TEST_FULL=1 .ci/test --profile quick -- killed:: recursion::recovers

# everything that sapwood writes, read and continued by the Gits of other Debian releases
old-gits:
    SAPWOOD_TEST_OLD_GITS="$(.ci/old-gits)" .ci/test -- old_gits

# the program of the last tag and this one take turns on repositories, workspaces, bases and checkpoints
upgrade *args:
    SAPWOOD_TEST_OLD_PROGRAM="$(.ci/old-program {{args}})" .ci/test -- upgrade::

# 5,000 random edits on each backend of a workspace, beside an ordinary worktree (needs root: mounts)
workspace-edits:
    SAPWOOD_TEST_FULL=1 .ci/test -- workspace::random

# 200 random runs: no removal by class or budget takes unsaved work (needs root: mounts)
workspace-classes:
    SAPWOOD_TEST_FULL=1 .ci/test -- workspace::classes::nothing_unsaved

# 10,000 random edits, checkpoints, undos, redos and forks beside a model that copies everything
checkpoints:
    SAPWOOD_TEST_FULL=1 .ci/test -- checkpoint::

# 500 random histories of commits, rebases, switches and workspaces that take builds along, with make and ninja
workspace-builds:
    SAPWOOD_TEST_FULL=1 .ci/test -- workspace::builds

# clones with a base, killed before every change on disk and finished by the same command
base-crash:
    SAPWOOD_TEST_FULL=1 .ci/test -- clone_base::a_killed

# killed before every change on disk and mount of each command of workspaces, then rebooted (needs root: mounts)
workspace-crash:
    SAPWOOD_TEST_FULL=1 .ci/test --profile quick -- workspace::killed workspace::differences::a_killed

# hostile servers beside Git, and clones and fetches that are cut or killed 50 times
wire:
    SAPWOOD_TEST_FULL=1 .ci/test -- hostile_servers cuts

# every operation of clone, checkout, switch and reset fails in every way (needs FUSE)
faults:
    SAPWOOD_TEST_FULL=1 .ci/test --profile quick -- faults

# the power fails at every change of the disk while something is recorded, and every operation of it fails (needs FUSE)
power:
    SAPWOOD_TEST_FULL=1 .ci/test --profile quick -- power:: recording

# fifty writers, a fold, gc and maintenance in one repository, killed at random for two minutes
writers:
    SAPWOOD_TEST_FULL=1 .ci/test --profile quick -- writers --nocapture

# wildcards, compared with Git's matcher: 10 million answers
wildmatch:
    SAPWOOD_TEST_FULL=1 .ci/test --profile quick -- wildmatch --nocapture
    SAPWOOD_TEST_FULL=1 .ci/test --profile quick -- patterns --nocapture

# 300 volumes of containers by 30 workers, and 200 kills of their service (needs root: mounts)
volumes:
    SAPWOOD_TEST_FULL=1 .ci/test --profile quick -- volumes_come_and_go kill_at_any_instant

# the fuzz targets compile
fuzz-check:
    CARGO_TARGET_DIR=target cargo check --locked --manifest-path fuzz/Cargo.toml --no-default-features --bins

# the Debian package, in target/package
package:
    .ci/package

# everything that a release consists of, in target/dist; `--dry-run` without tag and key: docs/releasing.md
release *args:
    .ci/release {{args}}

# the mount service, built in two directories, is the same; with --all the whole release
reproduce *args:
    .ci/reproduce {{args}}

# what `just release` made is installed and used, each file in a root that has nothing else (needs root)
ways-in *args:
    .ci/ways-in {{args}}

# the crates as a registry would get them, each built from its package
crates:
    cargo publish --workspace --locked --dry-run

# the public items of the crate `sapwood` beside those of the last tag, or of a revision
semver revision="":
    .ci/semver {{revision}}

# README's two commands, the Debian package and `cargo install`, each on a fresh Debian (needs root)
clean-machine *args:
    .ci/clean-machine {{args}}

# every parser, a minute each
fuzz:
    for target in $(cargo fuzz list); do cargo +nightly fuzz run "$target" -- -max_total_time=60; done

# a day of user, editors, a job and agents, on Git and on the shim: the same, and how fast
day *args:
    .ci/oracle
    cargo build --release
    PATH="$PWD/target/oracle/bin:$PATH" cargo run --release -p sapwood-lab -- day "$@"

# every table of README and docs for this commit, in 80 minutes or with `--quick` 15, then the page (needs root: mounts)
measure *args:
    .ci/oracle
    cargo build --release
    PATH="$PWD/target/oracle/bin:$PWD/target/release:$PATH" cargo run --release -p sapwood-lab -- measure "$@"

# the rows that became 10% worse since other records: a directory, or a commit that holds them
since *args:
    cargo run --release -p sapwood-lab -- report --since "$@"

# time, memory and bytes written at 0.1 to 3.5 million files, with the exponents (needs root: mounts; 20 GB)
scale *args:
    cargo build --release
    PATH="$PWD/target/release:$PATH" cargo run --release -p sapwood-lab -- scale "$@"

# the peak memory of every native command, beside Git's
memory *args:
    cargo build --release
    cargo run --release -p sapwood-lab -- memory "$@"

# 60 calls of an editor, a prompt and an agent in small repositories
small *args:
    cargo build --release
    cargo run --release -p sapwood-lab -- small "$@"

# sapwood, Git and gix side by side (needs root: loop mounts)
bench *args:
    cargo build --release
    cargo run --release -p sapwood-lab -- checkout "$@"

# the same on slow disks (needs root: mounts); --tree names a repository or bundle
weather *args:
    cargo build --release
    cargo run --release -p sapwood-lab -- weather "$@"

# status beside Git's and gix's, warm and on slow disks (needs root: mounts)
status *args:
    cargo build --release
    cargo run --release -p sapwood-lab -- status "$@"

# index, multi-pack-index, commit-graph and index-pack beside Git's and gix's
write *args:
    cargo build --release
    cargo run --release -p sapwood-lab -- write "$@"

# workspaces beside worktrees, copies that share bytes, and unionfs-fuse (needs root: mounts)
workspace *args:
    cargo build --release
    PATH="$PWD/target/release:$PATH" cargo run --release -p sapwood-lab -- workspace "$@"

# the steps of a day in a workspace, beside a plain worktree (needs root: mounts)
life *args:
    cargo build --release
    PATH="$PWD/target/release:$PATH" cargo run --release -p sapwood-lab -- life "$@"

# agents at once in workspaces, beside worktrees with shadow repositories (needs root: mounts)
agents *args:
    cargo build --release
    PATH="$PWD/target/release:$PATH" cargo run --release -p sapwood-lab -- agents "$@"

# add, commit and stash beside Git's, on local disks and on disks whose flushes take time (needs root: mounts)
add *args:
    cargo build --release
    cargo run --release -p sapwood-lab -- add "$@"

# clone and fetch beside Git's and gix's, over files, https, slow lines and ssh (needs root: mounts; nginx, fcgiwrap, sshd)
clone *args:
    .ci/oracle
    cargo build --release
    PATH="$PWD/target/oracle/bin:$PATH" cargo run --release -p sapwood-lab -- clone "$@"

# the worktree of a job on a runner, beside the commands of Git (needs root: mounts; nginx, fcgiwrap)
ci *args:
    .ci/oracle
    cargo build --release
    PATH="$PWD/target/oracle/bin:$PATH" cargo run --release -p sapwood-lab -- ci "$@"

# hosts that begin a job on one repository: clones, mirrors, archives, shared bases (needs root: namespaces and mounts)
fleet *args:
    .ci/oracle
    cargo build --release
    PATH="$PWD/target/oracle/bin:$PATH" cargo run --release -p sapwood-lab -- fleet "$@"

# status over a shared base, local and on a network disk, as in an article of 2012 (needs root: mounts)
article *args:
    cargo build --release
    PATH="$PWD/target/release:$PATH" cargo run --release -p sapwood-lab -- article "$@"

# docs/commands.md, from the records of the commands, and docs/settings.md, from the keys of the settings
documents:
    cargo run --quiet -p sapwood-cli -- help --markdown >docs/commands.new && mv docs/commands.new docs/commands.md
    cargo run --quiet -p sapwood-cli -- help --settings >docs/settings.new && mv docs/settings.new docs/settings.md

# the web pages of docs/site, in target/site, with all links followed; needs mdbook
site:
    .ci/site target/site

# docs/measurements.md and its charts, from the records that `--record docs/measurements/NAME.json` wrote
report:
    cargo run -p sapwood-lab -- report
