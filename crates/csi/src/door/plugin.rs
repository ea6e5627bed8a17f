//! The volume plugin of Docker, which Podman speaks too: HTTP with JSON on a socket.
//! <https://docs.docker.com/engine/extend/plugins_volume/>

use std::{collections::BTreeMap, convert::Infallible, sync::Arc};

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Request, Response, StatusCode, body::Bytes, body::Incoming};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Error, Unsaved, Volume, Volumes, named::Named};

/// The most bytes of a request.
const LIMIT: usize = 1 << 20;

/// The fields of all requests. A request has those that its call needs.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Fields {
    name: String,
    #[serde(rename = "ID")]
    id: String,
    opts: Option<BTreeMap<String, String>>,
}

/// Answers one request.
pub(crate) async fn answer(
    volumes: Arc<Volumes>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let body = match Limited::new(request.into_body(), LIMIT).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return Ok(refusal(&error.to_string())),
    };
    let worked = tokio::task::spawn_blocking(move || call(&volumes, &path, &body)).await;
    Ok(match worked {
        Ok(Ok(document)) => response(StatusCode::OK, &document),
        Ok(Err(error)) => refusal(&error.to_string()),
        Err(_) => refusal("the call ended by a defect"),
    })
}

fn call(volumes: &Volumes, path: &str, body: &[u8]) -> Result<Value, Error> {
    let fields = || -> Result<Fields, Error> {
        let fields: Fields = match body.trim_ascii() {
            b"" => Fields::default(),
            text => serde_json::from_slice(text).map_err(|error| Error::Invalid(error.to_string()))?,
        };
        if fields.name.is_empty() {
            return Err(Error::Invalid("the name of the volume is missing".into()));
        }
        Ok(fields)
    };
    Ok(match path {
        "/Plugin.Activate" => json!({"Implements": ["VolumeDriver"]}),
        "/VolumeDriver.Capabilities" => json!({"Capabilities": {"Scope": "local"}}),
        "/VolumeDriver.Create" => {
            let Fields { name, opts, .. } = fields()?;
            let opts = opts.unwrap_or_default();
            let pairs = opts.iter().map(|(key, value)| (key.as_str(), value.as_str()));
            volumes.create(&name, Volume::parse(pairs, Unsaved::Keep)?)?;
            json!({"Err": ""})
        }
        "/VolumeDriver.Remove" => {
            volumes.remove(&fields()?.name)?;
            json!({"Err": ""})
        }
        "/VolumeDriver.Mount" => {
            let Fields { name, id, .. } = fields()?;
            json!({"Mountpoint": volumes.mount(&name, &id)?, "Err": ""})
        }
        "/VolumeDriver.Unmount" => {
            let Fields { name, id, .. } = fields()?;
            volumes.unmount(&name, &id)?;
            json!({"Err": ""})
        }
        "/VolumeDriver.Path" => json!({"Mountpoint": volumes.get(&fields()?.name)?.path, "Err": ""}),
        "/VolumeDriver.Get" => json!({"Volume": document(&volumes.get(&fields()?.name)?), "Err": ""}),
        "/VolumeDriver.List" => {
            json!({"Volumes": volumes.list()?.iter().map(document).collect::<Vec<_>>(), "Err": ""})
        }
        _ => return Err(Error::Invalid(format!("there is no call '{path}'"))),
    })
}

fn document(named: &Named) -> Value {
    json!({
        "Name": named.name,
        "Mountpoint": named.path,
        "Status": {
            "repository": named.volume.repository,
            "commit": named.commit,
            "containers": named.users.len(),
        },
    })
}

fn refusal(reason: &str) -> Response<Full<Bytes>> {
    response(StatusCode::INTERNAL_SERVER_ERROR, &json!({"Err": reason}))
}

fn response(status: StatusCode, document: &Value) -> Response<Full<Bytes>> {
    let body = Full::new(Bytes::from(document.to_string()));
    Response::builder()
        .status(status)
        .header("Content-Type", "application/vnd.docker.plugins.v1.1+json")
        .body(body)
        .expect("the status and the header are valid")
}
