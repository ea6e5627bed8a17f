//! Accepts connections on a free port of the loopback; one thread serves each.
//!
//! When the value is dropped, no new connection is accepted, and the open ones are shut down, so
//! that the threads end.

use std::{
    collections::BTreeMap,
    io,
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
};

/// A listening socket, and its accepting thread.
pub struct Acceptor {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    over: AtomicBool,
    accepted: AtomicUsize,
    open: Mutex<BTreeMap<usize, TcpStream>>,
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, BTreeMap<usize, TcpStream>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Acceptor {
    /// Calls `serve` for each connection, with the connection's number, from 0.
    pub fn start(serve: impl Fn(TcpStream, usize) + Send + Sync + 'static) -> Acceptor {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared::default());
        let accepting = Arc::clone(&shared);
        let thread = thread::spawn(move || accept(&listener, &accepting, &Arc::new(serve)));
        Acceptor { address, shared, thread: Some(thread) }
    }

    /// Returns the address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns the number of connections so far.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// Shuts down the open connections.
    pub fn cut(&self) {
        for stream in self.shared.open().values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn accept<F>(listener: &TcpListener, shared: &Arc<Shared>, serve: &Arc<F>)
where
    F: Fn(TcpStream, usize) + Send + Sync + 'static,
{
    loop {
        let accepted = listener.accept();
        if shared.over.load(Ordering::SeqCst) {
            return;
        }
        let Ok((stream, copy)) = accepted.and_then(|(stream, _)| clone(stream)) else { continue };
        let number = shared.accepted.fetch_add(1, Ordering::SeqCst);
        shared.open().insert(number, copy);
        let (shared, serve) = (Arc::clone(shared), Arc::clone(serve));
        thread::spawn(move || {
            serve(stream, number);
            shared.open().remove(&number);
        });
    }
}

fn clone(stream: TcpStream) -> io::Result<(TcpStream, TcpStream)> {
    stream.set_nodelay(true)?;
    let copy = stream.try_clone()?;
    Ok((stream, copy))
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        // A connection wakes the accepting thread.
        let woken = TcpStream::connect(self.address).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
        self.cut();
    }
}
