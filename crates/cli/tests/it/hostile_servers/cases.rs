//! Faults of the protocol: capabilities, refs, sections and side bands.

use testkit::servers::scripted::{Reply, Then, band, packet};

use super::{Case, World, packets, reply};

/// A reply after which the server hangs up.
fn last(bytes: impl AsRef<[u8]>) -> Reply {
    Reply { bytes: bytes.as_ref().to_vec(), then: Then::HangUp, ..Reply::default() }
}

/// Returns a ref advertisement with one line.
fn one_ref(line: &str) -> Reply {
    reply(packets(&[line]))
}

fn greeting(lines: &[&str]) -> Reply {
    reply(packets(lines))
}

/// Returns a greeting of protocol version 0 with these capabilities.
fn version_0(world: &World, capabilities: &str) -> Reply {
    let head = &world.second;
    reply(packets(&[format!("{head} HEAD\0{capabilities}\n"), format!("{head} refs/heads/main\n")]))
}

pub(super) const CASES: &[Case] = &[
    // The greeting.
    Case {
        name: "hangs up at once",
        fault: |talk, _| talk.greeting = last(""),
        says: "Could not read from remote repository",
    },
    Case {
        name: "refuses",
        fault: |talk, _| talk.greeting = last(packet("ERR access denied")),
        says: "fatal: remote error: access denied",
    },
    Case {
        name: "speaks another protocol",
        fault: |talk, _| talk.greeting = last("HTTP/1.1 400 Bad Request\r\n\r\n"),
        says: "protocol error: bad line length character: HTTP",
    },
    Case { name: "half a length", fault: |talk, _| talk.greeting = last("00"), says: "fatal: " },
    Case {
        name: "length 3",
        fault: |talk, _| talk.greeting = last("0003"),
        says: "protocol error: bad line length 3",
    },
    Case {
        name: "too long a line",
        fault: |talk, _| talk.greeting = last([b"fff5".as_slice(), &[b'x'; 66000]].concat()),
        says: "protocol error: bad line length 65521",
    },
    Case { name: "half a line", fault: |talk, _| talk.greeting = last("0040version 2\n"), says: "fatal: " },
    Case { name: "version 3", fault: |talk, _| talk.greeting = greeting(&["version 3\n"]), says: "fatal: " },
    Case {
        name: "no end of the capabilities",
        fault: |talk, _| talk.greeting = last(packet("version 2\n")),
        says: "fatal: ",
    },
    Case {
        name: "no command fetch",
        fault: |talk, _| talk.greeting = greeting(&["version 2\n", "ls-refs\n"]),
        says: "fatal: ",
    },
    Case {
        name: "an unknown object format",
        fault: |talk, _| {
            talk.greeting = greeting(&["version 2\n", "ls-refs\n", "fetch\n", "object-format=md5\n"])
        },
        says: "unknown object format 'md5' specified by server",
    },
    // The refs.
    Case { name: "hangs up before the refs", fault: |talk, _| talk.refs = last(""), says: "fatal: " },
    Case {
        name: "hangs up among the refs",
        fault: |talk, world| talk.refs = last(packet(format!("{} HEAD\n", world.second))),
        says: "fatal: ",
    },
    Case {
        name: "refuses to list refs",
        fault: |talk, _| talk.refs = last(packet("ERR no refs for you")),
        says: "fatal: remote error: no refs for you",
    },
    Case {
        name: "a ref without a value",
        fault: |talk, _| talk.refs = one_ref("refs/heads/main\n"),
        says: "fatal: ",
    },
    Case {
        name: "a ref with letters for a value",
        fault: |talk, _| talk.refs = one_ref(&format!("{} refs/heads/main\n", "z".repeat(40))),
        says: "invalid ls-refs response",
    },
    Case {
        name: "a ref with a short value",
        fault: |talk, _| talk.refs = one_ref("1234 refs/heads/main\n"),
        says: "invalid ls-refs response",
    },
    Case {
        name: "a peeled value that is none",
        fault: |talk, world| talk.refs = one_ref(&format!("{} refs/tags/a peeled:zz\n", world.second)),
        says: "invalid ls-refs response",
    },
    Case {
        name: "a ref list that ends with a delimiter",
        fault: |talk, world| {
            talk.refs =
                last([packet(format!("{} refs/heads/main\n", world.second)), b"0001".to_vec()].concat())
        },
        says: "expected flush after ref listing",
    },
    // The sections.
    Case { name: "hangs up instead of a pack", fault: |talk, _| talk.pack = last(""), says: "fatal: " },
    Case {
        name: "refuses to send a pack",
        fault: |talk, _| talk.pack = last(packet("ERR upload-pack: not our ref")),
        says: "fatal: remote error: upload-pack: not our ref",
    },
    Case {
        name: "an unknown section",
        fault: |talk, _| talk.pack = last(packet("nonsense\n")),
        says: "fatal: ",
    },
    Case { name: "an end instead of a section", fault: |talk, _| talk.pack = last("0000"), says: "fatal: " },
    Case {
        name: "a section of nothing",
        fault: |talk, _| talk.pack = last([packet("packfile\n"), b"0000".to_vec()].concat()),
        says: "early EOF|bad pack header",
    },
    Case {
        name: "hangs up in the section",
        fault: |talk, _| talk.pack = last(packet("packfile\n")),
        says: "fatal: ",
    },
    Case {
        name: "a shallow commit that is none",
        fault: |talk, _| {
            talk.pack = last([packet("shallow-info\n"), packet("shallow zz"), b"0001".to_vec()].concat())
        },
        says: "fatal: ",
    },
    Case {
        name: "a band that does not exist",
        fault: |talk, _| talk.pack = last([packet("packfile\n"), band(4, b"PACK")].concat()),
        says: "bad band #4|early EOF",
    },
    Case {
        name: "fails with a message",
        fault: |talk, _| talk.pack = last([packet("packfile\n"), band(3, b"out of memory")].concat()),
        says: "remote: out of memory",
    },
    Case {
        name: "hangs up in a packet",
        fault: |talk, world| {
            talk.pack =
                last([packet("packfile\n"), b"2000\x01".to_vec(), world.whole[..30].to_vec()].concat())
        },
        says: "fatal: ",
    },
    Case {
        name: "hangs up after half a pack",
        fault: |talk, world| talk.pack = last([packet("packfile\n"), band(1, &world.whole[..60])].concat()),
        says: "fatal: ",
    },
    Case {
        name: "a length that is none in the pack",
        fault: |talk, world| {
            talk.pack = last([packet("packfile\n"), band(1, &world.whole[..60]), b"zzzz".to_vec()].concat())
        },
        says: "protocol error: bad line length character: zzzz|early EOF",
    },
    // Version 0.
    Case {
        name: "version 0: a value that is none",
        fault: |talk, _| talk.greeting = last(packets(&["zzzz HEAD\0\n"])),
        says: "fatal: ",
    },
    Case {
        name: "version 0: hangs up among the refs",
        fault: |talk, world| talk.greeting = last(packet(format!("{} HEAD\0ofs-delta\n", world.second))),
        says: "fatal: ",
    },
    Case {
        name: "version 0: another object format",
        fault: |talk, world| talk.greeting = version_0(world, "object-format=md5"),
        says: "fatal: ",
    },
    Case {
        name: "version 0: no answer to done",
        fault: |talk, world| {
            talk.greeting = version_0(world, "side-band-64k");
            talk.pack = last("")
        },
        says: "fatal: ",
    },
    Case {
        name: "version 0: neither ACK nor NAK",
        fault: |talk, world| {
            talk.greeting = version_0(world, "side-band-64k");
            talk.pack = last(packet("PERHAPS\n"))
        },
        says: "expected ACK/NAK, got 'PERHAPS'",
    },
    Case {
        name: "version 0: half a pack",
        fault: |talk, world| {
            talk.greeting = version_0(world, "ofs-delta");
            talk.pack = last([packet("NAK\n"), world.whole[..60].to_vec()].concat())
        },
        says: "early EOF",
    },
    Case {
        name: "version 0: fails with a message",
        fault: |talk, world| {
            talk.greeting = version_0(world, "side-band-64k");
            talk.pack = last([packet("NAK\n"), band(3, b"no memory")].concat())
        },
        says: "remote: no memory",
    },
];
