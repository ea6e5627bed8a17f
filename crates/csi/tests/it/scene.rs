//! A running service, a repository that its volumes name, and a client of each door.

use std::{
    collections::HashMap,
    env, fs,
    io::{Read as _, Write as _},
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use csi::door::messages::{
    AccessMode, Empty, Mode, MountVolume, NodePublishVolumeRequest, NodeUnpublishVolumeRequest,
    VolumeCapability,
};
use prost::Message;
use serde_json::{Value, json};
use testkit::{
    Repo, Sandbox,
    disk::{NoMountsBelow, mounts_below},
};
use tonic::{Code, Status, transport::Endpoint};
use tonic_prost::ProstCodec;

/// The directories of a node:
///
/// - `state/`, `run/`: the service's;
/// - `pods/`: the targets of volumes;
/// - `csi.sock`, `plugin.sock`: the doors;
/// - `programs/`: wrappers of `sapwood` and `git` that can kill the service.
pub(crate) struct Scene {
    pub(crate) sandbox: Sandbox,
    pub(crate) dir: PathBuf,
    options: Vec<String>,
    /// Each service has a mount namespace of its own, as the container of a driver has.
    is_contained: bool,
    service: Mutex<Option<Child>>,
    // The mounts go before the directory does.
    _mounts: NoMountsBelow,
    _disk: tempfile::TempDir,
}

impl Scene {
    /// Starts a service with more `options`, beside a repository `app` with three commits. Returns
    /// `None` if this user may not mount.
    pub(crate) fn start(options: &[&str]) -> Option<Scene> {
        Scene::start_as(options, false)
    }

    /// Like [`Scene::start`], with each service in a mount namespace of its own. The directories of
    /// the node are shared with it, as by `mountPropagation: Bidirectional`.
    pub(crate) fn start_contained() -> Option<Scene> {
        Scene::start_as(&[], true)
    }

    fn start_as(options: &[&str], is_contained: bool) -> Option<Scene> {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root may mount");
            return None;
        }
        // The kernel mounts no image that lies in memory.
        let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory on a disk");
        // Children with other ids reach the wrappers.
        fs::set_permissions(disk.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
        let dir = disk.path().canonicalize().expect("it exists");
        let sandbox = Sandbox::new();
        fs::create_dir(dir.join("pods")).expect("a new directory");
        let scene = Scene {
            sandbox,
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            is_contained,
            service: Mutex::new(None),
            _mounts: NoMountsBelow::new(&dir),
            dir,
            _disk: disk,
        };
        if is_contained {
            share(&scene.dir);
        }
        scene.make_programs();
        scene.make_app();
        scene.begin();
        Some(scene)
    }

    /// The repository that volumes name.
    pub(crate) fn app(&self) -> Repo<'_> {
        self.sandbox.repo("app")
    }

    fn make_app(&self) {
        let app = self.sandbox.init("app");
        for number in 1..=3 {
            app.write("file", format!("{number}\n"));
            app.write(format!("dir/{number}"), format!("{number}\n").repeat(number));
            app.write_executable("bin/run", "#!/bin/sh\n");
            app.commit(&format!("commit {number}"));
        }
        app.git(&["tag", "-a", "-m", "one", "one", "HEAD~2"]);
        app.git(&["branch", "topic", "HEAD~1"]);
    }

    /// Returns the id of a commit of `app`.
    pub(crate) fn commit(&self, revision: &str) -> String {
        self.app().git(&["rev-parse", &format!("{revision}^{{commit}}")]).stdout.to_string().trim().to_owned()
    }

    /// Returns the address of `app`.
    pub(crate) fn address(&self) -> String {
        format!("file://{}", self.app().path.display())
    }

    /// Writes the wrappers of the programs that the service starts. Each counts its calls. At the
    /// call with the number in `kill`, it kills the service.
    fn make_programs(&self) {
        let programs = self.dir.join("programs");
        fs::create_dir(&programs).expect("a new directory");
        let git = env::var_os("SAPWOOD_TEST_GIT").map_or_else(|| "git".into(), PathBuf::from);
        for (name, program) in [("sapwood", sapwood()), ("git", git)] {
            let text = format!(
                "#!/bin/sh\nd='{}'\n\
                 if [ \"$PPID\" = \"$(cat $d/pid 2>/dev/null)\" ] && [ -e $d/kill ]; then\n\
                 \x20   exec 9>$d/lock && flock 9\n\
                 \x20   n=$(($(cat $d/count) + 1)); echo $n >$d/count; exec 9>&-\n\
                 \x20   [ $n = \"$(cat $d/kill)\" ] && kill -9 $PPID && exit 1\n\
                 fi\nexec '{}' \"$@\"\n",
                programs.display(),
                program.display()
            );
            testkit::write_program(&programs.join(name), text);
        }
    }

    /// Kills the service at its call of a program with this number; none with 0.
    pub(crate) fn kill_at(&self, number: usize) {
        let programs = self.dir.join("programs");
        fs::write(programs.join("count"), "0").expect("a file");
        if number == 0 {
            let _ = fs::remove_file(programs.join("kill"));
        } else {
            fs::write(programs.join("kill"), number.to_string()).expect("a file");
        }
    }

    /// Starts the service, which must not run.
    pub(crate) fn begin(&self) {
        let at = |name: &str| self.dir.join(name);
        let program = Path::new(env!("CARGO_BIN_EXE_sapwood-csi"));
        let mut command = if self.is_contained {
            let mut command = self.app().command(Path::new("unshare"));
            command.args(["--mount", "--propagation", "unchanged", "--"]).arg(program);
            command
        } else {
            self.app().command(program)
        };
        command.current_dir("/").arg("--csi").arg(at("csi.sock")).arg("--plugin").arg(at("plugin.sock"));
        command.arg("--state").arg(at("state")).arg("--run").arg(at("run")).args(["--node", "node-1"]);
        command.arg("--sapwood").arg(at("programs/sapwood")).arg("--git").arg(at("programs/git"));
        if !self.options.iter().any(|option| option == "--allow") {
            command.args(["--allow", "file:///"]);
        }
        command.args(&self.options);
        let log = fs::File::options().append(true).create(true).open(at("log")).expect("a file");
        let _ = fs::remove_file(at("csi.sock"));
        let _ = fs::remove_file(at("plugin.sock"));
        let child = command.stdin(Stdio::null()).stderr(log).spawn().expect("the service can be run");
        fs::write(at("programs/pid"), child.id().to_string()).expect("a file");
        *self.service() = Some(child);
        let begun = Instant::now();
        while UnixStream::connect(at("plugin.sock")).is_err() {
            let ended = self.service().as_mut().expect("it was started").try_wait().expect("a child");
            assert!(ended.is_none(), "the service ended: {}", self.log());
            assert!(begun.elapsed() < Duration::from_secs(60), "no socket: {}", self.log());
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn service(&self) -> std::sync::MutexGuard<'_, Option<Child>> {
        self.service.lock().expect("no test panics with it")
    }

    /// Kills the service if it runs, and starts another one.
    pub(crate) fn restart(&self) {
        self.end();
        self.begin();
    }

    fn end(&self) {
        if let Some(mut child) = self.service().take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Returns the lines that the service wrote.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// Returns the target of a volume.
    pub(crate) fn target(&self, id: &str) -> PathBuf {
        self.dir.join("pods").join(id)
    }

    /// Returns a request as a kubelet sends it for an ephemeral volume.
    pub(crate) fn request(&self, id: &str, attributes: &[(&str, &str)]) -> NodePublishVolumeRequest {
        let mut context = HashMap::from([
            ("repository".to_owned(), self.address()),
            ("commit".to_owned(), "main".to_owned()),
            ("csi.storage.k8s.io/ephemeral".to_owned(), "true".to_owned()),
            ("csi.storage.k8s.io/pod.name".to_owned(), "pod".to_owned()),
        ]);
        context.extend(attributes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        NodePublishVolumeRequest {
            volume_id: id.into(),
            target_path: self.target(id).display().to_string(),
            volume_capability: Some(VolumeCapability {
                block: None,
                mount: Some(MountVolume::default()),
                access_mode: Some(AccessMode { mode: Mode::SingleNodeWriter.into() }),
            }),
            readonly: false,
            secrets: HashMap::new(),
            volume_context: context,
        }
    }

    /// Publishes a volume at its target.
    pub(crate) fn publish(&self, id: &str, attributes: &[(&str, &str)]) -> Result<(), Status> {
        self.call("Node/NodePublishVolume", self.request(id, attributes)).map(|_: Empty| ())
    }

    /// Publishes a volume, which must succeed. Returns its target.
    pub(crate) fn published(&self, id: &str, attributes: &[(&str, &str)]) -> PathBuf {
        let answer = self.publish(id, attributes);
        assert!(answer.is_ok(), "{answer:?}\n{}", self.log());
        self.target(id)
    }

    /// Unpublishes a volume from its target.
    pub(crate) fn unpublish(&self, id: &str) -> Result<(), Status> {
        let target_path = self.target(id).display().to_string();
        let request = NodeUnpublishVolumeRequest { volume_id: id.into(), target_path };
        self.call("Node/NodeUnpublishVolume", request).map(|_: Empty| ())
    }

    /// Calls the node service.
    pub(crate) fn call<M, R>(&self, path: &str, message: M) -> Result<R, Status>
    where
        M: Message + 'static,
        R: Message + Default + 'static,
    {
        call(&self.dir.join("csi.sock"), path, message)
    }

    /// Calls the plugin. Returns its answer, which is an error if `Err` is not empty.
    pub(crate) fn plugin(&self, path: &str, document: &Value) -> Result<Value, String> {
        let body = document.to_string();
        let mut stream =
            UnixStream::connect(self.dir.join("plugin.sock")).map_err(|error| error.to_string())?;
        let head = format!(
            "POST /{path} HTTP/1.1\r\nHost: plugin\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let mut answer = String::new();
        let talk = |stream: &mut UnixStream, answer: &mut String| {
            stream.write_all(head.as_bytes())?;
            stream.write_all(body.as_bytes())?;
            stream.read_to_string(answer)
        };
        talk(&mut stream, &mut answer).map_err(|error| error.to_string())?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or("the connection ended")?;
        let answer: Value = serde_json::from_str(body).map_err(|error| format!("{error}: {body}"))?;
        match answer["Err"].as_str() {
            Some(error) if !error.is_empty() => {
                assert!(head.starts_with("HTTP/1.1 500"), "{head}");
                Err(error.to_owned())
            }
            _ => {
                assert!(head.starts_with("HTTP/1.1 200"), "{head}");
                Ok(answer)
            }
        }
    }

    /// Creates a named volume of `app`.
    pub(crate) fn create(&self, name: &str, options: &[(&str, &str)]) -> Result<Value, String> {
        let mut all = json!({"repo": self.address(), "commit": "main"});
        for (key, value) in options {
            all[*key] = json!(value);
        }
        self.plugin("VolumeDriver.Create", &json!({"Name": name, "Opts": all}))
    }

    /// Runs the oracle's Git in a volume. Returns what it printed.
    pub(crate) fn git_in(&self, dir: &Path, args: &[&str]) -> String {
        let mut command = self.app().git_command();
        let output = command.current_dir(dir).args(args).output().expect("Git runs");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns the mounts of volumes, without the directory itself, and without those of base
    /// images, which outlive volumes.
    pub(crate) fn mounts(&self) -> Vec<PathBuf> {
        let mounts = mounts_below(&self.dir);
        let of_bases = self.dir.join("state/repositories");
        mounts.into_iter().filter(|at| *at != self.dir && !at.starts_with(&of_bases)).collect()
    }

    /// Checks that nothing of any volume is left but its repository.
    pub(crate) fn assert_empty(&self) {
        assert_eq!(self.mounts(), Vec::<PathBuf>::new(), "{}", self.log());
        for dir in ["pods", "state/volumes", "run"] {
            assert_eq!(names(&self.dir.join(dir)), Vec::<String>::new(), "{dir}");
        }
        let kept = names(&self.dir.join("state/kept"));
        let mut workspaces = vec![self.dir.join("state/workspaces")];
        for repository in names(&self.dir.join("state/repositories")) {
            let at = self.dir.join("state/repositories").join(repository);
            workspaces.push(at.join("git/sapwood/workspaces"));
        }
        for dir in workspaces.iter().filter(|dir| dir.exists()) {
            // `workspace gc` removes the rest of a removal that was killed.
            for name in names(dir).into_iter().filter(|name| !name.starts_with(".old-")) {
                assert!(
                    kept.contains(&format!("{name}.json")),
                    "{name} is left in {}\n{}",
                    dir.display(),
                    self.log()
                );
            }
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.end();
    }
}

/// Makes a directory a mount that is shared with namespaces that are made later.
fn share(dir: &Path) {
    for args in [&["--bind"][..], &["--make-private"], &["--make-shared"]] {
        let mut mount = Command::new("mount");
        mount.args(args).arg(dir);
        if args == ["--bind"] {
            mount.arg(dir);
        }
        assert!(mount.status().is_ok_and(|status| status.success()), "{args:?}");
    }
}

/// Returns the sorted names in a directory.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Calls a gRPC service at a socket.
pub(crate) fn call<M, R>(socket: &Path, path: &str, message: M) -> Result<R, Status>
where
    M: Message + 'static,
    R: Message + Default + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let address = format!("unix:{}", socket.display());
        let channel = Endpoint::from_shared(address).expect("a path").connect().await;
        let channel = channel.map_err(|error| Status::new(Code::Unavailable, error.to_string()))?;
        let mut client = tonic::client::Grpc::new(channel);
        client.ready().await.map_err(|error| Status::new(Code::Unavailable, error.to_string()))?;
        let path = format!("/csi.v1.{path}").parse().expect("a path");
        let codec = ProstCodec::<M, R>::default();
        client.unary(tonic::Request::new(message), path, codec).await.map(tonic::Response::into_inner)
    })
}

/// Returns the program `sapwood` of this build. Builds it if only this package was built.
pub(crate) fn sapwood() -> PathBuf {
    let dir = Path::new(env!("CARGO_BIN_EXE_sapwood-csi")).parent().expect("a program lies in a directory");
    let program = dir.join("sapwood");
    if !program.exists() {
        let profile = match dir.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => "dev",
            Some(name) => name,
        };
        let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.args(["build", "--quiet", "--locked", "-p", "sapwood-cli", "--profile", profile]);
        build.current_dir(env!("CARGO_MANIFEST_DIR"));
        assert!(build.status().is_ok_and(|status| status.success()), "sapwood cannot be built");
    }
    program
}
