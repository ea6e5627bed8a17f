//! Users who stall, die, or send what is no message.

use std::{
    io::{self, Write as _},
    mem::MaybeUninit,
    net::{TcpListener, TcpStream},
    os::fd::{AsFd as _, OwnedFd},
    time::{Duration, Instant},
};

use mountd::wire::{Code, REQUEST, Request};
use rustix::{
    net::{
        AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
        SocketFlags, SocketType, connect, recv, sendmsg, socket_with, sockopt::set_socket_linger,
    },
    process::{Pid, Signal, kill_process},
};

use crate::scene::{OTHER, Scene, named, play, readable};

/// Connects as a program that trusts any service.
pub(crate) fn connected(scene: &Scene) -> OwnedFd {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let socket = socket.expect("a socket");
    let path = std::fs::read_link(scene.at("socket")).expect("a link");
    connect(&socket, &SocketAddrUnix::new(&path).expect("a short path")).expect("it listens");
    socket
}

fn send(socket: &OwnedFd, bytes: &[u8], descriptors: &[OwnedFd]) -> io::Result<()> {
    let descriptors: Vec<_> = descriptors.iter().map(|fd| fd.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)));
    sendmsg(socket, &[io::IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Returns the code of the next answer; `None` at the end of the connection.
pub(crate) fn answer(socket: &OwnedFd) -> Option<u32> {
    let mut bytes = [0; 512];
    match recv(socket, &mut bytes, RecvFlags::empty()) {
        Ok((_, 512)) => Some(u32::from_ne_bytes(bytes[4..8].try_into().expect("four bytes"))),
        Ok(_) | Err(_) => None,
    }
}

fn image() -> Request {
    Request::Image { name: b"files".to_vec() }
}

fn good(scene: &Scene) -> Vec<OwnedFd> {
    vec![named(scene.at("mine")), readable(scene.at("mine/image")), readable(scene.at("mine/blob"))]
}

#[test]
fn malformed_messages_end_the_connection() {
    let Some(mut stage) = play("silent::malformed_messages_end_the_connection", &[], |scene| {
        let hello = Request::Hello.encode();
        let mut rows: Vec<(String, Vec<u8>)> = vec![
            ("one byte".into(), vec![1]),
            ("a short message".into(), hello[..REQUEST - 1].to_vec()),
            ("a long message".into(), [&hello[..], &[0]].concat()),
            ("a huge message".into(), vec![0; 100_000]),
        ];
        for at in 0..REQUEST {
            let mut bytes = hello;
            bytes[at] ^= 0x80;
            rows.push((format!("byte {at}"), bytes.to_vec()));
        }
        for (what, bytes) in rows {
            let socket = connected(scene);
            send(&socket, &bytes, &[]).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(answer(&socket), Some(Code::Malformed as u32), "{what}");
        }
        let socket = connected(scene);
        let many: Vec<OwnedFd> = (0..250).map(|_| named("/")).collect();
        send(&socket, &image().encode(), &many).expect("sent");
        assert_eq!(answer(&socket), Some(Code::Malformed as u32), "too many descriptors");
        assert_eq!(scene.ask(&Request::Hello, vec![]), Code::Done);
    }) else {
        return;
    };
    assert!(stage.mounts().is_empty());
    assert!(stage.service.is_alive());
}

#[test]
fn a_silent_user_is_left() {
    let options = ["--patience", "1", "--connections", "3"];
    let Some(mut stage) = play("silent::a_silent_user_is_left", &options, |scene| {
        let silent = [connected(scene), connected(scene), connected(scene)];
        // The service accepts in order.
        let fourth = connected(scene);
        assert_eq!(answer(&fourth), Some(Code::Busy as u32));
        let begun = Instant::now();
        silent.iter().for_each(|socket| assert_eq!(answer(socket), None));
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
        // Their processes are gone a moment later.
        while scene.ask(&Request::Hello, vec![]) == Code::Busy {
            assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
        }
        // A user who reads no answer cannot ask for ever.
        let socket = connected(scene);
        let hello = Request::Hello.encode();
        while send(&socket, &hello, &[]).is_ok() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
        }
    }) else {
        return;
    };
    assert!(stage.service.is_alive());
}

/// A user dies before the request, after it, and after the answer.
#[test]
fn a_dying_user_leaves_a_mount_or_none() {
    let Some(mut stage) = play("silent::a_dying_user_leaves_a_mount_or_none", &[], |scene| {
        for round in 0..60 {
            let socket = connected(scene);
            if round % 3 > 0 {
                send(&socket, &image().encode(), &good(scene)).expect("sent");
            }
            if round % 3 > 1 {
                assert!(answer(&socket).is_some());
            }
            drop(socket);
            // Until the service has nothing more to do with it.
            let begun = Instant::now();
            while round % 3 > 0 && scene.unmount("mine/files") != Code::Done {
                assert!(begun.elapsed() < Duration::from_secs(30), "round {round}");
            }
        }
    }) else {
        return;
    };
    assert!(stage.mounts().is_empty());
    assert_eq!(stage.service.table(), Vec::<String>::new());
    assert!(stage.service.is_alive());
}

/// The kernel closes a descriptor that nobody received in the last process that has the connection,
/// and some take as long as the user likes. Other users do not wait for that.
#[test]
fn a_descriptor_that_takes_long_to_close_stops_nobody_else() {
    const CONNECTIONS: usize = 5;
    let test = "silent::a_descriptor_that_takes_long_to_close_stops_nobody_else";
    let Some(mut stage) = play(test, &["--connections", "1"], |scene| {
        let Ok(port) = std::fs::read_to_string(scene.at("port")) else { return };
        if sys::user::effective_uid() != testkit::disk::ORDINARY {
            assert_eq!(scene.ask(&Request::Hello, vec![]), Code::Done);
            return;
        }
        for _ in 0..CONNECTIONS {
            let slow = TcpStream::connect(("127.0.0.1", port.parse().expect("a number"))).expect("connected");
            set_socket_linger(&slow, Some(Duration::from_secs(100_000))).expect("set");
            slow.set_nonblocking(true).expect("set");
            // Until nothing more fits: nobody reads it.
            while (&slow).write(&[0; 65_536]).is_ok() {}
            let socket = connected(scene);
            send(&socket, &Request::Hello.encode(), &[slow.into()]).expect("sent");
        }
    }) else {
        return;
    };
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    std::fs::write(stage.scene.at("port"), port.to_string()).expect("written");
    // The messages are there when the service accepts.
    let service = Pid::from_raw(stage.service.pid() as i32).expect("a process");
    kill_process(service, Signal::STOP).expect("root may");
    stage.run(testkit::disk::ORDINARY, test, &[]);
    let peers: Vec<TcpStream> = (0..CONNECTIONS).map(|_| listener.accept().expect("connected").0).collect();
    kill_process(service, Signal::CONT).expect("root may");
    stage.run(OTHER, test, &[]);
    assert!(stage.service.is_alive());
    drop(peers);
}
