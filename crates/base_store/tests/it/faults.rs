//! Lines that break, servers that are gone, disks that are full.

use std::{
    io,
    net::{TcpListener, TcpStream},
    process::Command,
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use base_store::{Error, Remote};
use format::base_files::{Digest, RecordKind};
use testkit::{
    noise,
    servers::{Fault, Line, Moment, Proxy, Trouble},
};

use crate::servers::{Kind, Server, Tuning, name, open};

const NETWORK: [Kind; 3] = [Kind::S3, Kind::Registry, Kind::Web];

fn short() -> Tuning {
    Tuning { timeout: Duration::from_millis(600), retries: 2, ..Tuning::default() }
}

/// A server of each of these kinds, and a line to it.
struct Scene {
    kind: Kind,
    server: Server,
    proxy: Proxy,
}

impl Scene {
    fn each(kinds: &[Kind], check: impl Fn(&Scene)) {
        for &kind in kinds {
            println!("on {kind:?}");
            let server = Server::start(kind);
            let proxy = Proxy::to(server.socket());
            check(&Scene { kind, server, proxy });
        }
    }

    fn open(&self, tuning: &Tuning) -> Remote {
        self.server.open_at(self.proxy.address(), tuning).expect("opened")
    }

    /// Stores a MiB. Returns it and its digest.
    fn stored(&self) -> (Vec<u8>, Digest) {
        let bytes = noise(1 << 20, 1);
        let digest = self.server.store(&bytes);
        (bytes, digest)
    }
}

#[test]
fn a_read_survives_one_fault() {
    Scene::each(&NETWORK, |scene| {
        let Scene { kind, proxy, .. } = scene;
        let (bytes, digest) = scene.stored();
        let remote = scene.open(&short());
        // In the head of the answer, at the beginning of the body, in the middle, at the end.
        for after in [10, 600, 500_000, 1 << 20] {
            for fault in [Fault::Cut, Fault::Stall] {
                proxy.once(fault, after);
                let read = remote.read(&digest, 0..1 << 20);
                assert!(read.expect("read at last") == bytes, "{kind:?} {fault:?} {after}");
                assert!(!proxy.is_troubled(), "{kind:?} {fault:?} {after}: it happened");
            }
        }
    });
}

#[test]
fn a_line_that_always_breaks_is_an_error_that_names_the_file() {
    Scene::each(&NETWORK, |scene| {
        let Scene { kind, proxy, .. } = scene;
        let (_, digest) = scene.stored();
        for fault in [Fault::Cut, Fault::Stall] {
            let remote = scene.open(&short());
            proxy.set(Some(Trouble { after: 5000, moment: Moment::EachConnection, fault }));
            let start = Instant::now();
            let error = remote.read(&digest, 0..1 << 20).expect_err("it breaks each time");
            assert!(matches!(error, Error::Failed { .. }), "{kind:?} {fault:?}: {error:?}");
            assert!(error.to_string().contains(&digest.to_string()), "{kind:?} {fault:?}: {error}");
            assert!(start.elapsed() < Duration::from_secs(15), "{kind:?} {fault:?}: {:?}", start.elapsed());
        }
    });
}

#[test]
fn wrong_bytes_reach_the_caller_or_are_an_error() {
    Scene::each(&NETWORK, |scene| {
        let Scene { kind, proxy, .. } = scene;
        let (bytes, digest) = scene.stored();
        let remote = scene.open(&short());
        for after in [0, 30, 200, 500_000] {
            proxy.once(Fault::Corrupt, after);
            if let Ok(read) = remote.read(&digest, 0..1 << 20) {
                assert_eq!(read.len(), bytes.len(), "{kind:?} {after}");
                assert!(after != 500_000 || read != bytes, "{kind:?}: the proxy changed a byte");
            }
        }
    });
}

#[test]
fn a_write_survives_one_fault() {
    Scene::each(&[Kind::S3, Kind::Registry], |scene| {
        let Scene { kind, server, proxy } = scene;
        let remote = scene.open(&short());
        let mut seed = 1;
        for after in [10, 400, 800, 1500] {
            for fault in [Fault::Cut, Fault::Stall] {
                seed += 1;
                let bytes = noise(9 << 20, seed);
                let digest = Digest::of(&bytes);
                proxy.once(fault, after);
                remote.write(&digest, &server.source(&bytes)).unwrap_or_else(|error| {
                    panic!("{kind:?} {fault:?} {after}: {error}");
                });
                proxy.set(None);
                assert!(std::fs::read(server.stored(&digest)).expect("it is there") == bytes);
            }
        }
    });
}

#[test]
fn a_slow_upload_is_no_stall() {
    for kind in [Kind::S3, Kind::Registry] {
        let server = Server::start(kind);
        let line = Line { rate: Some(1 << 20), latency: Duration::from_millis(5) };
        let proxy = Proxy::on(line, server.socket());
        // The body takes longer than the timeout.
        let tuning = Tuning { timeout: Duration::from_secs(3), retries: 0, ..Tuning::default() };
        let remote = server.open_at(proxy.address(), &tuning).expect("opened");
        let bytes = noise(6 << 20, 1);
        let digest = Digest::of(&bytes);
        let start = Instant::now();
        remote.write(&digest, &server.source(&bytes)).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
        assert!(start.elapsed() > tuning.timeout, "{kind:?}: the line was slow");
        assert!(remote.read(&digest, 0..6 << 20).expect("read") == bytes, "{kind:?}");
    }
}

#[test]
fn an_interrupt_ends_a_request() {
    Scene::each(&NETWORK, |scene| {
        let Scene { kind, proxy, .. } = scene;
        let (_, digest) = scene.stored();
        let tuning = Tuning::default();
        let remote = scene.open(&tuning);
        proxy.set(Some(Trouble { after: 5000, moment: Moment::EachConnection, fault: Fault::Stall }));
        thread::scope(|scope| {
            let reading = scope.spawn(|| remote.read(&digest, 0..1 << 20));
            thread::sleep(Duration::from_millis(300));
            assert!(!reading.is_finished(), "{kind:?}: it waits for the server");
            let start = Instant::now();
            tuning.interrupt.store(true, Ordering::Relaxed);
            let error = reading.join().expect("no panic").expect_err("interrupted");
            assert!(matches!(error, Error::Interrupted), "{kind:?}: {error}");
            assert!(start.elapsed() < Duration::from_secs(1), "{kind:?}: {:?}", start.elapsed());
        });
    });
}

#[test]
fn a_server_that_is_gone_is_an_error() {
    for kind in NETWORK {
        let server = Server::start(kind);
        let gone = Proxy::to(server.socket()).address();
        let remote = server.open_at(gone, &short()).expect("opened");
        let error = remote.record(&name(RecordKind::Branch, "main")).expect_err("nobody is there");
        assert!(matches!(error, Error::Unreachable { .. }), "{kind:?}: {error:?}");
        assert!(error.to_string().contains("refused"), "{kind:?}: {error}");
    }
}

/// A server that is started again is waited for.
#[test]
fn a_server_that_comes_back_in_time_is_no_error() {
    for kind in NETWORK {
        let server = Server::start(kind);
        let gone = Proxy::to(server.socket()).address();
        let branch = name(RecordKind::Branch, "main");
        let tuning = |patience| Tuning { retries: 0, patience, ..Tuning::default() };
        let hasty = server.open_at(gone, &tuning(Duration::ZERO)).expect("opened");
        assert!(matches!(hasty.record(&branch), Err(Error::Unreachable { .. })), "{kind:?}");
        let patient = server.open_at(gone, &tuning(Duration::from_secs(60))).expect("opened");
        let to = server.socket();
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(700));
            let listener = TcpListener::bind(gone).expect("nobody has taken the port");
            for stream in listener.incoming() {
                let (near, far) = (stream.expect("a connection"), TcpStream::connect(to).expect("it runs"));
                let pair = |stream: &TcpStream| stream.try_clone().expect("a second handle");
                let (mut up, mut down) = ((pair(&near), pair(&far)), (far, near));
                thread::spawn(move || io::copy(&mut up.0, &mut up.1));
                thread::spawn(move || io::copy(&mut down.0, &mut down.1));
            }
        });
        assert_eq!(patient.record(&branch).expect("read"), None, "{kind:?}");
    }
}

#[test]
fn a_full_disk_publishes_nothing() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
        .arg(dir.path())
        .status()
        .expect("mount runs");
    if !mounted.success() {
        println!("skipped: this user may not mount");
        return;
    }
    let _mount = Unmount(dir.path().to_owned());
    let remote = open(&dir.path().display().to_string(), &[], &Tuning::default()).expect("opened");
    let source = tempfile::NamedTempFile::new().expect("a file");
    let bytes = noise(2 << 20, 1);
    std::fs::write(source.path(), &bytes).expect("written");
    let digest = Digest::of(&bytes);
    let error = remote.write(&digest, source.path()).expect_err("no room");
    assert!(error.to_string().contains("No space left"), "{error}");
    assert!(error.advice().is_some(), "{error:?}");
    assert!(!remote.has(&digest).expect("asked"));
    // The remains are gone, so there is room for a record.
    remote.set_record(&name(RecordKind::Branch, "main"), b"1", &[]).expect("written");
}

struct Unmount(std::path::PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}
