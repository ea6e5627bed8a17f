//! Contents that do not come from blobs of the tree alone: submodules, filters, sparse worktrees
//! and partial clones, on each backend.

use std::{fs, path::Path};

use testkit::{FILTER_PROTOCOL, has_program};

use super::create::{Place, leftovers};
use crate::SAPWOOD;

/// The backends that are available to root if bases are on ext4.
const BACKENDS: [&str; 5] = ["image", "overlay", "overlay-user", "fuse", "copy"];

/// Calls `test` with a place for each backend that works here.
fn on_each(test: impl Fn(&Place, &str)) {
    for backend in BACKENDS {
        let has_driver = has_program("fuse-overlayfs") || has_program("unionfs-fuse");
        if backend == "fuse" && !(has_driver && Path::new("/dev/fuse").exists()) {
            println!("skipped: there is no driver for 'fuse' here");
            continue;
        }
        let place = Place::new();
        test(&place, backend);
        assert_eq!(leftovers(&place), Vec::<std::path::PathBuf>::new(), "{backend}");
    }
}

/// Returns the status by plain Git, by Git without a monitor and by sapwood, which must agree.
fn status(place: &Place, name: &str) -> String {
    let plain = place.git(name, &["status", "--porcelain"]);
    let all =
        place.git(name, &["--no-optional-locks", "-c", "core.fsmonitor=false", "status", "--porcelain"]);
    let ours = place.done(&["exec", name, "--", SAPWOOD, "status", "--porcelain"]);
    assert_eq!((&plain, &plain), (&all, &ours));
    plain
}

#[test]
fn submodules_are_empty_directories_until_they_are_updated() {
    on_each(|place, backend| {
        let repo = place.repo();
        let sub = place.sandbox.init("sub");
        sub.write("inner", "of the submodule\n");
        sub.commit("sub");
        repo.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../sub", "libs/sub"]);
        repo.commit("with a submodule");
        place.done(&["create", "one", "--detach", "--backend", backend]);
        let inside = |script: &str| place.done(&["exec", "one", "--", "sh", "-ec", script]);
        assert_eq!(inside("find libs"), "libs\nlibs/sub\n", "{backend}");
        assert_eq!(status(place, "one"), "", "{backend}");
        let update = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init"];
        place.git("one", &update);
        assert_eq!(inside("cat libs/sub/inner"), "of the submodule\n", "{backend}");
        assert_eq!(status(place, "one"), "", "{backend}");
        inside("echo more >>libs/sub/inner");
        assert_eq!(status(place, "one"), " M libs/sub\n", "{backend}");
        let refused = place.run(&["remove", "one"]);
        assert_ne!(refused.code, 0, "{backend}: the submodule holds unsaved work");
        assert_eq!(inside("cat libs/sub/inner"), "of the submodule\nmore\n", "{backend}");
        place.done(&["remove", "--force", "one"]);
        // The submodule of the main worktree is a separate one.
        assert_eq!(repo.git(&["status", "--porcelain"]).stdout, "", "{backend}");
        assert_eq!(repo.read("libs/sub/inner"), "of the submodule\n");
    });
}

/// Configures a filter like Git LFS: the blob is a pointer, and the content is stored elsewhere. It
/// logs each file that it converts.
fn add_filter(place: &Place) {
    let store = place.sandbox.path().join("store");
    fs::create_dir_all(&store).expect("a new directory");
    let script = format!(
        r#"{FILTER_PROTOCOL}
my $store = '{store}';
while (1) {{
    my %ask = map {{ split /=/, $_, 2 }} lines();
    exit 0 unless $ask{{command}};
    if ($ask{{command}} eq 'list_available_blobs') {{ flush(); packet("status=success\n"); flush(); next; }}
    my $in = content();
    my $out = $in;
    if ($ask{{command}} eq 'clean') {{
        my $key = unpack('%32C*', $in) . '-' . length($in);
        open(my $to, '>', "$store/$key") or die; print $to $in; close $to;
        $out = "pointer $key\n";
    }} elsif ($in =~ /^pointer (\S+)$/) {{
        open(my $log, '>>', "$store.log") or die; print $log "$ask{{pathname}}\n"; close $log;
        open(my $from, '<', "$store/$1") or die; local $/; $out = <$from>;
    }}
    packet("status=success\n"); flush();
    packet(substr($out, 0, 65000, '')) while length $out;
    flush(); flush();
}}
"#,
        store = store.display(),
    );
    let program = place.sandbox.path().join("large.pl");
    fs::write(&program, script).expect("a new file");
    let repo = place.repo();
    repo.git(&["config", "filter.large.process", &format!("perl '{}'", program.display())]);
    repo.git(&["config", "filter.large.required", "true"]);
}

#[test]
fn a_base_holds_filtered_content() {
    on_each(|place, backend| {
        add_filter(place);
        let repo = place.repo();
        repo.write(".gitattributes", "*.large filter=large\n");
        let content = "content\n".repeat(20_000);
        repo.write("data/one.large", &content);
        repo.write("data/two.large", "small\n");
        repo.commit("with large files");
        assert!(repo.git(&["show", "HEAD:data/one.large"]).stdout.starts_with(b"pointer "));
        let log = place.sandbox.path().join("store.log");
        let asked = || fs::read_to_string(&log).unwrap_or_default().lines().count();
        let before = asked();
        place.done(&["create", "one", "--detach", "--backend", backend]);
        let read = |name: &str| place.done(&["exec", name, "--", "cat", "data/one.large"]);
        assert_eq!(read("one"), content, "{backend}");
        assert_eq!(status(place, "one"), "", "{backend}");
        assert_eq!(asked() - before, 2, "{backend}");
        if backend != "copy" {
            // A second workspace of the same base does not run the filter.
            place.done(&["create", "two", "--detach", "--backend", backend]);
            assert_eq!(read("two"), content, "{backend}");
            assert_eq!(status(place, "two"), "", "{backend}");
            assert_eq!(asked() - before, 2, "{backend}");
            place.done(&["remove", "two"]);
        }
        place.done(&["exec", "one", "--", "sh", "-c", "echo changed >data/two.large"]);
        assert_eq!(status(place, "one"), " M data/two.large\n", "{backend}");
        place.git("one", &["commit", "-qam", "changed"]);
        assert!(place.git("one", &["show", "HEAD:data/two.large"]).starts_with("pointer "));
        assert_eq!(status(place, "one"), "", "{backend}");
        place.done(&["remove", "--force", "one"]);
        // Other settings require another base: without the filter, the files contain pointers.
        repo.git(&["config", "--unset", "filter.large.required"]);
        repo.git(&["config", "--unset", "filter.large.process"]);
        place.done(&["create", "raw", "--detach", "--backend", backend]);
        assert!(read("raw").starts_with("pointer "), "{backend}");
        assert_eq!(status(place, "raw"), "", "{backend}");
        place.done(&["remove", "raw"]);
    });
}

#[test]
fn a_workspace_is_sparse_from_birth() {
    on_each(|place, backend| {
        let repo = place.repo();
        for dir in ["one/deep", "two", "three"] {
            repo.write(format!("{dir}/file"), format!("of {dir}\n"));
        }
        repo.commit("with directories");
        let options = ["--sparse", "one/deep", "--sparse", "three/", "--backend", backend];
        place.done(&[&["create", "few", "--detach"], &options[..]].concat());
        let inside = |script: &str| place.done(&["exec", "few", "--", "sh", "-ec", script]);
        let files = "find . -name .git -prune -o -type f -print | sort";
        let few = "./.gitignore\n./file\n./one/deep/file\n./run\n./three/file\n";
        assert_eq!(inside(files), few, "{backend}");
        assert_eq!(place.git("few", &["sparse-checkout", "list"]), "one/deep\nthree\n", "{backend}");
        assert_eq!(status(place, "few"), "", "{backend}");
        // The main worktree stays complete.
        assert!(repo.exists("two/file"), "{backend}");
        assert_ne!(repo.try_git(&["config", "core.sparseCheckout"]).stdout, "true\n", "{backend}");
        place.git("few", &["sparse-checkout", "add", "two"]);
        assert_eq!(inside("cat two/file"), "of two\n", "{backend}");
        assert_eq!(status(place, "few"), "", "{backend}");
        place.git("few", &["sparse-checkout", "set", "two"]);
        assert_eq!(inside(files), "./.gitignore\n./file\n./run\n./two/file\n", "{backend}");
        assert_eq!(status(place, "few"), "", "{backend}");
        place.git("few", &["sparse-checkout", "disable"]);
        assert_eq!(inside("cat one/deep/file dir/deep/file"), "of one/deep\nmore\n", "{backend}");
        assert_eq!(status(place, "few"), "", "{backend}");
        place.done(&["remove", "few"]);
    });
}

/// Returns the number of packs fetched from the server, one for each fetch.
fn fetched(repo: &Path) -> usize {
    let packs = fs::read_dir(repo.join(".git/objects/pack")).expect("listed");
    packs
        .filter(|entry| entry.as_ref().is_ok_and(|one| one.path().extension() == Some("promisor".as_ref())))
        .count()
}

#[test]
fn missing_blobs_are_fetched_in_one_batch() {
    on_each(|place, backend| {
        let server = place.repo();
        for number in 0..40 {
            server.write(format!("many/file-{number}"), format!("number {number}\n"));
        }
        server.commit("many files");
        for (key, value) in [("uploadpack.allowFilter", "true"), ("uploadpack.allowAnySHA1InWant", "true")] {
            server.git(&["config", key, value]);
        }
        let url = format!("file://{}", server.path.display());
        let here = place.sandbox.repo("");
        here.git(&["clone", "-q", "--no-checkout", "--filter=blob:none", &url, "partial"]);
        let partial = place.sandbox.repo("partial");
        let bases = place.bases().to_str().expect("a plain name");
        partial.git(&["config", "sapwood.baseDir", bases]);
        let before = fetched(&partial.path);
        let run = |args: &[&str]| {
            let run = partial.run(SAPWOOD.as_ref(), &[&["workspace"], args].concat());
            assert_eq!(run.code, 0, "{backend} {args:?}: {}", run.stderr);
            run.stdout.to_string()
        };
        run(&["create", "one", "--detach", "--backend", backend]);
        assert_eq!(fetched(&partial.path) - before, 1, "{backend}");
        let content = run(&["exec", "one", "--", "sh", "-c", "cat many/file-* file | sort | tail -n 1"]);
        assert_eq!(content, "number 9\n", "{backend}");
        let git = std::env::var("SAPWOOD_TEST_GIT").unwrap_or_else(|_| "git".to_owned());
        assert_eq!(run(&["exec", "one", "--", &git, "status", "--porcelain"]), "", "{backend}");
        // A second workspace, and a base of the same tree, fetch nothing.
        run(&["create", "two", "--detach", "--backend", backend]);
        assert_eq!(fetched(&partial.path) - before, 1, "{backend}");
        run(&["remove", "one", "two"]);
        partial.git(&["fsck"]);
    });
}
