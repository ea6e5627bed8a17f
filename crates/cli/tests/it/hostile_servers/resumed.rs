//! Servers that break off the first pack, and send wrong data when the clone is resumed.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use super::*;

/// Clones twice from a server that breaks off its first pack, and replies with `reply` to a request
/// for other objects than the head. Returns the second run, and the number of packs requested.
fn resume(world: &World, reply: Reply) -> (Sandbox, Run, usize) {
    let dialogue = world.dialogue();
    let (whole, head) = (world.whole.clone(), format!("want {}", world.second));
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let server = Scripted::start(Carrier::Git, move |question, request| match question {
        Question::Greeting => dialogue.greeting.clone(),
        Question::Refs => dialogue.refs.clone(),
        Question::Pack if counted.fetch_add(1, Ordering::SeqCst) == 0 => {
            let section = pack::section(&whole);
            // Without the trailer, the last blob is incomplete.
            Reply { bytes: section[..section.len() - 30].into(), then: Then::HangUp, ..Reply::default() }
        }
        Question::Pack if contains(request, &head) => dialogue.pack.clone(),
        Question::Pack => reply.clone(),
        _ => Reply { then: Then::HangUp, ..Reply::default() },
    });
    let sandbox = Sandbox::new();
    let url = server.url();
    let clone = || {
        let mut command = sandbox.repo("").command(Path::new(SAPWOOD));
        command.args(["-c", "sapwood.resumableClone=true", "clone", "-q", &url, "copy"]);
        run(command, &sandbox.path())
    };
    let first = clone();
    assert_eq!(first.code, 128, "{}", first.stderr);
    assert!(sandbox.repo("copy").exists(".git/sapwood-transfer"), "{}", first.stderr);
    let second = clone();
    (sandbox, second, asked.load(Ordering::SeqCst))
}

#[test]
fn a_resumed_clone_trusts_no_server() {
    let world = World::new();
    let other = pack::pack(1, &[pack::entry(3, b"", b"another blob")]);
    let broken = pack::summed(b"PACK\0\0\0\x02\0\0\0\x01\x35 no blob at all".to_vec());
    let section = |pack: &[u8]| reply(pack::section(pack));
    for (name, answer, says) in [
        ("another object", section(&other), "remote did not send all necessary objects"),
        ("no object", section(&pack::pack(0, &[])), "remote did not send all necessary objects"),
        ("garbage", section(&broken), "pack has bad object at offset 12"),
    ] {
        let (sandbox, run, asked) = resume(&world, answer);
        assert_eq!((run.code, asked), (128, 2), "{name}: {}", run.stderr);
        assert!(run.stderr.contains_str(says), "{name}: {}", run.stderr);
        let left = fs::read_dir(sandbox.path().join("copy")).map_or(0, Iterator::count);
        assert_eq!(left, 0, "{name}: files are left");
    }
    // From such servers the clone requests the whole pack instead.
    let err = reply(packet("ERR upload-pack: not our ref\n"));
    let hang_up = Reply { then: Then::HangUp, ..Reply::default() };
    for (name, answer, questions) in [("refuses", err, 3), ("hangs up", hang_up, 4)] {
        let (sandbox, run, asked) = resume(&world, answer);
        assert_eq!((run.code, asked), (0, questions), "{name}: {}", run.stderr);
        let copy = sandbox.repo("copy");
        copy.git(&["fsck", "--strict"]);
        assert_eq!(copy.git(&["status", "--porcelain"]).stdout, "", "{name}");
        assert!(!copy.exists(".git/sapwood-transfer") && !copy.exists(".git/sapwood-clone"), "{name}");
    }
}
