//! gRPC: the path of a request names the call, and its body is a message.

use std::{
    convert::Infallible,
    future::Future,
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use hyper::{Request, Response, body::Incoming};
use prost::Message;
use tonic::{Status, body::Body, codegen::Service, server::Grpc};
use tonic_prost::ProstCodec;

use super::node;
use crate::Volumes;

/// The most bytes of a message.
const LIMIT: usize = 1 << 20;

/// Answers one request.
pub(crate) async fn answer(
    volumes: Arc<Volumes>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    Ok(match request.uri().path() {
        "/csi.v1.Identity/GetPluginInfo" => unary(volumes, request, node::plugin_info).await,
        "/csi.v1.Identity/GetPluginCapabilities" => unary(volumes, request, node::plugin_capabilities).await,
        "/csi.v1.Identity/Probe" => unary(volumes, request, node::probe).await,
        "/csi.v1.Node/NodePublishVolume" => unary(volumes, request, node::publish).await,
        "/csi.v1.Node/NodeUnpublishVolume" => unary(volumes, request, node::unpublish).await,
        "/csi.v1.Node/NodeGetVolumeStats" => unary(volumes, request, node::stats).await,
        "/csi.v1.Node/NodeGetCapabilities" => unary(volumes, request, node::capabilities).await,
        "/csi.v1.Node/NodeGetInfo" => unary(volumes, request, node::info).await,
        _ => Status::unimplemented("sapwood has no such call").into_http(),
    })
}

/// Runs `work` on the message of a request, in a thread that may wait.
pub async fn unary<T, M, R>(
    state: Arc<T>,
    request: Request<Incoming>,
    work: fn(&T, M) -> Result<R, Status>,
) -> Response<Body>
where
    T: Send + Sync + 'static,
    M: Message + Default + 'static,
    R: Message + 'static,
{
    let codec = ProstCodec::<R, M>::default();
    let call = Call { state, work, message: PhantomData };
    Grpc::new(codec).max_decoding_message_size(LIMIT).unary(call, request).await
}

/// A call of a service.
struct Call<T, M, R> {
    state: Arc<T>,
    work: fn(&T, M) -> Result<R, Status>,
    message: PhantomData<fn(M) -> R>,
}

type Answer<R> = Pin<Box<dyn Future<Output = Result<tonic::Response<R>, Status>> + Send>>;

impl<T, M, R> Service<tonic::Request<M>> for Call<T, M, R>
where
    T: Send + Sync + 'static,
    M: Send + 'static,
    R: Send + 'static,
{
    type Response = tonic::Response<R>;
    type Error = Status;
    type Future = Answer<R>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: tonic::Request<M>) -> Answer<R> {
        let (state, work) = (Arc::clone(&self.state), self.work);
        Box::pin(async move {
            let message = request.into_inner();
            let worked = tokio::task::spawn_blocking(move || work(&state, message)).await;
            let answer = worked.map_err(|_| Status::internal("the call ended by a defect"))?;
            answer.map(tonic::Response::new)
        })
    }
}
