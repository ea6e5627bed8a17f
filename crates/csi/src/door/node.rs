//! The services `Identity` and `Node` of CSI, as functions of a message. A volume is ephemeral and
//! inline: everything that it is stands in the request that publishes it.

use std::path::{Path, PathBuf};

use tonic::Status;

use super::messages::{
    BoolValue, Empty, GetPluginInfoResponse, Mode, NodeGetCapabilitiesResponse, NodeGetInfoResponse,
    NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse, NodePublishVolumeRequest, NodeServiceCapability,
    NodeUnpublishVolumeRequest, ProbeResponse, Rpc, RpcType, Unit, VolumeCapability, VolumeUsage,
};
use crate::{Error, Secrets, Unsaved, Volume, Volumes};

/// The name of the driver in manifests.
pub const NAME: &str = "workspace.csi.sapwood";

impl From<Error> for Status {
    fn from(error: Error) -> Status {
        let message = error.to_string();
        match error {
            Error::Invalid(_) => Status::invalid_argument(message),
            Error::Exists(_) => Status::already_exists(message),
            Error::Elsewhere { .. } | Error::Used(_) => Status::failed_precondition(message),
            Error::Pending(_) => Status::aborted(message),
            Error::Missing(_) | Error::NoCommit { .. } => Status::not_found(message),
            Error::Unreadable { .. } => Status::unavailable(message),
            Error::Failed { .. } | Error::Io { .. } => Status::internal(message),
        }
    }
}

pub(crate) fn plugin_info(_: &Volumes, _: Empty) -> Result<GetPluginInfoResponse, Status> {
    Ok(GetPluginInfoResponse { name: NAME.into(), vendor_version: env!("CARGO_PKG_VERSION").into() })
}

/// There is no controller: a pod names its volume.
pub(crate) fn plugin_capabilities(_: &Volumes, _: Empty) -> Result<Empty, Status> {
    Ok(Empty {})
}

pub(crate) fn probe(_: &Volumes, _: Empty) -> Result<ProbeResponse, Status> {
    Ok(ProbeResponse { ready: Some(BoolValue { value: true }) })
}

pub(crate) fn publish(volumes: &Volumes, request: NodePublishVolumeRequest) -> Result<Empty, Status> {
    let NodePublishVolumeRequest { volume_id, target_path, volume_capability, readonly, .. } = &request;
    let id = given("volume id", volume_id)?;
    let target = directory("target path", target_path)?;
    let is_reader = check_capability(volume_capability.as_ref())?;
    let mut volume = Volume::parse(pairs(&request.volume_context), Unsaved::Discard)?;
    volume.read_only = *readonly || is_reader;
    let secrets = Secrets::parse(pairs(&request.secrets))?;
    volumes.publish(id, volume, &secrets, &target)?;
    Ok(Empty {})
}

pub(crate) fn unpublish(volumes: &Volumes, request: NodeUnpublishVolumeRequest) -> Result<Empty, Status> {
    let id = given("volume id", &request.volume_id)?;
    let target = directory("target path", &request.target_path)?;
    volumes.unpublish(id, &target)?;
    Ok(Empty {})
}

pub(crate) fn stats(
    volumes: &Volumes,
    request: NodeGetVolumeStatsRequest,
) -> Result<NodeGetVolumeStatsResponse, Status> {
    let id = given("volume id", &request.volume_id)?;
    let path = given("volume path", &request.volume_path)?;
    let usage = volumes.usage(id, Path::new(path))?;
    let part = |(available, total, used): (u64, u64, u64), unit: Unit| {
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let (available, total, used) = (number(available), number(total), number(used));
        VolumeUsage { available, total, used, unit: unit.into() }
    };
    let usage = vec![part(usage.bytes, Unit::Bytes), part(usage.inodes, Unit::Inodes)];
    Ok(NodeGetVolumeStatsResponse { usage })
}

pub(crate) fn capabilities(_: &Volumes, _: Empty) -> Result<NodeGetCapabilitiesResponse, Status> {
    let stats = Rpc { r#type: RpcType::GetVolumeStats.into() };
    Ok(NodeGetCapabilitiesResponse { capabilities: vec![NodeServiceCapability { rpc: Some(stats) }] })
}

pub(crate) fn info(volumes: &Volumes, _: Empty) -> Result<NodeGetInfoResponse, Status> {
    Ok(NodeGetInfoResponse { node_id: volumes.node().to_owned() })
}

/// Returns a field that must not be empty.
fn given<'a>(name: &str, value: &'a str) -> Result<&'a str, Status> {
    if value.is_empty() { Err(Status::invalid_argument(format!("the {name} is missing"))) } else { Ok(value) }
}

/// Returns a directory that the orchestrator names, which is absolute.
fn directory(name: &str, value: &str) -> Result<PathBuf, Status> {
    let path = PathBuf::from(given(name, value)?);
    let is_plain = path.is_absolute() && !path.components().any(|part| part.as_os_str() == "..");
    if is_plain { Ok(path) } else { Err(Status::invalid_argument(format!("the {name} is not absolute"))) }
}

/// Refuses what a workspace cannot be. Returns true if nobody may write.
fn check_capability(capability: Option<&VolumeCapability>) -> Result<bool, Status> {
    let capability =
        capability.ok_or_else(|| Status::invalid_argument("the volume capability is missing"))?;
    let Some(mount) = &capability.mount else {
        return Err(Status::invalid_argument("a workspace is mounted; it is no block device"));
    };
    if !mount.mount_flags.is_empty() {
        return Err(Status::invalid_argument("a workspace takes no mount options"));
    }
    let mode = capability.access_mode.as_ref().map(|access| access.mode);
    let mode = mode.and_then(|mode| Mode::try_from(mode).ok()).unwrap_or(Mode::Unknown);
    match mode {
        Mode::SingleNodeWriter | Mode::SingleNodeSingleWriter | Mode::SingleNodeMultiWriter => Ok(false),
        Mode::SingleNodeReaderOnly => Ok(true),
        Mode::Unknown => Err(Status::invalid_argument("the access mode is missing or unknown")),
        _ => Err(Status::invalid_argument("a workspace is on one node")),
    }
}

fn pairs(map: &std::collections::HashMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
    map.iter().map(|(key, value)| (key.as_str(), value.as_str()))
}
