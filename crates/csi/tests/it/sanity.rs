//! csi-sanity, the conformance test of Kubernetes for CSI drivers. `.ci/csi-sanity` builds it.
//!
//! It makes volumes by a controller, which a driver of ephemeral volumes has not. So the test
//! serves a controller that answers with the attributes of a volume.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    thread,
};

use csi::door::{
    grpc::unary,
    messages::{Empty, GetPluginInfoResponse},
    node::NAME,
};
use hyper::{server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tonic::Status;

use crate::scene::Scene;

/// Returns the program, or `None` with the reason printed.
fn program() -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/csi-sanity/csi-sanity");
    if built.exists() {
        return Some(built.canonicalize().expect("it exists"));
    }
    println!("skipped: there is no csi-sanity: .ci/csi-sanity builds it, and needs Go");
    None
}

#[derive(Clone, PartialEq, Message)]
struct CreateVolumeRequest {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(map = "string, string", tag = "4")]
    parameters: HashMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
struct CreateVolumeResponse {
    #[prost(message, optional, tag = "1")]
    volume: Option<Created>,
}

/// `Volume`
#[derive(Clone, PartialEq, Message)]
struct Created {
    #[prost(string, tag = "2")]
    volume_id: String,
    #[prost(map = "string, string", tag = "3")]
    volume_context: HashMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
struct Capabilities {
    #[prost(message, repeated, tag = "1")]
    capabilities: Vec<Capability>,
}

/// `ControllerServiceCapability`
#[derive(Clone, PartialEq, Message)]
struct Capability {
    #[prost(message, optional, tag = "1")]
    rpc: Option<csi::door::messages::Rpc>,
}

fn create(_: &(), request: CreateVolumeRequest) -> Result<CreateVolumeResponse, Status> {
    let CreateVolumeRequest { name, parameters } = request;
    Ok(CreateVolumeResponse { volume: Some(Created { volume_id: name, volume_context: parameters }) })
}

/// The controller and the node service are one driver.
fn info(_: &(), _: Empty) -> Result<GetPluginInfoResponse, Status> {
    Ok(GetPluginInfoResponse { name: NAME.into(), vendor_version: "test".into() })
}

/// Serves the controller at `socket` as long as the process lives.
fn serve_controller(socket: &Path) {
    let listener = std::os::unix::net::UnixListener::bind(socket).expect("a new socket");
    listener.set_nonblocking(true).expect("a socket");
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = tokio::net::UnixListener::from_std(listener).expect("a socket");
            while let Ok((stream, _)) = listener.accept().await {
                let answer = service_fn(|request: hyper::Request<hyper::body::Incoming>| async {
                    let path = request.uri().path().to_owned();
                    Ok::<_, std::convert::Infallible>(match path.as_str() {
                        "/csi.v1.Controller/CreateVolume" => unary(Arc::new(()), request, create).await,
                        "/csi.v1.Controller/ControllerGetCapabilities" => {
                            let none = |_: &(), _: Empty| Ok(Capabilities { capabilities: Vec::new() });
                            unary(Arc::new(()), request, none).await
                        }
                        "/csi.v1.Identity/GetPluginInfo" => unary(Arc::new(()), request, info).await,
                        _ => unary(Arc::new(()), request, |_: &(), _: Empty| Ok(Empty {})).await,
                    })
                });
                let connection = http2::Builder::new(TokioExecutor::new());
                tokio::spawn(connection.serve_connection(TokioIo::new(stream), answer));
            }
        });
    });
}

#[test]
fn csi_sanity_passes() {
    let Some(program) = program() else { return };
    let Some(scene) = Scene::start(&[]) else { return };
    let at = |name: &str| scene.dir.join(name).display().to_string();
    serve_controller(Path::new(&at("controller.sock")));
    let parameters = format!("repository: \"{}\"\ncommit: main\n", scene.address());
    fs::write(at("parameters"), parameters).expect("a new file");
    let output = Command::new(program)
        .args(["-csi.endpoint", &at("csi.sock"), "-csi.controllerendpoint", &at("controller.sock")])
        .args(["-csi.mountdir", &at("pods/sanity"), "-csi.stagingdir", &at("staging")])
        .args(["-csi.testvolumeparameters", &at("parameters"), "-ginkgo.no-color"])
        // The controller is the test's own, and no service snapshots anything.
        .args(["-ginkgo.skip", "Controller Service|Group Controller|ListSnapshots|Snapshot"])
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", scene.log());
    assert!(said.contains("15 Passed"), "{said}");
    scene.assert_empty();
}
