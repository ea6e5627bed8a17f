//! The sockets of the doors, and the end of the service.

use std::{io, path::Path, sync::Arc, time::Duration};

use hyper::{
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use sys::by_path;
use tokio::{
    net::{UnixListener, UnixStream},
    signal::unix::{SignalKind, signal},
};

use crate::{
    Error, Volumes,
    door::{grpc, plugin},
};

/// The time between two looks at the budget.
const PRUNING: Duration = Duration::from_secs(60);

/// Makes a socket that only this user may connect to. One of an earlier service is replaced.
pub fn listen(path: &Path) -> Result<std::os::unix::net::UnixListener, Error> {
    match by_path::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Error::io("remove", path)(error));
        }
        _ => {}
    }
    if let Some(dir) = path.parent() {
        by_path::create_dir_all(dir).map_err(Error::io("make the directory", dir))?;
    }
    let bind = || {
        let listener = std::os::unix::net::UnixListener::bind(path)?;
        by_path::set_mode(path, 0o600)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    bind().map_err(Error::io("listen at", path))
}

/// Serves both doors until SIGTERM or SIGINT. Calls that run then are completed.
pub fn serve(
    volumes: Volumes,
    node: Option<std::os::unix::net::UnixListener>,
    named: Option<std::os::unix::net::UnixListener>,
) -> io::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(64).build()?;
    let volumes = Arc::new(volumes);
    runtime.block_on(async {
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        if let Some(listener) = node {
            tokio::spawn(accept(UnixListener::from_std(listener)?, Arc::clone(&volumes), serve_node));
        }
        if let Some(listener) = named {
            tokio::spawn(accept(UnixListener::from_std(listener)?, Arc::clone(&volumes), serve_named));
        }
        tokio::spawn(keep_budget(Arc::clone(&volumes)));
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        Ok(())
    })
}

/// Starts `serve` for each connection.
async fn accept(listener: UnixListener, volumes: Arc<Volumes>, serve: fn(Arc<Volumes>, UnixStream)) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => serve(Arc::clone(&volumes), stream),
            Err(error) => {
                // Too many files are open; connections end.
                volumes.log(&format!("cannot accept a connection: {error}"));
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

fn serve_node(volumes: Arc<Volumes>, stream: UnixStream) {
    let service = service_fn(move |request| grpc::answer(Arc::clone(&volumes), request));
    tokio::spawn(async move {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new());
        // A client that goes away ends its connection; nobody else learns of it.
        let _ = builder.serve_connection(TokioIo::new(stream), service).await;
    });
}

fn serve_named(volumes: Arc<Volumes>, stream: UnixStream) {
    let service = service_fn(move |request| plugin::answer(Arc::clone(&volumes), request));
    tokio::spawn(async move {
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new());
        let _ = builder.serve_connection(TokioIo::new(stream), service).await;
    });
}

/// Removes what the budget does not hold, at the start and then from time to time.
async fn keep_budget(volumes: Arc<Volumes>) {
    loop {
        let pruning = Arc::clone(&volumes);
        let pruned = tokio::task::spawn_blocking(move || pruning.prune()).await;
        if let Ok(Err(error)) = pruned {
            volumes.log(&error.to_string());
        }
        tokio::time::sleep(PRUNING).await;
    }
}
