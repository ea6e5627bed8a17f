//! Invalid packs from a server.

use super::{
    Case, Dialogue, World,
    pack::{entry, head, pack, section, summed, zlib},
    reply,
};

/// Replaces the pack of the dialogue.
fn give(dialogue: &mut Dialogue, pack: &[u8]) {
    dialogue.pack = reply(section(pack));
}

/// Sends the valid pack with a changed body, and the right checksum.
fn give_changed(dialogue: &mut Dialogue, world: &World, change: impl Fn(&mut Vec<u8>)) {
    let mut body = world.whole[..world.whole.len() - 20].to_vec();
    change(&mut body);
    give(dialogue, &summed(body));
}

/// The base of deltas, and a delta that copies it.
const BASE: &[u8] = b"some content of a base";
const DELTA: &[u8] = &[22, 22, 0x90, 22];

/// Returns a pack of a base, and of an entry whose base is `distance` bytes before it.
fn with_delta(distance: &[u8], delta: &[u8]) -> Vec<u8> {
    pack(2, &[entry(3, b"", BASE), entry(6, distance, delta)])
}

/// The length of the base's entry, as the distance of a delta to it.
fn behind() -> [u8; 1] {
    [u8::try_from(entry(3, b"", BASE).len()).expect("short")]
}

pub(super) const CASES: &[Case] = &[
    Case { name: "no pack at all", fault: |talk, _| give(talk, b""), says: "early EOF|bad pack header" },
    Case {
        name: "half a header",
        fault: |talk, _| give(talk, b"PACK\0\0\0"),
        says: "early EOF|bad pack header",
    },
    Case {
        name: "no signature",
        fault: |talk, world| give_changed(talk, world, |body| body[0] = b'p'),
        says: "pack signature mismatch|bad pack header",
    },
    Case {
        name: "another version",
        fault: |talk, world| give_changed(talk, world, |body| body[7] = 9),
        says: "pack version 9 unsupported|bad pack header",
    },
    Case {
        name: "a wrong checksum",
        fault: |talk, world| give(talk, &[&world.whole[..world.whole.len() - 1], b"?"].concat()),
        says: "SHA1 mismatch",
    },
    Case {
        name: "no checksum",
        fault: |talk, world| give(talk, &world.whole[..world.whole.len() - 20]),
        says: "early EOF",
    },
    Case {
        name: "half a checksum",
        fault: |talk, world| give(talk, &world.whole[..world.whole.len() - 7]),
        says: "early EOF",
    },
    Case {
        name: "half a pack",
        fault: |talk, world| give(talk, &world.whole[..world.whole.len() / 2]),
        says: "early EOF",
    },
    Case {
        name: "no entries",
        fault: |talk, _| give(talk, &pack(0, &[])),
        says: "did not send all necessary objects",
    },
    Case {
        name: "fewer entries than promised",
        fault: |talk, world| give_changed(talk, world, |body| body[11] += 1),
        says: "fatal: ",
    },
    Case {
        name: "more entries than promised",
        fault: |talk, world| give_changed(talk, world, |body| body[11] -= 1),
        says: "SHA1 mismatch",
    },
    Case {
        name: "four billion promised entries",
        fault: |talk, world| give_changed(talk, world, |body| body[8..12].fill(0xff)),
        says: "fatal: ",
    },
    Case {
        name: "a bit of an entry changed",
        fault: |talk, world| give_changed(talk, world, |body| body[20] ^= 0x40),
        says: "fatal: ",
    },
    Case { name: "kind 0", fault: |talk, _| give(talk, &pack(1, &[entry(0, b"", b"x")])), says: "type 0" },
    Case { name: "kind 5", fault: |talk, _| give(talk, &pack(1, &[entry(5, b"", b"x")])), says: "type 5" },
    Case {
        name: "more content than promised",
        fault: |talk, _| give(talk, &pack(1, &[[head(3, 3), zlib(b"four")].concat()])),
        says: "inflate",
    },
    Case {
        name: "less content than promised",
        fault: |talk, _| give(talk, &pack(1, &[[head(3, 5), zlib(b"four")].concat()])),
        says: "inflate",
    },
    Case {
        name: "an exabyte promised",
        fault: |talk, _| give(talk, &pack(1, &[[head(3, 1 << 60), zlib(b"four")].concat()])),
        says: "fatal: ",
    },
    Case {
        name: "a size of more than 64 bits",
        fault: |talk, _| give(talk, &pack(1, &[[&[0xbf; 12][..], &[1], &zlib(b"four")].concat()])),
        says: "fatal: ",
    },
    Case {
        name: "no deflated data",
        fault: |talk, _| give(talk, &pack(1, &[[head(3, 4), b"four".to_vec()].concat()])),
        says: "inflate",
    },
    Case {
        name: "a delta to itself",
        fault: |talk, _| give(talk, &with_delta(&[0], DELTA)),
        says: "delta base offset is out of bound",
    },
    Case {
        name: "a delta to the header",
        fault: |talk, _| give(talk, &with_delta(&[behind()[0] + 12], DELTA)),
        says: "fatal: ",
    },
    Case {
        name: "a delta to before the pack",
        fault: |talk, _| give(talk, &with_delta(&[0xfe, 0xff, 0x7f], DELTA)),
        says: "delta base offset is out of bound",
    },
    Case {
        name: "a distance without end",
        fault: |talk, _| give(talk, &with_delta(&[0xff; 24], DELTA)),
        says: "fatal: ",
    },
    Case {
        name: "a delta into an entry",
        fault: |talk, _| give(talk, &with_delta(&[3], DELTA)),
        says: "unresolved delta",
    },
    Case {
        name: "a delta to an unknown object",
        fault: |talk, _| give(talk, &pack(1, &[entry(7, &[7; 20], DELTA)])),
        says: "unresolved delta",
    },
    Case {
        name: "a delta for another base",
        fault: |talk, _| give(talk, &with_delta(&behind(), &[21, 21, 0x90, 21])),
        says: "failed to apply delta",
    },
    Case {
        name: "a delta that copies too much",
        fault: |talk, _| give(talk, &with_delta(&behind(), &[22, 99, 0x90, 99])),
        says: "failed to apply delta",
    },
    Case {
        name: "a delta that makes too little",
        fault: |talk, _| give(talk, &with_delta(&behind(), &[22, 99, 0x90, 9])),
        says: "failed to apply delta",
    },
    Case {
        name: "a delta with a reserved instruction",
        fault: |talk, _| give(talk, &with_delta(&behind(), &[22, 1, 0])),
        says: "failed to apply delta",
    },
    Case {
        name: "a delta that promises an exabyte",
        fault: |talk, _| {
            give(
                talk,
                &with_delta(&behind(), &[22, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 16, 0x90, 22]),
            )
        },
        says: "fatal: ",
    },
    Case {
        name: "a pack without the commits",
        fault: |talk, _| give(talk, &pack(1, &[entry(3, b"", BASE)])),
        says: "did not send all necessary objects",
    },
    Case {
        name: "a pack without a blob",
        fault: |talk, world| give(talk, &world.without_blob),
        says: "did not send all necessary objects|did not receive expected object",
    },
];
